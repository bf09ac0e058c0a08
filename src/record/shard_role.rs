//! The role of a stored record in sharded collections, by its bins (`docs/format.md` has the
//! forms). `shard` writes them, and the write path protects them.

use std::fmt;

use spikelet_storage::Digest;

use super::companion_key::{KeyForm, companion_key};
use super::{Key, KeyHash, RecordView};
use crate::value::ValueRef;

/// Root: where its sharded collections are.
pub(crate) const SUBKEYS: &str = "subkeys";
/// Root: the number of the last transition. It stays when the collection is consolidated or
/// deleted.
pub(crate) const SUBKEYS_EPOCH: &str = "subkeys_epoch";
/// Root: the bin of the collection that has companions with plain keys.
pub(crate) const SUBKEYS_BIN: &str = "subkeys_bin";
/// Root: the last transition of each of several collections.
pub(crate) const SUBKEYS_EPOCHS: &str = "subkeys_epochs";
/// Companion: its root, number and epoch.
pub(crate) const SHARD_OF: &str = "shard_of";

/// The bins by which a root describes its shards, in the order in which `shard::Description` takes
/// them.
pub(crate) const DESCRIPTION_BINS: [&str; 4] =
    [SUBKEYS, SUBKEYS_EPOCH, SUBKEYS_BIN, SUBKEYS_EPOCHS];

/// Whether a bin of this name describes the shards of a root.
pub(crate) fn describes_shards(name: &[u8]) -> bool {
    DESCRIPTION_BINS.iter().any(|bin| bin.as_bytes() == name)
}

/// A change of shards that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardTransition {
    /// From one record to companions.
    Activating,
    /// To twice as many companions.
    Splitting,
    /// To half as many companions.
    Merging,
    /// From one companion back to one record.
    Deactivating,
    /// To nothing.
    Deleting,
}

impl fmt::Display for ShardTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Activating => "activating",
            Self::Splitting => "splitting",
            Self::Merging => "merging",
            Self::Deactivating => "deactivating",
            Self::Deleting => "deleting",
        })
    }
}

/// The role of a record in sharded collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardRole {
    /// Nothing: the usual case.
    None,
    /// The record that users address; its collection is in companions, or on its way.
    Root,
    /// A record that holds a shard.
    Companion,
}

impl ShardRole {
    /// The role of a record with this body. One look at the names of its bins: O(bins).
    #[inline]
    pub(crate) fn of(body: &[u8]) -> Self {
        let mut role = Self::None;
        for name in RecordView::of_checked(body).names() {
            role = role.with(name);
        }
        role
    }

    /// The role of a record that has a bin of this name, too.
    #[inline]
    fn with(self, name: &[u8]) -> Self {
        // Most names have another length.
        match name.len() {
            7 if self == Self::None && name == SUBKEYS.as_bytes() => Self::Root,
            8 if name == SHARD_OF.as_bytes() => Self::Companion,
            _ => self,
        }
    }
}

/// Looks at the bins of a stored record once: where each begins and ends, and its role. Values are
/// not checked: the record was when it was written, and its checksum holds. The bins before the
/// damage give the role of a malformed record; [`RecordView::malformed`] names the damage.
#[inline]
pub(crate) fn parse_with_role(body: &[u8]) -> (Option<RecordView<'_>>, ShardRole) {
    let mut role = ShardRole::None;
    let view = RecordView::framed(body, |bin| role = role.with(bin.name));
    (view.ok(), role)
}

/// Whether a record with the body `new` describes its shards as the one with the body `old` does.
/// O(bins).
pub(crate) fn keeps_description(old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (RecordView::of_checked(old), RecordView::of_checked(new));
    old.raw_bins()
        .filter(|bin| describes_shards(bin.name))
        .all(|old| new.raw_bins().any(|new| new.bytes == old.bytes))
}

/// Returns whether `new` has another value than `old` in a bin that `old` describes as sharded: a
/// value that would not be of the collection. Nor may a value be removed there while a transition
/// moves it. O(bins).
pub(crate) fn changes_sharded_bin(old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (RecordView::of_checked(old), RecordView::of_checked(new));
    sharded_bins(old).into_iter().any(|(bin, form)| {
        let (before, after) = (old.particle(bin), new.particle(bin));
        before != after && (after.is_some() || is_in_transition(form))
    })
}

