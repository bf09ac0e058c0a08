//! Filling an index from the records that there are.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use spikelet_storage::{Digest, PARTITIONS};

use super::super::catalog::DeclaredIndex;
use super::super::core::{NamespaceCore, expired};
use super::super::threads::{each_partition, processors};
use super::Indexes;
use super::index::{Index, IndexState};
use crate::index::{EntryList, GUARDS, IndexDefinition, IndexRule};
use crate::record::RecordView;
use crate::{Error, Result};

/// An index that is being filled from the records that there are, by a thread of its own. Dropping
/// it changes nothing: the thread goes on.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::query::IndexDefinition;
/// let users = spikelet::Store::in_memory()?.set("users")?;
/// users.put("alice", [("city", "Graz")])?;
/// let build = users.build_index(IndexDefinition::new("by_city", ["city"]))?;
/// let (done, of) = build.progress();
/// assert!(done <= of);
/// build.wait()?;
/// assert_eq!(users.query("by_city")?.eq("Graz").count()?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IndexBuild {
    core: Arc<NamespaceCore>,
    /// `None`: there was nothing to build.
    index: Option<Arc<Index>>,
    /// `None`: nothing was to build, or another call builds the index.
    thread: Option<JoinHandle<Result<()>>>,
}

impl IndexBuild {
    /// How many partitions are done, and of how many.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        match &self.index {
            Some(index) => index.progress(),
            None => (PARTITIONS as u64, PARTITIONS as u64),
        }
    }

    /// Whether it has come to its end, good or bad.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match (&self.thread, &self.index) {
            (Some(thread), _) => thread.is_finished(),
            (None, Some(index)) => index.state() != IndexState::Building,
            (None, None) => true,
        }
    }

    /// Whether another call builds the index.
    pub(crate) const fn is_of_another_call(&self) -> bool {
        self.index.is_some() && self.thread.is_none()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The cause of its end: [`Error::NotUnique`], a key that is too long, [`Error::IndexMemory`],
    /// [`Error::ShardIndexed`] for a sharded collection that it cannot hold, [`Error::Forbidden`]
    /// if it was cancelled, a record that is damaged. The index is dropped then.
    /// [`Error::Forbidden`] within a closure that reads or writes a record, too, if it has not
    /// ended: the build goes on. [`Error::IndexNotFound`] if another call has begun the build, and
    /// it has failed.
    pub fn wait(mut self) -> Result<()> {
        if !self.is_finished() {
            self.core.check_may_wait("the build of an index")?;
        }
        match (self.thread.take().map(JoinHandle::join), &self.index) {
            (None, None) => Ok(()),
            (None, Some(index)) => {
                index.await_built();
                index.check_kept()
            }
            (Some(Ok(built)), _) => built,
            (Some(Err(_)), _) => Err(Error::Forbidden(
                "the build of the index has panicked: drop the index and create it again".into(),
            )),
        }
    }

    /// Ends it, and drops the index; within a closure that reads or writes a record, without
    /// waiting for that. The build of another call goes on.
    ///
    /// # Errors
    /// If the end cannot be noted. An index that is complete by now stays.
    pub fn cancel(self) -> Result<()> {
        if self.is_of_another_call() {
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        let index = self.index.clone();
        if let Some(index) = &index {
            index.cancel_build();
        }
        let is_kept = |index: Arc<Index>| {
            core.indexes
                .all()
                .iter()
                .any(|known| Arc::ptr_eq(known, &index))
        };
        match self.wait() {
            Err(Error::Forbidden(_)) => Ok(()),
            // A failed build drops the index as well, which is all that was asked for.
            Err(error) if index.is_some_and(is_kept) => Err(error),
            _ => Ok(()),
        }
    }
}

impl NamespaceCore {
    /// Refuses to wait for every writer within the closure of one, which would wait for itself.
    pub(in crate::engine) fn check_may_wait(&self, what: &str) -> Result<()> {
        if !spikelet_storage::Namespace::thread_is_within() {
            return Ok(());
        }
        Err(Error::Forbidden(
            format!("{what} waits for every writer: ask for it outside of the closure that reads or writes a record").into(),
        ))
    }

    /// Declares an index, and waits until it is built.
    pub(in crate::engine) fn create_index(
        self: &Arc<Self>,
        set: Option<&str>,
        definition: IndexDefinition,
    ) -> Result<()> {
        self.check_may_wait("the build of an index")?;
        loop {
            let build = self.build_index(set, definition.clone())?;
            let is_of_another_call = build.is_of_another_call();
            match build.wait() {
                // It was given up, or has failed: then this call's own build says why.
                Err(Error::IndexNotFound(_)) if is_of_another_call => {}
                built => return built,
            }
        }
    }

    /// Declares an index and begins to build it.
    pub(in crate::engine) fn build_index(
        self: &Arc<Self>,
        set: Option<&str>,
        definition: IndexDefinition,
    ) -> Result<IndexBuild> {
        let mut build = IndexBuild {
            core: Arc::clone(self),
            index: None,
            thread: None,
        };
        let (index, is_new) = self.declare(set, definition)?;
        if !is_new {
            build.index = Some(index).filter(|index| index.state() != IndexState::Ready);
            return Ok(build);
        }
        if index.definition.of_records {
            index.set_state(IndexState::Ready);
            return Ok(build);
        }
        build.index = Some(Arc::clone(&index));
        let (core, filled) = (Arc::clone(self), Arc::clone(&index));
        let thread = std::thread::Builder::new().name("spikelet-index".into());
        match thread.spawn(move || core.fill_or_drop(&filled)) {
            Ok(thread) => build.thread = Some(thread),
            Err(error) => {
                self.drop_unbuilt(&index);
                let text = format!("no thread to build an index: {error}");
                return Err(Error::Forbidden(text.into()));
            }
        }
        Ok(build)
    }

    /// Drops an index that could not be built. A store that is closed meanwhile keeps the
    /// declaration: the next opening builds it.
    fn drop_unbuilt(&self, index: &Index) {
        // By now another index may have its name.
        let dropped = self.drop_index_that(|known| std::ptr::eq(known, index));
        if dropped.is_err() {
            self.give_up(index);
        }
    }

    /// Takes an index off the list that the catalog keeps.
    fn give_up(&self, index: &Index) {
        let _declaring = self.indexes.declaring.lock();
        let mut list = self.indexes.all().to_vec();
        list.retain(|known| !std::ptr::eq(&**known, index));
        index.set_state(IndexState::Dropped);
        self.indexes.replace(list);
    }

    fn fill_or_drop(&self, index: &Index) -> Result<()> {
        // Others may wait for the end of the build, however it comes.
        let _end = EndOfBuild { core: self, index };
        let filled = (0..PARTITIONS).try_for_each(|partition| {
            index.check_goes_on()?;
            self.fill_partition(index, partition)?;
            index.note_built();
            Ok(())
        });
        match filled {
            Ok(()) => {
                let _declaring = self.indexes.declaring.lock();
                if index.state() == IndexState::Building {
                    index.set_state(IndexState::Ready);
                    // Where it cannot be noted, the next opening looks at everything once more.
                    let _ = self.declare_indexes(&self.indexes.all());
                }
                Ok(())
            }
            Err(error) => {
                self.drop_unbuilt(index);
                Err(error)
            }
        }
    }

    /// Adds the entries of a partition's records, each of them locked.
    pub(super) fn fill_partition(&self, index: &Index, partition: usize) -> Result<()> {
        let digests = if GUARDS.keep(IndexRule::LockedAreBuilt) {
            // A writer of a new record may have looked for indexes before this one was there, and
            // the partition has no digest of the record before its version is published.
            self.storage.digests_and_locked(partition)
        } else {
            self.digests_in(partition, |_| true, None, |_| {})
        };
        digests
            .iter()
            .try_for_each(|digest| self.fill_record(index, digest))
    }

    fn fill_record(&self, index: &Index, digest: &Digest) -> Result<()> {
        // Writers that wait for the record are served first, and the one that holds the record of
        // the same unique key.
        while let Err(error) = self.try_fill_record(index, digest) {
            let Error::KeyBusy { .. } = error else {
                return Err(error);
            };
            index.check_goes_on()?;
            crate::sync::yield_now();
        }
        Ok(())
    }

    fn try_fill_record(&self, index: &Index, digest: &Digest) -> Result<()> {
        // Writers look for indexes with their record locked: a write before this lock is read here,
        // and one after it finds the index.
        let lock = self.storage.lock(digest, None)?;
        let entry = match lock.entry() {
            // It says so when it is read, and is in no index until it is written anew.
            Err(error) if error.is_damage() => {
                index.note_unreadable();
                return Ok(());
            }
            entry => entry?,
        };
        let Some(stored) = entry.filter(|entry| index.is_of(entry.set_id())) else {
            return Ok(());
        };
        let is_over = expired(&stored, self.clock.now_ms());
        let filled = self.with_entries_of(index, &stored, |record, _, entries| {
            index.check_sharded(None, record)?;
            if is_over {
                self.insert_expired(index, entries);
                return Ok(());
            }
            let mut entries = entries.iter();
            entries.try_for_each(|entry| self.insert_entry(index, entry, &|_, _| None))
        });
        match filled {
            // It lives again if the clock is set back.
            Err(_) if is_over => index.note_unreadable(),
            filled => return filled,
        }
        Ok(())
    }

    /// Adds all entries of an expired record, which lives again if the clock is set back, or none
    /// where memory is short. Another record may have its unique key.
    fn insert_expired(&self, index: &Index, entries: &EntryList) {
        let inserted = entries.iter().try_for_each(|entry| {
            self.indexes.check_memory(index)?;
            index.insert(entry);
            Ok::<_, Error>(())
        });
        if inserted.is_err() {
            entries.iter().for_each(|entry| index.remove(entry));
            index.note_unreadable();
        }
    }

    /// Fills the indexes that were declared before, at opening: before any write. One whose build
    /// was cut off is filled with a build's checks, and dropped where they fail.
    pub(in crate::engine) fn restore_indexes(&self) -> Result<()> {
        let declared = self.catalog.lock().indexes.clone();
        if declared.is_empty() {
            return Ok(());
        }
        let restore = |declared: DeclaredIndex| {
            let set = declared.set.as_deref();
            let set_id = set.and_then(|set| self.storage.set_id(set));
            let index = Index::new(declared.definition, set, set_id, self.key_hash)?;
            Ok((Arc::new(index), declared.unbuilt))
        };
        let all: Result<Vec<_>> = declared.into_iter().map(restore).collect();
        let all = all?;
        let list = all.iter().map(|(index, _)| Arc::clone(index)).collect();
        self.indexes.replace(list);
        let _ = each_partition(processors(), |partition| {
            self.restore_partition(&all, partition);
            ControlFlow::<()>::Continue(())
        });
        for (index, _) in all
            .iter()
            .filter(|(index, _)| index.check_goes_on().is_ok())
        {
            index.set_state(IndexState::Ready);
        }
        if all.iter().any(|(_, unbuilt)| *unbuilt) {
            // Where it cannot be noted, the next opening makes the checks once more.
            let _ = self.declare_indexes(&self.indexes.all());
        }
        Ok(())
    }

    fn restore_partition(&self, all: &[(Arc<Index>, bool)], partition: usize) {
        let now_ms = self.clock.now_ms();
        let is_wanted = |set_id| all.iter().any(|(index, _)| index.is_of(set_id));
        let _: ControlFlow<()> = self.storage.scan_sets(partition, is_wanted, |entry| {
            self.restore_record(all, entry, now_ms);
            ControlFlow::Continue(())
        });
        all.iter().for_each(|(index, _)| index.note_built());
    }

    fn restore_record(
        &self,
        all: &[(Arc<Index>, bool)],
        entry: spikelet_storage::Result<spikelet_storage::EntryView<'_>>,
        now_ms: u64,
    ) {
        // A damaged record says so when it is read, and is in no index until it is written anew.
        let Ok(entry) = entry else {
            return all.iter().for_each(|(index, _)| index.note_unreadable());
        };
        let set_name = self.storage.set_name(entry.set_id()).unwrap_or_default();
        let facts = self.facts(&entry, &set_name, 0);
        let is_over = expired(&entry, now_ms);
        let record = RecordView::parse(entry.payload());
        let is_filled =
            |index: &Index| index.is_of(entry.set_id()) && index.check_goes_on().is_ok();
        for (index, unbuilt) in all.iter().filter(|(index, _)| is_filled(index)) {
            let Ok(record) = record else {
                index.note_unreadable();
                continue;
            };
            let mut entries = EntryList::default();
            let read = index.entries_of(record, &facts, &mut entries);
            let restored = read.and_then(|()| {
                if *unbuilt {
                    index.check_sharded(None, record)?;
                }
                if is_over {
                    self.insert_expired(index, &entries);
                    return Ok(());
                }
                entries.iter().try_for_each(|entry| {
                    if *unbuilt {
                        // No writer has a record locked.
                        return self.insert_entry(index, entry, &|_, _| Some(Ok(())));
                    }
                    index.insert(entry);
                    Ok(())
                })
            });
            match restored {
                Ok(()) => {}
                Err(error) if *unbuilt && !is_over && !error.is_damage() => self.give_up(index),
                // It had expired when the index was built.
                Err(_) => index.note_unreadable(),
            }
        }
    }
}

/// The end of a build: an index that it leaves incomplete, by a panic, is of no use.
struct EndOfBuild<'i> {
    core: &'i NamespaceCore,
    index: &'i Index,
}

