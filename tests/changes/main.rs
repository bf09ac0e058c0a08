//! Following the changes of sets: a subscription goes on where it was, whichever process dies.
//!
//! The child is this test binary, started again with [`CHILD_DIR`] set: it writes records, and
//! consumes their changes into a file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod refused;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use spikelet::changes::{
    Change, ChangeKind, ChangeOptions, Consumer, Delivery, Position, Start, Subscription,
};
use spikelet::expressions::{eq, int_bin, int_val};
use spikelet::{Durability, Error, Key, Namespace, NamespaceConfig, Store, WritePolicy};

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

fn config() -> NamespaceConfig {
    NamespaceConfig::new("test").durability(Durability::Interval(Duration::from_millis(5)))
}

fn open(dir: &Path) -> (Store, Namespace) {
    let store = Store::builder()
        .path(dir)
        .namespace(config())
        .open()
        .unwrap();
    let namespace = store.namespace("test").unwrap();
    (store, namespace)
}

fn memory() -> (Store, Namespace) {
    let store = Store::builder().namespace(config()).open().unwrap();
    let namespace = store.namespace("test").unwrap();
    (store, namespace)
}

fn subscribe(namespace: &Namespace, options: ChangeOptions) -> Subscription {
    namespace.changes().enable("users").unwrap();
    namespace
        .changes()
        .subscribe("test", Start::Now, options)
        .unwrap()
}

fn published() -> ChangeOptions {
    ChangeOptions::default().delivery(Delivery::Published)
}

fn keys(changes: &[Change]) -> Vec<String> {
    let keys = changes.iter().map(|change| change.key.as_ref().unwrap());
    keys.map(ToString::to_string).collect()
}

fn put(store: &Store, key: impl Into<Key<'static>>, age: i64) {
    let users = store.set("users").unwrap();
    users.put(key, [("age", age)]).unwrap();
}

#[test]
fn a_subscription_goes_on_behind_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, namespace) = open(dir.path());
    put(&store, "before", 1);
    let subscription = subscribe(&namespace, ChangeOptions::default());
    let mut consumer = subscription.consumer().unwrap();
    for key in ["a", "b", "c"] {
        put(&store, key, 1);
    }
    let first = consumer.next_batch(2, LONG).unwrap();
    consumer.ack(&first).unwrap();
    let mut shown = keys(&first);
    while shown.len() < 3 {
        shown.extend(keys(&consumer.next_batch(2, LONG).unwrap()));
    }
    let expected: Vec<String> = ["a", "b", "c"].map(|key| Key::from(key).to_string()).into();
    assert_eq!(shown, expected);
    assert!(consumer.next_batch(2, NOW).unwrap().is_empty());
    // Changes that were not acknowledged come again, to another consumer and after a restart.
    let again = expected[first.len()..].to_vec();
    drop(consumer);
    let mut consumer = subscription.consumer().unwrap();
    assert_eq!(keys(&consumer.next_batch(9, LONG).unwrap()), again);
    drop((consumer, subscription));
    store.close().unwrap();
    drop((store, namespace));
    let (store, namespace) = open(dir.path());
    let subscription = subscribe(&namespace, ChangeOptions::default());
    let mut consumer = subscription.consumer().unwrap();
    let batch = consumer.next_batch(9, LONG).unwrap();
    assert_eq!(keys(&batch), again);
    consumer.ack(&batch).unwrap();
    let stats = &namespace.changes().subscriptions()[0];
    assert_eq!((&*stats.name, stats.has_lost), ("test", false));
    assert_eq!(namespace.changes().sets(), ["users".into()]);
    assert!(namespace.changes().unsubscribe("test").unwrap());
    assert!(!namespace.changes().unsubscribe("test").unwrap());
    assert!(matches!(consumer.ack(&batch), Ok(())), "it was before");
    drop(store);
}

#[test]
fn a_consumer_that_waits_holds_back_no_changes_of_other_sets() {
    let (store, namespace) = memory();
    namespace.changes().enable("busy").unwrap();
    let subscription = subscribe(&namespace, published().set("users"));
    let mut consumer = subscription.consumer().unwrap();
    let behind = || namespace.changes().subscriptions()[0].behind;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| consumer.next());
        let busy = store.set("busy").unwrap();
        for key in 0..10_000 {
            busy.put(key, [("n", key)]).unwrap();
        }
        let until = std::time::Instant::now() + LONG;
        while behind() >= 10_000 && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        put(&store, "ada", 36);
        let batch = waiting.join().unwrap().unwrap().unwrap();
        assert_eq!(keys(&batch), [Key::from("ada").to_string()]);
    });
    assert!(behind() < 10_000, "{}", behind());
}

