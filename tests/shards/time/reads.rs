//! The buckets of elements, and the records that reads and writes touch.

use super::*;
use crate::watched::{Calls, Watched};

#[test]
fn elements_lie_in_the_buckets_of_their_times() {
    for (width, expected) in [
        (
            TimeWidth::Hourly,
            vec![
                "lobby",
                "lobby:2024-02-28-23",
                "lobby:2024-02-29-00",
                "lobby:2024-02-29-23",
                "lobby:2024-03-01-00",
            ],
        ),
        (
            TimeWidth::Daily,
            vec![
                "lobby",
                "lobby:2024-02-28",
                "lobby:2024-02-29",
                "lobby:2024-03-01",
            ],
        ),
    ] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, width);
        let midnights = [FEBRUARY_28 + DAY, FEBRUARY_28 + 2 * DAY];
        let mut all = Vec::new();
        for (number, midnight) in (0..).zip(midnights) {
            for (second, element) in [(midnight - 1, 2 * number), (midnight, 2 * number + 1)] {
                assert!(said.add(at(second), element).unwrap());
                assert!(!said.add(at(second), element).unwrap());
                all.push(timed(second, element));
            }
        }
        assert_eq!(keys(&store), expected);
        // Windows begin with their first second, and end before their last one.
        for (from, from_second) in (0..).zip([0, midnights[0], midnights[1] - 1, midnights[1]]) {
            for (to, to_second) in (0..).zip([0, midnights[0], midnights[1] - 1, midnights[1]]) {
                let within = all.get(from..to.max(from)).unwrap_or_default();
                let offset = |second: u64| {
                    if second == 0 {
                        midnights[0] - 1
                    } else {
                        second
                    }
                };
                let (from, to) = (at(offset(from_second)), at(offset(to_second)));
                assert_eq!(
                    said.range(from..to).all().unwrap(),
                    within,
                    "{from:?}..{to:?}"
                );
                assert_eq!(said.range(from..to).len().unwrap(), within.len() as u64);
                assert_eq!(said.range(from..to).is_empty().unwrap(), within.is_empty());
            }
        }
        let always = said.range(UNIX_EPOCH..at(4_102_444_800)).all().unwrap();
        assert_eq!(always, all);
    }
}

#[test]
fn companions_and_root_are_as_documented() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Daily).hashed(2);
    for element in 0..10 {
        said.add(at(FEBRUARY_28 + 5), element).unwrap();
    }
    said.add(at(FEBRUARY_28 + 3 * DAY), 10).unwrap();
    let set = store.set("chats").unwrap();
    let root = set.get("lobby").unwrap().unwrap();
    let list = |items: &[Value]| Some(Value::List(items.to_vec().into()));
    assert_eq!(
        root.get("subkeys"),
        list(&["time-shards".into(), "daily".into(), 2.into()])
    );
    assert_eq!(root.get("subkeys_bin"), Some("said".into()));
    assert_eq!(root.get("said"), None);
    let epoch = root.get("subkeys_epoch").unwrap();
    // The directory: the years in use, and the days in use of the one.
    let second = |second: u64| Value::Int(second as i64);
    let pages = [
        ("lobby:buckets", 0, 0, vec![second(JANUARY_1)]),
        (
            "lobby:2024:buckets",
            1,
            JANUARY_1,
            vec![second(FEBRUARY_28), second(FEBRUARY_28 + 3 * DAY)],
        ),
    ];
    for (key, level, begin, entries) in pages {
        let page = set.get(key).unwrap().unwrap();
        let shard_of = [
            "lobby".into(),
            0.into(),
            level.into(),
            epoch.clone(),
            second(begin),
        ];
        assert_eq!(page.get("shard_of"), list(&shard_of), "{key}");
        let Some(Value::List(said)) = page.get("said") else {
            panic!("{page:?}");
        };
        assert_eq!(said[..], entries, "{key}");
    }
    let mut found = 0;
    for shard in 0..2_i64 {
        let key = format!("lobby:2024-02-28:{shard}");
        let bucket = set.get(key.as_str()).unwrap().unwrap();
        let shard_of = [
            "lobby".into(),
            2.into(),
            shard.into(),
            epoch.clone(),
            second(FEBRUARY_28),
        ];
        assert_eq!(bucket.get("shard_of"), list(&shard_of));
        assert_eq!(bucket.get("frozen"), None);
        let Some(Value::List(said)) = bucket.get("said") else {
            panic!("{bucket:?}");
        };
        assert!(said.len() > 1, "shard {shard}: {said:?}");
        found += said.len();
    }
    assert_eq!(found, 10);
}

