//! Reads of one side of a relation. A collection that is not sharded is read in its record, by one
//! operation and without a handle; the handle is made where the record says that it is needed.

use std::borrow::Borrow;

use super::keys::{element_of, key_of, key_of_ref};
use super::side::{OwnedEdges, RelationSide, SideEdge};
use crate::operations::{lists, maps};
use crate::shard::{Lists, Maps, SortedBin, is_ambiguous, pages};
use crate::value::Value;
use crate::{
    Error, Key, ListReturnType, MapReturnType, Operation, RecordSet, RecordStore, Result,
    UnshardedRead, ValueRef,
};

/// Reads a side. `R`: the opened set of its records, or a reference to it.
#[derive(Debug)]
pub(super) struct SideReader<'r, S, R> {
    pub(super) side: &'r RelationSide,
    pub(super) store: &'r S,
    pub(super) records: R,
}

impl RelationSide {
    /// Returns a reader of this side in a store. Opens the set.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed.
    pub(super) fn reader<'r, S: RecordStore>(
        &'r self,
        store: &'r S,
    ) -> Result<SideReader<'r, S, S::Records>> {
        Ok(SideReader {
            side: self,
            store,
            records: store.records(&self.set)?,
        })
    }
}

impl<S: RecordStore> OwnedEdges<'_, S> {
    /// As [`SideReader::get`].
    pub(super) fn get(&self, other: &Key<'_>) -> Result<Option<Value>> {
        self.side.reader(self.store)?.get(self.owner, other)
    }

    /// As [`SideReader::len`].
    pub(super) fn len(&self) -> Result<u64> {
        self.side.reader(self.store)?.len(self.owner)
    }

    /// As [`SideReader::page_after`].
    pub(super) fn page_after(&self, after: Option<&Key<'_>>, limit: u64) -> Result<Vec<SideEdge>> {
        let reader = self.side.reader(self.store)?;
        reader.page_after(self.owner, after, limit)
    }

    /// Passes all edges to `each`, a page at a time, in the order of their keys. Returns how many
    /// there were.
    pub(super) fn each_page(
        &self,
        mut each: impl FnMut(Vec<SideEdge>) -> Result<()>,
    ) -> Result<u64> {
        let reader = self.side.reader(self.store)?;
        let mut edges = 0;
        let read = |after: Option<&SideEdge>, limit| {
            reader.page_after(self.owner, after.map(|(key, _)| key), limit)
        };
        for page in pages(read) {
            let page = page?;
            edges += page.len() as u64;
            each(page)?;
        }
        Ok(edges)
    }
}

