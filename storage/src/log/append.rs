//! Appending entries to a lane: their numbers, and where they go when space is short.

use crate::device::DeviceError;
use crate::entry::{Appended, EntryHeader, Lsn, NewEntry, void_header};
use crate::error::{Error, Result};
use crate::location::Location;
use crate::log::Log;
use crate::log::assembled::Assembled;
use crate::log::lane::{LaneState, OpenBlock};
use crate::log::space::SpacePurpose;
use crate::log::truncation::KnownTruncations;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

impl Log {
    /// Appends an entry. Its header gets its sizes, and a number if it has none.
    ///
    /// An error leaves nothing behind, except for [`Error::InDoubt`]: the entry that the device
    /// refused is there, and the namespace takes no more writes.
    pub(crate) fn append(&self, purpose: SpacePurpose, entry: NewEntry<'_>) -> Result<Appended> {
        self.append_since(KnownTruncations::default(), purpose, entry)
    }

    /// Does as [`Log::append`] does. `known`: the truncations before the lock of the record that a
    /// new version is of.
    ///
    /// # Errors
    /// Also [`Error::Conflict`] if there was another one since.
    #[inline]
    pub(crate) fn append_since(
        &self,
        known: KnownTruncations,
        purpose: SpacePurpose,
        mut entry: NewEntry<'_>,
    ) -> Result<Appended> {
        let mut assembled = Assembled::default();
        assembled.known = known;
        entry.with_parts(|header, parts| assembled.push(header, parts, self.block_bytes()))?;
        let headers = std::slice::from_mut(&mut entry.header);
        let location = self.append_in_one(purpose, headers, &mut assembled)?;
        Ok(Appended::new(location, &entry.header))
    }

    /// Draws a number that belongs to no change. An entry in the log covers it.
    pub(crate) fn append_void(&self) -> Result<Lsn> {
        let header = void_header(Lsn(0), 1);
        let appended = self.append(SpacePurpose::Delete, NewEntry::new(header, None, &[]))?;
        // Dead at once: recovery asks for the number only until it is durable, and no block with an
        // undurable number is given back.
        self.release(appended.location, appended.units);
        Ok(appended.lsn)
    }

    /// Appends entries that fit into one block together, with consecutive numbers. Inlined, so that
    /// a single entry, the common case, costs no loop.
    #[inline(always)]
    pub(super) fn append_in_one(
        &self,
        purpose: SpacePurpose,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
    ) -> Result<Location> {
        let mut state = self.lane(purpose)?;
        match self.append_to_lane(&mut state, purpose, headers, entries) {
            Ok(location) => Ok(location),
            Err(error) => {
                let appended = self.append_elsewhere(state, purpose, error, (headers, entries));
                appended.inspect_err(|_| self.syncer.wake_failed())
            }
        }
    }

    /// Appends where there is room after all, after an error of the lane that the thread was to
    /// use.
    #[cold]
    fn append_elsewhere(
        &self,
        mut state: MutexGuard<'_, LaneState>,
        purpose: SpacePurpose,
        error: Error,
        (headers, entries): (&mut [EntryHeader], &mut Assembled),
    ) -> Result<Location> {
        let is_disk_full = matches!(error, Error::Device(DeviceError::Full { .. }));
        let error = match self.append_backed(&mut state, purpose, error, (headers, entries)) {
            Err(error @ Error::NoSpace { .. }) => error,
            done => return done,
        };
        // The rest of the disk behind the blocks of writers is for deletes.
        if purpose <= SpacePurpose::Shrink || (is_disk_full && purpose.is_cleaning()) {
            return Err(error);
        }
        // The lanes are locked one after the other there, this one too.
        drop(state);
        self.append_beside_writers(purpose, error, (headers, entries))
    }

    /// Appends entries with the numbers that they have, by a lane that belongs to an opening.
    pub(crate) fn append_rescued(
        &self,
        state: &mut LaneState,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
    ) -> Result<Location> {
        let purpose = SpacePurpose::Defrag;
        match self.append_again(state, purpose, headers, entries) {
            Ok(location) => Ok(location),
            Err(error) => self.append_backed(state, purpose, error, (headers, entries)),
        }
    }

    /// Exchanges the block that a lane of an opening fills for that of the first lane: a sync names
    /// the blocks of the log's own lanes.
    pub(crate) fn swap_open(&self, opening: &mut LaneState) {
        if let Some(first) = self.lanes.first() {
            std::mem::swap(&mut first.lock().open, &mut opening.open);
        }
    }

    /// The next number to be given out is the one after this.
    pub(crate) fn set_last_lsn(&self, lsn: u64) {
        self.next_lsn.store(lsn + 1, Ordering::SeqCst);
    }

