//! A store that another process serves, and the embedded one beside it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use spikelet::cluster::{Cluster, ClusterBuilder, ClusterSet};
use spikelet::{Operation, RecordSet, RecordStore, Result, Set, Store, WritePolicy};

/// A running `spikelet serve`; it ends with this.
pub struct Served {
    child: Child,
    pub addr: String,
}

impl Served {
    /// Serves a namespace `test` in memory, as the Community Edition would, which refuses lists
    /// with a persisted index there.
    pub fn in_memory() -> Self {
        Self::with(&["--memory", "--like-ce"])
    }

    pub fn with(arguments: &[&str]) -> Self {
        Self::at("127.0.0.1:0", arguments)
    }

    /// Serves a namespace `test` at an address.
    pub fn at(addr: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
            .args(["serve", "--listen", addr, "--namespace", "test"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let addr = line.trim().strip_prefix("ready ").unwrap().to_owned();
        Self { child, addr }
    }

    pub fn cluster(&self) -> Cluster {
        self.builder().connect().unwrap()
    }

    pub fn builder(&self) -> ClusterBuilder {
        Cluster::builder(&self.addr).namespace("test")
    }

    /// Stops the server, and waits until it has stopped.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    }

    /// Lets a stopped server go on.
    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The bytes of a row of an answer before its fields and bins. The end of an answer to a batch is a
/// row with a flag in its fourth byte.
pub const ROW_HEADER: usize = 22;

/// Passes bytes on between clients and a served store, and shows the body of each answer to a
/// request for records to `change` before. Returns the address.
pub fn answering(served: &str, change: impl Fn(&mut Vec<u8>) + Clone + Send + 'static) -> String {
    const MESSAGE: u8 = 3;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let served = served.to_owned();
    thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut server = TcpStream::connect(&served).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from, &mut to));
            let change = change.clone();
            thread::spawn(move || {
                let mut header = [0; 8];
                while server.read_exact(&mut header).is_ok() {
                    let len = u64::from_be_bytes(header) & 0xffff_ffff_ffff;
                    let mut body = vec![0; len as usize];
                    server.read_exact(&mut body).unwrap();
                    if header[1] == MESSAGE {
                        change(&mut body);
                    }
                    if client.write_all(&header).is_err() || client.write_all(&body).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// A set of a served store, and the same one embedded.
pub struct Both {
    pub cluster: ClusterSet,
    pub embedded: Set,
    _served: Served,
}

impl Both {
    pub fn new() -> Self {
        let served = Served::in_memory();
        let store = Store::builder()
            .namespace(spikelet::NamespaceConfig::new("test"))
            .open()
            .unwrap();
        Self {
            cluster: served.cluster().records("both").unwrap(),
            embedded: store.set("both").unwrap(),
            _served: served,
        }
    }

    /// Makes the same call on both, which must answer the same: generation and results, or the code
    /// of the error.
    pub fn agree(&self, what: &str, key: &str, operations: &[Operation]) {
        self.agree_with(what, &WritePolicy::default(), key, operations);
    }

    pub fn agree_with(
        &self,
        what: &str,
        policy: &WritePolicy,
        key: &str,
        operations: &[Operation],
    ) {
        let ours = self.embedded.operate_on(policy, &key.into(), operations);
        let theirs = self.cluster.operate_on(policy, &key.into(), operations);
        let shown = |result: &Result<spikelet::OperateResult>| match result {
            Ok(result) => {
                let values: Vec<_> = result
                    .results
                    .iter()
                    // A cluster leaves out nil results.
                    .filter(|result| result.value != spikelet::Value::Nil)
                    .map(|result| (result.operation, result.bin, plain(&result.value)))
                    .collect();
                format!("{} {values:?}", result.generation)
            }
            Err(error) => format!("code {}", error.result_code()),
        };
        assert_eq!(shown(&theirs), shown(&ours), "{what}: {theirs:?}");
    }

    /// Compares what both hold.
    pub fn same_record(&self, what: &str, key: &str) {
        let read = [spikelet::operations::get()];
        self.agree(what, key, &read);
    }
}

/// A value without the order of its lists and maps, which the client drops.
fn plain(value: &spikelet::Value) -> String {
    match value {
        spikelet::Value::List(list) => {
            let items: Vec<String> = list.iter().map(plain).collect();
            format!("[{}]", items.join(", "))
        }
        spikelet::Value::Map(map) => {
            let entry = |(key, value): &(spikelet::Value, spikelet::Value)| {
                format!("{}: {}", plain(key), plain(value))
            };
            let entries: Vec<String> = map.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        value => format!("{value:?}"),
    }
}
