//! The 20-byte identity of a record, with its partition and tag.

use std::cmp::Ordering;
use std::fmt;

/// How many partitions a namespace has. Fixed, as in Aerospike: clients, scans and cursors speak in
/// partitions.
#[cfg(not(shuttle))]
pub const PARTITIONS: usize = 4096;
/// Few, so that the model checker need not make thousands at each run.
#[cfg(shuttle)]
pub const PARTITIONS: usize = 2;

/// The identity of a record inside its namespace: 20 bytes that behave like random ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 20]);

impl Digest {
    /// The length of a digest in bytes.
    pub const LEN: usize = 20;

    /// Names no record.
    pub(crate) const NONE: Self = Self([0; Self::LEN]);

    /// A digest of the given bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Returns the 20 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The partition, 0..4096: the low 12 bits of the first four bytes, read little-endian.
    #[must_use]
    pub const fn partition(&self) -> usize {
        let [a, b, ..] = self.0;
        ((a as usize) | ((b as usize & 0x0f) << 8)) % PARTITIONS
    }

    /// 24 bits, independent of the partition, by which the primary index orders and tells apart the
    /// records of one partition.
    pub(crate) const fn tag(&self) -> u32 {
        let [_, _, a, b, c, ..] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// By their bytes. Most differ in the first eight, which takes no call.
impl Ord for Digest {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let front = |digest: &Self| {
            digest
                .0
                .first_chunk()
                .map(|bytes| u64::from_be_bytes(*bytes))
        };
        front(self)
            .cmp(&front(other))
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Digest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
