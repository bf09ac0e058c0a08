use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spikelet::operations::put_encoded;
use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::relation::{ManyToMany, OnDelete, RelationFault, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::storage::ManualClock;
use spikelet::value::ParticleType;
use spikelet::{
    Error, Expiration, Key, NamespaceConfig, RecordStore, Store, Value, WritePolicy, bins,
};

use crate::watched::{Calls, Watched};

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn calls_cost_what_their_documentation_says() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let follows = follows(Watched::new(&store, &calls));
    for id in 0..100 {
        store.set("users").unwrap().put(id, [("age", id)]).unwrap();
    }
    follows.link(0, 1).unwrap();
    assert_eq!(calls.take(), (2, 0));
    for id in 2..100 {
        follows.link(0, id).unwrap();
    }
    calls.take();
    assert!(follows.contains(0, 7).unwrap());
    assert_eq!(calls.take(), (1, 0));
    assert_eq!(follows.targets(0).len().unwrap(), 99);
    let (single, batches) = calls.take();
    assert_eq!(single + batches, 1);
    let page = follows.targets(0).fetch(20, 50).unwrap();
    assert_eq!(page.len(), 50);
    assert_eq!(page[0].record.as_ref().unwrap().get("age"), Some(21.into()));
    let (single, batches) = calls.take();
    assert_eq!(single + batches, 2, "one page and one batch");
    follows.unlink(0, 7).unwrap();
    assert_eq!(calls.take(), (2, 0));
}

#[test]
fn pages_are_in_order_on_both_sides() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    for id in (0..30).rev() {
        follows.link(id, 100).unwrap();
        follows.link(100, id).unwrap();
    }
    let ids: Vec<Key<'_>> = (10..15).map(Key::from).collect();
    assert_eq!(follows.sources(100).page(10, 5).unwrap(), ids);
    assert_eq!(
        follows.targets(100).page_after(Some(&9.into()), 5).unwrap(),
        ids
    );
    assert_eq!(follows.targets(100).iter().count(), 30);
    let mutual = follows
        .targets(100)
        .common(&follows.sources(100), Some(&9.into()), 5);
    assert_eq!(mutual.unwrap(), ids);
}

#[test]
fn edges_have_attributes_and_are_ordered_by_them() {
    let store = Store::in_memory().unwrap();
    let modified = ManyToMany::new(
        &store,
        "modified",
        ("items", "modified_by"),
        ("users", "modified"),
    )
    .with_attributes();
    for (user, date) in [
        ("users/1-A", "2020-03-01"),
        ("users/2-A", "2020-01-01"),
        ("users/3-A", "2020-02-01"),
    ] {
        modified.link_with("items/1-A", user, date).unwrap();
    }
    let latest = modified.targets("items/1-A").greatest(2).unwrap();
    let latest: Vec<_> = latest.into_iter().map(|(key, _)| key).collect();
    assert_eq!(latest, ["users/1-A".into(), "users/3-A".into()]);
    let date: Option<String> = modified.attributes("items/1-A", "users/2-A").unwrap();
    assert_eq!(date.as_deref(), Some("2020-01-01"));
    let refused = follows(&store).link_with(1, 2, "x").unwrap_err();
    assert_eq!(refused.result_code(), 4);
}

#[test]
fn a_failed_call_names_relation_side_and_key() {
    let store = Store::in_memory().unwrap();
    store
        .set("users")
        .unwrap()
        .put("lisa", bins! { "followers" => 7 })
        .unwrap();
    let refused = follows(&store).link("bart", "lisa").unwrap_err();
    assert!(matches!(&refused, Error::Relation { at, .. } if &*at.relation == "follows"));
    let text = refused.to_string();
    assert!(
        text.contains("\"followers\"") && text.contains("\"lisa\""),
        "{text}"
    );
    assert_eq!(refused.result_code(), 12);
}

