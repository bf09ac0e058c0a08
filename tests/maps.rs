//! The rules of maps, as tables: a bin, an operation, its result, and the bin afterwards.
//!
//! Section numbers are those of the specification of records and collections. Rules that look accidental but that
//! clients can observe are called QUIRK there and here. Lists and paths have files of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::MapReturnType as R;
use spikelet::operations::{self, maps};
use spikelet::{MapOrder, MapPolicy, MapWriteFlags, ParticleType, Value};
use support::{
    ANY, BIN, INF, MALFORMED, MISSING, NIL, NOT_APPLICABLE, NOT_FOUND, NOT_THERE, PARAMETER, THERE,
    WRONG_TYPE, by_key, by_key_and_value, check, empty_set, entries, float, items, list, map,
    ordered, results, rule, text,
};

fn plain() -> MapPolicy {
    MapPolicy::new(MapOrder::Unordered, MapWriteFlags::empty())
}

fn of(order: MapOrder) -> MapPolicy {
    MapPolicy::new(order, MapWriteFlags::empty())
}

fn with(flags: MapWriteFlags) -> MapPolicy {
    MapPolicy::new(MapOrder::Unordered, flags)
}

const CREATE: MapWriteFlags = MapWriteFlags::CREATE_ONLY;
const UPDATE: MapWriteFlags = MapWriteFlags::UPDATE_ONLY;
const NO_FAIL: MapWriteFlags = MapWriteFlags::NO_FAIL;
const PARTIAL: MapWriteFlags = MapWriteFlags::DO_PARTIAL;

const EVERY_ORDER: [MapOrder; 3] = [
    MapOrder::Unordered,
    MapOrder::KeyOrdered,
    MapOrder::KeyValueOrdered,
];

/// The same map in another order.
fn ordered_as(order: MapOrder, map: Value) -> Value {
    support::map_of(entries(map), order)
}

/// The scores of 12.3, 50. In the order of keys their ranks are 0, 2, 3 and 1.
fn scores() -> Value {
    map! {"Charlie" => 55, "Harry" => 82, "Jim" => 94, "John" => 81}
}

/// The ages of 6.4.
fn ages() -> Value {
    map! {0 => 17, 4 => 2, 5 => 15, 9 => 10}
}

// ---- 2.8, 5.2 The bin and its type

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
                maps::put(&of(order).persist_index(), BIN, "a", 1)
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
            rule("size", start(), maps::size(BIN)).is_refused(WRONG_TYPE),
            rule("by key", start(), maps::get_by_key(BIN, 1, R::Value)).is_refused(WRONG_TYPE),
            rule("by index", start(), maps::get_by_index(BIN, 0, R::Value)).is_refused(WRONG_TYPE),
            rule("create", start(), maps::create(BIN, MapOrder::KeyOrdered)).is_refused(WRONG_TYPE),
            rule("put", start(), maps::put(&plain(), BIN, 1, 1)).is_refused(WRONG_TYPE),
            rule(
                "put items",
                start(),
                maps::put_items(&plain(), BIN, entries(map! {1 => 1})),
            )
            .is_refused(WRONG_TYPE),
            rule(
                "increment",
                start(),
                maps::increment_value(&plain(), BIN, 1, 1),
            )
            .is_refused(WRONG_TYPE),
            rule("clear", start(), maps::clear(BIN)).is_refused(WRONG_TYPE),
            rule("remove", start(), maps::remove_by_key(BIN, 1, R::None)).is_refused(WRONG_TYPE),
        ]);
    }
}

// ---- 2.10 Entries of results

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

// ---- 5.3, 6.1 Keys and normal form

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
        rule("nil", map! {}, put(NIL)).is_refused(PARAMETER),
        rule("a truth value", map! {}, put(true.into())).is_refused(PARAMETER),
        rule("a double", map! {}, put(float(1.0))).is_refused(PARAMETER),
        rule("a list", map! {}, put(list![1])).is_refused(PARAMETER),
        rule("a map", map! {}, put(map! {})).is_refused(PARAMETER),
        rule("GeoJSON", map! {}, put(point())).is_refused(PARAMETER),
        rule("a sketch", map! {}, put(Value::Hll(vec![1]))).is_refused(PARAMETER),
        rule("a wildcard", map! {}, put(ANY)).is_refused(PARAMETER),
        rule("infinity", map! {}, put(INF)).is_refused(PARAMETER),
        rule("among items", map! {}, {
            maps::put_items(&plain(), BIN, entries(map! {1 => 1, 1.5 => 2}))
        })
        .is_refused(PARAMETER),
        rule("one key twice", map! {}, {
            maps::put_items(&plain(), BIN, entries(map! {1 => 1, 1 => 2}))
        })
        .is_refused(PARAMETER),
        rule(
            "to increment",
            map! {},
            maps::increment_value(&plain(), BIN, true, 1),
        )
        .is_refused(PARAMETER),
        rule(
            "to decrement",
            map! {},
            maps::decrement_value(&plain(), BIN, NIL, 1),
        )
        .is_refused(PARAMETER),
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
        .is_refused(PARAMETER),
        rule(
            "nor infinity, inside",
            map! {},
            maps::put(&plain(), BIN, 1, list![INF]),
        )
        .is_refused(PARAMETER),
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
    // 12.3, 57 and 65; 6.1: without order the entries come back by key as well.
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

// ---- 6.2 Write flags

