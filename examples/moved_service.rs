//! A service that begins on an embedded store and goes on, with the same calls, on a cluster.
//! docs/operations.md moves it while it runs, and `.ci/moving` follows its steps.
//!
//! `cargo run --example moved_service --features cluster,monitor -- DIR`, or `-- HOST:PORT` on a cluster. Enter stops its
//! writers, a second Enter ends it.

use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use spikelet::cluster::Cluster;
use spikelet::monitor::Monitor;
use spikelet::operations::{get_bin, put};
use spikelet::relation::ManyToMany;
use spikelet::{
    NamespaceConfig, RecordSet, RecordStore, Result, ShardedCounter, ShardedList, Store, Value,
    WritePolicy,
};

const USERS: i64 = 50;

/// Posts of users who follow one another, in whichever store.
struct Feeds<S: RecordStore> {
    store: S,
    posts: S::Records,
    follows: ManyToMany<S>,
    count: ShardedCounter<S::Records>,
}

impl<S: RecordStore + Clone> Feeds<S> {
    fn new(store: S) -> Result<Self> {
        let ends = [("users", "following"), ("users", "followers")];
        Ok(Self {
            posts: store.records("posts")?,
            follows: ManyToMany::new(store.clone(), "follows", ends[0], ends[1]),
            count: ShardedCounter::new(&store, "users", "all", "posts")?,
            store,
        })
    }

    fn posts_of(&self, user: i64) -> Result<ShardedList<S::Records>> {
        ShardedList::new(&self.store, "users", user, "posts")
    }

    /// One request: a user posts, and follows another one.
    fn post(&self, number: i64) -> Result<()> {
        let (user, text) = (number % USERS, format!("post {number}"));
        let bins = [put("text", text), put("user", user)];
        let policy = WritePolicy::default();
        self.posts.operate_on(&policy, &number.into(), &bins)?;
        self.posts_of(user)?.add(number)?;
        self.follows.link(user, number / USERS % USERS)?;
        self.count.add(1)
    }

    /// Whether a post that was acknowledged is there, with all that belongs to it.
    fn has(&self, number: i64) -> Result<bool> {
        let (user, policy) = (number % USERS, WritePolicy::default());
        let read = [get_bin("user")];
        let post = self.posts.operate_on(&policy, &number.into(), &read)?;
        Ok(post.value(0) == Some(&Value::Int(user))
            && self.posts_of(user)?.contains(&number.into())?
            && (self.follows.targets(user)).contains(number / USERS % USERS)?)
    }

    fn run(&self) -> Result<()> {
        let mut number = self.count.read()?;
        for earlier in 0..number {
            assert!(self.has(earlier)?, "post {earlier} is missing");
        }
        println!("{number} posts are there; Enter stops writing");
        let stop = Arc::new(AtomicBool::new(false));
        let entered = Arc::clone(&stop);
        thread::spawn(move || {
            let _ = stdin().read_line(&mut String::new());
            entered.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            self.post(number)?;
            number += 1;
            thread::sleep(Duration::from_millis(1));
        }
        println!("{number} posts are written; Enter ends the service");
        let _ = stdin().read_line(&mut String::new());
        Ok(())
    }
}

fn main() -> Result<()> {
    let place = std::env::args().nth(1);
    let place = place.unwrap_or_else(|| "feeds-store".to_owned());
    if place.contains(':') {
        let cluster = Cluster::builder(&place).namespace("feeds").connect()?;
        return Feeds::new(cluster)?.run();
    }
    let feeds = NamespaceConfig::new("feeds");
    let store = Store::builder().path(&place).namespace(feeds).open()?;
    for set in ["users", "posts", "<relations"] {
        store.namespace("feeds")?.changes().enable(set)?;
    }
    let monitor = Monitor::builder(&store).serve_records(true).start()?; // 127.0.0.1:9146
    Feeds::new(store.clone())?.run()?;
    drop(monitor);
    store.close()
}
