//! What a namespace counts of its operations, beside an independent count.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::ops::ControlFlow;

use spikelet::operations::add;
use spikelet::query::IndexDefinition;
use spikelet::stats::{NamespaceStats, OperationKind};
use spikelet::{Store, WritePolicy, policy::GenerationPolicy};

fn stats(store: &Store) -> NamespaceStats {
    store.namespace("test").unwrap().stats()
}

fn counts(stats: &NamespaceStats) -> [u64; 7] {
    OperationKind::ALL.map(|kind| stats.operation(kind).count)
}

#[test]
fn each_kind_of_operation_is_counted_once() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_age", ["age"]))
        .unwrap();
    let before = stats(&store);
    let check = |what: &str, expected: [u64; 7], run: &dyn Fn()| {
        let before = stats(&store);
        run();
        let after = stats(&store);
        let grown = OperationKind::ALL
            .map(|kind| after.operation(kind).since(&before.operation(kind)).count);
        assert_eq!(grown, expected, "{what}");
    };
    check("put", [0, 1, 0, 0, 0, 0, 0], &|| {
        users.put("alice", [("age", 42)]).unwrap();
    });
    check("get", [1, 0, 0, 0, 0, 0, 0], &|| {
        assert!(users.get("alice").unwrap().is_some());
    });
    check("exists", [1, 0, 0, 0, 0, 0, 0], &|| {
        assert!(!users.exists("nobody").unwrap());
    });
    check("operate", [0, 0, 1, 0, 0, 0, 0], &|| {
        users.operate("alice", &[add("age", 1)]).unwrap();
    });
    check("update", [0, 1, 0, 0, 0, 0, 0], &|| {
        users.update("alice", |_| Ok(())).unwrap();
    });
    check("batch", [0, 0, 0, 1, 0, 0, 0], &|| {
        assert_eq!(users.get_batch(["alice", "bob"]).len(), 2);
    });
    check("query", [0, 0, 0, 0, 1, 0, 0], &|| {
        assert_eq!(users.query("by_age").unwrap().count().unwrap(), 1);
    });
    check("query over all", [0, 0, 0, 0, 0, 1, 0], &|| {
        assert_eq!(users.query_all().count().unwrap(), 1);
    });
    check("scan", [0, 0, 0, 0, 0, 1, 0], &|| {
        let _ = users.scan(|_| ControlFlow::<()>::Continue(()));
    });
    check("transaction", [0, 0, 0, 0, 0, 0, 1], &|| {
        let add_both = |tx: &spikelet::Transaction<'_>| {
            let users = tx.set("users")?;
            users.add("alice", [("age", 1)])?;
            users.put("bob", [("age", 2)])
        };
        store.transaction(add_both).unwrap();
    });
    check("group of writes", [0, 0, 0, 0, 0, 0, 1], &|| {
        let writes = store.write_together(|writes| {
            writes.put(&users, "alice", [("age", 1)]);
            writes.put(&users, "bob", [("age", 2)]);
        });
        writes.unwrap();
    });
    check("delete", [0, 1, 0, 0, 0, 0, 0], &|| {
        assert!(users.delete("bob").unwrap().is_some());
    });
    assert_eq!(stats(&store).errors, before.errors, "none has failed");
    for kind in OperationKind::ALL.into_iter().skip(3) {
        let operation = stats(&store).operation(kind);
        assert_eq!(operation.latency.count(), operation.count, "{kind}");
    }
}

#[test]
fn errors_are_counted_by_code_and_what_a_read_does_not_find_is_none() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    assert!(users.get("nobody").unwrap().is_none());
    assert!(users.delete("nobody").unwrap().is_none());
    users.put("alice", [("age", 42)]).unwrap();
    let other = WritePolicy::default().generation(GenerationPolicy::ExpectEqual(9));
    for _ in 0..3 {
        assert!(users.put_with(&other, "alice", [("age", 1)]).is_err());
    }
    assert!(users.operate("alice", &[add("age", "x")]).is_err());
    assert!(
        store
            .transaction(|tx| tx.set("users")?.touch("nobody"))
            .is_err()
    );
    assert_eq!(stats(&store).errors, [(2, 1), (3, 3), (12, 1)]);
}

#[test]
fn counts_of_many_threads_are_exact_and_one_in_sixteen_is_timed() {
    const THREADS: u64 = 24;
    const EACH: u64 = 2_000;
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let users = &users;
            scope.spawn(move || {
                for at in 0..EACH {
                    users.put((thread * EACH + at) as i64, [("a", 1)]).unwrap();
                    assert!(users.get(at as i64 - 1).is_ok());
                }
            });
        }
    });
    let stats = stats(&store);
    let all = THREADS * EACH;
    assert_eq!(counts(&stats), [all, all, 0, 0, 0, 0, 0]);
    for kind in [OperationKind::Read, OperationKind::Write] {
        let latency = stats.operation(kind).latency;
        let timed = latency.count();
        // Each of the 16 stripes times its first and every sixteenth after it.
        assert!(
            (all / 16..=all / 16 + 16).contains(&timed),
            "{kind}: {timed}"
        );
        let [p50, p99, all] = [0.5, 0.99, 1.0].map(|share| latency.quantile(share).unwrap());
        assert!(p50 <= p99 && p99 <= all && latency.total() >= all / 2);
    }
}
