//! Writes of tasks: what would wait fails at once, changes nothing, and is worth another run when
//! it can be made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{delete, digest, fill, get, options, payload_of, put, version};
use spikelet_storage::{
    Attempt, Change, Durability, Error, Lsn, Namespace, Options, Result, Storage,
};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const LARGE: usize = 100 << 10;

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task: its attempt, and how often it was woken.
struct Task {
    attempt: Attempt,
    wakes: Arc<Wakes>,
}

impl Task {
    fn new(namespace: &Namespace) -> Self {
        Self {
            attempt: namespace.attempt(),
            wakes: Arc::default(),
        }
    }

    fn put(&mut self, namespace: &Namespace, record: u64, payload: &[u8]) -> Result<Lsn> {
        self.attempt.run(|| {
            let lock = namespace.lock(&digest(record), None)?;
            lock.put(&version(payload))
        })
    }

    fn is_ready(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let ready = self.attempt.poll_ready(&mut Context::from_waker(&waker));
        ready == Poll::Ready(())
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

fn open(change: impl FnOnce(&mut Options)) -> Namespace {
    let mut options = options(Storage::Memory, 10);
    change(&mut options);
    Namespace::open(options).unwrap().0
}

#[test]
fn a_write_to_a_free_record_is_made_at_once() {
    let namespace = open(|_| {});
    let mut task = Task::new(&namespace);
    task.put(&namespace, 1, b"a").unwrap();
    assert!(!task.attempt.must_wait() && task.is_ready());
    assert!(task.attempt.take_unsynced().is_none());
    assert_eq!(get(&namespace, &digest(1)).unwrap().unwrap(), b"a");
}

#[test]
fn tasks_and_threads_get_a_record_in_the_order_in_which_they_came() {
    let namespace = open(|_| {});
    let mut tasks = [Task::new(&namespace), Task::new(&namespace)];
    let owner = namespace.lock(&digest(1), None).unwrap();
    let put_off = tasks[0].put(&namespace, 1, b"first");
    assert!(matches!(put_off, Err(Error::Timeout)) && tasks[0].attempt.must_wait());
    assert!(!tasks[0].is_ready());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let lock = namespace.lock(&digest(1), None).unwrap();
            let before = lock.entry().unwrap().map(|entry| entry.payload().to_vec());
            lock.put(&version(b"thread")).unwrap();
            before
        });
        while namespace.stats().waits < 2 {
            std::thread::yield_now();
        }
        assert!(tasks[1].put(&namespace, 1, b"last").is_err() && !tasks[1].is_ready());
        drop(owner);
        assert_eq!((tasks[0].wakes(), tasks[1].wakes()), (1, 0));
        assert!(tasks[0].is_ready() && !tasks[1].is_ready());
        tasks[0].put(&namespace, 1, b"first").unwrap();
        assert!(!tasks[0].attempt.must_wait());
        assert_eq!(thread.join().unwrap().unwrap(), b"first");
    });
    assert_eq!(tasks[1].wakes(), 1);
    tasks[1].put(&namespace, 1, b"last").unwrap();
    assert_eq!(get(&namespace, &digest(1)).unwrap().unwrap(), b"last");
    let stats = namespace.stats();
    assert_eq!((stats.waits, stats.timeouts, stats.key_busy), (3, 0, 0));
}

#[test]
fn a_task_that_goes_away_leaves_the_queue_or_passes_the_record_on() {
    let namespace = open(|_| {});
    let owner = namespace.lock(&digest(1), None).unwrap();
    let mut tasks: Vec<_> = (0..3).map(|_| Task::new(&namespace)).collect();
    for task in &mut tasks {
        assert!(task.put(&namespace, 1, b"x").is_err() && !task.is_ready());
    }
    // Out of the middle of the queue, and then with the record in hand.
    drop(tasks.remove(1));
    drop(owner);
    assert!(tasks[0].is_ready());
    drop(tasks.remove(0));
    assert_eq!(tasks[0].wakes(), 1);
    // A run that does not ask for the record gives it back.
    assert!(tasks[0].is_ready());
    tasks[0].put(&namespace, 2, b"other").unwrap();
    let free = namespace.lock(&digest(1), Some(Duration::ZERO)).unwrap();
    assert_eq!(free.queued_behind(), 0);
}

