//! Reading the elements of buckets, in either direction.

use std::ops::Bound;
use std::time::SystemTime;

use super::calendar::{Micros, TimeBucket, TimeWidth};
use super::directory::Buckets;
use super::layout::CollectionPart;
use super::record_steps::RecordSteps;
use super::steps::{Direction, ReadResult, StepError, TimeSteps, is_newer, is_open};
use crate::shard::content::{Act, first};
use crate::shard::merge::{self, value_of};
use crate::shard::protocol::{AtomicRequest, CompanionRoute, Read, RequestReply};
use crate::shard::sorted::{Lists, Parts};
use crate::value::Value;
use crate::{Error, Operation, RecordSet};

/// How many records are read in one batch, unless a bucket has more.
const BATCH_RECORDS: u64 = 64;

/// An element with its time.
pub(super) type Timed = (SystemTime, Value);

/// Elements to read: between two bounds on their stored form.
#[derive(Clone, Debug)]
pub(super) struct ElementRange {
    lower: (Micros, Bound<Value>),
    /// The first time behind the range, and its bound.
    upper: (Micros, Bound<Value>),
}

impl ElementRange {
    /// Returns the range of the elements of some times, the last one excluded; `None` if it is
    /// empty.
    pub(super) fn of_times(from: Micros, to: Micros) -> Option<Self> {
        (from < to).then(|| Self {
            lower: (from, Bound::Included(below(from))),
            upper: (to, Bound::Excluded(below(to))),
        })
    }

    /// Returns the part of the range that comes behind an element in a direction.
    pub(super) fn behind(
        mut self,
        direction: Direction,
        at: Micros,
        element: &Value,
    ) -> Option<Self> {
        let bound = Bound::Excluded(pair(at, element.clone()));
        match direction {
            Direction::OldestFirst if at >= self.lower.0 => self.lower = (at, bound),
            Direction::NewestFirst if at < self.upper.0 => self.upper = (at.next(), bound),
            _ => {}
        }
        (self.lower.0 < self.upper.0).then_some(self)
    }

    /// Returns the first and the last bucket of the range.
    pub(super) const fn buckets(&self, width: TimeWidth) -> (TimeBucket, TimeBucket) {
        (
            width.bucket(self.lower.0),
            width.bucket(Micros(self.upper.0.0 - 1)),
        )
    }

    /// Returns the bounds to ask for in some buckets: none for a bucket within.
    fn bounds(&self, width: TimeWidth, buckets: &[TimeBucket]) -> (Bound<&Value>, Bound<&Value>) {
        let (first, last) = self.buckets(width);
        let lower = if buckets.contains(&first) {
            self.lower.1.as_ref()
        } else {
            Bound::Unbounded
        };
        let upper = if buckets.contains(&last) {
            self.upper.1.as_ref()
        } else {
            Bound::Unbounded
        };
        (lower, upper)
    }
}

/// Returns the stored form: an element behind its time.
pub(super) fn pair(at: Micros, element: Value) -> Value {
    Value::List(vec![Value::Int(at.0), element].into())
}

/// Returns a bound below every pair of this time, and above every pair of an earlier one.
fn below(at: Micros) -> Value {
    Value::List(vec![Value::Int(at.0)].into())
}

fn timed(pair: Value) -> ReadResult<Timed> {
    if let Value::List(items) = pair
        && let Ok([Value::Int(at), element]) = <[Value; 2]>::try_from(items.into_items())
    {
        return Ok((Micros(at).time(), element));
    }
    Err(StepError::Failed(Error::ShardScheme {
        found: "an element of a bucket".into(),
        why: "it is no pair of a time and a value: another program has written it",
    }))
}

/// Counts the elements of a range.
pub(super) fn count<R: RecordSet>(
    steps: &RecordSteps<R>,
    route: CompanionRoute,
    buckets: &mut Buckets<'_, RecordSteps<R>>,
    range: &ElementRange,
) -> ReadResult<u64> {
    let mut count = 0;
    loop {
        let batch = buckets.batch(batch_max(steps))?;
        if batch.is_empty() {
            return Ok(count);
        }
        let (lower, upper) = range.bounds(steps.layout.width, &batch);
        let mut shards = BucketRecords::new(steps, route, &batch);
        count += merge::count(&mut shards, value_of(lower), value_of(upper))?;
    }
}

