//! The store under the steps: it executes requests by the executor that hash shards have, too.

use std::time::Duration;

use spikelet_storage::EPOCH_UNIX_SECONDS;

use super::calendar::TimeBucket;
use super::layout::{CollectionPart, TimeLayout};
use super::steps::{Direction, PageRange, TimeSteps, TimedKind};
use crate::policy::MAX_TIME_TO_LIVE;
use crate::record::BinName;
use crate::record::companion_key::text;
use crate::shard::content::{Act, ActReply, Bin, Content, first};
use crate::shard::executor::Executor;
use crate::shard::merge::RunStart;
use crate::shard::protocol::{AtomicRequest, CompanionToken, RecordRef, RequestReply};
use crate::shard::request_runner::token;
use crate::shard::sorted::{Lists, SortedBin};
use crate::value::Value;
use crate::{Error, Expiration, RecordSet, Result};

/// For how long a page outlives the buckets that it lists: a bucket that is written again while the
/// clock is behind must be listed still.
const PAGE_OUTLIVES_SECONDS: u64 = 86_400;

/// One collection, and how its records are operated on.
#[derive(Debug)]
pub(super) struct RecordSteps<R> {
    pub(super) records: R,
    pub(super) executor: Executor,
    pub(super) layout: TimeLayout,
    pub(super) retention: Option<Duration>,
}

impl<R: RecordSet> RecordSteps<R> {
    /// Returns the store's time in milliseconds since 1970.
    fn now_unix_ms(&self) -> i64 {
        let unix_ms = self
            .records
            .now_ms()
            .saturating_add(EPOCH_UNIX_SECONDS * 1000);
        unix_ms.try_into().unwrap_or(i64::MAX)
    }

    /// Returns for how much longer a part is kept: nothing if it is past the retention; `None`: for
    /// ever.
    pub(super) fn kept_for(&self, part: CollectionPart) -> Option<Duration> {
        let (retention, end) = (self.retention?, self.layout.end(part)?);
        let retention_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let left_ms = (end * 1000)
            .saturating_add(retention_ms)
            .saturating_sub(self.now_unix_ms());
        Some(Duration::from_millis(left_ms.max(0).unsigned_abs()))
    }
}

impl<R: RecordSet> TimeSteps for RecordSteps<R> {
    type Kind = Bin;

    fn layout(&self) -> TimeLayout {
        self.layout
    }

    fn bin(&self) -> BinName {
        self.executor.bin
    }

    fn lost_roots(&self) -> u64 {
        self.records.lost_roots()
    }

    fn horizon(&self) -> Result<Option<TimeBucket>> {
        let Some(retention) = self.retention else {
            return Ok(None);
        };
        let retention_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let width = self.layout.width.seconds();
        // Its end is the first one that is later than this.
        let ended_ms = self.now_unix_ms().saturating_sub(retention_ms);
        let horizon = TimeBucket(ended_ms.div_euclid(width * 1000) * width);
        Ok(Some(horizon.max(TimeBucket::FIRST)))
    }

    fn now_us(&self) -> u64 {
        self.records.now_ms().saturating_mul(1000)
    }

    fn token(&self) -> CompanionToken {
        token()
    }

    fn expiration(&self, part: CollectionPart) -> Expiration {
        match self.kept_for(part) {
            // To the next second; one that is past by now was not when the call began.
            Some(left) if left < MAX_TIME_TO_LIVE => {
                let beyond = match part {
                    CollectionPart::Page(_) => PAGE_OUTLIVES_SECONDS,
                    CollectionPart::Shard(..) => 1,
                };
                let seconds = left.as_secs() + beyond;
                Expiration::After(Duration::from_secs(seconds).min(MAX_TIME_TO_LIVE))
            }
            _ => Expiration::Never,
        }
    }

    fn execute(&self, request: &AtomicRequest<Bin>) -> Result<RequestReply<Bin>> {
        self.executor.run(&self.records, request, &mut None)
    }

    fn check_deletes(&self) -> Result<()> {
        self.records.check_deletes(self.executor.policy())
    }

    fn collision(&self, record: RecordRef) -> Error {
        Error::ShardKeyCollision {
            key: text(&self.executor.key_of(record)),
        }
    }

    fn restless(&self) -> Error {
        self.executor.restless()
    }
}

impl TimedKind for Bin {
    const EMPTY: Content = Content::List(Vec::new());

    fn read_entries(bin: BinName, range: PageRange) -> Act {
        let start = match range.direction {
            Direction::OldestFirst => RunStart::At(range.from.into()),
            Direction::NewestFirst => RunStart::Before(range.to.checked_add(1).map(Value::Int)),
        };
        Act::of_existing([Lists::read(bin.as_str(), &start, range.limit as u64)])
    }

    fn entries(answer: ActReply) -> Vec<i64> {
        let number = |value: &Value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        };
        let items = first(Some(answer.values)).map_or_else(Vec::new, Lists::items);
        items.iter().filter_map(number).collect()
    }
}
