//! Drives the machines over a set of records: what lists, maps and counters have in common.

mod transitions;

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::auto_shard::AutoSharder;
use super::content::{Act, Answer, Bin, Collection};
use super::executor::Executor;
use super::policy::ShardPolicy;
use super::protocol::lookup::Lookup;
use super::protocol::view::{PATIENCE, Rejection, Source, Survey, View};
use super::protocol::write::Write;
use super::protocol::{
    Done, Edit, Failure, Machine, Place, Progress, Read, Reply, Request, Root, RouteHint, Token,
};
use super::route::text;
use super::route_memory::RouteMemory;
use super::scheme::{Scheme, check_bin};
use super::state::under_way;
use crate::engine::TransitionReport;
use crate::record::BinName;
use crate::{Error, Key, RecordCall, RecordSet, Result, WritePolicy};

/// How often one call may look at the root again. Each time another transition has passed in between, or a reader has lost
/// patience: beyond this, somebody starts transitions without end.
const ROOT_READS_MAX: u32 = 1_000;

/// How long to wait before a record that is fought over is tried again.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// How often one write may shard its collection further before it is refused after all.
const TRANSITIONS_MAX: u32 = 8;

/// Tokens are positive integers.
const TOKEN_BITS: u64 = (1 << 62) - 1;

thread_local! {
    static TOKENS: Cell<u64> = Cell::new(random());
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A random one, with room behind it for as many machines that advance a transition as there may be within one call. A thread counts for itself:
/// every call takes one, and few need it.
fn token() -> Token {
    let token =
        TOKENS.try_with(|next| next.replace(next.get().wrapping_add(ROOT_READS_MAX.into())));
    // A thread that is ending has no counter any more.
    Token(1 + (token.unwrap_or_else(|_| random()) & TOKEN_BITS))
}

/// A collection that may be sharded.
#[derive(Debug)]
pub(crate) struct Handle<R> {
    records: R,
    executor: Executor,
    /// Where the collection was at the last call.
    memory: RouteMemory,
    auto_sharder: AutoSharder,
}

/// What a read of several records has come to.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// A record is not any more what the view says: make another view.
    Stale(Rejection),
    /// It cannot be read.
    Failed(Error),
}

/// A read of several records.
pub(crate) type Reading<T> = std::result::Result<T, ReadFailure>;

impl From<Error> for ReadFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<R: RecordSet> Handle<R> {
    /// `policy`: its existence action, generation and filter do not count.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a bin that describes shards, [`Error::BinName`].
    pub(crate) fn new(
        records: R,
        key: Key<'static>,
        bin: &str,
        collection: Collection,
        policy: &WritePolicy,
    ) -> Result<Self> {
        check_bin(bin)?;
        let bin = BinName::new(bin)?;
        Ok(Self {
            auto_sharder: AutoSharder::new(ShardPolicy::default(), &records),
            records,
            executor: Executor::new(key, bin, collection, policy),
            memory: RouteMemory::default(),
        })
    }

    /// By this policy from now on.
    pub(crate) fn set_policy(&mut self, policy: ShardPolicy) {
        self.auto_sharder = AutoSharder::new(policy, &self.records);
    }

