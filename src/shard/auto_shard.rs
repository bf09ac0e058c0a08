//! Decides after each write whether the collection gets other shards: a handle's policy, and what its writes have shown.

use std::sync::atomic::{AtomicU64, Ordering};

use super::content::{Act, ActReply, Collection};
use super::policy::{Load, ShardPolicy, WriteWindow};
use super::protocol::Route;
use crate::{Error, Key, RecordSet, Value};

/// After a transition of its own accord has failed, a handle leaves the next one for so long.
const PAUSE_MS: u64 = 1_000;

/// A policy, and what has been seen.
#[derive(Debug)]
pub(crate) struct AutoSharder {
    policy: ShardPolicy,
    window: WriteWindow,
    /// Until when nothing is begun, in milliseconds of the store's clock.
    paused_until_ms: AtomicU64,
    /// The second in which the most contended records were looked at last.
    looked_at: AtomicU64,
}

impl AutoSharder {
    /// By a policy that watches the size, a collection is sharded before its record is half full, whatever the policy says: a transition
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

    /// How many shards there should be now that a write is done; `None` if all is well. `route`: where it went.
    pub(crate) fn after_write<R: RecordSet>(
        &self,
        records: &R,
        root: &Key<'_>,
        collection: Collection,
        route: Option<Route>,
        act: &Act,
        answered: &ActReply,
    ) -> Option<u64> {
        let mut load = Load {
            shards: route.map_or(0, |route| route.shards),
            record_bytes: answered.record_bytes,
            count: self.count(collection, act, answered),
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

    /// How many children the record has now, as the act that has added one was told; 0: not known.
    fn count(&self, collection: Collection, act: &Act, answered: &ActReply) -> u64 {
        if !self.policy.watches_count() || !act.creates || collection == Collection::Counter {
            return 0;
        }
        match answered.values.last() {
            Some(Some(Value::Int(count))) => count.unsigned_abs(),
            _ => 0,
        }
    }

    /// How many shards there should be after a write was refused; `None` if they would not help.
    pub(crate) fn after_refusal<R: RecordSet>(
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
