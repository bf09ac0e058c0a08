//! Deltas: the bytes by which a version of a record differs from the version before
//! (`docs/format.md`).
//!
//! Raised numbers are little-endian and wrap around: the offsets behind an element that came or
//! went all differ by its length.
//!
//! They apply to the body of a whole record: key and payload.

use crate::bytes::{Varint, slice, take_varint};
use crate::entry::Lsn;
use crate::location::Location;
use crate::reader::FieldReader;

const FIXED_BYTES: usize = 16;

/// The most pieces that a delta consists of: an edit changes a length or two, a count, and an
/// element.
const SPLICES_MAX: usize = 8;
/// So many equal bytes end a change.
const EQUAL_BYTES: usize = 16;
/// What raised numbers take in a delta, about.
const RAISED_BYTES: usize = 8;
/// This many numbers in a row that have grown by the same are no coincidence.
const RAISED_MIN: usize = 4;
/// Changes up to this length are found wherever they are; one longer change is found per delta.
const CHANGE_BYTES_MAX: usize = 64;

/// A change of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BodySplice {
    /// Where it begins in the old body, and how many bytes go.
    pub(crate) at: usize,
    pub(crate) removed: usize,
    /// Where the new bytes begin in the new body, and how many they are.
    pub(crate) from: usize,
    pub(crate) inserted: usize,
    /// What stays behind them, but for a constant.
    pub(crate) raised: Option<Raised>,
}

/// Numbers that have all grown by the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Raised {
    count: usize,
    /// Bytes of each: 2 or 4.
    width: usize,
    by: u32,
}

impl Raised {
    const fn bytes(&self) -> usize {
        self.count * self.width
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (count, rest) = take_varint(bytes)?;
        let (width, rest) = rest.split_first()?;
        let (by, rest) = rest.split_first_chunk()?;
        let raised = Self {
            count,
            width: usize::from(*width),
            by: u32::from_le_bytes(*by),
        };
        Some((raised, rest))
    }

    /// As [`Raised::bytes`], of a decoded value: the count may be any, the width must be one of the
    /// two.
    fn checked_bytes(&self) -> Option<usize> {
        matches!(self.width, 2 | 4).then(|| self.count.checked_mul(self.width))?
    }

    /// Adds the numbers as they are now to `new`.
    fn apply(&self, numbers: &[u8], new: &mut Vec<u8>) {
        for number in numbers.chunks_exact(self.width) {
            match (u16_of(number), u32_of(number)) {
                (_, Some(number)) => new.extend(number.wrapping_add(self.by).to_le_bytes()),
                (Some(number), None) => {
                    new.extend(number.wrapping_add(self.by as u16).to_le_bytes());
                }
                (None, None) => {}
            }
        }
    }
}

impl BodySplice {
    /// Old bytes that are not as they were.
    fn changed(&self) -> usize {
        self.removed + self.raised.map_or(0, |raised| raised.bytes())
    }

    /// New bytes in their place.
    fn written(&self) -> usize {
        self.inserted + self.raised.map_or(0, |raised| raised.bytes())
    }
}

/// Returns an encoded delta with another location of the version before.
pub(crate) fn rebase(delta: &[u8], before: Location) -> Vec<u8> {
    let mut bytes = delta.to_vec();
    if let Some(word) = bytes.first_chunk_mut::<8>() {
        *word = before.packed().to_le_bytes();
    }
    bytes
}

/// The splices that turn `old` into `new`, if they take no more than `bytes_max` encoded. Costs one
/// walk over both.
pub(crate) fn diff(old: &[u8], new: &[u8], bytes_max: usize) -> Option<Vec<BodySplice>> {
    let mut splices = Vec::new();
    let (mut at, mut from, mut bytes) = (0, 0, 0);
    loop {
        let equal = equal_at_front(old.get(at..)?, new.get(from..)?);
        at += equal;
        from += equal;
        let (old_rest, new_rest) = (old.get(at..)?, new.get(from..)?);
        if old_rest.is_empty() && new_rest.is_empty() {
            return Some(splices);
        }
        let splice = |(removed, inserted, raised)| BodySplice {
            at,
            removed,
            from,
            inserted,
            raised,
        };
        let several = || {
            let small = small_change(old_rest, new_rest);
            let small = small.map(|(removed, inserted)| (removed, inserted, None));
            small.or_else(|| raised_numbers(old_rest, new_rest))
        };
        let may_be_several = splices.len() + 1 < SPLICES_MAX;
        let found = may_be_several.then(several).flatten();
        let splice = splice(found.unwrap_or_else(|| {
            let equal = equal_at_end(old_rest, new_rest);
            (old_rest.len() - equal, new_rest.len() - equal, None)
        }));
        bytes += splice.inserted + 6 + splice.raised.map_or(0, |_| RAISED_BYTES);
        if bytes > bytes_max {
            return None;
        }
        splices.push(splice);
        at += splice.changed();
        from += splice.written();
    }
}

