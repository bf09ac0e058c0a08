//! What the calls of handles cost on a cluster, in round trips: the figures of
//! `docs/from-aerospike.md`.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::operations::put;
use spikelet::query::IndexDefinition;
use spikelet::relation::{
    Address, EdgeType, Graph, Includes, KeyCorrespondence, Layout, Links, ManyToMany, Members,
    NodeId, OneToMany, Propagate, WalkStep,
};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::storage::HotRecord;
use spikelet::{
    IndexQuery, IndexedRecordSet, Key, KeyPage, OperateResult, Operation, Record, RecordCall,
    RecordSet, RecordStore, Result, ShardedCounter, ShardedList, ShardedMap, TimeShards,
    WritePolicy, bins,
};

use crate::common::Served;

/// A cluster, or a set of it, that counts round trips. It has one node, so a batch is one; a scan
/// is not counted.
#[derive(Clone)]
struct Counted<T> {
    inner: T,
    count: Rc<Cell<usize>>,
}

impl<T> Counted<T> {
    fn add(&self, round_trips: usize) {
        self.count.set(self.count.get() + round_trips);
    }
}

impl RecordStore for Counted<Cluster> {
    type Records = Counted<ClusterSet>;

    fn records(&self, set: &str) -> Result<Counted<ClusterSet>> {
        Ok(Counted {
            inner: self.inner.records(set)?,
            count: Rc::clone(&self.count),
        })
    }
}

impl RecordSet for Counted<ClusterSet> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.add(1);
        self.inner.operate_on(policy, key, operations)
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        let mut keys: Vec<&Key<'_>> = calls.iter().map(|call| &call.key).collect();
        keys.sort();
        let is_batch = keys.is_sorted_by(|one, other| one < other);
        self.add(if is_batch { 1 } else { calls.len() });
        self.inner.operate_on_each(calls)
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.inner.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        self.inner.max_record_bytes()
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.inner.contention_on(key)
    }
}

impl IndexedRecordSet for Counted<ClusterSet> {
    fn has_ordered_indexes(&self) -> bool {
        self.inner.has_ordered_indexes()
    }

    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.inner.ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        self.add(1);
        self.inner.query_keys(query)
    }
}

/// The row of a handle: its name in the table, and the figures there.
struct Row<'a> {
    count: &'a Cell<usize>,
    figures: Vec<(&'static str, usize)>,
}

impl Row<'_> {
    /// Makes a call that must succeed, and notes what it costs.
    fn costs<T>(&mut self, call: &'static str, result: impl FnOnce() -> Result<T>) -> T {
        self.count.set(0);
        let result = result().unwrap();
        self.figures.push((call, self.count.get()));
        result
    }
}

