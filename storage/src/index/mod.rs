//! The primary index: digest -> place of the newest entry.
//!
//! 4,096 partitions by the digest. In each, a table of 16-byte slots sorted by 24 further bits of
//! the digest, the *tag* (`table.rs`). A slot does not hold the digest: a tag that fits is settled
//! by the digest in the log, so lookups take a closure that compares it there. Readers take no
//! lock; writers take the partition's, under which the record locks are kept, too.
//!
//! Read `slot.rs`, `table.rs`, `partition.rs`, in this order. Its reasons, and the alternatives
//! measured: `docs/decisions/0001-primary-index.md`.

mod memory;
mod partition;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod slot;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub(crate) use partition::{PartitionGuard, Probe, TablePosition};
pub(crate) use slot::{Candidate, IndexSlot, SIZE_UNITS_MAX};

use crate::digest::{Digest, PARTITIONS};
use memory::Memory;
use partition::Partition;
use std::sync::Arc;

/// The index of a namespace.
#[derive(Debug)]
pub(crate) struct DigestIndex {
    partitions: Box<[Partition]>,
    memory: Arc<Memory>,
}

impl DigestIndex {
    /// Returns an empty index.
    pub(crate) fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let partitions = (0..PARTITIONS).map(|_| Partition::new(&memory)).collect();
        Self { partitions, memory }
    }

    fn partition(&self, number: usize) -> &Partition {
        #[expect(
            clippy::indexing_slicing,
            reason = "hot; a power of two, so the mask bounds it"
        )]
        &self.partitions[number % PARTITIONS]
    }

    /// Where a digest is looked for.
    #[inline]
    pub(crate) fn at(&self, digest: &Digest) -> Probe<'_> {
        self.partition(digest.partition()).probe(digest.tag())
    }

    /// Locks the digest's partition against other writers.
    pub(crate) fn lock(&self, digest: &Digest) -> PartitionGuard<'_> {
        self.lock_partition(digest.partition())
    }

    /// Locks a partition, 0..4096, against other writers.
    pub(crate) fn lock_partition(&self, number: usize) -> PartitionGuard<'_> {
        self.partition(number).lock(&self.memory)
    }

    /// How many records there are, tombstones included. Not a snapshot beside writers.
    pub(crate) fn len(&self) -> u64 {
        self.partitions
            .iter()
            .map(|partition| partition.len() as u64)
            .sum()
    }

    /// The memory of the index in bytes: partitions, tables, and replaced tables that readers may
    /// still look at.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let fixed = size_of::<Self>() + size_of::<Memory>() + size_of_val(&*self.partitions);
        fixed as u64 + self.memory.bytes()
    }
}

impl Drop for DigestIndex {
    fn drop(&mut self) {
        for partition in &mut self.partitions {
            if let Some(block) = partition.take_block(&self.memory) {
                self.memory.give_back(block);
            }
        }
    }
}
