//! Processes that run the machines, and all the orders in which their steps can come.

use xxhash_rust::xxh3::xxh3_64;

use super::super::start::{Goal, Transition};
use super::super::view::{PATIENCE, RecordsView, Rejection, Survey, SurveyResult};
use super::super::write::{ElementResult, ElementWrite};
use super::super::{
    AtomicRequest, CompanionState, CompanionToken, Failure, Machine, MachineProgress, RequestEdit,
    RequestReply, RouteHint,
};
use super::scenario::{HashOp, HashScenario};
use super::store::{CompanionRecord, HashHole, HashStore, companion_key};
use super::{Tiny, TinyAct, TinyAnswer, elements};
use crate::shard::model_check::history::{Call, CallHistory, ElementSet};
use crate::shard::model_check::{self, Explored};
use crate::shard::scheme::{Epoch, Scheme};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HashWorld {
    store: HashStore,
    processes: Vec<HashProcess>,
    /// Of all elements of the first collection, and then of the second.
    history: CallHistory,
    /// Elements of each collection.
    elements: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HashProcess {
    /// Its collection.
    of: usize,
    /// How many operations of its script it has begun.
    begun: usize,
    running: Option<Running>,
    remembered: RouteHint,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Running {
    Write(ElementWrite<Tiny>),
    Change(Transition<ElementSet>),
    /// `None`: the whole collection is read.
    Survey(Option<u8>, Survey<Tiny>),
    /// One record of a view after the other.
    Pass {
        element: Option<u8>,
        view: RecordsView,
        patience: u8,
        learned: Option<RouteHint>,
        next: usize,
        once: ElementSet,
        twice: ElementSet,
    },
}

/// The answer of a call.
enum HashTold {
    Nothing,
    Yes(bool),
    All { once: ElementSet, twice: ElementSet },
}

#[expect(
    clippy::large_enum_variant,
    reason = "a process runs on far more often than it ends"
)]
enum Went {
    On(Running),
    /// The call has ended, with the route that the process remembers from now on; `None`: the route
    /// as before.
    Ended(HashTold, Option<RouteHint>),
}

/// The most steps that a process alone takes.
const STEPS_ALONE_MAX: usize = 400;

/// Room for the tokens of one operation.
const TOKENS: usize = 64;

impl Running {
    fn new(op: HashOp, remembered: RouteHint, token: CompanionToken) -> Self {
        match op {
            HashOp::Add(element) => {
                let add = TinyAct::Add(element);
                Self::Write(ElementWrite::new(element.into(), add, remembered, token))
            }
            HashOp::Remove(element) => {
                let remove = TinyAct::Remove(element);
                Self::Write(ElementWrite::new(element.into(), remove, remembered, token))
            }
            HashOp::Contains(element) if remembered == RouteHint::Unknown => {
                Self::survey(None, Some(element), token)
            }
            HashOp::Contains(element) => Self::begin_pass(remembered, Some(element)),
            HashOp::ReadAll => Self::begin_pass(remembered, None),
            // The clock does not move: the epochs alone must do.
            HashOp::Change(goal) => Self::Change(Transition::new(goal, 0, token)),
            HashOp::ChangeUnmoved(goal) => {
                let start = Transition::new(goal, 0, token);
                Self::Change(match remembered.route() {
                    Some(route) => start.only_at(route.epoch),
                    None => start,
                })
            }
        }
    }

    fn survey(refused: Option<Rejection>, element: Option<u8>, token: CompanionToken) -> Self {
        let asked = element.map(|element| (element.into(), TinyAct::Contains(element)));
        Self::Survey(element, Survey::new(refused, asked, token))
    }

    fn begin_pass(remembered: RouteHint, element: Option<u8>) -> Self {
        let view = RecordsView::remembered(remembered, element.map(u64::from));
        Self::pass(element, view, PATIENCE, None)
    }

    const fn pass(
        element: Option<u8>,
        view: RecordsView,
        patience: u8,
        learned: Option<RouteHint>,
    ) -> Self {
        Self::Pass {
            element,
            view,
            patience,
            learned,
            next: 0,
            once: 0,
            twice: 0,
        }
    }

    fn request(&self) -> AtomicRequest<Tiny> {
        match self {
            Self::Write(machine) => machine.request(),
            Self::Change(machine) => machine.request(),
            Self::Survey(_, machine) => machine.request(),
            Self::Pass {
                element,
                view,
                next,
                ..
            } => view.sources[*next].read(element.map_or(TinyAct::All, TinyAct::Contains)),
        }
    }

