//! The sizing, built from the counts.

use std::collections::BTreeMap;

use spikelet::shard::arithmetic::{
    aerospike_index_bytes, aerospike_secondary_bytes, rewrite_factor,
};

use super::SizingOptions;
use super::lint::lints;
use super::measure::RecordMeasure;
use super::model::{
    BinSizing, CollectionSizing, IndexMemory, Lint, NamespaceSizing, RecordSizing, Rewrite,
    SetSizing, ShardedSizing, Sizing, Total,
};
use super::recommendation::{COPIES, Need, recommend, what_if};
use super::remedy::SizeRemedy;
use super::sample::{Intervals, intervals};
use super::set_stats::{BinStats, SetName, SetStats, ShardedStats, StatsBySet, Top};
use super::size_histogram::{Distribution, histogram};
use crate::verdict::sizing::{
    SetFacts, SizingHeadline, THRESHOLDS, heaviest_collection, helps, judge, shard_word,
};

/// What changes in a record without lists and maps: an integer.
const INTEGER_BYTES: f64 = 8.0;

/// Where the records come from.
#[derive(Debug, Default)]
pub(super) struct RecordOrigin {
    pub(super) source: String,
    pub(super) kind: &'static str,
    pub(super) namespaces: Vec<NamespaceSizing>,
    pub(super) contended: Vec<RecordSizing>,
    /// Whether the source knows which collections have a persisted index.
    pub(super) knows_indexes: bool,
    /// Whether reading was stopped before its end.
    pub(super) is_stopped: bool,
}

/// Builds the sizing from the counts.
pub(super) fn summarize(
    options: &SizingOptions,
    origin: RecordOrigin,
    stats: StatsBySet<'_>,
) -> Sizing {
    let surveys = stats.finish();
    let max_record_bytes = max_record_bytes(options, &origin, &surveys);
    let mut found: Vec<Lint> = Vec::new();
    for ((namespace, set), stats) in &surveys {
        found.extend(lints(
            max_record_bytes,
            (namespace, set),
            stats,
            origin.knows_indexes,
        ));
    }
    let largest = heaviest(options, &surveys, |stats| &stats.largest);
    let most_written = heaviest(options, &surveys, |stats| &stats.most_written);
    let hottest = hottest_set(&surveys, &origin.contended);
    let mut sets: Vec<(SetSizing, SetStats)> = Vec::new();
    for (names, stats) in surveys {
        let of_all = options.rate_of(None);
        let of_all = of_all.filter(|_| hottest.as_ref() == Some(&names));
        let rate = options.rate_of(Some(&names.1)).or(of_all);
        sets.push((
            set_sizing(options, &origin, &names, &stats, rate, max_record_bytes),
            stats,
        ));
    }
    sets.sort_by_key(|(set, _)| {
        let urgency = std::cmp::Reverse((set.verdict.level, set.total_bytes.estimate));
        (urgency, set.namespace.clone(), set.set.clone())
    });
    let damaged = origin.namespaces.iter().map(|one| one.damaged).sum();
    let writes_per_s = options.rate_of(None);
    let is_unassigned = writes_per_s.is_some() && hottest.is_none();
    let verdict = SizingHeadline::new(&sets, &origin.contended, is_unassigned, damaged);
    let sets: Vec<SetSizing> = sets.into_iter().map(|(set, _)| set).collect();
    let mut contended = origin.contended;
    contended.truncate(options.top);
    Sizing {
        verdict,
        source: origin.source,
        source_kind: origin.kind,
        records: sets.iter().map(|set| set.records).sum(),
        damaged,
        sample: options.sample(),
        max_record_bytes,
        writes_per_s,
        writes_per_s_unassigned: is_unassigned,
        thresholds: THRESHOLDS,
        namespaces: origin.namespaces,
        sets,
        largest,
        most_written,
        contended,
        lints: found,
    }
}

/// Returns the largest record that is allowed: as given, or the default. A store that holds larger
/// ones was opened with another limit, which it does not keep: then the largest that is possible.
fn max_record_bytes(
    options: &SizingOptions,
    origin: &RecordOrigin,
    surveys: &BTreeMap<SetName, SetStats>,
) -> u64 {
    const DEFAULT: u64 = 1 << 20;
    const MOST: u64 = 8 << 20;
    let largest = surveys.values().map(|stats| stats.counted.max()).max();
    let is_of_store = ["store", "cluster"].contains(&origin.kind);
    let is_raised = is_of_store && largest.is_some_and(|largest| largest > DEFAULT);
    options
        .max_record_bytes
        .unwrap_or(if is_raised { MOST } else { DEFAULT })
}

