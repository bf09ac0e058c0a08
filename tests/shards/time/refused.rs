//! Refused calls leave everything as it was.

use spikelet::Error;

use super::*;
use crate::watched::{Calls, Watched};

#[test]
fn records_of_others_are_in_the_way_and_are_not_touched() {
    let (store, _) = store_at(FEBRUARY_28);
    let set = store.set("chats").unwrap();
    set.put("lobby:2024-02-28", [("mine", 1)]).unwrap();
    let said = chat(&store, TimeWidth::Daily);
    for _ in 0..2 {
        let error = said.add(at(FEBRUARY_28), 1).unwrap_err();
        assert!(
            matches!(&error, Error::ShardKeyCollision { key } if &**key == "lobby:2024-02-28"),
            "{error}"
        );
    }
    let record = set.get("lobby:2024-02-28").unwrap().unwrap();
    assert_eq!(record.bins().count(), 1);
    assert_eq!(record.generation(), 1);
    said.add(at(FEBRUARY_28 + DAY), 1).unwrap();
    said.delete().unwrap();
    assert_eq!(keys(&store), ["lobby", "lobby:2024-02-28"]);
}

#[test]
fn another_layout_under_the_same_key_is_an_error() {
    let (store, _) = store_at(FEBRUARY_28);
    chat(&store, TimeWidth::Daily)
        .add(at(FEBRUARY_28), 1)
        .unwrap();
    for said in [
        chat(&store, TimeWidth::Hourly),
        chat(&store, TimeWidth::Daily).hashed(2),
        chat(&store, TimeWidth::minutes(1).unwrap()),
    ] {
        for error in [
            said.add(at(FEBRUARY_28), 2).unwrap_err(),
            said.page_after(None, 1).unwrap_err(),
            said.delete().unwrap_err(),
        ] {
            assert!(matches!(error, Error::ShardScheme { .. }), "{error}");
        }
    }
    let list = spikelet::ShardedList::new(&store, "chats", "lobby", "said").unwrap();
    assert!(matches!(list.add(1), Err(Error::ShardScheme { .. })));
    // Nor is a list in the root's own bin overwritten.
    let list = spikelet::ShardedList::new(&store, "chats", "hall", "said").unwrap();
    list.add(1).unwrap();
    let said = TimeShards::new(&store, "chats", "hall", "said", TimeWidth::Daily).unwrap();
    let error = said.add(at(FEBRUARY_28), 1).unwrap_err();
    assert_eq!(error.result_code(), 26, "{error}");
    assert_eq!(list.len().unwrap(), 1);
}

#[test]
fn another_number_of_shards_is_as_good_as_another_handle() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Daily).hashed(2);
    for element in 0..20 {
        assert!(said.add(at(FEBRUARY_28), element).unwrap());
    }
    let before = keys(&store);
    // What the handle knows of the two records is not true of eight.
    let said = said.hashed(8);
    for element in 0..40 {
        let there = Value::Int(element);
        for refused in [
            said.add(at(FEBRUARY_28), element),
            said.remove(at(FEBRUARY_28), &there),
        ] {
            assert!(
                matches!(refused, Err(Error::ShardScheme { .. })),
                "{refused:?}"
            );
        }
    }
    assert_eq!(keys(&store), before);
    let said = said.hashed(2);
    for element in 0..20 {
        assert!(!said.add(at(FEBRUARY_28), element).unwrap());
    }
    assert_eq!(
        said.range(at(FEBRUARY_28)..at(FEBRUARY_28 + 1))
            .len()
            .unwrap(),
        20
    );
}

#[test]
fn one_far_time_neither_blocks_nor_slows_the_others() {
    let (store, _) = store_at(FEBRUARY_28);
    let calls = Calls::default();
    let watched = Watched::new(store, &calls);
    let said = chat(&watched, TimeWidth::minutes(1).unwrap());
    let far = [
        UNIX_EPOCH - Duration::from_secs(62_135_596_800),
        at(253_402_300_799),
    ];
    for (when, element) in far.into_iter().zip(["first", "last"]) {
        said.add(when, element).unwrap();
    }
    for hour in 0..100 {
        said.add(at(FEBRUARY_28 + hour * HOUR), hour as i64)
            .unwrap();
    }
    calls.take();
    let window = said
        .range(at(FEBRUARY_28)..at(FEBRUARY_28 + DAY))
        .all()
        .unwrap();
    assert_eq!(window.len(), 24);
    // The root, three pages, and the buckets.
    assert_eq!(calls.take().len(), 4 + 24);
    assert_eq!(said.latest(1).unwrap(), [(far[1], "last".into())]);
    assert_eq!(calls.take().len(), 5);
    assert_eq!(
        said.page_after(None, 1).unwrap(),
        [(far[0], "first".into())]
    );
    assert_eq!(said.range(..).len().unwrap(), 102);
    for outside in [
        far[0] - Duration::from_secs(1),
        far[1] + Duration::from_secs(1),
    ] {
        let error = said.add(outside, 1).unwrap_err();
        assert!(matches!(error, Error::Parameter(_)), "{error}");
    }
    // Before 1970 there were hours, too.
    let store = watched.into_inner();
    let ancient = TimeShards::new(&store, "chats", "moon", "said", TimeWidth::Hourly).unwrap();
    let landing = UNIX_EPOCH - Duration::from_secs(14_182_960);
    ancient.add(landing, "the Eagle has landed").unwrap();
    assert_eq!(
        ancient.latest(2).unwrap(),
        [(landing, "the Eagle has landed".into())]
    );
    let set = store.set("chats").unwrap();
    assert!(set.exists("moon:1969-07-20-20").unwrap());
}
