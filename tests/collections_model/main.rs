//! Lists and maps against a naive model: random bins, random operations below random paths. After
//! each operation, its result or error code, and the whole bin, must equal the model's.
//!
//! `SPIKELET_LONG=1` does more than a million operations; otherwise it is a few thousand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod convert;
mod found;
mod generate;
mod model;
mod side_by_side;

use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestError, TestRunner};
use spikelet::Store;

/// In a row on one bin.
const CALLS: usize = 12;

#[test]
fn lists_and_maps_do_what_the_model_does() {
    let cases = if std::env::var_os("SPIKELET_LONG").is_some() {
        200_000
    } else {
        10_000
    };
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let set = Store::in_memory().unwrap().set("model").unwrap();
    TestRunner::new(config)
        .run(&generate::sequence(CALLS), |(start, calls)| {
            side_by_side::compare(&set, &start, &calls).map_err(TestCaseError::fail)
        })
        .unwrap_or_else(|failure| match failure {
            TestError::Fail(reason, sequence) => panic!("{reason}\nshrunk to {sequence:?}"),
            TestError::Abort(reason) => panic!("{reason}"),
        });
}
