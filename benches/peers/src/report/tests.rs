use super::*;
use crate::disk::Traffic;
use crate::stores::LogBytes;
use clap::{Parser, ValueEnum};
use std::time::Duration;

fn ran(operations: u64, latency_ns: u64) -> Measured {
    let mut measured = Measured::new().unwrap();
    measured.operations = operations;
    measured.elapsed = Duration::from_secs(2);
    measured.latency.record_n(latency_ns, operations).unwrap();
    measured.by_second = vec![operations, 0];
    measured
}

fn cost(bytes: u64, log: Option<LogBytes>) -> Cost {
    let traffic = Traffic {
        allocated: bytes,
        dirtied: bytes,
        called: bytes,
    };
    Cost {
        operations: 10,
        traffic,
        log,
        processor: Duration::from_nanos(bytes),
        disk_bytes: bytes,
        memory_bytes: bytes,
    }
}

#[test]
fn the_median_is_the_middle_one_or_the_mean_of_two() {
    for (values, expected) in [
        (vec![7.0], 7.0),
        (vec![9.0, 1.0, 5.0], 5.0),
        (vec![4.0, 1.0, 3.0, 100.0], 3.5),
    ] {
        assert_eq!(median(values), expected);
    }
    assert!(median(Vec::new()).is_nan());
}

#[test]
fn rounds_of_one_kind_share_a_row_whose_latencies_are_those_of_all() {
    let mut report = Report::default();
    report.add(
        Phase::Get,
        1,
        StoreName::Redb,
        ran(90, 1_000),
        cost(0, None),
    );
    report.add(Phase::Get, 2, StoreName::Redb, ran(10, 7), cost(0, None));
    report.add(
        Phase::Get,
        1,
        StoreName::Redb,
        ran(10, 8_000),
        cost(0, None),
    );
    let [row, other] = report.rows.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!((row.threads, other.threads), (1, 2));
    let latency = row.latency().unwrap();
    assert_eq!(latency.len(), 100);
    assert!(latency.equivalent(latency.value_at_quantile(0.9), 1_000));
    assert!(latency.equivalent(latency.value_at_quantile(0.91), 8_000));
}

#[test]
fn a_ratio_is_the_median_of_the_ratios_of_each_round() {
    let plan = Plan::parse_from(["peers", "--stores", "redb,dashmap"]);
    let mut report = Report::default();
    for (mine, base) in [(10, 20), (10, 100), (30, 100)] {
        report.add(Phase::Get, 1, StoreName::Redb, ran(mine, 1), cost(0, None));
        report.add(
            Phase::Get,
            1,
            StoreName::Dashmap,
            ran(base, 1),
            cost(0, None),
        );
    }
    let ratios: Vec<f64> = report
        .rows
        .iter()
        .map(|row| report.ratio(row, &plan))
        .collect();
    assert_eq!(ratios, [0.3, 1.0]);
}

#[test]
fn a_ratio_is_to_the_last_store_that_runs_the_phase() {
    let plan = Plan::parse_from(["peers", "--stores", "redb,spikelet-storage,spikelet"]);
    let mut report = Report::default();
    for (phase, base) in [
        (Phase::Transfer, StoreName::Spikelet),
        (Phase::Groups, StoreName::Spikelet),
    ] {
        report.add(phase, 1, StoreName::Redb, ran(10, 1), cost(0, None));
        report.add(phase, 1, base, ran(40, 1), cost(0, None));
    }
    let ratios: Vec<f64> = report
        .rows
        .iter()
        .map(|row| report.ratio(row, &plan))
        .collect();
    assert_eq!(ratios, [0.25, 1.0, 0.25, 1.0]);
}

#[test]
fn multiples_of_the_floor_leave_out_the_loop() {
    let mut report = Report::default();
    // In 2 s: 200 ns an operation beside 350 ns, of which the loop is 50.
    report.add(
        Phase::Get,
        1,
        StoreName::Floor,
        ran(10_000_000, 1),
        cost(0, None),
    );
    let ours = Measured {
        elapsed: Duration::from_secs(7),
        ..ran(20_000_000, 1)
    };
    report.add(Phase::Get, 1, StoreName::Spikelet, ours, cost(0, None));
    let ours = report.rows.last().unwrap();
    assert_eq!(report.times_floor(ours, 50.0), Some(2.0));
    report.add(Phase::Mix, 1, StoreName::Spikelet, ran(1, 1), cost(0, None));
    let without = report.rows.last().unwrap();
    assert_eq!(report.times_floor(without, 50.0), None);
}

#[test]
fn costs_of_an_operation_are_the_median_over_the_rounds() {
    let mut report = Report::default();
    for dirtied in [100, 900, 300] {
        let cost = cost(dirtied, None);
        report.add(Phase::Lists, 1, StoreName::Redb, ran(10, 1), cost);
    }
    let row = report.rows.first().unwrap();
    assert_eq!(row.bytes(|cost| Some(cost.traffic.dirtied)), Some(30.0));
    assert_eq!(row.bytes(|cost| Some(cost.log?.appended)), None);
    assert_eq!(row.processor_ns(), Some(30.0));
    assert_eq!(row.disk_bytes(), 300.0);
}

#[test]
fn no_line_is_wider_than_110_columns() {
    let plan = Plan::parse_from([
        "peers",
        "--stores",
        "redb,floor,spikelet-interval",
        "--list-seconds",
        "45",
    ]);
    let mut report = Report::default();
    for phase in Phase::value_variants().iter().copied() {
        for operations in [20_000_000, 30_000_000] {
            let log = LogBytes {
                appended: 1 << 40,
                moved: 1 << 40,
            };
            for store in [StoreName::Floor, StoreName::SpikeletInterval] {
                let cost = Cost {
                    operations,
                    ..cost(1 << 40, Some(log))
                };
                let ran = ran(operations, 20_000_000_000);
                report.add(phase, 2, store, ran, cost);
            }
        }
    }
    let overhead = Overhead {
        codec_ns: 12_345.0,
        clock_ns: 25.0,
        loop_ns: 70.0,
    };
    let table = report.table(&plan, overhead).unwrap();
    for line in table.lines() {
        assert!(line.chars().count() <= 110, "{line}");
    }
}

#[test]
fn the_version_of_a_store_is_the_locked_one() {
    assert!(version("redb").starts_with("4."));
    assert_eq!(version("no such crate"), "unknown");
}
