//! A partition: its table, the lock of its writers, and how readers get by without one.

use super::memory::{Block, Memory};
use super::slot::{Candidate, EMPTY, IndexSlot, tag_of};
use super::table::{Table, TableShape};
use crate::bytes::prefetch;
use crate::epoch::{self, Guard};
use crate::location::Location;
use crate::lock::HeldLocks;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, hint};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// How often a reader looks again beside busy writers before it takes their lock.
const LOOKS_MAX: usize = 64;

/// 1/4096 of the records. One cache line, so that a probe costs one line here.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Partition {
    /// The first word of the table's block; null for the moment in which block and shape change.
    words: AtomicPtr<AtomicU64>,
    shape: AtomicU64,
    /// Counts removals twice: odd while records move towards their homes.
    removals: AtomicU32,
    records: AtomicU32,
    /// The lock of the partition's writers, around the record locks.
    held: Mutex<HeldLocks>,
}

impl Partition {
    pub(super) fn new(memory: &Memory) -> Self {
        Self {
            words: AtomicPtr::new(memory.nothing().as_ptr()),
            shape: AtomicU64::new(TableShape::NOTHING.pack()),
            removals: AtomicU32::new(0),
            records: AtomicU32::new(0),
            held: Mutex::new(HeldLocks::default()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.records.load(Ordering::Relaxed) as usize
    }

    /// The table; none while it is being exchanged. The guard keeps its block alive.
    #[inline]
    fn table<'a>(&'a self, _guard: &'a Guard) -> Option<Table<'a>> {
        let words = self.words.load(Ordering::Acquire);
        let shape = TableShape::unpack(self.shape.load(Ordering::Acquire));
        // A writer that exchanges the table stores null before the new shape: still the same block,
        // so the shape is its own. The same address does not come back meanwhile, since the guard
        // keeps the block from being freed.
        if words.is_null() || words != self.words.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the block has this shape, all its words were written before its address was, and
        // the guard, pinned before the address was loaded, keeps it from being given back.
        let words = unsafe { std::slice::from_raw_parts(words, shape.words()) };
        Some(Table::new(words, shape))
    }

    #[inline]
    pub(super) fn probe(&self, tag: u32) -> Probe<'_> {
        let partition = self;
        Probe { partition, tag }
    }

    pub(super) fn lock<'a>(&'a self, memory: &'a Arc<Memory>) -> PartitionGuard<'a> {
        PartitionGuard {
            partition: self,
            held: self.held.lock(),
            retired: Retired {
                memory,
                blocks: None,
            },
        }
    }

    /// Takes the table's block out, at the end; none if it never had one.
    pub(super) fn take_block(&mut self, memory: &Memory) -> Option<Block> {
        let words = NonNull::new(self.words.swap(null_mut(), Ordering::Acquire))?;
        if words == memory.nothing() {
            return None;
        }
        let shape = TableShape::unpack(self.shape.load(Ordering::Acquire));
        // SAFETY: `words` and `shape` describe the block that was put here, and the address is gone
        // from here.
        Some(unsafe { Block::from_parts(words, shape.words()) })
    }
}

/// Where readers look for a digest: its partition, by its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    partition: &'a Partition,
    tag: u32,
}

