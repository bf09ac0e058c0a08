//! Reads a snapshot in pieces and sums it up meanwhile: decoded values count only if the sum at the end holds.

use crate::bytes::slice;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

/// How much is read at a time.
const PIECE_BYTES: usize = 1 << 20;
const SUM_BYTES: u64 = 8;

/// A snapshot that is being read, without the sum at its end.
pub(crate) struct SnapshotReader {
    file: File,
    /// Content that was not read from the file yet.
    left: u64,
    piece: Vec<u8>,
    /// How much of the piece was taken.
    taken: usize,
    sum: Xxh3,
    /// The file cannot be read.
    failed: bool,
}

impl SnapshotReader {
    /// Opens a snapshot. `None`: there is none, or it is too short to be one.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let left = file.metadata().ok()?.len().checked_sub(SUM_BYTES)?;
        Some(Self {
            file,
            left,
            piece: Vec::new(),
            taken: 0,
            sum: Xxh3::new(),
            failed: false,
        })
    }

    /// Reads the next piece. False: nothing is left, or it cannot be read.
    fn read_piece(&mut self) -> bool {
        let bytes = self.left.min(PIECE_BYTES as u64) as usize;
        if bytes == 0 || self.failed {
            return false;
        }
        self.piece.resize(bytes, 0);
        self.taken = 0;
        self.left -= bytes as u64;
        if self.file.read_exact(&mut self.piece).is_err() {
            self.failed = true;
            self.piece.clear();
            return false;
        }
        self.sum.update(&self.piece);
        true
    }

    fn fill(&mut self, target: &mut [u8]) -> Option<()> {
        let mut target = target;
        while !target.is_empty() {
            let rest = slice(&self.piece, self.taken..);
            if rest.is_empty() {
                if !self.read_piece() {
                    return None;
                }
                continue;
            }
            let (now, later) = target.split_at_mut(rest.len().min(target.len()));
            now.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            self.taken += now.len();
            target = later;
        }
        Some(())
    }

    /// Takes the next `N` bytes. `None` if fewer are left.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let rest = slice(&self.piece, self.taken..);
        if let Some(own) = rest.first_chunk::<N>() {
            bytes = *own;
            self.taken += N;
        } else {
            self.fill(&mut bytes)?;
        }
        Some(bytes)
    }

    /// Takes the next `length` bytes, `most` at most.
    pub(crate) fn bytes(&mut self, length: usize, most: usize) -> Option<Vec<u8>> {
        if length > most {
            return None;
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Some(bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the rest. Returns whether the sum holds.
    pub(crate) fn holds(mut self) -> bool {
        while self.read_piece() {}
        let mut sum = [0; SUM_BYTES as usize];
        !self.failed
            && self.file.read_exact(&mut sum).is_ok()
            && self.sum.digest() == u64::from_le_bytes(sum)
    }
}

impl std::fmt::Debug for SnapshotReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
