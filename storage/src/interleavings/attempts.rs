//! Writes of tasks beside writes of threads: no increment is lost or made twice, no record stays
//! locked, no wake-up is missed.

use super::harness::*;
use crate::core::Namespace;
use crate::sync::thread;
use std::time::Duration;

/// Increments record 1 as a task does; one that `goes_away` ends where it would wait. Returns how
/// often.
fn increment_by_task(namespace: &Namespace, goes_away: bool) -> u8 {
    let mut attempt = namespace.attempt();
    loop {
        attempt.run(|| {
            let Ok(lock) = namespace.lock(&digest(1), None) else {
                return;
            };
            let old = lock.entry().unwrap().map_or(0, |entry| number_of(&entry));
            lock.put(&version(&[old + 1; SMALL])).unwrap();
        });
        match attempt.must_wait() {
            false => return 1,
            true if goes_away => return 0,
            true => shuttle::future::block_on(attempt.ready()),
        }
    }
}

#[test]
fn tasks_and_threads_pass_a_record_on() {
    explore(2_000, || {
        let namespace = open();
        let tasks = [false, false, true].map(|goes_away| {
            let namespace = namespace.clone();
            thread::spawn(move || increment_by_task(&namespace, goes_away))
        });
        increment(&namespace, 1);
        let made: u8 = tasks.map(|task| task.join().unwrap()).iter().sum();
        assert!(made >= 2);
        assert_eq!(read(&namespace, 1), Some(made + 1));
        let free = namespace.lock(&digest(1), Some(Duration::ZERO));
        assert!(free.is_ok(), "a lock was lost");
        drop(free);
        assert_consistent(&namespace);
    });
}
