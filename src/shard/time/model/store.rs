//! A root, its companions and the clock as plain data, and the steps on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::shard::description::{Description, Form};
use crate::shard::model_check::history::ElementSet;
use crate::shard::protocol::{
    AtomicRequest, CollectionKind, CollectionRoot, CompanionState, CompanionToken, Observation,
    Precondition, Read, RecordRef, RequestEdit, RequestReply, StepOutcome,
};
use crate::shard::scheme::{Epoch, Scheme};
use crate::shard::time::calendar::{TimeBucket, TimeWidth};
use crate::shard::time::layout::{CollectionPart, TimeLayout};
use crate::shard::time::steps::{Direction, PageRange, TimedKind};

pub(super) const LAYOUT: TimeLayout = TimeLayout {
    width: TimeWidth::Hourly,
    shards: 1,
};

/// Returns the bucket of an element: two in each of two hours of 1970, and the others in 1971.
pub(super) const fn bucket_of(element: u8) -> TimeBucket {
    TimeBucket([0, 3_600, 365 * 86_400][element as usize / 2])
}

/// Buckets of elements, and pages of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TinyTime;

/// An act on the record of a bucket or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TimeAct {
    Add(u8),
    Remove(u8),
    /// Reads the elements of a bucket.
    All,
    Entries(PageRange),
}

/// What that answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TimeAnswer {
    /// Whether the element was added, or removed.
    Yes(bool),
    All(ElementSet),
    Entries(Vec<i64>),
}

impl CollectionKind for TinyTime {
    type Part = ();
    type Act = TimeAct;
    type Answer = TimeAnswer;

    fn part(_: &(), _: u64, _: u64) {
        panic!("nothing is split")
    }
}

impl TimedKind for TinyTime {
    const EMPTY: () = ();

    fn read_entries(_: BinName, range: PageRange) -> TimeAct {
        TimeAct::Entries(range)
    }

    fn entries(answer: TimeAnswer) -> Vec<i64> {
        match answer {
            TimeAnswer::Entries(entries) => entries,
            answer => panic!("{answer:?}"),
        }
    }
}

/// A step.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Horizon,
    Step(AtomicRequest<TinyTime>),
}

/// The reply to a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Horizon(Option<TimeBucket>),
    Step(RequestReply<TinyTime>),
}

/// A part of a guard that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeHole {
    /// A collection is begun without a check of the root.
    BeginBears,
    /// A deletion is marked without a check of the root.
    MarkBears,
    /// A deletion is ended without a check of the root.
    ClearBears,
    /// A record is placed over one of any age.
    PlacedOlder,
    /// A record that is open already is opened again.
    OpenPlaced,
    /// A record is opened under another one's token.
    OpenToken,
    /// A record is taken away that is open by now.
    DisplacePlaced,
    /// Records of any age are deleted.
    DeletedOlder,
    /// An entry goes into a page that is not open yet.
    EnterOpen,
    /// A bucket is written that is not open yet.
    ActOpen,
}

/// A record of the collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PartRecord {
    pub(super) epoch: Epoch,
    /// `None`: it is open.
    pub(super) token: Option<CompanionToken>,
    entries: BTreeSet<i64>,
    elements: ElementSet,
}

impl PartRecord {
    const fn empty(epoch: Epoch, token: Option<CompanionToken>) -> Self {
        Self {
            epoch,
            token,
            entries: BTreeSet::new(),
            elements: 0,
        }
    }

    fn act(&mut self, act: TimeAct) -> TimeAnswer {
        let before = self.elements;
        match act {
            TimeAct::Add(element) => self.elements |= 1 << element,
            TimeAct::Remove(element) => self.elements &= !(1 << element),
            TimeAct::All => return TimeAnswer::All(self.elements),
            TimeAct::Entries(range) => {
                // As many as there are from the end on at which reading begins.
                let (all, limit) = (self.entries.iter().copied(), range.limit);
                let mut entries: Vec<i64> = match range.direction {
                    Direction::OldestFirst => all
                        .filter(|entry| *entry >= range.from)
                        .take(limit)
                        .collect(),
                    Direction::NewestFirst => {
                        let before = all.rev().filter(|entry| *entry <= range.to);
                        before.take(limit).collect()
                    }
                };
                entries.sort_unstable();
                return TimeAnswer::Entries(entries);
            }
        }
        TimeAnswer::Yes(self.elements != before)
    }
}

/// Everything that there is. A root without description is no root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TimeStore {
    description: Description,
    pub(super) parts: BTreeMap<(KeyForm, CollectionPart), PartRecord>,
    pub(super) horizon: Option<TimeBucket>,
}

pub(super) fn bin() -> BinName {
    BinName::new("said").unwrap()
}

impl TimeStore {
    pub(super) fn latest(&self) -> Epoch {
        self.description.latest()
    }

    pub(super) fn root(&self) -> CollectionRoot {
        let described = CollectionRoot::described(self.description.clone(), bin());
        LAYOUT.read(described, bin()).unwrap()
    }

    /// Shards another collection of the record, or brings it back.
    pub(super) fn change_neighbor(&mut self) {
        let neighbor = BinName::new("list").unwrap();
        self.description = if self.description.of(neighbor).is_some() {
            self.description.settled(neighbor, None)
        } else {
            let form = Form::Hash(Scheme::Active { shards: 2 });
            let next = Epoch(self.latest().0 + 1);
            self.description.marked(neighbor, form, next)
        };
    }

