//! How many shards, and what would be with more or fewer.

use spikelet::shard::arithmetic::{
    BucketWidth, SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND, aerospike_index_bytes,
    collision_chance, elements_per_shard, power_of_two, shards_by_rate, shards_by_size,
    writes_per_hold,
};

use super::model::{Band, Recommendation, ShardScenario, TimeRecommendation};
use super::verdict::band;
use crate::report::{bytes, count, decimal};

/// How long a write holds its record in the tables, in milliseconds: a replicated write's usual
/// time.
pub(crate) const HOLD_MS: f64 = 8.0;

/// Copies of a record in a cluster, for figures of Aerospike's.
pub(crate) const COPIES: u64 = 2;

/// The tables go on to at least this many shards, for comparison.
const WHAT_IF_MIN: u64 = 32;

/// What would be spread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    /// A record that is mostly its list or map, or has none.
    Record,
    /// A list or map beside which its record holds more.
    Collection,
}

/// What shards are counted for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) subject: Subject,
    /// The largest of them, in bytes.
    pub(super) total_bytes: u64,
    /// The size at the 99th percentile, in bytes.
    pub(super) bytes_p99: u64,
    /// The mean element; `None`: there is none.
    pub(super) element_bytes: Option<f64>,
    pub(super) writes_per_s: Option<f64>,
    pub(super) time_to_live_s_p50: Option<u64>,
}

/// Recommends how to shard.
pub(super) fn recommend(need: &Need) -> Recommendation {
    let by_size = shards_by_size(need.total_bytes, SWEET_SPOT_BYTES);
    let by_rate = shards_by_rate(need.writes_per_s.unwrap_or(0.0), WRITES_PER_SECOND);
    let shards = by_size.max(by_rate);
    let bound_by = match (by_size, by_rate) {
        (1, 1) => "nothing",
        _ if by_rate > by_size => "rate",
        _ => "size",
    };
    let mut advice = Recommendation {
        total_bytes: need.total_bytes,
        shards_by_size: by_size,
        shards_by_rate: by_rate,
        shards,
        shards_pow2: power_of_two(shards),
        bound_by,
        shards_p99: power_of_two(shards_by_size(need.bytes_p99, SWEET_SPOT_BYTES).max(by_rate)),
        elements_per_shard: need
            .element_bytes
            .map(|bytes| elements_per_shard(bytes.ceil() as u64)),
        time: time(need),
        time_to_live_s_p50: need.time_to_live_s_p50,
        sentence: String::new(),
    };
    advice.sentence = sentence(need, &advice);
    advice
}

fn sentence(need: &Need, advice: &Recommendation) -> String {
    let size = bytes(need.total_bytes);
    let rate = exact_rate(need.writes_per_s.unwrap_or(0.0));
    let made = count(advice.shards_pow2);
    if advice.shards_pow2 > SHARDS_MAX {
        return format!(
            "{made} shards are more than the {} that are advised for one collection: divide it by time, or by another part \
             of its key, first.",
            count(SHARDS_MAX)
        );
    }
    match advice.bound_by {
        "size" if need.element_bytes.is_none() => format!(
            "{size} asks for {} pieces of at most 128 KiB, but there is no list or map that could be sharded: keep the large \
             value elsewhere, or cut it up.",
            count(advice.shards)
        ),
        "rate" if need.element_bytes.is_none() => format!(
            "{rate} writes a second ask for {} records, but there is no list or map that could be sharded: shard a counter, \
             or give what is written together a record of its own.",
            count(advice.shards)
        ),
        "size" => format!(
            "{size} in shards of at most 128 KiB asks for {}, so {made} are made; the size decides, not the rate.",
            count(advice.shards)
        ),
        "rate" => format!(
            "{rate} writes a second at {WRITES_PER_SECOND} to a shard ask for {}, so {made} are made; the rate decides, not \
             the size.",
            count(advice.shards)
        ),
        _ => {
            let what = match need.subject {
                Subject::Record => "record",
                Subject::Collection => "list or map",
            };
            format!("The largest {what}, of {size}, needs no shards.")
        }
    }
}

