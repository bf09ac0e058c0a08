//! Carries a transition to its end, for any caller.
//!
//! Another caller may have taken the same steps, or take them at this moment: then a precondition does not hold, and
//! the caller goes on behind it. It must never take a step of a transition that is over; every precondition names
//! the epoch for that.

use super::rules::{ProtocolRule, keeps};
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, Companion, CompanionState, CompanionToken,
    Failure, Machine, MachineProgress, Precondition, Read, RecordRef, RequestEdit, RequestReply,
    TransitionProgress,
};
use crate::shard::scheme::Scheme;

/// Where a transition goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Advance<P> {
    root: CollectionRoot,
    token: CompanionToken,
    step: AdvanceStep<P>,
}

/// The outcome of advancing: the transition is over, or another one is under way. The root says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AdvanceEnd;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AdvanceStep<P> {
    /// Activation: places this companion. The tokens of the companions before it; `None` for filled ones.
    Place(u64, Vec<Option<CompanionToken>>),
    /// Another caller has placed this companion or filled it: reads which.
    LookPlaced(u64, Vec<Option<CompanionToken>>),
    /// The frozen collection, and whether its activation is still under way.
    ReadWhole(Vec<Option<CompanionToken>>),
    /// Fills a companion with its part of the collection.
    Fill(u64, CompanionToken, P, Vec<Option<CompanionToken>>),

    /// Split: places the new companion of this one's pair.
    PlaceHalf(u64),
    LookHalf(u64),
    /// Freezes this companion and reads its content.
    FreezeToSplit(u64, Option<CompanionToken>),
    FillHalf(u64, P, CompanionToken),
    RemoveMoved(u64, P),

    /// Merge: reads whether this companion has absorbed the other one of its pair.
    LookAbsorbed(u64, Again),
    FreezeHalf(u64, Again),
    Absorb(u64, P),
    DeleteHalf(u64),

    /// Deactivation: freezes the only companion.
    FreezeOnly,
    RestoreToRoot(P),

    /// Deletion, and the end of a deactivation.
    Delete(u64),

    /// Root: the transition is over.
    Finish,
    /// A companion was missing: reads the root, to see whether the transition is still under way.
    Missing(u64),
}

/// Whether a step was taken before for the same companion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Again {
    No,
    Yes,
}

impl<P: Clone> Advance<P> {
    /// Advances the transition that this root is in; `None` if it is in none. `has_bin`: whether the root has the collection's bin.
    pub(crate) fn new(root: &CollectionRoot, has_bin: bool, token: CompanionToken) -> Option<Self> {
        let step = match root.scheme {
            Scheme::Unsharded | Scheme::Active { .. } => return None,
            Scheme::Activating { .. } => AdvanceStep::Place(0, Vec::new()),
            Scheme::Splitting { .. } => AdvanceStep::PlaceHalf(0),
            Scheme::Merging { .. } => AdvanceStep::LookAbsorbed(0, Again::No),
            Scheme::Deactivating if !has_bin => AdvanceStep::FreezeOnly,
            Scheme::Deactivating | Scheme::Deleting { .. } => AdvanceStep::Delete(0),
        };
        let root = root.clone();
        Some(Self { root, token, step })
    }

    /// Takes a reply within another machine, and continues that with the rest of the transition; `None`: it is over.
    pub(crate) fn then<K: CollectionKind<Part = P>, M, O>(
        self,
        reply: RequestReply<K>,
        go: impl FnOnce(Option<Self>) -> MachineProgress<M, O>,
    ) -> MachineProgress<M, O> {
        match self.resume(reply) {
            MachineProgress::Next(advance) => go(Some(advance)),
            MachineProgress::Done(AdvanceEnd) => go(None),
            MachineProgress::Failed(failure) => MachineProgress::Failed(failure),
        }
    }

    /// Returns how many companions this transition goes through.
    const fn of(&self) -> u64 {
        match self.root.scheme {
            Scheme::Activating { shards } | Scheme::Deleting { shards } => shards,
            Scheme::Splitting { from } => from,
            Scheme::Merging { from } => from / 2,
            Scheme::Unsharded | Scheme::Active { .. } | Scheme::Deactivating => 1,
        }
    }

    /// Returns the state of a companion once this transition has passed it.
    const fn new_companion(&self) -> Companion {
        let shards = match self.root.scheme {
            Scheme::Splitting { from } => from * 2,
            _ => self.of(),
        };
        Companion {
            shards,
            epoch: self.root.epoch,
        }
    }

    /// Returns the number of the other companion of a pair.
    const fn half(&self, shard: u64) -> u64 {
        shard + self.of()
    }

