//! The body of a stored record, byte by byte.
//!
//! ```text
//! body  = bin_count: varint, then bin_count times bin
//! bin   = name_len: u8 (0..=15), name: name_len bytes of UTF-8,
//!         type: u8 (Aerospike's number, never 0),
//!         value_len: varint, value: value_len bytes
//! ```
//!
//! A varint is LEB128: seven bits a byte, the lowest first, the high bit set on all but the last;
//! at most [`MAX_VARINT_BYTES`], and written as short as it goes. `value::stored` has the forms of
//! values. Bins stand in the order of their creation; no two have the same name. Example: the one
//! bin `a` = 5 is `01 01 61 01 01 05`.

use super::{BinName, MAX_BINS};
use crate::Error;
use crate::value::{CodecError, ParticleType, Value, check_stored, write_stored};

/// The longest varint in bytes: 32 bits of length, more than any record has.
pub(crate) const MAX_VARINT_BYTES: usize = 5;

/// One bin of a body, undecoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawBin<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: ParticleType,
    pub(crate) value: &'a [u8],
    /// The whole bin, to be copied as it is.
    pub(crate) bytes: &'a [u8],
}

impl RawBin<'_> {
    /// The bin's name.
    pub(crate) fn bin_name(&self) -> BinName {
        // Views are checked when they are parsed, so the default is never taken.
        BinName::from_utf8(self.name).unwrap_or(BinName::EMPTY)
    }
}

/// Reads the bin at the front of `bytes` and moves behind it.
#[inline]
pub(crate) fn read_bin<'a>(bytes: &mut &'a [u8]) -> Result<RawBin<'a>, CodecError> {
    let all = *bytes;
    let (name, kind, value) = read_frame(bytes)?;
    Ok(RawBin {
        name,
        kind: ParticleType::from_number(kind)?,
        value,
        bytes: all.get(..all.len() - bytes.len()).unwrap_or_default(),
    })
}

/// Reads the bin at the front of `bytes` as [`read_bin`] does, with its type as a number, for
/// callers that need only the bin's place.
#[inline(always)]
pub(super) fn read_frame<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], u8, &'a [u8]), CodecError> {
    let (&name_len, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
    let (name, rest) = rest
        .split_at_checked(usize::from(name_len))
        .ok_or(CodecError::Truncated)?;
    let (&kind, mut rest) = rest.split_first().ok_or(CodecError::Truncated)?;
    let len = read_varint(&mut rest)? as usize;
    let (value, rest) = rest.split_at_checked(len).ok_or(CodecError::Truncated)?;
    *bytes = rest;
    Ok((name, kind, value))
}

/// Checks the parts that [`read_bin`] skips: the name's bytes, and that the type allows the value's
/// form.
#[inline]
pub(crate) fn check_bin(bin: &RawBin<'_>) -> Result<(), CodecError> {
    if !BinName::is_legal(bin.name) {
        return Err(CodecError::BinName);
    }
    check_stored(bin.kind, bin.value)
}

/// Reads a varint and moves behind it.
#[inline]
pub(crate) fn read_varint(bytes: &mut &[u8]) -> Result<u32, CodecError> {
    if let Some((&byte @ 0..0x80, rest)) = bytes.split_first() {
        *bytes = rest;
        return Ok(u32::from(byte));
    }
    read_long_varint(bytes)
}

fn read_long_varint(bytes: &mut &[u8]) -> Result<u32, CodecError> {
    let mut value = 0_u64;
    for shift in 0..MAX_VARINT_BYTES {
        let (&byte, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            return u32::try_from(value).map_err(|_| CodecError::TooLong);
        }
    }
    Err(CodecError::TooLong)
}

/// Appends a varint.
#[inline]
pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The length of the varint of `value` in bytes.
pub(crate) const fn varint_len(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}

/// A length that a varint can say.
pub(crate) fn checked_len(len: usize) -> Result<u32, CodecError> {
    u32::try_from(len).map_err(|_| CodecError::TooLong)
}

/// Appends the head of a bin; `value_len` bytes of value must follow.
#[inline(always)]
pub(crate) fn write_bin_head(
    out: &mut Vec<u8>,
    name: &BinName,
    kind: ParticleType,
    value_len: u32,
) {
    write_name(out, name);
    if value_len < 0x80 {
        out.extend_from_slice(&[kind.number(), value_len as u8]);
    } else {
        out.push(kind.number());
        write_varint(out, value_len);
    }
}

