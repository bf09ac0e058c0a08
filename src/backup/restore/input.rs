//! The files of a backup, read one after another.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::super::error::{BackupError, ReadError};
use super::super::files::files_of;
use super::super::index::SavedIndex;
use super::super::reader::{Reader, Skipped};
use super::super::record::SavedRecord;

/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Number of records between calls of `progress`.
const PROGRESS_RECORDS: u64 = 1024;

/// Most damaged places listed.
const MAX_DAMAGE: usize = 100;

/// The findings in all files, besides records.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) indexes: Vec<SavedIndex>,
    /// Malformed definitions, where they do not count as damage.
    pub(super) faulty_indexes: u64,
    pub(super) skipped: Skipped,
    pub(super) damage: Vec<BackupError>,
}

/// The files of a backup.
#[derive(Debug)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    bytes: u64,
    index_faults: IndexFaults,
}

/// The treatment of malformed index definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexFaults {
    /// Stop reading the file, as for records.
    End,
    /// Count as damage and read on.
    Noted,
    /// Skip: the caller wants no indexes.
    PassedOver,
}

/// Takes a record of a file and returns its fault, if it has one.
pub(super) type Visit<'v> =
    dyn FnMut(&Path, &SavedRecord) -> Result<Option<String>, BackupError> + 'v;

/// The place of a record.
#[derive(Clone, Debug)]
pub(super) struct RecordPlace {
    pub(super) path: PathBuf,
    pub(super) line: u64,
    offset: u64,
}

impl RecordPlace {
    pub(super) fn of(path: &Path, record: &SavedRecord) -> Self {
        Self {
            path: path.to_owned(),
            line: record.line,
            offset: record.offset,
        }
    }

    pub(super) fn malformed(self, what: String) -> BackupError {
        let source = ReadError::Malformed {
            line: self.line,
            offset: self.offset,
            what,
        };
        BackupError::read(&self.path, source)
    }
}

impl Files {
    pub(super) fn find(path: &Path, index_faults: IndexFaults) -> Result<Self, BackupError> {
        let paths = files_of(path).map_err(BackupError::io(path))?;
        if paths.is_empty() {
            return Err(BackupError::Refused(format!(
                "{}: the directory holds no backup files (*.asb)",
                path.display()
            )));
        }
        let mut bytes = 0;
        for path in &paths {
            let metadata = std::fs::metadata(path).map_err(BackupError::io(path))?;
            bytes += metadata.len();
        }
        Ok(Self {
            paths,
            bytes,
            index_faults,
        })
    }

    /// Passes every record to `visit`, which returns its fault, if any. Returns indexes, counts of
    /// skipped content, and faults. Stops reading a file at its first damaged place.
    pub(super) fn read(
        &self,
        progress: &mut dyn FnMut(u64, u64),
        visit: &mut Visit<'_>,
    ) -> Result<Findings, BackupError> {
        let mut findings = Findings::default();
        let mut damage = Vec::new();
        let mut note = |error| {
            if damage.len() < MAX_DAMAGE {
                damage.push(error);
            }
        };
        let mut before = 0;
        for path in &self.paths {
            let file = File::open(path).map_err(BackupError::io(path))?;
            let read_file = || -> Result<(), BackupError> {
                let failed = |source| BackupError::read(path, source);
                let input = BufReader::with_capacity(BUFFER_BYTES, file);
                // Errors of reading are findings and end this file only; errors of `visit` end
                // everything.
                let mut reader = Reader::new(input).map_err(failed)?;
                if self.index_faults != IndexFaults::End {
                    reader.tolerate_indexes();
                }
                let mut records = 0_u64;
                let read_to_end = loop {
                    match reader.next_record() {
                        Ok(None) => break Ok(()),
                        Ok(Some(record)) => {
                            if let Some(fault) = visit(path, &record)? {
                                note(RecordPlace::of(path, &record).malformed(fault));
                            }
                        }
                        Err(error) => break Err(failed(error)),
                    }
                    records += 1;
                    if records.is_multiple_of(PROGRESS_RECORDS) {
                        progress(before + reader.offset(), self.bytes);
                    }
                };
                let faults = reader.take_index_faults();
                match self.index_faults {
                    IndexFaults::PassedOver => findings.faulty_indexes += faults.len() as u64,
                    _ => faults.into_iter().map(failed).for_each(&mut note),
                }
                findings.skipped.modules += reader.skipped().modules;
                findings.skipped.nil_bins += reader.skipped().nil_bins;
                findings.indexes.extend_from_slice(reader.indexes());
                read_to_end
            };
            match read_file() {
                Err(error @ BackupError::Read { .. }) => note(error),
                done => done?,
            }
            // The whole file counts as read, even if damage ended it early: progress must reach its
            // end.
            let metadata = std::fs::metadata(path).map_err(BackupError::io(path))?;
            before += metadata.len();
            progress(before, self.bytes);
        }
        Ok(Findings { damage, ..findings })
    }
}
