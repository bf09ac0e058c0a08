//! Looks at a store, and computes rates from two looks.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spikelet_storage::{Digest, EPOCH_UNIX_SECONDS};

use super::snapshot::{
    CollectionSnapshot, CompanionOf, ErrorSnapshot, HotRecordSnapshot, NamespaceSnapshot,
    OperationSnapshot, SCHEMA_VERSION, StoreSnapshot, TransitionSnapshot,
};
use crate::engine::hot_keys::HOT_KEYS_MAX;
use crate::shard::RecordInfo;
use crate::stats::{NamespaceStats, OperationStats};
use crate::storage::{HotRecord, Stats};
use crate::{Key, Namespace, Store};

/// The longest key that is shown, in characters. The digest distinguishes longer ones.
const KEY_CHARS_MAX: usize = 128;

/// Generations go from 1 to this, and then from 1 again.
const GENERATION_MAX: u64 = 65_535;

/// Looks at a store again and again.
#[derive(Debug)]
pub(super) struct Sampler {
    store: Store,
    most: usize,
    connections: Option<Hidden<ConnectionCount>>,
    /// When it looked before, and what it counted in each namespace, for the rates of the next
    /// look.
    before: Option<(Instant, HashMap<String, NamespaceCounts>)>,
}

/// Says how many connections of clients there are.
pub(super) type ConnectionCount = dyn Fn() -> u64 + Send + Sync;

/// A function of the caller's, which cannot be shown.
pub(super) struct Hidden<F: ?Sized>(pub(super) Arc<F>);

impl<F: ?Sized> Clone for Hidden<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: ?Sized> fmt::Debug for Hidden<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

#[derive(Debug)]
struct NamespaceCounts {
    stats: NamespaceStats,
    last_lsn: u64,
    /// Waits, refusals and generation of hot records. `None`: the record was not looked at, or
    /// there was none.
    hot: HashMap<Digest, (u64, u64, Option<u16>)>,
}

/// The findings of a look at one record.
struct Looked {
    set: String,
    generation: u16,
    bytes: u64,
    info: RecordInfo,
}

/// The roots of sharded collections, by digest: set and key as they are shown.
type Roots = HashMap<Digest, (String, String)>;

impl StoreSnapshot {
    /// Looks at a store once, at up to `most` hot records of each namespace. There are no rates in
    /// it.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let store = spikelet::Store::in_memory()?;
    /// store.set("users")?.put("alice", [("age", 42)])?;
    /// let look = spikelet::monitor::StoreSnapshot::of(&store, 20);
    /// assert_eq!((look.namespaces[0].records, look.namespaces[0].hot.len()), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(store: &Store, most: usize) -> Self {
        Sampler::new(store.clone(), most, None).sample(Instant::now())
    }
}

impl Sampler {
    /// Looks at up to `most` hot records of each namespace.
    pub(super) fn new(
        store: Store,
        most: usize,
        connections: Option<Hidden<ConnectionCount>>,
    ) -> Self {
        Self {
            store,
            most: most.min(HOT_KEYS_MAX),
            connections,
            before: None,
        }
    }

    /// Looks at the store. `now` does not go backwards from call to call.
    pub(super) fn sample(&mut self, now: Instant) -> StoreSnapshot {
        let before = self.before.take();
        let interval = before
            .as_ref()
            .map(|(at, _)| now.saturating_duration_since(*at))
            .filter(|interval| !interval.is_zero());
        let mut counted = HashMap::new();
        let mut namespaces: Vec<_> = Vec::new();
        for namespace in self.store.namespaces() {
            let before = before.as_ref();
            let before = before.and_then(|(_, counted)| counted.get(namespace.name()));
            let (snapshot, counts) = sample_namespace(&namespace, self.most, before.zip(interval));
            counted.insert(snapshot.name.clone(), counts);
            namespaces.push(snapshot);
        }
        namespaces.sort_by(|a, b| a.name.cmp(&b.name));
        self.before = Some((now, counted));
        StoreSnapshot {
            schema_version: SCHEMA_VERSION,
            at_unix_ms: unix_ms(std::time::SystemTime::now()),
            interval_ms: interval.map(|interval| interval.as_millis() as u64),
            connections: self.connections.as_ref().map(|count| (count.0)()),
            namespaces,
        }
    }
}

