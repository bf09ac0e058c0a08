//! Readers beside writers under the model checker.

use super::memory::Memory;
use super::partition::Partition;
use super::slot::{Candidate, IndexSlot};
use crate::epoch;
use crate::location::Location;
use crate::sync::{Arc, thread};

/// A partition on its own: all 4,096 would take the model too long.
struct Lone {
    partition: Partition,
    memory: Arc<Memory>,
}

impl Lone {
    fn with(tags: &[u32]) -> Arc<Self> {
        let memory = Arc::new(Memory::default());
        let lone = Self {
            partition: Partition::new(&memory),
            memory,
        };
        tags.iter().for_each(|tag| lone.insert(*tag));
        Arc::new(lone)
    }

    fn insert(&self, tag: u32) {
        self.partition.lock(&self.memory).insert(tag, slot(tag));
    }

    fn remove(&self, tag: u32) {
        let mut guard = self.partition.lock(&self.memory);
        let at = guard.find(tag, |_| true).unwrap();
        guard.remove(at);
    }

    fn lookup(&self, tag: u32) -> Option<Candidate> {
        let guard = epoch::pin();
        self.partition.probe(tag).lookup(&guard, Some)
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        if let Some(block) = self.partition.take_block(&self.memory) {
            self.memory.give_back(block);
        }
        epoch::advance();
        assert_eq!(
            self.memory.bytes(),
            0,
            "a replaced table was not given back"
        );
    }
}

/// The slot of this record; all tests use each tag once.
fn slot(tag: u32) -> IndexSlot {
    IndexSlot {
        location: Location::from_packed(u64::from(tag) + 1),
        unverified: false,
        size_units: 4,
        void_time: 0,
        tombstone: false,
        set_id: 0,
    }
}

/// The record that readers look for. In a table of two lines its home is the second, and the
/// other's home the first: a reader that takes one table's shape for another's misses it.
const STAYING: u32 = 10_000_000;

/// A line full of records but for one, the smallest tags first.
const SOME: [u32; 6] = [
    2_000_000, 4_000_000, 6_000_000, 8_000_000, STAYING, 12_000_000,
];

/// Two readers look twice for the record that stays, while the writer does its part.
fn beside(tags: &[u32], write: fn(&Lone), find: fn(&Lone) -> Option<Candidate>) {
    let lone = Lone::with(tags);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let lone = Arc::clone(&lone);
            thread::spawn(move || {
                for _ in 0..2 {
                    let found = find(&lone).expect("the record was missed");
                    assert_eq!(found.location, slot(STAYING).location);
                }
            })
        })
        .collect();
    write(&lone);
    for reader in readers {
        reader.join().unwrap();
    }
}

fn explore(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), 4_000);
    shuttle::check_pct(scenario, 4_000, 3);
}

fn find(lone: &Lone) -> Option<Candidate> {
    lone.lookup(STAYING)
}

#[test]
fn a_reader_does_not_miss_a_record_that_inserts_push_up() {
    explore(|| {
        beside(
            &SOME[2..],
            |lone| [50, 60, 70].into_iter().for_each(|tag| lone.insert(tag)),
            find,
        )
    });
}

#[test]
fn a_reader_does_not_miss_a_record_that_removals_pull_down() {
    explore(|| {
        beside(
            &SOME,
            |lone| {
                [2_000_000, 6_000_000]
                    .into_iter()
                    .for_each(|tag| lone.remove(tag))
            },
            find,
        )
    });
}

#[test]
fn a_reader_does_not_miss_a_record_while_the_table_grows() {
    explore(|| {
        beside(
            &SOME,
            |lone| [50, 60, 70].into_iter().for_each(|tag| lone.insert(tag)),
            find,
        )
    });
}

#[test]
fn a_reader_does_not_miss_a_record_while_half_the_others_go_at_once() {
    fn write(lone: &Lone) {
        let removed = lone.partition.lock(&lone.memory).update_each(|tag, slot| {
            slot.unverified = true;
            tag > 6_000_000
        });
        assert_eq!(removed, 3);
    }
    explore(|| beside(&SOME, write, find));
}

#[test]
fn a_reader_sees_the_old_location_or_the_new_one_and_then_stays_with_the_new() {
    const NEW: u64 = 20_000_000;
    explore(|| {
        let lone = Lone::with(&SOME);
        let reader = {
            let lone = Arc::clone(&lone);
            thread::spawn(move || {
                let seen = [(); 3].map(|()| lone.lookup(STAYING).unwrap().location.packed());
                assert!(seen.is_sorted(), "{seen:?}");
                assert!(
                    seen.iter()
                        .all(|it| [u64::from(STAYING) + 1, NEW].contains(it)),
                    "{seen:?}"
                );
            })
        };
        {
            let mut guard = lone.partition.lock(&lone.memory);
            let at = guard.find(STAYING, |_| true).unwrap();
            guard.replace(
                at,
                IndexSlot {
                    location: Location::from_packed(NEW),
                    ..slot(STAYING)
                },
            );
        }
        [50, 60, 70].into_iter().for_each(|tag| lone.insert(tag));
        reader.join().unwrap();
    });
}

#[test]
fn a_record_that_was_removed_is_not_found_again() {
    explore(|| {
        let lone = Lone::with(&SOME);
        let writer = {
            let lone = Arc::clone(&lone);
            thread::spawn(move || [50, 60, 70].into_iter().for_each(|tag| lone.insert(tag)))
        };
        lone.remove(STAYING);
        assert_eq!(lone.lookup(STAYING), None);
        writer.join().unwrap();
        assert_eq!(lone.partition.len(), SOME.len() + 2);
    });
}

#[test]
#[should_panic(expected = "the record was missed")]
fn the_model_sees_a_reader_that_does_not_look_again_after_a_removal() {
    fn once(lone: &Lone) -> Option<Candidate> {
        let guard = epoch::pin();
        lone.partition.probe(STAYING).lookup_once(&guard)
    }
    explore(|| {
        beside(
            &SOME,
            |lone| {
                [2_000_000, 6_000_000]
                    .into_iter()
                    .for_each(|tag| lone.remove(tag))
            },
            once,
        )
    });
}
