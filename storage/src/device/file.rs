//! A device in a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;
#[cfg(target_os = "linux")]
use rustix::fs::{Advice, fadvise};
use rustix::fs::{FallocateFlags, fallocate};
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;

use super::header::{STATIC_BYTES, write_header};
use super::memory::{address_space, base_of, check_maximum, populate};
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header, ReadPattern};

/// What one write of zeros holds, where the file system cannot allocate.
const ZEROS_BYTES: usize = 1 << 20;

/// The pages of the file in the system's memory.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 4096;

/// The system begins to read no more than its read-ahead at one request, and 128 KiB is the least of those in use.
const REQUEST_BYTES: u64 = 128 << 10;

/// A device in a file, locked as long as it is open.
///
/// A file that is open to write is locked against every other opener, one that is open to read against writers. The
/// lock is advisory: nothing keeps another program from truncating the file, after which the process gets a signal.
#[derive(Debug)]
pub struct FileDevice {
    path: String,
    file: File,
    access: Access,
    mapping: MmapRaw,
    max_bytes: u64,
    len_bytes: AtomicU64,
    growing: Mutex<()>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Write,
    Read,
}

impl FileDevice {
    /// Creates the file with this header, [`HEADER_BYTES`] long, and locks it. An empty file, or one whose creation
    /// was interrupted, is taken over. The file is durable on return; costs a sync of it and of its directory.
    ///
    /// # Errors
    /// [`DeviceError::AlreadyExists`] if there is a file with content, [`DeviceError::Locked`],
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Full`], [`DeviceError::Io`].
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
        lock(&file, Access::Write, &name)?;
        let (start, len_bytes) = read_start(&file, &name)?;
        if len_bytes > HEADER_BYTES || start.iter().any(|byte| *byte != 0) {
            return Err(DeviceError::AlreadyExists { path: name });
        }
        let device = Self::map(name, file, header.max_bytes, len_bytes)?;
        device.grow(HEADER_BYTES)?;
        write_header(&device, header)?;
        device.sync()?;
        sync_directory(path).map_err(DeviceError::io(&device.path, "sync the directory of"))?;
        Ok(device)
    }

    /// Opens a file that was made by [`create`](Self::create), and locks it. Holes in it, as a sparse copy has them,
    /// are allocated.
    ///
    /// # Errors
    /// [`DeviceError::Locked`], [`DeviceError::NotADevice`], [`DeviceError::Truncated`],
    /// [`DeviceError::DamagedHeader`], [`DeviceError::UnsupportedVersion`], [`DeviceError::Full`],
    /// [`DeviceError::Io`].
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .open(path)
            .map_err(DeviceError::io(&name, "open"))?;
        lock(&file, Access::Write, &name)?;
        let (start, len_bytes) = read_start(&file, &name)?;
        let header = Header::decode(&start, len_bytes, &name)?;
        fill_holes(&file, len_bytes)
            .map_err(|source| refused(source, &name, len_bytes, len_bytes))?;
        Self::map(name, file, header.max_bytes, len_bytes)
    }

    /// Opens a file to read, as offline tools do: the file is not changed, other readers are let in, writers are not.
    ///
    /// What is stored into the memory is seen by this device alone and is gone with it; `grow` and `sync` are refused.
    /// `max_bytes` is the length of the file.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_read_only(path: &Path) -> Result<Self, DeviceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(DeviceError::io(&name, "open"))?;
        lock(&file, Access::Read, &name)?;
        let (start, len_bytes) = read_start(&file, &name)?;
        let header = Header::decode(&start, len_bytes, &name)?;
        let len_bytes = len_bytes.min(header.max_bytes);
        let mapping = address_space(len_bytes)
            .and_then(|len| {
                // SAFETY: the file is locked against writers of this crate, and the mapping is used by raw pointers
                // alone.
                unsafe {
                    MmapOptions::new()
                        .len(len)
                        .no_reserve_swap()
                        .map_copy(&file)
                }
            })
            .map_err(DeviceError::io(&name, "map"))?;
        let device = Self {
            path: name,
            file,
            access: Access::Read,
            mapping: mapping.into(),
            max_bytes: len_bytes,
            len_bytes: AtomicU64::new(len_bytes),
            growing: Mutex::new(()),
        };
        device.expect_reads(ReadPattern::Scattered);
        Ok(device)
    }

    /// Whether what is read around a missing page would push out what is needed.
    fn is_larger_than_memory(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            let system = rustix::system::sysinfo();
            #[allow(clippy::useless_conversion, reason = "of 32 bits on some systems")]
            let memory = u64::from(system.totalram) * u64::from(system.mem_unit);
            self.len_bytes() > memory / 2
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Maps a locked file over its maximum size, most of which may lie beyond its end.
    fn map(path: String, file: File, max_bytes: u64, len_bytes: u64) -> Result<Self, DeviceError> {
        let mapping = address_space(max_bytes)
            .and_then(|len| MmapOptions::new().len(len).map_raw(&file))
            .map_err(DeviceError::io(&path, "map"))?;
        // What somebody appended beyond the maximum is not the device's.
        let len_bytes = AtomicU64::new(len_bytes.min(max_bytes));
        let growing = Mutex::new(());
        let device = Self {
            path,
            file,
            access: Access::Write,
            mapping,
            max_bytes,
            len_bytes,
            growing,
        };
        device.expect_reads(ReadPattern::Scattered);
        Ok(device)
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved. The length only rises, after
// the file has been extended to it, and the file is locked against others that could shorten it.
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

    fn grow(&self, wanted_bytes: u64) -> Result<(), DeviceError> {
        if self.access == Access::Read {
            return Err(DeviceError::ReadOnly {
                path: self.describe(),
                action: "grow",
            });
        }
        check_maximum(self, wanted_bytes)?;
        let _one_at_a_time = self.growing.lock();
        let len_bytes = self.len_bytes();
        if wanted_bytes <= len_bytes {
            return Ok(());
        }
        if let Err(source) = extend(&self.file, len_bytes, wanted_bytes) {
            // What was allocated before the disk was full goes back; if that fails too, the next growth finds it.
            let _ = self.file.set_len(len_bytes);
            return Err(refused(source, &self.path, len_bytes, wanted_bytes));
        }
        self.len_bytes.store(wanted_bytes, Ordering::Release);
        Ok(())
    }

    fn populate(&self, offset: u64, len: u64) {
        // A page of a read-only device would become a copy of its own.
        if self.access == Access::Write {
            populate(&self.mapping, self.len_bytes(), offset, len);
        }
    }

    fn expect_reads(&self, pattern: ReadPattern) {
        let advice = match pattern {
            ReadPattern::Scattered if self.is_larger_than_memory() => memmap2::Advice::Random,
            // What lies around a page will be asked for soon, too, and can stay.
            ReadPattern::Scattered => memmap2::Advice::Normal,
            // Not `Sequential`, with which less is read at once and what was read is let go: half as quick.
            ReadPattern::InOrder => memmap2::Advice::Normal,
        };
        let _ = self.mapping.advise(advice);
    }

    fn peek(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let read = self.file.read_exact_at(bytes, offset).is_ok();
        #[cfg(target_os = "linux")]
        {
            let page = offset / PAGE_BYTES * PAGE_BYTES;
            let len = (offset + bytes.len() as u64 - page).next_multiple_of(PAGE_BYTES);
            // Lets pages go that were read alone: not those of larger pieces, nor mapped or changed ones.
            let _ = fadvise(&self.file, page, NonZeroU64::new(len), Advice::DontNeed);
        }
        read
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len_bytes());
        let mut at = offset;
        while at < end {
            let bytes = (end - at).min(REQUEST_BYTES);
            let _ =
                self.mapping
                    .advise_range(memmap2::Advice::WillNeed, at as usize, bytes as usize);
            at += bytes;
        }
    }

    fn sync(&self) -> Result<(), DeviceError> {
        if self.access == Access::Read {
            return Err(DeviceError::ReadOnly {
                path: self.describe(),
                action: "sync",
            });
        }
        // Covers the dirty pages of the mapping and the length of the file.
        self.file
            .sync_data()
            .map_err(DeviceError::io(&self.path, "sync"))
    }

    fn describe(&self) -> String {
        self.path.clone()
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        // Closing the file would do, were it not for processes that are being started at this moment: until they run
        // their program, they share the open file, and with it the lock.
        let _ = self.file.unlock();
    }
}

fn lock(file: &File, access: Access, path: &str) -> Result<(), DeviceError> {
    let locked = match access {
        Access::Write => file.try_lock(),
        Access::Read => file.try_lock_shared(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => DeviceError::Locked {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => DeviceError::Io {
            path: path.to_owned(),
            action: "lock",
            source,
        },
    })
}

/// The first bytes of the file, zero where it is shorter, and its length.
fn read_start(file: &File, path: &str) -> Result<([u8; STATIC_BYTES], u64), DeviceError> {
    let metadata = file.metadata().map_err(DeviceError::io(path, "look at"))?;
    if !metadata.is_file() {
        let found = "it is not a regular file";
        return Err(DeviceError::NotADevice {
            path: path.to_owned(),
            found,
        });
    }
    let mut read = Vec::with_capacity(STATIC_BYTES);
    file.take(STATIC_BYTES as u64)
        .read_to_end(&mut read)
        .map_err(DeviceError::io(path, "read"))?;
    let mut start = [0; STATIC_BYTES];
    start.iter_mut().zip(read).for_each(|(to, from)| *to = from);
    Ok((start, metadata.len()))
}

/// Extends the file from `from` to `to` bytes, with disk space behind every one.
fn extend(file: &File, from: u64, to: u64) -> io::Result<()> {
    match allocate(file, from, to) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            let zeros = vec![0; ZEROS_BYTES];
            let mut at = from;
            while at < to {
                let len = (to - at).min(ZEROS_BYTES as u64);
                file.write_all_at(zeros.get(..len as usize).unwrap_or(&zeros), at)?;
                at += len;
            }
            Ok(())
        }
        done => done,
    }
}

/// Gives disk space to the holes of a file, into which a store could otherwise fail.
fn fill_holes(file: &File, len_bytes: u64) -> io::Result<()> {
    // `blocks` counts 512 bytes whatever the file system.
    if file.metadata()?.blocks() * 512 >= len_bytes {
        return Ok(());
    }
    match allocate(file, 0, len_bytes) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        done => done,
    }
}

fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    let allocate = || fallocate(file, FallocateFlags::empty(), from, to - from);
    Ok(rustix::io::retry_on_intr(allocate)?)
}

/// The error of an allocation.
fn refused(source: io::Error, path: &str, len_bytes: u64, wanted_bytes: u64) -> DeviceError {
    let path = path.to_owned();
    let cause = match source.kind() {
        io::ErrorKind::StorageFull => FullCause::Disk,
        io::ErrorKind::QuotaExceeded => FullCause::Quota,
        _ => {
            return DeviceError::Io {
                path,
                action: "allocate space for",
                source,
            };
        }
    };
    DeviceError::Full {
        path,
        len_bytes,
        wanted_bytes,
        cause,
    }
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
