//! Deletes and replaces at the edges of the rules: writes of the same transaction, several
//! relations of one record, long chains.

use std::ops::ControlFlow;
use std::time::SystemTime;

use serde_json::json;
use spikelet::expressions::{ExpWriteFlags, bin_exists, unknown};
use spikelet::operations::{self, delete_all_bins, exp, lists};
use spikelet::policy::{GenerationPolicy, RecordExistsAction};
use spikelet::query::IndexDefinition;
use spikelet::relation::{
    Address, EdgeType, Graph, Layout, Links, ManyToMany, Members, NodeId, OnDelete, OneToMany,
    Repair, declared_relations,
};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::stats::OperationKind;
use spikelet::{
    Error, ListPolicy, Result, Set, ShardedCounter, ShardedList, ShardedMap, Store, TimeShards,
    TransactionPolicy, Value, WriteGroup, WritePolicy, bins,
};

use super::go_on;

fn comments(store: &Store, rule: OnDelete) -> OneToMany<&Store> {
    let layout = Layout::reference("post", "by_post");
    OneToMany::new(store, "comments", ("posts", "comments"), layout)
        .unwrap()
        .on_delete(rule)
}

#[test]
fn a_delete_sees_where_its_own_transaction_has_put_children() {
    for rule in [OnDelete::Restrict, OnDelete::Cascade] {
        let store = Store::in_memory().unwrap();
        let comments = comments(&store, rule);
        let posts = store.set("posts").unwrap();
        for post in ["old", "new"] {
            posts.put(post, bins! { "title" => post }).unwrap();
        }
        for id in 0..300 {
            comments.put("old", id, &json!({ "text": "x" })).unwrap();
        }
        comments.put("old", 300, &json!({ "text": "x" })).unwrap();
        // All children but one are moved away, and then the last one.
        let deleted = store.transaction(|tx| {
            let comments = comments.within(tx);
            for id in 0..300 {
                comments.put("new", id, &json!({ "text": "x" }))?;
            }
            if rule == OnDelete::Restrict {
                let refused = tx.in_set(&posts)?.delete("old").unwrap_err();
                assert!(matches!(refused, Error::HasEdges { .. }), "{refused}");
                comments.put("new", 300, &json!({ "text": "x" }))?;
            }
            tx.in_set(&posts)?.delete("old")
        });
        assert!(deleted.unwrap());
        let left = if rule == OnDelete::Restrict { 301 } else { 300 };
        assert_eq!(comments.len("new").unwrap(), left, "{rule:?}");
        assert_eq!(store.set("comments").unwrap().len(), left, "{rule:?}");
    }
}

