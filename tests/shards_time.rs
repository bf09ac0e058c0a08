//! Time shards: elements by hours and days.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spikelet::{
    Error, HotRecord, Key, ManualClock, Operated, Operation, Record, RecordSet, RecordStore,
    Result, Set, Store, TimeShards, TimeWidth, Value, WritePolicy, operations,
};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// 2010-01-01T00:00:00Z: where the store's clock begins.
const BEGIN: u64 = 1_262_304_000;

/// 2024-02-28T00:00:00Z, the day before a leap day.
const FEBRUARY_28: u64 = 1_709_078_400;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

/// A store whose clock shows this second.
fn store_at(second: u64) -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at((second - BEGIN) * 1000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    (store, clock)
}

/// Which records were operated on.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A store that keeps a log.
#[derive(Debug)]
struct Logged<T>(T, Log);

impl RecordStore for Logged<Store> {
    type Records = Logged<Set>;

    fn records(&self, set: &str) -> Result<Logged<Set>> {
        Ok(Logged(self.0.records(set)?, self.1.clone()))
    }
}

impl RecordSet for Logged<Set> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<Operated> {
        let Key::String(text) = key else {
            panic!("{key:?}");
        };
        self.1.0.lock().unwrap().push(text.to_string());
        self.0.operate_on(policy, key, operations)
    }

    fn scan_records(&self, each: &mut dyn FnMut(&Record)) -> Result<()> {
        self.0.scan_records(each)
    }

    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.0.contention_on(key)
    }
}

/// The chat of these tests.
fn chat<S: RecordStore>(store: &S, width: TimeWidth) -> TimeShards<S::Records> {
    let policy = WritePolicy::default().total_timeout(None);
    TimeShards::new_with(store, "chats", "lobby", "said", width, &policy).unwrap()
}

/// The keys of all records, sorted.
fn keys(store: &Store) -> Vec<String> {
    let mut keys = Vec::new();
    let records = store.records("chats").unwrap();
    let mut note = |record: &Record| match record.key() {
        Some(Key::String(key)) => keys.push(key.to_string()),
        key => panic!("{key:?}"),
    };
    records.scan_records(&mut note).unwrap();
    keys.sort();
    keys
}

/// Takes away what has expired.
fn maintain(store: &Store) {
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    namespace.maintain().unwrap();
}

fn timed(second: u64, element: i64) -> (SystemTime, Value) {
    (at(second), element.into())
}

#[test]
fn elements_lie_in_the_buckets_of_their_times() {
    for (width, expected) in [
        (
            TimeWidth::Hourly,
            vec![
                "lobby",
                "lobby:2024-02-28-23",
                "lobby:2024-02-29-00",
                "lobby:2024-02-29-23",
                "lobby:2024-03-01-00",
            ],
        ),
        (
            TimeWidth::Daily,
            vec![
                "lobby",
                "lobby:2024-02-28",
                "lobby:2024-02-29",
                "lobby:2024-03-01",
            ],
        ),
    ] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, width);
        let midnights = [FEBRUARY_28 + DAY, FEBRUARY_28 + 2 * DAY];
        let mut all = Vec::new();
        for (number, midnight) in (0..).zip(midnights) {
            for (second, element) in [(midnight - 1, 2 * number), (midnight, 2 * number + 1)] {
                assert!(said.add(at(second), element).unwrap());
                assert!(!said.add(at(second), element).unwrap());
                all.push(timed(second, element));
            }
        }
        assert_eq!(keys(&store), expected);
        // Windows begin with their first second, and end before their last one.
        for (from, from_second) in (0..).zip([0, midnights[0], midnights[1] - 1, midnights[1]]) {
            for (to, to_second) in (0..).zip([0, midnights[0], midnights[1] - 1, midnights[1]]) {
                let within = all.get(from..to.max(from)).unwrap_or_default();
                let offset = |second: u64| {
                    if second == 0 {
                        midnights[0] - 1
                    } else {
                        second
                    }
                };
                let (from, to) = (at(offset(from_second)), at(offset(to_second)));
                assert_eq!(said.window(from, to).unwrap(), within, "{from:?}..{to:?}");
                assert_eq!(said.len(from, to).unwrap(), within.len() as u64);
                assert_eq!(said.is_empty(from, to).unwrap(), within.is_empty());
            }
        }
        let always = said.window(UNIX_EPOCH, at(4_102_444_800)).unwrap();
        assert_eq!(always, all);
    }
}

