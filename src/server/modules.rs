//! The modules of user-defined functions that clients have registered.
//!
//! They are stored in a set of a namespace, a record each, and read when a server of the store
//! starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use sha1::{Digest as _, Sha1};

use crate::{Expiration, Result, Set, Store, WritePolicy, base64};

/// The set of the stored modules, by the names of their files.
pub(crate) const MODULE_SET: &str = "<functions";

/// The bin with the name of the file.
const FILE_BIN: &str = "file";

/// The bin with the text in base64.
const CONTENT_BIN: &str = "content";

/// The most bytes of all modules together, encoded.
const MODULES_BYTES_MAX: usize = 16 << 20;

/// A module.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// The text in base64, as it came.
    pub(crate) content: String,
    /// SHA-1 of the text, in hexadecimal digits.
    pub(crate) hash: String,
}

/// All modules, by the names of their files. The servers of a store share them.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: RwLock<BTreeMap<String, Module>>,
    /// Counts the changes.
    version: AtomicU64,
    /// The namespaces in which they are stored: new ones in the first. Locked while a module is
    /// stored or deleted, so that memory and store keep the same text.
    sets: Mutex<Vec<(String, Set)>>,
}

impl Modules {
    /// Returns the modules of a store. Reads those of the namespaces that no other server of it has
    /// read.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) if one cannot be read.
    pub(crate) fn open(store: &Store) -> Result<Arc<Self>> {
        let modules = store.shared_by_servers(|| Ok(Self::default()))?;
        let mut sets = modules.sets.lock();
        for namespace in store.namespaces() {
            if sets.iter().any(|(name, _)| name == namespace.name()) {
                continue;
            }
            let set = namespace.set(MODULE_SET)?;
            let mut outdated = Vec::new();
            for found in set.query_all().iter() {
                let record = found?.record;
                let text = |bin| String::try_from(record.get(bin)?).ok();
                match (text(FILE_BIN), text(CONTENT_BIN)) {
                    // Another namespace has the text that counts.
                    (Some(file), Some(_)) if modules.get(&file).is_some() => outdated.push(file),
                    (Some(file), Some(content)) => modules.keep(&file, &content),
                    _ => {
                        tracing::warn!(set = MODULE_SET, "a record is no module and is passed over")
                    }
                }
            }
            for file in outdated {
                if let Err(error) = set.delete(file.as_str()) {
                    tracing::warn!(%error, %file, "a text that does not count stays stored");
                }
            }
            // In the order of a start.
            sets.push((namespace.name().to_owned(), set));
            sets.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        }
        drop(sets);
        Ok(modules)
    }

    /// The number of changes so far.
    #[cfg(feature = "lua")]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The text of a module.
    #[cfg(feature = "lua")]
    pub(crate) fn text(&self, file: &str) -> Option<Vec<u8>> {
        base64::decode(self.get(file)?.content.as_bytes())
    }

    /// Keeps a module, instead of one of the same name. False if there is no room for it.
    ///
    /// # Errors
    /// As for [`Set::put`].
    pub(crate) fn put(&self, file: &str, content: &str) -> Result<bool> {
        let sets = self.sets.lock();
        if !self.has_room(file, content) {
            return Ok(false);
        }
        if let Some((_, first)) = sets.first() {
            store(first, file, content)?;
        }
        // The text counts from here on: a later start prefers the first namespace.
        self.keep(file, content);
        let mut others = sets.iter().skip(1);
        others.try_for_each(|(_, set)| set.delete(file).map(drop))?;
        Ok(true)
    }

    /// Stores the modules that a truncation of their namespace has removed.
    ///
    /// # Errors
    /// As for [`Set::put`].
    pub(crate) fn store_again(&self) -> Result<()> {
        let sets = self.sets.lock();
        let Some((_, first)) = sets.first() else {
            return Ok(());
        };
        let known = self.known.read();
        for (file, module) in known.iter() {
            let is_stored = |(_, set): &(String, Set)| set.exists(file.as_str());
            let mut stored = sets.iter().map(is_stored);
            if !stored.try_fold(false, |found, one| one.map(|one| found || one))? {
                store(first, file, &module.content)?;
            }
        }
        Ok(())
    }

    fn has_room(&self, file: &str, content: &str) -> bool {
        let known = self.known.read();
        let others = known.iter().filter(|(name, _)| *name != file);
        let taken: usize = others
            .map(|(name, module)| name.len() + module.content.len())
            .sum();
        taken + file.len() + content.len() <= MODULES_BYTES_MAX
    }

    fn keep(&self, file: &str, content: &str) {
        let text = base64::decode(content.as_bytes()).unwrap_or_default();
        let hash = Sha1::digest(text);
        let module = Module {
            content: content.to_owned(),
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        let mut known = self.known.write();
        known.insert(file.to_owned(), module);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Forgets a module. One that is not there is no error.
    ///
    /// # Errors
    /// As for [`Set::delete`].
    pub(crate) fn remove(&self, file: &str) -> Result<()> {
        let sets = self.sets.lock();
        // The text that counts is the last to go.
        let mut last_first = sets.iter().rev();
        last_first.try_for_each(|(_, set)| set.delete(file).map(drop))?;
        let mut known = self.known.write();
        known.remove(file);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    pub(crate) fn get(&self, file: &str) -> Option<Module> {
        let known = self.known.read();
        known.get(file).cloned()
    }

    /// Names and hashes, by name.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let known = self.known.read();
        let both = |(name, module): (&String, &Module)| (name.clone(), module.hash.clone());
        known.iter().map(both).collect()
    }
}

fn store(set: &Set, file: &str, content: &str) -> Result<()> {
    let lasting = WritePolicy::default().expiration(Expiration::Never);
    set.put_with(&lasting, file, [(FILE_BIN, file), (CONTENT_BIN, content)])
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_kept_up_to_a_limit() {
        let modules = Modules::default();
        assert!(modules.put("a.lua", "eA==").unwrap());
        let first = modules.list();
        assert_eq!((first[0].0.as_str(), first[0].1.len()), ("a.lua", 40));
        assert!(modules.put("a.lua", "eQ==").unwrap());
        assert_ne!(modules.list(), first);
        assert_eq!(modules.get("a.lua").unwrap().content, "eQ==");
        let large = "A".repeat(MODULES_BYTES_MAX - 20);
        assert!(modules.put("b.lua", &large[..large.len() / 2]).unwrap());
        assert!(!modules.put("c.lua", &large).unwrap());
        modules.remove("b.lua").unwrap();
        assert!(modules.put("c.lua", &large[..large.len() - 20]).unwrap());
        assert_eq!(modules.list().len(), 2);
    }
}
