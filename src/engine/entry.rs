//! What the engine reads off a stored entry, and how large one may be.

use spikelet_storage::EntryView;

use crate::record::{Metadata, Record, RecordView};
use crate::value::ParticleType;
use crate::{Error, Result};

/// Expired records are invisible at once, whenever the expiry pass gets to them.
pub(super) fn expired(entry: &EntryView<'_>, now_ms: u64) -> bool {
    let void_time = entry.void_time();
    void_time != 0 && u64::from(void_time) < now_ms / 1000
}

pub(super) fn metadata_of(entry: &EntryView<'_>) -> Metadata {
    Metadata {
        generation: entry.generation(),
        void_time: entry.void_time(),
        last_update_ms: entry.last_update_ms(),
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

/// The size of a record. Refuses one that is larger than `limit`, and names the bin to blame, or the key.
#[inline]
pub(super) fn check_size(
    limit: u64,
    (set_name, void_time): (&str, u32),
    key: Option<&[u8]>,
    body: &[u8],
) -> Result<u64> {
    let size = record_bytes(key, body);
    if size <= limit || aerospike_bytes(set_name, void_time, key, body) <= limit {
        return Ok(size);
    }
    if record_bytes(key, &[]) >= limit {
        return Err(Error::KeyTooBig {
            // The first byte is the type.
            bytes: key.map_or(0, |key| key.len() as u64 - 1),
            limit,
        });
    }
    let largest_bin = RecordView::parse(body)
        .ok()
        .and_then(|view| view.largest_bin());
    Err(Error::RecordTooBig {
        size,
        limit,
        largest_bin,
        record: None,
    })
}

/// The size of a record as Aerospike counts it, so that what fits there fits here: its header and end mark, then what only
/// some records have.
#[cold]
fn aerospike_bytes(set_name: &str, void_time: u32, key: Option<&[u8]>, body: &[u8]) -> u64 {
    let Ok(view) = RecordView::parse(body) else {
        return u64::MAX;
    };
    let with_length = |len: usize| if len < 0x80 { 1 + len } else { 2 + len };
    let bins = view.raw_bins().map(|bin| {
        let value = match bin.kind {
            ParticleType::Bool => 2,
            ParticleType::Integer => 2 + bin.value.len(),
            ParticleType::Float => 1 + bin.value.len(),
            _ => 5 + bin.value.len(),
        };
        1 + bin.name.len() + value
    });
    let bins = bins.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    let set_bytes = if set_name.is_empty() {
        0
    } else {
        1 + set_name.len()
    };
    let expiry_bytes = if void_time == 0 { 0 } else { 4 };
    let key_bytes = key.map_or(0, |key| with_length(key.len()));
    let count_bytes = with_length(bins.0) - bins.0;
    (35 + 4 + expiry_bytes + set_bytes + key_bytes + count_bytes + bins.1) as u64
}

/// The size in bytes of a record of this stored key and these bins, compared with `max_record_bytes`.
pub(super) fn record_bytes(key: Option<&[u8]>, body: &[u8]) -> u64 {
    ENTRY_HEADER_BYTES + key.map_or(0, |key| key.len() as u64) + body.len() as u64
}

/// What storage puts in front of each record.
const ENTRY_HEADER_BYTES: u64 = 56;
