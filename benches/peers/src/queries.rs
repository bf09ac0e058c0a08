//! The query phases: records with a secondary key, read in pages by it, scanned, and moved to
//! another key.

use crate::cost::Meter;
use crate::draw::{Random, is_value_of, value};
use crate::measure::{Measured, measure};
use crate::plan::{Phase, Plan};
use crate::report::Report;
use crate::stores::StoreName;
use crate::stores::queries::{Child, Parent, QueryStore, number_of};
use crate::{Opened, Result};
use std::time::Duration;

/// Records of each parent before the first is moved to another.
const CHILDREN: u64 = 50;
/// Records of a query over several parents.
const RANGE_RECORDS: usize = 1_000;
/// One in this number of records passes the filter of the scan.
const PASSES: u64 = 1_000;
/// Records of one call of `load`.
const BATCH_RECORDS: u64 = 1_000;
/// Seed of the bodies.
const LOAD: u64 = 0x9e4;
/// Added to a phase's seed for its warm-up.
const WARM_UP: u64 = 0x3a54;

/// The secondary key of this number; in the order of the numbers.
pub fn parent(number: u64) -> Parent {
    let mut parent = *b"parent-000000000";
    let mut left = number;
    for digit in parent.iter_mut().rev().take(9) {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    parent
}

/// Numbers of the records and of their parents.
#[derive(Clone, Copy, Debug)]
struct Size {
    records: u64,
    parents: u64,
}

/// Runs the phases on a store of their own.
///
/// # Errors
/// Errors of the store; a wrong answer.
pub fn run(
    plan: &Plan,
    round: usize,
    name: StoreName,
    phases: &[Phase],
    report: &mut Report,
) -> Result<()> {
    let records = plan.query_records();
    let size = Size {
        records,
        parents: records.div_ceil(CHILDREN),
    };
    let opened = Opened::new(plan, |dir| name.open_queries(dir))?;
    let (store, dir) = (opened.store.as_ref(), opened.dir.path());
    let meter = Meter::start(store, dir)?;
    let loaded = load(store, size)?;
    let cost = meter.stop(store, dir, records)?;
    if phases.contains(&Phase::QueryLoad) {
        report.add(Phase::QueryLoad, 1, name, loaded, cost);
    }
    for phase in phases
        .iter()
        .copied()
        .filter(|phase| *phase != Phase::QueryLoad)
    {
        let meter = Meter::start(store, dir)?;
        let mut operations = 0;
        if phase == Phase::QueryUpdate {
            operations += update(store, size, WARM_UP, round, plan.warm_up_of(phase))?.operations;
        }
        let span = plan.span_of(phase);
        let measured = match phase {
            Phase::QueryPage => pages(store, size, round, span)?,
            Phase::QueryRange => ranges(store, size, round, span)?,
            Phase::QueryScan => scans(store, size, span)?,
            _ => update(store, size, phase as u64, round, span)?,
        };
        operations += measured.operations;
        report.add(
            phase,
            1,
            name,
            measured,
            meter.stop(store, dir, operations)?,
        );
    }
    check_index(store, size)
}

/// Loads all records; an operation is a batch of [`BATCH_RECORDS`], rates are of records.
fn load(store: &dyn QueryStore, size: Size) -> Result<Measured> {
    let mut loaded = measure(1, None, |thread| {
        let mut firsts = (0..size.records).step_by(BATCH_RECORDS as usize);
        let mut random = Random::new(LOAD, 0, thread);
        let draw = move || {
            let first = firsts.next()?;
            let numbers = first..size.records.min(first + BATCH_RECORDS);
            let child = |number| Child {
                number,
                parent: parent(number % size.parents),
                body: value(number, &mut random),
            };
            Some(numbers.map(child).collect())
        };
        (draw, |batch: &Vec<Child>| store.load(batch))
    })?;
    loaded.operations = size.records;
    Ok(loaded)
}

/// Reads all records of uniformly drawn parents; an operation is a page.
fn pages(store: &dyn QueryStore, size: Size, round: usize, span: Duration) -> Result<Measured> {
    measure(1, Some(span), |thread| {
        let mut random = Random::new(Phase::QueryPage as u64, round, thread);
        let draw = move || Some(random.below(size.parents));
        (draw, move |number: &u64| page(store, size, *number))
    })
}

fn page(store: &dyn QueryStore, size: Size, number: u64) -> Result<()> {
    let asked = parent(number);
    let (mut found, mut wrong) = (0, 0);
    store.of_parent(&asked, CHILDREN as usize, &mut |parent, body| {
        found += 1;
        let is_child = number_of(body) % size.parents == number;
        wrong += u64::from(parent != asked || !is_child);
    })?;
    let children = (size.records - number).div_ceil(size.parents);
    right(found, children, wrong)
}

/// Reads [`RANGE_RECORDS`] records from a uniformly drawn parent on; rates are of records.
fn ranges(store: &dyn QueryStore, size: Size, round: usize, span: Duration) -> Result<Measured> {
    let limit = RANGE_RECORDS.min(size.records as usize);
    let last = size.parents - (limit as u64).div_ceil(CHILDREN).min(size.parents);
    let mut measured = measure(1, Some(span), |thread| {
        let mut random = Random::new(Phase::QueryRange as u64, round, thread);
        let draw = move || Some(random.below(last.max(1)));
        (draw, move |number: &u64| {
            let asked = parent(*number);
            let (mut found, mut wrong) = (0, 0);
            store.range_from(&asked, limit, &mut |parent, body| {
                found += 1;
                wrong += u64::from(parent < asked.as_slice() || !is_value(body));
            })?;
            right(found, limit as u64, wrong)
        })
    })?;
    measured.operations *= limit as u64;
    Ok(measured)
}

fn is_value(body: &[u8]) -> bool {
    is_value_of(number_of(body), body)
}

/// Looks at all records for the few that pass a filter; an operation is a scan, rates are of
/// records looked at.
fn scans(store: &dyn QueryStore, size: Size, span: Duration) -> Result<Measured> {
    let end = size.records.div_ceil(PASSES);
    let mut measured = measure(1, Some(span), |_| {
        (
            || Some(()),
            |(): &()| {
                let (mut found, mut wrong) = (0, 0);
                store.scan(end, &mut |_, body| {
                    found += 1;
                    wrong += u64::from(number_of(body) >= end);
                })?;
                right(found, end, wrong)
            },
        )
    })?;
    measured.operations *= size.records;
    Ok(measured)
}

/// Gives uniformly drawn records another parent, each in a transaction of its own.
fn update(
    store: &dyn QueryStore,
    size: Size,
    seed: u64,
    round: usize,
    span: Duration,
) -> Result<Measured> {
    measure(1, Some(span), |thread| {
        let mut random = Random::new(seed, round, thread);
        let draw = move || {
            Some((
                random.below(size.records),
                parent(random.below(size.parents)),
            ))
        };
        (draw, |(number, parent): &(u64, Parent)| {
            store.set_parent(*number, parent)
        })
    })
}

fn right(found: u64, expected: u64, wrong: u64) -> Result<()> {
    if (found, wrong) == (expected, 0) {
        return Ok(());
    }
    Err(format!("a query found {found} records, {wrong} of them wrong, not {expected}").into())
}

/// Reads everything by the index: each record once, in the order of the parents.
fn check_index(store: &dyn QueryStore, size: Size) -> Result<()> {
    let mut seen = vec![false; size.records as usize];
    let (mut wrong, mut before) = (0, Vec::new());
    store.range_from(&parent(0), usize::MAX >> 1, &mut |parent, body| {
        let seen = seen.get_mut(number_of(body) as usize);
        let is_new = seen.is_some_and(|seen| !std::mem::replace(seen, true));
        wrong += u64::from(!is_new || parent < before.as_slice());
        before.clear();
        before.extend_from_slice(parent);
    })?;
    let found = seen.iter().filter(|seen| **seen).count() as u64;
    right(found, size.records, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::queries::TAKE_PART;
    use clap::Parser;

    #[test]
    fn all_phases_run_on_every_store() {
        let plan = Plan::parse_from(["peers", "--short", "--query-records", "2030"]);
        for name in TAKE_PART {
            let phases = plan.phases_of(crate::plan::Session::Queries, name);
            assert_eq!(phases.len(), 5, "{name:?}");
            let mut report = Report::default();
            run(&plan, 0, name, &phases, &mut report).unwrap();
        }
    }

    #[test]
    fn a_lost_and_a_wrong_record_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::SqliteMemory.open_queries(dir.path()).unwrap();
        let size = Size {
            records: 500,
            parents: 10,
        };
        load(store.as_ref(), size).unwrap();
        let span = Duration::from_millis(1);
        pages(store.as_ref(), size, 0, span).unwrap();
        check_index(store.as_ref(), size).unwrap();
        let more = Size {
            records: 501,
            ..size
        };
        let said = check_index(store.as_ref(), more).unwrap_err().to_string();
        assert_eq!(said, "a query found 500 records, 0 of them wrong, not 501");
        for other in 0..10 {
            store.set_parent(other, &parent(other + 1)).unwrap();
        }
        let said = pages(store.as_ref(), size, 0, span)
            .unwrap_err()
            .to_string();
        assert!(said.contains("of them wrong"), "{said}");
    }

    #[test]
    fn parents_are_ordered_as_their_numbers() {
        let parents = [0, 9, 10, 99, 100, 19_999].map(parent);
        assert!(parents.is_sorted());
        assert_eq!(&parents[5], b"parent-000019999");
    }
}
