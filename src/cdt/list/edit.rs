//! Splices of encoded elements, and the new list that they make.

use std::borrow::Cow;

use super::index::{NewIndex, element_lens};
use super::view::{ListView, Segment};
use crate::cdt::{CdtError, cost};
use crate::value::msgpack::{
    array_header_len, flags_header_len, write_array_header, write_flags_header,
};
use crate::value::{CodecError, FLAG_PERSIST_INDEX};

/// Elements taken out at one place, and others put there.
#[derive(Clone, Debug)]
pub(super) struct Splice<'a> {
    /// What goes. May be empty: then only its place counts.
    pub(super) removed: Segment,
    /// What comes: `count` encoded elements.
    pub(super) inserted: Cow<'a, [u8]>,
    pub(super) count: u32,
}

impl<'a> Splice<'a> {
    /// Elements to be put before the one at position `at`, which begins at byte `start`.
    pub(super) const fn insert(at: u32, start: usize, elements: Cow<'a, [u8]>, count: u32) -> Self {
        let removed = Segment {
            at,
            count: 0,
            start,
            end: start,
        };
        Self {
            removed,
            inserted: elements,
            count,
        }
    }

    /// Elements to be taken out.
    pub(super) const fn remove(removed: Segment) -> Self {
        Self {
            removed,
            inserted: Cow::Borrowed(&[]),
            count: 0,
        }
    }

    /// By how many bytes the elements behind the splice move.
    pub(super) fn growth(&self) -> isize {
        self.inserted.len().cast_signed() - (self.removed.end - self.removed.start).cast_signed()
    }

    /// The encoded lengths of the inserted elements.
    pub(super) fn inserted_lens(&self) -> impl Iterator<Item = usize> {
        element_lens(&self.inserted)
    }
}

/// A new list, not yet written: an old one with splices, perhaps with other flags. It knows its length beforehand and
/// writes itself in one pass.
#[derive(Debug)]
pub(crate) struct ListEdit<'a> {
    old: ListView<'a>,
    flags: u8,
    splices: Vec<Splice<'a>>,
    count: u32,
    content_len: usize,
    index: NewIndex,
}

impl<'a> ListEdit<'a> {
    /// The list that `splices` (in the order of their positions, not overlapping) make of `old`, with the given flags.
    pub(super) fn new(
        old: ListView<'a>,
        flags: u8,
        splices: Vec<Splice<'a>>,
    ) -> Result<Self, CdtError> {
        let too_long = CdtError::Argument(CodecError::TooLong);
        let (mut count, mut content_len) = (old.count, old.content.len());
        let (mut next_at, mut next_start) = (0, 0);
        for Splice {
            removed,
            inserted,
            count: inserted_count,
        } in &splices
        {
            let in_order = next_at <= removed.at && next_start <= removed.start;
            if !in_order || removed.start > removed.end || removed.end > old.content.len() {
                return Err(CdtError::Stored(CodecError::BadIndex));
            }
            (next_at, next_start) = (removed.at + removed.count, removed.end);
            count = (count - removed.count)
                .checked_add(*inserted_count)
                .filter(|count| *count < u32::MAX)
                .ok_or(too_long)?;
            content_len = content_len - (removed.end - removed.start) + inserted.len();
        }
        if u32::try_from(content_len).is_err() {
            return Err(too_long);
        }
        let persist = flags & FLAG_PERSIST_INDEX != 0;
        let index = NewIndex::plan(&old, &splices, persist, count, content_len)?;
        if u32::try_from(index.len(count)).is_err() {
            return Err(too_long);
        }
        Ok(Self {
            old,
            flags,
            splices,
            count,
            content_len,
            index,
        })
    }

    /// A list without elements.
    pub(crate) const fn empty(flags: u8) -> Self {
        Self {
            old: ListView::empty(flags),
            flags,
            splices: Vec::new(),
            count: 0,
            content_len: 0,
            index: NewIndex::None,
        }
    }

    /// How many elements the new list has.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The length of what [`ListEdit::write`] writes, in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        let head = if self.flags == 0 {
            array_header_len(self.count)
        } else {
            let index_len = self.index.len(self.count);
            array_header_len(self.count + 1) + flags_header_len(index_len as u32) + index_len
        };
        head + self.content_len
    }

    /// Appends the new list to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        if self.flags == 0 {
            write_array_header(out, self.count);
        } else {
            write_array_header(out, self.count + 1);
            write_flags_header(out, self.flags, self.index.len(self.count) as u32);
            self.index.write(&self.old, &self.splices, out);
        }
        let mut next = 0;
        for splice in &self.splices {
            self.copy(next, splice.removed.start, out);
            out.extend_from_slice(&splice.inserted);
            next = splice.removed.end;
        }
        self.copy(next, self.old.content.len(), out);
    }

    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let bytes = self.old.content.get(from..to).unwrap_or_default();
        cost::copy(bytes.len());
        out.extend_from_slice(bytes);
    }
}
