//! Sharded collections inside transactions.

use std::cell::Cell;

use spikelet::shard::ShardPolicy;
use spikelet::{ShardedCounter, ShardedList, ShardedMap};

use super::*;
#[test]
fn lists_maps_and_counters_are_sharded_inside_a_transaction_with_it() {
    let (store, _, users) = store();
    let runs = Cell::new(0);
    store
        .transaction(|tx| {
            runs.set(runs.get() + 1);
            let followers = ShardedList::new(tx, "accounts", "alice", "followers")?
                .policy(ShardPolicy::manual());
            let names = ShardedMap::new(tx, "accounts", "alice", "names")?;
            let visits = ShardedCounter::new(tx, "accounts", "alice", "visits")?;
            for number in 0..200 {
                assert!(followers.add(number)?);
                names.put(number, "name")?;
                visits.add(2)?;
            }
            followers.shards().activate(4)?;
            assert!(followers.add(200)?);
            followers.shards().split()?;
            assert_eq!(followers.len()?, 201);
            assert_eq!((names.len()?, visits.read()?), (200, 400));
            // Nothing of it is there outside.
            assert!(runs.get() > 1 || users.is_empty());
            if runs.get() == 1 {
                users.put("bob", [("n", 1)])?;
                tx.set("accounts")?.get("bob")?;
                users.put("bob", [("n", 2)])?;
            }
            followers.policy(ShardPolicy::manual()).len()
        })
        .unwrap();
    assert_eq!(runs.get(), 2, "the first run conflicts");
    let followers = ShardedList::new(&store, "accounts", "alice", "followers").unwrap();
    assert_eq!(followers.len().unwrap(), 201);
    assert!((0..=200).all(|number| followers.contains(&number.into()).unwrap()));
    let visits = ShardedCounter::new(&store, "accounts", "alice", "visits").unwrap();
    assert_eq!(visits.read().unwrap(), 400);
}

#[test]
fn handles_outside_find_what_a_transaction_has_sharded_and_what_it_has_not() {
    let (store, _, _) = store();
    let outside = ShardedList::new(&store, "accounts", "alice", "followers").unwrap();
    (0..50).for_each(|number| assert!(outside.add(number).unwrap()));
    let failed = store.transaction(|tx| {
        let inside = ShardedList::new(tx, "accounts", "alice", "followers")?;
        inside.shards().activate(8)?;
        inside.add(1_000)?;
        Err::<(), _>(Error::Forbidden("no".into()))
    });
    assert!(failed.is_err());
    assert!(outside.add(50).unwrap());
    assert_eq!(outside.len().unwrap(), 51);
    store
        .transaction(|tx| {
            let inside = ShardedList::new(tx, "accounts", "alice", "followers")?;
            inside.shards().activate(8)?;
            inside.add(51)
        })
        .unwrap();
    assert!(outside.add(52).unwrap());
    assert_eq!(outside.len().unwrap(), 53);
    // A transition that began outside goes on inside, and the other way round.
    outside.shards().split().unwrap();
    store
        .transaction(|tx| {
            let inside = ShardedList::new(tx, "accounts", "alice", "followers")?;
            inside.shards().deactivate()?;
            inside.remove(&0.into())
        })
        .unwrap();
    assert_eq!(outside.len().unwrap(), 52);
}

#[test]
fn a_large_list_is_sharded_for_its_size_inside_a_transaction() {
    let (store, _, _) = store();
    let policy = ShardPolicy::manual().record_bytes_max(8_192);
    for _ in 0..4 {
        store
            .transaction(|tx| {
                let list = ShardedList::new(tx, "accounts", "alice", "list")?.policy(policy);
                let first = list.len()? as i64;
                (first..first + 500).try_for_each(|number| list.add(number * 1_000_000).map(drop))
            })
            .unwrap();
    }
    let list = ShardedList::new(&store, "accounts", "alice", "list").unwrap();
    assert_eq!(list.len().unwrap(), 2_000);
    let state = list.shards().state().unwrap();
    assert!(state.shards > 1, "{state:?}");
}
