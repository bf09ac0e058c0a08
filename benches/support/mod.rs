//! What the benches share: seeded keys and draws, stores that are ready to be measured, and threads
//! that work at once.
#![allow(dead_code, reason = "each bench uses a part of it")]

use criterion::Criterion;
use spikelet::record::KeyHash;
use spikelet::{Durability, Namespace, NamespaceConfig, Set, Store};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The bin that every record has.
pub const BIN: &str = "v";

/// The size of a key in bytes: that of a digest.
pub const KEY_BYTES: usize = 20;

/// A user key.
pub type Key = [u8; KEY_BYTES];

/// A small seeded generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// The key with this number; keys with rising numbers are in random order.
pub fn key(number: u64) -> Key {
    let mut random = Random(number << 32 ^ 0x5eed);
    let mut key = [0; KEY_BYTES];
    for chunk in key.chunks_mut(8) {
        let word = random.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    key
}

/// A store with one set, in memory or in a directory, which does not sync while it is measured.
pub fn open(dir: Option<&Path>) -> (Store, Namespace, Set) {
    open_hashing(dir, KeyHash::default())
}

/// The same, with a hash for its keys.
pub fn open_hashing(dir: Option<&Path>, key_hash: KeyHash) -> (Store, Namespace, Set) {
    let mut config = NamespaceConfig::new("bench");
    config.key_hash = key_hash;
    config.durability = Durability::Process;
    let builder = Store::builder().namespace(config);
    let builder = match dir {
        Some(dir) => builder.path(dir),
        None => builder,
    };
    let store = builder.open().unwrap();
    let namespace = store.namespace("bench").unwrap();
    let set = namespace.set("records").unwrap();
    (store, namespace, set)
}

/// Puts records of one blob bin each.
pub fn fill(set: &Set, records: u64, value: &[u8]) {
    for number in 0..records {
        set.put(&key(number), [(BIN, value)]).unwrap();
    }
}

/// Runs `work` in as many threads at once, each with its number; the time from the common start to
/// the last end.
pub fn at_once(threads: u64, work: impl Fn(u64) + Sync) -> Duration {
    let start = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(thread);
                    Instant::now()
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        let ends = workers.into_iter().map(|worker| worker.join().unwrap());
        ends.max()
            .map_or(Duration::ZERO, |end| end.saturating_duration_since(began))
    })
}

/// Runs the groups with short times: half a minute for all benches of a file.
pub fn run(groups: &[fn(&mut Criterion)]) {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for group in groups {
        group(&mut criterion);
    }
    criterion.final_summary();
}
