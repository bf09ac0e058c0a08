//! Why a case cannot be run or checked.

use std::io;
use std::path::{Path, PathBuf};

/// Why a case cannot be run or checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HarnessError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] spikelet::Error),
    /// A ledger, or the directory of one, cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Ledger {
        /// The file or directory.
        path: PathBuf,
        /// The verb: create, list, read or write.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A set of a cluster cannot be used for rows.
    #[cfg(feature = "cluster")]
    #[error("set {set:?}: {reason}")]
    Scratch {
        /// The set.
        set: String,
        /// Why not, and what to do.
        reason: String,
    },
}

/// The result of what runs or checks cases.
pub(crate) type Result<T> = std::result::Result<T, HarnessError>;

impl HarnessError {
    /// Builds the error of a ledger's file or directory.
    pub(super) fn ledger(path: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Ledger {
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// Returns Aerospike's number for it: that of the store's error, or 1.
    pub(super) fn result_code(&self) -> u8 {
        match self {
            Self::Store(error) => error.result_code(),
            Self::Ledger { .. } => 1,
            #[cfg(feature = "cluster")]
            Self::Scratch { .. } => 1,
        }
    }
}
