use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use proptest::prelude::*;
use spikelet::relation::{Address, Links, OnDelete, RelationFault, Repair, TaggedLink, WalkStep};
use spikelet::shard::ShardPolicy;
use spikelet::{RecordStore, Store, WritePolicy};

use crate::watched::{Calls, Watched};

fn person(id: i64) -> Address {
    Address::new("people", id)
}

fn friends<S: RecordStore>(store: S) -> Links<S> {
    Links::new(store, "links")
        .reciprocal("friend", "friend")
        .reciprocal("parent", "child")
}

#[test]
fn a_step_of_a_walk_is_one_batch() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let links = friends(Watched::new(&store, &calls));
    for id in 1..50 {
        links.link(&person(0), "friend", &person(id)).unwrap();
        links
            .link(&person(id), "friend", &person(id + 100))
            .unwrap();
    }
    calls.take();
    let friend = || WalkStep::new().tag("friend");
    let walk = links
        .walk([person(0)], &[friend().keep(), friend().keep()])
        .unwrap();
    // One record is read by one operation.
    assert_eq!(calls.take(), (1, 1));
    assert_eq!(
        (walk.steps[0].len(), walk.steps[1].len()),
        (49, 50),
        "the start is its friends' friend"
    );
    assert!(walk.complete);
}

#[test]
fn more_than_995_links_are_sharded_and_walked() {
    let store = Store::in_memory().unwrap();
    let policy = ShardPolicy::manual().record_bytes_max(4_000);
    let links = Links::new(&store, "links").shard_policy(policy);
    for id in 1..=2_000 {
        links.link(&person(0), "friend", &person(id)).unwrap();
    }
    links.link(&person(0), "friend of", &person(7)).unwrap();
    links
        .link(&person(0), "enemy", &Address::new("robots", 7))
        .unwrap();
    let step = |tag: &str| [WalkStep::new().tag(tag).keep()];
    assert_eq!(
        links
            .walk([person(0)], &step("friend"))
            .unwrap()
            .kept()
            .len(),
        2_000
    );
    assert_eq!(
        links.walk([person(0)], &step("friend of")).unwrap().kept(),
        [person(7)]
    );
    let robots = [WalkStep::new().set("robots").keep()];
    assert_eq!(
        links.walk([person(0)], &robots).unwrap().kept(),
        [Address::new("robots", 7)]
    );
    let page = links.page(&person(0), Some("friend"), None, 50).unwrap();
    let next = links
        .page(&person(0), Some("friend"), page.last(), 50)
        .unwrap();
    assert_eq!(
        (page[49].to.clone(), next[0].to.clone()),
        (person(50), person(51))
    );
    let bounded = links
        .records_max(100)
        .walk([person(0)], &step("friend"))
        .unwrap();
    assert_eq!((bounded.kept().len(), bounded.complete), (100, false));
}

