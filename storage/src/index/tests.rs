//! The index against a plain map, and readers beside writers.

use super::DigestIndex;
use super::slot::{Candidate, IndexSlot};
use crate::digest::{Digest, PARTITIONS};
use crate::epoch;
use crate::location::Location;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A digest of the given partition and tag; `number` distinguishes digests that share both.
fn digest(partition: usize, tag: u32, number: u64) -> Digest {
    let mut bytes = [0; Digest::LEN];
    bytes[..2].copy_from_slice(&(partition as u16).to_le_bytes());
    bytes[2..5].copy_from_slice(&tag.to_le_bytes()[..3]);
    bytes[12..].copy_from_slice(&number.to_le_bytes());
    Digest::new(bytes)
}

fn slot(location: u64) -> IndexSlot {
    IndexSlot {
        location: Location::from_packed(location),
        unverified: location.is_multiple_of(3),
        size_units: (location % 1000) as u32,
        void_time: (location * 7) as u32,
        tombstone: location.is_multiple_of(5),
        set_id: (location % 4096) as u16,
    }
}

fn spread(number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    InsertMany(Vec<u32>),
    Replace(prop::sample::Index),
    Remove(prop::sample::Index),
    RemoveEvery(u64),
    Miss(u32),
}

/// Few tags, so that many collide, and some at both ends, where the places run out.
fn tags() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0u32..1 << 24,
        2 => (0u32..16).prop_map(|n| n << 20),
        1 => Just(0),
        1 => Just((1 << 24) - 1),
        1 => (1u32 << 24) - 300..1 << 24,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => tags().prop_map(Step::Insert),
        1 => prop::collection::vec(tags(), 0..200).prop_map(Step::InsertMany),
        3 => any::<prop::sample::Index>().prop_map(Step::Replace),
        6 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (1u64..8).prop_map(Step::RemoveEvery),
        3 => tags().prop_map(Step::Miss),
    ]
}

/// The content that the index must have. No two records share a location, so it represents the
/// digest in the log.
#[derive(Default)]
struct Model {
    slots: BTreeMap<u64, (u32, IndexSlot)>,
    next: u64,
}

impl Model {
    fn add(&mut self, tag: u32) -> (u32, IndexSlot) {
        self.next += 1;
        let record = (tag, slot(self.next));
        self.slots.insert(self.next, record);
        record
    }

    fn pick(&self, index: prop::sample::Index) -> Option<(u64, u32, IndexSlot)> {
        let at = (!self.slots.is_empty()).then(|| index.index(self.slots.len()))?;
        self.slots
            .iter()
            .nth(at)
            .map(|(id, (tag, slot))| (*id, *tag, *slot))
    }
}

