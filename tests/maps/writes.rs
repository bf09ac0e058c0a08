//! Putting, converting, clearing, and numbers.

use super::*;

// ---- semantics.md#maps-write-flags

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
            rule(
                "create only: exists (client suite)",
                start(),
                put(CREATE, 1),
            )
            .refused(THERE),
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
            rule("update only: new (client suite)", start(), put(UPDATE, 2)).refused(NOT_THERE),
            rule(
                "update only, not failing",
                start(),
                put(UPDATE | NO_FAIL, 2),
            )
            .gives(2),
            rule("both: exists", start(), put(CREATE | UPDATE, 1)).refused(THERE),
            rule("both: new", start(), put(CREATE | UPDATE, 2)).refused(NOT_THERE),
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
            .refused(NOT_THERE),
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
        .refused(NOT_THERE),
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
            rule("create only", start(), put(CREATE, both())).refused(THERE),
            rule(
                "create only, not failing (client suite)",
                start(),
                put(CREATE | NO_FAIL, both()),
            )
            .gives(4),
            rule("create only, partial (client suite)", start(), {
                put(CREATE | NO_FAIL | PARTIAL, both())
            })
            .gives(5)
            .leaves(created()),
            rule(
                "create only, partial but failing",
                start(),
                put(CREATE | PARTIAL, both()),
            )
            .refused(THERE),
            rule("update only", start(), put(UPDATE, both())).refused(NOT_THERE),
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
            rule("both", start(), put(CREATE | UPDATE, map! {5 => 2})).refused(THERE),
            rule("both", start(), put(CREATE | UPDATE, map! {3 => 2})).refused(NOT_THERE),
        ]);
    }
    let put = |flags| maps::put_items(&with(flags), BIN, entries(map! {1 => 1, 2 => 2}));
    check([
        rule("update only in an empty map", map! {}, put(UPDATE)).refused(NOT_THERE),
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

// ---- semantics.md#maps-operations: create, set order, clear, size

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
    // Client suite.
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

// ---- semantics.md#increments

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
        rule("no number", start(), by(3, 1.into())).refused(PARAMETER),
        rule("nil is no number", start(), by(4, 1.into())).refused(PARAMETER),
        rule("no number to add", start(), by(1, "x".into())).refused(PARAMETER),
        rule("no number to take away", start(), minus(1, list![])).refused(PARAMETER),
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
