//! One side of a relation: a collection of keys in each record of a set.

use std::fmt;

use super::declared::{DeclaredSide, SideForm};
use super::keys::{element_of, key_of};
use crate::expressions::{bin_exists, not};
use crate::operations::{lists, maps};
use crate::record::{Record, SHARD_OF, SUBKEYS};
use crate::shard::ShardPolicy;
use crate::value::Value;
use crate::{
    AtomicWrites, Error, Key, ListReturnType, MapReturnType, Operation, RecordCall, RecordSet,
    RecordStore, Result, ShardedList, ShardedMap, WritePolicy,
};

/// An edge as one side has it: the key at its other end, and its attributes.
pub(super) type Edge = (Key<'static>, Value);

/// A collection of keys in a bin of each record of a set: an ordered list, or a map from keys to the attributes of edges.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) set: Box<str>,
    pub(super) bin: Box<str>,
    pub(super) has_attributes: bool,
    pub(super) shard_policy: ShardPolicy,
    pub(super) write_policy: WritePolicy,
}

/// Shows set and bin, as errors name them.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bin \"{}\" of set \"{}\"", self.bin, self.set)
    }
}

impl Side {
    pub(super) fn new(set: &str, bin: &str) -> Self {
        Self {
            set: set.into(),
            bin: bin.into(),
            has_attributes: false,
            shard_policy: ShardPolicy::default(),
            write_policy: WritePolicy::default(),
        }
    }

    /// Returns what is declared of this side. `to`: the set of the records that it leads to.
    pub(super) fn declared(&self, role: &str, to: &str) -> DeclaredSide {
        let form = match self.has_attributes {
            true => SideForm::Map,
            false => SideForm::List,
        };
        DeclaredSide::new(role, (&self.set, &self.bin), form, to)
    }