#[test]
fn put_writes_one_key() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, map! {1 => 10, 3 => 30});
        let as_asked = |map| ordered_as(order, map);
        let put = |flags, key: i64| maps::put(&with(flags), BIN, key, 99);
        let none = MapWriteFlags::empty();
        let changed = || as_asked(map! {1 => 99, 3 => 30});
        let added = || as_asked(map! {1 => 10, 2 => 99, 3 => 30});
        check([
            rule("one that exists", start(), put(none, 1))
                .gives(2)
                .leaves(changed()),
            rule("a new one, to its place", start(), put(none, 2))
                .gives(3)
                .leaves(added()),
            rule("at the end", start(), put(none, 7))
                .gives(3)
                .leaves(as_asked(map! {1 => 10, 3 => 30, 7 => 99})),
            rule("with an index", start(), put(none, 2))
                .persisted()
                .gives(3)
                .leaves(added()),
            rule("create only: exists (12.3, 62)", start(), put(CREATE, 1)).is_refused(THERE),
            rule("create only: new", start(), put(CREATE, 2))
                .gives(3)
                .leaves(added()),
            rule(
                "create only, not failing",
                start(),
                put(CREATE | NO_FAIL, 1),
            )
            .gives(2),
            rule("update only: exists", start(), put(UPDATE, 1))
                .gives(2)
                .leaves(changed()),
            rule("update only: new (12.3, 62)", start(), put(UPDATE, 2)).is_refused(NOT_THERE),
            rule(
                "update only, not failing",
                start(),
                put(UPDATE | NO_FAIL, 2),
            )
            .gives(2),
            rule("both: exists", start(), put(CREATE | UPDATE, 1)).is_refused(THERE),
            rule("both: new", start(), put(CREATE | UPDATE, 2)).is_refused(NOT_THERE),
            rule(
                "both, not failing",
                start(),
                put(CREATE | UPDATE | NO_FAIL, 2),
            )
            .gives(2),
            rule(
                "partial means nothing for one",
                start(),
                put(UPDATE | NO_FAIL | PARTIAL, 2),
            )
            .gives(2),
            rule(
                "partial alone means nothing",
                start(),
                put(UPDATE | PARTIAL, 2),
            )
            .is_refused(NOT_THERE),
            rule("the policy's order does not convert", start(), {
                maps::put(&of(MapOrder::KeyOrdered), BIN, 1, 99)
            })
            .gives(2)
            .leaves(changed()),
        ]);
    }
    check([
        rule(
            "update only on a missing bin",
            MISSING,
            maps::put(&with(UPDATE), BIN, 1, 1),
        )
        .is_refused(NOT_THERE),
        rule("QUIRK: not failing, it makes an empty map", MISSING, {
            maps::put(&with(UPDATE | NO_FAIL), BIN, 1, 1)
        })
        .gives(0)
        .leaves(map! {}),
        rule(
            "create only on a missing bin",
            MISSING,
            maps::put(&with(CREATE), BIN, 1, 1),
        )
        .gives(1)
        .leaves(map! {1 => 1}),
    ]);
}

#[test]
fn put_items_writes_several_keys() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, map! {0 => 1, 4 => 1, 5 => 1, 9 => 1});
        let as_asked = |map| ordered_as(order, map);
        let put = |flags, map: Value| maps::put_items(&with(flags), BIN, entries(map));
        let none = MapWriteFlags::empty();
        let both = || map! {5 => 2, 3 => 2};
        let all = || as_asked(map! {0 => 1, 3 => 2, 4 => 1, 5 => 2, 9 => 1});
        let created = || as_asked(map! {0 => 1, 3 => 2, 4 => 1, 5 => 1, 9 => 1});
        let updated = || as_asked(map! {0 => 1, 4 => 1, 5 => 2, 9 => 1});
        check([
            rule("all", start(), put(none, both()))
                .gives(5)
                .leaves(all()),
            rule("with an index", start(), put(none, both()))
                .persisted()
                .gives(5)
                .leaves(all()),
            rule("none", start(), put(none, map! {})).gives(4),
            rule("create only", start(), put(CREATE, both())).is_refused(THERE),
            rule(
                "create only, not failing (12.3, 56)",
                start(),
                put(CREATE | NO_FAIL, both()),
            )
            .gives(4),
            rule("create only, partial (12.3, 56)", start(), {
                put(CREATE | NO_FAIL | PARTIAL, both())
            })
            .gives(5)
            .leaves(created()),
            rule(
                "create only, partial but failing",
                start(),
                put(CREATE | PARTIAL, both()),
            )
            .is_refused(THERE),
            rule("update only", start(), put(UPDATE, both())).is_refused(NOT_THERE),
            rule(
                "update only, not failing",
                start(),
                put(UPDATE | NO_FAIL, both()),
            )
            .gives(4),
            rule(
                "update only, partial",
                start(),
                put(UPDATE | NO_FAIL | PARTIAL, both()),
            )
            .gives(4)
            .leaves(updated()),
            rule(
                "update only, all exist",
                start(),
                put(UPDATE, map! {5 => 2}),
            )
            .gives(4)
            .leaves(updated()),
            rule("create only, all new", start(), put(CREATE, map! {3 => 2}))
                .gives(5)
                .leaves(created()),
            rule("both", start(), put(CREATE | UPDATE, map! {5 => 2})).is_refused(THERE),
            rule("both", start(), put(CREATE | UPDATE, map! {3 => 2})).is_refused(NOT_THERE),
        ]);
    }
    let put = |flags| maps::put_items(&with(flags), BIN, entries(map! {1 => 1, 2 => 2}));
    check([
        rule("update only in an empty map", map! {}, put(UPDATE)).is_refused(NOT_THERE),
        rule("not failing", map! {}, put(UPDATE | NO_FAIL)).gives(0),
        rule(
            "QUIRK: partial stores all in an empty map",
            map! {},
            put(UPDATE | NO_FAIL | PARTIAL),
        )
        .gives(2)
        .leaves(map! {1 => 1, 2 => 2}),
        rule(
            "QUIRK: and in a new one",
            MISSING,
            put(UPDATE | NO_FAIL | PARTIAL),
        )
        .gives(2)
        .leaves(map! {1 => 1, 2 => 2}),
    ]);
}

