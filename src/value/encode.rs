//! Encoding owned values in the normal form: shortest headers, maps by key, ordered lists sorted.

use super::msgpack::{
    INFINITY, SUBTYPE_BLOB, SUBTYPE_GEOJSON, SUBTYPE_HLL, SUBTYPE_STRING, WILDCARD,
    write_flags_header, write_float, write_int, write_raw_header, write_uint,
};
use super::order::{compare_lookups, compare_total};
use super::{CodecError, ItemShape, List, MAX_NESTING, Map, Value};

/// The use of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodePurpose {
    /// To be stored.
    Storage,
    /// To be compared with stored values: wildcard, infinity and any map key may occur.
    Lookup,
}

/// Appends the encoding of `value`, as an element of a list or map, to `out`. O(bytes), plus
/// sorting where a map or ordered list is not sorted yet. After an error, `out` ends in an
/// unfinished value.
pub(crate) fn encode(
    value: &Value,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    element(value, purpose, out, 1)
}

/// Appends the encoding of a list or map that is a whole bin. See [`encode`].
pub(super) fn encode_whole(
    value: &Value,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    element(value, purpose, out, 0)
}

fn element(
    value: &Value,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), CodecError> {
    match value {
        Value::Nil => out.push(0xc0),
        Value::Bool(false) => out.push(0xc2),
        Value::Bool(true) => out.push(0xc3),
        Value::Int(value) => write_int(out, *value),
        Value::BigInt(value) if purpose == EncodePurpose::Lookup => write_uint(out, *value),
        Value::BigInt(value) => return Err(CodecError::IntegerTooBig(*value)),
        Value::Float(value) => write_float(out, *value),
        Value::String(text) => raw(SUBTYPE_STRING, text.as_bytes(), out)?,
        Value::Blob(bytes) => raw(SUBTYPE_BLOB, bytes, out)?,
        Value::GeoJson(text) => raw(SUBTYPE_GEOJSON, text.as_bytes(), out)?,
        Value::Hll(bytes) => raw(SUBTYPE_HLL, bytes, out)?,
        Value::List(list) => write_list(list, purpose, out, depth)?,
        Value::Map(map) => write_map(map, purpose, out, depth)?,
        Value::Wildcard if purpose == EncodePurpose::Lookup => out.extend_from_slice(&WILDCARD),
        Value::Infinity if purpose == EncodePurpose::Lookup => out.extend_from_slice(&INFINITY),
        Value::Wildcard | Value::Infinity => return Err(CodecError::NotStorable),
    }
    Ok(())
}

/// Writes text or bytes with the byte that says which of them they are.
pub(super) fn raw(subtype: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
    write_raw_header(out, bytes.len() + 1)?;
    out.push(subtype);
    out.extend_from_slice(bytes);
    Ok(())
}

fn write_list(
    list: &List,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), CodecError> {
    if depth >= MAX_NESTING {
        return Err(CodecError::TooDeep);
    }
    let flags = list.order().flags();
    write_head(ItemShape::List, list.len(), flags, out)?;
    if flags == 0 {
        return list
            .iter()
            .try_for_each(|item| element(item, purpose, out, depth + 1));
    }
    let mut spans = Spans::new(out.len());
    for item in list.iter() {
        element(item, purpose, out, depth + 1)?;
        spans.push(out.len());
    }
    spans.sort(out);
    Ok(())
}

fn write_map(
    map: &Map,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), CodecError> {
    if depth >= MAX_NESTING {
        return Err(CodecError::TooDeep);
    }
    write_head(ItemShape::Map, map.len(), map.order().flags(), out)?;
    let mut spans = Spans::new(out.len());
    for (key, value) in map.iter() {
        let legal = matches!(key, Value::Int(_) | Value::String(_) | Value::Blob(_));
        if !legal && purpose == EncodePurpose::Storage {
            return Err(CodecError::IllegalKey);
        }
        element(key, purpose, out, depth + 1)?;
        element(value, purpose, out, depth + 1)?;
        spans.push(out.len());
    }
    spans.sort(out);
    if spans.has_equal_neighbours(out) {
        Err(CodecError::DuplicateKey)
    } else {
        Ok(())
    }
}

/// Writes the header of a list or map, and its flags if it has any.
pub(crate) fn write_head(
    shape: ItemShape,
    count: usize,
    flags: u8,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let count = u32::try_from(count).map_err(|_| CodecError::TooLong)?;
    if flags == 0 {
        shape.write_header(out, count);
        return Ok(());
    }
    shape.write_header(out, count.checked_add(1).ok_or(CodecError::TooLong)?);
    write_flags_header(out, flags, 0);
    if shape == ItemShape::Map {
        out.push(0xc0);
    }
    Ok(())
}

/// The extents of a container's elements (or pairs, beginning with their keys) at the end of a
/// buffer. Elements are adjacent, so their ends suffice.
#[derive(Debug)]
pub(crate) struct Spans {
    start: usize,
    ends: Vec<usize>,
}

impl Spans {
    pub(crate) const fn new(start: usize) -> Self {
        Self {
            start,
            ends: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, end: usize) {
        self.ends.push(end);
    }

    fn iter<'b>(&self, buffer: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        let mut start = self.start;
        self.ends.iter().map(move |end| {
            let span = buffer.get(start..*end).unwrap_or_default();
            start = *end;
            span
        })
    }

    /// Returns whether no element is greater than the next one.
    pub(super) fn are_sorted(&self, buffer: &[u8]) -> bool {
        self.iter(buffer)
            .is_sorted_by(|a, b| compare_total(a, b).is_le())
    }

    pub(super) fn has_equal_neighbours(&self, buffer: &[u8]) -> bool {
        let mut spans = self.iter(buffer);
        let Some(mut before) = spans.next() else {
            return false;
        };
        spans.any(|span| compare_lookups(std::mem::replace(&mut before, span), span).is_eq())
    }

    /// Sorts the elements in the buffer, stably. Does not touch a sorted buffer.
    pub(crate) fn sort(&mut self, buffer: &mut Vec<u8>) {
        if self
            .iter(buffer)
            .is_sorted_by(|a, b| compare_lookups(a, b).is_le())
        {
            return;
        }
        let mut spans: Vec<&[u8]> = self.iter(buffer).collect();
        spans.sort_by(|a, b| compare_lookups(a, b));
        let mut end = self.start;
        for (slot, span) in self.ends.iter_mut().zip(&spans) {
            end += span.len();
            *slot = end;
        }
        let sorted = spans.concat();
        buffer.truncate(self.start);
        buffer.extend_from_slice(&sorted);
    }
}
