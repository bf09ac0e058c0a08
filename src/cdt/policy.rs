//! Policies for creating and writing lists and maps.

use bitflags::bitflags;

use crate::value::{FLAG_PERSIST_INDEX, ListOrder, MapOrder};

bitflags! {
    /// Conditions under which a write to a list is refused, and the reaction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ListWriteFlags: u32 {
        /// Refuse elements that equal a present one.
        const ADD_UNIQUE = 1;
        /// Refuse to insert beyond the end, instead of filling the gap with nil.
        const INSERT_BOUNDED = 2;
        /// A refused write leaves the list unchanged instead of failing.
        const NO_FAIL = 4;
        /// With [`ListWriteFlags::NO_FAIL`] and several items: skip the refused ones and write the
        /// others.
        const DO_PARTIAL = 8;
    }
}

bitflags! {
    /// Conditions under which a write to a map is refused, and the reaction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MapWriteFlags: u32 {
        /// Refuse keys that exist.
        const CREATE_ONLY = 1;
        /// Refuse keys that do not exist.
        const UPDATE_ONLY = 2;
        /// A refused write leaves the map unchanged instead of failing.
        const NO_FAIL = 4;
        /// With [`MapWriteFlags::NO_FAIL`] and several entries: skip the refused ones and write the
        /// others.
        const DO_PARTIAL = 8;
    }
}

bitflags! {
    /// Options for sorting a list.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ListSortFlags: u32 {
        /// Sort in descending order. Has no effect on an ordered list.
        const DESCENDING = 1;
        /// Keep one of equal elements. Not together with [`ListSortFlags::DESCENDING`] on an
        /// unordered list.
        const DROP_DUPLICATES = 2;
    }
}

/// The form of lists that writes create, and the conditions under which writes are refused.
///
/// Order and persisted index apply at creation only: they never convert an existing list.
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
    /// Makes a policy with the given order and flags, without persisted index.
    #[must_use]
    pub const fn new(order: ListOrder, write_flags: ListWriteFlags) -> Self {
        Self {
            order,
            write_flags,
            persist_index: false,
        }
    }

    /// Makes new lists persist the offsets of their elements: access by position then takes one
    /// load, and a search in an ordered list O(log N). Costs up to 4 bytes an element, and next to
    /// nothing if neighbours have the same encoded length. Default: false.
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

    /// Returns the flags of a list created by this policy.
    pub(crate) const fn create_flags(&self) -> u8 {
        with_index(self.order.flags(), self.persist_index)
    }
}

/// The form of maps that writes create, and the conditions under which writes are refused.
///
/// Order and persisted index apply at creation only: they never convert an existing map.
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
    /// Makes a policy with the given order and flags, without persisted index.
    #[must_use]
    pub const fn new(order: MapOrder, write_flags: MapWriteFlags) -> Self {
        Self {
            order,
            write_flags,
            persist_index: false,
        }
    }

    /// Makes new maps persist the offsets of their entries: a search by key then takes O(log N),
    /// and, if the map is ordered by key and value, a search by value or rank, too. Costs up to 4
    /// bytes an entry, and up to 4 more for the order of values. Default: false.
    #[must_use]
    pub const fn persist_index(mut self, persist_index: bool) -> Self {
        self.persist_index = persist_index;
        self
    }

    pub(crate) const fn write_flags(&self) -> MapWriteFlags {
        self.write_flags
    }

    /// Returns the flags of a map created by this policy.
    pub(crate) const fn create_flags(&self) -> u8 {
        with_index(self.order.flags(), self.persist_index)
    }
}

const fn with_index(order: u8, persist: bool) -> u8 {
    order | if persist { FLAG_PERSIST_INDEX } else { 0 }
}
