//! Drives the machines over a set of records: what lists, maps and counters have in common.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::arithmetic::SHARDS_MAX;
use super::content::{Act, Answer, Bin, Collection};
use super::lower::Lowering;
use super::policy::ShardPolicy;
use super::protocol::begin::{Begin, Goal};
use super::protocol::find::Find;
use super::protocol::view::{PATIENCE, Refused, Source, Survey, View};
use super::protocol::write::Write;
use super::protocol::{
    Ask, Done, Edit, Failure, Machine, Place, Progress, Remembered, Reply, Request, Root, Route,
    Seen, Token,
};
use super::route::text;
use super::route_memory::RouteMemory;
use super::scheme::{SHARD_OF, Scheme, check_bin};
use super::state::{ShardProgress, ShardState};
use super::watch::Watch;
use crate::operations::get_bin;
use crate::record::BinName;
use crate::{Error, Key, RecordCall, RecordSet, Result, WritePolicy};

/// How often one call may look at the root again. Each time another transition has passed in between, or a reader has lost
/// patience: beyond this, somebody starts transitions without end.
const ROOT_READS_MAX: u32 = 1_000;

/// How long to wait before a record that is fought over is tried again.
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// How often one write may spread its collection further before it is refused after all.
const SPREADS_MAX: u32 = 8;

/// Tokens are positive integers.
const TOKEN_BITS: u64 = (1 << 62) - 1;

thread_local! {
    static TOKENS: Cell<u64> = Cell::new(random());
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A random one, with room behind it for as many runs of helping as there may be within one call. A thread counts for itself:
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
    lowering: Lowering,
    /// Where the collection was at the last call.
    memory: RouteMemory,
    watch: Watch,
}

/// What a read of several records has come to.
#[derive(Debug)]
pub(crate) enum Unread {
    /// A record is not any more what the view says: make another view.
    Stale(Refused),
    /// It cannot be read.
    Failed(Error),
}

/// A read of several records.
pub(crate) type Reading<T> = std::result::Result<T, Unread>;

