//! Numbers of the operations on sketches, and of their arguments.

use std::ops::RangeInclusive;

pub(crate) const INIT: u8 = 0;
pub(crate) const ADD: u8 = 1;
pub(crate) const SET_UNION: u8 = 2;
pub(crate) const REFRESH_COUNT: u8 = 3;
pub(crate) const FOLD: u8 = 4;
pub(crate) const GET_COUNT: u8 = 50;
pub(crate) const GET_UNION: u8 = 51;
pub(crate) const GET_UNION_COUNT: u8 = 52;
pub(crate) const GET_INTERSECT_COUNT: u8 = 53;
pub(crate) const GET_SIMILARITY: u8 = 54;
pub(crate) const DESCRIBE: u8 = 55;
pub(crate) const MAY_CONTAIN: u8 = 56;

/// Returns the numbers of arguments that an operation takes.
pub(super) const fn argument_counts(operation: u8) -> RangeInclusive<u32> {
    match operation {
        REFRESH_COUNT | GET_COUNT | DESCRIBE => 0..=0,
        // Numbers of bits, and flags.
        INIT => 0..=3,
        ADD => 1..=4,
        SET_UNION => 1..=2,
        _ => 1..=1,
    }
}
