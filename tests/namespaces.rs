//! Stores with several namespaces, and leftovers of namespaces that could not be made.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use spikelet::changes::{ChangeOptions, Start};
use spikelet::expressions::{eq, int_bin, int_val};
use spikelet::operations::{add, delete_all_bins, get_bin, lists, put};
use spikelet::policy::RecordExistsAction;
use spikelet::record::BinName;
use spikelet::storage::ManualClock;
use spikelet::{
    Error, ListPolicy, NamespaceConfig, Operation, Set, Store, TransactionPolicy, Value,
    WritePolicy,
};

#[test]
fn the_default_namespace_stays_the_same_when_others_come() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store
        .set("users")
        .unwrap()
        .put("alice", [("n", 1)])
        .unwrap();
    store
        .create_namespace(NamespaceConfig::new("cache"))
        .unwrap();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert!(store.set("users").unwrap().exists("alice").unwrap());
}

#[test]
fn without_a_default_among_several_namespaces_a_set_must_name_its_own() {
    let store = Store::builder()
        .namespace(NamespaceConfig::new("a"))
        .open()
        .unwrap();
    assert!(
        store.set("users").is_ok(),
        "the first that the builder names"
    );
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let builder = Store::builder()
            .path(dir.path())
            .namespace(NamespaceConfig::new(name));
        builder.open().unwrap();
    }
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.set("users").unwrap_err().result_code(), 4);
    assert!(store.namespace("b").unwrap().set("users").is_ok());
    assert_eq!(store.namespace("c").unwrap_err().result_code(), 20);
}

#[test]
fn a_creation_that_was_interrupted_is_done_again() {
    for left_behind in [vec![], vec![0u8; 4096]] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("test")).unwrap();
        std::fs::write(dir.path().join("test/device-0"), left_behind).unwrap();
        let store = Store::open(dir.path()).unwrap();
        store
            .set("users")
            .unwrap()
            .put("alice", [("n", 1)])
            .unwrap();
    }
}

#[test]
fn a_namespace_whose_first_device_is_lost_is_not_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = NamespaceConfig::new("test");
    config.devices = 2;
    let open = || {
        Store::builder()
            .path(dir.path())
            .namespace(config.clone())
            .open()
    };
    let store = open().unwrap();
    store
        .set("users")
        .unwrap()
        .put("alice", [("n", 1)])
        .unwrap();
    drop(store);
    for lost in ["device-1", "device-0"] {
        std::fs::rename(dir.path().join("test").join(lost), dir.path().join(lost)).unwrap();
        let refused = open().unwrap_err();
        assert!(refused.to_string().contains(lost), "{refused}");
        std::fs::rename(dir.path().join(lost), dir.path().join("test").join(lost)).unwrap();
    }
    assert!(
        open()
            .unwrap()
            .set("users")
            .unwrap()
            .exists("alice")
            .unwrap()
    );
}

#[test]
fn nil_in_a_replacing_put_is_refused_and_an_update_that_leaves_nothing_deletes() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    set.put("alice", [("n", 1)]).unwrap();
    let replace = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
    let refused = set.put_with(&replace, "alice", [("n", Value::Nil)]);
    assert_eq!(refused.unwrap_err().result_code(), 4);
    set.update_with(&replace, "alice", |bins| {
        assert!(bins.is_empty());
        Ok(())
    })
    .unwrap();
    assert!(!set.exists("alice").unwrap());
    set.update("alice", |_| Ok(())).unwrap();
    assert!(!set.exists("alice").unwrap());
    assert_eq!(set.touch("alice").unwrap_err().result_code(), 2);
}

#[test]
fn closing_twice_is_no_error_and_writes_are_refused_from_then_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let set = store.set("users").unwrap();
    set.put("alice", [("n", 1)]).unwrap();
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(set.put("alice", [("n", 2)]).unwrap_err().result_code(), 22);
    assert_eq!(set.get("alice").unwrap().unwrap().get("n"), Some(1.into()));
}

