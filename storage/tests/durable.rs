//! Writes that return before they are durable, and callers that wait for them: blocked, or as
//! futures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs
)]

mod common;

use common::{NOW_MS, digest, header, options, version};
use spikelet_storage::{
    Change, Device, DeviceError, Durability, Error, Lsn, Namespace, Options, Result,
    SimulatedDevice, Storage,
};
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

const BLOCKS: u64 = 16;

/// A simulated disk. Syncs begin at any time and end when the test allows it.
#[derive(Debug)]
struct Gated {
    disk: SimulatedDevice,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Debug)]
struct Gate {
    /// Syncs that have begun.
    begun: u64,
    /// Syncs that may end.
    allowed: u64,
}

impl Gated {
    /// With an open gate.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: SimulatedDevice::new(&header(0, 1, BLOCKS)).unwrap(),
            gate: Mutex::new(Gate {
                begun: 0,
                allowed: u64::MAX,
            }),
            changed: Condvar::new(),
        })
    }

    /// Allows `more` syncs to end. With an open gate, first closes it behind the syncs that have
    /// begun.
    fn allow(&self, more: u64) {
        let mut gate = self.gate.lock().unwrap();
        gate.allowed = match gate.allowed {
            u64::MAX => gate.begun + more,
            allowed => allowed + more,
        };
        self.changed.notify_all();
    }

    fn begun(&self) -> u64 {
        self.gate.lock().unwrap().begun
    }

    fn wait_until_begun(&self, syncs: u64) {
        let gate = self.gate.lock().unwrap();
        drop(
            self.changed
                .wait_while(gate, |gate| gate.begun < syncs)
                .unwrap(),
        );
    }
}

// SAFETY: all that is promised is promised by the disk.
unsafe impl Device for Gated {
    fn base(&self) -> NonNull<u8> {
        self.disk.base()
    }

