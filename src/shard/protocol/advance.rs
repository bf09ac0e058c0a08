//! Carrying a transition to its end, whoever began it.
//!
//! Steps may have been taken before, by somebody else, or be taken at this moment: a precondition that does not hold says so, and
//! the caller goes on behind it. It must never take a step of a transition that is over; every precondition names
//! the epoch for that.

use super::rules::{Rule, keeps};
use super::{
    Companion, CompanionState, Done, Edit, Failure, Kind, Machine, Place, Precondition, Progress,
    Read, Reply, Request, Root, Token,
};
use crate::shard::scheme::Scheme;

/// Where a transition goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Advance<P> {
    root: Root,
    token: Token,
    step: Step<P>,
}

/// The end of advancing: the transition is over, or another one is under way. The root says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AdvanceEnd;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step<P> {
    /// Activation: room for a companion; the tokens of those before it, none for those that are made.
    Place(u64, Vec<Option<Token>>),
    /// Somebody else has made room, or made it.
    LookPlaced(u64, Vec<Option<Token>>),
    /// The frozen collection, and whether its activation is still under way.
    ReadWhole(Vec<Option<Token>>),
    /// One part of it.
    Fill(u64, Token, P, Vec<Option<Token>>),

    /// Split: places the new companion of this one's pair.
    PlaceHalf(u64),
    LookHalf(u64),
    /// This one is frozen and read.
    FreezeToSplit(u64, Option<Token>),
    FillHalf(u64, P, Token),
    RemoveMoved(u64, P),

    /// Merge: whether this one has absorbed the other of its pair.
    LookAbsorbed(u64, Again),
    FreezeHalf(u64, Again),
    Absorb(u64, P),
    DeleteHalf(u64),

    /// Back to one record.
    FreezeOnly,
    RestoreToRoot(P),
    DeleteOnly,

    /// Deletion.
    Delete(u64),

    /// Root: the transition is over.
    Finish,
    /// A companion was not there: is the transition?
    Missing(u64),
}

