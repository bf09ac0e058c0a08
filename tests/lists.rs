//! The rules of lists, as tables: a bin, an operation, its result, and the bin afterwards.
//!
//! Section numbers are those of the specification of records and collections. Rules that look accidental but that
//! clients can observe are called QUIRK there and here. Maps and paths have files of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod support;

use spikelet::ListReturnType as R;
use spikelet::operations::{self, lists};
use spikelet::{
    Error, ListOrder, ListPolicy, ListSortFlags, ListWriteFlags, Operation, ParticleType, Value,
};
use support::{
    ANY, BIN, INF, MALFORMED, MISSING, NIL, NOT_APPLICABLE, NOT_FOUND, PARAMETER, THERE,
    WRONG_TYPE, by_key, check, empty_set, float, items, list, map, ordered, results, rule, text,
};

const TO_THE_END: u64 = u64::MAX;

fn plain() -> ListPolicy {
    ListPolicy::default()
}

fn sorted() -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty())
}

fn with(flags: ListWriteFlags) -> ListPolicy {
    ListPolicy::new(ListOrder::Unordered, flags)
}

fn sorted_with(flags: ListWriteFlags) -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, flags)
}

const UNIQUE: ListWriteFlags = ListWriteFlags::ADD_UNIQUE;
const BOUNDED: ListWriteFlags = ListWriteFlags::INSERT_BOUNDED;
const NO_FAIL: ListWriteFlags = ListWriteFlags::NO_FAIL;
const PARTIAL: ListWriteFlags = ListWriteFlags::DO_PARTIAL;

// ---- 2.8, 5.2 The bin and its type

#[test]
fn reads_of_a_missing_bin_give_nothing() {
    check([
        rule("size", MISSING, lists::size(BIN)),
        rule("get", MISSING, lists::get(BIN, 0)),
        rule("get range", MISSING, lists::get_range(BIN, 0, 1)),
        rule("by index", MISSING, lists::get_by_index(BIN, 5, R::Values)),
        rule("by value", MISSING, lists::get_by_value(BIN, 1, R::Count)),
        rule("by rank", MISSING, lists::get_by_rank(BIN, 0, R::Exists)),
        rule(
            "an illegal return type does not matter",
            MISSING,
            lists::get_by_rank(BIN, 0, R::Values.inverted()),
        ),
    ]);
}

#[test]
fn removals_from_a_missing_bin_do_nothing() {
    check([
        rule("pop", MISSING, lists::pop(BIN, 0)),
        rule("pop range", MISSING, lists::pop_range(BIN, 0, 2)),
        rule("remove", MISSING, lists::remove(BIN, 3)),
        rule("remove range", MISSING, lists::remove_range(BIN, 0, 2)),
        rule("trim", MISSING, lists::trim(BIN, 0, 2)),
        rule("clear", MISSING, lists::clear(BIN)),
        rule(
            "by index",
            MISSING,
            lists::remove_by_index(BIN, 9, R::Values),
        ),
        rule("by rank", MISSING, lists::remove_by_rank(BIN, 9, R::Values)),
        rule(
            "by value",
            MISSING,
            lists::remove_by_value(BIN, 9, R::Count),
        ),
        rule(
            "by value list",
            MISSING,
            lists::remove_by_value_list(BIN, items(list![1]), R::Count),
        ),
        rule(
            "by value range",
            MISSING,
            lists::remove_by_value_range(BIN, None, None, R::Count),
        ),
        rule(
            "by relative rank",
            MISSING,
            lists::remove_by_value_relative_rank_range(BIN, 1, 0, R::Count),
        ),
    ]);
}

#[test]
fn a_removal_from_a_missing_record_finds_no_record() {
    let set = empty_set();
    for operation in [
        lists::pop(BIN, 0),
        lists::clear(BIN),
        lists::remove_by_value(BIN, 1, R::Count),
    ] {
        let refused = set.operate("none", &[operation]).unwrap_err();
        assert_eq!(refused.result_code(), NOT_FOUND);
    }
    let refused = set.operate("none", &[lists::size(BIN)]).unwrap_err();
    assert_eq!(refused.result_code(), NOT_FOUND);
    assert!(!set.exists("none").unwrap());
}

