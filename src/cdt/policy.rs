//! How a list or map is created and written.

use bitflags::bitflags;

use crate::value::{FLAG_PERSIST_INDEX, ListOrder, MapOrder};

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

bitflags! {
    /// What a write to a map refuses, and what then happens.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MapWriteFlags: u32 {
        /// Refuse keys that are there.
        const CREATE_ONLY = 1;
        /// Refuse keys that are not there.
        const UPDATE_ONLY = 2;
        /// What is refused changes nothing and is no error.
        const NO_FAIL = 4;
        /// With [`MapWriteFlags::NO_FAIL`] and several entries: leave out the refused ones and write the others.
        const DO_PARTIAL = 8;
    }
}

bitflags! {
    /// How a list is sorted.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ListSortFlags: u32 {
        /// The greatest element first. Has no effect on an ordered list.
        const DESCENDING = 1;
        /// Keep one of equal elements. Not together with [`ListSortFlags::DESCENDING`] on a list without order.
        const DROP_DUPLICATES = 2;
    }
}

/// How a list is created when its bin does not exist yet, and what writes to it refuse.
///
/// Order and persisted index count at creation only: they never convert a list that is there.
///
/// ```
/// use spikelet::{ListOrder, ListPolicy, ListWriteFlags};
///
/// // A sorted set that finds its elements in O(log N).
/// let set = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL)
///     .persist_index(true);
/// # let _ = set;
/// ```
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

    /// Whether a list that is created carries the offsets of its elements with it: a position is then one load
    /// away, and a search in an ordered list takes O(log N). Costs up to 4 bytes an element, next to nothing where
    /// neighbours have the same encoded length. Default: false.
    #[must_use]
    pub const fn persist_index(mut self, persist_index: bool) -> Self {
        self.persist_index = persist_index;
        self
    }

    pub(crate) const fn order(&self) -> ListOrder {
        self.order
    }

    pub(crate) const fn write_flags(&self) -> ListWriteFlags {
        self.write_flags
    }

    /// The flags that a list created by this policy carries.
    pub(crate) const fn create_flags(&self) -> u8 {
        with_index(self.order.flags(), self.persist_index)
    }
}

/// How a map is created when its bin does not exist yet, and what writes to it refuse.
///
/// Order and persisted index count at creation only: they never convert a map that is there.
///
/// ```
/// use spikelet::{MapOrder, MapPolicy, MapWriteFlags};
///
/// // A leaderboard: found by name and by score in O(log N).
/// let scores = MapPolicy::new(MapOrder::KeyValueOrdered, MapWriteFlags::empty()).persist_index(true);
/// # let _ = scores;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapPolicy {
    order: MapOrder,
    write_flags: MapWriteFlags,
    persist_index: bool,
}

impl MapPolicy {
    /// A policy of the given order and flags, without persisted index.
    #[must_use]
    pub const fn new(order: MapOrder, write_flags: MapWriteFlags) -> Self {
        Self {
            order,
            write_flags,
            persist_index: false,
        }
    }

    /// Whether a map that is created carries the offsets of its entries with it: an entry is then found by key in
    /// O(log N), and, if the map is ordered by key and value, by value or rank too. Costs up to 4 bytes an entry, and up
    /// to 4 more for the order of values. Default: false.
    #[must_use]
    pub const fn persist_index(mut self, persist_index: bool) -> Self {
        self.persist_index = persist_index;
        self
    }

    pub(crate) const fn write_flags(&self) -> MapWriteFlags {
        self.write_flags
    }

    /// The flags that a map created by this policy carries.
    pub(crate) const fn create_flags(&self) -> u8 {
        with_index(self.order.flags(), self.persist_index)
    }
}

const fn with_index(order: u8, persist: bool) -> u8 {
    order | if persist { FLAG_PERSIST_INDEX } else { 0 }
}
