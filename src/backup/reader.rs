//! Reads the text of a backup, one record after another.

use std::io::BufRead;

use serde::Serialize;
use spikelet_storage::Digest;

use super::error::ReadError;
use super::index::{self, SavedIndex};
use super::label;
use super::record::SavedRecord;
use super::scanner::{InputPlace, MAX_VALUE_BYTES, Scanner};
use crate::record::body::{MAX_VARINT_BYTES, write_raw_bin, write_varint};
use crate::record::{BinName, MAX_BINS, RecordView};
use crate::value::{ParticleType, Value, from_wire, write_stored};
use crate::{base64, geo, hll};

/// The length of a digest in Base64.
const DIGEST_LETTERS: u64 = base64::encoded_len(Digest::LEN) as u64;

/// Reads a backup record by record. Holds one record in memory, at most 16 MiB.
///
/// ```
/// # fn main() -> Result<(), spikelet::backup::ReadError> {
/// let text = "Version 3.1\n# namespace test\n# first-file\n\
///     + k S 3 ada\n+ n test\n+ d t5gSIrdLRq0fszolFJ3x8LfHzQI=\n+ s users\n+ g 2\n+ t 0\n+ b 1\n- I age 44\n";
/// let mut reader = spikelet::backup::Reader::new(text.as_bytes())?;
/// let ada = reader.next_record()?.expect("there is one");
/// assert_eq!((ada.set.as_str(), ada.generation), ("users", 2));
/// assert_eq!(ada.view().bin("age").and_then(|age| age.as_i64()), Some(44));
/// assert_eq!(reader.next_record()?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    scanner: Scanner<R>,
    namespace: Option<String>,
    indexes: Vec<SavedIndex>,
    /// Skips a malformed index definition instead of failing.
    tolerates_indexes: bool,
    /// The errors of skipped definitions.
    index_faults: Vec<ReadError>,
    skipped: Skipped,
    /// Buffers reused from bin to bin.
    wire: Vec<u8>,
    value: Vec<u8>,
}

