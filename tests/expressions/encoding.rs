//! The encoded form (semantics.md#expressions-encoding).

use crate::common::*;
use spikelet::Expression;
use spikelet::expressions::RegexFlags;
use spikelet::expressions::{self as exp, *};

// semantics.md#expressions-encoding.

#[test]
fn expressions_have_aerospikes_bytes() {
    let table: [(Expression, &[u8]); 9] = [
        (eq(int_bin("i"), 5), &[0x93, 1, 0x93, 81, 2, 0xa1, b'i', 5]),
        (string_val("a"), &[0xa2, 3, b'a']),
        (blob_val(*b"a"), &[0xa2, 4, b'a']),
        (val(ints([1])), &[0x92, 126, 0x91, 1]),
        (val(by_key([])), &[0x81, 0xc7, 0, 1, 0xc0]),
        (ttl(), &[0x91, 69]),
        (
            exp_let([def("x", 1)], var("x")),
            &[0x94, 125, 0xa1, b'x', 1, 0x92, 124, 0xa1, b'x'],
        ),
        (
            regex_compare("a", RegexFlags::ICASE, string_val("b")),
            &[0x94, 7, 2, 0xa1, b'a', 0xa2, 3, b'b'],
        ),
        (
            lists::size(list_bin("l"), &[]),
            &[0x95, 127, 2, 0, 0x91, 16, 0x93, 81, 4, 0xa1, b'l'],
        ),
    ];
    for (expression, bytes) in table {
        assert_eq!(expression.to_bytes().unwrap(), bytes, "{expression:?}");
        let read = Expression::from_bytes(bytes).unwrap();
        assert_eq!(read, expression);
        assert_eq!(
            Expression::from_base64(&read.to_base64().unwrap()).unwrap(),
            expression
        );
        assert_eq!(
            read.result_type().unwrap(),
            expression.result_type().unwrap()
        );
    }
}

#[test]
fn operations_nest_128_levels() {
    let nested = |levels| (0..levels).fold(bool_val(true), |inner, _| exp::not(inner));
    assert_eq!(evaluate(&record(), nested(128)), is(true));
    assert_eq!(evaluate(&record(), nested(129)), Refused);
}

#[test]
fn malformed_expressions_are_refused() {
    let deep: Vec<u8> = [0x92, 18]
        .repeat(10_000)
        .into_iter()
        .chain([0xc3])
        .collect();
    let table: [(&str, &[u8]); 16] = [
        ("nothing", &[]),
        ("empty list", &[0x90]),
        ("no operation", &[0x91, 0xc0]),
        ("unknown operation", &[0x91, 99]),
        ("bytes behind it", &[0xc0, 0xc0]),
        ("cut short", &[0x93, 1, 5]),
        ("operand missing", &[0x92, 1, 5]),
        ("operand too many", &[0x94, 1, 5, 5, 5]),
        ("text without its type", &[0xa0]),
        ("text of no type", &[0xa1, 7]),
        ("wildcard", &[0xd4, 0xff, 0]),
        ("quoted scalar", &[0x92, 126, 5]),
        ("unknown type of a bin", &[0x93, 81, 10, 0xa1, b'i']),
        (
            "unknown system of a call",
            &[0x95, 127, 2, 3, 0x91, 16, 0xc0],
        ),
        (
            "four gigabytes of operands",
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 16, 0xc3, 0xc3],
        ),
        ("ten thousand levels", &deep),
    ];
    for (what, bytes) in table {
        let error = Expression::from_bytes(bytes).expect_err(what);
        assert_eq!(error.result_code(), PARAMETER, "{what}");
    }
    let long = val(vec![0_u8; 1 << 20]);
    assert_eq!(long.check().unwrap_err().result_code(), PARAMETER);
    let many = or(vec![bool_val(true); 1 << 17]);
    assert_eq!(many.check().unwrap_err().result_code(), PARAMETER);
    assert!(Expression::from_base64("not base64").is_err());
}
