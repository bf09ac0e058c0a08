//! The verdict of each set that `sizing` looks at. `findings`: the rules; `headline`: the verdict
//! of all sets, and what helps.

mod findings;
mod headline;

use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, WRITES_PER_SECOND};

use self::findings::{
    collections, element, fine, large_records, limit, rate, records, refusals, sample, shards,
    waits,
};
pub(crate) use self::headline::{SizingHeadline, helps};
use super::{Word, rules_in};
use crate::report::{ReportTable, bytes, count};
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::{RecordSizing, SetVerdict, Thresholds};
use crate::sizing::remedy::{Obstacle, SizeRemedy};
use crate::sizing::set_stats::{CollectionStats, SetStats};

/// Beyond this part of a bound the next growth may cross it.
const NEAR: f64 = 0.8;
/// Beyond this part of a record's limit there is time, but not for ever.
const TOWARDS: f64 = 0.5;

/// The bounds that the rules compare with.
pub(crate) const THRESHOLDS: Thresholds = Thresholds {
    collection_bytes_p99: SWEET_SPOT_BYTES,
    record_bytes: SWEET_SPOT_BYTES,
    near_bytes: near(SWEET_SPOT_BYTES),
    writes_per_s: WRITES_PER_SECOND,
    of_max_record: (NEAR, TOWARDS),
    key_busy: (100, 1),
    waits: 1_000,
};

/// Returns the size from which on a record is near a bound.
pub(crate) const fn near(bytes: u64) -> u64 {
    bytes / 5 * 4
}

/// Returns the size from which on a shard is worth watching, of the most that it should hold.
pub(crate) fn watched_from(shard_bytes_max: u64) -> u64 {
    THRESHOLDS.near_bytes.min(shard_bytes_max)
}

/// Writes the most that a shard should hold.
pub(crate) fn bound_text(shard_bytes_max: u64) -> String {
    match shard_bytes_max {
        SWEET_SPOT_BYTES => "128 KiB".to_owned(),
        limited => bytes(limited),
    }
}

/// Judges a shard of this size at this rate, by the most that it should hold.
pub(crate) fn shard_word(size: u64, writes_per_s: Option<f64>, shard_bytes_max: u64) -> Word {
    if size > shard_bytes_max || writes_per_s.is_some_and(|rate| rate > WRITES_PER_SECOND) {
        Word::Shard
    } else if size > watched_from(shard_bytes_max) {
        Word::Watch
    } else {
        Word::Ok
    }
}

/// The figures of a set by which it is judged.
pub(crate) struct SetFacts<'a> {
    pub(crate) stats: &'a SetStats,
    /// The largest record that is allowed, in bytes.
    pub(crate) max_record_bytes: u64,
    /// Writes a second to its hottest record.
    pub(crate) writes_per_s: Option<f64>,
    /// Its record over which writers fought most.
    pub(crate) contended: Option<&'a RecordSizing>,
}

