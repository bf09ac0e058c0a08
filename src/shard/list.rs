//! `ShardedList`: an ordered list of unique elements, in one record or in many.

use std::ops::{Bound, ControlFlow};

use super::content::{Act, Answer, Collection};
use super::handle::{Handle, Pass, Reading, Unread};
use super::merge::{self, Slice, SortedShards, Start};
use super::policy::ShardPolicy;
use super::protocol::begin::Goal;
use super::route::hash_of;
use super::state::{ShardProgress, ShardState};
use crate::operations::lists;
use crate::value::order::compare_total;
use crate::value::{Purpose, encode};
use crate::{Error, Key, ListReturnType, RecordSet, RecordStore, Result, Value, WritePolicy};

/// How many elements an iteration reads at once.
const ITER_BATCH: u64 = 512;

/// An ordered list of unique elements under one key, however many records hold it.
///
/// While the list is in its root record, each call is one operation on that record. Once it has been spread, a call for one
/// element goes to the one companion that holds it, and calls for the whole list merge what the companions answer. Spreading
/// goes on while others read and write, and any handle carries on what another has left unfinished.
///
/// Do not delete the root record, or let it expire, by other means than [`ShardedList::delete`]: handles that remember where the
/// elements are would go on, and others would not find them.
///
/// Calls for one element are linearizable. Calls for the whole list are no snapshot: every element that is there during the
/// whole call is seen exactly once, and none is that is absent during the whole call.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedList, Store};
///
/// let store = Store::in_memory()?;
/// let followers = ShardedList::new(&store, "followers", "alice", "by")?;
/// for id in 0..100 {
///     followers.add(id)?;
/// }
/// followers.activate(4)?;
/// assert!(!followers.add(7)?);
/// assert_eq!(followers.len()?, 100);
/// assert_eq!(followers.page(50, 2)?, [50.into(), 51.into()]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardedList<R> {
    handle: Handle<R>,
}

