//! `ShardedMap`: a map ordered by key, in one record or in many.

use std::ops::{Bound, ControlFlow};

use super::content::{Act, Answer, Collection};
use super::handle::{Handle, Pass, Reading, Unread};
use super::merge::{self, Slice, SortedShards, Start};
use super::policy::ShardPolicy;
use super::protocol::begin::Goal;
use super::route::hash_of;
use super::state::{ShardProgress, ShardState};
use crate::operations::maps;
use crate::{Key, MapReturnType, Operation, RecordSet, RecordStore, Result, Value, WritePolicy};

/// How many entries an iteration reads at once.
const ITER_BATCH: u64 = 512;

/// A map ordered by key under one key of a record, however many records hold it.
///
/// While the map is in its root record, each call is one operation on that record. Once it has been spread, a call for one
/// key goes to the one companion that holds it, and calls for the whole map merge what the companions answer. Spreading
/// goes on while others read and write, and any handle carries on what another has left unfinished.
///
/// Calls for one key are linearizable. Calls for the whole map are no snapshot: every key that is there during the whole
/// call is seen exactly once, with a value that it had meanwhile, and none is that is absent during the whole call.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedMap, Store};
///
/// let store = Store::in_memory()?;
/// let scores = ShardedMap::new(&store, "games", "tetris", "scores")?;
/// for player in 0..100 {
///     scores.put(player, player * 10)?;
/// }
/// scores.activate(4)?;
/// assert!(!scores.put(7, 75)?);
/// assert_eq!(scores.get(&7.into())?, Some(75.into()));
/// assert_eq!(scores.page(50, 1)?, [(50.into(), 500.into())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardedMap<R> {
    handle: Handle<R>,
}

/// A key and its value.
type Entry = (Value, Value);

impl<R: RecordSet> ShardedMap<R> {
    /// The map in a bin of the record of this key. Nothing is read or written.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a name of a set that is not allowed.
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, &WritePolicy::default())
    }

    /// The same by a policy, of which the time limit, the expiration of the root and whether keys are stored count.
    ///
    /// # Errors
    /// As for [`ShardedMap::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        policy: &WritePolicy,
    ) -> Result<Self> {
        let key = key.into().into_owned();
        let handle = Handle::new(store.records(set)?, key, bin, Collection::Map, policy)?;
        Ok(Self { handle })
    }

    /// When the map is spread without being asked to; [`ShardPolicy::default`] otherwise.
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Writes the value of a key. Returns whether the key is new. One operation on one record, unless the shards have
    /// changed since the last call; O(log N).
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as they should be.
    pub fn put(&self, key: impl Into<Value>, value: impl Into<Value>) -> Result<bool> {
        let key = key.into();
        let hash = hash_of(&key)?;
        let bin = self.handle.bin();
        let put = maps::put(&Collection::map_policy(), bin, key, value);
        let act = Act::creating([maps::size(bin), put]);
        let answer = self.handle.write(hash, act)?.unwrap_or_default();
        let [before, after] = &answer[..] else {
            return Ok(false);
        };
        Ok(number(before.as_ref()) < number(after.as_ref()))
    }

    /// The value of a key; `None` if the key is not there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn get(&self, key: &Value) -> Result<Option<Value>> {
        let get = maps::get_by_key_list(self.handle.bin(), vec![key.clone()], ENTRIES);
        let answer = self.handle.find(hash_of(key)?, Act::of_existing([get]))?;
        Ok(only_value(answer))
    }

    /// Whether a key is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn contains(&self, key: &Value) -> Result<bool> {
        let count = maps::get_by_key(self.handle.bin(), key.clone(), MapReturnType::Count);
        let answer = self.handle.find(hash_of(key)?, Act::of_existing([count]))?;
        Ok(first_number(answer) > 0)
    }

    /// Removes a key. Returns the value that it had; `None` if it was not there. Costs as [`ShardedMap::put`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn remove(&self, key: &Value) -> Result<Option<Value>> {
        let remove = maps::remove_by_key_list(self.handle.bin(), vec![key.clone()], ENTRIES);
        let answer = self
            .handle
            .write(hash_of(key)?, Act::of_existing([remove]))?;
        Ok(only_value(answer))
    }

    /// How many keys there are. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn len(&self) -> Result<u64> {
        self.merged(|shards| merge::len(shards))
    }

    /// Whether there are none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// At most `limit` entries from a position in the order of all keys on. The entries before it are not read:
    /// O(shards log^2 N + limit).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<(Value, Value)>> {
        self.merged(|shards| merge::page(shards, offset, limit))
    }

    /// The first `limit` entries whose keys are greater than `cursor` (`None`: the first of all). A cursor is a key, so it
    /// stays good whatever happens to the shards. O(shards log N + limit).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn page_after(&self, cursor: Option<&Value>, limit: u64) -> Result<Vec<(Value, Value)>> {
        self.merged(|shards| merge::page_after(shards, cursor, limit))
    }

    /// The first `limit` entries whose keys are between two bounds. Costs as [`ShardedMap::page_after`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn range(
        &self,
        from: Bound<&Value>,
        to: Bound<&Value>,
        limit: u64,
    ) -> Result<Vec<(Value, Value)>> {
        self.merged(|shards| merge::range(shards, from, to, limit))
    }

    /// All entries in the order of keys, read in batches: what is put or removed meanwhile may be seen or not. Ends after
    /// an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Value, Value)>> + '_ {
        let mut cursor = Some(None);
        std::iter::from_fn(move || {
            let last: Option<Value> = cursor.take()?;
            Some(match self.page_after(last.as_ref(), ITER_BATCH) {
                Ok(page) => {
                    cursor = page.last().map(|(key, _)| Some(key.clone()));
                    page.into_iter().map(Ok).collect::<Vec<_>>()
                }
                Err(error) => vec![Err(error)],
            })
        })
        .flatten()
    }

    /// Spreads the map over so many companions, a power of two, unless it is spread already.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for another number; as for [`ShardedMap::put`];
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) if another record has the key of a companion, and then
    /// nothing was changed.
    pub fn activate(&self, shards: u64) -> Result<ShardState> {
        self.activate_with(shards, |_| ControlFlow::Continue(()))
    }

    /// [`ShardedMap::activate`], watched: `observe` is called before each companion, and may stop it there. The map
    /// stays readable; the next writer, or [`ShardedMap::help`], carries on.
    ///
    /// # Errors
    /// As for [`ShardedMap::activate`].
    pub fn activate_with(
        &self,
        shards: u64,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.activate(shards, observe)
    }

    /// Splits every companion in two.
    ///
    /// # Errors
    /// As for [`ShardedMap::activate`]; [`Error::OpNotApplicable`](crate::Error::OpNotApplicable) for a map in
    /// one record.
    pub fn split(&self) -> Result<ShardState> {
        self.split_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedMap::split`], watched as [`ShardedMap::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedMap::split`].
    pub fn split_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Split, observe)
    }

    /// Merges the companions by twos.
    ///
    /// # Errors
    /// As for [`ShardedMap::split`], also for a map in one companion.
    pub fn merge(&self) -> Result<ShardState> {
        self.merge_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedMap::merge`], watched as [`ShardedMap::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedMap::merge`].
    pub fn merge_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Merge, observe)
    }

    /// Brings the map back into one record.
    ///
    /// # Errors
    /// As for [`ShardedMap::put`]; [`Error::RecordTooBig`](crate::Error::RecordTooBig) if one record cannot hold it.
    pub fn demote(&self) -> Result<ShardState> {
        self.demote_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedMap::demote`], watched as [`ShardedMap::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedMap::demote`].
    pub fn demote_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Demote, observe)
    }

    /// Deletes the map with all its companions. Other bins of the root stay.
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn delete(&self) -> Result<ShardState> {
        self.delete_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedMap::delete`], watched as [`ShardedMap::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedMap::delete`].
    pub fn delete_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Delete, observe)
    }

    /// Carries a transition that somebody has left to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn help(&self) -> Result<bool> {
        self.handle.help()
    }

    /// Where the map is. One operation.
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn state(&self) -> Result<ShardState> {
        Ok(ShardState::of(self.handle.root()?))
    }

    fn merged<T>(&self, mut read: impl FnMut(&mut Shards<'_, R>) -> Reading<T>) -> Result<T> {
        self.handle.read(|pass| {
            read(&mut Shards {
                pass,
                bin: self.handle.bin(),
            })
        })
    }
}

