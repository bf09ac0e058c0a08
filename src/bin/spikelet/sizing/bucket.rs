//! Buckets of time: how wide, and into how many shards each is hashed.

use spikelet::shard::arithmetic::{
    SWEET_SPOT_FROM_BYTES, WRITES_PER_SECOND, arrivals_p99, power_of_two, shards_by_rate,
    shards_by_size,
};

use super::model::TimeRecommendation;
use super::recommendation::Need;
use crate::report::{bytes, count};

/// The widths, the narrowest first: names and seconds.
const WIDTHS: [(&str, u64); 6] = [
    ("minute", 60),
    ("5 minutes", 300),
    ("15 minutes", 900),
    ("hour", HOUR_S),
    ("day", DAY_S),
    ("week", 604_800),
];
const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

impl Need {
    /// Recommends a width, if every write adds an element: of an hour and more the narrowest with a
    /// bucket that is worth a record and fits into the shards that the rate asks for anyway; or else
    /// the widest below an hour that fits. A bucket is never wider than the retention. Only where
    /// not even a minute fits is it hashed further for its size. `None` if it is not known how fast
    /// elements come, or one element is larger than a shard.
    pub(super) fn time(&self) -> Option<TimeRecommendation> {
        let per_s = self.writes_per_s.filter(|rate| *rate > 0.0)?;
        let element_bytes = self.element_bytes.filter(|_| self.is_spread_by_size())?;
        // At its 99th percentile.
        let bucket_bytes = |width_s: u64| arrivals_p99(per_s * width_s as f64) * element_bytes;
        let by_rate = power_of_two(shards_by_rate(per_s, WRITES_PER_SECOND));
        let room = (by_rate * self.shard_bytes_max) as f64;
        let worth = (by_rate * SWEET_SPOT_FROM_BYTES) as f64;
        let is_kept = |width_s: u64| self.retention_s.is_none_or(|kept| width_s <= kept);
        let mut fits = WIDTHS
            .into_iter()
            .filter(|(_, width_s)| is_kept(*width_s) && bucket_bytes(*width_s) <= room);
        let (coarse, fine): (Vec<_>, Vec<_>) =
            fits.by_ref().partition(|(_, width_s)| *width_s >= HOUR_S);
        let [narrowest, ..] = WIDTHS;
        let (width, width_s) = coarse
            .iter()
            .find(|(_, width_s)| bucket_bytes(*width_s) >= worth)
            .or(coarse.last())
            .or(fine.last())
            .copied()
            .unwrap_or(narrowest);
        let bucket_bytes_p99 = bucket_bytes(width_s).ceil() as u64;
        let by_size = power_of_two(shards_by_size(bucket_bytes_p99, self.shard_bytes_max));
        let by_number = |elements: u64| (elements as f64 / per_s / width_s as f64).ceil() as u64;
        let kept = self.retention_s.map(|kept| kept.div_ceil(width_s));
        Some(TimeRecommendation {
            width,
            width_s,
            bucket_bytes_p99,
            hash_shards: by_rate.max(if bucket_bytes_p99 as f64 > room {
                by_size
            } else {
                1
            }),
            buckets: kept.or_else(|| self.elements.map(by_number)),
        })
    }
}

/// Says what buckets of time come to.
pub(crate) fn sentence(time: &TimeRecommendation) -> String {
    let each = match time.width.split_once(' ') {
        Some(_) => format!("every {}", time.width),
        None => format!("each {}", time.width),
    };
    let hashed = match time.hash_shards {
        1 => String::new(),
        shards => format!(
            ", hashed into {} shards, since all writers are in the current bucket",
            count(shards)
        ),
    };
    let number = match time.buckets {
        None => String::new(),
        Some(1) => "; 1 bucket at a time".to_owned(),
        Some(buckets) => format!("; {} buckets at a time", count(buckets)),
    };
    let by_hand = if time.width_s > DAY_S {
        " (kept by hand: spikelet keeps buckets of up to a day by itself)"
    } else {
        ""
    };
    format!(
        "a bucket for {each}{by_hand}, of {} at the 99th percentile{hashed}{number}",
        bytes(time.bucket_bytes_p99)
    )
}

#[cfg(test)]
mod tests {
    use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;

    use super::*;

    fn advised(per_s: f64, element_bytes: f64, retention_s: Option<u64>) -> (&'static str, u64) {
        let need = Need {
            writes_per_s: Some(per_s),
            element_bytes: Some(element_bytes),
            retention_s,
            shard_bytes_max: SWEET_SPOT_BYTES,
            ..Need::default()
        };
        let found = need.time().unwrap();
        assert!(
            found.bucket_bytes_p99 <= found.hash_shards * SWEET_SPOT_BYTES,
            "{found:?}"
        );
        (found.width, found.hash_shards)
    }

    #[test]
    fn a_finer_bucket_comes_before_more_shards() {
        let per_day = |elements: f64| elements / 86_400.0;
        let table = [
            (per_day(100.0), 15.0, None, ("day", 1)),
            (per_day(3_000.0), 15.0, None, ("hour", 1)),
            (per_day(1.0), 15.0, None, ("week", 1)),
            (2.0, 15.0, None, ("hour", 1)),
            (3.0, 15.0, None, ("15 minutes", 1)),
            (10.0, 15.0, None, ("5 minutes", 1)),
            (49.0, 40.0, None, ("minute", 1)),
            (400.0, 15.0, None, ("minute", 8)),
            // Not even a minute fits into what the rate asks for.
            (50.0, 1_000.0, None, ("minute", 32)),
            (per_day(100.0), 15.0, Some(7_200), ("hour", 1)),
            (per_day(100.0), 15.0, Some(30), ("minute", 1)),
        ];
        for (per_s, element, retention, expected) in table {
            assert_eq!(
                advised(per_s, element, retention),
                expected,
                "{per_s} x {element}, {retention:?}"
            );
        }
    }

    #[test]
    fn a_width_that_time_shards_have_is_not_kept_by_hand() {
        for (width, width_s) in WIDTHS {
            let told = sentence(&TimeRecommendation {
                width,
                width_s,
                bucket_bytes_p99: 1,
                hash_shards: 1,
                buckets: None,
            });
            let has_width = match u8::try_from(width_s / 60) {
                Ok(minutes) => spikelet::shard::TimeWidth::minutes(minutes).is_ok(),
                Err(_) => width == "day",
            };
            assert_eq!(told.contains("by hand"), !has_width, "{told}");
        }
    }

    #[test]
    fn buckets_are_counted_by_the_retention_or_by_the_elements() {
        let need = |retention_s, elements| Need {
            writes_per_s: Some(10.0),
            element_bytes: Some(15.0),
            retention_s,
            elements,
            shard_bytes_max: SWEET_SPOT_BYTES,
            ..Need::default()
        };
        let buckets = |retention_s, elements| need(retention_s, elements).time().unwrap().buckets;
        assert_eq!(buckets(Some(86_400), Some(7)), Some(288));
        assert_eq!(buckets(None, Some(30_000)), Some(10));
        assert_eq!(buckets(None, None), None);
    }
}
