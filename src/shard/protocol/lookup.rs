//! A read of one element. It reads through transitions, and advances one only if its companions keep changing.

use super::advance::Advance;
use super::rules::{ProtocolRule, keeps};
use super::view::{PATIENCE, ViewRecord, in_root};
use super::write::ElementResult;
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, Companion, CompanionRoute, CompanionState,
    CompanionToken, Failure, Machine, MachineProgress, NeighborCollections, Observation,
    Precondition, Read, RecordRef, RequestReply, RouteHint,
};
use crate::shard::element_hash::shard;
use crate::shard::scheme::Scheme;

/// A read of the element of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lookup<K: CollectionKind> {
    hash: u64,
    act: K::Act,
    token: CompanionToken,
    /// A route whose companion did not answer, and the error if the root still says that route.
    refused: Option<(CompanionRoute, Failure)>,
    patience: u8,
    step: LookupStep<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum LookupStep<P> {
    /// Reads the root's bin, if the collection is unsharded: cheaper than reading the description first.
    Unsharded(NeighborCollections),
    ReadRoot,
    /// Reads the companion of a route that is remembered, or was read in the root.
    Companion(CompanionRoute, LookupOrigin),
    /// In a transition: reads the companion of the element by the smaller number of shards.
    Low(CollectionRoot),
    /// In a transition: reads the companion of the element by the greater number of shards.
    High(CollectionRoot),
    Advance(Advance<P>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LookupOrigin {
    RouteHint,
    Root,
}

impl LookupOrigin {
    /// A route of the past leads to no frozen companion.
    fn takes_frozen(self) -> bool {
        self == Self::Root || !keeps(ProtocolRule::RememberedNotFrozen)
    }
}

impl<K: CollectionKind> Lookup<K> {
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
            patience: PATIENCE,
            step: match remembered {
                RouteHint::Unknown => LookupStep::ReadRoot,
                RouteHint::Unsharded(neighbors) => LookupStep::Unsharded(neighbors),
                RouteHint::Sharded(route) => LookupStep::Companion(route, LookupOrigin::RouteHint),
            },
        }
    }

    fn go(self, step: LookupStep<K::Part>) -> MachineProgress<Self, ElementResult<K::Answer>> {
        MachineProgress::Next(Self { step, ..self })
    }

    fn again(mut self) -> MachineProgress<Self, ElementResult<K::Answer>> {
        self.patience = self.patience.saturating_sub(1);
        self.go(LookupStep::ReadRoot)
    }

    fn judge(mut self, seen: Observation<K>) -> MachineProgress<Self, ElementResult<K::Answer>> {
        let root = seen.root;
        let deleting = matches!(root.scheme, Scheme::Deleting { .. });
        if in_root(&root, seen.has_bin) || deleting && !keeps(ProtocolRule::ReadersAdvanceDeletion)
        {
            return ElementResult::done(seen.answer, root.route_hint());
        }
        if let Some(route) = root.route() {
            return match self.refused {
                Some((refused, failure)) if refused == route => MachineProgress::Failed(failure),
                _ => self.go(LookupStep::Companion(route, LookupOrigin::Root)),
            };
        }
        if (deleting || self.patience == 0)
            && let Some(advance) = Advance::new(&root, seen.has_bin, self.token)
        {
            self.token = self.token.next();
            self.patience = PATIENCE;
            return self.go(LookupStep::Advance(advance));
        }
        self.go(LookupStep::Low(root))
    }

    /// Returns the smaller and the greater number of shards of a transition.
    const fn shards(root: &CollectionRoot) -> (u64, u64) {
        match root.scheme {
            Scheme::Splitting { from } => (from, from * 2),
            Scheme::Merging { from } => (from / 2, from),
            _ => (1, 1),
        }
    }

    fn low(&self, root: &CollectionRoot) -> u64 {
        shard(self.hash, Self::shards(root).0)
    }

    fn high(&self, root: &CollectionRoot) -> u64 {
        shard(self.hash, Self::shards(root).1)
    }
}

