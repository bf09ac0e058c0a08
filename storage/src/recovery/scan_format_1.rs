//! Reading a block of format 1, in which slots were recycled in place.

use crate::device::BLOCK_BYTES;
use crate::location::UNIT_BYTES;
use crate::log::block::Format;
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind, RawHeader, corrected};
use crate::log::group::read_commit;
use crate::log::volume::Volume;
use crate::recovery::sighting::{Sighting, UsedBlock, body_of, corrected_commit, fits, zero_units};
use std::ops::Range;

/// Walks over a block of format 1, in which slots were recycled in place. Entries up to `durable_lsn` were whole once;
/// later ones may be torn. A header is tried at every 16 bytes after one that does not hold. Returns the ranges between
/// entries.
pub(super) fn scan_format_1(
    volume: &Volume,
    used: &UsedBlock,
    durable_lsn: u64,
    block: &[u8],
    seen: &mut impl FnMut(Sighting<'_>),
) -> Vec<Range<u64>> {
    let start = used.id.offset_bytes();
    let mut at = Format::One.entries_at();
    let mut gaps: Vec<Range<u64>> = Vec::new();
    let mut in_gap = false;
    while at < BLOCK_BYTES {
        let rest = block.get(at as usize..).unwrap_or_default();
        let zeros = zero_units(rest);
        if zeros > 0 {
            in_gap = true;
            widen(&mut gaps, at, at + zeros * UNIT_BYTES);
            at += zeros * UNIT_BYTES;
            continue;
        }
        let place = volume.place(used.incarnation, start + at);
        let Some((raw, after)) = rest.split_first_chunk::<ENTRY_HEADER_BYTES>() else {
            break;
        };
        let intact = Header::decode_checked(raw, place);
        let intact = intact.as_ref().filter(|header| fits(at, header));
        let flipped;
        let (step, sighting) = match intact {
            Some(header) if header.kind == Kind::Filler => (header.span_units, None),
            Some(header) => (
                header.span_units,
                judge(start + at, raw, after, header, durable_lsn),
            ),
            // Only what was durable may be repaired: a header that was torn may resemble the one before it.
            None if !in_gap => {
                flipped = corrected(raw, place).filter(|(_, header)| {
                    fits(at, header) && header.lsn.0 <= durable_lsn && header.kind != Kind::Filler
                });
                let sighting = flipped.as_ref().and_then(|(raw, header)| {
                    judge_flipped(start + at, raw, after, header, durable_lsn)
                });
                let header = sighting.as_ref().and(flipped.as_ref());
                (header.map_or(1, |(_, header)| header.span_units), sighting)
            }
            None => (1, None),
        };
        let is_filler = intact.is_some_and(|header| header.kind == Kind::Filler);
        in_gap = sighting.is_none() && !is_filler;
        let next = at + u64::from(step) * UNIT_BYTES;
        if let Some(sighting) = sighting {
            seen(sighting);
        }
        if in_gap {
            widen(&mut gaps, at, next);
        }
        at = next;
    }
    gaps
}

/// Adds a range to the last one, if it follows it, or else to the list.
fn widen(gaps: &mut Vec<Range<u64>>, from: u64, to: u64) {
    match gaps.last_mut() {
        Some(last) if last.end == from => last.end = to,
        _ => gaps.push(from..to),
    }
}

/// An entry whose header holds. None: its body was torn.
fn judge<'a>(
    offset: u64,
    raw: &'a RawHeader,
    after: &'a [u8],
    header: &'a Header,
    durable_lsn: u64,
) -> Option<Sighting<'a>> {
    let body = body_of(after, header);
    if header.body_holds(raw, body) {
        return Some(Sighting::Entry {
            offset,
            header,
            entry: EntryView::new(raw, body),
        });
    }
    let commit = (header.kind == Kind::Commit)
        .then(|| corrected_commit(raw, header, body))
        .flatten();
    (header.lsn.0 <= durable_lsn).then_some(Sighting::Damaged {
        offset,
        header,
        group: EntryView::new(raw, body).group(),
        commit,
    })
}

/// An entry whose header, given as it was, has a flipped bit. If its body holds, it was not torn, since both checks
/// together do not hold by chance. None: it cannot be told from a torn one.
fn judge_flipped<'a>(
    offset: u64,
    raw: &RawHeader,
    after: &[u8],
    header: &'a Header,
    durable_lsn: u64,
) -> Option<Sighting<'a>> {
    let body = body_of(after, header);
    let whole = header.body_holds(raw, body);
    let commit = (whole && header.kind == Kind::Commit)
        .then(|| read_commit(body))
        .flatten();
    (whole || header.lsn.0 <= durable_lsn).then_some(Sighting::Damaged {
        offset,
        header,
        group: EntryView::new(raw, body).group(),
        commit,
    })
}
