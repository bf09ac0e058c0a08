//! Secondary indexes over sharded collections: a query returns the root, once, under any change of
//! shards.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use spikelet::expressions::{eq, list_bin, string_bin, val};
use spikelet::operations::{ctx, put};
use spikelet::query::{BackgroundPolicy, IndexComponent, IndexDefinition, IndexType, Query};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::storage::ManualClock;
use spikelet::{
    DEFAULT_NAMESPACE, Error, Expiration, Expression, Key, Set, ShardedCounter, ShardedList,
    ShardedMap, Store, TimeShards, Value, WritePolicy, bins,
};

use crate::common::{by_force, give_turns};

const SET: &str = "users";

fn elements_of(bin: &str) -> IndexDefinition {
    IndexDefinition::new("by_element", [IndexComponent::bin(bin).elements()])
}

fn list(store: &Store, key: &str) -> ShardedList<Set> {
    let patient = WritePolicy::default().total_timeout(None);
    ShardedList::new_with(store, SET, key, "tags", &patient)
        .unwrap()
        .policy(ShardPolicy::manual())
}

/// The keys that a query returns, page by page.
fn paged(query: &Query, limit: usize) -> Vec<String> {
    let (mut found, mut query) = (Vec::new(), query.clone().limit(limit));
    loop {
        let page = query.keys().unwrap();
        found.extend(page.iter().map(|key| match &key.as_ref().unwrap().key {
            Some(Key::String(text)) => text.to_string(),
            key => panic!("{key:?}"),
        }));
        match page.cursor() {
            Some(cursor) => query = query.after(cursor),
            None => return found,
        }
    }
}

fn by_element(set: &Set) -> Query {
    set.query("by_element").unwrap()
}

/// Queries in every way for `ann`, with 0 to 99 and "red", and for `bob`, with 50 and "blue".
fn check(set: &Set, at: &str) {
    let both = ["ann".to_owned(), "bob".to_owned()];
    let ann = &both[..1];
    for (query, wanted) in [
        (by_element(set).eq(7), ann),
        (by_element(set).eq("red"), ann),
        (by_element(set).eq(100), &[]),
        (by_element(set).range(20..=30), ann),
        (by_element(set).range(20..=30).descending(), ann),
        (by_element(set).range(20..), &both),
        (by_element(set).eq(50), &both),
        (by_element(set).begins_with("r"), ann),
        (by_element(set).range("b".."z"), &both),
        (by_element(set), &both),
        (
            by_element(set).eq(50).filter(eq(string_bin("name"), "Bob")),
            &both[1..],
        ),
    ] {
        for limit in [1, 2, usize::MAX] {
            let mut found = paged(&query, limit);
            found.sort();
            assert_eq!(found, wanted, "{at}: {query:?}");
        }
        assert_eq!(query.count().unwrap(), wanted.len() as u64, "{at}");
    }
    // In the order of the requested entries.
    assert_eq!(paged(&by_element(set).range(0..=50), 1), both, "{at}");
    let last_first = by_element(set).range("a".."z").descending();
    assert_eq!(paged(&last_first, 1), both, "{at}");
    let seen = AtomicU64::new(0);
    let ended = by_element(set).range(0..).for_each_parallel(2, |record| {
        let name = record
            .unwrap()
            .view
            .bin("name")
            .map(|name| name.as_str().is_some());
        assert_eq!(name, Some(true));
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::<()>::Continue(())
    });
    assert!(ended.unwrap().is_continue());
    assert_eq!(seen.into_inner(), 2, "{at}");
    let records = by_element(set).eq(7).bins(&["name"]).unwrap();
    let record = &records.iter().next().unwrap().as_ref().unwrap().record;
    assert_eq!(record.get("name"), Some("Ann".into()), "{at}");
}

fn fill(store: &Store) -> Set {
    let set = store.set(SET).unwrap();
    set.put("ann", [("name", "Ann")]).unwrap();
    set.put("bob", [("name", "Bob")]).unwrap();
    for element in 0..100 {
        list(store, "ann").add(element).unwrap();
    }
    list(store, "ann").add("red").unwrap();
    list(store, "bob").add(50).unwrap();
    list(store, "bob").add("blue").unwrap();
    set
}

