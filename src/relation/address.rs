//! Records by set and key, and links to them.

use std::fmt;

use serde::Serialize;

use crate::Key;

/// A record by its set and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Address {
    /// The set.
    pub set: Box<str>,
    /// The key.
    pub key: Key<'static>,
}

/// Shows set and key.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.set, self.key)
    }
}

impl Address {
    /// Returns the address of a record.
    pub fn new<'k>(set: &str, key: impl Into<Key<'k>>) -> Self {
        Self {
            set: set.into(),
            key: key.into().into_owned(),
        }
    }
}

/// A link: its tag, and the record that it leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaggedLink {
    /// The tag.
    pub tag: Box<str>,
    /// The record that it leads to.
    pub to: Address,
}
