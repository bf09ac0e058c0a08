//! Sessions that expire unless they are used, and a rate limiter.
//!
//! `cargo run --example session_store`

use std::time::Duration;

use spikelet::operations::{add, get_bin};
use spikelet::{Expiration, Set, Store, WritePolicy, bins};

const IDLE: Duration = Duration::from_secs(30 * 60);
const WINDOW: Duration = Duration::from_secs(60);
const CALLS_MAX: i64 = 5;

/// Whether this user may make another call in this window. The first call of a window creates its
/// counter; later ones leave the time that it has.
fn is_allowed(limits: &Set, user: &str, window: u64) -> spikelet::Result<bool> {
    let key = format!("{user}:{window}");
    let policy = WritePolicy::default().expiration(Expiration::After(2 * WINDOW));
    let calls = limits.operate_with(&policy, key, &[add("calls", 1), get_bin("calls")])?;
    Ok(calls.bin("calls").and_then(|calls| calls.as_i64()) <= Some(CALLS_MAX))
}

fn main() -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let sessions = store.set("sessions")?;
    let idle = WritePolicy::default().expiration(Expiration::After(IDLE));

    sessions.put_with(&idle, "token-1", bins! { "user" => "alice", "views" => 0 })?;
    // Each use counts a view and gives the session its whole time again.
    for _ in 0..3 {
        sessions.operate_with(&idle, "token-1", &[add("views", 1)])?;
    }
    // A plain put would make it live as long as the namespace's default says: for ever. This one
    // keeps the time that is left.
    let keep = WritePolicy::default().expiration(Expiration::DontUpdate);
    sessions.put_with(&keep, "token-1", bins! { "theme" => "dark" })?;
    let session = sessions.get("token-1")?;
    println!("{session:?}");
    assert!(session.is_some_and(|session| session.get("views") == Some(3.into())));

    let limits = store.set("limits")?;
    let allowed: Vec<bool> = (0..7)
        .map(|_| is_allowed(&limits, "alice", 29_000_000))
        .collect::<spikelet::Result<_>>()?;
    println!("allowed: {allowed:?}");
    assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 5);
    store.close()
}
