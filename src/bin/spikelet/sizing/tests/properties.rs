//! Properties of all records.

use std::fmt::Write as _;

use proptest::prelude::*;
use tempfile::TempDir;

use super::{options, sized};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_counted_twice_or_not_at_all(
        records in prop::collection::vec((0_u8..4, 0_usize..3_000, 0_usize..60, any::<bool>()), 1..120),
        rate in prop::option::of(0.0_f64..200.0),
    ) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("records.jsonl");
        let mut lines = String::new();
        for (number, (set, text, tags, keyed)) in records.iter().enumerate() {
            let tags: Vec<usize> = (0..*tags).collect();
            let bins = serde_json::json!({"text": "t".repeat(*text), "tags": tags});
            let key = keyed.then_some(number);
            let _ = writeln!(lines, "{}", serde_json::json!({"set": format!("s{set}"), "key": key, "bins": bins}));
        }
        std::fs::write(&file, lines).unwrap();
        let sizing = sized(&file, &options(|options| options.writes_per_s = rate.map(|rate| (None, rate)).into_iter().collect()));
        prop_assert_eq!(sizing.records, records.len() as u64);
        prop_assert!(sizing.largest.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
        let largest = sizing.sets.iter().map(|set| set.bytes.max).max();
        prop_assert_eq!(sizing.largest.first().and_then(|record| record.bytes), largest);
        for set in &sizing.sets {
            let shares: u64 = set.shares.iter().map(|share| share.records).sum();
            prop_assert_eq!(shares, set.records);
            let part: f64 = set.shares.iter().map(|share| share.share).sum();
            prop_assert!((part - 1.0).abs() < 1e-9);
            let bytes: f64 = set.shares.iter().map(|share| share.bytes_share).sum();
            prop_assert!((bytes - 1.0).abs() < 1e-9);
            let stored: u64 = set.histogram.iter().map(|bucket| bucket.stored).sum();
            let counted: u64 = set.histogram.iter().map(|bucket| bucket.counted).sum();
            prop_assert_eq!((stored, counted), (set.records, set.records));
            let bins: f64 = set.bins.iter().map(|bin| bin.bytes_share).sum();
            prop_assert!((bins - 1.0).abs() < 1e-9);
            let sizes = &set.bytes;
            prop_assert!(sizes.p50 <= sizes.p95 && sizes.p95 <= sizes.p99 && sizes.p99 <= sizes.max);
            prop_assert!(set.stored_bytes.total >= sizes.total);
            prop_assert!(set.advice.shards_pow2 >= set.advice.shards);
            prop_assert!(set.advice.shards >= set.advice.shards_by_size.max(set.advice.shards_by_rate));
            prop_assert!((1..=sizes.max).contains(&set.advice.total_bytes));
            for row in &set.what_if {
                prop_assert!(row.bytes_per_shard * row.shards >= set.advice.total_bytes);
            }
        }
        // A sample of all records finds the same as no sample.
        let sampled = sized(&file, &options(|options| {
            options.writes_per_s = rate.map(|rate| (None, rate)).into_iter().collect();
            (options.sample, options.seed) = (Some(records.len() as u32), 7);
        }));
        for (all, sampled) in sizing.sets.iter().zip(&sampled.sets) {
            prop_assert_eq!(&all.bytes, &sampled.bytes);
            prop_assert_eq!(&all.bins, &sampled.bins);
        }
        let text = sizing.to_report().to_text();
        prop_assert!(text.lines().all(|line| line.chars().count() <= 100));
    }
}
