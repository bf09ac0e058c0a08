//! The protocol as machines of pure steps: what ships is what is checked.
//!
//! A machine is plain data. [`Machine::request`] says which operation on one record comes next, [`Machine::resume`] takes
//! what it answered. A [`Request`] is data, too: `lower` turns it into operations and a filter on a real store, the model
//! executes it on a map, and a test holds the two together. A machine may stop for ever after any step; others go on.
//!
//! * [`help`]: carries a transition to its end. [`begin`]: starts one.
//! * [`write`]: a write to one child. [`find`]: a read of one child. [`view`]: which records together are the collection.
//! * `model`: every interleaving of several machines.

pub(crate) mod begin;
pub(crate) mod find;
pub(crate) mod help;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod rules;
pub(crate) mod view;
pub(crate) mod write;

use std::fmt::Debug;

use super::description::{Described, Description, Keys};
use super::scheme::{Companion, Epoch, Scheme};
use crate::Result;
use crate::record::BinName;

/// What a collection is made of: that of a real store, or a handful of bits in the model.
pub(crate) trait Kind: Clone + Debug {
    /// The content of a collection, or of a part of it.
    type Part: Clone + Debug;
    /// What a caller does with the collection in one record.
    type Act: Clone + Debug;
    /// What that has answered.
    type Answer: Clone + Debug;

    /// What of it lives in this shard of so many.
    fn part(whole: &Self::Part, shards: u64, shard: u64) -> Self::Part;
}

/// A record of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Root,
    /// How it is called, and its number.
    Companion(Keys, u64),
}

/// Whether other collections of the record are sharded, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Neighbors {
    /// None is, which is the cheapest to ask for.
    #[default]
    None,
    /// Some may be.
    Sharded,
}

/// What must hold for the record, else [`Reply::FilteredOut`]. A record that does not exist is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// Nothing: for reads that ask what the record is.
    None,
    /// Root: the collection is in it; by [`Neighbors::None`], no other one of the record is sharded, either.
    Whole(Neighbors),
    /// Root: it bears this description.
    Bears(Described),
    /// The same, and the root has no bin of the collection's name.
    Bare(Described),
    /// Companion: exactly this one, with its bin, and not frozen.
    Live(Companion),
    /// Companion of this collection, older than this.
    OlderThan(Epoch),
    /// Companion that is being made under this token.
    Placed(Companion, Token),
}

impl Guard {
    /// The description that a change of the root begins from.
    pub(crate) fn description(&self) -> Described {
        match self {
            Self::Bears(description) | Self::Bare(description) => description.clone(),
            _ => Described::default(),
        }
    }
}

/// What is changed. Nothing but [`Edit::User`], [`Edit::Mark`] and [`Edit::Place`] creates a record.
#[derive(Clone, Debug)]
pub(crate) enum Edit<K: Kind> {
    /// Nothing.
    None,
    /// What the caller wants.
    User(K::Act),
    /// Root: a transition begins. The rest of the description is as the guard has it, here and below.
    Mark(Scheme, Epoch),
    /// Root: the transition has come to this. Removes the bin that has been spread.
    Spread(Scheme),
    /// Root: the transition has come to this. The bin, if there is one, stays.
    Settle(Scheme),
    /// Root: the collection is back.
    PutBack(K::Part),
    /// Root: the collection is gone.
    Clear,
    /// Companion: in the place of whatever older one there is, one that is being made.
    Place(Companion, Token),
    /// Companion: made, with this content.
    Fill(K::Part),
    /// Companion: nobody writes it any more.
    Freeze,
    /// Companion: without what has moved to its other half, at its new epoch, and open again.
    Shed(K::Part, Companion),
    /// Companion: with what was in its other half, at its new epoch.
    TakeIn(K::Part, Companion),
    /// Companion: gone.
    Delete,
}

/// What is read, after the edit.
#[derive(Clone, Debug)]
pub(crate) enum Ask<K: Kind> {
    /// Nothing but what [`Edit::User`] answers.
    Nothing,
    /// What the record says of itself.
    State,
    /// That, and the content.
    Content,
    /// That, and what the caller wants to know. An answer is missing where the bin is. What [`Guard::Live`] has asked for is
    /// known.
    User(K::Act),
}

/// One atomic operation on one record.
#[derive(Clone, Debug)]
pub(crate) struct Request<K: Kind> {
    pub(crate) place: Place,
    pub(crate) guard: Guard,
    pub(crate) edit: Edit<K>,
    pub(crate) ask: Ask<K>,
}

impl<K: Kind> Request<K> {
    pub(crate) const fn read(place: Place, ask: Ask<K>) -> Self {
        Self {
            place,
            guard: Guard::None,
            edit: Edit::None,
            ask,
        }
    }

    /// The same where this holds, which then need not be read.
    pub(crate) fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    pub(crate) const fn write(place: Place, guard: Guard, edit: Edit<K>) -> Self {
        Self {
            place,
            guard,
            edit,
            ask: Ask::Nothing,
        }
    }
}

