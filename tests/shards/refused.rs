//! What a sharded collection refuses before anything is changed, and the ways out of what others have broken.

use std::ops::ControlFlow;

use spikelet::operations::lists;
use spikelet::{
    Error, ListPolicy, NamespaceConfig, Set, ShardPolicy, ShardedCounter, ShardedList, ShardedMap,
    Store, TimeShards, TimeWidth, Value,
};

fn list(store: &Store, key: &str) -> ShardedList<Set> {
    ShardedList::new(store, "x", key, "b").unwrap()
}

fn spread(store: &Store, key: &str, shards: u64) -> ShardedList<Set> {
    let list = list(store, key);
    for id in 0..20 {
        list.add(id).unwrap();
    }
    list.activate(shards).unwrap();
    list
}

#[test]
fn a_companion_is_no_root_of_another_collection() {
    let store = Store::in_memory().unwrap();
    let chat = spread(&store, "chat", 4);
    let other = list(&store, "chat:1");
    for refused in [
        other.add(7).map(|_| ()),
        other.remove(&7.into()).map(|_| ()),
        other.contains(&7.into()).map(|_| ()),
        other.len().map(|_| ()),
        other.activate(2).map(|_| ()),
        other.delete().map(|_| ()),
    ] {
        assert!(
            matches!(refused, Err(Error::ShardKeyCollision { .. })),
            "{refused:?}"
        );
    }
    let time = TimeShards::new(&store, "x", "chat:1", "t", TimeWidth::Daily).unwrap();
    assert!(time.add(std::time::SystemTime::now(), 1).is_err());
    assert_eq!(chat.len().unwrap(), 20);
    assert!(chat.add(100).unwrap());
}

#[test]
fn bins_that_describe_shards_are_not_taken_for_collections() {
    let store = Store::in_memory().unwrap();
    for bin in [
        "subkeys",
        "subkeys_epoch",
        "subkeys_bin",
        "subkeys_span",
        "shard_of",
        "frozen",
    ] {
        for refused in [
            ShardedList::new(&store, "x", "k", bin).err(),
            ShardedMap::new(&store, "x", "k", bin).err(),
            ShardedCounter::new(&store, "x", "k", bin).err(),
            TimeShards::new(&store, "x", "k", bin, TimeWidth::Hourly).err(),
        ] {
            assert!(
                matches!(refused, Some(Error::Parameter(_))),
                "{bin}: {refused:?}"
            );
        }
    }
}

#[test]
fn nan_is_no_element() {
    let store = Store::in_memory().unwrap();
    let list = list(&store, "k");
    for id in [1.0, 2.0] {
        list.add(id).unwrap();
    }
    assert!(matches!(list.add(f64::NAN), Err(Error::Parameter(_))));
    // Others may have put it there.
    let append = lists::append(&ListPolicy::default(), "b", f64::NAN);
    store.set("x").unwrap().operate("k", &[append]).unwrap();
    assert!(matches!(list.activate(2), Err(Error::Parameter(_))));
    assert_eq!(list.state().unwrap().transition, None);
    assert_eq!(list.len().unwrap(), 3);
    assert!(list.page_after(Some(&Value::Wildcard), 5).is_err());
}

#[test]
fn a_bin_of_another_type_is_refused_before_anything_is_begun() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    set.put("text", [("b", "words")]).unwrap();
    let counter = |key| ShardedCounter::new(&store, "x", key, "b").unwrap();
    let refused = counter("text").activate(2).unwrap_err();
    assert_eq!(refused.result_code(), 12, "{refused}");
    assert_eq!(set.get("text").unwrap().unwrap().get("subkeys"), None);

    let spread = spread(&store, "list", 2);
    let refused = counter("list").split().unwrap_err();
    assert_eq!(refused.result_code(), 12, "{refused}");
    let state = spread.state().unwrap();
    assert_eq!((state.shards, state.transition), (2, None));
}

#[test]
fn a_deletion_is_the_way_out_of_what_cannot_be_ended() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = spread(&store, "k", 4);
    assert!(set.delete("k:2").unwrap());
    assert!(matches!(
        list.split(),
        Err(Error::ShardMissing { shard: 2, .. })
    ));
    assert!(list.state().unwrap().transition.is_some());
    assert!(list.add(100).is_err());
    list.delete().unwrap();
    assert!(list.is_empty().unwrap());
    assert!(list.add(100).unwrap());

    for stopped in ["activate", "split", "merge", "demote"] {
        let stop = |_| ControlFlow::Break(());
        let list = spread(&store, stopped, if stopped == "demote" { 1 } else { 2 });
        match stopped {
            "activate" => {
                list.demote().unwrap();
                list.activate_with(4, stop)
            }
            "split" => list.split_with(stop),
            "merge" => list.merge_with(stop),
            _ => list.demote_with(stop),
        }
        .unwrap();
        assert!(list.state().unwrap().transition.is_some(), "{stopped}");
        list.delete().unwrap();
        let state = list.state().unwrap();
        assert_eq!((state.shards, state.transition), (0, None), "{stopped}");
        assert!(list.is_empty().unwrap(), "{stopped}");
        let mut left = Vec::new();
        set.scan(|record| {
            if record.view.bin("shard_of").is_some() {
                left.push(record.key().map(spikelet::Key::into_owned));
            }
        });
        assert_eq!(left, [], "{stopped}");
    }
}

