//! A store and the model, side by side.

use spikelet::value::{List, Map};
use spikelet::{ListOrder, Set, Value, operations};

use super::convert;
use super::model::call::Call;
use super::model::{Bin, Code, apply};

const BIN: &str = "bin";
/// Keeps the record alive.
const OTHER: &str = "other";

/// Runs calls one after the other in the store and in the model.
pub fn compare(set: &Set, start: &Value, calls: &[Call]) -> Result<(), String> {
    set.delete("k").unwrap();
    set.put("k", [(BIN, start.clone()), (OTHER, 1.into())])
        .unwrap();
    let mut bin = Bin::of(start.clone());
    for (at, call) in calls.iter().enumerate() {
        let before = bin.clone();
        let expected = match apply(&bin, call) {
            Ok((after, result)) => {
                bin = after;
                Ok(result)
            }
            Err(code) => Err(code),
        };
        let got = execute(set, call, &expected)?;
        let record = set.get("k").unwrap().unwrap();
        let stored = record.get(BIN);
        if got == expected && stored != bin.value && same_but_for_ties(&stored, &bin.value) {
            return Ok(());
        }
        if got != expected || stored != bin.value {
            return Err(format!(
                "call {at}: {call:?}\non {before:?}\n  got  {got:?}\n  must {expected:?}\n  bin  {stored:?}\n  must {:?}",
                bin.value
            ));
        }
    }
    Ok(())
}

/// Whether two bins differ only in how equal elements of ordered lists follow each other, which is
/// open: an ordered and an unordered list of the same elements are equal, and yet not the same.
fn same_but_for_ties(a: &Option<Value>, b: &Option<Value>) -> bool {
    fn settled(value: &Value) -> Value {
        match value {
            Value::List(list) => {
                let mut items: Vec<Value> = list.iter().map(settled).collect();
                if list.order() == ListOrder::Ordered {
                    items.sort_by_cached_key(|item| format!("{item:?}"));
                }
                List::new(items, list.order()).into()
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| (key.clone(), settled(value)));
                Map::new(entries.collect(), map.order()).into()
            }
            scalar => scalar.clone(),
        }
    }
    a.as_ref().map(settled) == b.as_ref().map(settled)
}

/// The result of a call; reads are done in a reading and in a writing transaction.
fn execute(
    set: &Set,
    call: &Call,
    expected: &Result<Option<Value>, Code>,
) -> Result<Result<Option<Value>, Code>, String> {
    let operation = convert::operation(BIN, call);
    if call.is_read() {
        let done = set.operate("k", std::slice::from_ref(&operation));
        let got = done
            .map(|done| done.value(0).cloned())
            .map_err(|error| error.result_code());
        // Without a write, nil is no entry (semantics.md#results-of-operations).
        let expected = expected
            .clone()
            .map(|result| result.filter(|value| *value != Value::Nil));
        if got != expected {
            return Err(format!(
                "{call:?}\n  merely read {got:?}\n  must be {expected:?}"
            ));
        }
        let done = set.operate("k", &[operations::put(OTHER, 2), operation]);
        Ok(done
            .map(|done| done.value(1).cloned())
            .map_err(|error| error.result_code()))
    } else {
        let done = set.operate("k", &[operation]);
        let got = done.map(|done| done.value(0).cloned().unwrap_or(Value::Nil));
        Ok(got.map(Some).map_err(|error| error.result_code()))
    }
}
