//! A root, its companions and the clock as plain data, and the steps on them.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::BinName;
use crate::record::companion_key::KeyForm;
use crate::shard::description::{Description, Form};
use crate::shard::protocol::{CompanionRoute, CompanionToken};
use crate::shard::scheme::{Epoch, Scheme};
use crate::shard::time::calendar::{TimeBucket, TimeWidth};
use crate::shard::time::layout::{CollectionPart, CollectionUse, DirectoryPage, TimeLayout};
use crate::shard::time::record_steps::in_range;
use crate::shard::time::steps::{
    CollectionState, Direction, PageRange, PartState, RootState, StepOutcome,
};

pub(super) const LAYOUT: TimeLayout = TimeLayout {
    width: TimeWidth::Hourly,
    shards: 1,
};

/// A set of elements, by their bits.
pub(super) type Elements = u8;

/// Returns the bucket of an element: two in each of two hours of 1970, and the others in 1971.
pub(super) const fn bucket_of(element: u8) -> TimeBucket {
    TimeBucket([0, 3_600, 365 * 86_400][element as usize / 2])
}

/// What is done to the record of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    Add(u8),
    Remove(u8),
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Horizon,
    Root,
    Begin(RootState, Epoch),
    MarkDeleting(RootState),
    Clear(RootState),
    Look(KeyForm, CollectionPart),
    Place(CompanionRoute, CollectionPart, CompanionToken),
    Open(CompanionRoute, CollectionPart, CompanionToken),
    Displace(CompanionRoute, CollectionPart, CompanionToken),
    Delete(CompanionRoute, CollectionPart),
    Enter(CompanionRoute, DirectoryPage, i64),
    Entries(KeyForm, DirectoryPage, PageRange),
    Act(CompanionRoute, CollectionPart, Act),
    /// Reads the elements of a bucket.
    Content(KeyForm, CollectionPart),
}

/// What a step has answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Horizon(Option<TimeBucket>),
    Root(RootState),
    Outcome(StepOutcome<()>),
    State(PartState),
    Placed(Option<CompanionToken>),
    Entries(PartState, Vec<i64>),
    Answer(StepOutcome<bool>),
    Content(PartState, Elements),
}

/// A part of a guard that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// A collection is begun whatever the root says.
    BeginBears,
    /// A deletion is marked whatever the root says.
    MarkBears,
    /// A deletion is ended whatever the root says.
    ClearBears,
    /// Records are placed in the place of those of any age.
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
    elements: Elements,
}

impl PartRecord {
    fn state(&self) -> PartState {
        match self.token {
            None => PartState::Open(self.epoch),
            Some(token) => PartState::Placed(self.epoch, token),
        }
    }
}

/// Everything that there is. A root without description is no root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    description: Description,
    pub(super) parts: BTreeMap<(KeyForm, CollectionPart), PartRecord>,
    pub(super) horizon: Option<TimeBucket>,
}

fn bin() -> BinName {
    BinName::new("said").unwrap()
}

fn form(phase: CollectionUse) -> Form {
    Form::of(&LAYOUT.value(phase)).unwrap()
}

/// The description as it was read, with the collection in this phase.
fn marked(root: &RootState, phase: CollectionUse, after: Epoch) -> Description {
    // The clock stands still: the epochs alone must do.
    let epoch = Epoch(root.description.latest().max(after).0 + 1);
    root.description.marked(bin(), form(phase), epoch)
}

impl Store {
    pub(super) fn latest(&self) -> Epoch {
        self.description.latest()
    }

