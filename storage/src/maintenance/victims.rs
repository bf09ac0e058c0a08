//! Which blocks are emptied: one policy for openings, the background, idle stores and `maintain`.
//!
//! Emptying a block has a *price*: it writes what lives in the block, and the whole record of each
//! delta there, once. A block is emptied only if the free blocks cover its price, and for one of
//! two reasons:
//! - It wins enough: its dead entries, and the deltas in other blocks of the records that it holds.
//! - It holds so little that it can join others in one block.

use crate::changes::keep::KeptAfter;
use crate::core::Core;
use crate::error::Result;
use crate::location::UNIT_BYTES;
use crate::log::block::{BlockId, BlockPhase, BlockState};
use crate::log::space::{BACKED_KEPT, SpacePurpose, SpaceUse};

/// Entries that move do not fill a block to the last byte: this part of it may stay empty.
const SPARE_PART: u64 = 8;

/// When space is short, blocks of which less than this percentage is written again are worth
/// emptying.
const TIGHT_PERCENT: u64 = 95;

/// With no more blocks than this beside the reserve, two blocks that fit into half of one are one
/// too many.
const SCARCE_BLOCKS: u64 = 24;
/// Where blocks are plenty, blocks of up to 16 KiB are brought together, and only once there are
/// this many: each takes a few KiB of disk.
const SMALL_UNITS: u64 = (16 << 10) / UNIT_BYTES;
const SMALL_BLOCKS_MIN: usize = 8;

/// A block that is being filled is not closed before it holds this much: to open another one costs
/// some pages.
const WORN_BYTES_MIN: u64 = 64 << 10;

/// One choice serves for one block in this many: a large store looks at all of them.
const BLOCKS_A_CHOICE: usize = 1024;

/// How much is to be won.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// Nothing until the store as a whole holds this much that is dead, or space is short: to empty
    /// blocks one by one as they fall below the threshold would write four times as much.
    BesideWriters,
    /// Every block below the threshold.
    Thorough,
    /// As beside writers; records that are locked now will not be so for long.
    Foreseen,
}

/// The content of a closed block, in units.
#[derive(Clone, Copy, Debug)]
struct Fill {
    id: BlockId,
    /// What entries take. Large ones leave a tail that moving them would not win back: it does not
    /// count.
    filled: u64,
    live: u64,
    /// The whole records of the deltas in the block, each once.
    folded: u64,
    /// The deltas, in any block, of the whole records in this one.
    chained: u64,
    closed_at: u64,
}

impl Fill {
    fn of(id: BlockId, block: &BlockState) -> Self {
        Self {
            id,
            filled: u64::from(block.filled_units()),
            live: u64::from(block.live_units()),
            folded: block.folded_units(),
            chained: block.chained_units(),
            closed_at: block.closed_at(),
        }
    }

    /// The units that emptying the block writes.
    fn price(&self) -> u64 {
        self.live + self.folded
    }

    /// Whether emptying the block writes less than this percentage of the units it takes off the
    /// log.
    fn is_below(&self, percent: u64) -> bool {
        self.price() * 100 < (self.filled + self.chained) * percent
    }

    /// The worth of emptying the block: the space it wins, for the longer the older the block is,
    /// by the cost to read and to write (cost-benefit cleaning: Rosenblum and Ousterhout, The
    /// Design and Implementation of a Log-Structured File System, 1992).
    fn merit(&self, now: u64) -> f64 {
        if self.price() == 0 {
            // To win it costs nothing, not even room, which the others may need.
            return f64::INFINITY;
        }
        let won = (self.filled + self.chained).saturating_sub(self.price());
        let age = now.saturating_sub(self.closed_at) + 1;
        won as f64 * age as f64 / (self.filled + self.price()) as f64
    }
}

/// The room that blocks can be emptied into.
#[derive(Clone, Copy, Debug)]
struct BlockRoom {
    /// The room in the block that others are emptied into, in units.
    rest_units: u64,
    /// The content of a block.
    block_units: u64,
    space: SpaceUse,
}

impl BlockRoom {
    fn spare_units(&self) -> u64 {
        self.block_units / SPARE_PART
    }

