//! The store side of an async web service, from opening to shutdown. docs/first-service.md walks through it, and `.ci/pages`
//! checks that both are the same.
//!
//! `cargo run --example first_service --features backup,monitor`, and end it by Ctrl-C or SIGTERM.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use spikelet::monitor::Monitor;
use spikelet::policy::Acknowledge;
use spikelet::query::IndexDefinition;
use spikelet::relation::ManyToMany;
use spikelet::{Error, Expiration, Namespace, Result, Set, ShardedCounter, Store, WritePolicy};
use spikelet::{backup, operations::add};
use tokio::task::spawn_blocking;

#[derive(Debug, Serialize, Deserialize)]
struct User {
    city: String,
    credit: i64,
}

#[derive(Clone)]
struct Service {
    namespace: Namespace,
    users: Set,
    sessions: Set,
    follows: ManyToMany<Namespace>,
}

impl Service {
    fn open(store: &Store) -> Result<Self> {
        let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE)?;
        let (users, sessions) = (namespace.set("users")?, namespace.set("sessions")?);
        users.create_index(IndexDefinition::new("by_city", ["city"]))?;
        let ends = [("users", "following"), ("users", "followers")];
        let follows = ManyToMany::new(namespace.clone(), "follows", ends[0], ends[1]);
        follows.declare()?;
        Ok(Self {
            namespace,
            users,
            sessions,
            follows,
        })
    }

    async fn sign_up(&self, id: &str, user: &User) -> Result<()> {
        let policy = WritePolicy::default().acknowledge(Acknowledge::Applied);
        let lsn = self.users.put_as_with(&policy, id, user)?;
        self.namespace.durable(lsn).await
    }

    fn log_in(&self, token: &str, user: &str) -> Result<()> {
        let half_an_hour = Expiration::After(Duration::from_secs(1_800));
        let policy = WritePolicy::default().expiration(half_an_hour);
        self.sessions.put_with(&policy, token, [("user", user)])?;
        Ok(())
    }

    fn followers(&self, id: &str, after: Option<&str>) -> Result<Vec<User>> {
        let (followers, after) = (self.follows.sources(id), after.map(Into::into));
        let page = followers.fetch_after(after.as_ref(), 50, None)?;
        let users = page.iter().map(|follower| follower.decode().transpose());
        users.flatten().collect()
    }

    fn pay(&self, from: &str, to: &str, amount: i64) -> Result<()> {
        self.namespace.transaction(|transaction| {
            let users = transaction.in_set(&self.users)?;
            let payer: Option<User> = users.get_as(from)?;
            if payer.is_none_or(|payer| payer.credit < amount) {
                return Err(Error::Forbidden("too little credit".into()));
            }
            users.operate(from, &[add("credit", -amount)])?;
            users.operate(to, &[add("credit", amount)])?;
            Ok(())
        })
    }

    fn in_city(&self, city: &str) -> Result<Vec<User>> {
        let query = self.users.query("by_city")?.eq(city).limit(100);
        query.iter().map(|found| found?.record.decode()).collect()
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (end, ended) = tokio::sync::oneshot::channel();
    let mut end = Some(end);
    ctrlc::set_handler(move || {
        let _ = end.take().map(|end| end.send(()));
    })?;
    let dir = tempfile::tempdir()?;
    let store = Store::open(dir.path().join("store"))?;
    let service = Service::open(&store)?;
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0")?.start()?;
    println!("metrics: http://{}/metrics", monitor.addr());

    for (id, city) in [("ann", "Oslo"), ("bob", "Oslo"), ("cal", "Rome")] {
        let (city, credit) = (city.into(), 100);
        service.sign_up(id, &User { city, credit }).await?;
    }
    service.log_in("token-1", "ann")?;
    service.follows.link("bob", "ann")?;
    let paying = service.clone();
    spawn_blocking(move || paying.pay("ann", "bob", 30)).await??;
    let views = ShardedCounter::new(&store, "pages", "home", "views")?;
    views.add(1)?;
    println!("ann's followers: {:?}", service.followers("ann", None)?);
    println!("in Oslo: {:?}", service.in_city("Oslo")?);
    println!("views: {}", views.read()?);

    let (saved, file) = (store.clone(), dir.path().join("today.asb"));
    let saving = spawn_blocking(move || {
        let options = backup::BackupOptions::default();
        backup::save(&saved, &file, &options, &mut |_| {})
    });
    println!("saved {} records", saving.await??.records);
    println!("serving until SIGTERM");
    ended.await?;
    drop(monitor);
    spawn_blocking(move || store.close()).await??;
    println!("closed");
    Ok(())
}
