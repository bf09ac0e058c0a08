//! The page that a command writes beside its output, and the directories that it writes to: seen to
//! before the work begins, so that no work is in vain.

use std::fs::File;
use std::io;
use std::path::Path;

use spikelet::backup::is_within;

use crate::failure::{CommandFailure, Result};
use crate::report::Report;

/// Checks that a page can be written to this place. Files that exist stay as they are, and no new
/// one is left.
///
/// # Errors
/// A place where the page would replace an input of the command, or a file inside a directory among
/// them; one that cannot be written.
pub(crate) fn check_page(page: &Path, inputs: &[&Path]) -> Result<()> {
    if let Some(input) = inputs.iter().find(|input| is_within(page, input)) {
        return Err(CommandFailure::Input(format!(
            "--html {}: this is, or is inside, {}, which is read: name another place",
            page.display(),
            input.display()
        )));
    }
    // `open` also makes the missing target of a link.
    let is_new = !page.exists();
    let mut opened = File::options()
        .append(true)
        .create(true)
        .open(page)
        .map(drop);
    if is_new && opened.is_ok() {
        opened = page.canonicalize().and_then(std::fs::remove_file);
    }
    opened.map_err(|error| unwritable(page, &error))
}

/// Writes the page of a report.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write_page(page: &Path, report: &Report) -> Result<()> {
    std::fs::write(page, report.to_html()).map_err(|error| unwritable(page, &error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_checked_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (new, there) = (dir.path().join("new"), dir.path().join("there"));
        std::fs::write(&there, "earlier").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&new, &link).unwrap();
        for page in [&new, &link, &there, Path::new("/dev/null")] {
            check_page(page, &[]).unwrap();
        }
        assert!(!new.exists() && link.is_symlink());
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "earlier");
        for (page, input) in [
            (dir.path(), "/"),
            (&*there, "/no"),
            (&*there.join("a"), "/no"),
        ] {
            let is_refused = check_page(page, &[Path::new(input)]).is_err();
            assert_eq!(is_refused, page != there, "{page:?}");
        }
        write_page(&there, &Report::new("later")).unwrap();
        write_page(Path::new("/dev/null"), &Report::new("later")).unwrap();
        assert!(
            std::fs::read_to_string(&there)
                .unwrap()
                .ends_with("</html>\n")
        );
    }
}
