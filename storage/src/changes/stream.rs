//! The changes in one block, in the order of their numbers.

use crate::changes::feed::Feed;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::log::block::{BlockId, Format};
use crate::log::entry::{EntryView, FLAG_EXPIRED, Header, Kind};
use crate::log::group::read_commit;
use crate::log::volume::Volume;
use crate::maintenance::block_walk::{BlockWalk, WalkedBlock};
use std::collections::VecDeque;

/// What happened to a record, or to all of a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeKind {
    /// The record was written.
    Put,
    /// The record was deleted.
    Delete,
    /// The record was removed because its time was over.
    Expire,
    /// Records of a set, or of all sets, were removed at once.
    Truncate {
        /// Only those that were last updated before this time, in milliseconds since 2010-01-01 UTC.
        before_ms: Option<u64>,
    },
}

/// A change of a record as it lies in the log.
#[derive(Clone, Debug)]
pub(super) struct RecordChange {
    pub(super) lsn: u64,
    pub(super) group: Option<u64>,
    pub(super) digest: Digest,
    pub(super) set: u16,
    pub(super) kind: ChangeKind,
    pub(super) generation: u16,
    pub(super) last_update_ms: u64,
    pub(super) void_time: u32,
    pub(super) key: Option<Vec<u8>>,
}

/// What a stream gives.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Record(RecordChange),
    /// The group with this number is whole.
    Commit {
        lsn: u64,
        group: u64,
    },
}

impl Item {
    pub(super) const fn lsn(&self) -> u64 {
        match self {
            Self::Record(change) => change.lsn,
            Self::Commit { lsn, .. } => *lsn,
        }
    }
}

/// A block that is read.
#[derive(Debug)]
pub(super) struct BlockStream {
    pub(super) id: BlockId,
    pub(super) incarnation: u64,
    /// No change in it has a lower number.
    pub(super) first_lsn: u64,
    /// None has a higher one.
    pub(super) last_lsn: u64,
    /// Where reading goes on, and the end of what may be read: offsets in the device.
    at: u64,
    end: u64,
    is_closed: bool,
    items: VecDeque<Item>,
    /// The next entry has a higher number than was asked for.
    is_ahead: bool,
}

impl BlockStream {
    pub(super) fn new(id: BlockId, incarnation: u64, first_lsn: u64) -> Self {
        let at = id.offset_bytes() + Format::Two.entries_at();
        Self {
            id,
            incarnation,
            first_lsn,
            last_lsn: u64::MAX,
            at,
            end: at,
            is_closed: false,
            items: VecDeque::new(),
            is_ahead: false,
        }
    }

    /// The block can be read up to here. `closed_at`: it does not grow any more, and has no change with a higher number.
    pub(super) fn reach(&mut self, end_in_block: u64, closed_at: Option<u64>) {
        self.end = self.end.max(self.id.offset_bytes() + end_in_block);
        if let Some(last_lsn) = closed_at {
            self.is_closed = true;
            self.last_lsn = last_lsn;
        }
        self.is_ahead = false;
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_closed && self.at >= self.end && self.items.is_empty()
    }

    /// Whether more is to be read before the first item is known.
    pub(super) fn wants_filling(&self) -> bool {
        self.items.is_empty() && !self.is_ahead && self.at < self.end
    }

    pub(super) fn first(&self) -> Option<&Item> {
        self.items.front()
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    /// Reads the next piece: changes with numbers above `after` and up to `to`.
    pub(super) fn fill(
        &mut self,
        volume: &Volume,
        walk: &mut BlockWalk,
        feed: &Feed,
        (after, to): (u64, u64),
    ) -> Result<()> {
        let block = WalkedBlock {
            volume,
            id: self.id,
            format: Format::Two,
            incarnation: self.incarnation,
            end: self.end,
        };
        let is_wanted = |_, header: &Header| is_item(header, feed, after);
        let next = walk.read_piece(block, self.at, is_wanted);
        let mut at = self.at;
        for (offset, header) in walk.entries() {
            if *offset != at {
                return Err(self.damaged(at));
            }
            if is_item(header, feed, after) {
                if header.lsn.0 > to {
                    self.is_ahead = true;
                    break;
                }
                let entry = walk
                    .whole_entry(at, header)
                    .ok_or_else(|| self.damaged(at))?;
                let item = item_of(header, &entry).ok_or_else(|| self.damaged(at))?;
                self.items.push_back(item);
            }
            at = offset + u64::from(header.span_units) * crate::location::UNIT_BYTES;
        }
        // Every byte of a block parses, up to its end.
        if !self.is_ahead && at < next {
            return Err(self.damaged(at));
        }
        self.at = at;
        walk.shrink();
        Ok(())
    }

    fn damaged(&self, at: u64) -> Error {
        Error::Damaged {
            device: self.id.device,
            offset: at,
        }
    }
}

/// Whether an entry is one of those that a stream gives.
fn is_item(header: &Header, feed: &Feed, after: u64) -> bool {
    header.lsn.0 > after
        && match header.kind {
            Kind::Record | Kind::Tombstone | Kind::Delta => {
                feed.covers(header.set_id, header.lsn.0)
            }
            Kind::Commit => true,
            Kind::Metadata | Kind::Filler | Kind::Void => false,
        }
}

fn item_of(header: &Header, entry: &EntryView<'_>) -> Option<Item> {
    let kind = match header.kind {
        Kind::Commit => {
            let (group, _) = read_commit(entry.body())?;
            let lsn = header.lsn.0;
            return Some(Item::Commit { lsn, group });
        }
        Kind::Tombstone if header.flags & FLAG_EXPIRED != 0 => ChangeKind::Expire,
        Kind::Tombstone => ChangeKind::Delete,
        _ => ChangeKind::Put,
    };
    // The body of a delta begins with what it changes.
    let has_key = header.kind != Kind::Delta;
    Some(Item::Record(RecordChange {
        lsn: header.lsn.0,
        group: entry.group(),
        digest: header.digest,
        set: header.set_id,
        kind,
        generation: header.generation,
        last_update_ms: header.last_update_ms,
        void_time: header.void_time,
        key: entry.key().filter(|_| has_key).map(<[u8]>::to_vec),
    }))
}
