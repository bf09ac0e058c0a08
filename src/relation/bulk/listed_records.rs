//! Many listed records as groups of writes.

use std::collections::HashSet;

use super::super::listed::ListedRecords;
use super::super::together::KnownEdit;
use super::super::within::Within;
use super::{GroupAttempt, ItemState, ListedRecord, has_groups, in_groups};
use crate::{Error, Key, RecordStore, Result};

impl<S: RecordStore> Within<'_, ListedRecords, S> {
    /// Writes records in place of earlier versions, and lists their keys, as one group, or as
    /// several where one would be too large. Returns how many keys are new. Where the store has no
    /// groups, each record is put by itself; so are records that refuse their group, records of a
    /// list that refuses it, and, where records name their owners, records that are in the batch
    /// twice.
    pub(in crate::relation) fn put_all(&self, batch: &[ListedRecord<'_>]) -> Result<u64> {
        let has_groups = has_groups(self.store, &[&self.side]);
        let attempt = |group: &[&ListedRecord<'_>]| {
            let twice = self.named_twice(group);
            if has_groups && twice.is_empty() {
                self.put_group(group)
            } else {
                Ok(without(group, |record| {
                    !has_groups || twice.contains(&record.key)
                }))
            }
        };
        in_groups(batch, attempt, |record| {
            self.put(&record.owner, &record.key, &record.bins)
        })
    }

    /// The keys that are there twice, in a relation in which records name their owners: the last
    /// owner is to list them.
    fn named_twice<'g>(&self, records: &[&'g ListedRecord<'_>]) -> HashSet<&'g Key<'g>> {
        let mut keys: Vec<&Key<'_>> = match self.owner_bin {
            Some(_) => records.iter().map(|record| &record.key).collect(),
            None => Vec::new(),
        };
        keys.sort_unstable();
        let same = keys.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        same.filter_map(|same| same.first().copied()).collect()
    }

    /// Writes a group.
    fn put_group(&self, group: &[&ListedRecord<'_>]) -> Result<GroupAttempt> {
        let store = self.store;
        let (owners, records) = (store.records(&self.side.set)?, store.records(&self.set)?);
        let mut by_owner: Vec<&ListedRecord<'_>> = group.to_vec();
        by_owner.sort_by(|a, b| a.owner.cmp(&b.owner));
        let lists: Vec<_> = by_owner.chunk_by(|a, b| a.owner == b.owner).collect();
        // A record that another list names is put by itself, which takes it off that list. One that
        // is a child and a parent, too, is replaced before it lists its own children.
        let replaced = group.iter().map(|record| {
            KnownEdit::replace(&records, &record.key, &record.bins)
                .if_there(self.is_of(&record.owner))
        });
        let listed = lists.iter().filter_map(|of_owner| {
            let keys: Vec<&Key<'_>> = of_owner.iter().map(|record| &record.key).collect();
            Some(self.side.listing(&owners, &of_owner.first()?.owner, &keys))
        });
        let edits: Vec<_> = replaced.chain(listed).collect();
        let calls: Vec<_> = edits.iter().map(KnownEdit::call).collect();
        let results = match store.operate_together(&calls).transpose() {
            Ok(results) => results.unwrap_or_default(),
            Err(Error::WritesRefused { reasons }) => {
                let (mut keys, mut owners) = (HashSet::new(), HashSet::new());
                for (position, _) in reasons {
                    match (group.get(position), calls.get(position)) {
                        (Some(record), _) => drop(keys.insert(&record.key)),
                        (None, Some((_, call))) => drop(owners.insert(&call.key)),
                        (None, None) => {}
                    }
                }
                let of_owners = group.iter().filter(|it| owners.contains(&it.owner));
                keys.extend(of_owners.map(|record| &record.key));
                // All versions of a key are in the next group or none, so that the last one stays
                // the last.
                return Ok(without(group, |record| keys.contains(&record.key)));
            }
            Err(error) => return Err(error),
        };
        let of_lists = edits.iter().zip(&results).skip(group.len());
        let new = of_lists.map(|(edit, result)| edit.finish(store, result));
        Ok(GroupAttempt::Written(new.sum()))
    }
}

/// A group of which some records are to be written by themselves.
fn without(
    group: &[&ListedRecord<'_>],
    is_alone: impl Fn(&ListedRecord<'_>) -> bool,
) -> GroupAttempt {
    let state = |record: &&ListedRecord<'_>| {
        if is_alone(record) {
            ItemState::Alone
        } else {
            ItemState::Absent
        }
    };
    GroupAttempt::Refused(group.iter().map(state).collect())
}
