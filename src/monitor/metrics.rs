//! Metrics in Prometheus' form.

use super::snapshot::{HotRecordSnapshot, NamespaceSnapshot, StoreSnapshot};
use crate::changes::SubscriptionStats;
use crate::prometheus::{MetricsText, escaped};
use crate::query::IndexStats;
use crate::storage::Stats;
use crate::{Namespace, Store, TransactionStats};

/// A metric: its name behind `spikelet_`, whether it only grows, what it means, and where it is.
type Metric<T> = (&'static str, bool, &'static str, fn(&T) -> u64);

const OF_NAMESPACES: [Metric<Stats>; 23] = [
    ("records", false, "Live records.", |s| s.records),
    ("index_bytes", false, "Memory of the index.", |s| {
        s.index_bytes
    }),
    (
        "image_bytes",
        false,
        "Memory of records that are edited by deltas.",
        |s| s.image_bytes,
    ),
    (
        "live_bytes",
        false,
        "Bytes of live records in the log.",
        |s| s.live_bytes,
    ),
    (
        "device_bytes",
        false,
        "Disk space that the devices take.",
        |s| s.device_bytes,
    ),
    (
        "used_blocks",
        false,
        "Blocks of the devices that hold entries.",
        |s| s.used_blocks,
    ),
    (
        "available_blocks",
        false,
        "Blocks that are free, or that the devices can grow by.",
        |s| s.available_blocks,
    ),
    (
        "reserve_blocks",
        false,
        "Blocks kept for deletes and defragmentation.",
        |s| s.reserve_blocks,
    ),
    (
        "stop_writes",
        false,
        "1 while writes are stopped for want of space.",
        |s| u64::from(s.stop_writes),
    ),
    (
        "read_only",
        false,
        "1 if the namespace takes no writes after a failed sync.",
        |s| u64::from(s.read_only.is_some()),
    ),
    (
        "unreadable_bytes",
        false,
        "Bytes of the devices that could not be read.",
        |s| s.unreadable_bytes,
    ),
    (
        "requested_bytes_total",
        true,
        "Bytes that callers asked to store.",
        |s| s.traffic.requested_bytes,
    ),
    (
        "appended_bytes_total",
        true,
        "Bytes of log taken for them.",
        |s| s.traffic.appended_bytes,
    ),
    (
        "moved_bytes_total",
        true,
        "Bytes that defragmentation has moved.",
        |s| s.traffic.moved_bytes,
    ),
    ("syncs_total", true, "Syncs that succeeded.", |s| s.syncs),
    (
        "record_waits_total",
        true,
        "Writers that had to wait for a record's lock.",
        |s| s.waits,
    ),
    (
        "key_busy_total",
        true,
        "Writers refused since too many waited for the record.",
        |s| s.key_busy,
    ),
    (
        "record_timeouts_total",
        true,
        "Writers that gave up waiting for a record's lock.",
        |s| s.timeouts,
    ),
    (
        "space_waits_total",
        true,
        "Writers that had to wait for space.",
        |s| s.space_waits,
    ),
    (
        "damaged_total",
        true,
        "Times a damaged record was met.",
        |s| s.damaged,
    ),
    ("expired_total", true, "Expired records removed.", |s| {
        s.expired
    }),
    (
        "defragmented_blocks_total",
        true,
        "Blocks emptied by defragmentation.",
        |s| s.defragmented_blocks,
    ),
    (
        "dropped_tombstones_total",
        true,
        "Tombstones that were forgotten.",
        |s| s.dropped_tombstones,
    ),
];

const OF_TRANSACTIONS: [Metric<TransactionStats>; 4] = [
    (
        "transactions_committed_total",
        true,
        "Transactions that were committed, those without writes included.",
        |s| s.commits,
    ),
    (
        "transactions_aborted_total",
        true,
        "Transactions whose closure returned an error.",
        |s| s.aborts,
    ),
    (
        "transaction_conflicts_total",
        true,
        "Attempts that met another writer.",
        |s| s.conflicts,
    ),
    (
        "transaction_retries_total",
        true,
        "Attempts made after a conflict.",
        |s| s.retries,
    ),
];

