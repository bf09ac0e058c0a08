//! Where the words of tables come from.

use super::slot::EMPTY;
use super::table::TableShape;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Tables begin on cache lines: the line is what a probe costs. Small ones begin where the
/// allocator likes: a line more is cheap where all of the index is in the processor's caches, and
/// the waste of rounding is not.
const ALIGN: usize = 64;
const ALIGN_OF_SMALL: usize = 16;
/// Tables with fewer words are small.
const SMALL_WORDS: usize = 64;

/// What an allocator adds to a block: its header and the rounding, about.
const fn overhead_bytes(layout: Layout) -> u64 {
    if layout.align() == ALIGN { 48 } else { 16 }
}

/// The words of one table, owned until they are given back.
#[derive(Debug)]
pub(super) struct Block {
    words: NonNull<AtomicU64>,
    length: usize,
}

// SAFETY: a block is plain memory that only its owner gives back; the words in it are atomics.
unsafe impl Send for Block {}

impl Block {
    /// Of a block that was taken apart by `as_ptr` and `len`.
    ///
    /// # Safety
    /// The parts come from one block, and that is not used again.
    pub(super) unsafe fn from_parts(words: NonNull<AtomicU64>, length: usize) -> Self {
        Self { words, length }
    }

    pub(super) const fn as_ptr(&self) -> NonNull<AtomicU64> {
        self.words
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `take` wrote all the words, and they live as long as the block.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }
}

/// The memory of all tables of an index, counted.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: AtomicU64,
    nothing: [AtomicU64; TableShape::NOTHING.words()],
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            nothing: std::array::from_fn(|_| AtomicU64::new(EMPTY)),
        }
    }
}

impl Memory {
    /// The words of a table that holds nothing and never will, for all partitions that have none of
    /// their own.
    pub(super) fn nothing(&self) -> NonNull<AtomicU64> {
        NonNull::from(&self.nothing).cast()
    }

    /// `length` words, each `fill`.
    pub(super) fn take(&self, length: usize, fill: u64) -> Block {
        let layout = layout(length);
        // SAFETY: a table has at least one word, so the layout is not empty.
        let Some(words) = NonNull::new(unsafe { alloc(layout) }.cast::<AtomicU64>()) else {
            handle_alloc_error(layout)
        };
        for at in 0..length {
            // SAFETY: `at` is inside the allocation, and no other thread has it yet.
            unsafe { words.add(at).write(AtomicU64::new(fill)) };
        }
        self.bytes.fetch_add(
            layout.size() as u64 + overhead_bytes(layout),
            Ordering::Relaxed,
        );
        Block { words, length }
    }

    pub(super) fn give_back(&self, block: Block) {
        let layout = layout(block.length);
        self.bytes.fetch_sub(
            layout.size() as u64 + overhead_bytes(layout),
            Ordering::Relaxed,
        );
        // In the model a thread that wrongly still looks here sees holes, and a test fails, where
        // memory would look unchanged.
        #[cfg(shuttle)]
        block
            .words()
            .iter()
            .for_each(|word| word.store(EMPTY, Ordering::SeqCst));
        for at in 0..block.length {
            // SAFETY: `take` wrote every word; the owner gave the block away, so no thread looks at
            // them.
            unsafe { block.words.add(at).drop_in_place() };
        }
        // SAFETY: allocated by `take` with this layout.
        unsafe { dealloc(block.words.as_ptr().cast(), layout) };
    }

    /// The memory taken and not given back, with the allocator's share.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn layout(length: usize) -> Layout {
    let align = if length < SMALL_WORDS {
        ALIGN_OF_SMALL
    } else {
        ALIGN
    };
    Layout::array::<AtomicU64>(length)
        .and_then(|layout| layout.align_to(align))
        .unwrap_or_else(|_| handle_alloc_error(Layout::new::<u64>()))
}
