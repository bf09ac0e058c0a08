//! Many writers: who may wait, who is refused, and who is not disturbed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{NOW_MS, digest, files, get, options, put, version};
use spikelet_storage::{
    Digest, EntryView, Error, Namespace, NewVersion, Observer, Options, Storage,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

const THREADS: usize = 64;
const MAX_WAITERS: usize = 20;

/// The records that writers met at: waits and refusals of each.
#[derive(Debug, Default)]
struct Met(Mutex<HashMap<Digest, (u64, u64)>>);

impl Observer for Met {
    fn expires(&self, _: &EntryView<'_>, _: &dyn Fn() -> String) {}

    fn contends(&self, digest: &Digest, refused: bool) {
        let mut met = self.0.lock().unwrap();
        let counts = met.entry(*digest).or_default();
        *(if refused {
            &mut counts.1
        } else {
            &mut counts.0
        }) += 1;
    }
}

fn open(max_waiters: usize) -> Namespace {
    observed(max_waiters).0
}

fn observed(max_waiters: usize) -> (Namespace, Arc<Met>) {
    let met = Arc::new(Met::default());
    let wanted = Options {
        max_waiters,
        write_lanes: 2,
        observer: Some(met.clone()),
        ..options(Storage::Memory, 16)
    };
    (Namespace::open(wanted).unwrap().0, met)
}

/// The number in a record; none = 0.
fn counter(namespace: &Namespace, digest: &Digest) -> u64 {
    let payload = get(namespace, digest).unwrap();
    payload.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Adds one to the number in a record, under its lock.
fn increment(namespace: &Namespace, digest: &Digest) -> Result<(), Error> {
    let lock = namespace.lock(digest, None)?;
    let old = lock.entry()?.map_or(0, |entry| {
        u64::from_le_bytes(entry.payload().try_into().unwrap())
    });
    // Let the others come.
    std::thread::yield_now();
    lock.put(&version(&(old + 1).to_le_bytes())).map(drop)
}

/// Two digests of one partition.
fn neighbours() -> (Digest, Digest) {
    let first = digest(1);
    let second = (2..)
        .map(digest)
        .find(|other| other.partition() == first.partition())
        .unwrap();
    (first, second)
}

#[test]
fn of_64_writers_of_one_record_at_most_20_wait_and_no_acknowledged_increment_is_lost() {
    let (namespace, met) = observed(MAX_WAITERS);
    let record = digest(1);
    let (acknowledged, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..200 {
                    match increment(&namespace, &record) {
                        Ok(()) => acknowledged.fetch_add(1, Ordering::Relaxed),
                        Err(Error::KeyBusy { waiting, limit }) => {
                            assert_eq!((waiting, limit), (MAX_WAITERS, MAX_WAITERS));
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(other) => panic!("{other}"),
                    };
                }
            });
        }
    });
    let (acknowledged, refused) = (acknowledged.into_inner(), refused.into_inner());
    assert_eq!(acknowledged + refused, THREADS as u64 * 200);
    assert_eq!(counter(&namespace, &record), acknowledged);
    let stats = namespace.stats();
    assert_eq!((stats.key_busy, stats.timeouts), (refused, 0));
    let met = met.0.lock().unwrap();
    assert_eq!(*met, HashMap::from([(record, (stats.waits, refused))]));
}

/// The same without chance: one holds the record until everybody has tried.
#[test]
fn while_a_record_is_held_20_wait_and_the_rest_are_refused_at_once() {
    let namespace = open(MAX_WAITERS);
    let record = digest(1);
    let held = namespace.lock(&record, None).unwrap();
    std::thread::scope(|scope| {
        let (done, results) = mpsc::channel();
        for _ in 0..THREADS - 1 {
            let (done, namespace) = (done.clone(), &namespace);
            scope.spawn(move || done.send(increment(namespace, &record)).unwrap());
        }
        let refused = THREADS - 1 - MAX_WAITERS;
        for _ in 0..refused {
            let error = results.recv().unwrap().unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::KeyBusy {
                        waiting: 20,
                        limit: 20
                    }
                ),
                "{error}"
            );
        }
        // The waiters within the limit still wait; a reader does not wait.
        assert_eq!(counter(&namespace, &record), 0);
        let stats = namespace.stats();
        assert_eq!(
            (stats.key_busy, stats.waits),
            (refused as u64, MAX_WAITERS as u64)
        );
        held.put(&version(&100_u64.to_le_bytes())).unwrap();
        for _ in 0..MAX_WAITERS {
            results.recv().unwrap().unwrap();
        }
    });
    assert_eq!(counter(&namespace, &record), 100 + MAX_WAITERS as u64);
}

#[test]
fn with_no_waiters_allowed_the_second_writer_is_refused() {
    let namespace = open(0);
    let held = namespace.lock(&digest(1), None).unwrap();
    let refused = namespace.lock(&digest(1), None).unwrap_err();
    assert!(
        matches!(
            refused,
            Error::KeyBusy {
                waiting: 0,
                limit: 0
            }
        ),
        "{refused}"
    );
    drop(held);
    put(&namespace, &digest(1), b"free").unwrap();
}

