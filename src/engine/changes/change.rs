//! A change, and its position.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use spikelet_storage::{ChangePosition, Digest, EPOCH_UNIX_SECONDS, Lsn};

use crate::record::{Key, Record};
use crate::{Error, Result};

/// The place of a change among all changes of its namespace. Positions rise, and none is ever given
/// to two changes.
///
/// As text it is the log sequence number, and for all but the first change of a group its number
/// there: `1207`, `1207.1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    lsn: Lsn,
    member: u32,
}

impl Position {
    /// Returns the log sequence number of the change, or of the commit of its group.
    #[must_use]
    pub const fn lsn(self) -> Lsn {
        self.lsn
    }
}

impl From<ChangePosition> for Position {
    fn from(position: ChangePosition) -> Self {
        Self {
            lsn: position.lsn,
            member: position.member,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            0 => write!(f, "{}", self.lsn),
            member => write!(f, "{}.{member}", self.lsn),
        }
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (lsn, member) = text.split_once('.').unwrap_or((text, "0"));
        match (lsn.parse(), member.parse()) {
            (Ok(lsn), Ok(member)) => Ok(Self {
                lsn: Lsn::new(lsn),
                member,
            }),
            _ => Err(Error::parameter(format!(
                "\"{text}\" is no position of a change: a number is, such as 1207, or 1207.1"
            ))),
        }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The record was written.
    Put,
    /// The record was deleted.
    Delete,
    /// The record was removed because its time was over.
    Expire,
    /// Records of a set, or of all sets, were removed at once. None of them has a change of its own
    /// for that.
    Truncate {
        /// Only records last updated before this time.
        before: Option<SystemTime>,
    },
}

/// A change that was committed.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// Its position.
    pub position: Position,
    /// Changes that were committed together have the same number, and come together.
    pub group: Option<u64>,
    /// The set; empty: none. `None`: a truncation of all sets.
    pub set: Option<Box<str>>,
    /// The digest of the record. All zero for a truncation.
    pub digest: Digest,
    /// The user key. `None` where the record stores no key, or bytes that form no [`Key`]; for a
    /// truncation; and for the edit of a large record that is gone since.
    pub key: Option<Key<'static>>,
    /// What happened.
    pub kind: ChangeKind,
    /// The generation that the change has given the record; 0 for what removes records.
    pub generation: u16,
    /// When it happened. `None` for a truncation.
    pub last_update: Option<SystemTime>,
    /// The record as it is now, which may be newer than the change, if the subscription asks for
    /// records. `None`: there is no such record now.
    pub record: Option<Record>,
}

/// A time in milliseconds since 2010.
pub(super) fn time_of(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms.saturating_add(EPOCH_UNIX_SECONDS * 1000))
}

/// Changes in their order. A group is whole in it.
#[derive(Clone, Debug, Default)]
pub struct ChangeBatch {
    pub(super) changes: Vec<Change>,
    pub(super) position: Lsn,
}

impl ChangeBatch {
    /// Returns up to where the changes have been read with this batch. A
    /// [`Start::After`](super::Start::After) of it goes on behind the batch.
    #[must_use]
    pub const fn position(&self) -> Position {
        Position {
            lsn: self.position,
            member: 0,
        }
    }
}

impl std::ops::Deref for ChangeBatch {
    type Target = [Change];

    fn deref(&self) -> &[Change] {
        &self.changes
    }
}

impl IntoIterator for ChangeBatch {
    type Item = Change;
    type IntoIter = std::vec::IntoIter<Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.changes.into_iter()
    }
}

impl<'a> IntoIterator for &'a ChangeBatch {
    type Item = &'a Change;
    type IntoIter = std::slice::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.changes.iter()
    }
}
