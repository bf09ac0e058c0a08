//! Indexes beside clocks that are set back, and beside expired records.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use spikelet::expressions::{last_update, set_name};
use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::storage::{Clock, ManualClock};
use spikelet::{Error, Expiration, NamespaceConfig, Store, WritePolicy, bins};

use crate::{keys, namespace};

/// A store in memory by this clock, without threads in the background.
fn store_by(clock: Arc<dyn Clock>) -> Store {
    let config = NamespaceConfig::new("test").background(false);
    let store = Store::builder().clock(clock).namespace(config);
    store.open().unwrap()
}

fn soon() -> WritePolicy {
    WritePolicy::default().expiration(Expiration::After(Duration::from_secs(2)))
}

#[test]
fn an_index_by_last_update_finds_a_record_that_is_made_anew_after_the_clock_was_set_back() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = store_by(clock.clone());
    let set = store.set("users").unwrap();
    let by_update = IndexComponent::expression(last_update());
    set.create_index(IndexDefinition::new("by_update", [by_update]))
        .unwrap();
    for key in [1, 2] {
        set.put(key, [("n", 1)]).unwrap();
        set.delete(key).unwrap();
    }
    clock.set_ms(400_000_000_000);
    set.put(1, [("n", 2)]).unwrap();
    store
        .write_together(|writes| {
            writes.put(&set, 2, [("n", 2)]);
            writes.put(&set, 3, [("n", 2)]);
        })
        .unwrap();
    let by_update = set.query("by_update").unwrap();
    assert_eq!(keys(&by_update).len(), 3);
    let last = keys(&by_update.clone().descending().limit(2));
    assert!(!last.contains(&3.into()), "{last:?}");
    let stats = || namespace(&store).indexes().remove(0);
    assert_eq!((stats().entries, stats().cleaned), (3, 0));
    for key in [1, 2, 3] {
        set.put(key, [("n", 3)]).unwrap();
    }
    set.delete(1).unwrap();
    assert_eq!((keys(&by_update).len(), stats().entries), (2, 2));
}

#[test]
fn expiry_takes_a_record_out_of_an_index_of_all_sets_by_their_names() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = store_by(clock.clone());
    let by_set = IndexComponent::expression(set_name());
    let by_set = IndexDefinition::new("by_set", [by_set]);
    namespace(&store).create_index(by_set).unwrap();
    for name in ["users", ""] {
        let set = store.set(name).unwrap();
        set.put_with(&soon(), 1, [("n", 1)]).unwrap();
        set.put(2, [("n", 1)]).unwrap();
    }
    let entries = || namespace(&store).indexes().remove(0).entries;
    assert_eq!(entries(), 4);
    clock.advance_ms(5_000);
    namespace(&store).maintain().unwrap();
    assert_eq!(entries(), 2);
}

#[test]
fn an_index_that_is_filled_while_the_clock_is_ahead_finds_records_once_it_is_set_right() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(400_000_000_000));
    let open = || {
        let config = NamespaceConfig::new("test").background(false);
        let store = Store::builder().path(dir.path()).clock(clock.clone());
        store.namespace(config).open().unwrap()
    };
    let store = open();
    let set = store.set("users").unwrap();
    let long = "x".repeat(20_000);
    for (key, city) in [(1, "Graz"), (2, &*long)] {
        set.put_with(&soon(), key, [("city", city)]).unwrap();
    }
    clock.set_ms(500_000_000_000);
    set.create_index(IndexDefinition::new("by_city", ["city"]))
        .unwrap();
    let found = |store: &Store| {
        let set = store.set("users").unwrap();
        let count = set.query("by_city").unwrap().eq("Graz").count();
        (count.unwrap(), set.exists(1).unwrap())
    };
    assert_eq!(found(&store), (0, false));
    clock.set_ms(400_000_000_000);
    assert_eq!(found(&store), (1, true));
    // An opening fills it anew.
    clock.set_ms(500_000_000_000);
    store.close().unwrap();
    drop((store, set));
    let store = open();
    assert_eq!(found(&store), (0, false));
    clock.set_ms(400_000_000_000);
    assert_eq!(found(&store), (1, true));
}

