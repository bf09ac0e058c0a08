//! What declared relations keep plain calls from doing to their bins.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::json;
use spikelet::operations::{self, delete_all_bins, lists};
use spikelet::policy::RecordExistsAction;
use spikelet::relation::{
    Address, EdgeType, Graph, Layout, Links, ManyToMany, Members, NodeId, OnDelete, OneToMany,
    Repair, forget_relation,
};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Error, Expiration, ListPolicy, Set, ShardedList, ShardedMap, Store, Value, WritePolicy, bins,
};

use super::go_on;

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct User {
    name: String,
}

/// A record with edges of one relation, and a look at whether they are all there.
struct Subject<'s> {
    set: &'static str,
    key: &'static str,
    bin: &'static str,
    is_sound: Box<dyn Fn() -> bool + 's>,
}

const EDGES: i64 = 250;

/// One record with edges for each handle, small or sharded.
fn subjects(store: &Store, sharded: bool) -> Vec<Subject<'_>> {
    let policy = if sharded {
        ShardPolicy::manual().elements_max(Some(20))
    } else {
        ShardPolicy::manual()
    };
    let follows = ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
    .shard_policy(policy);
    let members = Members::new(store, "people", ("groups", "all", "members")).shard_policy(policy);
    let posts = ("posts", "comments");
    let keys = OneToMany::new(store, "keyed", posts, Layout::key_list("comment_keys"))
        .unwrap()
        .shard_policy(policy);
    let inside = OneToMany::new(store, "inside", posts, Layout::consolidated("comments"))
        .unwrap()
        .shard_policy(policy);
    let links = Links::new(store, "links")
        .reciprocal("parent", "child")
        .shard_policy(policy);
    let graph = Graph::new(
        store,
        "records",
        ["GOAL", "USER"],
        [EdgeType::new("MEMBER")],
    )
    .unwrap()
    .shard_policy(policy);
    let goal = NodeId::new("GOAL", "G1");
    for id in 0..EDGES {
        follows.link("alice", id).unwrap();
        members.put(id, bins! { "id" => id }).unwrap();
        keys.put("post", id, &json!({ "text": id })).unwrap();
        inside.put("story", id, &json!({ "text": id })).unwrap();
        let (bart, child) = (Address::new("family", "bart"), Address::new("family", id));
        links.link(&bart, "parent", &child).unwrap();
        let user = NodeId::new("USER", &id.to_string());
        graph.put_node(&user, &json!({ "id": id })).unwrap();
        graph.link(&goal, "MEMBER", &user, &json!({})).unwrap();
    }
    let is_whole = |found: spikelet::relation::RelationAudit, edges: u64| {
        found.is_sound() && found.edges >= edges
    };
    let edges = EDGES as u64;
    vec![
        Subject {
            set: "users",
            key: "alice",
            bin: "following",
            is_sound: Box::new(move || {
                is_whole(follows.verify(Repair::No, go_on).unwrap(), 2 * edges)
            }),
        },
        Subject {
            set: "groups",
            key: "all",
            bin: "members",
            is_sound: Box::new(move || is_whole(members.verify(Repair::No, go_on).unwrap(), edges)),
        },
        Subject {
            set: "posts",
            key: "post",
            bin: "comment_keys",
            is_sound: Box::new(move || keys.len("post").unwrap() == edges),
        },
        Subject {
            set: "posts",
            key: "story",
            bin: "comments",
            is_sound: Box::new(move || inside.len("story").unwrap() == edges),
        },
        Subject {
            set: "family",
            key: "bart",
            bin: "links",
            is_sound: Box::new(move || {
                let audit = links.verify(["family"], Repair::No, go_on).unwrap();
                is_whole(audit, 2 * edges)
            }),
        },
        Subject {
            set: "records",
            key: "GOAL-G1",
            bin: "edge_set",
            is_sound: Box::new(move || is_whole(graph.verify(Repair::No, go_on).unwrap(), edges)),
        },
    ]
}

type Replace = fn(&Store, &Set, &str, &WritePolicy);

