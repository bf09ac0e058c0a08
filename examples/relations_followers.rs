//! Aerospike's modeling document, N:M: who follows whom as ordered lists on both sides, in pages;
//! the followers of a celebrity are sharded while they grow.
//!
//! `cargo run --example relations_followers`

use std::ops::ControlFlow;

use spikelet::relation::{ManyToMany, OnDelete, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{Key, ShardedList, Store};

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?; // or Store::open("directory")
    let users = store.set("users")?;
    let follows = ManyToMany::new(
        &store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
    .shard_policy(ShardPolicy::manual().record_bytes_max(8 * 1024));

    for name in ["alice", "bob", "carol"] {
        users.put(name, [("name", name)])?;
    }
    follows.link("alice", "bob")?;
    follows.link("carol", "bob")?;
    follows.link("bob", "alice")?;
    // Following twice is no error and changes nothing.
    assert!(!follows.link("alice", "bob")?);
    println!(
        "does alice follow bob? {}",
        follows.contains("alice", "bob")?
    );
    assert!(follows.contains("alice", "bob")?);

    // One page, and the records of the page in one batch.
    for related in follows.sources("bob").fetch(0, 50)? {
        let name = related
            .record
            .as_ref()
            .and_then(|record| record.get("name"));
        println!("bob is followed by {} ({name:?})", related.key);
    }
    let mutual = follows
        .targets("bob")
        .common(&follows.sources("bob"), None, 10)?;
    assert_eq!(mutual, ["alice".into()]);

    // A celebrity: the list of followers is sharded on its way, and follow goes on as before.
    for id in 0..5_000 {
        follows.link(id, "celebrity")?;
    }
    let followers = ShardedList::new(&store, "users", "celebrity", "followers")?;
    let shards = followers.shards().state()?.shards;
    println!("5,000 followers are in {shards} shards");
    assert!(shards > 1);
    let page = follows.sources("celebrity").page(2_500, 3)?;
    assert_eq!(page, [2_500, 2_501, 2_502].map(Key::from));
    let next = follows.sources("celebrity").page_after(page.last(), 2)?;
    assert_eq!(next, [2_503, 2_504].map(Key::from));

    // Friends of friends, by how many ways lead to them.
    follows.link("alice", "carol")?;
    follows.link("bob", "dave")?;
    follows.link("carol", "dave")?;
    let suggested = follows.targets("alice").traverse().at_distance_two(3)?;
    println!("alice may want to follow {suggested:?}");
    assert_eq!(suggested, [("dave".into(), 2)]);

    // Both sides are equal, and remain so when a follower leaves.
    let go_on = |_| ControlFlow::Continue(());
    assert!(follows.verify(Repair::No, go_on)?.is_sound());
    follows.delete_with_edges("celebrity", OnDelete::Detach, go_on)?;
    let audit = follows.verify(Repair::No, go_on)?;
    println!(
        "{} edges from either side, faults: {}",
        audit.edges,
        audit.faults.len()
    );
    assert!(audit.is_sound());
    assert!(follows.targets(17).is_empty()?);
    store.close()
}