    fn resume(self, reply: RequestReply<Tiny>, token: CompanionToken) -> Result<Went, Failure> {
        let told = |answer| HashTold::Yes(answer == Some(TinyAnswer::Yes(true)));
        let did =
            |did: ElementResult<TinyAnswer>| Went::Ended(told(did.answer), Some(did.remembered));
        Ok(match self {
            Self::Write(machine) => match machine.resume(reply) {
                MachineProgress::Next(next) => Went::On(Self::Write(next)),
                MachineProgress::Done(done) => did(done),
                MachineProgress::Failed(failure) => return Err(failure),
            },
            Self::Change(machine) => match Machine::<Tiny>::resume(machine, reply) {
                MachineProgress::Next(next) => Went::On(Self::Change(next)),
                MachineProgress::Done(root) => {
                    Went::Ended(HashTold::Nothing, Some(root.route_hint()))
                }
                // Others have got ahead: the collection is in one record.
                MachineProgress::Failed(Failure::NotApplicable(_)) => {
                    Went::Ended(HashTold::Nothing, None)
                }
                MachineProgress::Failed(failure) => return Err(failure),
            },
            Self::Survey(element, machine) => match machine.resume(reply) {
                MachineProgress::Next(next) => Went::On(Self::Survey(element, next)),
                MachineProgress::Done(SurveyResult {
                    view,
                    patience,
                    answer,
                }) => {
                    let learned = Some(view.root.route_hint());
                    match answer {
                        Some(answer) => Went::Ended(told(answer), learned),
                        None => Went::On(Self::pass(element, view, patience, learned)),
                    }
                }
                MachineProgress::Failed(failure) => return Err(failure),
            },
            Self::Pass {
                element,
                view,
                patience,
                learned,
                next,
                once,
                twice,
            } => match view.sources[next].accept(reply) {
                Err(failure) => {
                    let refused = Rejection {
                        root: view.root,
                        failure,
                        patience: patience.saturating_sub(1),
                    };
                    Went::On(Self::survey(Some(refused), element, token))
                }
                Ok(answer) if element.is_some() => Went::Ended(told(answer), learned),
                Ok(answer) => {
                    let all = match answer {
                        Some(TinyAnswer::All(all)) => all,
                        _ => 0,
                    };
                    let (once, twice) = (once | all, twice | once & all);
                    let next = next + 1;
                    if next == view.sources.len() {
                        let told = HashTold::All { once, twice };
                        Went::Ended(told, learned)
                    } else {
                        Went::On(Self::Pass {
                            element,
                            view,
                            patience,
                            learned,
                            next,
                            once,
                            twice,
                        })
                    }
                }
            },
        })
    }
}

impl HashWorld {
    /// One step of a process; false if it has none left.
    ///
    /// # Errors
    /// A violation of an invariant.
    fn step(
        &mut self,
        process: usize,
        op: Option<HashOp>,
        hole: Option<HashHole>,
    ) -> Result<bool, String> {
        let token =
            CompanionToken((process * 4_096 + self.processes[process].begun * TOKENS + 1) as u64);
        let running = match self.processes[process].running.take() {
            Some(running) => running,
            None => {
                let Some(op) = op else { return Ok(false) };
                self.begin(process, op);
                let process = &mut self.processes[process];
                process.begun += 1;
                Running::new(op, process.remembered, token)
            }
        };
        let kind = match &running {
            Running::Write(_) => "write",
            Running::Change(_) => "change",
            Running::Survey(..) | Running::Pass { .. } => "read",
        };
        let of = self.processes[process].of;
        let latest = |world: &Self| {
            let root = world.store.root.as_ref();
            root.map_or(Epoch(0), |root| root.description.latest())
        };
        let before = latest(self);
        let reply = self.store.execute(of, &running.request(), hole);
        let is_mark = matches!(running.request().edit, RequestEdit::Mark(..));
        if latest(self) < before
            || is_mark && matches!(reply, RequestReply::Done(_)) && latest(self) == before
        {
            return Err(format!("{kind} of process {process}: an epoch comes back"));
        }
        match running.resume(reply, token) {
            Err(failure) => Err(format!("{kind} of process {process} fails: {failure:?}")),
            Ok(Went::On(running)) => {
                self.processes[process].running = Some(running);
                Ok(true)
            }
            Ok(Went::Ended(told, remembered)) => {
                if let Some(remembered) = remembered {
                    self.processes[process].remembered = remembered;
                }
                self.end(process, &told)
                    .map_err(|why| format!("{kind} of process {process}: {why}"))?;
                Ok(true)
            }
        }
    }

