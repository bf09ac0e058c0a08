//! Path expressions (semantics.md#path-expressions).

use crate::common::*;
use spikelet::expressions::{self as exp, *};
use spikelet::expressions::{ExpType, LoopVariable, PathFlags, PathResult, PathStep};
use spikelet::operations::{self, ctx};
use spikelet::value::List;
use spikelet::{
    Expression, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapReturnType, Value,
};

// semantics.md#path-expressions.

/// `{"books": [{"title": .., "price": ..} ..], "open": true}`
fn shop() -> Value {
    let book = |title: &str, price: i64| by_key([("price", price.into()), ("title", title.into())]);
    by_key([
        ("books", list([book("a", 5), book("b", 12), book("c", 20)])),
        ("open", true.into()),
    ])
}

fn price() -> Expression {
    let book = loop_var(LoopVariable::Value, ExpType::Map);
    maps::get_by_key(MapReturnType::Value, ExpType::Int, "price", book, &[])
}

fn value_int() -> Expression {
    loop_var(LoopVariable::Value, ExpType::Int)
}

/// What, result, flags, path, expected value or code.
type Selecting = (
    &'static str,
    PathResult,
    PathFlags,
    Vec<PathStep>,
    Result<Value, u8>,
);

/// What, start value, new value, flags, path, expected value afterwards or code.
type Changing = (
    &'static str,
    Value,
    Expression,
    PathFlags,
    Vec<PathStep>,
    Result<Value, u8>,
);

