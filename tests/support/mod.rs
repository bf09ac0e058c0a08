//! Tables of rules: the effect of an operation on a bin.

#![allow(dead_code, unused_macros, unused_imports)]

use spikelet::operations::{self, lists, maps};
use spikelet::value::{List, Map};
use spikelet::{ListOrder, MapOrder, Operation, Set, Store, Value};

/// The bin that the rules are about.
pub const BIN: &str = "bin";
/// A bin that keeps the record alive.
const OTHER: &str = "other";

/// A bin that does not exist; no result.
pub const MISSING: Value = Value::Nil;
pub const NIL: Value = Value::Nil;
pub const ANY: Value = Value::Wildcard;
pub const INF: Value = Value::Infinity;

/// Aerospike's numbers.
pub const MALFORMED: u8 = 1;
pub const NOT_FOUND: u8 = 2;
pub const PARAMETER: u8 = 4;
pub const WRONG_TYPE: u8 = 12;
pub const NOT_THERE: u8 = 23;
pub const THERE: u8 = 24;
pub const NOT_APPLICABLE: u8 = 26;

/// An unordered list.
macro_rules! list {
    ($($item:expr),* $(,)?) => {
        $crate::support::list_of(
            vec![$(spikelet::Value::from($item)),*],
            spikelet::ListOrder::Unordered,
        )
    };
}

/// An ordered list.
macro_rules! ordered {
    ($($item:expr),* $(,)?) => {
        $crate::support::list_of(
            vec![$(spikelet::Value::from($item)),*],
            spikelet::ListOrder::Ordered,
        )
    };
}

/// An unordered map.
macro_rules! map {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::support::map_of(
            vec![$((spikelet::Value::from($key), spikelet::Value::from($value))),*],
            spikelet::MapOrder::Unordered,
        )
    };
}

/// A map ordered by key.
macro_rules! by_key {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::support::map_of(
            vec![$((spikelet::Value::from($key), spikelet::Value::from($value))),*],
            spikelet::MapOrder::KeyOrdered,
        )
    };
}

/// A map ordered by key and value.
macro_rules! by_key_and_value {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::support::map_of(
            vec![$((spikelet::Value::from($key), spikelet::Value::from($value))),*],
            spikelet::MapOrder::KeyValueOrdered,
        )
    };
}

pub(crate) use {by_key, by_key_and_value, list, map, ordered};

pub fn list_of(items: Vec<Value>, order: ListOrder) -> Value {
    List::new(items, order).into()
}

pub fn map_of(entries: Vec<(Value, Value)>, order: MapOrder) -> Value {
    Map::new(entries, order).into()
}

/// The elements of a list, as parameters.
pub fn items(list: Value) -> Vec<Value> {
    match list {
        Value::List(list) => list.into_items(),
        other => panic!("{other:?} is no list"),
    }
}

/// The entries of a map, as parameters.
pub fn entries(map: Value) -> Vec<(Value, Value)> {
    match map {
        Value::Map(map) => map.into_entries(),
        other => panic!("{other:?} is no map"),
    }
}

pub fn float(value: f64) -> Value {
    value.into()
}

pub fn text(value: &str) -> Value {
    value.into()
}

/// One rule: a bin that holds `start`, and an operation on it.
#[derive(Debug)]
pub struct Rule {
    what: &'static str,
    start: Value,
    persisted: bool,
    operation: Operation,
    result: Result<Value, u8>,
    after: Option<Value>,
}

/// A rule by which an operation succeeds, without result and without effect unless more is said.
pub fn rule(what: &'static str, start: impl Into<Value>, operation: Operation) -> Rule {
    Rule {
        what,
        start: start.into(),
        persisted: false,
        operation,
        result: Ok(Value::Nil),
        after: None,
    }
}

impl Rule {
    /// What the operation returns.
    pub fn gives(mut self, result: impl Into<Value>) -> Self {
        self.result = Ok(result.into());
        self
    }

    /// The bin's value afterwards; [`MISSING`] if the bin is gone.
    pub fn leaves(mut self, after: impl Into<Value>) -> Self {
        self.after = Some(after.into());
        self
    }

    /// The error, which leaves the bin as it was.
    pub fn refused(mut self, code: u8) -> Self {
        self.result = Err(code);
        self
    }

    /// The list or map has a persisted index.
    pub fn persisted(mut self) -> Self {
        self.persisted = true;
        self
    }

    fn check(&self, set: &Set) -> Result<(), String> {
        let operation = &self.operation;
        prepare(set, &self.start, self.persisted);
        let before = read(set);
        if !operation.is_write() {
            // Reading alone: no entry where there is no value (semantics.md#results-of-operations).
            let alone = set.operate("k", std::slice::from_ref(operation));
            let alone = alone.map(|done| done.value(0).cloned());
            let expected = self
                .result
                .clone()
                .map(|value| Some(value).filter(|v| *v != NIL));
            same(
                "result of a mere read",
                &alone.map_err(|e| e.result_code()),
                &expected,
            )?;
        }
        let done = set.operate("k", &[operations::put(OTHER, 2), operation.clone()]);
        let got = done.map(|done| done.value(1).cloned().unwrap_or(NIL));
        let got = got.map_err(|error| error.result_code());
        same("result", &got, &self.result)?;
        same("bin", &read(set), self.after.as_ref().unwrap_or(&before))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}\n       is {got:?}\n  must be {expected:?}"))
    }
}

/// Gives the record one bin of this value, and one that keeps it alive.
pub fn prepare(set: &Set, start: &Value, persisted: bool) {
    set.delete("k").unwrap();
    set.put("k", [(BIN, start.clone()), (OTHER, 1.into())])
        .unwrap();
    if persisted {
        let persist = match start {
            Value::List(list) => lists::create_persistent(BIN, list.order()),
            Value::Map(map) => maps::create_persistent(BIN, map.order()),
            other => panic!("{other:?} has no index"),
        };
        set.operate("k", &[persist]).unwrap();
    }
}

/// The bin's value.
pub fn read(set: &Set) -> Value {
    let record = set.get("k").unwrap().unwrap();
    record.get(BIN).unwrap_or(MISSING)
}

/// An empty set of a store in memory.
pub fn empty_set() -> Set {
    Store::in_memory().unwrap().set("rules").unwrap()
}

/// Checks all rules and reports all that do not hold.
pub fn check<const N: usize>(rules: [Rule; N]) {
    let set = empty_set();
    let broken: Vec<String> = rules
        .iter()
        .filter_map(|rule| {
            let error = rule.check(&set).err()?;
            let index = if rule.persisted {
                ", index persisted"
            } else {
                ""
            };
            Some(format!(
                "{}\n  bin {:?}{index}\n  {error}",
                rule.what, rule.start
            ))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {N} rules do not hold:\n\n{}",
        broken.len(),
        broken.join("\n\n")
    );
}

/// What several operations return, executed together; nil where one returns nothing.
pub fn results(start: impl Into<Value>, operations: &[Operation]) -> Result<Vec<Value>, u8> {
    let set = empty_set();
    prepare(&set, &start.into(), false);
    let done = set
        .operate("k", operations)
        .map_err(|error| error.result_code())?;
    let value = |i| done.value(i).cloned().unwrap_or(NIL);
    Ok((0..operations.len()).map(value).collect())
}
