//! Taking away, and selecting by position or rank.

use super::*;

// ---- semantics.md#lists-operations: pop, remove, trim, clear, size

#[test]
fn taking_away_by_position() {
    let start = || list![1, 2, 3, 4];
    check([
        rule("pop", start(), lists::pop(BIN, 1))
            .gives(2)
            .leaves(list![1, 3, 4]),
        rule("pop from the end", start(), lists::pop(BIN, -1))
            .gives(4)
            .leaves(list![1, 2, 3]),
        rule("pop nil: no result", list![NIL], lists::pop(BIN, 0)).leaves(list![]),
        rule("pop range", start(), lists::pop_range(BIN, 1, 2))
            .gives(list![2, 3])
            .leaves(list![1, 4]),
        rule(
            "pop range to the end",
            start(),
            lists::pop_range_from(BIN, -3),
        )
        .gives(list![2, 3, 4])
        .leaves(list![1]),
        rule("pop nothing", start(), lists::pop_range(BIN, 9, 2)).gives(list![]),
        rule(
            "pop from an ordered list: a plain one",
            ordered![1, 2, 3],
            lists::pop_range(BIN, 0, 2),
        )
        .gives(list![1, 2])
        .leaves(ordered![3]),
        rule("remove", start(), lists::remove(BIN, 0))
            .gives(1)
            .leaves(list![2, 3, 4]),
        rule("remove range", start(), lists::remove_range(BIN, 1, 2))
            .gives(2)
            .leaves(list![1, 4]),
        rule("remove range, cut", start(), lists::remove_range(BIN, 3, 9))
            .gives(1)
            .leaves(list![1, 2, 3]),
        rule(
            "remove range to the end",
            start(),
            lists::remove_range_from(BIN, 1),
        )
        .gives(3)
        .leaves(list![1]),
        rule("remove nothing", start(), lists::remove_range(BIN, 4, 1)).gives(0),
        rule("size", start(), lists::size(BIN)).gives(4),
        rule("size of an ordered list", ordered![1, 1], lists::size(BIN)).gives(2),
    ]);
}