    /// Returns the state of the root at the end of this transition.
    const fn target(&self) -> Scheme {
        match self.root.scheme {
            Scheme::Activating { shards } => Scheme::Active { shards },
            Scheme::Splitting { from } => Scheme::Active { shards: from * 2 },
            Scheme::Merging { from } => Scheme::Active { shards: from / 2 },
            _ => Scheme::Unsharded,
        }
    }

    fn go(self, step: AdvanceStep<P>) -> MachineProgress<Self, AdvanceEnd> {
        MachineProgress::Next(Self { step, ..self })
    }

    /// Goes on with the companion after this one, or ends the transition after the last one.
    fn behind(
        self,
        shard: u64,
        step: impl FnOnce(u64) -> AdvanceStep<P>,
    ) -> MachineProgress<Self, AdvanceEnd> {
        if shard + 1 < self.of() {
            self.go(step(shard + 1))
        } else {
            self.go(AdvanceStep::Finish)
        }
    }

    fn placed(
        self,
        shard: u64,
        mut tokens: Vec<Option<CompanionToken>>,
        token: Option<CompanionToken>,
    ) -> MachineProgress<Self, AdvanceEnd> {
        tokens.push(token);
        if shard + 1 < self.of() {
            self.go(AdvanceStep::Place(shard + 1, tokens))
        } else {
            self.go(AdvanceStep::ReadWhole(tokens))
        }
    }

    /// Fills the next companion, from this one on, that is not filled yet.
    fn fill(
        self,
        from: u64,
        whole: P,
        tokens: Vec<Option<CompanionToken>>,
    ) -> MachineProgress<Self, AdvanceEnd> {
        let mut unfilled = tokens
            .iter()
            .zip(0..)
            .skip_while(|(_, shard)| *shard < from);
        match unfilled.find_map(|(token, shard)| token.map(|token| (shard, token))) {
            Some((shard, token)) => self.go(AdvanceStep::Fill(shard, token, whole, tokens)),
            None => self.go(AdvanceStep::Finish),
        }
    }

    /// The token of a companion that another caller has placed; `None` if it is filled.
    fn found<K: CollectionKind<Part = P>>(
        &self,
        shard: u64,
        reply: RequestReply<K>,
    ) -> Result<Option<CompanionToken>, MachineProgress<Self, AdvanceEnd>> {
        match reply {
            RequestReply::Done(seen) => match seen.companion {
                None => Err(MachineProgress::Failed(Failure::Collision(
                    self.root.keys,
                    shard,
                ))),
                Some((companion, _)) if companion.epoch != self.root.epoch => {
                    Err(MachineProgress::Done(AdvanceEnd))
                }
                Some((_, CompanionState::Placed(token))) => Ok(Some(token)),
                Some(_) => Ok(None),
            },
            // It was there a moment ago: another transition has passed, or another program interferes.
            RequestReply::NotFound | RequestReply::FilteredOut => {
                Err(MachineProgress::Next(Self {
                    step: AdvanceStep::Missing(shard),
                    ..self.clone()
                }))
            }
        }
    }
}

impl<K: CollectionKind> Machine<K> for Advance<K::Part> {
    type Outcome = AdvanceEnd;

