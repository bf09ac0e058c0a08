//! What can go wrong with backups.

use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Why a backup cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The input failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are no backup, or a damaged one.
    #[error("line {line}, byte {offset}: {what}")]
    Malformed {
        /// The line, from 1 on. Line feeds inside values count, as in an editor.
        line: u64,
        /// How many bytes are before the place.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

/// Why a backup was not made, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file is no backup, or a damaged one.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong there.
        #[source]
        source: ReadError,
    },
    /// It was not begun; the text says why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// It was cancelled before it was done.
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
        /// Where the record begins.
        line: u64,
        /// What the store says.
        #[source]
        source: Error,
    },
    /// The store refused a secondary index.
    #[error("index {index:?}: {source}")]
    Index {
        /// Its name.
        index: String,
        /// What the store says.
        #[source]
        source: Error,
    },
    /// A restore ended before its end.
    #[error("{source}; {restored} records had been restored before")]
    Stopped {
        /// How many records are there.
        restored: u64,
        /// Why it ended.
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

    /// An error of a file that is being read.
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
