//! Which records together are the collection, and whether the answer of one of them still counts.
//!
//! A view is no snapshot. Each of its records is read for itself, and counts only while it is as the view has it. So every
//! element that is there during the whole read is in exactly one of them, and none is that is absent during the whole read.

use super::advance::Advance;
use super::rules::{ProtocolRule, keeps};
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, Companion, CompanionRoute, CompanionState,
    CompanionToken, Failure, Machine, MachineProgress, Read, RecordRef, RequestReply,
};
use crate::record::companion_key::KeyForm;
use crate::shard::description::SharedDescription;
use crate::shard::scheme::Scheme;

/// How often a reader looks at a transition that keeps changing before it advances it.
pub(crate) const PATIENCE: u8 = 2;

/// One record of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ViewRecord {
    /// The root, while the collection is in it.
    Root,
    /// A companion, while it is of this number of shards and epoch.
    Companion {
        /// The form of its key.
        keys: KeyForm,
        /// The number of the companion.
        shard: u64,
        /// The number of shards and the epoch that it must have.
        companion: Companion,
        /// Whether it may be frozen: only where the root was read for this view.
        frozen_too: bool,
    },
}

impl ViewRecord {
    pub(crate) const fn place(&self) -> RecordRef {
        match self {
            Self::Root => RecordRef::Root,
            Self::Companion { keys, shard, .. } => RecordRef::Companion(*keys, *shard),
        }
    }

    /// Returns the record's answer if the record is as the view has it.
    ///
    /// # Errors
    /// The record's error if the root has not changed.
    pub(crate) fn accept<K: CollectionKind>(
        &self,
        reply: RequestReply<K>,
    ) -> Result<Option<K::Answer>, Failure> {
        match (self, reply) {
            (Self::Root, RequestReply::Done(seen)) if in_root(&seen.root, seen.has_bin) => {
                Ok(seen.answer)
            }
            (Self::Root, RequestReply::NotFound) => Ok(None),
            (Self::Root, _) => Err(Failure::Missing(0)),
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
                        Err(Failure::NoBin(*shard))
                    }
                }
                Some((found, CompanionState::Frozen)) if found == *companion && *frozen_too => {
                    Ok(seen.answer)
                }
                None => Err(Failure::Collision(*keys, *shard)),
                _ => Err(Failure::Missing(*shard)),
            },
            (Self::Companion { shard, .. }, _) => Err(Failure::Missing(*shard)),
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

/// The records that together hold the collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordsView {
    /// The root from which the view was made.
    pub(crate) root: CollectionRoot,
    pub(crate) sources: Vec<ViewRecord>,
}

impl RecordsView {
    /// Returns the view of a remembered route, without reading the root.
    pub(crate) fn remembered(route: CompanionRoute) -> Self {
        Self::active(route, !keeps(ProtocolRule::RememberedNotFrozen))
    }

