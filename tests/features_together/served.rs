//! Threads of the process and clients of its server that use the same handles at once: what they
//! leave must agree, read by either.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use spikelet::cluster::Cluster;
use spikelet::operations::put;
use spikelet::record::KeyHash;
use spikelet::relation::{
    EdgeType, Graph, Layout, ManyToMany, Members, NodeId, OnDelete, OneToMany, RelationAudit,
    Repair,
};
use spikelet::server::Server;
use spikelet::shard::{ShardPolicy, Shards, TimeWidth};
use spikelet::{
    IndexedRecordSet, NamespaceConfig, RecordSet, RecordStore, Result, ShardedCounter, ShardedList,
    ShardedMap, Store, TimeShards, WritePolicy, bins,
};

use crate::Random;

const NODES: u64 = 12;
const HOT: &str = "hot";
/// Result codes that contention explains: no such record, one that exists, a time limit, a record
/// that others hold, a rule that refuses, a collection in one record that was to be merged, and a
/// transaction that holds the record.
const EXPLAINED: [u8; 7] = [2, 5, 9, 14, 22, 26, 120];

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Errors that contention explains. Everything else is a defect.
fn settle<T>(what: &str, result: Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(error) => {
            let is_explained = error.is_retryable() || EXPLAINED.contains(&error.result_code());
            assert!(is_explained, "{what}: {error}: {error:?}");
            None
        }
    }
}

fn sharded() -> ShardPolicy {
    ShardPolicy::manual().elements_max(20)
}

fn follows<S: RecordStore>(store: &S) -> ManyToMany<&S> {
    let ends = [("users", "following"), ("users", "followers")];
    let follows = ManyToMany::new(store, "follows", ends[0], ends[1]);
    follows
        .on_delete(OnDelete::Detach)
        .ends_must_exist()
        .shard_policy(sharded())
}

fn posts<S: RecordStore<Records: IndexedRecordSet>>(store: &S) -> OneToMany<&S> {
    let posts = OneToMany::new(
        store,
        "posts",
        ("users", "posts"),
        Layout::key_list("posts"),
    );
    let posts = posts.unwrap().with_parent_bin("author");
    posts.on_delete(OnDelete::Cascade).shard_policy(sharded())
}

fn graph<S: RecordStore<Records: IndexedRecordSet>>(store: &S) -> Graph<&S> {
    let graph = Graph::new(store, "graph", ["USER", "TEAM"], [EdgeType::new("MEMBER")]);
    graph.unwrap().ends_must_exist()
}

fn members<S: RecordStore>(store: &S) -> Members<&S> {
    Members::new(store, "listed", ("lists", "all", "keys"))
}

fn list<S: RecordStore>(store: &S) -> ShardedList<S::Records> {
    let list = ShardedList::new(store, "lists", HOT, "elements").unwrap();
    list.policy(sharded())
}

fn map<S: RecordStore>(store: &S) -> ShardedMap<S::Records> {
    let map = ShardedMap::new(store, "maps", HOT, "entries").unwrap();
    map.policy(sharded())
}

fn counter<S: RecordStore>(store: &S) -> ShardedCounter<S::Records> {
    ShardedCounter::new(store, "counters", HOT, "count").unwrap()
}

fn times<S: RecordStore>(store: &S) -> TimeShards<S::Records> {
    TimeShards::new(store, "times", HOT, "at", TimeWidth::Hourly).unwrap()
}

fn at(number: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000 + number * 600)
}

/// What a thread has added, and not removed.
#[derive(Default)]
struct Left {
    elements: BTreeSet<i64>,
    entries: BTreeMap<i64, i64>,
    count: i64,
    events: BTreeSet<(u64, i64)>,
}

impl Left {
    fn append(&mut self, mut other: Self) {
        self.elements.append(&mut other.elements);
        self.entries.append(&mut other.entries);
        self.count += other.count;
        self.events.append(&mut other.events);
    }
}

