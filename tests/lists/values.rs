//! Numbers, selecting by value, sorting, and the order of values.

use super::*;

// ---- semantics.md#increments

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
        rule("no number (client suite)", start(), by(2, 1.into())).refused(PARAMETER),
        rule("no number to add", start(), by(0, "x".into())).refused(PARAMETER),
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
        .refused(NOT_APPLICABLE),
        rule("before the beginning", list![1], by(-2, 7.into())).refused(NOT_APPLICABLE),
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
        .refused(NOT_APPLICABLE),
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
        .refused(THERE),
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
        .refused(THERE),
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

// ---- semantics.md#selecting-by-value

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
        rule(
            "alone it matches everything (client suite)",
            start(),
            of(ANY),
        )
        .gives(start()),
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
            "text, then anything (client suite)",
            list![list!["Jim", 95], list!["Joe", 80]],
            of(list!["Jim", ANY]),
        )
        .gives(list![list!["Jim", 95]]),
        rule(
            "deep inside",
            list![list![list![1, 2], 3], list![list![2], 3]],
            of(list![list![1, ANY], 4]),
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
            lists::get_by_value(BIN, list![1, ANY], R::IndexRange),
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
            "[1, nil] to [1, infinity] (client suite)",
            list![list![1, 2], list![1, "a"], list![2, 2], list![1, 3, 4], 1],
            lists::get_by_value_range(BIN, Some(list![1, NIL]), Some(list![1, INF]), R::Values),
        )
        .gives(list![list![1, 2], list![1, "a"], list![1, 3, 4]]),
    ]);
}

#[test]
fn by_value_inverted_keeps_the_list_order() {
    // Client suite.
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
        rule("no ranges", start(), of(list![1], R::RankRange)).refused(NOT_APPLICABLE),
        rule("no ranges", start(), of(list![1], R::IndexRange)).refused(NOT_APPLICABLE),
        rule("removed", start(), {
            lists::remove_by_value_list(BIN, items(list![1, 3]), R::Values)
        })
        .gives(list![1, 3, 1])
        .leaves(list![5, 5]),
        rule("the others removed (client suite)", start(), {
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
        rule("no ranges", start(), of(list![5], R::IndexRange)).refused(NOT_APPLICABLE),
        rule("nor of ranks", start(), of(list![5], R::ReverseRankRange)).refused(NOT_APPLICABLE),
        rule("none", start(), of(list![], R::Index)).gives(list![]),
        rule("inverted: list order", start(), {
            lists::get_by_value_list(BIN, items(list![5, 1]), R::Index.inverted())
        })
        .gives(list![2]),
        rule("removed once, told again", start(), {
            lists::remove_by_value_list(BIN, items(list![5, ANY, 5]), R::Index)
        })
        .gives(list![3, 0, 1, 2, 3, 3])
        .leaves(ordered![]),
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
    let mixed = || list![1, float(1.0), "a", b"a", true, NIL, list![1], map! {1 => 2}];
    check([
        rule("an integer", mixed(), of(1.into())).gives(list![0]),
        rule("a double", mixed(), of(float(1.0))).gives(list![1]),
        rule("text", mixed(), of("a".into())).gives(list![2]),
        rule("bytes", mixed(), of(b"a".into())).gives(list![3]),
        rule("a truth value", mixed(), of(true.into())).gives(list![4]),
        rule("nil", mixed(), of(NIL)).gives(list![5]),
        rule("a list, whatever its order", mixed(), of(ordered![1])).gives(list![6]),
        rule("a map, whatever its order", mixed(), of(by_key! {1 => 2})).gives(list![7]),
    ]);
}

// ---- semantics.md#lists-sort

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
        rule("QUIRK: not both", start(), by(descending | distinct)).refused(PARAMETER),
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

// ---- semantics.md#order-of-values

#[test]
fn all_types_have_their_order() {
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
    let sorted = spikelet::value::List::new(items(ascending()), ListOrder::Ordered);
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
            Error::RecordTooBig { .. } | Error::OpNotApplicable { .. }
        ),
        "{refused}"
    );
    assert_eq!(set.get("k").unwrap().unwrap().get(BIN), Some(list![1]));
}