#[test]
fn writes_to_a_missing_bin_create_it() {
    check([
        rule("create", MISSING, lists::create(BIN, ListOrder::Unordered)).leaves(list![]),
        rule(
            "create ordered",
            MISSING,
            lists::create(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![]),
        rule(
            "create with an index",
            MISSING,
            lists::create_persistent(BIN, ListOrder::Ordered),
        )
        .leaves(ordered![]),
        rule("append", MISSING, lists::append(&plain(), BIN, 7))
            .gives(1)
            .leaves(list![7]),
        rule("append, ordered", MISSING, lists::append(&sorted(), BIN, 7))
            .gives(1)
            .leaves(ordered![7]),
        rule(
            "append, with an index that does not show",
            MISSING,
            lists::append(&sorted().persist_index(), BIN, 7),
        )
        .gives(1)
        .leaves(ordered![7]),
        rule(
            "append items, ordered",
            MISSING,
            lists::append_items(&sorted(), BIN, items(list![3, 1, 2])),
        )
        .gives(3)
        .leaves(ordered![1, 2, 3]),
        rule(
            "append no items",
            MISSING,
            lists::append_items(&sorted(), BIN, vec![]),
        )
        .gives(0)
        .leaves(ordered![]),
        rule(
            "insert: never ordered",
            MISSING,
            lists::insert(&sorted(), BIN, 0, 7),
        )
        .gives(1)
        .leaves(list![7]),
        rule(
            "insert items",
            MISSING,
            lists::insert_items(&plain(), BIN, 1, items(list![8, 7])),
        )
        .gives(3)
        .leaves(list![NIL, 8, 7]),
        rule(
            "set: never ordered",
            MISSING,
            lists::set(&sorted(), BIN, 2, 7),
        )
        .leaves(list![NIL, NIL, 7]),
        rule("increment", MISSING, lists::increment(&plain(), BIN, 0, 5))
            .gives(5)
            .leaves(list![5]),
        rule(
            "sort needs a list",
            MISSING,
            lists::sort(BIN, ListSortFlags::empty()),
        )
        .is_refused(WRONG_TYPE),
    ]);
}

#[test]
fn a_bin_of_another_type_is_refused() {
    for other in [
        1.into(),
        text("x"),
        map! {1 => 2},
        Value::from(&[1, 2]),
        float(1.5),
    ] {
        let start = || other.clone();
        check([
            rule("size", start(), lists::size(BIN)).is_refused(WRONG_TYPE),
            rule("get", start(), lists::get(BIN, 0)).is_refused(WRONG_TYPE),
            rule("by value", start(), lists::get_by_value(BIN, 1, R::Values))
                .is_refused(WRONG_TYPE),
            rule("create", start(), lists::create(BIN, ListOrder::Ordered)).is_refused(WRONG_TYPE),
            rule("append", start(), lists::append(&plain(), BIN, 1)).is_refused(WRONG_TYPE),
            rule("insert", start(), lists::insert(&plain(), BIN, 0, 1)).is_refused(WRONG_TYPE),
            rule("set", start(), lists::set(&plain(), BIN, 0, 1)).is_refused(WRONG_TYPE),
            rule("increment", start(), lists::increment(&plain(), BIN, 0, 1))
                .is_refused(WRONG_TYPE),
            rule("pop", start(), lists::pop(BIN, 0)).is_refused(WRONG_TYPE),
            rule("clear", start(), lists::clear(BIN)).is_refused(WRONG_TYPE),
            rule("sort", start(), lists::sort(BIN, ListSortFlags::empty())).is_refused(WRONG_TYPE),
            rule("trim", start(), lists::trim(BIN, 0, 1)).is_refused(WRONG_TYPE),
            rule("remove", start(), lists::remove_by_index(BIN, 0, R::None)).is_refused(WRONG_TYPE),
        ]);
    }
}

#[test]
fn a_list_without_elements_stays_a_list() {
    check([
        rule("popped empty", ordered![1], lists::pop(BIN, 0))
            .gives(1)
            .leaves(ordered![]),
        rule("trimmed empty", list![1], lists::trim(BIN, 5, 1))
            .gives(1)
            .leaves(list![]),
        rule("removed", list![1], lists::remove_by_value(BIN, 1, R::None)).leaves(list![]),
    ]);
}

// ---- 2.9, 2.10 Several operations together

#[test]
fn operations_see_what_those_before_them_did() {
    let done = results(
        list![1],
        &[
            lists::append(&plain(), BIN, 2),
            lists::size(BIN),
            lists::clear(BIN),
            lists::size(BIN),
            lists::append(&plain(), BIN, 3),
            operations::get_bin(BIN),
        ],
    );
    assert_eq!(
        done,
        Ok(vec![2.into(), 2.into(), NIL, 0.into(), 1.into(), list![3]])
    );
}

#[test]
fn the_first_error_undoes_all_and_returns_nothing() {
    let set = empty_set();
    set.put("k", [(BIN, list![1])]).unwrap();
    let refused = set.operate(
        "k",
        &[
            lists::append(&plain(), BIN, 2),
            lists::get(BIN, 9),
            lists::append(&plain(), BIN, 3),
        ],
    );
    assert_eq!(refused.unwrap_err().result_code(), NOT_APPLICABLE);
    let record = set.get("k").unwrap().unwrap();
    assert_eq!((record.get(BIN), record.generation()), (Some(list![1]), 1));
}

#[test]
fn entries_come_in_the_order_of_the_operations_and_only_where_there_is_a_result() {
    let set = empty_set();
    set.put("k", [(BIN, list![5, NIL])]).unwrap();
    let reads = [
        lists::size(BIN),
        lists::size("none"),
        lists::get(BIN, 1),
        lists::get_by_value(BIN, 5, R::None),
        lists::get(BIN, 0),
    ];
    let places = |operations: &[Operation]| -> Vec<usize> {
        let done = set.operate("k", operations).unwrap();
        done.results.iter().map(|result| result.operation).collect()
    };
    // Alone, reads have no entry without a value.
    assert_eq!(places(&reads), [0, 4]);
    // In a write they have a nil entry, unless the bin is missing; writes never have one.
    let mut writes = reads.to_vec();
    writes.extend([
        lists::pop(BIN, 1),
        lists::set(&plain(), BIN, 0, 1),
        lists::clear(BIN),
        lists::remove_by_value("none", 1, R::Count),
        lists::append(&plain(), BIN, 2),
    ]);
    assert_eq!(places(&writes), [0, 2, 3, 4, 9]);
}

// ---- 5.3 Normalisation

#[test]
fn stored_values_are_brought_into_order() {
    check([
        rule(
            "the entries of a map are sorted by key, whatever its order",
            list![],
            lists::append(&plain(), BIN, map! {"b" => 1, 3 => 2, "a" => 3}),
        )
        .gives(1)
        .leaves(list![map! {3 => 2, "a" => 3, "b" => 1}]),
        rule(
            "an ordered list inside is sorted",
            list![],
            lists::append(&plain(), BIN, ordered![3, 1, 2]),
        )
        .gives(1)
        .leaves(list![ordered![1, 2, 3]]),
        rule(
            "orders of nested collections are kept",
            list![1],
            lists::set(
                &plain(),
                BIN,
                0,
                list![ordered![1], by_key! {1 => ordered![]}],
            ),
        )
        .leaves(list![list![ordered![1], by_key! {1 => ordered![]}]]),
    ]);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    check([
        rule("a wildcard", list![], lists::append(&plain(), BIN, ANY)).is_refused(PARAMETER),
        rule(
            "infinity",
            list![],
            lists::append(&plain(), BIN, list![1, INF]),
        )
        .is_refused(PARAMETER),
        rule(
            "a wildcard deep inside",
            list![1],
            lists::set(&plain(), BIN, 0, map! {1 => list![ANY]}),
        )
        .is_refused(PARAMETER),
        rule(
            "among items",
            list![],
            lists::append_items(&plain(), BIN, items(list![1, ANY])),
        )
        .is_refused(PARAMETER),
        rule("to insert", list![], lists::insert(&plain(), BIN, 0, INF)).is_refused(PARAMETER),
        rule(
            "items to insert",
            list![],
            lists::insert_items(&plain(), BIN, 0, items(list![INF])),
        )
        .is_refused(PARAMETER),
        rule(
            "a map with a key twice",
            list![],
            lists::append(&plain(), BIN, map! {1 => 1, 1 => 2}),
        )
        .is_refused(PARAMETER),
        rule(
            "a map with nil as a key",
            list![],
            lists::append(&plain(), BIN, map! {NIL => 1}),
        )
        .is_refused(PARAMETER),
        rule(
            "with a double",
            list![],
            lists::append(&plain(), BIN, map! {1.5 => 1}),
        )
        .is_refused(PARAMETER),
        rule(
            "with a list",
            list![],
            lists::append(&plain(), BIN, map! {list![1] => 1}),
        )
        .is_refused(PARAMETER),
        rule(
            "with a truth value",
            list![],
            lists::append(&plain(), BIN, map! {true => 1}),
        )
        .is_refused(PARAMETER),
    ]);
}

#[test]
fn a_whole_list_from_a_client_is_checked() {
    let set = empty_set();
    let put = |bytes: &[u8]| {
        let operation = operations::put_encoded(BIN, ParticleType::List, bytes);
        set.operate("k", &[operation])
            .map_err(|error| error.result_code())?;
        Ok(set.get("k").unwrap().unwrap().get(BIN).unwrap())
    };
    // A long form of 1, the order flag, and index data that is dropped.
    assert_eq!(put(&[0x91, 0xd1, 0, 1]), Ok(list![1]));
    assert_eq!(put(&[0x93, 0xc7, 0, 0x01, 1, 2]), Ok(ordered![1, 2]));
    assert_eq!(put(&[0x93, 0xc7, 0, 0x01, 2, 2]), Ok(ordered![2, 2]));
    assert_eq!(put(&[0x93, 0xc7, 1, 0x11, 9, 1, 2]), Ok(ordered![1, 2]));
    for (what, bytes) in [
        (
            "the order flag on unsorted elements",
            &[0x93, 0xc7, 0, 0x01, 2, 1][..],
        ),
        ("bytes behind the list", &[0x91, 1, 1]),
        ("a list cut short", &[0x92, 1]),
        ("a map", &[0x81, 1, 1]),
        ("a key twice in a nested map", &[0x91, 0x82, 1, 1, 1, 2]),
        ("nil as a key in a nested map", &[0x91, 0x81, 0xc0, 1]),
        ("a wildcard", &[0x91, 0xd4, 0xff, 0]),
    ] {
        assert_eq!(put(bytes), Err(MALFORMED), "{what}");
    }
}

// ---- 5.5 Return types

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
        rule("no ranks in a row without order", start(), of(R::RankRange))
            .is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
        rule(
            "nor of one rank",
            start(),
            lists::remove_by_rank(BIN, 1, R::Count.inverted()),
        )
        .is_refused(NOT_APPLICABLE),
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
        rule("no ranks in a row without order", start(), of(R::RankRange))
            .is_refused(NOT_APPLICABLE),
        rule("nor reverse", start(), of(R::ReverseRankRange)).is_refused(NOT_APPLICABLE),
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
        rule("index (12.2, 20)", start(), of(R::Index)).gives(list![0, 2, 4]),
        rule("from the end, descending", start(), of(R::ReverseIndex)).gives(list![4, 2, 0]),
        rule("ranks are in a row", start(), of(R::Rank)).gives(list![0, 1, 2]),
        rule("also from the greatest", start(), of(R::ReverseRank)).gives(list![2, 3, 4]),
        rule("count", start(), of(R::Count)).gives(3),
        rule("values", start(), of(R::Values)).gives(list![1, 1, 1]),
        rule("exists", start(), of(R::Exists)).gives(true),
        rule("no indexes in a row", start(), of(R::IndexRange)).is_refused(NOT_APPLICABLE),
        rule("nor reverse", start(), of(R::ReverseIndexRange)).is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
        rule(
            "nor reverse",
            ordered![1, 2, 3],
            by_index(R::ReverseIndexRange),
        )
        .is_refused(NOT_APPLICABLE),
        rule("nor of ranks", ordered![1, 2, 3], by_value(R::RankRange)).is_refused(NOT_APPLICABLE),
        rule("nor reverse", start(), by_value(R::ReverseRankRange)).is_refused(NOT_APPLICABLE),
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
            "by index: true if some others are there",
            some(),
            by_index(1),
        )
        .gives(true),
        rule("false if none are", some(), by_index(2)).gives(false),
    ]);
}

