//! What a query by an index asks for, and whether a record has it.
//!
//! ```text
//! range = 1: u8, name length: u8, bin name, value type: u8,
//!         first: u32 length and value, last: u32 length and value (for integers; others ask for the first only)
//! ```

use std::ops::RangeInclusive;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::bytes::Cursor;
use super::fields::{Field, Fields};
use super::index::{Definition, Index, IndexKind, IndexPart, IndexSubject, Indexes};
use super::operation::bin_name;
use super::result_code;
use crate::Result;
use crate::call::{self, CallSystem};
use crate::engine::RemoteRecord;
use crate::expression::RecordFacts;
use crate::geo::Geometry;
use crate::operation::{Checked, Mode, Operation, ResultSink};
use crate::record::BinName;
use crate::record::RecordView;
use crate::value::msgpack::{Reader, Token, front_int, write_array_header, write_int};
use crate::value::{Container, ParticleType, ValueRef, element_to_stored};

/// The longest text or blob that can be asked for: one less than Aerospike's limit.
const TEXT_BYTES_MAX: usize = 2047;

/// A call below a path.
const BELOW: i64 = 0xff;

/// "The value" as what a call returns.
const RETURN_VALUE: i64 = 7;

/// An expression that cannot be evaluated is nil.
const EVAL_NO_FAIL: i64 = 16;

/// What the index must hold of a record.
#[derive(Debug)]
enum Range {
    Numeric(RangeInclusive<i64>),
    String(Box<[u8]>),
    Blob(Box<[u8]>),
    /// Regions that contain a point, or points inside a region.
    Geo(Geometry),
}

/// A condition on the value of an index.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) index: Arc<Index>,
    range: Range,
    /// What reads the value, if it is not that of a bin.
    read: Vec<Operation>,
}

impl Condition {
    /// The condition of a query on `set`; `None` if it has none. Otherwise the code of the answer: 4 for a malformed one,
    /// 201 without such an index.
    pub(crate) fn of(
        fields: &Fields<'_>,
        indexes: &Indexes,
        set: &str,
    ) -> std::result::Result<Option<Self>, u8> {
        let name = fields.get(Field::IndexName);
        let expression = fields.get(Field::IndexExpression);
        let path = fields.get(Field::IndexContext);
        let Some(range) = fields.get(Field::IndexRange) else {
            return match (name, expression, path) {
                (None, None, None) => Ok(None),
                _ => Err(result_code::PARAMETER),
            };
        };
        let (bin, range) = Range::parse(range).ok_or(result_code::PARAMETER)?;
        let part = match fields.get(Field::IndexType) {
            None => Some(IndexPart::Whole),
            Some(number) => number
                .first()
                .and_then(|number| IndexPart::from_number(*number)),
        };
        let index = match (name, expression, path) {
            (Some(name), None, None) if bin.is_empty() => std::str::from_utf8(name)
                .ok()
                .and_then(|name| indexes.by_name(name))
                // A range of another type finds nothing in it.
                .filter(|index| index.definition.kind == Some(range.kind())),
            (None, Some(expression), None) if bin.is_empty() => part.and_then(|part| {
                indexes.by_definition(&Definition {
                    set: set.to_owned(),
                    subject: IndexSubject::Expression(expression.into()),
                    part,
                    kind: Some(range.kind()),
                })
            }),
            (None, None, path) if !bin.is_empty() => {
                let name = bin_name(bin).map_err(|_| result_code::PARAMETER)?;
                let path = path.unwrap_or_default().into();
                part.and_then(|part| {
                    indexes.by_definition(&Definition {
                        set: set.to_owned(),
                        subject: IndexSubject::Bin { name, path },
                        part,
                        kind: Some(range.kind()),
                    })
                })
            }
            _ => return Err(result_code::PARAMETER),
        };
        let index = index.ok_or(result_code::INDEX_NOT_FOUND)?;
        let read = read_operation(&index.definition.subject).ok_or(result_code::PARAMETER)?;
        Ok(Some(Self {
            read: read.into_iter().collect(),
            range,
            index,
        }))
    }

    /// The number under which the index has a stored record, if it is one of those that the query asks for. A record that
    /// cannot be read is in no index.
    pub(crate) fn matches_stored(
        &self,
        record: &RemoteRecord<'_>,
        facts: &RecordFacts<'_>,
    ) -> Option<i64> {
        self.matches(record.view().ok()?, facts)
    }

    /// Whether all values in the range stand behind this one in the index. Hashes are in no order that a range could have.
    pub(crate) fn begins_behind(&self, value: i64) -> bool {
        match &self.range {
            Range::Numeric(range) => value < *range.start(),
            Range::String(_) | Range::Blob(_) | Range::Geo(_) => value == 0,
        }
    }

