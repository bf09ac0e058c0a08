//! Reads of the elements of a range of times.

use std::ops::{Bound, RangeBounds};
use std::time::SystemTime;

use super::calendar::{Micros, TimeBucket};
use super::directory::Buckets;
use super::protocol::Protocol;
use super::read::{ElementRange, count, elements};
use super::record_steps::RecordSteps;
use super::steps::{Direction, ReadResult};
use crate::shard::protocol::CompanionRoute;
use crate::{RecordSet, Result, Value};

/// The elements of [`TimeShards`](crate::TimeShards) that were added at some times. Every call
/// looks at the store anew.
///
/// A cursor is an element with its time, as the calls return them: the last one of a page asks for
/// the next page, in the same direction or back. It need not be there any more.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::shard::TimeWidth;
/// use spikelet::{Store, TimeShards};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let store = Store::in_memory()?;
/// let readings = TimeShards::new(&store, "sensors", 7, "celsius", TimeWidth::minutes(5)?)?;
/// let noon = UNIX_EPOCH + Duration::from_secs(1_795_262_400);
/// for minute in 0..120 {
///     readings.add(noon + minute * Duration::from_secs(60), 20 + i64::from(minute % 3))?;
/// }
/// let hour = readings.range(noon..noon + Duration::from_secs(3_600));
/// assert_eq!(hour.len()?, 60);
/// let last = hour.latest(10)?;
/// let before = hour.page_before(last.last(), 10)?;
/// assert!(before[0].0 < last[9].0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TimeRange<'a, R> {
    protocol: &'a Protocol<RecordSteps<R>>,
    /// The ends are checked when something is read, and not before.
    times: (Bound<SystemTime>, Bound<SystemTime>),
}

impl<'a, R: RecordSet> TimeRange<'a, R> {
    pub(super) fn new(
        protocol: &'a Protocol<RecordSteps<R>>,
        times: &impl RangeBounds<SystemTime>,
    ) -> Self {
        let times = (times.start_bound().cloned(), times.end_bound().cloned());
        Self { protocol, times }
    }

    /// Returns how many elements there are. O(records of these buckets x log N).
    ///
    /// # Errors
    /// As for [`TimeShards::add`](crate::TimeShards::add); expired data is not there, without an
    /// error.
    pub fn len(&self) -> Result<u64> {
        self.read(self.elements()?, Direction::OldestFirst, count)
    }

    /// Returns whether there are none. Costs as one element of [`TimeRange::page_after`].
    ///
    /// # Errors
    /// As for [`TimeRange::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.page_after(None, 1)?.is_empty())
    }

    /// Returns all elements, the oldest first, elements of the same time by value.
    ///
    /// # Errors
    /// As for [`TimeRange::len`].
    pub fn all(&self) -> Result<Vec<(SystemTime, Value)>> {
        self.page_after(None, u64::MAX)
    }

    /// Returns the last `limit` elements, the newest first.
    ///
    /// # Errors
    /// As for [`TimeRange::len`].
    pub fn latest(&self, limit: u64) -> Result<Vec<(SystemTime, Value)>> {
        self.page_before(None, limit)
    }

    /// Returns the first `limit` elements behind a cursor (`None`: the first of all), the oldest
    /// first.
    ///
    /// # Errors
    /// As for [`TimeRange::len`].
    pub fn page_after(
        &self,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        self.page(Direction::OldestFirst, cursor, limit)
    }

    /// Returns the last `limit` elements before a cursor (`None`: the last of all), the newest
    /// first.
    ///
    /// # Errors
    /// As for [`TimeRange::len`].
    pub fn page_before(
        &self,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        self.page(Direction::NewestFirst, cursor, limit)
    }

    fn page(
        &self,
        direction: Direction,
        cursor: Option<&(SystemTime, Value)>,
        limit: u64,
    ) -> Result<Vec<(SystemTime, Value)>> {
        let range = match (self.elements()?, cursor) {
            (Some(range), Some((at, element))) => {
                range.behind(direction, Micros::of(*at)?, element)
            }
            (range, _) => range,
        };
        self.read(range, direction, |steps, route, buckets, range| {
            elements(steps, route, buckets, range, limit)
        })
    }

    /// Returns what the times ask for; `None`: nothing.
    fn elements(&self) -> Result<Option<ElementRange>> {
        let from = match self.times.0 {
            Bound::Unbounded => Micros::FIRST,
            Bound::Included(from) => Micros::of(from)?,
            Bound::Excluded(from) => Micros::of(from)?.next(),
        };
        let to = match self.times.1 {
            Bound::Unbounded => Micros::END,
            Bound::Included(to) => Micros::of(to)?.next(),
            Bound::Excluded(to) => Micros::of(to)?,
        };
        Ok(ElementRange::of_times(from, to))
    }

    fn read<T: Default>(
        &self,
        elements: Option<ElementRange>,
        direction: Direction,
        mut read: impl FnMut(
            &RecordSteps<R>,
            CompanionRoute,
            &mut Buckets<'_, RecordSteps<R>>,
            &ElementRange,
        ) -> ReadResult<T>,
    ) -> Result<T> {
        let Some(elements) = elements else {
            return Ok(T::default());
        };
        let buckets: (TimeBucket, TimeBucket) = elements.buckets(self.protocol.steps.layout.width);
        self.protocol
            .read(buckets, direction, |steps, route, buckets| {
                read(steps, route, buckets, &elements)
            })
    }
}
