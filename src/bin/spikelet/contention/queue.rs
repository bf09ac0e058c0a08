//! The queue of one record, as a model: who is served, who waits, who is refused.
//!
//! The rule is that of the engine's record lock: one is served, at most `max_waiters` wait in the
//! order in which they came, and a writer that comes while that many wait is refused at once. So at
//! most `max_waiters + 1` are in the queue, and an acknowledged writer was in it for at most
//! `max_waiters + 1` holds. A test holds the model and the lock side by side.

use std::collections::VecDeque;

/// What happens to a writer that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is served at once.
    Served,
    /// It waits.
    Queued,
    /// It is refused.
    Busy,
}

/// The writers of one record.
#[derive(Clone, Debug)]
pub(super) struct RecordQueue<W> {
    max_waiters: Option<usize>,
    served: Option<W>,
    waiting: VecDeque<W>,
}

impl<W> RecordQueue<W> {
    /// Returns an empty queue. `max_waiters`: `None` lets any number wait.
    pub(super) const fn new(max_waiters: Option<usize>) -> Self {
        Self {
            max_waiters,
            served: None,
            waiting: VecDeque::new(),
        }
    }

    /// Adds a writer, or refuses it.
    pub(super) fn arrive(&mut self, writer: W) -> Arrival {
        if self.served.is_none() {
            self.served = Some(writer);
            return Arrival::Served;
        }
        if self
            .max_waiters
            .is_some_and(|most| self.waiting.len() >= most)
        {
            return Arrival::Busy;
        }
        self.waiting.push_back(writer);
        Arrival::Queued
    }

    /// Removes the writer that was served, and serves the first that waits: see
    /// [`RecordQueue::served`].
    pub(super) fn leave(&mut self) -> Option<W> {
        std::mem::replace(&mut self.served, self.waiting.pop_front())
    }

    /// Returns the writer that is served.
    pub(super) const fn served(&self) -> Option<&W> {
        self.served.as_ref()
    }
}

#[cfg(test)]
mod tests;
