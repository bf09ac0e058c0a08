//! Transfers between accounts: every reader sees the same sum.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

const THREADS: usize = 64;
const ACCOUNTS: i64 = 100;
const BALANCE: i64 = 1_000;

fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

fn sum(namespace: &Namespace) -> Result<i64> {
    namespace.snapshot_read_with(&patient(), |tx| {
        let records = tx.set("accounts")?.get_batch(0..ACCOUNTS);
        let balances = records
            .into_iter()
            .map(|record| Ok(number(record?).unwrap()));
        balances.sum()
    })
}

#[test]
fn sixty_four_threads_transfer_and_every_snapshot_has_the_same_sum() {
    let each: u64 = if std::env::var_os("SPIKELET_LONG").is_some() {
        20_000
    } else {
        300
    };
    let (_store, namespace, accounts) = store();
    for account in 0..ACCOUNTS {
        accounts.put(account, [("n", BALANCE)]).unwrap();
    }
    let start = Barrier::new(THREADS);
    let (transfers, snapshots) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (namespace, start, transfers, snapshots) =
                (&namespace, &start, &transfers, &snapshots);
            scope.spawn(move || {
                let mut random = thread as u64 + 1;
                start.wait();
                for turn in 0..each {
                    if thread.is_multiple_of(8) && turn.is_multiple_of(10) {
                        assert_eq!(sum(namespace).unwrap(), ACCOUNTS * BALANCE);
                        snapshots.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let from = next(&mut random) as i64 % ACCOUNTS;
                    let to = next(&mut random) as i64 % ACCOUNTS;
                    let cents = next(&mut random) as i64 % 50;
                    namespace
                        .transaction_with(&patient(), |tx| {
                            let accounts = tx.set("accounts")?;
                            accounts.add(from, [("n", -cents)])?;
                            accounts.add(to, [("n", cents)])
                        })
                        .unwrap();
                    transfers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sum(&namespace).unwrap(), ACCOUNTS * BALANCE);
    let done = transfers.into_inner() + snapshots.into_inner();
    assert_eq!(done, THREADS as u64 * each);
    let stats = namespace.transaction_stats();
    assert_eq!(stats.commits, done + 1);
    assert_eq!(stats.attempts, stats.commits + stats.conflicts);
    eprintln!("{stats:?}");
}
