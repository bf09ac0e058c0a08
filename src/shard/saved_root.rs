//! What a backup needs to know of the root of sharded collections.

use super::description::{Description, Form};
use super::scheme::{DESCRIPTION_BINS, Scheme};
use crate::Key;
use crate::record::companion_key::{KeyForm, companion_key};
use crate::record::{BinName, CompanionName, RecordView};

/// The collections of a root. While they are equal at two times, no transition of a collection that
/// is sharded by hash has begun or ended between these, nor put its content back into the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedRoot {
    description: Description,
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
        let own = bins.filter(|bin| root.bin(bin.as_str()).is_some());
        Some(Self {
            own: own.collect(),
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
        self.description.entries().iter().flat_map(move |entry| {
            let (shards, is_merging) = match entry.form {
                Form::Hash(scheme) => match scheme {
                    Scheme::Unsharded => (0, false),
                    Scheme::Activating { shards }
                    | Scheme::Active { shards }
                    | Scheme::Deleting { shards } => (shards, false),
                    Scheme::Splitting { from } => (from * 2, false),
                    Scheme::Merging { from } => (from, true),
                    Scheme::Deactivating => (1, false),
                },
                Form::Other(_) => (0, false),
            };
            let keys = self.description.keys(entry.bin);
            (0..shards).map(move |at| {
                let shard = if is_merging { shards - 1 - at } else { at };
                companion_key(root, entry.bin, keys, shard)
            })
        })
    }
}

/// Returns the keys, one of which a companion of this name has; none for a part of a collection
/// that is sharded by time.
pub(crate) fn keys_of(name: &CompanionName<'_>) -> Vec<Key<'static>> {
    let by_bin = name.bin.is_some();
    // Plain keys have no name of a bin.
    let (Ok(bin), None, 1..) = (
        BinName::new(name.bin.unwrap_or("b")),
        name.begin,
        name.shards,
    ) else {
        return Vec::new();
    };
    let beside = if by_bin {
        KeyForm::ByBin
    } else {
        KeyForm::Plain
    };
    [beside, beside.apart(0)]
        .map(|keys| companion_key(&name.root, bin, keys, name.shard))
        .into()
}
