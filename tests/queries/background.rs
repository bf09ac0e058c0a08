//! Operations in the background on all records that a query finds.

use std::time::{Duration, Instant};

use spikelet::expressions::{eq, int_bin, lt};
use spikelet::operations::{add, get_bin, put, touch};
use spikelet::policy::RecordExistsAction;
use spikelet::query::{BackgroundPolicy, IndexDefinition};
use spikelet::{Error, Expiration, Set, Store, WritePolicy};

const RECORDS: i64 = 500;

fn filled(store: &Store) -> Set {
    let set = store.set("things").unwrap();
    set.create_index(IndexDefinition::new("by_n", ["n"]))
        .unwrap();
    for id in 0..RECORDS {
        set.put(id, [("n", id % 10), ("id", id)]).unwrap();
    }
    set
}

#[test]
fn each_record_is_met_once_though_its_key_moves_ahead() {
    let store = Store::in_memory().unwrap();
    let set = filled(&store);
    // By an index with an order that the operation changes, and without an index.
    let by_index = set.query("by_n").unwrap().at_least(5);
    let done = by_index.operate(&BackgroundPolicy::default(), [add("n", 1)]);
    let done = done.unwrap().wait().unwrap();
    assert_eq!((done.written, done.expected), (250, 250));
    assert_eq!((done.failed, done.passed_over), (0, 0));
    let all = set
        .query_all()
        .operate(&BackgroundPolicy::default(), [add("n", 100)]);
    assert_eq!(all.unwrap().wait().unwrap().written, 500);
    for id in 0..RECORDS {
        let n = id % 10 + if id % 10 >= 5 { 101 } else { 100 };
        assert_eq!(set.get(id).unwrap().unwrap().get("n"), Some(n.into()));
    }
    assert_eq!(
        set.query("by_n").unwrap().at_least(100).count().unwrap(),
        500
    );
}

#[test]
fn the_filter_is_asked_at_the_record_and_failures_are_told() {
    let store = Store::in_memory().unwrap();
    let set = filled(&store);
    set.put(3, [("n", "text")]).unwrap();
    let few = set.query_all().filter(lt(int_bin("id"), 5));
    let done = few
        .operate(&BackgroundPolicy::default(), [add("n", 1)])
        .unwrap();
    let done = done.wait().unwrap();
    assert_eq!((done.written, done.failed), (4, 1));
    let failure = done.failures.first().unwrap();
    assert_eq!(failure.key, Some(3.into()));
    assert!(matches!(failure.error, Error::IncompatibleType { .. }));
    let never = WritePolicy::default().filter(eq(int_bin("id"), -1));
    let policy = BackgroundPolicy::default().write(never);
    let done = set
        .query("by_n")
        .unwrap()
        .eq(2)
        .operate(&policy, [add("n", 1)]);
    let done = done.unwrap().wait().unwrap();
    assert_eq!((done.written, done.passed_over), (0, 50));
}

#[test]
fn what_is_cancelled_keeps_what_it_has_written() {
    let store = Store::in_memory().unwrap();
    let set = filled(&store);
    let slow = BackgroundPolicy::default().records_per_second(50);
    let running = set.query_all().operate(&slow, [put("seen", 1)]).unwrap();
    running.pause();
    running.cancel();
    let done = running.wait().unwrap();
    let seen = set
        .query_all()
        .filter(eq(int_bin("seen"), 1))
        .count()
        .unwrap();
    assert_eq!(seen, done.written);
    assert!(seen < RECORDS as u64);
}

#[test]
fn one_with_a_name_goes_on_where_it_was_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    const MANY: i64 = 25_000;
    let policy = BackgroundPolicy::default().name("count");
    let count_up = [add("n", 1)];
    {
        let store = Store::open(dir.path()).unwrap();
        let set = store.set("things").unwrap();
        for id in 0..MANY {
            set.put(id, [("n", 0)]).unwrap();
        }
        let running = set.query_all().operate(&policy, count_up.clone()).unwrap();
        // The position is saved behind the 20,000th record, before the next one.
        while running.progress().written <= 20_000 {
            std::thread::yield_now();
        }
        // As a crash would, in the middle; without a snapshot.
        store.close().unwrap();
        let ended = running.wait();
        assert!(matches!(ended, Err(Error::Storage(_))) || ended.is_ok());
    }
    let store = Store::open(dir.path()).unwrap();
    let set = store.set("things").unwrap();
    let before = set.query_all().filter(eq(int_bin("n"), 1)).count().unwrap();
    assert!(before > 20_000);
    let again = set.query_all().operate(&policy, count_up.clone()).unwrap();
    let done = again.wait().unwrap();
    if before < MANY as u64 {
        // Behind the last saved position, which is 20,000 records in.
        assert!(done.written <= 5_000, "{}", done.written);
    }
    assert_eq!(
        set.query_all().filter(lt(int_bin("n"), 1)).count().unwrap(),
        0
    );
    // It is forgotten at its end: the next one of the name begins anew.
    let next = set.query_all().operate(&policy, count_up).unwrap();
    assert_eq!(next.wait().unwrap().written, MANY as u64);
}

