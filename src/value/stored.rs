//! The form of a value inside a stored record.
//!
//! | type | bytes |
//! |---|---|
//! | integer | 1, 2, 4 or 8 bytes, little-endian two's complement, the fewest that hold it |
//! | float | 8 bytes, little-endian IEEE 754 |
//! | bool | 1 byte, 0 or 1 |
//! | string, blobs, HyperLogLog, GeoJSON | the bytes |
//! | list, map | the normal form of the MessagePack, flags and index data included |

use std::borrow::Cow;

use super::encode::{EncodePurpose, encode_whole, raw, write_head};
use super::msgpack::{SUBTYPE_BLOB, Token, TokenReader, write_float, write_int};
use super::reference::{ListRef, MapRef};
use super::{
    CodecError, Container, FLAG_PERSIST_INDEX, ItemShape, ParticleType, Value, ValueRef, normalize,
};

/// Appends the stored form of `value` to `out` and returns its type. O(bytes). `Nil` writes nothing
/// and has the type [`ParticleType::Null`].
pub(crate) fn write_stored(value: &Value, out: &mut Vec<u8>) -> Result<ParticleType, CodecError> {
    write_value(value, EncodePurpose::Storage, out)
}

/// As [`write_stored`], for a value that goes to a client: its maps may have any key.
#[cfg(feature = "server")]
pub(crate) fn write_answer(value: &Value, out: &mut Vec<u8>) -> Result<ParticleType, CodecError> {
    write_value(value, EncodePurpose::Lookup, out)
}

fn write_value(
    value: &Value,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
) -> Result<ParticleType, CodecError> {
    let bytes = |out: &mut Vec<u8>, bytes: &[u8], kind| {
        out.extend_from_slice(bytes);
        Ok(kind)
    };
    match value {
        Value::Nil => Ok(ParticleType::Null),
        Value::Bool(value) => bytes(out, &[u8::from(*value)], ParticleType::Bool),
        Value::Int(value) => {
            write_stored_int(*value, out);
            Ok(ParticleType::Integer)
        }
        Value::Float(value) => bytes(out, &value.to_le_bytes(), ParticleType::Float),
        Value::String(text) => bytes(out, text.as_bytes(), ParticleType::String),
        Value::Blob(blob) => bytes(out, blob, ParticleType::Blob),
        Value::GeoJson(text) => bytes(out, text.as_bytes(), ParticleType::GeoJson),
        Value::Hll(sketch) => bytes(out, sketch, ParticleType::Hll),
        Value::List(_) => encode_whole(value, purpose, out).map(|()| ParticleType::List),
        Value::Map(_) => encode_whole(value, purpose, out).map(|()| ParticleType::Map),
        Value::BigInt(value) => Err(CodecError::IntegerTooBig(*value)),
        Value::Wildcard | Value::Infinity => Err(CodecError::NotStorable),
    }
}

