//! Answers that are not sent yet, in memory that is accounted for.

use std::ops::{Deref, DerefMut};

use super::memory_budget::{ConnectionShare, NoRoom};

/// The buffer begins with this, and returns to it after large answers.
const BUFFER_BYTES: usize = 16 << 10;

/// A buffer up to this size is kept for the next answers.
const KEPT_BYTES: usize = 128 << 10;

/// The room that a large answer keeps for heads and fields.
const HEADROOM_BYTES: usize = 4 << 10;

/// The buffer of a connection's answers. Callers `reserve` room before they add bytes whose number
/// a client controls.
pub(crate) struct ResponseBuffer<'b> {
    bytes: Vec<u8>,
    memory: ConnectionShare<'b>,
    /// Whether room was refused since the last [`ResponseBuffer::take_refusal`].
    refusal: Result<(), NoRoom>,
}

impl<'b> ResponseBuffer<'b> {
    /// An empty buffer.
    pub(crate) fn new(memory: ConnectionShare<'b>) -> Self {
        Self {
            bytes: Vec::with_capacity(BUFFER_BYTES),
            memory,
            refusal: Ok(()),
        }
    }

    /// Makes room for `more` bytes, unless all connections together hold too much already.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), NoRoom> {
        let wanted = self.bytes.len() + more;
        if wanted <= self.bytes.capacity() {
            return Ok(());
        }
        self.grow(wanted)
    }

    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), NoRoom> {
        let capacity = (wanted + HEADROOM_BYTES).max(2 * self.bytes.capacity());
        // If the budget does not allow twice the capacity, the wanted bytes are enough.
        let given = [capacity, wanted + HEADROOM_BYTES]
            .into_iter()
            .find(|capacity| self.memory.resize(*capacity).is_ok());
        let Some(capacity) = given else {
            self.refusal = Err(NoRoom);
            return self.refusal;
        };
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }

    /// Returns whether room was refused since the last call.
    pub(crate) const fn take_refusal(&mut self) -> Result<(), NoRoom> {
        std::mem::replace(&mut self.refusal, Ok(()))
    }

    /// Charges the budget for bytes that were added without `reserve`.
    pub(crate) fn account(&mut self) -> Result<(), NoRoom> {
        self.memory.resize(self.bytes.capacity())
    }

    /// Gives back the memory of large answers, once they are sent.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::with_capacity(BUFFER_BYTES);
            // Less than before: always given.
            let _ = self.memory.resize(BUFFER_BYTES);
        }
    }
}

impl Deref for ResponseBuffer<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for ResponseBuffer<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::memory_budget::{FREE_BYTES, MemoryBudget};

    #[test]
    fn large_answers_share_a_budget() {
        let budget = MemoryBudget::default();
        // Until others leave 3 MiB.
        let others: Vec<_> = std::iter::repeat_with(|| budget.share())
            .map_while(|mut share| share.resize(1 << 20).is_ok().then_some(share))
            .collect();
        let mut outbox = ResponseBuffer::new(budget.share());
        assert_eq!(outbox.reserve(FREE_BYTES / 2), Ok(()));
        assert_eq!(outbox.reserve(1 << 19), Ok(()));
        outbox.extend_from_slice(&[0; 1 << 19]);
        assert_eq!(outbox.reserve(1 << 20), Err(NoRoom));
        assert_eq!(outbox.take_refusal(), Err(NoRoom));
        assert_eq!(outbox.take_refusal(), Ok(()));
        drop(others);
        assert_eq!(outbox.reserve(1 << 20), Ok(()));
        assert!(budget.taken() >= outbox.capacity());
        outbox.clear();
        outbox.shrink();
        assert_eq!(budget.taken(), 0);
    }
}
