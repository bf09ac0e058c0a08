//! How many shards, and what would be with more or fewer.

use spikelet::shard::arithmetic::{
    SHARDS_MAX, WRITES_PER_SECOND, aerospike_index_bytes, collision_chance, elements_per_shard,
    power_of_two, shards_by_rate, shards_by_size, writes_per_hold,
};

use super::model::{Recommendation, ShardScenario};
use super::remedy::SizeRemedy;
use crate::report::{bytes, count, exact};
use crate::verdict::Word;
use crate::verdict::sizing::{bound_text, shard_word, watched_from};

/// How long a write holds its record in the tables, in milliseconds: a replicated write's usual
/// time.
pub(crate) const HOLD_MS: f64 = 8.0;

/// Copies of a record in a cluster, for figures of Aerospike's.
pub(crate) const COPIES: u64 = 2;

/// Memory of one more record in an index with few: the first of a partition costs a table.
const INDEX_BYTES_MAX: f64 = 64.0;

/// The tables go on to at least this many shards, for comparison.
const WHAT_IF_MIN: u64 = 32;

/// The figures that shards are counted for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// What would be sharded: a `record` that is mostly its list or map, or has none; or a `list or
    /// map` beside which its record holds more.
    pub(super) subject: &'static str,
    /// The largest of them, in bytes.
    pub(super) total_bytes: u64,
    /// The size at the 99th percentile, in bytes.
    pub(super) bytes_p99: u64,
    /// The mean element; `None`: there is none.
    pub(super) element_bytes: Option<f64>,
    /// The mean element, weighed by size; 0: not known.
    pub(super) weighed_element_bytes: f64,
    pub(super) writes_per_s: Option<f64>,
    /// How long elements are kept, in seconds.
    pub(super) retention_s: Option<u64>,
    /// How many there are in all, where that is known.
    pub(super) elements: Option<u64>,
    pub(super) time_to_live_s_p50: Option<u64>,
    /// The most that a shard should hold, in bytes.
    pub(super) shard_bytes_max: u64,
    /// The remedy where it is too large.
    pub(super) remedy: SizeRemedy,
    /// The remedy where it is too hot.
    pub(super) remedy_for_rate: SizeRemedy,
}

impl Need {
    /// Returns whether shards make it smaller, or are not needed.
    pub(super) const fn is_spread_by_size(&self) -> bool {
        matches!(self.remedy, SizeRemedy::Nothing | SizeRemedy::Shard)
    }

    /// Returns whether shards take writes from it: not if one of its elements is larger than a
    /// shard.
    const fn is_spread_by_rate(&self) -> bool {
        let is_blocked = matches!(
            self.remedy,
            SizeRemedy::RecordPerEntry | SizeRemedy::NestedToOwnBin
        );
        !is_blocked
            && matches!(
                self.remedy_for_rate,
                SizeRemedy::Nothing | SizeRemedy::Shard
            )
    }

    /// Returns what the largest of these shards takes, in 99 of 100 cases.
    pub(super) fn largest_shard(&self, total_bytes: u64, shards: u64) -> u64 {
        largest_shard(total_bytes, self.heavy_element(), shards)
    }

    fn heavy_element(&self) -> f64 {
        f64::max(
            self.weighed_element_bytes,
            self.element_bytes.unwrap_or(0.0),
        )
    }

    /// Returns the number of shards to make: enough for `least`, of which the largest is not near
    /// the bound of a record.
    fn made(&self, total_bytes: u64, least: u64) -> u64 {
        if !self.is_spread_by_size() {
            return power_of_two(least);
        }
        let bound = watched_from(self.shard_bytes_max);
        shards_within(bound, total_bytes, self.heavy_element(), least)
    }

    /// Returns the rate of which shards take a part each.
    fn rate(&self) -> f64 {
        self.writes_per_s
            .filter(|_| self.is_spread_by_rate())
            .unwrap_or(0.0)
    }
}

/// Recommends how to shard.
pub(super) fn recommend(need: &Need) -> Recommendation {
    let by_size = |size: u64| {
        if need.is_spread_by_size() {
            shards_by_size(size, need.shard_bytes_max)
        } else {
            1
        }
    };
    let by_rate = shards_by_rate(need.rate(), WRITES_PER_SECOND);
    let (shards_by_size, p99_by_size) = (by_size(need.total_bytes), by_size(need.bytes_p99));
    let shards = shards_by_size.max(by_rate);
    let made = need.made(need.total_bytes, shards);
    let bound_by = match (shards_by_size, by_rate) {
        (1, 1) => "nothing",
        _ if by_rate > shards_by_size => "rate",
        _ => "size",
    };
    let mut advice = Recommendation {
        total_bytes: need.total_bytes,
        shards_by_size,
        shards_by_rate: by_rate,
        shards,
        shards_pow2: made,
        largest_shard_bytes: need.largest_shard(need.total_bytes, made),
        bound_by,
        shards_p99: need.made(need.bytes_p99, p99_by_size.max(by_rate)),
        elements_per_shard: need
            .element_bytes
            .map(|bytes| elements_per_shard(bytes.ceil() as u64)),
        remedy: remedy(need, shards),
        time: need.time(),
        time_to_live_s_p50: need.time_to_live_s_p50,
        sentence: String::new(),
    };
    advice.sentence = sentence(need, &advice);
    advice
}

