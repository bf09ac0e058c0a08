//! What the engine reads off a stored entry.

use spikelet_storage::EntryView;

use crate::Result;
use crate::record::{Metadata, Record};

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
