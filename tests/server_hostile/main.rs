//! A served store among clients that are many, slow, broken, or hostile: it goes on answering the
//! others.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod memory;
#[path = "../server_client/mod.rs"]
mod server_client;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server_client::*;
use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{Durability, NamespaceConfig, Store};

/// Many small numbers from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Requests of all kinds, as clients send them.
fn captures() -> Vec<Vec<u8>> {
    let filter = [0x93, 3, 0x93, 0x51, 2, 0xa1, b'i', 3];
    let key = [&[1][..], &1_i64.to_be_bytes()].concat();
    let rows = [
        (digest(1), row(READ | GET_ALL, 0)),
        (
            digest(2),
            row(0, WRITE | RESPOND_ALL_OPS).op(2, 1, "i", &[0; 8]),
        ),
        (digest(3), row(0, WRITE | DELETE).field(43, &filter)),
    ];
    let background = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(7, &[7; 8])
        .op(5, 1, "i", &[0, 0, 0, 0, 0, 0, 0, 1]);
    let bits = Message::about(READ, WRITE | RESPOND_ALL_OPS, 0, 5)
        .op(13, 4, "b", &[0x94, 0, 4, 0, 0])
        .op(13, 4, "b", &[0x95, 3, 0, 8, 0xa2, 4, 0xff, 0])
        .op(12, 4, "b", &[0x93, 0x32, 0, 8])
        .op(
            16,
            4,
            "h",
            &[0x95, 1, 0x92, 0xa2, 3, b'a', 0xa2, 3, b'b', 8, 0xff, 0],
        )
        .op(15, 4, "h", &[0x91, 0x32]);
    let lists = Message::about(READ, WRITE | RESPOND_ALL_OPS, 0, 4)
        .op(4, 4, "l", &[0x94, 1, 7, 1, 1])
        .op(4, 4, "m", &[0x94, 0x43, 0xa3, 3, b'k', b'1', 9, 0])
        .op(
            4,
            4,
            "m",
            &[
                0x93, 0xcc, 0xff, 0x92, 0xcc, 0xa2, 0xa2, 3, b'a', 0x92, 1, 7,
            ],
        )
        .op(3, 4, "l", &[0x94, 0x19, 7, 1, 0xd4, 0xff, 1])
        .op(3, 4, "m", &[0x93, 0x61, 7, 0xa3, 3, b'k', b'1']);
    let expression = Message::about(READ, RESPOND_ALL_OPS, 0, 1).op(
        7,
        4,
        "r",
        &[0x92, 0x93, 0x14, 0x93, 0x51, 2, 0xa1, b'i', 1, 0],
    );
    let texts =
        "node\npartition-generation\nreplicas\nsets/test/demo\nnamespace/test\nquery-show\n";
    let everything = Message::put(1, "i", 7)
        .op(2, 3, "s", b"text")
        .op(2, 20, "l", &[0x92, 1, 0xa2, 3, b'a'])
        .op(2, 19, "m", &[0x81, 0xa2, 3, b'x', 1])
        .op(
            2,
            23,
            "g",
            b"\0\0\0{\"type\":\"Point\",\"coordinates\":[1.0,2.0]}",
        )
        .field(2, &key)
        .ttl(100);
    let bytes = Message::about(0, WRITE, 0, 6).op(9, 9, "python", b"pickled");
    // function f(r, a) r.i = a aerospike:update(r) return map{a = r.i} end
    // function s(t, n) return t : map(function(r) return n end) : reduce(math.sum) end
    let module = "udf-put:filename=m.lua;udf-type=LUA;content=\
        ZnVuY3Rpb24gZihyLCBhKSByLmkgPSBhIGFlcm9zcGlrZTp1cGRhdGUocikgcmV0dXJuIG1hcHthID0gci5pfSBlbmQgZnVuY3Rpb24gcyh0LCBuKSByZXR1cm4gdCA6IG1hcChmdW5jdGlvbihyKSByZXR1cm4gbiBlbmQpIDogcmVkdWNlKG1hdGguc3VtKSBlbmQ=\n";
    let called = |message: Message, function: &[u8]| {
        let arguments = [0x92, 0x81, 0xa2, 3, b'a', 7, 0xa3, 4, 1, 2];
        let call = message.field(30, b"m").field(31, function);
        call.field(32, &arguments)
    };
    let apply = called(Message::about(0, WRITE, 0, 1), b"f").field(43, &filter);
    let stream = called(query(), b"s").field(33, &[1]);
    let jobs = called(query(), b"f").field(33, &[2]).field(7, &[8; 8]);
    let mut short = query().op(1, 0, "i", &[]);
    short.info[0] |= SHORT_QUERY;
    let index = "sindex-create:namespace=test;set=demo;indexname=i;indextype=set\nsindex-list\n";
    let truncate = "truncate:namespace=bar;set=demo\nhistogram:namespace=test;type=ttl\n";
    vec![
        everything.frame(),
        Message::get(1).field(43, &filter).frame(),
        lists.frame(),
        bits.frame(),
        expression.frame(),
        batch(0x0d, &rows).field(43, &filter).frame(),
        query().field(13, &[0, 0, 0, 0, 0, 0, 0, 3]).frame(),
        query()
            .op(
                7,
                4,
                "r",
                &[0x92, 0x93, 0x14, 0x93, 0x51, 2, 0xa1, b'i', 1, 0],
            )
            .frame(),
        background.frame(),
        bytes.frame(),
        frame(1, module.as_bytes()),
        apply.frame(),
        stream.frame(),
        jobs.frame(),
        short.frame(),
        frame(1, index.as_bytes()),
        frame(1, texts.as_bytes()),
        frame(1, truncate.as_bytes()),
        frame(2, &[0; 16]),
        frame(4, &[0, 0, 0, 0, 0, 0, 1, 0, 0x78, 0x9c, 1, 2, 3]),
    ]
}

