//! Decoding elements into owned values.

use super::container::Container;
use super::msgpack::{EXT_SPECIAL, Token, TokenReader};
use super::{CodecError, ItemShape, List, ListOrder, Map, MapOrder, Value, ValueRef};

/// Most elements to reserve memory for before reading their bytes: a header alone must not cost
/// memory.
const PREALLOCATED_ITEMS: usize = 256;

/// Decodes the element at the front of the reader and moves past it.
///
/// Text that is not UTF-8 becomes a blob, as do raw values of subtypes unknown here; unsigned
/// integers above `i64::MAX` wrap, as they do in Aerospike's clients.
#[inline]
pub(super) fn element(reader: &mut TokenReader<'_>, depth: u32) -> Result<Value, CodecError> {
    match reader.small_int() {
        Some(value) => Ok(Value::Int(value)),
        None => any_element(reader, depth),
    }
}

fn any_element(reader: &mut TokenReader<'_>, depth: u32) -> Result<Value, CodecError> {
    Ok(match reader.token()? {
        Token::Array(count) => {
            let head = Container::read(ItemShape::List, count, *reader)?;
            Value::List(list(head, reader, depth)?)
        }
        Token::Map(count) => {
            let head = Container::read(ItemShape::Map, count, *reader)?;
            Value::Map(map(head, reader, depth)?)
        }
        Token::Ext(EXT_SPECIAL, [0]) => Value::Wildcard,
        Token::Ext(EXT_SPECIAL, [1]) => Value::Infinity,
        Token::Ext(kind, _) => return Err(CodecError::UnknownExtension(kind)),
        token => ValueRef::scalar(token)?.to_value()?,
    })
}

fn list<'a>(
    head: Container<'a>,
    reader: &mut TokenReader<'a>,
    depth: u32,
) -> Result<List, CodecError> {
    let mut items = room(head.enter(reader, depth)?);
    for _ in 0..head.count {
        items.push(element(reader, depth + 1)?);
    }
    Ok(List::new(items, ListOrder::of_flags(head.flags)))
}

fn map<'a>(
    head: Container<'a>,
    reader: &mut TokenReader<'a>,
    depth: u32,
) -> Result<Map, CodecError> {
    let mut entries = room(head.enter(reader, depth)?);
    for _ in 0..head.count {
        let key = element(reader, depth + 1)?;
        entries.push((key, element(reader, depth + 1)?));
    }
    Ok(Map::new(entries, MapOrder::of_flags(head.flags)))
}

/// Reserves room for the elements of a container.
fn room<T>(head: Container<'_>) -> Vec<T> {
    Vec::with_capacity((head.count as usize).min(PREALLOCATED_ITEMS))
}

impl Value {
    /// Decodes `count` elements, encoded one after another in `bytes`, as an unordered list.
    pub(crate) fn decode_list(count: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        let head = Container::plain(count, 0, bytes);
        list(head, &mut TokenReader::new(bytes), 0).map(Self::List)
    }

    /// Decodes the element at the front of `bytes` and moves past it.
    pub(crate) fn decode_front(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let mut reader = TokenReader::new(bytes);
        let value = element(&mut reader, 0)?;
        *bytes = reader.rest();
        Ok(value)
    }
}

