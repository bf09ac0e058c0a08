//! A namespace under service.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::community::CommunityEdition;
use super::counters::{Gauge, Latency, RequestCounters};
use super::index::Builds;
use super::lua::Functions;
use super::transaction::table::Transactions;
use crate::Namespace;

/// Which writes keep their record, and for how long, so that clients meet queues and `KEY_BUSY` as
/// on a cluster that is busy.
#[derive(Clone, Debug)]
pub(crate) struct HoldConfig {
    pub(crate) time: Duration,
    /// Of these sets alone; none: of all.
    pub(crate) sets: Box<[Box<str>]>,
}

impl HoldConfig {
    /// For how long a write to this set keeps its record; `None`: it does not.
    pub(crate) fn time_of(&self, set: &[u8]) -> Option<Duration> {
        let mut sets = self.sets.iter();
        let is_held = sets.len() == 0 || sets.any(|held| held.as_bytes() == set);
        is_held.then_some(self.time)
    }
}

/// A namespace, served.
pub(crate) struct ServedNamespace {
    pub(crate) namespace: Namespace,
    /// Whether records may expire: false if the configuration turns expiry off.
    pub(crate) expires: bool,
    pub(crate) builds: Builds,
    pub(crate) counters: RequestCounters,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    pub(crate) queries: Latency,
    /// Which writes keep their record for a while; `None`: none does.
    pub(crate) hold: Option<HoldConfig>,
    pub(crate) transactions: Transactions,
    /// Those of the server.
    pub(crate) functions: Arc<Functions>,
    /// Calls of functions under way.
    pub(crate) calls: Gauge,
    /// The most records a second of a background query.
    pub(crate) max_background_rps: AtomicU64,
    /// Whether clients are told that the namespace is strongly consistent.
    pub(crate) is_strongly_consistent: bool,
    /// `None`: it behaves as this server does.
    pub(crate) community: Option<CommunityEdition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_the_set_are_held_and_others_are_not() {
        let of_one = HoldConfig {
            time: Duration::from_millis(5),
            sets: ["feed".into()].into(),
        };
        assert!(of_one.time_of(b"feed").is_some());
        assert!(of_one.time_of(b"feeds").is_none() && of_one.time_of(b"").is_none());
        let of_all = HoldConfig {
            sets: [].into(),
            ..of_one
        };
        assert!(of_all.time_of(b"").is_some());
    }
}
