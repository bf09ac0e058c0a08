//! Many edges, or many listed records, as groups of writes: each record of a group is locked, edited and written once, with
//! all that the group adds to it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::keys::{element_of, key_of};
use super::listed::ListedRecords;
use super::side::Side;
use super::together::{Added, KnownEdit, count, refusing_list_policy};
use crate::operations::{lists, maps};
use crate::shard::{Collection, check_bin};
use crate::value::Value;
use crate::{
    Bins, BulkProgress, Error, Key, ListReturnType, OperateResult, Operation, RecordCall,
    RecordSet, RecordStore, Result, WritePolicy,
};

/// The most edges or records of a batch: all their records are locked at once.
const BATCH_ITEMS_MAX: usize = 100_000;

/// The most bytes of keys and values in a batch, which is in memory.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// How often a batch is made anew because lists had some of its edges.
const ATTEMPTS_MAX: usize = 4;

/// An edge to be added.
#[derive(Clone, Debug)]
pub(super) struct BulkEdge<'k> {
    pub(super) source: Key<'k>,
    pub(super) target: Key<'k>,
    /// Nil where the relation has none.
    pub(super) attributes: Value,
}

/// A record, and the owner of the list that is to name it.
#[derive(Clone, Debug)]
pub(super) struct ListedRecord<'k> {
    pub(super) owner: Key<'k>,
    pub(super) key: Key<'k>,
    pub(super) bins: Bins,
}

/// What a batch is made of.
pub(super) trait BulkItem {
    /// Returns about how many bytes it takes.
    fn bytes(&self) -> usize;
}

impl BulkItem for BulkEdge<'_> {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + key_bytes(&self.source)
            + key_bytes(&self.target)
            + value_bytes(&self.attributes)
    }
}

impl BulkItem for ListedRecord<'_> {
    fn bytes(&self) -> usize {
        let bins = self.bins.iter().map(|(_, value)| value_bytes(value));
        size_of::<Self>() + key_bytes(&self.owner) + key_bytes(&self.key) + bins.sum::<usize>()
    }
}

/// Returns how many bytes a key has beyond its own size.
fn key_bytes(key: &Key<'_>) -> usize {
    match key {
        Key::Integer(_) => 0,
        Key::String(text) => text.len(),
        Key::Blob(bytes) => bytes.len(),
    }
}

/// Returns about how many bytes a value has beyond its own size.
fn value_bytes(value: &Value) -> usize {
    let nested = |value: &Value| size_of::<Value>() + value_bytes(value);
    match value {
        Value::String(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::List(list) => list.iter().map(nested).sum(),
        Value::Map(map) => map.iter().map(|(key, of)| nested(key) + nested(of)).sum(),
        _ => 0,
    }
}

/// Takes items batch by batch to `write`, which returns how many were new. `observe` is called after each batch, and may stop.
pub(super) fn in_batches<I: BulkItem>(
    items: impl Iterator<Item = Result<I>>,
    mut write: impl FnMut(&[I]) -> Result<u64>,
    mut observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
) -> Result<BulkProgress> {
    let mut items = items.peekable();
    let mut progress = BulkProgress::default();
    while items.peek().is_some() {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_ITEMS_MAX && bytes < BATCH_BYTES_MAX {
            let Some(item) = items.next().transpose()? else {
                break;
            };
            bytes += item.bytes();
            batch.push(item);
        }
        progress.new += write(&batch)?;
        progress.taken += batch.len() as u64;
        if observe(progress).is_break() {
            return Ok(progress);
        }
    }
    progress.complete = true;
    Ok(progress)
}

/// Takes a batch to `write` whole, or in parts where it returns `None`: their records are larger than a group can be. `alone`
/// takes single items that are.
fn in_groups<I>(
    items: &[I],
    mut write: impl FnMut(&[I]) -> Result<Option<u64>>,
    mut alone: impl FnMut(&I) -> Result<bool>,
) -> Result<u64> {
    let (mut rest, mut at_once, mut new) = (items, items.len(), 0);
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(at_once.min(rest.len()));
        match (write(group)?, group) {
            (Some(written), _) => new += written,
            (None, [single]) => new += u64::from(alone(single)?),
            (None, _) => {
                at_once = group.len() / 2;
                continue;
            }
        }
        rest = behind;
    }
    Ok(new)
}

