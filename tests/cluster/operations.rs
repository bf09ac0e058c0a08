//! Every operation has the same effect through a cluster as embedded.

use spikelet::expressions::{ExpReadFlags, ExpWriteFlags};
use spikelet::expressions::{PathFlags, PathResult, PathStep};
use spikelet::operations::bits::{self, BitOverflow, BitPolicy, BitResizeFlags, BitSign};
use spikelet::operations::ctx::{self, ListPad};
use spikelet::operations::exp;
use spikelet::operations::hll::{self, HllPolicy};
use spikelet::operations::lists::ListSortFlags;
use spikelet::operations::paths;
use spikelet::operations::{self as ops, lists, maps};
use spikelet::value::{List, Map};
use spikelet::{
    Error, ListOrder, ListPolicy, ListReturnType as L, ListWriteFlags, MapOrder, MapPolicy,
    MapReturnType as M, MapWriteFlags, Operation, RecordSet, Value, WritePolicy, expressions,
};

use crate::common::Both;

fn ints(numbers: &[i64]) -> Vec<Value> {
    numbers.iter().copied().map(Value::from).collect()
}

fn list(order: ListOrder) -> Value {
    List::new(ints(&[1, 3, 5, 7, 7, 9]), order).into()
}

fn map(order: MapOrder) -> Value {
    let entries = [("a", 5), ("b", 3), ("c", 1), ("d", 9), ("e", 3)];
    let entries = entries.map(|(key, value)| (Value::from(key), Value::from(value)));
    Map::new(entries.into(), order).into()
}

/// Applies each operation alone to a record of its own with the same start, and compares the
/// records.
fn check(both: &Both, start: impl Fn() -> Vec<Operation>, operations: Vec<Operation>) {
    for (at, operation) in operations.into_iter().enumerate() {
        let key = format!("{at}");
        both.agree("start", &key, &start());
        let what = format!("{operation:?}");
        both.agree(&what, &key, &[operation]);
        both.same_record(&what, &key);
        both.agree("end", &key, &[ops::delete_all_bins()]);
    }
}

