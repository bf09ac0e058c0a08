//! The bin, its type, keys, and the forms in which maps are stored.

use super::*;
use spikelet::expressions::{self as exp, ExpType, ExpWriteFlags};
use spikelet::expressions::{LoopVariable, PathFlags, PathStep};

// ---- semantics.md#collections-the-bin-and-its-type

#[test]
fn reads_of_a_missing_bin_give_nothing() {
    check([
        rule("size", MISSING, maps::size(BIN)),
        rule("by key", MISSING, maps::get_by_key(BIN, 1, R::Value)),
        rule("by index", MISSING, maps::get_by_index(BIN, 0, R::Value)),
        rule("by rank", MISSING, maps::get_by_rank(BIN, 0, R::Value)),
        rule("by value", MISSING, maps::get_by_value(BIN, 0, R::Count)),
        rule(
            "by key list",
            MISSING,
            maps::get_by_key_list(BIN, vec![], R::Exists),
        ),
    ]);
}

#[test]
fn removals_from_a_missing_bin_do_nothing() {
    check([
        rule("clear", MISSING, maps::clear(BIN)),
        rule("by key", MISSING, maps::remove_by_key(BIN, 1, R::Value)),
        rule(
            "by key list",
            MISSING,
            maps::remove_by_key_list(BIN, items(list![1]), R::Count),
        ),
        rule(
            "by key range",
            MISSING,
            maps::remove_by_key_range(BIN, None, None, R::Count),
        ),
        rule("by index", MISSING, maps::remove_by_index(BIN, 3, R::Value)),
        rule(
            "by index range",
            MISSING,
            maps::remove_by_index_range(BIN, 3, R::Value),
        ),
        rule("by rank", MISSING, maps::remove_by_rank(BIN, 3, R::Value)),
        rule("by value", MISSING, maps::remove_by_value(BIN, 3, R::Value)),
        rule(
            "by value list",
            MISSING,
            maps::remove_by_value_list(BIN, vec![], R::Value),
        ),
        rule(
            "by value range",
            MISSING,
            maps::remove_by_value_range(BIN, None, None, R::Value),
        ),
    ]);
}

#[test]
fn a_removal_from_a_missing_record_finds_no_record() {
    let set = empty_set();
    for operation in [
        maps::clear(BIN),
        maps::remove_by_key(BIN, 1, R::Value),
        maps::size(BIN),
    ] {
        let refused = set.operate("none", &[operation]).unwrap_err();
        assert_eq!(refused.result_code(), NOT_FOUND);
    }
    assert!(!set.exists("none").unwrap());
}

#[test]
fn writes_to_a_missing_bin_create_it() {
    for order in EVERY_ORDER {
        let as_asked = |map| ordered_as(order, map);
        check([
            rule("create", MISSING, maps::create(BIN, order)).leaves(as_asked(map! {})),
            rule("set the order", MISSING, maps::set_order(BIN, order)).leaves(as_asked(map! {})),
            rule("create with an index that does not show", MISSING, {
                maps::create_persistent(BIN, order)
            })
            .leaves(as_asked(map! {})),
            rule("put", MISSING, maps::put(&of(order), BIN, "a", 1))
                .gives(1)
                .leaves(as_asked(map! {"a" => 1})),
            rule("put, with an index", MISSING, {
                maps::put(&of(order).persist_index(true), BIN, "a", 1)
            })
            .gives(1)
            .leaves(as_asked(map! {"a" => 1})),
            rule("put items", MISSING, {
                maps::put_items(&of(order), BIN, entries(map! {"b" => 1, "a" => 2}))
            })
            .gives(2)
            .leaves(as_asked(map! {"a" => 2, "b" => 1})),
            rule(
                "put no items",
                MISSING,
                maps::put_items(&of(order), BIN, vec![]),
            )
            .gives(0)
            .leaves(as_asked(map! {})),
            rule(
                "increment",
                MISSING,
                maps::increment_value(&of(order), BIN, "a", 3),
            )
            .gives(3)
            .leaves(as_asked(map! {"a" => 3})),
            rule(
                "decrement",
                MISSING,
                maps::decrement_value(&of(order), BIN, "a", 3),
            )
            .gives(-3)
            .leaves(as_asked(map! {"a" => -3})),
        ]);
    }
}

