//! Sequences on which store and model once disagreed, as short as they were shrunk to.

use spikelet::{ListOrder, MapOrder, Store, Value};

use super::model::call::{
    Call, ListCreation, ListOperation, ListPolicy, ListSelector, MapOperation, MapPolicy,
    MapSelector, Operation, Return, ReturnKind, Step,
};
use super::side_by_side;

const PLAIN: ListPolicy = ListPolicy {
    order: ListOrder::Unordered,
    persist: false,
    flags: 0,
};

fn check<const N: usize>(start: impl Into<Value>, calls: [Call; N]) {
    let set = Store::in_memory().unwrap().set("found").unwrap();
    side_by_side::compare(&set, &start.into(), &calls).unwrap_or_else(|error| panic!("{error}"));
}

fn on_list(operation: ListOperation) -> Call {
    Call {
        path: Vec::new(),
        operation: Operation::List(operation),
    }
}

fn on_map(operation: MapOperation) -> Call {
    Call {
        path: Vec::new(),
        operation: Operation::Map(operation),
    }
}

fn below<const N: usize>(path: [Step; N], mut call: Call) -> Call {
    call.path = path.into();
    call
}

fn returns(kind: ReturnKind) -> Return {
    Return {
        kind,
        inverted: false,
    }
}

fn others(kind: ReturnKind) -> Return {
    Return {
        kind,
        inverted: true,
    }
}

fn list<const N: usize>(items: [Value; N]) -> Value {
    Vec::from(items).into()
}

fn map<const N: usize>(entries: [(Value, Value); N]) -> Value {
    Vec::from(entries).into()
}

#[test]
fn an_index_of_a_map_creates_nothing_below_a_step_that_does() {
    let set_nil = on_list(ListOperation::Set(PLAIN, 0, Value::Nil));
    let key = Step::MapKey(0.into(), Some(MapOrder::Unordered));
    check(map([]), [below([key, Step::MapIndex(0)], set_nil)]);

    let set_type = on_map(MapOperation::SetType {
        order: MapOrder::Unordered,
        persist: false,
    });
    let index = Step::ListIndex(0, Some(ListCreation::Unordered));
    let start = spikelet::value::List::new(Vec::new(), ListOrder::Ordered);
    check(start, [below([index, Step::MapIndex(0)], set_type)]);
}

#[test]
fn an_interval_may_begin_with_a_wildcard() {
    let range = |end: Value| (Some(Value::Wildcard), Some(end));
    let (begin, end) = range(false.into());
    let selector = ListSelector::ValueRange(begin, end);
    let get = ListOperation::GetBy(selector, returns(ReturnKind::Index));
    check(list([Value::Nil]), [on_list(get)]);

    let (begin, end) = range(Value::Infinity);
    let selector = MapSelector::ValueRange(begin, end);
    let remove = MapOperation::RemoveBy(selector, returns(ReturnKind::None));
    check(map([(0.into(), Value::Nil)]), [on_map(remove)]);
}

#[test]
fn ranks_of_what_a_second_value_adds_are_its_own() {
    let any = || list([Value::Wildcard]);
    let selector = ListSelector::ValueList(vec![any(), Value::Wildcard]);
    let get = ListOperation::GetBy(selector, returns(ReturnKind::Rank));
    check(list([list([Value::Nil]), map([])]), [on_list(get)]);

    let selector = MapSelector::ValueList(vec![i64::MIN.into(), Value::Wildcard]);
    let get = MapOperation::GetBy(selector, returns(ReturnKind::Rank));
    check(
        map([(0.into(), i64::MIN.into()), (1.into(), 0.into())]),
        [on_map(get)],
    );
}

#[test]
fn the_reverse_ranks_of_all_others_descend() {
    let selector = ListSelector::ValueRange(Some(false.into()), None);
    let get = ListOperation::GetBy(selector, others(ReturnKind::ReverseRank));
    check(list([Value::Nil, Value::Nil]), [on_list(get)]);
}

#[test]
fn a_map_of_one_entry_has_no_index_of_values() {
    let policy = MapPolicy {
        order: MapOrder::KeyValueOrdered,
        persist: true,
        flags: 0,
    };
    let put = |key: i64| on_map(MapOperation::Put(policy, key.into(), Value::Nil));
    let selector = || MapSelector::ValueList(vec![Value::Wildcard, Value::Wildcard]);
    let get = on_map(MapOperation::GetBy(selector(), returns(ReturnKind::Key)));
    let remove = on_map(MapOperation::RemoveBy(selector(), returns(ReturnKind::Key)));
    check(Value::Nil, [put(0), get.clone(), put(1), get, remove]);
}

#[test]
fn an_ordered_map_has_an_entry_once_that_two_values_pick() {
    let unordered = MapPolicy {
        order: MapOrder::Unordered,
        persist: false,
        flags: 0,
    };
    let put = |key: i64, value| on_map(MapOperation::Put(unordered, key.into(), value));
    let order = MapOperation::SetType {
        order: MapOrder::KeyValueOrdered,
        persist: true,
    };
    let selector = MapSelector::ValueList(vec![Value::Wildcard, 1.into()]);
    let get = on_map(MapOperation::GetBy(
        selector,
        returns(ReturnKind::OrderedMap),
    ));
    check(
        map([]),
        [put(0, 1.into()), put(1, Value::Nil), on_map(order), get],
    );
}