impl Probe<'_> {
    /// Offers the records that can be the one with this digest to `matches`, which compares the
    /// digest in the log and returns `Some` for the right one; usually there is one candidate, and
    /// one in hundreds is another record's.
    ///
    /// Takes no lock, unless writers disturb it many times in a row. A record that is there all the
    /// while is found. The location may have been superseded meanwhile; the guard keeps the entry
    /// there. `matches` may be called twice for one record and must not lock the index.
    pub(crate) fn lookup<R>(
        self,
        guard: &Guard,
        mut matches: impl FnMut(Candidate) -> Option<R>,
    ) -> Option<R> {
        let mut matches = |_, head| matches(Candidate::from_head(head));
        let partition = self.partition;
        for _ in 0..LOOKS_MAX {
            let removals = partition.removals.load(Ordering::Acquire);
            if let Some(table) = partition.table(guard) {
                if let Some(found) = table.lookup(self.tag, &mut matches) {
                    return Some(found);
                }
                if removals & 1 == 0 && removals == partition.removals.load(Ordering::Acquire) {
                    return None;
                }
            }
            hint::spin_loop();
        }
        let _no_writer = partition.held.lock();
        partition.table(guard)?.lookup(self.tag, &mut matches)
    }

    /// A mistake that `lookup` must not make: to believe the first miss.
    #[cfg(all(test, shuttle))]
    pub(super) fn lookup_once(self, guard: &Guard) -> Option<Candidate> {
        loop {
            if let Some(table) = self.partition.table(guard) {
                return table.lookup(self.tag, &mut |_, head| Some(Candidate::from_head(head)));
            }
            hint::spin_loop();
        }
    }

    /// The first record that can be the one with this digest, to prefetch its entry. Looks once:
    /// beside writers, a record that is there may be missed.
    #[inline]
    pub(crate) fn first_candidate(self, guard: &Guard) -> Option<(TablePosition, Candidate)> {
        let found = |at, head| Some((TablePosition(at as u32), Candidate::from_head(head)));
        self.partition
            .table(guard)?
            .lookup(self.tag, &mut { found })
    }

    /// Asks the processor for the partition: a step ahead of [`Probe::prefetch`], which reads it.
    #[inline]
    pub(crate) fn prefetch_partition(self) {
        prefetch(std::ptr::from_ref(&self.partition.shape));
    }

    /// Has the cache line fetched that `lookup` will need: called for a whole batch ahead, it hides
    /// most of the memory's latency.
    #[inline]
    pub(crate) fn prefetch(self, guard: &Guard) {
        if let Some(table) = self.partition.table(guard) {
            table.prefetch_head(self.tag);
        }
    }

    /// The same with what a write changes. Without a guard block and shape may not belong together:
    /// then something else is loaded, at worst nothing.
    #[inline]
    pub(crate) fn prefetch_to_write(self) {
        let words = self.partition.words.load(Ordering::Acquire);
        let shape = TableShape::unpack(self.partition.shape.load(Ordering::Acquire));
        let head = words.wrapping_add(shape.home(self.tag));
        prefetch(head);
        prefetch(head.wrapping_add(shape.places as usize));
    }
}

/// A place in a locked partition, until something is inserted or removed there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TablePosition(u32);

/// A partition, locked for writers. Readers go on.
pub(crate) struct PartitionGuard<'a> {
    partition: &'a Partition,
    /// Dropped before `retired`.
    held: MutexGuard<'a, HeldLocks>,
    retired: Retired<'a>,
}

/// Blocks of replaced tables. They are handed to the epoch after the partition was unlocked: that
/// may run what others have deferred, which may take locks of theirs.
struct Retired<'a> {
    memory: &'a Arc<Memory>,
    /// Mostly none: every write locks a partition twice.
    blocks: Option<Vec<Block>>,
}

impl Retired<'_> {
    #[cold]
    fn give_back(&self, blocks: Vec<Block>) {
        let memory = Arc::clone(self.memory);
        let guard = epoch::pin();
        guard.defer(move || blocks.into_iter().for_each(|block| memory.give_back(block)));
        // Tables are large: do not let this thread gather dozens of them first.
        guard.flush();
    }
}

impl Drop for Retired<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(blocks) = self.blocks.take() {
            self.give_back(blocks);
        }
    }
}

impl std::fmt::Debug for PartitionGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionGuard")
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}

