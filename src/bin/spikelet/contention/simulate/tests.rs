use std::time::Duration;

use super::*;
use crate::contention::case::{Settings, Spread, Write};
use crate::contention::testing::{closed, open};
use crate::contention::{Measurement, ReportRow, measure};

/// Runs long enough for 200,000 arrivals, as in the documented table.
fn run(rate: f64, shards: u32, change: impl FnOnce(&mut Settings)) -> Measurement {
    let case = open(rate, shards, |settings| {
        settings.duration = Duration::from_secs_f64(200_000.0 / rate);
        change(settings);
    });
    measure(&case).unwrap()
}

/// Checks that a value is within a part of the expected one, or within an absolute difference where
/// that is larger.
fn near(found: f64, expected: f64, part: f64, absolute: f64) -> bool {
    (found - expected).abs() <= (expected * part).max(absolute)
}

#[test]
fn one_record_behaves_as_the_documented_table_says() {
    // Rate; KEY_BUSY in percent; p50, p99, p99.9 in ms (0: the table does not say).
    let table = [
        (25.0, 0.0, [8.0, 19.6, 26.9]),
        (50.0, 0.0, [8.0, 28.1, 39.6]),
        (100.0, 0.001, [18.0, 89.0, 123.0]),
        (110.0, 0.042, [27.0, 138.0, 0.0]),
        (115.0, 0.22, [38.0, 162.0, 0.0]),
        (120.0, 0.86, [57.0, 172.0, 0.0]),
        (125.0, 2.3, [89.0, 174.0, 0.0]),
        (150.0, 16.5, [161.0, 176.0, 0.0]),
        (200.0, 37.4, [171.0, 176.0, 0.0]),
    ];
    // The table is one run, and ours vary, too: p99.9 at 100 a second was 125.9 to 138.4 ms with
    // eight seeds. So the median of three runs is compared, and the rest is the noise of the
    // table.
    for (rate, busy, latencies_ms) in table {
        let rows = [1, 2, 3].map(|seed| run(rate, 1, |settings| settings.seed = seed).row);
        let median = |read: fn(&ReportRow) -> f64| {
            let mut values = rows.each_ref().map(read);
            values.sort_by(f64::total_cmp);
            values[1]
        };
        let found = median(|row| row.key_busy_share) * 100.0;
        assert!(near(found, busy, 0.05, 0.06), "{rate}: {found} % busy");
        let read: [fn(&ReportRow) -> f64; 3] =
            [|row| row.p50_us, |row| row.p99_us, |row| row.p999_us];
        let found = read.map(median);
        for (found, expected) in found.into_iter().zip(latencies_ms) {
            let found = found / 1e3;
            assert!(
                expected == 0.0 || near(found, expected, 0.06, 0.1),
                "{rate}: {found} ms for {expected}"
            );
        }
        for row in rows {
            assert!(row.goodput_per_s <= 125.5, "{row:?}");
            // 22 holds: one for itself, and one for each of the 21 that may wait before it.
            assert!(row.max_us <= 176_000.0, "{row:?}");
            assert_eq!(row.acked + row.key_busy, row.offered);
            assert_eq!(
                (
                    row.correctness.lost,
                    row.correctness.duplicates,
                    row.correctness.found
                ),
                (0, 0, row.acked)
            );
        }
    }
}

#[test]
fn shards_relieve_a_key_as_the_documented_table_says() {
    for (shards, busy, goodput, p99_ms) in [
        (1, 68.7, 125.0, 176.0),
        (2, 37.3, 250.0, 176.0),
        (4, 0.001, 399.0, 88.0),
        (8, 0.0, 399.0, 28.0),
        (16, 0.0, 399.0, 19.0),
    ] {
        let row = run(400.0, shards, |_| {}).row;
        let found = row.key_busy_share * 100.0;
        assert!(near(found, busy, 0.02, 0.02), "{shards}: {found} % busy");
        assert!(
            near(row.goodput_per_s, goodput, 0.01, 0.0),
            "{shards}: {row:?}"
        );
        assert!(row.goodput_per_s <= f64::from(shards) * 125.5);
        assert!(row.max_us <= 176_000.0, "{shards}: {row:?}");
        let p99 = row.p99_us / 1e3;
        assert!(near(p99, p99_ms, 0.08, 0.0), "{shards}: p99 {p99} ms");
    }
}

#[test]
fn other_holds_behave_as_documented() {
    for (rate, mean_ms, spread, busy) in [
        (200.0, 4, Spread::Fixed, 0.001),
        (250.0, 4, Spread::Fixed, 2.26),
        (100.0, 8, Spread::Exponential, 0.15),
        (110.0, 8, Spread::Exponential, 0.65),
        (120.0, 8, Spread::Exponential, 2.4),
    ] {
        let row = run(rate, 1, |settings| {
            settings.hold.mean = Duration::from_millis(mean_ms);
            settings.hold.spread = spread;
        })
        .row;
        let found = row.key_busy_share * 100.0;
        assert!(
            near(found, busy, 0.3, 0.02),
            "{rate} {spread:?}: {found} % busy"
        );
    }
}

