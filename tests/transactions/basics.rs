//! The reads and the results of a transaction that runs alone.

use std::sync::Arc;
use std::time::Duration;

use spikelet::operations::{add, get_bin, lists, put};
use spikelet::policy::{Acknowledge, GenerationPolicy, RecordExistsAction};
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, ListPolicy, Store, TransactionPolicy, Value, WritePolicy, bins, expressions,
};

use super::*;

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does() {
    let (store, _, accounts) = store();
    accounts.put("alice", [("n", 1)]).unwrap();
    let seen = store
        .transaction(|tx| {
            let inside = tx.set("accounts")?;
            inside.add("alice", [("n", 1)])?;
            inside.put("bob", [("n", 7)])?;
            inside.operate("bob", &[add("n", 1), put("city", "Graz")])?;
            assert_eq!(
                (n(&accounts, "alice"), n(&accounts, "bob")),
                (Some(1), None)
            );
            let bob = inside.get_bins("bob", &["city"])?.unwrap();
            assert_eq!(bob.get("city"), Some("Graz".into()));
            assert!(inside.exists("bob")?);
            let both: Result<Vec<_>> = inside
                .get_batch(["alice", "bob", "carol"])
                .into_iter()
                .collect();
            Ok(both?.into_iter().map(number).collect::<Vec<_>>())
        })
        .unwrap();
    assert_eq!(seen, [Some(2), Some(8), None]);
    assert_eq!(
        (n(&accounts, "alice"), n(&accounts, "bob")),
        (Some(2), Some(8))
    );
}

#[test]
fn every_write_counts_in_the_generation_as_it_would_alone() {
    let (store, _, accounts) = store();
    accounts.put("old", [("n", 1)]).unwrap();
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            for _ in 0..3 {
                accounts.add("old", [("n", 1)])?;
                accounts.add("new", [("n", 1)])?;
            }
            let header = accounts.get_header("new")?.unwrap();
            assert_eq!(header.generation, 3);
            Ok(())
        })
        .unwrap();
    let generation = |key: &str| accounts.get_header(key).unwrap().unwrap().generation;
    assert_eq!((generation("old"), generation("new")), (4, 3));
}

#[test]
fn the_records_of_a_transaction_have_one_last_update_time() {
    let (store, _, accounts) = store();
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            accounts.put("a", [("n", 1)])?;
            accounts.put("b", [("n", 1)])
        })
        .unwrap();
    let time = |key: &str| accounts.get_header(key).unwrap().unwrap().last_update_ms;
    assert_eq!(time("a"), time("b"));
}

#[test]
fn deleting_and_creating_again_in_one_transaction_leaves_the_last_state() {
    let (store, _, accounts) = store();
    accounts.put("a", [("n", 1)]).unwrap();
    accounts.put("b", [("n", 1)]).unwrap();
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            assert!(accounts.delete("a")?);
            assert!(!accounts.delete("a")?);
            assert!(!accounts.exists("a")?);
            accounts.put("a", [("n", 5)])?;
            accounts.put("c", [("n", 1)])?;
            assert!(accounts.delete("c")?);
            assert!(accounts.delete("b")?);
            Ok(())
        })
        .unwrap();
    assert_eq!(
        ["a", "b", "c"].map(|key| n(&accounts, key)),
        [Some(5), None, None]
    );
    assert_eq!(accounts.get_header("a").unwrap().unwrap().generation, 1);
    assert_eq!(accounts.len(), 1);
}

#[test]
fn an_error_of_the_closure_comes_back_and_writes_nothing() {
    let (store, namespace, accounts) = store();
    let failed = store.transaction(|tx| {
        tx.set("accounts")?.put("alice", [("n", 1)])?;
        Err::<(), _>(Error::Forbidden("no".into()))
    });
    assert!(matches!(failed, Err(Error::Forbidden(_))));
    assert_eq!(n(&accounts, "alice"), None);
    let stats = namespace.transaction_stats();
    assert_eq!((stats.attempts, stats.aborts, stats.commits), (1, 1, 0));
    assert_eq!(stats.p99, Duration::ZERO, "nothing was committed");
    store
        .transaction(|tx| tx.set("accounts")?.put("alice", [("n", 1)]))
        .unwrap();
    let stats = namespace.transaction_stats();
    assert!(stats.p50 > Duration::ZERO && stats.p50 <= stats.p99);
}

