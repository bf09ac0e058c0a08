//! Changes of several locked records that are recovered whole or not at all.

use super::delta::EditedRecord;
use super::space_wait::SpaceWait;
use super::{Change, Hold, RecordLock};
use crate::core::Core;
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::log::chain::DELTA_RECORD_BYTES_MIN;
use crate::log::grouped::EntryGroup;
use crate::log::space::SpacePurpose;

/// A locked record of a group, and its change. `None`: the record stays as it is, and stays locked
/// until the others are published.
pub type GroupMember<'n, 'c> = (RecordLock<'n>, Option<Change<'c>>);

/// How many members of a large group the memory is fetched for ahead.
pub(crate) const AHEAD: usize = 16;

/// A group that deletes and makes no record larger goes on when writes are stopped: such as the
/// delete of a record with edges, which shortens the lists of others.
fn purpose_of(members: &[GroupMember<'_, '_>]) -> SpacePurpose {
    let is_put = |(_, change): &GroupMember<'_, '_>| matches!(change, Some(Change::Put(_)));
    let is_delete = |(_, change): &GroupMember<'_, '_>| matches!(change, Some(Change::Delete(_)));
    let makes_larger = |(lock, change): &GroupMember<'_, '_>| match change {
        Some(Change::Put(version)) => lock.makes_larger(version),
        _ => false,
    };
    if !members.iter().any(is_put) {
        SpacePurpose::Delete
    } else if !members.iter().any(is_delete) || members.iter().any(makes_larger) {
        SpacePurpose::Write
    } else {
        SpacePurpose::Shrink
    }
}

/// A group on its way into the log.
#[derive(Default)]
struct AppendedGroup {
    entries: EntryGroup,
    /// Those members that were written by what they change, with their positions.
    edits: Vec<(usize, EditedRecord)>,
}

impl Core {
    /// Applies changes to several locked records: after a crash or a power failure all of them are
    /// there, or none. Readers may see them appear one after the other. Does not wait for
    /// durability.
    ///
    /// `done`, if there is one, is called with whether anything was changed before any of the
    /// records is unlocked.
    pub(crate) fn apply_group(
        &self,
        mut members: Vec<GroupMember<'_, '_>>,
        done: Option<impl FnOnce(bool)>,
    ) -> Result<Option<Lsn>> {
        let mut group = AppendedGroup::default();
        let mut appended = self.append_patiently(&mut members, &mut group);
        let mut lsn = None;
        if appended.is_ok() {
            let mut edits = group.edits.iter().peekable();
            let mut entries = group.entries.appended();
            let mut position = 0;
            let is_large = members.len() > AHEAD;
            for ahead in members.chunks_mut(AHEAD) {
                if is_large {
                    self.prefetch_slots(ahead);
                }
                for (lock, change) in ahead {
                    let edit = edits.next_if(|(of, _)| *of == position);
                    position += 1;
                    let Some(change) = change else { continue };
                    let Some(entry) = entries.next() else {
                        continue;
                    };
                    // Else each member loses its lock as it appears: a writer that has seen one of
                    // them finds the ones still to appear locked.
                    if done.is_some() {
                        lock.hold = Hold::Kept;
                    }
                    lsn = Some(entry.lsn);
                    match (change, edit) {
                        (Change::Put(version), Some((_, edit))) => {
                            let published = lock.publish_delta(version, edit, &entry);
                            appended = appended.and(published);
                        }
                        (change, _) => lock.publish(change, &entry),
                    }
                }
            }
        }
        if let Some(done) = done {
            done(lsn.is_some());
        }
        appended.map(|()| lsn)
    }

    /// Has the memory fetched that publishing these members changes.
    fn prefetch_slots(&self, members: &[GroupMember<'_, '_>]) {
        for (lock, _) in members {
            self.index.at(&lock.digest).prefetch_partition();
        }
        for (lock, _) in members {
            self.index.at(&lock.digest).prefetch_to_write();
        }
    }

    fn append_patiently(
        &self,
        members: &mut [GroupMember<'_, '_>],
        group: &mut AppendedGroup,
    ) -> Result<()> {
        let mut patience = SpaceWait::default();
        loop {
            self.check_open()?;
            match self.append_changes(members, group) {
                Err(full @ Error::StopWrites { .. }) => {
                    let mut locks: Vec<_> = members.iter_mut().map(|(lock, _)| lock).collect();
                    if !patience.wait(self, &mut locks, group.entries.blocks()) {
                        return Err(full);
                    }
                    // Its edits name the locations of the versions before, which may have moved
                    // meanwhile.
                    *group = AppendedGroup::default();
                }
                Err(truncated @ Error::Conflict { .. }) => {
                    // A repetition then meets the end of the truncation.
                    self.log.truncations().wait();
                    return Err(truncated);
                }
                appended => return appended,
            }
        }
    }

    /// Appends the changes as a group: an edit of a large record by what it changes.
    fn append_changes(
        &self,
        members: &[GroupMember<'_, '_>],
        AppendedGroup { entries, edits }: &mut AppendedGroup,
    ) -> Result<()> {
        let purpose = purpose_of(members);
        if members.iter().any(|(_, change)| change.is_some()) {
            self.log.check_writable(purpose)?;
        }
        for (position, (lock, change)) in members.iter().enumerate() {
            if let Some((ahead, _)) = members.get(position + AHEAD) {
                ahead.prefetch();
            }
            let Some(change) = change else { continue };
            lock.check_set(change)?;
            let mut edit = None;
            if let Change::Put(version) = change
                && version.payload.len() >= DELTA_RECORD_BYTES_MIN
            {
                edit = lock.edited(version);
            }
            match edit {
                Some(edit) => {
                    entries.push(edit.entry(), self.log.block_bytes())?;
                    edits.push((position, edit));
                }
                None => entries.push(lock.entry_of(change), self.log.block_bytes())?,
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        // A group that only deletes brings nothing back.
        let known = members.iter().map(|(lock, _)| lock.truncations.known());
        let known = known.min().filter(|_| purpose != SpacePurpose::Delete);
        self.log
            .append_group(known.unwrap_or_default(), purpose, entries)
    }
}