impl<R: RecordSet> ShardedList<R> {
    /// The list in a bin of the record of this key. Nothing is read or written.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed, and for the bins that describe shards.
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, &WritePolicy::default())
    }

    /// The same, by a policy: its timeout and `send_key` count, and its expiration as long as the list is in one record.
    /// Records of a list that has been spread do not expire.
    ///
    /// # Errors
    /// As for [`ShardedList::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        policy: &WritePolicy,
    ) -> Result<Self> {
        let records = store.records(set)?;
        let key = key.into().into_owned();
        let handle = Handle::new(records, key, bin, Collection::List, policy)?;
        Ok(Self { handle })
    }

    /// When the list is spread without being asked to; [`ShardPolicy::default`] otherwise.
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Adds an element. Returns whether it was not there before. One operation, O(log N), where the list has not moved
    /// since the last call.
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`], [`Error::ShardScheme`] or
    /// [`Error::ShardKeyCollision`] where the shards are not as they should be.
    pub fn add(&self, element: impl Into<Value>) -> Result<bool> {
        let element = element.into();
        let hash = hash_of(&element)?;
        let bin = self.handle.bin();
        let add = lists::append(&Collection::list_policy(), bin, element);
        let act = Act::creating([lists::size(bin), add]);
        let answer = self.handle.write(hash, act)?.unwrap_or_default();
        let [before, after] = &answer[..] else {
            return Ok(false);
        };
        Ok(number(before.as_ref()) < number(after.as_ref()))
    }

    /// Removes an element. Returns whether it was there. Costs and errors as [`ShardedList::add`].
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn remove(&self, element: &Value) -> Result<bool> {
        let count = ListReturnType::Count;
        let remove = lists::remove_by_value(self.handle.bin(), element.clone(), count);
        let answer = self
            .handle
            .write(hash_of(element)?, Act::of_existing([remove]))?;
        Ok(first(answer) > 0)
    }

    /// Whether an element is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn contains(&self, element: &Value) -> Result<bool> {
        let count = ListReturnType::Count;
        let find = lists::get_by_value(self.handle.bin(), element.clone(), count);
        let answer = self
            .handle
            .find(hash_of(element)?, Act::of_existing([find]))?;
        Ok(first(answer) > 0)
    }

    /// How many elements there are. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn len(&self) -> Result<u64> {
        self.merged(|shards| merge::len(shards))
    }

    /// Whether there are none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// At most `limit` elements from a position in the order of all on. The elements before it are not read:
    /// O(shards log^2 N + limit).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<Value>> {
        self.merged(|shards| merge::page(shards, offset, limit))
    }

    /// The first `limit` elements that are greater than `cursor` (`None`: the first of all). A cursor is an element, so it
    /// stays good whatever happens to the shards. O(shards log N + limit).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn page_after(&self, cursor: Option<&Value>, limit: u64) -> Result<Vec<Value>> {
        cursor.map_or(Ok(0), hash_of)?;
        self.merged(|shards| merge::page_after(shards, cursor, limit))
    }

    /// The first `limit` elements between two bounds. Costs as [`ShardedList::page_after`].
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn range(&self, from: Bound<&Value>, to: Bound<&Value>, limit: u64) -> Result<Vec<Value>> {
        for bound in [from, to] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound {
                hash_of(value)?;
            }
        }
        self.merged(|shards| merge::range(shards, from, to, limit))
    }

    /// All elements in order, read in batches: what is added or removed meanwhile may be seen or not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value>> + '_ {
        let mut cursor = Some(None);
        std::iter::from_fn(move || {
            let last: Option<Value> = cursor.take()?;
            Some(match self.page_after(last.as_ref(), ITER_BATCH) {
                Ok(page) => {
                    cursor = page.last().cloned().map(Some);
                    page.into_iter().map(Ok).collect::<Vec<_>>()
                }
                Err(error) => vec![Err(error)],
            })
        })
        .flatten()
    }

    /// Spreads the list over so many companions, a power of two, unless it is spread already.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another number; as for [`ShardedList::add`]; [`Error::ShardKeyCollision`] if another record
    /// has the key of a companion, and then nothing was changed.
    pub fn activate(&self, shards: u64) -> Result<ShardState> {
        self.activate_with(shards, |_| ControlFlow::Continue(()))
    }

    /// [`ShardedList::activate`], watched: `observe` is called before each companion, and may stop it there. The list stays
    /// readable; the next writer, or [`ShardedList::help`], carries on.
    ///
    /// # Errors
    /// As for [`ShardedList::activate`].
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
    /// As for [`ShardedList::activate`]; [`Error::OpNotApplicable`] for a list in one record.
    pub fn split(&self) -> Result<ShardState> {
        self.split_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedList::split`], watched as [`ShardedList::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedList::split`].
    pub fn split_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Split, observe)
    }

    /// Merges the companions by twos.
    ///
    /// # Errors
    /// As for [`ShardedList::split`], also for a list in one companion.
    pub fn merge(&self) -> Result<ShardState> {
        self.merge_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedList::merge`], watched as [`ShardedList::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedList::merge`].
    pub fn merge_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Merge, observe)
    }

    /// Brings the list back into one record.
    ///
    /// # Errors
    /// As for [`ShardedList::add`]; [`Error::RecordTooBig`] if one record cannot hold it.
    pub fn demote(&self) -> Result<ShardState> {
        self.demote_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedList::demote`], watched as [`ShardedList::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedList::demote`].
    pub fn demote_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Demote, observe)
    }

    /// Deletes the list with all its companions. Other bins of the root stay, and so does the number of the last transition
    /// where there was one.
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn delete(&self) -> Result<ShardState> {
        self.delete_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedList::delete`], watched as [`ShardedList::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedList::delete`].
    pub fn delete_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Delete, observe)
    }

    /// Carries a transition that somebody has left to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn help(&self) -> Result<bool> {
        self.handle.help()
    }

    /// Where the list is. One operation.
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
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

/// A result that is a number, 0 if there is none.
fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}

/// The number that the first operation has answered.
fn first(answer: Option<Answer>) -> i64 {
    number(answer.unwrap_or_default().first().and_then(Option::as_ref))
}

/// The records of a view as sorted shards.
struct Shards<'a, R> {
    pass: &'a Pass<'a, R>,
    bin: &'a str,
}

impl<R: RecordSet> SortedShards for Shards<'_, R> {
    type Item = Value;
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
            (None, None) => lists::size(self.bin),
            (from, to) => lists::get_by_value_range(
                self.bin,
                from.cloned(),
                to.cloned(),
                ListReturnType::Count,
            ),
        };
        let act = Act::of_existing([count]);
        let asked = shards.iter().map(|shard| (*shard, act.clone())).collect();
        let answers = self.pass.ask(asked)?.into_iter();
        Ok(answers.map(|answer| first(answer).max(0) as u64).collect())
    }

    fn slices(&mut self, slices: &[Slice]) -> Reading<Vec<Vec<Value>>> {
        let values = ListReturnType::Values;
        let acts = slices.iter().map(|slice| {
            let bin = self.bin;
            let read = match &slice.start {
                Start::Rank(rank) => {
                    let rank = i64::try_from(*rank).unwrap_or(i64::MAX);
                    lists::get_by_rank_range_count(bin, rank, slice.limit, values)
                }
                Start::At(value) => lists::get_by_value_relative_rank_range_count(
                    bin,
                    value.clone(),
                    0,
                    slice.limit,
                    values,
                ),
                // One more: the value itself may be there.
                Start::After(value) => lists::get_by_value_relative_rank_range_count(
                    bin,
                    value.clone(),
                    0,
                    slice.limit.saturating_add(1),
                    values,
                ),
            };
            (slice.shard, Act::of_existing([read]))
        });
        let answers = self.pass.ask(acts.collect())?;
        slices
            .iter()
            .zip(answers)
            .map(|(slice, answer)| {
                let mut items = match answer.unwrap_or_default().into_iter().next().flatten() {
                    Some(Value::List(items)) => items.into_items(),
                    _ => Vec::new(),
                };
                if self.pass.is_root() {
                    // Others may have made it without order.
                    sort(&mut items)?;
                }
                if let Start::After(value) = &slice.start {
                    // Others may have put an element there more than once.
                    let equal = items.iter().take_while(|item| same(item, value)).count();
                    if equal == items.len() && items.len() as u64 > slice.limit {
                        return Err(Error::parameter(format!(
                            "{value:?} is in the list more than {} times, which no call of a sharded list has done: \
                             read larger pages, or remove it",
                            slice.limit
                        ))
                        .into());
                    }
                    items.drain(..equal);
                    items.truncate(usize::try_from(slice.limit).unwrap_or(usize::MAX));
                }
                Ok(items)
            })
            .collect()
    }
}

fn encoded(value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    encode(value, Purpose::Lookup, &mut out).map_err(|error| Error::malformed("element", error))?;
    Ok(out)
}

fn same(a: &Value, b: &Value) -> bool {
    match (encoded(a), encoded(b)) {
        (Ok(a), Ok(b)) => compare_total(&a, &b).is_eq(),
        _ => false,
    }
}

fn sort(items: &mut Vec<Value>) -> Result<()> {
    let mut keyed = items
        .drain(..)
        .map(|item| Ok((encoded(&item)?, item)))
        .collect::<Result<Vec<_>>>()?;
    keyed.sort_by(|(a, _), (b, _)| compare_total(a, b));
    items.extend(keyed.into_iter().map(|(_, item)| item));
    Ok(())
}
