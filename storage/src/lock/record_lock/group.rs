//! Changes of several locked records that are recovered whole or not at all.

use super::delta::EditedRecord;
use super::space_wait::Patience;
use super::{Change, RecordLock};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::log::entry::Appended;
use crate::log::entry::{Header, Kind, Lsn, blank_header};
use crate::log::group::commit_body;
use crate::log::space::Purpose;
use crate::sync::atomic::Ordering;
use crate::sync::hint;
use crate::transaction::rules::{Rule, keeps};

/// A group in the log that is not published yet.
struct AppendedGroup {
    number: u64,
    members: Vec<AppendedMember>,
    commit: Appended,
}

struct AppendedMember {
    entry: Appended,
    /// The entry is a delta, and this is what it says.
    edit: Option<EditedRecord>,
}

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
        if let Ok(Some(group)) = &applied {
            self.publish_group(&mut changes, group);
        }
        done(matches!(applied, Ok(Some(_))));
        // It stands behind the members, so it has the highest number.
        Ok(applied?.map(|group| group.commit.lsn))
    }

    fn append_patiently(
        &self,
        changes: &mut [(RecordLock<'_>, Change<'_>)],
    ) -> Result<Option<AppendedGroup>> {
        let mut patience = Patience::default();
        loop {
            self.check_open()?;
            if changes.is_empty() {
                return Ok(None);
            }
            match self.append_group(changes) {
                Err(full @ Error::StopWrites { .. }) => {
                    let mut locks: Vec<_> = changes.iter_mut().map(|(lock, _)| lock).collect();
                    if !patience.wait(self, &mut locks) {
                        return Err(full);
                    }
                }
                appended => return appended.map(Some),
            }
        }
    }

    fn publish_group(&self, changes: &mut [(RecordLock<'_>, Change<'_>)], group: &AppendedGroup) {
        self.any_groups.store(true, Ordering::SeqCst);
        self.groups
            .lock()
            .add(group.number, group.commit, group.members.len() as u32);
        for ((lock, change), AppendedMember { entry, edit }) in
            changes.iter_mut().zip(&group.members)
        {
            lock.keeps = true;
            match (change, edit) {
                (Change::Put(version), Some(edit)) => lock.publish_delta(version, edit, entry),
                (change, _) => lock.publish(change, entry),
            }
        }
    }

    /// Appends the members of a group and its commit entry. An error leaves nothing that counts.
    fn append_group(&self, changes: &[(RecordLock<'_>, Change<'_>)]) -> Result<AppendedGroup> {
        // Deletes alone go on when writes are stopped.
        let puts = changes
            .iter()
            .any(|(_, change)| matches!(change, Change::Put(_)));
        let purpose = if puts {
            Purpose::Write
        } else {
            Purpose::Delete
        };
        self.log.check_writable(purpose)?;
        let (number, members) = loop {
            let points = self.await_truncation_points();
            let number = self.log.draw_number();
            let members = self.append_members(changes, number)?;
            if self.truncation_points.begun() == points || !keeps(Rule::TruncationsBetweenGroups) {
                break (number, members);
            }
            // A truncation would take some of the members and leave others. Without a commit entry none counts.
            self.abandon(&members);
        };
        let header = Header {
            kind: Kind::Commit,
            ..blank_header()
        };
        let body = commit_body(number, members.len() as u32);
        match self.log.append(purpose, header, &[&body], Some(number)) {
            Ok(commit) => Ok(AppendedGroup {
                number,
                members,
                commit,
            }),
            Err(error) => {
                self.abandon(&members);
                Err(error)
            }
        }
    }

    fn abandon(&self, members: &[AppendedMember]) {
        members
            .iter()
            .for_each(|member| self.log.abandon(&member.entry));
    }

    /// Returns how many points of truncations have been drawn, once none is being drawn.
    fn await_truncation_points(&self) -> u64 {
        loop {
            if let Some(points) = self.truncation_points.settled() {
                return points;
            }
            hint::spin_loop();
        }
    }

    /// Appends the members of a group. An error leaves nothing that counts.
    fn append_members(
        &self,
        changes: &[(RecordLock<'_>, Change<'_>)],
        number: u64,
    ) -> Result<Vec<AppendedMember>> {
        let mut members = Vec::with_capacity(changes.len());
        for (lock, change) in changes {
            match lock.append_member(change, number) {
                Ok(member) => members.push(member),
                Err(error) => {
                    self.abandon(&members);
                    return Err(error);
                }
            }
        }
        Ok(members)
    }
}

impl RecordLock<'_> {
    /// Appends a member of a group: an edit of a large record by what it changes.
    fn append_member(&self, change: &Change<'_>, group: u64) -> Result<AppendedMember> {
        let edit = match change {
            Change::Put(version) => self.edited(version, Some(group)),
            Change::Delete(_) => None,
        };
        let entry = match &edit {
            Some(edit) => self.append_delta(edit)?,
            None => self.append(change, Some(group))?,
        };
        Ok(AppendedMember { entry, edit })
    }
}