/// Changes some bytes, cuts, lengthens or joins.
fn mutated(random: &mut Random, captures: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = captures[random.below(captures.len())].clone();
    // Mostly the header stays, so that the server parses the body.
    let first = if random.below(8) == 0 { 0 } else { 8 };
    for _ in 0..=random.below(4) {
        let at = first + random.below(bytes.len().saturating_sub(first));
        match random.below(6) {
            0 => bytes[at.min(first)..].rotate_left(1),
            1 => bytes.truncate(at.max(1)),
            2 => bytes.insert(at.min(bytes.len()), random.next() as u8),
            3 => {
                let other = &captures[random.below(captures.len())];
                let from = random.below(other.len());
                let to = (from + random.below(40)).min(other.len());
                bytes.splice(at.min(bytes.len()).., other[from..to].iter().copied());
            }
            _ => {
                let extremes = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8];
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = extremes[random.below(extremes.len())];
                }
            }
        }
        if bytes.len() <= first {
            break;
        }
    }
    // A true length lets it pass the frame.
    if first == 8 && bytes.len() >= 8 {
        let len = (bytes.len() - 8) as u64;
        bytes[2..8].copy_from_slice(&len.to_be_bytes()[2..]);
    }
    bytes
}

/// Sends bytes on a connection of their own, and reads answers for a moment.
fn throw(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // The server may close before it has read everything.
    if stream.write_all(bytes).is_ok() {
        let _ = stream.shutdown(Shutdown::Write);
        let mut seen = [0; 4096];
        for _ in 0..64 {
            if !matches!(stream.read(&mut seen), Ok(1..)) {
                break;
            }
        }
    }
}

/// Counts panics of the server's threads: such a panic ends a connection and shows nowhere else.
fn count_panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let name = std::thread::current().name().map(str::to_owned);
            if name.is_some_and(|name| name.starts_with("spikelet-server")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            default(panic);
        }));
    });
    &PANICS
}

/// Held by each test: memory can only be measured for the whole process, and some tests take a
/// gigabyte.
static MEMORY: RwLock<()> = RwLock::new(());

/// For a test that measures memory.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MEMORY.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that does not.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MEMORY.read().unwrap_or_else(PoisonError::into_inner)
}

/// The memory that the process takes, in bytes; for tests that run [`alone`].
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[test]
fn mutated_requests_harm_nobody() {
    let _memory = alone();
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        200_000
    } else {
        3_000
    };
    let panics = count_panics();
    let running = serve();
    let addr = running.handle.addr();
    let captures = captures();
    // They are good requests before they are changed.
    for capture in captures.iter().filter(|capture| capture[1] != 4) {
        let mut wire = Wire::to(addr);
        wire.send(capture);
        assert!(wire.receive().is_some());
    }
    let mut witness = Wire::to(addr);
    assert_eq!(witness.ask(&Message::put(1 << 40, "i", 7)).code, 0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let before = resident_bytes();
    for round in 0..rounds {
        throw(addr, &mutated(&mut random, &captures));
        if round % 100 == 0 {
            // Mutated commands may truncate or change records; the server answers all the same.
            let code = witness.ask(&Message::get(1 << 40)).code;
            assert!(code == 0 || code == 2, "{code}");
        }
    }
    assert!(witness.is_alive());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes more");
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}

