//! Calls that are made once for a token.

use std::sync::Arc;

use spikelet::operations::add;
use spikelet::policy::Acknowledge;
use spikelet::storage::ManualClock;
use spikelet::{Error, NamespaceConfig, Operation, Result, Store, WritePolicy};

/// Adds to two records under a token; whether that was done now.
fn pay(store: &Store, token: &str, operations: &[Operation]) -> Result<bool> {
    let accounts = store.set("accounts")?;
    let namespace = store.namespace("test")?;
    let done = namespace.write_together_once(&super::patient(), token, |writes| {
        writes.operate(&accounts, "alice", operations);
        writes.operate(&accounts, "bob", operations);
    })?;
    Ok(done.is_some())
}

fn cents(store: &Store) -> i64 {
    let alice = store.set("accounts").unwrap().get("alice").unwrap();
    alice
        .and_then(|alice| alice.get("n")?.as_i64())
        .unwrap_or(0)
}

#[test]
fn a_token_counts_once_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let one = [add("n", 1)];
    for round in 0..3 {
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(pay(&store, "first", &one).unwrap(), round == 0);
        assert_eq!(cents(&store), 1);
    }
    let store = Store::open(dir.path()).unwrap();
    let other = pay(&store, "first", &[add("n", 2)]);
    assert!(matches!(other, Err(Error::Parameter(_))), "{other:?}");
    assert!(pay(&store, "second", &one).unwrap());
    assert_eq!(cents(&store), 2);
    // A refused transaction leaves no token.
    let wrong = pay(&store, "third", &[add("n", "text")]);
    assert!(
        matches!(wrong, Err(Error::WritesRefused { .. })),
        "{wrong:?}"
    );
    assert!(pay(&store, "third", &one).unwrap());
}

#[test]
fn a_token_is_forgotten_after_its_time() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let mut config = NamespaceConfig::new("test");
    config.background = false;
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let one = [add("n", 1)];
    assert!(pay(&store, "t", &one).unwrap());
    clock.advance_ms(599_000);
    assert!(!pay(&store, "t", &one).unwrap());
    clock.advance_ms(3_000);
    assert!(pay(&store, "t", &one).unwrap());
    assert_eq!(cents(&store), 2);
}

#[test]
fn of_threads_with_one_token_one_does_it() {
    let store = Store::in_memory().unwrap();
    for round in 0..50 {
        let token = format!("round {round}");
        let done: usize = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|_| {
                let (store, token) = (&store, &token);
                scope.spawn(move || usize::from(pay(store, token, &[add("n", 1)]).unwrap()))
            });
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!((done, cents(&store)), (1, round + 1));
    }
}

#[test]
fn a_repeated_call_may_wait_longer() {
    let store = Store::in_memory().unwrap();
    let (namespace, accounts) = (store.namespace("test").unwrap(), store.set("a").unwrap());
    let one = [add("n", 1)];
    let once = |policy: &WritePolicy| {
        let done = namespace.write_together_once(&super::patient(), "t", |writes| {
            writes.operate_with(policy, &accounts, 1, &one);
        });
        done.unwrap().is_some()
    };
    let patient = WritePolicy::default().total_timeout(None);
    assert!(once(&WritePolicy::default()));
    assert!(!once(&patient.acknowledge(Acknowledge::Applied)));
    let found = accounts.get(1).unwrap().unwrap();
    assert_eq!(found.get("n"), Some(1.into()));
}
