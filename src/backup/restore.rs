//! Restores a backup in two passes: the first reads and checks everything, the second writes.

mod indexes;
mod input;
mod options;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::error::BackupError;
use super::index::SavedIndex;
use super::record::SavedRecord;
use super::save::is_cancelled;
use crate::engine::declaration::DECLARATION_SET;
use crate::engine::{
    Acknowledge, Existing, SavedVersion, WriteSaved, WriteSavedPolicy, record_bytes,
};
use crate::record::{KeyHash, check_set_name};
use crate::{Digest, Error, Namespace, RetryPolicy, Store};

use indexes::{build_all, missing_indexes};
use input::{Files, IndexFaults, RecordPlace};
pub use options::{RestoreOptions, RestoreSummary};

/// Attempts at a record that others are writing, and the longest pause between two: about a second
/// of pauses.
const ATTEMPTS: u32 = 100;
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Records between two waits for durability.
const RECORDS_A_SYNC: u64 = 4_096;

/// A backup that was read and checked, ready to be restored.
#[derive(Debug)]
pub struct Restore {
    options: RestoreOptions,
    files: Files,
    namespaces: BTreeMap<String, Contents>,
    indexes: Vec<SavedIndex>,
    indexes_left_out: u64,
    damage: Vec<BackupError>,
}

/// A backup's content for one namespace.
#[derive(Clone, Debug, Default)]
struct Contents {
    records: u64,
    without_keys: u64,
    first_without_key: Option<RecordPlace>,
    /// The largest record, in bytes counted against the record limit.
    largest: Option<(u64, RecordPlace)>,
    /// The records that declare relations.
    declarations: Vec<SavedRecord>,
}

impl Contents {
    fn count(&mut self, path: &Path, record: &SavedRecord) {
        self.records += 1;
        let key = record.stored_key();
        if key.is_none() {
            self.without_keys += 1;
            self.first_without_key
                .get_or_insert_with(|| RecordPlace::of(path, record));
        }
        let bytes = record_bytes(key, &record.body);
        if self.largest.as_ref().is_none_or(|(most, _)| *most < bytes) {
            self.largest = Some((bytes, RecordPlace::of(path, record)));
        }
        if record.set == DECLARATION_SET {
            self.declarations.push(record.clone());
        }
    }

    /// Refuses a namespace that cannot hold all of these records.
    fn check(&self, target: &Namespace, options: &RestoreOptions) -> Result<(), BackupError> {
        let name = target.name();
        let needs_keys = target.key_hash() != KeyHash::Ripemd160 && !options.trust_digests;
        if let (true, Some(first)) = (needs_keys, &self.first_without_key) {
            return Err(BackupError::Refused(format!(
                "{} records have no user key (the first: {}, line {}), and namespace {name} finds records by another hash than the backup's digests: \
                 restore into a namespace of Aerospike's digests (RIPEMD-160); or trust the digests, if the backup is of such a namespace as this one; \
                 or restore a part, without them",
                self.without_keys,
                first.path.display(),
                first.line,
            )));
        }
        let limit = target.max_record_bytes();
        if let Some((bytes, place)) = &self.largest
            && *bytes > limit
        {
            return Err(place.clone().malformed(format!(
                "record of {bytes} bytes exceeds the limit of namespace {name}, {limit}: raise the namespace's limit"
            )));
        }
        self.declarations.iter().try_for_each(|saved| {
            let Some(digest) = options.digest_in(target, saved) else {
                return Ok(());
            };
            let version = SavedVersion {
                digest,
                ..saved.version()
            };
            let checked = target.check_declaration(&saved.set, &version, options.policy());
            checked.map_err(|error| BackupError::Refused(error.to_string()))
        })
    }
}

impl Restore {
    /// Reads and checks a whole backup, a file or a directory. Calls `progress` with the bytes read
    /// and the total. Holds one record in memory.
    ///
    /// # Errors
    /// A file that cannot be read, a directory without backup files. Damage does not fail the call:
    /// see [`Restore::damage`].
    pub fn prepare(
        path: &Path,
        options: RestoreOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, BackupError> {
        let index_faults = match (options.no_indexes, options.partial) {
            (true, _) => IndexFaults::PassedOver,
            (false, true) => IndexFaults::Noted,
            (false, false) => IndexFaults::End,
        };
        let files = Files::find(path, index_faults)?;
        let mut namespaces: BTreeMap<String, Contents> = BTreeMap::new();
        let found = files.read(progress, &mut |path, record| {
            if is_cancelled(options.cancel.as_ref()) {
                return Err(BackupError::Cancelled);
            }
            let Some(name) = options.target_of(record) else {
                return Ok(None);
            };
            let fault = options.fault(record);
            if fault.is_none() {
                // Not by `entry` alone, which would allocate the name for each record.
                match namespaces.get_mut(name) {
                    Some(contents) => contents.count(path, record),
                    None => {
                        let contents = namespaces.entry(name.to_owned()).or_default();
                        contents.count(path, record);
                    }
                }
            }
            Ok(fault)
        })?;
        let (indexes, indexes_left_out) = options.wanted_indexes(found.indexes);
        for index in &indexes {
            namespaces.entry(index.namespace.clone()).or_default();
        }
        Ok(Self {
            options,
            files,
            namespaces,
            indexes,
            indexes_left_out: indexes_left_out + found.faulty_indexes,
            damage: found.damage,
        })
    }

    /// Returns the target namespaces, each with its number of records.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.namespaces.iter();
        all.map(|(name, contents)| (name.as_str(), contents.records))
    }

