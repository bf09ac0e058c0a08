//! The return types of entries that are selected by key, index or rank.

use super::*;
use spikelet::operations::ctx;

// ---- semantics.md#return-types, semantics.md#maps-results

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
            .refused(NOT_APPLICABLE),
            rule("nor of one index", start(), {
                maps::remove_by_index(BIN, 0, R::Count.inverted())
            })
            .refused(NOT_APPLICABLE),
            rule(
                "nor of one rank",
                start(),
                maps::get_by_rank(BIN, 0, R::Exists.inverted()),
            )
            .refused(NOT_APPLICABLE),
        ]);
    }
    check([
        rule(
            "the least (client suite)",
            scores(),
            maps::get_by_key(BIN, "Charlie", R::Rank),
        )
        .gives(0),
        rule("the least, reversed (client suite)", scores(), {
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
            rule("value (client suite)", start(), by(R::Value)),
            rule("key and value", start(), by(R::KeyValue)).gives(map! {}),
            rule("a map", start(), by(R::UnorderedMap)).gives(map! {}),
            rule("an ordered map", start(), by(R::OrderedMap)).gives(by_key! {}),
            rule("exists", start(), by(R::Exists)).gives(false),
            rule(
                "removed (client suite)",
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
            "no such index (client suite)",
            start(),
            maps::get_by_index(BIN, 4, R::Key),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "nor so far before",
            start(),
            maps::get_by_index(BIN, -5, R::Exists),
        )
        .refused(NOT_APPLICABLE),
        rule("removed", start(), maps::remove_by_index(BIN, 4, R::None)).refused(NOT_APPLICABLE),
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
        rule("no such rank", start(), maps::get_by_rank(BIN, 4, R::Key)).refused(NOT_APPLICABLE),
        rule("removed", start(), maps::remove_by_rank(BIN, -5, R::Key)).refused(NOT_APPLICABLE),
        rule("of nothing", map! {}, maps::get_by_index(BIN, 0, R::Key)).refused(NOT_APPLICABLE),
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
            rule("no ranks in a row", start(), by(R::RankRange)).refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(R::ReverseRankRange)).refused(NOT_APPLICABLE),
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
            rule("no indexes in a row", start(), by(R::IndexRange)).refused(NOT_APPLICABLE),
            rule("nor reverse", start(), by(R::ReverseIndexRange)).refused(NOT_APPLICABLE),
            rule("count", start(), by(R::Count)).gives(2),
            // Client suite.
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
    // Client suite.
    check([rule(
        "ties go by key",
        by_key_and_value! {"p1" => 10, "p2" => 20, "p3" => 1, "p4" => 20},
        maps::get_by_rank_range_count(BIN, -3, 3, R::Key),
    )
    .gives(list!["p1", "p2", "p4"])]);
}

#[test]
fn a_wildcard_is_no_key() {
    for persisted in [false, true] {
        let rule = |what, operation| {
            let rule = rule(what, by_key! {1 => 10, 2 => 20}, operation);
            if persisted { rule.persisted() } else { rule }
        };
        let keys = || items(list![ANY, 2]);
        check([
            rule("get", maps::get_by_key(BIN, ANY, R::Value)).gives(NIL),
            rule("count", maps::get_by_key(BIN, ANY, R::Count)).gives(0),
            rule("get several", maps::get_by_key_list(BIN, keys(), R::Key)).gives(list![2]),
            rule("remove", maps::remove_by_key(BIN, ANY, R::Count)).gives(0),
            rule(
                "remove several",
                maps::remove_by_key_list(BIN, keys(), R::Count),
            )
            .gives(1)
            .leaves(by_key! {1 => 10}),
            rule(
                "as a context",
                maps::size(BIN).in_context([ctx::map_key(ANY)]),
            )
            .refused(NOT_APPLICABLE),
        ]);
    }
}
