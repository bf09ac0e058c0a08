//! Random records, indexes, queries, edits and restarts beside a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spikelet::query::{IndexComponent, IndexDefinition, Query};
use spikelet::{Key, Set, Store, Value};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Value, Value),
    Delete(u8),
    Index,
    Drop,
    Truncate,
    Reopen(bool),
    Ask(Ask),
}

#[derive(Clone, Debug)]
struct Ask {
    equal: Option<Value>,
    from: Option<Value>,
    to: Option<Value>,
    descending: bool,
    limit: usize,
}

/// Few of them, so that they meet.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-2_i64..3).prop_map(Value::Int),
        2 => "[ab\u{0}]{0,2}".prop_map(Value::String),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => prop::sample::select(vec![-0.5, 0.0, 1.5]).prop_map(Value::Float),
        1 => prop::collection::vec(0_u8..3, 0..2).prop_map(Value::Blob),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => scalar(),
        1 => prop::collection::vec(scalar(), 0..4).prop_map(|items| Value::List(items.into())),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let bound = || prop::option::of((-2_i64..3).prop_map(Value::Int));
    (
        prop::option::of(scalar()),
        bound(),
        bound(),
        any::<bool>(),
        1_usize..5,
    )
        .prop_map(|(equal, from, to, descending, limit)| Ask {
            equal,
            from,
            to,
            descending,
            limit,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_u8..24, value(), value()).prop_map(|(key, a, b)| Step::Put(key, a, b)),
        3 => (0_u8..24).prop_map(Step::Delete),
        2 => Just(Step::Index),
        1 => Just(Step::Drop),
        1 => Just(Step::Truncate),
        1 => any::<bool>().prop_map(Step::Reopen),
        8 => ask().prop_map(Step::Ask),
    ]
}

type Model = BTreeMap<u8, (Value, Value)>;

/// A type, and the value by its number or its bytes.
type Place = (u8, i64, Vec<u8>);

/// The place of a scalar in the order of values; `None`: it is in no index.
fn place(value: &Value) -> Option<Place> {
    Some(match value {
        Value::Bool(value) => (0, i64::from(*value), Vec::new()),
        Value::Int(value) => (1, *value, Vec::new()),
        Value::String(text) => (2, 0, text.clone().into_bytes()),
        Value::Blob(bytes) => (3, 0, bytes.clone()),
        Value::Float(value) => (4, (value * 2.0) as i64, Vec::new()),
        _ => return None,
    })
}

/// The keys that a query over `a` (whole) and `b` must find, in order, as far as the order is that
/// of the index.
fn expected(model: &Model, ask: &Ask) -> Vec<(Vec<Place>, u8)> {
    let mut found = Vec::new();
    for (key, (a, b)) in model {
        let (Some(a), Some(b)) = (place(a), place(b)) else {
            continue;
        };
        if let Some(equal) = &ask.equal {
            let bound = |bound: &Option<Value>| bound.as_ref().and_then(place);
            let (from, to) = (bound(&ask.from), bound(&ask.to));
            let is_int = from.is_none() && to.is_none() || b.0 == 1;
            let is_above = from.is_none_or(|from| b >= from);
            let is_below = to.is_none_or(|to| b <= to);
            if place(equal).as_ref() != Some(&a) || !(is_int && is_above && is_below) {
                continue;
            }
        }
        found.push((vec![a, b], *key));
    }
    found.sort();
    if ask.descending {
        found.reverse();
    }
    found
}

fn query(set: &Set, ask: &Ask) -> Query {
    let mut query = set.query("by_a_b").unwrap().limit(ask.limit);
    if let Some(equal) = &ask.equal {
        query = query.eq(equal.clone());
        query = match (ask.from.clone(), ask.to.clone()) {
            (Some(from), Some(to)) => query.range(from..=to),
            (Some(from), None) => query.at_least(from),
            (None, Some(to)) => query.at_most(to),
            (None, None) => query,
        };
    }
    if ask.descending {
        query.descending()
    } else {
        query
    }
}

