//! The tables of a sizing.

use std::fmt::Write as _;

use super::{ROWS_SHOWN, SETS_SHOWN};
use crate::report::{ReportTable, bytes};
use crate::sizing::model::{RecordSizing, SetSizing, ShardScenario, Sizing};
use crate::sizing::recommendation::COPIES;

impl Sizing {
    /// Returns the sets, each after its name.
    fn rows(&self) -> impl Iterator<Item = (String, &SetSizing)> {
        let sets = self.sets.iter().take(ROWS_SHOWN);
        sets.map(|set| (self.name(set), set))
    }

    /// Returns parts of all sets, each after the name of its set.
    fn parts<'s, P: 's>(
        &'s self,
        of: impl Fn(&'s SetSizing) -> &'s [P],
    ) -> impl Iterator<Item = (String, &'s P)> {
        let parts = move |set| of(set).iter().map(move |part| (self.name(set), part));
        self.sets.iter().flat_map(parts)
    }
}

pub(super) fn sizes(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Record sizes",
        sizing.rows(),
        "set: 0 | records | p50: bytes/p50 B | p95: bytes/p95 B | p99: bytes/p99 B | max: bytes/max B | \
         mean: bytes/mean .1 | total: total_bytes/estimate B",
    )
}

pub(super) fn shares(sizing: &Sizing) -> ReportTable {
    let labels = sizing.sets.first().map_or(&[][..], |set| &set.shares);
    let mut columns = "set: 0".to_owned();
    for (place, share) in labels.iter().enumerate() {
        let _ = write!(columns, " | {}: shares/{place}/share %2", share.label);
    }
    ReportTable::of("Part of the records by size", sizing.rows(), &columns)
}

/// Returns the table of a sample's intervals; empty without a sample.
pub(super) fn intervals(sizing: &Sizing) -> ReportTable {
    let sampled = sizing.rows().filter(|_| sizing.sample.is_some());
    let rows = sampled.map(|(name, set)| {
        let range = |(from, to): (u64, u64)| format!("{from}-{to}");
        let found = set.intervals.as_ref().map(|found| {
            let mean = format!("{:.1}-{:.1}", found.mean.0, found.mean.1);
            let [p50, p95, p99] = [found.p50, found.p95, found.p99].map(range);
            [p50, p95, p99, mean]
        });
        let total = set.total_bytes.interval;
        let total = total.map(|(from, to)| format!("{} to {}", bytes(from), bytes(to)));
        (name, set, found, total)
    });
    ReportTable::of(
        "95 % intervals, by what chance may do to a sample",
        rows,
        "set: 0 | measured | of: records | p50: 2/0 | p95: 2/1 | p99: 2/2 | mean: 2/3 | total: 3",
    )
}

pub(super) fn bins(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Bins, the heaviest of each set first",
        sizing.parts(|set| &set.bins).take(ROWS_SHOWN),
        "set: 0 | bin | type: types | present: presence %1 | of all bytes: bytes_share %1 | p50: bytes/p50 B | \
         p99: bytes/p99 B | max: bytes/max B",
    )
}

pub(super) fn collections(sizing: &Sizing) -> ReportTable {
    let bound = sizing.thresholds.collection_bytes_p99 as f64;
    let rows = sizing.parts(|set| &set.bins).filter_map(|(name, bin)| {
        let found = bin.collection.as_ref()?;
        Some((name, &bin.bin, found, found.bytes.p99 as f64 / bound))
    });
    ReportTable::of(
        "Lists and maps",
        rows.take(ROWS_SHOWN),
        "set: 0 | bin: 1 | count p50: count/p50 | count p99: count/p99 | count max: count/max | \
         mean element: element_bytes .1 | bytes p99: bytes/p99 B | bytes max: bytes/max B | of 128 KiB: 3 %0",
    )
}

/// Returns a table of records, without the columns in which nothing is known.
pub(super) fn records(sizing: &Sizing, caption: &str, records: &[RecordSizing]) -> ReportTable {
    let share = |record: &RecordSizing| {
        let mut sets = sizing.sets.iter();
        let set = sets.find(|set| {
            set.namespace == record.namespace && Some(&set.set) == record.set.as_ref()
        })?;
        Some(record.bytes? as f64 / set.total_bytes.estimate.max(1) as f64)
    };
    let rows = records.iter().map(|record| {
        let set = record.set.as_ref();
        let set = set.map(|set| sizing.name_of(&record.namespace, set));
        (record.name(), set, share(record), record)
    });
    ReportTable::of(
        caption,
        rows,
        "key: 0 | set: 1 | bytes B | of the set's bytes: 2 %1 | bin | bin bytes: bin_bytes B | shards | writes: generation | \
         last written (UTC): last_update_ms date | waits | KEY_BUSY: key_busy",
    )
    .of_known()
}

