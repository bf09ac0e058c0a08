//! The form of values in an index: byte strings that sort like the values.
//!
//! | value | bytes |
//! |---|---|
//! | bool | 2, then 0 or 1 |
//! | integer | 3, then 8 bytes, big-endian, with the sign bit turned round |
//! | string | 4, then the bytes, escaped, then 0 |
//! | blob | 7, then the bytes, escaped, then 0 |
//! | GeoJSON | 9, then 1 for a point or 2 for a region, then 8 bytes, big-endian: a cell (`geo/cells.rs`), one of several of a region |
//! | double | 8, then 8 bytes, big-endian: all bits turned round of a negative one, the sign bit of others |
//!
//! Escaped: 0 is written as 1 1, and 1 as 1 2. The type numbers follow the order of values
//! (semantics.md#order-of-values). Both zeros of doubles are one value. An entry is its components
//! in order, then the digest.

use spikelet_storage::Digest;

use crate::value::{ParticleType, Value, ValueRef};

const BOOL: u8 = 2;
const INTEGER: u8 = 3;
const STRING: u8 = 4;
const BLOB: u8 = 7;
const FLOAT: u8 = 8;
const GEOMETRY: u8 = 9;

const END: u8 = 0;
const ESCAPE: u8 = 1;

/// A type of values that can be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexType {
    /// Truth values.
    Bool,
    /// Integers of 64 bits.
    Integer,
    /// Text of any encoding.
    String,
    /// Blobs of any content.
    Blob,
    /// Doubles, with both zeros as one value.
    Float,
    /// GeoJSON, by cells: only in components declared so with
    /// [`IndexComponent::of_type`](super::IndexComponent::of_type).
    GeoJson,
}

impl IndexType {
    /// Returns the type of a stored value; `None` if its type cannot be indexed.
    pub(crate) const fn of(kind: ParticleType) -> Option<Self> {
        Some(match kind {
            ParticleType::Bool => Self::Bool,
            ParticleType::Integer => Self::Integer,
            ParticleType::String => Self::String,
            ParticleType::Blob => Self::Blob,
            ParticleType::Float => Self::Float,
            ParticleType::GeoJson => Self::GeoJson,
            _ => return None,
        })
    }
}

/// Appends the form of a value. Returns `false`, appending nothing, if its type cannot be indexed.
pub(crate) fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    match value {
        ValueRef::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(value)]),
        ValueRef::Int(value) => write_int(value, out),
        ValueRef::Float(value) => {
            out.push(FLOAT);
            out.extend_from_slice(&float_bits(value).to_be_bytes());
        }
        ValueRef::String(text) => write_bytes(STRING, text.as_bytes(), out),
        ValueRef::Blob(bytes) => write_bytes(BLOB, bytes, out),
        _ => return false,
    }
    true
}

/// Returns the form of a value to search for; `None` if its type cannot be indexed.
pub(crate) fn form_of(value: &Value) -> Option<Vec<u8>> {
    let mut form = Vec::new();
    let value = match value {
        Value::Bool(value) => ValueRef::Bool(*value),
        Value::Int(value) => ValueRef::Int(*value),
        Value::Float(value) => ValueRef::Float(*value),
        Value::String(text) => ValueRef::String(text),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
        _ => return None,
    };
    write_value(value, &mut form).then_some(form)
}

/// Appends the form of a stored value. Text need not be UTF-8. Returns `false` if its type cannot
/// be indexed.
pub(crate) fn write_stored(kind: ParticleType, stored: &[u8], out: &mut Vec<u8>) -> bool {
    match kind {
        ParticleType::String => write_bytes(STRING, stored, out),
        ParticleType::Blob => write_bytes(BLOB, stored, out),
        ParticleType::Bool | ParticleType::Integer | ParticleType::Float => {
            let value = ValueRef::stored(kind, stored);
            return value.is_ok_and(|value| write_value(value, out));
        }
        _ => return false,
    }
    true
}

/// Returns the common prefix, in an index, of all texts or blobs that begin with `prefix`; `None`
/// for other values.
pub(crate) fn form_of_prefix(prefix: &Value) -> Option<Vec<u8>> {
    let mut form = match prefix {
        Value::String(_) | Value::Blob(_) => form_of(prefix)?,
        _ => return None,
    };
    form.pop();
    Some(form)
}

/// Returns the prefix shared by all forms of this form's type.
pub(crate) fn type_of_form(form: &[u8]) -> Option<&[u8]> {
    form.get(..1)
}

/// The kinds of geometry entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeometryKey {
    Point = 1,
    Region = 2,
}

