//! The tables of a sizing.

use super::date::date;
use super::{ROWS_SHOWN, SETS_SHOWN};
use crate::report::{Cell, ReportTable, bytes};
use crate::sizing::model::{BinSizing, RecordSizing, SetSizing, ShardScenario, Sizing};
use crate::sizing::recommendation::COPIES;

impl Sizing {
    fn rows(&self) -> impl Iterator<Item = &SetSizing> {
        self.sets.iter().take(ROWS_SHOWN)
    }

    fn all_bins(&self) -> impl Iterator<Item = (&SetSizing, &BinSizing)> {
        let sets = self.sets.iter();
        sets.flat_map(|set| set.bins.iter().map(move |bin| (set, bin)))
    }
}

pub(super) fn sizes(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Record sizes",
        sizing.rows(),
        &[
            ("set", &|set| Cell::text(sizing.name(set))),
            ("records", &|set| Cell::count(set.records)),
            ("p50", &|set| Cell::bytes(set.bytes.p50)),
            ("p95", &|set| Cell::bytes(set.bytes.p95)),
            ("p99", &|set| Cell::bytes(set.bytes.p99)),
            ("max", &|set| Cell::bytes(set.bytes.max)),
            ("mean", &|set| Cell::decimal(set.bytes.mean, 1)),
            ("total", &|set| Cell::bytes(set.total_bytes.estimate)),
        ],
    )
}

pub(super) fn shares(sizing: &Sizing) -> ReportTable {
    let labels = sizing.sets.first().map_or(&[][..], |set| &set.shares);
    let columns: Vec<&str> = std::iter::once("set")
        .chain(labels.iter().map(|share| share.label))
        .collect();
    let mut table = ReportTable::new("Part of the records by size", &columns);
    for set in sizing.rows() {
        let shares = set.shares.iter().map(|share| Cell::share(share.share, 2));
        table.row(std::iter::once(Cell::text(sizing.name(set))).chain(shares));
    }
    table
}

/// Returns the table of a sample's intervals; `None` without a sample.
pub(super) fn intervals(sizing: &Sizing) -> Option<ReportTable> {
    sizing.sample?;
    let range = |(from, to): (u64, u64)| Cell::text(format!("{from}-{to}"));
    let of = |set: &SetSizing, read: fn(&crate::sizing::sample::Intervals) -> (u64, u64)| {
        Cell::optional(set.intervals.as_ref(), |found| range(read(found)))
    };
    let caption = "95 % intervals, by what chance may do to a sample";
    Some(ReportTable::of(
        caption,
        sizing.rows(),
        &[
            ("set", &|set| Cell::text(sizing.name(set))),
            ("measured", &|set| Cell::count(set.measured)),
            ("of", &|set| Cell::count(set.records)),
            ("p50", &|set| of(set, |found| found.p50)),
            ("p95", &|set| of(set, |found| found.p95)),
            ("p99", &|set| of(set, |found| found.p99)),
            ("mean", &|set| {
                Cell::optional(set.intervals.as_ref(), |found| {
                    Cell::text(format!("{:.1}-{:.1}", found.mean.0, found.mean.1))
                })
            }),
            ("total", &|set| {
                Cell::optional(set.total_bytes.interval, |(from, to)| {
                    Cell::text(format!("{} to {}", bytes(from), bytes(to)))
                })
            }),
        ],
    ))
}

pub(super) fn bins(sizing: &Sizing) -> ReportTable {
    let caption = "Bins, the heaviest of each set first";
    ReportTable::of(
        caption,
        sizing.all_bins().take(ROWS_SHOWN),
        &[
            ("set", &|(set, _)| Cell::text(sizing.name(set))),
            ("bin", &|(_, bin)| Cell::text(&bin.bin)),
            ("type", &|(_, bin)| Cell::text(bin.types.join(", "))),
            ("present", &|(_, bin)| Cell::share(bin.presence, 1)),
            ("of all bytes", &|(_, bin)| Cell::share(bin.bytes_share, 1)),
            ("p50", &|(_, bin)| Cell::bytes(bin.bytes.p50)),
            ("p99", &|(_, bin)| Cell::bytes(bin.bytes.p99)),
            ("max", &|(_, bin)| Cell::bytes(bin.bytes.max)),
        ],
    )
}