/// Whether a record describes the collection in this bin as sharded, or on its way there or back.
/// O(bins).
pub(crate) fn describes_collection(view: RecordView<'_>, bin: &str) -> bool {
    sharded_bins(view).iter().any(|(name, _)| *name == bin)
}

/// The companions of a collection that is sharded by hash, as its root describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashShards {
    /// The number of companions at most, new ones of a transition included.
    pub(crate) companions: u64,
    pub(crate) keys: KeyForm,
    pub(crate) is_being_deleted: bool,
}

impl HashShards {
    /// Returns the digests of the companions of the collection in this bin.
    pub(crate) fn digests<'a>(
        self,
        hash: KeyHash,
        (set, root): (&'a str, &'a Key<'_>),
        bin: &'a str,
    ) -> impl Iterator<Item = Digest> + 'a {
        let key = move |shard| companion_key(root, bin, self.keys, shard);
        (0..self.companions).map(move |shard| hash.digest(set, &key(shard)))
    }
}

/// The collections that a record describes as sharded: the name of each one's bin, and its form.
/// O(bins).
pub(crate) fn sharded_bins<'a>(view: RecordView<'a>) -> Vec<(&'a str, ValueRef<'a>)> {
    match view.bin(SUBKEYS) {
        Some(ValueRef::Map(forms)) => forms
            .iter()
            .filter_map(|entry| entry.ok())
            .filter_map(|(bin, form)| Some((bin.as_str()?, form)))
            .collect(),
        Some(form) => {
            let bin = view.bin(SUBKEYS_BIN).and_then(|bin| bin.as_str());
            bin.map(|bin| (bin, form)).into_iter().collect()
        }
        None => Vec::new(),
    }
}

/// Returns whether a form is that of shards by hash, and not by time.
pub(crate) fn is_by_hash(form: ValueRef<'_>) -> bool {
    let word = form.as_list().and_then(|form| form.iter().next());
    matches!(word, Some(Ok(ValueRef::String("hash-shards"))))
}

/// The companions of the collection in a bin; `None` if a record does not describe it as sharded by
/// hash.
pub(crate) fn hash_shards(view: RecordView<'_>, bin: &str) -> Option<HashShards> {
    let sharded = sharded_bins(view).into_iter();
    let (_, form) = sharded
        .filter(|(_, form)| is_by_hash(*form))
        .find(|(name, _)| *name == bin)?;
    let plain = view.bin(SUBKEYS_BIN).and_then(|bin| bin.as_str());
    let mut shards = HashShards {
        companions: 0,
        keys: if plain == Some(bin) {
            KeyForm::Plain
        } else {
            KeyForm::ByBin
        },
        is_being_deleted: false,
    };
    let mut items = form.as_list()?.iter().filter_map(|item| item.ok());
    while let Some(item) = items.next() {
        match item {
            ValueRef::String(APART) => {
                let from = u64::try_from(items.next()?.as_i64()?).ok()?;
                shards.keys = shards.keys.apart(from);
            }
            ValueRef::Int(count) => {
                shards.companions = shards.companions.max(count.unsigned_abs());
            }
            ValueRef::String("deleting") => shards.is_being_deleted = true,
            _ => {}
        }
    }
    Some(shards)
}

/// The description that a companion of a sharded collection has of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompanionName<'a> {
    /// The key of the root.
    pub root: Key<'a>,
    /// The number of shards at its epoch, of time shards in each bucket; 0 for a page of a directory
    /// of buckets.
    pub shards: i64,
    /// The number of the shard, from 0.
    pub shard: u64,
    /// The number of the transition that made it.
    pub epoch: u64,
    /// The beginning of its time in Unix seconds, where the collection is sharded by time.
    pub begin: Option<i64>,
    /// The bin, where the keys of the companions have its name.
    pub bin: Option<&'a str>,
}

impl CompanionName<'_> {
    /// Returns the keys, one of which the companion has if its collection is sharded by hash: the
    /// usual one, and the one apart from users' keys.
    pub(crate) fn keys(&self) -> [Key<'static>; 2] {
        let beside = match self.bin {
            Some(_) => KeyForm::ByBin,
            None => KeyForm::Plain,
        };
        let bin = self.bin.unwrap_or_default();
        [beside, beside.apart(0)].map(|keys| companion_key(&self.root, bin, keys, self.shard))
    }
}

