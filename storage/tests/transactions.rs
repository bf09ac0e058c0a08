//! Transfers between records through power failures and kills: every recovery keeps the sum and
//! every acknowledged transfer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, devices, digest, options, simulated, version};
use spikelet_storage::{
    Change, Durability, Error, Namespace, Options, RecordChange, SeenRecord, SimulatedDevice,
};
use std::sync::Arc;

const BLOCKS: u64 = 8;
const ACCOUNTS: u64 = 20;
const BALANCE: u64 = 1_000;
const DURABILITIES: [Durability; 2] = [Durability::Process, Durability::Commit];

fn open(disk: &Arc<SimulatedDevice>, durability: Durability, write_lanes: usize) -> Namespace {
    let storage = devices(std::slice::from_ref(disk));
    let wanted = Options {
        durability,
        defrag_threshold_percent: 95,
        write_lanes,
        ..options(storage, BLOCKS)
    };
    Namespace::open(wanted).unwrap().0
}

fn look(namespace: &Namespace, account: u64) -> (SeenRecord, u64) {
    let digest = digest(account);
    namespace.get_versioned(&digest, |version, found| {
        let balance = found.unwrap().map_or(0, |entry| {
            u64::from_le_bytes(entry.payload()[..8].try_into().unwrap())
        });
        (SeenRecord { digest, version }, balance)
    })
}

/// Commits new balances for the records that were seen. Returns false for a conflict.
fn commit(namespace: &Namespace, writes: &[(SeenRecord, u64)], bytes: usize) -> bool {
    let payloads: Vec<Vec<u8>> = writes
        .iter()
        .map(|(_, balance)| {
            let mut payload = balance.to_le_bytes().to_vec();
            payload.resize(bytes, 7);
            payload
        })
        .collect();
    let mut changes: Vec<_> = writes
        .iter()
        .zip(&payloads)
        .map(|((seen, _), payload)| RecordChange {
            seen: *seen,
            change: Change::Put(version(payload)),
        })
        .collect();
    changes.sort_by_key(|change| change.seen.digest);
    match namespace.lock_unchanged(&[], &changes, 0, None) {
        Ok(locked) => namespace.commit_group(locked).map(|_| true).unwrap(),
        Err(Error::Conflict { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn transfer(namespace: &Namespace, chance: &mut Chance) {
    loop {
        let from = chance.next() % ACCOUNTS;
        let to = (from + 1 + chance.next() % (ACCOUNTS - 1)) % ACCOUNTS;
        let (one, from_balance) = look(namespace, from);
        let (other, to_balance) = look(namespace, to);
        let amount = (chance.next() % 50).min(from_balance);
        let writes = [(one, from_balance - amount), (other, to_balance + amount)];
        if commit(namespace, &writes, 40 + (chance.next() % 8_000) as usize) {
            return;
        }
    }
}

fn balances(namespace: &Namespace) -> Vec<u64> {
    (0..ACCOUNTS)
        .map(|account| look(namespace, account).1)
        .collect()
}

fn deposit(namespace: &Namespace) {
    let accounts: Vec<_> = (0..ACCOUNTS)
        .map(|account| (look(namespace, account).0, BALANCE))
        .collect();
    assert!(commit(namespace, &accounts, 40));
}

fn check_sum(namespace: &Namespace, seed: u64) {
    let sum: u64 = balances(namespace).iter().sum();
    assert_eq!(sum, ACCOUNTS * BALANCE, "seed {seed}");
}

#[test]
fn the_sum_of_all_accounts_survives_power_failures_at_any_moment() {
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        2_000
    } else {
        60
    };
    for seed in 0..rounds {
        let mut chance = Chance(seed + 1);
        let mut disk = simulated(1, BLOCKS).remove(0);
        let durability = DURABILITIES[(seed % 2) as usize];
        let namespace = open(&disk, durability, 1);
        deposit(&namespace);
        namespace.sync().unwrap();
        drop(namespace);
        for life in 0..3 {
            let namespace = open(&disk, durability, 1);
            check_sum(&namespace, seed);
            namespace.maintain().unwrap();
            for _ in 0..chance.next() % 60 {
                transfer(&namespace, &mut chance);
                if chance.next().is_multiple_of(16) {
                    disk.writeback(chance.next());
                }
                if chance.next().is_multiple_of(32) {
                    namespace.maintain().unwrap();
                }
            }
            let acknowledged = balances(&namespace);
            let power_fails = life != 1;
            let after = if power_fails {
                disk.crash(chance.next()).unwrap()
            } else {
                disk.kill().unwrap()
            };
            drop(namespace);
            disk = Arc::new(after);
            let namespace = open(&disk, durability, 1);
            check_sum(&namespace, seed);
            // A kill loses nothing. A power failure loses no transfer that was durable when it was
            // acknowledged.
            if !power_fails || durability == Durability::Commit {
                assert_eq!(balances(&namespace), acknowledged, "seed {seed}");
            }
        }
    }
}

/// Four threads with a lane each. A kill in the middle of it costs nothing that another transaction
/// has seen; a power failure nothing that was acknowledged as durable.
#[test]
fn the_sum_of_all_accounts_survives_beside_several_writers() {
    for seed in 0..20 {
        for durability in DURABILITIES {
            let disk = simulated(1, BLOCKS).remove(0);
            let namespace = open(&disk, durability, 4);
            deposit(&namespace);
            namespace.sync().unwrap();
            let killed = std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (namespace, disk) = (&namespace, &disk);
                    scope.spawn(move || {
                        let mut chance = Chance(seed * 4 + thread + 1);
                        for _ in 0..40 {
                            transfer(namespace, &mut chance);
                            if chance.next().is_multiple_of(8) {
                                disk.writeback(chance.next());
                            }
                        }
                    });
                }
                std::thread::yield_now();
                disk.kill().unwrap()
            });
            check_sum(&open(&Arc::new(killed), durability, 4), seed);
            let after = Arc::new(disk.crash(seed).unwrap());
            check_sum(&open(&after, durability, 4), seed);
        }
    }
}

#[test]
fn changes_out_of_order_and_of_one_record_twice_are_refused() {
    let disk = simulated(1, BLOCKS).remove(0);
    let namespace = open(&disk, Durability::Process, 1);
    let mut seen = [1, 2].map(|account| look(&namespace, account).0);
    seen.sort_by_key(|seen| seen.digest);
    let change = |seen: SeenRecord| RecordChange {
        seen,
        change: Change::Put(version(b"x")),
    };
    for writes in [[seen[1], seen[0]], [seen[0], seen[0]]] {
        let refused = namespace.lock_unchanged(&[], &writes.map(change), 0, None);
        assert!(matches!(
            refused,
            Err(Error::BadOption {
                option: "writes",
                ..
            })
        ));
    }
    let locked = namespace.lock_unchanged(&[], &seen.map(change), 0, None);
    assert_eq!(locked.unwrap().len(), 2);
}
