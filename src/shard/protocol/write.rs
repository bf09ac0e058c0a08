//! A write to one element: straight to where it was last time, or by way of the root.

use super::advance::Advance;
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, CompanionRoute, CompanionToken, Failure,
    Machine, MachineProgress, NeighborCollections, Precondition, Read, RecordRef, RequestEdit,
    RequestReply, RouteHint,
};
use crate::shard::scheme::Scheme;

/// A write to the element of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ElementWrite<K: CollectionKind> {
    hash: u64,
    act: K::Act,
    token: CompanionToken,
    /// The route by which a companion refused the write.
    refused: Option<CompanionRoute>,
    step: WriteStep<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WriteStep<P> {
    /// Writes to the root, if the collection is unsharded.
    Unsharded(NeighborCollections),
    ReadRoot,
    Companion(CompanionRoute),
    /// Reads why the right companion refused the write.
    Diagnose(CompanionRoute),
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

impl<A> ElementResult<A> {
    pub(super) const fn done<M>(
        answer: Option<A>,
        remembered: RouteHint,
    ) -> MachineProgress<M, Self> {
        MachineProgress::Done(Self { answer, remembered })
    }
}

impl<K: CollectionKind> ElementWrite<K> {
    /// `remembered`: where the collection was at the last call.
    pub(crate) fn new(
        hash: u64,
        act: K::Act,
        remembered: RouteHint,
        token: CompanionToken,
    ) -> Self {
        Self {
            hash,
            act,
            token,
            refused: None,
            step: match remembered {
                RouteHint::Unknown => WriteStep::Unsharded(NeighborCollections::None),
                RouteHint::Unsharded(neighbors) => WriteStep::Unsharded(neighbors),
                RouteHint::Sharded(route) => WriteStep::Companion(route),
            },
        }
    }

    fn go(self, step: WriteStep<K::Part>) -> MachineProgress<Self, ElementResult<K::Answer>> {
        MachineProgress::Next(Self { step, ..self })
    }

    fn place(&self, route: CompanionRoute) -> RecordRef {
        RecordRef::Companion(route.keys, route.shard_of(self.hash))
    }

    fn judge(
        mut self,
        root: CollectionRoot,
        has_bin: bool,
    ) -> MachineProgress<Self, ElementResult<K::Answer>> {
        let token = self.token;
        // A transition is ended first: its owner may be dead, and its companions refuse writes
        // meanwhile.
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

impl<K: CollectionKind> Machine<K> for ElementWrite<K> {
    type Outcome = ElementResult<K::Answer>;

    fn request(&self) -> AtomicRequest<K> {
        let user = || RequestEdit::User(self.act.clone());
        match &self.step {
            WriteStep::Unsharded(neighbors) => {
                AtomicRequest::write(RecordRef::Root, Precondition::Unsharded(*neighbors), user())
            }
            WriteStep::ReadRoot => AtomicRequest::read(RecordRef::Root, Read::State),
            WriteStep::Companion(route) => AtomicRequest::write(
                self.place(*route),
                Precondition::Live(route.companion()),
                user(),
            ),
            WriteStep::Diagnose(route) => AtomicRequest::read(self.place(*route), Read::State),
            WriteStep::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, ElementResult<K::Answer>> {
        match std::mem::replace(&mut self.step, WriteStep::ReadRoot) {
            WriteStep::Unsharded(neighbors) => match reply {
                RequestReply::FilteredOut => self.go(WriteStep::ReadRoot),
                // The record has gone with the collection beside this one. A new one is made by
                // other rules.
                RequestReply::NotFound if neighbors == NeighborCollections::Sharded => {
                    self.go(WriteStep::Unsharded(NeighborCollections::None))
                }
                RequestReply::NotFound => ElementResult::done(None, RouteHint::default()),
                RequestReply::Done(seen) => {
                    ElementResult::done(seen.answer, RouteHint::Unsharded(neighbors))
                }
            },
            WriteStep::ReadRoot => match reply {
                RequestReply::Done(seen) => self.judge(seen.root, seen.has_bin),
                _ => self.go(WriteStep::Unsharded(NeighborCollections::None)),
            },
            WriteStep::Companion(route) => match reply {
                RequestReply::Done(seen) => {
                    ElementResult::done(seen.answer, RouteHint::Sharded(route))
                }
                _ => {
                    // Remembered: if the root has this route still, the companion is asked why it
                    // has refused.
                    self.refused = Some(route);
                    self.go(WriteStep::ReadRoot)
                }
            },
            WriteStep::Diagnose(route) => {
                let shard = route.shard_of(self.hash);
                MachineProgress::Failed(match reply {
                    RequestReply::Done(seen)
                        if !seen.has_bin
                            && seen.companion.map(|(it, _)| it) == Some(route.companion()) =>
                    {
                        Failure::NoBin(shard)
                    }
                    RequestReply::Done(seen) if seen.companion.is_none() => {
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
