//! Records listed by a collection of keys.

use super::audit::{RelationAudit, RelationFault, Repair};
use super::keys::{BATCH, element_of, key_of, read_one};
use super::side::{Edge, Side};
use super::together::{Added, KnownEdit, OnExisting, make_together};
use super::writes::{delete_with, names, puts, replacing};
use crate::expression::Expression;
use crate::expressions::{bin_exists, not, or};
use crate::record::Record;
use crate::{AtomicWrites, Bins, Error, Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// Records of a set, and the collections that list their keys. A key is listed before its record is written, and taken off
/// the list after the record is deleted: what dies in between leaves a key without a record, never a record without its key.
#[derive(Clone, Debug)]
pub(super) struct ListedRecords {
    pub(super) side: Side,
    pub(super) set: Box<str>,
    /// Whether the store asks this relation before one of the records is deleted.
    pub(super) is_asked: bool,
    /// The bin in which a record names the record that lists it.
    pub(super) owner_bin: Option<Box<str>>,
}

impl ListedRecords {
    pub(super) fn put<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        key: &Key<'_>,
        bins: &Bins,
    ) -> Result<bool> {
        let (owners, records) = (store.records(&self.side.set)?, store.records(&self.set)?);
        let (element, existing) = (Added::Key(key), OnExisting::MakeOthers);
        let edits = [
            self.side
                .adding(&owners, owner, element, &Value::Nil, existing),
            KnownEdit::replace(&records, key, bins).if_there(self.is_of(owner)),
        ];
        let in_order = PutListed {
            listed: self,
            owner,
            key,
            bins,
        };
        make_together(store, edits, 0, &in_order)
    }

    /// The condition that a record names no other record as the one that lists it.
    pub(super) fn is_of(&self, owner: &Key<'_>) -> Option<Expression> {
        Some(names(self.owner_bin.as_deref()?, owner))
    }

    /// Returns the owner that a record names, if that is not this one.
    fn other_owner<R: RecordSet>(
        &self,
        records: &R,
        owner: &Key<'_>,
        key: &Key<'_>,
    ) -> Result<Option<Key<'static>>> {
        let Some(bin) = self.owner_bin.as_deref() else {
            return Ok(None);
        };
        let found = read_one(records, key, Some(&[bin]))?;
        let named = found.and_then(|found| found.get(bin)).map(key_of);
        Ok(named.transpose()?.filter(|named| named != owner))
    }

    /// Deletes a record and takes its key off the list of its owner. A record that names another owner by now stays.
    pub(super) fn remove<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        key: &Key<'_>,
    ) -> Result<bool> {
        let (owners, records) = (store.records(&self.side.set)?, store.records(&self.set)?);
        let edits = [
            KnownEdit::delete(&records, key, self.is_asked).if_there(self.is_of(owner)),
            self.side.removing(&owners, owner, element_of(key)),
        ];
        let in_order = RemoveListed {
            listed: self,
            owner,
            key,
        };
        make_together(store, edits, 0, &in_order)
    }

    /// Reads the records of keys in one batch, without missing ones.
    pub(super) fn read<S: RecordStore>(
        &self,
        store: &S,
        edges: Vec<Edge>,
    ) -> Result<Vec<(Key<'static>, Record)>> {
        let keys: Vec<Key<'_>> = edges.iter().map(|(key, _)| key.into()).collect();
        let found = store.records(&self.set)?.read_each(&keys, None);
        drop(keys);
        let there = edges.into_iter().zip(found);
        there
            .filter_map(|((key, _), record)| record.transpose().map(|record| Ok((key, record?))))
            .collect()
    }

    /// Whether a record, with its own bin of the owner, is there and belongs to this owner.
    fn is_listed_by(&self, record: Option<&Record>, owner: &Key<'_>) -> bool {
        record.is_some_and(|record| match self.owner_bin.as_deref() {
            // A record that names nobody was written past the relation, and loses nothing by being listed.
            Some(bin) => record
                .get(bin)
                .is_none_or(|named| named == element_of(owner)),
            None => true,
        })
    }

    /// Finds the keys of one list that have no record, or the record of another owner, and takes them off if asked to.
    pub(super) fn verify<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'static>,
        repair: Repair,
        audit: &mut RelationAudit,
    ) -> Result<()> {
        let records = store.records(&self.set)?;
        let (mut after, mut degree) = (None, 0);
        loop {
            let page = self.side.page_after(store, owner, after.as_ref(), BATCH)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            degree += page.len() as u64;
            let keys: Vec<Key<'_>> = page.iter().map(|(key, _)| key.into()).collect();
            let found = records.read_each(&keys, Some(self.owner_bin.as_deref().as_slice()));
            for (key, record) in keys.iter().zip(found) {
                let record = record?;
                if self.is_listed_by(record.as_ref(), owner) {
                    continue;
                }
                if repair == Repair::Yes {
                    let listed = self;
                    audit.repaired +=
                        u64::from(store.atomically(&Unlist { listed, owner, key })?);
                }
                let (from, to) = (owner.clone(), key.clone().into_owned());
                audit.faults.push(match record {
                    Some(_) => RelationFault::OfAnother {
                        parent: from,
                        key: to,
                    },
                    None => RelationFault::Dangling { from, to },
                });
            }
        }
        audit.records += 1;
        audit.edges += degree;
        audit.note_degree(owner, degree);
        Ok(())
    }
}

struct PutListed<'a> {
    listed: &'a ListedRecords,
    owner: &'a Key<'a>,
    key: &'a Key<'a>,
    bins: &'a Bins,
}

impl AtomicWrites for PutListed<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let listed = self.listed;
        let records = store.records(&listed.set)?;
        let former = listed.other_owner(&records, self.owner, self.key)?;
        let is_new = listed.side.add(store, self.owner, self.key, &Value::Nil)?;
        records.operate_on(&replacing(), self.key, &puts(self.bins))?;
        if let Some(former) = former {
            listed.side.remove(store, &former, self.key)?;
        }
        Ok(is_new)
    }
}

struct RemoveListed<'a> {
    listed: &'a ListedRecords,
    owner: &'a Key<'a>,
    key: &'a Key<'a>,
}

impl AtomicWrites for RemoveListed<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let records = store.records(&self.listed.set)?;
        let bin = self.listed.owner_bin.as_deref();
        // In the delete itself: a store without transactions may give the record to another owner just before.
        let own = bin.map(|bin| or([not(bin_exists(bin)), names(bin, self.owner)]));
        let deleted = delete_with(&records, &WritePolicy::default().filter(own), self.key)?;
        self.listed.side.remove(store, self.owner, self.key)?;
        Ok(deleted)
    }
}

/// Takes a key off its list, if it has no record of this owner. Where others write meanwhile without transactions, the record may come
/// just then: so it is looked at again, and listed again if need be.
struct Unlist<'a> {
    listed: &'a ListedRecords,
    owner: &'a Key<'a>,
    key: &'a Key<'a>,
}

impl AtomicWrites for Unlist<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let records = store.records(&self.listed.set)?;
        let bin = self.listed.owner_bin.as_deref();
        let is_there = || {
            let found = read_one(&records, self.key, Some(bin.as_slice()))?;
            Ok::<_, Error>(self.listed.is_listed_by(found.as_ref(), self.owner))
        };
        if is_there()? || !self.listed.side.remove(store, self.owner, self.key)? {
            return Ok(false);
        }
        if is_there()? {
            self.listed
                .side
                .add(store, self.owner, self.key, &Value::Nil)?;
            return Ok(false);
        }
        Ok(true)
    }
}
