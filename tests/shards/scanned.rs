//! Scans, counts and queries of all records pass over the records that hold shards, unless they are
//! asked for them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Mutex;

use spikelet::operations::put;
use spikelet::query::BackgroundPolicy;
use spikelet::shard::{TimeWidth, sharded_collections};
use spikelet::{Key, RecordSet, Set, ShardedList, Store, TimeShards};

fn key_of(key: Option<Key<'_>>) -> String {
    match key {
        Some(Key::String(text)) => text.to_string(),
        key => panic!("{key:?}"),
    }
}

/// Three records, one of them the root of a list in 4 shards and of a feed in one bucket.
fn fill(store: &Store) {
    let users = store.set("users").unwrap();
    for name in ["ann", "bob", "eve"] {
        users.put(name, [("name", name)]).unwrap();
    }
    let list = ShardedList::new(store, "users", "ann", "tags").unwrap();
    list.add("red").unwrap();
    list.shards().activate(4).unwrap();
    let feed = TimeShards::new(store, "users", "ann", "feed", TimeWidth::Daily).unwrap();
    feed.add(std::time::SystemTime::now(), "hello").unwrap();
}

/// What the set shows, by every way there is.
fn shown(set: &Set) -> BTreeSet<String> {
    let mut scanned = BTreeSet::new();
    let _: ControlFlow<()> = set.scan(|record| {
        scanned.insert(key_of(record.unwrap().key()));
        ControlFlow::Continue(())
    });
    let mut paged = BTreeSet::new();
    let mut query = set.query_all().limit(2);
    loop {
        let page = query.keys().unwrap();
        paged.extend(
            page.iter()
                .map(|key| key_of(key.as_ref().unwrap().key.clone())),
        );
        match page.cursor() {
            Some(cursor) => query = query.after(cursor),
            None => break,
        }
    }
    assert_eq!(paged, scanned);
    let parallel = Mutex::new(BTreeSet::new());
    let ended = set.query_all().for_each_parallel(2, |record| {
        parallel
            .lock()
            .unwrap()
            .insert(key_of(record.unwrap().key()));
        ControlFlow::<()>::Continue(())
    });
    assert!(ended.unwrap().is_continue());
    assert_eq!(parallel.into_inner().unwrap(), scanned);
    assert_eq!(set.query_all().count().unwrap(), scanned.len() as u64);
    assert_eq!(set.len(), scanned.len() as u64);
    scanned
}

fn users() -> BTreeSet<String> {
    ["ann", "bob", "eve"].map(String::from).into()
}

#[test]
fn companions_are_shown_to_those_who_ask_for_them() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    assert!(set.is_empty() && set.with_companions().is_empty());
    fill(&store);
    assert_eq!(shown(&set), users());
    let all = shown(&set.with_companions());
    // Four shards, a bucket, the page of its year and that of all years.
    assert_eq!(all.len(), 3 + 4 + 3);
    assert!(all.contains("ann:3") && all.is_superset(&users()));
    let namespace = store.namespace("test").unwrap();
    assert_eq!(namespace.query_all().count().unwrap(), 3);
    assert_eq!(namespace.query_all().with_companions().count().unwrap(), 10);
    // Calls that look for shards see all stored records.
    assert_eq!(sharded_collections(&set).unwrap().len(), 2);
    let mut records = 0;
    set.scan_each(&mut |_| {
        records += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(records, 10);
}

#[test]
fn an_operation_on_all_records_leaves_companions_alone() {
    let store = Store::in_memory().unwrap();
    fill(&store);
    let set = store.set("users").unwrap();
    let all = set
        .query_all()
        .operate(&BackgroundPolicy::default(), [put("seen", 1)]);
    let done = all.unwrap().wait().unwrap();
    assert_eq!((done.written, done.failed), (3, 0), "{:?}", done.failures);
}

#[test]
fn an_opening_remembers_which_sets_have_companions() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fill(&store);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let set = store.set("users").unwrap();
    assert_eq!(shown(&set), users());
    // Companions made by a transaction count, too.
    store
        .transaction(|tx| {
            let list = ShardedList::new(tx, "others", "zoe", "tags")?;
            list.add(1)?;
            list.shards().activate(2)
        })
        .unwrap();
    assert_eq!(store.set("others").unwrap().len(), 1);
    set.truncate(None).unwrap();
    assert!(set.is_empty() && set.with_companions().is_empty());
}
