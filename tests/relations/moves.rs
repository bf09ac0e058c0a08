//! Children that move from one layout to another.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::json;
use spikelet::operations::hll::{self, HllPolicy};
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::relation::{Layout, ManyToMany, OnDelete, OneToMany, RelationProgress, Repair};
use spikelet::value::{List, Map};
use spikelet::{
    Error, Expiration, IndexedRecordSet, Key, ListOrder, MapOrder, RecordStore, Store, Value,
    WritePolicy, bins,
};

use crate::go_on;
use crate::watched::{Calls, Watched};

/// The keys of the children of a parent, page by page.
fn keys_of(children: &OneToMany<&Store>, parent: &str) -> Vec<Key<'static>> {
    let (mut keys, mut token) = (Vec::new(), None::<String>);
    loop {
        let page = children.page(parent, token.as_deref(), 3).unwrap();
        keys.extend(page.children.into_iter().map(|child| child.key));
        match page.next {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    keys.sort();
    keys
}

fn children<S: RecordStore<Records: IndexedRecordSet>>(store: S, layout: &Layout) -> OneToMany<S> {
    OneToMany::new(store, "children", ("a", "b"), layout.clone()).unwrap()
}

/// Children that name their parents.
fn naming<'s>(store: &'s Store, layout: &Layout) -> OneToMany<&'s Store> {
    children(store, layout).with_parent_bin("parent")
}

/// The layouts between which children that are records can be moved: in one bin they name their
/// parents, or in two.
fn moves_of_records() -> Vec<(Layout, Layout)> {
    let lists = ["children", "others"].map(Layout::key_list);
    let references = ["parent", "owner"].map(|bin| Layout::reference(bin, &format!("by_{bin}")));
    let all = [lists, references].concat();
    let pairs = all
        .iter()
        .flat_map(|from| all.iter().map(move |to| (from.clone(), to.clone())));
    pairs.filter(|(from, to)| from != to).collect()
}