#[test]
fn what_cannot_be_done_in_the_background_is_refused() {
    let store = Store::in_memory().unwrap();
    let set = filled(&store);
    let policy = BackgroundPolicy::default();
    let reads = set.query_all().operate(&policy, [get_bin("n")]);
    assert!(matches!(reads, Err(Error::Parameter(_))));
    // It would count from nothing in a record without its bins.
    let replacing = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
    let policy_of_write = BackgroundPolicy::default().write(replacing);
    let edits = set.query_all().operate(&policy_of_write, [add("n", 1)]);
    assert!(matches!(edits, Err(Error::Parameter(_))));
    let limited = set.query_all().limit(3).operate(&policy, [put("n", 1)]);
    assert!(matches!(limited, Err(Error::Parameter(_))));
}

#[test]
fn another_operation_of_a_name_begins_at_the_first_record() {
    let store = Store::in_memory().unwrap();
    let set = store.set("things").unwrap();
    let by_n = || IndexDefinition::new("by_n", ["n"]);
    set.create_index(by_n()).unwrap();
    // More than are met between two positions that are saved.
    let records = (0..21_000).map(|id| (id, [("n", 1)]));
    set.put_all(records, |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    let policy = BackgroundPolicy::default().name("job");
    let add_m = |policy| set.query("by_n").unwrap().operate(policy, [add("m", 1)]);
    let slowly = policy.clone().records_per_second(8_000);
    let begun = add_m(&slowly).unwrap();
    while begun.progress().written == 0 {
        std::thread::yield_now();
    }
    begun.pause();
    set.drop_index("by_n").unwrap();
    begun.resume();
    assert!(matches!(begun.wait(), Err(Error::IndexNotFound(_))));
    set.create_index(by_n()).unwrap();
    let other = set.query_all().operate(&policy, [add("k", 1)]);
    assert_eq!(other.unwrap().wait().unwrap().written, 21_000);
}

#[test]
fn one_of_a_name_with_another_policy_begins_at_the_first_record() {
    let dir = tempfile::tempdir().unwrap();
    const MANY: i64 = 25_000;
    let hours = |hours: u64| {
        let live = Duration::from_secs(3_600 * hours);
        let write = WritePolicy::default().expiration(Expiration::After(live));
        BackgroundPolicy::default().name("ttl").write(write)
    };
    {
        let store = Store::open(dir.path()).unwrap();
        let set = store.set("things").unwrap();
        let records = (0..MANY).map(|id| (id, [("n", 0)]));
        set.put_all(records, |_| std::ops::ControlFlow::Continue(()))
            .unwrap();
        // So that it has not ended when it is stopped.
        let slowly = hours(1).records_per_second(20_000);
        let running = set.query_all().operate(&slowly, [touch()]).unwrap();
        while running.progress().written <= 20_000 {
            std::thread::yield_now();
        }
        store.close().unwrap();
        running.wait().unwrap_err();
    }
    let store = Store::open(dir.path()).unwrap();
    let set = store.set("things").unwrap();
    let other = set.query_all().operate(&hours(2), [touch()]).unwrap();
    assert_eq!(other.wait().unwrap().written, MANY as u64);
}

#[test]
fn a_name_has_one_operation_at_a_time() {
    let store = Store::in_memory().unwrap();
    let set = filled(&store);
    let policy = BackgroundPolicy::default().name("job");
    let slowly = policy.clone().records_per_second(1);
    let begun = set.query_all().operate(&slowly, [add("n", 1)]).unwrap();
    let refused = set.query_all().operate(&policy, [add("m", 1)]);
    assert!(matches!(refused, Err(Error::Forbidden(_))));
    begun.cancel();
    begun.wait().unwrap();
    let next = set.query_all().operate(&policy, [add("m", 1)]).unwrap();
    assert_eq!(next.wait().unwrap().written, RECORDS as u64);
}

#[test]
fn one_that_is_dropped_while_it_is_paused_lets_go_of_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let set = filled(&store);
    let slowly = BackgroundPolicy::default().records_per_second(10);
    let running = set.query_all().operate(&slowly, [add("n", 1)]).unwrap();
    running.pause();
    drop(running);
    store.close().unwrap();
    drop((set, store));
    let until = Instant::now() + Duration::from_secs(10);
    while let Err(held) = Store::open(dir.path()) {
        assert!(Instant::now() < until, "{held}");
        std::thread::yield_now();
    }
}
