//! Processes that run the protocol, and all the orders in which their steps can come.
//!
//! The protocol is plain code, which cannot be stopped in the midst of a call. So a process is kept
//! as the replies to its steps: to learn its next step, its call is run from its beginning with
//! these replies, up to the first step without one. The shipped code is the checked code.

use std::cell::{Cell, RefCell};

use xxhash_rust::xxh3::xxh3_64;

use super::replay::{Replay, Trial};
use super::store::{LAYOUT, Reply, Request, TimeAct, TimeAnswer, TimeHole, TimeStore, bucket_of};
use crate::shard::model_check::history::{Call, CallHistory, ElementSet};
use crate::shard::model_check::{self, Explored, World as _, digest};
use crate::shard::protocol::{CompanionRoute, Read};
use crate::shard::time::calendar::TimeBucket;
use crate::shard::time::layout::CollectionPart;
use crate::shard::time::protocol::Protocol;
use crate::shard::time::steps::{Direction, StepError, TimeSteps, is_newer, is_open};

/// An operation of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TimeOp {
    Add(u8),
    Remove(u8),
    ReadAll(Direction),
    Delete,
    /// Shards another collection of the record, or brings it back.
    Neighbor,
    /// From now on this is the first bucket that is kept.
    Horizon(TimeBucket),
    /// Expired records are taken away.
    Reap,
}

/// Processes and what they begin with.
#[derive(Clone, Debug)]
pub(super) struct TimeScenario {
    pub(super) store: TimeStore,
    /// The elements that the store holds.
    pub(super) there: ElementSet,
    /// Operations of one process alone before the others begin. All processes but the strangers
    /// remember its route.
    pub(super) before: Vec<TimeOp>,
    /// How many of the processes, the last ones, remember nothing.
    pub(super) strangers: usize,
    /// Elements 0 to this one, without it.
    pub(super) elements: u8,
    pub(super) processes: Vec<Vec<TimeOp>>,
    pub(super) hole: Option<TimeHole>,
}

/// The answer of a call.
#[derive(Clone, Copy, Debug)]
enum TimeTold {
    Nothing,
    Yes(bool),
    All { once: ElementSet, twice: ElementSet },
}

impl TimeOp {
    /// Runs the protocol as far as its steps are answered. `None`: there is another one.
    fn run(self, protocol: &Protocol<Replay<'_>>) -> Option<TimeTold> {
        let told = match self {
            Self::Add(element) => {
                let part = CollectionPart::Shard(bucket_of(element), 0);
                protocol.add(part, &TimeAct::Add(element)).map(told)
            }
            Self::Remove(element) => {
                let bucket = bucket_of(element);
                let act = TimeAct::Remove(element);
                let removed = protocol.remove(bucket, CollectionPart::Shard(bucket, 0), &act);
                removed.map(|removed| removed.map_or(TimeTold::Yes(false), told))
            }
            Self::ReadAll(direction) => read_all(protocol, direction),
            Self::Delete => protocol.delete().map(|()| TimeTold::Nothing),
            other => panic!("{other:?} is no call"),
        };
        match (told, protocol.steps.pending.borrow().is_some()) {
            (Ok(told), false) => Some(told),
            (Err(_), true) => None,
            (told, pending) => panic!("{self:?}: {told:?}, pending: {pending}"),
        }
    }

    /// The call of the history that this is, and the elements it concerns.
    fn calls(self, elements: u8) -> Vec<(u8, Call)> {
        match self {
            Self::Add(element) => vec![(element, Call::Add)],
            Self::Remove(element) => vec![(element, Call::Remove)],
            Self::ReadAll(_) => (0..elements).map(|it| (it, Call::Contains)).collect(),
            Self::Delete => (0..elements).map(|it| (it, Call::Delete)).collect(),
            Self::Horizon(horizon) => (0..elements)
                .filter(|element| bucket_of(*element) < horizon)
                .map(|element| (element, Call::Delete))
                .collect(),
            Self::Neighbor | Self::Reap => Vec::new(),
        }
    }
}

