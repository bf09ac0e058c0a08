//! The rules of paths into nested lists and maps, as tables: a bin, an operation below a path, its result, and the bin
//! afterwards. Section numbers are those of the specification of records and collections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::operations::ctx::{
    Context, ListPad, list_index, list_index_create, list_rank, list_value, map_index, map_key,
    map_key_create, map_rank, map_value,
};
use spikelet::operations::{self, lists, maps};
use spikelet::{
    ListOrder, ListPolicy, ListReturnType, ListSortFlags, ListWriteFlags, MapOrder, MapPolicy,
    MapReturnType, MapWriteFlags, Operation, Value,
};
use support::{
    ANY, BIN, MISSING, NIL, NOT_APPLICABLE, PARAMETER, WRONG_TYPE, by_key, by_key_and_value, check,
    entries, items, list, map, ordered, results, rule, text,
};

fn below(path: impl IntoIterator<Item = Context>, operation: Operation) -> Operation {
    operation.with_context(path)
}

fn append(value: impl Into<Value>) -> Operation {
    lists::append(&ListPolicy::default(), BIN, value)
}

fn append_ordered(value: impl Into<Value>) -> Operation {
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty());
    lists::append(&policy, BIN, value)
}

fn put(key: impl Into<Value>, value: impl Into<Value>) -> Operation {
    maps::put(&map_policy(MapOrder::Unordered), BIN, key, value)
}

fn map_policy(order: MapOrder) -> MapPolicy {
    MapPolicy::new(order, MapWriteFlags::empty())
}

fn all() -> Operation {
    lists::get_range_from(BIN, 0)
}

const BOUNDED: ListPad = ListPad::Bounded;
const PADDED: ListPad = ListPad::Padded;
const UNORDERED: ListOrder = ListOrder::Unordered;
const ORDERED: ListOrder = ListOrder::Ordered;

// ---- 5.4 What each kind finds

