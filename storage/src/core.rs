//! What the handles of a namespace and its background threads share.

pub(crate) mod background;
pub(crate) mod defrag_state;
pub(crate) mod followers;
mod handle;
pub(crate) mod removals;

use crate::device::ForkGuard;
use crate::digest::Digest;
use crate::entry::{Appended, EntryHeader, EntryKind, NewEntry, blank_header, metadata_digest};
use crate::epoch;
use crate::error::{Error, Result};
use crate::index::{DigestIndex, IndexSlot};
use crate::log::Log;
use crate::log::space::SpacePurpose;
use crate::options::Options;
use crate::sets::Sets;
use crate::stats::Traffic;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use defrag_state::Defrag;
use followers::Followers;
pub use handle::Namespace;
use removals::Removals;

/// Number of copies of the metadata, so that one damaged entry does not cost every set its name.
pub(crate) const METADATA_COPIES: usize = 2;

/// What the handles and the background threads share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: String,
    /// Distinguishes the process that has opened the namespace from a fork of it.
    pub(crate) fork: ForkGuard,
    pub(crate) options: Options,
    pub(crate) log: Log,
    pub(crate) index: DigestIndex,
    pub(crate) sets: Sets,
    /// Whether there may be chains of deltas.
    pub(crate) any_deltas: AtomicBool,
    /// Dead entries may count as live: entries of chains that could not be read when they ended.
    pub(crate) counts_dead: AtomicBool,
    /// Bytes of the log are lost, and their records are unknown: an entry with a number not above
    /// this may be stale. 0 if no such bytes are lost.
    pub(crate) unknown_below_lsn: u64,
    pub(crate) followers: Followers,
    /// What disappears without a trace in the index.
    pub(crate) removals: Removals,
    pub(crate) counters: CoreCounters,
    /// The places of the copies of the metadata entry.
    pub(crate) metadata: Mutex<Vec<Appended>>,
    pub(crate) defrag: Mutex<Defrag>,
    /// Bytes written before this opening.
    pub(crate) earlier_traffic: Traffic,
    /// Whether writes are refused: since a close, or from the start in a namespace opened for
    /// reading.
    pub(crate) closed: AtomicBool,
    pub(crate) opened_for_reading: bool,
    /// Whether the close has succeeded. Held during it, and by work that must not run beside it.
    pub(crate) close_done: Mutex<bool>,
}

/// Counts since the namespace was opened.
#[derive(Debug, Default)]
pub(crate) struct CoreCounters {
    pub(crate) key_busy: AtomicU64,
    pub(crate) waits: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) space_waits: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) defragmented_blocks: AtomicU64,
    pub(crate) dropped_tombstones: AtomicU64,
}

impl CoreCounters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl Core {
    /// Since the namespace was created.
    pub(crate) fn traffic(&self) -> Traffic {
        self.earlier_traffic.plus(self.log.traffic())
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.fork.is_child() || self.closed.load(Ordering::Relaxed) {
            return Err(self.not_open());
        }
        Ok(())
    }

    /// Refuses in the child of a fork: its parent goes on with the devices and has the threads.
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if self.fork.is_child() {
            return Err(self.not_open());
        }
        Ok(())
    }

    /// Refuses to sync in the child of a fork, and where the namespace was opened for reading.
    pub(crate) fn check_may_sync(&self) -> Result<()> {
        if self.opened_for_reading {
            return Err(self.not_open());
        }
        self.check_not_forked()
    }

    #[cold]
    fn not_open(&self) -> Error {
        let namespace = self.name.clone();
        if self.fork.is_child() {
            Error::Forked { namespace }
        } else if self.opened_for_reading {
            Error::OpenedForReading { namespace }
        } else {
            Error::Closed { namespace }
        }
    }

    /// Reports a wait for a record's lock, or a `KeyBusy`.
    pub(crate) fn note_contention(&self, digest: &Digest, refused: bool) {
        if let Some(observer) = &self.options.observer {
            observer.contends(digest, refused);
        }
    }

    pub(crate) fn slots_of(&self, partition: usize) -> Vec<(u32, IndexSlot)> {
        self.index.lock_partition(partition).iter().collect()
    }

    /// Writes the metadata entries anew. Their predecessors live until the new ones are there.
    pub(crate) fn store_metadata(&self, metadata: &[u8]) -> Result<()> {
        let mut current = self.metadata.lock();
        // Like every writer: emptied blocks are not given back while one is under way.
        let _guard = epoch::pin();
        self.check_open()?;
        self.log.check_writable(SpacePurpose::Delete)?;
        let header = EntryHeader {
            kind: EntryKind::Metadata,
            digest: metadata_digest(metadata),
            ..blank_header()
        };
        let entry = NewEntry::new(header, None, metadata);
        let mut copies = Vec::with_capacity(METADATA_COPIES);
        for _ in 0..METADATA_COPIES {
            match self.log.append(SpacePurpose::Delete, entry) {
                Ok(copy) => copies.push(copy),
                // One copy is as good as two, as long as it is not damaged: the next opening writes
                // the other.
                Err(_) if !copies.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        for old in std::mem::replace(&mut *current, copies) {
            self.log.release(old.location, old.units);
        }
        Ok(())
    }
}
