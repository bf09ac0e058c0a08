//! The protocol as machines of pure steps: the shipped code is the checked code.
//!
//! A machine is plain data. [`Machine::request`] says which operation on one record comes next,
//! [`Machine::resume`] takes its reply. A [`AtomicRequest`] is data, too: `executor` turns it into
//! operations and a filter on a real store, the model executes it on a map, and a test holds the
//! two together. A machine may stop for ever after any step; others go on.
//!
//! * [`advance`]: carries a transition to its end. [`start`]: starts one.
//! * [`write`]: a write to one element. [`view`]: which records together are the collection, or
//!   have one element.
//! * `model`: every interleaving of several machines.

pub(crate) mod advance;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod rules;
pub(crate) mod start;
pub(crate) mod view;
pub(crate) mod write;

use std::fmt::Debug;

use super::description::{Description, Form, SharedDescription};
pub(crate) use super::route::{CompanionRoute, NeighborCollections, RecordRef, RouteHint};
use super::scheme::{Companion, Epoch, Scheme};
use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::{Expiration, Result};

/// The content of a collection and the calls on it: values in a real store, a few bits in the
/// model.
pub(crate) trait CollectionKind: Clone + Debug {
    /// The content of a collection, or of a part of it.
    type Part: Clone + Debug;
    /// What a caller reads or changes of the collection in one record.
    type Act: Clone + Debug;
    /// The result of an act.
    type Answer: Clone + Debug;

    /// Returns the part of a collection's content that lives in a shard, if there are this many.
    fn part(whole: &Self::Part, shards: u64, shard: u64) -> Self::Part;
}

/// The condition on an existing record: otherwise the reply is [`RequestReply::FilteredOut`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Precondition {
    /// No condition: for reads that find out the record's state.
    None,
    /// Root: the collection is unsharded, and others of the record are as [`NeighborCollections`]
    /// says.
    Unsharded(NeighborCollections),
    /// Root: it bears this description.
    Bears(SharedDescription),
    /// Root: it bears this description, and has no bin of the collection's name.
    Bare(SharedDescription),
    /// Companion: exactly this one, with its bin, and not frozen.
    Live(Companion),
    /// Companion of this collection, older than this.
    OlderThan(Epoch),
    /// Companion that is being made under this token.
    Placed(Companion, CompanionToken),
}

impl Precondition {
    /// Returns the description that a change of the root begins from.
    pub(crate) fn description(&self) -> SharedDescription {
        match self {
            Self::Bears(description) | Self::Bare(description) => description.clone(),
            _ => SharedDescription::default(),
        }
    }
}

/// What a request changes. Nothing but [`RequestEdit::User`], [`RequestEdit::Mark`] and
/// [`RequestEdit::Place`] creates a record.
#[derive(Clone, Debug)]
pub(crate) enum RequestEdit<K: CollectionKind> {
    /// The request only reads.
    None,
    /// The caller's own write.
    User(K::Act),
    /// Root: marks that a transition begins, and from which shard on the keys of companions stand
    /// apart, if that is new. The rest of the description is as in the precondition, here and
    /// below.
    Mark(Form, Epoch, Option<u64>),
    /// Root: ends a transition with this scheme, and removes the collection's bin: the companions
    /// hold its content.
    FinishAndRemoveBin(Scheme),
    /// Root: ends a transition with this scheme. The bin, if there is one, stays.
    Finish(Scheme),
    /// Root: puts the content of the last companion into the bin.
    RestoreToRoot(K::Part),
    /// Root: deletes the bin of an unsharded collection.
    Clear,
    /// Companion: replaces any older one by one without content, marked by this token.
    Place(Companion, CompanionToken),
    /// Companion: fills a placed one, and opens it.
    Fill(K::Part),
    /// Companion: closes it to writes.
    Freeze,
    /// Companion: removes the elements that have moved to the new companion of its pair, and opens
    /// it at its new epoch.
    RemoveMoved(K::Part, Companion),
    /// Companion: adds the content of the companion that is merged into it, at its new epoch.
    Absorb(K::Part, Companion),
    /// Page of a directory: adds an entry.
    Enter(i64),
    /// Companion: deletes the record.
    Delete,
}