    /// Takes expired records away.
    pub(super) fn reap(&mut self) {
        let horizon = self.horizon;
        let is_kept = |part: CollectionPart| match (LAYOUT.end(part), horizon) {
            (Some(end), Some(horizon)) => end > horizon.0,
            _ => true,
        };
        self.parts.retain(|(_, part), _| is_kept(*part));
    }

    /// Executes a request, as one atomic step.
    pub(super) fn execute(&mut self, request: &Request, hole: Option<TimeHole>) -> Reply {
        let request = match request {
            Request::Horizon => return Reply::Horizon(self.horizon),
            Request::Step(request) => request,
        };
        Reply::Step(match request.place {
            RecordRef::Root => self.on_root(request, hole),
            RecordRef::Timed(keys, _, part) => self.on_part((keys, part), request, hole),
            place => panic!("no record here: {place:?}"),
        })
    }

    fn on_root(
        &mut self,
        request: &AtomicRequest<TinyTime>,
        hole: Option<TimeHole>,
    ) -> RequestReply<TinyTime> {
        let is_there = self.description != Description::default();
        let before = request.precondition.description();
        let creates = matches!(request.edit, RequestEdit::Mark(..)) && before.is_new();
        if !is_there && !creates {
            return StepOutcome::NotFound;
        }
        let guard = match (&request.precondition, &request.edit) {
            (Precondition::None, _) => None,
            (Precondition::Bare(_), _) => Some(TimeHole::BeginBears),
            (_, RequestEdit::Mark(..)) => Some(TimeHole::MarkBears),
            _ => Some(TimeHole::ClearBears),
        };
        if guard.is_some() && guard != hole && is_there && self.description != *before {
            return StepOutcome::FilteredOut;
        }
        let mut seen = Observation::nothing();
        match &request.edit {
            RequestEdit::None => {
                seen.root = CollectionRoot::described(self.description.clone(), bin());
            }
            RequestEdit::Mark(form, epoch, None) => {
                self.description = before.marked(bin(), form.clone(), *epoch);
            }
            RequestEdit::Finish(Scheme::Unsharded) => {
                self.description = before.settled(bin(), None);
            }
            edit => panic!("no edit of a root: {edit:?}"),
        }
        StepOutcome::Done(seen)
    }

    fn on_part(
        &mut self,
        place: (KeyForm, CollectionPart),
        request: &AtomicRequest<TinyTime>,
        hole: Option<TimeHole>,
    ) -> RequestReply<TinyTime> {
        let found = self.parts.get(&place);
        if found.is_some_and(|record| !passes(record, request, hole)) {
            return StepOutcome::FilteredOut;
        }
        let mut seen = Observation::nothing();
        if let RequestEdit::Place(companion, token) = &request.edit {
            let placed = PartRecord::empty(companion.epoch, Some(*token));
            self.parts.insert(place, placed);
            return StepOutcome::Done(seen);
        }
        let Some(record) = self.parts.get_mut(&place) else {
            return StepOutcome::NotFound;
        };
        match &request.edit {
            RequestEdit::None => {}
            RequestEdit::User(act) => seen.answer = Some(record.act(*act)),
            RequestEdit::Fill(()) => *record = PartRecord::empty(record.epoch, None),
            RequestEdit::Enter(entry) => drop(record.entries.insert(*entry)),
            RequestEdit::Delete => {
                self.parts.remove(&place);
                return StepOutcome::Done(seen);
            }
            edit => panic!("no edit of a part: {edit:?}"),
        }
        if matches!(request.read, Read::Nothing) {
            return StepOutcome::Done(seen);
        }
        let state = record
            .token
            .map_or(CompanionState::Live, CompanionState::Placed);
        seen.companion = Some((LAYOUT.companion(place.1, record.epoch), state));
        if let Read::User(act) = &request.read {
            seen.answer = Some(record.clone().act(*act));
        }
        StepOutcome::Done(seen)
    }
}

/// Whether the precondition of a request holds for a record.
fn passes(record: &PartRecord, request: &AtomicRequest<TinyTime>, hole: Option<TimeHole>) -> bool {
    let left_out = |part| hole == Some(part);
    match (&request.precondition, &request.edit) {
        (Precondition::None, _) => true,
        (Precondition::OlderThan(epoch), edit) => {
            let part = match edit {
                RequestEdit::Place(..) => TimeHole::PlacedOlder,
                _ => TimeHole::DeletedOlder,
            };
            record.epoch < *epoch || left_out(part)
        }
        (Precondition::Live(companion), edit) => {
            let part = match edit {
                RequestEdit::Enter(_) => TimeHole::EnterOpen,
                _ => TimeHole::ActOpen,
            };
            record.epoch == companion.epoch && (record.token.is_none() || left_out(part))
        }
        (Precondition::Placed(companion, token), edit) => {
            let is_placed = match (record.token, edit) {
                (found, RequestEdit::Delete) => {
                    found == Some(*token) || left_out(TimeHole::DisplacePlaced)
                }
                (Some(found), _) => found == *token || left_out(TimeHole::OpenToken),
                (None, _) => left_out(TimeHole::OpenPlaced),
            };
            record.epoch == companion.epoch && is_placed
        }
        (precondition, _) => panic!("no precondition of a part: {precondition:?}"),
    }
}
