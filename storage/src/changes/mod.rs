//! The changes of a namespace, in order, for those who follow them.
//!
//! The log itself is the record of all changes: each version, deletion and group is an entry of it, with a number, so no change is
//! without its event, and no event without its change. What is added is that blocks are not emptied while somebody needs the
//! changes in them (`keep.rs`), that truncations are noted (`feed.rs`), and a reader that merges the blocks (`reader.rs`, `stream.rs`).
//! `waiters.rs` and `followers.rs` tell those who wait; `guards.rs` names what the reader relies on, for the model check.

pub(crate) mod feed;
pub(crate) mod followers;
pub(crate) mod guards;
pub(crate) mod keep;
mod reader;
mod stream;
pub(crate) mod waiters;

use crate::changes::feed::FedSet;
use crate::core::Core;
use crate::digest::PARTITIONS;
use crate::error::{Error, Result};
use crate::log::entry::Lsn;
use crate::namespace::Namespace;
use std::sync::Arc;

pub use reader::{
    ChangeCursor, ChangePosition, ChangeReader, Delivery, LoggedChange, ReadChanges, ReadEnd,
};
pub use stream::ChangeKind;

impl Core {
    /// Whether nothing on the devices may change.
    pub(super) fn is_read_only(&self) -> bool {
        self.check_open().is_err()
    }
}

impl Namespace {
    /// Has the changes of a set kept from now on, so that they can be followed; or not any more. Durable with the next sync.
    ///
    /// # Errors
    /// Those of a write. Nothing was changed.
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
                // Under the lock of the metadata: whoever reads changes above it finds the set fed.
                let since = core.log.draw_number();
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

    /// The numbers of the sets whose changes are kept, and the log sequence number from which on.
    #[must_use]
    pub fn fed_sets(&self) -> Vec<(u16, Lsn)> {
        self.core.sets.feed(|feed| {
            let sets = feed.sets.iter();
            sets.map(|fed| (fed.number, Lsn(fed.since))).collect()
        })
    }

    /// The number above which no change has been lost.
    #[must_use]
    pub fn changes_kept_after(&self) -> Lsn {
        Lsn(self.core.sets.feed(|feed| feed.lost_to))
    }

    /// Says above which number each of those who follow the changes needs them. After opening, all that are there are kept
    /// until this is called. One who has lost changes already holds nothing back.
    pub fn need_changes_after(&self, needs: &[Lsn]) {
        let needs = needs.iter().map(|lsn| lsn.get());
        self.core.followers.set_needs(needs.collect());
    }

    /// Waits until nobody holds a record who held it when this was called: what they have written is visible to readers then.
    /// The caller must hold none.
    ///
    /// # Errors
    /// Those of [`Namespace::lock`], but never [`Error::KeyBusy`].
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

    /// Reads changes from a position on.
    #[must_use]
    pub fn read_changes(&self, delivery: Delivery, from: ChangeCursor) -> ChangeReader {
        ChangeReader::new(Arc::clone(&self.core), delivery, from)
    }
}