#[test]
fn companions_and_root_are_as_documented() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Daily).hashed(2);
    for element in 0..10 {
        said.add(at(FEBRUARY_28 + 5), element).unwrap();
    }
    said.add(at(FEBRUARY_28 + 3 * DAY), 10).unwrap();
    let set = store.set("chats").unwrap();
    let root = set.get("lobby").unwrap().unwrap();
    let list = |items: &[Value]| Some(Value::List(items.to_vec().into()));
    assert_eq!(
        root.get("subkeys"),
        list(&["time-shards".into(), "daily".into(), 2.into()])
    );
    let span = [FEBRUARY_28, FEBRUARY_28 + 3 * DAY].map(|second| Value::Int(second as i64));
    assert_eq!(root.get("subkeys_span"), list(&span));
    assert_eq!(root.get("subkeys_bin"), Some("said".into()));
    assert_eq!(root.get("said"), None);
    let epoch = root.get("subkeys_epoch").unwrap();
    let mut found = 0;
    for shard in 0..2_i64 {
        let key = format!("lobby:2024-02-28:{shard}");
        let bucket = set.get(key.as_str()).unwrap().unwrap();
        let shard_of = [
            "lobby".into(),
            2.into(),
            shard.into(),
            epoch.clone(),
            span[0].clone(),
        ];
        assert_eq!(bucket.get("shard_of"), list(&shard_of));
        assert_eq!(bucket.get("frozen"), None);
        let Some(Value::List(said)) = bucket.get("said") else {
            panic!("{bucket:?}");
        };
        assert!(said.len() > 1, "shard {shard}: {said:?}");
        found += said.len();
    }
    assert_eq!(found, 10);
}

#[test]
fn a_write_to_a_known_bucket_is_one_operation() {
    let (store, _) = store_at(FEBRUARY_28);
    let log = Log::default();
    let logged = Logged(store, log.clone());
    let said = chat(&logged, TimeWidth::Hourly);
    said.add(at(FEBRUARY_28), 1).unwrap();
    let first = log.take().len();
    assert!(first <= 10, "{first}");
    said.add(at(FEBRUARY_28 + 1), 2).unwrap();
    assert_eq!(log.take(), ["lobby:2024-02-28-00"]);
    assert!(said.remove(at(FEBRUARY_28 + 1), &2.into()).unwrap());
    assert_eq!(log.take(), ["lobby:2024-02-28-00"]);
    // Another handle has to read the root first.
    chat(&logged, TimeWidth::Hourly)
        .add(at(FEBRUARY_28), 3)
        .unwrap();
    assert_eq!(log.take(), ["lobby", "lobby:2024-02-28-00"]);
}