    /// Returns the secondary indexes to restore, with their target namespaces.
    #[must_use]
    pub fn indexes(&self) -> &[SavedIndex] {
        &self.indexes
    }

    /// Returns the faults found, at most 100: the first damaged place of each file (the rest of the
    /// file is not read), and records with an impossible digest or set.
    #[must_use]
    pub fn damage(&self) -> &[BackupError] {
        &self.damage
    }

    /// Writes the records to a store that has their namespaces. `progress` as for
    /// [`Restore::prepare`]. Each record is written on its own, with the saved generation and
    /// expiry; what its namespace promises of durability is waited for once for 4,096 records, and
    /// at the end. Then declares and builds the secondary indexes; one that exists with the same
    /// definition stays.
    ///
    /// # Errors
    /// Without `partial`, a damaged backup, or one that these namespaces cannot take (for example,
    /// an index of the same name with another definition), is refused before the first write.
    /// [`BackupError::Stopped`]: the store refused a record or an index after others were restored.
    pub fn run(
        self,
        store: &Store,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<RestoreSummary, BackupError> {
        let Self {
            options,
            files,
            namespaces,
            indexes,
            indexes_left_out,
            damage,
        } = self;
        // Every refusal that can be known beforehand comes before the first write.
        let mut targets: BTreeMap<&str, Namespace> = BTreeMap::new();
        for (name, contents) in &namespaces {
            let target = store.namespace(name)?;
            if !options.partial {
                contents.check(&target, &options)?;
            }
            targets.insert(name, target);
        }
        if let (false, Some(first)) = (options.partial, damage.into_iter().next()) {
            return Err(first);
        }
        let mut summary = RestoreSummary {
            indexes_left_out,
            ..RestoreSummary::default()
        };
        let missing = missing_indexes(indexes, &targets, &mut summary);
        if let (false, Some(refused)) = (options.partial, summary.indexes_refused.first()) {
            return Err(BackupError::Refused(refused.clone()));
        }
        // Records of which the promised durability has been waited for.
        let mut settled = 0;
        let read = files.read(progress, &mut |path, record| {
            if is_cancelled(options.cancel.as_ref()) {
                return Err(BackupError::Cancelled);
            }
            if summary.records.is_multiple_of(RECORDS_A_SYNC) {
                settle(&targets)?;
                settled = summary.restored;
            }
            summary.records += 1;
            let counter = options.restore(record, &targets, &mut summary);
            *counter.map_err(|source| BackupError::Record {
                path: path.to_owned(),
                line: record.line,
                source,
            })? += 1;
            Ok(None)
        });
        let read = match read {
            Ok(mut found) => match found.damage.pop() {
                // The files have changed since the check.
                Some(error) if !options.partial => Err(error),
                _ => {
                    summary.skipped = found.skipped;
                    // Indexes come last: building them from the records costs less than updating
                    // them with each write.
                    build_all(missing, &targets, &options, &mut summary)
                }
            },
            Err(BackupError::Cancelled) => {
                summary.cancelled = true;
                Ok(())
            }
            Err(error) => Err(error),
        };
        let last = settle(&targets);
        if last.is_ok() {
            settled = summary.restored;
        }
        match read.and(last) {
            Ok(()) => Ok(summary),
            Err(source) => Err(BackupError::Stopped {
                restored: settled,
                source: Box::new(source),
            }),
        }
    }
}

impl RestoreOptions {
    /// Returns a record's target namespace; `None` if the record is not selected.
    fn target_of<'r>(&'r self, record: &'r SavedRecord) -> Option<&'r str> {
        let from = self.namespace.as_ref();
        let wanted = from.is_none_or(|wanted| *wanted == record.namespace)
            && (self.sets.is_empty() || self.sets.contains(&record.set));
        wanted.then(|| self.into_namespace.as_deref().unwrap_or(&record.namespace))
    }

