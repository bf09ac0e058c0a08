//! How many shards: the arithmetic of record sizes and write rates, in one place.
//!
//! The numbers are Aerospike's documented guidelines: records between 1 KiB and 128 KiB, about 50
//! sustained writes a second on one record, and a collection that is kept in one record only while
//! its 99th percentile count times its average element stays within 128 KiB.

use super::element_hash;
use crate::{Error, Result, Value};

/// The size up to which a record is comfortable to read and to rewrite, in bytes: 128 KiB.
pub const SWEET_SPOT_BYTES: u64 = 128 * 1024;

/// The size from which a record is worth its index entry, in bytes: 1 KiB.
pub const SWEET_SPOT_FROM_BYTES: u64 = 1024;

/// Sustained writes a second that one record takes well.
pub const WRITES_PER_SECOND: f64 = 50.0;

/// The most shards that are advised for one collection. Beyond it, time shards or another model
/// serve better.
pub const SHARDS_MAX: u64 = 4096;

/// Returns the fewest shards so that each holds at most `shard_bytes` of `total_bytes`; at least 1.
///
/// ```
/// use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, shards_by_size};
/// assert_eq!(shards_by_size(300_000 * 15, SWEET_SPOT_BYTES), 35);
/// ```
#[must_use]
pub const fn shards_by_size(total_bytes: u64, shard_bytes: u64) -> u64 {
    let shard_bytes = if shard_bytes == 0 { 1 } else { shard_bytes };
    let shards = total_bytes.div_ceil(shard_bytes);
    if shards == 0 { 1 } else { shards }
}

/// Returns the fewest shards so that each takes at most `per_shard` of `writes_per_second`; at
/// least 1. A NaN or a rate that is not positive asks for one shard.
#[must_use]
pub fn shards_by_rate(writes_per_second: f64, per_shard: f64) -> u64 {
    let shards = (writes_per_second / per_shard).ceil();
    if shards.is_finite() && shards > 1.0 {
        shards as u64
    } else {
        1
    }
}

/// Returns the shard that holds an element of a list, or a key of a map, when the collection has
/// this many shards: 0 to `shards` - 1. Stored collections rely on it, so it never changes. O(bytes
/// of the element).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::shard::arithmetic::shard_of;
/// assert_eq!(shard_of(&"alice".into(), 8)?, 4);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Parameter`] for a value that no sharded collection can hold,
/// such as a NaN; `Parameter` unless `shards` is a power of two, as in every collection.
pub fn shard_of(element: &Value, shards: u64) -> Result<u64> {
    if !shards.is_power_of_two() {
        return Err(Error::parameter(format!(
            "{shards} shards: a sharded collection has a power of two of them"
        )));
    }
    Ok(element_hash::shard(element_hash::hash_of(element)?, shards))
}

/// Returns the next power of two: the number of shards that is really made, so that a split halves
/// every shard.
#[must_use]
pub const fn power_of_two(shards: u64) -> u64 {
    match shards.checked_next_power_of_two() {
        Some(power) => power,
        None => 1 << 63,
    }
}

/// Returns how many elements of a size fit into one shard of [`SWEET_SPOT_BYTES`].
#[must_use]
pub const fn elements_per_shard(element_bytes: u64) -> u64 {
    match SWEET_SPOT_BYTES.checked_div(element_bytes) {
        Some(elements) => elements,
        None => SWEET_SPOT_BYTES,
    }
}

/// Returns the mean number of writes that fall into one window of `hold_ms` at this rate (lambda).
#[must_use]
pub fn writes_per_hold(writes_per_second: f64, hold_ms: f64) -> f64 {
    writes_per_second * hold_ms / 1000.0
}

/// Returns the chance that two writes or more fall into one window, where `lambda` do on average,
/// and they come at random (Poisson): 1 - e^-lambda (1 + lambda).
#[must_use]
pub fn collision_chance(lambda: f64) -> f64 {
    1.0 - (-lambda).exp() * (1.0 + lambda)
}

/// Bytes of Aerospike's primary index for a record and copy.
pub const AEROSPIKE_INDEX_BYTES: u64 = 64;

/// Bytes of Aerospike's secondary index for an entry, before it is half filled on average.
pub const AEROSPIKE_SECONDARY_BYTES: u64 = 14;

/// Returns the memory of Aerospike's primary index: 64 bytes for each record and copy.
#[must_use]
pub const fn aerospike_index_bytes(records: u64, copies: u64) -> u64 {
    records
        .saturating_mul(copies)
        .saturating_mul(AEROSPIKE_INDEX_BYTES)
}

/// Returns the usual memory of one of Aerospike's secondary indexes: 14 bytes for each entry, and
/// half as much again for nodes that are not full.
#[must_use]
pub const fn aerospike_secondary_bytes(entries: u64) -> u64 {
    entries
        .saturating_mul(AEROSPIKE_SECONDARY_BYTES * 3)
        .div_ceil(2)
}

/// Returns how many bytes are written for each byte that changes, where a change writes the whole
/// record. A change of nothing counts as one of a byte.
#[must_use]
pub fn rewrite_factor(record_bytes: u64, changed_bytes: f64) -> f64 {
    record_bytes as f64 / changed_bytes.max(1.0)
}

/// Returns the 99th percentile of how many arrive where `mean` do on average and they come at
/// random, by the normal approximation.
#[must_use]
pub fn arrivals_p99(mean: f64) -> f64 {
    const NORMAL_P99: f64 = 2.326;
    mean + NORMAL_P99 * mean.max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_cases_come_out_as_documented() {
        assert_eq!(elements_per_shard(15), 8_738);
        assert_eq!(shards_by_size(300_000 * 15, SWEET_SPOT_BYTES), 35);
        assert_eq!(power_of_two(35), 64);
        assert_eq!(shards_by_size(10_000_000 * 15, SWEET_SPOT_BYTES), 1_145);
        assert_eq!(shards_by_size(10_000_000 * 15, 512 * 1024), 287);
    }

    #[test]
    fn collisions_follow_the_rate() {
        for (rate, lambda, chance) in [
            (6.25, 0.05, 0.0012),
            (25.0, 0.2, 0.0175),
            (50.0, 0.4, 0.0616),
        ] {
            let found = writes_per_hold(rate, 8.0);
            assert!((found - lambda).abs() < 1e-9, "{rate}: {found}");
            let found = collision_chance(found);
            assert!((found - chance).abs() < 5e-5, "{rate}: {found}");
        }
    }

    #[test]
    fn indexes_and_rewrites_cost_what_is_documented() {
        assert_eq!(aerospike_index_bytes(100_000_000, 2), 12_800_000_000);
        assert_eq!(aerospike_secondary_bytes(1_000), 21_000);
        assert!((rewrite_factor(26 * 1024, 8.0) - 3_328.0).abs() < 1e-9);
        assert!((rewrite_factor(100, 0.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_asks_for_one_shard_and_nothing_overflows() {
        assert_eq!(shards_by_size(0, SWEET_SPOT_BYTES), 1);
        assert_eq!(shards_by_size(1, 0), 1);
        assert_eq!(shards_by_rate(0.0, WRITES_PER_SECOND), 1);
        assert_eq!(shards_by_rate(f64::NAN, WRITES_PER_SECOND), 1);
        assert_eq!(shards_by_rate(f64::INFINITY, WRITES_PER_SECOND), 1);
        assert_eq!(shards_by_rate(400.0, WRITES_PER_SECOND), 8);
        assert_eq!(power_of_two(u64::MAX), 1 << 63);
        assert_eq!(elements_per_shard(0), SWEET_SPOT_BYTES);
    }
}
