//! Detects unordered maps, which cannot be compared (semantics.md#expressions-comparison).

use crate::value::msgpack::{Token, TokenReader};
use crate::value::{Container, FLAG_ORDERED, ItemShape};

/// Returns whether an encoded value is, or contains at any depth, a map not ordered by key.
/// Malformed bytes count as one. O(elements), without recursion.
pub(super) fn holds_unordered_map(value: &[u8]) -> bool {
    let mut reader = TokenReader::new(value);
    // Elements not yet visited.
    let mut left = 1_u64;
    while left > 0 {
        left -= 1;
        // Entering a container adds its elements. Flags need no case of their own: they are
        // extensions or nil.
        match reader.token() {
            Ok(Token::Array(count)) => left += u64::from(count),
            Ok(Token::Map(count)) => match Container::read(ItemShape::Map, count, reader) {
                Ok(map) if map.flags & FLAG_ORDERED != 0 => left += 2 * u64::from(count),
                _ => return true,
            },
            Ok(_) => {}
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::encoded;
    use crate::value::{List, ListOrder, Map, MapOrder, Value};

    #[test]
    fn one_map_without_order_anywhere_is_found() {
        let map = |order, value: Value| Value::Map(Map::new(vec![(1.into(), value)], order));
        let ordered = |value| map(MapOrder::KeyOrdered, value);
        let unordered = |value| map(MapOrder::Unordered, value);
        let list = |items| Value::List(List::new(items, ListOrder::Ordered));
        let table = [
            (5.into(), false),
            (list(vec![1.into(), "a".into()]), false),
            (ordered(5.into()), false),
            (map(MapOrder::KeyValueOrdered, 5.into()), false),
            (unordered(5.into()), true),
            (Value::Map(Map::default()), true),
            (ordered(ordered(5.into())), false),
            (ordered(unordered(5.into())), true),
            (list(vec![1.into(), list(vec![unordered(1.into())])]), true),
            (
                list(vec![ordered(list(vec![ordered(1.into())])), 5.into()]),
                false,
            ),
        ];
        for (value, unordered) in table {
            assert_eq!(
                holds_unordered_map(&encoded(&value)),
                unordered,
                "{value:?}"
            );
        }
        assert!(holds_unordered_map(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]));
    }
}
