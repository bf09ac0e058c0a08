//! An entry of the log: a fixed header, then the body (`docs/format.md`).
//!
//! The head check is written last, so a header that a killed process left behind always has its
//! whole body.

use crate::bytes::{Varint, chunk, take, take_varint};
use crate::digest::Digest;
use crate::location::{Location, UNIT_BYTES};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Size of the fixed header in bytes.
pub(crate) const ENTRY_HEADER_BYTES: usize = 56;

/// How many bits a log sequence number has in a header; the generation has the other 16 of the
/// word.
pub(crate) const LSN_BITS: u32 = 48;
const LSN_MASK: u64 = (1 << LSN_BITS) - 1;
const LUT_BITS: u32 = 40;
const LUT_MASK: u64 = (1 << LUT_BITS) - 1;
const SPAN_MASK: u32 = (1 << 20) - 1;

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum EntryKind {
    /// A whole record.
    Record = 1,
    /// The record with this digest is deleted.
    Tombstone = 2,
    /// What a version of a record changes in the version before. See `image/delta.rs`.
    Delta = 3,
    /// The namespace's metadata: sets and truncations.
    Metadata = 4,
    /// Spans the rest of a block.
    Filler = 5,
    /// Stands for sequence numbers without a change, so that the numbers have no gap: the number of
    /// a truncation, or the numbers of an append that failed.
    Void = 6,
}

/// Whether an entry of this kind is a version of a record.
pub(crate) const fn is_version(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::Record | EntryKind::Tombstone | EntryKind::Delta
    )
}

impl EntryKind {
    pub(crate) const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Record),
            2 => Some(Self::Tombstone),
            3 => Some(Self::Delta),
            4 => Some(Self::Metadata),
            5 => Some(Self::Filler),
            6 => Some(Self::Void),
            _ => None,
        }
    }
}

/// The body begins with the user key.
pub(crate) const FLAG_KEYED: u8 = 1;
/// The entry with the next number belongs to the same group: both count, or neither.
pub(crate) const FLAG_HAS_NEXT: u8 = 2;
/// Older versions of the record may be of another set.
pub(crate) const FLAG_CHANGED_SET: u8 = 4;
/// A tombstone of an expired record.
pub(crate) const FLAG_EXPIRED: u8 = 8;
/// The entry with the number before belongs to the same group.
pub(crate) const FLAG_HAS_PREVIOUS: u8 = 16;
/// Defragmentation has copied a durable version, which keeps its number.
pub(crate) const FLAG_COPIED: u8 = 32;
/// An opening has appended an entry again that was not durable, with its number. It counts once its
/// place is durable; until then the original does.
pub(crate) const FLAG_REAPPENDED: u8 = 64;
/// Flags of an entry's place in the log, not of its record.
pub(crate) const FLAGS_OF_PLACE: u8 =
    FLAG_HAS_NEXT | FLAG_HAS_PREVIOUS | FLAG_COPIED | FLAG_REAPPENDED;

/// A log sequence number: the place of a write in the order of all writes of its namespace.
///
/// Numbers rise from write to write over the whole life of a namespace: closing and opening it goes
/// on with them, and no number is given twice. They have 48 bits. A group of writes has consecutive
/// numbers.
///
/// Once a write is durable, so is every write of the namespace with a lower number: see
/// [`crate::Namespace::wait_durable`] and [`crate::Namespace::durable`]. The numbers of two
/// namespaces have nothing to do with each other.
///
/// ```
/// use spikelet_storage::Lsn;
///
/// let (first, second) = (Lsn::new(7), Lsn::new(9));
/// assert!(first < second);
/// assert_eq!(Lsn::new(first.get()), first);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub(crate) u64);

impl Lsn {
    /// Makes a number from [`Lsn::get`], for callers that keep it elsewhere.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number as an integer.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Binds an entry to its place: bytes of a recycled block's earlier life, or copied elsewhere,
/// never pass for entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPlace {
    pub(crate) device_id: u64,
    pub(crate) incarnation: u64,
    pub(crate) offset: u64,
}

