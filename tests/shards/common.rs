//! Helpers for tests with several threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use spikelet::shard::sharded_collections;
use spikelet::{RecordSet, WritePolicy};

/// A policy that overrides the protection of sharded collections.
pub fn by_force() -> WritePolicy {
    WritePolicy::default().override_shards(true)
}

/// Gives the workers turns, until all of them together have had `more` turns, or all have ended.
/// Without such pauses writers would meet nothing but changes of shards.
pub fn give_turns<T>(workers: &[ScopedJoinHandle<'_, T>], had: &AtomicU64, more: u64) {
    let enough = had.load(Ordering::SeqCst) + more;
    while had.load(Ordering::SeqCst) < enough && !workers.iter().all(|it| it.is_finished()) {
        thread::yield_now();
    }
}

/// A late helper leaves at worst an empty companion that no handle reads.
pub fn assert_only_husks_are_left(records: &impl RecordSet) {
    for collection in sharded_collections(records).unwrap() {
        for left in collection.leftovers() {
            assert!(left.frozen && left.elements == 0, "{left:?}");
        }
    }
}
