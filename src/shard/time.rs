//! `TimeShards`: elements by their time, in a record for some minutes, an hour or a day.
//!
//! * `calendar`: buckets and their names. `layout`: which records there are, and what they say of
//!   themselves.
//! * `steps`: the operations on single records; `record_steps` does them. `directory`: the buckets
//!   in use. `protocol`: the order of the steps; callers may stop after any of them. `model`: the
//!   check of every order.
//! * `read`: elements of buckets in either direction. `range`: the reads of a range of times.

mod calendar;
mod directory;
pub(super) mod layout;
#[cfg(test)]
mod model;
mod protocol;
mod range;
mod read;
mod record_steps;
mod steps;

pub use calendar::{MinuteWidth, TimeWidth};
pub use range::TimeRange;

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

use self::calendar::Micros;
use self::layout::{CollectionPart, TimeLayout, rounded};
use self::protocol::Protocol;
use self::read::pair;
use self::record_steps::RecordSteps;
use self::steps::TimeSteps;
use super::content::{Act, Collection, first, has_grown, number};
use super::element_hash;
use super::executor::Executor;
use crate::operations::lists;
use crate::policy::MAX_TIME_TO_LIVE;
use crate::{Error, Key, ListReturnType, RecordSet, RecordStore, Result, Value, WritePolicy};

/// Elements in the order of their times, in one record for each bucket: an hour or a day of UTC, or
/// some minutes.
///
/// A bucket is made with the first element in it, and expires when it ended longer than the
/// retention ago: old elements go without a delete. A directory lists the buckets in use, so reads
/// touch only those, of the times they ask for, and [`TimeShards::latest`] only the last of them.
/// Adding to a bucket that is there is one operation on its record. One element of a far time (in
/// the years 1 to 9999) is a bucket as any other, and costs the others nothing.
///
/// Equal elements of the same time, to the microsecond, are one: so a call of unknown outcome may
/// be repeated.
///
/// **Time does not relieve a hot key**: all writers of the moment meet in the current bucket.
/// [`TimeShards::hashed`] shards each bucket over several records for that.
///
/// All handles of one collection must be made with the same width, number of shards and retention.
/// Other collections of the record may be sharded beside it, by time or by hash.
///
/// Adding and removing are linearizable. A read of several records is no snapshot: every element
/// that is there during the whole read is seen exactly once, and none is that is absent during the
/// whole read.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::shard::TimeWidth;
/// use spikelet::{Store, TimeShards};
/// use std::time::{Duration, SystemTime};
///
/// let store = Store::in_memory()?;
/// let month = Duration::from_secs(30 * 24 * 60 * 60);
/// let messages = TimeShards::new(&store, "chats", "lobby", "messages", TimeWidth::Daily)?
///     .hashed(8)
///     .retention(month);
/// let now = SystemTime::now();
/// let minute = Duration::from_secs(60);
/// messages.add(now - minute, "hello")?;
/// messages.add(now, "world")?;
/// // Newest first, and on from there.
/// let latest = messages.latest(1)?;
/// assert_eq!(latest, [(latest[0].0, "world".into())]);
/// let before = messages.page_before(latest.last(), 10)?;
/// assert_eq!(before[0].1, "hello".into());
/// assert_eq!(messages.range(now - 60 * minute..now).len()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TimeShards<R> {
    protocol: Protocol<RecordSteps<R>>,
}