impl PartitionGuard<'_> {
    /// The record locks that are held or waited for in this partition.
    pub(crate) fn held(&mut self) -> &mut HeldLocks {
        &mut self.held
    }

    /// How many records the partition has, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.partition.len()
    }

    /// The memory of the table.
    #[cfg(all(test, not(shuttle)))]
    pub(super) fn table_bytes(&self) -> usize {
        self.shape().words() * size_of::<u64>()
    }

    fn shape(&self) -> TableShape {
        TableShape::unpack(self.partition.shape.load(Ordering::Relaxed))
    }

    fn table(&self) -> Table<'_> {
        let words = self.partition.words.load(Ordering::Relaxed);
        let shape = self.shape();
        // SAFETY: only who holds the lock exchanges the table, and does not return before both
        // words are stored.
        Table::new(
            unsafe { std::slice::from_raw_parts(words, shape.words()) },
            shape,
        )
    }

    /// The first record with this tag that `matches` takes.
    pub(crate) fn find(
        &self,
        tag: u32,
        matches: impl FnMut(&IndexSlot) -> bool,
    ) -> Option<TablePosition> {
        self.table()
            .find(tag, matches)
            .map(|at| TablePosition(at as u32))
    }

    /// Finds the record with this tag and its entry at this location: mostly where it was seen
    /// before.
    #[inline]
    pub(crate) fn find_near(
        &self,
        seen: TablePosition,
        tag: u32,
        location: Location,
    ) -> Option<TablePosition> {
        if self.table().has(seen.0 as usize, tag, location) {
            return Some(seen);
        }
        self.find(tag, |slot| slot.location == location)
    }

    /// The record at a position.
    pub(crate) fn get(&self, position: TablePosition) -> IndexSlot {
        self.table().get(position.0 as usize)
    }

    /// Changes the record at a position. The tag stays.
    pub(crate) fn update(&mut self, position: TablePosition, change: impl FnOnce(&mut IndexSlot)) {
        let mut slot = self.get(position);
        change(&mut slot);
        self.replace(position, slot);
    }

    /// Puts another slot in the place of the record at a position. The tag stays.
    pub(crate) fn replace(&mut self, position: TablePosition, slot: IndexSlot) {
        self.table().replace(position.0 as usize, &slot);
    }

    /// Adds a record; that it is not there yet is for the caller to know. Grows the table if it
    /// must.
    pub(crate) fn insert(&mut self, tag: u32, slot: IndexSlot) {
        let (head, tail) = (slot.head(tag), slot.tail());
        let shape = self.shape();
        let room = self.len() < shape.capacity() && self.table().insert(head, tail);
        if !room {
            // A table that is far from full and has no room at its end holds too many records of
            // one tag: more lines would not help, more room there will.
            let crowded = self.len() < shape.capacity() / 4 * 3;
            if !crowded {
                self.rebuild(shape.next(), &[]);
            }
            if crowded || !self.table().insert(head, tail) {
                return self.merge(&[(head, tail)]);
            }
        }
        self.partition.records.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the words of many records, none of which is there yet, in order of their tags, in one
    /// walk over the table: at a restart.
    pub(crate) fn insert_sorted(&mut self, records: &[(u64, u64)]) {
        if !records.is_empty() {
            self.merge(records);
        }
    }

    fn merge(&mut self, added: &[(u64, u64)]) {
        let mut shape = self.shape();
        while self.len() + added.len() > shape.capacity() {
            shape = shape.next();
        }
        self.rebuild(shape, added);
    }

    /// Takes the record at a position out.
    pub(crate) fn remove(&mut self, position: TablePosition) {
        self.counting_removal(1, |table| table.remove(position.0 as usize));
    }

    fn counting_removal(&mut self, records: usize, remove: impl FnOnce(Table<'_>)) {
        // Odd before a record moves, even after the last one has: a reader that finds nothing
        // believes it between two equal even counts alone.
        self.partition.removals.fetch_add(1, Ordering::AcqRel);
        remove(self.table());
        self.partition.removals.fetch_add(1, Ordering::Release);
        let before = self
            .partition
            .records
            .fetch_sub(records as u32, Ordering::Relaxed) as usize;
        let shape = self.shape();
        let half = shape.capacity() / 2;
        // Only on the way down through the middle: a table that has just grown stays.
        if before >= half && self.len() < half {
            let fitting = TableShape::for_records(self.len()).next();
            if fitting.places < shape.places {
                self.rebuild(fitting, &[]);
            }
        }
    }

    /// All records with their tags, in order of the tags.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, IndexSlot)> {
        self.table()
            .records()
            .map(|(_, head, tail)| (tag_of(head), IndexSlot::from_words(head, tail)))
    }

    /// Offers every record to `keep`, which may change it, and takes out those for which it says
    /// false. Returns how many those were.
    pub(crate) fn update_each(
        &mut self,
        mut keep: impl FnMut(u32, &mut IndexSlot) -> bool,
    ) -> usize {
        let mut doomed = Vec::new();
        let table = self.table();
        for (at, head, tail) in table.records() {
            let before = IndexSlot::from_words(head, tail);
            let mut slot = before;
            if !keep(tag_of(head), &mut slot) {
                doomed.push(at as u32);
            } else if slot != before {
                table.replace(at, &slot);
            }
        }
        if !doomed.is_empty() {
            self.counting_removal(doomed.len(), |table| table.remove_all(&doomed));
        }
        doomed.len()
    }

    /// Puts a table of this shape in the place of the present one, with `added` (sorted) among its
    /// records.
    fn rebuild(&mut self, shape: TableShape, added: &[(u64, u64)]) {
        let (block, shape) = if self.len() == 0 {
            self.filled(shape, added.iter().copied())
        } else {
            let copied = added.is_empty().then(|| self.copied(shape)).flatten();
            copied.unwrap_or_else(|| self.merged(shape, added))
        };
        self.exchange(block, shape);
        self.partition
            .records
            .fetch_add(added.len() as u32, Ordering::Relaxed);
    }

    /// The records in a table of this shape, the quick way; none if the room at its end is too
    /// small.
    fn copied(&self, shape: TableShape) -> Option<(Block, TableShape)> {
        let memory = self.retired.memory;
        let block = memory.take(shape.words(), EMPTY);
        if Table::new(block.words(), shape).fill_from(self.table()) {
            return Some((block, shape));
        }
        // At once, and not by the epoch: no reader has had it.
        memory.give_back(block);
        None
    }

    /// The records and those added in a table of this shape, with what room they need at its end.
    fn merged(&self, shape: TableShape, added: &[(u64, u64)]) -> (Block, TableShape) {
        let table = self.table();
        let mut present = table
            .records()
            .map(|(_, head, tail)| (head, tail))
            .peekable();
        let mut added = added.iter().copied().peekable();
        let merged = std::iter::from_fn(|| match (present.peek(), added.peek()) {
            (Some((one, _)), Some((other, _))) if tag_of(*other) < tag_of(*one) => added.next(),
            (Some(_), _) => present.next(),
            (None, _) => added.next(),
        });
        let merged: Vec<_> = merged.collect();
        self.filled(shape, merged.iter().copied())
    }

    /// These sorted records in a table of this shape, with what room they need at its end.
    fn filled(
        &self,
        shape: TableShape,
        records: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> (Block, TableShape) {
        let shape = shape.to_hold(records.clone().map(|(head, _)| head));
        let block = self.retired.memory.take(shape.words(), EMPTY);
        Table::new(block.words(), shape).fill(records);
        (block, shape)
    }

    /// Publishes a table in the place of the present one.
    fn exchange(&mut self, block: Block, shape: TableShape) {
        let (partition, old_shape) = (self.partition, self.shape());
        // Null until the new shape is there: `table` never joins the two.
        let Some(words) = NonNull::new(partition.words.swap(null_mut(), Ordering::AcqRel)) else {
            return;
        };
        partition.shape.store(shape.pack(), Ordering::Release);
        partition
            .words
            .store(block.as_ptr().as_ptr(), Ordering::Release);
        // It never comes back, so no reader takes it for a table of another shape, and it stays
        // with the index.
        if words == self.retired.memory.nothing() {
            return;
        }
        // SAFETY: these are the parts of the block that was here, and its address is not here any
        // more. Readers that still have it are pinned, and the block is given back only after they
        // have gone.
        let retired = unsafe { Block::from_parts(words, old_shape.words()) };
        self.retired.blocks.get_or_insert_default().push(retired);
    }
}
