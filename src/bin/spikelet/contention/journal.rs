//! The ledger of a row as a file, for a store on disk: it outlives a killed process.
//!
//! A write is noted before it is sent and once its answer is known, each time by one call to the
//! system. So the file holds all acknowledged writes; a write under way may or may not have
//! been done. It is not synced: it is about killed processes, not about power failures.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::case::{Case, Write};
use super::ledger::Ledger;
use super::routing::HotRoute;
use crate::failure::{CommandFailure, Result};

/// The file, in the directory of the row's store.
const FILE: &str = "ledger";
const SCHEMA_VERSION: u32 = 1;
/// A note: what, which hot key, which write, and when its bucket of time begins.
const NOTE_BYTES: usize = 24;

/// The state of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    /// It is under way.
    Sent = 0,
    /// It was acknowledged.
    Acknowledged = 1,
    /// It was refused, and has changed nothing.
    Refused = 2,
}

/// The first line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct JournalHeading {
    schema_version: u32,
    case: Case,
}

/// The file, while it is written.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Creates the ledger of a case in this directory.
    ///
    /// # Errors
    /// If it cannot be made, or is there already.
    pub(super) fn create(dir: &Path, case: &Case) -> Result<Self> {
        let path = dir.join(FILE);
        let create = || {
            let mut file = File::options().append(true).create_new(true).open(&path)?;
            let heading = serde_json::to_string(&JournalHeading {
                schema_version: SCHEMA_VERSION,
                case: case.clone(),
            })?;
            file.write_all(format!("{heading}\n").as_bytes())?;
            Ok(file)
        };
        match create() {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(unusable(&path, "create", error)),
        }
    }

    /// Appends a note.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn note(&self, known: WriteState, route: &HotRoute, id: u64) -> Result<()> {
        let mut note = [0; NOTE_BYTES];
        let words = [
            u64::from(known as u8) << 32 | u64::from(route.key),
            id,
            route.begins_s(),
        ];
        for (bytes, word) in note.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        // One call: notes of several threads do not mix.
        (&self.file)
            .write_all(&note)
            .map_err(|error| unusable(&self.path, "write", error))
    }
}

/// Returns the names of the directories in here that have a ledger, sorted.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn rows_in(dir: &Path) -> Result<Vec<String>> {
    let list = || {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.path().join(FILE).is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    };
    list().map_err(|error| unusable(dir, "list", error))
}

/// Reads a ledger: its case, and the acknowledged writes.
///
/// # Errors
/// If there is none, or it is no such file.
pub(super) fn read(dir: &Path) -> Result<(Case, Ledger)> {
    let path = dir.join(FILE);
    read_file(&path).map_err(|error| unusable(&path, "read", error))
}

fn read_file(path: &Path) -> io::Result<(Case, Ledger)> {
    let mut file = BufReader::new(File::open(path)?);
    let mut heading = String::new();
    file.read_line(&mut heading)?;
    let JournalHeading {
        schema_version,
        case,
    } = serde_json::from_str(&heading)?;
    if schema_version != SCHEMA_VERSION {
        return Err(io::Error::other(format!(
            "it is of version {schema_version}, and this program reads version {SCHEMA_VERSION}"
        )));
    }
    let mut ledger = Ledger::default();
    // How often each write is under way, and which note says so.
    let mut under_way: HashMap<(u32, u64), (usize, u64)> = HashMap::new();
    let mut notes = Vec::new();
    file.read_to_end(&mut notes)?;
    // A process may be killed between its last note and the acknowledgement.
    for (moment, note) in (0..).zip(notes.chunks_exact(NOTE_BYTES)) {
        let words = note.chunks_exact(8).filter_map(|word| word.try_into().ok());
        let words: Vec<u64> = words.map(u64::from_le_bytes).collect();
        let [head, id, begins_s] = words[..] else {
            continue;
        };
        let key = head as u32;
        let (sent, sent_at) = under_way.entry((key, id)).or_default();
        match head >> 32 {
            0 => {
                *sent += 1;
                *sent_at = moment;
            }
            known => {
                *sent = sent.saturating_sub(1);
                if known == WriteState::Acknowledged as u64 {
                    let route = HotRoute::at(case.layout, key, id, begins_s);
                    ledger.acknowledge(&case, route, id);
                    if case.settings.write == Write::Put {
                        let puts = ledger.puts.entry(route).or_default();
                        puts.acknowledge(id, *sent_at, moment);
                    }
                }
            }
        }
    }
    let in_doubt = under_way.into_iter();
    let each = in_doubt.flat_map(|((_, id), (sent, _))| std::iter::repeat_n(id, sent));
    ledger.in_doubt = each.collect();
    Ok((case, ledger))
}

/// Returns the failure of a ledger's file or directory.
fn unusable(path: &Path, action: &str, error: io::Error) -> CommandFailure {
    CommandFailure::Input(format!("cannot {action} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::testing::open;

    #[test]
    fn what_was_acknowledged_is_read_back_and_what_was_under_way_is_in_doubt() {
        let dir = tempfile::tempdir().unwrap();
        let case = open(50.0, 4, |settings| settings.write = Write::AddUnique);
        let route = |id| HotRoute::of(case.layout, 0, id, 0);
        let journal = Journal::create(dir.path(), &case).unwrap();
        let note = |known, id| journal.note(known, &route(id), id).unwrap();
        for id in 1..=5 {
            note(WriteState::Sent, id);
        }
        for id in [1, 2, 3] {
            note(WriteState::Acknowledged, id);
        }
        note(WriteState::Refused, 4);
        let (read_case, ledger) = read(dir.path()).unwrap();
        assert_eq!(read_case, case);
        assert_eq!((ledger.elements, ledger.in_doubt), (vec![1, 2, 3], vec![5]));
        let on_place = (1..=3).filter(|id| route(*id) == route(1)).count();
        assert_eq!(ledger.acked[&route(1)], on_place as u64);
        // Killed while it wrote.
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(dir.path()).unwrap().1.in_doubt.len(), 2);
        assert!(Journal::create(dir.path(), &case).is_err(), "there is one");
        assert!(read(&dir.path().join("other")).is_err());
    }
}
