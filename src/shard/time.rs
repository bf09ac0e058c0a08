//! `TimeShards`: elements by their time, in a record for each hour or day.
//!
//! * `calendar`: buckets and their names. `layout`: what root and companions say of themselves.
//! * `steps`: the operations on single records. `read`: buckets as sorted shards.

mod calendar;
mod layout;
mod read;
mod steps;

pub use calendar::TimeWidth;

use std::ops::Bound;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use self::calendar::{Bucket, Micros};
use self::layout::{Layout, Part, Phase, Span, rounded};
use self::read::{Reader, Reading, Unread};
use self::steps::{Did, Found, Steps, Token};
use super::content::Collection;
use super::merge;
use super::route;
use super::scheme::{Epoch, check_bin};
use crate::operations::lists;
use crate::policy::MAX_TIME_TO_LIVE;
use crate::{
    Error, Key, ListReturnType, OperateResult, RecordSet, RecordStore, Result, Value, WritePolicy,
};

/// How often one call may find that others have changed what it has just read. Beyond this, somebody deletes and begins
/// collections without end.
const ATTEMPTS_MAX: u32 = 1_000;

/// How many buckets there may be from the first to the last: 22 years of hours. Reads ask for each of them.
const SPAN_BUCKETS_MAX: i64 = 200_000;

/// Elements in the order of their times, spread over one record for each hour or day of UTC.
///
/// A bucket comes to be with the first element in it, and expires when it ended longer than the retention ago: what is old
/// goes without a delete. Reads touch only the buckets of the times they ask for. Equal elements of the same time, to the
/// microsecond, are one: so a call whose outcome is not known may be repeated.
///
/// **Time does not relieve a hot key**: all writers of the moment meet in the current bucket. [`TimeShards::hashed`] spreads
/// each bucket over several records for that.
///
/// All handles of one collection must be made with the same width, number of shards and retention.
///
/// Adding and removing are linearizable. A read of several records is no snapshot: every element that is there during the
/// whole read is seen exactly once, and none is that is absent during the whole read.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{Store, TimeShards};
/// use spikelet::shard::TimeWidth;
/// use std::time::{Duration, SystemTime};
///
/// let store = Store::in_memory()?;
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let messages = TimeShards::new(&store, "chats", "lobby", "messages", TimeWidth::Daily)?
///     .hashed(8)
///     .retention(month);
/// let now = SystemTime::now();
/// messages.add(now, "hello")?;
/// let hour = Duration::from_secs(3600);
/// assert_eq!(messages.len(now - hour, now + hour)?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TimeShards<R> {
    steps: Steps<R>,
    /// What the root said last, and how many roots had been lost before it was asked.
    remembered: RwLock<(Option<(Epoch, Span)>, u64)>,
}

