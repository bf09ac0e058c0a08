//! Operations on records, rule by rule, and the fast paths against the plain ones.

mod builders;
mod properties;
mod records;
mod results;
mod scalars;
mod values;

use super::operations::{self, lists};
use super::{Checked, Mode, Operation, OperationResult, OperationResults};
use crate::Result;
use crate::cdt::{ListPolicy, ListReturnType as Return, ListWriteFlags as Flags};
use crate::record::{Bins, RecordView};
use crate::value::{ListOrder, ParticleType, Value};

fn bins<const N: usize>(entries: [(&str, Value); N]) -> Bins {
    let mut bins = Bins::new();
    for (name, value) in entries {
        bins.set(name, value).unwrap();
    }
    bins
}

fn body_of(bins: &Bins) -> Vec<u8> {
    let mut body = Vec::new();
    bins.write_body(&mut body).unwrap();
    body
}

fn bins_of(body: &[u8]) -> Bins {
    RecordView::parse(body).unwrap().to_bins().unwrap()
}

fn ints(items: &[i64]) -> Value {
    items
        .iter()
        .map(|item| Value::Int(*item))
        .collect::<Vec<_>>()
        .into()
}

fn ordered(items: &[i64]) -> Value {
    let items = items.iter().map(|item| Value::Int(*item)).collect();
    crate::value::List::new(items, ListOrder::Ordered).into()
}

/// Executes writing operations: the new body and the results.
fn execute_in(
    mode: Mode,
    old: Option<&Bins>,
    operations: &[Operation],
) -> Result<(Vec<u8>, Vec<OperationResult>)> {
    let old = old.map(body_of);
    let old = old.as_ref().map(|old| RecordView::parse(old).unwrap());
    let mut body = Vec::new();
    let mut results = OperationResults::default();
    let bin_count = Checked::new(operations, mode)?.execute(old, &mut body, &mut results)?;
    assert_eq!(RecordView::parse(&body).unwrap().len(), bin_count as usize);
    Ok((body, results.into()))
}

fn execute(old: Option<&Bins>, operations: &[Operation]) -> Result<(Bins, Vec<OperationResult>)> {
    let (body, results) = execute_in(Mode::empty(), old, operations)?;
    Ok((bins_of(&body), results))
}

fn read(record: &Bins, operations: &[Operation], mode: Mode) -> Result<Vec<OperationResult>> {
    let body = body_of(record);
    let mut results = OperationResults::default();
    let record = RecordView::parse(&body).unwrap();
    Checked::new(operations, mode)?.read_into(record, &mut results)?;
    Ok(results.into())
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> u8 {
    result.unwrap_err().result_code()
}

/// Results as (operation, bin, value).
fn plain(results: &[OperationResult]) -> Vec<(usize, &str, Value)> {
    results
        .iter()
        .map(|r| (r.operation, r.bin.as_str(), r.value.clone()))
        .collect()
}
