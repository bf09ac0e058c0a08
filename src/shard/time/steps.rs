//! The steps of the protocol: each is one atomic operation on one record, or one look at the clock.

use super::calendar::TimeBucket;
use super::layout::{CollectionPart, DirectoryPage, TimeLayout};
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::shard::description::Form;
pub(super) use crate::shard::protocol::StepOutcome;
use crate::shard::protocol::{
    AtomicRequest, CollectionKind, CollectionRoot, CompanionRoute, CompanionState, CompanionToken,
    Observation, Precondition, Read, RecordRef, RequestEdit, RequestReply,
};
use crate::shard::request_runner::ReadFailure;
use crate::shard::scheme::{Companion, Epoch, Scheme};
use crate::{Error, Expiration, Result};

/// The state of the record of a part; `None`: there is none.
pub(super) type PartState = Option<(Companion, CompanionState)>;

/// Returns whether a part is open, and of this epoch.
pub(super) fn is_open(state: PartState, epoch: Epoch) -> bool {
    matches!(state, Some((found, CompanionState::Live)) if found.epoch == epoch)
}

/// Returns whether a part is of a later epoch than this one: the collection was begun anew.
pub(super) fn is_newer(state: PartState, epoch: Epoch) -> bool {
    state.is_some_and(|(found, _)| found.epoch > epoch)
}

/// Why records cannot be read: stale if the collection was begun anew.
pub(super) type StepError = ReadFailure<()>;

/// A read of several records.
pub(super) type ReadResult<T> = std::result::Result<T, StepError>;

/// In which order buckets and elements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    OldestFirst,
    NewestFirst,
}

/// Entries of a page to read: how many at most, and the first and last that may be among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageRange {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) direction: Direction,
    pub(super) limit: usize,
}

/// The content of the records of buckets and pages, and the calls on it.
pub(super) trait TimedKind: CollectionKind {
    /// The content of a record to which nothing was added yet.
    const EMPTY: Self::Part;

    /// Reads entries of a page, from the end of the range at which reading begins.
    fn read_entries(bin: BinName, range: PageRange) -> Self::Act;

    /// The entries that were read, in the order of their numbers.
    fn entries(answer: Self::Answer) -> Vec<i64>;
}

/// A caller's operation on the record of a bucket.
pub(super) type ActOf<S> = <<S as TimeSteps>::Kind as CollectionKind>::Act;
/// Its answer.
pub(super) type AnswerOf<S> = <<S as TimeSteps>::Kind as CollectionKind>::Answer;

/// A store with its clock, and the steps on it: each is one request, or one look at the clock, and
/// may be repeated.
pub(super) trait TimeSteps {
    type Kind: TimedKind;

    fn layout(&self) -> TimeLayout;

    /// Returns the bin of the collection.
    fn bin(&self) -> BinName;

    /// Returns how many roots have lost their description since the store was opened.
    fn lost_roots(&self) -> u64;

    /// Returns the first bucket that is kept; `None`: all are.
    fn horizon(&self) -> Result<Option<TimeBucket>>;

    /// Returns the time in microseconds, from which epochs are made.
    fn now_us(&self) -> u64;

    /// Returns a token that was never used.
    fn token(&self) -> CompanionToken;

    /// Returns when a part expires that is written now.
    fn expiration(&self, part: CollectionPart) -> Expiration;

    /// Executes a request.
    fn execute(&self, request: &AtomicRequest<Self::Kind>) -> Result<RequestReply<Self::Kind>>;