#[test]
fn what_is_simulated_is_what_theory_expects() {
    for (rate, limit, spread) in [
        (60.0, 2, Spread::Fixed),
        (100.0, 4, Spread::Fixed),
        (140.0, 20, Spread::Fixed),
        (100.0, 4, Spread::Exponential),
        (140.0, 20, Spread::Exponential),
        (50.0, 1, Spread::Fixed),
        (80.0, 0, Spread::Fixed),
        (80.0, 0, Spread::Exponential),
    ] {
        let row = run(rate, 1, |settings| {
            settings.limit = limit;
            settings.hold.spread = spread;
        })
        .row;
        let (busy, mean) = (
            row.expected_key_busy_share.unwrap(),
            row.expected_mean_us.unwrap(),
        );
        assert!(
            near(row.key_busy_share, busy, 0.04, 0.001),
            "{rate} {limit} {spread:?}: {row:?}"
        );
        assert!(
            near(row.mean_us, mean, 0.03, 0.0),
            "{rate} {limit} {spread:?}: {row:?}"
        );
    }
}

#[test]
fn who_is_acknowledged_was_there_for_as_many_holds_as_may_wait_and_its_own() {
    for limit in [1, 2, 5, 20] {
        let row = run(400.0, 1, |settings| settings.limit = limit).row;
        let bound_us = (limit + 2) as f64 * 8_000.0;
        assert!(row.max_us <= bound_us, "{limit}: {} us", row.max_us);
        // And the bound is met: under this load a writer always comes when there is one place left.
        assert!(row.max_us > bound_us - 100.0, "{limit}: {} us", row.max_us);
    }
}

#[test]
fn a_closed_loop_of_the_limit_and_two_is_never_refused_and_one_more_is() {
    for limit in [1, 4, 20] {
        let busy = |writers| {
            let case = closed(writers, 1, |settings| settings.limit = limit);
            measure(&case).unwrap().row
        };
        let fits = busy(limit + 2);
        assert_eq!(fits.key_busy, 0);
        assert!(fits.acked >= 60 * 125 - 1, "{fits:?}");
        assert_eq!(fits.correctness.lost, 0);
        assert!(busy(limit + 3).key_busy > 0);
    }
}

#[test]
fn without_a_limit_nobody_is_refused_however_long_the_queue_grows() {
    let row = run(400.0, 1, |settings| {
        settings.limit = 0;
        settings.duration = Duration::from_secs(10);
    })
    .row;
    assert_eq!((row.key_busy, row.acked), (0, row.offered));
    // It serves 125 of 400 a second: the last ones wait for the writes of 10 s.
    assert!(row.max_us > 20e6, "{row:?}");
    assert_eq!(row.expected_key_busy_share, None);
}

#[test]
fn time_alone_does_not_relieve_a_hot_key_and_time_with_hashing_does() {
    let busy = |layout: &str| {
        let settings = Settings {
            // Beyond the end of an hour.
            duration: Duration::from_secs(3_700),
            ..crate::contention::testing::settings()
        };
        let case = settings
            .case(Arrivals::Open { rate: 200.0 }, layout.parse().unwrap())
            .unwrap();
        let measured = measure(&case).unwrap();
        assert!(measured.row.correctness.holds());
        measured.row.key_busy_share
    };
    let alone = busy("1");
    assert!(alone > 0.36);
    assert!((busy("hourly") - alone).abs() < 0.001);
    assert!((busy("daily") - alone).abs() < 0.001);
    assert!(busy("daily+8") < 0.001);
}

#[test]
fn the_same_seed_measures_the_same_and_another_does_not() {
    for write in [Write::Increment, Write::Put, Write::AddUnique] {
        let row = |seed| {
            let case = open(130.0, 2, |settings| {
                settings.seed = seed;
                settings.write = write;
                settings.hot_keys = 3;
                settings.zipf = 1.0;
                settings.retries = 2;
                settings.hold.spread = Spread::Exponential;
            });
            let measured = measure(&case).unwrap();
            assert!(
                measured.row.correctness.holds(),
                "{:?}",
                measured.row.correctness
            );
            measured.row
        };
        assert_eq!(row(1), row(1));
        assert_ne!(row(1), row(2));
    }
}

#[test]
fn a_refused_write_is_tried_again_after_its_pause_and_its_latency_counts_from_the_first_time() {
    let row = |retries| {
        run(110.0, 1, |settings| {
            settings.limit = 1;
            settings.retries = retries;
            settings.pause = Some(Duration::from_millis(8));
        })
        .row
    };
    let (once, often) = (row(0), row(20));
    assert_eq!((once.retries, once.refusals), (0, once.key_busy));
    assert_eq!(often.retries + often.key_busy, often.refusals);
    assert!(
        often.key_busy_share < once.key_busy_share / 2.0,
        "{often:?}"
    );
    assert!(once.max_us <= 24_000.0);
    assert!(often.p99_us > 32_000.0, "{often:?}");
}
