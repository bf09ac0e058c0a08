//! Transitions of a handle's collection: requested ones and automatic ones.

use std::ops::ControlFlow;

use super::Handle;
use crate::error::if_there;
use crate::operations::{delete_bin, get_bin};
use crate::policy::RecordExistsAction;
use crate::record::Record;
use crate::shard::auto_shard::{NextStep, Relief};
use crate::shard::content::Content;
use crate::shard::element_hash::shard;
use crate::shard::policy::ShardReading;
use crate::shard::protocol::start::{Goal, Transition};
use crate::shard::protocol::{
    AtomicRequest, CollectionRoot, CompanionRoute, Observation, Read, RecordRef, RequestReply,
    TransitionProgress,
};
use crate::shard::request_runner::token;
use crate::shard::scheme::{SHARD_OF, SUBKEYS, Scheme};
use crate::shard::state::{ShardProgress, ShardState};
use crate::value::ParticleType;
use crate::{
    Error, Expiration, Key, OperateResult, Operation, RecordCall, RecordSet, Result, WritePolicy,
};

impl<R: RecordSet> Handle<R> {
    /// Carries out the policy's decision after a write of an element of this hash, to a record that
    /// has `record_bytes` now.
    ///
    /// # Errors
    /// As for [`Handle::transition`].
    pub(super) fn follow(
        &self,
        route: Option<CompanionRoute>,
        step: NextStep,
        hash: u64,
        record_bytes: u64,
    ) -> Result<()> {
        match step {
            NextStep::Shard(shards) => self.shard_further(route, shards),
            NextStep::ShardForSize(shards) => {
                let number = route.map_or(0, |route| shard(hash, route.shards));
                let relieves = self.auto_sharder.would_relieve(
                    &self.records,
                    (route, number),
                    record_bytes,
                    || self.read_content(route, number),
                )?;
                match relieves {
                    Relief::Some => self.shard_further(route, shards),
                    Relief::None => {
                        let why = "single elements take more room than a shard should have: no number of shards makes its record smaller";
                        self.note_obstacle(route, step, why);
                        Ok(())
                    }
                    Relief::NoneStill => Ok(()),
                }
            }
            NextStep::ReadShards(route) => self.merge_if_quiet(route),
            NextStep::LeaveExpiring => Err(Error::Forbidden(
                "its record is to expire, and those of a sharded collection do not: give it no time to live, or shard it by its handle"
                    .into(),
            )),
        }
    }

    /// Reads the content of a shard, or of the root where there are none.
    fn read_content(&self, route: Option<CompanionRoute>, number: u64) -> Result<Content> {
        let place = route.map_or(RecordRef::Root, |route| {
            RecordRef::Companion(route.keys, number)
        });
        let policy = WritePolicy::default();
        let read = [get_bin(self.bin())];
        let operated = self
            .records
            .operate_on(&policy, &self.executor.key_of(place), &read)?;
        let value = operated.value(0).cloned();
        self.executor.collection.content(self.bin(), value)
    }

    /// Activates the collection, or splits its shards once, if it is still as this route says.
    fn shard_further(&self, route: Option<CompanionRoute>, shards: u64) -> Result<()> {
        let goal = if route.is_some() {
            Goal::Split
        } else {
            Goal::Activate(shards)
        };
        if route.is_none() {
            self.check(goal)?;
        }
        self.transition(goal, route, &mut |_, _| ControlFlow::Continue(()))
            .map(drop)
    }

    /// Merges the shards of this route, or the last one into the root, if the collection has been
    /// quiet for long enough.
    fn merge_if_quiet(&self, route: CompanionRoute) -> Result<()> {
        let Some(readings) = self.read_shards(route)? else {
            return Ok(());
        };
        if !self
            .auto_sharder
            .should_merge(&self.records, route, readings)
        {
            return Ok(());
        }
        let goal = if route.shards == 1 {
            Goal::Deactivate
        } else {
            Goal::Merge
        };
        self.check(goal)?;
        self.transition(goal, Some(route), &mut |_, _| ControlFlow::Continue(()))?;
        self.auto_sharder.after_merge(&self.records, self.key());
        Ok(())
    }