#[inline]
fn write_name(out: &mut Vec<u8>, name: &BinName) {
    let end = out.len() + 1 + name.as_bytes().len();
    // Whole, then cut: a copy of a known length takes no call.
    out.extend_from_slice(name.with_length());
    out.truncate(end);
}

/// Appends a bin with a value in its stored form.
#[inline]
pub(crate) fn write_raw_bin(
    out: &mut Vec<u8>,
    name: &BinName,
    kind: ParticleType,
    value: &[u8],
) -> Result<(), CodecError> {
    let len = checked_len(value.len())?;
    write_bin_head(out, name, kind, len);
    out.extend_from_slice(value);
    Ok(())
}

/// Appends a bin. `value` must not be `Nil`, which no bin holds.
#[inline]
pub(crate) fn write_bin(
    out: &mut Vec<u8>,
    name: &BinName,
    value: &Value,
) -> Result<(), CodecError> {
    let (kind, bytes): (_, &[u8]) = match value {
        Value::String(text) => (ParticleType::String, text.as_bytes()),
        Value::Blob(bytes) => (ParticleType::Blob, bytes),
        _ => return write_bin_of_unknown_len(out, name, value),
    };
    write_raw_bin(out, name, kind, bytes)
}

/// Writes the value behind a one-byte length, and makes room for a longer length where it turns out
/// to need one.
fn write_bin_of_unknown_len(
    out: &mut Vec<u8>,
    name: &BinName,
    value: &Value,
) -> Result<(), CodecError> {
    write_name(out, name);
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    let kind = write_stored(value, out)?;
    let (head, end) = (at + 2, out.len());
    let len = checked_len(end - head)?;
    if let (0..0x80, Some(slots)) = (len, out.get_mut(at..head)) {
        slots.copy_from_slice(&[kind.number(), len as u8]);
        return Ok(());
    }
    let extra = varint_len(len) - 1;
    out.resize(end + extra, 0);
    out.copy_within(head..end, head + extra);
    let mut slots = out.iter_mut().skip(at);
    if let Some(slot) = slots.next() {
        *slot = kind.number();
    }
    let mut left = len;
    for (index, slot) in slots.take(extra + 1).enumerate() {
        *slot = (left & 0x7f) as u8 | if index < extra { 0x80 } else { 0 };
        left >>= 7;
    }
    Ok(())
}

/// A number of bins that a record may have.
pub(crate) fn checked_bin_count(count: usize) -> Result<u32, Error> {
    u32::try_from(count).ok().filter(|_| count <= MAX_BINS).ok_or_else(|| {
        Error::parameter(format!(
            "the record would have {count} bins, the limit is {MAX_BINS}: use fewer bins, or a map bin"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::decode;

    #[test]
    fn varints_are_as_short_as_they_go() {
        let table: [(u32, &[u8]); 7] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x80, 0x80, 1]),
            (1 << 28, &[0x80, 0x80, 0x80, 0x80, 1]),
            (u32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ];
        for (value, bytes) in table {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!(
                (out.as_slice(), varint_len(value)),
                (bytes, bytes.len()),
                "{value}"
            );
            let mut rest = bytes;
            assert_eq!(read_varint(&mut rest), Ok(value));
            assert!(rest.is_empty());
        }
        for bytes in [
            &[0x80][..],
            &[],
            &[0xff; 5],
            &[0xff, 0xff, 0xff, 0xff, 0x10],
        ] {
            assert!(read_varint(&mut { bytes }).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn a_bin_has_these_bytes() {
        let name = BinName::new("a").unwrap();
        let mut out = Vec::new();
        write_bin(&mut out, &name, &5.into()).unwrap();
        assert_eq!(out, [1, b'a', 1, 1, 5]);
    }

    #[test]
    fn a_list_finds_room_for_its_length_whatever_that_is() {
        let name = BinName::new("l").unwrap();
        for count in [0, 125, 126, 127, 128, 16_379, 16_380, 16_381, 20_000] {
            let list = Value::List(vec![Value::Int(1); count].into());
            let mut out = vec![7];
            write_bin(&mut out, &name, &list).unwrap();
            let mut rest = &out[1..];
            let bin = read_bin(&mut rest).unwrap();
            assert!(rest.is_empty());
            assert_eq!(decode(bin.value).unwrap(), list);
        }
    }
}
