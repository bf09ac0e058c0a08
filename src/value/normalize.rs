//! Normalizing a client's bytes. All other code relies on the normal form.
//!
//! Shortest headers; `bin` becomes `str`; maps sorted by key; containers flagged as ordered are
//! verified; index data is dropped, and below the top level its flag, too; wildcard, infinity,
//! illegal keys and repeated keys are refused.

use super::container::Container;
use super::encode::{Spans, write_head};
use super::msgpack::{
    EXT_SPECIAL, INFINITY, Token, TokenReader, WILDCARD, write_float, write_float32, write_int,
    write_raw_header, write_uint,
};
use super::{CodecError, EncodePurpose, FLAG_ORDERED, FLAG_PERSIST_INDEX, ItemShape, ParticleType};

/// Appends the normal form of the list or map (`kind`) in `bytes` to `out`. The flag for a
/// persisted index stays; its data is left out.
pub(super) fn particle(
    kind: ParticleType,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut reader = TokenReader::new(bytes);
    let head = ItemShape::of_token(&reader.token()?);
    match head.filter(|(shape, _)| shape.kind() == kind) {
        Some(head) => container(head, &mut reader, EncodePurpose::Storage, out, 0)?,
        None => return Err(CodecError::NotAContainer),
    }
    reader.end()
}

/// Appends the normal form of the single element in `bytes` to `out`.
pub(crate) fn element_of_call(
    bytes: &[u8],
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let mut reader = TokenReader::new(bytes);
    element(&mut reader, purpose, out, 1)?;
    reader.end()
}

fn element(
    reader: &mut TokenReader<'_>,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), CodecError> {
    let before = *reader;
    let token = reader.token()?;
    if let Some(head) = ItemShape::of_token(&token) {
        return container(head, reader, purpose, out, depth);
    }
    match token {
        Token::Nil => out.push(0xc0),
        Token::Bool(value) => out.push(0xc2 + u8::from(value)),
        Token::Int(value) => write_int(out, value),
        Token::BigInt(value) => write_uint(out, value),
        Token::Float32(value) => write_float32(out, value),
        Token::Float(value) => write_float(out, value),
        Token::Raw(raw) => {
            write_raw_header(out, raw.len())?;
            out.extend_from_slice(raw);
        }
        Token::Ext(EXT_SPECIAL, _) if purpose == EncodePurpose::Storage => {
            return Err(CodecError::NotStorable);
        }
        Token::Ext(EXT_SPECIAL, [0]) => out.extend_from_slice(&WILDCARD),
        Token::Ext(EXT_SPECIAL, [1]) => out.extend_from_slice(&INFINITY),
        // A stored extension could not be read back.
        Token::Ext(kind, _) if purpose == EncodePurpose::Storage => {
            return Err(CodecError::UnknownExtension(kind));
        }
        Token::Ext(..) | Token::Array(_) | Token::Map(_) => {
            let len = before.rest().len() - reader.rest().len();
            out.extend_from_slice(before.rest().get(..len).unwrap_or_default());
        }
    }
    Ok(())
}

