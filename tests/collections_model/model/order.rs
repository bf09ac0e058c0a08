//! The order of values across types (semantics.md#order-of-values).

use std::cmp::Ordering;

use spikelet::Value;

/// Compares two values.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    undecided(a, b).unwrap_or_else(|decided| decided)
}

/// Whether two values are equal in that order.
pub fn equal(a: &Value, b: &Value) -> bool {
    compare(a, b).is_eq()
}

/// Compares two values. `Ok(Equal)` if the values after them decide, `Err` for a final outcome: a
/// difference, or a wildcard.
fn undecided(a: &Value, b: &Value) -> Result<Ordering, Ordering> {
    let decide = |ordering: Ordering| {
        if ordering.is_eq() {
            Ok(ordering)
        } else {
            Err(ordering)
        }
    };
    // A wildcard is equal to anything and stops the comparison at that point.
    if *a == Value::Wildcard || *b == Value::Wildcard {
        return Err(Ordering::Equal);
    }
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => decide(a.cmp(b)),
        (Value::String(a), Value::String(b)) => decide(a.as_bytes().cmp(b.as_bytes())),
        (Value::GeoJson(a), Value::GeoJson(b)) => decide(a.as_bytes().cmp(b.as_bytes())),
        // Not a number is neither less nor greater than any double.
        (Value::Float(a), Value::Float(b)) => decide(a.partial_cmp(b).unwrap_or(Ordering::Equal)),
        (Value::List(a), Value::List(b)) => {
            for (a, b) in a.iter().zip(b.iter()) {
                undecided(a, b)?;
            }
            decide(a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => {
            decide(a.len().cmp(&b.len()))?;
            for ((key_a, value_a), (key_b, value_b)) in a.iter().zip(b.iter()) {
                undecided(key_a, key_b)?;
                undecided(value_a, value_b)?;
            }
            Ok(Ordering::Equal)
        }
        _ => match (bytes(a), bytes(b)) {
            (Some(a), Some(b)) => decide(a.cmp(&b)),
            _ => decide(class(a).cmp(&class(b))),
        },
    }
}

/// The types, lowest first.
fn class(value: &Value) -> u8 {
    match value {
        Value::Nil => 1,
        Value::Bool(false) => 2,
        Value::Bool(true) => 3,
        Value::Int(_) => 5,
        Value::String(_) => 6,
        Value::List(_) => 7,
        Value::Map(_) => 8,
        Value::Blob(_) | Value::Hll(_) => 9,
        Value::Float(_) => 10,
        Value::GeoJson(_) => 11,
        Value::Infinity => 14,
        other => panic!("{other:?} has no place among the types"),
    }
}

/// Bytes of all subtypes are one type, compared with the subtype in front: 4 for blobs, 18 for
/// sketches.
fn bytes(value: &Value) -> Option<(u8, &[u8])> {
    match value {
        Value::Blob(bytes) => Some((4, bytes)),
        Value::Hll(bytes) => Some((18, bytes)),
        _ => None,
    }
}