/// All pages of a query, one after the other.
fn pages(mut query: Query) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        let page = query.keys().unwrap();
        for key in page.iter().map(|found| found.as_ref().unwrap().key.clone()) {
            match key {
                Some(Key::Integer(key)) => found.push(key as u8),
                other => panic!("{other:?}"),
            }
        }
        match page.cursor() {
            Some(cursor) => query = query.after(cursor),
            None => return found,
        }
    }
}

fn check(set: &Set, model: &Model, ask: &Ask) {
    let expected = expected(model, ask);
    let found = pages(query(set, ask));
    // Records with the same values stand in the order of their digests, which is not the model's.
    let values = |key: &u8| {
        let record = expected.iter().find(|(_, known)| known == key);
        record.map(|(values, _)| values.clone())
    };
    let found_values: Vec<_> = found.iter().map(values).collect();
    let wanted: Vec<_> = expected
        .iter()
        .map(|(values, _)| Some(values.clone()))
        .collect();
    assert_eq!(found_values, wanted, "{ask:?}");
    let mut distinct = found.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), found.len());
    let count = query(
        set,
        &Ask {
            limit: usize::MAX,
            ..ask.clone()
        },
    )
    .count();
    assert_eq!(count.unwrap(), expected.len() as u64);
}

/// The index over the elements of `b`.
fn check_elements(set: &Set, model: &Model, wanted: &Value) {
    let has = |(_, b): &(Value, Value)| match b {
        Value::List(items) => items.iter().any(|item| place(item) == place(wanted)),
        _ => false,
    };
    let expected: Vec<u8> = model
        .iter()
        .filter(|(_, bins)| has(bins))
        .map(|(key, _)| *key)
        .collect();
    let mut found = pages(set.query("by_element").unwrap().eq(wanted.clone()).limit(2));
    found.sort_unstable();
    assert_eq!(found, expected);
    let lists = model.values().filter(|(_, b)| match b {
        Value::List(items) => !items.is_empty(),
        _ => false,
    });
    let all = pages(set.query("by_element").unwrap().limit(3));
    assert_eq!(all.len(), lists.count());
}

fn run(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let mut set = store.set("things").unwrap();
    let (mut model, mut is_indexed) = (Model::new(), false);
    for step in steps {
        match step {
            Step::Put(key, a, b) => {
                set.put(i64::from(key), [("a", a.clone()), ("b", b.clone())])
                    .unwrap();
                model.insert(key, (a, b));
            }
            Step::Delete(key) => {
                let deleted = set.delete(i64::from(key)).unwrap().is_some();
                assert_eq!(deleted, model.remove(&key).is_some());
            }
            Step::Index => {
                set.create_index(IndexDefinition::new("by_a_b", ["a", "b"]))
                    .unwrap();
                let elements = IndexComponent::bin("b").elements();
                set.create_index(IndexDefinition::new("by_element", [elements]))
                    .unwrap();
                is_indexed = true;
            }
            Step::Drop if is_indexed => {
                set.drop_index("by_a_b").unwrap();
                set.drop_index("by_element").unwrap();
                is_indexed = false;
            }
            Step::Truncate => {
                set.truncate(None).unwrap();
                model.clear();
            }
            Step::Reopen(closes) => {
                if closes {
                    store.close().unwrap();
                }
                drop((set, store));
                store = Store::open(dir.path()).unwrap();
                set = store.set("things").unwrap();
            }
            Step::Ask(ask) if is_indexed => {
                check(&set, &model, &ask);
                check_elements(&set, &model, &ask.equal.unwrap_or(1.into()));
            }
            Step::Drop | Step::Ask(_) => {}
        }
        if is_indexed {
            let by_a_b = store.namespace("test").unwrap().indexes().remove(0);
            let scalars = model
                .values()
                .filter(|(a, b)| place(a).is_some() && place(b).is_some());
            assert_eq!(by_a_b.entries, scalars.count() as u64);
        }
        let mut all = pages(set.query_all().limit(7));
        all.sort_unstable();
        assert_eq!(all, model.keys().copied().collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn queries_agree_with_a_naive_model(steps in prop::collection::vec(step(), 1..120)) {
        run(steps);
    }
}

/// `SPIKELET_LONG=1`: millions of operations.
fn cases() -> u32 {
    match std::env::var_os("SPIKELET_LONG") {
        Some(_) => 20_000,
        None => 48,
    }
}