#[test]
fn children_that_move_as_records_are_counted_once_and_name_their_parent() {
    for (from, to) in moves_of_records() {
        let what = format!("{from:?} to {to:?}");
        let store = Store::in_memory().unwrap();
        let former = naming(&store, &from);
        for id in 0..20 {
            former.put("ann", id, &json!({ "n": id })).unwrap();
        }
        let moving = naming(&store, &to).moving_from(from).unwrap();
        let all: Vec<Key<'static>> = (0..20).map(Key::from).collect();
        let check = |children: &OneToMany<&Store>| {
            assert_eq!(children.len("ann").unwrap(), 20, "{what}");
            assert_eq!(keys_of(children, "ann"), all, "{what}");
            for child in &all {
                let parent = children.parent_of(child).unwrap();
                assert_eq!(parent, Some("ann".into()), "{child}, {what}");
            }
            let audit = children.verify(Repair::No, go_on).unwrap();
            assert!(audit.is_sound(), "{what}: {:?}", audit.faults);
        };
        check(&moving);
        let stop = |progress: RelationProgress| match progress.edges {
            7 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        assert!(!moving.move_children(stop).unwrap(), "{what}");
        check(&moving);
        assert!(moving.move_children(go_on).unwrap(), "{what}");
        check(&moving);
        check(&naming(&store, &to));
    }
}

#[test]
fn a_child_that_is_put_to_another_parent_while_layouts_change_leaves_the_first() {
    for (from, to) in moves_of_records() {
        let what = format!("{from:?} to {to:?}");
        let store = Store::in_memory().unwrap();
        naming(&store, &from)
            .put("ann", 7, &json!({ "n": 1 }))
            .unwrap();
        let moving = naming(&store, &to).moving_from(from).unwrap();
        moving.put("bob", 7, &json!({ "n": 2 })).unwrap();
        let check = |children: &OneToMany<&Store>| {
            assert_eq!(keys_of(children, "ann"), [], "{what}");
            assert_eq!(children.len("ann").unwrap(), 0, "{what}");
            assert_eq!(keys_of(children, "bob"), [7.into()], "{what}");
            assert_eq!(children.len("bob").unwrap(), 1, "{what}");
            assert_eq!(children.parent_of(7).unwrap(), Some("bob".into()), "{what}");
            let audit = children.verify(Repair::No, go_on).unwrap();
            assert!(audit.is_sound(), "{what}: {:?}", audit.faults);
        };
        check(&moving);
        assert!(moving.move_children(go_on).unwrap(), "{what}");
        check(&naming(&store, &to));
    }
}

#[test]
fn a_put_during_a_move_may_have_the_key_of_another_parents_child() {
    let store = Store::in_memory().unwrap();
    let from = Layout::key_list("children");
    naming(&store, &from)
        .put("bob", 7, &json!({ "n": 1 }))
        .unwrap();
    let likes = ManyToMany::new(&store, "likes", ("b", "likes"), ("c", "liked"));
    likes.link(7, "x").unwrap();
    let to = Layout::consolidated("inside");
    let moving = children(&store, &to).moving_from(from).unwrap();
    moving.put("ann", 7, &json!({ "n": 2 })).unwrap();
    assert_eq!(keys_of(&moving, "ann"), [7.into()]);
    assert!(likes.contains(7, "x").unwrap());
}

#[test]
fn children_that_move_as_records_keep_their_time_and_their_other_relations() {
    for (from, to) in moves_of_records() {
        let what = format!("{from:?} to {to:?}");
        let store = Store::in_memory().unwrap();
        let former = naming(&store, &from);
        for id in 0..2 {
            former.put("ann", id, &json!({ "n": id })).unwrap();
        }
        let blocks = ManyToMany::new(&store, "blocks", ("b", "blocks"), ("b", "blocked"));
        blocks.link(0, 1).unwrap();
        let (records, hour) = (store.set("b").unwrap(), Duration::from_secs(3_600));
        let policy = WritePolicy::default().expiration(Expiration::After(hour));
        records.touch_with(&policy, 0).unwrap();
        let moving = naming(&store, &to).moving_from(from).unwrap();
        assert!(moving.move_children(go_on).unwrap(), "{what}");
        assert!(blocks.contains(0, 1).unwrap(), "{what}");
        let header = records.get_header(0).unwrap().unwrap();
        assert!(header.expires_at().is_some(), "{what}");
    }
}

#[test]
fn children_of_one_key_are_not_moved_over_one_another() {
    for to in [
        Layout::key_list("keys"),
        Layout::reference("parent", "by_parent"),
    ] {
        let store = Store::in_memory().unwrap();
        let from = Layout::consolidated("children");
        let former = OneToMany::new(&store, "children", ("a", "b"), from.clone()).unwrap();
        for parent in ["ann", "bob"] {
            former.put(parent, 1, &json!({ "of": parent })).unwrap();
        }
        let moving = OneToMany::new(&store, "children", ("a", "b"), to).unwrap();
        let moving = moving.moving_from(from).unwrap();
        let refused = moving.move_children(go_on).unwrap_err();
        assert_eq!(refused.result_code(), 4, "{refused}");
        for parent in ["ann", "bob"] {
            let child: serde_json::Value = moving.get(parent, 1).unwrap().unwrap();
            assert_eq!(child, json!({ "of": parent }));
        }
        // As the error says.
        for (parent, other_key) in [("ann", 2), ("bob", 3)] {
            moving
                .put(parent, other_key, &json!({ "of": parent }))
                .unwrap();
            assert!(moving.remove(parent, 1).unwrap(), "{parent}");
        }
        assert!(moving.move_children(go_on).unwrap());
    }
}

#[test]
fn the_order_in_which_a_handle_says_what_it_moves_does_not_matter() {
    for (from, to) in moves_of_records() {
        let what = format!("{from:?} to {to:?}");
        let store = Store::in_memory().unwrap();
        let former = naming(&store, &from);
        for id in [7, 8] {
            former.put("ann", id, &json!({ "n": id })).unwrap();
        }
        let moving = children(&store, &to).moving_from(from).unwrap();
        let moving = moving.with_parent_bin("parent").ends_must_exist();
        for parent in ["ann", "bob"] {
            store.set("a").unwrap().put(parent, [("n", 1)]).unwrap();
        }
        moving.put("bob", 7, &json!({ "n": 7 })).unwrap();
        assert_eq!(keys_of(&moving, "ann"), [8.into()], "{what}");
        assert_eq!(keys_of(&moving, "bob"), [7.into()], "{what}");
        let child: serde_json::Value = moving.get("ann", 8).unwrap().unwrap();
        assert_eq!(child, json!({ "n": 8 }), "{what}");
        assert!(moving.move_children(go_on).unwrap(), "{what}");
        let audit = naming(&store, &to).verify(Repair::No, go_on).unwrap();
        assert!(audit.is_sound(), "{what}: {:?}", audit.faults);
    }
}

#[test]
fn a_move_gives_no_child_back_to_the_parent_from_which_a_put_has_taken_it() {
    for (from, to) in moves_of_records() {
        for operations in 0.. {
            let what = format!("{from:?} to {to:?} after {operations}");
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            naming(&store, &from)
                .put("ann", 7, &json!({ "n": 1 }))
                .unwrap();
            let dying = children(Watched::new(&store, &calls), &to).with_parent_bin("parent");
            let dying = dying.moving_from(from.clone()).unwrap();
            calls.die_after(operations);
            let ended = dying.put("bob", 7, &json!({ "n": 2 }));
            let moving = naming(&store, &to).moving_from(from.clone()).unwrap();
            let parent = moving.parent_of(7).unwrap();
            assert!(moving.move_children(go_on).unwrap(), "{what}");
            let moved = naming(&store, &to);
            assert_eq!(moved.parent_of(7).unwrap(), parent, "{what}");
            moved.verify(Repair::Yes, go_on).unwrap();
            for of in ["ann", "bob"] {
                let is_of = usize::from(parent == Some(of.into()));
                assert_eq!(keys_of(&moved, of).len(), is_of, "{of}, {what}");
            }
            if ended.is_ok() {
                break;
            }
        }
    }
}

#[test]
fn children_are_not_moved_within_a_transaction() {
    let store = Store::in_memory().unwrap();
    let from = Layout::key_list("children");
    naming(&store, &from)
        .put("ann", 7, &json!({ "n": 1 }))
        .unwrap();
    let to = Layout::reference("parent", "by_parent");
    let moving = naming(&store, &to).moving_from(from).unwrap();
    let refused = store.transaction(|tx| moving.within(tx).move_children(go_on));
    assert_eq!(refused.unwrap_err().result_code(), 4);
    // The children are where they were, and guarded there.
    let moving = moving.on_delete(OnDelete::Restrict);
    moving.declare().unwrap();
    let refused = store.set("a").unwrap().delete("ann").unwrap_err();
    assert!(matches!(refused, Error::HasEdges { .. }), "{refused}");
    assert!(moving.move_children(go_on).unwrap());
}

#[test]
fn children_that_have_children_do_not_move_into_their_parents() {
    for rule in [OnDelete::Restrict, OnDelete::Cascade] {
        let store = Store::in_memory().unwrap();
        let from = Layout::key_list("children");
        naming(&store, &from)
            .put("ann", 7, &json!({ "n": 1 }))
            .unwrap();
        let below = OneToMany::new(&store, "below", ("b", "c"), Layout::key_list("below"));
        let below = below.unwrap().on_delete(rule);
        below.put(7, 1, &json!({ "n": 1 })).unwrap();
        let to = Layout::consolidated("inside");
        let moving = naming(&store, &to).moving_from(from).unwrap();
        let refused = [
            moving.put("ann", 7, &json!({ "n": 2 })).unwrap_err(),
            moving.move_children(go_on).unwrap_err(),
        ];
        for refused in refused {
            let is_for_edges = matches!(&refused, Error::Relation { source, .. } if matches!(**source, Error::HasEdges { .. }));
            assert!(is_for_edges, "{refused}");
        }
        // The child is where it was, with its own.
        assert_eq!(below.len(7).unwrap(), 1);
        let child: serde_json::Value = moving.get("ann", 7).unwrap().unwrap();
        assert_eq!(child["n"], 1);
        assert_eq!(moving.len("ann").unwrap(), 1);
        below.remove(7, 1).unwrap();
        assert!(moving.move_children(go_on).unwrap());
        assert_eq!(children(&store, &to).len("ann").unwrap(), 1);
    }
}

#[test]
fn a_transaction_puts_no_child_into_a_layout_that_all_others_have_left() {
    let layouts = [
        Layout::key_list("list"),
        Layout::consolidated("map"),
        Layout::reference("parent", "by_parent"),
    ];
    let pairs = layouts
        .iter()
        .flat_map(|from| layouts.iter().map(move |to| (from, to)));
    for (from, to) in pairs.filter(|(from, to)| from != to) {
        let store = Store::in_memory().unwrap();
        let former = children(&store, from);
        former.put("ann", 1, &json!({ "n": 1 })).unwrap();
        let moving = children(&store, to).moving_from(from.clone()).unwrap();
        let mut is_moved = false;
        let put = store.transaction(|tx| {
            former.within(tx).put("ann", 2, &json!({ "n": 2 }))?;
            // Others move all children before it commits.
            if !is_moved {
                is_moved = moving.move_children(go_on)?;
            }
            Ok(())
        });
        assert!(
            matches!(put, Err(Error::Parameter(_))),
            "{from:?} to {to:?}: {put:?}"
        );
        assert_eq!(keys_of(&children(&store, to), "ann"), [Key::from(1)]);
    }
}

#[test]
fn bins_of_children_keep_their_types_in_both_layouts() {
    let store = Store::in_memory().unwrap();
    let lists = children(&store, &Layout::key_list("list"));
    lists.put("ann", "bob", &json!({ "n": 1 })).unwrap();
    let records = store.set("b").unwrap();
    let point = r#"{"type":"Point","coordinates":[13.4,52.5]}"#;
    let ordered = List::new(vec![2.into(), 1.into()], ListOrder::Ordered);
    let scores = Map::new(vec![("a".into(), 1.into())], MapOrder::KeyOrdered);
    records
        .put(
            "bob",
            bins! { "place" => Value::GeoJson(point.into()), "l" => ordered, "m" => scores, "b" => b"bytes" },
        )
        .unwrap();
    let add = hll::add_with_index_bits(&HllPolicy::default(), "seen", vec!["ada".into()], 8);
    records.operate("bob", &[add]).unwrap();
    // A map has its entries in the order of their keys.
    let by_name = || {
        let bins = records.get("bob").unwrap().unwrap().into_bins().unwrap();
        bins.into_iter().collect::<BTreeMap<_, _>>()
    };
    let before = by_name();
    let place = IndexComponent::bin("place").of_type(IndexType::GeoJson);
    records
        .create_index(IndexDefinition::new("by_place", [place]))
        .unwrap();
    let (list, map) = (Layout::key_list("list"), Layout::consolidated("map"));
    for (from, to) in [(&list, &map), (&map, &list)] {
        let moving = children(&store, to).moving_from(from.clone()).unwrap();
        assert!(moving.move_children(go_on).unwrap());
    }
    assert_eq!(by_name(), before);
    let count = records.operate("bob", &[hll::get_count("seen")]).unwrap();
    assert_eq!(count.bin("seen"), Some(&Value::Int(1)));
    let circle = r#"{"type":"AeroCircle","coordinates":[[13.4,52.5],1000]}"#;
    let found = records.query("by_place").unwrap().within(circle);
    assert_eq!(found.count().unwrap(), 1);
}
