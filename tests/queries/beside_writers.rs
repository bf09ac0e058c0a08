//! Queries and builds while others write.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::{Error, Key, ShardedList, Store};

use crate::namespace;

/// Records below this are left alone by writers that move the others to and fro.
const RESTING: i64 = 100;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `readers` while two threads move records between groups, and create and delete some.
fn beside_writers(store: &Store, readers: impl FnOnce()) {
    let things = store.set("things").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (things, is_over) = (&things, &is_over);
            scope.spawn(move || {
                let mut round = writer;
                while !is_over.load(Ordering::Relaxed) {
                    let id = RESTING + round % 200;
                    match round % 5 {
                        0 => drop(things.delete(id).unwrap()),
                        _ => drop(things.put(id, [("group", round % 3)]).unwrap()),
                    }
                    round += 7;
                }
            });
        }
        readers();
        is_over.store(true, Ordering::Relaxed);
    });
}

fn filled() -> Store {
    let store = Store::in_memory().unwrap();
    let things = store.set("things").unwrap();
    for id in 0..RESTING {
        things.put(id, [("group", 1)]).unwrap();
    }
    store
}

fn assert_complete(store: &Store) {
    let query = store.set("things").unwrap().query("by_group").unwrap();
    let (mut query, mut seen) = (query.eq(1).limit(9), std::collections::HashSet::new());
    loop {
        let page = query.records().unwrap();
        for found in page.iter() {
            let record = &found.as_ref().unwrap().record;
            assert_eq!(record.get("group"), Some(1.into()), "does not fit");
            match record.key() {
                Some(Key::Integer(id)) if id < RESTING => assert!(seen.insert(id), "twice"),
                _ => {}
            }
        }
        match page.cursor() {
            Some(cursor) => query = query.after(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), RESTING as usize, "one was missed");
}

#[test]
fn pages_miss_nothing_that_rests_and_return_nothing_that_does_not_fit() {
    let store = filled();
    let things = store.set("things").unwrap();
    things
        .create_index(IndexDefinition::new("by_group", ["group"]))
        .unwrap();
    beside_writers(&store, || (0..300).for_each(|_| assert_complete(&store)));
    assert_exact(&store);
}

#[test]
fn an_index_that_is_built_beside_writers_is_complete() {
    let store = filled();
    let things = store.set("things").unwrap();
    beside_writers(&store, || {
        for _ in 0..20 {
            things
                .create_index(IndexDefinition::new("by_group", ["group"]))
                .unwrap();
            assert_complete(&store);
            things.drop_index("by_group").unwrap();
        }
        things
            .create_index(IndexDefinition::new("by_group", ["group"]))
            .unwrap();
    });
    assert_exact(&store);
}

/// Every record has its entry, and there are no others.
fn assert_exact(store: &Store) {
    let things = store.set("things").unwrap();
    let entries = namespace(store).indexes().remove(0).entries;
    assert_eq!(entries, things.len());
    let by_group = things.query("by_group").unwrap();
    assert_eq!(by_group.count().unwrap(), things.len());
    for group in 0..3 {
        let scanned = things.query_all().filter(spikelet::expressions::eq(
            spikelet::expressions::int_bin("group"),
            group,
        ));
        let indexed = by_group.clone().eq(group);
        assert_eq!(indexed.count().unwrap(), scanned.count().unwrap());
    }
}

#[test]
fn several_threads_meet_each_record_once_and_end_early() {
    let store = filled();
    let things = store.set("things").unwrap();
    things
        .create_index(IndexDefinition::new("by_group", ["group"]))
        .unwrap();
    for query in [things.query_all(), things.query("by_group").unwrap().eq(1)] {
        let met = std::sync::Mutex::new(Vec::new());
        let all = query.for_each_parallel(3, |record| {
            met.lock().unwrap().push(record.unwrap().digest);
            ControlFlow::<()>::Continue(())
        });
        assert!(all.unwrap().is_continue());
        let mut met = met.into_inner().unwrap();
        assert_eq!(met.len(), RESTING as usize);
        met.sort_unstable();
        met.dedup();
        assert_eq!(met.len(), RESTING as usize);
        let seen = AtomicU64::new(0);
        let ended = query.for_each_parallel(3, |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Break("enough")
        });
        assert_eq!(ended.unwrap(), ControlFlow::Break("enough"));
        assert!(seen.into_inner() <= 3);
        let ordered = query
            .limit(1)
            .for_each_parallel(2, |_| ControlFlow::<()>::Continue(()));
        assert!(ordered.is_err());
    }
}

