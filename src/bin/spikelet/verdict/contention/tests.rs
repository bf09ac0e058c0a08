use std::time::Duration;

use super::*;
use crate::contention::testing::settings;
use crate::contention::{Arrivals, Criteria, RowCondition, Settings, measure};

/// How a run is changed after it was measured on a virtual clock.
type Change = fn(&mut ReportRow);

fn judged(
    loads: &[(Arrivals, &str)],
    of: impl FnOnce(&mut Settings),
    change: Change,
    criteria: &Criteria,
) -> Headline {
    let mut settings = settings();
    of(&mut settings);
    let measured = loads.iter().map(|(load, layout)| {
        let case = settings.case(*load, layout.parse().unwrap()).unwrap();
        let mut measured = measure(&case).unwrap();
        change(&mut measured.row);
        measured
    });
    let measured = measured.collect();
    // Rows that are changed stand for rows of the engine.
    settings.is_virtual = change as usize == same as Change as usize;
    FinishedRun::new(&settings, measured, criteria, None).verdict
}

fn same(_: &mut ReportRow) {}

fn plain() -> Criteria {
    Criteria {
        burst: 1.0,
        ..Criteria::default()
    }
}

fn open(rate: f64, layouts: &str) -> Vec<(Arrivals, &str)> {
    layouts
        .split(' ')
        .map(|layout| (Arrivals::Open { rate }, layout))
        .collect()
}

fn closed(writers: usize, layouts: &str) -> Vec<(Arrivals, &str)> {
    layouts
        .split(' ')
        .map(|layout| (Arrivals::Closed { writers }, layout))
        .collect()
}

