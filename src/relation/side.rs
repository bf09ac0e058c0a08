//! One side of a relation: a collection of keys in each record of a set.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::address::Address;
use super::keys::{element_of, keys_in, read_one};
use super::writes::patient;
use crate::engine::declaration::{DeclaredSide, SideForm};
use crate::error::ShardLoss;
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, eq, list_bin, lists, map_bin, maps, not, or};
use crate::operations::delete_all_bins;
use crate::record::SUBKEYS;
use crate::shard::{PAUSE_MS, ShardPolicy, Shards, is_ahead};
use crate::value::Value;
use crate::{
    Error, Expiration, Key, RecordSet, RecordStore, Result, ShardedList, ShardedMap, WritePolicy,
};

/// An edge as one side has it: the key at its other end, and its attributes.
pub(super) type SideEdge = (Key<'static>, Value);

/// A collection of keys in a bin of each record of a set: an ordered list, or a map from keys to
/// the attributes of edges.
#[derive(Clone, Debug)]
pub(super) struct RelationSide {
    pub(super) set: Box<str>,
    pub(super) bin: Box<str>,
    pub(super) has_attributes: bool,
    pub(super) shard_policy: ShardPolicy,
    pub(super) write_policy: WritePolicy,
    pub(super) attempts: RecentAttempts,
    /// Whether an edge is refused where there is no record that has it.
    pub(super) owner_must_exist: bool,
}

/// How many records with an obstacle are remembered: further ones meet theirs again at each write.
const ATTEMPTS_MAX: usize = 64;

/// The records with collections that were to be sharded of late. Where that met an obstacle, the
/// next writes do not try it again.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentAttempts(Arc<Mutex<VecDeque<(Address, u64)>>>);

/// Shows set and bin, as errors name them.
impl fmt::Display for RelationSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bin \"{}\" of set \"{}\"", self.bin, self.set)
    }
}

impl RelationSide {
    pub(super) fn new(set: &str, bin: &str) -> Self {
        Self {
            set: set.into(),
            bin: bin.into(),
            has_attributes: false,
            shard_policy: ShardPolicy::default(),
            attempts: RecentAttempts::default(),
            // An edge is no reason to live longer, or for ever.
            write_policy: patient().expiration(Expiration::DontUpdate),
            owner_must_exist: false,
        }
    }

    /// Returns whether the collection of a record may be sharded now, and notes the attempt.
    pub(super) fn may_shard(&self, key: &Key<'_>, now_ms: u64) -> bool {
        let mut attempts = self.attempts.0.lock();
        attempts
            .retain(|(_, begun_ms)| is_ahead(begun_ms.saturating_add(PAUSE_MS), now_ms, PAUSE_MS));
        let is_known = |(known, _): &(Address, u64)| *known.set == *self.set && known.key == *key;
        if attempts.iter().any(is_known) {
            return false;
        }
        attempts.truncate(ATTEMPTS_MAX - 1);
        attempts.push_front((Address::new(&self.set, key), now_ms));
        true
    }

    /// Whether both are in one bin, as the sides of a symmetrical relation are.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.set, &self.bin) == (&other.set, &other.bin)
    }

    /// Returns the declaration of this side. `to`: the set of the records that it leads to.
    pub(super) fn declared(&self, role: &str, to: &str) -> DeclaredSide {
        let form = if self.has_attributes {
            SideForm::Map
        } else {
            SideForm::List
        };
        DeclaredSide::new(role, (&self.set, &self.bin), form, to)
    }

    /// The side that a declaration has; `None`: it is no collection. It shards nothing of its own
    /// accord: the policies of the relation's handles are not declared.
    pub(super) fn of(declared: &DeclaredSide) -> Option<Self> {
        let bin = declared
            .bin
            .as_deref()
            .filter(|_| declared.is_collection())?;
        let mut side = Self::new(&declared.set, bin);
        side.has_attributes = declared.form == SideForm::Map;
        side.shard_policy = ShardPolicy::manual();
        Some(side)
    }

    /// Returns the collection of a record in a store.
    pub(super) const fn at<'a, S>(&'a self, store: &'a S, owner: &'a Key<'a>) -> OwnedEdges<'a, S> {
        OwnedEdges {
            side: self,
            store,
            owner,
        }
    }

    /// The condition that a record has no edge of this side, unless the collection is sharded.
    fn has_none(&self) -> Expression {
        let size = if self.has_attributes {
            maps::size(map_bin(&self.bin), &[])
        } else {
            lists::size(list_bin(&self.bin), &[])
        };
        or([not(bin_exists(&self.bin)), eq(size, 0)])
    }

    /// Returns the keys of all records that have edges on this side. Memory for their keys, one
    /// scan.
    ///
    /// # Errors
    /// As for [`keys_in`].
    pub(super) fn owners<S: RecordStore>(&self, store: &S) -> Result<Vec<Key<'static>>> {
        keys_in(store, &self.set, |record| {
            let view = record.view();
            view.bin(&self.bin).is_some() || view.bin(SUBKEYS).is_some()
        })
    }
}

/// The collection of one record, in a store.
pub(super) struct OwnedEdges<'a, S> {
    pub(super) side: &'a RelationSide,
    pub(super) store: &'a S,
    pub(super) owner: &'a Key<'a>,
}