#[test]
fn a_path_selects_what_its_levels_choose() {
    let books = || PathStep::from(ctx::map_key("books"));
    let title = || PathStep::from(ctx::map_key("title"));
    let dear = || PathStep::matching(gt(price(), 10));
    let stored =
        |price: i64, title: &str| by_key([("price", price.into()), ("title", title.into())]);
    let none = PathFlags::empty();
    let no_fail = PathFlags::NO_FAIL;
    let (tree, values) = (PathResult::Tree, PathResult::Values);
    let (keys, both) = (PathResult::Keys, PathResult::KeysAndValues);
    let unordered = |entries: Vec<(Value, Value)>| Value::Map(entries.into());
    let key = || loop_var(LoopVariable::Key, ExpType::String);
    let index = || loop_var(LoopVariable::Index, ExpType::Int);
    let table: Vec<Selecting> = vec![
        (
            "titles",
            values,
            none,
            vec![books(), PathStep::all(), title()],
            Ok(list(["a".into(), "b".into(), "c".into()])),
        ),
        (
            "of dear books",
            values,
            none,
            vec![books(), dear(), title()],
            Ok(list(["b".into(), "c".into()])),
        ),
        (
            "as a tree",
            tree,
            none,
            vec![books(), dear(), title()],
            Ok(unordered(vec![(
                "books".into(),
                list([
                    unordered(vec![("title".into(), "b".into())]),
                    unordered(vec![("title".into(), "c".into())]),
                ]),
            )])),
        ),
        (
            "whole books, as they are stored",
            values,
            none,
            vec![books(), dear()],
            Ok(list([stored(12, "b"), stored(20, "c")])),
        ),
        (
            "by index",
            values,
            none,
            vec![books(), ctx::list_index(-1).into(), title()],
            Ok(list(["c".into()])),
        ),
        (
            "by an index beyond the end",
            values,
            none,
            vec![books(), ctx::list_index(3).into()],
            Ok(list([])),
        ),
        (
            "by rank",
            values,
            none,
            vec![books(), ctx::list_rank(0).into(), title()],
            Ok(list(["a".into()])),
        ),
        (
            "by the rank of values of a map",
            keys,
            none,
            vec![books(), PathStep::all(), ctx::map_rank(-1).into()],
            Ok(list(["title".into(), "title".into(), "title".into()])),
        ),
        (
            "by value",
            keys,
            none,
            vec![ctx::map_value(true).into()],
            Ok(list(["open".into()])),
        ),
        (
            "by value in a list",
            values,
            none,
            vec![books(), ctx::list_value(stored(5, "a")).into(), title()],
            Ok(list(["a".into()])),
        ),
        (
            "by index in a map",
            keys,
            none,
            vec![ctx::map_index(1).into()],
            Ok(list(["open".into()])),
        ),
        (
            "by keys",
            keys,
            none,
            vec![PathStep::keys(vec![
                "open".into(),
                "none".into(),
                "books".into(),
            ])],
            Ok(list(["books".into(), "open".into()])),
        ),
        (
            "keys and values",
            both,
            none,
            vec![books(), ctx::list_index(0).into(), PathStep::all()],
            Ok(list(["price".into(), 5.into(), "title".into(), "a".into()])),
        ),
        (
            "by key",
            keys,
            none,
            vec![PathStep::matching(eq(key(), "open"))],
            Ok(list(["open".into()])),
        ),
        (
            "by position",
            values,
            none,
            vec![books(), PathStep::matching(eq(index(), 1)), title()],
            Ok(list(["b".into()])),
        ),
        (
            "one of the keys, and a condition",
            values,
            none,
            vec![
                books(),
                PathStep::all(),
                PathStep::keys(vec!["price".into(), "title".into()]).and(eq(key(), "price")),
            ],
            Ok(ints([5, 12, 20])),
        ),
        (
            "by index, and a condition",
            values,
            none,
            vec![
                books(),
                PathStep::from(ctx::list_index(0)).and(gt(price(), 10)),
            ],
            Ok(list([])),
        ),
        (
            "scalars on the way are passed over",
            values,
            none,
            vec![PathStep::all(), PathStep::all(), title()],
            Ok(list(["a".into(), "b".into(), "c".into()])),
        ),
        (
            "but copied into a tree",
            tree,
            none,
            vec![PathStep::all(), ctx::list_index(0).into()],
            Ok(unordered(vec![
                ("books".into(), list([stored(5, "a")])),
                ("open".into(), true.into()),
            ])),
        ),
        (
            "nothing",
            tree,
            none,
            vec![PathStep::matching(false_expression())],
            Ok(unordered(vec![])),
        ),
        (
            "an unknown condition",
            values,
            none,
            vec![PathStep::matching(gt(value_int(), 1))],
            Err(PARAMETER),
        ),
        (
            "an unknown condition, forgiven",
            values,
            no_fail,
            vec![PathStep::matching(gt(value_int(), 1))],
            Ok(list([])),
        ),
        (
            "bins are unknown",
            values,
            none,
            vec![PathStep::matching(eq(int_bin("i"), 5))],
            Err(PARAMETER),
        ),
        (
            "keys of a list",
            keys,
            none,
            vec![books(), PathStep::all()],
            Err(WRONG_TYPE),
        ),
        (
            "keys of a list, forgiven",
            keys,
            no_fail,
            vec![books(), PathStep::all()],
            Ok(list([])),
        ),
        (
            "a list's level on a map",
            values,
            none,
            vec![ctx::list_index(0).into()],
            Err(PARAMETER),
        ),
        (
            "a key in a list",
            values,
            no_fail,
            vec![books(), ctx::map_key("title").into()],
            Err(PARAMETER),
        ),
        (
            "a condition that is none",
            values,
            none,
            vec![PathStep::matching(5)],
            Err(PARAMETER),
        ),
        (
            "two conditions more",
            values,
            none,
            vec![PathStep::from(ctx::map_index(0)).and(true).and(eq(1, 1))],
            Ok(list([list([
                stored(5, "a"),
                stored(12, "b"),
                stored(20, "c"),
            ])])),
        ),
        (
            "a condition more on a condition",
            values,
            none,
            vec![PathStep::all().and(eq(1, 1))],
            Err(PARAMETER),
        ),
        ("no levels", values, none, vec![], Err(PARAMETER)),
        (
            "65 levels",
            values,
            none,
            vec![PathStep::all(); 65],
            Err(PARAMETER),
        ),
    ];
    let set = record();
    set.put(KEY, [("shop", shop())]).unwrap();
    for (what, result, flags, steps, expected) in table {
        let read = operations::paths::select_by_path("shop", result, flags, steps.clone());
        let done = set.operate(KEY, &[read]);
        let got = match done {
            Ok(done) => Ok(done.bin("shop").cloned().unwrap()),
            Err(error) => Err(error.result_code()),
        };
        assert_eq!(got, expected, "{what}");
        // The same selection as an expression: a failure that a value causes is an unknown value.
        let call = select_by_path(ExpType::Map, result, flags, map_bin("shop"), steps);
        let expected = match expected {
            Ok(value) => is(value),
            Err(PARAMETER) if call.check().is_err() => Refused,
            Err(_) => Unknown,
        };
        assert_eq!(evaluate(&set, call), expected, "{what}");
    }
    let scalar = operations::paths::select_by_path("i", values, none, [PathStep::all()]);
    assert_eq!(
        set.operate(KEY, &[scalar]).unwrap_err().result_code(),
        WRONG_TYPE
    );
    let missing = operations::paths::select_by_path("missing", values, none, [PathStep::all()]);
    assert_eq!(set.operate(KEY, &[missing]).unwrap().results, []);
}