#[test]
fn each_rule_decides_the_run_that_shows_it() {
    type Of = fn(&mut Settings);
    let none: Of = |_| {};
    let no_limit: Of = |settings| settings.limit = 0;
    let late: Change = |row| (row.sent_late, row.late_p99_us) = (72, 50_000.0);
    let saturated: Change = |row| (row.processors_busy, row.hold_us) = (Some(1.0), None);
    let stretched: Change = |row| row.hold_us = Some(20_000.0);
    let refused_idly: Change = |row| (row.key_busy_share, row.hold_us) = (0.02, Some(10.0));
    let waits_outside: Change = |row| (row.p99_us, row.service_p99_us) = (15_000.0, 130.0);
    let worse_with_shards: Change = |row| {
        row.key_busy_share = if row.shards.to_string() == "1" {
            0.24
        } else {
            0.65
        };
        row.goodput_per_s = row.offered_per_s * (1.0 - row.key_busy_share);
    };
    let twenty = 20;
    for (loads, of, change, word, rule, shards, words) in [
        (
            open(10.0, "1"),
            (|s| s.duration = Duration::from_secs(2)) as Of,
            same as Change,
            "TOO SHORT",
            "too-short",
            None,
            "--duration 13s would do",
        ),
        (
            open(280.0, "1"),
            (|s| s.duration = Duration::from_millis(50)) as Of,
            same,
            "TOO SHORT",
            "too-short",
            None,
            "would do",
        ),
        (
            open(1_000.0, "1 8"),
            (|s| s.duration = Duration::from_millis(400)) as Of,
            late,
            "TOO SHORT",
            "too-short",
            None,
            "would do",
        ),
        (
            open(100.0, "1 8"),
            none,
            late,
            "MACHINE",
            "machine",
            None,
            "72 of",
        ),
        (
            open(25.0, "1 8"),
            none,
            waits_outside,
            "MACHINE",
            "machine",
            None,
            "p99 is 15 ms, of which the store takes 130 us",
        ),
        (
            open(10.0, "1 8"),
            none,
            saturated,
            "MACHINE",
            "machine",
            None,
            "the processors were busy 100 % of the time",
        ),
        (
            open(100.0, "1 8"),
            none,
            stretched,
            "MACHINE",
            "machine",
            None,
            "holds of 8 ms took 20 ms",
        ),
        (
            open(100.0, "1 8"),
            none,
            refused_idly,
            "MACHINE",
            "machine",
            None,
            "was locked 0.1 % of the time",
        ),
        (
            open(100.0, "1 4 16"),
            none,
            worse_with_shards,
            "NOT THE RECORD",
            "not-the-record",
            None,
            "24.0 % are refused, and 65.0 % in 16 shards",
        ),
        (
            open(150.0, "1"),
            no_limit,
            same,
            "OVERLOAD",
            "overload",
            Some(2),
            "Hash-shard it by 2 (computed from 125 writes/s a record, not measured)",
        ),
        (
            open(200.0, "1"),
            (|s| s.hold.mean = Duration::from_secs(60)) as Of,
            same,
            "OVERLOAD",
            "overload",
            None,
            "a record serves 0.0167/s. 16,384 shards would be needed",
        ),
        (
            open(1_000.0, "1 4"),
            no_limit,
            same,
            "OVERLOAD",
            "overload",
            Some(16),
            "4 shards are not enough: 50 % of the writes are served",
        ),
        (
            open(200.0, "1 2 4 8 hourly"),
            none,
            same,
            "OVERLOAD",
            "overload",
            Some(4),
            "Hash-shard it by 4 (measured): 0 %, p99 176",
        ),
        (
            open(200.0, "1 256"),
            none,
            same,
            "OVERLOAD",
            "overload",
            Some(4),
            "of those measured, 256 is the fewest that passes",
        ),
        (
            open(150.0, "1 256"),
            none,
            same,
            "OVERLOAD",
            "overload",
            Some(2),
            "Hash-shard it by 2 (computed from 125 writes/s a record; of those measured, 256 is",
        ),
        (
            open(120.0, "1 2"),
            none,
            same,
            "BUSY",
            "busy",
            Some(2),
            "KEY_BUSY at 120 writes/s in one record",
        ),
        (
            open(200.0, "hourly daily+8"),
            none,
            same,
            "OVERLOAD",
            "overload",
            Some(4),
            "Time with hash shards does (daily+8: 0 %)",
        ),
        (
            open(100.0, "1"),
            none,
            same,
            "SLOW",
            "slow",
            Some(2),
            "never refused at 100 writes/s in one record, but waits",
        ),
        (
            open(100.0, "1 2"),
            none,
            same,
            "SLOW",
            "slow",
            Some(2),
            "Hash-shard it by 2 (measured)",
        ),
        (
            closed(twenty, "1 2"),
            none,
            same,
            "SLOW",
            "slow",
            Some(2),
            "125 -> 243 writes/s",
        ),
        (
            closed(30, "1 2"),
            none,
            same,
            "BUSY",
            "busy",
            None,
            " % are still refused. Measure more shards (--shards 1,4,8)",
        ),
        (
            closed(30, "1 2"),
            none,
            same,
            "BUSY",
            "busy",
            None,
            "A refused writer rests for 100 us.",
        ),
        (
            open(400.0, "1 8"),
            (|s| (s.hot_keys, s.zipf) = (50, 1.0)) as Of,
            same,
            "SLOW",
            "slow",
            Some(8),
            "Hash-shard it by 8 (measured)",
        ),
        (
            closed(1, "1 8"),
            none,
            same,
            "OK",
            "ok",
            None,
            "No write is refused at 1 writer",
        ),
        (
            open(25.0, "1 8"),
            none,
            same,
            "OK",
            "ok",
            None,
            "Sharding does not help here. No write is refused",
        ),
        (open(25.0, "8"), none, same, "OK", "ok", None, "--shards 1."),
        (
            open(800.0, "1 8"),
            (|s| (s.hot_keys, s.zipf) = (50, 1.0)) as Of,
            same,
            "OVERLOAD",
            "overload",
            Some(2),
            "50 hot keys, of which hot0 has 22.2 % of the writes, take",
        ),
    ] {
        let found = judged(&loads, of, change, &plain());
        let label = format!("{loads:?}: {found:?}");
        assert_eq!((found.word.text(), found.rule), (word, rule), "{label}");
        assert_eq!(found.shards, shards, "{label}");
        assert!(found.sentence.contains(words), "{words:?} in {label}");
    }
}

