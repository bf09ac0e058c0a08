//! One side of a relation reads the same in the record, by a batch, in a transaction, and by the
//! handle of a sharded collection, for every maker of the list.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proptest::prelude::*;
use spikelet::operations::lists;
use spikelet::relation::ManyToMany;
use spikelet::{
    Key, ListOrder, ListPolicy, ListWriteFlags, RecordStore, ShardedList, ShardedMap, Store, Value,
};

use crate::watched::{Calls, Watched};

/// In what state the collection of the targets is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// In its record, made by the relation.
    Linked,
    /// In its record, without order and with repeats, made by another program.
    Foreign,
    Sharded,
    /// In its record, beside a sharded collection.
    BesideSharded,
}

fn follows<S: RecordStore>(store: S, has_attributes: bool) -> ManyToMany<S> {
    let relation = ManyToMany::new(store, "follows", ("users", "targets"), ("users", "sources"));
    if has_attributes {
        relation.with_attributes()
    } else {
        relation
    }
}

fn any_key() -> impl Strategy<Value = Key<'static>> {
    prop_oneof![
        (0_i64..12).prop_map(Key::Integer),
        (-70_000_i64..70_000).prop_map(Key::Integer),
        any::<i64>().prop_map(Key::Integer),
        "[ab]{1,2}".prop_map(Key::from),
        prop::collection::vec(b'a'..=b'b', 1..3).prop_map(Key::from),
    ]
}

fn element(key: &Key<'_>) -> Value {
    match key {
        Key::Integer(id) => (*id).into(),
        Key::String(text) => Value::String(text.to_string()),
        Key::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

const OWNER: &str = "owner";

/// Makes the targets of the owner, and returns them in order.
fn make(
    store: &Store,
    form: Form,
    has_attributes: bool,
    keys: &[Key<'static>],
) -> Vec<Key<'static>> {
    let relation = follows(store, has_attributes);
    let mut expected = keys.to_vec();
    expected.sort();
    if form == Form::Foreign {
        let users = store.set("users").unwrap();
        let plain = ListPolicy::new(ListOrder::Unordered, ListWriteFlags::empty());
        for key in keys {
            let append = lists::append(&plain, "targets", element(key));
            users.operate(OWNER, &[append]).unwrap();
        }
        return expected;
    }
    expected.dedup();
    for key in keys {
        relation.link(OWNER, key).unwrap();
    }
    let sharded = match form {
        Form::Sharded => "targets",
        Form::BesideSharded => {
            relation.link(77, OWNER).unwrap();
            "sources"
        }
        _ => return expected,
    };
    if has_attributes {
        let map = ShardedMap::new(store, "users", OWNER, sharded).unwrap();
        map.shards().activate(2).unwrap();
    } else {
        let list = ShardedList::new(store, "users", OWNER, sharded).unwrap();
        list.shards().activate(2).unwrap();
    }
    expected
}

fn check<S: RecordStore>(
    relation: &ManyToMany<S>,
    expected: &[Key<'static>],
    asked: &[Key<'static>],
) {
    let targets = relation.targets(OWNER);
    assert_eq!(targets.len().unwrap(), expected.len() as u64);
    assert_eq!(targets.page(0, 1_000).unwrap(), expected);
    for (offset, limit) in [(0, 1), (1, 3), (4, 2), (1_000, 1), (0, 0)] {
        let page: Vec<_> = expected.iter().skip(offset).take(limit).cloned().collect();
        assert_eq!(targets.page(offset as u64, limit as u64).unwrap(), page);
    }
    for key in asked {
        let is_there = expected.contains(key);
        assert_eq!(relation.contains(OWNER, key).unwrap(), is_there, "{key}");
        for limit in [1, 3, 1_000] {
            let behind = expected.iter().filter(|other| *other > key);
            let page: Vec<_> = behind.take(limit).cloned().collect();
            let found = targets.page_after(Some(key), limit as u64).unwrap();
            assert_eq!(found, page, "{limit} after {key}");
        }
    }
    let mut reached = BTreeSet::new();
    let one_step = relation.targets(OWNER).traverse().depth_max(1);
    let end = one_step.breadth_first(|key, _, _| {
        assert!(reached.insert(key.clone()), "{key} was shown twice");
        ControlFlow::Continue(())
    });
    end.unwrap();
    assert_eq!(reached, expected.iter().cloned().collect());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_ways_of_reading_show_the_same(
        keys in prop::collection::vec(any_key(), 1..20),
        asked in prop::collection::vec(any_key(), 0..4),
        form in prop::sample::select(vec![Form::Linked, Form::Foreign, Form::Sharded, Form::BesideSharded]),
        has_attributes in any::<bool>(),
    ) {
        let has_attributes = has_attributes && form != Form::Foreign;
        let store = Store::in_memory().unwrap();
        let expected = make(&store, form, has_attributes, &keys);
        let asked: Vec<_> = asked.into_iter().chain(keys).collect();
        check(&follows(&store, has_attributes), &expected, &asked);
        let watched = Watched::new(&store, &Calls::default());
        check(&follows(watched, has_attributes), &expected, &asked);
        store
            .transaction(|transaction| {
                check(&follows(transaction, has_attributes), &expected, &asked);
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn an_owner_without_a_record_has_no_edges() {
    let store = Store::in_memory().unwrap();
    check(&follows(&store, false), &[], &[1.into()]);
    check(&follows(&store, true), &[], &["a".into()]);
    store
        .set("users")
        .unwrap()
        .put(OWNER, [("age", 1)])
        .unwrap();
    check(&follows(&store, false), &[], &[1.into()]);
    check(&follows(&store, true), &[], &["a".into()]);
}

#[test]
fn an_element_that_is_no_key_is_named_as_such_by_every_way_of_reading() {
    let store = Store::in_memory().unwrap();
    let list = Value::from(vec![Value::from(1), 1.5.into()]);
    let users = store.set("users").unwrap();
    users.put(OWNER, [("targets", list)]).unwrap();
    let relation = follows(&store, false);
    let refused = [
        relation.targets(OWNER).page(0, 10).unwrap_err(),
        relation
            .targets(OWNER)
            .traverse()
            .at_distance_two(1)
            .unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("1.5"), "{error}");
    }
}