/// What a request reads, after its edit.
#[derive(Clone, Debug)]
pub(crate) enum Read<K: CollectionKind> {
    /// Nothing but what [`RequestEdit::User`] answers.
    Nothing,
    /// The record's description of its shards, in any form; of a root also whether it has the
    /// collection's bin.
    Description,
    /// The state of the record.
    State,
    /// The state of the record, and the content.
    Content,
    /// The state of the record, and the caller's answer; no answer where there is no bin. A state
    /// that the precondition implies is not read again.
    User(K::Act),
}

/// One atomic operation on one record.
#[derive(Clone, Debug)]
pub(crate) struct AtomicRequest<K: CollectionKind> {
    pub(crate) place: RecordRef,
    pub(crate) precondition: Precondition,
    pub(crate) edit: RequestEdit<K>,
    pub(crate) read: Read<K>,
    /// When the record expires that the request writes.
    pub(crate) expiration: Expiration,
}

impl<K: CollectionKind> AtomicRequest<K> {
    pub(crate) const fn read(place: RecordRef, read: Read<K>) -> Self {
        Self {
            place,
            precondition: Precondition::None,
            edit: RequestEdit::None,
            read,
            expiration: Expiration::Never,
        }
    }

    pub(crate) fn expiring(self, expiration: Expiration) -> Self {
        Self { expiration, ..self }
    }

    /// Returns the request under this precondition; the state that it implies need not be read
    /// then.
    pub(crate) fn on_condition(self, precondition: Precondition) -> Self {
        Self {
            precondition,
            ..self
        }
    }

    pub(crate) fn write(
        place: RecordRef,
        precondition: Precondition,
        edit: RequestEdit<K>,
    ) -> Self {
        let request = Self::read(place, Read::Nothing).on_condition(precondition);
        Self { edit, ..request }
    }
}

/// The outcome of an atomic operation on one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StepOutcome<T> {
    /// There is no such record, and the operation creates none.
    NotFound,
    /// The precondition does not hold.
    FilteredOut,
    /// The edit is made, and this was read.
    Done(T),
}

impl<T> StepOutcome<T> {
    pub(crate) fn map<U>(self, result: impl FnOnce(T) -> U) -> StepOutcome<U> {
        match self {
            Self::NotFound => StepOutcome::NotFound,
            Self::FilteredOut => StepOutcome::FilteredOut,
            Self::Done(done) => StepOutcome::Done(result(done)),
        }
    }
}

/// The result of a request.
pub(crate) type RequestReply<K> = StepOutcome<Observation<K>>;

/// The reading of a request. Parts that were not asked for are as in a record without bins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Observation<K: CollectionKind> {
    /// The collection's state in the root.
    pub(crate) root: CollectionRoot,
    /// The state of a companion; `None` if the record does not belong to this collection.
    pub(crate) companion: Option<(Companion, CompanionState)>,
    /// Whether the collection's bin is there.
    pub(crate) has_bin: bool,
    /// The content, empty where there is no bin.
    pub(crate) content: Option<K::Part>,
    pub(crate) answer: Option<K::Answer>,
}

impl<K: CollectionKind> Observation<K> {
    /// Returns an observation of a record without bins.
    pub(crate) fn nothing() -> Self {
        Self {
            root: CollectionRoot::default(),
            companion: None,
            has_bin: false,
            content: None,
            answer: None,
        }
    }
}

/// The state of one collection in its root, and of the others of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CollectionRoot {
    pub(crate) scheme: Scheme,
    /// The collection's last transition; while it is in the root, the last one of any collection of
    /// the record.
    pub(crate) epoch: Epoch,
    /// The form of its companions' keys, present and future.
    pub(crate) keys: KeyForm,
    /// The collection, and the others of the record.
    pub(crate) description: SharedDescription,
}

