//! The numbers of a path's levels, as Aerospike has them.

/// The bits that say how a level selects.
pub(crate) const SELECTOR: i64 = 0x0f;
pub(crate) const BY_INDEX: i64 = 0x00;
pub(crate) const BY_RANK: i64 = 0x01;
pub(crate) const BY_KEY: i64 = 0x02;
pub(crate) const BY_VALUE: i64 = 0x03;
/// Path expressions only: all elements, or the elements for which a condition is true.
pub(crate) const BY_EXPRESSION: i64 = 0x04;
/// Path expressions only.
pub(crate) const BY_KEYS: i64 = 0x0a;

/// The bits that say in what a level looks; with neither, in a list or map.
pub(crate) const IN_LIST: i64 = 0x10;
pub(crate) const IN_MAP: i64 = 0x20;

/// The bits that say which list or map a level creates.
pub(crate) const CREATES: i64 = 0xc0;
pub(crate) const CREATES_UNORDERED: i64 = 0x40;
pub(crate) const CREATES_PADDED_OR_BY_KEY: i64 = 0x80;
pub(crate) const CREATES_ORDERED: i64 = 0xc0;
/// Creates it with a persisted index.
pub(crate) const CREATES_INDEX: i64 = 0x100;

/// Path expressions only: a further condition of the level before.
pub(crate) const AND: i64 = 0x200;
