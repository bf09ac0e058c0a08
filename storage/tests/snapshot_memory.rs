//! An opening from a snapshot takes the memory of the index and a bounded buffer, however large the
//! snapshot is. Counted by the allocator, so this file has one test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{digest, files, get, options, put};
use spikelet_storage::Namespace;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts allocated bytes, and their maximum.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is; only numbers are added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: allocated by `alloc` above with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BLOCKS: u64 = 32;
const RECORDS: u64 = 600_000;

#[test]
fn a_snapshot_is_read_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let (namespace, _) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
    for record in 0..RECORDS {
        put(&namespace, &digest(record), &record.to_le_bytes()).unwrap();
    }
    namespace.close().unwrap();
    drop(namespace);
    let snapshot = dir.path().join("index.snapshot").metadata().unwrap().len() as usize;
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let (namespace, opening) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
    assert!(opening.from_snapshot, "{opening:?}");
    let most = MOST.load(Ordering::Relaxed) - before;
    let kept = NOW.load(Ordering::Relaxed) - before;
    let index = namespace.stats().index_bytes as usize;
    println!("snapshot {snapshot}, index {index}, kept {kept}, at most {most} bytes");
    // Tables may be outside of the heap. The heap's maximum less the bytes that stay is the need of
    // the reading.
    assert!(snapshot > 9 << 20, "{snapshot}");
    assert!(most - kept < 4 << 20, "{most} at most, {kept} kept");
    let last = get(&namespace, &digest(RECORDS - 1)).unwrap();
    assert_eq!(last, Some((RECORDS - 1).to_le_bytes().to_vec()));
}
