//! Reading from the newest element on, pages of some times, and what they cost.

use std::ops::Bound;

use super::*;
use crate::watched::{Calls, Watched};

#[test]
fn the_latest_elements_cost_what_is_returned_and_not_the_buckets_there_are() {
    const BUCKETS: u64 = 10_000;
    let (store, _) = store_at(FEBRUARY_28);
    let calls = Calls::default();
    let watched = Watched::new(store, &calls);
    let said = chat(&watched, TimeWidth::Hourly);
    // Every third hour, three elements each.
    for bucket in 0..BUCKETS {
        for second in 0..3 {
            let when = FEBRUARY_28 + 3 * bucket * HOUR + second;
            said.add(at(when), (3 * bucket + second) as i64).unwrap();
        }
    }
    calls.take();
    let latest = said.latest(10).unwrap();
    let numbers = (0..10).map(|back| Value::Int((3 * BUCKETS - 1 - back) as i64));
    let found: Vec<Value> = latest.iter().map(|(_, number)| number.clone()).collect();
    assert_eq!(found, numbers.collect::<Vec<_>>());
    // The root, the pages of all years and of the last one, and four buckets.
    assert_eq!(calls.take().len(), 7);
    let page = said.page_before(latest.last(), 10).unwrap();
    assert_eq!(page[0].1, Value::Int((3 * BUCKETS - 11) as i64));
    assert_eq!(calls.take().len(), 7);
    // Adding to a bucket that is there is one operation, and none on the root or the directory.
    said.add(latest[0].0, "more").unwrap();
    assert_eq!(calls.take().len(), 1);
    let root = said.latest(1).unwrap();
    assert_eq!(root[0].1, "more".into());
    let store = watched.into_inner();
    let set = store.set("chats").unwrap();
    let bytes = |key: &str| set.get(key).unwrap().unwrap().view().as_bytes().len();
    let (root, top) = (bytes("lobby"), bytes("lobby:buckets"));
    assert!(root < 200 && top < 200, "{root}, {top}");
    assert!(bytes("lobby:2026:buckets") < 32 * 1024);
}

#[test]
fn pages_go_back_and_forth_between_any_two_times() {
    for (width, shards) in [
        (TimeWidth::minutes(5).unwrap(), 1),
        (TimeWidth::Hourly, 4),
        (TimeWidth::Daily, 2),
    ] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, width).hashed(shards);
        let mut all = Vec::new();
        for number in 0..300_u64 {
            let second = FEBRUARY_28 + (number / 30).pow(3) * HOUR + number % 30 / 2 * 40;
            said.add(at(second), number as i64).unwrap();
            all.push(timed(second, number as i64));
        }
        let (one, other) = (all[37].0, all[266].0);
        let ranges = [
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(one), Bound::Excluded(other)),
            (Bound::Excluded(one), Bound::Included(other)),
            (Bound::Included(other), Bound::Excluded(one)),
            (Bound::Included(one), Bound::Included(one)),
            (Bound::Unbounded, Bound::Excluded(one)),
            (Bound::Excluded(other), Bound::Unbounded),
        ];
        for times in ranges {
            use std::ops::RangeBounds;
            let within: Vec<_> = all
                .iter()
                .filter(|it| times.contains(&it.0))
                .cloned()
                .collect();
            let range = said.range(times);
            assert_eq!(range.all().unwrap(), within, "{times:?}");
            assert_eq!(range.len().unwrap(), within.len() as u64);
            assert_eq!(range.is_empty().unwrap(), within.is_empty());
            for limit in [1, 7, 100] {
                let mut forth: Vec<(SystemTime, Value)> = Vec::new();
                loop {
                    let page = range.page_after(forth.last(), limit).unwrap();
                    if page.is_empty() {
                        break;
                    }
                    assert!(page.len() as u64 <= limit);
                    forth.extend(page);
                }
                assert_eq!(forth, within, "{times:?} by {limit}");
                let mut back = range.latest(limit).unwrap();
                while let page = range.page_before(back.last(), limit).unwrap()
                    && !page.is_empty()
                    && !back.is_empty()
                {
                    assert!(page.len() as u64 <= limit);
                    back.extend(page);
                }
                back.reverse();
                assert_eq!(back, within, "{times:?} back by {limit}");
            }
            assert_eq!(range.latest(0).unwrap(), []);
        }
        // A cursor outside of the times asks for the elements within them.
        let range = said.range(one..other);
        assert_eq!(range.page_after(all.first(), 1).unwrap()[0].0, one);
        assert_eq!(range.page_before(all.first(), 1).unwrap(), []);
        assert_eq!(range.page_after(all.last(), 1).unwrap(), []);
        assert_eq!(
            range.page_before(all.last(), 1).unwrap(),
            range.latest(1).unwrap()
        );
    }
}

#[test]
fn what_is_empty_is_empty_in_both_directions() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly);
    assert_eq!(said.latest(5).unwrap(), []);
    assert!(said.range(..).is_empty().unwrap());
    said.add(at(FEBRUARY_28), 1).unwrap();
    assert!(said.remove(at(FEBRUARY_28), &1.into()).unwrap());
    assert_eq!(said.latest(5).unwrap(), []);
    assert_eq!(said.range(..).len().unwrap(), 0);
    assert!(said.range(at(5)..at(5)).is_empty().unwrap());
}