#[test]
fn steps_into_lists() {
    let start = || list![list![1], list![3, 4], list![2], 7];
    let at = |step| below([step], all());
    check([
        rule("by index", start(), at(list_index(1))).gives(list![3, 4]),
        rule("from the end", start(), at(list_index(-2))).gives(list![2]),
        rule(
            "by rank",
            list![list![9], list![2, 4], list![6, 1, 9]],
            at(list_rank(0)),
        )
        .gives(list![2, 4]),
        rule(
            "by rank from the top",
            list![list![1], list![3, 4]],
            at(list_rank(-1)),
        )
        .gives(list![3, 4]),
        rule("by value", start(), at(list_value(list![2]))).gives(list![2]),
        rule(
            "by value, with a wildcard",
            start(),
            at(list_value(list![3, ANY])),
        )
        .gives(list![3, 4]),
        rule(
            "the first equal one",
            list![list![1, 5], list![1, 2]],
            at(list_value(list![1, ANY])),
        )
        .gives(list![1, 5]),
        rule(
            "the lowest in an ordered list",
            ordered![list![1, 5], list![1, 2]],
            { at(list_value(list![1, ANY])) },
        )
        .gives(list![1, 2]),
        rule("no such index", start(), at(list_index(4))).is_refused(NOT_APPLICABLE),
        rule("nor so far before", start(), at(list_index(-5))).is_refused(NOT_APPLICABLE),
        rule("no such rank", start(), at(list_rank(4))).is_refused(NOT_APPLICABLE),
        rule("no such value", start(), at(list_value(list![7]))).is_refused(NOT_APPLICABLE),
        rule("a step for maps", start(), at(map_index(0))).is_refused(NOT_APPLICABLE),
        rule("a step for maps", start(), at(map_key(1))).is_refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn steps_into_maps() {
    let start = || map! {1 => list![5], 2 => list![3, 4], "a" => list![4]};
    let at = |step| below([step], all());
    check([
        rule("by key", start(), at(map_key("a"))).gives(list![4]),
        rule("by index", start(), at(map_index(1))).gives(list![3, 4]),
        rule("by index from the end", start(), at(map_index(-1))).gives(list![4]),
        rule("by rank", start(), at(map_rank(0))).gives(list![3, 4]),
        rule("by rank from the top", start(), at(map_rank(-1))).gives(list![5]),
        rule("by value", start(), at(map_value(list![3, ANY]))).gives(list![3, 4]),
        rule(
            "the first equal one, by key",
            map! {1 => list![7, 9], 2 => list![7, 1]},
            { at(map_value(list![7, ANY])) },
        )
        .gives(list![7, 9]),
        rule(
            "by key, ordered by value, without index",
            {
                by_key_and_value! {1 => list![7, 9], 2 => list![7, 1]}
            },
            at(map_value(list![7, ANY])),
        )
        .gives(list![7, 9]),
        rule(
            "by rank, ordered by value, with index",
            {
                by_key_and_value! {1 => list![7, 9], 2 => list![7, 1]}
            },
            at(map_value(list![7, ANY])),
        )
        .persisted()
        .gives(list![7, 1]),
        rule("no such key", start(), at(map_key(3))).is_refused(NOT_APPLICABLE),
        rule("no such index", start(), at(map_index(3))).is_refused(NOT_APPLICABLE),
        rule("no such rank", start(), at(map_rank(-4))).is_refused(NOT_APPLICABLE),
        rule("no such value", start(), at(map_value(1))).is_refused(NOT_APPLICABLE),
        rule("a step for lists", start(), at(list_index(0))).is_refused(NOT_APPLICABLE),
        rule("a step for lists", start(), at(list_value(1))).is_refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn maps_compare_by_size_first() {
    // 12.3, 58.
    let start = || {
        map! {
            "key1" => map! {"key11" => map! {"a" => 9}, "key12" => map! {"a" => 1, "b" => 1}},
            "key2" => map! {},
        }
    };
    check([rule("the greatest is the largest", start(), {
        below(
            [map_key("key1"), map_rank(-1)],
            maps::get_by_index_range(BIN, 0, MapReturnType::Key),
        )
    })
    .gives(list!["a", "b"])]);
}

#[test]
fn paths_of_several_levels() {
    let start = || map! {"a" => list![1, map! {7 => ordered![1, 5]}]};
    let path = || [map_key("a"), list_index(-1), map_key(7)];
    check([
        rule("read", start(), below(path(), lists::size(BIN))).gives(2),
        rule("write", start(), below(path(), append(3)))
            .gives(3)
            .leaves(map! {"a" => list![1, map! {7 => ordered![1, 3, 5]}]}),
        rule(
            "a map",
            start(),
            below([map_key("a"), list_index(1)], put(8, 1)),
        )
        .gives(2)
        .leaves(map! {"a" => list![1, map! {7 => ordered![1, 5], 8 => 1}]}),
        rule(
            "with an index at the top",
            start(),
            below(path(), append("a long piece of text")),
        )
        .persisted()
        .gives(3)
        .leaves(map! {"a" => list![1, map! {7 => ordered![1, 5, "a long piece of text"]}]}),
        rule("pop", start(), below(path(), lists::pop(BIN, 0)))
            .gives(1)
            .leaves(map! {"a" => list![1, map! {7 => ordered![5]}]}),
        rule("an index inside is dropped", start(), {
            below(path(), lists::create_persistent(BIN, UNORDERED))
        })
        .leaves(map! {"a" => list![1, map! {7 => list![1, 5]}]}),
    ]);
}

#[test]
fn results_below_a_path() {
    // 12.2, 32.
    let done = results(
        list![list![7, 9, 5], list![1, 2, 3], list![6, 5, 4, 1]],
        &[
            below([list_index(-1)], append(11)),
            operations::get_bin(BIN),
        ],
    );
    let after = list![list![7, 9, 5], list![1, 2, 3], list![6, 5, 4, 1, 11]];
    assert_eq!(done, Ok(vec![5.into(), after]));
    // 12.2, 33.
    let done = results(
        map! {"key1" => list![list![7, 9, 5], list![13]], "key2" => list![list![9], list![2, 4], list![6, 1, 9]]},
        &[
            below([map_key("key2"), list_rank(0)], append(11)),
            operations::get_bin(BIN),
        ],
    );
    let after = map! {
        "key1" => list![list![7, 9, 5], list![13]],
        "key2" => list![list![9], list![2, 4, 11], list![6, 1, 9]],
    };
    assert_eq!(done, Ok(vec![3.into(), after]));
}

// ---- 5.2 What stands at the end of a path

#[test]
fn the_bin_and_its_type() {
    let path = || [list_index(0)];
    check([
        rule(
            "a missing bin, read",
            MISSING,
            below(path(), lists::size(BIN)),
        ),
        rule("a missing bin, written", MISSING, below(path(), append(1)))
            .is_refused(NOT_APPLICABLE),
        rule("a scalar, read", 5, below(path(), lists::size(BIN))).is_refused(PARAMETER),
        rule("a scalar, written", text("x"), below(path(), append(1))).is_refused(PARAMETER),
        rule("no steps at all", list![], below([], append(1))).is_refused(PARAMETER),
    ]);
}

#[test]
fn what_a_path_must_lead_to() {
    let start = || list![1, list![2], map! {3 => 4}, NIL, "text"];
    let at = |index, operation| below([list_index(index)], operation);
    let through = |index, operation| below([list_index(index), list_index(0)], operation);
    check([
        rule(
            "a list for a list's operation",
            start(),
            at(1, lists::size(BIN)),
        )
        .gives(1),
        rule("a map for a map's", start(), at(2, maps::size(BIN))).gives(1),
        rule("not a map (12.2, 36)", start(), at(2, lists::size(BIN))).is_refused(WRONG_TYPE),
        rule("not a list", start(), at(1, maps::size(BIN))).is_refused(WRONG_TYPE),
        rule("not a number", start(), at(0, append(1))).is_refused(WRONG_TYPE),
        rule("not nil", start(), at(3, append(1))).is_refused(WRONG_TYPE),
        rule("not text", start(), at(4, put(1, 1))).is_refused(WRONG_TYPE),
        rule("no way through a number", start(), through(0, append(1))).is_refused(NOT_APPLICABLE),
        rule("nor through text", start(), through(4, lists::size(BIN))).is_refused(NOT_APPLICABLE),
        rule(
            "nor past the elements of a list",
            start(),
            through(1, append(1)),
        )
        .is_refused(WRONG_TYPE),
        rule("nothing there (12.2, 36)", start(), at(9, append(1))).is_refused(NOT_APPLICABLE),
        rule("nothing there to read", start(), at(9, lists::size(BIN))).is_refused(NOT_APPLICABLE),
        rule(
            "nothing there to remove from",
            start(),
            at(9, lists::clear(BIN)),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "errors of the operation are its own",
            start(),
            at(1, lists::get(BIN, 7)),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "in the end nothing is changed",
            start(),
            at(1, { lists::increment(&ListPolicy::default(), BIN, 0, "x") }),
        )
        .is_refused(PARAMETER),
    ]);
}

#[test]
fn only_operations_on_lists_and_maps_have_a_path() {
    let set = support::empty_set();
    set.put("k", [(BIN, list![list![1]])]).unwrap();
    let refused = [
        below([list_index(0)], operations::get_bin(BIN)),
        below([list_index(0)], operations::put(BIN, 1)),
        below([list_index(0)], below([list_index(0)], append(1))),
    ];
    for operation in refused {
        let error = set.operate("k", &[operation]).unwrap_err();
        assert_eq!(error.result_code(), PARAMETER);
    }
}

// ---- 5.4 An ordered parent

#[test]
fn an_ordered_list_moves_the_child_that_changed() {
    check([
        rule("up", ordered![list![1], list![2], list![3]], {
            below(
                [list_index(0)],
                lists::set(&ListPolicy::default(), BIN, 0, 9),
            )
        })
        .leaves(ordered![list![2], list![3], list![9]]),
        rule("down", ordered![list![1], list![2], list![3]], {
            below(
                [list_index(-1)],
                lists::set(&ListPolicy::default(), BIN, 0, 0),
            )
        })
        .leaves(ordered![list![0], list![1], list![2]]),
        rule("with an index", ordered![list![1], list![2], list![3]], {
            below([list_index(1)], lists::clear(BIN))
        })
        .persisted()
        .leaves(ordered![list![], list![1], list![3]]),
        rule(
            "on every level",
            ordered![ordered![ordered![1], ordered![2]], ordered![ordered![3]]],
            {
                below(
                    [list_index(0), list_index(0)],
                    lists::increment(&ListPolicy::default(), BIN, 0, 7),
                )
            },
        )
        .gives(8)
        .leaves(ordered![
            ordered![ordered![2], ordered![8]],
            ordered![ordered![3]]
        ]),
        rule(
            "values of maps stay with their keys",
            by_key! {1 => list![1], 2 => list![2]},
            { below([map_rank(0)], append(9)) },
        )
        .gives(2)
        .leaves(by_key! {1 => list![1, 9], 2 => list![2]}),
        rule(
            "an index of values follows",
            by_key_and_value! {1 => list![1], 2 => list![2]},
            { below([map_key(1)], lists::set(&ListPolicy::default(), BIN, 0, 9)) },
        )
        .persisted()
        .leaves(by_key_and_value! {1 => list![9], 2 => list![2]}),
    ]);
}

// ---- 5.4 Creation inside what exists

#[test]
fn an_element_is_made_in_a_list() {
    let at = |index, order, pad| below([list_index_create(index, order, pad)], append(5));
    let two = || list![list![1], list![2]];
    check([
        rule("what exists is used", two(), at(1, UNORDERED, BOUNDED))
            .gives(2)
            .leaves(list![list![1], list![2, 5]]),
        rule("at the end (12.2, 37)", two(), at(2, UNORDERED, BOUNDED))
            .gives(1)
            .leaves(list![list![1], list![2], list![5]]),
        rule(
            "at the end, whatever the bits",
            two(),
            at(2, ORDERED, BOUNDED),
        )
        .gives(1)
        .leaves(list![list![1], list![2], list![5]]),
        rule("beyond the end", two(), at(3, UNORDERED, BOUNDED)).is_refused(NOT_APPLICABLE),
        rule(
            "beyond, as if it were ordered (12.2, 37)",
            two(),
            at(10, ORDERED, BOUNDED),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "beyond, with padding (12.2, 37)",
            two(),
            at(4, UNORDERED, PADDED),
        )
        .gives(1)
        .leaves(list![list![1], list![2], NIL, NIL, list![5]]),
        rule("before the beginning", two(), at(-3, UNORDERED, BOUNDED)).is_refused(NOT_APPLICABLE),
        rule(
            "before the beginning, with padding",
            two(),
            at(-3, UNORDERED, PADDED),
        )
        .is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
        rule(
            "in an ordered list, to its place",
            ordered![list![1], list![9]],
            { at(2, ORDERED, BOUNDED) },
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
        rule(
            "in an ordered list beyond the end",
            ordered![list![1], list![9]],
            { at(7, UNORDERED, BOUNDED) },
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
        rule(
            "QUIRK: and before the beginning",
            ordered![list![1], list![9]],
            { at(-7, ORDERED, BOUNDED) },
        )
        .gives(1)
        .leaves(ordered![list![1], list![5], list![9]]),
    ]);
    // 12.2, 34.
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
        .is_refused(PARAMETER),
        rule(
            "a wrong operation's element",
            map! {"a" => 1},
            at("a", MapOrder::Unordered),
        )
        .is_refused(WRONG_TYPE),
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
                maps::put(&map_policy(MapOrder::KeyOrdered).persist_index(), BIN, 1, 2),
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
        .is_refused(WRONG_TYPE),
        rule("a refused operation makes nothing", map! {}, {
            below([a()], lists::insert(&ListPolicy::default(), BIN, -2, 5))
        })
        .is_refused(NOT_APPLICABLE),
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
        rule("in a map", map! {}, below(path(), lists::size(BIN))).is_refused(NOT_APPLICABLE),
        rule("in a list", list![], {
            below([list_index_create(0, UNORDERED, PADDED)], lists::size(BIN))
        })
        .is_refused(NOT_APPLICABLE),
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
        rule("no key", start(), below([map_key("a")], append(1))).is_refused(NOT_APPLICABLE),
        rule(
            "no index",
            start(),
            below([map_key("l"), list_index(0)], append(1)),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "no rank",
            start(),
            below([map_key("l"), list_rank(0)], append(1)),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "no value",
            start(),
            below([map_key("l"), list_value(1)], append(1)),
        )
        .is_refused(NOT_APPLICABLE),
    ]);
}

// ---- 5.4 Creation in an empty bin

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
        rule("further from the end", MISSING, at(-2, UNORDERED, BOUNDED))
            .is_refused(NOT_APPLICABLE),
        rule("beyond the end", MISSING, at(1, UNORDERED, BOUNDED)).is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
        rule("not by rank", MISSING, below([list_rank(0)], append(5))).is_refused(NOT_APPLICABLE),
        rule("not by value", MISSING, below([map_value(1)], append(5))).is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
        rule(
            "a key does",
            MISSING,
            below([first(), map_key(1)], append(5)),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "a rank cannot",
            MISSING,
            below([first(), list_rank(0)], append(5)),
        )
        .is_refused(NOT_APPLICABLE),
    ]);
}

// ---- CREATE below a path

#[test]
fn a_list_or_map_can_be_created_below_a_path() {
    // 12.3, 59.
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
        .is_refused(NOT_APPLICABLE),
        rule("beyond its end, with padding", list![1], {
            below(
                [list_index(3)],
                lists::create_with(BIN, &ListPolicy::default(), PADDED),
            )
        })
        .leaves(list![1, NIL, NIL, list![]]),
        rule("an order alone makes nothing", map! {}, {
            below([map_key("a")], lists::set_order(BIN, ORDERED))
        })
        .is_refused(NOT_APPLICABLE),
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
