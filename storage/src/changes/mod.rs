//! The changes of a namespace, in order, for followers.
//!
//! The log itself is the record of all changes: each version and deletion is an entry with a
//! number, so there is no change without its event, and no event without its change. This folder
//! keeps blocks from being emptied while a follower needs the changes in them (`keep.rs`), notes
//! truncations (`sets/feed.rs`), and merges the blocks (`logged_change.rs`, `stream.rs`,
//! `reader.rs`). `waiters.rs` and `core/followers.rs` wake followers; `rules.rs` names the rules
//! that the model check takes away.

pub(crate) mod keep;
mod logged_change;
mod reader;
mod stream;

use crate::core::Namespace;
use crate::digest::PARTITIONS;
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::sets::feed::FedSet;
use std::sync::Arc;

pub use logged_change::{ChangeKind, ChangePosition, LoggedChange};
pub use reader::{ChangeReader, Delivery, ReadChanges, ReadEnd};

impl Namespace {
    /// Has the changes of a set kept from now on, so that they can be followed; or not any more.
    /// Durable with the next sync.
    ///
    /// # Errors
    /// The errors of a write. Nothing was changed.
    pub fn set_fed(&self, set: u16, is_fed: bool) -> Result<()> {
        let core = &self.core;
        if core.sets.feed(|feed| feed.has(set)) == is_fed {
            return Ok(());
        }
        if !core.sets.any_fed() {
            core.bound_changes();
        }
        core.sets.change_feed(
            |feed| {
                // Another call has done it since: a follower may have begun at that number.
                if feed.has(set) == is_fed {
                    return;
                }
                // Under the lock of the metadata: a reader of changes above this number finds the
                // set fed.
                let since = core.log.last_lsn();
                if feed.sets.is_empty() {
                    // Nothing was kept before.
                    feed.lose_to(since);
                }
                feed.sets.retain(|fed| fed.number != set);
                if is_fed {
                    let number = set;
                    feed.sets.push(FedSet { number, since });
                }
            },
            |metadata| core.store_metadata(&metadata),
        )?;
        core.acknowledge(self.last_lsn())
    }

    /// Returns the sets with kept changes by their numbers, each with the log sequence number above
    /// which they are kept.
    #[must_use]
    pub fn fed_sets(&self) -> Vec<(u16, Lsn)> {
        self.core.sets.feed(|feed| {
            let sets = feed.sets.iter();
            sets.map(|fed| (fed.number, Lsn(fed.since))).collect()
        })
    }

    /// Returns the number above which no change has been lost.
    #[must_use]
    pub fn changes_kept_after(&self) -> Lsn {
        Lsn(self.core.sets.feed(|feed| feed.lost_to))
    }

    /// Sets, for each follower, the number above which it needs changes. After an opening all
    /// changes are kept until this is called. A follower that has lost changes already holds
    /// nothing back.
    pub fn need_changes_after(&self, needs: &[Lsn]) {
        let needs = needs.iter().map(|lsn| lsn.get());
        self.core.followers.set_needs(needs.collect());
    }

    /// Whether this thread holds a record, or is in a closure that reads one, of any namespace.
    /// Then it must not wait for writers: it may be one of them.
    #[must_use]
    pub fn thread_is_within() -> bool {
        crate::epoch::is_pinned()
    }

    /// Waits for all writers that hold a record now: their versions are visible to readers then.
    /// The caller must hold no record.
    ///
    /// # Errors
    /// The errors of [`Namespace::lock`] except [`Error::KeyBusy`].
    pub fn wait_for_writers(&self) -> Result<()> {
        for partition in 0..PARTITIONS {
            let held = self.core.index.lock_partition(partition).held().digests();
            for digest in held {
                loop {
                    match self.lock(&digest, None) {
                        Err(Error::KeyBusy { .. }) => crate::sync::thread::yield_now(),
                        locked => break drop(locked?),
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the changes behind a number, and behind the group that the number belongs to.
    #[must_use]
    pub fn read_changes(&self, delivery: Delivery, after: Lsn) -> ChangeReader {
        ChangeReader::new(Arc::clone(&self.core), delivery, after)
    }
}
