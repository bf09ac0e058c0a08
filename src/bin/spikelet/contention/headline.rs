//! What a person would say of a run, in a sentence or two.

use serde::Serialize;
use spikelet::shard::arithmetic::power_of_two;

use super::format::{load, percent, shards};
use super::judge::BUSY_KNEE;
use super::layout::Layout;
use super::row::{Measurement, Row};
use super::run::Run;
use crate::report::{Level, count, decimal, duration};

/// Sharding that makes p99 no smaller than this part of what it was is not worth its reads.
const WORTH_IT: f64 = 0.5;

/// What a person would say, and the numbers behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Headline {
    /// `OK`, `SLOW`, `BUSY`, `LOST` or `NOTHING`.
    pub(crate) word: &'static str,
    /// The sentence.
    pub(crate) sentence: String,
    /// Into how many shards; `None`: none are needed, or none that were measured are enough.
    pub(crate) shards: Option<u32>,
    /// The row on one record that it is about, by number.
    pub(crate) before: Option<usize>,
    /// The row that shows what helps, by number.
    pub(crate) after: Option<usize>,
    #[serde(skip)]
    pub(super) level: Option<Level>,
}

impl Headline {
    pub(super) fn of(run: &Run) -> Self {
        let mut said = Self::judged(run);
        let failing = run
            .conditions
            .iter()
            .filter(|judged| !judged.passes)
            .count();
        if failing > 0 {
            said.sentence += &format!(" {failing} of {} conditions fail.", run.conditions.len());
        }
        if let Some(cut) = run.interruption {
            said.sentence += &format!(
                " Interrupted: {} of {} measurements were made.",
                cut.done, cut.wanted
            );
        }
        said
    }

    fn new(word: &'static str, level: Level, sentence: String) -> Self {
        Self {
            word,
            sentence,
            shards: None,
            before: None,
            after: None,
            level: Some(level),
        }
    }

    pub(super) fn level(&self) -> Level {
        self.level.unwrap_or(Level::Watch)
    }

    fn judged(run: &Run) -> Self {
        let found = &run.correctness;
        if !found.holds() {
            return Self::new(
                "LOST",
                Level::Bad,
                format!(
                    "Of {} acknowledged writes {} are lost, {} doubled and {} were invisible.",
                    count(found.acknowledged),
                    count(found.lost),
                    count(found.duplicates),
                    count(found.invisible)
                ),
            );
        }
        if found.acknowledged == 0 {
            let why = "No write was acknowledged, so nothing is proved.".to_owned();
            return Self::new("NOTHING", Level::Watch, why);
        }
        let still = |measured: &&Measurement| measured.activation.is_none();
        if let Some(activated) = run.measured.iter().find(|measured| !still(measured)) {
            return Self::of_activation(run, activated);
        }
        match worst_on_one_record(run) {
            Some(before) => Self::of_one_record(run, before),
            None => Self::without_one_record(run),
        }
    }

    fn of_activation(run: &Run, measured: &Measurement) -> Self {
        let (row, phases) = (&measured.row, &measured.row.phases);
        let [before, _, after] = phases.as_slice() else {
            return Self::without_one_record(run);
        };
        let took = measured
            .activation
            .as_ref()
            .map_or(0.0, |activation| activation.ended_s - activation.began_s);
        let p99 = before.p99_us.zip(after.p99_us);
        let p99 = p99.map_or_else(String::new, |(was, is)| format!(", p99 {}", arrow(was, is)));
        let mut said = Self::new(
            "OK",
            Level::Good,
            format!(
                "{} sharded over {} at {}: KEY_BUSY {} before and {} after{p99}. It took {} s, and nothing was \
                 lost.",
                who(run, ["was", "were"]),
                shards(&row.shards),
                load_words(row),
                percent(before.key_busy_share, 1),
                percent(after.key_busy_share, 1),
                decimal(took, 2),
            ),
        );
        if after.key_busy_share >= BUSY_KNEE {
            (said.word, said.level) = ("BUSY", Some(Level::Bad));
        }
        said
    }

    fn of_one_record(run: &Run, before: usize) -> Self {
        let Some(row) = run.measured.get(before).map(|measured| &measured.row) else {
            return Self::without_one_record(run);
        };
        let beside = Beside::of(run, row);
        let mut said = if row.key_busy_share >= BUSY_KNEE {
            Self::busy(run, row, &beside)
        } else {
            Self::calm(run, row, &beside)
        };
        said.before = Some(before);
        said
    }

