//! Threads that use everything at once in one store: transactions and groups, closures, expiry,
//! truncations, relations whose nodes are deleted, sharded collections, indexes, and a change feed.
//! What they leave must agree: both sides of a relation, an index and its records, sums, the
//! elements that each thread has added, and the mirror of the feed; also behind an opening and a
//! restore.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[cfg(all(feature = "cluster", feature = "server"))]
mod served;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spikelet::changes::{ChangeKind, ChangeOptions, Delivery, Start};
use spikelet::operations::add;
use spikelet::query::BackgroundPolicy;
use spikelet::query::IndexDefinition;
use spikelet::relation::{Joined, Layout, ManyToMany, OnDelete, OneToMany, Propagate, Repair};
use spikelet::shard::{ShardPolicy, sharded_collections};
use spikelet::storage::ManualClock;
use spikelet::{
    Digest, Error, Expiration, Key, Namespace, NamespaceConfig, Record, ScannedRecord, Set,
    ShardedList, Store, Value, WritePolicy, backup, bins,
};

const THREADS: u64 = 4;
const NODES: i64 = 30;
const ACCOUNTS: i64 = 6;
const FEEDS: i64 = 2;
const START_MS: u64 = 500_000_000_000;
const PATIENCE: Duration = Duration::from_secs(60);
const CHILD_DIR: &str = "SPIKELET_TEST_FEATURES_DIR";
const PROGRESS: &str = "some turns were done";

/// Sets whose records are changed by ordinary writes alone.
const MIRRORED: [&str; 5] = ["nodes", "accounts", "scratch", "children", "tickets"];

fn open(dir: &Path, clock: &Arc<ManualClock>) -> Store {
    let config = NamespaceConfig::new("test");
    let builder = Store::builder().path(dir).namespace(config);
    builder.clock(clock.clone()).open().unwrap()
}

fn follows(store: &Store) -> ManyToMany<&Store> {
    let ends = [("nodes", "following"), ("nodes", "followers")];
    ManyToMany::new(store, "follows", ends[0], ends[1])
        .on_delete(OnDelete::Detach)
        .ends_must_exist()
        .shard_policy(ShardPolicy::manual().elements_max(12))
}

fn children(store: &Store) -> OneToMany<&Store> {
    let layout = Layout::key_list("kids");
    OneToMany::new(store, "children", ("nodes", "children"), layout)
        .unwrap()
        .with_parent_bin("parent")
        .on_delete(OnDelete::Cascade)
}

/// A collection of a node, which goes with it.
fn posts(store: &Store, key: i64) -> ShardedList<Set> {
    let list = ShardedList::new(store, "nodes", key, "posts").unwrap();
    list.policy(ShardPolicy::manual().elements_max(10))
}

/// Names of nodes, copied to the tickets that refer to them.
fn copies(namespace: &Namespace) -> Propagate<Namespace> {
    let sets = ("nodes", "tickets");
    let copies = Propagate::new(namespace.clone(), "copies", sets, "node").unwrap();
    copies.copy("name", "node_name")
}

/// Tickets, joined with the names of their nodes.
fn joined(namespace: &Namespace) -> Joined {
    let view = Joined::new(namespace, "joined", "tickets").keep(["node"]);
    view.join("node", ("nodes", "name"), "name").unwrap()
}

fn feed(store: &Store, key: i64) -> ShardedList<Set> {
    let list = ShardedList::new(store, "feeds", key, "elements").unwrap();
    list.policy(ShardPolicy::manual().elements_max(40))
}

