//! Where the demo's store lives: in a directory that is kept, or in a temporary one that is not.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Failure;

/// The directory of the store.
#[derive(Debug)]
pub(crate) enum StoreDir {
    /// One that the user has named.
    Kept(PathBuf),
    /// Removed when this is dropped, and when the process is asked to end.
    Temporary(TempDir),
}

impl StoreDir {
    /// # Errors
    /// A temporary directory that cannot be made.
    pub(crate) fn new(dir: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = dir {
            return Ok(Self::Kept(dir.to_owned()));
        }
        let dir = tempfile::Builder::new()
            .prefix("spikelet-demo-")
            .tempdir()
            .map_err(|error| {
                let parent = std::env::temp_dir();
                Failure::Input(format!(
                    "cannot make a directory in {}: {error}; name one with --dir",
                    parent.display()
                ))
            })?;
        remove_when_interrupted(dir.path().to_owned());
        Ok(Self::Temporary(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// Removes a temporary directory.
    ///
    /// # Errors
    /// A directory that cannot be removed.
    pub(crate) fn leave(self) -> Result<(), Failure> {
        let Self::Temporary(dir) = self else {
            return Ok(());
        };
        let path = dir.path().to_owned();
        dir.close()
            .map_err(|error| Failure::Input(format!("cannot remove {}: {error}", path.display())))
    }
}

/// What shells report for a program that was interrupted.
const INTERRUPTED: i32 = 130;

fn remove_when_interrupted(dir: PathBuf) {
    // Without a handler an interrupted demo leaves its directory behind, nothing worse.
    let _ = ctrlc::set_handler(move || {
        let _ = std::fs::remove_dir_all(&dir);
        std::process::exit(INTERRUPTED);
    });
}