#[test]
fn a_closure_that_panics_writes_nothing_and_leaves_nothing_locked() {
    let (store, _, accounts) = store();
    let run = || {
        store.transaction(|tx| {
            tx.set("accounts")?.put("alice", [("n", 1)])?;
            panic!("on purpose");
            #[expect(unreachable_code)]
            Ok(())
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    assert_eq!(n(&accounts, "alice"), None);
    accounts.put("alice", [("n", 2)]).unwrap();
    store
        .transaction(|tx| tx.set("accounts")?.add("alice", [("n", 1)]))
        .unwrap();
    assert_eq!(n(&accounts, "alice"), Some(3));
}

#[test]
fn policies_filters_and_limits_hold_as_for_single_writes() {
    let (store, _, accounts) = store();
    accounts.put("alice", [("n", 1)]).unwrap();
    let create = WritePolicy::default().record_exists_action(RecordExistsAction::CreateOnly);
    let update = WritePolicy::default().record_exists_action(RecordExistsAction::UpdateOnly);
    let second = WritePolicy::default().generation(GenerationPolicy::ExpectEqual(2));
    let rich = expressions::ge(expressions::int_bin("n"), expressions::int_val(5));
    store
        .transaction(|tx| {
            let inside = tx.set("accounts")?;
            let code = |result: Result<()>| result.unwrap_err().result_code();
            assert_eq!(code(inside.put_with(&create, "alice", [("n", 2)])), 5);
            assert_eq!(code(inside.put_with(&update, "nobody", [("n", 2)])), 2);
            assert_eq!(code(inside.put_with(&second, "alice", [("n", 2)])), 3);
            let filtered = tx.in_set(&accounts.filtered(rich.clone())?)?;
            assert_eq!(code(filtered.put("alice", [("n", 9)])), 27);
            assert_eq!(code(inside.put("alice", [("n", vec![0u8; 2 << 20])])), 13);
            assert_eq!(code(inside.add("alice", [("n", "text")])), 12);
            // The transaction's own version of the record decides.
            inside.put("alice", [("n", 6)])?;
            inside.put_with(&second, "alice", [("n", 7)])?;
            filtered.put("alice", [("n", 9)])
        })
        .unwrap();
    assert_eq!(n(&accounts, "alice"), Some(9));
}

#[test]
fn a_refused_write_leaves_what_the_transaction_had_before() {
    let (store, _, accounts) = store();
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            accounts.put("alice", [("n", 1)])?;
            let refused = accounts.operate(
                "alice",
                &[add("n", 5), lists::append(&ListPolicy::default(), "n", 1)],
            );
            assert_eq!(refused.unwrap_err().result_code(), 12);
            Ok(())
        })
        .unwrap();
    assert_eq!(n(&accounts, "alice"), Some(1));
}

#[test]
fn structs_updates_and_operations_work_inside() {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Account {
        n: i64,
        name: String,
    }
    let (store, _, accounts) = store();
    let alice = Account {
        n: 3,
        name: "Alice".into(),
    };
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            accounts.put_as("alice", &alice)?;
            accounts.append("alice", [("name", "!")])?;
            // A closure may use other records of the transaction.
            accounts.update("bob", |bins| {
                let alice = accounts.get_as::<Account>("alice")?.unwrap();
                bins.set("n", alice.n * 2)
            })?;
            let result = accounts.operate("bob", &[get_bin("n")])?;
            assert_eq!(result.bin("n"), Some(&6.into()));
            accounts.touch("bob")
        })
        .unwrap();
    assert_eq!(
        accounts.get_as::<Account>("alice").unwrap().unwrap().name,
        "Alice!"
    );
    assert_eq!(n(&accounts, "bob"), Some(6));
}

#[test]
fn several_sets_take_part_and_other_namespaces_are_refused() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("test"))
        .namespace(NamespaceConfig::new("other"))
        .open()
        .unwrap();
    let foreign = store.namespace("other").unwrap().set("s").unwrap();
    store
        .transaction(|tx| {
            assert!(matches!(tx.in_set(&foreign), Err(Error::Parameter(_))));
            tx.set("a")?.put(1, [("n", 1)])?;
            tx.set("b")?.put(1, [("n", 2)])
        })
        .unwrap();
    let get = |set: &str| number(store.set(set).unwrap().get(1).unwrap());
    assert_eq!((get("a"), get("b")), (Some(1), Some(2)));
}

#[test]
fn a_snapshot_read_refuses_every_write() {
    let (store, _, accounts) = store();
    accounts.put("alice", [("n", 1)]).unwrap();
    store
        .snapshot_read(|tx| {
            let inside = tx.set("accounts")?;
            let refusals = [
                inside.put("alice", [("n", 2)]).unwrap_err(),
                inside.delete("alice").unwrap_err(),
                inside.add("bob", [("n", 1)]).unwrap_err(),
                inside.operate("alice", &[add("n", 1)]).unwrap_err(),
                tx.set("new")?.put("a", [("n", 1)]).unwrap_err(),
            ];
            assert!(
                refusals
                    .iter()
                    .all(|error| matches!(error, Error::Forbidden(_)))
            );
            Ok(())
        })
        .unwrap();
    assert_eq!(n(&accounts, "alice"), Some(1));
    assert!(
        !store
            .namespace("test")
            .unwrap()
            .sets()
            .iter()
            .any(|set| set.name == "new")
    );
}