#[test]
fn shares_divide_the_records_among_consumers() {
    let (store, namespace) = memory();
    let subscription = subscribe(&namespace, published().shares(3));
    let mut consumers: Vec<Consumer> = (0..3)
        .map(|share| subscription.consumer_of(share).unwrap())
        .collect();
    let taken = subscription.consumer_of(1).unwrap_err();
    assert!(matches!(taken, Error::Forbidden(_)), "{taken}");
    let beyond = subscription.consumer_of(3).unwrap_err();
    assert!(matches!(beyond, Error::Parameter(_)), "{beyond}");
    for key in 0..300 {
        put(&store, key, 1);
        put(&store, key, 2);
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for (share, consumer) in consumers.iter_mut().enumerate() {
        loop {
            let batch = consumer.next_batch(50, NOW).unwrap();
            if batch.is_empty() {
                break;
            }
            for key in keys(&batch) {
                assert_eq!(*seen.entry(key.clone()).or_insert(share), share, "{key}");
                all.push(key);
            }
            consumer.ack(&batch).unwrap();
        }
    }
    assert_eq!((all.len(), seen.len()), (600, 300));
    assert_eq!(
        (0..3)
            .filter(|share| seen.values().any(|of| of == share))
            .count(),
        3
    );
    // A truncation concerns all.
    store.set("users").unwrap().truncate(None).unwrap();
    for consumer in &mut consumers {
        let batch = consumer.next_batch(9, LONG).unwrap();
        assert!(matches!(
            batch[0].kind,
            ChangeKind::Truncate { before: None }
        ));
        assert_eq!(batch[0].set.as_deref(), Some("users"));
    }
}

#[test]
fn sets_filters_and_records_are_as_asked_for() {
    let (store, namespace) = memory();
    let changes = namespace.changes();
    changes.enable("users").unwrap();
    changes.enable("orders").unwrap();
    let grown = eq(int_bin("age"), int_val(18));
    let options = published().set("users").filter(grown).records(true);
    let refused = changes.subscribe("x", Start::Now, published().set("nobody"));
    assert!(matches!(refused, Err(Error::Parameter(_))));
    let subscription = changes
        .subscribe("test", Start::Now, options.clone())
        .unwrap();
    assert_eq!(subscription.options(), &options);
    let other = changes.subscribe("test", Start::Now, published());
    assert!(
        matches!(other, Err(Error::Parameter(_))),
        "of other options"
    );
    put(&store, "young", 7);
    put(&store, "old", 18);
    store
        .set("orders")
        .unwrap()
        .put("o", [("age", 18)])
        .unwrap();
    put(&store, "gone", 7);
    store.set("users").unwrap().delete("gone").unwrap();
    let mut consumer = subscription.consumer().unwrap();
    let batch = consumer.next_batch(9, LONG).unwrap();
    let shown: Vec<_> = batch
        .iter()
        .map(|change| {
            let age = change.record.as_ref().and_then(|record| record.get("age"));
            (change.kind, age.is_some(), change.generation)
        })
        .collect();
    let expected = [
        (ChangeKind::Put, true, 1),
        // Both are of a record that is gone.
        (ChangeKind::Put, false, 1),
        (ChangeKind::Delete, false, 0),
    ];
    assert_eq!(shown, expected);
    assert!(
        batch
            .iter()
            .all(|change| change.set.as_deref() == Some("users"))
    );
    assert!(batch.is_sorted_by_key(|change| change.position));
    changes.disable("users").unwrap();
    put(&store, "unseen", 18);
    let lost = consumer.next_batch(9, NOW);
    assert!(matches!(lost, Err(Error::ChangesLost { .. })));
}

#[test]
fn whoever_begins_now_and_then_scans_misses_nothing() {
    let (store, namespace) = memory();
    namespace.changes().enable("users").unwrap();
    let mut rounds = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let store = &store;
            scope.spawn(move || (0..2_000).for_each(|key| put(store, key * 3 + writer, 1)));
        }
        for round in 0..20 {
            let changes = namespace.changes();
            let name = format!("round {round}");
            let subscription = changes.subscribe(&name, Start::Now, published()).unwrap();
            let mut found = BTreeSet::new();
            let scanned = namespace.scan(|record| {
                found.insert(record.unwrap().digest);
                std::ops::ControlFlow::<()>::Continue(())
            });
            assert!(scanned.is_continue());
            rounds.push((subscription, found));
        }
    });
    for (subscription, mut found) in rounds {
        let mut consumer = subscription.consumer().unwrap();
        loop {
            let batch = consumer.next_batch(1_000, NOW).unwrap();
            if batch.is_empty() {
                break;
            }
            found.extend(batch.iter().map(|change| change.digest));
        }
        assert_eq!(found.len(), 6_000, "{}", subscription.name());
    }
    let changes = namespace.changes();
    let mut all = changes.read(Start::Beginning, published()).unwrap();
    let mut count = 0;
    loop {
        let batch = all.next_batch(500, NOW).unwrap();
        if batch.is_empty() {
            break;
        }
        count += batch.len();
    }
    assert_eq!(count, 6_000);
}

