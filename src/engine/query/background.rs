//! Operations on all records that a query finds, in the background.

use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use spikelet_storage::Digest;
use xxhash_rust::xxh3::xxh3_128;

use super::super::core::{NamespaceCore, key_of};
use super::super::declaration::is_own_set;
use super::super::namespace::Namespace;
use super::super::policy::{Acknowledge, WritePolicy};
use super::super::scratch::Scratch;
use super::super::write::{EditOutcome, WriteTarget};
use super::{Cursor, Query, QuerySource};
use crate::operation::{Checked, Mode, Operation, OperationResults};
use crate::rate_limit::{Due, RateLimit};
use crate::record::Key;
use crate::setters::setters;
use crate::{Error, Result};

/// How many places of records that fit an index are held at a time: 32 MiB. Where there are more,
/// the index is gone through again.
const PLACES_MAX: usize = 1 << 20;
/// How many are held at a time where they come in order.
const PLACES_AT_ONCE: usize = 4096;
/// After this many records the position is saved, for operations that have a name.
const SAVE_EVERY: u64 = 10_000;
/// How many failed records are listed one by one.
const FAILURES_TOLD: usize = 1_000;

/// How an operation in the background goes about its work. Begin with the default and change what
/// should differ.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackgroundPolicy {
    /// How each record is written. Its filter, or else the query's, is asked again when the record
    /// is locked.
    pub write: WritePolicy,
    /// Under this name the position is kept in the store, so that an operation that a crash has
    /// ended goes on behind it when it is begun again under the same name, with the same query and
    /// operations, and [`BackgroundPolicy::write`] but for its timeout and acknowledgement. With
    /// others, such as a filter by the present time, it begins at the first record. Default: none.
    pub name: Option<Box<str>>,
    /// The most records a second. 0, the default: no limit.
    pub records_per_second: u32,
}

impl BackgroundPolicy {
    setters! { in
        /// Sets [`BackgroundPolicy::write`]: how each record is written.
        write(write: WritePolicy) => write = write,
        /// Sets [`BackgroundPolicy::name`]: under which the position is kept in the store.
        name(name: &str) => name = Some(name.into()),
    }

    setters! { const
        /// Sets [`BackgroundPolicy::records_per_second`]: the most records a second; 0: no limit.
        records_per_second: u32,
    }
}

/// A record on which an operation in the background has failed.
#[derive(Debug)]
pub struct FailedRecord {
    /// The digest of the record; `None`: it is lost with the record.
    pub digest: Option<Digest>,
    /// Its user key, if it is stored and can be read.
    pub key: Option<Key<'static>>,
    /// The error of this record; the others go on.
    pub error: Error,
}

/// The progress of an operation in the background, or its result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct BackgroundProgress {
    /// Records that were written.
    pub written: u64,
    /// Records that did not fit any more when they were met: gone, or filtered out.
    pub passed_over: u64,
    /// Records on which the operations failed.
    pub failed: u64,
    /// The first thousand of them.
    pub failures: Vec<FailedRecord>,
    /// About how many records there are to be done, as the query was explained at first.
    pub expected: u64,
}

/// Operations that are done on all records of a query, one record at a time, by a thread of their
/// own. Dropping this does not end them: the thread goes on, also after a pause.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::expressions::{eq, string_bin};
/// use spikelet::operations::put;
/// use spikelet::query::{BackgroundPolicy, IndexDefinition};
///
/// let bugs = spikelet::Store::in_memory()?.set("bugs")?;
/// bugs.create_index(IndexDefinition::new("by_owner", ["owner"]))?;
/// bugs.put(1, spikelet::bins! { "owner" => "ada", "owner_name" => "Ada Byron" })?;
/// // She has married. The filter is asked again when a bug is locked: it may have another owner by then.
/// let hers = bugs.query("by_owner")?.eq("ada").filter(eq(string_bin("owner"), "ada"));
/// let renaming = hers.operate(&BackgroundPolicy::default(), [put("owner_name", "Ada Lovelace")])?;
/// let done = renaming.wait()?;
/// assert_eq!((done.written, done.failed), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BackgroundOperation {
    shared: ResumedJob,
    thread: JoinHandle<Result<()>>,
}

