//! Records by set and key, and links to them.

use std::fmt;

use serde::Serialize;

use super::keys::{element_of, key_of};
use crate::{Error, Key, Result, Value};

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

/// The element of a link.
pub(super) fn element(tag: &str, to: &Address) -> Value {
    let set = Value::String(to.set.to_string());
    Value::from(vec![
        Value::String(tag.to_owned()),
        set,
        element_of(&to.key),
    ])
}

/// The link that an element is.
///
/// # Errors
/// [`Error::Parameter`] for an element that another program has put there and that is not a link.
pub(super) fn link_of(element: Value) -> Result<TaggedLink> {
    let refuse = |found: &Value| {
        Error::parameter(format!(
            "{found} stands where a link should: links are lists of tag, set and key"
        ))
    };
    let Value::List(list) = element else {
        return Err(refuse(&element));
    };
    match <[Value; 3]>::try_from(list.into_items()) {
        Ok([Value::String(tag), Value::String(set), key]) => Ok(TaggedLink {
            tag: tag.into(),
            to: Address {
                set: set.into(),
                key: key_of(key)?,
            },
        }),
        Ok(other) => Err(refuse(&Value::from(other.to_vec()))),
        Err(other) => Err(refuse(&Value::from(other))),
    }
}
