//! A read of one child. It reads through transitions, and advances only those whose companions keep changing.

use super::advance::Advance;
use super::rules::{Rule, keeps};
use super::view::{PATIENCE, Source, in_root};
use super::write::ChildResult;
use super::{
    Companion, CompanionState, Failure, Kind, Machine, Neighbors, Observation, Place, Precondition,
    Progress, Read, Reply, Request, Root, Route, RouteHint, Token,
};
use crate::shard::route::shard;
use crate::shard::scheme::Scheme;

/// A read of the child of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lookup<K: Kind> {
    hash: u64,
    act: K::Act,
    token: Token,
    /// A route whose companion would not tell, and what is wrong with it, should the root still say so.
    refused: Option<(Route, Failure)>,
    patience: u8,
    step: Step<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step<P> {
    /// The root, if the collection is in it: cheaper than to read what it is.
    Unsharded(Neighbors),
    ReadRoot,
    /// By a route that is remembered, or was read in the root.
    Companion(Route, Origin),
    /// In a transition: where the child is by the smaller number of shards.
    Low(Root),
    /// In a transition: where it is by the greater one.
    High(Root),
    Advance(Advance<P>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    RouteHint,
    Root,
}

impl Origin {
    /// A route of the past leads to no frozen companion.
    fn takes_frozen(self) -> bool {
        self == Self::Root || !keeps(Rule::RememberedNotFrozen)
    }
}

impl<K: Kind> Lookup<K> {
    /// `remembered`: where it was last time.
    pub(crate) fn new(hash: u64, act: K::Act, remembered: RouteHint, token: Token) -> Self {
        Self {
            hash,
            act,
            token,
            refused: None,
            patience: PATIENCE,
            step: match remembered {
                RouteHint::Unknown => Step::ReadRoot,
                RouteHint::Unsharded(neighbors) => Step::Unsharded(neighbors),
                RouteHint::Sharded(route) => Step::Companion(route, Origin::RouteHint),
            },
        }
    }

    fn go(self, step: Step<K::Part>) -> Progress<Self, ChildResult<K::Answer>> {
        Progress::Next(Self { step, ..self })
    }

    fn again(mut self) -> Progress<Self, ChildResult<K::Answer>> {
        self.patience = self.patience.saturating_sub(1);
        self.go(Step::ReadRoot)
    }

    const fn found(
        answer: Option<K::Answer>,
        remembered: RouteHint,
    ) -> Progress<Self, ChildResult<K::Answer>> {
        Progress::Done(ChildResult { answer, remembered })
    }

    fn judge(mut self, seen: Observation<K>) -> Progress<Self, ChildResult<K::Answer>> {
        let root = seen.root;
        let deleting = matches!(root.scheme, Scheme::Deleting { .. });
        if in_root(&root, seen.has_bin) || deleting && !keeps(Rule::ReadersAdvanceDeletion) {
            return Self::found(seen.answer, RouteHint::of(&root));
        }
        if let Some(route) = Route::of(&root) {
            return match self.refused {
                Some((refused, failure)) if refused == route => Progress::Failed(failure),
                _ => self.go(Step::Companion(route, Origin::Root)),
            };
        }
        if (deleting || self.patience == 0)
            && let Some(advance) = Advance::new(&root, seen.has_bin, self.token)
        {
            self.token = self.token.next();
            self.patience = PATIENCE;
            return self.go(Step::Advance(advance));
        }
        self.go(Step::Low(root))
    }

    /// The smaller and the greater number of shards of a transition.
    const fn shards(root: &Root) -> (u64, u64) {
        match root.scheme {
            Scheme::Splitting { from } => (from, from * 2),
            Scheme::Merging { from } => (from / 2, from),
            _ => (1, 1),
        }
    }

    fn low(&self, root: &Root) -> u64 {
        shard(self.hash, Self::shards(root).0)
    }

    fn high(&self, root: &Root) -> u64 {
        shard(self.hash, Self::shards(root).1)
    }
}

/// A companion that has content, and what it has answered.
fn looked_at<K: Kind>(reply: Reply<K>) -> Option<(Companion, Option<K::Answer>)> {
    match reply {
        Reply::Done(seen) => match seen.companion? {
            (_, CompanionState::Placed(_)) => None,
            (companion, _) => Some((companion, seen.answer)),
        },
        _ => None,
    }
}

impl<K: Kind> Machine<K> for Lookup<K> {
    type Outcome = ChildResult<K::Answer>;

    fn request(&self) -> Request<K> {
        let at = |keys, shard| {
            let place = Place::Companion(keys, shard);
            Request::read(place, Read::User(self.act.clone()))
        };
        match &self.step {
            Step::Unsharded(neighbors) => Request::read(Place::Root, Read::User(self.act.clone()))
                .on_condition(Precondition::Unsharded(*neighbors)),
            Step::ReadRoot => Request::read(Place::Root, Read::User(self.act.clone())),
            Step::Companion(route, origin) => {
                let request = at(route.keys, shard(self.hash, route.shards));
                if origin.takes_frozen() {
                    request
                } else {
                    // Cheaper than to read what it is.
                    request.on_condition(Precondition::Live(route.companion()))
                }
            }
            Step::Low(root) => at(root.keys, self.low(root)),
            Step::High(root) => at(root.keys, self.high(root)),
            Step::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: Reply<K>) -> Progress<Self, ChildResult<K::Answer>> {
        match std::mem::replace(&mut self.step, Step::ReadRoot) {
            Step::Unsharded(neighbors) => match reply {
                Reply::Done(seen) => Self::found(seen.answer, RouteHint::Unsharded(neighbors)),
                Reply::NotFound => Self::found(None, RouteHint::default()),
                Reply::FilteredOut => self.go(Step::ReadRoot),
            },
            Step::ReadRoot => match reply {
                Reply::Done(seen) => self.judge(seen),
                _ => Self::found(None, RouteHint::default()),
            },
            Step::Companion(route, origin) => {
                let source = Source::Companion {
                    keys: route.keys,
                    shard: shard(self.hash, route.shards),
                    companion: route.companion(),
                    frozen_too: origin.takes_frozen(),
                };
                let filtered_out = matches!(reply, Reply::FilteredOut);
                match source.accept(reply) {
                    Ok(answer) => Self::found(answer, RouteHint::Sharded(route)),
                    Err(failure) => {
                        // What was filtered out is looked at, should the root still say the same.
                        self.refused = (!filtered_out).then_some((route, failure));
                        self.go(Step::ReadRoot)
                    }
                }
            }
            Step::Low(root) => match looked_at(reply) {
                Some((companion, answer)) if companion.epoch <= root.epoch => {
                    // Whether everything of both halves is in this one.
                    let old = companion.epoch < root.epoch;
                    let both = old != matches!(root.scheme, Scheme::Merging { .. });
                    if both || self.low(&root) == self.high(&root) {
                        Self::found(answer, RouteHint::of(&root))
                    } else {
                        self.go(Step::High(root))
                    }
                }
                _ => self.again(),
            },
            Step::High(root) => {
                let splitting = matches!(root.scheme, Scheme::Splitting { .. });
                match looked_at(reply) {
                    Some((companion, answer))
                        if splitting == (companion.epoch == root.epoch)
                            && companion.epoch <= root.epoch =>
                    {
                        Self::found(answer, RouteHint::of(&root))
                    }
                    _ => self.again(),
                }
            }
            Step::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(Step::ReadRoot, Step::Advance))
            }),
        }
    }

    fn transition(&self) -> Option<(Scheme, super::Done)> {
        match &self.step {
            Step::Advance(advance) => Machine::<K>::transition(advance),
            _ => None,
        }
    }
}
