//! The steps on a store: each is a request of the executor, which hash shards have, too.

use std::time::Duration;

use spikelet_storage::EPOCH_UNIX_SECONDS;

use super::calendar::TimeBucket;
use super::layout::{CollectionPart, CollectionUse, DirectoryPage, TimeLayout};
use super::steps::{
    CollectionState, Direction, PageRange, PartState, RootState, StepOutcome, TimeSteps,
};
use crate::operations::lists;
use crate::policy::MAX_TIME_TO_LIVE;
use crate::record::companion_key::{KeyForm, text};
use crate::shard::address::CollectionAddress;
use crate::shard::content::{Act, ActReply, ActValues, Bin, Collection, Content, first};
use crate::shard::description::Form;
use crate::shard::executor::Executor;
use crate::shard::protocol::{
    AtomicRequest, CompanionRoute, CompanionState, CompanionToken, Observation, Precondition, Read,
    RecordRef, RequestEdit, RequestReply,
};
use crate::shard::request_runner::token;
use crate::shard::scheme::{Companion, Epoch, Scheme};
use crate::value::Value;
use crate::{Error, Expiration, ListReturnType, Operation, RecordSet, Result, WritePolicy};

/// One collection, and how its records are operated on.
#[derive(Debug)]
pub(super) struct RecordSteps<R> {
    pub(super) records: R,
    pub(super) executor: Executor,
    pub(super) layout: TimeLayout,
    pub(super) retention: Option<Duration>,
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
            executor: Executor::new(key, bin, Collection::List, policy),
            layout,
            retention: None,
        }
    }

    /// Sets over how many records each bucket is sharded.
    pub(super) fn set_shards(&mut self, shards: u64) {
        self.layout.shards = shards;
        self.executor.forget_companions();
    }

    pub(super) fn bin(&self) -> &str {
        self.executor.bin.as_str()
    }

    pub(super) const fn record(&self, keys: KeyForm, part: CollectionPart) -> RecordRef {
        RecordRef::Timed(keys, self.layout, part)
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

    fn run(&self, request: &AtomicRequest<Bin>) -> Result<StepOutcome<Observation<Bin>>> {
        Ok(
            match self.executor.run(&self.records, request, &mut None)? {
                RequestReply::Done(seen) => StepOutcome::Done(seen),
                RequestReply::NotFound => StepOutcome::NotFound,
                RequestReply::FilteredOut => StepOutcome::FilteredOut,
            },
        )
    }

    /// Writes a record. One that is not made by it keeps its time to live.
    fn write(
        &self,
        place: RecordRef,
        precondition: Precondition,
        edit: RequestEdit<Bin>,
        expiration: Expiration,
    ) -> Result<StepOutcome<Observation<Bin>>> {
        self.run(&AtomicRequest::write(place, precondition, edit).expiring(expiration))
    }

    /// Writes a part.
    fn write_part(
        &self,
        (route, part): (CompanionRoute, CollectionPart),
        precondition: Precondition,
        edit: RequestEdit<Bin>,
    ) -> Result<StepOutcome<()>> {
        let place = self.record(route.keys, part);
        self.write(place, precondition, edit, Expiration::DontUpdate)
            .map(|done| done.map(drop))
    }

    /// Marks a root, borne as read, with the collection in a phase.
    fn mark(
        &self,
        precondition: Precondition,
        (phase, after): (CollectionUse, Epoch),
        expiration: Expiration,
    ) -> Result<StepOutcome<()>> {
        let form = Form::of(&self.layout.value(phase))?;
        let after = after.max(precondition.description().latest());
        let epoch = after.after(self.records.now_ms().saturating_mul(1000));
        let edit = RequestEdit::Mark(form, epoch, None);
        self.write(RecordRef::Root, precondition, edit, expiration)
            .map(|done| done.map(drop))
    }

    const fn companion(&self, route: CompanionRoute, part: CollectionPart) -> Companion {
        self.layout.companion(part, route.epoch)
    }

    /// Reads something of a part, with its state.
    fn read(
        &self,
        (keys, part): (KeyForm, CollectionPart),
        read: Read<Bin>,
    ) -> Result<(PartState, Option<ActReply>)> {
        match self.run(&AtomicRequest::read(self.record(keys, part), read))? {
            StepOutcome::Done(seen) => Ok((self.state(keys, part, &seen)?, seen.answer)),
            StepOutcome::NotFound | StepOutcome::FilteredOut => Ok((PartState::Absent, None)),
        }
    }

    /// Returns the state of a part.
    ///
    /// # Errors
    /// [`Error::ShardKeyCollision`] if the record belongs to something else.
    pub(super) fn state(
        &self,
        keys: KeyForm,
        part: CollectionPart,
        seen: &Observation<Bin>,
    ) -> Result<PartState> {
        match seen.companion {
            Some((companion, CompanionState::Live)) => Ok(PartState::Open(companion.epoch)),
            Some((companion, CompanionState::Placed(token))) => {
                Ok(PartState::Placed(companion.epoch, token))
            }
            // A delete has closed it. No token is 0.
            Some((companion, CompanionState::Frozen)) => {
                Ok(PartState::Placed(companion.epoch, CompanionToken(0)))
            }
            None => Err(Error::ShardKeyCollision {
                key: text(&self.executor.key_of(self.record(keys, part))),
            }),
        }
    }
}

