//! From chains to images and back.

use crate::digest::Digest;
use crate::epoch::Guard;
use crate::error::Result;
use crate::image::delta::Delta;
use crate::image::{Content, Image, Images, Part};
use crate::index::Slot;
use crate::location::{Location, UNIT_BYTES};
use crate::log::Log;
use crate::log::entry::{EntryView, FLAG_GROUPED, Header, Kind, Lsn, RawHeader};
use crate::log::volume::{Entry, OwnedEntry};
use crate::namespace::Core;
use std::sync::atomic::Ordering;

/// Deltas of a chain at most.
pub(crate) const DELTAS_MAX: usize = 254;
/// A record is folded after so many deltas if its image was lost meanwhile, if it is small, and if it is large.
const DELTAS_WITHOUT_IMAGE: usize = 16;
const DELTAS_OF_SMALL: usize = 64;
const LARGE_BYTES: usize = 64 << 10;

/// Records from this size on are edited by deltas.
pub(crate) const DELTA_RECORD_BYTES_MIN: usize = 1 << 10;
/// A delta takes at most one part in so many of its record.
pub(crate) const DELTA_SHARE: usize = 8;

/// Images that one read or write evicts at most.
const EVICTIONS: usize = 8;

/// Whether a record with this image should be written whole. `had_image`: it was not built for this edit.
pub(crate) fn should_fold(content: &Content, had_image: bool) -> bool {
    let body_bytes = content.body.len();
    let most = match () {
        () if !had_image => DELTAS_WITHOUT_IMAGE,
        () if body_bytes >= LARGE_BYTES => DELTAS_MAX,
        () => DELTAS_OF_SMALL,
    };
    content.parts.len() > most || u64::from(content.delta_units) * UNIT_BYTES > body_bytes as u64
}

/// The header of an image: that of the newest version, for a whole record.
pub(crate) fn image_header(header: Header, body_bytes: usize) -> RawHeader {
    let whole = Header {
        kind: Kind::Record,
        flags: header.flags & !FLAG_GROUPED,
        span_units: Header::span_for(body_bytes),
        body_bytes: body_bytes as u32,
        ..header
    };
    whole.encode_unchecked()
}

/// Walks a chain from its newest entry to the whole record, and offers each entry. None: an entry of it is missing or
/// damaged.
fn walk(
    log: &Log,
    newest: Location,
    guard: &Guard,
    mut seen: impl FnMut(Part, EntryView<'_>),
) -> Option<()> {
    let mut at = newest;
    let mut expected: Option<(Lsn, Digest)> = None;
    for _ in 0..=DELTAS_MAX + 1 {
        let entry = log.entry(at, guard)?;
        let view = entry.view();
        let is_it =
            expected.is_none_or(|(lsn, digest)| view.lsn() == lsn && view.has_digest(&digest));
        if !is_it || !log.holds(at, &view) {
            return None;
        }
        let part = Part {
            location: at,
            units: view.span_units(),
        };
        seen(part, view);
        if view.kind_is(Kind::Record) {
            return Some(());
        }
        if !view.kind_is(Kind::Delta) {
            return None;
        }
        let delta = Delta::decode(view.body())?;
        expected = Some((delta.before_lsn, view.digest()));
        at = delta.before;
    }
    None
}

/// The parts of a chain, the whole record first. None: an entry of it is missing or damaged.
pub(crate) fn parts_of(log: &Log, newest: Location, guard: &Guard) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    walk(log, newest, guard, |part, _| parts.push(part))?;
    parts.reverse();
    Some(parts)
}

/// What the image of a chain holds. None: an entry of it is missing or damaged.
pub(crate) fn content_of(log: &Log, newest: Location, guard: &Guard) -> Option<Content> {
    let (mut parts, mut bodies) = (Vec::new(), Vec::new());
    let mut header = None;
    walk(log, newest, guard, |part, view| {
        parts.push(part);
        header = header.or_else(|| Header::decode(view.raw()));
        bodies.push(match view.kind_is(Kind::Record) {
            true => view.record_body().to_vec(),
            false => view.body().to_vec(),
        });
    })?;
    let mut body = bodies.pop()?;
    while let Some(delta) = bodies.pop() {
        body = Delta::decode(&delta)?.apply(&body)?;
    }
    parts.reverse();
    let raw = image_header(header?, body.len());
    Some(Content::new(raw, body, parts))
}

