//! Which operations have results, and which changes of earlier operations reads see.

use super::*;

#[test]
fn reads_see_what_earlier_operations_did() {
    let old = bins([("a", 1.into())]);
    let (_, results) = execute(
        Some(&old),
        &[
            operations::get_bin("a"),
            operations::add("a", 1),
            operations::get_bin("a"),
            operations::delete_bin("a"),
            operations::get_bin("a"),
        ],
    )
    .unwrap();
    assert_eq!(plain(&results), [(0, "a", 1.into()), (2, "a", 2.into())]);
    let (_, results) = execute(Some(&old), &[operations::put("b", 2), operations::get()]).unwrap();
    assert_eq!(plain(&results), [(1, "a", 1.into()), (1, "b", 2.into())]);
}

/// semantics.md#results-of-operations.
#[test]
fn every_kind_of_operation_has_its_result() {
    let record = bins([("i", 1.into()), ("l", ints(&[5, 6]))]);
    let policy = ListPolicy::default();
    let some = |value: Value| Some(value);
    let nil = Some(Value::Nil);
    // (operation, in a read, in a read with respond-all, in a write, in a write with respond-all)
    type Row = (Operation, [Option<Value>; 4]);
    let read_table: [Row; 5] = [
        (
            operations::get_bin("i"),
            [
                some(1.into()),
                some(1.into()),
                some(1.into()),
                some(1.into()),
            ],
        ),
        (
            operations::get_bin("-"),
            [None, nil.clone(), None, nil.clone()],
        ),
        (lists::size("-"), [None, nil.clone(), None, nil.clone()]),
        (
            lists::size("l"),
            [
                some(2.into()),
                some(2.into()),
                some(2.into()),
                some(2.into()),
            ],
        ),
        (
            lists::get_by_value("l", 5, Return::None),
            [None, nil.clone(), nil.clone(), nil.clone()],
        ),
    ];
    for (operation, expected) in read_table {
        let modes = [Mode::empty(), Mode::RESPOND_ALL];
        for (mode, expected) in modes.into_iter().zip(&expected) {
            let results = read(&record, std::slice::from_ref(&operation), mode).unwrap();
            assert_eq!(
                results.first().map(|r| &r.value),
                expected.as_ref(),
                "{operation:?}"
            );
        }
        for (mode, expected) in modes.into_iter().zip(&expected[2..]) {
            let operations = [operation.clone(), operations::touch()];
            let (_, results) = execute_in(mode, Some(&record), &operations).unwrap();
            assert_eq!(
                results.first().map(|r| &r.value),
                expected.as_ref(),
                "{operation:?}"
            );
        }
    }
    let write_table: [(Operation, [Option<Value>; 2]); 8] = [
        (
            lists::append(&policy, "l", 7),
            [some(3.into()), some(3.into())],
        ),
        (
            lists::remove_by_value("l", 5, Return::None),
            [None, nil.clone()],
        ),
        (
            lists::remove_by_value("-", 5, Return::Count),
            [None, nil.clone()],
        ),
        (lists::create("l", ListOrder::Ordered), [None, nil.clone()]),
        (operations::put("i", 2), [None, nil.clone()]),
        (operations::add("i", 2), [None, nil.clone()]),
        (operations::delete_all_bins(), [None, nil]),
        (operations::touch(), [None, None]),
    ];
    for (operation, expected) in write_table {
        for (mode, expected) in [Mode::empty(), Mode::RESPOND_ALL]
            .into_iter()
            .zip(&expected)
        {
            let (_, results) =
                execute_in(mode, Some(&record), std::slice::from_ref(&operation)).unwrap();
            assert_eq!(
                results.first().map(|r| &r.value),
                expected.as_ref(),
                "{operation:?}"
            );
        }
    }
}