fn sample_namespace(
    namespace: &Namespace,
    most: usize,
    before: Option<(&NamespaceCounts, Duration)>,
) -> (NamespaceSnapshot, NamespaceCounts) {
    let stats = namespace.stats();
    let before_stats = before.map(|(before, interval)| (&before.stats, interval));
    let rate = |of: fn(&Stats) -> u64| {
        before_stats
            .map(|(before, interval)| per_second(of(&stats).saturating_sub(of(before)), interval))
    };
    let mut snapshot = NamespaceSnapshot {
        name: namespace.name().to_owned(),
        records: stats.records,
        live_bytes: stats.live_bytes,
        waits: stats.waits,
        key_busy: stats.key_busy,
        waits_per_s: rate(|stats| stats.waits),
        key_busy_per_s: rate(|stats| stats.key_busy),
        stop_writes: stats.stop_writes,
        read_only: stats.read_only.clone(),
        operations: operations(&stats, before_stats),
        errors: errors(&stats, before_stats),
        log_bytes: stats.traffic.appended_bytes,
        log_bytes_per_s: rate(|stats| stats.traffic.appended_bytes),
        moved_bytes: stats.traffic.moved_bytes,
        moved_bytes_per_s: rate(|stats| stats.traffic.moved_bytes),
        syncs: stats.syncs,
        syncs_per_s: rate(|stats| stats.syncs),
        sync_ms: before_stats.and_then(|(before, _)| {
            let syncs = stats.syncs.saturating_sub(before.syncs);
            let took = stats.sync_time.saturating_sub(before.sync_time);
            (syncs > 0).then(|| took.as_secs_f64() * 1e3 / syncs as f64)
        }),
        device_bytes: stats.device_bytes,
        used_blocks: stats.used_blocks,
        available_blocks: stats.available_blocks,
        ..NamespaceSnapshot::default()
    };
    let mut counts = NamespaceCounts {
        stats,
        last_lsn: namespace.last_lsn().get(),
        hot: HashMap::new(),
    };
    let mut roots = Roots::new();
    // All are counted, so that one that becomes one of the hottest has rates at once.
    for (place, hot) in namespace.hot_records(HOT_KEYS_MAX).iter().enumerate() {
        let looked = (place < most).then(|| look_at(namespace, &hot.digest));
        let looked = looked.flatten();
        let generation = looked.as_ref().map(|looked| looked.generation);
        let seen = (hot.waits, hot.busy, generation);
        counts.hot.insert(hot.digest, seen);
        if place < most {
            let found = looked
                .as_ref()
                .and_then(|looked| root(namespace, hot, looked));
            if let Some((digest, root)) = found {
                // A companion knows its root's key, which the root itself may not.
                if hot.digest == digest && hot.key.is_none() {
                    roots.entry(digest).or_insert(root);
                } else {
                    roots.insert(digest, root);
                }
            }
            let rates = before.map(|(before, interval)| (before, &counts, interval));
            snapshot.hot.push(hot_snapshot(hot, looked, rates));
        }
    }
    for recent in namespace.recent_transitions() {
        let digest = namespace.key_hash().digest(&recent.set, &recent.key);
        roots.insert(digest, (recent.set.to_string(), told(&recent.key)));
        snapshot.transitions.push(TransitionSnapshot {
            key: told(&recent.key),
            set: recent.set.into(),
            bin: recent.bin.into(),
            transition: recent.transition.to_string(),
            shards: recent.shards,
            done: recent.done,
            total: recent.total,
            ended: recent.ended,
            refused: recent.refused.map(Into::into),
            began_unix_ms: recent.began_ms + EPOCH_UNIX_SECONDS * 1000,
            reported_unix_ms: recent.reported_ms + EPOCH_UNIX_SECONDS * 1000,
        });
    }
    snapshot.collections = collections(namespace, roots);
    (snapshot, counts)
}

