//! The bin, its type, several operations together, and the values that may be stored.

use super::*;

// ---- semantics.md#collections-the-bin-and-its-type

#[test]
fn reads_of_a_missing_bin_give_nothing() {
    check([
        rule("size", MISSING, lists::size(BIN)),
        rule("get", MISSING, lists::get(BIN, 0)),
        rule("get range", MISSING, lists::get_range(BIN, 0, 1)),
        rule("by index", MISSING, lists::get_by_index(BIN, 5, R::Values)),
        rule("by value", MISSING, lists::get_by_value(BIN, 1, R::Count)),
        rule("by rank", MISSING, lists::get_by_rank(BIN, 0, R::Exists)),
        rule(
            "an illegal return type does not matter",
            MISSING,
            lists::get_by_rank(BIN, 0, R::Values.inverted()),
        ),
    ]);
}

#[test]
fn removals_from_a_missing_bin_do_nothing() {
    check([
        rule("pop", MISSING, lists::pop(BIN, 0)),
        rule("pop range", MISSING, lists::pop_range(BIN, 0, 2)),
        rule("remove", MISSING, lists::remove(BIN, 3)),
        rule("remove range", MISSING, lists::remove_range(BIN, 0, 2)),
        rule("trim", MISSING, lists::trim(BIN, 0, 2)),
        rule("clear", MISSING, lists::clear(BIN)),
        rule(
            "by index",
            MISSING,
            lists::remove_by_index(BIN, 9, R::Values),
        ),
        rule("by rank", MISSING, lists::remove_by_rank(BIN, 9, R::Values)),
        rule(
            "by value",
            MISSING,
            lists::remove_by_value(BIN, 9, R::Count),
        ),
        rule(
            "by value list",
            MISSING,
            lists::remove_by_value_list(BIN, items(list![1]), R::Count),
        ),
        rule(
            "by value range",
            MISSING,
            lists::remove_by_value_range(BIN, None, None, R::Count),
        ),
        rule(
            "by relative rank",
            MISSING,
            lists::remove_by_value_relative_rank_range(BIN, 1, 0, R::Count),
        ),
    ]);
}

#[test]
fn a_removal_from_a_missing_record_finds_no_record() {
    let set = empty_set();
    for operation in [
        lists::pop(BIN, 0),
        lists::clear(BIN),
        lists::remove_by_value(BIN, 1, R::Count),
    ] {
        let refused = set.operate("none", &[operation]).unwrap_err();
        assert_eq!(refused.result_code(), NOT_FOUND);
    }
    let refused = set.operate("none", &[lists::size(BIN)]).unwrap_err();
    assert_eq!(refused.result_code(), NOT_FOUND);
    assert!(!set.exists("none").unwrap());
}

