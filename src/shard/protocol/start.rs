//! Begins a transition: reads the root, checks that no other records are in the way, marks the
//! root, advances it.

use super::advance::Advance;
use super::{
    AtomicRequest, CollectionKind, CollectionRoot, CompanionToken, Failure, Machine,
    MachineProgress, NeighborCollections, Precondition, Read, RecordRef, RequestEdit, RequestReply,
    TransitionProgress,
};
use crate::shard::arithmetic::SHARDS_MAX;
use crate::shard::description::Form;
use crate::shard::scheme::{Epoch, Scheme};

/// The state that a caller wants the collection to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// No transition under way.
    Advance,
    /// This many companions, unless there are companions already.
    Activate(u64),
    /// Twice as many companions as there are.
    Split,
    /// Half as many companions as there are.
    Merge,
    /// Unsharded, in the root.
    Deactivate,
    /// The whole collection is deleted.
    Delete,
}

/// A transition from its beginning to its end. Its outcome is the root as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transition<P> {
    goal: Goal,
    now_us: u64,
    token: CompanionToken,
    /// How many companions a split or merge is to end with, once that is known.
    target: Option<u64>,
    /// If set, nothing is begun unless this is the number of the collection's last transition.
    only_at: Option<Epoch>,
    /// Whether a deletion was begun, or met under way. Its end is the end of ours: all that was
    /// there when we began is gone then, and a later collection must not be deleted again.
    deleted: bool,
    /// The highest epoch of leftover companions: if the root alone was deleted, and made anew, the
    /// clock may not have moved since.
    newest: Epoch,
    /// From which shard on the keys of companions will stand apart, since another record has one of
    /// them.
    apart: Option<u64>,
    step: StartStep<P>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum StartStep<P> {
    ReadRoot,
    /// Reads whether the key of a companion is free, up to a last one; then the root is marked.
    Check(u64, u64, CollectionRoot, Scheme),
    Mark(CollectionRoot, Scheme),
    Advance(Advance<P>),
    /// Deletes the collection in the root.
    Clear(NeighborCollections),
}

impl<P: Clone> Transition<P> {
    /// `now_us`: the time in microseconds, from which the epoch is made.
    pub(crate) const fn new(goal: Goal, now_us: u64, token: CompanionToken) -> Self {
        Self {
            goal,
            now_us,
            token,
            target: None,
            only_at: None,
            deleted: false,
            newest: Epoch(0),
            apart: None,
            step: StartStep::ReadRoot,
        }
    }

    /// Begins nothing if the collection has had another transition since this epoch.
    pub(crate) fn only_at(self, epoch: Epoch) -> Self {
        Self {
            only_at: Some(epoch),
            ..self
        }
    }

    fn go(self, step: StartStep<P>) -> MachineProgress<Self, CollectionRoot> {
        MachineProgress::Next(Self { step, ..self })
    }

    /// Marks a root, if the keys of new companions are free.
    fn check(
        self,
        from: u64,
        to: u64,
        root: CollectionRoot,
        scheme: Scheme,
    ) -> MachineProgress<Self, CollectionRoot> {
        if from < to {
            self.go(StartStep::Check(from, to, root, scheme))
        } else {
            self.go(StartStep::Mark(root, scheme))
        }
    }

    fn judge(
        mut self,
        root: CollectionRoot,
        has_bin: bool,
    ) -> MachineProgress<Self, CollectionRoot> {
        if self.only_at.is_some_and(|epoch| epoch != root.epoch) {
            return MachineProgress::Done(root);
        }
        let token = self.token;
        // The keys are looked at anew for each mark.
        self.apart = None;
        self.deleted |= matches!(root.scheme, Scheme::Deleting { .. });
        // A deletion overtakes any transition: it is the way out where that cannot be ended.
        // One that has ended takes nothing that has come since.
        let shards = match (self.goal, root.scheme) {
            _ if self.deleted => None,
            (Goal::Delete, Scheme::Activating { shards }) => Some(shards),
            (Goal::Delete, Scheme::Splitting { from }) => Some(from * 2),
            (Goal::Delete, Scheme::Merging { from }) => Some(from),
            (Goal::Delete, Scheme::Deactivating) => Some(1),
            _ => None,
        };
        if let Some(shards) = shards {
            return self.go(StartStep::Mark(root, Scheme::Deleting { shards }));
        }
        if let Some(advance) = Advance::new(&root, has_bin, token) {
            // Never one token for two transitions: a late caller of the first would fill a
            // companion of the second.
            self.token = token.next();
            return self.go(StartStep::Advance(advance));
        }
        match (self.goal, root.scheme) {
            (Goal::Activate(_), Scheme::Unsharded) if root.description.has_unknown_forms() => {
                MachineProgress::Failed(Failure::OtherForm)
            }
            (Goal::Activate(shards), Scheme::Unsharded) => {
                self.check(0, shards, root, Scheme::Activating { shards })
            }
            (Goal::Split, Scheme::Active { shards }) => {
                let target = *self.target.get_or_insert(shards * 2);
                if shards >= target {
                    MachineProgress::Done(root)
                } else if target > SHARDS_MAX {
                    MachineProgress::Failed(Failure::NotApplicable(root.scheme))
                } else {
                    self.check(shards, shards * 2, root, Scheme::Splitting { from: shards })
                }
            }
            (Goal::Merge, Scheme::Active { shards }) => {
                let target = *self.target.get_or_insert(shards / 2);
                if target == 0 {
                    MachineProgress::Failed(Failure::NotApplicable(root.scheme))
                } else if shards <= target {
                    MachineProgress::Done(root)
                } else {
                    self.go(StartStep::Mark(root, Scheme::Merging { from: shards }))
                }
            }
            // A caller who advances a deactivation takes a bin in the root for the collection, and
            // deletes the companion.
            (Goal::Deactivate, Scheme::Active { .. }) if has_bin => {
                MachineProgress::Failed(Failure::Foreign)
            }
            (Goal::Deactivate, Scheme::Active { shards: 1 }) => {
                self.go(StartStep::Mark(root, Scheme::Deactivating))
            }
            (Goal::Deactivate, Scheme::Active { shards }) => {
                self.go(StartStep::Mark(root, Scheme::Merging { from: shards }))
            }
            (Goal::Delete, _) if self.deleted => MachineProgress::Done(root),
            (Goal::Delete, Scheme::Active { shards }) => {
                self.go(StartStep::Mark(root, Scheme::Deleting { shards }))
            }
            (Goal::Delete, Scheme::Unsharded) => self.go(StartStep::Clear(root.neighbors())),
            // A split or merge that has come this far was overtaken by others.
            (Goal::Split | Goal::Merge, _) if self.target.is_none() => {
                MachineProgress::Failed(Failure::NotApplicable(root.scheme))
            }
            _ => MachineProgress::Done(root),
        }
    }
}