/// Returns the operations, with rates and times since the look before.
fn operations(
    stats: &NamespaceStats,
    before: Option<(&NamespaceStats, Duration)>,
) -> Vec<OperationSnapshot> {
    let snapshot = |all: &OperationStats| {
        let lately = before.map(|(before, interval)| {
            let lately = all.since(&before.operation(all.kind));
            (per_second(lately.count, interval), lately.latency)
        });
        let latency = lately.as_ref().map(|(_, latency)| latency);
        let micros = |share| {
            let time = latency?.quantile(share)?;
            Some(time.as_secs_f64() * 1e6)
        };
        OperationSnapshot {
            kind: all.kind.name().to_owned(),
            count: all.count,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            per_s: lately.as_ref().map(|(rate, _)| *rate),
        }
    };
    stats.operations.iter().map(snapshot).collect()
}

/// Returns the errors, with rates since the look before.
fn errors(
    stats: &NamespaceStats,
    before: Option<(&NamespaceStats, Duration)>,
) -> Vec<ErrorSnapshot> {
    let snapshot = |(code, count): &(u8, u64)| {
        let per_s = before.map(|(before, interval)| {
            let then = before.errors.iter().find(|(known, _)| known == code);
            per_second(count - then.map_or(0, |(_, then)| *then), interval)
        });
        ErrorSnapshot {
            code: *code,
            count: *count,
            per_s,
        }
    };
    stats.errors.iter().map(snapshot).collect()
}

fn look_at(namespace: &Namespace, digest: &Digest) -> Option<Looked> {
    namespace.look_at(digest, |set, record| Looked {
        set,
        generation: record.metadata.generation,
        bytes: record.stored_bytes,
        info: RecordInfo::of(record.view),
    })
}

/// Returns the root that a hot record is, or is a companion of.
fn root(
    namespace: &Namespace,
    hot: &HotRecord,
    looked: &Looked,
) -> Option<(Digest, (String, String))> {
    let set = &looked.set;
    let (digest, key) = match &looked.info {
        RecordInfo::Plain => return None,
        RecordInfo::Root(_) => {
            let key = hot.key.as_ref();
            (hot.digest, key.map_or_else(|| hot.digest.to_string(), told))
        }
        RecordInfo::Companion { root, .. } => (namespace.key_hash().digest(set, root), told(root)),
    };
    Some((digest, (set.clone(), key)))
}

/// Returns the collections of these roots, by set, key, digest and bin.
fn collections(namespace: &Namespace, roots: Roots) -> Vec<CollectionSnapshot> {
    let mut collections = Vec::new();
    for (digest, (set, key)) in roots {
        let looked = look_at(namespace, &digest);
        let Some(RecordInfo::Root(found)) = looked.map(|looked| looked.info) else {
            continue;
        };
        collections.extend(found.into_iter().map(|info| CollectionSnapshot {
            set: set.clone(),
            key: key.clone(),
            digest: digest.to_string(),
            bin: info.bin,
            scheme: info.scheme,
            shards: info.shards,
            epoch: info.epoch,
            in_transition: info.in_transition,
        }));
    }
    collections.sort_by(|a, b| {
        let place = (&b.set, &b.key, &b.digest, &b.bin);
        (&a.set, &a.key, &a.digest, &a.bin).cmp(&place)
    });
    collections
}

