//! Appending entries that count together: recovery takes all of them, or none.
//!
//! They get consecutive numbers, drawn at once under the lock of their lane, so a sync's horizon never
//! falls between them. A group that fits into a block is one write. A larger one gets all its blocks
//! before its first number is drawn; no write can then fail for want of space.

use crate::entry::{Appended, FLAG_HAS_NEXT, FLAG_HAS_PREVIOUS, Header, NewEntry};
use crate::error::Result;
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::append::number_from;
use crate::log::block::{BlockId, ENTRIES_AT};
use crate::log::directory::directory_bytes;
use crate::log::lane::{Assembled, FILLER_BYTES_MIN};
use crate::log::space::Purpose;
use crate::sync::atomic::Ordering;

/// Entries of a group that one block can hold.
struct Piece {
    headers: Vec<Header>,
    entries: Assembled,
}

impl Piece {
    fn new() -> Self {
        Self {
            headers: Vec::new(),
            entries: Assembled::new(),
        }
    }

    /// Whether an empty block has room for the piece and one more entry of `bytes`.
    fn has_room(&self, bytes: u64, block_bytes: u64) -> bool {
        let lines = directory_bytes(self.headers.len() + 3);
        ENTRIES_AT + self.entries.bytes() + bytes + FILLER_BYTES_MIN + lines <= block_bytes
    }

    fn appended_at(&self, first: Location) -> impl Iterator<Item = Appended> {
        let mut at = first.offset_bytes();
        self.headers.iter().map(move |header| {
            let location = Location::new(first.device(), at);
            at += u64::from(header.span_units) * UNIT_BYTES;
            Appended {
                location,
                units: header.span_units,
                lsn: header.lsn,
            }
        })
    }
}

/// Puts the entries of a group together, a piece a block.
fn pieces_of(group: &[NewEntry<'_>], block_bytes: u64) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut piece = Piece::new();
    for (number, entry) in group.iter().enumerate() {
        let parts = entry.parts();
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = u64::from(Header::span_for(body_bytes)) * UNIT_BYTES;
        if !piece.headers.is_empty() && !piece.has_room(bytes, block_bytes) {
            pieces.push(std::mem::replace(&mut piece, Piece::new()));
        }
        let mut header = entry.header;
        if number > 0 {
            header.flags |= FLAG_HAS_PREVIOUS;
        }
        if number + 1 < group.len() {
            header.flags |= FLAG_HAS_NEXT;
        }
        piece.entries.push(&mut header, &parts, block_bytes)?;
        piece.headers.push(header);
    }
    pieces.push(piece);
    Ok(pieces)
}

impl Log {
    /// Appends the entries of a group, of which there is at least one. Returns where each is.
    ///
    /// An error leaves nothing that counts.
    pub(crate) fn append_group(
        &self,
        purpose: Purpose,
        group: &[NewEntry<'_>],
    ) -> Result<Vec<Appended>> {
        let mut pieces = pieces_of(group, self.block_bytes())?;
        let mut appended = Vec::with_capacity(group.len());
        if let [only] = pieces.as_mut_slice() {
            let first = self.append_in_one(purpose, &mut only.headers, &mut only.entries)?;
            appended.extend(only.appended_at(first));
        } else {
            let firsts = self.append_in_many(purpose, &mut pieces)?;
            for (piece, first) in pieces.iter().zip(firsts) {
                appended.extend(piece.appended_at(first));
            }
        }
        Ok(appended)
    }

    /// Appends the pieces of a group that is larger than a block, each to a block of its own. Syncs
    /// wait for the lane meanwhile.
    #[cold]
    fn append_in_many(&self, purpose: Purpose, pieces: &mut [Piece]) -> Result<Vec<Location>> {
        let (number, mut state) = self.lane(purpose)?;
        let mut blocks = self.take_backed(purpose, pieces.len())?;
        let _in_order = self.writes_may_fail.then(|| self.in_order.lock());
        let count: usize = pieces.iter().map(|piece| piece.headers.len()).sum();
        let mut lsn = self.next_lsn.fetch_add(count as u64, Ordering::SeqCst);
        let mut firsts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            number_from(lsn, &mut piece.headers);
            lsn += piece.headers.len() as u64;
            let next = blocks.pop().ok_or_else(|| self.no_space())?;
            let first = piece.headers.first().map_or(lsn, |header| header.lsn.0);
            let appended = self
                .replace_open_block(number, &mut state, next, purpose)
                .and_then(|()| {
                    if let Some(block) = self.block(next) {
                        block.set_change_lsns(first, u64::MAX);
                    }
                    self.append_again(
                        number,
                        &mut state,
                        purpose,
                        &mut piece.headers,
                        &mut piece.entries,
                    )
                });
            match appended {
                Ok(first) => firsts.push(first),
                Err(error) => {
                    // Members are in the log already and must not count: nothing behind them may
                    // become durable.
                    self.syncer.fail(error.to_string());
                    self.give_back_unused(blocks);
                    return Err(error);
                }
            }
        }
        Ok(firsts)
    }

    /// Takes free blocks, with disk space behind all of each.
    fn take_backed(&self, purpose: Purpose, count: usize) -> Result<Vec<BlockId>> {
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let taken = self.take_block(purpose).and_then(|id| {
                blocks.push(id);
                self.back_whole(id)
                    .map_err(|error| self.refused(purpose, error))
            });
            if let Err(error) = taken {
                self.give_back_unused(blocks);
                return Err(error);
            }
        }
        Ok(blocks)
    }

    fn give_back_unused(&self, blocks: Vec<BlockId>) {
        for id in blocks {
            self.space.give_back(id, false);
        }
    }
}
