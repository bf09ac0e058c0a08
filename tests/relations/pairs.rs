//! Edges beside what else touches their records: the change feed, operations in the background, backups.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use spikelet::changes::{ChangeOptions, Consumer, Delivery, Start};
use spikelet::operations::put;
use spikelet::query::BackgroundPolicy;
use spikelet::relation::{ManyToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::storage::ManualClock;
use spikelet::{Expiration, Key, NamespaceConfig, RecordStore, Store, WritePolicy};

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
    // What has expired is not written.
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
    // Once more, over what is there.
    let restore = Restore::prepare(&file, RestoreOptions::default(), &mut |_, _| {}).unwrap();
    restore.run(&restored, &mut |_, _| {}).unwrap();
    check(&restored);
}
