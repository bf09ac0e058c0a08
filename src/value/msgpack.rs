//! MessagePack, byte by byte: reading one token, stepping over one element, writing headers and
//! scalars.
//!
//! Aerospike's dialect: strings, blobs and the like are all of the `str` family, their first
//! payload byte being the particle type ([`SUBTYPE_STRING`] and so on); an extension as the first
//! element of a list or the first key of a map carries the container's flags; the extensions of
//! type [`EXT_SPECIAL`] are the wildcard and the infinity of lookups.

use super::CodecError;

/// First payload byte of a text.
pub(crate) const SUBTYPE_STRING: u8 = 3;
/// First payload byte of bytes.
pub(crate) const SUBTYPE_BLOB: u8 = 4;
/// First payload byte of a HyperLogLog sketch.
pub(crate) const SUBTYPE_HLL: u8 = 18;
/// First payload byte of GeoJSON text.
pub(crate) const SUBTYPE_GEOJSON: u8 = 23;

/// The extension type of wildcard and infinity.
pub(crate) const EXT_SPECIAL: u8 = 0xff;
/// The wildcard, encoded: equal to anything.
pub(crate) const WILDCARD: [u8; 3] = [0xd4, EXT_SPECIAL, 0x00];
/// The infinity, encoded: greater than anything.
pub(crate) const INFINITY: [u8; 3] = [0xd4, EXT_SPECIAL, 0x01];

/// A scalar, or the header of a container; the container's elements follow as further tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    /// An unsigned integer above `i64::MAX`.
    BigInt(u64),
    Float32(f32),
    Float(f64),
    /// The payload of a `str` or `bin`, subtype byte included.
    Raw(&'a [u8]),
    Array(u32),
    Map(u32),
    Ext(u8, &'a [u8]),
}

impl Token<'_> {
    /// Returns whether a map can be stored with this key: an integer, a string or a blob.
    pub(crate) fn is_key(&self) -> bool {
        match self {
            Self::Int(_) | Self::BigInt(_) => true,
            Self::Raw(raw) => matches!(raw.first(), Some(&SUBTYPE_STRING | &SUBTYPE_BLOB)),
            _ => false,
        }
    }
}

/// Reads tokens from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenReader<'a> {
    rest: &'a [u8],
}

impl<'a> TokenReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the unread bytes.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], CodecError> {
        let (front, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(front)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*front)
    }

    fn u8(&mut self) -> Result<u8, CodecError> {
        self.chunk().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, CodecError> {
        self.chunk().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, CodecError> {
        self.chunk().map(u32::from_be_bytes)
    }

    fn raw(&mut self, len: usize) -> Result<Token<'a>, CodecError> {
        self.take(len).map(Token::Raw)
    }

    fn ext(&mut self, len: usize) -> Result<Token<'a>, CodecError> {
        let kind = self.u8()?;
        Ok(Token::Ext(kind, self.take(len)?))
    }

    /// # Errors
    /// If bytes are left.
    pub(crate) const fn end(&self) -> Result<(), CodecError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(CodecError::TrailingBytes(left)),
        }
    }

    /// Takes the next token if it is an integer of one byte.
    #[inline]
    pub(crate) fn small_int(&mut self) -> Option<i64> {
        match self.rest {
            [first @ 0..=0x7f, rest @ ..] => {
                self.rest = rest;
                Some(i64::from(*first))
            }
            _ => None,
        }
    }

    /// Takes the next token if it is an unsigned integer of up to 32 bits.
    #[inline]
    pub(crate) fn unsigned_int(&mut self) -> Option<i64> {
        let (value, rest) = match self.rest {
            [first @ 0..=0x7f, rest @ ..] => (u32::from(*first), rest),
            [0xcc, a, rest @ ..] => (u32::from(*a), rest),
            [0xcd, a, b, rest @ ..] => (u32::from(u16::from_be_bytes([*a, *b])), rest),
            [0xce, a, b, c, d, rest @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]), rest),
            _ => return None,
        };
        self.rest = rest;
        Some(i64::from(value))
    }

    /// Takes the next token.
    pub(crate) fn token(&mut self) -> Result<Token<'a>, CodecError> {
        let first = self.u8()?;
        Ok(match first {
            0x00..=0x7f => Token::Int(i64::from(first)),
            0x80..=0x8f => Token::Map(u32::from(first & 0x0f)),
            0x90..=0x9f => Token::Array(u32::from(first & 0x0f)),
            0xa0..=0xbf => return self.raw(usize::from(first & 0x1f)),
            0xc0 => Token::Nil,
            0xc1 => return Err(CodecError::UnknownByte(first)),
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            // Clients write `bin` or `str`: the type is the first byte of the content.
            0xc4 | 0xd9 => {
                let len = self.u8()?;
                return self.raw(usize::from(len));
            }
            0xc5 | 0xda => {
                let len = self.u16()?;
                return self.raw(usize::from(len));
            }
            0xc6 | 0xdb => {
                let len = self.u32()?;
                return self.raw(len as usize);
            }
            0xc7 => {
                let len = self.u8()?;
                return self.ext(usize::from(len));
            }
            0xc8 => {
                let len = self.u16()?;
                return self.ext(usize::from(len));
            }
            0xc9 => {
                let len = self.u32()?;
                return self.ext(len as usize);
            }
            0xca => Token::Float32(f32::from_be_bytes(self.chunk()?)),
            0xcb => Token::Float(f64::from_be_bytes(self.chunk()?)),
            0xcc => Token::Int(i64::from(self.u8()?)),
            0xcd => Token::Int(i64::from(self.u16()?)),
            0xce => Token::Int(i64::from(self.u32()?)),
            0xcf => {
                let value = u64::from_be_bytes(self.chunk()?);
                i64::try_from(value).map_or(Token::BigInt(value), Token::Int)
            }
            0xd0 => Token::Int(i64::from(i8::from_be_bytes(self.chunk()?))),
            0xd1 => Token::Int(i64::from(i16::from_be_bytes(self.chunk()?))),
            0xd2 => Token::Int(i64::from(i32::from_be_bytes(self.chunk()?))),
            0xd3 => Token::Int(i64::from_be_bytes(self.chunk()?)),
            0xd4..=0xd8 => return self.ext(1 << (first - 0xd4)),
            0xdc => Token::Array(u32::from(self.u16()?)),
            0xdd => Token::Array(self.u32()?),
            0xde => Token::Map(u32::from(self.u16()?)),
            0xdf => Token::Map(self.u32()?),
            0xe0..=0xff => Token::Int(i64::from(first.cast_signed())),
        })
    }

    /// Skips one element of any type, without recursion, and returns its bytes.
    #[inline]
    pub(crate) fn element(&mut self) -> Result<&'a [u8], CodecError> {
        let len = element_len(self.rest)?;
        self.take(len)
    }
}