/// Returns the remedy: shards if any are asked for, or else the remedy where shards do not help.
fn remedy(need: &Need, shards: u64) -> SizeRemedy {
    let is_hot = need
        .writes_per_s
        .is_some_and(|rate| rate > WRITES_PER_SECOND);
    match shards {
        _ if !need.is_spread_by_size() => need.remedy,
        1 if is_hot && !need.is_spread_by_rate() => need.remedy_for_rate,
        1 => SizeRemedy::Nothing,
        _ => SizeRemedy::Shard,
    }
}

fn sentence(need: &Need, advice: &Recommendation) -> String {
    let size = bytes(need.total_bytes);
    let rate = exact(need.writes_per_s.unwrap_or(0.0));
    let made = count(advice.shards_pow2);
    if advice.shards_pow2 > SHARDS_MAX {
        return format!(
            "{made} shards are more than the {} that are advised for one collection: divide it by time, or by another part \
             of its key, first.",
            count(SHARDS_MAX)
        );
    }
    if !matches!(advice.remedy, SizeRemedy::Nothing | SizeRemedy::Shard) {
        return format!("Shards do not help. {}", advice.remedy.instruction(None));
    }
    match advice.bound_by {
        "size" => format!(
            "{size} in shards of at most {} asks for {}, so {made} are made; the size decides, not the rate.",
            bound_text(need.shard_bytes_max),
            count(advice.shards)
        ),
        "rate" => format!(
            "{rate} writes a second at {WRITES_PER_SECOND} to a shard ask for {}, so {made} are made; the rate decides, not \
             the size.",
            count(advice.shards)
        ),
        _ => format!("The largest {}, of {size}, needs no shards.", need.subject),
    }
}

/// Returns the table over the number of shards: powers of two up to where shards are small enough,
/// and to 32 at least. Empty where shards do not help. `enough`: a number of shards that was
/// recommended, from which on nothing more is asked for.
pub(super) fn what_if(
    need: &Need,
    enough: Option<u64>,
    index_bytes_per_record: Option<f64>,
) -> Vec<ShardScenario> {
    let mut rows = Vec::new();
    let mut shards = 1_u64;
    if !need.is_spread_by_size() {
        return rows;
    }
    while shards <= SHARDS_MAX {
        let writes_per_s = need
            .writes_per_s
            .map(|_| need.rate() / shards as f64)
            .filter(|_| need.is_spread_by_rate());
        let lambda = writes_per_s.map(|rate| writes_per_hold(rate, HOLD_MS));
        let own = if shards > 1 { COMPANION_BYTES } else { 0 };
        let bytes_per_shard = need.total_bytes.div_ceil(shards) + own;
        let largest_bytes = need.largest_shard(need.total_bytes, shards);
        let band = match enough {
            Some(enough) if shards >= enough => Word::Ok,
            _ => shard_word(largest_bytes, writes_per_s, need.shard_bytes_max),
        };
        rows.push(ShardScenario {
            shards,
            bytes_per_shard,
            largest_bytes,
            writes_per_s,
            lambda,
            p2: lambda.map(collision_chance),
            band,
            aerospike_index_bytes: aerospike_index_bytes(shards, COPIES),
            index_bytes: index_bytes_per_record
                .map(|each| (each.min(INDEX_BYTES_MAX) * shards as f64).round() as u64),
            reads: shards,
        });
        if band == Word::Ok && shards >= WHAT_IF_MIN {
            break;
        }
        shards *= 2;
    }
    rows
}

/// Bytes of a shard beside its elements: header, key, and its description.
const COMPANION_BYTES: u64 = 160;

/// Returns what the largest of these shards takes, in 99 of 100 cases. `element_bytes`: the mean
/// element, weighed by size.
fn largest_shard(total_bytes: u64, element_bytes: f64, shards: u64) -> u64 {
    if shards <= 1 {
        return total_bytes;
    }
    let mean = total_bytes as f64 / shards as f64;
    let deviation = (mean * element_bytes * (1.0 - 1.0 / shards as f64)).sqrt();
    let largest = mean + farthest(shards) * deviation;
    (largest.ceil() as u64).min(total_bytes) + COMPANION_BYTES
}

/// Returns the fewest shards of which the largest is within a bound: a power of two from `least`
/// on, up to [`SHARDS_MAX`] unless more are the least.
pub(crate) fn shards_within(
    bound_bytes: u64,
    total_bytes: u64,
    element_bytes: f64,
    least: u64,
) -> u64 {
    let mut shards = power_of_two(least);
    while shards > 1
        && shards < SHARDS_MAX
        && largest_shard(total_bytes, element_bytes, shards) > bound_bytes
    {
        shards *= 2;
    }
    shards
}

