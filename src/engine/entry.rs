//! What the engine reads off a stored entry, and how large one may be.

use spikelet_storage::EntryView;

use crate::expression::RecordFacts;
use crate::record::{Key, Metadata, OwnedBins, Record, RecordView};
use crate::{Error, Result};

/// Expired records are invisible at once, whenever the expiry pass gets to them.
pub(super) fn expired(entry: &EntryView<'_>, now_ms: u64) -> bool {
    let void_time = entry.void_time();
    void_time != 0 && u64::from(void_time) < now_ms / 1000
}

/// The user key that a record stores.
pub(super) fn key_of(entry: &EntryView<'_>) -> Option<Key<'static>> {
    Key::from_stored(entry.key()?).ok().map(Key::into_owned)
}

pub(super) fn metadata_of(entry: &EntryView<'_>) -> Metadata {
    Metadata {
        generation: entry.generation(),
        void_time: entry.void_time(),
        last_update_ms: entry.last_update_ms(),
    }
}

/// What expressions see of a stored record besides its bins.
pub(super) fn facts_of<'a>(
    entry: &EntryView<'a>,
    set_name: &'a str,
    now_ms: u64,
    in_memory: bool,
) -> RecordFacts<'a> {
    RecordFacts {
        digest: entry.digest(),
        set_name,
        key: entry.key(),
        metadata: metadata_of(entry),
        now_ms,
        stored_bytes: entry.stored_bytes(),
        in_memory,
        owned: OwnedBins::NONE,
    }
}

/// An owned record, from a lent one.
pub(super) fn record_of(entry: &EntryView<'_>) -> Result<Record> {
    Record::new(metadata_of(entry), entry.key(), entry.payload())
}

/// An owned record with the wanted bins that it has, from a lent one.
pub(super) fn record_with_bins(entry: &EntryView<'_>, bins: &[&str]) -> Result<Record> {
    Record::with_bins(metadata_of(entry), entry.key(), entry.payload(), bins)
}

/// The size of a record. Refuses one that is larger than `limit`, and names the bin to blame, or
/// the key.
#[inline(always)]
pub(super) fn check_size(limit: u64, key: Option<&[u8]>, body: &[u8]) -> Result<u64> {
    let size = record_bytes(key, body);
    if size <= limit {
        Ok(size)
    } else {
        Err(too_big(size, limit, key, body))
    }
}

#[cold]
fn too_big(size: u64, limit: u64, key: Option<&[u8]>, body: &[u8]) -> Error {
    if record_bytes(key, &[]) >= limit {
        return Error::KeyTooBig {
            // The first byte is the type.
            bytes: key.map_or(0, |key| key.len() as u64 - 1),
            limit,
        };
    }
    let largest_bin = RecordView::parse(body)
        .ok()
        .and_then(|view| view.largest_bin());
    Error::RecordTooBig {
        size,
        limit,
        largest_bin,
        record: None,
    }
}

/// The size in bytes of a record of this stored key and these bins, compared with
/// `max_record_bytes`.
#[inline]
pub(crate) fn record_bytes(key: Option<&[u8]>, body: &[u8]) -> u64 {
    RECORD_OVERHEAD_BYTES + key.map_or(0, |key| key.len() as u64) + body.len() as u64
}

/// Counted beside key and bins. A record of one bin in no set is as large as in Aerospike by it;
/// the header that storage puts in front of a record has 16 bytes more.
const RECORD_OVERHEAD_BYTES: u64 = 40;