#[test]
fn a_full_queue_and_the_end_of_patience_are_refused_as_for_a_thread() {
    let namespace = open(|options| options.max_waiters = 1);
    let owner = namespace.lock(&digest(1), None).unwrap();
    let (mut first, mut second) = (Task::new(&namespace), Task::new(&namespace));
    assert!(first.put(&namespace, 1, b"x").is_err());
    let busy = second.put(&namespace, 1, b"x");
    assert!(matches!(busy, Err(Error::KeyBusy { .. })) && !second.attempt.must_wait());
    first.attempt.end_patience();
    assert!(matches!(
        first.put(&namespace, 1, b"x"),
        Err(Error::Timeout)
    ));
    assert!(!first.attempt.must_wait());
    // A write without patience is not put off.
    let at_once = second
        .attempt
        .run(|| namespace.lock(&digest(1), Some(Duration::ZERO)).map(drop));
    assert!(matches!(at_once, Err(Error::Timeout)) && !second.attempt.must_wait());
    let stats = namespace.stats();
    assert_eq!((stats.waits, stats.timeouts, stats.key_busy), (2, 2, 1));
    drop(owner);
    namespace.lock(&digest(1), Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_group_waits_for_one_record_after_the_other_and_holds_none_meanwhile() {
    let namespace = open(|_| {});
    let digests = {
        let mut digests = [digest(1), digest(2)];
        digests.sort_unstable();
        digests
    };
    let owner = namespace.lock(&digests[1], None).unwrap();
    let mut task = Task::new(&namespace);
    let lock_both = |task: &mut Task| {
        task.attempt
            .run(|| namespace.lock_all(&digests, None).map(|locks| locks.len()))
    };
    assert!(lock_both(&mut task).is_err() && task.attempt.must_wait());
    namespace.lock(&digests[0], Some(Duration::ZERO)).unwrap();
    drop(owner);
    assert!(task.is_ready());
    assert_eq!(lock_both(&mut task).unwrap(), 2);
    assert!(!task.attempt.must_wait());
}

#[test]
fn a_record_can_be_kept_before_the_write() {
    let namespace = open(|_| {});
    let mut task = Task::new(&namespace);
    task.attempt.queue(&digest(1)).unwrap();
    assert!(task.is_ready());
    let other = namespace.lock(&digest(1), Some(Duration::ZERO));
    assert!(matches!(other, Err(Error::Timeout)));
    task.put(&namespace, 1, b"kept").unwrap();
    assert_eq!(get(&namespace, &digest(1)).unwrap().unwrap(), b"kept");
    namespace.lock(&digest(1), Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_task_that_queues_for_another_record_gives_up_the_first() {
    let namespace = open(|_| {});
    let mut task = Task::new(&namespace);
    for record in 1..200 {
        task.attempt.queue(&digest(record)).unwrap();
        assert!(task.is_ready());
    }
    for record in 1..199 {
        namespace
            .lock(&digest(record), Some(Duration::ZERO))
            .unwrap();
    }
    let last = namespace.lock(&digest(199), Some(Duration::ZERO));
    assert!(matches!(last, Err(Error::Timeout)));
}

#[test]
fn a_write_to_a_full_namespace_waits_for_space_without_a_thread() {
    let namespace = open(|options| {
        options.background = true;
        options.max_space_wait = Duration::from_secs(3_600);
    });
    let count = fill(&namespace, LARGE);
    let mut task = Task::new(&namespace);
    // Deleted records give their space back when this reader has gone.
    namespace
        .get(&digest(0), |_| {
            for record in 1..count / 2 {
                delete(&namespace, &digest(record)).unwrap();
            }
            let put_off = task.put(&namespace, 0, &payload_of(0, 1, LARGE));
            assert!(
                matches!(put_off, Err(Error::StopWrites { .. })),
                "{put_off:?}"
            );
            assert!(task.attempt.must_wait() && task.attempt.ends().is_some());
        })
        .unwrap();
    // Each look of cleaning that finds nothing wakes the task, too.
    while task.attempt.must_wait() {
        while !task.is_ready() {
            std::thread::yield_now();
        }
        drop(task.put(&namespace, 0, &payload_of(0, 1, LARGE)));
    }
    assert_eq!(
        get(&namespace, &digest(0)).unwrap().unwrap(),
        payload_of(0, 1, LARGE)
    );
    assert_eq!(namespace.stats().space_waits, 1);
}

#[test]
fn where_no_space_can_be_won_the_refusal_comes_at_once() {
    let namespace = open(|options| {
        options.background = true;
        options.max_space_wait = Duration::from_secs(3_600);
    });
    fill(&namespace, LARGE);
    let mut task = Task::new(&namespace);
    let refused = task.put(&namespace, 0, &payload_of(0, 1, LARGE));
    assert!(matches!(refused, Err(Error::StopWrites { .. })) && !task.attempt.must_wait());
}

#[test]
fn a_committed_write_leaves_its_sync_to_the_task() {
    let namespace = open(|options| options.durability = Durability::Commit);
    let mut task = Task::new(&namespace);
    let lsn = task.put(&namespace, 1, b"x").unwrap();
    assert_eq!(task.attempt.take_unsynced(), Some(lsn));
    assert_eq!(task.attempt.take_unsynced(), None);
    let waker = Waker::from(Arc::clone(&task.wakes));
    let mut durable = pin!(namespace.durable(lsn));
    while durable
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        std::thread::yield_now();
    }
    assert!(namespace.durable_lsn() >= lsn);
}

#[test]
fn attempts_of_one_namespace_do_not_touch_another() {
    let (own, other) = (open(|_| {}), open(|_| {}));
    put(&other, &digest(1), b"before").unwrap();
    let owner = other.lock(&digest(1), None).unwrap();
    let mut task = Task::new(&own);
    // It waits as a thread does, and its time is over.
    let waited = task.attempt.run(|| {
        let limit = Some(Duration::from_millis(1));
        other.lock(&digest(1), limit).map(drop)
    });
    assert!(matches!(waited, Err(Error::Timeout)) && !task.attempt.must_wait());
    drop(owner);
}

#[test]
fn a_patience_that_no_clock_can_hold_is_long_for_tasks_too() {
    let namespace = open(|options| {
        options.background = true;
        options.max_space_wait = Duration::MAX;
    });
    let count = fill(&namespace, LARGE);
    let mut task = Task::new(&namespace);
    // Deleted records give their space back when this reader has gone.
    namespace
        .get(&digest(0), |_| {
            for record in 1..count / 2 {
                delete(&namespace, &digest(record)).unwrap();
            }
            let put_off = task.put(&namespace, 0, &payload_of(0, 1, LARGE));
            assert!(matches!(put_off, Err(Error::StopWrites { .. })));
            assert!(task.attempt.must_wait());
        })
        .unwrap();
}

#[test]
fn a_group_that_needs_more_than_one_block_is_not_woken_for_nothing() {
    let namespace = open(|options| {
        options.background = true;
        options.max_space_wait = Duration::from_secs(3_600);
    });
    const EACH: usize = 4 << 20;
    let mut record = 0;
    while namespace.stats().available_blocks > namespace.stats().reserve_blocks + 1 {
        record += 1;
        put(&namespace, &digest(record), &payload_of(record, 0, EACH)).unwrap();
    }
    let mut digests: Vec<_> = (100..106).map(digest).collect();
    digests.sort_unstable();
    let mut task = Task::new(&namespace);
    let group = |task: &mut Task| {
        let payload = payload_of(1, 1, EACH);
        task.attempt.run(|| {
            let locks = namespace
                .lock_all(&digests, None)
                .map_err(|(_, error)| error)?;
            let changes = locks.into_iter();
            let changes = changes.map(|(lock, _)| (lock, Change::Put(version(&payload))));
            namespace.commit_group(changes.collect())
        })
    };
    // A record that is read keeps its block, and so the space that the group waits for.
    namespace
        .get(&digest(1), |_| {
            for record in 1..=record {
                delete(&namespace, &digest(record)).unwrap();
            }
            assert!(matches!(group(&mut task), Err(Error::StopWrites { .. })));
            assert!(task.attempt.must_wait());
            let stats = namespace.stats();
            assert!(!stats.stop_writes, "one block is there: {stats:?}");
            assert!(!task.is_ready(), "nothing has changed");
        })
        .unwrap();
    // Each look of cleaning that finds nothing wakes the task, too.
    while task.attempt.must_wait() {
        while !task.is_ready() {
            std::thread::yield_now();
        }
        drop(group(&mut task));
    }
    let read = get(&namespace, &digests[0]).unwrap().unwrap();
    assert_eq!(read, payload_of(1, 1, EACH));
}
