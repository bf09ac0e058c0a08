//! The elements that are added to lists: one for each write, different for different ones, and in
//! no order.

use std::time::{Duration, SystemTime};

use spikelet::Value;

/// The first number of the elements that are in the lists beforehand; writes have smaller ones.
pub(super) const INITIAL_FROM: u64 = 1 << 31;

/// The number of a foreign element: no list of the harness has that many.
pub(super) const FOREIGN: u32 = u32::MAX;

/// Odd, so that it has an inverse.
const FACTOR: u32 = 0x9e37_79b1;
/// Its inverse, modulo 2^32.
const INVERSE: u32 = 0x0e8b_2f51;

/// Returns the element that the write of this number adds.
pub(super) fn element(id: u64) -> Value {
    Value::Int(i64::from((id as u32).wrapping_mul(FACTOR)))
}

/// Returns when time shards say the element was added, in microseconds since 1970: its number in
/// microseconds after the beginning of its bucket, which no bucket is too short for.
const fn micros(bucket_begins_s: u64, id: u64) -> u64 {
    bucket_begins_s
        .saturating_mul(1_000_000)
        .saturating_add(id & (u32::MAX as u64 >> 1))
}

/// Returns when time shards say the element was added.
pub(super) fn time(bucket_begins_s: u64, id: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros(bucket_begins_s, id))
}

/// Returns what time shards keep of the element: its time and itself.
pub(super) fn timed(bucket_begins_s: u64, id: u64) -> Value {
    let at = micros(bucket_begins_s, id).cast_signed();
    Value::List(vec![Value::Int(at), element(id)].into())
}

/// Returns the number of an element, with or without its time; [`FOREIGN`] for any other value.
pub(super) fn number(element: &Value) -> u32 {
    let element = match element {
        Value::List(timed) => timed.iter().last(),
        alone => Some(alone),
    };
    match element {
        Some(Value::Int(element)) => {
            u32::try_from(*element).map_or(FOREIGN, |element| element.wrapping_mul(INVERSE))
        }
        _ => FOREIGN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_known_by_its_element() {
        for id in [0, 1, 77, 20_000_000, INITIAL_FROM - 1, INITIAL_FROM] {
            assert_eq!(number(&element(id)), id as u32);
            assert_eq!(number(&timed(3_600, id)), id as u32);
        }
        let foreign = [Value::Nil, Value::List(vec![].into()), Value::Int(1 << 32)];
        for other in foreign {
            assert_eq!(number(&other), FOREIGN);
        }
    }
}