/// Counts of content that a reader has skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Modules of user-defined functions.
    pub modules: u64,
    /// Bins without a value.
    pub nil_bins: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads the head of a backup.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] unless it is a backup of version 3.0, 3.1 or 3.2;
    /// [`ReadError::Io`].
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut scanner = Scanner::new(input);
        scanner.literal(b"Version ", "\"Version 3.1\", with which a backup begins")?;
        let place = scanner.place();
        match scanner.token(b"\n", "the version")?.as_slice() {
            // 3.2 has indexes of expressions, too.
            b"3.1" | b"3.2" => drop(scanner.take_escapes(true)),
            b"3.0" => {}
            other => {
                return Err(place.malformed(format!(
                    "version {:?} of the format is not known, 3.0 to 3.2 are",
                    String::from_utf8_lossy(other)
                )));
            }
        }
        scanner.literal(b"\n", "the version")?;
        let mut namespace = None;
        while scanner.peek()? == Some(b'#') {
            scanner.literal(b"# ", "a line about the backup")?;
            let place = scanner.place();
            match scanner.token(b" \n", "a line about the backup")?.as_slice() {
                b"namespace" => {
                    scanner.literal(b" ", "the line of the namespace")?;
                    namespace = Some(scanner.name_line("the namespace")?);
                }
                b"first-file" => scanner.literal(b"\n", "the line \"# first-file\"")?,
                other => {
                    return Err(place.malformed(format!(
                        "\"# {}\" is not known: \"# namespace\" and \"# first-file\" are",
                        String::from_utf8_lossy(other)
                    )));
                }
            }
        }
        Ok(Self {
            scanner,
            namespace,
            indexes: Vec::new(),
            tolerates_indexes: false,
            index_faults: Vec::new(),
            skipped: Skipped::default(),
            wire: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Makes the reader skip malformed index definitions, and collect their errors.
    pub(super) const fn tolerate_indexes(&mut self) {
        self.tolerates_indexes = true;
    }

    /// Takes the errors of skipped index definitions.
    pub(super) fn take_index_faults(&mut self) -> Vec<ReadError> {
        std::mem::take(&mut self.index_faults)
    }

    /// Returns the namespace named in the head.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the number of bytes read.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.scanner.place().offset
    }

    /// Returns the counts of skipped content up to the current position.
    #[must_use]
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Returns the secondary indexes read up to the current position. Backups have them before the
    /// records. If two have the same name, the later one is more complete.
    #[must_use]
    pub fn indexes(&self) -> &[SavedIndex] {
        &self.indexes
    }

    /// Returns the next record; `None` at the end of the file. After an error, further calls are
    /// meaningless. A file cut off between two records looks like a shorter one: the format has no
    /// end mark.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] with the place of the fault; [`ReadError::Io`].
    pub fn next_record(&mut self) -> Result<Option<SavedRecord>, ReadError> {
        loop {
            let place = self.scanner.place();
            match self.scanner.peek()? {
                None => return Ok(None),
                Some(b'+') => return self.record(place).map(Some),
                Some(b'*') => self.global()?,
                Some(_) => {
                    return Err(place.malformed(
                        "neither a record (\"+ \") nor an index or module (\"* \") begins here",
                    ));
                }
            }
        }
    }

    /// Reads an index, or skips a module of functions. Names here have escapes even in version 3.0,
    /// where records have none: asrestore reads them so.
    fn global(&mut self) -> Result<(), ReadError> {
        let escapes = self.scanner.take_escapes(true);
        let read = self.global_with_escapes();
        self.scanner.take_escapes(escapes);
        read
    }

    fn global_with_escapes(&mut self) -> Result<(), ReadError> {
        let scanner = &mut self.scanner;
        scanner.literal(b"* ", "an index or module")?;
        let place = scanner.place();
        match scanner.byte("an index or module")? {
            letter @ (b'i' | b'e') => match index::read_line(scanner, letter == b'e') {
                Ok(index) => self.indexes.push(index),
                Err(fault @ ReadError::Malformed { .. }) if self.tolerates_indexes => {
                    self.index_faults.push(fault);
                    // Otherwise the fault was found at the end of the line.
                    if scanner.place().line == place.line {
                        scanner.pass_over_line("an index")?;
                    }
                }
                Err(error) => return Err(error),
            },
            b'u' => {
                scanner.literal(b" L ", "a module (its language must be L, Lua)")?;
                let name = scanner.token(b" ", "the name of a module")?;
                scanner.literal(b" ", "a module")?;
                if name != index::MODULE.as_bytes() {
                    self.skipped.modules += 1;
                    return scanner.pass_over("the text of a module");
                }
                let place = scanner.place();
                let mut text = Vec::new();
                scanner.raw_line(&mut text, "the text of a module")?;
                match index::definitions_of(&text, place) {
                    Ok(Some(indexes)) => self.indexes.extend(indexes),
                    Ok(None) => self.skipped.modules += 1,
                    Err(fault) if self.tolerates_indexes => self.index_faults.push(fault),
                    Err(error) => return Err(error),
                }
            }
            other => {
                return Err(place.malformed(format!(
                    "'{}' is neither an index (i, e) nor a module (u)",
                    other.escape_ascii()
                )));
            }
        }
        Ok(())
    }

    fn record(&mut self, place: InputPlace) -> Result<SavedRecord, ReadError> {
        const HEAD: &str = "the head of a record";
        let scanner = &mut self.scanner;
        scanner.literal(b"+ ", HEAD)?;
        let mut stored_key = None;
        if scanner.peek()? == Some(b'k') {
            scanner.literal(b"k ", HEAD)?;
            stored_key = key(scanner)?;
            scanner.literal(b"+ ", HEAD)?;
        }
        scanner.literal(b"n ", HEAD)?;
        let namespace = scanner.name_line("the namespace")?;
        scanner.literal(b"+ d ", HEAD)?;
        let mut digest = Vec::new();
        let digest_place = scanner.place();
        scanner.base64(DIGEST_LETTERS, &mut digest, "the digest")?;
        scanner.literal(b"\n", "the digest")?;
        let digest: [u8; Digest::LEN] = digest
            .try_into()
            .map_err(|_| digest_place.malformed("the digest has not 20 bytes"))?;
        scanner.literal(b"+ ", HEAD)?;
        let mut set = String::new();
        if scanner.peek()? == Some(b's') {
            scanner.literal(b"s ", HEAD)?;
            set = scanner.name_line("the set")?;
            scanner.literal(b"+ ", HEAD)?;
        }
        scanner.literal(b"g ", HEAD)?;
        let generation = scanner.integer(0..=u16::MAX.into(), b'\n', "generation")?;
        scanner.literal(b"+ t ", HEAD)?;
        let void_time = scanner.integer(0..=u32::MAX.into(), b'\n', "time of expiry")?;
        scanner.literal(b"+ b ", HEAD)?;
        let bin_count = scanner.integer(0..=MAX_BINS as i64, b'\n', "number of bins")?;
        let body = self.bins(bin_count as u32)?;
        Ok(SavedRecord {
            namespace,
            set,
            digest: Digest::new(digest),
            // No record has generation 0; read it as the first.
            generation: (generation as u16).max(1),
            void_time: void_time as u32,
            line: place.line,
            offset: place.offset,
            stored_key,
            body,
        })
    }

    /// Reads `announced` bins as the body of a record, in stored form.
    fn bins(&mut self, announced: u32) -> Result<Vec<u8>, ReadError> {
        let place = self.scanner.place();
        let mut bins = Vec::new();
        let mut count = 0;
        for _ in 0..announced {
            count += u32::from(self.bin(&mut bins)?);
            if bins.len() as u64 > MAX_VALUE_BYTES {
                return Err(place.malformed("the bins of a record exceed 16 MiB"));
            }
        }
        let mut body = Vec::with_capacity(MAX_VARINT_BYTES + bins.len());
        write_varint(&mut body, count);
        body.extend_from_slice(&bins);
        let view = RecordView::parse(&body).map_err(|error| place.malformed(error.to_string()))?;
        let mut names: Vec<&[u8]> = view.raw_bins().map(|bin| bin.name).collect();
        names.sort_unstable();
        if names
            .windows(2)
            .any(|two| matches!(two, [one, other] if one == other))
        {
            return Err(place.malformed("the record has two bins of the same name"));
        }
        Ok(body)
    }

    /// Appends one bin to `bins`. Returns `false` for a bin without a value, which is skipped.
    fn bin(&mut self, bins: &mut Vec<u8>) -> Result<bool, ReadError> {
        const BIN: &str = "a bin";
        const VALUE: &str = "the value of a bin";
        let scanner = &mut self.scanner;
        scanner.literal(b"- ", BIN)?;
        let place = scanner.place();
        let letter = scanner.byte(BIN)?;
        let raw = scanner.peek()? == Some(label::RAW);
        if raw {
            scanner.byte(BIN)?;
        }
        scanner.literal(b" ", BIN)?;
        let name = scanner.token(b" \n", "the name of a bin")?;
        let name = BinName::from_utf8(&name).ok_or_else(|| {
            place.malformed(format!(
                "bin name {:?} is not allowed: at most 15 bytes of UTF-8, none of them NUL",
                String::from_utf8_lossy(&name)
            ))
        })?;
        let refused = |why: String| place.malformed(format!("bin \"{name}\": {why}"));
        if letter == label::NIL {
            scanner.literal(b"\n", "a bin without a value")?;
            self.skipped.nil_bins += 1;
            return Ok(false);
        }
        scanner.literal(b" ", BIN)?;
        self.wire.clear();
        self.value.clear();
        let kind = match letter {
            label::INTEGER => {
                let value = scanner.integer(i64::MIN..=i64::MAX, b'\n', "integer")?;
                scalar(&Value::Int(value), &mut self.value)
            }
            label::FLOAT => scalar(&Value::Float(scanner.float_line("float")?), &mut self.value),
            label::BOOL => {
                let place = scanner.place();
                let value = match scanner.byte(VALUE)? {
                    b'T' => true,
                    b'F' => false,
                    _ => return Err(place.malformed("a truth value is neither T nor F")),
                };
                scanner.literal(b"\n", VALUE)?;
                scalar(&Value::Bool(value), &mut self.value)
            }
            label::STRING => {
                scanner.raw_line(&mut self.value, VALUE)?;
                ParticleType::String
            }
            label::ENCODED_STRING => {
                scanner.base64_line(&mut self.value, VALUE)?;
                ParticleType::String
            }
            label::GEOJSON => {
                scanner.raw_line(&mut self.value, VALUE)?;
                geo::validate(&self.value).map_err(|why| refused(why.to_string()))?;
                ParticleType::GeoJson
            }
            label::LARGE_DATA => {
                return Err(refused("large data types are not supported".to_owned()));
            }
            other => {
                let kind = label::bytes_of(other).ok_or_else(|| {
                    refused(format!("'{}' is no type of a value", other.escape_ascii()))
                })?;
                if raw {
                    scanner.raw_line(&mut self.wire, VALUE)?;
                } else {
                    scanner.base64_line(&mut self.wire, VALUE)?;
                }
                from_wire(kind, &self.wire, &mut self.value)
                    .map_err(|why| refused(why.to_string()))?;
                // As in a write: whole bins are checked, elements are not (semantics.md#values).
                if kind == ParticleType::Hll {
                    hll::validate(&self.value).map_err(|why| refused(why.to_string()))?;
                }
                kind
            }
        };
        write_raw_bin(bins, &name, kind, &self.value).map_err(|why| refused(why.to_string()))?;
        Ok(true)
    }
}

