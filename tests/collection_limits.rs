//! No call, however short, makes more than a collection can hold or nests deeper than the limit; a
//! refused one changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use spikelet::expressions::{self as exp, ExpReadFlags, ExpType, LoopVariable, PathResult};
use spikelet::expressions::{PathFlags, PathStep, blob_val, list_val, loop_var};
use spikelet::operations::bits::{self, BitPolicy, BitResizeFlags};
use spikelet::operations::{self, ctx, lists, maps, paths};
use spikelet::value::List;
use spikelet::{Error, Expression, ListOrder, ListPolicy, ListReturnType, MapOrder, MapPolicy};
use spikelet::{MapReturnType, MapWriteFlags, Operation, Set, Store, Value, bins};

const PARAMETER: u8 = 4;
const TOO_BIG: u8 = 13;
const NOT_APPLICABLE: u8 = 26;

/// The longest list, map or blob that an operation makes.
const COLLECTION_BYTES: usize = 8 << 20;

/// Lists and maps nest this deep at most.
const LEVELS: usize = 128;

fn set_with(value: impl Into<Value>) -> Set {
    let set = Store::in_memory().unwrap().set("limits").unwrap();
    set.put("key", [("l", value.into())]).unwrap();
    set
}

fn refused(set: &Set, operation: Operation) -> u8 {
    let before = set.get("key").unwrap();
    let error = set.operate("key", &[operation]).unwrap_err();
    assert_eq!(set.get("key").unwrap(), before, "{error}");
    error.result_code()
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::from(1), |inner, _| Value::List(vec![inner].into()))
}

#[test]
fn an_expression_applied_to_every_element_stops_at_the_size_of_a_collection() {
    let set = set_with(Value::List((0..100).collect()));
    let large = blob_val(vec![7_u8; 200_000]);
    let apply = paths::modify_by_path("l", large, PathFlags::empty(), [PathStep::all()]);
    assert_eq!(refused(&set, apply), TOO_BIG);
}

#[test]
fn values_that_repeat_stop_at_the_size_of_a_collection() {
    let equal = vec![Value::from(1); 10_000];
    let set = set_with(List::new(equal.clone(), ListOrder::Ordered));
    let of = |times: usize| {
        let values = equal[..times].to_vec();
        lists::get_by_value_list("l", values, ListReturnType::Count)
    };
    let few = set.operate("key", &[of(2)]).unwrap();
    assert_eq!(few.bin("l"), Some(&10_000.into()));
    assert_eq!(refused(&set, of(1_000)), TOO_BIG);
}

#[test]
fn large_values_that_repeat_stop_at_the_size_of_a_collection() {
    let large = || Value::Blob(vec![7; 100_000]);
    let set = set_with(List::new(vec![large()], ListOrder::Ordered));
    let policy = MapPolicy::new(MapOrder::KeyValueOrdered, MapWriteFlags::empty());
    let entries = vec![(1.into(), large()), (2.into(), Value::Nil)];
    let with_ranks = maps::put_items(&policy.persist_index(true), "m", entries);
    set.operate("key", &[with_ranks]).unwrap();
    let anything = |times| vec![Value::Wildcard; times];
    let count = lists::get_by_value_list("l", anything(100), ListReturnType::Count);
    let count = set.operate("key", &[count]).unwrap();
    assert_eq!(count.bin("l"), Some(&1.into()));
    let few = lists::get_by_value_list("l", anything(3), ListReturnType::Values);
    let few = set.operate("key", &[few]).unwrap();
    assert_eq!(few.bin("l"), Some(&Value::List(vec![large(); 3].into())));
    for operation in [
        lists::get_by_value_list("l", anything(100), ListReturnType::Values),
        lists::remove_by_value_list("l", anything(100), ListReturnType::Values),
        maps::get_by_value_list("m", anything(100), MapReturnType::Value),
        maps::remove_by_value_list("m", anything(100), MapReturnType::KeyValue),
    ] {
        assert_eq!(refused(&set, operation), TOO_BIG);
    }
}

/// An expression of a few bytes that makes a list of nil values.
fn nils(count: i64) -> Expression {
    exp::lists::insert(
        &ListPolicy::default(),
        count - 1,
        exp::nil(),
        exp::nil(),
        &[],
    )
}