impl<S: RecordStore, R: Borrow<S::Records>> SideReader<'_, S, R> {
    pub(super) const fn at<'o>(&'o self, owner: &'o Key<'o>) -> OwnedEdges<'o, S> {
        self.side.at(self.store, owner)
    }

    /// Returns the attributes of an edge, nil where there are none; `None` if there is no such
    /// edge.
    pub(super) fn get(&self, owner: &Key<'_>, other: &Key<'_>) -> Result<Option<Value>> {
        let element = element_of(other);
        let sharded = |owner: &Key<'_>| self.at(owner).get_element(&element_of(other));
        let found = if self.side.has_attributes {
            let entry = MapReturnType::KeyValue;
            let operation = maps::get_by_key_list(&self.side.bin, vec![element], entry);
            self.ask(owner, &operation, first_value, sharded)
        } else {
            let nil = |found: Option<ValueRef<'_>>| Ok(is_true(found)?.then_some(Value::Nil));
            self.ask(owner, &self.has(element), nil, sharded)
        }?;
        Ok(found.flatten())
    }

    /// Returns how many edges a record has.
    pub(super) fn len(&self, owner: &Key<'_>) -> Result<u64> {
        let bin = &self.side.bin;
        let operation = if self.side.has_attributes {
            maps::size(bin)
        } else {
            lists::size(bin)
        };
        let count = |value: Option<ValueRef<'_>>| {
            let count = value.and_then(|value| value.as_i64());
            Ok(count.map_or(0, |count| count.max(0).unsigned_abs()))
        };
        let len = self.ask(owner, &operation, count, |owner| {
            if self.side.has_attributes {
                self.at(owner).map()?.len()
            } else {
                self.at(owner).list()?.len()
            }
        })?;
        Ok(len.unwrap_or(0))
    }

    /// Returns at most `limit` edges from this position on, in the order of their keys.
    pub(super) fn page(&self, owner: &Key<'_>, offset: u64, limit: u64) -> Result<Vec<SideEdge>> {
        self.edges(owner, (offset, None), limit)
    }

    /// Returns the first `limit` edges with keys greater than `after` (`None`: the first of all).
    pub(super) fn page_after(
        &self,
        owner: &Key<'_>,
        after: Option<&Key<'_>>,
        limit: u64,
    ) -> Result<Vec<SideEdge>> {
        self.edges(owner, (0, after), limit)
    }

    /// Returns at most `limit` edges behind a key, or from a position on.
    fn edges(
        &self,
        owner: &Key<'_>,
        (offset, after): (u64, Option<&Key<'_>>),
        limit: u64,
    ) -> Result<Vec<SideEdge>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let element = after.map(element_of);
        let start = (offset, element.as_ref());
        let read = self.ask(
            owner,
            &self.read(start, limit),
            |value| edges_of(value).map(Some),
            |_| Ok(None),
        )?;
        match read {
            None => Ok(Vec::new()),
            Some(read) => match read.and_then(|read| page_of(read, after, limit)) {
                Some(page) if self.goes_on(owner, &page, limit)? => Ok(page),
                _ => self.edges_by_handle(owner, start, limit),
            },
        }
    }

    /// Returns whether the next page can go on behind this one: its last key is found. Only for
    /// keys as which other elements are read, too.
    fn goes_on(&self, owner: &Key<'_>, page: &[SideEdge], limit: u64) -> Result<bool> {
        match page.last() {
            Some((last, _)) if page.len() as u64 == limit && is_ambiguous(&element_of(last)) => {
                Ok(self.get(owner, last)?.is_some())
            }
            _ => Ok(true),
        }
    }

    fn edges_by_handle(
        &self,
        owner: &Key<'_>,
        start: (u64, Option<&Value>),
        limit: u64,
    ) -> Result<Vec<SideEdge>> {
        if self.side.has_attributes {
            let entries = self.at(owner).map()?.page_from(start, limit)?;
            let edge = |(key, attributes)| Ok((key_of(key)?, attributes));
            return entries.into_iter().map(edge).collect();
        }
        let elements = self.at(owner).list()?.page_from(start, limit)?;
        let edge = |element| Ok((key_of(element)?, Value::Nil));
        elements.into_iter().map(edge).collect()
    }

    /// Returns the first `limit` keys of each of these records, in one batch; sharded ones are read
    /// one by one.
    pub(super) fn first_keys_of_each(
        &self,
        owners: &[Key<'_>],
        limit: u64,
    ) -> Result<Vec<Vec<Key<'static>>>> {
        let keys = self.ask_each(owners, &self.read((0, None), limit), keys_of, |owner| {
            let edges = self.edges_by_handle(owner, (0, None), limit)?;
            Ok(edges.into_iter().map(|(key, _)| key).collect())
        })?;
        Ok(keys.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Returns for each of these records whether it has an edge to `other`, in one batch; `None`:
    /// there is no record.
    pub(super) fn each_has(
        &self,
        owners: &[Key<'_>],
        other: &Key<'_>,
    ) -> Result<Vec<Option<bool>>> {
        let operation = self.has(element_of(other));
        self.ask_each(owners, &operation, is_true, |owner| {
            Ok(self.get(owner, other)?.is_some())
        })
    }

    /// Asks whether the collection has an element.
    fn has(&self, element: Value) -> Operation {
        if self.side.has_attributes {
            maps::get_by_key(&self.side.bin, element, MapReturnType::Exists)
        } else {
            lists::get_by_value(&self.side.bin, element, ListReturnType::Exists)
        }
    }

    /// Reads this many edges, and the one it starts behind.
    fn read(&self, start: (u64, Option<&Value>), limit: u64) -> Operation {
        if self.side.has_attributes {
            Maps::read_page(&self.side.bin, start, limit)
        } else {
            Lists::read_page(&self.side.bin, start, limit)
        }
    }

    /// Asks one record; `None`: there is none.
    fn ask<T>(
        &self,
        owner: &Key<'_>,
        operation: &Operation,
        answer: impl Fn(Option<ValueRef<'_>>) -> Result<T>,
        ask_sharded: impl Fn(&Key<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let owner = Key::from(owner);
        let mut answered = Ok(Ok(None));
        let records = self.records.borrow();
        records.read_unsharded(std::slice::from_ref(&owner), operation, &mut |_, read| {
            answered = answered_by(read, &answer);
        });
        answered?.or_else(|()| ask_sharded(&owner).map(Some))
    }

    /// Asks one thing of each of these records in a batch, and of records with sharded collections
    /// one by one.
    pub(super) fn ask_each<T>(
        &self,
        owners: &[Key<'_>],
        operation: &Operation,
        answer: impl Fn(Option<ValueRef<'_>>) -> Result<T>,
        ask_sharded: impl Fn(&Key<'_>) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let mut answers = Vec::with_capacity(owners.len());
        let records = self.records.borrow();
        records.read_unsharded(owners, operation, &mut |_, read| {
            answers.push(answered_by(read, &answer));
        });
        let asked = owners.iter().zip(answers);
        asked
            .map(|(owner, answered)| match answered? {
                Ok(answer) => Ok(answer),
                Err(()) => ask_sharded(owner).map(Some),
            })
            .collect()
    }
}

/// The answer of a record. `Err`: the handle must be asked, which may not be done while records are
/// shown.
type RecordAnswer<T> = std::result::Result<Option<T>, ()>;

fn answered_by<T>(
    read: Result<UnshardedRead<'_>>,
    answer: impl Fn(Option<ValueRef<'_>>) -> Result<T>,
) -> Result<RecordAnswer<T>> {
    read.and_then(|read| match read {
        UnshardedRead::NotFound => Ok(Ok(None)),
        UnshardedRead::Sharded => Ok(Err(())),
        UnshardedRead::Value(value) => answer(value).map(|answer| Ok(Some(answer))),
    })
}

fn is_true(value: Option<ValueRef<'_>>) -> Result<bool> {
    Ok(value == Some(ValueRef::Bool(true)))
}

/// The value of the first entry.
fn first_value(value: Option<ValueRef<'_>>) -> Result<Option<Value>> {
    let map = value.and_then(|value| value.as_map());
    let Some(entry) = map.and_then(|map| map.iter().next()) else {
        return Ok(None);
    };
    let value = entry.and_then(|(_, value)| value.to_value());
    value.map(Some).map_err(malformed)
}

/// The edges of a list or map that was read.
fn edges_of(value: Option<ValueRef<'_>>) -> Result<Vec<SideEdge>> {
    let mut edges = Vec::with_capacity(elements_of(value));
    each_edge(value, |key, attributes| {
        let attributes = attributes.map_or(Ok(Value::Nil), |attributes| attributes.to_value());
        edges.push((key, attributes.map_err(malformed)?));
        Ok(())
    })?;
    Ok(edges)
}

/// The keys at the other ends of the edges of a list or map that was read.
fn keys_of(value: Option<ValueRef<'_>>) -> Result<Vec<Key<'static>>> {
    let mut keys = Vec::with_capacity(elements_of(value));
    each_edge(value, |key, _| {
        keys.push(key);
        Ok(())
    })?;
    Ok(keys)
}

fn elements_of(value: Option<ValueRef<'_>>) -> usize {
    match value {
        Some(ValueRef::List(list)) => list.len(),
        Some(ValueRef::Map(map)) => map.len(),
        _ => 0,
    }
}

/// Passes the key and the attributes of each edge in a list or map that was read to `each`.
fn each_edge(
    value: Option<ValueRef<'_>>,
    mut each: impl FnMut(Key<'static>, Option<ValueRef<'_>>) -> Result<()>,
) -> Result<()> {
    match value {
        Some(ValueRef::List(list)) => {
            for element in list {
                each(key_of_ref(element.map_err(malformed)?)?.into_owned(), None)?;
            }
        }
        Some(ValueRef::Map(map)) => {
            for entry in map {
                let (key, attributes) = entry.map_err(malformed)?;
                each(key_of_ref(key)?.into_owned(), Some(attributes))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the page among the edges that were read; `None` where the handle must read again:
/// another program has made the list without order, has put keys there more than once, or one that
/// is read as a key before the page.
fn page_of(mut read: Vec<SideEdge>, after: Option<&Key<'_>>, limit: u64) -> Option<Vec<SideEdge>> {
    let is_ordered = read.is_sorted_by(|(one, _), (next, _)| one < next);
    if after.is_some() && read.first().map(|(key, _)| key) == after {
        read.remove(0);
    }
    let is_behind = read.first().is_none_or(|(key, _)| Some(key) > after);
    read.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    (is_ordered && is_behind).then_some(read)
}

fn malformed(source: crate::value::CodecError) -> Error {
    Error::malformed("element", source)
}
