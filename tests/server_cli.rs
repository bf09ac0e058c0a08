//! `spikelet serve`, from outside.
#![cfg(all(feature = "server", feature = "cli"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod server_client;

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use server_client::admin;
use server_client::transaction::*;
use server_client::*;
use tempfile::TempDir;

/// A running `spikelet serve`.
struct Serving {
    child: Child,
    addr: SocketAddr,
}

/// A test that fails leaves no server.
impl Drop for Serving {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve_by(arguments: &[&str]) -> Serving {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("serve")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let addr = line.trim().strip_prefix("ready ").unwrap();
    let addr = addr.parse().unwrap();
    Serving { child, addr }
}

impl Serving {
    /// Ends the program, and returns its log.
    fn end(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("serve")
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn it_says_when_it_is_ready_and_ends_when_it_is_told_to() {
    let serving = serve_by(&[
        "--memory",
        "--listen",
        "127.0.0.1:0",
        "--namespace",
        "test,bar",
    ]);
    assert_ne!(serving.addr.port(), 0);
    let mut wire = Wire::to(serving.addr);
    assert_eq!(wire.info("namespaces\n"), ["bar;test"]);
    let config = wire.info("get-config:context=namespace;namespace=test\n");
    let limit = |config: &str| {
        let mut pairs = config.split(';');
        pairs.find_map(|pair| Some(pair.strip_prefix("transaction-pending-limit=")?.to_owned()))
    };
    assert_eq!(limit(&config[0]).as_deref(), Some("20"));
    assert_eq!(wire.ask(&Message::put(1, "i", 7)).code, 0);
    serving.end();
    assert_eq!(wire.receive(), None);
}

#[test]
fn a_directory_keeps_its_records() {
    let dir = TempDir::new().unwrap();
    let arguments = [
        "--dir",
        dir.path().to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ];
    let serving = serve_by(&arguments);
    Wire::to(serving.addr).ask(&Message::put(1, "i", 7));
    serving.end();
    let serving = serve_by(&arguments);
    assert_eq!(Wire::to(serving.addr).ask(&Message::get(1)).int("i"), 7);
    // It is one server's.
    let error = refused(&arguments);
    assert!(error.contains("device-0"), "{error}");
    serving.end();
}

#[test]
fn a_configuration_of_aerospike_is_read_as_far_as_it_applies() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("aerospike.conf");
    let text = "
        service { cluster-name edge
            pidfile /var/run/asd.pid }
        network { service { address localhost
            port 3999 } }
        namespace bar { default-ttl 1h
            transaction-pending-limit 0
            storage-engine memory { data-size 1G }
            wibble 7 }
    ";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    // The command line takes precedence over the file.
    let serving = serve_by(&["--config", path, "--listen", "127.0.0.1:0"]);
    let mut wire = Wire::to(serving.addr);
    assert_eq!(wire.info("namespaces\ncluster-name\n"), ["bar", "edge"]);
    let told = wire.info("namespace/bar\n").remove(0);
    assert!(told.contains("default-ttl=3600"), "{told}");
    assert!(told.contains(";transaction-pending-limit=0;"), "{told}");
    let log = serving.end();
    assert!(
        log.contains("no meaning here: line 3: service.pidfile"),
        "{log}"
    );
    assert!(
        log.contains("not known and ignored: line 9: namespace.wibble 7"),
        "{log}"
    );
    std::fs::write(path, "service {\n proto-fd-max many\n}\n").unwrap();
    let error = refused(&["--config", path]);
    assert!(
        error.contains("line 2: service.proto-fd-max = \"many\""),
        "{error}"
    );
}

#[test]
fn an_address_in_use_is_told() {
    let serving = serve_by(&["--listen", "127.0.0.1:0"]);
    let error = refused(&["--listen", &serving.addr.to_string()]);
    assert!(
        error.contains(&format!("cannot listen on {}", serving.addr)),
        "{error}"
    );
    serving.end();
}

/// The address that a server has logged for its monitor, and what it logs from there on.
fn monitor_of(serving: &mut Serving) -> (String, BufReader<std::process::ChildStderr>) {
    let mut log = BufReader::new(serving.child.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "no monitor");
        if let Some((_, addr)) = line.trim().split_once("monitor addr=") {
            return (addr.to_owned(), log);
        }
    }
}

#[test]
fn forty_clients_meet_error_14_and_top_shows_the_record() {
    // The first write keeps the record for a minute, far longer than this takes; killing the server
    // ends it.
    let mut serving = serve_by(
        &"--listen 127.0.0.1:0 --monitor 127.0.0.1:0 --hold-ms 60000 --hot-set demo"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let (addr, _log) = monitor_of(&mut serving);
    let put = Message {
        timeout_ms: 3_600_000,
        ..Message::put(1, "i", 7)
    };
    let waiting: Vec<Wire> = (0..22)
        .map(|_| {
            let mut wire = Wire::to(serving.addr);
            wire.send(&put.frame());
            wire
        })
        .collect();
    let top = || {
        let output = Command::new(env!("CARGO_BIN_EXE_spikelet"))
            .args(["top", "--once", "--json", "--host", &addr])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    until(|| top()["namespaces"][0]["waits"] == 21);
    for _ in 22..40 {
        assert_eq!(Wire::to(serving.addr).ask(&put).code, 14);
    }
    until(|| top()["namespaces"][0]["key_busy"] == 18);
    let seen = top();
    let hot = &seen["namespaces"][0]["hot"][0];
    assert_eq!(hot["digest"], digest(1).to_string());
    assert_eq!((&hot["waits"], &hot["key_busy"]), (&21.into(), &18.into()));
    assert!(seen["interval_ms"].as_u64() > Some(0));
    drop(waiting);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
}

const ACCOUNTS: i64 = 4;
const CLIENTS: i64 = 2;

/// A client's knowledge of its transactions: how many are committed, and the one with an unanswered
/// mark.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    committed: i64,
    in_doubt: Option<i64>,
}

/// Moves 1 from an account to the next, and counts it, in transactions, until the server is gone.
fn transfer_until_killed(addr: SocketAddr, client: i64, done: i64, moved: &AtomicI64) -> Progress {
    let mut wire = Wire::to(addr);
    let mut progress = Progress {
        committed: done,
        in_doubt: None,
    };
    let add = |key: i64, amount: i64| {
        Message::about(0, WRITE, 0, key).op(5, 1, "i", &amount.to_be_bytes())
    };
    for attempt in 1_i64.. {
        // A number of its own for each client, round and attempt.
        let number = (done * CLIENTS + client + 1) << 32 | attempt;
        let txn = Txn::new(number);
        let (from, to) = (attempt % ACCOUNTS, (attempt + 1 + client) % ACCOUNTS);
        let writes = [add(from, -1), add(to, 1), add(100 + client, 1)];
        let Some(begun) = wire.try_ask(&operate(number, true, &[from, to, 100 + client])) else {
            return progress;
        };
        assert_eq!(begun.code, 0);
        let mut codes = writes
            .into_iter()
            .map(|write| wire.try_ask(&txn.inside(write)).map(|answer| answer.code));
        let written = codes.find(|code| *code != Some(0));
        match written {
            Some(None) => return progress,
            Some(Some(code)) => assert_eq!(code, BLOCKED),
            None => {
                progress.in_doubt = Some(number);
                match wire.try_ask(&mark(number)) {
                    None => return progress,
                    Some(answer) => assert_eq!(answer.code, 0),
                }
                progress.in_doubt = None;
                progress.committed += 1;
                moved.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Every other client leaves its monitors.
        if client == 0 || written.is_some() {
            let Some(closed) = wire.try_ask(&close(number)) else {
                return progress;
            };
            assert_eq!(closed.code, 0);
        }
    }
    progress
}

#[test]
fn a_killed_server_has_committed_transactions_whole_or_not_at_all() {
    let rounds = match std::env::var_os("SPIKELET_LONG") {
        Some(_) => 50,
        None => 3,
    };
    let dir = TempDir::new().unwrap();
    let dir = dir.path().to_str().unwrap();
    let serve = || serve_by(&["--dir", dir, "--listen", "127.0.0.1:0"]);
    let mut known = [Progress::default(); CLIENTS as usize];
    let mut serving = serve();
    for round in 0..rounds {
        let addr = serving.addr;
        let moved = [const { AtomicI64::new(0) }; CLIENTS as usize];
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .zip(&moved)
                .map(|(client, moved)| {
                    let done = known[client as usize].committed;
                    scope.spawn(move || transfer_until_killed(addr, client, done, moved))
                })
                .collect();
            until(|| {
                let moved = moved.each_ref().map(|moved| moved.load(Ordering::Relaxed));
                !moved.contains(&0) && moved.iter().sum::<i64>() >= 30 + 7 * round
            });
            serving.child.kill().unwrap();
            serving.child.wait().unwrap();
            for (client, progress) in clients.into_iter().zip(&mut known) {
                *progress = client.join().unwrap();
            }
        });
        serving = serve();
        let mut wire = Wire::to(serving.addr);
        let value = |wire: &mut Wire, key: i64| {
            let answer = wire.ask(&Message::get(key));
            if answer.code == 2 { 0 } else { answer.int("i") }
        };
        let sum: i64 = (0..ACCOUNTS).map(|key| value(&mut wire, key)).sum();
        assert_eq!(sum, 0, "round {round}");
        for (client, progress) in (0..).zip(&mut known) {
            // Who has not heard whether it is committed asks again.
            if let Some(number) = progress.in_doubt {
                match wire.ask(&mark(number)).code {
                    COMMITTED => progress.committed += 1,
                    code => assert_eq!(code, EXPIRED),
                }
            }
            let counted = value(&mut wire, 100 + client);
            assert_eq!(
                counted, progress.committed,
                "round {round}, client {client}"
            );
            // Nothing is locked.
            let touch = Message::about(0, WRITE, 0, client).op(11, 0, "", &[]);
            assert!(matches!(wire.ask(&touch).code, 0 | 2));
        }
    }
    assert!(known.iter().all(|client| client.committed > 0));
    serving.end();
}

#[test]
fn a_remote_address_is_refused_until_users_or_an_option_allow_it() {
    let dir = TempDir::new().unwrap();
    let open = refused(&["--memory", "--listen", "0.0.0.0:0"]);
    assert!(
        open.contains("--security") && open.contains("--allow-remote"),
        "{open}"
    );
    let first = refused(&["--memory", "--listen", "0.0.0.0:0", "--security"]);
    assert!(first.contains("--first-password-file"), "{first}");
    let local = [
        "--memory",
        "--listen",
        "127.0.0.1:0",
        "--monitor",
        "0.0.0.0:0",
    ];
    let local = refused(&local);
    assert!(
        local.contains("--allow-remote") && !local.contains("listening"),
        "{local}"
    );

    let (password, audit) = (dir.path().join("password"), dir.path().join("audit.log"));
    let given = ["--first-password-file", password.to_str().unwrap()];
    let secured = ["--memory", "--listen", "0.0.0.0:0", "--security"];
    let with_password = [&secured[..], &given].concat();
    std::fs::write(&password, "\n").unwrap();
    let empty = refused(&with_password);
    assert!(
        empty.contains("write the password in its first line"),
        "{empty}"
    );
    std::fs::write(&password, "better than admin\n").unwrap();
    let serving = serve_by(&[
        "--memory",
        "--listen",
        "0.0.0.0:0",
        "--security",
        "--first-password-file",
        password.to_str().unwrap(),
        "--audit-file",
        audit.to_str().unwrap(),
        "--audit-data",
        "test.demo",
    ]);
    let mut wire = Wire::to(([127, 0, 0, 1], serving.addr.port()).into());
    assert_eq!(wire.log_in("admin", admin::ADMIN).0, 65);
    assert_eq!(wire.log_in("admin", admin::BETTER).0, 0);
    assert_eq!(wire.ask(&Message::get(1)).code, 81);
    let noted = std::fs::read_to_string(&audit).unwrap();
    assert!(
        noted.contains("refused (65)") && noted.contains("of test.demo: refused (81)"),
        "{noted}"
    );
    assert!(!noted.contains("better"), "{noted}");
    serving.end();
}
