//! Metrics of the monitor: `/metrics`.

use std::borrow::Cow;

use super::snapshot::{CollectionSnapshot, HotRecordSnapshot, NamespaceSnapshot, StoreSnapshot};
use crate::changes::SubscriptionStats;
use crate::prometheus::{Metric, MetricsForm, MetricsText, OF_STORAGE, escaped, flag};
use crate::query::IndexStats;
use crate::stats::{NamespaceStats, OperationStats};
use crate::storage::SetUsage;
use crate::{Namespace, Store, TransactionStats};

const OF_OPERATIONS: [Metric<OperationStats>; 1] = [("operations_total", |s| s.count as f64)];

/// By result code.
const OF_ERRORS: [Metric<u64>; 1] = [("errors_total", |times| *times as f64)];

const OF_SERVER: [Metric<u64>; 1] = [("connections", |connections| *connections as f64)];

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
    let stats: Vec<(&str, NamespaceStats)> = namespaces
        .iter()
        .map(|of| (of.name(), of.stats()))
        .collect();
    let namespaces: Vec<(&str, &Namespace)> = namespaces.iter().map(|of| (of.name(), of)).collect();
    metrics.add_all(&OF_STORAGE, &each(&stats, |of| [(vec![], &of.storage)]));
    let operations = each(&stats, |of| {
        let operations = of.operations.iter();
        operations.map(|one| (vec![("kind", one.kind.name().into())], one))
    });
    metrics.add_all(&OF_OPERATIONS, &operations);
    let name = "spikelet_operation_seconds";
    metrics.describe(name, "histogram");
    for (labels, operation) in &operations {
        metrics.histogram(name, labels, &operation.latency);
    }
    let errors = each(&stats, |of| {
        let errors = of.errors.iter();
        errors.map(|(code, times)| (vec![("code", code.to_string().into())], times))
    });
    metrics.add_all(&OF_ERRORS, &errors);
    let transactions = each(&namespaces, |of| [(vec![], of.transaction_stats())]);
    metrics.add_all(&OF_TRANSACTIONS, &transactions);
    let sets = each(&namespaces, |of| {
        let sets = of.sets().into_iter();
        sets.map(|set| (vec![("set", set.name.clone().into())], set))
    });
    metrics.add_all(&OF_SETS, &sets);
    let indexes = each(&namespaces, |of| {
        let named = |index: IndexStats| {
            let set = index.set.as_deref().unwrap_or_default().to_owned();
            let name = index.name.to_string();
            (vec![("set", set.into()), ("index", name.into())], index)
        };
        of.indexes().into_iter().map(named)
    });
    metrics.add_all(&OF_SECONDARY_INDEXES, &indexes);
    let subscriptions = each(&namespaces, |of| {
        let all = of.changes().subscriptions().into_iter();
        all.map(|one| (vec![("subscription", one.name.to_string().into())], one))
    });
    metrics.add_all(&OF_SUBSCRIPTIONS, &subscriptions);
    let looked: Vec<(&str, &NamespaceSnapshot)> = latest
        .namespaces
        .iter()
        .map(|of| (of.name.as_str(), of))
        .collect();
    let hot = each(&looked, |of| {
        of.hot.iter().map(|hot| {
            let [set, key] = [&hot.set, &hot.key].map(|name| name.as_deref().unwrap_or_default());
            let digest = hot.digest.as_str();
            (
                vec![
                    ("set", set.into()),
                    ("key", key.into()),
                    ("digest", digest.into()),
                ],
                hot,
            )
        })
    });
    metrics.add_all(&OF_HOT_RECORDS, &hot);
    let collections = each(&looked, |of| {
        of.collections.iter().map(|one| {
            let names = [&one.set, &one.key, &one.digest, &one.bin];
            let [set, key, digest, bin] = names.map(|name| name.as_str().into());
            let labels = vec![("set", set), ("key", key), ("digest", digest), ("bin", bin)];
            (labels, one)
        })
    });
    metrics.add_all(&OF_COLLECTIONS, &collections);
    if let Some(connections) = latest.connections {
        metrics.add_all(&OF_SERVER, &[(String::new(), connections)]);
    }
    metrics.into_text()
}

/// Names of labels with their values.
type Labels<'v> = Vec<(&'static str, Cow<'v, str>)>;

/// Returns the things of all namespaces with their labels as they stand between braces, of which
/// the namespace is the first.
fn each<'n, N, T, I: IntoIterator<Item = (Labels<'n>, T)>>(
    namespaces: &'n [(&str, N)],
    of: impl Fn(&'n N) -> I,
) -> Vec<(String, T)> {
    let mut all = Vec::new();
    for (namespace, of_it) in namespaces {
        for (labels, one) in of(of_it) {
            let mut text = format!("namespace=\"{}\"", escaped(namespace));
            for (name, value) in labels {
                text += &format!(",{name}=\"{}\"", escaped(&value));
            }
            all.push((text, one));
        }
    }
    all
}
