//! Power failures on simulated disks that reorder, tear and lose unsynced writes: each record is
//! found in the version of its last sync or in a later one; groups whole or not at all; deleted
//! records stay deleted; and no damage is reported.
//!
//! `SPIKELET_LONG=1` makes more than 10,000 images. `SPIKELET_SEED=n` runs one seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::power::{IMAGES, Run};
use spikelet_storage::Durability;
use std::ops::Range;
use std::sync::atomic::Ordering;

fn seeds(count: u64) -> Range<u64> {
    let wanted = std::env::var("SPIKELET_SEED").ok();
    match wanted.map(|seed| seed.parse().unwrap()) {
        Some(seed) => seed..seed + 1,
        None => 0..if common::long() { count * 100 } else { count },
    }
}

fn runs(durability: Durability, steps: u64, seeds: Range<u64>) {
    for seed in seeds {
        let mut run = Run::new(seed, durability);
        for _ in 0..5 {
            (0..run.chance.below(steps)).for_each(|_| run.step());
            run.check_now();
            if run.chance.one_in(4) {
                run.fail_sync();
                if run.chance.one_in(2) {
                    // After a failed sync its writes may be in memory only; a sync after the
                    // reopening promises them.
                    run.reopen();
                    run.sync();
                }
            } else if run.chance.one_in(3) {
                run.reopen();
                (0..run.chance.below(10)).for_each(|_| run.step());
            }
            run.crash();
            if run.chance.one_in(2) {
                // The second recovery finds the same as the first, which by then is noted as
                // durable.
                (0..run.chance.below(4)).for_each(|_| run.sync());
                run.crash();
            }
        }
    }
    println!(
        "{durability:?}: {} images so far",
        IMAGES.load(Ordering::Relaxed)
    );
}

#[test]
fn what_was_synced_survives_every_power_failure() {
    runs(Durability::Process, 200, seeds(4));
}

#[test]
fn what_was_acknowledged_survives_every_power_failure_under_commit() {
    runs(Durability::Commit, 40, seeds(2));
}

/// A deletion forgot that older versions were of another set, and one came back when the set was
/// truncated.
#[test]
fn seeds_that_have_found_something_find_nothing_more() {
    runs(Durability::Process, 200, 210..211);
}