/// A companion that has content, and its answer.
fn looked_at<K: CollectionKind>(reply: RequestReply<K>) -> Option<(Companion, Option<K::Answer>)> {
    match reply {
        RequestReply::Done(seen) => match seen.companion? {
            (_, CompanionState::Placed(_)) => None,
            (companion, _) => Some((companion, seen.answer)),
        },
        _ => None,
    }
}

impl<K: CollectionKind> Machine<K> for Lookup<K> {
    type Outcome = ElementResult<K::Answer>;

    fn request(&self) -> AtomicRequest<K> {
        let at = |keys, shard| {
            let place = RecordRef::Companion(keys, shard);
            AtomicRequest::read(place, Read::User(self.act.clone()))
        };
        match &self.step {
            LookupStep::Unsharded(neighbors) => {
                AtomicRequest::read(RecordRef::Root, Read::User(self.act.clone()))
                    .on_condition(Precondition::Unsharded(*neighbors))
            }
            LookupStep::ReadRoot => {
                AtomicRequest::read(RecordRef::Root, Read::User(self.act.clone()))
            }
            LookupStep::Companion(route, origin) => {
                let request = at(route.keys, route.shard_of(self.hash));
                if origin.takes_frozen() {
                    request
                } else {
                    // Cheaper than reading its state.
                    request.on_condition(Precondition::Live(route.companion()))
                }
            }
            LookupStep::Low(root) => at(root.keys, self.low(root)),
            LookupStep::High(root) => at(root.keys, self.high(root)),
            LookupStep::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, ElementResult<K::Answer>> {
        match std::mem::replace(&mut self.step, LookupStep::ReadRoot) {
            LookupStep::Unsharded(neighbors) => match reply {
                RequestReply::Done(seen) => {
                    ElementResult::done(seen.answer, RouteHint::Unsharded(neighbors))
                }
                RequestReply::NotFound => ElementResult::done(None, RouteHint::default()),
                RequestReply::FilteredOut => self.go(LookupStep::ReadRoot),
            },
            LookupStep::ReadRoot => match reply {
                RequestReply::Done(seen) => self.judge(seen),
                _ => ElementResult::done(None, RouteHint::default()),
            },
            LookupStep::Companion(route, origin) => {
                let source = ViewRecord::Companion {
                    keys: route.keys,
                    shard: route.shard_of(self.hash),
                    companion: route.companion(),
                    frozen_too: origin.takes_frozen(),
                };
                let filtered_out = matches!(reply, RequestReply::FilteredOut);
                match source.accept(reply) {
                    Ok(answer) => ElementResult::done(answer, RouteHint::Sharded(route)),
                    Err(failure) => {
                        // A record that was filtered out is read again, if the root still says the same.
                        self.refused = (!filtered_out).then_some((route, failure));
                        self.go(LookupStep::ReadRoot)
                    }
                }
            }
            LookupStep::Low(root) => match looked_at(reply) {
                Some((companion, answer)) if companion.epoch <= root.epoch => {
                    // Whether everything of both halves is in this one.
                    let old = companion.epoch < root.epoch;
                    let both = old != matches!(root.scheme, Scheme::Merging { .. });
                    if both || self.low(&root) == self.high(&root) {
                        ElementResult::done(answer, root.route_hint())
                    } else {
                        self.go(LookupStep::High(root))
                    }
                }
                _ => self.again(),
            },
            LookupStep::High(root) => {
                let splitting = matches!(root.scheme, Scheme::Splitting { .. });
                match looked_at(reply) {
                    Some((companion, answer))
                        if splitting == (companion.epoch == root.epoch)
                            && companion.epoch <= root.epoch =>
                    {
                        ElementResult::done(answer, root.route_hint())
                    }
                    _ => self.again(),
                }
            }
            LookupStep::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(LookupStep::ReadRoot, LookupStep::Advance))
            }),
        }
    }

    fn transition(&self) -> Option<(Scheme, super::TransitionProgress)> {
        match &self.step {
            LookupStep::Advance(advance) => Machine::<K>::transition(advance),
            _ => None,
        }
    }
}