/// The length of an element by its first byte; 0 where that does not determine it. Walks over lists
/// spend most of their time here.
const LENGTHS: [u8; 256] = {
    let mut lengths = [0; 256];
    let mut first = 0;
    while first < lengths.len() {
        #[expect(
            clippy::indexing_slicing,
            reason = "bounded by the length, at compile time"
        )]
        let slot = &mut lengths[first];
        *slot = match first as u8 {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            raw @ 0xa0..=0xbf => 1 + (raw & 0x1f),
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xca | 0xce | 0xd2 => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => 0,
        };
        first += 1;
    }
    lengths
};

/// Returns the length in bytes of the element at the front of `bytes`. O(bytes of the element), no
/// recursion. Fails at once for a container that claims more elements than bytes remain.
#[inline]
pub(crate) fn element_len(bytes: &[u8]) -> Result<usize, CodecError> {
    let len = bytes
        .first()
        .and_then(|first| LENGTHS.get(usize::from(*first)));
    match len.map(|len| usize::from(*len)) {
        Some(len @ 1..) if len <= bytes.len() => Ok(len),
        _ => other_element_len(bytes),
    }
}

/// The slow path of [`element_len`], not inlined so that the fast path is.
#[inline(never)]
fn other_element_len(bytes: &[u8]) -> Result<usize, CodecError> {
    let mut at = 0_usize;
    let mut pending = 1_u64;
    while pending > 0 {
        let rest = bytes.get(at..).ok_or(CodecError::Truncated)?;
        if pending > rest.len() as u64 {
            return Err(CodecError::Truncated);
        }
        let (len, children) = extent(rest)?;
        at = at.saturating_add(len);
        pending = pending - 1 + children;
    }
    if at <= bytes.len() {
        Ok(at)
    } else {
        Err(CodecError::Truncated)
    }
}

/// Returns the length of the token at the front (header and payload), and the number of child
/// elements that follow it.
#[inline]
fn extent(bytes: &[u8]) -> Result<(usize, u64), CodecError> {
    let (&first, tail) = bytes.split_first().ok_or(CodecError::Truncated)?;
    Ok(match first {
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (1, 0),
        0x80..=0x8f => (1, 2 * u64::from(first & 0x0f)),
        0x90..=0x9f => (1, u64::from(first & 0x0f)),
        0xa0..=0xbf => (1 + usize::from(first & 0x1f), 0),
        0xc1 => return Err(CodecError::UnknownByte(first)),
        0xcc | 0xd0 => (2, 0),
        0xcd | 0xd1 => (3, 0),
        0xca | 0xce | 0xd2 => (5, 0),
        0xcb | 0xcf | 0xd3 => (9, 0),
        0xc4 | 0xd9 => (2 + usize::from(be8(tail)?), 0),
        0xc5 | 0xda => (3 + usize::from(be16(tail)?), 0),
        0xc6 | 0xdb => ((be32(tail)? as usize).saturating_add(5), 0),
        0xc7 => (3 + usize::from(be8(tail)?), 0),
        0xc8 => (4 + usize::from(be16(tail)?), 0),
        0xc9 => ((be32(tail)? as usize).saturating_add(6), 0),
        0xd4..=0xd8 => (2 + (1 << (first - 0xd4)), 0),
        0xdc => (3, u64::from(be16(tail)?)),
        0xdd => (5, u64::from(be32(tail)?)),
        0xde => (3, 2 * u64::from(be16(tail)?)),
        0xdf => (5, 2 * u64::from(be32(tail)?)),
    })
}