/// Resumes a paused operation when its handle is dropped: no other call could.
#[derive(Debug)]
struct ResumedJob(Arc<JobShared>);

impl Drop for ResumedJob {
    fn drop(&mut self) {
        self.0.resume();
    }
}

#[derive(Debug, Default)]
struct JobShared {
    state: Mutex<JobState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct JobState {
    progress: BackgroundProgress,
    is_paused: bool,
    is_cancelled: bool,
}

/// The order in which records are met: that of the primary index.
type DigestPlace = (usize, Digest);

impl BackgroundOperation {
    /// How far it has come; failures are counted here and told by [`BackgroundOperation::wait`].
    #[must_use]
    pub fn progress(&self) -> BackgroundProgress {
        let state = self.shared.0.state.lock();
        BackgroundProgress {
            failures: Vec::new(),
            ..state.progress
        }
    }

    /// Whether it has come to its end.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops after the present record, until [`BackgroundOperation::resume`].
    pub fn pause(&self) {
        self.shared.0.state.lock().is_paused = true;
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        self.shared.0.resume();
    }

    /// Ends it after the present record. Its writes stay, and a position that was kept is
    /// forgotten.
    pub fn cancel(&self) {
        self.shared.0.state.lock().is_cancelled = true;
        self.shared.0.changed.notify_all();
    }

    /// Waits for the end and returns the result. It must not be paused.
    ///
    /// # Errors
    /// The cause of an early end: the store was closed or takes no writes, or the index was
    /// dropped. Errors of single records are listed in the progress.
    pub fn wait(self) -> Result<BackgroundProgress> {
        match self.thread.join() {
            Ok(ended) => ended?,
            Err(_) => {
                return Err(Error::Forbidden(
                    "the operation in the background has panicked: what it had written stays"
                        .into(),
                ));
            }
        }
        Ok(std::mem::take(&mut self.shared.0.state.lock().progress))
    }
}

impl JobShared {
    fn resume(&self) {
        self.state.lock().is_paused = false;
        self.changed.notify_all();
    }

    /// Whether to go on; waits while it is paused.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        while state.is_paused && !state.is_cancelled {
            self.changed.wait(&mut state);
        }
        !state.is_cancelled
    }

    fn fail(&self, digest: Option<Digest>, key: Option<Key<'static>>, error: Error) {
        let progress = &mut self.state.lock().progress;
        progress.failed += 1;
        if progress.failures.len() < FAILURES_TOLD {
            progress.failures.push(FailedRecord { digest, key, error });
        }
    }
}