/// Writes a rate with all its decimals, at least one: 50.04 asks for more than 50.0.
fn exact_rate(rate: f64) -> String {
    let is_whole = |places: &usize| (rate * 10_f64.powi(*places as i32)).fract() == 0.0;
    decimal(rate, (1..6).find(is_whole).unwrap_or(6))
}

/// Returns the name of a width.
const fn width_name(width: BucketWidth) -> &'static str {
    match width {
        BucketWidth::Hour => "hour",
        BucketWidth::Day => "day",
        BucketWidth::Week => "week",
    }
}

/// Recommends buckets of time; `None` if it is not known how fast elements come.
fn time(need: &Need) -> Option<TimeRecommendation> {
    let rate = need.writes_per_s.filter(|rate| *rate > 0.0)?;
    let element = need.element_bytes?;
    let width = BucketWidth::advised(rate, element).unwrap_or(BucketWidth::Hour);
    let bucket_bytes_p99 = width.bucket_bytes_p99(rate, element).ceil() as u64;
    let hash_shards = shards_by_size(bucket_bytes_p99, SWEET_SPOT_BYTES)
        .max(shards_by_rate(rate, WRITES_PER_SECOND));
    Some(TimeRecommendation {
        width: width_name(width),
        bucket_bytes_p99,
        hash_shards: power_of_two(hash_shards),
    })
}

/// Returns the table over the number of shards: powers of two up to where shards are small enough,
/// and to 32 at least.
pub(super) fn what_if(need: &Need, index_bytes_per_record: Option<f64>) -> Vec<ShardScenario> {
    let mut rows = Vec::new();
    let mut shards = 1_u64;
    while shards <= SHARDS_MAX {
        let writes_per_s = need.writes_per_s.map(|rate| rate / shards as f64);
        let lambda = writes_per_s.map(|rate| writes_per_hold(rate, HOLD_MS));
        let bytes_per_shard = need.total_bytes.div_ceil(shards);
        let band = band(bytes_per_shard, writes_per_s);
        rows.push(ShardScenario {
            shards,
            bytes_per_shard,
            writes_per_s,
            lambda,
            p2: lambda.map(collision_chance),
            band,
            aerospike_index_bytes: aerospike_index_bytes(shards, COPIES),
            index_bytes: index_bytes_per_record.map(|each| (each * shards as f64).round() as u64),
            reads: shards,
        });
        if band == Band::Ok && shards >= WHAT_IF_MIN {
            break;
        }
        shards *= 2;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(total_bytes: u64, writes_per_s: Option<f64>) -> Need {
        Need {
            subject: Subject::Record,
            total_bytes,
            bytes_p99: total_bytes,
            element_bytes: Some(15.0),
            writes_per_s,
            time_to_live_s_p50: None,
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
        let rows = what_if(&need(4_500_000, Some(400.0)), Some(20.0));
        let last = rows.last().unwrap();
        assert_eq!((rows.len(), last.shards, last.band), (8, 128, Band::Ok));
        assert_eq!(rows[3].writes_per_s, Some(50.0));
        assert!((rows[3].p2.unwrap() - 0.0616).abs() < 5e-5);
        assert_eq!(
            (rows[3].aerospike_index_bytes, rows[3].index_bytes),
            (1_024, Some(160))
        );
        assert_eq!(what_if(&need(1, None), None).len(), 6);
        assert_eq!(what_if(&need(u64::MAX, None), None).len(), 13);
    }

    #[test]
    fn buckets_of_time_are_hashed_where_one_writer_too_many_meets_another() {
        let slow = recommend(&need(1, Some(0.001))).time.unwrap();
        assert_eq!((slow.width, slow.hash_shards), ("day", 1));
        let fast = recommend(&need(1, Some(400.0))).time.unwrap();
        assert_eq!(fast.width, "hour");
        assert!(fast.hash_shards >= 128, "{fast:?}");
        for unknown in [None, Some(0.0)] {
            assert_eq!(recommend(&need(1, unknown)).time, None);
        }
    }
}
