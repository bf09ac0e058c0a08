//! The bins of a record that belong to relations: a replacing write keeps them, and a plain write
//! may not set or remove them. The engine knows which bins these are.

use super::body::{RawBin, checked_bin_count, write_varint};
use super::shard_role::{describes_shards, is_by_hash};
use super::{BinName, RecordView, ShardRole, sharded_bins};
use crate::value::{ParticleType, ValueRef};
use crate::{Error, Result};

/// The only bin of a record that is about to be deleted, where a restart of the store may bring it
/// back.
pub(crate) const REMOVED: &str = "~removed";

/// A bin in which a relation keeps edges, in each record of a set.
#[derive(Clone, Debug)]
pub(crate) struct OwnedBin {
    pub(crate) bin: BinName,
    /// The name of the relation.
    pub(crate) relation: Box<str>,
    /// The type of the collection of which each element is an edge; `None`: it names the record
    /// that this one belongs to.
    pub(crate) collection: Option<ParticleType>,
}

/// Who replaces a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacer {
    User,
    /// A relation's own handle: an owned bin that both versions have stays as in the new one.
    Relation,
    /// A wire client: one owned collection among the sharded ones keeps the description of all.
    Client,
}

/// The owned bins that a write has to respect. None in a set without relations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnedBins<'a> {
    bins: &'a [OwnedBin],
    /// Whether the writer may be a handle elsewhere: it moves whole collections between a record
    /// and its shards.
    may_move: bool,
}

impl<'a> OwnedBins<'a> {
    pub(crate) const NONE: Self = Self::new(&[]);

    pub(crate) const fn new(bins: &'a [OwnedBin]) -> Self {
        Self {
            bins,
            may_move: false,
        }
    }

    /// The same bins, for a writer that may be a handle elsewhere.
    pub(crate) const fn for_handles(self) -> Self {
        Self {
            may_move: true,
            ..self
        }
    }

