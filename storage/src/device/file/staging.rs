//! The staging memory of a device in a file: a file of its own, mapped shared.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};

use super::super::memory::{base_of, map_anonymous};
use super::super::{DeviceError, STAGING_BYTES};
use super::allocation::{allocate, allocated_bytes, keeps_allocations, refused};

/// The size of a read.
const READ_BYTES: usize = 64 << 10;

/// Memory of [`STAGING_BYTES`].
#[derive(Debug)]
pub(super) struct FileStaging {
    /// The path of the file.
    path: String,
    /// The file that the memory maps, or `None` for a copy of it.
    file: Option<File>,
    memory: MmapRaw,
}

impl FileStaging {
    /// Opens the staging file, and creates it if it is missing. `None` if stores into its memory
    /// could fail.
    ///
    /// That of a new device (`is_new`) is emptied. After `was_closed` its content is not needed,
    /// and it may be.
    pub(super) fn open(
        device: &Path,
        is_new: bool,
        was_closed: bool,
    ) -> Result<Option<Self>, DeviceError> {
        let path = path_of(device)?;
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(is_new)
            .open(&path)
            .map_err(refused(&name, "open", 0, STAGING_BYTES))?;
        let metadata = file.metadata().map_err(DeviceError::io(&name, "look at"))?;
        if !metadata.is_file() {
            return Err(DeviceError::NotADevice {
                path: name,
                found: "its staging file is not a regular file",
            });
        }
        // The entries that a killed store has left count on any file system: only a file without
        // any goes.
        if (metadata.len() == 0 || was_closed) && !keeps_allocations(&file) {
            let _ = std::fs::remove_file(&path);
            return Ok(None);
        }
        if metadata.len() < STAGING_BYTES {
            // A hole: the disk space comes with `reserve`.
            file.set_len(STAGING_BYTES)
                .map_err(refused(&name, "extend", 0, STAGING_BYTES))?;
        }
        // A sector that cannot be read is to be an error here, not a signal later.
        for_each_data(&file, |_, _| ()).map_err(DeviceError::io(&name, "read"))?;
        let memory = MmapOptions::new()
            .len(STAGING_BYTES as usize)
            .map_raw(&file)
            .map_err(DeviceError::io(&name, "map"))?;
        Ok(Some(Self {
            path: name,
            file: Some(file),
            memory,
        }))
    }

    /// Copies the staging file into memory of this process. `None` if there is no such file.
    pub(super) fn copy(device: &Path) -> Result<Option<Self>, DeviceError> {
        let path = path_of(device)?;
        let name = path.display().to_string();
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(DeviceError::io(&name, "open"))?,
        };
        let memory =
            map_anonymous(STAGING_BYTES).map_err(DeviceError::io(&name, "take memory for"))?;
        for_each_data(&file, |at, bytes| {
            // SAFETY: `for_each_data` gives ranges inside of STAGING_BYTES, which the mapping
            // covers, and no other thread has the mapping yet.
            unsafe {
                let to = base_of(&memory).add(at as usize);
                to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            }
        })
        .map_err(DeviceError::io(&name, "read"))?;
        Ok(Some(Self {
            path: name,
            file: None,
            memory,
        }))
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        base_of(&self.memory)
    }

    /// Returns whether a range is more than a hole.
    pub(super) fn may_hold_data(&self, offset: u64, len: u64) -> bool {
        let Some(file) = &self.file else {
            return true;
        };
        match next_data(file, offset) {
            Ok(start) => start.is_some_and(|start| start < offset.saturating_add(len)),
            Err(_) => true,
        }
    }

    /// Puts disk space behind a range and makes it resident and writable. A copy needs neither.
    pub(super) fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let end = match offset.checked_add(len) {
            Some(end) if end <= STAGING_BYTES => end,
            _ => {
                let source = io::ErrorKind::InvalidInput.into();
                return Err(DeviceError::io(&self.path, "reserve space of")(source));
            }
        };
        let (Some(file), 1..) = (&self.file, len) else {
            return Ok(());
        };
        // Before the pages are touched: one without space would end the process.
        allocate(file, offset, len).map_err(refused(
            &self.path,
            "reserve space of",
            offset,
            end,
        ))?;
        match self.memory.advise_range(
            memmap2::Advice::PopulateWrite,
            offset as usize,
            len as usize,
        ) {
            // Kernels before 5.14 do not know the advice: stores fault there, but have their space.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                return Err(refused(&self.path, "make resident", offset, end)(error));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, allocated_bytes)
    }
}

/// Returns the path of a device's staging file: beside the file itself, by any link that
/// was named.
fn path_of(device: &Path) -> Result<PathBuf, DeviceError> {
    let name = device.display().to_string();
    let real = std::fs::canonicalize(device);
    let real = real.map_err(DeviceError::io(&name, "find the staging file of"))?;
    let mut path: OsString = real.into();
    path.push(".staging");
    Ok(path.into())
}

/// Whether the staging file of a device holds anything, or cannot be read.
pub(super) fn is_used(device: &Path) -> bool {
    let file = match path_of(device).map(File::open) {
        Ok(Ok(file)) => file,
        Ok(Err(error)) => return error.kind() != io::ErrorKind::NotFound,
        Err(_) => return true,
    };
    let mut is_used = false;
    let look = |_, bytes: &[u8]| is_used |= bytes.iter().any(|byte| *byte != 0);
    let read = for_each_data(&file, look);
    // An unreadable file may hold entries: its device must not be made anew.
    is_used || read.is_err()
}

/// Reads the file up to [`STAGING_BYTES`], holes left out, and gives each piece with its
/// offset.
fn for_each_data(file: &File, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while let Some(start) = next_data(file, at)?.filter(|start| *start < STAGING_BYTES) {
        let wanted = (STAGING_BYTES - start).min(READ_BYTES as u64) as usize;
        let (into, _) = buffer.split_at_mut(wanted);
        let read = match file.read_at(into, start) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            break;
        }
        let (bytes, _) = buffer.split_at(read);
        take(start, bytes);
        at = start + read as u64;
    }
    Ok(())
}

/// Finds the first byte from `at` on that is not in a hole. `None` if there is none.
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => Ok(Some(start)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // A file system without holes.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
