//! Counts of transactions and of their records.

use std::sync::atomic::{AtomicU64, Ordering};

use super::part::TransactionPart;
use crate::server::counters::{ByOutcome, RequestOutcome};
use crate::server::result_code;

/// Counts of what transactions do, of a namespace.
#[derive(Debug, Default)]
pub(crate) struct TransactionCounters {
    verify: ByOutcome,
    roll_forward: ByOutcome,
    roll_back: ByOutcome,
    /// Records of transactions that passed their deadline.
    pub(super) expired_records: AtomicU64,
    /// Requests that met a record which another transaction had locked.
    blocked: AtomicU64,
    /// Requests that met another version than the transaction had read.
    version_mismatches: AtomicU64,
}

impl TransactionCounters {
    /// Counts a request by the code of its answer. Returns true if the request must not count as a read or write as
    /// well.
    pub(crate) fn count(&self, part: TransactionPart, code: u8) -> bool {
        let met = match code {
            result_code::MRT_BLOCKED => Some(&self.blocked),
            result_code::MRT_VERSION_MISMATCH => Some(&self.version_mismatches),
            _ => None,
        };
        if let Some(met) = met {
            met.fetch_add(1, Ordering::Relaxed);
        }
        let counters = match part {
            TransactionPart::Verify => &self.verify,
            TransactionPart::RollForward => &self.roll_forward,
            TransactionPart::RollBack => &self.roll_back,
            TransactionPart::None | TransactionPart::Monitor | TransactionPart::Member => {
                return false;
            }
        };
        counters.add_many(RequestOutcome::of(code), 1);
        true
    }

    /// All counts, by Aerospike's names.
    pub(super) fn by_name(&self) -> Vec<(String, u64)> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut pairs = Vec::new();
        for (kind, counts) in [
            ("mrt_verify_read", &self.verify),
            ("mrt_roll_forward", &self.roll_forward),
            ("mrt_roll_back", &self.roll_back),
        ] {
            let errors = [
                RequestOutcome::NotFound,
                RequestOutcome::FilteredOut,
                RequestOutcome::Error,
            ];
            let errors = errors.map(|outcome| counts.get(outcome)).iter().sum();
            pairs.push((
                format!("{kind}_success"),
                counts.get(RequestOutcome::Success),
            ));
            pairs.push((format!("{kind}_error"), errors));
            pairs.push((
                format!("{kind}_timeout"),
                counts.get(RequestOutcome::Timeout),
            ));
        }
        let expired = load(&self.expired_records);
        pairs.push(("mrt_monitor_roll_back_success".to_owned(), expired));
        pairs.push(("fail_mrt_blocked".to_owned(), load(&self.blocked)));
        let mismatches = load(&self.version_mismatches);
        pairs.push(("fail_mrt_version_mismatch".to_owned(), mismatches));
        pairs
    }
}