impl EntryPlace {
    pub(crate) const fn seed(self) -> u64 {
        self.device_id
            ^ self.incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.offset.wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// The fields of a header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryHeader {
    pub(crate) kind: EntryKind,
    pub(crate) flags: u8,
    pub(crate) span_units: u32,
    pub(crate) lsn: Lsn,
    pub(crate) generation: u16,
    pub(crate) last_update_ms: u64,
    pub(crate) void_time: u32,
    pub(crate) set_id: u16,
    pub(crate) digest: Digest,
    pub(crate) body_bytes: u32,
}

/// A header, as in the log.
pub(crate) type RawHeader = [u8; ENTRY_HEADER_BYTES];

impl EntryHeader {
    /// The span that an entry with such a body needs, in 16-byte units.
    pub(crate) const fn span_for(body_bytes: usize) -> u32 {
        (ENTRY_HEADER_BYTES + body_bytes).div_ceil(UNIT_BYTES as usize) as u32
    }

    /// The bytes that the entry takes.
    pub(crate) const fn span_bytes(&self) -> u64 {
        self.span_units as u64 * UNIT_BYTES
    }

    /// The header of a copy that defragmentation makes.
    pub(crate) const fn copied(self) -> Self {
        Self {
            flags: (self.flags & !FLAGS_OF_PLACE) | FLAG_COPIED,
            ..self
        }
    }

    /// The numbers that the entry accounts for: from its own to this one.
    pub(crate) const fn last_number(&self) -> u64 {
        match self.kind {
            EntryKind::Void if self.void_time > 1 => self.lsn.0 + self.void_time as u64 - 1,
            _ => self.lsn.0,
        }
    }

    /// The header with its two checks.
    #[inline]
    pub(crate) fn encode(&self, place: EntryPlace, body: &[u8]) -> RawHeader {
        debug_assert!(self.body_bytes as usize == body.len());
        let mut raw = [0; ENTRY_HEADER_BYTES];
        self.encode_to(&mut raw, place, body_check(self.lsn, body));
        raw
    }

    /// Writes the header, for a body with this check, to its place in memory.
    #[inline]
    pub(crate) fn encode_to(&self, raw: &mut RawHeader, place: EntryPlace, body_check: u32) {
        self.encode_fields(raw, body_check);
        let check = head_check(raw, place);
        if let Some(target) = raw.first_chunk_mut::<4>() {
            *target = check.to_le_bytes();
        }
    }

    /// The header without its checks, for an entry that is kept in memory.
    pub(crate) fn encode_unchecked(&self) -> RawHeader {
        let mut raw = [0; ENTRY_HEADER_BYTES];
        self.encode_fields(&mut raw, 0);
        raw
    }

    #[inline]
    fn encode_fields(&self, raw: &mut RawHeader, body_check: u32) {
        let (digest_words, digest_tail) = self.digest.as_bytes().as_chunks::<8>();
        let ([digest_0, digest_1], [d16, d17, d18, d19]) = (digest_words, digest_tail) else {
            return;
        };
        let digest_2 = u32::from_le_bytes([*d16, *d17, *d18, *d19]);
        let shape = (self.span_units & SPAN_MASK)
            | ((self.kind as u32) << 20)
            | (u32::from(self.flags) << 24);
        let words = [
            u64::from(body_check) << 32,
            (self.lsn.0 & LSN_MASK) | (u64::from(self.generation) << LSN_BITS),
            self.last_update_ms.min(LUT_MASK) | (u64::from(self.body_bytes) << LUT_BITS),
            u64::from_le_bytes(*digest_0),
            u64::from_le_bytes(*digest_1),
            u64::from(digest_2) | (u64::from(self.void_time) << 32),
            u64::from(shape) | (u64::from(self.set_id) << 32),
        ];
        let (targets, _) = raw.as_chunks_mut::<8>();
        for (target, word) in targets.iter_mut().zip(words) {
            *target = word.to_le_bytes();
        }
    }

    /// Returns the fields, if an entry can have them at all. Does not look at the checks.
    #[inline]
    pub(crate) fn decode(raw: &RawHeader) -> Option<Self> {
        let lsn_generation = u64_at(raw, 8);
        let time_length = u64_at(raw, 16);
        let shape = u32_at(raw, 48);
        let span_units = shape & SPAN_MASK;
        let body_bytes = (time_length >> LUT_BITS) as u32;
        let kind = EntryKind::from_bits((shape >> 20) & 15)?;
        if u16_at(raw, 54) != 0
            || u64::from(span_units) * UNIT_BYTES
                < ENTRY_HEADER_BYTES as u64 + u64::from(body_bytes)
        {
            return None;
        }
        Some(Self {
            kind,
            flags: (shape >> 24) as u8,
            span_units,
            lsn: Lsn(lsn_generation & LSN_MASK),
            generation: (lsn_generation >> LSN_BITS) as u16,
            last_update_ms: time_length & LUT_MASK,
            void_time: u32_at(raw, 44),
            set_id: u16_at(raw, 52),
            digest: digest_of(raw),
            body_bytes,
        })
    }

