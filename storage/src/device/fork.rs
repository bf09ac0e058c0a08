//! Distinguishes the child of a fork from the process that opened a store.
//!
//! Both share the device, its lock and the staging memory; a child that wrote would overwrite what
//! the parent writes.

use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Knows the process in which it was made.
///
/// Where the kernel can (Linux from 4.14 on), a word of memory that a fork wipes in the child is
/// read; elsewhere process ids are compared, which is a call of the system.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    wiped_by_fork: Option<MmapRaw>,
    process: u32,
}

impl ForkGuard {
    /// Takes the present process for the parent. Costs a page of memory.
    pub(crate) fn new() -> Self {
        Self {
            wiped_by_fork: map_wiped_by_fork(),
            process: std::process::id(),
        }
    }

    /// Returns whether this is another process than the one in which the guard was made, hence a
    /// fork of it.
    #[inline]
    pub(crate) fn is_child(&self) -> bool {
        if let Some(page) = &self.wiped_by_fork {
            // No thread stores here after `new`, so no order is needed.
            return mark(page).load(Ordering::Relaxed) == 0;
        }
        self.process != std::process::id()
    }
}

/// Maps a page that begins with a word other than 0, which is 0 in the child of a fork. `None` if
/// the kernel does not know how.
fn map_wiped_by_fork() -> Option<MmapRaw> {
    const PAGE_BYTES: usize = 4096;
    let page: MmapRaw = MmapOptions::new().len(PAGE_BYTES).map_anon().ok()?.into();
    // SAFETY: the range is the mapping just made, and no other thread has it; the advice has an
    // effect in children alone.
    let advised = unsafe {
        rustix::mm::madvise(
            page.as_mut_ptr().cast(),
            page.len(),
            rustix::mm::Advice::LinuxWipeOnFork,
        )
    };
    advised.ok()?;
    mark(&page).store(1, Ordering::Relaxed);
    Some(page)
}

#[inline]
fn mark(page: &MmapRaw) -> &AtomicU32 {
    // SAFETY: a mapping is aligned to pages, at least one page long, and lives as long as `page`;
    // its first word is touched through this function alone.
    unsafe { AtomicU32::from_ptr(page.as_mut_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::ForkGuard;

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }

    /// What `check` returns in the child of a fork.
    fn in_child(check: impl Fn() -> bool) -> bool {
        // SAFETY: the child calls `check`, which reads memory and asks for the process id, and
        // `_exit`: all of it may be done after a fork of a process with several threads.
        let child = unsafe { fork() };
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let status = i32::from(check());
            // SAFETY: ends the child at once.
            unsafe { _exit(status) };
        }
        let mut status = -1;
        // SAFETY: `status` is valid for a write.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status & 0x7f, 0, "the child was killed");
        status >> 8 != 0
    }

    #[test]
    fn a_child_is_known_for_one_and_the_parent_is_not() {
        let guard = ForkGuard::new();
        assert!(!guard.is_child());
        assert!(in_child(|| guard.is_child()));
        assert!(!guard.is_child(), "the parent, after the fork");
        assert!(in_child(|| guard.is_child()), "the second child");
    }

    #[test]
    fn process_ids_are_compared_where_the_kernel_wipes_nothing() {
        let guard = ForkGuard {
            wiped_by_fork: None,
            process: std::process::id(),
        };
        assert!(!guard.is_child());
        assert!(in_child(|| guard.is_child()));
    }
}
