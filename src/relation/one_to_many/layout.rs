//! Where the children of a parent are, and which layout suits how many of them.

use std::fmt;

use crate::query::IndexDefinition;

/// The most bytes that children should take together in their parent's record.
pub const CONSOLIDATED_BYTES_MAX: u64 = 128 * 1024;

/// The most children that a parent should list without a thought: tens to low hundreds.
pub const KEY_LIST_CHILDREN_MAX: u64 = 500;

/// Where the children of a parent are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each child is a record; the parent has an ordered list of their keys in this bin.
    KeyList {
        /// The bin of the parent.
        bin: Box<str>,
    },
    /// The children are in the parent's record: a map in this bin, from their keys to their bins.
    Consolidated {
        /// The bin of the parent.
        bin: Box<str>,
    },
    /// Each child is a record that has its parent's key in this bin; a secondary index finds the
    /// children.
    Reference {
        /// The bin of the child.
        bin: Box<str>,
        /// The index, of the children's set over this bin.
        index: Box<str>,
    },
}

impl Layout {
    /// The keys of children are in this bin of the parent.
    #[must_use]
    pub fn key_list(bin: &str) -> Self {
        Self::KeyList { bin: bin.into() }
    }

    /// The children are in this bin of the parent.
    #[must_use]
    pub fn consolidated(bin: &str) -> Self {
        Self::Consolidated { bin: bin.into() }
    }

    /// The parent's key is in this bin of each child, found by this index.
    #[must_use]
    pub fn reference(bin: &str, index: &str) -> Self {
        Self::Reference {
            bin: bin.into(),
            index: index.into(),
        }
    }

    /// Returns whether children are records of their own.
    pub(super) const fn has_child_records(&self) -> bool {
        !matches!(self, Self::Consolidated { .. })
    }

    /// Returns whether parents list the keys of their children.
    pub(super) const fn is_key_list(&self) -> bool {
        matches!(self, Self::KeyList { .. })
    }

    /// Returns the bin of the parent that is the layout's; `None`: it has none.
    pub(super) fn parent_bin(&self) -> Option<&str> {
        match self {
            Self::KeyList { bin } | Self::Consolidated { bin } => Some(bin),
            Self::Reference { .. } => None,
        }
    }

    /// Returns the index that finds the children.
    pub(super) fn index(&self) -> Option<IndexDefinition> {
        match self {
            Self::Reference { bin, index } => Some(IndexDefinition::new(index, [&**bin])),
            _ => None,
        }
    }

    pub(super) const fn kind(&self) -> LayoutKind {
        match self {
            Self::KeyList { .. } => LayoutKind::KeyList,
            Self::Consolidated { .. } => LayoutKind::Consolidated,
            Self::Reference { .. } => LayoutKind::Reference,
        }
    }
}

/// The kind of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// A list of keys in the parent.
    KeyList,
    /// The children in the parent.
    Consolidated,
    /// The parent's key in each child.
    Reference,
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyList => "key list",
            Self::Consolidated => "consolidated",
            Self::Reference => "reference with an index",
        })
    }
}

/// The content of a relation, and the layout that suits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayoutAdvice {
    /// The layout.
    pub layout: LayoutKind,
    /// How many parents were looked at.
    pub parents: u64,
    /// How many children 99 of 100 parents have at most.
    pub children_p99: u64,
    /// The average size of a child, in bytes of its bins.
    pub child_bytes: u64,
}

/// Returns the layout for this many children a parent, of this size in bytes: by the rule
/// `count * bytes`, which is to stay below 128 KiB for children in their parent, and by a count of
/// some hundreds for a list of their keys.
///
/// ```
/// use spikelet::relation::{LayoutKind, suggest_layout};
/// assert_eq!(suggest_layout(200, 150), LayoutKind::Consolidated); // a post and its comments
/// assert_eq!(suggest_layout(40, 20_000), LayoutKind::KeyList); // an order and its documents
/// assert_eq!(suggest_layout(100_000, 200), LayoutKind::Reference); // a customer and all events
/// ```
#[must_use]
pub const fn suggest_layout(children_p99: u64, child_bytes: u64) -> LayoutKind {
    if children_p99.saturating_mul(child_bytes) <= CONSOLIDATED_BYTES_MAX {
        LayoutKind::Consolidated
    } else if children_p99 <= KEY_LIST_CHILDREN_MAX {
        LayoutKind::KeyList
    } else {
        LayoutKind::Reference
    }
}