impl From<Error> for Unread {
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
            watch: Watch::new(ShardPolicy::default(), &records),
            records,
            lowering: Lowering::new(key, bin, collection, policy),
            memory: RouteMemory::default(),
        })
    }

    /// By this policy from now on.
    pub(crate) fn set_policy(&mut self, policy: ShardPolicy) {
        self.watch = Watch::new(policy, &self.records);
    }

    pub(crate) fn key(&self) -> &Key<'static> {
        &self.lowering.key
    }

    pub(crate) fn bin(&self) -> &str {
        self.lowering.bin.as_str()
    }

    /// Where the collection was at the last call, unless a root has been lost since: that may have been this one.
    fn remembered(&self) -> Remembered {
        self.memory.recall(self.records.lost_roots())
    }

    /// Remembers what was learned by a call that began at this count of lost roots.
    fn remember(&self, learned: Remembered, lost_roots: u64) {
        if self.memory.learn(learned, lost_roots) {
            self.lowering.forget_companions();
        }
    }

    /// Does something with the record in which the child of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// Those of the operations, [`Error::ShardMissing`], [`Error::ShardScheme`], [`Error::ShardKeyCollision`].
    pub(crate) fn write(&self, hash: u64, act: Act) -> Result<Option<Answer>> {
        let collection = self.lowering.collection;
        let mut spreads = 0;
        loop {
            let lost_roots = self.records.lost_roots();
            let machine = Write::new(hash, act.clone(), self.remembered(), token());
            match self.run(machine) {
                Ok(did) => {
                    self.remember(did.remembered, lost_roots);
                    let route = did.remembered.route();
                    if let Some(answered) = &did.answer
                        && let Some(shards) = self.watch.wrote(
                            &self.records,
                            self.key(),
                            collection,
                            route,
                            &act,
                            answered,
                        )
                        && self.spread(route, shards).is_err()
                    {
                        // The write itself is done. What is in the way is told once the record is full.
                        self.watch.pause(&self.records);
                    }
                    return Ok(did.answer.map(|answered| answered.values));
                }
                Err(refused) => {
                    let route = self.remembered().route();
                    let Some(shards) = self.watch.refused(&self.records, route, &refused) else {
                        return Err(refused);
                    };
                    spreads += 1;
                    if spreads > SPREADS_MAX {
                        return Err(refused);
                    }
                    // And then it is tried again, on its shard.
                    if let Err(in_the_way) = self.spread(route, shards) {
                        return Err(match refused {
                            // There is no other way for this write.
                            Error::RecordTooBig { .. } => in_the_way,
                            refused => {
                                self.watch.pause(&self.records);
                                refused
                            }
                        });
                    }
                }
            }
        }
    }

    /// Spreads the collection, or splits its shards once, if it is still as this route says.
    fn spread(&self, route: Option<Route>, shards: u64) -> Result<()> {
        let lost_roots = self.records.lost_roots();
        let now_us = self.records.now_ms().saturating_mul(1_000);
        let begin = match route {
            None => {
                self.check_content(Goal::Activate(shards))?;
                Begin::new(Goal::Activate(shards), now_us, token())
            }
            Some(route) => Begin::split_to(route.shards * 2, now_us, token()),
        };
        let root = self.run(begin)?;
        self.remember(Remembered::of(&root), lost_roots);
        Ok(())
    }

    /// Reads something of the record in which the child of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// As for [`Handle::write`].
    pub(crate) fn find(&self, hash: u64, act: Act) -> Result<Option<Answer>> {
        let lost_roots = self.records.lost_roots();
        let machine = Find::new(hash, act, self.remembered(), token());
        let did = self.run(machine)?;
        self.remember(did.remembered, lost_roots);
        Ok(did.answer.map(|answered| answered.values))
    }

    /// Carries a transition from its beginning to its end. `observe` sees how far it has come, and may stop it at each
    /// companion: whoever comes next resumes it. The outcome is the root as it was seen last; `None`: it was stopped.
    ///
    /// # Errors
    /// As for [`Handle::write`], and [`Error::OpNotApplicable`].
    pub(crate) fn transition(
        &self,
        goal: Goal,
        observe: &mut dyn FnMut(Scheme, Done) -> ControlFlow<()>,
    ) -> Result<Option<Root>> {
        let lost_roots = self.records.lost_roots();
        let now_us = self.records.now_ms().saturating_mul(1_000);
        let root = self.drive(Begin::new(goal, now_us, token()), observe)?;
        if let Some(root) = &root {
            self.remember(Remembered::of(root), lost_roots);
        }
        Ok(root)
    }

    /// [`Handle::transition`], as handles offer it.
    ///
    /// # Errors
    /// As for [`Handle::transition`].
    pub(crate) fn change(
        &self,
        goal: Goal,
        mut observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.check_content(goal)?;
        if matches!(goal, Goal::Merge | Goal::Demote) {
            self.check_room(goal)?;
        }
        let root = self.transition(goal, &mut |scheme, done| {
            ShardProgress::of(scheme, done).map_or(ControlFlow::Continue(()), &mut observe)
        })?;
        let root = root.map_or_else(|| self.root(), Ok)?;
        Ok(ShardState::of(&root))
    }

    /// Refuses to begin what could not be ended: others may have made the bin, of another type, or with elements that have
    /// no shard.
    fn check_content(&self, goal: Goal) -> Result<()> {
        match (goal, Route::of(&self.root()?)) {
            (Goal::Activate(_), None) => {
                let whole = self.execute(&Request::read(Place::Root, Ask::Content), &mut None)?;
                match whole {
                    Reply::Done(Seen {
                        content: Some(content),
                        ..
                    }) => content.check(),
                    _ => Ok(()),
                }
            }
            (Goal::Split | Goal::Merge | Goal::Demote, Some(route)) => {
                let first = Place::Companion(route.keys, 0);
                self.execute(&Request::read(first, Ask::State), &mut None)
                    .map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Refuses to bring together what one record cannot hold: begun, it could not be ended, and writers would wait for it.
    /// An eighth of the limit is left for what is added meanwhile.
    fn check_room(&self, goal: Goal) -> Result<()> {
        let (Some(limit), Some(route)) =
            (self.records.max_record_bytes(), Route::of(&self.root()?))
        else {
            return Ok(());
        };
        let policy = WritePolicy::default();
        let places = (0..route.shards).map(|shard| Place::Companion(route.keys, shard));
        // Whatever it is: what counts is what the record takes.
        let something = [get_bin(SHARD_OF)];
        let calls: Vec<_> = places
            .chain([Place::Root])
            .map(|place| RecordCall {
                policy: &policy,
                key: self.lowering.key_of(place),
                operations: &something,
            })
            .collect();
        let mut sizes = Vec::with_capacity(calls.len());
        for operated in self.records.operate_on_each(&calls) {
            sizes.push(match operated {
                Ok(operated) => operated.record_bytes,
                // What is missing is told by the transition.
                Err(Error::NotFound { .. }) => 0,
                Err(error) => return Err(error),
            });
        }
        let root = sizes.pop().unwrap_or_default();
        let together = match goal {
            Goal::Merge => {
                let (low, high) = sizes.split_at(sizes.len() / 2);
                low.iter().zip(high).map(|(a, b)| a + b).max()
            }
            _ => Some(sizes.iter().sum::<u64>() + root),
        };
        match together {
            Some(size) if size > limit - limit / 8 => Err(Error::RecordTooBig {
                size,
                limit,
                largest_bin: None,
                record: None,
            }),
            _ => Ok(()),
        }
    }

    /// [`Handle::change`] to so many companions.
    ///
    /// # Errors
    /// As for [`Handle::change`]; [`Error::Parameter`] for a number that is no power of two, or too great.
    pub(crate) fn activate(
        &self,
        shards: u64,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        if !shards.is_power_of_two() || shards > SHARDS_MAX {
            return Err(Error::parameter(format!(
                "{shards} shards: the number must be a power of two up to {SHARDS_MAX}"
            )));
        }
        self.change(Goal::Activate(shards), observe)
    }

    /// Carries a transition that somebody has left to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for [`Handle::transition`].
    pub(crate) fn help(&self) -> Result<bool> {
        let mut helped = false;
        self.transition(Goal::Help, &mut |_, _| {
            helped = true;
            ControlFlow::Continue(())
        })?;
        Ok(helped)
    }

    /// The root as it is.
    ///
    /// # Errors
    /// [`Error::ShardScheme`], and those of the store.
    pub(crate) fn root(&self) -> Result<Root> {
        match self.execute(&Request::read(Place::Root, Ask::State), &mut None)? {
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
            Remembered::Sharded(route) => View::remembered(route),
            Remembered::Nothing | Remembered::Whole(_) => View {
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
                Err(Unread::Failed(error)) => return Err(error),
                Err(Unread::Stale(refused)) => {
                    lost_roots = self.records.lost_roots();
                    let surveyed = self.run(Survey::new(Some(refused), token()))?;
                    (view, patience) = (surveyed.view, surveyed.patience);
                    learned = Some(Remembered::of(&view.root));
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
                Progress::Done(outcome) => return Ok(Some(outcome)),
                Progress::Failed(failure) => return Err(self.failed(failure)),
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
        let lowered = self.lowering.lower(request);
        loop {
            let operated =
                self.records
                    .operate_on(&lowered.policy, &lowered.key, &lowered.operations);
            match operated {
                Err(Error::KeyBusy { .. })
                    if !matches!(request.edit, Edit::User(_))
                        && lowered.policy.total_timeout.is_none_or(|limit| {
                            busy_since.get_or_insert_with(Instant::now).elapsed() < limit
                        }) =>
                {
                    std::thread::sleep(BUSY_PAUSE);
                }
                operated => return self.lowering.raise(request, &lowered, operated),
            }
        }
    }

    fn restless(&self) -> Error {
        Error::Timeout {
            after: self
                .lowering
                .policy()
                .total_timeout
                .unwrap_or(Duration::ZERO),
            in_doubt: false,
            record: None,
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        let root = &self.lowering.key;
        match failure {
            Failure::Missing(shard) => Error::ShardMissing {
                key: text(root),
                shard,
            },
            Failure::Collision(keys, shard) => Error::ShardKeyCollision {
                key: text(&self.lowering.key_of(Place::Companion(keys, shard))),
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
                     save what is in that bin, and remove it, before the collection is brought back",
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

    /// Whether the collection is in the root, whose bin others may have made.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.view.sources[..], [Source::Root])
    }

    /// Reads something of each of these records, in one batch. `None`: there is no record.
    ///
    /// # Errors
    /// [`Unread::Stale`] if the view does not hold any more.
    pub(crate) fn ask(&self, acts: Vec<(usize, Act)>) -> Reading<Vec<Option<Answer>>> {
        let lowering = &self.handle.lowering;
        let asked: Vec<_> = acts
            .into_iter()
            .filter_map(|(source, act)| {
                let source = self.view.sources.get(source)?;
                Some((source, Request::read(source.place(), Ask::User(act))))
            })
            .collect();
        let lowered: Vec<_> = asked
            .iter()
            .map(|(_, request)| lowering.lower(request))
            .collect();
        let calls: Vec<_> = lowered
            .iter()
            .map(|lowered| RecordCall {
                policy: &lowered.policy,
                key: Key::from(&lowered.key),
                operations: &lowered.operations,
            })
            .collect();
        let operated = self.handle.records.operate_on_each(&calls);
        asked
            .iter()
            .zip(&lowered)
            .zip(operated)
            .map(|(((source, request), lowered), operated)| {
                let reply = lowering.raise(request, lowered, operated)?;
                let answered = source.accept(reply).map_err(|failure| {
                    Unread::Stale(Refused {
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
