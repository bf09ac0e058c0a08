//! The return types of elements, and the elements that an index, a rank or a value selects.

use super::*;

// ---- semantics.md#return-types

#[test]
fn a_single_element_tells_one_thing() {
    let of = |returns| lists::get_by_index(BIN, 1, returns);
    let start = || list![9, 7, 8];
    check([
        rule("nothing", start(), of(R::None)),
        rule("index", start(), of(R::Index)).gives(1),
        rule("index from the end", start(), of(R::ReverseIndex)).gives(1),
        rule("rank", start(), of(R::Rank)).gives(0),
        rule("rank from the greatest", start(), of(R::ReverseRank)).gives(2),
        rule("count", start(), of(R::Count)).gives(1),
        rule("value", start(), of(R::Values)).gives(7),
        rule("index range", start(), of(R::IndexRange)).gives(list![1, 1]),
        rule("reverse index range", start(), of(R::ReverseIndexRange)).gives(list![1, 1]),
        rule("no ranks in a row without order", start(), of(R::RankRange)).refused(NOT_APPLICABLE),
        rule("rank range", ordered![1, 2, 3], of(R::RankRange)).gives(list![1, 1]),
        rule(
            "reverse rank range",
            ordered![1, 2, 3, 4],
            of(R::ReverseRankRange),
        )
        .gives(list![2, 1]),
        rule("exists", start(), of(R::Exists)).gives(true),
        rule(
            "there is no inverse of one element",
            start(),
            lists::get_by_index(BIN, 1, R::Values.inverted()),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "nor of one rank",
            start(),
            lists::remove_by_rank(BIN, 1, R::Count.inverted()),
        )
        .refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn elements_in_a_row_tell_ascending_positions() {
    let of = |returns| lists::get_by_index_range_count(BIN, 1, 2, returns);
    let start = || list![9, 7, 8, 6];
    check([
        rule(
            "nothing",
            start(),
            lists::get_by_index_range_count(BIN, 1, 2, R::None),
        ),
        rule("index", start(), of(R::Index)).gives(list![1, 2]),
        rule("from the end, ascending too", start(), of(R::ReverseIndex)).gives(list![1, 2]),
        rule("rank: one each", start(), of(R::Rank)).gives(list![1, 2]),
        rule("reverse rank: one each", start(), of(R::ReverseRank)).gives(list![2, 1]),
        rule("count", start(), of(R::Count)).gives(2),
        rule("values", start(), of(R::Values)).gives(list![7, 8]),
        rule("index range", start(), of(R::IndexRange)).gives(list![1, 2]),
        rule("reverse index range", start(), of(R::ReverseIndexRange)).gives(list![1, 2]),
        rule("no ranks in a row without order", start(), of(R::RankRange)).refused(NOT_APPLICABLE),
        rule("nor reverse", start(), of(R::ReverseRankRange)).refused(NOT_APPLICABLE),
        rule("exists", start(), of(R::Exists)).gives(true),
    ]);
    let of = |returns| lists::get_by_index_range_count(BIN, 0, 2, returns);
    let start = || ordered![6, 7, 8, 9];
    check([
        rule("ordered: rank", start(), of(R::Rank)).gives(list![0, 1]),
        rule(
            "ordered: reverse rank, ascending",
            start(),
            of(R::ReverseRank),
        )
        .gives(list![2, 3]),
        rule("ordered: rank range", start(), of(R::RankRange)).gives(list![0, 2]),
        rule(
            "ordered: reverse rank range",
            start(),
            of(R::ReverseRankRange),
        )
        .gives(list![2, 2]),
    ]);
}

#[test]
fn elements_here_and_there_tell_their_positions_one_by_one() {
    let of = |returns| lists::get_by_value(BIN, 1, returns);
    let start = || list![1, 2, 1, 3, 1];
    check([
        rule("index (client suite)", start(), of(R::Index)).gives(list![0, 2, 4]),
        rule("from the end, descending", start(), of(R::ReverseIndex)).gives(list![4, 2, 0]),
        rule("ranks are in a row", start(), of(R::Rank)).gives(list![0, 1, 2]),
        rule("also from the greatest", start(), of(R::ReverseRank)).gives(list![2, 3, 4]),
        rule("count", start(), of(R::Count)).gives(3),
        rule("values", start(), of(R::Values)).gives(list![1, 1, 1]),
        rule("exists", start(), of(R::Exists)).gives(true),
        rule("no indexes in a row", start(), of(R::IndexRange)).refused(NOT_APPLICABLE),
        rule("nor reverse", start(), of(R::ReverseIndexRange)).refused(NOT_APPLICABLE),
        rule("rank range", start(), of(R::RankRange)).gives(list![0, 3]),
        rule("reverse rank range", start(), of(R::ReverseRankRange)).gives(list![2, 3]),
    ]);
    let start = || ordered![1, 1, 1, 2, 3];
    check([
        rule("ordered: index", start(), of(R::Index)).gives(list![0, 1, 2]),
        rule("ordered: in a row", start(), of(R::ReverseIndex)).gives(list![2, 3, 4]),
        rule("ordered: index range", start(), of(R::IndexRange)).gives(list![0, 3]),
        rule(
            "ordered: reverse index range",
            start(),
            of(R::ReverseIndexRange),
        )
        .gives(list![2, 3]),
        rule("ordered: rank range", start(), of(R::RankRange)).gives(list![0, 3]),
        rule(
            "ordered: reverse rank range",
            start(),
            of(R::ReverseRankRange),
        )
        .gives(list![2, 3]),
    ]);
}

#[test]
fn nothing_found_is_no_error_where_several_may_be_found() {
    let of = |returns| lists::get_by_value(BIN, 9, returns);
    for start in [list![1, 2], ordered![1, 2], list![], ordered![]] {
        let start = || start.clone();
        check([
            rule("none", start(), of(R::None)),
            rule("index", start(), of(R::Index)).gives(list![]),
            rule("reverse index", start(), of(R::ReverseIndex)).gives(list![]),
            rule("rank", start(), of(R::Rank)).gives(list![]),
            rule("reverse rank", start(), of(R::ReverseRank)).gives(list![]),
            rule("count", start(), of(R::Count)).gives(0),
            rule("values", start(), of(R::Values)).gives(list![]),
            rule("exists", start(), of(R::Exists)).gives(false),
        ]);
    }
    check([
        rule(
            "the rank that it would have",
            list![1, 2, 10],
            of(R::RankRange),
        )
        .gives(list![2, 0]),
        rule("and the index", ordered![1, 2, 10], of(R::IndexRange)).gives(list![2, 0]),
    ]);
}

#[test]
fn inverted_means_the_others() {
    let by_index = |returns: R| lists::get_by_index_range_count(BIN, 1, 2, returns.inverted());
    let by_value = |returns: R| lists::get_by_value(BIN, 1, returns.inverted());
    let by_rank = |returns: R| lists::get_by_rank_range_count(BIN, 1, 2, returns.inverted());
    let start = || list![9, 1, 8, 1, 7];
    check([
        rule("values by index", start(), by_index(R::Values)).gives(list![9, 1, 7]),
        rule("indexes", start(), by_index(R::Index)).gives(list![0, 3, 4]),
        rule(
            "reverse indexes, descending",
            start(),
            by_index(R::ReverseIndex),
        )
        .gives(list![4, 1, 0]),
        rule("count", start(), by_index(R::Count)).gives(3),
        rule("values by value", start(), by_value(R::Values)).gives(list![9, 8, 7]),
        rule("indexes", start(), by_value(R::Index)).gives(list![0, 2, 4]),
        rule("ranks ascending", start(), by_value(R::Rank)).gives(list![2, 3, 4]),
        rule("count", start(), by_value(R::Count)).gives(3),
        rule("values by rank, in list order", start(), by_rank(R::Values)).gives(list![9, 1, 8]),
        rule("ranks ascending", start(), by_rank(R::Rank)).gives(list![0, 3, 4]),
        rule(
            "no ranges of indexes",
            ordered![1, 2, 3],
            by_index(R::IndexRange),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "nor reverse",
            ordered![1, 2, 3],
            by_index(R::ReverseIndexRange),
        )
        .refused(NOT_APPLICABLE),
        rule("nor of ranks", ordered![1, 2, 3], by_value(R::RankRange)).refused(NOT_APPLICABLE),
        rule("nor reverse", start(), by_value(R::ReverseRankRange)).refused(NOT_APPLICABLE),
        rule(
            "none picked: all others",
            start(),
            lists::get_by_value(BIN, 5, R::Values.inverted()),
        )
        .gives(start()),
        rule("a removal keeps what was picked", start(), {
            lists::remove_by_value(BIN, 1, R::Values.inverted())
        })
        .gives(list![9, 8, 7])
        .leaves(list![1, 1]),
        rule("a removal by index", start(), {
            lists::remove_by_index_range_count(BIN, 1, 2, R::Count.inverted())
        })
        .gives(3)
        .leaves(list![1, 8]),
    ]);
}

#[test]
fn whether_others_exist() {
    let all = || list![1, 1];
    let some = || list![1, 2];
    let none = || list![3];
    let by_value = lists::get_by_value(BIN, 1, R::Exists.inverted());
    let by_index = |count| lists::get_by_index_range_count(BIN, 0, count, R::Exists.inverted());
    let by_values = || lists::get_by_value_list(BIN, items(list![1, 3]), R::Exists.inverted());
    check([
        rule(
            "by value: true if none was picked",
            none(),
            by_value.clone(),
        )
        .gives(true),
        rule("QUIRK: false if some were", some(), by_value.clone()).gives(false),
        rule("false if all were", all(), by_value).gives(false),
        rule(
            "by several values: true if some others are there",
            some(),
            by_values(),
        )
        .gives(true),
        rule("false if none are", all(), by_values()).gives(false),
        rule(
            "by index: true if some others are there",
            some(),
            by_index(1),
        )
        .gives(true),
        rule("false if none are", some(), by_index(2)).gives(false),
    ]);
}

// ---- semantics.md#index-rank-and-count

#[test]
fn a_single_index_must_exist() {
    let start = || list![10, 11, 12];
    check([
        rule("the first", start(), lists::get(BIN, 0)).gives(10),
        rule("the last", start(), lists::get(BIN, 2)).gives(12),
        rule("from the end", start(), lists::get(BIN, -1)).gives(12),
        rule("the first from the end", start(), lists::get(BIN, -3)).gives(10),
        rule("beyond the end (client suite)", start(), lists::get(BIN, 3)).refused(NOT_APPLICABLE),
        rule("before the beginning", start(), lists::get(BIN, -4)).refused(NOT_APPLICABLE),
        rule("far away", start(), lists::get(BIN, i64::MIN)).refused(NOT_APPLICABLE),
        rule("pop", start(), lists::pop(BIN, 3)).refused(NOT_APPLICABLE),
        rule("remove", start(), lists::remove(BIN, -4)).refused(NOT_APPLICABLE),
        rule("by index", start(), lists::get_by_index(BIN, 3, R::Exists)).refused(NOT_APPLICABLE),
        rule("by index", start(), lists::remove_by_index(BIN, 3, R::None)).refused(NOT_APPLICABLE),
        rule("by rank", start(), lists::get_by_rank(BIN, 3, R::Values)).refused(NOT_APPLICABLE),
        rule(
            "by rank",
            start(),
            lists::remove_by_rank(BIN, -4, R::Values),
        )
        .refused(NOT_APPLICABLE),
        rule(
            "the least",
            list![3, 1, 2],
            lists::get_by_rank(BIN, 0, R::Values),
        )
        .gives(1),
        rule(
            "the greatest",
            list![3, 1, 2],
            lists::get_by_rank(BIN, -1, R::Index),
        )
        .gives(0),
        rule("of nothing", list![], lists::get(BIN, 0)).refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn a_range_is_cut_to_what_is_there() {
    let of = |start, count| lists::get_range(BIN, start, count);
    let start = || list![0, 1, 2];
    check([
        rule("all", start(), of(0, 3)).gives(start()),
        rule("beyond the end", start(), of(1, 9)).gives(list![1, 2]),
        rule("from the end", start(), of(-2, 1)).gives(list![1]),
        rule("to the end", start(), lists::get_range_from(BIN, 1)).gives(list![1, 2]),
        rule("what lies before the beginning counts", start(), of(-5, 4)).gives(list![0, 1]),
        rule("all of it before the beginning", start(), of(-10, 5)).gives(list![]),
        rule(
            "from before the beginning to the end",
            start(),
            lists::get_range_from(BIN, -10),
        )
        .gives(start()),
        rule("from beyond the end (client suite)", start(), of(3, 1)).gives(list![]),
        rule("far beyond", start(), of(i64::MAX, TO_THE_END)).gives(list![]),
        rule("far before", start(), of(i64::MIN, 1)).gives(list![]),
        rule("none", start(), of(1, 0)).gives(list![]),
        rule(
            "a negative count is a huge one",
            start(),
            of(1, (-1_i64).cast_unsigned()),
        )
        .gives(list![1, 2]),
        rule("the same by rank", list![2, 0, 1], {
            lists::get_by_rank_range_count(BIN, -5, 3, R::Values)
        })
        .gives(list![0]),
        rule(
            "by rank to the end",
            list![2, 0, 1],
            lists::get_by_rank_range(BIN, 1, R::Values),
        )
        .gives(list![1, 2]),
    ]);
}

#[test]
fn a_relative_range_counts_from_a_value() {
    let from = |value, rank| lists::get_by_value_relative_rank_range(BIN, value, rank, R::Values);
    let some = |value, rank, count| {
        lists::get_by_value_relative_rank_range_count(BIN, value, rank, count, R::Values)
    };
    let all = || ordered![0, 4, 5, 9, 11, 15];
    // The examples of semantics.md#index-rank-and-count, and of a client suite.
    check([
        rule("(5, 0)", all(), from(5, 0)).gives(list![5, 9, 11, 15]),
        rule("(5, 1)", all(), from(5, 1)).gives(list![9, 11, 15]),
        rule("(5, -1)", all(), from(5, -1)).gives(list![4, 5, 9, 11, 15]),
        rule("(3, 0)", all(), from(3, 0)).gives(list![4, 5, 9, 11, 15]),
        rule("(3, 3)", all(), from(3, 3)).gives(list![11, 15]),
        rule("(3, -3)", all(), from(3, -3)).gives(list![0, 4, 5, 9, 11, 15]),
        rule("(5, 0, 2)", all(), some(5, 0, 2)).gives(list![5, 9]),
        rule("(5, 1, 1)", all(), some(5, 1, 1)).gives(list![9]),
        rule("(5, -1, 2)", all(), some(5, -1, 2)).gives(list![4, 5]),
        rule("(3, 0, 1)", all(), some(3, 0, 1)).gives(list![4]),
        rule("(3, 3, 7)", all(), some(3, 3, 7)).gives(list![11, 15]),
        rule("(3, -3, 2)", all(), some(3, -3, 2)).gives(list![]),
    ]);
    check([
        rule(
            "no more than asked for (client suite)",
            all(),
            some(5, 0, 0),
        )
        .gives(list![]),
        rule("beyond the end", all(), from(5, 9)).gives(list![]),
        rule("far beyond", all(), from(5, i64::MAX)).gives(list![]),
        rule("far before", all(), from(5, i64::MIN)).gives(all_plain()),
        rule("far before, cut", all(), some(5, i64::MIN, 7)).gives(list![]),
        rule("ranks", all(), {
            lists::get_by_value_relative_rank_range(BIN, 6, -1, R::Rank)
        })
        .gives(list![2, 3, 4, 5]),
        rule(
            "the lowest rank of equal ones is the base",
            ordered![1, 5, 5, 7],
            from(5, 0),
        )
        .gives(list![5, 5, 7]),
        rule("inverted", all(), {
            lists::get_by_value_relative_rank_range_count(BIN, 5, 0, 2, R::Values.inverted())
        })
        .gives(list![0, 4, 11, 15]),
        rule("without order", list![11, 0, 15, 4, 9, 5], some(9, 0, 3)).gives(list![9, 11, 15]),
    ]);
}

fn all_plain() -> Value {
    list![0, 4, 5, 9, 11, 15]
}

#[test]
fn a_range_of_values_has_its_begin_and_not_its_end() {
    let of = |begin, end| lists::get_by_value_range(BIN, begin, end, R::Values);
    let start = || list![5, 1, 9, 5, 3];
    check([
        rule("from, up to", start(), of(Some(3.into()), Some(9.into()))).gives(list![5, 5, 3]),
        rule("no end", start(), of(Some(5.into()), None)).gives(list![5, 9, 5]),
        rule("no begin", start(), of(None, Some(5.into()))).gives(list![1, 3]),
        rule("neither", start(), of(None, None)).gives(start()),
        rule(
            "nil is below everything",
            start(),
            of(Some(NIL), Some(5.into())),
        )
        .gives(list![1, 3]),
        rule(
            "infinity is above everything (client suite)",
            ordered![0, 9, 11, 15],
            of(Some(10.into()), Some(INF)),
        )
        .gives(list![11, 15]),
        rule(
            "nothing between",
            start(),
            of(Some(6.into()), Some(9.into())),
        )
        .gives(list![]),
        rule("begin is end", start(), of(Some(5.into()), Some(5.into()))).gives(list![]),
        rule(
            "begin above end",
            start(),
            of(Some(9.into()), Some(1.into())),
        )
        .gives(list![]),
        rule(
            "all types in their order",
            list![1, "a", list![], float(0.5), NIL],
            of(Some(1.into()), Some(float(0.0))),
        )
        .gives(list![1, "a", list![]]),
        rule("ranks", start(), {
            lists::get_by_value_range(BIN, Some(3.into()), Some(9.into()), R::Rank)
        })
        .gives(list![1, 2, 3]),
        rule("removed", start(), {
            lists::remove_by_value_range(BIN, Some(3.into()), Some(9.into()), R::Index)
        })
        .gives(list![0, 3, 4])
        .leaves(list![1, 9]),
        rule("the others removed (client suite)", start(), {
            lists::remove_by_value_range(BIN, Some(3.into()), Some(9.into()), R::Values.inverted())
        })
        .gives(list![1, 9])
        .leaves(list![5, 5, 3]),
    ]);
}
