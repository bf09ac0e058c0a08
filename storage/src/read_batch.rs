//! Reads of many records: their cache misses overlap instead of following each other.
//!
//! A read touches three lines that depend on each other: the partition, the slot in its table, the
//! entry in the log. Done one record after the other, each miss is waited for. Here a group of
//! records goes through the stages together:
//!
//! 1. ask for the partition of every digest,
//! 2. ask for the line of every table in which the lookup begins,
//! 3. look up every digest, then ask for the first lines of every entry,
//! 4. read: check that the entry found is the record's, or else read it like a single record, on
//!    lines that are in the cache by now.
//!
//! Stages 1 to 3 change no answer: what they overlook costs a miss later and nothing else.

use crate::core::{Core, Namespace};
use crate::digest::Digest;
use crate::entry::EntryView;
use crate::epoch::{self, Guard};
use crate::error::Result;
use crate::index::Candidate;
use crate::location::Location;

/// Records that go through the stages together. Fewer leave the memory idle at the ends of the
/// stages; 64 were slower, and hold back space for longer.
const GROUP: usize = 32;

impl Namespace {
    /// Lends the records of these digests to `read`, each with its position among them, in their
    /// order: as [`Namespace::get`] of each would, at a fraction of the cost, since memory is
    /// fetched for up to 32 at a time. A record that is damaged is an error of its own; the others
    /// are read.
    ///
    /// A record beyond the processor's caches costs a quarter to a fifth of a single read.
    /// Allocates nothing, takes no lock. Space cannot be used again while `read` runs for a group:
    /// keep it short. Versions written while `read` runs for a group may not be seen by the rest of
    /// that group.
    ///
    /// # Errors
    /// Passed to `read`: [`Error::Damaged`](crate::Error::Damaged) if the stored bytes do not match
    /// their checksum.
    #[inline]
    pub fn get_batch(
        &self,
        digests: &[Digest],
        mut read: impl FnMut(usize, Result<Option<EntryView<'_>>>),
    ) {
        let mut position = 0;
        let mut candidates = [None; GROUP];
        for group in digests.chunks(GROUP) {
            let guard = epoch::pin();
            self.core.prefetch_records(group, &mut candidates, &guard);
            for (digest, candidate) in group.iter().zip(&candidates) {
                match self.core.fetched(digest, *candidate, &guard) {
                    Some(view) => read(position, Ok(Some(view))),
                    None => match self.core.visible(digest, &guard) {
                        Ok(Some(found)) => read(position, Ok(Some(found.view()))),
                        Ok(None) => read(position, Ok(None)),
                        Err(error) => read(position, Err(error)),
                    },
                }
                position += 1;
            }
        }
    }

    /// Asks the processor to load what [`Namespace::get`] of these digests will read. For records
    /// that are used one by one soon after; pass a few dozen at a time, since the cache keeps no
    /// more for long.
    pub fn prefetch_batch(&self, digests: &[Digest]) {
        for group in digests.chunks(GROUP) {
            self.core
                .prefetch_records(group, &mut [None; GROUP], &epoch::pin());
        }
    }
}

impl Core {
    /// Has the memory of up to [`GROUP`] records fetched, and says for each where its entry is
    /// likely to be.
    fn prefetch_records(
        &self,
        group: &[Digest],
        candidates: &mut [Option<Candidate>; GROUP],
        guard: &Guard,
    ) {
        for digest in group {
            self.index.at(digest).prefetch_partition();
        }
        for digest in group {
            self.index.at(digest).prefetch(guard);
        }
        for (digest, candidate) in group.iter().zip(&mut *candidates) {
            let found = self.index.at(digest).first_candidate(guard);
            *candidate = found.map(|(_, candidate)| candidate);
        }
        // A loop of its own: a prefetch waits for its address to be translated, and only code close
        // behind it in the program goes on meanwhile.
        for candidate in candidates.iter().take(group.len()).flatten() {
            self.log.prefetch_start(candidate.location);
        }
    }

    /// The record with this digest, if it is where `candidate` says and needs no further check; the
    /// index had it there after the guard was pinned. `None`: look it up.
    #[inline]
    fn fetched<'a>(
        &'a self,
        digest: &Digest,
        candidate: Option<Candidate>,
        guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        let view = self.lent(candidate?, guard)?;
        let is_it = view.has_digest(digest) && self.shows(&view) && self.is_current(&view);
        is_it.then_some(view)
    }

    /// Passes these on in their order; before each group of them, asks for the first lines of the
    /// group's entries.
    pub(crate) fn prefetching<'a, T>(
        &'a self,
        items: &'a [T],
        location: impl Fn(&T) -> Option<Location> + 'a,
    ) -> impl Iterator<Item = &'a T> {
        items.chunks(GROUP).flat_map(move |group| {
            for location in group.iter().filter_map(&location) {
                self.log.prefetch_start(location);
            }
            group
        })
    }
}
