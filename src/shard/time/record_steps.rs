//! The steps on a store: each is one operation on one record, guarded by a condition on the record.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use spikelet_storage::EPOCH_UNIX_SECONDS;

use super::calendar::TimeBucket;
use super::layout::{
    CollectionPart, CollectionUse, CompanionRoot, DirectoryPage, TimeLayout, TimeRoute,
};
use super::steps::{
    CollectionState, Direction, PageRange, PartState, PlacingToken, RootState, StepOutcome,
    TimeSteps,
};
use crate::expressions::{and, bin_exists, eq, int_bin, list_bin, not};
use crate::operations::{delete_all_bins, delete_bin, get_bin, lists, put};
use crate::policy::{MAX_TIME_TO_LIVE, RecordExistsAction};
use crate::record::BinName;
use crate::record::companion_key::{KeyForm, text};
use crate::shard::address::CollectionAddress;
use crate::shard::companions::Companions;
use crate::shard::content::Collection;
use crate::shard::description::{DESCRIPTION_BINS, Description, Form, SharedDescription};
use crate::shard::scheme::{Epoch, FROZEN, SHARD_OF};
use crate::value::{ListOrder, Value};
use crate::{
    Error, Expiration, Expression, Key, ListReturnType, OperateResult, Operation, RecordSet,
    Result, WritePolicy,
};

/// How long to wait before a record that is fought over is tried again.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// Tokens are positive integers.
const TOKEN_BITS: u64 = (1 << 62) - 1;

/// One collection, and how its records are operated on.
#[derive(Debug)]
pub(super) struct RecordSteps<R> {
    pub(super) records: R,
    key: Key<'static>,
    bin: BinName,
    pub(super) layout: TimeLayout,
    pub(super) retention: Option<Duration>,
    policy: WritePolicy,
    /// How open buckets are written, of each shard the bucket that was written last.
    open: Companions<(TimeBucket, TimeRoute)>,
    tokens: AtomicU64,
}

impl<R: RecordSet> RecordSteps<R> {
    pub(super) fn new(
        address: CollectionAddress<R>,
        layout: TimeLayout,
        policy: &WritePolicy,
    ) -> Self {
        let CollectionAddress { records, key, bin } = address;
        Self {
            records,
            key,
            bin,
            layout,
            retention: None,
            policy: WritePolicy::default()
                .total_timeout(policy.total_timeout)
                .send_key(policy.send_key)
                .durable_delete(policy.durable_delete)
                .expiration(Expiration::Never)
                .of_shards(),
            open: Companions::default(),
            tokens: AtomicU64::new(RandomState::new().hash_one(0)),
        }
    }

    /// Sets over how many records each bucket is sharded.
    pub(super) fn set_shards(&mut self, shards: u64) {
        self.layout.shards = shards;
        self.open = Companions::default();
    }

    pub(super) fn bin(&self) -> &str {
        self.bin.as_str()
    }

    pub(super) const fn policy(&self) -> &WritePolicy {
        &self.policy
    }

