//! Policies for writing sketches.

use bitflags::bitflags;

bitflags! {
    /// Conditions under which an operation refuses to write a sketch, and the reaction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct HllWriteFlags: u32 {
        /// Refuse a bin that exists.
        const CREATE_ONLY = 1;
        /// Refuse to create the bin. Not for `add`.
        const UPDATE_ONLY = 2;
        /// A write refused by one of these flags leaves the bin unchanged instead of failing.
        const NO_FAIL = 4;
        /// Lets `set_union` reduce the bin's index bits and drop its min-hash bits.
        const ALLOW_FOLD = 8;
    }
}

/// The policy of an operation that writes a sketch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HllPolicy {
    write_flags: HllWriteFlags,
}

impl HllPolicy {
    /// Makes a policy with the given flags.
    #[must_use]
    pub const fn new(write_flags: HllWriteFlags) -> Self {
        Self { write_flags }
    }

    pub(crate) const fn write_flags(&self) -> HllWriteFlags {
        self.write_flags
    }
}
