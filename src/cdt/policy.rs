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

macro_rules! policies {
    ($($(#[$doc:meta])* $policy:ident($order:ident, $flags:ident) $what:literal $(#[$persisting:meta])*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $policy {
            order: $order,
            write_flags: $flags,
            persist_index: bool,
        }

        impl $policy {
            /// Makes a policy with the given order and flags, without persisted index.
            #[must_use]
            pub const fn new(order: $order, write_flags: $flags) -> Self {
                Self {
                    order,
                    write_flags,
                    persist_index: false,
                }
            }

            $(#[$persisting])*
            #[must_use]
            pub const fn persist_index(mut self, persist_index: bool) -> Self {
                self.persist_index = persist_index;
                self
            }

            pub(crate) const fn write_flags(&self) -> $flags {
                self.write_flags
            }

            #[doc = concat!("Returns the flags of a ", $what, " created by this policy.")]
            pub(crate) const fn create_flags(&self) -> u8 {
                let persists = if self.persist_index { FLAG_PERSIST_INDEX } else { 0 };
                self.order.flags() | persists
            }
        }
    )*};
}

policies! {
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
    ListPolicy(ListOrder, ListWriteFlags) "list"
    /// Makes new lists persist the offsets of their elements: access by position then takes one
    /// load, and a search in an ordered list O(log N). Costs up to 4 bytes an element, and next to
    /// nothing if neighbours have the same encoded length. Default: false.
    ;

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
    MapPolicy(MapOrder, MapWriteFlags) "map"
    /// Makes new maps persist the offsets of their entries: a search by key then takes O(log N),
    /// and, if the map is ordered by key and value, a search by value or rank, too. Costs up to 4
    /// bytes an entry, and up to 4 more for the order of values. Default: false.
    ;
}

impl ListPolicy {
    pub(crate) const fn order(&self) -> ListOrder {
        self.order
    }
}
