//! Records listed by a collection of keys.

use super::audit::{Auditor, RelationFault};
use super::keys::{REMOVED, element_of, is_removed, key_of, read_one};
use super::side::{OwnedEdges, RelationSide, SideEdge};
use super::together::{Added, KnownEdit, OnExisting, make_together};
use super::within::{Within, within};
use super::writes::{delete_member, names, puts, replacing};
use crate::expression::Expression;
use crate::expressions::{bin_exists, not, or};
use crate::record::Record;
use crate::{Bins, Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// Records of a set, and the collections that list their keys. A key is listed before its record is
/// written, and taken off the list after the record is deleted: what dies in between leaves a key
/// without a record. A record without its key is left where another caller writes it just then.
#[derive(Clone, Debug)]
pub(super) struct ListedRecords {
    pub(super) side: RelationSide,
    pub(super) set: Box<str>,
    /// Whether the store asks this relation before one of the records is deleted.
    pub(super) is_asked: bool,
    /// The bin in which a record names the record that lists it.
    pub(super) owner_bin: Option<Box<str>>,
}

impl ListedRecords {
    /// The condition that a record names no other record as the one that lists it.
    pub(super) fn is_of(&self, owner: &Key<'_>) -> Option<Expression> {
        Some(names(self.owner_bin.as_deref()?, owner))
    }

    /// The bins of a record by which [`ListedRecords::is_listed_by`] decides.
    fn deciding_bins(&self) -> Vec<&str> {
        let bin = self.owner_bin.as_deref();
        bin.into_iter().chain([REMOVED]).collect()
    }

    /// Whether a record belongs to this owner.
    pub(super) fn is_listed_by(&self, record: &Record, owner: &Key<'_>) -> bool {
        let bin = self.owner_bin.as_deref();
        match bin.and_then(|bin| record.get(bin)) {
            Some(named) => named == element_of(owner),
            // It was written past the relation, and loses nothing by being listed; or it is being
            // deleted.
            None => !is_removed(record),
        }
    }
}

impl<S: RecordStore> Within<'_, ListedRecords, S> {
    fn list<'o>(&'o self, owner: &'o Key<'o>) -> OwnedEdges<'o, S> {
        self.side.at(self.store, owner)
    }

    pub(super) fn put(&self, owner: &Key<'_>, key: &Key<'_>, bins: &Bins) -> Result<bool> {
        let (owners, records) = (
            self.store.records(&self.side.set)?,
            self.store.records(&self.set)?,
        );
        let (element, existing) = (Added::Key(key), OnExisting::MakeOthers);
        let edits = [
            self.side
                .adding(&owners, owner, element, &Value::Nil, existing),
            KnownEdit::replace(&records, key, bins).if_there(self.is_of(owner)),
        ];
        make_together(self.store, edits, 0, |store| {
            within(self.part, store).put_in_order(owner, key, bins)
        })
    }

    /// Returns the owner that a record names, if that is not this one.
    pub(super) fn other_owner(
        &self,
        owner: &Key<'_>,
        key: &Key<'_>,
    ) -> Result<Option<Key<'static>>> {
        let Some(bin) = self.owner_bin.as_deref() else {
            return Ok(None);
        };
        let found = read_one(&self.store.records(&self.set)?, key, Some(&[bin]))?;
        let named = found.and_then(|found| found.get(bin)).map(key_of);
        Ok(named.transpose()?.filter(|named| named != owner))
    }

    /// Deletes a record and takes its key off the list of its owner. A record that names another
    /// owner by now stays.
    pub(super) fn remove(&self, owner: &Key<'_>, key: &Key<'_>) -> Result<bool> {
        let (owners, records) = (
            self.store.records(&self.side.set)?,
            self.store.records(&self.set)?,
        );
        let edits = [
            KnownEdit::delete(&records, key, self.is_asked).if_there(self.is_of(owner)),
            self.side.removing(&owners, owner, element_of(key)),
        ];
        make_together(self.store, edits, 0, |store| {
            within(self.part, store).remove_in_order(owner, key)
        })
    }

    /// Reads the records of keys that this owner lists, in one batch, without missing ones and ones
    /// that name another owner.
    pub(super) fn read(
        &self,
        owner: &Key<'_>,
        edges: Vec<SideEdge>,
    ) -> Result<Vec<(Key<'static>, Record)>> {
        let keys: Vec<Key<'_>> = edges.iter().map(|(key, _)| key.into()).collect();
        let found = self.store.records(&self.set)?.read_each(&keys, None);
        drop(keys);
        let mut there = Vec::with_capacity(edges.len());
        for ((key, _), record) in edges.into_iter().zip(found) {
            if let Some(record) = record?.filter(|record| self.is_listed_by(record, owner)) {
                there.push((key, record));
            }
        }
        Ok(there)
    }

    /// Lists a record again that another caller has taken off the list since it was listed.
    pub(super) fn list_again(&self, owner: &Key<'_>, key: &Key<'_>) -> Result<()> {
        if self.store.is_transaction() || self.list(owner).get(key)?.is_some() {
            return Ok(());
        }
        self.list(owner).add(key, &Value::Nil)?;
        self.follow_record(owner, key, true).map(drop)
    }

    /// Makes a list agree with a record of this key, which others may write or remove meanwhile.
    /// `is_listed`: whether the list has the key now. Returns whether it has it afterwards.
    pub(super) fn follow_record(
        &self,
        owner: &Key<'_>,
        key: &Key<'_>,
        mut is_listed: bool,
    ) -> Result<bool> {
        let (records, bins) = (self.store.records(&self.set)?, self.deciding_bins());
        loop {
            let found = read_one(&records, key, Some(&bins))?;
            let is_there = found.is_some_and(|record| self.is_listed_by(&record, owner));
            match (is_there, is_listed) {
                (true, false) => self.list(owner).add(key, &Value::Nil)?,
                (false, true) => self.list(owner).remove(key)?,
                _ => return Ok(is_listed),
            };
            is_listed = is_there;
        }
    }

    /// Finds the keys of one list that have no record, or the record of another owner, and takes
    /// them off if asked to.
    pub(super) fn verify(&self, owner: &Key<'static>, auditor: &mut Auditor<'_>) -> Result<()> {
        if auditor.is_stopped {
            return Ok(());
        }
        let records = self.store.records(&self.set)?;
        let degree = self.list(owner).each_page(|page| {
            let keys: Vec<Key<'static>> = page.into_iter().map(|(key, _)| key).collect();
            let found = records.read_each(&keys, Some(&self.deciding_bins()));
            for (key, record) in keys.iter().zip(found) {
                let (from, to) = (owner.clone(), key.clone());
                let fault = match record? {
                    Some(record) if self.is_listed_by(&record, owner) => continue,
                    Some(_) if self.owner_bin.is_some() => RelationFault::OfAnother {
                        parent: from,
                        key: to,
                    },
                    _ => RelationFault::Dangling { from, to },
                };
                auditor.note_fault(fault, |_| {
                    (self.store).atomically(|store| within(self.part, store).unlist(owner, key))
                })?;
            }
            Ok(())
        })?;
        auditor.note_record(owner, degree);
        Ok(())
    }

    /// Finds out whether the owner of a record lists it, and lists it if asked to.
    pub(super) fn verify_record(
        &self,
        owner: &Key<'_>,
        key: Key<'static>,
        auditor: &mut Auditor<'_>,
    ) -> Result<()> {
        auditor.note_record(&key, 0);
        if self.list(owner).get(&key)?.is_some() {
            return Ok(());
        }
        let fault = RelationFault::Orphan { key: key.clone() };
        // It may have gone since it was found.
        auditor.note_fault(fault, |_| {
            self.list(owner).add(&key, &Value::Nil)?;
            self.follow_record(owner, &key, true)
        })
    }

    /// [`ListedRecords::put`] step by step.
    fn put_in_order(&self, owner: &Key<'_>, key: &Key<'_>, bins: &Bins) -> Result<bool> {
        let records = self.store.records(&self.set)?;
        // Before the record names the new owner: after that nothing leads to the old list.
        let former = self.other_owner(owner, key)?;
        let is_new = self.list(owner).add(key, &Value::Nil)?;
        records.operate_on(&replacing(), key, &puts(bins))?;
        // A delete of the old record may have taken the key off the list since it was added.
        self.list_again(owner, key)?;
        if let Some(former) = &former {
            self.unlist(former, key)?;
        }
        Ok(is_new)
    }

    /// [`ListedRecords::remove`] step by step.
    fn remove_in_order(&self, owner: &Key<'_>, key: &Key<'_>) -> Result<bool> {
        let records = self.store.records(&self.set)?;
        let (mut policy, bin) = (WritePolicy::default(), self.owner_bin.as_deref());
        if let Some(bin) = bin {
            policy = policy.filter(or([not(bin_exists(bin)), names(bin, owner)]));
        }
        let deleted = delete_member(&records, &policy, key, bin)?;
        self.unlist(owner, key)?;
        Ok(deleted)
    }

    /// Takes a key off a list, unless it has a record there. Returns whether it was taken off.
    pub(super) fn unlist(&self, owner: &Key<'_>, key: &Key<'_>) -> Result<bool> {
        if !self.list(owner).remove(key)? {
            return Ok(false);
        }
        Ok(!self.follow_record(owner, key, false)?)
    }
}
