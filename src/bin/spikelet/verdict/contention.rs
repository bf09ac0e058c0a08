//! The verdict of a run of `contention`: whether the run can say anything, and then its finding
//! about the record.
//!
//! * `limits`: whether the machine limited a row, and how busy a record was. `findings`: the rules.
//! * `remedy`: how many shards help. `words`: loads and times in sentences.

mod findings;
mod limits;
mod remedy;
mod words;

use serde::Serialize;

use self::findings::{
    activated, busy, fine, guideline, lost, machine, not_the_record, nothing, overload, slow,
    too_short,
};
use self::limits::limited;
use self::remedy::ShardRemedy;
use super::{VerdictRule, Word, first};
use crate::contention::format::load;
use crate::contention::{FinishedRun, Measurement, ReportRow, RowLayout};
use crate::report::{count, percent};

/// Below this utilisation no queue forms that would explain a refusal or a long wait.
const IDLE: f64 = 0.3;
/// From this utilisation on the queue explains the waits.
const LOADED: f64 = 0.5;
/// A record that acknowledges a smaller part of its writes is overloaded.
const GOODPUT_MIN: f64 = 0.95;
/// Goodput that rises by this factor has risen.
const RISES: f64 = 1.25;
/// More shards are worth their reads while they make p99 no larger than this part of it.
const WORTH_IT: f64 = 0.5;

/// A word, and the sentences and rows behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Headline {
    /// The word, which decides colour and exit code.
    pub(crate) word: Word,
    /// The name of the rule that found it.
    pub(crate) rule: &'static str,
    /// The finding, and the remedy.
    pub(crate) sentence: String,
    /// The advised number of shards; `None`: none are needed, or none are known to be enough.
    pub(crate) shards: Option<u32>,
    /// Whether that number was `measured`, or `computed` from the capacity of a record.
    pub(crate) shards_are: Option<&'static str>,
    /// The row that is judged, by number.
    pub(crate) before: Option<usize>,
    /// The row that shows what helps, by number.
    pub(crate) after: Option<usize>,
}

/// The rows of one load: the one on the fewest records is judged, and the others show what helps
/// it. A row with an activation is judged alone.
pub(crate) struct LoadRows<'r> {
    run: &'r FinishedRun,
    /// The number of the row that is judged.
    place: usize,
    measured: &'r Measurement,
    /// The rows of more records, the fewest first.
    others: Vec<(usize, &'r Measurement)>,
}

/// The rules in their order.
pub(crate) fn rules<'r>() -> [VerdictRule<LoadRows<'r>, Headline>; 11] {
    let rule = VerdictRule::new;
    [
        rule(
            "lost",
            "LOST",
            "an acknowledged write is missing, doubled or was invisible",
            lost,
        ),
        rule("nothing", "NOTHING", "no write was acknowledged", nothing),
        rule(
            "too-short",
            "TOO SHORT",
            "fewer than 100 writes, or less than half a second",
            too_short,
        ),
        rule(
            "machine",
            "MACHINE",
            "1 % of the writes were sent later than a write takes, the processors were saturated, or holds took half as long again, \
             and the record was not the reason",
            machine,
        ),
        rule(
            "not-the-record",
            "NOT THE RECORD",
            "writes are refused or not served, and more shards do not change it",
            not_the_record,
        ),
        rule(
            "activated",
            "OK, BUSY, OVERLOAD",
            "shards were activated while the row ran: the finding afterwards",
            activated,
        ),
        rule(
            "overload",
            "OVERLOAD",
            "less than 95 % of the offered writes were acknowledged",
            overload,
        ),
        rule(
            "busy",
            "BUSY",
            "0.1 % of the writes were refused (KEY_BUSY) or more",
            busy,
        ),
        rule(
            "slow",
            "SLOW",
            "the record's queue makes p99 5 times a hold or more, or writers take all it serves",
            slow,
        ),
        rule(
            "guideline",
            "WATCH",
            "the guideline of 50 writes a second fails for this hold or burst",
            guideline,
        ),
        rule("ok", "OK", "nothing of that", fine),
    ]
}

impl Headline {
    /// Judges a run: the gravest finding of all loads, unless a condition fails.
    pub(crate) fn of(run: &FinishedRun) -> Self {
        let loads = LoadRows::all(run);
        let rules = rules();
        let judged = loads.iter().filter_map(|load| {
            let (rule, found) = first(&rules, load)?;
            Some((load, Self { rule, ..found }))
        });
        let worst = judged.max_by(|(a, found), (b, other)| {
            let by_word = found.word.cmp(&other.word);
            by_word.then(a.badness().total_cmp(&b.badness()))
        });
        let mut headline = worst.map_or_else(
            || Self::new(Word::Nothing, "Nothing was measured."),
            |(_, found)| found,
        );
        let is_short = |load: &&LoadRows<'_>| too_short(load).is_some();
        let short: Vec<String> = loads
            .iter()
            .filter(is_short)
            .map(|one| load(one.row()))
            .collect();
        if headline.word != Word::TooShort && !short.is_empty() {
            headline.sentence += &format!(" Too short to judge: {}.", short.join(", "));
        }
        headline.with_conditions(run).with_interruption(run)
    }

