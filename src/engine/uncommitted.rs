//! What writes leave in the place of records until they are committed: writes of a group, of a transaction of this process, and
//! of a wire client's transaction.

use spikelet_storage::{BufferedVersion, Change, Digest, EntryView, NewVersion};

use super::write::Plan;
use crate::{Error, Result};

/// What an uncommitted write leaves in the place of a record.
#[derive(Clone, Debug)]
pub(super) enum Uncommitted {
    /// A new version, which reads as a stored one does.
    Put(BufferedVersion),
    /// No record.
    Deleted,
}

impl Uncommitted {
    /// Keeps the result of a plan with this body. `None`: the plan writes nothing.
    pub(super) fn of(plan: &Plan<'_>, digest: &Digest, body: &[u8]) -> Option<Self> {
        match plan {
            Plan::Nothing => None,
            Plan::Delete => Some(Self::Deleted),
            Plan::Put(version) => {
                let version = BufferedVersion::new(digest, &version.with_body(body));
                Some(Self::Put(version))
            }
        }
    }

    /// Lends the record as it will be; `None`: deleted.
    pub(super) fn view(&self) -> Option<EntryView<'_>> {
        match self {
            Self::Put(version) => Some(version.view()),
            Self::Deleted => None,
        }
    }

    /// Returns the memory of the version, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put(version) => version.bytes(),
            Self::Deleted => 0,
        }
    }

    /// Returns the change that commits it at this time. `was_there`: whether there is a record to delete; else a deletion
    /// changes nothing.
    pub(super) fn change(&self, was_there: bool, updated_ms: u64) -> Option<Change<'_>> {
        match self {
            Self::Put(version) => Some(Change::Put(NewVersion {
                last_update_ms: updated_ms,
                ..version.version()
            })),
            Self::Deleted => was_there.then_some(Change::Delete(updated_ms)),
        }
    }
}

/// Returns the last-update time of all records that are committed together: one for all, so that a truncation by time takes
/// all or none, and none goes back in time.
pub(super) fn update_time<'w>(written: impl Iterator<Item = &'w Uncommitted>, now_ms: u64) -> u64 {
    let versions = written.filter_map(Uncommitted::view);
    versions.fold(now_ms, |latest, version| {
        latest.max(version.last_update_ms())
    })
}

/// Refuses more records or bytes than a transaction may write.
pub(super) fn check_limit(
    found: usize,
    limit: usize,
    what: &'static str,
    option: &'static str,
) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TransactionLimit {
        what,
        limit: limit as u64,
        option,
    })
}