fn write_stored_int(value: i64, out: &mut Vec<u8>) {
    if let Ok(value) = i8::try_from(value) {
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i16::try_from(value) {
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

impl<'a> ValueRef<'a> {
    /// Reads a stored value. O(1), except for the UTF-8 check of text.
    pub(crate) fn stored(kind: ParticleType, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let scalar = |what| CodecError::Scalar {
            what,
            len: bytes.len(),
        };
        Ok(match kind {
            ParticleType::Null => return Err(CodecError::UnknownType(0)),
            ParticleType::Integer => Self::Int(match *bytes {
                [a] => i64::from(i8::from_le_bytes([a])),
                [a, b] => i64::from(i16::from_le_bytes([a, b])),
                [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
                _ => i64::from_le_bytes(bytes.try_into().map_err(|_| scalar("integer"))?),
            }),
            ParticleType::Float => Self::Float(f64::from_le_bytes(
                bytes.try_into().map_err(|_| scalar("float"))?,
            )),
            ParticleType::Bool => match bytes {
                [0] => Self::Bool(false),
                [1] => Self::Bool(true),
                _ => return Err(scalar("bool")),
            },
            ParticleType::String => {
                std::str::from_utf8(bytes).map_or(Self::Blob(bytes), Self::String)
            }
            ParticleType::GeoJson => {
                std::str::from_utf8(bytes).map_or(Self::Blob(bytes), Self::GeoJson)
            }
            ParticleType::Hll => Self::Hll(bytes),
            ParticleType::List => Self::List(ListRef::new(bytes)?),
            ParticleType::Map => Self::Map(MapRef::new(bytes)?),
            _ => Self::Blob(bytes),
        })
    }
}

/// Checks that a stored value has the shape of its type: sizes of scalars, heads of containers.
/// O(1).
#[inline]
pub(crate) fn check_stored(kind: ParticleType, bytes: &[u8]) -> Result<(), CodecError> {
    check_wire_scalar(kind, bytes)?;
    match ItemShape::of_kind(kind) {
        Some(shape) => Container::of(shape, bytes).map(drop),
        None if kind == ParticleType::Null => Err(CodecError::UnknownType(0)),
        None => Ok(()),
    }
}

/// Returns type and stored form of an encoded element of a list or map. Borrows where the two forms
/// are the same; nil has the type [`ParticleType::Null`].
pub(crate) fn element_to_stored(
    element: &[u8],
) -> Result<(ParticleType, Cow<'_, [u8]>), CodecError> {
    let mut reader = TokenReader::new(element);
    let int = |value| {
        let mut out = Vec::with_capacity(size_of::<i64>());
        write_stored_int(value, &mut out);
        (ParticleType::Integer, Cow::Owned(out))
    };
    let float = |value: f64| {
        (
            ParticleType::Float,
            Cow::Owned(value.to_le_bytes().to_vec()),
        )
    };
    Ok(match reader.token()? {
        Token::Nil => (ParticleType::Null, Cow::Borrowed(&[])),
        Token::Bool(value) => (
            ParticleType::Bool,
            Cow::Borrowed(if value { &[1] } else { &[0] }),
        ),
        Token::Int(value) => int(value),
        Token::BigInt(value) => int(value.cast_signed()),
        Token::Float32(value) => float(f64::from(value)),
        Token::Float(value) => float(value),
        Token::Raw(raw) => {
            let (subtype, bytes) = raw.split_first().unwrap_or((&SUBTYPE_BLOB, &[]));
            (ParticleType::of_subtype(*subtype), Cow::Borrowed(bytes))
        }
        Token::Array(_) => (ParticleType::List, Cow::Borrowed(element)),
        Token::Map(_) => (ParticleType::Map, Cow::Borrowed(element)),
        Token::Ext(kind, _) => return Err(CodecError::UnknownExtension(kind)),
    })
}

/// Whether a list or map carries an index, which belongs to the store and not to the value.
///
/// # Errors
/// If it is malformed.
pub(crate) fn is_indexed(kind: ParticleType, stored: &[u8]) -> Result<bool, CodecError> {
    let Some(shape) = ItemShape::of_kind(kind) else {
        return Ok(false);
    };
    Ok(Container::of(shape, stored)?.flags & FLAG_PERSIST_INDEX != 0)
}

/// Appends a stored value as an element of a list or map. A list or map loses its index data, which
/// only whole bins have.
pub(crate) fn stored_to_element(
    kind: ParticleType,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    if let Some(shape) = ItemShape::of_kind(kind) {
        let head = Container::of(shape, bytes)?;
        let flags = head.flags & !FLAG_PERSIST_INDEX;
        write_head(shape, head.count as usize, flags, out)?;
        out.extend_from_slice(head.content);
        return Ok(());
    }
    match kind {
        ParticleType::String | ParticleType::GeoJson => raw(kind.number(), bytes, out)?,
        _ => match ValueRef::stored(kind, bytes)? {
            ValueRef::Int(value) => write_int(out, value),
            ValueRef::Float(value) => write_float(out, value),
            ValueRef::Bool(value) => out.push(0xc2 + u8::from(value)),
            _ => raw(kind.number(), bytes, out)?,
        },
    }
    Ok(())
}

/// Refuses a number or truth value of a size that its type does not have, stored and on the wire.
#[inline]
pub(crate) fn check_wire_scalar(kind: ParticleType, bytes: &[u8]) -> Result<(), CodecError> {
    let (fits, what) = match kind {
        ParticleType::Integer => (matches!(bytes.len(), 1 | 2 | 4 | 8), "integer"),
        ParticleType::Float => (bytes.len() == size_of::<f64>(), "float"),
        ParticleType::Bool => (matches!(bytes, [0 | 1]), "bool"),
        _ => return Ok(()),
    };
    let len = bytes.len();
    fits.then_some(()).ok_or(CodecError::Scalar { what, len })
}

/// Appends the stored form of a value that a client encoded for the wire: big-endian numbers,
/// MessagePack before normalization, GeoJSON behind a head of flags and cells.
pub(crate) fn from_wire(
    kind: ParticleType,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    check_wire_scalar(kind, bytes)?;
    match kind {
        ParticleType::Null => {}
        ParticleType::Integer => {
            let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
            write_stored_int(bytes.iter().fold(0, join).cast_signed(), out);
        }
        ParticleType::Float => out.extend(bytes.iter().rev()),
        ParticleType::List | ParticleType::Map => normalize::particle(kind, bytes, out)?,
        ParticleType::GeoJson => out.extend_from_slice(geojson_text(bytes)?),
        _ => out.extend_from_slice(bytes),
    }
    Ok(())
}

/// Returns the text of GeoJSON on the wire: flags (1 byte), number of cells (2 bytes), the cells (8
/// bytes each), the text.
fn geojson_text(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let (&[_, high, low], rest) = bytes.split_first_chunk().ok_or(CodecError::Truncated)?;
    let cells = usize::from(u16::from_be_bytes([high, low])) * size_of::<u64>();
    rest.get(cells..).ok_or(CodecError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::any_value;
    use proptest::prelude::*;

    fn stored(value: &Value) -> (ParticleType, Vec<u8>) {
        let mut out = Vec::new();
        let kind = write_stored(value, &mut out).unwrap();
        (kind, out)
    }

    #[test]
    fn scalars_have_these_bytes() {
        let table: [(Value, u8, &[u8]); 12] = [
            (0.into(), 1, &[0]),
            ((-128).into(), 1, &[0x80]),
            (128.into(), 1, &[0x80, 0]),
            (32_768.into(), 1, &[0, 0x80, 0, 0]),
            (i64::MIN.into(), 1, &[0, 0, 0, 0, 0, 0, 0, 0x80]),
            (1.5.into(), 2, &[0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            ("hi".into(), 3, b"hi"),
            (b"hi".into(), 4, b"hi"),
            (true.into(), 17, &[1]),
            (Value::Hll(vec![1, 2]), 18, &[1, 2]),
            (Value::List(vec![1.into()].into()), 20, &[0x91, 1]),
            (Value::GeoJson("{}".into()), 23, b"{}"),
        ];
        for (value, kind, bytes) in table {
            let (stored_kind, stored_bytes) = stored(&value);
            assert_eq!(
                (stored_kind.number(), &stored_bytes[..]),
                (kind, bytes),
                "{value:?}"
            );
            assert_eq!(
                ValueRef::stored(stored_kind, bytes)
                    .unwrap()
                    .to_value()
                    .unwrap(),
                value
            );
        }
    }

    #[test]
    fn wire_values_become_stored_values() {
        let table: [(ParticleType, &[u8], Value); 7] = [
            (ParticleType::Integer, &[0xff], 255.into()),
            (ParticleType::Integer, &[0xff; 8], (-1).into()),
            (ParticleType::Float, &1.5_f64.to_be_bytes(), 1.5.into()),
            (ParticleType::Bool, &[1], true.into()),
            (
                ParticleType::GeoJson,
                b"\0\0\x01........{}",
                Value::GeoJson("{}".into()),
            ),
            (ParticleType::String, b"text", "text".into()),
            (
                ParticleType::List,
                &[0xdc, 0, 1, 0xcc, 1],
                Value::List(vec![1.into()].into()),
            ),
        ];
        for (kind, wire, value) in table {
            let mut out = Vec::new();
            from_wire(kind, wire, &mut out).unwrap();
            assert_eq!((kind, out), stored(&value));
        }
        for (kind, wire) in [
            (ParticleType::Integer, &[0; 3][..]),
            (ParticleType::Float, &[0; 4]),
            (ParticleType::Bool, &[2]),
            (ParticleType::GeoJson, &[0, 0, 1, 0]),
        ] {
            assert!(from_wire(kind, wire, &mut Vec::new()).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn text_and_bytes_keep_their_type_as_elements() {
        let table = [
            (3, 3),
            (4, 4),
            (7, 7),
            (12, 12),
            (16, 16),
            (18, 18),
            (23, 23),
            (1, 4),
            (19, 4),
            (200, 4),
        ];
        for (subtype, kind) in table {
            let element = [0xa2, subtype, b'x'];
            let (stored_kind, bytes) = element_to_stored(&element).unwrap();
            assert_eq!(
                (stored_kind.number(), &*bytes),
                (kind, &b"x"[..]),
                "{subtype}"
            );
            let mut again = Vec::new();
            stored_to_element(stored_kind, &bytes, &mut again).unwrap();
            assert_eq!(again, [0xa2, kind, b'x']);
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_read_as_bytes() {
        let bytes = [0xff, 0xfe];
        assert_eq!(
            ValueRef::stored(ParticleType::String, &bytes),
            Ok(ValueRef::Blob(&bytes))
        );
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(value in any_value()) {
            if value != Value::Nil {
                let (kind, bytes) = stored(&value);
                let read = ValueRef::stored(kind, &bytes).unwrap().to_value().unwrap();
                prop_assert_eq!(stored(&read), (kind, bytes));
            }
        }
    }
}
