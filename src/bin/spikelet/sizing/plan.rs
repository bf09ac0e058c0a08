//! A plan from numbers alone: entries, their size, and writes a second.

use clap::Args;
use serde::Serialize;
use spikelet::shard::arithmetic::{SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use super::bucket;
use super::model::{Recommendation, ShardScenario, TimeRecommendation};
use super::recommendation::{Need, recommend, what_if};
use super::remedy::{SizeRemedy, is_blocked};
use crate::report::{Report, ReportTable, Section, bytes, count, decimal};
use crate::sizing::present;
use crate::units;

/// From this many shards on, buckets of time are the better answer where elements come with time:
/// each read of the whole collection reads every shard, a read of the newest one bucket.
const HASH_SHARDS_MANY: u64 = 256;

/// How one collection is best kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CollectionPlan {
    /// What a person would say of it: the pattern, and why.
    pub(crate) verdict: String,
    /// Its entries.
    pub(crate) entries: u64,
    /// The size of each entry, in bytes.
    pub(crate) entry_bytes: u64,
    /// Writes a second to it.
    pub(crate) writes_per_s: Option<f64>,
    /// How long an entry is kept, in seconds.
    pub(crate) retention_s: Option<u64>,
    /// `one-record`, `hash-shards`, `time-shards`, or `record-per-entry` where entries are too
    /// large for shards.
    pub(crate) pattern: &'static str,
    /// Why, in a sentence.
    pub(crate) why: String,
    /// How many shards; of time shards, in each bucket. `time`: if every write adds an entry and a
    /// bucket holds less than all of them.
    #[serde(flatten)]
    pub(crate) advice: Recommendation,
    /// What each number of shards would give; of time shards, for a bucket.
    pub(crate) what_if: Vec<ShardScenario>,
}

/// The numbers of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args)]
pub(crate) struct PlanNumbers {
    /// How many entries the collection has [default: as many as come in the retention].
    #[arg(long, value_name = "N")]
    pub(crate) entries: Option<u64>,
    /// The size of each, in bytes.
    #[arg(long, value_name = "B")]
    pub(crate) entry_bytes: u64,
    /// Writes a second to the collection.
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    pub(crate) writes_per_s: Option<f64>,
    /// How long an entry is kept: 90m, 12h, 30d.
    #[arg(long = "retention", value_name = "TIME", value_parser = seconds)]
    pub(crate) retention_s: Option<u64>,
}

fn seconds(text: &str) -> Result<u64, String> {
    Ok(units::time(text)?.as_secs())
}

/// The most writes a second that are planned for: beyond it nothing on one machine is written.
pub(crate) const WRITES_PER_S_MAX: f64 = 1e9;

/// Returns a rate that is not negative, a number, and at most [`WRITES_PER_S_MAX`].
pub(super) fn checked_rate(writes_per_s: f64) -> Result<f64, String> {
    if (0.0..=WRITES_PER_S_MAX).contains(&writes_per_s) {
        Ok(writes_per_s)
    } else {
        Err(format!(
            "{writes_per_s} writes a second: expected a number from 0 to {WRITES_PER_S_MAX}"
        ))
    }
}

/// Plans a collection.
///
/// # Errors
/// Numbers of which there is no collection, in words.
pub(crate) fn plan(numbers: &PlanNumbers) -> Result<CollectionPlan, String> {
    let PlanNumbers {
        entry_bytes,
        retention_s,
        ..
    } = *numbers;
    let writes_per_s = numbers.writes_per_s.map(checked_rate).transpose()?;
    let kept = writes_per_s.zip(retention_s);
    let kept = kept.map(|(rate, kept)| (rate * kept as f64).ceil() as u64);
    let entries = match (numbers.entries.or(kept), entry_bytes, retention_s) {
        (_, _, Some(0)) => Err("a retention of 0 keeps nothing: give at least 1s"),
        (None, ..) => Err(
            "how many entries there are is not known: give --entries, or --writes-per-s and --retention",
        ),
        (Some(0), ..) => Err("0 entries: there is nothing to plan, give at least 1"),
        (_, 0, _) => Err("entries of 0 bytes: each takes something, give at least 1"),
        (Some(entries), ..) => Ok(entries),
    }?;
    let total_bytes = entries.checked_mul(entry_bytes).ok_or_else(|| {
        format!(
            "{entries} entries of {entry_bytes} bytes are more than {} bytes, which is all that can be counted: give fewer or smaller ones",
            u64::MAX
        )
    })?;
    let remedy = if is_blocked(SWEET_SPOT_BYTES, total_bytes, entry_bytes as f64, entries) {
        SizeRemedy::RecordPerEntry
    } else {
        SizeRemedy::Shard
    };
    let need = Need {
        subject: "list or map",
        total_bytes,
        bytes_p99: total_bytes,
        element_bytes: Some(entry_bytes as f64),
        weighed_element_bytes: entry_bytes as f64,
        writes_per_s,
        retention_s,
        elements: Some(entries),
        shard_bytes_max: SWEET_SPOT_BYTES,
        remedy,
        // Where each entry has a record, writes are distributed with them.
        remedy_for_rate: remedy,
        ..Need::default()
    };
    Ok(planned(&need, entries, entry_bytes))
}

