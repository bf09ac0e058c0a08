//! Other writers between the reads of a transaction and its commit. They run inside the closure, so
//! each case is exact.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use spikelet::error::ConflictCause;
use spikelet::storage::ManualClock;
use spikelet::{Error, Expiration, Store, TransactionPolicy, TransactionSet, WritePolicy};

use super::*;

/// Runs a transaction that looks at `read`, is disturbed once, and writes `write`. Returns how
/// often it ran.
fn attempts_when(
    read: &str,
    write: &str,
    disturb: impl Fn(&Store, &Set),
    setup: impl Fn(&Set),
) -> u64 {
    let (store, namespace, accounts) = store();
    setup(&accounts);
    let runs = Cell::new(0);
    store
        .transaction(|tx| {
            let inside = tx.set("accounts")?;
            let _ = inside.get(read)?;
            runs.set(runs.get() + 1);
            if runs.get() == 1 {
                disturb(&store, &accounts);
            }
            inside.put(write, [("seen", runs.get() as i64)])
        })
        .unwrap();
    let stats = namespace.transaction_stats();
    let again = runs.get() - 1;
    assert_eq!((stats.conflicts, stats.retries), (again, again));
    runs.get()
}

fn put_one(accounts: &Set) {
    accounts.put("r", [("n", 1)]).unwrap();
}

#[test]
fn a_change_of_what_was_read_makes_the_closure_run_again() {
    type Disturb = fn(&Store, &Set);
    let cases: [(&str, Disturb); 7] = [
        ("put", |_, set| {
            set.put("r", [("n", 2)]).unwrap();
        }),
        ("the same value", |_, set| {
            set.put("r", [("n", 1)]).unwrap();
        }),
        ("touch", |_, set| {
            set.touch("r").unwrap();
        }),
        ("delete", |_, set| {
            set.delete("r").unwrap();
        }),
        (
            "delete and create again with the same generation",
            |_, set| {
                set.delete("r").unwrap();
                set.put("r", [("n", 1)]).unwrap();
            },
        ),
        ("truncation", |_, set| {
            set.truncate(None).unwrap();
        }),
        ("another transaction", |store, _| {
            store
                .transaction(|tx| tx.set("accounts")?.add("r", [("n", 1)]))
                .unwrap();
        }),
    ];
    for (name, disturb) in cases {
        for write in ["r", "w"] {
            assert_eq!(
                attempts_when("r", write, disturb, put_one),
                2,
                "{name}, writing {write}"
            );
        }
    }
}

#[test]
fn an_absence_that_has_ended_makes_the_closure_run_again() {
    type Disturb = fn(&Store, &Set);
    let create = |set: &Set| {
        set.put("r", [("n", 1)]).unwrap();
    };
    let cases: [(&str, Disturb); 4] = [
        ("created", |_, set| {
            set.put("r", [("n", 1)]).unwrap();
        }),
        ("created and deleted", |_, set| {
            set.put("r", [("n", 1)]).unwrap();
            set.delete("r").unwrap();
        }),
        ("created and truncated", |_, set| {
            set.put("r", [("n", 1)]).unwrap();
            set.truncate(None).unwrap();
        }),
        (
            "created, deleted, and the tombstone forgotten",
            |store, set| {
                set.put("r", [("n", 1)]).unwrap();
                set.delete("r").unwrap();
                store.namespace("test").unwrap().maintain().unwrap();
            },
        ),
    ];
    for (name, disturb) in cases {
        for write in ["r", "w"] {
            let never = attempts_when("r", write, disturb, |_| {});
            assert_eq!(never, 2, "{name}, never there, writing {write}");
            let deleted = attempts_when("r", write, disturb, |set| {
                create(set);
                set.delete("r").unwrap();
            });
            assert_eq!(deleted, 2, "{name}, deleted before, writing {write}");
        }
    }
}

