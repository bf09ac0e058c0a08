//! Bins written into a record without operations: the common put, and an edit of all bins.

use super::bin_value::check_bin_value;
use super::change::{BinChange, not_storable};
use super::slots::Slots;
use crate::Result;
use crate::call::CallError;
use crate::cdt::with_flags;
use crate::record::body::{RawBin, checked_bin_count, write_bin, write_raw_bin, write_varint};
use crate::record::{BinName, Bins, RecordView};
use crate::value::{FLAG_PERSIST_INDEX, Value, ValueRef, is_indexed, write_stored};

/// From this many bins on, names are looked up in a sorted list instead of one by one.
const SEARCHED_BINS: usize = 16;

/// Appends the body of `old` with `bins` written into it to `out`, and returns how many bins it
/// has. Bins keep their places, new ones go to the end; nil removes a bin. O(bytes).
///
/// # Errors
/// [`crate::Error::NotStorable`] for a value, [`crate::Error::Parameter`] if there would be too
/// many bins.
pub(crate) fn merge(old: Option<RecordView<'_>>, bins: &Bins, out: &mut Vec<u8>) -> Result<u32> {
    if let (Some((name, value)), Some(old)) = (bins.only(), old)
        && !matches!(value, Value::Nil)
    {
        return merge_one(old, name, value, out);
    }
    bins.iter()
        .try_for_each(|(_, value)| check_bin_value(value))?;
    let Some(old) = old.filter(|old| !old.is_empty()) else {
        return Ok(bins.write_body(out)? as u32);
    };
    if bins.iter().any(|(_, value)| matches!(value, Value::Nil)) {
        let mut slots = Slots::of(Some(old));
        for (name, value) in bins.iter() {
            slots.apply(*name, BinChange::write(value).settle()?)?;
        }
        return slots.write(out);
    }
    let mut news = News::new(bins);
    let replaced = old
        .raw_bins()
        .filter(|bin| news.take(bin.name).is_some())
        .count();
    let count = checked_bin_count(old.len() + bins.len() - replaced)?;
    write_varint(out, count);
    for bin in old.raw_bins() {
        match news.get(bin.name) {
            Some((name, value)) => write_bin(out, name, value).map_err(not_storable)?,
            None => out.extend_from_slice(bin.bytes),
        }
    }
    for (name, value) in news.not_taken() {
        write_bin(out, name, value).map_err(not_storable)?;
    }
    Ok(count)
}

/// Appends the body of a record of exactly these bins to `out`, and returns how many bins it has.
/// They were read from `old` and edited. A bin that was not edited keeps its bytes, since not every
/// stored form has a value that is stored in the same form; an edited list or map keeps its
/// persisted index. O(bytes) where few bins were removed or added.
///
/// # Errors
/// As for [`merge`].
pub(crate) fn rewrite(old: RecordView<'_>, bins: &Bins, out: &mut Vec<u8>) -> Result<u32> {
    let is_left = |value: &Value| !matches!(value, Value::Nil);
    let count = checked_bin_count(bins.iter().filter(|(_, value)| is_left(value)).count())?;
    write_varint(out, count);
    let mut places = old.raw_bins();
    for (name, value) in bins.iter() {
        let in_place = places.next().filter(|bin| bin.name == name.as_bytes());
        let before = in_place.or_else(|| old.find(name.as_bytes()));
        if is_left(value) {
            rewrite_bin(before, name, value, out)?;
        }
    }
    Ok(count)
}

fn rewrite_bin(
    before: Option<RawBin<'_>>,
    name: &BinName,
    value: &Value,
    out: &mut Vec<u8>,
) -> Result<()> {
    let from = out.len();
    let written = check_bin_value(value).and_then(|()| {
        let written = write_bin(out, name, value);
        written.map_err(not_storable)
    });
    let Some(before) = before else {
        return written;
    };
    // Most bins were not edited, and have the form of their value.
    if written.is_ok() && out.get(from..) == Some(before.bytes) {
        return written;
    }
    if reads_as(&before, value) {
        out.truncate(from);
        out.extend_from_slice(before.bytes);
        return Ok(());
    }
    written?;
    let mut normal = Vec::new();
    if !is_indexed(before.kind, before.value).unwrap_or(false)
        || write_stored(value, &mut normal).map_err(not_storable)? != before.kind
    {
        return Ok(());
    }
    out.truncate(from);
    let in_bin = |error: CallError| error.in_bin(name.as_str());
    let stored = with_flags(before.kind, normal, FLAG_PERSIST_INDEX).map_err(in_bin)?;
    write_raw_bin(out, name, before.kind, &stored).map_err(not_storable)
}

/// Whether a bin is read as this value.
fn reads_as(bin: &RawBin<'_>, value: &Value) -> bool {
    let read = ValueRef::stored(bin.kind, bin.value).and_then(|stored| stored.to_value());
    read.is_ok_and(|read| read.is_same(value))
}

/// The most common put of all: one bin.
fn merge_one(old: RecordView<'_>, name: &BinName, value: &Value, out: &mut Vec<u8>) -> Result<u32> {
    check_bin_value(value)?;
    let around = old.around(name.as_bytes());
    let count = checked_bin_count(old.len() + usize::from(around.is_none()))?;
    let (before, after) = around.unwrap_or((old.bin_bytes(), &[]));
    write_varint(out, count);
    // Most records have this bin alone.
    if !before.is_empty() {
        out.extend_from_slice(before);
    }
    write_bin(out, name, value).map_err(not_storable)?;
    if !after.is_empty() {
        out.extend_from_slice(after);
    }
    Ok(count)
}

/// The bins to be written, found by name, and which of them the record has.
#[derive(Debug)]
struct News<'b> {
    bins: Vec<(&'b BinName, &'b Value, bool)>,
    /// Positions by name, if there are many.
    by_name: Vec<usize>,
}

impl<'b> News<'b> {
    fn new(bins: &'b Bins) -> Self {
        let bins: Vec<_> = bins
            .iter()
            .map(|(name, value)| (name, value, false))
            .collect();
        let mut by_name = Vec::new();
        if bins.len() >= SEARCHED_BINS {
            by_name.extend(0..bins.len());
            by_name.sort_by_key(|at| bins.get(*at).map(|bin| bin.0));
        }
        Self { bins, by_name }
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        if self.by_name.is_empty() {
            return self.bins.iter().position(|bin| bin.0.as_bytes() == name);
        }
        let key = |at: &usize| self.bins.get(*at).map(|bin| bin.0.as_bytes());
        let found = self.by_name.binary_search_by_key(&Some(name), key).ok()?;
        self.by_name.get(found).copied()
    }

    fn get(&self, name: &[u8]) -> Option<(&'b BinName, &'b Value)> {
        let (name, value, _) = self.bins.get(self.position(name)?)?;
        Some((name, value))
    }

    /// Marks a bin as one that the record has.
    fn take(&mut self, name: &[u8]) -> Option<()> {
        let position = self.position(name)?;
        self.bins.get_mut(position)?.2 = true;
        Some(())
    }

    fn not_taken(&self) -> impl Iterator<Item = (&'b BinName, &'b Value)> {
        self.bins
            .iter()
            .filter(|bin| !bin.2)
            .map(|bin| (bin.0, bin.1))
    }
}
