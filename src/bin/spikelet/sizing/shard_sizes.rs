//! What the shards of a collection take: each element falls into one of them at random.

use spikelet::shard::arithmetic::{SHARDS_MAX, power_of_two};

/// Bytes of a shard beside its elements: header, key, and its description.
pub(super) const COMPANION_BYTES: u64 = 160;

/// Returns what the largest of these shards takes, in 99 of 100 cases. `element_bytes`: the mean
/// element, weighed by size.
pub(super) fn largest_shard(total_bytes: u64, element_bytes: f64, shards: u64) -> u64 {
    if shards <= 1 {
        return total_bytes;
    }
    let mean = total_bytes as f64 / shards as f64;
    let deviation = (mean * element_bytes * (1.0 - 1.0 / shards as f64)).sqrt();
    let largest = mean + farthest(shards) * deviation;
    (largest.ceil() as u64).min(total_bytes) + COMPANION_BYTES
}

/// Returns the fewest shards of which the largest is within a bound: a power of two from `least`
/// on, up to [`SHARDS_MAX`] unless more are the least.
pub(crate) fn shards_within(
    bound_bytes: u64,
    total_bytes: u64,
    element_bytes: f64,
    least: u64,
) -> u64 {
    let mut shards = power_of_two(least);
    while shards > 1
        && shards < SHARDS_MAX
        && largest_shard(total_bytes, element_bytes, shards) > bound_bytes
    {
        shards *= 2;
    }
    shards
}

/// Returns how many standard deviations the farthest of `values` normal values is above the mean,
/// in 99 of 100 cases.
fn farthest(values: u64) -> f64 {
    // The chance beyond z is about exp(-z^2 / 2) / (z sqrt(2 pi)); solved by iteration.
    let odds = values as f64 / 0.01 / std::f64::consts::TAU.sqrt();
    (0..8).fold(3.0, |z: f64, _| (2.0 * (odds / z).ln()).sqrt())
}
