//! Properties of all operations: the index is right after every edit, replies do not depend on it,
//! a failed call changes nothing, damaged bytes cause no panic. The tests of the public API cover
//! the operations one by one.

use proptest::prelude::*;

use super::code;
use super::shape::ItemShape;
use super::table::{OpSpec, rows};
use super::testing::{Arg, Bin, Needs, call, call_below, needs, parses, prepared};
use crate::call::{CallError, PathCall, Trust};
use crate::value::testing::{any_value, encoded};
use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, ParticleType, Value};

const ORDERED: u8 = FLAG_ORDERED;
const PERSISTED: u8 = FLAG_PERSIST_INDEX;
const BY_VALUE: u8 = FLAG_ORDERED | FLAG_VALUE_ORDERED;

/// Elements that are often equal to one another, with all encoded lengths.
fn element() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (0..6_i64).prop_map(Value::Int),
        2 => (0..400_i64).prop_map(Value::Int),
        2 => (0..40_usize).prop_map(|len| "x".repeat(len).into()),
        1 => any_value(),
        1 => (250..400_usize).prop_map(|len| "y".repeat(len).into()),
    ]
}

fn key() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0..12_i64).prop_map(Value::Int),
        2 => (0..300_i64).prop_map(Value::Int),
        1 => "[a-c]{0,2}".prop_map(Value::from),
        1 => prop::collection::vec(0..3_u8, 0..2).prop_map(Value::Blob),
    ]
}

fn argument(needs: Needs, create: u8) -> BoxedStrategy<Arg> {
    match needs {
        Needs::Int => (-12..12_i64).prop_map(Arg::Int).boxed(),
        Needs::Count => prop_oneof![0..9_i64, Just(-1)].prop_map(Arg::Int).boxed(),
        Needs::Returns => {
            let code = prop_oneof![0..=13_i64, 16..=17_i64];
            let code = (code, prop::sample::select(vec![0, 0x1_0000]));
            code.prop_map(|(code, inverted)| Arg::Int(code + inverted))
                .boxed()
        }
        Needs::Key => key().prop_map(Arg::Value).boxed(),
        Needs::Value => element().prop_map(Arg::Value).boxed(),
        Needs::Values => prop::collection::vec(element(), 0..20)
            .prop_map(Arg::List)
            .boxed(),
        Needs::Keys => prop::collection::vec(key(), 0..9)
            .prop_map(Arg::List)
            .boxed(),
        Needs::Entries => prop::collection::vec((key(), element()), 0..20)
            .prop_map(|mut entries| {
                entries.sort_by_key(|entry| encoded(&entry.0));
                entries.dedup_by_key(|entry| encoded(&entry.0));
                Arg::Map(entries)
            })
            .boxed(),
        Needs::Number => prop_oneof![
            (-3..200_i64).prop_map(Value::Int),
            Just(Value::Float(0.5)),
            Just(Value::Nil)
        ]
        .prop_map(Arg::Value)
        .boxed(),
        Needs::Create => Just(Arg::Int(create.into())).boxed(),
        Needs::Flags => (0..16_i64).prop_map(Arg::Int).boxed(),
    }
}

/// A call of any operation on a shape, and whether it writes. Sets types to `flags`.
fn any_call(shape: ItemShape, flags: u8) -> BoxedStrategy<(bool, Box<[u8]>)> {
    let rows: Vec<&'static OpSpec> = rows().iter().filter(|row| row.shape == shape).collect();
    prop::sample::select(rows)
        .prop_flat_map(move |row| {
            let arguments: Vec<_> = needs(row)
                .into_iter()
                .map(|needs| argument(needs, flags))
                .collect();
            (arguments, row.required..=row.allowed).prop_map(move |(args, given)| {
                (row.writes, call(row.code, &args[..given as usize]))
            })
        })
        .boxed()
}

/// A call, whether it writes, and its variant.
type Pair = (bool, Box<[u8]>, Box<[u8]>);

