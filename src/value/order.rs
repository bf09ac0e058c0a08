//! The order of values across types, on encoded bytes.
//!
//! nil < false < true < integer < string < list < map < bytes < double < GeoJSON < other extensions
//! < infinity; the wildcard equals anything and ends the comparison. Lists compare element by
//! element, then by length; maps by size, then pair by pair. An integer never equals a double.
//! Flags of containers do not count.
//!
//! Comparing never fails: malformed bytes sort below everything and equal themselves, and nesting
//! deeper than [`MAX_NESTING`] counts as equal (encoding and normalizing refuse both, so neither is
//! ever stored).

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::container::Container;
use super::msgpack::{
    EXT_SPECIAL, SUBTYPE_GEOJSON, SUBTYPE_STRING, Token, TokenReader, front_int, front_short_raw,
};
use super::{ItemShape, MAX_NESTING};

/// Compares the elements at the front of `a` and of `b`. O(bytes), nothing is decoded or allocated.
///
/// A NaN equals every double here (semantics.md#order-of-values); use [`compare_total`] to sort.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    compare_common(a, b).unwrap_or_else(|| compare_any::<SEARCHED>(a, b))
}

/// Compares two integers, or two short texts or blobs: the most common elements.
#[inline]
fn compare_common(a: &[u8], b: &[u8]) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (front_int(a), front_int(b)) {
        return Some(a.cmp(&b));
    }
    match (front_short_raw(a)?, front_short_raw(b)?) {
        // Different types differ in their first byte.
        (a, b) if a.first() == b.first() => Some(a.cmp(b)),
        _ => None,
    }
}

/// The general case, kept out of line so that the common one is inlined.
#[inline(never)]
fn compare_any<const KIND: u8>(a: &[u8], b: &[u8]) -> Ordering {
    decided(elements::<KIND>(
        &mut TokenReader::new(a),
        &mut TokenReader::new(b),
        0,
    ))
}

/// Like [`compare`], with every NaN above every other double: a total order, as sorting needs.
#[inline]
pub(crate) fn compare_total(a: &[u8], b: &[u8]) -> Ordering {
    compare_common(a, b).unwrap_or_else(|| compare_any::<TOTAL>(a, b))
}

/// Like [`compare_total`], with the wildcard above everything but infinity. Sorts lookup values,
/// where an element equal to all others would break the order.
pub(crate) fn compare_lookups(a: &[u8], b: &[u8]) -> Ordering {
    compare_common(a, b).unwrap_or_else(|| compare_any::<LOOKUPS>(a, b))
}

/// The kinds of order: for lookups, where NaN and the wildcard equal other values
/// (semantics.md#order-of-values); total for stored values; total for all values.
const SEARCHED: u8 = 0;
const TOTAL: u8 = 1;
const LOOKUPS: u8 = 2;

/// The result of a step: equal up to here, or decided.
type OrderStep = ControlFlow<Ordering>;

fn decided(step: OrderStep) -> Ordering {
    match step {
        ControlFlow::Break(ordering) => ordering,
        ControlFlow::Continue(()) => Ordering::Equal,
    }
}

fn step(ordering: Ordering) -> OrderStep {
    if ordering.is_eq() {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(ordering)
    }
}

