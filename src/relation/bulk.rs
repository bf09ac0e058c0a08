//! Many edges, or many listed records, as groups of writes: each record of a group is locked,
//! edited and written once, with all that the group adds to it.

mod listed_records;

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use super::keys::element_of;
use super::side::RelationSide;
use super::side_reader::SideReader;
use super::together::{Added, count, refusing_list_policy};
use crate::operations::{lists, maps};
use crate::shard::{Collection, check_bin};
use crate::value::Value;
use crate::{
    Bins, BulkProgress, Error, Key, OperateResult, Operation, RecordCall, RecordSet, RecordStore,
    Result,
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

/// An item of a batch.
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

/// Takes items batch by batch to `write`, which returns how many were new. `observe` is called
/// after each batch, and may stop.
pub(super) fn in_batches<I: BulkItem>(
    items: impl Iterator<Item = Result<I>>,
    mut write: impl FnMut(&[I]) -> Result<u64>,
    mut observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
) -> Result<BulkProgress> {
    let mut items = items.peekable();
    let mut progress = BulkProgress::default();
    let mut batch = Vec::with_capacity(items.size_hint().0.min(BATCH_ITEMS_MAX));
    while items.peek().is_some() {
        batch.clear();
        let mut bytes = 0;
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

/// The outcome of an attempt to write a group.
enum GroupAttempt {
    /// How many items are new.
    Written(u64),
    /// Nothing was written: the state of each item.
    Refused(Vec<ItemState>),
}

/// The state of an item after its group was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemState {
    /// It can be in the next group.
    Absent,
    /// It is there as it should be.
    Present,
    /// It is to be written by itself.
    Alone,
}

/// Writes a batch as one group, or as several where the store has no room for one: `attempt` fails
/// by [`Error::TransactionLimit`] then. `alone` writes single items. Returns how many are new.
fn in_groups<'i, I>(
    items: &'i [I],
    mut attempt: impl FnMut(&[&'i I]) -> Result<GroupAttempt>,
    alone: impl Fn(&'i I) -> Result<bool>,
) -> Result<u64> {
    let items: Vec<&I> = items.iter().collect();
    let (mut rest, mut at_once, mut new) = (&items[..], items.len(), 0);
    while !rest.is_empty() {
        let (group, behind) = rest.split_at(at_once.min(rest.len()));
        let apart = match attempts(group, &mut attempt) {
            Ok((written, apart)) => {
                new += written;
                apart
            }
            Err(Error::TransactionLimit { .. }) if group.len() > 1 => {
                // For the groups behind it, too, which would meet the same limit.
                at_once = group.len() / 2;
                continue;
            }
            Err(Error::TransactionLimit { .. }) => group.to_vec(),
            Err(error) => return Err(error),
        };
        for item in apart {
            new += u64::from(alone(item)?);
        }
        rest = behind;
    }
    Ok(new)
}

/// Makes attempts at a group, each without the items that the one before has found to be there or
/// to be in the way. Returns how many items are new, and the items to be written by themselves.
fn attempts<'i, I>(
    group: &[&'i I],
    attempt: &mut impl FnMut(&[&'i I]) -> Result<GroupAttempt>,
) -> Result<(u64, Vec<&'i I>)> {
    let (mut group, mut apart) = (group.to_vec(), Vec::new());
    for _ in 0..ATTEMPTS_MAX {
        let states = match attempt(&group)? {
            GroupAttempt::Written(new) => return Ok((new, apart)),
            GroupAttempt::Refused(states) => states,
        };
        let of_state = |wanted: ItemState| {
            let items = group.iter().zip(&states);
            items.filter_map(move |(item, state)| (*state == wanted).then_some(*item))
        };
        apart.extend(of_state(ItemState::Alone));
        group = of_state(ItemState::Absent).collect();
    }
    // Others have written these records again and again meanwhile.
    apart.append(&mut group);
    Ok((0, apart))
}

/// Whether a store writes groups of records with these sides.
fn has_groups<S: RecordStore>(store: &S, sides: &[&RelationSide]) -> bool {
    let are_plain = sides.iter().all(|side| check_bin(&side.bin).is_ok());
    are_plain && store.operate_together(&[]).is_some()
}

/// One end of an edge.
#[derive(Clone, Copy, Debug)]
struct BulkEnd<'e> {
    /// 0: the source's side.
    side: usize,
    owner: &'e Key<'e>,
    added: &'e Key<'e>,
    attributes: &'e Value,
}

/// The edit of one record: all that a group adds to it, on one side or on both.
struct RecordEdit {
    /// Its ends: a range of the group's ends.
    ends: Range<usize>,
    /// Its operations: a range of the group's operations. Of each side, one that adds, and returns
    /// the size behind. With attributes, one before it returns the size before: lists refuse keys
    /// that they have.
    operations: Range<usize>,
}

/// The edits of a group, in about the order of its locks, and the ends that they add: the ends of a
/// record are side by side.
struct GroupEdits<'e> {
    edits: Vec<RecordEdit>,
    ends: Vec<BulkEnd<'e>>,
    operations: Vec<Operation>,
}

/// The half of the position of a record's lock that a group is sorted by. The other half of the
/// number is for the end.
const OF_POSITION: u64 = 0xffff_ffff_0000_0000;

impl<'e> GroupEdits<'e> {
    fn ends_of(&self, edit: &RecordEdit) -> &[BulkEnd<'e>] {
        self.ends.get(edit.ends.clone()).unwrap_or_default()
    }
}

/// Adds edges to both sides of a relation.
pub(super) struct EdgeWriter<'w, S: RecordStore> {
    pub(super) store: &'w S,
    /// The source's side, then the target's.
    pub(super) sides: [&'w RelationSide; 2],
    pub(super) records: [&'w S::Records; 2],
}

impl<S: RecordStore> EdgeWriter<'_, S> {
    /// Whether edges go in groups. Not where two of a group, there and back, may give one entry two
    /// values.
    fn has_groups(&self) -> bool {
        let [one, other] = self.sides;
        has_groups(self.store, &self.sides) && !(one.has_attributes && one.is_same(other))
    }

    /// Adds the edges of a batch, and returns how many are new. `link` adds one: for stores without
    /// groups, and edges of records that are not as a group needs them.
    ///
    /// # Errors
    /// The errors of a group, and of `link`.
    pub(super) fn write(
        &self,
        edges: &[BulkEdge<'_>],
        link: impl Fn(&BulkEdge<'_>) -> Result<bool>,
    ) -> Result<u64> {
        let has_groups = self.has_groups();
        let attempt = |group: &[&BulkEdge<'_>]| {
            if !has_groups {
                return Ok(GroupAttempt::Refused(vec![ItemState::Alone; group.len()]));
            }
            let edits = self.edits(group);
            let reasons = match self.operate(&edits) {
                Ok(new) => return Ok(GroupAttempt::Written(new)),
                Err(Error::WritesRefused { reasons }) => reasons,
                Err(error) => return Err(error),
            };
            let states = self.states(group, &edits, reasons)?;
            Ok(GroupAttempt::Refused(states))
        };
        in_groups(edges, attempt, link)
    }

    /// Writes edges as one group. `None`: nothing was written, since a record is not as the group
    /// needs it.
    ///
    /// # Errors
    /// The errors of a group.
    pub(super) fn write_together(&self, edges: &[BulkEdge<'_>]) -> Result<Option<u64>> {
        if !self.has_groups() {
            return Ok(None);
        }
        match self.operate(&self.edits(&edges.iter().collect::<Vec<_>>())) {
            Ok(new) => Ok(Some(new)),
            Err(Error::WritesRefused { .. } | Error::TransactionLimit { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the edits that add both ends of edges, each once. Of an edge that comes twice, the
    /// last counts.
    fn edits<'e>(&self, edges: &[&'e BulkEdge<'e>]) -> GroupEdits<'e> {
        // Sorted by one number for each: comparing keys goes to the memory of the edges.
        let mut places = Vec::with_capacity(2 * edges.len());
        for (at, edge) in edges.iter().enumerate() {
            let owners = [&edge.source, &edge.target].into_iter().enumerate();
            places.extend(owners.zip(self.records).map(|((side, owner), records)| {
                let position = records.group_position(owner) & OF_POSITION;
                position | u64::from(!(2 * at as u32 + side as u32))
            }));
        }
        places.sort_unstable();
        let mut group = GroupEdits {
            edits: Vec::new(),
            ends: Vec::with_capacity(places.len()),
            operations: Vec::with_capacity(places.len()),
        };
        // Each record is completed while its edges are in the processor's caches.
        let mut ends = Vec::new();
        let sets = [self.set_of(0), self.set_of(1)];
        let set = |end: &BulkEnd<'e>| sets.get(end.side);
        for of_position in places.chunk_by(|one, next| (one ^ next) & OF_POSITION == 0) {
            let numbers = of_position.iter().map(|place| !(*place as u32));
            ends.extend(numbers.filter_map(|number| end_at(edges, number)));
            let place = |end: &BulkEnd<'e>| (set(end), end.owner, end.side, end.added);
            // Stable: the first of equal ends is of the last edge.
            ends.sort_by(|a, b| place(a).cmp(&place(b)));
            ends.dedup_by(|a, b| place(a) == place(b));
            let record = |end: &BulkEnd<'e>| (set(end), end.owner);
            for of_record in ends.chunk_by(|a, b| record(a) == record(b)) {
                let from = (group.ends.len(), group.operations.len());
                group.ends.extend_from_slice(of_record);
                self.add_operations(of_record, &mut group.operations);
                group.edits.push(RecordEdit {
                    ends: from.0..group.ends.len(),
                    operations: from.1..group.operations.len(),
                });
            }
            ends.clear();
        }
        group
    }

    fn add_operations(&self, ends: &[BulkEnd<'_>], operations: &mut Vec<Operation>) {
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

    /// Returns a reader of the side of this number.
    fn reader(&self, side: usize) -> SideReader<'_, S, &S::Records> {
        let [at_sources, at_targets] = self.sides;
        let [sources, targets] = self.records;
        let (side, records) = match side {
            0 => (at_sources, sources),
            _ => (at_targets, targets),
        };
        SideReader {
            side,
            store: self.store,
            records,
        }
    }

    /// Returns the side of ends that are on one side, and its set.
    fn side(&self, ends: &[BulkEnd<'_>]) -> (&RelationSide, &S::Records) {
        let reader = self.reader(ends.first().map_or(0, |end| end.side));
        (reader.side, reader.records)
    }

    /// Makes the edits as a group, and returns how many edges are new to their sources. Collections
    /// that have grown too large are sharded.
    fn operate(&self, group: &GroupEdits<'_>) -> Result<u64> {
        let policies = self.sides.map(RelationSide::unsharded_policy);
        let calls = group.edits.iter().filter_map(|edit| {
            let ends = group.ends_of(edit);
            let first = ends.first()?;
            let call = RecordCall {
                policy: policies.get(first.side)?,
                key: Key::from(first.owner),
                operations: group.operations.get(edit.operations.clone())?,
            };
            Some((self.side(ends).1, call))
        });
        let calls: Vec<_> = calls.collect();
        let results = self.store.operate_together(&calls).transpose()?;
        let mut new = 0;
        for (edit, result) in group.edits.iter().zip(results.iter().flatten()) {
            new += self.finish(group.ends_of(edit), result);
        }
        Ok(new)
    }

    fn finish(&self, ends: &[BulkEnd<'_>], result: &OperateResult) -> u64 {
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
            // An edge counts where it begins, so not twice.
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

    /// Returns the states of the edges of a group that was refused. One read for each end at a
    /// record that was refused for keys that it has.
    fn states(
        &self,
        edges: &[&BulkEdge<'_>],
        group: &GroupEdits<'_>,
        reasons: Vec<(usize, Error)>,
    ) -> Result<Vec<ItemState>> {
        let refused = reasons.into_iter().filter_map(|(position, reason)| {
            let first = group.ends_of(group.edits.get(position)?).first()?;
            let has_some = matches!(reason, Error::ElementExists { .. });
            Some(((self.set_of(first.side), first.owner), has_some))
        });
        let refused: HashMap<(usize, &Key<'_>), bool> = refused.collect();
        let at_end = |side: usize, owner: &Key<'_>, added: &Key<'_>| -> Result<ItemState> {
            Ok(match refused.get(&(self.set_of(side), owner)) {
                None => ItemState::Absent,
                Some(false) => ItemState::Alone,
                Some(true) => match self.reader(side).get(owner, added)? {
                    Some(_) => ItemState::Present,
                    None => ItemState::Absent,
                },
            })
        };
        // Both ends of an edge are in the group, or neither: one that is at one end alone is linked
        // by itself, and so is one that others remove between the looks at its ends.
        let state = |edge: &&BulkEdge<'_>| {
            let at_source = at_end(0, &edge.source, &edge.target)?;
            let at_target = at_end(1, &edge.target, &edge.source)?;
            Ok(if at_source == at_target {
                at_source
            } else {
                ItemState::Alone
            })
        };
        edges.iter().map(state).collect()
    }
}

/// Returns the end of an edge that has this number among all of them: two for each edge.
fn end_at<'e>(edges: &[&'e BulkEdge<'e>], number: u32) -> Option<BulkEnd<'e>> {
    let edge = edges.get(number as usize / 2)?;
    let (side, owner, added) = match number % 2 {
        0 => (0, &edge.source, &edge.target),
        _ => (1, &edge.target, &edge.source),
    };
    Some(BulkEnd {
        side,
        owner,
        added,
        attributes: &edge.attributes,
    })
}

/// Returns the ends of a record, parted by their sides.
fn by_side<'s, 'e>(ends: &'s [BulkEnd<'e>]) -> impl Iterator<Item = &'s [BulkEnd<'e>]> {
    ends.chunk_by(|a, b| a.side == b.side)
}
