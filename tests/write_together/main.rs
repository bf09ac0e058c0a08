//! Writes of several records that are known beforehand: all or none, seen through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod model;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use spikelet::changes::{ChangeKind, ChangeOptions, Delivery, Start};
use spikelet::expressions::{ge, int_bin, int_val};
use spikelet::operations::{add, delete_all_bins, get_bin, lists, put};
use spikelet::policy::{Acknowledge, GenerationPolicy, RecordExistsAction};
use spikelet::query::IndexDefinition;
use spikelet::storage::ManualClock;
use spikelet::{
    Durability, Error, Expiration, Key, ListPolicy, Namespace, NamespaceConfig, OperateResult,
    Result, Set, ShardedList, Store, TransactionPolicy, Value, WriteGroup, WritePolicy,
};

/// For threads that may meet one another any number of times, on a machine of any speed.
fn patient() -> TransactionPolicy {
    TransactionPolicy::default()
        .max_attempts(u32::MAX)
        .total_timeout(None)
}

fn open_with(config: NamespaceConfig) -> (Store, Namespace, Set) {
    let store = Store::builder().namespace(config).open().unwrap();
    let namespace = store.namespace("test").unwrap();
    let set = store.set("accounts").unwrap();
    (store, namespace, set)
}

fn open() -> (Store, Namespace, Set) {
    open_with(NamespaceConfig::new("test"))
}

fn n<'k>(set: &Set, key: impl Into<Key<'k>>) -> Option<i64> {
    set.get(key).unwrap()?.get("n")?.as_i64()
}

fn generation(set: &Set, key: &str) -> u16 {
    set.get_header(key).unwrap().map_or(0, |it| it.generation)
}

/// The positions of the refused writes, with their codes.
fn refusals(result: &Result<Vec<OperateResult>>) -> Vec<(usize, u8)> {
    let Err(Error::WritesRefused { reasons }) = result else {
        panic!("{result:?}");
    };
    let codes = reasons.iter();
    codes
        .map(|(at, reason)| (*at, reason.result_code()))
        .collect()
}

/// A policy that any record but one of another generation keeps.
fn of_generation(generation: u32) -> WritePolicy {
    WritePolicy::default().generation(GenerationPolicy::ExpectEqual(generation))
}

fn creating() -> WritePolicy {
    WritePolicy::default().record_exists_action(RecordExistsAction::CreateOnly)
}

#[test]
fn writes_are_made_all_or_none_and_each_refusal_names_its_record() {
    let (store, _, accounts) = open();
    accounts.put("alice", [("n", 5)]).unwrap();
    let rich = WritePolicy::default().filter(ge(int_bin("n"), int_val(6)));
    let (new, second) = (creating(), of_generation(2));
    let refused = store.write_together(|writes| {
        writes.operate(&accounts, "bob", vec![add("n", 1)]);
        writes.put_with(&new, &accounts, "alice", [("n", 1)]);
        writes.operate_with(&rich, &accounts, "alice", vec![add("n", 1)]);
        writes.delete_with(&second, &accounts, "alice");
        writes.put_with(&new, &accounts, "carol", [("n", 1)]);
        writes.operate(&accounts, "alice", vec![add("n", "text")]);
    });
    assert_eq!(refusals(&refused), [(1, 5), (2, 27), (3, 3), (5, 12)]);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("alice"), "{text}");
    let left = ["alice", "bob", "carol"].map(|key| n(&accounts, key));
    assert_eq!(left, [Some(5), None, None]);
    assert_eq!(generation(&accounts, "alice"), 1);

    let results = store.write_together(|writes| {
        writes.operate(&accounts, "alice", vec![add("n", 1), get_bin("n")]);
        writes.put_with(&new, &accounts, "bob", [("n", 1)]);
        writes.delete(&accounts, "nobody");
    });
    let results = results.unwrap();
    assert_eq!(results[0].value(1), Some(&6.into()));
    let told = results.iter();
    let told: Vec<_> = told
        .map(|it| (it.generation, it.lsn.is_some(), it.record_bytes > 0))
        .collect();
    assert_eq!(told, [(2, true, true), (1, true, true), (0, false, false)]);
    assert_eq!(results[0].lsn, results[1].lsn);
    assert_eq!(results[0].queued_behind, Some(0));
}

