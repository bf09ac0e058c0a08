//! The results, as tables of at most 110 columns and as JSON.

use crate::Result;
use crate::cost::Cost;
use crate::measure::Measured;
use crate::plan::{Phase, Plan};
use crate::stores::StoreName;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::fmt::Write;

/// Quantiles of every latency column.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
type BytesOf = fn(&Cost) -> Option<u64>;
/// Bytes that an operation cost: names of the JSON, in the order of the table's columns.
const BYTES: [(&str, BytesOf); 5] = [
    ("pages_dirtied", |cost| Some(cost.traffic.dirtied)),
    ("write_calls", |cost| Some(cost.traffic.called)),
    ("file_growth", |cost| Some(cost.traffic.allocated)),
    ("log_appended", |cost| cost.log.map(|log| log.appended)),
    ("log_moved", |cost| cost.log.map(|log| log.moved)),
];
/// Phases that appear in the table of processor time, in the order of its columns.
const TIMED: [Phase; 4] = [Phase::Load, Phase::Get, Phase::Overwrite, Phase::Mix];
/// Loads after which the space of a record or an edge is printed.
const SPACE: [(Phase, &str); 4] = [
    (Phase::QueryLoad, "a record"),
    (Phase::GraphLoad, "an edge"),
    (Phase::GraphBulk10k, "an edge"),
    (Phase::GraphBulk100k, "an edge"),
];
/// Stores in a line of multiples of the floor: as many as fit.
const FLOOR_STORES_A_LINE: usize = 4;
/// Numbers in a line of the table of seconds: as many as fit.
const SECONDS_A_LINE: usize = 18;

/// The harness's own costs, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// One reading of the clock, which every latency holds.
    pub clock_ns: f64,
    /// One turn of the loop around an operation that does nothing, which every rate pays.
    pub loop_ns: f64,
    /// Decode, insert and encode of one list, which every edit of a store of plain bytes pays.
    pub codec_ns: f64,
}

/// One store in one phase with its number of threads, over all rounds.
#[derive(Debug)]
struct Row {
    phase: Phase,
    threads: usize,
    store: StoreName,
    rounds: Vec<Run>,
}

/// One round of a row.
#[derive(Debug)]
struct Run {
    measured: Measured,
    cost: Cost,
}

impl Row {
    fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|run| run.measured.rate()).collect()
    }

    fn latency(&self) -> Result<Histogram<u64>> {
        let mut all = Measured::new()?.latency;
        for round in &self.rounds {
            all.add(&round.measured.latency)?;
        }
        Ok(all)
    }

    /// Returns the median over the rounds of a cost per operation; `None` if a store cannot measure
    /// it.
    fn per_operation(&self, of: impl Fn(&Cost) -> Option<f64>) -> Option<f64> {
        let one = |run: &Run| Some(of(&run.cost)? / run.cost.operations as f64);
        Some(median(self.rounds.iter().map(one).collect::<Option<_>>()?))
    }

    /// Bytes an operation, of one kind.
    fn bytes(&self, of: impl Fn(&Cost) -> Option<u64>) -> Option<f64> {
        self.per_operation(|cost| Some(of(cost)? as f64))
    }

    /// Processor time an operation, in ns.
    fn processor_ns(&self) -> Option<f64> {
        self.per_operation(|cost| Some(cost.processor.as_nanos() as f64))
    }

    /// Median over the rounds of what the files of the store have allocated at the end, in bytes.
    fn disk_bytes(&self) -> f64 {
        let bytes = self.rounds.iter().map(|run| run.cost.disk_bytes as f64);
        median(bytes.collect())
    }

    /// Median over the rounds of the operations of each second.
    fn seconds(&self, seconds: u64) -> Vec<f64> {
        let of = |run: &Run, second| {
            let edits = run.measured.by_second.get(second);
            edits.copied().unwrap_or(0) as f64
        };
        (0..seconds as usize)
            .map(|second| median(self.rounds.iter().map(|run| of(run, second)).collect()))
            .collect()
    }
}

/// The median; of an even number, the mean of the two in the middle; of none, not a number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2);
    let lower = values.get(values.len().saturating_sub(1) / 2);
    upper
        .zip(lower)
        .map_or(f64::NAN, |(upper, lower)| (upper + lower) / 2.0)
}

