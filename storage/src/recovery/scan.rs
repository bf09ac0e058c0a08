//! Reading a block from its first byte to its last: what recovery and `verify` share.

use crate::device::BLOCK_BYTES;
use crate::location::UNIT_BYTES;
use crate::log::bit_repair::before_one_flip;
use crate::log::block::BLOCK_HEADER_BYTES;
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind, RawHeader, corrected};
use crate::log::group::{COMMIT_BODY_BYTES, read_commit};
use crate::log::volume::Volume;

/// What was met in a block. Offsets are those of the device.
#[derive(Debug)]
pub(crate) enum Sighting<'a> {
    /// A whole entry, of any kind.
    Entry {
        offset: u64,
        header: &'a Header,
        entry: EntryView<'a>,
    },
    /// An entry that was whole once, and whose bytes have changed since. The header is what it was; so is what a commit
    /// entry says (group, members), if a single flipped bit accounts for the damage.
    Damaged {
        offset: u64,
        header: &'a Header,
        commit: Option<(u64, u32)>,
    },
    /// Bytes between entries that are none: a write that was torn, or damage that cannot be told from it.
    Gap { offset: u64, bytes: u64 },
}

/// How far ahead of an entry the memory is asked for: what it takes to judge some ten small entries is what it takes to
/// come.
const AHEAD_BYTES: usize = 2 << 10;

/// Walks over a block that nobody writes to. Entries up to `durable_lsn` were whole once; later ones may be torn. A
/// header is tried at every 16 bytes after one that does not hold, so damage costs no more than itself.
pub(crate) fn scan_block(
    volume: &Volume,
    index: u32,
    incarnation: u64,
    durable_lsn: u64,
    mut seen: impl FnMut(Sighting<'_>),
) {
    let Some(block) = volume.quiet_block(index) else {
        return;
    };
    let start = volume.block_id(index).offset_bytes();
    let mut at = BLOCK_HEADER_BYTES;
    let mut gap_from = None;
    while at < BLOCK_BYTES {
        let rest = block.get(at as usize..).unwrap_or_default();
        let zeros = zero_units(rest);
        if zeros > 0 {
            gap_from.get_or_insert(at);
            at += zeros * UNIT_BYTES;
            continue;
        }
        let place = volume.place(incarnation, start + at);
        let Some((raw, after)) = rest.split_first_chunk::<ENTRY_HEADER_BYTES>() else {
            break;
        };
        // By reference from here on: copies of a header that is still being loaded would wait for it.
        let intact = Header::decode_checked(raw, place);
        let intact = intact.as_ref().filter(|header| fits(at, header));
        let flipped;
        let (step, sighting) = match intact {
            Some(header) => {
                prefetch(after, header.span_units);
                (
                    header.span_units,
                    judge(start + at, raw, after, header, durable_lsn),
                )
            }
            // Only where an entry must begin: content that resembles a header is not worth the trials.
            None if gap_from.is_none() => {
                flipped = corrected(raw, place).filter(|(_, header)| fits(at, header));
                let sighting = flipped.as_ref().and_then(|(raw, header)| {
                    judge_flipped(start + at, raw, after, header, durable_lsn)
                });
                let header = sighting.as_ref().and(flipped.as_ref());
                (header.map_or(1, |(_, header)| header.span_units), sighting)
            }
            None => (1, None),
        };
        if let Some(sighting) = sighting {
            if let Some(from) = gap_from.take() {
                seen(Sighting::Gap {
                    offset: start + from,
                    bytes: at - from,
                });
            }
            seen(sighting);
        } else {
            gap_from.get_or_insert(at);
        }
        at += u64::from(step) * UNIT_BYTES;
    }
    // What is too short for a filler is left as it is when a block is closed.
    let filled = |from: &u64| BLOCK_BYTES - from >= UNIT_BYTES * u64::from(Header::span_for(0));
    if let Some(from) = gap_from.filter(filled) {
        seen(Sighting::Gap {
            offset: start + from,
            bytes: BLOCK_BYTES - from,
        });
    }
}

fn fits(at: u64, header: &Header) -> bool {
    at + u64::from(header.span_units) * UNIT_BYTES <= BLOCK_BYTES
}

/// Asks the processor for as many lines as an entry takes, some entries ahead. Large ones need no help: it guesses how
/// their lines follow each other.
fn prefetch(after: &[u8], span_units: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = after.as_ptr().wrapping_add(AHEAD_BYTES);
        let bytes = (span_units as usize * UNIT_BYTES as usize).min(AHEAD_BYTES);
        for line in (0..bytes).step_by(64) {
            // SAFETY: a prefetch is a hint; it changes nothing and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (after, span_units);
}

/// How many units at the beginning are zero, as where nothing was ever written: no header begins so.
fn zero_units(bytes: &[u8]) -> u64 {
    let (units, _) = bytes.as_chunks::<{ UNIT_BYTES as usize }>();
    units
        .iter()
        .take_while(|unit| u128::from_ne_bytes(**unit) == 0)
        .count() as u64
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
        commit,
    })
}

fn body_of<'a>(after: &'a [u8], header: &Header) -> &'a [u8] {
    after.get(..header.body_bytes as usize).unwrap_or_default()
}

fn corrected_commit(raw: &RawHeader, header: &Header, body: &[u8]) -> Option<(u64, u32)> {
    let body: &[u8; COMMIT_BODY_BYTES] = body.try_into().ok()?;
    before_one_flip(body, |trial| {
        header
            .body_holds(raw, trial)
            .then(|| read_commit(trial))
            .flatten()
    })
}