#[test]
fn a_window_touches_only_its_buckets() {
    let (store, _) = store_at(FEBRUARY_28);
    let log = Log::default();
    let logged = Logged(store, log.clone());
    let said = chat(&logged, TimeWidth::Hourly);
    for hour in 0..200 {
        said.add(at(FEBRUARY_28 + hour * HOUR + 5), hour as i64)
            .unwrap();
    }
    let buckets = || {
        let mut keys = log.take();
        assert_eq!(keys.remove(0), "lobby");
        keys.sort();
        keys.dedup();
        keys
    };
    log.take();
    let window = |from: u64, to: u64| said.window(at(FEBRUARY_28 + from), at(FEBRUARY_28 + to));
    let found = window(HOUR, 3 * HOUR).unwrap();
    assert_eq!(
        found,
        [1, 2].map(|hour| timed(FEBRUARY_28 + hour * HOUR + 5, hour as i64))
    );
    assert_eq!(buckets(), ["lobby:2024-02-28-01", "lobby:2024-02-28-02"]);
    // Nothing is before the first bucket, or behind the last one.
    assert_eq!(window(198 * HOUR, 1_000_000 * HOUR).unwrap().len(), 2);
    assert_eq!(buckets(), ["lobby:2024-03-07-06", "lobby:2024-03-07-07"]);
    let before = said.window(UNIX_EPOCH, at(FEBRUARY_28)).unwrap();
    assert_eq!((before, buckets()), (vec![], vec![]));
    assert_eq!(window(5, 5).unwrap(), []);
    assert_eq!(window(6, 5).unwrap(), []);
    assert!(log.take().is_empty());
    assert_eq!(window(0, 200 * HOUR).unwrap().len(), 200);
    assert_eq!(buckets().len(), 200);
    said.len(at(FEBRUARY_28 + HOUR), at(FEBRUARY_28 + HOUR + 1))
        .unwrap();
    assert_eq!(buckets(), ["lobby:2024-02-28-01"]);
}

#[test]
fn pages_follow_one_another_through_all_buckets() {
    for shards in [1, 4] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Hourly).hashed(shards);
        assert_eq!(said.page_after(None, 10).unwrap(), []);
        let mut all = Vec::new();
        for number in 0..600_u64 {
            // Some hours have nothing, some have much; some seconds have two elements.
            let second = FEBRUARY_28 + (number / 50).pow(2) * HOUR + number % 50 / 2 * 7;
            said.add(at(second), number as i64).unwrap();
            all.push(timed(second, number as i64));
        }
        for limit in [1, 7, 64, 150, 10_000] {
            let mut seen: Vec<(SystemTime, Value)> = Vec::new();
            loop {
                let page = said.page_after(seen.last(), limit).unwrap();
                if page.is_empty() {
                    break;
                }
                assert!(page.len() as u64 <= limit);
                seen.extend(page);
            }
            assert_eq!(seen, all, "limit {limit}, {shards} shards");
        }
        assert_eq!(said.page_after(None, 0).unwrap(), []);
        let end = at(FEBRUARY_28 + 1_000 * HOUR);
        assert_eq!(said.window(at(FEBRUARY_28), end).unwrap(), all);
        assert_eq!(said.page_after(Some(&(end, 0.into())), 5).unwrap(), []);
        let before = (at(FEBRUARY_28 - DAY), Value::Nil);
        assert_eq!(said.page_after(Some(&before), 5).unwrap(), all[..5]);
    }
}

#[test]
fn what_is_past_the_retention_is_gone_and_late_data_is_refused() {
    let (store, clock) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Daily).retention(Duration::from_secs(2 * DAY));
    let day = |day: u64| at(FEBRUARY_28 + day * DAY + 100);
    let all = |said: &TimeShards<Set>| said.window(UNIX_EPOCH, day(1_000)).unwrap().len();
    for number in 0..10_u64 {
        // Two days late is not too late, three days are.
        said.add(day(number), number as i64).unwrap();
        if number >= 3 {
            assert!(said.add(day(number - 2), -1).unwrap());
            for _ in 0..2 {
                let error = said.add(day(number - 3), -2).unwrap_err();
                assert_eq!(error.result_code(), 22, "{error}");
                assert!(error.to_string().contains("2024-0"), "{error}");
            }
            assert!(
                !said
                    .remove(day(number - 3), &(number as i64 - 3).into())
                    .unwrap()
            );
            // A handle that has never seen the collection knows the same.
            let other = chat(&store, TimeWidth::Daily).retention(Duration::from_secs(2 * DAY));
            assert!(other.add(day(number - 3), -2).is_err());
            assert_eq!(all(&other), all(&said));
        }
        assert!(all(&said) <= 6, "{}", all(&said));
        clock.advance_ms(DAY * 1000);
    }
    // A record can be read during the whole second in which it expires.
    clock.advance_ms(2_000);
    maintain(&store);
    assert_eq!(
        keys(&store),
        ["lobby", "lobby:2024-03-07", "lobby:2024-03-08"]
    );
    // The span does not begin before what is kept.
    let root = store.set("chats").unwrap().get("lobby").unwrap().unwrap();
    let span = [7, 9].map(|day| Value::Int((FEBRUARY_28 + day * DAY) as i64));
    assert_eq!(
        root.get("subkeys_span"),
        Some(Value::List(span.to_vec().into()))
    );
    // A long silence leaves nothing, and a new beginning.
    clock.advance_ms(100 * DAY * 1000);
    assert_eq!(all(&said), 0);
    assert_eq!(said.page_after(None, 10).unwrap(), []);
    said.add(day(110), 1).unwrap();
    assert_eq!(all(&said), 1);
    maintain(&store);
    assert_eq!(keys(&store), ["lobby", "lobby:2024-06-17"]);
}