/// Errors that contention explains. Everything else is a defect.
fn settle<T>(result: spikelet::Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(error) => {
            let mut cause = &error;
            while let Error::Relation { source, .. } = cause {
                cause = source;
            }
            let explained = matches!(
                cause,
                Error::KeyBusy { .. }
                    | Error::Timeout { .. }
                    | Error::NotFound { .. }
                    | Error::HasEdges { .. }
                    | Error::RecordExists { .. }
                    | Error::ShardRoot { .. }
            );
            assert!(explained, "{error:?}");
            None
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn key(&mut self, bound: i64) -> i64 {
        self.below(bound as u64) as i64
    }
}

/// A thread's work. Returns the elements that it has left in each feed.
fn work(store: &Store, clock: &ManualClock, thread: u64, turns: u64) -> Vec<BTreeSet<i64>> {
    let mut random = Random(0x9e37_79b9 + thread * 7_919);
    let [nodes, accounts, scratch, tickets] =
        ["nodes", "accounts", "scratch", "tickets"].map(|name| store.set(name).unwrap());
    let (follows, children) = (follows(store), children(store));
    let copies = copies(&store.namespace("test").unwrap());
    let feeds: Vec<_> = (0..FEEDS).map(|key| feed(store, key)).collect();
    let mut left = vec![BTreeSet::new(); feeds.len()];
    let brief = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(5)));
    for turn in 0..turns {
        let (a, b) = (random.key(NODES), random.key(NODES));
        match random.below(35) {
            0 => drop(settle(nodes.put(a, bins! { "age" => random.key(10) }))),
            1 => {
                settle(posts(store, a).delete());
                settle(nodes.delete(a));
            }
            2..=4 => drop(settle(follows.link(a, b))),
            5 => drop(settle(follows.unlink(a, b))),
            6 => drop(settle(nodes.update(a, |bins| {
                let age = bins.get("age").and_then(|age| age.as_i64()).unwrap_or(0);
                bins.set("age", (age + 1) % 10)
            }))),
            7 | 8 => drop(settle(children.put(
                a,
                random.key(200),
                &BTreeMap::from([("turn", turn as i64)]),
            ))),
            9 => drop(settle(children.remove(a, random.key(200)))),
            10 => drop(settle(store.transaction(|tx| {
                let accounts = tx.set("accounts")?;
                accounts.add(a % ACCOUNTS, [("n", -1)])?;
                accounts.add(b % ACCOUNTS, [("n", 1)])
            }))),
            11 => drop(settle(store.write_together(|writes| {
                writes.operate(&accounts, a % ACCOUNTS, vec![add("n", -1)]);
                writes.operate(&accounts, b % ACCOUNTS, vec![add("n", 1)]);
            }))),
            12 => {
                let sum = store.snapshot_read(|tx| {
                    let accounts = tx.set("accounts")?;
                    let read = |key| Ok(accounts.get(key)?.and_then(|record| record.get("n")));
                    let all = (0..ACCOUNTS)
                        .map(read)
                        .collect::<spikelet::Result<Vec<_>>>()?;
                    Ok(all.iter().flatten().filter_map(Value::as_i64).sum::<i64>())
                });
                assert!(settle(sum).is_none_or(|sum| sum == 0));
            }
            13..=16 => {
                let at = random.below(feeds.len() as u64) as usize;
                let element = (turn * THREADS + thread) as i64;
                if settle(feeds[at].add(element)).is_some() {
                    left[at].insert(element);
                }
            }
            17 => {
                let at = random.below(feeds.len() as u64) as usize;
                if let Some(element) = left[at].first().copied()
                    && settle(feeds[at].remove(&element.into())) == Some(true)
                {
                    left[at].remove(&element);
                }
            }
            34 => {
                let list = ShardedList::new(store, "scratch", NODES + a % 2, "list").unwrap();
                let list = list.policy(ShardPolicy::manual().elements_max(10));
                settle(list.add(turn as i64));
            }
            18 => drop(settle(scratch.put_with(&brief, a, bins! { "age" => b }))),
            19 => drop(settle(scratch.update(a, |bins| {
                std::thread::yield_now();
                bins.set("age", 7)
            }))),
            20 => drop(settle(store.write_together(|writes| {
                writes.put(&scratch, a, bins! { "age" => b });
                writes.operate(&scratch, b, vec![add("age", 1)]);
            }))),
            21 => drop(settle(store.transaction(|tx| {
                let scratch = tx.set("scratch")?;
                if scratch.get(a)?.is_some() {
                    scratch.add(b, [("age", 1)])?;
                }
                scratch.put(a, bins! { "age" => 3 })
            }))),
            23..=25 => drop(settle(posts(store, a).add(turn as i64))),
            26 => {
                let at = random.below(feeds.len() as u64) as usize;
                let few = 1 << random.below(3);
                let mut stop = random.below(6);
                let mut shards = feeds[at].shards().on_progress(|_| {
                    stop = stop.wrapping_sub(1);
                    if stop == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                let changed = match random.below(5) {
                    0 => shards.activate(few),
                    1 => shards.split(),
                    2 => shards.merge(),
                    3 => shards.deactivate(),
                    _ => shards.advance().and_then(|_| shards.state()),
                };
                if !matches!(changed, Err(Error::OpNotApplicable { .. })) {
                    settle(changed);
                }
            }
            27 => {
                let edges = (0..20).map(|_| (random.key(NODES), random.key(NODES)));
                let edges: Vec<_> = edges.collect();
                settle(follows.link_all(edges, |_| ControlFlow::Continue(())));
            }
            28 => drop(settle(
                tickets.put(random.key(100), bins! { "turn" => turn }),
            )),
            29 => drop(settle(copies.assign(random.key(100), a))),
            30 => drop(settle(tickets.delete(random.key(100)))),
            31 | 32 => drop(settle(
                nodes.put(a, bins! { "name" => format!("{thread}-{turn}") }),
            )),
            33 if random.below(10) == 0 => {
                let background = nodes.query("by_age").unwrap().eq(random.key(10));
                let policy = BackgroundPolicy::default();
                if let Some(running) = settle(background.operate(&policy, [add("met", 1)])) {
                    settle(running.wait());
                }
            }
            33 if thread == 0 && random.below(10) == 0 => {
                let definition = IndexDefinition::new("by_met", ["met"]);
                settle(nodes.create_index(definition));
                settle(nodes.drop_index("by_met"));
            }
            22 if random.below(20) == 0 => drop(settle(scratch.truncate(None))),
            22 => clock.advance_ms(random.below(500)),
            _ => {
                let query = nodes.query("by_age").unwrap().eq(random.key(10));
                settle(query.count());
            }
        }
    }
    left
}

type Mirror = BTreeMap<(String, Digest), Record>;

/// Applies what the feed has; true at its end.
fn mirror(consumer: &mut spikelet::changes::Consumer, into: &mut Mirror) -> bool {
    let batch = consumer.next_batch(50, Duration::ZERO).unwrap();
    for change in batch.iter() {
        let set = change.set.as_deref().unwrap_or_default().to_owned();
        match (change.kind, &change.record) {
            (ChangeKind::Truncate { .. }, _) => into.retain(|(of, _), _| *of != set),
            (_, Some(record)) => drop(into.insert((set, change.digest), record.clone())),
            (_, None) => drop(into.remove(&(set, change.digest))),
        }
    }
    consumer.ack(&batch).unwrap();
    batch.is_empty()
}

fn records(set: &Set) -> BTreeMap<Digest, Record> {
    let mut all = BTreeMap::new();
    let ended = set.scan(|record| {
        let record: ScannedRecord<'_> = record.unwrap();
        all.insert(record.digest, record.to_record().unwrap());
        ControlFlow::<()>::Continue(())
    });
    assert!(ended.is_continue());
    all
}

fn records_by_key(set: &Set) -> BTreeMap<Key<'static>, Record> {
    let mut all = BTreeMap::new();
    let ended = set.scan(|record| {
        let record = record.unwrap();
        let key = record.key().unwrap().into_owned();
        all.insert(key, record.to_record().unwrap());
        ControlFlow::<()>::Continue(())
    });
    assert!(ended.is_continue());
    all
}

