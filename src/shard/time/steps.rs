//! The steps of the protocol: each is one atomic operation on one record, or one look at the clock.

use super::calendar::TimeBucket;
use super::layout::{CollectionPart, CollectionUse, DirectoryPage, TimeLayout};
use crate::record::companion_key::KeyForm;
use crate::shard::description::SharedDescription;
use crate::shard::protocol::{CompanionRoute, CompanionToken};
use crate::shard::scheme::Epoch;
use crate::{Error, Result};

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StepOutcome<T> {
    Done(T),
    /// There is no record, and the step creates none.
    NotFound,
    /// Its guard does not hold.
    FilteredOut,
}

impl<T> StepOutcome<T> {
    pub(super) fn map<U>(self, result: impl FnOnce(T) -> U) -> StepOutcome<U> {
        match self {
            Self::Done(done) => StepOutcome::Done(result(done)),
            Self::NotFound => StepOutcome::NotFound,
            Self::FilteredOut => StepOutcome::FilteredOut,
        }
    }
}

/// The state of a root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RootState {
    /// All sharded collections of the record.
    pub(super) description: SharedDescription,
    /// How the companions of this one are called, or will be.
    pub(super) keys: KeyForm,
    /// This one; `None`: there is none.
    pub(super) collection: Option<CollectionState>,
    /// Whether it has a bin of the name of this one.
    pub(super) has_bin: bool,
}

/// The collection's state in the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CollectionState {
    pub(super) phase: CollectionUse,
    pub(super) route: CompanionRoute,
}

/// The state of the record of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PartState {
    Absent,
    Open(Epoch),
    /// Not open yet.
    Placed(Epoch, CompanionToken),
}

/// Why records cannot be read.
#[derive(Debug)]
pub(super) enum StepError {
    /// The collection was begun anew: read the root again.
    Stale,
    Failed(Error),
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

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

/// The steps: each is one atomic operation on one record, or one look at the clock, and may be repeated.
pub(super) trait TimeSteps {
    /// A caller's operation on a bucket's record, and its answer.
    type Act;
    type Answer;

    fn layout(&self) -> TimeLayout;

    /// Returns how many roots have lost their description since the store was opened.
    fn lost_roots(&self) -> u64;

    /// Returns the first bucket that is kept; `None`: all are.
    fn horizon(&self) -> Result<Option<TimeBucket>>;

    /// Reads the root.
    fn root(&self) -> Result<RootState>;

    /// Root, borne as read, without a collection: makes it, with an epoch later than this one.
    fn begin(&self, root: &RootState, after: Epoch) -> Result<StepOutcome<()>>;

    /// Root, borne as read: from here on nothing is opened.
    fn mark_deleting(&self, root: &RootState) -> Result<StepOutcome<()>>;

    /// Root, borne as read: the deletion is done.
    fn clear(&self, root: &RootState) -> Result<StepOutcome<()>>;

    /// Returns the state of a part.
    fn look(&self, keys: KeyForm, part: CollectionPart) -> Result<PartState>;

    /// Places a part where there is none, or one of an earlier epoch. `None`: there is a later one, or it is another's.
    fn place(&self, route: CompanionRoute, part: CollectionPart) -> Result<Option<CompanionToken>>;

    /// Opens the record that was placed under this token.
    fn open(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> Result<StepOutcome<()>>;

    /// Removes the record that was placed under this token.
    fn displace(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> Result<StepOutcome<()>>;

    /// Deletes a part of an epoch earlier than the route's.
    fn delete(&self, route: CompanionRoute, part: CollectionPart) -> Result<StepOutcome<()>>;

    /// Adds an entry to a page that is open.
    fn enter(
        &self,
        route: CompanionRoute,
        page: DirectoryPage,
        entry: i64,
    ) -> Result<StepOutcome<()>>;

    /// Reads entries of a page, with its state.
    fn entries(
        &self,
        keys: KeyForm,
        page: DirectoryPage,
        range: PageRange,
    ) -> Result<(PartState, Vec<i64>)>;

    /// Does what the caller wants with a bucket's record that is open.
    fn act(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        act: &Self::Act,
    ) -> Result<StepOutcome<Self::Answer>>;

    /// Returns the error for a root whose bin is in the way of a collection.
    fn obstacle(&self) -> Error;

    /// Returns the error for a call that others have kept from its end.
    fn restless(&self) -> Error;

    /// Notes that a call begins, or begins again, with this route.
    fn begin_attempt(&self, _remembered: impl FnOnce() -> Option<CompanionRoute>) {}
}
