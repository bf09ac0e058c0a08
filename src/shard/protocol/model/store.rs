//! A root with two collections and their companions, as plain data.

use std::collections::BTreeMap;

use super::super::{
    AtomicRequest, CollectionRoot, CompanionState, NeighborCollections, Observation, Precondition,
    Read, RecordRef, RequestEdit, RequestReply,
};
use super::{COLLECTIONS, ElementSet, Tiny, TinyAct, TinyAnswer, bin_of};
use crate::record::companion_key::KeyForm;
use crate::shard::description::{Description, Form};
use crate::shard::scheme::{Companion, Epoch, Scheme};

/// The bin of each collection in a record.
pub(super) type CollectionBins = [Option<ElementSet>; COLLECTIONS];

/// The key of a companion: the collection where the key says so, and its number.
pub(super) type CompanionKey = (Option<usize>, u64);

/// The records of the collections of one root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HashStore {
    pub(super) root: Option<RootRecord>,
    pub(super) companions: BTreeMap<CompanionKey, CompanionRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RootRecord {
    pub(super) description: Description,
    pub(super) bins: CollectionBins,
}

impl RootRecord {
    /// Returns its description of one collection.
    pub(super) fn root(&self, of: usize) -> CollectionRoot {
        CollectionRoot::of(self.description.clone(), bin_of(of)).unwrap()
    }
}

/// Above the number of any shard.
const APART: u64 = 1 << 20;

