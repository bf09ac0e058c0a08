//! `Members`: the keys of all records of a set, kept with them.

use std::ops::ControlFlow;

use serde::Serialize;

use super::audit::{Auditor, RelationAudit, RelationProgress, Repair};
use super::bulk::{ListedRecord, in_batches};
use super::declared::{Declared, declared_relations, ensured};
use super::keys::keys_in;
use super::listed::ListedRecords;
use super::side::{OwnedEdges, RelationSide};
use super::within::{Within, within};
use super::writes::check_owned;
use crate::engine::declaration::{OnDelete, RelationDeclaration, RelationKind};
use crate::record::{Record, to_bins};
use crate::setters::setters;
use crate::shard::ShardPolicy;
use crate::{Bins, BulkProgress, Error, Key, RecordStore, Result};

/// The records of a set that are found without knowing their keys: an ordered collection lists the
/// keys, page by page, and is changed with the records.
///
/// Document: Riak, *Key/Value Modeling* (object discovery with sets). A scan of the set finds the
/// same records in no order; a secondary index ([`Set::query`](crate::Set::query)) finds them by
/// their content. `Members` is for records with an order by key and pages, and for part of a set:
/// there may be several lists.
///
/// | call | record operations, as long as the list is not sharded |
/// |---|---|
/// | [`put`](Self::put), [`remove`](Self::remove) | 2 writes |
/// | [`page`](Self::page), [`contains`](Self::contains), [`len`](Self::len) | 1 read |
/// | [`fetch`](Self::fetch) | 1 read and 1 batch |
///
/// On a [`Store`](crate::Store) both are written in one transaction. Elsewhere a key is listed
/// before its record is written, and taken off after the record was deleted. So a process that dies
/// in between leaves a key without a record, which [`Members::fetch`] passes over and
/// [`Members::verify`] removes; there is no record that is not listed, unless others wrote it.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::Members;
/// use spikelet::{Store, bins};
///
/// let store = Store::in_memory()?;
/// let users = Members::new(&store, "users", ("user_info_sets", "usernames", "members"));
/// users.put("coderoshi", bins! { "info" => "writes" })?;
/// users.put("macintux", bins! { "info" => "teaches" })?;
/// let all = users.fetch(None, 100)?;
/// assert_eq!(all.len(), 2);
/// assert_eq!(all[0].0, "coderoshi".into());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Members<S> {
    store: S,
    listed: ListedRecords,
    owner: Key<'static>,
    declared: Declared,
}

