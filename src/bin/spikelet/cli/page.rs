//! The page that a command writes beside its output, and the directories that it writes to: seen to
//! before the work begins, so that no work is in vain.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use spikelet::backup::is_within;

use crate::failure::{CommandFailure, Result};
use crate::report::Report;

/// The place of a page. A file that is there stays until the page is made.
pub(crate) struct PageFile<'a> {
    path: &'a Path,
    file: File,
}

/// Refuses a place where a page would replace an input of the command, or a file inside a directory
/// among them.
///
/// # Errors
/// The place, and the input that it would harm.
pub(crate) fn check_place(page: &Path, inputs: &[&Path]) -> Result<()> {
    match inputs.iter().find(|input| is_within(page, input)) {
        None => Ok(()),
        Some(input) => Err(CommandFailure::Input(format!(
            "--html {}: this is, or is inside, {}, which is read: name another place",
            page.display(),
            input.display()
        ))),
    }
}

impl<'a> PageFile<'a> {
    /// Opens the place.
    ///
    /// # Errors
    /// As for [`check_place`]; a file that cannot be written.
    pub(crate) fn open(path: &'a Path, inputs: &[&Path]) -> Result<Self> {
        check_place(path, inputs)?;
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(Self {
            path,
            file: file.map_err(|error| unwritable(path, &error))?,
        })
    }

    /// Replaces the file by the page.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn write(mut self, report: &Report) -> Result<()> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(report.to_html().as_bytes()))
            .map_err(|error| unwritable(self.path, &error))
    }
}

/// Returns the failure of a file or directory that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::Output(io::Error::new(
        error.kind(),
        format!("{}: {error}", path.display()),
    ))
}

/// Makes the directory, and sees that a file can be written there.
pub(crate) fn writable(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| {
            let probe = dir.join(".spikelet");
            File::create(&probe)?;
            std::fs::remove_file(&probe)
        })
        .map_err(|error| unwritable(dir, &error))
}

/// Makes the directory of `--dir`, for stores, unless something is in it.
///
/// # Errors
/// Something is in it, or it cannot be made.
pub(crate) fn empty(dir: &Path) -> Result<()> {
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
