//! Expressions as operations on bins (semantics.md#expressions-as-operations).

use crate::common::*;
use spikelet::expressions::*;
use spikelet::expressions::{ExpReadFlags, ExpWriteFlags};
use spikelet::operations::{self, exp as ops};
use spikelet::policy::RecordExistsAction;
use spikelet::{Expression, ListOrder, ListPolicy, ListWriteFlags, Value, WritePolicy};

// semantics.md#expressions-as-operations.

#[test]
fn an_operation_writes_the_value_to_a_bin() {
    let none = ExpWriteFlags::empty();
    let create = ExpWriteFlags::CREATE_ONLY;
    let update = ExpWriteFlags::UPDATE_ONLY;
    let delete = ExpWriteFlags::ALLOW_DELETE;
    let policy_no_fail = ExpWriteFlags::POLICY_NO_FAIL;
    let eval_no_fail = ExpWriteFlags::EVAL_NO_FAIL;
    let same = || Ok(Some(Value::Int(5)));
    let missing = || Ok(None);
    let code = Err;
    let table = [
        ("overwrites", "i", int_val(1), none, Ok(Some(1.into()))),
        (
            "whatever the type was",
            "i",
            string_val("x"),
            none,
            Ok(Some("x".into())),
        ),
        (
            "creates",
            "new",
            num_add([int_bin("i"), int_val(1)]),
            none,
            Ok(Some(6.into())),
        ),
        (
            "a list",
            "new",
            list_bin("l"),
            none,
            Ok(Some(ints([1, 2, 3]))),
        ),
        ("a bool", "new", bool_val(true), none, Ok(Some(true.into()))),
        ("a float", "new", float_bin("f"), none, Ok(Some(2.5.into()))),
        (
            "a sketch",
            "new",
            geo_bin("g"),
            none,
            Ok(Some(Value::GeoJson(POINT.into()))),
        ),
        (
            "create only, existing",
            "i",
            int_val(1),
            create,
            code(BIN_EXISTS),
        ),
        (
            "create only, new",
            "new",
            int_val(1),
            create,
            Ok(Some(1.into())),
        ),
        (
            "create only, existing, forgiven",
            "i",
            int_val(1),
            create | policy_no_fail,
            same(),
        ),
        (
            "the bin is judged first",
            "i",
            unknown(),
            create,
            code(BIN_EXISTS),
        ),
        (
            "update only, missing",
            "new",
            int_val(1),
            update,
            code(BIN_NOT_FOUND),
        ),
        (
            "update only, missing, forgiven",
            "new",
            int_val(1),
            update | policy_no_fail,
            missing(),
        ),
        (
            "update only, existing",
            "i",
            int_val(1),
            update,
            Ok(Some(1.into())),
        ),
        (
            "both, existing",
            "i",
            int_val(1),
            create | update,
            code(BIN_EXISTS),
        ),
        (
            "both, missing",
            "new",
            int_val(1),
            create | update,
            code(BIN_NOT_FOUND),
        ),
        ("nil", "i", nil(), none, code(NOT_APPLICABLE)),
        ("nil, to delete", "i", nil(), delete, missing()),
        ("nil, with any other flag", "i", nil(), eval_no_fail, same()),
        ("nil, with the other one", "i", nil(), update, same()),
        ("nil, to nothing", "new", nil(), none, missing()),
        ("unknown", "i", unknown(), none, code(NOT_APPLICABLE)),
        ("unknown, forgiven", "i", unknown(), eval_no_fail, same()),
        (
            "unknown, not by the policy's",
            "i",
            unknown(),
            policy_no_fail,
            code(NOT_APPLICABLE),
        ),
        ("a type error", "i", eq(1, "x"), none, code(PARAMETER)),
        (
            "a type error is not forgiven",
            "i",
            eq(1, "x"),
            create | policy_no_fail | eval_no_fail,
            code(PARAMETER),
        ),
        (
            "a wildcard in a list",
            "i",
            val(list([Value::Wildcard])),
            none,
            code(PARAMETER),
        ),
        (
            "removal is no value",
            "i",
            result_remove(),
            none,
            code(NOT_APPLICABLE),
        ),
        (
            "an unknown flag",
            "i",
            int_val(1),
            ExpWriteFlags::from_bits_retain(32),
            code(PARAMETER),
        ),
    ];
    for (what, bin, expression, flags, expected) in table {
        let set = record();
        let done = set.operate(KEY, &[ops::write(bin, expression, flags)]);
        let after = set.get(KEY).unwrap().unwrap().get(bin);
        match expected {
            Ok(value) => {
                assert_eq!(done.unwrap().results, [], "{what}");
                assert_eq!(after, value, "{what}");
            }
            Err(code) => {
                assert_eq!(done.unwrap_err().result_code(), code, "{what}");
                let before = (bin == "i").then_some(Value::Int(5));
                assert_eq!(after, before, "{what}");
            }
        }
    }
}

