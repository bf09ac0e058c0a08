//! The bins of a record while several changes are under way.

use std::borrow::Cow;

use super::change::{SettledChange, not_storable};
use crate::call::MAX_COLLECTION_BYTES;
use crate::expression::BinSource;
use crate::record::body::{checked_bin_count, write_raw_bin, write_varint};
use crate::record::{BinName, RecordView};
use crate::value::ParticleType;
use crate::{Error, Result};

/// The most bytes that the values of all bins have between two operations.
const MAX_BYTES: usize = 4 * MAX_COLLECTION_BYTES;

/// Bins in their order, each as it was or as it became.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    slots: Vec<BinSlot<'a>>,
    /// The bytes of all values.
    bytes: usize,
}

#[derive(Debug)]
struct BinSlot<'a> {
    name: BinName,
    kind: ParticleType,
    value: Cow<'a, [u8]>,
}

impl BinSource for Slots<'_> {
    fn particle(&self, name: &[u8]) -> Option<(ParticleType, &[u8])> {
        self.slots
            .iter()
            .find(|slot| slot.name.as_bytes() == name)
            .map(|slot| (slot.kind, &*slot.value))
    }
}

impl<'a> Slots<'a> {
    pub(super) fn of(record: Option<RecordView<'a>>) -> Self {
        let bins = record.into_iter().flat_map(|record| record.raw_bins());
        let slots: Vec<BinSlot<'_>> = bins
            .map(|bin| BinSlot {
                name: bin.bin_name(),
                kind: bin.kind,
                value: Cow::Borrowed(bin.value),
            })
            .collect();
        let bytes = slots.iter().map(|slot| slot.value.len()).sum();
        Self { slots, bytes }
    }

    /// The type and stored value of a bin.
    pub(super) fn get(&self, name: &BinName) -> Option<(ParticleType, &[u8])> {
        self.slots
            .iter()
            .find(|slot| slot.name == *name)
            .map(|slot| (slot.kind, &*slot.value))
    }

    /// Names, types and stored values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BinName, ParticleType, &[u8])> {
        self.slots
            .iter()
            .map(|slot| (slot.name, slot.kind, &*slot.value))
    }

    /// Applies a change to a bin. A new bin goes to the end; where one is removed, the last one
    /// takes its place.
    ///
    /// # Errors
    /// [`Error::RecordTooBig`] if the bins are much longer than any record, even if later changes
    /// remove some: otherwise each operation could add the longest possible bin.
    pub(super) fn apply(&mut self, name: BinName, change: SettledChange) -> Result<()> {
        let position = self.slots.iter().position(|slot| slot.name == name);
        match (change, position) {
            (SettledChange::Same, _) | (SettledChange::Removed, None) => {}
            (SettledChange::Removed, Some(position)) => {
                self.bytes -= self.slots.swap_remove(position).value.len();
            }
            (SettledChange::Value(kind, value), position) => {
                self.bytes += value.len();
                let value = Cow::Owned(value);
                match position.and_then(|position| self.slots.get_mut(position)) {
                    Some(slot) => {
                        self.bytes -= slot.value.len();
                        (slot.kind, slot.value) = (kind, value);
                    }
                    None => self.slots.push(BinSlot { name, kind, value }),
                }
            }
        }
        if self.bytes > MAX_BYTES {
            return Err(Error::RecordTooBig {
                size: self.bytes as u64,
                limit: MAX_BYTES as u64,
                largest_bin: None,
                record: None,
            });
        }
        Ok(())
    }

    /// Removes all bins.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.bytes = 0;
    }

    /// Appends the body of the record to `out` and returns the number of bins.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<u32> {
        let count = checked_bin_count(self.slots.len())?;
        write_varint(out, count);
        for slot in &self.slots {
            write_raw_bin(out, &slot.name, slot.kind, &slot.value).map_err(not_storable)?;
        }
        Ok(count)
    }
}
