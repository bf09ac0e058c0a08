//! Where rows run.

#[cfg(feature = "cluster")]
use super::scratch::ScratchSet;

/// Where rows run.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In this process: each row in a store of its own.
    Embedded,
    /// Against a cluster: one row after the other in a set of its own.
    #[cfg(feature = "cluster")]
    Cluster(ScratchSet),
}