/// The rules in their order: reasons for shards or another form, then for watching.
const RULES: [fn(&SetFacts<'_>) -> Option<SetVerdict>; 14] = [
    // Before every SHARD: shards do not help where one element is too large.
    element,
    |set| refusals(set, THRESHOLDS.key_busy.0),
    |set| collections(set, SWEET_SPOT_BYTES),
    |set| records(set, SWEET_SPOT_BYTES),
    |set| limit(set, NEAR),
    |set| rate(set, WRITES_PER_SECOND),
    |set| shards(set, set.stats.shard_bytes_max),
    |set| refusals(set, THRESHOLDS.key_busy.1).or_else(|| waits(set)),
    |set| collections(set, SWEET_SPOT_BYTES / 2),
    |set| large_records(set).or_else(|| records(set, SWEET_SPOT_BYTES / 2)),
    |set| limit(set, TOWARDS),
    |set| rate(set, WRITES_PER_SECOND / 2.0),
    |set| shards(set, watched_from(set.stats.shard_bytes_max)),
    sample,
];

/// Lists the rules.
pub(crate) fn rules_table() -> ReportTable {
    rules_in(include_str!("../../../../docs/sizing.md"))
}

/// Judges a set: the first rule that applies decides.
pub(crate) fn judge(set: &SetFacts<'_>) -> SetVerdict {
    let found = RULES.iter().find_map(|find| find(set));
    found.unwrap_or_else(|| fine(set))
}

/// Returns the bin with the heaviest collections at their 99th percentile.
pub(crate) fn heaviest_collection(stats: &SetStats) -> Option<(&str, &CollectionStats)> {
    stats
        .bins
        .iter()
        .map(|(name, bin)| (name.as_str(), &bin.collections))
        .filter(|(_, found)| found.counts.count() > 0)
        .max_by_key(|(_, found)| (found.sizes.per_mille(990), found.sizes.max()))
}

/// Returns the word for something beyond a bound, or only beyond one that is worth watching.
fn word(is_beyond: bool, remedy: SizeRemedy) -> Word {
    match remedy {
        _ if !is_beyond => Word::Watch,
        SizeRemedy::Shard => Word::Shard,
        _ => Word::Remodel,
    }
}

impl SetFacts<'_> {
    /// Returns whether only some of the records were measured.
    fn is_sample(&self) -> bool {
        self.stats.counted.count() < self.stats.records
    }

    /// Names the largest of the records or collections.
    fn largest(&self, what: &str) -> String {
        if self.is_sample() {
            let (measured, all) = (self.stats.counted.count(), self.stats.records);
            format!(
                "The largest {what} of the {} records sampled of {}",
                count(measured),
                count(all)
            )
        } else if self.stats.judged.count() == 1 {
            format!("The only {what}")
        } else {
            format!("The largest {what}")
        }
    }

    /// Names those at the 99th percentile.
    fn top_percent(&self, what: &str, number: u64) -> (String, &'static str) {
        if number < 100 {
            (self.largest(what), "")
        } else {
            (format!("1 in 100 {what}s"), " or more")
        }
    }

    /// Returns what helps the largest record, and its largest bin.
    pub(crate) fn heaviest_remedy(&self) -> (SizeRemedy, Option<String>) {
        let heaviest = self.stats.heaviest.as_ref();
        let bin = heaviest.and_then(RecordMeasure::largest_bin);
        let remedy = heaviest.and_then(|record| record.remedy(self.stats.shard_bytes_max));
        let remedy = remedy.unwrap_or(SizeRemedy::Nothing);
        (remedy, bin.map(|bin| bin.name.clone()))
    }

    /// Returns the remedy for a rate: of the contended record, or else of the largest.
    pub(crate) fn remedy_for_rate(&self) -> SizeRemedy {
        match (self.contended, &self.stats.heaviest) {
            (Some(hot), _) => hot.remedy.unwrap_or_default(),
            (None, Some(heaviest)) => heaviest.remedy_for_rate(),
            // Nothing but companions.
            (None, None) => SizeRemedy::Shard,
        }
    }

    /// Says why shards do not help the largest record; empty where they do.
    fn why_not(&self, remedy: SizeRemedy) -> String {
        let Some(heaviest) = &self.stats.heaviest else {
            return String::new();
        };
        match remedy {
            SizeRemedy::Nothing | SizeRemedy::Shard => String::new(),
            SizeRemedy::StoreElsewhere => {
                " Most of it is no list or map, and nothing else is sharded.".to_owned()
            }
            SizeRemedy::SeveralRecords => format!(
                " Several of its {} bins make it large: {}.",
                count(heaviest.bins.len() as u64),
                heaviest.bin_shares().join(", ")
            ),
            SizeRemedy::RecordPerEntry | SizeRemedy::NestedToOwnBin => {
                let collection = heaviest
                    .largest_bin()
                    .and_then(|bin| bin.collection.as_ref());
                let obstacle = collection.and_then(|found| found.obstacle.as_ref());
                obstacle.map_or_else(String::new, |found| {
                    format!(" In the largest, {}.", self.obstacle_words(found))
                })
            }
        }
    }

    /// Says what is in the way of shards, and what they may hold if a limit makes it less than
    /// usual.
    fn obstacle_words(&self, obstacle: &Obstacle) -> String {
        let (words, most) = (obstacle.words(), self.stats.shard_bytes_max);
        if most == SWEET_SPOT_BYTES {
            return words;
        }
        format!("{words}, where a shard should hold {} at most", bytes(most))
    }
}