/// Kills a call after each of its operations; the records must be as documented, and mended by an
/// audit.
fn killed_anywhere(
    prepare: impl Fn(&ManyToMany<&Store>),
    call: impl Fn(&ManyToMany<Watched<Store>>) -> bool,
) {
    for operations in 0.. {
        let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
        for id in 0..5 {
            store.set("users").unwrap().put(id, [("id", id)]).unwrap();
        }
        let plain = follows(&store);
        prepare(&plain);
        calls.die_after(operations);
        let ended = call(&follows(Watched::new(&store, &calls)));
        let before = plain.verify(Repair::Yes, go_on).unwrap();
        for fault in &before.faults {
            assert!(
                matches!(fault, RelationFault::MissingAtTarget { .. }),
                "{fault} after {operations}"
            );
        }
        assert!(plain.verify(Repair::No, go_on).unwrap().is_sound());
        if ended {
            assert!(before.is_sound());
            return;
        }
    }
}

#[test]
fn a_kill_between_two_steps_leaves_what_an_audit_repairs() {
    killed_anywhere(|_| {}, |follows| follows.link(0, 1).is_ok());
    killed_anywhere(
        |plain| {
            plain.link(0, 1).unwrap();
        },
        |follows| follows.unlink(0, 1).is_ok(),
    );
    killed_anywhere(
        |plain| {
            for id in 1..5 {
                plain.link(0, id).unwrap();
                plain.link(id, 0).unwrap();
            }
        },
        |follows| {
            follows
                .delete_with_edges(0, OnDelete::Detach, go_on)
                .is_ok()
        },
    );
}

#[test]
fn an_audit_finds_and_repairs_each_kind_of_fault() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    let users = store.set("users").unwrap();
    follows.link("bart", "lisa").unwrap();
    follows.link("homer", "marge").unwrap();
    follows.link("marge", "maggie").unwrap();
    let careless = WritePolicy::default().override_shards(true);
    users
        .put_with(
            &careless,
            "lisa",
            bins! { "followers" => Value::Nil, "id" => 1 },
        )
        .unwrap();
    users
        .put_with(
            &careless,
            "homer",
            bins! { "following" => Value::Nil, "id" => 1 },
        )
        .unwrap();
    users.delete_with(&careless, "maggie").unwrap();
    let found = follows.verify(Repair::No, go_on).unwrap();
    assert_eq!(
        found.faults,
        follows.verify(Repair::Yes, go_on).unwrap().faults
    );
    let faults: BTreeSet<String> = found.faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    assert!(follows.sources("lisa").contains("bart").unwrap());
    assert!(!follows.sources("marge").contains("homer").unwrap());
    assert!(!follows.contains("marge", "maggie").unwrap());
}

