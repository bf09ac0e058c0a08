//! Secondary indexes under the model checker: the engine's own writes, builds and queries over the
//! whole of storage, in hundreds of schedules each, with every guard and without each of them. Run
//! with `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet --lib --release interleavings`.

use std::collections::BTreeSet;
use std::sync::Arc;

use shuttle::thread;

use super::Index;
use super::index::IndexState;
use crate::engine::core::NamespaceCore;
use crate::index::{EntryList, EntryRange, GUARDS, IndexRule, OrderedEntries};
use crate::query::IndexDefinition;
use crate::sync::guards::{explore, one_at_a_time};
use crate::{Error, Key, NamespaceConfig, Set, Store};

/// The invariants, and in how many schedules they are tried.
const SCENARIOS: [(fn(), usize); 7] = [
    (a_query_finds_what_rests_and_nothing_that_does_not_fit, 200),
    (
        records_that_come_and_go_leave_their_entries_as_they_are,
        200,
    ),
    (
        an_index_that_is_built_beside_writers_is_complete_and_exact,
        200,
    ),
    (an_entry_is_not_cleaned_away_while_its_record_gets_it, 200),
    (a_key_of_a_unique_index_is_that_of_one_record, 200),
    (leaves_that_split_and_join_lose_nothing_that_rests, 1_500),
    (an_element_that_moves_to_an_earlier_entry_is_met, 1_500),
];

#[test]
fn indexes_and_records_stay_in_step() {
    let _one = one_at_a_time();
    for (scenario, runs) in SCENARIOS {
        explore(runs, scenario);
    }
}

#[test]
fn without_a_guard_they_do_not() {
    let _one = one_at_a_time();
    let guards: [(IndexRule, fn()); 8] = [
        (
            IndexRule::AddedBefore,
            a_query_finds_what_rests_and_nothing_that_does_not_fit,
        ),
        (
            IndexRule::RemovedAfter,
            a_query_finds_what_rests_and_nothing_that_does_not_fit,
        ),
        (
            IndexRule::RemovedUnderLock,
            records_that_come_and_go_leave_their_entries_as_they_are,
        ),
        (
            IndexRule::LockedAreBuilt,
            an_index_that_is_built_beside_writers_is_complete_and_exact,
        ),
        (
            IndexRule::CleanedUnderLock,
            an_entry_is_not_cleaned_away_while_its_record_gets_it,
        ),
        (
            IndexRule::OneDirectoryLock,
            leaves_that_split_and_join_lose_nothing_that_rests,
        ),
        (
            IndexRule::GroupsInOneLeaf,
            an_element_that_moves_to_an_earlier_entry_is_met,
        ),
        (
            IndexRule::UniqueKeyLocked,
            a_key_of_a_unique_index_is_that_of_one_record,
        ),
    ];
    assert_eq!(GUARDS.needless(&guards), [], "nothing fails without them");
}

/// So long that a leaf holds four.
fn group(number: u8) -> String {
    format!("{number}{}", "x".repeat(900))
}

#[derive(Clone)]
struct Things {
    set: Set,
    core: Arc<NamespaceCore>,
    _store: Arc<Store>,
}

impl Things {
    fn new() -> Self {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        config.write_lanes = 1;
        config.max_device_bytes = 64 << 20;
        let store = Store::builder().namespace(config).open().unwrap();
        let core = Arc::clone(&store.namespace("test").unwrap().core);
        Self {
            set: store.set("things").unwrap(),
            core,
            _store: Arc::new(store),
        }
    }

    /// With an index of their groups.
    fn indexed(is_unique: bool) -> Self {
        let things = Self::new();
        things.declare(is_unique).set_state(IndexState::Ready);
        things
    }

    fn declare(&self, is_unique: bool) -> Arc<Index> {
        let definition = IndexDefinition::new("by_group", ["group"]).unique(is_unique);
        self.core.declare(Some("things"), definition).unwrap().0
    }

    /// The model lets a wait with a deadline time out at any moment.
    fn put(&self, id: i64, number: u8) {
        while let Err(error) = self.set.put(id, [("group", group(number))]) {
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
        }
    }

    fn delete(&self, id: i64) {
        while let Err(error) = self.set.delete(id) {
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
        }
    }

