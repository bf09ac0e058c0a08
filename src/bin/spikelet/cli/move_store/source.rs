//! The store to move: in a directory, or in a running program.

use std::collections::BTreeMap;
use std::path::Path;

use spikelet::backup::{self, PieceStart, Reader, SavedIndex, SavedRecord};
use spikelet::cluster::RecordAddress;
use spikelet::monitor::{ChangeSnapshot, KeySnapshot};
use spikelet::record::KeyHash;
use spikelet::relation::DECLARATION_SET;
use spikelet::{Digest, Key, Namespace, Store};

use super::until;
use crate::cli::monitor_client::{MonitorAddress, header};
use crate::cli::target::{only, only_of, open};
use crate::failure::{CommandFailure, Result};

/// The subscription that keeps the changes of a program for the move.
const SUBSCRIPTION: &str = "spikelet-move";

/// How many digests a monitor is asked for at once.
const DIGESTS_AT_ONCE: usize = 100;

/// The set of the modules of functions, by the names of their files.
const MODULE_SET: &str = "<functions";

/// A store that is moved.
pub(super) enum MovedStore {
    Directory {
        namespace: Namespace,
        /// Keeps the directory open.
        _store: Store,
    },
    Program {
        monitor: MonitorAddress,
        namespace: String,
    },
}

/// Some of its records.
#[derive(Default)]
pub(super) struct SourcePiece {
    /// Records of users, without the store's own.
    pub(super) records: Vec<SavedRecord>,
    /// The declarations of relations.
    pub(super) declarations: Vec<SavedRecord>,
    /// The files of modules of functions, which are not moved.
    pub(super) modules: Vec<String>,
    pub(super) indexes: Vec<SavedIndex>,
    /// Where the next piece begins; `None`: this is the last one.
    pub(super) next: Option<String>,
    /// How many records were left out, since they are damaged.
    pub(super) damaged: u64,
    /// How many damaged entries its opening has met. A program may open it anew between pieces.
    pub(super) passed_over: u64,
}

/// Some of its changes.
pub(super) struct MovedChanges {
    /// Up to where they have been read.
    pub(super) position: String,
    /// The number of the latest change.
    pub(super) latest: u64,
    /// The sets that keep no changes.
    pub(super) silent_sets: Vec<String>,
    /// Whether a set, or all, were truncated.
    pub(super) is_truncated: bool,
    /// By the digest at the source, the address in the cluster.
    pub(super) records: BTreeMap<Digest, RecordAddress>,
}

impl MovedChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && !self.is_truncated
    }

    /// Returns the number of the change at a position.
    pub(super) fn number(position: &str) -> u64 {
        let number = position.split('.').next().unwrap_or_default();
        number.parse().unwrap_or_default()
    }

    fn note(&mut self, change: &ChangeSnapshot) {
        let Some(digest) = change.digest.as_deref().and_then(backup::digest_of) else {
            self.is_truncated = true;
            return;
        };
        let set = change.set.clone().unwrap_or_default();
        let address = match change.key.as_ref().and_then(key_of) {
            Some(key) => KeyHash::Ripemd160.digest(&set, &key),
            None => digest,
        };
        self.records.insert(digest, (set, address));
    }
}

fn key_of(key: &KeySnapshot) -> Option<Key<'static>> {
    Some(match key {
        KeySnapshot::Integer(number) => Key::from(*number),
        KeySnapshot::String(text) => Key::from(text.clone()),
        KeySnapshot::Blob { hex } => {
            let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
            Key::from(bytes?)
        }
    })
}

