//! Writes that keep their record for a while, so that clients meet queues and `KEY_BUSY` as on a cluster that is busy.
//!
//! A held write waits for its record in the order in which it came, keeps it for the time, is executed, and gives it up. All
//! of that is waiting of its connection's task: no thread is held, and records that nobody asks for are not slower. The
//! lock of the record itself is taken for the execution only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::Digest;

/// Which writes keep their record, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct HoldConfig {
    pub(crate) time: Duration,
    /// Of these sets alone; none: of all.
    pub(crate) sets: Box<[Box<str>]>,
}

/// The records of a namespace that writes keep.
#[derive(Debug)]
pub(crate) struct HeldRecords {
    config: HoldConfig,
    records: Arc<Mutex<HashMap<Digest, Queue>>>,
}

/// Who has a record, or waits for it.
#[derive(Debug, Default)]
struct Queue {
    writers: usize,
    turn: Arc<Turn<()>>,
}

/// A writer that is counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Queued {
    records: Arc<Mutex<HashMap<Digest, Queue>>>,
    digest: Digest,
    turn: Arc<Turn<()>>,
    /// Whether somebody was there before.
    pub(crate) must_wait: bool,
}

/// A record that is this writer's, until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldRecord {
    // In this order: the next one's turn comes before this one stops counting.
    _turn: OwnedMutexGuard<()>,
    _queued: Queued,
}

impl HeldRecords {
    pub(crate) fn new(config: HoldConfig) -> Self {
        Self {
            config,
            records: Arc::default(),
        }
    }

    /// For how long a write to this set keeps its record; `None`: it does not.
    pub(crate) fn time_of(&self, set: &[u8]) -> Option<Duration> {
        let mut sets = self.config.sets.iter();
        let is_held = sets.len() == 0 || sets.any(|held| held.as_bytes() == set);
        is_held.then_some(self.config.time)
    }

    /// Counts one more writer of a record, unless more than `max_waiters` would wait.
    pub(crate) fn queue(&self, digest: Digest, max_waiters: usize) -> Option<Queued> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = records.entry(digest).or_default();
        // One of them has it, and the others wait.
        if queue.writers > max_waiters {
            return None;
        }
        queue.writers += 1;
        Some(Queued {
            must_wait: queue.writers > 1,
            turn: Arc::clone(&queue.turn),
            records: Arc::clone(&self.records),
            digest,
        })
    }
}

impl Queued {
    /// Waits until it is this writer's turn.
    pub(crate) async fn turn(self) -> HeldRecord {
        HeldRecord {
            _turn: Arc::clone(&self.turn).lock_owned().await,
            _queued: self,
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = records.get_mut(&self.digest) {
            queue.writers -= 1;
            if queue.writers == 0 {
                records.remove(&self.digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(set: Option<&str>) -> HeldRecords {
        HeldRecords::new(HoldConfig {
            time: Duration::from_millis(5),
            sets: set.into_iter().map(Into::into).collect(),
        })
    }

    #[test]
    fn writes_of_the_set_are_held_and_others_are_not() {
        let of_one = held(Some("feed"));
        assert!(of_one.time_of(b"feed").is_some());
        assert!(of_one.time_of(b"feeds").is_none() && of_one.time_of(b"").is_none());
        assert!(held(None).time_of(b"").is_some());
    }

    #[test]
    fn one_has_the_record_some_wait_and_the_rest_is_refused() {
        let records = held(None);
        let (hot, other) = (Digest::new([1; 20]), Digest::new([2; 20]));
        let mut queued: Vec<_> = (0..4).filter_map(|_| records.queue(hot, 2)).collect();
        assert_eq!(queued.len(), 3);
        let waits: Vec<_> = queued.iter().map(|queued| queued.must_wait).collect();
        assert_eq!(waits, [false, true, true]);
        assert!(!records.queue(other, 0).unwrap().must_wait);
        // Without waiters, one at a time.
        let first = records.queue(other, 0);
        assert!(first.is_some() && records.queue(other, 0).is_none());
        // Who gives up makes room, and what nobody uses is forgotten.
        queued.pop();
        assert!(records.queue(hot, 2).is_some());
        drop((queued, first));
        assert!(records.records.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn turns_come_in_order() {
        let records = held(None);
        let digest = Digest::new([1; 20]);
        let first = records.queue(digest, 9).unwrap().turn().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..5 {
            let queued = records.queue(digest, 9).unwrap();
            let order = Arc::clone(&order);
            tasks.push(tokio::spawn(async move {
                let _held = queued.turn().await;
                order.lock().unwrap().push(number);
            }));
            // Until it waits.
            tokio::task::yield_now().await;
        }
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }
}
