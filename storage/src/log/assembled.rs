//! Entries that a writer has assembled, before they have their places in the log.

use std::cell::Cell;

use crate::bytes::slice;
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, EntryPlace, body_check};
use crate::error::{Error, Result};
use crate::location::UNIT_BYTES;
use crate::log::block::entry_units_max;
use crate::log::truncation::KnownTruncations;

/// Entries as the log will have them, one after the other, in words: header, body, padding each.
#[derive(Debug)]
pub(crate) struct Assembled {
    words: Vec<[u8; 8]>,
    /// Words that belong to entries; remains of an earlier use follow.
    used: usize,
    /// Bytes of headers and bodies, without padding.
    pub(super) requested_bytes: u64,
    /// For new versions: the truncations before their records were locked.
    pub(super) known: KnownTruncations,
}

thread_local! {
    static ASSEMBLED: Cell<Vec<[u8; 8]>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps the memory of entries up to this size (64 KiB), and larger memory while groups
/// use an eighth of it: giving it back to the system and taking it again costs more than filling
/// it.
const KEPT_WORDS_MAX: usize = 8 << 10;

impl Default for Assembled {
    fn default() -> Self {
        Self {
            words: ASSEMBLED.take(),
            used: 0,
            requested_bytes: 0,
            known: KnownTruncations::default(),
        }
    }
}

impl Assembled {
    /// Adds an entry, with a body put together from its parts. Its header gets the two sizes; its
    /// bytes are written when its number and location are known.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if no block of this size can hold it. Nothing was added.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        header: &mut EntryHeader,
        parts: &[&[u8]],
        block_bytes: u64,
    ) -> Result<()> {
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = (ENTRY_HEADER_BYTES + body_bytes) as u64;
        let limit = u64::from(entry_units_max(block_bytes)) * UNIT_BYTES;
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        self.requested_bytes += bytes;
        header.body_bytes = body_bytes as u32;
        header.span_units = EntryHeader::span_for(body_bytes);
        let from = self.used;
        self.used += header.span_units as usize * (UNIT_BYTES as usize / 8);
        if self.words.len() < self.used {
            self.words.resize(self.used, [0; 8]);
        }
        let entry = self.words.split_at_mut(self.used).0.split_at_mut(from).1;
        // Padding: zeros compress, and the bytes of an earlier entry do not.
        if let Some(padded) = entry.last_chunk_mut() {
            *padded = [[0; 8]; UNIT_BYTES as usize / 8];
        }
        let mut rest = entry.as_flattened_mut().split_at_mut(ENTRY_HEADER_BYTES).1;
        for part in parts {
            let (target, behind) = rest.split_at_mut(part.len());
            match (target, part) {
                // The length of a key: not worth a call.
                ([target], [byte]) => *target = *byte,
                (target, part) => target.copy_from_slice(part),
            }
            rest = behind;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        8 * self.used as u64
    }

    #[inline]
    pub(super) fn words(&self) -> &[[u8; 8]] {
        self.words.split_at(self.used).0
    }

    /// Writes the header of the entry that begins at `at`.
    #[inline(always)]
    pub(super) fn seal(&mut self, at: usize, header: &EntryHeader, place: EntryPlace) {
        let entry = self.words.as_flattened_mut().split_at_mut(at).1;
        if let Some((raw, rest)) = entry.split_first_chunk_mut() {
            let body = slice(rest, ..header.body_bytes as usize);
            header.encode_to(raw, place, body_check(header.lsn, body));
        }
    }
}

impl Drop for Assembled {
    #[inline]
    fn drop(&mut self) {
        if self.words.capacity() <= KEPT_WORDS_MAX.max(8 * self.used) {
            ASSEMBLED.set(std::mem::take(&mut self.words));
        }
    }
}
