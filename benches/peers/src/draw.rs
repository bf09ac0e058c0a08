//! Keys, values and the seeded choice of the next operation: the same for every store.

use crate::stores::{KEY_BYTES, Key, VALUE_BYTES, Value};

/// A small generator (SplitMix64): a few nanoseconds a number, and any two seeds differ.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator of its own for each `(purpose, round, thread)`.
    pub fn new(purpose: u64, round: usize, thread: usize) -> Self {
        let mut mixed = Self(purpose << 32 ^ (round as u64) << 16 ^ thread as u64);
        Self(mixed.next())
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number below `limit`, each as likely as the others (to one part in 2^64 / limit).
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// Keys of records and of lists never meet: they come from different seeds.
const RECORD_KEYS: u64 = 0x5eed_0001;
const LIST_KEYS: u64 = 0x5eed_0002;

fn fill(bytes: &mut [u8], random: &mut Random) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = random.next().to_le_bytes();
    }
    for (byte, drawn) in rest.iter_mut().zip(random.next().to_le_bytes()) {
        *byte = drawn;
    }
}

fn key(seed: u64, index: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    fill(&mut key, &mut Random(seed ^ index << 32));
    key
}

/// The key of record `index`; in the order of the indexes, keys are in random order.
pub fn record_key(index: u64) -> Key {
    key(RECORD_KEYS, index)
}

/// The key of list `index`.
pub fn list_key(index: u64) -> Key {
    key(LIST_KEYS, index)
}

/// A value for record `index`: the index, then bytes that do not compress.
pub fn value(index: u64, random: &mut Random) -> Value {
    let mut value = [0; VALUE_BYTES];
    fill(&mut value, random);
    if let Some(first) = value.first_chunk_mut() {
        *first = index.to_le_bytes();
    }
    value
}

/// Whether `bytes` is a value that was written for record `index`.
pub fn is_value_of(index: u64, bytes: &[u8]) -> bool {
    bytes.len() == VALUE_BYTES && bytes.starts_with(&index.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_of_records_and_lists_are_distinct() {
        let keys: HashSet<Key> = (0..50_000)
            .flat_map(|index| [record_key(index), list_key(index)])
            .collect();
        assert_eq!(keys.len(), 100_000);
    }

    #[test]
    fn a_value_belongs_to_its_record_and_to_no_other() {
        let value = value(17, &mut Random::new(1, 0, 0));
        assert!(is_value_of(17, &value));
        assert!(!is_value_of(18, &value));
        assert!(!is_value_of(17, &value[1..]));
    }

    #[test]
    fn every_index_below_the_limit_is_drawn_and_none_above() {
        let mut random = Random::new(1, 2, 3);
        let drawn: HashSet<u64> = (0..1_000).map(|_| random.below(10)).collect();
        assert_eq!(drawn, (0..10).collect());
    }

    #[test]
    fn rounds_and_threads_draw_different_numbers() {
        let first: HashSet<u64> = (0..3)
            .flat_map(|round| (0..2).map(move |thread| Random::new(5, round, thread).next()))
            .collect();
        assert_eq!(first.len(), 6);
    }
}
