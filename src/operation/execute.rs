//! The run of operations that write.

use super::action::{Operation, OperationAction};
use super::bin_value::{check_bin_value, check_stored_bin_value};
use super::change::{BinChange, SettledChange, not_storable};
use super::check::{Checked, Mode};
use super::read::{ReadResults, read_all, read_bin};
use super::results::ResultSink;
use super::scalar;
use super::slots::Slots;
use crate::Result;
use crate::call::{CallError, CallReply};
use crate::cdt::with_index;
use crate::expression::{EvaluatedWrite, Scope};
use crate::record::body::{checked_bin_count, write_varint};
use crate::record::{BinName, RecordView};
use crate::value::{ParticleType, Value, from_wire};

impl Checked<'_> {
    /// Executes the operations in their order on `old`, appends the body of the new record to `out`
    /// and hands the results to `sink`. Returns how many bins the new record has; with none, it is
    /// to be deleted. A failing operation ends the run; throw the bytes in `out` away then.
    ///
    /// One write at the end of the operations, the common case, copies the record's bytes once;
    /// other runs copy each changed bin once more.
    ///
    /// # Errors
    /// The error of the first failing operation, or the sink's own; [`crate::Error::Parameter`] if
    /// there would be too many bins.
    pub(crate) fn execute(
        &self,
        old: Option<RecordView<'_>>,
        out: &mut Vec<u8>,
        sink: &mut dyn ResultSink,
    ) -> Result<u32> {
        let old = old.filter(|_| !self.mode.contains(Mode::REPLACE));
        let mut results = ReadResults::new(self.mode, sink);
        match self.single_write() {
            Some((operation, reads)) => self.run_single(operation, reads, old, &mut results, out),
            None => self.run(old, &mut results, out),
        }
    }

    /// The only write and the reads before it, if the write is the last operation and about one
    /// bin.
    fn single_write(&self) -> Option<(&Operation, &[Operation])> {
        let (last, reads) = self.operations.split_last()?;
        let single = last.is_write()
            && !matches!(
                last.action,
                OperationAction::Touch | OperationAction::DeleteAll
            )
            && !reads.iter().any(|operation| {
                operation.is_write() || operation.action == OperationAction::ReadAll
            });
        single.then_some((last, reads))
    }

    /// Reads from the old record, then writes the new one with its one changed bin.
    fn run_single(
        &self,
        operation: &Operation,
        reads: &[Operation],
        old: Option<RecordView<'_>>,
        results: &mut ReadResults<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        let scope = Scope {
            facts: self.facts,
            bins: Some(&old),
        };
        for (at, operation) in reads.iter().enumerate() {
            let bin = operation.bin()?;
            let current = old
                .and_then(|old| old.find(bin.as_bytes()))
                .map(|bin| (bin.kind, bin.value));
            results.add(at, bin, read_bin(operation, bin, current, scope)?)?;
        }
        let bin = operation.bin()?;
        let located = old.and_then(|old| old.locate(bin.as_bytes()));
        let current = located.map(|located| (located.bin.kind, located.bin.value));
        let mut change = BinChange::None;
        let reply = write_bin(operation, bin, current, scope, &mut change)?;
        results.add(reads.len(), bin, reply)?;

        let old_count = old.map_or(0, |old| old.len());
        match (&change, located) {
            // The last bin takes the place of a removed one (semantics.md#keys-sets-and-bins), so
            // the bytes around it cannot be copied as they are.
            (BinChange::Remove, Some(_)) => {
                let mut slots = Slots::of(old);
                slots.apply(*bin, SettledChange::Removed)?;
                slots.write(out)
            }
            (BinChange::None, _) | (BinChange::Remove, None) => {
                out.extend_from_slice(old.map_or(&[0], |old| old.as_bytes()));
                checked_bin_count(old_count)
            }
            (change, Some(located)) => {
                let count = checked_bin_count(old_count)?;
                out.reserve(located.before.len() + located.after.len());
                write_varint(out, count);
                out.extend_from_slice(located.before);
                change.write_bin(bin, out)?;
                out.extend_from_slice(located.after);
                Ok(count)
            }
            (change, None) => {
                let count = checked_bin_count(old_count + 1)?;
                write_varint(out, count);
                out.extend_from_slice(old.map_or(&[], |old| old.bin_bytes()));
                change.write_bin(bin, out)?;
                Ok(count)
            }
        }
    }

    /// Executes any operations, one after the other, then writes the resulting bins.
    fn run(
        &self,
        old: Option<RecordView<'_>>,
        results: &mut ReadResults<'_>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        let mut slots = Slots::of(old);
        for (at, operation) in self.operations.iter().enumerate() {
            match &operation.action {
                OperationAction::Touch => {}
                OperationAction::ReadAll => read_all(at, slots.iter(), results)?,
                OperationAction::DeleteAll => {
                    // What a later operation puts into an owned bin would take the place of edges.
                    if let Some(facts) = self.facts.filter(|_| !self.only_deletes()) {
                        slots
                            .iter()
                            .try_for_each(|(bin, ..)| facts.owned.check_set(&bin))?;
                    }
                    slots.clear();
                    results.add(at, &BinName::EMPTY, None)?;
                }
                _ => {
                    let bin = operation.bin()?;
                    let scope = Scope {
                        facts: self.facts,
                        bins: Some(&slots),
                    };
                    if operation.is_write() {
                        let mut change = BinChange::None;
                        let current = slots.get(bin);
                        let reply = write_bin(operation, bin, current, scope, &mut change)?;
                        results.add(at, bin, reply)?;
                        let change = change.settle()?;
                        slots.apply(*bin, change)?;
                    } else {
                        let reply = read_bin(operation, bin, slots.get(bin), scope)?;
                        results.add(at, bin, reply)?;
                    }
                }
            }
        }
        slots.write(out)
    }
}

