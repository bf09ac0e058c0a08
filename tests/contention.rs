//! Many writers on one record: the queue is bounded, writers beyond the bound are refused at once,
//! and no acknowledged write is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spikelet::operations;
use spikelet::{Error, NamespaceConfig, Store, Value, WritePolicy};

fn store(max_waiters: usize) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = max_waiters;
    Store::builder().namespace(config).open().unwrap()
}

#[test]
fn sixty_four_writers_of_one_counter_lose_no_acknowledged_increment() {
    const THREADS: usize = 64;
    const EACH: u64 = 200;
    let store = store(20);
    let set = store.set("counters").unwrap();
    let start = Barrier::new(THREADS);
    let patient = WritePolicy::default().total_timeout(None);
    let (acknowledged, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..EACH {
                    match set.operate_with(&patient, "hot", &[operations::add("count", 1)]) {
                        Ok(_) => acknowledged.fetch_add(1, Ordering::Relaxed),
                        Err(Error::KeyBusy { waiting, limit, .. }) => {
                            assert_eq!(
                                (waiting, limit),
                                (20, 20),
                                "told before the queue was full"
                            );
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    let (acknowledged, refused) = (acknowledged.into_inner(), refused.into_inner());
    assert_eq!(acknowledged + refused, THREADS as u64 * EACH);
    let record = set.get("hot").unwrap().unwrap();
    assert_eq!(record.get("count"), Some(Value::Int(acknowledged as i64)));
    let namespace = store.namespace("test").unwrap();
    assert_eq!(namespace.stats().key_busy, refused);
    if refused > 0 {
        let hot = namespace.hot_records(1);
        assert_eq!(
            hot.first().and_then(|hot| hot.key.clone()),
            Some("hot".into())
        );
    }
}

#[test]
fn a_record_that_is_held_refuses_the_twenty_second_writer_and_no_other_record() {
    let store = store(20);
    let set = store.set("records").unwrap();
    let namespace = store.namespace("test").unwrap();
    let queued = || namespace.stats().waits;
    let mut waiters = Vec::new();
    set.update("held", |bins| {
        bins.set("owner", "first")?;
        let patient = WritePolicy::default().total_timeout(None);
        for _ in 0..20 {
            let (set, patient) = (set.clone(), patient.clone());
            waiters.push(std::thread::spawn(move || {
                set.operate_with(&patient, "held", &[operations::add("n", 1)])
            }));
        }
        while queued() < 20 {
            std::thread::yield_now();
        }
        let refused = set.put("held", [("n", 2)]);
        assert!(
            matches!(
                refused,
                Err(Error::KeyBusy {
                    waiting: 20,
                    limit: 20,
                    ..
                })
            ),
            "{refused:?}"
        );
        assert!(refused.is_err_and(|error| error.is_retryable()));
        for other in 0..1000 {
            set.put(other, [("n", 3)])?;
        }
        Ok(())
    })
    .unwrap();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    assert_eq!(set.get("held").unwrap().unwrap().get("n"), Some(20.into()));
    assert_eq!(set.len(), 1001);
}

#[test]
fn a_writer_that_waits_too_long_is_told_and_has_changed_nothing() {
    let store = store(20);
    let set = store.set("records").unwrap();
    set.update("held", |bins| {
        bins.set("n", 1)?;
        let hasty = WritePolicy::default().total_timeout(Some(Duration::from_millis(1)));
        let timed_out = set.put_with(&hasty, "held", [("n", 2)]).unwrap_err();
        assert_eq!((timed_out.result_code(), timed_out.in_doubt()), (9, false));
        Ok(())
    })
    .unwrap();
    assert_eq!(set.get("held").unwrap().unwrap().get("n"), Some(1.into()));
}

#[test]
fn without_a_queue_the_second_writer_is_refused_at_once() {
    let store = store(0);
    let set = store.set("records").unwrap();
    set.update("held", |bins| {
        bins.set("n", 1)?;
        assert!(matches!(
            set.delete("held"),
            Err(Error::KeyBusy {
                waiting: 0,
                limit: 0,
                ..
            })
        ));
        assert!(
            set.get("held")?.is_none(),
            "readers do not wait and see what is committed"
        );
        Ok(())
    })
    .unwrap();
}

#[test]
fn threads_of_one_process_are_not_refused_by_default() {
    let store = Store::in_memory().unwrap();
    let set = store.set("counters").unwrap();
    let patient = WritePolicy::default().total_timeout(None);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let add = [spikelet::operations::add("n", 1)];
                    set.operate_with(&patient, "hot", &add).unwrap();
                }
            });
        }
    });
    assert_eq!(store.namespace("test").unwrap().stats().key_busy, 0);
    let hot = set.get("hot").unwrap().unwrap();
    assert_eq!(hot.get("n"), Some((64 * 50).into()));
}
