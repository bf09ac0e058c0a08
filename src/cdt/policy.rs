//! How a list is created and written.

use bitflags::bitflags;

use crate::value::{FLAG_PERSIST_INDEX, ListOrder};

bitflags! {
    /// What a write to a list refuses, and what then happens.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ListWriteFlags: u32 {
        /// Refuse elements that are equal to one that is there.
        const ADD_UNIQUE = 1;
        /// Refuse to insert beyond the end, instead of filling the gap with nil.
        const INSERT_BOUNDED = 2;
        /// What is refused changes nothing and is no error.
        const NO_FAIL = 4;
        /// With [`ListWriteFlags::NO_FAIL`] and several items: leave out the refused ones and write the others.
        const DO_PARTIAL = 8;
    }
}

/// How a list is created when its bin does not exist yet, and what writes to it refuse.
///
/// Order and persisted index count at creation only: they never convert a list that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListPolicy {
    order: ListOrder,
    write_flags: ListWriteFlags,
    persist_index: bool,
}

impl ListPolicy {
    /// A policy of the given order and flags, without persisted index.
    #[must_use]
    pub const fn new(order: ListOrder, write_flags: ListWriteFlags) -> Self {
        Self {
            order,
            write_flags,
            persist_index: false,
        }
    }

    /// The same, and a list that is created carries the offsets of its elements with it: a position is then one load
    /// away, and a search in an ordered list takes O(log N). Costs up to 4 bytes an element, next to nothing where
    /// neighbours have the same encoded length.
    #[must_use]
    pub const fn persist_index(self) -> Self {
        Self {
            persist_index: true,
            ..self
        }
    }

    pub(crate) const fn write_flags(&self) -> ListWriteFlags {
        self.write_flags
    }

    /// The flags that a list created by this policy carries.
    pub(crate) const fn create_flags(&self) -> u8 {
        self.order.flags()
            | if self.persist_index {
                FLAG_PERSIST_INDEX
            } else {
                0
            }
    }
}
