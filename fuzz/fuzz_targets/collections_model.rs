//! Operations on lists and maps beside the naive model of the tests, drawn from the fuzzer's bytes.

#![no_main]

#[path = "../../tests/collections_model/convert.rs"]
mod convert;
#[path = "../../tests/collections_model/generate.rs"]
mod generate;
#[path = "../../tests/collections_model/model/mod.rs"]
mod model;
#[path = "../../tests/collections_model/side_by_side.rs"]
mod side_by_side;
mod support;

use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// In a row on one bin.
const CALLS: usize = 6;

fuzz_target!(|data: &[u8]| {
    let random = TestRng::from_seed(RngAlgorithm::PassThrough, data);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    if let Ok(sequence) = generate::sequence(CALLS).new_tree(&mut runner) {
        let (start, calls) = sequence.current();
        support::with_set(|set| side_by_side::compare(set, &start, &calls).expect("they agree"));
    }
});
