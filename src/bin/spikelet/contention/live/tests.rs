use super::*;
use crate::contention::case::{Settings, Write};
use crate::contention::testing::{closed, open};
use crate::contention::{Measurement, measure};

fn live(settings: &mut Settings) {
    settings.is_virtual = false;
    settings.hold.mean = Duration::ZERO;
    settings.duration = Duration::from_millis(150);
    settings.warm_up = Duration::from_millis(20);
    settings.payload = 32;
    settings.elements = 200;
}

fn check(measured: &Measurement) {
    let (row, found) = (&measured.row, &measured.row.correctness);
    assert!(found.holds(), "{found:?}");
    assert!(found.acknowledged >= row.acked && row.acked > 0, "{row:?}");
    assert_eq!(found.found, found.acknowledged);
    // On a busy machine the writes that would be read back may all be refused.
    assert!(found.read_back > 0 || row.key_busy > 0, "{found:?}");
    let failed: u64 = row.errors.values().sum();
    assert_eq!(row.acked + failed, row.offered, "{row:?}");
    assert_eq!(row.key_busy, failed, "another error: {row:?}");
    // Figures that few writes leave unknown are in no order.
    assert!(
        !(row.p50_us > row.p99_us || row.p99_us > row.p999_us),
        "{row:?}"
    );
}

#[test]
fn closed_loops_on_the_engine_lose_nothing_and_count_every_refusal() {
    for write in [Write::Put, Write::Increment, Write::AddUnique] {
        for (shards, limit) in [(1, 20), (4, 2)] {
            let measured = measure(&closed(16, shards, |settings| {
                live(settings);
                settings.write = write;
                settings.limit = limit;
            }))
            .unwrap();
            check(&measured);
            if limit == 20 {
                assert_eq!(measured.row.key_busy, 0, "16 writers, and 21 may wait");
            }
        }
    }
}

#[test]
fn an_open_loop_on_the_engine_sends_what_was_drawn_and_loses_nothing() {
    for write in [Write::Put, Write::Increment, Write::AddUnique] {
        for layout in ["1", "8", "hourly", "daily+4"] {
            let mut settings = crate::contention::testing::settings();
            live(&mut settings);
            settings.write = write;
            settings.hot_keys = 2;
            let rate = 2_000.0;
            let case = settings
                .case(Arrivals::Open { rate }, layout.parse().unwrap())
                .unwrap();
            let warm_up_ns = settings.warm_up.as_nanos() as u64;
            let drawn = arrivals(&case, rate)
                .filter(|wanted| wanted.at_ns >= warm_up_ns)
                .count();
            let measured = measure(&case).unwrap();
            check(&measured);
            assert_eq!(measured.row.offered, drawn as u64, "{write:?} {layout}");
        }
    }
}

#[test]
fn a_hold_limits_what_a_record_serves_and_fills_its_queue() {
    let measured = measure(&open(1_000.0, 1, |settings| {
        live(settings);
        settings.hold.mean = Duration::from_millis(5);
        settings.limit = 3;
        settings.duration = Duration::from_millis(400);
    }))
    .unwrap();
    check(&measured);
    let row = &measured.row;
    // A sleep is never too short, so a hold is never shorter than it was meant.
    assert!(row.hold_us.unwrap() >= 5_000.0, "{row:?}");
    assert!(row.goodput_per_s <= 1.0 / 0.005 + 3.0, "{row:?}");
    assert!(row.key_busy_share > 0.5, "{row:?}");
    assert!(row.service_p50_us >= 5_000.0, "{row:?}");
}

#[test]
fn a_refused_writer_rests_no_longer_than_the_row_runs() {
    let measured = measure(&closed(8, 1, |settings| {
        live(settings);
        settings.limit = 1;
        settings.hold.mean = Duration::from_millis(5);
        settings.warm_up = Duration::ZERO;
        settings.pause = Some(Duration::from_secs(3_600));
    }))
    .unwrap();
    assert!(measured.row.refusals > 0, "{:?}", measured.row);
}

#[test]
fn what_is_spread_while_it_is_written_loses_nothing() {
    for write in [Write::AddUnique, Write::Increment] {
        // Longer where a busy machine makes the shards late.
        let rows = [800, 4_000, 20_000].into_iter().map(|duration_ms| {
            let row = open(2_000.0, 4, |settings| {
                live(settings);
                settings.write = write;
                settings.hot_keys = 2;
                settings.duration = Duration::from_millis(duration_ms);
                settings.activate_at = Some(Duration::from_millis(150));
            });
            measure(&row).unwrap()
        });
        let is_sharded = |row: &Measurement| row.row.moments.last().unwrap().shards == 4;
        check_activation(&{ rows }.find(is_sharded).unwrap());
    }
}

fn check_activation(measured: &Measurement) {
    check(measured);
    let activation = measured.row.activation.as_ref().unwrap();
    assert!(activation.began_s >= 0.15 && activation.ended_s >= activation.began_s);
    let shards: Vec<u32> = measured
        .row
        .moments
        .iter()
        .map(|moment| moment.shards)
        .collect();
    assert_eq!((shards[0], *shards.last().unwrap()), (1, 4), "{shards:?}");
    assert!(shards.is_sorted());
}
