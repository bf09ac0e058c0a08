//! The places that `contention` writes to, seen to before the first row runs, so that no run is in
//! vain.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use super::super::Failure;

/// Where the page will be written. What is there stays until the page is made.
pub(super) struct Page<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Page<'a> {
    pub(super) fn open(path: &'a Path) -> Result<Self, Failure> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        Ok(Self {
            path,
            file: file.map_err(|error| unwritable(path, &error))?,
        })
    }

    pub(super) fn write(mut self, html: &str) -> Result<(), Failure> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(html.as_bytes()))
            .map_err(|error| unwritable(self.path, &error))
    }
}

/// Returns whether both paths name the same file, however they are written.
pub(super) fn same_file(one: &Path, other: &Path) -> bool {
    let both = one.canonicalize().ok().zip(other.canonicalize().ok());
    both.is_some_and(|(one, other)| one == other)
}

/// Makes the directory, and sees that a file can be written there.
pub(super) fn writable(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| {
            let probe = dir.join(".spikelet");
            File::create(&probe)?;
            std::fs::remove_file(&probe)
        })
        .map_err(|error| unwritable(dir, &error))
}

/// Makes the directory for the stores of the rows, unless something is in it.
pub(super) fn empty(dir: &Path) -> Result<(), Failure> {
    let read = std::fs::create_dir_all(dir).and_then(|()| std::fs::read_dir(dir));
    if read
        .map_err(|error| unwritable(dir, &error))?
        .next()
        .is_some()
    {
        return Err(Failure::Input(format!(
            "--dir {}: something is in it; name a new directory",
            dir.display()
        )));
    }
    Ok(())
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Output(io::Error::new(
        error.kind(),
        format!("{}: {error}", path.display()),
    ))
}