    /// Whether a block can be emptied to its end. Folding never takes the last block: it may take
    /// more than it wins.
    fn covers(&self, fill: &Fill) -> bool {
        let blocks = self.space.available_blocks;
        let is_covered = match fill.folded {
            0 => blocks > 0,
            _ => {
                let blocks = blocks.saturating_sub(1);
                fill.price() <= self.rest_units + blocks * (self.block_units - self.spare_units())
            }
        };
        is_covered || self.fits_rest(fill)
    }

    fn fits_rest(&self, fill: &Fill) -> bool {
        fill.price() + fill.price().min(self.spare_units()) <= self.rest_units
    }

    /// The most that a block holds that is to join others, and how many of them there must be to
    /// begin: space is worth more where it is scarce.
    fn joins(&self) -> (u64, usize) {
        let space = self.space;
        match () {
            () if space.tight => ((self.block_units - self.spare_units()) / 2, 2),
            () if space.available_blocks <= space.reserve_blocks + SCARCE_BLOCKS => {
                (self.block_units / 8, 2)
            }
            () => (SMALL_UNITS, SMALL_BLOCKS_MIN),
        }
    }
}

impl Core {
    /// The blocks to be emptied next, the best first. `bytes_max`: the most that emptying one may
    /// write.
    pub(crate) fn victims(&self, effort: Effort, bytes_max: u64) -> Vec<BlockId> {
        let space = self.log.space().usage();
        let room = BlockRoom {
            rest_units: self.log.cleaning_room_bytes(space.available_blocks == 0) / UNIT_BYTES,
            block_units: self.log.block_bytes() / UNIT_BYTES,
            space,
        };
        let kept_after = self.kept_after();
        let percent = self.percent_worth_it(effort, &space, kept_after);
        let (joined_max, joined_min) = room.joins();
        let is_small = |fill: &Fill| fill.price() <= joined_max && !fill.is_below(percent);
        let fills = || {
            let blocks = self.closed_blocks(kept_after);
            let tried = blocks.filter(|(_, block)| match effort {
                Effort::Foreseen => !block.is_stuck_for_long(),
                Effort::BesideWriters | Effort::Thorough => !block.is_stuck(),
            });
            tried.map(|(id, block)| Fill::of(id, block))
        };
        let are_many = fills().filter(is_small).take(joined_min).count() == joined_min;
        let now = self.log.next_block();
        let merit = |fill: Fill| {
            if fill.price() * UNIT_BYTES > bytes_max || !room.covers(&fill) {
                return None;
            }
            let joins = is_small(&fill) && (are_many || room.fits_rest(&fill));
            // All of the block is won.
            let filled = if joins { room.block_units } else { fill.filled };
            (joins || fill.is_below(percent)).then(|| Fill { filled, ..fill }.merit(now))
        };
        let mut worth: Vec<_> = fills()
            .filter_map(|fill| Some((merit(fill)?, fill.id)))
            .collect();
        worth.sort_unstable_by(|(one, _), (other, _)| other.total_cmp(one));
        worth.truncate(1 + self.log.blocks().count() / BLOCKS_A_CHOICE);
        worth.into_iter().map(|(_, id)| id).collect()
    }

    /// Closes the blocks being filled that are worth emptying, so that they can be, and gives disk
    /// space back that is not needed soon. Returns whether a block was closed.
    pub(crate) fn tidy_log(&self) -> Result<bool> {
        self.check_open()?;
        self.log.check_writable(SpacePurpose::Defrag)?;
        let percent = u64::from(self.options.defrag_threshold_percent);
        // The room behind the entries may be all that is left; and a block that is held for a
        // follower could not be emptied, but would hold nothing more.
        let may_close = self.log.space().usage().available_blocks > 0
            && !self.kept_after().needs_any(self.log.last_lsn());
        let is_worn = |id: BlockId, block: &BlockState, filled_bytes: u64| {
            let fill = Fill {
                filled: filled_bytes / UNIT_BYTES,
                ..Fill::of(id, block)
            };
            may_close && filled_bytes >= WORN_BYTES_MIN && fill.is_below(percent)
        };
        let closed = self.log.tidy_lanes(is_worn)?;
        self.log.release_surplus(BACKED_KEPT)?;
        Ok(closed)
    }