#[test]
fn elements_are_found_in_every_state_of_their_collection() {
    let store = Store::in_memory().unwrap();
    let set = fill(&store);
    set.create_index(elements_of("tags")).unwrap();
    check(&set, "unsharded");
    let ann = list(&store, "ann");
    ann.shards().activate(8).unwrap();
    check(&set, "8 shards");
    ann.shards().split().unwrap();
    check(&set, "16 shards");
    ann.shards().merge().unwrap();
    list(&store, "bob").shards().activate(2).unwrap();
    check(&set, "8 and 2 shards");
    ann.add(100).unwrap();
    assert_eq!(paged(&by_element(&set).eq(100), 9), ["ann"]);
    assert!(ann.remove(&100.into()).unwrap());
    assert_eq!(by_element(&set).eq(100).count().unwrap(), 0);
    ann.shards().deactivate().unwrap();
    check(&set, "unsharded again");
    ann.shards().activate(4).unwrap();
    ann.delete().unwrap();
    assert_eq!(by_element(&set).eq(7).count().unwrap(), 0);
    assert_eq!(paged(&by_element(&set).eq(50), 9), ["bob"]);
}

#[test]
fn an_index_is_filled_from_companions_and_found_again_after_an_opening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let set = fill(&store);
    list(&store, "ann").shards().activate(8).unwrap();
    // A second collection of the record: its companions bear its name.
    let patient = WritePolicy::default();
    let other = ShardedList::new_with(&store, SET, "ann", "links", &patient).unwrap();
    let other = other.policy(ShardPolicy::manual());
    other.add("x").unwrap();
    other.shards().activate(2).unwrap();
    set.create_index(elements_of("tags")).unwrap();
    let links = IndexComponent::bin("links").elements();
    set.create_index(IndexDefinition::new("by_link", [links]))
        .unwrap();
    check(&set, "built");
    assert_eq!(paged(&set.query("by_link").unwrap().eq("x"), 1), ["ann"]);
    drop((set, other, store));
    let store = Store::open(dir.path()).unwrap();
    let set = store.set(SET).unwrap();
    check(&set, "opened again");
    assert_eq!(
        paged(&set.query("by_link").unwrap().at_least(""), 1),
        ["ann"]
    );
}

#[test]
fn keys_and_values_of_maps_are_found_in_companions() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let definition = |name: &str, part| IndexDefinition::new(name, [part]);
    let bin = || IndexComponent::bin("scores");
    set.create_index(definition("by_key", bin().map_keys()))
        .unwrap();
    set.create_index(definition("by_value", bin().map_values()))
        .unwrap();
    let scores = ShardedMap::new(&store, SET, "game", "scores").unwrap();
    let scores = scores.policy(ShardPolicy::manual());
    for player in 0..40 {
        scores.put(format!("p{player}"), player * 10).unwrap();
    }
    scores.shards().activate(4).unwrap();
    for (index, asked) in [("by_key", Value::from("p7")), ("by_value", 70.into())] {
        let query = set.query(index).unwrap().eq(asked);
        assert_eq!(paged(&query, 1), ["game"], "{index}");
    }
    // A value that two entries have.
    scores.put("p8", 70).unwrap();
    assert_eq!(paged(&set.query("by_value").unwrap().eq(70), 1), ["game"]);
    assert_eq!(
        paged(&set.query("by_value").unwrap().range(70..=300), 1),
        ["game"]
    );
    scores.put("p8", 71).unwrap();
    assert_eq!(set.query("by_value").unwrap().eq(80).count().unwrap(), 0);
}

