//! The definitions of indexes, and their content as records and stores come and go.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spikelet::expressions::{eq, int_bin, num_mod, string_bin, ttl};
use spikelet::operations::{add, ctx, lists, maps};
use spikelet::query::{Cursor, IndexComponent, IndexDefinition, IndexType};
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, ListPolicy, MapPolicy, NamespaceConfig, RetryPolicy, ShardedList, Store,
    Value, WritePolicy, bins,
};

use crate::{keys, namespace};

#[test]
fn components_narrow_and_order() {
    let people = Store::in_memory().unwrap().set("people").unwrap();
    let definition = IndexDefinition::new("by_city", ["city", "born"]);
    people.create_index(definition).unwrap();
    for (name, city, born) in [
        ("ada", "London", 1815),
        ("alan", "London", 1912),
        ("erwin", "Vienna", 1887),
        ("mary", "London", 1797),
    ] {
        let bins = bins! { "city" => city, "born" => born };
        people.put(name, bins).unwrap();
    }
    people.put("nobody", bins! { "city" => "London" }).unwrap();
    let london = people.query("by_city").unwrap().eq("London");
    assert_eq!(keys(&london), ["mary".into(), "ada".into(), "alan".into()]);
    let backwards = keys(&london.clone().descending());
    assert_eq!(backwards, ["alan".into(), "ada".into(), "mary".into()]);
    let late = keys(&london.clone().at_least(1815));
    assert_eq!(late, ["ada".into(), "alan".into()]);
    assert_eq!(keys(&london.clone().range(1798..1912)), ["ada".into()]);
    let early = keys(&london.clone().at_most(1815));
    assert_eq!(early, ["mary".into(), "ada".into()]);
    assert_eq!(keys(&london.clone().at_least("x")), []);
    let begins = people.query("by_city").unwrap().begins_with("V");
    assert_eq!(keys(&begins), ["erwin".into()]);
    assert_eq!(people.query("by_city").unwrap().count().unwrap(), 4);
    let explained = london.at_least(1815).explain().unwrap();
    assert_eq!(
        explained.conditions,
        ["city is \"London\"", "born from 1815"]
    );
    assert_eq!((explained.entries, explained.is_filtered), (2, false));
}

#[test]
fn a_write_moves_its_record_and_a_delete_takes_it_away() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_visits", ["visits"]))
        .unwrap();
    users.put("alice", [("visits", 1)]).unwrap();
    users.operate("alice", &[add("visits", 4)]).unwrap();
    let by_visits = || users.query("by_visits").unwrap();
    let visits = |count: i64| by_visits().eq(count).count().unwrap();
    assert_eq!((visits(1), visits(5)), (0, 1));
    users.put("alice", [("visits", "many")]).unwrap();
    assert_eq!((visits(5), by_visits().eq("many").count().unwrap()), (0, 1));
    users.delete("alice").unwrap();
    let stats = namespace(&store).indexes().remove(0);
    assert_eq!((stats.entries, stats.added, stats.removed), (0, 3, 3));
}

#[test]
fn collections_paths_and_expressions_are_indexed() {
    let posts = Store::in_memory().unwrap().set("posts").unwrap();
    let by_tag = IndexDefinition::new("by_tag", [IndexComponent::bin("tags").elements()]);
    let author = IndexComponent::bin("meta").at([ctx::map_key("author")]);
    let by_author = IndexDefinition::new("by_author", [author]);
    let votes = IndexComponent::bin("votes").map_values();
    let by_vote = IndexDefinition::new("by_vote", [votes.of_type(IndexType::Integer)]);
    let parity = IndexComponent::expression(num_mod(int_bin("number"), 2));
    let by_parity = IndexDefinition::new("by_parity", [parity, "number".into()]);
    for definition in [by_tag, by_author, by_vote, by_parity] {
        posts.create_index(definition).unwrap();
    }
    for (number, tags) in [(1, ["a", "b"]), (2, ["b", "c"]), (3, ["b", "b"])] {
        let tags: Vec<Value> = tags.iter().map(|tag| (*tag).into()).collect();
        let write = [
            spikelet::operations::put("number", number),
            spikelet::operations::put("tags", tags),
            maps::put(&MapPolicy::default(), "meta", "author", "ada"),
            maps::put(&MapPolicy::default(), "votes", "bob", number * 10),
            maps::put(&MapPolicy::default(), "votes", "eve", "none"),
        ];
        posts.operate(number, &write).unwrap();
    }
    let query = |name| posts.query(name).unwrap();
    assert_eq!(keys(&query("by_tag").eq("b")).len(), 3);
    assert_eq!(keys(&query("by_tag").eq("c")), [2.into()]);
    // Each record once, at the first of its elements.
    let all = keys(&query("by_tag"));
    assert_eq!(all.first(), Some(&1.into()));
    assert_eq!(all.len(), 3);
    assert_eq!(keys(&query("by_tag").descending()).len(), 3);
    assert_eq!(query("by_author").eq("ada").count().unwrap(), 3);
    assert_eq!(keys(&query("by_vote").range(15..)), [2.into(), 3.into()]);
    assert_eq!(keys(&query("by_parity").eq(1)), [1.into(), 3.into()]);
    let edit = lists::append(&ListPolicy::default(), "tags", "c");
    posts.operate(1, &[edit]).unwrap();
    assert_eq!(query("by_tag").eq("c").count().unwrap(), 2);
}

