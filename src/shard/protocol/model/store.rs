//! A root and its companions, as plain data.

use std::collections::BTreeMap;

use super::super::{Ask, Edit, Guard, Mark, Place, Reply, Request, Root, Seen};
use super::{Act, Answer, Elements, Tiny};
use crate::shard::scheme::{Companion, Epoch, Scheme};

/// The records of one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) root: Option<RootRecord>,
    pub(super) companions: BTreeMap<u64, CompanionRecord>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RootRecord {
    pub(super) root: Root,
    pub(super) bin: Option<Elements>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CompanionRecord {
    /// A user's record that bears the key.
    Foreign,
    Ours {
        companion: Companion,
        mark: Mark,
        bin: Option<Elements>,
    },
}

/// A part of a guard that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// A write to the root's collection does not ask whether it has moved.
    WholeIsWhole,
    /// A mark may take an epoch that was there before.
    MarkIsNewer,
    /// A mark does not ask whether the root is as it was read.
    MarkedRootIs,
    /// The last step of a transition does not ask whether it is still under way.
    FinishedRootIs,
    /// What was in the companion is put back whatever the root has become.
    PutBackRootIs,
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
    ShedOlder,
    /// A half is taken in by companions of any age.
    TakenInOlder,
    /// Companions of any age are deleted.
    DeletedOlder,
    /// A companion that is there already is filled again.
    FilledPlaced,
    /// A companion is filled under another one's token.
    FilledToken,
}

impl Store {
    /// Executes a request, as one atomic step.
    pub(super) fn execute(&mut self, request: &Request<Tiny>, hole: Option<Hole>) -> Reply<Tiny> {
        match request.place {
            Place::Root => self.on_root(request, hole),
            Place::Companion(shard) => self.on_companion(shard, request, hole),
        }
    }

    fn on_root(&mut self, request: &Request<Tiny>, hole: Option<Hole>) -> Reply<Tiny> {
        let creates = match &request.edit {
            Edit::User(act) => matches!(act, Act::Add(_)),
            Edit::Mark(..) => true,
            _ => false,
        };
        if self.root.is_none() && !creates {
            return Reply::NotFound;
        }
        if let Some(record) = &self.root
            && !root_passes(record, request, hole)
        {
            return Reply::FilteredOut;
        }
        let record = self.root.get_or_insert_default();
        let mut answer = None;
        match &request.edit {
            Edit::None => {}
            Edit::User(act) => answer = apply(*act, &mut record.bin),
            Edit::Mark(scheme, epoch) => {
                record.root = Root {
                    scheme: *scheme,
                    epoch: *epoch,
                };
            }
            Edit::Spread(scheme) => {
                record.root.scheme = *scheme;
                record.bin = None;
            }
            Edit::Settle(scheme) => record.root.scheme = *scheme,
            Edit::PutBack(whole) => record.bin = Some(*whole),
            Edit::Clear => record.bin = None,
            edit => panic!("no edit of a root: {edit:?}"),
        }
        let mut seen = Seen {
            answer,
            ..Seen::nothing()
        };
        if !matches!(request.ask, Ask::Nothing) {
            seen.root = record.root;
            read(&request.ask, record.bin, &mut seen);
        }
        if *record == RootRecord::default() {
            self.root = None;
        }
        Reply::Done(seen)
    }

    fn on_companion(
        &mut self,
        shard: u64,
        request: &Request<Tiny>,
        hole: Option<Hole>,
    ) -> Reply<Tiny> {
        let found = self.companions.get(&shard).copied();
        let mut seen = Seen::nothing();
        if let Some(record) = &found
            && !companion_passes(record, request, hole)
        {
            return Reply::FilteredOut;
        }
        if let Edit::Place(companion, token) = &request.edit {
            let placed = CompanionRecord::Ours {
                companion: *companion,
                mark: Mark::Placed(*token),
                bin: None,
            };
            self.companions.insert(shard, placed);
            return Reply::Done(seen);
        }
        let Some(record) = self.companions.get_mut(&shard) else {
            return Reply::NotFound;
        };
        let CompanionRecord::Ours {
            companion,
            mark,
            bin,
        } = record
        else {
            // Only reads ask nothing of a user's record.
            if let Ask::Content = request.ask {
                seen.content = Some(0);
            }
            if let Ask::User(act) = request.ask {
                seen.answer = apply(act, &mut None);
            }
            return Reply::Done(seen);
        };
        match &request.edit {
            Edit::None => {}
            Edit::User(act) => seen.answer = apply(*act, bin),
            Edit::Fill(part) => {
                *bin = Some(*part);
                *mark = Mark::Live;
            }
            Edit::Freeze => *mark = Mark::Frozen,
            Edit::Shed(moved, new) => {
                *bin = bin.map(|bin| bin & !moved);
                (*companion, *mark) = (*new, Mark::Live);
            }
            Edit::TakeIn(part, new) => {
                if *part != 0 {
                    *bin = Some(bin.unwrap_or_default() | part);
                }
                *companion = *new;
            }
            Edit::Delete => {
                self.companions.remove(&shard);
                return Reply::Done(seen);
            }
            edit => panic!("no edit of a companion: {edit:?}"),
        }
        if !matches!(request.ask, Ask::Nothing) {
            seen.companion = Some((*companion, *mark));
            read(&request.ask, *bin, &mut seen);
            // What the guard has asked for is taken as said: only the guard stands between it and the reader.
            if let (Edit::None, Guard::Live(asked)) = (&request.edit, request.guard) {
                seen.companion = Some((asked, Mark::Live));
                seen.has_bin = true;
            }
        }
        Reply::Done(seen)
    }
}

