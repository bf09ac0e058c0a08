//! Writes records as the text of a backup.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};

use super::float::write_float;
use super::index::{SavedIndex, append_indexes};
use super::label;
use super::record::SavedRecord;
use crate::engine::SavedVersion;
use crate::record::body::RawBin;
use crate::value::{CodecError, ParticleType, ValueRef, is_indexed, stored_to_element};
use crate::{Error, Result, base64};

/// The encoding of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blobs {
    /// Base64: the file is text if its strings are.
    #[default]
    Base64,
    /// Raw bytes: smaller by a quarter.
    Raw,
}

/// Writes a backup record by record. [`Writer::new`] writes the head.
///
/// Buffers no more than one record: pass a buffered output.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    blobs: Blobs,
    written: u64,
    text: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a file. `first`: it is the first, or only, file of its backup.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(out: W, namespace: &str, first: bool, blobs: Blobs) -> io::Result<Self> {
        let mut writer = Self {
            out,
            blobs,
            written: 0,
            text: Vec::new(),
        };
        let text = &mut writer.text;
        text.extend_from_slice(b"Version 3.1\n# namespace ");
        name(namespace.as_bytes(), text);
        text.push(b'\n');
        if first {
            text.extend_from_slice(b"# first-file\n");
        }
        writer.emit()?;
        Ok(writer)
    }

    /// Writes secondary indexes; call it before writing records. Definitions that Aerospike's tools
    /// cannot read go into a module of comments.
    ///
    /// # Errors
    /// The error of the output.
    pub fn write_indexes(&mut self, indexes: &[SavedIndex]) -> io::Result<()> {
        self.text.clear();
        append_indexes(&mut self.text, indexes, name);
        self.emit()
    }

    /// Writes a record that was read.
    ///
    /// # Errors
    /// The error of the output, or [`io::ErrorKind::InvalidData`] if the bins are malformed.
    pub fn write(&mut self, record: &SavedRecord) -> io::Result<()> {
        let version = record.version();
        self.text.clear();
        append_record(
            &mut self.text,
            &record.namespace,
            &record.set,
            &version,
            self.blobs,
        )
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.emit()
    }

    /// Returns the number of bytes written.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Returns the buffer for a record's text, which [`Writer::emit`] writes.
    pub(super) const fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Writes the buffered text and empties the buffer.
    pub(super) fn emit(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.written += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

impl Writer<BufWriter<File>> {
    /// Cuts the file back to this number of bytes.
    pub(super) fn take_back(&mut self, written: u64) -> io::Result<()> {
        self.text.clear();
        self.out.seek(SeekFrom::Start(written))?;
        self.out.get_ref().set_len(written)?;
        self.written = written;
        Ok(())
    }
}

/// Appends the text of a record.
///
/// # Errors
/// [`Error::Malformed`] if a bin's value is malformed.
pub(super) fn append_record(
    out: &mut Vec<u8>,
    namespace: &str,
    set: &str,
    version: &SavedVersion<'_>,
    blobs: Blobs,
) -> Result<()> {
    let malformed = |source| Error::malformed("bin", source);
    if let Some(stored) = version.key {
        key(stored, blobs, out);
    }
    out.extend_from_slice(b"+ n ");
    name(namespace.as_bytes(), out);
    out.extend_from_slice(b"\n+ d ");
    base64::encode_into(version.digest.as_bytes(), out);
    if !set.is_empty() {
        out.extend_from_slice(b"\n+ s ");
        name(set.as_bytes(), out);
    }
    let (generation, void_time) = (version.generation, version.void_time);
    let bins = version.bins.len();
    line(
        out,
        format_args!("\n+ g {generation}\n+ t {void_time}\n+ b {bins}\n"),
    );
    version
        .bins
        .raw_bins()
        .try_for_each(|one| bin(&one, blobs, out).map_err(malformed))
}

/// Whether a restore gives a record this user key again. Wire clients also store doubles, which
/// are written and not read, and blobs of their own, for which the format has no line.
pub(super) fn is_restored(stored: &[u8]) -> bool {
    let kind = stored.first().map(|kind| ParticleType::from_number(*kind));
    matches!(
        kind,
        Some(Ok(ParticleType::Integer
            | ParticleType::String
            | ParticleType::Blob))
    )
}

/// Appends the line of a user key. A key of another type than the format has is left out: its
/// record is found by the digest.
fn key(stored: &[u8], blobs: Blobs, out: &mut Vec<u8>) {
    let Some((kind, bytes)) = stored.split_first() else {
        return;
    };
    let number = <[u8; 8]>::try_from(bytes);
    match (ParticleType::from_number(*kind), number) {
        (Ok(ParticleType::Integer), Ok(number)) => {
            line(out, format_args!("+ k I {}\n", i64::from_be_bytes(number)));
        }
        (Ok(ParticleType::Float), Ok(number)) => {
            out.extend_from_slice(b"+ k D ");
            write_float(f64::from_be_bytes(number), out);
            out.push(b'\n');
        }
        (Ok(ParticleType::String), _) => {
            out.extend_from_slice(b"+ k S ");
            sized(bytes, out);
        }
        (Ok(ParticleType::Blob), _) => {
            out.extend_from_slice(b"+ k ");
            out.push(label::BLOB);
            blob(None, bytes, blobs, out);
        }
        _ => {}
    }
}

fn bin(bin: &RawBin<'_>, blobs: Blobs, out: &mut Vec<u8>) -> std::result::Result<(), CodecError> {
    let head = |out: &mut Vec<u8>, letter: u8| {
        out.extend_from_slice(&[b'-', b' ', letter, b' ']);
        name(bin.name, out);
        out.push(b' ');
    };
    match (bin.kind, ValueRef::stored(bin.kind, bin.value)?) {
        (_, ValueRef::Int(value)) => {
            head(out, label::INTEGER);
            line(out, format_args!("{value}\n"));
        }
        (_, ValueRef::Float(value)) => {
            head(out, label::FLOAT);
            write_float(value, out);
            out.push(b'\n');
        }
        (_, ValueRef::Bool(value)) => {
            head(out, label::BOOL);
            out.extend_from_slice(if value { b"T\n" } else { b"F\n" });
        }
        (ParticleType::String, _) => {
            head(out, label::STRING);
            sized(bin.value, out);
        }
        (ParticleType::GeoJson, _) => {
            head(out, label::GEOJSON);
            sized(bin.value, out);
        }
        (kind, _) => {
            out.extend_from_slice(&[b'-', b' ', label::of_bytes(kind)]);
            // A persisted index is not saved: other programs that read backups do not know it.
            if is_indexed(kind, bin.value)? {
                let mut plain = Vec::with_capacity(bin.value.len());
                stored_to_element(kind, bin.value, &mut plain)?;
                blob(Some(bin.name), &plain, blobs, out);
            } else {
                blob(Some(bin.name), bin.value, blobs, out);
            }
        }
    }
    Ok(())
}

/// Appends the rest of a line of bytes, after the letter: the mark of raw bytes, the bin's name for
/// a bin, length, and bytes.
fn blob(bin_name: Option<&[u8]>, bytes: &[u8], blobs: Blobs, out: &mut Vec<u8>) {
    if blobs == Blobs::Raw {
        out.push(label::RAW);
    }
    out.push(b' ');
    if let Some(bin_name) = bin_name {
        name(bin_name, out);
        out.push(b' ');
    }
    match blobs {
        Blobs::Raw => sized(bytes, out),
        Blobs::Base64 => {
            line(out, format_args!("{} ", base64::encoded_len(bytes.len())));
            base64::encode_into(bytes, out);
            out.push(b'\n');
        }
    }
}

/// Appends a length, the bytes, and the line's end.
fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    line(out, format_args!("{} ", bytes.len()));
    out.extend_from_slice(bytes);
    out.push(b'\n');
}

/// Appends a name, escaped.
fn name(name: &[u8], out: &mut Vec<u8>) {
    for byte in name {
        if matches!(byte, b' ' | b'\n' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

/// Appends formatted text.
fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector does not fail.
    let _ = out.write_fmt(text);
}
