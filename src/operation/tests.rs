//! Operations on records, rule by rule, and the fast paths against the plain ones.

use proptest::prelude::*;

use super::operations::{self, lists};
use super::{Checked, Mode, Operation, OperationResult, merge};
use crate::Result;
use crate::cdt::{ListPolicy, ListReturnType as Return, ListWriteFlags as Flags};
use crate::record::{Bins, RecordView};
use crate::value::testing::any_value;
use crate::value::{ListOrder, ParticleType, Value};

fn bins<const N: usize>(entries: [(&str, Value); N]) -> Bins {
    let mut bins = Bins::new();
    for (name, value) in entries {
        bins.set(name, value).unwrap();
    }
    bins
}

fn body_of(bins: &Bins) -> Vec<u8> {
    let mut body = Vec::new();
    bins.write_body(&mut body).unwrap();
    body
}

fn bins_of(body: &[u8]) -> Bins {
    RecordView::parse(body).unwrap().to_bins().unwrap()
}

fn ints(items: &[i64]) -> Value {
    items
        .iter()
        .map(|item| Value::Int(*item))
        .collect::<Vec<_>>()
        .into()
}

fn ordered(items: &[i64]) -> Value {
    let items = items.iter().map(|item| Value::Int(*item)).collect();
    crate::value::List::new(items, ListOrder::Ordered).into()
}

/// Executes writing operations: the new body and the results.
fn execute_in(
    mode: Mode,
    old: Option<&Bins>,
    operations: &[Operation],
) -> Result<(Vec<u8>, Vec<OperationResult>)> {
    let old = old.map(body_of);
    let old = old.as_ref().map(|old| RecordView::parse(old).unwrap());
    let mut body = Vec::new();
    let outcome = Checked::new(operations, mode)?.execute(old, &mut body)?;
    assert_eq!(
        RecordView::parse(&body).unwrap().len(),
        outcome.bin_count as usize
    );
    Ok((body, outcome.results))
}

fn execute(old: Option<&Bins>, operations: &[Operation]) -> Result<(Bins, Vec<OperationResult>)> {
    let (body, results) = execute_in(Mode::empty(), old, operations)?;
    Ok((bins_of(&body), results))
}