impl<R: RecordSet> TimeSteps for RecordSteps<R> {
    type Act = Act;
    type Answer = ActValues;

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
        let read = AtomicRequest::read(RecordRef::Root, Read::Description);
        let StepOutcome::Done(seen) = self.run(&read)? else {
            return Ok(RootState::default());
        };
        let (keys, description) = (seen.root.keys, seen.root.description);
        let collection = description.of(self.executor.bin).map(|entry| {
            Ok::<_, Error>(CollectionState {
                phase: self.layout.parse(&entry.form.value())?,
                route: CompanionRoute {
                    shards: self.layout.shards,
                    epoch: entry.epoch,
                    keys,
                },
            })
        });
        Ok(RootState {
            keys,
            collection: collection.transpose()?,
            description,
            has_bin: seen.has_bin,
        })
    }

    fn begin(&self, root: &RootState, after: Epoch) -> Result<StepOutcome<()>> {
        let bare = Precondition::Bare(root.description.clone());
        self.mark(bare, (CollectionUse::Active, after), Expiration::Never)
    }

    fn mark_deleting(&self, root: &RootState) -> Result<StepOutcome<()>> {
        let phase = (CollectionUse::Deleting, Epoch::default());
        let bears = Precondition::Bears(root.description.clone());
        self.mark(bears, phase, Expiration::DontUpdate)
    }

    fn clear(&self, root: &RootState) -> Result<StepOutcome<()>> {
        // The epoch stays, so that none is ever used again.
        let (bears, edit) = (
            Precondition::Bears(root.description.clone()),
            RequestEdit::Finish(Scheme::Unsharded),
        );
        self.write(RecordRef::Root, bears, edit, Expiration::DontUpdate)
            .map(|done| done.map(drop))
    }

    fn look(&self, keys: KeyForm, part: CollectionPart) -> Result<PartState> {
        self.read((keys, part), Read::Description)
            .map(|(state, _)| state)
    }

    fn place(&self, route: CompanionRoute, part: CollectionPart) -> Result<Option<CompanionToken>> {
        let token = token();
        let (older, edit) = (
            Precondition::OlderThan(route.epoch),
            RequestEdit::Place(self.companion(route, part), token),
        );
        let place = self.record(route.keys, part);
        let placed = self.write(place, older, edit, self.expiration(part))?;
        Ok(matches!(placed, StepOutcome::Done(_)).then_some(token))
    }

    fn open(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> Result<StepOutcome<()>> {
        let placed = Precondition::Placed(self.companion(route, part), token);
        let empty = RequestEdit::Fill(Content::List(Vec::new()));
        self.write_part((route, part), placed, empty)
    }

    fn displace(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> Result<StepOutcome<()>> {
        let placed = Precondition::Placed(self.companion(route, part), token);
        self.write_part((route, part), placed, RequestEdit::Delete)
    }

    fn delete(&self, route: CompanionRoute, part: CollectionPart) -> Result<StepOutcome<()>> {
        let older = Precondition::OlderThan(route.epoch);
        self.write_part((route, part), older, RequestEdit::Delete)
    }

    fn enter(
        &self,
        route: CompanionRoute,
        page: DirectoryPage,
        entry: i64,
    ) -> Result<StepOutcome<()>> {
        let part = CollectionPart::Page(page);
        let live = Precondition::Live(self.companion(route, part));
        // A page lives as long as the last bucket that it lists may, by its writers' retention.
        let (place, kept) = (self.record(route.keys, part), self.expiration(part));
        self.write(place, live, RequestEdit::Enter(entry), kept)
            .map(|done| done.map(drop))
    }

    fn entries(
        &self,
        keys: KeyForm,
        page: DirectoryPage,
        range: PageRange,
    ) -> Result<(PartState, Vec<i64>)> {
        let read = Read::User(Act::of_existing([slice(self.bin(), range)]));
        let (state, answer) = self.read((keys, CollectionPart::Page(page)), read)?;
        let entries = match first(answer.map(|answered| answered.values)) {
            Some(Value::List(items)) => items.iter().filter_map(number).collect(),
            _ => Vec::new(),
        };
        Ok((state, in_range(entries, range)))
    }

    fn act(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        act: &Act,
    ) -> Result<StepOutcome<ActValues>> {
        let live = Precondition::Live(self.companion(route, part));
        let (place, edit) = (
            self.record(route.keys, part),
            RequestEdit::User(act.clone()),
        );
        let done = self.write(place, live, edit, Expiration::DontUpdate)?;
        Ok(done.map(|seen| {
            seen.answer
                .map(|answered| answered.values)
                .unwrap_or_default()
        }))
    }

    fn obstacle(&self) -> Error {
        let bin = self.bin();
        let why = format!(
            "the record has a bin {bin:?} of its own: time shards begin empty, take another name"
        );
        Error::not_applicable(why.into())
    }

    fn restless(&self) -> Error {
        self.executor.restless()
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
