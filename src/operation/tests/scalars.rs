//! Adding and joining.

use super::*;

#[test]
fn adding_keeps_to_numbers_of_one_type() {
    let int = |value: i64| Ok(Value::Int(value));
    let table: [(Option<Value>, Value, std::result::Result<Value, u8>); 13] = [
        (None, 5.into(), int(5)),
        (None, 1.5.into(), Ok(1.5.into())),
        (None, "any".into(), Ok("any".into())),
        (None, Value::Nil, Err(4)),
        (Some(1.into()), 2.into(), int(3)),
        (Some(i64::MAX.into()), 1.into(), int(i64::MIN)),
        (Some(1.into()), 1.5.into(), Err(12)),
        (Some(1.into()), "1".into(), Err(12)),
        (Some(1.into()), Value::Nil, Err(4)),
        (Some(1.5.into()), 0.25.into(), Ok(1.75.into())),
        (
            Some(f64::MAX.into()),
            f64::MAX.into(),
            Ok(f64::INFINITY.into()),
        ),
        (Some(1.5.into()), 1.into(), Err(12)),
        (Some("1".into()), 1.into(), Err(12)),
    ];
    for (value, operand, expected) in table {
        let old = value.clone().map(|value| bins([("a", value)]));
        let result = execute(old.as_ref(), &[operations::add("a", operand.clone())]);
        let result = result.map(|(bins, _)| bins.get("a").cloned().unwrap());
        assert_eq!(
            result.map_err(|e| e.result_code()),
            expected,
            "{value:?} + {operand:?}"
        );
    }
}

#[test]
fn joining_takes_two_values_of_the_same_type() {
    type Join = fn(&str, Value) -> Operation;
    let append: Join = operations::append;
    let prepend: Join = operations::prepend;
    type Row = (Join, Option<Value>, Value, std::result::Result<Value, u8>);
    let table: [Row; 9] = [
        (append, Some("ab".into()), "c".into(), Ok("abc".into())),
        (prepend, Some("ab".into()), "c".into(), Ok("cab".into())),
        (append, Some(b"ab".into()), b"c".into(), Ok(b"abc".into())),
        (prepend, Some(b"ab".into()), b"c".into(), Ok(b"cab".into())),
        (append, None, 5.into(), Ok(5.into())),
        (prepend, Some("ab".into()), b"c".into(), Err(12)),
        (append, Some(b"ab".into()), "c".into(), Err(12)),
        (append, Some(1.into()), "c".into(), Err(12)),
        (append, Some("a".into()), Value::Nil, Err(4)),
    ];
    for (join, value, operand, expected) in table {
        let old = value
            .clone()
            .map(|value| bins([("z", 0.into()), ("a", value)]));
        let result = execute(old.as_ref(), &[join("a", operand.clone())]);
        let result = result.map(|(bins, _)| bins.get("a").cloned().unwrap());
        assert_eq!(
            result.map_err(|e| e.result_code()),
            expected,
            "{value:?} and {operand:?}"
        );
    }
}
