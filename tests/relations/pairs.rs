//! Edges beside what else touches their records: the change feed, operations in the background,
//! backups. And these with one another.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use spikelet::changes::{ChangeOptions, Consumer, Delivery, Start};
use spikelet::operations::{self, put};
use spikelet::query::BackgroundPolicy;
use spikelet::relation::{ManyToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::storage::ManualClock;
use spikelet::{Expiration, Key, NamespaceConfig, Operation, RecordStore, Set, Store, WritePolicy};

/// Shards the edges of a record that has more than four.
fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    let ends = (("users", "following"), ("users", "followers"));
    ManyToMany::new(store, "follows", ends.0, ends.1)
        .shard_policy(ShardPolicy::manual().elements_max(Some(4)))
}

/// Edges from 0 to 1 to 9, which are sharded, and from 20 to 21, which are not.
fn link(store: &Store) {
    for target in 1..10 {
        assert!(follows(store).link(0, target).unwrap());
    }
    assert!(follows(store).link(20, 21).unwrap());
}

fn check(store: &Store) {
    let follows = follows(store);
    let audit = follows.verify(Repair::No, |_| ControlFlow::Continue(()));
    let audit = audit.unwrap();
    assert_eq!((audit.faults, audit.edges), (vec![], 20));
    let targets = follows.targets(0).page(0, 100).unwrap();
    assert_eq!(targets, (1..10).map(Key::from).collect::<Vec<_>>());
    assert!(follows.sources(21).contains(20).unwrap());
}

fn consumer(store: &Store) -> Consumer {
    let changes = store.namespace("test").unwrap().changes();
    changes.enable("users").unwrap();
    let options = ChangeOptions::default().delivery(Delivery::Published);
    let subscription = changes.subscribe("feed", Start::Now, options).unwrap();
    subscription.consumer().unwrap()
}

fn text(key: &Key<'_>) -> String {
    match key {
        Key::Integer(number) => number.to_string(),
        Key::String(text) => text.to_string(),
        key => panic!("{key:?}"),
    }
}

fn changed(consumer: &mut Consumer, most: usize) -> BTreeSet<String> {
    let batch = consumer.next_batch(most, Duration::from_secs(60)).unwrap();
    let keys = batch.iter().map(|change| change.key.as_ref().unwrap());
    keys.map(text).collect()
}

#[test]
fn the_change_feed_shows_both_ends_of_an_edge_together() {
    let store = Store::in_memory().unwrap();
    let mut consumer = consumer(&store);
    follows(&store).link("ann", "bob").unwrap();
    // A batch of one change ends behind the group.
    let both = ["ann", "bob"].map(String::from).into();
    assert_eq!(changed(&mut consumer, 1), both);
}

#[test]
fn the_change_feed_shows_the_companions_of_sharded_edges_as_they_are_stored() {
    let store = Store::in_memory().unwrap();
    let mut consumer = consumer(&store);
    link(&store);
    let shown = changed(&mut consumer, 1_000);
    assert!(shown.contains("20") && shown.contains("21"), "{shown:?}");
    let companions = shown.iter().filter(|key| key.starts_with("0:")).count();
    assert!(companions >= 2, "{shown:?}");
}

#[test]
fn an_operation_in_the_background_leaves_edges_as_they_are() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    link(&store);
    let users = store.set("users").unwrap();
    let brief = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(5)));
    users.put_with(&brief, "gone", [("n", 1)]).unwrap();
    clock.advance_ms(6_000);
    let operation = users
        .query_all()
        .operate(&BackgroundPolicy::default(), [put("seen", 1)]);
    let done = operation.unwrap().wait().unwrap();
    // Expired records are not written.
    assert_eq!((done.written, done.failed), (12, 0), "{done:?}");
    assert!(!users.exists("gone").unwrap());
    assert_eq!(users.get(20).unwrap().unwrap().get("seen"), Some(1.into()));
    check(&store);
}

#[cfg(feature = "backup")]
#[test]
fn a_backup_brings_back_both_ends_of_all_edges() {
    use spikelet::backup::{BackupOptions, Restore, RestoreOptions, save};

    let store = Store::in_memory().unwrap();
    link(&store);
    follows(&store).declare().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.asb");
    save(&store, &file, &BackupOptions::default(), &mut |_| {}).unwrap();
    let restored = Store::in_memory().unwrap();
    let restore = Restore::prepare(&file, RestoreOptions::default(), &mut |_, _| {}).unwrap();
    restore.run(&restored, &mut |_, _| {}).unwrap();
    check(&restored);
    let declared = spikelet::relation::declared_relations(&restored).unwrap();
    assert_eq!(declared.len(), 1);
    // Once more, over existing records.
    let restore = Restore::prepare(&file, RestoreOptions::default(), &mut |_, _| {}).unwrap();
    restore.run(&restored, &mut |_, _| {}).unwrap();
    check(&restored);
}

fn add(bin: &str) -> Operation {
    operations::add(bin, 1)
}