#[test]
fn a_durable_subscription_asks_for_syncs_where_nobody_else_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let config = config().durability(Durability::Process).background(false);
    let store = Store::builder()
        .path(dir.path())
        .namespace(config)
        .open()
        .unwrap();
    let namespace = store.namespace("test").unwrap();
    let subscription = subscribe(&namespace, ChangeOptions::default());
    let lsn = store.set("users").unwrap().put("a", [("age", 1)]).unwrap();
    let batch = subscription
        .consumer()
        .unwrap()
        .next_batch(9, LONG)
        .unwrap();
    assert_eq!(batch[0].position.lsn(), lsn);
    assert!(namespace.durable_lsn() >= lsn);
}

#[test]
fn a_subscription_that_is_too_slow_is_told_and_can_go_on_from_now() {
    let dir = tempfile::tempdir().unwrap();
    let config = config()
        .max_device_bytes(200 << 20)
        .change_bytes_max(16 << 20)
        .write_lanes(1)
        .background(false);
    let store = Store::builder()
        .path(dir.path())
        .namespace(config)
        .open()
        .unwrap();
    let namespace = store.namespace("test").unwrap();
    let subscription = subscribe(&namespace, published());
    let users = store.set("users").unwrap();
    let mut random = 1u64;
    for _ in 0..60 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) as u8
        })
        .take(1_000_000)
        .collect();
        users.put("large", [("blob", bytes)]).unwrap();
    }
    namespace.maintain().unwrap();
    assert!(namespace.changes().subscriptions()[0].has_lost);
    let mut consumer = subscription.consumer().unwrap();
    for _ in 0..2 {
        let lost = consumer.next_batch(9, NOW).unwrap_err();
        assert!(matches!(lost, Error::ChangesLost { .. }), "{lost}");
    }
    let old = namespace
        .changes()
        .read(Start::After("1".parse().unwrap()), published());
    assert!(matches!(old, Err(Error::ChangesLost { .. })));
    consumer.seek(Start::Now).unwrap();
    put(&store, "after", 1);
    assert_eq!(consumer.next_batch(9, LONG).unwrap().len(), 1);
    assert!(!namespace.changes().subscriptions()[0].has_lost);
}

#[test]
fn positions_are_written_and_read() {
    for text in ["0", "1207", "1207.3"] {
        assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
    }
    for text in ["", "x", "1.", "1.x", "-1"] {
        let refused = text.parse::<Position>().unwrap_err();
        assert!(matches!(refused, Error::Parameter(_)), "{refused}");
    }
}

const CHILD_DIR: &str = "SPIKELET_CHANGES_TEST_DIR";
const PROGRESS: &str = "still consuming";
const WRITERS: i64 = 3;
const RECORDS: i64 = 20;

/// A line of the file that the consumer fills.
fn line_of(change: &Change) -> String {
    let kind = match change.kind {
        ChangeKind::Put => "put",
        ChangeKind::Delete => "delete",
        _ => "other",
    };
    let key = change.key.as_ref().map(ToString::to_string);
    let (position, generation) = (change.position, change.generation);
    format!("{position} {} {kind} {generation}\n", key.unwrap())
}

fn consume(consumer: &mut Consumer, to: &mut std::fs::File, wait: Duration) -> bool {
    let batch = consumer.next_batch(20, wait).unwrap();
    let lines: String = batch.iter().map(line_of).collect();
    to.write_all(lines.as_bytes()).unwrap();
    consumer.ack(&batch).unwrap();
    !batch.is_empty()
}

fn mirror(dir: &Path) -> std::fs::File {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    options.open(dir.join("mirror")).unwrap()
}

