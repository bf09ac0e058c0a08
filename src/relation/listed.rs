//! Records listed by a collection of keys.

use super::audit::{RelationAudit, RelationFault, Repair};
use super::keys::{BATCH, element_of, key_of};
use super::side::{Edge, Side};
use super::together::{KnownEdit, OnExisting, make_together};
use super::writes::{delete, puts, replacing};
use crate::expression::Expression;
use crate::expressions::{blob_bin, eq, int_bin, string_bin};
use crate::record::Record;
use crate::{AtomicWrites, Bins, Key, RecordSet, RecordStore, Result, Value};

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
        let (element, existing) = (element_of(key), OnExisting::MakeOthers);
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
        let bin = self.owner_bin.as_deref()?;
        let named = match owner {
            Key::Integer(_) => int_bin(bin),
            Key::String(_) => string_bin(bin),
            Key::Blob(_) => blob_bin(bin),
        };
        Some(eq(named, element_of(owner)))
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
        let found = records.read_each(std::slice::from_ref(key), Some(&[bin]));
        let found = found.into_iter().next().transpose()?.flatten();
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

    /// Finds the keys of one list that have no record, and takes them off if asked to.
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
            for (key, record) in keys.iter().zip(records.read_each(&keys, Some(&[]))) {
                if record?.is_some() {
                    continue;
                }
                if repair == Repair::Yes {
                    let listed = self;
                    audit.repaired +=
                        u64::from(store.atomically(&Unlist { listed, owner, key })?);
                }
                audit.faults.push(RelationFault::Dangling {
                    from: owner.clone(),
                    to: key.clone().into_owned(),
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
        let other = self.listed.other_owner(&records, self.owner, self.key)?;
        let deleted = other.is_none() && delete(&records, self.key)?;
        self.listed.side.remove(store, self.owner, self.key)?;
        Ok(deleted)
    }
}

/// Takes a key off its list, if it has no record. Where others write meanwhile without transactions, the record may come
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
        let is_there = || {
            let found = records.read_each(std::slice::from_ref(self.key), Some(&[]));
            found
                .into_iter()
                .next()
                .unwrap_or(Ok(None))
                .map(|it| it.is_some())
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