// ---- 6.3, 6.5 CREATE, SET_TYPE, CLEAR, SIZE

#[test]
fn the_type_of_a_map_can_be_changed() {
    for from in EVERY_ORDER {
        for to in EVERY_ORDER {
            let as_from = || ordered_as(from, map! {1 => 3, 2 => 1, "a" => 2});
            let as_to = || ordered_as(to, map! {1 => 3, 2 => 1, "a" => 2});
            check([
                rule("create", as_from(), maps::create(BIN, to)).leaves(as_to()),
                rule("set the order", as_from(), maps::set_order(BIN, to)).leaves(as_to()),
                rule("with an index", as_from(), maps::create_persistent(BIN, to)).leaves(as_to()),
                rule("drop the index", as_from(), maps::set_order(BIN, to))
                    .persisted()
                    .leaves(as_to()),
            ]);
        }
    }
}

#[test]
fn clear_keeps_the_type() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, map! {1 => 2, 3 => 4});
        check([
            rule("clear", start(), maps::clear(BIN)).leaves(ordered_as(order, map! {})),
            rule("with an index", start(), maps::clear(BIN))
                .persisted()
                .leaves(ordered_as(order, map! {})),
            rule("size", start(), maps::size(BIN)).gives(2),
        ]);
    }
    // 12.3, 54.
    let done = results(map! {1 => 1}, &[maps::clear(BIN), maps::size(BIN)]);
    assert_eq!(done, Ok(vec![NIL, 0.into()]));
    // The index survives: values come in their own order again.
    let set = empty_set();
    let start = by_key_and_value! {1 => 3, 2 => 1};
    support::prepare(&set, &start, true);
    let done = set
        .operate(
            "k",
            &[
                maps::clear(BIN),
                maps::put_items(&plain(), BIN, entries(start)),
                maps::get_by_value_range(BIN, None, None, R::Value),
            ],
        )
        .unwrap();
    assert_eq!(done.value(2), Some(&list![1, 3]));
}

// ---- 5.10 INCREMENT, DECREMENT

#[test]
fn increments_and_decrements() {
    let by = |key: i64, delta: Value| maps::increment_value(&plain(), BIN, key, delta);
    let minus = |key: i64, delta: Value| maps::decrement_value(&plain(), BIN, key, delta);
    let start = || map! {1 => 10, 2 => float(1.5), 3 => "a", 4 => NIL};
    let with_1 = |value: i64| map! {1 => value, 2 => float(1.5), 3 => "a", 4 => NIL};
    let with_2 = |value: f64| map! {1 => 10, 2 => float(value), 3 => "a", 4 => NIL};
    check([
        rule("integer", start(), by(1, 4.into()))
            .gives(14)
            .leaves(with_1(14)),
        rule("nil counts as 1", start(), by(1, NIL))
            .gives(11)
            .leaves(with_1(11)),
        rule("less", start(), minus(1, 4.into()))
            .gives(6)
            .leaves(with_1(6)),
        rule("less nil", start(), minus(1, NIL))
            .gives(9)
            .leaves(with_1(9)),
        rule("a double to an integer is cut", start(), by(1, float(2.9)))
            .gives(12)
            .leaves(with_1(12)),
        rule("less a double", start(), minus(1, float(2.9)))
            .gives(8)
            .leaves(with_1(8)),
        rule("an integer to a double", start(), by(2, 2.into()))
            .gives(float(3.5))
            .leaves(with_2(3.5)),
        rule("less an integer", start(), minus(2, 1.into()))
            .gives(float(0.5))
            .leaves(with_2(0.5)),
        rule("double to double", start(), by(2, float(0.25)))
            .gives(float(1.75))
            .leaves(with_2(1.75)),
        rule("no number", start(), by(3, 1.into())).is_refused(PARAMETER),
        rule("nil is no number", start(), by(4, 1.into())).is_refused(PARAMETER),
        rule("no number to add", start(), by(1, "x".into())).is_refused(PARAMETER),
        rule("no number to take away", start(), minus(1, list![])).is_refused(PARAMETER),
        rule("a new key", map! {1 => 1}, by(5, 3.into()))
            .gives(3)
            .leaves(map! {1 => 1, 5 => 3}),
        rule("a new key, less", map! {1 => 1}, minus(5, float(0.5)))
            .gives(float(-0.5))
            .leaves(map! {1 => 1, 5 => float(-0.5)}),
        rule("integers wrap", map! {1 => i64::MAX}, by(1, 1.into()))
            .gives(i64::MIN)
            .leaves(map! {1 => i64::MIN}),
        rule(
            "with both indexes",
            by_key_and_value! {1 => 1, 2 => 5},
            by(1, 1000.into()),
        )
        .persisted()
        .gives(1001)
        .leaves(by_key_and_value! {1 => 1001, 2 => 5}),
    ]);
}

// ---- 5.5, 6.4 Return types