#[test]
fn writes_to_a_missing_bin_create_it() {
    check([
        rule("create", MISSING, lists::create(BIN, ListOrder::Unordered)).leaves(list![]),
        rule(
            "create ordered",
            MISSING,
            lists::create(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![]),
        rule(
            "create with an index",
            MISSING,
            lists::create_persistent(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![]),
        rule("append", MISSING, lists::append(&plain(), BIN, 7))
            .gives(1)
            .leaves(list![7]),
        rule("append, ordered", MISSING, lists::append(&sorted(), BIN, 7))
            .gives(1)
            .leaves(ordered![7]),
        rule(
            "append, with an index that does not show",
            MISSING,
            lists::append(&sorted().persist_index(true), BIN, 7),
        )
        .gives(1)
        .leaves(ordered![7]),
        rule(
            "append items, ordered",
            MISSING,
            lists::append_items(&sorted(), BIN, items(list![3, 1, 2])),
        )
        .gives(3)
        .leaves(ordered![1, 2, 3]),
        rule(
            "append no items",
            MISSING,
            lists::append_items(&sorted(), BIN, vec![]),
        )
        .gives(0)
        .leaves(ordered![]),
        rule(
            "insert: never ordered",
            MISSING,
            lists::insert(&sorted(), BIN, 0, 7),
        )
        .gives(1)
        .leaves(list![7]),
        rule(
            "insert items",
            MISSING,
            lists::insert_items(&plain(), BIN, 1, items(list![8, 7])),
        )
        .gives(3)
        .leaves(list![NIL, 8, 7]),
        rule(
            "set: never ordered",
            MISSING,
            lists::set(&sorted(), BIN, 2, 7),
        )
        .leaves(list![NIL, NIL, 7]),
        rule("increment", MISSING, lists::increment(&plain(), BIN, 0, 5))
            .gives(5)
            .leaves(list![5]),
        rule(
            "sort needs a list",
            MISSING,
            lists::sort(BIN, ListSortFlags::empty()),
        )
        .refused(WRONG_TYPE),
    ]);
}

#[test]
fn a_bin_of_another_type_is_refused() {
    for other in [
        1.into(),
        text("x"),
        map! {1 => 2},
        Value::from(&[1, 2]),
        float(1.5),
    ] {
        let start = || other.clone();
        check([
            rule("size", start(), lists::size(BIN)).refused(WRONG_TYPE),
            rule("get", start(), lists::get(BIN, 0)).refused(WRONG_TYPE),
            rule("by value", start(), lists::get_by_value(BIN, 1, R::Values)).refused(WRONG_TYPE),
            rule("create", start(), lists::create(BIN, ListOrder::Ordered)).refused(WRONG_TYPE),
            rule("append", start(), lists::append(&plain(), BIN, 1)).refused(WRONG_TYPE),
            rule("insert", start(), lists::insert(&plain(), BIN, 0, 1)).refused(WRONG_TYPE),
            rule("set", start(), lists::set(&plain(), BIN, 0, 1)).refused(WRONG_TYPE),
            rule("increment", start(), lists::increment(&plain(), BIN, 0, 1)).refused(WRONG_TYPE),
            rule("pop", start(), lists::pop(BIN, 0)).refused(WRONG_TYPE),
            rule("clear", start(), lists::clear(BIN)).refused(WRONG_TYPE),
            rule("sort", start(), lists::sort(BIN, ListSortFlags::empty())).refused(WRONG_TYPE),
            rule("trim", start(), lists::trim(BIN, 0, 1)).refused(WRONG_TYPE),
            rule("remove", start(), lists::remove_by_index(BIN, 0, R::None)).refused(WRONG_TYPE),
        ]);
    }
}

#[test]
fn a_list_without_elements_stays_a_list() {
    check([
        rule("popped empty", ordered![1], lists::pop(BIN, 0))
            .gives(1)
            .leaves(ordered![]),
        rule("trimmed empty", list![1], lists::trim(BIN, 5, 1))
            .gives(1)
            .leaves(list![]),
        rule("removed", list![1], lists::remove_by_value(BIN, 1, R::None)).leaves(list![]),
    ]);
}

// ---- semantics.md#several-operations-together

#[test]
fn operations_see_what_those_before_them_did() {
    let done = results(
        list![1],
        &[
            lists::append(&plain(), BIN, 2),
            lists::size(BIN),
            lists::clear(BIN),
            lists::size(BIN),
            lists::append(&plain(), BIN, 3),
            operations::get_bin(BIN),
        ],
    );
    assert_eq!(
        done,
        Ok(vec![2.into(), 2.into(), NIL, 0.into(), 1.into(), list![3]])
    );
}

#[test]
fn the_first_error_undoes_all_and_returns_nothing() {
    let set = empty_set();
    set.put("k", [(BIN, list![1])]).unwrap();
    let refused = set.operate(
        "k",
        &[
            lists::append(&plain(), BIN, 2),
            lists::get(BIN, 9),
            lists::append(&plain(), BIN, 3),
        ],
    );
    assert_eq!(refused.unwrap_err().result_code(), NOT_APPLICABLE);
    let record = set.get("k").unwrap().unwrap();
    assert_eq!((record.get(BIN), record.generation()), (Some(list![1]), 1));
}

#[test]
fn entries_come_in_the_order_of_the_operations_and_only_where_there_is_a_result() {
    let set = empty_set();
    set.put("k", [(BIN, list![5, NIL])]).unwrap();
    let reads = [
        lists::size(BIN),
        lists::size("none"),
        lists::get(BIN, 1),
        lists::get_by_value(BIN, 5, R::None),
        lists::get(BIN, 0),
    ];
    let places = |operations: &[Operation]| -> Vec<usize> {
        let done = set.operate("k", operations).unwrap();
        done.results.iter().map(|result| result.operation).collect()
    };
    // Alone, reads have no entry without a value.
    assert_eq!(places(&reads), [0, 4]);
    // In a write they have a nil entry, unless the bin is missing; writes never have one.
    let mut writes = reads.to_vec();
    writes.extend([
        lists::pop(BIN, 1),
        lists::set(&plain(), BIN, 0, 1),
        lists::clear(BIN),
        lists::remove_by_value("none", 1, R::Count),
        lists::append(&plain(), BIN, 2),
    ]);
    assert_eq!(places(&writes), [0, 2, 3, 4, 9]);
}

// ---- semantics.md#normal-form

#[test]
fn stored_values_are_brought_into_order() {
    check([
        rule(
            "the entries of a map are sorted by key, whatever its order",
            list![],
            lists::append(&plain(), BIN, map! {"b" => 1, 3 => 2, "a" => 3}),
        )
        .gives(1)
        .leaves(list![map! {3 => 2, "a" => 3, "b" => 1}]),
        rule(
            "an ordered list inside is sorted",
            list![],
            lists::append(&plain(), BIN, ordered![3, 1, 2]),
        )
        .gives(1)
        .leaves(list![ordered![1, 2, 3]]),
        rule(
            "orders of nested collections are kept",
            list![1],
            lists::set(
                &plain(),
                BIN,
                0,
                list![ordered![1], by_key! {1 => ordered![]}],
            ),
        )
        .leaves(list![list![ordered![1], by_key! {1 => ordered![]}]]),
    ]);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    check([
        rule("a wildcard", list![], lists::append(&plain(), BIN, ANY)).refused(PARAMETER),
        rule(
            "infinity",
            list![],
            lists::append(&plain(), BIN, list![1, INF]),
        )
        .refused(PARAMETER),
        rule(
            "a wildcard deep inside",
            list![1],
            lists::set(&plain(), BIN, 0, map! {1 => list![ANY]}),
        )
        .refused(PARAMETER),
        rule(
            "among items",
            list![],
            lists::append_items(&plain(), BIN, items(list![1, ANY])),
        )
        .refused(PARAMETER),
        rule("to insert", list![], lists::insert(&plain(), BIN, 0, INF)).refused(PARAMETER),
        rule(
            "items to insert",
            list![],
            lists::insert_items(&plain(), BIN, 0, items(list![INF])),
        )
        .refused(PARAMETER),
        rule(
            "a map with a key twice",
            list![],
            lists::append(&plain(), BIN, map! {1 => 1, 1 => 2}),
        )
        .refused(PARAMETER),
        rule(
            "a map with nil as a key",
            list![],
            lists::append(&plain(), BIN, map! {NIL => 1}),
        )
        .refused(PARAMETER),
        rule(
            "with a double",
            list![],
            lists::append(&plain(), BIN, map! {1.5 => 1}),
        )
        .refused(PARAMETER),
        rule(
            "with a list",
            list![],
            lists::append(&plain(), BIN, map! {list![1] => 1}),
        )
        .refused(PARAMETER),
        rule(
            "with a truth value",
            list![],
            lists::append(&plain(), BIN, map! {true => 1}),
        )
        .refused(PARAMETER),
    ]);
}

#[test]
fn a_whole_list_from_a_client_is_checked() {
    let set = empty_set();
    let put = |bytes: &[u8]| {
        let operation = operations::put_encoded(BIN, ParticleType::List, bytes);
        set.operate("k", &[operation])
            .map_err(|error| error.result_code())?;
        Ok(set.get("k").unwrap().unwrap().get(BIN).unwrap())
    };
    // A long form of 1, the order flag, and index data that is dropped.
    assert_eq!(put(&[0x91, 0xd1, 0, 1]), Ok(list![1]));
    assert_eq!(put(&[0x93, 0xc7, 0, 0x01, 1, 2]), Ok(ordered![1, 2]));
    assert_eq!(put(&[0x93, 0xc7, 0, 0x01, 2, 2]), Ok(ordered![2, 2]));
    assert_eq!(put(&[0x93, 0xc7, 1, 0x11, 9, 1, 2]), Ok(ordered![1, 2]));
    for (what, bytes) in [
        (
            "the order flag on unsorted elements",
            &[0x93, 0xc7, 0, 0x01, 2, 1][..],
        ),
        ("bytes behind the list", &[0x91, 1, 1]),
        ("a list cut short", &[0x92, 1]),
        ("a map", &[0x81, 1, 1]),
        ("a key twice in a nested map", &[0x91, 0x82, 1, 1, 1, 2]),
        ("nil as a key in a nested map", &[0x91, 0x81, 0xc0, 1]),
        ("a wildcard", &[0x91, 0xd4, 0xff, 0]),
        ("an extension that is no value", &[0x92, 1, 0xd4, 5, 0]),
    ] {
        assert_eq!(put(bytes), Err(MALFORMED), "{what}");
    }
}
