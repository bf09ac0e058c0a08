//! Entries selected by value, by several keys, by ranges, and the others.

use super::*;

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
            rule("keys not found (client suite)", start(), by(77, R::Key)).gives(list![]),
            rule("rank: a list (client suite)", start(), by(81, R::Rank)).gives(list![1]),
            rule("index", start(), by(81, R::Index)).gives(list![3]),
            rule("count", start(), by(81, R::Count)).gives(1),
            rule("exists not", start(), by(80, R::Exists)).gives(false),
            rule("no indexes in a row", start(), by(81, R::IndexRange)).refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(81, R::ReverseIndexRange)).refused(NOT_APPLICABLE),
            rule("rank range", start(), by(81, R::RankRange)).gives(list![1, 1]),
            rule("the rank that it would have", start(), by(80, R::RankRange)).gives(list![1, 0]),
            rule(
                "range, rank (client suite)",
                start(),
                range(90, 95, R::Rank),
            )
            .gives(list![3]),
            rule("range, key (client suite)", start(), range(81, 82, R::Key)).gives(list!["John"]),
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
            maps::get_by_value(BIN, 1, R::ReverseIndex),
        )
        .gives(list![2, 0]),
        rule("reverse ranks, ascending", map! {3 => 1, 1 => 1, 2 => 2}, {
            maps::get_by_value(BIN, 1, R::ReverseRank)
        })
        .gives(list![1, 2]),
        rule(
            "a map as value, whatever its order (client suite)",
            map! {1 => by_key! {"a" => 1}, 2 => map! {"a" => 1}, 3 => map! {"a" => 2}},
            maps::get_by_value(BIN, by_key! {"a" => 1}, R::Key),
        )
        .gives(list![1, 2]),
        rule(
            "a wildcard inside",
            map! {1 => list![1, 2], 2 => list![1], 3 => list![1, 9]},
            maps::get_by_value(BIN, list![1, ANY], R::Key),
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
            rule("no rank", start(), keys(some(), R::Rank)).refused(NOT_APPLICABLE),
            rule("nor reverse", start(), keys(some(), R::ReverseRank)).refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::IndexRange)).refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::ReverseIndexRange)).refused(NOT_APPLICABLE),
            rule("nor range", start(), keys(some(), R::RankRange)).refused(NOT_APPLICABLE),
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
            rule("no range", start(), values(list![94], R::RankRange)).refused(NOT_APPLICABLE),
            rule("no range", start(), values(list![94], R::IndexRange)).refused(NOT_APPLICABLE),
            rule("no values", start(), values(list![], R::Key)).gives(list![]),
            rule("no values, inverted: all", start(), {
                maps::get_by_value_list(BIN, vec![], R::Key.inverted())
            })
            .gives(list!["Charlie", "Harry", "Jim", "John"]),
        ]);
    }
    check([
        rule(
            "unknown keys are passed over (client suite)",
            map! {1 => 1, 2 => 2, 3 => 3},
            maps::remove_by_key_list(BIN, items(list![3, 7, 1]), R::Value),
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
            rule("no ranks in a row", start(), by("H", "K", R::RankRange)).refused(NOT_APPLICABLE),
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
    check([rule("infinity as end (client suite)", ages(), {
        maps::get_by_key_range(BIN, Some(5.into()), Some(INF), R::Key)
    })
    .gives(list![5, 9])]);
}

#[test]
fn relative_ranges() {
    // semantics.md#maps-results, and a client suite.
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
            // Client suite.
            rule("by rank", start(), by_rank(R::Key)).gives(list!["Charlie", "John"]),
            rule("none picked: ranks", start(), by_value(R::Rank)).gives(list![0, 1, 2, 3]),
            rule("none picked: count", start(), by_value(R::Count)).gives(4),
            rule("pairs by key", start(), by_rank(R::KeyValue))
                .gives(map! {"Charlie" => 55, "John" => 81}),
            rule("ranks ascending", start(), by_rank(R::Rank)).gives(list![0, 1]),
            rule(
                "the others are in a row: reverse ranks ascend",
                start(),
                by_rank(R::ReverseRank),
            )
            .gives(list![2, 3]),
            rule("indexes", start(), by_rank(R::Index)).gives(list![0, 3]),
            rule(
                "reverse indexes, descending",
                start(),
                by_rank(R::ReverseIndex),
            )
            .gives(list![3, 0]),
            rule("no ranges", start(), by_rank(R::RankRange)).refused(NOT_APPLICABLE),
            rule("no ranges", start(), by_index(R::IndexRange)).refused(NOT_APPLICABLE),
            rule("by index", start(), by_index(R::Value)).gives(list![55, 81]),
            rule(
                "QUIRK: whether none was picked by value",
                start(),
                by_value(R::Exists),
            )
            .gives(true),
            rule(
                "the others are in a row: they exist",
                start(),
                by_rank(R::Exists),
            )
            .gives(true),
            rule("the others are in a row: keys by rank", start(), {
                maps::get_by_rank_range_count(BIN, 0, 1, R::Key.inverted())
            })
            .gives(list!["John", "Harry", "Jim"]),
            rule("relative ranks as well", start(), {
                maps::get_by_value_relative_rank_range(BIN, 94, 0, R::Value.inverted())
            })
            .gives(list![55, 81, 82]),
            rule("others on both sides: keys by key", start(), {
                maps::get_by_rank_range_count(BIN, 1, 1, R::Key.inverted())
            })
            .gives(list!["Charlie", "Harry", "Jim"]),
            rule("others on both sides: reverse ranks descend", start(), {
                maps::get_by_rank_range_count(BIN, 1, 2, R::ReverseRank.inverted())
            })
            .gives(list![3, 0]),
            rule("QUIRK: others on both sides", start(), {
                maps::get_by_rank_range_count(BIN, 1, 1, R::Exists.inverted())
            })
            .gives(false),
            rule("by several values: whether others are there", start(), {
                maps::get_by_value_list(BIN, items(list![55]), R::Exists.inverted())
            })
            .gives(true),
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
            // Client suite.
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
    // Client suite.
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