impl Drop for EndOfBuild<'_> {
    fn drop(&mut self) {
        if self.index.state() == IndexState::Building {
            self.core.give_up(self.index);
        }
    }
}

impl Indexes {
    /// Names and statistics of all.
    pub(in crate::engine) fn stats(&self) -> Vec<super::IndexStats> {
        self.all().iter().map(|index| index.stats()).collect()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use spikelet_storage::ManualClock;

    use super::*;
    use crate::{Expiration, NamespaceConfig, Store, WritePolicy};

    #[test]
    fn a_build_waits_for_the_writer_of_another_record_with_its_unique_key() {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let config = NamespaceConfig::new("test").background(false);
        let store = Store::builder().clock(clock.clone()).namespace(config);
        let store = store.open().unwrap();
        let set = store.set("users").unwrap();
        let soon = Expiration::After(Duration::from_secs(2));
        let soon = WritePolicy::default().expiration(soon);
        set.put_with(&soon, "eve", [("mail", "a")]).unwrap();
        set.put("dan", [("mail", "a")]).unwrap();
        let core = &store.namespace("test").unwrap().core;
        let by_mail = IndexDefinition::new("by_mail", ["mail"]).unique(true);
        let (index, _) = core.declare(Some("users"), by_mail).unwrap();
        let [eve, dan] = ["eve", "dan"].map(|key| core.key_hash.digest("users", &key.into()));
        core.fill_record(&index, &eve).unwrap();
        clock.advance_ms(5_000);
        let held = core.storage.lock(&eve, None).unwrap();
        let (ended, has_ended) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| ended.send(core.fill_record(&index, &dan)).unwrap());
            assert!(has_ended.recv_timeout(Duration::from_millis(50)).is_err());
            drop(held);
            has_ended.recv().unwrap().unwrap();
        });
    }
}
