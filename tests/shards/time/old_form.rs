//! Roots of before there was a directory: `subkeys_span` says which buckets may be in use.

use spikelet::{ListOrder, ListPolicy, ListWriteFlags, operations};

use crate::common::by_force;
use crate::watched::{Calls, Watched};

use super::*;

const EPOCH: i64 = 1_700_000_000_000_000;

/// Writes what the programs of that time have left: two elements in each of these days, of the span from the first to the last.
pub fn old_form(store: &Store, days: &[u64]) -> Vec<(SystemTime, Value)> {
    let set = store.set("chats").unwrap();
    let list = |items: Vec<Value>| Value::List(items.into());
    let begin = |day: u64| Value::Int((FEBRUARY_28 + day * DAY) as i64);
    let (first, last) = (days[0], days[days.len() - 1]);
    let root = [
        operations::put("subkeys", list(vec!["time-shards".into(), "daily".into()])),
        operations::put("subkeys_epoch", EPOCH),
        operations::put("subkeys_bin", "said"),
        operations::put("subkeys_span", list(vec![begin(first), begin(last)])),
    ];
    set.operate_with(&by_force(), "lobby", &root).unwrap();
    let mut all = Vec::new();
    for day in days {
        let at_day = FEBRUARY_28 + day * DAY;
        let name = TimeWidth::Daily.bucket_name(at(at_day)).unwrap();
        let shard_of = [
            "lobby".into(),
            1.into(),
            0.into(),
            EPOCH.into(),
            begin(*day),
        ];
        let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty());
        let mut bucket = vec![operations::put("shard_of", list(shard_of.to_vec()))];
        for (second, element) in [(5, *day as i64), (7, -1)] {
            let micros = Value::Int(((at_day + second) * 1_000_000) as i64);
            let pair = list(vec![micros, element.into()]);
            bucket.push(operations::lists::append(&policy, "said", pair));
            all.push(timed(at_day + second, element));
        }
        let key = format!("lobby:{name}");
        set.operate_with(&by_force(), key.as_str(), &bucket)
            .unwrap();
    }
    all
}

fn has_span(store: &Store) -> bool {
    let root = store.set("chats").unwrap().get("lobby").unwrap().unwrap();
    root.get("subkeys_span").is_some()
}

#[test]
fn a_span_is_read_as_it_is_and_changed_by_nobody_who_only_reads() {
    let (store, _) = store_at(FEBRUARY_28);
    let all = old_form(&store, &[0, 1, 5, 300]);
    let before = all_keys(&store);
    let said = chat(&store, TimeWidth::Daily);
    let reversed: Vec<_> = all.iter().rev().cloned().collect();
    for limit in [1, 3, 100] {
        let count = all.len().min(limit);
        assert_eq!(said.page_after(None, limit as u64).unwrap(), all[..count]);
        assert_eq!(said.latest(limit as u64).unwrap(), reversed[..count]);
    }
    assert_eq!(said.page_before(Some(&all[5]), 3).unwrap(), reversed[3..6]);
    assert_eq!(said.range(..).len().unwrap(), 8);
    let days = said.range(at(FEBRUARY_28 + DAY)..at(FEBRUARY_28 + 6 * DAY));
    assert_eq!(days.all().unwrap(), all[2..6]);
    // What writes into buckets that are there changes nothing but them.
    assert!(said.remove(all[0].0, &all[0].1).unwrap());
    assert!(!said.remove(at(FEBRUARY_28 + 3 * DAY), &0.into()).unwrap());
    assert_eq!(said.page_after(None, 100).unwrap(), all[1..]);
    assert_eq!(all_keys(&store), before);
    assert!(has_span(&store));
}

#[test]
fn the_first_add_converts_a_span_whoever_stops_in_the_midst_of_it() {
    for stopped in 0.. {
        let (store, _) = store_at(FEBRUARY_28);
        let mut all = old_form(&store, &[0, 1, 5]);
        let calls = Calls::default();
        let watched = Watched::new(store, &calls);
        calls.only(stopped);
        let added = timed(FEBRUARY_28 + 400 * DAY, 7);
        let told = chat(&watched, TimeWidth::Daily).add(added.0, added.1.clone());
        let store = watched.into_inner();
        // As it was left.
        let said = chat(&store, TimeWidth::Daily);
        let read = said.page_after(None, 100).unwrap();
        assert!(read.starts_with(&all), "{stopped}: {read:?}");
        if told.is_ok() {
            assert!(stopped > 10, "{stopped}");
            assert!(!has_span(&store));
            return;
        }
        let is_new = said.add(added.0, added.1.clone()).unwrap();
        assert_eq!(is_new, read.len() == all.len());
        all.push(added);
        assert!(!has_span(&store));
        assert_eq!(said.page_after(None, 100).unwrap(), all);
        said.delete().unwrap();
        assert_eq!(all_keys(&store), ["lobby"]);
    }
}

#[test]
fn a_span_is_deleted_with_its_buckets() {
    let (store, _) = store_at(FEBRUARY_28);
    old_form(&store, &[0, 1, 5, 300]);
    chat(&store, TimeWidth::Daily).delete().unwrap();
    assert_eq!(all_keys(&store), ["lobby"]);
    assert!(!has_span(&store));
    assert_eq!(chat(&store, TimeWidth::Daily).latest(1).unwrap(), []);
}

#[test]
fn a_list_may_be_sharded_beside_a_span() {
    let (store, _) = store_at(FEBRUARY_28);
    let all = old_form(&store, &[0, 2]);
    let list = spikelet::ShardedList::new(&store, "chats", "lobby", "members").unwrap();
    list.add(1).unwrap();
    list.shards().activate(2).unwrap();
    let said = chat(&store, TimeWidth::Daily);
    assert_eq!(said.page_after(None, 100).unwrap(), all);
    assert!(said.add(at(FEBRUARY_28 + 9 * DAY), 1).unwrap());
    assert!(!has_span(&store));
    assert_eq!(said.range(..).len().unwrap(), 5);
    said.delete().unwrap();
    assert!(list.contains(&1.into()).unwrap());
}
