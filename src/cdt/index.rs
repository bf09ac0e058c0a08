//! The persisted index of a list or map: finds the start of an item without a walk.
//!
//! It is the data of the extension that carries the flags (after the ranks, if there are any), in
//! one of these forms, distinguished by the first byte. A list or map of fewer than two items has
//! no index, nor has one written as a whole, until it is edited.
//!
//! ```text
//! runs     00, then at most MAX_RUNS times (count: u32, width: u32), little-endian:
//!          count consecutive items of width bytes each
//! offsets  01, 02 or 04 = the width of an entry, then for each item the offset at which it begins,
//!          little-endian; the width is the least that holds the length of all items
//! ```
//!
//! Runs suit most lists: equal-sized elements (ids, digests, times, doubles) are one run, and an
//! ordered list of any integers has at most ten, since encoded lengths follow the values. An
//! insertion then changes a few bytes of index, not a table of N entries. Lists of strings of all
//! lengths need offsets; an insertion copies them and adds its length to all later ones.

use super::packed::Packed;
use crate::value::CodecError;

/// Above this number of runs, offsets are used: a search reads runs one by one, and this many fill
/// two cache lines.
pub(super) const MAX_RUNS: usize = 16;

/// The first byte of an index of runs.
pub(super) const FORM_RUNS: u8 = 0;
/// The size of a stored run.
pub(super) const RUN_BYTES: usize = 8;

/// The index of a stored list or map.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemIndex<'a> {
    None,
    Runs(&'a [[u8; RUN_BYTES]]),
    Offsets(Packed<'a>),
}

/// Consecutive items of equal width in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemRun {
    pub(super) count: u32,
    pub(super) width: u32,
}

impl ItemRun {
    pub(super) const fn load([a, b, c, d, e, f, g, h]: [u8; RUN_BYTES]) -> Self {
        Self {
            count: u32::from_le_bytes([a, b, c, d]),
            width: u32::from_le_bytes([e, f, g, h]),
        }
    }

    const fn bytes(self) -> usize {
        self.count as usize * self.width as usize
    }
}

impl<'a> ItemIndex<'a> {
    /// Parses index data, and checks that its size fits `count` items of `content_len` bytes.
    pub(super) fn parse(
        data: &'a [u8],
        count: u32,
        content_len: usize,
    ) -> Result<Self, CodecError> {
        let Some((&form, data)) = data.split_first() else {
            return Ok(Self::None);
        };
        let index = match form {
            FORM_RUNS => match data.as_chunks() {
                (runs, []) => Self::Runs(runs),
                _ => return Err(CodecError::BadIndex),
            },
            width => {
                let offsets = Packed::of(usize::from(width), data);
                Self::Offsets(offsets.ok_or(CodecError::BadIndex)?)
            }
        };
        let fits = match index {
            Self::None => true,
            Self::Runs(runs) => {
                let sum = runs.iter().map(|run| ItemRun::load(*run)).try_fold(
                    (0_u64, 0_u64),
                    |sum, run| {
                        Some((
                            sum.0 + u64::from(run.count),
                            sum.1.checked_add(run.bytes() as u64)?,
                        ))
                    },
                );
                runs.len() <= MAX_RUNS && sum == Some((u64::from(count), content_len as u64))
            }
            Self::Offsets(offsets) => offsets.len() == count as usize,
        };
        if fits {
            Ok(index)
        } else {
            Err(CodecError::BadIndex)
        }
    }

    /// Returns the start of the item at a valid position; `None` without an index.
    #[inline]
    pub(super) fn start_of(&self, mut at: u32) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Runs(runs) => {
                let mut start = 0;
                for run in runs.iter().map(|run| ItemRun::load(*run)) {
                    if at < run.count {
                        return Some(start + at as usize * run.width as usize);
                    }
                    at -= run.count;
                    start += run.bytes();
                }
                Some(start)
            }
            Self::Offsets(offsets) => offsets.load(at as usize),
        }
    }
}
