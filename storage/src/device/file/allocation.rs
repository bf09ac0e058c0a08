//! Disk space behind a file: taken, counted, and refused.

use crate::device::{DeviceError, FullCause};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Puts disk space behind a range; does nothing where the file system cannot.
pub(super) fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    let allocate = || fallocate(file, FallocateFlags::empty(), offset, len);
    ok_if_unsupported(rustix::io::retry_on_intr(allocate))
}

/// Returns the disk space that a file takes, in bytes; 0 if the system does not tell.
pub(super) fn allocated_bytes(file: &File) -> u64 {
    // `blocks` counts 512 bytes whatever the file system.
    file.metadata()
        .map_or(0, |metadata| metadata.blocks() * 512)
}

/// For `map_err`: the error of what may need disk space for the bytes `from..to`.
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

pub(super) fn ok_if_unsupported(done: rustix::io::Result<()>) -> io::Result<()> {
    match done {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

/// Whether the file system keeps its files in memory (`tmpfs`).
pub(super) fn is_in_memory(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        /// As `statfs` of Linux tells it.
        const TMPFS_MAGIC: i64 = 0x0102_1994;
        #[allow(clippy::unnecessary_cast, reason = "of other width on some systems")]
        rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as i64 == TMPFS_MAGIC)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}