#[test]
fn truncations_within_one_millisecond_remove_what_was_written_between_them() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock).open().unwrap();
    let (users, posts) = (store.set("users").unwrap(), store.set("posts").unwrap());
    for _ in 0..3 {
        users.put("alice", [("n", 1)]).unwrap();
        posts.put(1, [("n", 1)]).unwrap();
        users.truncate(None).unwrap();
        assert!(!users.exists("alice").unwrap());
        assert!(posts.exists(1).unwrap());
        users.put("alice", [("n", 2)]).unwrap();
        store.namespace("test").unwrap().truncate(None).unwrap();
        assert!(!users.exists("alice").unwrap());
        assert!(!posts.exists(1).unwrap());
    }
}

/// Truncates while a closure is under way.
#[test]
fn an_update_that_has_met_a_record_before_a_truncation_does_not_bring_it_back() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [0, 5_000] {
        let store = Store::open(dir.path()).unwrap();
        let users = store.set("users").unwrap();
        let others = store.set("others").unwrap();
        let bins = || [("n", Value::from(1)), ("large", vec![1_u8; bytes].into())];
        users.put("alice", bins()).unwrap();
        others.put("bob", bins()).unwrap();
        let increment = |set: &Set, key: &str| {
            set.update(key, |bins| {
                let found = bins.get("n").and_then(Value::as_i64);
                std::thread::scope(|scope| {
                    scope.spawn(|| users.truncate(None).unwrap());
                });
                bins.insert(BinName::new("n")?, (found.unwrap_or(0) + 1).into());
                Ok(found)
            })
        };
        assert_eq!(increment(&users, "alice").unwrap(), Some(1));
        assert_eq!(users.get("alice").unwrap(), None);
        assert_eq!(increment(&others, "bob").unwrap(), Some(1));
        let found = others.get("bob").unwrap().unwrap();
        assert_eq!(found.get("n"), Some(2.into()));
        // Nothing that the truncation takes.
        assert_eq!(increment(&users, "carol").unwrap(), None);
        assert!(users.exists("carol").unwrap());
        drop((users, others, store));
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.set("users").unwrap().len(), 1);
        assert!(store.set("others").unwrap().exists("bob").unwrap());
        store.set("users").unwrap().truncate(None).unwrap();
    }
}

fn append(element: i64) -> Operation {
    lists::append(&ListPolicy::default(), "elements", element)
}

fn elements_of(list: Option<Value>) -> Vec<i64> {
    match list {
        Some(Value::List(list)) => list.into_items().iter().filter_map(Value::as_i64).collect(),
        _ => Vec::new(),
    }
}

/// Adds elements to two lists at once, beside truncations, by each kind of write. Whatever was
/// acknowledged before a truncation is not there behind it.
#[test]
fn no_write_beside_a_truncation_brings_back_what_it_has_taken() {
    type Add = fn(&Store, &Set, i64) -> spikelet::Result<()>;
    let kinds: [(&str, Add); 4] = [
        ("operations", |_, set, element| {
            for key in ["one", "two"] {
                set.operate(key, &[append(element)])?;
            }
            Ok(())
        }),
        ("update", |_, set, element| {
            for key in ["one", "two"] {
                set.update(key, |bins| {
                    let mut elements = elements_of(bins.get("elements").cloned());
                    elements.push(element);
                    bins.insert(BinName::new("elements")?, elements.into());
                    Ok(())
                })?;
            }
            Ok(())
        }),
        ("group", |store, set, element| {
            let add = || vec![append(element)];
            let namespace = store.namespace("test")?;
            namespace
                .write_together(|group| {
                    group.operate(set, "one", add());
                    group.operate(set, "two", add());
                })
                .map(drop)
        }),
        ("transaction", |store, set, element| {
            let policy = TransactionPolicy::default()
                .max_attempts(u32::MAX)
                .total_timeout(None);
            let namespace = store.namespace("test")?;
            namespace.transaction_with(&policy, |transaction| {
                let set = transaction.set(set.name())?;
                for key in ["one", "two"] {
                    set.operate(key, &[append(element)])?;
                }
                Ok(())
            })
        }),
    ];
    const WRITERS: i64 = 3;
    for (kind, add) in kinds {
        let store = Store::in_memory().unwrap();
        let set = &store.set("lists").unwrap();
        let ends = &AtomicBool::new(false);
        let acknowledged = &[const { AtomicI64::new(0) }; WRITERS as usize];
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let store = &store;
                scope.spawn(move || {
                    for number in 1.. {
                        if ends.load(Ordering::SeqCst) {
                            break;
                        }
                        add(store, set, number * WRITERS + writer).unwrap();
                        acknowledged[writer as usize].store(number, Ordering::SeqCst);
                    }
                });
            }
            let mut brought_back = None;
            for _ in 0..300 {
                let enough = acknowledged[0].load(Ordering::SeqCst) + 10;
                while acknowledged[0].load(Ordering::SeqCst) < enough {
                    std::thread::yield_now();
                }
                let before = acknowledged.each_ref().map(|it| it.load(Ordering::SeqCst));
                set.truncate(None).unwrap();
                for key in ["one", "two"] {
                    let Some(found) = set.get(key).unwrap() else {
                        continue;
                    };
                    for element in elements_of(found.get("elements")) {
                        if element / WRITERS <= before[(element % WRITERS) as usize] {
                            brought_back = brought_back.or(Some(element));
                        }
                    }
                }
            }
            ends.store(true, Ordering::SeqCst);
            assert_eq!(brought_back, None, "{kind}");
        });
    }
}

