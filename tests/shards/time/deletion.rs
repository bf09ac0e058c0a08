//! Collections that are deleted, begun anew, and left unfinished.

use spikelet::shard::sharded_collections;
use spikelet::{Set, ShardedList, operations};

use crate::common::by_force;
use crate::watched::{Calls, Watched};

use super::*;

#[test]
fn a_deleted_collection_is_empty_and_may_begin_anew() {
    let (store, _) = store_at(FEBRUARY_28);
    let said = chat(&store, TimeWidth::Hourly).hashed(4);
    let other = chat(&store, TimeWidth::Hourly).hashed(4);
    said.delete().unwrap();
    for round in 0..3 {
        for hour in 0..70 {
            let element = round * 1_000 + hour as i64;
            assert!(said.add(at(FEBRUARY_28 + hour * HOUR), element).unwrap());
        }
        other.add(at(FEBRUARY_28), -1).unwrap();
        let epoch = |store: &Store| {
            let root = store.set("chats").unwrap().get("lobby").unwrap().unwrap();
            root.get("subkeys_epoch")
        };
        let before = epoch(&store);
        said.delete().unwrap();
        // The number of the last transition stays, so that it never comes again.
        assert_eq!(all_keys(&store), ["lobby"]);
        assert_ne!(epoch(&store), before);
        for handle in [&said, &other] {
            assert_eq!(handle.page_after(None, 1).unwrap(), []);
            assert!(!handle.remove(at(FEBRUARY_28), &(-1).into()).unwrap());
        }
        // A handle that remembers the deleted collection finds the new one.
        other.add(at(FEBRUARY_28), round).unwrap();
        assert_eq!(
            said.page_after(None, 5).unwrap(),
            [timed(FEBRUARY_28, round)]
        );
        said.delete().unwrap();
    }
}

/// Begins a deletion as a caller that stops for ever.
fn mark_deleting(set: &Set) {
    let marked = ["time-shards", "daily", "deleting"];
    let marked = marked.map(Value::from).to_vec();
    let mark = [
        operations::put("subkeys", Value::List(marked.into())),
        operations::add("subkeys_epoch", 1),
    ];
    set.operate_with(&by_force(), "lobby", &mark).unwrap();
}

#[test]
fn a_deletion_that_was_left_is_carried_to_its_end_by_whoever_comes() {
    type Call = fn(&TimeShards<Set>) -> usize;
    let window: Call = |said| {
        said.range(UNIX_EPOCH..at(FEBRUARY_28 * 2))
            .all()
            .unwrap()
            .len()
    };
    let page: Call = |said| said.page_after(None, 10).unwrap().len();
    let add: Call = |said| usize::from(said.add(at(FEBRUARY_28), 7).unwrap()) - 1;
    let remove: Call = |said| usize::from(said.remove(at(FEBRUARY_28), &0.into()).unwrap());
    let delete: Call = |said| {
        said.delete().unwrap();
        0
    };
    for call in [window, page, add, remove, delete] {
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Daily);
        for day in 0..5 {
            said.add(at(FEBRUARY_28 + day * DAY), day as i64).unwrap();
        }
        // A caller has marked the root, deleted two days, and stopped for ever.
        let set = store.set("chats").unwrap();
        mark_deleting(&set);
        assert!(
            set.delete_with(&by_force(), "lobby:2024-02-28")
                .unwrap()
                .is_some()
        );
        assert!(
            set.delete_with(&by_force(), "lobby:2024-03-01")
                .unwrap()
                .is_some()
        );
        let fresh = chat(&store, TimeWidth::Daily);
        assert_eq!(call(&fresh), 0);
        let left = said.page_after(None, 10).unwrap().len();
        assert_eq!(keys(&store).len(), 1 + left);
        assert!(left <= 1);
    }
}

#[test]
fn what_a_root_that_was_deleted_by_hand_has_left_is_not_taken_for_new() {
    for shards in [1, 2] {
        // The clock does not move: the new collection begins in the same millisecond.
        let (store, _) = store_at(FEBRUARY_28);
        let said = chat(&store, TimeWidth::Hourly).hashed(shards);
        for element in 0..20 {
            said.add(at(FEBRUARY_28), element).unwrap();
        }
        assert!(
            store
                .set("chats")
                .unwrap()
                .delete_with(&by_force(), "lobby")
                .unwrap()
                .is_some()
        );
        assert_eq!(said.page_after(None, 5).unwrap(), []);
        let fresh = chat(&store, TimeWidth::Hourly).hashed(shards);
        assert!(fresh.add(at(FEBRUARY_28), 0).unwrap());
        assert!(said.add(at(FEBRUARY_28), 1).unwrap());
        let all = [0, 1].map(|element| timed(FEBRUARY_28, element));
        assert_eq!(fresh.page_after(None, 5).unwrap(), all);
    }
}

/// The new collection has other keys than the old one: so nothing takes the place of a part that
/// was placed late.
#[test]
fn a_part_that_is_placed_late_goes_where_a_restart_may_bring_it_back() {
    let mut interrupted = 0;
    for after in 0..24 {
        let (store, _) = store_at(FEBRUARY_28);
        let calls = Calls::default();
        calls.bring_back();
        let watched = Watched::new(store.clone(), &calls);
        let late = TimeShards::new(&watched, "chats", "lobby", "said", TimeWidth::Hourly).unwrap();
        let other = chat(&store, TimeWidth::Hourly);
        late.add(at(FEBRUARY_28), 1).unwrap();
        let list = ShardedList::new(&store, "chats", "lobby", "list").unwrap();
        let (sender, came) = std::sync::mpsc::channel();
        calls.interrupt(after, move || {
            other.delete().unwrap();
            list.add(1).unwrap();
            list.shards().activate(1).unwrap();
            sender.send(()).unwrap();
        });
        // Another year and another hour: pages and a bucket are placed.
        late.add(at(FEBRUARY_28 + 366 * DAY + HOUR), 2).unwrap();
        interrupted += came.try_iter().count();
        for collection in sharded_collections(&store.set("chats").unwrap()).unwrap() {
            let left: Vec<_> = collection.leftovers().collect();
            assert!(left.is_empty(), "after {after}: {left:?}");
        }
    }
    assert!((10..24).contains(&interrupted), "{interrupted}");
}

#[test]
fn a_deletion_that_no_reader_may_finish_leaves_an_empty_collection() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let said = chat(&store, TimeWidth::Daily);
    for day in 0..5 {
        said.add(at(FEBRUARY_28 + day * DAY), day as i64).unwrap();
    }
    mark_deleting(&store.set("chats").unwrap());
    fn assert_empty<S: RecordStore>(store: &S, place: &str) {
        let said = chat(store, TimeWidth::Daily);
        assert_eq!(said.page_after(None, 10).unwrap(), [], "{place}");
        assert_eq!(said.latest(10).unwrap(), [], "{place}");
        assert_eq!(said.range(..).len().unwrap(), 0, "{place}");
    }
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    let read = namespace.snapshot_read(|transaction| {
        assert_empty(transaction, "in a snapshot read");
        Ok(())
    });
    read.unwrap();
    store.close().unwrap();
    assert_empty(&store, "in a closed store");
    let refused = chat(&store, TimeWidth::Daily).add(at(FEBRUARY_28), 7);
    assert_eq!(refused.unwrap_err().result_code(), 22);
    drop((said, namespace, store));
    let store = Store::builder().path(dir.path()).read_only(true);
    assert_empty(&store.open().unwrap(), "in a store opened for reading");
}
