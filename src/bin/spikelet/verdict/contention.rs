//! The verdict of a run of `contention`: what the run can say at all, and then what it says of the
//! record.

use std::time::Duration;

use serde::Serialize;
use spikelet::shard::arithmetic::{SHARDS_MAX, power_of_two};

use super::{Rule, Word, first};
use crate::contention::format::{load, percent, rate_number, shards};
use crate::contention::{BUSY_KNEE, Finding, Layout, Measurement, Row, Run, Spread};
use crate::report::{count, decimal, duration};

/// Fewer writes have no 99th percentile.
const WRITES_MIN: u64 = 100;
/// A shorter row on the engine shows how threads start, in seconds.
const SECONDS_MIN: f64 = 0.5;
/// A load generator that is later than this at its 99th percentile is late, in microseconds.
const LATE_US: f64 = 1_000.0;
/// Beyond this part of their time the processors are saturated.
const SATURATED: f64 = 0.95;
/// Holds that are longer than meant by this factor show a slow machine.
const HOLD_STRETCH: f64 = 1.5;
/// Below this utilisation no queue forms that would explain a refusal or a long wait.
const IDLE: f64 = 0.3;
/// From this utilisation on the queue explains what writes wait for.
const LOADED: f64 = 0.5;
/// Waiting is long when p99 is this many holds; the 99th percentile of an exponential hold alone is
/// 4.6 means.
const LONG_HOLDS: [f64; 2] = [5.0, 9.0];
/// A record that acknowledges a smaller part of its writes is overloaded.
const GOODPUT_MIN: f64 = 0.95;
/// Refusals and latencies that fall below this part have fallen.
const FALLS: f64 = 0.75;
/// Goodput that rises by this factor has risen.
const RISES: f64 = 1.25;
/// More shards are worth their reads while they make p99 no larger than this part of it.
const WORTH_IT: f64 = 0.5;
/// The capacity of the advised shards exceeds the rate by this factor.
const HEADROOM: f64 = 4.0 / 3.0;

/// A word, and the sentences and rows behind it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Headline {
    /// The word, which decides colour and exit code.
    pub(crate) word: Word,
    /// The name of the rule that found it.
    pub(crate) rule: &'static str,
    /// What is so, and what to do.
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

/// The rows of one load: the one on the fewest records is judged, and the others show what helps it.
/// A row whose shards are activated while it runs stands alone.
pub(crate) struct LoadRows<'r> {
    run: &'r Run,
    /// The number of the row that is judged.
    place: usize,
    measured: &'r Measurement,
    /// The rows of more records, the fewest first.
    others: Vec<(usize, &'r Measurement)>,
}

