//! What a backup needs to know of the root of sharded collections.

use super::description::{Description, Form};
use super::scheme::{DESCRIPTION_BINS, Scheme};
use crate::Key;
use crate::record::companion_key::companion_key;
use crate::record::{BinName, HashShards, RecordView, hash_shards};

/// The collections of a root. While they are equal at two times, no transition of a collection that
/// is sharded by hash has begun or ended between these, nor put its content back into the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedRoot {
    description: Description,
    /// Those that are sharded by hash.
    hashed: Vec<(BinName, HashShards)>,
    /// Those bins of its collections that the root itself has.
    own: Vec<BinName>,
}

impl SavedRoot {
    /// Reads the bins of a root; `None` if it has a form that is not understood here.
    pub(crate) fn of(root: RecordView<'_>) -> Option<Self> {
        let values = DESCRIPTION_BINS.map(|bin| root.bin(bin)?.to_value().ok());
        let description = Description::parse(&values).ok()?;
        if description.has_unknown_forms() {
            return None;
        }
        let bins = description.entries().iter().map(|entry| entry.bin);
        let hashed = |bin: BinName| Some((bin, hash_shards(root, bin.as_str())?));
        Some(Self {
            hashed: bins.clone().filter_map(hashed).collect(),
            own: bins
                .filter(|bin| root.bin(bin.as_str()).is_some())
                .collect(),
            description,
        })
    }

    /// Whether a collection has companions by hash.
    pub(crate) fn have_companions(&self) -> bool {
        self.companions(&Key::from(0)).next().is_some()
    }

    /// Returns the keys of all companions that may be there, in an order in which each transition
    /// takes elements from companions still to come to those before at no time: a split from the
    /// first of a pair to the second, a merge the other way. Parts of a collection that is sharded
    /// by time are not among them.
    pub(crate) fn companions<'a>(
        &'a self,
        root: &'a Key<'a>,
    ) -> impl Iterator<Item = Key<'static>> + 'a {
        self.hashed.iter().flat_map(move |(bin, hashed)| {
            let form = self.description.of(*bin).map(|entry| &entry.form);
            let is_merging = matches!(form, Some(Form::Hash(Scheme::Merging { .. })));
            let shards = hashed.companions;
            (0..shards).map(move |at| {
                let shard = if is_merging { shards - 1 - at } else { at };
                companion_key(root, bin.as_str(), hashed.keys, shard)
            })
        })
    }
}
