//! Which records are fought over: an always-on list of the hottest keys in fixed memory.
//!
//! Only contention is counted, a wait for a record lock or a `KeyBusy`, so a write that meets no
//! other thread costs nothing. The list is the space-saving one: a fixed number of counters, and a
//! key that finds none takes over the smallest, and its count becomes the bound of its error.
//! Counts fade, so that the list shows records that are hot now, and not ones that once were.

use std::cmp::Reverse;

use parking_lot::Mutex;
use spikelet_storage::Digest;

/// How many keys are counted at once, and the length of the longest list. A key that has more than
/// 1/64 of all contention is always among those counted; with less, it hardly hurts.
pub(crate) const HOT_KEYS_MAX: usize = 64;

/// How many tables there are to count in. An event goes to the first that is free, so that no
/// thread waits for a thread that was interrupted while it counted, and no event is lost: losing
/// those that collide would favour keys with events one by one.
const TABLES: usize = 4;

const DIGEST_BYTES: usize = 20;
/// A key in the notes of a clean close.
const KEY_BYTES: usize = DIGEST_BYTES + 3 * 8;

/// Half-life of an event, in milliseconds (5 minutes): short enough to forget keys that have cooled
/// down, long enough for an operator to look at them.
const HALF_LIFE_MS: u64 = 5 * 60 * 1000;

/// A record that is fought over, and how much.
///
/// The counts are of the time since the key was last taken into the list, so they are never too
/// high: the key has had between `waits + busy` and `waits + busy + error_bound` events, each
/// counted half for every 5 minutes that have passed since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HotKey {
    /// The digest of the record.
    pub(super) digest: Digest,
    /// How often an operation had to wait for the record's lock.
    pub(super) waits: u64,
    /// How often an operation was refused with `KeyBusy`, the queue being full.
    pub(super) busy: u64,
    /// How many events of either kind this key may have had beside those counted.
    pub(super) error_bound: u64,
}

impl HotKey {
    /// The most events this key can have had: the list is ordered by it.
    fn events_max(&self) -> u64 {
        self.waits
            .saturating_add(self.busy)
            .saturating_add(self.error_bound)
    }

    /// Counts every event half as much. Losses by rounding go to the bound.
    fn halve(&mut self) {
        let events_max = self.events_max().div_ceil(2);
        self.waits /= 2;
        self.busy /= 2;
        self.error_bound = events_max.saturating_sub(self.waits.saturating_add(self.busy));
    }
}

/// The hottest keys of a namespace, counted from all threads.
#[derive(Debug, Default)]
pub(super) struct HotKeys {
    tables: [Mutex<HotKeyTable>; TABLES],
}

impl HotKeys {
    /// Counts one event: a `KeyBusy`, or else a wait, with any result. Costs one pass over at
    /// most 64 counters, and waits only if as many threads as there are tables count at once.
    pub(super) fn note(&self, digest: &Digest, busy: bool, now_ms: u64) {
        let free = self.tables.iter().find_map(Mutex::try_lock);
        let mut table = free.unwrap_or_else(|| self.tables[TABLES - 1].lock());
        table.fade(now_ms);
        table.note(digest, busy);
    }

    /// The `n` hottest keys (at most [`HOT_KEYS_MAX`]), the hottest first. Counting goes on
    /// meanwhile: the list is of no single moment.
    pub(super) fn top(&self, n: usize, now_ms: u64) -> Vec<HotKey> {
        for table in &self.tables {
            table.lock().fade(now_ms);
        }
        let tables: Vec<HotKeyTable> = self
            .tables
            .iter()
            .map(|table| table.lock().clone())
            .collect();
        let mut merged: Vec<HotKey> = Vec::new();
        for digest in tables
            .iter()
            .flat_map(|table| &table.keys)
            .map(|key| &key.digest)
        {
            if merged.iter().all(|key| key.digest != *digest) {
                merged.push(merge(digest, &tables));
            }
        }
        merged.sort_unstable_by_key(|key| (Reverse(key.events_max()), key.digest));
        merged.truncate(n.min(HOT_KEYS_MAX));
        merged
    }