#[test]
fn one_record_is_asked_for_only_where_none_was_measured() {
    for (layouts, is_asked_for) in [("1", false), ("1 8", false), ("8", true)] {
        let found = judged(&open(25.0, layouts), |_| {}, same, &plain());
        let asks = found.sentence.contains("Measure one record");
        assert_eq!(asks, is_asked_for, "{layouts}: {found:?}");
    }
}

#[test]
fn the_worst_load_names_the_verdict_and_short_ones_are_named() {
    let two: Vec<(Arrivals, &str)> = [open(25.0, "1 2"), open(200.0, "1 2")].concat();
    let found = judged(&two, |_| {}, same, &plain());
    assert_eq!((found.word, found.before), (Word::Overload, Some(2)));
    let short: Vec<(Arrivals, &str)> = [open(1.0, "1"), open(25.0, "1")].concat();
    let found = judged(&short, |_| {}, same, &plain());
    assert_eq!(found.word, Word::Ok, "{found:?}");
    assert!(
        found.sentence.contains("Too short to judge: 1/s."),
        "{found:?}"
    );
}

#[test]
fn a_machine_that_limits_only_the_shards_is_no_reason_to_advise_them() {
    let late: Change = |row| {
        if row.shards.to_string() == "8" {
            (row.sent_late, row.late_p99_us) = (72, 50_000.0);
        }
    };
    let found = judged(&open(200.0, "1 8"), |_| {}, late, &plain());
    assert_eq!(
        (found.word, found.shards_are),
        (Word::Overload, Some("computed")),
        "{found:?}"
    );
}

#[test]
fn a_guideline_or_a_condition_that_fails_is_in_the_headline() {
    let burst = Criteria {
        burst: 3.0,
        ..Criteria::default()
    };
    let found = judged(&open(50.0, "1"), |_| {}, same, &burst);
    assert_eq!(
        (found.word, found.word.level()),
        (Word::Watch, crate::report::Severity::Watch)
    );
    let condition: RowCondition = "p99<1ms".parse().unwrap();
    let criteria = Criteria {
        thresholds: vec![condition],
        ..plain()
    };
    for (rate, carried) in [(25.0, "OK: "), (200.0, "OVERLOAD: ")] {
        let found = judged(&open(rate, "1"), |_| {}, same, &criteria);
        assert_eq!((found.word, found.rule), (Word::Fail, "conditions"));
        let begins = format!("1 of 1 conditions not met (p99<1ms). {carried}");
        assert!(found.sentence.starts_with(&begins), "{found:?}");
        assert!(found.word.fails());
    }
}

#[test]
fn shards_that_were_activated_in_vain_are_not_called_ok() {
    let phase = |name: &str, offered: u64, busy: u64| {
        serde_json::from_value(serde_json::json!({
            "name": name, "seconds": 1.0, "offered": offered, "acked": offered - busy, "key_busy": busy,
            "key_busy_share": busy as f64 / offered as f64, "goodput_per_s": 1.0, "offered_per_s": 1.0,
            "p50_us": null, "p99_us": null, "p99_interval_us": null, "p999_us": null, "max_us": null, "mean_us": null,
        }))
        .unwrap()
    };
    for (busy, word) in [(0, Word::Ok), (10, Word::Busy), (420, Word::Overload)] {
        let settings = settings();
        let measured = [50.0, 100.0].map(|rate| {
            let case = settings
                .case(Arrivals::Open { rate }, RowLayout::Hashed(8))
                .unwrap();
            let mut measured = measure(&case).unwrap();
            measured.row.activation = Some(crate::contention::Activation {
                began_s: 1.0,
                ended_s: 1.5,
                shards: 8,
                refused: 0,
            });
            // The second load is the one in trouble.
            let busy = if rate > 50.0 { busy } else { 0 };
            measured.row.phases = vec![
                phase("before", 1_000, 300),
                phase("during", 10, 0),
                phase("after", 1_000, busy),
            ];
            measured
        });
        let found = FinishedRun::new(&settings, measured.into(), &plain(), None).verdict;
        assert_eq!(found.word, word, "{found:?}");
    }
}