#[test]
fn a_page_ends_where_the_next_begins_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    for round in 0.. {
        let store = Store::open(dir.path()).unwrap();
        let users = store.set("users").unwrap();
        if round == 0 {
            for id in 0..25 {
                users.put(id, [("group", id % 2)]).unwrap();
            }
            let by_group = IndexDefinition::new("by_group", ["group"]);
            users.create_index(by_group).unwrap();
        }
        let mut query = users.query("by_group").unwrap().eq(1).limit(5);
        if let Some(cursor) = &cursor {
            query = query.after(&cursor.parse::<Cursor>().unwrap());
        }
        let page = query.keys().unwrap();
        cursor = page.cursor().map(ToString::to_string);
        seen.extend(page.into_records().unwrap());
        // Half of the openings read the log, the others the snapshot.
        if round % 2 == 0 {
            store.close().unwrap();
        }
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 12);
    let distinct: std::collections::HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), 12);
}

#[test]
fn what_has_gone_is_not_found_and_leaves_nothing_behind() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let mut config = NamespaceConfig::new("test");
    config.background = false;
    let store = Store::builder()
        .namespace(config)
        .clock(clock.clone())
        .open()
        .unwrap();
    let sessions = store.set("sessions").unwrap();
    let by_user = IndexDefinition::new("by_user", ["user"]);
    sessions.create_index(by_user).unwrap();
    let minute = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    for id in 0..10 {
        sessions.put_with(&minute, id, [("user", "ada")]).unwrap();
    }
    sessions.put(10, [("user", "ada")]).unwrap();
    let count = || {
        sessions
            .query("by_user")
            .unwrap()
            .eq("ada")
            .count()
            .unwrap()
    };
    let entries = || namespace(&store).indexes().remove(0).entries;
    assert_eq!((count(), entries()), (11, 11));
    clock.advance_ms(62_000);
    assert_eq!(count(), 1);
    namespace(&store).maintain().unwrap();
    assert_eq!((count(), entries()), (1, 1));
    sessions.truncate(None).unwrap();
    assert_eq!((count(), entries()), (0, 0));
}

#[test]
fn a_record_that_expired_does_not_take_its_key_back_from_another() {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let users = store.set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    users.create_index(by_mail).unwrap();
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(2)));
    for (first, second) in [("a", "b"), ("c", "d")] {
        users.put_with(&soon, first, [("mail", first)]).unwrap();
        clock.advance_ms(5_000);
        users.put(second, [("mail", first)]).unwrap();
        let again = match first {
            "a" => users.put(first, [("mail", first)]).map(drop),
            _ => store
                .write_together(|writes| writes.put(&users, first, [("mail", first)]))
                .map(drop),
        };
        assert!(again.unwrap_err().to_string().contains(second));
        let found = users.query("by_mail").unwrap().eq(first).count();
        assert_eq!(found.unwrap(), 1);
        // The refused write has left the other one its key, and takes another itself.
        users.put(first, [("mail", "other")]).unwrap();
        users.put(first, [("mail", "other")]).unwrap();
        users.delete(first).unwrap();
        users.put(second, [("mail", first)]).unwrap();
    }
}

#[test]
fn a_unique_index_refuses_a_second_record() {
    let users = Store::in_memory().unwrap().set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    users.create_index(by_mail).unwrap();
    users.put("ada", [("mail", "a@b.c")]).unwrap();
    let refused = users.put("eve", [("mail", "a@b.c")]).unwrap_err();
    assert!(matches!(&refused, Error::NotUnique { other, .. } if **other == *"ada"));
    assert!(!users.exists("eve").unwrap());
    // The same record may be written again, and a value that it gives up is free.
    users.put("ada", [("mail", "a@b.c")]).unwrap();
    users.put("ada", [("mail", "ada@b.c")]).unwrap();
    users.put("eve", [("mail", "a@b.c")]).unwrap();
    let twice = IndexDefinition::new("by_name", ["name"]).unique(true);
    for name in ["x", "y"] {
        users.put(name, [("name", "same")]).unwrap();
    }
    assert!(matches!(
        users.create_index(twice),
        Err(Error::NotUnique { .. })
    ));
    assert!(matches!(
        users.query("by_name"),
        Err(Error::IndexNotFound(_))
    ));
}