#[test]
fn scalars_and_values_of_all_types() {
    let both = Both::new();
    let nested = Value::from(vec![
        Value::Nil,
        true.into(),
        1.5.into(),
        "text".into(),
        Value::Blob(vec![0, 255]),
        Value::from(vec![1, 2]),
        map(MapOrder::KeyOrdered),
        map(MapOrder::Unordered),
    ]);
    let values: Vec<Value> = vec![
        i64::MIN.into(),
        (-1).into(),
        1.5.into(),
        true.into(),
        "h\u{e9}llo".into(),
        Value::Blob(vec![0, 255]),
        Value::GeoJson(r#"{"type":"Point","coordinates":[1.0,2.0]}"#.into()),
        nested,
        list(ListOrder::Ordered),
        map(MapOrder::KeyValueOrdered),
        Value::Nil,
    ];
    let operations = values.into_iter().map(|value| ops::put("bin", value));
    let start = || vec![ops::put("other", 1), ops::put("bin", "x")];
    check(&both, start, operations.collect());
    let start = || {
        vec![
            ops::put("n", 1),
            ops::put("f", 1.5),
            ops::put("s", "b"),
            ops::put("b", Value::Blob(vec![1])),
        ]
    };
    let operations = vec![
        ops::add("n", -5),
        ops::add("f", 0.5),
        ops::add("new", 3),
        ops::add("s", 1),
        ops::append("s", "c"),
        ops::prepend("s", "a"),
        ops::append("b", Value::Blob(vec![2])),
        ops::append("n", "x"),
        ops::touch(),
        ops::delete_bin("n"),
        ops::delete_bin("none"),
        ops::delete_all_bins(),
        ops::get(),
        ops::get_bin("none"),
    ];
    check(&both, start, operations);
    both.agree("a missing record", "missing", &[ops::get_bin("n")]);
    both.agree("a touch of none", "missing", &[ops::touch()]);
}

#[test]
fn several_operations_answer_in_their_places() {
    let both = Both::new();
    let operations = [
        ops::get_bin("none"),
        ops::put("a", 1),
        ops::get_bin("a"),
        ops::add("a", 1),
        ops::get_bin("a"),
        lists::append(&ListPolicy::default(), "l", 1),
        lists::clear("l"),
        lists::append(&ListPolicy::default(), "l", 2),
        lists::size("none"),
        lists::size("l"),
        ops::touch(),
        ops::get_bin("l"),
    ];
    both.agree("several", "a", &operations);
    both.agree("several again", "a", &operations);
    let reads = [
        ops::get_bin("none"),
        lists::get("l", 0),
        ops::get_bin("a"),
        lists::size("none"),
        lists::get("l", 1),
    ];
    both.agree("reads", "a", &reads);
}

#[test]
fn operations_that_write_lists() {
    let both = Both::new();
    for order in [ListOrder::Unordered, ListOrder::Ordered] {
        let plain = ListPolicy::new(order, ListWriteFlags::empty());
        let unique = ListPolicy::new(order, ListWriteFlags::ADD_UNIQUE);
        let gentle = ListPolicy::new(
            order,
            ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL | ListWriteFlags::DO_PARTIAL,
        );
        let operations = vec![
            lists::create("new", order),
            lists::create_persistent("new", order),
            lists::set_order("bin", ListOrder::Ordered),
            lists::append(&plain, "bin", 4),
            lists::append(&plain, "new", 4),
            lists::append(&unique, "bin", 7),
            lists::append(&gentle, "bin", 7),
            lists::append_items(&plain, "bin", ints(&[2, 8])),
            lists::append_items(&gentle, "bin", ints(&[2, 7])),
            lists::append(&plain, "bin", map(MapOrder::KeyOrdered)),
            lists::insert(&plain, "bin", 1, 4),
            lists::insert_items(&plain, "bin", -1, ints(&[4, 6])),
            lists::set(&plain, "bin", 0, 0),
            lists::set(&gentle, "bin", 0, 9),
            lists::increment(&plain, "bin", 1, 1),
            lists::increment(&ListPolicy::default(), "bin", 1, 5),
            lists::pop("bin", -1),
            lists::pop("bin", 99),
            lists::pop_range("bin", 1, 2),
            lists::pop_range_from("bin", 4),
            lists::remove("bin", 0),
            lists::remove_range("bin", 1, 2),
            lists::remove_range_from("bin", 3),
            lists::trim("bin", 1, 3),
            lists::clear("bin"),
            lists::sort("bin", ListSortFlags::DROP_DUPLICATES),
            lists::sort("bin", ListSortFlags::empty()),
            lists::append(&plain, "text", 1),
        ];
        let start = || vec![ops::put("bin", list(order)), ops::put("text", "x")];
        check(&both, start, operations);
    }
}

#[test]
fn selections_of_lists() {
    let both = Both::new();
    let some = |number: i64| Some(Value::from(number));
    for order in [ListOrder::Unordered, ListOrder::Ordered] {
        for returns in [L::None, L::Values, L::Index, L::Rank, L::Count, L::Exists] {
            let mut operations = Vec::new();
            macro_rules! both_ways {
                ($($get:ident $remove:ident ($($argument:expr),*);)*) => {
                    $(
                        operations.push(lists::$get("bin", $($argument,)* returns));
                        operations.push(lists::$remove("bin", $($argument,)* returns));
                    )*
                };
            }
            both_ways! {
                get_by_index remove_by_index (-2);
                get_by_index_range remove_by_index_range (2);
                get_by_index_range_count remove_by_index_range_count (1, 2);
                get_by_rank remove_by_rank (0);
                get_by_rank_range remove_by_rank_range (3);
                get_by_rank_range_count remove_by_rank_range_count (1, 2);
                get_by_value remove_by_value (7);
                get_by_value_list remove_by_value_list (ints(&[1, 7, 8]));
                get_by_value_range remove_by_value_range (some(3), some(8));
                get_by_value_range remove_by_value_range (None, some(5));
                get_by_value_range remove_by_value_range (some(5), None);
                get_by_value_relative_rank_range remove_by_value_relative_rank_range (5, -1);
                get_by_value_relative_rank_range_count remove_by_value_relative_rank_range_count (5, 0, 2);
            }
            operations.push(lists::get("bin", 1));
            operations.push(lists::get_range("bin", 1, 2));
            operations.push(lists::get_range_from("bin", 3));
            operations.push(lists::size("bin"));
            let start = || vec![ops::put("bin", list(order))];
            check(&both, start, operations);
        }
    }
}

#[test]
fn operations_that_write_maps() {
    let both = Both::new();
    let entries = || vec![("b".into(), 8.into()), ("z".into(), Value::Nil)];
    for order in [
        MapOrder::Unordered,
        MapOrder::KeyOrdered,
        MapOrder::KeyValueOrdered,
    ] {
        let plain = MapPolicy::new(order, MapWriteFlags::empty());
        let create = MapPolicy::new(order, MapWriteFlags::CREATE_ONLY);
        let update = MapPolicy::new(order, MapWriteFlags::UPDATE_ONLY | MapWriteFlags::NO_FAIL);
        let operations = vec![
            maps::create("new", order),
            maps::create_persistent("new", order),
            maps::set_order("bin", order),
            maps::put(&plain, "bin", "f", 1),
            maps::put(&plain, "new", 7, "seven"),
            maps::put(&plain, "bin", "a", Value::Nil),
            maps::put(&create, "bin", "a", Value::Nil),
            maps::put(&create, "bin", "f", Value::Nil),
            maps::put(&update, "bin", "f", 1),
            maps::put(&plain.persist_index(true), "new", "f", 1),
            maps::put_items(&plain, "bin", entries()),
            maps::put_items(&update, "bin", entries()),
            maps::increment_value(&plain, "bin", "a", 3),
            maps::decrement_value(&plain, "bin", "a", 3),
            maps::increment_value(&plain, "bin", "new", 1.5),
            maps::clear("bin"),
            maps::size("bin"),
            maps::put(&plain, "text", "f", 1),
        ];
        let start = || vec![ops::put("bin", map(order)), ops::put("text", "x")];
        check(&both, start, operations);
    }
}

#[test]
fn selections_of_maps() {
    let both = Both::new();
    let text = |text: &str| Some(Value::from(text));
    let some = |number: i64| Some(Value::from(number));
    let keys = || vec!["a".into(), "x".into(), "d".into()];
    for order in [MapOrder::KeyOrdered, MapOrder::KeyValueOrdered] {
        for returns in [
            M::None,
            M::Key,
            M::Value,
            M::Index,
            M::Rank,
            M::Count,
            M::Exists,
        ] {
            let mut operations = Vec::new();
            macro_rules! both_ways {
                ($($get:ident $remove:ident ($($argument:expr),*);)*) => {
                    $(
                        operations.push(maps::$get("bin", $($argument,)* returns));
                        operations.push(maps::$remove("bin", $($argument,)* returns));
                    )*
                };
            }
            both_ways! {
                get_by_key remove_by_key ("c");
                get_by_key_list remove_by_key_list (keys());
                get_by_key_range remove_by_key_range (text("b"), text("d"));
                get_by_key_range remove_by_key_range (text("b"), None);
                get_by_key_relative_index_range remove_by_key_relative_index_range ("c", -1);
                get_by_key_relative_index_range_count remove_by_key_relative_index_range_count ("c", 1, 1);
                get_by_index remove_by_index (1);
                get_by_index_range remove_by_index_range (3);
                get_by_index_range_count remove_by_index_range_count (1, 2);
                get_by_rank remove_by_rank (-1);
                get_by_rank_range remove_by_rank_range (3);
                get_by_rank_range_count remove_by_rank_range_count (0, 2);
                get_by_value remove_by_value (3);
                get_by_value_list remove_by_value_list (ints(&[1, 3]));
                get_by_value_range remove_by_value_range (some(2), some(6));
                get_by_value_range remove_by_value_range (None, some(4));
                get_by_value_relative_rank_range remove_by_value_relative_rank_range (4, -1);
                get_by_value_relative_rank_range_count remove_by_value_relative_rank_range_count (4, 0, 1);
            }
            let start = || vec![ops::put("bin", map(order))];
            check(&both, start, operations);
        }
    }
    both.agree("start", "kv", &[ops::put("bin", map(MapOrder::KeyOrdered))]);
    for returns in [M::KeyValue, M::OrderedMap, M::UnorderedMap] {
        let read = [maps::get_by_key_range("bin", text("b"), None, returns)];
        both.agree(&format!("{returns:?}"), "kv", &read);
    }
}

#[test]
fn contexts_lead_into_nested_lists_and_maps() {
    let both = Both::new();
    let start = || {
        let inner = Map::new(
            vec![("l".into(), list(ListOrder::Unordered))],
            MapOrder::KeyOrdered,
        );
        vec![
            ops::put("bin", Value::from(vec![Value::Map(inner), 7.into()])),
            ops::put("map", map(MapOrder::KeyOrdered)),
        ]
    };
    let plain = ListPolicy::default();
    let into = || [ctx::list_index(0), ctx::map_key("l")];
    let operations = vec![
        lists::append(&plain, "bin", 8).in_context(into()),
        lists::get_by_rank("bin", -1, L::Values).in_context(into()),
        lists::size("bin").in_context([ctx::list_rank(-1), ctx::map_index(0)]),
        lists::size("bin").in_context([ctx::list_rank(-1), ctx::map_rank(0)]),
        lists::remove_by_value("bin", 7, L::Count).in_context(into()),
        lists::create("map", ListOrder::Ordered).in_context([ctx::map_key("new")]),
        lists::append(&plain, "map", 1).in_context([
            ctx::map_key_create("x", MapOrder::KeyOrdered),
            ctx::map_key("y"),
        ]),
        lists::append(&plain, "bin", 1).in_context([ctx::list_index_create(
            4,
            ListOrder::Unordered,
            ListPad::Padded,
        )]),
        maps::put(&MapPolicy::default(), "bin", "k", 1).in_context([ctx::list_index(0)]),
        maps::size("bin").in_context([ctx::list_index(9)]),
        paths::select_by_path(
            "map",
            PathResult::Values,
            PathFlags::empty(),
            [PathStep::all()],
        ),
        paths::modify_by_path("map", 1, PathFlags::empty(), [PathStep::all()]),
    ];
    check(&both, start, operations);
}

#[test]
fn bits_sketches_and_expressions() {
    let both = Both::new();
    let (policy, unset) = (BitPolicy::default(), BitResizeFlags::empty());
    let start = || vec![ops::put("bin", Value::Blob(vec![0b1010_0101, 7, 255]))];
    let operations = vec![
        bits::resize(&policy, "bin", 5, unset),
        bits::resize(&policy, "bin", 4, BitResizeFlags::FROM_FRONT),
        bits::insert(&policy, "bin", 1, vec![9, 9]),
        bits::remove(&policy, "bin", 0, 1),
        bits::set(&policy, "bin", 4, 8, vec![0xf0]),
        bits::or(&policy, "bin", 4, 8, vec![0xf0]),
        bits::xor(&policy, "bin", 4, 8, vec![0xf0]),
        bits::and(&policy, "bin", 4, 8, vec![0xf0]),
        bits::not(&policy, "bin", 3, 9),
        bits::lshift(&policy, "bin", 0, 24, 3),
        bits::rshift(&policy, "bin", 0, 24, 3),
        bits::add(
            &policy,
            "bin",
            0,
            8,
            200,
            BitSign::Unsigned,
            BitOverflow::Wrap,
        ),
        bits::add(
            &policy,
            "bin",
            0,
            8,
            200,
            BitSign::Unsigned,
            BitOverflow::Fail,
        ),
        bits::subtract(
            &policy,
            "bin",
            8,
            8,
            9,
            BitSign::Signed,
            BitOverflow::Saturate,
        ),
        bits::set_int(&policy, "bin", 8, 8, 77),
        bits::get("bin", 4, 8),
        bits::count("bin", 0, 24),
        bits::lscan("bin", 0, 24, false),
        bits::rscan("bin", 0, 24, true),
        bits::get_int("bin", 16, 8, BitSign::Signed),
        bits::get_int("bin", 16, 8, BitSign::Unsigned),
    ];
    check(&both, start, operations);

    let policy = HllPolicy::default();
    let start = || {
        vec![hll::add_with_index_bits(
            &policy,
            "bin",
            ints(&[1, 2, 3]),
            8,
        )]
    };
    let operations = vec![
        hll::init(&policy, "new", 8),
        hll::init_with_min_hash(&policy, "new", 8, 10),
        hll::add(&policy, "bin", ints(&[3, 4])),
        hll::add_with_min_hash(&policy, "new", ints(&[1]), 8, 8),
        hll::refresh_count("bin"),
        hll::fold("bin", 4),
        hll::get_count("bin"),
        hll::describe("bin"),
    ];
    check(&both, start, operations);

    let start = || vec![ops::put("n", 4), ops::put("s", "x")];
    let twice = || expressions::num_mul([expressions::int_bin("n"), 2.into()]);
    let operations = vec![
        exp::read("out", twice(), ExpReadFlags::empty()),
        exp::write("n", twice(), ExpWriteFlags::empty()),
        exp::write("n", twice(), ExpWriteFlags::CREATE_ONLY),
        exp::write("new", twice(), ExpWriteFlags::UPDATE_ONLY),
        exp::read(
            "out",
            expressions::int_bin("none"),
            ExpReadFlags::EVAL_NO_FAIL,
        ),
        exp::read("out", expressions::int_bin("none"), ExpReadFlags::empty()),
    ];
    check(&both, start, operations);
}

#[test]
fn what_the_client_cannot_carry_is_refused_before_it_is_sent() {
    let both = Both::new();
    let ordered = list(ListOrder::Ordered);
    for (operation, says) in [
        (
            lists::append(&ListPolicy::default(), "b", ordered),
            "an ordered list inside",
        ),
        (
            lists::append(&ListPolicy::default(), "b", map(MapOrder::KeyValueOrdered)),
            "ordered by value",
        ),
        (
            lists::increment(&ListPolicy::default(), "b", 0, 1.5),
            "by a float",
        ),
        (
            lists::get_by_value_range("b", None, Some(Value::Nil), L::Values),
            "ends at nil",
        ),
        (
            lists::remove_by_value("b", u64::MAX, L::Count),
            "above i64::MAX",
        ),
        (
            lists::remove_by_value_range("b", Some(u64::MAX.into()), None, L::Count),
            "above i64::MAX",
        ),
        (
            lists::get_by_value_range("b", None, Some(u64::MAX.into()), L::Values),
            "above i64::MAX",
        ),
        (
            lists::get_by_value_list("b", vec![1.into(), u64::MAX.into()], L::Values),
            "above i64::MAX",
        ),
        (
            lists::get_by_value("b", vec![Value::from(u64::MAX)], L::Values),
            "above i64::MAX",
        ),
        (
            maps::remove_by_key("b", u64::MAX, M::Count),
            "above i64::MAX",
        ),
        (
            lists::size("b").in_context([ctx::list_value(u64::MAX)]),
            "above i64::MAX",
        ),
        (
            hll::may_contain("b", ints(&[1])),
            "operation 56 on sketches",
        ),
    ] {
        let refused = both
            .cluster
            .operate_on(&WritePolicy::default(), &"k".into(), &[operation])
            .unwrap_err();
        assert!(matches!(refused, Error::Parameter(_)), "{refused:?}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}
