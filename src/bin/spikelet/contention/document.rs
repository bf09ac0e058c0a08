//! The report: the correctness box first, then the rows, the pictures, and what they mean.

use super::activation::Phase;
use super::case::{Write, name_of};
use super::charts;
use super::comparison::RunComparison;
use super::format::{load, rate_words};
use super::judge::{Finding, Guideline, Knees};
use super::ledger::Correctness;
use super::measure::Figures;
use super::row::{Measurement, ReportRow};
use super::run::{FinishedRun, Interruption};
use super::threshold::{ConditionResult, Demand};
use crate::report::{
    Chart, Report, ReportTable, Section, Severity, Verdict, count, decimal, exact, percent,
};
use crate::verdict::contention::{Headline, rules_table};

/// The names of result codes that a run may meet.
const CODES: [(u8, &str); 7] = [
    (1, "server error"),
    (8, "no space, or writes stopped"),
    (9, "timeout"),
    (13, "record too big"),
    (14, "key busy"),
    (22, "forbidden"),
    (24, "element exists"),
];

impl Correctness {
    /// Judges acknowledged writes against those found; where nothing was acknowledged nothing is
    /// proved.
    pub(super) fn verdict(&self, subject: &str) -> Verdict {
        let (level, word) = match self.acknowledged {
            _ if !self.holds() => (Severity::Bad, "LOST"),
            0 => (Severity::Watch, "NOT TESTED"),
            _ => (Severity::Good, "OK"),
        };
        let seen = match self.read_back {
            0 => String::new(),
            times => format!(
                ", invisible {} of {} read back at once",
                count(self.invisible),
                count(times)
            ),
        };
        let sentence = match self.acknowledged {
            0 => "nothing was acknowledged, so nothing is proved".to_owned(),
            acknowledged => format!(
                "{} acknowledged writes, {} found: lost {}, duplicate {}{seen}",
                count(acknowledged),
                count(self.found),
                count(self.lost),
                count(self.duplicates),
            ),
        };
        Verdict::new(level, word, subject, sentence)
    }
}

/// Judges an interrupted run: the measurements that are missing.
fn interruption_verdict(cut: &Interruption) -> Verdict {
    let last = cut.partial_s.map_or_else(String::new, |seconds| {
        format!(
            "; the last row was measured for {} s only",
            decimal(seconds, 1)
        )
    });
    let reason = cut.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(" It ended with: {reason}."));
    let sentence = format!(
        "{} of {} measurements were made to their end{last}. What is shown is what there is.{reason}",
        cut.done, cut.wanted
    );
    Verdict::new(Severity::Watch, "PARTIAL", "interrupted", sentence)
}

/// Returns what to say about a condition that is not met: the first row that fails, with its
/// phases.
fn failing(judged: &ConditionResult, first: &ReportRow, of_rows: usize) -> String {
    let number = judged.rows.first();
    let phases: Vec<&str> = judged
        .phases
        .iter()
        .filter(|failed| Some(&failed.row) == number)
        .map(|failed| failed.phase.as_str())
        .collect();
    let when = match phases.as_slice() {
        [] => String::new(),
        phases => format!(", {} the activation", phases.join(" and ")),
    };
    let row = format!(
        "in {} of {of_rows} rows, the first of them {}, shards {}{when}",
        judged.rows.len(),
        load(first),
        shards_over_time(first),
    );
    if judged.is_untested {
        format!("not tested {row}: too few writes for the percentile, lengthen --duration")
    } else {
        format!("not as wanted {row}")
    }
}

impl FinishedRun {
    /// Builds the report: with its pictures for a page, without the many numbers behind them for a
    /// terminal.
    pub(crate) fn to_report(&self, pictures: bool) -> Report {
        let said = &self.verdict;
        let drawn = |title: &str, charts: Vec<Chart>| {
            let is_drawn = pictures && !charts.is_empty();
            is_drawn.then(|| Section::new(title).charts(charts))
        };
        let is_activated = self.rows().any(|row| row.activation.is_some());
        let sections = [
            Some(self.verdict_section(said)),
            (!self.conditions.is_empty()).then(|| self.conditions_section()),
            Some(self.rows_section()),
            drawn("By rate", charts::by_rate(self)),
            is_activated.then(|| self.activation_section(pictures)),
            drawn(
                "Percentiles",
                charts::percentiles(self).into_iter().collect(),
            ),
            self.knees_section(),
            self.comparison.as_ref().map(RunComparison::section),
            pictures.then(|| Section::new("Rules").table(rules_table())),
        ];
        let hold = if self.settings.hold.mean.is_zero() {
            ""
        } else {
            " (simulated hold)"
        };
        let title = format!("Contention on hot keys{hold}");
        let facts = self.facts().into_iter();
        Report::new(title)
            .lead(said.word.level(), said.word.text(), &said.sentence)
            .facts(facts.filter(|(_, value)| !value.is_empty()))
            .sections(sections.into_iter().flatten())
    }

