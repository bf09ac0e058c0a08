//! The run of operations that only reads: straight from the record's bytes, no copy of the body.

use super::check::{Checked, Mode};
use super::{Action, Operation, OperationResult, evaluate};
use crate::expression::Scope;
use crate::record::{BinName, RecordView};
use crate::value::{ParticleType, Value, ValueRef};
use crate::{Error, Result};

/// What an operation has to say.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// A value.
    Value(Value),
    /// A result that is nil.
    Null,
    /// No result, unless every operation must have one.
    Nothing,
}

/// Collects results by the rules of 2.10.
#[derive(Debug)]
pub(super) struct Results {
    respond_all: bool,
    pub(super) results: Vec<OperationResult>,
}

impl Results {
    pub(super) const fn new(mode: Mode) -> Self {
        Self {
            respond_all: mode.contains(Mode::RESPOND_ALL),
            results: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, operation: usize, bin: BinName, answer: Answer) {
        let value = match answer {
            Answer::Value(value) => value,
            Answer::Nothing if !self.respond_all => return,
            Answer::Null | Answer::Nothing => Value::Nil,
        };
        self.results.push(OperationResult {
            operation,
            bin,
            value,
        });
    }
}

impl Checked<'_> {
    /// Executes operations that only read.
    ///
    /// # Errors
    /// [`Error::Parameter`] if one of them writes; whatever the first failing operation fails with.
    pub(crate) fn read(&self, record: RecordView<'_>) -> Result<Vec<OperationResult>> {
        let mut results = Results::new(self.mode);
        let scope = Scope {
            facts: self.facts,
            bins: Some(&record),
        };
        for (at, operation) in self.operations.iter().enumerate() {
            if operation.is_write() {
                return Err(Error::parameter(
                    "an operation that writes in a call that only reads",
                ));
            }
            if operation.action == Action::ReadAll {
                read_all(
                    at,
                    record
                        .raw_bins()
                        .map(|bin| (bin.bin_name(), bin.kind, bin.value)),
                    &mut results,
                )?;
                continue;
            }
            let bin = operation.bin()?;
            let current = record.find(bin.as_bytes()).map(|bin| (bin.kind, bin.value));
            let answer = match read_bin(operation, &bin, current, scope)? {
                Answer::Null => Answer::Nothing,
                answer => answer,
            };
            results.add(at, bin, answer);
        }
        Ok(results.results)
    }
}

/// Adds the values of all bins.
pub(super) fn read_all<'a>(
    operation: usize,
    bins: impl Iterator<Item = (BinName, ParticleType, &'a [u8])>,
    results: &mut Results,
) -> Result<()> {
    for (bin, kind, value) in bins {
        results.add(operation, bin, Answer::Value(decoded(kind, value)?));
    }
    Ok(())
}

/// Executes an operation that reads one bin.
pub(super) fn read_bin(
    operation: &Operation,
    bin: &BinName,
    current: Option<(ParticleType, &[u8])>,
    scope: Scope<'_>,
) -> Result<Answer> {
    if let Action::Evaluate { evaluation, .. } = &operation.action {
        return evaluate::read(evaluation, bin, scope);
    }
    let Some((kind, value)) = current else {
        return Ok(Answer::Nothing);
    };
    match &operation.action {
        Action::Call(call) => call.read(bin, kind, value),
        _ => decoded(kind, value).map(Answer::Value),
    }
}

fn decoded(kind: ParticleType, value: &[u8]) -> Result<Value> {
    ValueRef::stored(kind, value)
        .and_then(|value| value.to_value())
        .map_err(|source| Error::malformed("bin", source))
}
