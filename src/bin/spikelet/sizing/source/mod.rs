//! Where records come from: a store, JSON lines, a backup.

mod backup;
mod json_lines;
mod store;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use spikelet::backup::ReadError;
use spikelet::{Error, Store};

use super::plan::{RateError, checked_rate};
use super::set_stats::StatsBySet;
use super::summarize::summarize;
use super::{Options, Sizing};

/// What every backup file begins with.
const BACKUP_BEGINS: &[u8] = b"Version ";

/// Receives the progress: what is done, and what there is in all (records of a store, bytes of
/// files).
pub(crate) type Progress<'p> = dyn FnMut(u64, u64) + 'p;

/// Why a sizing could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SizingError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A backup is damaged, or none.
    #[error("{}: {source}", path.display())]
    Backup {
        /// The file.
        path: PathBuf,
        /// Where, and what is wrong there.
        source: ReadError,
    },
    /// The rate is invalid.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// No record is in the set that was asked for.
    #[error("no record is in set {0:?}; without a name of a set, all are sized")]
    NoSet(String),
}

impl SizingError {
    fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}

/// Sizes what is at a path: the directory of a store (opened read-only), a backup (`.asb`, a file
/// or a directory of them), or JSON lines. Every record is visited once. A record of a store that
/// is damaged on the device is counted, and in no other figure.
///
/// A JSON line is `{"set": .., "key": .., "bins": {..}}`, or any other object, which is then a
/// record without key whose fields are bins. Both files are sized as this store would keep their
/// records. Lines with the set and key of an earlier one are records of their own, and counted as
/// repeated: keys are told apart by 64 bits of a hash, so memory goes with them.
///
/// # Errors
/// [`SizingError`]: what is there cannot be opened, read or understood, or does not hold the set
/// that was asked for.
pub(crate) fn size(
    path: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<Sizing, SizingError> {
    let rates = options.writes_per_s_of.iter().map(|(_, rate)| *rate);
    for rate in rates.chain(options.writes_per_s) {
        checked_rate(rate)?;
    }
    let mut stats = StatsBySet::new(options);
    let origin = match kind_of(path)? {
        Kind::Store => store::read(path, options, &mut stats, progress)?,
        Kind::Backup => backup::read(path, &mut stats, progress)?,
        Kind::JsonLines => json_lines::read(path, &mut stats, progress)?,
    };
    let sizing = summarize(options, origin, stats);
    match &options.set {
        Some(set) if sizing.sets.is_empty() => Err(SizingError::NoSet(set.clone())),
        _ => Ok(sizing),
    }
}

enum Kind {
    Store,
    Backup,
    JsonLines,
}

fn kind_of(path: &Path) -> Result<Kind, SizingError> {
    let failed = SizingError::read(path);
    if std::fs::metadata(path).map_err(&failed)?.is_dir() {
        // A store with a backup in it is a store.
        if Store::exists(path) {
            return Ok(Kind::Store);
        }
        let mut files = std::fs::read_dir(path).map_err(&failed)?;
        let is_backup = files.any(|file| file.is_ok_and(|file| has_extension(&file.path(), "asb")));
        return Ok(if is_backup { Kind::Backup } else { Kind::Store });
    }
    let mut first = Vec::new();
    let file = File::open(path).map_err(&failed)?;
    file.take(BACKUP_BEGINS.len() as u64)
        .read_to_end(&mut first)
        .map_err(&failed)?;
    Ok(if first == BACKUP_BEGINS || has_extension(path, "asb") {
        Kind::Backup
    } else {
        Kind::JsonLines
    })
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Opens a file and returns its length in bytes.
fn open(path: &Path) -> Result<(BufReader<File>, u64), SizingError> {
    let failed = SizingError::read(path);
    let file = File::open(path).map_err(&failed)?;
    let length = file.metadata().map_err(&failed)?.len();
    Ok((BufReader::with_capacity(1 << 16, file), length))
}
