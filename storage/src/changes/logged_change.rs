//! A change that was committed, as the log has it.

use crate::digest::Digest;
use crate::entry::{EntryHeader, EntryKind, EntryView, FLAG_EXPIRED, Lsn};
use crate::sets::feed::TruncationEvent;

/// What happened to a record, or to all of a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChangeKind {
    /// The record was written.
    Put,
    /// The record was deleted.
    Delete,
    /// The record was removed because its time was over.
    Expire,
    /// Records of a set, or of all sets, were removed at once.
    Truncate {
        /// Only records last updated before this time, in milliseconds since 2010-01-01 UTC.
        before_ms: Option<u64>,
    },
}

/// The place of a change among all changes of its namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChangePosition {
    /// The log sequence number of the change, or of the last change of its group.
    pub lsn: Lsn,
    /// Its number among the changes of its group, from 0 on.
    pub member: u32,
}

/// A change that was committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedChange {
    /// Its place among all changes.
    pub position: ChangePosition,
    /// The number of its group, which all changes have that were committed together.
    pub group: Option<u64>,
    /// The digest of the record; all zero for a truncation.
    pub digest: Digest,
    /// The number of the set. `None`: a truncation of all sets.
    pub set_id: Option<u16>,
    /// What happened.
    pub kind: ChangeKind,
    /// The generation of the record after it; 0 for a deletion.
    pub generation: u16,
    /// When it happened, in milliseconds since 2010-01-01 UTC; 0 for a truncation.
    pub last_update_ms: u64,
    /// When the record expires, in seconds since 2010-01-01 UTC; 0 = never.
    pub void_time: u32,
    /// The stored user key, if the record keeps it and it is known.
    pub key: Option<Vec<u8>>,
}

const fn at(lsn: u64) -> ChangePosition {
    ChangePosition {
        lsn: Lsn(lsn),
        member: 0,
    }
}

impl LoggedChange {
    /// The change that a version of a record is.
    pub(super) fn of_version(header: &EntryHeader, entry: &EntryView<'_>) -> Self {
        let has_expired = header.flags & FLAG_EXPIRED != 0;
        // The body of a delta does not begin with the key.
        let has_key = header.kind != EntryKind::Delta;
        Self {
            position: at(header.lsn.0),
            group: None,
            digest: header.digest,
            set_id: Some(header.set_id),
            kind: match header.kind {
                EntryKind::Tombstone if has_expired => ChangeKind::Expire,
                EntryKind::Tombstone => ChangeKind::Delete,
                _ => ChangeKind::Put,
            },
            generation: header.generation,
            last_update_ms: header.last_update_ms,
            void_time: header.void_time,
            key: entry.key().filter(|_| has_key).map(<[u8]>::to_vec),
        }
    }

    pub(super) fn of_truncation(event: &TruncationEvent) -> Self {
        Self {
            position: at(event.lsn),
            group: None,
            digest: Digest::new([0; Digest::LEN]),
            set_id: event.set,
            kind: ChangeKind::Truncate {
                before_ms: event.before_ms,
            },
            generation: 0,
            last_update_ms: 0,
            void_time: 0,
            key: None,
        }
    }
}

/// Changes that were committed together, as far as their sets are followed: a whole group, or the
/// piece of one that a stream has read.
#[derive(Clone, Debug)]
pub(super) struct ChangeGroup {
    /// The number of its first entry.
    pub(super) first: u64,
    /// The number of its last one.
    pub(super) last: u64,
    /// Its first entry is not the first of the group.
    pub(super) has_previous: bool,
    /// Its last entry is not the last of the group.
    pub(super) has_next: bool,
    /// Each with a position of its own number.
    pub(super) changes: Vec<LoggedChange>,
}

impl ChangeGroup {
    pub(super) fn of_truncation(event: &TruncationEvent) -> Self {
        Self {
            first: event.lsn,
            last: event.lsn,
            has_previous: false,
            has_next: false,
            changes: vec![LoggedChange::of_truncation(event)],
        }
    }

    /// Whether another piece of the group follows this one.
    pub(super) const fn goes_on_in(&self, next: &Self) -> bool {
        self.has_next && next.has_previous && self.last + 1 == next.first
    }

    pub(super) fn join(&mut self, mut next: Self) {
        self.last = next.last;
        self.has_next = next.has_next;
        self.changes.append(&mut next.changes);
    }

    /// Returns its changes, with their positions in the group. A reader that began inside the group
    /// is behind all of it, and gets nothing.
    pub(super) fn into_changes(self) -> impl Iterator<Item = LoggedChange> {
        let number = (self.first != self.last).then_some(self.first);
        let changes = if self.has_previous {
            Vec::new()
        } else {
            self.changes
        };
        (0..)
            .zip(changes)
            .map(move |(member, change)| LoggedChange {
                position: ChangePosition {
                    lsn: Lsn(self.last),
                    member,
                },
                group: number,
                ..change
            })
    }
}
