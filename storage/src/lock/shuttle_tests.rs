//! Record locks under the model checker.

use super::harness::{Partition, Refused, digest};
use super::*;
use crate::sync::atomic::AtomicUsize;
use crate::sync::thread;

/// Random schedules, and ones with few but well-placed switches.
fn explore(scenario: fn()) {
    shuttle::check_random(scenario, 3_000);
    shuttle::check_pct(scenario, 3_000, 3);
}

fn spawn_each<T: Send + 'static>(
    partition: &Arc<Partition>,
    count: usize,
    what: fn(&Partition) -> T,
) -> Vec<thread::JoinHandle<T>> {
    (0..count)
        .map(|_| {
            let partition = Arc::clone(partition);
            thread::spawn(move || what(&partition))
        })
        .collect()
}

fn join_all<T>(threads: Vec<thread::JoinHandle<T>>) -> Vec<T> {
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

#[test]
fn one_owner_at_a_time_and_each_waiter_becomes_one() {
    explore(|| {
        let partition = Arc::new(Partition::default());
        join_all(spawn_each(&partition, 3, |partition| {
            for _ in 0..2 {
                partition.lock(0, usize::MAX, None).unwrap();
                thread::yield_now();
                partition.unlock(0);
            }
        }));
        partition.assert_free();
    });
}

#[test]
fn the_lock_passes_in_the_order_of_arrival() {
    explore(|| {
        let partition = Arc::new(Partition::default());
        let arrivals = Arc::new(AtomicUsize::new(0));
        let turns = Arc::new(AtomicUsize::new(0));
        partition.lock(0, 0, None).unwrap();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (partition, arrivals, turns) = (
                    Arc::clone(&partition),
                    Arc::clone(&arrivals),
                    Arc::clone(&turns),
                );
                thread::spawn(move || {
                    let (acquired, place) = {
                        let mut locks = partition.locks.lock();
                        let acquired = locks.acquire(&digest(0), 3);
                        (acquired, arrivals.fetch_add(1, Ordering::SeqCst))
                    };
                    if let Acquire::Queued(waiter) = acquired {
                        assert!(waiter.wait(None));
                    }
                    assert_eq!(turns.fetch_add(1, Ordering::SeqCst), place, "overtaken");
                    let next = partition.locks.lock().release(&digest(0));
                    if let Some(next) = next {
                        next.notify();
                    }
                })
            })
            .collect();
        partition.unlock(0);
        join_all(threads);
        partition.assert_free();
    });
}

#[test]
fn the_queue_keeps_its_bound_and_refuses_only_when_full() {
    // The harness asserts the bound at each attempt.
    explore(|| {
        let partition = Arc::new(Partition::default());
        let outcomes = join_all(spawn_each(&partition, 4, |partition| {
            partition.lock(0, 1, None).inspect(|()| {
                thread::yield_now();
                partition.unlock(0);
            })
        }));
        assert!(
            outcomes
                .iter()
                .all(|outcome| *outcome != Err(Refused::Timeout))
        );
        assert!(outcomes.iter().filter(|outcome| outcome.is_ok()).count() >= 2);
        partition.assert_free();
    });
}

#[test]
fn giving_up_while_the_lock_is_handed_over_neither_loses_nor_doubles_it() {
    explore(|| {
        let partition = Arc::new(Partition::default());
        join_all(spawn_each(&partition, 3, |partition| {
            for _ in 0..2 {
                // In the model, a deadline may pass at any moment.
                match partition.lock(0, 2, Some(Instant::now())) {
                    Ok(()) => {
                        thread::yield_now();
                        partition.unlock(0);
                    }
                    Err(refused) => assert_eq!(refused, Refused::Timeout),
                }
            }
        }));
        partition.assert_free();
    });
}

#[test]
fn patient_waiters_are_served_although_others_give_up() {
    explore(|| {
        let partition = Arc::new(Partition::default());
        let patient = spawn_each(&partition, 2, |partition| {
            partition.lock(0, usize::MAX, None).unwrap();
            partition.unlock(0);
        });
        let hasty = spawn_each(&partition, 2, |partition| {
            if partition.lock(0, usize::MAX, Some(Instant::now())).is_ok() {
                partition.unlock(0);
            }
        });
        join_all(patient);
        join_all(hasty);
        partition.assert_free();
    });
}

#[test]
fn two_records_of_a_partition_never_disturb_one_another() {
    explore(|| {
        let partition = Arc::new(Partition::default());
        let fighting = spawn_each(&partition, 2, |partition| {
            partition.lock(0, 1, None).unwrap();
            thread::yield_now();
            partition.unlock(0);
        });
        for _ in 0..2 {
            partition
                .lock(1, 0, None)
                .expect("nobody else locks this record");
            partition.unlock(1);
        }
        join_all(fighting);
        partition.assert_free();
    });
}
