//! A process that writes to sharded collections of a served store and dies in the middle of a
//! transition: the next caller finds every acknowledged element, once, and completes the
//! transition.
//!
//! The child is this test binary, started again with [`CHILD_ADDR`] set. It takes one step after
//! the other and ends itself, without any clean-up, at the step that [`CHILD_STEP`] names.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::process::{Command, Stdio};
use std::rc::Rc;

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::query::IndexDefinition;
use spikelet::shard::ShardPolicy;
use spikelet::storage::HotRecord;
use spikelet::{
    IndexQuery, IndexedRecordSet, Key, KeyPage, OperateResult, Operation, Record, RecordCall,
    RecordSet, RecordStore, Result, ShardedList, ShardedMap, Value, WritePolicy,
};

use crate::common::Served;
use crate::killed_handles::CASES;

const CHILD_ADDR: &str = "SPIKELET_CLUSTER_KILL_ADDR";
const CHILD_STEP: &str = "SPIKELET_CLUSTER_KILL_STEP";
const CHILD_TRANSITION: &str = "SPIKELET_CLUSTER_KILL_TRANSITION";
/// How the child ends when it has died at its step, and when there was no such step.
const DIED: i32 = 86;
const DONE: i32 = 87;

const TRANSITIONS: [&str; 5] = ["activate", "split", "merge", "deactivate", "delete"];
const ELEMENTS: i64 = 60;

/// A set that ends the process before, or right after, the call of a number.
pub struct Dying {
    inner: ClusterSet,
    /// Two for each call that is made: one before it and one after it. All sets of a store count
    /// together.
    left: Rc<Cell<usize>>,
}

impl Dying {
    fn step(&self) {
        match self.left.get() {
            0 => std::process::exit(DIED),
            left => self.left.set(left - 1),
        }
    }
}

pub struct DyingStore(Cluster, Rc<Cell<usize>>);

impl RecordStore for DyingStore {
    type Records = Dying;

    fn records(&self, set: &str) -> Result<Dying> {
        Ok(Dying {
            inner: self.0.records(set)?,
            left: Rc::clone(&self.1),
        })
    }
}

impl IndexedRecordSet for Dying {
    fn has_ordered_indexes(&self) -> bool {
        self.inner.has_ordered_indexes()
    }

    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.inner.ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        self.step();
        self.inner.query_keys(query)
    }
}

impl RecordSet for Dying {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.step();
        let result = self.inner.operate_on(policy, key, operations);
        self.step();
        result
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        self.step();
        let results = self.inner.operate_on_each(calls);
        self.step();
        results
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

    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}

fn set_of(transition: &str, step: usize) -> String {
    format!("{transition}{step}")
}

/// Brings a list and a map to where the transition begins.
fn prepare(list: &ShardedList<ClusterSet>, map: &ShardedMap<ClusterSet>, transition: &str) {
    for number in 0..ELEMENTS {
        list.add(number).unwrap();
        map.put(number, number).unwrap();
    }
    let shards = match transition {
        "activate" => return,
        "split" => 2,
        "merge" | "delete" => 4,
        _ => 1,
    };
    list.shards().activate(shards.max(2)).unwrap();
    map.shards().activate(shards.max(2)).unwrap();
    if shards == 1 {
        list.shards().merge().unwrap();
        map.shards().merge().unwrap();
    }
}

