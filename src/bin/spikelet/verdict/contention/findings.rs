//! The rules of a run, each with the sentence that it finds; what limited a row: the record, or the
//! machine and the load generator.

use super::{
    GOODPUT_MIN, Headline, IDLE, LOADED, LoadRows, RISES, WORTH_IT, arrow, load_words, time,
};
use crate::contention::format::shards;
use crate::contention::{BUSY_KNEE, Finding, FinishedRun, ReportRow, RowLayout, Spread};
use crate::report::{count, decimal, exact, percent, short};
use crate::verdict::Word;

/// Fewer writes have no 99th percentile.
const WRITES_MIN: u64 = 100;
/// A shorter row on the engine shows how threads start, in seconds.
const SECONDS_MIN: f64 = 0.5;
/// Waiting is long when p99 is this many holds; the 99th percentile of an exponential hold alone is
/// 4.6 means.
const LONG_HOLDS: [f64; 2] = [5.0, 9.0];

pub(super) fn lost(load: &LoadRows<'_>) -> Option<Headline> {
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

pub(super) fn nothing(load: &LoadRows<'_>) -> Option<Headline> {
    let why = "No write was acknowledged, so nothing is proved.";
    (load.run.correctness.acknowledged == 0).then(|| Headline::new(Word::Nothing, why))
}

pub(super) fn too_short(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row;
    let seconds = load
        .run
        .measured
        .get(load.place)
        .map_or(0.0, |one| one.seconds);
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

pub(super) fn machine(load: &LoadRows<'_>) -> Option<Headline> {
    let why = limited(load.run, load.row)?;
    let sentence = format!(
        "Nothing is said about the record: at {} {why}. Lower the rate or the threads, take another machine, or run \
         --virtual.",
        load_words(load.row)
    );
    Some(Headline::new(Word::Machine, sentence).on(load))
}

pub(super) fn not_the_record(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row;
    let is_bad = row.key_busy_share >= BUSY_KNEE || served(row) < GOODPUT_MIN;
    let worse = load.hashed().filter(|(_, _, other)| {
        other.key_busy_share >= BUSY_KNEE && other.key_busy_share > row.key_busy_share * RISES
    });
    let worse = worse.last();
    let helped = load.hashed().any(|(_, _, other)| relieves(row, other));
    let (_, most, other) = match worse {
        Some(worse) if !helped => worse,
        _ => load.hashed().last().filter(|_| is_bad && !helped)?,
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

pub(super) fn activated(load: &LoadRows<'_>) -> Option<Headline> {
    let activation = load.row.activation.as_ref()?;
    let row = load.row;
    let [before, _, after] = row.phases.as_slice() else {
        return None;
    };
    let (before, after) = (&before.figures, &after.figures);
    let served = after.acked as f64 / after.offered.max(1) as f64;
    let p99 = if before.p99_us.is_finite() && after.p99_us.is_finite() {
        format!(", p99 {}", arrow(before.p99_us, after.p99_us))
    } else {
        String::new()
    };
    let sentence = format!(
        "{} sharded over {} at {}: KEY_BUSY {} before and {} after{p99}. It took {} s, and nothing was lost.",
        load.who(["was", "were"]),
        shards(row.shards),
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

pub(super) fn overload(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row;
    if served(row) >= GOODPUT_MIN {
        return None;
    }
    let serves = load.capacity().map_or_else(String::new, |capacity| {
        format!(", and a record serves {}/s", short(capacity))
    });
    let begins = if row.key_busy_share >= BUSY_KNEE {
        format!("{}{serves}.", refused(load))
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
    Some(load.with_remedy(Word::Overload, &begins))
}

pub(super) fn busy(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row;
    if row.key_busy_share < BUSY_KNEE {
        return None;
    }
    let rests = match row.rate {
        Some(_) => String::new(),
        None => format!(" {}", load.run.settings.rest_words()),
    };
    Some(load.with_remedy(Word::Busy, &format!("{}.{rests}", refused(load))))
}

/// Says how many of the writes are refused, and where.
fn refused(load: &LoadRows<'_>) -> String {
    format!(
        "{} {} KEY_BUSY at {} {}",
        load.who(["takes", "take"]),
        percent(load.row.key_busy_share, 1),
        load_words(load.row),
        load.place()
    )
}

pub(super) fn slow(load: &LoadRows<'_>) -> Option<Headline> {
    let row = load.row;
    let used = utilisation(load.run, load.row);
    let [fixed, exponential] = LONG_HOLDS;
    let long = match load.run.settings.hold.spread {
        Spread::Fixed => fixed,
        Spread::Exponential => exponential,
    };
    let holds = row.hold_us.map(|hold_us| row.p99_us / hold_us);
    let helps = |other: &ReportRow| {
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
    Some(load.with_remedy(Word::Slow, &begins))
}

pub(super) fn guideline(load: &LoadRows<'_>) -> Option<Headline> {
    let guideline = load.run.guideline.as_ref()?;
    (guideline.finding == Finding::Fail).then(|| {
        let sentence = format!(
            "{} The guideline of {} writes/s on one record fails: a burst of {} times that puts two writes or more into one \
             hold of {} in {} of the cases.",
            calm(load),
            exact(guideline.rate),
            guideline.burst,
            time(guideline.hold_us),
            percent(guideline.p2, 1)
        );
        Headline::new(Word::Watch, sentence).on(load)
    })
}

pub(super) fn fine(load: &LoadRows<'_>) -> Option<Headline> {
    let is_one = |row: &ReportRow| row.shards == RowLayout::Hashed(1);
    let hint = if load.run.rows().any(is_one) {
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
    let row = load.row;
    let used = utilisation(load.run, load.row)
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

/// A load generator that is later than this at its 99th percentile is late, in microseconds.
const LATE_US: f64 = 1_000.0;
/// Beyond this part of their time the processors are saturated.
const SATURATED: f64 = 0.95;
/// Holds that are longer than meant by this factor show a slow machine.
const HOLD_STRETCH: f64 = 1.5;
/// Refusals and latencies that fall below this part have fallen.
const FALLS: f64 = 0.75;

/// Returns the part of the offered writes that was acknowledged in time; 1 of a closed loop.
pub(super) fn served(row: &ReportRow) -> f64 {
    match row.rate {
        Some(_) if row.offered_per_s > 0.0 => row.goodput_per_s / row.offered_per_s,
        _ => 1.0,
    }
}

/// Returns whether another row of the same load is better off, beyond chance.
pub(super) fn relieves(row: &ReportRow, other: &ReportRow) -> bool {
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

/// Returns the part of the time that the hottest record is locked; an upper bound where holds are
/// not measured. `None`: not known.
pub(super) fn utilisation(run: &FinishedRun, row: &ReportRow) -> Option<f64> {
    let hold_us = row
        .hold_us
        .or_else(|| run.guideline.as_ref().map(|guideline| guideline.hold_us))?;
    let rate = row.rate.unwrap_or(row.goodput_per_s);
    let records = match row.activation {
        Some(_) => 1,
        None => row.shards.live_shards(),
    };
    Some(rate * run.settings.hottest_share() * hold_us / 1e6 / f64::from(records))
}

/// Returns why a row says nothing of the record: the load generator or the machine limited it.
pub(super) fn limited(run: &FinishedRun, row: &ReportRow) -> Option<String> {
    let settings = &run.settings;
    if settings.is_virtual {
        return None;
    }
    let used = utilisation(run, row);
    // Threads that all wait for the record send the next write late, too.
    let waiting = row.goodput_per_s * row.service_p50_us / 1e6;
    let all_wait = row
        .writers
        .is_some_and(|threads| waiting >= threads as f64 * LOADED);
    let is_open = row.rate.is_some() && row.activation.is_none() && !all_wait;
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