impl<R: RecordSet> TimeShards<R> {
    /// The collection under this key. `bin` is the bin of the buckets' records that holds their elements. Nothing is read or
    /// written.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed.
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        width: TimeWidth,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, width, &WritePolicy::default())
    }

    /// The same by a policy, of which the time limit and whether keys are stored count.
    ///
    /// # Errors
    /// As for [`TimeShards::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        width: TimeWidth,
        policy: &WritePolicy,
    ) -> Result<Self> {
        check_bin(bin)?;
        let layout = Layout { width, shards: 1 };
        let key = key.into().into_owned();
        Ok(Self {
            steps: Steps::new(store.records(set)?, key, bin, layout, policy),
            remembered: RwLock::default(),
        })
    }

    /// Spreads each bucket over so many records, by a hash of time and element. The number is rounded up to a power of two,
    /// 4,096 at most. Default: 1.
    #[must_use]
    pub fn hashed(mut self, shards: u64) -> Self {
        self.steps.lay_out(rounded(shards));
        // What was learned of records that are laid out otherwise is not true of these.
        self.remembered = RwLock::default();
        self
    }

    /// For how long elements are kept, counted from the end of their bucket. Default: for ever.
    ///
    /// A record lives for 10 years at most ([`MAX_TIME_TO_LIVE`](crate::policy::MAX_TIME_TO_LIVE)), and [`TimeShards::add`] refuses
    /// what would have to be kept longer from now on: so the retention must be less than that by a bucket's width at least.
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.steps.retention = Some(retention);
        self
    }

    /// Adds an element at a time, to the microsecond. Returns whether it was not there before. One operation, O(log N) for N
    /// elements of its bucket's record; a few more for the first element of a bucket.
    ///
    /// # Errors
    /// [`Error::PastRetention`] for late data: its bucket ended longer than the retention ago. [`Error::Parameter`] for a time
    /// so far from the others that reads would never end, and for one that is to be kept for more than 10 years from now.
    /// Nothing is written then. What a write to one record may refuse; [`Error::ShardScheme`] or
    /// [`Error::ShardKeyCollision`] where the records are not as they should be.
    pub fn add(&self, at: SystemTime, element: impl Into<Value>) -> Result<bool> {
        let at = Micros::of(at)?;
        let bucket = self.steps.layout.width.bucket(at);
        self.check_kept(bucket)?;
        let pair = pair(at, element.into());
        let part = self.part(bucket, &pair)?;
        let bin = &self.steps.bin;
        let add = [
            lists::size(bin),
            lists::append(&Collection::list_policy(), bin, pair),
        ];
        for _ in 0..ATTEMPTS_MAX {
            let epoch = self.epoch_of(bucket)?;
            match self.steps.on_open(part, epoch, &add)? {
                Did::Done(operated) => return Ok(number(&operated, 0) < number(&operated, 1)),
                Did::NotFound => self.make(part, epoch)?,
                Did::FilteredOut => self.resolve(part, epoch)?,
            }
        }
        Err(self.steps.restless())
    }

    /// Removes an element that was added at a time. Returns whether it was there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`TimeShards::add`]; late data is not there, which is no error.
    pub fn remove(&self, at: SystemTime, element: &Value) -> Result<bool> {
        let at = Micros::of(at)?;
        let bucket = self.steps.layout.width.bucket(at);
        let pair = pair(at, element.clone());
        let part = self.part(bucket, &pair)?;
        let remove = [lists::remove_by_value(
            &self.steps.bin,
            pair,
            ListReturnType::Count,
        )];
        for _ in 0..ATTEMPTS_MAX {
            let Some((epoch, _)) = self.recalled_or_read()? else {
                return Ok(false);
            };
            if self.steps.is_past(bucket) {
                return Ok(false);
            }
            match self.steps.on_open(part, epoch, &remove)? {
                Did::Done(operated) => return Ok(number(&operated, 0) > 0),
                Did::NotFound => return Ok(false),
                Did::FilteredOut => match self.steps.look(part)? {
                    Found::At(found) if found == epoch => {}
                    Found::At(found) | Found::Placed(found, _) if found > epoch => self.forget(),
                    // Left over, or nothing was added yet.
                    _ => return Ok(false),
                },
            }
        }
        Err(self.steps.restless())
    }

    /// The elements added at times from `from` up to, not including, `to`, in the order of times, those of the same time by
    /// value. O(records of these buckets x log N + elements).
    ///
    /// # Errors
    /// As for [`TimeShards::add`]; data that has expired is not there, which is no error.
    pub fn window(&self, from: SystemTime, to: SystemTime) -> Result<Vec<(SystemTime, Value)>> {
        let (from, to) = (Micros::of(from)?, Micros::of(to)?);
        self.read_between(from, to, |reader, span| {
            let mut found = Vec::new();
            let (begin, end) = (bound(from), bound(to));
            for parts in reader.batches(span) {
                let (first, last) = reader.ends(&parts);
                let begin = if first < from {
                    Bound::Included(&begin)
                } else {
                    Bound::Unbounded
                };
                let end = if last >= to {
                    Bound::Excluded(&end)
                } else {
                    Bound::Unbounded
                };
                found.extend(merge::range(&mut reader.of(parts), begin, end, u64::MAX)?);
            }
            found.into_iter().map(timed).collect()
        })
    }

    /// How many elements were added at times from `from` up to, not including, `to`, and are there. O(records of these
    /// buckets x log N).
    ///
    /// # Errors
    /// As for [`TimeShards::window`].
    pub fn len(&self, from: SystemTime, to: SystemTime) -> Result<u64> {
        let (from, to) = (Micros::of(from)?, Micros::of(to)?);
        self.read_between(from, to, |reader, span| {
            let mut count = 0;
            let (begin, end) = (bound(from), bound(to));
            for parts in reader.batches(span) {
                count += merge::count(&mut reader.of(parts), Some(&begin), Some(&end))?;
            }
            Ok(count)
        })
    }

    /// Whether no elements were added at times from `from` up to, not including, `to`, that are there. Costs and errors as
    /// [`TimeShards::len`].
    ///
    /// # Errors
    /// As for [`TimeShards::window`].
    pub fn is_empty(&self, from: SystemTime, to: SystemTime) -> Result<bool> {
        Ok(self.len(from, to)? == 0)
    }

    /// The first `limit` elements behind a time and an element (`None`: the first of all), in the order of
    /// [`TimeShards::window`]. Buckets in which nothing may have been added yet are asked for, too, one by one and then in
    /// larger batches.
    ///
    /// # Errors
    /// As for [`TimeShards::window`].
    pub fn page_after(
        &self,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        let cursor = cursor
            .map(|(at, element)| Micros::of(*at).map(|at| (at, element)))
            .transpose()?;
        let after = cursor.map(|(at, element)| pair(at, element.clone()));
        let width = self.steps.layout.width;
        let first = cursor.map_or(Bucket(i64::MIN), |(at, _)| width.bucket(at));
        self.read(first, Bucket(i64::MAX), |reader, span| {
            let mut found = Vec::new();
            for parts in reader.growing_batches(span) {
                let missing = limit.saturating_sub(found.len() as u64);
                if missing == 0 {
                    break;
                }
                let mut shards = reader.of(parts);
                found.extend(merge::page_after(&mut shards, after.as_ref(), missing)?);
            }
            found.into_iter().map(timed).collect()
        })
    }

    /// Deletes the collection with all its buckets. Whoever comes upon a deletion that was left unfinished carries it to its
    /// end.
    ///
    /// # Errors
    /// As for [`TimeShards::window`].
    pub fn delete(&self) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((epoch, _)) = self.read_root()? else {
                return Ok(());
            };
            if let Did::Done(_) = self.steps.mark_deleting(epoch)? {
                // To its end, by this call or by another one.
                return self.read_root().map(drop);
            }
        }
        Err(self.steps.restless())
    }

    /// The record that an element goes to.
    fn part(&self, bucket: Bucket, pair: &Value) -> Result<Part> {
        let shard = route::shard(route::hash_of(pair)?, self.steps.layout.shards);
        Ok(Part { bucket, shard })
    }

    /// The epoch of a collection that has this bucket in its span: begun and widened if need be.
    fn epoch_of(&self, bucket: Bucket) -> Result<Epoch> {
        if let Some((epoch, span)) = self.recalled()
            && span.contains(bucket)
        {
            return Ok(epoch);
        }
        for _ in 0..ATTEMPTS_MAX {
            let Some((epoch, span)) = self.read_root()? else {
                self.begin(bucket)?;
                continue;
            };
            if span.contains(bucket) {
                return Ok(epoch);
            }
            let wider = self.widened(span, bucket)?;
            self.steps.widen(epoch, span, wider)?;
        }
        Err(self.steps.restless())
    }

    /// Makes the collection, with its first bucket. Its epoch is behind those of what lies about there: a root that was
    /// deleted by hand has left no number to begin after.
    fn begin(&self, bucket: Bucket) -> Result<()> {
        let mut after = self.steps.root()?.epoch;
        for part in self.steps.layout.parts(bucket) {
            match self.steps.look(part)? {
                Found::At(found) | Found::Placed(found, _) => after = after.max(found),
                Found::Absent => {}
            }
        }
        match self.steps.begin(after, bucket)? {
            Did::FilteredOut if self.steps.has_own_bin()? => Err(Error::not_applicable(
                format!(
                    "the record has a bin {:?} of its own: time shards begin empty, take another name",
                    self.steps.bin
                )
                .into(),
            )),
            _ => Ok(()),
        }
    }

    /// The span with a bucket outside of it, and without what is past the retention.
    fn widened(&self, span: Span, bucket: Bucket) -> Result<Span> {
        let kept = match self.steps.horizon() {
            None => Some(span),
            Some(horizon) => span.cut(horizon, Bucket(i64::MAX)),
        };
        let wider = kept.map_or(Span::only(bucket), |kept| kept.with(bucket));
        let width = self.steps.layout.width;
        let count = (wider.last.0 - wider.first.0) / width.seconds() + 1;
        if count > SPAN_BUCKETS_MAX {
            return Err(Error::parameter(format!(
                "bucket {} is too far from the others: from {} to {} there are {count} buckets, and {SPAN_BUCKETS_MAX} are allowed",
                width.name_of(bucket),
                width.name_of(wider.first),
                width.name_of(wider.last),
            )));
        }
        Ok(wider)
    }

    /// The record of a part was not there.
    fn make(&self, part: Part, epoch: Epoch) -> Result<()> {
        match self.steps.place(part, epoch)? {
            Some(token) => self.open(part, epoch, token),
            None => Ok(()),
        }
    }

    /// The record of a part is not open at this epoch.
    fn resolve(&self, part: Part, epoch: Epoch) -> Result<()> {
        match self.steps.look(part)? {
            Found::Placed(found, token) if found == epoch => self.open(part, epoch, token),
            Found::At(found) | Found::Placed(found, _) if found < epoch => self.make(part, epoch),
            Found::At(found) | Found::Placed(found, _) if found > epoch => {
                self.forget();
                Ok(())
            }
            // It was opened, or taken away, a moment ago.
            _ => Ok(()),
        }
    }

    /// Opens what was placed, if the collection is still the one for which it was.
    fn open(&self, part: Part, epoch: Epoch, token: Token) -> Result<()> {
        let root = self.steps.root()?;
        let is_current =
            root.epoch == epoch && root.spread.is_some_and(|(phase, _)| phase == Phase::Active);
        if is_current {
            self.steps.open(part, epoch, token)?;
        } else {
            self.steps.displace(part, epoch, token)?;
            self.forget();
        }
        Ok(())
    }

    /// Reads the root, and carries a deletion to its end. `None`: there is no collection.
    fn read_root(&self) -> Result<Option<(Epoch, Span)>> {
        for _ in 0..ATTEMPTS_MAX {
            let lost_roots = self.steps.records.lost_roots();
            let root = self.steps.root()?;
            match root.spread {
                Some((Phase::Deleting, span)) => {
                    for bucket in self.steps.layout.buckets(span.first, span.last) {
                        for part in self.steps.layout.parts(bucket) {
                            self.steps.delete(part, root.epoch)?;
                        }
                    }
                    self.steps.clear(root.epoch)?;
                }
                Some((Phase::Active, span)) => {
                    let root = Some((root.epoch, span));
                    self.remember(root, lost_roots);
                    return Ok(root);
                }
                None => {
                    self.remember(None, lost_roots);
                    return Ok(None);
                }
            }
        }
        Err(self.steps.restless())
    }

    fn recalled_or_read(&self) -> Result<Option<(Epoch, Span)>> {
        match self.recalled() {
            Some(recalled) => Ok(Some(recalled)),
            None => self.read_root(),
        }
    }

    fn recalled(&self) -> Option<(Epoch, Span)> {
        let lost_roots = self.steps.records.lost_roots();
        let remembered = self.remembered.read();
        let (root, as_of) = *remembered.unwrap_or_else(PoisonError::into_inner);
        // The root that has been lost since may have been this one.
        root.filter(|_| as_of == lost_roots)
    }

    fn remember(&self, root: Option<(Epoch, Span)>, lost_roots: u64) {
        if self.recalled() == root && root.is_some() {
            return;
        }
        let remembered = self.remembered.write();
        let mut remembered = remembered.unwrap_or_else(PoisonError::into_inner);
        if lost_roots >= remembered.1 {
            *remembered = (root, lost_roots);
        }
    }

    fn forget(&self) {
        self.remember(None, self.steps.records.lost_roots());
    }

    /// Reads the buckets of some times; see [`TimeShards::read`].
    fn read_between<T: Default>(
        &self,
        from: Micros,
        to: Micros,
        read: impl FnMut(&Reader<'_, R>, Span) -> Reading<T>,
    ) -> Result<T> {
        if from >= to {
            return Ok(T::default());
        }
        let width = self.steps.layout.width;
        let last = width.bucket(Micros(to.0 - 1));
        self.read(width.bucket(from), last, read)
    }

    /// Reads buckets, as far as they are in the span and within the retention. `read` is called again when the collection
    /// was deleted and begun anew meanwhile.
    fn read<T: Default>(
        &self,
        first: Bucket,
        last: Bucket,
        mut read: impl FnMut(&Reader<'_, R>, Span) -> Reading<T>,
    ) -> Result<T> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((epoch, span)) = self.read_root()? else {
                return Ok(T::default());
            };
            let first = self
                .steps
                .horizon()
                .map_or(first, |horizon| first.max(horizon));
            let Some(span) = span.cut(first, last) else {
                return Ok(T::default());
            };
            let steps = &self.steps;
            match read(&Reader { steps, epoch }, span) {
                Ok(read) => return Ok(read),
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Stale) => {}
            }
        }
        Err(self.steps.restless())
    }

    /// Refuses what is past the retention, and what would be kept for longer than any record.
    fn check_kept(&self, bucket: Bucket) -> Result<()> {
        let Some(retention) = self.steps.retention else {
            return Ok(());
        };
        let name = || self.steps.layout.width.name_of(bucket).to_string();
        match self.steps.kept_for(bucket, retention) {
            None => Err(Error::PastRetention {
                bucket: name().into(),
            }),
            Some(left) if left >= MAX_TIME_TO_LIVE => Err(Error::parameter(format!(
                "bucket {} would have to be kept for another {left:?}, and a record lives for 10 years at most: \
                 choose a shorter retention than {retention:?}",
                name(),
            ))),
            Some(_) => Ok(()),
        }
    }
}

/// What is stored: an element behind its time.
fn pair(at: Micros, element: Value) -> Value {
    Value::List(vec![Value::Int(at.0), element].into())
}

/// Below every pair of this time, and above every one before it.
fn bound(at: Micros) -> Value {
    Value::List(vec![Value::Int(at.0)].into())
}

fn timed(pair: Value) -> Reading<(SystemTime, Value)> {
    if let Value::List(items) = pair
        && let Ok([Value::Int(at), element]) = <[Value; 2]>::try_from(items.into_items())
    {
        return Ok((Micros(at).time(), element));
    }
    Err(Unread::Failed(Error::ShardScheme {
        found: "an element of a bucket".into(),
        why: "it is no pair of a time and a value: another program has written it",
    }))
}

/// A result that is a number, 0 if there is none.
fn number(operated: &OperateResult, operation: usize) -> i64 {
    match operated.value(operation) {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}