/// The child's work until it dies.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Ok(addr) = std::env::var(CHILD_ADDR) else {
        return;
    };
    let transition = std::env::var(CHILD_TRANSITION).unwrap();
    let step: usize = std::env::var(CHILD_STEP).unwrap().parse().unwrap();
    let cluster = Cluster::connect(&addr).unwrap();
    let store = DyingStore(cluster, Rc::new(Cell::new(step)));
    let set = set_of(&transition, step);
    if let Some(case) = CASES.iter().find(|case| case.name == transition) {
        (case.act)(&store, &set);
        std::process::exit(DONE);
    }
    // Even steps are for the list, odd ones for the map: each dies before and after its calls.
    if step % 4 < 2 {
        let list = ShardedList::new(&store, &set, "key", "list").unwrap();
        match transition.as_str() {
            "activate" => drop(list.shards().activate(4).unwrap()),
            "split" => drop(list.shards().split().unwrap()),
            "merge" => drop(list.shards().merge().unwrap()),
            "deactivate" => drop(list.shards().deactivate().unwrap()),
            _ => drop(list.delete().unwrap()),
        }
    } else {
        let map = ShardedMap::new(&store, &set, "key", "map").unwrap();
        match transition.as_str() {
            "activate" => drop(map.shards().activate(4).unwrap()),
            "split" => drop(map.shards().split().unwrap()),
            "merge" => drop(map.shards().merge().unwrap()),
            "deactivate" => drop(map.shards().deactivate().unwrap()),
            _ => drop(map.delete().unwrap()),
        }
    }
    std::process::exit(DONE);
}

/// Runs a child that dies at a step. Returns whether there was no such step.
fn runs_to_its_end(served: &Served, transition: &str, step: usize) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["killed::child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_ADDR, &served.addr)
        .env(CHILD_TRANSITION, transition)
        .env(CHILD_STEP, step.to_string())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let code = status.code().unwrap();
    let what = format!("{transition} {step}: {status}");
    assert!([DIED, DONE].contains(&code), "{what}");
    code == DONE
}

#[test]
fn a_process_may_die_at_any_step_of_a_call_of_any_handle() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    for case in CASES {
        for step in 0.. {
            let set = set_of(case.name, step);
            (case.prepare)(&cluster, &set);
            let is_done = runs_to_its_end(&served, case.name, step);
            (case.check)(&cluster, &set, is_done);
            if is_done {
                assert!(step > 1, "{} has more than {step} steps", case.name);
                break;
            }
        }
    }
}

#[test]
fn a_process_may_die_at_any_step_of_any_transition() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let numbers: Vec<Value> = (0..ELEMENTS).map(Value::Int).collect();
    let entries: Vec<(Value, Value)> = numbers.iter().map(|n| (n.clone(), n.clone())).collect();
    for transition in TRANSITIONS {
        let mut done = 0;
        let mut step = 0;
        // Until both have been carried to their end without a death.
        while done < 2 {
            let set = set_of(transition, step);
            let list = ShardedList::new(&cluster, &set, "key", "list").unwrap();
            let list = list.policy(ShardPolicy::manual());
            let map = ShardedMap::new(&cluster, &set, "key", "map").unwrap();
            let map = map.policy(ShardPolicy::manual());
            prepare(&list, &map, transition);
            let is_done = runs_to_its_end(&served, transition, step);
            done = if is_done { done + 1 } else { 0 };
            let what = format!("{transition}, dead at {step}");
            // As it was left, and after it was carried to its end.
            for _ in 0..2 {
                let read: Vec<Value> = list.iter().collect::<Result<_>>().unwrap();
                let pairs: Vec<_> = map.iter().collect::<Result<_>>().unwrap();
                let deletes_list = transition == "delete" && step % 4 < 2;
                let deletes_map = transition == "delete" && step % 4 >= 2;
                assert!(
                    read == numbers || deletes_list && read.is_empty(),
                    "{what}: {read:?}"
                );
                assert!(
                    pairs == entries || deletes_map && pairs.is_empty(),
                    "{what}: {pairs:?}"
                );
                list.shards().advance().unwrap();
                map.shards().advance().unwrap();
            }
            assert!(
                list.shards().state().unwrap().transition.is_none(),
                "{what}"
            );
            assert!(list.add(ELEMENTS).unwrap() && list.remove(&ELEMENTS.into()).unwrap());
            step += 1;
        }
        assert!(step > 8, "{transition} has more than {step} steps");
    }
}