fn false_expression() -> Expression {
    exp::not(true)
}

#[test]
fn a_path_changes_what_its_levels_choose() {
    let none = PathFlags::empty();
    let no_fail = PathFlags::NO_FAIL;
    let ordered = |items: Vec<Value>| Value::List(List::new(items, ListOrder::Ordered));
    let all = || vec![PathStep::all()];
    let negated = || num_sub([value_int()]);
    let even = || eq(num_mod(value_int(), 2), 0);
    let cut = || cond([even(), result_remove(), value_int()]);
    let mixed = || list([1.into(), "x".into(), 3.into()]);
    let table: Vec<Changing> = vec![
        (
            "elements",
            ints([1, 2, 3]),
            num_mul([value_int(), int_val(10)]),
            none,
            all(),
            Ok(ints([10, 20, 30])),
        ),
        (
            "chosen ones",
            ints([1, 2, 3]),
            num_mul([value_int(), int_val(10)]),
            none,
            vec![PathStep::matching(even())],
            Ok(ints([1, 20, 3])),
        ),
        (
            "removed",
            ints([1, 2, 3, 4]),
            result_remove(),
            none,
            vec![PathStep::matching(even())],
            Ok(ints([1, 3])),
        ),
        (
            "removed or kept",
            ints([1, 2, 3, 4]),
            cut(),
            none,
            all(),
            Ok(ints([1, 3])),
        ),
        (
            "all removed",
            ints([1, 2]),
            result_remove(),
            none,
            all(),
            Ok(ints([])),
        ),
        (
            "an ordered list is sorted again",
            ordered(vec![1.into(), 2.into(), 3.into()]),
            negated(),
            none,
            all(),
            Ok(ordered(vec![(-3).into(), (-2).into(), (-1).into()])),
        ),
        (
            "inside another one, too",
            ordered(vec![
                ordered(vec![1.into(), 5.into()]),
                ordered(vec![2.into()]),
            ]),
            negated(),
            none,
            vec![PathStep::all(), PathStep::all()],
            Ok(ordered(vec![
                ordered(vec![(-5).into(), (-1).into()]),
                ordered(vec![(-2).into()]),
            ])),
        ),
        (
            "values of a map",
            by_key([("a", 1.into()), ("b", 2.into())]),
            negated(),
            none,
            all(),
            Ok(by_key([("a", (-1).into()), ("b", (-2).into())])),
        ),
        (
            "entries removed",
            by_key([("a", 1.into()), ("b", 2.into())]),
            cut(),
            none,
            all(),
            Ok(by_key([("a", 1.into())])),
        ),
        (
            "by key, inside",
            shop(),
            int_val(0),
            none,
            vec![
                ctx::map_key("books").into(),
                ctx::list_index(0).into(),
                ctx::map_key("price").into(),
            ],
            Ok(by_key([
                (
                    "books",
                    list([
                        by_key([("price", 0.into()), ("title", "a".into())]),
                        by_key([("price", 12.into()), ("title", "b".into())]),
                        by_key([("price", 20.into()), ("title", "c".into())]),
                    ]),
                ),
                ("open", true.into()),
            ])),
        ),
        (
            "by a list",
            ints([1, 2]),
            val(ints([7])),
            none,
            all(),
            Ok(list([ints([7]), ints([7])])),
        ),
        (
            "by the key",
            by_key([("a", 1.into())]),
            loop_var(LoopVariable::Key, ExpType::String),
            none,
            all(),
            Ok(by_key([("a", "a".into())])),
        ),
        (
            "by the position",
            ints([7, 7]),
            loop_var(LoopVariable::Index, ExpType::Int),
            none,
            all(),
            Ok(ints([0, 1])),
        ),
        (
            "an unknown value",
            mixed(),
            negated(),
            none,
            all(),
            Err(MALFORMED),
        ),
        (
            "an unknown value, forgiven",
            mixed(),
            negated(),
            no_fail,
            all(),
            Ok(list([(-1).into(), "x".into(), (-3).into()])),
        ),
        (
            "what cannot be stored",
            ints([1]),
            val(list([Value::Wildcard])),
            none,
            all(),
            Err(WRONG_TYPE),
        ),
        (
            "a malformed expression",
            ints([1]),
            eq(1, "x"),
            none,
            all(),
            Err(PARAMETER),
        ),
        (
            "an empty list",
            ints([]),
            negated(),
            none,
            all(),
            Ok(ints([])),
        ),
    ];
    for (what, start, value, flags, steps, expected) in table {
        let set = record();
        set.put(KEY, [("c", start.clone())]).unwrap();
        let write = operations::paths::modify_by_path("c", value.clone(), flags, steps.clone());
        let got = match set.operate(KEY, &[write]) {
            Ok(done) => {
                assert_eq!(done.results, [], "{what}");
                Ok(set.get(KEY).unwrap().unwrap().get("c").unwrap())
            }
            Err(error) => Err(error.result_code()),
        };
        assert_eq!(got, expected, "{what}");
        // The same change as an expression: a failure that a value causes is an unknown value.
        set.put(KEY, [("c", start.clone())]).unwrap();
        let (kind, bin) = match start {
            Value::Map(_) => (ExpType::Map, map_bin("c")),
            _ => (ExpType::List, list_bin("c")),
        };
        let call = modify_by_path(kind, value, flags, bin, steps);
        let expected = match expected {
            Ok(value) => is(value),
            Err(PARAMETER) if call.check().is_err() => Refused,
            Err(_) => Unknown,
        };
        assert_eq!(evaluate(&set, call), expected, "{what}");
    }
    let set = record();
    let missing = operations::paths::modify_by_path("missing", 1, none, all());
    assert_eq!(
        set.operate(KEY, &[missing]).unwrap_err().result_code(),
        WRONG_TYPE
    );
}