fn root_passes(record: &RootRecord, request: &Request<Tiny>, hole: Option<Hole>) -> bool {
    let root = &record.root;
    let left_out = |part| hole == Some(part);
    match request.guard {
        Guard::None => true,
        Guard::Whole => root.scheme == Scheme::Whole || left_out(Hole::WholeIsWhole),
        Guard::WholeBefore(epoch) => {
            (root.scheme == Scheme::Whole || left_out(Hole::MarkedRootIs))
                && (root.epoch < epoch || left_out(Hole::MarkIsNewer))
        }
        Guard::RootIs(scheme, epoch) => {
            let part = match request.edit {
                Edit::Mark(..) => Hole::MarkedRootIs,
                Edit::PutBack(_) => Hole::PutBackRootIs,
                _ => Hole::FinishedRootIs,
            };
            *root == Root { scheme, epoch } || left_out(part)
        }
        Guard::Bare(scheme, epoch) => {
            (*root == Root { scheme, epoch } || left_out(Hole::MarkedRootIs))
                && record.bin.is_none()
        }
        guard => panic!("no guard of a root: {guard:?}"),
    }
}

fn companion_passes(record: &CompanionRecord, request: &Request<Tiny>, hole: Option<Hole>) -> bool {
    let left_out = |part| hole == Some(part);
    let older = |companion: &Companion, epoch: Epoch| {
        let part = match request.edit {
            Edit::Place(..) => Hole::PlacedOlder,
            Edit::Freeze => Hole::FrozenOlder,
            Edit::Shed(..) => Hole::ShedOlder,
            Edit::TakeIn(..) => Hole::TakenInOlder,
            _ => Hole::DeletedOlder,
        };
        companion.epoch < epoch || left_out(part)
    };
    match (request.guard, record) {
        (Guard::None, _) => true,
        (_, CompanionRecord::Foreign) => false,
        (
            guard,
            CompanionRecord::Ours {
                companion,
                mark,
                bin,
            },
        ) => match guard {
            Guard::Live(exactly) => {
                let (epoch, thawed) = match request.edit {
                    Edit::None => (Hole::ReadEpoch, Hole::ReadFrozen),
                    _ => (Hole::LiveEpoch, Hole::LiveThawed),
                };
                (*companion == exactly || left_out(epoch))
                    && (*mark == Mark::Live || left_out(thawed))
                    && (bin.is_some() || left_out(Hole::ReadFrozen))
            }
            Guard::OlderThan(epoch) => older(companion, epoch),
            Guard::Placed(exactly, token) => {
                let placed = match mark {
                    Mark::Placed(found) => *found == token || left_out(Hole::FilledToken),
                    _ => left_out(Hole::FilledPlaced),
                };
                *companion == exactly && placed
            }
            guard => panic!("no guard of a companion: {guard:?}"),
        },
    }
}

fn read(ask: &Ask<Tiny>, bin: Option<Elements>, seen: &mut Seen<Tiny>) {
    seen.has_bin = bin.is_some();
    match ask {
        Ask::Nothing | Ask::State => {}
        Ask::Content => seen.content = Some(bin.unwrap_or_default()),
        Ask::User(act) => seen.answer = apply(*act, &mut bin.clone()),
    }
}

/// What an act does to a bin.
fn apply(act: Act, bin: &mut Option<Elements>) -> Option<Answer> {
    let there = |element: u8| bin.unwrap_or_default() >> element & 1 == 1;
    Some(match act {
        Act::Add(element) => {
            let new = !there(element);
            *bin = Some(bin.unwrap_or_default() | 1 << element);
            Answer::Yes(new)
        }
        Act::Remove(element) => {
            let was = there(element);
            *bin = bin.map(|bin| bin & !(1 << element));
            Answer::Yes(was)
        }
        Act::Contains(element) => Answer::Yes(there(element)),
        Act::All => Answer::All(bin.unwrap_or_default()),
    })
}