impl Core {
    /// The record whose newest version is the delta at this location, from an image that stays behind.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an entry of the chain does not hold.
    pub(crate) fn imaged<'a>(
        &'a self,
        digest: &Digest,
        newest: Location,
        guard: &'a Guard,
    ) -> Result<Entry<'a>> {
        let Some(content) = content_of(&self.log, newest, guard) else {
            return Err(self.damaged(newest));
        };
        self.evict(guard);
        let images = self.log.images();
        if let Some(number) = images.insert(Image::new(content.clone())) {
            let mut partition = self.index.lock(digest);
            match partition.find(digest.tag(), |slot| slot.location == newest) {
                Some(at) => {
                    let slot = partition.get(at);
                    let with_image = Slot {
                        location: Images::location_of(number),
                        unverified: false,
                        ..slot
                    };
                    partition.replace(at, with_image);
                }
                // Somebody was quicker.
                None => images.remove(number, guard),
            }
        }
        Ok(Entry::Owned(OwnedEntry::Built(Box::new(content))))
    }

    /// Drops some images that nobody has looked at of late, if there are too many: their chains stay.
    pub(crate) fn evict(&self, guard: &Guard) {
        let images = self.log.images();
        for _ in 0..EVICTIONS {
            if !images.is_over_budget() {
                return;
            }
            let Some(number) = images.next_cold() else {
                return;
            };
            let Some(image) = images.get(number, guard) else {
                continue;
            };
            // One that is being edited is not cold.
            let Some(content) = image.read() else {
                continue;
            };
            let (newest, digest) = (image.newest(), *image.digest());
            let location = Images::location_of(number);
            let mut partition = self.index.lock(&digest);
            let Some(at) = partition.find(digest.tag(), |slot| slot.location == location) else {
                continue;
            };
            let slot = partition.get(at);
            partition.replace(
                at,
                Slot {
                    location: newest,
                    ..slot
                },
            );
            drop(partition);
            drop(content);
            images.remove(number, guard);
        }
    }

    /// The entries that a slot's version consists of, the whole record first.
    pub(crate) fn parts_of_slot(&self, slot: &Slot, guard: &Guard) -> Vec<Part> {
        let alone = || {
            vec![Part {
                location: slot.location,
                units: slot.size_units,
            }]
        };
        if let Some(number) = Images::number_of(slot.location) {
            let Some(image) = self.log.images().get(number, guard) else {
                return Vec::new();
            };
            return match image.read() {
                Some(content) => content.content().parts.clone(),
                None => parts_of(&self.log, image.newest(), guard).unwrap_or_default(),
            };
        }
        if !self.any_deltas.load(Ordering::Relaxed) {
            return alone();
        }
        let is_delta = self
            .log
            .entry(slot.location, guard)
            .is_some_and(|entry| entry.view().kind_is(Kind::Delta));
        match is_delta {
            true => parts_of(&self.log, slot.location, guard).unwrap_or_else(alone),
            false => alone(),
        }
    }

    /// What the slot would be if images were not kept: its location is that of an entry. With the parts of its chain, if it
    /// has one.
    pub(crate) fn stored_slot(&self, slot: &Slot, guard: &Guard) -> (Slot, Option<Vec<Part>>) {
        let parts = self.parts_of_slot(slot, guard);
        match parts.last() {
            Some(newest) if parts.len() > 1 => {
                let stored = Slot {
                    location: newest.location,
                    size_units: newest.units,
                    ..*slot
                };
                (stored, Some(parts))
            }
            _ => (*slot, None),
        }
    }
}
