//! Which records together are the collection, and whether the answer of one of them still counts.
//!
//! A view is no snapshot. Each of its records is read for itself, and counts only while it is as
//! the view has it. So every element that is there during the whole read is in exactly one of them,
//! and none is that is absent during the whole read.

use smallvec::{SmallVec, smallvec};

use super::advance::Advance;
use super::rules::{ProtocolRule, keeps};
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, Companion, CompanionRoute, CompanionState,
    CompanionToken, Failure, Machine, MachineProgress, NeighborCollections, Observation,
    Precondition, Read, RecordRef, RequestReply, RouteHint,
};
use crate::record::companion_key::KeyForm;
use crate::shard::description::SharedDescription;
use crate::shard::element_hash::shard;
use crate::shard::scheme::Scheme;

/// How often a reader looks at a transition that keeps changing before it advances it.
pub(crate) const PATIENCE: u8 = 2;

/// One record of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ViewRecord {
    /// The root, while the collection is in it. If it was so at the last call, it is asked under
    /// that condition, which is cheaper than reading the description.
    Root(Option<NeighborCollections>),
    /// A companion, while it is of this number of shards and epoch.
    Companion {
        /// The form of its key.
        keys: KeyForm,
        /// The number of the companion.
        shard: u64,
        /// The number of shards and the epoch that it must have.
        companion: Companion,
        /// Whether it may be frozen: only where the root was read for this view. Otherwise it is
        /// asked on condition that it is live, which is cheaper than reading its state.
        frozen_too: bool,
    },
}

impl ViewRecord {
    pub(crate) const fn place(&self) -> RecordRef {
        match self {
            Self::Root(_) => RecordRef::Root,
            Self::Companion { keys, shard, .. } => RecordRef::Companion(*keys, *shard),
        }
    }

    /// Returns the request that asks the record.
    pub(crate) fn read<K: CollectionKind>(&self, act: K::Act) -> AtomicRequest<K> {
        let request = AtomicRequest::read(self.place(), Read::User(act));
        match self {
            Self::Root(Some(neighbors)) => {
                request.on_condition(Precondition::Unsharded(*neighbors))
            }
            Self::Companion {
                companion,
                frozen_too: false,
                ..
            } => request.on_condition(Precondition::Live(*companion)),
            _ => request,
        }
    }

    /// Returns the record's answer if the record is as the view has it.
    ///
    /// # Errors
    /// The record's error if the root has not changed; `None` if it takes another view to know.
    pub(crate) fn accept<K: CollectionKind>(
        &self,
        reply: RequestReply<K>,
    ) -> Result<Option<K::Answer>, Option<Failure>> {
        match (self, reply) {
            (Self::Root(_), RequestReply::Done(seen)) if in_root(&seen.root, seen.has_bin) => {
                Ok(seen.answer)
            }
            (Self::Root(_), RequestReply::NotFound) => Ok(None),
            (Self::Root(_), _) | (_, RequestReply::FilteredOut) => Err(None),
            (
                Self::Companion {
                    keys,
                    shard,
                    companion,
                    frozen_too,
                },
                RequestReply::Done(seen),
            ) => match seen.companion {
                Some((found, CompanionState::Live)) if found == *companion => {
                    if seen.has_bin {
                        Ok(seen.answer)
                    } else {
                        Err(Some(Failure::NoBin(*shard)))
                    }
                }
                Some((found, CompanionState::Frozen)) if found == *companion && *frozen_too => {
                    Ok(seen.answer)
                }
                None => Err(Some(Failure::Collision(*keys, *shard))),
                _ => Err(Some(Failure::Missing(*shard))),
            },
            (Self::Companion { shard, .. }, RequestReply::NotFound) => {
                Err(Some(Failure::Missing(*shard)))
            }
        }
    }
}

/// Returns whether the root's own bin is the collection.
pub(crate) const fn in_root(root: &CollectionRoot, has_bin: bool) -> bool {
    match root.scheme {
        Scheme::Unsharded | Scheme::Activating { .. } => true,
        Scheme::Deactivating => has_bin,
        _ => false,
    }
}

/// The records that together hold the collection, or the one that holds the element of a hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordsView {
    /// The root from which the view was made.
    pub(crate) root: CollectionRoot,
    pub(crate) sources: SmallVec<[ViewRecord; 1]>,
}