    /// Returns the circumstances of the run; empty ones do not apply.
    fn facts(&self) -> [(&'static str, String); 11] {
        let (settings, host) = (&self.settings, &self.host);
        let (write, payload) = (name_of(settings.write), count(settings.payload as u64));
        let commit = host.commit.map(|commit| format!(", commit {commit}"));
        let version = format!("spikelet {}{}", host.version, commit.unwrap_or_default());
        let cores = host.cores.unwrap_or(0);
        let processor = host.cpu.as_ref().map(|cpu| format!("{cpu}, {cores} cores"));
        let cluster = host.cluster.as_ref();
        let clock = if settings.is_virtual {
            "virtual: queues and holds are simulated by the engine's queue rule; the same seed, the same report"
        } else if cluster.is_some() {
            "a cluster, by this machine's wall clock: times have the network in them"
        } else {
            "the engine itself, by the wall clock"
        };
        let hold = match settings.hold.mean {
            _ if cluster.is_some() => {
                "that of the servers: as long as they keep a record locked".to_owned()
            }
            mean if mean.is_zero() => "none: a record is locked for its edit alone".to_owned(),
            mean => format!(
                "{} ms, {}, SIMULATED: as if a replica were waited for",
                mean.as_secs_f64() * 1e3,
                name_of(settings.hold.spread)
            ),
        };
        let keys = match settings.hot_keys {
            1 => "one hot key".to_owned(),
            keys => format!("{} hot keys, zipf {}", count(keys.into()), settings.zipf),
        };
        let lists = match settings.write {
            Write::AddUnique => format!(", lists of {} elements", count(settings.elements.into())),
            Write::Put | Write::Increment => String::new(),
        };
        let writes = format!("{write}, {payload} bytes of payload{lists}, {keys}");
        let queue = match settings.max_waiters() {
            Some(most) => format!("{most} may wait for a record (max_waiters {most})"),
            None => "any number may wait for a record".to_owned(),
        };
        let queue = format!("transaction-pending-limit {}: {queue}", settings.limit);
        let repeats = self.rows().map(|row| row.repeats.len()).max();
        let repeats = repeats.filter(|repeats| *repeats > 1);
        let each_row = format!(
            "{} s after {} s of warm-up, seed {}{}",
            settings.duration.as_secs_f64(),
            settings.warm_up.as_secs_f64(),
            settings.seed,
            repeats.map_or_else(String::new, |repeats| format!(", {repeats} times"))
        );
        let retries = format!("{} retries. {}", settings.retries, settings.rest_words());
        [
            ("version", version),
            ("clock", clock.to_owned()),
            ("processor", processor.unwrap_or_default()),
            ("cluster", cluster.cloned().unwrap_or_default()),
            ("durability", host.durability.to_owned()),
            ("hold", hold),
            ("writes", writes),
            ("queue", queue),
            ("loop", self.loops()),
            ("each row", each_row),
            ("after KEY_BUSY", retries),
        ]
    }

    fn loops(&self) -> String {
        let any = |is_open: bool| self.rows().any(|row| row.rate.is_some() == is_open);
        let open = "open: writes come at random (Poisson); latency counts from the intended time";
        let closed = "closed: each writer waits for its answer";
        let loops = [(true, open), (false, closed)].into_iter();
        let loops: Vec<&str> = loops
            .filter_map(|(is_open, words)| any(is_open).then_some(words))
            .collect();
        loops.join("; and ")
    }

    fn verdict_section(&self, said: &Headline) -> Section {
        let shards = said.shards.map(|shards| {
            format!(
                "{shards} ({}), each with {} % of the writes and bytes",
                said.shards_are.unwrap_or_default(),
                decimal(100.0 / f64::from(shards), 1)
            )
        });
        let before = said.before;
        let before = before.and_then(|row| charts::before_and_after(self, row, said.shards));
        let activated = self.rows().filter(|row| !row.phases.is_empty());
        let found = &self.correctness;
        let rows = self.rows().map(|row| row.correctness);
        let silent = rows.filter(|row| row.acknowledged == 0).count();
        let mut verdict = found.verdict("acknowledged = found");
        if verdict.level == Severity::Good && silent > 0 {
            (verdict.level, verdict.word) = (Severity::Watch, "IN PART".to_owned());
        }
        let in_part = (found.acknowledged > 0 && silent > 0).then(|| {
            format!(
                "In {silent} of {} rows nothing was acknowledged: they prove nothing.",
                self.measured.len()
            )
        });
        let in_doubt = (found.in_doubt > 0).then(|| {
            format!(
                "Of {} failed writes it is not known whether they were applied.",
                count(found.in_doubt)
            )
        });
        Section::new("Verdict")
            .verdicts(self.interruption.as_ref().map(interruption_verdict))
            .facts(shards.map(|shards| ("shards", shards)))
            .charts(before)
            .charts(activated.map(charts::phases))
            .verdict(verdict)
            .paragraphs(in_part)
            .paragraphs(in_doubt)
    }

    fn conditions_section(&self) -> Section {
        let rows: Vec<&ReportRow> = self.rows().collect();
        let verdict = |judged: &ConditionResult| {
            let (level, word) = if judged.passes {
                (Severity::Good, "PASS")
            } else {
                (Severity::Bad, "FAIL")
            };
            let subject = match judged.demand {
                Demand::FailIf => format!("fail if {}", judged.condition),
                Demand::Threshold => judged.condition.clone(),
            };
            let first = judged.rows.first().and_then(|row| rows.get(*row));
            let sentence = first.map_or_else(
                || format!("as wanted in all {} rows", rows.len()),
                |first| failing(judged, first, rows.len()),
            );
            Verdict::new(level, word, subject, sentence)
        };
        Section::new("Thresholds").verdicts(self.conditions.iter().map(verdict))
    }

    fn rows_section(&self) -> Section {
        let table = ReportTable::of(
            "Load by shards; times in ms from the intended time on",
            self.measured.iter().flat_map(table_lines),
            "load: 0 | shards: 1 | offered | goodput/s: goodput_per_s /s | KEY_BUSY: key_busy_share %3 | p50: p50_us ms | \
             p99: p99_us ms | p99.9: p999_us ms | max: max_us ms",
        );
        let any = |read: fn(&ReportRow) -> bool| self.rows().any(read);
        let mut section = Section::new("Rates, writers and shards").table(table);
        let is_unknown =
            |row: &ReportRow| row.acked > 0 && (row.p99_us.is_nan() || row.p999_us.is_nan());
        if any(is_unknown) {
            section = section.paragraph(
                "A percentile is shown where at least one write is beyond it: p99 of 100 writes, p99.9 of 1,000.",
            );
        }
        section = section.table(self.errors_table());
        if any(|row| row.rate.is_some() && row.sent_late * 100 > row.offered) {
            section = section.paragraph(
                "More than 1 % of the writes of some rows were sent over a millisecond late, because the harness had no \
                 core: their latency counts from the intended time all the same.",
            );
        }
        if !self.settings.is_virtual {
            section = section.table(self.service_table());
        }
        section
    }

    fn errors_table(&self) -> ReportTable {
        let name = |code: u8| CODES.iter().find(|(known, _)| *known == code);
        let failed = |(code, times): (&u8, &u64)| {
            let name = name(*code).map_or("other", |(_, name)| *name);
            format!("{} x {code} {name}", count(*times))
        };
        let rows = self
            .rows()
            .filter(|row| row.refusals > 0 || !row.errors.is_empty());
        let rows = rows.map(|row| {
            let failed = row.errors.iter().map(failed).collect::<Vec<_>>();
            (load(row), shards_over_time(row), failed, row)
        });
        ReportTable::of(
            "Refusals, retries, and final result codes, of whole rows",
            rows,
            "load: 0 | shards: 1 | refusals | retries | failed with: 2",
        )
    }

    fn service_table(&self) -> ReportTable {
        let rows = self.rows();
        ReportTable::of(
            "From the time a write was really sent, of whole rows; holds as they were measured; times in ms",
            rows.map(|row| (load(row), shards_over_time(row), row)),
            "load: 0 | shards: 1 | service p50: service_p50_us ms | service p99: service_p99_us ms | hold: hold_us ms | \
             sent late: sent_late | threads: writers",
        )
    }

    fn activation_section(&self, pictures: bool) -> Section {
        let mut section = Section::new("Activation under load").paragraph(
            "The lists or counters begin in one record and are sharded while they are written. One write in eight is looked for right \
             after its acknowledgement, and all of them at the end.",
        );
        for row in self.rows() {
            let Some(activation) = &row.activation else {
                continue;
            };
            section = section.paragraph(format!(
                "{}: to {} shards in {} ms. Before, during and after are rows of their own in the table above.",
                load(row),
                activation.shards,
                decimal((activation.ended_s - activation.began_s) * 1e3, 1),
            ));
            section = section.charts(pictures.then(|| charts::timeline(row, activation)));
        }
        section
    }

    fn knees_section(&self) -> Option<Section> {
        let guideline = self.guideline.as_ref()?;
        let mut section = Section::new("Knees and the guideline").verdict(guideline_verdict(
            guideline,
            self.settings.hold.mean.is_zero(),
        ));
        if !self.knees.is_empty() {
            section = section.table(knees_table(&self.knees)).paragraph(
                "Latency knee: the first rate from which on every p99 is 3 times that of the lowest rate, where that is hardly \
                 refused, and their intervals are apart. Busy knee: the first from which on more than 0.1 % is refused, beyond \
                 chance. Both take two rates at least. The model is M/D/1 (M/M/1 for exponential holds) with the measured hold and a queue of this length.",
            );
        }
        let expected = self.rows().filter(|row| row.expected_mean_us.is_some());
        let table = ReportTable::of(
            "Measured beside the queueing model; times in ms",
            expected.map(|row| (load(row), row)),
            "load: 0 | shards # | KEY_BUSY: key_busy_share %3 | model: expected_key_busy_share %3 | mean: mean_us ms | \
             model mean: expected_mean_us ms",
        );
        Some(section.table(table))
    }
}

/// Returns the shards of a row, both numbers if they were activated while it ran.
fn shards_over_time(row: &ReportRow) -> String {
    if row.phases.is_empty() {
        row.shards.to_string()
    } else {
        format!("1 to {}", row.shards)
    }
}

/// Returns the lines of the table of rows: load, shards and figures of a row; of a row with an
/// activation, of each phase.
fn table_lines<'m>(measured: &'m Measurement) -> Vec<(String, String, &'m Figures)> {
    let row = &measured.row;
    if row.phases.is_empty() {
        return vec![(load(row), row.shards.to_string(), &row.figures)];
    }
    let line = |phase: &'m Phase| {
        let shards = match phase.name.as_str() {
            "before" => "1".to_owned(),
            "after" => row.shards.to_string(),
            _ => shards_over_time(row),
        };
        let (name, seconds) = (&phase.name, decimal(phase.seconds, 1));
        let load = format!("{} {name}, {seconds} s", load(row));
        (load, shards, &phase.figures)
    };
    row.phases.iter().map(line).collect()
}

