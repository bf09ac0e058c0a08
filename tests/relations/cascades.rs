//! Cascades beside writers who move the records to be deleted.

use serde_json::json;
use spikelet::{Error, ListOrder, ListPolicy, ListWriteFlags, Store};

use super::go_on;
use spikelet::operations::lists;
use spikelet::relation::{Layout, OnDelete, OneToMany, Repair};

/// Parents and children of one set, which go with one another.
fn tree(store: &Store) -> OneToMany<&Store> {
    let layout = Layout::key_list("children");
    let tree = OneToMany::new(store, "tree", ("nodes", "nodes"), layout).unwrap();
    tree.with_parent_bin("parent").on_delete(OnDelete::Cascade)
}

#[test]
fn a_cascade_leaves_a_subtree_that_another_writer_has_moved_away() {
    // How far the moved node is from the deleted one: the chain to the leaves goes in one step, and
    // in several.
    for (len, moved) in [
        (2, 1),
        (3, 1),
        (3, 2),
        (50, 10),
        (50, 32),
        (50, 33),
        (50, 45),
    ] {
        let store = Store::in_memory().unwrap();
        let (tree, nodes) = (tree(&store), store.set("nodes").unwrap());
        for id in 0..len {
            tree.put(id, id + 1, &json!({ "n": 1 })).unwrap();
        }
        for leaf in 1_000..1_600 {
            tree.put(len, leaf, &json!({ "n": 1 })).unwrap();
        }
        let mut steps = 0;
        let deleted = tree.delete_with_edges(0, OnDelete::Cascade, |_| {
            steps += 1;
            if steps == 5 {
                tree.set_parent(moved, "z").unwrap();
            }
            std::ops::ControlFlow::Continue(())
        });
        assert!(deleted.unwrap());
        for id in 0..=len {
            assert_eq!(nodes.exists(id).unwrap(), id >= moved, "{id} of {len}");
        }
        // The ones that were there when it moved.
        assert_eq!(tree.len(len).unwrap(), 595);
        assert_eq!(tree.len("z").unwrap(), 1);
        assert!(tree.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn cascades_beside_writers_who_move_subtrees_leave_no_node_without_its_parent() {
    let store = Store::in_memory().unwrap();
    let (tree, nodes) = (tree(&store), store.set("nodes").unwrap());
    for branch in 1..=12 {
        tree.put(0, branch, &json!({ "n": 1 })).unwrap();
        for leaf in 0..40 {
            tree.put(branch, branch * 100 + leaf, &json!({ "n": 1 }))
                .unwrap();
        }
    }
    std::thread::scope(|scope| {
        let deletes = scope.spawn(|| {
            loop {
                match nodes.delete(0) {
                    Err(Error::Conflict { .. }) => {}
                    deleted => return deleted.unwrap(),
                }
            }
        });
        for branch in (1..=12).rev() {
            match tree.set_parent(branch, "z") {
                Ok(_) | Err(Error::Relation { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(deletes.join().unwrap().is_some());
    });
    let mut kept = 0;
    for branch in 1..=12 {
        let is_there = nodes.exists(branch).unwrap();
        kept += u64::from(is_there);
        for leaf in (0..40).map(|leaf| branch * 100 + leaf) {
            let named = tree.parent_of(leaf).unwrap();
            assert!(named.is_none() || is_there, "{leaf}");
            assert_eq!(named.is_some(), nodes.exists(leaf).unwrap());
        }
    }
    assert_eq!(tree.len("z").unwrap(), kept);
    assert!(tree.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn a_cascade_leaves_a_listed_record_that_names_another_parent() {
    for own in [1, 600] {
        let store = Store::in_memory().unwrap();
        let (tree, nodes) = (tree(&store), store.set("nodes").unwrap());
        for id in 0..own {
            tree.put("a", 1_000 + id, &json!({ "n": 1 })).unwrap();
        }
        // More than are looked at at once, and before the others.
        for id in 0..300 {
            tree.put("b", id, &json!({ "n": 1 })).unwrap();
            let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::default());
            let list = [lists::append(&policy, "children", id)];
            nodes.operate("a", &list).unwrap();
        }
        assert!(nodes.delete("a").unwrap().is_some());
        assert_eq!(tree.len("b").unwrap(), 300);
        assert_eq!(nodes.len(), 301, "{own}");
    }
}