    /// The number under which the index has the record, if it is in the range: an integer's own, of
    /// other values a hash.
    pub(crate) fn matches(&self, record: RecordView<'_>, facts: &RecordFacts<'_>) -> Option<i64> {
        if let IndexSubject::Bin { name, .. } = &self.index.definition.subject
            && self.read.is_empty()
        {
            let bin = record.find(name.as_bytes())?;
            return self.test(bin.kind, bin.value);
        }
        let mut value = ReadValue {
            condition: self,
            matched: None,
        };
        let read = Checked::new(&self.read, Mode::empty())
            .and_then(|checked| checked.seeing(facts).read_into(record, &mut value));
        // What cannot be read is not in the index.
        read.ok().and(value.matched)
    }

    fn test(&self, kind: ParticleType, stored: &[u8]) -> Option<i64> {
        let part = self.index.definition.part;
        let container = match (part, kind) {
            (IndexPart::Whole, _) => return self.range.test(kind, stored),
            (IndexPart::Elements, ParticleType::List) => Container::list(stored),
            (IndexPart::Keys | IndexPart::Values, ParticleType::Map) => Container::map(stored),
            _ => return None,
        };
        let container = container.ok()?;
        let mut reader = Reader::new(container.content);
        for _ in 0..container.count {
            let mut element = reader.element().ok()?;
            if part != IndexPart::Elements {
                let value = reader.element().ok()?;
                if part == IndexPart::Values {
                    element = value;
                }
            }
            if let Some(number) = self.range.test_element(element) {
                return Some(number);
            }
        }
        None
    }
}

/// Takes the value of an index to be looked at.
#[derive(Debug)]
struct ReadValue<'c> {
    condition: &'c Condition,
    matched: Option<i64>,
}

impl ResultSink for ReadValue<'_> {
    fn add(&mut self, _: usize, _: &BinName, reply: call::Reply<'_>) -> Result<()> {
        let (kind, stored) = reply.into_stored()?;
        self.matched = self.condition.test(kind, &stored);
        Ok(())
    }
}

impl Range {
    /// The name of the bin, which may be empty, and the range; `None` if it is malformed or empty.
    fn parse(field: &[u8]) -> Option<(&[u8], Self)> {
        let mut cursor = Cursor(field);
        if cursor.u8()? != 1 {
            return None;
        }
        let name_len = cursor.u8()?;
        let bin = cursor.take(usize::from(name_len))?;
        let kind = IndexKind::from_number(cursor.u8()?)?;
        let first_len = cursor.u32()? as usize;
        let first = cursor.take(first_len)?;
        let short = first_len <= TEXT_BYTES_MAX;
        let range = match kind {
            IndexKind::Numeric => {
                let last_len = cursor.u32()? as usize;
                let last = cursor.take(last_len)?;
                let first = i64::from_be_bytes(first.try_into().ok()?);
                let last = i64::from_be_bytes(last.try_into().ok()?);
                (first <= last).then_some(Self::Numeric(first..=last))
            }
            IndexKind::String => short.then(|| Self::String(first.into())),
            IndexKind::Blob => short.then(|| Self::Blob(first.into())),
            IndexKind::Geo => Geometry::parse(first).ok().map(Self::Geo),
        };
        Some((bin, range?))
    }

    const fn kind(&self) -> IndexKind {
        match self {
            Self::Numeric(_) => IndexKind::Numeric,
            Self::String(_) => IndexKind::String,
            Self::Blob(_) => IndexKind::Blob,
            Self::Geo(_) => IndexKind::Geo,
        }
    }

    /// Looks at a value in its stored form.
    fn test(&self, kind: ParticleType, stored: &[u8]) -> Option<i64> {
        let matches = match (self, kind) {
            (Self::Numeric(range), ParticleType::Integer) => {
                let number = ValueRef::stored(kind, stored).ok()?.as_i64()?;
                return range.contains(&number).then_some(number);
            }
            (Self::String(wanted), ParticleType::String)
            | (Self::Blob(wanted), ParticleType::Blob) => **wanted == *stored,
            (Self::Geo(wanted), ParticleType::GeoJson) => {
                Geometry::parse(stored).ok()?.matches(wanted)
            }
            _ => false,
        };
        matches.then(|| xxh3_64(stored).cast_signed())
    }

    /// Looks at an element of a list or map.
    fn test_element(&self, element: &[u8]) -> Option<i64> {
        if let Self::Numeric(range) = self {
            return front_int(element).filter(|number| range.contains(number));
        }
        let (kind, stored) = element_to_stored(element).ok()?;
        self.test(kind, &stored)
    }
}