fn be8(bytes: &[u8]) -> Result<u8, CodecError> {
    bytes.first().copied().ok_or(CodecError::Truncated)
}

fn be16(bytes: &[u8]) -> Result<u16, CodecError> {
    bytes
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
        .ok_or(CodecError::Truncated)
}

fn be32(bytes: &[u8]) -> Result<u32, CodecError> {
    bytes
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
        .ok_or(CodecError::Truncated)
}

/// Returns the integer at the front of `bytes`; `None` for another type, a truncated integer, or
/// one above `i64::MAX`. The fast path of searches and comparisons.
#[inline]
pub(crate) fn front_int(bytes: &[u8]) -> Option<i64> {
    let (&first, tail) = bytes.split_first()?;
    if first <= 0x7f {
        return Some(i64::from(first));
    }
    Some(match first {
        0xe0..=0xff => i64::from(first.cast_signed()),
        0xcc => i64::from(*tail.first()?),
        0xcd => i64::from(u16::from_be_bytes(*tail.first_chunk()?)),
        0xce => i64::from(u32::from_be_bytes(*tail.first_chunk()?)),
        0xcf => i64::try_from(u64::from_be_bytes(*tail.first_chunk()?)).ok()?,
        0xd0 => i64::from(i8::from_be_bytes(*tail.first_chunk()?)),
        0xd1 => i64::from(i16::from_be_bytes(*tail.first_chunk()?)),
        0xd2 => i64::from(i32::from_be_bytes(*tail.first_chunk()?)),
        0xd3 => i64::from_be_bytes(*tail.first_chunk()?),
        _ => return None,
    })
}

/// Returns the payload of the text or blob at the front, subtype byte included, if it has at most
/// 255 bytes; `None` otherwise.
#[inline]
pub(crate) fn front_short_raw(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [first @ 0xa0..=0xbf, payload @ ..] => payload.get(..usize::from(first & 0x1f)),
        [0xd9, len, payload @ ..] => payload.get(..usize::from(*len)),
        _ => None,
    }
}

pub(crate) fn write_int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&EncodedInt::of(value));
}

/// An encoded integer.
pub(crate) struct EncodedInt {
    bytes: [u8; 9],
    len: usize,
}

impl EncodedInt {
    #[inline]
    pub(crate) fn of(value: i64) -> Self {
        let (prefix, width) = match value {
            -0x20..=0x7f => {
                return Self {
                    bytes: [value as u8, 0, 0, 0, 0, 0, 0, 0, 0],
                    len: 1,
                };
            }
            0x80..=0xff => (0xcc, 1),
            0x100..=0xffff => (0xcd, 2),
            0x1_0000..=0xffff_ffff => (0xce, 4),
            0x1_0000_0000.. => (0xcf, 8),
            -0x80..=-0x21 => (0xd0, 1),
            -0x8000..=-0x81 => (0xd1, 2),
            -0x8000_0000..=-0x8001 => (0xd2, 4),
            _ => (0xd3, 8),
        };
        let [a, b, c, d, e, f, g, h] = (value << (64 - 8 * width)).to_be_bytes();
        Self {
            bytes: [prefix, a, b, c, d, e, f, g, h],
            len: 1 + width,
        }
    }
}

