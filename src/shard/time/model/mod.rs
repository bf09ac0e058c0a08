//! The protocol under every interleaving of the steps of several callers, any of whom may die at
//! any step.
//!
//! * [`store`]: a root and companions as plain data, and guards that can be left out.
//! * [`replay`]: the steps of a call, answered from a list. [`explore`]: processes that run the
//!   protocol, in every order.
//! * `real`: the abstract store answers as a real one.
//! * Here: the scenarios, and that no guard and no rule can be left out.

mod explore;
mod real;
mod replay;
mod store;

use self::explore::TimeOp::{Add, Delete, Horizon, Neighbor, ReadAll, Reap, Remove};
use self::explore::{TimeOp, TimeScenario, explore, sample};
use self::store::{TimeHole, TimeStore, bucket_of};
use super::steps::Direction::{NewestFirst, OldestFirst};
use crate::shard::model_check;
use crate::shard::protocol::rules::{ProtocolRule, without};

/// How many interleavings are followed until one shows that a guard is needed, before all of them
/// are.
const RUNS_MAX: u64 = 20_000;

const FORTH: TimeOp = ReadAll(OldestFirst);
const BACK: TimeOp = ReadAll(NewestFirst);

/// Processes that know where the collection was before, but for the last ones.
fn of(before: &[TimeOp], processes: &[&[TimeOp]], strangers: usize) -> TimeScenario {
    TimeScenario {
        store: TimeStore::default(),
        there: 0,
        before: before.to_vec(),
        strangers,
        elements: 3,
        processes: processes.iter().map(|ops| ops.to_vec()).collect(),
        hole: None,
    }
}

fn holds(scenarios: &[(TimeScenario, usize)]) {
    model_check::holds(scenarios, explore);
}

#[test]
fn first_adders_lose_nothing() {
    holds(&[
        (of(&[], &[&[Add(0)], &[Add(1)]], 2), 2_000),
        (of(&[], &[&[Add(0)], &[FORTH]], 2), 100),
        (of(&[Add(0)], &[&[Add(2)], &[Add(2)], &[FORTH]], 0), 1_000),
        (of(&[Add(0)], &[&[Add(2)], &[Remove(0)], &[BACK]], 0), 200),
    ]);
}

#[test]
fn a_deletion_takes_what_was_there_once_and_nothing_that_comes_after() {
    holds(&[
        (of(&[Add(0)], &[&[Delete], &[Add(0)]], 0), 300),
        (of(&[Add(0)], &[&[Delete], &[Add(1)], &[BACK]], 0), 30_000),
        (of(&[Add(0)], &[&[Delete], &[Delete, Add(1)]], 0), 9_000),
        (
            of(&[Add(0), Add(2)], &[&[Delete], &[Remove(0)], &[BACK]], 0),
            8_000,
        ),
        (of(&[Add(0)], &[&[Delete, Add(0)], &[Remove(0)]], 0), 1_000),
    ]);
}

#[test]
#[ignore = "takes minutes"]
fn a_deletion_while_buckets_are_made_loses_nothing() {
    let deleted_twice = |add| of(&[Add(0)], &[&[Delete], &[Delete], &[add]], 0);
    holds(&[
        (of(&[Add(0)], &[&[Delete], &[Add(2)], &[FORTH]], 0), 150_000),
        (deleted_twice(Add(1)), 1_000_000),
        (deleted_twice(Add(2)), 2_000_000),
    ]);
}

#[test]
fn other_collections_of_the_record_change_nothing() {
    holds(&[
        (
            of(&[Add(0)], &[&[Neighbor, Neighbor], &[Delete], &[Add(2)]], 0),
            30_000,
        ),
        (of(&[Neighbor], &[&[Neighbor], &[Add(0)]], 0), 50),
        // The keys change hands.
        (
            of(&[Add(0)], &[&[Delete, Neighbor, Add(0)], &[Remove(0)]], 0),
            1_000,
        ),
    ]);
}

#[test]
fn what_expires_takes_nothing_else_with_it() {
    let expiry: &[TimeOp] = &[Horizon(bucket_of(2)), Reap];
    holds(&[
        (
            of(&[Add(0), Add(2)], &[expiry, &[FORTH], &[Remove(0)]], 0),
            100,
        ),
        (of(&[Add(0)], &[expiry, &[Add(2)], &[BACK]], 0), 200),
        (of(&[Add(0)], &[expiry, &[Add(2)], &[Delete]], 0), 7_000),
    ]);
}

/// The same, with elements of another year.
fn first_of_a_year(processes: &[&[TimeOp]]) -> TimeScenario {
    TimeScenario {
        elements: 6,
        ..of(&[Add(0)], processes, 0)
    }
}

#[test]
fn no_guard_can_be_left_out() {
    let deleted_twice = of(&[Add(0)], &[&[Delete], &[Delete], &[Add(0)]], 0);
    let two_adders = TimeScenario {
        elements: 4,
        ..of(&[Add(0)], &[&[Add(2)], &[Add(3)]], 0)
    };
    let late_adders = of(&[Add(0)], &[&[Add(2)], &[Add(2)], &[Delete]], 0);
    for (hole, scenario) in [
        (TimeHole::BeginBears, of(&[], &[&[Add(0)], &[Add(1)]], 2)),
        (TimeHole::MarkBears, deleted_twice.clone()),
        (TimeHole::ClearBears, deleted_twice.clone()),
        (TimeHole::PlacedOlder, two_adders.clone()),
        (TimeHole::OpenPlaced, two_adders.clone()),
        (TimeHole::OpenToken, late_adders),
        (
            TimeHole::DisplacePlaced,
            first_of_a_year(&[&[Add(4)], &[Add(4)], &[Delete]]),
        ),
        (TimeHole::DeletedOlder, deleted_twice),
        (
            TimeHole::EnterOpen,
            first_of_a_year(&[&[Add(4)], &[Add(5)]]),
        ),
        (TimeHole::ActOpen, two_adders),
    ] {
        let with_hole = TimeScenario {
            hole: Some(hole),
            ..scenario.clone()
        };
        sample(&scenario, 100).unwrap();
        match sample(&with_hole, RUNS_MAX).and_then(|()| explore(&with_hole)) {
            Err(why) => println!("without {hole:?}: {}", why.lines().next().unwrap()),
            Ok(explored) => panic!("{hole:?} is not missed: {explored:?}"),
        }
    }
}

#[test]
fn no_rule_can_be_left_out() {
    let one_deletion = of(&[Add(0)], &[&[Delete], &[Add(2)]], 0);
    for (rule, scenario) in [
        (ProtocolRule::Evidence, one_deletion.clone()),
        (
            ProtocolRule::EnterBeforeEvidence,
            of(&[Add(0)], &[&[Add(2)], &[Add(2)]], 0),
        ),
        (ProtocolRule::ReadersAdvanceDeletion, one_deletion.clone()),
        (ProtocolRule::PageBehindChildren, one_deletion),
        (
            ProtocolRule::AbsentByFreshRoute,
            of(&[Add(0)], &[&[Delete, Neighbor, Add(0)], &[Remove(0)]], 0),
        ),
    ] {
        assert!(explore(&scenario).is_ok(), "{rule:?}");
        match without(rule, || explore(&scenario)) {
            Err(why) => println!("without {rule:?}: {}", why.lines().next().unwrap()),
            Ok(explored) => panic!("{rule:?} is not missed: {explored:?}"),
        }
    }
}