#[test]
fn random_bytes_end_their_connection_only() {
    let _memory = beside_others();
    let panics = count_panics();
    let running = serve();
    let addr = running.handle.addr();
    let mut witness = Wire::to(addr);
    let mut random = Random(7);
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..random.below(200))
            .map(|_| random.next() as u8)
            .collect();
        throw(addr, &bytes);
    }
    for kind in [1, 3, 4] {
        for _ in 0..200 {
            let bytes: Vec<u8> = (0..random.below(200))
                .map(|_| random.next() as u8)
                .collect();
            throw(addr, &frame(kind, &bytes));
        }
    }
    assert!(witness.is_alive());
    assert_eq!(panics.load(Ordering::SeqCst), 0);
}

#[test]
fn what_cannot_be_framed_closes_the_connection_and_what_can_is_answered() {
    let _memory = beside_others();
    let running = serve();
    let addr = running.handle.addr();
    let oversize = (2_u64 << 56 | 3 << 48 | 0x0fff_ffff_ffff).to_be_bytes();
    let unknown_type = (2_u64 << 56 | 9 << 48).to_be_bytes();
    let old_version = (1_u64 << 56 | 3 << 48 | 22).to_be_bytes();
    let tls_hello = [0x16, 3, 1, 0, 0xf4, 1, 0, 0, 0xf0];
    let long_text = (2_u64 << 56 | 1 << 48 | 2 << 20).to_be_bytes();
    for bytes in [
        &oversize[..],
        &unknown_type,
        &old_version,
        &tls_hello,
        &long_text,
    ] {
        let mut wire = Wire::to(addr);
        wire.send(bytes);
        assert_eq!(wire.receive(), None, "{bytes:x?}");
    }
    let mut wire = Wire::to(addr);
    let whole = Message::put(1, "i", 7).body();
    for cut in 0..whole.len() {
        wire.send(&frame(3, &whole[..cut]));
        let (_, body) = wire.receive().expect("an answer");
        assert_eq!((answers(&body)[0].code, body.len()), (4, 22), "{cut}");
    }
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let _memory = beside_others();
    const REQUESTS: i64 = 2_000;
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut all = Vec::new();
    for key in 0..REQUESTS {
        all.extend(Message::put(key, "i", key).frame());
        all.extend(Message::get(key).frame());
        all.extend(frame(1, b"status\n"));
    }
    let mut sender = wire.stream.try_clone().unwrap();
    // Sent while answers come back, in pieces that end anywhere.
    let sending = std::thread::spawn(move || {
        for piece in all.chunks(777) {
            sender.write_all(piece).unwrap();
        }
    });
    for key in 0..REQUESTS {
        let (_, put) = wire.receive().unwrap();
        assert_eq!(answers(&put)[0].generation, 1);
        let (_, get) = wire.receive().unwrap();
        assert_eq!(answers(&get)[0].int("i"), key);
        let (kind, _) = wire.receive().unwrap();
        assert_eq!(kind, 1);
    }
    sending.join().unwrap();
}

