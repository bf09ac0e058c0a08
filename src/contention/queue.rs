//! The queue of one record, as a model: who is served, who waits, who is refused.
//!
//! The rule is that of the engine's record lock: one is served, at most `max_waiters` wait in the order in which they came,
//! and whoever comes when so many wait is told at once. So at most `max_waiters + 1` are in it, and who is acknowledged was
//! there for at most `max_waiters + 1` holds. A test holds the model and the lock side by side.

use std::collections::VecDeque;

/// What became of a writer that came.
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
    /// `None`: any number may wait.
    pub(super) const fn new(max_waiters: Option<usize>) -> Self {
        Self {
            max_waiters,
            served: None,
            waiting: VecDeque::new(),
        }
    }

    /// A writer comes.
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

    /// The one that was served leaves, and the first that waits takes its place: see [`RecordQueue::served`].
    pub(super) fn leave(&mut self) -> Option<W> {
        std::mem::replace(&mut self.served, self.waiting.pop_front())
    }

    /// Who is served.
    pub(super) const fn served(&self) -> Option<&W> {
        self.served.as_ref()
    }
}

#[cfg(test)]
mod tests;
