//! `Sharded`: what the handles of lists, maps and counters have in common.

use std::marker::PhantomData;
use std::ops::Bound;

use super::content::{Act, ShardedKind, first};
use super::element_hash::hash_of;
use super::executor::Executor;
use super::handle::{Handle, ShardedReading};
use super::merge::{self, Sorted};
use super::policy::ShardPolicy;
use super::shards::Shards;
use super::sorted::{SortedBin, ViewShards};
use super::state::ShardState;
use crate::{Error, Key, Operation, RecordSet, RecordStore, Result, Value, WritePolicy};

/// A collection under one key of a record, however many records hold it: a
/// [`ShardedList`](crate::ShardedList), a [`ShardedMap`](crate::ShardedMap) or a
/// [`ShardedCounter`](crate::ShardedCounter).
#[derive(Debug)]
pub struct Sharded<R, K> {
    pub(super) handle: Handle<R>,
    pub(super) kind: K,
}

impl<R: RecordSet, K: ShardedKind> Sharded<R, K> {
    /// Returns a handle of the collection in this bin of the record of this key. Reads and writes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed, and
    /// for a bin that describes shards; [`Error::BinName`](crate::Error::BinName).
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, &WritePolicy::default())
    }

    /// Returns a handle that writes by a policy, of which `total_timeout`, `send_key` and
    /// `durable_delete` count, and `expiration` as long as the collection is unsharded.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        policy: &WritePolicy,
    ) -> Result<Self> {
        let (records, executor) =
            Executor::in_store(store, (set, key, bin), K::COLLECTION, policy)?;
        let mut handle = Handle::new(records, executor);
        handle.set_policy(K::shard_policy());
        Ok(Self {
            handle,
            kind: K::default(),
        })
    }

    /// Sets when the collection is sharded of its own accord. Without this call,
    /// [`ShardPolicy::default`] decides; for a counter, writers that queue for it do, and its
    /// shards are merged when it has become quiet ([`ShardPolicy::contention`] and
    /// [`ShardPolicy::merge_when_quiet`]).
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Returns the collection's shards: where it is, and its transitions.
    pub const fn shards(&self) -> Shards<'_, R> {
        Shards::new(&self.handle)
    }

    /// Asks the record that has an element.
    pub(super) fn find(&self, element: &Value, operation: Operation) -> Result<Option<Value>> {
        let act = Act::of_existing([operation]);
        Ok(first(self.handle.find(hash_of(element)?, act)?))
    }

    /// Changes the record that has an element, if there is one.
    pub(super) fn change(&self, element: &Value, operation: Operation) -> Result<Option<Value>> {
        let act = Act::of_existing([operation]);
        Ok(first(self.handle.write(hash_of(element)?, act)?))
    }

    /// Asks every record of the collection the same, in one batch. Records without an answer are
    /// left out.
    pub(super) fn answers(&self, operation: Operation) -> Result<Vec<Value>> {
        let act = Act::of_existing([operation]);
        let answers = self.handle.read(|pass| pass.ask_all(&act))?;
        Ok(answers.into_iter().filter_map(first).collect())
    }

    /// Deletes the collection with all its companions: [`Shards::delete`].
    ///
    /// # Errors
    /// As for [`Shards::delete`].
    pub fn delete(&self) -> Result<ShardState> {
        self.shards().delete()
    }
}

/// The elements of a list, or the entries of a map, in order.
impl<R: RecordSet, K: ShardedKind + SortedBin> Sharded<R, K> {
    /// Reads the collection as a whole: `read` is called again when the shards have changed
    /// meanwhile.
    pub(super) fn merged<T>(
        &self,
        mut read: impl FnMut(&mut ViewShards<'_, R, K>) -> ShardedReading<T>,
    ) -> Result<T> {
        self.handle
            .read(|pass| read(&mut ViewShards(pass, PhantomData)))
    }

    /// Returns how many there are. O(shards).
    ///
    /// # Errors
    /// What a read of one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as
    /// they should be.
    pub fn len(&self) -> Result<u64> {
        self.merged(|shards| merge::len(shards))
    }

    /// Returns whether there are none. O(shards).
    ///
    /// # Errors
    /// As for [`Sharded::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns at most `limit` of them from this position in the order of all. Those before it are
    /// not read: O(shards log^2 N + limit).
    ///
    /// # Errors
    /// As for [`Sharded::len`]; [`Error::Parameter`] for an element of another program that is read
    /// as a value by which it is not found, so that a page cannot go on behind it: a blob of
    /// another language, a text that is not UTF-8, an integer above the signed ones.
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<K::Item>> {
        self.findable(limit, |shards| merge::page(shards, offset, limit))
    }

    /// Returns the first `limit` of them behind `cursor` (`None`: the first of all). A cursor is an
    /// element or a key of a map, so it stays valid through all transitions. O(shards log N +
    /// limit).
    ///
    /// # Errors
    /// As for [`Sharded::page`].
    pub fn page_after(&self, cursor: Option<&Value>, limit: u64) -> Result<Vec<K::Item>> {
        let from = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        self.range(from, Bound::Unbounded, limit)
    }

    /// Returns the first `limit` of them from a position on or, if there is a cursor, behind that.
    pub(crate) fn page_from(
        &self,
        (offset, cursor): (u64, Option<&Value>),
        limit: u64,
    ) -> Result<Vec<K::Item>> {
        match cursor {
            None => self.page(offset, limit),
            cursor => self.page_after(cursor, limit),
        }
    }

    /// Returns the first `limit` of them between two bounds. Costs as [`Sharded::page_after`].
    ///
    /// # Errors
    /// As for [`Sharded::page`].
    pub fn range(
        &self,
        from: Bound<&Value>,
        to: Bound<&Value>,
        limit: u64,
    ) -> Result<Vec<K::Item>> {
        for bound in [from, to] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound {
                hash_of(value)?;
            }
        }
        self.findable(limit, |shards| merge::range(shards, from, to, limit))
    }

    /// Reads at most `limit` of them, of which the last one is the cursor of the next page. Refuses
    /// one that is there and not found: the next page would begin elsewhere.
    fn findable(
        &self,
        limit: u64,
        mut read: impl FnMut(&mut ViewShards<'_, R, K>) -> ShardedReading<Vec<K::Item>>,
    ) -> Result<Vec<K::Item>> {
        let items = self.merged(&mut read)?;
        let last = items.last().map(Sorted::sorted_by);
        let Some(last) =
            last.filter(|last| items.len() as u64 == limit && merge::is_ambiguous(last))
        else {
            return Ok(items);
        };
        for _ in 0..2 {
            if self.find(last, K::has(self.handle.bin(), last))? == Some(Value::Bool(true)) {
                return Ok(items);
            }
            // Another caller may have removed it meanwhile, or removed it and put it back.
            let again = self.merged(&mut read)?;
            if !again.iter().any(|item| item.sorted_by() == last) {
                return Ok(items);
            }
        }
        Err(Error::parameter(merge::not_found_by(last)))
    }

    /// Returns all of them in order, read in batches: one that is added or removed meanwhile may be
    /// seen or not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<K::Item>> + '_ {
        merge::in_pages(|last: Option<&K::Item>, limit| {
            self.page_after(last.map(Sorted::sorted_by), limit)
        })
    }
}
