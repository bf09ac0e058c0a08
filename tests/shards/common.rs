//! What tests of several threads have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};

use spikelet::shard::sharded_collections;
use spikelet::{RecordSet, WritePolicy};

/// What others may do to records of a sharded collection only if they insist.
pub fn by_force() -> WritePolicy {
    WritePolicy::default().override_shards(true)
}

/// Gives the workers turns, until all of them together have had so many more, or none is at work any more. Whoever changes
/// shards without such pauses is all that writers ever meet.
pub fn give_turns<T>(workers: &[ScopedJoinHandle<'_, T>], had: &AtomicU64, more: u64) {
    let enough = had.load(Ordering::SeqCst) + more;
    while had.load(Ordering::SeqCst) < enough && !workers.iter().all(|it| it.is_finished()) {
        thread::yield_now();
    }
}

/// A late helper leaves a husk at worst, that nobody reads.
pub fn assert_only_husks_are_left(records: &impl RecordSet) {
    for collection in sharded_collections(records).unwrap() {
        for left in collection.leftovers() {
            assert!(left.frozen && left.elements == 0, "{left:?}");
        }
    }
}