#[test]
fn a_delete_sees_children_and_edges_that_its_own_transaction_has_written() {
    let store = Store::in_memory().unwrap();
    let posts = store.set("posts").unwrap();
    posts.put("p", bins! { "title" => "x" }).unwrap();
    let restricted = comments(&store, OnDelete::Restrict);
    restricted.declare().unwrap();
    let refused = store.transaction(|tx| {
        restricted.within(tx).put("p", 1, &json!({ "text": "x" }))?;
        tx.in_set(&posts)?.delete("p")
    });
    assert!(
        matches!(refused, Err(Error::HasEdges { .. })),
        "{refused:?}"
    );
    let cascade = comments(&store, OnDelete::Cascade);
    cascade.declare().unwrap();
    store
        .transaction(|tx| {
            cascade.within(tx).put("p", 1, &json!({ "text": "x" }))?;
            tx.in_set(&posts)?.delete("p")
        })
        .unwrap();
    assert_eq!(store.set("comments").unwrap().len(), 0);

    let graph = Graph::new(&store, "g", ["N"], [EdgeType::new("E")])
        .unwrap()
        .on_delete(OnDelete::Detach);
    let (one, other) = (NodeId::new("N", "1"), NodeId::new("N", "2"));
    graph.put_node(&one, &json!({ "n": 1 })).unwrap();
    graph.put_node(&other, &json!({ "n": 1 })).unwrap();
    let nodes = store.set("g").unwrap();
    store
        .transaction(|tx| {
            graph.within(tx).link(&other, "E", &one, &json!({}))?;
            tx.in_set(&nodes)?.delete("N-1")
        })
        .unwrap();
    assert_eq!(store.set("g_edges").unwrap().len(), 0);
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn a_handles_delete_asks_the_relations_that_other_handles_have_of_the_record() {
    let store = Store::in_memory().unwrap();
    let layout = Layout::key_list("comments");
    let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    let recent = Members::new(&store, "comments", ("lists", "recent", "comments"));
    comments.put("p", 1, &json!({ "text": "x" })).unwrap();
    recent.put(1, bins! { "text" => "x" }).unwrap();
    assert!(comments.remove("p", 1).unwrap());
    assert!(!recent.contains(1).unwrap());
    assert!(recent.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn a_list_of_edges_is_not_emptied_and_filled_again_in_one_call() {
    let store = Store::in_memory().unwrap();
    let follows = ManyToMany::new(&store, "follows", ("users", "out"), ("users", "in"));
    follows.link("ann", "bob").unwrap();
    let users = store.set("users").unwrap();
    let append = || lists::append(&ListPolicy::default(), "out", "zoe");
    let refused = users.operate("ann", &[delete_all_bins(), append()]);
    assert!(
        matches!(refused, Err(Error::OwnedBin { .. })),
        "{refused:?}"
    );
    assert!(follows.contains("ann", "bob").unwrap());
    // Where there are no edges yet, nothing is lost.
    users.put("eve", bins! { "name" => "eve" }).unwrap();
    users
        .operate("eve", &[delete_all_bins(), append()])
        .unwrap();
}

#[test]
fn a_write_that_leaves_no_bin_deletes_the_record_as_declared() {
    let store = Store::in_memory().unwrap();
    let layout = Layout::reference("post", "by_post");
    let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    let posts = store.set("posts").unwrap();
    let fill = || {
        posts.put("p", bins! { "title" => "x" }).unwrap();
        for id in 0..3 {
            comments.put("p", id, &json!({ "text": "x" })).unwrap();
        }
    };
    fill();
    let refused = posts.update("p", |bins| {
        bins.remove("title");
        Ok(())
    });
    assert!(
        matches!(refused, Err(Error::HasEdges { .. })),
        "{refused:?}"
    );
    let cascade = comments.clone().on_delete(OnDelete::Cascade);
    cascade.declare().unwrap();
    let empties: [(&str, &dyn Fn()); 6] = [
        ("update", &|| {
            let told = posts.update("p", |bins| Ok(bins.remove("title")));
            assert_eq!(told.unwrap(), Some("x".into()));
        }),
        ("put of nil", &|| {
            posts.put("p", [("title", Value::Nil)]).unwrap();
        }),
        ("put_all of nil", &|| {
            let emptied = [("p", [("title", Value::Nil)])];
            assert_eq!(
                posts
                    .put_all(emptied, |_| ControlFlow::Continue(()))
                    .unwrap()
                    .new,
                0
            );
        }),
        ("operate", &|| {
            let read = [
                operations::get_bin("title"),
                operations::put("title", Value::Nil),
            ];
            let done = posts.operate("p", &read).unwrap();
            assert_eq!(done.value(0), Some(&"x".into()));
        }),
        ("operate on a replaced record", &|| {
            let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
            // It writes nothing, and a replaced record keeps nothing.
            let write = exp::write("title", unknown(), ExpWriteFlags::EVAL_NO_FAIL);
            posts.operate_with(&policy, "p", &[write]).unwrap();
        }),
        ("transaction", &|| {
            store
                .transaction(|tx| {
                    tx.in_set(&posts)?.update("p", |bins| {
                        bins.remove("title");
                        Ok(())
                    })
                })
                .unwrap();
        }),
    ];
    for (what, empty) in empties {
        fill();
        empty();
        assert!(!posts.exists("p").unwrap(), "{what}");
        assert_eq!(store.set("comments").unwrap().len(), 0, "{what}");
    }
}

#[test]
fn a_write_of_a_group_that_leaves_no_bin_deletes_no_record_with_edges() {
    let store = Store::in_memory().unwrap();
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    let comments = comments(&store, OnDelete::Cascade);
    let posts = store.set("posts").unwrap();
    for post in ["p", "q"] {
        posts.put(post, bins! { "title" => "x" }).unwrap();
    }
    for id in 0..4 {
        let post = if id < 2 { "p" } else { "q" };
        comments.put(post, id, &json!({ "text": "x" })).unwrap();
    }
    let existing = WritePolicy::default().record_exists_action(RecordExistsAction::UpdateOnly);
    fn empty<'a>(writes: &mut WriteGroup<'a>, posts: &'a Set, at: usize) {
        match at {
            0 => writes.put(posts, "p", [("title", Value::Nil)]),
            _ => writes.operate(posts, "p", vec![operations::put("title", Value::Nil)]),
        }
    }
    for at in 0..2 {
        let groups = [
            namespace.write_together(|writes| empty(writes, &posts, at)),
            namespace.write_together(|writes| {
                empty(writes, &posts, at);
                writes.check(&existing, &posts, "q");
            }),
            namespace.write_together(|writes| {
                empty(writes, &posts, at);
                writes.delete(&posts, "q");
            }),
            namespace
                .write_together_once(&TransactionPolicy::default(), "t", |writes| {
                    empty(writes, &posts, at);
                })
                .map(Option::unwrap_or_default),
        ];
        for (group, made) in groups.into_iter().enumerate() {
            let Err(Error::WritesRefused { reasons }) = made else {
                panic!("{at}, {group}: {made:?}")
            };
            assert!(
                matches!(&reasons[..], [(0, Error::HasEdges { .. })]),
                "{at}, {group}: {reasons:?}"
            );
            assert!(posts.exists("p").unwrap() && posts.exists("q").unwrap());
            assert_eq!(store.set("comments").unwrap().len(), 4);
        }
    }
    // A deletion goes with the edges, however it is written.
    let made = namespace.write_together(|writes| {
        writes.operate(&posts, "p", vec![delete_all_bins()]);
        writes.delete(&posts, "q");
        writes.check(&existing, &posts, "p");
    });
    assert!(matches!(made, Err(Error::WritesRefused { .. })), "{made:?}");
    let made = namespace.write_together(|writes| {
        writes.operate(&posts, "p", vec![delete_all_bins()]);
        writes.delete(&posts, "q");
    });
    made.unwrap();
    assert_eq!((posts.len(), store.set("comments").unwrap().len()), (0, 0));
}

#[test]
fn a_record_that_others_refer_to_stays_when_its_last_edge_goes() {
    let store = Store::in_memory().unwrap();
    let likes = ManyToMany::new(&store, "likes", ("users", "likes"), ("posts", "liked_by"))
        .on_delete(OnDelete::Detach);
    let comments = comments(&store, OnDelete::Restrict);
    likes.link("ann", "p").unwrap();
    likes.link("ann", "q").unwrap();
    comments.put("p", 1, &json!({ "text": "x" })).unwrap();
    assert!(store.set("users").unwrap().delete("ann").unwrap().is_some());
    let posts = store.set("posts").unwrap();
    assert!(posts.exists("p").unwrap());
    assert!(!posts.exists("q").unwrap());
}

#[test]
fn a_cascade_goes_down_a_long_chain_and_around_a_circle() {
    let store = Store::in_memory().unwrap();
    let layout = Layout::key_list("parts");
    let parts = OneToMany::new(&store, "parts", ("things", "things"), layout)
        .unwrap()
        .on_delete(OnDelete::Cascade);
    let things = store.set("things").unwrap();
    let child = json!({ "n": 1 });
    for id in 0..3_000 {
        parts.put(id, id + 1, &child).unwrap();
    }
    let small = std::thread::Builder::new().stack_size(512 << 10);
    std::thread::scope(|scope| {
        let deletes = small.spawn_scoped(scope, || things.delete(0).unwrap());
        assert!(deletes.unwrap().join().unwrap().is_some());
    });
    assert_eq!(things.with_companions().len(), 0);
    // Two records with more children than one transaction takes, and each is one of the other's.
    for id in 0..300 {
        parts.put("a", id, &child).unwrap();
        parts.put("b", 1_000 + id, &child).unwrap();
    }
    parts.put("a", "b", &child).unwrap();
    parts.put("b", "a", &child).unwrap();
    assert_eq!(things.len(), 602);
    assert!(things.delete("a").unwrap().is_some());
    assert_eq!(things.with_companions().len(), 0);
}

#[test]
fn a_delete_in_steps_asks_its_policy_before_the_children_in_the_record_go() {
    // The relations of a record come in the order of their names.
    for notes in ["a notes", "notes"] {
        for by_filter in [false, true] {
            let store = Store::in_memory().unwrap();
            let users = store.set("users").unwrap();
            let sides = (("users", "following"), ("users", "followers"));
            let follows = ManyToMany::new(&store, "follows", sides.0, sides.1);
            let follows = follows.on_delete(OnDelete::Detach);
            let layout = Layout::consolidated("notes");
            let notes = OneToMany::new(&store, notes, ("users", "notes"), layout).unwrap();
            let notes = notes.on_delete(OnDelete::Cascade);
            users.put("hub", bins! { "title" => "a" }).unwrap();
            notes.put("hub", 1, &json!({ "n": 1 })).unwrap();
            for id in 0..300 {
                follows.link(id, "hub").unwrap();
            }
            let generation = users.get("hub").unwrap().unwrap().metadata().generation;
            let policy = WritePolicy::default();
            let policy = if by_filter {
                policy.filter(bin_exists("notes"))
            } else {
                policy.generation(GenerationPolicy::ExpectEqual(generation.into()))
            };
            let deleted = users.delete_with(&policy, "hub");
            assert!(deleted.unwrap().is_some(), "by filter: {by_filter}");
            assert_eq!(users.len(), 0, "by filter: {by_filter}");
        }
    }
}

#[test]
fn a_cascade_goes_around_circles_of_references_of_any_length() {
    let store = Store::in_memory().unwrap();
    let layout = Layout::reference("parent", "by_parent");
    let parts = OneToMany::new(&store, "parts", ("things", "things"), layout)
        .unwrap()
        .on_delete(OnDelete::Cascade);
    let things = store.set("things").unwrap();
    for len in (31..=35).chain(64..=67) {
        for id in 0..len {
            parts.put(id, (id + 1) % len, &json!({ "n": 1 })).unwrap();
        }
        assert!(things.delete(0).unwrap().is_some(), "{len}");
        assert_eq!(things.len(), 0, "{len}");
    }
}

#[test]
fn a_refused_delete_is_one_error_and_one_operation() {
    let store = Store::in_memory().unwrap();
    let follows = ManyToMany::new(&store, "follows", ("users", "out"), ("users", "in"));
    follows.link("ann", "bob").unwrap();
    let namespace = store.namespace("test").unwrap();
    let users = store.set("users").unwrap();
    let counts = || {
        let stats = namespace.stats();
        let count = |kind| stats.operation(kind).count;
        let kinds = [OperationKind::Write, OperationKind::Transaction];
        (
            kinds.map(count),
            stats.errors.iter().map(|(_, count)| count).sum::<u64>(),
        )
    };
    let ([writes, transactions], errors) = counts();
    users.delete("ann").unwrap_err();
    assert_eq!(counts(), ([writes + 1, transactions], errors + 1));
    let detaching = follows.on_delete(OnDelete::Detach);
    detaching.declare().unwrap();
    let ([writes, transactions], errors) = counts();
    let policy = WritePolicy::default().acknowledge(spikelet::policy::Acknowledge::Applied);
    users.delete_with(&policy, "ann").unwrap().unwrap();
    assert_eq!(counts(), ([writes + 1, transactions], errors));
}

#[test]
fn handles_that_declare_at_one_moment_keep_what_the_others_declare() {
    let store = Store::in_memory().unwrap();
    let sets: Vec<String> = (0..16).map(|id| format!("set{id}")).collect();
    std::thread::scope(|scope| {
        for set in &sets {
            let store = &store;
            scope.spawn(move || {
                let links = spikelet::relation::Links::new(store, "links");
                let of = |key| spikelet::relation::Address::new(set, key);
                links.link(&of(1), "sees", &of(2)).unwrap();
            });
        }
    });
    let declared = declared_relations(&store).unwrap();
    assert_eq!(declared[0].sides.len(), sets.len());
    for set in &sets {
        let owned = store.set(set).unwrap().put(1, [("links", 1)]);
        assert!(matches!(owned, Err(Error::OwnedBin { .. })), "{owned:?}");
    }
}

#[test]
fn a_child_that_is_put_to_another_parent_leaves_the_list_of_the_first() {
    let store = Store::in_memory().unwrap();
    let notes = OneToMany::new(
        &store,
        "notes",
        ("people", "notes"),
        Layout::key_list("notes"),
    )
    .unwrap()
    .with_parent_bin("owner");
    notes.put("ann", 1, &json!({ "text": "x" })).unwrap();
    notes.put("bob", 1, &json!({ "text": "y" })).unwrap();
    assert_eq!(
        (notes.len("ann").unwrap(), notes.len("bob").unwrap()),
        (0, 1)
    );
    store
        .transaction(|tx| notes.within(tx).put("ann", 1, &json!({ "text": "z" })))
        .unwrap();
    assert_eq!(
        (notes.len("ann").unwrap(), notes.len("bob").unwrap()),
        (1, 0)
    );
    assert!(
        notes
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap()
            .is_sound()
    );
}

#[test]
fn a_handle_of_another_form_makes_no_owned_bin() {
    let store = Store::in_memory().unwrap();
    let ends = (("users", "following"), ("users", "followers"));
    let follows = ManyToMany::new(&store, "follows", ends.0, ends.1);
    follows.declare().unwrap();
    let counter = ShardedCounter::new(&store, "users", "ann", "following").unwrap();
    let map = ShardedMap::new(&store, "users", "ann", "following").unwrap();
    let width = TimeWidth::Daily;
    let feed = TimeShards::new(&store, "users", "ann", "following", width).unwrap();
    let in_transaction =
        store.transaction(|tx| ShardedCounter::new(tx, "users", "ann", "following")?.add(1));
    let writes: [(&str, Result<()>); 6] = [
        ("a number in a transaction", in_transaction),
        ("a number", counter.add(1)),
        ("a map", map.put(1, 1).map(drop)),
        ("buckets", feed.add(SystemTime::now(), 1).map(drop)),
        ("a sharded number", counter.shards().activate(2).map(drop)),
        ("a sharded map", map.shards().activate(2).map(drop)),
    ];
    for (what, written) in writes {
        let refused = written.expect_err(what);
        assert!(
            matches!(refused, Error::OwnedBin { .. }),
            "{what}: {refused}"
        );
        let told = refused.to_string();
        assert!(
            told.contains("\"following\"") && told.contains("\"follows\""),
            "{told}"
        );
        assert_eq!(store.set("users").unwrap().get("ann").unwrap(), None);
    }
    assert!(follows.link("ann", "bob").unwrap());
    let list = ShardedList::new(&store, "users", "ann", "following").unwrap();
    list.shards().activate(2).unwrap();
    assert!(follows.link("ann", "cat").unwrap());
    for written in [counter.add(1), feed.add(SystemTime::now(), 1).map(drop)] {
        written.unwrap_err();
    }
    assert_eq!(follows.targets("ann").len().unwrap(), 2);
}

#[test]
fn a_delete_shards_no_collection_at_the_other_ends() {
    let store = Store::in_memory().unwrap();
    let key = |id: u32| format!("{id:020}");
    let manual = ShardPolicy::manual();
    let members = Members::new(&store, "users", ("lists", "all", "keys")).shard_policy(manual);
    let all = (0..12_000).map(|id| (key(id), bins! { "n" => 1 }));
    members.put_all(all, |_| ControlFlow::Continue(())).unwrap();
    let ends = (("users", "tags"), ("tags", "users"));
    let tagged = ManyToMany::new(&store, "tagged", ends.0, ends.1)
        .on_delete(OnDelete::Detach)
        .shard_policy(manual);
    let all = (0..12_000).map(|id| (key(id), "all"));
    tagged.link_all(all, |_| ControlFlow::Continue(())).unwrap();
    let users = store.set("users").unwrap();
    assert!(users.delete(key(5)).unwrap().is_some());
    for (set, bin) in [("lists", "keys"), ("tags", "users")] {
        let list = ShardedList::new(&store, set, "all", bin).unwrap();
        assert_eq!(list.shards().state().unwrap().shards, 0, "{bin}");
        assert_eq!(list.len().unwrap(), 11_999, "{bin}");
    }
}

#[test]
fn a_record_whose_few_edges_have_thousands_of_shards_is_deleted() {
    for is_pair in [true, false] {
        let store = Store::in_memory().unwrap();
        let ends = (("users", "edges"), ("users", "followers"));
        let follows =
            ManyToMany::new(&store, "follows", ends.0, ends.1).on_delete(OnDelete::Detach);
        let links = Links::new(&store, "edges")
            .reciprocal("knows", "known")
            .on_delete(OnDelete::Detach);
        for id in 0..3 {
            if is_pair {
                follows.link("hub", id).unwrap();
            } else {
                let (hub, other) = (Address::new("users", "hub"), Address::new("users", id));
                links.link(&hub, "knows", &other).unwrap();
            }
        }
        let users = store.set("users").unwrap();
        let list = ShardedList::new(&store, "users", "hub", "edges").unwrap();
        list.shards().activate(4_096).unwrap();
        let deleted = users.delete("hub");
        assert!(matches!(deleted, Ok(Some(_))), "{is_pair}: {deleted:?}");
        assert_eq!(users.with_companions().len(), 0, "{is_pair}");
    }
}

#[test]
fn an_index_of_another_bin_by_the_declared_name_hides_no_children() {
    for rule in [OnDelete::Restrict, OnDelete::Cascade] {
        let store = Store::in_memory().unwrap();
        let relation = comments(&store, rule);
        let posts = store.set("posts").unwrap();
        posts.put("p", bins! { "title" => "x" }).unwrap();
        relation.put("p", 1, &json!({ "text": "x" })).unwrap();
        let comments = store.set("comments").unwrap();
        comments.drop_index("by_post").unwrap();
        let others = [
            (&comments, IndexDefinition::new("by_post", ["text"])),
            (&posts, IndexDefinition::new("by_post", ["post"])),
            (
                &comments,
                IndexDefinition::new("by_post", ["post"]).ignoring_longer_than(0),
            ),
        ];
        for (set, other) in others {
            set.create_index(other.clone()).unwrap();
            let refused = posts.delete("p");
            assert!(
                matches!(&refused, Err(Error::IndexNotFound(name)) if &**name == "by_post"),
                "{rule:?}, {other:?}: {refused:?}"
            );
            set.drop_index("by_post").unwrap();
        }
        assert!(posts.exists("p").unwrap());
        comments
            .create_index(IndexDefinition::new("by_post", ["post"]))
            .unwrap();
        let deleted = posts.delete("p");
        match rule {
            OnDelete::Restrict => assert!(matches!(deleted, Err(Error::HasEdges { .. }))),
            _ => assert!(deleted.unwrap().is_some() && comments.is_empty()),
        }
    }
}