    /// Appends again after an error, where that was a full disk and there are blocks that were kept
    /// backed.
    #[cold]
    pub(super) fn append_backed(
        &self,
        state: &mut LaneState,
        purpose: SpacePurpose,
        error: Error,
        (headers, entries): (&mut [EntryHeader], &mut Assembled),
    ) -> Result<Location> {
        let is_full = matches!(error, Error::Device(DeviceError::Full { .. }));
        let may_take_backed =
            purpose != SpacePurpose::Write && self.space.backed_blocks() > purpose.backed_kept();
        let error = if is_full && may_take_backed {
            let next = self.take_block(purpose)?;
            self.replace_open_block(state, next, purpose)?;
            match self.append_again(state, purpose, headers, entries) {
                Err(again) => again,
                appended => return appended,
            }
        } else {
            error
        };
        Err(match error {
            Error::Device(error) => self.refused(purpose, error),
            other => other,
        })
    }

    /// Appends to a block that another lane has open: where no other is left, deletes and cleaning
    /// go on in their rest. The caller holds no lane.
    #[cold]
    fn append_beside_writers(
        &self,
        purpose: SpacePurpose,
        mut refused: Error,
        (headers, entries): (&mut [EntryHeader], &mut Assembled),
    ) -> Result<Location> {
        let (bytes, count) = (entries.bytes(), headers.len());
        let has_room = |open: &OpenBlock| open.fits(bytes, count);
        // The last lane is for copies, which followers of changes pass over.
        let writers = self.lanes.len() - usize::from(!purpose.is_cleaning());
        for lane in self.lanes.iter().take(writers) {
            let mut state = lane.lock();
            if !state.open.as_ref().is_some_and(has_room) {
                continue;
            }
            match self.append_again(&mut state, purpose, headers, entries) {
                // Another one may have disk space behind it.
                Err(Error::Device(full @ DeviceError::Full { .. })) => {
                    refused = self.refused(purpose, full);
                }
                done => return done,
            }
        }
        Err(refused)
    }

    /// Does as [`Log::append_to_lane`] does, where that is not worth another copy of its code.
    #[inline(never)]
    pub(super) fn append_again(
        &self,
        state: &mut LaneState,
        purpose: SpacePurpose,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
    ) -> Result<Location> {
        self.append_to_lane(state, purpose, headers, entries)
    }

    /// Appends entries to the open block of a lane, or to a new one if that is full.
    #[inline(always)]
    fn append_to_lane(
        &self,
        state: &mut LaneState,
        purpose: SpacePurpose,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
    ) -> Result<Location> {
        let mut lane = self.lane_with_room(state, entries.bytes(), headers.len(), purpose)?;
        let is_numbered = headers.first().is_some_and(|header| header.lsn.0 != 0);
        self.truncations.check(entries.known, headers)?;
        // A write that fails after its number was drawn would leave a gap. One lock for all lanes
        // keeps the number for the next entry.
        let in_order = (self.writes_may_fail && !is_numbered).then(|| self.in_order.lock());
        if in_order.is_some() || lane.open.has_remains {
            // Its owner before may have left entries of the next numbers.
            self.syncer.check(&self.namespace)?;
        }
        let draw = |headers: &mut [EntryHeader]| match (is_numbered, &in_order) {
            (true, _) => {}
            (false, None) => {
                let count = headers.len() as u64;
                number_from(self.next_lsn.fetch_add(count, Ordering::SeqCst), headers);
            }
            (false, Some(_)) => number_from(self.next_lsn.load(Ordering::SeqCst), headers),
        };
        let appended = lane.append(purpose, headers, entries, draw);
        if appended.is_ok() && in_order.is_some() {
            let count = headers.len() as u64;
            self.next_lsn.fetch_add(count, Ordering::SeqCst);
        }
        if let Err(error) = &appended
            && lane.open.has_remains
        {
            // An opening would join them with the next entries of these numbers, or, where entries
            // are staged, find them in place of the void entry and of all that is staged behind it.
            let reason = error.to_string();
            self.syncer.set_failed(reason.clone());
            return Err(Error::InDoubt { reason });
        }
        // The entries may be tried in another block, and a number other than 0 counts as given.
        if appended.is_err() && !is_numbered {
            headers.iter_mut().for_each(|header| header.lsn = Lsn(0));
        }
        Ok(appended?)
    }

    /// The error of an append for want of space, or another one of a device.
    pub(super) fn refused(&self, purpose: SpacePurpose, error: DeviceError) -> Error {
        if !matches!(error, DeviceError::Full { .. }) {
            return Error::Device(error);
        }
        self.space.set_disk_full(true);
        self.out_of_space(purpose)
    }
}

/// Gives headers consecutive numbers.
pub(super) fn number_from(first: u64, headers: &mut [EntryHeader]) {
    for (lsn, header) in (first..).zip(headers) {
        header.lsn = Lsn(lsn);
    }
}