/// Each way to replace a record by `name`.
fn replacing_calls() -> [(&'static str, Replace); 6] {
    fn user() -> User {
        User {
            name: "Alice".into(),
        }
    }
    [
        ("put_as", |_, set, key, _| {
            set.put_as(key, &user()).unwrap();
        }),
        ("put", |_, set, key, replace| {
            set.put_with(replace, key, bins! { "name" => "Alice" })
                .unwrap();
        }),
        ("operate", |_, set, key, replace| {
            set.operate_with(replace, key, &[operations::put("name", "Alice")])
                .unwrap();
        }),
        ("transaction", |store, set, key, _| {
            store
                .transaction(|tx| tx.in_set(set)?.put_as(key, &user()))
                .unwrap();
        }),
        ("group", |store, set, key, replace| {
            store
                .write_together(|writes| {
                    writes.put_with(replace, set, key, bins! { "name" => "Alice" });
                })
                .unwrap();
        }),
        ("background", |_, set, key, replace| {
            let policy = spikelet::query::BackgroundPolicy::default().write(replace.clone());
            let only = spikelet::expressions::eq(spikelet::expressions::string_bin("is"), key);
            set.operate(key, &[operations::put("is", key)]).unwrap();
            let done = set.query_all().filter(only);
            let done = done
                .operate(&policy, [operations::put("name", "Alice")])
                .unwrap();
            assert_eq!(done.wait().unwrap().written, 1);
        }),
    ]
}

#[test]
fn a_replaced_record_keeps_its_edges_and_loses_its_other_bins() {
    for sharded in [false, true] {
        for (name, replace) in replacing_calls() {
            let store = Store::in_memory().unwrap();
            for subject in subjects(&store, sharded) {
                let what = format!(
                    "{name} of {}/{}, sharded: {sharded}",
                    subject.set, subject.key
                );
                let set = store.set(subject.set).unwrap();
                let (set_name, key, bin) = (subject.set, subject.key, subject.bin);
                let list = ShardedList::new(&store, set_name, key, bin).unwrap();
                let map = || ShardedMap::new(&store, set_name, key, bin).unwrap();
                let state = list.shards().state();
                let state = state.or_else(|_| map().shards().state()).unwrap();
                assert_eq!(state.shards > 0, sharded, "{what}");
                set.put(subject.key, bins! { "old" => 1 }).unwrap();
                let policy =
                    WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
                replace(&store, &set, subject.key, &policy);
                let record = set.get(subject.key).unwrap().unwrap();
                assert_eq!(record.get("name"), Some("Alice".into()), "{what}");
                assert_eq!(record.get("old"), None, "{what}");
                assert!((subject.is_sound)(), "{what}");
            }
        }
    }
}

#[test]
fn owned_bins_are_neither_set_nor_removed_as_a_whole() {
    let store = Store::in_memory().unwrap();
    for subject in subjects(&store, false) {
        let (set, key, bin) = (store.set(subject.set).unwrap(), subject.key, subject.bin);
        let replace = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
        let refused = [
            set.put(key, [(bin, 1)]).map(drop),
            set.put(key, [(bin, Value::Nil)]).map(drop),
            set.put("new", [(bin, 1)]).map(drop),
            set.put_with(&replace, key, [(bin, 1)]).map(drop),
            set.operate(key, &[operations::put(bin, 1)]).map(drop),
            set.operate(
                key,
                &[operations::put("a", 1), operations::put(bin, Value::Nil)],
            )
            .map(drop),
            set.operate(key, &[delete_all_bins(), operations::put("a", 1)])
                .map(drop),
            set.update(key, |bins| bins.set(bin, 1)),
            set.update(key, |bins| {
                bins.set("a", 1)?;
                bins.remove(bin);
                Ok(())
            }),
            store.transaction(|tx| tx.in_set(&set)?.put(key, [(bin, 1)])),
        ];
        for (call, refused) in refused.into_iter().enumerate() {
            let error = refused.expect_err(&format!("call {call} of {}", subject.set));
            let is_owned = matches!(&error, Error::OwnedBin { bin: owned, record: Some(_), .. } if **owned == *bin);
            assert!(
                is_owned && error.result_code() == 22,
                "call {call}: {error}"
            );
        }
        // The record itself is the user's, and elements are edited as the layout says.
        set.put(key, bins! { "a" => 2 }).unwrap();
        set.update(key, |bins| bins.set("a", 3)).unwrap();
        assert!((subject.is_sound)(), "{}", subject.set);
        let careless = WritePolicy::default().override_shards(true);
        set.put_with(&careless, key, [(bin, Value::Nil)]).unwrap();
        assert_eq!(set.get(key).unwrap().unwrap().get(bin), None);
    }
}

#[test]
fn elements_are_edited_by_plain_calls_and_a_forgotten_relation_guards_nothing() {
    let store = Store::in_memory().unwrap();
    let follows = ManyToMany::new(
        &store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    );
    follows.link("ann", "bob").unwrap();
    let users = store.set("users").unwrap();
    let append = lists::append(&ListPolicy::default(), "following", "zoe");
    users.operate("ann", &[append]).unwrap();
    assert!(follows.contains("ann", "zoe").unwrap());
    assert_eq!(follows.verify(Repair::No, go_on).unwrap().faults.len(), 1);
    users.put("ann", [("following", 1)]).unwrap_err();
    assert!(forget_relation(&store, "follows").unwrap());
    users.put("ann", [("following", 1)]).unwrap();
    users.delete("bob").unwrap();
}

#[test]
fn the_first_write_of_a_handle_guards_after_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let handle = |store| {
        ManyToMany::new(
            store,
            "follows",
            ("users", "following"),
            ("users", "followers"),
        )
        .on_delete(OnDelete::Detach)
    };
    let store = Store::open(dir.path()).unwrap();
    handle(store.clone()).link("ann", "bob").unwrap();
    store
        .set("users")
        .unwrap()
        .put("ann", [("following", 1)])
        .unwrap_err();
    // A transaction that fails declares its relation all the same, and changes nothing else.
    let likes = ManyToMany::new(&store, "likes", ("users", "likes"), ("users", "liked_by"));
    store
        .transaction(|tx| {
            likes.within(tx).link("ann", "bob")?;
            Err::<(), _>(Error::Forbidden("no".into()))
        })
        .unwrap_err();
    store
        .set("users")
        .unwrap()
        .put("ann", [("likes", 1)])
        .unwrap_err();
    drop(likes);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let users = store.set("users").unwrap();
    users.put("ann", [("following", 1)]).unwrap_err();
    users.put("ann", [("likes", 1)]).unwrap_err();
    users.put_as("ann", &User { name: "Ann".into() }).unwrap();
    users.delete("bob").unwrap();
    assert_eq!(handle(store).targets("ann").len().unwrap(), 0);
}