#[test]
fn a_unique_index_that_is_filled_while_the_clock_is_ahead_keeps_the_keys_of_expired_records() {
    let clock = Arc::new(ManualClock::at(400_000_000_000));
    let store = store_by(clock.clone());
    let set = store.set("users").unwrap();
    set.put_with(&soon(), "ada", [("mail", "a")]).unwrap();
    set.put_with(&soon(), "bob", [("mail", "b")]).unwrap();
    clock.set_ms(500_000_000_000);
    set.put("eve", [("mail", "b")]).unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    set.create_index(by_mail).unwrap();
    clock.set_ms(400_000_000_000);
    let refused = set.put("joe", [("mail", "a")]);
    assert!(
        matches!(refused, Err(Error::NotUnique { .. })),
        "{refused:?}"
    );
    let found = set.query("by_mail").unwrap().eq("a");
    assert_eq!(keys(&found), ["ada".into()]);
}

#[test]
fn expired_records_that_an_index_cannot_hold_fail_no_build_and_no_opening_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_000_000));
    let open = || {
        let config = NamespaceConfig::new("test").background(false);
        let config = config.index_bytes_max(20_000);
        let store = Store::builder().path(dir.path()).clock(clock.clone());
        store.namespace(config).open().unwrap()
    };
    let store = open();
    let set = store.set("users").unwrap();
    let many: Vec<i64> = (0..10_000).collect();
    set.put_with(&soon(), 0, [("n", many)]).unwrap();
    // And one with a value that no index takes.
    let long = vec!["x".repeat(20_000)];
    set.put_with(&soon(), -1, [("n", long)]).unwrap();
    clock.advance_ms(5_000);
    for key in 1..50 {
        set.put(key, [("n", vec![key])]).unwrap();
    }
    let by_n = IndexDefinition::new("by_n", [IndexComponent::bin("n").elements()]);
    set.create_index(by_n).unwrap();
    let check = |store: &Store| {
        let stats = namespace(store).indexes().remove(0);
        assert_eq!((stats.entries, stats.unreadable), (49, 2));
    };
    check(&store);
    store.close().unwrap();
    drop((store, set));
    let store = open();
    check(&store);
    store
        .set("users")
        .unwrap()
        .put(50, [("n", vec![1])])
        .unwrap();
}

#[test]
fn a_record_that_lives_again_and_does_not_fit_its_index_fails_no_opening() {
    let dir = tempfile::tempdir().unwrap();
    let open = |clock: &Arc<ManualClock>| {
        let config = NamespaceConfig::new("test").background(false);
        let store = Store::builder().path(dir.path()).clock(clock.clone());
        store.namespace(config).open().unwrap()
    };
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = open(&clock);
    let set = store.set("users").unwrap();
    set.put_with(&soon(), "ada", [("n", "x".repeat(20_000))])
        .unwrap();
    clock.advance_ms(5_000);
    set.create_index(IndexDefinition::new("by_n", ["n"]))
        .unwrap();
    store.close().unwrap();
    drop((set, store));
    let store = open(&Arc::new(ManualClock::at(1_000_000)));
    assert!(store.set("users").unwrap().exists("ada").unwrap());
    let stats = namespace(&store).indexes().remove(0);
    assert_eq!((stats.entries, stats.unreadable), (0, 1));
}

/// Shows one time a few times, then an earlier one.
#[derive(Debug)]
struct SetBackClock {
    now_ms: ManualClock,
    earlier_ms: AtomicU64,
    reads_left: AtomicU64,
}

impl Clock for SetBackClock {
    fn now_ms(&self) -> u64 {
        let less = |reads: u64| reads.checked_sub(1);
        let left = &self.reads_left;
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => self.now_ms.now_ms(),
            Err(_) => self.earlier_ms.load(Ordering::SeqCst),
        }
    }
}

#[test]
fn all_indexes_have_a_write_over_an_expired_record_though_the_clock_is_set_back_meanwhile() {
    for reads in 1..5 {
        let clock = Arc::new(SetBackClock {
            now_ms: ManualClock::at(1_000_000),
            earlier_ms: AtomicU64::new(1_000_000),
            reads_left: AtomicU64::new(u64::MAX),
        });
        let store = store_by(clock.clone());
        let set = store.set("users").unwrap();
        set.put_with(&soon(), 1, bins! { "a" => 1, "b" => 1, "c" => 1 })
            .unwrap();
        clock.now_ms.advance_ms(5_000);
        for bin in ["a", "b", "c"] {
            set.create_index(IndexDefinition::new(bin, [bin])).unwrap();
        }
        clock.reads_left.store(reads, Ordering::SeqCst);
        set.put(1, bins! { "a" => 1, "b" => 1, "c" => 1 }).unwrap();
        for bin in ["a", "b", "c"] {
            let found = set.query(bin).unwrap().eq(1).count().unwrap();
            assert_eq!(found, 1, "{reads} reads, index {bin}");
        }
    }
}