#[test]
fn a_single_entry_tells_one_thing() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |returns| maps::get_by_key(BIN, "Harry", returns);
        check([
            rule("nothing", start(), by(R::None)),
            rule("index", start(), by(R::Index)).gives(1),
            rule("reverse index", start(), by(R::ReverseIndex)).gives(2),
            rule("rank", start(), by(R::Rank)).gives(2),
            rule("reverse rank", start(), by(R::ReverseRank)).gives(1),
            rule("count", start(), by(R::Count)).gives(1),
            rule("key", start(), by(R::Key)).gives("Harry"),
            rule("value", start(), by(R::Value)).gives(82),
            rule("key and value", start(), by(R::KeyValue)).gives(map! {"Harry" => 82}),
            rule("a map", start(), by(R::UnorderedMap)).gives(map! {"Harry" => 82}),
            rule("an ordered map", start(), by(R::OrderedMap)).gives(by_key! {"Harry" => 82}),
            rule("exists", start(), by(R::Exists)).gives(true),
            rule("there is no inverse of one entry", start(), {
                maps::get_by_key(BIN, "Harry", R::Value.inverted())
            })
            .is_refused(NOT_APPLICABLE),
            rule("nor of one index", start(), {
                maps::remove_by_index(BIN, 0, R::Count.inverted())
            })
            .is_refused(NOT_APPLICABLE),
            rule(
                "nor of one rank",
                start(),
                maps::get_by_rank(BIN, 0, R::Exists.inverted()),
            )
            .is_refused(NOT_APPLICABLE),
        ]);
    }
    check([
        rule(
            "the least (12.3, 50)",
            scores(),
            maps::get_by_key(BIN, "Charlie", R::Rank),
        )
        .gives(0),
        rule("the least, reversed (12.3, 50)", scores(), {
            maps::get_by_key(BIN, "Charlie", R::ReverseRank)
        })
        .gives(3),
    ]);
}

#[test]
fn an_unknown_key_is_no_error() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |returns| maps::get_by_key(BIN, "Ann", returns);
        check([
            rule("nothing", start(), by(R::None)),
            rule("index", start(), by(R::Index)).gives(-1),
            rule("reverse index", start(), by(R::ReverseIndex)).gives(-1),
            rule("rank", start(), by(R::Rank)).gives(-1),
            rule("reverse rank", start(), by(R::ReverseRank)).gives(-1),
            rule("count", start(), by(R::Count)).gives(0),
            rule("key", start(), by(R::Key)),
            rule("value (12.3, 61)", start(), by(R::Value)),
            rule("key and value", start(), by(R::KeyValue)).gives(map! {}),
            rule("a map", start(), by(R::UnorderedMap)).gives(map! {}),
            rule("an ordered map", start(), by(R::OrderedMap)).gives(by_key! {}),
            rule("exists", start(), by(R::Exists)).gives(false),
            rule(
                "removed (12.3, 52)",
                start(),
                maps::remove_by_key(BIN, "Ann", R::Value),
            ),
            rule(
                "removed?",
                start(),
                maps::remove_by_key(BIN, "Ann", R::Exists),
            )
            .gives(false),
            rule(
                "removed!",
                map! {"Ann" => 1},
                maps::remove_by_key(BIN, "Ann", R::Exists),
            )
            .gives(true)
            .leaves(map! {}),
        ]);
    }
}

#[test]
fn a_single_index_or_rank_must_exist() {
    let start = || scores();
    check([
        rule("the last key", start(), maps::get_by_index(BIN, -1, R::Key)).gives("John"),
        rule(
            "the first key",
            start(),
            maps::get_by_index(BIN, -4, R::Key),
        )
        .gives("Charlie"),
        rule(
            "no such index (12.3, 61)",
            start(),
            maps::get_by_index(BIN, 4, R::Key),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "nor so far before",
            start(),
            maps::get_by_index(BIN, -5, R::Exists),
        )
        .is_refused(NOT_APPLICABLE),
        rule("removed", start(), maps::remove_by_index(BIN, 4, R::None)).is_refused(NOT_APPLICABLE),
        rule(
            "the greatest value",
            start(),
            maps::get_by_rank(BIN, -1, R::Key),
        )
        .gives("Jim"),
        rule(
            "the least, by index",
            start(),
            maps::get_by_rank(BIN, 1, R::Index),
        )
        .gives(3),
        rule("no such rank", start(), maps::get_by_rank(BIN, 4, R::Key)).is_refused(NOT_APPLICABLE),
        rule("removed", start(), maps::remove_by_rank(BIN, -5, R::Key)).is_refused(NOT_APPLICABLE),
        rule("of nothing", map! {}, maps::get_by_index(BIN, 0, R::Key)).is_refused(NOT_APPLICABLE),
        rule(
            "by rank",
            start(),
            maps::remove_by_rank(BIN, 0, R::KeyValue),
        )
        .gives(map! {"Charlie" => 55})
        .leaves(map! {"Harry" => 82, "Jim" => 94, "John" => 81}),
    ]);
}

#[test]
fn entries_in_a_row_by_key() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |returns| maps::get_by_index_range_count(BIN, 1, 2, returns);
        check([
            rule("nothing", start(), by(R::None)),
            rule("index", start(), by(R::Index)).gives(list![1, 2]),
            rule("reverse index, ascending", start(), by(R::ReverseIndex)).gives(list![1, 2]),
            rule("rank: one each, by key", start(), by(R::Rank)).gives(list![2, 3]),
            rule("reverse rank", start(), by(R::ReverseRank)).gives(list![1, 0]),
            rule("count", start(), by(R::Count)).gives(2),
            rule("keys", start(), by(R::Key)).gives(list!["Harry", "Jim"]),
            rule("values", start(), by(R::Value)).gives(list![82, 94]),
            rule("both", start(), by(R::KeyValue)).gives(map! {"Harry" => 82, "Jim" => 94}),
            rule("a map", start(), by(R::UnorderedMap)).gives(map! {"Harry" => 82, "Jim" => 94}),
            rule("an ordered map", start(), by(R::OrderedMap))
                .gives(by_key! {"Harry" => 82, "Jim" => 94}),
            rule("index range", start(), by(R::IndexRange)).gives(list![1, 2]),
            rule("reverse index range", start(), by(R::ReverseIndexRange)).gives(list![1, 2]),
            rule("no ranks in a row", start(), by(R::RankRange)).is_refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(R::ReverseRankRange)).is_refused(NOT_APPLICABLE),
            rule("exists", start(), by(R::Exists)).gives(true),
            rule(
                "the last",
                start(),
                maps::get_by_index_range(BIN, 3, R::ReverseIndexRange),
            )
            .gives(list![0, 1]),
        ]);
    }
}

