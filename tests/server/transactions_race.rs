//! Transactions of several clients, plain writes and transactions of the process at once: each
//! result is one that some order of them gives.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use spikelet::TransactionPolicy;
use spikelet::operations::add;

use crate::server_client::transaction::*;
use crate::server_client::*;

const ACCOUNTS: i64 = 6;
const EACH: i64 = 100;

/// What a transaction sees of a record; `None`: another one has it locked.
fn value(txn: &mut Txn, wire: &mut Wire, key: i64) -> Option<i64> {
    let answer = txn.get(wire, key);
    match answer.code {
        0 => Some(answer.int("i")),
        BLOCKED => None,
        code => panic!("{code}"),
    }
}

/// Numbers that look drawn, and are the same in each run of one thread.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as i64
    }
}

/// A policy for transactions inside the process: without limits, since they may meet clients'
/// transactions any number of times.
fn patient() -> TransactionPolicy {
    TransactionPolicy::default()
        .max_attempts(u32::MAX)
        .total_timeout(None)
}

/// Numbers of transactions.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn begin() -> Txn {
    Txn::new(NUMBERS.fetch_add(1, Ordering::Relaxed) as i64)
}

/// Moves an amount. Returns false if another transaction was in the way.
fn transfer(wire: &mut Wire, from: i64, to: i64, amount: i64) -> bool {
    let mut txn = begin();
    let mut moved = || {
        let (here, there) = (value(&mut txn, wire, from)?, value(&mut txn, wire, to)?);
        for (key, sum) in [(from, here - amount), (to, there + amount)] {
            if txn.put(wire, key, sum).code != 0 {
                return None;
            }
        }
        Some(())
    };
    if moved().is_none() {
        txn.abort(wire);
        return false;
    }
    txn.commit(wire) == 0
}

/// The sum of all accounts at one moment; `None` if another transaction was in the way.
fn sum(wire: &mut Wire) -> Option<i64> {
    let mut txn = begin();
    let sum = (0..ACCOUNTS)
        .map(|key| value(&mut txn, wire, key))
        .sum::<Option<i64>>()?;
    (txn.commit(wire) == 0).then_some(sum)
}

#[test]
fn money_is_neither_made_nor_lost() {
    let running = serve();
    let addr = running.handle.addr();
    let mut wire = Wire::to(addr);
    for key in 0..ACCOUNTS {
        wire.ask(&Message::put(key, "i", EACH));
    }
    let moved = AtomicU64::new(0);
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        5_000
    } else {
        100
    };
    let (attempt, attempts) = mpsc::channel();
    std::thread::scope(|scope| {
        let clients = [1, 2, 3].map(|seed| {
            let (moved, attempt) = (&moved, attempt.clone());
            scope.spawn(move || {
                let (mut wire, mut draw) = (Wire::to(addr), Draw(seed));
                // Until one of all was not aborted, which all are not once the others have ended.
                let mut round = 0;
                while round < rounds || moved.load(Ordering::Relaxed) == 0 {
                    round += 1;
                    let from = draw.below(ACCOUNTS);
                    let to = (from + 1 + draw.below(ACCOUNTS - 1)) % ACCOUNTS;
                    if transfer(&mut wire, from, to, draw.below(10)) {
                        moved.fetch_add(1, Ordering::Relaxed);
                    }
                    attempt.send(()).unwrap();
                }
            })
        });
        drop(attempt);
        // The process moves money, too, and looks at all of it, now and then: clients are to get
        // somewhere as well.
        let namespace = running.store.namespace("test").unwrap();
        scope.spawn(move || {
            let mut draw = Draw(9);
            while attempts.iter().take(20).count() == 20 {
                let (from, to) = (draw.below(ACCOUNTS), draw.below(ACCOUNTS));
                let moved = namespace.transaction_with(&patient(), |tx| {
                    let set = tx.set("demo")?;
                    set.add(from, [("i", -1)])?;
                    set.add(to, [("i", 1)])
                });
                moved.unwrap();
                let set = namespace.set("demo").unwrap();
                let moved = namespace.write_together_with(&patient(), |writes| {
                    writes.operate(&set, to, vec![add("i", -1)]);
                    writes.operate(&set, from, vec![add("i", 1)]);
                });
                moved.unwrap();
                let seen = namespace.snapshot_read_with(&patient(), |tx| {
                    let set = tx.set("demo")?;
                    let balance = |key| {
                        let account = set.get(key)?;
                        Ok(account.and_then(|account| account.get("i")?.as_i64()))
                    };
                    (0..ACCOUNTS)
                        .map(balance)
                        .sum::<spikelet::Result<Option<i64>>>()
                });
                assert_eq!(seen.unwrap(), Some(ACCOUNTS * EACH));
            }
        });
        scope.spawn(move || {
            let mut wire = Wire::to(addr);
            // Until one was not aborted, which all are not once the others have ended.
            let (mut tried, mut seen) = (0, 0);
            while tried < rounds || seen == 0 {
                tried += 1;
                if let Some(sum) = sum(&mut wire) {
                    assert_eq!(sum, ACCOUNTS * EACH);
                    seen += 1;
                }
            }
        });
        for client in clients {
            client.join().unwrap();
        }
    });
    assert_eq!(sum(&mut wire), Some(ACCOUNTS * EACH));
    let told = wire.info("namespace/test\n").remove(0);
    assert!(
        told.contains("mrt_provisionals=0;mrt_monitors=0;"),
        "{told}"
    );
}

