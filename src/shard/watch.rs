//! When a write leads to a transition: what a handle learns from its writes is put before its policy.

use std::sync::atomic::{AtomicU64, Ordering};

use super::content::{Act, Answer, Collection};
use super::policy::{Load, ShardPolicy, WriteWindow};
use super::protocol::Route;
use crate::expressions::record_size;
use crate::operations::exp;
use crate::{Error, ExpReadFlags, Key, Operation, RecordSet, Value};

/// The name under which the size is read. It is no bin.
const SIZE: &str = "size";

/// After a transition of its own accord has failed, a handle leaves the next one for so long.
const PAUSE_MS: u64 = 1_000;

/// A policy, and what has been seen.
#[derive(Debug)]
pub(crate) struct Watch {
    policy: ShardPolicy,
    window: WriteWindow,
    /// Until when nothing is begun, in milliseconds of the store's clock.
    paused_until_ms: AtomicU64,
    /// The second in which the most contended records were looked at last.
    looked_at: AtomicU64,
}

/// What the record that was written has told beside the caller's answer.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    bytes: u64,
    count: u64,
}

impl Watch {
    /// By a policy that watches the size, a record is spread before it is half full, whatever the policy says: a transition
    /// needs room in it, too.
    pub(crate) fn new<R: RecordSet>(policy: ShardPolicy, records: &R) -> Self {
        let policy = match records.max_record_bytes() {
            Some(limit) => policy.at_most(limit / 2),
            None => policy,
        };
        Self {
            policy,
            window: WriteWindow::default(),
            paused_until_ms: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// False: writes need not be watched.
    pub(crate) const fn watches(&self) -> bool {
        self.policy.watches()
    }

    /// The same act, which also asks for what the policy has to know of the record. In the same operation, so that it costs
    /// no other.
    pub(crate) fn asking(&self, act: Act, collection: Collection, bin: &str) -> Act {
        let questions = self.questions(collection, bin);
        if questions.is_empty() {
            return act;
        }
        let operations: Vec<Operation> = act.operations.iter().cloned().chain(questions).collect();
        Act {
            operations: operations.into(),
            creates: act.creates,
        }
    }

    fn questions(&self, collection: Collection, bin: &str) -> Vec<Operation> {
        let mut questions = Vec::new();
        if self.policy.watches_size() {
            questions.push(exp::read(SIZE, record_size(), ExpReadFlags::EVAL_NO_FAIL));
        }
        if self.policy.watches_count() && collection != Collection::Counter {
            questions.push(collection.presence(bin));
        }
        questions
    }

    /// Takes the answers to the questions of [`Watch::asking`] off the caller's.
    fn told(&self, answer: &mut Answer, collection: Collection) -> Told {
        let mut told = Told::default();
        let mut last = || match answer.pop().flatten() {
            Some(Value::Int(number)) => number.max(0) as u64,
            _ => 0,
        };
        if self.policy.watches_count() && collection != Collection::Counter {
            told.count = last();
        }
        if self.policy.watches_size() {
            told.bytes = last();
        }
        told
    }

    /// How many shards there should be now that a write is done; `None` if all is well. `route`: where it went.
    pub(crate) fn wrote<R: RecordSet>(
        &self,
        records: &R,
        root: &Key<'_>,
        collection: Collection,
        route: Option<Route>,
        answer: &mut Answer,
    ) -> Option<u64> {
        let told = self.told(answer, collection);
        let mut load = Load {
            shards: route.map_or(0, |route| route.shards),
            record_bytes: told.bytes,
            count: told.count,
            writes_per_second: 0.0,
            busy: 0,
        };
        if self.policy.watches_writes() {
            let now_ms = records.now_ms();
            self.window
                .wrote(now_ms, route.map_or(0, |route| route.epoch.0));
            load.writes_per_second = self.window.writes_per_second(now_ms);
            load.busy = self.window.busy();
            if load.shards == 0 && self.is_time_to_look(now_ms) {
                // Others may have been refused, by whatever handle or client.
                load.busy += records.contention_on(root).map_or(0, |hot| hot.busy);
            }
        }
        self.decide(records, &load)
    }

    /// How many shards there should be after a write was refused; `None` if they would not help.
    pub(crate) fn refused<R: RecordSet>(
        &self,
        records: &R,
        route: Option<Route>,
        error: &Error,
    ) -> Option<u64> {
        let mut load = Load {
            shards: route.map_or(0, |route| route.shards),
            ..Load::default()
        };
        match error {
            Error::KeyBusy { .. } if self.policy.watches_writes() => {
                self.window.refused(route.map_or(0, |route| route.epoch.0));
                load.busy = self.window.busy().max(1);
                load.writes_per_second = self.window.writes_per_second(records.now_ms());
            }
            Error::RecordTooBig { size, .. } if self.policy.watches_size() => {
                load.record_bytes = *size;
                // Paused or not, there is no other way.
                return self.policy.decide(&load);
            }
            _ => return None,
        }
        self.decide(records, &load)
    }

    fn decide<R: RecordSet>(&self, records: &R, load: &Load) -> Option<u64> {
        let shards = self.policy.decide(load)?;
        let paused_until_ms = self.paused_until_ms.load(Ordering::Relaxed);
        (paused_until_ms == 0 || paused_until_ms <= records.now_ms()).then_some(shards)
    }

    /// A transition of its own accord has failed: it is not tried again at every write.
    pub(crate) fn pause<R: RecordSet>(&self, records: &R) {
        let until = records.now_ms().saturating_add(PAUSE_MS);
        self.paused_until_ms.store(until, Ordering::Relaxed);
    }

    /// Once a second, for one of those who ask.
    fn is_time_to_look(&self, now_ms: u64) -> bool {
        let (second, last) = (now_ms / 1_000, self.looked_at.load(Ordering::Relaxed));
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        second != last
            && self
                .looked_at
                .compare_exchange(last, second, success, failure)
                .is_ok()
    }
}
