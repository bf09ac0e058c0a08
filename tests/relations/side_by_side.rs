//! Threads that follow, unfollow and delete while audits of the same relation run and pages are
//! read, with sharded sides.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use spikelet::relation::{ManyToMany, OnDelete, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, Key, RecordStore, Store, bins};

use crate::killed::next;
use crate::watched::{Calls, Watched};

const THREADS: i64 = 3;
const USERS: i64 = 24;
const TURNS: u64 = 400;

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    // Targets that all follow are sharded, others not.
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
    .shard_policy(ShardPolicy::manual().record_bytes_max(300))
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Repeats a call while others are in its way.
fn retried<T>(call: impl Fn() -> spikelet::Result<T>) -> T {
    loop {
        match call() {
            Err(error) if error.is_retryable() => {}
            done => return done.unwrap(),
        }
    }
}

/// A third of the edges leads to one user: the celebrity.
fn target(state: &mut u64) -> i64 {
    match next(state) % 3 {
        0 => 0,
        _ => (next(state) % USERS as u64) as i64,
    }
}

/// Reads pages and audits until the writers are done, and until one audit has come to its end, the
/// last one at the latest, since no writer runs beside it. Pages are in order, each key once.
/// `repair` must do no harm.
fn watch<S: RecordStore>(follows: &ManyToMany<S>, done: &AtomicBool, repair: Repair) {
    let mut is_audited = false;
    while !(is_audited && done.load(Ordering::Relaxed)) {
        let page = retried(|| follows.sources(0).page(0, USERS as u64));
        assert!(page.is_sorted_by(|a, b| a < b), "{page:?}");
        match follows.verify(repair, go_on) {
            Ok(audit) => is_audited |= audit.complete,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

/// Runs a writer for each thread's sources beside an audit, and returns the final sources of each.
fn side_by_side<S: RecordStore<Records: Send + Sync> + Sync>(
    follows: &ManyToMany<S>,
    repair: Repair,
    write: impl Fn(i64, &mut u64, &mut BTreeSet<(i64, i64)>) + Sync,
) -> BTreeSet<(i64, i64)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let audits = scope.spawn(|| watch(follows, &done, repair));
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let write = &write;
                scope.spawn(move || {
                    let (mut state, mut edges) = (77 + thread as u64, BTreeSet::new());
                    for _ in 0..TURNS {
                        let source = (next(&mut state) % USERS as u64) as i64;
                        write(source - source % THREADS + thread, &mut state, &mut edges);
                    }
                    edges
                })
            })
            .collect();
        // Waits for all before it reports a failure, so that the audit ends.
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        audits.join().unwrap();
        written
            .into_iter()
            .flat_map(|edges| edges.unwrap())
            .collect()
    })
}

fn follow_and_unfollow<S: RecordStore<Records: Send + Sync> + Sync>(
    follows: &ManyToMany<S>,
    repair: Repair,
) {
    let expected = side_by_side(follows, repair, |source, state, edges| {
        let to = target(state);
        if next(state).is_multiple_of(4) {
            assert_eq!(
                retried(|| follows.unlink(source, to)),
                edges.remove(&(source, to))
            );
        } else {
            retried(|| follows.link(source, to));
            edges.insert((source, to));
        }
    });
    let audit = follows.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert_eq!(audit.edges, 2 * expected.len() as u64);
    for user in 0..USERS {
        let of = |pairs: Vec<i64>| pairs.into_iter().map(Key::from).collect::<Vec<_>>();
        let targets = expected
            .iter()
            .filter(|(from, _)| *from == user)
            .map(|(_, to)| *to);
        let sources = expected
            .iter()
            .filter(|(_, to)| *to == user)
            .map(|(from, _)| *from);
        let all = USERS as u64;
        assert_eq!(
            follows.targets(user).page(0, all).unwrap(),
            of(targets.collect())
        );
        assert_eq!(
            follows.sources(user).page(0, all).unwrap(),
            of(sources.collect())
        );
    }
}

#[test]
fn writers_and_audits_side_by_side_leave_both_sides_equal_and_as_written() {
    follow_and_unfollow(&follows(&Store::in_memory().unwrap()), Repair::Yes);
}