/// Generates calls in two variants that differ in their flags, if they have any.
fn calls_for(shape: ItemShape, with: u8, without: u8) -> BoxedStrategy<Vec<Pair>> {
    let both = any_call(shape, with).prop_filter_map("clearing", move |(writes, call)| {
        // The flags are small integers of one byte each: give the other variant its own.
        let cleared = call.get(1) == Some(&code::LIST_CLEAR);
        let type_set = matches!(
            call.get(1),
            Some(&code::LIST_SET_TYPE | &code::MAP_SET_TYPE)
        );
        let other = if type_set {
            self::call(call[1], &[Arg::Int(without.into())])
        } else {
            call.clone()
        };
        (!cleared).then_some((writes, call, other))
    });
    prop::collection::vec(both, 1..30).boxed()
}

/// Returns the bin without its persisted index.
fn stripped(bin: &Bin, flags: u8) -> Bin {
    let mut bin = bin.clone();
    let code = match bin.view().shape {
        ItemShape::List => code::LIST_SET_TYPE,
        ItemShape::Map => code::MAP_SET_TYPE,
    };
    bin.run(true, &call(code, &[Arg::Int(flags.into())]))
        .unwrap();
    bin
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_list_does_the_same_with_and_without_an_index(
        order in prop::sample::select(vec![0, ORDERED]),
        items in prop::collection::vec(element(), 0..30),
        calls in calls_for(ItemShape::List, ORDERED | PERSISTED, ORDERED),
    ) {
        let mut indexed = Bin::list(order | PERSISTED, &items);
        let mut plain = Bin::list(order, &items);
        for (writes, with, without) in calls {
            let before = indexed.clone();
            let result = indexed.run(writes, &with);
            prop_assert_eq!(&result, &plain.run(writes, &without), "{:x?} on {:?}", with, before.value());
            if result.is_err() {
                prop_assert_eq!(&indexed, &before);
            }
            indexed.check_index();
            let flags = plain.view().flags;
            prop_assert_eq!(stripped(&indexed, flags), plain.clone());
        }
    }

    #[test]
    fn a_map_does_the_same_with_and_without_an_index(
        items in prop::collection::vec((key(), element()), 0..30),
        calls in calls_for(ItemShape::Map, ORDERED | PERSISTED, ORDERED),
    ) {
        let mut items = items;
        items.sort_by_key(|entry| encoded(&entry.0));
        items.dedup_by_key(|entry| encoded(&entry.0));
        let mut indexed = Bin::map(ORDERED | PERSISTED, &items);
        let mut plain = Bin::map(ORDERED, &items);
        for (writes, with, without) in calls {
            let before = indexed.clone();
            let result = indexed.run(writes, &with);
            prop_assert_eq!(&result, &plain.run(writes, &without), "{:x?} on {:?}", with, before.value());
            indexed.check_index();
            let flags = plain.view().flags;
            prop_assert_eq!(stripped(&indexed, flags), plain.clone());
        }
    }

    #[test]
    fn a_call_whose_arguments_are_kept_does_what_its_encoded_form_does(
        order in prop::sample::select(vec![0, ORDERED]),
        items in prop::collection::vec(element(), 0..12),
        of_lists in prop::collection::vec(any_call(ItemShape::List, ORDERED), 1..20),
        of_maps in prop::collection::vec(any_call(ItemShape::Map, ORDERED), 1..20),
    ) {
        let entries: Vec<(Value, Value)> = (0..).map(Value::Int).zip(items.clone()).collect();
        for (calls, made) in [
            (of_lists, Bin::list(order, &items)),
            (of_maps, Bin::map(order, &entries)),
        ] {
            for (writes, call) in calls {
                let parsed = PathCall::parse(Box::leak(call.clone()), Trust::Normal).unwrap();
                let Ok(Some(kept)) = prepared(&parsed, writes) else {
                    continue;
                };
                let encoded = kept.encode().unwrap();
                let again = PathCall::parse(Box::leak(encoded.clone()), Trust::Normal).unwrap();
                prop_assert_eq!(&prepared(&again, writes).unwrap(), &Some(kept.clone()));
                for bin in [made.clone(), Bin::default()] {
                    let (mut by_encoded, mut by_prepared) = (bin.clone(), bin);
                    let expected = by_encoded.run(writes, &encoded);
                    prop_assert_eq!(by_prepared.run_prepared(&kept), expected, "{:x?}", call);
                    prop_assert_eq!(by_prepared, by_encoded, "{:x?}", call);
                }
            }
        }
    }

    #[test]
    fn an_index_by_value_holds_after_every_edit(
        items in prop::collection::vec((key(), element()), 0..30),
        calls in calls_for(ItemShape::Map, BY_VALUE | PERSISTED, BY_VALUE),
    ) {
        let mut items = items;
        items.sort_by_key(|entry| encoded(&entry.0));
        items.dedup_by_key(|entry| encoded(&entry.0));
        let mut indexed = Bin::map(BY_VALUE | PERSISTED, &items);
        let mut plain = Bin::map(BY_VALUE, &items);
        for (writes, with, without) in calls {
            let result = indexed.run(writes, &with);
            prop_assert_eq!(result.is_ok(), plain.run(writes, &without).is_ok(), "{:x?}", with);
            indexed.check_index();
            let flags = plain.view().flags;
            prop_assert_eq!(stripped(&indexed, flags), plain.clone());
        }
    }

    #[test]
    fn an_index_of_an_outer_list_or_map_holds_after_edits_below(
        order in prop::sample::select(vec![0, ORDERED]),
        children in prop::collection::vec(prop::collection::vec(0..9_i64, 0..9), 1..9),
        calls in prop::collection::vec(any_call(ItemShape::List, ORDERED), 1..20),
        at in 0..9_i64,
    ) {
        let child = |items: &Vec<i64>| Value::from(items.iter().map(|i| Value::Int(*i)).collect::<Vec<_>>());
        let at = at % children.len() as i64;
        let lists: Vec<Value> = children.iter().map(child).collect();
        let entries: Vec<(Value, Value)> = (0..).map(Value::Int).zip(lists.clone()).collect();
        let mut list = Bin::list(order | PERSISTED, &lists);
        let mut map = Bin::map(BY_VALUE | PERSISTED, &entries);
        for (writes, call) in calls {
            let _ = list.run(writes, &call_below(&[(0x10, at.into())], &call));
            list.check_index();
            if list.view().flags & ORDERED != 0 {
                let items: Vec<_> = list.view().walk().map(|item| list.view().bytes(item.unwrap())).collect();
                prop_assert!(items.is_sorted_by(|a, b| crate::value::order::compare(a, b).is_le()));
            }
            let _ = map.run(writes, &call_below(&[(0x22, at.into())], &call));
            map.check_index();
        }
    }

    #[test]
    fn damaged_bins_are_an_error_or_a_defined_result(
        bytes in prop::collection::vec(any::<u8>(), 0..48),
        (list_writes, list_call) in any_call(ItemShape::List, ORDERED | PERSISTED),
        (map_writes, map_call) in any_call(ItemShape::Map, BY_VALUE | PERSISTED),
        form in prop::sample::select(vec![0, 1, 2, 4]),
        context in prop::sample::select(vec![0_i64, 1, 3, 0x10, 0x11, 0x22, 0x23, 0x50, 0x62, 0xe2]),
        at in -3..3_i64,
    ) {
        for (shape, first, writes, call) in [
            (ItemShape::List, 0x95, list_writes, &list_call),
            (ItemShape::Map, 0x85, map_writes, &map_call),
        ] {
            // The bytes alone, and after a head that says "ordered, with index data".
            let mut headed = vec![first, 0xc7, 7, BY_VALUE & shape_flags(shape) | PERSISTED, form];
            headed.extend_from_slice(&bytes);
            let below = call_below(&[(context, at.into())], call);
            for bin in [bytes.clone(), headed] {
                for call in [call, &below] {
                    let mut bin = Bin::of(shape, bin.clone());
                    let before = bin.clone();
                    if bin.run(writes, call).is_err() {
                        prop_assert_eq!(bin, before);
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_calls_are_an_error_or_a_defined_result(
        bytes in prop::collection::vec(any::<u8>(), 0..48),
        row in prop::sample::select(rows().iter().collect::<Vec<_>>()),
    ) {
        let mut headed = vec![0x90 | (row.required as u8 + 1), row.code];
        headed.extend_from_slice(&bytes);
        for call in [&bytes, &headed] {
            let mut bins = [Bin::default(), Bin::list(ORDERED | PERSISTED, &[1.into(), 2.into()]),
                Bin::map(BY_VALUE | PERSISTED, &[(1.into(), 2.into()), (2.into(), 1.into())])];
            for bin in &mut bins {
                let before = bin.clone();
                let result = bin.run_as(Trust::Foreign, row.writes, call);
                if result.is_err() || !row.writes {
                    prop_assert_eq!(&*bin, &before);
                }
                if bin.0.is_some() {
                    bin.check_index();
                }
            }
        }
    }
}

fn shape_flags(shape: ItemShape) -> u8 {
    match shape {
        ItemShape::List => ORDERED,
        ItemShape::Map => BY_VALUE,
    }
}

#[test]
fn every_operation_takes_as_many_arguments_as_its_row_says() {
    for row in rows() {
        assert_eq!(needs(row).len() as u32, row.allowed, "{row:?}");
        let int = Arg::Int(0);
        let few = vec![int.clone(); (row.required as usize).saturating_sub(1)];
        let many = vec![int; row.allowed as usize + 1];
        let mut bin = match row.shape {
            ItemShape::List => Bin::list(0, &[1.into()]),
            ItemShape::Map => Bin::map(0, &[(1.into(), 1.into())]),
        };
        for args in [few, many] {
            if args.len() as u32 == row.required && row.required == 0 {
                continue;
            }
            let result = bin.run(row.writes, &call(row.code, &args));
            assert!(matches!(result, Err(CallError::Parameter(_))), "{row:?}");
        }
        let other = call(row.code, &vec![Arg::Int(0); row.required as usize]);
        let result = bin.run(!row.writes, &other);
        assert!(matches!(result, Err(CallError::Parameter(_))), "{row:?}");
        let mut trailing = other.to_vec();
        trailing.push(0);
        let result = bin.run(row.writes, &trailing);
        assert!(result.is_err(), "{row:?}");
    }
}

#[test]
fn ten_thousand_levels_and_four_gigabytes_are_refused() {
    let deep = [&[0x92, code::LIST_APPEND][..], &[0x91; 10_000], &[0xc0]].concat();
    assert!(parses(&deep));
    let mut bin = Bin::list(0, &[1.into()]);
    assert!(bin.run_as(Trust::Foreign, true, &deep).is_err());

    let path: Vec<(i64, Value)> = vec![(0x10, 0.into()); 10_000];
    let append = call(code::LIST_APPEND, &[Arg::Value(1.into())]);
    assert!(bin.run(true, &call_below(&path, &append)).is_err());

    // A path that creates a hundred levels, and a value with thirty more.
    let path: Vec<(i64, Value)> = vec![(0x50, 0.into()); 100];
    let value = (0..30).fold(Value::Nil, |value, _| Value::from(vec![value]));
    let append = call(code::LIST_APPEND, &[Arg::Value(value)]);
    let mut none = Bin::default();
    assert!(none.run(true, &call_below(&path, &append)).is_err());
    assert_eq!(none, Bin::default());
    let append = call(code::LIST_APPEND, &[Arg::Value(1.into())]);
    none.run(true, &call_below(&path, &append)).unwrap();
    none.value();

    let big = call(
        code::LIST_INSERT,
        &[Arg::Int(i64::from(i32::MAX)), Arg::Value(1.into())],
    );
    assert!(matches!(bin.run(true, &big), Err(CallError::TooBig { .. })));
    let path = [(0x90, Value::Int(i64::from(i32::MAX)))];
    assert!(matches!(
        bin.run(true, &call_below(&path, &append)),
        Err(CallError::TooBig { .. })
    ));
    for bytes in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff, 1][..],
        &[0x91, 0xdb, 0xff, 0xff, 0xff, 0xff],
    ] {
        let mut bin = Bin::of(ItemShape::List, bytes.to_vec());
        assert!(
            bin.run(false, &call(code::LIST_GET, &[Arg::Int(0)]))
                .is_err()
        );
        let before = bin.clone();
        let sort = call(code::LIST_SORT, &[]);
        let _ = bin.run(true, &sort);
        assert_eq!(bin.bytes().len(), before.bytes().len());
    }
}

#[test]
fn a_wildcard_finds_all_lists_that_begin_alike() {
    let list =
        |items: &[i64]| Value::from(items.iter().map(|i| Value::Int(*i)).collect::<Vec<_>>());
    let items = [
        list(&[1]),
        list(&[1, 1]),
        list(&[1, 2, 3]),
        list(&[2, 1]),
        1.into(),
    ];
    let wanted = Value::from(vec![1.into(), Value::Wildcard]);
    for shape in [0, ORDERED, PERSISTED, ORDERED | PERSISTED] {
        let mut stored = Bin::list(shape, &items);
        for (value, count) in [(&wanted, 2), (&Value::Wildcard, 5), (&list(&[1]), 1)] {
            let args = [Arg::Int(5), Arg::Value(value.clone())];
            let found = stored.run(false, &call(code::LIST_GET_ALL_BY_VALUE, &args));
            assert_eq!(found, Ok(count.into()), "{value:?}");
            let args = [Arg::Int(5), Arg::List(vec![value.clone(), 7.into()])];
            let found = stored.run(false, &call(code::LIST_GET_BY_VALUE_LIST, &args));
            assert_eq!(found, Ok(count.into()), "one of {value:?}");
        }
    }
}

#[test]
fn a_wildcard_as_lower_bound_lets_in_what_is_below_the_end_unless_the_order_is_known() {
    let items = [
        9.into(),
        1.into(),
        Value::from(vec![Value::Int(1)]),
        4.into(),
    ];
    let entries: Vec<_> = (0..4).map(Value::from).zip(items.clone()).collect();
    let count_below = |stored: &mut Bin, code, end: Value| {
        let args = [Arg::Int(5), Arg::Value(Value::Wildcard), Arg::Value(end)];
        stored.run(false, &call(code, &args))
    };
    for (shape, below_five, all) in [(0, 2, 4), (PERSISTED, 2, 4), (ORDERED, 0, 0)] {
        let mut list = Bin::list(shape, &items);
        for (end, count) in [(5.into(), below_five), (Value::Infinity, all)] {
            let found = count_below(&mut list, code::LIST_GET_BY_VALUE_INTERVAL, end);
            assert_eq!(found, Ok(count.into()), "list {shape}");
        }
        let upper = [
            Arg::Int(5),
            Arg::Value(1.into()),
            Arg::Value(Value::Wildcard),
        ];
        let found = list.run(false, &call(code::LIST_GET_BY_VALUE_INTERVAL, &upper));
        assert_eq!(found, Ok(0.into()), "nothing is less than a wildcard");
    }
    for (shape, below_five) in [(0, 2), (BY_VALUE | PERSISTED, 0)] {
        let mut map = Bin::map(shape, &entries);
        let found = count_below(&mut map, code::MAP_GET_BY_VALUE_INTERVAL, 5.into());
        assert_eq!(found, Ok(below_five.into()), "map {shape}");
    }
}

#[test]
fn integers_of_all_lengths_keep_an_index_of_a_few_bytes() {
    let mut list = Bin::list(ORDERED | PERSISTED, &[]);
    for power in 0..63 {
        for value in [1_i64 << power, -(1 << power), (1 << power) + 1] {
            list.run(true, &call(code::LIST_APPEND, &[Arg::Value(value.into())]))
                .unwrap();
        }
    }
    list.check_index();
    let overhead = list.bytes().len() - list.view().content.len();
    assert!(overhead < 100, "{overhead} bytes of head and index");
}

#[test]
fn an_index_has_these_bytes() {
    let ints: Vec<Value> = [1, 2, 300].map(Value::Int).to_vec();
    let list = Bin::list(ORDERED | PERSISTED, &ints);
    let expected = [
        &[0x94, 0xc7, 17, 0x11, 0][..],
        &[2, 0, 0, 0, 1, 0, 0, 0],
        &[1, 0, 0, 0, 3, 0, 0, 0],
        &[1, 2, 0xcd, 1, 44],
    ];
    assert_eq!(list.bytes(), expected.concat());

    let words: Vec<Value> = (0..20).map(|i| "x".repeat(i % 2).into()).collect();
    let list = Bin::list(PERSISTED, &words);
    let offsets: Vec<u8> = (0..20).map(|i| i / 2 * 5 + i % 2 * 2).collect();
    assert_eq!(list.bytes()[..8], [0xdc, 0, 21, 0xc7, 21, 0x10, 1, 0]);
    assert_eq!(list.bytes()[7..27], offsets);

    // The ranks come first: value 1 is at 2, value 5 at 0, value 9 at 1.
    let map = Bin::map(
        BY_VALUE | PERSISTED,
        &[
            (1.into(), 5.into()),
            (2.into(), 9.into()),
            (3.into(), 1.into()),
        ],
    );
    let expected = [
        &[0x84, 0xc7, 12, 0x13, 2, 0, 1, 0][..],
        &[3, 0, 0, 0, 2, 0, 0, 0],
        &[0xc0, 1, 5, 2, 9, 3, 1],
    ];
    assert_eq!(map.bytes(), expected.concat());
}

#[test]
fn what_a_client_wrote_gets_its_index_when_it_is_edited() {
    let mut list = Bin::of(
        ItemShape::List,
        vec![0x94, 0xc7, 0, ORDERED | PERSISTED, 1, 2, 3],
    );
    list.run(true, &call(code::LIST_APPEND, &[Arg::Value(2.into())]))
        .unwrap();
    list.check_index();
    let mut map = Bin::of(
        ItemShape::Map,
        vec![0x83, 0xc7, 0, BY_VALUE | PERSISTED, 0xc0, 1, 9, 2, 8],
    );
    let put = [Arg::Value(3.into()), Arg::Value(1.into())];
    map.run(true, &call(code::MAP_PUT, &put)).unwrap();
    map.check_index();
    assert_eq!(map.0.as_ref().unwrap().0, ParticleType::Map);
}

#[test]
fn damaged_bins_with_wildcards_are_sorted_without_a_panic() {
    // A wildcard equals everything, so the order of lookups is not an order to sort by.
    let items: Vec<u8> = (0..60_u8)
        .flat_map(|at| match at % 3 {
            0 => vec![0xd4, 0xff, 0],
            _ => vec![at.wrapping_mul(37) % 100],
        })
        .collect();
    let list = [&[0xdc, 0, 60][..], &items].concat();
    let pairs: Vec<u8> = (0..60_u8)
        .flat_map(|at| match at % 3 {
            0 => vec![at, 0xd4, 0xff, 0],
            _ => vec![at, at.wrapping_mul(37) % 100],
        })
        .collect();
    let map = [&[0xde, 0, 60][..], &pairs].concat();
    let range = [Arg::Int(5), Arg::Int(3), Arg::Int(40)];
    let ranks = [Arg::Int(3), Arg::Int(3), Arg::Int(40)];
    let ordered = [Arg::Int(i64::from(ORDERED))];
    let by_value = [Arg::Int(i64::from(BY_VALUE | PERSISTED))];
    for (shape, bytes, writes, call) in [
        (ItemShape::List, &list, true, call(code::LIST_SORT, &[])),
        (
            ItemShape::List,
            &list,
            true,
            call(code::LIST_SET_TYPE, &ordered),
        ),
        (
            ItemShape::List,
            &list,
            false,
            call(code::LIST_GET_BY_RANK_RANGE, &range),
        ),
        (
            ItemShape::List,
            &list,
            false,
            call(code::LIST_GET_BY_INDEX_RANGE, &ranks),
        ),
        (
            ItemShape::Map,
            &map,
            true,
            call(code::MAP_SET_TYPE, &by_value),
        ),
        (
            ItemShape::Map,
            &map,
            false,
            call(code::MAP_GET_BY_RANK_RANGE, &range),
        ),
        (
            ItemShape::Map,
            &map,
            false,
            call(code::MAP_GET_BY_INDEX_RANGE, &ranks),
        ),
    ] {
        let _ = Bin::of(shape, bytes.clone()).run(writes, &call);
    }
}
