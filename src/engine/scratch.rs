//! The buffer in which a thread puts new bodies together.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A scratch buffer that has grown beyond this is kept only while writes use an eighth of it.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer that keeps its memory from call to call. One within the life of another has
/// fresh memory.
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    #[inline]
    pub(super) fn take() -> Self {
        let mut buffer = SCRATCH.try_with(Cell::take).unwrap_or_default();
        buffer.clear();
        Self(buffer)
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if self.capacity() <= SCRATCH_BYTES_KEPT.max(8 * self.len()) {
            // A thread that is ending has no place for it any more.
            let _ = SCRATCH.try_with(|scratch| scratch.set(std::mem::take(&mut self.0)));
        }
    }
}