#[test]
fn handles_that_contradict_a_declaration_are_refused_at_their_first_write() {
    let store = Store::in_memory().unwrap();
    let follows = || {
        ManyToMany::new(
            &store,
            "follows",
            ("users", "following"),
            ("users", "followers"),
        )
    };
    follows().link("ann", "bob").unwrap();
    let other_bin = ManyToMany::new(
        &store,
        "follows",
        ("users", "follows"),
        ("users", "followers"),
    );
    let error = other_bin.link("ann", "zoe").unwrap_err();
    assert!(error.to_string().contains("following"), "{error}");
    let detach = follows().on_delete(OnDelete::Detach);
    assert_eq!(detach.link("ann", "zoe").unwrap_err().result_code(), 4);
    detach.declare().unwrap();
    detach.link("ann", "zoe").unwrap();
    // Without a rule of its own, a handle takes the declared one.
    assert!(follows().link("bob", "zoe").unwrap());
    assert!(
        follows()
            .on_delete(OnDelete::Cascade)
            .link("bob", "ann")
            .is_err()
    );
    let comments =
        |layout| OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    comments(Layout::key_list("keys"))
        .put(1, 1, &json!({ "text": "a" }))
        .unwrap();
    let moved = comments(Layout::reference("post", "by_post"));
    let error = moved.put(1, 2, &json!({ "text": "b" })).unwrap_err();
    assert!(error.to_string().contains("moving_from"), "{error}");
    let moving = moved.moving_from(Layout::key_list("keys")).unwrap();
    moving.put(1, 2, &json!({ "text": "b" })).unwrap();
    assert_eq!(moving.len(1).unwrap(), 2);
    // The list that children are being moved from is still the relation's.
    store
        .set("posts")
        .unwrap()
        .put_as(1, &User { name: "a".into() })
        .unwrap();
    assert_eq!(moving.len(1).unwrap(), 2);
}

