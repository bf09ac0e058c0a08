//! The record named in an error.

use std::fmt;

use crate::record::Key;

/// Number of a key's characters shown in messages.
const KEY_CHARS_SHOWN: usize = 64;

/// The record that an error is about: its set and its user key.
///
/// Displayed as `record "alice" of set "users"`. The text cuts off long keys; this value does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordId {
    set: Box<str>,
    key: Key<'static>,
}

impl RecordId {
    pub(crate) fn new(set: &str, key: &Key<'_>) -> Self {
        Self {
            set: set.into(),
            key: Key::from(key).into_owned(),
        }
    }

    /// Returns the name of the set; empty for a record without a set.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Returns the user key; the digest as text, if the record stores no key and the caller has not
    /// named it.
    #[must_use]
    pub const fn key(&self) -> &Key<'static> {
        &self.key
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.to_string();
        match key.char_indices().nth(KEY_CHARS_SHOWN) {
            Some((at, _)) => write!(f, "record {}..", key.get(..at).unwrap_or(&key))?,
            None => write!(f, "record {key}")?,
        }
        if self.set.is_empty() {
            Ok(())
        } else {
            write!(f, " of set \"{}\"", self.set)
        }
    }
}

/// Displays the record of an error at the beginning of a message.
pub(super) struct ErrorSubject<'a>(pub(super) &'a Option<Box<RecordId>>);

impl fmt::Display for ErrorSubject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(record) => record.fmt(f),
            None => f.write_str("the record"),
        }
    }
}

/// Displays the record after the name of a bin; nothing if the record is unknown.
pub(super) struct OfRecord<'a>(pub(super) &'a Option<Box<RecordId>>);

impl fmt::Display for OfRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(record) => write!(f, " of {record}"),
            None => Ok(()),
        }
    }
}