#[test]
fn an_operation_reads_the_value_under_any_name() {
    let none = ExpReadFlags::empty();
    let no_fail = ExpReadFlags::EVAL_NO_FAIL;
    let set = record();
    let read = |expression, flags| set.operate(KEY, &[ops::read("no bin", expression, flags)]);
    let value = read(int_bin("i"), none).unwrap().bin("no bin").cloned();
    assert_eq!(value, Some(5.into()));
    assert_eq!(
        read(unknown(), none).unwrap_err().result_code(),
        NOT_APPLICABLE
    );
    // Nil is no result in a call that only reads (semantics.md#results-of-operations).
    assert_eq!(read(unknown(), no_fail).unwrap().results, []);
    assert_eq!(read(nil(), none).unwrap().results, []);
    for bits in [1, 2, 4, 8, 32] {
        let flags = ExpReadFlags::from_bits_retain(bits);
        assert_eq!(
            read(int_bin("i"), flags).unwrap_err().result_code(),
            PARAMETER
        );
    }
}

#[test]
fn expressions_see_what_the_operations_before_have_done() {
    let set = record();
    let write = |bin, expression| ops::write(bin, expression, ExpWriteFlags::empty());
    let read = |expression| ops::read("r", expression, ExpReadFlags::empty());
    let done = set
        .operate(
            KEY,
            &[
                operations::add("i", 1),
                write("twice", num_mul([int_bin("i"), int_val(2)])),
                read(int_bin("twice")),
                operations::delete_bin("twice"),
                read(bin_exists("twice")),
                read(num_add([int_bin("i"), int_bin("i")])),
            ],
        )
        .unwrap();
    let values: Vec<&Value> = done.results.iter().map(|result| &result.value).collect();
    assert_eq!(values, [&12.into(), &false.into(), &12.into()]);
    // Together with one write at the end, reads see the record as it was.
    let done = set
        .operate(
            KEY,
            &[
                read(int_bin("i")),
                write("i", num_add([int_bin("i"), int_val(1)])),
            ],
        )
        .unwrap();
    assert_eq!(done.bin("r"), Some(&6.into()));
    assert_eq!(set.get(KEY).unwrap().unwrap().get("i"), Some(7.into()));
}

#[test]
fn an_expression_may_create_a_record_or_leave_none() {
    let set = record();
    let write = |expression| ops::write("b", expression, ExpWriteFlags::ALLOW_DELETE);
    set.operate("new", &[write(int_val(1))]).unwrap();
    assert_eq!(set.get("new").unwrap().unwrap().get("b"), Some(1.into()));
    assert_eq!(set.operate("new", &[write(nil())]).unwrap().generation, 0);
    assert!(!set.exists("new").unwrap());
    assert_eq!(
        set.operate("new", &[write(nil())])
            .unwrap_err()
            .result_code(),
        2
    );
}

#[test]
fn an_expression_that_replaces_a_record_sees_its_new_bins_only() {
    let set = record();
    let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
    let write = |expression| ops::write("sum", expression, ExpWriteFlags::empty());
    let old = set.operate_with(&policy, KEY, &[write(int_bin("i"))]);
    assert_eq!(old.unwrap_err().result_code(), NOT_APPLICABLE);
    let new = [
        operations::put("n", 2),
        write(num_add([int_bin("n"), int_val(1)])),
    ];
    set.operate_with(&policy, KEY, &new).unwrap();
    let record = set.get(KEY).unwrap().unwrap();
    assert_eq!((record.get("sum"), record.get("i")), (Some(3.into()), None));
}

#[test]
fn a_sketch_that_is_none_is_not_written() {
    let set = record();
    let none = val(Value::Hll(vec![1]));
    let write = ops::write("new", none, ExpWriteFlags::empty());
    let refused = set.operate(KEY, &[write]).unwrap_err();
    assert_eq!(refused.result_code(), PARAMETER);
}

#[test]
fn a_literal_that_asks_for_an_index_is_stored_with_one() {
    const ORDERED_AND_INDEXED: u8 = 0x11;
    let set = record();
    let items: Vec<Value> = (0..300).map(Value::from).collect();
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index(true);
    set.operate(
        "put",
        &[operations::lists::append_items(&policy, "p", items)],
    )
    .unwrap();
    // A quoted list of 301 items: the first holds the flags.
    let mut quoted = vec![0x92, 126, 0xdc, 1, 45, 0xc7, 0, ORDERED_AND_INDEXED];
    for item in 0..300_u16 {
        quoted.push(0xcd);
        quoted.extend(item.to_be_bytes());
    }
    let literal = Expression::from_bytes(&quoted).unwrap();
    let write = ops::write("p", literal, ExpWriteFlags::empty());
    set.operate("written", &[write]).unwrap();
    let size = |key| {
        let read = ops::read("size", record_size(), ExpReadFlags::empty());
        set.operate(key, &[read]).unwrap().bin("size").cloned()
    };
    let value = |key| set.get(key).unwrap().unwrap().get("p");
    assert_eq!(value("put"), value("written"));
    assert_eq!(size("put"), size("written"));
}
