//! Reading changes, and waiting for them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use spikelet_storage::{
    ChangeKind as LoggedKind, ChangeReader, Delivery, Digest, LoggedChange, Lsn, ReadEnd,
};

use super::change::{Change, ChangeBatch, ChangeKind, time_of};
use super::options::ChangeOptions;
use crate::engine::core::{NamespaceCore, record_of};
use crate::record::{Key, Record};
use crate::{Error, Result, sync};

/// The digest of changes without a record.
const NO_DIGEST: [u8; Digest::LEN] = [0; Digest::LEN];

/// How many log sequence numbers are read at most before a consumer can note where it is.
const AT_ONCE: u64 = 1 << 14;

type Syncing = Pin<Box<dyn Future<Output = spikelet_storage::Result<()>> + Send>>;

/// Changes as they come, from a position on. No changes are kept for it: a stream that is too slow
/// gets [`Error::ChangesLost`]. A [`Subscription`](super::Subscription) has them kept, and
/// remembers where it is.
///
/// As an iterator it waits for the next batch, of 100 changes at most, and never ends but by an
/// error.
pub struct ChangeStream {
    pub(super) core: Arc<NamespaceCore>,
    reader: ChangeReader,
    pub(super) options: ChangeOptions,
    /// The numbers of the sets. Empty: all.
    sets: Vec<u16>,
    share: usize,
    /// The sync that is waited for, where no other thread syncs.
    syncing: Option<Syncing>,
}

/// How many changes the iterators ask for at once.
pub(super) const ITERATED: usize = 100;

impl ChangeStream {
    pub(super) fn new(
        core: &Arc<NamespaceCore>,
        after: Lsn,
        options: ChangeOptions,
        share: usize,
    ) -> Result<Self> {
        let fed = core.storage.fed_sets();
        let number_of = |name: &str| {
            let number = core.storage.set_id(name);
            let kept = number.filter(|number| fed.iter().any(|(set, _)| set == number));
            kept.ok_or_else(|| {
                Error::parameter(format!(
                    "the changes of set \"{name}\" are not kept: enable them first by Changes::enable"
                ))
            })
        };
        let sets = options.sets.iter().map(|name| number_of(name));
        Ok(Self {
            core: Arc::clone(core),
            reader: core.storage.read_changes(options.delivery, after),
            sets: sets.collect::<Result<_>>()?,
            options,
            share,
            syncing: None,
        })
    }

    pub(super) const fn read_to(&self) -> Lsn {
        self.reader.position()
    }

    /// Returns the next changes, `most` of them at most, and a few more where a group ends; waits
    /// for them up to `wait`. An empty batch: none have come.
    ///
    /// # Errors
    /// [`Error::ChangesLost`]; [`Error::Damaged`] where the log, or a record that is shown with its
    /// change or filtered, cannot be read: the changes before it come first, and it fails each call
    /// until the record, which the error names, is written anew or deleted. The errors of a sync.
    /// Where it would wait, [`Error::Storage`] if the store was closed: all changes have been
    /// returned.
    pub fn next_batch(&mut self, most: usize, wait: Duration) -> Result<ChangeBatch> {
        let until = Instant::now().checked_add(wait);
        loop {
            if let Some(batch) = self.next_until(most, until)? {
                return Ok(batch);
            }
        }
    }