#[test]
fn a_bin_of_another_type_is_refused() {
    for other in [
        1.into(),
        text("x"),
        list![1],
        ordered![1],
        Value::from(&[1, 2]),
    ] {
        let start = || other.clone();
        check([
            rule("size", start(), maps::size(BIN)).refused(WRONG_TYPE),
            rule("by key", start(), maps::get_by_key(BIN, 1, R::Value)).refused(WRONG_TYPE),
            rule("by index", start(), maps::get_by_index(BIN, 0, R::Value)).refused(WRONG_TYPE),
            rule("create", start(), maps::create(BIN, MapOrder::KeyOrdered)).refused(WRONG_TYPE),
            rule("put", start(), maps::put(&plain(), BIN, 1, 1)).refused(WRONG_TYPE),
            rule(
                "put items",
                start(),
                maps::put_items(&plain(), BIN, entries(map! {1 => 1})),
            )
            .refused(WRONG_TYPE),
            rule(
                "increment",
                start(),
                maps::increment_value(&plain(), BIN, 1, 1),
            )
            .refused(WRONG_TYPE),
            rule("clear", start(), maps::clear(BIN)).refused(WRONG_TYPE),
            rule("remove", start(), maps::remove_by_key(BIN, 1, R::None)).refused(WRONG_TYPE),
        ]);
    }
}

// ---- semantics.md#results-of-operations

#[test]
fn entries_come_only_where_there_is_a_result() {
    let set = empty_set();
    set.put("k", [(BIN, map! {1 => NIL, 2 => 3})]).unwrap();
    let reads = [
        maps::get_by_key(BIN, 1, R::Value),
        maps::get_by_key(BIN, 7, R::Value),
        maps::get_by_key(BIN, 2, R::Value),
        maps::get_by_key(BIN, 2, R::None),
        maps::get_by_key(BIN, 7, R::Exists),
        maps::size("none"),
    ];
    let places = |operations: &[spikelet::Operation]| -> Vec<usize> {
        let done = set.operate("k", operations).unwrap();
        done.results.iter().map(|result| result.operation).collect()
    };
    assert_eq!(places(&reads), [2, 4]);
    let mut writes = reads.to_vec();
    writes.extend([
        maps::remove_by_key(BIN, 7, R::Value),
        maps::remove_by_key(BIN, 7, R::Count),
        maps::clear(BIN),
        maps::put(&plain(), BIN, 1, 1),
    ]);
    assert_eq!(places(&writes), [0, 1, 2, 3, 4, 7, 9]);
}

// ---- semantics.md#maps-keys-and-order, semantics.md#normal-form

#[test]
fn keys_are_integers_text_or_bytes() {
    let put = |key: Value| maps::put(&plain(), BIN, key, 1);
    check([
        rule("integer", map! {}, put(1.into()))
            .gives(1)
            .leaves(map! {1 => 1}),
        rule("text", map! {}, put("a".into()))
            .gives(1)
            .leaves(map! {"a" => 1}),
        rule("bytes", map! {}, put((&[1]).into()))
            .gives(1)
            .leaves(map! {&[1] => 1}),
        rule("nil", map! {}, put(NIL)).refused(PARAMETER),
        rule("a truth value", map! {}, put(true.into())).refused(PARAMETER),
        rule("a double", map! {}, put(float(1.0))).refused(PARAMETER),
        rule("a list", map! {}, put(list![1])).refused(PARAMETER),
        rule("a map", map! {}, put(map! {})).refused(PARAMETER),
        rule("GeoJSON", map! {}, put(point())).refused(PARAMETER),
        rule("a sketch", map! {}, put(Value::Hll(vec![1]))).refused(PARAMETER),
        rule("a wildcard", map! {}, put(ANY)).refused(PARAMETER),
        rule("infinity", map! {}, put(INF)).refused(PARAMETER),
        rule("among items", map! {}, {
            maps::put_items(&plain(), BIN, entries(map! {1 => 1, 1.5 => 2}))
        })
        .refused(PARAMETER),
        rule("one key twice", map! {}, {
            maps::put_items(&plain(), BIN, entries(map! {1 => 1, 1 => 2}))
        })
        .refused(PARAMETER),
        rule(
            "to increment",
            map! {},
            maps::increment_value(&plain(), BIN, true, 1),
        )
        .refused(PARAMETER),
        rule(
            "to decrement",
            map! {},
            maps::decrement_value(&plain(), BIN, NIL, 1),
        )
        .refused(PARAMETER),
        rule("looked up, anything may be a key", map! {1 => 2}, {
            maps::get_by_key(BIN, float(1.0), R::Exists)
        })
        .gives(false),
        rule(
            "removed, too",
            map! {1 => 2},
            maps::remove_by_key(BIN, NIL, R::Count),
        )
        .gives(0),
        rule("in a list, too", map! {1 => 2}, {
            maps::get_by_key_list(BIN, items(list![NIL, 1, list![1]]), R::Key)
        })
        .gives(list![1]),
        rule(
            "a value may be nil",
            map! {},
            maps::put(&plain(), BIN, 1, NIL),
        )
        .gives(1)
        .leaves(map! {1 => NIL}),
        rule(
            "a value may not be a wildcard",
            map! {},
            maps::put(&plain(), BIN, 1, ANY),
        )
        .refused(PARAMETER),
        rule(
            "nor infinity, inside",
            map! {},
            maps::put(&plain(), BIN, 1, list![INF]),
        )
        .refused(PARAMETER),
    ]);
}

