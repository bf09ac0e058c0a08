//! All record operations and policies against a naive model, with reopening (after a close, and
//! after a drop without one) at random points.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod generate;
mod model;
mod side_by_side;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spikelet::storage::ManualClock;

use generate::step;
use model::Model;
use side_by_side::{Subject, compare, run};

const START_MS: u64 = 500_000_000_000;

/// Short in everyday runs; `SPIKELET_LONG=1` for a campaign.
fn cases() -> u32 {
    if std::env::var_os("SPIKELET_LONG").is_some() {
        2000
    } else {
        60
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_store_does_what_the_model_does(
        default_ttl in prop_oneof![Just(0u64), Just(5u64)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut subject = Subject {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(START_MS)),
            default_ttl,
            store: None,
        };
        subject.open();
        let mut model = Model { records: BTreeMap::new(), now_ms: START_MS, default_ttl };
        for step in &steps {
            run(step, &mut subject, &mut model);
        }
        compare(&subject, &model);
    }
}