    fn is_of_group(&self, id: i64, number: u8) -> bool {
        let record = self.set.get(id).unwrap();
        record.is_some_and(|record| record.get("group") == Some(group(number).into()))
    }

    fn index(&self) -> Arc<Index> {
        self.core.indexes.by_name("by_group").unwrap()
    }

    /// The ids of the records of a group, each of which must be of the group.
    fn found(&self, number: u8) -> Vec<i64> {
        let page = self
            .set
            .query("by_group")
            .unwrap()
            .eq(group(number))
            .records()
            .unwrap();
        let found = page.into_records().unwrap().into_iter().map(|found| {
            assert_eq!(found.record.get("group"), Some(group(number).into()));
            match found.record.key() {
                Some(Key::Integer(id)) => id,
                other => panic!("{other:?}"),
            }
        });
        let found: Vec<i64> = found.collect();
        let distinct: BTreeSet<i64> = found.iter().copied().collect();
        assert_eq!(distinct.len(), found.len(), "one came twice");
        found
    }

    /// Every record has its entry, and there are no others.
    fn assert_exact(&self, ids: impl IntoIterator<Item = i64>) {
        let mut entries = 0;
        for id in ids {
            let Some(record) = self.set.get(id).unwrap() else {
                continue;
            };
            entries += 1;
            let group = record.get("group").unwrap();
            let query = self.set.query("by_group").unwrap().eq(group);
            let keys = query.keys().unwrap().into_records().unwrap();
            assert!(
                keys.iter().any(|found| found.key == Some(Key::from(id))),
                "{id} is missing"
            );
        }
        assert_eq!(
            self.index().entries.len(),
            entries,
            "entries without records"
        );
    }
}