#[test]
fn trim_keeps_a_range() {
    let start = || list![0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    check([
        rule(
            "three of ten (client suite)",
            start(),
            lists::trim(BIN, 2, 3),
        )
        .gives(7)
        .leaves(list![2, 3, 4]),
        rule("all", start(), lists::trim(BIN, 0, 10)).gives(0),
        rule("a negative count is to the end (client suite)", start(), {
            lists::trim(BIN, 1, (-9_i64).cast_unsigned())
        })
        .gives(1)
        .leaves(list![1, 2, 3, 4, 5, 6, 7, 8, 9]),
        rule("from the end", start(), lists::trim(BIN, -2, 1))
            .gives(9)
            .leaves(list![8]),
        rule("nothing", start(), lists::trim(BIN, 0, 0))
            .gives(10)
            .leaves(list![]),
        rule("beyond the end", start(), lists::trim(BIN, 10, 1))
            .gives(10)
            .leaves(list![]),
        rule("ordered", ordered![1, 2, 3], lists::trim(BIN, 1, 1))
            .gives(2)
            .leaves(ordered![2]),
        rule(
            "ordered, with an index",
            ordered![1, 2, 3],
            lists::trim(BIN, 1, 1),
        )
        .persisted()
        .gives(2)
        .leaves(ordered![2]),
    ]);
}

#[test]
fn clear_keeps_the_order() {
    check([
        rule("without order", list![1, 2], lists::clear(BIN)).leaves(list![]),
        rule("with order", ordered![1, 2], lists::clear(BIN)).leaves(ordered![]),
        rule("with an index", ordered![1, 2], lists::clear(BIN))
            .persisted()
            .leaves(ordered![]),
        rule(
            "with an index, without order",
            list![2, 1],
            lists::clear(BIN),
        )
        .persisted()
        .leaves(list![]),
    ]);
}

// ---- semantics.md#lists-operations: get by, remove by

#[test]
fn by_index() {
    let start = || list![7, 6, 5, 8];
    check([
        rule("value", start(), lists::get_by_index(BIN, -1, R::Values)).gives(8),
        rule(
            "range",
            start(),
            lists::get_by_index_range_count(BIN, 1, 2, R::Values),
        )
        .gives(list![6, 5]),
        rule(
            "to the end",
            start(),
            lists::get_by_index_range(BIN, -2, R::Values),
        )
        .gives(list![5, 8]),
        rule(
            "removed",
            start(),
            lists::remove_by_index(BIN, 0, R::Values),
        )
        .gives(7)
        .leaves(list![6, 5, 8]),
        rule("removed, positions before", start(), {
            lists::remove_by_index_range_count(BIN, 1, 2, R::Index)
        })
        .gives(list![1, 2])
        .leaves(list![7, 8]),
        rule(
            "removed to the end",
            start(),
            lists::remove_by_index_range(BIN, 1, R::Count),
        )
        .gives(3)
        .leaves(list![7]),
        rule(
            "removed, rank",
            start(),
            lists::remove_by_index(BIN, 0, R::Rank),
        )
        .gives(2)
        .leaves(list![6, 5, 8]),
    ]);
}

#[test]
fn by_rank() {
    let start = || list![7, 6, 5, 8];
    check([
        rule("value", start(), lists::get_by_rank(BIN, 1, R::Values)).gives(6),
        rule("index", start(), lists::get_by_rank(BIN, 0, R::Index)).gives(2),
        rule(
            "reverse index",
            start(),
            lists::get_by_rank(BIN, 0, R::ReverseIndex),
        )
        .gives(1),
        rule("rank", start(), lists::get_by_rank(BIN, -1, R::Rank)).gives(3),
        rule("removed", start(), lists::remove_by_rank(BIN, 0, R::Values))
            .gives(5)
            .leaves(list![7, 6, 8]),
        rule("several, indexes by place", start(), {
            lists::get_by_rank_range_count(BIN, 1, 2, R::Index)
        })
        .gives(list![0, 1]),
        rule(
            "ranks",
            start(),
            lists::get_by_rank_range_count(BIN, 1, 2, R::Rank),
        )
        .gives(list![1, 2]),
        rule("reverse ranks, ascending", start(), {
            lists::get_by_rank_range_count(BIN, 0, 2, R::ReverseRank)
        })
        .gives(list![2, 3]),
        rule(
            "rank range",
            start(),
            lists::get_by_rank_range(BIN, 2, R::RankRange),
        )
        .gives(list![2, 2]),
        rule(
            "removed to the top",
            start(),
            lists::remove_by_rank_range(BIN, 2, R::Count),
        )
        .gives(2)
        .leaves(list![6, 5]),
        rule("ordered", ordered![5, 6, 7, 8], {
            lists::remove_by_rank_range_count(BIN, 1, 2, R::Values)
        })
        .gives(list![6, 7])
        .leaves(ordered![5, 8]),
    ]);
}

#[test]
fn relative_ranks_removed() {
    // A sequence of a client suite.
    let some = |value, rank, count| {
        lists::remove_by_value_relative_rank_range_count(BIN, value, rank, count, R::Values)
    };
    let from =
        |value, rank| lists::remove_by_value_relative_rank_range(BIN, value, rank, R::Values);
    let done = results(
        ordered![0, 4, 5, 9, 11, 15],
        &[
            from(5, 0),
            from(5, 1),
            from(5, -1),
            some(3, -3, 1),
            some(3, -3, 2),
            some(3, -3, 3),
            operations::get_bin(BIN),
        ],
    );
    assert_eq!(
        done,
        Ok(vec![
            list![5, 9, 11, 15],
            list![],
            list![4],
            list![],
            list![],
            list![0],
            ordered![]
        ])
    );
}

// ---- semantics.md#lists-order-of-results-by-rank

#[test]
fn rank_results_of_an_unordered_list_come_from_the_nearer_end() {
    let of = |rank, count| lists::get_by_rank_range_count(BIN, rank, count, R::Values);
    let start = || list![7, 6, 5, 8, 9, 10];
    check([
        rule("QUIRK: the least three, descending", start(), of(0, 3)).gives(list![7, 6, 5]),
        rule("the greatest three, ascending", start(), of(3, 3)).gives(list![8, 9, 10]),
        rule(
            "from rank 2 to the top (client suite)",
            start(),
            lists::get_by_rank_range(BIN, 2, R::Values),
        )
        .gives(list![7, 8, 9, 10]),
        rule("the middle two: as many above as below", start(), of(2, 2)).gives(list![8, 7]),
        rule("one more below", start(), of(3, 2)).gives(list![8, 9]),
        rule("all: none above, none below", start(), of(0, 6)).gives(list![10, 9, 8, 7, 6, 5]),
        rule("removed (client suite)", start(), {
            lists::remove_by_rank_range_count(BIN, 0, 3, R::Values)
        })
        .gives(list![7, 6, 5])
        .leaves(list![8, 9, 10]),
        rule("relative ranks, too", start(), {
            lists::get_by_value_relative_rank_range_count(BIN, 6, 0, 2, R::Values)
        })
        .gives(list![7, 6]),
        rule("inverted: in list order", start(), {
            lists::get_by_rank_range_count(BIN, 0, 3, R::Values.inverted())
        })
        .gives(list![8, 9, 10]),
        rule(
            "an ordered list: always ascending",
            ordered![5, 6, 7, 8, 9, 10],
            of(0, 3),
        )
        .gives(list![5, 6, 7]),
    ]);
}
