//! Leaderboards: the order of values over all shards, beside a map in memory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spikelet::{ShardedMap, Store, Value};

fn value(number: i64) -> Value {
    match number % 4 {
        0 => Value::Int(number / 8),
        1 => Value::Float(number as f64 / 8.0),
        2 => Value::String(format!("{:02}", number / 16)),
        _ => Value::Nil,
    }
}

/// A sort key by the order of values across types, for the values of `value`.
fn order(value: &Value) -> (u8, f64, String) {
    match value {
        Value::Nil => (0, 0.0, String::new()),
        Value::Int(number) => (1, *number as f64, String::new()),
        Value::String(text) => (2, 0.0, text.clone()),
        Value::Float(number) => (3, *number, String::new()),
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn ranks_and_ends_are_those_of_all_entries_at_any_number_of_shards(
        entries in prop::collection::btree_map(0_i64..200, 0_i64..64, 0..60),
        shards in prop::sample::select(vec![1_u64, 2, 4, 8]),
        limit in 0_u64..70,
    ) {
        let store = Store::in_memory().unwrap();
        let map = ShardedMap::new(&store, "games", "tetris", "scores").unwrap();
        let model: BTreeMap<i64, Value> =
            entries.into_iter().map(|(key, number)| (key, value(number))).collect();
        for (key, value) in &model {
            map.put(*key, value.clone()).unwrap();
        }
        if shards > 1 && !model.is_empty() {
            map.shards().activate(shards).unwrap();
        }
        let mut ordered: Vec<(i64, Value)> = model.clone().into_iter().collect();
        ordered.sort_by(|(a_key, a), (b_key, b)| {
            order(a).partial_cmp(&order(b)).unwrap().then(a_key.cmp(b_key))
        });
        let pairs = |entries: Vec<(i64, Value)>| -> Vec<(Value, Value)> {
            let first = entries.into_iter().take(limit as usize);
            first.map(|(key, value)| (key.into(), value)).collect()
        };
        prop_assert_eq!(map.least(limit).unwrap(), pairs(ordered.clone()));
        let descending = ordered.iter().rev().cloned().collect();
        prop_assert_eq!(map.greatest(limit).unwrap(), pairs(descending));
        for (key, value) in &model {
            let smaller = |other: &&(i64, Value)| order(&other.1) < order(value);
            let rank = ordered.iter().filter(smaller).count() as u64;
            prop_assert_eq!(map.rank(&(*key).into()).unwrap(), Some(rank));
        }
        prop_assert_eq!(map.rank(&(-1).into()).unwrap(), None);
    }
}