/// Appends the stored form of a number or truth value and returns its type.
fn scalar(value: &Value, out: &mut Vec<u8>) -> ParticleType {
    // Only wildcard and infinity have no stored form.
    write_stored(value, out).unwrap_or(ParticleType::Null)
}

/// Reads the user key into its stored form. A float, which today's user keys cannot be, is read as
/// no key.
fn key(scanner: &mut Scanner<impl BufRead>) -> Result<Option<Vec<u8>>, ReadError> {
    const KEY: &str = "the key";
    let place = scanner.place();
    let letter = scanner.byte(KEY)?;
    let raw = letter == label::BLOB && scanner.peek()? == Some(label::RAW);
    if raw {
        scanner.byte(KEY)?;
    }
    scanner.literal(b" ", KEY)?;
    let kind = match letter {
        label::INTEGER => ParticleType::Integer,
        label::STRING | label::ENCODED_STRING => ParticleType::String,
        label::BLOB => ParticleType::Blob,
        label::FLOAT => {
            scanner.float_line("float key")?;
            return Ok(None);
        }
        other => {
            return Err(place.malformed(format!("'{}' is no type of a key", other.escape_ascii())));
        }
    };
    let mut stored = vec![kind.number()];
    match letter {
        label::INTEGER => {
            let value = scanner.integer(i64::MIN..=i64::MAX, b'\n', "integer key")?;
            stored.extend_from_slice(&value.to_be_bytes());
        }
        label::STRING => scanner.raw_line(&mut stored, KEY)?,
        _ if raw => scanner.raw_line(&mut stored, KEY)?,
        _ => scanner.base64_line(&mut stored, KEY)?,
    }
    Ok(Some(stored))
}
