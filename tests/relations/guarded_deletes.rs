//! Deletes of records with edges, by every call: each declared relation of the record has its say.

use serde_json::json;
use spikelet::expressions::{eq, string_bin};
use spikelet::operations::delete_all_bins;
use spikelet::policy::GenerationPolicy;
use spikelet::query::BackgroundPolicy;
use spikelet::relation::{
    Address, EdgeType, Graph, Layout, Links, ManyToMany, Members, NodeId, OnDelete, OneToMany,
    Repair,
};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, Key, Result, Set, ShardedList, Store, WritePolicy, bins};

use super::go_on;

type Delete = fn(&Store, &Set, &str) -> Result<bool>;

/// Each call that deletes a record.
fn deletes() -> [(&'static str, Delete); 6] {
    [
        ("delete", |_, set, key| Ok(set.delete(key)?.is_some())),
        ("operate", |_, set, key| {
            match set.operate(key, &[delete_all_bins()]) {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        }),
        ("transaction", |store, set, key| {
            store.transaction(|tx| tx.in_set(set)?.delete(key))
        }),
        ("group", |store, set, key| {
            let key = Key::from(key).into_owned();
            let made = store.write_together(|writes| writes.delete(set, key));
            match made {
                Ok(results) => Ok(results[0].lsn.is_some()),
                Err(Error::WritesRefused { mut reasons }) => Err(reasons.remove(0).1),
                Err(error) => Err(error),
            }
        }),
        ("batch", |_, set, key| {
            use spikelet::{RecordCall, RecordSet};
            let (policy, operations) = (WritePolicy::default(), [delete_all_bins()]);
            let call = RecordCall {
                policy: &policy,
                key: key.into(),
                operations: &operations,
            };
            match set.operate_on_each(&[call]).remove(0) {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        }),
        ("background", |_, set, key| {
            let only = eq(string_bin("name"), key);
            let running = set
                .query_all()
                .filter(only)
                .operate(&BackgroundPolicy::default(), [delete_all_bins()])?;
            let mut done = running.wait()?;
            match done.failures.pop() {
                Some(failed) => Err(failed.error),
                None => Ok(done.written == 1),
            }
        }),
    ]
}

struct Social<'s> {
    follows: ManyToMany<&'s Store>,
    likes: ManyToMany<&'s Store>,
    links: Links<&'s Store>,
    members: Members<&'s Store>,
    posts: OneToMany<&'s Store>,
}

fn social(store: &Store, rule: OnDelete, sharded: bool) -> Social<'_> {
    let policy = if sharded {
        ShardPolicy::manual().record_bytes_max(200)
    } else {
        ShardPolicy::manual()
    };
    let users = |bin| ("users", bin);
    let social = Social {
        follows: ManyToMany::new(store, "follows", users("following"), users("followers"))
            .on_delete(rule)
            .shard_policy(policy),
        likes: ManyToMany::new(store, "likes", users("likes"), ("things", "liked_by"))
            .with_attributes()
            .on_delete(rule)
            .shard_policy(policy),
        links: Links::new(store, "links")
            .reciprocal("knows", "known")
            .on_delete(rule)
            .shard_policy(policy),
        members: Members::new(store, "users", ("sets", "all", "keys")).shard_policy(policy),
        posts: OneToMany::new(
            store,
            "posts",
            ("users", "posts"),
            Layout::key_list("posts"),
        )
        .unwrap()
        .with_parent_bin("author")
        .on_delete(match rule {
            OnDelete::Detach => OnDelete::Cascade,
            rule => rule,
        })
        .shard_policy(policy),
    };
    social
        .members
        .put("ann", bins! { "name" => "ann" })
        .unwrap();
    social
        .members
        .put("bob", bins! { "name" => "bob" })
        .unwrap();
    for id in 0..30 {
        social.follows.link("ann", id).unwrap();
        social.follows.link(id, "ann").unwrap();
        social.likes.link_with("ann", id, &id).unwrap();
        social
            .posts
            .put("ann", id, &json!({ "text": "x" }))
            .unwrap();
        let other = Address::new("users", id);
        social
            .links
            .link(&Address::new("users", "ann"), "knows", &other)
            .unwrap();
    }
    social.follows.link("ann", "bob").unwrap();
    social.follows.link("ann", "ann").unwrap();
    social
}

impl Social<'_> {
    fn check_sound(&self, what: &str) {
        assert!(
            self.follows.verify(Repair::No, go_on).unwrap().is_sound(),
            "{what}: follows"
        );
        assert!(
            self.likes.verify(Repair::No, go_on).unwrap().is_sound(),
            "{what}: likes"
        );
        assert!(
            self.links
                .verify(["users"], Repair::No, go_on)
                .unwrap()
                .is_sound(),
            "{what}: links"
        );
        assert!(
            self.posts.verify(Repair::No, go_on).unwrap().is_sound(),
            "{what}: posts"
        );
    }
}