#[test]
fn conditions_without_writes_count_and_the_results_are_the_same() {
    let (store, _, accounts) = open();
    accounts.put("alice", [("n", 5)]).unwrap();
    let (first, second) = (of_generation(1), of_generation(2));
    let refused = store.write_together(|writes| {
        writes.put(&accounts, "bob", [("n", 1)]);
        writes.check(&second, &accounts, "alice");
    });
    assert_eq!(refusals(&refused), [(1, 3)]);
    assert_eq!(n(&accounts, "bob"), None);
    let results = store.write_together(|writes| {
        writes.put(&accounts, "bob", [("n", 1)]);
        writes.check(&first, &accounts, "alice");
        writes.operate(&accounts, "alice", vec![get_bin("n")]);
        writes.delete(&accounts, "nobody");
    });
    let results = results.unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|it| (it.generation, it.lsn.is_some()))
        .collect();
    assert_eq!(told, [(1, true), (1, false), (1, false), (0, false)]);
    assert_eq!(results[2].value(0), Some(&5.into()));
}

#[test]
fn a_later_write_meets_the_record_as_the_earlier_ones_have_left_it() {
    let (store, namespace, accounts) = open();
    accounts.put("alice", [("n", 5)]).unwrap();
    let (second, before) = (of_generation(2), namespace.stats().records);
    let results = store.write_together(|writes| {
        writes.operate(&accounts, "alice", vec![add("n", 1)]);
        writes.operate_with(&second, &accounts, "alice", vec![add("n", 1)]);
        writes.put(&accounts, "bob", [("n", 1)]);
        writes.delete(&accounts, "bob");
        writes.put(&accounts, "carol", [("n", 1)]);
        writes.operate(&accounts, "carol", vec![delete_all_bins()]);
        writes.delete(&accounts, "alice");
        writes.put(&accounts, "alice", [("m", 7)]);
    });
    let generations: Vec<u16> = results.unwrap().iter().map(|it| it.generation).collect();
    assert_eq!(generations, [2, 3, 1, 0, 1, 0, 0, 1]);
    let alice = accounts.get("alice").unwrap().unwrap();
    assert_eq!((alice.get("m"), alice.get("n")), (Some(7.into()), None));
    assert!(!accounts.exists("bob").unwrap() && !accounts.exists("carol").unwrap());
    assert_eq!(namespace.stats().records, before);
}

#[test]
fn writes_that_cannot_be_made_are_refused_before_any_record_is_locked() {
    let (store, _, accounts) = open();
    let no_bins: [(&str, i64); 0] = [];
    let refused = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 1)]);
        writes.put(&accounts, "bob", no_bins);
        writes.put(&accounts, "carol", [("a name that is too long", 1)]);
    });
    assert_eq!(refusals(&refused), [(1, 4), (2, 21)]);
    let refused = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 1)]);
        writes.operate(&accounts, "bob", vec![]);
    });
    assert_eq!(refusals(&refused), [(1, 4)]);
    let other = Store::in_memory().unwrap().set("accounts").unwrap();
    let refused = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 1)]);
        writes.put(&other, "bob", [("n", 1)]);
    });
    assert_eq!(refusals(&refused), [(1, 4)]);
    assert!(!accounts.exists("alice").unwrap());
    assert!(store.write_together(|_| {}).unwrap().is_empty());
}

#[test]
fn a_group_has_the_limits_of_a_transaction() {
    let (_store, namespace, accounts) = open();
    let group = |policy: TransactionPolicy| {
        namespace.write_together_with(&policy, |writes| {
            (0..3).for_each(|key| writes.put(&accounts, key, [("n", vec![7_u8; 1_000])]));
        })
    };
    let few = TransactionPolicy::default().max_records(2);
    for policy in [few, TransactionPolicy::default().max_bytes(2_000)] {
        let refused = group(policy);
        assert!(
            matches!(refused, Err(Error::TransactionLimit { .. })),
            "{refused:?}"
        );
    }
    assert!(!accounts.exists(0).unwrap());
    group(TransactionPolicy::default().max_records(3)).unwrap();
    assert!(accounts.exists(2).unwrap());
}

