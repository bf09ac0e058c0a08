//! Policies for writing and reading bits.

use bitflags::bitflags;

bitflags! {
    /// Conditions under which a bit operation is refused, and the reaction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BitWriteFlags: u32 {
        /// Refuse a bin that exists. For `resize` and `insert`.
        const CREATE_ONLY = 1;
        /// Refuse to create the bin.
        const UPDATE_ONLY = 2;
        /// A refused operation leaves the bin unchanged instead of failing.
        const NO_FAIL = 4;
        /// Apply the operation to the part of the range inside the blob. For `remove`, `set`, `or`,
        /// `xor`, `and`, `not` and shifts.
        const PARTIAL = 8;
    }
}

bitflags! {
    /// Options for resizing a blob.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BitResizeFlags: u32 {
        /// Add or remove bytes at the front instead of the end.
        const FROM_FRONT = 1;
        /// Refuse to shrink.
        const GROW_ONLY = 2;
        /// Refuse to grow.
        const SHRINK_ONLY = 4;
    }
}

impl BitResizeFlags {
    pub(crate) const fn to_bits(self) -> u64 {
        self.bits() as u64
    }
}

/// The policy of an operation that writes bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitPolicy {
    write_flags: BitWriteFlags,
}

impl BitPolicy {
    /// Makes a policy with the given flags.
    #[must_use]
    pub const fn new(write_flags: BitWriteFlags) -> Self {
        Self { write_flags }
    }

    pub(crate) const fn write_flags(&self) -> BitWriteFlags {
        self.write_flags
    }
}

/// The treatment of a sum or difference that does not fit its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOverflow {
    /// The operation fails.
    #[default]
    Fail,
    /// The nearest representable value is stored.
    Saturate,
    /// The excess bits are dropped.
    Wrap,
}

/// The reading of bits as an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitSign {
    /// The first bit counts like the others: the integer is not negative.
    #[default]
    Unsigned,
    /// Two's complement: the integer may be negative.
    Signed,
}

/// The wire's bit for [`BitSign::Signed`].
const SIGNED: u64 = 1;
/// The wire's bit for [`BitOverflow::Saturate`].
const SATURATE: u64 = 2;
/// The wire's bit for [`BitOverflow::Wrap`].
const WRAP: u64 = 4;

impl BitSign {
    pub(crate) const fn to_bits(self) -> u64 {
        match self {
            Self::Unsigned => 0,
            Self::Signed => SIGNED,
        }
    }

    /// Returns the sign in the wire's bits, if no other bit is set.
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

    /// Returns sign and overflow in the wire's bits, if the combination is allowed.
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