/// Reads at most `limit` elements of a range, in the direction of the buckets.
pub(super) fn elements<R: RecordSet>(
    steps: &RecordSteps<R>,
    route: CompanionRoute,
    buckets: &mut Buckets<'_, RecordSteps<R>>,
    range: &ElementRange,
    limit: u64,
) -> ReadResult<Vec<Timed>> {
    let mut found = Vec::new();
    let size_max = match buckets.direction {
        Direction::OldestFirst => batch_max(steps),
        // The latest ones are asked for most, and no bucket is read in vain.
        Direction::NewestFirst => 1,
    };
    // A small page is mostly in the first bucket.
    let mut size = if limit == u64::MAX { size_max } else { 1 };
    loop {
        let missing = limit.saturating_sub(found.len() as u64);
        let batch = if missing > 0 {
            buckets.batch(size)?
        } else {
            Vec::new()
        };
        if batch.is_empty() {
            return found.into_iter().map(timed).collect();
        }
        let (lower, upper) = range.bounds(steps.layout.width, &batch);
        let mut shards = BucketRecords::new(steps, route, &batch);
        found.extend(match buckets.direction {
            Direction::OldestFirst => merge::range(&mut shards, lower, upper, missing),
            Direction::NewestFirst => merge::last(&mut shards, lower, value_of(upper), missing),
        }?);
        size = size_max.min(size * 2);
    }
}

/// Returns how many buckets are read in one batch.
fn batch_max<R>(steps: &RecordSteps<R>) -> usize {
    ((BATCH_RECORDS / steps.layout.shards) as usize).max(1)
}

/// The records of some buckets, as sorted shards.
struct BucketRecords<'a, R> {
    steps: &'a RecordSteps<R>,
    route: CompanionRoute,
    parts: Vec<CollectionPart>,
}

impl<'a, R: RecordSet> BucketRecords<'a, R> {
    fn new(steps: &'a RecordSteps<R>, route: CompanionRoute, buckets: &[TimeBucket]) -> Self {
        let buckets = buckets.iter();
        Self {
            steps,
            route,
            parts: buckets
                .flat_map(|bucket| steps.layout.parts(*bucket))
                .collect(),
        }
    }
}

impl<R: RecordSet> Parts for BucketRecords<'_, R> {
    type Bin = Lists;
    type Error = StepError;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn bin(&self) -> &str {
        self.steps.executor.bin.as_str()
    }

    /// Returns `None` for a record to which nothing has been added.
    fn ask(&self, asked: Vec<(usize, Operation)>) -> ReadResult<Vec<Option<Value>>> {
        let (steps, route) = (self.steps, self.route);
        let (parts, requests): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .filter_map(|(number, operation)| {
                let part = *self.parts.get(number)?;
                let read = Read::User(Act::of_existing([operation]));
                let request = AtomicRequest::read(steps.record(route.keys, part), read);
                Some((part, request))
            })
            .unzip();
        let replies = steps.executor.run_each(&steps.records, &requests);
        let answers = parts.iter().zip(replies).map(|(part, reply)| {
            // Nothing was added yet, or all of it has expired.
            let RequestReply::Done(seen) = reply? else {
                return Ok(None);
            };
            let state = steps.state(route.keys, *part, &seen)?;
            if is_newer(state, route.epoch) {
                return Err(StepError::Stale(()));
            }
            if !is_open(state, route.epoch) {
                // Left over, or not open yet.
                return Ok(None);
            }
            match first(seen.answer.map(|answered| answered.values)) {
                Some(answer) => Ok(Some(answer)),
                None => Err(Error::bin_not_found(steps.bin().as_str()).into()),
            }
        });
        answers.collect()
    }
}
