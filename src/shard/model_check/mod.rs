//! Explores every order of the steps of several processes: what the checks of both protocols have
//! in common.
//!
//! The explorer is our own: it takes a set of visited states and a stack, and the checks that are
//! made in every state (any process may die there) fit into no general one.
//!
//! * [`history`]: whether the answers of calls can be put in an order.

pub(crate) mod history;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

use xxhash_rust::xxh3::Xxh3;

/// A state of the store and of all processes.
pub(crate) trait World: Clone + Hash {
    type Scenario;

    /// Returns how many processes there are.
    fn processes(scenario: &Self::Scenario) -> usize;

    /// Takes the next step of a process. Returns false if the process has ended.
    ///
    /// # Errors
    /// A violation of an invariant.
    fn advance(&mut self, scenario: &Self::Scenario, process: usize) -> Result<bool, String>;

    /// Returns whether every process has ended.
    fn has_ended(&self, scenario: &Self::Scenario) -> bool;

    /// Checks the invariants of every state.
    ///
    /// # Errors
    /// A violation of one.
    fn check(&self, scenario: &Self::Scenario) -> Result<(), String>;

    /// Returns a digest of what [`World::check`] depends on, by which equal ones are checked once.
    /// `None`: every state is checked.
    fn checked_part(&self) -> Option<u128> {
        None
    }

    /// Describes the next step of a process.
    fn describe(&self, scenario: &Self::Scenario, process: usize) -> String;
}

/// The extent of an exploration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    /// States in which every process has ended.
    pub(crate) ends: usize,
}

/// Explores every interleaving of the processes' steps.
///
/// # Errors
/// A violation of an invariant, and the steps that lead to it.
pub(crate) fn explore<W: World>(scenario: &W::Scenario, first: W) -> Result<Explored, String> {
    let mut explored = Explored::default();
    let (mut visited, mut checked) = (HashSet::new(), HashSet::new());
    // The states on the way to this one, and which process goes on from each.
    let mut path: Vec<(W, usize)> = Vec::new();
    let mut next = Some(first);
    loop {
        if let Some(world) = next.take()
            && visited.insert(digest(&world))
        {
            explored.states += 1;
            explored.ends += usize::from(world.has_ended(scenario));
            let is_new = world.checked_part().is_none_or(|part| checked.insert(part));
            let found = if is_new {
                world.check(scenario)
            } else {
                Ok(())
            };
            path.push((world, 0));
            found.map_err(|why| with_steps(&path, scenario, &why))?;
        }
        let Some((world, process)) = path.last_mut() else {
            return Ok(explored);
        };
        if *process == W::processes(scenario) {
            path.pop();
            continue;
        }
        let mut after = world.clone();
        let stepped = after.advance(scenario, *process);
        *process += 1;
        match stepped {
            Err(why) => return Err(with_steps(&path, scenario, &why)),
            Ok(true) => next = Some(after),
            Ok(false) => {}
        }
    }
}

/// Returns a digest for a set of visited states.
pub(crate) fn digest(what: &impl Hash) -> u128 {
    let mut hasher = Xxh3::new();
    what.hash(&mut hasher);
    hasher.digest128()
}

/// Returns a violation with the steps that have led to it.
fn with_steps<W: World>(path: &[(W, usize)], scenario: &W::Scenario, why: &str) -> String {
    let steps = path.iter().map(|(world, process)| {
        let process = process.saturating_sub(1);
        format!("\n{process}: {}", world.describe(scenario, process))
    });
    steps.fold(why.to_string(), |text, step| text + &step)
}

/// Returns the violation, without the steps that lead to it.
pub(crate) fn first_line(found: &Result<Explored, String>) -> String {
    match found {
        Ok(explored) => format!("nothing in {explored:?}"),
        Err(why) => why.lines().next().unwrap_or_default().into(),
    }
}

/// Fails unless every order of the steps of these scenarios can be explained. The number of each:
/// states that there are at least.
pub(crate) fn holds<S: Debug>(
    scenarios: &[(S, usize)],
    explore: impl Fn(&S) -> Result<Explored, String>,
) {
    for (number, (scenario, states_min)) in scenarios.iter().enumerate() {
        let explored = explore(scenario).unwrap_or_else(|why| panic!("scenario {number}: {why}"));
        println!("scenario {number}: {explored:?}");
        assert!(explored.states >= *states_min, "{number}: {explored:?}");
        assert!(explored.ends > 0, "{number}: {explored:?}");
    }
}