#[test]
fn a_bucket_expires_at_its_end_and_not_after_its_last_write() {
    let (store, clock) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly).retention(Duration::from_secs(HOUR));
    said.add(at(FEBRUARY_28), 1).unwrap();
    clock.advance_ms((2 * HOUR - 1) * 1000);
    assert!(said.add(at(FEBRUARY_28), 2).unwrap());
    assert_eq!(said.page_after(None, 5).unwrap().len(), 2);
    clock.advance_ms(1000);
    assert!(said.add(at(FEBRUARY_28), 3).is_err());
    assert_eq!(said.page_after(None, 5).unwrap(), []);
    clock.advance_ms(2000);
    maintain(&store);
    assert_eq!(keys(&store), ["lobby"]);
}

#[test]
fn a_deleted_collection_is_empty_and_may_begin_anew() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly).hashed(4);
    let other = chat(&store, TimeWidth::Hourly).hashed(4);
    said.delete().unwrap();
    for round in 0..3 {
        for hour in 0..70 {
            let element = round * 1_000 + hour as i64;
            assert!(said.add(at(FEBRUARY_28 + hour * HOUR), element).unwrap());
        }
        other.add(at(FEBRUARY_28), -1).unwrap();
        let epoch = |store: &Store| {
            let root = store.set("chats").unwrap().get("lobby").unwrap().unwrap();
            root.get("subkeys_epoch")
        };
        let before = epoch(&store);
        said.delete().unwrap();
        // The number of the last transition stays, so that it never comes again.
        assert_eq!(keys(&store), ["lobby"]);
        assert_ne!(epoch(&store), before);
        for handle in [&said, &other] {
            assert_eq!(handle.page_after(None, 1).unwrap(), []);
            assert!(!handle.remove(at(FEBRUARY_28), &(-1).into()).unwrap());
        }
        // A handle that remembers what is gone finds what is new.
        other.add(at(FEBRUARY_28), round).unwrap();
        assert_eq!(
            said.page_after(None, 5).unwrap(),
            [timed(FEBRUARY_28, round)]
        );
        said.delete().unwrap();
    }
}

#[test]
fn a_deletion_that_was_left_is_carried_to_its_end_by_whoever_comes() {
    type Call = fn(&TimeShards<Set>) -> usize;
    let window: Call = |said| said.window(UNIX_EPOCH, at(FEBRUARY_28 * 2)).unwrap().len();
    let page: Call = |said| said.page_after(None, 10).unwrap().len();
    let add: Call = |said| usize::from(said.add(at(FEBRUARY_28), 7).unwrap()) - 1;
    let remove: Call = |said| usize::from(said.remove(at(FEBRUARY_28), &0.into()).unwrap());
    let delete: Call = |said| {
        said.delete().unwrap();
        0
    };
    for call in [window, page, add, remove, delete] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Daily);
        for day in 0..5 {
            said.add(at(FEBRUARY_28 + day * DAY), day as i64).unwrap();
        }
        // Somebody has marked the root and deleted two days, and was never seen again.
        let set = store.set("chats").unwrap();
        let marked = ["time-shards", "daily", "deleting"]
            .map(Value::from)
            .to_vec();
        let mark = [
            operations::put("subkeys", Value::List(marked.into())),
            operations::add("subkeys_epoch", 1),
        ];
        set.operate("lobby", &mark).unwrap();
        assert!(set.delete("lobby:2024-02-28").unwrap());
        assert!(set.delete("lobby:2024-03-01").unwrap());
        let fresh = chat(&store, TimeWidth::Daily);
        assert_eq!(call(&fresh), 0);
        let left = said.page_after(None, 10).unwrap().len();
        assert_eq!(keys(&store).len(), 1 + left);
        assert!(left <= 1);
    }
}

