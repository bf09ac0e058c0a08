//! Record locks: the rules, against a naive model, and with many threads.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

use super::harness::{Partition, Refused, digest};
use super::*;

#[test]
fn a_lock_whose_owner_waits_for_space_stays_held_and_says_so_until_it_resumes() {
    let mut locks = HeldLocks::default();
    assert!(locks.try_acquire(&digest(1)) && locks.try_acquire(&digest(2)));
    locks.rest(&digest(1));
    assert!(locks.is_held(&digest(1)) && locks.is_resting(&digest(1)));
    assert!(!locks.is_resting(&digest(2)));
    assert!(!locks.try_acquire(&digest(1)), "nobody else may write it");
    locks.resume(&digest(1));
    assert!(locks.is_held(&digest(1)) && !locks.is_resting(&digest(1)));
    assert!(locks.release(&digest(1)).is_none());
    assert!(!locks.is_held(&digest(1)));
}

#[test]
fn an_uncontended_lock_allocates_nothing() {
    let mut locks = HeldLocks::default();
    assert!(matches!(locks.acquire(&digest(1), 20), Acquire::Granted));
    assert!(matches!(
        locks.acquire(&digest(1), 0),
        Acquire::Busy { waiting: 0 }
    ));
    assert!(!locks.try_acquire(&digest(1)));
    assert!(locks.release(&digest(1)).is_none());
    assert!(locks.more.is_none());
}

#[test]
fn a_wait_ends_at_its_deadline_and_giving_up_leaves_nothing() {
    let partition = Partition::default();
    partition.lock(0, 1, None).unwrap();
    assert_eq!(
        partition.lock(0, 1, Some(Instant::now())),
        Err(Refused::Timeout)
    );
    partition.unlock(0);
    partition.assert_free();
}

#[test]
fn a_lock_handed_over_after_the_wait_belongs_to_the_one_who_gives_up() {
    let mut locks = HeldLocks::default();
    assert!(locks.try_acquire(&digest(1)));
    let Acquire::Queued(waiter) = locks.acquire(&digest(1), 1) else {
        panic!("not queued")
    };
    assert!(!waiter.wait(Some(Instant::now())));
    drop(locks.release(&digest(1)));
    assert!(!locks.give_up(&digest(1), &waiter));
    assert!(
        waiter.wait(Some(Instant::now())),
        "handed over, whatever the deadline"
    );
    assert!(locks.is_held(&digest(1)));
    assert!(locks.release(&digest(1)).is_none());
    assert!(!locks.is_held(&digest(1)));
}

#[test]
fn of_64_threads_at_a_held_record_20_wait_and_44_are_refused() {
    let locks = Mutex::new(HeldLocks::default());
    let release = || {
        let next = locks.lock().release(&digest(0));
        if let Some(next) = next {
            next.notify();
        }
    };
    assert!(locks.lock().try_acquire(&digest(0)));
    let owned = AtomicUsize::new(0);
    let (sender, refusals) = mpsc::channel();
    let refused = thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                let acquired = locks.lock().acquire(&digest(0), 20);
                let is_busy = matches!(acquired, Acquire::Busy { waiting: 20 });
                sender.send(is_busy).unwrap();
                if let Acquire::Queued(waiter) = acquired {
                    assert!(waiter.wait(None));
                    owned.fetch_add(1, Ordering::Relaxed);
                    release();
                }
            });
        }
        let refused = refusals.iter().take(64).filter(|is_busy| *is_busy).count();
        release();
        refused
    });
    assert_eq!((refused, owned.into_inner()), (44, 20));
    assert!(!locks.lock().is_held(&digest(0)));
}

