//! The steps of a call, answered from a list of replies.

use std::cell::{Cell, RefCell};

use super::store::{LAYOUT, Reply, Request, TimeHole, TimeStore, TinyTime, bin};
use crate::record::BinName;
use crate::shard::protocol::{
    AtomicRequest, CompanionRoute, CompanionToken, RecordRef, RequestReply,
};
use crate::shard::time::calendar::TimeBucket;
use crate::shard::time::layout::{CollectionPart, TimeLayout};
use crate::shard::time::steps::TimeSteps;
use crate::{Error, Expiration};

/// The most steps that a process alone takes.
const STEPS_ALONE_MAX: usize = 400;

/// The steps of one call: answered by earlier replies, or by a store at once.
pub(super) struct Replay<'a> {
    pub(super) replies: &'a [Reply],
    pub(super) next: Cell<usize>,
    pub(super) pending: RefCell<Option<Request>>,
    pub(super) at_once: Option<(RefCell<&'a mut TimeStore>, Option<TimeHole>)>,
    /// The token of the next placing.
    pub(super) token: Cell<u64>,
    /// Where the call began again: after how many replies, with which route and which token.
    pub(super) attempt: Cell<Trial>,
}

/// What a call that begins, or begins again, depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Trial {
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
}

impl TimeSteps for Replay<'_> {
    type Kind = TinyTime;

    fn layout(&self) -> TimeLayout {
        LAYOUT
    }

    fn bin(&self) -> BinName {
        bin()
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

    /// The clock does not move: the epochs alone must do.
    fn now_us(&self) -> u64 {
        0
    }

    fn token(&self) -> CompanionToken {
        let token = self.token.get();
        self.token.set(token + 1);
        CompanionToken(token)
    }

    fn expiration(&self, _: CollectionPart) -> Expiration {
        Expiration::Never
    }

    fn execute(&self, request: &AtomicRequest<TinyTime>) -> crate::Result<RequestReply<TinyTime>> {
        match self.ask(Request::Step(request.clone()))? {
            Reply::Step(reply) => Ok(reply),
            reply => panic!("{reply:?}"),
        }
    }

    fn collision(&self, record: RecordRef) -> Error {
        panic!("{record:?} belongs to something else");
    }

    fn restless(&self) -> Error {
        panic!("it comes to no end");
    }

    fn begin_attempt(&self, remembered: impl FnOnce() -> Option<CompanionRoute>) {
        self.attempt.set(Trial {
            replies: self.next.get(),
            remembered: remembered(),
            token: self.token.get(),
        });
    }
}