    /// Below which percentage of units written again a block is worth emptying. 0: none is.
    fn percent_worth_it(&self, effort: Effort, space: &SpaceUse, kept_after: KeptAfter) -> u64 {
        let threshold = u64::from(self.options.defrag_threshold_percent);
        if space.tight {
            return TIGHT_PERCENT;
        }
        if effort == Effort::Thorough {
            return threshold;
        }
        let (mut live, mut chained, mut filled) = (0, 0, 0);
        for (id, block) in self.closed_blocks(kept_after) {
            let fill = Fill::of(id, block);
            live += fill.live;
            chained += fill.chained;
            filled += fill.filled;
        }
        // Deltas go when their records are written whole.
        if live.saturating_sub(chained) * 100 < filled * threshold {
            // A block that is nearly full is never worth it.
            TIGHT_PERCENT
        } else {
            0
        }
    }

    fn closed_blocks(&self, kept_after: KeptAfter) -> impl Iterator<Item = (BlockId, &BlockState)> {
        let blocks = self.log.closed_blocks();
        blocks.filter(move |(_, block)| !kept_after.holds(block))
    }

    /// Whether cleaning can make room for new versions that need this many blocks, or just has: a
    /// block is worth emptying and can be, or one is being emptied or waits to be given back. Takes
    /// no lock that is held while a block is emptied.
    pub(crate) fn can_win_space(&self, blocks: u64) -> bool {
        if !self.victims(Effort::Foreseen, u64::MAX).is_empty() {
            return true;
        }
        let (mut draining, mut free) = (false, 0);
        for (_, block) in self.log.blocks() {
            draining |= block.phase() == BlockPhase::Draining;
            free += u64::from(block.phase() == BlockPhase::Free);
        }
        // A block that was emptied may be free already and not yet to be had.
        draining
            || free > self.log.space().usage().available_blocks
            || !self.log.space().is_short_of(blocks)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const BLOCK_UNITS: u64 = 1 << 19;

    const PLENTY: SpaceUse = SpaceUse {
        available_blocks: 100,
        reserve_blocks: 4,
        tight: false,
    };

    const fn fill(filled: u64, live: u64) -> Fill {
        Fill {
            id: BlockId::new(0, 0, BLOCK_UNITS * UNIT_BYTES),
            filled,
            live,
            folded: 0,
            chained: 0,
            closed_at: 0,
        }
    }

    #[test]
    fn deltas_cost_their_whole_records_and_are_won_by_emptying_the_block_of_those() {
        let records = Fill {
            chained: 100,
            ..fill(1000, 1000)
        };
        let deltas = Fill {
            folded: 5000,
            ..fill(1000, 500)
        };
        assert!(!fill(1000, 1000).is_below(95) && records.is_below(95));
        assert!(fill(1000, 500).is_below(95) && !deltas.is_below(95));
        assert!(records.merit(0) > 0.0 && deltas.merit(0) <= 0.0);
        // Wholly dead blocks come first, older before younger.
        assert!(fill(1000, 0).merit(0) > fill(1000, 1).merit(1_000_000));
        assert!(fill(1000, 500).merit(10) > fill(1000, 500).merit(9));
    }

    #[test]
    fn a_block_is_emptied_only_into_room_that_covers_it_and_folding_leaves_the_last_block() {
        let room = |blocks, rest_units| BlockRoom {
            rest_units,
            block_units: BLOCK_UNITS,
            space: SpaceUse {
                available_blocks: blocks,
                ..PLENTY
            },
        };
        let plain = fill(BLOCK_UNITS, BLOCK_UNITS / 2);
        let deltas = Fill {
            folded: BLOCK_UNITS,
            ..plain
        };
        let cases = [
            // free blocks, rest of the open one, plain, deltas
            (0, 0, false, false),
            (0, BLOCK_UNITS / 2, false, false),
            (0, BLOCK_UNITS * 3 / 4, true, false),
            (1, 0, true, false),
            (2, 0, true, false),
            (2, BLOCK_UNITS * 3 / 4, true, true),
            (3, 0, true, true),
        ];
        for (blocks, rest, is_plain_covered, are_deltas_covered) in cases {
            let room = room(blocks, rest);
            let covered = (room.covers(&plain), room.covers(&deltas));
            let expected = (is_plain_covered, are_deltas_covered);
            assert_eq!(covered, expected, "{blocks} blocks and {rest} units");
        }
    }
}
