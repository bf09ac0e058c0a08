//! Disk space behind a file: taken, counted, and refused.

use crate::device::{DeviceError, FullCause};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Puts disk space behind a range; does nothing where the file system cannot.
pub(super) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    change_space(file, FallocateFlags::empty(), offset, len)
}

/// Gives the disk space of a range back; does nothing where the file system cannot.
pub(super) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // The system refuses the first flag without the other.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    change_space(file, flags, offset, len)
}

fn change_space(file: &File, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    let done = rustix::io::retry_on_intr(|| fallocate(file, flags, offset, len));
    if is_unsupported(&done) {
        Ok(())
    } else {
        Ok(done?)
    }
}

/// Returns the disk space that a file takes, in bytes; 0 if the system does not say.
pub(super) fn allocated_bytes(file: &File) -> u64 {
    // `blocks` counts 512 bytes on any file system.
    file.metadata()
        .map_or(0, |metadata| metadata.blocks() * 512)
}

/// For `map_err`: the error of a call that may need disk space for the bytes `from..to`.
pub(super) fn refused(
    path: &str,
    action: &'static str,
    from: u64,
    to: u64,
) -> impl FnOnce(io::Error) -> DeviceError {
    move |source| {
        let cause = match source.kind() {
            io::ErrorKind::StorageFull => FullCause::Disk,
            io::ErrorKind::QuotaExceeded => FullCause::Quota,
            _ => return DeviceError::io(path, action)(source),
        };
        DeviceError::Full {
            path: path.to_owned(),
            len_bytes: from,
            wanted_bytes: to,
            cause,
        }
    }
}

fn is_unsupported(done: &rustix::io::Result<()>) -> bool {
    use rustix::io::Errno;
    matches!(done, Err(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// File systems as `statfs` of Linux names them.
mod kinds {
    /// ext4, also of files without extents, which refuse to allocate.
    pub(super) const EXT4: u32 = 0xef53;
    pub(super) const XFS: u32 = 0x5846_5342;
    pub(super) const TMPFS: u32 = 0x0102_1994;
}

fn kind_of(file: &File) -> Option<u32> {
    // Only the low 32 bits are the same on all machines.
    rustix::fs::fstatfs(file)
        .ok()
        .map(|found| found.f_type as u32)
}

/// Whether the file system keeps its files in memory (`tmpfs`).
pub(super) fn is_in_memory(file: &File) -> bool {
    kind_of(file) == Some(kinds::TMPFS)
}

/// Whether the allocated space of a file stays its own: a store into a mapping of it then finds
/// space, however full the disk is. A list, since no system says so. Others write a page to new
/// space each time (btrfs, ZFS, bcachefs, F2FS), find out when they write back (NFS, FUSE), or
/// depend on the file system below (overlays).
pub(super) fn keeps_allocations(file: &File) -> bool {
    /// As little as a mapping can touch.
    const PROBE_BYTES: u64 = 4096;
    let is_listed =
        kind_of(file).is_some_and(|kind| [kinds::EXT4, kinds::XFS, kinds::TMPFS].contains(&kind));
    let probe = || fallocate(file, FallocateFlags::KEEP_SIZE, 0, PROBE_BYTES);
    is_listed && !is_unsupported(&rustix::io::retry_on_intr(probe))
}
