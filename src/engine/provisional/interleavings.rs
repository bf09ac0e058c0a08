//! A transaction of a wire client beside one of this process, under the model checker: with every
//! guard, and without each of them. Run with
//! `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet --features server --lib --release interleavings`.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use super::guards::{CommitRule, GUARDS};
use super::{Before, ProvisionalWrite};
use crate::engine::by_digest::DigestAddress;
use crate::sync::guards::{explore, one_at_a_time};
use crate::{Digest, Namespace, NamespaceConfig, Store, TransactionPolicy, WritePolicy};

const SET: &str = "things";

#[test]
fn a_client_and_the_process_do_not_both_commit_on_what_the_other_changes() {
    let _one = one_at_a_time();
    explore(500, one_of_two_records_stays);
}

#[test]
fn without_a_guard_they_do() {
    let _one = one_at_a_time();
    let guards = [
        CommitRule::LocksBeforeOverruling,
        CommitRule::OverrulesBeforeLooking,
        CommitRule::AsksUnderLocks,
    ];
    let guards = guards.map(|guard| (guard, one_of_two_records_stays as fn()));
    assert_eq!(GUARDS.needless(&guards), [], "nothing fails without them");
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

    /// Deletes a record if the other one is there, as clients do it. Returns whether that was
    /// committed.
    fn client_deletes(&self, own: i64, other: i64) -> bool {
        let address = |id| DigestAddress {
            digest: self.digest(id),
            set: SET,
            key: None,
            filter: None,
        };
        let (stamp, read) = self.namespace.read_stamped(&address(other), |_, _| Ok(()));
        let (Some(stamp), Ok(())) = (stamp, read) else {
            return false;
        };
        let transaction = self.digest(100);
        let write = ProvisionalWrite {
            address: address(own),
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
        let is_unchanged = self.namespace.is_unchanged(&address(other), stamp);
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

/// Each deletes one of two records if it finds the other: with both deleted, neither has seen the
/// other's deletion.
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