    /// Returns an error if the store takes no deletes.
    fn check_deletes(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the error for a record that belongs to something else.
    fn collision(&self, record: RecordRef) -> Error;

    /// Returns the error for a call that others have kept from its end.
    fn restless(&self) -> Error;

    /// Notes that a call begins, or begins again, with this route.
    fn begin_attempt(&self, _remembered: impl FnOnce() -> Option<CompanionRoute>) {}

    fn record(&self, keys: KeyForm, part: CollectionPart) -> RecordRef {
        RecordRef::Timed(keys, self.layout(), part)
    }

    fn companion(&self, route: CompanionRoute, part: CollectionPart) -> Companion {
        self.layout().companion(part, route.epoch)
    }

    /// Writes a part.
    fn write_part(
        &self,
        (route, part): (CompanionRoute, CollectionPart),
        precondition: Precondition,
        edit: RequestEdit<Self::Kind>,
        expiration: Expiration,
    ) -> Result<RequestReply<Self::Kind>> {
        let place = self.record(route.keys, part);
        let write = AtomicRequest::write(place, precondition, edit);
        self.execute(&write.expiring(expiration))
    }

    /// Writes the root. It keeps its time to live, but for one that is begun.
    fn write_root(
        &self,
        precondition: Precondition,
        edit: RequestEdit<Self::Kind>,
        expiration: Expiration,
    ) -> Result<StepOutcome<()>> {
        let write = AtomicRequest::write(RecordRef::Root, precondition, edit);
        let written = self.execute(&write.expiring(expiration))?;
        Ok(written.map(drop))
    }

    /// Returns the edit that marks a root, borne as read, with the collection in a state, and an
    /// epoch later than this one.
    fn mark(
        &self,
        root: &CollectionRoot,
        scheme: Scheme,
        after: Epoch,
    ) -> Result<RequestEdit<Self::Kind>> {
        let form = Form::of(&self.layout().value(scheme))?;
        let epoch = after.max(root.description.latest()).after(self.now_us());
        Ok(RequestEdit::Mark(form, epoch, None))
    }

    /// Reads something of a part, with its state.
    fn read(
        &self,
        (keys, part): (KeyForm, CollectionPart),
        read: Read<Self::Kind>,
    ) -> Result<(PartState, Option<AnswerOf<Self>>)> {
        match self.execute(&AtomicRequest::read(self.record(keys, part), read))? {
            StepOutcome::Done(seen) => Ok((self.state(keys, part, &seen)?, seen.answer)),
            StepOutcome::NotFound | StepOutcome::FilteredOut => Ok((None, None)),
        }
    }

    /// Returns the state of a part.
    ///
    /// # Errors
    /// [`Error::ShardKeyCollision`] if the record belongs to something else.
    fn state(
        &self,
        keys: KeyForm,
        part: CollectionPart,
        seen: &Observation<Self::Kind>,
    ) -> Result<PartState> {
        match seen.companion {
            // A delete has closed it. No token is 0.
            Some((companion, CompanionState::Frozen)) => {
                Ok(Some((companion, CompanionState::Placed(CompanionToken(0)))))
            }
            None => Err(self.collision(self.record(keys, part))),
            state => Ok(state),
        }
    }

    /// Reads the root.
    fn root(&self) -> Result<Observation<Self::Kind>> {
        let read = AtomicRequest::read(RecordRef::Root, Read::Description);
        let StepOutcome::Done(seen) = self.execute(&read)? else {
            return Ok(Observation::nothing());
        };
        let root = self.layout().read(seen.root, self.bin())?;
        Ok(Observation { root, ..seen })
    }

    /// Root, borne as read, without a collection: makes it, with an epoch later than this one.
    fn begin(&self, root: &CollectionRoot, after: Epoch) -> Result<StepOutcome<()>> {
        let bare = Precondition::Bare(root.description.clone());
        let mark = self.mark(root, self.layout().active(), after)?;
        self.write_root(bare, mark, Expiration::Never)
    }

    /// Root, borne as read: from here on nothing is opened.
    fn mark_deleting(&self, root: &CollectionRoot) -> Result<StepOutcome<()>> {
        let bears = Precondition::Bears(root.description.clone());
        let mark = self.mark(root, self.layout().deleting(), Epoch::default())?;
        self.write_root(bears, mark, Expiration::DontUpdate)
    }

    /// Root, borne as read: the deletion is done. The epoch stays, so that none is ever used again.
    fn clear(&self, root: &CollectionRoot) -> Result<StepOutcome<()>> {
        let bears = Precondition::Bears(root.description.clone());
        let finish = RequestEdit::Finish(Scheme::Unsharded);
        self.write_root(bears, finish, Expiration::DontUpdate)
    }

    /// Returns the state of a part.
    fn look(&self, keys: KeyForm, part: CollectionPart) -> Result<PartState> {
        self.read((keys, part), Read::Description)
            .map(|(state, _)| state)
    }

    /// Places a part where there is none, or one of an earlier epoch. `None`: there is a later one,
    /// or it is another's.
    fn place(&self, route: CompanionRoute, part: CollectionPart) -> Result<Option<CompanionToken>> {
        let token = self.token();
        let older = Precondition::OlderThan(route.epoch);
        let place = RequestEdit::Place(self.companion(route, part), token);
        let placed = self.write_part((route, part), older, place, self.expiration(part))?;
        Ok(matches!(placed, StepOutcome::Done(_)).then_some(token))
    }

    /// Edits the record that was placed under this token: [`RequestEdit::Fill`] opens it,
    /// [`RequestEdit::Delete`] removes it.
    fn edit_placed(
        &self,
        part: (CompanionRoute, CollectionPart),
        token: CompanionToken,
        edit: RequestEdit<Self::Kind>,
    ) -> Result<StepOutcome<()>> {
        let placed = Precondition::Placed(self.companion(part.0, part.1), token);
        let edited = self.write_part(part, placed, edit, Expiration::DontUpdate)?;
        Ok(edited.map(drop))
    }

    /// Deletes a part of an epoch earlier than the route's.
    fn delete(&self, route: CompanionRoute, part: CollectionPart) -> Result<StepOutcome<()>> {
        let older = Precondition::OlderThan(route.epoch);
        let delete = RequestEdit::Delete;
        let deleted = self.write_part((route, part), older, delete, Expiration::DontUpdate)?;
        Ok(deleted.map(drop))
    }

    /// Adds an entry to a page that is open. A page lives as long as the last bucket that it lists
    /// may, by its writers' retention.
    fn enter(
        &self,
        route: CompanionRoute,
        page: DirectoryPage,
        entry: i64,
    ) -> Result<StepOutcome<()>> {
        let part = CollectionPart::Page(page);
        let live = Precondition::Live(self.companion(route, part));
        let enter = RequestEdit::Enter(entry);
        let entered = self.write_part((route, part), live, enter, self.expiration(part))?;
        Ok(entered.map(drop))
    }

    /// Reads entries of a page, with its state.
    fn entries(
        &self,
        keys: KeyForm,
        page: DirectoryPage,
        range: PageRange,
    ) -> Result<(PartState, Vec<i64>)> {
        let read = Read::User(Self::Kind::read_entries(self.bin(), range));
        let (state, answer) = self.read((keys, CollectionPart::Page(page)), read)?;
        let entries = answer.map(Self::Kind::entries).unwrap_or_default();
        Ok((state, in_range(entries, range)))
    }

    /// Does what the caller wants with a bucket's record that is open.
    fn act(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        act: &ActOf<Self>,
    ) -> Result<StepOutcome<AnswerOf<Self>>> {
        let live = Precondition::Live(self.companion(route, part));
        let user = RequestEdit::User(act.clone());
        let acted = self.write_part((route, part), live, user, Expiration::DontUpdate)?;
        match acted.map(|seen| seen.answer) {
            StepOutcome::Done(None) => Err(Error::bin_not_found(self.bin().as_str())),
            StepOutcome::Done(Some(answer)) => Ok(StepOutcome::Done(answer)),
            StepOutcome::NotFound => Ok(StepOutcome::NotFound),
            StepOutcome::FilteredOut => Ok(StepOutcome::FilteredOut),
        }
    }
}

/// Brings entries into the direction of a range, without those outside of it.
fn in_range(mut entries: Vec<i64>, range: PageRange) -> Vec<i64> {
    entries.retain(|entry| (range.from..=range.to).contains(entry));
    if range.direction == Direction::NewestFirst {
        entries.reverse();
    }
    entries
}