#[test]
fn every_delete_honours_every_relation_of_the_record() {
    for sharded in [false, true] {
        for (name, delete) in deletes() {
            let what = format!("{name}, sharded: {sharded}");
            let store = Store::in_memory().unwrap();
            let users = store.set("users").unwrap();
            let restricted = social(&store, OnDelete::Restrict, sharded);
            let refused = delete(&store, &users, "ann").expect_err(&what);
            let Error::HasEdges { relations, .. } = &refused else {
                panic!("{what}: {refused}");
            };
            let mut relations = relations.clone();
            relations.sort();
            let wanted = [
                ("follows", 63),
                ("likes", 30),
                ("links in links", 30),
                ("posts", 30),
            ];
            assert_eq!(
                relations,
                wanted.map(|(name, count)| (name.into(), count)),
                "{what}"
            );
            assert_eq!(refused.result_code(), 22);
            restricted.check_sound(&what);

            let store = Store::in_memory().unwrap();
            let users = store.set("users").unwrap();
            let detached = social(&store, OnDelete::Detach, sharded);
            assert!(delete(&store, &users, "ann").expect(&what), "{what}");
            detached.check_sound(&what);
            assert!(!delete(&store, &users, "ann").unwrap(), "{what}");
            // Records that were there for their edges alone are gone, with all companions; posts
            // went with their author.
            assert_eq!(store.set("posts").unwrap().len(), 0, "{what}");
            assert_eq!(
                store.set("things").unwrap().with_companions().len(),
                0,
                "{what}"
            );
            assert_eq!(users.with_companions().len(), 1, "{what}");
            assert_eq!(
                detached.members.page(None, 10).unwrap(),
                ["bob".into()],
                "{what}"
            );
            assert_eq!(
                users.get("bob").unwrap().unwrap().get("name"),
                Some("bob".into())
            );
        }
    }
}

#[test]
fn the_delete_of_one_handle_honours_the_relations_of_others() {
    let store = Store::in_memory().unwrap();
    let social = social(&store, OnDelete::Restrict, false);
    let refused = social
        .follows
        .delete_with_edges("ann", OnDelete::Detach, go_on)
        .unwrap_err();
    let Error::HasEdges { relations, .. } = refused else {
        panic!()
    };
    assert!(
        relations.iter().all(|(name, _)| &**name != "follows"),
        "{relations:?}"
    );
    for id in 0..30 {
        let other = Address::new("users", id);
        social
            .links
            .unlink(&Address::new("users", "ann"), "knows", &other)
            .unwrap();
        social.likes.unlink("ann", id).unwrap();
        social.posts.remove("ann", id).unwrap();
    }
    assert!(
        social
            .follows
            .delete_with_edges("ann", OnDelete::Detach, go_on)
            .unwrap()
    );
    assert!(
        !social
            .follows
            .delete_with_edges("ann", OnDelete::Detach, go_on)
            .unwrap()
    );
    social.check_sound("after the delete");
}

#[test]
fn a_delete_obeys_its_policy_before_it_touches_edges() {
    let store = Store::in_memory().unwrap();
    let social = social(&store, OnDelete::Detach, true);
    let users = store.set("users").unwrap();
    let generation = GenerationPolicy::ExpectEqual(60_000);
    let wrong = WritePolicy::default().generation(generation);
    assert_eq!(
        users.delete_with(&wrong, "ann").unwrap_err().result_code(),
        3
    );
    let filter = WritePolicy::default().filter(eq(string_bin("name"), "zoe"));
    assert_eq!(
        users.delete_with(&filter, "ann").unwrap_err().result_code(),
        27
    );
    assert_eq!(social.follows.targets("ann").len().unwrap(), 32);
    let right = WritePolicy::default().filter(eq(string_bin("name"), "ann"));
    assert!(users.delete_with(&right, "ann").unwrap().is_some());
    social.check_sound("after the delete");
}