fn hot_snapshot(
    hot: &HotRecord,
    looked: Option<Looked>,
    rates: Option<(&NamespaceCounts, &NamespaceCounts, Duration)>,
) -> HotRecordSnapshot {
    let mut snapshot = HotRecordSnapshot {
        key: hot.key.as_ref().map(told),
        digest: hot.digest.to_string(),
        waits: hot.waits,
        key_busy: hot.busy,
        ..HotRecordSnapshot::default()
    };
    if let Some((before, now, interval)) = rates {
        let then = before.hot.get(&hot.digest).copied();
        let (waits, busy, then) = then.unwrap_or_default();
        snapshot.waits_per_s = Some(per_second(growth(waits, hot.waits), interval));
        snapshot.key_busy_per_s = Some(per_second(growth(busy, hot.busy), interval));
        let all = now.last_lsn.saturating_sub(before.last_lsn);
        let generations = then.zip(looked.as_ref().map(|looked| looked.generation));
        let writes = generations.and_then(|(then, now)| writes_between(then, now, all));
        snapshot.writes_per_s = writes.map(|writes| per_second(writes, interval));
    }
    if let Some(looked) = looked {
        snapshot.set = Some(looked.set);
        snapshot.bytes = Some(looked.bytes);
        match looked.info {
            RecordInfo::Plain => snapshot.shards = Some(0),
            RecordInfo::Root(found) => {
                snapshot.shards = found.iter().map(|collection| collection.shards).sum();
            }
            RecordInfo::Companion { root, shard } => {
                let key = told(&root);
                snapshot.companion_of = Some(CompanionOf { key, shard });
            }
        }
    }
    snapshot
}

/// How often a record was written between two looks, by its generation. `None`: it cannot be, since
/// the whole namespace had fewer writes; the record was deleted and made anew. Too low by a
/// multiple of 65,535 if it was written more often.
fn writes_between(then: u16, now: u16, all_writes: u64) -> Option<u64> {
    let (then, now) = (u64::from(then), u64::from(now));
    let writes = (now + GENERATION_MAX - then) % GENERATION_MAX;
    (writes <= all_writes).then_some(writes)
}

/// How much a count has grown that is halved every five minutes.
fn growth(then: u64, now: u64) -> u64 {
    now.checked_sub(then)
        .unwrap_or_else(|| now.saturating_sub(then / 2))
}

fn per_second(count: u64, interval: Duration) -> f64 {
    count as f64 / interval.as_secs_f64()
}

pub(super) fn unix_ms(time: std::time::SystemTime) -> u64 {
    let since = time.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Returns a key as it is shown: its text, its number, or its bytes escaped; shortened if it is
/// long.
fn told(key: &Key<'_>) -> String {
    let text = key.bare();
    match text.char_indices().nth(KEY_CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn writes_are_counted_over_the_end_of_generations_and_never_invented() {
        for (then, now, all, writes) in [
            (1, 1, 0, Some(0)),
            (1, 11, 10, Some(10)),
            (1, 11, 500, Some(10)),
            // Over the end: 65,535 is followed by 1.
            (65_530, 5, 10, Some(10)),
            (65_535, 1, 1, Some(1)),
            // Made anew.
            (100, 2, 3, None),
            (5, 1, 2, None),
        ] {
            assert_eq!(writes_between(then, now, all), writes, "{then} {now} {all}");
        }
    }

    #[test]
    fn a_count_that_was_halved_has_not_shrunk() {
        assert_eq!(growth(10, 15), 5);
        assert_eq!(growth(0, 7), 7);
        assert_eq!(growth(100, 53), 3);
        assert_eq!(growth(100, 20), 0);
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let store = Store::in_memory().unwrap();
        let users = store.set("users").unwrap();
        let mut sampler = Sampler::new(store.clone(), 20, None);
        let start = Instant::now();
        let first = sampler.sample(start);
        assert_eq!(first.interval_ms, None);
        assert_eq!(first.namespaces[0].waits_per_s, None);
        users.put("alice", [("age", 1)]).unwrap();
        let second = sampler.sample(start + Duration::from_secs(2));
        assert_eq!(second.interval_ms, Some(2_000));
        assert_eq!(second.namespaces[0].waits_per_s, Some(0.0));
        // At the same moment there is no rate.
        assert_eq!(
            sampler.sample(start + Duration::from_secs(2)).interval_ms,
            None
        );
    }

    #[test]
    fn long_keys_are_shortened() {
        let long = "k".repeat(500);
        assert_eq!(told(&Key::from(long)).len(), KEY_CHARS_MAX + 3);
        assert_eq!(told(&Key::from(7)), "7");
    }
}