const OF_SECONDARY_INDEXES: [Metric<IndexStats>; 5] = [
    (
        "secondary_index_ready",
        false,
        "1 if queries can use the index, 0 while it is built.",
        |s| u64::from(s.is_ready),
    ),
    (
        "secondary_index_entries",
        false,
        "Entries of a secondary index.",
        |s| s.entries,
    ),
    (
        "secondary_index_bytes",
        false,
        "Memory of a secondary index.",
        |s| s.memory_bytes,
    ),
    (
        "secondary_index_changes_total",
        true,
        "Entries added and removed.",
        |s| s.added + s.removed,
    ),
    (
        "secondary_index_queries_total",
        true,
        "Queries that have used the index; each page counts.",
        |s| s.queries,
    ),
];

const OF_SUBSCRIPTIONS: [Metric<SubscriptionStats>; 2] = [
    (
        "subscription_behind",
        false,
        "Log sequence numbers that the slowest share is behind the log.",
        |s| s.behind,
    ),
    (
        "subscription_has_lost",
        false,
        "1 if a share was too slow, and changes are gone that it has not seen.",
        |s| u64::from(s.has_lost),
    ),
];

/// A metric of a hot record.
type HotMetric = (
    &'static str,
    &'static str,
    fn(&HotRecordSnapshot) -> Option<f64>,
);

const OF_HOT_RECORDS: [HotMetric; 7] = [
    (
        "hot_record_writes_per_second",
        "Writes of a record that writers fight over, by its generation.",
        |hot| hot.writes_per_s,
    ),
    (
        "hot_record_waits_per_second",
        "Writers that had to wait for it.",
        |hot| hot.waits_per_s,
    ),
    (
        "hot_record_key_busy_per_second",
        "Writers that it refused.",
        |hot| hot.key_busy_per_s,
    ),
    (
        "hot_record_waits",
        "Writers that had to wait for it; after 5 minutes one counts half.",
        |hot| Some(hot.waits as f64),
    ),
    (
        "hot_record_key_busy",
        "Writers that it refused; after 5 minutes one counts half.",
        |hot| Some(hot.key_busy as f64),
    ),
    ("hot_record_bytes", "What it takes on the device.", |hot| {
        hot.bytes.map(|bytes| bytes as f64)
    }),
    (
        "hot_record_shards",
        "Companions of its sharded collections.",
        |hot| hot.shards.map(|shards| shards as f64),
    ),
];

/// Returns all metrics.
pub(super) fn render(store: &Store, latest: &StoreSnapshot) -> String {
    let mut metrics = MetricsText::default();
    let mut namespaces = store.namespaces();
    namespaces.sort_by(|a, b| a.name().cmp(b.name()));
    render_namespaces(&namespaces, &mut metrics);
    render_sets(&namespaces, &mut metrics);
    render_hot_records(latest, &mut metrics);
    render_collections(latest, &mut metrics);
    metrics.into_text()
}

fn render_namespaces(namespaces: &[Namespace], metrics: &mut MetricsText) {
    let of_each = |namespace: &Namespace| label("namespace", namespace.name());
    let stats: Vec<_> = namespaces
        .iter()
        .map(|namespace| (of_each(namespace), namespace.stats()))
        .collect();
    render_all(&OF_NAMESPACES, &stats, metrics);
    let transactions: Vec<_> = namespaces
        .iter()
        .map(|namespace| (of_each(namespace), namespace.transaction_stats()))
        .collect();
    render_all(&OF_TRANSACTIONS, &transactions, metrics);
    render_transaction_times(&transactions, metrics);
    let indexes: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| {
            let of_all = namespace.indexes().into_iter();
            of_all.map(|index| {
                let set = label("set", index.set.as_deref().unwrap_or_default());
                let name = label("index", &index.name);
                (format!("{},{set},{name}", of_each(namespace)), index)
            })
        })
        .collect();
    render_all(&OF_SECONDARY_INDEXES, &indexes, metrics);
    let subscriptions: Vec<_> = namespaces
        .iter()
        .flat_map(|namespace| {
            let of_all = namespace.changes().subscriptions().into_iter();
            of_all.map(|stats| {
                let name = label("subscription", &stats.name);
                (format!("{},{name}", of_each(namespace)), stats)
            })
        })
        .collect();
    render_all(&OF_SUBSCRIPTIONS, &subscriptions, metrics);
}

