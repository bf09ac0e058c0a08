//! Which blocks are held back for those who follow the changes, and how many at most.

use crate::core::Core;
use crate::error::Result;
use crate::location::UNIT_BYTES;
use crate::log::block::{BlockId, BlockState, Format, Phase};
use crate::log::directory::Line;
use crate::log::entry::Kind;
use crate::log::volume::Volume;
use crate::maintenance::block_walk::{BlockWalk, WalkedBlock};

/// Of how many bytes of the devices one may be held back, unless the options say otherwise.
const HELD_SHARE: u64 = 8;

/// The number up to which changes need not be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptAfter(u64);

impl KeptAfter {
    /// Whether a block is held back: it may have changes that somebody needs.
    pub(crate) fn holds(self, block: &BlockState) -> bool {
        let (first, last) = block.change_lsns();
        first <= last && last > self.0
    }
}

impl Core {
    /// Above which number changes are kept: those that somebody needs, as far as what is dead in their blocks stays below the
    /// limit.
    pub(crate) fn kept_after(&self) -> KeptAfter {
        if !self.sets.any_fed() {
            return KeptAfter(u64::MAX);
        }
        let lost_to = self.sets.feed(|feed| feed.lost_to);
        let needed = KeptAfter(self.followers.needed_after(lost_to));
        let blocks = self.log.volumes().iter().flat_map(Volume::blocks);
        let mut held: Vec<(u64, u64)> = blocks
            .filter(|block| block.phase() == Phase::Closed && needed.holds(block))
            .map(|block| {
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
        // What is not known of a block is at most everything so far.
        let last = last.min(self.log.last_lsn());
        if !self.sets.any_fed() || first > last || self.sets.feed(|feed| feed.lost_to >= last) {
            return Ok(());
        }
        self.sets.change_feed(
            |feed| feed.lose_to(last),
            |metadata| self.store_metadata(&metadata),
        )
    }

    /// Notes of the blocks of which nothing is known that all in them was written before now.
    pub(super) fn bound_changes(&self) {
        let last_lsn = self.log.last_lsn();
        for block in self.log.volumes().iter().flat_map(Volume::blocks) {
            let (first, last) = block.change_lsns();
            if block.phase() == Phase::Closed && last == u64::MAX {
                block.set_change_lsns(first, last_lsn);
            }
        }
    }

    /// Finds out which numbers the blocks hold that were there before this opening.
    pub(crate) fn find_changes(&self) {
        if !self.sets.any_fed() {
            return;
        }
        let mut walk = BlockWalk::default();
        for volume in self.log.volumes() {
            for (index, block) in (0u32..).zip(volume.blocks()) {
                if block.phase() == Phase::Free {
                    continue;
                }
                let (first, last) = match block.format() {
                    // It was written before there were feeds.
                    Format::One => (u64::MAX, 0),
                    Format::Two => lsns_of(volume, volume.block_id(index), block, &mut walk)
                        .unwrap_or((0, self.log.last_lsn())),
                };
                block.set_change_lsns(first, last);
            }
        }
    }
}

/// The lowest and the highest number of changes in a closed block, by its directory. `None`: it cannot be read.
fn lsns_of(
    volume: &Volume,
    id: BlockId,
    block: &BlockState,
    walk: &mut BlockWalk,
) -> Option<(u64, u64)> {
    let walked = WalkedBlock {
        volume,
        id,
        format: block.format(),
        incarnation: block.incarnation(),
        end: 0,
    };
    let filled = u64::from(block.filled_units()) * UNIT_BYTES;
    let entries_end = block.format().entries_at() + filled;
    let sectors = walk.sectors_of_closed(walked, entries_end)?;
    let lines = walk.read_directory(walked, sectors)?;
    let is_change = |line: &&Line| {
        matches!(
            line.kind,
            Kind::Record | Kind::Tombstone | Kind::Delta | Kind::Commit
        )
    };
    let lsns = lines.iter().filter(is_change).map(|line| line.lsn.0);
    Some(lsns.fold((u64::MAX, 0), |(least, most), lsn| {
        (least.min(lsn), most.max(lsn))
    }))
}