/// How many bytes are equal at the front.
fn equal_at_front(one: &[u8], other: &[u8]) -> usize {
    let (ones, _) = one.as_chunks::<STEP>();
    let (others, _) = other.as_chunks::<STEP>();
    let steps = ones.iter().zip(others);
    let from = STEP
        * steps
            .take_while(|(one, other)| are_equal(one, other))
            .count();
    let (one, other) = (
        one.get(from..).unwrap_or_default(),
        other.get(from..).unwrap_or_default(),
    );
    let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    let mut at = 0;
    for (one, other) in words {
        match u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other) {
            0 => at += 8,
            differing => return from + at + differing.trailing_zeros() as usize / 8,
        }
    }
    let rest = one.iter().zip(other).skip(at);
    from + at + rest.take_while(|(one, other)| one == other).count()
}

/// How many bytes are equal at the end.
fn equal_at_end(one: &[u8], other: &[u8]) -> usize {
    let (_, ones) = one.as_rchunks::<STEP>();
    let (_, others) = other.as_rchunks::<STEP>();
    let steps = ones.iter().rev().zip(others.iter().rev());
    let from = STEP
        * steps
            .take_while(|(one, other)| are_equal(one, other))
            .count();
    let rest = one.iter().rev().zip(other.iter().rev()).skip(from);
    from + rest.take_while(|(one, other)| one == other).count()
}

/// The size of a comparison.
const STEP: usize = 64;

/// Without a call, and without a branch for each word.
fn are_equal(one: &[u8; STEP], other: &[u8; STEP]) -> bool {
    let words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    let differing = words.fold(0, |differing, (one, other)| {
        differing | (u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other))
    });
    differing == 0
}

/// Whether the bodies are equal for a while from here on, or to their ends.
fn begins_alike(old: &[u8], new: &[u8]) -> bool {
    let (olds, news) = (
        old.first_chunk::<EQUAL_BYTES>(),
        new.first_chunk::<EQUAL_BYTES>(),
    );
    match (olds, news) {
        (Some(old), Some(new)) => old == new,
        _ => old == new,
    }
}

/// The shortest change at the front after which the bodies are equal for a while: bytes removed,
/// bytes inserted.
fn small_change(old: &[u8], new: &[u8]) -> Option<(usize, usize)> {
    let equal = |removed: usize, inserted: usize| {
        begins_alike(old.get(removed..)?, new.get(inserted..)?).then_some((removed, inserted))
    };
    // Most often one change brings all of the growth, and others only rewrite some bytes.
    let (shrunk, grown) = (
        old.len().saturating_sub(new.len()),
        new.len().saturating_sub(old.len()),
    );
    if shrunk.max(grown) <= CHANGE_BYTES_MAX
        && let Some(found) = (shrunk != grown).then(|| equal(shrunk, grown)).flatten()
    {
        return Some(found);
    }
    if differ_throughout(old, new) {
        return None;
    }
    (1..=CHANGE_BYTES_MAX).find_map(|length| {
        equal(length, length)
            .or_else(|| equal(0, length))
            .or_else(|| equal(length, 0))
    })
}

/// Whether no change of the longest length or shorter is followed by eight equal bytes, which is
/// soon seen.
fn differ_throughout(old: &[u8], new: &[u8]) -> bool {
    const LOOK_BYTES: usize = CHANGE_BYTES_MAX + 8;
    let (olds, news) = (
        old.first_chunk::<LOOK_BYTES>(),
        new.first_chunk::<LOOK_BYTES>(),
    );
    let Some((olds, news)) = olds.zip(news) else {
        return false;
    };
    let word = |bytes: &[u8]| {
        bytes
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    let (old_first, new_first) = (word(olds), word(news));
    let mut places = olds.windows(8).zip(news.windows(8)).skip(1);
    places.all(|(old, new)| {
        let (old, new) = (word(old), word(new));
        (old != new) & (old != new_first) & (new != old_first)
    })
}

/// Numbers at the front that have all grown by the same, perhaps behind one that came or went: as
/// many as there are.
fn raised_numbers(old: &[u8], new: &[u8]) -> Option<(usize, usize, Option<Raised>)> {
    // Loops, since a chain of closures is not always inlined: this is tried for each put of another
    // value.
    let mut longest: Option<(usize, usize, Raised)> = None;
    for width in [2, 4] {
        for (removed, inserted) in [(0, 0), (0, width), (width, 0)] {
            let (Some(old), Some(new)) = (old.get(removed..), new.get(inserted..)) else {
                continue;
            };
            let Some(raised) = raised_run(old, new, width) else {
                continue;
            };
            let known = longest.as_ref().map_or(0, |(_, _, known)| known.bytes());
            if raised.bytes() >= known {
                longest = Some((removed, inserted, raised));
            }
        }
    }
    longest.map(|(removed, inserted, raised)| (removed, inserted, Some(raised)))
}

#[inline(always)]
fn raised_run(old: &[u8], new: &[u8], width: usize) -> Option<Raised> {
    let growth = |(old, new): (&[u8], &[u8])| match width {
        2 => Some(u32::from(u16_of(new)?.wrapping_sub(u16_of(old)?))),
        _ => Some(u32_of(new)?.wrapping_sub(u32_of(old)?)),
    };
    let mut growths = old
        .chunks_exact(width)
        .zip(new.chunks_exact(width))
        .map(growth);
    let by = growths.next()??;
    let count = 1 + growths.take_while(|growth| *growth == Some(by)).count();
    (by != 0 && count >= RAISED_MIN).then_some(Raised { count, width, by })
}

fn u16_of(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.first_chunk()?))
}

