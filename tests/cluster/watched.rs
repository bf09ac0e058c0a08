//! A cluster that shows its round trips while they are made.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::query::IndexDefinition;
use spikelet::storage::HotRecord;
use spikelet::{
    IndexQuery, IndexedRecordSet, Key, KeyPage, OperateResult, Operation, Record, RecordCall,
    RecordSet, RecordStore, Result, WritePolicy,
};

/// A moment of a call.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// Before this many round trips: the cluster has one node, so a batch is one, unless it names a
    /// record twice.
    Before(usize),
    After,
}

/// A cluster, or a set of it, with a function that is called before and after each request. A scan
/// is no request.
#[derive(Clone)]
pub struct Watched<T> {
    inner: T,
    see: Rc<dyn Fn(Moment)>,
    hides_sizes: bool,
}

pub type WatchedCluster = Watched<Cluster>;

impl WatchedCluster {
    fn new(inner: Cluster, see: Rc<dyn Fn(Moment)>) -> Self {
        let hides_sizes = false;
        Self {
            inner,
            see,
            hides_sizes,
        }
    }

    /// The cluster as one of servers that do not know how large a record is.
    pub fn hiding_sizes(self) -> Self {
        let hides_sizes = true;
        Self {
            hides_sizes,
            ..self
        }
    }
}

impl Watched<ClusterSet> {
    fn shown(&self, result: Result<OperateResult>) -> Result<OperateResult> {
        let mut result = result?;
        if self.hides_sizes {
            result.record_bytes = 0;
        }
        Ok(result)
    }
}

impl<T> Watched<T> {
    fn during<R>(&self, round_trips: usize, request: impl FnOnce(&T) -> R) -> R {
        (self.see)(Moment::Before(round_trips));
        let result = request(&self.inner);
        (self.see)(Moment::After);
        result
    }
}

/// A cluster that counts its round trips.
pub fn counted(cluster: Cluster) -> (WatchedCluster, Rc<Cell<usize>>) {
    let count = Rc::new(Cell::new(0));
    let counts = Rc::clone(&count);
    let see = Rc::new(move |moment| {
        if let Moment::Before(round_trips) = moment {
            counts.set(counts.get() + round_trips);
        }
    });
    (Watched::new(cluster, see), count)
}

/// A cluster that calls `happens` once: at the step of this number, where each request has one
/// before it and one after it. Its count of steps that are left is 0 once that has happened.
pub fn interrupted(
    cluster: Cluster,
    step: usize,
    happens: impl Fn() + 'static,
) -> (WatchedCluster, Rc<Cell<usize>>) {
    let left = Rc::new(Cell::new(step + 1));
    let steps = Rc::clone(&left);
    let see = Rc::new(move |_| match steps.get() {
        0 => {}
        1 => {
            steps.set(0);
            happens();
        }
        left => steps.set(left - 1),
    });
    (Watched::new(cluster, see), left)
}

impl RecordStore for Watched<Cluster> {
    type Records = Watched<ClusterSet>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Self::Records> {
        Ok(Watched {
            inner: self.inner.records(set)?,
            see: Rc::clone(&self.see),
            hides_sizes: self.hides_sizes,
        })
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

impl RecordSet for Watched<ClusterSet> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.shown(self.during(1, |set| set.operate_on(policy, key, operations)))
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        let mut keys: Vec<&Key<'_>> = calls.iter().map(|call| &call.key).collect();
        keys.sort();
        let is_batch = keys.is_sorted_by(|one, other| one < other);
        let round_trips = if is_batch { 1 } else { calls.len() };
        let results = self.during(round_trips, |set| set.operate_on_each(calls));
        results
            .into_iter()
            .map(|result| self.shown(result))
            .collect()
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

    fn check_deletes(&self, policy: &WritePolicy) -> Result<()> {
        self.inner.check_deletes(policy)
    }

    fn may_bring_back(&self, policy: &WritePolicy) -> bool {
        self.inner.may_bring_back(policy)
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.inner.contention_on(key)
    }
}

impl IndexedRecordSet for Watched<ClusterSet> {
    fn has_ordered_indexes(&self) -> bool {
        self.inner.has_ordered_indexes()
    }

    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.inner.ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        self.during(1, |set| set.query_keys(query))
    }
}
