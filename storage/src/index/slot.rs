//! One record in the index: 16 bytes, two words.
//!
//! ```text
//! head  tag (24 bits, high) | unverified (1) | location (39)
//! tail  size in 16-byte units (19 bits, high) | tombstone (1) | void-time (32) | set id (12)
//! ```
//! Readers load heads alone; the tail is for the holder of the partition's lock.

use crate::location::Location;

/// The head of a place without a record. No head equals it: its location would be the last unit of
/// the largest device, where no entry fits.
pub(super) const EMPTY: u64 = u64::MAX;

/// How many bits a tag has.
pub(super) const TAG_BITS: u32 = 24;

const TAG_SHIFT: u32 = u64::BITS - TAG_BITS;
const UNVERIFIED: u64 = 1 << Location::BITS;
const _: () = assert!(TAG_BITS + 1 + Location::BITS == u64::BITS);

const SIZE_BITS: u32 = 19;
const SET_BITS: u32 = 12;
const VOID_TIME_SHIFT: u32 = SET_BITS;
const TOMBSTONE: u64 = 1 << (VOID_TIME_SHIFT + u32::BITS);
const SIZE_SHIFT: u32 = u64::BITS - SIZE_BITS;
const _: () = assert!(SET_BITS + u32::BITS + 1 + SIZE_BITS == u64::BITS);

/// The largest span that a slot can hold, in 16-byte units: one less than a block of 8 MiB, and a
/// block begins with its header.
pub(crate) const SIZE_UNITS_MAX: u32 = (1 << SIZE_BITS) - 1;

/// The largest set id that a slot can hold.
pub(crate) const SET_ID_MAX: u16 = (1 << SET_BITS) - 1;

/// What the index knows of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexSlot {
    /// The place of its newest entry.
    pub(crate) location: Location,
    /// The entry's checks have not been looked at since the store was opened.
    pub(crate) unverified: bool,
    /// The span of the entry in 16-byte units, up to [`SIZE_UNITS_MAX`].
    pub(crate) size_units: u32,
    /// When the record expires, in seconds since 2010; 0 = never.
    pub(crate) void_time: u32,
    /// The entry is a tombstone.
    pub(crate) tombstone: bool,
    /// The record's set, up to [`SET_ID_MAX`]; 0 = none.
    pub(crate) set_id: u16,
}

/// A slot with the wanted tag, as a reader without a lock sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// The place of the entry.
    pub(crate) location: Location,
    /// As in [`IndexSlot`].
    pub(crate) unverified: bool,
}

impl Candidate {
    pub(super) const fn from_head(head: u64) -> Self {
        Self {
            location: Location::from_packed(head),
            unverified: head & UNVERIFIED != 0,
        }
    }
}

/// The tag of a head; that of `EMPTY` is the largest.
pub(super) const fn tag_of(head: u64) -> u32 {
    (head >> TAG_SHIFT) as u32
}

impl IndexSlot {
    pub(crate) fn head(&self, tag: u32) -> u64 {
        debug_assert!(tag >> TAG_BITS == 0);
        let unverified = if self.unverified { UNVERIFIED } else { 0 };
        let head = (u64::from(tag) << TAG_SHIFT) | unverified | self.location.packed();
        debug_assert!(head != EMPTY);
        head
    }

    pub(crate) fn tail(&self) -> u64 {
        debug_assert!(self.size_units <= SIZE_UNITS_MAX && self.set_id <= SET_ID_MAX);
        (u64::from(self.size_units) << SIZE_SHIFT)
            | if self.tombstone { TOMBSTONE } else { 0 }
            | (u64::from(self.void_time) << VOID_TIME_SHIFT)
            | u64::from(self.set_id)
    }

    pub(crate) const fn candidate(&self) -> Candidate {
        Candidate {
            location: self.location,
            unverified: self.unverified,
        }
    }

    /// The tag and the slot of two words.
    pub(crate) const fn unpack(head: u64, tail: u64) -> (u32, Self) {
        (tag_of(head), Self::from_words(head, tail))
    }

    pub(super) const fn from_words(head: u64, tail: u64) -> Self {
        let Candidate {
            location,
            unverified,
        } = Candidate::from_head(head);
        Self {
            location,
            unverified,
            size_units: (tail >> SIZE_SHIFT) as u32,
            void_time: (tail >> VOID_TIME_SHIFT) as u32,
            tombstone: tail & TOMBSTONE != 0,
            set_id: tail as u16 & SET_ID_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_as_it_was_packed() {
        let plain = IndexSlot {
            location: Location::from_packed(1),
            unverified: false,
            size_units: 0,
            void_time: 0,
            tombstone: false,
            set_id: 0,
        };
        let cases = [
            plain,
            IndexSlot {
                location: Location::from_packed((1 << Location::BITS) - 2),
                ..plain
            },
            IndexSlot {
                unverified: true,
                ..plain
            },
            IndexSlot {
                size_units: SIZE_UNITS_MAX,
                ..plain
            },
            IndexSlot {
                void_time: u32::MAX,
                ..plain
            },
            IndexSlot {
                tombstone: true,
                ..plain
            },
            IndexSlot {
                set_id: SET_ID_MAX,
                ..plain
            },
        ];
        for slot in cases {
            for tag in [0, 1, 0x80_0001, (1 << TAG_BITS) - 1] {
                assert_eq!(tag_of(slot.head(tag)), tag);
                assert_eq!(IndexSlot::from_words(slot.head(tag), slot.tail()), slot);
                assert_eq!(Candidate::from_head(slot.head(tag)).location, slot.location);
                assert_eq!(
                    Candidate::from_head(slot.head(tag)).unverified,
                    slot.unverified
                );
            }
        }
    }
}
