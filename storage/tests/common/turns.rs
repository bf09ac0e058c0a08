//! Tests that must not run beside others of their program.
//!
//! Blocks and tables are given back once no thread of the process can see them, whichever namespace
//! the thread reads, and `maintain` waits for a second at most. With many tests that look records
//! up on one core, there is always such a thread. So a test that counts what one call of `maintain`
//! gives back runs [`alone`], and the others of its program [`beside_others`].

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TURNS: RwLock<()> = RwLock::new(());

/// Waits until no other test runs, and keeps all others waiting.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURNS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no test runs that must be alone.
pub fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURNS.read().unwrap_or_else(PoisonError::into_inner)
}
