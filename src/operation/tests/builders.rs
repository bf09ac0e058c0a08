//! The builders of operations on lists and maps: each builds what its encoded call parses to.

use super::*;
use crate::call::{PathCall, Trust};
use crate::cdt::testing::prepared;
use crate::cdt::{ListSortFlags, MapPolicy, MapReturnType, list_selections, map_selections};
use crate::operation::action::OperationAction;
use crate::operation::operations::maps;
use crate::value::MapOrder;

macro_rules! example {
    (key) => {
        "k"
    };
    (value) => {
        "v"
    };
    (keys) => {
        vec!["a".into(), "b".into()]
    };
    (values) => {
        vec![1.into(), 2.into()]
    };
    (begin) => {
        Some(1.into())
    };
    (end) => {
        None
    };
    ($position:ident) => {
        1
    };
}

macro_rules! selecting {
    ($module:ident $returns:expr; $($get:ident $get_code:ident, $remove:ident $remove_code:ident, $selector:ident($($argument:ident),*), $what:literal, $costs:literal;)*) => {
        vec![$(
            $module::$get("bin", $(example!($argument),)* $returns),
            $module::$remove("bin", $(example!($argument),)* $returns),
        )*]
    };
}

#[test]
fn every_builder_builds_what_its_encoded_call_parses_to() {
    let list = ListPolicy::new(ListOrder::Ordered, Flags::ADD_UNIQUE).persist_index(true);
    let map = MapPolicy::default();
    let entries = || vec![("k".into(), 1.into()), ("l".into(), 2.into())];
    let built = [
        vec![
            lists::create("bin", ListOrder::Ordered),
            lists::create_persistent("bin", ListOrder::Unordered),
            lists::create_with("bin", &list, crate::call::context::ListPad::Bounded),
            lists::set_order("bin", ListOrder::Ordered),
            lists::append(&list, "bin", "v"),
            lists::append_items(&list, "bin", vec![1.into(), 2.into()]),
            lists::insert(&list, "bin", 1, "v"),
            lists::insert_items(&list, "bin", 1, vec![1.into(), 2.into()]),
            lists::set(&list, "bin", 1, "v"),
            lists::increment(&list, "bin", 1, 2.5),
            lists::pop("bin", 1),
            lists::pop_range("bin", 1, 2),
            lists::pop_range_from("bin", 1),
            lists::remove("bin", 1),
            lists::remove_range("bin", 1, 2),
            lists::remove_range_from("bin", 1),
            lists::trim("bin", 1, 2),
            lists::clear("bin"),
            lists::size("bin"),
            lists::sort("bin", ListSortFlags::DROP_DUPLICATES),
            lists::get("bin", 1),
            lists::get_range("bin", 1, 2),
            lists::get_range_from("bin", 1),
            maps::create("bin", MapOrder::KeyOrdered),
            maps::create_persistent("bin", MapOrder::KeyValueOrdered),
            maps::set_order("bin", MapOrder::KeyOrdered),
            maps::put(&map, "bin", "k", "v"),
            maps::put_items(&map, "bin", entries()),
            maps::increment_value(&map, "bin", "k", 2),
            maps::decrement_value(&map, "bin", "k", 2),
            maps::clear("bin"),
            maps::size("bin"),
        ],
        list_selections!(selecting lists Return::Values.inverted()),
        map_selections!(selecting maps MapReturnType::KeyValue),
    ];
    for operation in built.concat() {
        let OperationAction::Collection { call, .. } = &operation.action else {
            panic!("{operation:?} is refused");
        };
        let encoded = Box::leak(call.encode().unwrap());
        let parsed = PathCall::parse(encoded, Trust::Normal).unwrap();
        assert_eq!(
            prepared(&parsed, call.writes()).unwrap().as_ref(),
            Some(call)
        );
    }
}
