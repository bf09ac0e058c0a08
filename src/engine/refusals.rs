//! Checks and errors that the calls on one record share.

use spikelet_storage::ConflictCause;

use crate::{Error, Result};

/// Refuses another user key than the one that the record stores.
pub(super) fn check_key(given: Option<&[u8]>, stored: Option<&[u8]>) -> Result<()> {
    match (given, stored) {
        (Some(given), Some(stored)) if given != stored => Err(Error::key_mismatch()),
        _ => Ok(()),
    }
}

/// The conflict of a single call, which was made once.
pub(super) const fn conflict(cause: ConflictCause) -> Error {
    Error::Conflict {
        cause,
        attempts: 1,
        record: None,
    }
}

pub(super) fn wrong_set(name: &str) -> Error {
    Error::parameter(format!(
        "the record of this digest is not in set \"{name}\": a digest belongs to one set"
    ))
}