/// Renders metrics of several things, each with its labels.
fn render_all<T>(table: &[Metric<T>], things: &[(String, T)], metrics: &mut MetricsText) {
    for (name, grows, help, of) in table {
        let name = format!("spikelet_{name}");
        let kind = if *grows { "counter" } else { "gauge" };
        metrics.describe(&name, kind, help);
        for (labels, thing) in things {
            metrics.add(&name, kind, labels, of(thing));
        }
    }
}

fn render_transaction_times(
    transactions: &[(String, TransactionStats)],
    metrics: &mut MetricsText,
) {
    let name = "spikelet_transaction_seconds";
    metrics.describe(
        name,
        "gauge",
        "What this share of the committed transactions did not exceed, further attempts included.",
    );
    for (labels, stats) in transactions {
        for (quantile, took) in [("0.5", stats.p50), ("0.99", stats.p99)] {
            let labels = format!("{labels},{}", label("quantile", quantile));
            metrics.add(name, "gauge", &labels, took.as_secs_f64());
        }
    }
}

fn render_sets(namespaces: &[Namespace], metrics: &mut MetricsText) {
    let mut sets = Vec::new();
    for namespace in namespaces {
        for usage in namespace.sets() {
            let namespace = label("namespace", namespace.name());
            let labels = format!("{namespace},{}", label("set", &usage.name));
            sets.push((labels, usage));
        }
    }
    metrics.describe(
        "spikelet_set_records",
        "gauge",
        "Live records of a set; of none where its name is empty.",
    );
    for (labels, usage) in &sets {
        metrics.add("spikelet_set_records", "gauge", labels, usage.records);
    }
    metrics.describe(
        "spikelet_set_bytes",
        "gauge",
        "Bytes of its live records in the log.",
    );
    for (labels, usage) in &sets {
        metrics.add("spikelet_set_bytes", "gauge", labels, usage.stored_bytes);
    }
}

fn render_hot_records(latest: &StoreSnapshot, metrics: &mut MetricsText) {
    for (name, help, of) in OF_HOT_RECORDS {
        let name = format!("spikelet_{name}");
        metrics.describe(&name, "gauge", help);
        for namespace in &latest.namespaces {
            for hot in &namespace.hot {
                if let Some(value) = of(hot) {
                    metrics.add(&name, "gauge", &hot_labels(namespace, hot), value);
                }
            }
        }
    }
}

fn render_collections(latest: &StoreSnapshot, metrics: &mut MetricsText) {
    let mut all = Vec::new();
    for namespace in &latest.namespaces {
        for collection in &namespace.collections {
            let labels = [
                ("namespace", namespace.name.as_str()),
                ("set", &collection.set),
                ("key", &collection.key),
                ("bin", &collection.bin),
            ];
            let labels = labels.map(|(name, value)| label(name, value)).join(",");
            all.push((labels, collection));
        }
    }
    let name = "spikelet_collection_shards";
    metrics.describe(
        name,
        "gauge",
        "Companions of a sharded collection that is hot, or has had a transition.",
    );
    for (labels, collection) in &all {
        if let Some(shards) = collection.shards {
            metrics.add(name, "gauge", labels, shards);
        }
    }
    let name = "spikelet_collection_in_transition";
    metrics.describe(
        name,
        "gauge",
        "1 while a transition of it is under way, or was left.",
    );
    for (labels, collection) in &all {
        metrics.add(name, "gauge", labels, u64::from(collection.in_transition));
    }
}

fn hot_labels(namespace: &NamespaceSnapshot, hot: &HotRecordSnapshot) -> String {
    let labels = [
        ("namespace", namespace.name.as_str()),
        ("set", hot.set.as_deref().unwrap_or_default()),
        ("key", hot.key.as_deref().unwrap_or_default()),
        ("digest", &hot.digest),
    ];
    labels.map(|(name, value)| label(name, value)).join(",")
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", escaped(value))
}
