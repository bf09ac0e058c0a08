//! The report: the correctness box first, then the rows, the pictures, and what they mean.

use super::activation_section::{shards_over_time, table_lines};
use super::case::Settings;
use super::charts;
use super::format::{load, millis, share};
use super::ledger::Correctness;
use super::row::Row;
use super::run::{Interruption, Run, durability};
use super::threshold::{ConditionResult, Demand};
use crate::report::{Cell, Level, Report, Section, Table, Verdict, count, decimal};
use crate::verdict;
use crate::verdict::contention::{Headline, rules};

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
            _ if !self.holds() => (Level::Bad, "LOST"),
            0 => (Level::Watch, "NOT TESTED"),
            _ => (Level::Good, "OK"),
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
        Verdict {
            level,
            word: word.to_owned(),
            subject: subject.to_owned(),
            sentence,
        }
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
    Verdict {
        level: Level::Watch,
        word: "PARTIAL".to_owned(),
        subject: "interrupted".to_owned(),
        sentence: format!(
            "{} of {} measurements were made to their end{last}. What is shown is what there is.{reason}",
            cut.done, cut.wanted
        ),
    }
}

/// Returns what to say about a condition that is not met: the first row that fails, with its
/// phases.
fn failing(judged: &ConditionResult, first: &Row, of_rows: usize) -> String {
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

impl Run {
    /// Builds the report with its pictures, for a page.
    #[must_use]
    pub(crate) fn to_report(&self) -> Report {
        self.report(true)
    }

    /// Builds the report for a terminal, without the many numbers behind the pictures.
    #[must_use]
    pub(crate) fn to_summary(&self) -> Report {
        self.report(false)
    }

    fn report(&self, pictures: bool) -> Report {
        let said = Headline::of(self);
        let mut report =
            Report::new(self.title()).lead(said.word.level(), said.word.text(), &said.sentence);
        for (name, value) in self.facts() {
            report = report.fact(name, value);
        }
        report = report.section(self.verdict_section(&said));
        if !self.conditions.is_empty() {
            report = report.section(self.conditions_section());
        }
        report = report.section(self.rows_section());
        if pictures {
            let charts = charts::by_rate(self);
            if !charts.is_empty() {
                let section = Section::new("By rate");
                report = report.section(charts.into_iter().fold(section, Section::chart));
            }
        }
        if self
            .measured
            .iter()
            .any(|measured| measured.activation.is_some())
        {
            report = report.section(self.activation_section(pictures));
        }
        if pictures {
            let curves = charts::percentiles(self).into_iter();
            let section = curves.fold(Section::new("Percentiles"), Section::chart);
            if !section.blocks.is_empty() {
                report = report.section(section);
            }
        }
        if let Some(section) = self.knees_section() {
            report = report.section(section);
        }
        if let Some(comparison) = &self.comparison {
            report = report.section(comparison.section());
        }
        if pictures {
            report = report.section(Section::new("Rules").table(verdict::table(&rules())));
        }
        report
    }

    fn title(&self) -> String {
        let hold = if self.settings.hold.mean.is_zero() {
            ""
        } else {
            " (simulated hold)"
        };
        format!("Contention on hot keys{hold}")
    }

    fn facts(&self) -> Vec<(String, String)> {
        let settings = &self.settings;
        let Settings {
            hold,
            duration,
            warm_up,
            ..
        } = settings;
        let mut facts = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        let commit = self.host.commit.map(|commit| format!(", commit {commit}"));
        fact(
            "version",
            format!(
                "spikelet {}{}",
                self.host.version,
                commit.unwrap_or_default()
            ),
        );
        fact(
            "clock",
            if settings.is_virtual {
                "virtual: queues and holds are simulated by the engine's queue rule; the same seed, the same report".into()
            } else if settings.cluster.is_some() {
                "a cluster, by this machine's wall clock: times have the network in them".into()
            } else {
                "the engine itself, by the wall clock".into()
            },
        );
        if let Some(cpu) = &self.host.cpu {
            let cores = self.host.cores.unwrap_or(0);
            fact("processor", format!("{cpu}, {cores} cores"));
        }
        if let Some(cluster) = &settings.cluster {
            fact("cluster", cluster.place.clone());
        }
        fact("durability", durability(settings).to_owned());
        fact(
            "hold",
            if settings.cluster.is_some() {
                "that of the servers: as long as they keep a record locked".into()
            } else if hold.mean.is_zero() {
                "none: a record is locked for its edit alone".into()
            } else {
                let mean_ms = hold.mean.as_secs_f64() * 1e3;
                format!(
                    "{mean_ms} ms, {}, SIMULATED: as if a replica were waited for",
                    hold.spread
                )
            },
        );
        let keys = match settings.hot_keys {
            1 => "one hot key".to_owned(),
            keys => format!("{} hot keys, zipf {}", count(keys.into()), settings.zipf),
        };
        let lists = match settings.write {
            super::Write::AddUnique => {
                format!(", lists of {} elements", count(settings.elements.into()))
            }
            _ => String::new(),
        };
        fact(
            "writes",
            format!(
                "{}, {} bytes of payload{lists}, {keys}",
                settings.write,
                count(settings.payload as u64)
            ),
        );
        fact(
            "queue",
            match settings.max_waiters() {
                Some(most) => format!(
                    "transaction-pending-limit {}: {} may wait for a record (max_waiters {most})",
                    count(settings.limit as u64),
                    count(most as u64)
                ),
                None => "transaction-pending-limit 0: any number may wait for a record".to_owned(),
            },
        );
        fact("loop", self.loops());
        let repeats = self.rows().map(|row| row.repeats.len()).max();
        let repeats = repeats.filter(|repeats| *repeats > 1);
        let repeats = repeats.map_or_else(String::new, |repeats| format!(", {repeats} times"));
        fact(
            "each row",
            format!(
                "{} s after {} s of warm-up, seed {}{repeats}",
                duration.as_secs_f64(),
                warm_up.as_secs_f64(),
                settings.seed
            ),
        );
        fact(
            "after KEY_BUSY",
            format!("{} retries. {}", settings.retries, settings.rest_words()),
        );
        facts
    }

    fn loops(&self) -> String {
        let open = self.rows().any(|row| row.rate.is_some());
        let closed = self.rows().any(|row| row.rate.is_none());
        let open_words =
            "open: writes come at random (Poisson); latency counts from the intended time";
        let closed_words = "closed: each writer waits for its answer";
        match (open, closed) {
            (true, true) => format!("{open_words}; and {closed_words}"),
            (true, false) => open_words.to_owned(),
            _ => closed_words.to_owned(),
        }
    }

    fn verdict_section(&self, said: &Headline) -> Section {
        let mut section = Section::new("Verdict");
        if let Some(cut) = &self.interruption {
            section = section.verdict(interruption_verdict(cut));
        }
        if let Some(shards) = said.shards {
            let part = 100.0 / f64::from(shards);
            section = section.fact(
                "shards",
                format!(
                    "{shards} ({}), each with {} % of the writes and bytes",
                    said.shards_are.unwrap_or_default(),
                    decimal(part, 1)
                ),
            );
        }
        if let Some(chart) = said
            .before
            .and_then(|row| charts::before_and_after(self, row, said.shards))
        {
            section = section.chart(chart);
        }
        let activated = self
            .measured
            .iter()
            .filter(|one| !one.row.phases.is_empty());
        section = activated.map(charts::phases).fold(section, Section::chart);
        let correctness = self.correctness_section();
        correctness.blocks.into_iter().fold(section, Section::block)
    }

    fn correctness_section(&self) -> Section {
        let found = &self.correctness;
        let rows = self.measured.iter().map(|measured| &measured.correctness);
        let silent = rows.filter(|row| row.acknowledged == 0).count();
        let mut verdict = found.verdict("acknowledged = found");
        if verdict.level == Level::Good && silent > 0 {
            (verdict.level, verdict.word) = (Level::Watch, "IN PART".to_owned());
        }
        let mut section = Section::new("Correctness").verdict(verdict);
        if found.acknowledged > 0 && silent > 0 {
            section = section.paragraph(format!(
                "In {silent} of {} rows nothing was acknowledged: they prove nothing.",
                self.measured.len()
            ));
        }
        if found.in_doubt > 0 {
            section = section.paragraph(format!(
                "Of {} failed writes it is not known whether they were applied.",
                count(found.in_doubt)
            ));
        }
        section
    }

    fn conditions_section(&self) -> Section {
        let rows: Vec<&Row> = self.rows().collect();
        let verdict = |judged: &ConditionResult| {
            let (level, word) = if judged.passes {
                (Level::Good, "PASS")
            } else {
                (Level::Bad, "FAIL")
            };
            let subject = match judged.demand {
                Demand::FailIf => format!("fail if {}", judged.condition),
                Demand::Threshold => judged.condition.to_string(),
            };
            let first = judged.rows.first().and_then(|row| rows.get(*row));
            let sentence = first.map_or_else(
                || format!("as wanted in all {} rows", rows.len()),
                |first| failing(judged, first, rows.len()),
            );
            Verdict {
                level,
                word: word.to_owned(),
                subject,
                sentence,
            }
        };
        let section = Section::new("Thresholds");
        self.conditions
            .iter()
            .fold(section, |section, judged| section.verdict(verdict(judged)))
    }

    fn rows_section(&self) -> Section {
        let lines = self.measured.iter().flat_map(table_lines);
        let table = Table::of(
            "Load by shards; times in ms from the intended time on",
            lines,
            &[
                ("load", &|(load, ..)| Cell::text(load)),
                ("shards", &|(_, shards, _)| Cell::text(shards)),
                ("offered", &|(.., line)| Cell::count(line.offered)),
                ("goodput/s", &|(.., line)| {
                    let decimals = usize::from(line.goodput_per_s < 1_000.0);
                    Cell::decimal(line.goodput_per_s, decimals)
                }),
                ("KEY_BUSY", &|(.., line)| share(line.key_busy_share)),
                ("p50", &|(.., line)| millis(line.p50_us)),
                ("p99", &|(.., line)| millis(line.p99_us)),
                ("p99.9", &|(.., line)| millis(line.p999_us)),
                ("max", &|(.., line)| millis(line.max_us)),
            ],
        );
        let any = |read: fn(&Row) -> bool| self.rows().any(read);
        let mut section = Section::new("Rates, writers and shards").table(table);
        let is_unknown = |row: &Row| row.acked > 0 && (row.p99_us.is_nan() || row.p999_us.is_nan());
        if any(is_unknown) {
            section = section.paragraph(
                "A percentile is shown where at least one write is beyond it: p99 of 100 writes, p99.9 of 1,000.",
            );
        }
        if any(|row| row.refusals > 0 || row.errors.keys().any(|code| *code != 14)) {
            section = section.table(self.errors_table());
        }
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

    fn errors_table(&self) -> Table {
        let name = |code: u8| CODES.iter().find(|(known, _)| *known == code);
        let failed = |(code, times): (&u8, &u64)| {
            let name = name(*code).map_or("other", |(_, name)| *name);
            format!("{} x {code} {name}", count(*times))
        };
        let rows = self
            .rows()
            .filter(|row| row.refusals > 0 || !row.errors.is_empty());
        Table::of(
            "Refusals, retries, and final result codes, of whole rows",
            rows,
            &[
                ("load", &|row| Cell::text(load(row))),
                ("shards", &|row| Cell::text(shards_over_time(row))),
                ("refusals", &|row| Cell::count(row.refusals)),
                ("retries", &|row| Cell::count(row.retries)),
                ("failed with", &|row| {
                    Cell::text(row.errors.iter().map(failed).collect::<Vec<_>>().join(", "))
                }),
            ],
        )
    }

    fn service_table(&self) -> Table {
        let caption = "From the time a write was really sent, of whole rows; holds as they were measured; times in ms";
        Table::of(
            caption,
            self.rows(),
            &[
                ("load", &|row| Cell::text(load(row))),
                ("shards", &|row| Cell::text(shards_over_time(row))),
                ("service p50", &|row| millis(row.service_p50_us)),
                ("service p99", &|row| millis(row.service_p99_us)),
                ("hold", &|row| millis(row.hold_us)),
                ("sent late", &|row| Cell::count(row.sent_late)),
                ("threads", &|row| Cell::count(row.writers)),
            ],
        )
    }
}