#[test]
fn a_write_to_a_known_bucket_is_one_operation() {
    let (store, _) = store_at(FEBRUARY_28);
    let calls = Calls::default();
    let watched = Watched::new(store, &calls);
    let said = chat(&watched, TimeWidth::Hourly);
    said.add(at(FEBRUARY_28), 1).unwrap();
    let first = calls.take().len();
    assert!(first <= 24, "{first}");
    said.add(at(FEBRUARY_28 + 1), 2).unwrap();
    assert_eq!(calls.take(), ["lobby:2024-02-28-00"]);
    assert!(said.remove(at(FEBRUARY_28 + 1), &2.into()).unwrap());
    assert_eq!(calls.take(), ["lobby:2024-02-28-00"]);
    // Another handle has to read the root first.
    chat(&watched, TimeWidth::Hourly)
        .add(at(FEBRUARY_28), 3)
        .unwrap();
    assert_eq!(calls.take(), ["lobby", "lobby:2024-02-28-00"]);
}

#[test]
fn a_window_touches_only_its_buckets() {
    let (store, _) = store_at(FEBRUARY_28);
    let calls = Calls::default();
    let watched = Watched::new(store, &calls);
    let said = chat(&watched, TimeWidth::Hourly);
    for hour in 0..200 {
        said.add(at(FEBRUARY_28 + hour * HOUR + 5), hour as i64)
            .unwrap();
    }
    let buckets = || {
        let mut keys = calls.take();
        assert_eq!(keys.remove(0), "lobby");
        keys.retain(|key| !key.ends_with(":buckets"));
        keys.sort();
        keys.dedup();
        keys
    };
    calls.take();
    let window = |from: u64, to: u64| {
        said.range(at(FEBRUARY_28 + from)..at(FEBRUARY_28 + to))
            .all()
    };
    let found = window(HOUR, 3 * HOUR).unwrap();
    assert_eq!(
        found,
        [1, 2].map(|hour| timed(FEBRUARY_28 + hour * HOUR + 5, hour as i64))
    );
    assert_eq!(buckets(), ["lobby:2024-02-28-01", "lobby:2024-02-28-02"]);
    // Nothing is before the first bucket, or behind the last one.
    assert_eq!(window(198 * HOUR, 1_000_000 * HOUR).unwrap().len(), 2);
    assert_eq!(buckets(), ["lobby:2024-03-07-06", "lobby:2024-03-07-07"]);
    let before = said.range(UNIX_EPOCH..at(FEBRUARY_28)).all().unwrap();
    assert_eq!((before, buckets()), (vec![], vec![]));
    assert_eq!(window(5, 5).unwrap(), []);
    assert_eq!(window(6, 5).unwrap(), []);
    assert!(calls.take().is_empty());
    assert_eq!(window(0, 200 * HOUR).unwrap().len(), 200);
    assert_eq!(buckets().len(), 200);
    said.range(at(FEBRUARY_28 + HOUR)..at(FEBRUARY_28 + HOUR + 1))
        .len()
        .unwrap();
    assert_eq!(buckets(), ["lobby:2024-02-28-01"]);
}

#[test]
fn pages_follow_one_another_through_all_buckets() {
    for shards in [1, 4] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Hourly).hashed(shards);
        assert_eq!(said.page_after(None, 10).unwrap(), []);
        let mut all = Vec::new();
        for number in 0..600_u64 {
            // Some hours have nothing, some have much; some seconds have two elements.
            let second = FEBRUARY_28 + (number / 50).pow(2) * HOUR + number % 50 / 2 * 7;
            said.add(at(second), number as i64).unwrap();
            all.push(timed(second, number as i64));
        }
        for limit in [1, 7, 64, 150, 10_000] {
            let mut seen: Vec<(SystemTime, Value)> = Vec::new();
            loop {
                let page = said.page_after(seen.last(), limit).unwrap();
                if page.is_empty() {
                    break;
                }
                assert!(page.len() as u64 <= limit);
                seen.extend(page);
            }
            assert_eq!(seen, all, "limit {limit}, {shards} shards");
        }
        assert_eq!(said.page_after(None, 0).unwrap(), []);
        let end = at(FEBRUARY_28 + 1_000 * HOUR);
        assert_eq!(said.range(at(FEBRUARY_28)..end).all().unwrap(), all);
        assert_eq!(said.page_after(Some(&(end, 0.into())), 5).unwrap(), []);
        let before = (at(FEBRUARY_28 - DAY), Value::Nil);
        assert_eq!(said.page_after(Some(&before), 5).unwrap(), all[..5]);
    }
}