/// Returns the table of lists and maps; `None` if there are none.
pub(super) fn collections(sizing: &Sizing) -> Option<ReportTable> {
    let bound = sizing.thresholds.collection_bytes_p99 as f64;
    let rows = sizing
        .all_bins()
        .filter_map(|(set, bin)| Some((set, &bin.bin, bin.collection.as_ref()?)));
    ReportTable::of(
        "Lists and maps",
        rows.take(ROWS_SHOWN),
        &[
            ("set", &|(set, ..)| Cell::text(sizing.name(set))),
            ("bin", &|(_, bin, _)| Cell::text(*bin)),
            ("count p50", &|(.., found)| Cell::count(found.count.p50)),
            ("count p99", &|(.., found)| Cell::count(found.count.p99)),
            ("count max", &|(.., found)| Cell::count(found.count.max)),
            ("mean element", &|(.., found)| {
                Cell::decimal(found.element_bytes, 1)
            }),
            ("bytes p99", &|(.., found)| Cell::bytes(found.bytes.p99)),
            ("bytes max", &|(.., found)| Cell::bytes(found.bytes.max)),
            ("of 128 KiB", &|(.., found)| {
                Cell::share(found.bytes.p99 as f64 / bound, 0)
            }),
        ],
    )
    .if_any()
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
    ReportTable::of(
        caption,
        records,
        &[
            ("key", &|record| Cell::text(record.name())),
            ("set", &|record| {
                let name = |set: &String| Cell::text(sizing.name_of(&record.namespace, set));
                Cell::optional(record.set.as_ref(), name)
            }),
            ("bytes", &|record| Cell::bytes(record.bytes)),
            ("of the set's bytes", &|record| {
                Cell::share(share(record), 1)
            }),
            ("bin", &|record| {
                Cell::optional(record.bin.as_ref(), Cell::text)
            }),
            ("bin bytes", &|record| Cell::bytes(record.bin_bytes)),
            ("shards", &|record| Cell::count(record.shards)),
            ("writes", &|record| Cell::count(record.generation)),
            ("last written (UTC)", &|record| {
                Cell::optional(record.last_update_ms, |ms| {
                    Cell::shown(date(ms), ms.to_string())
                })
            }),
            ("waits", &|record| Cell::count(record.waits)),
            ("KEY_BUSY", &|record| Cell::count(record.key_busy)),
        ],
    )
    .of_known()
}

/// Returns the table of the largest sharded collections; `None` if there are none.
pub(super) fn sharded(sizing: &Sizing) -> Option<ReportTable> {
    let sets = sizing.sets.iter();
    let rows = sets.flat_map(|set| set.sharded.iter().map(move |found| (set, found)));
    ReportTable::of(
        "Sharded collections",
        rows.take(ROWS_SHOWN),
        &[
            ("key", &|(_, found)| Cell::text(&found.key)),
            ("set", &|(set, _)| Cell::text(sizing.name(set))),
            ("bin", &|(_, found)| {
                Cell::optional(found.bin.as_ref(), Cell::text)
            }),
            ("shards", &|(_, found)| Cell::count(found.stats.shards)),
            ("records", &|(_, found)| Cell::count(found.stats.companions)),
            ("elements", &|(_, found)| Cell::count(found.stats.elements)),
            ("bytes", &|(_, found)| Cell::bytes(found.stats.bytes)),
            ("largest shard", &|(_, found)| {
                Cell::bytes(found.stats.largest_bytes)
            }),
            ("judged", &|(_, found)| Cell::text(found.level.text())),
        ],
    )
    .if_any()
}

pub(super) fn advice(sizing: &Sizing) -> ReportTable {
    let caption = "Shards for the largest, and for one at the 99th percentile";
    let rows = sizing.rows().map(|set| (set, &set.advice));
    ReportTable::of(
        caption,
        rows,
        &[
            ("set", &|(set, _)| Cell::text(sizing.name(set))),
            ("largest", &|(_, advice)| Cell::bytes(advice.total_bytes)),
            ("by size", &|(_, advice)| Cell::count(advice.shards_by_size)),
            ("by rate", &|(_, advice)| Cell::count(advice.shards_by_rate)),
            ("shards", &|(_, advice)| Cell::count(advice.shards)),
            ("made", &|(_, advice)| Cell::count(advice.shards_pow2)),
            ("bound by", &|(_, advice)| Cell::text(advice.bound_by)),
            ("elements/shard", &|(_, advice)| {
                Cell::count(advice.elements_per_shard)
            }),
            ("made for p99", &|(_, advice)| {
                Cell::count(advice.shards_p99)
            }),
            ("what helps", &|(_, advice)| {
                Cell::text(advice.remedy.words())
            }),
        ],
    )
}