#[test]
fn who_waits_too_long_for_a_record_is_told_which_and_changes_nothing() {
    for max_waiters in [0, 10] {
        let (_store, namespace, accounts) =
            open_with(NamespaceConfig::new("test").max_waiters(max_waiters));
        accounts.put("bob", [("n", 1)]).unwrap();
        let policy = TransactionPolicy::default().total_timeout(Duration::from_millis(5));
        let refused = accounts.update("bob", |_| {
            let refused = namespace.write_together_with(&policy, |writes| {
                writes.put(&accounts, "alice", [("n", 1)]);
                writes.put(&accounts, "bob", [("n", 2)]);
                writes.put(&accounts, "carol", [("n", 1)]);
            });
            Ok(refused.unwrap_err())
        });
        let refused = refused.unwrap();
        let record = match &refused {
            Error::KeyBusy { record, .. } if max_waiters == 0 => record,
            Error::Timeout { record, .. } if max_waiters > 0 => record,
            other => panic!("{other}"),
        };
        assert_eq!(
            record.as_ref().unwrap().key(),
            &Key::from("bob"),
            "{refused}"
        );
        let left = ["alice", "bob", "carol"].map(|key| n(&accounts, key));
        assert_eq!(left, [None, Some(1), None]);
        assert!(accounts.hot_record("bob").is_some());
    }
}

#[test]
fn a_writer_that_waits_says_how_many_were_before_it() {
    let (_store, namespace, accounts) = open();
    accounts.put("bob", [("n", 1)]).unwrap();
    std::thread::scope(|scope| {
        let writer = accounts.update("bob", |bins| {
            let writer = scope.spawn(|| {
                namespace.write_together_with(&patient(), |writes| {
                    writes.operate(&accounts, "alice", vec![add("n", 1)]);
                    writes.operate(&accounts, "bob", vec![add("n", 1)]);
                })
            });
            while namespace.stats().waits == 0 {
                std::thread::yield_now();
            }
            bins.set("n", 10)?;
            Ok(writer)
        });
        let results = writer.unwrap().join().unwrap().unwrap();
        let queued = results.iter().map(|result| result.queued_behind);
        assert_eq!(queued.collect::<Vec<_>>(), [Some(0), Some(1)]);
    });
    assert_eq!(
        (n(&accounts, "alice"), n(&accounts, "bob")),
        (Some(1), Some(11))
    );
}

#[test]
fn expired_records_are_absent_and_times_to_live_are_set_as_by_single_writes() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let config = NamespaceConfig::new("test")
        .background(false)
        .default_time_to_live(Duration::from_secs(100));
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let accounts = store.set("accounts").unwrap();
    let brief = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(10)));
    let kept = WritePolicy::default().expiration(Expiration::DontUpdate);
    for key in ["alice", "bob"] {
        accounts.put_with(&brief, key, [("n", 1)]).unwrap();
    }
    clock.advance_ms(8_000);
    let write = || {
        store.write_together(|writes| {
            writes.operate_with(&kept, &accounts, "alice", vec![add("n", 1)]);
            writes.operate(&accounts, "bob", vec![add("n", 1)]);
        })
    };
    let left: Vec<u32> = write().unwrap().iter().map(|it| it.void_time).collect();
    assert_eq!(left, [500_000_010, 500_000_108]);
    clock.advance_ms(8_000);
    let results = write().unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|it| (it.generation, it.void_time))
        .collect();
    assert_eq!(told, [(1, 500_000_116), (3, 500_000_116)]);
    clock.advance_ms(200_000);
    let results = store.write_together(|writes| {
        writes.delete(&accounts, "alice");
        writes.put(&accounts, "carol", [("n", 1)]);
    });
    assert_eq!(results.unwrap()[0].lsn, None);
}

#[test]
fn all_members_of_a_group_have_one_time_so_that_a_truncation_takes_all_or_none() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let accounts = store.set("accounts").unwrap();
    accounts.put("bob", [("n", 1)]).unwrap();
    // The clock goes back, the record's time does not.
    clock.advance_ms(60_000);
    accounts.put("bob", [("n", 1)]).unwrap();
    clock.set_ms(500_000_030_000);
    let results = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 1)]);
        writes.put(&accounts, "bob", [("n", 2)]);
    });
    results.unwrap();
    let updated = ["alice", "bob"].map(|key| {
        let header = accounts.get_header(key).unwrap().unwrap();
        header.last_update_ms
    });
    assert_eq!(updated, [500_000_060_000; 2]);
}