// ---- 5.6 Index, rank, count

#[test]
fn a_single_index_must_exist() {
    let start = || list![10, 11, 12];
    check([
        rule("the first", start(), lists::get(BIN, 0)).gives(10),
        rule("the last", start(), lists::get(BIN, 2)).gives(12),
        rule("from the end", start(), lists::get(BIN, -1)).gives(12),
        rule("the first from the end", start(), lists::get(BIN, -3)).gives(10),
        rule("beyond the end (12.2, 24)", start(), lists::get(BIN, 3)).is_refused(NOT_APPLICABLE),
        rule("before the beginning", start(), lists::get(BIN, -4)).is_refused(NOT_APPLICABLE),
        rule("far away", start(), lists::get(BIN, i64::MIN)).is_refused(NOT_APPLICABLE),
        rule("pop", start(), lists::pop(BIN, 3)).is_refused(NOT_APPLICABLE),
        rule("remove", start(), lists::remove(BIN, -4)).is_refused(NOT_APPLICABLE),
        rule("by index", start(), lists::get_by_index(BIN, 3, R::Exists))
            .is_refused(NOT_APPLICABLE),
        rule("by index", start(), lists::remove_by_index(BIN, 3, R::None))
            .is_refused(NOT_APPLICABLE),
        rule("by rank", start(), lists::get_by_rank(BIN, 3, R::Values)).is_refused(NOT_APPLICABLE),
        rule(
            "by rank",
            start(),
            lists::remove_by_rank(BIN, -4, R::Values),
        )
        .is_refused(NOT_APPLICABLE),
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
        rule("of nothing", list![], lists::get(BIN, 0)).is_refused(NOT_APPLICABLE),
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
        rule("from beyond the end (12.2, 24)", start(), of(3, 1)).gives(list![]),
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
    // The twelve of 5.6 and 12.2, 30.
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
        rule("no more than asked for (12.2, 39)", all(), some(5, 0, 0)).gives(list![]),
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
            "infinity is above everything (12.2, 31)",
            ordered![0, 9, 11, 15],
            { of(Some(10.into()), Some(INF)) },
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
            { of(Some(1.into()), Some(float(0.0))) },
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
        rule("the others removed (12.2, 27)", start(), {
            lists::remove_by_value_range(BIN, Some(3.into()), Some(9.into()), R::Values.inverted())
        })
        .gives(list![1, 9])
        .leaves(list![5, 5, 3]),
    ]);
}