/// Returns the size of all records of a set, by the mean of the measured ones.
fn total(stats: &SetStats, bytes: &Distribution, intervals: Option<&Intervals>) -> Total {
    let of_all = |mean: f64| (mean * stats.records as f64).round() as u64;
    if stats.counted.count() >= stats.records {
        return Total {
            estimate: bytes.total,
            interval: None,
        };
    }
    Total {
        estimate: of_all(bytes.mean),
        interval: intervals.map(|found| (of_all(found.mean.0), of_all(found.mean.1))),
    }
}

/// Returns the set with the hottest record: the one that writers fought over most, or else the one
/// written most often; the only set, if there is no other. `None`: not known.
fn hottest_set(
    surveys: &BTreeMap<SetName, SetStats>,
    contended: &[RecordSizing],
) -> Option<SetName> {
    let fought_over = contended
        .iter()
        .find_map(|hot| Some((hot.namespace.clone(), hot.set.clone()?)));
    let only = || (surveys.len() == 1).then(|| surveys.keys().next().cloned())?;
    let generation = |stats: &SetStats| {
        let records = stats.most_written.iter();
        records.map(|record| record.generation).max().unwrap_or(0)
    };
    let written = || {
        let most = surveys.iter().max_by_key(|(_, stats)| generation(stats))?;
        (generation(most.1) > 1).then(|| most.0.clone())
    };
    fought_over.or_else(only).or_else(written)
}

fn set_sizing(
    options: &SizingOptions,
    origin: &RecordOrigin,
    (namespace, set): &SetName,
    stats: &SetStats,
    writes_per_s: Option<f64>,
    max_record_bytes: u64,
) -> SetSizing {
    let bytes = stats.counted.distribution();
    let mut namespaces = origin.namespaces.iter();
    let index = namespaces.find(|one| one.namespace == *namespace);
    let index_bytes_per_record = index.and_then(|one| one.index_bytes_per_record);
    // Counts from before a collection was sharded say nothing of its shards.
    let is_past = |hot: &RecordSizing| {
        let mut roots = stats.sharded.keys();
        hot.shards.is_none() && roots.any(|(root, _)| Some(root) == hot.key.as_ref())
    };
    let mut contended = origin.contended.iter();
    let case = SetFacts {
        stats,
        max_record_bytes,
        writes_per_s,
        contended: contended.find(|hot| {
            hot.namespace == *namespace && hot.set.as_ref() == Some(set) && !is_past(hot)
        }),
    };
    let bins = bins(stats);
    let verdict = judge(&case);
    let need = need(&case);
    let intervals = options.sample.map(|_| intervals(&stats.counted));
    let records_bytes = |each: f64| (each * stats.records as f64).round() as u64;
    let mut sizing = SetSizing {
        namespace: namespace.clone(),
        set: set.clone(),
        records: stats.records,
        measured: stats.counted.count(),
        verdict,
        writes_per_s,
        stored_bytes: stats.stored.distribution(),
        total_bytes: total(stats, &bytes, intervals.as_ref()),
        intervals,
        shares: stats.counted.shares(),
        histogram: histogram(&stats.stored, &stats.counted),
        sharded: sharded(options, stats),
        advice: recommend(&need),
        what_if: what_if(&need, None, index_bytes_per_record),
        index: IndexMemory {
            aerospike_bytes: aerospike_index_bytes(stats.records, COPIES),
            bytes: index_bytes_per_record.map(records_bytes),
        },
        rewrites: rewrites(writes_per_s, &bytes, &bins),
        bytes,
        bins,
    };
    sizing.verdict.helps = helps(&sizing, stats);
    sizing
}