#[test]
fn a_deleted_child_member_or_edge_leaves_the_list_that_has_it() {
    let store = Store::in_memory().unwrap();
    let social = social(&store, OnDelete::Restrict, false);
    assert!(store.set("posts").unwrap().delete(7).unwrap().is_some());
    assert_eq!(social.posts.len("ann").unwrap(), 29);
    let graph = Graph::new(
        &store,
        "records",
        ["GOAL", "USER"],
        [EdgeType::new("MEMBER")],
    )
    .unwrap();
    let (goal, user) = (NodeId::new("GOAL", "G1"), NodeId::new("USER", "U1"));
    graph.put_node(&goal, &json!({ "title": "x" })).unwrap();
    graph.put_node(&user, &json!({ "name": "x" })).unwrap();
    graph.link(&goal, "MEMBER", &user, &json!({})).unwrap();
    let edges = store.set("records_edges").unwrap();
    let edge = "GOAL-G1|MEMBER-USER-U1";
    edges.put_as(edge, &json!({ "note": "x" })).unwrap();
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    assert!(edges.delete(edge).unwrap().is_some());
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    // Of two lists that have a member, both are left.
    let others = Members::new(&store, "users", ("sets", "others", "keys"));
    others.put("bob", bins! { "name" => "bob" }).unwrap();
    social.follows.unlink("ann", "bob").unwrap();
    assert!(others.remove("bob").unwrap());
    assert!(!others.contains("bob").unwrap() && !social.members.contains("bob").unwrap());
}