    fn max_bytes(&self) -> u64 {
        self.disk.max_bytes()
    }

    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes()
    }

    fn extend(&self, wanted_bytes: u64) -> std::result::Result<(), DeviceError> {
        self.disk.extend(wanted_bytes)
    }

    fn reserve(&self, offset: u64, len: u64) -> std::result::Result<(), DeviceError> {
        self.disk.reserve(offset, len)
    }

    fn release(&self, offset: u64, len: u64) -> std::result::Result<(), DeviceError> {
        self.disk.release(offset, len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        self.disk.write(offset, bytes)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> std::result::Result<(), DeviceError> {
        self.disk.read(offset, into)
    }

    fn sync(&self) -> std::result::Result<(), DeviceError> {
        let mut gate = self.gate.lock().unwrap();
        gate.begun += 1;
        let number = gate.begun;
        self.changed.notify_all();
        drop(
            self.changed
                .wait_while(gate, |gate| gate.allowed < number)
                .unwrap(),
        );
        self.disk.sync()
    }

    fn populate(&self, offset: u64, len: u64) {
        self.disk.populate(offset, len);
    }

    fn boot(&self) -> u64 {
        self.disk.boot()
    }

    fn staging(&self) -> Option<NonNull<u8>> {
        self.disk.staging()
    }

    fn reserve_staging(&self, offset: u64, len: u64) -> std::result::Result<(), DeviceError> {
        self.disk.reserve_staging(offset, len)
    }

    fn allocated_bytes(&self) -> u64 {
        self.disk.allocated_bytes()
    }

    fn describe(&self) -> String {
        "gated".to_owned()
    }
}

/// A namespace that promises durability, with a thread that syncs. The disk's syncs do not end yet.
fn gated() -> (Namespace, Arc<Gated>) {
    let disk = Gated::new();
    let options = Options {
        background: true,
        durability: Durability::Commit,
        ..options(
            Storage::Devices(vec![Arc::clone(&disk) as Arc<dyn Device>]),
            BLOCKS,
        )
    };
    let namespace = Namespace::open(options).unwrap().0;
    namespace.sync().unwrap();
    disk.allow(0);
    (namespace, disk)
}

fn unattended(durability: Durability) -> (Namespace, Arc<SimulatedDevice>) {
    let disk = Arc::new(SimulatedDevice::new(&header(0, 1, BLOCKS)).unwrap());
    let storage = Storage::Devices(vec![Arc::clone(&disk) as Arc<dyn Device>]);
    let options = Options {
        durability,
        ..options(storage, BLOCKS)
    };
    (Namespace::open(options).unwrap().0, disk)
}

/// Puts a record without waiting until it is durable.
fn apply(namespace: &Namespace, record: u64) -> Lsn {
    let mut lock = namespace.lock(&digest(record), None).unwrap();
    lock.apply(&Change::Put(version(&record.to_le_bytes())))
        .unwrap()
        .unwrap()
}

/// Wakes a thread, and counts.
#[derive(Debug)]
struct Counting {
    thread: Thread,
    wakes: AtomicU64,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

type Task = Pin<Box<dyn Future<Output = Result<()>> + Send + 'static>>;

/// A future, and how often it was woken.
struct Polled {
    task: Task,
    waker: Arc<Counting>,
}

impl Polled {
    fn new(task: impl Future<Output = Result<()>> + Send + 'static) -> Self {
        Self {
            task: Box::pin(task),
            waker: Arc::new(Counting {
                thread: thread::current(),
                wakes: AtomicU64::new(0),
            }),
        }
    }

    fn poll(&mut self) -> Poll<Result<()>> {
        let waker = Waker::from(Arc::clone(&self.waker));
        self.task.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> u64 {
        self.waker.wakes.load(Ordering::SeqCst)
    }

    /// Sleeps until the future was woken.
    fn woken(&self) {
        while self.wakes() == 0 {
            thread::park();
        }
    }

    fn finish(mut self) -> Result<()> {
        loop {
            let wakes = self.wakes();
            if let Poll::Ready(result) = self.poll() {
                return result;
            }
            while self.wakes() == wakes {
                thread::park();
            }
        }
    }
}

#[test]
fn numbers_rise_with_every_write_and_say_what_is_durable() {
    let (namespace, _) = unattended(Durability::Process);
    let first = apply(&namespace, 1);
    let second = namespace.lock(&digest(2), None).unwrap();
    let second = second.put(&version(b"second")).unwrap();
    let delete = || {
        namespace
            .lock(&digest(1), None)
            .unwrap()
            .delete(NOW_MS)
            .unwrap()
    };
    let third = delete().unwrap();
    assert_eq!(delete(), None, "there is nothing any more");
    let locks = [2, 3].map(|record| namespace.lock(&digest(record), None).unwrap());
    let changes = [Change::Delete(NOW_MS), Change::Put(version(b"third"))];
    let group = namespace.commit_group(locks.into_iter().zip(changes).collect::<Vec<_>>());
    let fourth = group.unwrap().unwrap();
    assert!(first < second && second < third && third < fourth);
    assert!(namespace.last_lsn() >= fourth);
    assert_eq!(
        namespace
            .commit_group(Vec::<(_, Change<'_>)>::new())
            .unwrap(),
        None
    );
    let before = namespace.durable_lsn();
    assert!(before < first);
    namespace.wait_durable(second).unwrap();
    assert!(
        namespace.durable_lsn() >= fourth,
        "a sync takes all there is"
    );
}

#[test]
fn one_sync_serves_all_futures_whose_writes_came_before_it() {
    let (namespace, disk) = gated();
    let begun = disk.begun();
    let writes: Vec<Lsn> = (0..20).map(|record| apply(&namespace, record)).collect();
    let mut tasks: Vec<Polled> = writes
        .iter()
        .map(|lsn| Polled::new(namespace.durable(*lsn)))
        .collect();
    for task in &mut tasks {
        assert!(task.poll().is_pending());
    }
    disk.wait_until_begun(begun + 1);
    assert!(
        tasks.iter().all(|task| task.wakes() == 0),
        "nothing is durable yet"
    );
    disk.allow(1);
    for task in tasks {
        task.woken();
        assert_eq!(task.wakes(), 1);
        task.finish().unwrap();
    }
    assert_eq!(disk.begun(), begun + 1);
}

#[test]
fn a_write_that_comes_during_a_sync_waits_for_the_next_one() {
    let (namespace, disk) = gated();
    let begun = disk.begun();
    let mut early = Polled::new(namespace.durable(apply(&namespace, 1)));
    assert!(early.poll().is_pending());
    disk.wait_until_begun(begun + 1);
    let mut late = Polled::new(namespace.durable(apply(&namespace, 2)));
    assert!(late.poll().is_pending());
    disk.allow(1);
    early.finish().unwrap();
    // The thread goes on by itself, for the one that is left.
    disk.wait_until_begun(begun + 2);
    assert!(late.poll().is_pending());
    assert_eq!(late.wakes(), 0);
    disk.allow(1);
    late.finish().unwrap();
    assert_eq!(disk.begun(), begun + 2);
}

#[test]
fn blocked_writers_and_futures_share_syncs() {
    let (namespace, disk) = gated();
    let begun = disk.begun();
    let writes: Vec<Lsn> = (0..8).map(|record| apply(&namespace, record)).collect();
    let mut task = Polled::new(namespace.durable(writes[0]));
    assert!(task.poll().is_pending());
    thread::scope(|scope| {
        for lsn in &writes {
            let namespace = &namespace;
            scope.spawn(move || namespace.wait_durable(*lsn).unwrap());
        }
        disk.wait_until_begun(begun + 1);
        disk.allow(1);
    });
    task.finish().unwrap();
    assert_eq!(disk.begun(), begun + 1);
}

#[test]
fn a_failed_sync_is_told_to_all_who_wait_and_to_all_who_come_later() {
    let (namespace, disk) = gated();
    let begun = disk.begun();
    let durable = namespace.durable_lsn();
    disk.disk.fail_sync(1, 7);
    let lsn = apply(&namespace, 1);
    let mut task = Polled::new(namespace.durable(lsn));
    assert!(task.poll().is_pending());
    let in_doubt = |result: Result<()>| matches!(result, Err(Error::InDoubt { .. }));
    thread::scope(|scope| {
        let blocked = scope.spawn(|| namespace.wait_durable(lsn));
        disk.wait_until_begun(begun + 1);
        disk.allow(1);
        assert!(in_doubt(blocked.join().unwrap()));
    });
    task.woken();
    assert!(in_doubt(task.finish()));
    assert!(in_doubt(Polled::new(namespace.durable(lsn)).finish()));
    assert!(in_doubt(namespace.wait_durable(lsn)));
    // Writes that were durable before stay durable.
    namespace.wait_durable(durable).unwrap();
    Polled::new(namespace.durable(durable)).finish().unwrap();
    assert_eq!(
        disk.begun(),
        begun + 1,
        "a failed sync is never tried again"
    );
}

#[test]
fn closing_wakes_those_who_wait() {
    let (namespace, disk) = gated();
    let begun = disk.begun();
    let lsn = apply(&namespace, 1);
    let mut task = Polled::new(namespace.durable(lsn));
    assert!(task.poll().is_pending());
    disk.wait_until_begun(begun + 1);
    thread::scope(|scope| {
        let closing = scope.spawn(|| namespace.close());
        task.woken();
        disk.allow(u64::MAX / 2);
        task.finish().unwrap();
        closing.join().unwrap().unwrap();
    });
    // Everything is durable now, so waiting needs no sync.
    let begun = disk.begun();
    Polled::new(namespace.durable(lsn)).finish().unwrap();
    assert_eq!(disk.begun(), begun);
}

#[test]
fn a_future_outlives_the_last_handle() {
    let (namespace, disk) = gated();
    let mut task = Polled::new(namespace.durable(apply(&namespace, 1)));
    assert!(task.poll().is_pending());
    disk.allow(u64::MAX / 2);
    drop(namespace);
    task.finish().unwrap();
}

#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (namespace, disk) = gated();
    let mut task = Polled::new(namespace.durable(apply(&namespace, 1)));
    let waker = Arc::clone(&task.waker);
    assert!(task.poll().is_pending());
    assert!(task.poll().is_pending());
    let mut other = Polled::new(namespace.durable(namespace.last_lsn()));
    assert!(other.poll().is_pending());
    assert_eq!(
        Arc::strong_count(&waker),
        3,
        "the task, the list, and this test"
    );
    drop(task);
    assert_eq!(Arc::strong_count(&waker), 1);
    disk.allow(1);
    other.finish().unwrap();
    assert_eq!(waker.wakes.load(Ordering::SeqCst), 0);
}

#[test]
fn a_task_that_moves_to_another_waker_is_woken_there() {
    let (namespace, disk) = gated();
    let mut task = pin!(namespace.durable(apply(&namespace, 1)));
    let wakers = [(); 2].map(|()| {
        Arc::new(Counting {
            thread: thread::current(),
            wakes: AtomicU64::new(0),
        })
    });
    for waker in &wakers {
        let waker = Waker::from(Arc::clone(waker));
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    disk.allow(1);
    while wakers[1].wakes.load(Ordering::SeqCst) == 0 {
        thread::park();
    }
    assert_eq!(wakers[0].wakes.load(Ordering::SeqCst), 0);
}

#[test]
fn where_nobody_syncs_in_the_background_the_poll_does() {
    let (namespace, disk) = unattended(Durability::Commit);
    let (first, second) = (apply(&namespace, 1), apply(&namespace, 2));
    let mut task = Polled::new(namespace.durable(first));
    let before = disk.syncs();
    assert!(matches!(task.poll(), Poll::Ready(Ok(()))));
    assert_eq!(disk.syncs(), before + 1);
    let mut other = Polled::new(namespace.durable(second));
    assert!(matches!(other.poll(), Poll::Ready(Ok(()))));
    assert_eq!(disk.syncs(), before + 1, "it was durable already");
    assert_eq!((task.wakes(), other.wakes()), (0, 0));
}

#[test]
fn a_future_that_is_not_polled_asks_for_nothing() {
    let (namespace, disk) = unattended(Durability::Commit);
    let before = disk.syncs();
    drop(namespace.durable(apply(&namespace, 1)));
    assert_eq!(disk.syncs(), before);
}

#[test]
fn a_number_that_no_write_has_returned_is_refused() {
    let (namespace, _) = unattended(Durability::Commit);
    let beyond = Lsn::new(namespace.last_lsn().get() + 1);
    let refused = |result| matches!(result, Err(Error::BadOption { option: "lsn", .. }));
    assert!(refused(namespace.wait_durable(beyond)));
    assert!(refused(Polled::new(namespace.durable(beyond)).finish()));
}

#[test]
fn what_was_waited_for_survives_a_power_failure() {
    for seed in 0..20 {
        let (namespace, disk) = unattended(Durability::Commit);
        apply(&namespace, 1);
        let locks = [2, 3].map(|record| namespace.lock(&digest(record), None).unwrap());
        let bytes = [2_u64, 3].map(u64::to_le_bytes);
        let changes = bytes.iter().map(|bytes| Change::Put(version(bytes)));
        let group = namespace.apply_group(locks.into_iter().zip(changes).collect::<Vec<_>>());
        namespace.wait_durable(group.unwrap().unwrap()).unwrap();
        // The test does not wait for these two.
        apply(&namespace, 1);
        apply(&namespace, 4);
        disk.writeback(seed);
        let left: Arc<dyn Device> = Arc::new(disk.crash(seed).unwrap());
        let again = Namespace::open(options(Storage::Devices(vec![left]), BLOCKS))
            .unwrap()
            .0;
        for record in 1..=3_u64 {
            let found = again.get(&digest(record), |entry| entry.payload().to_vec());
            assert_eq!(found.unwrap().unwrap(), record.to_le_bytes(), "seed {seed}");
        }
    }
}

#[test]
fn a_put_that_waits_is_durable_when_it_returns() {
    let (namespace, disk) = unattended(Durability::Commit);
    let before = disk.syncs();
    let lock = namespace.lock(&digest(1), None).unwrap();
    let lsn = lock.put(&version(b"x")).unwrap();
    assert_eq!(disk.syncs(), before + 1);
    assert!(namespace.durable_lsn() >= lsn);
}