#[test]
fn a_root_that_is_full_otherwise_is_not_given_the_collection_back() {
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = 8 << 10;
    let store = Store::builder().namespace(config).open().unwrap();
    let list = list(&store, "k").policy(ShardPolicy::by_hand());
    for id in 0..500 {
        list.add(id).unwrap();
    }
    list.activate(1).unwrap();
    let set = store.set("x").unwrap();
    set.put("k", [("other", vec![0_u8; 6_500])]).unwrap();
    assert!(matches!(list.demote(), Err(Error::RecordTooBig { .. })));
    assert_eq!(list.state().unwrap().transition, None);
    assert!(list.add(500).unwrap());
}

#[test]
fn elements_that_others_have_put_there_twice_do_not_hold_an_iteration_up() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    for id in [1, 3, 3, 3, 5] {
        set.operate("k", &[lists::append(&ListPolicy::default(), "b", id)])
            .unwrap();
    }
    let list = list(&store, "k");
    let all: Vec<_> = list.iter().take(100).collect::<Result<_, _>>().unwrap();
    assert_eq!(all, [1, 3, 3, 3, 5].map(Value::Int));
    assert_eq!(
        list.page_after(Some(&1.into()), 4).unwrap(),
        [3, 3, 3, 5].map(Value::Int)
    );
    assert_eq!(
        list.page_after(Some(&3.into()), 4).unwrap(),
        [Value::Int(5)]
    );
    assert!(matches!(
        list.page_after(Some(&3.into()), 1),
        Err(Error::Parameter(_))
    ));
}

#[test]
fn a_list_with_an_element_twice_is_not_spread_until_that_is_mended() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let append = |id: i64| {
        let append = lists::append(&ListPolicy::default(), "b", id);
        set.operate("k", &[append]).unwrap();
    };
    [5, 3, 1, 3].into_iter().for_each(append);
    let by_count = list(&store, "k").policy(ShardPolicy::by_hand().by_count(3));
    let before = set.get("k").unwrap().unwrap();
    let error = by_count.activate(2).unwrap_err();
    assert!(
        matches!(&error, Error::OpNotApplicable(why) if why.contains('3')),
        "{error}"
    );
    let after = set.get("k").unwrap().unwrap();
    assert_eq!(
        (after.generation(), after.get("b"), set.len()),
        (before.generation(), before.get("b"), 1)
    );
    // Nor does it spread by itself; writes go on.
    assert!(by_count.add(7).unwrap());
    assert_eq!(
        (by_count.state().unwrap().shards, by_count.len().unwrap()),
        (0, 5)
    );
    assert!(by_count.remove(&3.into()).unwrap() && by_count.add(3).unwrap());
    by_count.activate(2).unwrap();
    let all: Vec<_> = by_count.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(all, [1, 3, 5, 7].map(Value::Int));
}

/// Between the look at the list and the beginning of its transition, others may put an element there a second time.
#[test]
fn an_element_that_comes_twice_at_the_last_moment_is_moved_as_often() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = list(&store, "k");
    for id in 0..20 {
        list.add(id).unwrap();
    }
    let mut twice = Some(lists::append(&ListPolicy::default(), "b", 7));
    list.activate_with(2, |_| {
        if let Some(append) = twice.take() {
            set.operate("k", &[append]).unwrap();
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    type Change = fn(&ShardedList<Set>) -> spikelet::Result<spikelet::ShardState>;
    let changes: [Change; 4] = [
        |list| list.state(),
        |list| list.split(),
        |list| list.merge(),
        |list| list.demote(),
    ];
    for change in changes {
        let state = change(&list).unwrap();
        assert_eq!(list.len().unwrap(), 21, "{state:?}");
        let sevens = list.page(7, 2).unwrap();
        assert_eq!(sevens, [7, 7].map(Value::Int), "{state:?}");
    }
    assert!(list.remove(&7.into()).unwrap());
    assert_eq!(list.len().unwrap(), 19);
}
