//! What a stored record is to a sharded collection, as its bins say. The forms are those of `docs/format.md`; `shard` makes
//! them, and the write path protects them.

use super::RecordView;
use super::view::RawBins;

/// Root: where its sharded collections are.
pub(crate) const SUBKEYS: &str = "subkeys";
/// Root: the number of the last transition. It stays when the collection is consolidated or deleted.
pub(crate) const SUBKEYS_EPOCH: &str = "subkeys_epoch";
/// Root: the bin of the collection whose companions bear plain keys.
pub(crate) const SUBKEYS_BIN: &str = "subkeys_bin";
/// Root: the last transition of each of several collections.
pub(crate) const SUBKEYS_EPOCHS: &str = "subkeys_epochs";
/// Root of time shards: first and last bucket.
pub(crate) const SUBKEYS_SPAN: &str = "subkeys_span";
/// Companion: whose it is.
pub(crate) const SHARD_OF: &str = "shard_of";

/// The bins by which a root describes its shards.
const DESCRIPTION: [&str; 5] = [
    SUBKEYS,
    SUBKEYS_EPOCH,
    SUBKEYS_BIN,
    SUBKEYS_EPOCHS,
    SUBKEYS_SPAN,
];

/// What a record is to a sharded collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardRole {
    /// Nothing: the usual case.
    None,
    /// The record that users address, whose collection is in companions, or on its way.
    Root,
    /// A record that holds a shard.
    Companion,
}

impl ShardRole {
    /// The role of a record with this body. One look at the names of its bins: O(bins).
    #[inline]
    pub(crate) fn of(body: &[u8]) -> Self {
        let mut role = Self::None;
        for bin in bins(body) {
            // Most names have another length.
            match bin.name.len() {
                7 if bin.name == SUBKEYS.as_bytes() => role = Self::Root,
                8 if bin.name == SHARD_OF.as_bytes() => return Self::Companion,
                _ => {}
            }
        }
        role
    }
}

/// Whether a record with the body `new` describes its shards as the one with the body `old` does. O(bins).
pub(crate) fn keeps_description(old: &[u8], new: &[u8]) -> bool {
    let describes = |name: &[u8]| DESCRIPTION.iter().any(|bin| bin.as_bytes() == name);
    bins(old)
        .filter(|bin| describes(bin.name))
        .all(|old| bins(new).any(|new| new.bytes == old.bytes))
}

/// The bins of a body; none of one that is malformed, which the write path finds out.
fn bins(body: &[u8]) -> RawBins<'_> {
    RecordView::unchecked(body)
        .unwrap_or(RecordView::EMPTY)
        .raw_bins()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Bins;

    fn body(bins: &[(&str, i64)]) -> Vec<u8> {
        let mut named = Bins::new();
        for (name, value) in bins {
            named.set(name, *value).unwrap();
        }
        let mut body = Vec::new();
        named.write_body(&mut body).unwrap();
        body
    }

    #[test]
    fn a_record_is_what_its_bins_say() {
        for (bins, role) in [
            (&[][..], ShardRole::None),
            (
                &[("name", 1), ("subkeyz", 1), ("shard_on", 1)],
                ShardRole::None,
            ),
            // A collection that was deleted leaves its epoch.
            (&[("subkeys_epoch", 1)], ShardRole::None),
            (&[("name", 1), ("subkeys", 1)], ShardRole::Root),
            (&[("shard_of", 1), ("followers", 1)], ShardRole::Companion),
            (&[("subkeys", 1), ("shard_of", 1)], ShardRole::Companion),
        ] {
            assert_eq!(ShardRole::of(&body(bins)), role, "{bins:?}");
        }
        assert_eq!(ShardRole::of(&[]), ShardRole::None);
        assert_eq!(ShardRole::of(&[9, 200, 1]), ShardRole::None);
    }

    #[test]
    fn a_description_is_kept_where_each_of_its_bins_is() {
        let old = body(&[("name", 1), ("subkeys", 2), ("subkeys_epoch", 3)]);
        for (new, kept) in [
            (&[("subkeys", 2), ("subkeys_epoch", 3)][..], true),
            (
                &[("name", 4), ("subkeys_epoch", 3), ("x", 0), ("subkeys", 2)],
                true,
            ),
            (&[("name", 1), ("subkeys", 2)], false),
            (&[("subkeys", 5), ("subkeys_epoch", 3)], false),
            (&[], false),
        ] {
            assert_eq!(keeps_description(&old, &body(new)), kept, "{new:?}");
        }
        assert!(keeps_description(&body(&[("name", 1)]), &body(&[])));
    }
}
