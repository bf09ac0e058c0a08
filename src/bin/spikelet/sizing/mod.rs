//! Sizing: what records take, which collections to shard, and how.
//!
//! [`size`] looks at a store, a backup or JSON lines; [`plan()`] answers from numbers alone.
//! Records go by one after the other (`source`). Each is measured (`measure`) and counted in its
//! set (`set_stats`; `size_histogram` for sizes, `sample` where only a sample is measured). Then
//! each set gets a verdict ([`crate::verdict`]), what helps (`remedy`), a number of shards
//! (`recommendation`) and its lints (`lint`); together they make a [`Sizing`] (`model`,
//! `summarize`). `secondary_index` says what
//! the indexes of a store take. `present` shows it as a
//! report or CSV.
//!
//! Percentiles are exact: sizes are counted in a histogram of exact values. Memory grows with sets,
//! bins and different sizes, not with records; for JSON lines also with keys, since repeated ones
//! are counted.

pub(crate) mod bucket;
mod lint;
pub(crate) mod measure;
pub(crate) mod model;
mod plan;
mod present;
mod recommendation;
pub(crate) mod remedy;
mod sample;
mod secondary_index;
pub(crate) mod set_stats;
mod size_histogram;
mod source;
mod summarize;
#[cfg(test)]
mod tests;

use serde::Serialize;

#[cfg(test)]
pub(crate) use model::SetSizing;
pub(crate) use model::Sizing;
pub(crate) use plan::{PlanNumbers, plan};
#[cfg(test)]
pub(crate) use remedy::SizeRemedy;
pub(crate) use secondary_index::{SecondaryIndexSizing, secondary_indexes_table};
pub(crate) use source::size;
#[cfg(feature = "cluster")]
pub(crate) use source::{ClusterReading, size_cluster};

/// The version of the JSON that [`Sizing`] and [`plan::CollectionPlan`] make; see [`crate::report::to_json`].
pub(crate) const SCHEMA_VERSION: u32 = 4;

/// How a sizing is made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SizingOptions {
    /// Writes a second to the hottest record of all, 0 to [`plan::WRITES_PER_S_MAX`]. Default: not
    /// known.
    pub(crate) writes_per_s: Option<f64>,
    /// Writes a second to the hottest record of each of these sets.
    pub(crate) writes_per_s_of: Vec<(String, f64)>,
    /// How many of the largest and of the most written records are listed. Default: 10.
    pub(crate) top: usize,
    /// The largest record that is allowed, in bytes. Default: 1 MiB, or 8 MiB of a store that holds
    /// larger records.
    pub(crate) max_record_bytes: Option<u64>,
    /// Only a sample is measured. Default: everything.
    pub(crate) sample: Option<Sample>,
    /// Only the set of this name is looked at; the empty name is "no set". Default: all.
    pub(crate) set: Option<String>,
}

/// A sample of each set: every record has the same chance to be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sample {
    /// Records of each set at most. They are kept in memory until all have gone by.
    #[serde(rename = "records_per_set")]
    pub(crate) records: usize,
    /// The seed of the sample.
    pub(crate) seed: u64,
}

impl Default for SizingOptions {
    fn default() -> Self {
        Self {
            writes_per_s: None,
            writes_per_s_of: Vec::new(),
            top: 10,
            max_record_bytes: None,
            sample: None,
            set: None,
        }
    }
}