/// Returns how many standard deviations the farthest of `values` normal values is above the mean,
/// in 99 of 100 cases.
fn farthest(values: u64) -> f64 {
    // The chance beyond z is about exp(-z^2 / 2) / (z sqrt(2 pi)); solved by iteration.
    let odds = values as f64 / 0.01 / std::f64::consts::TAU.sqrt();
    (0..8).fold(3.0, |z: f64, _| (2.0 * (odds / z).ln()).sqrt())
}

#[cfg(test)]
mod tests {
    use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;

    use super::*;

    fn need(total_bytes: u64, writes_per_s: Option<f64>) -> Need {
        Need {
            subject: "record",
            total_bytes,
            bytes_p99: total_bytes,
            element_bytes: Some(15.0),
            weighed_element_bytes: 15.0,
            writes_per_s,
            retention_s: None,
            elements: None,
            time_to_live_s_p50: None,
            shard_bytes_max: SWEET_SPOT_BYTES,
            remedy: SizeRemedy::Shard,
            remedy_for_rate: SizeRemedy::Shard,
        }
    }

    #[test]
    fn size_or_rate_decides_and_it_is_said_which() {
        let table = [
            (4_500_000, None, 35, 64, "size"),
            (4_500_000, Some(400.0), 35, 64, "size"),
            (1_000, Some(400.0), 8, 8, "rate"),
            (131_072, Some(50.0), 1, 1, "nothing"),
            (131_073, Some(100.0), 2, 2, "size"),
            // 64 shards of 131,072 bytes would leave no room for shards with more than the mean.
            (64 * 131_072, None, 64, 128, "size"),
        ];
        for (total, rate, shards, made, bound_by) in table {
            let found = recommend(&need(total, rate));
            assert_eq!(
                (found.shards, found.shards_pow2, found.bound_by),
                (shards, made, bound_by),
                "{total} {rate:?}"
            );
            assert_eq!(found.elements_per_shard, Some(8_738));
        }
        let sentence = recommend(&need(1_000, Some(50.04))).sentence;
        assert!(
            sentence.starts_with("50.04 writes a second at 50"),
            "{sentence}"
        );
    }

    #[test]
    fn a_table_goes_on_until_shards_are_fine() {
        let rows = what_if(&need(4_500_000, Some(400.0)), None, Some(20.0));
        let last = rows.last().unwrap();
        assert_eq!((rows.len(), last.shards, last.band), (7, 64, Word::Ok));
        assert_eq!(rows[3].writes_per_s, Some(50.0));
        assert!((rows[3].p2.unwrap() - 0.0616).abs() < 5e-5);
        assert_eq!(
            (rows[3].aerospike_index_bytes, rows[3].index_bytes),
            (1_024, Some(160))
        );
        assert_eq!(what_if(&need(1, None), None, None).len(), 6);
        assert_eq!(what_if(&need(u64::MAX, None), None, None).len(), 13);
    }

    #[test]
    fn what_is_recommended_is_not_worth_watching() {
        let need = need(4_500_000, Some(400.0));
        let made = recommend(&need).shards_pow2;
        let rows = what_if(&need, Some(made), None);
        let judged: Vec<_> = rows.iter().map(|row| (row.shards, row.band)).collect();
        assert!(judged.contains(&(made / 2, Word::Shard)), "{judged:?}");
        assert!(judged.contains(&(made, Word::Ok)), "{judged:?}");
    }

    #[test]
    fn shards_are_not_advised_for_what_they_do_not_make_smaller() {
        let blocked = Need {
            remedy: SizeRemedy::RecordPerEntry,
            ..need(700_000, Some(400.0))
        };
        let found = recommend(&blocked);
        assert_eq!((found.shards_by_size, found.shards_by_rate), (1, 1));
        assert_eq!(
            (found.remedy, found.time),
            (SizeRemedy::RecordPerEntry, None)
        );
        assert!(
            found.sentence.starts_with("Shards do not help."),
            "{}",
            found.sentence
        );
        assert!(what_if(&blocked, None, None).is_empty());
        let text = Need {
            remedy_for_rate: SizeRemedy::SeveralRecords,
            ..need(700, Some(400.0))
        };
        let found = recommend(&text);
        assert_eq!(
            (found.shards, found.remedy),
            (1, SizeRemedy::SeveralRecords)
        );
    }

    #[test]
    fn buckets_of_time_are_hashed_where_one_writer_too_many_meets_another() {
        let slow = recommend(&need(1, Some(0.001))).time.unwrap();
        assert_eq!((slow.width, slow.hash_shards), ("day", 1));
        let fast = recommend(&need(1, Some(400.0))).time.unwrap();
        assert_eq!((fast.width, fast.hash_shards), ("minute", 8));
        for unknown in [None, Some(0.0)] {
            assert_eq!(recommend(&need(1, unknown)).time, None);
        }
    }
}
