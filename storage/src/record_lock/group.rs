//! Changes of several locked records that are recovered whole or not at all.

use super::delta::EditedRecord;
use super::space_wait::Patience;
use super::{Change, RecordLock};
use crate::core::Core;
use crate::entry::{Appended, Lsn};
use crate::error::{Error, Result};
use crate::log::space::Purpose;

impl Core {
    /// Applies changes to several locked records: after a crash or a power failure all of them are there, or none.
    /// Readers may see them appear one after the other. Does not wait for durability.
    ///
    /// `done` is called with whether anything was changed before any of the records is unlocked.
    pub(crate) fn apply_group(
        &self,
        mut changes: Vec<(RecordLock<'_>, Change<'_>)>,
        done: impl FnOnce(bool),
    ) -> Result<Option<Lsn>> {
        let applied = self.append_patiently(&mut changes);
        if let Ok(members) = &applied {
            for ((lock, change), (edit, entry)) in changes.iter_mut().zip(members) {
                lock.keeps = true;
                match (change, edit) {
                    (Change::Put(version), Some(edit)) => lock.publish_delta(version, edit, entry),
                    (change, _) => lock.publish(change, entry),
                }
            }
        }
        done(matches!(&applied, Ok(members) if !members.is_empty()));
        Ok(applied?.last().map(|(_, entry)| entry.lsn))
    }

    fn append_patiently(
        &self,
        changes: &mut [(RecordLock<'_>, Change<'_>)],
    ) -> Result<Vec<(Option<EditedRecord>, Appended)>> {
        let mut patience = Patience::default();
        loop {
            self.check_open()?;
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            match self.append_changes(changes) {
                Err(full @ Error::StopWrites { .. }) => {
                    let mut locks: Vec<_> = changes.iter_mut().map(|(lock, _)| lock).collect();
                    if !patience.wait(self, &mut locks) {
                        return Err(full);
                    }
                }
                appended => return appended,
            }
        }
    }

    /// Appends the changes as a group: an edit of a large record by what it changes.
    fn append_changes(
        &self,
        changes: &[(RecordLock<'_>, Change<'_>)],
    ) -> Result<Vec<(Option<EditedRecord>, Appended)>> {
        let mut purposes = changes.iter().map(|(_, change)| change.purpose());
        let purpose = purposes
            .find(|purpose| *purpose == Purpose::Write)
            .unwrap_or(Purpose::Delete);
        self.log.check_writable(purpose)?;
        changes
            .iter()
            .try_for_each(|(lock, change)| lock.check_set(change))?;
        let edited = |(lock, change): &(RecordLock<'_>, Change<'_>)| match change {
            Change::Put(version) => lock.edited(version),
            Change::Delete(_) => None,
        };
        let edits: Vec<Option<EditedRecord>> = changes.iter().map(edited).collect();
        let entries = changes
            .iter()
            .zip(&edits)
            .map(|((lock, change), edit)| match edit {
                Some(edit) => edit.entry(),
                None => lock.entry_of(change),
            });
        let entries: Vec<_> = entries.collect();
        let appended = self.log.append_group(purpose, &entries)?;
        Ok(edits.into_iter().zip(appended).collect())
    }
}
