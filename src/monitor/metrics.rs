//! Metrics of the monitor: `/metrics`.

use super::snapshot::{CollectionSnapshot, HotRecordSnapshot, StoreSnapshot};
use crate::changes::SubscriptionStats;
use crate::prometheus::{Metric, MetricsForm, MetricsText, OF_STORAGE, escaped, flag};
use crate::query::IndexStats;
use crate::stats::NamespaceStats;
use crate::storage::{SetUsage, Stats};
use crate::{Namespace, Store, TransactionStats};

const OF_SETS: [Metric<SetUsage>; 2] = [
    ("set_records", |s| s.records as f64),
    ("set_bytes", |s| s.stored_bytes as f64),
];

const OF_TRANSACTIONS: [Metric<TransactionStats>; 4] = [
    ("transactions_committed_total", |s| s.commits as f64),
    ("transactions_aborted_total", |s| s.aborts as f64),
    ("transaction_conflicts_total", |s| s.conflicts as f64),
    ("transaction_retries_total", |s| s.retries as f64),
];

const OF_SECONDARY_INDEXES: [Metric<IndexStats>; 5] = [
    ("secondary_index_ready", |s| flag(s.is_ready)),
    ("secondary_index_entries", |s| s.entries as f64),
    ("secondary_index_bytes", |s| s.memory_bytes as f64),
    ("secondary_index_changes_total", |s| {
        (s.added + s.removed) as f64
    }),
    ("secondary_index_queries_total", |s| s.queries as f64),
];

const OF_SUBSCRIPTIONS: [Metric<SubscriptionStats>; 2] = [
    ("subscription_behind", |s| s.behind as f64),
    ("subscription_has_lost", |s| flag(s.has_lost)),
];

/// NaN where a record has no such value.
const OF_HOT_RECORDS: [Metric<HotRecordSnapshot>; 7] = [
    ("hot_record_writes_per_second", |hot| {
        hot.writes_per_s.unwrap_or(f64::NAN)
    }),
    ("hot_record_waits_per_second", |hot| {
        hot.waits_per_s.unwrap_or(f64::NAN)
    }),
    ("hot_record_key_busy_per_second", |hot| {
        hot.key_busy_per_s.unwrap_or(f64::NAN)
    }),
    ("hot_record_waits", |hot| hot.waits as f64),
    ("hot_record_key_busy", |hot| hot.key_busy as f64),
    ("hot_record_bytes", |hot| known(hot.bytes)),
    ("hot_record_shards", |hot| known(hot.shards)),
];

const OF_COLLECTIONS: [Metric<CollectionSnapshot>; 2] = [
    ("collection_shards", |one| known(one.shards)),
    ("collection_in_transition", |one| flag(one.in_transition)),
];

fn known(value: Option<u64>) -> f64 {
    value.map_or(f64::NAN, |value| value as f64)
}

/// Returns all metrics.
pub(super) fn render(store: &Store, latest: &StoreSnapshot, form: MetricsForm) -> String {
    let mut metrics = MetricsText::new(form);
    let mut namespaces = store.namespaces();
    namespaces.sort_by(|a, b| a.name().cmp(b.name()));
    let stats = each(&namespaces, |of| vec![(vec![], of.stats())]);
    let of_storage: Vec<(String, &Stats)> = stats
        .iter()
        .map(|(labels, stats)| (labels.clone(), &stats.storage))
        .collect();
    metrics.add_all(&OF_STORAGE, &of_storage);
    render_operations(&stats, &mut metrics);
    let transactions = each(&namespaces, |of| vec![(vec![], of.transaction_stats())]);
    metrics.add_all(&OF_TRANSACTIONS, &transactions);
    let sets = each(&namespaces, |of| {
        let named = |set: SetUsage| (vec![("set", set.name.clone())], set);
        of.sets().into_iter().map(named).collect()
    });
    metrics.add_all(&OF_SETS, &sets);
    let indexes = each(&namespaces, |of| {
        let named = |index: IndexStats| {
            let set = index.set.as_deref().unwrap_or_default().to_owned();
            (vec![("set", set), ("index", index.name.to_string())], index)
        };
        of.indexes().into_iter().map(named).collect()
    });
    metrics.add_all(&OF_SECONDARY_INDEXES, &indexes);
    let subscriptions = each(&namespaces, |of| {
        let named =
            |stats: SubscriptionStats| (vec![("subscription", stats.name.to_string())], stats);
        let all = of.changes().subscriptions().into_iter();
        all.map(named).collect()
    });
    metrics.add_all(&OF_SUBSCRIPTIONS, &subscriptions);
    render_hot(latest, &mut metrics);
    if let Some(connections) = latest.connections {
        let name = "spikelet_connections";
        metrics.describe(name, "gauge");
        metrics.add(name, "gauge", "", connections);
    }
    metrics.into_text()
}

/// Returns the things of all namespaces with their labels, of which the namespace is the first.
fn each<T>(
    namespaces: &[Namespace],
    of: impl Fn(&Namespace) -> Vec<(Vec<(&'static str, String)>, T)>,
) -> Vec<(String, T)> {
    let mut all = Vec::new();
    for namespace in namespaces {
        for (names, one) in of(namespace) {
            let names = names.iter().map(|(name, value)| (*name, value.as_str()));
            let names = std::iter::once(("namespace", namespace.name())).chain(names);
            all.push((labels(&names.collect::<Vec<_>>()), one));
        }
    }
    all
}

fn render_operations(stats: &[(String, NamespaceStats)], metrics: &mut MetricsText) {
    let all = || {
        stats.iter().flat_map(|(namespace, stats)| {
            let of_kind = move |operation| (format!("{namespace},"), operation);
            stats.operations.iter().map(of_kind)
        })
    };
    let kind = |name: &str| labels(&[("kind", name)]);
    let name = "spikelet_operations_total";
    metrics.describe(name, "counter");
    for (labels, operation) in all() {
        let labels = labels + &kind(operation.kind.name());
        metrics.add(name, "counter", &labels, operation.count);
    }
    let name = "spikelet_operation_seconds";
    metrics.describe(name, "histogram");
    for (labels, operation) in all() {
        let labels = labels + &kind(operation.kind.name());
        metrics.histogram(name, &labels, &operation.latency);
    }
    let name = "spikelet_errors_total";
    metrics.describe(name, "counter");
    for (namespace, stats) in stats {
        for (code, count) in &stats.errors {
            let labels = format!("{namespace},{}", labels(&[("code", &code.to_string())]));
            metrics.add(name, "counter", &labels, count);
        }
    }
}

fn render_hot(latest: &StoreSnapshot, metrics: &mut MetricsText) {
    let (mut hot, mut collections) = (Vec::new(), Vec::new());
    for namespace in &latest.namespaces {
        let name = namespace.name.as_str();
        hot.extend(namespace.hot.iter().map(|hot| {
            let names = [
                ("namespace", name),
                ("set", hot.set.as_deref().unwrap_or_default()),
                ("key", hot.key.as_deref().unwrap_or_default()),
                ("digest", &hot.digest),
            ];
            (labels(&names), hot)
        }));
        collections.extend(namespace.collections.iter().map(|one| {
            let names = [
                ("namespace", name),
                ("set", one.set.as_str()),
                ("key", &one.key),
                ("bin", &one.bin),
            ];
            (labels(&names), one)
        }));
    }
    metrics.add_all(&OF_HOT_RECORDS, &hot);
    metrics.add_all(&OF_COLLECTIONS, &collections);
}

/// Writes labels as they stand between braces.
fn labels(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    pairs.collect::<Vec<_>>().join(",")
}
