//! The directories that `contention` writes to, seen to before the first row runs, so that no run
//! is in vain.

use std::fs::File;
use std::path::Path;

use super::super::page::unwritable;
use crate::failure::{CommandFailure, Result};

/// Makes the directory, and sees that a file can be written there.
pub(super) fn writable(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| {
            let probe = dir.join(".spikelet");
            File::create(&probe)?;
            std::fs::remove_file(&probe)
        })
        .map_err(|error| unwritable(dir, &error))
}

/// Makes the directory for the stores of the rows, unless something is in it.
pub(super) fn empty(dir: &Path) -> Result<()> {
    let read = std::fs::create_dir_all(dir).and_then(|()| std::fs::read_dir(dir));
    if read
        .map_err(|error| unwritable(dir, &error))?
        .next()
        .is_some()
    {
        return Err(CommandFailure::Input(format!(
            "--dir {}: something is in it; name a new directory",
            dir.display()
        )));
    }
    Ok(())
}