    /// Returns the selected indexes with their target namespaces, and the number of others. Of two
    /// with the same name, the later one counts.
    fn wanted_indexes(&self, saved: Vec<SavedIndex>) -> (Vec<SavedIndex>, u64) {
        let mut wanted: Vec<SavedIndex> = Vec::new();
        for index in saved {
            let is_same_name = |known: &&mut SavedIndex| {
                known.namespace == index.namespace
                    && known.definition.name() == index.definition.name()
            };
            match wanted.iter_mut().find(is_same_name) {
                Some(known) => *known = index,
                None => wanted.push(index),
            }
        }
        let all = wanted.len();
        wanted.retain(|index| self.wants_index(index));
        for index in &mut wanted {
            if let Some(into) = &self.into_namespace {
                index.namespace.clone_from(into);
            }
        }
        let left_out = all - wanted.len();
        (wanted, left_out as u64)
    }

    fn wants_index(&self, index: &SavedIndex) -> bool {
        let from = self.namespace.as_ref();
        let is_set_wanted = self.sets.is_empty()
            || index
                .set
                .as_ref()
                .is_some_and(|set| self.sets.contains(set));
        !self.no_indexes && is_set_wanted && from.is_none_or(|wanted| *wanted == index.namespace)
    }

    const fn policy(&self) -> WriteSavedPolicy {
        let any = self.no_generation;
        WriteSavedPolicy {
            existing: match (self.unique, self.replace) {
                (true, _) => Existing::Stays,
                (_, true) => Existing::Goes { any },
                _ => Existing::Takes { any },
            },
            override_shards: self.override_shards,
            acknowledge: Acknowledge::Applied,
        }
    }

    /// Returns the reason why a record cannot be restored anywhere, if there is one.
    fn fault(&self, record: &SavedRecord) -> Option<String> {
        let set = &record.set;
        if let Err(why) = check_set_name(set) {
            return Some(why);
        }
        let key = record.stored_key().filter(|_| !self.trust_digests)?;
        let expected = KeyHash::Ripemd160.digest_of_stored(set, key);
        (expected != record.digest).then(|| {
            format!(
                "the digest {} is not that of set and key, {expected}: one of them is damaged, or the record was written under a digest of its own",
                record.digest
            )
        })
    }

    /// The digest of a record in a namespace. One of another hash finds records by that hash only,
    /// which needs the user key.
    fn digest_in(&self, target: &Namespace, record: &SavedRecord) -> Option<Digest> {
        match (target.key_hash(), record.stored_key()) {
            (KeyHash::Ripemd160, _) => Some(record.digest),
            (hash, Some(key)) => Some(hash.digest_of_stored(&record.set, key)),
            (_, None) => self.trust_digests.then_some(record.digest),
        }
    }

    /// Writes one record. Returns the count of its outcome.
    fn restore<'s>(
        &self,
        record: &SavedRecord,
        targets: &BTreeMap<&str, Namespace>,
        summary: &'s mut RestoreSummary,
    ) -> Result<&'s mut u64, Error> {
        let Some(name) = self.target_of(record) else {
            return Ok(&mut summary.left_out);
        };
        if record.view().is_empty() {
            return Ok(&mut summary.without_bins);
        }
        let target = match targets.get(name) {
            Some(target) if self.fault(record).is_none() => target,
            _ => return Ok(&mut summary.refused),
        };
        if target.is_past(record.void_time) {
            return Ok(&mut summary.expired);
        }
        let Some(digest) = self.digest_in(target, record) else {
            return Ok(&mut summary.refused);
        };
        let version = SavedVersion {
            digest,
            ..record.version()
        };
        let retries = RetryPolicy::default()
            .max_attempts(ATTEMPTS)
            .max_pause(PAUSE_MAX);
        let written = retries.retry(|| target.write_saved(&record.set, &version, self.policy()));
        match written {
            Ok(WriteSaved::Written) => Ok(&mut summary.restored),
            Ok(WriteSaved::Fresher) => Ok(&mut summary.fresher),
            Ok(WriteSaved::Existed) => Ok(&mut summary.existed),
            // These refusals concern this record alone; others, such as a full device, would meet
            // every later record as well.
            Err(
                Error::RecordTooBig { .. }
                | Error::KeyTooBig { .. }
                | Error::KeyMismatch { .. }
                | Error::NotUnique { .. }
                | Error::OwnedBin { .. }
                | Error::Parameter(_)
                | Error::ShardRoot { .. }
                | Error::ShardCompanion { .. }
                | Error::ShardKeyCollision { .. },
            ) if self.partial => Ok(&mut summary.refused),
            Err(error) => Err(error),
        }
    }
}

/// Waits until restored records are durable.
fn settle(targets: &BTreeMap<&str, Namespace>) -> Result<(), BackupError> {
    Ok(targets.values().try_for_each(Namespace::settle)?)
}
