//! Transfers, by transactions and by groups of writes, in a process that is killed in the middle of
//! it: after each kill the sum of all accounts is the same, no edge of a follow graph has one side
//! only, and secondary indexes agree with the records.
//!
//! The child is this test binary, started again with [`CHILD_DIR`] set; it prints a line for every
//! `STRIDE` transfers. A round ends by its transfers and not by the clock. `SPIKELET_LONG=1` does
//! 50 rounds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use spikelet::operations::{add, lists};
use spikelet::query::{IndexComponent, IndexDefinition, Query};
use spikelet::{
    Durability, Error, Key, ListOrder, ListPolicy, ListWriteFlags, NamespaceConfig, Store,
    TransactionPolicy, Value,
};

const CHILD_DIR: &str = "SPIKELET_TRANSACTIONS_KILL_TEST_DIR";
const ACCOUNTS: i64 = 50;
const BALANCE: i64 = 1_000;
const THREADS: i64 = 4;
/// Transfers between two lines of the child.
const STRIDE: i64 = 50;
const USERS: i64 = 200;

fn open(dir: &Path) -> Store {
    let config = NamespaceConfig::new("test").durability(Durability::Process);
    Store::builder().path(dir).namespace(config).open().unwrap()
}

fn next(random: &mut u64) -> i64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random >> 2) as i64
}

fn transfer(store: &Store, random: &mut u64) {
    let (from, to, cents) = (
        next(random) % ACCOUNTS,
        next(random) % ACCOUNTS,
        next(random) % 90,
    );
    let follow = (next(random) % USERS, next(random) % USERS);
    let unique = ListPolicy::new(
        ListOrder::Ordered,
        ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL,
    );
    let patient = TransactionPolicy::default()
        .max_attempts(u32::MAX)
        .total_timeout(None);
    let namespace = store.namespace("test").unwrap();
    if next(random) % 2 == 0 {
        let (accounts, users) = (store.set("accounts").unwrap(), store.set("users").unwrap());
        let made = namespace.write_together_with(&patient, |writes| {
            writes.operate(&accounts, from, vec![add("cents", -cents)]);
            writes.operate(&accounts, to, vec![add("cents", cents)]);
            let (following, follower) = (
                lists::append(&unique, "following", follow.1),
                lists::append(&unique, "followers", follow.0),
            );
            writes.operate(&users, follow.0, vec![following]);
            writes.operate(&users, follow.1, vec![follower]);
        });
        made.unwrap();
        return;
    }
    namespace
        .transaction_with(&patient, |tx| {
            let accounts = tx.set("accounts")?;
            accounts.add(from, [("cents", -cents)])?;
            accounts.add(to, [("cents", cents)])?;
            let users = tx.set("users")?;
            users.operate(follow.0, &[lists::append(&unique, "following", follow.1)])?;
            users.operate(follow.1, &[lists::append(&unique, "followers", follow.0)])?;
            Ok(())
        })
        .unwrap();
}

fn child(dir: &Path) {
    let store = open(dir);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut random = u64::from(std::process::id()) * 1_000 + thread as u64 + 1;
                loop {
                    (0..STRIDE).for_each(|_| transfer(store, &mut random));
                    // Printing fails once the parent is gone.
                    if writeln!(std::io::stdout().lock(), "moving").is_err() {
                        return;
                    }
                }
            });
        }
    });
}

fn sides(store: &Store, bin: &str) -> Vec<(i64, i64)> {
    let users = store.set("users").unwrap();
    let mut edges = Vec::new();
    for user in 0..USERS {
        let record = users.get(user).unwrap();
        if let Some(Value::List(list)) = record.and_then(|record| record.get(bin)) {
            edges.extend(list.iter().map(|other| (user, other.as_i64().unwrap())));
        }
    }
    edges
}