/// The key of a companion of this collection.
pub(super) const fn companion_key(of: usize, keys: KeyForm, shard: u64) -> CompanionKey {
    // A key that stands apart is never the key of another collection's companion.
    let shard = if keys.is_apart(shard) {
        shard + APART
    } else {
        shard
    };
    if keys.by_bin() {
        (Some(of), shard)
    } else {
        (None, shard)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CompanionRecord {
    /// A user's record that bears the key.
    Foreign,
    Ours {
        companion: Companion,
        state: CompanionState,
        bins: CollectionBins,
    },
}

/// A part of a precondition that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashHole {
    /// A write to the root's collection does not ask whether it has moved.
    StillUnsharded,
    /// A mark or an end of a transition does not ask for the latest epoch of the record.
    LatestIs,
    /// A mark or an end of a transition does not ask whether other collections are as they were
    /// read.
    OthersAre,
    /// A mark does not ask whether the root is as it was read.
    MarkedRootIs,
    /// The last step of a transition does not ask whether it is still under way.
    FinishedRootIs,
    /// The companion's content is put back without a check of the root.
    RestoredRootIs,
    /// A write to a companion does not ask for its epoch.
    LiveEpoch,
    /// A write to a companion does not ask whether it is frozen.
    LiveThawed,
    /// A read by a remembered route does not ask for the companion's epoch.
    ReadEpoch,
    /// A read by a remembered route takes a frozen companion, with content or without.
    ReadFrozen,
    /// Room is made in the place of companions of any age.
    PlacedOlder,
    /// Companions of any age are frozen.
    FrozenOlder,
    /// A half is shed of companions of any age.
    RemoveMovedOlder,
    /// A half is taken in by companions of any age.
    AbsorbOlder,
    /// Companions of any age are deleted.
    DeletedOlder,
    /// A companion that is there already is filled again.
    FilledPlaced,
    /// A companion is filled under another one's token.
    FilledToken,
}

impl HashStore {
    /// Executes a request for one of the collections, as one atomic step.
    pub(super) fn execute(
        &mut self,
        of: usize,
        request: &AtomicRequest<Tiny>,
        hole: Option<HashHole>,
    ) -> RequestReply<Tiny> {
        match request.place {
            RecordRef::Root => self.on_root(of, request, hole),
            RecordRef::Companion(keys, shard) => {
                self.on_companion(of, companion_key(of, keys, shard), request, hole)
            }
            place => panic!("no record here: {place:?}"),
        }
    }

    fn on_root(
        &mut self,
        of: usize,
        request: &AtomicRequest<Tiny>,
        hole: Option<HashHole>,
    ) -> RequestReply<Tiny> {
        let creates = match &request.edit {
            RequestEdit::User(act) => {
                matches!(act, TinyAct::Add(_))
                    && request.precondition != Precondition::Unsharded(NeighborCollections::Sharded)
            }
            RequestEdit::Mark(..) => request.precondition.description().is_new(),
            _ => false,
        };
        if self.root.is_none() && !creates {
            return RequestReply::NotFound;
        }
        if let Some(record) = &self.root
            && !root_passes(of, record, request, hole)
        {
            return RequestReply::FilteredOut;
        }
        let record = self.root.get_or_insert_default();
        let before = request.precondition.description();
        let settle = |to: Scheme| {
            let form = (to != Scheme::Unsharded).then_some(Form::Hash(to));
            before.settled(bin_of(of), form)
        };
        let mut answer = None;
        match &request.edit {
            RequestEdit::None => {}
            RequestEdit::User(act) => answer = apply(*act, &mut record.bins[of]),
            RequestEdit::Mark(form, epoch, apart) => {
                let marked = before.marked(bin_of(of), form.clone(), *epoch);
                record.description = marked.with_keys_apart(bin_of(of), *apart);
            }
            RequestEdit::FinishAndRemoveBin(scheme) => {
                record.description = settle(*scheme);
                record.bins[of] = None;
            }
            RequestEdit::Finish(scheme) => record.description = settle(*scheme),
            RequestEdit::RestoreToRoot(whole) => record.bins[of] = Some(*whole),
            RequestEdit::Clear => record.bins[of] = None,
            edit => panic!("no edit of a root: {edit:?}"),
        }
        let mut seen = Observation {
            answer,
            ..Observation::nothing()
        };
        if !matches!(request.read, Read::Nothing) {
            // A conditional read does not read the root's state.
            if request.precondition == Precondition::None {
                seen.root = record.root(of);
            }
            apply_read(&request.read, record.bins[of], &mut seen);
        }
        if *record == RootRecord::default() {
            self.root = None;
        }
        RequestReply::Done(seen)
    }

    fn on_companion(
        &mut self,
        of: usize,
        key: CompanionKey,
        request: &AtomicRequest<Tiny>,
        hole: Option<HashHole>,
    ) -> RequestReply<Tiny> {
        let found = self.companions.get(&key).copied();
        let mut seen = Observation::nothing();
        if let Some(record) = &found
            && !companion_passes(of, record, request, hole)
        {
            return RequestReply::FilteredOut;
        }
        if let RequestEdit::Place(companion, token) = &request.edit {
            let placed = CompanionRecord::Ours {
                companion: *companion,
                state: CompanionState::Placed(*token),
                bins: [None; COLLECTIONS],
            };
            self.companions.insert(key, placed);
            return RequestReply::Done(seen);
        }
        let Some(record) = self.companions.get_mut(&key) else {
            return RequestReply::NotFound;
        };
        let CompanionRecord::Ours {
            companion,
            state,
            bins,
        } = record
        else {
            // Only reads ask nothing of a user's record.
            if let Read::Content = request.read {
                seen.content = Some(0);
            }
            if let Read::User(act) = request.read {
                seen.answer = apply(act, &mut None);
            }
            return RequestReply::Done(seen);
        };
        let bin = &mut bins[of];
        match &request.edit {
            RequestEdit::None => {}
            RequestEdit::User(act) => seen.answer = apply(*act, bin),
            RequestEdit::Fill(part) => {
                *bin = Some(*part);
                *state = CompanionState::Live;
            }
            RequestEdit::Freeze => *state = CompanionState::Frozen,
            RequestEdit::RemoveMoved(moved, new) => {
                *bin = bin.map(|bin| bin & !moved);
                (*companion, *state) = (*new, CompanionState::Live);
            }
            RequestEdit::Absorb(part, new) => {
                if *part != 0 {
                    *bin = Some(bin.unwrap_or_default() | part);
                }
                *companion = *new;
            }
            RequestEdit::Delete => {
                self.companions.remove(&key);
                return RequestReply::Done(seen);
            }
            edit => panic!("no edit of a companion: {edit:?}"),
        }
        if !matches!(request.read, Read::Nothing) {
            seen.companion = Some((*companion, *state));
            apply_read(&request.read, *bin, &mut seen);
            // The read takes the state from the precondition, as the real one does: the
            // precondition alone protects the reader.
            if let (RequestEdit::None, Precondition::Live(asked)) =
                (&request.edit, &request.precondition)
            {
                seen.companion = Some((*asked, CompanionState::Live));
                seen.has_bin = true;
            }
        }
        RequestReply::Done(seen)
    }
}

fn root_passes(
    of: usize,
    record: &RootRecord,
    request: &AtomicRequest<Tiny>,
    hole: Option<HashHole>,
) -> bool {
    let left_out = |part| hole == Some(part);
    let own = |description: &Description| description.of(bin_of(of)).cloned();
    let found = &record.description;
    let bears = |wanted: &Description| {
        let part = match request.edit {
            RequestEdit::Mark(..) => HashHole::MarkedRootIs,
            RequestEdit::RestoreToRoot(_) => HashHole::RestoredRootIs,
            _ => HashHole::FinishedRootIs,
        };
        left_out(part)
            || own(found) == own(wanted)
                && (found.latest() == wanted.latest() || left_out(HashHole::LatestIs))
                && (*found == *wanted
                    || left_out(HashHole::OthersAre)
                    || left_out(HashHole::LatestIs))
    };
    match &request.precondition {
        Precondition::None => true,
        Precondition::Unsharded(NeighborCollections::None) => {
            found.is_empty() || left_out(HashHole::StillUnsharded)
        }
        Precondition::Unsharded(NeighborCollections::Sharded) => {
            own(found).is_none() && !found.is_empty() || left_out(HashHole::StillUnsharded)
        }
        Precondition::Bears(wanted) => bears(wanted),
        Precondition::Bare(wanted) => bears(wanted) && record.bins[of].is_none(),
        precondition => panic!("no precondition of a root: {precondition:?}"),
    }
}

fn companion_passes(
    of: usize,
    record: &CompanionRecord,
    request: &AtomicRequest<Tiny>,
    hole: Option<HashHole>,
) -> bool {
    let left_out = |part| hole == Some(part);
    let older = |companion: &Companion, epoch: Epoch| {
        let part = match request.edit {
            RequestEdit::Place(..) => HashHole::PlacedOlder,
            RequestEdit::Freeze => HashHole::FrozenOlder,
            RequestEdit::RemoveMoved(..) => HashHole::RemoveMovedOlder,
            RequestEdit::Absorb(..) => HashHole::AbsorbOlder,
            _ => HashHole::DeletedOlder,
        };
        companion.epoch < epoch || left_out(part)
    };
    match (&request.precondition, record) {
        (Precondition::None, _) => true,
        (_, CompanionRecord::Foreign) => false,
        (
            precondition,
            CompanionRecord::Ours {
                companion,
                state,
                bins,
            },
        ) => match precondition {
            Precondition::Live(exactly) => {
                let (epoch, thawed) = match request.edit {
                    RequestEdit::None => (HashHole::ReadEpoch, HashHole::ReadFrozen),
                    _ => (HashHole::LiveEpoch, HashHole::LiveThawed),
                };
                (companion == exactly || left_out(epoch))
                    && (*state == CompanionState::Live || left_out(thawed))
                    && (bins[of].is_some() || left_out(HashHole::ReadFrozen))
            }
            Precondition::OlderThan(epoch) => older(companion, *epoch),
            Precondition::Placed(exactly, token) => {
                let placed = match state {
                    CompanionState::Placed(found) => {
                        found == token || left_out(HashHole::FilledToken)
                    }
                    _ => left_out(HashHole::FilledPlaced),
                };
                companion == exactly && placed
            }
            precondition => panic!("no precondition of a companion: {precondition:?}"),
        },
    }
}

fn apply_read(read: &Read<Tiny>, bin: Option<ElementSet>, seen: &mut Observation<Tiny>) {
    seen.has_bin = bin.is_some();
    match read {
        Read::Nothing | Read::Description | Read::State => {}
        Read::Content => seen.content = Some(bin.unwrap_or_default()),
        Read::User(act) => seen.answer = apply(*act, &mut bin.clone()),
    }
}

/// Applies an act to a bin.
fn apply(act: TinyAct, bin: &mut Option<ElementSet>) -> Option<TinyAnswer> {
    let there = |element: u8| bin.unwrap_or_default() >> element & 1 == 1;
    Some(match act {
        TinyAct::Add(element) => {
            let new = !there(element);
            *bin = Some(bin.unwrap_or_default() | 1 << element);
            TinyAnswer::Yes(new)
        }
        TinyAct::Remove(element) => {
            let was = there(element);
            *bin = bin.map(|bin| bin & !(1 << element));
            TinyAnswer::Yes(was)
        }
        TinyAct::Contains(element) => TinyAnswer::Yes(there(element)),
        TinyAct::All => TinyAnswer::All(bin.unwrap_or_default()),
    })
}
