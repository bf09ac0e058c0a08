//! Numbers of the operations on sketches.

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