/// Compares one element of each reader and leaves both behind it when they are equal.
fn elements<const KIND: u8>(
    a: &mut TokenReader<'_>,
    b: &mut TokenReader<'_>,
    depth: u32,
) -> OrderStep {
    let (before_a, before_b) = (*a, *b);
    let (x, y) = match (a.token(), b.token()) {
        (Ok(x), Ok(y)) => (x, y),
        (x, y) => return ControlFlow::Break(x.is_ok().cmp(&y.is_ok())),
    };
    let (class_x, class_y) = (class(x), class(y));
    // Outside of `LOOKUPS` a wildcard ends the whole comparison, not only this element: it matches
    // the rest of a list, too.
    if KIND != LOOKUPS && (class_x == Class::Wildcard || class_y == Class::Wildcard) {
        return ControlFlow::Break(Ordering::Equal);
    }
    step(class_x.cmp(&class_y))?;
    // Skips both instead of recursing: hostile bytes must not exhaust the stack.
    if matches!(class_x, Class::List | Class::Map) && depth >= MAX_NESTING {
        (*a, *b) = (before_a, before_b);
        return match (a.element(), b.element()) {
            (Ok(_), Ok(_)) => ControlFlow::Continue(()),
            (x, y) => step(x.is_ok().cmp(&y.is_ok())),
        };
    }
    // Equal types from here on, except that `Int` and `BigInt` are both integers, and both widths
    // of floats are doubles.
    match (x, y) {
        (Token::Int(x), Token::Int(y)) => step(x.cmp(&y)),
        (Token::BigInt(x), Token::BigInt(y)) => step(x.cmp(&y)),
        (Token::Int(_), _) => ControlFlow::Break(Ordering::Less),
        (_, Token::Int(_)) => ControlFlow::Break(Ordering::Greater),
        (Token::Raw(x), Token::Raw(y)) => step(x.cmp(y)),
        (Token::Ext(kind_x, x), Token::Ext(kind_y, y)) => {
            step(kind_x.cmp(&kind_y).then_with(|| x.cmp(y)))
        }
        (Token::Array(x), Token::Array(y)) => {
            containers::<KIND>(ItemShape::List, (x, a), (y, b), depth)
        }
        (Token::Map(x), Token::Map(y)) => containers::<KIND>(ItemShape::Map, (x, a), (y, b), depth),
        (x, y) => match (double(x), double(y)) {
            (Some(x), Some(y)) => step(doubles::<KIND>(x, y)),
            _ => ControlFlow::Continue(()),
        },
    }
}

