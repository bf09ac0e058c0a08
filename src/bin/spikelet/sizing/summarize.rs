//! The sizing, built from what was counted.

use std::collections::BTreeMap;

use spikelet::shard::arithmetic::{
    aerospike_index_bytes, aerospike_secondary_bytes, consolidated_bytes, rewrite_factor,
};

use super::Options;
use super::lint::{damage, lints};
use super::measure::RecordMeasure;
use super::model::{
    BinSizing, CollectionSizing, ContendedRecord, IndexMemory, Lint, NamespaceSizing, RecordSizing,
    Rewrite, SampleNote, SetSizing, Sizing,
};
use super::recommendation::{COPIES, Need, Subject, recommend, what_if};
use super::sample::intervals;
use super::set_stats::{BinStats, SetStats, StatsBySet};
use super::size_histogram::{Distribution, histogram};
use super::verdict::{THRESHOLDS, VerdictInput, heaviest_collection, judge};

/// What changes in a record without lists and maps: an integer.
const INTEGER_BYTES: f64 = 8.0;

/// Where the records come from.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) source: String,
    pub(super) kind: &'static str,
    pub(super) namespaces: Vec<NamespaceSizing>,
    pub(super) contended: Vec<ContendedRecord>,
    /// Whether the source knows which collections have a persisted index.
    pub(super) knows_indexes: bool,
}

/// Builds the sizing from what was counted.
pub(super) fn summarize(options: &Options, origin: Origin, stats: StatsBySet<'_>) -> Sizing {
    let surveys = stats.finish();
    let mut sets = Vec::new();
    let mut found: Vec<Lint> = origin.namespaces.iter().filter_map(damage).collect();
    for ((namespace, set), stats) in &surveys {
        let index = origin
            .namespaces
            .iter()
            .find(|one| one.namespace == *namespace);
        let each = index.map(|one| one.index_bytes_per_record);
        sets.push(set_sizing(options, (namespace, set), stats, each));
        found.extend(lints(
            options,
            (namespace, set),
            stats,
            origin.knows_indexes,
        ));
    }
    sets.sort_by_key(|set| {
        let urgency = std::cmp::Reverse((set.verdict.level, set.bytes.total));
        (urgency, set.namespace.clone(), set.set.clone())
    });
    Sizing {
        source: origin.source,
        source_kind: origin.kind,
        records: sets.iter().map(|set| set.records).sum(),
        damaged: origin.namespaces.iter().map(|one| one.damaged).sum(),
        sample: options.sample.map(|sample| SampleNote {
            records_per_set: sample.records,
            seed: sample.seed,
        }),
        max_record_bytes: options.max_record_bytes,
        writes_per_s: options.writes_per_s,
        thresholds: THRESHOLDS,
        namespaces: origin.namespaces,
        sets,
        largest: heaviest(
            options,
            &surveys,
            |stats| stats.largest.iter().collect(),
            |record| record.bytes,
        ),
        most_written: heaviest(
            options,
            &surveys,
            |stats| stats.most_written.iter().collect(),
            |record| u64::from(record.generation),
        ),
        contended: origin.contended,
        lints: found,
    }
}

fn set_sizing(
    options: &Options,
    (namespace, set): (&str, &str),
    stats: &SetStats,
    index_bytes_per_record: Option<f64>,
) -> SetSizing {
    let bytes = stats.counted.distribution();
    let bins = bins(stats);
    let largest_is_collection = stats.largest_is_collection;
    let verdict = judge(&VerdictInput {
        options,
        bytes: &bytes,
        bins: &bins,
        largest_is_collection,
    });
    let heaviest = heaviest_collection(&bins)
        .and_then(|bin| bin.collection.as_ref())
        .filter(|found| found.element_bytes > 0.0);
    // Shards relieve a record of its collection only: where that is not most of it, its own bytes
    // count.
    let (subject, total_bytes, bytes_p99) = match heaviest {
        Some(found) if !largest_is_collection => {
            let bins = stats.bins.values();
            let largest = bins.map(|bin| bin.collections.largest_bytes).max();
            (Subject::Collection, largest.unwrap_or(0), found.bytes_p99)
        }
        _ => (Subject::Record, bytes.max, bytes.p99),
    };
    let lives = &stats.times_to_live_s;
    let need = Need {
        subject,
        total_bytes,
        bytes_p99,
        element_bytes: heaviest.map(|found| found.element_bytes),
        writes_per_s: options.writes_per_s,
        time_to_live_s_p50: (lives.count() > 0).then(|| lives.per_mille(500)),
    };
    let records_bytes = |each: f64| (each * stats.records as f64).round() as u64;
    SetSizing {
        namespace: namespace.to_owned(),
        set: set.to_owned(),
        records: stats.records,
        measured: stats.counted.count(),
        verdict,
        stored_bytes: stats.stored.distribution(),
        intervals: options
            .sample
            .map(|sample| intervals(&stats.counted, sample.seed)),
        shares: stats.counted.shares(),
        histogram: histogram(&stats.stored, &stats.counted),
        advice: recommend(&need),
        what_if: what_if(&need, index_bytes_per_record),
        index: IndexMemory {
            aerospike_bytes: aerospike_index_bytes(stats.records, COPIES),
            bytes: index_bytes_per_record.map(records_bytes),
        },
        rewrites: rewrites(options, &bytes, &bins),
        bytes,
        bins,
    }
}