// ---- 5.7, 5.8 CREATE, SET_TYPE

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
            { lists::set_order(BIN, ListOrder::Ordered) },
        )
        .leaves(ordered![NIL, true, 1, "a", list![], map! {}, float(0.1)]),
    ]);
}

// ---- 5.8 APPEND, APPEND_ITEMS

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
    // The matrix of 5.8, without and with order.
    check([
        rule("one that exists (12.2, 26)", list![1, 2], add(none, 1)).is_refused(THERE),
        rule("not failing", list![1, 2], add(NO_FAIL, 1)).gives(2),
        rule("nor partial", list![1, 2], add(NO_FAIL | PARTIAL, 1)).gives(2),
        rule("one that does not", list![1, 2], add(none, 3))
            .gives(3)
            .leaves(list![1, 2, 3]),
        rule("some exist", list![1], add_all(none, list![3, 1, 2])).is_refused(THERE),
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
        .is_refused(NOT_APPLICABLE),
        rule("not failing", list![1], add_all(NO_FAIL, list![3, 2, 3])).gives(1),
        rule(
            "the first of each",
            list![1],
            add_all(NO_FAIL | PARTIAL, list![3, 2, 3]),
        )
        .gives(3)
        .leaves(list![1, 3, 2]),
        rule("all exist", list![1, 2], add_all(none, list![2, 1])).is_refused(THERE),
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
        .is_refused(THERE),
        rule(
            "the first violation decides: existing",
            list![1],
            add_all(none, list![1, 3, 3]),
        )
        .is_refused(THERE),
        rule(
            "the first violation decides: twice",
            list![1],
            add_all(none, list![3, 3, 1]),
        )
        .is_refused(NOT_APPLICABLE),
        rule("none at all", list![1], add_all(none, list![])).gives(1),
    ]);
    check([
        rule("one that exists", ordered![1, 2], add(none, 1)).is_refused(THERE),
        rule("not failing", ordered![1, 2], add(NO_FAIL, 1)).gives(2),
        rule("one that does not", ordered![1, 3], add(none, 2))
            .gives(3)
            .leaves(ordered![1, 2, 3]),
        rule("some exist", ordered![1], add_all(none, list![3, 1, 2])).is_refused(THERE),
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
        .is_refused(NOT_APPLICABLE),
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
        .is_refused(THERE),
        rule(
            "the first violation decides: twice",
            ordered![1],
            add_all(none, list![3, 3, 1]),
        )
        .is_refused(NOT_APPLICABLE),
        rule(
            "duplicates that are there stay",
            ordered![1, 1],
            add(none, 2),
        )
        .gives(3)
        .leaves(ordered![1, 1, 2]),
    ]);
    // 12.2, 28.
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
        .is_refused(NOT_APPLICABLE),
    ]);
}

#[test]
fn unique_means_unequal_by_the_order_of_values() {
    let add = |value: Value| lists::append(&with(UNIQUE), BIN, value);
    check([
        rule("integer and double differ", list![1], add(float(1.0)))
            .gives(2)
            .leaves(list![1, float(1.0)]),
        rule("text and bytes differ", list!["a"], add((&[b'a']).into()))
            .gives(2)
            .leaves(list!["a", &[b'a']]),
        rule(
            "zeros of either sign are equal",
            list![float(0.0)],
            add(float(-0.0)),
        )
        .is_refused(THERE),
        rule(
            "orders of lists do not count",
            list![list![1, 2]],
            add(ordered![1, 2]),
        )
        .is_refused(THERE),
        rule(
            "orders of maps do not count",
            list![map! {1 => 2}],
            add(by_key! {1 => 2}),
        )
        .is_refused(THERE),
        rule("nil is unique, too", list![NIL], add(NIL)).is_refused(THERE),
    ]);
}