#[test]
fn what_an_expression_makes_is_bounded_in_all() {
    let set = set_with(1);
    let large = COLLECTION_BYTES as i64 - 16;
    let names: Vec<String> = (0..20).map(|at| format!("v{at}")).collect();
    let of = |times: usize| {
        let lists = names
            .iter()
            .take(times)
            .map(|name| exp::def(name, nils(large)));
        let value = exp::lists::size(exp::var("v0"), &[]);
        operations::exp::read("r", exp::exp_let(lists, value), ExpReadFlags::empty())
    };
    let few = set.operate("key", &[of(3)]).unwrap();
    assert_eq!(few.bin("r"), Some(&large.into()));
    assert_eq!(refused(&set, of(20)), NOT_APPLICABLE);

    let same = exp::and((0..20).map(|_| exp::gt(exp::lists::size(nils(large), &[]), 0)));
    let same = operations::exp::read("r", same, ExpReadFlags::empty());
    assert_eq!(refused(&set, same), NOT_APPLICABLE);
}

#[test]
fn lists_that_an_expression_looks_through_are_bounded_in_all() {
    let large = Value::Blob(vec![7; 100_000]);
    let set = set_with(List::from(vec![large; 10]));
    let look = |times| {
        let found = exp::or((0..times).map(|at| exp::in_list(at, exp::list_bin("l"))));
        operations::exp::read("r", found, ExpReadFlags::empty())
    };
    let few = set.operate("key", &[look(100)]).unwrap();
    assert_eq!(few.bin("r"), Some(&false.into()));
    assert_eq!(refused(&set, look(2_000)), NOT_APPLICABLE);
}

#[test]
fn bins_and_texts_that_an_expression_compares_are_bounded_in_all() {
    let set = set_with(1);
    let (text, blob) = ("a".repeat(300_000), vec![7_u8; 300_000]);
    set.put(
        "key",
        bins! { "text" => text.as_str(), "b" => blob.as_slice(), "c" => blob.as_slice() },
    )
    .unwrap();
    let equal = || exp::eq(exp::blob_bin("b"), exp::blob_bin("c"));
    let pattern = format!("^(a|{})*$", "b".repeat(160));
    let flags = exp::RegexFlags::EXTENDED;
    let matched = || exp::regex_compare(&pattern, flags, exp::string_bin("text"));
    let repeated = || exp::regex_compare("^(b{160}|a)*$", flags, exp::string_bin("text"));
    for one in [&equal as &dyn Fn() -> Expression, &matched, &repeated] {
        let look = |times| {
            let all = exp::and((0..times).map(|_| one()));
            operations::exp::read("r", all, ExpReadFlags::empty())
        };
        let few = set.operate("key", &[look(10)]).unwrap();
        assert_eq!(few.bin("r"), Some(&true.into()));
        assert_eq!(refused(&set, look(3_000)), NOT_APPLICABLE);
    }
}

#[test]
fn conditions_of_a_path_are_bounded_in_all() {
    let all = set_with(Value::List((0..300).collect()));
    let few = set_with(Value::List((0..3).collect()));
    let select = |condition| {
        let steps = [PathStep::matching(condition)];
        paths::select_by_path("l", PathResult::Values, PathFlags::empty(), steps)
    };
    // Each element makes a megabyte.
    let makes = exp::gt(exp::lists::size(nils(1 << 20), &[]), 0);
    // Each element asks a path for all elements of a list, and each of these looks through 100 kB.
    let sought = exp::ne(blob_val(vec![7; 100_000]), blob_val(vec![]));
    let numbers = list_val((0..300).collect::<List>());
    let flags = PathFlags::empty();
    let steps = [PathStep::matching(sought)];
    let nested = exp::select_by_path(ExpType::List, PathResult::Values, flags, numbers, steps);
    let nested = exp::gt(exp::lists::size(nested, &[]), 0);
    for condition in [makes, nested] {
        let found = few.operate("key", &[select(condition.clone())]).unwrap();
        assert_eq!(found.bin("l"), Some(&Value::List((0..3).collect())));
        assert_eq!(refused(&all, select(condition)), PARAMETER);
    }
}

#[test]
fn elements_that_a_condition_compares_are_bounded_in_all() {
    let element = Value::Blob(vec![7; 300_000]);
    let set = set_with(List::from(vec![element.clone()]));
    let value = || loop_var(LoopVariable::Value, ExpType::Blob);
    let select = |times| {
        let equal = exp::and((0..times).map(|_| exp::eq(value(), value())));
        let steps = [PathStep::matching(equal)];
        paths::select_by_path("l", PathResult::Values, PathFlags::empty(), steps)
    };
    let few = set.operate("key", &[select(10)]).unwrap();
    assert_eq!(few.bin("l"), Some(&Value::List(vec![element].into())));
    assert_eq!(refused(&set, select(3_000)), PARAMETER);
}

