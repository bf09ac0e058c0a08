//! What limited a row: the record, or the machine and the load generator.

use super::{IDLE, LOADED, RISES, time};
use crate::contention::{BUSY_KNEE, FinishedRun, ReportRow};
use crate::report::{count, percent};

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