/// Returns the form of a geometry's cell.
pub(crate) fn geometry_key(kind: GeometryKey, cell: u64) -> Vec<u8> {
    let mut form = vec![GEOMETRY, kind as u8];
    form.extend_from_slice(&cell.to_be_bytes());
    form
}

/// Returns the number by which a form of an integer or a cell sorts; `None` for other types.
#[cfg(feature = "server")]
pub(crate) fn order_of_form(form: &[u8]) -> Option<u64> {
    match form {
        [INTEGER, bits @ ..] | [GEOMETRY, _, bits @ ..] => {
            bits.try_into().ok().map(u64::from_be_bytes)
        }
        _ => None,
    }
}

fn write_int(value: i64, out: &mut Vec<u8>) {
    out.reserve(1 + size_of::<i64>() + Digest::LEN);
    out.push(INTEGER);
    let bits = value.cast_unsigned() ^ 1 << 63;
    out.extend_from_slice(&bits.to_be_bytes());
}

/// Returns the length of the first value's form; `None` if the bytes do not begin with a whole
/// form.
fn form_len(bytes: &[u8]) -> Option<usize> {
    let len = match *bytes.first()? {
        BOOL => 2,
        INTEGER | FLOAT => 1 + size_of::<u64>(),
        GEOMETRY => 2 + size_of::<u64>(),
        _ => 1 + bytes.iter().position(|byte| *byte == END)?,
    };
    (len <= bytes.len()).then_some(len)
}

/// Returns how long the first forms of an entry are together; `None` if it has fewer.
pub(crate) fn forms_len(bytes: &[u8], count: usize) -> Option<usize> {
    (0..count).try_fold(0, |at, _| Some(at + form_len(bytes.get(at..)?)?))
}

/// Returns bits that sort like doubles, NaN above all.
fn float_bits(value: f64) -> u64 {
    let value = match value {
        _ if value == 0.0 => 0.0,
        _ if value.is_nan() => f64::NAN.abs(),
        value => value,
    };
    let bits = value.to_bits();
    match bits >> 63 {
        0 => bits ^ 1 << 63,
        _ => !bits,
    }
}

/// Returns whether a byte needs escaping: 0 or 1. Checks eight bytes at a time.
fn has_escapes(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks::<8>();
    // Subtracting 2 borrows into the highest bit of the lowest byte below 2; without such a byte,
    // of none.
    let is_below_two = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word.wrapping_sub(ONES * u64::from(ESCAPE + 1)) & !word & (ONES << 7) != 0
    };
    words.iter().any(is_below_two) || rest.iter().any(|byte| *byte <= ESCAPE)
}

fn write_bytes(number: u8, mut bytes: &[u8], out: &mut Vec<u8>) {
    // The digest or another component usually follows.
    out.reserve(bytes.len() + 2 + Digest::LEN);
    out.push(number);
    let has_escapes = has_escapes(bytes);
    while has_escapes && let Some(at) = bytes.iter().position(|byte| *byte <= ESCAPE) {
        let (plain, rest) = bytes.split_at(at);
        out.extend_from_slice(plain);
        if let [escaped, behind @ ..] = rest {
            out.extend_from_slice(&[ESCAPE, escaped + 1]);
            bytes = behind;
        }
    }
    out.extend_from_slice(bytes);
    out.push(END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            (-3_i64..3).prop_map(Value::Int),
            any::<f64>().prop_map(Value::Float),
            "[\u{0}\u{1}\u{2}a]{0,4}".prop_map(Value::String),
            "[\u{1}\u{2}\u{7f}a]{0,20}".prop_map(Value::String),
            prop::collection::vec(0_u8..4, 0..4).prop_map(Value::Blob),
        ]
    }

    fn encoded(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        crate::value::encode(value, crate::value::EncodePurpose::Lookup, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn forms_stand_in_the_order_of_values(one in scalar(), other in scalar()) {
            let order = crate::value::order::compare_total(&encoded(&one), &encoded(&other));
            let (one, other) = (form_of(&one).unwrap(), form_of(&other).unwrap());
            prop_assert_eq!(one.cmp(&other), order);
            // No form is a prefix of another one, so components can be concatenated.
            prop_assert!(one == other || !one.starts_with(&other));
        }

        #[test]
        fn texts_with_a_prefix_have_its_form(prefix in "[\u{0}\u{1}ab]{0,3}", text in "[\u{0}\u{1}ab]{0,4}") {
            let begins = form_of(&text.as_str().into()).unwrap()
                .starts_with(&form_of_prefix(&prefix.as_str().into()).unwrap());
            prop_assert_eq!(begins, text.starts_with(&prefix));
        }
    }
}