fn bins(stats: &SetStats) -> Vec<BinSizing> {
    let all: u64 = stats.bins.values().map(|bin| bin.sizes.total()).sum();
    let records = stats.counted.count().max(1) as f64;
    let sizing = |(name, bin): (&String, &BinStats)| {
        let mut kinds: Vec<_> = bin.kinds.iter().collect();
        kinds.sort_by_key(|(kind, times)| (std::cmp::Reverse(**times), **kind));
        BinSizing {
            bin: name.clone(),
            types: kinds.into_iter().map(|(kind, _)| kind.0).collect(),
            // What stands for several bins may come several times in a record.
            presence: (bin.sizes.count() as f64 / records).min(1.0),
            bytes_share: bin.sizes.total() as f64 / all.max(1) as f64,
            bytes: bin.sizes.distribution(),
            collection: collection(bin),
        }
    };
    let mut bins: Vec<BinSizing> = stats.bins.iter().map(sizing).collect();
    bins.sort_by_key(|bin| (std::cmp::Reverse(bin.bytes.total), bin.bin.clone()));
    bins
}

fn collection(bin: &BinStats) -> Option<CollectionSizing> {
    let found = &bin.collections;
    let collections = found.counts.count();
    (collections > 0).then(|| {
        let count = found.counts.distribution();
        let element_bytes = found.element_bytes();
        // Hundredths of bytes, so that the mean keeps its decimals.
        let hundredths = (element_bytes * 100.0).round() as u64;
        let bytes_p99 = consolidated_bytes(count.p99, hundredths).div_ceil(100);
        CollectionSizing {
            collections,
            element_bytes,
            bytes_p99,
            fits: bytes_p99 <= THRESHOLDS.collection_bytes_p99,
            indexed: found.indexed as f64 / collections as f64,
            aerospike_secondary_bytes: aerospike_secondary_bytes(count.total),
            count,
        }
    })
}

fn rewrites(options: &Options, bytes: &Distribution, bins: &[BinSizing]) -> Vec<Rewrite> {
    let rewrite = |bin: Option<&str>, changed_bytes: f64| {
        let factor_p99 = rewrite_factor(bytes.p99, changed_bytes);
        Rewrite {
            bin: bin.map(str::to_owned),
            changed_bytes,
            factor_p50: rewrite_factor(bytes.p50, changed_bytes),
            factor_p99,
            megabytes_per_s: options
                .writes_per_s
                .map(|rate| rate * bytes.p99 as f64 / 1e6),
        }
    };
    let of_bin = |bin: &BinSizing| {
        let found = bin
            .collection
            .as_ref()
            .filter(|found| found.element_bytes > 0.0)?;
        Some(rewrite(Some(&bin.bin), found.element_bytes))
    };
    let mut rewrites: Vec<Rewrite> = bins.iter().filter_map(of_bin).collect();
    if rewrites.is_empty() && bytes.max > 0 {
        rewrites.push(rewrite(None, INTEGER_BYTES));
    }
    rewrites
}

/// Returns the heaviest records of all sets.
fn heaviest<'s>(
    options: &Options,
    surveys: &'s BTreeMap<(String, String), SetStats>,
    of_set: impl Fn(&'s SetStats) -> Vec<&'s RecordMeasure>,
    weight: impl Fn(&RecordMeasure) -> u64,
) -> Vec<RecordSizing> {
    let mut records: Vec<_> = surveys
        .iter()
        .flat_map(|(names, stats)| of_set(stats).into_iter().map(move |record| (names, record)))
        .collect();
    // Stable: equals stay in the order of sets and keys.
    records.sort_by_key(|(_, record)| std::cmp::Reverse(weight(record)));
    records.truncate(options.top);
    records
        .into_iter()
        .map(|((namespace, set), record)| record_sizing(namespace, set, record))
        .collect()
}

fn record_sizing(namespace: &str, set: &str, record: &RecordMeasure) -> RecordSizing {
    let known = |value: u64| (value > 0).then_some(value);
    RecordSizing {
        namespace: namespace.to_owned(),
        set: set.to_owned(),
        key: (!record.key.is_empty()).then(|| record.key.clone()),
        digest: record.digest.clone(),
        bytes: record.bytes,
        stored_bytes: record.stored_bytes,
        largest_bin: record
            .largest_bin()
            .map(|bin| (bin.name.clone(), bin.bytes)),
        generation: (record.generation > 0).then_some(record.generation),
        last_update_ms: known(record.last_update_ms),
    }
}