#[test]
fn entries_in_a_row_by_rank() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |returns| maps::get_by_rank_range_count(BIN, 1, 2, returns);
        check([
            rule("keys, by rank", start(), by(R::Key)).gives(list!["John", "Harry"]),
            rule("values, by rank", start(), by(R::Value)).gives(list![81, 82]),
            rule("both, by rank", start(), by(R::KeyValue))
                .gives(map! {"John" => 81, "Harry" => 82}),
            rule("a map, by rank", start(), by(R::UnorderedMap))
                .gives(map! {"John" => 81, "Harry" => 82}),
            rule("an ordered map, by key", start(), by(R::OrderedMap))
                .gives(by_key! {"Harry" => 82, "John" => 81}),
            rule("rank", start(), by(R::Rank)).gives(list![1, 2]),
            rule("reverse rank, ascending", start(), by(R::ReverseRank)).gives(list![1, 2]),
            rule("rank range", start(), by(R::RankRange)).gives(list![1, 2]),
            rule("reverse rank range", start(), by(R::ReverseRankRange)).gives(list![1, 2]),
            rule("no indexes in a row", start(), by(R::IndexRange)).is_refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(R::ReverseIndexRange)).is_refused(NOT_APPLICABLE),
            rule("count", start(), by(R::Count)).gives(2),
            // 12.3, 50.
            rule("the upper two, ascending", start(), {
                maps::get_by_rank_range_count(BIN, -2, 2, R::Key)
            })
            .gives(list!["Harry", "Jim"]),
            rule("the lower two, in rank order", start(), {
                maps::get_by_rank_range_count(BIN, 0, 2, R::KeyValue)
            })
            .gives(map! {"Charlie" => 55, "John" => 81}),
            rule("with an index", start(), by(R::Key))
                .persisted()
                .gives(list!["John", "Harry"]),
        ]);
    }
    // 12.3, 55.
    check([rule(
        "ties go by key",
        by_key_and_value! {"p1" => 10, "p2" => 20, "p3" => 1, "p4" => 20},
        { maps::get_by_rank_range_count(BIN, -3, 3, R::Key) },
    )
    .gives(list!["p1", "p2", "p4"])]);
}

#[test]
fn entries_by_value() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |value: i64, returns| maps::get_by_value(BIN, value, returns);
        let range = |begin: i64, end: i64, returns| {
            maps::get_by_value_range(BIN, Some(begin.into()), Some(end.into()), returns)
        };
        check([
            rule("keys", start(), by(82, R::Key)).gives(list!["Harry"]),
            rule("keys not found (12.3, 50)", start(), by(77, R::Key)).gives(list![]),
            rule("rank: a list (12.3, 50)", start(), by(81, R::Rank)).gives(list![1]),
            rule("index", start(), by(81, R::Index)).gives(list![3]),
            rule("count", start(), by(81, R::Count)).gives(1),
            rule("exists not", start(), by(80, R::Exists)).gives(false),
            rule("no indexes in a row", start(), by(81, R::IndexRange)).is_refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(81, R::ReverseIndexRange)).is_refused(NOT_APPLICABLE),
            rule("rank range", start(), by(81, R::RankRange)).gives(list![1, 1]),
            rule("the rank that it would have", start(), by(80, R::RankRange)).gives(list![1, 0]),
            rule("range, rank (12.3, 50)", start(), range(90, 95, R::Rank)).gives(list![3]),
            rule("range, key (12.3, 50)", start(), range(81, 82, R::Key)).gives(list!["John"]),
            rule("range, keys in their order", start(), range(81, 90, R::Key))
                .gives(list!["Harry", "John"]),
            rule("range, ranks in a row", start(), range(81, 90, R::Rank)).gives(list![1, 2]),
            rule("range, no end", start(), {
                maps::get_by_value_range(BIN, Some(82.into()), None, R::Key)
            })
            .gives(list!["Harry", "Jim"]),
            rule("range, no begin", start(), {
                maps::get_by_value_range(BIN, None, Some(82.into()), R::Key)
            })
            .gives(list!["Charlie", "John"]),
            rule("range, empty", start(), range(82, 82, R::Key)).gives(list![]),
            rule("range, infinite", start(), {
                maps::get_by_value_range(BIN, Some(82.into()), Some(INF), R::Count)
            })
            .gives(2),
        ]);
    }
    check([
        rule("equal values, by key", map! {3 => 1, 1 => 1, 2 => 2}, {
            maps::get_by_value(BIN, 1, R::Key)
        })
        .gives(list![1, 3]),
        rule(
            "reverse indexes, descending",
            map! {3 => 1, 1 => 1, 2 => 2},
            { maps::get_by_value(BIN, 1, R::ReverseIndex) },
        )
        .gives(list![2, 0]),
        rule("reverse ranks, ascending", map! {3 => 1, 1 => 1, 2 => 2}, {
            maps::get_by_value(BIN, 1, R::ReverseRank)
        })
        .gives(list![1, 2]),
        rule(
            "a map as value, whatever its order (12.3, 64)",
            {
                map! {1 => by_key! {"a" => 1}, 2 => map! {"a" => 1}, 3 => map! {"a" => 2}}
            },
            maps::get_by_value(BIN, by_key! {"a" => 1}, R::Key),
        )
        .gives(list![1, 2]),
        rule(
            "a wildcard inside",
            map! {1 => list![1, 2], 2 => list![1], 3 => list![1, 9]},
            { maps::get_by_value(BIN, list![1, ANY], R::Key) },
        )
        .gives(list![1, 3]),
        rule(
            "a wildcard matches all",
            scores(),
            maps::get_by_value(BIN, ANY, R::Count),
        )
        .gives(4),
        rule("removed", scores(), maps::remove_by_value(BIN, 82, R::Key))
            .gives(list!["Harry"])
            .leaves(map! {"Charlie" => 55, "Jim" => 94, "John" => 81}),
    ]);
}

