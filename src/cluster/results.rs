//! What a cluster answers, as what operations return.

use aerospike as theirs;

use super::link::failed;
use super::value::received;
use crate::operations::OperationResult;
use crate::record::BinName;
use crate::{OperateResult, Operation, Result, Value};

/// The name under which the size of the record comes back; it is no bin.
pub(super) const SIZE: &str = "record_size";

/// The result of a call. `asks_size`: the last operation that was sent is not the caller's, it
/// reads the record's size.
pub(super) fn decode(
    mut record: theirs::Record,
    operations: &[Operation],
    asks_size: bool,
) -> Result<OperateResult> {
    if asks_size {
        // It comes behind the answers for a bin of its name, if there is one.
        match record.bins.get_mut(SIZE) {
            Some(theirs::Value::MultiResult(answers)) => drop(answers.pop()),
            _ => drop(record.bins.swap_remove(SIZE)),
        }
    }
    let size = match (asks_size, &mut record.results) {
        (true, Some(results)) => results.pop(),
        _ => None,
    };
    let record_bytes = match size {
        Some(theirs::Value::Int(bytes)) => u64::try_from(bytes).unwrap_or_default(),
        _ => 0,
    };
    Ok(OperateResult {
        generation: u16::try_from(record.generation).unwrap_or(u16::MAX),
        record_bytes,
        void_time: record.expiration(),
        queued_behind: None,
        lsn: None,
        results: results(record, operations)?.into_iter().collect(),
    })
}

/// The results of the operations that have one. Nil is no result: a server answers it for a bin
/// that is not there.
fn results(record: theirs::Record, operations: &[Operation]) -> Result<Vec<OperationResult>> {
    let mut found = Vec::with_capacity(operations.len());
    let all = operations.iter().position(Operation::reads_all);
    if let Some(operation) = all {
        for (bin, value) in record.bins {
            push(&mut found, operation, BinName::new(&bin)?, value)?;
        }
        return Ok(found);
    }
    match record.results {
        Some(results) if results.len() == operations.len() => {
            for ((at, operation), value) in operations.iter().enumerate().zip(results) {
                push(&mut found, at, *operation.bin()?, value)?;
            }
        }
        _ => by_bin(record.bins, operations, &mut found)?,
    }
    Ok(found)
}

/// A server that leaves out bins which are not there leaves out all answers for such a bin.
fn by_bin(
    mut bins: theirs::IndexMap<String, theirs::Value>,
    operations: &[Operation],
    found: &mut Vec<OperationResult>,
) -> Result<()> {
    let mut names: Vec<BinName> = Vec::new();
    for operation in operations {
        names.push(*operation.bin()?);
    }
    for (first, bin) in names.iter().enumerate() {
        let Some(answer) = bins.swap_remove(bin.as_str()) else {
            continue;
        };
        let same = names.iter().enumerate().skip(first);
        let positions: Vec<usize> = same
            .filter(|(_, name)| *name == bin)
            .map(|(at, _)| at)
            .collect();
        let values = match answer {
            theirs::Value::MultiResult(values) => values,
            value => vec![value],
        };
        if values.len() != positions.len() {
            return Err(failed(format!(
                "the server gave {} answers for {} operations on bin \"{bin}\"",
                values.len(),
                positions.len()
            )));
        }
        for (at, value) in positions.into_iter().zip(values) {
            push(found, at, *bin, value)?;
        }
    }
    found.sort_by_key(|result| result.operation);
    Ok(())
}

fn push(
    found: &mut Vec<OperationResult>,
    operation: usize,
    bin: BinName,
    value: theirs::Value,
) -> Result<()> {
    match received(value)? {
        Value::Nil => {}
        value => found.push(OperationResult {
            operation,
            bin,
            value,
        }),
    }
    Ok(())
}
