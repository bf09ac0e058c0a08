//! How bits are written and read.

use bitflags::bitflags;

bitflags! {
    /// What a bit operation refuses, and what then happens.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BitWriteFlags: u32 {
        /// Refuse a bin that exists. For `resize` and `insert`.
        const CREATE_ONLY = 1;
        /// Refuse to create the bin.
        const UPDATE_ONLY = 2;
        /// What is refused changes nothing and is no error.
        const NO_FAIL = 4;
        /// Work on that part of the bits which is there. For `remove`, `set`, `or`, `xor`, `and`, `not` and shifts.
        const PARTIAL = 8;
    }
}

bitflags! {
    /// How a blob is resized.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BitResizeFlags: u32 {
        /// Bytes come or go at the front instead of the end.
        const FROM_FRONT = 1;
        /// Refuse to shrink.
        const GROW_ONLY = 2;
        /// Refuse to grow.
        const SHRINK_ONLY = 4;
    }
}

/// What bit operations that write refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitPolicy {
    write_flags: BitWriteFlags,
}

impl BitPolicy {
    /// A policy of the given flags.
    #[must_use]
    pub const fn new(write_flags: BitWriteFlags) -> Self {
        Self { write_flags }
    }

    pub(crate) const fn write_flags(&self) -> BitWriteFlags {
        self.write_flags
    }
}

/// What becomes of a sum or difference that does not fit its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOverflow {
    /// The operation fails.
    #[default]
    Fail,
    /// The nearest value that fits is stored.
    Saturate,
    /// The bits that do not fit are dropped.
    Wrap,
}

/// How bits are read as an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitSign {
    /// The first bit counts like the others.
    #[default]
    Unsigned,
    /// The integer is in two's complement, so it may be negative.
    Signed,
}

/// The bit of the wire that stands for [`BitSign::Signed`].
const SIGNED: u64 = 1;
/// The bit of the wire that stands for [`BitOverflow::Saturate`].
const SATURATE: u64 = 2;
/// The bit of the wire that stands for [`BitOverflow::Wrap`].
const WRAP: u64 = 4;

impl BitSign {
    pub(crate) const fn to_bits(self) -> u64 {
        match self {
            Self::Unsigned => 0,
            Self::Signed => SIGNED,
        }
    }

    /// The sign of the wire's bits, if there are no others among them.
    pub(super) const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            0 => Some(Self::Unsigned),
            SIGNED => Some(Self::Signed),
            _ => None,
        }
    }
}

impl BitOverflow {
    pub(crate) const fn to_bits(self) -> u64 {
        match self {
            Self::Fail => 0,
            Self::Saturate => SATURATE,
            Self::Wrap => WRAP,
        }
    }

    /// Sign and overflow of the wire's bits, if they are allowed together.
    pub(super) fn with_sign_from_bits(bits: u64) -> Option<(BitSign, Self)> {
        let overflow = match bits & !SIGNED {
            0 => Self::Fail,
            SATURATE => Self::Saturate,
            WRAP => Self::Wrap,
            _ => return None,
        };
        BitSign::from_bits(bits & SIGNED).map(|sign| (sign, overflow))
    }
}