impl ValueRef<'_> {
    /// Returns the owned form. O(bytes).
    ///
    /// # Errors
    /// A [`CodecError`] if the elements of a list or map are malformed.
    pub fn to_value(&self) -> Result<Value, CodecError> {
        Ok(match *self {
            Self::Nil => Value::Nil,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::String(text) => Value::String(text.to_owned()),
            Self::Blob(bytes) => Value::Blob(bytes.to_vec()),
            Self::List(list) => element(&mut TokenReader::new(list.bytes), 0)?,
            Self::Map(map) => element(&mut TokenReader::new(map.bytes), 0)?,
            Self::GeoJson(text) => Value::GeoJson(text.to_owned()),
            Self::Hll(bytes) => Value::Hll(bytes.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EncodePurpose, MAX_NESTING, encode};
    use super::*;
    use crate::value::testing::{any_value, decode};
    use proptest::prelude::*;

    fn encoded(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, EncodePurpose::Storage, &mut out).unwrap();
        out
    }

    #[test]
    fn values_have_aerospikes_bytes() {
        let table: [(Value, &[u8]); 9] = [
            (Value::Nil, &[0xc0]),
            (true.into(), &[0xc3]),
            ((-1).into(), &[0xff]),
            ("ab".into(), &[0xa3, 3, b'a', b'b']),
            (b"ab".into(), &[0xa3, 4, b'a', b'b']),
            (Value::GeoJson("{}".into()), &[0xa3, 23, b'{', b'}']),
            (List::default().into(), &[0x90]),
            (
                List::new(vec![], ListOrder::Ordered).into(),
                &[0x91, 0xc7, 0, 1],
            ),
            (
                Map::new(vec![], MapOrder::KeyOrdered).into(),
                &[0x81, 0xc7, 0, 1, 0xc0],
            ),
        ];
        for (value, bytes) in table {
            assert_eq!(encoded(&value), bytes, "{value:?}");
            assert_eq!(decode(bytes).unwrap(), value);
        }
    }

    #[test]
    fn ten_thousand_levels_are_refused_not_recursed_into() {
        let mut bytes = vec![0x91; 10_000];
        bytes.push(0xc0);
        assert_eq!(decode(&bytes), Err(CodecError::TooDeep));
        let at_limit = bytes.split_off(10_001 - MAX_NESTING as usize);
        assert_eq!(encoded(&decode(&at_limit).unwrap()), at_limit);
        let too_deep = Value::List(vec![decode(&at_limit).unwrap()].into());
        assert_eq!(
            encode(&too_deep, EncodePurpose::Storage, &mut Vec::new()),
            Err(CodecError::TooDeep)
        );
    }

    #[test]
    fn a_map_is_written_by_key_and_only_with_legal_and_distinct_keys() {
        let map = |entries: Vec<(Value, Value)>| Value::Map(entries.into());
        let sorted = map(vec![(1.into(), "a".into()), ("k".into(), 2.into())]);
        let shuffled = map(vec![("k".into(), 2.into()), (1.into(), "a".into())]);
        assert_eq!(encoded(&shuffled), encoded(&sorted));
        let table = [
            (
                map(vec![(1.into(), 2.into()), (1.into(), 3.into())]),
                CodecError::DuplicateKey,
            ),
            (map(vec![(1.5.into(), 2.into())]), CodecError::IllegalKey),
            (map(vec![(Value::Nil, 2.into())]), CodecError::IllegalKey),
            (
                Value::List(vec![Value::Wildcard].into()),
                CodecError::NotStorable,
            ),
            (
                Value::List(vec![Value::Infinity].into()),
                CodecError::NotStorable,
            ),
        ];
        for (value, error) in table {
            assert_eq!(
                encode(&value, EncodePurpose::Storage, &mut Vec::new()),
                Err(error)
            );
        }
    }

    #[test]
    fn an_ordered_list_is_sorted_when_it_is_written() {
        let list = List::new(vec![3.into(), "a".into(), 1.into()], ListOrder::Ordered);
        let read = decode(&encoded(&list.into())).unwrap();
        let sorted = List::new(vec![1.into(), 3.into(), "a".into()], ListOrder::Ordered);
        assert_eq!(read, Value::List(sorted));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any_value()) {
            let bytes = encoded(&value);
            let read = decode(&bytes).unwrap();
            prop_assert_eq!(encoded(&read), bytes);
        }

        #[test]
        fn hostile_bytes_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            if let Ok(value) = decode(&bytes) {
                let mut out = Vec::new();
                let _ = encode(&value, EncodePurpose::Lookup, &mut out);
            }
        }
    }
}
