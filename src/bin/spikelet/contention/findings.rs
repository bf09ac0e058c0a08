//! The sections of the report that judge: knees, the guideline, the queueing model, an earlier run.

use super::baseline::{Change, ChangeVerdict};
use super::format::{
    decimals, load, millis, percent, rate_number, rate_words, share, writers_words,
};
use super::judge::{Finding, Guideline, Knees};
use super::repeats::{FIGURES, REPEATS_MIN};
use super::run::Run;
use crate::report::{Cell, Level, Section, Table, Verdict, decimal};

impl Run {
    pub(super) fn knees_section(&self) -> Option<Section> {
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
        let mut table = Table::new(
            "Measured beside the queueing model; times in ms",
            &["load", "shards", "KEY_BUSY", "model", "mean", "model mean"],
        )
        .words(&["shards"]);
        for row in expected {
            table.row([
                Cell::text(load(row)),
                Cell::text(row.shards.to_string()),
                share(row.key_busy_share),
                row.expected_key_busy_share
                    .map_or_else(Cell::missing, share),
                millis(row.mean_us),
                row.expected_mean_us.map_or_else(Cell::missing, millis),
            ]);
        }
        Some(if table.rows.is_empty() {
            section
        } else {
            section.table(table)
        })
    }

    pub(super) fn changes_section(&self, changes: &[Change]) -> Section {
        let section = Section::new("Against the baseline");
        let mut table = Table::new(
            format!(
                "Changes; less than {} % is noise",
                decimal(self.noise * 100.0, 1)
            ),
            &[
                "load",
                "shards",
                "figure",
                "before",
                "now",
                "change",
                "95 % interval",
                "verdict",
            ],
        )
        .words(&["shards", "figure", "verdict"]);
        for change in changes {
            let word = match change.verdict {
                ChangeVerdict::Unchanged => "no change",
                ChangeVerdict::Better => "better",
                ChangeVerdict::Worse => "WORSE",
                ChangeVerdict::TooFew => "too few writes",
                ChangeVerdict::TooFewRepeats => "too few repeats",
            };
            let is_share = change.metric == "key_busy_share";
            let decimals = if is_share { 5 } else { 1 };
            let figure = |value: Option<f64>| {
                value.map_or_else(Cell::missing, |value| Cell::decimal(value, decimals))
            };
            let interval = change.interval.map(|(from, to)| {
                format!("{} to {}", decimal(from, decimals), decimal(to, decimals))
            });
            table.row([
                Cell::text(match (change.rate, change.writers) {
                    (Some(rate), _) => rate_words(rate),
                    (None, writers) => writers_words(writers),
                }),
                Cell::text(change.shards.to_string()),
                Cell::text(change.metric),
                figure(change.before),
                figure(change.now),
                change
                    .change
                    .map_or_else(Cell::missing, |part| Cell::share(part, 1)),
                interval.map_or_else(Cell::missing, Cell::text),
                Cell::text(word),
            ]);
        }
        let worse = changes
            .iter()
            .filter(|change| change.verdict == ChangeVerdict::Worse)
            .count();
        let section = section.paragraph(format!("{worse} of {} figures are worse.", changes.len()));
        let is_open = |change: &&Change| change.verdict == ChangeVerdict::TooFewRepeats;
        let section = match changes.iter().filter(is_open).count() {
            0 => section,
            open => section.paragraph(format!(
                "{open} of {} figures are not compared, since how much they vary is not known: measure both runs with --repeats \
                 5 ({REPEATS_MIN} at least).",
                changes.len()
            )),
        };
        let compared = changes.len() / FIGURES.len();
        let section = match self.measured.len() - compared {
            0 => section,
            missing => section.paragraph(format!(
                "{missing} of {} rows are not in the earlier run, and are not compared.",
                self.measured.len()
            )),
        };
        section.table(table)
    }
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
        _ => "no row on one record tells at this rate: --rate 50 --shards 1 --hot-keys 1 would"
            .to_owned(),
    };
    let (level, word) = match guideline.finding {
        Finding::Pass => (Level::Good, "PASS"),
        Finding::Fail => (Level::Bad, "FAIL"),
        Finding::NotTested => (Level::Watch, "NOT TESTED"),
    };
    Verdict {
        level,
        word: word.to_owned(),
        subject: format!("{} writes/s on one record", guideline.rate),
        sentence: format!(
            "{what} {} ms, burst factor {}: lambda {}, P2 {} ({}: up to 0.02 is calm, up to 0.1 warm, beyond it hot); {measured}",
            decimal(guideline.hold_us / 1e3, 3),
            guideline.burst,
            decimal(guideline.lambda, 3),
            decimal(guideline.p2, 4),
            guideline.band,
        ),
    }
}

fn knees_table(knees: &[Knees]) -> Table {
    let mut table = Table::new(
        "Knees, in writes a second",
        &[
            "shards",
            "latency knee",
            "busy knee",
            "busy knee, model",
            "capacity",
        ],
    );
    for knee in knees {
        let rate = |is_tested: bool, rate: Option<f64>| match rate {
            _ if !is_tested => Cell::shown("not tested".to_owned(), String::new()),
            Some(rate) => Cell::decimal(rate, decimals(rate)),
            None => Cell::shown(
                format!("above {}", rate_number(knee.highest_rate)),
                String::new(),
            ),
        };
        table.row([
            Cell::text(knee.shards.to_string()),
            rate(knee.is_latency_tested(), knee.latency_rate),
            rate(knee.is_tested(), knee.busy_rate),
            if knee.is_modelled {
                rate(knee.is_tested(), knee.expected_busy_rate)
            } else {
                Cell::missing()
            },
            knee.capacity_per_s
                .map_or_else(Cell::missing, |rate| Cell::decimal(rate, 0)),
        ]);
    }
    table
}
