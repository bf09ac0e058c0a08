//! Disk traffic of a run: bytes allocated by its files, bytes written by this process.

use crate::Result;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `st_blocks` counts in these units, independent of the file system's blocks.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes gone to the disk up to some moment, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes allocated to the files of the store (holes of sparse files not counted).
    pub allocated: u64,
    /// Bytes of pages this process made dirty: `write_bytes` of `/proc/self/io`.
    pub dirtied: u64,
    /// Bytes handed to write calls: `wchar` of `/proc/self/io`; stores into a mapping are missing.
    pub called: u64,
}

impl Traffic {
    /// The counters now, with every file of `dir` written out.
    pub fn now(dir: &Path) -> Result<Self> {
        let mut allocated = 0;
        for file in files(dir)? {
            // A store may delete a file of its own at any time.
            let Some(file) = unless_gone(File::open(file))? else {
                continue;
            };
            file.sync_all()?;
            allocated += file.metadata()?.blocks() * STAT_BLOCK_BYTES;
        }
        let counters = fs::read_to_string("/proc/self/io")?;
        Ok(Self {
            allocated,
            dirtied: counter(&counters, "write_bytes")?,
            called: counter(&counters, "wchar")?,
        })
    }

    /// Returns the increase since `before`; shrunken files count as unchanged.
    pub fn since(self, before: Self) -> Self {
        Self {
            allocated: self.allocated.saturating_sub(before.allocated),
            dirtied: self.dirtied.saturating_sub(before.dirtied),
            called: self.called.saturating_sub(before.called),
        }
    }
}

fn counter(counters: &str, name: &str) -> Result<u64> {
    let value = counters
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find_map(|(found, value)| (found == name).then_some(value))
        .ok_or_else(|| format!("/proc/self/io has no {name}"))?;
    Ok(value.parse()?)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Some(entries) = unless_gone(fs::read_dir(dir))? else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            let Some(kind) = unless_gone(entry.file_type())? else {
                continue;
            };
            if kind.is_dir() {
                dirs.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The type of the file system that holds `dir`, as `/proc/self/mounts` has it.
pub fn file_system(dir: &Path) -> Result<String> {
    let dir = dir.canonicalize()?;
    Ok(file_system_of(
        &dir,
        &fs::read_to_string("/proc/self/mounts")?,
    ))
}

fn file_system_of(dir: &Path, mounts: &str) -> String {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(mounted, _)| dir.starts_with(mounted))
        .max_by_key(|(mounted, _)| mounted.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let counters = "rchar: 1\nwchar: 22\nwrite_bytes: 333\ncancelled_write_bytes: 4444\n";
        assert_eq!(counter(counters, "write_bytes").unwrap(), 333);
        assert_eq!(counter(counters, "wchar").unwrap(), 22);
        assert!(counter(counters, "bytes").is_err());
    }

    #[test]
    fn traffic_is_what_came_on_top() {
        let before = Traffic {
            allocated: 10,
            dirtied: 20,
            called: 30,
        };
        let after = Traffic {
            allocated: 4,
            dirtied: 25,
            called: 37,
        };
        assert_eq!(
            after.since(before),
            Traffic {
                allocated: 0,
                dirtied: 5,
                called: 7
            }
        );
    }

    #[test]
    fn files_of_every_depth_are_counted_and_holes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deeper")).unwrap();
        let before = Traffic::now(dir.path()).unwrap();
        fs::write(dir.path().join("deeper/written"), vec![7; 1 << 20]).unwrap();
        File::create(dir.path().join("sparse"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let grown = Traffic::now(dir.path()).unwrap().since(before);
        assert!((1 << 20..1 << 22).contains(&grown.allocated), "{grown:?}");
        assert!(grown.called >= 1 << 20, "{grown:?}");
    }

    #[test]
    fn the_deepest_mount_above_a_directory_is_its_file_system() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmporary xfs rw 0 0\n";
        for (dir, kind) in [("/tmp/x", "tmpfs"), ("/tmporary", "xfs"), ("/tmpx", "ext4")] {
            assert_eq!(file_system_of(Path::new(dir), mounts), kind, "{dir}");
        }
    }
}
