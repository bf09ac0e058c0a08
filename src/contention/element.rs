//! The elements that are added to lists: one for each write, different for different ones, and in no order.

use std::time::{Duration, SystemTime};

use crate::Value;

/// The first number of the elements that are in the lists beforehand; writes have smaller ones.
pub(super) const BEFOREHAND: u64 = 1 << 31;

/// The number of what is no element of ours: no list has so many.
pub(super) const FOREIGN: u32 = u32::MAX;

/// Odd, so that it has an inverse.
const FACTOR: u32 = 0x9e37_79b1;
/// Its inverse, modulo 2^32.
const INVERSE: u32 = 0x0e8b_2f51;

/// The element of a write's number.
pub(super) fn element(id: u64) -> Value {
    Value::Int(i64::from((id as u32).wrapping_mul(FACTOR)))
}

/// When the element of a write was added to time shards, in microseconds since 1970: so many behind the beginning of its
/// bucket as its number says, which no bucket is too short for.
const fn micros(bucket_begins_s: u64, id: u64) -> u64 {
    bucket_begins_s * 1_000_000 + (id & (u32::MAX as u64 >> 1))
}

/// The same as a time.
pub(super) fn time(bucket_begins_s: u64, id: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros(bucket_begins_s, id))
}

/// What time shards keep of it: its time and itself.
pub(super) fn timed(bucket_begins_s: u64, id: u64) -> Value {
    let at = micros(bucket_begins_s, id).cast_signed();
    Value::List(vec![Value::Int(at), element(id)].into())
}

/// The number of an element, or of one with its time; [`FOREIGN`] if it is neither.
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
        for id in [0, 1, 77, 20_000_000, BEFOREHAND - 1, BEFOREHAND] {
            assert_eq!(number(&element(id)), id as u32);
            assert_eq!(number(&timed(3_600, id)), id as u32);
        }
        let foreign = [Value::Nil, Value::List(vec![].into()), Value::Int(1 << 32)];
        for other in foreign {
            assert_eq!(number(&other), FOREIGN);
        }
    }
}