    pub(super) fn root(&self) -> RootState {
        let keys = self.description.keys(bin());
        let collection = self.description.of(bin()).map(|entry| CollectionState {
            phase: LAYOUT.parse(&entry.form.value()).unwrap(),
            route: CompanionRoute {
                shards: LAYOUT.shards,
                epoch: entry.epoch,
                keys,
            },
        });
        RootState {
            description: self.description.clone().into(),
            keys,
            collection,
            has_bin: false,
        }
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

    /// Takes away what has expired.
    pub(super) fn reap(&mut self) {
        let horizon = self.horizon;
        let is_kept = |part: CollectionPart| match (LAYOUT.end(part), horizon) {
            (Some(end), Some(horizon)) => end > horizon.0,
            _ => true,
        };
        self.parts.retain(|(_, part), _| is_kept(*part));
    }

    fn bears(&self, root: &RootState) -> bool {
        self.description == *root.description
    }

    fn state(&self, keys: KeyForm, part: CollectionPart) -> PartState {
        let record = self.parts.get(&(keys, part));
        record.map_or(PartState::Absent, PartRecord::state)
    }

    /// Executes a request, as one atomic step.
    pub(super) fn execute(&mut self, request: &Request, hole: Option<Hole>) -> Reply {
        match request {
            Request::Horizon => Reply::Horizon(self.horizon),
            Request::Root => Reply::Root(self.root()),
            Request::Begin(..) | Request::MarkDeleting(_) | Request::Clear(_) => {
                Reply::Outcome(self.on_root(request, hole))
            }
            Request::Look(keys, part) => Reply::State(self.state(*keys, *part)),
            Request::Entries(keys, page, range) => self.entries(*keys, *page, *range),
            Request::Content(keys, part) => {
                let record = self.parts.get(&(*keys, *part));
                let elements = record.map_or(0, |record| record.elements);
                Reply::Content(self.state(*keys, *part), elements)
            }
            Request::Place(route, part, token) => self.place(*route, *part, *token, hole),
            Request::Act(route, part, act) => self.act(*route, *part, *act, hole),
            Request::Open(route, part, token) => {
                Reply::Outcome(self.open(*route, *part, *token, hole))
            }
            Request::Displace(route, part, token) => {
                let passes = |record: &PartRecord| {
                    record.epoch == route.epoch
                        && (record.token == Some(*token) || hole == Some(Hole::DisplacePlaced))
                };
                Reply::Outcome(self.remove(*route, *part, passes))
            }
            Request::Delete(route, part) => {
                let passes = |record: &PartRecord| {
                    record.epoch < route.epoch || hole == Some(Hole::DeletedOlder)
                };
                Reply::Outcome(self.remove(*route, *part, passes))
            }
            Request::Enter(route, page, entry) => {
                let Some(record) = self
                    .parts
                    .get_mut(&(route.keys, CollectionPart::Page(*page)))
                else {
                    return Reply::Outcome(StepOutcome::NotFound);
                };
                let is_open = record.token.is_none() || hole == Some(Hole::EnterOpen);
                if record.epoch != route.epoch || !is_open {
                    return Reply::Outcome(StepOutcome::FilteredOut);
                }
                record.entries.insert(*entry);
                Reply::Outcome(StepOutcome::Done(()))
            }
        }
    }

    fn on_root(&mut self, request: &Request, hole: Option<Hole>) -> StepOutcome<()> {
        match request {
            Request::Begin(root, after) => {
                if !self.bears(root) && hole != Some(Hole::BeginBears) {
                    return StepOutcome::FilteredOut;
                }
                self.description = marked(root, CollectionUse::Active, *after);
            }
            Request::MarkDeleting(root) => {
                if !self.bears(root) && hole != Some(Hole::MarkBears) {
                    return StepOutcome::FilteredOut;
                }
                self.description = marked(root, CollectionUse::Deleting, Epoch::default());
            }
            Request::Clear(root) => {
                if !self.bears(root) && hole != Some(Hole::ClearBears) {
                    return StepOutcome::FilteredOut;
                }
                self.description = root.description.settled(bin(), None);
            }
            request => panic!("no step on the root: {request:?}"),
        }
        StepOutcome::Done(())
    }

    fn place(
        &mut self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
        hole: Option<Hole>,
    ) -> Reply {
        let is_newer = |record: &PartRecord| record.epoch >= route.epoch;
        if self.parts.get(&(route.keys, part)).is_some_and(is_newer)
            && hole != Some(Hole::PlacedOlder)
        {
            return Reply::Placed(None);
        }
        let placed = PartRecord {
            epoch: route.epoch,
            token: Some(token),
            entries: BTreeSet::new(),
            elements: 0,
        };
        self.parts.insert((route.keys, part), placed);
        Reply::Placed(Some(token))
    }

    fn open(
        &mut self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
        hole: Option<Hole>,
    ) -> StepOutcome<()> {
        let Some(record) = self.parts.get_mut(&(route.keys, part)) else {
            return StepOutcome::NotFound;
        };
        let is_placed = match record.token {
            Some(found) => found == token || hole == Some(Hole::OpenToken),
            None => hole == Some(Hole::OpenPlaced),
        };
        if record.epoch != route.epoch || !is_placed {
            return StepOutcome::FilteredOut;
        }
        *record = PartRecord {
            epoch: route.epoch,
            token: None,
            entries: BTreeSet::new(),
            elements: 0,
        };
        StepOutcome::Done(())
    }

    fn remove(
        &mut self,
        route: CompanionRoute,
        part: CollectionPart,
        passes: impl Fn(&PartRecord) -> bool,
    ) -> StepOutcome<()> {
        match self.parts.get(&(route.keys, part)) {
            None => StepOutcome::NotFound,
            Some(record) if !passes(record) => StepOutcome::FilteredOut,
            Some(_) => {
                self.parts.remove(&(route.keys, part));
                StepOutcome::Done(())
            }
        }
    }

    fn act(
        &mut self,
        route: CompanionRoute,
        part: CollectionPart,
        act: Act,
        hole: Option<Hole>,
    ) -> Reply {
        let Some(record) = self.parts.get_mut(&(route.keys, part)) else {
            return Reply::Answer(StepOutcome::NotFound);
        };
        let is_open = record.token.is_none() || hole == Some(Hole::ActOpen);
        if record.epoch != route.epoch || !is_open {
            return Reply::Answer(StepOutcome::FilteredOut);
        }
        let before = record.elements;
        match act {
            Act::Add(element) => record.elements |= 1 << element,
            Act::Remove(element) => record.elements &= !(1 << element),
        }
        Reply::Answer(StepOutcome::Done(record.elements != before))
    }

    fn entries(&self, keys: KeyForm, page: DirectoryPage, range: PageRange) -> Reply {
        let record = self.parts.get(&(keys, CollectionPart::Page(page)));
        let all = record.map_or_else(Vec::new, |it| it.entries.iter().copied().collect());
        let mut entries = in_range(all, range);
        entries.truncate(range.limit);
        debug_assert!(range.direction == Direction::NewestFirst || entries.is_sorted());
        Reply::Entries(self.state(keys, CollectionPart::Page(page)), entries)
    }
}
