//! A write to one child: straight to where it was last time, or by way of the root.

use super::advance::Advance;
use super::{
    Edit, Failure, Kind, Machine, Neighbors, Place, Precondition, Progress, Read, Reply, Request,
    Root, Route, RouteHint, Token,
};
use crate::shard::route::shard;
use crate::shard::scheme::Scheme;

/// A write to the child of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write<K: Kind> {
    hash: u64,
    act: K::Act,
    token: Token,
    /// A route whose companion would not have it.
    refused: Option<Route>,
    step: Step<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step<P> {
    /// The root, if the collection is in it.
    Unsharded(Neighbors),
    ReadRoot,
    Companion(Route),
    /// Why the right companion would not have it.
    Diagnose(Route),
    Advance(Advance<P>),
}

/// What a write or a read of one child comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChildResult<A> {
    /// `None`: there is no record.
    pub(crate) answer: Option<A>,
    /// Where it was.
    pub(crate) remembered: RouteHint,
}

impl<K: Kind> Write<K> {
    /// `remembered`: where it was last time.
    pub(crate) fn new(hash: u64, act: K::Act, remembered: RouteHint, token: Token) -> Self {
        Self {
            hash,
            act,
            token,
            refused: None,
            step: match remembered {
                RouteHint::Unknown => Step::Unsharded(Neighbors::None),
                RouteHint::Unsharded(neighbors) => Step::Unsharded(neighbors),
                RouteHint::Sharded(route) => Step::Companion(route),
            },
        }
    }

    fn go(self, step: Step<K::Part>) -> Progress<Self, ChildResult<K::Answer>> {
        Progress::Next(Self { step, ..self })
    }

    fn place(&self, route: Route) -> Place {
        Place::Companion(route.keys, shard(self.hash, route.shards))
    }

    fn judge(mut self, root: Root, has_bin: bool) -> Progress<Self, ChildResult<K::Answer>> {
        let token = self.token;
        if let Some(advance) = Advance::new(&root, has_bin, token) {
            self.token = token.next();
            return self.go(Step::Advance(advance));
        }
        match Route::of(&root) {
            None => self.go(Step::Unsharded(root.neighbors())),
            Some(route) if self.refused == Some(route) => self.go(Step::Diagnose(route)),
            Some(route) => self.go(Step::Companion(route)),
        }
    }
}

impl<K: Kind> Machine<K> for Write<K> {
    type Outcome = ChildResult<K::Answer>;

    fn request(&self) -> Request<K> {
        let user = || Edit::User(self.act.clone());
        match &self.step {
            Step::Unsharded(neighbors) => {
                Request::write(Place::Root, Precondition::Unsharded(*neighbors), user())
            }
            Step::ReadRoot => Request::read(Place::Root, Read::State),
            Step::Companion(route) => Request::write(
                self.place(*route),
                Precondition::Live(route.companion()),
                user(),
            ),
            Step::Diagnose(route) => Request::read(self.place(*route), Read::State),
            Step::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: Reply<K>) -> Progress<Self, ChildResult<K::Answer>> {
        match std::mem::replace(&mut self.step, Step::ReadRoot) {
            Step::Unsharded(neighbors) => match reply {
                Reply::FilteredOut => self.go(Step::ReadRoot),
                Reply::NotFound => Progress::Done(ChildResult {
                    answer: None,
                    remembered: RouteHint::default(),
                }),
                Reply::Done(seen) => Progress::Done(ChildResult {
                    answer: seen.answer,
                    remembered: RouteHint::Unsharded(neighbors),
                }),
            },
            Step::ReadRoot => match reply {
                Reply::Done(seen) => self.judge(seen.root, seen.has_bin),
                _ => self.go(Step::Unsharded(Neighbors::None)),
            },
            Step::Companion(route) => match reply {
                Reply::Done(seen) => Progress::Done(ChildResult {
                    answer: seen.answer,
                    remembered: RouteHint::Sharded(route),
                }),
                _ => {
                    self.refused = Some(route);
                    self.go(Step::ReadRoot)
                }
            },
            Step::Diagnose(route) => {
                let shard = shard(self.hash, route.shards);
                Progress::Failed(match reply {
                    Reply::Done(seen)
                        if !seen.has_bin
                            && seen.companion.map(|(it, _)| it) == Some(route.companion()) =>
                    {
                        Failure::NoBin(shard)
                    }
                    Reply::Done(seen) if seen.companion.is_none() => {
                        Failure::Collision(route.keys, shard)
                    }
                    _ => Failure::Missing(shard),
                })
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
