//! Carries a transition to its end, for any caller.
//!
//! Another caller may have taken the same steps, or take them at this moment: then a precondition
//! does not hold, and the caller goes on behind it. It must never take a step of a transition that
//! is over; every precondition names the epoch for that.

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
    /// The tokens of placed companions that are to be filled; `None` for filled ones. Of an
    /// activation by their numbers, of a split the one of the pair that is split.
    tokens: Vec<Option<CompanionToken>>,
    step: AdvanceStep<P>,
}

/// The outcome of advancing: the transition is over, or another one is under way. The root says
/// which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AdvanceEnd;

/// The step to take, on the companion of this number. The scheme of the root says to what end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AdvanceStep<P> {
    /// Places a companion: the new one of its pair in a split.
    Place(u64),
    /// Another caller has placed it or filled it: reads which.
    LookPlaced(u64),
    /// Activation: reads the frozen collection, and whether its activation is still under way.
    ReadWhole,
    /// Fills a placed companion with its part of this content.
    Fill(u64, CompanionToken, P),
    /// Freezes a companion and reads its content: in a merge the one that its pair is to absorb.
    Freeze(u64, Again),
    /// Split: removes from a companion the elements that its pair has got.
    RemoveMoved(u64, P),
    /// Merge: reads whether this companion has absorbed the other one of its pair.
    LookAbsorbed(u64, Again),
    /// Merge: adds the content of the other one of its pair.
    Absorb(u64, P),
    /// Deactivation: puts the content of the only companion into the root.
    RestoreToRoot(P),
    /// Deletes a companion: an absorbed one in a merge.
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
    /// Advances the transition that this root is in; `None` if it is in none. `has_bin`: whether
    /// the root has the collection's bin.
    pub(crate) fn new(root: &CollectionRoot, has_bin: bool, token: CompanionToken) -> Option<Self> {
        if !root.scheme.is_transition() {
            return None;
        }
        let advance = Self {
            root: root.clone(),
            token,
            tokens: Vec::new(),
            step: AdvanceStep::Finish,
        };
        let step = match root.scheme {
            // A bin in the root is the sign that it has the content: then the companion alone is
            // left to go.
            Scheme::Deactivating if !has_bin => AdvanceStep::Freeze(0, Again::No),
            _ => advance.first_of(0),
        };
        Some(Self { step, ..advance })
    }

    /// Takes a reply within another machine, and continues that with the rest of the transition;
    /// `None`: it is over.
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

    /// Returns how many companions, or pairs of them, this transition goes through.
    const fn of(&self) -> u64 {
        match self.root.scheme {
            Scheme::Activating { shards } | Scheme::Deleting { shards } => shards,
            scheme => scheme.pairs(),
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

    /// Returns the number of the first companion of the pair that a companion belongs to; its own
    /// where there are no pairs.
    const fn pair(&self, companion: u64) -> u64 {
        companion % self.of()
    }

    const fn is_split(&self) -> bool {
        matches!(self.root.scheme, Scheme::Splitting { .. })
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

    /// Goes on with a step for which the tokens are of no account.
    fn go_without_tokens(self, step: AdvanceStep<P>) -> MachineProgress<Self, AdvanceEnd> {
        let tokens = Vec::new();
        MachineProgress::Next(Self {
            step,
            tokens,
            ..self
        })
    }

    fn missing(self, companion: u64) -> MachineProgress<Self, AdvanceEnd> {
        self.go_without_tokens(AdvanceStep::Missing(companion))
    }

    /// Returns the first step for a companion, or for a pair.
    const fn first_of(&self, shard: u64) -> AdvanceStep<P> {
        match self.root.scheme {
            Scheme::Splitting { .. } => AdvanceStep::Place(self.half(shard)),
            Scheme::Merging { .. } => AdvanceStep::LookAbsorbed(shard, Again::No),
            Scheme::Deactivating | Scheme::Deleting { .. } => AdvanceStep::Delete(shard),
            _ => AdvanceStep::Place(shard),
        }
    }

    /// Goes on behind a companion and its pair, or ends the transition after the last one.
    fn behind(self, companion: u64) -> MachineProgress<Self, AdvanceEnd> {
        let next = self.pair(companion) + 1;
        let step = if next < self.of() {
            self.first_of(next)
        } else {
            AdvanceStep::Finish
        };
        self.go(step)
    }

    /// Goes on behind a companion that is placed under this token, or filled.
    fn placed(
        mut self,
        companion: u64,
        token: Option<CompanionToken>,
    ) -> MachineProgress<Self, AdvanceEnd> {
        self.tokens.push(token);
        // The evidence comes behind the placing: a companion of a split freezes only while it is
        // older than the transition; an activation reads the root once all are placed.
        let step = if self.is_split() {
            AdvanceStep::Freeze(self.pair(companion), Again::No)
        } else if companion + 1 < self.of() {
            self.first_of(companion + 1)
        } else {
            AdvanceStep::ReadWhole
        };
        self.go(step)
    }

    /// Fills the next companion, from this one on, that is not filled yet.
    fn fill(self, from: u64, whole: P) -> MachineProgress<Self, AdvanceEnd> {
        let mut unfilled = self
            .tokens
            .iter()
            .zip(0..)
            .skip_while(|(_, shard)| *shard < from);
        match unfilled.find_map(|(token, shard)| token.map(|token| (shard, token))) {
            Some((shard, token)) => self.go(AdvanceStep::Fill(shard, token, whole)),
            None => self.go_without_tokens(AdvanceStep::Finish),
        }
    }
}

impl<K: CollectionKind> Machine<K> for Advance<K::Part> {
    type Outcome = AdvanceEnd;

    fn request(&self) -> AtomicRequest<K> {
        let at = |companion: u64| RecordRef::Companion(self.root.keys, companion);
        let bears = || Precondition::Bears(self.root.description.clone());
        let on_root = |edit| AtomicRequest::write(RecordRef::Root, bears(), edit);
        let on_older = |companion, edit| {
            let older = Precondition::OlderThan(self.root.epoch);
            AtomicRequest::write(at(companion), older, edit)
        };
        let new_companion = self.new_companion();
        match &self.step {
            AdvanceStep::Place(companion) => {
                on_older(*companion, RequestEdit::Place(new_companion, self.token))
            }
            AdvanceStep::LookPlaced(companion) | AdvanceStep::LookAbsorbed(companion, _) => {
                AtomicRequest::read(at(*companion), Read::State)
            }
            AdvanceStep::ReadWhole => AtomicRequest::read(RecordRef::Root, Read::Content),
            AdvanceStep::Fill(companion, token, whole) => {
                let placed = Precondition::Placed(new_companion, *token);
                let part = K::part(whole, new_companion.shards, *companion);
                AtomicRequest::write(at(*companion), placed, RequestEdit::Fill(part))
            }
            AdvanceStep::Freeze(companion, _) => AtomicRequest {
                read: Read::Content,
                ..on_older(*companion, RequestEdit::Freeze)
            },
            AdvanceStep::RemoveMoved(shard, whole) => {
                let moved = K::part(whole, new_companion.shards, self.half(*shard));
                on_older(*shard, RequestEdit::RemoveMoved(moved, new_companion))
            }
            AdvanceStep::Absorb(shard, half) => {
                on_older(*shard, RequestEdit::Absorb(half.clone(), new_companion))
            }
            // The step may be repeated: while the root bears this, neither it nor the companion is
            // written.
            AdvanceStep::RestoreToRoot(whole) => on_root(RequestEdit::RestoreToRoot(whole.clone())),
            AdvanceStep::Delete(companion) => on_older(*companion, RequestEdit::Delete),
            AdvanceStep::Finish => on_root(match self.root.scheme {
                Scheme::Activating { .. } | Scheme::Deleting { .. } => {
                    RequestEdit::FinishAndRemoveBin(self.target())
                }
                _ => RequestEdit::Finish(self.target()),
            }),
            AdvanceStep::Missing(_) => AtomicRequest::read(RecordRef::Root, Read::State),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, AdvanceEnd> {
        // The end is a placeholder here: every arm below sets the next step.
        let step = std::mem::replace(&mut self.step, AdvanceStep::Finish);
        match step {
            AdvanceStep::Place(companion) => match reply {
                RequestReply::Done(_) => {
                    let token = self.token;
                    self.placed(companion, Some(token))
                }
                // Another caller was quicker, or a later transition is under way.
                _ => self.go(AdvanceStep::LookPlaced(companion)),
            },
            AdvanceStep::LookPlaced(companion) => match reply {
                RequestReply::Done(seen) => match seen.companion {
                    None => MachineProgress::Failed(Failure::Collision(self.root.keys, companion)),
                    Some((found, _)) if found.epoch != self.root.epoch => {
                        MachineProgress::Done(AdvanceEnd)
                    }
                    Some((_, CompanionState::Placed(token))) => self.placed(companion, Some(token)),
                    Some(_) => self.placed(companion, None),
                },
                // It was there a moment ago: another transition has passed, or another program
                // interferes.
                RequestReply::NotFound | RequestReply::FilteredOut => self.missing(companion),
            },
            AdvanceStep::ReadWhole => match reply {
                RequestReply::Done(seen)
                    if seen.root.is_as(&self.root) || !keeps(ProtocolRule::Evidence) =>
                {
                    if seen.root.is_as(&self.root) {
                        // Other collections of the record may have changed meanwhile.
                        self.root.description = seen.root.description;
                    }
                    match seen.content {
                        Some(whole) => self.fill(0, whole),
                        None => MachineProgress::Done(AdvanceEnd),
                    }
                }
                _ => MachineProgress::Done(AdvanceEnd),
            },
            AdvanceStep::Fill(companion, _, whole) => match reply {
                RequestReply::NotFound => self.missing(companion),
                // Filtered out: another caller has filled it. The next step has a precondition of
                // its own.
                _ if self.is_split() => {
                    let shard = self.pair(companion);
                    self.go(AdvanceStep::RemoveMoved(shard, whole))
                }
                _ => self.fill(companion + 1, whole),
            },
            AdvanceStep::Freeze(companion, again) => {
                let (shard, half) = (self.pair(companion), self.half(companion));
                // The one of the pair that is split.
                let token = self.tokens.pop().flatten();
                match (reply, self.root.scheme) {
                    (RequestReply::Done(seen), scheme) => match (seen.content, scheme, token) {
                        (None, ..) => self.missing(companion),
                        (Some(whole), Scheme::Splitting { .. }, Some(token)) => {
                            self.go(AdvanceStep::Fill(half, token, whole))
                        }
                        (Some(whole), Scheme::Splitting { .. }, None) => {
                            self.go(AdvanceStep::RemoveMoved(companion, whole))
                        }
                        (Some(half), Scheme::Merging { .. }, _) => {
                            self.go(AdvanceStep::Absorb(shard, half))
                        }
                        (Some(whole), ..) => self.go(AdvanceStep::RestoreToRoot(whole)),
                    },
                    // It has the new epoch: another caller has done with the pair.
                    (RequestReply::FilteredOut, Scheme::Splitting { .. }) => self.behind(companion),
                    // Another caller has taken it in and deleted it, as the other one shows.
                    (_, Scheme::Merging { .. }) if again == Again::No => {
                        self.go(AdvanceStep::LookAbsorbed(shard, Again::Yes))
                    }
                    _ => self.missing(companion),
                }
            }
            AdvanceStep::RemoveMoved(shard, _) => match reply {
                RequestReply::NotFound => self.missing(shard),
                _ => self.behind(shard),
            },
            AdvanceStep::LookAbsorbed(shard, again) => {
                let (half, epoch) = (self.half(shard), self.root.epoch);
                match reply {
                    RequestReply::Done(seen) => match seen.companion {
                        Some((found, _)) if found.epoch < epoch => {
                            self.go(AdvanceStep::Freeze(half, again))
                        }
                        Some((found, _)) if found.epoch == epoch => {
                            self.go(AdvanceStep::Delete(half))
                        }
                        _ => self.missing(shard),
                    },
                    _ => self.missing(shard),
                }
            }
            AdvanceStep::Absorb(shard, _) => match reply {
                RequestReply::NotFound => self.missing(shard),
                _ => {
                    // Filtered out, too: it has the new epoch, so it has absorbed its pair.
                    let half = self.half(shard);
                    self.go(AdvanceStep::Delete(half))
                }
            },
            AdvanceStep::RestoreToRoot(_) => match reply {
                RequestReply::Done(_) => self.go(AdvanceStep::Delete(0)),
                _ if !keeps(ProtocolRule::RestoreBeforeDelete) => self.go(AdvanceStep::Delete(0)),
                // The transition is over, or another collection of the record has changed: the
                // companion stays until the root is seen to have its content.
                _ => MachineProgress::Done(AdvanceEnd),
            },
            // Also if it is gone, or of a later transition, which the precondition spares.
            AdvanceStep::Delete(companion) => self.behind(companion),
            AdvanceStep::Finish => MachineProgress::Done(AdvanceEnd),
            AdvanceStep::Missing(companion) => match reply {
                RequestReply::Done(seen) if seen.root.is_as(&self.root) => {
                    if self.root.scheme == Scheme::Deactivating && seen.has_bin {
                        // Another caller has put it back in the meantime.
                        self.go(AdvanceStep::Delete(0))
                    } else {
                        MachineProgress::Failed(Failure::Missing(companion))
                    }
                }
                _ => MachineProgress::Done(AdvanceEnd),
            },
        }
    }

    fn transition(&self) -> Option<(Scheme, TransitionProgress)> {
        let total = self.of();
        let is_activation = matches!(self.root.scheme, Scheme::Activating { .. });
        let done = match &self.step {
            AdvanceStep::Finish => total,
            AdvanceStep::ReadWhole | AdvanceStep::RestoreToRoot(_) | AdvanceStep::Missing(_) => 0,
            AdvanceStep::Place(_) | AdvanceStep::LookPlaced(_) if is_activation => 0,
            AdvanceStep::Place(companion)
            | AdvanceStep::LookPlaced(companion)
            | AdvanceStep::Fill(companion, ..)
            | AdvanceStep::Freeze(companion, _)
            | AdvanceStep::RemoveMoved(companion, _)
            | AdvanceStep::LookAbsorbed(companion, _)
            | AdvanceStep::Absorb(companion, _)
            | AdvanceStep::Delete(companion) => self.pair(*companion),
        };
        Some((self.root.scheme, TransitionProgress { done, total }))
    }
}