#[test]
fn values_come_in_their_order_from_an_index_of_values() {
    let start = || by_key_and_value! {1 => 30, 2 => 10, 3 => 20, 4 => 10};
    let range = |returns| maps::get_by_value_range(BIN, Some(10.into()), Some(30.into()), returns);
    let several = |returns| maps::get_by_value_list(BIN, items(list![20, 10, 7, 20]), returns);
    check([
        rule("without index: by key", start(), range(R::Key)).gives(list![2, 3, 4]),
        rule("with index: by value", start(), range(R::Key))
            .persisted()
            .gives(list![2, 4, 3]),
        rule("an ordered map is by key", start(), range(R::OrderedMap))
            .persisted()
            .gives(by_key! {2 => 10, 3 => 20, 4 => 10}),
        rule("inverted: by key", start(), {
            maps::get_by_value_range(BIN, Some(20.into()), Some(25.into()), R::Key.inverted())
        })
        .persisted()
        .gives(list![1, 2, 4]),
        rule(
            "ordered by key only: by key",
            by_key! {1 => 30, 2 => 10, 3 => 20},
            range(R::Key),
        )
        .persisted()
        .gives(list![2, 3]),
        rule(
            "several, without index: by key, once",
            start(),
            several(R::Key),
        )
        .gives(list![2, 3, 4]),
        rule(
            "several, with index: by parameter, and again",
            start(),
            several(R::Key),
        )
        .persisted()
        .gives(list![3, 2, 4, 3]),
        rule("several, with index: values", start(), several(R::Value))
            .persisted()
            .gives(list![20, 10, 10, 20]),
        rule("several, inverted: by key", start(), {
            maps::get_by_value_list(BIN, items(list![30, 20]), R::Key.inverted())
        })
        .persisted()
        .gives(list![2, 4]),
        rule("removed, told by parameter, and again", start(), {
            maps::remove_by_value_list(BIN, items(list![20, 30, 20]), R::Key)
        })
        .persisted()
        .gives(list![3, 1, 3])
        .leaves(by_key_and_value! {2 => 10, 4 => 10}),
        rule("removed, wildcards as well", start(), {
            maps::remove_by_value_list(BIN, items(list![ANY, 20]), R::Key)
        })
        .persisted()
        .gives(list![2, 4, 3, 1, 3])
        .leaves(by_key_and_value! {}),
        rule("removed once", start(), {
            maps::remove_by_value_list(BIN, items(list![20, 30, 20]), R::Count)
        })
        .persisted()
        .gives(2)
        .leaves(by_key_and_value! {2 => 10, 4 => 10}),
    ]);
}

#[test]
fn lists_of_keys_and_values() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let keys = |keys: Value, returns| maps::get_by_key_list(BIN, items(keys), returns);
        let values = |values: Value, returns| maps::get_by_value_list(BIN, items(values), returns);
        let some = || list!["John", "Ann", "Harry", "John"];
        check([
            rule("keys by key, each once", start(), keys(some(), R::Key))
                .gives(list!["Harry", "John"]),
            rule("values", start(), keys(some(), R::Value)).gives(list![82, 81]),
            rule("index", start(), keys(some(), R::Index)).gives(list![1, 3]),
            rule(
                "reverse index, descending",
                start(),
                keys(some(), R::ReverseIndex),
            )
            .gives(list![2, 0]),
            rule("count", start(), keys(some(), R::Count)).gives(2),
            rule("exists", start(), keys(some(), R::Exists)).gives(true),
            rule("no rank", start(), keys(some(), R::Rank)).is_refused(NOT_APPLICABLE),
            rule("nor reverse", start(), keys(some(), R::ReverseRank)).is_refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::IndexRange)).is_refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::ReverseIndexRange))
                .is_refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::RankRange)).is_refused(NOT_APPLICABLE),
            rule("no keys", start(), keys(list![], R::Key)).gives(list![]),
            rule("no keys, count", start(), keys(list![], R::Count)).gives(0),
            rule("no keys, a map", start(), keys(list![], R::KeyValue)).gives(map! {}),
            rule("no keys, inverted: all", start(), {
                maps::get_by_key_list(BIN, vec![], R::Count.inverted())
            })
            .gives(4),
            rule("inverted", start(), {
                maps::get_by_key_list(BIN, items(some()), R::Key.inverted())
            })
            .gives(list!["Charlie", "Jim"]),
            rule(
                "values by key, each once",
                start(),
                values(list![94, 55, 1], R::Key),
            )
            .gives(list!["Charlie", "Jim"]),
            rule("count", start(), values(list![94, 55, 94], R::Count)).gives(2),
            rule("index", start(), values(list![94, 55], R::Index)).gives(list![0, 2]),
            rule("no range", start(), values(list![94], R::RankRange)).is_refused(NOT_APPLICABLE),
            rule("no range", start(), values(list![94], R::IndexRange)).is_refused(NOT_APPLICABLE),
            rule("no values", start(), values(list![], R::Key)).gives(list![]),
            rule("no values, inverted: all", start(), {
                maps::get_by_value_list(BIN, vec![], R::Key.inverted())
            })
            .gives(list!["Charlie", "Harry", "Jim", "John"]),
        ]);
    }
    check([
        rule(
            "unknown keys are passed over (12.3, 52)",
            map! {1 => 1, 2 => 2, 3 => 3},
            { maps::remove_by_key_list(BIN, items(list![3, 7, 1]), R::Value) },
        )
        .gives(list![1, 3])
        .leaves(map! {2 => 2}),
        rule("values removed", map! {1 => 1, 2 => 2, 3 => 1}, {
            maps::remove_by_value_list(BIN, items(list![1, 5]), R::Key)
        })
        .gives(list![1, 3])
        .leaves(map! {2 => 2}),
    ]);
}

