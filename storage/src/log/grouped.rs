//! Appending entries that count together: recovery takes all of them, or none.
//!
//! They get consecutive numbers, drawn at once under the lock of their lane, so a sync's horizon
//! never falls between them. A group that fits into a block is one write. A larger one gets all its
//! blocks before its first number is drawn; no write can then fail for want of space.

use crate::entry::{Appended, EntryHeader, FLAG_HAS_NEXT, FLAG_HAS_PREVIOUS, NewEntry};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::log::Log;
use crate::log::append::number_from;
use crate::log::assembled::Assembled;
use crate::log::block::{BlockId, ENTRIES_AT};
use crate::log::directory::directory_bytes;
use crate::log::lane::FILLER_BYTES_MIN;
use crate::log::space::SpacePurpose;
use crate::log::truncation::KnownTruncations;
use crate::sync::atomic::Ordering;
use std::cell::Cell;

/// Entries of a group that one block can hold.
struct BlockPiece {
    headers: Vec<EntryHeader>,
    entries: Assembled,
    /// Where the first of them was put.
    first: Location,
}

thread_local! {
    static HEADERS: Cell<Vec<EntryHeader>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps the memory of this many headers, and more while groups use an eighth of it.
const KEPT_HEADERS_MAX: usize = 1_024;

impl Default for BlockPiece {
    #[inline]
    fn default() -> Self {
        Self {
            headers: HEADERS.try_with(Cell::take).unwrap_or_default(),
            entries: Assembled::default(),
            first: Location::from_packed(0),
        }
    }
}

impl BlockPiece {
    /// Whether an empty block has room for the piece and one more entry of `bytes`.
    fn has_room(&self, bytes: u64, block_bytes: u64) -> bool {
        let lines = directory_bytes(self.headers.len() + 3);
        ENTRIES_AT + self.entries.bytes() + bytes + FILLER_BYTES_MIN + lines <= block_bytes
    }
}

impl Drop for BlockPiece {
    fn drop(&mut self) {
        let kept = KEPT_HEADERS_MAX.max(8 * self.headers.len());
        self.headers.clear();
        if self.headers.capacity() <= kept {
            // A thread that is ending has no place for it any more.
            let _ = HEADERS.try_with(|kept| kept.set(std::mem::take(&mut self.headers)));
        }
    }
}

/// Entries that are put together to be appended as a group, a piece a block.
#[derive(Default)]
pub(crate) struct EntryGroup {
    /// Pieces that have no room for the entry behind them: most groups have none.
    full: Vec<BlockPiece>,
    last: BlockPiece,
}

impl EntryGroup {
    /// Whether no entry was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.headers.is_empty()
    }

    /// Adds an entry.
    #[inline]
    pub(crate) fn push(&mut self, mut entry: NewEntry<'_>, block_bytes: u64) -> Result<()> {
        if let Some(before) = self.last.headers.last_mut() {
            before.flags |= FLAG_HAS_NEXT;
            entry.header.flags |= FLAG_HAS_PREVIOUS;
            if !self.last.has_room(entry.span_bytes(), block_bytes) {
                self.full.push(std::mem::take(&mut self.last));
            }
        }
        let entries = &mut self.last.entries;
        entry.with_parts(|header, parts| entries.push(header, parts, block_bytes))?;
        self.last.headers.push(entry.header);
        Ok(())
    }

    /// How many blocks the entries take that were added.
    pub(crate) fn blocks(&self) -> u64 {
        self.full.len() as u64 + 1
    }

    /// Returns where each entry is, once they were appended.
    pub(crate) fn appended(&self) -> impl Iterator<Item = Appended> {
        let pieces = self.full.iter().chain(std::iter::once(&self.last));
        pieces.flat_map(|piece| Appended::side_by_side(piece.first, &piece.headers))
    }
}