    /// Says what helps a record whose writers are refused.
    fn busy(run: &Run, row: &Row, beside: &Beside<'_>) -> Self {
        let begins = format!(
            "{} {} KEY_BUSY at {} in one record.",
            who(run, ["takes", "take"]),
            percent(row.key_busy_share, 1),
            load_words(row)
        );
        let Some((place, made, calm)) = beside.enough() else {
            let rest = Self::not_enough(row, beside);
            return Self::new(
                "BUSY",
                Level::Bad,
                format!("{begins} {rest}{}", beside.time()),
            );
        };
        let mut said = Self::new(
            "BUSY",
            Level::Bad,
            format!(
                "{begins} Hash-shard it by {made}: {}, p99 {}; a read of all of it costs {made} gets.{}",
                percent(calm.key_busy_share, 1),
                arrow(row.p99_us, calm.p99_us),
                beside.time()
            ),
        );
        (said.shards, said.after) = (Some(*made), Some(*place));
        said
    }

    fn not_enough(row: &Row, beside: &Beside<'_>) -> String {
        let needed = row.rate.filter(|_| row.goodput_per_s > 0.0).map(|rate| {
            let shards = power_of_two((rate / row.goodput_per_s).ceil() as u64);
            format!(
                " One record serves {} writes/s, so it takes {} shards at least.",
                decimal(row.goodput_per_s, 0),
                count(shards)
            )
        });
        let needed = needed.unwrap_or_default();
        match beside.hashed.last() {
            Some((_, most, other)) => format!(
                "{most} shards are not enough: {} are still refused.{needed} Measure more of them (--shards).",
                percent(other.key_busy_share, 1)
            ),
            None => format!("No other number of shards was measured (--shards 1,2,4,8).{needed}"),
        }
    }

    /// Says whether shards help a record whose writers are not refused.
    fn calm(run: &Run, row: &Row, beside: &Beside<'_>) -> Self {
        let is_worth_it = |(_, _, other): &&(usize, u32, &Row)| {
            let apart = row.p99_interval_us.zip(other.p99_interval_us);
            other.key_busy_share < BUSY_KNEE
                && other.p99_us <= row.p99_us * WORTH_IT
                && apart.is_some_and(|((from, _), (_, to))| to < from)
        };
        if let Some((place, made, other)) = beside.hashed.iter().find(is_worth_it) {
            let mut said = Self::new(
                "SLOW",
                Level::Watch,
                format!(
                    "{} never refused at {} in one record, but wait{}. Hash-shard by {made}: p99 {}; a read of all of it \
                     costs {made} gets.{}",
                    who(run, ["is", "are"]),
                    load_words(row),
                    if run.settings.hot_keys == 1 { "s" } else { "" },
                    arrow(row.p99_us, other.p99_us),
                    beside.time()
                ),
            );
            (said.shards, said.after) = (Some(*made), Some(*place));
            return said;
        }
        let p99 = match row.p99_us.is_finite() {
            true => format!(", and p99 is {}", time(row.p99_us)),
            false => String::new(),
        };
        let why = if beside.hashed.is_empty() {
            format!(
                "Sharding is not needed here, because no write is refused at {} in one record{p99}.",
                load_words(row)
            )
        } else {
            format!(
                "Sharding does not help here, because no write is refused at {} in one record{p99}, which shards do not halve.",
                load_words(row)
            )
        };
        Self::new("OK", Level::Good, why)
    }

    fn without_one_record(run: &Run) -> Self {
        let by_share = |a: &&Row, b: &&Row| a.key_busy_share.total_cmp(&b.key_busy_share);
        let Some(row) = run.rows().max_by(by_share) else {
            let why = "Nothing was measured.".to_owned();
            return Self::new("NOTHING", Level::Watch, why);
        };
        let is_busy = row.key_busy_share >= BUSY_KNEE;
        let (word, level) = if is_busy {
            ("BUSY", Level::Bad)
        } else {
            ("OK", Level::Good)
        };
        Self::new(
            word,
            level,
            format!(
                "{} {} KEY_BUSY at {} at most ({}). Measure one record, too, to see what that saves: --shards 1.",
                who(run, ["takes", "take"]),
                percent(row.key_busy_share, 1),
                load_words(row),
                shards(&row.shards)
            ),
        )
    }
}

/// The other layouts at the load of a row on one record.
struct Beside<'r> {
    /// Into more shards than one, by number: the number of the row, shards, the row.
    hashed: Vec<(usize, u32, &'r Row)>,
    /// By time alone.
    timed: Vec<&'r Row>,
}

impl<'r> Beside<'r> {
    fn of(run: &'r Run, row: &Row) -> Self {
        let same = run
            .measured
            .iter()
            .enumerate()
            .filter(|(_, other)| other.row.has_load_of(row));
        let mut beside = Self {
            hashed: Vec::new(),
            timed: Vec::new(),
        };
        for (place, other) in same {
            match other.case.layout {
                Layout::Hashed(1) => {}
                Layout::Hashed(made) => beside.hashed.push((place, made, &other.row)),
                layout if layout.is_time_alone() => beside.timed.push(&other.row),
                Layout::Timed(..) => {}
            }
        }
        beside.hashed.sort_by_key(|(_, made, _)| *made);
        beside
    }