    /// The elements of a collection, as the history numbers them.
    fn elements_of(&self, of: usize) -> std::ops::Range<u8> {
        let first = of as u8 * self.elements;
        first..first + self.elements
    }

    fn begin(&mut self, process: usize, op: HashOp) {
        let all = self.elements_of(self.processes[process].of);
        let first = all.start;
        let history = &mut self.history;
        match op {
            HashOp::Add(element) => history.begin(process, first + element, Call::Add),
            HashOp::Remove(element) => history.begin(process, first + element, Call::Remove),
            HashOp::Contains(element) => history.begin(process, first + element, Call::Contains),
            HashOp::ReadAll => {
                for element in all {
                    history.begin(process, element, Call::Contains);
                }
            }
            HashOp::Change(Goal::Delete) => {
                for element in all {
                    history.begin(process, element, Call::Delete);
                }
            }
            HashOp::Change(_) | HashOp::ChangeUnmoved(_) => {}
        }
    }

    fn end(&mut self, process: usize, told: &HashTold) -> Result<(), String> {
        if let HashTold::All { twice, .. } = told
            && let Some(element) = elements(*twice).next()
        {
            return Err(format!("element {element} was seen twice"));
        }
        let all = self.elements_of(self.processes[process].of);
        let first = all.start;
        for element in all {
            if !self.history.calls(process, element) {
                continue;
            }
            let answer = match told {
                HashTold::Nothing => None,
                HashTold::Yes(yes) => Some(*yes),
                HashTold::All { once, .. } => Some(once >> (element - first) & 1 == 1),
            };
            if !self.history.end(process, element, answer) {
                return Err(format!("nothing explains {answer:?} for element {element}"));
            }
        }
        Ok(())
    }

    /// What would become of this if everybody died now but one who does these things.
    fn alone(
        &self,
        of: usize,
        ops: &[HashOp],
        remembered: RouteHint,
        hole: Option<HashHole>,
    ) -> Result<Self, String> {
        let mut world = self.clone();
        let process = world.processes.len();
        world.processes.push(HashProcess {
            of,
            begun: 0,
            running: None,
            remembered,
        });
        for op in ops {
            let mut steps = 0;
            while world.step(process, Some(*op), hole)?
                && world.processes[process].running.is_some()
            {
                steps += 1;
                if steps > STEPS_ALONE_MAX {
                    return Err(format!("{op:?} alone comes to no end"));
                }
            }
        }
        Ok(world)
    }

    /// Checks the invariants of a state in which any process may die.
    fn check_in(&self, hole: Option<HashHole>) -> Result<(), String> {
        let dead = |why: String| format!("all others dead: {why}");
        let collections = usize::from(self.history.count() / self.elements);
        let nothing = RouteHint::default();
        let mut all_advanced = self.clone();
        for of in 0..collections {
            self.alone(of, &[HashOp::ReadAll], nothing, hole)
                .map_err(dead)?;
            let advanced = [
                HashOp::Change(Goal::Advance),
                HashOp::ReadAll,
                HashOp::Add(0),
                HashOp::Contains(0),
            ];
            all_advanced = all_advanced
                .alone(of, &advanced, nothing, hole)
                .map_err(dead)?;
        }
        let mut remembered = Vec::new();
        for process in &self.processes {
            let known = (process.of, process.remembered);
            if process.remembered != nothing && !remembered.contains(&known) {
                remembered.push(known);
            }
        }
        for (of, remembered) in remembered {
            for element in 0..self.elements {
                self.alone(of, &[HashOp::Contains(element)], remembered, hole)
                    .map_err(dead)?;
            }
        }
        (0..collections).try_for_each(|of| all_advanced.check_settled(of))
    }