impl<S: RecordStore> OwnedEdges<'_, S> {
    pub(super) fn list(&self) -> Result<ShardedList<S::Records>> {
        let RelationSide { set, bin, .. } = self.side;
        let policy = &self.side.write_policy;
        let list = ShardedList::new_with(self.store, set, self.owner, bin, policy)?;
        Ok(list.policy(self.side.shard_policy))
    }

    pub(super) fn map(&self) -> Result<ShardedMap<S::Records>> {
        let RelationSide { set, bin, .. } = self.side;
        let policy = &self.side.write_policy;
        let map = ShardedMap::new_with(self.store, set, self.owner, bin, policy)?;
        Ok(map.policy(self.side.shard_policy))
    }

    /// Asks the collection for its shards, or changes them.
    fn shards<T>(&self, act: fn(Shards<'_, S::Records>) -> Result<T>) -> Result<T> {
        if self.side.has_attributes {
            act(self.map()?.shards())
        } else {
            act(self.list()?.shards())
        }
    }

    /// Returns whether the collection is sharded, or on its way there or back. One read.
    pub(super) fn is_sharded(&self) -> Result<bool> {
        let state = self.shards(|shards| shards.state())?;
        Ok(state.shards > 0 || state.transition.is_some())
    }

    /// Returns the attributes of an edge by its element, nil where there are none; `None` if there
    /// is no such edge.
    pub(super) fn get_element(&self, element: &Value) -> Result<Option<Value>> {
        if self.side.has_attributes {
            return self.map()?.get(element);
        }
        let is_there = self.list()?.contains(element)?;
        Ok(is_there.then_some(Value::Nil))
    }

    /// Adds an edge, or changes its attributes. Returns whether it is new.
    pub(super) fn add(&self, other: &Key<'_>, attributes: &Value) -> Result<bool> {
        self.check_owner()?;
        self.put_element(element_of(other), attributes)
    }

    /// Refuses an owner that does not exist, if it must.
    pub(super) fn check_owner(&self) -> Result<()> {
        if self.side.owner_must_exist {
            check_exists(self.store, &self.side.set, self.owner)
        } else {
            Ok(())
        }
    }

    /// Adds an edge by its element, to a record that was checked. Returns whether it is new.
    pub(super) fn put_element(&self, element: Value, attributes: &Value) -> Result<bool> {
        if self.side.has_attributes {
            self.map()?.put(element, attributes.clone())
        } else {
            self.list()?.add(element)
        }
    }

    /// Removes an edge. Returns whether it was there.
    pub(super) fn remove(&self, other: &Key<'_>) -> Result<bool> {
        self.remove_element(&element_of(other))
    }

    /// Removes an edge by its element. Returns whether it was there.
    pub(super) fn remove_element(&self, element: &Value) -> Result<bool> {
        if self.side.has_attributes {
            Ok(self.map()?.remove(element)?.is_some())
        } else {
            self.list()?.remove(element)
        }
    }

    /// Deletes the whole collection, with its companions.
    pub(super) fn delete(&self) -> Result<()> {
        self.shards(|mut shards| shards.delete_owned()).map(drop)
    }

    /// Moves a sharded collection back into its record, if nothing is in it. Returns whether
    /// nothing is in the collection, sharded or not.
    pub(super) fn unshard_empty(&self) -> Result<bool> {
        if self.len()? > 0 {
            return Ok(false);
        }
        // Not deleted: others may add to its shards meanwhile.
        self.shards(|mut shards| shards.deactivate())?;
        Ok(true)
    }
}

/// Refuses a record that does not exist. One read.
///
/// # Errors
/// [`Error::NotFound`], with the record.
pub(super) fn check_exists<S: RecordStore>(store: &S, set: &str, key: &Key<'_>) -> Result<()> {
    match read_one(&store.records(set)?, key, Some(&[]))? {
        Some(_) => Ok(()),
        None => Err(Error::not_found().about(set, key)),
    }
}

/// Deletes a record after its collections on these sides, all of its set, have been emptied.
/// Returns whether it is gone; false: others have added to them since.
///
/// # Errors
/// [`Error::ShardRoot`] for a record with other collections that are sharded.
pub(super) fn delete_emptied<S: RecordStore>(
    store: &S,
    (set, key): (&str, &Key<'_>),
    sides: &[&RelationSide],
) -> Result<bool> {
    let records = store.records(set)?;
    let unsharded = not(bin_exists(SUBKEYS));
    let empty = sides.iter().map(|side| side.has_none());
    let policy = WritePolicy::default().filter(empty.fold(unsharded, |all, one| and([all, one])));
    let delete = || match records.operate_on(&policy, key, &[delete_all_bins()]) {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(true),
        Err(Error::FilteredOut { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    if delete()? {
        return Ok(true);
    }
    for side in sides {
        if !side.at(store, key).unshard_empty()? {
            return Ok(false);
        }
    }
    if delete()? {
        return Ok(true);
    }
    let is_root = read_one(&records, key, Some(&[SUBKEYS]))?
        .is_some_and(|found| found.view().bin(SUBKEYS).is_some());
    for side in sides {
        let edges = side.at(store, key);
        if !is_root || edges.is_sharded()? || edges.len()? > 0 {
            return Ok(false);
        }
    }
    Err(Error::ShardRoot {
        set: set.into(),
        key: key.bare().into(),
        loses: ShardLoss::Now,
    })
}
