//! Lists that outgrow a record: a celebrity's followers over hash shards, and a feed over days.
//!
//! `cargo run --example sharded_feed`

use std::time::{Duration, SystemTime};

use spikelet::shard::TimeWidth;
use spikelet::{ShardedList, Store, TimeShards};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;

    // A list in one record until it is large or hot; then it is sharded over companion records.
    let followers = ShardedList::new(&store, "users", "lisa", "followers")?;
    for follower in 0..500 {
        followers.add(follower)?;
    }
    let state = followers.shards().activate(8)?;
    println!("after activate(8): {state:?}");
    // Nothing changes for readers: one order over all shards.
    assert_eq!(followers.len()?, 500);
    assert!(followers.contains(&250.into())?);
    println!("a page: {:?}", followers.page(100, 5)?);

    // A feed has a record a day. Only the days that are asked for are read.
    let feed = TimeShards::new(&store, "feeds", "lisa", "posts", TimeWidth::Daily)?;
    let first = SystemTime::UNIX_EPOCH + 20_000 * DAY;
    for post in 0..30 {
        feed.add(first + post * DAY / 3, format!("post {post}"))?;
    }
    let days = feed.range(first + 2 * DAY..first + 4 * DAY).all()?;
    println!("two days of posts: {days:?}");
    // The newest first, and back from there: a page costs the same in a feed of any length.
    let latest = feed.latest(5)?;
    let before = feed.page_before(latest.last(), 5)?;
    println!("the latest posts: {latest:?}, and those before: {before:?}");
    let within = feed.range(first..first + 4 * DAY);
    assert_eq!(
        within.latest(1)?,
        [(first + 11 * DAY / 3, "post 11".into())]
    );
    assert_eq!(feed.range(first..first + 10 * DAY).len()?, 30);
    store.close()
}
