//! Chains of deltas in the log: which entries a record consists of, and what they come to.

use crate::digest::Digest;
use crate::entry::{EntryHeader, EntryKind, EntryView, FLAGS_OF_PLACE, Lsn, RawHeader};
use crate::epoch::Guard;
use crate::image::delta::Delta;
use crate::image::{ChainPart, ImageContent};
use crate::location::{Location, UNIT_BYTES};
use crate::log::volume::Volume;

/// Deltas of a chain at most.
pub(crate) const DELTAS_MAX: usize = 254;
/// Deltas after which a record is folded, if its image was lost meanwhile, or if it is small.
const DELTAS_WITHOUT_IMAGE: usize = 16;
const DELTAS_OF_SMALL: usize = 64;
const LARGE_BYTES: usize = 64 << 10;

/// Records from this size on are edited by deltas. Smaller ones are written whole: a delta has no
/// key, so the change feed could not name the record of an edit once that is gone. Deltas from 256
/// B on would also make an edge of a batch of 100 take 1.4 times as long, by the images beside the
/// log.
pub(crate) const DELTA_RECORD_BYTES_MIN: usize = 1 << 10;
/// A delta takes at most one part in this many of its record.
pub(crate) const DELTA_SHARE: usize = 8;

/// How many times as large as its whole record, or as small, a version of a chain may be. Emptying
/// a block writes records of which it has a delta: they cannot be much larger than is known of
/// them. And of a record that has shrunk the old bytes stay in the log until it is written whole.
const GROWTH_MAX: u64 = 2;

/// Whether a version with this body is too much larger, or smaller, than the whole record that its
/// chain would begin with.
pub(crate) fn is_outgrown(whole_units: u32, body_bytes: usize) -> bool {
    let (whole, new) = (
        u64::from(whole_units),
        u64::from(EntryHeader::span_for(body_bytes)),
    );
    whole.max(new) > GROWTH_MAX * whole.min(new)
}

/// Whether a record with this image should be written whole. `had_image`: it was not built for this
/// edit.
pub(crate) fn should_fold(content: &ImageContent, had_image: bool) -> bool {
    let body_bytes = content.body.len();
    let most = match () {
        () if !had_image => DELTAS_WITHOUT_IMAGE,
        () if body_bytes >= LARGE_BYTES => DELTAS_MAX,
        () => DELTAS_OF_SMALL,
    };
    content.parts.len() > most || u64::from(content.delta_units) * UNIT_BYTES > body_bytes as u64
}

/// The header of an image: that of the newest version, for a whole record.
pub(crate) fn image_header(header: EntryHeader, body_bytes: usize) -> RawHeader {
    let whole = EntryHeader {
        kind: EntryKind::Record,
        flags: header.flags & !FLAGS_OF_PLACE,
        span_units: EntryHeader::span_for(body_bytes),
        body_bytes: body_bytes as u32,
        ..header
    };
    whole.encode_unchecked()
}

/// More entries than a chain has. An opening can put the edits of a folded record behind the ones
/// that were folded, if the whole record was not durable.
const ENTRIES_MAX: usize = 16 * DELTAS_MAX;

/// Walks a chain from its newest entry to the whole record, and offers each entry. None: an entry
/// of it is missing or damaged.
fn walk(
    volumes: &[Volume],
    newest: Location,
    guard: &Guard,
    mut seen: impl FnMut(ChainPart, EntryView<'_>),
) -> Option<()> {
    let mut at = newest;
    let mut expected: Option<(Lsn, Digest)> = None;
    for _ in 0..ENTRIES_MAX {
        let volume = volumes.get(at.device())?;
        let entry = volume.entry(at, guard)?;
        let view = entry.view();
        let is_it =
            expected.is_none_or(|(lsn, digest)| view.lsn() == lsn && view.has_digest(&digest));
        if !is_it || !volume.holds(at, &view) {
            return None;
        }
        let part = ChainPart {
            location: at,
            units: view.span_units(),
        };
        seen(part, view);
        if view.kind_is(EntryKind::Record) {
            return Some(());
        }
        if !view.kind_is(EntryKind::Delta) {
            return None;
        }
        let delta = Delta::decode(view.body())?;
        expected = Some((delta.before_lsn, view.digest()));
        at = delta.before;
    }
    None
}

/// The parts of a chain, the whole record first. None: an entry of it is missing or damaged.
pub(crate) fn parts_of(
    volumes: &[Volume],
    newest: Location,
    guard: &Guard,
) -> Option<Vec<ChainPart>> {
    let mut parts = Vec::new();
    walk(volumes, newest, guard, |part, _| parts.push(part))?;
    parts.reverse();
    Some(parts)
}

/// What the image of a chain holds. None: an entry of it is missing or damaged.
pub(crate) fn content_of(
    volumes: &[Volume],
    newest: Location,
    guard: &Guard,
) -> Option<ImageContent> {
    let (mut parts, mut bodies) = (Vec::new(), Vec::new());
    let mut header = None;
    walk(volumes, newest, guard, |part, view| {
        parts.push(part);
        header = header.or_else(|| EntryHeader::decode(view.raw()));
        // Copied: the memory of a staged entry is used again by the thread's next copy.
        bodies.push(view.body().to_vec());
    })?;
    let mut body = bodies.pop()?;
    while let Some(delta) = bodies.pop() {
        body = Delta::decode(&delta)?.apply(&body)?;
    }
    parts.reverse();
    let raw = image_header(header?, body.len());
    Some(ImageContent::new(raw, body, parts))
}
