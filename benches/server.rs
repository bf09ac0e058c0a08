//! Requests of prepared bytes to `spikelet serve` in another process: gets of records of 1 KiB, and as many puts as gets.
//!
//! `cargo bench --bench server --features cli,server` measures the program as built. With several
//! programs, between commas, in `SPIKELET_PROGRAMS` each of them is asked in turn, and the medians
//! of all rounds are printed beside the first program's. `SPIKELET_REQUESTS` has the requests of a
//! round.
//!
//! Two threads send the requests; each connection has one under way. Other work on the machine moves rates, and moves the
//! processor time of the server less.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{KEY_BYTES, Random, at_once, key};

const RECORDS: u64 = 100_000;
const VALUE_BYTES: usize = 1024;
/// Each value is a part of these random bytes, so that no put is an edit of the value before.
const POOL_BYTES: usize = 1 << 16;
/// An odd number: the median is one of them.
const ROUNDS: usize = 5;
const REQUESTS: u64 = 200_000;
/// Threads that send requests.
const THREADS: u64 = 2;

/// Of a frame's head, and of a message's.
const FRAME_BYTES: usize = 8;
const HEAD_BYTES: usize = 22;
const CODE_AT: usize = FRAME_BYTES + 5;
/// Behind the heads, the fields of the namespace and the set, and the head of its own field.
const DIGEST_AT: usize = FRAME_BYTES + HEAD_BYTES + 2 * 9 + 5;

/// How many of a hundred requests are puts, and how many connections there are.
const CASES: [(u64, u64); 4] = [(0, 8), (0, 32), (50, 8), (50, 32)];

struct Served {
    child: Child,
    addr: String,
}