// ---- 5.8 INSERT, INSERT_ITEMS

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
        rule("from the end (12.2, 21)", list![1, 2, 3, 4], at(-2, 9))
            .gives(5)
            .leaves(list![1, 2, 9, 3, 4]),
        rule("before all, from the end", start(), at(-3, 9))
            .gives(4)
            .leaves(list![9, 1, 2, 3]),
        rule("before the beginning", start(), at(-4, 9)).is_refused(NOT_APPLICABLE),
        rule("beyond the end: nil in the gap", start(), at(5, 9))
            .gives(6)
            .leaves(list![1, 2, 3, NIL, NIL, 9]),
        rule("too far", start(), at(1 << 31, 9)).is_refused(NOT_APPLICABLE),
        rule("much too far", start(), at(i64::MAX, 9)).is_refused(NOT_APPLICABLE),
        rule("an order has no places (12.2, 26)", ordered![1], at(0, 9)).is_refused(NOT_APPLICABLE),
        rule("not even without failing", ordered![1], {
            lists::insert(&with(NO_FAIL), BIN, 0, 9)
        })
        .is_refused(NOT_APPLICABLE),
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
        .is_refused(NOT_APPLICABLE),
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
        rule("beyond (12.2, 26)", list![1], at(BOUNDED, 2)).is_refused(NOT_APPLICABLE),
        rule("not failing", list![1], at(BOUNDED | NO_FAIL, 2)).gives(1),
        rule(
            "before the beginning it fails",
            list![1],
            at(BOUNDED | NO_FAIL, -2),
        )
        .is_refused(NOT_APPLICABLE),
        rule("several", list![1], {
            lists::insert_items(&with(BOUNDED), BIN, 2, items(list![8, 9]))
        })
        .is_refused(NOT_APPLICABLE),
        rule("several, not failing", list![1], {
            lists::insert_items(&with(BOUNDED | NO_FAIL), BIN, 2, items(list![8, 9]))
        })
        .gives(1),
        rule("a missing bin is bounded, too", MISSING, at(BOUNDED, 1)).is_refused(NOT_APPLICABLE),
        rule(
            "QUIRK of 6.2: an empty list is made",
            MISSING,
            at(BOUNDED | NO_FAIL, 1),
        )
        .gives(0)
        .leaves(list![]),
        rule("set", list![1], lists::set(&with(BOUNDED), BIN, 2, 9)).is_refused(NOT_APPLICABLE),
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
        rule("one that exists", list![1, 2], at(none, 0, 2)).is_refused(THERE),
        rule("not failing", list![1, 2], at(NO_FAIL, 0, 2)).gives(2),
        rule(
            "the nil in a gap may come twice",
            list![NIL],
            at(none, 3, 2),
        )
        .gives(4)
        .leaves(list![NIL, NIL, NIL, 2]),
        rule("some exist", list![1], all(none, 0, list![2, 1])).is_refused(THERE),
        rule("not failing", list![1], all(NO_FAIL, 0, list![2, 1])).gives(1),
        rule(
            "partial",
            list![1],
            all(NO_FAIL | PARTIAL, 0, list![2, 1, 3, 2]),
        )
        .gives(3)
        .leaves(list![2, 3, 1]),
        rule("duplicates among them", list![1], all(none, 0, list![2, 2]))
            .is_refused(NOT_APPLICABLE),
    ]);
}

// ---- 5.8 SET

#[test]
fn set_replaces_or_extends() {
    let at = |index, value: i64| lists::set(&plain(), BIN, index, value);
    let start = || list![1, 2, 3, 4];
    check([
        rule("in place", start(), at(1, 9)).leaves(list![1, 9, 3, 4]),
        rule("from the end (12.2, 29)", start(), at(-1, 9)).leaves(list![1, 2, 3, 9]),
        rule("at the end", start(), at(4, 9)).leaves(list![1, 2, 3, 4, 9]),
        rule("beyond the end (12.2, 21)", start(), at(6, 10))
            .leaves(list![1, 2, 3, 4, NIL, NIL, 10]),
        rule("before the beginning", start(), at(-5, 9)).is_refused(NOT_APPLICABLE),
        rule("too far", start(), at(1 << 31, 9)).is_refused(NOT_APPLICABLE),
        rule("an order has no places", ordered![1], at(0, 9)).is_refused(NOT_APPLICABLE),
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
        .is_refused(THERE),
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
        .is_refused(THERE),
        rule(
            "unique, beyond the end",
            start(),
            lists::set(&with(UNIQUE), BIN, 5, 2),
        )
        .is_refused(THERE),
    ]);
}