/// Checks what must hold of a store that rests.
fn check(store: &Store, left: Option<&[BTreeSet<i64>]>) {
    let namespace = store.namespace("test").unwrap();
    let relation = follows(store).verify(Repair::No, |_| ControlFlow::Continue(()));
    let relation = relation.unwrap();
    assert!(relation.is_sound(), "{relation:?}");
    let relation = children(store).verify(Repair::No, |_| ControlFlow::Continue(()));
    let relation = relation.unwrap();
    assert!(relation.is_sound(), "{relation:?}");
    for name in ["nodes", "scratch"] {
        let set = namespace.set(name).unwrap();
        let mut by_age: BTreeMap<i64, BTreeSet<Digest>> = BTreeMap::new();
        for (digest, record) in records(&set) {
            if let Some(age) = record.get("age").and_then(|age| age.as_i64()) {
                by_age.entry(age).or_default().insert(digest);
            }
        }
        let index = if name == "nodes" {
            "by_age"
        } else {
            "by_scratch"
        };
        let query = || set.query(index).unwrap();
        let indexed = |age: i64| {
            let keys = query().eq(age).keys().unwrap().into_records().unwrap();
            keys.iter().map(|key| key.digest).collect::<BTreeSet<_>>()
        };
        let count = by_age.values().map(|of| of.len() as u64).sum::<u64>();
        assert_eq!(query().count().unwrap(), count, "{name}");
        let by_index = by_age.keys().map(|age| (*age, indexed(*age))).collect();
        assert_eq!(by_age, by_index, "{name}");
    }
    for set in ["nodes", "feeds", "scratch"] {
        for sharded in sharded_collections(&namespace.set(set).unwrap()).unwrap() {
            assert_eq!(sharded.leftovers().count(), 0, "{sharded:?}");
        }
    }
    for key in 0..NODES {
        let list = posts(store, key);
        let elements = list
            .iter()
            .map(|element| element.unwrap().as_i64().unwrap());
        let elements: BTreeSet<_> = elements.collect();
        assert_eq!(list.len().unwrap(), elements.len() as u64);
    }
    let nodes = records_by_key(&namespace.set("nodes").unwrap());
    let rows = records_by_key(&namespace.set("joined").unwrap());
    let tickets = records_by_key(&namespace.set("tickets").unwrap());
    assert_eq!(tickets.len(), rows.len());
    for (key, ticket) in &tickets {
        let node = ticket.get("node").map(|node| node.as_i64().unwrap());
        let node = node.and_then(|node| nodes.get(&Key::from(node)));
        let name = node.and_then(|node| node.get("name"));
        assert_eq!(rows[key].get("name"), name, "{key:?}");
        assert_eq!(ticket.get("node_name"), name, "{key:?}");
    }
    let accounts = records(&namespace.set("accounts").unwrap());
    let sum = accounts
        .values()
        .filter_map(|record| record.get("n")?.as_i64());
    assert_eq!(sum.sum::<i64>(), 0);
    for (key, left) in left.into_iter().flatten().enumerate() {
        let list = feed(store, key as i64);
        let elements = list
            .iter()
            .map(|element| element.unwrap().as_i64().unwrap());
        assert_eq!(&elements.collect::<BTreeSet<_>>(), left, "feed {key}");
        assert_eq!(list.len().unwrap(), left.len() as u64);
    }
}

