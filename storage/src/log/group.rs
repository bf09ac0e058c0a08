//! Groups of entries that recovery takes whole or not at all.
//!
//! The members carry the group's number (the first bytes of their bodies); a commit entry with the same number and the
//! count of members follows them. It must stay as long as a member counts, or recovery would not believe the member.

use crate::log::entry::Appended;
use crate::sets::Reader;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Debug)]
struct Group {
    commit: Appended,
    members: u32,
}

/// The groups of which members still count.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_number: HashMap<u64, Group, BuildHasherDefault<NumberHasher>>,
}

/// Leaves numbers in their order, so that groups which are written one after the other lie beside each other in the table:
/// the log gives the numbers out, nobody can choose them. The topmost bits, by which the table tells neighbours apart, are
/// mixed.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write_u64(&mut self, number: u64) {
        const TOPMOST: u64 = 0x7f << 57;
        self.0 = number ^ (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & TOPMOST);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Groups {
    pub(crate) fn add(&mut self, number: u64, commit: Appended, members: u32) {
        self.by_number.insert(number, Group { commit, members });
    }

    /// A member has a second copy, and is to leave twice.
    pub(crate) fn join(&mut self, number: u64) {
        if let Some(group) = self.by_number.get_mut(&number) {
            group.members += 1;
        }
    }

    /// A member was superseded, or moved and stands alone now. Returns the commit entry when it was the last.
    pub(crate) fn leave(&mut self, number: u64) -> Option<Appended> {
        let group = self.by_number.get_mut(&number)?;
        group.members = group.members.saturating_sub(1);
        if group.members > 0 {
            return None;
        }
        self.by_number.remove(&number).map(|group| group.commit)
    }

    /// The commit entry, if it is needed still.
    pub(crate) fn commit_of(&self, number: u64) -> Option<Appended> {
        self.by_number.get(&number).map(|group| group.commit)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Number, members that count, commit entry.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32, Appended)> {
        self.by_number
            .iter()
            .map(|(number, group)| (*number, group.members, group.commit))
    }

    pub(crate) fn moved(&mut self, number: u64, to: Appended) {
        if let Some(group) = self.by_number.get_mut(&number) {
            group.commit = to;
        }
    }
}

pub(crate) const COMMIT_BODY_BYTES: usize = 12;

/// The body of a commit entry: `group u64 | members u32`.
pub(crate) fn commit_body(number: u64, members: u32) -> [u8; COMMIT_BODY_BYTES] {
    let mut body = [0; COMMIT_BODY_BYTES];
    let (group, count) = body.split_at_mut(8);
    group.copy_from_slice(&number.to_le_bytes());
    count.copy_from_slice(&members.to_le_bytes());
    body
}

pub(crate) fn read_commit(body: &[u8]) -> Option<(u64, u32)> {
    let mut reader = Reader(body);
    Some((reader.u64()?, reader.u32()?))
}