fn containers<const KIND: u8>(
    shape: ItemShape,
    (count_x, a): (u32, &mut TokenReader<'_>),
    (count_y, b): (u32, &mut TokenReader<'_>),
    depth: u32,
) -> OrderStep {
    let (x, y) = match (
        Container::read(shape, count_x, *a),
        Container::read(shape, count_y, *b),
    ) {
        (Ok(x), Ok(y)) => (x, y),
        (x, y) => return step(x.is_ok().cmp(&y.is_ok())),
    };
    if shape == ItemShape::Map {
        // Maps of different sizes never compare their entries: size comes first in the order.
        step(x.count.cmp(&y.count))?;
    }
    (*a, *b) = (TokenReader::new(x.content), TokenReader::new(y.content));
    for _ in 0..x.count.min(y.count) {
        elements::<KIND>(a, b, depth + 1)?;
        if shape == ItemShape::Map {
            elements::<KIND>(a, b, depth + 1)?;
        }
    }
    step(x.count.cmp(&y.count))
}

fn double(token: Token<'_>) -> Option<f64> {
    match token {
        Token::Float(value) => Some(value),
        Token::Float32(value) => Some(f64::from(value)),
        _ => None,
    }
}

fn doubles<const KIND: u8>(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or_else(|| {
        if KIND != SEARCHED {
            x.is_nan().cmp(&y.is_nan())
        } else {
            Ordering::Equal
        }
    })
}

/// The types in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Nil,
    False,
    True,
    Integer,
    String,
    List,
    Map,
    Bytes,
    Double,
    GeoJson,
    Extension,
    Wildcard,
    Infinity,
}

fn class(token: Token<'_>) -> Class {
    match token {
        Token::Nil => Class::Nil,
        Token::Bool(false) => Class::False,
        Token::Bool(true) => Class::True,
        Token::Int(_) | Token::BigInt(_) => Class::Integer,
        Token::Float32(_) | Token::Float(_) => Class::Double,
        Token::Raw(raw) => match raw.first() {
            Some(&SUBTYPE_STRING) => Class::String,
            Some(&SUBTYPE_GEOJSON) => Class::GeoJson,
            _ => Class::Bytes,
        },
        Token::Array(_) => Class::List,
        Token::Map(_) => Class::Map,
        Token::Ext(EXT_SPECIAL, [0]) => Class::Wildcard,
        Token::Ext(EXT_SPECIAL, [1]) => Class::Infinity,
        Token::Ext(..) => Class::Extension,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{any_value, encoded};
    use crate::value::{List, Map, Value};
    use proptest::prelude::*;

    fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List(items.into_iter().collect::<Vec<_>>().into())
    }

    fn map(entries: Vec<(Value, Value)>) -> Value {
        Value::Map(Map::from(entries))
    }

    fn order(a: &Value, b: &Value) -> Ordering {
        compare(&encoded(a), &encoded(b))
    }

    #[test]
    fn values_of_all_types_have_one_order() {
        let ascending = [
            Value::Nil,
            false.into(),
            true.into(),
            i64::MIN.into(),
            (-1).into(),
            0.into(),
            i64::MAX.into(),
            "".into(),
            "a".into(),
            "ab".into(),
            "b".into(),
            list([]),
            list([Value::Nil]),
            list([1.into(), 2.into()]),
            list([2.into()]),
            map(vec![]),
            map(vec![(5.into(), 1.into())]),
            map(vec![(5.into(), 2.into())]),
            map(vec![(6.into(), 0.into())]),
            map(vec![(1.into(), 0.into()), (2.into(), 0.into())]),
            b"".into(),
            b"a".into(),
            Value::Hll(vec![]),
            f64::NEG_INFINITY.into(),
            (-0.5).into(),
            1.0.into(),
            Value::GeoJson("{}".into()),
            Value::Infinity,
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(order(a, b), i.cmp(&j), "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn unsigned_integers_above_the_signed_ones_are_integers() {
        let big = [0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let bigger_than = |value: &Value| compare(&big, &encoded(value)).is_gt();
        assert!(bigger_than(&i64::MAX.into()));
        assert!(!bigger_than(&"".into()));
        assert_eq!(compare(&big, &big), Ordering::Equal);
    }

    #[test]
    fn the_wildcard_equals_anything_and_ends_the_comparison() {
        let any = || Value::Wildcard;
        let table = [
            (any(), 5.into(), Ordering::Equal),
            (
                list([1.into(), any()]),
                list([1.into(), 2.into()]),
                Ordering::Equal,
            ),
            (
                list([1.into(), any()]),
                list([1.into(), 2.into(), 3.into()]),
                Ordering::Equal,
            ),
            (list([1.into(), any()]), list([1.into()]), Ordering::Greater),
            (
                list([1.into(), any()]),
                list([2.into(), 2.into()]),
                Ordering::Less,
            ),
            (list([any()]), list([]), Ordering::Greater),
            (
                list([list([any()]), 5.into()]),
                list([list([7.into()]), 6.into()]),
                Ordering::Equal,
            ),
            (
                list([1.into(), Value::Infinity]),
                list([1.into(), 9.into()]),
                Ordering::Greater,
            ),
        ];
        for (a, b, expected) in table {
            assert_eq!(order(&a, &b), expected, "{a:?} and {b:?}");
            assert_eq!(order(&b, &a), expected.reverse(), "{b:?} and {a:?}");
        }
    }

    #[test]
    fn flags_of_containers_and_zeros_of_doubles_make_no_difference() {
        let ordered = List::new(vec![1.into(), 2.into()], crate::value::ListOrder::Ordered);
        assert_eq!(
            order(&ordered.into(), &list([1.into(), 2.into()])),
            Ordering::Equal
        );
        assert_eq!(order(&0.0.into(), &(-0.0).into()), Ordering::Equal);
        assert_eq!(order(&f64::NAN.into(), &1.0.into()), Ordering::Equal);
        let float32 = [0xca, 0x3f, 0xc0, 0, 0];
        assert_eq!(compare(&float32, &encoded(&1.5.into())), Ordering::Equal);
    }

    #[test]
    fn hostile_bytes_end_the_comparison() {
        let hostile: [&[u8]; 4] = [
            &[],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0xc1],
        ];
        for a in hostile {
            for b in hostile {
                assert_eq!(compare(a, b), compare(b, a).reverse());
            }
        }
        let deep = [0x91; 10_000];
        assert_eq!(compare(&deep, &deep), Ordering::Equal);
    }

    /// The order on the owned form, as semantics.md#order-of-values has it.
    fn naive(a: &Value, b: &Value) -> Ordering {
        fn rank(value: &Value) -> u8 {
            match value {
                Value::Nil => 0,
                Value::Bool(_) => 1,
                Value::Int(_) => 2,
                Value::String(_) => 3,
                Value::List(_) => 4,
                Value::Map(_) => 5,
                Value::Blob(_) | Value::Hll(_) => 6,
                Value::Float(_) => 7,
                Value::GeoJson(_) => 8,
                Value::BigInt(_) | Value::Wildcard | Value::Infinity => {
                    unreachable!("never stored")
                }
            }
        }
        let sorted = |list: &List| {
            let mut items = list.to_vec();
            if list.order() == crate::value::ListOrder::Ordered {
                items.sort_by(naive);
            }
            items
        };
        let by_key = |map: &Map| {
            let mut entries = map.to_vec();
            entries.sort_by(|a, b| naive(&a.0, &b.0));
            entries
        };
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::String(a), Value::String(b)) | (Value::GeoJson(a), Value::GeoJson(b)) => {
                a.as_bytes().cmp(b.as_bytes())
            }
            (Value::Blob(a), Value::Blob(b)) | (Value::Hll(a), Value::Hll(b)) => a.cmp(b),
            (Value::Blob(_), Value::Hll(_)) => Ordering::Less,
            (Value::Hll(_), Value::Blob(_)) => Ordering::Greater,
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap(),
            (Value::List(a), Value::List(b)) => {
                let (a, b) = (sorted(a), sorted(b));
                let different = a
                    .iter()
                    .zip(&b)
                    .map(|(a, b)| naive(a, b))
                    .find(|o| o.is_ne());
                different.unwrap_or(a.len().cmp(&b.len()))
            }
            (Value::Map(a), Value::Map(b)) => a.len().cmp(&b.len()).then_with(|| {
                let (a, b) = (by_key(a), by_key(b));
                a.iter()
                    .zip(&b)
                    .map(|(a, b)| naive(&a.0, &b.0).then_with(|| naive(&a.1, &b.1)))
                    .find(|o| o.is_ne())
                    .unwrap_or(Ordering::Equal)
            }),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    proptest! {
        #[test]
        fn encoded_values_compare_as_decoded_ones_do(a in any_value(), b in any_value()) {
            prop_assert_eq!(order(&a, &b), naive(&a, &b));
            prop_assert_eq!(order(&b, &a), naive(&a, &b).reverse());
        }

        #[test]
        fn the_order_is_transitive(mut values in prop::collection::vec(any_value(), 3)) {
            values.sort_by(order);
            prop_assert!(order(&values[0], &values[2]).is_le());
        }

        #[test]
        fn sorting_holds_even_with_nan(
            mut values in prop::collection::vec(prop_oneof![any_value(), Just(Value::Float(f64::NAN))], 0..40)
        ) {
            values.sort_by(|a, b| compare_total(&encoded(a), &encoded(b)));
            prop_assert!(values.is_sorted_by(|a, b| compare_total(&encoded(a), &encoded(b)).is_le()));
        }

        #[test]
        fn lookups_sort_wherever_their_wildcards_stand(
            mut values in prop::collection::vec(
                prop_oneof![
                    any_value(),
                    Just(Value::Wildcard),
                    any_value().prop_map(|value| list([value, Value::Wildcard])),
                ],
                0..60,
            )
        ) {
            let mut encoded: Vec<_> = values.drain(..).map(|value| encoded(&value)).collect();
            encoded.sort_by(|a, b| compare_lookups(a, b));
            prop_assert!(encoded.is_sorted_by(|a, b| compare_lookups(a, b).is_le()));
        }

        #[test]
        fn hostile_bytes_compare_without_a_panic(
            a in prop::collection::vec(any::<u8>(), 0..40),
            b in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
        }
    }
}
