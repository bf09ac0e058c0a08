//! Why a transaction is not committed.

/// Why a transaction cannot be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConflictCause {
    /// Another writer has changed a record since it was read.
    Changed,
    /// Another writer holds the lock of a record.
    Locked,
    /// A record has expired since it was read.
    Expired,
}

impl std::fmt::Display for ConflictCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Changed => "another writer has changed it since it was read",
            Self::Locked => "another writer has it locked",
            Self::Expired => "it has expired since it was read",
        })
    }
}