#[test]
fn operations_tell_what_the_record_takes_as_its_limit_counts() {
    let set = |max_record_bytes| -> Set {
        let mut config = NamespaceConfig::new("test");
        config.max_record_bytes = max_record_bytes;
        let store = Store::builder().namespace(config).open().unwrap();
        store.set("users").unwrap()
    };
    let write = [put("bin", Value::Blob(vec![7; 100]))];
    let large = set(1 << 20);
    let bytes = large.operate("alice", &write).unwrap().record_bytes;
    assert!((100..200).contains(&bytes), "{bytes}");
    let read = large.operate("alice", &[get_bin("bin")]).unwrap();
    assert_eq!(read.record_bytes, bytes);
    assert_eq!(
        set(bytes).operate("alice", &write).unwrap().record_bytes,
        bytes
    );
    let refused = set(bytes - 1).operate("alice", &write).unwrap_err();
    assert!(
        matches!(refused, Error::RecordTooBig { size, limit, .. } if size == bytes && limit == bytes - 1),
        "{refused:?}"
    );
    let gone = large.operate("alice", &[delete_all_bins()]).unwrap();
    assert_eq!(gone.record_bytes, 0);
}

#[test]
fn handles_show_their_names_and_not_what_the_store_holds() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    set.put("alice", [("n", 1)]).unwrap();
    let shown = [
        format!("{store:?}"),
        format!("{:?}", store.namespace("test").unwrap()),
        format!("{set:?}"),
    ];
    for text in shown {
        assert!(text.contains("\"test\"") && text.len() < 200, "{text}");
    }
}

#[test]
fn an_update_beside_the_first_write_to_its_set_finds_the_record_or_none() {
    let store = Store::in_memory().unwrap();
    let existing = WritePolicy::default().record_exists_action(RecordExistsAction::UpdateOnly);
    for round in 0..1_500 {
        let set = store.set(&format!("set {round}")).unwrap();
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                barrier.wait();
                set.clone().put(1, [("n", 1)]).unwrap();
            });
            barrier.wait();
            let add = [add("n", 1)];
            let write = || match round % 3 {
                0 => set.operate_with(&existing, 1, &add).map(|_| true),
                1 => set.delete(1).map(|deleted| deleted.is_some()),
                _ => store.transaction(|tx| {
                    let set = tx.in_set(&set)?;
                    set.operate_with(&existing, 1, &add).map(|_| true)
                }),
            };
            loop {
                match write() {
                    Ok(true) => break,
                    Ok(false) | Err(Error::NotFound { .. }) => {}
                    Err(error) => panic!("{round}: {error}"),
                }
            }
            first.join().unwrap();
        });
    }
}

#[test]
fn threads_that_subscribe_under_one_name_make_one_subscription() {
    let store = Store::in_memory().unwrap();
    let changes = store.namespace("test").unwrap().changes();
    changes.enable("users").unwrap();
    for round in 0..50 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let filter = eq(int_bin("n"), int_val(1));
                    let options = ChangeOptions::default().set("users").filter(filter);
                    let made = changes.subscribe(&round.to_string(), Start::Beginning, options);
                    made.unwrap();
                });
            }
        });
        assert_eq!(changes.subscriptions().len(), round + 1);
    }
}
