//! Versions that writes of this process keep until they are committed: writes of a group, and of a
//! transaction. Keys and bins of all of them are in one buffer. Transactions of wire clients
//! outlive their requests, and keep each version by itself (`provisional`).

use std::ops::Range;

use spikelet_storage::{BufferedVersion, Change, Digest, NewVersion};

use super::write::{PlannedVersion, WritePlan};
use crate::{Error, Result};

/// A buffer is compacted when superseded versions take more than this, in bytes, and more than the
/// others.
const SUPERSEDED_BYTES_MAX: usize = 64 << 10;

/// What an uncommitted write leaves in the place of a record.
#[derive(Debug)]
pub(super) enum Uncommitted {
    Put(PendingVersion),
    Deleted,
}

/// A version with key and bins in a buffer.
#[derive(Debug)]
pub(super) struct PendingVersion {
    generation: u16,
    void_time: u32,
    last_update_ms: u64,
    set_id: u16,
    key: Option<Range<usize>>,
    payload: Range<usize>,
}

impl PendingVersion {
    /// Keeps a version with bins in the buffer from `from` on.
    fn new(version: &PlannedVersion<'_>, from: usize, buffer: &mut Vec<u8>) -> Self {
        let version = version.with_body(&[]);
        let payload = from..buffer.len();
        let key = version.key.map(|key| {
            buffer.extend_from_slice(key);
            payload.end..buffer.len()
        });
        Self {
            generation: version.generation,
            void_time: version.void_time,
            last_update_ms: version.last_update_ms,
            set_id: version.set_id,
            key,
            payload,
        }
    }

    fn view<'v>(&self, buffer: &'v [u8]) -> NewVersion<'v> {
        let bytes = |at: &Range<usize>| buffer.get(at.clone()).unwrap_or_default();
        NewVersion {
            generation: self.generation,
            void_time: self.void_time,
            last_update_ms: self.last_update_ms,
            set_id: self.set_id,
            key: self.key.as_ref().map(bytes),
            payload: bytes(&self.payload),
        }
    }
}

impl Uncommitted {
    /// Keeps the result of a plan; its body is in the buffer from `from` on. `None`: the plan
    /// writes nothing.
    #[inline(always)]
    pub(super) fn of(plan: &WritePlan<'_>, from: usize, buffer: &mut Vec<u8>) -> Option<Self> {
        match plan {
            WritePlan::Nothing => None,
            WritePlan::Delete => Some(Self::Deleted),
            WritePlan::Put(version) => Some(Self::Put(PendingVersion::new(version, from, buffer))),
        }
    }

    /// Returns the record as it will be, to be read: a copy. `None`: it is deleted.
    pub(super) fn to_read(&self, digest: &Digest, buffer: &[u8]) -> Option<BufferedVersion> {
        match self {
            Self::Put(version) => Some(BufferedVersion::new(digest, &version.view(buffer))),
            Self::Deleted => None,
        }
    }

    /// Returns how many bytes of the buffer it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put(version) => {
                let key = version.key.as_ref();
                version.payload.len() + key.map_or(0, ExactSizeIterator::len)
            }
            Self::Deleted => 0,
        }
    }

    /// Returns the change that commits it at this time. `was_there`: whether there is a record to
    /// delete; else a deletion changes nothing.
    pub(super) fn change<'v>(
        &self,
        buffer: &'v [u8],
        was_there: bool,
        updated_ms: u64,
    ) -> Option<Change<'v>> {
        match self {
            Self::Put(version) => Some(Change::Put(NewVersion {
                last_update_ms: updated_ms,
                ..version.view(buffer)
            })),
            Self::Deleted => was_there.then_some(Change::Delete(updated_ms)),
        }
    }
}

/// Returns the last-update time of all records that are committed together: one for all, so that a
/// truncation by time takes all or none, and none goes back in time.
pub(super) fn update_time<'w>(written: impl Iterator<Item = &'w Uncommitted>, now_ms: u64) -> u64 {
    written.fold(now_ms, |latest, written| match written {
        Uncommitted::Put(version) => latest.max(version.last_update_ms),
        Uncommitted::Deleted => latest,
    })
}

/// Takes superseded versions out of a buffer once they are most of it. `bytes`: what the others
/// take.
#[inline]
pub(super) fn compact<'w>(
    buffer: &mut Vec<u8>,
    bytes: usize,
    written: impl Iterator<Item = &'w mut Uncommitted>,
) {
    if buffer.len().saturating_sub(bytes) <= bytes.max(SUPERSEDED_BYTES_MAX) {
        return;
    }
    let mut compacted = Vec::with_capacity(2 * bytes);
    let mut copy = |at: &mut Range<usize>| {
        let from = compacted.len();
        compacted.extend_from_slice(buffer.get(at.clone()).unwrap_or_default());
        *at = from..compacted.len();
    };
    for written in written {
        if let Uncommitted::Put(version) = written {
            copy(&mut version.payload);
            version.key.as_mut().map(&mut copy);
        }
    }
    *buffer = compacted;
}

/// Refuses more records or bytes than a transaction may write.
pub(super) fn check_limit(
    found: usize,
    limit: usize,
    what: &'static str,
    option: &'static str,
) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TransactionLimit {
        what,
        limit: limit as u64,
        option,
    })
}