const ENTRIES: MapReturnType = MapReturnType::KeyValue;

/// A result that is a number, 0 if there is none.
const fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}

/// What the first operation has answered.
fn first(answer: Option<Answer>) -> Option<Value> {
    answer.unwrap_or_default().into_iter().next().flatten()
}

fn first_number(answer: Option<Answer>) -> i64 {
    number(first(answer).as_ref())
}

/// The entries that the first operation has answered.
fn entries(answer: Option<Answer>) -> Vec<Entry> {
    match first(answer) {
        Some(Value::Map(map)) => map.into_entries(),
        _ => Vec::new(),
    }
}

/// The value of the one entry that was asked for.
fn only_value(answer: Option<Answer>) -> Option<Value> {
    entries(answer).into_iter().next().map(|(_, value)| value)
}

/// The records of a view as sorted shards. The entries of every map are stored by key, whatever its order.
struct Shards<'a, R> {
    pass: &'a Pass<'a, R>,
    bin: &'a str,
}

impl<R: RecordSet> Shards<'_, R> {
    fn slice(&self, slice: &Slice) -> Operation {
        let (bin, limit) = (self.bin, slice.to_read());
        match &slice.start {
            Start::Rank(rank) => {
                let index = i64::try_from(*rank).unwrap_or(i64::MAX);
                maps::get_by_index_range_count(bin, index, limit, ENTRIES)
            }
            Start::At(key) | Start::After(key) => {
                let key = key.clone();
                maps::get_by_key_relative_index_range_count(bin, key, 0, limit, ENTRIES)
            }
        }
    }
}

impl<R: RecordSet> SortedShards for Shards<'_, R> {
    type Item = Entry;
    type Error = Unread;

    fn shards(&self) -> usize {
        self.pass.sources()
    }

    fn counts(
        &mut self,
        shards: &[usize],
        from: Option<&Value>,
        to: Option<&Value>,
    ) -> Reading<Vec<u64>> {
        let count = match (from, to) {
            (None, None) => maps::size(self.bin),
            (from, to) => {
                let count = MapReturnType::Count;
                maps::get_by_key_range(self.bin, from.cloned(), to.cloned(), count)
            }
        };
        let act = Act::of_existing([count]);
        let asked = shards.iter().map(|shard| (*shard, act.clone())).collect();
        let answers = self.pass.ask(asked)?.into_iter();
        Ok(answers
            .map(|answer| first_number(answer).max(0) as u64)
            .collect())
    }

    fn slices(&mut self, slices: &[Slice]) -> Reading<Vec<Vec<Entry>>> {
        let acts = slices
            .iter()
            .map(|slice| (slice.shard, Act::of_existing([self.slice(slice)])));
        let answers = self.pass.ask(acts.collect())?;
        let slices = slices.iter().zip(answers);
        slices
            .map(|(slice, answer)| Ok(slice.of(entries(answer))?))
            .collect()
    }
}