// ---- 5.8 POP, POP_RANGE, REMOVE, REMOVE_RANGE, TRIM, CLEAR, SIZE

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
            { lists::pop_range(BIN, 0, 2) },
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
        rule("(12.2, 35)", start(), lists::trim(BIN, 2, 3))
            .gives(7)
            .leaves(list![2, 3, 4]),
        rule("all", start(), lists::trim(BIN, 0, 10)).gives(0),
        rule("a negative count is to the end (12.2, 23)", start(), {
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

// ---- 5.8 GET_BY..., REMOVE_BY...

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
    // The sequence of 12.2, 30.
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

// ---- 5.9 The order of rank results

#[test]
fn rank_results_of_an_unordered_list_come_from_the_nearer_end() {
    let of = |rank, count| lists::get_by_rank_range_count(BIN, rank, count, R::Values);
    let start = || list![7, 6, 5, 8, 9, 10];
    check([
        rule("QUIRK: the least three, descending", start(), of(0, 3)).gives(list![7, 6, 5]),
        rule("the greatest three, ascending", start(), of(3, 3)).gives(list![8, 9, 10]),
        rule(
            "(12.2, 20) from 2 to the top",
            start(),
            lists::get_by_rank_range(BIN, 2, R::Values),
        )
        .gives(list![7, 8, 9, 10]),
        rule("the middle two: as many above as below", start(), of(2, 2)).gives(list![8, 7]),
        rule("one more below", start(), of(3, 2)).gives(list![8, 9]),
        rule("all: none above, none below", start(), of(0, 6)).gives(list![10, 9, 8, 7, 6, 5]),
        rule("removed (12.2, 20)", start(), {
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

// ---- 5.10 INCREMENT

#[test]
fn increments() {
    let by = |index, delta: Value| lists::increment(&plain(), BIN, index, delta);
    let start = || list![1, float(1.5), "a"];
    check([
        rule("integer", start(), by(0, 4.into()))
            .gives(5)
            .leaves(list![5, float(1.5), "a"]),
        rule("from the end", start(), by(-3, 4.into()))
            .gives(5)
            .leaves(list![5, float(1.5), "a"]),
        rule("a double to an integer is cut", start(), by(0, float(2.9)))
            .gives(3)
            .leaves(list![3, float(1.5), "a"]),
        rule("negative as well", start(), by(0, float(-2.9)))
            .gives(-1)
            .leaves(list![-1, float(1.5), "a"]),
        rule("an integer to a double", start(), by(1, 2.into()))
            .gives(float(3.5))
            .leaves(list![1, float(3.5), "a"]),
        rule("double to double", start(), by(1, float(0.25)))
            .gives(float(1.75))
            .leaves(list![1, float(1.75), "a"]),
        rule("nil counts as 1", start(), by(0, NIL))
            .gives(2)
            .leaves(list![2, float(1.5), "a"]),
        rule("integers wrap", list![i64::MAX], by(0, 1.into()))
            .gives(i64::MIN)
            .leaves(list![i64::MIN]),
        rule("no number (12.2, 25)", start(), by(2, 1.into())).is_refused(PARAMETER),
        rule("no number to add", start(), by(0, "x".into())).is_refused(PARAMETER),
        rule("at the end: the delta", list![1], by(1, 7.into()))
            .gives(7)
            .leaves(list![1, 7]),
        rule("beyond: nil in the gap", list![1], by(3, 7.into()))
            .gives(7)
            .leaves(list![1, NIL, NIL, 7]),
        rule(
            "beyond, bounded",
            list![1],
            lists::increment(&with(BOUNDED), BIN, 3, 7),
        )
        .is_refused(NOT_APPLICABLE),
        rule("before the beginning", list![1], by(-2, 7.into())).is_refused(NOT_APPLICABLE),
        rule("a missing bin, by a double", MISSING, by(0, float(0.5)))
            .gives(float(0.5))
            .leaves(list![float(0.5)]),
        rule(
            "a missing bin, ordered",
            MISSING,
            lists::increment(&sorted(), BIN, 0, 5),
        )
        .gives(5)
        .leaves(ordered![5]),
        rule(
            "a missing bin, before the beginning",
            MISSING,
            by(-1, 1.into()),
        )
        .is_refused(NOT_APPLICABLE),
    ]);
    check([
        rule(
            "an ordered list moves it up",
            ordered![1, 2, 3],
            by(0, 9.into()),
        )
        .gives(10)
        .leaves(ordered![2, 3, 10]),
        rule("or down", ordered![1, 2, 3], by(-1, (-5).into()))
            .gives(-2)
            .leaves(ordered![-2, 1, 2]),
        rule("with an index", ordered![1, 2, 3], by(0, 1000.into()))
            .persisted()
            .gives(1001)
            .leaves(ordered![2, 3, 1001]),
        rule(
            "unique",
            ordered![1, 2, 3],
            lists::increment(&with(UNIQUE), BIN, 0, 1),
        )
        .is_refused(THERE),
        rule("unique, to something new", ordered![1, 2, 3], {
            lists::increment(&with(UNIQUE), BIN, 0, 3)
        })
        .gives(4)
        .leaves(ordered![2, 3, 4]),
        rule("unique by 0: equal to itself only", ordered![1, 2, 3], {
            lists::increment(&with(UNIQUE), BIN, 0, 0)
        })
        .gives(1),
        rule(
            "unique, without order",
            list![1, 2],
            lists::increment(&with(UNIQUE), BIN, 0, 1),
        )
        .is_refused(THERE),
    ]);
    // Not failing keeps the old element.
    let set = empty_set();
    for start in [list![1, 2], ordered![1, 2]] {
        set.put("k", [(BIN, start.clone())]).unwrap();
        set.operate("k", &[lists::increment(&with(UNIQUE | NO_FAIL), BIN, 0, 1)])
            .unwrap();
        assert_eq!(set.get("k").unwrap().unwrap().get(BIN), Some(start));
    }
}

// ---- 5.11 By value

#[test]
fn wildcards_match_what_follows() {
    let of = |value: Value| lists::get_by_value(BIN, value, R::Values);
    let start = || {
        list![
            list![1, 2],
            list![1],
            list![2, 2],
            list![1, 3, 4],
            "x",
            7,
            NIL
        ]
    };
    check([
        rule("alone it matches everything (12.2, 38)", start(), of(ANY)).gives(start()),
        rule("lists that begin so, and go on", start(), of(list![1, ANY]))
            .gives(list![list![1, 2], list![1, 3, 4]]),
        rule(
            "any list that is not empty",
            list![list![], list![1], 1],
            of(list![ANY]),
        )
        .gives(list![list![1]]),
        rule(
            "what follows the wildcard does not count",
            start(),
            of(list![1, ANY, 9]),
        )
        .gives(list![list![1, 2], list![1, 3, 4]]),
        rule(
            "(12.2, 31)",
            list![list!["Jim", 95], list!["Joe", 80]],
            of(list!["Jim", ANY]),
        )
        .gives(list![list!["Jim", 95]]),
        rule(
            "deep inside",
            list![list![list![1, 2], 3], list![list![2], 3]],
            { of(list![list![1, ANY], 4]) },
        )
        .gives(list![list![list![1, 2], 3]]),
        rule(
            "count",
            start(),
            lists::get_by_value(BIN, list![1, ANY], R::Count),
        )
        .gives(2),
        rule(
            "in an ordered list",
            ordered![list![1, 2], list![1, 3], list![2, 1], list![0]],
            { lists::get_by_value(BIN, list![1, ANY], R::IndexRange) },
        )
        .gives(list![1, 2]),
        rule(
            "removed",
            start(),
            lists::remove_by_value(BIN, list![1, ANY], R::Count),
        )
        .gives(2)
        .leaves(list![list![1], list![2, 2], "x", 7, NIL]),
        rule(
            "[1, nil] to [1, infinity] (12.2, 38)",
            { list![list![1, 2], list![1, "a"], list![2, 2], list![1, 3, 4], 1] },
            { lists::get_by_value_range(BIN, Some(list![1, NIL]), Some(list![1, INF]), R::Values) },
        )
        .gives(list![list![1, 2], list![1, "a"], list![1, 3, 4]]),
    ]);
}

#[test]
fn by_value_inverted_keeps_the_list_order() {
    // 12.2, 20.
    let start = || list![7, 6, 5, 8, 9, 10];
    check([
        rule(
            "get",
            start(),
            lists::get_by_value(BIN, 7, R::Values.inverted()),
        )
        .gives(list![6, 5, 8, 9, 10]),
        rule(
            "remove",
            start(),
            lists::remove_by_value(BIN, 7, R::Values.inverted()),
        )
        .gives(list![6, 5, 8, 9, 10])
        .leaves(list![7]),
    ]);
}

#[test]
fn a_list_of_values_without_order() {
    let of = |values: Value, returns| lists::get_by_value_list(BIN, items(values), returns);
    let start = || list![5, 1, 5, 3, 1];
    check([
        rule(
            "values in list order, each once",
            start(),
            of(list![1, 5, 1], R::Values),
        )
        .gives(list![5, 1, 5, 1]),
        rule("indexes", start(), of(list![1, 3], R::Index)).gives(list![1, 3, 4]),
        rule("reverse indexes", start(), of(list![1, 3], R::ReverseIndex)).gives(list![3, 1, 0]),
        rule(
            "ranks, parameter by parameter",
            start(),
            of(list![5, 1], R::Rank),
        )
        .gives(list![3, 4, 0, 1]),
        rule("count", start(), of(list![1, 5, 1], R::Count)).gives(4),
        rule("exists", start(), of(list![7, 3], R::Exists)).gives(true),
        rule("exists not", start(), of(list![7], R::Exists)).gives(false),
        rule("no values", start(), of(list![], R::Values)).gives(list![]),
        rule("no values, count", start(), of(list![], R::Count)).gives(0),
        rule("no values, exists", start(), of(list![], R::Exists)).gives(false),
        rule("inverted: list order", start(), {
            lists::get_by_value_list(BIN, items(list![1, 7]), R::Values.inverted())
        })
        .gives(list![5, 5, 3]),
        rule("no values, inverted: everything", start(), {
            lists::get_by_value_list(BIN, vec![], R::Values.inverted())
        })
        .gives(start()),
        rule("no ranges", start(), of(list![1], R::RankRange)).is_refused(NOT_APPLICABLE),
        rule("no ranges", start(), of(list![1], R::IndexRange)).is_refused(NOT_APPLICABLE),
        rule("removed", start(), {
            lists::remove_by_value_list(BIN, items(list![1, 3]), R::Values)
        })
        .gives(list![1, 3, 1])
        .leaves(list![5, 5]),
        rule("the others removed (12.2, 27)", start(), {
            lists::remove_by_value_list(BIN, items(list![1, 3]), R::Values.inverted())
        })
        .gives(list![5, 5])
        .leaves(list![1, 3, 1]),
        rule("wildcards", list![list![1, 2], 7, list![1, 9]], {
            of(list![list![1, ANY], 8], R::Index)
        })
        .gives(list![0, 2]),
    ]);
}

#[test]
fn a_list_of_values_with_order() {
    let of = |values: Value, returns| lists::get_by_value_list(BIN, items(values), returns);
    let start = || ordered![1, 1, 3, 5];
    check([
        rule(
            "values by parameter, and again",
            start(),
            of(list![5, 1, 5], R::Values),
        )
        .gives(list![5, 1, 1, 5]),
        rule("indexes", start(), of(list![5, 1], R::Index)).gives(list![3, 0, 1]),
        rule("ranks", start(), of(list![5, 9, 3], R::Rank)).gives(list![3, 2]),
        rule("counted once", start(), of(list![5, 1, 5], R::Count)).gives(3),
        rule("no ranges", start(), of(list![5], R::IndexRange)).is_refused(NOT_APPLICABLE),
        rule("nor of ranks", start(), of(list![5], R::ReverseRankRange)).is_refused(NOT_APPLICABLE),
        rule("none", start(), of(list![], R::Index)).gives(list![]),
        rule("inverted: list order", start(), {
            lists::get_by_value_list(BIN, items(list![5, 1]), R::Index.inverted())
        })
        .gives(list![2]),
        rule("removed once", start(), {
            lists::remove_by_value_list(BIN, items(list![5, 1, 5]), R::Count)
        })
        .gives(3)
        .leaves(ordered![3]),
    ]);
}

#[test]
fn ranks_of_a_range_of_indexes() {
    let of = |start, count, returns| lists::get_by_index_range_count(BIN, start, count, returns);
    let start = || list![5, 1, 5, 3];
    check([
        rule("the lowest rank of equal ones", start(), of(0, 3, R::Rank)).gives(list![2, 0, 2]),
        rule("from the greatest", start(), of(1, 2, R::ReverseRank)).gives(list![3, 1]),
        rule(
            "QUIRK: all of them are counted through",
            start(),
            of(0, 4, R::Rank),
        )
        .gives(list![0, 1, 2, 3]),
        rule("QUIRK: also when removed", start(), {
            lists::remove_by_index_range_count(BIN, 0, 9, R::Rank)
        })
        .gives(list![0, 1, 2, 3])
        .leaves(list![]),
        rule("one", start(), lists::get_by_index(BIN, 2, R::Rank)).gives(2),
    ]);
}

#[test]
fn equal_means_equal_by_the_order_of_values() {
    let of = |value: Value| lists::get_by_value(BIN, value, R::Index);
    let mixed = || {
        list![
            1,
            float(1.0),
            "a",
            &[b'a'],
            true,
            NIL,
            list![1],
            map! {1 => 2}
        ]
    };
    check([
        rule("an integer", mixed(), of(1.into())).gives(list![0]),
        rule("a double", mixed(), of(float(1.0))).gives(list![1]),
        rule("text", mixed(), of("a".into())).gives(list![2]),
        rule("bytes", mixed(), of((&[b'a']).into())).gives(list![3]),
        rule("a truth value", mixed(), of(true.into())).gives(list![4]),
        rule("nil", mixed(), of(NIL)).gives(list![5]),
        rule("a list, whatever its order", mixed(), of(ordered![1])).gives(list![6]),
        rule("a map, whatever its order", mixed(), of(by_key! {1 => 2})).gives(list![7]),
    ]);
}

// ---- 5.8, 5.12 SORT

#[test]
fn sorting() {
    let by = |flags| lists::sort(BIN, flags);
    let none = ListSortFlags::empty();
    let descending = ListSortFlags::DESCENDING;
    let distinct = ListSortFlags::DROP_DUPLICATES;
    let start = || list![3, 1, "a", 3, NIL, 2];
    check([
        rule("ascending", start(), by(none)).leaves(list![NIL, 1, 2, 3, 3, "a"]),
        rule("descending", start(), by(descending)).leaves(list!["a", 3, 3, 2, 1, NIL]),
        rule("without duplicates", start(), by(distinct)).leaves(list![NIL, 1, 2, 3, "a"]),
        rule("QUIRK: not both", start(), by(descending | distinct)).is_refused(PARAMETER),
        rule(
            "unless all are equal",
            list![4, 4, 4],
            by(descending | distinct),
        )
        .leaves(list![4]),
        rule("or there is none", list![], by(descending | distinct)),
        rule("ordered: nothing to do", ordered![1, 2], by(none)),
        rule("ordered: not descending", ordered![1, 2], by(descending)),
        rule(
            "ordered: without duplicates",
            ordered![1, 1, 2],
            by(distinct),
        )
        .leaves(ordered![1, 2]),
        rule(
            "ordered: both flags work",
            ordered![1, 1, 2],
            by(descending | distinct),
        )
        .leaves(ordered![1, 2]),
        rule("ordered, with an index", ordered![1, 1, 2], by(distinct))
            .persisted()
            .leaves(ordered![1, 2]),
        rule("with an index", list![3, 1, 2], by(descending))
            .persisted()
            .leaves(list![3, 2, 1]),
    ]);
}

// ---- 7 The order of values

#[test]
fn all_types_have_their_order() {
    // 7.1 and 7.2, ascending.
    let ascending = || {
        list![
            NIL,
            false,
            true,
            i64::MIN,
            -1,
            0,
            i64::MAX,
            "",
            "a",
            "aa",
            "b",
            list![],
            list![1],
            list![1, 1],
            list![1, "a"],
            list![2],
            map! {},
            map! {9 => 9},
            map! {1 => 1, 2 => 1},
            map! {1 => 1, 2 => 2},
            map! {1 => 2, 2 => 1},
            map! {"a" => 0, "b" => 0},
            &[0_u8; 0],
            &[0],
            &[0, 0],
            &[1],
            Value::Hll(vec![0]),
            float(f64::NEG_INFINITY),
            float(-1.5),
            float(0.0),
            float(1e300),
            float(f64::INFINITY),
            point(1),
            point(2),
        ]
    };
    let mut reversed = items(ascending());
    reversed.reverse();
    let sorted = spikelet::List::new(items(ascending()), ListOrder::Ordered);
    check([
        rule(
            "sorted",
            reversed.clone(),
            lists::sort(BIN, ListSortFlags::empty()),
        )
        .leaves(ascending()),
        rule(
            "ordered",
            reversed,
            lists::set_order(BIN, ListOrder::Ordered),
        )
        .leaves(sorted),
    ]);
}

fn point(place: i32) -> Value {
    Value::GeoJson(format!(
        "{{\"type\":\"Point\",\"coordinates\":[{place},1]}}"
    ))
}

#[test]
fn not_a_number_equals_every_double() {
    let nan = float(f64::NAN);
    check([
        rule("searched for", list![1, float(1.0), "a", float(2.0)], {
            lists::get_by_value(BIN, nan, R::Index)
        })
        .gives(list![1, 3]),
    ]);
    let set = empty_set();
    set.put("k", [(BIN, list![float(f64::NAN), float(2.0)])])
        .unwrap();
    let done = set
        .operate("k", &[lists::get_by_value(BIN, float(5.0), R::Count)])
        .unwrap();
    assert_eq!(done.value(0), Some(&1.into()));
}

// ---- Limits

#[test]
fn a_gap_that_makes_the_record_too_big_is_refused() {
    let set = empty_set();
    set.put("k", [(BIN, list![1])]).unwrap();
    let refused = set.operate("k", &[lists::set(&plain(), BIN, 2_000_000_000, 1)]);
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused,
            Error::RecordTooBig { .. } | Error::OpNotApplicable(_)
        ),
        "{refused}"
    );
    assert_eq!(set.get("k").unwrap().unwrap().get(BIN), Some(list![1]));
}
