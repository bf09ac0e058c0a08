//! The role of a request in a transaction.

use crate::record::{Key, KeyHash};
use crate::server::fields::{Field, Fields};
use crate::server::message::{Info4, Message, Verb};
use crate::{Digest, Result};

/// The set of the monitors, one record for each transaction. Its key is the number of the
/// transaction.
pub(crate) const MONITOR_SET: &str = "<ERO~MRT";

/// The role of a request in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionPart {
    /// The request belongs to no transaction.
    None,
    /// It is about a monitor.
    Monitor,
    /// It asks whether a record is unchanged since the transaction read it.
    Verify,
    /// The transaction has been committed.
    RollForward,
    /// The transaction is not to be committed.
    RollBack,
    /// It reads or writes a record.
    Member,
}

impl TransactionPart {
    /// Returns the role of a request. Only a read can verify, and only a write, not a delete, can
    /// roll.
    pub(crate) fn of(message: &Message<'_>) -> Self {
        let Message { head, fields, .. } = message;
        let (verb, flags) = (head.verb(), head.info4);
        if verb == Verb::Read && flags.contains(Info4::VERIFY_READ) {
            Self::Verify
        } else if verb == Verb::Write && flags.contains(Info4::ROLL_FORWARD) {
            Self::RollForward
        } else if verb == Verb::Write && flags.contains(Info4::ROLL_BACK) {
            Self::RollBack
        } else if fields.get(Field::Set) == Some(MONITOR_SET.as_bytes()) {
            Self::Monitor
        } else if fields.has(Field::Transaction) {
            Self::Member
        } else {
            Self::None
        }
    }
}

/// The digest of the monitor of the transaction that a request names.
///
/// # Errors
/// [`crate::Error::Parameter`] if the number has not 8 bytes, or is 0.
pub(crate) fn transaction_of(fields: &Fields<'_>) -> Result<Digest> {
    let number = fields.get(Field::Transaction).unwrap_or_default();
    match number.try_into().map(i64::from_le_bytes) {
        Ok(number) if number != 0 => Ok(monitor_digest(number)),
        _ => Err(crate::Error::parameter(
            "the number of a transaction has 8 bytes and is not 0",
        )),
    }
}

/// The digest of the monitor of a transaction.
pub(crate) fn monitor_digest(number: i64) -> Digest {
    KeyHash::Ripemd160.digest(MONITOR_SET, &Key::from(number))
}

/// The version of the record that a request names, if it names one.
///
/// # Errors
/// [`crate::Error::Parameter`] if it has not 7 bytes.
pub(crate) fn version_of(fields: &Fields<'_>) -> Result<Option<u64>> {
    let Some(version) = fields.get(Field::Version) else {
        return Ok(None);
    };
    let version: [u8; VERSION_BYTES] = version
        .try_into()
        .map_err(|_| crate::Error::parameter("the version of a record has 7 bytes"))?;
    let [a, b, c, d, e, f, g] = version;
    Ok(Some(u64::from_le_bytes([a, b, c, d, e, f, g, 0])))
}

/// A stamp as clients carry it.
pub(crate) fn version_bytes(stamp: u64) -> [u8; VERSION_BYTES] {
    let [low @ .., _] = stamp.to_le_bytes();
    low
}

/// The length of a version on the wire.
const VERSION_BYTES: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitor_of_a_transaction_has_the_digest_that_clients_compute() {
        let digest = monitor_digest(0x1122_3344_5566_7788);
        assert_eq!(
            digest.to_string(),
            "d297550848879b2069e5382d25e0648eecfa331a"
        );
    }
}
