//! What the benches of the storage engine share: options of the command line, and digests.
#![allow(dead_code, reason = "each bench uses a part of it")]

use spikelet_storage::Digest;
use std::fmt::Debug;
use std::str::FromStr;

/// Returns what follows an option on the command line.
pub fn argument(name: &str) -> Option<String> {
    std::env::args()
        .skip_while(|argument| argument != name)
        .nth(1)
}

/// Returns the number that follows an option on the command line.
pub fn number<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    argument(name).map_or(default, |value| value.parse().unwrap())
}

/// Returns the digest of the record with this number.
pub fn digest(record: u64) -> Digest {
    let hash = xxhash_rust::xxh3::xxh3_128(&record.to_le_bytes()).to_le_bytes();
    let mut bytes = [0; Digest::LEN];
    bytes[..16].copy_from_slice(&hash);
    Digest::new(bytes)
}
