//! Values from and to Rust types, their text, equality and hashes; and records written as literals.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use spikelet::expressions::{self as exp, ExpType, LoopVariable, PathFlags, PathStep};
use spikelet::operations::{self, get_bin, lists, maps};
use spikelet::value::{ConversionError, List, Map, ParticleType};
use spikelet::{
    Bins, Error, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapOrder, MapPolicy,
    MapWriteFlags, Set, Store, Value, bins,
};

fn set() -> Set {
    Store::in_memory().unwrap().set("users").unwrap()
}

#[test]
fn every_integer_type_converts_to_a_value_and_back() {
    macro_rules! check {
        ($($type:ident)*) => {$(
            for number in [$type::MIN, 1, $type::MAX] {
                assert_eq!($type::try_from(Value::from(number)), Ok(number));
            }
        )*};
    }
    check!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
}

#[test]
fn an_integer_that_fits_64_bits_with_sign_is_the_same_value_whatever_its_type() {
    for value in [
        Value::from(7_u64),
        Value::from(7_usize),
        Value::from(7_i8),
        Value::from(7_isize),
    ] {
        assert_eq!(value, Value::Int(7));
    }
    assert_eq!(Value::from(i64::MAX as u64), Value::Int(i64::MAX));
}

#[test]
fn an_integer_above_64_bits_with_sign_is_refused_where_it_would_be_stored() {
    let set = set();
    for value in [
        Value::from(u64::MAX),
        Value::from(vec![u64::MAX]),
        Value::from(BTreeMap::from([(1, u64::MAX)])),
    ] {
        let refused = set.put("alice", [("n", value)]).unwrap_err();
        assert!(matches!(refused, Error::NotStorable { .. }), "{refused:?}");
        assert_eq!(refused.result_code(), 1);
        assert!(!refused.is_damage(), "nothing stored is damaged");
        assert!(refused.to_string().contains("18446744073709551615"));
    }
    assert!(!set.exists("alice").unwrap());
}

#[test]
fn an_integer_above_64_bits_with_sign_can_be_compared_with() {
    let set = set();
    set.put("alice", [("n", vec![1, i64::MAX])]).unwrap();
    let below = lists::get_by_value_range(
        "n",
        Some(Value::from(2)),
        Some(Value::from(u64::MAX)),
        ListReturnType::Count,
    );
    let found = set.operate("alice", &[below]).unwrap();
    assert_eq!(found.bin("n"), Some(&Value::Int(1)));
}

#[test]
fn sequences_are_lists_bytes_are_blobs_and_pairs_are_maps() {
    let list = Value::List([1, 2].into_iter().collect());
    assert_eq!(Value::from(vec![1, 2]), list);
    assert_eq!(Value::from([1, 2]), list);
    assert_eq!(Value::from(&[1, 2][..]), list);
    let texts = Value::List(["a", "b"].into_iter().collect());
    assert_eq!(Value::from(vec!["a".to_owned(), "b".to_owned()]), texts);
    assert_eq!(Value::from(["a", "b"]), texts);
    let nested = Value::List([list.clone(), list.clone()].into_iter().collect());
    assert_eq!(Value::from(vec![[1, 2], [1, 2]]), nested);

    let blob = Value::Blob(vec![1, 2]);
    assert_eq!(Value::from(vec![1_u8, 2]), blob);
    assert_eq!(Value::from([1_u8, 2]), blob);
    assert_eq!(Value::from(&[1_u8, 2][..]), blob);
    assert_eq!(Value::from(b"\x01\x02"), blob);

    let map = Value::Map([("a", 1), ("b", 2)].into_iter().collect());
    assert_eq!(Value::from(vec![("a", 1), ("b", 2)]), map);
    assert_eq!(Value::from([("a", 1), ("b", 2)]), map);
    let one = Value::Map([("a", 1)].into_iter().collect());
    assert_eq!(Value::from(HashMap::from([("a", 1)])), one);
    let ordered = Value::from(BTreeMap::from([("a", 1)]));
    assert_eq!(ordered.as_map().map(Map::order), Some(MapOrder::KeyOrdered));
}

#[test]
fn text_converts_whoever_owns_it_and_none_is_nil() {
    let text = Value::String("a".to_owned());
    let owned = "a".to_owned();
    assert_eq!(Value::from(&owned), text);
    assert_eq!(Value::from(Cow::Borrowed("a")), text);
    assert_eq!(Value::from(Some(owned)), text);
    assert_eq!(Value::from(None::<i32>), Value::Nil);
    let sparse = Value::List([Value::Int(1), Value::Nil].into_iter().collect());
    assert_eq!(Value::from(vec![Some(1), None]), sparse);
}

