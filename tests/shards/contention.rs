//! Contention: a store's reports of queues, the splits of a policy, and its merges.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use spikelet::shard::ShardPolicy;
use spikelet::storage::{HotRecord, ManualClock};
use spikelet::{
    Error, Key, NamespaceConfig, OperateResult, Operation, Record, RecordSet, RecordStore, Result,
    Set, ShardedCounter, ShardedList, Store, WritePolicy, operations,
};

const START_MS: u64 = 500_000_000_000;

fn store(adapt: impl FnOnce(&mut NamespaceConfig)) -> (Store, Arc<ManualClock>) {
    let mut config = NamespaceConfig::new("test");
    adapt(&mut config);
    let clock = Arc::new(ManualClock::at(START_MS));
    let store = Store::builder().namespace(config).clock(clock.clone());
    (store.open().unwrap(), clock)
}

fn counter<S: RecordStore>(store: &S, policy: ShardPolicy) -> ShardedCounter<S::Records> {
    ShardedCounter::new(store, "posts", "post", "likes")
        .unwrap()
        .policy(policy)
}

fn shards<R: RecordSet>(counter: &ShardedCounter<R>) -> u64 {
    counter.shards().state().unwrap().shards
}

fn contention() -> ShardPolicy {
    ShardPolicy::manual().contention(true)
}

#[test]
fn a_write_is_told_how_many_were_before_it() {
    let (store, _) = store(|_| ());
    let set = store.set("posts").unwrap();
    let add = [operations::add("likes", 1)];
    let queued_behind = |set: &Set| set.operate("post", &add).unwrap().queued_behind;
    assert_eq!(queued_behind(&set), Some(0));
    let read = set.operate("post", &[operations::get_bin("likes")]);
    assert_eq!(read.unwrap().queued_behind, None);

    let locked = Barrier::new(2);
    let waits = || set.hot_record("post").map_or(0, |hot| hot.waits);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set.update("post", |_| {
                locked.wait();
                while waits() < 2 {
                    std::thread::yield_now();
                }
                Ok(())
            })
        });
        locked.wait();
        let first = scope.spawn(|| queued_behind(&set));
        while waits() < 1 {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| queued_behind(&set));
        assert_eq!(first.join().unwrap(), Some(1));
        assert_eq!(second.join().unwrap(), Some(2));
    });
}

#[test]
fn sixty_four_threads_that_hammer_a_counter_end_at_sixty_four_shards_at_most() {
    const ADDS_MAX: u64 = 3_000_000;
    const ADDS_AFTER: u64 = 64 * 500;
    let (store, clock) = store(|_| ());
    let likes = counter(&store, contention());
    let (adds, sharded_at) = (AtomicU64::new(0), AtomicU64::new(ADDS_MAX));
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                loop {
                    likes.add(1).unwrap();
                    let done = adds.fetch_add(1, Ordering::SeqCst) + 1;
                    // As if all threads together made 20,000 adds a second.
                    if done.is_multiple_of(20) {
                        clock.advance_ms(1);
                    }
                    if done.is_multiple_of(1_000) && shards(&likes) > 0 {
                        sharded_at.fetch_min(done, Ordering::SeqCst);
                    }
                    if done > sharded_at.load(Ordering::SeqCst) + ADDS_AFTER {
                        break;
                    }
                }
            });
        }
    });
    let found = shards(&likes);
    assert!((2..=64).contains(&found), "{found} shards");
    assert_eq!(likes.read().unwrap() as u64, adds.into_inner());
}

#[test]
fn one_thread_never_shards_a_record_however_often_it_writes() {
    let (store, clock) = store(|_| ());
    let likes = counter(&store, contention());
    for add in 0..30_000 {
        likes.add(1).unwrap();
        if add % 10 == 0 {
            clock.advance_ms(1);
        }
    }
    assert_eq!(shards(&likes), 0);
}

#[test]
fn a_quiet_counter_is_merged_step_by_step_back_into_one_record() {
    let (store, clock) = store(|_| ());
    let likes = counter(&store, contention());
    likes.add(1).unwrap();
    likes.shards().activate(4).unwrap();
    let mut seen = vec![4];
    let mut seconds = 0;
    while seconds < 600 && *seen.last().unwrap() > 0 {
        likes.add(1).unwrap();
        clock.advance_ms(1_000);
        seconds += 1;
        let now = shards(&likes);
        if now != *seen.last().unwrap() {
            seen.push(now);
        }
    }
    assert_eq!(seen, [4, 2, 1, 0]);
    // Three times half a minute and more, not at once.
    assert!(seconds >= 90, "{seconds}");
    assert_eq!(likes.read().unwrap(), 1 + seconds);
    assert_eq!(store.set("posts").unwrap().len(), 1);
}

#[test]
fn what_other_handles_write_keeps_a_counter_from_being_merged() {
    let (store, clock) = store(|_| ());
    let quiet = counter(&store, contention());
    let busy = counter(&store, ShardPolicy::manual());
    quiet.add(1).unwrap();
    quiet.shards().activate(2).unwrap();
    // 1,100 writes a second for the one record that would be left.
    for second in 1..=100 {
        (0..1_100).for_each(|_| busy.add(1).unwrap());
        quiet.add(1).unwrap();
        clock.advance_ms(1_000);
        assert_eq!(shards(&quiet), 2, "after {second} s");
    }
    (0..100).for_each(|_| {
        quiet.add(1).unwrap();
        clock.advance_ms(1_000);
    });
    assert!(shards(&quiet) < 2);
}

