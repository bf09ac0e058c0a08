//! The lists and maps that a path creates.

use super::*;

// ---- semantics.md#contexts-what-they-create: inside what exists

#[test]
fn an_element_is_made_in_a_list() {
    let at = |index, order, pad| below([list_index_create(index, order, pad)], append(5));
    let two = || list![list![1], list![2]];
    check([
        rule("what exists is used", two(), at(1, UNORDERED, BOUNDED))
            .gives(2)
            .leaves(list![list![1], list![2, 5]]),
        rule(
            "at the end (client suite)",
            two(),
            at(2, UNORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(list![list![1], list![2], list![5]]),
        rule(
            "at the end, whatever the bits",
            two(),
            at(2, ORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(list![list![1], list![2], list![5]]),
        rule("beyond the end", two(), at(3, UNORDERED, BOUNDED)).refused(NOT_APPLICABLE),
        rule(
            "beyond, as if it were ordered (client suite)",
            two(),
            at(10, ORDERED, BOUNDED),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "beyond, with padding (client suite)",
            two(),
            at(4, UNORDERED, PADDED),
        )
        .gives(1)
        .leaves(list![list![1], list![2], NIL, NIL, list![5]]),
        rule("before the beginning", two(), at(-3, UNORDERED, BOUNDED)).refused(NOT_APPLICABLE),
        rule(
            "before the beginning, with padding",
            two(),
            at(-3, UNORDERED, PADDED),
        )
        .refused(NOT_APPLICABLE),
        rule("the last of none", list![], at(-1, UNORDERED, BOUNDED))
            .gives(1)
            .leaves(list![list![5]]),
        rule("the first of none", list![], at(0, UNORDERED, BOUNDED))
            .gives(1)
            .leaves(list![list![5]]),
        rule(
            "the second last of none",
            list![],
            at(-2, UNORDERED, BOUNDED),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "in an ordered list, to its place",
            ordered![list![1], list![9]],
            at(2, ORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
        rule(
            "in an ordered list beyond the end",
            ordered![list![1], list![9]],
            at(7, UNORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
        rule(
            "QUIRK: and before the beginning",
            ordered![list![1], list![9]],
            at(-7, ORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
    ]);
    // Client suite.
    let three = ordered![list![7, 9, 5], list![1, 2, 3], list![6, 5, 4, 1]];
    let done = results(
        three,
        &[
            below([list_index_create(3, ORDERED, BOUNDED)], append_ordered(2)),
            operations::get_bin(BIN),
        ],
    );
    let after = ordered![
        list![1, 2, 3],
        ordered![2],
        list![6, 5, 4, 1],
        list![7, 9, 5]
    ];
    assert_eq!(done, Ok(vec![1.into(), after]));
}

#[test]
fn an_entry_is_made_in_a_map() {
    let at = |key: &str, order| below([map_key_create(key, order)], append(5));
    check([
        rule(
            "what exists is used",
            map! {"a" => list![1]},
            at("a", MapOrder::KeyOrdered),
        )
        .gives(2)
        .leaves(map! {"a" => list![1, 5]}),
        rule("a new key", map! {"b" => 1}, at("a", MapOrder::Unordered))
            .gives(1)
            .leaves(map! {"a" => list![5], "b" => 1}),
        rule("a map that exists keeps its order", map! {"b" => 1}, {
            at("a", MapOrder::KeyValueOrdered)
        })
        .gives(1)
        .leaves(map! {"a" => list![5], "b" => 1}),
        rule(
            "with an index",
            by_key_and_value! {"b" => 1},
            at("a", MapOrder::Unordered),
        )
        .persisted()
        .gives(1)
        .leaves(by_key_and_value! {"a" => list![5], "b" => 1}),
        rule("no key", map! {}, {
            below([map_key_create(1.5, MapOrder::Unordered)], append(5))
        })
        .refused(PARAMETER),
        rule(
            "a wrong operation's element",
            map! {"a" => 1},
            at("a", MapOrder::Unordered),
        )
        .refused(WRONG_TYPE),
    ]);
}

#[test]
fn a_new_element_is_what_follows() {
    let a = || map_key_create("a", MapOrder::KeyOrdered);
    check([
        rule(
            "a list by the operation's policy",
            map! {},
            below([a()], append_ordered(5)),
        )
        .gives(1)
        .leaves(map! {"a" => ordered![5]}),
        rule("a map by the operation's policy", map! {}, {
            below(
                [a()],
                maps::put(&map_policy(MapOrder::KeyValueOrdered), BIN, 1, 2),
            )
        })
        .gives(1)
        .leaves(map! {"a" => by_key_and_value! {1 => 2}}),
        rule("an index in the policy is for bins only", map! {}, {
            below(
                [a()],
                maps::put(
                    &map_policy(MapOrder::KeyOrdered).persist_index(true),
                    BIN,
                    1,
                    2,
                ),
            )
        })
        .gives(1)
        .leaves(map! {"a" => by_key! {1 => 2}}),
        rule("a list, if a list's step follows", map! {}, {
            below([a(), list_index_create(0, ORDERED, BOUNDED)], append(5))
        })
        .gives(1)
        .leaves(map! {"a" => ordered![list![5]]}),
        rule("a map, if a map's step follows", map! {}, {
            below(
                [a(), map_key_create(1, MapOrder::KeyValueOrdered)],
                append(5),
            )
        })
        .gives(1)
        .leaves(map! {"a" => by_key_and_value! {1 => list![5]}}),
        rule("insert makes an unordered list", map! {}, {
            below([a()], lists::insert(&ListPolicy::default(), BIN, 1, 5))
        })
        .gives(2)
        .leaves(map! {"a" => list![NIL, 5]}),
        rule("increment makes a number in a list", map! {}, {
            below([a()], lists::increment(&ListPolicy::default(), BIN, 0, 5))
        })
        .gives(5)
        .leaves(map! {"a" => list![5]}),
        rule("and in a map", map! {}, {
            below(
                [a()],
                maps::decrement_value(&map_policy(MapOrder::Unordered), BIN, "n", 5),
            )
        })
        .gives(-5)
        .leaves(map! {"a" => map! {"n" => -5}}),
        rule(
            "sort needs a list",
            map! {},
            below([a()], lists::sort(BIN, ListSortFlags::empty())),
        )
        .refused(WRONG_TYPE),
        rule("a refused operation makes nothing", map! {}, {
            below([a()], lists::insert(&ListPolicy::default(), BIN, -2, 5))
        })
        .refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn removals_make_nothing() {
    let path = || [map_key_create("a", MapOrder::Unordered)];
    check([
        rule("pop", map! {}, below(path(), lists::pop(BIN, 0))),
        rule("clear", map! {}, below(path(), lists::clear(BIN))),
        rule("trim", map! {}, below(path(), lists::trim(BIN, 0, 1))),
        rule("by value", map! {}, {
            below(
                path(),
                lists::remove_by_value(BIN, 1, ListReturnType::Count),
            )
        }),
        rule("by key", map! {}, {
            below(path(), maps::remove_by_key(BIN, 1, MapReturnType::Count))
        }),
        rule("in a missing bin", MISSING, below(path(), maps::clear(BIN))),
        rule("in a missing list", MISSING, {
            below([list_index_create(0, ORDERED, BOUNDED)], lists::pop(BIN, 0))
        }),
    ]);
}

#[test]
fn reads_make_nothing() {
    let path = || [map_key_create("a", MapOrder::Unordered)];
    check([
        rule("in a map", map! {}, below(path(), lists::size(BIN))).refused(NOT_APPLICABLE),
        rule("in a list", list![], {
            below([list_index_create(0, UNORDERED, PADDED)], lists::size(BIN))
        })
        .refused(NOT_APPLICABLE),
        rule("in a missing bin", MISSING, below(path(), lists::size(BIN))),
        rule(
            "what exists is read",
            map! {"a" => list![1]},
            below(path(), lists::size(BIN)),
        )
        .gives(1),
    ]);
}

#[test]
fn steps_without_creation_find_only_what_exists() {
    let start = || map! {"l" => list![]};
    check([
        rule("no key", start(), below([map_key("a")], append(1))).refused(NOT_APPLICABLE),
        rule(
            "no index",
            start(),
            below([map_key("l"), list_index(0)], append(1)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "no rank",
            start(),
            below([map_key("l"), list_rank(0)], append(1)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "no value",
            start(),
            below([map_key("l"), list_value(1)], append(1)),
        )
        .refused(NOT_APPLICABLE),
    ]);
}

// ---- semantics.md#contexts-what-they-create: in a missing bin

#[test]
fn a_bin_is_made_by_its_first_step() {
    let at = |index, order, pad| below([list_index_create(index, order, pad)], append(5));
    check([
        rule("a list", MISSING, at(0, UNORDERED, BOUNDED))
            .gives(1)
            .leaves(list![list![5]]),
        rule("from the end", MISSING, at(-1, UNORDERED, BOUNDED))
            .gives(1)
            .leaves(list![list![5]]),
        rule("further from the end", MISSING, at(-2, UNORDERED, BOUNDED)).refused(NOT_APPLICABLE),
        rule("beyond the end", MISSING, at(1, UNORDERED, BOUNDED)).refused(NOT_APPLICABLE),
        rule("with padding", MISSING, at(2, UNORDERED, PADDED))
            .gives(1)
            .leaves(list![NIL, NIL, list![5]]),
        rule("ordered: no index counts", MISSING, at(7, ORDERED, BOUNDED))
            .gives(1)
            .leaves(ordered![list![5]]),
        rule(
            "ordered, but not before the beginning",
            MISSING,
            at(-2, ORDERED, BOUNDED),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "a map",
            MISSING,
            below([map_key_create("a", MapOrder::Unordered)], append(5)),
        )
        .gives(1)
        .leaves(map! {"a" => list![5]}),
        rule("ordered by key", MISSING, {
            below([map_key_create("a", MapOrder::KeyOrdered)], append(5))
        })
        .gives(1)
        .leaves(by_key! {"a" => list![5]}),
        rule("ordered by key and value", MISSING, {
            below([map_key_create("a", MapOrder::KeyValueOrdered)], put(1, 2))
        })
        .gives(1)
        .leaves(by_key_and_value! {"a" => map! {1 => 2}}),
        rule(
            "not without creation",
            MISSING,
            below([map_key("a")], append(5)),
        )
        .refused(NOT_APPLICABLE),
        rule("not by rank", MISSING, below([list_rank(0)], append(5))).refused(NOT_APPLICABLE),
        rule("not by value", MISSING, below([map_value(1)], append(5))).refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn further_steps_are_made_too() {
    let first = || map_key_create("a", MapOrder::KeyOrdered);
    check([
        rule("each with its own order", MISSING, {
            below(
                [
                    first(),
                    list_index_create(0, ORDERED, BOUNDED),
                    map_key_create(1, MapOrder::Unordered),
                ],
                append_ordered(5),
            )
        })
        .gives(1)
        .leaves(by_key! {"a" => ordered![map! {1 => ordered![5]}]}),
        rule("a padded list further down", MISSING, {
            below(
                [first(), list_index_create(2, UNORDERED, PADDED)],
                append(5),
            )
        })
        .gives(1)
        .leaves(by_key! {"a" => list![NIL, NIL, list![5]]}),
        rule("a bounded one", MISSING, {
            below(
                [first(), list_index_create(2, UNORDERED, BOUNDED)],
                append(5),
            )
        })
        .refused(NOT_APPLICABLE),
        rule("the first index needs no creation further down", MISSING, {
            below([first(), list_index(0)], append(5))
        })
        .gives(1)
        .leaves(by_key! {"a" => list![list![5]]}),
        rule(
            "a later one does",
            MISSING,
            below([first(), list_index(1)], append(5)),
        )
        .refused(NOT_APPLICABLE),
        rule("a key needs no creation further down", MISSING, {
            below([first(), map_key("b")], append(5))
        })
        .gives(1)
        .leaves(by_key! {"a" => map! {"b" => list![5]}}),
        rule("nor do several", MISSING, {
            below(
                [first(), map_key("b"), list_index(0), map_key("c")],
                append(5),
            )
        })
        .gives(1)
        .leaves(by_key! {"a" => map! {"b" => list![map! {"c" => list![5]}]}}),
        rule("a key that is none", MISSING, {
            below([first(), map_key(1.5)], append(5))
        })
        .refused(PARAMETER),
        rule(
            "a key in a map that lacks the one above it",
            map! {"z" => 1},
            below([first(), map_key("b")], append(5)),
        )
        .gives(1)
        .leaves(map! {"a" => map! {"b" => list![5]}, "z" => 1}),
        rule(
            "a key does in a map that is there",
            map! {"a" => map! {}},
            below([first(), map_key("b")], append(5)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "a rank cannot",
            MISSING,
            below([first(), list_rank(0)], append(5)),
        )
        .refused(NOT_APPLICABLE),
    ]);
}

// ---- CREATE below a path

#[test]
fn a_list_or_map_can_be_created_below_a_path() {
    // Client suite.
    let start = map! {"key1" => map! {"key11" => 9}, "key2" => map! {"key21" => 3}};
    let done = results(
        start,
        &[
            below([map_key("key3")], maps::create(BIN, MapOrder::KeyOrdered)),
            below([map_key("key3")], put("key31", 99)),
            operations::get_bin(BIN),
        ],
    );
    let after = map! {
        "key1" => map! {"key11" => 9},
        "key2" => map! {"key21" => 3},
        "key3" => by_key! {"key31" => 99},
    };
    assert_eq!(done, Ok(vec![NIL, 1.into(), after]));
    check([
        rule(
            "a list",
            map! {},
            below([map_key("a")], lists::create(BIN, ORDERED)),
        )
        .leaves(map! {"a" => ordered![]}),
        rule("in a list, at its end", list![1], {
            below([list_index(1)], lists::create(BIN, UNORDERED))
        })
        .leaves(list![1, list![]]),
        rule(
            "beyond its end",
            list![1],
            below([list_index(3)], lists::create(BIN, UNORDERED)),
        )
        .refused(NOT_APPLICABLE),
        rule("beyond its end, with padding", list![1], {
            below(
                [list_index(3)],
                lists::create_with(BIN, &ListPolicy::default(), PADDED),
            )
        })
        .leaves(list![1, NIL, NIL, list![]]),
        rule(
            "a step that creates by itself keeps its way to do so",
            list![1],
            below(
                [list_index_create(3, UNORDERED, PADDED)],
                lists::create(BIN, UNORDERED),
            ),
        )
        .leaves(list![1, NIL, NIL, list![]]),
        rule("an order alone makes nothing", map! {}, {
            below([map_key("a")], lists::set_order(BIN, ORDERED))
        })
        .refused(NOT_APPLICABLE),
        rule("what exists is converted", map! {"a" => list![2, 1]}, {
            below([map_key("a")], lists::create(BIN, ORDERED))
        })
        .leaves(map! {"a" => ordered![1, 2]}),
        rule("an index is for bins only", map! {}, {
            below([map_key("a")], lists::create_persistent(BIN, ORDERED))
        })
        .leaves(map! {"a" => ordered![]}),
    ]);
}

// ---- Whole operations below a path

#[test]
fn every_kind_of_operation_works_below_a_path() {
    let l = || map! {"l" => list![3, 1, 2, 1]};
    let at = |operation| below([map_key("l")], operation);
    let leaves = |list: Value| map! {"l" => list};
    let plain = ListPolicy::default;
    check([
        rule(
            "append items",
            l(),
            at(lists::append_items(&plain(), BIN, items(list![7, 8]))),
        )
        .gives(6)
        .leaves(leaves(list![3, 1, 2, 1, 7, 8])),
        rule("insert", l(), at(lists::insert(&plain(), BIN, 1, 9)))
            .gives(5)
            .leaves(leaves(list![3, 9, 1, 2, 1])),
        rule("set", l(), at(lists::set(&plain(), BIN, 5, 9)))
            .leaves(leaves(list![3, 1, 2, 1, NIL, 9])),
        rule("pop range", l(), at(lists::pop_range(BIN, 1, 2)))
            .gives(list![1, 2])
            .leaves(leaves(list![3, 1])),
        rule("trim", l(), at(lists::trim(BIN, 1, 2)))
            .gives(2)
            .leaves(leaves(list![1, 2])),
        rule(
            "sort",
            l(),
            at(lists::sort(BIN, ListSortFlags::DROP_DUPLICATES)),
        )
        .leaves(leaves(list![1, 2, 3])),
        rule(
            "remove by value",
            l(),
            at(lists::remove_by_value(BIN, 1, ListReturnType::Index)),
        )
        .gives(list![1, 3])
        .leaves(leaves(list![3, 2])),
        rule(
            "by rank",
            l(),
            at(lists::get_by_rank(BIN, -1, ListReturnType::Values)),
        )
        .gives(3),
        rule("clear", l(), at(lists::clear(BIN))).leaves(leaves(list![])),
    ]);
    let m = || list![map! {1 => 10, 2 => 20}];
    let at = |operation| below([list_index(0)], operation);
    check([
        rule("put items", m(), {
            at(maps::put_items(
                &map_policy(MapOrder::Unordered),
                BIN,
                entries(map! {0 => 1, 2 => 2}),
            ))
        })
        .gives(3)
        .leaves(list![map! {0 => 1, 1 => 10, 2 => 2}]),
        rule("increment", m(), {
            at(maps::increment_value(
                &map_policy(MapOrder::Unordered),
                BIN,
                1,
                5,
            ))
        })
        .gives(15)
        .leaves(list![map! {1 => 15, 2 => 20}]),
        rule(
            "set the order",
            m(),
            at(maps::set_order(BIN, MapOrder::KeyOrdered)),
        )
        .leaves(list![by_key! {1 => 10, 2 => 20}]),
        rule(
            "remove by rank",
            m(),
            at(maps::remove_by_rank(BIN, -1, MapReturnType::Key)),
        )
        .gives(2)
        .leaves(list![map! {1 => 10}]),
        rule(
            "by key",
            m(),
            at(maps::get_by_key(BIN, 2, MapReturnType::Value)),
        )
        .gives(20),
        rule("clear", m(), at(maps::clear(BIN))).leaves(list![map! {}]),
    ]);
}