#[test]
fn places_among_elements_are_found_by_region() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let place = IndexComponent::bin("tags")
        .elements()
        .of_type(IndexType::GeoJson);
    set.create_index(IndexDefinition::new("by_element", [place]))
        .unwrap();
    let ann = list(&store, "ann");
    for at in 0..30 {
        let point = format!(r#"{{"type":"Point","coordinates":[{at}.5,0.5]}}"#);
        ann.add(Value::GeoJson(point)).unwrap();
    }
    let around = |at: i32| format!(r#"{{"type":"AeroCircle","coordinates":[[{at}.5,0.5],3000]}}"#);
    let wide = r#"{"type":"AeroCircle","coordinates":[[15.5,0.5],400000]}"#;
    for at in ["unsharded", "sharded"] {
        assert_eq!(
            paged(&by_element(&set).within(&around(3)), 1),
            ["ann"],
            "{at}"
        );
        assert_eq!(paged(&by_element(&set).within(wide), 1), ["ann"], "{at}");
        assert_eq!(
            by_element(&set).within(&around(60)).count().unwrap(),
            0,
            "{at}"
        );
        ann.shards().activate(8).unwrap();
    }
}

#[test]
fn queries_miss_nothing_while_shards_come_and_go() {
    let store = Store::in_memory().unwrap();
    let set = fill(&store);
    set.create_index(elements_of("tags")).unwrap();
    let (done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (set, done, asked) = (&set, &done, &asked);
                scope.spawn(move || {
                    let mut number = reader;
                    while !done.load(Ordering::SeqCst) {
                        number = (number + 7) % 100;
                        let hits = by_element(set).eq(number).keys().unwrap().len();
                        assert_eq!(hits, if number == 50 { 2 } else { 1 }, "element {number}");
                        assert_eq!(by_element(set).range(10..=90).count().unwrap(), 2);
                        assert_eq!(paged(&by_element(set).range(40..=60), 1).len(), 2);
                        asked.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let ann = list(&store, "ann");
        for _ in 0..12 {
            ann.shards().activate(2).unwrap();
            give_turns(&readers, &asked, 2);
            ann.shards().split().unwrap();
            give_turns(&readers, &asked, 2);
            ann.shards().merge().unwrap();
            give_turns(&readers, &asked, 2);
            ann.shards().deactivate().unwrap();
            give_turns(&readers, &asked, 2);
        }
        done.store(true, Ordering::SeqCst);
    });
    check(&set, "after all");
}

#[test]
fn an_index_that_cannot_hold_shards_refuses_them_and_is_refused_beside_them() {
    let whole = eq(list_bin("tags"), val(Value::List(vec![].into())));
    // Clients may write the name with a longer head, and the type as well.
    let mut encoded = whole.to_bytes().unwrap();
    let name = encoded.windows(5).position(|name| name == b"\xa4tags");
    let name = name.unwrap();
    encoded.splice(name - 1..=name, [0xcc, encoded[name - 1], 0xd9, 4]);
    let longer = Expression::from_bytes(&encoded).unwrap();
    let refusals = [
        IndexDefinition::new("longer", [IndexComponent::expression(longer)]),
        IndexDefinition::new(
            "both",
            [IndexComponent::bin("tags").elements(), "name".into()],
        ),
        elements_of("tags").unique(true),
        IndexDefinition::new(
            "first",
            [IndexComponent::bin("tags").at([ctx::list_index(0)])],
        ),
        IndexDefinition::new("whole", [IndexComponent::expression(whole)]),
    ];
    for definition in refusals {
        let store = Store::in_memory().unwrap();
        let set = fill(&store);
        // Two records would have the same key.
        list(&store, "bob").delete().unwrap();
        set.create_index(definition.clone()).unwrap();
        let ann = list(&store, "ann");
        let refused = ann.shards().activate(4).unwrap_err();
        assert!(
            matches!(&refused, Error::ShardIndexed { bin, .. } if **bin == *"tags"),
            "{refused}"
        );
        assert_eq!(refused.result_code(), 22);
        assert!(refused.to_string().contains(definition.name()), "{refused}");
        assert_eq!(ann.len().unwrap(), 101);
        // In a transaction, too.
        let in_transaction = store.transaction(|tx| {
            ShardedList::new(tx, SET, "ann", "tags")?
                .shards()
                .activate(4)
        });
        assert!(matches!(in_transaction, Err(Error::ShardIndexed { .. })));
        set.drop_index(definition.name()).unwrap();
        ann.shards().activate(4).unwrap();
        let refused = set.create_index(definition).unwrap_err();
        assert!(matches!(refused, Error::ShardIndexed { .. }), "{refused}");
        assert!(store.set(SET).unwrap().query("both").is_err());
    }
}

#[test]
fn counters_and_feeds_are_not_sharded_beside_an_index_of_theirs() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    set.create_index(IndexDefinition::new("by_hits", ["hits"]))
        .unwrap();
    let hits = ShardedCounter::new(&store, SET, "home", "hits").unwrap();
    hits.add(3).unwrap();
    let refused = hits.shards().activate(2).unwrap_err();
    assert!(matches!(refused, Error::ShardIndexed { .. }), "{refused}");
    assert_eq!(set.query("by_hits").unwrap().eq(3).count().unwrap(), 1);
    set.create_index(elements_of("feed")).unwrap();
    let feed = TimeShards::new(&store, SET, "home", "feed", TimeWidth::Daily).unwrap();
    let refused = feed.add(SystemTime::now(), "x").unwrap_err();
    assert!(matches!(refused, Error::ShardIndexed { .. }), "{refused}");
}

#[test]
fn an_operation_in_the_background_meets_the_root_once() {
    let store = Store::in_memory().unwrap();
    let set = fill(&store);
    set.create_index(elements_of("tags")).unwrap();
    list(&store, "ann").shards().activate(8).unwrap();
    let operated = by_element(&set)
        .range(10..=60)
        .operate(&BackgroundPolicy::default(), [put("seen", true)])
        .unwrap();
    let done = operated.wait().unwrap();
    assert_eq!(
        (done.written, done.passed_over, done.failed),
        (2, 0, 0),
        "{done:?}"
    );
    let ann = set.get("ann").unwrap().unwrap();
    assert_eq!(ann.get("seen"), Some(true.into()));
    check(&set, "after it");
}

#[test]
fn a_transaction_that_shards_a_collection_moves_its_entries_with_it() {
    let store = Store::in_memory().unwrap();
    let set = fill(&store);
    set.create_index(elements_of("tags")).unwrap();
    store
        .transaction(|tx| {
            let ann = ShardedList::new(tx, SET, "ann", "tags")?.policy(ShardPolicy::manual());
            ann.shards().activate(4)?;
            ann.add(500)?;
            ann.shards().split()
        })
        .unwrap();
    assert_eq!(paged(&by_element(&set).eq(500), 1), ["ann"]);
    check(&set, "in a transaction");
}

#[test]
fn what_is_left_of_a_root_that_was_replaced_is_not_found() {
    let store = Store::in_memory().unwrap();
    let set = fill(&store);
    set.create_index(elements_of("tags")).unwrap();
    list(&store, "ann").shards().activate(8).unwrap();
    set.delete_with(&by_force(), "ann").unwrap();
    assert_eq!(by_element(&set).eq(7).count().unwrap(), 0);
    set.put("ann", bins! { "name" => "Ann" }).unwrap();
    assert_eq!(by_element(&set).eq(7).count().unwrap(), 0);
    list(&store, "ann").add(1).unwrap();
    list(&store, "ann").shards().activate(2).unwrap();
    assert_eq!(paged(&by_element(&set).range(0..=40), 1), ["ann"]);
    let orphaned: Vec<i64> = (2..100)
        .filter(|n| by_element(&set).eq(*n).count().unwrap() > 0)
        .filter(|n| *n != 50)
        .collect();
    assert_eq!(orphaned, [] as [i64; 0]);
    set.truncate(None).unwrap();
    assert_eq!(by_element(&set).count().unwrap(), 0);
}

#[test]
fn an_expired_root_that_an_index_cannot_hold_is_counted() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let set = store.set(SET).unwrap();
    let ann = list(&store, "ann");
    ann.add("a").unwrap();
    ann.shards().activate(1).unwrap();
    let soon = Expiration::After(Duration::from_secs(1));
    let soon = WritePolicy::default()
        .expiration(soon)
        .override_shards(true);
    set.touch_with(&soon, "ann").unwrap();
    clock.advance_ms(2_000);
    set.create_index(elements_of("tags").unique(true)).unwrap();
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    assert_eq!(namespace.indexes()[0].unreadable, 1);
}

#[test]
fn a_busy_unique_key_is_no_reason_to_shard() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let set = store.set(SET).unwrap();
    set.create_index(elements_of("tags").unique(true)).unwrap();
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(1)));
    set.put_with(&soon, "eve", bins! { "tags" => vec!["a"] })
        .unwrap();
    clock.advance_ms(2_000);
    let hasty = WritePolicy::default().total_timeout(Duration::from_millis(20));
    let dan = ShardedList::new_with(&store, SET, "dan", "tags", &hasty).unwrap();
    let dan = dan.policy(ShardPolicy::manual().contention(true));
    let refused = set.update("eve", |_| {
        Ok(thread::scope(|scope| {
            scope.spawn(|| dan.add("a")).join().unwrap()
        }))
    });
    let refused = refused.unwrap().unwrap_err();
    assert!(matches!(refused, Error::KeyBusy { .. }), "{refused}");
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    assert!(namespace.recent_transitions().is_empty());
}