fn found(index: &DigestIndex, digest: &Digest, location: Location) -> Option<Candidate> {
    let guard = epoch::pin();
    index.at(digest).lookup(&guard, |candidate| {
        (candidate.location == location).then_some(candidate)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_index_holds_what_a_plain_map_holds(steps in prop::collection::vec(steps(), 1..400)) {
        const PARTITION: usize = 77;
        let index = DigestIndex::new();
        let mut model = Model::default();
        for step in steps {
            let mut guard = index.lock_partition(PARTITION);
            match step {
                Step::Insert(tag) => {
                    let (tag, slot) = model.add(tag);
                    guard.insert(tag, slot);
                }
                Step::InsertMany(tags) => {
                    let records = tags.into_iter().map(|tag| model.add(tag));
                    let mut words: Vec<_> = records
                        .map(|(tag, slot)| (slot.head(tag), slot.tail()))
                        .collect();
                    words.sort_unstable();
                    guard.insert_sorted(&words);
                }
                Step::Replace(which) => {
                    let Some((id, tag, old)) = model.pick(which) else { continue };
                    let at = guard.find(tag, |slot| slot.location == old.location).unwrap();
                    prop_assert_eq!(guard.get(at), old);
                    model.slots.remove(&id);
                    let (_, new) = model.add(tag);
                    guard.replace(at, new);
                }
                Step::Remove(which) => {
                    let Some((id, tag, old)) = model.pick(which) else { continue };
                    let at = guard.find(tag, |slot| slot.location == old.location).unwrap();
                    guard.remove(at);
                    model.slots.remove(&id);
                }
                Step::RemoveEvery(nth) => {
                    let keep = |slot: &mut IndexSlot| {
                        slot.unverified = true;
                        !slot.location.packed().is_multiple_of(nth)
                    };
                    let before = model.slots.len();
                    let removed = guard.update_each(|_, slot| keep(slot));
                    model.slots.retain(|_, (_, slot)| keep(slot));
                    prop_assert_eq!(removed, before - model.slots.len());
                }
                Step::Miss(tag) => {
                    prop_assert_eq!(guard.find(tag, |_| false), None);
                }
            }
            let mut listed: Vec<_> = guard.iter().collect();
            prop_assert!(listed.is_sorted_by_key(|(tag, _)| *tag));
            listed.sort_by_key(|(_, slot)| slot.location);
            prop_assert!(listed.iter().eq(model.slots.values()));
            prop_assert_eq!(guard.len(), model.slots.len());
            drop(guard);
            prop_assert_eq!(index.len(), model.slots.len() as u64);
            for (tag, slot) in model.slots.values() {
                let seen = found(&index, &digest(PARTITION, *tag, 0), slot.location);
                prop_assert_eq!(seen.map(|seen| seen.unverified), Some(slot.unverified));
            }
        }
    }
}

#[test]
fn every_partition_finds_its_own_records() {
    let index = DigestIndex::new();
    let all: Vec<_> = (1..=20_000u64)
        .map(|n| digest(spread(n) as usize % PARTITIONS, (spread(n) >> 40) as u32, n))
        .collect();
    for (n, digest) in (1..).zip(&all) {
        index.lock(digest).insert(digest.tag(), slot(n));
    }
    for (n, digest) in (1..).zip(&all) {
        assert!(found(&index, digest, slot(n).location).is_some());
    }
    assert_eq!(index.len(), 20_000);
}

#[test]
fn records_of_one_tag_are_told_apart_and_their_table_stays_linear() {
    let index = DigestIndex::new();
    let empty_bytes = index.memory_bytes();
    for tag in [0, 5 << 20, (1 << 24) - 1] {
        let one = digest(9, tag, 0);
        for n in 1..=1000 {
            index.lock(&one).insert(tag, slot(n));
        }
        for n in 1..=1000 {
            assert!(found(&index, &one, slot(n).location).is_some());
        }
        assert_eq!(found(&index, &one, slot(2000).location), None);
    }
    // Replaced tables may not be given back yet; the tables themselves take 3,000 records of 16
    // bytes.
    let table_bytes = index.lock_partition(9).table_bytes();
    assert!(table_bytes < 3000 * 32, "{table_bytes}");
    assert!(index.memory_bytes() > empty_bytes);
}

#[test]
fn a_table_shrinks_when_most_records_are_gone() {
    let index = DigestIndex::new();
    let bytes = || index.lock_partition(3).table_bytes();
    for n in 1..=1000u64 {
        let mut guard = index.lock_partition(3);
        guard.insert((spread(n) >> 40) as u32, slot(n));
    }
    let room = bytes();
    index
        .lock_partition(3)
        .update_each(|_, slot| slot.location.packed() < 50);
    assert!(bytes() < room / 10);
    assert_eq!(index.lock_partition(3).len(), 49);
}

#[test]
fn no_load_takes_more_than_32_bytes_a_record() {
    // A partition is like all others but for its size to begin with: 64 of them give the mean.
    const SAMPLE: usize = 64;
    let index = DigestIndex::new();
    for per_partition in 1..=3000u64 {
        for partition in (0..PARTITIONS).step_by(PARTITIONS / SAMPLE) {
            let n = spread(per_partition * PARTITIONS as u64 + partition as u64);
            index
                .lock_partition(partition)
                .insert((n >> 40) as u32, slot(per_partition));
        }
        if per_partition >= 244 {
            let bytes: usize = (0..PARTITIONS)
                .step_by(PARTITIONS / SAMPLE)
                .map(|partition| index.lock_partition(partition).table_bytes())
                .sum();
            let each = bytes as f64 / (SAMPLE as f64 * per_partition as f64);
            assert!((16.0..24.0).contains(&each), "{each} at {per_partition}");
        }
    }
}

#[test]
fn an_index_of_few_records_is_small_and_growing_never_takes_it_above_its_limit() {
    // Records, and the most that all of the index may take for them in bytes. The partitions alone
    // take 256 KiB.
    let limits = [
        (0, 270_000),
        (1_000, 340 * 1_000),
        (10_000, 66 * 10_000),
        (40_000, 32 * 40_000),
        (80_000, 32 * 80_000),
        (120_000, 32 * 120_000),
        (150_000, 32 * 150_000),
        (1_000_000, 24 * 1_000_000),
    ];
    let index = DigestIndex::new();
    let mut records = 0;
    for (wanted, limit) in limits {
        while records < wanted {
            records += 1;
            let place = spread(records);
            let mut partition = index.lock_partition(place as usize % PARTITIONS);
            partition.insert((place >> 40) as u32, slot(records));
        }
        // Replaced tables are given back when the epoch has passed, which tests beside this one may
        // hold up. The limit is for an index that never gives them back.
        let until = Instant::now() + Duration::from_secs(120);
        while index.memory_bytes() > limit && Instant::now() < until {
            epoch::advance();
            std::thread::yield_now();
        }
        let bytes = index.memory_bytes();
        assert!(bytes <= limit, "{bytes} bytes for {wanted} records");
    }
}

/// The rule of the reader tests: records that are there all the while are found, also while their
/// neighbours change.
#[test]
fn readers_never_miss_a_record_beside_writers() {
    const PARTITION: usize = 5;
    const STAYING: u64 = 300;
    const LOOKUPS: u64 = 1_000_000;
    let index = DigestIndex::new();
    let tag = |n: u64| (spread(n) >> 40) as u32;
    for n in 1..=STAYING {
        index.lock_partition(PARTITION).insert(tag(n), slot(n));
    }
    let done = AtomicBool::new(false);
    let looked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 1..=2u64 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                let mut round = 0;
                while !done.load(Ordering::Relaxed) {
                    round += 1;
                    // Grows the table, then shrinks it: one at a time, or all in one walk.
                    let first = writer << 32;
                    let last = first + 100 + spread(round) % 600;
                    for n in first..last {
                        index.lock_partition(PARTITION).insert(tag(n), slot(n));
                    }
                    if round % 3 == 0 {
                        index.lock_partition(PARTITION).update_each(|_, slot| {
                            !(first..last).contains(&slot.location.packed())
                        });
                        continue;
                    }
                    for n in first..last {
                        let mut guard = index.lock_partition(PARTITION);
                        let at = guard
                            .find(tag(n), |it| it.location == slot(n).location)
                            .unwrap();
                        guard.remove(at);
                    }
                }
            });
        }
        for reader in 0..2u64 {
            let (index, done, looked) = (&index, &done, &looked);
            scope.spawn(move || {
                let mut n = reader;
                while !done.load(Ordering::Relaxed) {
                    n += 1;
                    let staying = 1 + spread(n) % STAYING;
                    let key = digest(PARTITION, tag(staying), 0);
                    if found(index, &key, slot(staying).location).is_none() {
                        done.store(true, Ordering::Relaxed);
                        panic!("record {staying} was missed");
                    }
                    if looked.fetch_add(1, Ordering::Relaxed) > LOOKUPS {
                        done.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(index.len(), STAYING);
}

#[test]
fn a_record_is_found_near_a_position_that_is_not_its_own_any_more() {
    let index = DigestIndex::new();
    let of = |tag| digest(7, tag, 0);
    let near = |seen, tag: u32| {
        let partition = index.lock(&of(tag));
        let location = Location::from_packed(u64::from(tag) + 1);
        let at = partition.find_near(seen, tag, location);
        at.map(|at| (at, partition.get(at).location == location))
    };
    index.lock(&of(500)).insert(500, slot(501));
    let (seen, found) = near(super::TablePosition::default(), 500).unwrap();
    assert!(found);
    // Others come in front of it, and its table is exchanged for larger ones.
    for tag in 0..300 {
        index.lock(&of(tag)).insert(tag, slot(u64::from(tag) + 1));
    }
    let (moved, found) = near(seen, 500).unwrap();
    assert!(found && moved != seen);
    assert_eq!(near(moved, 500), Some((moved, true)));
    // A smaller table has no such place.
    for tag in 0..300 {
        let mut partition = index.lock(&of(tag));
        let at = partition.find(tag, |_| true).unwrap();
        partition.remove(at);
    }
    assert!(near(moved, 500).is_some_and(|(_, found)| found));
    assert_eq!(near(moved, 501), None);
}
