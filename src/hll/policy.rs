//! How sketches are written.

use bitflags::bitflags;

bitflags! {
    /// What a write to a sketch refuses, and what then happens.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct HllWriteFlags: u32 {
        /// Refuse a bin that exists.
        const CREATE_ONLY = 1;
        /// Refuse to create the bin. Not for adding.
        const UPDATE_ONLY = 2;
        /// What is refused because the bin exists, or does not, changes nothing and is no error.
        const NO_FAIL = 4;
        /// A union may give the bin fewer index bits, and no min-hash bits. For `set_union`.
        const ALLOW_FOLD = 8;
    }
}

/// What operations that write a sketch refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HllPolicy {
    write_flags: HllWriteFlags,
}

impl HllPolicy {
    /// A policy of the given flags.
    #[must_use]
    pub const fn new(write_flags: HllWriteFlags) -> Self {
        Self { write_flags }
    }

    pub(crate) const fn write_flags(&self) -> HllWriteFlags {
        self.write_flags
    }
}
