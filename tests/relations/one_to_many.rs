use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spikelet::relation::{Layout, LayoutKind, OnDelete, OneToMany, RelationFault, Repair};
use spikelet::{Error, IndexedRecordSet, RecordStore, Store, bins};

use crate::watched::{Calls, Watched};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Comment {
    user: String,
    message: String,
}

fn comment(turn: i64) -> Comment {
    Comment {
        user: format!("user {}", turn % 3),
        message: format!("message {turn}"),
    }
}

fn layouts() -> [Layout; 3] {
    [
        Layout::key_list("comment_keys"),
        Layout::consolidated("comments"),
        Layout::reference("post", "comments_by_post"),
    ]
}

fn comments<S: RecordStore<Records: IndexedRecordSet>>(store: S, layout: Layout) -> OneToMany<S> {
    OneToMany::new(store, "comments", ("posts", "comments"), layout).unwrap()
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// All children of a parent, read in pages of three.
fn all<S: RecordStore<Records: IndexedRecordSet>>(
    relation: &OneToMany<S>,
    parent: i64,
) -> BTreeMap<String, Comment> {
    let (mut found, mut token) = (BTreeMap::new(), None);
    loop {
        let page = relation.page(parent, token.as_deref(), 3).unwrap();
        assert!(page.children.len() <= 3);
        for child in page.children {
            found.insert(child.key.to_string(), child.decode().unwrap());
        }
        match page.next {
            Some(next) => token = Some(next),
            None => return found,
        }
    }
}

#[test]
fn calls_cost_what_their_documentation_says() {
    // Writes of a put; reads of a get without the parent's bin; of a page; operations of a remove.
    let costs = [((3, 0), 2, 2, 4), ((1, 0), 1, 1, 1), ((1, 0), 1, 2, 1)];
    for (layout, (put, get, page, remove)) in layouts().into_iter().zip(costs) {
        let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
        let kind = format!("{layout:?}");
        let relation = comments(Watched::new(&store, &calls), layout);
        relation.put(1, 1, &comment(1)).unwrap();
        assert_eq!(calls.take(), put, "{kind}");
        assert_eq!(relation.get::<Comment>(1, 1).unwrap(), Some(comment(1)));
        let sum = |(single, batches): (usize, usize)| single + batches;
        assert_eq!(sum(calls.take()), get, "{kind}");
        assert_eq!(relation.page(1, None, 50).unwrap().children.len(), 1);
        assert_eq!(sum(calls.take()), page, "{kind}");
        assert!(relation.remove(1, 1).unwrap());
        assert_eq!(sum(calls.take()), remove, "{kind}");
    }
}

#[test]
fn a_child_is_found_from_its_parent_and_its_parent_from_it() {
    for layout in layouts() {
        let store = Store::in_memory().unwrap();
        let is_consolidated = layout == Layout::consolidated("comments");
        let posts = store.set("posts").unwrap();
        posts.put(1, bins! { "title" => "a" }).unwrap();
        let relation = comments(&store, layout).with_parent_bin("post");
        relation.put(1, 10, &comment(1)).unwrap();
        assert_eq!(relation.get::<Comment>(2, 10).unwrap(), None);
        let parent = relation.parent_of(10);
        if is_consolidated {
            assert_eq!(parent.unwrap_err().result_code(), 4)
        } else {
            assert_eq!(parent.unwrap(), Some(1.into()))
        }
        let refused = relation
            .delete_with_edges(1, OnDelete::Restrict, go_on)
            .unwrap_err();
        assert!(matches!(refused, Error::HasEdges { .. }));
        assert!(
            relation
                .delete_with_edges(1, OnDelete::Cascade, go_on)
                .unwrap()
        );
        assert_eq!(relation.len(1).unwrap(), 0);
        assert_eq!(store.set("comments").unwrap().len(), 0);
    }
}

#[test]
fn a_layout_is_suggested_from_counts_and_sizes() {
    let store = Store::in_memory().unwrap();
    let relation = comments(&store, Layout::key_list("comment_keys"));
    for child in 0..50 {
        relation.put(1, child, &comment(child)).unwrap();
    }
    let advice = relation.suggest().unwrap();
    assert_eq!(
        (advice.layout, advice.children_p99),
        (LayoutKind::Consolidated, 50)
    );
    let long = Comment {
        message: "x".repeat(8_000),
        user: String::new(),
    };
    for child in 0..50 {
        relation.put(1, child, &long).unwrap();
    }
    assert_eq!(relation.suggest().unwrap().layout, LayoutKind::KeyList);
}

#[test]
fn a_layout_is_suggested_from_the_children_among_other_records() {
    let store = Store::in_memory().unwrap();
    let relation = comments(&store, Layout::reference("parent", "by_parent"));
    for child in 0..50 {
        relation.put(1, child, &comment(child)).unwrap();
    }
    let alone = relation.suggest().unwrap();
    let others = store.set("comments").unwrap();
    for number in 1_000..1_020 {
        others
            .put(number, [("message", "x".repeat(100_000))])
            .unwrap();
    }
    assert_eq!(relation.suggest().unwrap(), alone);
    assert_eq!(
        (alone.layout, alone.children_p99),
        (LayoutKind::Consolidated, 50)
    );
}

#[test]
fn children_move_from_each_layout_to_each_other_and_a_kill_loses_none() {
    for from in layouts() {
        for to in layouts().into_iter().filter(|to| *to != from) {
            for operations in 0.. {
                let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
                let old = comments(&store, from.clone());
                let mut model = BTreeMap::new();
                for child in 0..8_i64 {
                    old.put(child % 2, child, &comment(child)).unwrap();
                    model
                        .entry(child % 2)
                        .or_insert_with(BTreeMap::new)
                        .insert(child.to_string(), comment(child));
                }
                let moving = comments(Watched::new(&store, &calls), to.clone())
                    .moving_from(from.clone())
                    .unwrap();
                calls.die_after(operations);
                let ended = moving.move_children(go_on);
                let plain = comments(&store, to.clone())
                    .moving_from(from.clone())
                    .unwrap();
                for parent in 0..2 {
                    assert_eq!(
                        all(&plain, parent),
                        model[&parent],
                        "{from:?} to {to:?} after {operations}"
                    );
                }
                plain.verify(Repair::Yes, go_on).unwrap();
                assert!(plain.move_children(go_on).unwrap());
                let new = comments(&store, to.clone());
                for parent in 0..2 {
                    assert_eq!(all(&new, parent), model[&parent]);
                    assert_eq!(
                        all(&comments(&store, from.clone()), parent).len(),
                        0,
                        "{from:?} to {to:?}"
                    );
                }
                assert!(new.verify(Repair::No, go_on).unwrap().is_sound());
                if ended.is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_kill_between_two_steps_leaves_a_key_without_a_record_at_most() {
    for operations in 0..4 {
        let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
        let dying = comments(
            Watched::new(&store, &calls),
            Layout::key_list("comment_keys"),
        );
        calls.die_after(operations);
        let ended = dying.put(1, 1, &comment(1)).is_ok();
        let plain = comments(&store, Layout::key_list("comment_keys"));
        // The last operation looks whether the list still has the key.
        assert_eq!(ended, operations == 3);
        assert_eq!(all(&plain, 1).len(), usize::from(operations > 1));
        let audit = plain.verify(Repair::Yes, go_on).unwrap();
        let dangling = RelationFault::Dangling {
            from: 1.into(),
            to: 1.into(),
        };
        assert_eq!(audit.faults, vec![dangling; usize::from(operations == 1)]);
        assert!(plain.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn two_layouts_with_one_bin_are_refused() {
    let store = Store::in_memory().unwrap();
    let relation = comments(&store, Layout::key_list("comments"));
    assert_eq!(
        relation
            .moving_from(Layout::consolidated("comments"))
            .unwrap_err()
            .result_code(),
        4
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn children_are_those_of_a_naive_model(
        calls in prop::collection::vec((0..3_i64, 0..12_i64, 0..4_u8), 1..80),
        layout in 0..3_usize, former in 0..3_usize,
    ) {
        let store = Store::in_memory().unwrap();
        let mut relation = comments(&store, layouts()[layout].clone());
        if former != layout {
            relation = relation.moving_from(layouts()[former].clone()).unwrap();
        }
        let mut model: BTreeMap<i64, BTreeMap<String, Comment>> = BTreeMap::new();
        let old = comments(&store, layouts()[former].clone());
        let moved_at = if former == layout { 0 } else { calls.len() / 3 };
        for (turn, (parent, child, call)) in calls.into_iter().enumerate() {
            let child = child + parent * 100;
            let children = model.entry(parent).or_default();
            if turn == moved_at {
                relation.declare().unwrap();
            }
            match call {
                _ if turn < moved_at => {
                    if let Entry::Vacant(entry) = children.entry(child.to_string()) {
                        old.put(parent, child, &comment(7)).unwrap();
                        entry.insert(comment(7));
                    }
                }
                1 if turn > moved_at && former != layout => {
                    // The declaration of the move refuses a handle that does not know of it.
                    let refused = old.put(parent, child, &comment(7));
                    prop_assert_eq!(refused.unwrap_err().result_code(), 4);
                }
                0 => prop_assert_eq!(
                    relation.remove(parent, child).unwrap(),
                    children.remove(&child.to_string()).is_some()
                ),
                _ => {
                    relation.put(parent, child, &comment(turn as i64)).unwrap();
                    children.insert(child.to_string(), comment(turn as i64));
                }
            }
        }
        for (parent, children) in &model {
            prop_assert_eq!(&all(&relation, *parent), children);
            prop_assert_eq!(relation.len(*parent).unwrap(), children.len() as u64);
        }
        relation.move_children(go_on).unwrap();
        for (parent, children) in &model {
            prop_assert_eq!(&all(&comments(&store, layouts()[layout].clone()), *parent), children);
        }
    }
}

#[test]
fn a_field_in_the_place_of_the_parents_key_is_refused() {
    #[derive(Serialize)]
    struct Reply {
        post: i64,
        message: &'static str,
    }
    let reply = Reply {
        post: 1,
        message: "a",
    };
    for layout in layouts() {
        let store = Store::in_memory().unwrap();
        let replies = comments(&store, layout).with_parent_bin("post");
        let put = replies.put(1, "reply", &reply);
        if replies.parent_of("reply").is_err() {
            // Consolidated, children do not name their parents.
            put.unwrap();
            continue;
        }
        let refused = put.unwrap_err().to_string();
        assert!(refused.contains("\"post\""), "{refused}");
        assert_eq!(replies.len(1).unwrap(), 0);
    }
}

#[test]
fn another_layout_is_declared_only_by_a_handle_that_moves_the_children() {
    for from in layouts() {
        for to in layouts().into_iter().filter(|to| *to != from) {
            let store = Store::in_memory().unwrap();
            let both =
                |to: &Layout, from: &Layout| comments(&store, to.clone()).moving_from(from.clone());
            let Ok(moving) = both(&to, &from) else {
                // Both have one bin.
                continue;
            };
            let what = format!("{from:?} to {to:?}");
            let old = comments(&store, from.clone());
            old.declare().unwrap();
            old.put("p1", 1, &comment(1)).unwrap();
            let refused = comments(&store, to.clone()).declare().unwrap_err();
            assert_eq!(refused.result_code(), 4, "{what}");
            assert!(
                refused.to_string().contains("moving_from"),
                "{what}: {refused}"
            );
            moving.declare().unwrap();
            // Until they are moved, others have to say so, too.
            assert!(comments(&store, to.clone()).declare().is_err(), "{what}");
            assert!(old.declare().is_err(), "{what}");
            assert!(moving.move_children(go_on).unwrap());
            let new = comments(&store, to.clone());
            new.declare().unwrap();
            assert_eq!(new.len("p1").unwrap(), 1, "{what}");
            moving.declare().unwrap();
            new.declare().unwrap();
            assert!(old.declare().is_err(), "{what}");
        }
    }
}

#[test]
fn a_child_that_is_given_away_while_it_is_removed_stays() {
    for after in 0..8 {
        let store = Store::in_memory().unwrap();
        let calls = Calls::default();
        let children = |calls: &Calls| {
            let (store, layout) = (Watched::new(&store, calls), Layout::key_list("children"));
            let children = OneToMany::new(store, "children", ("a", "b"), layout).unwrap();
            children.with_parent_bin("parent")
        };
        let (one, other) = (children(&calls), children(&Calls::default()));
        one.put("ann", 7, &json!({ "n": 1 })).unwrap();
        let given = std::sync::Arc::new(std::sync::Mutex::new(None));
        let by_other = (other.clone(), std::sync::Arc::clone(&given));
        calls.interrupt(after, move || {
            let (other, given) = by_other;
            *given.lock().unwrap() = Some(other.set_parent(7, "bob").is_ok());
        });
        one.remove("ann", 7).unwrap();
        let is_there = store.set("b").unwrap().exists(7).unwrap();
        let given = *given.lock().unwrap();
        // `None`: all was done before.
        assert_eq!(is_there, given == Some(true), "after {after}");
        assert_eq!(other.len("bob").unwrap(), u64::from(is_there));
        assert!(one.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

/// A call of one writer, which another one may interrupt.
type InterruptedCall = fn(&OneToMany<Watched<Store>>);

#[test]
fn calls_that_another_one_interrupts_leave_lists_and_records_together() {
    let put: InterruptedCall = |children| {
        children.put("ann", 7, &json!({ "n": 2 })).unwrap();
    };
    let remove: InterruptedCall = |children| {
        children.remove("ann", 7).unwrap();
    };
    let give: InterruptedCall = |children| drop(children.set_parent(7, "bob"));
    let give_and_return: InterruptedCall = |children| {
        for parent in ["bob", "ann"] {
            drop(children.set_parent(7, parent));
        }
    };
    for (what, one, other) in [
        ("a put beside a removal", put, remove),
        ("a removal beside a put", remove, put),
        ("a move beside opposite moves", give, give_and_return),
    ] {
        for after in 0..12 {
            let store = Store::in_memory().unwrap();
            let calls = Calls::default();
            let children = |calls: &Calls| {
                let (store, layout) = (Watched::new(&store, calls), Layout::key_list("children"));
                let children = OneToMany::new(store, "children", ("a", "b"), layout).unwrap();
                children.with_parent_bin("parent")
            };
            let (first, second) = (children(&calls), children(&Calls::default()));
            put(&second);
            calls.interrupt(after, move || other(&second));
            one(&first);
            // By a handle without interruptions.
            let audit = children(&Calls::default());
            let audit = audit.verify(Repair::No, go_on).unwrap();
            assert!(
                audit.is_sound(),
                "{what}, after {after}: {:?}",
                audit.faults
            );
        }
    }
}

#[test]
fn a_parent_goes_with_a_listed_key_that_has_no_record() {
    let store = Store::in_memory().unwrap();
    let layout = Layout::key_list("children");
    let watched = Watched::new(&store, &Calls::default());
    let children = OneToMany::new(watched, "children", ("a", "b"), layout).unwrap();
    for id in [1, 2] {
        children.put("ann", id, &json!({ "n": 1 })).unwrap();
    }
    store.set("b").unwrap().delete(2).unwrap();
    assert!(
        children
            .delete_with_edges("ann", OnDelete::Cascade, go_on)
            .unwrap()
    );
    assert!(!store.set("a").unwrap().exists("ann").unwrap());
}