#[test]
fn the_root_of_a_sharded_collection_is_written_and_protected_as_by_single_writes() {
    let (store, _, accounts) = open();
    let list = ShardedList::new(&store, "accounts", "alice", "friends").unwrap();
    (0..100).for_each(|friend| assert!(list.add(friend).unwrap()));
    list.shards().activate(4).unwrap();
    let results = store.write_together(|writes| {
        writes.operate(&accounts, "alice", vec![add("n", 1)]);
        writes.operate(&accounts, "bob", vec![add("n", 1)]);
    });
    results.unwrap();
    assert_eq!((n(&accounts, "alice"), list.len().unwrap()), (Some(1), 100));
    let refused = store.write_together(|writes| {
        writes.operate(&accounts, "bob", vec![add("n", 1)]);
        writes.delete(&accounts, "alice");
    });
    assert_eq!(refusals(&refused), [(1, 22)]);
    assert_eq!((n(&accounts, "bob"), list.len().unwrap()), (Some(1), 100));
    let loses = WritePolicy::default().override_shards(true);
    let deleted = store.write_together(|writes| {
        writes.operate(&accounts, "bob", vec![add("n", 1)]);
        writes.delete_with(&loses, &accounts, "alice");
    });
    deleted.unwrap();
    // The handle looks at the root again.
    assert_eq!((n(&accounts, "bob"), list.len().unwrap()), (Some(2), 0));
}

#[test]
fn indexes_follow_all_members_and_refuse_a_key_that_is_taken() {
    let (store, _, accounts) = open();
    accounts
        .create_index(IndexDefinition::new("by_n", ["n"]))
        .unwrap();
    let unique = IndexDefinition::new("by_name", ["name"]).unique(true);
    accounts.create_index(unique).unwrap();
    accounts.put("zoe", [("name", "zoe")]).unwrap();
    let found = |value: i64| {
        accounts
            .query("by_n")
            .unwrap()
            .eq(value)
            .keys()
            .unwrap()
            .len()
    };
    let write = |value: i64, name: &'static str| {
        store.write_together(|writes| {
            writes.put(&accounts, "alice", [("n", value)]);
            writes.operate(&accounts, "bob", vec![put("n", value), put("name", name)]);
        })
    };
    write(1, "bob").unwrap();
    assert_eq!((found(1), found(2)), (2, 0));
    let refused = write(2, "zoe");
    assert!(
        matches!(refused, Err(Error::NotUnique { .. })),
        "{refused:?}"
    );
    assert_eq!((found(1), found(2)), (2, 0));
    let results = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 2)]);
        writes.delete(&accounts, "bob");
    });
    results.unwrap();
    assert_eq!((found(1), found(2)), (0, 1));
}

#[test]
fn the_change_feed_shows_a_group_whole() {
    let (store, namespace, accounts) = open();
    namespace.changes().enable("accounts").unwrap();
    accounts.put("carol", [("n", 1)]).unwrap();
    let options = ChangeOptions::default().delivery(Delivery::Published);
    let subscription = namespace.changes().subscribe("feed", Start::Now, options);
    let mut consumer = subscription.unwrap().consumer().unwrap();
    let results = store.write_together(|writes| {
        writes.put(&accounts, "alice", [("n", 1)]);
        writes.put(&accounts, "bob", [("n", 1)]);
        writes.operate(&accounts, "bob", vec![add("n", 1)]);
        writes.delete(&accounts, "carol");
        writes.delete(&accounts, "nobody");
    });
    results.unwrap();
    let batch = consumer.next_batch(9, Duration::from_secs(60)).unwrap();
    let mut shown: Vec<_> = batch
        .iter()
        .map(|change| {
            let key = change.key.as_ref().unwrap().to_string();
            (key, change.kind == ChangeKind::Delete)
        })
        .collect();
    shown.sort();
    let expected = [("alice", false), ("bob", false), ("carol", true)];
    let expected = expected.map(|(key, gone)| (Key::from(key).to_string(), gone));
    assert_eq!(shown, expected);
}

