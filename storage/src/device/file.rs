//! A device in a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};
use parking_lot::Mutex;

use super::header::{STATIC_BYTES, StaticCopies, boot_id, read_copies, write_header};
use super::memory::{address_space, advise, base_of, check_maximum, check_range, no_staging};
use super::{Device, DeviceError, HEADER_BYTES, Header, read_state};
use allocation::{allocate, allocated_bytes, is_in_memory, punch, refused};
use staging::FileStaging;

mod allocation;
mod staging;

/// The system begins to read no more than its read-ahead at one request, and 128 KiB is the least
/// read-ahead in use.
const REQUEST_BYTES: u64 = 128 << 10;

/// A device in a file, locked as long as it is open.
///
/// A file that is open to write is locked against every other opener, one that is open to read
/// against writers. The lock is advisory: nothing keeps another program from truncating the file,
/// after which the process gets a signal when it reads the mapping beyond the new end.
///
/// # Staging
///
/// Beside the device is its staging memory, a file with the same name and `.staging` behind it.
/// After a kill it holds entries that are not in the device yet, so the two are moved and copied
/// together. A device that was closed needs no staging file; a new one is made when it is opened to
/// write.
///
/// There is staging memory only on file systems that keep what they allocate: ext4, XFS and tmpfs,
/// on Linux. Elsewhere a store into mapped memory can fail for want of space, which ends the
/// process, so every entry is written by a call. A file that a killed store left, copied from
/// elsewhere, is used all the same until the store was closed once.
#[derive(Debug)]
pub struct FileDevice {
    path: String,
    file: File,
    access: FileAccess,
    mapping: MmapRaw,
    max_bytes: u64,
    len_bytes: AtomicU64,
    extending: Mutex<()>,
    staging: Option<FileStaging>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FileAccess {
    Write,
    Read,
}

impl FileDevice {
    /// Creates the file with this header, [`HEADER_BYTES`] long, and locks it. An empty file, or
    /// one left by an interrupted creation, is taken over. The file is durable on return; costs a
    /// sync of it and of its directory. Disk space is taken for the pages of the header that are
    /// written, and for the first of the staging file, which is emptied.
    ///
    /// # Errors
    /// [`DeviceError::AlreadyExists`] if there is a file with content, [`DeviceError::Locked`],
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Full`],
    /// [`DeviceError::Io`].
    pub fn create(path: &Path, header: &Header) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        header.validate(&name)?;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(DeviceError::io(&name, "create"))?;
        // Before anything is read: another program may be creating the same file.
        lock(&file, FileAccess::Write, &name)?;
        let ([start, _], len_bytes) = read_start(&file, &name)?;
        if len_bytes > HEADER_BYTES || start? != [0; STATIC_BYTES] {
            return Err(DeviceError::AlreadyExists { path: name });
        }
        let mut device = Self::map(name, file, header.max_bytes, len_bytes)?;
        // What another device of this name left must not be taken for this one's.
        device.staging = FileStaging::open(path, true, true)?;
        device.extend(HEADER_BYTES)?;
        write_header(&device, header)?;
        device.file.sync_all().map_err(|error| {
            // The file system may have given up pages of the header: the next creation takes
            // others.
            let _ = device.file.set_len(0);
            DeviceError::io(&device.path, "sync")(error)
        })?;
        // The sync of the file keeps its content, and not its name.
        sync_directory(path).map_err(DeviceError::io(&device.path, "sync the directory of"))?;
        Ok(device)
    }

    /// Whether a device with this path was in use, by the content of its staging file.
    pub(crate) fn was_in_use(path: &Path) -> bool {
        staging::is_used(path)
    }

    /// Opens a file that was made by [`create`](Self::create), and locks it. Creates its staging
    /// file if that is missing.
    ///
    /// # Errors
    /// [`DeviceError::Locked`], [`DeviceError::NotADevice`], [`DeviceError::Truncated`],
    /// [`DeviceError::DamagedHeader`], [`DeviceError::UnsupportedVersion`],
    /// [`DeviceError::Full`], [`DeviceError::Io`], also for a staging file that cannot be read.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        Self::open_existing(path, FileAccess::Write)
    }

    /// Opens a file to read, as offline tools do: the file is not changed, other readers are let
    /// in, writers are not.
    ///
    /// Changes of the device are refused. `max_bytes` is the length of the file. If there is a
    /// staging file, the staging memory is a copy of it, which is gone with the device.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_read_only(path: &Path) -> Result<Self, DeviceError> {
        Self::open_existing(path, FileAccess::Read)
    }

    fn open_existing(path: &Path, access: FileAccess) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        let writes = access == FileAccess::Write;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(writes).open(path);
        let file = file.map_err(DeviceError::io(&name, "open"))?;
        lock(&file, access, &name)?;
        let (copies, len_bytes) = read_start(&file, &name)?;
        let header = Header::decode(copies, len_bytes, &name)?;
        let grown_bytes = if writes { header.max_bytes } else { len_bytes };
        let max_bytes = grown_bytes.min(header.max_bytes);
        let mut device = Self::map(name, file, max_bytes, len_bytes)?;
        device.access = access;
        device.staging = if writes {
            let was_closed = read_state(&device).is_some_and(|state| state.clean_close != 0);
            FileStaging::open(path, false, was_closed)?
        } else {
            FileStaging::copy(path)?
        };
        Ok(device)
    }

    /// Whether reading around a missing page would push out pages that are needed.
    fn is_larger_than_memory(&self) -> bool {
        let system = rustix::system::sysinfo();
        #[allow(clippy::useless_conversion, reason = "of 32 bits on some systems")]
        let memory = u64::from(system.totalram) * u64::from(system.mem_unit);
        self.len_bytes() > memory / 2
    }

    /// Maps a locked file for reading over its maximum size, most of which may be beyond its end.
    fn map(path: String, file: File, max_bytes: u64, len_bytes: u64) -> Result<Self, DeviceError> {
        let mapping = address_space(max_bytes)
            .and_then(|len| MmapOptions::new().len(len).map_raw_read_only(&file))
            .map_err(DeviceError::io(&path, "map"))?;
        let device = Self {
            path,
            file,
            access: FileAccess::Write,
            mapping,
            max_bytes,
            // Bytes that another program appended beyond the maximum are not the device's.
            len_bytes: AtomicU64::new(len_bytes.min(max_bytes)),
            extending: Mutex::new(()),
            staging: None,
        };
        if device.is_larger_than_memory() {
            // The neighbours of a missing page are not worth reading.
            let _ = device.mapping.advise(Advice::Random);
        }
        Ok(device)
    }

    fn check_writable(&self, action: &'static str) -> Result<(), DeviceError> {
        match self.access {
            FileAccess::Write => Ok(()),
            FileAccess::Read => Err(DeviceError::ReadOnly {
                path: self.describe(),
                action,
            }),
        }
    }

    /// Changes a range of the file, which may need disk space.
    fn change(
        &self,
        action: &'static str,
        (offset, len): (u64, u64),
        change: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), DeviceError> {
        self.check_writable(action)?;
        check_range(self, offset, len)?;
        change(&self.file).map_err(refused(&self.path, action, offset, offset + len))
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved. The
// length only rises, after the file has been extended to it, and the file is locked against others
// that could shorten it. The staging memory is a mapping of STAGING_BYTES, over a file of that
// length.
unsafe impl Device for FileDevice {
    fn base(&self) -> NonNull<u8> {
        base_of(&self.mapping)
    }

    fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    fn extend(&self, wanted_bytes: u64) -> Result<(), DeviceError> {
        self.check_writable("extend")?;
        check_maximum(self, wanted_bytes)?;
        // Setting a length can shorten, too: of two extensions the shorter one must not come last.
        let _one_at_a_time = self.extending.lock();
        let len_bytes = self.len_bytes();
        if wanted_bytes <= len_bytes {
            return Ok(());
        }
        self.file.set_len(wanted_bytes).map_err(refused(
            &self.path,
            "extend",
            len_bytes,
            wanted_bytes,
        ))?;
        // Behind the file: a look at the mapping beyond the file's end would end the process.
        self.len_bytes.store(wanted_bytes, Ordering::Release);
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.change("reserve space of", (offset, len), |file| {
            allocate(file, offset, len)
        })
    }

    fn release(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.change("release space of", (offset, len), |file| {
            punch(file, offset, len)
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.change("write", (offset, bytes.len() as u64), |file| {
            file.write_all_at(bytes, offset)
        })
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, offset, into.len() as u64)?;
        self.file
            .read_exact_at(into, offset)
            .map_err(DeviceError::io(&self.path, "read"))
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.check_writable("sync")?;
        // Covers the bytes written, the length of the file, and its extents.
        self.file
            .sync_data()
            .map_err(DeviceError::io(&self.path, "sync"))
    }

    fn populate(&self, offset: u64, len: u64) {
        let range = (offset, len);
        advise(&self.mapping, Advice::PopulateRead, self.len_bytes(), range);
    }

    fn prepare(&self, offset: u64, len: u64) {
        // There a read of bytes never written takes memory for good.
        if is_in_memory(&self.file) {
            return;
        }
        let len = len.min(self.len_bytes().saturating_sub(offset));
        if len == 0 {
            return;
        }
        // A mapping of its own for the moment: with this advice on the device's, a read of a page
        // that is not in memory would bring in 2 MiB.
        let mut options = MmapOptions::new();
        if let Ok(large) = options
            .offset(offset)
            .len(len as usize)
            .map_raw_read_only(&self.file)
        {
            // The latter lest it bring in more than was asked for.
            let _ = large.advise(Advice::HugePage);
            let _ = large.advise(Advice::Random);
            advise(&large, Advice::PopulateRead, len, (0, len));
        }
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len_bytes());
        let mut at = offset;
        while at < end {
            let request = (at, REQUEST_BYTES);
            advise(&self.mapping, Advice::WillNeed, end, request);
            at += REQUEST_BYTES;
        }
    }

    fn staging(&self) -> Option<NonNull<u8>> {
        self.staging.as_ref().map(FileStaging::base)
    }

    fn may_be_staged(&self, offset: u64, len: u64) -> bool {
        let staging = self.staging.as_ref();
        staging.is_some_and(|staging| staging.may_hold_data(offset, len))
    }

    fn reserve_staging(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        match &self.staging {
            Some(staging) => staging.reserve(offset, len),
            None => Err(no_staging(self)),
        }
    }

    fn allocated_bytes(&self) -> u64 {
        let staging = self
            .staging
            .as_ref()
            .map_or(0, FileStaging::allocated_bytes);
        allocated_bytes(&self.file) + staging
    }

    fn boot(&self) -> u64 {
        // A copy of the file has an inode of its own.
        let of_file = |file: std::fs::Metadata| file.ino().rotate_left(24) ^ file.dev();
        match (boot_id(), self.file.metadata().map(of_file)) {
            (0, _) | (_, Err(_)) => 0,
            (boot, Ok(file)) => (boot ^ file).max(1),
        }
    }

    fn describe(&self) -> String {
        self.path.clone()
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        // Closing the file would do, were it not for processes that are being started at this
        // moment: until they run their program, they share the open file, and with it the lock.
        let _ = self.file.unlock();
    }
}

fn lock(file: &File, access: FileAccess, path: &str) -> Result<(), DeviceError> {
    let locked = match access {
        // A second opener is refused at once, and does not wait for the first.
        FileAccess::Write => file.try_lock(),
        FileAccess::Read => file.try_lock_shared(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => DeviceError::Locked {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => DeviceError::io(path, "lock")(source),
    })
}

/// Reads both copies of the static header, and the length of the file.
fn read_start(file: &File, path: &str) -> Result<(StaticCopies, u64), DeviceError> {
    let metadata = file.metadata().map_err(DeviceError::io(path, "look at"))?;
    if !metadata.is_file() {
        let found = "it is not a regular file";
        return Err(DeviceError::NotADevice {
            path: path.to_owned(),
            found,
        });
    }
    let copies = read_copies(metadata.len(), |offset, into| {
        file.read_exact_at(into, offset)
            .map_err(DeviceError::io(path, "read"))
    });
    Ok((copies, metadata.len()))
}

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