/// Has all records of a set counted in bin `n`, in the background.
fn count_in_background(set: &Set) {
    let running = set
        .query_all()
        .operate(&BackgroundPolicy::default(), [add("n")]);
    assert_eq!(running.unwrap().wait().unwrap().failed, 0);
}

#[test]
fn groups_beside_an_operation_in_the_background_lose_nothing_and_neither_does_it() {
    let store = Store::in_memory().unwrap();
    let items = store.set("items").unwrap();
    for id in 0..400 {
        items.put(id, [("n", 0)]).unwrap();
    }
    std::thread::scope(|scope| {
        let groups = scope.spawn(|| {
            for round in 0..400 {
                let pair = [round, (round + 7) % 400];
                let write = || {
                    store.write_together(|group| {
                        for id in pair {
                            group.operate(&items, id, vec![add("m")]);
                        }
                    })
                };
                while let Err(error) = write() {
                    assert!(error.is_retryable(), "{error}");
                }
            }
        });
        for _ in 0..5 {
            count_in_background(&items);
        }
        groups.join().unwrap();
    });
    for id in 0..400 {
        let item = items.get(id).unwrap().unwrap();
        assert_eq!(
            (item.get("n"), item.get("m")),
            (Some(5.into()), Some(2.into())),
            "{id}"
        );
    }
}

#[test]
fn the_change_feed_shows_what_an_operation_in_the_background_writes() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    for id in 0..30 {
        users.put(id, [("n", 0)]).unwrap();
    }
    let mut consumer = consumer(&store);
    count_in_background(&users);
    let wanted: BTreeSet<String> = (0..30).map(|id| id.to_string()).collect();
    assert_eq!(changed(&mut consumer, 100), wanted);
}

#[cfg(feature = "server")]
#[test]
fn the_change_feed_shows_what_a_wire_client_writes_and_deletes() {
    use spikelet::record::KeyHash;

    use crate::server_client::{DELETE, Message, WRITE, Wire, serve};

    let running = serve();
    let changes = running.store.namespace("test").unwrap().changes();
    changes.enable("demo").unwrap();
    let options = ChangeOptions::default().delivery(Delivery::Published);
    let feed = changes.subscribe("feed", Start::Now, options).unwrap();
    let mut consumer = feed.consumer().unwrap();
    let mut wire = Wire::to(running.handle.addr());
    for message in [
        Message::put(1, "i", 7),
        Message::about(0, WRITE | DELETE, 0, 1),
    ] {
        assert_eq!(wire.ask(&message).code, 0);
        let batch = consumer.next_batch(9, Duration::from_secs(60)).unwrap();
        let digests: Vec<_> = batch.iter().map(|change| change.digest).collect();
        assert_eq!(digests, [KeyHash::Ripemd160.digest("demo", &1.into())]);
    }
}

#[cfg(feature = "backup")]
mod backups {
    use spikelet::backup::{BackupOptions, Restore, RestoreOptions, save};

    use super::*;

    /// Copies a store into a new one by a backup.
    fn copy(store: &Store, into: &Store) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("all.asb");
        save(store, &file, &BackupOptions::default(), &mut |_| {}).unwrap();
        let restore = Restore::prepare(&file, RestoreOptions::default(), &mut |_, _| {});
        restore.unwrap().run(into, &mut |_, _| {}).unwrap();
    }

    fn copied(store: &Store) -> usize {
        let into = Store::in_memory().unwrap();
        copy(store, &into);
        into.set("items").unwrap().len() as usize
    }

    #[test]
    fn a_backup_has_the_records_of_a_transaction_and_of_a_group_once_they_are_committed() {
        let store = Store::in_memory().unwrap();
        let items = store.set("items").unwrap();
        store
            .transaction(|tx| {
                for id in 0..20 {
                    tx.in_set(&items)?.put(id, [("n", 1)])?;
                }
                assert_eq!(copied(&store), 0);
                Ok(())
            })
            .unwrap();
        assert_eq!(copied(&store), 20);
        let group = store.write_together(|group| {
            for id in 20..50 {
                group.put(&items, id, [("n", 1)]);
            }
            assert_eq!(copied(&store), 20);
        });
        group.unwrap();
        assert_eq!(copied(&store), 50);
    }

    #[test]
    fn the_change_feed_shows_restored_records_and_a_backup_what_the_background_has_written() {
        let store = Store::in_memory().unwrap();
        let users = store.set("users").unwrap();
        for id in 0..30 {
            users.put(id, [("n", 4)]).unwrap();
        }
        count_in_background(&users);
        let into = Store::in_memory().unwrap();
        let mut consumer = consumer(&into);
        copy(&store, &into);
        let wanted: BTreeSet<String> = (0..30).map(|id| id.to_string()).collect();
        assert_eq!(changed(&mut consumer, 100), wanted);
        let users = into.set("users").unwrap();
        for id in 0..30 {
            assert_eq!(users.get(id).unwrap().unwrap().get("n"), Some(5.into()));
        }
    }
}