/// Formats microseconds in at most eight characters, with hundredths below 100.
fn us(latency_ns: u64) -> String {
    let us = latency_ns as f64 / 1e3;
    if us < 100.0 {
        format!("{us:.2}")
    } else {
        format!("{us:.0}")
    }
}

/// Collects results, phase by phase, and prints them.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Takes in one run of one store; runs of the same kind gather in one row.
    pub fn add(
        &mut self,
        phase: Phase,
        threads: usize,
        store: StoreName,
        measured: Measured,
        cost: Cost,
    ) {
        let same = |row: &&mut Row| (row.phase, row.threads, row.store) == (phase, threads, store);
        let run = Run { measured, cost };
        match self.rows.iter_mut().find(same) {
            Some(row) => row.rounds.push(run),
            None => self.rows.push(Row {
                phase,
                threads,
                store,
                rounds: vec![run],
            }),
        }
    }

    /// The row of the same phase and threads, and another store.
    fn beside(&self, row: &Row, store: StoreName) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|other| {
            (other.phase, other.threads, other.store) == (row.phase, row.threads, store)
        })
    }

    /// Median over the rounds of `row`'s rate by that of the last of `--stores` in the phase.
    fn ratio(&self, row: &Row, plan: &Plan) -> f64 {
        let mut stores = plan.stores.iter().rev();
        let base = stores.find(|store| store.runs(row.phase));
        let base = base.and_then(|store| self.beside(row, *store));
        let rates = row
            .rates()
            .into_iter()
            .zip(base.map(Row::rates).unwrap_or_default());
        median(rates.map(|(rate, base)| rate / base).collect())
    }

    /// Median over the rounds of the time that `row`'s operation takes by that of the floor, the
    /// cost of the loop taken off both; None in phases without a floor.
    fn times_floor(&self, row: &Row, loop_ns: f64) -> Option<f64> {
        let floor = self.beside(row, StoreName::Floor)?;
        let own_ns = |rate: f64| row.threads as f64 * 1e9 / rate - loop_ns;
        let rates = row.rates().into_iter().zip(floor.rates());
        let times = rates.map(|(rate, floor)| own_ns(rate) / own_ns(floor));
        Some(median(times.collect()))
    }

    fn ordered(&self, phase: Phase, plan: &Plan) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| row.phase == phase).collect();
        let place = |store| plan.stores.iter().position(|other| *other == store);
        rows.sort_by_key(|row| (row.threads, place(row.store)));
        rows
    }

    /// The tables.
    pub fn table(&self, plan: &Plan, overhead: Overhead) -> Result<String> {
        let mut text = String::new();
        let Overhead {
            clock_ns,
            loop_ns,
            codec_ns,
        } = overhead;
        let codec_us = codec_ns / 1e3;
        writeln!(
            text,
            "\nEvery latency holds one clock reading ({clock_ns:.0} ns); every rate pays the loop \
             ({loop_ns:.0} ns an operation);\nan edit in a store of plain bytes pays decode and \
             encode ({codec_us:.1} us). Medians of {} round(s); rates are of\nrecords and edges; \
             latencies in us over all rounds are of calls: 1,000 records in load, query-load\nand \
             query-range, 64 in get-batch, 50 in query-page, 100 in groups, all in query-scan, 100 \
             edges in\ngraph-load; query-page, graph-page and graph-two-hops count calls. ratio: \
             to the last row.",
            plan.rounds(),
        )?;
        for phase in plan.phases() {
            let head = format!("{:<9} {:>3} store", phase.name(), "thr");
            writeln!(
                text,
                "\n{head:<31} {:>9} {:>19} {:>7} {:>7} {:>7} {:>8} {:>9}",
                "ops/s", "lowest .. highest", "ratio", "p50", "p99", "p99.9", "max"
            )?;
            for row in self.ordered(phase, plan) {
                let latency = row.latency()?;
                let [p50, p99, p999] =
                    QUANTILES.map(|quantile| us(latency.value_at_quantile(quantile)));
                let rates = row.rates();
                let range = format!(
                    "{:.0} .. {:.0}",
                    rates.iter().copied().fold(f64::INFINITY, f64::min),
                    rates.iter().copied().fold(0.0, f64::max)
                );
                writeln!(
                    text,
                    "{:<9} {:>3} {:<17} {:>9.0} {range:>19} {:>7.3} {p50:>7} {p99:>7} \
                     {p999:>8} {:>9}",
                    "",
                    row.threads,
                    row.store.name(),
                    median(rates),
                    self.ratio(row, plan),
                    us(latency.max()),
                )?;
            }
            self.floor_lines(phase, plan, loop_ns, &mut text)?;
        }
        self.cost_tables(plan, &mut text)?;
        self.space_table(plan, &mut text)?;
        self.list_tables(plan, &mut text)?;
        Ok(text)
    }

    /// For each number of threads: how many times the floor's time an operation takes.
    fn floor_lines(
        &self,
        phase: Phase,
        plan: &Plan,
        loop_ns: f64,
        text: &mut String,
    ) -> Result<()> {
        for threads in plan.threads() {
            let rows = self.ordered(phase, plan).into_iter();
            let rows = rows.filter(|row| row.threads == threads && row.store != StoreName::Floor);
            let times: Vec<String> = rows
                .filter_map(|row| {
                    let times = self.times_floor(row, loop_ns)?;
                    Some(format!("{} {times:.2}", row.store.name()))
                })
                .collect();
            for (line, some) in times.chunks(FLOOR_STORES_A_LINE).enumerate() {
                let label = if line == 0 { "times the floor" } else { "" };
                writeln!(text, "{label:<15} {threads:>3} {}", some.join(", "))?;
            }
        }
        Ok(())
    }

    /// For each number of threads: what the operations of the record phases cost beside time.
    fn cost_tables(&self, plan: &Plan, text: &mut String) -> Result<()> {
        for threads in plan.threads() {
            let row = |store, phase| {
                self.rows
                    .iter()
                    .find(|row| (row.store, row.phase, row.threads) == (store, phase, threads))
            };
            let stores = plan.stores.iter();
            let stores: Vec<_> = stores
                .filter(|store| TIMED.iter().any(|phase| row(**store, *phase).is_some()))
                .collect();
            if stores.is_empty() {
                continue;
            }
            writeln!(
                text,
                "\n{:<17} {:^35} | {:^32} | {:>10}\n{:<17} {:>8} {:>8} {:>9} {:>7} | {:>10} \
                 {:>11} {:>9} | {:>10}",
                format!("costs, {threads} thr"),
                "processor us an operation",
                "bytes an overwrite",
                "disk bytes",
                "",
                "load",
                "get",
                "overwrite",
                "mix",
                "made dirty",
                "write calls",
                "growth",
                "a record",
            )?;
            for store in stores {
                let [load, get, overwrite, mix] = TIMED.map(|phase| {
                    let ns = row(*store, phase).and_then(Row::processor_ns);
                    ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", ns / 1e3))
                });
                let puts = row(*store, Phase::Overwrite);
                let [dirtied, called, allocated, ..] = BYTES.map(|(_, of)| {
                    let bytes = puts.and_then(|row| row.bytes(of));
                    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{bytes:.0}"))
                });
                let disk = row(*store, Phase::Load).map_or_else(
                    || "-".to_owned(),
                    |row| format!("{:.0}", row.disk_bytes() / plan.records() as f64),
                );
                writeln!(
                    text,
                    "{:<17} {load:>8} {get:>8} {overwrite:>9} {mix:>7} | {dirtied:>10} \
                     {called:>11} {allocated:>9} | {disk:>10}",
                    store.name(),
                )?;
            }
        }
        Ok(())
    }

    /// What the records and edges of the later loads take, each with what belongs to it.
    fn space_table(&self, plan: &Plan, text: &mut String) -> Result<()> {
        for (phase, of) in SPACE {
            let rows = self.ordered(phase, plan);
            if rows.is_empty() {
                continue;
            }
            let head = format!("bytes {of}");
            writeln!(
                text,
                "\n{head:<17} {:>12} {:>17} {:>12}",
                "files", "anonymous memory", "log"
            )?;
            for row in rows {
                let [files, memory, log] = [
                    row.bytes(|cost| Some(cost.disk_bytes)),
                    row.bytes(|cost| Some(cost.memory_bytes)),
                    row.bytes(|cost| cost.log.map(|log| log.appended)),
                ]
                .map(|bytes| bytes.map_or("-".into(), |bytes| format!("{bytes:.1}")));
                let name = row.store.name();
                writeln!(text, "{name:<17} {files:>12} {memory:>17} {log:>12}")?;
            }
        }
        Ok(())
    }

    fn list_tables(&self, plan: &Plan, text: &mut String) -> Result<()> {
        let rows = self.ordered(Phase::Lists, plan);
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "\n{:<17} {:>17} {:>21} {:>20} {:>12} {:>14}",
            "bytes an edit",
            "pages made dirty",
            "given to write calls",
            "growth of the files",
            "log B/edit",
            "moved B/edit"
        )?;
        for row in &rows {
            let [dirtied, called, allocated, appended, moved] = BYTES.map(|(_, of)| {
                row.bytes(of)
                    .map_or("-".into(), |bytes| format!("{bytes:.0}"))
            });
            writeln!(
                text,
                "{:<17} {dirtied:>17} {called:>21} {allocated:>20} {appended:>12} {moved:>14}",
                row.store.name(),
            )?;
        }
        writeln!(text, "\nthousands of edits in each second")?;
        for row in &rows {
            let seconds = row.seconds(plan.list_span().as_secs());
            for (line, numbers) in seconds.chunks(SECONDS_A_LINE).enumerate() {
                let name = if line == 0 {
                    row.store.name()
                } else {
                    String::new()
                };
                write!(text, "{name:<17}")?;
                for edits in numbers {
                    write!(text, " {:>4.0}", edits / 1e3)?;
                }
                writeln!(text)?;
            }
        }
        Ok(())
    }

    /// Everything, for other programs.
    pub fn json(&self, plan: &Plan, overhead: Overhead, file_system: &str) -> Result<Value> {
        let mut rows = Vec::new();
        for row in &self.rows {
            let latency = row.latency()?;
            let [p50, p99, p999] = QUANTILES.map(|quantile| latency.value_at_quantile(quantile));
            let edits = row.phase == Phase::Lists;
            rows.push(json!({
                "phase": row.phase.name(),
                "threads": row.threads,
                "store": row.store.name(),
                "ops_per_second": median(row.rates()),
                "ops_per_second_by_round": row.rates(),
                "ratio": self.ratio(row, plan),
                "times_floor": self.times_floor(row, overhead.loop_ns),
                "p50_ns": p50,
                "p99_ns": p99,
                "p999_ns": p999,
                "max_ns": latency.max(),
                "edits_by_second": edits.then(|| row.seconds(plan.list_span().as_secs())),
                "processor_ns_per_op": row.processor_ns(),
                "bytes_per_op": BYTES
                    .map(|(name, of)| (name.to_owned(), json!(row.bytes(of))))
                    .into_iter()
                    .collect::<serde_json::Map<_, _>>(),
                "disk_bytes_at_end": row.disk_bytes(),
                "memory_bytes_per_op": row.bytes(|cost| Some(cost.memory_bytes)),
            }));
        }
        Ok(json!({
            "records": plan.records(),
            "lists": plan.lists(),
            "query_records": plan.query_records(),
            "accounts": plan.accounts(),
            "rounds": plan.rounds(),
            "seconds": plan.span().as_secs_f64(),
            "list_seconds": plan.list_span().as_secs(),
            "file_system": file_system,
            "clock_ns": overhead.clock_ns,
            "loop_ns": overhead.loop_ns,
            "codec_ns": overhead.codec_ns,
            "versions": plan.stores.iter()
                .map(|store| (store.name(), json!(store.version())))
                .collect::<serde_json::Map<_, _>>(),
            "rows": rows,
        }))
    }
}

/// The locked version of a crate of this workspace.
pub fn version(package: &str) -> &'static str {
    let name = format!("name = \"{package}\"");
    let mut lines = include_str!("../Cargo.lock").lines();
    lines
        .find(|line| *line == name)
        .and_then(|_| {
            lines
                .next()?
                .strip_prefix("version = \"")?
                .strip_suffix('"')
        })
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
