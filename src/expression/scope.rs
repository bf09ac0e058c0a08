//! The part of a record that an expression can read.

use std::cell::OnceCell;

use spikelet_storage::Digest;

use super::code::Fact;
use super::value::ExpValue;
use crate::record::{Key, Metadata, OwnedBins, RecordView};
use crate::value::ParticleType;
use crate::{Error, Result};

/// Seconds from the Unix epoch to 2010-01-01T00:00:00Z, where the clock of records starts.
const EPOCH_UNIX_SECONDS: i64 = spikelet_storage::EPOCH_UNIX_SECONDS.cast_signed();
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
/// Reported sizes are multiples of this, as Aerospike stores records.
const SIZE_STEP: u64 = 16;

/// A record's properties besides its bins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordFacts<'a> {
    pub(crate) digest: Digest,
    /// Empty for a record without a set.
    pub(crate) set_name: &'a str,
    /// The user key in its stored form, if it is stored.
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) metadata: Metadata,
    /// The current time, in milliseconds since 2010.
    pub(crate) now_ms: u64,
    /// Size of the stored record, in bytes.
    pub(crate) stored_bytes: u64,
    /// Stored in memory, not on a device.
    pub(crate) in_memory: bool,
    /// The bins that a write may not set as a whole.
    pub(crate) owned: OwnedBins<'a>,
}

/// Bins by name, from a stored record or as earlier operations have changed them.
pub(crate) trait BinSource {
    /// Returns the type and the stored value of a bin.
    fn particle(&self, name: &[u8]) -> Option<(ParticleType, &[u8])>;
}

impl BinSource for RecordView<'_> {
    fn particle(&self, name: &[u8]) -> Option<(ParticleType, &[u8])> {
        self.find(name).map(|bin| (bin.kind, bin.value))
    }
}

/// The bins of a stored body. Only the requested bins, and the path to them, are checked.
#[derive(Debug)]
pub(crate) struct StoredBins<'a> {
    body: &'a [u8],
    fault: OnceCell<Error>,
}

impl<'a> StoredBins<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            fault: OnceCell::new(),
        }
    }

    /// Returns `found`, a result computed from these bins, if all bytes read were well formed.
    ///
    /// # Errors
    /// [`Error::Malformed`] if bytes that were read are not a valid record body.
    pub(crate) fn checked<T>(self, found: T) -> Result<T> {
        self.fault.into_inner().map_or(Ok(found), Err)
    }
}

impl BinSource for StoredBins<'_> {
    #[inline]
    fn particle(&self, name: &[u8]) -> Option<(ParticleType, &[u8])> {
        match RecordView::find_checked(self.body, name) {
            Ok(bin) => bin.map(|bin| (bin.kind, bin.value)),
            Err(error) => {
                self.fault.get_or_init(|| error);
                None
            }
        }
    }
}

impl<B: BinSource> BinSource for Option<B> {
    fn particle(&self, name: &[u8]) -> Option<(ParticleType, &[u8])> {
        self.as_ref()?.particle(name)
    }
}

/// The input of an evaluation. Anything missing here is unknown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scope<'a> {
    pub(crate) facts: Option<&'a RecordFacts<'a>>,
    pub(crate) bins: Option<&'a dyn BinSource>,
}

impl<'a> RecordFacts<'a> {
    pub(super) fn get(&self, fact: Fact) -> ExpValue<'a> {
        let Metadata {
            void_time,
            last_update_ms,
            ..
        } = self.metadata;
        let void_time = i64::from(void_time);
        let last_update_ms = signed(last_update_ms);
        let now_ms = signed(self.now_ms);
        let size = signed(self.stored_bytes.next_multiple_of(SIZE_STEP));
        ExpValue::Int(match fact {
            Fact::SetName => {
                return ExpValue::Bytes(super::ExpType::String, self.set_name.as_bytes().into());
            }
            Fact::KeyExists => return ExpValue::Bool(self.key.is_some()),
            // Expressions never run on tombstones: a tombstone is not a record here.
            Fact::IsTombstone => return ExpValue::Bool(false),
            Fact::LastUpdate => last_update_ms
                .saturating_mul(NANOS_PER_MILLI)
                .saturating_add(EPOCH_UNIX_SECONDS * NANOS_PER_SECOND),
            Fact::SinceUpdate => now_ms.saturating_sub(last_update_ms).max(0),
            Fact::VoidTime if void_time == 0 => -1,
            Fact::VoidTime => (void_time + EPOCH_UNIX_SECONDS) * NANOS_PER_SECOND,
            Fact::TimeToLive if void_time == 0 => -1,
            Fact::TimeToLive => (void_time - now_ms / 1000).max(0),
            Fact::DeviceSize if self.in_memory => 0,
            Fact::MemorySize if !self.in_memory => 0,
            Fact::DeviceSize | Fact::MemorySize | Fact::RecordSize => size,
        })
    }

    /// Returns bytes 16 to 19 of the digest, little-endian, modulo `by`.
    pub(super) fn digest_modulo(&self, by: i32) -> Option<i64> {
        let word = self.digest.as_bytes().last_chunk().copied()?;
        i64::from(u32::from_le_bytes(word)).checked_rem(i64::from(by))
    }

    pub(super) fn key(&self) -> Option<ExpValue<'a>> {
        let (kind, bytes) = self.key?.split_first()?;
        // Text that is not UTF-8 is text nevertheless.
        if *kind == ParticleType::String.number() {
            return Some(ExpValue::Bytes(super::ExpType::String, bytes.into()));
        }
        Some(match Key::from_stored(self.key?).ok()? {
            Key::Integer(value) => ExpValue::Int(value),
            _ => ExpValue::Bytes(super::ExpType::Blob, bytes.into()),
        })
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
