//! A namespace under service.

use super::counters::{Counters, Latency};
use super::hold::HeldRecords;
use super::index::Indexes;
use crate::Namespace;

/// A namespace, served.
#[derive(Debug)]
pub(crate) struct ServedNamespace {
    pub(crate) namespace: Namespace,
    /// Whether records may expire: false if the configuration turns expiry off.
    pub(crate) expires: bool,
    pub(crate) indexes: Indexes,
    pub(crate) counters: Counters,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    pub(crate) queries: Latency,
    /// Records that writes keep for a while; `None`: they do not.
    pub(crate) held: Option<HeldRecords>,
}
