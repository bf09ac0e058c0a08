//! New lists and maps: old ones with splices applied.

use super::cost;
use super::new_index::NewIndex;
use super::new_ranks::NewRanks;
use super::shape::ItemShape;
use super::splice::{ItemSplice, Splices};
use super::view::CollectionView;
use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::msgpack::{array_header_len, flags_header_len, write_flags_header};
use crate::value::{CodecError, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, ParticleType};

/// A new list or map before it is written: an old one with splices, perhaps with other flags. Knows
/// its length and writes itself in one pass.
#[derive(Debug)]
pub(crate) struct CollectionEdit<'a> {
    old: CollectionView<'a>,
    flags: u8,
    splices: Splices<'a>,
    count: u32,
    content_len: usize,
    ranks: NewRanks,
    index: NewIndex,
}

impl<'a> CollectionEdit<'a> {
    /// Plans `old` with `splices` (by position, not overlapping) and the given flags.
    pub(super) fn new(
        old: CollectionView<'a>,
        flags: u8,
        splices: Splices<'a>,
    ) -> Result<Self, CallError> {
        let too_long = CallError::Argument(CodecError::TooLong);
        let (mut count, mut content_len) = (old.count, old.content.len());
        let (mut next_at, mut next_start) = (0, 0);
        for ItemSplice {
            removed,
            inserted,
            count: inserted_count,
        } in &splices
        {
            // The segments may come from a damaged stored index. `write` relies on order and
            // bounds, so they are checked once here.
            let in_order = next_at <= removed.at && next_start <= removed.start;
            if !in_order || removed.start > removed.end || removed.end > old.content.len() {
                return Err(CallError::Stored(CodecError::BadIndex));
            }
            (next_at, next_start) = (removed.at + removed.count, removed.end);
            count = (count.saturating_sub(removed.count))
                .checked_add(*inserted_count)
                // `u32::MAX` is excluded: the header counts one more element for the flags.
                .filter(|count| *count < u32::MAX)
                .ok_or_else(|| too_long.clone())?;
            content_len = content_len - (removed.end - removed.start) + inserted.len();
        }
        if content_len > MAX_COLLECTION_BYTES {
            return Err(CallError::TooBig {
                bytes: content_len as u64,
            });
        }
        let persist = flags & FLAG_PERSIST_INDEX != 0;
        // The index needs the final length: it decides the width of its entries.
        let index = NewIndex::plan(&old, &splices, persist, count, content_len)?;
        let ranked = matches!(old.shape, ItemShape::Map) && flags & FLAG_VALUE_ORDERED != 0;
        // A single item has no order to persist.
        let ranks = if ranked && persist && count > 1 {
            NewRanks::plan(&old, &splices)?
        } else {
            NewRanks::default()
        };
        Ok(Self {
            old,
            flags,
            splices,
            count,
            content_len,
            ranks,
            index,
        })
    }

    /// Plans a list or map without items.
    pub(super) fn empty(shape: ItemShape, flags: u8) -> Self {
        Self {
            old: CollectionView::empty(shape, flags),
            flags,
            splices: Splices::new(),
            count: 0,
            content_len: 0,
            ranks: NewRanks::default(),
            index: NewIndex::None,
        }
    }

    /// Returns the number of items.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the type of the bin that holds it.
    pub(crate) const fn kind(&self) -> ParticleType {
        self.old.shape.kind()
    }

    fn index_len(&self) -> usize {
        self.ranks.len() + self.index.len(self.count)
    }

    /// Returns the number of bytes that [`CollectionEdit::write`] writes.
    pub(crate) fn encoded_len(&self) -> usize {
        // The headers of lists and maps have the same length.
        let head = if self.flags == 0 {
            array_header_len(self.count)
        } else {
            let index_len = self.index_len();
            let nil = usize::from(self.old.shape == ItemShape::Map);
            array_header_len(self.count + 1) + flags_header_len(index_len as u32) + index_len + nil
        };
        head + self.content_len
    }

    /// Appends the new list or map to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        let shape = self.old.shape;
        if self.flags == 0 {
            shape.write_header(out, self.count);
        } else {
            shape.write_header(out, self.count + 1);
            write_flags_header(out, self.flags, self.index_len() as u32);
            self.ranks.write(out);
            self.index.write(&self.old, &self.splices, out);
            if shape == ItemShape::Map {
                out.push(0xc0);
            }
        }
        let mut next = 0;
        for splice in &self.splices {
            self.copy(next, splice.removed.start, out);
            out.extend_from_slice(&splice.inserted);
            next = splice.removed.end;
        }
        self.copy(next, self.old.content.len(), out);
    }

    /// Returns the bytes that [`CollectionEdit::write`] writes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let bytes = self.old.content.get(from..to).unwrap_or_default();
        cost::copy(bytes.len());
        out.extend_from_slice(bytes);
    }
}