impl Log {
    /// Appends the entries of a group, of which there is at least one.
    ///
    /// An error leaves nothing that counts, except as for [`Log::append`].
    ///
    /// `known`: the truncations before the first record was locked, as for [`Log::append_since`].
    pub(crate) fn append_group(
        &self,
        known: KnownTruncations,
        purpose: SpacePurpose,
        group: &mut EntryGroup,
    ) -> Result<()> {
        group.last.entries.known = known;
        if group.full.is_empty() {
            let only = &mut group.last;
            only.first = self.append_in_one(purpose, &mut only.headers, &mut only.entries)?;
            return Ok(());
        }
        let appended = self.append_in_many(purpose, group);
        appended.inspect_err(|_| self.syncer.wake_failed())
    }

    /// Appends the pieces of a group that is larger than a block, each to a block of its own. A
    /// sync sees all of their numbers and blocks, or none.
    #[cold]
    fn append_in_many(&self, purpose: SpacePurpose, group: &mut EntryGroup) -> Result<()> {
        let pieces = || group.full.iter().chain(std::iter::once(&group.last));
        let mut state = self.lane(purpose)?;
        let last = &group.last;
        self.truncations.check(last.entries.known, &last.headers)?;
        let mut blocks = self.take_backed(purpose, pieces().count())?;
        // Behind the lane's lock, as where an entry gets its number alone. A sync gives `in_order`
        // back before it takes a lane.
        let _in_order = self.in_order.lock();
        if let Err(error) = self.syncer.check(&self.namespace) {
            self.give_back_unused(blocks);
            return Err(error);
        }
        let count: usize = pieces().map(|piece| piece.headers.len()).sum();
        let mut lsn = self.next_lsn.fetch_add(count as u64, Ordering::SeqCst);
        let last = std::iter::once(&mut group.last);
        for piece in group.full.iter_mut().chain(last) {
            number_from(lsn, &mut piece.headers);
            lsn += piece.headers.len() as u64;
            // One a piece was taken above.
            let next = blocks.pop().ok_or_else(|| self.no_space())?;
            let first = piece.headers.first().map_or(lsn, |header| header.lsn.0);
            let appended = self
                .replace_open_block(&mut state, next, purpose)
                .and_then(|()| {
                    if let Some(block) = self.block(next) {
                        block.set_change_lsns(first, u64::MAX);
                    }
                    let (headers, entries) = (&mut piece.headers, &mut piece.entries);
                    self.append_again(&mut state, purpose, headers, entries)
                });
            match appended {
                Ok(first) => piece.first = first,
                Err(error) => {
                    // Members are in the log already and must not count: nothing behind them may
                    // become durable.
                    let reason = error.to_string();
                    self.syncer.set_failed(reason.clone());
                    self.give_back_unused(blocks);
                    return Err(Error::InDoubt { reason });
                }
            }
        }
        Ok(())
    }