#[test]
fn threads_that_race_for_a_unique_key_leave_one_record_with_it() {
    let users = Store::in_memory().unwrap().set("users").unwrap();
    let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
    users.create_index(by_mail).unwrap();
    for round in 0..200 {
        let won = std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|id| {
                let users = &users;
                scope.spawn(move || {
                    let put = || users.put(id, [("mail", round)]);
                    RetryPolicy::default().retry(put).is_ok()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(won.iter().filter(|won| **won).count() == 1, "round {round}");
        assert_eq!(
            users.query("by_mail").unwrap().eq(round).count().unwrap(),
            1
        );
        users.truncate(None).unwrap();
    }
}

#[test]
fn declarations_outlive_the_process_and_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let definition = || IndexDefinition::new("by_age", ["age"]);
    {
        let store = Store::open(dir.path()).unwrap();
        let users = store.set("users").unwrap();
        users.put("ada", [("age", 36)]).unwrap();
        users.create_index(definition()).unwrap();
        users.create_index(definition()).unwrap();
        let other = IndexDefinition::new("by_age", ["name"]);
        assert!(matches!(
            users.create_index(other),
            Err(Error::IndexExists(_))
        ));
    }
    {
        let store = Store::open(dir.path()).unwrap();
        let users = store.set("users").unwrap();
        assert_eq!(keys(&users.query("by_age").unwrap().eq(36)), ["ada".into()]);
        let (set, found) = namespace(&store).index_definition("by_age").unwrap();
        assert_eq!((set.as_deref(), found), (Some("users"), definition()));
        let other = store.set("other").unwrap();
        for refused in [other.query("by_age").map(drop), other.drop_index("by_age")] {
            assert!(
                matches!(refused, Err(Error::IndexNotFound(_))),
                "{refused:?}"
            );
        }
        users.drop_index("by_age").unwrap();
        assert!(matches!(
            users.drop_index("by_age"),
            Err(Error::IndexNotFound(_))
        ));
    }
    let store = Store::open(dir.path()).unwrap();
    assert!(namespace(&store).indexes().is_empty());
}

#[test]
fn an_index_over_elements_finds_a_record_by_its_shards() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_name", ["name"]))
        .unwrap();
    let all = IndexDefinition::new(
        "by_followers",
        [IndexComponent::bin("followers").elements()],
    );
    users.create_index(all).unwrap();
    users.put("ada", [("name", "Ada")]).unwrap();
    let followers = ShardedList::new(&store, "users", "ada", "followers").unwrap();
    for id in 0..40 {
        followers.add(id).unwrap();
    }
    followers.shards().activate(4).unwrap();
    assert_eq!(
        keys(&users.query("by_name").unwrap().eq("Ada")),
        ["ada".into()]
    );
    assert_eq!(users.query("by_name").unwrap().count().unwrap(), 1);
    let by_follower = users.query("by_followers").unwrap().eq(7);
    assert_eq!(keys(&by_follower), ["ada".into()]);
    followers.shards().deactivate().unwrap();
    let by_follower = users.query("by_followers").unwrap().eq(7);
    assert_eq!(keys(&by_follower), ["ada".into()]);
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let users = Store::in_memory().unwrap().set("users").unwrap();
    let refused = |definition| match users.create_index(definition) {
        Err(Error::Parameter(why)) => why.into_owned(),
        other => panic!("{other:?}"),
    };
    let none: [&str; 0] = [];
    assert!(refused(IndexDefinition::new("i", none)).contains("0 components"));
    assert!(refused(IndexDefinition::new("", ["a"])).contains("1 to 255 bytes"));
    assert!(refused(IndexDefinition::new("i", ["a name of more than 15"])).contains("bin name"));
    let live = IndexComponent::expression(ttl());
    assert!(refused(IndexDefinition::new("i", [live])).contains("without a write"));
    let many = || IndexComponent::bin("a").elements();
    assert!(refused(IndexDefinition::new("i", [many(), many()])).contains("two components"));

    users
        .create_index(IndexDefinition::new("by_a", ["a"]))
        .unwrap();
    let long = "x".repeat(20_000);
    let refused = users.put("u", [("a", &*long)]).unwrap_err();
    assert!(refused.to_string().contains("limit is 16364"), "{refused}");
    assert!(!users.exists("u").unwrap());
    let query = || users.query("by_a").unwrap();
    let list = Value::List(vec![1.into()].into());
    for wrong in [
        query().eq(1).eq(2),
        query().eq(list),
        query().range(Value::from(1)..Value::from("x")),
        query().begins_with(7),
        users.query_all().eq(1),
        users.query_all().descending(),
    ] {
        assert!(
            matches!(wrong.keys(), Err(Error::Parameter(_))),
            "{wrong:?}"
        );
    }
    assert!(users.query("by_b").is_err());
    users.put(1, [("a", 1)]).unwrap();
    users.put(2, [("a", 2)]).unwrap();
    let cursor = query().limit(1).keys().unwrap().cursor().unwrap().clone();
    assert!(query().descending().after(&cursor).keys().is_err());
    assert!(users.query_all().after(&cursor).keys().is_err());
    assert_eq!(keys(&query().after(&cursor)), [2.into()]);
}

#[test]
fn a_cursor_of_a_query_of_another_set_is_refused() {
    let store = Store::in_memory().unwrap();
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    let everywhere = IndexDefinition::new("everywhere", ["city"]);
    namespace.create_index(everywhere).unwrap();
    let queries = ["users", "posts"].map(|name| {
        let set = store.set(name).unwrap();
        let own = format!("city of {name}");
        set.create_index(IndexDefinition::new(&own, ["city"]))
            .unwrap();
        for key in 0..2 {
            set.put(key, [("city", "Graz")]).unwrap();
        }
        let by_index = |name: &str| set.query(name).unwrap().limit(1);
        [
            by_index(&own),
            by_index("everywhere"),
            set.query_all().limit(1),
        ]
    });
    let [of_users, of_posts] = queries;
    for (of_users, of_posts) in of_users.into_iter().zip(of_posts) {
        let page = of_users.keys().unwrap();
        let cursor = page.cursor().unwrap();
        let refused = of_posts.after(cursor).keys().unwrap_err();
        assert!(matches!(refused, Error::Parameter(_)), "{refused}");
        assert_eq!(of_users.after(cursor).keys().unwrap().len(), 1);
    }
}

#[test]
fn memory_has_a_limit() {
    let config = NamespaceConfig::new("test").index_bytes_max(20_000);
    let store = Store::builder().namespace(config).open().unwrap();
    let users = store.set("users").unwrap();
    users
        .create_index(IndexDefinition::new("by_a", ["a"]))
        .unwrap();
    let refused = (0..10_000).find_map(|id| users.put(id, [("a", id)]).err());
    assert!(matches!(
        refused,
        Some(Error::IndexMemory { limit: 20_000, .. })
    ));
    let count = users.len();
    assert_eq!(users.query("by_a").unwrap().count().unwrap(), count);
    assert!((300..2_000).contains(&count), "{count}");
    // What needs no new entry goes on.
    users.put(0, bins! { "a" => 0, "b" => 1 }).unwrap();
    users.delete(1).unwrap();
}

#[test]
fn a_write_over_an_expired_record_is_found() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let mut config = NamespaceConfig::new("test");
    config.background = false;
    let store = Store::builder()
        .clock(clock.clone())
        .namespace(config)
        .open()
        .unwrap();
    let set = store.set("sessions").unwrap();
    set.create_index(IndexDefinition::new("by_user", ["user"]))
        .unwrap();
    let second = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(1)));
    set.put_with(&second, "a", bins! { "user" => "ada" })
        .unwrap();
    clock.advance_ms(5_000);
    let by_user = set.query("by_user").unwrap().eq("ada");
    assert_eq!(by_user.count().unwrap(), 0);
    // A truncation looks through the entries; the expired record is still there, and newer than it.
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_300_000_000);
    store
        .set("sessions")
        .unwrap()
        .truncate(Some(long_ago))
        .unwrap();
    set.put("a", bins! { "user" => "ada" }).unwrap();
    assert_eq!(keys(&by_user), ["a".into()]);
}

