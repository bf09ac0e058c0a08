//! Carries a transition to its end, for any caller.
//!
//! Another caller may have taken the same steps, or take them at this moment: then a precondition does not hold, and
//! the caller goes on behind it. It must never take a step of a transition that is over; every precondition names
//! the epoch for that.

use super::rules::{Rule, keeps};
use super::{
    Companion, CompanionState, Edit, Failure, Kind, Machine, Precondition, Progress, Read,
    RecordRef, Reply, Request, Root, Token, TransitionProgress,
};
use crate::shard::scheme::Scheme;

/// Where a transition goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Advance<P> {
    root: Root,
    token: Token,
    step: AdvanceStep<P>,
}

/// The outcome of advancing: the transition is over, or another one is under way. The root says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AdvanceEnd;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AdvanceStep<P> {
    /// Activation: places this companion. The tokens of the companions before it; `None` for filled ones.
    Place(u64, Vec<Option<Token>>),
    /// Another caller has placed this companion or filled it: reads which.
    LookPlaced(u64, Vec<Option<Token>>),
    /// The frozen collection, and whether its activation is still under way.
    ReadWhole(Vec<Option<Token>>),
    /// Fills a companion with its part of the collection.
    Fill(u64, Token, P, Vec<Option<Token>>),

    /// Split: places the new companion of this one's pair.
    PlaceHalf(u64),
    LookHalf(u64),
    /// Freezes this companion and reads its content.
    FreezeToSplit(u64, Option<Token>),
    FillHalf(u64, P, Token),
    RemoveMoved(u64, P),

    /// Merge: reads whether this companion has absorbed the other one of its pair.
    LookAbsorbed(u64, Again),
    FreezeHalf(u64, Again),
    Absorb(u64, P),
    DeleteHalf(u64),

    /// Deactivation: freezes the only companion.
    FreezeOnly,
    RestoreToRoot(P),
    DeleteOnly,

    /// Deletion.
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
    pub(crate) fn new(root: &Root, has_bin: bool, token: Token) -> Option<Self> {
        let step = match root.scheme {
            Scheme::Unsharded | Scheme::Active { .. } => return None,
            Scheme::Activating { .. } => AdvanceStep::Place(0, Vec::new()),
            Scheme::Splitting { .. } => AdvanceStep::PlaceHalf(0),
            Scheme::Merging { .. } => AdvanceStep::LookAbsorbed(0, Again::No),
            Scheme::Deactivating if has_bin => AdvanceStep::DeleteOnly,
            Scheme::Deactivating => AdvanceStep::FreezeOnly,
            Scheme::Deleting { .. } => AdvanceStep::Delete(0),
        };
        let root = root.clone();
        Some(Self { root, token, step })
    }

    /// Takes a reply within another machine, and continues that with the rest of the transition; `None`: it is over.
    pub(crate) fn then<K: Kind<Part = P>, M, O>(
        self,
        reply: Reply<K>,
        go: impl FnOnce(Option<Self>) -> Progress<M, O>,
    ) -> Progress<M, O> {
        match self.resume(reply) {
            Progress::Next(advance) => go(Some(advance)),
            Progress::Done(AdvanceEnd) => go(None),
            Progress::Failed(failure) => Progress::Failed(failure),
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

    fn go(self, step: AdvanceStep<P>) -> Progress<Self, AdvanceEnd> {
        Progress::Next(Self { step, ..self })
    }

    /// Goes on with the companion after this one, or ends the transition after the last one.
    fn behind(
        self,
        shard: u64,
        step: impl FnOnce(u64) -> AdvanceStep<P>,
    ) -> Progress<Self, AdvanceEnd> {
        if shard + 1 < self.of() {
            self.go(step(shard + 1))
        } else {
            self.go(AdvanceStep::Finish)
        }
    }

    fn placed(
        self,
        shard: u64,
        mut tokens: Vec<Option<Token>>,
        token: Option<Token>,
    ) -> Progress<Self, AdvanceEnd> {
        tokens.push(token);
        if shard + 1 < self.of() {
            self.go(AdvanceStep::Place(shard + 1, tokens))
        } else {
            self.go(AdvanceStep::ReadWhole(tokens))
        }
    }

    /// Fills the next companion, from this one on, that is not filled yet.
    fn fill(self, from: u64, whole: P, tokens: Vec<Option<Token>>) -> Progress<Self, AdvanceEnd> {
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
    fn found<K: Kind<Part = P>>(
        &self,
        shard: u64,
        reply: Reply<K>,
    ) -> Result<Option<Token>, Progress<Self, AdvanceEnd>> {
        match reply {
            Reply::Done(seen) => match seen.companion {
                None => Err(Progress::Failed(Failure::Collision(self.root.keys, shard))),
                Some((companion, _)) if companion.epoch != self.root.epoch => {
                    Err(Progress::Done(AdvanceEnd))
                }
                Some((_, CompanionState::Placed(token))) => Ok(Some(token)),
                Some(_) => Ok(None),
            },
            // It was there a moment ago: another transition has passed, or another program interferes.
            Reply::NotFound | Reply::FilteredOut => Err(Progress::Next(Self {
                step: AdvanceStep::Missing(shard),
                ..self.clone()
            })),
        }
    }
}

impl<K: Kind> Machine<K> for Advance<K::Part> {
    type Outcome = AdvanceEnd;

    fn request(&self) -> Request<K> {
        let epoch = self.root.epoch;
        let older = || Precondition::OlderThan(epoch);
        let at = |shard: u64| RecordRef::Companion(self.root.keys, shard);
        let bears = || Precondition::Bears(self.root.description.clone());
        let place = |shard| {
            let edit = Edit::Place(self.new_companion(), self.token);
            Request::write(at(shard), older(), edit)
        };
        let fill = |shard, part, token| {
            let precondition = Precondition::Placed(self.new_companion(), token);
            Request::write(at(shard), precondition, Edit::Fill(part))
        };
        let freeze = |shard| Request {
            read: Read::Content,
            ..Request::write(at(shard), older(), Edit::Freeze)
        };
        let look = |shard| Request::read(at(shard), Read::State);
        match &self.step {
            AdvanceStep::Place(shard, _) => place(*shard),
            AdvanceStep::LookPlaced(shard, _) => look(*shard),
            AdvanceStep::ReadWhole(_) => Request::read(RecordRef::Root, Read::Content),
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
                let edit = Edit::RemoveMoved(moved, self.new_companion());
                Request::write(at(*shard), older(), edit)
            }
            AdvanceStep::LookAbsorbed(shard, _) => look(*shard),
            AdvanceStep::FreezeHalf(shard, _) => freeze(self.half(*shard)),
            AdvanceStep::Absorb(shard, half) => {
                let edit = Edit::Absorb(half.clone(), self.new_companion());
                Request::write(at(*shard), older(), edit)
            }
            AdvanceStep::DeleteHalf(shard) => {
                Request::write(at(self.half(*shard)), older(), Edit::Delete)
            }
            AdvanceStep::FreezeOnly => freeze(0),
            AdvanceStep::RestoreToRoot(whole) => {
                // The step may be repeated: while this precondition holds, neither of them is written.
                Request::write(RecordRef::Root, bears(), Edit::RestoreToRoot(whole.clone()))
            }
            AdvanceStep::DeleteOnly => Request::write(at(0), older(), Edit::Delete),
            AdvanceStep::Delete(shard) => Request::write(at(*shard), older(), Edit::Delete),
            AdvanceStep::Finish => {
                let edit = match self.root.scheme {
                    Scheme::Activating { .. } | Scheme::Deleting { .. } => {
                        Edit::FinishAndRemoveBin(self.target())
                    }
                    _ => Edit::Finish(self.target()),
                };
                Request::write(RecordRef::Root, bears(), edit)
            }
            AdvanceStep::Missing(_) => Request::read(RecordRef::Root, Read::State),
        }
    }

    fn resume(mut self, reply: Reply<K>) -> Progress<Self, AdvanceEnd> {
        // The end is a placeholder here: every arm below sets the next step.
        let step = std::mem::replace(&mut self.step, AdvanceStep::Finish);
        match step {
            AdvanceStep::Place(shard, tokens) => match reply {
                Reply::Done(_) => {
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
                Reply::Done(seen) if seen.root.is_as(&self.root) || !keeps(Rule::Evidence) => {
                    if seen.root.is_as(&self.root) {
                        // Other collections of the record may have changed meanwhile.
                        self.root.description = seen.root.description;
                    }
                    match seen.content {
                        Some(whole) => self.fill(0, whole, tokens),
                        None => Progress::Done(AdvanceEnd),
                    }
                }
                _ => Progress::Done(AdvanceEnd),
            },
            AdvanceStep::Fill(shard, _, whole, tokens) => match reply {
                Reply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.fill(shard + 1, whole, tokens),
            },

            AdvanceStep::PlaceHalf(shard) => match reply {
                Reply::Done(_) => {
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
                (Reply::NotFound, _) => self.go(AdvanceStep::Missing(shard)),
                (Reply::FilteredOut, _) => self.behind(shard, AdvanceStep::PlaceHalf),
                (Reply::Done(seen), token) => match (seen.content, token) {
                    (None, _) => self.go(AdvanceStep::Missing(shard)),
                    (Some(whole), Some(token)) => {
                        self.go(AdvanceStep::FillHalf(shard, whole, token))
                    }
                    (Some(whole), None) => self.go(AdvanceStep::RemoveMoved(shard, whole)),
                },
            },
            AdvanceStep::FillHalf(shard, whole, _) => match reply {
                Reply::NotFound => {
                    let half = self.half(shard);
                    self.go(AdvanceStep::Missing(half))
                }
                _ => self.go(AdvanceStep::RemoveMoved(shard, whole)),
            },
            AdvanceStep::RemoveMoved(shard, _) => match reply {
                Reply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.behind(shard, AdvanceStep::PlaceHalf),
            },

            AdvanceStep::LookAbsorbed(shard, again) => match reply {
                Reply::Done(seen) => match seen.companion {
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
                (Reply::Done(seen), _) => match seen.content {
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
                Reply::NotFound => self.go(AdvanceStep::Missing(shard)),
                _ => self.go(AdvanceStep::DeleteHalf(shard)),
            },
            AdvanceStep::DeleteHalf(shard) => {
                self.behind(shard, |shard| AdvanceStep::LookAbsorbed(shard, Again::No))
            }

            AdvanceStep::FreezeOnly => match reply {
                Reply::Done(seen) => match seen.content {
                    Some(whole) => self.go(AdvanceStep::RestoreToRoot(whole)),
                    None => self.go(AdvanceStep::Missing(0)),
                },
                _ => self.go(AdvanceStep::Missing(0)),
            },
            AdvanceStep::RestoreToRoot(_) => match reply {
                Reply::Done(_) => self.go(AdvanceStep::DeleteOnly),
                _ if !keeps(Rule::RestoreBeforeDelete) => self.go(AdvanceStep::DeleteOnly),
                // The transition is over, or another collection of the record has changed: the companion stays until the
                // root is seen to have its content.
                _ => Progress::Done(AdvanceEnd),
            },
            AdvanceStep::DeleteOnly => self.go(AdvanceStep::Finish),

            AdvanceStep::Delete(shard) => self.behind(shard, AdvanceStep::Delete),

            AdvanceStep::Finish => Progress::Done(AdvanceEnd),
            AdvanceStep::Missing(shard) => match reply {
                Reply::Done(seen) if seen.root.is_as(&self.root) => {
                    if self.root.scheme == Scheme::Deactivating && seen.has_bin {
                        // Another caller has put it back in the meantime.
                        self.go(AdvanceStep::DeleteOnly)
                    } else {
                        Progress::Failed(Failure::Missing(shard))
                    }
                }
                _ => Progress::Done(AdvanceEnd),
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
            AdvanceStep::DeleteOnly | AdvanceStep::Finish => total,
        };
        Some((self.root.scheme, TransitionProgress { done, total }))
    }
}