/// What a request has answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply<K: Kind> {
    /// There is no such record, and the request creates none.
    NotFound,
    /// The guard does not hold.
    FilteredOut,
    /// Done.
    Done(Seen<K>),
}

/// What was read. What was not asked for is as for a record without bins.
#[derive(Clone, Debug)]
pub(crate) struct Seen<K: Kind> {
    /// Of a root.
    pub(crate) root: Root,
    /// Of a companion; `None` if the record is none of this collection.
    pub(crate) companion: Option<(Companion, Mark)>,
    /// Whether the collection's bin is there.
    pub(crate) has_bin: bool,
    /// The content, empty where there is no bin.
    pub(crate) content: Option<K::Part>,
    pub(crate) answer: Option<K::Answer>,
}

impl<K: Kind> Seen<K> {
    /// Before anything was read.
    pub(crate) fn nothing() -> Self {
        Self {
            root: Root::default(),
            companion: None,
            has_bin: false,
            content: None,
            answer: None,
        }
    }
}

/// What a root says of one collection, and of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Root {
    pub(crate) scheme: Scheme,
    /// The collection's last transition; while it is in the root, the last one of any collection of the record.
    pub(crate) epoch: Epoch,
    /// How its companions are called, or will be.
    pub(crate) keys: Keys,
    /// The collection, and the others of the record.
    pub(crate) description: Described,
}

impl Root {
    /// What a description says of the collection in this bin.
    ///
    /// # Errors
    /// [`crate::Error::ShardScheme`] for another kind of shards, or one that is not understood.
    pub(crate) fn of(description: Description, bin: BinName) -> Result<Self> {
        let (scheme, epoch) = match description.of(bin) {
            None => (Scheme::Whole, description.latest()),
            Some(entry) => (entry.form.scheme()?, entry.epoch),
        };
        Ok(Self {
            scheme,
            epoch,
            keys: description.keys(bin),
            description: description.into(),
        })
    }

    /// Whether both say the same of the collection. Others may have changed.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (self.scheme, self.epoch) == (other.scheme, other.epoch)
    }

    /// Whether other collections of the record are sharded, for a collection that is not.
    pub(crate) fn neighbors(&self) -> Neighbors {
        if self.description.is_empty() {
            Neighbors::None
        } else {
            Neighbors::Sharded
        }
    }
}

/// Whether a companion may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mark {
    Live,
    Frozen,
    /// It is being made, and has no content yet.
    Placed(Token),
}

/// Names one making of a companion, never used twice. A companion is filled only by those who knew its token when they
/// found the transition still under way: whoever wakes up late leaves a husk at worst, which nobody reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Token(pub(crate) u64);

impl Token {
    /// The next one of the same machine.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// All the companions of a collection that is not in transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) shards: u64,
    pub(crate) epoch: Epoch,
    pub(crate) keys: Keys,
}

impl Route {
    pub(crate) const fn companion(self) -> Companion {
        Companion {
            shards: self.shards,
            epoch: self.epoch,
        }
    }

    pub(crate) const fn of(root: &Root) -> Option<Self> {
        match root.scheme {
            Scheme::Active { shards } => Some(Self {
                shards,
                epoch: root.epoch,
                keys: root.keys,
            }),
            _ => None,
        }
    }
}

/// Where a collection was last time: what a handle remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Remembered {
    /// There was no record, or no call.
    #[default]
    Nothing,
    /// In the root.
    Whole(Neighbors),
    /// In companions.
    Sharded(Route),
}

impl Remembered {
    pub(crate) fn of(root: &Root) -> Self {
        match Route::of(root) {
            Some(route) => Self::Sharded(route),
            None => Self::Whole(root.neighbors()),
        }
    }

    pub(crate) const fn route(self) -> Option<Route> {
        match self {
            Self::Nothing | Self::Whole(_) => None,
            Self::Sharded(route) => Some(route),
        }
    }
}

/// Why a machine gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Failure {
    /// The root is right, and this companion is not there.
    Missing(u64),
    /// A record that is no companion of this collection has the key of this one.
    Collision(Keys, u64),
    /// The companion has no such bin.
    NoBin(u64),
    /// The transition does not apply to this.
    NotApplicable(Scheme),
    /// The collection cannot go back into the root: somebody else has made a bin of its name there.
    Foreign,
    /// The collection cannot be sharded beside another one, which is sharded in a form that is not understood.
    OtherForm,
}

/// What a step has come to.
#[derive(Clone, Debug)]
pub(crate) enum Progress<M, O> {
    Next(M),
    Done(O),
    Failed(Failure),
}

/// Pure steps.
pub(crate) trait Machine<K: Kind>: Sized {
    /// What it comes to.
    type Outcome;

    /// The next operation.
    fn request(&self) -> Request<K>;

    /// Goes on with its reply.
    fn resume(self, reply: Reply<K>) -> Progress<Self, Self::Outcome>;

    /// How far a transition has come.
    fn transition(&self) -> Option<(Scheme, Done)> {
        None
    }
}

/// Companions that are done, of all that are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Done {
    pub(crate) done: u64,
    pub(crate) of: u64,
}