impl<R: RecordSet> TimeShards<R> {
    /// Returns the collection under this key. `bin` is the bin of the buckets' records that holds
    /// their elements. Nothing is read or written.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a set that is not allowed, and for the bins that describe
    /// shards.
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        width: TimeWidth,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, width, &WritePolicy::default())
    }

    /// Returns the collection under this key, by a policy: its timeout, `send_key` and
    /// `durable_delete` count.
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
        let (records, executor) =
            Executor::in_store(store, (set, key, bin), Collection::List, policy)?;
        let steps = RecordSteps {
            records,
            executor,
            layout: TimeLayout { width, shards: 1 },
            retention: None,
        };
        Ok(Self {
            protocol: Protocol::new(steps),
        })
    }

    /// Shards each bucket over several records, by a hash of time and element. The number is
    /// rounded up to a power of two, 4,096 at most. Default: 1.
    #[must_use]
    pub fn hashed(mut self, shards: u64) -> Self {
        self.protocol.steps.layout.shards = rounded(shards);
        self.protocol.steps.executor.forget_companions();
        // Findings about records of another layout do not apply to these.
        self.protocol.forget();
        self
    }

    /// Sets for how long elements are kept, counted from the end of their bucket. Default: for
    /// ever.
    ///
    /// A record lives for 10 years at most ([`MAX_TIME_TO_LIVE`]), and [`TimeShards::add`] refuses
    /// data that would have to be kept longer from now on: so the retention must be less than that
    /// by a bucket's width at least.
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.protocol.steps.retention = Some(retention);
        self
    }

    /// Adds an element at a time, to the microsecond. Returns whether it was not there before. One
    /// operation, O(log N) for N elements of its bucket's record; some 5 more for the first element
    /// of a bucket, and some 20 for that of the collection.
    ///
    /// # Errors
    /// [`Error::PastRetention`] for late data: its bucket ended longer than the retention ago.
    /// [`Error::Parameter`] for a time outside of the years 1 to 9999, and for one that is to be
    /// kept for more than 10 years from now. Nothing is written then. What a write to one record
    /// may refuse; [`Error::ShardScheme`] or [`Error::ShardKeyCollision`] where the records are not
    /// as they should be.
    pub fn add(&self, at: SystemTime, element: impl Into<Value>) -> Result<bool> {
        let at = Micros::of(at)?;
        let pair = pair(at, element.into());
        let part = self.part(at, &pair)?;
        self.check_kept(part)?;
        let bin = self.protocol.steps.bin();
        let bin = bin.as_str();
        let add = Act::creating([
            lists::size(bin),
            lists::append(&Collection::list_policy(), bin, pair),
        ]);
        self.protocol
            .add(part, &add)
            .map(|added| has_grown(Some(added.values)))
    }

    /// Removes an element that was added at a time. Returns whether it was there. One operation,
    /// O(log N).
    ///
    /// # Errors
    /// As for [`TimeShards::add`]; late data is not there, without an error.
    pub fn remove(&self, at: SystemTime, element: &Value) -> Result<bool> {
        let at = Micros::of(at)?;
        let pair = pair(at, element.clone());
        let part = self.part(at, &pair)?;
        let bucket = self.protocol.steps.layout.width.bucket(at);
        let count = ListReturnType::Count;
        let bin = self.protocol.steps.bin();
        let remove = lists::remove_by_value(bin.as_str(), pair, count);
        let remove = Act::of_existing([remove]);
        let removed = self.protocol.remove(bucket, part, &remove)?;
        let removed = first(removed.map(|answered| answered.values));
        Ok(number(removed.as_ref()) > 0)
    }

    /// Returns a view of the elements of some times, to be read in pages, in either direction, or
    /// to be counted. `..` is all of them. Nothing is read yet.
    pub fn range(&self, times: impl RangeBounds<SystemTime>) -> TimeRange<'_, R> {
        TimeRange::new(&self.protocol, &times)
    }

    /// Returns the last `limit` elements, the newest first. O(records of the buckets that hold
    /// these elements + limit): a collection of 100,000 buckets costs as much as one of 100.
    ///
    /// # Errors
    /// As for [`TimeShards::add`].
    pub fn latest(&self, limit: u64) -> Result<Vec<(SystemTime, Value)>> {
        self.range(..).latest(limit)
    }

    /// Returns the first `limit` elements behind a time and an element (`None`: the first of all),
    /// in the order of [`TimeRange::all`]. Costs as [`TimeShards::latest`].
    ///
    /// # Errors
    /// As for [`TimeShards::add`].
    pub fn page_after(
        &self,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        self.range(..).page_after(cursor, limit)
    }

    /// Returns the last `limit` elements before a time and an element (`None`: the last of all),
    /// the newest first. Costs as [`TimeShards::latest`].
    ///
    /// # Errors
    /// As for [`TimeShards::add`].
    pub fn page_before(
        &self,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        self.range(..).page_before(cursor, limit)
    }

    /// Deletes the collection with all its buckets. The next caller carries an unfinished deletion
    /// to its end.
    ///
    /// # Errors
    /// As for [`TimeShards::add`].
    pub fn delete(&self) -> Result<()> {
        let steps = &self.protocol.steps;
        steps.records.check_deletes(steps.executor.policy())?;
        self.protocol.delete()
    }

    /// Returns the record that an element goes to.
    fn part(&self, at: Micros, pair: &Value) -> Result<CollectionPart> {
        let layout = self.protocol.steps.layout;
        let shard = element_hash::shard(element_hash::hash_of(pair)?, layout.shards);
        Ok(CollectionPart::Shard(layout.width.bucket(at), shard))
    }

    /// Refuses data past the retention, and data that would be kept for longer than any record.
    fn check_kept(&self, part: CollectionPart) -> Result<()> {
        let steps = &self.protocol.steps;
        let (Some(left), CollectionPart::Shard(bucket, _)) = (steps.kept_for(part), part) else {
            return Ok(());
        };
        let name = steps.layout.width.name_of(bucket);
        if left.is_zero() {
            return Err(Error::PastRetention {
                bucket: name.into(),
            });
        }
        if left >= MAX_TIME_TO_LIVE {
            return Err(Error::parameter(format!(
                "bucket {name} would have to be kept for another {left:?}, and a record lives for 10 years at most: \
                 choose a shorter retention",
            )));
        }
        Ok(())
    }
}