    pub(super) fn key_of(&self, keys: KeyForm, part: CollectionPart) -> Key<'static> {
        self.layout.key(self.owner(), keys, part)
    }

    const fn owner(&self) -> CompanionRoot<'_> {
        CompanionRoot {
            root: &self.key,
            bin: self.bin,
        }
    }

    /// Returns the store's time in milliseconds since 1970.
    fn now_unix_ms(&self) -> i64 {
        (self.records.now_ms() + EPOCH_UNIX_SECONDS * 1000).cast_signed()
    }

    /// Returns for how much longer a part is kept: nothing if it is past the retention; `None`: for ever.
    pub(super) fn kept_for(&self, part: CollectionPart) -> Option<Duration> {
        let (retention, end) = (self.retention?, self.layout.end(part)?);
        let retention_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let left_ms = (end * 1000)
            .saturating_add(retention_ms)
            .saturating_sub(self.now_unix_ms());
        Some(Duration::from_millis(left_ms.max(0).unsigned_abs()))
    }

    /// Returns when a part expires that is written now.
    fn expiration(&self, part: CollectionPart) -> Expiration {
        match self.kept_for(part) {
            // To the next second; one that is past by now was not when the call began.
            Some(left) if left < MAX_TIME_TO_LIVE => {
                Expiration::After(Duration::from_secs(left.as_secs() + 1))
            }
            _ => Expiration::Never,
        }
    }

    fn token(&self) -> PlacingToken {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed) & TOKEN_BITS;
        PlacingToken(1 + token.cast_signed())
    }

    /// Does one operation, again within the policy's time where the record is fought over: for everything but what the
    /// caller wants to be written, which is refused at once.
    fn run(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<StepOutcome<OperateResult>> {
        let begun = Instant::now();
        loop {
            match self.run_once(policy, key, operations) {
                Err(Error::KeyBusy { .. })
                    if policy
                        .total_timeout
                        .is_none_or(|limit| begun.elapsed() < limit) =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    fn run_once(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<StepOutcome<OperateResult>> {
        match self.records.operate_on(policy, key, operations) {
            Ok(operated) => Ok(StepOutcome::Done(operated)),
            Err(Error::NotFound { .. }) => Ok(StepOutcome::NotFound),
            Err(Error::FilteredOut { .. }) => Ok(StepOutcome::FilteredOut),
            Err(error) => Err(error),
        }
    }

    /// Writes a record that is there already.
    fn write_existing(
        &self,
        key: &Key<'_>,
        guard: Expression,
        operations: &[Operation],
    ) -> Result<StepOutcome<()>> {
        let policy = self.existing(guard);
        self.run(&policy, key, operations)
            .map(StepOutcome::without_result)
    }

    fn existing(&self, guard: Expression) -> WritePolicy {
        self.policy
            .clone()
            .record_exists_action(RecordExistsAction::UpdateOnly)
            .expiration(Expiration::DontUpdate)
            .filter(guard)
    }

    /// Returns the number of a transition that begins now.
    fn next_epoch(&self, after: Epoch) -> Epoch {
        after.after(self.records.now_ms().saturating_mul(1000))
    }

    /// Returns the description with this collection in a phase.
    fn marked(&self, root: &RootState, phase: CollectionUse, epoch: Epoch) -> Result<Description> {
        let form = Form::of(&self.layout.value(phase))?;
        Ok(root.description.marked(self.bin, form, epoch))
    }

    /// Returns the filter of an open part.
    fn is_open(&self, route: TimeRoute, part: CollectionPart) -> Expression {
        and([self.is_part(route, part), not(bin_exists(FROZEN))])
    }

    fn is_part(&self, route: TimeRoute, part: CollectionPart) -> Expression {
        let shard_of = self.layout.shard_of(self.owner(), route, part);
        eq(list_bin(SHARD_OF), shard_of)
    }

    fn is_placed(&self, route: TimeRoute, part: CollectionPart, token: PlacingToken) -> Expression {
        and([self.is_part(route, part), eq(int_bin(FROZEN), token.0)])
    }

    /// Returns the operations that read the state of a part.
    pub(super) fn read_state() -> [Operation; 2] {
        [get_bin(SHARD_OF), get_bin(FROZEN)]
    }

    /// Reads the state of a part from the results of [`RecordSteps::read_state`].
    ///
    /// # Errors
    /// [`Error::ShardKeyCollision`] if the record belongs to something else.
    pub(super) fn state(
        &self,
        keys: KeyForm,
        part: CollectionPart,
        operated: &OperateResult,
    ) -> Result<PartState> {
        let epoch = operated
            .value(0)
            .and_then(|shard_of| part.epoch_in(shard_of, self.layout, self.owner(), keys));
        match (epoch, operated.value(1)) {
            (Some(epoch), None) => Ok(PartState::Open(epoch)),
            (Some(epoch), Some(Value::Int(token))) => {
                Ok(PartState::Placed(epoch, PlacingToken(*token)))
            }
            _ => Err(Error::ShardKeyCollision {
                key: text(&self.key_of(keys, part)),
            }),
        }
    }

    fn collection(&self, description: &Description) -> Result<Option<CollectionState>> {
        let Some(entry) = description.of(self.bin) else {
            return Ok(None);
        };
        let keys = description.keys(self.bin);
        Ok(Some(CollectionState {
            phase: self.layout.parse(&entry.form.value())?,
            route: TimeRoute {
                epoch: entry.epoch,
                keys,
            },
        }))
    }
}

impl<R: RecordSet> TimeSteps for RecordSteps<R> {
    type Act = [Operation];
    type Answer = OperateResult;

    fn layout(&self) -> TimeLayout {
        self.layout
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

    fn root(&self) -> Result<RootState> {
        let [subkeys, epoch, plain, epochs] = DESCRIPTION_BINS.map(get_bin);
        let read = [subkeys, epoch, plain, epochs, get_bin(SHARD_OF)];
        let StepOutcome::Done(operated) = self.run(&self.policy, &self.key, &read)? else {
            return Ok(RootState::default());
        };
        // A companion of another collection.
        if operated.value(4).is_some() {
            return Err(Error::ShardKeyCollision {
                key: text(&self.key),
            });
        }
        let bins = [0, 1, 2, 3].map(|bin| operated.value(bin).cloned());
        let description = Description::parse(&bins)?;
        Ok(RootState {
            keys: description.keys(self.bin),
            collection: self.collection(&description)?,
            description: SharedDescription::from(description),
        })
    }

    fn begin(&self, root: &RootState, after: Epoch) -> Result<StepOutcome<()>> {
        let epoch = self.next_epoch(after.max(root.description.latest()));
        let marked = self.marked(root, CollectionUse::Active, epoch)?;
        let guard = and([
            root.description.is_borne(),
            not(bin_exists(SHARD_OF)),
            not(bin_exists(self.bin())),
        ]);
        let policy = self.policy.clone().filter(guard);
        self.run(&policy, &self.key, &marked.write())
            .map(StepOutcome::without_result)
    }

    fn mark_deleting(&self, root: &RootState) -> Result<StepOutcome<()>> {
        let epoch = self.next_epoch(root.description.latest());
        let marked = self.marked(root, CollectionUse::Deleting, epoch)?;
        self.write_existing(&self.key, root.description.is_borne(), &marked.write())
    }

    fn clear(&self, root: &RootState) -> Result<StepOutcome<()>> {
        // The epoch stays, so that none is ever used again.
        let operations = root.description.settled(self.bin, None).write();
        self.write_existing(&self.key, root.description.is_borne(), &operations)
    }

    fn look(&self, keys: KeyForm, part: CollectionPart) -> Result<PartState> {
        let key = self.key_of(keys, part);
        match self.run(&self.policy, &key, &Self::read_state())? {
            StepOutcome::Done(operated) => self.state(keys, part, &operated),
            StepOutcome::NotFound | StepOutcome::FilteredOut => Ok(PartState::Absent),
        }
    }

    fn place(&self, route: TimeRoute, part: CollectionPart) -> Result<Option<PlacingToken>> {
        let token = self.token();
        let policy = self
            .policy
            .clone()
            .record_exists_action(RecordExistsAction::Replace)
            .expiration(self.expiration(part))
            .filter(part.is_before(self.layout, self.owner(), route));
        let operations = [
            put(SHARD_OF, self.layout.shard_of(self.owner(), route, part)),
            put(FROZEN, token.0),
        ];
        let key = self.key_of(route.keys, part);
        Ok(match self.run(&policy, &key, &operations)? {
            StepOutcome::Done(_) => Some(token),
            StepOutcome::NotFound | StepOutcome::FilteredOut => None,
        })
    }

    fn open(
        &self,
        route: TimeRoute,
        part: CollectionPart,
        token: PlacingToken,
    ) -> Result<StepOutcome<()>> {
        let operations = [
            lists::create_persistent(self.bin(), ListOrder::Ordered),
            delete_bin(FROZEN),
        ];
        let guard = self.is_placed(route, part, token);
        self.write_existing(&self.key_of(route.keys, part), guard, &operations)
    }

    fn displace(
        &self,
        route: TimeRoute,
        part: CollectionPart,
        token: PlacingToken,
    ) -> Result<StepOutcome<()>> {
        let guard = self.is_placed(route, part, token);
        self.write_existing(&self.key_of(route.keys, part), guard, &[delete_all_bins()])
    }

    fn delete(&self, route: TimeRoute, part: CollectionPart) -> Result<StepOutcome<()>> {
        let key = self.key_of(route.keys, part);
        let guard = part.is_before(self.layout, self.owner(), route);
        if self.records.may_bring_back(&self.policy) {
            // A restart may bring it back: closed, so that nobody writes to it by a route from before the delete. No token is 0.
            self.write_existing(&key, guard.clone(), &[put(FROZEN, 0)])?;
        }
        self.write_existing(&key, guard, &[delete_all_bins()])
    }

    fn enter(&self, route: TimeRoute, page: DirectoryPage, entry: i64) -> Result<StepOutcome<()>> {
        let part = CollectionPart::Page(page);
        // A page lives as long as the last bucket that it lists may, by its writers' retention.
        let policy = self
            .existing(self.is_open(route, part))
            .expiration(self.expiration(part));
        let append = lists::append(&Collection::list_policy(), self.bin(), entry);
        let key = self.key_of(route.keys, part);
        self.run(&policy, &key, &[append])
            .map(StepOutcome::without_result)
    }

    fn entries(
        &self,
        keys: KeyForm,
        page: DirectoryPage,
        range: PageRange,
    ) -> Result<(PartState, Vec<i64>)> {
        let part = CollectionPart::Page(page);
        let [shard_of, frozen] = Self::read_state();
        let entries = slice(self.bin(), range);
        let read = [shard_of, frozen, entries];
        let operated = match self.run(&self.policy, &self.key_of(keys, part), &read)? {
            StepOutcome::Done(operated) => operated,
            StepOutcome::NotFound | StepOutcome::FilteredOut => {
                return Ok((PartState::Absent, Vec::new()));
            }
        };
        let state = self.state(keys, part, &operated)?;
        let entries = match operated.value(2) {
            Some(Value::List(items)) => items.iter().filter_map(number).collect(),
            _ => Vec::new(),
        };
        Ok((state, in_range(entries, range)))
    }

    fn act(
        &self,
        route: TimeRoute,
        part: CollectionPart,
        act: &[Operation],
    ) -> Result<StepOutcome<OperateResult>> {
        let open = match part {
            CollectionPart::Shard(bucket, shard) => {
                self.open
                    .filter(shard, (bucket, route), || self.is_open(route, part))
            }
            CollectionPart::Page(_) => self.is_open(route, part),
        };
        self.run_once(&self.existing(open), &self.key_of(route.keys, part), act)
    }

    fn obstacle(&self) -> Result<Option<Error>> {
        let read = [get_bin(self.bin())];
        let has_bin = match self.run(&self.policy, &self.key, &read)? {
            StepOutcome::Done(operated) => operated.value(0).is_some(),
            _ => false,
        };
        Ok(has_bin.then(|| {
            let bin = self.bin();
            let why = format!(
                "the record has a bin {bin:?} of its own: time shards begin empty, take another name"
            );
            Error::not_applicable(why.into())
        }))
    }

    fn restless(&self) -> Error {
        Error::Timeout {
            after: self.policy.total_timeout.unwrap_or_default(),
            in_doubt: false,
            record: None,
        }
    }
}

/// Returns the operation that reads this many entries, from the end of the range at which reading begins.
fn slice(bin: &str, range: PageRange) -> Operation {
    let values = ListReturnType::Values;
    let limit = range.limit as u64;
    let back = -(range.limit as i64);
    match (range.direction, range.to.checked_add(1)) {
        (Direction::OldestFirst, _) => {
            lists::get_by_value_relative_rank_range_count(bin, range.from, 0, limit, values)
        }
        (Direction::NewestFirst, Some(end)) => {
            lists::get_by_value_relative_rank_range_count(bin, end, back, limit, values)
        }
        (Direction::NewestFirst, None) => lists::get_by_rank_range_count(bin, back, limit, values),
    }
}

/// Brings entries into the direction of a range, without those outside of it.
pub(super) fn in_range(mut entries: Vec<i64>, range: PageRange) -> Vec<i64> {
    entries.retain(|entry| (range.from..=range.to).contains(entry));
    if range.direction == Direction::NewestFirst {
        entries.reverse();
    }
    entries
}

const fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}
