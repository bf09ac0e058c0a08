//! Histograms of sizes.

use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, SWEET_SPOT_FROM_BYTES};

use crate::report::{Axis, AxisUnit, Band, Bars, Chart, Lane, MarkedPlace, Series, bytes, count};
use crate::sizing::model::{SetSizing, Sizing};
use crate::sizing::size_histogram::{SizeBucket, edge};

/// Draws the histogram of a set, from 64 bytes at least to the limit of a record's size, so that
/// the distance to it shows.
pub(super) fn histogram(sizing: &Sizing, set: &SetSizing) -> Chart {
    let cap = sizing.max_record_bytes.max(1);
    let first = set
        .histogram
        .first()
        .map_or(64, |bucket| bucket.from.min(64));
    let last = set
        .histogram
        .last()
        .map_or(cap, |bucket| bucket.from.max(cap));
    let powers = first.ilog2()..=last.ilog2();
    // A limit that is a power of two is the end of the bucket before it.
    let powers = match set.histogram.last() {
        Some(bucket) if bucket.to <= cap && cap.is_power_of_two() => {
            powers.start().to_owned()..=powers.end() - 1
        }
        _ => powers,
    };
    let start = f64::from(*powers.start());
    let place = |size: u64| (size as f64).log2() - start;
    let found = |power: u32| {
        set.histogram
            .iter()
            .find(|bucket| bucket.from == 1 << power)
    };
    let series = |name: &str, value: fn(&SizeBucket) -> u64| {
        let values = powers.clone().map(found);
        let value = |bucket: Option<&SizeBucket>| bucket.map_or(0.0, |bucket| value(bucket) as f64);
        Series::of_bars(name, values.map(value))
    };
    let ends = *powers.start()..=powers.end() + 1;
    let names: Vec<String> = ends
        .map(|power| edge(1_u64.checked_shl(power).unwrap_or(u64::MAX)))
        .collect();
    let label = |pair: &[String]| pair.join("-");
    Chart {
        title: format!("Records of {} by size", sizing.name(set)),
        description: description(set),
        x: Axis::new("record size in bytes", AxisUnit::Number),
        bars: Some(Bars {
            buckets: names
                .windows(2)
                .map(|pair| format!("[{})", label(pair)))
                .collect(),
            edges: names,
            ..Bars::default()
        }),
        lanes: vec![Lane {
            y: Axis::new("records", AxisUnit::Number).log(),
            series: vec![
                series("stored", |bucket| bucket.stored),
                series("counted", |bucket| bucket.counted),
            ],
        }],
        bands: vec![Band {
            from: place(SWEET_SPOT_FROM_BYTES),
            to: place(SWEET_SPOT_BYTES),
            label: "1-128 KiB".to_owned(),
        }],
        marks: vec![MarkedPlace {
            at: place(cap),
            label: format!("limit {}", bytes(cap)),
        }],
    }
}

fn description(set: &SetSizing) -> String {
    let inside = set.shares.get(1).map_or(0, |share| share.records);
    let beyond: u64 = set.shares.iter().skip(2).map(|share| share.records).sum();
    format!(
        "Of {} records, half take at most {} and 99 of 100 at most {}; the largest takes {}. {} are between 1 and 128 KiB, \
         {} are larger.",
        count(set.measured),
        bytes(set.bytes.p50),
        bytes(set.bytes.p99),
        bytes(set.bytes.max),
        count(inside),
        count(beyond)
    )
}