impl CollectionRoot {
    /// The part of a description for the collection in this bin.
    ///
    /// # Errors
    /// [`crate::Error::ShardScheme`] for another kind of shards, or one that is not understood.
    pub(crate) fn of(description: Description, bin: BinName) -> Result<Self> {
        let (scheme, epoch) = match description.of(bin) {
            None => (Scheme::Unsharded, description.latest()),
            Some(entry) => (entry.form.scheme()?, entry.epoch),
        };
        Ok(Self {
            scheme,
            epoch,
            keys: description.keys(bin),
            description: description.into(),
        })
    }

    /// The description of a record, without a look at its entry for the collection in this bin.
    pub(crate) fn described(description: Description, bin: BinName) -> Self {
        Self {
            keys: description.keys(bin),
            description: description.into(),
            ..Self::default()
        }
    }

    /// Returns whether both say the same of the collection. Others of the record may have changed.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (self.scheme, self.epoch) == (other.scheme, other.epoch)
    }

    /// Returns the companions of the collection, unless it is unsharded or in transition.
    pub(crate) const fn route(&self) -> Option<CompanionRoute> {
        match self.scheme {
            Scheme::Active { .. } => self.companions(),
            _ => None,
        }
    }

    /// Returns the companions of a collection that is in use, or being deleted.
    pub(crate) const fn companions(&self) -> Option<CompanionRoute> {
        match self.scheme {
            Scheme::Active { shards } | Scheme::Deleting { shards } => Some(CompanionRoute {
                shards,
                epoch: self.epoch,
                keys: self.keys,
            }),
            _ => None,
        }
    }

    /// Returns where the next call is to look for the collection first.
    pub(crate) fn route_hint(&self) -> RouteHint {
        match (self.route(), self.scheme) {
            (Some(route), _) => RouteHint::Sharded(route),
            (None, Scheme::Unsharded) => RouteHint::Unsharded(self.neighbors()),
            // In a transition the root must be read.
            (None, _) => RouteHint::Unknown,
        }
    }

    /// Returns whether other collections of the record are sharded, for a collection that is not.
    pub(crate) fn neighbors(&self) -> NeighborCollections {
        if self.description.is_empty() {
            NeighborCollections::None
        } else {
            NeighborCollections::Sharded
        }
    }
}

/// The state of a companion: only a live one may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CompanionState {
    Live,
    Frozen,
    /// It is being made, and has no content yet.
    Placed(CompanionToken),
}

/// Identifies one attempt to make a companion; never used twice. Only callers who knew a
/// companion's token when they found the transition still under way fill it: a late caller leaves a
/// husk at worst, which is never read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CompanionToken(pub(crate) u64);

impl CompanionToken {
    /// Returns the next token of the same machine.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// Why a machine stops without an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Failure {
    /// The root is right, and this companion is not there.
    Missing(u64),
    /// A record of another kind has the key of this companion.
    Collision(KeyForm, u64),
    /// The companion has no such bin.
    NoBin(u64),
    /// A split or a merge does not apply to a collection in this state.
    NotApplicable(Scheme),
    /// The collection cannot go back into the root: another program has made a bin of its name
    /// there.
    Foreign,
    /// The collection cannot be sharded beside another one, which is sharded in a form that is not
    /// understood.
    OtherForm,
}

/// The state of a machine after a reply: it goes on, has an outcome, or fails.
#[derive(Clone, Debug)]
pub(crate) enum MachineProgress<M, O> {
    Next(M),
    Done(O),
    Failed(Failure),
}

/// A machine of pure steps.
pub(crate) trait Machine<K: CollectionKind>: Sized {
    /// The result of the machine.
    type Outcome;

    /// Returns the next operation.
    fn request(&self) -> AtomicRequest<K>;

    /// Continues with the reply to it.
    fn resume(self, reply: RequestReply<K>) -> MachineProgress<Self, Self::Outcome>;

    /// Returns how far a transition has come, if the machine advances one.
    fn transition(&self) -> Option<(Scheme, TransitionProgress)> {
        None
    }
}

/// How many companions a transition has passed, and how many it goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TransitionProgress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}
