//! Decides after each write whether the collection gets other shards, by a handle's policy and its
//! observations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::content::{Act, ActReply, Collection, Content};
use super::policy::{
    ContentionMonitor, ObservedLoad, QuietMonitor, ShardPolicy, ShardReading, WriteWindow, is_ahead,
};
use super::protocol::CompanionRoute;
use crate::engine::TransitionReport;
use crate::record::ShardTransition;
use crate::{Error, Key, RecordSet, Result, Value};

/// After a transition of its own accord has failed, a handle leaves the next one for this long.
pub(crate) const PAUSE_MS: u64 = 1_000;
/// The most bytes of a shard's record beside its elements. Further bytes of the root are other
/// bins.
const RECORD_OVERHEAD_MAX: u64 = 1_024;

/// What a handle should do after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Have this many shards.
    Shard(u64),
    /// The same, for the size of the written record alone, if [`AutoSharder::would_relieve`].
    ShardForSize(u64),
    /// Have shards, if its record were not to expire.
    LeaveExpiring,
    /// Read all shards of this route, for [`AutoSharder::should_merge`].
    ReadShards(CompanionRoute),
}

/// Notes a transition of the collection of a key and bin, with this many shards, that was refused.
pub(crate) fn note_obstacle<R: RecordSet>(
    records: &R,
    (key, bin): (&Key<'static>, &str),
    (transition, shards): (ShardTransition, u64),
    why: &str,
) {
    records.note_transition(&TransitionReport {
        key,
        bin,
        transition,
        shards,
        done: 0,
        total: 0,
        ended: true,
        refused: Some(why),
    });
}

/// Whether more shards would make a record smaller that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    /// They would.
    Some,
    /// Single elements take the room.
    None,
    /// The same, as an earlier write has found.
    NoneStill,
}

/// A policy with its observations.
#[derive(Debug)]
pub(crate) struct AutoSharder {
    policy: ShardPolicy,
    /// Writes, where the store does not report queues; and refusals.
    window: WriteWindow,
    contention: ContentionMonitor,
    quiet: QuietMonitor,
    /// Until when nothing is begun, in milliseconds of the store's clock.
    paused_until_ms: AtomicU64,
    /// The second in which the most contended records were looked at last.
    looked_at: AtomicU64,
    /// How many refusals of the root led to shards that have been merged since.
    settled_refusals: AtomicU64,
    too_large: Mutex<TooLarge>,
}

/// Records that are too large by single elements, which no number of shards makes smaller: not
/// looked at again before they have grown.
#[derive(Debug, Default)]
struct TooLarge {
    epoch: u64,
    /// By the number of the shard, 0 for the root: the bytes of the record.
    records: BTreeMap<u64, u64>,
}

impl AutoSharder {
    /// Returns a sharder by this policy.
    pub(crate) fn new<R: RecordSet>(policy: ShardPolicy, records: &R) -> Self {
        Self {
            policy: policy.of_records(records),
            window: WriteWindow::default(),
            contention: ContentionMonitor::default(),
            quiet: QuietMonitor::default(),
            paused_until_ms: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            settled_refusals: AtomicU64::new(0),
            too_large: Mutex::default(),
        }
    }

    /// Returns what to do now that a write is done; `None` if all is well. `route`: where the write
    /// went.
    pub(crate) fn after_write<R: RecordSet>(
        &self,
        records: &R,
        root: &Key<'_>,
        collection: Collection,
        route: Option<CompanionRoute>,
        act: &Act,
        reply: &ActReply,
    ) -> Option<NextStep> {
        let mut load = ObservedLoad {
            shards: shards_of(route),
            record_bytes: reply.record_bytes,
            count: self.count(collection, act, reply),
            ..ObservedLoad::default()
        };
        // Records of a sharded collection do not expire: this one would silently lose its time.
        if route.is_none() && reply.expires {
            return self.decide(records, &load).map(|_| NextStep::LeaveExpiring);
        }
        if !self.policy.contention {
            return self.step(records, &load);
        }
        let now_ms = records.now_ms();
        self.count_contention(&mut load, now_ms, epoch_of(route), reply);
        if load.shards == 0 && self.is_time_to_look(now_ms) {
            // Other handles and clients may have been refused.
            let settled = self.settled_refusals.load(Ordering::Relaxed);
            load.busy += refusals(records, root).saturating_sub(settled);
        }
        if let Some(step) = self.step(records, &load) {
            self.note_contention(&load, now_ms);
            return Some(step);
        }
        let route = route.filter(|_| self.policy.merge_when_quiet)?;
        let is_due = self.quiet.is_due(now_ms, route.epoch.0);
        is_due.then_some(NextStep::ReadShards(route))
    }

