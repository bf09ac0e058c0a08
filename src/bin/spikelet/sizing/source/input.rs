//! A file or standard input, unpacked if it is packed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::{shown, unreadable};
use crate::failure::{CommandFailure, Result};

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 16;
/// What every backup file begins with.
const BACKUP_BEGINS: &[u8] = b"Version ";
const GZIP_BEGINS: &[u8] = &[0x1f, 0x8b];
const ZSTD_BEGINS: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The name under which standard input is asked for.
pub(super) const STDIN: &str = "-";

/// Bytes with a known beginning, and their rest.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// The sized input, as text.
pub(super) struct Input {
    pub(super) text: Peeked<BufReader<Box<dyn Read>>>,
    /// Whether the text begins as a backup does.
    pub(super) is_backup: bool,
    /// Bytes that were read of the file, packed as it may be.
    pub(super) read: Rc<Cell<u64>>,
    /// Bytes of the file; 0: not known.
    pub(super) length: u64,
}

impl Input {
    /// Opens a file, or standard input (`-`). Gzip and zstd are recognised by their first bytes,
    /// not by names.
    ///
    /// # Errors
    /// An input without a byte.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = unreadable(path);
        let input = if path.as_os_str() == STDIN {
            Self::new(Box::new(io::stdin()), 0)
        } else {
            let file = File::open(path).map_err(&failed)?;
            let length = file.metadata().map_err(&failed)?.len();
            Self::new(Box::new(file), length)
        };
        let mut input = input.map_err(&failed)?;
        // A pipe with a failed writer would look like a store without records.
        if input.text.fill_buf().map_err(&failed)?.is_empty() {
            return Err(CommandFailure::Input(format!(
                "{} is empty: neither a backup nor JSON lines",
                shown(path)
            )));
        }
        Ok(input)
    }

    fn new(packed: Box<dyn Read>, length: u64) -> io::Result<Self> {
        let read = Rc::new(Cell::new(0));
        let counted = CountedReader {
            from: packed,
            read: Rc::clone(&read),
        };
        let (begins, packed) = peek(BufReader::with_capacity(BUFFER_BYTES, counted))?;
        let text: Box<dyn Read> = if begins.starts_with(GZIP_BEGINS) {
            Box::new(MultiGzDecoder::new(packed))
        } else if begins.starts_with(ZSTD_BEGINS) {
            Box::new(Frames::Between(packed))
        } else {
            Box::new(packed)
        };
        let (begins, text) = peek(BufReader::with_capacity(BUFFER_BYTES, text))?;
        Ok(Self {
            text,
            is_backup: begins.starts_with(BACKUP_BEGINS),
            read,
            length,
        })
    }
}

/// Looks at the first bytes, and gives them back with the rest.
fn peek<R: BufRead>(mut from: R) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut begins = Vec::new();
    from.by_ref()
        .take(BACKUP_BEGINS.len() as u64)
        .read_to_end(&mut begins)?;
    let whole = Cursor::new(begins.clone()).chain(from);
    Ok((begins, whole))
}

/// Counts the bytes that come by.
struct CountedReader {
    from: Box<dyn Read>,
    read: Rc<Cell<u64>>,
}

impl Read for CountedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// Unpacks zstd: one frame after the other, as parallel packers and `cat` make them.
enum Frames<R: BufRead> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Ended) {
                Self::Ended => return Ok(0),
                Self::Between(mut packed) => {
                    if packed.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let damaged = |error| {
                        io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
                    };
                    let frame = StreamingDecoder::new(packed).map_err(damaged)?;
                    *self = Self::Inside(Box::new(frame));
                }
                Self::Inside(mut frame) => {
                    let count = frame.read(buffer)?;
                    if count > 0 || buffer.is_empty() {
                        *self = Self::Inside(frame);
                        return Ok(count);
                    }
                    *self = Self::Between(frame.into_inner());
                }
            }
        }
    }
}