#[test]
fn a_link_leaves_times_to_live_as_they_are() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    let hour =
        WritePolicy::default().expiration(Expiration::After(std::time::Duration::from_secs(3600)));
    users
        .put_with(&hour, "ann", bins! { "name" => "Ann" })
        .unwrap();
    let expires = || users.get_header("ann").unwrap().unwrap().void_time;
    let before = expires();
    assert_ne!(before, 0);
    let follows = ManyToMany::new(
        &store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    );
    follows.link("ann", "bob").unwrap();
    follows.link("zoe", "ann").unwrap();
    follows.unlink("ann", "bob").unwrap();
    Links::new(&store, "links")
        .link(
            &Address::new("users", "ann"),
            "likes",
            &Address::new("users", "bob"),
        )
        .unwrap();
    assert_eq!(expires(), before);
    let never = WritePolicy::default().expiration(Expiration::Never);
    follows.write_policy(&never).link("ann", "eve").unwrap();
    assert_eq!(expires(), 0);
}

#[test]
fn ends_must_exist_where_a_handle_says_so() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users.put("ann", bins! { "name" => "Ann" }).unwrap();
    users.put("bob", bins! { "name" => "Bob" }).unwrap();
    let is_missing = |error: Error, key: &str| {
        let record = error.record().map(|record| record.key().to_string());
        assert_eq!(record, Some(format!("{key:?}")), "{error}");
        assert_eq!(error.result_code(), 2, "{error}");
    };
    for sharded in [false, true] {
        let policy = if sharded {
            ShardPolicy::manual().record_bytes_max(60)
        } else {
            ShardPolicy::manual()
        };
        let follows = ManyToMany::new(
            &store,
            "follows",
            ("users", "following"),
            ("users", "followers"),
        )
        .ends_must_exist()
        .shard_policy(policy);
        is_missing(follows.link("ann", "nobody").unwrap_err(), "nobody");
        is_missing(follows.link("nobody", "ann").unwrap_err(), "nobody");
        assert_eq!(follows.link("ann", "bob").unwrap(), !sharded);
        store
            .transaction(|tx| {
                is_missing(
                    follows.within(tx).link("ann", "nobody").unwrap_err(),
                    "nobody",
                );
                Ok(())
            })
            .unwrap();
        assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    }
    let links = Links::new(&store, "links")
        .reciprocal("likes", "liked")
        .ends_must_exist();
    let address = |key: &str| Address::new("users", key);
    is_missing(
        links
            .link(&address("ann"), "likes", &address("nobody"))
            .unwrap_err(),
        "nobody",
    );
    is_missing(
        links
            .link(&address("ann"), "one-way", &address("nobody"))
            .unwrap_err(),
        "nobody",
    );
    links
        .link(&address("ann"), "likes", &address("bob"))
        .unwrap();
    for layout in [
        Layout::key_list("keys"),
        Layout::consolidated("inside"),
        Layout::reference("user", "by_user"),
    ] {
        let name = format!("{layout:?}");
        let notes = OneToMany::new(&store, &name, ("users", "notes"), layout)
            .unwrap()
            .ends_must_exist();
        is_missing(
            notes.put("nobody", 1, &json!({ "text": "x" })).unwrap_err(),
            "nobody",
        );
        notes.put("ann", 1, &json!({ "text": "x" })).unwrap();
        notes.remove("ann", 1).unwrap();
    }
    let graph = Graph::new(
        &store,
        "records",
        ["GOAL", "USER"],
        [EdgeType::new("MEMBER")],
    )
    .unwrap()
    .ends_must_exist();
    let (goal, user) = (NodeId::new("GOAL", "G1"), NodeId::new("USER", "U1"));
    let link = || graph.link(&goal, "MEMBER", &user, &json!({}));
    is_missing(link().unwrap_err(), "GOAL-G1");
    graph.put_node(&goal, &json!({ "title": "x" })).unwrap();
    is_missing(link().unwrap_err(), "USER-U1");
    graph.put_node(&user, &json!({ "name": "x" })).unwrap();
    link().unwrap();
    assert_eq!(users.len(), 2);
}

