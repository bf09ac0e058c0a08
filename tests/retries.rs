//! Calls that are repeated after `KeyBusy`: how often, after which pauses, and when not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::time::Duration;

use spikelet::{Error, NamespaceConfig, Result, RetryPolicy, Store};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn busy() -> Error {
    Error::KeyBusy {
        waiting: 20,
        limit: 20,
        record: None,
    }
}

/// The result of calls that fail with `error` `failures` times, how many were made, and the pauses
/// between them.
fn run(
    policy: &RetryPolicy,
    failures: u32,
    error: fn() -> Error,
) -> (Result<u32>, u32, Vec<Duration>) {
    let (mut calls, mut pauses) = (0, Vec::new());
    let result = policy.retry_pausing(
        |pause| pauses.push(pause),
        || {
            calls += 1;
            if calls <= failures {
                Err(error())
            } else {
                Ok(calls)
            }
        },
    );
    (result, calls, pauses)
}

#[test]
fn a_call_that_succeeds_is_made_once() {
    let (result, calls, pauses) = run(&RetryPolicy::default(), 0, busy);
    assert_eq!((result.unwrap(), calls, pauses.len()), (1, 1, 0));
}

#[test]
fn a_busy_record_is_tried_again_until_it_is_free() {
    let (result, calls, pauses) = run(&RetryPolicy::default(), 3, busy);
    assert_eq!((result.unwrap(), calls, pauses.len()), (4, 4, 3));
}

#[test]
fn attempts_are_bounded_and_the_last_error_is_returned() {
    for (attempts, made) in [(0, 1), (1, 1), (4, 4)] {
        let policy = RetryPolicy::default().max_attempts(attempts);
        let (result, calls, pauses) = run(&policy, u32::MAX, busy);
        assert!(matches!(result, Err(Error::KeyBusy { .. })));
        assert_eq!((calls, pauses.len() as u32), (made, made - 1));
    }
}

#[test]
fn pauses_double_up_to_the_limit_and_are_shortened_by_half_at_most() {
    let policy = RetryPolicy::default()
        .max_attempts(7)
        .first_pause(ms(2))
        .max_pause(ms(20));
    let (_, _, pauses) = run(&policy, u32::MAX, busy);
    for (pause, most) in pauses.iter().zip([2, 4, 8, 16, 20, 20]) {
        assert!(*pause <= ms(most) && *pause >= ms(most) / 2, "{pauses:?}");
    }
    let far = policy.pause_after(u32::MAX);
    assert!(far <= ms(20) && far >= ms(10), "{far:?}");
    assert_eq!(policy.first_pause(ms(0)).pause_after(3), ms(0));
}

#[test]
fn callers_that_were_refused_together_come_back_apart() {
    let policy = RetryPolicy::default()
        .first_pause(ms(1_000))
        .max_pause(ms(1_000));
    let mut pauses: Vec<_> = (0..16).map(|_| policy.pause_after(1)).collect();
    pauses.sort();
    pauses.dedup();
    assert!(pauses.len() > 1);
}

#[test]
fn what_waiting_does_not_mend_is_not_tried_again() {
    for error in [
        || Error::NotFound { record: None },
        || Error::Timeout {
            after: ms(5),
            in_doubt: true,
            record: None,
        },
    ] {
        let (result, calls, _) = run(&RetryPolicy::default(), u32::MAX, error);
        assert!(result.is_err());
        assert_eq!(calls, 1);
    }
}

#[test]
fn a_write_that_a_record_refuses_is_applied_once_the_record_is_free() {
    let config = NamespaceConfig::new("test").max_waiters(0);
    let store = Store::builder().namespace(config).open().unwrap();
    let counters = store.set("counters").unwrap();
    let (paused, resume) = std::sync::mpsc::channel();
    let (free, freed) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (held, holding) = std::sync::mpsc::channel();
        let holder = counters.clone();
        scope.spawn(move || {
            holder
                .update("visits", |bins| {
                    held.send(()).unwrap();
                    // Until the other has met the record busy.
                    resume.recv().unwrap();
                    bins.set("n", 1)
                })
                .unwrap();
            free.send(()).unwrap();
        });
        holding.recv().unwrap();
        let pause = |_| {
            paused.send(()).unwrap();
            freed.recv().unwrap();
        };
        RetryPolicy::default()
            .retry_pausing(pause, || counters.add("visits", [("n", 1)]))
            .unwrap();
    });
    let visits = counters.get("visits").unwrap().unwrap();
    assert_eq!(visits.get("n"), Some(2.into()));
}