#[test]
fn silent_and_half_open_connections_do_not_hold_others_up() {
    let _memory = alone();
    let running = serve();
    let addr = running.handle.addr();
    let before = resident_bytes();
    let put = Message::put(1, "i", 1).frame();
    let huge = (2_u64 << 56 | 3 << 48 | 100 << 20).to_be_bytes();
    let mut loris: Vec<Wire> = (0..200)
        .map(|at| {
            let mut wire = Wire::to(addr);
            match at % 4 {
                0 => {}
                1 => wire.send(&put[..3]),
                2 => wire.send(&put[..put.len() - 1]),
                // The server must take memory for received bytes only, not for the announced
                // length.
                _ => wire.send(&huge),
            }
            wire
        })
        .collect();
    for key in 0..100 {
        let mut wire = Wire::to(addr);
        assert_eq!(wire.ask(&Message::put(key, "i", key)).code, 0);
        // A byte now and then.
        let slow = &mut loris[key as usize * 2 + 1];
        slow.send(&[0]);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 200 slow connections");
    // A request with a late end is answered.
    let mut late = Wire::to(addr);
    let (front, end) = put.split_at(20);
    late.send(front);
    assert!(Wire::to(addr).is_alive());
    late.send(end);
    assert!(late.receive().is_some());
    drop((loris, late));
    until(|| running.handle.connections() == 0);
}

#[test]
fn an_answer_is_never_longer_than_a_message() {
    let _memory = alone();
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let put = Message::about(0, WRITE, 0, 1).op(2, 4, "blob", &vec![7; 1_000_000]);
    assert_eq!(wire.ask(&put).code, 0);
    // The same megabyte 30,000 times.
    let get = Message::about(READ, 0, 0, 1);
    let all = (0..30_000).fold(get, |get, _| get.op(1, 0, "blob", &[]));
    assert_eq!(wire.ask(&all).code, 13);
    // The same between writes.
    let before = resident_bytes();
    let mut among_writes = all.op(2, 1, "i", &[0; 8]);
    among_writes.info[1] = WRITE;
    assert_eq!(wire.ask(&among_writes).code, 13);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes for one request");
    assert!(wire.is_alive());
}

#[test]
fn a_thousand_connections_work_at_once() {
    let _memory = beside_others();
    const CONNECTIONS: i64 = 1_000;
    let limit = getrlimit(Resource::Nofile);
    let wanted = Some(3 * CONNECTIONS as u64);
    if limit.current < wanted && limit.current.is_some() {
        let raised = Rlimit {
            current: wanted,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
    let running = serve();
    let addr = running.handle.addr();
    let mut all: Vec<Wire> = (0..CONNECTIONS).map(|_| Wire::to(addr)).collect();
    for (key, wire) in (0..).zip(&mut all) {
        wire.send(&Message::put(key, "i", key).frame());
    }
    for wire in &mut all {
        let (_, body) = wire.receive().unwrap();
        assert_eq!(answers(&body)[0].code, 0);
    }
    assert_eq!(running.handle.connections(), CONNECTIONS as u64);
    for (key, wire) in all.iter_mut().enumerate().rev() {
        assert_eq!(wire.ask(&Message::get(key as i64)).int("i"), key as i64);
    }
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let _memory = beside_others();
    let running = serve_with(|server| server.max_connections(3));
    let addr = running.handle.addr();
    let mut kept: Vec<Wire> = (0..3).map(|_| Wire::to(addr)).collect();
    assert!(kept.iter_mut().all(Wire::is_alive));
    assert!(!Wire::to(addr).is_alive());
    assert!(kept.iter_mut().all(Wire::is_alive));
    drop(kept);
    until(|| Wire::to(addr).is_alive());
}

#[test]
fn idle_connections_are_closed_in_time_and_make_room() {
    let _memory = beside_others();
    let idle = Some(Duration::from_millis(100));
    let running = serve_with(|server| server.max_connections(3).idle_timeout(idle));
    let addr = running.handle.addr();
    let mut kept: Vec<Wire> = (0..3).map(|_| Wire::to(addr)).collect();
    for wire in &mut kept {
        // Nothing but the end of the connection ends this wait.
        wire.stream.set_read_timeout(None).unwrap();
        assert_eq!(wire.receive(), None);
    }
    // One that is slow to ask is closed, too.
    until(|| Wire::to(addr).is_alive());
}

#[test]
fn a_client_that_does_not_read_is_not_waited_for() {
    let _memory = beside_others();
    let running = serve();
    let addr = running.handle.addr();
    let mut wire = Wire::to(addr);
    let put = Message::about(0, WRITE, 0, 1).op(2, 4, "blob", &vec![7; 1 << 19]);
    assert_eq!(wire.ask(&put).code, 0);
    let get = Message::get(1).frame();
    // Far more answers than sockets buffer; the client reads none of them.
    for _ in 0..200 {
        if wire.stream.write_all(&get).is_err() {
            break;
        }
    }
    for _ in 0..50 {
        assert!(Wire::to(addr).is_alive());
    }
    running.handle.stop();
}

#[test]
fn a_request_that_is_half_there_is_not_waited_for() {
    let _memory = beside_others();
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let get = Message::get(1).frame();
    wire.send(&get[..get.len() - 1]);
    assert!(Wire::to(running.handle.addr()).is_alive());
    running.handle.stop();
    assert!(wire.receive().is_none());
}

#[test]
fn writers_that_wait_for_the_device_do_not_hold_others_up() {
    let _memory = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    config.durability = Durability::Commit;
    let store = Store::builder()
        .path(dir.path())
        .namespace(config)
        .open()
        .unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let addr = handle.addr();
    let writer = move |first: i64| {
        let mut wire = Wire::to(addr);
        for key in first..first + 20 {
            assert_eq!(wire.ask(&Message::put(key, "i", key)).code, 0);
        }
    };
    let writers: Vec<_> = (0..8)
        .map(|number| std::thread::spawn(move || writer(number * 20)))
        .collect();
    let mut wire = Wire::to(addr);
    let rows: Vec<_> = (0..50)
        .map(|key| (digest(1000 + key), row(0, WRITE).op(2, 1, "i", &[0; 8])))
        .collect();
    let (answers, code) = wire.ask_many(&batch(0x0d, &rows));
    assert!(code == 0 && answers.len() == 50 && wire.is_alive());
    for writer in writers {
        writer.join().unwrap();
    }
    let (records, code) = wire.ask_many(&query());
    assert_eq!((records.len(), code), (210, 0));
    handle.stop();
    store.close().unwrap();
}