    fn request(&self) -> AtomicRequest<K> {
        let epoch = self.root.epoch;
        let older = || Precondition::OlderThan(epoch);
        let at = |shard: u64| RecordRef::Companion(self.root.keys, shard);
        let bears = || Precondition::Bears(self.root.description.clone());
        let place = |shard| {
            let edit = RequestEdit::Place(self.new_companion(), self.token);
            AtomicRequest::write(at(shard), older(), edit)
        };
        let fill = |shard, part, token| {
            let precondition = Precondition::Placed(self.new_companion(), token);
            AtomicRequest::write(at(shard), precondition, RequestEdit::Fill(part))
        };
        let freeze = |shard| AtomicRequest {
            read: Read::Content,
            ..AtomicRequest::write(at(shard), older(), RequestEdit::Freeze)
        };
        let look = |shard| AtomicRequest::read(at(shard), Read::State);
        match &self.step {
            AdvanceStep::Place(shard, _) => place(*shard),
            AdvanceStep::LookPlaced(shard, _) => look(*shard),
            AdvanceStep::ReadWhole(_) => AtomicRequest::read(RecordRef::Root, Read::Content),
            AdvanceStep::Fill(shard, token, whole, _) => {
                fill(*shard, K::part(whole, self.of(), *shard), *token)
            }
            AdvanceStep::PlaceHalf(shard) => place(self.half(*shard)),
            AdvanceStep::LookHalf(shard) => look(self.half(*shard)),
            AdvanceStep::FreezeToSplit(shard, _) => freeze(*shard),
            AdvanceStep::FillHalf(shard, whole, token) => {
                let half = self.half(*shard);
                fill(half, K::part(whole, self.of() * 2, half), *token)
            }
            AdvanceStep::RemoveMoved(shard, whole) => {
                let moved = K::part(whole, self.of() * 2, self.half(*shard));
                let edit = RequestEdit::RemoveMoved(moved, self.new_companion());
                AtomicRequest::write(at(*shard), older(), edit)
            }
            AdvanceStep::LookAbsorbed(shard, _) => look(*shard),
            AdvanceStep::FreezeHalf(shard, _) => freeze(self.half(*shard)),
            AdvanceStep::Absorb(shard, half) => {
                let edit = RequestEdit::Absorb(half.clone(), self.new_companion());
                AtomicRequest::write(at(*shard), older(), edit)
            }
            AdvanceStep::DeleteHalf(shard) => {
                AtomicRequest::write(at(self.half(*shard)), older(), RequestEdit::Delete)
            }
            AdvanceStep::FreezeOnly => freeze(0),
            AdvanceStep::RestoreToRoot(whole) => {
                // The step may be repeated: while this precondition holds, neither of them is written.
                AtomicRequest::write(
                    RecordRef::Root,
                    bears(),
                    RequestEdit::RestoreToRoot(whole.clone()),
                )
            }
            AdvanceStep::Delete(shard) => {
                AtomicRequest::write(at(*shard), older(), RequestEdit::Delete)
            }
            AdvanceStep::Finish => {
                let edit = match self.root.scheme {
                    Scheme::Activating { .. } | Scheme::Deleting { .. } => {
                        RequestEdit::FinishAndRemoveBin(self.target())
                    }
                    _ => RequestEdit::Finish(self.target()),
                };
                AtomicRequest::write(RecordRef::Root, bears(), edit)
            }
            AdvanceStep::Missing(_) => AtomicRequest::read(RecordRef::Root, Read::State),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, AdvanceEnd> {
        // The end is a placeholder here: every arm below sets the next step.
        let step = std::mem::replace(&mut self.step, AdvanceStep::Finish);
        match step {
            AdvanceStep::Place(shard, tokens) => match reply {
                RequestReply::Done(_) => {
                    let token = self.token;
                    self.placed(shard, tokens, Some(token))
                }
                _ => self.go(AdvanceStep::LookPlaced(shard, tokens)),
            },
            AdvanceStep::LookPlaced(shard, tokens) => match self.found(shard, reply) {
                Ok(token) => self.placed(shard, tokens, token),
                Err(end) => end,
            },
            AdvanceStep::ReadWhole(tokens) => match reply {
                RequestReply::Done(seen)
                    if seen.root.is_as(&self.root) || !keeps(ProtocolRule::Evidence) =>
                {
                    if seen.root.is_as(&self.root) {
                        // Other collections of the record may have changed meanwhile.
                        self.root.description = seen.root.description;
                    }
                    match seen.content {
                        Some(whole) => self.fill(0, whole, tokens),
                        None => MachineProgress::Done(AdvanceEnd),
                    }
                }
                _ => MachineProgress::Done(AdvanceEnd),
            },
            AdvanceStep::Fill(shard, _, whole, tokens) => match reply {
                RequestReply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.fill(shard + 1, whole, tokens),
            },

            AdvanceStep::PlaceHalf(shard) => match reply {
                RequestReply::Done(_) => {
                    let token = Some(self.token);
                    self.go(AdvanceStep::FreezeToSplit(shard, token))
                }
                _ => self.go(AdvanceStep::LookHalf(shard)),
            },
            AdvanceStep::LookHalf(shard) => match self.found(self.half(shard), reply) {
                Ok(token) => self.go(AdvanceStep::FreezeToSplit(shard, token)),
                Err(end) => end,
            },
            AdvanceStep::FreezeToSplit(shard, token) => match (reply, token) {
                (RequestReply::NotFound, _) => self.go(AdvanceStep::Missing(shard)),
                (RequestReply::FilteredOut, _) => self.behind(shard, AdvanceStep::PlaceHalf),
                (RequestReply::Done(seen), token) => match (seen.content, token) {
                    (None, _) => self.go(AdvanceStep::Missing(shard)),
                    (Some(whole), Some(token)) => {
                        self.go(AdvanceStep::FillHalf(shard, whole, token))
                    }
                    (Some(whole), None) => self.go(AdvanceStep::RemoveMoved(shard, whole)),
                },
            },
            AdvanceStep::FillHalf(shard, whole, _) => match reply {
                RequestReply::NotFound => {
                    let half = self.half(shard);
                    self.go(AdvanceStep::Missing(half))
                }
                _ => self.go(AdvanceStep::RemoveMoved(shard, whole)),
            },
            AdvanceStep::RemoveMoved(shard, _) => match reply {
                RequestReply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.behind(shard, AdvanceStep::PlaceHalf),
            },

            AdvanceStep::LookAbsorbed(shard, again) => match reply {
                RequestReply::Done(seen) => match seen.companion {
                    Some((companion, _)) if companion.epoch < self.root.epoch => {
                        self.go(AdvanceStep::FreezeHalf(shard, again))
                    }
                    Some((companion, _)) if companion.epoch == self.root.epoch => {
                        self.go(AdvanceStep::DeleteHalf(shard))
                    }
                    _ => self.go(AdvanceStep::Missing(shard)),
                },
                _ => self.go(AdvanceStep::Missing(shard)),
            },
            AdvanceStep::FreezeHalf(shard, again) => match (reply, again) {
                (RequestReply::Done(seen), _) => match seen.content {
                    Some(half) => self.go(AdvanceStep::Absorb(shard, half)),
                    None => {
                        let half = self.half(shard);
                        self.go(AdvanceStep::Missing(half))
                    }
                },
                // Another caller has taken it in and deleted it, as the other one shows.
                (_, Again::No) => self.go(AdvanceStep::LookAbsorbed(shard, Again::Yes)),
                (_, Again::Yes) => {
                    let half = self.half(shard);
                    self.go(AdvanceStep::Missing(half))
                }
            },
            AdvanceStep::Absorb(shard, _) => match reply {
                RequestReply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.go(AdvanceStep::DeleteHalf(shard)),
            },
            AdvanceStep::DeleteHalf(shard) => {
                self.behind(shard, |shard| AdvanceStep::LookAbsorbed(shard, Again::No))
            }

            AdvanceStep::FreezeOnly => match reply {
                RequestReply::Done(seen) => match seen.content {
                    Some(whole) => self.go(AdvanceStep::RestoreToRoot(whole)),
                    None => self.go(AdvanceStep::Missing(0)),
                },
                _ => self.go(AdvanceStep::Missing(0)),
            },
            AdvanceStep::RestoreToRoot(_) => match reply {
                RequestReply::Done(_) => self.go(AdvanceStep::Delete(0)),
                _ if !keeps(ProtocolRule::RestoreBeforeDelete) => self.go(AdvanceStep::Delete(0)),
                // The transition is over, or another collection of the record has changed: the companion stays until the
                // root is seen to have its content.
                _ => MachineProgress::Done(AdvanceEnd),
            },

            AdvanceStep::Delete(shard) => self.behind(shard, AdvanceStep::Delete),

            AdvanceStep::Finish => MachineProgress::Done(AdvanceEnd),
            AdvanceStep::Missing(shard) => match reply {
                RequestReply::Done(seen) if seen.root.is_as(&self.root) => {
                    if self.root.scheme == Scheme::Deactivating && seen.has_bin {
                        // Another caller has put it back in the meantime.
                        self.go(AdvanceStep::Delete(0))
                    } else {
                        MachineProgress::Failed(Failure::Missing(shard))
                    }
                }
                _ => MachineProgress::Done(AdvanceEnd),
            },
        }
    }

    fn transition(&self) -> Option<(Scheme, TransitionProgress)> {
        let total = self.of();
        let done = match &self.step {
            AdvanceStep::Place(..) | AdvanceStep::LookPlaced(..) | AdvanceStep::ReadWhole(_) => 0,
            AdvanceStep::Fill(shard, ..)
            | AdvanceStep::PlaceHalf(shard)
            | AdvanceStep::LookHalf(shard)
            | AdvanceStep::FreezeToSplit(shard, _)
            | AdvanceStep::FillHalf(shard, ..)
            | AdvanceStep::RemoveMoved(shard, _)
            | AdvanceStep::LookAbsorbed(shard, _)
            | AdvanceStep::FreezeHalf(shard, _)
            | AdvanceStep::Absorb(shard, _)
            | AdvanceStep::DeleteHalf(shard)
            | AdvanceStep::Delete(shard) => *shard,
            AdvanceStep::FreezeOnly | AdvanceStep::RestoreToRoot(_) | AdvanceStep::Missing(_) => 0,
            AdvanceStep::Finish => total,
        };
        Some((self.root.scheme, TransitionProgress { done, total }))
    }
}