    /// As [`ChangeStream::next_batch`]. `None`: many changes were passed over, and more are there.
    pub(super) fn next_until(
        &mut self,
        most: usize,
        until: Option<Instant>,
    ) -> Result<Option<ChangeBatch>> {
        let waker = sync::waker_of_this_thread();
        let mut context = Context::from_waker(&waker);
        loop {
            // A close that ends behind the read has put changes behind it, too.
            let was_closed = self.core.storage.is_closed();
            if let Poll::Ready(batch) = self.poll_open(most, &mut context) {
                return batch;
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {
                    return Ok(Some(ChangeBatch {
                        changes: Vec::new(),
                        position: self.read_to(),
                    }));
                }
                _ if was_closed => return Err(self.closed()),
                _ if self.core.storage.is_closed() => {}
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
    }

    /// Polls for the next changes: as [`ChangeStream::next_batch`], for a `Stream` of any runtime.
    /// The batch is not empty.
    ///
    /// # Errors
    /// As for [`ChangeStream::next_batch`].
    pub fn poll_batch(
        &mut self,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<ChangeBatch>> {
        loop {
            let was_closed = self.core.storage.is_closed();
            match self.poll_open(most, context) {
                Poll::Ready(Ok(Some(batch))) => return Poll::Ready(Ok(batch)),
                Poll::Ready(Ok(None)) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if was_closed => return Poll::Ready(Err(self.closed())),
                Poll::Pending if self.core.storage.is_closed() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Returns the error at the end of a stream that has read everything of a closed namespace.
    fn closed(&self) -> Error {
        let namespace = self.core.storage.name().to_owned();
        spikelet_storage::Error::Closed { namespace }.into()
    }

    /// Polls as long as changes may come. `None`: as for [`ChangeStream::next_until`].
    fn poll_open(
        &mut self,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<ChangeBatch>>> {
        let mut registered = None;
        let begun = self.read_to().get();
        loop {
            let (batch, end) = self.read(most.max(1))?;
            if !batch.is_empty() {
                return Poll::Ready(Ok(Some(batch)));
            }
            if end == ReadEnd::Full {
                if self.read_to().get() - begun < AT_ONCE {
                    continue;
                }
                return Poll::Ready(Ok(None));
            }
            // A change between the read before and now wakes no consumer.
            if registered != Some(end) {
                self.reader.wake_later(end, context.waker());
                registered = Some(end);
                continue;
            }
            match self.poll_sync(context) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) | Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Asks for a sync where only durable changes are shown and no other sync may come for long.
    /// Returns whether there was one.
    fn poll_sync(&mut self, context: &mut Context<'_>) -> Poll<Result<bool>> {
        let storage = &self.core.storage;
        if self.options.delivery == Delivery::Published || self.core.syncs_by_itself {
            return Poll::Ready(Ok(false));
        }
        if self.syncing.is_none() && storage.durable_lsn() < storage.last_lsn() {
            self.syncing = Some(Box::pin(storage.durable(storage.last_lsn())));
        }
        let Some(syncing) = &mut self.syncing else {
            return Poll::Ready(Ok(false));
        };
        syncing.as_mut().poll(context).map(|synced| {
            self.syncing = None;
            synced.map(|()| true).map_err(Error::from)
        })
    }

    /// Returns a future of the next changes: as [`ChangeStream::next_batch`] without an end of the
    /// wait.
    pub fn batch(
        &mut self,
        most: usize,
    ) -> impl Future<Output = Result<ChangeBatch>> + Send + Unpin {
        std::future::poll_fn(move |context| self.poll_batch(most, context))
    }

    /// Reads the next changes. After an error they come again.
    fn read(&mut self, most: usize) -> Result<(ChangeBatch, ReadEnd)> {
        let before = self.read_to();
        let read = self.read_once(most, before);
        let position = read.as_ref().map_or(before, |(batch, _)| batch.position);
        if read.is_err() || position != self.read_to() {
            let storage = &self.core.storage;
            self.reader = storage.read_changes(self.options.delivery, position);
        }
        read
    }

    fn read_once(&mut self, most: usize, before: Lsn) -> Result<(ChangeBatch, ReadEnd)> {
        let (sets, share, shares) = (&self.sets, self.share, self.options.shares);
        let is_wanted = |set: Option<u16>, digest: &Digest| {
            let is_of_set = sets.is_empty() || set.is_none_or(|set| sets.contains(&set));
            let is_record = digest.as_bytes() != &NO_DIGEST;
            is_of_set && (!is_record || digest.partition() % shares == share)
        };
        let read = self.reader.read(most, is_wanted)?;
        let mut changes = Vec::with_capacity(read.changes.len());
        let mut position = before;
        let lsn_of = |change: &LoggedChange| change.position.lsn;
        for group in read
            .changes
            .chunk_by(|one, next| lsn_of(one) == lsn_of(next))
        {
            let complete_before = changes.len();
            let completed: Result<()> = group.iter().try_for_each(|change| {
                changes.extend(self.complete(change)?);
                Ok(())
            });
            match completed {
                Err(error) if position == before => return Err(error),
                // The next read has it.
                Err(_) => {
                    changes.truncate(complete_before);
                    return Ok((ChangeBatch { changes, position }, ReadEnd::Full));
                }
                Ok(()) => position = group.last().map_or(position, lsn_of),
            }
        }
        let position = read.position;
        Ok((ChangeBatch { changes, position }, read.end))
    }

    /// The change with what the options ask for. `None`: it does not pass the filter.
    fn complete(&self, change: &LoggedChange) -> Result<Option<Change>> {
        let core = &self.core;
        let is_truncation = matches!(change.kind, LoggedKind::Truncate { .. });
        let set = change
            .set_id
            .map(|set| core.storage.set_name(set).unwrap_or_default());
        let key = change.key.as_deref();
        let key = key.and_then(|stored| Key::from_stored(stored).ok().map(Key::into_owned));
        let mut record = None;
        if (self.options.records || self.options.filter.is_some()) && !is_truncation {
            let name = set.as_deref().unwrap_or_default();
            match self.record_now(&change.digest, name) {
                Err(Error::FilteredOut { .. }) => return Ok(None),
                Err(error) => {
                    let key = key.unwrap_or_else(|| change.digest.to_string().into());
                    return Err(error.about(name, &key));
                }
                Ok(found) => record = found,
            }
        }
        Ok(Some(Change {
            position: change.position.into(),
            group: change.group,
            set: set.map(Into::into),
            digest: change.digest,
            key,
            kind: match change.kind {
                LoggedKind::Put => ChangeKind::Put,
                LoggedKind::Delete => ChangeKind::Delete,
                LoggedKind::Expire => ChangeKind::Expire,
                LoggedKind::Truncate { before_ms } => ChangeKind::Truncate {
                    before: before_ms.map(time_of),
                },
            },
            generation: change.generation,
            last_update: (!is_truncation).then(|| time_of(change.last_update_ms)),
            record: record.filter(|_| self.options.records),
        }))
    }

    /// The record as it is now, if it passes the filter.
    fn record_now(&self, digest: &Digest, set: &str) -> Result<Option<Record>> {
        let core = &self.core;
        let found = core.read_live(digest, |entry| {
            let filter = self.options.filter.as_ref();
            core.check_filter(filter, entry, set, core.clock.now_ms())?;
            record_of(entry)
        })?;
        found.transpose()
    }
}

/// Shows the options and its position.
impl fmt::Debug for ChangeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream")
            .field("options", &self.options)
            .field("share", &self.share)
            .field("position", &self.read_to())
            .finish_non_exhaustive()
    }
}

impl Iterator for ChangeStream {
    type Item = Result<ChangeBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_batch(ITERATED, Duration::MAX) {
                Ok(batch) if batch.is_empty() => {}
                batch => return Some(batch),
            }
        }
    }
}