/// Returns the description in a companion of a sharded collection; `None` for all other records.
#[must_use]
pub fn companion_name(view: RecordView<'_>) -> Option<CompanionName<'_>> {
    let mut items = view.bin(SHARD_OF)?.as_list()?.iter();
    let root = match items.next()?.ok()? {
        ValueRef::Int(key) => Key::Integer(key),
        ValueRef::String(key) => Key::from(key),
        ValueRef::Blob(key) => Key::from(key),
        _ => return None,
    };
    let mut number = || items.next()?.ok()?.as_i64();
    let (shards, shard, epoch) = (number()?, number()?, number()?);
    let mut name = CompanionName {
        root,
        shards,
        shard: u64::try_from(shard).ok()?,
        epoch: u64::try_from(epoch).ok()?,
        begin: None,
        bin: None,
    };
    for item in items {
        match item.ok()? {
            ValueRef::Int(begin) if (name.begin, name.bin) == (None, None) => {
                name.begin = Some(begin);
            }
            ValueRef::String(bin) if name.bin.is_none() => name.bin = Some(bin),
            _ => return None,
        }
    }
    Some(name)
}

/// Returns the name in a companion, and the digest of the root that it names; `None` for all other
/// records.
pub(crate) fn named_root<'a>(
    hash: KeyHash,
    set: &str,
    record: RecordView<'a>,
) -> Option<(CompanionName<'a>, Digest)> {
    let name = companion_name(record)?;
    let root = hash.digest(set, &name.root);
    Some((name, root))
}

/// The number of the last transition of what two versions of a record both are: roots, or the
/// record of one part of a collection; `None` if they are not, or one does not say. O(bins).
#[cfg(feature = "backup")]
pub(crate) fn transitions(one: RecordView<'_>, other: RecordView<'_>) -> Option<(u64, u64)> {
    let epoch = |root: RecordView<'_>| u64::try_from(root.bin(SUBKEYS_EPOCH)?.as_i64()?).ok();
    match (companion_name(one), companion_name(other)) {
        (None, None) => epoch(one).zip(epoch(other)),
        (Some(one), Some(other)) => {
            let part = |name: &CompanionName<'_>| (name.shard, name.begin);
            let is_same =
                part(&one) == part(&other) && (&one.root, one.bin) == (&other.root, other.bin);
            is_same.then_some((one.epoch, other.epoch))
        }
        _ => None,
    }
}

/// The word behind which a form says from which shard on the keys of companions stand apart.
pub(crate) const APART: &str = "apart";

/// Whether a form says more than a scheme and a number: a transition is under way.
fn is_in_transition(form: ValueRef<'_>) -> bool {
    form.as_list().is_none_or(|form| {
        let is_word = |item: &std::result::Result<ValueRef<'_>, _>| {
            !matches!(item, Ok(ValueRef::String(APART)))
        };
        form.iter().take_while(is_word).count() > 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Bins;
    use crate::value::{Map, Value};

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
    fn a_bin_is_changed_where_its_collection_is_sharded() {
        let of = |subkeys: Value, bins: &[(&str, i64)]| {
            let mut named = Bins::new();
            named.set("subkeys", subkeys).unwrap();
            named.set("subkeys_bin", "followers").unwrap();
            for (name, value) in bins {
                named.set(name, *value).unwrap();
            }
            let mut body = Vec::new();
            named.write_body(&mut body).unwrap();
            body
        };
        let list = || Value::from(vec![Value::from("hash-shards"), 2.into()]);
        let both =
            [("followers", list()), ("feed", list())].map(|(bin, form)| (Value::from(bin), form));
        let map = || Value::Map(Map::from(both.to_vec()));
        for (subkeys, name, is_changed) in [
            (list(), "followers", true),
            (list(), "feed", false),
            (map(), "followers", true),
            (map(), "feed", true),
            (map(), "name", false),
        ] {
            let (old, new) = (of(subkeys.clone(), &[]), of(subkeys, &[(name, 1)]));
            assert_eq!(changes_sharded_bin(&old, &new), is_changed, "{name}");
            // A foreign value may be removed.
            assert!(!changes_sharded_bin(&new, &old), "{name}");
            assert!(!changes_sharded_bin(&new, &new));
        }
        let moving = Value::from(vec![
            Value::from("hash-shards"),
            2.into(),
            "splitting".into(),
        ]);
        let (old, new) = (of(moving.clone(), &[("followers", 1)]), of(moving, &[]));
        assert!(changes_sharded_bin(&old, &new) && !changes_sharded_bin(&old, &old));
        assert!(!changes_sharded_bin(&body(&[("a", 1)]), &body(&[("a", 2)])));
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