fn spawn(things: &Things, run: impl FnOnce(&Things) + Send + 'static) -> thread::JoinHandle<()> {
    let things = things.clone();
    thread::spawn(move || run(&things))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

fn a_query_finds_what_rests_and_nothing_that_does_not_fit() {
    let things = Things::indexed(false);
    for id in [1, 2] {
        things.put(id, 1);
    }
    things.put(3, 1);
    things.put(4, 2);
    let writers = [(3, [2, 1, 2]), (4, [1, 2, 1])].map(|(id, groups)| {
        spawn(&things, move |things| {
            groups.into_iter().for_each(|group| things.put(id, group));
        })
    });
    // One comes, and one leaves for good.
    things.put(6, 1);
    let others = spawn(&things, |things| {
        things.put(5, 1);
        things.put(6, 2);
    });
    let reader = spawn(&things, |things| {
        for _ in 0..2 {
            let had_come = things.is_of_group(5, 1);
            let found = things.found(1);
            assert!(found.contains(&1) && found.contains(&2), "{found:?}");
            assert!(!had_come || found.contains(&5), "{found:?}");
            let has_not_left = things.is_of_group(6, 1);
            assert!(!has_not_left || found.contains(&6), "{found:?}");
        }
    });
    join(writers.into_iter().chain([others, reader]));
    things.assert_exact(1..7);
}

fn records_that_come_and_go_leave_their_entries_as_they_are() {
    let things = Things::indexed(false);
    // Both write the same record.
    let writers = [1, 2].map(|number| {
        spawn(&things, move |things| {
            things.put(7, number);
            things.delete(7);
            things.put(7, number);
        })
    });
    let reader = spawn(&things, |things| {
        things.found(1);
        things.found(2);
    });
    join(writers.into_iter().chain([reader]));
    things.assert_exact([7]);
}

fn an_index_that_is_built_beside_writers_is_complete_and_exact() {
    let things = Things::new();
    for id in [1, 2] {
        things.put(id, 1);
    }
    let writers = [
        spawn(&things, |things| {
            things.put(2, 2);
            things.put(3, 1);
        }),
        spawn(&things, |things| {
            things.put(4, 1);
            things.delete(4);
            things.put(2, 1);
        }),
    ];
    let build = spawn(&things, |things| {
        let index = things.declare(false);
        let key_hash = things.core.key_hash;
        let partitions = (1..5_i64).map(|id| key_hash.digest("things", &id.into()).partition());
        for partition in partitions.collect::<BTreeSet<_>>() {
            things.core.fill_partition(&index, partition).unwrap();
        }
        index.set_state(IndexState::Ready);
        assert!(things.found(1).contains(&1));
    });
    join(writers.into_iter().chain([build]));
    things.assert_exact(1..5);
}

fn an_entry_is_not_cleaned_away_while_its_record_gets_it() {
    let things = Things::indexed(false);
    things.put(1, 1);
    // As an opening or a truncation leaves them behind.
    let digest = things.core.key_hash.digest("things", &1.into());
    let range = EntryRange::with_prefix(&[]);
    let mut entries = EntryList::default();
    things.index().entries.copy(&range, false, 1, &mut entries);
    let entry = entries.get(0).unwrap();
    let stray = [&entry[..1], &b"2"[..], &entry[2..]].concat();
    assert!(stray.ends_with(digest.as_bytes()));
    things.index().insert(&stray);
    let writer = spawn(&things, |things| things.put(1, 2));
    let reader = spawn(&things, |things| {
        things.found(2);
    });
    join([writer, reader]);
    assert_eq!(things.found(2), [1]);
    things.assert_exact([1]);
}

fn a_key_of_a_unique_index_is_that_of_one_record() {
    let things = Things::indexed(true);
    let writers = [1, 2].map(|id| {
        spawn(&things, move |things| {
            for number in [1, 2] {
                match things.set.put(id, [("group", group(number))]) {
                    Ok(_)
                    | Err(
                        Error::NotUnique { .. } | Error::KeyBusy { .. } | Error::Timeout { .. },
                    ) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        })
    });
    join(writers);
    for number in [1, 2] {
        assert!(things.found(number).len() <= 1);
    }
    things.assert_exact([1, 2]);
}

fn leaves_that_split_and_join_lose_nothing_that_rests() {
    let entries = Arc::new(OrderedEntries::new());
    let entry = |number: u8| [&[number], &[7; 900][..]].concat();
    let resting = [10, 20, 30, 40, 50, 60];
    for number in resting {
        entries.insert(&entry(number));
    }
    let writers = [[11, 12, 13], [21, 51, 52]].map(|numbers| {
        let entries = Arc::clone(&entries);
        thread::spawn(move || {
            for number in numbers {
                assert!(entries.insert(&entry(number)));
            }
            for number in numbers {
                assert!(entries.remove(&entry(number)));
            }
        })
    });
    let readers = [false, true].map(|descending| {
        let entries = Arc::clone(&entries);
        thread::spawn(move || {
            let mut found = EntryList::default();
            entries.copy(
                &EntryRange::with_prefix(&[]),
                descending,
                usize::MAX,
                &mut found,
            );
            let mut numbers: Vec<u8> = found.iter().map(|entry| entry[0]).collect();
            if descending {
                numbers.reverse();
            }
            assert!(
                numbers.is_sorted_by(|one, other| one < other),
                "{numbers:?}"
            );
            let rested: Vec<u8> = numbers
                .into_iter()
                .filter(|number| number % 10 == 0)
                .collect();
            assert_eq!(rested, resting);
        })
    });
    join(writers.into_iter().chain(readers));
    assert_eq!(entries.len(), resting.len() as u64);
}

/// Group 1 has the entries of one element: a new one is added before the former one is removed.
fn an_element_that_moves_to_an_earlier_entry_is_met() {
    let entry = |group: u8, member: u8| [&[group], &[7; 900][..], &[member]].concat();
    let entries = Arc::new(OrderedEntries::in_groups(|_| 901));
    // The fifth splits the leaf, in the midst of group 1 if groups are not kept together.
    for (group, member) in [(0, 0), (1, 2), (1, 9), (2, 0), (3, 0)] {
        assert!(entries.insert(&entry(group, member)));
    }
    entries.remove(&entry(1, 2));
    let writer = {
        let entries = Arc::clone(&entries);
        thread::spawn(move || {
            entries.insert(&entry(1, 1));
            entries.remove(&entry(1, 9));
        })
    };
    let reader = {
        let entries = Arc::clone(&entries);
        thread::spawn(move || {
            let mut found = EntryList::default();
            let all = EntryRange::with_prefix(&[]);
            entries.copy(&all, false, usize::MAX, &mut found);
            assert!(found.iter().any(|entry| entry[0] == 1), "missed");
        })
    };
    join([writer, reader]);
}