    /// Reads the generation, size and element count of each companion of this route. `None`: it is
    /// not there. One companion alone goes back into the root, beside its other bins: it has their
    /// size, too.
    fn read_shards(&self, route: CompanionRoute) -> Result<Option<Vec<ShardReading>>> {
        let presence = [self.executor.collection.presence(self.bin())];
        let root = (route.shards == 1).then_some(RecordRef::Root);
        let operated = self.ask_each(companions(route).chain(root), &presence);
        let reading = |operated: OperateResult| ShardReading {
            generation: operated.generation,
            record_bytes: operated.record_bytes,
            elements: self.executor.collection.elements(operated.value(0)),
        };
        let readings = operated
            .into_iter()
            .map(|operated| Ok(if_there(operated)?.map(reading)));
        let readings: Option<Vec<ShardReading>> = readings.collect::<Result<_>>()?;
        Ok(readings.map(|mut readings| {
            if let ([companion, root], 1) = (&mut readings[..], route.shards) {
                companion.record_bytes += root.record_bytes;
                readings.truncate(1);
            }
            readings
        }))
    }

    /// Asks each of these records the same, in one batch.
    fn ask_each(
        &self,
        places: impl Iterator<Item = RecordRef>,
        operations: &[Operation],
    ) -> Vec<Result<OperateResult>> {
        let policy = WritePolicy::default();
        let call = |place| RecordCall {
            policy: &policy,
            key: self.executor.key_of(place),
            operations,
        };
        self.records
            .operate_on_each(&places.map(call).collect::<Vec<_>>())
    }

    /// Shards the collection further, for a write that was refused, if the policy says so.
    ///
    /// # Errors
    /// The refusal itself where shards would not help, or cannot be made. For a record that is too
    /// big, where only shards help, the error that prevented them.
    pub(super) fn make_way(&self, refused: Error) -> Result<()> {
        let route = self.remembered().route();
        let further = self
            .auto_sharder
            .after_refusal(&self.records, route, &refused);
        let Some(shards) = further else {
            return Err(refused);
        };
        if route.is_none() && self.root_expires()? {
            return Err(refused);
        }
        self.shard_further(route, shards).map_err(|in_the_way| {
            self.leave(route, NextStep::Shard(shards), &in_the_way);
            match refused {
                Error::RecordTooBig { .. } => in_the_way,
                refused => refused,
            }
        })
    }

    /// Returns whether the root is to expire, which it does no more once its collection is sharded.
    fn root_expires(&self) -> Result<bool> {
        let policy = WritePolicy::default();
        let look = [get_bin(SUBKEYS)];
        let root = if_there(self.records.operate_on(&policy, self.key(), &look))?;
        Ok(root.is_some_and(|root| root.void_time != 0))
    }

    /// Carries a transition from its beginning to its end; with `only_at`, nothing is begun if the
    /// collection has left this route. `observe` sees how far it has come, and may stop it at each
    /// companion, and the next caller resumes it. The outcome is the root as last read; `None`: it
    /// was stopped.
    ///
    /// # Errors
    /// As for [`Handle::write`], and [`Error::OpNotApplicable`].
    fn transition(
        &self,
        goal: Goal,
        only_at: Option<CompanionRoute>,
        observe: &mut dyn FnMut(Scheme, TransitionProgress) -> ControlFlow<()>,
    ) -> Result<Option<CollectionRoot>> {
        // Before the root is read: one that is lost later makes the route unknown again.
        let lost_roots = self.records.lost_roots();
        let now_us = self.records.now_ms().saturating_mul(1_000);
        let mut start = Transition::new(goal, now_us, token());
        if let Some(route) = only_at {
            start = start.only_at(route.epoch);
        }
        let root = self.drive(start, observe)?;
        if let Some(root) = &root {
            self.remember(root.route_hint(), lost_roots);
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
        self.check(goal)?;
        let root = self.transition(goal, None, &mut |scheme, done| {
            ShardProgress::of(scheme, done).map_or(ControlFlow::Continue(()), &mut observe)
        })?;
        let root = root.map_or_else(|| self.root(), Ok)?;
        Ok(ShardState::of(&root))
    }

    /// Refuses to delete the collection if it belongs to a relation, or, with `kind`, to be another
    /// collection than that has.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_owned(&self, kind: Option<ParticleType>) -> Result<()> {
        self.records.check_owned(self.bin(), kind)
    }

    /// Removes a collection that is in its record, as any write of a caller: the record goes with
    /// its last bin as its relations say.
    ///
    /// # Errors
    /// As for a write.
    pub(crate) fn clear_as_user(&self) -> Result<()> {
        let own = self.executor.policy();
        self.records.check_deletes(own)?;
        let policy = WritePolicy {
            record_exists_action: RecordExistsAction::UpdateOnly,
            expiration: Expiration::DontUpdate,
            total_timeout: own.total_timeout,
            durable_delete: own.durable_delete,
            filter: own.filter.clone(),
            ..WritePolicy::default()
        };
        let clear = [delete_bin(self.bin())];
        match self.records.operate_on(&policy, self.key(), &clear) {
            // A collection of the record is sharded.
            Err(Error::FilteredOut { .. }) => Ok(()),
            cleared => if_there(cleared).map(drop),
        }
    }