#[test]
fn what_does_not_concern_it_lets_a_transaction_commit_at_once() {
    type Disturb = fn(&Store, &Set);
    let cases: [(&str, Disturb); 3] = [
        ("another record", |_, set| {
            set.put("other", [("n", 2)]).unwrap();
        }),
        ("reads", |_, set| {
            set.get("r").unwrap();
        }),
        ("defragmentation", |store, set| {
            for key in 0..2_000 {
                set.put(key, [("n", vec![0u8; 10_000])]).unwrap();
            }
            for key in 0..2_000 {
                set.delete(key).unwrap();
            }
            let namespace = store.namespace("test").unwrap();
            namespace.maintain().unwrap();
            // The 20 MB are gone, by this call or by the background before it.
            assert!(namespace.stats().used_blocks < 3);
        }),
    ];
    for (name, disturb) in cases {
        assert_eq!(attempts_when("r", "w", disturb, put_one), 1, "{name}");
    }
}

#[test]
fn write_skew_is_refused() {
    let (store, _, accounts) = store();
    accounts.put("a", [("n", 1)]).unwrap();
    accounts.put("b", [("n", 1)]).unwrap();
    // Each may leave only while the other stays on duty.
    let leave = |inside: &TransactionSet<'_>, who: &str| -> Result<()> {
        let duty: i64 = ["a", "b"]
            .iter()
            .map(|key| Ok(number(inside.get(*key)?).unwrap()))
            .sum::<Result<i64>>()?;
        if duty < 2 {
            return Err(Error::Forbidden("nobody would be left".into()));
        }
        inside.put(who, [("n", 0)])
    };
    let runs = Cell::new(0);
    let outcome = store.transaction(|tx| {
        runs.set(runs.get() + 1);
        leave(&tx.set("accounts")?, "a")?;
        if runs.get() == 1 {
            // The other one leaves while this transaction has not committed yet.
            store
                .transaction(|other| leave(&other.set("accounts")?, "b"))
                .unwrap();
        }
        Ok(())
    });
    assert!(matches!(outcome, Err(Error::Forbidden(_))), "{outcome:?}");
    assert_eq!((n(&accounts, "a"), n(&accounts, "b")), (Some(1), Some(0)));
}

#[test]
fn a_second_look_at_a_record_never_differs_from_the_first() {
    let (store, _, accounts) = store();
    put_one(&accounts);
    let runs = Cell::new(0);
    let seen = store
        .snapshot_read(|tx| {
            runs.set(runs.get() + 1);
            let inside = tx.set("accounts")?;
            let first = number(inside.get("r")?);
            if runs.get() == 1 {
                accounts.put("r", [("n", 2)]).unwrap();
                // Swallowing the error does not make the run count.
                assert!(is_conflict(&inside.get("r")));
                assert!(is_conflict(&inside.get("other")));
            }
            Ok(first)
        })
        .unwrap();
    assert_eq!((seen, runs.get()), (Some(2), 2));
}

#[test]
fn an_error_that_rests_on_an_old_read_is_not_returned() {
    let (store, _, accounts) = store();
    accounts.put("r", [("n", 1)]).unwrap();
    let runs = Cell::new(0);
    let outcome = store.transaction(|tx| {
        runs.set(runs.get() + 1);
        let found = number(tx.set("accounts")?.get("r")?);
        if runs.get() == 1 {
            accounts.put("r", [("n", 2)]).unwrap();
        }
        match found {
            Some(2) => Ok(()),
            _ => Err(Error::Forbidden("not two".into())),
        }
    });
    assert!(outcome.is_ok());
}

#[test]
fn conflicts_end_in_an_error_that_says_where_and_how_often() {
    let (_store, namespace, accounts) = store();
    put_one(&accounts);
    let policy = TransactionPolicy::default().max_attempts(3);
    let outcome = namespace.transaction_with(&policy, |tx| {
        let inside = tx.set("accounts")?;
        inside.get("r")?;
        accounts.add("r", [("n", 1)]).unwrap();
        inside.put("w", [("n", 1)])
    });
    let error = outcome.unwrap_err();
    assert!(error.is_retryable() && error.result_code() == 121);
    let Error::Conflict {
        cause,
        attempts,
        record,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*cause, *attempts), (ConflictCause::Changed, 3));
    let record = record.as_deref().unwrap();
    assert_eq!((record.set(), record.key()), ("accounts", &"r".into()));
    assert_eq!(n(&accounts, "w"), None);
}

