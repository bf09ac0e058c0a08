use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use spikelet::relation::{Members, RelationFault, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{Key, RecordStore, Store, bins};

use crate::watched::{Calls, Watched};

fn users<S: RecordStore>(store: S) -> Members<S> {
    Members::new(store, "users", ("user_info_sets", "usernames", "members"))
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_page_of_members_is_one_read_and_one_batch() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let users = users(Watched::new(&store, &calls));
    for id in 0..60 {
        users.put(id, bins! { "info" => id }).unwrap();
    }
    assert_eq!(calls.take(), (180, 0));
    let page = users.fetch(Some(&9.into()), 20).unwrap();
    let (single, batches) = calls.take();
    assert_eq!(single + batches, 2);
    assert_eq!(page.len(), 20);
    assert_eq!(
        (page[0].0.clone(), page[0].1.get("info")),
        (10.into(), Some(10.into()))
    );
}

#[test]
fn a_kill_between_two_steps_never_leaves_a_record_that_is_not_listed() {
    for put in [true, false] {
        for operations in 0.. {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let plain = users(&store);
            plain.put("bart", bins! { "info" => 1 }).unwrap();
            calls.die_after(operations);
            let dying = users(Watched::new(&store, &calls));
            let ended = if put {
                dying.put("lisa", bins! { "info" => 2 }).is_ok()
            } else {
                dying.remove("bart").is_ok()
            };
            let audit = plain.verify(Repair::Yes, go_on).unwrap();
            assert!(
                audit
                    .faults
                    .iter()
                    .all(|fault| matches!(fault, RelationFault::Dangling { .. }))
            );
            assert_eq!(audit.repaired, audit.faults.len() as u64);
            assert!(plain.verify(Repair::No, go_on).unwrap().is_sound());
            if ended {
                assert!(audit.is_sound());
                break;
            }
            // A removal deletes the record, then takes it off the list.
            let dangles = if put { 1 } else { 2 };
            assert_eq!(
                audit.is_sound(),
                operations != dangles,
                "put: {put}, after {operations}"
            );
        }
    }
}

#[test]
fn a_record_that_others_wrote_is_found_and_listed() {
    let store = Store::in_memory().unwrap();
    let users = users(&store);
    users.put("bart", bins! { "info" => 1 }).unwrap();
    store
        .set("users")
        .unwrap()
        .put("lisa", [("info", 2)])
        .unwrap();
    let audit = users.verify(Repair::Yes, go_on).unwrap();
    assert_eq!(audit.faults, [RelationFault::Orphan { key: "lisa".into() }]);
    assert!(users.contains("lisa").unwrap());
    assert!(users.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn an_audit_leaves_the_records_of_another_list_there() {
    let store = Store::in_memory().unwrap();
    let list = |key: &'static str| Members::new(&store, "users", ("users", key, "members"));
    let [active, former] = ["active", "former"].map(list);
    active.put("bart", bins! { "info" => 1 }).unwrap();
    former.put("lisa", bins! { "info" => 1 }).unwrap();
    let users = store.set("users").unwrap();
    for (members, key) in [(&active, "bart"), (&former, "lisa")] {
        let audit = members.verify(Repair::Yes, go_on).unwrap();
        assert!(audit.is_sound(), "{:?}", audit.faults);
        assert_eq!(members.page(None, 10).unwrap(), [key.into()]);
    }
    users.put("homer", [("info", 2)]).unwrap();
    let audit = active.verify(Repair::Yes, go_on).unwrap();
    assert_eq!(audit.repaired, 1);
    assert!(active.contains("homer").unwrap());
}

#[test]
fn the_counts_of_a_list_are_those_of_its_record_alone() {
    let store = Store::in_memory().unwrap();
    for (key, members) in [("active", 3), ("former", 9)] {
        let list = Members::new(&store, "users", ("lists", key, "members"));
        let list = list.shard_policy(ShardPolicy::manual().elements_max(Some(4)));
        for id in 0..members {
            list.put(id, bins! { "info" => 1 }).unwrap();
        }
    }
    let declared = spikelet::relation::declared_relations(&store).unwrap();
    let counts = declared.iter().map(|list| list.stats(&store).unwrap());
    let counts: Vec<_> = counts.map(|it| (it[0].records, it[0].elements)).collect();
    assert_eq!(counts, [(1, 3), (1, 9)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn members_are_those_of_a_naive_model(calls in prop::collection::vec((0..50_i64, any::<bool>()), 1..150), limit in 1..20_u64) {
        let store = Store::in_memory().unwrap();
        let users = users(&store).shard_policy(ShardPolicy::manual().record_bytes_max(200));
        let mut model = BTreeMap::new();
        for (turn, (id, put)) in calls.into_iter().enumerate() {
            if put {
                let is_new = users.put(id, bins! { "turn" => turn as i64 }).unwrap();
                prop_assert_eq!(is_new, model.insert(id, turn as i64).is_none());
            } else {
                prop_assert_eq!(users.remove(id).unwrap(), model.remove(&id).is_some());
            }
        }
        let (mut found, mut after): (Vec<(i64, i64)>, Option<Key<'static>>) = (Vec::new(), None);
        loop {
            let page = users.fetch(after.as_ref(), limit).unwrap();
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (key, record) in page {
                let Key::Integer(id) = key else { panic!("{key}") };
                found.push((id, record.get("turn").and_then(|turn| turn.as_i64()).unwrap()));
            }
        }
        prop_assert_eq!(users.len().unwrap(), model.len() as u64);
        prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
        prop_assert!(users.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn records_may_be_listed_in_several_bins_and_sets_under_one_key() {
    let store = Store::in_memory().unwrap();
    let lists = [("lists", "m"), ("other", "m"), ("lists", "n")];
    for (set, bin) in lists {
        let members = Members::new(&store, "users", (set, "all", bin));
        members.put("homer", bins! { "age" => 39 }).unwrap();
    }
    for (set, bin) in lists {
        let members = Members::new(&store, "users", (set, "all", bin));
        assert!(members.contains("homer").unwrap(), "{set} {bin}");
    }
}