#[test]
fn a_refused_write_leaves_the_entries_of_a_record_that_is_younger_than_the_clock() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = store_by(clock.clone());
    let set = store.set("users").unwrap();
    for definition in [
        IndexDefinition::new("by_name", ["name"]),
        IndexDefinition::new("by_mail", ["mail"]).unique(true),
    ] {
        set.create_index(definition).unwrap();
    }
    set.put("bob", [("mail", "b")]).unwrap();
    set.put("ada", [("name", "Ada")]).unwrap();
    clock.set_ms(400_000_000_000);
    // Its last update is that of before, its end is by the clock.
    set.put_with(&soon(), "ada", [("name", "Ada")]).unwrap();
    let refused = set.put_with(&soon(), "ada", bins! { "name" => "Ada", "mail" => "b" });
    assert!(
        matches!(refused, Err(Error::NotUnique { .. })),
        "{refused:?}"
    );
    let by_name = set.query("by_name").unwrap().eq("Ada");
    assert_eq!(keys(&by_name), ["ada".into()]);
}

#[test]
fn a_busy_unique_key_names_the_record_that_another_writer_has() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = store_by(clock.clone());
    let set = store.set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    set.create_index(by_mail).unwrap();
    set.put_with(&soon(), "eve", [("mail", "a")]).unwrap();
    clock.advance_ms(5_000);
    // The record is over, and its writer may give it the key again.
    let refusals = set.update("eve", |_| {
        let single = || set.put("dan", [("mail", "a")]).map(drop);
        let group = || {
            let written = store.write_together(|writes| {
                writes.put(&set, "dan", [("mail", "a")]);
                writes.put(&set, "joe", [("mail", "j")]);
            });
            written.map(drop)
        };
        Ok(std::thread::scope(|scope| {
            [scope.spawn(single), scope.spawn(group)].map(|thread| thread.join().unwrap())
        }))
    });
    for refused in refusals.unwrap() {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::KeyBusy { .. }), "{error:?}");
        let record = error.record().unwrap();
        assert_eq!((record.set(), record.key()), ("users", &"eve".into()));
        let message = error.to_string();
        assert!(message.contains("another writer holds record \"eve\" of set \"users\": back off"));
    }
}

#[test]
fn a_transaction_is_run_again_while_another_writer_has_its_unique_key() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = store_by(clock.clone());
    let set = store.set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    set.create_index(by_mail).unwrap();
    set.put_with(&soon(), "eve", [("mail", "a")]).unwrap();
    clock.advance_ms(5_000);
    let ((held, is_held), (done, is_done)) = (channel(), channel());
    std::thread::scope(|scope| {
        let users = &set;
        let mut holder = Some(scope.spawn(move || {
            users.update("eve", |_| {
                held.send(()).unwrap();
                is_done.recv_timeout(PATIENCE).unwrap();
                Ok(())
            })
        }));
        is_held.recv_timeout(PATIENCE).unwrap();
        let mut attempts = 0;
        let written = store.transaction(|tx| {
            attempts += 1;
            if let Some(holder) = holder.take_if(|_| attempts == 2) {
                done.send(()).unwrap();
                holder.join().unwrap().unwrap();
            }
            tx.set("users")?.put("dan", [("mail", "a")])
        });
        // Also where it was not run again, so that the test ends.
        done.send(()).ok();
        written.unwrap();
        assert_eq!(attempts, 2);
    });
}

#[test]
fn a_parallel_query_of_a_set_that_does_not_exist_looks_at_no_index() {
    let store = Store::in_memory().unwrap();
    let by_city = IndexDefinition::new("by_city", ["city"]);
    namespace(&store).create_index(by_city).unwrap();
    let others = store.set("others").unwrap();
    others.put(1, [("city", "Graz")]).unwrap();
    let queries = || namespace(&store).indexes().remove(0).queries;
    let query = store.set("users").unwrap().query("by_city").unwrap();
    assert_eq!((query.count().unwrap(), queries()), (0, 0));
    assert_eq!(query.explain().unwrap().entries, 0);
    let ended = query.for_each_parallel(2, |record| ControlFlow::Break(record.map(drop)));
    assert!(ended.unwrap().is_continue());
    assert_eq!(queries(), 0);
}
