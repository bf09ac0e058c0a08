//! Reading the elements of buckets, in either direction.

use std::collections::BinaryHeap;
use std::ops::Bound;
use std::time::SystemTime;

use super::calendar::{Micros, TimeBucket, TimeWidth};
use super::directory::Buckets;
use super::layout::CollectionPart;
use super::record_steps::RecordSteps;
use super::steps::{PartState, ReadResult, StepError};
use crate::operations::lists;
use crate::shard::content::{Act, first};
use crate::shard::merge::{self, ElementSortKey, value_of};
use crate::shard::protocol::{AtomicRequest, CompanionRoute, Read, RequestReply};
use crate::shard::sorted::{Lists, Parts};
use crate::value::Value;
use crate::{Error, ListReturnType, Operation, RecordSet, Result};

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
    /// Returns the range of the elements of some times, the last one excluded; `None` if it is empty.
    pub(super) fn of_times(from: Micros, to: Micros) -> Option<Self> {
        (from < to).then(|| Self {
            lower: (from, Bound::Included(below(from))),
            upper: (to, Bound::Excluded(below(to))),
        })
    }

    /// Returns the part of the range behind an element.
    pub(super) fn after(mut self, at: Micros, element: &Value) -> Option<Self> {
        if at >= self.lower.0 {
            self.lower = (at, Bound::Excluded(pair(at, element.clone())));
        }
        (self.lower.0 < self.upper.0).then_some(self)
    }

    /// Returns the part of the range before an element.
    pub(super) fn before(mut self, at: Micros, element: &Value) -> Option<Self> {
        if at < self.upper.0 {
            self.upper = (at.next(), Bound::Excluded(pair(at, element.clone())));
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

/// Reads the first elements of a range, `limit` at most.
pub(super) fn oldest<R: RecordSet>(
    steps: &RecordSteps<R>,
    route: CompanionRoute,
    buckets: &mut Buckets<'_, RecordSteps<R>>,
    range: &ElementRange,
    limit: u64,
) -> ReadResult<Vec<Timed>> {
    let mut found = Vec::new();
    // A small page is mostly in the first bucket.
    let mut size = if limit == u64::MAX {
        batch_max(steps)
    } else {
        1
    };
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
        found.extend(merge::range(&mut shards, lower, upper, missing)?);
        size = batch_max(steps).min(size * 2);
    }
}

/// Reads the last elements of a range, `limit` at most, the last one first.
pub(super) fn newest<R: RecordSet>(
    steps: &RecordSteps<R>,
    route: CompanionRoute,
    buckets: &mut Buckets<'_, RecordSteps<R>>,
    range: &ElementRange,
    limit: u64,
) -> ReadResult<Vec<Timed>> {
    let mut found = Vec::new();
    loop {
        let missing = limit.saturating_sub(found.len() as u64);
        let bucket = if missing > 0 { buckets.next()? } else { None };
        let Some(bucket) = bucket else {
            return found.into_iter().map(timed).collect();
        };
        let (lower, upper) = range.bounds(steps.layout.width, &[bucket]);
        let shards = BucketRecords::new(steps, route, &[bucket]);
        found.extend(shards.newest(value_of(lower), value_of(upper), missing)?);
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

/// The reading of one shard from its end on.
struct Tail {
    part: CollectionPart,
    /// Where to go on; `None`: at the end.
    before: Option<Value>,
    /// Elements that were read and not returned yet, the greatest last.
    read: Vec<Value>,
    /// Whether all of it was read.
    ended: bool,
}

impl Tail {
    /// Returns the operation that reads this many more elements.
    fn ask(&self, bin: &str, limit: u64) -> Operation {
        let (back, values) = (-limit.cast_signed(), ListReturnType::Values);
        match &self.before {
            None => lists::get_by_rank_range_count(bin, back, limit, values),
            Some(before) => {
                let before = before.clone();
                lists::get_by_value_relative_rank_range_count(bin, before, back, limit, values)
            }
        }
    }

    fn take(&mut self, answer: Option<Value>, limit: u64) {
        self.read = match answer {
            Some(Value::List(items)) => items.into_items(),
            _ => Vec::new(),
        };
        self.ended = (self.read.len() as u64) < limit;
        self.before = self.read.first().cloned();
    }

    /// Returns the sort key of its next element; `None`: there is none, or it has to be asked.
    fn next_key(&self) -> Result<Option<ElementSortKey>> {
        self.read.last().map(ElementSortKey::of).transpose()
    }
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

    /// Reads at most `limit` elements that are not less than `lower` and less than `upper`, the greatest first. One batch
    /// as long as no shard has much more than its share of them.
    fn newest(
        &self,
        lower: Option<&Value>,
        upper: Option<&Value>,
        limit: u64,
    ) -> ReadResult<Vec<Value>> {
        let lower = lower.map(ElementSortKey::of).transpose()?;
        let tail = |part: &CollectionPart| Tail {
            part: *part,
            before: upper.cloned(),
            read: Vec::new(),
            ended: false,
        };
        let mut tails: Vec<Tail> = self.parts.iter().map(tail).collect();
        let mut dry: Vec<usize> = (0..tails.len()).collect();
        let mut fronts = BinaryHeap::new();
        let mut newest = Vec::new();
        while !dry.is_empty() {
            let missing = limit.saturating_sub(newest.len() as u64);
            let share = merge::share(missing, self.parts.len()).min(i64::MAX.unsigned_abs());
            let asked = dry.iter().filter_map(|at| tails.get(*at));
            let asked = asked.map(|tail| (tail.part, tail.ask(self.steps.bin(), share)));
            let answers = self.ask_parts(asked.collect())?;
            for (at, answer) in dry.drain(..).zip(answers) {
                let Some(tail) = tails.get_mut(at) else {
                    continue;
                };
                tail.take(answer, share);
                fronts.extend(tail.next_key()?.map(|key| (key, at)));
            }
            while let Some((key, at)) = fronts.pop() {
                let Some(tail) = tails.get_mut(at) else {
                    continue;
                };
                if lower.as_ref().is_some_and(|lower| key < *lower) {
                    return Ok(newest);
                }
                newest.extend(tail.read.pop());
                if newest.len() as u64 >= limit {
                    return Ok(newest);
                }
                match tail.next_key()? {
                    Some(key) => fronts.push((key, at)),
                    None if tail.ended => {}
                    None => {
                        dry.push(at);
                        break;
                    }
                }
            }
        }
        Ok(newest)
    }

    /// Asks records, in one batch. `None`: nothing has been added to the record.
    fn ask_parts(&self, asked: Vec<(CollectionPart, Operation)>) -> ReadResult<Vec<Option<Value>>> {
        let (steps, route) = (self.steps, self.route);
        let (parts, requests): (Vec<_>, Vec<_>) = asked
            .into_iter()
            .map(|(part, operation)| {
                let read = Read::User(Act::of_existing([operation]));
                (
                    part,
                    AtomicRequest::read(steps.record(route.keys, part), read),
                )
            })
            .unzip();
        let replies = steps.executor.run_each(&steps.records, &requests);
        let answers = parts.iter().zip(replies).map(|(part, reply)| {
            // Nothing was added yet, or all of it has expired.
            let RequestReply::Done(seen) = reply? else {
                return Ok(None);
            };
            match steps.state(route.keys, *part, &seen)? {
                PartState::Open(epoch) if epoch == route.epoch => {
                    match first(seen.answer.map(|answered| answered.values)) {
                        Some(answer) => Ok(Some(answer)),
                        None => Err(Error::bin_not_found(steps.bin()).into()),
                    }
                }
                PartState::Open(epoch) | PartState::Placed(epoch, _) if epoch > route.epoch => {
                    Err(StepError::Stale)
                }
                // Left over, or not open yet.
                _ => Ok(None),
            }
        });
        answers.collect()
    }
}

impl<R: RecordSet> Parts for BucketRecords<'_, R> {
    type Bin = Lists;
    type Error = StepError;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn bin(&self) -> &str {
        self.steps.bin()
    }

    fn ask(&self, asked: Vec<(usize, Operation)>) -> ReadResult<Vec<Option<Value>>> {
        let asked = asked
            .into_iter()
            .filter_map(|(number, operation)| Some((*self.parts.get(number)?, operation)));
        self.ask_parts(asked.collect())
    }
}
