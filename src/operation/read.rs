//! The run of operations that only reads: straight from the record's bytes, no copy of the body.

use std::borrow::Cow;

use super::action::{Operation, OperationAction};
use super::check::{Checked, Mode};
use super::results::{OperationResults, ResultSink};
use crate::call::{CallError, CallReply};
use crate::cdt::PreparedCall;
use crate::expression::Scope;
use crate::record::{BinName, RecordView};
use crate::value::{ParticleType, ValueRef};
use crate::{Error, Result};

/// Hands results on by the rules of semantics.md#results-of-operations.
pub(super) struct ReadResults<'s> {
    respond_all: bool,
    sink: &'s mut dyn ResultSink,
}

impl<'s> ReadResults<'s> {
    pub(super) fn new(mode: Mode, sink: &'s mut dyn ResultSink) -> Self {
        Self {
            respond_all: mode.contains(Mode::RESPOND_ALL),
            sink,
        }
    }

    /// Hands on the reply of an operation. `None`: it has no result, unless every operation must
    /// have one.
    pub(super) fn add(
        &mut self,
        operation: usize,
        bin: &BinName,
        reply: Option<CallReply<'_>>,
    ) -> Result<()> {
        match reply.or_else(|| self.respond_all.then_some(CallReply::Nil)) {
            Some(reply) => self.sink.add(operation, bin, reply),
            None => Ok(()),
        }
    }
}

impl Checked<'_> {
    /// Executes operations that only read, and hands their results to `sink`.
    ///
    /// # Errors
    /// [`Error::Parameter`] if one of them writes; the error of the first failing operation or of
    /// the sink.
    pub(crate) fn read_into(
        &self,
        record: RecordView<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let mut results = ReadResults::new(self.mode, sink);
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
            if let OperationAction::ReadAll = operation.action {
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
            let reply = read_bin(operation, bin, current, scope)?;
            results.add(at, bin, reply.filter(|reply| !reply.is_nil()))?;
        }
        Ok(())
    }
}

/// The most common read of all: one operation on one list or map, without an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleRead<'o> {
    bin: &'o BinName,
    call: &'o PreparedCall,
}

impl<'o> SingleRead<'o> {
    /// The operations, if they are one such read.
    #[inline]
    pub(crate) fn of(operations: &'o [Operation]) -> Option<Self> {
        match operations {
            [
                Operation {
                    bin: Ok(bin),
                    action: OperationAction::Collection { call, .. },
                },
            ] if !call.writes() => Some(Self { bin, call }),
            _ => None,
        }
    }

    /// Executes it on the body of a stored record, and adds its result to `results`.
    ///
    /// # Errors
    /// As for [`Checked::read_into`].
    #[inline]
    pub(crate) fn read_into(&self, body: &[u8], results: &mut OperationResults) -> Result<()> {
        let reply = self.reply(body)?;
        if reply.is_nil() {
            return Ok(());
        }
        results.add(0, self.bin, reply)
    }

    /// Executes it on the body of a stored record, and lends the result to `look`; `None` if the
    /// operation has no result.
    ///
    /// # Errors
    /// As for [`SingleRead::read_into`]: `look` is not called then.
    #[inline]
    pub(crate) fn lend<R>(
        &self,
        body: &[u8],
        look: impl FnOnce(Option<ValueRef<'_>>) -> R,
    ) -> Result<R> {
        let lent = self.reply(body)?.lend(look);
        lent.map_err(|source| Error::malformed("bin", source))
    }

    #[inline]
    fn reply<'a>(&'a self, body: &'a [u8]) -> Result<CallReply<'a>> {
        let Some(found) = RecordView::find_in(body, self.bin.as_bytes())? else {
            return Ok(CallReply::Nil);
        };
        let reply = self.call.read(found.kind, found.value);
        reply.map_err(|error| error.in_bin(self.bin.as_str()))
    }
}

/// Adds the values of all bins.
pub(super) fn read_all<'a>(
    operation: usize,
    bins: impl Iterator<Item = (BinName, ParticleType, &'a [u8])>,
    results: &mut ReadResults<'_>,
) -> Result<()> {
    for (bin, kind, value) in bins {
        let value = CallReply::Stored(kind, Cow::Borrowed(value));
        results.add(operation, &bin, Some(value))?;
    }
    Ok(())
}

/// Executes an operation that reads one bin. `None`: there is no such bin.
pub(super) fn read_bin<'a>(
    operation: &'a Operation,
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    scope: Scope<'a>,
) -> Result<Option<CallReply<'a>>> {
    let read = match (&operation.action, current) {
        (OperationAction::Evaluate { evaluation, .. }, _) => evaluation
            .as_ref()
            .map_err(CallError::clone)
            .and_then(|evaluation| evaluation.read(scope)),
        (_, None) => return Ok(None),
        (OperationAction::Collection { call, .. }, Some((kind, value))) => call.read(kind, value),
        (OperationAction::Call(call), Some((kind, value))) => call.read(kind, value),
        (_, Some((kind, value))) => Ok(CallReply::Stored(kind, Cow::Borrowed(value))),
    };
    match read {
        Ok(reply) => Ok(Some(reply)),
        Err(error) => Err(error.in_bin(bin.as_str())),
    }
}
