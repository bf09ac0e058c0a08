//! A thread of the soak that writes, and what it expects to find.

use crate::chance::Chance;
use crate::expected::{EDITS_MAX, Expected, describe};
use crate::latencies::Latencies;
use crate::support::digest;
use crate::{Outcome, WRITERS};
use spikelet_storage::{Change, Clock, Error, Namespace, NewVersion, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One write in so many goes to one record in a hundred.
const HOT_WRITES: u64 = 5;
const HOT_SHARE: u64 = 100;

const LARGE_BYTES: u64 = 128 << 10;
/// Records of this size on are edited.
const EDITED_BYTES_MIN: u32 = 1 << 10;

/// Writers that are ahead of their pace by so much rest.
const AHEAD: Duration = Duration::from_millis(2);

pub fn now_s() -> u64 {
    SystemClock.now_ms() / 1000
}

/// What the threads of a soak share.
pub struct Shared {
    pub latencies: Latencies,
    pub puts: AtomicU64,
    pub checks: AtomicU64,
    pub refused: AtomicU64,
    /// Bytes of live entries, as the monitor has seen them last.
    pub live_bytes: AtomicU64,
    /// Writers stop at the end of what they are doing.
    pub stop: AtomicBool,
    /// Live bytes beyond which records are deleted.
    pub live_bytes_max: AtomicU64,
    /// Between the operations of one writer; zero: none.
    pub pace: Duration,
}

impl Shared {
    pub fn is_full(&self) -> bool {
        self.live_bytes.load(Ordering::Relaxed) > self.live_bytes_max.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A thread that writes, with the records that it alone writes.
pub struct Writer {
    pub number: u64,
    pub chance: Chance,
    pub records: Vec<Expected>,
    /// What is compared or written.
    pub content: Vec<u8>,
}

impl Writer {
    pub fn new(number: u64, seed: u64, records: u64) -> Self {
        Self {
            number,
            chance: Chance(seed ^ (number << 56)),
            records: vec![Expected::ABSENT; records as usize],
            content: Vec::new(),
        }
    }

    fn record(&self, at: usize) -> u64 {
        at as u64 * WRITERS + self.number
    }

    fn pick(&mut self) -> usize {
        let of = if self.chance.one_in(HOT_WRITES) {
            self.records.len() as u64 / HOT_SHARE
        } else {
            self.records.len() as u64
        };
        self.chance.below(of) as usize
    }

    /// A length: one in 64 is 128 KiB, of the others as many below 1.3 KB as above.
    fn draw_bytes(&mut self) -> u32 {
        if self.chance.one_in(64) {
            return LARGE_BYTES as u32;
        }
        let share = self.chance.below(1 << 20) as f64 / f64::from(1 << 20);
        (100.0 * (16_384.0_f64 / 100.0).powf(share)) as u32
    }

    /// Puts records until the store is full.
    pub fn fill(&mut self, namespace: &Namespace, shared: &Shared) -> Outcome {
        while !shared.is_full() && !shared.is_over() {
            let at = self.pick();
            self.put(namespace, shared, at)?;
        }
        Ok(())
    }

    /// Writes and checks at its pace until it is told to stop.
    pub fn run(&mut self, namespace: &Namespace, shared: &Shared) -> Outcome {
        let mut due = Instant::now();
        while !shared.is_over() {
            self.step(namespace, shared)?;
            due += shared.pace;
            let ahead = due.saturating_duration_since(Instant::now());
            if ahead > AHEAD {
                std::thread::sleep(ahead);
            }
        }
        Ok(())
    }

    fn step(&mut self, namespace: &Namespace, shared: &Shared) -> Outcome {
        let at = self.pick();
        if self.chance.one_in(4) {
            let sample = self.chance.below(self.records.len() as u64) as usize;
            self.check(namespace, sample)?;
            shared.checks.fetch_add(1, Ordering::Relaxed);
        }
        if shared.is_full() || self.chance.one_in(25) {
            return self.delete(namespace, shared, at);
        }
        match self.chance.below(5) {
            0 | 1 => self.edit(namespace, shared, at),
            _ => self.put(namespace, shared, at),
        }
    }

    fn put(&mut self, namespace: &Namespace, shared: &Shared, at: usize) -> Outcome {
        let void_time = if self.chance.one_in(12) {
            now_s() as u32 + 20 + self.chance.below(160) as u32
        } else {
            0
        };
        let expected = Expected {
            seed: self.chance.next(),
            base_bytes: self.draw_bytes(),
            edits: 0,
            void_time,
        };
        self.write(namespace, shared, at, expected)
    }

    /// Writes a record as it is expected to be from then on.
    fn write(
        &mut self,
        namespace: &Namespace,
        shared: &Shared,
        at: usize,
        expected: Expected,
    ) -> Outcome {
        let record = self.record(at);
        expected.write_content(record, &mut self.content);
        let version = NewVersion {
            generation: 1,
            void_time: expected.void_time,
            last_update_ms: SystemClock.now_ms(),
            set_id: 0,
            key: None,
            payload: &self.content,
        };
        let digest = digest(record);
        let begun = Instant::now();
        let lock = namespace.lock(&digest, None);
        let result = lock.and_then(|mut lock| lock.apply(&Change::Put(version)));
        shared.latencies.add(begun.elapsed());
        if self.is_done(shared, record, result)?.is_some() {
            shared.puts.fetch_add(1, Ordering::Relaxed);
            self.records[at] = expected;
        }
        Ok(())
    }

    /// Changes some bytes of a record, if it is one that is worth it; others are written anew.
    fn edit(&mut self, namespace: &Namespace, shared: &Shared, at: usize) -> Outcome {
        let expected = self.records[at];
        if expected.base_bytes < EDITED_BYTES_MIN || expected.edits >= EDITS_MAX {
            return self.put(namespace, shared, at);
        }
        self.check(namespace, at)?;
        if self.records[at].is_absent() {
            return self.put(namespace, shared, at);
        }
        self.write(namespace, shared, at, expected.edited())
    }

    fn delete(&mut self, namespace: &Namespace, shared: &Shared, at: usize) -> Outcome {
        let (record, expected) = (self.record(at), self.records[at]);
        let lock = namespace.lock(&digest(record), None);
        let result = lock.and_then(|lock| lock.delete(SystemClock.now_ms()));
        let Some(deleted) = self.is_done(shared, record, result)? else {
            return Ok(());
        };
        let may_be_gone = expected.is_absent() || expected.is_over(now_s());
        match (deleted, expected.is_absent()) {
            (Some(_), true) => Err(self.wrong(at, "was deleted a second time")),
            (None, false) if !may_be_gone => {
                Err(self.wrong(at, "is lost: there was nothing to delete"))
            }
            _ => {
                self.records[at] = Expected::ABSENT;
                Ok(())
            }
        }
    }

    /// The result of a write; `None` if it was refused for want of space.
    fn is_done<T>(
        &self,
        shared: &Shared,
        record: u64,
        result: Result<T, Error>,
    ) -> Outcome<Option<T>> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error @ (Error::StopWrites { .. } | Error::NoSpace { .. })) => {
                if shared.refused.fetch_add(1, Ordering::Relaxed) < 10 {
                    eprintln!("refused: {error}");
                }
                Ok(None)
            }
            Err(error) => Err(format!("a write of record {record} failed: {error}")),
        }
    }

    fn wrong(&self, at: usize, what: &str) -> String {
        format!(
            "record {} {what}; expected: {:x?}",
            self.record(at),
            self.records[at]
        )
    }

    /// Compares a record with what it should be. Returns whether it is there.
    fn check(&mut self, namespace: &Namespace, at: usize) -> Outcome<bool> {
        let (record, expected) = (self.record(at), self.records[at]);
        self.content.clear();
        if !expected.is_absent() {
            expected.write_content(record, &mut self.content);
        }
        let content = &self.content;
        let found = namespace.get(&digest(record), |entry| {
            let is_right = entry.payload() == content && entry.void_time() == expected.void_time;
            (!is_right).then(|| describe(entry.payload()))
        });
        match found {
            Err(error) => Err(self.wrong(at, &format!("cannot be read: {error}"))),
            Ok(Some(_)) if expected.is_absent() => Err(self.wrong(at, "is back from the dead")),
            Ok(Some(Some(found))) => Err(self.wrong(at, &format!("is wrong: {found}"))),
            Ok(Some(None)) => Ok(true),
            Ok(None) if expected.is_absent() => Ok(false),
            Ok(None) if expected.is_over(now_s()) => {
                // From here on it must stay away.
                self.records[at] = Expected::ABSENT;
                Ok(false)
            }
            Ok(None) => Err(self.wrong(at, "is lost")),
        }
    }

    /// Compares all records. Returns how many are there.
    pub fn check_all(&mut self, namespace: &Namespace) -> Outcome<u64> {
        let mut there = 0;
        for at in 0..self.records.len() {
            there += u64::from(self.check(namespace, at)?);
        }
        Ok(there)
    }
}
