//! Following changes from async code: two tasks share a subscription, each with half of the
//! records.
//!
//! `cargo run --release --example tokio_changes`

use spikelet::changes::{ChangeKind, ChangeOptions, Consumer, Start};
use spikelet::{DEFAULT_NAMESPACE, Error, Store};

const USERS: i64 = 1_000;

/// Greets every new user, until the last change of its share has come.
async fn greet(mut consumer: Consumer) -> spikelet::Result<usize> {
    let mut greeted = 0;
    loop {
        let batch = consumer.batch(100).await?;
        for change in &batch {
            match change.kind {
                ChangeKind::Put if change.generation == 1 => greeted += 1,
                ChangeKind::Truncate { .. } => return Ok(greeted),
                _ => {}
            }
        }
        // A task that dies before this sees the batch again.
        consumer.ack(&batch)?;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let changes = store.namespace(DEFAULT_NAMESPACE)?.changes();
    changes.enable("users")?;
    let options = ChangeOptions::default().set("users").shares(2);
    let greetings = changes.subscribe("greetings", Start::Now, options)?;
    let tasks = [
        tokio::spawn(greet(greetings.consumer_of(0)?)),
        tokio::spawn(greet(greetings.consumer_of(1)?)),
    ];

    let users = store.set("users")?;
    for user in 0..USERS {
        users.put(user, [("visits", 1)])?;
    }
    users.truncate(None)?;
    let mut greeted = 0;
    for (share, task) in tasks.into_iter().enumerate() {
        let count = task
            .await
            .map_err(|error| Error::Forbidden(error.to_string().into()))??;
        println!("share {share} greeted {count} users");
        greeted += count;
    }
    assert_eq!(greeted as i64, USERS);
    Ok(())
}