/// Returns the thing to shard: the largest record, or the largest list or map where most of that
/// record is something else. Shards relieve a record of its collection only.
fn need(case: &SetFacts<'_>) -> Need {
    let stats = case.stats;
    let (remedy, _) = case.heaviest_remedy();
    let collection = heaviest_collection(stats)
        .map(|(_, found)| found)
        .filter(|found| found.element_bytes() > 0.0);
    let judged = &stats.judged;
    let lives = &stats.times_to_live_s;
    let shard_bytes_max = stats.shard_bytes_max;
    let is_small = judged.max() <= shard_bytes_max;
    let whole = ("record", judged.max(), judged.per_mille(990), remedy);
    let (subject, total_bytes, bytes_p99, remedy) = match collection {
        _ if is_small => whole,
        Some(found) if remedy != SizeRemedy::Shard && found.blocked == 0 => {
            let sizes = stats.bins.values().map(|bin| &bin.collections);
            let largest = sizes.filter(|found| found.blocked == 0);
            let largest = largest.map(|found| found.sizes.max()).max().unwrap_or(0);
            // Where no collection is too large on its own, shards do not help the record.
            let remedy = match largest {
                largest if largest > shard_bytes_max => SizeRemedy::Shard,
                _ => remedy,
            };
            ("list or map", largest, found.sizes.per_mille(990), remedy)
        }
        _ => whole,
    };
    Need {
        subject,
        total_bytes,
        bytes_p99,
        element_bytes: collection.map(|found| found.element_bytes()),
        weighed_element_bytes: collection.map_or(0.0, |found| found.largest.1),
        writes_per_s: case.writes_per_s,
        time_to_live_s_p50: (lives.count() > 0).then(|| lives.per_mille(500)),
        shard_bytes_max,
        remedy: if is_small {
            SizeRemedy::Nothing
        } else {
            remedy
        },
        remedy_for_rate: case.remedy_for_rate(),
        // How long elements are kept, and how many there are in all, is not known.
        ..Need::default()
    }
}

/// Returns the largest sharded collections.
fn sharded(options: &SizingOptions, stats: &SetStats) -> Vec<ShardedSizing> {
    if stats.counted.count() < stats.records {
        return Vec::new();
    }
    let sizing = |((key, bin), found): (&(String, Option<String>), &ShardedStats)| ShardedSizing {
        key: key.clone(),
        bin: bin.clone(),
        level: shard_word(found.largest_bytes, None, stats.shard_bytes_max),
        stats: found.clone(),
    };
    let mut sharded: Vec<ShardedSizing> = stats.sharded.iter().map(sizing).collect();
    sharded.sort_by_key(|found| std::cmp::Reverse((found.level, found.stats.bytes)));
    sharded.truncate(options.top);
    sharded
}

fn bins(stats: &SetStats) -> Vec<BinSizing> {
    let all: u64 = stats.bins.values().map(|bin| bin.sizes.total()).sum();
    let records = stats.counted.count().max(1) as f64;
    let sizing = |(name, bin): (&String, &BinStats)| {
        let mut kinds: Vec<_> = bin.kinds.iter().collect();
        kinds.sort_by_key(|(kind, times)| (std::cmp::Reverse(**times), *kind));
        BinSizing {
            bin: name.clone(),
            types: kinds.into_iter().map(|(kind, _)| *kind).collect(),
            // A name for several bins may come several times in a record.
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
        let (count, bytes) = (found.counts.distribution(), found.sizes.distribution());
        CollectionSizing {
            collections,
            element_bytes: found.element_bytes(),
            fits: bytes.p99 <= THRESHOLDS.collection_bytes_p99,
            bytes,
            blocked: found.blocked,
            obstacle: found
                .obstacle
                .as_ref()
                .map(|(_, obstacle)| obstacle.words()),
            indexed: found.indexed as f64 / collections as f64,
            aerospike_secondary_bytes: aerospike_secondary_bytes(count.total),
            count,
        }
    })
}

fn rewrites(writes_per_s: Option<f64>, bytes: &Distribution, bins: &[BinSizing]) -> Vec<Rewrite> {
    let rewrite = |bin: Option<&str>, changed_bytes: f64| {
        let factor_p99 = rewrite_factor(bytes.p99, changed_bytes);
        Rewrite {
            bin: bin.map(str::to_owned),
            changed_bytes,
            factor_p50: rewrite_factor(bytes.p50, changed_bytes),
            factor_p99,
            megabytes_per_s: writes_per_s.map(|rate| rate * bytes.p99 as f64 / 1e6),
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
fn heaviest(
    options: &SizingOptions,
    surveys: &BTreeMap<SetName, SetStats>,
    of_set: fn(&SetStats) -> &Top,
) -> Vec<RecordSizing> {
    let of_set = |(names, stats)| of_set(stats).weighed().map(move |found| (names, found));
    let mut records: Vec<(&SetName, &(u64, RecordMeasure))> =
        surveys.iter().flat_map(of_set).collect();
    // Stable: equals stay in the order of sets and keys.
    records.sort_by_key(|(_, (weight, _))| std::cmp::Reverse(*weight));
    records.truncate(options.top);
    records
        .into_iter()
        .map(|((namespace, set), (_, record))| RecordSizing::of(namespace, set, record))
        .collect()
}
