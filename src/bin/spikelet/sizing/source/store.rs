//! Records of a store on disk.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use spikelet::{Digest, Namespace, Store};

use super::ProgressSink;
use crate::failure::Result;
use crate::report;
use crate::sizing::SizingOptions;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::{NamespaceSizing, RecordSizing};
use crate::sizing::secondary_index::SecondaryIndexSizing;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::RecordOrigin;

/// Records between reports of progress.
const TELL_EVERY: u64 = 4096;
/// The most records of a namespace that writers fought over.
const CONTENDED_MAX: usize = 1_000;

/// Scans every namespace once.
pub(super) fn read(
    path: &Path,
    options: &SizingOptions,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<RecordOrigin> {
    let store = Store::builder().path(path).read_only(true).open()?;
    let shard_bytes_max = options.shard_bytes_max();
    let namespaces = store.namespaces();
    let total = namespaces
        .iter()
        .map(|namespace| namespace.stats().records)
        .sum();
    let mut done = 0;
    let mut measured = Vec::new();
    let mut contended = Vec::new();
    for namespace in &namespaces {
        let sets = namespace.sets();
        // By the numbers of the sets.
        let mut counted = stats.sets(namespace.name(), &sets);
        let mut fought_over = contended_of(namespace);
        let mut damaged = 0;
        let _: ControlFlow<()> = namespace.scan(|record| {
            match record {
                Ok(record) => {
                    if let Some(hot) = fought_over.get_mut(&record.digest) {
                        let set = sets.get(usize::from(record.set_id));
                        hot.set = set.map(|set| set.name.clone());
                        complete(hot, &RecordMeasure::scanned(&record, shard_bytes_max));
                    }
                    if let Some(Some(set)) = counted.get_mut(usize::from(record.set_id)) {
                        let Ok(()) = set.meet(|most| {
                            Ok::<_, Infallible>(RecordMeasure::scanned(&record, most))
                        });
                    }
                }
                Err(_) => damaged += 1,
            }
            done += 1;
            if done % TELL_EVERY == 0 {
                progress(done, total);
            }
            ControlFlow::Continue(())
        });
        measured.push(namespace_sizing(namespace, damaged, options.set.as_deref()));
        contended.extend(joined(fought_over.into_values()));
    }
    sort_by_heat(&mut contended);
    if let Some(wanted) = &options.set {
        contended.retain(|hot| hot.set.as_ref() == Some(wanted));
    }
    let origin = RecordOrigin {
        source: path.display().to_string(),
        kind: "store",
        namespaces: measured,
        contended,
        knows_indexes: true,
        is_stopped: false,
    };
    // It is read-only: closing it writes nothing.
    store.close()?;
    Ok(origin)
}

fn namespace_sizing(namespace: &Namespace, damaged: u64, wanted: Option<&str>) -> NamespaceSizing {
    let mut secondary_indexes = SecondaryIndexSizing::all_of(namespace);
    secondary_indexes.retain(|index| match (wanted, index.set.as_deref()) {
        (Some(wanted), Some(set)) => set == wanted,
        // An index without a set has records of all sets.
        _ => true,
    });
    let stats = namespace.stats();
    let known = stats.traffic.requested_bytes > 0;
    NamespaceSizing {
        namespace: namespace.name().to_owned(),
        records: stats.records,
        damaged,
        index_bytes: Some(stats.index_bytes),
        index_bytes_per_record: Some(stats.index_bytes_per_record()),
        device_bytes: Some(stats.device_bytes),
        log_write_amplification: known.then(|| stats.traffic.write_amplification()),
        secondary_indexes,
    }
}

/// Brings the hottest records to the front.
fn sort_by_heat(records: &mut [RecordSizing]) {
    records.sort_by_key(|hot| std::cmp::Reverse((hot.key_busy, hot.waits)));
}

/// Returns the records that writers fought over, by their digests.
fn contended_of(namespace: &Namespace) -> BTreeMap<Digest, RecordSizing> {
    let hot = namespace.hot_records(CONTENDED_MAX).into_iter();
    hot.map(|hot| {
        let contended = RecordSizing {
            namespace: namespace.name().to_owned(),
            key: hot.key.as_ref().map(report::key),
            digest: Some(hot.digest.to_string()),
            waits: Some(hot.waits),
            key_busy: Some(hot.busy),
            ..RecordSizing::default()
        };
        (hot.digest, contended)
    })
    .collect()
}

/// Adds the role of a record to the figures counted of it.
fn complete(hot: &mut RecordSizing, record: &RecordMeasure) {
    hot.bytes = Some(record.bytes);
    hot.remedy = Some(record.remedy_for_rate());
    match &record.companion {
        Some(companion) => {
            hot.key = Some(companion.root.clone());
            hot.bin.clone_from(&companion.bin);
            hot.shards = Some(companion.shards);
        }
        None => hot.bin = record.contended_bin().map(str::to_owned),
    }
}

/// Returns the records, the companions of a collection as one, which is described by the hottest.
fn joined(records: impl Iterator<Item = RecordSizing>) -> Vec<RecordSizing> {
    let mut records: Vec<RecordSizing> = records.collect();
    sort_by_heat(&mut records);
    let mut joined: Vec<RecordSizing> = Vec::new();
    for hot in records {
        let is_same = |other: &&mut RecordSizing| {
            other.shards.is_some()
                && hot.shards.is_some()
                && (&other.set, &other.key, &other.bin) == (&hot.set, &hot.key, &hot.bin)
        };
        match joined.iter_mut().find(is_same) {
            Some(same) => {
                for (sum, own) in [
                    (&mut same.waits, hot.waits),
                    (&mut same.key_busy, hot.key_busy),
                    (&mut same.bytes, hot.bytes),
                ] {
                    *sum = sum.zip(own).map(|(a, b)| a + b);
                }
            }
            None => joined.push(hot),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companions_are_described_by_the_hottest() {
        let hot = |digest: &str, key_busy: u64| RecordSizing {
            digest: Some(digest.to_owned()),
            shards: Some(2),
            waits: Some(1),
            key_busy: Some(key_busy),
            ..RecordSizing::default()
        };
        let one = joined([hot("a", 1), hot("b", 5)].into_iter());
        let [one] = &one[..] else {
            panic!("{one:?}");
        };
        assert_eq!(one.digest.as_deref(), Some("b"));
        assert_eq!((one.waits, one.key_busy), (Some(2), Some(6)));
    }
}