    pub(super) fn list<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
    ) -> Result<ShardedList<S::Records>> {
        let policy = &self.write_policy;
        let list = ShardedList::new_with(store, &self.set, owner, &self.bin, policy)?;
        Ok(list.policy(self.shard_policy))
    }

    pub(super) fn map<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
    ) -> Result<ShardedMap<S::Records>> {
        let policy = &self.write_policy;
        let map = ShardedMap::new_with(store, &self.set, owner, &self.bin, policy)?;
        Ok(map.policy(self.shard_policy))
    }

    /// Adds an edge, or changes its attributes. Returns whether it is new.
    pub(super) fn add<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        other: &Key<'_>,
        attributes: &Value,
    ) -> Result<bool> {
        let element = element_of(other);
        if self.has_attributes {
            self.map(store, owner)?.put(element, attributes.clone())
        } else {
            self.list(store, owner)?.add(element)
        }
    }

    /// Removes an edge. Returns whether it was there.
    pub(super) fn remove<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        other: &Key<'_>,
    ) -> Result<bool> {
        let element = element_of(other);
        if self.has_attributes {
            Ok(self.map(store, owner)?.remove(&element)?.is_some())
        } else {
            self.list(store, owner)?.remove(&element)
        }
    }

    /// Returns the attributes of an edge, nil where there are none; `None` if there is no such edge.
    pub(super) fn get<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        other: &Key<'_>,
    ) -> Result<Option<Value>> {
        let element = element_of(other);
        if self.has_attributes {
            return self.map(store, owner)?.get(&element);
        }
        let is_there = self.list(store, owner)?.contains(&element)?;
        Ok(is_there.then_some(Value::Nil))
    }

    pub(super) fn len<S: RecordStore>(&self, store: &S, owner: &Key<'_>) -> Result<u64> {
        if self.has_attributes {
            self.map(store, owner)?.len()
        } else {
            self.list(store, owner)?.len()
        }
    }

    pub(super) fn page<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<Edge>> {
        if self.has_attributes {
            edges_of_map(self.map(store, owner)?.page(offset, limit)?)
        } else {
            edges_of_list(self.list(store, owner)?.page(offset, limit)?)
        }
    }

    pub(super) fn page_after<S: RecordStore>(
        &self,
        store: &S,
        owner: &Key<'_>,
        after: Option<&Key<'_>>,
        limit: u64,
    ) -> Result<Vec<Edge>> {
        let after = after.map(element_of);
        if self.has_attributes {
            edges_of_map(self.map(store, owner)?.page_after(after.as_ref(), limit)?)
        } else {
            edges_of_list(self.list(store, owner)?.page_after(after.as_ref(), limit)?)
        }
    }

    /// Deletes the whole collection of a record, with its companions.
    pub(super) fn delete<S: RecordStore>(&self, store: &S, owner: &Key<'_>) -> Result<()> {
        if self.has_attributes {
            self.map(store, owner)?.delete()?;
        } else {
            self.list(store, owner)?.delete()?;
        }
        Ok(())
    }

    /// Returns the first `limit` edges of each of these records, in one batch; sharded ones are read one by one.
    pub(super) fn first_of_each<S: RecordStore>(
        &self,
        store: &S,
        owners: &[Key<'_>],
        limit: u64,
    ) -> Result<Vec<Vec<Edge>>> {
        let read = if self.has_attributes {
            maps::get_by_index_range_count(&self.bin, 0, limit, MapReturnType::KeyValue)
        } else {
            lists::get_by_index_range_count(&self.bin, 0, limit, ListReturnType::Values)
        };
        self.ask_each(
            store,
            owners,
            |_| read.clone(),
            |value| match value {
                Some(Value::List(list)) => edges_of_list(list.into_items()),
                Some(Value::Map(map)) => edges_of_map(map.into_entries()),
                _ => Ok(Vec::new()),
            },
            |owner| self.page(store, owner, 0, limit),
        )
        .map(|pages| pages.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Returns for each of these records whether it has an edge to `other`, in one batch; `None`: there is no record.
    pub(super) fn each_has<S: RecordStore>(
        &self,
        store: &S,
        owners: &[Key<'_>],
        other: &Key<'_>,
    ) -> Result<Vec<Option<bool>>> {
        let element = element_of(other);
        let count = if self.has_attributes {
            maps::get_by_key(&self.bin, element, MapReturnType::Count)
        } else {
            lists::get_by_value(&self.bin, element, ListReturnType::Count)
        };
        self.ask_each(
            store,
            owners,
            |_| count.clone(),
            |value| Ok(matches!(value, Some(Value::Int(1..)))),
            |owner| Ok(self.get(store, owner, other)?.is_some()),
        )
    }

    /// Asks one thing of each of these records in a batch, and of those with sharded collections one by one.
    fn ask_each<S: RecordStore, T>(
        &self,
        store: &S,
        owners: &[Key<'_>],
        question: impl Fn(&Key<'_>) -> Operation,
        answer: impl Fn(Option<Value>) -> Result<T>,
        ask_sharded: impl Fn(&Key<'_>) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let unsharded = WritePolicy::default().filter(not(bin_exists(SUBKEYS)));
        let questions: Vec<[Operation; 1]> = owners.iter().map(|owner| [question(owner)]).collect();
        let calls: Vec<RecordCall<'_>> = owners
            .iter()
            .zip(&questions)
            .map(|(owner, operations)| RecordCall {
                policy: &unsharded,
                key: owner.into(),
                operations,
            })
            .collect();
        let results = store.records(&self.set)?.operate_on_each(&calls);
        let asked = owners.iter().zip(results);
        asked
            .map(|(owner, result)| match result {
                Ok(result) => answer(result.value(0).cloned()).map(Some),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(Error::FilteredOut { .. }) => ask_sharded(owner).map(Some),
                Err(error) => Err(error),
            })
            .collect()
    }

    /// Returns whether a scanned record is the root of such a collection, or may be.
    pub(super) fn may_have_edges(&self, record: &Record) -> bool {
        let view = record.view();
        view.bin(SHARD_OF).is_none()
            && (view.bin(&self.bin).is_some() || view.bin(SUBKEYS).is_some())
    }

    /// Returns the keys of all records that have edges on this side. Memory for their keys, one scan.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a record without a stored key; the first record that is damaged, after the scan.
    pub(super) fn owners<S: RecordStore>(&self, store: &S) -> Result<Vec<Key<'static>>> {
        let mut owners = Vec::new();
        let mut keyless = false;
        store.records(&self.set)?.scan_records(&mut |record| {
            if self.may_have_edges(record) {
                match record.key() {
                    Some(key) => owners.push(key.into_owned()),
                    None => keyless = true,
                }
            }
        })?;
        if keyless {
            return Err(Error::parameter(format!(
                "a record of set {:?} has no stored key, so its edges cannot be followed: write it with WritePolicy::send_key",
                self.set
            )));
        }
        Ok(owners)
    }
}

/// Deletes the collection of a record, if nothing is in it.
pub(super) struct DeleteEmpty<'a> {
    pub(super) side: &'a Side,
    pub(super) key: &'a Key<'a>,
}

impl AtomicWrites for DeleteEmpty<'_> {
    type Output = ();

    fn make<S: RecordStore>(&self, store: &S) -> Result<()> {
        match self.side.len(store, self.key)? {
            0 => self.side.delete(store, self.key),
            _ => Ok(()),
        }
    }
}

fn edges_of_list(elements: Vec<Value>) -> Result<Vec<Edge>> {
    let edge = |element| Ok((key_of(element)?, Value::Nil));
    elements.into_iter().map(edge).collect()
}

fn edges_of_map(entries: Vec<(Value, Value)>) -> Result<Vec<Edge>> {
    let edge = |(key, attributes)| Ok((key_of(key)?, attributes));
    entries.into_iter().map(edge).collect()
}