    /// Takes free blocks, with disk space behind all of each.
    fn take_backed(&self, purpose: SpacePurpose, count: usize) -> Result<Vec<BlockId>> {
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

#[cfg(all(test, not(shuttle), feature = "simulated"))]
mod tests {
    use crate::core::Namespace;
    use crate::device::SimulatedDevice;
    use crate::device::header_of_small;
    use crate::digest::Digest;
    use crate::entry::{Lsn, void_header};
    use crate::error::Error;
    use crate::log::LANE_HINT;
    use crate::log::assembled::Assembled;
    use crate::log::space::SpacePurpose;
    use crate::options::{Options, Storage};
    use crate::record_lock::{Change, NewVersion};
    use std::sync::Arc;

    fn open(device: SimulatedDevice) -> (Arc<SimulatedDevice>, Namespace) {
        let device = Arc::new(device);
        let options = Options {
            background: false,
            write_lanes: 2,
            ..Options::new("test", Storage::Devices(vec![Arc::clone(&device) as _]))
        };
        (device, Namespace::open(options).unwrap().0)
    }

    /// Commits a group of records with these numbers and payloads, through a lane.
    fn commit(namespace: &Namespace, lane: usize, group: &[(u8, &[u8])]) -> crate::Result<()> {
        let changes = group.iter().map(|(record, payload)| {
            let digest = Digest::new([*record; Digest::LEN]);
            let lock = namespace.lock(&digest, None).unwrap();
            let version = NewVersion {
                generation: 1,
                void_time: 0,
                last_update_ms: 1,
                set_id: 0,
                key: None,
                payload,
            };
            (lock, Change::Put(version))
        });
        LANE_HINT.set(lane);
        namespace.commit_group(changes.collect()).map(drop)
    }

    static LARGE: [u8; 100 << 10] = [0; 100 << 10];
    /// A write that fails behind the first sector stores the members before the large one.
    static REFUSED: [(u8, &[u8]); 4] = [(2, b"a"), (3, b"b"), (4, b"c"), (5, &LARGE)];

    /// The payloads of records 2 to 7 after a kill.
    fn killed(device: &SimulatedDevice) -> Vec<Vec<u8>> {
        let (_, namespace) = open(device.kill().unwrap());
        let payloads = (2..8).map(|record| {
            let digest = Digest::new([record; Digest::LEN]);
            let found = namespace.get(&digest, |entry| entry.payload().to_vec());
            found.unwrap().unwrap_or_default()
        });
        payloads.collect()
    }

    fn open_with_a_first_record() -> (Arc<SimulatedDevice>, Namespace) {
        let header = header_of_small(32);
        let (device, namespace) = open(SimulatedDevice::without_staging(&header).unwrap());
        commit(&namespace, 0, &[(1, b"first")]).unwrap();
        (device, namespace)
    }

    #[test]
    fn the_rest_of_a_refused_group_takes_no_part_in_a_group_of_another_lane() {
        let (device, namespace) = open_with_a_first_record();
        device.fail_write(1);
        assert!(commit(&namespace, 0, &REFUSED).is_err());
        // The next entry is as long as the first member, and the group gets the numbers of the
        // rest.
        commit(&namespace, 0, &[(2, b"d")]).unwrap();
        commit(&namespace, 1, &[(6, b"e"), (7, b"f")]).unwrap();
        let expected: [&[u8]; 6] = [b"d", b"", b"", b"", b"e", b"f"];
        assert_eq!(killed(&device), expected);
    }

    #[test]
    fn no_number_of_a_refused_group_is_given_again_while_its_rest_cannot_be_erased() {
        let mut in_doubt = 0;
        for nth in 1.. {
            let (device, namespace) = open_with_a_first_record();
            device.fail_write(1);
            let full = Arc::clone(&device);
            device.before_change(nth, move || full.set_refuses_writes(true));
            let refused = commit(&namespace, 0, &REFUSED).unwrap_err();
            device.set_refuses_writes(false);
            namespace.core.log.retry_growth();
            match (refused, commit(&namespace, 0, &[(2, b"d")])) {
                (Error::InDoubt { .. }, Err(Error::ReadOnly { .. })) => {
                    let found = killed(&device);
                    let is_there = found.iter().filter(|payload| !payload.is_empty()).count();
                    assert!([0, REFUSED.len()].contains(&is_there), "{is_there}");
                    // A writer that was let in before, and has waited for the numbers, gets none.
                    let log = &namespace.core.log;
                    let (mut header, mut entries) = (void_header(Lsn(0), 1), Assembled::default());
                    entries.push(&mut header, &[], log.block_bytes()).unwrap();
                    let headers = std::slice::from_mut(&mut header);
                    let mut lane = log.lanes[1].lock();
                    let late =
                        log.append_again(&mut lane, SpacePurpose::Write, headers, &mut entries);
                    assert!(matches!(late, Err(Error::ReadOnly { .. })));
                    in_doubt += 1;
                }
                // The nth change is the write that follows.
                (Error::Device(_), Err(Error::StopWrites { .. })) => break,
                // Full before the write that fails, which is the next one.
                (Error::StopWrites { .. }, Err(Error::Device(_))) => {}
                (refused, next) => panic!("{refused}, then {next:?}"),
            }
        }
        assert_eq!(in_doubt, 1);
    }
}
