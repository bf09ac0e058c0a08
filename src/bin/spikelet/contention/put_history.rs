//! The values of puts: which of them a record may show after others were acknowledged.
//!
//! A value begins with the number of its write. Of writes that overlap in time any may be the last
//! one; one that was acknowledged before another was sent that was acknowledged, too, is replaced
//! for good.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spikelet::Value;

use super::routing::HotRoute;

/// Bytes of a number: shorter values have no place for one, and are not looked at.
pub(super) const NUMBER_BYTES: usize = 8;
/// How many replaced values are remembered for reads right after an acknowledgement.
const REPLACED: usize = 256;

/// Returns the value of a put: the payload, with the write's number in its first bytes if there is
/// room.
pub(super) fn value(payload: &[u8], id: u64) -> Value {
    let mut value = payload.to_vec();
    if let Some(number) = value.first_chunk_mut::<NUMBER_BYTES>() {
        *number = id.to_le_bytes();
    }
    Value::Blob(value)
}

/// Returns the number of the write that has put this value; `None` if it has no room for one, or is
/// not from this harness.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Blob(bytes) => bytes
            .first_chunk::<NUMBER_BYTES>()
            .map(|number| u64::from_le_bytes(*number)),
        _ => None,
    }
}

/// The acknowledged puts to one record. Moments are numbers that grow from call to call.
#[derive(Clone, Debug, Default)]
pub(super) struct PutHistory {
    /// When the last one was sent that is acknowledged.
    newest_sent: u64,
    /// Values that may be the last one, with the moments of their acknowledgements.
    last: Vec<(u64, u64)>,
    /// The latest values that cannot be the last one.
    replaced: VecDeque<u64>,
}

impl PutHistory {
    /// Adds a put with the moments at which it was sent and acknowledged. O(puts that overlap).
    pub(super) fn acknowledge(&mut self, id: u64, sent: u64, acknowledged: u64) {
        self.newest_sent = self.newest_sent.max(sent);
        self.last.push((id, acknowledged));
        let newest = self.newest_sent;
        let replaced = &mut self.replaced;
        self.last.retain(|(id, acknowledged)| {
            let may_be_last = *acknowledged > newest;
            if !may_be_last {
                replaced.push_back(*id);
            }
            may_be_last
        });
        let surplus = replaced.len().saturating_sub(REPLACED);
        replaced.drain(..surplus);
    }

    /// Returns whether the value of this put may be there after all others have ended.
    pub(super) fn may_be_last(&self, id: u64) -> bool {
        self.last.iter().any(|(last, _)| *last == id)
    }

    /// Returns whether a read that begins now must not show the value of this put. Knows only the
    /// latest that were replaced.
    pub(super) fn is_replaced(&self, id: u64) -> bool {
        self.replaced.contains(&id)
    }
}

/// The puts of a row that runs, of all its writers.
#[derive(Debug, Default)]
pub(super) struct PutHistories {
    moments: AtomicU64,
    records: Mutex<HashMap<HotRoute, PutHistory>>,
}

impl PutHistories {
    /// Returns a new moment.
    pub(super) fn now(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// Adds a put that was sent at this moment and is acknowledged now.
    pub(super) fn acknowledge(&self, route: HotRoute, id: u64, sent: u64) {
        let now = self.now();
        let mut records = self.records.lock();
        records.entry(route).or_default().acknowledge(id, sent, now);
    }

    /// Returns the history of a record's puts, if there is one.
    pub(super) fn of(&self, route: &HotRoute) -> Option<PutHistory> {
        self.records.lock().get(route).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_number_of_its_write_if_it_has_the_room() {
        assert_eq!(number(&value(&[7; 8], 513)), Some(513));
        assert_eq!(number(&value(&[7; 128], u64::MAX)), Some(u64::MAX));
        assert_eq!(value(&[7; 7], 513), Value::Blob(vec![7; 7]));
        assert_eq!(number(&value(&[7; 7], 513)), None);
        assert_eq!(number(&Value::Int(513)), None);
    }

    #[test]
    fn of_puts_that_overlap_any_may_be_the_last_and_earlier_ones_are_replaced() {
        let mut puts = PutHistory::default();
        puts.acknowledge(10, 1, 4);
        puts.acknowledge(11, 2, 5);
        assert!(puts.may_be_last(10) && puts.may_be_last(11));
        puts.acknowledge(12, 5, 9);
        assert!(!puts.may_be_last(10) && !puts.may_be_last(11) && puts.may_be_last(12));
        assert!(puts.is_replaced(10) && puts.is_replaced(11) && !puts.is_replaced(12));
        // It was sent long before, and its acknowledgement came last.
        puts.acknowledge(13, 3, 10);
        assert!(puts.may_be_last(12) && puts.may_be_last(13));
        for id in 100..1_000 {
            puts.acknowledge(id, 2 * id, 2 * id + 1);
        }
        assert_eq!(puts.replaced.len(), REPLACED);
        assert!(puts.is_replaced(998) && !puts.is_replaced(100));
        assert!(puts.may_be_last(999) && !puts.may_be_last(998));
    }
}
