//! The verdict of a run of `contention`: whether the run can say anything, and then its finding
//! about the record.
//!
//! * `findings`: the rules, and whether the machine limited a row. `remedy`: how many shards help.

mod findings;
mod remedy;

use serde::Serialize;

use self::findings::{
    activated, busy, fine, guideline, limited, lost, machine, not_the_record, nothing, overload,
    slow, too_short,
};
use super::{Word, rules_in};
use crate::contention::format::load;
use crate::contention::{FinishedRun, ReportRow, RowLayout};
use crate::report::{self, ReportTable, count, percent};

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
    row: &'r ReportRow,
    /// The rows of more records, the fewest first.
    others: Vec<(usize, &'r ReportRow)>,
}

/// Returns a finding if its rule applies.
type FindingOf = fn(&LoadRows<'_>) -> Option<Headline>;

/// The rules in their order: their names in JSON, and their findings.
const RULES: [(&str, FindingOf); 11] = [
    ("lost", lost),
    ("nothing", nothing),
    ("too-short", too_short),
    ("machine", machine),
    ("not-the-record", not_the_record),
    ("activated", activated),
    ("overload", overload),
    ("busy", busy),
    ("slow", slow),
    ("guideline", guideline),
    ("ok", fine),
];

/// Lists the rules.
pub(crate) fn rules_table() -> ReportTable {
    rules_in(include_str!("../../../../docs/contention.md"))
}

impl Headline {
    /// Judges a run: the gravest finding of all loads, unless a condition fails.
    pub(crate) fn of(run: &FinishedRun) -> Self {
        let loads = LoadRows::all(run);
        let judge = |load| {
            let mut found = RULES.iter().filter_map(|(rule, find)| {
                Some(Self {
                    rule,
                    ..find(load)?
                })
            });
            found.next()
        };
        let judged = loads.iter().filter_map(|load| Some((load, judge(load)?)));
        let worst = judged.max_by(|(a, found), (b, other)| {
            let by_word = found.word.cmp(&other.word);
            by_word.then(a.badness().total_cmp(&b.badness()))
        });
        let mut headline = worst.map_or_else(Self::of_nothing, |(_, found)| found);
        let is_short = |load: &&LoadRows<'_>| too_short(load).is_some();
        let short: Vec<String> = loads
            .iter()
            .filter(is_short)
            .map(|one| load(one.row))
            .collect();
        if headline.word != Word::TooShort && !short.is_empty() {
            headline.sentence += &format!(" Too short to judge: {}.", short.join(", "));
        }
        // Conditions that are not met decide the exit code.
        let failing = run.conditions.iter().filter(|judged| !judged.passes);
        let failing: Vec<&str> = failing.map(|judged| &*judged.condition).collect();
        if !failing.is_empty() && !headline.word.fails() {
            headline.sentence = format!(
                "{} of {} conditions not met ({}). {}: {}",
                failing.len(),
                run.conditions.len(),
                failing.join(", "),
                headline.word.text(),
                headline.sentence
            );
            (headline.word, headline.rule) = (Word::Fail, "conditions");
        }
        if let Some(cut) = &run.interruption {
            headline.sentence += &format!(
                " Interrupted: {} of {} measurements were made.",
                cut.done, cut.wanted
            );
        }
        headline
    }

    /// Returns the verdict of a run without rows.
    pub(crate) fn of_nothing() -> Self {
        Self::new(Word::Nothing, "Nothing was measured.")
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

    fn on(mut self, load: &LoadRows<'_>) -> Self {
        self.before = Some(load.place);
        self
    }
}

impl<'r> LoadRows<'r> {
    fn all(run: &'r FinishedRun) -> Vec<Self> {
        let mut loads: Vec<Self> = Vec::new();
        for (place, row) in run.rows().enumerate() {
            let same = loads.iter_mut().find(|load| {
                let is_plain = load.row.activation.is_none() && row.activation.is_none();
                is_plain && load.row.has_load_of(row)
            });
            match same {
                Some(load) => load.others.push((place, row)),
                None => loads.push(Self {
                    run,
                    place,
                    row,
                    others: Vec::new(),
                }),
            }
        }
        let records = |row: &ReportRow| match row.shards {
            RowLayout::Hashed(shards) => (shards, 0),
            RowLayout::Timed(_, shards) => (shards, 1),
        };
        // A row that stays in one record while others are activated only shows what would be
        // without.
        let is_control = |load: &Self| {
            let mut rows = run.rows();
            load.row.activation.is_none()
                && rows.any(|row| row.activation.is_some() && row.has_load_of(load.row))
        };
        loads.retain(|load| !is_control(load));
        for load in &mut loads {
            load.others.push((load.place, load.row));
            load.others.sort_by_key(|(_, row)| records(row));
            (load.place, load.row) = load.others.remove(0);
        }
        loads
    }

    /// Orders loads of the same word.
    fn badness(&self) -> f64 {
        let row = self.row;
        let refused = row
            .phases
            .last()
            .map_or(row.key_busy_share, |phase| phase.figures.key_busy_share);
        // Of NaN and 0 the larger is 0.
        refused * 1e12 + row.p99_us.max(0.0)
    }

    /// Returns the rows in more hash shards: number, shards, row.
    fn hashed(&self) -> impl Iterator<Item = (usize, u32, &'r ReportRow)> {
        let others = self.others.iter();
        others.filter_map(|(place, row)| match row.shards {
            RowLayout::Hashed(made) => Some((*place, made, *row)),
            RowLayout::Timed(..) => None,
        })
    }

    /// Returns the rows among them that the machine did not limit.
    fn clean(&self) -> impl Iterator<Item = (usize, u32, &'r ReportRow)> {
        self.hashed()
            .filter(|(_, _, row)| limited(self.run, row).is_none())
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
        match self.row.shards {
            RowLayout::Hashed(1) => "in one record".to_owned(),
            RowLayout::Hashed(made) => format!("in {made} shards"),
            layout => format!("in {layout} shards"),
        }
    }
}

fn load_words(row: &ReportRow) -> String {
    match row.rate {
        Some(_) => load(row).replace("/s", " writes/s"),
        None => load(row),
    }
}

fn time(micros: f64) -> String {
    if micros.is_finite() {
        report::micros(micros.max(0.0))
    } else {
        "not known".to_owned()
    }
}

/// Writes `184 -> 36 ms`.
fn arrow(was: f64, is: f64) -> String {
    let (was, is) = (time(was), time(is));
    match (was.rsplit_once(' '), is.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} -> {is}"),
        _ => format!("{was} -> {is}"),
    }
}

#[cfg(test)]
mod tests;