#[test]
fn collections_survive_a_record() {
    let set = set();
    let tags = vec!["rust".to_owned(), "storage".to_owned()];
    let visits = BTreeMap::from([("about".to_owned(), 1_u32), ("home".to_owned(), 3)]);
    let scores = HashMap::from([(7_i64, 1.5_f64)]);
    set.put(
        "alice",
        bins! { "tags" => tags.clone(), "visits" => visits.clone(), "scores" => scores.clone() },
    )
    .unwrap();
    let alice = set.get("alice").unwrap().unwrap();
    assert_eq!(Vec::try_from(alice.get("tags").unwrap()), Ok(tags));
    assert_eq!(BTreeMap::try_from(alice.get("visits").unwrap()), Ok(visits));
    assert_eq!(HashMap::try_from(alice.get("scores").unwrap()), Ok(scores));
    let values: Vec<Value> = alice.get("tags").unwrap().try_into().unwrap();
    assert_eq!(values.len(), 2);
}

#[test]
fn a_value_of_another_type_does_not_convert_and_the_error_names_both() {
    let refused = String::try_from(Value::Int(1)).unwrap_err();
    assert!(matches!(refused, ConversionError::WrongType { .. }));
    let text = refused.to_string();
    assert!(
        text.contains("integer") && text.contains("string"),
        "{text}"
    );
    assert!(i64::try_from(Value::Float(1.0)).is_err());
    assert!(f64::try_from(Value::Int(1)).is_err());
    assert!(Vec::<i64>::try_from(Value::from(["a"])).is_err());

    let refused = u8::try_from(Value::Int(256)).unwrap_err();
    assert!(matches!(refused, ConversionError::OutOfRange { .. }));
    assert!(refused.to_string().contains("256"), "{refused}");
    let error = Error::from(refused);
    assert!(matches!(error, Error::Conversion(_)));
    assert_eq!(error.result_code(), 4);
}

#[test]
fn accessors_answer_for_their_own_type_only() {
    let values = [
        Value::Nil,
        true.into(),
        1.into(),
        1.5.into(),
        "a".into(),
        b"a".into(),
        List::default().into(),
        Map::default().into(),
    ];
    for (at, value) in values.iter().enumerate() {
        let answers = [
            value.is_nil(),
            value.as_bool().is_some(),
            value.as_i64().is_some(),
            value.as_f64().is_some(),
            value.as_str().is_some(),
            value.as_blob().is_some(),
            value.as_list().is_some(),
            value.as_map().is_some(),
        ];
        for (asked, answered) in answers.into_iter().enumerate() {
            assert_eq!(answered, asked == at, "accessor {asked} of {value}");
        }
    }
}