/// Executes an operation that writes one bin, as far as the change that it makes: it is put where
/// the caller wants it, since it is large.
fn write_bin<'a>(
    operation: &'a Operation,
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    scope: Scope<'a>,
    change: &mut BinChange<'a>,
) -> Result<Option<CallReply<'a>>> {
    let is_whole = !matches!(
        &operation.action,
        OperationAction::Collection { .. } | OperationAction::Call(_)
    );
    if let (true, Some(facts)) = (is_whole, scope.facts) {
        match &operation.action {
            OperationAction::Write(Value::Nil)
            | OperationAction::WriteEncoded(ParticleType::Null, _) => {
                facts.owned.check_removed(bin)?;
            }
            _ => facts.owned.check_set(bin)?,
        }
    }
    let in_bin = |error: CallError| error.in_bin(bin.as_str());
    *change = match &operation.action {
        OperationAction::Read
        | OperationAction::ReadAll
        | OperationAction::Touch
        | OperationAction::DeleteAll => BinChange::None,
        OperationAction::Write(value) => {
            check_bin_value(value)?;
            BinChange::write(value)
        }
        OperationAction::WriteEncoded(ParticleType::Null, _) => BinChange::Remove,
        OperationAction::WriteEncoded(kind, value) => {
            let mut stored = Vec::with_capacity(value.len());
            from_wire(*kind, value, &mut stored).map_err(not_storable)?;
            check_stored_bin_value(*kind, &stored)?;
            BinChange::Stored(*kind, with_index(*kind, stored).map_err(in_bin)?)
        }
        OperationAction::Add(operand) => scalar::add(bin, current, operand)?,
        OperationAction::Join(end, operand) => scalar::join(bin, current, operand, *end)?,
        OperationAction::Collection { call, .. } => match call.modify(current) {
            Ok((edit, reply)) => {
                // Written once, in its place: it is large.
                if let Some(edit) = edit {
                    *change = BinChange::Collection(edit);
                }
                return Ok((!reply.is_nil()).then_some(reply));
            }
            Err(error) => return Err(in_bin(error)),
        },
        OperationAction::Call(call) => {
            let (made, reply) = call.write(current).map_err(in_bin)?;
            *change = made;
            return Ok((!reply.is_nil()).then_some(reply));
        }
        OperationAction::Evaluate { evaluation, .. } => {
            let evaluation = evaluation.as_ref().map_err(CallError::clone);
            let written =
                evaluation.and_then(|evaluation| evaluation.write(current.is_some(), scope));
            match written.map_err(in_bin)? {
                EvaluatedWrite::Same => BinChange::None,
                EvaluatedWrite::Removed => BinChange::Remove,
                EvaluatedWrite::Value(kind, value) => {
                    check_stored_bin_value(kind, &value)?;
                    BinChange::Stored(kind, value.into_owned())
                }
            }
        }
    };
    Ok(None)
}
