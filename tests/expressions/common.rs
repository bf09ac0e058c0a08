//! The record that expressions are tried on, and how their outcomes are compared.

use spikelet::expressions::ExpReadFlags;
use spikelet::expressions::*;
use spikelet::operations::hll::HllPolicy;
use spikelet::operations::{self, exp as ops};
use spikelet::value::Map;
use spikelet::{Expression, MapOrder, Set, Store, Value};

pub const PARAMETER: u8 = 4;
pub const MALFORMED: u8 = 1;
pub const BIN_EXISTS: u8 = 6;
pub const WRONG_TYPE: u8 = 12;
pub const BIN_NOT_FOUND: u8 = 17;
pub const NOT_APPLICABLE: u8 = 26;

pub const KEY: &str = "key";
pub const POINT: &str = r#"{"type":"Point","coordinates":[15.4,47.1]}"#;
pub const FAR: &str = r#"{"type":"Point","coordinates":[-70.0,-30.0]}"#;
pub const AROUND: &str = r#"{"type":"AeroCircle","coordinates":[[15.4,47.1],1000.0]}"#;

/// The outcome of an expression.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Is(Value),
    Unknown,
    /// Before it is evaluated.
    Refused,
}

pub use Outcome::{Refused, Unknown};

pub fn is(value: impl Into<Value>) -> Outcome {
    Outcome::Is(value.into())
}

pub fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List(items.to_vec().into())
}

pub fn ints<const N: usize>(items: [i64; N]) -> Value {
    Value::List(items.into_iter().collect())
}

pub fn map_of<const N: usize>(order: MapOrder, entries: [(&str, Value); N]) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
    Value::Map(Map::new(entries.collect(), order))
}

pub fn by_key<const N: usize>(entries: [(&str, Value); N]) -> Value {
    map_of(MapOrder::KeyOrdered, entries)
}

/// A set with one record.
pub fn record() -> Set {
    let set = Store::in_memory().unwrap().set("set").unwrap();
    let bins = [
        ("i", 5.into()),
        ("neg", (-3).into()),
        ("f", 2.5.into()),
        ("s", "hello".into()),
        ("b", b"\x01\x02\x03".into()),
        ("t", true.into()),
        ("l", ints([1, 2, 3])),
        ("m", by_key([("a", 1.into()), ("b", 2.into())])),
        ("u", map_of(MapOrder::Unordered, [("a", 1.into())])),
        ("nested", by_key([("in", ints([7, 8]))])),
        ("g", Value::GeoJson(POINT.into())),
    ];
    set.put(KEY, bins).unwrap();
    let sketch = operations::hll::add_with_index_bits(
        &HllPolicy::default(),
        "h",
        vec!["x".into(), "y".into()],
        8,
    );
    set.operate(KEY, &[sketch]).unwrap();
    set
}

pub fn evaluate(set: &Set, expression: Expression) -> Outcome {
    match set.operate(KEY, &[ops::read("r", expression, ExpReadFlags::empty())]) {
        Ok(done) => is(done.bin("r").cloned().unwrap_or(Value::Nil)),
        Err(error) if error.result_code() == NOT_APPLICABLE => Unknown,
        Err(error) => {
            assert_eq!(error.result_code(), PARAMETER, "{error}");
            Refused
        }
    }
}

pub fn check<const N: usize>(table: [(&str, Expression, Outcome); N]) {
    let set = record();
    for (what, expression, expected) in table {
        assert_eq!(
            evaluate(&set, expression.clone()),
            expected,
            "{what}: {expression:?}"
        );
    }
}

/// A truth value that is not known.
pub fn unknown_bool() -> Expression {
    bool_bin("missing")
}
