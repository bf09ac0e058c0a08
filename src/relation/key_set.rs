//! `KeySet`: the keys that a traversal has seen.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Key;

/// A set of keys. Integers take 8 bytes each.
#[derive(Debug)]
pub(super) struct KeySet {
    integers: HashSet<i64, SeededHash>,
    others: HashSet<Key<'static>, SeededHash>,
}

impl KeySet {
    pub(super) fn new() -> Self {
        let hash = SeededHash::random();
        Self {
            integers: HashSet::with_hasher(hash),
            others: HashSet::with_hasher(hash),
        }
    }

    /// Adds a key. Returns whether it was not there before.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: &Key<'static>) -> bool {
        match key {
            Key::Integer(id) => self.integers.insert(*id),
            key if self.others.contains(key) => false,
            key => self.others.insert(key.clone()),
        }
    }

    #[inline]
    pub(super) fn contains(&self, key: &Key<'_>) -> bool {
        match key {
            Key::Integer(id) => self.integers.contains(id),
            key => self.others.contains(key),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.integers.len() + self.others.len()
    }
}

/// Hashes keys by XXH3 with a random seed, at a fraction of the cost of the standard library's
/// SipHash.
///
/// Keys may be chosen by a service's users, so the hash must not be one that can be computed
/// elsewhere. It is no cryptographic function: an attacker that times traversals finely enough to
/// learn the seed gains one slow traversal, since each has its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeededHash {
    seed: u64,
}

impl SeededHash {
    pub(super) fn random() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
        }
    }
}

impl BuildHasher for SeededHash {
    type Hasher = SeededHasher;

    #[inline]
    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { state: self.seed }
    }
}

/// The state of a [`SeededHash`]: the seed of the next piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeededHasher {
    state: u64,
}

impl Hasher for SeededHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.state = xxh3_64_with_seed(bytes, self.state);
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.write(&value.to_le_bytes());
    }

    /// The variant of an enum: it is hashed before its value, which mixes it in.
    #[inline]
    fn write_isize(&mut self, value: isize) {
        self.state = self.state.wrapping_add(value as u64);
    }

    /// The length of bytes, hashed before them.
    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.state = self.state.wrapping_add(value as u64);
    }

    /// The end of a text: nothing comes after it here.
    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.state = self.state.wrapping_add(u64::from(value));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = Key<'static>> {
        prop_oneof![
            (-3_i64..3).prop_map(Key::Integer),
            any::<i64>().prop_map(Key::Integer),
            "[ab]{0,3}".prop_map(Key::from),
            prop::collection::vec(b'a'..=b'b', 0..3).prop_map(Key::from),
        ]
    }

    proptest! {
        #[test]
        fn a_key_set_holds_what_a_set_of_the_standard_library_holds(
            keys in prop::collection::vec(any_key(), 0..60),
            others in prop::collection::vec(any_key(), 0..20),
        ) {
            let (mut set, mut model) = (KeySet::new(), HashSet::new());
            for key in &keys {
                prop_assert_eq!(set.insert(key), model.insert(key.clone()));
                prop_assert_eq!(set.len(), model.len());
            }
            for key in keys.iter().chain(&others) {
                prop_assert_eq!(set.contains(key), model.contains(key), "{}", key);
            }
        }
    }

    #[test]
    fn each_hash_has_a_seed_of_its_own() {
        let (one, other) = (SeededHash::random(), SeededHash::random());
        for key in [Key::Integer(7), "seven".into(), Key::from(&b"seven"[..])] {
            assert_ne!(one.hash_one(&key), other.hash_one(&key), "{key}");
        }
    }

    #[test]
    fn numbers_in_steps_and_texts_that_differ_at_their_ends_spread_over_a_table() {
        let hash = SeededHash::random();
        let steps = [1, 8, 4_096, 1 << 32, 1 << 53];
        let numbers = steps.map(|step| (0..1_024).map(|at| Key::Integer(at * step)).collect());
        let texts = (0..1_024).map(|at| Key::from(format!("user:{at:09}")));
        for keys in numbers.into_iter().chain([texts.collect::<Vec<_>>()]) {
            let low = |key: &Key<'_>| hash.hash_one(key) % 1_024;
            let slots: HashSet<u64> = keys.iter().map(low).collect();
            // Of random slots, 63 of 100 are taken.
            assert!(slots.len() > 500, "{} {}", slots.len(), keys[1]);
        }
    }
}