#[test]
fn a_delete_that_was_stopped_goes_on_where_it_was() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store).shard_policy(ShardPolicy::manual().record_bytes_max(2_000));
    for id in 1..2_000 {
        follows.link(id, 0).unwrap();
    }
    let refused = follows
        .delete_with_edges(0, OnDelete::Restrict, go_on)
        .unwrap_err();
    assert!(
        matches!(&refused, Error::HasEdges { relations, .. } if *relations == [("follows".into(), 1_999)]),
        "{refused}"
    );
    let mut removed = 0;
    let ended = follows.delete_with_edges(0, OnDelete::Detach, |progress| {
        removed = progress.edges;
        if progress.edges == 700 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(!ended.unwrap());
    assert_eq!((removed, follows.sources(0).len().unwrap()), (700, 1_299));
    assert!(
        follows
            .delete_with_edges(0, OnDelete::Detach, go_on)
            .unwrap()
    );
    assert!(store.set("users").unwrap().get(0).unwrap().is_none());
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
}

#[derive(Clone, Debug)]
enum Call {
    Link(i64, i64, i64),
    Unlink(i64, i64),
    Delete(i64),
}

fn call() -> impl Strategy<Value = Call> {
    let key = || 0..40_i64;
    prop_oneof![
        12 => (key(), key(), 0..5_i64).prop_map(|(a, b, c)| Call::Link(a % 8, b, c)),
        4 => (key(), key()).prop_map(|(a, b)| Call::Unlink(a % 8, b)),
        1 => key().prop_map(Call::Delete),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn both_sides_are_those_of_a_naive_model(calls in prop::collection::vec(call(), 1..150), small in any::<bool>(), maps in any::<bool>()) {
        let store = Store::in_memory().unwrap();
        let policy = if small {
ShardPolicy::manual().record_bytes_max(300)
} else {
ShardPolicy::manual()
};
        let mut follows = follows(&store).shard_policy(policy);
        if maps {
            follows = follows.with_attributes();
        }
        let mut model: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for call in calls {
            match call {
                Call::Link(a, b, date) => {
                    let is_new = if maps { follows.link_with(a, b, &date) } else { follows.link(a, b) };
                    prop_assert_eq!(is_new.unwrap(), model.insert((a, b), date).is_none());
                }
                Call::Unlink(a, b) => {
                    prop_assert_eq!(follows.unlink(a, b).unwrap(), model.remove(&(a, b)).is_some());
                }
                Call::Delete(a) => {
                    follows.delete_with_edges(a, OnDelete::Detach, go_on).unwrap();
                    model.retain(|(from, to), _| *from != a && *to != a);
                }
            }
        }
        for id in 0..40 {
            let targets: Vec<Key<'_>> = model.keys().filter(|(a, _)| *a == id).map(|(_, b)| (*b).into()).collect();
            let sources: Vec<Key<'_>> = model.keys().filter(|(_, b)| *b == id).map(|(a, _)| (*a).into()).collect();
            prop_assert_eq!(follows.targets(id).len().unwrap(), targets.len() as u64);
            prop_assert_eq!(follows.targets(id).page(0, 100).unwrap(), targets);
            prop_assert_eq!(follows.sources(id).page_after(None, 100).unwrap(), sources);
        }
        if maps {
            for ((a, b), date) in &model {
                prop_assert_eq!(follows.attributes::<i64>(*a, *b).unwrap(), Some(*date));
            }
        }
        let audit = follows.verify(Repair::No, go_on).unwrap();
        prop_assert!(audit.is_sound(), "{:?}", audit.faults);
        prop_assert_eq!(audit.edges, 2 * model.len() as u64);
    }
}

#[test]
fn within_a_transaction_all_edges_come_or_none() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    let refused: Result<(), Error> = store.transaction(|transaction| {
        let within = follows.within(transaction);
        within.link(1, 2)?;
        assert!(within.sources(2).contains(1)?);
        Err(Error::Forbidden("changed my mind".into()))
    });
    assert!(refused.is_err());
    assert!(!follows.contains(1, 2).unwrap());
    store
        .transaction(|transaction| {
            let within = follows.within(transaction);
            within.link(1, 2)?;
            within.link(2, 1)
        })
        .unwrap();
    assert_eq!(
        follows
            .targets(1)
            .common(&follows.sources(1), None, 9)
            .unwrap(),
        [2.into()]
    );
}

#[test]
fn all_edges_are_the_greatest_of_as_many_as_can_be_asked_for() {
    let store = Store::in_memory().unwrap();
    let modified = follows(&store).with_attributes();
    for (item, date) in [(1, "2020-01-01"), (2, "2020-03-01")] {
        modified.link_with("homer", item, date).unwrap();
    }
    let all = modified.targets("homer").greatest(usize::MAX).unwrap();
    let keys: Vec<Key<'_>> = all.into_iter().map(|(item, _)| item).collect();
    assert_eq!(keys, [2.into(), 1.into()]);
    assert_eq!(modified.targets("homer").greatest(0).unwrap(), []);
}

#[test]
fn a_key_larger_than_a_record_should_be_is_linked_all_the_same() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store).shard_policy(ShardPolicy::manual().record_bytes_max(600));
    let long = |id: u8| Key::from(format!("{id}{}", "k".repeat(900)));
    for id in 0..5 {
        follows.link(1, long(id)).unwrap();
        follows.link(2, i64::from(id) + 10).unwrap();
    }
    for id in 0..5 {
        assert!(follows.contains(1, long(id)).unwrap(), "{id}");
    }
    assert_eq!(follows.targets(1).len().unwrap(), 5);
    assert_eq!(follows.sources(long(3)).len().unwrap(), 1);
}