/// The rules in their order.
pub(crate) fn rules<'r>() -> [Rule<LoadRows<'r>, Headline>; 11] {
    let rule = |name, words, when, find| Rule {
        name,
        words,
        when,
        find,
    };
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
            "shards were activated while the row ran: what is so afterwards",
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
    pub(crate) fn of(run: &Run) -> Self {
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
    fn with_conditions(mut self, run: &Run) -> Self {
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

    fn with_interruption(mut self, run: &Run) -> Self {
        if let Some(cut) = run.interruption {
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
    fn with(mut self, remedy: Remedy) -> Self {
        self.sentence += &remedy.sentence;
        (self.shards, self.shards_are, self.after) = (remedy.shards, remedy.are, remedy.after);
        self
    }
}

/// How many shards, and the sentence that says so.
#[derive(Default)]
struct Remedy {
    sentence: String,
    shards: Option<u32>,
    are: Option<&'static str>,
    after: Option<usize>,
}

impl<'r> LoadRows<'r> {
    fn all(run: &'r Run) -> Vec<Self> {
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
            Layout::Hashed(shards) => (shards, 0),
            Layout::Timed(_, shards) => (shards, 1),
        };
        // A row that stays in one record while others are activated only shows what would be without.
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

    fn row(&self) -> &'r Row {
        &self.measured.row
    }

    /// Orders loads of the same word.
    fn badness(&self) -> f64 {
        let row = self.row();
        let refused = row
            .phases
            .last()
            .map_or(row.key_busy_share, |phase| phase.key_busy_share);
        let wait = if row.p99_us.is_finite() {
            row.p99_us
        } else {
            0.0
        };
        refused * 1e12 + wait
    }

    /// Returns the rows in more hash shards: number, shards, row.
    fn hashed(&self) -> impl Iterator<Item = (usize, u32, &'r Measurement)> {
        self.others.iter().filter_map(|(place, measured)| {
            let made = match measured.case.layout {
                Layout::Hashed(made) => made,
                Layout::Timed(..) => return None,
            };
            Some((*place, made, *measured))
        })
    }

    /// Returns those of them that the machine did not limit.
    fn clean(&self) -> impl Iterator<Item = (usize, u32, &'r Row)> {
        self.hashed()
            .filter(|(_, _, measured)| limited(self.run, measured).is_none())
            .map(|(place, made, measured)| (place, made, &measured.row))
    }

    /// Returns the share of the writes that the hottest key takes.
    fn hottest(&self) -> f64 {
        self.run.settings.hottest_share()
    }

    /// Returns the writes a second that a record serves: one a hold, or what an overloaded one was
    /// seen to serve.
    fn capacity(&self) -> Option<f64> {
        let row = self.row();
        let is_full = served(row) < GOODPUT_MIN && self.run.settings.hot_keys == 1;
        let seen =
            is_full.then(|| row.goodput_per_s / f64::from(self.measured.case.layout.live_shards()));
        let by_hold = row.hold_us.map(|hold_us| 1e6 / hold_us);
        by_hold.or(seen).filter(|capacity| *capacity > 0.0)
    }

    /// Returns the fewest shards whose capacity exceeds the rate of the hottest key by a third.
    fn needed(&self) -> Option<u32> {
        let rate = self.row().rate? * self.hottest();
        let shards = power_of_two((rate * HEADROOM / self.capacity()?).ceil() as u64);
        u32::try_from(shards).ok()
    }

    /// Says what helps.
    fn remedy(&self) -> Remedy {
        let needed = self.needed();
        let capacity = self.capacity().map_or(0.0, |capacity| capacity);
        let computed = |shards: u32, rest: String| Remedy {
            sentence: format!(
                " Hash-shard it by {shards} (computed from {} writes/s a record{rest}); a read of all of it costs {shards} gets.{}",
                decimal(capacity, 0),
                self.by_time()
            ),
            shards: Some(shards),
            are: Some("computed"),
            after: None,
        };
        let is_measured = |shards: u32| self.clean().any(|(_, made, _)| made == shards);
        match (self.enough(), needed) {
            (Some((place, made, _)), Some(fewer))
                if fewer > 1 && fewer < made && !is_measured(fewer) =>
            {
                Remedy {
                    after: Some(place),
                    ..computed(
                        fewer,
                        format!("; of those measured, {made} is the fewest that passes"),
                    )
                }
            }
            (Some((place, made, calm)), _) => Remedy {
                sentence: format!(
                    " Hash-shard it by {made} (measured): {}; a read of all of it costs {made} gets.{}",
                    self.gain(calm),
                    self.by_time()
                ),
                shards: Some(made),
                are: Some("measured"),
                after: Some(place),
            },
            (None, Some(shards)) if shards > 1 => {
                let rest = match self.clean().last() {
                    Some((_, most, row)) if served(row) < GOODPUT_MIN => format!(
                        "; {most} shards are not enough: {} of the writes are served",
                        percent(served(row), 0)
                    ),
                    Some((_, most, row)) if row.key_busy_share >= BUSY_KNEE => format!(
                        "; {most} shards are not enough: {} are still refused",
                        percent(row.key_busy_share, 1)
                    ),
                    _ => ", not measured".to_owned(),
                };
                computed(shards, rest)
            }
            _ => {
                let most = self.hashed().map(|(_, made, _)| made).max();
                let refused = self.clean().last().filter(|(_, _, row)| row.key_busy > 0);
                let found = refused.map_or_else(String::new, |(_, most, row)| {
                    let still = percent(row.key_busy_share, 1);
                    format!(" {most} shards are not enough: {still} are still refused.")
                });
                let most = most.unwrap_or(1).min(SHARDS_MAX as u32 / 4);
                let more = [2, 4].map(|factor| (most * factor).to_string()).join(",");
                Remedy {
                    sentence: format!(
                        "{found} Measure more shards (--shards 1,{more}).{}",
                        self.by_time()
                    ),
                    ..Remedy::default()
                }
            }
        }
    }

    /// Writes what these shards bring.
    fn gain(&self, calm: &Row) -> String {
        let row = self.row();
        let p99 = format!("p99 {}", arrow(row.p99_us, calm.p99_us));
        if row.rate.is_none() {
            let (was, is) = (row.goodput_per_s, calm.goodput_per_s);
            return format!("{} -> {} writes/s, {p99}", decimal(was, 0), decimal(is, 0));
        }
        format!("{}, {p99}", percent(calm.key_busy_share, 1))
    }

    /// Returns the fewest measured shards that pass, and more while that halves p99.
    fn enough(&self) -> Option<(usize, u32, &'r Row)> {
        let row = self.row();
        let mut passing = self.clean().filter(|(_, _, other)| {
            other.key_busy_share < BUSY_KNEE && served(other) >= GOODPUT_MIN && relieves(row, other)
        });
        let mut enough = passing.next()?;
        for more in passing {
            if more.2.p99_us > enough.2.p99_us * WORTH_IT {
                break;
            }
            enough = more;
        }
        Some(enough)
    }

    /// Says what shards by time came to, if they were measured.
    fn by_time(&self) -> String {
        let timed = |alone: bool| {
            let rows = self.others.iter().filter(move |(_, measured)| {
                let layout = measured.case.layout;
                matches!(layout, Layout::Timed(..)) && layout.is_time_alone() == alone
            });
            rows.map(|(_, measured)| &measured.row)
        };
        let words = |row: &Row| format!("{}: {}", row.shards, percent(row.key_busy_share, 1));
        let refused: Vec<String> = timed(true)
            .filter(|row| row.key_busy_share >= BUSY_KNEE)
            .map(words)
            .collect();
        let calm: Vec<String> = timed(false)
            .filter(|row| row.key_busy_share < BUSY_KNEE)
            .map(words)
            .collect();
        let mut sentence = String::new();
        if !refused.is_empty() {
            sentence += &format!(" Time shards alone do not help ({}).", refused.join(", "));
        }
        if !calm.is_empty() {
            sentence += &format!(" Time with hash shards does ({}).", calm.join(", "));
        }
        sentence
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
            Layout::Hashed(1) => "in one record".to_owned(),
            Layout::Hashed(made) => format!("in {made} shards"),
            layout => format!("in {layout} shards"),
        }
    }
}

/// Returns the part of the offered writes that was acknowledged in time; 1 of a closed loop.
fn served(row: &Row) -> f64 {
    match row.rate {
        Some(_) if row.offered_per_s > 0.0 => row.goodput_per_s / row.offered_per_s,
        _ => 1.0,
    }
}

/// Returns whether another row of the same load is better off, beyond chance.
fn relieves(row: &Row, other: &Row) -> bool {
    let is_faster = || {
        let apart = row.p99_interval_us.zip(other.p99_interval_us);
        other.p99_us <= row.p99_us * FALLS && apart.is_some_and(|((from, _), (_, to))| to < from)
    };
    let serves_more = other.goodput_per_s >= row.goodput_per_s * RISES;
    match row.rate {
        None => serves_more,
        Some(_) if row.key_busy_share >= BUSY_KNEE => {
            serves_more || other.key_busy_share <= row.key_busy_share * FALLS
        }
        Some(_) => serves_more || is_faster(),
    }
}

/// Returns the part of the time that the hottest record is locked; an upper bound where holds are not
/// measured. `None`: not known.
fn utilisation(run: &Run, measured: &Measurement) -> Option<f64> {
    let row = &measured.row;
    let hold_us = row
        .hold_us
        .or_else(|| run.guideline.as_ref().map(|guideline| guideline.hold_us))?;
    let rate = row.rate.unwrap_or(row.goodput_per_s);
    let records = match measured.activation {
        Some(_) => 1,
        None => measured.case.layout.live_shards(),
    };
    Some(rate * run.settings.hottest_share() * hold_us / 1e6 / f64::from(records))
}

/// Returns why a row says nothing of the record: the load generator or the machine limited it.
fn limited(run: &Run, measured: &Measurement) -> Option<String> {
    let (settings, row) = (&run.settings, &measured.row);
    if settings.is_virtual {
        return None;
    }
    let used = utilisation(run, measured);
    // Threads that all wait for the record send the next write late, too.
    let waiting = row.goodput_per_s * row.service_p50_us / 1e6;
    let all_wait = row
        .writers
        .is_some_and(|threads| waiting >= threads as f64 * LOADED);
    let is_open = row.rate.is_some() && measured.activation.is_none() && !all_wait;
    if is_open && row.late_p99_us > LATE_US.max(row.service_p50_us) {
        return Some(format!(
            "{} of {} writes were sent late, at p99 by {}, and a write takes {}",
            count(row.sent_late),
            count(row.offered),
            time(row.late_p99_us),
            time(row.service_p50_us)
        ));
    }
    let outside = row.p99_us - row.service_p99_us;
    if is_open
        && row.key_busy_share < BUSY_KNEE
        && outside > LATE_US
        && outside > row.service_p99_us
    {
        return Some(format!(
            "p99 is {}, of which the store takes {}",
            time(row.p99_us),
            time(row.service_p99_us)
        ));
    }
    let meant_us = settings.hold.mean.as_secs_f64() * 1e6;
    if let Some(hold_us) = row
        .hold_us
        .filter(|hold_us| *hold_us > meant_us * HOLD_STRETCH)
    {
        return Some(format!(
            "holds of {} took {}",
            time(meant_us),
            time(hold_us)
        ));
    }
    let is_loaded = used.is_some_and(|used| used >= LOADED);
    if let Some(busy) = row
        .processors_busy
        .filter(|busy| *busy >= SATURATED && !is_loaded)
    {
        return Some(format!(
            "the processors were busy {} of the time",
            percent(busy, 0)
        ));
    }
    let is_idle = used.is_some_and(|used| used < IDLE);
    (row.rate.is_some() && is_idle && row.key_busy_share >= BUSY_KNEE).then(|| {
        format!(
            "{} of the writes were refused, although the record was locked {} of the time",
            percent(row.key_busy_share, 1),
            percent(used.unwrap_or_default(), 1)
        )
    })
}

fn lost(load: &LoadRows<'_>) -> Option<Headline> {
    let found = &load.run.correctness;
    (!found.holds()).then(|| {
        let sentence = format!(
            "Of {} acknowledged writes {} are lost, {} doubled and {} were invisible.",
            count(found.acknowledged),
            count(found.lost),
            count(found.duplicates),
            count(found.invisible)
        );
        Headline::new(Word::Lost, sentence)
    })
}

fn nothing(load: &LoadRows<'_>) -> Option<Headline> {
    let why = "No write was acknowledged, so nothing is proved.";
    (load.run.correctness.acknowledged == 0).then(|| Headline::new(Word::Nothing, why))
}

fn too_short(load: &LoadRows<'_>) -> Option<Headline> {
    let (row, seconds) = (load.row(), load.measured.seconds);
    let is_long = load.run.settings.is_virtual || seconds >= SECONDS_MIN;
    if row.offered >= WRITES_MIN && is_long {
        return None;
    }
    let rate = row.rate.unwrap_or(row.offered_per_s);
    let would_do = if rate > 0.0 {
        // A few more than needed: writes come at random.
        let seconds = (WRITES_MIN as f64 * 1.3 / rate)
            .max(SECONDS_MIN * 2.0)
            .ceil();
        format!("--duration {seconds}s would do")
    } else {
        "lengthen --duration".to_owned()
    };
    let sentence = format!(
        "{} writes in {} s at {} are too few to judge: {would_do}.",
        count(row.offered),
        decimal(seconds, 2),
        load_words(row)
    );
    Some(Headline::new(Word::TooShort, sentence).on(load))
}

fn machine(load: &LoadRows<'_>) -> Option<Headline> {
    let why = limited(load.run, load.measured)?;
    let sentence = format!(
        "Nothing is said about the record: at {} {why}. Lower the rate or the threads, take another machine, or run \
         --virtual.",
        load_words(load.row())
    );
    Some(Headline::new(Word::Machine, sentence).on(load))
}

fn not_the_record(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row();
    let is_bad = row.key_busy_share >= BUSY_KNEE || served(row) < GOODPUT_MIN;
    let worse = load
        .hashed()
        .map(|(_, made, other)| (made, &other.row))
        .filter(|(_, other)| {
            other.key_busy_share >= BUSY_KNEE && other.key_busy_share > row.key_busy_share * RISES
        });
    let worse = worse.last();
    let helped = load
        .hashed()
        .map(|(_, made, other)| (made, &other.row))
        .any(|(_, other)| relieves(row, other));
    let (most, other) = match worse {
        Some(worse) if !helped => worse,
        _ => load
            .hashed()
            .map(|(_, made, other)| (made, &other.row))
            .last()
            .filter(|_| is_bad && !helped)?,
    };
    let (was, is) = (row.key_busy_share, other.key_busy_share);
    let figures = match row.rate {
        _ if was.max(is) < BUSY_KNEE => format!(
            "{} of the writes are served, and {}",
            percent(served(row), 0),
            percent(served(other), 0)
        ),
        Some(_) => format!("{} are refused, and {}", percent(was, 1), percent(is, 1)),
        None => format!(
            "{} are refused and {} writes/s served, and {} and {}",
            percent(was, 1),
            decimal(row.goodput_per_s, 0),
            percent(is, 1),
            decimal(other.goodput_per_s, 0)
        ),
    };
    let sentence = format!(
        "More shards change nothing at {}: {} {figures} in {most} shards. Look for the limit elsewhere: at writers, \
         processors, device or network.",
        load_words(row),
        load.place()
    );
    Some(Headline::new(Word::NotTheRecord, sentence).on(load))
}

fn activated(load: &LoadRows<'_>) -> Option<Headline> {
    let activation = load.measured.activation.as_ref()?;
    let row = load.row();
    let [before, _, after] = row.phases.as_slice() else {
        return None;
    };
    let served = after.acked as f64 / after.offered.max(1) as f64;
    let p99 = before.p99_us.zip(after.p99_us);
    let p99 = p99.map_or_else(String::new, |(was, is)| format!(", p99 {}", arrow(was, is)));
    let sentence = format!(
        "{} sharded over {} at {}: KEY_BUSY {} before and {} after{p99}. It took {} s, and nothing was lost.",
        load.who(["was", "were"]),
        shards(&row.shards),
        load_words(row),
        percent(before.key_busy_share, 1),
        percent(after.key_busy_share, 1),
        decimal(activation.ended_s - activation.began_s, 2),
    );
    let word = match after.key_busy_share {
        _ if served < GOODPUT_MIN && after.offered > 0 => Word::Overload,
        refused if refused >= BUSY_KNEE => Word::Busy,
        _ => Word::Ok,
    };
    Some(Headline::new(word, sentence))
}

fn overload(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row();
    if served(row) >= GOODPUT_MIN {
        return None;
    }
    let serves = load.capacity().map_or_else(String::new, |capacity| {
        format!(", and a record serves {}/s", decimal(capacity, 0))
    });
    let begins = if row.key_busy_share >= BUSY_KNEE {
        format!(
            "{} {} KEY_BUSY at {} {}{serves}.",
            load.who(["takes", "take"]),
            percent(row.key_busy_share, 1),
            load_words(row),
            load.place()
        )
    } else {
        format!(
            "{} offered {} {}, of which {} are served: the queue grows, and p99 is {}{serves}.",
            load.who(["is", "are"]),
            load_words(row),
            load.place(),
            percent(served(row), 0),
            time(row.p99_us)
        )
    };
    Some(
        Headline::new(Word::Overload, begins)
            .on(load)
            .with(load.remedy()),
    )
}

fn busy(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row();
    if row.key_busy_share < BUSY_KNEE {
        return None;
    }
    let rests = match row.rate {
        Some(_) => String::new(),
        None => format!(" {}", load.run.settings.rest_words()),
    };
    let begins = format!(
        "{} {} KEY_BUSY at {} {}.{rests}",
        load.who(["takes", "take"]),
        percent(row.key_busy_share, 1),
        load_words(row),
        load.place()
    );
    Some(
        Headline::new(Word::Busy, begins)
            .on(load)
            .with(load.remedy()),
    )
}

fn slow(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row();
    let used = utilisation(load.run, load.measured);
    let [fixed, exponential] = LONG_HOLDS;
    let long = match load.run.settings.hold.spread {
        Spread::Fixed => fixed,
        Spread::Exponential => exponential,
    };
    let holds = row.hold_us.map(|hold_us| row.p99_us / hold_us);
    let helps = |other: &Row| {
        let service = other.service_p99_us <= row.service_p99_us * WORTH_IT;
        relieves(row, other)
            && (row.rate.is_none() || (service && other.p99_us <= row.p99_us * WORTH_IT))
    };
    let is_helped = load.clean().any(|(_, _, other)| helps(other));
    let is_slow = match (row.rate, holds) {
        (Some(_), Some(holds)) => holds >= long && used >= Some(LOADED),
        (Some(_), None) => is_helped && used.is_none_or(|used| used >= IDLE),
        // Several writers that together take all that a record serves.
        (None, Some(holds)) => {
            let is_alone = load.others.is_empty();
            holds >= 1.0 / WORTH_IT && used >= Some(1.0 / RISES) && (is_alone || is_helped)
        }
        (None, None) => is_helped,
    };
    if !is_slow {
        return None;
    }
    let begins = match row.rate {
        Some(_) => format!(
            "{} never refused at {} {}, but wait{}: p99 is {}.",
            load.who(["is", "are"]),
            load_words(row),
            load.place(),
            if load.run.settings.hot_keys == 1 {
                "s"
            } else {
                ""
            },
            time(row.p99_us)
        ),
        None => format!(
            "{} {} writes/s {} from {}, all that a record serves.",
            load.who(["gives", "give"]),
            decimal(row.goodput_per_s, 0),
            load.place(),
            load_words(row)
        ),
    };
    Some(
        Headline::new(Word::Slow, begins)
            .on(load)
            .with(load.remedy()),
    )
}

fn guideline(load: &LoadRows<'_>) -> Option<Headline> {
    let guideline = load.run.guideline.as_ref()?;
    (guideline.finding == Finding::Fail).then(|| {
        let sentence = format!(
            "{} The guideline of {} writes/s on one record fails: a burst of {} times that puts two writes or more into one \
             hold of {} in {} of the cases.",
            calm(load),
            rate_number(guideline.rate),
            guideline.burst,
            time(guideline.hold_us),
            percent(guideline.p2, 1)
        );
        Headline::new(Word::Watch, sentence).on(load)
    })
}

fn fine(load: &LoadRows<'_>) -> Option<Headline> {
    let one = |measured: &Measurement| measured.case.layout == Layout::Hashed(1);
    let hint = if load.run.measured.iter().any(one) {
        ""
    } else {
        " Measure one record, too, to see what the shards save: --shards 1."
    };
    let does = match (load.place(), load.others.is_empty()) {
        (place, _) if place != "in one record" => "More shards are not needed",
        (_, true) => "Sharding is not needed",
        (_, false) => "Sharding does not help",
    };
    let sentence = format!("{does} here. {}{hint}", calm(load));
    Some(Headline::new(Word::Ok, sentence).on(load))
}

/// Says of a row that nothing is wrong with it.
fn calm(load: &LoadRows<'_>) -> String {
    let row = load.row();
    let used = utilisation(load.run, load.measured)
        .filter(|used| row.rate.is_some() && *used < 1.0)
        .map_or_else(String::new, |used| {
            format!(", which is locked {} of the time at most", percent(used, 1))
        });
    let p99 = if row.p99_us.is_finite() {
        format!("; p99 is {}", time(row.p99_us))
    } else {
        String::new()
    };
    let refused = match row.key_busy {
        0 => "No write is refused".to_owned(),
        _ => format!(
            "{} of the writes are refused",
            percent(row.key_busy_share, 2)
        ),
    };
    format!(
        "{refused} at {} {}{used}{p99}.",
        load_words(row),
        load.place()
    )
}

fn load_words(row: &Row) -> String {
    match row.rate {
        Some(_) => load(row).replace("/s", " writes/s"),
        None => load(row),
    }
}

fn time(micros: f64) -> String {
    if micros.is_finite() {
        duration(Duration::from_secs_f64(micros.max(0.0) / 1e6))
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