    /// Returns the fewest shards with which hardly a write is refused, and more while that halves the
    /// waiting.
    fn enough(&self) -> Option<&(usize, u32, &'r Row)> {
        let is_calm = |(_, _, row): &&(usize, u32, &Row)| row.key_busy_share < BUSY_KNEE;
        let mut calm = self.hashed.iter().filter(is_calm);
        let mut enough = calm.next()?;
        for more in calm {
            if more.2.p99_us > enough.2.p99_us * WORTH_IT {
                break;
            }
            enough = more;
        }
        Some(enough)
    }

    /// Says that time shards alone do not help, if that was measured.
    fn time(&self) -> String {
        let refused: Vec<String> = self
            .timed
            .iter()
            .filter(|row| row.key_busy_share >= BUSY_KNEE)
            .map(|row| format!("{}: {}", row.shards, percent(row.key_busy_share, 1)))
            .collect();
        if refused.is_empty() {
            return String::new();
        }
        format!(" Time shards alone do not help ({}).", refused.join(", "))
    }
}

/// Returns the number of the row on one record that is refused most, or else waits longest.
fn worst_on_one_record(run: &Run) -> Option<usize> {
    let on_one = |(_, measured): &(usize, &Measurement)| {
        measured.case.layout == Layout::Hashed(1) && measured.row.offered > 0
    };
    let waits = |row: &Row| {
        if row.p99_us.is_finite() {
            row.p99_us
        } else {
            0.0
        }
    };
    let worse = |a: &Row, b: &Row| {
        let by_share = a.key_busy_share.total_cmp(&b.key_busy_share);
        by_share.then(waits(a).total_cmp(&waits(b)))
    };
    run.measured
        .iter()
        .enumerate()
        .filter(on_one)
        .max_by(|(_, a), (_, b)| worse(&a.row, &b.row))
        .map(|(place, _)| place)
}

/// Returns the hot keys as the subject of a sentence, with its verb in one form or the other.
fn who(run: &Run, [one, several]: [&str; 2]) -> String {
    match run.settings.hot_keys {
        1 => format!("Key hot0 {one}"),
        keys => format!("{} hot keys {several}", count(keys.into())),
    }
}

fn load_words(row: &Row) -> String {
    match row.rate {
        Some(_) => load(row).replace("/s", " writes/s"),
        None => load(row),
    }
}

fn time(micros: f64) -> String {
    if micros.is_finite() {
        duration(std::time::Duration::from_secs_f64(micros / 1e6))
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
mod tests {
    use super::*;
    use crate::contention::run::Criteria;
    use crate::contention::testing::settings;
    use crate::contention::{Load, measure};

    fn said(cases: &[(f64, &str)]) -> Headline {
        let measured = cases
            .iter()
            .map(|(rate, layout)| {
                let load = Load::Open { rate: *rate };
                let case = settings().case(load, layout.parse().unwrap()).unwrap();
                measure(&case).unwrap()
            })
            .collect();
        Headline::of(&Run::new(&settings(), measured, &Criteria::default()))
    }

    #[test]
    fn it_says_what_helps_and_what_does_not() {
        let all = [
            (50.0, "1"),
            (50.0, "4"),
            (200.0, "1"),
            (200.0, "2"),
            (200.0, "4"),
            (200.0, "8"),
            (200.0, "hourly"),
        ];
        let found = said(&all);
        assert_eq!((found.word, found.shards), ("BUSY", Some(4)), "{found:?}");
        assert_eq!((found.before, found.after.is_some()), (Some(2), true));
        let words = &found.sentence;
        assert!(
            words.starts_with("Key hot0 takes 3") && words.contains("KEY_BUSY at 200 writes/s"),
            "{words}"
        );
        assert!(
            words.contains("Hash-shard it by 4: 0 %, p99 176"),
            "{words}"
        );
        assert!(
            words.contains("Time shards alone do not help (hourly: 3"),
            "{words}"
        );
    }

    #[test]
    fn it_does_not_call_for_shards_that_do_not_help_or_were_not_measured() {
        let calm = said(&[(10.0, "1"), (10.0, "8")]);
        assert_eq!((calm.word, calm.shards), ("OK", None));
        assert!(
            calm.sentence
                .starts_with("Sharding does not help here, because"),
            "{calm:?}"
        );
        let alone = said(&[(400.0, "1")]);
        assert!(
            alone.sentence.contains("so it takes 4 shards at least"),
            "{alone:?}"
        );
        let few = said(&[(400.0, "1"), (400.0, "2")]);
        assert!(few.sentence.contains("2 shards are not enough"), "{few:?}");
        let slow = said(&[(100.0, "1"), (100.0, "8")]);
        assert_eq!((slow.word, slow.shards), ("SLOW", Some(8)), "{slow:?}");
        let timed = said(&[(200.0, "hourly")]);
        assert_eq!((timed.word, timed.before), ("BUSY", None));
    }
}