#[test]
fn what_keeps_edges_from_being_sharded_is_told_and_not_met_at_every_link() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let builder = Store::builder().namespace(NamespaceConfig::new("test"));
    let store = builder.clock(clock.clone()).open().unwrap();
    let live = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    let policy = ShardPolicy::manual().elements_max(Some(4));
    let brief = follows(&store).shard_policy(policy).write_policy(&live);
    let told = || store.namespace("test").unwrap().recent_transitions();
    for target in 1..=4 {
        brief.link(0, target).unwrap();
    }
    assert_eq!(told(), []);
    for target in 5..50 {
        clock.advance_ms(1);
        assert!(brief.link(0, target).unwrap());
    }
    let refused = told();
    let why = refused[0].refused.as_deref().unwrap();
    assert!(why.contains("expire"), "{why}");
    assert_eq!((refused.len(), &refused[0].key), (1, &Key::Integer(0)));
    assert_eq!(refused[0].reported_ms, refused[0].began_ms);
    // It is tried again when a second has gone by, and nothing is in the way.
    clock.advance_ms(1_000);
    let forever = WritePolicy::default().expiration(Expiration::Never);
    let lasting = follows(&store).shard_policy(policy).write_policy(&forever);
    lasting.link(0, 50).unwrap();
    let list = spikelet::ShardedList::new(&store, "users", 0, "following").unwrap();
    assert!(list.shards().state().unwrap().shards > 0);
    assert_eq!(lasting.targets(0).len().unwrap(), 50);
}

#[test]
fn an_index_that_keeps_edges_from_being_sharded_is_told() {
    let store = Store::in_memory().unwrap();
    let of_both = [IndexComponent::bin("following").elements(), "age".into()];
    let both = IndexDefinition::new("both", of_both);
    store.set("users").unwrap().create_index(both).unwrap();
    let policy = ShardPolicy::manual().elements_max(Some(4));
    let follows = follows(&store).shard_policy(policy);
    for target in 1..=5 {
        assert!(follows.link(0, target).unwrap());
    }
    let told = store.namespace("test").unwrap().recent_transitions();
    let why = told[0].refused.as_deref().unwrap();
    assert!(why.contains("both"), "{why}");
    assert_eq!(follows.targets(0).len().unwrap(), 5);
}

#[test]
fn a_pause_after_an_obstacle_ends_though_the_clock_is_set_back() {
    let now_ms = 500_000_000_000;
    let clock = Arc::new(ManualClock::at(now_ms));
    let builder = Store::builder().namespace(NamespaceConfig::new("test"));
    let store = builder.clock(clock.clone()).open().unwrap();
    let users = store.set("users").unwrap();
    let of_both = [IndexComponent::bin("following").elements(), "age".into()];
    users
        .create_index(IndexDefinition::new("both", of_both))
        .unwrap();
    let policy = ShardPolicy::manual().elements_max(Some(4));
    let follows = follows(&store).shard_policy(policy);
    for target in 1..=5 {
        assert!(follows.link(0, target).unwrap());
    }
    users.drop_index("both").unwrap();
    clock.set_ms(now_ms - 86_400_000);
    assert!(follows.link(0, 6).unwrap());
    let list = spikelet::ShardedList::new(&store, "users", 0, "following").unwrap();
    assert!(list.shards().state().unwrap().shards > 0);
}

/// Client blobs are read as other blobs, which are not there.
#[test]
fn keys_that_are_read_as_others_end_a_verification_and_a_delete() {
    let store = Store::in_memory().unwrap();
    let mut list = vec![0xdc, 2, 0x58];
    for number in 0..600_u16 {
        list.extend([0xa3, 9]);
        list.extend(number.to_be_bytes());
    }
    let users = store.set("users").unwrap();
    let put = put_encoded("following", ParticleType::List, list);
    users.operate("alice", &[put]).unwrap();
    let follows = follows(&store).on_delete(OnDelete::Detach);
    follows.declare().unwrap();
    let refused = follows.verify(Repair::No, go_on).unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    let refused = users.delete("alice").unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
    let page = follows.targets("alice").page(0, 1_000).unwrap();
    assert_eq!(page.len(), 600);
    let refused = follows
        .targets("alice")
        .page_after(page.get(9), 10)
        .unwrap_err();
    assert_eq!(refused.result_code(), 4, "{refused}");
    // With blobs of its own behind them, which are found again.
    for number in 0..600_u16 {
        follows
            .link("alice", number.to_be_bytes().to_vec())
            .unwrap();
    }
    let refused = users.delete("alice").unwrap_err();
    assert!(refused.to_string().contains("another program"), "{refused}");
}