impl RecordsView {
    /// Returns the view by which a read begins, without reading the root. `element`: the hash of
    /// the one to read.
    pub(crate) fn remembered(remembered: RouteHint, element: Option<u64>) -> Self {
        let neighbors = match remembered {
            RouteHint::Sharded(route) => {
                // By a remembered route a frozen companion may be a part of a transition that has
                // begun since, and its content may have moved on.
                let frozen_too = !keeps(ProtocolRule::RememberedNotFrozen);
                return Self::active(route, element, frozen_too);
            }
            RouteHint::Unsharded(neighbors) => Some(neighbors),
            RouteHint::Unknown => None,
        };
        Self {
            root: CollectionRoot::default(),
            sources: smallvec![ViewRecord::Root(neighbors)],
        }
    }

    fn active(route: CompanionRoute, element: Option<u64>, frozen_too: bool) -> Self {
        let shards = match element {
            Some(hash) => route.shard_of(hash)..route.shard_of(hash) + 1,
            None => 0..route.shards,
        };
        let sources = shards.map(|shard| ViewRecord::Companion {
            keys: route.keys,
            shard,
            companion: route.companion(),
            frozen_too,
        });
        Self {
            root: CollectionRoot {
                scheme: Scheme::Active {
                    shards: route.shards,
                },
                epoch: route.epoch,
                keys: route.keys,
                // This request never changes the root.
                description: SharedDescription::default(),
            },
            sources: sources.collect(),
        }
    }
}

/// A view that did not hold, and the error if the root has not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rejection {
    pub(crate) root: CollectionRoot,
    pub(crate) failure: Option<Failure>,
    /// How often a transition may still be looked at.
    pub(crate) patience: u8,
}

/// The machine that makes a view: it reads the root, and in a transition the companions; for one
/// element, the companions that may have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Survey<K: CollectionKind> {
    token: CompanionToken,
    refused: Option<Rejection>,
    patience: u8,
    /// Whether transitions may be advanced: not where the store takes no writes. There a collection
    /// counts as empty once its deletion has begun.
    advances: bool,
    /// The hash of the element to read, and the act on its record.
    element: Option<(u64, K::Act)>,
    step: ViewStep<K::Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ViewStep<P> {
    ReadRoot,
    /// A companion: the first of its pair, or the second.
    Look(u64, RecordsView),
    Advance(Advance<P>),
}

/// A view, and how much patience is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SurveyResult<A> {
    pub(crate) view: RecordsView,
    pub(crate) patience: u8,
    /// The answer for the one element, where the root has given it at once.
    pub(crate) answer: Option<Option<A>>,
}

/// The state of a survey after a reply.
type SurveyProgress<K> = MachineProgress<Survey<K>, SurveyResult<<K as CollectionKind>::Answer>>;

impl<K: CollectionKind> Survey<K> {
    /// `refused`: the view that did not hold, if there was one.
    pub(crate) fn new(
        refused: Option<Rejection>,
        element: Option<(u64, K::Act)>,
        token: CompanionToken,
    ) -> Self {
        Self {
            token,
            patience: refused
                .as_ref()
                .map_or(PATIENCE, |refused| refused.patience),
            refused,
            advances: true,
            element,
            step: ViewStep::ReadRoot,
        }
    }

    /// Leaves every transition as it is.
    pub(crate) fn only_reading(self) -> Self {
        Self {
            advances: false,
            ..self
        }
    }

    fn go(self, step: ViewStep<K::Part>) -> SurveyProgress<K> {
        MachineProgress::Next(Self { step, ..self })
    }

    fn done(self, view: RecordsView) -> SurveyProgress<K> {
        MachineProgress::Done(SurveyResult {
            view,
            patience: self.patience,
            answer: None,
        })
    }

    fn again(mut self) -> SurveyProgress<K> {
        self.patience = self.patience.saturating_sub(1);
        self.go(ViewStep::ReadRoot)
    }

