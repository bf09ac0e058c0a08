//! How the writes to a hot key are distributed over records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spikelet::shard::TimeWidth;
use spikelet::shard::arithmetic::SHARDS_MAX;

/// The records that the writes to one hot key go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Value", try_from = "Value")]
pub(crate) enum RowLayout {
    /// By the hash of the element, into this many shards (a power of two, at most
    /// [`SHARDS_MAX`]). One is the record itself.
    Hashed(u32),
    /// Into the record of the current bucket of time, and there by hash into this many shards.
    Timed(TimeWidth, u32),
}

impl RowLayout {
    /// Returns how many records take the writes to one key at any moment.
    pub(crate) const fn live_shards(self) -> u32 {
        match self {
            Self::Hashed(shards) | Self::Timed(_, shards) => shards,
        }
    }

    /// Returns whether time alone distributes the writes, which leaves all writes of a moment in
    /// one record.
    pub(crate) const fn is_time_alone(self) -> bool {
        matches!(self, Self::Timed(_, 1))
    }
}

impl fmt::Display for RowLayout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hashed(shards) => write!(out, "{shards}"),
            Self::Timed(width, 1) => write!(out, "{width}"),
            Self::Timed(width, shards) => write!(out, "{width}+{shards}"),
        }
    }
}

/// JSON has a number of hash shards, or a name such as `hourly`.
impl From<RowLayout> for Value {
    fn from(layout: RowLayout) -> Self {
        match layout {
            RowLayout::Hashed(shards) => shards.into(),
            timed @ RowLayout::Timed(..) => timed.to_string().into(),
        }
    }
}

impl TryFrom<Value> for RowLayout {
    type Error = String;

    fn try_from(form: Value) -> Result<Self, String> {
        form.as_str().unwrap_or(&form.to_string()).parse()
    }
}

impl FromStr for RowLayout {
    type Err = String;

    /// Reads `8`, `hourly`, `daily`, `5-minute`, `daily+8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "shards {text:?}: a power of two up to {SHARDS_MAX}, as sharded collections have it because a split makes two of each; `hourly`, `daily` or `5-minute`; or those with `+8`"
            )
        };
        let shards = |text: &str| {
            let shards: u32 = text.parse().map_err(|_| wrong())?;
            if shards.is_power_of_two() && u64::from(shards) <= SHARDS_MAX {
                Ok(shards)
            } else {
                Err(wrong())
            }
        };
        let (bucket, hashed) = match text.split_once('+') {
            Some((bucket, hashed)) => (bucket, shards(hashed)?),
            None => (text, 1),
        };
        match bucket.parse() {
            Ok(width) => Ok(Self::Timed(width, hashed)),
            Err(_) if bucket == text => Ok(Self::Hashed(shards(text)?)),
            Err(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_read_as_it_is_written() {
        for (text, layout, live) in [
            ("1", RowLayout::Hashed(1), 1),
            ("16", RowLayout::Hashed(16), 16),
            ("hourly", RowLayout::Timed(TimeWidth::Hourly, 1), 1),
            ("daily", RowLayout::Timed(TimeWidth::Daily, 1), 1),
            ("daily+8", RowLayout::Timed(TimeWidth::Daily, 8), 8),
            (
                "10-minute+2",
                RowLayout::Timed(TimeWidth::minutes(10).unwrap(), 2),
                2,
            ),
        ] {
            assert_eq!(text.parse(), Ok(layout));
            assert_eq!(layout.to_string(), text);
            assert_eq!(layout.live_shards(), live);
        }
        for text in [
            "", "0", "3", "8192", "weekly", "daily+", "daily+3", "8+8", "-1",
        ] {
            assert!(text.parse::<RowLayout>().is_err(), "{text:?}");
        }
    }
}
