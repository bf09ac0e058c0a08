//! A process that writes to sharded collections of a served store and dies in the middle of a transition: whoever comes next
//! finds every element that was acknowledged, once, and carries the transition to its end.
//!
//! The child is this test binary, started again with [`CHILD_ADDR`] set. It takes one step after the other and ends itself,
//! without any clean-up, at the step that [`CHILD_STEP`] names.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::process::Command;

use spikelet::cluster::ClusterSet;
use spikelet::shard::ShardPolicy;
use spikelet::storage::HotRecord;
use spikelet::{
    Key, OperateResult, Operation, Record, RecordCall, RecordSet, RecordStore, Result, ShardedList,
    ShardedMap, Value, WritePolicy,
};

use crate::common::Served;

const CHILD_ADDR: &str = "SPIKELET_CLUSTER_KILL_ADDR";
const CHILD_STEP: &str = "SPIKELET_CLUSTER_KILL_STEP";
const CHILD_TRANSITION: &str = "SPIKELET_CLUSTER_KILL_TRANSITION";
/// How the child ends when it has died at its step, and when there was no such step.
const DIED: i32 = 86;
const DONE: i32 = 87;

const TRANSITIONS: [&str; 5] = ["activate", "split", "merge", "deactivate", "delete"];
const ELEMENTS: i64 = 60;

/// A set whose process dies before, or right after, a call of a number.
struct Dying {
    inner: ClusterSet,
    /// Two for each call that is made: one before it and one after it.
    left: Cell<usize>,
}

impl Dying {
    fn step(&self) {
        match self.left.get() {
            0 => std::process::exit(DIED),
            left => self.left.set(left - 1),
        }
    }
}

struct DyingStore(spikelet::cluster::Cluster, usize);

impl RecordStore for DyingStore {
    type Records = Dying;

    fn records(&self, set: &str) -> Result<Dying> {
        let inner = self.0.records(set)?;
        Ok(Dying {
            inner,
            left: Cell::new(self.1),
        })
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

/// What the child does until it dies.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Ok(addr) = std::env::var(CHILD_ADDR) else {
        return;
    };
    let transition = std::env::var(CHILD_TRANSITION).unwrap();
    let step: usize = std::env::var(CHILD_STEP).unwrap().parse().unwrap();
    let cluster = spikelet::cluster::Cluster::connect(&addr).unwrap();
    let store = DyingStore(cluster, step);
    let set = set_of(&transition, step);
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
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["killed::child", "--exact", "--ignored", "--nocapture"])
                .env(CHILD_ADDR, &served.addr)
                .env(CHILD_TRANSITION, transition)
                .env(CHILD_STEP, step.to_string())
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            let code = status.code().unwrap();
            assert!(
                [DIED, DONE].contains(&code),
                "{transition} {step}: {status}"
            );
            done = if code == DONE { done + 1 } else { 0 };
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