impl<K: CollectionKind> Machine<K> for Transition<K::Part> {
    type Outcome = CollectionRoot;

    fn request(&self) -> AtomicRequest<K> {
        match &self.step {
            StartStep::ReadRoot => AtomicRequest::read(RecordRef::Root, Read::State),
            StartStep::Check(shard, _, root, _) => {
                AtomicRequest::read(RecordRef::Companion(root.keys, *shard), Read::State)
            }
            StartStep::Mark(root, scheme) => {
                let latest = root.description.latest();
                let epoch = latest.max(self.newest).after(self.now_us);
                let description = root.description.clone();
                let precondition = match scheme {
                    Scheme::Deactivating => Precondition::Bare(description),
                    _ => Precondition::Bears(description),
                };
                let edit = RequestEdit::Mark(Form::Hash(*scheme), epoch, self.apart);
                AtomicRequest::write(RecordRef::Root, precondition, edit)
            }
            StartStep::Advance(advance) => advance.request(),
            StartStep::Clear(neighbors) => AtomicRequest::write(
                RecordRef::Root,
                Precondition::Unsharded(*neighbors),
                RequestEdit::Clear,
            ),
        }
    }

    fn resume(mut self, reply: RequestReply<K>) -> MachineProgress<Self, CollectionRoot> {
        match std::mem::replace(&mut self.step, StartStep::ReadRoot) {
            StartStep::ReadRoot => match reply {
                RequestReply::Done(seen) => self.judge(seen.root, seen.has_bin),
                _ => self.judge(CollectionRoot::default(), false),
            },
            StartStep::Check(shard, to, root, scheme) => match reply {
                RequestReply::Done(seen)
                    if seen.companion.is_none() && root.keys.is_apart(shard) =>
                {
                    MachineProgress::Failed(Failure::Collision(root.keys, shard))
                }
                // It belongs to another: the new companions get keys of their own.
                RequestReply::Done(seen) if seen.companion.is_none() => {
                    let first = match scheme {
                        Scheme::Splitting { from } => from,
                        _ => 0,
                    };
                    self.apart = Some(first);
                    let keys = root.keys.apart(first);
                    self.check(first, to, CollectionRoot { keys, ..root }, scheme)
                }
                reply => {
                    if let RequestReply::Done(seen) = reply
                        && let Some((companion, _)) = seen.companion
                    {
                        self.newest = self.newest.max(companion.epoch);
                    }
                    self.check(shard + 1, to, root, scheme)
                }
            },
            StartStep::Mark(_, scheme) => {
                let marked = matches!(reply, RequestReply::Done(_));
                if marked {
                    // The transition under way is ours now.
                    self.only_at = None;
                }
                // Others may have carried it to its end before we look again.
                self.deleted |= marked && matches!(scheme, Scheme::Deleting { .. });
                self.go(StartStep::ReadRoot)
            }
            StartStep::Advance(advance) => advance.then(reply, |advance| {
                self.go(advance.map_or(StartStep::ReadRoot, StartStep::Advance))
            }),
            StartStep::Clear(_) => match reply {
                RequestReply::FilteredOut => self.go(StartStep::ReadRoot),
                _ => MachineProgress::Done(CollectionRoot::default()),
            },
        }
    }

    fn transition(&self) -> Option<(Scheme, TransitionProgress)> {
        match &self.step {
            StartStep::Advance(advance) => Machine::<K>::transition(advance),
            _ => None,
        }
    }
}
