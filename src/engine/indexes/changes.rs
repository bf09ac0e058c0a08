//! What a write changes in the indexes.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use spikelet_storage::{Change, Digest, EntryView, NewVersion, RecordLock, Truncate};

use super::super::core::{NamespaceCore, expired, key_of};
use super::index::{Index, split_entry};
use crate::error::RecordId;
use crate::expression::RecordFacts;
use crate::index::{EntryList, EntryRange, GUARDS, IndexRule};
use crate::record::{Key, Metadata, OwnedBins, RecordView, SHARD_OF, ShardRole, parse_with_role};
use crate::{Error, Result};

/// How many entries are looked at between two looks at the index.
const CLEANED_AT_ONCE: usize = 256;

/// The entries that a write has added to indexes, and the ones that it is to remove once its
/// version is published. Dropped, the added ones stay, without harm: a query looks at the record,
/// and removes entries that do not belong to it.
#[derive(Debug, Default)]
pub(in crate::engine) struct IndexChanges(
    // Most writes change one index at most, which takes no memory from the allocator.
    SmallVec<[IndexChange; 1]>,
);

#[derive(Debug)]
struct IndexChange {
    index: Arc<Index>,
    /// Entries that the version before has not, or all where that has expired.
    added: EntryList,
    /// Entries that the new version has not, or all where the version before has expired.
    removed: EntryList,
}

impl IndexChanges {
    /// Whether an entry is among the added ones of an index.
    fn adds(&self, index: &Arc<Index>, entry: &[u8]) -> bool {
        let mut of_index = self.0.iter();
        of_index.any(|change| Arc::ptr_eq(&change.index, index) && change.added.contains(entry))
    }

    /// Ends the change, while the record is still locked: the version was published, or nothing was
    /// changed.
    pub(in crate::engine) fn finish(self, is_published: bool) {
        for change in &self.0 {
            if is_published && !GUARDS.keep(IndexRule::AddedBefore) {
                change
                    .added
                    .iter()
                    .for_each(|entry| change.index.insert(entry));
            }
            let (superfluous, kept) = if is_published {
                (&change.removed, &change.added)
            } else {
                (&change.added, &change.removed)
            };
            // The version of an expired record may share an entry with the new one: that stays.
            superfluous
                .without(kept)
                .for_each(|entry| change.index.remove(entry));
        }
    }
}

/// Whether an entry of another record leaves its key to the caller, where the caller has that
/// record locked; else `None`.
pub(super) type OfMember<'m> = dyn Fn(&Digest, &[u8]) -> Option<Result<()>> + 'm;

fn not_unique(index: &Index, other: &Digest, key: Option<Key<'_>>) -> Error {
    let key = key.map_or_else(|| other.to_string(), |key| key.bare());
    Error::NotUnique {
        index: index.name().as_ref().into(),
        other: key.into(),
    }
}

/// A locked record, before and after a change: each version's stored form, and its bins.
struct ChangedRecord<'a> {
    lock: &'a RecordLock<'a>,
    old: Option<(EntryView<'a>, VersionBins<'a>)>,
    new: Option<(&'a NewVersion<'a>, VersionBins<'a>)>,
}

/// The bins of a version, and its role in a sharded collection.
#[derive(Clone, Copy)]
struct VersionBins<'a> {
    record: RecordView<'a>,
    role: ShardRole,
}

impl VersionBins<'_> {
    /// Whether the version may have entries in an index.
    fn is_in(&self, index: &Index) -> bool {
        self.role != ShardRole::Companion || index.is_of_parts()
    }

    /// Whether both versions are of one record of a user, or of one companion at one epoch.
    fn is_of_same(&self, other: &Self) -> bool {
        let name = |version: &Self| {
            version
                .record
                .find(SHARD_OF.as_bytes())
                .map(|bin| bin.bytes)
        };
        (self.role == ShardRole::Companion) == (other.role == ShardRole::Companion)
            && (self.role != ShardRole::Companion || name(self) == name(other))
    }
}

