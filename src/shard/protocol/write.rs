//! A write to one element: straight to where it was last time, or by way of the root.

use super::advance::Advance;
use super::{
    Edit, Failure, Kind, Machine, Neighbors, Precondition, Progress, Read, RecordRef, Reply,
    Request, Root, Route, RouteHint, Token,
};
use crate::shard::scheme::Scheme;

/// A write to the element of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write<K: Kind> {
    hash: u64,
    act: K::Act,
    token: Token,
    /// A route whose companion refused the write.
    refused: Option<Route>,
    step: WriteStep<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WriteStep<P> {
    /// Writes to the root, if the collection is unsharded.
    Unsharded(Neighbors),
    ReadRoot,
    Companion(Route),
    /// Reads why the right companion refused the write.
    Diagnose(Route),
    Advance(Advance<P>),
}

/// The result of a write or a read of one element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ElementResult<A> {
    /// `None`: there is no record.
    pub(crate) answer: Option<A>,
    /// Where the collection was.
    pub(crate) remembered: RouteHint,
}

impl<K: Kind> Write<K> {
    /// `remembered`: where the collection was at the last call.
    pub(crate) fn new(hash: u64, act: K::Act, remembered: RouteHint, token: Token) -> Self {
        Self {
            hash,
            act,
            token,
            refused: None,
            step: match remembered {
                RouteHint::Unknown => WriteStep::Unsharded(Neighbors::None),
                RouteHint::Unsharded(neighbors) => WriteStep::Unsharded(neighbors),
                RouteHint::Sharded(route) => WriteStep::Companion(route),
            },
        }
    }

    fn go(self, step: WriteStep<K::Part>) -> Progress<Self, ElementResult<K::Answer>> {
        Progress::Next(Self { step, ..self })
    }

    fn place(&self, route: Route) -> RecordRef {
        RecordRef::Companion(route.keys, route.shard_of(self.hash))
    }

    fn judge(mut self, root: Root, has_bin: bool) -> Progress<Self, ElementResult<K::Answer>> {
        let token = self.token;
        if let Some(advance) = Advance::new(&root, has_bin, token) {
            self.token = token.next();
            return self.go(WriteStep::Advance(advance));
        }
        match root.route() {
            None => self.go(WriteStep::Unsharded(root.neighbors())),
            Some(route) if self.refused == Some(route) => self.go(WriteStep::Diagnose(route)),
            Some(route) => self.go(WriteStep::Companion(route)),
        }
    }
}

impl<K: Kind> Machine<K> for Write<K> {
    type Outcome = ElementResult<K::Answer>;

    fn request(&self) -> Request<K> {
        let user = || Edit::User(self.act.clone());
        match &self.step {
            WriteStep::Unsharded(neighbors) => {
                Request::write(RecordRef::Root, Precondition::Unsharded(*neighbors), user())
            }
            WriteStep::ReadRoot => Request::read(RecordRef::Root, Read::State),
            WriteStep::Companion(route) => Request::write(
                self.place(*route),
                Precondition::Live(route.companion()),
                user(),
            ),
            WriteStep::Diagnose(route) => Request::read(self.place(*route), Read::State),
            WriteStep::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: Reply<K>) -> Progress<Self, ElementResult<K::Answer>> {
        match std::mem::replace(&mut self.step, WriteStep::ReadRoot) {
            WriteStep::Unsharded(neighbors) => match reply {
                Reply::FilteredOut => self.go(WriteStep::ReadRoot),
                Reply::NotFound => Progress::Done(ElementResult {
                    answer: None,
                    remembered: RouteHint::default(),
                }),
                Reply::Done(seen) => Progress::Done(ElementResult {
                    answer: seen.answer,
                    remembered: RouteHint::Unsharded(neighbors),
                }),
            },
            WriteStep::ReadRoot => match reply {
                Reply::Done(seen) => self.judge(seen.root, seen.has_bin),
                _ => self.go(WriteStep::Unsharded(Neighbors::None)),
            },
            WriteStep::Companion(route) => match reply {
                Reply::Done(seen) => Progress::Done(ElementResult {
                    answer: seen.answer,
                    remembered: RouteHint::Sharded(route),
                }),
                _ => {
                    self.refused = Some(route);
                    self.go(WriteStep::ReadRoot)
                }
            },
            WriteStep::Diagnose(route) => {
                let shard = route.shard_of(self.hash);
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
            WriteStep::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(WriteStep::ReadRoot, WriteStep::Advance))
            }),
        }
    }

    fn transition(&self) -> Option<(Scheme, super::TransitionProgress)> {
        match &self.step {
            WriteStep::Advance(advance) => Machine::<K>::transition(advance),
            _ => None,
        }
    }
}
