//! A store that runs long at 85 % full: mixed sizes, deletes, expiry, groups of overwrites,
//! reopenings of every kind. It holds every write, refuses none for long, and its bytes do not
//! grow.
//!
//! `SPIKELET_SOAK_STEPS=n` runs `n` steps instead of some thousands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, NOW_MS, devices, digest, get, options, simulated, version};
use spikelet_storage::{
    Atomicity, BLOCK_BYTES, Error, ManualClock, Namespace, NewVersion, Options, SimulatedDevice,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCKS: u64 = 8;
const FILL_PERCENT: u64 = 85;
const CHECK_EVERY: u64 = 2_000;

/// A record: the seed of its content, its length, when it expires (seconds since 2010; 0 = never).
type Record = (u64, usize, u32);

fn content((seed, length, _): Record) -> Vec<u8> {
    let mut bytes = seed.to_le_bytes().to_vec();
    bytes.resize(length.max(8), seed as u8);
    bytes
}

struct Soak {
    chance: Chance,
    clock: Arc<ManualClock>,
    devices: Vec<Arc<SimulatedDevice>>,
    namespace: Namespace,
    records: BTreeMap<u64, Record>,
    bytes: u64,
    bytes_max: u64,
    next: u64,
    step: u64,
}

fn on(devices_left: &[Arc<SimulatedDevice>], clock: &Arc<ManualClock>) -> Options {
    Options {
        clock: clock.clone(),
        ..options(devices(devices_left), BLOCKS)
    }
}

impl Soak {
    fn new(seed: u64) -> Self {
        let devices = simulated(2, BLOCKS);
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let (namespace, _) = Namespace::open(on(&devices, &clock)).unwrap();
        let stats = namespace.stats();
        // A block that is open for writers and one for defragmentation hold little.
        let usable = stats.available_blocks - stats.reserve_blocks - 2;
        Self {
            chance: Chance(seed),
            clock,
            devices,
            namespace,
            records: BTreeMap::new(),
            bytes: 0,
            bytes_max: usable * BLOCK_BYTES * FILL_PERCENT / 100,
            next: 0,
            step: 0,
        }
    }

    fn pick(&mut self) -> Option<u64> {
        let from = self.chance.below(self.next.max(1));
        let found = self.records.range(from..).next();
        found
            .or_else(|| self.records.iter().next())
            .map(|(record, _)| *record)
    }

    fn forget(&mut self, record: u64) {
        if let Some((_, length, _)) = self.records.remove(&record) {
            self.bytes -= length as u64 + 80;
        }
    }

    fn put(&mut self, record: u64) {
        let length = match self.chance.below(20) {
            0 => self.chance.below(1 << 20),
            1..6 => 4_000 + self.chance.below(40_000),
            _ => self.chance.below(2_000),
        };
        let now_s = (self.clock_ms() / 1000) as u32;
        let void_time = if self.chance.one_in(8) {
            now_s + 500
        } else {
            0
        };
        let new = (self.chance.next(), length.max(8) as usize, void_time);
        let bytes = content(new);
        for attempt in 0.. {
            let lock = self.namespace.lock(&digest(record), None).unwrap();
            let version = NewVersion {
                void_time,
                ..version(&bytes)
            };
            match lock.put(&version) {
                Ok(_) => break,
                Err(Error::StopWrites { .. }) if attempt < 3 => self.maintain(),
                Err(other) => panic!("step {}: {other}: {:?}", self.step, self.namespace.stats()),
            }
        }
        self.forget(record);
        self.records.insert(record, new);
        self.bytes += new.1 as u64 + 80;
    }

    fn delete(&mut self) {
        let Some(record) = self.pick() else { return };
        let lock = self.namespace.lock(&digest(record), None).unwrap();
        let deleted = lock.delete(self.clock_ms()).unwrap();
        assert!(deleted.is_some(), "step {}", self.step);
        self.forget(record);
    }

    fn clock_ms(&self) -> u64 {
        self.namespace.options().clock.now_ms()
    }

    fn maintain(&mut self) {
        self.namespace.maintain().unwrap();
        let now_s = (self.clock_ms() / 1000) as u32;
        let expired =
            |(_, (.., void_time)): &(&u64, &Record)| *void_time != 0 && *void_time < now_s;
        let expired: Vec<u64> = self
            .records
            .iter()
            .filter(expired)
            .map(|(record, _)| *record)
            .collect();
        expired.into_iter().for_each(|record| self.forget(record));
    }

    fn step(&mut self) {
        self.step += 1;
        self.clock.advance_ms(self.chance.below(400));
        if self.bytes > self.bytes_max {
            return self.delete();
        }
        match self.chance.below(1_000) {
            0..450 => {
                self.next += 1;
                self.put(self.next);
            }
            450..900 => {
                if let Some(record) = self.pick() {
                    self.put(record);
                }
            }
            900..990 => self.delete(),
            990..997 => self.namespace.sync().unwrap(),
            997..999 => self.maintain(),
            _ => self.reopen(),
        }
    }

    fn reopen(&mut self) {
        let how = self.chance.below(3);
        let seed = self.chance.next();
        if how == 0 {
            self.namespace.close().unwrap();
        }
        if how == 1 {
            self.namespace.sync().unwrap();
        }
        let left = self.devices.iter().map(|device| match how {
            1 => Arc::new(device.crash_with(seed, Atomicity::Sector512).unwrap()),
            _ => Arc::new(device.kill().unwrap()),
        });
        self.devices = left.collect();
        let (namespace, opening) = Namespace::open(on(&self.devices, &self.clock)).unwrap();
        let damage = opening.damaged_bytes + opening.damaged_entries + opening.damaged_blocks;
        assert_eq!(damage, 0, "step {}: {opening:?}", self.step);
        self.namespace = namespace;
    }

    fn check(&mut self) {
        self.maintain();
        for (record, expected) in &self.records {
            let found = get(&self.namespace, &digest(*record)).unwrap();
            assert!(
                found == Some(content(*expected)),
                "step {}: record {record}",
                self.step
            );
        }
        let stats = self.namespace.stats();
        assert_eq!(
            stats.records,
            self.records.len() as u64,
            "step {}",
            self.step
        );
        assert_eq!(common::scan(&self.namespace), (self.records.len(), 0));
        let on_disk: u64 = stats.device_bytes;
        let most = 2 * BLOCKS * BLOCK_BYTES + (40 << 20);
        assert!(on_disk < most, "step {}: {stats:?}", self.step);
    }
}

#[test]
fn a_store_lives_long_at_85_percent() {
    let wanted = std::env::var("SPIKELET_SOAK_STEPS").ok();
    let wanted = wanted.map(|steps| steps.parse().unwrap());
    let steps: u64 = wanted.unwrap_or(if common::long() { 200_000 } else { 8_000 });
    let mut soak = Soak::new(11);
    for number in 1..=steps {
        soak.step();
        if number % CHECK_EVERY == 0 || number == steps {
            soak.check();
        }
    }
    let (fill, stats) = (soak.bytes * 100 / soak.bytes_max, soak.namespace.stats());
    println!("{fill} % of the most, {:?}", stats.traffic);
    assert!(
        fill >= 90,
        "the store was to be full: {fill} % of what it should hold"
    );
}
