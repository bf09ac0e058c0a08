//! How far a move has come, in a file: written after each step, so that a move that was killed goes
//! on from there.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::{CommandFailure, Result};

/// How far a move has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MovePosition {
    pub(super) source: String,
    pub(super) target: String,
    /// Where the next piece of the copy begins; `None`: all records are copied.
    pub(super) copied_to: Option<String>,
    /// Behind which change the copy is followed; `None`: the source keeps none.
    pub(super) changes: Option<String>,
    /// The sets that have been moved, or begun. They had no records in the cluster before, or were
    /// allowed to.
    pub(super) sets: Vec<String>,
    /// The sets that kept no changes, at some time since the copy began: all their records are
    /// compared at the end.
    pub(super) silent_sets: BTreeSet<String>,
    /// The sets of which the cluster has refused a record: all their records are compared at the
    /// end.
    pub(super) refused_sets: BTreeSet<String>,
    /// How many records were copied.
    pub(super) records: u64,
}

impl MovePosition {
    /// Returns the position of this move that a file has; `None`: there is no file, so it has not
    /// begun.
    ///
    /// # Errors
    /// A file that cannot be read, or is that of another move.
    pub(super) fn read(file: &Path, source: &str, target: &str) -> Result<Option<Self>> {
        let bytes = match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| CommandFailure::at(file.display(), error))?,
        };
        let failed = |why: String| CommandFailure::at(file.display(), why);
        let position: Self = serde_json::from_slice(&bytes)
            .map_err(|error| failed(format!("this is no position of a move: {error}")))?;
        if (&*position.source, &*position.target) != (source, target) {
            return Err(failed(format!(
                "this is the position of a move of {} to {}: remove it, or name another file by --resume",
                position.source, position.target
            )));
        }
        Ok(Some(position))
    }

    /// Writes the position in place of the earlier one, whole or not at all.
    ///
    /// # Errors
    /// A file that cannot be written, or a directory that cannot be synced.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        text.and_then(|text| replace(file, &text))
            .map_err(|error| CommandFailure::at(file.display(), error))
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&beside, path)?;
    // The new name, too, outlives the machine.
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