#[test]
fn limits_are_errors_that_name_the_limit() {
    let (store, namespace, accounts) = store();
    let policy = TransactionPolicy::default().max_records(3);
    let put_many = |records: i64| {
        namespace.transaction_with(&policy, |tx| {
            (0..records).try_for_each(|key| tx.set("accounts")?.put(key, [("n", 1)]))
        })
    };
    put_many(3).unwrap();
    let error = put_many(4).unwrap_err();
    assert!(error.to_string().contains("more than 3 records"), "{error}");
    let small = TransactionPolicy::default().max_bytes(1_000);
    let error = namespace.transaction_with(&small, |tx| {
        // A second version takes the place of the first.
        for _ in 0..3 {
            tx.set("accounts")?.put("a", [("n", vec![1u8; 600])])?;
        }
        tx.set("accounts")?.put("b", [("n", vec![1u8; 600])])
    });
    assert_eq!(error.unwrap_err().result_code(), 123);
    assert_eq!(accounts.len(), 3);
    drop(store);
}

#[test]
fn two_thousand_records_are_one_transaction() {
    let (store, _, accounts) = store();
    for round in 0..3 {
        store
            .transaction(|tx| {
                let accounts = tx.set("accounts")?;
                (0..2_000)
                    .try_for_each(|key| accounts.add(key, bins! { "n" => 1, "round" => round }))
            })
            .unwrap();
    }
    assert_eq!(accounts.len(), 2_000);
    let sum: i64 = (0..2_000)
        .filter_map(|key| number(accounts.get(key).unwrap()))
        .sum();
    assert_eq!(sum, 6_000);
}

#[test]
fn times_to_live_are_kept_and_expired_records_are_absent() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let accounts = store.set("accounts").unwrap();
    let minute = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    store
        .transaction(|tx| tx.set("accounts")?.put_with(&minute, "a", [("n", 1)]))
        .unwrap();
    assert_eq!(n(&accounts, "a"), Some(1));
    clock.advance_ms(62_000);
    store
        .transaction(|tx| {
            let accounts = tx.set("accounts")?;
            assert!(!accounts.exists("a")?);
            assert!(!accounts.delete("a")?);
            accounts.add("a", [("n", 5)])
        })
        .unwrap();
    assert_eq!(n(&accounts, "a"), Some(5));
    assert_eq!(accounts.get_header("a").unwrap().unwrap().generation, 1);
}

#[test]
fn a_durable_transaction_is_durable_when_it_returns_and_takes_one_sync() {
    let mut config = NamespaceConfig::new("test");
    config.durability = spikelet::Durability::Commit;
    config.background = false;
    let (store, namespace, accounts) = store_with(config);
    accounts.put("a", [("n", 0)]).unwrap();
    let syncs = namespace.stats().syncs;
    let transfer = |acknowledge| {
        let policy = TransactionPolicy::default().acknowledge(acknowledge);
        namespace.transaction_with(&policy, |tx| {
            (0..10).try_for_each(|key| tx.set("accounts")?.add(key, [("n", 1)]))
        })
    };
    transfer(Acknowledge::Durable).unwrap();
    assert_eq!(namespace.stats().syncs, syncs + 1);
    assert!(namespace.durable_lsn() >= namespace.last_lsn());
    transfer(Acknowledge::Applied).unwrap();
    assert_eq!(namespace.stats().syncs, syncs + 1);
    namespace.wait_durable(namespace.last_lsn()).unwrap();
    drop(store);
}

#[test]
fn a_record_that_is_rewritten_often_counts_once_and_is_committed_as_last_written() {
    let (_store, namespace, accounts) = store();
    let policy = TransactionPolicy::default().max_bytes(310_000);
    let big = |round: u8| Value::Blob(vec![round; 100_000]);
    namespace
        .transaction_with(&policy, |tx| {
            let accounts = tx.in_set(&accounts)?;
            accounts.put("beside", [("v", big(100))])?;
            // 5 MB of versions, of which 200 kB are alive: the others are taken out of memory in
            // between.
            for round in 0..50 {
                accounts.put("hot", [("v", big(round))])?;
                let seen = accounts.get("hot")?.and_then(|hot| hot.get("v"));
                assert_eq!(seen, Some(big(round)));
            }
            accounts.put("gone", [("v", big(0))])?;
            accounts.delete("gone").map(drop)
        })
        .unwrap();
    let stored = |key| accounts.get(key).unwrap().and_then(|hot| hot.get("v"));
    assert_eq!(stored("hot"), Some(big(49)));
    assert_eq!(stored("beside"), Some(big(100)));
    assert_eq!(stored("gone"), None);
    let too_much = namespace.transaction_with(&policy, |tx| {
        let accounts = tx.in_set(&accounts)?;
        (0..4).try_for_each(|key| accounts.put(key, [("v", big(1))]))
    });
    assert!(matches!(too_much, Err(Error::TransactionLimit { .. })));
}
