//! What a record should hold, in 24 bytes: contents are made anew from a seed whenever they are
//! compared.

use crate::chance::Chance;

/// The record's number, its seed, how often it was edited, and the length before any edit.
const PREFIX_BYTES: usize = 24;

/// What an edit inserts or removes.
const EDIT_BYTES: usize = 5;

/// A record is written whole again after so many edits.
pub const EDITS_MAX: u32 = 200;

/// What a record should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub seed: u64,
    /// The length before any edit. 0: there is no record.
    pub base_bytes: u32,
    pub edits: u32,
    /// When it expires, in seconds since 2010; 0 = never.
    pub void_time: u32,
}

impl Expected {
    pub const ABSENT: Self = Self {
        seed: 0,
        base_bytes: 0,
        edits: 0,
        void_time: 0,
    };

    pub fn is_absent(&self) -> bool {
        self.base_bytes == 0
    }

    /// Whether the record may be gone at this time (seconds since 2010).
    pub fn is_over(&self, now_s: u64) -> bool {
        self.void_time != 0 && u64::from(self.void_time) < now_s
    }

    /// The same record after one more edit.
    pub fn edited(self) -> Self {
        Self {
            edits: self.edits + 1,
            ..self
        }
    }

    /// Writes the content that the record with this number should have into `into`.
    pub fn write_content(&self, record: u64, into: &mut Vec<u8>) {
        into.clear();
        into.extend(record.to_le_bytes());
        into.extend(self.seed.to_le_bytes());
        into.extend(self.edits.to_le_bytes());
        into.extend(self.base_bytes.to_le_bytes());
        let mut chance = Chance(self.seed);
        while into.len() < self.base_bytes as usize {
            into.extend(chance.next().to_le_bytes());
        }
        into.truncate(self.base_bytes as usize);
        // An edit inserts some bytes, the next one removes as many elsewhere.
        for edit in 0..self.edits {
            let mut chance = Chance(self.seed ^ (u64::from(edit) << 32) ^ 0xed17);
            let room = into.len() - PREFIX_BYTES - EDIT_BYTES;
            let at = PREFIX_BYTES + chance.below(room as u64) as usize;
            if edit.is_multiple_of(2) {
                let inserted = chance.next().to_le_bytes();
                into.splice(at..at, inserted.into_iter().take(EDIT_BYTES));
            } else {
                into.drain(at..at + EDIT_BYTES);
            }
        }
    }
}

/// Says what a payload claims to be, for messages.
pub fn describe(payload: &[u8]) -> String {
    let word = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(payload.get(at..at + bytes)?);
        Some(u64::from_le_bytes(word))
    };
    match (word(0, 8), word(8, 8), word(16, 4), word(20, 4)) {
        (Some(record), Some(seed), Some(edits), Some(base)) => format!(
            "{} bytes of record {record}, seed {seed:#x}, {edits} edits, {base} bytes at first",
            payload.len()
        ),
        _ => format!("{} bytes", payload.len()),
    }
}