#[test]
fn values_are_written_for_people() {
    for (value, text) in [
        (Value::Nil, "nil"),
        (true.into(), "true"),
        ((-1).into(), "-1"),
        (u64::MAX.into(), "18446744073709551615"),
        (1.0.into(), "1.0"),
        ("say \"hi\"".into(), r#""say \"hi\"""#),
        (b"\x0a\xff".into(), r#"x"0aff""#),
        (
            vec![Value::from(1), "a".into(), vec![2].into()].into(),
            r#"[1, "a", [2]]"#,
        ),
        (vec![("a", 1), ("b", 2)].into(), r#"{"a": 1, "b": 2}"#),
        (Value::Wildcard, "*"),
        (Value::Infinity, "INF"),
    ] {
        assert_eq!(value.to_string(), text);
    }
}

#[test]
fn equal_values_have_equal_hashes_doubles_that_are_not_numbers_included() {
    let values = || {
        [
            Value::from(f64::NAN),
            0.0.into(),
            0.into(),
            "a".into(),
            b"a".into(),
            vec![f64::NAN].into(),
            vec![("a", 1)].into(),
        ]
    };
    let distinct: HashSet<Value> = values().into_iter().chain(values()).collect();
    assert_eq!(distinct.len(), values().len());
    assert!(distinct.contains(&Value::from(-0.0)), "0.0 equals -0.0");
    assert!(distinct.contains(&Value::from(-f64::NAN)));
}

#[test]
fn a_record_literal_mixes_types() {
    let set = set();
    set.put(
        "alice",
        bins! { "name" => "Alice", "age" => 42, "tags" => ["a", "b"], "admin" => true },
    )
    .unwrap();
    let alice = set.get("alice").unwrap().unwrap();
    assert_eq!(alice.get("name"), Some("Alice".into()));
    assert_eq!(alice.get("age"), Some(42.into()));
    assert_eq!(alice.bins().count(), 4);
    // One value that names its type is enough for an array of pairs.
    set.put("bob", [("name", Value::from("Bob")), ("age", 7.into())])
        .unwrap();
    // A map of bins, and bins as they are, are records, too.
    set.put("carol", BTreeMap::from([("age", 1)])).unwrap();
    let bins = Bins::try_from(bins! { "age" => 2, "name" => "Dave" }).unwrap();
    set.put("dave", bins).unwrap();
    let age = set.operate("dave", &[get_bin("age")]).unwrap();
    assert_eq!(age.bin("age"), Some(&2.into()));
}

#[test]
fn bins_of_a_literal_have_checked_names() {
    let refused = Bins::try_from(bins! { "a name of sixteen" => 1 }).unwrap_err();
    assert_eq!(refused.result_code(), 21);
    assert!(Bins::try_from(bins! {}).unwrap().is_empty());
}

#[test]
fn a_record_shows_its_bins() {
    let set = set();
    set.put("alice", bins! { "name" => "Alice", "age" => 42 })
        .unwrap();
    let shown = format!("{:?}", set.get("alice").unwrap().unwrap());
    for part in ["\"alice\"", "generation: 1", "\"name\"", "\"Alice\"", "42"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn lists_and_maps_of_a_record_show_what_is_in_them() {
    let set = spikelet::Store::in_memory().unwrap().set("x").unwrap();
    let scores = Value::from(BTreeMap::from([("ada", 310)]));
    set.put(
        "k",
        [("tags", Value::from(vec!["a", "b"])), ("scores", scores)],
    )
    .unwrap();
    let shown = format!("{:?}", set.get("k").unwrap().unwrap());
    for part in [
        r#""tags": List([String("a"), String("b")])"#,
        r#""scores": Map({String("ada"): Int(310)})"#,
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}

/// The list or map of a bin after a write in a client's encoding.
fn written(kind: ParticleType, bytes: impl Into<Box<[u8]>>) -> Result<Value, u8> {
    let set = set();
    let operations = [operations::put_encoded("v", kind, bytes), get_bin("v")];
    match set.operate("alice", &operations) {
        Ok(done) => Ok(done.bin("v").unwrap().clone()),
        Err(error) => Err(error.result_code()),
    }
}

#[test]
fn an_ordered_list_has_nan_behind_the_other_doubles() {
    let ordered = |doubles: [f64; 3]| {
        let mut bytes = vec![0x94, 0xc7, 0, 1];
        for double in doubles {
            bytes.push(0xcb);
            bytes.extend(double.to_be_bytes());
        }
        written(ParticleType::List, bytes).map(drop)
    };
    assert_eq!(ordered([1.0, 2.0, f64::NAN]), Ok(()));
    assert_eq!(ordered([2.0, f64::NAN, 1.0]), Err(1));
    assert_eq!(ordered([1.0, f64::NAN, 2.0]), Err(1));
}

#[test]
fn a_map_ordered_by_value_is_ordered_by_key() {
    let expected = Map::new(vec![(1.into(), 2.into())], MapOrder::KeyValueOrdered);
    for flags in [2, 3] {
        let bytes = [0x82, 0xc7, 0, flags, 0xc0, 1, 2];
        match written(ParticleType::Map, bytes).unwrap() {
            Value::Map(map) => assert_eq!((&map, map.order()), (&expected, expected.order())),
            other => panic!("{other:?}"),
        }
        let below = [[0x91].as_slice(), &bytes].concat();
        match written(ParticleType::List, below).unwrap() {
            Value::List(list) => assert_eq!(list[0], expected.clone().into()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        written(ParticleType::Map, [0x83, 0xc7, 0, 2, 0xc0, 2, 0, 1, 0]),
        Err(1)
    );
}

#[test]
fn what_a_path_leaves_as_it_is_keeps_its_type() {
    let set = set();
    // A Java blob, a short float, an integer above the signed ones.
    let list = [
        0x93, 0xa2, 7, 1, 0xca, 0x3f, 0xc0, 0, 0, 0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0,
    ];
    set.operate(
        "alice",
        &[operations::put_encoded("l", ParticleType::List, list)],
    )
    .unwrap();
    for kind in [ExpType::Blob, ExpType::Float, ExpType::Int] {
        let same = exp::loop_var(LoopVariable::Value, kind);
        let steps = [PathStep::all()];
        let apply = operations::paths::modify_by_path("l", same, PathFlags::NO_FAIL, steps);
        set.operate("alice", &[apply]).unwrap();
        let stored = set.read("alice", |record| {
            record
                .particle("l")
                .map(|(kind, bytes)| (kind, bytes.to_vec()))
        });
        let expected = (ParticleType::List, list.to_vec());
        assert_eq!(stored.unwrap().flatten(), Some(expected), "{kind:?}");
    }
}

/// The types and the stored bytes of a record's bins.
fn stored(set: &Set) -> Vec<(String, ParticleType, Vec<u8>)> {
    let stored = set.read("alice", |record| {
        let bins = record.particles();
        bins.map(|(name, kind, bytes)| (name.to_owned(), kind, bytes.to_vec()))
            .collect()
    });
    stored.unwrap().unwrap()
}

/// Not every stored form has a value that is stored in the same form.
#[test]
fn an_update_leaves_the_bytes_of_the_bins_that_it_does_not_change() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    let table: [(&str, ParticleType, &[u8]); 6] = [
        ("first", ParticleType::Integer, &[1]),
        ("pickled", ParticleType::PythonBlob, b"pickled"),
        ("text", ParticleType::String, &[0xff, 0xfe]),
        // A Java blob, a short float, an integer above the signed ones, a negative zero.
        (
            "list",
            ParticleType::List,
            &[
                0x94, 0xa2, 7, 1, 0xca, 0x3f, 0xc0, 0, 0, 0xcf, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xcb,
                0x80, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
        // A text and a blob that are read as the same key.
        (
            "map",
            ParticleType::Map,
            &[0x82, 0xa2, 3, 0xff, 1, 0xa2, 4, 0xff, 2],
        ),
        ("last", ParticleType::Integer, &[1]),
    ];
    let puts = table.map(|(bin, kind, bytes)| operations::put_encoded(bin, kind, bytes));
    set.operate("alice", &puts).unwrap();
    let before = stored(&set);
    set.update("alice", |bins| bins.set("first", 2)).unwrap();
    let in_transaction = |tx: &spikelet::Transaction<'_>| {
        tx.set("users")?.update("alice", |bins| bins.set("last", 2))
    };
    store.transaction(in_transaction).unwrap();
    let mut expected = before;
    expected[0].2 = vec![2];
    expected[5].2 = vec![2];
    assert_eq!(stored(&set), expected);
    // The last bin takes the place of one that is removed.
    set.update("alice", |bins| {
        bins.remove("first");
        bins.set("new", 1)
    })
    .unwrap();
    expected.swap_remove(0);
    expected.push(("new".into(), ParticleType::Integer, vec![1]));
    assert_eq!(stored(&set), expected);
    // A zero that gets a sign is changed.
    set.put("alice", [("zero", 0.0)]).unwrap();
    set.update("alice", |bins| bins.set("zero", -0.0)).unwrap();
    let zero = set.get("alice").unwrap().unwrap().get("zero");
    assert!(matches!(zero, Some(Value::Float(zero)) if zero.is_sign_negative()));
}

#[test]
fn lists_and_maps_keep_their_persisted_indexes_through_an_update() {
    let set = set();
    let policy =
        ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index(true);
    let scores =
        MapPolicy::new(MapOrder::KeyValueOrdered, MapWriteFlags::empty()).persist_index(true);
    let numbers = (0..20).map(Value::from).collect();
    let entries = (0..20).map(|it| (it.into(), (20 - it).into())).collect();
    set.operate(
        "alice",
        &[
            lists::append_items(&policy, "l", numbers),
            maps::put_items(&scores, "m", entries),
        ],
    )
    .unwrap();
    let are_indexed = || {
        let found = set.get("alice").unwrap().unwrap();
        let (list, map) = (found.view().bin("l"), found.view().bin("m"));
        let list = list.and_then(|list| Some(list.as_list()?.is_indexed()));
        let map = map.and_then(|map| Some(map.as_map()?.is_indexed()));
        (list, map)
    };
    let before = stored(&set);
    set.update("alice", |bins| bins.set("age", 1)).unwrap();
    assert_eq!(are_indexed(), (Some(true), Some(true)));
    assert_eq!(stored(&set)[..2], before);
    set.update("alice", |bins| {
        for bin in ["l", "m"] {
            match bins.get_mut(bin) {
                Some(Value::List(list)) => list.push(-1),
                Some(Value::Map(map)) => {
                    let mut entries = map.clone().into_entries();
                    entries.push((20.into(), 0.into()));
                    *map = Map::new(entries, map.order());
                }
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(are_indexed(), (Some(true), Some(true)));
    // The same bytes as by operations.
    let edited = stored(&set);
    set.operate(
        "alice",
        &[operations::delete_bin("l"), operations::delete_bin("m")],
    )
    .unwrap();
    let numbers = (-1..20).map(Value::from).collect();
    let entries = (0..21).map(|it| (it.into(), (20 - it).into())).collect();
    set.operate(
        "alice",
        &[
            lists::append_items(&policy, "l", numbers),
            maps::put_items(&scores, "m", entries),
        ],
    )
    .unwrap();
    let mut expected = stored(&set);
    expected.rotate_left(1);
    assert_eq!(edited, expected);
    let map = Map::new(vec![(1.into(), 2.into())], MapOrder::KeyOrdered);
    set.update("alice", |bins| bins.set("l", map)).unwrap();
    let alice = set.get("alice").unwrap().unwrap();
    let map = alice.view().bin("l").and_then(|map| map.as_map());
    assert!(!map.unwrap().is_indexed());
}