#[test]
fn an_index_made_beside_expired_records_finds_the_writes_over_them() {
    let (dir, clock) = (
        tempfile::tempdir().unwrap(),
        Arc::new(ManualClock::at(500_000_000_000)),
    );
    let open = || {
        let mut config = NamespaceConfig::new("test");
        config.background = false;
        let store = Store::builder().path(dir.path()).clock(clock.clone());
        store.namespace(config).open().unwrap()
    };
    let second = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(1)));
    let fill = |store: &Store, key: i64| {
        let value = bins! { "user" => "ada", "tags" => vec![1, 2] };
        let set = store.set("sessions").unwrap();
        set.put_with(&second, key, value).unwrap();
    };
    let check = |store: &Store, key: i64, count: u64| {
        let set = store.set("sessions").unwrap();
        let found = |index: &str, value: Value| set.query(index).unwrap().eq(value).count();
        assert_eq!(found("by_user", "ada".into()).unwrap(), count - 1);
        set.put(key, bins! { "user" => "ada", "tags" => vec![2, 3] })
            .unwrap();
        assert_eq!(found("by_user", "ada".into()).unwrap(), count);
        assert_eq!(found("by_tag", 2.into()).unwrap(), count);
    };
    let store = open();
    fill(&store, 0);
    clock.advance_ms(5_000);
    let set = store.set("sessions").unwrap();
    set.create_index(IndexDefinition::new("by_user", ["user"]))
        .unwrap();
    let tags = IndexComponent::bin("tags").elements();
    set.create_index(IndexDefinition::new("by_tag", [tags]))
        .unwrap();
    check(&store, 0, 1);
    // And so does an index that an opening has filled.
    fill(&store, 1);
    clock.advance_ms(5_000);
    store.close().unwrap();
    drop((set, store));
    check(&open(), 1, 2);
}