    fn find(&self, name: &[u8]) -> Option<&'a OwnedBin> {
        self.bins.iter().find(|owned| owned.bin.as_bytes() == name)
    }

    /// Refuses to set or remove a whole bin that is owned. Edits of its elements are not asked.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    #[inline]
    pub(crate) fn check_set(&self, name: &BinName) -> Result<()> {
        self.check_sets(std::iter::once(name))
    }

    /// Refuses to make a collection of this type of a bin that is owned, and has another; `None`:
    /// to remove it.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_kind(&self, name: &BinName, kind: Option<ParticleType>) -> Result<()> {
        let owned = self.find(name.as_bytes());
        let is_other = |owned: &&OwnedBin| kind.is_none() || owned.collection != kind;
        owned.filter(is_other).map_or(Ok(()), refuse)
    }

    /// [`OwnedBins::check_set`] for a bin that is removed. Of a handle elsewhere the new version of
    /// the record is judged, by [`OwnedBins::check_kept`].
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_removed(&self, name: &BinName) -> Result<()> {
        if self.may_move {
            return Ok(());
        }
        self.check_set(name)
    }

    /// [`OwnedBins::check_set`] for several bins. One look where none is owned.
    #[inline]
    pub(crate) fn check_sets<'n>(
        &self,
        names: impl IntoIterator<Item = &'n BinName>,
    ) -> Result<()> {
        if self.bins.is_empty() {
            return Ok(());
        }
        let mut found = names
            .into_iter()
            .filter_map(|name| self.find(name.as_bytes()));
        found.next().map_or(Ok(()), refuse)
    }

    /// Refuses a new version of a record in which an owned bin of the old one is missing, or what
    /// describes its shards. A handle elsewhere may bring a sharded collection back into the
    /// record.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_kept(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let (old, new) = (RecordView::of_checked(old), RecordView::of_checked(new));
        let (was_sharded, is_sharded) = (sharded_bins(old), sharded_bins(new));
        let is_lost = |owned: &&OwnedBin| {
            let (bin, name) = (owned.bin.as_str(), owned.bin.as_bytes());
            let is_in = |sharded: &[(&str, _)]| sharded.iter().any(|(known, _)| *known == bin);
            let is_described = is_in(&is_sharded);
            let may_be_whole = self.may_move || !is_in(&was_sharded);
            let stays = is_described || may_be_whole && new.find(name).is_some();
            !stays && (old.find(name).is_some() || is_in(&was_sharded))
        };
        self.bins.iter().find(is_lost).map_or(Ok(()), refuse)
    }

    /// Refuses a new version of a record in which an edit of elements has changed a scalar bin, or
    /// made a collection of another type or one that is sharded by time.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_forms(&self, old: &[u8], new: &[u8]) -> Result<()> {
        let (old, new) = (RecordView::of_checked(old), RecordView::of_checked(new));
        let is_spoiled = |owned: &&OwnedBin| {
            let name = owned.bin.as_bytes();
            let (before, after) = (old.find(name), new.find(name));
            after.is_some_and(|after| match (owned.collection, before) {
                (Some(kind), before) => {
                    after.kind != kind && before.is_none_or(|before| before.kind != after.kind)
                }
                (None, before) => before.is_none_or(|before| before.bytes != after.bytes),
            })
        };
        let sharded = sharded_bins(new).into_iter();
        let mut by_time = sharded.filter(|(_, form)| !is_by_hash(*form));
        let is_by_time = by_time.find_map(|(bin, _)| self.find(bin.as_bytes()));
        let mut spoiled = self.bins.iter().filter(is_spoiled).chain(is_by_time);
        spoiled.next().map_or(Ok(()), refuse)
    }

    /// Refuses a new version of a record in which an owned bin differs from the one in the old.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_unchanged(&self, old: RecordView<'_>, new: &[u8]) -> Result<()> {
        let new = RecordView::of_checked(new);
        let is_changed = |owned: &&OwnedBin| {
            let name = owned.bin.as_bytes();
            let [before, after] = [old, new].map(|record| record.find(name));
            before.map(|bin| bin.bytes) != after.map(|bin| bin.bytes)
        };
        self.bins.iter().find(is_changed).map_or(Ok(()), refuse)
    }

    /// Returns the body `new` with the owned bins of `old` and the bins that describe its shards;
    /// `None` if there are none to be kept. Both are also lost if a root has sharded collections
    /// that are not owned: the caller refuses such a write, unless it is a wire client's, who knows
    /// nothing of shards. O(bytes).
    ///
    /// # Errors
    /// [`Error::Parameter`] for too many bins.
    pub(crate) fn keep(&self, old: &[u8], new: &[u8], by: Replacer) -> Result<Option<Vec<u8>>> {
        let (old, new) = (RecordView::of_checked(old), RecordView::of_checked(new));
        let is_removal = new.find(REMOVED.as_bytes()).is_some() && new.raw_bins().count() == 1;
        let new_wins = |owned: Option<&OwnedBin>, name: &[u8]| match by {
            Replacer::Relation => new.find(name).is_some(),
            // It may be a handle, which sets the references of its records, and takes them out of
            // one that it deletes.
            Replacer::Client => {
                owned.is_some_and(|owned| owned.collection.is_none())
                    && (is_removal || new.find(name).is_some())
            }
            Replacer::User => false,
        };
        let sharded = sharded_bins(old);
        let mut are_owned = sharded
            .iter()
            .map(|(bin, _)| self.find(bin.as_bytes()).is_some());
        let owns_shards = match by {
            Replacer::Client => sharded.is_empty() || are_owned.any(|is_owned| is_owned),
            _ => are_owned.all(|is_owned| is_owned),
        };
        let is_kept = |bin: &RawBin<'_>| {
            let owned = self.find(bin.name);
            (owned.is_some() || owns_shards && describes_shards(bin.name))
                && !new_wins(owned, bin.name)
        };
        let kept: Vec<RawBin<'_>> = old.raw_bins().filter(is_kept).collect();
        let is_owned = |bin: &RawBin<'_>| self.find(bin.name).is_some();
        // A root has the bin of a sharded collection no more, only its description.
        if kept.is_empty() || sharded.is_empty() && !kept.iter().any(is_owned) {
            return Ok(None);
        }
        // What describes the shards of a root belongs together, and stands for their bins.
        let describes = by == Replacer::User && owns_shards && !sharded.is_empty();
        let is_sharded = |name: &[u8]| sharded.iter().any(|(bin, _)| bin.as_bytes() == name);
        let is_other = |bin: &RawBin<'_>| {
            let is_described = describes && (describes_shards(bin.name) || is_sharded(bin.name));
            !is_described && !kept.iter().any(|kept| kept.name == bin.name)
        };
        let others: Vec<RawBin<'_>> = new.raw_bins().filter(is_other).collect();
        let mut body = Vec::with_capacity(old.as_bytes().len() + new.as_bytes().len());
        write_varint(&mut body, checked_bin_count(others.len() + kept.len())?);
        for bin in others.iter().chain(&kept) {
            body.extend_from_slice(bin.bytes);
        }
        Ok(Some(body))
    }

    /// Returns the relations with edges in the collections of a record, and how many; 0 for a
    /// sharded collection: its shards have the number. Empty for a record that holds a shard.
    pub(crate) fn edges(&self, body: &[u8]) -> Vec<(Box<str>, u64)> {
        if ShardRole::of(body) == ShardRole::Companion {
            return Vec::new();
        }
        let record = RecordView::of_checked(body);
        let sharded = sharded_bins(record);
        let count = |owned: &OwnedBin| {
            if sharded.iter().any(|(bin, _)| *bin == owned.bin.as_str()) {
                return Some(0);
            }
            let count = match record.bin(owned.bin.as_str())? {
                ValueRef::List(list) => list.len(),
                ValueRef::Map(map) => map.len(),
                _ => 0,
            };
            (count > 0).then_some(count as u64)
        };
        let collections = self.bins.iter().filter(|owned| owned.collection.is_some());
        collections
            .filter_map(|owned| Some((owned.relation.clone(), count(owned)?)))
            .collect()
    }
}

fn refuse(owned: &OwnedBin) -> Result<()> {
    Err(Error::OwnedBin {
        bin: owned.bin.as_str().into(),
        relation: owned.relation.clone(),
        record: None,
    })
}