/// What the threads use. Declares what is not there yet.
fn prepare(store: &Store) {
    let namespace = store.namespace("test").unwrap();
    follows(store).declare().unwrap();
    children(store).declare().unwrap();
    for name in MIRRORED {
        let set = store.set(name).unwrap();
        if !set.exists(0).unwrap() {
            set.put(0, bins! { "age" => 0, "node" => 0 }).unwrap();
        }
        namespace.changes().enable(name).unwrap();
    }
    for (set, name) in [("nodes", "by_age"), ("scratch", "by_scratch")] {
        let definition = IndexDefinition::new(name, ["age"]);
        store.set(set).unwrap().create_index(definition).unwrap();
    }
}

/// Updates copies and the view while `work` runs, and until they show what it has written.
fn updating<T>(store: &Store, work: impl FnOnce() -> T) -> T {
    let namespace = store.namespace("test").unwrap();
    let (copies, joined) = (copies(&namespace), joined(&namespace));
    let copying = copies.updater().unwrap().start().unwrap();
    let joining = joined.updater().unwrap().start().unwrap();
    let done = work();
    let last = namespace.last_lsn();
    copies.wait_until(last, PATIENCE).unwrap();
    joined.wait_until(last, PATIENCE).unwrap();
    for updater in [copying, joining] {
        assert!(updater.take_failures().is_empty());
        updater.stop().unwrap();
    }
    done
}