fn planned(need: &Need, entries: u64, entry_bytes: u64) -> CollectionPlan {
    let mut advice = recommend(need);
    // A bucket that would hold more than all there is divides nothing.
    advice.time = advice
        .time
        .filter(|time| time.bucket_bytes_p99 < need.total_bytes);
    let is_by_time = |time: &TimeRecommendation| {
        let is_kept_for_a_time = need.retention_s.is_some() && advice.bound_by == "size";
        advice.shards_pow2 > HASH_SHARDS_MANY.max(time.hash_shards) || is_kept_for_a_time
    };
    let by_time = advice.time.clone().filter(is_by_time);
    let size = bytes(advice.total_bytes);
    let (pattern, instruction, why) = match (&by_time, advice.shards_pow2) {
        _ if need.remedy == SizeRemedy::RecordPerEntry => (
            "record-per-entry",
            "Sharding does not help here: give each entry a record of its own.".to_owned(),
            why_no_shards(entries, entry_bytes),
        ),
        (Some(time), made) => (
            "time-shards",
            format!("Shard it by time: {}.", bucket::sentence(time)),
            format!(
                "By hash, {size} would ask for {} shards, all of which a read of the whole collection reads; old buckets \
                 expire on their own, and the newest entries are in one bucket.",
                count(made)
            ),
        ),
        (None, 1) => {
            let together = match entries {
                1 => "1 entry takes".to_owned(),
                entries => format!("{} entries together take", count(entries)),
            };
            let why = format!(
                "{together} {size}, within the {} that one record should hold, and the rate is within {WRITES_PER_SECOND} \
                 writes a second.",
                bytes(SWEET_SPOT_BYTES)
            );
            ("one-record", "Keep it in one record.".to_owned(), why)
        }
        (None, made) if made > SHARDS_MAX => (
            "time-shards",
            "Divide it by time, or by another part of its key.".to_owned(),
            advice.sentence.clone(),
        ),
        (None, made) => (
            "hash-shards",
            format!(
                "Hash-shard it by {0}: a read of all of it costs {0} gets.",
                count(made)
            ),
            advice.sentence.clone(),
        ),
    };
    advice.sentence.clone_from(&why);
    let mut judged = *need;
    if let Some(time) = &by_time {
        judged.total_bytes = time.bucket_bytes_p99;
        (advice.shards, advice.shards_pow2) = (time.hash_shards, time.hash_shards);
        advice.shards_p99 = time.hash_shards;
        advice.largest_shard_bytes = judged.largest_shard(judged.total_bytes, time.hash_shards);
    }
    CollectionPlan {
        verdict: format!("{instruction} {why}"),
        entries,
        entry_bytes,
        writes_per_s: need.writes_per_s,
        retention_s: need.retention_s,
        pattern,
        why,
        what_if: what_if(&judged, Some(advice.shards_pow2), None),
        advice,
    }
}

/// Says why shards do not help: entries are too large for them.
fn why_no_shards(entries: u64, entry_bytes: u64) -> String {
    let (size, bound) = (count(entry_bytes), count(SWEET_SPOT_BYTES));
    let obstacle = if entry_bytes > SWEET_SPOT_BYTES {
        format!("An entry of {size} bytes is beyond the {bound} that one record should hold")
    } else {
        format!(
            "Shards of at most {bound} bytes would be more than the {} entries of {size} bytes",
            count(entries)
        )
    };
    format!("{obstacle}: keep the keys of these records in the collection.")
}