    /// The fields, if the header's check holds at this place.
    #[inline]
    pub(crate) fn decode_checked(raw: &RawHeader, place: EntryPlace) -> Option<Self> {
        let header = Self::decode(raw)?;
        (u32_at(raw, 0) == head_check(raw, place)).then_some(header)
    }

    pub(crate) fn body_holds(&self, raw: &RawHeader, body: &[u8]) -> bool {
        u32_at(raw, 4) == body_check(self.lsn, body)
    }
}

/// A header without a record: it only spans a piece of a block.
pub(crate) const fn filler() -> EntryHeader {
    EntryHeader {
        kind: EntryKind::Filler,
        flags: 0,
        span_units: 0,
        lsn: Lsn(0),
        generation: 0,
        last_update_ms: 0,
        void_time: 0,
        set_id: 0,
        digest: Digest::new([0; Digest::LEN]),
        body_bytes: 0,
    }
}

/// The header of an entry that covers `count` numbers from `first` on.
pub(crate) const fn void_header(first: Lsn, count: usize) -> EntryHeader {
    EntryHeader {
        kind: EntryKind::Void,
        lsn: first,
        void_time: count as u32,
        ..filler()
    }
}

/// The header of a record about which nothing is known yet: sequence number and sizes are filled in
/// by the log.
pub(crate) const fn blank_header() -> EntryHeader {
    EntryHeader {
        kind: EntryKind::Record,
        ..filler()
    }
}

/// The digest of a metadata entry, by its body: both copies of a change have the same, and other
/// changes another.
pub(crate) fn metadata_digest(body: &[u8]) -> Digest {
    let hash = xxh3_64_with_seed(body, 0).to_le_bytes();
    let mut bytes = [0; Digest::LEN];
    for (byte, of_hash) in bytes.iter_mut().zip(hash.iter().cycle()) {
        *byte = *of_hash;
    }
    Digest::new(bytes)
}

/// The check of the body of the entry with this number.
pub(crate) fn body_check(lsn: Lsn, body: &[u8]) -> u32 {
    xxh3_64_with_seed(body, lsn.0) as u32
}

#[inline(always)]
fn head_check(raw: &RawHeader, place: EntryPlace) -> u32 {
    let (_, checked) = raw.split_at(4);
    xxh3_64_with_seed(checked, place.seed()) as u32
}

fn u64_at(raw: &RawHeader, at: usize) -> u64 {
    u64::from_le_bytes(take(raw, at))
}

fn u32_at(raw: &RawHeader, at: usize) -> u32 {
    u32::from_le_bytes(take(raw, at))
}

fn u16_at(raw: &RawHeader, at: usize) -> u16 {
    u16::from_le_bytes(take(raw, at))
}

fn digest_of(raw: &RawHeader) -> Digest {
    Digest::new(take(raw, 24))
}

/// The length of the body, as the header says.
#[inline]
pub(crate) fn body_bytes_of(raw: &RawHeader) -> u64 {
    u64_at(raw, 16) >> LUT_BITS
}

/// A record's entry, lent from the log without a copy.
#[derive(Clone, Copy)]
pub struct EntryView<'a> {
    raw: &'a RawHeader,
    body: &'a [u8],
}

impl std::fmt::Debug for EntryView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EntryView")
            .field("digest", &self.digest())
            .field("generation", &self.generation())
            .field("payload_bytes", &self.payload().len())
            .finish_non_exhaustive()
    }
}

impl<'a> EntryView<'a> {
    pub(crate) const fn new(raw: &'a RawHeader, body: &'a [u8]) -> Self {
        Self { raw, body }
    }

