//! The bytes of one block, read in pieces as a scan asks for them.

use crate::log::block::BlockId;
use crate::log::staging::{BUFFER_BYTES_MAX, Staging};
use crate::log::volume::Volume;

/// How much of a block is read at a time.
const READ_BYTES: usize = 1 << 20;

/// The size of a page, read again alone where a larger piece cannot be read.
const PAGE_BYTES: usize = 4096;

/// The bytes of one block, read as far as they were needed. Unreadable bytes are zero.
#[derive(Debug)]
pub(crate) struct BlockBytes {
    pub(super) bytes: Vec<u8>,
    read_to: usize,
}

impl BlockBytes {
    pub(crate) fn new(block_bytes: u64) -> Self {
        Self {
            bytes: vec![0; block_bytes as usize],
            read_to: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.read_to = 0;
    }

    /// Reads on until at least `to` bytes are here.
    pub(super) fn read(&mut self, volume: &Volume, id: BlockId, to: u64) {
        let to = (to as usize).min(self.bytes.len());
        while self.read_to < to {
            let from = self.read_to;
            let until = (from + READ_BYTES).min(self.bytes.len());
            self.read_to = until;
            self.read_piece(volume, id, from, until);
        }
    }

    fn read_piece(&mut self, volume: &Volume, id: BlockId, from: usize, to: usize) {
        let offset = id.offset_bytes() + from as u64;
        let inside = volume.device().len_bytes().saturating_sub(offset) as usize;
        let Some(piece) = self.bytes.get_mut(from..to) else {
            return;
        };
        let (piece, beyond) = piece.split_at_mut(inside.min(to - from));
        beyond.fill(0);
        // Where a page is unreadable no entry is found: damage, if there was one.
        volume.read_readable(offset, piece, PAGE_BYTES);
    }

    /// Puts the bytes of staging memory in place of the block's from `at` on.
    pub(super) fn overlay(&mut self, staging: &Staging, lane: usize, start: u64, at: u64) {
        let bytes = staging.bytes(lane, at - start, BUFFER_BYTES_MAX);
        let Some(target) = self.bytes.get_mut(at as usize..) else {
            return;
        };
        target
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        let covered = at as usize + bytes.len();
        self.read_to = self.read_to.max(covered.min(self.bytes.len()));
    }

    pub(super) fn from(&self, at: u64) -> &[u8] {
        self.bytes
            .get(at as usize..self.read_to)
            .unwrap_or_default()
    }
}