impl CollectionPlan {
    /// Builds the report of the plan.
    pub(crate) fn to_report(&self) -> Report {
        let advice = &self.advice;
        let rows = [
            ("entries", Some(self.entries)),
            ("bytes an entry", Some(self.entry_bytes)),
            ("total bytes", Some(advice.total_bytes)),
            ("entries in a shard of 128 KiB", advice.elements_per_shard),
            ("hash shards by size", Some(advice.shards_by_size)),
            ("shards by rate", Some(advice.shards_by_rate)),
            ("shards", Some(advice.shards)),
            ("shards, as a power of two", Some(advice.shards_pow2)),
            ("retention in seconds", self.retention_s),
        ];
        let rows = rows.into_iter().filter(|(_, number)| number.is_some());
        let rate = self
            .writes_per_s
            .map(|rate| ("writes a second", decimal(rate, 1)));
        let answer = ReportTable::of("The answer", rows, "what: 0 | number: 1");
        let mut section = Section::new("Plan")
            .paragraph(&self.verdict)
            .fact("pattern", self.pattern)
            .facts(rate)
            .table(answer);
        let is_by_time = self.pattern == "time-shards" && advice.time.is_some();
        if let Some(time) = advice.time.as_ref().filter(|_| !is_by_time) {
            section = section.paragraph(present::time_sentence(time));
        }
        let report = Report::new("Sizing plan").section(section);
        if self.what_if.is_empty() {
            return report;
        }
        let subject = if is_by_time {
            "A bucket"
        } else {
            "The collection"
        };
        report
            .section(Section::new("What if").table(present::what_if_table(subject, &self.what_if)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Word;

    fn plan(
        entries: u64,
        entry_bytes: u64,
        writes_per_s: Option<f64>,
    ) -> Result<CollectionPlan, String> {
        super::plan(&PlanNumbers {
            entries: Some(entries),
            entry_bytes,
            writes_per_s,
            retention_s: None,
        })
    }

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
            (5, 500_000, None, 2_500_000, 1, 1, "record-per-entry"),
            // Shards within the bound would be more than the entries.
            (40, 100_000, None, 4_000_000, 1, 1, "record-per-entry"),
            (2, 66_000, None, 132_000, 1, 1, "record-per-entry"),
            (
                1,
                1_000_000,
                Some(400.0),
                1_000_000,
                1,
                1,
                "record-per-entry",
            ),
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
                    found.advice.total_bytes,
                    found.advice.shards,
                    found.advice.shards_pow2,
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
        let few =
            "Shards of at most 131,072 bytes would be more than the 40 entries of 100,000 bytes";
        assert!(why(40, 100_000).starts_with(few));
    }

    #[test]
    fn buckets_of_time_are_offered_where_they_divide() {
        let time = |entries| plan(entries, 15, Some(10.0)).unwrap().advice.time;
        // Five minutes of 10 writes a second are 3,000 entries.
        assert_eq!(time(3_000), None);
        assert!(time(1_000_000).is_some());
    }

    #[test]
    fn a_finer_bucket_answers_where_thousands_of_shards_would() {
        let found = plan(30_000_000, 15, Some(10.0)).unwrap();
        assert_eq!(
            (found.pattern, found.advice.shards_by_size),
            ("time-shards", 3_434)
        );
        let time = found.advice.time.unwrap();
        assert_eq!((time.width, time.hash_shards), ("5 minutes", 1));
        assert_eq!(time.buckets, Some(10_000));
        assert_eq!((found.advice.shards, found.what_if[0].band), (1, Word::Ok));
        assert!(
            found
                .verdict
                .starts_with("Shard it by time: a bucket for every 5 minutes")
        );
        let fast = plan(30_000_000, 15, Some(400.0)).unwrap();
        let time = fast.advice.time.as_ref().unwrap();
        assert_eq!((time.width, time.hash_shards), ("minute", 8));
        let own = fast.what_if.iter().find(|row| row.shards == 8).unwrap();
        assert_eq!(own.band, Word::Ok);
    }

    #[test]
    fn a_retention_says_how_many_entries_and_buckets_there_are() {
        let numbers = PlanNumbers {
            entries: None,
            entry_bytes: 100,
            writes_per_s: Some(10.0),
            retention_s: Some(86_400),
        };
        let found = super::plan(&numbers).unwrap();
        assert_eq!((found.entries, found.pattern), (864_000, "time-shards"));
        let time = found.advice.time.unwrap();
        assert_eq!((time.width, time.buckets), ("minute", Some(1_440)));
        let unknown = PlanNumbers {
            retention_s: None,
            ..numbers
        };
        let refused = |numbers| super::plan(numbers).unwrap_err();
        assert!(refused(&unknown).contains("is not known"));
        let nothing = PlanNumbers {
            retention_s: Some(0),
            ..numbers
        };
        assert!(refused(&nothing).contains("keeps nothing"));
    }

    #[test]
    fn no_plan_judges_its_own_recommendation_anything_but_ok() {
        for entries in [1, 100, 6_000, 10_000, 300_000, 3_000_000, 30_000_000] {
            for rate in [None, Some(0.5), Some(30.0), Some(400.0), Some(10_000.0)] {
                let found = plan(entries, 15, rate).unwrap();
                let own = found
                    .what_if
                    .iter()
                    .find(|row| row.shards == found.advice.shards_pow2);
                let own = own.unwrap_or_else(|| panic!("{entries} {rate:?}: {found:?}"));
                assert_eq!(own.band, Word::Ok, "{entries} {rate:?}");
            }
        }
    }

    #[test]
    fn numbers_of_which_there_is_no_collection_are_refused() {
        let half = 1 << 32;
        for (entries, bytes, why) in [
            (0, 15, "0 entries"),
            (1, 0, "entries of 0 bytes"),
            (half, half, "all that can be counted"),
        ] {
            let refused = plan(entries, bytes, None).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(
            plan(u64::MAX / 15, 15, None).unwrap().pattern,
            "time-shards"
        );
        for rate in [-1.0, f64::INFINITY, WRITES_PER_S_MAX * 2.0] {
            let refused = plan(1, 1, Some(rate)).unwrap_err();
            assert_eq!(refused, checked_rate(rate).unwrap_err());
        }
        let refused = plan(1, 1, Some(f64::NAN)).unwrap_err();
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