fn point() -> Value {
    Value::GeoJson(String::from("{\"type\":\"Point\",\"coordinates\":[0,1]}"))
}

#[test]
fn a_whole_map_from_a_client_is_checked() {
    let set = empty_set();
    let put = |bytes: &[u8]| {
        let operation = operations::put_encoded(BIN, ParticleType::Map, bytes);
        set.operate("k", &[operation])
            .map_err(|error| error.result_code())?;
        Ok(set.get("k").unwrap().unwrap().get(BIN).unwrap())
    };
    assert_eq!(
        put(&[0x82, 2, 1, 1, 2]),
        Ok(map! {1 => 2, 2 => 1}),
        "sorted by key"
    );
    assert_eq!(
        put(&[0x82, 0xc7, 0, 1, 0xc0, 1, 2]),
        Ok(by_key! {1 => 2}),
        "the order is kept"
    );
    assert_eq!(
        put(&[0x82, 0xc7, 0, 3, 0xc0, 1, 2]),
        Ok(by_key_and_value! {1 => 2})
    );
    for (what, bytes) in [
        (
            "the order flag on unsorted keys",
            &[0x83, 0xc7, 0, 1, 0xc0, 2, 1, 1, 2][..],
        ),
        ("a key twice", &[0x82, 1, 1, 1, 2]),
        ("nil as a key", &[0x81, 0xc0, 1]),
        ("a truth value as a key", &[0x81, 0xc3, 1]),
        ("a list as a key", &[0x81, 0x90, 1]),
        ("bytes behind the map", &[0x81, 1, 1, 1]),
        ("a map cut short", &[0x82, 1, 1]),
        ("a list", &[0x91, 1]),
    ] {
        assert_eq!(put(bytes), Err(MALFORMED), "{what}");
    }
}

#[test]
fn a_map_comes_back_as_what_it_is() {
    // A client suite, and semantics.md#maps-keys-and-order: entries of unordered maps come back by
    // key, too.
    let set = empty_set();
    for order in EVERY_ORDER {
        let start = ordered_as(order, map! {"b" => 1, 2 => 2, &[7] => 3, "a" => 4});
        let sorted = ordered_as(order, map! {2 => 2, "a" => 4, "b" => 1, &[7] => 3});
        set.put("k", [(BIN, start)]).unwrap();
        assert_eq!(set.get("k").unwrap().unwrap().get(BIN), Some(sorted));
        set.operate("k", &[maps::remove_by_index_range(BIN, 0, R::None)])
            .unwrap();
        assert_eq!(
            set.get("k").unwrap().unwrap().get(BIN),
            Some(ordered_as(order, map! {}))
        );
    }
}

#[test]
fn a_persisted_order_of_values_outlives_other_writes() {
    // {"a": 2, "b": 1}, ordered by key and value, with the flag of a persisted index.
    let whole = [
        0x83, 0xc7, 0, 0x13, 0xc0, 0xa2, 3, b'a', 2, 0xa2, 3, b'b', 1,
    ];
    let same = || exp::loop_var(LoopVariable::Value, ExpType::Int);
    let none = ExpWriteFlags::empty();
    let put = exp::maps::put(&plain(), "b", 1, exp::map_bin(BIN), &[]);
    for (what, write) in [
        (
            "a whole bin",
            operations::put_encoded(BIN, ParticleType::Map, whole),
        ),
        (
            "a path",
            operations::paths::modify_by_path(BIN, same(), PathFlags::empty(), [PathStep::all()]),
        ),
        ("an expression", operations::exp::write(BIN, put, none)),
        (
            "the same order",
            maps::create_persistent(BIN, MapOrder::KeyValueOrdered),
        ),
    ] {
        let operations = [
            operations::put_encoded(BIN, ParticleType::Map, whole),
            maps::create_persistent(BIN, MapOrder::KeyValueOrdered),
            write,
            maps::get_by_value_range(BIN, None, None, R::Key),
        ];
        let answers = results(MISSING, &operations).unwrap();
        assert_eq!(answers[3], list!["b", "a"], "{what}");
    }
}
