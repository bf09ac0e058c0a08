//! Counts of transactions and of their records.

use super::part::TransactionPart;
use crate::server::counters::{ByOutcome, Counter, Pairs, RequestOutcome};
use crate::server::result_code;

/// Counts of what transactions do, of a namespace.
#[derive(Default)]
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
    /// Counts a request by the code of its answer. Returns true if the request must not count as a
    /// read or write as well.
    pub(crate) fn count(&self, part: TransactionPart, code: u8) -> bool {
        match code {
            result_code::MRT_BLOCKED => self.blocked.count(),
            result_code::MRT_VERSION_MISMATCH => self.version_mismatches.count(),
            _ => {}
        }
        let counters = match part {
            TransactionPart::Verify => &self.verify,
            TransactionPart::RollForward => &self.roll_forward,
            TransactionPart::RollBack => &self.roll_back,
            TransactionPart::None | TransactionPart::Monitor | TransactionPart::Member => {
                return false;
            }
        };
        counters.add(RequestOutcome::of(code), 1);
        true
    }

    /// Adds all counts, by Aerospike's names.
    pub(super) fn add_to(&self, pairs: &mut Pairs) {
        self.verify.add_to(pairs, "mrt_verify_read", &[]);
        self.roll_forward.add_to(pairs, "mrt_roll_forward", &[]);
        self.roll_back.add_to(pairs, "mrt_roll_back", &[]);
        let rolled_back = self.expired_records.get();
        pairs.add("mrt_monitor_roll_back_success", rolled_back);
        pairs.add("fail_mrt_blocked", self.blocked.get());
        let mismatches = self.version_mismatches.get();
        pairs.add("fail_mrt_version_mismatch", mismatches);
    }
}
