//! Properties of every row, under all settings.

use std::time::Duration;

use proptest::prelude::*;
use spikelet::shard::TimeWidth;

use crate::contention::case::{Hold, Write};
use crate::contention::{Arrivals, RowLayout, Settings, Spread, measure};

fn layouts() -> impl Strategy<Value = RowLayout> {
    let shards = prop::sample::select(vec![1_u32, 2, 4, 8]);
    let width = prop::sample::select(vec![TimeWidth::Hourly, TimeWidth::Daily]);
    prop_oneof![
        shards.clone().prop_map(RowLayout::Hashed),
        (width, shards).prop_map(|(width, shards)| RowLayout::Timed(width, shards)),
    ]
}

fn loads() -> impl Strategy<Value = Arrivals> {
    prop_oneof![
        (5.0..600.0).prop_map(|rate| Arrivals::Open { rate }),
        (1_usize..60).prop_map(|writers| Arrivals::Closed { writers }),
    ]
}

prop_compose! {
    fn settings()(
        write in prop::sample::select(vec![Write::Put, Write::Increment, Write::AddUnique]),
        limit in prop::sample::select(vec![0_usize, 1, 3, 20]),
        hold_ms in 1_u64..20,
        spread in prop::sample::select(vec![Spread::Fixed, Spread::Exponential]),
        elements in prop::sample::select(vec![0_u32, 30]),
        hot_keys in 1_u32..4,
        warm_up_ms in prop::sample::select(vec![0_u64, 700]),
        retries in prop::sample::select(vec![0_u32, 0, 2]),
        seed in any::<u64>(),
    ) -> Settings {
        Settings {
            is_virtual: true,
            write,
            limit,
            hold: Hold { mean: Duration::from_millis(hold_ms), spread },
            payload: 8,
            elements,
            hot_keys,
            zipf: 0.7,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(warm_up_ms),
            seed,
            retries,
            pause: None,
            activate_at: None,
            dir: None,
            cluster: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn figures_add_up_and_nothing_is_lost(
        settings in settings(),
        load in loads(),
        layout in layouts(),
    ) {
        let measured = measure(&settings.case(load, layout).unwrap()).unwrap();
        let (row, found) = (&measured.row, &measured.row.correctness);
        // Every write has one fate.
        prop_assert_eq!(row.offered, row.acked + row.errors.values().sum::<u64>());
        prop_assert_eq!(row.key_busy, row.errors.get(&14).copied().unwrap_or(0));
        prop_assert_eq!(row.errors.keys().filter(|code| **code != 14).count(), 0);
        prop_assert_eq!(row.refusals, row.retries + row.key_busy);
        let share = row.key_busy as f64 / row.offered.max(1) as f64;
        prop_assert!((row.key_busy_share - share).abs() < 1e-12);
        let acked_share = row.acked as f64 / row.offered.max(1) as f64;
        prop_assert!(row.offered == 0 || (share + acked_share - 1.0).abs() < 1e-12);
        // The histogram is of the acknowledged.
        prop_assert_eq!(measured.tally.latency.len(), row.acked);
        let mut times = vec![row.p50_us, row.p99_us, row.p999_us, row.max_us];
        times.retain(|time| time.is_finite());
        prop_assert!(times.is_sorted(), "{:?}", times);
        prop_assert_eq!(row.p99_us.is_finite(), row.acked >= 100);
        prop_assert_eq!(row.p999_us.is_finite(), row.acked >= 1_000);
        prop_assert!(row.mean_us <= row.max_us + 0.001);
        // A record serves one write a hold, and keeps no writer longer than those before it.
        if settings.hold.spread == Spread::Fixed {
            let hold_s = settings.hold.mean.as_secs_f64();
            let records = f64::from(layout.live_shards() * settings.hot_keys);
            let most = records * (settings.duration.as_secs_f64() / hold_s + 1.0);
            prop_assert!(row.goodput_per_s * settings.duration.as_secs_f64() <= most + 1e-6);
            if let (Some(most), 0) = (settings.max_waiters(), settings.retries) {
                prop_assert!(row.max_us <= (most + 1) as f64 * hold_s * 1e6 + 1e-3, "{:?}", row);
            }
        }
        if settings.limit == 0 {
            prop_assert_eq!(row.refusals, 0);
        }
        // Acknowledged is found.
        prop_assert!(found.holds(), "{:?}", found);
        prop_assert!(found.acknowledged >= row.acked);
        prop_assert_eq!(found.found, found.acknowledged);
    }
}