impl std::ops::Deref for EncodedInt {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

pub(crate) fn write_uint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0x7f => out.push(value as u8),
        0x80..=0xff => prefixed(out, 0xcc, (value as u8).to_be_bytes()),
        0x100..=0xffff => prefixed(out, 0xcd, (value as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => prefixed(out, 0xce, (value as u32).to_be_bytes()),
        _ => prefixed(out, 0xcf, value.to_be_bytes()),
    }
}

pub(crate) fn write_float(out: &mut Vec<u8>, value: f64) {
    prefixed(out, 0xcb, value.to_be_bytes());
}

pub(crate) fn write_float32(out: &mut Vec<u8>, value: f32) {
    prefixed(out, 0xca, value.to_be_bytes());
}

/// Writes the header of a raw value with a payload of `len` bytes, subtype byte included.
pub(crate) fn write_raw_header(out: &mut Vec<u8>, len: usize) -> Result<(), CodecError> {
    match len {
        0..=0x1f => out.push(0xa0 | len as u8),
        0x20..=0xff => prefixed(out, 0xd9, (len as u8).to_be_bytes()),
        0x100..=0xffff => prefixed(out, 0xda, (len as u16).to_be_bytes()),
        _ => prefixed(
            out,
            0xdb,
            u32::try_from(len)
                .map_err(|_| CodecError::TooLong)?
                .to_be_bytes(),
        ),
    }
    Ok(())
}

pub(crate) fn write_array_header(out: &mut Vec<u8>, count: u32) {
    match count {
        0..=0x0f => out.push(0x90 | count as u8),
        0x10..=0xffff => prefixed(out, 0xdc, (count as u16).to_be_bytes()),
        _ => prefixed(out, 0xdd, count.to_be_bytes()),
    }
}

pub(crate) fn write_map_header(out: &mut Vec<u8>, pairs: u32) {
    match pairs {
        0..=0x0f => out.push(0x80 | pairs as u8),
        0x10..=0xffff => prefixed(out, 0xde, (pairs as u16).to_be_bytes()),
        _ => prefixed(out, 0xdf, pairs.to_be_bytes()),
    }
}

/// Writes the header of an extension that carries a container's flags; `len` bytes of index data
/// follow.
pub(crate) fn write_flags_header(out: &mut Vec<u8>, flags: u8, len: u32) {
    match len {
        0..=0xff => prefixed(out, 0xc7, (len as u8).to_be_bytes()),
        0x100..=0xffff => prefixed(out, 0xc8, (len as u16).to_be_bytes()),
        _ => prefixed(out, 0xc9, len.to_be_bytes()),
    }
    out.push(flags);
}

/// Returns the number of bytes that [`write_array_header`] writes.
pub(crate) const fn array_header_len(count: u32) -> usize {
    match count {
        0..=0x0f => 1,
        0x10..=0xffff => 3,
        _ => 5,
    }
}

/// Returns the number of bytes that [`write_flags_header`] writes.
pub(crate) const fn flags_header_len(len: u32) -> usize {
    match len {
        0..=0xff => 3,
        0x100..=0xffff => 4,
        _ => 6,
    }
}

fn prefixed<const N: usize>(out: &mut Vec<u8>, first: u8, bytes: [u8; N]) {
    out.push(first);
    out.extend_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_take_the_shortest_form() {
        let table: [(i64, usize); 16] = [
            (0, 1),
            (127, 1),
            (128, 2),
            (255, 2),
            (256, 3),
            (65_535, 3),
            (65_536, 5),
            (u32::MAX as i64, 5),
            (u32::MAX as i64 + 1, 9),
            (i64::MAX, 9),
            (-32, 1),
            (-33, 2),
            (-129, 3),
            (-32_769, 5),
            (-2_147_483_649, 9),
            (i64::MIN, 9),
        ];
        for (value, len) in table {
            let mut out = Vec::new();
            write_int(&mut out, value);
            assert_eq!(out.len(), len, "{value}");
            assert_eq!(front_int(&out), Some(value));
            assert_eq!(TokenReader::new(&out).token(), Ok(Token::Int(value)));
        }
    }

    #[test]
    fn a_four_gigabyte_length_is_an_error_and_not_an_allocation() {
        let hostile: [&[u8]; 6] = [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            &[0xdb, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            &[0xc9, 0xff, 0xff, 0xff, 0xff, 1, 2, 3],
            &[0xc1],
        ];
        for bytes in hostile {
            assert!(element_len(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn stepping_over_ten_thousand_levels_needs_no_stack() {
        let mut bytes = vec![0x91; 10_000];
        bytes.push(0xc0);
        assert_eq!(element_len(&bytes), Ok(10_001));
        bytes.pop();
        assert_eq!(element_len(&bytes), Err(CodecError::Truncated));
    }

    proptest! {
        #[test]
        fn stepping_over_an_element_agrees_with_reading_its_tokens(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = TokenReader::new(&bytes);
            let mut pending = 1_u64;
            let mut read = Ok(());
            while pending > 0 && read.is_ok() {
                pending -= 1;
                match reader.token() {
                    Ok(Token::Array(count)) => pending += u64::from(count),
                    Ok(Token::Map(count)) => pending += 2 * u64::from(count),
                    Ok(_) => {}
                    Err(_) => read = Err(()),
                }
            }
            let stepped = element_len(&bytes);
            prop_assert_eq!(stepped.is_ok(), read.is_ok());
            if let Ok(len) = stepped {
                prop_assert_eq!(len, bytes.len() - reader.rest().len());
            }
        }
    }
}