#[test]
fn records_of_others_are_in_the_way_and_are_not_touched() {
    let (store, _) = store_at(FEBRUARY_28);
    let set = store.set("chats").unwrap();
    set.put("lobby:2024-02-28", [("mine", 1)]).unwrap();
    let said = chat(&store, TimeWidth::Daily);
    for _ in 0..2 {
        let error = said.add(at(FEBRUARY_28), 1).unwrap_err();
        assert!(
            matches!(&error, Error::ShardKeyCollision { key } if &**key == "lobby:2024-02-28"),
            "{error}"
        );
    }
    let record = set.get("lobby:2024-02-28").unwrap().unwrap();
    assert_eq!(record.bins().count(), 1);
    assert_eq!(record.generation(), 1);
    said.add(at(FEBRUARY_28 + DAY), 1).unwrap();
    said.delete().unwrap();
    assert_eq!(keys(&store), ["lobby", "lobby:2024-02-28"]);
}

#[test]
fn what_a_root_that_was_deleted_by_hand_has_left_is_not_taken_for_new() {
    for shards in [1, 2] {
        // The clock stands still: the new collection begins in the same millisecond.
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Hourly).hashed(shards);
        for element in 0..20 {
            said.add(at(FEBRUARY_28), element).unwrap();
        }
        assert!(store.set("chats").unwrap().delete("lobby").unwrap());
        assert_eq!(said.page_after(None, 5).unwrap(), []);
        let fresh = chat(&store, TimeWidth::Hourly).hashed(shards);
        assert!(fresh.add(at(FEBRUARY_28), 0).unwrap());
        assert!(said.add(at(FEBRUARY_28), 1).unwrap());
        let all = [0, 1].map(|element| timed(FEBRUARY_28, element));
        assert_eq!(fresh.page_after(None, 5).unwrap(), all);
    }
}

#[test]
fn another_layout_under_the_same_key_is_an_error() {
    let (store, _) = store_at(FEBRUARY_28);
    chat(&store, TimeWidth::Daily)
        .add(at(FEBRUARY_28), 1)
        .unwrap();
    let other_bin = TimeShards::new(&store, "chats", "lobby", "heard", TimeWidth::Daily).unwrap();
    for said in [
        chat(&store, TimeWidth::Hourly),
        chat(&store, TimeWidth::Daily).hashed(2),
        other_bin,
    ] {
        for error in [
            said.add(at(FEBRUARY_28), 2).unwrap_err(),
            said.page_after(None, 1).unwrap_err(),
            said.delete().unwrap_err(),
        ] {
            assert!(matches!(error, Error::ShardScheme { .. }), "{error}");
        }
    }
    let list = spikelet::ShardedList::new(&store, "chats", "lobby", "said").unwrap();
    assert!(matches!(list.add(1), Err(Error::ShardScheme { .. })));
    // Nor is a list in the root's own bin overwritten.
    let list = spikelet::ShardedList::new(&store, "chats", "hall", "said").unwrap();
    list.add(1).unwrap();
    let said = TimeShards::new(&store, "chats", "hall", "said", TimeWidth::Daily).unwrap();
    let error = said.add(at(FEBRUARY_28), 1).unwrap_err();
    assert_eq!(error.result_code(), 26, "{error}");
    assert_eq!(list.len().unwrap(), 1);
}

