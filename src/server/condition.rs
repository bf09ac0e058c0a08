//! What a query by an index asks for.
//!
//! ```text
//! range = 1: u8, name length: u8, bin name, value type: u8,
//!         first: u32 length and value, last: u32 length and value (for integers; others ask for the first only)
//! ```

use std::sync::Arc;

use super::bytes::UnreadBytes;
use super::fields::{Field, Fields};
use super::index::component_for;
use super::operation::bin_name;
use super::result_code;
use crate::Namespace;
use crate::engine::{Index, IndexBound, IndexState};
use crate::geo::Geometry;
use crate::index::{CLIENT_PARTS, CLIENT_TYPES, IndexPart, IndexSource};
use crate::query::IndexType;

/// The longest text or blob that can be asked for: one less than Aerospike's limit.
const TEXT_BYTES_MAX: usize = 2047;

/// The longest geometry that can be asked for: one less than Aerospike's limit.
const GEOMETRY_BYTES_MAX: usize = (1 << 20) - 1;

/// A condition on the value of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexCondition {
    pub(crate) index: Arc<Index>,
    pub(crate) bound: IndexBound,
}

impl IndexCondition {
    /// The condition of a query on `set`; `None` if it has none. Otherwise the code of the answer:
    /// 4 for a malformed one, 201 without such an index, 203 for one that is being built.
    pub(crate) fn of(
        fields: &Fields<'_>,
        namespace: &Namespace,
        set: &str,
    ) -> Result<Option<Self>, u8> {
        let name = fields.get(Field::IndexName);
        let expression = fields.get(Field::IndexExpression);
        let path = fields.get(Field::IndexContext);
        let Some(range) = fields.get(Field::IndexRange) else {
            return match (name, expression, path) {
                (None, None, None) => Ok(None),
                _ => Err(result_code::PARAMETER),
            };
        };
        let (bin, kind, bound) = parse_range(range).ok_or(result_code::PARAMETER)?;
        let part = match fields.get(Field::IndexType) {
            None => Some(IndexPart::Whole),
            Some([]) => return Err(result_code::PARAMETER),
            Some([number, ..]) => CLIENT_PARTS.by_number(*number),
        };
        let find = |source| part.and_then(|part| find(namespace, set, &source, part, kind));
        let index = match (name, expression, path) {
            (Some(name), None, None) if bin.is_empty() => std::str::from_utf8(name)
                .ok()
                .and_then(|name| namespace.index_by_name(name))
                // A range of another type finds nothing in it.
                .filter(|index| component_for(&index.definition(), kind).is_some()),
            (None, Some(expression), None) if bin.is_empty() => {
                find(IndexSource::Expression(expression.into()))
            }
            (None, None, path) if !bin.is_empty() => {
                let name = bin_name(bin).map_err(|_| result_code::PARAMETER)?;
                find(IndexSource::Bin {
                    name: name.as_str().into(),
                    path: path.unwrap_or_default().into(),
                })
            }
            _ => return Err(result_code::PARAMETER),
        };
        let index = index.ok_or(result_code::INDEX_NOT_FOUND)?;
        match index.state() {
            IndexState::Ready => Ok(Some(Self { index, bound })),
            IndexState::Building => Err(result_code::INDEX_NOT_READABLE),
            IndexState::Dropped => Err(result_code::INDEX_NOT_FOUND),
        }
    }
}

/// The index of a set, or else of all sets.
fn find(
    namespace: &Namespace,
    set: &str,
    source: &IndexSource,
    part: IndexPart,
    kind: IndexType,
) -> Option<Arc<Index>> {
    let all = namespace.all_indexes();
    let of_set = |set: &str| {
        let mut all = all.iter().filter(|index| index.set_name() == set);
        let found = all.find(|index| {
            let definition = index.definition();
            let component = component_for(&definition, kind);
            component.is_some_and(|one| one.source == *source && one.part == part)
        });
        found.cloned()
    };
    of_set(set).or_else(|| of_set(""))
}

/// The name of the bin, which may be empty, and the range; `None` if it is malformed or empty.
fn parse_range(field: &[u8]) -> Option<(&[u8], IndexType, IndexBound)> {
    let mut cursor = UnreadBytes(field);
    if cursor.u8()? != 1 {
        return None;
    }
    let bin = cursor.short()?;
    let kind = CLIENT_TYPES.by_number(cursor.u8()?)?;
    let first = cursor.long()?;
    let bound = match kind {
        IndexType::Integer => {
            let last = cursor.long()?;
            let first = i64::from_be_bytes(first.try_into().ok()?);
            let last = i64::from_be_bytes(last.try_into().ok()?);
            (first <= last).then_some(IndexBound::Integers(first, last))
        }
        IndexType::GeoJson if first.len() <= GEOMETRY_BYTES_MAX => {
            let geometry = Geometry::parse(first).ok()?;
            Some(IndexBound::Geometry(Box::new(geometry)))
        }
        IndexType::String if first.len() <= TEXT_BYTES_MAX => Some(IndexBound::Text(first.into())),
        IndexType::Blob if first.len() <= TEXT_BYTES_MAX => Some(IndexBound::Blob(first.into())),
        _ => None,
    };
    Some((bin, kind, bound?))
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
    fn a_range_is_read() {
        let field = numeric(-1, 9);
        let (bin, kind, bound) = parse_range(&field).unwrap();
        assert_eq!((bin, kind), (&b"x"[..], IndexType::Integer));
        assert!(matches!(bound, IndexBound::Integers(-1, 9)));
        let (_, _, bound) = parse_range(b"\x01\x01x\x03\0\0\0\x02ab\0\0\0\x02ab").unwrap();
        assert!(matches!(bound, IndexBound::Text(text) if *text == *b"ab"));
    }

    #[test]
    fn malformed_ranges_are_refused() {
        let field = numeric(1, 9);
        for len in 0..field.len() {
            assert!(parse_range(&field[..len]).is_none(), "{len}");
        }
        let long = [&b"\x01\x01x\x03\0\0\x08\0"[..], &[b'a'; 2048]].concat();
        let table: [&[u8]; 5] = [
            &numeric(9, 1),
            &long,
            b"\x02\x01x\x03\0\0\0\x01a\0\0\0\x01a",
            b"\x01\x01x\x05\0\0\0\x01a\0\0\0\x01a",
            b"\x01\x01x\x17\0\0\0\x02{}\0\0\0\x02{}",
        ];
        for field in table {
            assert!(parse_range(field).is_none(), "{field:?}");
        }
    }
}