fn figures(count: &Cell<usize>, fill: impl FnOnce(&mut Row<'_>)) -> String {
    let mut row = Row {
        count,
        figures: Vec::new(),
    };
    fill(&mut row);
    let figures = row.figures.iter();
    let figures: Vec<String> = figures
        .map(|(call, cost)| format!("{call} {cost}"))
        .collect();
    figures.join(", ")
}

#[test]
fn the_table_of_handles_has_what_their_calls_cost() {
    let served = Served::in_memory();
    let count = Rc::new(Cell::new(0));
    let store = &Counted {
        inner: served.cluster(),
        count: Rc::clone(&count),
    };
    let count = &*count;
    let noon = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let lists = figures(count, |row| {
        let list = ShardedList::new(store, "lists", "a", "of").unwrap();
        let list = list.policy(ShardPolicy::manual());
        row.costs("add", || list.add(1));
        row.costs("contains", || list.contains(&1.into()));
        row.costs("page", || list.page(0, 9));
        row.costs("remove", || list.remove(&1.into()));
        (0..60).for_each(|number| assert!(list.add(number).unwrap() || number == 1));
        list.shards().activate(4).unwrap();
        row.costs("sharded: add", || list.add(99));
        row.costs("page", || list.page(0, 9));
    });
    let maps = figures(count, |row| {
        let map = ShardedMap::new(store, "maps", "a", "of").unwrap();
        row.costs("put", || map.put(1, 2));
        row.costs("get", || map.get(&1.into()));
        row.costs("page", || map.page(0, 9));
    });
    let counters = figures(count, |row| {
        let counter = ShardedCounter::new(store, "counters", "a", "of").unwrap();
        row.costs("add", || counter.add(1));
        row.costs("read", || counter.read());
    });
    let times = figures(count, |row| {
        let times = TimeShards::new(store, "times", "a", "of", TimeWidth::Hourly).unwrap();
        row.costs("add to the first bucket", || times.add(noon, 1));
        row.costs("add", || times.add(noon, 2));
        let later = noon + Duration::from_secs(3_600);
        row.costs("add to another bucket", || times.add(later, 3));
        row.costs("latest", || times.latest(2));
    });
    let pairs = figures(count, |row| {
        let follows = ManyToMany::new(store, "follows", ("users", "out"), ("users", "in"));
        follows.declare().unwrap();
        follows.link(1, 2).unwrap();
        row.costs("link", || follows.link(1, 3));
        row.costs("page", || follows.targets(1).page(0, 9));
        row.costs("fetch", || follows.targets(1).fetch(0, 9));
        row.costs("unlink", || follows.unlink(1, 3));
    });
    let members = figures(count, |row| {
        let members = Members::new(store, "people", ("lists", "people", "keys"));
        members.put(1, bins! { "n" => 1 }).unwrap();
        row.costs("put", || members.put(2, bins! { "n" => 2 }));
        row.costs("page", || members.page(None, 9));
        row.costs("fetch", || members.fetch(None, 9));
        row.costs("remove", || members.remove(2));
    });
    let links = figures(count, |row| {
        let links = Links::new(store, "links").reciprocal("parent", "child");
        let at = |key: i64| Address::new("linked", key);
        links.link(&at(1), "sees", &at(2)).unwrap();
        links.link(&at(1), "parent", &at(2)).unwrap();
        row.costs("link", || links.link(&at(1), "sees", &at(3)));
        row.costs("reciprocal", || links.link(&at(1), "parent", &at(3)));
        row.costs("a step of walk", || links.walk([at(1)], &[WalkStep::new()]));
    });
    let correspondence = figures(count, |row| {
        let policy = WritePolicy::default;
        let keys = KeyCorrespondence::new()
            .set(store, "one", policy())
            .unwrap();
        let keys = keys.set(store, "two", policy()).unwrap();
        row.costs("put to one set", || keys.put("one", 1, bins! { "n" => 1 }));
        row.costs("get of two sets", || keys.get(1));
    });
    let children = |layout: Layout, name: &'static str| {
        figures(count, |row| {
            let sets = (&*format!("{name}-p"), &*format!("{name}-c"));
            let children = OneToMany::new(store, name, sets, layout).unwrap();
            children.put(1, 1, &json!({ "n": 1 })).unwrap();
            row.costs("put", || children.put(1, 2, &json!({ "n": 2 })));
            row.costs("get", || children.get::<serde_json::Value>(1, 2));
            row.costs("page", || children.page(1, None, 9));
            row.costs("remove", || children.remove(1, 2));
        })
    };
    let consolidated = children(Layout::consolidated("kids"), "in");
    let listed = children(Layout::key_list("kids"), "list");
    let referring = children(Layout::reference("parent", "by_parent"), "ref");
    let includes = figures(count, |row| {
        let records = store.records("orders").unwrap();
        let policy = WritePolicy::default();
        let bins = [put("user", 1)];
        records.operate_on(&policy, &1.into(), &bins).unwrap();
        let paths = Includes::new().path("user", "users").unwrap();
        row.costs("read, of one set referred to", || {
            paths.read(store, "orders", [1.into()])
        });
    });
    let graph = figures(count, |row| {
        let types = [
            EdgeType::new("MEMBER").sort_key(|edge| Some(edge.get("role")?.as_str()?.to_owned()))
        ];
        let graph = Graph::new(store, "graph", ["USER", "TEAM"], types).unwrap();
        let (user, team) = (NodeId::new("USER", "1"), NodeId::new("TEAM", "1"));
        let lead = json!({ "role": "LEAD" });
        graph.put_node(&user, &json!({ "n": 1 })).unwrap();
        graph.put_node(&team, &json!({ "n": 1 })).unwrap();
        row.costs("link", || graph.link(&user, "MEMBER", &team, &lead));
        let query = || graph.query("MEMBER", &team).unwrap();
        row.costs("sources", || query().sources());
        row.costs("nodes", || query().nodes());
        row.costs("nodes_with", || query().nodes_with(&["TEAM"]));
        row.costs("edges", || graph.edges(&user).unwrap().page());
        row.costs("unlink", || graph.unlink(&user, "MEMBER", &team));
    });
    let copies = figures(count, |row| {
        let copies = Propagate::new(store, "copies", ("users", "items"), "user").unwrap();
        let copies = copies.copy("name", "user_name");
        let users = store.records("users").unwrap();
        let name = |name: &str| {
            let policy = WritePolicy::default();
            users
                .operate_on(&policy, &9.into(), &[put("name", name)])
                .unwrap();
        };
        name("Homer");
        row.costs("assign", || copies.assign(1, 9));
        name("H. Simpson");
        row.costs("propagate to one record", || {
            copies.propagate(9, |_| ControlFlow::Continue(()))
        });
    });
    let table = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/from-aerospike.md"
    ));
    let table = table.unwrap();
    let mut missing = Vec::new();
    for (handle, figures) in [
        ("`ShardedList`", lists),
        ("`ShardedMap`", maps),
        ("`ShardedCounter`", counters),
        ("`TimeShards`", times),
        ("`ManyToMany`", pairs),
        ("`Members`", members),
        ("`Links`", links),
        ("`KeyCorrespondence`", correspondence),
        ("`OneToMany`, consolidated", consolidated),
        ("`OneToMany`, key list", listed),
        ("`OneToMany`, by reference", referring),
        ("`Includes`", includes),
        ("`Graph`", graph),
        ("`Propagate`", copies),
    ] {
        let row = table
            .lines()
            .find(|line| line.starts_with(&format!("| {handle} |")));
        if !row.is_some_and(|row| row.ends_with(&format!("| {figures} |"))) {
            missing.push(format!("{handle}: {figures}"));
        }
    }
    assert!(
        missing.is_empty(),
        "not in the table:\n{}",
        missing.join("\n")
    );
}
