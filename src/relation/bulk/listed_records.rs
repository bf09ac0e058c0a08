//! Many listed records as groups of writes.

use std::collections::HashSet;

use super::super::keys::element_of;
use super::super::listed::ListedRecords;
use super::super::together::{Added, KnownEdit, count};
use super::{ATTEMPTS_MAX, ListedRecord, in_groups};
use crate::shard::check_bin;
use crate::{Error, Key, RecordStore, Result};

/// The outcome of a group of listed records.
enum GroupPut<'g> {
    /// How many keys are new.
    Written(u64),
    /// Nothing was written: these records, or the lists of their owners, have refused it.
    Refused(Vec<&'g Key<'g>>),
}

impl ListedRecords {
    /// Writes records in place of earlier versions, and lists their keys, as one group, or as several where one would be too
    /// large. Returns how many keys are new. Where the store has no groups, each record is put by itself; so are records that
    /// refuse their group, those of a list that does, and those of a relation with owners that are there twice.
    pub(in crate::relation) fn put_all<S: RecordStore>(
        &self,
        store: &S,
        batch: &[ListedRecord<'_>],
    ) -> Result<u64> {
        let alone =
            |record: &ListedRecord<'_>| self.put(store, &record.owner, &record.key, &record.bins);
        let write = |records: &[ListedRecord<'_>]| self.write_part(store, records, alone);
        in_groups(batch, write, alone)
    }

    /// Writes records as one group, and those that cannot be in it by `alone`. `None`: the group is too large.
    fn write_part<'k, S: RecordStore>(
        &self,
        store: &S,
        records: &[ListedRecord<'k>],
        alone: impl Fn(&ListedRecord<'k>) -> Result<bool>,
    ) -> Result<Option<u64>> {
        // All versions of a key are in the group or none, so that the last one stays the last.
        let mut apart: HashSet<&Key<'_>> = self.named_twice(records);
        let mut new = None;
        for _ in 0..ATTEMPTS_MAX {
            let group = records.iter().filter(|record| !apart.contains(&record.key));
            match self.put_group(store, &group.collect::<Vec<_>>()) {
                Ok(Some(GroupPut::Written(written))) => {
                    new = Some(written);
                    break;
                }
                Ok(Some(GroupPut::Refused(keys))) => apart.extend(keys),
                Ok(None) => break,
                Err(Error::TransactionLimit { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let is_left = |record: &&ListedRecord<'_>| new.is_none() || apart.contains(&record.key);
        let mut all = new.unwrap_or(0);
        for record in records.iter().filter(is_left) {
            all += u64::from(alone(record)?);
        }
        Ok(Some(all))
    }

    /// The keys that are there twice, in a relation in which records name their owners: the last owner is to list them.
    fn named_twice<'g>(&self, records: &'g [ListedRecord<'_>]) -> HashSet<&'g Key<'g>> {
        let mut keys: Vec<&Key<'_>> = match self.owner_bin {
            Some(_) => records.iter().map(|record| &record.key).collect(),
            None => Vec::new(),
        };
        keys.sort_unstable();
        let same = keys.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        same.filter_map(|same| same.first().copied()).collect()
    }

    /// Writes a group. `None`: the store has none.
    fn put_group<'g, S: RecordStore>(
        &self,
        store: &S,
        group: &[&'g ListedRecord<'_>],
    ) -> Result<Option<GroupPut<'g>>> {
        if check_bin(&self.side.bin).is_err() {
            return Ok(None);
        }
        let (owners, records) = (store.records(&self.side.set)?, store.records(&self.set)?);
        let mut by_owner: Vec<&ListedRecord<'_>> = group.to_vec();
        by_owner.sort_by(|a, b| a.owner.cmp(&b.owner));
        let lists: Vec<_> = by_owner.chunk_by(|a, b| a.owner == b.owner).collect();
        // A record that another list names is put by itself, which takes it off that list. One that is a child and a parent, too, is
        // replaced before it lists its own children.
        let replaced = group.iter().map(|record| {
            KnownEdit::replace(&records, &record.key, &record.bins)
                .if_there(self.is_of(&record.owner))
        });
        let listed = lists.iter().filter_map(|of_owner| {
            let keys = of_owner.iter().map(|record| element_of(&record.key));
            let owner = &of_owner.first()?.owner;
            Some(self.side.listing(&owners, owner, keys.collect()))
        });
        let edits: Vec<_> = replaced.chain(listed).collect();
        let calls: Vec<_> = edits.iter().map(KnownEdit::call).collect();
        let results = match store.operate_together(&calls) {
            Some(Ok(results)) => results,
            Some(Err(Error::WritesRefused { reasons })) => {
                let (mut keys, mut owners) = (Vec::new(), HashSet::new());
                for (position, _) in reasons {
                    match (group.get(position), calls.get(position)) {
                        (Some(record), _) => keys.push(&record.key),
                        (None, Some((_, call))) => drop(owners.insert(&call.key)),
                        (None, None) => {}
                    }
                }
                let of_owners = group.iter().filter(|record| owners.contains(&record.owner));
                keys.extend(of_owners.map(|record| &record.key));
                return Ok(Some(GroupPut::Refused(keys)));
            }
            Some(Err(error)) => return Err(error),
            None => return Ok(None),
        };
        let mut new = 0;
        let firsts = lists.iter().filter_map(|of_owner| of_owner.first());
        for (first, result) in firsts.zip(results.iter().skip(group.len())) {
            let (before, behind) = (count(result, 0), count(result, 1));
            new += behind.saturating_sub(before).unsigned_abs();
            let edge = (&first.owner, Added::Key(&first.key));
            self.side
                .shard_large(store, &owners, edge, (result, behind.unsigned_abs()));
        }
        Ok(Some(GroupPut::Written(new)))
    }
}