/// Returns the table of the largest sharded collections.
pub(super) fn sharded(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Sharded collections",
        sizing.parts(|set| &set.sharded).take(ROWS_SHOWN),
        "key | set: 0 | bin | shards | records: companions | elements | bytes B | largest shard: largest_bytes B | judged: level",
    )
}

pub(super) fn advice(sizing: &Sizing) -> ReportTable {
    let rows = sizing.rows();
    let rows = rows.map(|(name, set)| (name, &set.advice, set.advice.remedy.words()));
    ReportTable::of(
        "Shards for the largest, and for one at the 99th percentile",
        rows,
        "set: 0 | largest: total_bytes B | by size: shards_by_size | by rate: shards_by_rate | shards | made: shards_pow2 | \
         bound by: bound_by | elements/shard: elements_per_shard | made for p99: shards_p99 | what helps: 2",
    )
}

/// Returns the table of what each number of shards would give.
pub(in crate::sizing) fn what_if_table(subject: &str, rows: &[ShardScenario]) -> ReportTable {
    ReportTable::of(
        format!("{subject} by number of shards"),
        rows,
        "shards | largest shard: largest_bytes B | writes/s: writes_per_s .2 | lambda .3 | P2: p2 .4 | judged: band | \
         Aerospike index: aerospike_index_bytes B | index: index_bytes B | reads",
    )
}

pub(super) fn index(sizing: &Sizing) -> ReportTable {
    let rows = sizing.rows().map(|(name, set)| {
        let collections = set.bins.iter().filter_map(|bin| bin.collection.as_ref());
        let secondary = collections.map(|found| found.aerospike_secondary_bytes);
        (name, set, secondary.max())
    });
    ReportTable::of(
        "Memory of the index",
        rows,
        &format!(
            "set: 0 | records | Aerospike, {COPIES} copies: index/aerospike_bytes B | spikelet, measured: index/bytes B | \
             secondary index: 2 B"
        ),
    )
}

pub(super) fn namespaces(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Namespaces, measured",
        &sizing.namespaces,
        "namespace | records | damaged | index: index_bytes B | a record: index_bytes_per_record .1 | \
         on devices: device_bytes B | log written a byte: log_write_amplification .2",
    )
}

pub(super) fn rewrites(sizing: &Sizing) -> ReportTable {
    let sets = sizing.sets.iter().take(SETS_SHOWN);
    let rows = sets.flat_map(|set| set.rewrites.iter().map(move |rewrite| (set, rewrite)));
    let rows = rows.map(|(set, rewrite)| {
        let element = |bin: &String| format!("an element of {bin}");
        let bin = rewrite.bin.as_ref();
        let changed = bin.map_or_else(|| "an integer".to_owned(), element);
        (sizing.name(set), changed, rewrite)
    });
    ReportTable::of(
        "Bytes written for each byte changed",
        rows,
        "set: 0 | changed: 1 | bytes changed: changed_bytes .1 | factor at p50: factor_p50 .0 | factor at p99: factor_p99 .0 | \
         MB/s at p99: megabytes_per_s .2",
    )
}

pub(super) fn lints(sizing: &Sizing) -> ReportTable {
    let rows = sizing.lints.iter().take(ROWS_SHOWN).map(|lint| {
        let set = sizing.name_of(&lint.namespace, &lint.set);
        (set, lint.bin.as_deref().unwrap_or_default(), lint)
    });
    ReportTable::of(
        "Worth knowing",
        rows,
        "rule: code | set: 0 | bin: 1 | records | meaning: sentence",
    )
}

/// The columns of the CSV form: everything of a set that is one number.
pub(super) const CSV_COLUMNS: &str = "namespace | set | records | measured | verdict/level | verdict/decided_by | \
     verdict/remedy | verdict/value | verdict/threshold | bytes/p50 | bytes/p95 | bytes/p99 | bytes/max | \
     bytes/mean | bytes/total | stored_bytes/total | below_1_kib: shares/0/records | \
     from_1_to_128_kib: shares/1/records | to_1_mib: shares/2/records | to_8_mib: shares/3/records | \
     beyond_8_mib: shares/4/records | advice/shards_by_size | advice/shards_by_rate | advice/shards | \
     advice/shards_pow2 | advice/bound_by | index/aerospike_bytes | index/bytes";
