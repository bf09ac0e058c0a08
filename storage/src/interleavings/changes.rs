//! A follower of changes beside writers and a sync: it misses nothing, sees nothing early, and is
//! always woken.

use super::harness::*;
use crate::changes::{ChangeKind, Delivery, LoggedChange, ReadEnd};
use crate::core::Namespace;
use crate::record_lock::Change;
use crate::rules::{StorageRule, without};
use crate::sync::{Arc, Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};

/// The follower's thread, asleep until it is woken.
#[derive(Debug, Default)]
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock();
        while !std::mem::take(&mut *woken) {
            self.changed.wait(&mut woken);
        }
    }
}

/// Follows until `expected` changes have come.
fn follow(namespace: &Namespace, delivery: Delivery, expected: usize) {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(Arc::clone(&sleeper));
    let start = namespace.changes_kept_after();
    let mut reader = namespace.read_changes(delivery, start);
    let (mut seen, mut last) = (0, None);
    let mut generations = [0; 5];
    let mut registered: Option<ReadEnd> = None;
    while seen < expected {
        let read = reader.read(2, |_, _| true).unwrap();
        // The last member of a group comes into place last.
        for change in read.changes.iter().rev() {
            let number = super::read(namespace, change.digest.as_bytes()[0]).unwrap_or(0);
            let is_there = u16::from(number) >= change.generation;
            assert!(is_there, "shown before it is there");
        }
        for change in &read.changes {
            assert!(last < Some(change.position), "out of order");
            last = Some(change.position);
            assert_eq!(change.kind, ChangeKind::Put);
            let record = change.digest.as_bytes()[0];
            let generation = &mut generations[usize::from(record)];
            *generation += 1;
            assert_eq!(change.generation, *generation, "a gap");
            assert!(
                delivery == Delivery::Published || change.position.lsn <= namespace.durable_lsn()
            );
        }
        let of_one =
            |before: &LoggedChange, after: &LoggedChange| before.position.lsn == after.position.lsn;
        for together in read.changes.chunk_by(of_one) {
            let is_grouped = together[0].digest.as_bytes()[0] >= 3;
            assert_eq!(
                together.len(),
                1 + usize::from(is_grouped),
                "a part of a group"
            );
        }
        seen += read.changes.len();
        if !read.changes.is_empty() || read.end == ReadEnd::Full {
            continue;
        }
        if registered == Some(read.end) {
            sleeper.sleep();
            registered = None;
        } else {
            reader.wake_later(read.end, &waker);
            registered = Some(read.end);
        }
    }
    assert_eq!(seen, expected);
}

fn group(namespace: &Namespace, number: u8) {
    let payload = [number; SMALL];
    let changes = [3, 4].map(|record| {
        let lock = namespace.lock(&digest(record), None).unwrap();
        (lock, Change::Put(version(&payload)))
    });
    namespace.commit_group(changes.into()).unwrap();
}

fn followed(delivery: Delivery) {
    let (namespace, _device) = open_with(2);
    namespace.set_fed(0, true).unwrap();
    let follower = spawn(&namespace, move |namespace| follow(namespace, delivery, 8));
    let writers = [0, 1].map(|record| {
        spawn(&namespace, move |namespace| {
            (0..2).for_each(|_| increment(namespace, record));
        })
    });
    let grouped = spawn(&namespace, |namespace| {
        group(namespace, 1);
        group(namespace, 2);
    });
    let syncs = spawn(&namespace, |namespace| {
        (0..2).for_each(|_| namespace.sync().unwrap());
    });
    for thread in writers.into_iter().chain([grouped, syncs]) {
        thread.join().unwrap();
    }
    if delivery == Delivery::Durable {
        namespace.sync().unwrap();
    }
    follower.join().unwrap();
}

/// One writer of groups alone: few switches part the members of a group.
fn followed_group() {
    let (namespace, _device) = open_with(2);
    namespace.set_fed(0, true).unwrap();
    let follower = spawn(&namespace, |namespace| {
        follow(namespace, Delivery::Published, 2);
    });
    group(&namespace, 1);
    follower.join().unwrap();
}

/// The guards are global: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|error| error.into_inner())
}

#[test]
fn a_follower_of_what_is_published_misses_nothing_and_is_woken() {
    let _alone = alone();
    explore(1_000, || followed(Delivery::Published));
}

#[test]
fn a_follower_of_what_is_durable_misses_nothing_and_is_woken() {
    let _alone = alone();
    explore(500, || followed(Delivery::Durable));
}

#[test]
fn without_a_guard_a_follower_sees_something_early_or_misses_it() {
    let _alone = alone();
    let all: fn() = || followed(Delivery::Published);
    let guards = [
        (StorageRule::Published, all),
        (StorageRule::GroupsPublished, followed_group),
        (StorageRule::NumberBeforeLanes, all),
    ];
    let mut needless = Vec::new();
    for (guard, scenario) in guards {
        let follow = || explore(4_000, scenario);
        let outcome = without(guard, || catch_unwind(AssertUnwindSafe(follow)));
        if outcome.is_ok() {
            needless.push(guard);
        }
    }
    assert_eq!(needless, [], "nothing fails without them");
}