    pub(crate) fn key(&self) -> &Key<'static> {
        &self.executor.key
    }

    pub(crate) fn bin(&self) -> &str {
        self.executor.bin.as_str()
    }

    /// Where the collection was at the last call, unless a root has been lost since: that may have been this one.
    fn remembered(&self) -> RouteHint {
        self.memory.recall(self.records.lost_roots())
    }

    /// Remembers what was learned by a call that began at this count of lost roots.
    fn remember(&self, learned: RouteHint, lost_roots: u64) {
        if self.memory.learn(learned, lost_roots) {
            self.executor.forget_companions();
            if learned.route().is_none() {
                self.auto_sharder.found_unsharded();
            }
        }
    }

    /// Does something with the record in which the child of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// Those of the operations, [`Error::ShardMissing`], [`Error::ShardScheme`], [`Error::ShardKeyCollision`].
    pub(crate) fn write(&self, hash: u64, act: Act) -> Result<Option<Answer>> {
        let collection = self.executor.collection;
        let mut transitions = 0;
        loop {
            let lost_roots = self.records.lost_roots();
            let machine = Write::new(hash, act.clone(), self.remembered(), token());
            match self.run(machine) {
                Ok(did) => {
                    self.remember(did.remembered, lost_roots);
                    let route = did.remembered.route();
                    if let Some(reply) = &did.answer
                        && let Some(step) = self.auto_sharder.after_write(
                            &self.records,
                            self.key(),
                            collection,
                            route,
                            &act,
                            reply,
                        )
                        && self.follow(route, step).is_err()
                    {
                        // The write itself is done. What is in the way is told once the record is full.
                        self.auto_sharder.pause(&self.records);
                    }
                    return Ok(did.answer.map(|answered| answered.values));
                }
                Err(refused) => {
                    transitions += 1;
                    if transitions > TRANSITIONS_MAX {
                        return Err(refused);
                    }
                    // Then it is tried again, on its shard.
                    self.make_way(refused)?;
                }
            }
        }
    }

    /// Reads something of the record in which the child of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// As for [`Handle::write`].
    pub(crate) fn find(&self, hash: u64, act: Act) -> Result<Option<Answer>> {
        let lost_roots = self.records.lost_roots();
        let machine = Lookup::new(hash, act, self.remembered(), token());
        let did = self.run(machine)?;
        self.remember(did.remembered, lost_roots);
        Ok(did.answer.map(|answered| answered.values))
    }

    /// The root as it is.
    ///
    /// # Errors
    /// [`Error::ShardScheme`], and those of the store.
    pub(crate) fn root(&self) -> Result<Root> {
        match self.execute(&Request::read(Place::Root, Read::State), &mut None)? {
            Reply::Done(seen) => Ok(seen.root),
            _ => Ok(Root::default()),
        }
    }

    /// Reads the whole collection by as many batches as `read` likes. It is called again with another view when one of
    /// the records is not any more what the view says.
    ///
    /// # Errors
    /// As for [`Handle::write`].
    pub(crate) fn read<T>(&self, mut read: impl FnMut(&Pass<'_, R>) -> Reading<T>) -> Result<T> {
        let mut lost_roots = self.records.lost_roots();
        let mut patience = PATIENCE;
        let mut view = match self.remembered() {
            RouteHint::Sharded(route) => View::remembered(route),
            RouteHint::Unknown | RouteHint::Unsharded(_) => View {
                root: Root::default(),
                sources: vec![Source::Root],
            },
        };
        let mut learned = None;
        for _ in 0..ROOT_READS_MAX {
            let pass = Pass {
                handle: self,
                view: &view,
                patience,
            };
            match read(&pass) {
                Ok(read) => {
                    if let Some(learned) = learned {
                        self.remember(learned, lost_roots);
                    }
                    return Ok(read);
                }
                Err(ReadFailure::Failed(error)) => return Err(error),
                Err(ReadFailure::Stale(refused)) => {
                    lost_roots = self.records.lost_roots();
                    let surveyed = self.run(Survey::new(Some(refused), token()))?;
                    (view, patience) = (surveyed.view, surveyed.patience);
                    learned = Some(RouteHint::of(&view.root));
                }
            }
        }
        Err(self.restless())
    }

    fn run<M: Machine<Bin>>(&self, machine: M) -> Result<M::Outcome> {
        self.drive(machine, &mut |_, _| ControlFlow::Continue(()))?
            .ok_or_else(|| self.restless())
    }

    fn drive<M: Machine<Bin>>(
        &self,
        mut machine: M,
        observe: &mut dyn FnMut(Scheme, Done) -> ControlFlow<()>,
    ) -> Result<Option<M::Outcome>> {
        let mut busy_since = None;
        let mut observed = None;
        let mut root_reads = 0;
        loop {
            let transition = machine.transition();
            if transition != observed {
                self.note_transition(observed, transition);
                observed = transition;
                if let Some((scheme, done)) = transition
                    && observe(scheme, done).is_break()
                {
                    return Ok(None);
                }
            }
            let request = machine.request();
            if request.place == Place::Root {
                root_reads += 1;
                if root_reads > ROOT_READS_MAX {
                    return Err(self.restless());
                }
            }
            let reply = self.execute(&request, &mut busy_since)?;
            match machine.resume(reply) {
                Progress::Next(next) => machine = next,
                Progress::Done(outcome) => {
                    self.note_transition(observed, None);
                    return Ok(Some(outcome));
                }
                Progress::Failed(failure) => return Err(self.failed(failure)),
            }
        }
    }

    /// Tells those who watch the store what was under way, if that has ended, and what is.
    fn note_transition(&self, before: Option<(Scheme, Done)>, now: Option<(Scheme, Done)>) {
        let goes_on = |ended: Scheme| now.is_some_and(|(scheme, _)| scheme == ended);
        let ended = before.filter(|(scheme, _)| !goes_on(*scheme));
        for (seen, ended) in [(ended, true), (now, false)] {
            if let Some((scheme, done)) = seen
                && let (shards, Some(transition)) = under_way(scheme)
            {
                self.records.note_transition(&TransitionReport {
                    key: self.key(),
                    bin: self.bin(),
                    transition,
                    shards,
                    done: if ended { done.of } else { done.done },
                    total: done.of,
                    ended,
                });
            }
        }
    }

    /// One operation. A step of a transition that meets a record that is fought over is tried again until the policy's time
    /// has passed since the call met the first such one; a caller's own write is refused at once.
    fn execute(
        &self,
        request: &Request<Bin>,
        busy_since: &mut Option<Instant>,
    ) -> Result<Reply<Bin>> {
        let encoded = self.executor.encode_request(request);
        loop {
            let operated =
                self.records
                    .operate_on(&encoded.policy, &encoded.key, &encoded.operations);
            match operated {
                Err(Error::KeyBusy { .. })
                    if !matches!(request.edit, Edit::User(_))
                        && encoded.policy.total_timeout.is_none_or(|limit| {
                            busy_since.get_or_insert_with(Instant::now).elapsed() < limit
                        }) =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                operated => return self.executor.decode_reply(request, &encoded, operated),
            }
        }
    }

    fn restless(&self) -> Error {
        Error::Timeout {
            after: self
                .executor
                .policy()
                .total_timeout
                .unwrap_or(Duration::ZERO),
            in_doubt: false,
            record: None,
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        let root = &self.executor.key;
        match failure {
            Failure::Missing(shard) => Error::ShardMissing {
                key: text(root),
                shard,
            },
            Failure::Collision(keys, shard) => Error::ShardKeyCollision {
                key: text(&self.executor.key_of(Place::Companion(keys, shard))),
            },
            Failure::NoBin(_) => Error::bin_not_found(self.bin()),
            Failure::NotApplicable(scheme) => Error::not_applicable(
                format!("the collection of {} is {scheme}", text(root)).into(),
            ),
            Failure::OtherForm => Error::ShardScheme {
                found: format!("the record of {}", text(root)).into(),
                why: "another collection of it is sharded in a form of a newer version, which may have to be the only one: keep \
                      this one under another key",
            },
            Failure::Foreign => Error::not_applicable(
                format!(
                    "the record of {} has a bin \"{}\" that is not the collection, which is in its companions: \
                     save what is in that bin, and remove it, before the collection is deactivated",
                    text(root),
                    self.bin()
                )
                .into(),
            ),
        }
    }
}

/// Batches of reads of the records of one view.
#[derive(Debug)]
pub(crate) struct Pass<'a, R> {
    handle: &'a Handle<R>,
    view: &'a View,
    patience: u8,
}