    fn new(word: Word, sentence: impl Into<String>) -> Self {
        Self {
            word,
            rule: "nothing",
            sentence: sentence.into(),
            shards: None,
            shards_are: None,
            before: None,
            after: None,
        }
    }

    /// Carries conditions that are not met: they decide the exit code.
    fn with_conditions(mut self, run: &FinishedRun) -> Self {
        let failing = run.conditions.iter().filter(|judged| !judged.passes);
        let failing: Vec<String> = failing.map(|judged| judged.condition.to_string()).collect();
        if !failing.is_empty() && !self.word.fails() {
            self.sentence = format!(
                "{} of {} conditions not met ({}). {}: {}",
                failing.len(),
                run.conditions.len(),
                failing.join(", "),
                self.word.text(),
                self.sentence
            );
            (self.word, self.rule) = (Word::Fail, "conditions");
        }
        self
    }

    fn with_interruption(mut self, run: &FinishedRun) -> Self {
        if let Some(cut) = &run.interruption {
            self.sentence += &format!(
                " Interrupted: {} of {} measurements were made.",
                cut.done, cut.wanted
            );
        }
        self
    }

    fn on(mut self, load: &LoadRows<'_>) -> Self {
        self.before = Some(load.place);
        self
    }

    /// Adds what helps.
    fn with(mut self, remedy: ShardRemedy) -> Self {
        self.sentence += &remedy.sentence;
        (self.shards, self.shards_are, self.after) = (remedy.shards, remedy.are, remedy.after);
        self
    }
}

impl<'r> LoadRows<'r> {
    fn all(run: &'r FinishedRun) -> Vec<Self> {
        let mut loads: Vec<Self> = Vec::new();
        for (place, measured) in run.measured.iter().enumerate() {
            let alone = measured.activation.is_some();
            let same = loads.iter_mut().find(|load| {
                let is_plain = load.measured.activation.is_none();
                !alone && is_plain && load.row().has_load_of(&measured.row)
            });
            match same {
                Some(load) => load.others.push((place, measured)),
                None => loads.push(Self {
                    run,
                    place,
                    measured,
                    others: Vec::new(),
                }),
            }
        }
        let records = |measured: &Measurement| match measured.case.layout {
            RowLayout::Hashed(shards) => (shards, 0),
            RowLayout::Timed(_, shards) => (shards, 1),
        };
        // A row that stays in one record while others are activated only shows what would be
        // without.
        let is_control = |load: &Self| {
            let mut rows = run.measured.iter();
            load.measured.activation.is_none()
                && rows.any(|row| row.activation.is_some() && row.row.has_load_of(load.row()))
        };
        loads.retain(|load| !is_control(load));
        for load in &mut loads {
            load.others.push((load.place, load.measured));
            load.others.sort_by_key(|(_, measured)| records(measured));
            (load.place, load.measured) = load.others.remove(0);
        }
        loads
    }

    fn row(&self) -> &'r ReportRow {
        &self.measured.row
    }

    /// Orders loads of the same word.
    fn badness(&self) -> f64 {
        let row = self.row();
        let refused = row
            .phases
            .last()
            .map_or(row.key_busy_share, |phase| phase.figures.key_busy_share);
        // Of NaN and 0 the larger is 0.
        refused * 1e12 + row.p99_us.max(0.0)
    }

    /// Returns the rows in more hash shards: number, shards, row.
    fn hashed(&self) -> impl Iterator<Item = (usize, u32, &'r Measurement)> {
        let others = self.others.iter();
        others.filter_map(|(place, measured)| match measured.case.layout {
            RowLayout::Hashed(made) => Some((*place, made, *measured)),
            RowLayout::Timed(..) => None,
        })
    }

    /// Returns shards and rows alone.
    fn rows(&self) -> impl Iterator<Item = (u32, &'r ReportRow)> {
        self.hashed()
            .map(|(_, made, measured)| (made, &measured.row))
    }

    /// Returns the rows among them that the machine did not limit.
    fn clean(&self) -> impl Iterator<Item = (usize, u32, &'r ReportRow)> {
        self.hashed()
            .filter(|(_, _, measured)| limited(self.run, measured).is_none())
            .map(|(place, made, measured)| (place, made, &measured.row))
    }

    /// Returns the share of the writes that the hottest key takes.
    fn hottest(&self) -> f64 {
        self.run.settings.hottest_share()
    }

    /// Names the hot keys with a verb in the singular or the plural.
    fn who(&self, [one, several]: [&str; 2]) -> String {
        match self.run.settings.hot_keys {
            1 => format!("Key hot0 {one}"),
            keys => format!(
                "{} hot keys, of which hot0 has {} of the writes, {several}",
                count(keys.into()),
                percent(self.hottest(), 1)
            ),
        }
    }

    /// Says where the row that is judged keeps a key.
    fn place(&self) -> String {
        match self.measured.case.layout {
            RowLayout::Hashed(1) => "in one record".to_owned(),
            RowLayout::Hashed(made) => format!("in {made} shards"),
            layout => format!("in {layout} shards"),
        }
    }
}

#[cfg(test)]
mod tests;