fn u32_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}

/// Turns the old body into the new one in place: the bytes between splices move once. `at` of the
/// splices is in the body, `from` in `new`, in which they were found.
pub(crate) fn edit(body: &mut Vec<u8>, splices: &[BodySplice], new: &[u8]) {
    let old_bytes = body.len();
    // Behind each splice: where the kept bytes begin and end, and where they go.
    let mut kept = Vec::with_capacity(splices.len());
    let mut to = 0;
    let mut before = 0;
    for (number, splice) in splices.iter().enumerate() {
        to += splice.at - before + splice.written();
        before = splice.at + splice.changed();
        let end = splices.get(number + 1).map_or(old_bytes, |next| next.at);
        kept.push((before, end, to));
    }
    let new_bytes = kept
        .last()
        .map_or(old_bytes, |(from, end, to)| to + end - from);
    if new_bytes > old_bytes {
        body.resize(new_bytes, 0);
    }
    let mut shift = |(from, end, to): (usize, usize, usize)| {
        if end <= body.len() && to + end - from <= body.len() {
            body.copy_within(from..end, to);
        }
    };
    // Pieces that move to the front first, from the front; then the others, from the end: so no
    // piece is overwritten before it has moved.
    let to_front = |(from, _, to): &(usize, usize, usize)| to < from;
    let to_end = |(from, _, to): &(usize, usize, usize)| to > from;
    kept.iter().copied().filter(to_front).for_each(&mut shift);
    kept.iter()
        .copied()
        .rev()
        .filter(to_end)
        .for_each(&mut shift);
    body.truncate(new_bytes);
    for (splice, (_, _, behind)) in splices.iter().zip(&kept) {
        let written = new.get(splice.from..splice.from + splice.written());
        let target = body.get_mut(behind - splice.written()..*behind);
        if let (Some(target), Some(written)) = (target, written) {
            target.copy_from_slice(written);
        }
    }
}

/// The body of a delta entry. `offset`: where the compared bytes begin in the body.
pub(crate) fn encode(
    before: (Location, Lsn),
    offset: usize,
    splices: &[BodySplice],
    new: &[u8],
) -> Vec<u8> {
    let inserted: usize = splices.iter().map(|splice| splice.inserted).sum();
    let mut body = Vec::with_capacity(FIXED_BYTES + inserted + 15 * splices.len());
    let (location, lsn) = before;
    body.extend(location.packed().to_le_bytes());
    body.extend(lsn.0.to_le_bytes());
    let mut last = 0;
    for (number, splice) in splices.iter().enumerate() {
        let skipped = if number == 0 { offset } else { 0 };
        let is_raised = usize::from(splice.raised.is_some());
        push_varint(&mut body, splice.at - last + skipped);
        push_varint(&mut body, splice.removed);
        push_varint(&mut body, splice.inserted * 2 + is_raised);
        body.extend_from_slice(slice(new, splice.from..splice.from + splice.inserted));
        if let Some(raised) = splice.raised {
            push_varint(&mut body, raised.count);
            body.push(raised.width as u8);
            body.extend_from_slice(&raised.by.to_le_bytes());
        }
        last = splice.at + splice.changed();
    }
    body
}

fn push_varint(body: &mut Vec<u8>, number: usize) {
    body.extend_from_slice(Varint::new(number).bytes());
}

/// A delta as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delta<'a> {
    pub(crate) before: Location,
    pub(crate) before_lsn: Lsn,
    splices: &'a [u8],
}

