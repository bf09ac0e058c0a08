//! A namespace: the log, the index over it, and the record locks, as one store of bytes by digest.
//!
//! Reading takes no lock. Writing goes through [`Namespace::lock`]: the holder of a [`RecordLock`]
//! sees the record as it is and may put a new version, or a tombstone, in its place.

use crate::acknowledge::DurableFuture;
use crate::attempt::Attempt;
use crate::core::Namespace;
use crate::digest::Digest;
use crate::entry::{EntryView, Lsn};
use crate::epoch;
use crate::error::Result;
use crate::index::IndexSlot;
use crate::location::UNIT_BYTES;
use crate::log::block::BlockPhase;
use crate::log::space::SpacePurpose;
use crate::options::Options;
use crate::record_lock::{Change, GroupMember, RecordLock, WaitLimit};
use crate::sets::{SetUsage, Truncate};
use crate::stats::Stats;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

impl Namespace {
    /// Returns the name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The options of the opening.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// Lends the record with this digest to `read`, without a copy and without a lock. None: there
    /// is no such record, or it was deleted or truncated. Whether it has expired is for the caller
    /// to see ([`EntryView::void_time`]).
    ///
    /// Costs one probe of the index and one look at the log. The block of the record is not used
    /// again while `read` runs.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if the stored bytes do not match their checksum
    /// (looked at once for each entry after opening).
    #[inline]
    pub fn get<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> R,
    ) -> Result<Option<R>> {
        let guard = epoch::pin();
        let Some(found) = self.core.visible(digest, &guard)? else {
            return Ok(None);
        };
        guard.narrow(self.core.watched_by(&found));
        Ok(Some(read(found.view())))
    }

    /// Has the memory fetched that a write of this digest will touch first: for a record that is
    /// about to be locked. [`Namespace::get_batch`] reads many.
    #[inline]
    pub fn prefetch(&self, digest: &Digest) {
        self.core.index.at(digest).prefetch_to_write();
    }

    /// Locks a record, whether it exists or not, for a read-modify-write. Writers that find it
    /// locked queue in FIFO order. Other records are not disturbed. Space cannot be recycled while
    /// a lock is held: keep it short.
    ///
    /// # Errors
    /// [`Error::KeyBusy`](crate::Error::KeyBusy) at once if `max_waiters` writers queue already;
    /// [`Error::Timeout`](crate::Error::Timeout) after `timeout` in the queue (None = wait as long
    /// as it takes). In both cases nothing was changed. A put waits for space until the same end.
    pub fn lock(&self, digest: &Digest, timeout: Option<Duration>) -> Result<RecordLock<'_>> {
        RecordLock::acquire(&self.core, digest, timeout)
    }

    /// Locks a record that no other writer has locked. It is no contention otherwise: nothing is
    /// counted. A put waits for no space.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) and its kin, as for [`Namespace::lock`].
    pub fn try_lock(&self, digest: &Digest) -> Result<Option<RecordLock<'_>>> {
        self.core.check_open()?;
        let mut lock = RecordLock::try_acquire(&self.core, digest, false);
        if let Some(lock) = &mut lock {
            lock.limit = WaitLimit::after(Duration::ZERO);
        }
        Ok(lock)
    }

    /// Begins a write of a task in a thread that must not wait: neither for the record, nor for
    /// space, nor for a sync.
    ///
    /// ```
    /// use spikelet_storage::{Attempt, Digest, Namespace, NewVersion, Options, Result, Storage};
    ///
    /// /// Puts a version; gives way to other tasks of the thread wherever a thread would wait.
    /// async fn put(namespace: &Namespace, digest: Digest, version: NewVersion<'_>) -> Result<()> {
    ///     let mut attempt = namespace.attempt();
    ///     loop {
    ///         let put = attempt.run(|| namespace.lock(&digest, None)?.put(&version));
    ///         if !attempt.must_wait() {
    ///             put?;
    ///             return match attempt.take_unsynced() {
    ///                 Some(lsn) => namespace.durable(lsn).await,
    ///                 None => Ok(()),
    ///             };
    ///         }
    ///         attempt.ready().await;
    ///     }
    /// }
    /// ```
    pub fn attempt(&self) -> Attempt {
        Attempt::new(&self.core)
    }

    /// Lends every record of a partition (0..4096) to `read`, in no particular order. Records
    /// written meanwhile may or may not be among them. A record that is damaged is reported as an
    /// error in its place.
    pub fn scan_partition(
        &self,
        partition: usize,
        read: impl FnMut(Result<EntryView<'_>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.scan_sets(partition, |_| true, read)
    }

    /// Lends the records of wanted sets (by number) of a partition to `read`: as
    /// [`Namespace::scan_partition`], but records of other sets are not looked at, so their damage
    /// is not reported.
    pub fn scan_sets<B>(
        &self,
        partition: usize,
        is_wanted: impl Fn(u16) -> bool,
        mut read: impl FnMut(Result<EntryView<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let guard = epoch::pin();
        let slots = self.core.slots_of(partition);
        // A damaged entry without its header may be of any set.
        let may_be_wanted = |slot: &IndexSlot| {
            let set_is_lost = slot.unverified && slot.set_id == 0;
            !slot.tombstone && (set_is_lost || is_wanted(slot.set_id))
        };
        let location = |(_, slot): &(u32, IndexSlot)| may_be_wanted(slot).then_some(slot.location);
        for (_, slot) in self.core.prefetching(&slots, location) {
            if !may_be_wanted(slot) {
                continue;
            }
            match self.core.checked_entry(slot, &guard) {
                Ok(entry) => {
                    let entry = entry.view();
                    if !self.core.hides(&entry) && is_wanted(entry.set_id()) {
                        read(self.core.current(entry))?;
                    }
                }
                Err(error) => read(Err(error))?,
            }
        }
        ControlFlow::Continue(())
    }

    /// Applies changes to several locked records, all of this namespace and each of another record:
    /// after a crash or a power failure all of them are there, or none. Readers may see them appear
    /// one after the other. Returns the number of the group when it is as durable as the namespace
    /// promises; `None` if there are no changes.
    ///
    /// # Errors
    /// Nothing was changed, except for [`Error::InDoubt`](crate::Error::InDoubt).
    pub fn commit_group<'c, C: Into<Option<Change<'c>>>>(
        &self,
        members: Vec<(RecordLock<'_>, C)>,
    ) -> Result<Option<Lsn>> {
        let lsn = self.apply_group(members)?;
        lsn.map_or(Ok(()), |lsn| self.core.acknowledge(lsn))?;
        Ok(lsn)
    }

    /// Applies changes to several locked records as [`Namespace::commit_group`] does, but never
    /// waits for durability. The group is durable once its number is.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if a truncation has begun since the records were
    /// locked. Nothing was changed, unless it is [`Error::InDoubt`](crate::Error::InDoubt).
    pub fn apply_group<'c, C: Into<Option<Change<'c>>>>(
        &self,
        members: Vec<(RecordLock<'_>, C)>,
    ) -> Result<Option<Lsn>> {
        let members = members.into_iter();
        let members = members.map(|(lock, change)| (lock, change.into()));
        self.apply_members(members.collect(), None::<fn(bool)>)
    }

    /// Does as [`Namespace::apply_group`] does. `done`, if there is one, is called with whether
    /// anything was changed before any of the records is unlocked.
    ///
    /// # Errors
    /// As for [`Namespace::apply_group`].
    pub fn apply_members(
        &self,
        members: Vec<GroupMember<'_, '_>>,
        done: Option<impl FnOnce(bool)>,
    ) -> Result<Option<Lsn>> {
        self.core.apply_group(members, done)
    }

    /// Waits until a write is as durable as the namespace promises, as [`RecordLock::put`] does
    /// after [`RecordLock::apply`].
    ///
    /// # Errors
    /// [`Error::InDoubt`](crate::Error::InDoubt) if a sync failed: the write is in place, and may
    /// not be durable.
    pub fn settle(&self, lsn: Lsn) -> Result<()> {
        self.core.acknowledge(lsn)
    }

    /// The digests of the records of a partition (0..4096) that are there, or that a writer has
    /// locked and may be about to create. A caller that then locks each of them has met every
    /// record that was written by a writer that had locked it before this call.
    #[must_use]
    pub fn digests_and_locked(&self, partition: usize) -> Vec<Digest> {
        let guard = epoch::pin();
        let mut locked = self.core.index.lock_partition(partition);
        let mut digests = locked.held().digests();
        let slots = locked.iter().filter(|(_, slot)| !slot.tombstone);
        let entries = slots.filter_map(|(_, slot)| self.core.log.entry(slot.location, &guard));
        digests.extend(entries.map(|entry| entry.view().digest()));
        drop(locked);
        digests.sort_unstable();
        digests.dedup();
        digests
    }

    /// What the program that uses the namespace keeps in its metadata; empty at first.
    #[must_use]
    pub fn catalog(&self) -> Vec<u8> {
        self.core.sets.catalog()
    }

    /// Keeps `catalog` in the namespace's metadata in place of the present one. Durable with the
    /// next sync.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) beyond
    /// [`CATALOG_BYTES_MAX`](crate::CATALOG_BYTES_MAX); the errors of a write. Nothing was changed.
    pub fn set_catalog(&self, catalog: &[u8]) -> Result<()> {
        self.core
            .sets
            .set_catalog(catalog, |metadata| self.core.store_metadata(&metadata))?;
        self.core.acknowledge(self.last_lsn())
    }

    /// Returns the number of the latest write, or of one that is being made: once it is durable, so
    /// is every write that has returned before this call.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.core.log.last_lsn())
    }

    /// Returns the number up to which every write is on stable storage.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.core.log.syncer().durable_lsn())
    }

    /// Blocks until the write with this number, and all before it, are on stable storage, under any
    /// [`Durability`](crate::Durability). Returns at once if they are. Callers that wait at the
    /// same time share one sync.
    ///
    /// # Errors
    /// [`Error::InDoubt`](crate::Error::InDoubt) if a sync failed before they were, now or earlier;
    /// [`Error::BadOption`](crate::Error::BadOption) for a number that no write of this namespace
    /// can have returned; [`Error::Forked`](crate::Error::Forked) in the child of a fork;
    /// [`Error::OpenedForReading`](crate::Error::OpenedForReading) for a write that was not durable
    /// at an opening for reading.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.core.wait_durable(lsn)
    }

    /// Returns a future that completes when the write with this number, and all before it, are on
    /// stable storage. Needs no particular runtime; nothing happens before it is polled. Dropping
    /// it takes back what it asked for.
    ///
    /// A background thread syncs for all futures that wait, and wakes them. Where there is none
    /// (`Options::background` is false, or the namespace is closed), the poll itself syncs, and
    /// blocks meanwhile.
    ///
    /// The future keeps the devices open, but not the background threads, which end with the last
    /// handle.
    ///
    /// ```
    /// use spikelet_storage::{Change, Digest, Durability, Namespace, NewVersion, Options, Storage};
    /// # use std::future::Future;
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark {
    /// #         fn wake(self: std::sync::Arc<Self>) {
    /// #             self.0.unpark();
    /// #         }
    /// #     }
    /// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(output) => return output,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    ///
    /// # fn main() -> spikelet_storage::Result<()> {
    /// let mut options = Options::new("test", Storage::Memory);
    /// options.durability = Durability::Commit;
    /// let (namespace, _) = Namespace::open(options)?;
    /// let mut lock = namespace.lock(&Digest::new([7; Digest::LEN]), None)?;
    /// let version = NewVersion {
    ///     generation: 1,
    ///     void_time: 0,
    ///     last_update_ms: 1,
    ///     set_id: 0,
    ///     key: None,
    ///     payload: b"bytes",
    /// };
    /// // Visible to readers when the call returns, and durable when the future completes.
    /// let lsn = lock.apply(&Change::Put(version))?.expect("a put is a write");
    /// // It keeps memory from being used again.
    /// drop(lock);
    /// block_on(namespace.durable(lsn))?;
    /// assert!(namespace.durable_lsn() >= lsn);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Namespace::wait_durable`].
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<()>> + Send + Unpin + use<> {
        DurableFuture {
            core: Arc::clone(&self.core),
            lsn,
            ticket: None,
        }
    }

    /// The number of a set; None if nothing was ever written to it. 0 is the empty name, "no set".
    #[must_use]
    pub fn set_id(&self, name: &str) -> Option<u16> {
        self.core.sets.number_of(name)
    }

    /// The number of a set, which is created if need be. Sets are never removed.
    ///
    /// # Errors
    /// A name that is not allowed, the 4,096th set, or no space to note the set.
    pub fn create_set(&self, name: &str) -> Result<u16> {
        self.core
            .sets
            .create(name, |metadata| self.core.store_metadata(&metadata))
    }

    /// The name of a set by its number.
    #[must_use]
    pub fn set_name(&self, id: u16) -> Option<String> {
        self.core.sets.name_of(id)
    }

    /// The usage of each set, "no set" first.
    #[must_use]
    pub fn sets(&self) -> Vec<SetUsage> {
        self.core.sets.usage()
    }

    /// Records and stored bytes of one set. Exact while there are no writes.
    #[must_use]
    pub fn set_usage(&self, id: u16) -> (u64, u64) {
        self.core.sets.usage_of(id)
    }

    /// Returns an error if every delete is refused: since a close or a failed sync, or where the
    /// namespace was opened for reading.
    ///
    /// # Errors
    /// That of a delete.
    pub fn check_deletes(&self) -> Result<()> {
        self.core.check_open()?;
        self.core.log.check_writable(SpacePurpose::Delete)
    }

    /// Removes every record of a set, or of the namespace; with `before_ms` (ms since 2010), only
    /// records last updated before that. Returns how many; they and their counts are gone when the
    /// call returns, and they do not come back. Records written later stay, with any time.
    ///
    /// Of several truncations by time the latest *time* holds: one with an earlier time than
    /// another before it removes nothing more, not even records that were written in between with
    /// an earlier time, by a clock that had gone back.
    ///
    /// # Errors
    /// If the truncation cannot be noted in the log, nothing is removed.
    pub fn truncate(&self, what: Truncate, before_ms: Option<u64>) -> Result<u64> {
        self.truncate_if(what, before_ms, || Ok(()))
    }

    /// Does as [`Namespace::truncate`] does, unless `check` refuses it. Writes wait while that runs,
    /// but for deletes, and versions whose numbers were drawn before.
    ///
    /// # Errors
    /// As for [`Namespace::truncate`]; the error of `check`: nothing is removed.
    pub fn truncate_if<E: From<crate::Error>>(
        &self,
        what: Truncate,
        before_ms: Option<u64>,
        check: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        // A snapshot must not be taken between the two halves.
        let _not_beside_a_close = self.core.close_done.lock();
        self.core.check_open()?;
        self.core.log.check_writable(SpacePurpose::Delete)?;
        let core = &self.core;
        let truncation = core.log.begin_truncation();
        check()?;
        let removal = core.removals.begin();
        core.sets.truncate(
            what,
            || core.log.append_void().map(Lsn::get),
            before_ms,
            |metadata| core.store_metadata(&metadata),
            || core.log.last_lsn(),
        )?;
        drop(truncation);
        drop(removal);
        core.followers.published.wake();
        let removed = self.core.remove_all_truncated();
        self.core.acknowledge(self.last_lsn())?;
        Ok(removed)
    }

    /// Returns whether a truncation has removed a version of a record in a set: one that was
    /// written at or before `lsn`, the last number then, with this time of its last update.
    #[must_use]
    pub fn is_truncated(&self, set: u16, lsn: Lsn, last_update_ms: u64) -> bool {
        self.core.sets.hides(set, lsn, last_update_ms)
    }

    /// Everything acknowledged before this call is on stable storage when it returns.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) if a sync fails, now or earlier;
    /// [`Error::StopWrites`](crate::Error::StopWrites) if it finds the disk full: nothing is lost,
    /// and the next one tries again. [`Error::Forked`](crate::Error::Forked);
    /// [`Error::OpenedForReading`](crate::Error::OpenedForReading).
    pub fn sync(&self) -> Result<()> {
        // It would flush entries that the parent has staged since to the place where the fork
        // believes the log to end.
        self.core.check_may_sync()?;
        self.core.log.sync()
    }

    /// Closes the namespace: no more writes, a last sync, and a snapshot of the index, so that
    /// opening does not need to read the log. Other handles get
    /// [`Error::Closed`](crate::Error::Closed) for writes from now on. Dropping all handles without
    /// it is safe: the next opening reads the log.
    ///
    /// Waits for writers that hold a record, 5 s at most; after that there is no snapshot.
    ///
    /// # Errors
    /// If the sync or the snapshot fails. The data is as safe as before.
    pub fn close(&self) -> Result<()> {
        // A second call waits for the first, and tries again where that failed.
        let mut done = self.core.close_done.lock();
        if *done {
            return Ok(());
        }
        self.core.check_not_forked()?;
        self.core.closed.store(true, Ordering::SeqCst);
        self.background.stop();
        // A defragmentation under way ends first; later ones are refused.
        drop(self.core.defrag.lock());
        self.core.close()?;
        *done = true;
        drop(done);
        // Last: a follower that could not look at `done` before waits by now.
        self.core.followers.published.wake();
        self.core.log.syncer().followers.wake();
        Ok(())
    }

    /// Whether a handle has closed the namespace, and everything written before is durable. A
    /// namespace that was opened for reading is not closed.
    ///
    /// ```
    /// use spikelet_storage::{Namespace, Options, Storage};
    ///
    /// # fn main() -> spikelet_storage::Result<()> {
    /// let (namespace, _) = Namespace::open(Options::new("test", Storage::Memory))?;
    /// assert!(!namespace.is_closed());
    /// namespace.close()?;
    /// assert!(namespace.is_closed());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let core = &self.core;
        let is_done = || core.close_done.try_lock().is_some_and(|done| *done);
        core.closed.load(Ordering::SeqCst) && !core.opened_for_reading && is_done()
    }

    /// A look at the counters. Costs a visit of every block's state, not of records.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = &self.core;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let space = core.log.space().usage();
        let (syncs, sync_time) = core.log.syncer().completed();
        let mut stats = Stats {
            index_entries: core.index.len(),
            index_bytes: core.index.memory_bytes(),
            image_bytes: core.log.images().bytes(),
            available_blocks: space.available_blocks,
            reserve_blocks: space.reserve_blocks,
            stop_writes: core.log.space().writes_are_stopped(),
            read_only: core.log.syncer().failure(),
            traffic: core.traffic(),
            syncs,
            sync_time,
            key_busy: read(&core.counters.key_busy),
            waits: read(&core.counters.waits),
            timeouts: read(&core.counters.timeouts),
            space_waits: read(&core.counters.space_waits),
            damaged: read(&core.counters.damaged),
            expired: read(&core.counters.expired),
            defragmented_blocks: read(&core.counters.defragmented_blocks),
            dropped_tombstones: read(&core.counters.dropped_tombstones),
            ..Stats::default()
        };
        stats.records = core.sets.records();
        for volume in core.log.volumes() {
            stats.device_bytes += volume.device().allocated_bytes();
            stats.unreadable_bytes += volume.unreadable().bytes();
        }
        for (_, block) in core.log.blocks() {
            if block.phase() != BlockPhase::Free {
                stats.used_blocks += 1;
                stats.live_bytes += u64::from(block.live_units()) * UNIT_BYTES;
            }
        }
        stats
    }
}
