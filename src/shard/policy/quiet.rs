//! Finds out whether a sharded collection has become quiet, over all its writers.
//!
//! A handle sees its own writes only. So before shards are merged, the generations of all of them
//! are read twice, a time apart: their rise counts the writes of all.

use std::sync::{Mutex, PoisonError};

use super::is_ahead;

/// Generations are read this far apart: 10 seconds.
pub(crate) const CENSUS_MS: u64 = 10_000;

/// So many quiet pairs of readings in a row lead to a merge.
const QUIET_MIN: u32 = 3;

/// And no more than this many, however often merges had to be undone: an hour.
const QUIET_MAX: u32 = 360;

/// A merge has to be undone if contention shards the collection again within this time: 10 minutes.
const UNDONE_MS: u64 = 600_000;

/// What a generation starts again from.
const GENERATIONS: u32 = 65_535;

/// What one record of a collection had when all were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardReading {
    pub(crate) generation: u16,
    pub(crate) record_bytes: u64,
    pub(crate) elements: u64,
}

/// What two readings of all shards say together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Census {
    pub(crate) shards: u64,
    /// Writes of the whole collection, by all handles.
    pub(crate) writes_per_second: f64,
    /// The largest record that a merge would make, in bytes, and in elements.
    pub(crate) record_bytes_merged: u64,
    pub(crate) elements_merged: u64,
}

/// Remembers readings, and for how long the collection has been quiet.
#[derive(Debug, Default)]
pub(crate) struct QuietMonitor(Mutex<Calm>);

#[derive(Debug, Default)]
struct Calm {
    epoch: u64,
    /// When the next reading is due.
    due_ms: u64,
    last: Option<(u64, Vec<ShardReading>)>,
    /// How many censuses in a row were quiet.
    quiet: u32,
    /// How many quiet censuses in a row a merge takes.
    needed: u32,
    merged_ms: Option<u64>,
}

impl QuietMonitor {
    /// Returns whether all shards of a collection of this epoch should be read now: true for one
    /// caller, every 10 seconds.
    pub(crate) fn is_due(&self, now_ms: u64, epoch: u64) -> bool {
        let Ok(mut calm) = self.0.try_lock() else {
            return false;
        };
        if epoch != calm.epoch {
            (calm.epoch, calm.last, calm.quiet) = (epoch, None, 0);
            calm.due_ms = now_ms.saturating_add(CENSUS_MS);
        }
        if is_ahead(calm.due_ms, now_ms, CENSUS_MS) {
            return false;
        }
        calm.due_ms = now_ms.saturating_add(CENSUS_MS);
        true
    }

    /// Takes a reading of all shards of this epoch. Returns its difference to the one before.
    pub(crate) fn read(
        &self,
        now_ms: u64,
        epoch: u64,
        readings: Vec<ShardReading>,
    ) -> Option<Census> {
        let mut calm = self.calm();
        if epoch != calm.epoch {
            return None;
        }
        let last = calm.last.replace((now_ms, readings))?;
        let (_, readings) = calm.last.as_ref()?;
        census(&last, now_ms, readings)
    }

    /// Counts a census as quiet or not. Returns whether there have been enough quiet ones to merge.
    pub(crate) fn is_settled(&self, is_quiet: bool) -> bool {
        let mut calm = self.calm();
        calm.quiet = if is_quiet { calm.quiet + 1 } else { 0 };
        calm.quiet >= calm.needed.max(QUIET_MIN)
    }

    /// Notes that shards were merged.
    pub(crate) fn merged(&self, now_ms: u64) {
        self.calm().merged_ms = Some(now_ms);
    }

    /// Notes that contention has sharded the collection further: soon after a merge, the next merge
    /// takes twice as long.
    pub(crate) fn contended(&self, now_ms: u64) {
        let mut calm = self.calm();
        let is_undone = calm
            .merged_ms
            .take()
            .is_some_and(|at| is_ahead(at.saturating_add(UNDONE_MS), now_ms, UNDONE_MS));
        calm.needed = if is_undone {
            let needed = calm.needed.max(QUIET_MIN);
            needed.saturating_mul(2).min(QUIET_MAX)
        } else {
            QUIET_MIN
        };
    }