/// What reads the value of an index: nothing for that of a bin or for a record. `None` if a path is malformed.
pub(crate) fn read_operation(subject: &IndexSubject) -> Option<Option<Operation>> {
    match subject {
        IndexSubject::Record => Some(None),
        IndexSubject::Bin { path, .. } if path.is_empty() => Some(None),
        IndexSubject::Bin { name, path } => {
            let call = call_of_path(path)?;
            let name = name.as_str();
            let read = Operation::encoded_call(name, CallSystem::Collections, false, call);
            Some(Some(read))
        }
        IndexSubject::Expression(expression) => {
            let mut payload = Vec::with_capacity(expression.len() + 2);
            write_array_header(&mut payload, 2);
            payload.extend_from_slice(expression);
            write_int(&mut payload, EVAL_NO_FAIL);
            Some(Some(Operation::encoded_expression("", false, &payload)))
        }
    }
}

/// The call that returns the value to which a path of contexts leads: the last context becomes a read of one element, below
/// the path of those before it.
fn call_of_path(path: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(path);
    let Token::Array(count @ 2..) = reader.token().ok()? else {
        return None;
    };
    if !count.is_multiple_of(2) {
        return None;
    }
    let before = reader.rest();
    for _ in 0..count - 2 {
        reader.element().ok()?;
    }
    let before = before.get(..before.len() - reader.rest().len())?;
    let kind = front_int(reader.element().ok()?)?;
    let value = reader.element().ok()?;
    // By index, rank, key, value, in a list (0x10) or a map (0x20).
    let operation = match kind {
        0x10 => 19,
        0x11 => 21,
        0x13 => 20,
        0x20 => 98,
        0x21 => 100,
        0x22 => 97,
        0x23 => 99,
        _ => return None,
    };
    if !reader.rest().is_empty() {
        return None;
    }
    let mut call = Vec::with_capacity(path.len() + 8);
    if count > 2 {
        write_array_header(&mut call, 3);
        write_int(&mut call, BELOW);
        write_array_header(&mut call, count - 2);
        call.extend_from_slice(before);
    }
    write_array_header(&mut call, 3);
    write_int(&mut call, operation);
    write_int(&mut call, RETURN_VALUE);
    call.extend_from_slice(value);
    Some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(first: i64, last: i64) -> Vec<u8> {
        let mut field = b"\x01\x01x\x01".to_vec();
        for bound in [first, last] {
            field.extend([0, 0, 0, 8]);
            field.extend(bound.to_be_bytes());
        }
        field
    }

    #[test]
    fn a_range_is_read_and_tested() {
        let field = numeric(-1, 9);
        let (bin, range) = Range::parse(&field).unwrap();
        assert_eq!(bin, b"x");
        for (element, found) in [
            (&[0xff_u8][..], Some(-1)),
            (&[9], Some(9)),
            (&[10], None),
            (&[0xa1, 3], None),
        ] {
            assert_eq!(range.test_element(element), found);
        }
        let text = b"\x01\x01x\x03\0\0\0\x02ab\0\0\0\x02ab";
        let (_, range) = Range::parse(text).unwrap();
        assert!(range.test(ParticleType::String, b"ab").is_some());
        assert_eq!(range.test(ParticleType::Blob, b"ab"), None);
        assert!(range.test_element(&[0xa3, 3, b'a', b'b']).is_some());
    }

    #[test]
    fn malformed_ranges_are_refused() {
        let field = numeric(1, 9);
        for len in 0..field.len() {
            assert!(Range::parse(&field[..len]).is_none(), "{len}");
        }
        let table: [&[u8]; 4] = [
            &numeric(9, 1),
            b"\x02\x01x\x03\0\0\0\x01a\0\0\0\x01a",
            b"\x01\x01x\x05\0\0\0\x01a\0\0\0\x01a",
            b"\x01\x01x\x17\0\0\0\x02{}\0\0\0\x02{}",
        ];
        for field in table {
            assert!(Range::parse(field).is_none(), "{field:?}");
        }
    }

    #[test]
    fn the_last_context_of_a_path_becomes_a_read() {
        let table: [(&[u8], &[u8]); 2] = [
            // Element 3 of a list; the same, of the list under the key "a".
            (&[0x92, 0x10, 3], &[0x93, 19, 7, 3]),
            (
                &[0x94, 0x22, 0xa2, 3, b'a', 0x10, 3],
                &[0x93, 0xcc, 0xff, 0x92, 0x22, 0xa2, 3, b'a', 0x93, 19, 7, 3],
            ),
        ];
        for (path, call) in table {
            assert_eq!(call_of_path(path).as_deref(), Some(call));
        }
        for path in [
            &[][..],
            &[0x90],
            &[0x91, 0x10],
            &[0x92, 0x50, 3],
            &[0x92, 0x10, 3, 0],
        ] {
            assert_eq!(call_of_path(path), None, "{path:?}");
        }
    }
}