#[test]
fn an_index_that_another_call_builds_is_waited_for() {
    for is_unique in [false, true] {
        let store = Store::in_memory().unwrap();
        let things = store.set("things").unwrap();
        for id in 0..2 {
            things.put(id, [("group", 1)]).unwrap();
        }
        let by_group = || IndexDefinition::new("by_group", ["group"]).unique(is_unique);
        let (ended, has_ended) = channel();
        let (builds, other) = std::thread::scope(|scope| {
            // While the record is locked, no build comes to its end.
            let builds = things.update(0, |_| {
                let build = things.build_index(by_group())?;
                let other = things.build_index(by_group())?;
                scope.spawn(|| ended.send(things.create_index(by_group())).unwrap());
                assert!(has_ended.recv_timeout(Duration::from_millis(50)).is_err());
                assert!(!build.is_finished() && !other.is_finished());
                Ok((build, other))
            });
            builds.unwrap()
        });
        let (build, created) = (builds.wait(), has_ended.recv_timeout(PATIENCE).unwrap());
        if is_unique {
            assert!(matches!(build, Err(Error::NotUnique { .. })), "{build:?}");
            assert!(
                matches!(created, Err(Error::NotUnique { .. })),
                "{created:?}"
            );
            assert!(matches!(other.wait(), Err(Error::IndexNotFound(_))));
            assert!(namespace(&store).indexes().is_empty());
        } else {
            build.unwrap();
            created.unwrap();
            other.wait().unwrap();
            let query = things.query("by_group").unwrap();
            assert_eq!(query.eq(1).count().unwrap(), 2);
        }
    }
}

#[test]
fn an_index_that_another_call_has_given_up_is_built_anew() {
    let store = filled();
    let things = store.set("things").unwrap();
    let by_group = || IndexDefinition::new("by_group", ["group"]);
    let (ended, has_ended) = channel();
    std::thread::scope(|scope| {
        let canceled = things.update(0, |_| {
            let build = things.build_index(by_group())?;
            // Not its own build: it leaves that alone.
            things.build_index(by_group())?.cancel()?;
            scope.spawn(|| ended.send(things.create_index(by_group())).unwrap());
            assert!(has_ended.recv_timeout(Duration::from_millis(50)).is_err());
            build.cancel()
        });
        canceled.unwrap();
        has_ended.recv_timeout(PATIENCE).unwrap().unwrap();
    });
    assert_complete(&store);
}

#[test]
fn a_root_sharded_while_threads_go_through_its_entries_is_met_once() {
    let store = Store::in_memory().unwrap();
    let things = store.set("things").unwrap();
    let by_tag = IndexDefinition::new("by_tag", [IndexComponent::bin("tags").elements()]);
    things.create_index(by_tag).unwrap();
    const MANY: i64 = 10_000;
    things.put("root", [("tags", vec![0, MANY])]).unwrap();
    for tag in 1..MANY {
        things.put(tag, [("tags", vec![tag])]).unwrap();
    }
    let (met_root, root_is_met) = channel();
    let (sharded, is_sharded) = channel();
    let is_sharded = Mutex::new(is_sharded);
    let met = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            root_is_met.recv().unwrap();
            let tags = ShardedList::new(store, "things", "root", "tags").unwrap();
            tags.shards().activate(2).unwrap();
            sharded.send(()).unwrap();
        });
        let query = things.query("by_tag").unwrap().at_least(0);
        let ended = query.for_each_parallel(1, |record| {
            let digest = record.unwrap().digest;
            let mut met = met.lock().unwrap();
            met.push(digest);
            match met.len() {
                1 => met_root.send(()).unwrap(),
                2 => {
                    let waited = is_sharded.lock().unwrap();
                    waited.recv_timeout(Duration::from_secs(60)).unwrap();
                }
                _ => {}
            }
            ControlFlow::<()>::Continue(())
        });
        assert!(ended.unwrap().is_continue());
    });
    assert_eq!(met.into_inner().unwrap().len() as i64, MANY);
}