    /// Refuses to begin what could not be ended: the store may refuse deletes of companions, and
    /// others may have made the bin, of another type, with elements that have no shard, or that a
    /// move would change.
    fn check(&self, goal: Goal) -> Result<()> {
        if matches!(goal, Goal::Merge | Goal::Deactivate | Goal::Delete) {
            self.records.check_deletes(self.executor.policy())?;
        }
        if let Goal::Activate(_) = goal {
            self.check_owned(Some(self.executor.collection.particle_type()))?;
        }
        let route = self.root()?.route();
        let read = match (goal, route) {
            (Goal::Activate(_), None) => AtomicRequest::read(RecordRef::Root, Read::Content),
            (Goal::Activate(_) | Goal::Split | Goal::Merge | Goal::Deactivate, Some(route)) => {
                AtomicRequest::read(RecordRef::Companion(route.keys, 0), Read::State)
            }
            _ => return Ok(()),
        };
        if let RequestReply::Done(Observation {
            content: Some(content),
            ..
        }) = self.executor.run(&self.records, &read, &mut None)?
        {
            content.check()?;
            let others = content.reads_of_others(self.bin());
            if !others.is_empty() {
                let policy = WritePolicy::default();
                let read = if_there(self.records.operate_on(&policy, self.key(), &others))?;
                let mut answers = read.into_iter().flat_map(|read| read.results);
                answers.try_for_each(|answer| content.check_others(&answer.value))?;
            }
        }
        match (goal, route) {
            (Goal::Merge | Goal::Deactivate, Some(route)) => self.check_room(goal, route),
            _ => Ok(()),
        }
    }

    /// Refuses to bring together what one record cannot hold: begun, it could not be ended, and
    /// writers would wait for it. An eighth of the limit is left for elements that are added
    /// meanwhile.
    fn check_room(&self, goal: Goal, route: CompanionRoute) -> Result<()> {
        let Some(limit) = self.records.max_record_bytes() else {
            return Ok(());
        };
        let places = || companions(route).chain([RecordRef::Root]);
        // Only the size of the record counts.
        let something = [get_bin(SHARD_OF)];
        let mut sizes = Vec::new();
        for operated in self.ask_each(places(), &something) {
            // The transition reports the missing one.
            sizes.push(if_there(operated)?.map_or(0, |operated| operated.record_bytes));
        }
        if sizes.iter().all(|size| *size == 0) {
            let keys: Vec<Key<'_>> = places().map(|place| self.executor.key_of(place)).collect();
            sizes = self.bytes_of_bins(&keys)?;
        }
        let together = match goal {
            Goal::Merge => {
                // The last one is the root's.
                sizes.pop();
                let (low, high) = sizes.split_at(sizes.len() / 2);
                low.iter().zip(high).map(|(a, b)| a + b).max()
            }
            _ => Some(sizes.iter().sum::<u64>()),
        };
        match together {
            Some(size) if size > limit - limit / 8 => Err(Error::RecordTooBig {
                size,
                limit: limit - limit / 8,
                largest_bin: None,
                record: None,
            }),
            _ => Ok(()),
        }
    }

    /// Returns the sizes of records by their bins, for stores that do not give the sizes of
    /// records.
    fn bytes_of_bins(&self, keys: &[Key<'_>]) -> Result<Vec<u64>> {
        let bytes = |record: Option<Record>| {
            let mut body = Vec::new();
            if let Some(record) = record {
                record.into_bins()?.write_body(&mut body)?;
            }
            Ok(body.len() as u64)
        };
        // Few at once: they are read whole.
        let records = keys
            .chunks(16)
            .flat_map(|some| self.records.read_each(some, None));
        records.map(|found| bytes(found?)).collect()
    }

    /// Carries an unfinished transition to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for [`Handle::transition`].
    pub(crate) fn advance(&self) -> Result<bool> {
        let mut advanced = false;
        self.transition(Goal::Advance, None, &mut |_, _| {
            advanced = true;
            ControlFlow::Continue(())
        })?;
        Ok(advanced)
    }
}

/// The companions of a route.
fn companions(route: CompanionRoute) -> impl Iterator<Item = RecordRef> {
    (0..route.shards).map(move |shard| RecordRef::Companion(route.keys, shard))
}
