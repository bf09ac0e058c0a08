//! A client for tests that speaks the wire protocol byte by byte, and so can say what no real
//! client would.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod admin;
pub mod transaction;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use spikelet::record::KeyHash;
use spikelet::server::{Server, ServerBuilder, ServerHandle};
use spikelet::{Digest, NamespaceConfig, Store, StoreBuilder};

pub const READ: u8 = 0x01;
pub const GET_ALL: u8 = 0x02;
pub const SHORT_QUERY: u8 = 0x04;
pub const BATCH: u8 = 0x08;
pub const NO_BINS: u8 = 0x20;
pub const COMPRESS_RESPONSE: u8 = 0x80;

pub const WRITE: u8 = 0x01;
pub const DELETE: u8 = 0x02;
pub const GENERATION_EQUAL: u8 = 0x04;
pub const GENERATION_GREATER: u8 = 0x08;
pub const CREATE_ONLY: u8 = 0x20;
pub const RESPOND_ALL_OPS: u8 = 0x80;

pub const LAST: u8 = 0x01;
pub const PARTITIONS: u8 = 0x04;
pub const UPDATE_ONLY: u8 = 0x08;
pub const CREATE_OR_REPLACE: u8 = 0x10;
pub const REPLACE_ONLY: u8 = 0x20;

/// A builder of a store in memory with the namespaces `test` and `bar`, as clients need them.
pub fn namespaces() -> StoreBuilder {
    ["test", "bar"]
        .into_iter()
        .fold(Store::builder(), |store, name| {
            let mut config = NamespaceConfig::new(name);
            config.key_hash = KeyHash::Ripemd160;
            store.namespace(config)
        })
}

/// A running server and its store.
pub struct Running {
    pub store: Store,
    pub handle: ServerHandle,
}

pub fn serve() -> Running {
    serve_with(|server| server)
}

pub fn serve_with(configure: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Running {
    let store = namespaces().open().unwrap();
    let handle = configure(Server::builder(&store)).start().unwrap();
    Running { store, handle }
}

/// A connection.
pub struct Wire {
    pub stream: TcpStream,
}

/// A message about records as it came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub info3: u8,
    pub code: u8,
    pub generation: u32,
    pub void_time: u32,
    pub row: u32,
    pub fields: Vec<(u8, Vec<u8>)>,
    pub ops: Vec<Op>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub code: u8,
    pub kind: u8,
    pub name: String,
    pub value: Vec<u8>,
}

impl Answer {
    /// The integer value of a bin.
    pub fn int(&self, bin: &str) -> i64 {
        let op = self.ops.iter().find(|op| op.name == bin).unwrap();
        assert_eq!(op.kind, 1);
        i64::from_be_bytes(op.value[..].try_into().unwrap())
    }

    pub fn field(&self, kind: u8) -> &[u8] {
        &self.fields.iter().find(|field| field.0 == kind).unwrap().1
    }
}

impl Wire {
    pub fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self { stream }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The type and the body of the next frame; `None` if the server has closed the connection.
    pub fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 8];
        self.stream.read_exact(&mut header).ok()?;
        assert_eq!(header[0], 2);
        let kind = header[1];
        header[..2].fill(0);
        let mut body = vec![0; u64::from_be_bytes(header) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some((kind, body))
    }

    /// Sends one message and returns the only answer; `None` if the server is gone.
    pub fn try_ask(&mut self, message: &Message) -> Option<Answer> {
        self.stream.write_all(&message.frame()).ok()?;
        let (_, body) = self.receive()?;
        answers(&body).pop()
    }

    /// Sends one message and returns the only answer.
    pub fn ask(&mut self, message: &Message) -> Answer {
        self.send(&message.frame());
        let (kind, body) = self.receive().expect("an answer");
        assert_eq!(kind, 3);
        let mut answers = answers(&body);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Sends one message and returns all answers up to the last one, which is not among them, and
    /// that one's code.
    pub fn ask_many(&mut self, message: &Message) -> (Vec<Answer>, u8) {
        self.send(&message.frame());
        self.receive_many()
    }

    pub fn receive_many(&mut self) -> (Vec<Answer>, u8) {
        let mut all = Vec::new();
        loop {
            let (kind, body) = self.receive().expect("an answer");
            assert_eq!(kind, 3);
            for answer in answers(&body) {
                if answer.info3 & LAST != 0 {
                    return (all, answer.code);
                }
                all.push(answer);
            }
        }
    }

    /// Asks info commands; the values in their order.
    pub fn info(&mut self, commands: &str) -> Vec<String> {
        self.send(&frame(1, commands.as_bytes()));
        let (kind, body) = self.receive().expect("an answer");
        assert_eq!(kind, 1);
        let text = String::from_utf8(body).unwrap();
        let mut values = Vec::new();
        let mut asked = commands.lines();
        for line in text.lines() {
            let (command, value) = line.split_once('\t').unwrap();
            if let Some(asked) = asked.next() {
                assert_eq!(command, asked);
            }
            values.push(value.to_owned());
        }
        values
    }

    /// True if the server answers, and false if it has closed the connection.
    pub fn is_alive(&mut self) -> bool {
        if self.stream.write_all(&frame(1, b"node\n")).is_err() {
            return false;
        }
        self.receive().is_some_and(|(kind, _)| kind == 1)
    }
}

/// Waits for what other threads do.
pub fn until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !done() {
        assert!(
            std::time::Instant::now() < end,
            "it has not come within a minute"
        );
        std::thread::yield_now();
    }
}

/// A frame of this type.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = (2_u64 << 56 | u64::from(kind) << 48 | body.len() as u64)
        .to_be_bytes()
        .to_vec();
    out.extend_from_slice(body);
    out
}