#[test]
fn no_attempt_begins_after_the_time_is_over() {
    let (_store, namespace, accounts) = store();
    put_one(&accounts);
    let policy = TransactionPolicy::default().total_timeout(Duration::ZERO);
    let outcome = namespace.transaction_with(&policy, |tx| {
        tx.set("accounts")?.get("r")?;
        accounts.add("r", [("n", 1)]).unwrap();
        Ok(())
    });
    assert!(matches!(outcome, Err(Error::Conflict { attempts: 1, .. })));
}

#[test]
fn a_record_that_another_writer_holds_is_a_conflict_once_the_time_is_over() {
    let (_store, namespace, accounts) = store();
    put_one(&accounts);
    let policy = TransactionPolicy::default()
        .max_attempts(2)
        .total_timeout(Duration::from_millis(20));
    for (read, write) in [("r", "w"), ("w", "r")] {
        accounts
            .update("r", |_| {
                let outcome = namespace.transaction_with(&policy, |tx| {
                    let inside = tx.set("accounts")?;
                    inside.get(read)?;
                    inside.put(write, [("n", 7)])
                });
                let cause = match outcome {
                    Err(Error::Conflict { cause, .. }) => cause,
                    other => panic!("{other:?}"),
                };
                assert_eq!(cause, ConflictCause::Locked);
                Ok(())
            })
            .unwrap();
    }
    assert_eq!((n(&accounts, "r"), n(&accounts, "w")), (Some(1), None));
}

#[test]
fn a_record_that_expires_meanwhile_makes_the_closure_run_again() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let sessions = store.set("sessions").unwrap();
    let minute = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    sessions.put_with(&minute, "token", [("n", 1)]).unwrap();
    let mut seen = Vec::new();
    store
        .transaction(|tx| {
            let inside = tx.set("sessions")?;
            seen.push(inside.exists("token")?);
            clock.advance_ms(62_000);
            inside.put("w", [("n", 1)])
        })
        .unwrap();
    assert_eq!(seen, [true, false]);
}

#[test]
fn a_transaction_inside_another_is_one_of_its_own() {
    let (store, _, accounts) = store();
    let runs = Cell::new(0);
    let failed = store.transaction(|tx| {
        tx.set("accounts")?.put("outer", [("n", 1)])?;
        store.transaction(|inner| inner.set("accounts")?.put("inner", [("n", 1)]))?;
        runs.set(runs.get() + 1);
        Err::<(), _>(Error::Forbidden("no".into()))
    });
    assert!(failed.is_err());
    assert_eq!(
        (n(&accounts, "outer"), n(&accounts, "inner")),
        (None, Some(1))
    );
    assert_eq!(runs.get(), 1);
}

#[test]
fn a_truncation_inside_the_closure_takes_what_was_there_before() {
    let (store, _, accounts) = store();
    put_one(&accounts);
    let runs = Cell::new(0);
    store
        .transaction(|tx| {
            runs.set(runs.get() + 1);
            let inside = tx.set("accounts")?;
            inside.add("r", [("n", 1)])?;
            inside.add("s", [("n", 1)])?;
            if runs.get() == 1 {
                accounts.truncate(None).unwrap();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((n(&accounts, "r"), n(&accounts, "s")), (Some(1), Some(1)));
}

#[test]
fn a_task_whose_transaction_meets_a_locked_record_commits_it_once() {
    let (store, namespace, accounts) = store();
    accounts.put("a", [("n", 1)]).unwrap();
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let runs = Cell::new(0);
    let add = || {
        store.transaction(|tx| {
            runs.set(runs.get() + 1);
            tx.set("accounts")?
                .operate("a", &[spikelet::operations::add("n", 1)])
        })
    };
    let mut attempt = namespace.attempt();
    std::thread::scope(|scope| {
        let accounts = &accounts;
        scope.spawn(move || {
            let update = |_: &mut spikelet::Bins| {
                locked.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(())
            };
            accounts.update("a", update).unwrap();
        });
        is_locked.recv().unwrap();
        // It does not pause and try again on the thread.
        assert!(attempt.run(add).is_err() && attempt.must_wait());
        assert_eq!(runs.get(), 1);
        go_on.send(()).unwrap();
    });
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while attempt.must_wait() {
        while attempt.poll_ready(&mut context).is_pending() {
            std::thread::yield_now();
        }
        drop(attempt.run(add));
    }
    assert_eq!(number(accounts.get("a").unwrap()), Some(2));
}
