//! Creating, appending, inserting, setting.

use super::*;

// ---- semantics.md#lists-operations: create, set order

#[test]
fn the_type_of_a_list_can_be_changed() {
    check([
        rule(
            "an order sorts",
            list![3, 1, 2],
            lists::set_order(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![1, 2, 3]),
        rule(
            "duplicates stay",
            list![2, 1, 2],
            lists::create(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![1, 2, 2]),
        rule("without order all stays in its place", ordered![1, 2], {
            lists::set_order(BIN, ListOrder::Unordered)
        })
        .leaves(list![1, 2]),
        rule("an index changes no value", list![3, 1], {
            lists::create_persistent(BIN, ListOrder::Unordered)
        }),
        rule("an ordered one sorts", list![3, 1], {
            lists::create_persistent(BIN, ListOrder::Ordered)
        })
        .leaves(ordered![1, 3]),
        rule(
            "and away again",
            ordered![1, 3],
            lists::create(BIN, ListOrder::Ordered),
        )
        .persisted(),
        rule(
            "types in their order",
            list![float(0.1), "a", 1, NIL, list![], true, map! {}],
            lists::set_order(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![NIL, true, 1, "a", list![], map! {}, float(0.1)]),
    ]);
}

// ---- semantics.md#lists-operations: append

#[test]
fn append_puts_at_the_end_or_where_the_order_wants_it() {
    check([
        rule("at the end", list![3], lists::append(&plain(), BIN, 1))
            .gives(2)
            .leaves(list![3, 1]),
        rule(
            "a policy's order does not convert",
            list![3],
            lists::append(&sorted(), BIN, 1),
        )
        .gives(2)
        .leaves(list![3, 1]),
        rule("sorted in", ordered![1, 3], lists::append(&plain(), BIN, 2))
            .gives(3)
            .leaves(ordered![1, 2, 3]),
        rule(
            "with an index",
            ordered![1, 3],
            lists::append(&plain(), BIN, 2),
        )
        .persisted()
        .gives(3)
        .leaves(ordered![1, 2, 3]),
        rule(
            "a duplicate",
            ordered![1, 3],
            lists::append(&plain(), BIN, 1),
        )
        .gives(3)
        .leaves(ordered![1, 1, 3]),
        rule(
            "nil is a value",
            list![1],
            lists::append(&plain(), BIN, NIL),
        )
        .gives(2)
        .leaves(list![1, NIL]),
        rule(
            "several",
            list![5],
            lists::append_items(&plain(), BIN, items(list![2, 1])),
        )
        .gives(3)
        .leaves(list![5, 2, 1]),
        rule("several, sorted in", ordered![2, 5], {
            lists::append_items(&plain(), BIN, items(list![9, 1, 2, 4]))
        })
        .gives(6)
        .leaves(ordered![1, 2, 2, 4, 5, 9]),
        rule("none", list![5], lists::append_items(&plain(), BIN, vec![])).gives(1),
    ]);
}

#[test]
fn unique_elements() {
    let add = |flags, value: i64| lists::append(&with(UNIQUE | flags), BIN, value);
    let add_all =
        |flags, values: Value| lists::append_items(&with(UNIQUE | flags), BIN, items(values));
    let none = ListWriteFlags::empty();
    // semantics.md#lists-unique-elements, without and with order.
    check([
        rule("one that exists (client suite)", list![1, 2], add(none, 1)).refused(THERE),
        rule("not failing", list![1, 2], add(NO_FAIL, 1)).gives(2),
        rule("nor partial", list![1, 2], add(NO_FAIL | PARTIAL, 1)).gives(2),
        rule("one that does not", list![1, 2], add(none, 3))
            .gives(3)
            .leaves(list![1, 2, 3]),
        rule("some exist", list![1], add_all(none, list![3, 1, 2])).refused(THERE),
        rule(
            "some exist, not failing",
            list![1],
            add_all(NO_FAIL, list![3, 1, 2]),
        )
        .gives(1),
        rule(
            "some exist, partial",
            list![1],
            add_all(NO_FAIL | PARTIAL, list![3, 1, 2]),
        )
        .gives(3)
        .leaves(list![1, 3, 2]),
        rule(
            "duplicates among them",
            list![1],
            add_all(none, list![3, 2, 3]),
        )
        .refused(NOT_APPLICABLE),
        rule("not failing", list![1], add_all(NO_FAIL, list![3, 2, 3])).gives(1),
        rule(
            "the first of each",
            list![1],
            add_all(NO_FAIL | PARTIAL, list![3, 2, 3]),
        )
        .gives(3)
        .leaves(list![1, 3, 2]),
        rule("all exist", list![1, 2], add_all(none, list![2, 1])).refused(THERE),
        rule("not failing", list![1, 2], add_all(NO_FAIL, list![2, 1])).gives(2),
        rule(
            "partial",
            list![1, 2],
            add_all(NO_FAIL | PARTIAL, list![2, 1]),
        )
        .gives(2),
        rule(
            "partial means nothing if it fails",
            list![1],
            add_all(PARTIAL, list![3, 1]),
        )
        .refused(THERE),
        rule(
            "the first violation decides: existing",
            list![1],
            add_all(none, list![1, 3, 3]),
        )
        .refused(THERE),
        rule(
            "the first violation decides: twice",
            list![1],
            add_all(none, list![3, 3, 1]),
        )
        .refused(NOT_APPLICABLE),
        rule("none at all", list![1], add_all(none, list![])).gives(1),
    ]);
    check([
        rule("one that exists", ordered![1, 2], add(none, 1)).refused(THERE),
        rule("not failing", ordered![1, 2], add(NO_FAIL, 1)).gives(2),
        rule("one that does not", ordered![1, 3], add(none, 2))
            .gives(3)
            .leaves(ordered![1, 2, 3]),
        rule("some exist", ordered![1], add_all(none, list![3, 1, 2])).refused(THERE),
        rule(
            "some exist, not failing",
            ordered![1],
            add_all(NO_FAIL, list![3, 1, 2]),
        )
        .gives(1),
        rule(
            "some exist, partial",
            ordered![1],
            add_all(NO_FAIL | PARTIAL, list![3, 1, 2]),
        )
        .gives(3)
        .leaves(ordered![1, 2, 3]),
        rule(
            "duplicates among them",
            ordered![1],
            add_all(none, list![3, 2, 3]),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "the first of each",
            ordered![1],
            add_all(NO_FAIL | PARTIAL, list![3, 2, 3]),
        )
        .gives(3)
        .leaves(ordered![1, 2, 3]),
        rule(
            "the first violation decides: existing",
            ordered![1],
            add_all(none, list![1, 3, 3]),
        )
        .refused(THERE),
        rule(
            "the first violation decides: twice",
            ordered![1],
            add_all(none, list![3, 3, 1]),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "duplicates that are there stay",
            ordered![1, 1],
            add(none, 2),
        )
        .gives(3)
        .leaves(ordered![1, 1, 2]),
    ]);
    // Client suite.
    let many = || list![0, 4, 5, 9, 9, 11, 15, 0];
    let ordered_all =
        |flags, values| lists::append_items(&sorted_with(UNIQUE | flags), BIN, items(values));
    check([
        rule("28", MISSING, ordered_all(NO_FAIL | PARTIAL, many()))
            .gives(6)
            .leaves(ordered![0, 4, 5, 9, 11, 15]),
        rule(
            "28: nothing added, and yet a list",
            MISSING,
            ordered_all(NO_FAIL, many()),
        )
        .gives(0)
        .leaves(ordered![]),
        rule("28: 3 is new", ordered![0, 4, 5, 9, 11, 15], {
            ordered_all(NO_FAIL | PARTIAL, list![11, 3])
        })
        .gives(7)
        .leaves(ordered![0, 3, 4, 5, 9, 11, 15]),
        rule(
            "28: both are new",
            ordered![],
            ordered_all(NO_FAIL, list![11, 3]),
        )
        .gives(2)
        .leaves(ordered![3, 11]),
        rule("refused, and no list", MISSING, {
            ordered_all(ListWriteFlags::empty(), list![1, 1])
        })
        .refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn unique_means_unequal_by_the_order_of_values() {
    let add = |value: Value| lists::append(&with(UNIQUE), BIN, value);
    check([
        rule("integer and double differ", list![1], add(float(1.0)))
            .gives(2)
            .leaves(list![1, float(1.0)]),
        rule("text and bytes differ", list!["a"], add(b"a".into()))
            .gives(2)
            .leaves(list!["a", b"a"]),
        rule(
            "zeros of either sign are equal",
            list![float(0.0)],
            add(float(-0.0)),
        )
        .refused(THERE),
        rule(
            "orders of lists do not count",
            list![list![1, 2]],
            add(ordered![1, 2]),
        )
        .refused(THERE),
        rule(
            "orders of maps do not count",
            list![map! {1 => 2}],
            add(by_key! {1 => 2}),
        )
        .refused(THERE),
        rule("nil is unique, too", list![NIL], add(NIL)).refused(THERE),
    ]);
}

// ---- semantics.md#lists-insert-and-set: insert

#[test]
fn insert_makes_room() {
    let at = |index, value: i64| lists::insert(&plain(), BIN, index, value);
    let start = || list![1, 2, 3];
    check([
        rule("at the beginning", start(), at(0, 9))
            .gives(4)
            .leaves(list![9, 1, 2, 3]),
        rule("between", start(), at(1, 9))
            .gives(4)
            .leaves(list![1, 9, 2, 3]),
        rule("at the end", start(), at(3, 9))
            .gives(4)
            .leaves(list![1, 2, 3, 9]),
        rule("from the end (client suite)", list![1, 2, 3, 4], at(-2, 9))
            .gives(5)
            .leaves(list![1, 2, 9, 3, 4]),
        rule("before all, from the end", start(), at(-3, 9))
            .gives(4)
            .leaves(list![9, 1, 2, 3]),
        rule("before the beginning", start(), at(-4, 9)).refused(NOT_APPLICABLE),
        rule("beyond the end: nil in the gap", start(), at(5, 9))
            .gives(6)
            .leaves(list![1, 2, 3, NIL, NIL, 9]),
        rule("too far", start(), at(1 << 31, 9)).refused(NOT_APPLICABLE),
        rule("much too far", start(), at(i64::MAX, 9)).refused(NOT_APPLICABLE),
        rule(
            "an order has no places (client suite)",
            ordered![1],
            at(0, 9),
        )
        .refused(NOT_APPLICABLE),
        rule("not even without failing", ordered![1], {
            lists::insert(&with(NO_FAIL), BIN, 0, 9)
        })
        .refused(NOT_APPLICABLE),
        rule(
            "several",
            start(),
            lists::insert_items(&plain(), BIN, 1, items(list![8, 9])),
        )
        .gives(5)
        .leaves(list![1, 8, 9, 2, 3]),
        rule("several from the end", start(), {
            lists::insert_items(&plain(), BIN, -1, items(list![8, 9]))
        })
        .gives(5)
        .leaves(list![1, 2, 8, 9, 3]),
        rule("several beyond the end", start(), {
            lists::insert_items(&plain(), BIN, 4, items(list![8, 9]))
        })
        .gives(6)
        .leaves(list![1, 2, 3, NIL, 8, 9]),
        rule(
            "none",
            start(),
            lists::insert_items(&plain(), BIN, 0, vec![]),
        )
        .gives(3),
        rule("several, ordered", ordered![1], {
            lists::insert_items(&plain(), BIN, 0, items(list![8]))
        })
        .refused(NOT_APPLICABLE),
        rule("with an index", start(), at(1, 9))
            .persisted()
            .gives(4)
            .leaves(list![1, 9, 2, 3]),
    ]);
}

#[test]
fn bounded_inserts() {
    let at = |flags, index| lists::insert(&with(flags), BIN, index, 9);
    check([
        rule("at the end", list![1], at(BOUNDED, 1))
            .gives(2)
            .leaves(list![1, 9]),
        rule("beyond (client suite)", list![1], at(BOUNDED, 2)).refused(NOT_APPLICABLE),
        rule("not failing", list![1], at(BOUNDED | NO_FAIL, 2)).gives(1),
        rule(
            "before the beginning it fails",
            list![1],
            at(BOUNDED | NO_FAIL, -2),
        )
        .refused(NOT_APPLICABLE),
        rule("several", list![1], {
            lists::insert_items(&with(BOUNDED), BIN, 2, items(list![8, 9]))
        })
        .refused(NOT_APPLICABLE),
        rule("several, not failing", list![1], {
            lists::insert_items(&with(BOUNDED | NO_FAIL), BIN, 2, items(list![8, 9]))
        })
        .gives(1),
        rule("a missing bin is bounded, too", MISSING, at(BOUNDED, 1)).refused(NOT_APPLICABLE),
        rule(
            "QUIRK: an empty list is made",
            MISSING,
            at(BOUNDED | NO_FAIL, 1),
        )
        .gives(0)
        .leaves(list![]),
        rule("set", list![1], lists::set(&with(BOUNDED), BIN, 2, 9)).refused(NOT_APPLICABLE),
        rule(
            "set, not failing",
            list![1],
            lists::set(&with(BOUNDED | NO_FAIL), BIN, 2, 9),
        ),
        rule(
            "set at the end",
            list![1],
            lists::set(&with(BOUNDED), BIN, 1, 9),
        )
        .leaves(list![1, 9]),
    ]);
}

#[test]
fn unique_inserts() {
    let at = |flags, index, value: i64| lists::insert(&with(UNIQUE | flags), BIN, index, value);
    let all = |flags, index, values: Value| {
        lists::insert_items(&with(UNIQUE | flags), BIN, index, items(values))
    };
    let none = ListWriteFlags::empty();
    check([
        rule("one that exists", list![1, 2], at(none, 0, 2)).refused(THERE),
        rule("not failing", list![1, 2], at(NO_FAIL, 0, 2)).gives(2),
        rule(
            "the nil in a gap may come twice",
            list![NIL],
            at(none, 3, 2),
        )
        .gives(4)
        .leaves(list![NIL, NIL, NIL, 2]),
        rule("some exist", list![1], all(none, 0, list![2, 1])).refused(THERE),
        rule("not failing", list![1], all(NO_FAIL, 0, list![2, 1])).gives(1),
        rule(
            "partial",
            list![1],
            all(NO_FAIL | PARTIAL, 0, list![2, 1, 3, 2]),
        )
        .gives(3)
        .leaves(list![2, 3, 1]),
        rule("duplicates among them", list![1], all(none, 0, list![2, 2])).refused(NOT_APPLICABLE),
    ]);
}

// ---- semantics.md#lists-insert-and-set: set

#[test]
fn set_replaces_or_extends() {
    let at = |index, value: i64| lists::set(&plain(), BIN, index, value);
    let start = || list![1, 2, 3, 4];
    check([
        rule("in place", start(), at(1, 9)).leaves(list![1, 9, 3, 4]),
        rule("from the end (client suite)", start(), at(-1, 9)).leaves(list![1, 2, 3, 9]),
        rule("at the end", start(), at(4, 9)).leaves(list![1, 2, 3, 4, 9]),
        rule("beyond the end (client suite)", start(), at(6, 10))
            .leaves(list![1, 2, 3, 4, NIL, NIL, 10]),
        rule("before the beginning", start(), at(-5, 9)).refused(NOT_APPLICABLE),
        rule("too far", start(), at(1 << 31, 9)).refused(NOT_APPLICABLE),
        rule("an order has no places", ordered![1], at(0, 9)).refused(NOT_APPLICABLE),
        rule(
            "another size",
            start(),
            lists::set(&plain(), BIN, 1, "a longer one"),
        )
        .leaves(list![1, "a longer one", 3, 4]),
        rule(
            "with an index",
            start(),
            lists::set(&plain(), BIN, 1, "a longer one"),
        )
        .persisted()
        .leaves(list![1, "a longer one", 3, 4]),
        rule(
            "unique: equal to another",
            start(),
            lists::set(&with(UNIQUE), BIN, 0, 2),
        )
        .refused(THERE),
        rule(
            "unique, not failing",
            start(),
            lists::set(&with(UNIQUE | NO_FAIL), BIN, 0, 2),
        ),
        rule(
            "unique: equal to itself",
            start(),
            lists::set(&with(UNIQUE), BIN, 1, 2),
        ),
        rule("unique: equal to itself and another", list![2, 2], {
            lists::set(&with(UNIQUE), BIN, 1, 2)
        })
        .refused(THERE),
        rule(
            "unique, beyond the end",
            start(),
            lists::set(&with(UNIQUE), BIN, 5, 2),
        )
        .refused(THERE),
    ]);
}
