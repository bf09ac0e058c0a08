//! How far a move has come, in a file: written after each step, so that a move that was killed goes
//! on from there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::{CommandFailure, Result};
use crate::files;

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
    /// The sets of which the cluster has refused a record: all their records are compared at the end.
    pub(super) refused_sets: BTreeSet<String>,
    /// How many records were copied.
    pub(super) records: u64,
}

/// The file of a move.
#[derive(Debug)]
pub(super) struct PositionFile {
    path: PathBuf,
}

impl PositionFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns the position of this move; `None`: it has not begun.
    ///
    /// # Errors
    /// A file that cannot be read, or is that of another move.
    pub(super) fn read(&self, source: &str, target: &str) -> Result<Option<MovePosition>> {
        let read = files::read_if_any(&self.path);
        let Some(bytes) = read.map_err(|error| self.failed(&error))? else {
            return Ok(None);
        };
        let position: MovePosition = serde_json::from_slice(&bytes)
            .map_err(|error| self.failed(&format!("this is no position of a move: {error}")))?;
        if (&*position.source, &*position.target) != (source, target) {
            return Err(self.failed(&format!(
                "this is the position of a move of {} to {}: remove it, or name another file by --resume",
                position.source, position.target
            )));
        }
        Ok(Some(position))
    }

    /// Writes the position in place of the earlier one, whole or not at all.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write(&self, position: &MovePosition) -> Result<()> {
        let text = serde_json::to_vec_pretty(position).map_err(|error| self.failed(&error))?;
        files::replace(&self.path, &text).map_err(|error| self.failed(&error))
    }

    /// Removes the file: the move has ended.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub(super) fn remove(&self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| self.failed(&error))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> CommandFailure {
        CommandFailure::at(self.path.display(), why)
    }
}