impl Served {
    fn start(program: &str) -> Self {
        let options = "serve --memory --namespace test --listen 127.0.0.1:0";
        let mut child = Command::new(program)
            .args(options.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stdout.as_mut().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("ready ").unwrap().to_owned();
        Self { child, addr }
    }

    /// The processor time of all its threads.
    fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanos = tasks.map(|task| -> u64 {
            let stat = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            stat.split(' ').next().unwrap().parse().unwrap()
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A program that counts its instructions writes them down at its end.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Where in the pool a value begins.
fn value_at(random: &mut Random) -> usize {
    random.below((POOL_BYTES - VALUE_BYTES) as u64) as usize
}

/// A message about one record, but for its digest.
fn frame(info1: u8, info2: u8, operation: &[u8]) -> Vec<u8> {
    let mut body = vec![HEAD_BYTES as u8, info1, info2];
    body.resize(HEAD_BYTES, 0);
    body[19] = 3;
    body[21] = u8::from(!operation.is_empty());
    for (kind, data) in [(0, &b"test"[..]), (1, b"demo"), (4, &[0; KEY_BYTES])] {
        body.extend((data.len() as u32 + 1).to_be_bytes());
        body.push(kind);
        body.extend(data);
    }
    body.extend(operation);
    let mut frame = (body.len() as u64).to_be_bytes().to_vec();
    (frame[0], frame[1]) = (2, 3);
    frame.append(&mut body);
    frame
}

/// A connection, and its requests.
struct Client {
    stream: TcpStream,
    get: Vec<u8>,
    put: Vec<u8>,
    pool: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    fn to(served: &Served) -> Self {
        let stream = TcpStream::connect(&served.addr).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut put = (VALUE_BYTES as u32 + 5).to_be_bytes().to_vec();
        put.extend([2, 4, 0, 1, b'b']);
        put.extend([0; VALUE_BYTES]);
        let mut random = Random(1);
        let pool = (0..POOL_BYTES).map(|_| random.below(256) as u8).collect();
        Self {
            stream,
            get: frame(3, 0, &[]),
            put: frame(0, 1, &put),
            pool,
            answer: vec![0; 4096],
        }
    }

    fn send(&mut self, number: u64, put_from: Option<usize>) {
        let frame = if let Some(at) = put_from {
            let value = self.put.len() - VALUE_BYTES;
            self.put[value..].copy_from_slice(&self.pool[at..][..VALUE_BYTES]);
            &mut self.put
        } else {
            &mut self.get
        };
        frame[DIGEST_AT..][..KEY_BYTES].copy_from_slice(&key(number));
        self.stream.write_all(frame).unwrap();
    }

    fn receive(&mut self) {
        let (mut len, mut wanted) = (0, FRAME_BYTES);
        while len < wanted {
            let read = self.stream.read(&mut self.answer[len..]).unwrap();
            assert_ne!(read, 0, "the server closed a connection");
            len += read;
            if len >= FRAME_BYTES {
                let head = self.answer[2..FRAME_BYTES].iter();
                let body = head.fold(0, |body, byte| body << 8 | usize::from(*byte));
                wanted = FRAME_BYTES + body;
            }
        }
        assert_eq!(self.answer[CODE_AT], 0);
    }
}

/// One round: requests a second, and microseconds of the server's processor time a request. Rounds with other seeds put other
/// values.
fn measure(served: &Served, puts: u64, connections: u64, requests: u64, seed: usize) -> [f64; 2] {
    let before = served.processor_time();
    let took = at_once(THREADS, |thread| {
        let mut random = Random(seed as u64 * THREADS + thread);
        let mut clients: Vec<_> = (0..connections / THREADS)
            .map(|_| Client::to(served))
            .collect();
        let mut send = |client: &mut Client| {
            let number = random.below(RECORDS);
            let is_put = random.below(100) < puts;
            client.send(number, is_put.then(|| value_at(&mut random)));
        };
        clients.iter_mut().for_each(&mut send);
        for _ in 1..requests / connections {
            for client in &mut clients {
                client.receive();
                send(client);
            }
        }
        clients.iter_mut().for_each(Client::receive);
    });
    let used = served.processor_time().saturating_sub(before);
    [
        requests as f64 / took.as_secs_f64(),
        used.as_secs_f64() * 1e6 / requests as f64,
    ]
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let variable = |name| std::env::var(name).ok();
    // `cargo test --benches` asks only whether it runs.
    let (rounds, requests) = if std::env::args().any(|it| it == "--bench") {
        (ROUNDS, REQUESTS)
    } else {
        (1, 1_000)
    };
    let requests = variable("SPIKELET_REQUESTS").map_or(requests, |it| it.parse().unwrap());
    let programs = variable("SPIKELET_PROGRAMS");
    let programs = programs
        .as_deref()
        .unwrap_or(env!("CARGO_BIN_EXE_spikelet"));
    let servers: Vec<_> = programs.split(',').map(Served::start).collect();
    for served in &servers {
        let mut client = Client::to(served);
        let mut random = Random(0);
        for number in 0..RECORDS {
            client.send(number, Some(value_at(&mut random)));
            client.receive();
        }
    }
    for (case, (puts, connections)) in CASES.into_iter().enumerate() {
        println!("{connections} connections, {puts} % puts");
        let mut of_servers = vec![[const { Vec::new() }; 2]; servers.len()];
        for round in 0..rounds {
            for turn in 0..servers.len() {
                // Each is the first in turn.
                let at = (round + turn) % servers.len();
                let ran = measure(
                    &servers[at],
                    puts,
                    connections,
                    requests,
                    case * rounds + round,
                );
                let all = of_servers[at].iter_mut().zip(ran);
                all.for_each(|(all, one)| all.push(one));
            }
        }
        let medians: Vec<_> = of_servers.into_iter().map(|it| it.map(median)).collect();
        let [first_rate, first_used] = medians[0];
        for (program, [rate, used]) in programs.split(',').zip(medians) {
            println!(
                "  {rate:8.0} a second (x{:.3}), {used:6.2} us of processor time (x{:.3})  {program}",
                rate / first_rate,
                used / first_used
            );
        }
    }
}
