//! The index that an edit writes, planned before the first byte so that the edit knows its length.
//!
//! `index` describes and reads the stored form.

use smallvec::SmallVec;

use super::cost;
use super::index::{FORM_RUNS, ItemIndex, ItemRun, MAX_RUNS, RUN_BYTES};
use super::packed::{Packed, width_of, write_number};
use super::shape::ItemShape;
use super::splice::ItemSplice;
use super::view::CollectionView;
use crate::call::CallError;
use crate::value::CodecError;

/// Items of a list mostly have two or three widths.
type ItemRuns = SmallVec<[ItemRun; 4]>;

/// The index that an edit will write.
#[derive(Debug)]
pub(super) enum NewIndex {
    None,
    Runs(ItemRuns),
    /// Too many runs: written as offsets of this width.
    Unrolled(ItemRuns, usize),
    /// The old offsets, shifted, in entries of this width.
    Moved(usize),
}

impl NewIndex {
    /// Plans the index of `view` after `splices`, if it has one. O(1) for runs, besides the
    /// splices; a walk over all items if there is no index yet.
    pub(super) fn plan(
        view: &CollectionView<'_>,
        splices: &[ItemSplice<'_>],
        persist: bool,
        count: u32,
        content_len: usize,
    ) -> Result<Self, CallError> {
        if !persist || count < 2 {
            return Ok(Self::None);
        }
        let mut runs = RunWriter::default();
        match view.index {
            // Offsets never become runs again: finding out would cost a walk at each edit.
            ItemIndex::Offsets(_) => return Ok(Self::Moved(width_of(content_len))),
            ItemIndex::Runs(old) => {
                runs.splice(
                    old.iter().map(|run| Ok(ItemRun::load(*run))),
                    splices,
                    view.shape,
                )?;
            }
            // Each item is a run of one; `push` joins equal neighbours.
            ItemIndex::None => {
                let one = |width: usize| ItemRun {
                    count: 1,
                    width: width as u32,
                };
                let old = view
                    .walk()
                    .map(|element| element.map(|e| one(e.end - e.start)));
                runs.splice(old, splices, view.shape)?;
            }
        }
        Ok(if runs.runs.len() <= MAX_RUNS {
            Self::Runs(runs.runs)
        } else {
            Self::Unrolled(runs.runs, width_of(content_len))
        })
    }

    /// Returns the number of bytes that [`NewIndex::write`] writes for `count` items.
    pub(super) fn len(&self, count: u32) -> usize {
        match self {
            Self::None => 0,
            Self::Runs(runs) => 1 + runs.len() * RUN_BYTES,
            Self::Unrolled(_, width) | Self::Moved(width) => 1 + count as usize * width,
        }
    }

    /// Appends the index data.
    pub(super) fn write(
        &self,
        view: &CollectionView<'_>,
        splices: &[ItemSplice<'_>],
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::None => {}
            Self::Runs(runs) => {
                out.push(FORM_RUNS);
                for run in runs {
                    out.extend_from_slice(&run.count.to_le_bytes());
                    out.extend_from_slice(&run.width.to_le_bytes());
                }
            }
            Self::Unrolled(runs, width) => {
                out.push(*width as u8);
                let mut start = 0;
                for run in runs {
                    for _ in 0..run.count {
                        write_number(start, *width, out);
                        start += run.width as usize;
                    }
                }
            }
            Self::Moved(width) => {
                out.push(*width as u8);
                if let ItemIndex::Offsets(old) = view.index {
                    write_moved(&old, view.shape, splices, *width, out);
                }
            }
        }
    }
}

/// Appends the old offsets with the splices applied.
fn write_moved(
    old: &Packed<'_>,
    shape: ItemShape,
    splices: &[ItemSplice<'_>],
    width: usize,
    out: &mut Vec<u8>,
) {
    let (mut next, mut by) = (0, 0_isize);
    for splice in splices {
        old.write_moved(next, splice.removed.at as usize, by, width, out);
        let mut start = splice.removed.start.wrapping_add_signed(by);
        for len in splice.inserted_lens(shape) {
            write_number(start, width, out);
            start += len;
        }
        next = (splice.removed.at + splice.removed.count) as usize;
        by += splice.growth();
    }
    old.write_moved(next, old.len(), by, width, out);
}

/// Collects runs, joining neighbours of equal width.
#[derive(Debug, Default)]
struct RunWriter {
    runs: ItemRuns,
}

impl RunWriter {
    fn push(&mut self, run: ItemRun) {
        match self.runs.last_mut() {
            Some(last) if last.width == run.width => last.count += run.count,
            _ if run.count > 0 => self.runs.push(run),
            _ => {}
        }
    }

    /// Adds the old runs with the splices applied.
    fn splice(
        &mut self,
        mut old: impl Iterator<Item = Result<ItemRun, CallError>>,
        splices: &[ItemSplice<'_>],
        shape: ItemShape,
    ) -> Result<(), CallError> {
        let mut current = ItemRun { count: 0, width: 0 };
        let mut next = 0;
        // Moves past `count` old items, into `runs` if they stay. `current` is the unread rest of
        // the run in front.
        let mut advance = |mut runs: Option<&mut Self>, mut count: u32| -> Result<(), CallError> {
            while count > 0 {
                if current.count == 0 {
                    current = old
                        .next()
                        .ok_or(CallError::Stored(CodecError::BadIndex))??;
                }
                let taken = ItemRun {
                    count: count.min(current.count),
                    width: current.width,
                };
                if let Some(runs) = runs.as_deref_mut() {
                    runs.push(taken);
                }
                current.count -= taken.count;
                count -= taken.count;
            }
            Ok(())
        };
        for splice in splices {
            advance(Some(self), splice.removed.at - next)?;
            advance(None, splice.removed.count)?;
            for len in splice.inserted_lens(shape) {
                self.push(ItemRun {
                    count: 1,
                    width: len as u32,
                });
            }
            next = splice.removed.at + splice.removed.count;
        }
        if current.count > 0 {
            self.push(current);
        }
        for run in old {
            self.push(run?);
        }
        Ok(())
    }
}

impl Packed<'_> {
    /// Appends the entries of the positions `from..to`, each shifted by `by` bytes, in entries of
    /// `width` bytes.
    fn write_moved(&self, from: usize, to: usize, by: isize, width: usize, out: &mut Vec<u8>) {
        cost::copy((to.saturating_sub(from)) * width);
        let at = out.len();
        macro_rules! move_all {
            ($entries:ident $number:ident) => {{
                let entries = $entries.get(from..to).unwrap_or_default();
                out.extend_from_slice(entries.as_flattened());
                let (moved, _) = out.get_mut(at..).unwrap_or_default().as_chunks_mut();
                for entry in moved {
                    let offset = $number::from_le_bytes(*entry);
                    *entry = offset.wrapping_add(by as $number).to_le_bytes();
                }
            }};
        }
        match (self, width) {
            (Self::One(entries), 1) => move_all!(entries u8),
            (Self::Two(entries), 2) => move_all!(entries u16),
            (Self::Four(entries), 4) => move_all!(entries u32),
            _ => {
                for offset in (from..to).filter_map(|at| self.load(at)) {
                    write_number(offset.wrapping_add_signed(by), width, out);
                }
            }
        }
    }
}