impl MovedStore {
    /// Opens a directory for reading, or asks the monitor of a program for its namespaces.
    ///
    /// # Errors
    /// Neither a directory nor a monitor; a namespace that is not there, or was not chosen among
    /// several.
    pub(super) fn open(source: &str, namespace: Option<&str>) -> Result<Self> {
        if Path::new(source).is_dir() {
            let store = open(Path::new(source))?;
            return Ok(Self::Directory {
                namespace: only_of(&store, namespace)?,
                _store: store,
            });
        }
        let monitor: MonitorAddress = source.parse().map_err(|error| {
            CommandFailure::Input(format!(
                "{source:?} is no directory, and {error}: give the directory of a store, or HOST:PORT of a program's monitor"
            ))
        })?;
        let look = monitor.look()?;
        let names = look.namespaces.into_iter();
        let names = names.map(|namespace| namespace.name).collect();
        Ok(Self::Program {
            monitor,
            namespace: only(names, namespace)?,
        })
    }

    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Directory { namespace, .. } => namespace.name(),
            Self::Program { namespace, .. } => namespace,
        }
    }

    /// Reads the piece that begins here.
    ///
    /// # Errors
    /// A program that gives no records, or is away for a minute; errors of reading.
    pub(super) fn piece(&self, from: &str) -> Result<SourcePiece> {
        match self {
            Self::Directory { namespace, .. } => {
                let piece = backup::piece(namespace, from.parse()?)?;
                let next = piece.next.map(|next| next.to_string());
                parsed(&piece.text, next, (piece.damaged, piece.passed_over))
            }
            Self::Program { monitor, namespace } => {
                records_of(monitor, namespace, &[("from", from)])
            }
        }
    }

    /// Reads the changes behind a position, which are kept from now on. `None`: nothing can change.
    ///
    /// # Errors
    /// As for [`MovedStore::piece`]; changes that are not kept any more.
    pub(super) fn changes(&self, after: Option<&str>) -> Result<Option<MovedChanges>> {
        let Self::Program { monitor, namespace } = self else {
            return Ok(None);
        };
        let mut query = vec![("namespace", namespace.as_str()), ("hold", SUBSCRIPTION)];
        query.extend(after.map(|after| ("after", after)));
        let read = patiently(|| monitor.changes(&query))?;
        let mut changes = MovedChanges {
            position: read.position,
            latest: read.latest,
            silent_sets: read.silent_sets,
            is_truncated: false,
            records: BTreeMap::new(),
        };
        changes.silent_sets.retain(|set| !is_own_set(set));
        read.changes.iter().for_each(|change| changes.note(change));
        Ok(Some(changes))
    }

    /// Has the changes kept no longer: the move has ended.
    ///
    /// # Errors
    /// As for [`MovedStore::piece`].
    pub(super) fn release(&self) -> Result<()> {
        if let Self::Program { monitor, namespace } = self {
            let query = [("namespace", namespace.as_str()), ("release", SUBSCRIPTION)];
            patiently(|| monitor.changes(&query))?;
        }
        Ok(())
    }

    /// Reads the present versions of changed records, and returns the addresses in the cluster of
    /// those that are damaged, too. A record that is gone is passed over.
    ///
    /// # Errors
    /// As for [`MovedStore::piece`].
    pub(super) fn present(
        &self,
        changes: &MovedChanges,
    ) -> Result<(Vec<SavedRecord>, Vec<RecordAddress>)> {
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        let digests: Vec<_> = changes.records.iter().collect();
        let mut left = &*digests;
        while !left.is_empty() {
            let asked = left.split_at(left.len().min(DIGESTS_AT_ONCE)).0;
            let read = self.by_digest(asked)?;
            // The answer may end early, and says behind which digest.
            let last = read.next.as_deref().map(str::parse::<PieceStart>);
            let last = last.transpose()?.and_then(|next| next.after);
            let ends = asked.iter().position(|(digest, _)| Some(**digest) == last);
            let (digests, rest) = left.split_at(ends.map_or(asked.len(), |at| at + 1));
            left = rest;
            if read.damaged == 0 {
                records.extend(read.records);
                continue;
            }
            // The answer says how many are damaged; one by one it is known which.
            for digest in digests {
                let read = self.by_digest(std::slice::from_ref(digest))?;
                if read.damaged > 0 {
                    damaged.push(digest.1.clone());
                }
                records.extend(read.records);
            }
        }
        Ok((records, damaged))
    }

    fn by_digest(&self, digests: &[(&Digest, &RecordAddress)]) -> Result<SourcePiece> {
        let Self::Program { monitor, namespace } = self else {
            return Ok(SourcePiece::default());
        };
        let digests: Vec<String> = digests
            .iter()
            .map(|(digest, _)| digest.to_string())
            .collect();
        let query: Vec<_> = digests.iter().map(|digest| ("digest", &**digest)).collect();
        records_of(monitor, namespace, &query)
    }
}

/// Asks a program for records: all of a piece (`from`), or some by digest (`digest`).
fn records_of(
    monitor: &MonitorAddress,
    namespace: &str,
    query: &[(&str, &str)],
) -> Result<SourcePiece> {
    let query = [&[("namespace", namespace)], query].concat();
    let (head, text) = patiently(|| monitor.answer("/records.asb", &query))?;
    // A count that cannot be read must not pass for no damage: a sweep deletes then.
    let count = |name| match header(&head, name).map(|count| count.parse()) {
        None => Ok(0),
        Some(Ok(count)) => Ok(count),
        Some(Err(_)) => Err(CommandFailure::Input(format!(
            "what the source sent: {name} is no number"
        ))),
    };
    let damage = (count("X-Damaged")?, count("X-Passed-Over")?);
    parsed(&text, header(&head, "X-Next").map(str::to_owned), damage)
}

/// Asks a program until it answers: it may be starting anew.
fn patiently<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    until(ask, |answer| {
        !matches!(answer, Err(CommandFailure::Away(_)))
    })
}

fn parsed(
    text: &[u8],
    next: Option<String>,
    (damaged, passed_over): (u64, u64),
) -> Result<SourcePiece> {
    let wrong =
        |error: backup::ReadError| CommandFailure::Input(format!("what the source sent: {error}"));
    let mut reader = Reader::new(text).map_err(wrong)?;
    let mut piece = SourcePiece {
        next,
        damaged,
        passed_over,
        ..SourcePiece::default()
    };
    while let Some(record) = reader.next_record().map_err(wrong)? {
        match (&*record.set, record.key()) {
            (DECLARATION_SET, _) => piece.declarations.push(record),
            (MODULE_SET, Some(Key::String(file))) => piece.modules.push(file.into()),
            (set, _) if is_own_set(set) => {}
            _ => piece.records.push(record),
        }
    }
    // Of two of one name the later one says more.
    let named = |index: &SavedIndex| (index.definition.name().to_owned(), index.clone());
    let indexes: BTreeMap<_, _> = reader.indexes().iter().map(named).collect();
    piece.indexes = indexes.into_values().collect();
    Ok(piece)
}

/// Whether the records of a set are the store's own: declarations, modules, tokens, transactions.
fn is_own_set(name: &str) -> bool {
    name.starts_with('<')
}