#[test]
fn a_stopped_observer_is_asked_between_edges() {
    let stop = |_| ControlFlow::Break(());
    let store = Store::in_memory().unwrap();
    let follows = ManyToMany::new(
        &store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    );
    for id in 0..600 {
        follows.link("hub", id).unwrap();
    }
    assert!(
        !follows
            .delete_with_edges("hub", OnDelete::Detach, stop)
            .unwrap()
    );
    assert_eq!(follows.targets("hub").len().unwrap(), 599);
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn the_handle_of_a_collection_does_not_delete_the_edges_of_a_relation() {
    let store = Store::in_memory().unwrap();
    let ends = [("users", "following"), ("users", "followers")];
    let follows = ManyToMany::new(&store, "follows", ends[0], ends[1]);
    follows.link("ann", "bob").unwrap();
    let list = ShardedList::new(&store, "users", "ann", "following").unwrap();
    for shards in [0, 2] {
        if shards > 0 {
            list.shards().activate(shards).unwrap();
        }
        let refusals = [
            list.delete().unwrap_err(),
            store
                .transaction(|tx| ShardedList::new(tx, "users", "ann", "following")?.delete())
                .unwrap_err(),
        ];
        for refused in refusals {
            assert!(matches!(refused, Error::OwnedBin { .. }), "{refused}");
        }
        assert!(follows.contains("ann", "bob").unwrap(), "{shards} shards");
    }
    forget_relation(&store, "follows").unwrap();
    list.delete().unwrap();
}

#[test]
fn an_edit_of_elements_makes_no_other_value_of_an_owned_bin() {
    use spikelet::operations::bits::BitPolicy;
    use spikelet::operations::hll::{self, HllPolicy};
    use spikelet::operations::{bits, maps};
    use spikelet::{ListOrder, ListWriteFlags, MapPolicy};
    let store = Store::in_memory().unwrap();
    let ends = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", ends.0, ends.1);
    follows.link(1, 2).unwrap();
    let layout = Layout::reference("owner", "by_owner");
    let tasks = OneToMany::new(&store, "tasks", ("people", "users"), layout).unwrap();
    let blob: &[u8] = &[7, 7];
    tasks.put(blob, 1, &serde_json::json!({ "n": 1 })).unwrap();
    let users = store.set("users").unwrap();
    let sketch = HllPolicy::default();
    let edits = [
        (
            "a map for a list",
            3,
            maps::put(&MapPolicy::default(), "followers", 1, 1),
        ),
        ("a sketch for a list", 3, hll::init(&sketch, "followers", 8)),
        (
            "other bits of a key",
            1,
            bits::not(&BitPolicy::default(), "owner", 0, 8),
        ),
        (
            "a list for a key",
            3,
            lists::append(&ListPolicy::default(), "owner", 1),
        ),
    ];
    for (what, key, edit) in edits {
        let made = users.operate(key, &[edit]);
        assert!(
            matches!(made, Err(Error::OwnedBin { .. })),
            "{what}: {made:?}"
        );
    }
    assert_eq!(tasks.parent_of(1).unwrap(), Some(blob.into()));
    // Elements of the collection itself are free.
    let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
    users
        .operate(4, &[lists::append(&policy, "following", 9)])
        .unwrap();
    assert!(follows.contains(4, 9).unwrap());
}