#[test]
fn times_that_are_too_far_away_are_refused() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly);
    said.add(at(FEBRUARY_28), 1).unwrap();
    for far in [
        FEBRUARY_28 + 200_000 * HOUR,
        FEBRUARY_28 - 200_000 * HOUR,
        300_000_000_000,
    ] {
        let error = said.add(at(far), 1).unwrap_err();
        assert!(matches!(error, Error::Parameter(_)), "{error}");
    }
    assert!(said.add(at(FEBRUARY_28 + 199_999 * HOUR), 1).unwrap());
    assert_eq!(said.page_after(None, 10).unwrap().len(), 2);
    // Before 1970 there were hours, too.
    let ancient = TimeShards::new(&store, "chats", "moon", "said", TimeWidth::Hourly).unwrap();
    let landing = UNIX_EPOCH - Duration::from_secs(14_182_960);
    ancient.add(landing, "the Eagle has landed").unwrap();
    assert_eq!(
        ancient.page_after(None, 2).unwrap(),
        [(landing, "the Eagle has landed".into())]
    );
    assert!(
        store
            .set("chats")
            .unwrap()
            .exists("moon:1969-07-20-20")
            .unwrap()
    );
}

#[test]
fn of_many_first_writers_none_is_lost() {
    for shards in [1, 4] {
        let (store, _) = store_at(FEBRUARY_28);
        let shared = chat(&store, TimeWidth::Hourly).hashed(shards);
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (store, shared, barrier) = (&store, &shared, &barrier);
                scope.spawn(move || {
                    let own = chat(store, TimeWidth::Hourly).hashed(shards);
                    let said = if thread % 2 == 0 { shared } else { &own };
                    for hour in 0..40 {
                        barrier.wait();
                        let when = at(FEBRUARY_28 + hour * HOUR + thread);
                        assert!(said.add(when, thread as i64).unwrap());
                        assert!(!said.add(when, thread as i64).unwrap());
                    }
                });
            }
        });
        let all = shared.window(at(0), at(FEBRUARY_28 * 2)).unwrap();
        let expected = (0..40 * 8)
            .map(|number| (number / 8, number % 8))
            .map(|(hour, thread)| timed(FEBRUARY_28 + hour * HOUR + thread, thread as i64));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }
}

/// What is added while nobody deletes is there; and what is left in the end is in records of the last collection.
#[test]
fn additions_between_deletions_are_there() {
    let (store, _) = store_at(FEBRUARY_28);
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let checked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (store, begun, ended, checked) = (&store, &begun, &ended, &checked);
                scope.spawn(move || {
                    let said = chat(store, TimeWidth::Hourly).hashed(2);
                    let mut number = 0;
                    while number < 3_000 || checked.load(Ordering::SeqCst) < 50 {
                        number += 1;
                        let when = at(FEBRUARY_28 + number % 3 * HOUR + thread);
                        let deleted = ended.load(Ordering::SeqCst);
                        said.add(when, number as i64).unwrap();
                        let element = (when, Value::Int(number as i64));
                        let found = said.window(when, when + Duration::from_secs(1)).unwrap();
                        // No deletion began after the last one that had ended before the addition.
                        if begun.load(Ordering::SeqCst) == deleted {
                            assert!(found.contains(&element), "{element:?} in {found:?}");
                            checked.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        let (store, begun, ended, done) = (&store, &begun, &ended, &done);
        scope.spawn(move || {
            let said = chat(store, TimeWidth::Hourly).hashed(2);
            while !done.load(Ordering::SeqCst) {
                begun.fetch_add(1, Ordering::SeqCst);
                said.delete().unwrap();
                ended.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for adder in adders {
            adder.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    chat(&store, TimeWidth::Hourly).hashed(2).delete().unwrap();
    // What a late writer has left, if anything, is closed, and has nothing in it.
    for key in keys(&store).iter().filter(|key| *key != "lobby") {
        let record = store
            .set("chats")
            .unwrap()
            .get(key.as_str())
            .unwrap()
            .unwrap();
        assert!(record.get("frozen").is_some(), "{record:?}");
        assert!(record.get("said").is_none(), "{record:?}");
    }
}
