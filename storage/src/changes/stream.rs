//! The changes in one block, in the order of their numbers.

use crate::changes::logged_change::{ChangeGroup, LoggedChange};
use crate::entry::{
    EntryHeader, EntryKind, FLAG_COPIED, FLAG_HAS_NEXT, FLAG_HAS_PREVIOUS, is_version,
};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::log::Log;
use crate::log::block::{BlockId, ENTRIES_AT};
use crate::log::block_walk::{BlockLife, BlockWalk};
use crate::sets::feed::Feed;
use std::collections::VecDeque;

/// A block that is read.
#[derive(Debug)]
pub(super) struct BlockStream {
    pub(super) id: BlockId,
    pub(super) incarnation: u64,
    /// No change in it has a lower number.
    pub(super) first_lsn: u64,
    /// None has a higher one.
    last_lsn: u64,
    /// Reading goes on here, and ends there: offsets in the device.
    at: u64,
    end: u64,
    is_closed: bool,
    /// Groups and pieces of groups that have been read.
    groups: VecDeque<ChangeGroup>,
    /// The next entry has a higher number than was asked for.
    is_ahead: bool,
}

impl BlockStream {
    pub(super) fn new(id: BlockId, incarnation: u64, first_lsn: u64) -> Self {
        let at = id.offset_bytes() + ENTRIES_AT;
        Self {
            id,
            incarnation,
            first_lsn,
            last_lsn: u64::MAX,
            at,
            end: at,
            is_closed: false,
            groups: VecDeque::new(),
            is_ahead: false,
        }
    }

    /// Allows reading up to here. `closed_at`: the block does not grow any more, and has no change
    /// with a higher number.
    pub(super) fn reach(&mut self, end_in_block: u64, closed_at: Option<u64>) {
        self.end = self.end.max(self.id.offset_bytes() + end_in_block);
        if let Some(last_lsn) = closed_at {
            self.is_closed = true;
            self.last_lsn = last_lsn;
        }
        self.is_ahead = false;
    }

    /// Whether nothing is left to be read, and the block would not be found again from this
    /// position on.
    pub(super) fn is_done(&self, position: u64) -> bool {
        let is_read = self.is_closed && self.at >= self.end && self.groups.is_empty();
        is_read && self.last_lsn <= position
    }

    /// The number of the next group; a lower bound of it where nothing is read. `None`: there is
    /// nothing to be read now.
    pub(super) fn next_lsn(&self) -> Option<u64> {
        let is_unread = !self.is_ahead && self.at < self.end;
        let unread = is_unread.then_some(self.first_lsn);
        self.groups.front().map(|group| group.first).or(unread)
    }

    pub(super) fn pop(&mut self) -> Option<ChangeGroup> {
        self.groups.pop_front()
    }

    /// Reads the next piece: changes with numbers above `after` and up to `to`.
    pub(super) fn fill(
        &mut self,
        log: &Log,
        walk: &mut BlockWalk,
        feed: &Feed,
        (after, to): (u64, u64),
    ) -> Result<()> {
        let volume = log.volumes().get(self.id.device);
        let volume = volume.ok_or_else(|| self.damaged(self.at))?;
        let life = BlockLife {
            volume,
            id: self.id,
            incarnation: self.incarnation,
        };
        let is_followed = |header: &EntryHeader| {
            is_version(header.kind) && feed.covers(header.set_id, header.lsn.0)
        };
        let next = walk.read_piece(life, (self.at, self.end), |_, header| {
            header.lsn.0 > after && is_followed(header)
        });
        let mut at = self.at;
        for (offset, header) in walk.entries() {
            // A gap: damage begins here, and is reported once the entries before it are read.
            if *offset != at {
                break;
            }
            let lsn = header.lsn.0;
            // A filler has the last number that any lane had drawn at the close: it may be above
            // all changes here.
            if lsn > to && header.kind != EntryKind::Filler {
                self.is_ahead = true;
                break;
            }
            if lsn > after && header.flags & FLAG_COPIED == 0 {
                let change = if is_followed(header) {
                    let Some(entry) = walk.whole_entry(at, header) else {
                        break;
                    };
                    Some(LoggedChange::of_version(header, &entry))
                } else {
                    None
                };
                self.push(header, change);
            }
            at = offset + header.span_bytes();
        }
        // Every byte of a block parses, up to its end. Entries before the damage are read first.
        if !self.is_ahead && at == self.at && at < next {
            return Err(self.damaged(at));
        }
        self.at = at;
        walk.shrink();
        // A piece without changes is kept for the others to join.
        self.groups
            .retain(|group| group.has_previous || group.has_next || !group.changes.is_empty());
        Ok(())
    }

    fn push(&mut self, header: &EntryHeader, change: Option<LoggedChange>) {
        let entry = ChangeGroup {
            first: header.lsn.0,
            last: header.lsn.0,
            has_previous: header.flags & FLAG_HAS_PREVIOUS != 0,
            has_next: header.flags & FLAG_HAS_NEXT != 0,
            changes: change.into_iter().collect(),
        };
        match self.groups.back_mut() {
            Some(group) if group.goes_on_in(&entry) => group.join(entry),
            _ => self.groups.push_back(entry),
        }
    }

    fn damaged(&self, at: u64) -> Error {
        Error::damaged_at(Location::new(self.id.device, at))
    }
}
