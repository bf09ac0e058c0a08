//! Sizing: what records take, which sets are to be sharded, and how.
//!
//! [`size`] looks at a store, a backup or JSON lines; [`plan()`] answers from numbers alone. Records go by one after the
//! other (`source`), each is measured (`measure`) and counted in its set (`survey`, with `tally` for sizes and `sample` where
//! only a sample is measured); then sets are judged (`judge`), advised (`advice`) and looked over (`lint`), which makes a
//! [`Sizing`] (`model`, `conclude`). `present` shows it as a report or CSV.
//!
//! Percentiles are exact: sizes are counted in a histogram of exact values. Memory goes with sets, bins and different sizes,
//! not with records; for JSON lines also with keys, of which repeated ones are counted.

mod advice;
mod conclude;
mod judge;
mod lint;
mod measure;
mod model;
mod plan;
mod present;
mod sample;
mod source;
mod survey;
mod tally;

pub use advice::{COPIES, HOLD_MS};
pub use model::{
    Advice, Band, BinSizing, CollectionSizing, Contended, IndexMemory, Lint, NamespaceSizing,
    RecordSizing, Rewrite, SampleNote, SetSizing, Sizing, Thresholds, TimeAdvice, VerdictOf,
    WhatIf,
};
pub use plan::{Plan, PlanError, RateError, WRITES_PER_S_MAX, plan};
pub use sample::Intervals;
pub use source::{Progress, SizingError, size};
pub use tally::{Bucket, Distribution, Share, Tally};

/// The version of the JSON that [`Sizing`] and [`Plan`] make; see [`crate::report::to_json`].
pub const SCHEMA_VERSION: u32 = 1;

/// How a sizing is made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Writes a second to the hottest record of a set, 0 to [`WRITES_PER_S_MAX`]. Default: not known.
    pub writes_per_s: Option<f64>,
    /// How many of the largest and of the most written records are listed. Default: 10.
    pub top: usize,
    /// The largest record that is allowed, in bytes. Default: 1 MiB.
    pub max_record_bytes: u64,
    /// Only a sample is measured. Default: everything.
    pub sample: Option<Sample>,
    /// Only the set of this name is looked at; the empty name is "no set". Default: all.
    pub set: Option<String>,
}

/// A sample: so many records of each set, each with the same chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Records of each set at most. They are kept in memory until all have gone by.
    pub records: usize,
    /// The same seed draws the same sample.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            writes_per_s: None,
            top: 10,
            max_record_bytes: 1 << 20,
            sample: None,
            set: None,
        }
    }
}
