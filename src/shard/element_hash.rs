//! The hash of an element, which says in which shard it lives.

use xxhash_rust::xxh3::xxh3_64;

use super::merge;
use crate::value::{EncodePurpose, List, ListOrder, MAX_NESTING, Map, MapOrder, Value, encode};
use crate::{Error, Result};

/// Most encoded elements take no more than this, in bytes.
const USUAL_BYTES: usize = 64;

/// Returns the hash of an element of a list or a key of a map. Equal values have equal hashes.
///
/// # Errors
/// [`Error::Parameter`] for a value that cannot be stored.
pub(crate) fn hash_of(element: &Value) -> Result<u64> {
    let mut encoded = Vec::with_capacity(USUAL_BYTES);
    match element {
        // The usual ones are canonical as they are.
        Value::Int(_) | Value::String(_) | Value::Blob(_) => {
            encode(element, EncodePurpose::Storage, &mut encoded)
        }
        element => encode(
            &canonical(element, 0)?,
            EncodePurpose::Storage,
            &mut encoded,
        ),
    }
    .map_err(|error| {
        Error::parameter(format!(
            "{element} is no element of a sharded collection: {error}"
        ))
    })?;
    Ok(xxh3_64(&encoded))
}

/// Returns the number of the shard in which elements of this hash live. `shards`: how many there
/// are, a power of two.
pub(crate) const fn shard(hash: u64, shards: u64) -> u64 {
    hash & (shards - 1)
}

/// Returns the one form of all values that are equal to this one: zero without sign, containers
/// without flags. `depth`: in how many containers it is.
fn canonical(value: &Value, depth: u32) -> Result<Value> {
    let nested = |value: &Value| canonical(value, depth + 1);
    Ok(match value {
        // A value of any depth must not exhaust the stack.
        Value::List(_) | Value::Map(_) if depth >= MAX_NESTING => {
            return Err(Error::parameter(format!(
                "an element of a sharded collection has at most {MAX_NESTING} levels"
            )));
        }
        Value::Float(float) if *float == 0.0 => Value::Float(0.0),
        Value::Float(float) if float.is_nan() => {
            return Err(Error::parameter(
                "NaN equals every number, so it cannot be an element or a key of a sharded collection",
            ));
        }
        Value::List(list) => {
            let mut items = list.iter().map(nested).collect::<Result<Vec<_>>>()?;
            if list.order() == ListOrder::Ordered {
                merge::sort(&mut items)?;
            }
            Value::List(List::new(items, ListOrder::Unordered))
        }
        Value::Map(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| Ok((nested(key)?, nested(value)?)))
                .collect::<Result<Vec<_>>>()?;
            Value::Map(Map::new(entries, MapOrder::Unordered))
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_routes_hold() {
        let list = Value::List(vec![Value::Int(1), "a".into()].into());
        for (child, hash) in [
            (Value::Int(0), 0xc44b_dff4_074e_ecdb),
            (Value::Int(7), 0x4c5c_ca45_d0f4_811f),
            (Value::Int(-1), 0xd6bc_ec3c_6b29_d72e),
            (Value::Int(1_000_000), 0x1b1e_6bb2_d200_5f56),
            ("alice".into(), 0x81f8_1737_a19f_7d4c),
            (Value::Blob(vec![1, 2, 3]), 0x5c48_b532_2038_1def),
            (Value::Float(1.5), 0x8ef7_7e8c_4c28_b5e8),
            (list, 0x8f87_5e71_e0ee_1f43),
        ] {
            let found = hash_of(&child).unwrap();
            assert_eq!(found, hash, "{child:?}: {found:#018x}");
        }
    }

    #[test]
    fn equal_values_go_to_the_same_shard() {
        let list = |order| Value::List(List::new(vec![2.into(), 1.into()], order));
        let pair = |a: i64, b: i64| Value::List(vec![Value::Int(a), Value::Int(b)].into());
        let map = |order| Value::Map(Map::new(vec![(1.into(), 2.into())], order));
        for (a, b) in [
            (Value::Float(0.0), Value::Float(-0.0)),
            (list(ListOrder::Ordered), pair(1, 2)),
            (list(ListOrder::Unordered), pair(2, 1)),
            (map(MapOrder::KeyOrdered), map(MapOrder::Unordered)),
        ] {
            assert_eq!(hash_of(&a).unwrap(), hash_of(&b).unwrap(), "{a:?} {b:?}");
        }
        for refused in [Value::Wildcard, Value::Float(f64::NAN)] {
            assert!(hash_of(&refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_value_of_any_depth_is_refused_before_the_stack_is_full() {
        let nested =
            |levels| (0..levels).fold(Value::Int(1), |inner, _| Value::List(vec![inner].into()));
        assert!(hash_of(&nested(127)).is_ok());
        for levels in [128, 2_000] {
            let refused = hash_of(&nested(levels)).unwrap_err();
            assert!(matches!(refused, Error::Parameter(_)), "{refused}");
        }
    }

    #[test]
    fn a_split_sends_a_child_to_its_shard_or_to_the_other_half() {
        for child in 0..1_000 {
            let hash = hash_of(&Value::Int(child)).unwrap();
            let (before, after) = (shard(hash, 8), shard(hash, 16));
            assert!(after == before || after == before + 8);
        }
    }
}