#[test]
fn ranges_of_keys() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by = |begin: &str, end: &str, returns| {
            maps::get_by_key_range(BIN, Some(begin.into()), Some(end.into()), returns)
        };
        check([
            rule("begin in, end out", start(), by("Harry", "John", R::Key))
                .gives(list!["Harry", "Jim"]),
            rule(
                "no begin",
                start(),
                maps::get_by_key_range(BIN, None, Some("Jim".into()), R::Key),
            )
            .gives(list!["Charlie", "Harry"]),
            rule(
                "no end",
                start(),
                maps::get_by_key_range(BIN, Some("Jim".into()), None, R::Key),
            )
            .gives(list!["Jim", "John"]),
            rule(
                "neither",
                start(),
                maps::get_by_key_range(BIN, None, None, R::Count),
            )
            .gives(4),
            rule("empty", start(), by("K", "Z", R::Key)).gives(list![]),
            rule("end before begin", start(), by("Z", "A", R::Count)).gives(0),
            rule("index range", start(), by("H", "K", R::IndexRange)).gives(list![1, 3]),
            rule("ranks by key", start(), by("H", "K", R::Rank)).gives(list![2, 3, 1]),
            rule("no ranks in a row", start(), by("H", "K", R::RankRange))
                .is_refused(NOT_APPLICABLE),
            rule("inverted", start(), {
                maps::get_by_key_range(BIN, Some("H".into()), Some("Ji".into()), R::Key.inverted())
            })
            .gives(list!["Charlie", "Jim", "John"]),
            rule("removed", start(), {
                maps::remove_by_key_range(BIN, Some("H".into()), Some("Jo".into()), R::Index)
            })
            .gives(list![1, 2])
            .leaves(ordered_as(order, map! {"Charlie" => 55, "John" => 81})),
        ]);
    }
    check([rule("infinity as end (12.3, 60)", ages(), {
        maps::get_by_key_range(BIN, Some(5.into()), Some(INF), R::Key)
    })
    .gives(list![5, 9])]);
}

#[test]
fn relative_ranges() {
    // 6.4 and 12.3, 60.
    for order in EVERY_ORDER {
        let start = || ordered_as(order, ages());
        let from = |key, index| maps::get_by_key_relative_index_range(BIN, key, index, R::Key);
        let some = |key, index, count| {
            maps::get_by_key_relative_index_range_count(BIN, key, index, count, R::Key)
        };
        check([
            rule("(5, 0)", start(), from(5, 0)).gives(list![5, 9]),
            rule("(5, 1)", start(), from(5, 1)).gives(list![9]),
            rule("(5, -1)", start(), from(5, -1)).gives(list![4, 5, 9]),
            rule("(3, 2)", start(), from(3, 2)).gives(list![9]),
            rule("(3, -2)", start(), from(3, -2)).gives(list![0, 4, 5, 9]),
            rule("(5, 0, 1)", start(), some(5, 0, 1)).gives(list![5]),
            rule("(5, -1, 1)", start(), some(5, -1, 1)).gives(list![4]),
            rule("(3, 2, 1)", start(), some(3, 2, 1)).gives(list![9]),
            rule("(3, -2, 2)", start(), some(3, -2, 2)).gives(list![0]),
            rule("index range", start(), {
                maps::get_by_key_relative_index_range(BIN, 3, 1, R::IndexRange)
            })
            .gives(list![2, 2]),
            rule("ranks by key", start(), {
                maps::get_by_key_relative_index_range(BIN, 3, 0, R::Rank)
            })
            .gives(list![0, 2, 1]),
        ]);
        let from =
            |value, rank| maps::get_by_value_relative_rank_range(BIN, value, rank, R::KeyValue);
        let some = |value, rank, count| {
            maps::get_by_value_relative_rank_range_count(BIN, value, rank, count, R::KeyValue)
        };
        check([
            rule("(11, 1)", start(), from(11, 1)).gives(map! {0 => 17}),
            rule("(11, -1)", start(), from(11, -1)).gives(in_this_order([
                (9, 10),
                (5, 15),
                (0, 17),
            ])),
            rule("(11, 1, 1)", start(), some(11, 1, 1)).gives(map! {0 => 17}),
            rule("(11, -1, 1)", start(), some(11, -1, 1)).gives(map! {9 => 10}),
            rule("rank range", start(), {
                maps::get_by_value_relative_rank_range(BIN, 11, -1, R::RankRange)
            })
            .gives(list![1, 3]),
            rule("inverted: by key", start(), {
                maps::get_by_value_relative_rank_range(BIN, 11, 0, R::Key.inverted())
            })
            .gives(list![4, 9]),
            rule("removed", start(), {
                maps::remove_by_value_relative_rank_range(BIN, 11, 0, R::Key)
            })
            .gives(list![5, 0])
            .leaves(ordered_as(order, map! {4 => 2, 9 => 10})),
            rule("removed by key", start(), {
                maps::remove_by_key_relative_index_range_count(BIN, 3, 0, 2, R::Count)
            })
            .gives(2)
            .leaves(ordered_as(order, map! {0 => 17, 9 => 10})),
        ]);
    }
}

