//! The tables of a sizing.

use super::date::date;
use super::{ROWS_SHOWN, SETS_SHOWN};
use crate::report::{Cell, Table};
use crate::sizing::model::{RecordSizing, SetSizing, ShardScenario, Sizing};
use crate::sizing::recommendation::COPIES;

fn optional<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
    value.map_or_else(Cell::missing, cell)
}

fn of_sets(sizing: &Sizing, mut table: Table, row: impl Fn(&SetSizing) -> Vec<Cell>) -> Table {
    for set in sizing.sets.iter().take(ROWS_SHOWN) {
        let name = Cell::text(sizing.name(set));
        table.row(std::iter::once(name).chain(row(set)));
    }
    table
}

pub(super) fn sizes(sizing: &Sizing) -> Table {
    let columns = [
        "set", "records", "p50", "p95", "p99", "max", "mean", "total",
    ];
    of_sets(sizing, Table::new("Record sizes", &columns), |set| {
        vec![
            Cell::count(set.records),
            Cell::bytes(set.bytes.p50),
            Cell::bytes(set.bytes.p95),
            Cell::bytes(set.bytes.p99),
            Cell::bytes(set.bytes.max),
            Cell::decimal(set.bytes.mean, 1),
            Cell::bytes(set.bytes.total),
        ]
    })
}

pub(super) fn shares(sizing: &Sizing) -> Table {
    let mut columns = vec!["set"];
    let labels = sizing.sets.first().map_or(&[][..], |set| &set.shares);
    columns.extend(labels.iter().map(|share| share.label));
    of_sets(
        sizing,
        Table::new("Part of the records by size", &columns),
        |set| {
            set.shares
                .iter()
                .map(|share| Cell::share(share.share, 2))
                .collect()
        },
    )
}

/// Returns the table of a sample's intervals; `None` without a sample.
pub(super) fn intervals(sizing: &Sizing) -> Option<Table> {
    sizing.sample?;
    let columns = ["set", "measured", "of", "p50", "p95", "p99", "mean"];
    let caption = "95 % intervals, by drawing the sample again (bootstrap)";
    let range = |(from, to): (u64, u64)| Cell::text(format!("{from}-{to}"));
    Some(of_sets(sizing, Table::new(caption, &columns), |set| {
        let mut cells = vec![Cell::count(set.measured), Cell::count(set.records)];
        if let Some(found) = &set.intervals {
            cells.extend([range(found.p50), range(found.p95), range(found.p99)]);
            cells.push(Cell::text(format!(
                "{:.1}-{:.1}",
                found.mean.0, found.mean.1
            )));
        }
        cells
    }))
}

pub(super) fn bins(sizing: &Sizing) -> Table {
    let columns = [
        "set",
        "bin",
        "type",
        "present",
        "of all bytes",
        "p50",
        "p99",
        "max",
    ];
    let mut table =
        Table::new("Bins, the heaviest of each set first", &columns).words(&["bin", "type"]);
    let bins = sizing
        .sets
        .iter()
        .flat_map(|set| set.bins.iter().map(move |bin| (set, bin)));
    for (set, bin) in bins.take(ROWS_SHOWN) {
        table.row([
            Cell::text(sizing.name(set)),
            Cell::text(&bin.bin),
            Cell::text(bin.types.join(", ")),
            Cell::share(bin.presence, 1),
            Cell::share(bin.bytes_share, 1),
            Cell::bytes(bin.bytes.p50),
            Cell::bytes(bin.bytes.p99),
            Cell::bytes(bin.bytes.max),
        ]);
    }
    table
}