#[test]
fn a_persisted_index_survives_a_path() {
    let set = record();
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index(true);
    let items: Vec<Value> = (0..300).map(Value::from).collect();
    let negated = num_sub([value_int()]);
    set.operate(
        KEY,
        &[
            operations::lists::append_items(&policy, "p", items),
            operations::paths::modify_by_path("p", negated, PathFlags::empty(), [PathStep::all()]),
            operations::lists::append(&policy, "p", -5_000),
        ],
    )
    .unwrap();
    let get = |index| operations::lists::get_by_index("p", index, ListReturnType::Values);
    for (index, expected) in [(0, -5_000), (1, -299), (150, -150), (300, 0)] {
        let done = set.operate(KEY, &[get(index)]).unwrap();
        assert_eq!(done.bin("p"), Some(&expected.into()));
    }
}

#[test]
fn an_index_beyond_all_numbers_finds_nothing() {
    for kind in [0x10, 0x11] {
        let big = [0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0];
        let path = [&[0x93, 0xcc, 0xfe, 0x92, kind][..], &big, &[1]].concat();
        let list = [0x93, 81, 4, 0xa1, b'l'];
        let bytes = [&[0x95, 127, 4, 0][..], &path, &list].concat();
        let select = Expression::from_bytes(&bytes).unwrap();
        assert_eq!(evaluate(&record(), select), is(ints([])), "{kind:#x}");
    }
}