    /// Returns the digest of the record.
    #[inline]
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest_of(self.raw)
    }

    /// The digest, without a copy.
    #[inline]
    pub(crate) fn digest_bytes(&self) -> &'a [u8; Digest::LEN] {
        chunk(self.raw, 24)
    }

    #[inline]
    pub(crate) fn has_digest(&self, digest: &Digest) -> bool {
        self.digest_bytes() == digest.as_bytes()
    }

    /// The generation, 1..=65535.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u16 {
        (u64_at(self.raw, 8) >> LSN_BITS) as u16
    }

    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(u64_at(self.raw, 8) & LSN_MASK)
    }

    /// When the record was last written, in milliseconds since 2010-01-01 UTC.
    #[inline]
    #[must_use]
    pub fn last_update_ms(&self) -> u64 {
        u64_at(self.raw, 16) & LUT_MASK
    }

    /// When the record expires, in seconds since 2010-01-01 UTC; 0 = never.
    #[inline]
    #[must_use]
    pub fn void_time(&self) -> u32 {
        u32_at(self.raw, 44)
    }

    /// The number of the record's set, 0 = none.
    #[inline]
    #[must_use]
    pub fn set_id(&self) -> u16 {
        u16_at(self.raw, 52)
    }

    /// The size of the entry on the device, in bytes.
    #[inline]
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        u64::from(self.span_units()) * UNIT_BYTES
    }

    pub(crate) fn span_units(&self) -> u32 {
        u32_at(self.raw, 48) & SPAN_MASK
    }

    pub(crate) fn kind_is(&self, kind: EntryKind) -> bool {
        (u32_at(self.raw, 48) >> 20) & 15 == kind as u32
    }

    pub(crate) fn flags(&self) -> u8 {
        (u32_at(self.raw, 48) >> 24) as u8
    }

    pub(crate) const fn raw(&self) -> &'a RawHeader {
        self.raw
    }

    /// Key and payload, as they are stored.
    pub(crate) const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Returns the stored user key, if the record keeps it, and the caller's payload. Both are
    /// empty in an entry that is shorter than its flags say: its checks do not hold.
    #[inline]
    #[must_use]
    pub fn key_and_payload(&self) -> (Option<&'a [u8]>, &'a [u8]) {
        let rest = self.body;
        if self.flags() & FLAG_KEYED == 0 {
            return (None, rest);
        }
        // Keys are short: one byte of length.
        let (length, rest) = match rest.split_first() {
            Some((length @ 0..0x80, rest)) => (usize::from(*length), rest),
            _ => match take_varint(rest) {
                Some(found) => found,
                None => return (Some(&[]), &[]),
            },
        };
        let (key, payload) = rest.split_at_checked(length).unwrap_or((&[], &[]));
        (Some(key), payload)
    }

    /// The stored user key, if the record keeps it: bytes as the caller gave them.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.key_and_payload().0
    }

    /// What the caller stored.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.key_and_payload().1
    }
}

/// An entry to be appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
    pub(crate) header: EntryHeader,
    /// The user key, if it is a part of the body.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: &'a [u8],
}

impl<'a> NewEntry<'a> {
    #[inline]
    pub(crate) fn new(header: EntryHeader, key: Option<&'a [u8]>, payload: &'a [u8]) -> Self {
        let keyed = if key.is_some() { FLAG_KEYED } else { 0 };
        Self {
            header: EntryHeader {
                flags: header.flags | keyed,
                ..header
            },
            key,
            payload,
        }
    }

    /// The bytes that the entry takes.
    pub(crate) fn span_bytes(&self) -> u64 {
        let body_bytes = prefix_bytes(self.key) + self.payload.len();
        u64::from(EntryHeader::span_for(body_bytes)) * UNIT_BYTES
    }

    /// Lends the header and the parts of the body to `take`.
    #[inline(always)]
    pub(crate) fn with_parts<R>(
        &mut self,
        take: impl FnOnce(&mut EntryHeader, &[&[u8]; 3]) -> R,
    ) -> R {
        let length;
        let parts = match self.key {
            Some(key) => {
                length = Varint::new(key.len());
                [length.bytes(), key, self.payload]
            }
            None => [&[], &[], self.payload],
        };
        take(&mut self.header, &parts)
    }
}

/// The size of the key in front of the payload.
pub(crate) fn prefix_bytes(key: Option<&[u8]>) -> usize {
    key.map_or(0, |key| Varint::new(key.len()).len() + key.len())
}

/// Where an entry was put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    pub(crate) units: u32,
    pub(crate) lsn: Lsn,
}

impl Appended {
    pub(crate) const fn new(location: Location, header: &EntryHeader) -> Self {
        Self {
            location,
            units: header.span_units,
            lsn: header.lsn,
        }
    }

    /// Entries with these headers, one after the other from a location on.
    pub(crate) fn side_by_side(
        first: Location,
        headers: &[EntryHeader],
    ) -> impl Iterator<Item = Self> {
        let mut at = first.offset_bytes();
        headers.iter().map(move |header| {
            let location = Location::new(first.device(), at);
            at += header.span_bytes();
            Self::new(location, header)
        })
    }
}

#[cfg(test)]
mod tests;