    fn count_contention(&self, load: &mut ObservedLoad, now_ms: u64, epoch: u64, reply: &ActReply) {
        match reply.queued_behind {
            Some(queued_behind) => {
                load.queue = self
                    .contention
                    .wrote(now_ms, epoch, load.shards, queued_behind);
            }
            None => {
                self.window.wrote(now_ms, epoch);
                load.writes_per_second = self.window.writes_per_second(now_ms);
            }
        }
        load.busy = self.window.busy(epoch);
    }

    /// Notes a reaction to contention, so that its effect is measured.
    fn note_contention(&self, load: &ObservedLoad, now_ms: u64) {
        if let Some(queue) = load.queue {
            self.contention.acted_on(queue);
        }
        if load.queue.is_some() || load.busy > 0 {
            self.quiet.contended(now_ms);
        }
    }

    /// Returns how many elements the record has now, as the reply of an act that added one says; 0:
    /// not known.
    fn count(&self, collection: Collection, act: &Act, reply: &ActReply) -> u64 {
        if self.policy.elements_max.is_none() || !act.creates || collection == Collection::Counter {
            return 0;
        }
        match reply.values.last() {
            Some(Some(Value::Int(count))) => count.unsigned_abs(),
            _ => 0,
        }
    }

    /// Returns how many shards there should be after a write was refused; `None` if they would not
    /// help.
    pub(crate) fn after_refusal<R: RecordSet>(
        &self,
        records: &R,
        route: Option<CompanionRoute>,
        error: &Error,
    ) -> Option<u64> {
        let mut load = ObservedLoad {
            shards: shards_of(route),
            ..ObservedLoad::default()
        };
        match error {
            // Of no waiter but a limit: another record has a unique key that the write needs, which
            // shards do not help.
            Error::KeyBusy { waiting, limit, .. }
                if self.policy.contention && (*waiting > 0 || *limit == 0) =>
            {
                let (now_ms, epoch) = (records.now_ms(), epoch_of(route));
                self.window.refused(epoch);
                load.busy = self.window.busy(epoch).max(1);
                load.writes_per_second = self.window.writes_per_second(now_ms);
                let shards = self.decide(records, &load)?;
                self.note_contention(&load, now_ms);
                Some(shards)
            }
            Error::RecordTooBig { size, limit, .. } if self.policy.record_bytes_max.is_some() => {
                // A cluster says only that the limit is exceeded.
                load.record_bytes = (*size).max(limit.saturating_add(1));
                // Paused or not, there is no other way.
                self.policy.decide(&load)
            }
            _ => None,
        }
    }

    fn step<R: RecordSet>(&self, records: &R, load: &ObservedLoad) -> Option<NextStep> {
        let shards = self.decide(records, load)?;
        let of_any_size = ObservedLoad {
            record_bytes: 0,
            ..*load
        };
        Some(match self.policy.decide(&of_any_size) {
            Some(_) => NextStep::Shard(shards),
            None => NextStep::ShardForSize(shards),
        })
    }

