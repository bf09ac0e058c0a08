//! A sharded collection in a backup: its root with the companions directly behind it, as they are
//! between two changes of its shards, so that no element is missed that such a change moves.

use std::fs::File;
use std::io::BufWriter;

use spikelet_storage::{Digest, PARTITIONS};

use super::error::BackupError;
use super::files::Output;
use super::save::{BackupSummary, Saver};
use super::writer::Writer;
use crate::engine::SavedVersion;
use crate::record::{ShardRole, named_root};
use crate::shard::SavedRoot;
use crate::{Error, Key, Namespace};

/// How often a collection is saved anew because its shards have changed meanwhile.
const ATTEMPTS: usize = 100;

/// The root of collections that are saved with it.
struct Root {
    collections: SavedRoot,
    set_id: u16,
    set: Box<str>,
    key: Option<Key<'static>>,
}

/// Returns the digest of the root that a companion names, if it is one by its key, too.
fn root_of(namespace: &Namespace, set: &str, version: &SavedVersion<'_>) -> Option<Digest> {
    let hash = namespace.key_hash();
    let (name, root) = named_root(hash, set, version.bins)?;
    // Not a part of a collection that is sharded by time.
    let is_by_hash = name.begin.is_none() && name.shards > 0;
    let is_its = |key: &Key<'_>| hash.digest(set, key) == version.digest;
    (is_by_hash && name.keys().iter().any(is_its)).then_some(root)
}

impl Saver<'_> {
    /// Saves a record, and the companions of a root with it. Passes over a companion with an
    /// existing root: it is saved with that, or the root has its elements, or no read uses it.
    pub(super) fn save_with_companions(
        &mut self,
        digest: &Digest,
        file: &mut Writer<BufWriter<File>>,
        output: &Output,
        summary: &mut BackupSummary,
    ) -> Result<(), BackupError> {
        for _ in 0..ATTEMPTS {
            let (begin, before) = (file.written(), summary.counts());
            let Some(root) = self.first(digest, file, output, summary)? else {
                return Ok(());
            };
            self.companions_of(digest, &root, file, output, summary)?;
            if self.collections_at(digest)?.as_ref() == Some(&root.collections) {
                return Ok(());
            }
            file.take_back(begin).map_err(output.failed())?;
            summary.set_counts(before);
        }
        Err(BackupError::Refused(format!(
            "namespace {}, record {digest}: its collections change their shards all the time, so they cannot be saved whole: \
             stop the program that calls for it, and save again",
            self.namespace.name()
        )))
    }

    /// Saves a record, unless it is a companion and its root exists. Returns a root with companions
    /// to save.
    fn first(
        &mut self,
        digest: &Digest,
        file: &mut Writer<BufWriter<File>>,
        output: &Output,
        summary: &mut BackupSummary,
    ) -> Result<Option<Root>, BackupError> {
        let namespace = self.namespace;
        let mut named = None;
        let mut read = self.record_if(digest, file.text(), summary, |(set_id, set), version| {
            match ShardRole::of(version.bins.as_bytes()) {
                ShardRole::None => Some(None),
                ShardRole::Root => Some(SavedRoot::of(version.bins).map(|collections| Root {
                    collections,
                    set_id,
                    set: set.into(),
                    key: version.stored_key(),
                })),
                ShardRole::Companion => {
                    named = root_of(namespace, set, version);
                    named.is_none().then_some(None)
                }
            }
        });
        if let Some(root) = named {
            if self.has_root(&root)? {
                return Ok(None);
            }
            read = self.record_if(digest, file.text(), summary, |_, _| Some(None));
        }
        let Some(root) = self.noted(digest, read, file.text(), summary)? else {
            return Ok(None);
        };
        file.emit().map_err(output.failed())?;
        Ok(root)
    }

    /// Saves the companions of a root.
    fn companions_of(
        &mut self,
        digest: &Digest,
        root: &Root,
        file: &mut Writer<BufWriter<File>>,
        output: &Output,
        summary: &mut BackupSummary,
    ) -> Result<(), BackupError> {
        if !root.collections.have_companions() {
            return Ok(());
        }
        let namespace = self.namespace;
        // Wire clients choose digest and key of a record.
        let digest_of = |key: &Key<'_>| namespace.key_hash().digest(&root.set, key);
        let stored = root.key.clone().filter(|key| digest_of(key) == *digest);
        let key = match stored {
            Some(key) => Some(key),
            None => self.named(root.set_id, digest)?,
        };
        // Without a companion that names it, it has none.
        let Some(key) = key else {
            return Ok(());
        };
        for key in root.collections.companions(&key) {
            self.check_not_cancelled()?;
            let companion = digest_of(&key);
            let is_its = |(_, set): (u16, &str), version: &SavedVersion<'_>| {
                (root_of(namespace, set, version) == Some(*digest)).then_some(())
            };
            match self.record_if(&companion, file.text(), summary, is_its) {
                Ok(Some(())) => file.emit().map_err(output.failed())?,
                Ok(None) => {}
                // The pass over its partition counts it.
                Err(error) if error.is_damage() => file.text().clear(),
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Returns the collections that a record describes at this moment.
    fn collections_at(&self, root: &Digest) -> Result<Option<SavedRoot>, Error> {
        let namespace = self.namespace;
        let read = namespace.read_to_save(root, |_, version| Ok(SavedRoot::of(version.bins)));
        match read {
            Err(error) if error.is_damage() => Ok(None),
            read => Ok(read?.flatten()),
        }
    }

    /// Returns whether the record of a root is there, and with it are saved what companions of it a
    /// read uses.
    fn has_root(&self, root: &Digest) -> Result<bool, Error> {
        let read = self.namespace.read_to_save(root, |_, version| {
            Ok(match ShardRole::of(version.bins.as_bytes()) {
                ShardRole::None => true,
                ShardRole::Root => SavedRoot::of(version.bins).is_some(),
                ShardRole::Companion => false,
            })
        });
        match read {
            Err(error) if error.is_damage() => Ok(false),
            read => Ok(read?.unwrap_or(false)),
        }
    }

    /// Returns the key of a root that does not store it, as a companion says. Goes through the set
    /// unless a look before has found it.
    fn named(&mut self, set_id: u16, root: &Digest) -> Result<Option<Key<'static>>, BackupError> {
        if !self.root_keys.contains_key(root) {
            self.look_for_root_keys(set_id)?;
        }
        Ok(self.root_keys.get(root).cloned())
    }

    fn look_for_root_keys(&mut self, set_id: u16) -> Result<(), BackupError> {
        let set = self.set_name(set_id).to_owned();
        let namespace = self.namespace;
        let digests = (0..PARTITIONS)
            .flat_map(|partition| namespace.digests_in(partition, Some(&[set_id]), None, |_| {}));
        for digest in digests {
            self.check_not_cancelled()?;
            let name = namespace.read_to_save(&digest, |_, version| {
                let named = named_root(namespace.key_hash(), &set, version.bins);
                Ok(named.map(|(name, root)| (root, name.root.into_owned())))
            });
            // A damaged record names none.
            self.root_keys.extend(name.ok().flatten().flatten());
        }
        Ok(())
    }
}
