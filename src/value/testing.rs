//! Random values for property tests.

use proptest::prelude::*;

use super::{CodecError, List, ListOrder, Map, MapOrder, Value};

/// Integers near the borders of every encoded length, and some that repeat.
pub(crate) fn any_int() -> impl Strategy<Value = i64> {
    let borders = [
        0,
        31,
        127,
        255,
        65_535,
        i64::from(i32::MAX),
        i64::from(u32::MAX),
        i64::MAX,
    ];
    prop_oneof![
        -3..10_i64,
        any::<i64>(),
        (prop::sample::select(borders.to_vec()), -2..=2_i64)
            .prop_map(|(border, by)| border.wrapping_add(by)),
        (prop::sample::select(borders.to_vec()), -2..=2_i64)
            .prop_map(|(border, by)| border.wrapping_neg().wrapping_add(by)),
    ]
}

/// A value without containers, and without NaN (for which `==` does not hold).
pub(crate) fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any_int().prop_map(Value::Int),
        prop_oneof![Just(0.0), Just(-0.0), -2.0..2.0_f64, Just(f64::INFINITY)]
            .prop_map(Value::Float),
        "[a-c]{0,3}|[a-z]{30,34}".prop_map(Value::String),
        prop::collection::vec(0..4_u8, 0..4).prop_map(Value::Blob),
        "\\{\\}|[a-c]".prop_map(Value::GeoJson),
        prop::collection::vec(0..4_u8, 0..2).prop_map(Value::Hll),
    ]
}

/// Any value that can be stored.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(3, 32, 6, |inner| {
        let key = prop_oneof![
            any_int().prop_map(Value::Int),
            "[a-c]{0,2}".prop_map(Value::String),
            prop::collection::vec(0..3_u8, 0..2).prop_map(Value::Blob),
        ];
        let list_order = prop::sample::select(vec![ListOrder::Unordered, ListOrder::Ordered]);
        let map_order = prop::sample::select(vec![
            MapOrder::Unordered,
            MapOrder::KeyOrdered,
            MapOrder::KeyValueOrdered,
        ]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..6), list_order)
                .prop_map(|(items, order)| Value::List(List::new(items, order))),
            (prop::collection::vec((key, inner), 0..5), map_order).prop_map(|(entries, order)| {
                let mut distinct: Vec<(Value, Value)> = Vec::new();
                for (key, value) in entries {
                    if !distinct.iter().any(|(k, _)| *k == key) {
                        distinct.push((key, value));
                    }
                }
                Value::Map(Map::new(distinct, order))
            }),
        ]
    })
}

/// Decodes the one element that `bytes` hold.
pub(crate) fn decode(mut bytes: &[u8]) -> Result<Value, CodecError> {
    let value = Value::decode_front(&mut bytes)?;
    if bytes.is_empty() {
        Ok(value)
    } else {
        Err(CodecError::TrailingBytes(bytes.len()))
    }
}

/// The encoding of a value for lookups.
pub(crate) fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    super::encode(value, super::EncodePurpose::Lookup, &mut out).unwrap();
    out
}
