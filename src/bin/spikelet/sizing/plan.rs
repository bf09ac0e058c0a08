//! A plan from numbers alone: entries, their size, and writes a second.

use serde::Serialize;
use spikelet::shard::arithmetic::{SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::model::{Recommendation, ShardScenario, TimeRecommendation};
use super::recommendation::{Need, Subject, recommend, what_if};
use crate::report::{Cell, Report, Section, Table, bytes, count};
use crate::sizing::present;

/// How one collection is best kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Its entries.
    pub(crate) entries: u64,
    /// What each takes, in bytes.
    pub(crate) entry_bytes: u64,
    /// Writes a second to it.
    pub(crate) writes_per_s: Option<f64>,
    /// What all entries take.
    pub(crate) total_bytes: u64,
    /// The fewest shards, by size and rate.
    pub(crate) shards: u64,
    /// The next power of two, which is what is made.
    pub(crate) shards_pow2: u64,
    /// `one-record`, `hash-shards`, `time-shards` where there would be too many, or
    /// `record-per-entry` where an entry alone is beyond what one record should hold.
    pub(crate) pattern: &'static str,
    /// Why, in a sentence.
    pub(crate) why: String,
    /// What asked for that many: `size`, `rate`, or `nothing` for one.
    pub(crate) bound_by: &'static str,
    /// The fewest shards by size.
    pub(crate) shards_by_size: u64,
    /// The fewest shards by rate.
    pub(crate) shards_by_rate: u64,
    /// How many entries fit into a shard of 128 KiB.
    pub(crate) entries_per_shard: u64,
    /// Buckets of time instead, if every write adds an entry and a bucket holds less than all of
    /// them.
    pub(crate) time: Option<TimeRecommendation>,
    /// What each number of shards would give.
    pub(crate) what_if: Vec<ShardScenario>,
}

/// The most writes a second that are planned for: beyond it nothing on one machine is written.
pub(crate) const WRITES_PER_S_MAX: f64 = 1e9;

/// An invalid rate: negative, not a number, or beyond [`WRITES_PER_S_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} writes a second: expected a number from 0 to {WRITES_PER_S_MAX}")]
pub(crate) struct RateError(pub f64);

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum PlanError {
    /// A collection of nothing.
    #[error("0 entries: there is nothing to plan, give at least 1")]
    NoEntries,
    /// Entries of nothing.
    #[error("entries of 0 bytes: each takes something, give at least 1")]
    NoBytes,
    /// More bytes than 64 bits count.
    #[error(
        "{entries} entries of {entry_bytes} bytes are more than {} bytes, which is all that can be counted: give fewer or smaller ones",
        u64::MAX
    )]
    TooLarge {
        /// The number of entries.
        entries: u64,
        /// What each takes.
        entry_bytes: u64,
    },
    /// The rate is invalid.
    #[error(transparent)]
    Rate(#[from] RateError),
}

pub(super) fn checked_rate(writes_per_s: f64) -> Result<f64, RateError> {
    if (0.0..=WRITES_PER_S_MAX).contains(&writes_per_s) {
        Ok(writes_per_s)
    } else {
        Err(RateError(writes_per_s))
    }
}

/// Plans a collection.
///
/// # Errors
/// [`PlanError`]: numbers of which there is no collection.
pub(crate) fn plan(
    entries: u64,
    entry_bytes: u64,
    writes_per_s: Option<f64>,
) -> Result<Plan, PlanError> {
    if entries == 0 {
        return Err(PlanError::NoEntries);
    }
    if entry_bytes == 0 {
        return Err(PlanError::NoBytes);
    }
    let total_bytes = entries
        .checked_mul(entry_bytes)
        .ok_or(PlanError::TooLarge {
            entries,
            entry_bytes,
        })?;
    let writes_per_s = writes_per_s.map(checked_rate).transpose()?;
    let need = Need {
        subject: Subject::Collection,
        total_bytes,
        bytes_p99: total_bytes,
        element_bytes: Some(entry_bytes as f64),
        writes_per_s,
        time_to_live_s_p50: None,
    };
    let advice = recommend(&need);
    let pattern = match advice.shards_pow2 {
        _ if entry_bytes > SWEET_SPOT_BYTES => "record-per-entry",
        1 => "one-record",
        made if made > SHARDS_MAX => "time-shards",
        _ => "hash-shards",
    };
    Ok(Plan {
        entries,
        entry_bytes,
        writes_per_s,
        total_bytes,
        shards: advice.shards,
        shards_pow2: advice.shards_pow2,
        pattern,
        why: why(&advice, entries, entry_bytes),
        bound_by: advice.bound_by,
        shards_by_size: advice.shards_by_size,
        shards_by_rate: advice.shards_by_rate,
        entries_per_shard: advice.elements_per_shard.unwrap_or_default(),
        // A bucket that would hold more than all there is divides nothing.
        time: advice
            .time
            .filter(|time| time.bucket_bytes_p99 < total_bytes),
        what_if: what_if(&need, None),
    })
}

