//! The limits of a call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The most instructions of a call.
const INSTRUCTIONS_MAX: u64 = 200_000_000;

/// The most memory of a state: the loaded module, its variables, and the call.
pub(super) const MEMORY_BYTES_MAX: usize = 64 << 20;

/// The instructions between two checks of the limits.
pub(super) const CHECK_EVERY: u32 = 10_000;

/// The instructions and the time that a call has left.
#[derive(Debug, Default)]
pub(super) struct Limit {
    instructions: AtomicU64,
    /// When the call began, and when it must have ended.
    time: Mutex<Option<(Instant, Instant)>>,
    /// Why the call is over.
    over: Mutex<Option<String>>,
    /// Milliseconds since 2010, as the namespace's clock had them when the call began.
    pub(super) now_ms: AtomicU64,
}

impl Limit {
    /// Begins a call.
    pub(super) fn begin(&self, ends: Instant) {
        self.instructions.store(0, Ordering::Relaxed);
        *lock(&self.time) = Some((Instant::now(), ends));
        *lock(&self.over) = None;
    }

    /// Counts instructions. Otherwise the limit that they exceed, then and ever after.
    pub(super) fn check(&self) -> Result<(), String> {
        let every = u64::from(CHECK_EVERY);
        let count = self.instructions.fetch_add(every, Ordering::Relaxed);
        let late = lock(&self.time).filter(|(_, ends)| Instant::now() > *ends);
        let why = if count > INSTRUCTIONS_MAX {
            format!("the function took more than {INSTRUCTIONS_MAX} instructions")
        } else if let Some((began, ends)) = late {
            let ms = (ends - began).as_millis();
            format!("the function ran for more than {ms} ms, the time that its client allows")
        } else {
            return Ok(());
        };
        *lock(&self.over) = Some(why.clone());
        Err(why)
    }

    /// Why the call is over.
    pub(super) fn over(&self) -> Option<String> {
        lock(&self.over).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
