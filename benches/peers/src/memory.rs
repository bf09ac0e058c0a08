//! Memory of this process: a store's memory besides files and their pages.

use crate::Result;
use std::fs;

/// Bytes of anonymous memory: heaps and private mappings. Pages of mapped files are not in it.
pub fn anonymous_bytes() -> Result<u64> {
    let usage = fs::read_to_string("/proc/self/smaps_rollup")?;
    let kib = usage
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:")?.trim().strip_suffix(" kB"))
        .ok_or("/proc/self/smaps_rollup does not tell anonymous memory")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// Gives freed memory of the heap back to the system, so that the next store's growth is its own.
pub fn give_back() {
    // SAFETY: no preconditions; the allocator locks its own arenas.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_written_to_counts_and_freed_memory_does_not() {
        // Far more than what other tests take meanwhile.
        const BYTES: usize = 128 << 20;
        let before = anonymous_bytes().unwrap();
        let held = std::hint::black_box(vec![1_u8; BYTES]);
        let with = anonymous_bytes().unwrap();
        assert!(
            with.saturating_sub(before) >= BYTES as u64 / 2,
            "{before} {with}"
        );
        drop(held);
        give_back();
        let without = anonymous_bytes().unwrap();
        assert!(
            with.saturating_sub(without) >= BYTES as u64 / 2,
            "{with} {without}"
        );
    }
}