#[test]
fn children_by_reference_and_edges_of_nodes_are_found_by_their_indexes() {
    for count in [5, 700] {
        let store = Store::in_memory().unwrap();
        let layout = Layout::reference("post", "by_post");
        let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
        let posts = store.set("posts").unwrap();
        posts.put("p", bins! { "title" => "x" }).unwrap();
        for id in 0..count {
            comments.put("p", id, &json!({ "text": "x" })).unwrap();
        }
        let refused = posts.delete("p").unwrap_err();
        assert!(matches!(refused, Error::HasEdges { .. }), "{refused}");
        comments
            .clone()
            .on_delete(OnDelete::Cascade)
            .declare()
            .unwrap();
        assert!(posts.delete("p").unwrap().is_some());
        assert_eq!(store.set("comments").unwrap().len(), 0);

        let types = || [EdgeType::new("MEMBER"), EdgeType::new("VIEW").omitted()];
        let graph = Graph::new(&store, "records", ["GOAL", "USER"], types())
            .unwrap()
            .on_delete(OnDelete::Detach);
        let goal = NodeId::new("GOAL", "G1");
        graph.put_node(&goal, &json!({ "title": "x" })).unwrap();
        for id in 0..count {
            let user = NodeId::new("USER", &id.to_string());
            graph.link(&goal, "MEMBER", &user, &json!({})).unwrap();
            graph.link(&user, "VIEW", &goal, &json!({})).unwrap();
            graph.link(&user, "MEMBER", &goal, &json!({})).unwrap();
        }
        let nodes = store.set("records").unwrap();
        assert!(nodes.delete("GOAL-G1").unwrap().is_some());
        assert_eq!(store.set("records_edges").unwrap().len(), 0);
        assert_eq!(nodes.with_companions().len(), 0);
        assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn a_cascade_reaches_children_of_children_and_is_stopped_by_a_restriction() {
    let store = Store::in_memory().unwrap();
    let parents = OneToMany::new(&store, "a", ("a", "b"), Layout::key_list("bs"))
        .unwrap()
        .with_parent_bin("a")
        .on_delete(OnDelete::Cascade);
    let children = OneToMany::new(&store, "b", ("b", "c"), Layout::key_list("cs"))
        .unwrap()
        .with_parent_bin("b")
        .on_delete(OnDelete::Cascade);
    let tagged = ManyToMany::new(&store, "tagged", ("c", "tags"), ("tags", "tagged"));
    for id in 0..10 {
        parents.put(1, id, &json!({ "x": 1 })).unwrap();
        for child in 0..10 {
            children
                .put(id, id * 10 + child, &json!({ "x": 1 }))
                .unwrap();
        }
    }
    tagged.link(99, "red").unwrap();
    let roots = store.set("a").unwrap();
    let refused = roots.delete(1).unwrap_err();
    assert_eq!(
        refused
            .record()
            .map(|record| record.set().to_owned())
            .as_deref(),
        Some("c"),
        "{refused}"
    );
    assert_eq!(
        (store.set("b").unwrap().len(), store.set("c").unwrap().len()),
        (10, 100)
    );
    tagged.unlink(99, "red").unwrap();
    assert!(roots.delete(1).unwrap().is_some());
    assert_eq!(
        (store.set("b").unwrap().len(), store.set("c").unwrap().len()),
        (0, 0)
    );
}

#[test]
fn a_hub_with_many_edges_goes_in_steps_and_not_within_a_transaction() {
    for sharded in [false, true] {
        let store = Store::in_memory().unwrap();
        let policy = if sharded {
            ShardPolicy::manual().record_bytes_max(2_000)
        } else {
            ShardPolicy::manual()
        };
        let follows = ManyToMany::new(
            &store,
            "follows",
            ("users", "following"),
            ("users", "followers"),
        )
        .on_delete(OnDelete::Detach)
        .shard_policy(policy);
        for id in 0..1_500 {
            follows.link(id, "hub").unwrap();
        }
        let users = store.set("users").unwrap();
        let refused = store
            .transaction(|tx| tx.in_set(&users)?.delete("hub"))
            .unwrap_err();
        assert!(
            matches!(refused, Error::TransactionLimit { option: "", .. }),
            "{refused}"
        );
        assert_eq!(follows.sources("hub").len().unwrap(), 1_500);
        // The steps before the last one change the record, and the policy was asked before them.
        let hub = users.get("hub").unwrap().unwrap();
        let generation = GenerationPolicy::ExpectEqual(hub.metadata().generation.into());
        let as_read = WritePolicy::default().generation(generation);
        assert!(users.delete_with(&as_read, "hub").unwrap().is_some());
        assert_eq!(users.with_companions().len(), 0, "sharded: {sharded}");
    }
}

#[test]
fn a_delete_that_a_sharded_collection_refuses_leaves_all_edges() {
    let store = Store::in_memory().unwrap();
    let ends = [("users", "following"), ("users", "followers")];
    let follows = ManyToMany::new(&store, "follows", ends[0], ends[1]).on_delete(OnDelete::Detach);
    for id in 0..400 {
        follows.link("hub", id).unwrap();
    }
    let feed = ShardedList::new(&store, "users", "hub", "feed").unwrap();
    feed.add(1).unwrap();
    feed.shards().activate(2).unwrap();
    let users = store.set("users").unwrap();
    let refused = users.delete("hub").unwrap_err();
    assert!(matches!(refused, Error::ShardRoot { .. }), "{refused}");
    assert_eq!(follows.targets("hub").len().unwrap(), 400);
    feed.delete().unwrap();
    assert!(users.delete("hub").unwrap().is_some());
}

#[test]
fn a_record_goes_with_its_last_edge_though_its_edges_were_sharded_once() {
    let store = Store::in_memory().unwrap();
    let ends = [("users", "following"), ("users", "followers")];
    let follows = ManyToMany::new(&store, "follows", ends[0], ends[1]).on_delete(OnDelete::Detach);
    follows.link("ann", "bob").unwrap();
    let followers = ShardedList::new(&store, "users", "bob", "followers").unwrap();
    followers.shards().activate(2).unwrap();
    followers.shards().deactivate().unwrap();
    let users = store.set("users").unwrap();
    assert!(users.delete("ann").unwrap().is_some());
    assert_eq!(users.with_companions().len(), 0);
}

#[test]
fn edges_with_both_ends_in_one_bin_are_counted_once() {
    let store = Store::in_memory().unwrap();
    let friends = ManyToMany::new(
        &store,
        "friends",
        ("users", "friends"),
        ("users", "friends"),
    );
    friends.link("ann", "bob").unwrap();
    match store.set("users").unwrap().delete("ann").unwrap_err() {
        Error::HasEdges { relations, .. } => assert_eq!(relations, [("friends".into(), 1)]),
        other => panic!("{other}"),
    }
    assert!(
        friends
            .delete_with_edges("ann", OnDelete::Detach, go_on)
            .unwrap()
    );
    assert!(friends.sources("bob").is_empty().unwrap());
}

#[test]
fn the_delete_of_links_goes_by_its_own_rule_under_all_their_names() {
    let store = Store::in_memory().unwrap();
    let links = Links::new(&store, "links").reciprocal("likes", "liked");
    links.declare("social", ["users"]).unwrap();
    let (ann, bob) = (Address::new("users", "ann"), Address::new("users", "bob"));
    let detaching = links.clone().on_delete(OnDelete::Detach);
    detaching.link(&ann, "likes", &bob).unwrap();
    let refused = detaching
        .delete_with_edges(&ann, OnDelete::Cascade, go_on)
        .unwrap_err();
    assert_eq!(refused.result_code(), 4, "{refused}");
    assert!(
        detaching
            .delete_with_edges(&ann, OnDelete::Detach, go_on)
            .unwrap()
    );
    assert!(!links.contains(&bob, "liked", &ann).unwrap());
}

#[test]
fn a_record_of_a_circle_that_was_taken_away_goes_with_the_other_that_lists_it() {
    // In one transaction with the last edges of the other, and in a step before.
    for others in [0, 400] {
        let store = Store::in_memory().unwrap();
        let relation = |name: &str, bin: &str, parent: &str| {
            let layout = Layout::key_list(bin);
            let relation = OneToMany::new(&store, name, ("nodes", "nodes"), layout).unwrap();
            relation
                .with_parent_bin(parent)
                .on_delete(OnDelete::Cascade)
        };
        let first = relation("first", "one", "of_one");
        let second = relation("second", "two", "of_two");
        let title = json!({ "title": 1 });
        first.put("a", 0, &title).unwrap();
        first.put(0, "c", &title).unwrap();
        for leaf in 0..400 {
            first.put("c", 1_000 + leaf, &title).unwrap();
        }
        // c lists 0, to which it belongs itself.
        second.put("c", 0, &title).unwrap();
        for leaf in 0..others {
            second.put("c", 2_000 + leaf, &title).unwrap();
        }
        let moved = std::cell::Cell::new(false);
        let deleted = first.delete_with_edges("a", OnDelete::Cascade, |_| {
            if !moved.replace(true) {
                first.set_parent(0, "z").unwrap();
            }
            std::ops::ControlFlow::Continue(())
        });
        assert!(deleted.unwrap() && moved.get());
        // Nothing leads from the deleted record to them any more.
        let nodes = store.set("nodes").unwrap();
        assert!(!nodes.exists("a").unwrap());
        assert!(nodes.exists("c").unwrap(), "it belongs to 0: {others}");
        assert!(nodes.exists(0).unwrap(), "it belongs to z: {others}");
        assert_eq!(first.len("z").unwrap(), 1);
    }
}

#[test]
fn a_collection_that_is_the_last_bin_of_a_record_is_deleted_with_its_place_in_lists() {
    let store = Store::in_memory().unwrap();
    let members = Members::new(&store, "users", ("lists", "all", "keys"));
    let ends = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", ends.0, ends.1);
    follows.declare().unwrap();
    let users = store.set("users").unwrap();
    for (at, key) in ["ann", "bob", "cat"].into_iter().enumerate() {
        members.put(key, bins! { "tags" => vec![1, 2] }).unwrap();
        let delete = || ShardedList::new(&store, "users", key, "tags")?.delete();
        match at {
            0 => drop(delete().unwrap()),
            1 => {
                let in_transaction =
                    store.transaction(|tx| ShardedList::new(tx, "users", key, "tags")?.delete());
                let _ = in_transaction.unwrap();
            }
            _ => {
                let list = ShardedList::new(&store, "users", key, "tags").unwrap();
                list.shards().activate(2).unwrap();
                users.put(key, [("n", 1)]).unwrap();
                list.delete().unwrap();
            }
        }
        let is_there = users.exists(key).unwrap();
        assert_eq!(members.contains(key).unwrap(), is_there, "{key}");
        assert_eq!(is_there, at == 2, "{key}");
    }
    // Of a record with edges, only the collection goes.
    users.put("dan", bins! { "tags" => vec![1] }).unwrap();
    follows.link("dan", "eve").unwrap();
    ShardedList::new(&store, "users", "dan", "tags")
        .unwrap()
        .delete()
        .unwrap();
    assert!(follows.contains("dan", "eve").unwrap());
}
