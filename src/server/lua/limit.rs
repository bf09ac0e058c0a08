//! The limits of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use mlua::{AppDataRef, Lua};
use parking_lot::Mutex;

/// The most instructions of a call.
const INSTRUCTIONS_MAX: u64 = 200_000_000;

/// The most memory of a state: the loaded module, its variables, and the call.
pub(super) const MEMORY_BYTES_MAX: usize = 64 << 20;

/// The instructions between two checks of the limits.
pub(super) const CHECK_EVERY: u32 = 1_000;

/// The instructions and the time that a call has left.
#[derive(Debug, Default)]
pub(super) struct Limit {
    instructions: AtomicU64,
    /// When the call began, and when it must have ended.
    time: Mutex<Option<(Instant, Instant)>>,
    /// Memory outside of Lua that the call has taken.
    call_bytes: AtomicUsize,
    /// The same of all calls of the state.
    taken_bytes: AtomicUsize,
    /// Memory outside of Lua that values of the state hold now.
    held_bytes: AtomicUsize,
    /// Why the call is over.
    over: Mutex<Option<String>>,
    /// Milliseconds since 2010, as the namespace's clock had them when the call began.
    pub(super) now_ms: AtomicU64,
}

impl Limit {
    /// Begins a call, with the namespace's clock at `now_ms`; `None`: where it was.
    pub(super) fn begin(&self, ends: Instant, now_ms: Option<u64>) {
        if let Some(now_ms) = now_ms {
            self.now_ms.store(now_ms, Ordering::Relaxed);
        }
        self.instructions.store(0, Ordering::Relaxed);
        self.call_bytes.store(0, Ordering::Relaxed);
        *self.time.lock() = Some((Instant::now(), ends));
        *self.over.lock() = None;
    }

    /// Counts instructions. Otherwise the limit that they exceed, then and ever after.
    pub(super) fn check(&self, more: u64) -> Result<(), String> {
        let count = self.instructions.fetch_add(more, Ordering::Relaxed);
        if count > INSTRUCTIONS_MAX {
            return self.end(format!(
                "the function took more than {INSTRUCTIONS_MAX} instructions"
            ));
        }
        self.check_time()
    }

    fn check_time(&self) -> Result<(), String> {
        let late = self.time.lock().filter(|(_, ends)| Instant::now() > *ends);
        late.map_or(Ok(()), |(began, ends)| {
            let ms = (ends - began).as_millis();
            self.end(format!(
                "the function ran for more than {ms} ms, the time that its client allows"
            ))
        })
    }

    /// Counts memory outside of Lua, and looks at the clock.
    fn charge(&self, bytes: usize) -> Result<(), String> {
        self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        let before = self.call_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.check_time()?;
        if before + bytes > MEMORY_BYTES_MAX {
            self.end(too_large())
        } else {
            Ok(())
        }
    }

    /// Counts memory outside of Lua until what is returned is dropped, and looks at the clock.
    fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held, String> {
        self.check_time()?;
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Held {
            limit: Arc::clone(self),
            bytes,
        };
        if before.saturating_add(bytes) > MEMORY_BYTES_MAX {
            self.end(too_large())?;
        }
        Ok(held)
    }

    fn end(&self, why: String) -> Result<(), String> {
        *self.over.lock() = Some(why.clone());
        Err(why)
    }

    /// Memory outside of Lua: what values of the state hold, and what all of its calls have taken,
    /// given back or not.
    pub(super) fn outside_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed) + self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Why the call is over.
    pub(super) fn over(&self) -> Option<String> {
        self.over.lock().clone()
    }
}

/// Memory outside of Lua that a value of Lua holds: counted until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    limit: Arc<Limit>,
    bytes: usize,
}

impl Held {
    /// Counts more memory.
    ///
    /// # Errors
    /// As for [`hold`].
    pub(super) fn grow(&mut self, lua: &Lua, more: usize) -> mlua::Result<()> {
        let mut held = hold(lua, more)?;
        self.bytes += std::mem::take(&mut held.bytes);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.limit
            .held_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The text of a call that takes too much memory.
pub(super) fn too_large() -> String {
    format!("the function took more than {MEMORY_BYTES_MAX} bytes of memory")
}

/// Counts memory that Lua does not count itself.
///
/// # Errors
/// The text for the client, beyond [`MEMORY_BYTES_MAX`] a call.
pub(super) fn charge(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    limit_of(lua)?.charge(bytes).map_err(mlua::Error::runtime)
}

/// Counts memory outside of Lua that one of its values is to hold. Lua does not see it: before it
/// is too much, the values that are not used any more are dropped.
///
/// # Errors
/// The text for the client, beyond [`MEMORY_BYTES_MAX`] a state.
pub(super) fn hold(lua: &Lua, bytes: usize) -> mlua::Result<Held> {
    let limit = Arc::clone(&*limit_of(lua)?);
    let before = limit.held_bytes.load(Ordering::Relaxed);
    if before.saturating_add(bytes) > MEMORY_BYTES_MAX {
        lua.gc_collect()?;
    }
    limit.hold(bytes).map_err(mlua::Error::runtime)
}

/// The limits of a state.
pub(super) fn limit_of(lua: &Lua) -> mlua::Result<AppDataRef<'_, Arc<Limit>>> {
    let limit = lua.app_data_ref();
    limit.ok_or_else(|| mlua::Error::runtime("a state without limits"))
}
