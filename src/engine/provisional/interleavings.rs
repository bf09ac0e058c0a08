//! A transaction of a wire client beside one of this process, under the model checker: with every guard, and without each of
//! them. Run with `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet --features server --lib --release interleavings`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shuttle::thread;

use super::guards::{Guard, leave_out};
use super::{Before, ProvisionalWrite};
use crate::engine::by_digest::Address;
use crate::{Digest, Namespace, NamespaceConfig, Store, TransactionPolicy, WritePolicy};

const SET: &str = "things";

/// The guards are global: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Random schedules, and ones with few but well-placed switches.
fn explore(runs: usize) {
    let config = || {
        let mut config = shuttle::Config::default();
        // Opening a store takes more stack than the model's threads have by default.
        config.stack_size = 512 << 10;
        config
    };
    let random = shuttle::scheduler::RandomScheduler::new(runs);
    shuttle::Runner::new(random, config()).run(one_of_two_records_stays);
    let few_switches = shuttle::scheduler::PctScheduler::new(3, runs);
    shuttle::Runner::new(few_switches, config()).run(one_of_two_records_stays);
}

#[test]
fn a_client_and_the_process_do_not_both_commit_on_what_the_other_changes() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    explore(500);
}

#[test]
fn without_a_guard_they_do() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let guards = [
        Guard::LocksBeforeOverruling,
        Guard::OverrulesBeforeLooking,
        Guard::AsksUnderLocks,
    ];
    let mut needless = Vec::new();
    for guard in guards {
        leave_out(Some(guard));
        let outcome = catch_unwind(AssertUnwindSafe(|| explore(4_000)));
        leave_out(None);
        if outcome.is_ok() {
            needless.push(guard);
        }
    }
    assert_eq!(needless, [], "nothing fails without them");
}

#[derive(Clone)]
struct Things {
    namespace: Namespace,
    _store: Arc<Store>,
}

impl Things {
    fn new() -> Self {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        config.write_lanes = 1;
        config.max_device_bytes = 64 << 20;
        let store = Store::builder().namespace(config).open().unwrap();
        Self {
            namespace: store.namespace("test").unwrap(),
            _store: Arc::new(store),
        }
    }

    fn digest(&self, id: i64) -> Digest {
        self.namespace.core.key_hash.digest(SET, &id.into())
    }

    fn is_there(&self, id: i64) -> bool {
        let set = self.namespace.set(SET).unwrap();
        set.exists(id).unwrap()
    }

    /// Deletes a record if the other one is there, as clients do it. Returns whether that was committed.
    fn client_deletes(&self, own: i64, other: i64) -> bool {
        let address = |id| Address {
            digest: self.digest(id),
            set: SET,
            key: None,
        };
        let (stamp, read) = self
            .namespace
            .read_stamped(&address(other), None, |_, _| Ok(()));
        let (Some(stamp), Ok(())) = (stamp, read) else {
            return false;
        };
        let transaction = self.digest(100);
        let write = ProvisionalWrite {
            address: address(own),
            filter: None,
            policy: &WritePolicy::default(),
            before: Before::Record {
                transaction,
                read: None,
            },
        };
        let Ok(deleted) = self.namespace.delete_provisional(&write) else {
            return false;
        };
        let own = self.digest(own);
        let is_unchanged = self.namespace.is_unchanged(&self.digest(other), stamp);
        let is_committed = is_unchanged.unwrap()
            && self
                .namespace
                .commit_provisionals(&[(own, &deleted)], Duration::from_secs(1))
                .is_ok();
        self.namespace
            .unlock_provisionals(&transaction, [own].iter());
        is_committed
    }

    /// The same in a transaction of this process.
    fn process_deletes(&self, own: i64, other: i64) -> bool {
        let once = TransactionPolicy::default().max_attempts(1);
        let deleted = self.namespace.transaction_with(&once, |tx| {
            let set = tx.set(SET)?;
            let is_there = set.exists(other)?;
            if is_there {
                set.delete(own)?;
            }
            Ok(is_there)
        });
        deleted.unwrap_or(false)
    }
}

/// Each deletes one of two records if it finds the other: with both deleted, neither has seen what the other did.
fn one_of_two_records_stays() {
    let things = Things::new();
    let set = things.namespace.set(SET).unwrap();
    for id in [1, 2] {
        set.put(id, [("n", 1)]).unwrap();
    }
    let client = {
        let things = things.clone();
        thread::spawn(move || things.client_deletes(1, 2))
    };
    let process = {
        let things = things.clone();
        thread::spawn(move || things.process_deletes(2, 1))
    };
    let deleted = [client.join().unwrap(), process.join().unwrap()];
    let stayed = [1, 2].map(|id| things.is_there(id));
    assert_eq!(stayed, deleted.map(|deleted| !deleted));
    assert!(stayed.contains(&true), "write skew");
}
