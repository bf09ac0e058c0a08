//! Saves a store to a backup.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use spikelet_storage::{Digest, PARTITIONS};

use super::error::BackupError;
use super::files::{Output, is_within};
use super::index::SavedIndex;
use super::writer::{Blobs, Writer, append_record, is_restored};
use crate::engine::SavedVersion;
use crate::record::{KeyHash, RecordView};
use crate::value::ParticleType;
use crate::{Key, Namespace, Store};

/// A directory's file ends at this size, and the next one begins.
const FILE_BYTES: u64 = 250 << 20;

/// Options of a backup, named as in Aerospike's tools.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Saves only this namespace. Default: all.
    pub namespace: Option<String>,
    /// Saves only these sets; the empty name means "no set". Default: all.
    pub sets: Vec<String>,
    /// The encoding of bytes: Base64 or raw. Default: Base64.
    pub blobs: Blobs,
    /// Leaves out the bins, so only keys, generations and times are saved. Such records cannot be
    /// restored. Default: false.
    pub no_bins: bool,
    /// Leaves out records that expire. Default: false.
    pub no_ttl_only: bool,
    /// Leaves out the definitions of secondary indexes. Default: false.
    pub no_indexes: bool,
    /// The size in bytes at which a directory's file ends, behind the last record of a sharded
    /// collection. Default: 250 MiB.
    pub file_bytes: u64,
    /// Cancels the backup when it becomes true: it returns [`BackupError::Cancelled`] and leaves no
    /// files. Default: never.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// Returns whether the caller has cancelled.
pub(super) fn is_cancelled(cancel: Option<&Arc<AtomicBool>>) -> bool {
    cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self {
            namespace: None,
            sets: Vec::new(),
            blobs: Blobs::default(),
            no_bins: false,
            no_ttl_only: false,
            no_indexes: false,
            file_bytes: FILE_BYTES,
            cancel: None,
        }
    }
}

/// The content of a finished backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The files, in the order of writing.
    pub files: Vec<PathBuf>,
    /// Bytes of all bins.
    pub bytes: u64,
    /// The namespaces by name, each with its number of records.
    pub namespaces: Vec<SavedNamespace>,
    /// Number of records.
    pub records: u64,
    /// Number of definitions of secondary indexes.
    pub indexes: u64,
    /// The indexes that Aerospike's tools restore in part or not at all: with several components,
    /// an expression, values of any type, their own limit on length, uniqueness, or for the records
    /// of a set.
    pub own_indexes: Vec<OwnIndex>,
    /// Records without a user key, or with a key of a type that is not restored: only their digest
    /// identifies them after a restore.
    pub without_key: u64,
    /// Records with spikelet's own digest (XXH3), by which no other store finds them.
    pub foreign_digests: u64,
    /// Vectors, which the format lacks: saved as plain bytes.
    pub vectors: u64,
    /// Records skipped because they are damaged on the device.
    pub damaged: u64,
    /// The first 100 damaged records, one sentence each, with places on the device.
    pub damage: Vec<String>,
    /// Leftovers of earlier backups to this place that were killed; they are removed.
    pub leftovers: Vec<PathBuf>,
}

/// A namespace in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SavedNamespace {
    /// Its name.
    pub name: String,
    /// How many of its records were saved.
    pub records: u64,
}

/// An index that Aerospike's tools do not restore as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OwnIndex {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Most damaged records that are described; all are counted.
const NAMED_MAX: usize = 100;

impl BackupSummary {
    fn note_damage(&mut self, what: String) {
        self.damaged += 1;
        if self.damage.len() < NAMED_MAX {
            self.damage.push(what);
        }
    }

    /// The counts of saved records.
    pub(super) const fn counts(&self) -> [u64; 4] {
        [
            self.records,
            self.without_key,
            self.foreign_digests,
            self.vectors,
        ]
    }

    pub(super) const fn set_counts(&mut self, counts: [u64; 4]) {
        [
            self.records,
            self.without_key,
            self.foreign_digests,
            self.vectors,
        ] = counts;
    }
}

