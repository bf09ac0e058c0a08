//! Drives the machines over a set of records, for lists, maps and counters alike.

mod transitions;

use std::ops::ControlFlow;

use super::auto_shard::{AutoSharder, NextStep, note_obstacle};
use super::content::{Act, ActReply, ActValues, Bin};
use super::executor::Executor;
use super::policy::ShardPolicy;
use super::protocol::view::{PATIENCE, RecordsView, Rejection, Survey, SurveyResult, ViewRecord};
use super::protocol::write::ElementWrite;
use super::protocol::{
    AtomicRequest, CollectionRoot, CompanionRoute, Failure, Machine, MachineProgress, Read,
    RecordRef, RequestReply, RouteHint, TransitionProgress,
};
use super::request_runner::{ROOT_READS_MAX, ReadFailure, token};
use super::route_cache::RouteCache;
use super::scheme::Scheme;
use super::state::under_way;
use crate::engine::TransitionReport;
use crate::record::ShardTransition;
use crate::record::companion_key::text;
use crate::{Error, Key, RecordSet, Result};

/// How often one write may shard its collection further before it fails.
const TRANSITIONS_MAX: u32 = 8;

/// A collection that may be sharded.
#[derive(Debug)]
pub(crate) struct Handle<R> {
    records: R,
    executor: Executor,
    /// Where the collection was at the last call.
    routes: RouteCache,
    auto_sharder: AutoSharder,
}

/// The result of a read of several records.
pub(crate) type ShardedReading<T> = std::result::Result<T, ReadFailure<Rejection>>;

impl<R: RecordSet> Handle<R> {
    pub(crate) fn new(records: R, executor: Executor) -> Self {
        Self {
            auto_sharder: AutoSharder::new(ShardPolicy::default(), &records),
            records,
            executor,
            routes: RouteCache::default(),
        }
    }

    /// Sets the policy by which the collection is sharded from now on.
    pub(crate) fn set_policy(&mut self, policy: ShardPolicy) {
        self.auto_sharder = AutoSharder::new(policy, &self.records);
    }

