//! The fast paths against the plain ones.

use proptest::prelude::*;

use super::super::merge;
use super::*;
use crate::value::testing::any_value;

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d", "e"])
}

fn some_bins() -> impl Strategy<Value = Bins> {
    let value = prop_oneof![
        storable(),
        prop::collection::vec(0..9_i64, 0..5).prop_map(|items| ints(&items)),
        (0..5_i64).prop_map(Value::Int),
        "[a-z]{0,200}".prop_map(Value::String),
    ];
    prop::collection::vec((name(), value), 0..5).prop_map(|entries| {
        let mut bins = Bins::new();
        entries
            .into_iter()
            .for_each(|(name, value)| bins.set(name, value).unwrap());
        bins
    })
}

/// A value that a whole bin can hold: GeoJSON and sketches are checked there.
fn storable() -> impl Strategy<Value = Value> {
    any_value().prop_map(|value| match value {
        Value::GeoJson(_) => {
            Value::GeoJson(r#"{"type":"Point","coordinates":[1.5,2.5]}"#.to_owned())
        }
        Value::Hll(sketch) => Value::Blob(sketch),
        value => value,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let policies = prop::sample::select(vec![
        ListPolicy::default(),
        ListPolicy::new(ListOrder::Ordered, Flags::ADD_UNIQUE).persist_index(true),
    ]);
    prop_oneof![
        name().prop_map(operations::get_bin),
        (name(), storable()).prop_map(|(bin, value)| operations::put(bin, value)),
        name().prop_map(operations::delete_bin),
        (name(), 0..3_i64).prop_map(|(bin, by)| operations::add(bin, by)),
        (name(), "[a-c]{0,3}").prop_map(|(bin, text)| operations::append(bin, text)),
        (name(), "[a-c]{0,3}").prop_map(|(bin, text)| operations::prepend(bin, text)),
        (name(), policies, 0..9_i64)
            .prop_map(|(bin, policy, item)| lists::append(&policy, bin, item)),
        (name(), 0..9_i64).prop_map(|(bin, item)| lists::remove_by_value(bin, item, Return::Count)),
        Just(operations::delete_all_bins()),
    ]
}

proptest! {
    #[test]
    fn one_write_comes_out_the_same_by_the_short_and_the_long_way(
        old in prop::option::of(some_bins()),
        mut operations in prop::collection::vec(operation(), 1..4),
    ) {
        let short = execute_in(Mode::empty(), old.as_ref(), &operations);
        operations.push(operations::touch());
        let long = execute_in(Mode::empty(), old.as_ref(), &operations);
        match (short, long) {
            (Ok(short), Ok(long)) => prop_assert_eq!(short, long),
            (short, long) => prop_assert_eq!(code(short), code(long)),
        }
    }

    #[test]
    fn operations_one_by_one_come_out_the_same_as_together(
        old in some_bins(),
        operations in prop::collection::vec(operation(), 1..6),
    ) {
        let together = execute_in(Mode::empty(), Some(&old), &operations);
        let mut body = body_of(&old);
        let mut failed = None;
        for operation in &operations {
            let mut next = Vec::new();
            let view = RecordView::parse(&body).unwrap();
            let checked = Checked::new(std::slice::from_ref(operation), Mode::empty()).unwrap();
            match checked.execute(Some(view), &mut next, &mut OperationResults::default()) {
                Ok(_) => body = next,
                Err(error) => {
                    failed = Some(error.result_code());
                    break;
                }
            }
        }
        match failed {
            Some(expected) => prop_assert_eq!(code(together), expected),
            None => prop_assert_eq!(together.unwrap().0, body),
        }
    }

    #[test]
    fn merging_bins_is_setting_them_one_by_one(
        old in prop::option::of(some_bins()),
        new in some_bins(),
        many in any::<bool>(),
    ) {
        let mut new = new;
        if many {
            for i in 0..20 {
                new.set(&format!("n{i}"), i).unwrap();
            }
        }
        let old = old.map(|old| bins_of(&body_of(&old)));
        let mut expected = old.clone().unwrap_or_default();
        for (name, value) in new.iter() {
            if *value == Value::Nil {
                expected.remove(name.as_str());
            } else {
                expected.insert(*name, value.clone());
            }
        }
        let old = old.as_ref().map(body_of);
        let mut body = Vec::new();
        let view = old.as_ref().map(|old| RecordView::parse(old).unwrap());
        let count = merge(view, &new, &mut body).unwrap();
        prop_assert_eq!(count as usize, expected.len());
        prop_assert_eq!(body, body_of(&expected));
    }
}