#[test]
fn a_kill_leaves_a_link_without_its_reciprocal_and_a_repeat_completes_it() {
    for operations in 0..2 {
        for add in [true, false] {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let plain = friends(&store);
            for id in [1, 2] {
                store.set("people").unwrap().put(id, [("age", id)]).unwrap();
            }
            if !add {
                plain.link(&person(1), "parent", &person(2)).unwrap();
            }
            calls.die_after(operations);
            let dying = friends(Watched::new(&store, &calls));
            let call = |links: &Links<Watched<Store>>| {
                if add {
                    links.link(&person(1), "parent", &person(2))
                } else {
                    links.unlink(&person(1), "parent", &person(2))
                }
            };
            assert!(call(&dying).is_err());
            let back = plain.contains(&person(2), "child", &person(1)).unwrap();
            assert!(!back || plain.contains(&person(1), "parent", &person(2)).unwrap());
            if operations == 1 {
                let audit = plain.verify(["people"], Repair::No, go_on).unwrap();
                let parent = TaggedLink {
                    tag: "parent".into(),
                    to: person(2),
                };
                let fault = RelationFault::MissingReciprocal {
                    from: person(1),
                    link: parent,
                };
                assert_eq!(audit.faults, [fault]);
                let repaired = plain.verify(["people"], Repair::Yes, go_on).unwrap();
                assert_eq!(repaired.repaired, 1);
                assert!(
                    plain
                        .verify(["people"], Repair::No, go_on)
                        .unwrap()
                        .is_sound()
                );
            }
            let again = if add {
                plain.link(&person(1), "parent", &person(2))
            } else {
                plain.unlink(&person(1), "parent", &person(2))
            };
            again.unwrap();
            assert_eq!(
                plain.contains(&person(2), "child", &person(1)).unwrap(),
                add
            );
            assert_eq!(
                plain.contains(&person(1), "parent", &person(2)).unwrap(),
                add
            );
        }
    }
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn links_to_records_that_are_gone_are_found_and_removed_in_sharded_lists_too() {
    let store = Store::in_memory().unwrap();
    let links = friends(&store).shard_policy(ShardPolicy::manual().record_bytes_max(600));
    for id in 1..=100 {
        links.link(&person(0), "friend", &person(id)).unwrap();
    }
    let audit = links.verify(["people"], Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert_eq!(
        (audit.records, audit.edges, audit.largest),
        (101, 200, Some((0.into(), 100)))
    );
    // Otherwise the delete of a record with links is refused.
    let careless = WritePolicy::default().override_shards(true);
    for id in [7, 8] {
        let people = store.set("people").unwrap();
        people.delete(id).unwrap_err();
        people.delete_with(&careless, id).unwrap();
    }
    let mut told = 0;
    let stopped = links.verify(["people"], Repair::No, |progress| {
        told = progress.records;
        ControlFlow::Break(())
    });
    assert_eq!((told, stopped.unwrap().complete), (1, false));
    let audit = links
        .verify(["people", "robots"], Repair::Yes, go_on)
        .unwrap();
    assert_eq!((audit.faults.len(), audit.repaired), (2, 2));
    assert!(
        audit
            .faults
            .iter()
            .all(|fault| matches!(fault, RelationFault::DanglingLink { .. }))
    );
    assert!(
        links
            .verify(["people"], Repair::No, go_on)
            .unwrap()
            .is_sound()
    );
    assert_eq!(links.page(&person(0), None, None, 200).unwrap().len(), 98);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn walks_are_those_of_a_naive_model(
        edges in prop::collection::vec((0..15_i64, 0..3_usize, 0..15_i64, any::<bool>()), 0..120),
        steps in prop::collection::vec((prop::option::of(0..3_usize), any::<bool>()), 1..4),
    ) {
        const TAGS: [&str; 3] = ["a", "ab", "b"];
        let store = Store::in_memory().unwrap();
        let links = Links::new(&store, "links").shard_policy(ShardPolicy::manual().record_bytes_max(250));
        let mut model: BTreeMap<i64, BTreeSet<(usize, i64)>> = BTreeMap::new();
        for (from, tag, to, add) in edges {
            let known = model.entry(from).or_default();
            if add {
                prop_assert_eq!(links.link(&person(from), TAGS[tag], &person(to)).unwrap(), known.insert((tag, to)));
            } else {
                prop_assert_eq!(links.unlink(&person(from), TAGS[tag], &person(to)).unwrap(), known.remove(&(tag, to)));
            }
        }
        let mut frontier = BTreeSet::from([0_i64, 1]);
        let mut expected = Vec::new();
        let mut walked = Vec::new();
        for (tag, keep) in steps {
            frontier = frontier.iter().flat_map(|from| model.get(from).into_iter().flatten())
                .filter(|(of, _)| tag.is_none_or(|tag| tag == *of)).map(|(_, to)| *to).collect();
            expected.push(if keep { frontier.iter().map(|id| person(*id)).collect() } else { Vec::new() });
            let mut step = WalkStep::new();
            if let Some(tag) = tag { step = step.tag(TAGS[tag]); }
            if keep { step = step.keep(); }
            walked.push(step);
        }
        let walk = links.walk([person(0), person(1)], &walked).unwrap();
        prop_assert_eq!(walk.steps, expected);
        prop_assert!(walk.complete);
    }
}

#[test]
fn a_page_of_one_tag_begins_behind_a_link_of_any_tag() {
    let store = Store::in_memory().unwrap();
    let links = Links::new(&store, "links");
    for tag in ["a", "b", "c"] {
        for id in 0..3 {
            links.link(&person(9), tag, &person(id)).unwrap();
        }
    }
    let behind = |tag: &str, id: i64| {
        let after = TaggedLink {
            tag: tag.into(),
            to: person(id),
        };
        let page = links.page(&person(9), Some("b"), Some(&after), 10).unwrap();
        page.into_iter().map(|link| link.to).collect::<Vec<_>>()
    };
    assert_eq!(behind("a", 1), [0, 1, 2].map(person));
    assert_eq!(behind("b", 1), [person(2)]);
    assert_eq!(behind("c", 1), []);
}

#[test]
fn a_link_from_a_record_to_itself_may_be_its_own_link_back() {
    let store = Store::in_memory().unwrap();
    let links = friends(&store);
    let own = person(7);
    assert!(links.link(&own, "friend", &own).unwrap());
    assert!(!links.link(&own, "friend", &own).unwrap());
    assert!(links.unlink(&own, "friend", &own).unwrap());
    assert!(!links.unlink(&own, "friend", &own).unwrap());
    assert!(links.link(&own, "parent", &own).unwrap());
    assert!(links.contains(&own, "child", &own).unwrap());
    assert!(links.unlink(&own, "child", &own).unwrap());
    assert!(!links.contains(&own, "parent", &own).unwrap());
}

#[test]
fn a_handle_without_a_declared_link_back_does_not_write_its_tag() {
    let store = Store::in_memory().unwrap();
    friends(&store)
        .link(&person(1), "parent", &person(2))
        .unwrap();
    let plain = Links::new(&store, "links");
    let clash = Links::new(&store, "links").reciprocal("parent", "kid");
    for handle in [&plain, &clash] {
        let refused = [
            handle.link(&person(1), "parent", &person(3)).map(drop),
            handle.unlink(&person(1), "parent", &person(2)).map(drop),
            handle.set(&person(1), "parent", &person(3)).map(drop),
        ];
        for refused in refused {
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("reciprocal(\"parent\", \"child\")"),
                "{refused}"
            );
        }
    }
    assert!(clash.declare("links in links", ["people"]).is_err());
    // Other tags are its own.
    assert!(plain.link(&person(1), "sees", &person(3)).unwrap());
    // Declared again with fewer sets and tags, it keeps all of them.
    plain.declare("links in links", ["things"]).unwrap();
    let guarded = store.set("people").unwrap().put(1, [("links", 1)]);
    assert_eq!(guarded.unwrap_err().result_code(), 22);
    assert!(plain.link(&person(1), "parent", &person(3)).is_err());
    let audit = friends(&store).verify(["people"], Repair::No, go_on);
    // Only the record that was never written.
    assert_eq!(audit.unwrap().faults.len(), 1);
}

#[test]
fn a_tag_is_the_link_back_of_one_other_tag() {
    let store = Store::in_memory().unwrap();
    let links = Links::new(&store, "links")
        .reciprocal("parent", "child")
        .reciprocal("guardian", "child");
    for tag in ["parent", "guardian", "child"] {
        let refused = links.link(&person(1), tag, &person(2)).unwrap_err();
        assert_eq!(refused.result_code(), 4, "{refused}");
    }
    assert!(links.declare("kin", ["people"]).is_err());
    let twice = friends(&store).reciprocal("child", "parent");
    assert!(twice.link(&person(1), "parent", &person(2)).unwrap());
}

#[test]
fn links_that_several_names_declare_go_at_both_ends() {
    // In one transaction, with shards, and in steps.
    for (many, elements_max) in [(3, None), (9, Some(4)), (300, None), (300, Some(4))] {
        let store = Store::in_memory().unwrap();
        let policy = ShardPolicy::manual().elements_max(elements_max);
        let links = || Links::new(&store, "links").on_delete(OnDelete::Detach);
        let kin = links().reciprocal("parent", "child").shard_policy(policy);
        links().declare("other", ["people"]).unwrap();
        kin.declare("kin", ["people"]).unwrap();
        let people = store.set("people").unwrap();
        for id in 1..=many {
            people.put(id, [("age", 1)]).unwrap();
            kin.link(&person(0), "parent", &person(id)).unwrap();
        }
        assert!(people.delete(0).unwrap().is_some());
        let audit = kin.verify(["people"], Repair::No, |_| ControlFlow::Continue(()));
        assert_eq!(audit.unwrap().edges, 0, "{many} {elements_max:?}");
    }
}