fn guideline_verdict(guideline: &Guideline, is_edit_alone: bool) -> Verdict {
    let what = if is_edit_alone {
        "a write takes"
    } else {
        "hold"
    };
    let measured = match (guideline.tested_rate, guideline.key_busy_share) {
        (Some(rate), Some(share)) => {
            format!("{} refused at {}", percent(share, 2), rate_words(rate))
        }
        _ => "no row on one record tests this rate: --rate 50 --shards 1 --hot-keys 1 would"
            .to_owned(),
    };
    let (level, word) = match guideline.finding {
        Finding::Pass => (Severity::Good, "PASS"),
        Finding::Fail => (Severity::Bad, "FAIL"),
        Finding::NotTested => (Severity::Watch, "NOT TESTED"),
    };
    let subject = format!("{} writes/s on one record", guideline.rate);
    let sentence = format!(
        "{what} {} ms, burst factor {}: lambda {}, P2 {} ({}: up to 0.02 is calm, up to 0.1 warm, beyond it hot); {measured}",
        decimal(guideline.hold_us / 1e3, 3),
        guideline.burst,
        decimal(guideline.lambda, 3),
        decimal(guideline.p2, 4),
        guideline.band,
    );
    Verdict::new(level, word, subject, sentence)
}

fn knees_table(knees: &[Knees]) -> ReportTable {
    let words = |knee: &Knees, is_tested: bool, rate: Option<f64>| match rate {
        _ if !is_tested => "not tested".to_owned(),
        Some(rate) => exact(rate),
        None => format!("above {}", exact(knee.highest_rate)),
    };
    let rows = knees.iter().map(|knee| {
        let latency = words(knee, knee.is_latency_tested(), knee.latency_rate);
        let busy = words(knee, knee.is_tested(), knee.busy_rate);
        let modelled = || words(knee, knee.is_tested(), knee.expected_busy_rate);
        (latency, busy, knee.is_modelled.then(modelled), knee)
    });
    ReportTable::of(
        "Knees, in writes a second",
        rows,
        "shards # | latency knee: 0 | busy knee: 1 | busy knee, model: 2 | capacity: capacity_per_s .0",
    )
}