    pub(crate) fn key(&self) -> &Key<'static> {
        &self.executor.key
    }

    pub(crate) fn bin(&self) -> &str {
        self.executor.bin.as_str()
    }

    /// Returns where the collection was at the last call; `Unknown` if a root was lost since, which
    /// may have been this one.
    fn remembered(&self) -> RouteHint {
        self.routes.recall(self.records.lost_roots())
    }

    /// Remembers the findings of a call that began at this count of lost roots.
    fn remember(&self, learned: RouteHint, lost_roots: u64) {
        if self.routes.learn(learned, lost_roots) {
            self.executor.forget_companions();
            if learned.route().is_none() {
                self.auto_sharder.found_unsharded();
            }
        }
    }

    /// Writes to the record in which the element of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// As for the operations, [`Error::ShardMissing`], [`Error::ShardScheme`],
    /// [`Error::ShardKeyCollision`].
    pub(crate) fn write(&self, hash: u64, act: Act) -> Result<Option<ActValues>> {
        let collection = self.executor.collection;
        let mut transitions = 0;
        loop {
            // Before the look at the root: where that is lost behind the look, the next call must
            // look again.
            let lost_roots = self.records.lost_roots();
            let machine = ElementWrite::new(hash, act.clone(), self.remembered(), token());
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
                        && let Err(in_the_way) = self.follow(route, step, hash, reply.record_bytes)
                    {
                        // The write itself is done.
                        self.leave(route, step, &in_the_way);
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

    /// Pauses automatic transitions of the handle, and notes the obstacle.
    fn leave(&self, route: Option<CompanionRoute>, step: NextStep, in_the_way: &Error) {
        self.auto_sharder.pause(&self.records);
        self.note_obstacle(route, step, &in_the_way.to_string());
    }

    /// Notes an obstacle to a transition, for `recent_transitions`.
    fn note_obstacle(&self, route: Option<CompanionRoute>, step: NextStep, in_the_way: &str) {
        let transition = match (step, route) {
            (NextStep::ReadShards(_), _) => ShardTransition::Merging,
            (_, Some(_)) => ShardTransition::Splitting,
            (_, None) => ShardTransition::Activating,
        };
        let shards = route.map_or(0, |route| route.shards);
        let at = (self.key(), self.bin());
        note_obstacle(&self.records, at, (transition, shards), in_the_way);
    }

    /// Reads the record in which the element of this hash lives. `None`: there is no record.
    ///
    /// # Errors
    /// As for [`Handle::write`].
    pub(crate) fn find(&self, hash: u64, act: Act) -> Result<Option<ActValues>> {
        let element = (hash, act);
        let answer = self.view(Some(&element), |pass| pass.ask_element(&element.1))?;
        Ok(answer.map(|answered| answered.values))
    }

    /// Reads the root.
    ///
    /// # Errors
    /// [`Error::ShardScheme`], and the errors of the store.
    pub(crate) fn root(&self) -> Result<CollectionRoot> {
        let read = AtomicRequest::read(RecordRef::Root, Read::State);
        match self.executor.run(&self.records, &read, &mut None)? {
            RequestReply::Done(seen) => Ok(seen.root),
            _ => Ok(CollectionRoot::default()),
        }
    }

    /// Reads the whole collection in the batches that `read` asks for. Calls it again with another
    /// view when one of the records has changed since the view was made.
    ///
    /// # Errors
    /// As for [`Handle::write`].
    pub(crate) fn read<T>(&self, read: impl FnMut(&Pass<'_, R>) -> ShardedReading<T>) -> Result<T> {
        self.view(None, read)
    }

    /// Whether an error came up because the store takes no writes: its last step of a deletion
    /// writes the root.
    fn takes_no_writes(&self, error: &Error) -> bool {
        matches!(error, Error::StopWrites { .. })
            || self.records.check_deletes(self.executor.policy()).is_err()
    }

    /// [`Handle::read`] of the whole collection, or of one `element`: its hash, and the act on its
    /// record.
    fn view<T>(
        &self,
        element: Option<&(u64, Act)>,
        mut read: impl FnMut(&Pass<'_, R>) -> ShardedReading<T>,
    ) -> Result<T> {
        let mut lost_roots = self.records.lost_roots();
        let (remembered, hash) = (self.remembered(), element.map(|(hash, _)| *hash));
        let mut surveyed = SurveyResult {
            view: RecordsView::remembered(remembered, hash),
            patience: PATIENCE,
            answer: None,
        };
        let survey = |refused: Option<Rejection>| {
            let survey = Survey::<Bin>::new(refused, element.cloned(), token());
            match self.run(survey.clone()) {
                Err(error) if self.takes_no_writes(&error) => self.run(survey.only_reading()),
                surveyed => surveyed,
            }
        };
        let mut learned = None;
        // One element is read in the root together with the description.
        if remembered == RouteHint::Unknown && element.is_some() {
            surveyed = survey(None)?;
            learned = Some(surveyed.view.root.route_hint());
        }
        for _ in 0..ROOT_READS_MAX {
            let pass = Pass {
                handle: self,
                surveyed: &surveyed,
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
                    surveyed = survey(Some(refused))?;
                    learned = Some(surveyed.view.root.route_hint());
                }
            }
        }
        Err(self.executor.restless())
    }

    fn run<M: Machine<Bin>>(&self, machine: M) -> Result<M::Outcome> {
        self.drive(machine, &mut |_, _| ControlFlow::Continue(()))?
            .ok_or_else(|| self.executor.restless())
    }

    fn drive<M: Machine<Bin>>(
        &self,
        mut machine: M,
        observe: &mut dyn FnMut(Scheme, TransitionProgress) -> ControlFlow<()>,
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
            if request.place == RecordRef::Root {
                root_reads += 1;
                if root_reads > ROOT_READS_MAX {
                    return Err(self.executor.restless());
                }
            }
            let reply = self
                .executor
                .run(&self.records, &request, &mut busy_since)?;
            match machine.resume(reply) {
                MachineProgress::Next(next) => machine = next,
                MachineProgress::Done(outcome) => {
                    self.note_transition(observed, None);
                    return Ok(Some(outcome));
                }
                MachineProgress::Failed(failure) => return Err(self.failed(failure)),
            }
        }
    }

    /// Notes the end of the transition before, if it has ended, and the present one.
    fn note_transition(
        &self,
        before: Option<(Scheme, TransitionProgress)>,
        now: Option<(Scheme, TransitionProgress)>,
    ) {
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
                    done: if ended { done.total } else { done.done },
                    total: done.total,
                    ended,
                    refused: None,
                });
            }
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
                key: text(&self.executor.key_of(RecordRef::Companion(keys, shard))),
            },
            Failure::NoBin(_) => Error::bin_not_found(self.bin()),
            Failure::NotApplicable(scheme) => Error::not_applicable(
                format!("the collection of {} is {scheme}{}", text(root), remedy(scheme)).into(),
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

/// Returns advice for a caller that asked for a split or merge that does not apply.
const fn remedy(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Unsharded => ": activate it first",
        Scheme::Active { shards: 1 } => {
            ", which cannot be merged: deactivate it to have it in one record"
        }
        Scheme::Active { .. } => ", and there can be no more: keep a part of it under another key",
        _ => ": try again when that is over",
    }
}