#[test]
fn a_path_within_paths_has_as_many_levels_as_a_value() {
    let set = set_with(nested(LEVELS));
    // Each of the paths goes on at the element that the one before has reached.
    let path = |levels: usize, last: PathStep| {
        let above = (1..levels).map(|_| PathStep::from(ctx::list_index(0)));
        above.chain([last]).collect::<Vec<_>>()
    };
    let within = |on: Expression, steps: Vec<PathStep>| {
        let (result, flags) = (PathResult::Values, PathFlags::empty());
        let found = exp::select_by_path(ExpType::List, result, flags, on, steps);
        PathStep::matching(exp::gt(exp::lists::size(found, &[]), 0))
    };
    let value = || loop_var(LoopVariable::Value, ExpType::List);
    let select = |last_levels: usize, flags: PathFlags| {
        let literal = list_val(match nested(last_levels) {
            Value::List(list) => list,
            other => panic!("{other:?}"),
        });
        let third = within(literal, path(last_levels, PathStep::all()));
        let second = within(value(), path(60, third));
        paths::select_by_path("l", PathResult::Values, flags, path(60, second))
    };
    for flags in [PathFlags::empty(), PathFlags::NO_FAIL] {
        assert!(set.operate("key", &[select(LEVELS - 120, flags)]).is_ok());
        assert_eq!(refused(&set, select(LEVELS - 119, flags)), PARAMETER);
    }
}

#[test]
fn paths_nested_in_conditions_as_deep_as_possible_need_little_stack() {
    let set = set_with(nested(64));
    let one = || list_val([1].into_iter().collect::<List>());
    let within = |condition: Expression| {
        let (result, flags) = (PathResult::Values, PathFlags::empty());
        let steps = [PathStep::matching(condition)];
        let found = exp::select_by_path(ExpType::List, result, flags, one(), steps);
        exp::gt(exp::lists::size(found, &[]), 0)
    };
    let true_value = || exp::eq(exp::int_val(1), 1);
    let deepest = std::iter::successors(Some(true_value()), |inner| Some(within(inner.clone())))
        .take_while(|condition| condition.check().is_ok())
        .last()
        .unwrap();
    let path = (1..64).map(|_| PathStep::from(ctx::list_index(0)));
    let path = path.chain([PathStep::matching(deepest)]);
    let select = paths::select_by_path("l", PathResult::Values, PathFlags::empty(), path);
    let found = set.operate("key", &[select]).unwrap();
    assert_eq!(found.bin("l"), Some(&Value::List(vec![1.into()].into())));
}

#[test]
fn operations_together_make_little_more_than_a_record_can_hold() {
    let set = set_with(1);
    let resize = |at| {
        let (policy, flags) = (BitPolicy::default(), BitResizeFlags::empty());
        bits::resize(&policy, &format!("b{at}"), COLLECTION_BYTES as u64, flags)
    };
    let operations: Vec<Operation> = (0..20).map(resize).collect();
    let before = set.get("key").unwrap();
    match set.operate("key", &operations).unwrap_err() {
        Error::RecordTooBig { size, .. } => assert!(size < 6 * COLLECTION_BYTES as u64, "{size}"),
        other => panic!("{other}"),
    }
    assert_eq!(set.get("key").unwrap(), before);
    // Removed bins do not count.
    let resize_and_remove = |at| [resize(at), operations::delete_bin(&format!("b{at}"))];
    let removed: Vec<Operation> = (0..20).flat_map(resize_and_remove).collect();
    set.operate("key", &removed).unwrap();
}

#[test]
fn a_pattern_repeats_a_repetition_only_so_often() {
    for pattern in ["a".to_owned() + &"*".repeat(30_000), "(".repeat(30_000)] {
        let matched = exp::regex_compare(&pattern, exp::RegexFlags::EXTENDED, "a");
        let refused = matched.check().unwrap_err();
        assert_eq!(refused.result_code(), PARAMETER);
        let refused = refused.to_string();
        assert!(refused.contains("deeper than 64"), "{}", &refused[..100]);
    }
}

#[test]
fn what_is_put_below_a_path_counts_the_levels_above_it() {
    let policy = ListPolicy::default();
    let set = set_with(nested(2));
    let below = |value| lists::append(&policy, "l", value).in_context([ctx::list_index(0)]);
    set.operate("key", &[below(nested(LEVELS - 2))]).unwrap();
    assert_eq!(refused(&set, below(nested(LEVELS - 1))), PARAMETER);
    // The whole value can still be read.
    assert!(set.get("key").unwrap().unwrap().get("l").is_some());
}