    /// Returns the list as a clean close keeps it: each key's digest, waits, refusals and error
    /// bound. It does not fade while the store is closed.
    pub(super) fn encode(&self, now_ms: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HOT_KEYS_MAX * KEY_BYTES);
        for key in self.top(HOT_KEYS_MAX, now_ms) {
            bytes.extend(key.digest.as_bytes());
            for number in [key.waits, key.busy, key.error_bound] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes
    }

    /// Starts from an encoded list in place of the events counted up to now.
    pub(super) fn decode(&self, bytes: &[u8]) {
        let (keys, _) = bytes.as_chunks::<KEY_BYTES>();
        let mut start = HotKeyTable::default();
        for key in keys.iter().take(HOT_KEYS_MAX) {
            let (digest, numbers) = key.split_at(DIGEST_BYTES);
            let number = |at: usize| {
                let bytes = numbers.as_chunks::<8>().0.get(at).copied();
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            start
                .keys
                .extend(digest.try_into().ok().map(|digest| HotKey {
                    digest: Digest::new(digest),
                    waits: number(0),
                    busy: number(1),
                    error_bound: number(2),
                }));
        }
        for table in &self.tables {
            // The first table gets all of it: a key counts by its sum over them.
            *table.lock() = std::mem::take(&mut start);
        }
    }
}

/// One key over all tables. A table that does not list it may have forgotten it, if it is full.
fn merge(digest: &Digest, tables: &[HotKeyTable]) -> HotKey {
    let mut sum = HotKey {
        digest: *digest,
        waits: 0,
        busy: 0,
        error_bound: 0,
    };
    for table in tables {
        match table.keys.iter().find(|key| key.digest == *digest) {
            Some(key) => {
                sum.waits = sum.waits.saturating_add(key.waits);
                sum.busy = sum.busy.saturating_add(key.busy);
                sum.error_bound = sum.error_bound.saturating_add(key.error_bound);
            }
            None => sum.error_bound = sum.error_bound.saturating_add(table.forgotten_max()),
        }
    }
    sum
}

#[derive(Clone, Debug, Default)]
struct HotKeyTable {
    /// At most `HOT_KEYS_MAX`, each key once, in no order.
    keys: Vec<HotKey>,
    /// The most events that a key can have had which was forgotten before the counts were last
    /// halved.
    faded_max: u64,
    /// When the counts were last halved, or the first was taken.
    halved_ms: Option<u64>,
}

impl HotKeyTable {
    /// Halves the counts once for each half-life that has passed, and forgets keys of which nothing
    /// is left. A clock that goes backwards changes nothing within a half-life.
    fn fade(&mut self, now_ms: u64) {
        let is_ahead = |since: &u64| *since > now_ms.saturating_add(HALF_LIFE_MS);
        let since = self
            .halved_ms
            .filter(|since| !is_ahead(since))
            .unwrap_or(now_ms);
        self.halved_ms = Some(since);
        let passed = now_ms.saturating_sub(since) / HALF_LIFE_MS;
        if passed == 0 {
            return;
        }
        self.halved_ms = Some(since + passed * HALF_LIFE_MS);
        // After this many, nothing is left of the largest number.
        for _ in 0..passed.min(u64::BITS.into()) {
            self.faded_max = self.forgotten_max() / 2;
            self.keys.iter_mut().for_each(HotKey::halve);
            self.keys.retain(|key| key.waits > 0 || key.busy > 0);
        }
    }

    fn note(&mut self, digest: &Digest, busy: bool) {
        let key = match self.keys.iter().position(|key| key.digest == *digest) {
            Some(place) => self.keys.get_mut(place),
            None => self.admit(digest),
        };
        if let Some(key) = key {
            let count = if busy { &mut key.busy } else { &mut key.waits };
            *count = count.saturating_add(1);
        }
    }