/// Whether the same was tried before.
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
            Scheme::Activating { .. } => Step::Place(0, Vec::new()),
            Scheme::Splitting { .. } => Step::PlaceHalf(0),
            Scheme::Merging { .. } => Step::LookAbsorbed(0, Again::No),
            Scheme::Deactivating if has_bin => Step::DeleteOnly,
            Scheme::Deactivating => Step::FreezeOnly,
            Scheme::Deleting { .. } => Step::Delete(0),
        };
        let root = root.clone();
        Some(Self { root, token, step })
    }

    /// A step within another machine, which goes on with what is left of the transition; `None`: it is over.
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

    /// How many companions this transition goes through.
    const fn of(&self) -> u64 {
        match self.root.scheme {
            Scheme::Activating { shards } | Scheme::Deleting { shards } => shards,
            Scheme::Splitting { from } => from,
            Scheme::Merging { from } => from / 2,
            Scheme::Unsharded | Scheme::Active { .. } | Scheme::Deactivating => 1,
        }
    }

    /// What a companion is once this transition has passed it.
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

    /// What the root says at the end.
    const fn target(&self) -> Scheme {
        match self.root.scheme {
            Scheme::Activating { shards } => Scheme::Active { shards },
            Scheme::Splitting { from } => Scheme::Active { shards: from * 2 },
            Scheme::Merging { from } => Scheme::Active { shards: from / 2 },
            _ => Scheme::Unsharded,
        }
    }

    fn go(self, step: Step<P>) -> Progress<Self, AdvanceEnd> {
        Progress::Next(Self { step, ..self })
    }

    /// Where a pass over the companions goes on behind this one.
    fn behind(self, shard: u64, step: impl FnOnce(u64) -> Step<P>) -> Progress<Self, AdvanceEnd> {
        if shard + 1 < self.of() {
            self.go(step(shard + 1))
        } else {
            self.go(Step::Finish)
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
            self.go(Step::Place(shard + 1, tokens))
        } else {
            self.go(Step::ReadWhole(tokens))
        }
    }

    /// Fills the next companion, from this one on, that is not filled yet.
    fn fill(self, from: u64, whole: P, tokens: Vec<Option<Token>>) -> Progress<Self, AdvanceEnd> {
        let mut unfilled = tokens
            .iter()
            .zip(0..)
            .skip_while(|(_, shard)| *shard < from);
        match unfilled.find_map(|(token, shard)| token.map(|token| (shard, token))) {
            Some((shard, token)) => self.go(Step::Fill(shard, token, whole, tokens)),
            None => self.go(Step::Finish),
        }
    }

    /// The token of a companion that somebody else has placed, none if it is filled.
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
            // It was there a moment ago: another transition has passed, or somebody interferes.
            Reply::NotFound | Reply::FilteredOut => Err(Progress::Next(Self {
                step: Step::Missing(shard),
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
        let at = |shard: u64| Place::Companion(self.root.keys, shard);
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
            Step::Place(shard, _) => place(*shard),
            Step::LookPlaced(shard, _) => look(*shard),
            Step::ReadWhole(_) => Request::read(Place::Root, Read::Content),
            Step::Fill(shard, token, whole, _) => {
                fill(*shard, K::part(whole, self.of(), *shard), *token)
            }
            Step::PlaceHalf(shard) => place(self.half(*shard)),
            Step::LookHalf(shard) => look(self.half(*shard)),
            Step::FreezeToSplit(shard, _) => freeze(*shard),
            Step::FillHalf(shard, whole, token) => {
                let half = self.half(*shard);
                fill(half, K::part(whole, self.of() * 2, half), *token)
            }
            Step::RemoveMoved(shard, whole) => {
                let moved = K::part(whole, self.of() * 2, self.half(*shard));
                let edit = Edit::RemoveMoved(moved, self.new_companion());
                Request::write(at(*shard), older(), edit)
            }
            Step::LookAbsorbed(shard, _) => look(*shard),
            Step::FreezeHalf(shard, _) => freeze(self.half(*shard)),
            Step::Absorb(shard, half) => {
                let edit = Edit::Absorb(half.clone(), self.new_companion());
                Request::write(at(*shard), older(), edit)
            }
            Step::DeleteHalf(shard) => Request::write(at(self.half(*shard)), older(), Edit::Delete),
            Step::FreezeOnly => freeze(0),
            Step::RestoreToRoot(whole) => {
                // Twice is as good as once: while this precondition holds, nobody writes either of them.
                Request::write(Place::Root, bears(), Edit::RestoreToRoot(whole.clone()))
            }
            Step::DeleteOnly => Request::write(at(0), older(), Edit::Delete),
            Step::Delete(shard) => Request::write(at(*shard), older(), Edit::Delete),
            Step::Finish => {
                let edit = match self.root.scheme {
                    Scheme::Activating { .. } | Scheme::Deleting { .. } => {
                        Edit::FinishAndRemoveBin(self.target())
                    }
                    _ => Edit::Finish(self.target()),
                };
                Request::write(Place::Root, bears(), edit)
            }
            Step::Missing(_) => Request::read(Place::Root, Read::State),
        }
    }

    fn resume(mut self, reply: Reply<K>) -> Progress<Self, AdvanceEnd> {
        // The end is a placeholder here: every arm below sets the next step.
        let step = std::mem::replace(&mut self.step, Step::Finish);
        match step {
            Step::Place(shard, tokens) => match reply {
                Reply::Done(_) => {
                    let token = self.token;
                    self.placed(shard, tokens, Some(token))
                }
                _ => self.go(Step::LookPlaced(shard, tokens)),
            },
            Step::LookPlaced(shard, tokens) => match self.found(shard, reply) {
                Ok(token) => self.placed(shard, tokens, token),
                Err(end) => end,
            },
            Step::ReadWhole(tokens) => match reply {
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
            Step::Fill(shard, _, whole, tokens) => match reply {
                Reply::NotFound => self.go(Step::Missing(shard)),
                _ => self.fill(shard + 1, whole, tokens),
            },

            Step::PlaceHalf(shard) => match reply {
                Reply::Done(_) => {
                    let token = Some(self.token);
                    self.go(Step::FreezeToSplit(shard, token))
                }
                _ => self.go(Step::LookHalf(shard)),
            },
            Step::LookHalf(shard) => match self.found(self.half(shard), reply) {
                Ok(token) => self.go(Step::FreezeToSplit(shard, token)),
                Err(end) => end,
            },
            Step::FreezeToSplit(shard, token) => match (reply, token) {
                (Reply::NotFound, _) => self.go(Step::Missing(shard)),
                (Reply::FilteredOut, _) => self.behind(shard, Step::PlaceHalf),
                (Reply::Done(seen), token) => match (seen.content, token) {
                    (None, _) => self.go(Step::Missing(shard)),
                    (Some(whole), Some(token)) => self.go(Step::FillHalf(shard, whole, token)),
                    (Some(whole), None) => self.go(Step::RemoveMoved(shard, whole)),
                },
            },
            Step::FillHalf(shard, whole, _) => match reply {
                Reply::NotFound => {
                    let half = self.half(shard);
                    self.go(Step::Missing(half))
                }
                _ => self.go(Step::RemoveMoved(shard, whole)),
            },
            Step::RemoveMoved(shard, _) => match reply {
                Reply::NotFound => self.go(Step::Missing(shard)),
                _ => self.behind(shard, Step::PlaceHalf),
            },

            Step::LookAbsorbed(shard, again) => match reply {
                Reply::Done(seen) => match seen.companion {
                    Some((companion, _)) if companion.epoch < self.root.epoch => {
                        self.go(Step::FreezeHalf(shard, again))
                    }
                    Some((companion, _)) if companion.epoch == self.root.epoch => {
                        self.go(Step::DeleteHalf(shard))
                    }
                    _ => self.go(Step::Missing(shard)),
                },
                _ => self.go(Step::Missing(shard)),
            },
            Step::FreezeHalf(shard, again) => match (reply, again) {
                (Reply::Done(seen), _) => match seen.content {
                    Some(half) => self.go(Step::Absorb(shard, half)),
                    None => {
                        let half = self.half(shard);
                        self.go(Step::Missing(half))
                    }
                },
                // Somebody else has taken it in and deleted it, which shows in the other one.
                (_, Again::No) => self.go(Step::LookAbsorbed(shard, Again::Yes)),
                (_, Again::Yes) => {
                    let half = self.half(shard);
                    self.go(Step::Missing(half))
                }
            },
            Step::Absorb(shard, _) => match reply {
                Reply::NotFound => self.go(Step::Missing(shard)),
                _ => self.go(Step::DeleteHalf(shard)),
            },
            Step::DeleteHalf(shard) => {
                self.behind(shard, |shard| Step::LookAbsorbed(shard, Again::No))
            }

            Step::FreezeOnly => match reply {
                Reply::Done(seen) => match seen.content {
                    Some(whole) => self.go(Step::RestoreToRoot(whole)),
                    None => self.go(Step::Missing(0)),
                },
                _ => self.go(Step::Missing(0)),
            },
            Step::RestoreToRoot(_) => match reply {
                Reply::Done(_) => self.go(Step::DeleteOnly),
                _ if !keeps(Rule::RestoreBeforeDelete) => self.go(Step::DeleteOnly),
                // The transition is over, or another collection of the record has changed: the companion stays until the
                // root is seen to have its content.
                _ => Progress::Done(AdvanceEnd),
            },
            Step::DeleteOnly => self.go(Step::Finish),

            Step::Delete(shard) => self.behind(shard, Step::Delete),

            Step::Finish => Progress::Done(AdvanceEnd),
            Step::Missing(shard) => match reply {
                Reply::Done(seen) if seen.root.is_as(&self.root) => {
                    if self.root.scheme == Scheme::Deactivating && seen.has_bin {
                        // Somebody else has put it back in the meantime.
                        self.go(Step::DeleteOnly)
                    } else {
                        Progress::Failed(Failure::Missing(shard))
                    }
                }
                _ => Progress::Done(AdvanceEnd),
            },
        }
    }

    fn transition(&self) -> Option<(Scheme, Done)> {
        let of = self.of();
        let done = match &self.step {
            Step::Place(..) | Step::LookPlaced(..) | Step::ReadWhole(_) => 0,
            Step::Fill(shard, ..)
            | Step::PlaceHalf(shard)
            | Step::LookHalf(shard)
            | Step::FreezeToSplit(shard, _)
            | Step::FillHalf(shard, ..)
            | Step::RemoveMoved(shard, _)
            | Step::LookAbsorbed(shard, _)
            | Step::FreezeHalf(shard, _)
            | Step::Absorb(shard, _)
            | Step::DeleteHalf(shard)
            | Step::Delete(shard) => *shard,
            Step::FreezeOnly | Step::RestoreToRoot(_) | Step::Missing(_) => 0,
            Step::DeleteOnly | Step::Finish => of,
        };
        Some((self.root.scheme, Done { done, of }))
    }
}
