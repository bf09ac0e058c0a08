//! Groups of writes beside a naive model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use spikelet::Operation;

use super::*;

/// A change to one record of the model.
#[derive(Clone, Debug)]
enum ModelWrite {
    Put(i64),
    Add(i64),
    Create(i64),
    AtGeneration(u16),
    AtLeast(i64),
    Clear,
    Delete,
}

type Model = BTreeMap<i64, (u16, i64)>;

fn model_write() -> impl Strategy<Value = (i64, ModelWrite)> {
    let write = prop_oneof![
        (0..9_i64).prop_map(ModelWrite::Put),
        (0..9_i64).prop_map(ModelWrite::Add),
        (0..9_i64).prop_map(ModelWrite::Create),
        (0..4_u16).prop_map(ModelWrite::AtGeneration),
        (0..9_i64).prop_map(ModelWrite::AtLeast),
        Just(ModelWrite::Clear),
        Just(ModelWrite::Delete),
    ];
    (0..4_i64, write)
}

/// Does a write to the model. Returns the generation, or the code of the refusal.
fn on_model(model: &mut Model, key: i64, write: &ModelWrite) -> std::result::Result<u16, u8> {
    let found = model.get(&key).copied();
    let (generation, value) = found.unwrap_or_default();
    let value = match write {
        ModelWrite::Put(new) => Some(*new),
        ModelWrite::Add(more) => Some(value + more),
        ModelWrite::Create(_) if found.is_some() => return Err(5),
        ModelWrite::Create(new) => Some(*new),
        ModelWrite::AtGeneration(expected) if *expected != generation => return Err(3),
        ModelWrite::AtGeneration(_) => Some(value + 1),
        ModelWrite::AtLeast(least) if found.is_some() && value < *least => return Err(27),
        ModelWrite::AtLeast(_) => Some(value + 1),
        ModelWrite::Clear if found.is_none() => return Err(2),
        ModelWrite::Clear | ModelWrite::Delete => None,
    };
    match value {
        Some(value) => model.insert(key, (generation + 1, value)),
        None => model.remove(&key),
    };
    Ok(model.get(&key).map_or(0, |(generation, _)| *generation))
}

/// The policy and the operations of a write; `None`: a deletion.
fn as_operations(write: &ModelWrite) -> (WritePolicy, Option<Vec<Operation>>) {
    let any = WritePolicy::default();
    match write {
        ModelWrite::Put(new) => (any, Some(vec![put("n", *new)])),
        ModelWrite::Add(more) => (any, Some(vec![add("n", *more)])),
        ModelWrite::Create(new) => (creating(), Some(vec![put("n", *new)])),
        ModelWrite::AtGeneration(expected) => {
            (of_generation(u32::from(*expected)), Some(vec![add("n", 1)]))
        }
        ModelWrite::AtLeast(least) => (
            any.filter(ge(int_bin("n"), int_val(*least))),
            Some(vec![add("n", 1)]),
        ),
        ModelWrite::Clear => (any, Some(vec![delete_all_bins()])),
        ModelWrite::Delete => (any, None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("SPIKELET_LONG").is_some() { 20_000 } else { 300 },
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn groups_do_what_a_model_does(
        groups in prop::collection::vec(prop::collection::vec(model_write(), 0..6), 1..12),
    ) {
        let (_store, namespace, accounts) = open();
        let mut model = Model::new();
        for group in &groups {
            let prepared: Vec<_> = group
                .iter()
                .map(|(key, write)| (*key, write, as_operations(write)))
                .collect();
            let results = namespace.write_together(|writes| {
                for (key, _, (policy, operations)) in &prepared {
                    match operations {
                        Some(operations) => writes.operate_with(policy, &accounts, *key, operations),
                        None => writes.delete_with(policy, &accounts, *key),
                    }
                }
            });
            let (mut after, mut generations, mut refused) = (model.clone(), vec![], vec![]);
            for (position, (key, write, _)) in prepared.iter().enumerate() {
                match on_model(&mut after, *key, write) {
                    Ok(generation) => generations.push(generation),
                    Err(code) => refused.push((position, code)),
                }
            }
            if refused.is_empty() {
                let told: Vec<u16> = results.unwrap().iter().map(|it| it.generation).collect();
                prop_assert_eq!(told, generations);
                model = after;
            } else {
                prop_assert_eq!(refusals(&results), refused);
            }
            for key in 0..4 {
                let found = accounts.get(key).unwrap();
                let found = found.map(|it| (it.generation(), it.get("n").unwrap().as_i64().unwrap()));
                prop_assert_eq!(found, model.get(&key).copied());
            }
        }
    }
}