/// Returns the table of lists and maps; `None` if there are none.
pub(super) fn collections(sizing: &Sizing) -> Option<Table> {
    let columns = [
        "set",
        "bin",
        "count p50",
        "count p99",
        "count max",
        "mean element",
        "bytes p99",
        "bytes max",
        "of 128 KiB",
    ];
    let mut table = Table::new("Lists and maps", &columns).words(&["bin"]);
    let bins = sizing
        .sets
        .iter()
        .flat_map(|set| set.bins.iter().map(move |bin| (set, bin)));
    for (set, bin) in bins {
        let Some(found) = bin
            .collection
            .as_ref()
            .filter(|_| table.rows.len() < ROWS_SHOWN)
        else {
            continue;
        };
        let threshold = sizing.thresholds.collection_bytes_p99;
        table.row([
            Cell::text(sizing.name(set)),
            Cell::text(&bin.bin),
            Cell::count(found.count.p50),
            Cell::count(found.count.p99),
            Cell::count(found.count.max),
            Cell::decimal(found.element_bytes, 1),
            Cell::bytes(found.bytes.p99),
            Cell::bytes(found.bytes.max),
            Cell::share(found.bytes.p99 as f64 / threshold as f64, 0),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

pub(super) fn records(sizing: &Sizing, caption: &str, records: &[RecordSizing]) -> Table {
    let columns = [
        "key",
        "set",
        "bytes",
        "largest bin",
        "bin bytes",
        "writes",
        "last written (UTC)",
    ];
    let mut table = Table::new(caption, &columns).words(&["set", "largest bin"]);
    for record in records {
        let digest = record
            .digest
            .as_ref()
            .map(|digest| format!("digest {digest}"));
        let key = record
            .key
            .clone()
            .or(digest)
            .unwrap_or_else(|| "(no key)".to_owned());
        let (bin, bin_bytes) = match &record.largest_bin {
            Some((bin, bytes)) => (Cell::text(bin), Cell::bytes(*bytes)),
            None => (Cell::missing(), Cell::missing()),
        };
        table.row([
            Cell::text(key),
            Cell::text(sizing.name_of(&record.namespace, &record.set)),
            Cell::bytes(record.bytes),
            bin,
            bin_bytes,
            optional(record.generation, |generation| {
                Cell::count(u64::from(generation))
            }),
            optional(record.last_update_ms, |ms| {
                Cell::shown(date(ms), ms.to_string())
            }),
        ]);
    }
    table
}

/// Returns the keys behind the first verdict.
pub(super) fn headline(sizing: &Sizing) -> Table {
    let headline = &sizing.verdict;
    let is_refused = headline.keys.iter().any(|key| key.key_busy.is_some());
    let mut columns = vec!["key", "set", "bin", "bytes", "of the set's bytes"];
    columns.extend(is_refused.then_some("KEY_BUSY"));
    columns.push("shards");
    let mut table = Table::new("The keys behind it", &columns).words(&["set", "bin"]);
    let name = |namespace: &String, set: &String| sizing.name_of(namespace, set);
    let set = headline.namespace.as_ref().zip(headline.set.as_ref());
    for (place, key) in headline.keys.iter().enumerate() {
        let mut cells = vec![
            Cell::text(&key.key),
            Cell::text(set.map_or_else(String::new, |(namespace, set)| name(namespace, set))),
            optional(key.bin.as_ref(), Cell::text),
            optional(key.bytes, Cell::bytes),
            optional(key.bytes_share, |share| Cell::share(share, 1)),
        ];
        cells.extend(is_refused.then(|| optional(key.key_busy, Cell::count)));
        cells.push(optional(
            headline.shards.filter(|_| place == 0),
            Cell::count,
        ));
        table.row(cells);
    }
    table
}

/// Returns the table of the largest sharded collections; `None` if there are none.
pub(super) fn sharded(sizing: &Sizing) -> Option<Table> {
    let columns = [
        "key",
        "set",
        "bin",
        "shards",
        "records",
        "elements",
        "bytes",
        "largest shard",
        "judged",
    ];
    let mut table = Table::new("Sharded collections", &columns).words(&["set", "bin", "judged"]);
    let found = sizing
        .sets
        .iter()
        .flat_map(|set| set.sharded.iter().map(move |found| (set, found)));
    for (set, found) in found.take(ROWS_SHOWN) {
        table.row([
            Cell::text(&found.key),
            Cell::text(sizing.name(set)),
            optional(found.bin.as_ref(), Cell::text),
            Cell::count(found.shards),
            Cell::count(found.companions),
            Cell::count(found.elements),
            Cell::bytes(found.bytes),
            Cell::bytes(found.largest_bytes),
            Cell::text(found.level.word()),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

pub(super) fn contended(sizing: &Sizing) -> Table {
    let columns = ["key", "set", "bin", "shards", "bytes", "waits", "KEY_BUSY"];
    let mut table =
        Table::new("The records that writers fought over", &columns).words(&["set", "bin"]);
    for record in &sizing.contended {
        let set = record.set.as_ref();
        table.row([
            Cell::text(record.name()),
            optional(set, |set| {
                Cell::text(sizing.name_of(&record.namespace, set))
            }),
            optional(record.bin.as_ref(), Cell::text),
            optional(record.shards, Cell::count),
            optional(record.bytes, Cell::bytes),
            Cell::count(record.waits),
            Cell::count(record.key_busy),
        ]);
    }
    table
}

pub(super) fn advice(sizing: &Sizing) -> Table {
    let columns = [
        "set",
        "largest",
        "by size",
        "by rate",
        "shards",
        "made",
        "bound by",
        "elements/shard",
        "made for p99",
        "what helps",
    ];
    let table = Table::new(
        "Shards for the largest, and for one at the 99th percentile",
        &columns,
    );
    of_sets(sizing, table.words(&["bound by", "what helps"]), |set| {
        let advice = &set.advice;
        vec![
            Cell::bytes(advice.total_bytes),
            Cell::count(advice.shards_by_size),
            Cell::count(advice.shards_by_rate),
            Cell::count(advice.shards),
            Cell::count(advice.shards_pow2),
            Cell::text(advice.bound_by),
            optional(advice.elements_per_shard, Cell::count),
            Cell::count(advice.shards_p99),
            Cell::text(advice.remedy.words()),
        ]
    })
}

/// Returns the table of what each number of shards would give.
pub(in crate::sizing) fn what_if_table(subject: &str, rows: &[ShardScenario]) -> Table {
    let columns = [
        "shards",
        "bytes/shard",
        "writes/s",
        "lambda",
        "P2",
        "judged",
        "Aerospike index",
        "index",
        "reads",
    ];
    let mut table =
        Table::new(format!("{subject} by number of shards"), &columns).words(&["judged"]);
    for row in rows {
        table.row([
            Cell::count(row.shards),
            Cell::bytes(row.bytes_per_shard),
            optional(row.writes_per_s, |rate| Cell::decimal(rate, 2)),
            optional(row.lambda, |lambda| Cell::decimal(lambda, 3)),
            optional(row.p2, |chance| Cell::decimal(chance, 4)),
            Cell::text(row.band.word()),
            Cell::bytes(row.aerospike_index_bytes),
            optional(row.index_bytes, Cell::bytes),
            Cell::count(row.reads),
        ]);
    }
    table
}

pub(super) fn index(sizing: &Sizing) -> Table {
    let aerospike = format!("Aerospike, {COPIES} copies");
    let columns = [
        "set",
        "records",
        &aerospike,
        "spikelet, measured",
        "secondary index",
    ];
    of_sets(sizing, Table::new("Memory of the index", &columns), |set| {
        let collections = set.bins.iter().filter_map(|bin| bin.collection.as_ref());
        let secondary = collections
            .map(|found| found.aerospike_secondary_bytes)
            .max();
        vec![
            Cell::count(set.records),
            Cell::bytes(set.index.aerospike_bytes),
            optional(set.index.bytes, Cell::bytes),
            optional(secondary, Cell::bytes),
        ]
    })
}

pub(super) fn namespaces(sizing: &Sizing) -> Table {
    let columns = [
        "namespace",
        "records",
        "damaged",
        "index",
        "a record",
        "on devices",
        "log written a byte",
    ];
    let mut table = Table::new("Namespaces, measured", &columns);
    for one in &sizing.namespaces {
        table.row([
            Cell::text(&one.namespace),
            Cell::count(one.records),
            Cell::count(one.damaged),
            Cell::bytes(one.index_bytes),
            Cell::decimal(one.index_bytes_per_record, 1),
            Cell::bytes(one.device_bytes),
            optional(one.log_write_amplification, |factor| {
                Cell::decimal(factor, 2)
            }),
        ]);
    }
    table
}

pub(super) fn rewrites(sizing: &Sizing) -> Table {
    let columns = [
        "set",
        "changed",
        "bytes changed",
        "factor at p50",
        "factor at p99",
        "MB/s at p99",
    ];
    let mut table = Table::new("Bytes written for each byte changed", &columns).words(&["changed"]);
    for set in sizing.sets.iter().take(SETS_SHOWN) {
        for rewrite in &set.rewrites {
            let what = rewrite.bin.as_ref().map_or_else(
                || "an integer".to_owned(),
                |bin| format!("an element of {bin}"),
            );
            table.row([
                Cell::text(sizing.name(set)),
                Cell::text(what),
                Cell::decimal(rewrite.changed_bytes, 1),
                Cell::decimal(rewrite.factor_p50, 0),
                Cell::decimal(rewrite.factor_p99, 0),
                optional(rewrite.megabytes_per_s, |rate| Cell::decimal(rate, 2)),
            ]);
        }
    }
    table
}

pub(super) fn lints(sizing: &Sizing) -> Table {
    let columns = ["rule", "set", "bin", "records", "what it means"];
    let mut table = Table::new("Worth knowing", &columns).words(&["set", "bin", "what it means"]);
    for lint in sizing.lints.iter().take(ROWS_SHOWN) {
        table.row([
            Cell::text(lint.code),
            match &lint.set {
                Some(set) => Cell::text(sizing.name_of(&lint.namespace, set)),
                None => Cell::missing(),
            },
            Cell::text(lint.bin.as_deref().unwrap_or_default()),
            Cell::count(lint.records),
            Cell::text(&lint.sentence),
        ]);
    }
    table
}

/// Returns a row for each set, with everything that is one number.
pub(super) fn csv(sizing: &Sizing) -> Table {
    let columns = [
        "namespace",
        "set",
        "records",
        "measured",
        "verdict",
        "decided_by",
        "remedy",
        "value",
        "threshold",
        "p50",
        "p95",
        "p99",
        "max",
        "mean",
        "total",
        "stored_total",
        "below_1_kib",
        "from_1_to_128_kib",
        "to_1_mib",
        "to_8_mib",
        "beyond_8_mib",
        "shards_by_size",
        "shards_by_rate",
        "shards",
        "shards_pow2",
        "bound_by",
        "aerospike_index_bytes",
        "index_bytes",
    ];
    let mut table = Table::new("", &columns);
    for set in &sizing.sets {
        let number = |number: u64| Cell::text(number.to_string());
        let mut row = vec![
            Cell::text(&set.namespace),
            Cell::text(&set.set),
            number(set.records),
            number(set.measured),
            Cell::text(set.verdict.level.word()),
            Cell::text(set.verdict.decided_by),
            Cell::text(set.verdict.remedy.words()),
            Cell::text(set.verdict.value.to_string()),
            Cell::text(set.verdict.threshold.to_string()),
        ];
        let sizes = &set.bytes;
        row.extend([sizes.p50, sizes.p95, sizes.p99, sizes.max].map(number));
        row.push(Cell::text(sizes.mean.to_string()));
        row.extend([sizes.total, set.stored_bytes.total].map(number));
        row.extend(set.shares.iter().map(|share| number(share.records)));
        let advice = &set.advice;
        row.extend(
            [
                advice.shards_by_size,
                advice.shards_by_rate,
                advice.shards,
                advice.shards_pow2,
            ]
            .map(number),
        );
        row.push(Cell::text(advice.bound_by));
        row.push(number(set.index.aerospike_bytes));
        row.push(set.index.bytes.map_or_else(Cell::missing, number));
        table.row(row);
    }
    table
}