/// The keys of the records that a query finds, in order.
fn found(query: Query) -> Vec<i64> {
    let keys = query.keys().unwrap().into_records().unwrap();
    let mut ids: Vec<i64> = keys
        .into_iter()
        .map(|found| match found.key {
            Some(Key::Integer(id)) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    ids.sort_unstable();
    ids
}

/// The indexes that were declared before the first kill hold what the records say, and nothing
/// else.
fn check_indexes(store: &Store) {
    let accounts = store.set("accounts").unwrap();
    let mut by_cents = BTreeMap::<i64, Vec<i64>>::new();
    for account in 0..ACCOUNTS {
        let record = accounts.get(account).unwrap().unwrap();
        let cents = record
            .get("cents")
            .and_then(|cents| cents.as_i64())
            .unwrap();
        by_cents.entry(cents).or_default().push(account);
    }
    for (cents, accounts_of) in &by_cents {
        let query = accounts.query("by_cents").unwrap().eq(*cents);
        assert_eq!(found(query), *accounts_of, "{cents} cents");
    }
    let users = store.set("users").unwrap();
    let mut followers = BTreeMap::<i64, Vec<i64>>::new();
    for (user, followed) in sides(store, "following") {
        followers.entry(followed).or_default().push(user);
    }
    let edges: usize = followers.values().map(Vec::len).sum();
    for user in 0..USERS {
        let query = users
            .query("by_following")
            .unwrap()
            .eq(user)
            .limit(USERS as usize);
        assert_eq!(
            found(query),
            followers.remove(&user).unwrap_or_default(),
            "{user}"
        );
    }
    let stats = store.namespace("test").unwrap().indexes();
    let entries: Vec<u64> = stats.iter().map(|index| index.entries).collect();
    assert_eq!(entries, [ACCOUNTS as u64, edges as u64]);
}

fn check(dir: &Path) -> usize {
    let store = open(dir);
    check_indexes(&store);
    let sum = store.snapshot_read(|tx| {
        let accounts = tx.set("accounts")?.get_batch(0..ACCOUNTS);
        let cents = accounts.into_iter().map(|account| {
            let account = account?.ok_or_else(|| Error::Forbidden("an account is gone".into()))?;
            Ok(account
                .get("cents")
                .and_then(|cents| cents.as_i64())
                .unwrap())
        });
        cents.sum::<Result<i64, Error>>()
    });
    assert_eq!(sum.unwrap(), ACCOUNTS * BALANCE);
    let mut following = sides(&store, "following");
    let mut followers: Vec<_> = sides(&store, "followers")
        .into_iter()
        .map(|(user, follower)| (follower, user))
        .collect();
    following.sort_unstable();
    followers.sort_unstable();
    assert_eq!(following, followers, "an edge has one side");
    following.len()
}

#[test]
fn kills_leave_transactions_whole_or_not_at_all() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        child(Path::new(&dir));
        return;
    }
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        50
    } else {
        5
    };
    let dir = tempfile::tempdir().unwrap();
    {
        let store = open(dir.path());
        store
            .transaction(|tx| {
                let accounts = tx.set("accounts")?;
                (0..ACCOUNTS).try_for_each(|account| accounts.put(account, [("cents", BALANCE)]))
            })
            .unwrap();
    }
    {
        let store = open(dir.path());
        let accounts = store.set("accounts").unwrap();
        accounts
            .create_index(IndexDefinition::new("by_cents", ["cents"]))
            .unwrap();
        let following = IndexComponent::bin("following").elements();
        let users = store.set("users").unwrap();
        users
            .create_index(IndexDefinition::new("by_following", [following]))
            .unwrap();
    }
    let mut edges = 0;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "kills_leave_transactions_whole_or_not_at_all",
            ])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let moving = lines
            .map(Result::unwrap)
            .filter(|line| line.contains("moving"));
        assert_eq!(moving.take(4 + round % 3).count(), 4 + round % 3);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = check(dir.path());
        assert!(now >= edges, "edges are lost");
        edges = now;
    }
    assert!(edges > 100);
}