fn told(answer: TimeAnswer) -> TimeTold {
    TimeTold::Yes(answer == TimeAnswer::Yes(true))
}

fn read_all(protocol: &Protocol<Replay<'_>>, direction: Direction) -> crate::Result<TimeTold> {
    let all = (bucket_of(0), bucket_of(5));
    let read = protocol.read(all, direction, |steps, route, buckets| {
        let (mut once, mut twice, mut last) = (0, 0, None);
        while let Some(bucket) = buckets.next()? {
            let in_order = last.is_none_or(|last| match direction {
                Direction::OldestFirst => last < bucket,
                Direction::NewestFirst => last > bucket,
            });
            assert!(in_order, "{bucket:?} behind {last:?}");
            last = Some(bucket);
            let part = CollectionPart::Shard(bucket, 0);
            let (state, answer) = steps.read((route.keys, part), Read::User(TimeAct::All))?;
            let elements = match answer {
                Some(TimeAnswer::All(elements)) => elements,
                _ => 0,
            };
            if is_newer(state, route.epoch) {
                return Err(StepError::Stale(()));
            }
            if is_open(state, route.epoch) {
                (once, twice) = (once | elements, twice | once & elements);
            }
        }
        Ok((once, twice))
    });
    read.map(|(once, twice)| TimeTold::All { once, twice })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TimeWorld {
    store: TimeStore,
    processes: Vec<TimeProcess>,
    history: CallHistory,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TimeProcess {
    /// How many operations of its script it has begun.
    begun: usize,
    /// What the steps of the call under way have answered since its last attempt began.
    running: Option<(TimeOp, Vec<Reply>)>,
    remembered: Option<CompanionRoute>,
    /// The token of its next placing.
    token: u64,
}

/// The first token of processes that run alone.
const TOKENS_ALONE: u64 = 1_000_000;

impl TimeWorld {
    /// One step of a process; false if it has none left.
    ///
    /// # Errors
    /// A violation of an invariant.
    fn step(
        &mut self,
        process: usize,
        op: Option<TimeOp>,
        hole: Option<TimeHole>,
    ) -> Result<bool, String> {
        let elements = self.history.count();
        let own = &mut self.processes[process];
        if own.running.is_none() {
            let Some(op) = op else { return Ok(false) };
            own.begun += 1;
            own.running = Some((op, Vec::new()));
            for (element, call) in op.calls(elements) {
                self.history.begin(process, element, call);
            }
        }
        let Some((op, mut replies)) = own.running.take() else {
            return Ok(false);
        };
        if let Some(told) = self.environment(op) {
            self.end(process, op, told)?;
            return Ok(true);
        }
        let own = &mut self.processes[process];
        let before = run(op, &replies, own.remembered, own.token);
        if let Some(request) = before.request {
            let latest = self.store.latest();
            replies.push(self.store.execute(&request, hole));
            if self.store.latest() < latest {
                return Err(format!("{request:?} brings an epoch back"));
            }
        }
        let after = run(op, &replies, own.remembered, own.token);
        match after.told {
            Some(told) => {
                (own.remembered, own.token) = (after.remembered, after.token);
                self.end(process, op, told)?;
            }
            None => {
                // Replies from before the attempt are of no account.
                replies.drain(..after.attempt.replies);
                (own.remembered, own.token) = (after.attempt.remembered, after.attempt.token);
                own.running = Some((op, replies));
            }
        }
        Ok(true)
    }

    /// What happens in one step, and is no call of the protocol.
    fn environment(&mut self, op: TimeOp) -> Option<TimeTold> {
        match op {
            TimeOp::Neighbor => self.store.change_neighbor(),
            TimeOp::Horizon(horizon) => self.store.horizon = Some(horizon),
            TimeOp::Reap => self.store.reap(),
            _ => return None,
        }
        Some(TimeTold::Nothing)
    }

    fn end(&mut self, process: usize, op: TimeOp, told: TimeTold) -> Result<(), String> {
        if let TimeTold::All { twice, .. } = told
            && twice != 0
        {
            return Err(format!("{op:?} sees elements {twice:#b} twice"));
        }
        for (element, _) in op.calls(self.history.count()) {
            let answer = match told {
                TimeTold::Nothing => None,
                TimeTold::Yes(yes) => Some(yes),
                TimeTold::All { once, .. } => Some(once >> element & 1 == 1),
            };
            if !self.history.end(process, element, answer) {
                return Err(format!(
                    "{op:?}: nothing explains {answer:?} for element {element}"
                ));
            }
        }
        Ok(())
    }

    /// Does something alone, as if everybody else had died.
    fn alone(
        &mut self,
        op: TimeOp,
        remembered: Option<CompanionRoute>,
        hole: Option<TimeHole>,
    ) -> Result<Option<CompanionRoute>, String> {
        // Behind all others.
        let process = self.processes.len();
        for (element, call) in op.calls(self.history.count()) {
            self.history.begin(process, element, call);
        }
        let token = TOKENS_ALONE + self.store.latest().0 * 1_000;
        let steps = Replay {
            replies: &[],
            next: Cell::new(0),
            pending: RefCell::new(None),
            at_once: Some((RefCell::new(&mut self.store), hole)),
            token: Cell::new(token),
            attempt: Cell::default(),
        };
        let protocol = Protocol::with_route(steps, remembered);
        let told = op.run(&protocol).ok_or("it comes to no end")?;
        let remembered = protocol.recalled();
        drop(protocol);
        self.end(process, op, told)?;
        Ok(remembered)
    }

    /// Checks the invariants of a state in which any process may die.
    fn check_in(&self, hole: Option<TimeHole>) -> Result<(), String> {
        let dead = |why: String| format!("all others dead: {why}");
        let mut world = self.clone();
        let all = [
            TimeOp::ReadAll(Direction::OldestFirst),
            TimeOp::ReadAll(Direction::NewestFirst),
        ];
        for op in [all[0], all[1], TimeOp::Add(0), all[1]] {
            if matches!(op, TimeOp::Add(0)) && self.store.horizon.is_some() {
                continue;
            }
            world.alone(op, None, hole).map_err(dead)?;
        }
        world.check_settled()?;
        let mut remembered: Vec<_> = self
            .processes
            .iter()
            .filter_map(|it| it.remembered)
            .collect();
        remembered.dedup();
        for route in remembered {
            let mut world = self.clone();
            for element in 0..self.history.count() {
                let removed = world.alone(TimeOp::Remove(element), Some(route), hole);
                removed.map_err(dead)?;
            }
            world.alone(all[0], Some(route), hole).map_err(dead)?;
        }
        let mut world = self.clone();
        world.alone(TimeOp::Delete, None, hole).map_err(dead)?;
        world.alone(all[0], None, hole).map_err(dead)?;
        world.check_settled()
    }

    /// Checks that, once nothing is under way, every open record belongs to the collection, and is
    /// found.
    fn check_settled(&self) -> Result<(), String> {
        let root = self.store.root();
        for ((keys, part), record) in &self.store.parts {
            let is_past = self
                .store
                .horizon
                .is_some_and(|horizon| LAYOUT.end(*part).is_some_and(|end| end <= horizon.0));
            if record.token.is_some() || is_past {
                continue;
            }
            let route = CompanionRoute {
                shards: LAYOUT.shards,
                epoch: record.epoch,
                keys: *keys,
            };
            if root.companions() != Some(route) {
                return Err(format!("{part:?} of {route:?} is left over of {root:?}"));
            }
        }
        Ok(())
    }
}

/// A call, as far as its steps are answered.
struct TimeRun {
    told: Option<TimeTold>,
    /// Its next step, if it has not come to its end.
    request: Option<Request>,
    attempt: Trial,
    remembered: Option<CompanionRoute>,
    token: u64,
}

fn run(op: TimeOp, replies: &[Reply], remembered: Option<CompanionRoute>, token: u64) -> TimeRun {
    let steps = Replay {
        replies,
        next: Cell::new(0),
        pending: RefCell::new(None),
        at_once: None,
        token: Cell::new(token),
        attempt: Cell::default(),
    };
    let protocol = Protocol::with_route(steps, remembered);
    let told = op.run(&protocol);
    TimeRun {
        told,
        request: protocol.steps.pending.take(),
        attempt: protocol.steps.attempt.get(),
        remembered: protocol.recalled(),
        token: protocol.steps.token.get(),
    }
}

/// Returns the state in which a scenario begins.
fn first_of(scenario: &TimeScenario) -> Result<TimeWorld, String> {
    let mut world = TimeWorld {
        store: scenario.store.clone(),
        processes: Vec::new(),
        history: CallHistory::new(scenario.elements, scenario.there),
    };
    let mut remembered = None;
    for op in &scenario.before {
        if world.environment(*op).is_none() {
            remembered = world.alone(*op, remembered, None)?;
        }
    }
    let known = scenario.processes.len() - scenario.strangers;
    let processes = (0..scenario.processes.len()).map(|number| TimeProcess {
        remembered: remembered.filter(|_| number < known),
        token: number as u64 * 1_000,
        ..TimeProcess::default()
    });
    world.processes = processes.collect();
    Ok(world)
}

/// Follows some interleavings, in which a process takes several steps before it is another one's
/// turn: finds faults of late processes sooner than [`explore`] does.
///
/// # Errors
/// A violation of an invariant.
pub(super) fn sample(scenario: &TimeScenario, runs: u64) -> Result<(), String> {
    let first = first_of(scenario)?;
    let count = scenario.processes.len();
    for run in 0..runs {
        let mut world = first.clone();
        let mut drawn = xxh3_64(&run.to_le_bytes());
        let mut process = 0;
        while !world.has_ended(scenario) {
            drawn = xxh3_64(&drawn.to_le_bytes());
            let op = scenario.processes[process].get(world.processes[process].begun);
            if drawn.is_multiple_of(8) || !world.step(process, op.copied(), scenario.hole)? {
                process = (drawn >> 8) as usize % count;
                if (drawn >> 40).is_multiple_of(4) {
                    world.check_in(scenario.hole)?;
                }
            }
        }
        world.check_in(scenario.hole)?;
    }
    Ok(())
}

/// Explores every interleaving.
///
/// # Errors
/// A violation of an invariant, and the steps that lead to it.
pub(super) fn explore(scenario: &TimeScenario) -> Result<Explored, String> {
    model_check::explore(scenario, first_of(scenario)?)
}

impl model_check::World for TimeWorld {
    type Scenario = TimeScenario;

    fn processes(scenario: &TimeScenario) -> usize {
        scenario.processes.len()
    }

    fn advance(&mut self, scenario: &TimeScenario, process: usize) -> Result<bool, String> {
        let op = scenario.processes[process].get(self.processes[process].begun);
        self.step(process, op.copied(), scenario.hole)
    }

    fn has_ended(&self, scenario: &TimeScenario) -> bool {
        let mut scripts = self.processes.iter().zip(&scenario.processes);
        scripts.all(|(it, ops)| it.running.is_none() && it.begun == ops.len())
    }

    fn check(&self, scenario: &TimeScenario) -> Result<(), String> {
        self.check_in(scenario.hole)
    }

    /// A process that runs alone meets the store and the routes, however far the dead processes had
    /// come.
    fn checked_part(&self) -> Option<u128> {
        let routes: Vec<_> = self.processes.iter().map(|it| it.remembered).collect();
        Some(digest(&(&self.store, &self.history, routes)))
    }

    fn describe(&self, scenario: &TimeScenario, process: usize) -> String {
        let own = &self.processes[process];
        match &own.running {
            Some((op, replies)) => {
                let next = run(*op, replies, own.remembered, own.token);
                format!("{op:?}: {:?}", next.request)
            }
            None => format!("begins {:?}", scenario.processes[process].get(own.begun)),
        }
    }
}