    fn calm(&self) -> std::sync::MutexGuard<'_, Calm> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn census(
    (before_ms, before): &(u64, Vec<ShardReading>),
    now_ms: u64,
    now: &[ShardReading],
) -> Option<Census> {
    let elapsed_ms = now_ms.checked_sub(*before_ms).filter(|ms| *ms > 0)?;
    if before.len() != now.len() {
        return None;
    }
    let writes = before.iter().zip(now).map(|(before, now)| {
        let (before, now) = (u32::from(before.generation), u32::from(now.generation));
        u64::from((now + GENERATIONS - before) % GENERATIONS)
    });
    let (low, high) = now.split_at(now.len() / 2);
    let merged = |of: fn(&ShardReading) -> u64| {
        let nobody = ShardReading::default();
        // One companion alone goes back into the root.
        let low = low.iter().chain(std::iter::repeat(&nobody));
        high.iter()
            .zip(low)
            .map(|(high, low)| of(high).saturating_add(of(low)))
            .max()
            .unwrap_or(0)
    };
    Some(Census {
        shards: now.len() as u64,
        writes_per_second: writes.sum::<u64>() as f64 * 1_000.0 / elapsed_ms as f64,
        record_bytes_merged: merged(|reading| reading.record_bytes),
        elements_merged: merged(|reading| reading.elements),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(generations: &[u16]) -> Vec<ShardReading> {
        let reading = |generation: &u16| ShardReading {
            generation: *generation,
            record_bytes: 100 + u64::from(*generation % 10),
            elements: 3,
        };
        generations.iter().map(reading).collect()
    }

    #[test]
    fn a_census_counts_the_writes_of_everybody_past_the_end_of_generations() {
        let quiet = QuietMonitor::default();
        assert!(!quiet.is_due(1_000, 5));
        assert!(quiet.is_due(11_000, 5));
        assert!(!quiet.is_due(11_000, 5));
        assert_eq!(quiet.read(11_000, 5, readings(&[10, 65_530, 7, 1])), None);
        let census = quiet.read(21_000, 5, readings(&[15, 5, 7, 2])).unwrap();
        assert_eq!(census.shards, 4);
        // 5, 10, 0 and 1 in 10 seconds.
        assert!((census.writes_per_second - 1.6).abs() < 1e-9, "{census:?}");
        assert_eq!(
            (census.record_bytes_merged, census.elements_merged),
            (212, 6)
        );
        // A reading of another epoch says nothing.
        assert_eq!(quiet.read(31_000, 6, readings(&[1])), None);
    }

    #[test]
    fn a_merge_takes_several_quiet_censuses_in_a_row() {
        let quiet = QuietMonitor::default();
        let settled = |answers: &[bool]| -> Vec<bool> {
            answers.iter().map(|it| quiet.is_settled(*it)).collect()
        };
        assert_eq!(
            settled(&[true, true, false, true, true, true]),
            [false, false, false, false, false, true]
        );
    }

    #[test]
    fn a_merge_that_had_to_be_undone_makes_the_next_one_wait_twice_as_long() {
        let quiet = QuietMonitor::default();
        let needed = |now_ms: u64, epoch: u64| {
            // Another epoch begins anew.
            quiet.is_due(now_ms, epoch);
            (1..1_000).find(|_| quiet.is_settled(true)).unwrap()
        };
        assert_eq!(needed(0, 1), 3);
        quiet.merged(10);
        quiet.contended(20);
        assert_eq!(needed(30, 2), 6);
        for round in 3..20 {
            quiet.merged(30);
            quiet.contended(40);
            assert!(needed(50, round) <= QUIET_MAX);
        }
        assert_eq!(needed(60, 20), QUIET_MAX);
        // One that lasted: from the beginning.
        quiet.merged(100);
        quiet.contended(100 + UNDONE_MS);
        assert_eq!(needed(UNDONE_MS, 21), 3);
    }
}