/// Works with all threads. Returns the elements that are left in each feed.
fn work_together(store: &Store, clock: &ManualClock, turns: u64) -> Vec<BTreeSet<i64>> {
    let mut left = vec![BTreeSet::new(); FEEDS as usize];
    std::thread::scope(|scope| {
        let workers =
            (0..THREADS).map(|thread| scope.spawn(move || work(store, clock, thread, turns)));
        for worker in workers.collect::<Vec<_>>() {
            for (all, mut own) in left.iter_mut().zip(worker.join().unwrap()) {
                all.append(&mut own);
            }
        }
    });
    left
}

#[test]
fn features_agree_with_each_other() {
    let turns = if std::env::var_os("SPIKELET_LONG").is_some() {
        50_000
    } else {
        2_500
    };
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(START_MS));
    let reopened = || open(&dir.path().join("store"), &clock);
    let store = reopened();
    let namespace = store.namespace("test").unwrap();
    prepare(&store);
    let options = ChangeOptions::default()
        .records(true)
        .delivery(Delivery::Published);
    let changes = namespace.changes();
    let subscription = changes.subscribe("mirror", Start::Now, options).unwrap();
    let stored = |name| records(&store.set(name).unwrap().with_companions());
    let mut mirrored = Mirror::new();
    for name in MIRRORED {
        let named = |(digest, record)| ((name.to_owned(), digest), record);
        mirrored.extend(stored(name).into_iter().map(named));
    }
    let left = updating(&store, || {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut consumer = subscription.consumer().unwrap();
                while !done.load(Ordering::Relaxed) {
                    mirror(&mut consumer, &mut mirrored);
                }
            });
            let left = catch_unwind(AssertUnwindSafe(|| work_together(&store, &clock, turns)));
            done.store(true, Ordering::Relaxed);
            left.unwrap()
        })
    });
    // What has expired goes now, and the feed tells it.
    clock.advance_ms(10_000);
    namespace.maintain().unwrap();
    let mut consumer = subscription.consumer().unwrap();
    while !mirror(&mut consumer, &mut mirrored) {}
    for name in MIRRORED {
        let stored = stored(name).into_iter();
        let stored: Mirror = stored
            .map(|(digest, record)| ((name.to_owned(), digest), record))
            .collect();
        let mirrored = mirrored.iter().filter(|((set, _), _)| set == name);
        assert!(mirrored.eq(&stored), "{name}");
    }
    check(&store, Some(&left));
    store.close().unwrap();
    drop((consumer, subscription, changes, namespace, store));
    let store = reopened();
    check(&store, Some(&left));
    let file = dir.path().join("all.asb");
    backup::save(&store, &file, &Default::default(), &mut |_| {}).unwrap();
    let other = Store::in_memory().unwrap();
    let checked = backup::Restore::prepare(&file, Default::default(), &mut |_, _| {});
    checked.unwrap().run(&other, &mut |_, _| {}).unwrap();
    check(&other, Some(&left));
}

/// The child's work, until it is killed.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let clock = Arc::new(ManualClock::at(START_MS));
    let store = open(Path::new(&dir), &clock);
    prepare(&store);
    updating(&store, || {
        for _ in 0.. {
            work_together(&store, &clock, 100);
            println!("{PROGRESS}");
        }
    });
}

#[test]
fn features_agree_behind_kills() {
    let kills = if std::env::var_os("SPIKELET_LONG").is_some() {
        100
    } else {
        3
    };
    let dir = tempfile::tempdir().unwrap();
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let progress = lines
            .map_while(Result::ok)
            .filter(|line| line.contains(PROGRESS));
        let wanted = 3 + kill % 5;
        assert_eq!(
            progress.take(wanted).count(),
            wanted,
            "the child ended by itself"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(dir.path(), &Arc::new(ManualClock::at(START_MS)));
        updating(&store, || ());
        check(&store, None);
        store.close().unwrap();
    }
}