impl<S: RecordStore> Members<S> {
    /// Returns the members of a set. `list`: the set, the key and the bin of the collection of
    /// their keys. Reads and writes nothing.
    pub fn new<'k>(store: S, set: &str, list: (&str, impl Into<Key<'k>>, &str)) -> Self {
        Self {
            store,
            listed: ListedRecords {
                side: RelationSide::new(list.0, list.2),
                set: set.into(),
                is_asked: true,
                owner_bin: None,
            },
            owner: list.1.into().into_owned(),
            declared: Declared::default(),
        }
    }

    /// Returns the same members in another store, such as a transaction.
    pub fn within<T: RecordStore>(&self, store: T) -> Members<T> {
        Members {
            store,
            listed: self.listed.clone(),
            owner: self.owner.clone(),
            declared: self.declared.clone(),
        }
    }

    setters! { in
        /// Sets when the list is sharded. Without this call, [`ShardPolicy::default`] decides.
        shard_policy(policy: ShardPolicy) => listed.side.shard_policy = policy,
        /// Sets what becomes of the members when the record with their list is deleted:
        /// [`OnDelete::Restrict`], as long as no handle has declared another rule;
        /// [`OnDelete::Detach`] leaves them, [`OnDelete::Cascade`] deletes them. A member that is
        /// deleted, by any call, is taken off the list under any rule.
        on_delete(rule: OnDelete) => declared.rule = Some(rule),
    }

    /// Declares the relation in the store, as `members of SET in BIN of LISTSET KEY`, for
    /// [`declared_relations`](super::declared_relations) and `spikelet relations`, and for the
    /// rules of deletes. The first write of a handle does so by itself; this call also changes what
    /// was declared before. One read, and one write if it is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name; the errors of a write.
    pub fn declare(&self) -> Result<()> {
        self.declared.declare(&self.store, &self.declaration())
    }

    const fn listed(&self) -> Within<'_, ListedRecords, S> {
        within(&self.listed, &self.store)
    }

    /// The list of the members.
    const fn list(&self) -> OwnedEdges<'_, S> {
        self.listed.side.at(&self.store, &self.owner)
    }

    fn name(&self) -> String {
        let ListedRecords { side, set, .. } = &self.listed;
        format!(
            "members of {set} in {} of {} {}",
            side.bin, side.set, self.owner
        )
    }

    fn declaration(&self) -> RelationDeclaration {
        let ListedRecords { side, set, .. } = &self.listed;
        let sides = vec![side.declared("members", set)];
        let mut declaration = RelationDeclaration::new(&self.name(), RelationKind::Members, sides);
        declaration.set_owner(&self.owner);
        declaration
    }

    fn ensure_declared(&self) -> Result<()> {
        self.declared.ensure_as(&self.store, || self.declaration())
    }

    /// Writes a record in place of an earlier version, and lists its key. Returns whether the key
    /// is new. Two writes.
    ///
    /// # Errors
    /// [`Error::Relation`] around the refusals of a write.
    pub fn put<'k>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl TryInto<Bins, Error = Error>,
    ) -> Result<bool> {
        self.put_bins(&key.into(), &bins.try_into()?)
    }

    /// Writes a struct, its fields being the bins, as [`Members::put`].
    ///
    /// # Errors
    /// As for [`Members::put`], and [`Error::Serde`].
    pub fn put_as<'k, T: Serialize + ?Sized>(
        &self,
        key: impl Into<Key<'k>>,
        record: &T,
    ) -> Result<bool> {
        self.put_bins(&key.into(), &to_bins(record)?)
    }

    /// Writes many records, each in place of an earlier version, and lists their keys. A batch of
    /// up to 100,000 records, or 16 MiB of keys and values, is one group of writes: the list is
    /// written once a batch, and all its records are locked meanwhile. Where the list is sharded,
    /// each record is put by itself. `observe` is called after each batch, and may stop the call.
    /// Returns the final progress. A call with the same records goes on after a stop, an error or
    /// the end of the process.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::ops::ControlFlow;
    /// use spikelet::{bins, relation::Members};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let users = Members::new(&store, "users", ("lists", "users", "members"));
    /// let all = (0..1_000).map(|id| (id, bins! { "visits" => 0 }));
    /// let done = users.put_all(all, |_| ControlFlow::Continue(()))?;
    /// assert_eq!((done.taken, done.new, users.len()?), (1_000, 1_000, 1_000));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Members::put`]: earlier batches stay.
    pub fn put_all<'k, K: Into<Key<'k>>, B: TryInto<Bins, Error = Error>>(
        &self,
        records: impl IntoIterator<Item = (K, B)>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        let records = records.into_iter().map(|(key, bins)| {
            Ok(ListedRecord {
                owner: Key::from(&self.owner).into_owned(),
                key: key.into(),
                bins: bins.try_into()?,
            })
        });
        let write = |batch: &[ListedRecord<'k>]| {
            let write = || {
                batch
                    .iter()
                    .try_for_each(|member| self.check_bins(&member.bins))?;
                self.named(self.listed().put_all(batch))
            };
            ensured(|| self.ensure_declared(), write)
        };
        in_batches(records, write, observe)
    }

    fn put_bins(&self, key: &Key<'_>, bins: &Bins) -> Result<bool> {
        let write = || {
            self.check_bins(bins)?;
            self.named(self.listed().put(&self.owner, key, bins))
        };
        ensured(|| self.ensure_declared(), write)
    }

    /// Refuses bins of a member that belong to another relation.
    fn check_bins(&self, bins: &Bins) -> Result<()> {
        let place = (&*self.name(), &*self.listed.set);
        self.named(check_owned(&self.store, place, bins))
    }

    /// Deletes a record and takes its key off the list. Returns whether there was a record. Two
    /// writes.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn remove<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        self.ensure_declared()?;
        let removed = self.listed().remove(&self.owner, &key.into());
        self.named(removed)
    }

    /// Returns whether a key is listed. One read.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn contains<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        Ok(self.named(self.list().get(&key.into()))?.is_some())
    }

    /// Returns how many keys are listed. One read.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn len(&self) -> Result<u64> {
        self.named(self.list().len())
    }

    /// Returns whether no key is listed. One read.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the first `limit` keys that are greater than `after` (`None`: the first of all). One
    /// read.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn page(&self, after: Option<&Key<'_>>, limit: u64) -> Result<Vec<Key<'static>>> {
        let page = self.named(self.list().page_after(after, limit))?;
        Ok(page.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the records of the first `limit` keys that are greater than `after`, without keys
    /// that have no record. One read and one batch.
    ///
    /// # Errors
    /// As for [`Members::put`].
    pub fn fetch(
        &self,
        after: Option<&Key<'_>>,
        limit: u64,
    ) -> Result<Vec<(Key<'static>, Record)>> {
        let page = self.named(self.list().page_after(after, limit))?;
        self.named(self.listed().read(&self.owner, page))
    }

    /// Finds keys without a record and, by a scan, records without a key; takes the former off the
    /// list and lists the latter, if asked to. A record that another declared list of the set has
    /// is not missing here. `observe` is called after each record of the scan, and may stop it. One
    /// read and one batch for 512 keys, a scan, and one read a record of the set, and one more for
    /// each other list.
    ///
    /// # Errors
    /// As for [`Members::put`]; [`Error::Parameter`] for a record without a stored key.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        let (listed, owner) = (&self.listed, &self.owner);
        Auditor::run(repair, &mut observe, |auditor| {
            self.named(auditor.sweep(&self.store, &listed.set))?;
            self.named(self.listed().verify(owner, auditor))?;
            let lists = self.named(self.lists_of_set())?;
            let is_list = |record: &Record| {
                let is_it = |(side, owner): &(RelationSide, Key<'static>)| {
                    side.set == listed.set && record.key().is_some_and(|key| key == *owner)
                };
                lists.iter().any(is_it)
            };
            let keys = || self.named(keys_in(&self.store, &listed.set, |it| !is_list(it)));
            auditor.each(keys, false, |auditor, key| {
                for (side, owner) in lists.iter().skip(1) {
                    if self.named(side.at(&self.store, owner).get(&key))?.is_some() {
                        return Ok(());
                    }
                }
                self.named(self.listed().verify_record(owner, key, auditor))
            })
        })
    }

    /// This list, and the others of the set that are declared.
    fn lists_of_set(&self) -> Result<Vec<(RelationSide, Key<'static>)>> {
        let mut lists = vec![(self.listed.side.clone(), self.owner.clone())];
        for other in declared_relations(&self.store)? {
            let side = other.sides.first();
            let side = side.filter(|side| side.to.as_deref() == Some(&*self.listed.set));
            if let (RelationKind::Members, Some(side), Some(owner)) =
                (other.kind, side.and_then(RelationSide::of), other.owner())
                && *other.name != *self.name()
            {
                lists.push((side, owner));
            }
        }
        Ok(lists)
    }

    fn named<T>(&self, result: Result<T>) -> Result<T> {
        let relation = || format!("members of {}", self.listed.set);
        result.map_err(|error| error.in_relation(&relation(), &self.listed.side))
    }
}
