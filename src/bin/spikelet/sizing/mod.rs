//! Sizing: what records take, which collections to shard, and how.
//!
//! [`size`] looks at a store, a backup or JSON lines; [`plan()`] answers from numbers alone.
//! Records go by one after the other (`source`). Each is measured (`measure`) and counted in its
//! set (`set_stats`; `size_histogram` for sizes, `sample` where only a sample is measured). Then
//! each set gets a verdict ([`crate::verdict`]), what helps (`remedy`), a number of shards
//! (`recommendation`) and its lints (`lint`); together they make a [`Sizing`]
//! (`model`, `summarize`). `secondary_index` says what the indexes of a store take. `present` shows
//! it as a report or CSV.
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
pub(crate) mod recommendation;
pub(crate) mod remedy;
mod sample;
mod secondary_index;
pub(crate) mod set_stats;
mod size_histogram;
mod source;
mod summarize;
#[cfg(test)]
mod tests;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;

use crate::verdict::sizing::near;

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

/// The version of the JSON that [`Sizing`] and [`plan::CollectionPlan`] make; see
/// [`crate::report::to_json`].
pub(crate) const SCHEMA_VERSION: u32 = 5;

/// How a sizing is made.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct SizingOptions {
    /// Writes a second to the hottest record of all; or to that of a set, as SET=W, which may be
    /// given several times.
    #[arg(help_heading = "Load", long, value_name = "[SET=]W", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) writes_per_s: Vec<(Option<String>, f64)>,
    /// Size this set only; '' is no set [default: all].
    #[arg(help_heading = "Records", long, value_name = "NAME")]
    pub(crate) set: Option<String>,
    /// List this many of the largest records.
    #[arg(help_heading = "Output", long, value_name = "N", default_value_t = 10, value_parser = RangedU64ValueParser::<usize>::new().range(0..=TOP_MAX))]
    pub(crate) top: usize,
    /// The largest record that is allowed, in bytes; shards are advised within 80 % of it [default:
    /// 1048576; 8388608 of a store that holds larger ones].
    #[arg(help_heading = "Limits", long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(64..))]
    pub(crate) max_record_bytes: Option<u64>,
    /// Measure a sample of this many records of each set [default: all].
    #[arg(help_heading = "Records", long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sample: Option<u32>,
    /// Seed of the sample.
    #[arg(
        help_heading = "Records",
        long,
        default_value_t = 1,
        requires = "sample"
    )]
    pub(crate) seed: u64,
}

/// More would make a page, and a terminal, of nothing else.
const TOP_MAX: u64 = 1000;

/// Parses `400` or `users=400`.
fn rate(text: &str) -> Result<(Option<String>, f64), String> {
    let (set, number) = match text.rsplit_once('=') {
        Some((set, number)) => (Some(set.to_owned()), number),
        None => (None, text),
    };
    let rate = number.parse().map_err(|_| {
        format!("{number:?} is no number of writes a second: write 400, or SET=400")
    })?;
    Ok((set, rate))
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

impl SizingOptions {
    /// Returns the writes a second to the hottest record of a set as given, or of all for `None`.
    pub(crate) fn rate_of(&self, set: Option<&str>) -> Option<f64> {
        let mut rates = self.writes_per_s.iter();
        rates.find_map(|(of, rate)| (of.as_deref() == set).then_some(*rate))
    }

    /// Returns the sample that is measured; `None`: everything is.
    pub(crate) fn sample(&self) -> Option<Sample> {
        self.sample.map(|records| Sample {
            records: records as usize,
            seed: self.seed,
        })
    }

    /// Returns the most that a shard should hold, in bytes: near a record's limit there is too
    /// little room for growth. The limits of stores of which none is given are far beyond 128 KiB.
    pub(crate) fn shard_bytes_max(&self) -> u64 {
        let near_limit = self.max_record_bytes.map(near);
        near_limit.map_or(SWEET_SPOT_BYTES, |limit| limit.min(SWEET_SPOT_BYTES))
    }

    /// Checks the rates.
    ///
    /// # Errors
    /// A rate outside of [`plan::checked_rate`]'s range, or two rates of one set, or of all.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (set, rate) in &self.writes_per_s {
            let rate = plan::checked_rate(*rate)?;
            let first = self.rate_of(set.as_deref()).unwrap_or(rate);
            if first != rate {
                return Err(format!(
                    "--writes-per-s {first} and {rate}: one record is the hottest of {}; name sets, as SET=W",
                    set.as_ref()
                        .map_or_else(|| "all".to_owned(), |set| format!("set {set}"))
                ));
            }
        }
        Ok(())
    }
}