#[test]
fn shards_are_merged_neither_without_that_policy_nor_where_size_would_split_them_again() {
    let (store, clock) = store(|_| ());
    let by_hand = ShardPolicy::manual();
    let kept = contention().merge_when_quiet(false);
    let large = contention().elements_max(60);
    for (number, policy) in [by_hand, kept, large].into_iter().enumerate() {
        let list = ShardedList::new(&store, "lists", number as i64, "bin").unwrap();
        let list = list.policy(policy);
        (0..80).for_each(|id| assert!(list.add(id).unwrap()));
        if list.shards().state().unwrap().shards == 0 {
            list.shards().activate(2).unwrap();
        }
        for _ in 0..200 {
            list.add(0).unwrap();
            clock.advance_ms(1_000);
        }
        let state = list.shards().state().unwrap();
        assert_eq!((state.shards, state.transition), (2, None), "{policy:?}");
    }
}

#[test]
fn a_collection_beside_large_bins_does_not_go_back_into_their_record() {
    let (store, clock) = store(|_| ());
    let posts = store.set("posts").unwrap();
    posts.put("post", [("text", "x".repeat(100_000))]).unwrap();
    let likes = counter(&store, ShardPolicy::default().contention(true));
    likes.add(1).unwrap();
    likes.shards().activate(2).unwrap();
    for _ in 0..200 {
        likes.add(1).unwrap();
        clock.advance_ms(1_000);
    }
    assert_eq!(shards(&likes), 1);
    // With the text goes what was in the way.
    posts.put("post", [("text", "x")]).unwrap();
    for _ in 0..60 {
        likes.add(1).unwrap();
        clock.advance_ms(1_000);
    }
    assert_eq!(shards(&likes), 0);
}

/// Makes one add be refused, and so sharded.
fn refused_add(set: &Set, likes: &ShardedCounter<Set>) {
    let locked = Barrier::new(2);
    let refused = || set.hot_record("post").map_or(0, |hot| hot.busy);
    let before = refused();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set.update("post", |_| {
                locked.wait();
                while refused() == before {
                    std::thread::yield_now();
                }
                Ok(())
            })
        });
        locked.wait();
        likes.add(1).unwrap();
    });
}

#[test]
fn refusals_of_before_a_merge_do_not_shard_what_was_merged_and_new_ones_do() {
    let (store, clock) = store(|config| config.max_waiters = 0);
    let set = store.set("posts").unwrap();
    let likes = counter(&store, contention());
    likes.add(1).unwrap();
    refused_add(&set, &likes);
    assert_eq!(shards(&likes), 2);
    let seconds = |seconds: u64| {
        for _ in 0..seconds {
            likes.add(1).unwrap();
            clock.advance_ms(1_000);
        }
    };
    seconds(100);
    assert_eq!(shards(&likes), 0);
    seconds(100);
    assert_eq!(shards(&likes), 0);
    refused_add(&set, &likes);
    assert_eq!(shards(&likes), 2);
}

/// A store that reports no queues, like one across a network.
struct Untold<T>(T);

impl RecordStore for Untold<Store> {
    type Records = Untold<Set>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Untold<Set>> {
        self.0.records(set).map(Untold)
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

impl RecordSet for Untold<Set> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let operated = self.0.operate_on(policy, key, operations)?;
        Ok(OperateResult {
            queued_behind: None,
            ..operated
        })
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.0.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}

#[test]
fn where_nobody_tells_of_queues_the_writes_a_second_count_and_a_burst_does_not() {
    let (store, clock) = store(|_| ());
    let store = Untold(store);
    let likes = counter(&store, contention());
    let second = |writes| {
        (0..writes).for_each(|_| likes.add(1).unwrap());
        clock.advance_ms(1_000);
    };
    second(450);
    second(1);
    assert_eq!(shards(&likes), 0);
    clock.advance_ms(10_000);
    (0..30).for_each(|_| second(50));
    assert_eq!(shards(&likes), 0);
    (0..12).for_each(|_| second(150));
    let found = shards(&likes);
    assert!(found >= 2, "{found}");
    // Four in five of the limit keep them.
    (0..100).for_each(|_| second(40 * found));
    assert_eq!(shards(&likes), found);
    (0..100).for_each(|_| second(1));
    assert!(shards(&likes) < found);
    let writes = 451 + 1_500 + 1_800 + 4_000 * found + 100;
    assert_eq!(likes.read().unwrap() as u64, writes);
}

#[test]
fn a_writer_that_is_refused_is_told_where_the_policy_leaves_no_more_shards() {
    let (store, _) = store(|config| config.max_waiters = 0);
    let set = store.set("posts").unwrap();
    let likes = counter(&store, contention().contention_shards_max(1));
    likes.add(1).unwrap();
    let locked = Barrier::new(2);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            set.update("post", |_| {
                locked.wait();
                while set.hot_record("post").is_none_or(|hot| hot.busy == 0) {
                    std::thread::yield_now();
                }
                Ok(())
            })
        });
        locked.wait();
        likes.add(1).unwrap_err()
    });
    assert!(matches!(refused, Error::KeyBusy { .. }), "{refused}");
    assert_eq!(shards(&likes), 0);
}
