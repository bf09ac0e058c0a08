//! What is refused, and leaves everything as it was.

use spikelet::Error;

use super::*;

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
    let other_bin = TimeShards::new(&store, "chats", "lobby", "heard", TimeWidth::Daily).unwrap();
    for said in [
        chat(&store, TimeWidth::Hourly),
        chat(&store, TimeWidth::Daily).hashed(2),
        other_bin,
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
    assert_eq!(said.len(at(FEBRUARY_28), at(FEBRUARY_28 + 1)).unwrap(), 20);
}

#[test]
fn times_that_are_too_far_away_are_refused() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly);
    said.add(at(FEBRUARY_28), 1).unwrap();
    for far in [
        FEBRUARY_28 + 200_000 * HOUR,
        FEBRUARY_28 - 200_000 * HOUR,
        300_000_000_000,
    ] {
        let error = said.add(at(far), 1).unwrap_err();
        assert!(matches!(error, Error::Parameter(_)), "{error}");
    }
    assert!(said.add(at(FEBRUARY_28 + 199_999 * HOUR), 1).unwrap());
    assert_eq!(said.page_after(None, 10).unwrap().len(), 2);
    // Before 1970 there were hours, too.
    let ancient = TimeShards::new(&store, "chats", "moon", "said", TimeWidth::Hourly).unwrap();
    let landing = UNIX_EPOCH - Duration::from_secs(14_182_960);
    ancient.add(landing, "the Eagle has landed").unwrap();
    assert_eq!(
        ancient.page_after(None, 2).unwrap(),
        [(landing, "the Eagle has landed".into())]
    );
    assert!(
        store
            .set("chats")
            .unwrap()
            .exists("moon:1969-07-20-20")
            .unwrap()
    );
}