#[test]
fn without_transactions_an_audit_beside_writers_leaves_both_sides_equal() {
    let store = Store::in_memory().unwrap();
    let watched = Watched::new(&store, &Calls::default());
    follow_and_unfollow(&follows(watched), Repair::No);
}

#[test]
fn deletes_beside_writers_and_repairs_leave_no_edge_on_one_side() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    side_by_side(&follows, Repair::Yes, |source, state, _| {
        let to = target(state);
        match next(state) % 20 {
            0 => drop(retried(|| {
                follows.delete_with_edges(source, OnDelete::Detach, go_on)
            })),
            1..6 => drop(retried(|| follows.unlink(source, to))),
            _ => drop(retried(|| follows.link(source, to))),
        }
    });
    let audit = follows.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert!(audit.edges > 0);
}

#[test]
fn every_handle_takes_part_in_a_transaction_of_its_callers() {
    use serde_json::json;
    use spikelet::relation::{EdgeType, Graph, Layout, Links, NodeId, OneToMany, Propagate};
    let store = spikelet::Store::in_memory().unwrap();
    let graph = Graph::new(&store, "g", ["N"], [EdgeType::new("E")]).unwrap();
    let sets = ("posts", "comments");
    let comments = OneToMany::new(&store, "comments", sets, Layout::key_list("comments")).unwrap();
    let links = Links::new(&store, "links");
    let assignees = Propagate::new(&store, "names", ("users", "items"), "assignee").unwrap();
    let assignees = assignees.copy("name", "assignee_name");
    store
        .set("users")
        .unwrap()
        .put("u1", [("name", "Ann")])
        .unwrap();
    let (a, b) = (NodeId::new("N", "a"), NodeId::new("N", "b"));
    let write = |fails: bool| {
        store.transaction(|tx| {
            graph.within(tx).link(&a, "E", &b, &json!({}))?;
            comments.within(tx).put("p1", 1, &json!({ "text": "hi" }))?;
            assignees.within(tx).assign(1, "u1")?;
            let _ = links.within(tx);
            if fails {
                Err(spikelet::Error::Parameter("no".into()))
            } else {
                Ok(())
            }
        })
    };
    let seen = || {
        let edge = graph
            .edge::<serde_json::Value>(&a, "E", &b)
            .unwrap()
            .is_some();
        let name = store.set("items").unwrap().exists(1).unwrap();
        (edge, comments.len("p1").unwrap(), name)
    };
    assert!(write(true).is_err());
    assert_eq!(seen(), (false, 0, false));
    write(false).unwrap();
    assert_eq!(seen(), (true, 1, true));
}

#[test]
fn a_call_that_is_refused_within_a_transaction_leaves_nothing_there() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    // No list, so the second end is refused.
    users.put("bob", bins! { "followers" => 5 }).unwrap();
    users.put("bob", bins! { "followed" => 5 }).unwrap();
    let (from, to) = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", from, to);
    let (from, to) = (("users", "follows"), ("users", "followed"));
    let rated = ManyToMany::new(&store, "rated", from, to).with_attributes();
    follows.link("ann", "cid").unwrap();
    store
        .transaction(|tx| {
            tx.in_set(&users)?.put("ann", [("n", 1)])?;
            for target in ["bob", "dan"] {
                let linked = follows.within(tx).link("ann", target);
                assert_eq!(linked.is_ok(), target == "dan");
                let linked = rated.within(tx).link_with("ann", target, &4);
                assert_eq!(linked.is_ok(), target == "dan");
            }
            let new = follows.within(tx).link("eve", "bob");
            assert!(matches!(new, Err(Error::Relation { .. })));
            Ok(())
        })
        .unwrap();
    assert_eq!(
        follows.targets("ann").page(0, 9).unwrap(),
        ["cid".into(), "dan".into()]
    );
    assert_eq!(rated.targets("ann").page(0, 9).unwrap(), ["dan".into()]);
    assert!(users.get("ann").unwrap().unwrap().get("n").is_some());
    assert!(!users.exists("eve").unwrap());
}