impl<'a> ChangedRecord<'a> {
    /// # Errors
    /// [`Error::Malformed`] for a new version with unreadable bins.
    fn of(lock: &'a RecordLock<'_>, change: &'a Change<'_>) -> Result<Self> {
        // The entries of a damaged record are left over, and removed by the query that meets them.
        let old = lock.entry().ok().flatten().and_then(|entry| {
            let (record, role) = parse_with_role(entry.payload());
            let record = record?;
            Some((entry, VersionBins { record, role }))
        });
        let new = match change {
            Change::Put(version) => {
                let (record, role) = parse_with_role(version.payload);
                let record = record.ok_or_else(|| RecordView::malformed(version.payload))?;
                Some((version, VersionBins { record, role }))
            }
            Change::Delete(_) => None,
        };
        Ok(Self { lock, old, new })
    }
}

impl NamespaceCore {
    /// Adds the entries of versions that are about to be published to the indexes. Their records
    /// are locked, each with its change.
    ///
    /// # Errors
    /// [`Error::NotUnique`], [`Error::IndexMemory`], a key that is too long: nothing was changed.
    pub(in crate::engine) fn change_indexes<'c, 'n: 'c, 'v: 'c>(
        &self,
        locked: impl Iterator<Item = (&'c RecordLock<'n>, Option<&'c Change<'v>>)> + Clone,
    ) -> Result<IndexChanges> {
        let mut changes = IndexChanges::default();
        // The list as it is with the records locked: the build of a later index meets them.
        let all = self.indexes.all();
        let member = |other: &Digest| {
            let mut members = locked.clone();
            members.find_map(|(lock, change)| (lock.digest() == other).then_some(change))
        };
        for (lock, change) in locked.clone() {
            let Some(change) = change else { continue };
            let changed = ChangedRecord::of(lock, change).and_then(|versions| {
                all.iter().try_for_each(|index| {
                    self.change_index(index, &versions, &member, &mut changes)
                })
            });
            if let Err(error) = changed {
                changes.finish(false);
                return Err(error);
            }
        }
        Ok(changes)
    }

    /// `member`: the change of another record that the caller has locked, `Some(None)` if it stays
    /// as it is.
    fn change_index<'c, 'v: 'c>(
        &self,
        index: &Arc<Index>,
        versions: &ChangedRecord<'_>,
        member: &dyn Fn(&Digest) -> Option<Option<&'c Change<'v>>>,
        changes: &mut IndexChanges,
    ) -> Result<()> {
        let old = versions.old.as_ref();
        let old = old.filter(|(entry, bins)| index.is_of(entry.set_id()) && bins.is_in(index));
        let new = versions.new.as_ref();
        let new = new.filter(|(version, bins)| index.is_of(version.set_id) && bins.is_in(index));
        if let Some((_, new)) = new.filter(|(_, new)| new.role == ShardRole::Root) {
            index.check_sharded(old.map(|(_, old)| old.record), new.record)?;
        }
        // An index that was filled since this record expired may have no entries of it, and another
        // record may have taken its key. No version is older than the time at which its writer
        // found the record expired.
        let is_over = old
            .zip(new)
            .is_some_and(|((entry, _), (version, _))| expired(entry, version.last_update_ms));
        if let (Some((_, old)), Some((_, new))) = (old, new)
            && !is_over
            && old.is_of_same(new)
            && index.reader.is_same(old.record, new.record)
        {
            return Ok(());
        }
        let (mut before, mut after) = (EntryList::default(), EntryList::default());
        if let Some((entry, VersionBins { record, role })) = old {
            before = EntryList::for_one();
            // A key without entries now, for being too long, has none to remove.
            let _ = if index.reader.is_plain() {
                index.plain_entry_of(*record, versions.lock.digest(), &mut before)
            } else {
                let set_name = self.set_name_for(index, entry.set_id());
                let facts = self.facts(entry, &set_name, 0);
                index.entries_of_role(*role, *record, &facts, &mut before)
            };
        }
        if let Some((version, VersionBins { record, role })) = new {
            after = EntryList::for_one();
            if index.reader.is_plain() {
                index.plain_entry_of(*record, versions.lock.digest(), &mut after)?;
            } else {
                let set_name = self.set_name_for(index, version.set_id);
                let facts = self.facts_of_version(versions.lock, version, &set_name);
                index.entries_of_role(*role, *record, &facts, &mut after)?;
            }
        }
        let (removed, added) = if is_over {
            (before, after)
        } else {
            EntryList::differences(before, after)
        };
        let of_member = |other: &Digest, entry: &[u8]| match member(other)? {
            Some(Change::Put(version)) if changes.adds(index, entry) => {
                let key = version.key.and_then(|key| Key::from_stored(key).ok());
                Some(Err(not_unique(index, other, key)))
            }
            _ => Some(Ok(())),
        };
        let inserted = if GUARDS.keep(IndexRule::AddedBefore) {
            added
                .iter()
                .try_for_each(|entry| self.insert_entry(index, entry, &of_member))
        } else {
            Ok(())
        };
        if !GUARDS.keep(IndexRule::RemovedAfter) {
            removed.iter().for_each(|entry| index.remove(entry));
        }
        // Also where an entry was refused: `finish` takes back the ones before it.
        if !(added.is_empty() && removed.is_empty()) {
            changes.0.push(IndexChange {
                index: Arc::clone(index),
                added,
                removed,
            });
        }
        inserted
    }

    /// What expressions see of a version that is not stored yet, as far as entries may depend on
    /// it.
    fn facts_of_version<'a>(
        &self,
        lock: &RecordLock<'_>,
        version: &NewVersion<'a>,
        set_name: &'a str,
    ) -> RecordFacts<'a> {
        RecordFacts {
            digest: *lock.digest(),
            set_name,
            key: version.key,
            metadata: Metadata {
                generation: version.generation,
                void_time: version.void_time,
                // As storage will, which has no version go back in time.
                last_update_ms: version.last_update_ms.max(lock.last_update_ms()),
            },
            now_ms: 0,
            stored_bytes: 0,
            in_memory: self.in_memory,
            owned: OwnedBins::NONE,
        }
    }

    /// Adds an entry that a record is about to have.
    pub(super) fn insert_entry(
        &self,
        index: &Index,
        entry: &[u8],
        of_member: &OfMember<'_>,
    ) -> Result<()> {
        self.indexes.check_memory(index)?;
        if index.definition.unique {
            index.insert_unique(entry, |other, known| {
                self.check_free(index, other, known, of_member)
            })?
        } else {
            index.insert(entry)
        }
        Ok(())
    }

    /// Refuses a key if the record of another entry has it. Where a writer has that record locked,
    /// so that it may get the key or lose it, the answer is that it is busy: two writers who waited
    /// for each other would wait for ever.
    fn check_free(
        &self,
        index: &Index,
        digest: &Digest,
        entry: &[u8],
        of_member: &OfMember<'_>,
    ) -> Result<()> {
        // Readers see no expired record.
        let is_live = |stored: &EntryView<'_>| !expired(stored, self.clock.now_ms());
        let has_entry = || self.is_entry(index, digest, entry, is_live);
        let taken = || Err(not_unique(index, digest, self.stored_key(digest)));
        if has_entry()? {
            return taken();
        }
        if let Some(is_free) = of_member(digest, entry) {
            return is_free;
        }
        let locked = self.storage.try_lock(digest)?;
        let _locked = locked.ok_or_else(|| self.key_busy(index, digest))?;
        // Again with the record locked: the writer before may have published in between.
        if has_entry()? { taken() } else { Ok(()) }
    }

    /// Returns the error of a unique key while another writer has its record locked. It names that
    /// record: by its digest, unless it stores its key.
    fn key_busy(&self, index: &Index, digest: &Digest) -> Error {
        let limit = self.storage.options().max_waiters.max(1);
        let named = self.storage.get(digest, |stored| {
            let set = self.storage.set_name(stored.set_id());
            Some((set.unwrap_or_default(), key_of(&stored)?))
        });
        let named = named.ok().flatten().flatten();
        let (set, key) =
            named.unwrap_or_else(|| (index.set_name().into(), digest.to_string().into()));
        Error::KeyBusy {
            waiting: 0,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            record: Some(Box::new(RecordId::new(&set, &key))),
        }
    }

    /// Whether a record that `counts` has an entry in an index.
    fn is_entry(
        &self,
        index: &Index,
        digest: &Digest,
        entry: &[u8],
        counts: impl Fn(&EntryView<'_>) -> bool,
    ) -> Result<bool> {
        let found = self.storage.get(digest, |stored| {
            if !counts(&stored) || !index.is_of(stored.set_id()) {
                return Ok(false);
            }
            self.with_entries_of(index, &stored, |_, _, entries| Ok(entries.contains(entry)))
        })?;
        found.unwrap_or(Ok(false))
    }

    /// Lends a stored record, and the entries that it has in an index, to `read`.
    pub(in crate::engine) fn with_entries_of<R>(
        &self,
        index: &Index,
        stored: &EntryView<'_>,
        read: impl FnOnce(RecordView<'_>, &RecordFacts<'_>, &EntryList) -> Result<R>,
    ) -> Result<R> {
        let set_name = self.set_name_for(index, stored.set_id());
        let facts = self.facts(stored, &set_name, 0);
        let record = RecordView::parse(stored.payload())?;
        let mut entries = EntryList::default();
        index.entries_of(record, &facts, &mut entries)?;
        read(record, &facts, &entries)
    }

    /// Removes the entries of records that a truncation has removed.
    pub(in crate::engine) fn clean_indexes(&self, what: Truncate) {
        if !self.indexes.any() {
            return;
        }
        let is_concerned = |index: &&Arc<Index>| match what {
            Truncate::Namespace => true,
            Truncate::Set(id) => index.is_of(id),
        };
        for index in self.indexes.all().iter().filter(is_concerned) {
            self.clean_index(index);
        }
    }

    /// Looks at every entry of an index, and removes the ones that their records do not have.
    fn clean_index(&self, index: &Index) {
        let mut range = EntryRange::with_prefix(&[]);
        let mut entries = EntryList::default();
        loop {
            entries.clear();
            index
                .entries
                .copy(&range, false, CLEANED_AT_ONCE, &mut entries);
            let Some(last) = entries.last() else {
                return;
            };
            // By the last entry, and not by a count: entries come and go meanwhile.
            range.start = Bound::Excluded(last.into());
            for entry in entries.iter() {
                let (_, digest) = split_entry(entry);
                if let Ok(false) = self.is_entry(index, &digest, entry, |_| true) {
                    self.clean_entry(index, entry);
                }
            }
        }
    }

    /// Estimates entries per record that has any, from a sample.
    #[cfg(feature = "server")]
    pub(in crate::engine) fn entries_per_record(&self, index: &Index) -> f64 {
        let mut sample = EntryList::default();
        let all = EntryRange::with_prefix(&[]);
        index
            .entries
            .copy(&all, false, CLEANED_AT_ONCE, &mut sample);
        let (mut parts, mut counted) = (0.0, 0.0);
        for entry in sample.iter() {
            let (_, digest) = split_entry(entry);
            let of_record = self.storage.get(&digest, |stored| {
                self.with_entries_of(index, &stored, |_, _, entries| Ok(entries.len()))
            });
            if let Ok(Some(Ok(entries @ 1..))) = of_record {
                parts += 1.0 / entries as f64;
                counted += 1.0;
            }
        }
        if counted > 0.0 { counted / parts } else { 0.0 }
    }

    /// Removes an entry that its record does not have, if that is still so once the record is
    /// locked. A record that is busy is left for later.
    pub(in crate::engine) fn clean_entry(&self, index: &Index, entry: &[u8]) {
        let (_, digest) = split_entry(entry);
        if !GUARDS.keep(IndexRule::CleanedUnderLock) {
            index.remove(entry);
            return;
        }
        let Ok(Some(_locked)) = self.storage.try_lock(&digest) else {
            return;
        };
        if let Ok(false) = self.is_entry(index, &digest, entry, |_| true) {
            index.remove(entry);
            index.counters.cleaned.fetch_add(1, Ordering::Relaxed);
        }
    }
}
