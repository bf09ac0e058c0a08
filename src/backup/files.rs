//! Backup files on disk: one file, or a directory of files. A new backup is written under a
//! temporary name, synced, and renamed when complete, so an incomplete one never looks like a
//! backup.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::BackupError;

/// The extension of backup files.
const EXTENSION: &str = "asb";

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Returns the files of a backup: the file itself, or a directory's files ending in `.asb`, by
/// name.
///
/// # Errors
/// The operating system's error for the path.
pub fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if is_file_name(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_file_name(path: &Path) -> bool {
    path.extension().is_some_and(|found| found == EXTENSION)
}

/// A backup being written. Dropping it before [`Output::finish`] removes its files.
#[derive(Debug)]
pub(super) struct Output {
    target: PathBuf,
    /// A file or a directory, like the target.
    temporary: PathBuf,
    is_dir: bool,
    files: Vec<PathBuf>,
    /// Files that killed backups had left beside the target; they are removed.
    pub(super) leftovers: Vec<PathBuf>,
    finished: bool,
}

fn parent_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes and returns the files of backups to this target by processes that are gone.
fn remove_leftovers(target: &Path, name: &OsStr) -> Vec<PathBuf> {
    let parent = parent_of(target);
    // Where processes cannot be seen, none is known to be gone.
    let (Ok(beside), true) = (fs::read_dir(parent), Path::new("/proc/self").exists()) else {
        return Vec::new();
    };
    let begins = format!(".{}.", name.to_string_lossy());
    let is_abandoned = |path: &PathBuf| {
        let name = path.file_name().map(OsStr::to_string_lossy);
        let pid = name.as_ref().and_then(|name| {
            let pid = name.strip_prefix(&begins)?.strip_suffix(".partial")?;
            pid.parse::<u32>().ok()
        });
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    let paths = beside.filter_map(|entry| Some(entry.ok()?.path()));
    let removed = paths.filter(is_abandoned).filter(|path| {
        let removed = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.is_ok()
    });
    removed.collect()
}

impl Output {
    /// Starts one file if the name ends in `.asb`, else a directory, which may exist if it is
    /// empty.
    pub(super) fn begin(target: &Path) -> Result<Self, BackupError> {
        let refused = |why: &str| BackupError::Refused(format!("{}: {why}", target.display()));
        let is_dir = target.is_dir() || !is_file_name(target);
        if is_dir && target.is_dir() {
            let mut entries = fs::read_dir(target).map_err(BackupError::io(target))?;
            if entries.next().is_some() {
                return Err(refused(
                    "the directory is not empty: name another one, which is created, or empty it",
                ));
            }
        } else if fs::symlink_metadata(target).is_ok() {
            return Err(refused(
                "there is such a file already: name another one, or remove it",
            ));
        }
        let name = target
            .file_name()
            .ok_or_else(|| refused("this is not the name of a file or directory"))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        // Beside the target, so that the rename at the end stays within one file system.
        let temporary = target.with_file_name(hidden);
        let leftovers = remove_leftovers(target, name);
        let output = Self {
            target: target.to_owned(),
            temporary,
            is_dir,
            files: Vec::new(),
            leftovers,
            finished: false,
        };
        let parent = parent_of(target);
        if !is_dir && !parent.is_dir() {
            return Err(refused(&format!(
                "there is no directory {}: create it, or name another one",
                parent.display()
            )));
        }
        if is_dir {
            fs::create_dir_all(parent).map_err(BackupError::io(parent))?;
            fs::create_dir(&output.temporary).map_err(BackupError::io(&output.temporary))?;
        }
        Ok(output)
    }

    /// Returns whether the backup can have several files.
    pub(super) const fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// Starts a file: with this name in the directory, or the single file.
    pub(super) fn file(&mut self, name: &str) -> Result<BufWriter<File>, BackupError> {
        let (path, target) = if self.is_dir {
            (self.temporary.join(name), self.target.join(name))
        } else {
            (self.temporary.clone(), self.target.clone())
        };
        let file = File::create_new(&path).map_err(BackupError::io(&target))?;
        self.files.push(target);
        Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
    }

    /// Returns a function that turns an error of writing the current file into a [`BackupError`].
    pub(super) fn failed(&self) -> impl Fn(io::Error) -> BackupError {
        BackupError::io(self.files.last().unwrap_or(&self.target))
    }

    /// Finishes a file.
    pub(super) fn sync(&self, file: BufWriter<File>) -> Result<(), BackupError> {
        let sync = || file.into_inner().map_err(io::Error::from)?.sync_all();
        sync().map_err(self.failed())
    }

    /// Moves the finished backup to its final place. Returns the files.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, BackupError> {
        let sync_dir = |path: &Path| {
            let synced = File::open(path).and_then(|dir| dir.sync_all());
            synced.map_err(BackupError::io(path))
        };
        if self.is_dir {
            sync_dir(&self.temporary)?;
        }
        fs::rename(&self.temporary, &self.target).map_err(BackupError::io(&self.target))?;
        self.finished = true;
        sync_dir(parent_of(&self.target))?;
        Ok(std::mem::take(&mut self.files))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // On failure the leftovers keep their temporary name, which marks them as incomplete.
        let _ = if self.is_dir {
            fs::remove_dir_all(&self.temporary)
        } else {
            fs::remove_file(&self.temporary)
        };
    }
}

/// Returns whether `path` is `outer`, under any of its names, or is inside it.
/// [`save`](super::save) uses it to refuse writing into the store that it reads. `path` need not
/// exist yet: its nearest existing parent directory counts. A path that cannot be resolved is
/// inside nothing.
#[must_use]
pub fn is_within(path: &Path, outer: &Path) -> bool {
    let Ok(outer) = outer.canonicalize() else {
        return false;
    };
    // A hard link is the same file under another path.
    let file = |path: &Path| {
        let found = path.metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    if file(path).is_some_and(|found| Some(found) == file(&outer)) {
        return true;
    }
    let on_the_way = path.ancestors().map(|part| match part {
        part if part.as_os_str().is_empty() => Path::new("."),
        part => part,
    });
    let mut real = on_the_way.filter_map(|part| part.canonicalize().ok());
    real.next().is_some_and(|real| real.starts_with(&outer))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use std::io::Write;

    #[test]
    fn a_backup_that_is_not_finished_leaves_nothing_and_before_that_nothing_that_looks_whole() {
        for name in ["a.asb", "a"] {
            let dir = tempfile::tempdir().unwrap();
            let mut output = Output::begin(&dir.path().join(name)).unwrap();
            let mut file = output.file("one.asb").unwrap();
            file.write_all(b"Version 3.1\n").unwrap();
            output.sync(file).unwrap();
            assert_eq!(files_of(dir.path()).unwrap(), [""; 0].map(PathBuf::from));
            let names = || fs::read_dir(dir.path()).unwrap().count();
            assert_eq!(names(), 1);
            drop(output);
            assert_eq!(names(), 0);
        }
    }

    #[test]
    fn what_killed_backups_have_left_is_removed_and_what_others_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        // No process has the largest number; this one is alive.
        let gone = [".a.4294967295.partial", ".a.4294967294.partial"].map(at);
        fs::create_dir(&gone[0]).unwrap();
        fs::write(gone[0].join("test_00000.asb"), "Version 3.1\n").unwrap();
        fs::write(&gone[1], "Version 3.1\n").unwrap();
        let kept = [".b.4294967295.partial", ".a.x.partial", ".a.1.partial"].map(at);
        kept.iter().for_each(|path| fs::write(path, "").unwrap());
        let mut removed = Output::begin(&at("a")).unwrap().leftovers.clone();
        removed.sort();
        let mut expected = gone.to_vec();
        expected.sort();
        assert_eq!(removed, expected);
        assert!(gone.iter().all(|path| !path.exists()));
        assert!(kept.iter().all(|path| path.exists()));
    }

    #[test]
    fn links_and_dots_lead_to_where_they_lead() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir_all(at("dir/in")).unwrap();
        fs::create_dir(at("dir2")).unwrap();
        fs::write(at("file"), "a").unwrap();
        fs::write(at("other"), "a").unwrap();
        symlink(at("dir/in"), at("way-in")).unwrap();
        symlink(at("file"), at("alias")).unwrap();
        fs::hard_link(at("file"), at("twin")).unwrap();
        let table = [
            ("dir", "dir", true),
            ("dir/new", "dir", true),
            ("dir/new/newer.asb", "dir", true),
            ("way-in/new", "dir", true),
            ("dir2/../dir/new", "dir", true),
            ("dir/../new", "dir", false),
            ("dir2/new", "dir", false),
            ("dir2", "dir", false),
            ("new", "none", false),
            ("file", "file", true),
            ("alias", "file", true),
            ("file", "alias", true),
            ("twin", "file", true),
            ("dir/../file", "file", true),
            ("other", "file", false),
        ];
        for (path, outer, expected) in table {
            assert_eq!(is_within(&at(path), &at(outer)), expected, "{path} {outer}");
        }
        assert!(is_within(Path::new("new"), Path::new(".")));
    }
}
