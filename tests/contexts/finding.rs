//! The element that each step of a path finds, and the list or map that a path must lead to.

use super::*;

// ---- semantics.md#contexts-what-they-find

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
            at(list_value(list![1, ANY])),
        )
        .gives(list![1, 2]),
        rule("no such index", start(), at(list_index(4))).refused(NOT_APPLICABLE),
        rule("nor so far before", start(), at(list_index(-5))).refused(NOT_APPLICABLE),
        rule("no such rank", start(), at(list_rank(4))).refused(NOT_APPLICABLE),
        rule("no such value", start(), at(list_value(list![7]))).refused(NOT_APPLICABLE),
        rule("a step for maps", start(), at(map_index(0))).refused(NOT_APPLICABLE),
        rule("a step for maps", start(), at(map_key(1))).refused(NOT_APPLICABLE),
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
            at(map_value(list![7, ANY])),
        )
        .gives(list![7, 9]),
        rule(
            "by key, ordered by value, without index",
            by_key_and_value! {1 => list![7, 9], 2 => list![7, 1]},
            at(map_value(list![7, ANY])),
        )
        .gives(list![7, 9]),
        rule(
            "by rank, ordered by value, with index",
            by_key_and_value! {1 => list![7, 9], 2 => list![7, 1]},
            at(map_value(list![7, ANY])),
        )
        .persisted()
        .gives(list![7, 1]),
        rule("no such key", start(), at(map_key(3))).refused(NOT_APPLICABLE),
        rule("no such index", start(), at(map_index(3))).refused(NOT_APPLICABLE),
        rule("no such rank", start(), at(map_rank(-4))).refused(NOT_APPLICABLE),
        rule("no such value", start(), at(map_value(1))).refused(NOT_APPLICABLE),
        rule("a step for lists", start(), at(list_index(0))).refused(NOT_APPLICABLE),
        rule("a step for lists", start(), at(list_value(1))).refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn maps_compare_by_size_first() {
    // Client suite.
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
    // Client suite.
    let done = results(
        list![list![7, 9, 5], list![1, 2, 3], list![6, 5, 4, 1]],
        &[
            below([list_index(-1)], append(11)),
            operations::get_bin(BIN),
        ],
    );
    let after = list![list![7, 9, 5], list![1, 2, 3], list![6, 5, 4, 1, 11]];
    assert_eq!(done, Ok(vec![5.into(), after]));
    // Client suite.
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

// ---- semantics.md#contexts-what-they-find: the end of a path

#[test]
fn the_bin_and_its_type() {
    let path = || [list_index(0)];
    check([
        rule(
            "a missing bin, read",
            MISSING,
            below(path(), lists::size(BIN)),
        ),
        rule("a missing bin, written", MISSING, below(path(), append(1))).refused(NOT_APPLICABLE),
        rule("a scalar, read", 5, below(path(), lists::size(BIN))).refused(PARAMETER),
        rule("a scalar, written", text("x"), below(path(), append(1))).refused(PARAMETER),
        rule("no steps at all", list![], below([], append(1))).refused(PARAMETER),
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
        rule("not a map (client suite)", start(), at(2, lists::size(BIN))).refused(WRONG_TYPE),
        rule("not a list", start(), at(1, maps::size(BIN))).refused(WRONG_TYPE),
        rule("not a number", start(), at(0, append(1))).refused(WRONG_TYPE),
        rule("not nil", start(), at(3, append(1))).refused(WRONG_TYPE),
        rule("not text", start(), at(4, put(1, 1))).refused(WRONG_TYPE),
        rule("no way through a number", start(), through(0, append(1))).refused(NOT_APPLICABLE),
        rule("nor through text", start(), through(4, lists::size(BIN))).refused(NOT_APPLICABLE),
        rule(
            "nor past the elements of a list",
            start(),
            through(1, append(1)),
        )
        .refused(WRONG_TYPE),
        rule("nothing there (client suite)", start(), at(9, append(1))).refused(NOT_APPLICABLE),
        rule("nothing there to read", start(), at(9, lists::size(BIN))).refused(NOT_APPLICABLE),
        rule(
            "nothing there to remove from",
            start(),
            at(9, lists::clear(BIN)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "errors of the operation are its own",
            start(),
            at(1, lists::get(BIN, 7)),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "in the end nothing is changed",
            start(),
            at(1, lists::increment(&ListPolicy::default(), BIN, 0, "x")),
        )
        .refused(PARAMETER),
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

// ---- semantics.md#contexts-what-they-find: an ordered parent

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
            below(
                [list_index(0), list_index(0)],
                lists::increment(&ListPolicy::default(), BIN, 0, 7),
            ),
        )
        .gives(8)
        .leaves(ordered![
            ordered![ordered![2], ordered![8]],
            ordered![ordered![3]]
        ]),
        rule(
            "values of maps stay with their keys",
            by_key! {1 => list![1], 2 => list![2]},
            below([map_rank(0)], append(9)),
        )
        .gives(2)
        .leaves(by_key! {1 => list![1, 9], 2 => list![2]}),
        rule(
            "an index of values follows",
            by_key_and_value! {1 => list![1], 2 => list![2]},
            below([map_key(1)], lists::set(&ListPolicy::default(), BIN, 0, 9)),
        )
        .persisted()
        .leaves(by_key_and_value! {1 => list![9], 2 => list![2]}),
    ]);
}
