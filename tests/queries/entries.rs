//! Indexes of the entries of maps: a key, and its value.

#![allow(clippy::indexing_slicing)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use spikelet::operations::{ctx, put_encoded};
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::value::ParticleType;
use spikelet::{Error, ShardedMap, Store, Value};

use crate::keys;

const CURRENCIES: [&str; 3] = ["EUR", "USD", "YEN"];

fn prices(of: &BTreeMap<usize, i64>) -> Value {
    let entry = |(currency, price): (&usize, &i64)| (CURRENCIES[*currency % 3], *price);
    Value::Map(of.iter().map(entry).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn a_key_with_a_range_of_values_finds_the_records_that_a_scan_finds(
        writes in prop::collection::vec(
            (0_i64..12, prop::option::of(prop::collection::btree_map(0_usize..3, 0_i64..20, 0..4))),
            0..40,
        ),
        currency in 0_usize..3,
        from in 0_i64..20,
        width in 0_i64..20,
    ) {
        let store = Store::in_memory().unwrap();
        let shoes = store.set("shoes").unwrap();
        let component = IndexComponent::bin("prices").map_entries();
        let by_price = IndexDefinition::new("by_price", [component, "shop".into()]);
        shoes.create_index(by_price).unwrap();
        let mut model = BTreeMap::new();
        for (key, of) in writes {
            match of {
                None => {
                    shoes.delete(key).unwrap();
                    model.remove(&key);
                }
                Some(of) => {
                    shoes.put(key, [("prices", prices(&of)), ("shop", Value::Int(7))]).unwrap();
                    model.insert(key, of);
                }
            }
        }
        let range = from..from + width;
        let mut expected: Vec<_> = model
            .iter()
            .filter_map(|(key, of)| Some((*of.get(&currency)?, *key)))
            .filter(|(price, _)| range.contains(price))
            .collect();
        expected.sort_unstable();
        let query = shoes.query("by_price").unwrap();
        let mut found = Vec::new();
        for key in keys(&query.clone().eq(CURRENCIES[currency]).range(range)) {
            let spikelet::Key::Integer(key) = key else { panic!("{key}") };
            found.push((model[&key][&currency], key));
        }
        // Equal prices stand in the order of digests.
        prop_assert!(found.is_sorted_by_key(|(price, _)| *price));
        found.sort_unstable();
        prop_assert_eq!(found, expected);
        // The third condition is about the next component.
        let exact = query.eq(CURRENCIES[currency]).eq(from).eq(7);
        let expected = model.values().filter(|of| of.get(&currency) == Some(&from)).count();
        prop_assert_eq!(keys(&exact).len(), expected);
    }
}

#[test]
fn entries_of_a_sharded_map_are_found_by_its_root() {
    let store = Store::in_memory().unwrap();
    let shops = store.set("shops").unwrap();
    let by_price = IndexDefinition::new("by_price", [IndexComponent::bin("prices").map_entries()]);
    shops.create_index(by_price).unwrap();
    let prices = ShardedMap::new(&store, "shops", "corner", "prices").unwrap();
    for item in 0..50 {
        prices.put(format!("item {item}"), item).unwrap();
    }
    let find = |item: i64, most: i64| {
        let query = shops.query("by_price").unwrap();
        keys(&query.eq(format!("item {item}")).at_most(most))
    };
    for shards in [1, 4] {
        if shards > 1 {
            prices.shards().activate(shards).unwrap();
        }
        assert_eq!(find(17, 17), ["corner".into()]);
        assert_eq!(find(17, 16), []);
    }
}

#[test]
fn an_index_that_ignores_long_text_ignores_it_as_a_key_of_entries_too() {
    let shoes = Store::in_memory().unwrap().set("shoes").unwrap();
    let entries = IndexComponent::bin("prices").map_entries();
    let by_price = IndexDefinition::new("by_price", [entries]).ignoring_longer_than(1_000);
    shoes.create_index(by_price).unwrap();
    let prices = Value::from([("k".repeat(17_000), 1), ("EUR".to_owned(), 1)]);
    shoes.put("boot", [("prices", prices)]).unwrap();
    let query = shoes.query("by_price").unwrap();
    assert_eq!(keys(&query.clone().eq("EUR").eq(1)), ["boot".into()]);
    assert_eq!(keys(&query.eq("k".repeat(17_000)).eq(1)), []);
}

#[test]
fn entries_have_no_geometries_and_one_condition_more_than_components() {
    let shoes = Store::in_memory().unwrap().set("shoes").unwrap();
    let entries = || IndexComponent::bin("prices").map_entries();
    let geometries = entries().of_type(IndexType::GeoJson);
    let refused = shoes.create_index(IndexDefinition::new("where", [geometries]));
    assert!(matches!(refused, Err(Error::Parameter(_))), "{refused:?}");
    shoes
        .create_index(IndexDefinition::new("by_price", [entries()]))
        .unwrap();
    let query = shoes.query("by_price").unwrap().eq("EUR").eq(1);
    assert_eq!(keys(&query), []);
    let explained = query.explain().unwrap();
    assert_eq!(
        explained.conditions,
        ["key of prices is \"EUR\"", "value of prices is 1"]
    );
    assert!(matches!(query.eq(2).keys(), Err(Error::Parameter(_))));
}

/// Sought as the negative integer that it is read as, it would be found among others.
#[test]
fn an_integer_above_the_signed_ones_is_in_no_index() {
    let store = Store::in_memory().unwrap();
    let set = store.set("shoes").unwrap();
    let indexes = [
        ("elements", IndexComponent::bin("l").elements()),
        ("keys", IndexComponent::bin("m").map_keys()),
        ("values", IndexComponent::bin("m").map_values()),
    ];
    for (name, component) in indexes {
        set.create_index(IndexDefinition::new(name, [component]))
            .unwrap();
    }
    let entries = IndexComponent::bin("m").map_entries();
    set.create_index(IndexDefinition::new("entries", [entries]))
        .unwrap();
    let big = [0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let list = [&[0x92, 5][..], &big].concat();
    let map = [&[0x82, 5][..], &big, &big, &[6]].concat();
    set.operate(
        1,
        &[
            put_encoded("l", ParticleType::List, list),
            put_encoded("m", ParticleType::Map, map),
        ],
    )
    .unwrap();
    let count = |name: &str, value: i64| set.query(name).unwrap().eq(value).count().unwrap();
    for (name, there) in [("elements", 5), ("keys", 5), ("values", 6)] {
        assert_eq!((count(name, -1), count(name, there)), (0, 1), "{name}");
    }
    let entry = |key: i64, value: i64| {
        let query = set.query("entries").unwrap().eq(key).eq(value);
        query.count().unwrap()
    };
    assert_eq!((entry(-1, 6), entry(5, -1)), (0, 0));
    let at_key = IndexComponent::bin("m").at([ctx::map_key(5)]);
    set.create_index(IndexDefinition::new("at_key", [at_key]))
        .unwrap();
    assert_eq!(count("at_key", -1), 0);
}
