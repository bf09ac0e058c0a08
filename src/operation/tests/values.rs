//! Allowed writes: lists by their policies, whole values, numbers of bins.

use super::*;

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
fn list_payloads_give_the_counts_that_clients_expect() {
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
