//! Blocks that are held back for followers of changes, and how many at most.

use crate::core::Core;
use crate::entry::is_version;
use crate::error::Result;
use crate::location::UNIT_BYTES;
use crate::log::block::{BlockPhase, BlockState};
use crate::log::block_walk::{BlockLife, BlockWalk};
use crate::sets::feed::Feed;

/// The share of the devices that may be held back, unless the options say otherwise: an eighth.
const HELD_SHARE: u64 = 8;

/// The number up to which changes need not be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptAfter(u64);

impl KeptAfter {
    /// Whether a block is held back: it may have changes that a follower needs.
    pub(crate) fn holds(self, block: &BlockState) -> bool {
        let (first, last) = block.change_lsns();
        first <= last && last > self.0
    }

    /// Whether a follower needs a change with a number up to this one.
    pub(crate) fn needs_any(self, last_lsn: u64) -> bool {
        self.0 < last_lsn
    }
}

impl Core {
    /// Returns the number above which changes are kept: all that a follower needs, as long as the
    /// dead bytes in their blocks stay below the limit.
    pub(crate) fn kept_after(&self) -> KeptAfter {
        let needed = self.needed_after();
        if needed.0 == u64::MAX {
            return needed;
        }
        let mut held: Vec<(u64, u64)> = (self.log.closed_blocks())
            .filter(|(_, block)| needed.holds(block))
            .map(|(_, block)| {
                let dead = block.filled_units().saturating_sub(block.live_units());
                (block.change_lsns().1, u64::from(dead) * UNIT_BYTES)
            })
            .collect();
        held.sort_unstable();
        let limit = self.changes_bytes_max();
        let mut dead_bytes: u64 = 0;
        // The newest are kept.
        for (last_lsn, dead) in held.into_iter().rev() {
            dead_bytes += dead;
            if dead_bytes > limit {
                return KeptAfter(needed.0.max(last_lsn));
            }
        }
        needed
    }

    /// Whether a block is held back. Cheap where no follower needs it.
    pub(crate) fn is_kept(&self, block: &BlockState) -> bool {
        self.needed_after().holds(block) && self.kept_after().holds(block)
    }

    /// The number above which a follower needs changes.
    fn needed_after(&self) -> KeptAfter {
        if !self.sets.any_fed() {
            return KeptAfter(u64::MAX);
        }
        let lost_to = self.sets.feed(|feed| feed.lost_to);
        KeptAfter(self.followers.needed_after(lost_to))
    }

    fn changes_bytes_max(&self) -> u64 {
        match self.options.change_bytes_max {
            0 => {
                let volumes = self.log.volumes().iter();
                let bytes: u64 = volumes.map(|volume| volume.device().max_bytes()).sum();
                bytes / HELD_SHARE
            }
            bytes => bytes,
        }
    }

    /// Notes durably that the changes in a block may be lost, before it is emptied.
    pub(crate) fn lose_changes_of(&self, block: &BlockState) -> Result<()> {
        let (first, last) = block.change_lsns();
        // A block of unknown content has no number that has not been given out.
        let last = last.min(self.log.last_lsn());
        // A set that is about to be followed from a number in the block on is known behind this
        // lock.
        let needs_none = |feed: &Feed| feed.sets.is_empty() || feed.lost_to >= last;
        if first > last || self.sets.feed(needs_none) {
            return Ok(());
        }
        self.sets.change_feed(
            |feed| feed.lose_to(last),
            |metadata| self.store_metadata(&metadata),
        )
    }

    /// Notes of blocks of unknown content that all their entries were written before now.
    pub(super) fn bound_changes(&self) {
        let last_lsn = self.log.last_lsn();
        for (_, block) in self.log.closed_blocks() {
            let (first, last) = block.change_lsns();
            if last == u64::MAX {
                block.set_change_lsns(first, last_lsn);
            }
        }
    }

    /// Finds the numbers in the blocks of earlier openings.
    pub(crate) fn find_changes(&self) {
        if !self.sets.any_fed() {
            return;
        }
        let mut walk = BlockWalk::default();
        for volume in self.log.volumes() {
            for (id, block) in volume.blocks() {
                // The numbers of a block that the opening fills are known already.
                if block.phase() == BlockPhase::Closed && !block.holds_copies() {
                    let lsns = lsns_of(BlockLife::of(volume, id, block), &mut walk);
                    let (first, last) = lsns.unwrap_or((0, self.log.last_lsn()));
                    block.set_change_lsns(first, last);
                }
            }
        }
    }
}

/// The lowest and the highest number of changes in a closed block, by its directory. `None`: it
/// cannot be read.
fn lsns_of(life: BlockLife<'_>, walk: &mut BlockWalk) -> Option<(u64, u64)> {
    let lines = walk.lines_of(life, None)?;
    let versions = lines.iter().filter(|line| is_version(line.kind));
    let lsns = versions.map(|line| line.lsn.0);
    Some(lsns.fold((u64::MAX, 0), |(least, most), lsn| {
        (least.min(lsn), most.max(lsn))
    }))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::core::Namespace;
    use crate::digest::Digest;
    use crate::options::{Options, Storage};
    use crate::record_lock::NewVersion;
    use crate::sets::feed::FedSet;
    use std::time::{Duration, Instant};

    #[test]
    fn a_block_that_is_emptied_beside_the_first_following_takes_no_change_unnoticed() {
        let (namespace, _) = Namespace::open(Options {
            background: false,
            ..Options::new("test", Storage::Memory)
        })
        .unwrap();
        let core = &namespace.core;
        let version = NewVersion {
            generation: 1,
            void_time: 0,
            last_update_ms: 1,
            set_id: 0,
            key: None,
            payload: b"followed",
        };
        let lock = namespace
            .lock(&Digest::new([7; Digest::LEN]), None)
            .unwrap();
        let lsn = lock.put(&version).unwrap().get();
        core.log.close_lanes().unwrap();
        std::thread::scope(|scope| {
            let follow = FedSet {
                number: 0,
                since: lsn - 1,
            };
            let empty_meanwhile = |_| {
                let emptying = scope.spawn(|| {
                    let (_, block) = core.log.closed_blocks().next().unwrap();
                    core.lose_changes_of(block).unwrap();
                });
                let until = Instant::now() + Duration::from_millis(100);
                while !emptying.is_finished() && Instant::now() < until {
                    std::thread::yield_now();
                }
                Ok(())
            };
            let change = core
                .sets
                .change_feed(|feed| feed.sets.push(follow), empty_meanwhile);
            change.unwrap();
        });
        assert_eq!(namespace.changes_kept_after().get(), lsn);
    }
}