    /// A counter for a key that has none: a new one, or that of the coldest key.
    fn admit(&mut self, digest: &Digest) -> Option<&mut HotKey> {
        let error_bound = self.forgotten_max();
        let fresh = HotKey {
            digest: *digest,
            waits: 0,
            busy: 0,
            error_bound,
        };
        if self.keys.len() < HOT_KEYS_MAX {
            self.keys.push(fresh);
            return self.keys.last_mut();
        }
        let coldest = self.keys.iter_mut().min_by_key(|key| key.events_max())?;
        *coldest = fresh;
        Some(coldest)
    }

    /// The most events a key can have had in this table that is not listed in it.
    fn forgotten_max(&self) -> u64 {
        if self.keys.len() < HOT_KEYS_MAX {
            return self.faded_max;
        }
        let coldest = self.keys.iter().map(HotKey::events_max).min();
        coldest.unwrap_or(0).max(self.faded_max)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn digest(n: u8) -> Digest {
        Digest::new([n; 20])
    }

    fn note_times(keys: &HotKeys, n: u8, waits: u64, busy: u64) {
        (0..waits).for_each(|_| keys.note(&digest(n), false, 0));
        (0..busy).for_each(|_| keys.note(&digest(n), true, 0));
    }

    #[test]
    fn counts_fade_behind_a_clock_that_was_a_year_ahead() {
        let keys = HotKeys::default();
        keys.note(&digest(1), true, 365 * 24 * 3_600_000);
        keys.note(&digest(1), true, 0);
        assert_eq!(keys.top(1, 0).first().map(|key| key.busy), Some(2));
        assert_eq!(keys.top(1, 2 * HALF_LIFE_MS), []);
    }

    #[test]
    fn few_keys_are_counted_exactly_and_listed_the_hottest_first() {
        let keys = HotKeys::default();
        assert_eq!(keys.top(10, 0), []);
        note_times(&keys, 1, 2, 0);
        note_times(&keys, 2, 3, 4);
        note_times(&keys, 3, 0, 1);
        let hot = |n, waits, busy| HotKey {
            digest: digest(n),
            waits,
            busy,
            error_bound: 0,
        };
        assert_eq!(keys.top(10, 0), [hot(2, 3, 4), hot(1, 2, 0), hot(3, 0, 1)]);
        assert_eq!(keys.top(1, 0), [hot(2, 3, 4)]);
        assert_eq!(keys.top(0, 0), []);
    }

    #[test]
    fn a_hot_key_stays_in_front_of_a_crowd_of_others() {
        let keys = HotKeys::default();
        for round in 0..1_000_u64 {
            note_times(&keys, 255, 1, 1);
            note_times(&keys, (round % 250) as u8, 1, 0);
        }
        let list = keys.top(usize::MAX, 0);
        assert_eq!(list.len(), HOT_KEYS_MAX);
        let expected = HotKey {
            digest: digest(255),
            waits: 1_000,
            busy: 1_000,
            error_bound: 0,
        };
        assert_eq!(list[0], expected);
        assert!(list[1].events_max() <= 1_000 / (HOT_KEYS_MAX as u64 - 1) + 1);
    }

    #[test]
    fn what_has_cooled_down_falls_behind_what_is_hot_and_is_forgotten() {
        let keys = HotKeys::default();
        let start = 1_000;
        (0..100).for_each(|_| keys.note(&digest(1), false, start));
        keys.note(&digest(1), true, start);
        let half_lives = |n: u64| start + n * HALF_LIFE_MS;
        let counts = |now_ms: u64| {
            let list = keys.top(10, now_ms);
            list.iter()
                .map(|key| (key.digest, key.waits, key.busy, key.events_max()))
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(half_lives(1) - 1), [(digest(1), 100, 1, 101)]);
        assert_eq!(counts(half_lives(1)), [(digest(1), 50, 0, 51)]);
        assert_eq!(counts(start), [(digest(1), 50, 0, 51)], "a clock set back");
        assert_eq!(counts(half_lives(2)), [(digest(1), 25, 0, 26)]);
        (0..20).for_each(|_| keys.note(&digest(2), true, half_lives(3)));
        assert_eq!(
            counts(half_lives(3)),
            [(digest(2), 0, 20, 20), (digest(1), 12, 0, 13)]
        );
        assert_eq!(counts(half_lives(5)).len(), 2);
        assert_eq!(counts(half_lives(7)), [(digest(2), 0, 1, 2)]);
        assert_eq!(counts(u64::MAX), []);
    }

    #[test]
    fn a_list_survives_a_close_and_replaces_the_events_counted_before() {
        let before = HotKeys::default();
        (0..=255).for_each(|n| note_times(&before, n, 1 + u64::from(n % 7), 2));
        let list = before.top(HOT_KEYS_MAX, 0);
        let after = HotKeys::default();
        note_times(&after, 1, 1_000, 0);
        after.decode(&before.encode(0));
        assert_eq!(after.top(HOT_KEYS_MAX, 0), list);
        // A key that the list has forgotten is still bounded.
        let is_unlisted = |n: &u8| list.iter().all(|key| key.digest != digest(*n));
        let n = (0..=255).find(is_unlisted).unwrap();
        after.note(&digest(n), true, 0);
        let of_n = |key: &HotKey| key.digest == digest(n);
        let key = after.top(HOT_KEYS_MAX, 0).into_iter().find(of_n).unwrap();
        assert_eq!((key.waits, key.busy), (0, 1));
        assert!(key.events_max() > 1 + u64::from(n % 7) + 2);
        // Half a key is no key.
        after.decode(&before.encode(0)[..KEY_BYTES + 7]);
        assert_eq!(after.top(HOT_KEYS_MAX, 0), list[..1]);
    }

    #[test]
    fn threads_that_collide_lose_nothing() {
        let keys = HotKeys::default();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let keys = &keys;
                scope.spawn(move || note_times(keys, n % 4, 2_000, 1_000));
            }
        });
        let list = keys.top(10, 0);
        assert_eq!(list.len(), 4);
        for key in list {
            assert_eq!((key.waits, key.busy, key.error_bound), (4_000, 2_000, 0));
        }
    }

    #[test]
    fn counts_end_at_the_largest_number_and_do_not_wrap() {
        let keys = HotKeys::default();
        let full = HotKey {
            digest: digest(1),
            waits: u64::MAX,
            busy: u64::MAX,
            error_bound: u64::MAX,
        };
        keys.tables[0].lock().keys.push(full);
        note_times(&keys, 1, 1, 1);
        assert_eq!(keys.top(1, 0), [full]);
    }

    proptest! {
        /// Against exact counts, with events that find the first tables taken.
        #[test]
        fn no_count_is_outside_its_bounds(
            events in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>(), 0..TABLES), 0..3_000)
        ) {
            let keys = HotKeys::default();
            let mut exact: HashMap<Digest, [u64; 2]> = HashMap::new();
            for (a, b, busy, taken) in &events {
                // Small numbers are likelier: some keys are hotter than others.
                let digest = digest(a & b);
                let _counting: Vec<_> = keys.tables[..*taken].iter().map(Mutex::lock).collect();
                keys.note(&digest, *busy, 0);
                exact.entry(digest).or_default()[usize::from(*busy)] += 1;
            }
            let list = keys.top(usize::MAX, 0);
            prop_assert!(list.is_sorted_by_key(|key| Reverse(key.events_max())));
            prop_assert_eq!(list.len(), exact.len().min(HOT_KEYS_MAX));
            for key in &list {
                let [waits, busy] = exact[&key.digest];
                prop_assert!(key.waits <= waits && key.busy <= busy);
                prop_assert!(key.events_max() >= waits + busy);
            }
            // An unlisted key has had no more events than the last listed one.
            let last = list.last().map_or(0, HotKey::events_max);
            for (digest, [waits, busy]) in exact {
                prop_assert!(list.iter().any(|key| key.digest == digest) || waits + busy <= last);
            }
        }
    }
}