#[test]
fn a_writer_gives_up_at_its_deadline_and_has_changed_nothing() {
    let namespace = open(MAX_WAITERS);
    put(&namespace, &digest(1), b"old").unwrap();
    let held = namespace.lock(&digest(1), None).unwrap();
    let late = namespace
        .lock(&digest(1), Some(Duration::ZERO))
        .unwrap_err();
    assert!(matches!(late, Error::Timeout), "{late}");
    assert_eq!(namespace.stats().timeouts, 1);
    drop(held);
    // A timeout beyond the clock's range means no deadline.
    let lock = namespace.lock(&digest(1), Some(Duration::MAX)).unwrap();
    assert_eq!(lock.entry().unwrap().unwrap().payload(), b"old");
}

#[test]
fn a_record_that_is_held_for_ever_disturbs_no_other_of_its_partition() {
    let (namespace, met) = observed(MAX_WAITERS);
    let (held, other) = neighbours();
    let forever = namespace.lock(&held, None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    increment(&namespace, &other).unwrap();
                    assert_eq!(get(&namespace, &held).unwrap(), None);
                }
            });
        }
    });
    assert_eq!(counter(&namespace, &other), 8 * 500);
    let met = met.0.lock().unwrap().clone();
    assert!(met.keys().all(|digest| *digest == other), "{met:?}");
    forever.put(&version(b"at last")).unwrap();
    assert_eq!(get(&namespace, &held).unwrap(), Some(b"at last".to_vec()));
}

#[test]
fn readers_see_whole_versions_in_their_order() {
    let namespace = open(MAX_WAITERS);
    let record = digest(1);
    let payload = |number: u64| number.to_le_bytes().repeat(100);
    put(&namespace, &record, &payload(0)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let seen = namespace.get(&record, |entry| {
                        let mut numbers = entry
                            .payload()
                            .chunks(8)
                            .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                        let first = numbers.next().unwrap();
                        assert!(numbers.all(|number| number == first), "torn");
                        assert_eq!(u64::from(entry.generation()), first % 60_000 + 1);
                        first
                    });
                    let seen = seen.unwrap().unwrap();
                    assert!(seen >= last, "{seen} after {last}");
                    last = seen;
                }
            });
        }
        for number in 1..50_000 {
            let new = NewVersion {
                generation: (number % 60_000) as u16 + 1,
                ..version(&[])
            };
            let bytes = payload(number);
            namespace
                .lock(&record, None)
                .unwrap()
                .put(&NewVersion {
                    payload: &bytes,
                    ..new
                })
                .unwrap();
            if number % 10_000 == 0 {
                namespace.sync().unwrap();
                namespace.maintain().unwrap();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(namespace.stats().defragmented_blocks > 0);
}

#[test]
fn close_lets_the_owner_finish_and_refuses_those_who_wait() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = || Options {
        max_waiters: MAX_WAITERS,
        ..options(files(dir.path(), 1), 8)
    };
    let namespace = Namespace::open(wanted()).unwrap().0;
    put(&namespace, &digest(1), b"old").unwrap();
    let (started, starting) = mpsc::channel();
    std::thread::scope(|scope| {
        let held = namespace.lock(&digest(1), None).unwrap();
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let started = started.clone();
                let namespace = &namespace;
                scope.spawn(move || {
                    started.send(()).unwrap();
                    put(namespace, &digest(1), b"too late")
                })
            })
            .collect();
        starting.iter().take(4).for_each(drop);
        while namespace.stats().waits < 4 {
            std::thread::yield_now();
        }
        let closing = scope.spawn(|| namespace.close());
        // The namespace is closed once it refuses new locks.
        while !matches!(namespace.lock(&digest(2), None), Err(Error::Closed { .. })) {
            std::thread::yield_now();
        }
        let refused = held.put(&version(b"too late, too"));
        assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
        for waiter in waiters {
            let refused = waiter.join().unwrap();
            assert!(matches!(refused, Err(Error::Closed { .. })), "{refused:?}");
        }
        closing.join().unwrap().unwrap();
    });
    assert_eq!(get(&namespace, &digest(1)).unwrap(), Some(b"old".to_vec()));
    drop(namespace);
    let (namespace, opening) = Namespace::open(wanted()).unwrap();
    assert!(opening.from_snapshot);
    assert_eq!(get(&namespace, &digest(1)).unwrap(), Some(b"old".to_vec()));
    let lock = namespace.lock(&digest(1), None).unwrap();
    assert!(lock.delete(NOW_MS).unwrap().is_some());
}

#[test]
fn writers_beside_a_close_are_acknowledged_and_kept_or_refused() {
    for round in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let wanted = || Options {
            write_lanes: 2,
            ..options(files(dir.path(), 1), 8)
        };
        let namespace = Namespace::open(wanted()).unwrap().0;
        let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let namespace = &namespace;
                scope.spawn(move || {
                    // Fewer than fill the device, however late the others come.
                    for number in 1..100_000_u64 {
                        match put(namespace, &digest(writer as u64), &number.to_le_bytes()) {
                            Ok(()) => acknowledged.store(number, Ordering::Relaxed),
                            Err(Error::Closed { .. }) => return,
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
            while acknowledged
                .iter()
                .any(|count| count.load(Ordering::Relaxed) < 10)
            {
                std::thread::yield_now();
            }
            namespace.close().unwrap();
        });
        drop(namespace);
        let (namespace, opening) = Namespace::open(wanted()).unwrap();
        assert!(opening.from_snapshot, "round {round}");
        for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
            assert_eq!(
                counter(&namespace, &digest(writer as u64)),
                acknowledged.into_inner()
            );
        }
    }
}