#[test]
fn a_query_that_outlives_its_index_says_so() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    let by_city = || IndexDefinition::new("by_city", ["city"]);
    set.create_index(by_city()).unwrap();
    for id in 0..3 {
        set.put(id, [("city", "Graz")]).unwrap();
    }
    let query = set.query("by_city").unwrap().eq("Graz");
    let page = query.clone().limit(1).keys().unwrap();
    let next = query.clone().after(page.cursor().unwrap());
    set.drop_index("by_city").unwrap();
    // No write changes the dropped one any more, whether or not another has its name.
    set.create_index(by_city()).unwrap();
    set.put(3, [("city", "Graz")]).unwrap();
    let answers = [
        query.keys().map(drop),
        query.count().map(drop),
        query.explain().map(drop),
        next.records().map(drop),
        query
            .for_each_parallel(2, |_| ControlFlow::<()>::Continue(()))
            .map(drop),
        query.iter().collect::<Result<Vec<_>, _>>().map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(Error::IndexNotFound(_))), "{answer:?}");
    }
    let again = set.query("by_city").unwrap().eq("Graz");
    assert_eq!(again.count().unwrap(), 4);
    let next = again.after(page.cursor().unwrap());
    assert!(next.count().unwrap() >= 2);
}

#[test]
fn a_query_of_a_set_that_is_made_later_finds_its_records() {
    let store = Store::in_memory().unwrap();
    let by_city = IndexDefinition::new("by_city", ["city"]);
    namespace(&store).create_index(by_city).unwrap();
    let set = store.set("users").unwrap();
    let other = store.set("others").unwrap();
    other.put(9, [("city", "Graz")]).unwrap();
    let queries = [
        set.query_all(),
        set.query("by_city").unwrap().eq("Graz"),
        set.query_all().filter(eq(string_bin("city"), "Graz")),
    ];
    for count in [0, 1] {
        for query in &queries {
            assert_eq!(query.count().unwrap(), count);
            assert_eq!(query.iter().count() as u64, count);
            let seen = AtomicU64::new(0);
            let done = query.for_each_parallel(2, |_| {
                seen.fetch_add(1, Ordering::Relaxed);
                ControlFlow::<()>::Continue(())
            });
            assert!(done.unwrap().is_continue());
            assert_eq!(seen.into_inner(), count);
        }
        set.put(1, [("city", "Graz")]).unwrap();
    }
}

#[test]
fn a_query_whose_index_is_dropped_on_its_way_says_so() {
    let set = Store::in_memory().unwrap().set("users").unwrap();
    let by_n = || IndexDefinition::new("by_n", ["n"]);
    for id in 0..10_000 {
        set.put(id, [("n", id)]).unwrap();
    }
    for threads in [0, 1] {
        set.create_index(by_n()).unwrap();
        let query = set.query("by_n").unwrap();
        let seen = AtomicU64::new(0);
        let drop_it = || {
            if seen.fetch_add(1, Ordering::Relaxed) == 0 {
                set.drop_index("by_n").unwrap();
            }
            ControlFlow::<()>::Continue(())
        };
        let ended = match threads {
            0 => query.for_each(|_| drop_it()),
            _ => query.for_each_parallel(threads, |_| drop_it()),
        };
        assert!(matches!(ended, Err(Error::IndexNotFound(_))), "{ended:?}");
    }
}