/// Saves the records of a store, to the file `out` if its name ends in `.asb`, or else to a
/// directory `out` with at least one file for each namespace. Calls `progress` with the number of
/// records saved.
///
/// The store may be in use: each record is saved as of one moment, different records as of
/// different moments, and no element of a collection is missed because its shards change meanwhile.
/// Records come in the order of partitions and digests, so equal records give equal bytes; the
/// companions of a root directly behind it. A companion that its root does not read is left out;
/// one without a root is not. Definitions of secondary indexes come first: for the saved sets, and,
/// if no sets are named, for all sets. User keys are saved with Aerospike's digest; lists and maps
/// without their persisted index. Holds a partition's digests and one record in memory, and, if a
/// root does not store its key, the keys of its set's roots: for it the set is gone through.
///
/// # Errors
/// An error in the options or the output, or a cancellation, leaves no files. Damaged records are
/// counted instead.
pub fn save(
    store: &Store,
    out: &Path,
    options: &BackupOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<BackupSummary, BackupError> {
    let namespaces = match &options.namespace {
        Some(name) => vec![
            store
                .namespace(name)
                .map_err(|_| unknown_namespace(store, name))?,
        ],
        None => store.namespaces(),
    };
    if let Some(dir) = store.path().filter(|dir| is_within(out, dir)) {
        return Err(BackupError::Refused(format!(
            "{} is inside the store {}: a backup there is lost with it, name another place",
            out.display(),
            dir.display()
        )));
    }
    let mut output = Output::begin(out)?;
    if !output.is_dir() && namespaces.len() > 1 {
        let names: Vec<&str> = namespaces.iter().map(Namespace::name).collect();
        return Err(BackupError::Refused(format!(
            "the store has the namespaces {}, and a file holds one: name it, or give a directory",
            names.join(", ")
        )));
    }
    let mut summary = BackupSummary {
        leftovers: std::mem::take(&mut output.leftovers),
        ..BackupSummary::default()
    };
    for namespace in &namespaces {
        let saver = Saver::new(namespace, options)?;
        saver.save(&mut output, &mut summary, progress)?;
    }
    summary.files = output.finish()?;
    Ok(summary)
}

fn unknown_namespace(store: &Store, name: &str) -> BackupError {
    let namespaces = store.namespaces();
    let known: Vec<&str> = namespaces.iter().map(Namespace::name).collect();
    BackupError::Refused(format!(
        "unknown namespace \"{name}\": the store has {}",
        known.join(", ")
    ))
}

fn set_names(namespace: &Namespace) -> Vec<String> {
    let sets = namespace.sets().into_iter();
    sets.map(|set| set.name).collect()
}

/// Returns the numbers of the sets to save; `None` means all.
fn wanted_sets(namespace: &Namespace, names: &[String]) -> Result<Option<Vec<u16>>, BackupError> {
    if names.is_empty() {
        return Ok(None);
    }
    let known = set_names(namespace);
    let number = |name: &String| {
        let place = known.iter().position(|known| known == name);
        place.map(|place| place as u16).ok_or_else(|| {
            BackupError::Refused(format!(
                "namespace {} has no set {name:?}: check the name",
                namespace.name()
            ))
        })
    };
    names.iter().map(number).collect::<Result<_, _>>().map(Some)
}

/// Saves one namespace.
pub(super) struct Saver<'a> {
    pub(super) namespace: &'a Namespace,
    options: &'a BackupOptions,
    /// Set names by number.
    set_names: Vec<String>,
    wanted: Option<Vec<u16>>,
    /// The keys of roots that do not store them, as companions say.
    pub(super) root_keys: HashMap<Digest, Key<'static>>,
}

impl<'a> Saver<'a> {
    pub(super) fn new(
        namespace: &'a Namespace,
        options: &'a BackupOptions,
    ) -> Result<Self, BackupError> {
        Ok(Self {
            namespace,
            options,
            set_names: set_names(namespace),
            wanted: wanted_sets(namespace, &options.sets)?,
            root_keys: HashMap::new(),
        })
    }

    fn save(
        mut self,
        output: &mut Output,
        summary: &mut BackupSummary,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), BackupError> {
        let records_before = summary.records;
        let mut number = 0;
        let mut file = self.begin_file(output, number)?;
        let indexes = self.indexes();
        file.write_indexes(&indexes).map_err(output.failed())?;
        summary.indexes += indexes.len() as u64;
        let own = indexes.iter().filter(|index| !index.is_portable());
        let named = own.map(|index| OwnIndex {
            namespace: index.namespace.clone(),
            name: index.definition.name().to_owned(),
        });
        summary.own_indexes.extend(named);
        // Digests are collected a partition at a time, so that memory does not grow with the store.
        for partition in 0..PARTITIONS {
            let wanted = self.wanted.as_deref();
            let namespace = self.namespace;
            let digests = namespace.digests_in(partition, wanted, None, |damage| {
                summary.note_damage(format!("namespace {}: {damage}", namespace.name()));
            });
            for digest in &digests {
                self.check_not_cancelled()?;
                // Checked before the record, so that a file ends between records.
                if file.written() >= self.options.file_bytes && output.is_dir() {
                    summary.bytes += file.written();
                    output.sync(file.into_inner())?;
                    number += 1;
                    file = self.begin_file(output, number)?;
                }
                self.save_with_companions(digest, &mut file, output, summary)?;
            }
            progress(summary.records);
        }
        summary.bytes += file.written();
        output.sync(file.into_inner())?;
        summary.namespaces.push(SavedNamespace {
            name: self.namespace.name().to_owned(),
            records: summary.records - records_before,
        });
        Ok(())
    }

