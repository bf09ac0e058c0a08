//! Counts of transactions and of their records.

use super::part::TransactionPart;
use crate::server::counter::Counter;
use crate::server::counters::{ByOutcome, RequestOutcome};
use crate::server::result_code;

/// Counts of what transactions do, of a namespace.
#[derive(Debug, Default)]
pub(crate) struct TransactionCounters {
    verify: ByOutcome,
    roll_forward: ByOutcome,
    roll_back: ByOutcome,
    /// Records of transactions that passed their deadline.
    pub(super) expired_records: Counter,
    /// Requests that met a record which another transaction had locked.
    blocked: Counter,
    /// Requests that met another version than the transaction had read.
    version_mismatches: Counter,
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
            met.count();
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
        let mut pairs = Vec::new();
        for (kind, counts) in [
            ("mrt_verify_read", &self.verify),
            ("mrt_roll_forward", &self.roll_forward),
            ("mrt_roll_back", &self.roll_back),
        ] {
            counts.add_to(&mut pairs, kind, &[]);
        }
        for (name, counter) in [
            ("mrt_monitor_roll_back_success", &self.expired_records),
            ("fail_mrt_blocked", &self.blocked),
            ("fail_mrt_version_mismatch", &self.version_mismatches),
        ] {
            pairs.push((name.to_owned(), counter.get()));
        }
        pairs
    }
}