#[test]
fn a_group_of_the_process_is_not_held_up_by_a_client_which_then_cannot_commit() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = running.store.set("demo").unwrap();
    set.put(1, [("i", 1)]).unwrap();
    // The client writes a record that the group writes, or one that the group finds absent.
    for locked in [1, 2] {
        let mut txn = begin();
        assert_eq!(txn.put(&mut wire, locked, 9).code, 0);
        let results = running.store.write_together(|writes| {
            writes.operate(&set, 1, vec![add("i", 1)]);
            writes.delete(&set, 2);
            writes.put(&set, 3, [("i", 1)]);
        });
        assert_eq!(results.unwrap()[1].lsn, None, "record {locked}");
        assert_ne!(txn.commit(&mut wire), 0, "record {locked}");
    }
    // A group that is refused has not looked.
    let mut txn = begin();
    assert_eq!(txn.put(&mut wire, 2, 9).code, 0);
    let refused = running.store.write_together(|writes| {
        writes.delete(&set, 2);
        writes.operate(&set, 1, vec![add("i", "text")]);
    });
    assert!(refused.is_err());
    assert_eq!(txn.commit(&mut wire), 0);
    let left = [1, 2, 3].map(|key| wire.ask(&Message::get(key)).int("i"));
    assert_eq!(left, [3, 9, 1]);
}

/// Two records, of which at least one must be 1. Each client takes one away if the other is there.
/// If both are taken away, neither client has seen the other's write.
#[test]
fn two_transactions_do_not_pass_each_other() {
    let running = serve();
    let addr = running.handle.addr();
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        5_000
    } else {
        100
    };
    let mut wire = Wire::to(addr);
    let mut taken = 0;
    for round in 0..rounds {
        let keys = [2 * round + 1_000, 2 * round + 1_001];
        for key in keys {
            wire.ask(&Message::put(key, "i", 1));
        }
        let take = |own: i64, other: i64| {
            let mut wire = Wire::to(addr);
            let mut txn = begin();
            match value(&mut txn, &mut wire, other) {
                Some(1) if txn.put(&mut wire, own, 0).code == 0 => txn.commit(&mut wire) == 0,
                _ => {
                    txn.abort(&mut wire);
                    false
                }
            }
        };
        // The process does the same in every other round.
        let take_inside = |own: i64, other: i64| {
            let namespace = running.store.namespace("test").unwrap();
            let taken = namespace.transaction_with(&patient(), |tx| {
                let set = tx.set("demo")?;
                let is_there = set.get(other)?.and_then(|record| record.get("i")) == Some(1.into());
                if is_there {
                    set.put(own, [("i", 0)])?;
                }
                Ok(is_there)
            });
            taken.unwrap()
        };
        let both = std::thread::scope(|scope| {
            let one = scope.spawn(|| take(keys[0], keys[1]));
            let other = scope.spawn(|| match round % 2 {
                0 => take(keys[1], keys[0]),
                _ => take_inside(keys[1], keys[0]),
            });
            [one.join().unwrap(), other.join().unwrap()]
        });
        let left: i64 = keys
            .iter()
            .map(|key| wire.ask(&Message::get(*key)).int("i"))
            .sum();
        assert!(left >= 1, "round {round}: {both:?}");
        let count = both.iter().filter(|done| **done).count();
        assert_eq!(left, 2 - count as i64, "round {round}");
        taken += count;
    }
    assert!(taken > 0);
}