    fn judge(mut self, seen: Observation<K>) -> SurveyProgress<K> {
        let (root, has_bin) = (seen.root, seen.has_bin);
        if let Some(refused) = &self.refused
            && let Some(failure) = refused.failure
            && root.route().is_some()
            && refused.root.is_as(&root)
        {
            return MachineProgress::Failed(failure);
        }
        let hash = self.element.as_ref().map(|(hash, _)| *hash);
        let is_deleting = matches!(root.scheme, Scheme::Deleting { .. });
        if is_deleting && !self.advances {
            let sources = SmallVec::new();
            return MachineProgress::Done(SurveyResult {
                view: RecordsView { root, sources },
                patience: self.patience,
                answer: hash.map(|_| None),
            });
        }
        let advance = is_deleting && keeps(ProtocolRule::ReadersAdvanceDeletion)
            || self.patience == 0 && self.advances;
        if advance && let Some(advance) = Advance::new(&root, has_bin, self.token) {
            self.token = self.token.next();
            self.patience = PATIENCE;
            return self.go(ViewStep::Advance(advance));
        }
        match root.route() {
            Some(route) => self.done(RecordsView::active(route, hash, true)),
            None if in_root(&root, has_bin) || is_deleting => {
                let sources = smallvec![ViewRecord::Root(None)];
                MachineProgress::Done(SurveyResult {
                    view: RecordsView { root, sources },
                    patience: self.patience,
                    answer: hash.map(|_| seen.answer),
                })
            }
            None => {
                let first = hash.map_or(0, |hash| shard(hash, root.scheme.pairs()));
                let sources = SmallVec::new();
                self.go(ViewStep::Look(first, RecordsView { root, sources }))
            }
        }
    }

    /// Goes on behind the pair of a companion.
    fn behind(self, companion: u64, view: RecordsView) -> SurveyProgress<K> {
        let pairs = view.root.scheme.pairs();
        let next = companion % pairs + 1;
        if self.element.is_none() && next < pairs {
            self.go(ViewStep::Look(next, view))
        } else {
            self.done(view)
        }
    }
}

/// A companion that was read, if it has content.
fn looked_at<K: CollectionKind>(reply: &RequestReply<K>) -> Option<Companion> {
    match reply {
        RequestReply::Done(seen) => match seen.companion? {
            (_, CompanionState::Placed(_)) => None,
            (companion, _) => Some(companion),
        },
        _ => None,
    }
}

impl<K: CollectionKind> Machine<K> for Survey<K> {
    type Outcome = SurveyResult<K::Answer>;

    fn request(&self) -> AtomicRequest<K> {
        match &self.step {
            ViewStep::ReadRoot => {
                let element = self.element.as_ref();
                let read = element.map_or(Read::State, |(_, act)| Read::User(act.clone()));
                AtomicRequest::read(RecordRef::Root, read)
            }
            ViewStep::Look(companion, view) => {
                let place = RecordRef::Companion(view.root.keys, *companion);
                AtomicRequest::read(place, Read::State)
            }
            ViewStep::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> SurveyProgress<K> {
        let source = |view: &RecordsView, shard, companion| ViewRecord::Companion {
            keys: view.root.keys,
            shard,
            companion,
            frozen_too: true,
        };
        match std::mem::replace(&mut self.step, ViewStep::ReadRoot) {
            ViewStep::ReadRoot => match reply {
                RequestReply::Done(seen) => self.judge(seen),
                _ => self.judge(Observation::nothing()),
            },
            ViewStep::Look(low, mut view) if low < view.root.scheme.pairs() => {
                // Missing, or without content yet: another look at the root says which.
                let Some(companion) = looked_at(&reply) else {
                    return self.again();
                };
                let old = companion.epoch < view.root.epoch;
                // A later transition has begun since the root was read.
                if companion.epoch > view.root.epoch {
                    return self.again();
                }
                let both = match view.root.scheme {
                    Scheme::Splitting { .. } => {
                        !old || !keeps(ProtocolRule::IgnoreHalfBeforeRemoval)
                    }
                    Scheme::Merging { .. } => old,
                    _ => false,
                };
                // Of an element, the half that has it counts alone.
                let is_in_half = self
                    .element
                    .as_ref()
                    .map(|(hash, _)| both && shard(*hash, view.root.scheme.pairs() * 2) != low);
                if is_in_half != Some(true) {
                    view.sources.push(source(&view, low, companion));
                }
                if is_in_half.unwrap_or(both) {
                    let high = low + view.root.scheme.pairs();
                    self.go(ViewStep::Look(high, view))
                } else {
                    self.behind(low, view)
                }
            }
            ViewStep::Look(high, mut view) => {
                let splitting = matches!(view.root.scheme, Scheme::Splitting { .. });
                match looked_at(&reply) {
                    Some(companion) if splitting == (companion.epoch == view.root.epoch) => {
                        view.sources.push(source(&view, high, companion));
                        self.behind(high, view)
                    }
                    _ if !keeps(ProtocolRule::IgnoreHalfBeforeRemoval)
                        && self.element.is_none() =>
                    {
                        self.behind(high, view)
                    }
                    _ => self.again(),
                }
            }
            ViewStep::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(ViewStep::ReadRoot, ViewStep::Advance))
            }),
        }
    }
}
