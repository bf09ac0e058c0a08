//! The role of one record: the root of sharded collections, or a companion. One look at its own
//! bins; the companions of a root are not read.

use super::description::{Description, Form};
use super::scheme::{DESCRIPTION_BINS, SHARD_OF, SUBKEYS};
use super::state::under_way;
use crate::Key;
use crate::record::{RecordView, companion_name};

/// The role of a record for sharded collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordInfo {
    /// No role: a record without shards.
    Plain,
    /// The root of these.
    Root(Vec<CollectionInfo>),
    /// A companion of this root.
    Companion {
        root: Key<'static>,
        /// The number of its shard.
        shard: u64,
    },
}

/// A sharded collection, as its root describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectionInfo {
    pub(crate) bin: String,
    /// Where it is, in words.
    pub(crate) scheme: String,
    /// How many companions hold it; `None` where the root alone does not say it.
    pub(crate) shards: Option<u64>,
    /// The number of its last transition.
    pub(crate) epoch: u64,
    pub(crate) in_transition: bool,
}

impl RecordInfo {
    /// Reads it from the bins of a record. A description that is not understood does not count.
    pub(crate) fn of(record: RecordView<'_>) -> Self {
        let value = |bin: &str| record.bin(bin).and_then(|value| value.to_value().ok());
        if record.bin(SHARD_OF).is_some() {
            return companion_name(record).map_or(Self::Plain, |name| Self::Companion {
                root: name.root.into_owned(),
                shard: name.shard,
            });
        }
        if record.bin(SUBKEYS).is_none() {
            return Self::Plain;
        }
        match Description::parse(&DESCRIPTION_BINS.map(value)) {
            Ok(description) => Self::Root(collections(&description)),
            Err(_) => Self::Plain,
        }
    }
}

fn collections(description: &Description) -> Vec<CollectionInfo> {
    let entries = description.entries().iter();
    entries
        .map(|entry| {
            let (scheme, in_transition) = entry.state_in_words();
            let shards = match entry.form {
                Form::Hash(scheme) => Some(under_way(scheme).0),
                Form::Other(_) => None,
            };
            CollectionInfo {
                bin: entry.bin.as_str().to_owned(),
                scheme,
                shards,
                epoch: entry.epoch.0,
                in_transition,
            }
        })
        .collect()
}