    /// Checks the invariants of a collection once nothing is under way.
    fn check_settled(&self, of: usize) -> Result<(), String> {
        let record = self.store.root.clone().unwrap_or_default();
        let root = record.root(of);
        match root.scheme {
            Scheme::Unsharded => Ok(()),
            Scheme::Active { shards } if record.bins[of].is_none() => {
                (0..shards).try_for_each(|shard| {
                    let found = self
                        .store
                        .companions
                        .get(&companion_key(of, root.keys, shard));
                    let right = matches!(found, Some(CompanionRecord::Ours { companion, state: CompanionState::Live, bins })
                        if companion.shards == shards && companion.epoch == root.epoch
                            && bins[of].is_some_and(|bin| elements(bin)
                                .all(|element| u64::from(element) & (shards - 1) == shard)));
                    if right {
                        Ok(())
                    } else {
                        Err(format!("shard {shard} of {shards} is {found:?}"))
                    }
                })
            }
            _ => Err(format!("nothing is under way, but the root is {record:?}")),
        }
    }
}

/// Explores every interleaving.
///
/// # Errors
/// A violation of an invariant, and the steps that lead to it.
pub(super) fn explore(scenario: &HashScenario) -> Result<Explored, String> {
    let first = first_of(scenario)?;
    model_check::explore(scenario, first)
}

/// The state in which a scenario begins.
fn first_of(scenario: &HashScenario) -> Result<HashWorld, String> {
    let mut world = HashWorld {
        store: HashStore::default(),
        processes: Vec::new(),
        history: CallHistory::new(scenario.elements * scenario.collections as u8, 0),
        elements: scenario.elements,
    };
    for script in &scenario.before {
        world = world.alone(script.of, &script.ops, RouteHint::default(), None)?;
    }
    let count = scenario.processes.len();
    let known = |number: usize, of: usize| {
        let mut before = world.processes.iter().rev();
        let known = before.find(|it| it.of == of && number + scenario.strangers < count);
        known.map_or(RouteHint::default(), |before| before.remembered)
    };
    let processes = scenario.processes.iter().enumerate();
    let processes = processes.map(|(number, script)| HashProcess {
        of: script.of,
        begun: 0,
        running: None,
        remembered: known(number, script.of),
    });
    Ok(HashWorld {
        processes: processes.collect(),
        ..world.clone()
    })
}

/// Follows some interleavings, in which a process takes several steps before it is another one's
/// turn: finds faults of late processes sooner than [`explore`] does.
///
/// # Errors
/// A violation of an invariant.
pub(super) fn sample(scenario: &HashScenario, runs: u64) -> Result<(), String> {
    let first = first_of(scenario)?;
    let count = scenario.processes.len() as u64;
    for run in 0..runs {
        let mut world = first.clone();
        let mut drawn = xxh3_64(&run.to_le_bytes());
        let mut process = 0;
        let mut ended = 0;
        while ended < scenario.processes.len() {
            drawn = xxh3_64(&drawn.to_le_bytes());
            if ended > 0 || drawn.is_multiple_of(8) {
                process = (drawn >> 8) % count;
            }
            let number = process as usize;
            let op = scenario.processes[number]
                .ops
                .get(world.processes[number].begun)
                .copied();
            if world.step(number, op, scenario.hole)? {
                ended = 0;
                if (drawn >> 40).is_multiple_of(4) {
                    world.check_in(scenario.hole)?;
                }
            } else {
                ended = world
                    .processes
                    .iter()
                    .zip(&scenario.processes)
                    .filter(|(process, script)| {
                        process.running.is_none() && process.begun == script.ops.len()
                    })
                    .count();
            }
        }
        world.check_in(scenario.hole)?;
    }
    Ok(())
}

impl model_check::World for HashWorld {
    type Scenario = HashScenario;

    fn processes(scenario: &HashScenario) -> usize {
        scenario.processes.len()
    }

    fn advance(&mut self, scenario: &HashScenario, process: usize) -> Result<bool, String> {
        let op = scenario.processes[process]
            .ops
            .get(self.processes[process].begun);
        self.step(process, op.copied(), scenario.hole)
    }

    fn has_ended(&self, scenario: &HashScenario) -> bool {
        let mut scripts = self.processes.iter().zip(&scenario.processes);
        scripts
            .all(|(process, script)| process.running.is_none() && process.begun == script.ops.len())
    }

    fn check(&self, scenario: &HashScenario) -> Result<(), String> {
        self.check_in(scenario.hole)
    }

    fn describe(&self, scenario: &HashScenario, process: usize) -> String {
        let own = &self.processes[process];
        match &own.running {
            Some(running) => format!("{:?}", running.request()),
            None => format!(
                "begins {:?}",
                scenario.processes[process].ops.get(own.begun)
            ),
        }
    }
}
