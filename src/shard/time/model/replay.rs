//! The steps of a call, answered from a list of replies.

use std::cell::{Cell, RefCell};

use super::store::{Act, Elements, Hole, LAYOUT, Reply, Request, Store};
use crate::Error;
use crate::record::companion_key::KeyForm;
use crate::shard::protocol::{CompanionRoute, CompanionToken};
use crate::shard::scheme::Epoch;
use crate::shard::time::calendar::TimeBucket;
use crate::shard::time::layout::{CollectionPart, DirectoryPage, TimeLayout};
use crate::shard::time::steps::{PageRange, PartState, RootState, StepOutcome, TimeSteps};

/// The most steps that a process alone takes.
const STEPS_ALONE_MAX: usize = 400;

/// The steps of one call: answered from what was answered before, or by a store at once.
pub(super) struct Replay<'a> {
    pub(super) replies: &'a [Reply],
    pub(super) next: Cell<usize>,
    pub(super) pending: RefCell<Option<Request>>,
    pub(super) at_once: Option<(RefCell<&'a mut Store>, Option<Hole>)>,
    /// The token of the next placing.
    pub(super) token: Cell<u64>,
    /// Where the call began again: after how many replies, with which route and which token.
    pub(super) attempt: Cell<Attempt>,
}

/// What a call that begins, or begins again, depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) replies: usize,
    pub(super) remembered: Option<CompanionRoute>,
    pub(super) token: u64,
}

impl Replay<'_> {
    fn ask(&self, request: Request) -> crate::Result<Reply> {
        let next = self.next.get();
        self.next.set(next + 1);
        if let Some((store, hole)) = &self.at_once {
            if next >= STEPS_ALONE_MAX {
                self.pending.replace(Some(request));
                return Err(Error::parameter("too many steps"));
            }
            return Ok(store.borrow_mut().execute(&request, *hole));
        }
        if let Some(reply) = self.replies.get(next) {
            return Ok(reply.clone());
        }
        self.pending.replace(Some(request));
        Err(Error::parameter("not answered yet"))
    }

    fn outcome(&self, request: Request) -> crate::Result<StepOutcome<()>> {
        match self.ask(request)? {
            Reply::Outcome(outcome) => Ok(outcome),
            reply => panic!("{reply:?}"),
        }
    }

    pub(super) fn content(
        &self,
        keys: KeyForm,
        part: CollectionPart,
    ) -> crate::Result<(PartState, Elements)> {
        match self.ask(Request::Content(keys, part))? {
            Reply::Content(state, elements) => Ok((state, elements)),
            reply => panic!("{reply:?}"),
        }
    }
}

impl TimeSteps for Replay<'_> {
    type Act = Act;
    type Answer = bool;

    fn layout(&self) -> TimeLayout {
        LAYOUT
    }

    fn lost_roots(&self) -> u64 {
        0
    }

    fn horizon(&self) -> crate::Result<Option<TimeBucket>> {
        match self.ask(Request::Horizon)? {
            Reply::Horizon(horizon) => Ok(horizon),
            reply => panic!("{reply:?}"),
        }
    }

    fn root(&self) -> crate::Result<RootState> {
        match self.ask(Request::Root)? {
            Reply::Root(root) => Ok(root),
            reply => panic!("{reply:?}"),
        }
    }

    fn begin(&self, root: &RootState, after: Epoch) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Begin(root.clone(), after))
    }

    fn mark_deleting(&self, root: &RootState) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::MarkDeleting(root.clone()))
    }

    fn clear(&self, root: &RootState) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Clear(root.clone()))
    }

    fn look(&self, keys: KeyForm, part: CollectionPart) -> crate::Result<PartState> {
        match self.ask(Request::Look(keys, part))? {
            Reply::State(state) => Ok(state),
            reply => panic!("{reply:?}"),
        }
    }

    fn place(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
    ) -> crate::Result<Option<CompanionToken>> {
        let token = CompanionToken(self.token.get());
        self.token.set(token.0 + 1);
        match self.ask(Request::Place(route, part, token))? {
            Reply::Placed(token) => Ok(token),
            reply => panic!("{reply:?}"),
        }
    }

    fn open(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Open(route, part, token))
    }

    fn displace(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        token: CompanionToken,
    ) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Displace(route, part, token))
    }

    fn delete(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
    ) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Delete(route, part))
    }

    fn enter(
        &self,
        route: CompanionRoute,
        page: DirectoryPage,
        entry: i64,
    ) -> crate::Result<StepOutcome<()>> {
        self.outcome(Request::Enter(route, page, entry))
    }

    fn entries(
        &self,
        keys: KeyForm,
        page: DirectoryPage,
        range: PageRange,
    ) -> crate::Result<(PartState, Vec<i64>)> {
        match self.ask(Request::Entries(keys, page, range))? {
            Reply::Entries(state, entries) => Ok((state, entries)),
            reply => panic!("{reply:?}"),
        }
    }

    fn act(
        &self,
        route: CompanionRoute,
        part: CollectionPart,
        act: &Act,
    ) -> crate::Result<StepOutcome<bool>> {
        match self.ask(Request::Act(route, part, *act))? {
            Reply::Answer(answer) => Ok(answer),
            reply => panic!("{reply:?}"),
        }
    }

    fn obstacle(&self) -> Error {
        panic!("no root has such a bin");
    }

    fn restless(&self) -> Error {
        panic!("it comes to no end");
    }

    fn begin_attempt(&self, remembered: impl FnOnce() -> Option<CompanionRoute>) {
        self.attempt.set(Attempt {
            replies: self.next.get(),
            remembered: remembered(),
            token: self.token.get(),
        });
    }
}