/// Begins one of the changes of the number of shards.
fn reshard<R: RecordSet>(random: &mut Random, shards: Shards<'_, R>) -> Result<()> {
    let mut stop = random.below(6);
    let mut shards = shards.on_progress(|_| {
        stop = stop.wrapping_sub(1);
        match stop {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let changed = match random.below(5) {
        0 => shards.activate(1 << random.below(3)),
        1 => shards.split(),
        2 => shards.merge(),
        3 => shards.deactivate(),
        _ => shards.advance().and_then(|_| shards.state()),
    };
    changed.map(drop)
}

/// A thread's work. An addition that contention has refused is not there; the number of the thread
/// is part of each element.
fn work<S>(store: &S, thread: u64, turns: u64, has_graph: bool) -> Left
where
    S: RecordStore<Records: IndexedRecordSet>,
{
    let mut random = Random(0x9e37_79b9 + thread * 7_919);
    let (follows, posts, graph, members) =
        (follows(store), posts(store), graph(store), members(store));
    let (list, map, counter, times) = (list(store), map(store), counter(store), times(store));
    let (users, policy) = (store.records("users").unwrap(), WritePolicy::default());
    let mut left = Left::default();
    for turn in 0..turns {
        let [a, b] = [random.below(NODES) as i64, random.below(NODES) as i64];
        let own = (turn * 100 + thread) as i64;
        let user = NodeId::new("USER", &a.to_string());
        let team = NodeId::new("TEAM", &(b % 3).to_string());
        match random.below(20) {
            0 | 1 => drop(settle("link", follows.link(a, b))),
            2 => drop(settle("unlink", follows.unlink(a, b))),
            3 => {
                let put = put("name", own);
                settle("user", users.operate_on(&policy, &a.into(), &[put]));
            }
            4 if random.below(4) == 0 => {
                let deleted = follows.delete_with_edges(a, OnDelete::Detach, go_on);
                settle("delete a user", deleted);
            }
            4 | 5 => drop(settle("post", posts.put(a, own % 50, &json!({ "n": own })))),
            6 => drop(settle("move a post", posts.set_parent(own % 50, a))),
            7 => drop(settle("remove a post", posts.remove(a, own % 50))),
            8 => drop(settle("member", members.put(a, bins! { "n" => own }))),
            9 => drop(settle("remove a member", members.remove(a))),
            10..=12 if !has_graph => {}
            10 if random.below(2) == 0 => {
                settle("node", graph.put_node(&user, &json!({ "n": own })));
            }
            10 | 11 => drop(settle(
                "edge",
                graph.link(&user, "MEMBER", &team, &json!({ "n": own })),
            )),
            12 => drop(settle("no edge", graph.unlink(&user, "MEMBER", &team))),
            13 if has_graph && random.below(4) == 0 => drop(settle(
                "delete a node",
                graph.delete_node(&user, OnDelete::Detach, go_on),
            )),
            13 | 14 => {
                if settle("element", list.add(own)).is_some() {
                    left.elements.insert(own);
                }
                if let Some(first) = left.elements.first().copied()
                    && turn % 3 == 0
                    && settle("no element", list.remove(&first.into())) == Some(true)
                {
                    left.elements.remove(&first);
                }
            }
            15 => {
                let key = own % 100 + 100 * random.below(30) as i64;
                if settle("entry", map.put(key, own)).is_some() {
                    left.entries.insert(key, own);
                }
            }
            16 => {
                if settle("count", counter.add(a - 3)).is_some() {
                    left.count += a - 3;
                }
            }
            17 => {
                let when = random.below(40);
                if settle("event", times.add(at(when), own)).is_some() {
                    left.events.insert((when, own));
                }
                if let Some((when, first)) = left.events.first().copied()
                    && turn % 2 == 0
                    && settle("no event", times.remove(at(when), &first.into())) == Some(true)
                {
                    left.events.remove(&(when, first));
                }
            }
            18 => {
                settle("reshard", reshard(&mut random, list.shards()));
                settle("reshard", reshard(&mut random, map.shards()));
            }
            _ => {
                let mut shards = counter.shards();
                settle(
                    "reshard",
                    if a % 2 == 0 {
                        shards.activate(4)
                    } else {
                        shards.deactivate()
                    },
                );
            }
        }
    }
    left
}

fn is_sound(what: &str, audit: Result<RelationAudit>) {
    let audit = audit.unwrap();
    assert!(audit.is_sound(), "{what}: {audit:?}");
}

/// Checks what must hold of a store that rests.
fn check<S: RecordStore<Records: IndexedRecordSet>>(store: &S, left: &Left, has_graph: bool) {
    is_sound("follows", follows(store).verify(Repair::No, go_on));
    is_sound("posts", posts(store).verify(Repair::No, go_on));
    if has_graph {
        is_sound("graph", graph(store).verify(Repair::No, go_on));
    }
    is_sound("members", members(store).verify(Repair::No, go_on));
    let (list, map) = (list(store), map(store));
    let elements = list.iter().map(|it| it.unwrap().as_i64().unwrap());
    assert_eq!(elements.collect::<BTreeSet<_>>(), left.elements);
    let entries = map.iter().map(|it| {
        let (key, value) = it.unwrap();
        (key.as_i64().unwrap(), value.as_i64().unwrap())
    });
    assert_eq!(entries.collect::<BTreeMap<_, _>>(), left.entries);
    assert_eq!(counter(store).read().unwrap(), left.count);
    let events = times(store).range(..).all().unwrap();
    let events = events
        .into_iter()
        .map(|(at, it)| (at, it.as_i64().unwrap()));
    let wanted = left.events.iter().map(|(when, it)| (at(*when), *it));
    assert_eq!(
        events.collect::<BTreeSet<_>>(),
        wanted.collect::<BTreeSet<_>>()
    );
}

/// The edges of a graph are kept in one of two forms: clients have one if `clients_have_graph`, else
/// the process has.
fn all_agree(transactions: bool, clients_have_graph: bool) {
    let turns = if std::env::var_os("SPIKELET_LONG").is_some() {
        20_000
    } else {
        600
    };
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    let store = Store::builder().namespace(config).open().unwrap();
    let mut server = Server::builder(&store);
    if !transactions {
        server = server.like_ce();
    }
    let server = server.start().unwrap();
    let address = server.addr().to_string();
    let cluster = || {
        let cluster = Cluster::builder(&address).namespace("test");
        cluster.connect().unwrap()
    };
    let users = store.set("users").unwrap();
    for user in 0..NODES as i64 {
        users.put(user, bins! { "name" => user }).unwrap();
    }
    let clusters = [cluster(), cluster()];
    let named = |team: u64| NodeId::new("TEAM", &team.to_string());
    for team in (0..3).map(named) {
        let node = json!({ "n": 0 });
        if clients_have_graph {
            graph(&clusters[0]).put_node(&team, &node).unwrap();
        } else {
            graph(&store).put_node(&team, &node).unwrap();
        }
    }
    let mut left = Left::default();
    std::thread::scope(|scope| {
        let inside = (0..2).map(|thread| {
            let store = &store;
            scope.spawn(move || work(store, thread, turns, !clients_have_graph))
        });
        let mut workers: Vec<_> = inside.collect();
        for (thread, cluster) in (2..).zip(&clusters) {
            workers.push(scope.spawn(move || work(cluster, thread, turns, clients_have_graph)));
        }
        for worker in workers {
            left.append(worker.join().unwrap());
        }
    });
    check(&store, &left, !clients_have_graph);
    check(&clusters[0], &left, clients_have_graph);
    check(&cluster(), &left, clients_have_graph);
}

#[test]
fn clients_with_transactions_agree_with_the_threads_of_the_process() {
    all_agree(true, false);
}

#[test]
fn clients_without_transactions_agree_with_the_threads_of_the_process() {
    all_agree(false, true);
}
