//! The transaction phases: transfers between two of many accounts, without syncs by as many threads
//! as asked for, and with a sync at each commit by eight.

use crate::cost::Meter;
use crate::draw::{Random, record_key, value};
use crate::measure::{Measured, measure};
use crate::plan::{Phase, Plan, Session};
use crate::report::Report;
use crate::stores::accounts::{AccountStore, with_balance};
use crate::stores::{Commit, Key, StoreName, Value};
use crate::{Opened, Result};
use std::time::Duration;

/// The initial balance of every account.
const BALANCE: i64 = 1_000;
/// Accounts of one call of `load`.
const BATCH_ACCOUNTS: u64 = 1_000;
/// Added to a phase's seed for its warm-up.
const WARM_UP: u64 = 0x3a55;

/// Runs the phases of a session on a store of their own.
///
/// # Errors
/// Errors of the store; balances with a changed sum.
pub fn run(
    plan: &Plan,
    round: usize,
    threads: usize,
    name: StoreName,
    phases: &[Phase],
    report: &mut Report,
) -> Result<()> {
    let accounts = plan.accounts();
    let mut opened = Opened::new(plan, |dir| name.open_accounts(dir, Commit::Unsynced))?;
    load(opened.store.as_ref(), accounts)?;
    opened.store.sync()?;
    for phase in phases.iter().copied() {
        if phase.session() == Session::DurableTransfers {
            opened = opened.reopen(|dir| name.open_accounts(dir, Commit::Synced))?;
        }
        let (store, dir) = (opened.store.as_ref(), opened.dir.path());
        let meter = Meter::start(store, dir)?;
        let (seed, span) = (phase as u64, plan.span_of(phase));
        let warm_up = plan.warm_up_of(phase);
        let warm = transfers(store, accounts, threads, seed + WARM_UP, round, warm_up)?;
        let measured = transfers(store, accounts, threads, seed, round, span)?;
        let operations = warm.operations + measured.operations;
        let cost = meter.stop(store, dir, operations)?;
        report.add(phase, threads, name, measured, cost);
    }
    check(opened.store.as_ref(), accounts)
}

fn load(store: &dyn AccountStore, accounts: u64) -> Result<()> {
    let mut random = Random::new(0, 0, 0);
    for first in (0..accounts).step_by(BATCH_ACCOUNTS as usize) {
        let numbers = first..accounts.min(first + BATCH_ACCOUNTS);
        let account = |number| {
            let value = with_balance(&value(number, &mut random), BALANCE)?;
            Ok((record_key(number), value))
        };
        store.load(
            &numbers
                .map(account)
                .collect::<Result<Vec<(Key, Value)>>>()?,
        )?;
    }
    Ok(())
}

/// Transfers between uniformly drawn accounts, each a transaction.
fn transfers(
    store: &dyn AccountStore,
    accounts: u64,
    threads: usize,
    seed: u64,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    measure(threads, Some(span), |thread| {
        let mut random = Random::new(seed, round, thread);
        let draw = move || {
            let from = random.below(accounts);
            // Another account than the first: stores that lock records lock both.
            let to = (from + 1 + random.below(accounts - 1)) % accounts;
            Some((record_key(from), record_key(to), random.below(100) as i64))
        };
        (draw, |(from, to, amount): &(Key, Key, i64)| {
            store.transfer(from, to, *amount)
        })
    })
}

/// Whether the accounts still hold what they held in all.
fn check(store: &dyn AccountStore, accounts: u64) -> Result<()> {
    let mut sum = 0;
    for number in 0..accounts {
        sum += store.balance(&record_key(number))?;
    }
    let expected = BALANCE * accounts as i64;
    if sum != expected {
        return Err(format!("the accounts hold {sum}, not {expected}").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::accounts::TAKE_PART;
    use clap::Parser;

    #[test]
    fn all_phases_run_on_every_store() {
        let plan = Plan::parse_from(["peers", "--short", "--accounts", "20"]);
        for name in TAKE_PART.iter().copied() {
            for (session, threads) in [(Session::Transfers, 2), (Session::DurableTransfers, 8)] {
                let phases = plan.phases_of(session, name);
                assert_eq!(phases.len(), 1, "{name:?}");
                let mut report = Report::default();
                run(&plan, 0, threads, name, &phases, &mut report).unwrap();
            }
        }
    }

    #[test]
    fn money_that_is_lost_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Heed
            .open_accounts(dir.path(), Commit::Unsynced)
            .unwrap();
        load(store.as_ref(), 3).unwrap();
        check(store.as_ref(), 3).unwrap();
        let poorer = with_balance(&value(1, &mut Random::new(0, 0, 0)), 1).unwrap();
        store.load(&[(record_key(1), poorer)]).unwrap();
        let said = check(store.as_ref(), 3).unwrap_err().to_string();
        assert_eq!(said, "the accounts hold 2001, not 3000");
    }
}