impl<R: RecordSet> Pass<'_, R> {
    /// How many records the view has.
    pub(crate) fn sources(&self) -> usize {
        self.view.sources.len()
    }

    /// Reads something of each of these records, in one batch. `None`: there is no record.
    ///
    /// # Errors
    /// [`ReadFailure::Stale`] if the view does not hold any more.
    pub(crate) fn ask(&self, acts: Vec<(usize, Act)>) -> Reading<Vec<Option<Answer>>> {
        let executor = &self.handle.executor;
        let asked: Vec<_> = acts
            .into_iter()
            .filter_map(|(source, act)| {
                let source = self.view.sources.get(source)?;
                Some((source, Request::read(source.place(), Read::User(act))))
            })
            .collect();
        let encoded: Vec<_> = asked
            .iter()
            .map(|(_, request)| executor.encode_request(request))
            .collect();
        let calls: Vec<_> = encoded
            .iter()
            .map(|encoded| RecordCall {
                policy: &encoded.policy,
                key: Key::from(&encoded.key),
                operations: &encoded.operations,
            })
            .collect();
        let operated = self.handle.records.operate_on_each(&calls);
        asked
            .iter()
            .zip(&encoded)
            .zip(operated)
            .map(|(((source, request), encoded), operated)| {
                let reply = executor.decode_reply(request, encoded, operated)?;
                let answered = source.accept(reply).map_err(|failure| {
                    ReadFailure::Stale(Rejection {
                        root: self.view.root.clone(),
                        failure,
                        patience: self.patience.saturating_sub(1),
                    })
                })?;
                Ok(answered.map(|answered| answered.values))
            })
            .collect()
    }

    /// The same question to every record.
    ///
    /// # Errors
    /// As for [`Pass::ask`].
    pub(crate) fn ask_all(&self, act: &Act) -> Reading<Vec<Option<Answer>>> {
        self.ask(
            (0..self.sources())
                .map(|source| (source, act.clone()))
                .collect(),
        )
    }
}