/// Reads of the records of one view.
#[derive(Debug)]
pub(crate) struct Pass<'a, R> {
    handle: &'a Handle<R>,
    surveyed: &'a SurveyResult<ActReply>,
}

impl<R: RecordSet> Pass<'_, R> {
    /// The bin of the collection.
    pub(crate) fn bin(&self) -> &str {
        self.handle.bin()
    }

    /// Returns how many records the view has.
    pub(crate) fn sources(&self) -> usize {
        self.surveyed.view.sources.len()
    }

    /// Reads from each of these records, in one batch. `None`: there is no record.
    ///
    /// # Errors
    /// [`ReadFailure::Stale`] if the view does not hold any more.
    pub(crate) fn ask(&self, acts: Vec<(usize, Act)>) -> ShardedReading<Vec<Option<ActValues>>> {
        let (sources, requests): (Vec<&ViewRecord>, Vec<_>) = acts
            .into_iter()
            .filter_map(|(source, act)| {
                let source = self.surveyed.view.sources.get(source)?;
                Some((source, source.read(act)))
            })
            .unzip();
        let handle = self.handle;
        let replies = handle.executor.run_each(&handle.records, &requests);
        sources
            .into_iter()
            .zip(replies)
            .map(|(source, reply)| {
                let answered = self.accept(source, reply?)?;
                Ok(answered.map(|answered| answered.values))
            })
            .collect()
    }

    /// Reads from the record of the one element of the view. `None`: there is no record.
    fn ask_element(&self, act: &Act) -> ShardedReading<Option<ActReply>> {
        match (&self.surveyed.answer, &self.surveyed.view.sources[..]) {
            (Some(answer), _) => Ok(answer.clone()),
            (None, [source, ..]) => {
                let (handle, request) = (self.handle, source.read(act.clone()));
                let reply = handle.executor.run(&handle.records, &request, &mut None)?;
                self.accept(source, reply)
            }
            (None, []) => Ok(None),
        }
    }

    fn accept(
        &self,
        source: &ViewRecord,
        reply: RequestReply<Bin>,
    ) -> ShardedReading<Option<ActReply>> {
        source.accept(reply).map_err(|failure| {
            ReadFailure::Stale(Rejection {
                root: self.surveyed.view.root.clone(),
                failure,
                patience: self.surveyed.patience.saturating_sub(1),
            })
        })
    }

    /// Reads the same from every record of the view.
    ///
    /// # Errors
    /// As for [`Pass::ask`].
    pub(crate) fn ask_all(&self, act: &Act) -> ShardedReading<Vec<Option<ActValues>>> {
        self.ask(
            (0..self.sources())
                .map(|source| (source, act.clone()))
                .collect(),
        )
    }
}