    pub(super) fn check_not_cancelled(&self) -> Result<(), BackupError> {
        if is_cancelled(self.options.cancel.as_ref()) {
            return Err(BackupError::Cancelled);
        }
        Ok(())
    }

    fn begin_file(
        &self,
        output: &mut Output,
        number: u32,
    ) -> Result<Writer<BufWriter<File>>, BackupError> {
        let name = self.namespace.name();
        let file = output.file(&format!("{name}_{number:05}.asb"))?;
        Writer::new(file, name, number == 0, self.options.blobs).map_err(output.failed())
    }

    /// Returns the indexes to save, by name.
    pub(super) fn indexes(&self) -> Vec<SavedIndex> {
        let (namespace, options) = (self.namespace, self.options);
        let is_wanted = |set: Option<&str>| match set {
            _ if options.sets.is_empty() => !options.no_indexes,
            Some(set) => !options.no_indexes && options.sets.iter().any(|wanted| wanted == set),
            None => false,
        };
        let all = namespace.indexes().into_iter();
        // An index dropped meanwhile has no definition.
        let defined = all.filter_map(|index| namespace.index_definition(&index.name));
        let mut indexes: Vec<SavedIndex> = defined
            .filter(|(set, _)| is_wanted(set.as_deref()))
            .map(|(set, definition)| SavedIndex::new(namespace.name(), set.as_deref(), definition))
            .collect();
        indexes.sort_by(|one, other| one.definition.name().cmp(other.definition.name()));
        indexes
    }

    /// Writes the text of a record into `text`. Returns `false` if it is not selected, gone, or
    /// damaged.
    pub(super) fn record(
        &mut self,
        digest: &Digest,
        text: &mut Vec<u8>,
        summary: &mut BackupSummary,
    ) -> Result<bool, BackupError> {
        let read = self.record_if(digest, text, summary, |_, _| Some(()));
        Ok(self.noted(digest, read, text, summary)?.is_some())
    }

    /// Writes the text of a record into `text`, and returns the answer of `wanted`, which gets the
    /// record and its set. `None`: the answer was `None`, or the record is not selected, or gone.
    pub(super) fn record_if<R>(
        &mut self,
        digest: &Digest,
        text: &mut Vec<u8>,
        summary: &mut BackupSummary,
        wanted: impl FnOnce((u16, &str), &SavedVersion<'_>) -> Option<R>,
    ) -> crate::Result<Option<R>> {
        let (namespace, options) = (self.namespace, self.options);
        let saved = namespace.read_to_save(digest, |set_id, version| {
            if options.no_ttl_only && version.void_time != 0 {
                return Ok(None);
            }
            let set = self.set_name(set_id);
            let Some(wanted) = wanted((set_id, set), version) else {
                return Ok(None);
            };
            let mut version = *version;
            if options.no_bins {
                version.bins = RecordView::EMPTY;
            }
            let own = namespace.key_hash() == KeyHash::Xxh3;
            if let (true, Some(key)) = (own, version.key) {
                version.digest = KeyHash::Ripemd160.digest_of_stored(set, key);
            }
            append_record(text, namespace.name(), set, &version, options.blobs)?;
            count(&version, own, summary);
            Ok(Some(wanted))
        });
        Ok(saved?.flatten())
    }

    /// Notes damage that was met in place of a record.
    pub(super) fn noted<R>(
        &self,
        digest: &Digest,
        read: crate::Result<Option<R>>,
        text: &mut Vec<u8>,
        summary: &mut BackupSummary,
    ) -> Result<Option<R>, BackupError> {
        match read {
            Err(error) if error.is_damage() => {
                text.clear();
                let name = self.namespace.name();
                summary.note_damage(format!("namespace {name}, record {digest}: {error}"));
                Ok(None)
            }
            read => Ok(read?),
        }
    }

    /// Returns the name of a set, which may be newer than this backup.
    pub(super) fn set_name(&mut self, id: u16) -> &str {
        let place = usize::from(id);
        if place >= self.set_names.len() {
            self.set_names = set_names(self.namespace);
        }
        self.set_names.get(place).map_or("", String::as_str)
    }
}

fn count(version: &SavedVersion<'_>, own_digests: bool, summary: &mut BackupSummary) {
    summary.records += 1;
    if !version.key.is_some_and(is_restored) {
        summary.without_key += 1;
        summary.foreign_digests += u64::from(own_digests);
    }
    let bins = version.bins.raw_bins();
    summary.vectors += bins.filter(|bin| bin.kind == ParticleType::Vector).count() as u64;
}
