//! Durable writes from async code: 200 tasks on 2 workers share syncs, and none of them blocks its
//! worker.
//!
//! `cargo run --release --example tokio_commit`

use std::time::Instant;

use spikelet::policy::Acknowledge;
use spikelet::{Durability, Error, Namespace, NamespaceConfig, Store, WritePolicy};

const TASKS: i64 = 200;

/// Counts a visit. The visit survives a power failure when this returns.
async fn visit(namespace: Namespace, user: i64) -> spikelet::Result<()> {
    // Without this policy the call would wait for the disk itself, and hold up every other task of
    // the worker.
    let policy = WritePolicy::default().acknowledge(Acknowledge::Applied);
    let visits = [spikelet::operations::add("visits", 1)];
    let counted = namespace
        .set("users")?
        .operate_with(&policy, user, &visits)?;
    match counted.lsn {
        Some(lsn) => namespace.durable(lsn).await,
        None => Ok(()),
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> spikelet::Result<()> {
    let dir = std::env::temp_dir().join(format!("tokio-commit-{}", std::process::id()));
    let mut config = NamespaceConfig::new("test");
    config.durability = Durability::Commit;
    let store = Store::builder().path(&dir).namespace(config).open()?;
    let namespace = store.namespace("test")?;
    let syncs_before = namespace.stats().syncs;

    let began = Instant::now();
    let visits: Vec<_> = (0..TASKS)
        .map(|user| tokio::spawn(visit(namespace.clone(), user)))
        .collect();
    for visit in visits {
        visit
            .await
            .map_err(|error| Error::Forbidden(error.to_string().into()))??;
    }
    println!(
        "{TASKS} durable visits in {:?}, by {} syncs",
        began.elapsed(),
        namespace.stats().syncs - syncs_before
    );

    store.close()?;
    std::fs::remove_dir_all(&dir).ok();
    Ok(())
}