#[test]
fn each_of_64_threads_that_keep_coming_either_owns_the_lock_or_is_refused() {
    const ROUNDS: usize = 500;
    let partition = Partition::default();
    let counted: usize = thread::scope(|scope| {
        let contender = || {
            let mut owned = 0;
            for _ in 0..ROUNDS {
                match partition.lock(1, 20, None) {
                    Ok(()) => {
                        owned += 1;
                        partition.unlock(1);
                    }
                    Err(refused) => assert_eq!(refused, Refused::Busy),
                }
            }
            owned
        };
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(contender)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert!(
        counted >= ROUNDS,
        "{counted} of {} got the lock",
        64 * ROUNDS
    );
    partition.assert_free();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire {
        record: u8,
        max_waiters: usize,
    },
    TryAcquire {
        record: u8,
    },
    Release {
        record: u8,
    },
    /// Of the waiters that are queued or were, the one at this share of the list gives up.
    GiveUp {
        who: prop::sample::Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, 0..5_usize)
            .prop_map(|(record, max_waiters)| Step::Acquire { record, max_waiters }),
        1 => (0..4_u8).prop_map(|record| Step::TryAcquire { record }),
        2 => (0..4_u8).prop_map(|record| Step::Release { record }),
        1 => any::<prop::sample::Index>().prop_map(|who| Step::GiveUp { who }),
    ]
}

proptest! {
    /// The model: for each record that is held, the numbers of its waiters, in order.
    #[test]
    fn locks_behave_like_one_queue_a_record(
        steps in prop::collection::vec(step(), 0..200)
    ) {
        let mut locks = HeldLocks::default();
        let mut model: HashMap<u8, VecDeque<usize>> = HashMap::new();
        let mut waiters: Vec<(u8, Arc<Waiter>)> = Vec::new();
        let at_once = Some(Instant::now());
        for step in steps {
            match step {
                Step::Acquire { record, max_waiters } => {
                    let acquired = locks.acquire(&digest(record), max_waiters);
                    match (acquired, model.get_mut(&record)) {
                        (Acquire::Granted, None) => {
                            model.insert(record, VecDeque::new());
                        }
                        (Acquire::Queued(waiter), Some(queue)) => {
                            prop_assert!(queue.len() < max_waiters);
                            queue.push_back(waiters.len());
                            waiters.push((record, waiter));
                        }
                        (Acquire::Busy { waiting }, Some(queue)) => {
                            prop_assert!(queue.len() >= max_waiters);
                            prop_assert_eq!(waiting, queue.len());
                        }
                        (acquired, queue) => {
                            prop_assert!(false, "{:?} where the model has {:?}", acquired, queue);
                        }
                    }
                }
                Step::TryAcquire { record } => {
                    let free = !model.contains_key(&record);
                    prop_assert_eq!(locks.try_acquire(&digest(record)), free);
                    model.entry(record).or_default();
                }
                Step::Release { record } => {
                    let Some(queue) = model.get_mut(&record) else { continue };
                    let handover = locks.release(&digest(record));
                    if let Some(next) = queue.pop_front() {
                        let (_, waiter) = &waiters[next];
                        prop_assert!(Arc::ptr_eq(&handover.as_ref().unwrap().0, waiter));
                        prop_assert!(!waiter.wait(at_once));
                        if let Some(next) = handover {
                            next.notify();
                        }
                        prop_assert!(waiter.wait(at_once));
                    } else {
                        prop_assert!(handover.is_none());
                        model.remove(&record);
                    }
                }
                Step::GiveUp { who } => {
                    // Only one who still waits, or who owns the lock, is in a place to give up.
                    let waiting: Vec<(u8, usize)> = model
                        .iter()
                        .flat_map(|(record, queue)| queue.iter().map(|who| (*record, *who)))
                        .collect();
                    if waiting.is_empty() {
                        continue;
                    }
                    let (record, who) = waiting[who.index(waiting.len())];
                    prop_assert!(locks.give_up(&digest(record), &waiters[who].1));
                    prop_assert!(!locks.give_up(&digest(record), &waiters[who].1));
                    model.get_mut(&record).unwrap().retain(|queued| *queued != who);
                }
            }
            for record in 0..4 {
                let queue = model.get(&record);
                prop_assert_eq!(locks.is_held(&digest(record)), queue.is_some());
                prop_assert_eq!(locks.waiting(&digest(record)), queue.map_or(0, VecDeque::len));
            }
        }
    }
}