    fn active(route: CompanionRoute, frozen_too: bool) -> Self {
        let sources = (0..route.shards).map(|shard| ViewRecord::Companion {
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
    pub(crate) failure: Failure,
    /// How often a transition may still be looked at.
    pub(crate) patience: u8,
}

/// The machine that makes a view: it reads the root, and in a transition the companions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Survey<P> {
    token: CompanionToken,
    refused: Option<Rejection>,
    patience: u8,
    step: ViewStep<P>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ViewStep<P> {
    ReadRoot,
    /// A companion that was there before the transition.
    Low(u64, RecordsView),
    /// The companion that is new in its pair.
    High(u64, RecordsView),
    Advance(Advance<P>),
}

/// A view, and how much patience is left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SurveyResult {
    pub(crate) view: RecordsView,
    pub(crate) patience: u8,
}

impl<P: Clone> Survey<P> {
    /// `refused`: the view that did not hold, if there was one.
    pub(crate) fn new(refused: Option<Rejection>, token: CompanionToken) -> Self {
        Self {
            token,
            patience: refused
                .as_ref()
                .map_or(PATIENCE, |refused| refused.patience),
            refused,
            step: ViewStep::ReadRoot,
        }
    }

    fn go(self, step: ViewStep<P>) -> MachineProgress<Self, SurveyResult> {
        MachineProgress::Next(Self { step, ..self })
    }

    fn done(self, view: RecordsView) -> MachineProgress<Self, SurveyResult> {
        MachineProgress::Done(SurveyResult {
            view,
            patience: self.patience,
        })
    }

    fn again(mut self) -> MachineProgress<Self, SurveyResult> {
        self.patience = self.patience.saturating_sub(1);
        self.go(ViewStep::ReadRoot)
    }

    fn judge(mut self, root: CollectionRoot, has_bin: bool) -> MachineProgress<Self, SurveyResult> {
        if let Some(refused) = &self.refused
            && root.route().is_some()
            && refused.root.is_as(&root)
        {
            return MachineProgress::Failed(refused.failure);
        }
        let sources = Vec::new();
        let advance = matches!(root.scheme, Scheme::Deleting { .. })
            && keeps(ProtocolRule::ReadersAdvanceDeletion)
            || self.patience == 0;
        if advance && let Some(advance) = Advance::new(&root, has_bin, self.token) {
            self.token = self.token.next();
            self.patience = PATIENCE;
            return self.go(ViewStep::Advance(advance));
        }
        match root.route() {
            Some(route) => self.done(RecordsView::active(route, true)),
            None if in_root(&root, has_bin) || matches!(root.scheme, Scheme::Deleting { .. }) => {
                let sources = vec![ViewRecord::Root];
                self.done(RecordsView { root, sources })
            }
            None => self.go(ViewStep::Low(0, RecordsView { root, sources })),
        }
    }

    /// Returns how many pairs of companions the transition has.
    const fn pairs(root: &CollectionRoot) -> u64 {
        match root.scheme {
            Scheme::Splitting { from } => from,
            Scheme::Merging { from } => from / 2,
            _ => 1,
        }
    }

    fn behind(self, shard: u64, view: RecordsView) -> MachineProgress<Self, SurveyResult> {
        if shard + 1 < Self::pairs(&view.root) {
            self.go(ViewStep::Low(shard + 1, view))
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

impl<K: CollectionKind> Machine<K> for Survey<K::Part> {
    type Outcome = SurveyResult;

    fn request(&self) -> AtomicRequest<K> {
        match &self.step {
            ViewStep::ReadRoot => AtomicRequest::read(RecordRef::Root, Read::State),
            ViewStep::Low(shard, view) => {
                AtomicRequest::read(RecordRef::Companion(view.root.keys, *shard), Read::State)
            }
            ViewStep::High(shard, view) => {
                let half = shard + Self::pairs(&view.root);
                let place = RecordRef::Companion(view.root.keys, half);
                AtomicRequest::read(place, Read::State)
            }
            ViewStep::Advance(advance) => advance.request(),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, SurveyResult> {
        let source = |view: &RecordsView, shard, companion| ViewRecord::Companion {
            keys: view.root.keys,
            shard,
            companion,
            frozen_too: true,
        };
        match std::mem::replace(&mut self.step, ViewStep::ReadRoot) {
            ViewStep::ReadRoot => match reply {
                RequestReply::Done(seen) => self.judge(seen.root, seen.has_bin),
                _ => self.judge(CollectionRoot::default(), false),
            },
            ViewStep::Low(shard, mut view) => {
                let Some(companion) = looked_at(&reply) else {
                    return self.again();
                };
                let old = companion.epoch < view.root.epoch;
                if companion.epoch > view.root.epoch {
                    return self.again();
                }
                view.sources.push(source(&view, shard, companion));
                let both = match view.root.scheme {
                    Scheme::Splitting { .. } => {
                        !old || !keeps(ProtocolRule::IgnoreHalfBeforeRemoval)
                    }
                    Scheme::Merging { .. } => old,
                    _ => false,
                };
                if both {
                    self.go(ViewStep::High(shard, view))
                } else {
                    self.behind(shard, view)
                }
            }
            ViewStep::High(shard, mut view) => {
                let splitting = matches!(view.root.scheme, Scheme::Splitting { .. });
                match looked_at(&reply) {
                    Some(companion) if splitting == (companion.epoch == view.root.epoch) => {
                        let half = shard + Self::pairs(&view.root);
                        view.sources.push(source(&view, half, companion));
                        self.behind(shard, view)
                    }
                    _ if !keeps(ProtocolRule::IgnoreHalfBeforeRemoval) => self.behind(shard, view),
                    _ => self.again(),
                }
            }
            ViewStep::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(ViewStep::ReadRoot, ViewStep::Advance))
            }),
        }
    }
}
