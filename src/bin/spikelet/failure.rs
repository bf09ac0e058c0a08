//! Why the program could not do its work.

use std::fmt::Display;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandFailure {
    /// Arguments or input that cannot be used.
    #[error("{0}")]
    Input(String),
    /// A program does not answer; it may be there again in a while.
    #[error("{0}")]
    Away(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] spikelet::Error),
    /// A backup could not be made or restored.
    #[error(transparent)]
    Backup(#[from] spikelet::backup::BackupError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
}

/// The result of a part of a command.
pub(crate) type Result<T, E = CommandFailure> = std::result::Result<T, E>;

impl CommandFailure {
    /// Names what cannot be used, and why.
    pub(crate) fn at(place: impl Display, why: impl Display) -> Self {
        Self::Input(format!("{place}: {why}"))
    }

    /// Returns Aerospike's number for it: that of the store's error, or 1.
    pub(crate) fn result_code(&self) -> u8 {
        match self {
            Self::Store(error) => error.result_code(),
            _ => 1,
        }
    }
}

impl From<String> for CommandFailure {
    fn from(why: String) -> Self {
        Self::Input(why)
    }
}
