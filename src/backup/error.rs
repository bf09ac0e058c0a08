//! The errors of backups and restores.

use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// The reason why reading a backup failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The input failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not a backup, or a damaged one.
    #[error("line {line}, byte {offset}: {what}")]
    Malformed {
        /// The line, from 1 on. Line feeds inside values count, as in an editor.
        line: u64,
        /// The number of bytes before the place.
        offset: u64,
        /// The problem.
        what: String,
    },
}

/// The reason why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A file is not a backup, or a damaged one.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The problem and its place.
        #[source]
        source: ReadError,
    },
    /// The call was refused; the text says why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// The call was cancelled before it finished.
    #[error("cancelled before it was done")]
    Cancelled,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// The store refused a record.
    #[error("{}, the record at line {line}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line where the record begins.
        line: u64,
        /// The store's error.
        #[source]
        source: Error,
    },
    /// The store refused a secondary index.
    #[error("index {index:?}: {source}")]
    Index {
        /// The index's name.
        index: String,
        /// The store's error.
        #[source]
        source: Error,
    },
    /// A restore ended early.
    #[error("{source}; {restored} records had been restored before")]
    Stopped {
        /// Number of records restored, with what their namespaces promise of durability. Others may
        /// have been restored, too.
        restored: u64,
        /// The reason.
        #[source]
        source: Box<BackupError>,
    },
}

impl BackupError {
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Wraps an error of reading `path`.
    pub(super) fn read(path: &Path, source: ReadError) -> Self {
        match source {
            ReadError::Io(source) => Self::Io {
                path: path.to_owned(),
                source,
            },
            source => Self::Read {
                path: path.to_owned(),
                source,
            },
        }
    }
}