impl Query {
    /// Begins to do operations on all records that the query finds, each for itself, in a thread of
    /// its own. They are met in the order of their digests, each once, even if the operations
    /// change the key of the index. A record that begins to fit meanwhile may be met or not. A
    /// query that names no set leaves the store's own out, of which the names begin with `<`.
    ///
    /// After a crash, one with a name ([`BackgroundPolicy::name`]) goes on behind the last position
    /// that was saved: up to 10,000 records before the crash are met again. Let the filter exclude
    /// records that are done already, where that matters.
    ///
    /// # Errors
    /// [`Error::Parameter`] for operations that cannot be combined, that only read, or a query with
    /// limit, order or cursor; [`Error::Forbidden`] while another one of its name runs; and as for
    /// [`Query::keys`].
    pub fn operate(
        &self,
        policy: &BackgroundPolicy,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<BackgroundOperation> {
        if self.limit != usize::MAX || self.descending || self.after.is_some() {
            return Err(Error::parameter(
                "an operation in the background is done on all records that a query finds: leave out limit, descending and after",
            ));
        }
        let operations: Vec<Operation> = operations.into_iter().collect();
        if !Checked::new(&operations, Mode::of(policy.write.replaces()))?.is_write() {
            return Err(Error::parameter(
                "none of the operations writes, and nobody would see what they read: ask the query for records",
            ));
        }
        let job = self.job(policy, &operations);
        let name = policy.name.as_deref();
        let named = name
            .map(|name| NamedJob::begin(&self.core, name))
            .transpose()?;
        let after = name.and_then(|name| self.core.background_position(name, &job));
        let shared = Arc::new(JobShared::default());
        shared.state.lock().progress.expected = self.explain()?.entries;
        let worker = Worker {
            query: self.clone(),
            policy: policy.clone(),
            operations,
            job,
            after,
            shared: Arc::clone(&shared),
            _named: named,
        };
        let thread = std::thread::Builder::new().name("spikelet-background".into());
        let thread = thread.spawn(move || worker.run()).map_err(|error| {
            Error::Forbidden(
                format!("no thread for an operation in the background: {error}").into(),
            )
        })?;
        Ok(BackgroundOperation {
            shared: ResumedJob(shared),
            thread,
        })
    }

    /// A hash of what an operation in the background is to do.
    fn job(&self, policy: &BackgroundPolicy, operations: &[Operation]) -> String {
        let write = policy.write.clone();
        // Timeout and acknowledgement change no record.
        let write = write.total_timeout(None).acknowledge(Acknowledge::Applied);
        let records = (&self.conditions, &self.filter, self.companions);
        let shown = (self.identity(), records, write, operations);
        format!(".{:032x}", xxh3_128(format!("{shown:?}").as_bytes()))
    }

    /// Passes the digests of all records that the query finds to `each`, in the order of the
    /// primary index, each once, damaged records included, until it breaks off. `after`: the place
    /// to begin behind. Damaged records without a digest go to `lost`.
    fn each_digest(
        &self,
        mut after: Option<Digest>,
        lost: &mut dyn FnMut(Error),
        mut each: impl FnMut(Digest) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        loop {
            let digests = self.digests_behind(after, lost)?;
            if digests.is_empty() {
                return Ok(());
            }
            for digest in digests {
                if each(digest)?.is_break() {
                    return Ok(());
                }
                after = Some(digest);
            }
        }
    }

    /// The first records behind one, in the order of the primary index, damaged ones included, at
    /// most as many as are held at a time. Damaged records without a digest go to `lost`.
    pub(super) fn digests_behind(
        &self,
        after: Option<Digest>,
        lost: &mut dyn FnMut(Error),
    ) -> Result<Vec<Digest>> {
        let after = after.map(place_of);
        let mut lowest = BinaryHeap::new();
        let mut query = self.clone();
        // An index has its records in the order of values: all are gone through, and the lowest
        // digests kept.
        let is_in_order = !matches!(self.source, QuerySource::Index(_));
        if let (true, Some((_, digest))) = (is_in_order, after) {
            query = query.after(&Cursor::new(&self.identity(), digest.as_bytes()));
        }
        let _: ControlFlow<()> = query.run(&mut |found_at, record| {
            let Some(digest) = found_at.and_then(|entry| entry.last_chunk()) else {
                if let Err(error) = record {
                    lost(error);
                }
                return ControlFlow::Continue(());
            };
            let place = place_of(Digest::new(*digest));
            if after.is_some_and(|after| place <= after) {
                return ControlFlow::Continue(());
            }
            lowest.push(place);
            match is_in_order {
                true if lowest.len() >= PLACES_AT_ONCE => return ControlFlow::Break(()),
                false if lowest.len() > PLACES_MAX => drop(lowest.pop()),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        let mut places = lowest.into_sorted_vec();
        // A record that another writer moves on while the index is read is met again there.
        places.dedup();
        Ok(places.into_iter().map(|(_, digest)| digest).collect())
    }
}

/// An operation that has a name, while it runs.
struct NamedJob {
    core: Arc<NamespaceCore>,
    name: Box<str>,
}

impl NamedJob {
    /// # Errors
    /// [`Error::Forbidden`] while another one of the name runs: both would save their positions
    /// under it.
    fn begin(core: &Arc<NamespaceCore>, name: &str) -> Result<Self> {
        let mut running = core.background.lock();
        if running.iter().any(|running| **running == *name) {
            return Err(Error::Forbidden(
                format!("an operation in the background of the name {name:?} is running: wait for its end, or give this one another name")
                    .into(),
            ));
        }
        running.push(name.into());
        Ok(Self {
            core: Arc::clone(core),
            name: name.into(),
        })
    }
}

impl Drop for NamedJob {
    fn drop(&mut self) {
        let mut running = self.core.background.lock();
        running.retain(|running| *running != self.name);
    }
}

struct Worker {
    query: Query,
    policy: BackgroundPolicy,
    operations: Vec<Operation>,
    /// To which a saved position belongs.
    job: String,
    /// The record to begin behind.
    after: Option<Digest>,
    shared: Arc<JobShared>,
    /// Held until the end.
    _named: Option<NamedJob>,
}

impl Worker {
    fn run(&self) -> Result<()> {
        let name = self.policy.name.as_deref();
        let core = &self.query.core;
        let limit = RateLimit::new(self.policy.records_per_second, Due::default());
        let mut met = 0_u64;
        let mut set_names = HashMap::new();
        let mut lost = |error| self.shared.fail(None, None, error);
        self.query.each_digest(self.after, &mut lost, |digest| {
            // First, so that no record is written after a cancellation that came during the wait.
            if let Some(limit) = &limit {
                limit.take();
            }
            if !self.shared.goes_on() {
                return Ok(ControlFlow::Break(()));
            }
            self.meet(digest, &mut set_names)?;
            met += 1;
            if let Some(name) = name
                && met.is_multiple_of(SAVE_EVERY)
            {
                core.save_background(name, &self.job, digest)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        name.map_or(Ok(()), |name| core.forget_background(name))
    }

    /// Writes one record. An error that is not the record's ends the whole. `set_names`: of the
    /// records before.
    fn meet(&self, digest: Digest, set_names: &mut HashMap<u16, String>) -> Result<()> {
        let core = &self.query.core;
        let found = self
            .query
            .read_fitting(&digest, |stored| (stored.set_id(), key_of(stored)));
        let (written, key) = match found {
            Ok(Some((set_id, key))) => {
                let name = || core.storage.set_name(set_id).unwrap_or_default();
                let set_name = set_names.entry(set_id).or_insert_with(name);
                // The store's own sets are left alone, unless they are asked for.
                if self.query.set_id.is_none() && is_own_set(set_name) {
                    return Ok(());
                }
                (self.write(core, &digest, (set_id, set_name)), key)
            }
            Ok(None) => (Err(Error::not_found()), None),
            Err(error) => (Err(error), None),
        };
        match written {
            Ok(()) => self.shared.state.lock().progress.written += 1,
            Err(Error::NotFound { .. } | Error::FilteredOut { .. }) => {
                self.shared.state.lock().progress.passed_over += 1;
            }
            Err(error @ (Error::Storage(_) | Error::StopWrites { .. })) => return Err(error),
            Err(error) => self.shared.fail(Some(digest), key, error),
        }
        Ok(())
    }

    fn write(
        &self,
        core: &Arc<NamespaceCore>,
        digest: &Digest,
        (set_id, set_name): (u16, &str),
    ) -> Result<()> {
        let policy = &self.policy.write;
        let operations = Checked::new(&self.operations, Mode::of(policy.replaces()))?;
        let target = WriteTarget {
            digest: *digest,
            set_name,
            set_id: Some(set_id),
            key: None,
            store_key: false,
            filter: policy.filter.as_ref().or(self.query.filter.as_ref()),
            shards: policy.shard_access(),
            #[cfg(feature = "server")]
            yields: false,
        };
        let mut scratch = Scratch::take();
        // It must exist: one that is deleted after the look at it is not made anew.
        let written = core.write(
            &mut scratch,
            &target,
            policy,
            true,
            &mut |old, facts, body| {
                // They only write; their results are dropped.
                let ignored = &mut OperationResults::default();
                EditOutcome::of_operations(&operations, (old, facts), body, ignored)
            },
        );
        match written {
            Err(refused) if refused.has_edges() && operations.only_deletes() => {
                let namespace = Namespace {
                    core: Arc::clone(core),
                };
                namespace.delete_edges_of(digest, target.filter, policy)
            }
            written => written.map(drop).map_err(|refused| refused.error),
        }
    }
}

fn place_of(digest: Digest) -> DigestPlace {
    (digest.partition(), digest)
}
