//! The texts of user-defined functions: kept for those who ask for them, run by nobody.
//!
//! Clients register modules when they start. They are listed and given back, as long as the server runs; a call of a
//! function is refused.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use ripemd::{Digest as _, Ripemd160};

/// The most bytes of all modules together, encoded.
const MODULES_BYTES_MAX: usize = 16 << 20;

/// A module.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// The text in base64, as it came.
    pub(crate) content: String,
    /// 40 hexadecimal digits that tell one text from another.
    pub(crate) hash: String,
}

/// All modules, by the names of their files.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: RwLock<BTreeMap<String, Module>>,
}

impl Modules {
    /// Keeps a module, instead of one of the same name. False if there is no room for it.
    pub(crate) fn put(&self, file: &str, content: &str) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let others = known.iter().filter(|(name, _)| *name != file);
        let taken: usize = others
            .map(|(name, module)| name.len() + module.content.len())
            .sum();
        if taken + file.len() + content.len() > MODULES_BYTES_MAX {
            return false;
        }
        let hash = Ripemd160::digest(content.as_bytes());
        let module = Module {
            content: content.to_owned(),
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        known.insert(file.to_owned(), module);
        true
    }

    /// Forgets a module. One that is not there is no error.
    pub(crate) fn remove(&self, file: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.remove(file);
    }

    pub(crate) fn get(&self, file: &str) -> Option<Module> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(file).cloned()
    }

    /// Names and hashes, by name.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let both = |(name, module): (&String, &Module)| (name.clone(), module.hash.clone());
        known.iter().map(both).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_kept_up_to_a_limit() {
        let modules = Modules::default();
        assert!(modules.put("a.lua", "eA=="));
        let first = modules.list();
        assert_eq!((first[0].0.as_str(), first[0].1.len()), ("a.lua", 40));
        assert!(modules.put("a.lua", "eQ=="));
        assert_ne!(modules.list(), first);
        assert_eq!(modules.get("a.lua").unwrap().content, "eQ==");
        let large = "A".repeat(MODULES_BYTES_MAX - 20);
        assert!(modules.put("b.lua", &large[..large.len() / 2]));
        assert!(!modules.put("c.lua", &large));
        modules.remove("b.lua");
        assert!(modules.put("c.lua", &large[..large.len() - 20]));
        assert_eq!(modules.list().len(), 2);
    }
}