fn container(
    (shape, count): (ItemShape, u32),
    reader: &mut TokenReader<'_>,
    purpose: EncodePurpose,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<(), CodecError> {
    let head = Container::read(shape, count, *reader)?.enter(reader, depth)?;
    let below_the_top = if depth == 0 { 0 } else { FLAG_PERSIST_INDEX };
    let flags = shape.flags(head.flags.into()) & !below_the_top;
    write_head(shape, head.count as usize, flags, out)?;
    let stores = purpose == EncodePurpose::Storage;
    let mut spans = Spans::new(out.len());
    for _ in 0..head.count {
        if shape == ItemShape::Map {
            let mut ahead = *reader;
            if !ahead.token()?.is_key() && stores {
                return Err(CodecError::IllegalKey);
            }
            element(reader, purpose, out, depth + 1)?;
        }
        element(reader, purpose, out, depth + 1)?;
        spans.push(out.len());
    }
    // An unordered list keeps its order; a list flagged as ordered is refused rather than sorted.
    if stores && flags & FLAG_ORDERED != 0 && !spans.are_sorted(out) {
        return Err(CodecError::NotInOrder);
    }
    if shape == ItemShape::Map {
        // Maps of any kind are stored by key, so unordered ones are sorted here.
        spans.sort(out);
        if spans.has_equal_neighbours(out) {
            return Err(CodecError::DuplicateKey);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::any_value;
    use crate::value::{Value, write_stored};
    use proptest::prelude::*;

    /// The rule, the bytes sent, the bytes stored.
    type Row = (
        &'static str,
        &'static [u8],
        Result<&'static [u8], CodecError>,
    );

    fn normal(kind: ParticleType, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        let mut out = Vec::new();
        particle(kind, bytes, &mut out).map(|()| out)
    }

    #[test]
    fn lists_are_brought_into_normal_form() {
        let table: [Row; 13] = [
            (
                "integers shrink",
                &[0x92, 0xd3, 0, 0, 0, 0, 0, 0, 0, 5, 0xd0, 0xff],
                Ok(&[0x92, 5, 0xff]),
            ),
            (
                "headers shrink",
                &[0xdd, 0, 0, 0, 1, 0xdc, 0, 0],
                Ok(&[0x91, 0x90]),
            ),
            (
                "bin becomes str",
                &[0x91, 0xc4, 2, 4, 9],
                Ok(&[0x91, 0xa2, 4, 9]),
            ),
            (
                "float32 stays",
                &[0x91, 0xca, 0, 0, 0, 0],
                Ok(&[0x91, 0xca, 0, 0, 0, 0]),
            ),
            (
                "index data goes, its bit stays on top",
                &[0x93, 0xc7, 1, 0x11, 7, 1, 2],
                Ok(&[0x93, 0xc7, 0, 0x11, 1, 2]),
            ),
            (
                "the bit goes below",
                &[0x91, 0x92, 0xc7, 1, 0x11, 7, 1],
                Ok(&[0x91, 0x92, 0xc7, 0, 1, 1]),
            ),
            (
                "an ordered list must be in order",
                &[0x93, 0xc7, 0, 1, 2, 1],
                Err(CodecError::NotInOrder),
            ),
            (
                "duplicates are fine",
                &[0x93, 0xc7, 0, 1, 1, 1],
                Ok(&[0x93, 0xc7, 0, 1, 1, 1]),
            ),
            (
                "no wildcard",
                &[0x91, 0xd4, 0xff, 0],
                Err(CodecError::NotStorable),
            ),
            (
                "no infinity",
                &[0x91, 0xd4, 0xff, 1],
                Err(CodecError::NotStorable),
            ),
            (
                "no extension that nobody knows",
                &[0x92, 7, 0xd4, 0x05, 1],
                Err(CodecError::UnknownExtension(5)),
            ),
            (
                "nothing may follow",
                &[0x90, 1],
                Err(CodecError::TrailingBytes(1)),
            ),
            ("a map is no list", &[0x80], Err(CodecError::NotAContainer)),
        ];
        for (rule, bytes, expected) in table {
            assert_eq!(
                normal(ParticleType::List, bytes).as_deref(),
                expected.as_ref().copied(),
                "{rule}"
            );
        }
    }

    #[test]
    fn maps_are_brought_into_normal_form() {
        let table: [Row; 6] = [
            (
                "entries go by key",
                &[0x82, 2, 0xa1, 1, 1, 0xc0],
                Ok(&[0x82, 1, 0xc0, 2, 0xa1, 1]),
            ),
            (
                "ordered must be in order",
                &[0x83, 0xc7, 0, 1, 0xc0, 2, 0, 1, 0],
                Err(CodecError::NotInOrder),
            ),
            (
                "no key twice",
                &[0x82, 1, 0, 0xcc, 1, 0],
                Err(CodecError::DuplicateKey),
            ),
            (
                "no key of another type",
                &[0x81, 0xc3, 0],
                Err(CodecError::IllegalKey),
            ),
            (
                "no key of another subtype",
                &[0x81, 0xa1, 23, 0],
                Err(CodecError::IllegalKey),
            ),
            (
                "preserve-order is not stored",
                &[0x82, 0xc7, 0, 8, 0xc0, 1, 2],
                Ok(&[0x81, 1, 2]),
            ),
        ];
        for (rule, bytes, expected) in table {
            assert_eq!(
                normal(ParticleType::Map, bytes).as_deref(),
                expected.as_ref().copied(),
                "{rule}"
            );
        }
    }

    #[test]
    fn ten_thousand_levels_are_refused_not_recursed_into() {
        let mut bytes = vec![0x91; 10_000];
        bytes.push(0xc0);
        assert_eq!(normal(ParticleType::List, &bytes), Err(CodecError::TooDeep));
    }

    proptest! {
        #[test]
        fn normal_values_stay_as_they_are(value in any_value()) {
            let kind = if matches!(value, Value::Map(_)) { ParticleType::Map } else { ParticleType::List };
            let mut bytes = Vec::new();
            if matches!(value, Value::List(_) | Value::Map(_)) {
                write_stored(&value, &mut bytes).unwrap();
                prop_assert_eq!(normal(kind, &bytes), Ok(bytes));
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_become_normal(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            for kind in [ParticleType::List, ParticleType::Map] {
                if let Ok(once) = normal(kind, &bytes) {
                    prop_assert_eq!(normal(kind, &once), Ok(once));
                }
            }
        }
    }
}
