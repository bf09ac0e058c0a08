//! A namespace under service.

use super::community::CommunityEdition;
use super::counters::{Counters, Latency};
use super::hold::HeldRecords;
use super::index::Builds;
use super::transaction::table::Transactions;
use crate::Namespace;

/// A namespace, served.
#[derive(Debug)]
pub(crate) struct ServedNamespace {
    pub(crate) namespace: Namespace,
    /// Whether records may expire: false if the configuration turns expiry off.
    pub(crate) expires: bool,
    pub(crate) builds: Builds,
    pub(crate) counters: Counters,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    pub(crate) queries: Latency,
    /// Records that writes keep for a while; `None`: they do not.
    pub(crate) held: Option<HeldRecords>,
    pub(crate) transactions: Transactions,
    /// Whether clients are told that the namespace is strongly consistent.
    pub(crate) is_strongly_consistent: bool,
    /// `None`: it behaves as this server does.
    pub(crate) community: Option<CommunityEdition>,
}

/// Transactions that are open are rolled back: nobody can commit them any more.
impl Drop for ServedNamespace {
    fn drop(&mut self) {
        self.transactions.abandon(&self.namespace);
    }
}