/// The child's work, until it is killed.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let (store, namespace) = open(&dir.join("store"));
    let subscription = subscribe(&namespace, ChangeOptions::default());
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let users = store.set("users").unwrap();
            scope.spawn(move || {
                let patient = WritePolicy::default().total_timeout(None);
                for write in writer.. {
                    let key = (write * 7) % RECORDS;
                    let done = match write % 11 {
                        0 => users.delete_with(&patient, key).map(drop),
                        _ => users
                            .put_with(&patient, key, [("write", vec![write as u8; 300])])
                            .map(drop),
                    };
                    if let Err(error) = done
                        && !matches!(error, Error::NotFound { .. })
                    {
                        eprintln!("{error}");
                        std::process::exit(1);
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut consumer = subscription.consumer().unwrap();
            let mut file = mirror(dir);
            for batch in 0.. {
                if consume(&mut consumer, &mut file, LONG) && batch % 10 == 0 {
                    println!("{PROGRESS}");
                }
            }
        });
    });
}

fn killed_after(lines: usize, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let progress = output
        .map_while(Result::ok)
        .filter(|line| line.contains(PROGRESS));
    assert_eq!(
        progress.take(lines).count(),
        lines,
        "the child ended by itself"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Checks that each record's changes follow one another without a gap, and end at the record in the
/// store.
fn check_mirror(dir: &Path, store: &Store) -> usize {
    let text = std::fs::read_to_string(dir.join("mirror")).unwrap();
    let mut changes: BTreeMap<Position, &str> = BTreeMap::new();
    // A line that the kill has cut is not one; its batch comes again.
    for line in text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
    {
        let Some((position, what)) = line.split_once(' ') else {
            continue;
        };
        let is_whole = what.split(' ').count() == 3;
        let Ok(position) = position.parse() else {
            continue;
        };
        if is_whole {
            let known = changes.insert(position, what);
            assert!(known.is_none_or(|known| known == what), "{position} twice");
        }
    }
    let mut generations: BTreeMap<&str, u32> = BTreeMap::new();
    for (position, what) in &changes {
        let [key, kind, generation] = what.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{what}");
        };
        let now = generations.entry(key).or_default();
        let next = if kind == "put" { *now + 1 } else { 0 };
        assert!(
            kind == "put" || *now > 0,
            "{position}: {what}: deleted twice"
        );
        assert_eq!(
            generation.parse::<u32>().unwrap(),
            next,
            "{position}: {what}"
        );
        *now = next;
    }
    let users = store.set("users").unwrap();
    for key in 0..RECORDS {
        let record = users.get(key).unwrap();
        let stored = record.map_or(0, |record| u32::from(record.metadata().generation));
        let text = Key::from(key).to_string();
        let mirrored = generations.get(text.as_str()).copied().unwrap_or_default();
        assert_eq!(stored, mirrored, "record {key}");
    }
    changes.len()
}

#[test]
fn no_change_is_missing_or_invented_when_writers_and_consumer_are_killed() {
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        1_000
    } else {
        6
    };
    let mut dir = tempfile::tempdir().unwrap();
    let (mut all, mut of_store) = (0, 0);
    for round in 0..rounds {
        // Each check reads all changes of the store's life.
        if round % 10 == 9 {
            dir = tempfile::tempdir().unwrap();
            all += std::mem::take(&mut of_store);
        }
        killed_after(1 + (round * 7) % 13, dir.path());
        let (store, namespace) = open(&dir.path().join("store"));
        let subscription = subscribe(&namespace, ChangeOptions::default());
        let mut consumer = subscription.consumer().unwrap();
        namespace.sync().unwrap();
        let mut file = mirror(dir.path());
        // The line that the kill has cut ends.
        file.write_all(b"\n").unwrap();
        while consume(&mut consumer, &mut file, NOW) {}
        of_store = check_mirror(dir.path(), &store);
        drop(consumer);
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
    println!("{} changes over {rounds} kills", all + of_store);
}

#[test]
fn a_consumer_of_few_changes_notes_its_position_on_the_way_through_many_others() {
    let (store, namespace) = memory();
    let subscription = subscribe(&namespace, published().set("users"));
    namespace.changes().enable("others").unwrap();
    let mut consumer = subscription.consumer().unwrap();
    let others = store.set("others").unwrap();
    for n in 0..40_000 {
        others.put(n % 9, [("n", n)]).unwrap();
    }
    put(&store, "alice", 42);
    let acknowledged = || namespace.changes().subscriptions().remove(0).acknowledged[0];
    let before = acknowledged();
    let batch = consumer.next_batch(9, NOW).unwrap();
    assert_eq!(keys(&batch), ["\"alice\""]);
    assert!((before..batch.position().lsn()).contains(&acknowledged()) && acknowledged() > before);
}
