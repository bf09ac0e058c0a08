//! Transactions over several records, driven as Aerospike's clients drive them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The set of the monitors.
pub const MONITORS: &str = "<ERO~MRT";

pub const VERSION: u8 = 3;
pub const TRANSACTION: u8 = 5;
pub const DEADLINE: u8 = 6;

pub const VERIFY: u8 = 0x01;
pub const ROLL_FORWARD: u8 = 0x02;
pub const ROLL_BACK: u8 = 0x04;
pub const ON_LOCKING_ONLY: u8 = 0x10;

pub const BLOCKED: u8 = 120;
pub const MISMATCH: u8 = 121;
pub const EXPIRED: u8 = 122;
pub const TOO_MANY: u8 = 123;
pub const COMMITTED: u8 = 124;
pub const ABORTED: u8 = 125;
pub const LOCKED_ALREADY: u8 = 126;
pub const MONITOR_EXISTS: u8 = 127;

/// A client's transaction: its reads, with their versions, and its writes.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub number: i64,
    /// In seconds; 0: the server's default.
    pub timeout: u32,
    pub deadline: Vec<u8>,
    pub reads: BTreeMap<i64, Vec<u8>>,
    pub writes: BTreeSet<i64>,
}

/// A message about the monitor of a transaction.
pub fn monitor(number: i64, info1: u8, info2: u8) -> Message {
    let digest = KeyHash::Ripemd160.digest(MONITORS, &number.into());
    Message::new(info1, info2, 0)
        .field(0, b"test")
        .field(1, MONITORS.as_bytes())
        .field(4, digest.as_bytes())
}

/// A message that names more records that a transaction is going to write; the first one begins it.
pub fn operate(number: i64, begins: bool, keys: &[i64]) -> Message {
    let mut message = monitor(number, 0, WRITE);
    if begins {
        message = message.op(2, 1, "id", &number.to_be_bytes());
    }
    let mut append = vec![0x94, 2, 0xdc];
    append.extend((keys.len() as u16).to_be_bytes());
    for key in keys {
        append.extend([0xb5, 4]);
        append.extend(digest(*key).as_bytes());
    }
    append.extend([1, 0x0d]);
    message.op(4, 4, "keyds", &append)
}

/// The message that commits a transaction.
pub fn mark(number: i64) -> Message {
    monitor(number, 0, WRITE).op(2, 17, "fwd", &[1])
}

/// The message that ends a transaction.
pub fn close(number: i64) -> Message {
    monitor(number, 0, WRITE | DELETE | 0x10)
}

impl Txn {
    pub fn new(number: i64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// A request of this transaction.
    pub fn inside(&self, message: Message) -> Message {
        let message = message.field(TRANSACTION, &self.number.to_le_bytes());
        if self.deadline.is_empty() {
            message
        } else {
            message.field(DEADLINE, &self.deadline)
        }
    }

    /// Notes the version in an answer, if there is one.
    fn note(&mut self, key: i64, answer: &Answer) {
        let version = answer.fields.iter().find(|field| field.0 == VERSION);
        if let Some((_, version)) = version {
            self.reads.insert(key, version.clone());
        }
    }

    pub fn read(&mut self, wire: &mut Wire, key: i64, message: Message) -> Answer {
        let answer = wire.ask(&self.inside(message));
        self.note(key, &answer);
        answer
    }

    pub fn get(&mut self, wire: &mut Wire, key: i64) -> Answer {
        self.read(wire, key, Message::get(key))
    }

    /// Announces records to the monitor before they are written. Returns the code.
    pub fn announce(&mut self, wire: &mut Wire, keys: &[i64]) -> u8 {
        let begins = self.deadline.is_empty();
        let answer = wire.ask(&operate(self.number, begins, keys).ttl(self.timeout));
        if answer.code == 0 {
            self.deadline = answer.field(DEADLINE).to_vec();
        }
        answer.code
    }

    /// Writes a record, after announcing it to the monitor.
    pub fn write(&mut self, wire: &mut Wire, key: i64, message: Message) -> Answer {
        if !self.writes.contains(&key) {
            let code = self.announce(wire, &[key]);
            if code != 0 {
                return Answer {
                    code,
                    ..Answer::default()
                };
            }
        }
        let mut message = self.inside(message);
        if let Some(version) = self.reads.get(&key) {
            message = message.field(VERSION, version);
        }
        let answer = wire.ask(&message);
        self.note(key, &answer);
        if answer.code == 0 && !answer.fields.iter().any(|field| field.0 == VERSION) {
            self.reads.remove(&key);
            self.writes.insert(key);
        }
        answer
    }

    pub fn put(&mut self, wire: &mut Wire, key: i64, value: i64) -> Answer {
        self.write(wire, key, Message::put(key, "i", value))
    }

    pub fn delete(&mut self, wire: &mut Wire, key: i64) -> Answer {
        self.write(wire, key, Message::about(0, WRITE | DELETE | 0x10, 0, key))
    }

    /// The code of the first record that has changed since it was read, or 0.
    pub fn verify(&self, wire: &mut Wire) -> u8 {
        let verify = |(key, version): (&i64, &Vec<u8>)| {
            let message = Message::about(READ | NO_BINS, 0, 0x40, *key).info4(VERIFY);
            wire.ask(&message.field(VERSION, version)).code
        };
        let mut codes = self.reads.iter().map(verify);
        codes.find(|code| *code != 0).unwrap_or(0)
    }

    pub fn roll(&self, wire: &mut Wire, info4: u8) {
        for key in &self.writes {
            let roll = self.inside(Message::about(0, WRITE | 0x10, 0, *key));
            assert_eq!(wire.ask(&roll.info4(info4)).code, 0);
        }
    }

    /// Verifies, marks, rolls forward and closes. Otherwise rolls back, closes, and returns the
    /// code that was in the way.
    pub fn commit(&self, wire: &mut Wire) -> u8 {
        let verified = self.verify(wire);
        if verified != 0 {
            self.abort(wire);
            return verified;
        }
        if self.deadline.is_empty() {
            return 0;
        }
        let marked = wire.ask(&mark(self.number)).code;
        match marked {
            0 | COMMITTED => {
                self.roll(wire, ROLL_FORWARD);
                assert_eq!(wire.ask(&close(self.number)).code, 0);
                0
            }
            refused => {
                self.abort(wire);
                refused
            }
        }
    }

    pub fn abort(&self, wire: &mut Wire) {
        self.roll(wire, ROLL_BACK);
        if !self.deadline.is_empty() {
            let code = wire.ask(&close(self.number)).code;
            assert!(matches!(code, 0 | 2), "{code}");
        }
    }
}