impl<'a> Delta<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Option<Self> {
        let (fixed, splices) = body.split_at_checked(FIXED_BYTES)?;
        let mut reader = FieldReader(fixed);
        Some(Self {
            before: Location::from_packed(reader.u64()?),
            before_lsn: Lsn(reader.u64()?),
            splices,
        })
    }

    /// The body after this delta. None: it is not one of this body.
    pub(crate) fn apply(&self, old: &[u8]) -> Option<Vec<u8>> {
        let mut new = Vec::with_capacity(old.len() + self.splices.len());
        let mut old = old;
        let mut rest = self.splices;
        while !rest.is_empty() {
            let (kept, behind) = take_varint(rest)?;
            let (removed, behind) = take_varint(behind)?;
            let (inserted, behind) = take_varint(behind)?;
            let (same, after) = old.split_at_checked(kept)?;
            let (bytes, behind) = behind.split_at_checked(inserted / 2)?;
            new.extend_from_slice(same);
            new.extend_from_slice(bytes);
            old = after.get(removed..)?;
            rest = behind;
            if inserted % 2 == 1 {
                let (raised, behind) = Raised::decode(rest)?;
                let (numbers, after) = old.split_at_checked(raised.checked_bytes()?)?;
                raised.apply(numbers, &mut new);
                (old, rest) = (after, behind);
            }
        }
        new.extend_from_slice(old);
        Some(new)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(old: &[u8], new: &[u8]) -> Option<usize> {
        let splices = diff(old, new, usize::MAX)?;
        let before = (Location::from_packed(77), Lsn(5));
        let body = encode(before, 0, &splices, new);
        let mut edited = old.to_vec();
        edit(&mut edited, &splices, new);
        assert_eq!(edited, new);
        let delta = Delta::decode(&body).unwrap();
        assert_eq!((delta.before, delta.before_lsn), before);
        assert_eq!(delta.apply(old).unwrap(), new);
        Some(body.len() - FIXED_BYTES)
    }

    #[test]
    fn an_edit_of_a_list_with_its_lengths_is_small() {
        let old: Vec<u8> = (0..5000u32)
            .flat_map(|n| (n * 7919).to_le_bytes())
            .collect();
        let mut new = old.clone();
        new[3] ^= 1;
        new[9] = new[9].wrapping_add(1);
        new.splice(9000..9000, [1, 2, 3, 4, 5]);
        new.drain(15_000..15_005);
        assert!(there_and_back(&old, &new).unwrap() < 50);
    }

    #[test]
    fn offsets_behind_an_element_that_came_or_went_are_one_splice() {
        for width in [2, 4] {
            let table = |starts: &[u32]| -> Vec<u8> {
                let entries = starts
                    .iter()
                    .flat_map(|start| start.to_le_bytes()[..width].to_vec());
                [7; 40]
                    .into_iter()
                    .chain(entries)
                    .chain([9; 3000])
                    .collect()
            };
            let starts: Vec<u32> = (0..400).map(|n| n * 31 + n % 7).collect();
            let mut more = starts.clone();
            more.insert(100, starts[100]);
            more.iter_mut().skip(101).for_each(|start| *start += 25);
            let replaced: Vec<u32> = starts.iter().map(|start| start + 5).collect();
            for (one, other) in [(&starts, &more), (&more, &starts), (&starts, &replaced)] {
                let bytes = there_and_back(&table(one), &table(other)).unwrap();
                assert!(bytes < 40, "width {width}: {bytes} B");
            }
        }
    }

    #[test]
    fn one_long_change_is_found_between_what_is_equal() {
        let old = vec![7; 3000];
        let mut new = old.clone();
        new.splice(1000..2000, (0..1500u32).map(|n| n as u8));
        assert!(there_and_back(&old, &new).unwrap() < 1600);
    }

    #[test]
    fn a_change_that_is_too_large_is_none() {
        let old: Vec<u8> = (0..1000u32).map(|n| (n * n) as u8).collect();
        let new: Vec<u8> = (0..1000u32).map(|n| (n * n * n / 7) as u8).collect();
        assert_eq!(diff(&old, &new, 100), None);
        assert_eq!(diff(&[1; 1000], &[1; 1000], 0), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn every_change_comes_back(
            old in prop::collection::vec(0u8..4, 0..400),
            edits in prop::collection::vec((0usize..400, 0usize..90, prop::collection::vec(0u8..4, 0..90), 0u8..3), 0..12),
        ) {
            let mut new = old.clone();
            for (at, removed, inserted, raise) in edits {
                let at = at.min(new.len());
                let to = (at + removed).min(new.len());
                new.splice(at..to, inserted);
                new.iter_mut().skip(at).step_by(2).take(removed).for_each(|byte| *byte = byte.wrapping_add(raise));
            }
            prop_assert!(there_and_back(&old, &new).is_some());
        }

        #[test]
        fn no_bytes_make_a_delta_panic(body in prop::collection::vec(any::<u8>(), 0..200), old in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(delta) = Delta::decode(&body) {
                let _ = delta.apply(&old);
            }
        }
    }
}