/// A request about records, under way.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub info: [u8; 4],
    pub generation: u32,
    pub ttl: u32,
    pub timeout_ms: u32,
    pub fields: Vec<(u8, Vec<u8>)>,
    pub ops: Vec<Vec<u8>>,
}

impl Message {
    pub fn new(info1: u8, info2: u8, info3: u8) -> Self {
        Self {
            info: [info1, info2, info3, 0],
            timeout_ms: 1000,
            ..Self::default()
        }
    }

    /// About the record of an integer key in `test.demo`.
    pub fn about(info1: u8, info2: u8, info3: u8, key: i64) -> Self {
        Self::new(info1, info2, info3)
            .field(0, b"test")
            .field(1, b"demo")
            .field(4, digest(key).as_bytes())
    }

    /// A put of an integer.
    pub fn put(key: i64, bin: &str, value: i64) -> Self {
        Self::about(0, WRITE, 0, key).op(2, 1, bin, &value.to_be_bytes())
    }

    /// A read of all bins.
    pub fn get(key: i64) -> Self {
        Self::about(READ | GET_ALL, 0, 0, key)
    }

    pub fn field(mut self, kind: u8, data: &[u8]) -> Self {
        self.fields.push((kind, data.to_vec()));
        self
    }

    pub fn op(mut self, code: u8, kind: u8, name: &str, value: &[u8]) -> Self {
        let size = 4 + name.len() + value.len();
        let mut op = (size as u32).to_be_bytes().to_vec();
        op.extend([code, kind, 0, name.len() as u8]);
        op.extend(name.as_bytes());
        op.extend(value);
        self.ops.push(op);
        self
    }

    /// Sets the flags for the request's role in a transaction.
    pub fn info4(mut self, info4: u8) -> Self {
        self.info[3] = info4;
        self
    }

    pub fn generation(mut self, generation: u32) -> Self {
        self.generation = generation;
        self
    }

    pub fn ttl(mut self, ttl: u32) -> Self {
        self.ttl = ttl;
        self
    }

    /// Fields and operations as they stand in messages and in rows of batches.
    pub fn content(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, data) in &self.fields {
            out.extend((data.len() as u32 + 1).to_be_bytes());
            out.push(*kind);
            out.extend(data);
        }
        self.ops.iter().for_each(|op| out.extend(op));
        out
    }

    pub fn body(&self) -> Vec<u8> {
        let mut out = vec![22];
        out.extend(self.info);
        out.push(0);
        out.extend(self.generation.to_be_bytes());
        out.extend(self.ttl.to_be_bytes());
        out.extend(self.timeout_ms.to_be_bytes());
        out.extend((self.fields.len() as u16).to_be_bytes());
        out.extend((self.ops.len() as u16).to_be_bytes());
        out.extend(self.content());
        out
    }

    pub fn frame(&self) -> Vec<u8> {
        frame(3, &self.body())
    }
}

/// A batch of rows: each a message with its namespace first, without a digest, and the digest.
pub fn batch(flags: u8, rows: &[(Digest, Message)]) -> Message {
    let mut data = (rows.len() as u32).to_be_bytes().to_vec();
    data.push(flags);
    for (index, (digest, row)) in rows.iter().enumerate() {
        data.extend((index as u32).to_be_bytes());
        data.extend(digest.as_bytes());
        // Info bytes, generation and time to live follow; the fourth byte is left out where it says
        // nothing.
        let with_info4 = row.info[3] != 0;
        data.push(if with_info4 { 0x1e } else { 0x0e });
        data.extend(&row.info[..if with_info4 { 4 } else { 3 }]);
        data.extend((row.generation as u16).to_be_bytes());
        data.extend(row.ttl.to_be_bytes());
        data.extend((row.fields.len() as u16).to_be_bytes());
        data.extend((row.ops.len() as u16).to_be_bytes());
        data.extend(row.content());
    }
    Message::new(BATCH, 0, 0).field(41, &data)
}

/// A row about `test.demo`.
pub fn row(info1: u8, info2: u8) -> Message {
    Message::new(info1, info2, 0)
        .field(0, b"test")
        .field(1, b"demo")
}

/// A query of all partitions of `test.demo`.
pub fn query() -> Message {
    let all: Vec<u8> = (0..4096_u16).flat_map(u16::to_le_bytes).collect();
    Message::new(READ, 0, PARTITIONS)
        .field(0, b"test")
        .field(1, b"demo")
        .field(11, &all)
}

/// The digest of an integer key in set `demo`.
pub fn digest(key: i64) -> Digest {
    KeyHash::Ripemd160.digest("demo", &key.into())
}

/// The messages of a body.
pub fn answers(mut body: &[u8]) -> Vec<Answer> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_at(22);
        body = rest;
        assert_eq!(head[0], 22);
        let u32_at = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let u16_at = |at: usize| u16::from_be_bytes(head[at..at + 2].try_into().unwrap());
        let mut take = || {
            let (size, rest) = body.split_first_chunk::<4>().unwrap();
            let (part, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
            body = rest;
            part.to_vec()
        };
        let fields = (0..u16_at(18))
            .map(|_| {
                let field = take();
                (field[0], field[1..].to_vec())
            })
            .collect();
        let ops = (0..u16_at(20))
            .map(|_| {
                let op = take();
                let name_len = usize::from(op[3]);
                Op {
                    code: op[0],
                    kind: op[1],
                    name: String::from_utf8(op[4..4 + name_len].to_vec()).unwrap(),
                    value: op[4 + name_len..].to_vec(),
                }
            })
            .collect();
        all.push(Answer {
            info3: head[3],
            code: head[5],
            generation: u32_at(6),
            void_time: u32_at(10),
            row: u32_at(14),
            fields,
            ops,
        });
    }
    all
}
