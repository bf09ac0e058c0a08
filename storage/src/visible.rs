//! What readers see of a record: its newest entry, checked, and neither truncated nor possibly
//! stale.

use crate::core::{Core, CoreCounters};
use crate::digest::Digest;
use crate::entry::{EntryKind, EntryView};
use crate::epoch::{Guard, WatchedBlock};
use crate::error::{Error, Result};
use crate::index::{Candidate, IndexSlot};
use crate::location::Location;
use crate::log::volume::HeldEntry;

/// A record that readers see.
#[derive(Debug)]
pub(crate) enum Visible<'a> {
    /// In the memory of a device, at this location.
    Lent(EntryView<'a>, Location),
    Other(HeldEntry<'a>),
}

/// The result of a look-up.
enum Found<'a> {
    Lent(EntryView<'a>, Candidate),
    Unlent(Candidate, Option<HeldEntry<'a>>),
}

impl Visible<'_> {
    #[inline]
    pub(crate) fn view(&self) -> EntryView<'_> {
        match self {
            Self::Lent(view, _) => *view,
            Self::Other(entry) => entry.view(),
        }
    }
}

impl Core {
    /// Returns the record with this digest, as readers see it.
    #[inline]
    pub(crate) fn visible<'a>(
        &'a self,
        digest: &Digest,
        guard: &'a Guard,
    ) -> Result<Option<Visible<'a>>> {
        let found =
            self.index
                .at(digest)
                .lookup(guard, |candidate| match self.lent(candidate, guard) {
                    Some(view) => view
                        .has_digest(digest)
                        .then_some(Found::Lent(view, candidate)),
                    None => self.found_unlent(digest, candidate, guard),
                });
        match found {
            None => self.absent(),
            Some(Found::Lent(view, candidate)) if self.shows(&view) && self.is_current(&view) => {
                Ok(Some(Visible::Lent(view, candidate.location)))
            }
            Some(found) => self.visible_unlent(found, guard),
        }
    }

    /// Returns the block that a reader of this record looks at.
    #[inline]
    pub(crate) fn watched_by(&self, found: &Visible<'_>) -> WatchedBlock {
        match found {
            Visible::Lent(_, location) => self.log.watched(self.log.block_id_of(*location)),
            Visible::Other(_) => WatchedBlock::NONE,
        }
    }

    /// The entry of a candidate, if it can be lent as it is.
    #[inline]
    pub(crate) fn lent<'a>(
        &'a self,
        candidate: Candidate,
        guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        if candidate.unverified {
            None
        } else {
            self.log.lent_entry(candidate.location, guard)
        }
    }

    /// Returns the entry of a candidate that cannot be lent, if it is this record's: it is staged,
    /// was never checked, has an image, or cannot be read.
    #[inline(never)]
    fn found_unlent<'a>(
        &'a self,
        digest: &Digest,
        candidate: Candidate,
        guard: &'a Guard,
    ) -> Option<Found<'a>> {
        let entry = self.log.entry(candidate.location, guard);
        self.may_be(digest, candidate, entry.as_ref())
            .then_some(Found::Unlent(candidate, entry))
    }

    /// Completes [`Core::visible`] for an entry that is not simply lent, or is hidden, or has a
    /// chain.
    #[inline(never)]
    fn visible_unlent<'a>(
        &'a self,
        found: Found<'a>,
        guard: &'a Guard,
    ) -> Result<Option<Visible<'a>>> {
        let (candidate, entry) = match found {
            Found::Lent(_, candidate) => (candidate, self.log.entry(candidate.location, guard)),
            Found::Unlent(candidate, entry) => (candidate, entry),
        };
        let entry = self.checked(candidate, entry, guard)?;
        let view = self.current(entry.view())?;
        Ok(self.shows(&view).then_some(Visible::Other(entry)))
    }

    /// Whether readers see this entry's record: it is not truncated.
    #[inline]
    pub(crate) fn shows(&self, entry: &EntryView<'_>) -> bool {
        entry.kind_is(EntryKind::Record) && !self.hides(entry)
    }

    /// Whether a truncation hides an entry.
    #[inline]
    pub(crate) fn hides(&self, entry: &EntryView<'_>) -> bool {
        self.sets
            .hides(entry.set_id(), entry.lsn(), entry.last_update_ms())
    }

    /// Returns the entry, or an error if a newer one may have been lost with bytes of unknown
    /// owners.
    #[inline]
    pub(crate) fn current<'a>(&self, entry: EntryView<'a>) -> Result<EntryView<'a>> {
        if self.is_current(&entry) {
            Ok(entry)
        } else {
            Err(self.unknown())
        }
    }

    #[inline]
    pub(crate) fn is_current(&self, entry: &EntryView<'_>) -> bool {
        entry.lsn().0 > self.unknown_below_lsn
    }

    /// Returns the answer for a record without an entry: it does not exist, or, if bytes of unknown
    /// owners are lost, an error.
    pub(crate) fn absent<T>(&self) -> Result<Option<T>> {
        if self.unknown_below_lsn > 0 {
            return Err(self.unknown());
        }
        Ok(None)
    }

    #[cold]
    fn unknown(&self) -> Error {
        CoreCounters::add(&self.counters.damaged, 1);
        Error::MaybeStale {
            namespace: self.name.clone(),
        }
    }

    /// Whether a slot with this digest's tag is its record's.
    pub(crate) fn is_of(&self, slot: &IndexSlot, digest: &Digest, guard: &Guard) -> bool {
        if let Some(image) = self.log.image(slot.location, guard) {
            return image.digest() == digest;
        }
        let entry = self.log.entry(slot.location, guard);
        self.may_be(digest, slot.candidate(), entry.as_ref())
    }

    /// Whether a candidate with this entry is the record with this digest. It may be if its entry
    /// cannot be read, or has a damaged header and was never checked: its tag fits, and its digest
    /// cannot be trusted to say otherwise.
    fn may_be(&self, digest: &Digest, candidate: Candidate, entry: Option<&HeldEntry<'_>>) -> bool {
        entry.is_none_or(|entry| {
            let view = entry.view();
            view.has_digest(digest)
                || (candidate.unverified
                    && (self.log.checked_header(candidate.location, &view)).is_none())
        })
    }

    /// The entry of a slot; its checks are looked at unless they were before.
    pub(crate) fn checked_entry<'a>(
        &'a self,
        slot: &IndexSlot,
        guard: &'a Guard,
    ) -> Result<HeldEntry<'a>> {
        let entry = self.log.entry(slot.location, guard);
        self.checked(slot.candidate(), entry, guard)
    }

    /// The entry of a candidate, whole, if it holds.
    fn checked<'a>(
        &'a self,
        candidate: Candidate,
        entry: Option<HeldEntry<'a>>,
        guard: &'a Guard,
    ) -> Result<HeldEntry<'a>> {
        let location = candidate.location;
        let holds = |entry: &HeldEntry<'_>| {
            !candidate.unverified || self.log.holds(location, &entry.view())
        };
        let entry = entry.filter(holds);
        let entry = entry.ok_or_else(|| self.damaged(location))?;
        let digest = entry.view().digest();
        if candidate.unverified {
            self.mark_verified(&digest, location);
        }
        if entry.view().kind_is(EntryKind::Delta) {
            return self.imaged(&digest, location, guard);
        }
        Ok(entry)
    }

    /// The error of an entry that does not hold, or cannot be read.
    #[cold]
    pub(crate) fn damaged(&self, location: Location) -> Error {
        CoreCounters::add(&self.counters.damaged, 1);
        Error::damaged_at(location)
    }

    /// The entry of a slot, unless it is damaged: then nothing in it is believed, and its record
    /// goes on to say so.
    pub(crate) fn believed_entry<'a>(
        &'a self,
        slot: &IndexSlot,
        guard: &'a Guard,
    ) -> Option<HeldEntry<'a>> {
        let entry = self.log.entry(slot.location, guard)?;
        (!slot.unverified || self.log.holds(slot.location, &entry.view())).then_some(entry)
    }

    /// The last-update time (ms) and the flags of a slot's entry, unless its header is damaged.
    pub(crate) fn believed_header(&self, slot: &IndexSlot, guard: &Guard) -> Option<(u64, u8)> {
        let entry = self.log.entry(slot.location, guard)?;
        let view = entry.view();
        self.believes(slot, &view)
            .then(|| (view.last_update_ms(), view.flags()))
    }

    /// Whether the header of a slot's entry is as it was written.
    #[inline]
    pub(crate) fn believes(&self, slot: &IndexSlot, view: &EntryView<'_>) -> bool {
        !slot.unverified || self.log.checked_header(slot.location, view).is_some()
    }

    fn mark_verified(&self, digest: &Digest, location: Location) {
        let mut partition = self.index.lock(digest);
        if let Some(at) = partition.find(digest.tag(), |slot| slot.location == location) {
            partition.update(at, |slot| slot.unverified = false);
        }
    }
}