    /// Judges whether more shards would make a record smaller that is too large. `shard`: its
    /// number, 0 for the root; `read` returns its content. Elements that alone take more than a
    /// record should have are left out of account, but for the room that two of them need.
    ///
    /// # Errors
    /// As for `read`.
    pub(crate) fn would_relieve<R: RecordSet>(
        &self,
        records: &R,
        (route, shard): (Option<CompanionRoute>, u64),
        record_bytes: u64,
        read: impl FnOnce() -> Result<Content>,
    ) -> Result<Relief> {
        let Some(limit) = self.policy.record_bytes_max else {
            return Ok(Relief::Some);
        };
        let epoch = epoch_of(route);
        {
            let too_large = self.too_large.lock();
            let known = too_large.records.get(&shard);
            let known = known.filter(|_| too_large.epoch == epoch);
            if known.is_some_and(|known| record_bytes <= known.saturating_add(limit / 8)) {
                return Ok(Relief::NoneStill);
            }
        }
        let sizes = read()?.element_bytes()?;
        let beside = record_bytes.saturating_sub(sizes.iter().sum());
        let alone = |size: &&u64| *size + beside.min(RECORD_OVERHEAD_MAX) > limit;
        let oversized: Vec<u64> = sizes.iter().filter(alone).copied().collect();
        let half_full = records
            .max_record_bytes()
            .map_or(limit.saturating_mul(4), |bytes_max| bytes_max / 2);
        let relieves = record_bytes.saturating_sub(oversized.iter().sum()) > limit
            || (oversized.len() > 1 && record_bytes > half_full);
        if relieves {
            return Ok(Relief::Some);
        }
        let mut too_large = self.too_large.lock();
        if too_large.epoch != epoch {
            too_large.epoch = epoch;
            too_large.records.clear();
        }
        too_large.records.insert(shard, record_bytes);
        Ok(Relief::None)
    }

    fn decide<R: RecordSet>(&self, records: &R, load: &ObservedLoad) -> Option<u64> {
        let shards = self.policy.decide(load)?;
        (!self.is_paused(records)).then_some(shards)
    }

    /// Returns whether the shards of a route should be merged, by a reading of all of them.
    pub(crate) fn should_merge<R: RecordSet>(
        &self,
        records: &R,
        route: CompanionRoute,
        readings: Vec<ShardReading>,
    ) -> bool {
        let now_ms = records.now_ms();
        let Some(census) = self.quiet.read(now_ms, route.epoch.0, readings) else {
            return false;
        };
        let is_quiet = self.policy.is_quiet(&census, self.contention.is_told());
        self.quiet.is_settled(is_quiet) && !self.is_paused(records)
    }

    /// Notes that the collection is in its root now.
    pub(crate) fn found_unsharded(&self) {
        if self.policy.contention {
            self.window.restart();
            self.contention.restart();
        }
    }

    /// Notes that the shards were merged because the collection is quiet.
    pub(crate) fn after_merge<R: RecordSet>(&self, records: &R, root: &Key<'_>) {
        self.quiet.merged(records.now_ms());
        self.settled_refusals
            .store(refusals(records, root), Ordering::Relaxed);
    }

    /// Leaves transitions for a while, since one has failed: it is not tried again at every write.
    pub(crate) fn pause<R: RecordSet>(&self, records: &R) {
        let until = records.now_ms().saturating_add(PAUSE_MS);
        self.paused_until_ms.store(until, Ordering::Relaxed);
        self.contention.failed();
    }

    fn is_paused<R: RecordSet>(&self, records: &R) -> bool {
        let until_ms = self.paused_until_ms.load(Ordering::Relaxed);
        until_ms != 0 && is_ahead(until_ms, records.now_ms(), PAUSE_MS)
    }

    /// Returns true to one caller a second.
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

fn shards_of(route: Option<CompanionRoute>) -> u64 {
    route.map_or(0, |route| route.shards)
}

fn epoch_of(route: Option<CompanionRoute>) -> u64 {
    route.map_or(0, |route| route.epoch.0)
}

/// Returns how often writers of a record were refused of late.
fn refusals<R: RecordSet>(records: &R, key: &Key<'_>) -> u64 {
    records.contention_on(key).map_or(0, |hot| hot.busy)
}