/// Returns the table of what each number of shards would give.
pub(in crate::sizing) fn what_if_table(subject: &str, rows: &[ShardScenario]) -> ReportTable {
    ReportTable::of(
        format!("{subject} by number of shards"),
        rows,
        &[
            ("shards", &|row| Cell::count(row.shards)),
            ("largest shard", &|row| Cell::bytes(row.largest_bytes)),
            ("writes/s", &|row| Cell::decimal(row.writes_per_s, 2)),
            ("lambda", &|row| Cell::decimal(row.lambda, 3)),
            ("P2", &|row| Cell::decimal(row.p2, 4)),
            ("judged", &|row| Cell::text(row.band.text())),
            ("Aerospike index", &|row| {
                Cell::bytes(row.aerospike_index_bytes)
            }),
            ("index", &|row| Cell::bytes(row.index_bytes)),
            ("reads", &|row| Cell::count(row.reads)),
        ],
    )
}

pub(super) fn index(sizing: &Sizing) -> ReportTable {
    let secondary = |set: &SetSizing| {
        let collections = set.bins.iter().filter_map(|bin| bin.collection.as_ref());
        collections
            .map(|found| found.aerospike_secondary_bytes)
            .max()
    };
    ReportTable::of(
        "Memory of the index",
        sizing.rows(),
        &[
            ("set", &|set| Cell::text(sizing.name(set))),
            ("records", &|set| Cell::count(set.records)),
            (&format!("Aerospike, {COPIES} copies"), &|set| {
                Cell::bytes(set.index.aerospike_bytes)
            }),
            ("spikelet, measured", &|set| Cell::bytes(set.index.bytes)),
            ("secondary index", &|set| Cell::bytes(secondary(set))),
        ],
    )
}

pub(super) fn namespaces(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Namespaces, measured",
        &sizing.namespaces,
        &[
            ("namespace", &|one| Cell::text(&one.namespace)),
            ("records", &|one| Cell::count(one.records)),
            ("damaged", &|one| Cell::count(one.damaged)),
            ("index", &|one| Cell::bytes(one.index_bytes)),
            ("a record", &|one| {
                Cell::decimal(one.index_bytes_per_record, 1)
            }),
            ("on devices", &|one| Cell::bytes(one.device_bytes)),
            ("log written a byte", &|one| {
                Cell::decimal(one.log_write_amplification, 2)
            }),
        ],
    )
}

pub(super) fn rewrites(sizing: &Sizing) -> ReportTable {
    let sets = sizing.sets.iter().take(SETS_SHOWN);
    let rows = sets.flat_map(|set| set.rewrites.iter().map(move |rewrite| (set, rewrite)));
    let element = |bin: &String| format!("an element of {bin}");
    ReportTable::of(
        "Bytes written for each byte changed",
        rows,
        &[
            ("set", &|(set, _)| Cell::text(sizing.name(set))),
            ("changed", &|(_, rewrite)| {
                let bin = rewrite.bin.as_ref();
                Cell::text(bin.map_or_else(|| "an integer".to_owned(), element))
            }),
            ("bytes changed", &|(_, rewrite)| {
                Cell::decimal(rewrite.changed_bytes, 1)
            }),
            ("factor at p50", &|(_, rewrite)| {
                Cell::decimal(rewrite.factor_p50, 0)
            }),
            ("factor at p99", &|(_, rewrite)| {
                Cell::decimal(rewrite.factor_p99, 0)
            }),
            ("MB/s at p99", &|(_, rewrite)| {
                Cell::decimal(rewrite.megabytes_per_s, 2)
            }),
        ],
    )
}

pub(super) fn lints(sizing: &Sizing) -> ReportTable {
    ReportTable::of(
        "Worth knowing",
        sizing.lints.iter().take(ROWS_SHOWN),
        &[
            ("rule", &|lint| Cell::text(lint.code)),
            ("set", &|lint| {
                let name = |set: &String| Cell::text(sizing.name_of(&lint.namespace, set));
                Cell::optional(lint.set.as_ref(), name)
            }),
            ("bin", &|lint| {
                Cell::text(lint.bin.as_deref().unwrap_or_default())
            }),
            ("records", &|lint| Cell::count(lint.records)),
            ("meaning", &|lint| Cell::text(&lint.sentence)),
        ],
    )
}

/// The columns of the CSV form: everything of a set that is one number.
pub(super) const CSV_COLUMNS: &str = "namespace set records measured verdict/level verdict/decided_by verdict/remedy verdict/value \
     verdict/threshold bytes/p50 bytes/p95 bytes/p99 bytes/max bytes/mean bytes/total stored_bytes/total \
     below_1_kib=shares/0/records from_1_to_128_kib=shares/1/records to_1_mib=shares/2/records \
     to_8_mib=shares/3/records beyond_8_mib=shares/4/records advice/shards_by_size advice/shards_by_rate advice/shards advice/shards_pow2 advice/bound_by index/aerospike_bytes index/bytes";