/// One end of an edge.
#[derive(Clone, Copy, Debug)]
struct EdgeEnd<'e> {
    /// Where the owner's record comes in the order of a group's locks.
    position: u64,
    /// 0: the source's side.
    side: usize,
    owner: &'e Key<'e>,
    added: &'e Key<'e>,
    attributes: &'e Value,
}

/// The edit of one record: all that a group adds to it, on one side or on both.
struct RecordEdit<'s, 'e> {
    ends: &'s [EdgeEnd<'e>],
    /// Of each side, an operation that adds, and returns the size behind. With attributes, one before it returns the size before:
    /// lists refuse what they have.
    operations: Vec<Operation>,
}

/// Adds edges to both sides of a relation.
pub(super) struct EdgeWriter<'w, S: RecordStore> {
    pub(super) store: &'w S,
    /// The source's side, then the target's.
    pub(super) sides: [&'w Side; 2],
    pub(super) records: [&'w S::Records; 2],
}

impl<S: RecordStore> EdgeWriter<'_, S> {
    /// Adds the edges of a batch, and returns how many are new. `link` adds one: for stores without groups, and edges of records
    /// that are not as a group needs them.
    ///
    /// # Errors
    /// The errors of a group, and of `link`.
    pub(super) fn write(
        &self,
        edges: &[BulkEdge<'_>],
        link: impl Fn(&BulkEdge<'_>) -> Result<bool>,
    ) -> Result<u64> {
        let all = |edges: &[&BulkEdge<'_>]| {
            edges.iter().try_fold(0, |new, edge| {
                let is_new = link(edge)?;
                Ok(new + u64::from(is_new))
            })
        };
        let edges: Vec<&BulkEdge<'_>> = edges.iter().collect();
        if !self.has_groups() {
            return all(&edges);
        }
        let write = |group: &[&_]| match self.write_group(group)? {
            Some((new, alone)) => Ok(Some(new + all(&alone)?)),
            None => Ok(None),
        };
        in_groups(&edges, write, |edge| link(edge))
    }

    /// Writes edges as one group. `None`: nothing was written, since a record is not as the group needs it.
    ///
    /// # Errors
    /// The errors of a group.
    pub(super) fn write_together(&self, edges: &[BulkEdge<'_>]) -> Result<Option<u64>> {
        if !self.has_groups() {
            return Ok(None);
        }
        let ends = self.ends(&edges.iter().collect::<Vec<_>>());
        match self.operate(&self.edits(&ends)) {
            Ok(new) => Ok(Some(new)),
            Err(Error::WritesRefused { .. } | Error::TransactionLimit { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn has_groups(&self) -> bool {
        let are_plain = self.sides.iter().all(|side| check_bin(&side.bin).is_ok());
        are_plain && self.store.operate_together(&[]).is_some()
    }

    /// Writes edges as one group, all but those that are there, and those of records that refuse it, which it returns. `None`:
    /// the group is too large.
    fn write_group<'e>(
        &self,
        group: &[&'e BulkEdge<'e>],
    ) -> Result<Option<(u64, Vec<&'e BulkEdge<'e>>)>> {
        let (mut group, mut alone) = (group.to_vec(), Vec::new());
        for _ in 0..ATTEMPTS_MAX {
            let ends = self.ends(&group);
            let edits = self.edits(&ends);
            match self.operate(&edits) {
                Ok(new) => return Ok(Some((new, alone))),
                Err(Error::WritesRefused { reasons }) => {
                    let refused = self.refused(&edits, reasons)?;
                    // Both ends of an edge are in the group, or neither: one that is at one end alone is linked by itself,
                    // and so is one that others remove between the looks at its ends.
                    group.retain(|edge| match self.state_of(edge, &refused) {
                        EdgeState::Absent => true,
                        EdgeState::Present => false,
                        EdgeState::Alone => {
                            alone.push(*edge);
                            false
                        }
                    });
                }
                Err(Error::TransactionLimit { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        // Others have written these records again and again meanwhile.
        alone.append(&mut group);
        Ok(Some((0, alone)))
    }

    /// Returns both ends of edges, each once: those of a record side by side, records in the order of a group's locks. Of an edge
    /// that comes twice, the last counts.
    fn ends<'e>(&self, edges: &[&'e BulkEdge<'e>]) -> Vec<EdgeEnd<'e>> {
        // Sorted by numbers first: comparing keys goes to the memory of the edges.
        let mut places = Vec::with_capacity(2 * edges.len());
        for (at, edge) in edges.iter().enumerate().rev() {
            let owners = [&edge.source, &edge.target].into_iter().enumerate();
            places.extend(owners.zip(self.records).map(|((side, owner), records)| {
                (
                    records.group_position(owner),
                    (edges.len() - at) as u32,
                    side as u8,
                )
            }));
        }
        places.sort_unstable();
        let ends = places.iter().filter_map(|(position, from_end, side)| {
            let edge = edges.get(edges.len() - *from_end as usize)?;
            let (side, owner, added) = match side {
                0 => (0, &edge.source, &edge.target),
                _ => (1, &edge.target, &edge.source),
            };
            Some(EdgeEnd {
                position: *position,
                side,
                owner,
                added,
                attributes: &edge.attributes,
            })
        });
        let mut ends: Vec<EdgeEnd<'e>> = ends.collect();
        let place = |end: &EdgeEnd<'e>| (self.set_of(end.side), end.owner, end.side, end.added);
        for of_record in ends.chunk_by_mut(|a, b| a.position == b.position) {
            // Stable: what comes first of equal ends is of the last edge.
            of_record.sort_by(|a, b| place(a).cmp(&place(b)));
        }
        ends.dedup_by(|a, b| a.position == b.position && place(a) == place(b));
        ends
    }

    fn edits<'s, 'e>(&self, ends: &'s [EdgeEnd<'e>]) -> Vec<RecordEdit<'s, 'e>> {
        let is_same = |a: &EdgeEnd<'e>, b: &EdgeEnd<'e>| {
            let record = |end: &EdgeEnd<'e>| (self.set_of(end.side), end.owner);
            a.position == b.position && record(a) == record(b)
        };
        ends.chunk_by(is_same)
            .map(|ends| RecordEdit {
                ends,
                operations: self.adding(ends),
            })
            .collect()
    }

    fn adding(&self, ends: &[EdgeEnd<'_>]) -> Vec<Operation> {
        let mut operations = Vec::with_capacity(2);
        for ends in by_side(ends) {
            let (side, _) = self.side(ends);
            let bin = &*side.bin;
            let mut keys = ends.iter().map(|end| element_of(end.added));
            if side.has_attributes {
                let attributes = ends.iter().map(|end| end.attributes.clone());
                let entries: Vec<_> = keys.zip(attributes).collect();
                operations.push(maps::size(bin));
                operations.push(maps::put_items(&Collection::map_policy(), bin, entries));
                continue;
            }
            let policy = refusing_list_policy();
            operations.push(match (keys.next(), ends.len()) {
                (Some(only), 1) => lists::append(&policy, bin, only),
                (first, _) => {
                    lists::append_items(&policy, bin, first.into_iter().chain(keys).collect())
                }
            });
        }
        operations
    }

    /// Returns the number of the set of a side: sides of one set have one.
    fn set_of(&self, side: usize) -> usize {
        let [at_sources, at_targets] = self.sides;
        if at_sources.set == at_targets.set {
            0
        } else {
            side
        }
    }

    /// Returns the side of ends that are on one side, and its set.
    fn side(&self, ends: &[EdgeEnd<'_>]) -> (&Side, &S::Records) {
        let [at_sources, at_targets] = self.sides;
        let [sources, targets] = self.records;
        match ends.first() {
            Some(EdgeEnd { side: 1, .. }) => (at_targets, targets),
            _ => (at_sources, sources),
        }
    }

    /// Makes the edits as a group, and returns how many edges are new to their sources. Collections that have grown too large
    /// are sharded.
    fn operate(&self, edits: &[RecordEdit<'_, '_>]) -> Result<u64> {
        let policies = self.sides.map(Side::unsharded_policy);
        let calls = edits.iter().filter_map(|edit| {
            let first = edit.ends.first()?;
            let call = RecordCall {
                policy: policies.get(first.side)?,
                key: Key::from(first.owner),
                operations: &edit.operations,
            };
            Some((self.side(edit.ends).1, call))
        });
        let calls: Vec<_> = calls.collect();
        let results = self.store.operate_together(&calls).transpose()?;
        let mut new = 0;
        for (edit, result) in edits.iter().zip(results.iter().flatten()) {
            new += self.finish(edit.ends, result);
        }
        Ok(new)
    }

    fn finish(&self, ends: &[EdgeEnd<'_>], result: &OperateResult) -> u64 {
        let (mut new, mut operation) = (0, 0);
        for of_side in by_side(ends) {
            let (side, records) = self.side(of_side);
            let Some(end) = of_side.first() else { continue };
            let mut added = of_side.len() as u64;
            if side.has_attributes {
                let (before, behind) = (count(result, operation), count(result, operation + 1));
                added = behind.saturating_sub(before).unsigned_abs();
                operation += 1;
            }
            if end.side == 0 {
                new += added;
            }
            let elements = count(result, operation).unsigned_abs();
            operation += 1;
            side.shard_large(
                self.store,
                records,
                (end.owner, Added::Key(end.added)),
                (result, elements),
            );
        }
        new
    }

    /// Returns what is known of records that refused a group: the keys that their lists have, or that they refuse for another
    /// reason.
    fn refused<'e>(
        &self,
        edits: &[RecordEdit<'_, 'e>],
        reasons: Vec<(usize, Error)>,
    ) -> Result<Vec<RefusedRecord<'e>>> {
        let refused = reasons
            .into_iter()
            .filter_map(|(position, reason)| Some((edits.get(position)?, reason)))
            .filter_map(|(edit, reason)| Some((edit, edit.ends.first()?, reason)))
            .map(|(edit, first, reason)| {
                let listed = match reason {
                    Error::ElementExists { .. } => Some(self.listed(edit, first.owner)?),
                    _ => None,
                };
                Ok(RefusedRecord {
                    record: (self.set_of(first.side), first.owner),
                    listed,
                })
            });
        let mut refused: Vec<RefusedRecord<'e>> = refused.collect::<Result<_>>()?;
        refused.sort_unstable_by(|a, b| a.record.cmp(&b.record));
        Ok(refused)
    }

    /// Returns which of the keys that a record is to list are in its lists, with their sides. One read.
    fn listed(
        &self,
        edit: &RecordEdit<'_, '_>,
        owner: &Key<'_>,
    ) -> Result<Vec<(usize, Key<'static>)>> {
        let reads = by_side(edit.ends).map(|ends| {
            let keys = ends.iter().map(|end| element_of(end.added)).collect();
            lists::get_by_value_list(&self.side(ends).0.bin, keys, ListReturnType::Values)
        });
        let reads: Vec<Operation> = reads.collect();
        let records = self.side(edit.ends).1;
        let found = match records.operate_on(&WritePolicy::default(), owner, &reads) {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut listed = Vec::new();
        for (operation, ends) in by_side(edit.ends).enumerate() {
            let (Some(end), Some(Value::List(keys))) = (ends.first(), found.value(operation))
            else {
                continue;
            };
            for key in keys.iter() {
                listed.push((end.side, key_of(key.clone())?));
            }
        }
        listed.sort_unstable();
        Ok(listed)
    }

    /// Returns what is known of an edge from the records that refused its group.
    fn state_of(&self, edge: &BulkEdge<'_>, refused: &[RefusedRecord<'_>]) -> EdgeState {
        let at_end = |side: usize, owner: &Key<'_>, added: &Key<'_>| {
            let place = (self.set_of(side), owner);
            let found = refused.binary_search_by(|record| record.record.cmp(&place));
            match found.ok().and_then(|at| refused.get(at)) {
                None => EdgeState::Absent,
                Some(record) => match &record.listed {
                    None => EdgeState::Alone,
                    Some(listed) => {
                        let end = |listed: &(usize, Key<'static>)| {
                            (listed.0, &listed.1).cmp(&(side, added))
                        };
                        match listed.binary_search_by(end) {
                            Ok(_) => EdgeState::Present,
                            Err(_) => EdgeState::Absent,
                        }
                    }
                },
            }
        };
        let at_source = at_end(0, &edge.source, &edge.target);
        let at_target = at_end(1, &edge.target, &edge.source);
        if at_source == at_target {
            at_source
        } else {
            EdgeState::Alone
        }
    }
}

/// A record that refused a group.
struct RefusedRecord<'e> {
    /// The number of its set, and its key.
    record: (usize, &'e Key<'e>),
    /// Those of its keys that are in its lists, with their sides; `None`: it refused for another reason.
    listed: Option<Vec<(usize, Key<'static>)>>,
}

/// What is known of an edge whose group was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeState {
    /// Neither end has it.
    Absent,
    /// Both ends have it.
    Present,
    /// It is to be linked by itself.
    Alone,
}

/// Returns the ends of a record, parted by their sides.
fn by_side<'s, 'e>(ends: &'s [EdgeEnd<'e>]) -> impl Iterator<Item = &'s [EdgeEnd<'e>]> {
    ends.chunk_by(|a, b| a.side == b.side)
}

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
    pub(super) fn put_all<S: RecordStore>(
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