/// A map with its entries in this order.
fn in_this_order<const N: usize>(entries: [(i64, i64); N]) -> Value {
    let entries = entries.map(|(key, value)| (key.into(), value.into()));
    support::map_of(entries.into(), MapOrder::Unordered)
}

#[test]
fn inverted_means_the_others_by_key() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, scores());
        let by_rank = |returns: R| maps::get_by_rank_range_count(BIN, -2, 2, returns.inverted());
        let by_value = |returns: R| maps::get_by_value(BIN, 77, returns.inverted());
        let by_index = |returns: R| maps::get_by_index_range_count(BIN, 1, 2, returns.inverted());
        check([
            // 12.3, 51.
            rule("by rank", start(), by_rank(R::Key)).gives(list!["Charlie", "John"]),
            rule("none picked: ranks", start(), by_value(R::Rank)).gives(list![0, 1, 2, 3]),
            rule("none picked: count", start(), by_value(R::Count)).gives(4),
            rule("pairs by key", start(), by_rank(R::KeyValue))
                .gives(map! {"Charlie" => 55, "John" => 81}),
            rule("ranks ascending", start(), by_rank(R::Rank)).gives(list![0, 1]),
            rule(
                "reverse ranks, descending",
                start(),
                by_rank(R::ReverseRank),
            )
            .gives(list![3, 2]),
            rule("indexes", start(), by_rank(R::Index)).gives(list![0, 3]),
            rule(
                "reverse indexes, descending",
                start(),
                by_rank(R::ReverseIndex),
            )
            .gives(list![3, 0]),
            rule("no ranges", start(), by_rank(R::RankRange)).is_refused(NOT_APPLICABLE),
            rule("no ranges", start(), by_index(R::IndexRange)).is_refused(NOT_APPLICABLE),
            rule("by index", start(), by_index(R::Value)).gives(list![55, 81]),
            rule(
                "QUIRK: whether none was picked by value",
                start(),
                by_value(R::Exists),
            )
            .gives(true),
            rule("QUIRK: some were by rank", start(), by_rank(R::Exists)).gives(false),
            rule(
                "whether others are there, by index",
                start(),
                by_index(R::Exists),
            )
            .gives(true),
            rule("all picked by index", start(), {
                maps::get_by_index_range(BIN, 0, R::Exists.inverted())
            })
            .gives(false),
            // 12.3, 63.
            rule("a removal keeps what was picked", start(), {
                maps::remove_by_rank_range_count(BIN, -2, 2, R::Key.inverted())
            })
            .gives(list!["Charlie", "John"])
            .leaves(ordered_as(order, map! {"Harry" => 82, "Jim" => 94})),
            rule("by key list", start(), {
                maps::remove_by_key_list(BIN, items(list!["Jim"]), R::Value.inverted())
            })
            .gives(list![55, 82, 81])
            .leaves(ordered_as(order, map! {"Jim" => 94})),
        ]);
    }
}

#[test]
fn nothing_in_an_empty_map() {
    for order in EVERY_ORDER {
        let start = || ordered_as(order, map! {});
        check([
            rule("keys", start(), maps::get_by_value(BIN, 1, R::Key)).gives(list![]),
            rule("count", start(), maps::get_by_value(BIN, 1, R::Count)).gives(0),
            rule(
                "pairs",
                start(),
                maps::get_by_index_range(BIN, 0, R::KeyValue),
            )
            .gives(map! {}),
            rule(
                "an ordered map",
                start(),
                maps::get_by_key_range(BIN, None, None, R::OrderedMap),
            )
            .gives(by_key! {}),
            rule(
                "QUIRK: no value has rank -1",
                start(),
                maps::get_by_value(BIN, 1, R::RankRange),
            )
            .gives(list![-1, 0]),
            rule("QUIRK: nor in a range", start(), {
                maps::get_by_value_range(BIN, None, None, R::RankRange)
            })
            .gives(list![-1, 0]),
            rule(
                "inverted",
                start(),
                maps::get_by_value(BIN, 1, R::Key.inverted()),
            )
            .gives(list![]),
        ]);
    }
}

#[test]
fn a_sequence_of_removals() {
    // 12.3, 53.
    let done = results(
        MISSING,
        &[
            maps::put_items(
                &plain(),
                BIN,
                entries(map! {
                    "Charlie" => 22, "Harry" => 82, "Jim" => 98, "John" => 76, "Sally" => 79,
                    "Lenny" => 84, "Abe" => 88
                }),
            ),
            maps::remove_by_key_range(BIN, Some("J".into()), Some("K".into()), R::Count),
            maps::remove_by_value_range(BIN, Some(80.into()), Some(85.into()), R::Count),
            maps::remove_by_index_range_count(BIN, 0, 2, R::Count),
            maps::remove_by_rank_range_count(BIN, 0, 2, R::Count),
        ],
    );
    assert_eq!(
        done,
        Ok(vec![7.into(), 2.into(), 2.into(), 2.into(), 1.into()])
    );
}