fn why(advice: &Recommendation, entries: u64, entry_bytes: u64) -> String {
    if entry_bytes > SWEET_SPOT_BYTES {
        return format!(
            "An entry of {} bytes is beyond the {} that one record should hold: give each a record of its own, and keep their \
             keys in the collection.",
            count(entry_bytes),
            count(SWEET_SPOT_BYTES)
        );
    }
    if advice.shards == 1 {
        return format!(
            "{} {}, within the {} that one record should hold, and the rate is within {WRITES_PER_SECOND} writes a second.",
            match entries {
                1 => "1 entry takes".to_owned(),
                entries => format!("{} entries together take", count(entries)),
            },
            bytes(advice.total_bytes),
            bytes(SWEET_SPOT_BYTES)
        );
    }
    advice.sentence.clone()
}

impl Plan {
    /// Builds the report of the plan.
    #[must_use]
    pub(crate) fn to_report(&self) -> Report {
        let rate = self
            .writes_per_s
            .map_or_else(Cell::missing, |rate| Cell::decimal(rate, 1));
        let mut answer = Table::new("The answer", &["what", "number"]);
        answer.row([Cell::text("entries"), Cell::count(self.entries)]);
        answer.row([Cell::text("bytes an entry"), Cell::count(self.entry_bytes)]);
        answer.row([Cell::text("writes a second"), rate]);
        answer.row([Cell::text("total bytes"), Cell::count(self.total_bytes)]);
        answer.row([
            Cell::text("entries in a shard of 128 KiB"),
            Cell::count(self.entries_per_shard),
        ]);
        answer.row([
            Cell::text("shards by size"),
            Cell::count(self.shards_by_size),
        ]);
        answer.row([
            Cell::text("shards by rate"),
            Cell::count(self.shards_by_rate),
        ]);
        answer.row([Cell::text("shards"), Cell::count(self.shards)]);
        answer.row([
            Cell::text("shards, as a power of two"),
            Cell::count(self.shards_pow2),
        ]);
        let mut section = Section::new("Plan")
            .paragraph(format!("Pattern: {}. {}", self.pattern, self.why))
            .table(answer);
        if let Some(time) = &self.time {
            section = section.paragraph(present::time_sentence(time));
        }
        Report::new("Sizing plan").section(section).section(
            Section::new("What if").table(present::what_if_table("The collection", &self.what_if)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_collections_come_out_as_documented() {
        let table = [
            (300_000, 15, None, 4_500_000, 35, 64, "hash-shards"),
            (
                10_000_000,
                15,
                None,
                150_000_000,
                1_145,
                2_048,
                "hash-shards",
            ),
            (600, 300, None, 180_000, 2, 2, "hash-shards"),
            (5, 500_000, None, 2_500_000, 20, 32, "record-per-entry"),
            (100, 15, None, 1_500, 1, 1, "one-record"),
            (100, 15, Some(400.0), 1_500, 8, 8, "hash-shards"),
            (
                1_000_000_000,
                15,
                None,
                15_000_000_000,
                114_441,
                131_072,
                "time-shards",
            ),
        ];
        for (entries, bytes, rate, total, shards, made, pattern) in table {
            let found = plan(entries, bytes, rate).unwrap();
            assert_eq!(
                (
                    found.total_bytes,
                    found.shards,
                    found.shards_pow2,
                    found.pattern
                ),
                (total, shards, made, pattern),
                "{entries} x {bytes}"
            );
            assert!(!found.why.is_empty());
        }
    }

    #[test]
    fn the_reason_is_in_words_that_fit() {
        let why = |entries, bytes| plan(entries, bytes, None).unwrap().why;
        assert!(why(1, 15).starts_with("1 entry takes 15 B, within"));
        assert!(why(2, 15).starts_with("2 entries together take 30 B, within"));
        assert!(
            why(1, 131_073).starts_with("An entry of 131,073 bytes is beyond the 131,072 that")
        );
    }

    #[test]
    fn buckets_of_time_are_offered_where_they_divide() {
        let time = |entries| plan(entries, 15, Some(10.0)).unwrap().time;
        // An hour of 10 writes a second is 36,000 entries.
        assert_eq!(time(30_000), None);
        assert!(time(1_000_000).is_some());
    }

    #[test]
    fn numbers_of_which_there_is_no_collection_are_refused() {
        let half = 1 << 32;
        assert_eq!(plan(0, 15, None), Err(PlanError::NoEntries));
        assert_eq!(plan(1, 0, None), Err(PlanError::NoBytes));
        assert_eq!(
            plan(half, half, None),
            Err(PlanError::TooLarge {
                entries: half,
                entry_bytes: half
            })
        );
        assert_eq!(
            plan(u64::MAX / 15, 15, None).unwrap().pattern,
            "time-shards"
        );
        for rate in [-1.0, f64::INFINITY, WRITES_PER_S_MAX * 2.0] {
            assert_eq!(plan(1, 1, Some(rate)), Err(RateError(rate).into()));
        }
        let refused = plan(1, 1, Some(f64::NAN)).unwrap_err().to_string();
        assert!(refused.starts_with("NaN writes a second"), "{refused}");
        for rate in [0.0, 1.0, WRITES_PER_S_MAX] {
            assert_eq!(plan(1, 1, Some(rate)).unwrap().writes_per_s, Some(rate));
        }
    }

    #[test]
    fn the_text_fits_a_terminal() {
        let plan = plan(u64::MAX, 1, Some(WRITES_PER_S_MAX)).unwrap();
        let text = plan.to_report().to_text();
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}
