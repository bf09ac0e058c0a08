//! A namespace in pieces: the records of a partition, or of some digests, as the text of a backup.
//! A copy that follows the changes of a store is made of these.

use spikelet_storage::{Digest, PARTITIONS};

use super::error::BackupError;
use super::save::{BackupOptions, BackupSummary, Saver};
use super::writer::Writer;
use crate::Namespace;

/// At this size a piece ends, unless a single record is larger.
const PIECE_BYTES: u64 = 4 << 20;

/// Some records of a namespace, as the text of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// The text, which a [`Reader`](super::Reader) reads. That of the first piece has the secondary
    /// indexes, too.
    pub text: Vec<u8>,
    /// Where the next piece begins; `None`: this is the last one.
    pub next: Option<PieceStart>,
    /// The number of damaged records, which are left out. The first piece of a partition counts all
    /// damage of the partition.
    pub damaged: u64,
    /// The number of damaged entries that the store's opening has met. The records of some are
    /// unknown; others are damaged records of the pieces.
    pub passed_over: u64,
}

/// Where a piece begins. As text: `17`, or `17.` and a digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceStart {
    /// The partition, 0 to 4,095.
    pub partition: usize,
    /// The digest behind which the piece begins; `None`: at the begin of the partition.
    pub after: Option<Digest>,
}

impl std::fmt::Display for PieceStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.partition)?;
        match &self.after {
            Some(digest) => write!(f, ".{digest}"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for PieceStart {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        let (partition, after) = match text.split_once('.') {
            Some((partition, digest)) => (partition, digest_of(digest).map(Some)),
            None => (text, Some(None)),
        };
        match (partition.parse(), after) {
            (Ok(partition), Some(after)) if partition < PARTITIONS => Ok(Self { partition, after }),
            _ => Err(crate::Error::parameter(format!(
                "\"{text}\" is no begin of a piece: a partition from 0 to {} is, perhaps with a dot and a digest",
                PARTITIONS - 1
            ))),
        }
    }
}

/// Reads a digest from its 40 hexadecimal digits.
#[must_use]
pub fn digest_of(text: &str) -> Option<Digest> {
    let mut bytes = [0; 20];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Digest::new(bytes))
}

/// Returns the records of a namespace from `start` on, up to some 4 MiB. Records written meanwhile
/// may be missing.
///
/// # Errors
/// A record that cannot be put into the form of a backup; the errors of reading.
pub fn piece(namespace: &Namespace, start: PieceStart) -> Result<Piece, BackupError> {
    let options = BackupOptions::default();
    let mut text = PieceText::begin(namespace, &options)?;
    if start == PieceStart::default() {
        let indexes = text.saver.indexes();
        text.writer.write_indexes(&indexes).map_err(no_room)?;
    }
    let mut at = start;
    while at.partition < PARTITIONS {
        if text.writer.written() >= PIECE_BYTES {
            return Ok(text.end(Some(at)));
        }
        let damaged = &mut text.summary.damaged;
        let digests = namespace.digests_in(at.partition, None, at.after.as_ref(), |_| {
            *damaged += u64::from(at.after.is_none());
        });
        for digest in &digests {
            if text.writer.written() >= PIECE_BYTES {
                return Ok(text.end(Some(at)));
            }
            text.add(digest)?;
            at.after = Some(*digest);
        }
        at = PieceStart {
            partition: at.partition + 1,
            after: None,
        };
    }
    Ok(text.end(None))
}

/// Returns the records of these digests, up to some 4 MiB. A digest without a record is passed
/// over. [`Piece::next`] has the last digest of the piece: those behind it in the list are asked
/// for again.
///
/// # Errors
/// As for [`piece`].
pub fn piece_of(namespace: &Namespace, digests: &[Digest]) -> Result<Piece, BackupError> {
    let options = BackupOptions::default();
    let mut text = PieceText::begin(namespace, &options)?;
    let mut last = None;
    for digest in digests {
        if text.writer.written() >= PIECE_BYTES {
            return Ok(text.end(last));
        }
        text.add(digest)?;
        last = Some(PieceStart {
            partition: digest.partition(),
            after: Some(*digest),
        });
    }
    Ok(text.end(None))
}

/// A piece under way.
struct PieceText<'a> {
    saver: Saver<'a>,
    writer: Writer<Vec<u8>>,
    summary: BackupSummary,
}

impl<'a> PieceText<'a> {
    fn begin(namespace: &'a Namespace, options: &'a BackupOptions) -> Result<Self, BackupError> {
        let writer = Writer::new(Vec::new(), namespace.name(), true, options.blobs);
        Ok(Self {
            saver: Saver::new(namespace, options)?,
            writer: writer.map_err(no_room)?,
            summary: BackupSummary::default(),
        })
    }

    fn add(&mut self, digest: &Digest) -> Result<(), BackupError> {
        let text = self.writer.text();
        if self.saver.record(digest, text, &mut self.summary)? {
            self.writer.emit().map_err(no_room)?;
        }
        Ok(())
    }

    fn end(self, next: Option<PieceStart>) -> Piece {
        Piece {
            text: self.writer.into_inner(),
            next,
            damaged: self.summary.damaged,
            passed_over: self.saver.namespace.opening().damaged_entries,
        }
    }
}

fn no_room(error: std::io::Error) -> BackupError {
    BackupError::Refused(format!("a piece of a backup cannot be made: {error}"))
}
