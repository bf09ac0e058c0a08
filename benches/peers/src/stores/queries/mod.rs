//! Stores of records with a secondary key, the *parent*: an index of the store, or a second table
//! that is written in the same transaction.

mod heed;
mod redb;
mod spikelet;
mod sqlite;

use super::{Commit, Metered, StoreName, VALUE_BYTES, Value};
use crate::Result;
use std::path::Path;

/// Size of a parent, in bytes of text.
pub const PARENT_BYTES: usize = 16;
/// The secondary key: text, so that stores may take it as such.
pub type Parent = [u8; PARENT_BYTES];
/// What a store of bytes keeps of a record: its parent, then its body.
const ROW_BYTES: usize = PARENT_BYTES + VALUE_BYTES;

/// The stores that take part.
pub const TAKE_PART: [StoreName; 6] = [
    StoreName::Redb,
    StoreName::Heed,
    StoreName::Sqlite,
    StoreName::SqliteMemory,
    StoreName::SpikeletMemory,
    StoreName::Spikelet,
];

/// A record: its number, its parent, and a body that begins with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// From 0; keys are made of it by [`key`], so that they are in random order.
    pub number: u64,
    /// The secondary key.
    pub parent: Parent,
    /// As `draw::value` makes it.
    pub body: Value,
}

/// Receives a record's parent and its body, borrowed.
pub type Lend<'a> = dyn FnMut(&[u8], &[u8]) + 'a;

/// A store of records with a secondary key.
pub trait QueryStore: Metered {
    /// Stores new records with their entries in the index; in one transaction where the store has
    /// them.
    fn load(&self, batch: &[Child]) -> Result<()>;

    /// Lends the first `limit` records of a parent.
    fn of_parent(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()>;

    /// Lends the first `limit` records in the order of parents, from this one on.
    fn range_from(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()>;

    /// Lends the records with numbers below `end`, found by a full scan.
    fn scan(&self, end: u64, lend: &mut Lend<'_>) -> Result<()>;

    /// Gives a record another parent, and commits.
    fn set_parent(&self, number: u64, parent: &Parent) -> Result<()>;
}

impl StoreName {
    /// Opens an empty store of records with a secondary key in `dir`.
    pub fn open_queries(self, dir: &Path) -> Result<Box<dyn QueryStore>> {
        Ok(match self {
            Self::Redb => Box::new(redb::Redb::create(dir)?),
            Self::Heed => Box::new(heed::Heed::create(dir)?),
            Self::Sqlite => Box::new(sqlite::open(Some(dir))?),
            Self::SqliteMemory => Box::new(sqlite::open(None)?),
            Self::SpikeletMemory => Box::new(spikelet::Spikelet::create(None)?),
            Self::Spikelet => Box::new(spikelet::Spikelet::create(Some(dir))?),
            other => return Err(other.absent_from("queries")),
        })
    }
}

/// The primary key of a record: no two numbers have the same.
fn key(number: u64) -> i64 {
    let mut bits = number;
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31).cast_signed()
}

/// The key in a store of bytes.
fn key_bytes(number: u64) -> [u8; 8] {
    key(number).to_be_bytes()
}

/// An entry of the second table of a store of bytes: the parent, then the primary key.
const ENTRY_BYTES: usize = PARENT_BYTES + 8;
type Entry = [u8; ENTRY_BYTES];

fn entry(parent: &[u8], key: [u8; 8]) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    let (front, back) = entry.split_at_mut(PARENT_BYTES);
    front.copy_from_slice(parent);
    back.copy_from_slice(&key);
    entry
}

/// The first and the last entry that a parent can have.
fn entries_of(parent: &Parent) -> [Entry; 2] {
    [entry(parent, [0; 8]), entry(parent, [u8::MAX; 8])]
}

/// The primary key in an entry.
fn key_of(entry: &[u8]) -> Result<&[u8]> {
    Ok(entry.get(PARENT_BYTES..).ok_or("an entry without a key")?)
}

/// A record as a store of bytes keeps it.
fn row(parent: &[u8], body: &[u8]) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    let (front, back) = row.split_at_mut(PARENT_BYTES);
    front.copy_from_slice(parent);
    back.copy_from_slice(body);
    row
}

/// Parent and body of a record of a store of bytes.
fn parts(row: &[u8]) -> Result<(&[u8], &[u8])> {
    if row.len() != ROW_BYTES {
        return Err(format!("a record of {} bytes, not {ROW_BYTES}", row.len()).into());
    }
    Ok(row.split_at(PARENT_BYTES))
}

/// The number at the beginning of a body.
pub fn number_of(body: &[u8]) -> u64 {
    let number = body.first_chunk().copied();
    number.map_or(u64::MAX, u64::from_le_bytes)
}

/// All these stores run without waiting for syncs.
const COMMIT: Commit = Commit::Unsynced;

#[cfg(test)]
mod tests;