#[test]
fn a_durable_group_waits_for_one_sync_and_an_applied_one_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let config = NamespaceConfig::new("test").durability(Durability::Commit);
    let builder = Store::builder().path(dir.path()).namespace(config);
    let store = builder.open().unwrap();
    let (namespace, accounts) = (
        store.namespace("test").unwrap(),
        store.set("accounts").unwrap(),
    );
    accounts.put("alice", [("n", 0)]).unwrap();
    let write = |policy: &TransactionPolicy| {
        let syncs = namespace.stats().syncs;
        let results = namespace.write_together_with(policy, |writes| {
            writes.operate(&accounts, "alice", vec![add("n", 1)]);
            writes.operate(&accounts, "bob", vec![add("n", 1)]);
        });
        let lsn = results.unwrap()[0].lsn.unwrap();
        namespace.wait_durable(lsn).unwrap();
        namespace.stats().syncs - syncs
    };
    assert_eq!(write(&TransactionPolicy::default()), 1);
    let applied = TransactionPolicy::default().acknowledge(Acknowledge::Applied);
    assert_eq!(write(&applied), 1);
    store.close().unwrap();
    drop((namespace, accounts, store));
    let store = Store::open(dir.path()).unwrap();
    let accounts = store.set("accounts").unwrap();
    assert_eq!(
        (n(&accounts, "alice"), n(&accounts, "bob")),
        (Some(2), Some(2))
    );
}

#[test]
fn large_groups_and_edits_of_large_records_are_groups_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let unordered = ListPolicy::default();
    let all_add = |store: &Store, value: i64| {
        let accounts = store.set("accounts").unwrap();
        let append = [lists::append(&unordered, "list", value)];
        let results = store.write_together(|writes: &mut WriteGroup<'_>| {
            (0..600).for_each(|key| writes.operate(&accounts, key, &append));
        });
        assert_eq!(results.unwrap().len(), 600);
    };
    {
        let store = Store::open(dir.path()).unwrap();
        let accounts = store.set("accounts").unwrap();
        let results = store.write_together(|writes: &mut WriteGroup<'_>| {
            (0..600).for_each(|key| writes.put(&accounts, key, [("pad", vec![7_u8; 40_000])]));
        });
        results.unwrap();
        (0..3).for_each(|value| all_add(&store, value));
    }
    let store = Store::open(dir.path()).unwrap();
    let accounts = store.set("accounts").unwrap();
    all_add(&store, 3);
    for key in 0..600 {
        let list = accounts.get(key).unwrap().unwrap().get("list");
        let expected: Vec<Value> = (0..4).map(Value::from).collect();
        assert_eq!(list, Some(expected.into()), "record {key}");
    }
}

/// Two threads move money by groups, two by closures; every reader sees the same sum.
#[test]
fn groups_are_serializable_with_one_another_and_with_transactions() {
    const ACCOUNTS: i64 = 8;
    let each = if std::env::var_os("SPIKELET_LONG").is_some() {
        50_000
    } else {
        1_500
    };
    let (_store, namespace, accounts) = open();
    for key in 0..ACCOUNTS {
        accounts.put(key, [("n", 100)]).unwrap();
    }
    let sum = || {
        let sum = namespace.snapshot_read_with(&patient(), |tx| {
            let accounts = tx.in_set(&accounts)?.get_batch(0..ACCOUNTS);
            let balances = accounts.into_iter().map(|account| {
                let balance = account?.and_then(|account| account.get("n")?.as_i64());
                Ok(balance.unwrap())
            });
            balances.sum::<Result<i64>>()
        });
        assert_eq!(sum.unwrap(), 100 * ACCOUNTS);
    };
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let (namespace, accounts, sum) = (&namespace, &accounts, &sum);
            scope.spawn(move || {
                for turn in 0..each {
                    let from = (turn * 7 + thread) % ACCOUNTS;
                    let to = (turn * 3 + 5 * thread) % ACCOUNTS;
                    let moved = if thread % 2 == 0 {
                        let moved = namespace.write_together_with(&patient(), |writes| {
                            writes.operate(accounts, from, vec![add("n", -1)]);
                            writes.operate(accounts, to, vec![add("n", 1)]);
                        });
                        moved.map(drop)
                    } else {
                        namespace.transaction_with(&patient(), |tx| {
                            let accounts = tx.in_set(accounts)?;
                            accounts.add(from, [("n", -1)])?;
                            accounts.add(to, [("n", 1)])
                        })
                    };
                    moved.unwrap();
                    if turn % 50 == 0 {
                        sum();
                    }
                }
            });
        }
    });
    sum();
}