fn read(record: &Bins, operations: &[Operation], mode: Mode) -> Result<Vec<OperationResult>> {
    let body = body_of(record);
    Checked::new(operations, mode)?.read(RecordView::parse(&body).unwrap())
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> u8 {
    result.unwrap_err().result_code()
}

/// Results as (operation, bin, value).
fn plain(results: &[OperationResult]) -> Vec<(usize, &str, Value)> {
    results
        .iter()
        .map(|r| (r.operation, r.bin.as_str(), r.value.clone()))
        .collect()
}

#[test]
fn adding_follows_the_table_of_2_8() {
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

#[test]
fn bins_stand_in_the_order_of_creation_and_the_last_one_fills_a_gap() {
    let old = bins([("a", 1.into()), ("b", 2.into()), ("c", 3.into())]);
    let table: [(Vec<Operation>, &[&str]); 6] = [
        (
            vec![operations::put("b", "long text in place of a number")],
            &["a", "b", "c"],
        ),
        (vec![operations::put("d", 4)], &["a", "b", "c", "d"]),
        (vec![operations::delete_bin("a")], &["c", "b"]),
        (
            vec![operations::delete_bin("a"), operations::put("a", 1)],
            &["c", "b", "a"],
        ),
        (vec![operations::delete_bin("none")], &["a", "b", "c"]),
        (
            vec![operations::delete_all_bins(), operations::put("x", 1)],
            &["x"],
        ),
    ];
    for (operations, expected) in table {
        let (new, _) = execute(Some(&old), &operations).unwrap();
        let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn a_record_can_be_left_without_bins() {
    let old = bins([("a", 1.into())]);
    for operations in [
        vec![operations::delete_bin("a")],
        vec![operations::delete_all_bins()],
        vec![
            operations::put("b", 1),
            operations::delete_bin("b"),
            operations::delete_bin("a"),
        ],
    ] {
        assert!(execute(Some(&old), &operations).unwrap().0.is_empty());
    }
    assert!(
        execute(None, &[operations::delete_bin("a")])
            .unwrap()
            .0
            .is_empty()
    );
    let remove = lists::remove_by_value("a", 1, Return::Count);
    assert!(execute(None, &[remove]).unwrap().0.is_empty());
}

#[test]
fn replacing_drops_the_old_bins_and_refuses_what_needs_them() {
    let policy = ListPolicy::default();
    let refused = [
        operations::touch(),
        operations::delete_bin("a"),
        operations::put_encoded("a", ParticleType::Null, []),
        operations::add("a", 1),
        operations::append("a", "x"),
        operations::prepend("a", "x"),
        operations::delete_all_bins(),
        lists::append(&policy, "a", 1),
        lists::create("a", ListOrder::Ordered),
    ];
    for operation in refused {
        assert_eq!(code(Checked::new(&[operation], Mode::REPLACE)), 4);
    }
    let old = bins([("a", 1.into()), ("b", 2.into())]);
    let allowed = [
        operations::get_bin("b"),
        operations::put("c", 3),
        operations::get_bin("c"),
    ];
    let (body, results) = execute_in(Mode::REPLACE, Some(&old), &allowed).unwrap();
    assert_eq!(bins_of(&body), bins([("c", 3.into())]));
    assert_eq!(plain(&results), [(2, "c", 3.into())]);
}

#[test]
fn malformed_requests_are_refused_before_the_record_is_looked_up() {
    let table: [(Vec<Operation>, Mode, u8); 8] = [
        (vec![], Mode::empty(), 4),
        (vec![operations::touch(); 32_769], Mode::empty(), 4),
        (
            vec![operations::put("sixteen bytes...", 1)],
            Mode::empty(),
            21,
        ),
        (vec![operations::get_bin("a\0")], Mode::empty(), 21),
        (vec![operations::get(), operations::get()], Mode::empty(), 4),
        (vec![operations::get()], Mode::RESPOND_ALL, 4),
        (
            vec![operations::get(), operations::get_bin("a")],
            Mode::empty(),
            4,
        ),
        (vec![operations::get(), lists::size("a")], Mode::empty(), 4),
    ];
    for (operations, mode, expected) in table {
        assert_eq!(
            code(Checked::new(&operations, mode)),
            expected,
            "{:?}",
            operations.first()
        );
    }
    assert!(Checked::new(&vec![operations::touch(); 32_768], Mode::empty()).is_ok());
    assert!(
        Checked::new(&[operations::touch()], Mode::empty())
            .unwrap()
            .must_exist()
    );
}

#[test]
fn a_call_that_only_reads_refuses_writes() {
    let record = bins([("a", 1.into())]);
    let writes = [
        operations::put("a", 1),
        operations::touch(),
        lists::append(&ListPolicy::default(), "l", 1),
    ];
    for write in writes {
        assert_eq!(
            code(read(
                &record,
                &[operations::get_bin("a"), write],
                Mode::empty()
            )),
            4
        );
    }
    let all = read(&record, &[operations::get()], Mode::empty()).unwrap();
    assert_eq!(plain(&all), [(0, "a", 1.into())]);
}

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

#[test]
fn results_follow_the_table_of_2_10() {
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

#[test]
fn lists_are_created_by_policy_and_refused_where_another_type_is() {
    let policy = ListPolicy::new(ListOrder::Ordered, Flags::ADD_UNIQUE | Flags::NO_FAIL);
    let (new, results) = execute(
        None,
        &[
            lists::append_items(&policy, "l", vec![3.into(), 1.into()]),
            lists::append(&policy, "l", 2),
            lists::append(&policy, "l", 2),
            lists::get_by_index_range("l", -2, Return::Values),
            lists::get_by_index_range_count("l", 0, 1, Return::Values),
            lists::get_by_value("l", 2, Return::Values.inverted()),
        ],
    )
    .unwrap();
    assert_eq!(new, bins([("l", ordered(&[1, 2, 3]))]));
    let expected = [
        2.into(),
        3.into(),
        3.into(),
        ints(&[2, 3]),
        ints(&[1]),
        ints(&[1, 3]),
    ];
    assert_eq!(
        results.into_iter().map(|r| r.value).collect::<Vec<_>>(),
        expected
    );

    let (new, _) = execute(None, &[lists::create_persistent("l", ListOrder::Ordered)]).unwrap();
    assert_eq!(new, bins([("l", ordered(&[]))]));

    let other = bins([("l", 1.into())]);
    for operation in [
        lists::append(&policy, "l", 1),
        lists::create("l", ListOrder::Ordered),
        lists::size("l"),
        lists::remove_by_value("l", 1, Return::None),
    ] {
        assert_eq!(
            code(execute(Some(&other), &[operation, operations::touch()])),
            12
        );
    }
}

#[test]
fn list_payloads_of_5_8_give_the_counts_that_clients_expect() {
    let payload = |items: &[i64]| {
        items
            .iter()
            .map(|item| Value::Int(*item))
            .collect::<Vec<_>>()
    };
    let first = payload(&[0, 4, 5, 9, 9, 11, 15, 0]);
    let second = payload(&[11, 3]);
    for (flags, counts) in [
        (
            Flags::ADD_UNIQUE | Flags::NO_FAIL | Flags::DO_PARTIAL,
            [6, 7],
        ),
        (Flags::ADD_UNIQUE | Flags::NO_FAIL, [0, 2]),
    ] {
        let policy = ListPolicy::new(ListOrder::Ordered, flags);
        let (new, results) =
            execute(None, &[lists::append_items(&policy, "l", first.clone())]).unwrap();
        assert_eq!(results[0].value, counts[0].into());
        assert!(
            new.get("l").is_some(),
            "the list exists, if only an empty one"
        );
        let (_, results) = execute(
            Some(&new),
            &[lists::append_items(&policy, "l", second.clone())],
        )
        .unwrap();
        assert_eq!(results[0].value, counts[1].into());
    }
}

#[test]
fn what_cannot_be_stored_is_refused_by_the_code_of_its_place() {
    let twice = Value::Map(vec![(1.into(), 1.into()), (1.into(), 2.into())].into());
    let policy = ListPolicy::default();
    let table = [
        (operations::put("a", twice.clone()), 1),
        (operations::put("a", Value::Wildcard), 1),
        (
            operations::put_encoded("a", ParticleType::List, [0x91, 0xd4, 0xff, 0]),
            1,
        ),
        (
            operations::put_encoded("a", ParticleType::Integer, [0; 3]),
            1,
        ),
        (lists::append(&policy, "a", twice), 4),
        (lists::append(&policy, "a", Value::Infinity), 4),
        (
            lists::append_items(&policy, "a", vec![Value::Nil; (1 << 20) + 1]),
            4,
        ),
    ];
    for (operation, expected) in table {
        assert_eq!(code(execute(None, &[operation])), expected);
    }
}

#[test]
fn an_encoded_value_is_written_in_normal_form() {
    let wire = [0xdc, 0, 2, 0xcc, 1, 0xc4, 2, 4, 7];
    let operations = [operations::put_encoded("a", ParticleType::List, wire)];
    let (new, _) = execute(None, &operations).unwrap();
    assert_eq!(
        new,
        bins([("a", vec![1.into(), Value::Blob(vec![7])].into())])
    );
    let removed = [operations::put_encoded("a", ParticleType::Null, [])];
    assert!(execute(Some(&new), &removed).unwrap().0.is_empty());
}

#[test]
fn a_record_has_at_most_32767_bins_after_the_operations() {
    let many: Vec<Operation> = (0..32_768)
        .map(|i| operations::put(&i.to_string(), 1))
        .collect();
    assert_eq!(execute(None, &many[..32_767]).unwrap().0.len(), 32_767);
    assert_eq!(code(execute(None, &many)), 4);
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d", "e"])
}

fn some_bins() -> impl Strategy<Value = Bins> {
    let value = prop_oneof![
        storable(),
        prop::collection::vec(0..9_i64, 0..5).prop_map(|items| ints(&items)),
        (0..5_i64).prop_map(Value::Int),
        "[a-z]{0,200}".prop_map(Value::String),
    ];
    prop::collection::vec((name(), value), 0..5).prop_map(|entries| {
        let mut bins = Bins::new();
        entries
            .into_iter()
            .for_each(|(name, value)| bins.set(name, value).unwrap());
        bins
    })
}

/// A value that a whole bin can hold: GeoJSON and sketches are checked there.
fn storable() -> impl Strategy<Value = Value> {
    any_value().prop_map(|value| match value {
        Value::GeoJson(_) => {
            Value::GeoJson(r#"{"type":"Point","coordinates":[1.5,2.5]}"#.to_owned())
        }
        Value::Hll(sketch) => Value::Blob(sketch),
        value => value,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let policies = prop::sample::select(vec![
        ListPolicy::default(),
        ListPolicy::new(ListOrder::Ordered, Flags::ADD_UNIQUE).persist_index(),
    ]);
    prop_oneof![
        name().prop_map(operations::get_bin),
        (name(), storable()).prop_map(|(bin, value)| operations::put(bin, value)),
        name().prop_map(operations::delete_bin),
        (name(), 0..3_i64).prop_map(|(bin, by)| operations::add(bin, by)),
        (name(), "[a-c]{0,3}").prop_map(|(bin, text)| operations::append(bin, text)),
        (name(), "[a-c]{0,3}").prop_map(|(bin, text)| operations::prepend(bin, text)),
        (name(), policies, 0..9_i64)
            .prop_map(|(bin, policy, item)| lists::append(&policy, bin, item)),
        (name(), 0..9_i64).prop_map(|(bin, item)| lists::remove_by_value(bin, item, Return::Count)),
        Just(operations::delete_all_bins()),
    ]
}

proptest! {
    #[test]
    fn one_write_comes_out_the_same_by_the_short_and_the_long_way(
        old in prop::option::of(some_bins()),
        mut operations in prop::collection::vec(operation(), 1..4),
    ) {
        let short = execute_in(Mode::empty(), old.as_ref(), &operations);
        operations.push(operations::touch());
        let long = execute_in(Mode::empty(), old.as_ref(), &operations);
        match (short, long) {
            (Ok(short), Ok(long)) => prop_assert_eq!(short, long),
            (short, long) => prop_assert_eq!(code(short), code(long)),
        }
    }

    #[test]
    fn operations_one_by_one_come_out_the_same_as_together(
        old in some_bins(),
        operations in prop::collection::vec(operation(), 1..6),
    ) {
        let together = execute_in(Mode::empty(), Some(&old), &operations);
        let mut body = body_of(&old);
        let mut failed = None;
        for operation in &operations {
            let mut next = Vec::new();
            let view = RecordView::parse(&body).unwrap();
            let checked = Checked::new(std::slice::from_ref(operation), Mode::empty()).unwrap();
            match checked.execute(Some(view), &mut next) {
                Ok(_) => body = next,
                Err(error) => {
                    failed = Some(error.result_code());
                    break;
                }
            }
        }
        match failed {
            Some(expected) => prop_assert_eq!(code(together), expected),
            None => prop_assert_eq!(together.unwrap().0, body),
        }
    }

    #[test]
    fn merging_bins_is_setting_them_one_by_one(
        old in prop::option::of(some_bins()),
        new in some_bins(),
        many in any::<bool>(),
    ) {
        let mut new = new;
        if many {
            for i in 0..20 {
                new.set(&format!("n{i}"), i).unwrap();
            }
        }
        let old = old.map(|old| bins_of(&body_of(&old)));
        let mut expected = old.clone().unwrap_or_default();
        for (name, value) in new.iter() {
            if *value == Value::Nil {
                expected.remove(name.as_str());
            } else {
                expected.insert(*name, value.clone());
            }
        }
        let old = old.as_ref().map(body_of);
        let mut body = Vec::new();
        let view = old.as_ref().map(|old| RecordView::parse(old).unwrap());
        let count = merge(view, &new, &mut body).unwrap();
        prop_assert_eq!(count as usize, expected.len());
        prop_assert_eq!(body, body_of(&expected));
    }
}
