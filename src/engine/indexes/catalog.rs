//! What a namespace declares, and how far its operations in the background have come, as its metadata keep it: docs/format.md,
//! "Catalog".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spikelet_storage::Digest;

use super::super::core::Core;
use super::index::Index;
use crate::index::IndexDefinition;
use crate::{Error, Result, base64};

const VERSION: u32 = 1;

/// What a namespace declares.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Catalog {
    version: u32,
    pub(super) indexes: Vec<Declared>,
    /// How far operations in the background have come: the digest of the last record, by their names.
    #[serde(default)]
    pub(super) background: BTreeMap<Box<str>, String>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            version: VERSION,
            indexes: Vec::new(),
            background: BTreeMap::new(),
        }
    }
}

/// A declared index.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Declared {
    /// `None`: the records of all sets.
    pub(super) set: Option<Box<str>>,
    #[serde(flatten)]
    pub(super) definition: IndexDefinition,
}

impl Declared {
    pub(super) fn of(index: &Index) -> Self {
        Self {
            set: index.set.clone(),
            definition: index.definition.clone(),
        }
    }
}

impl Catalog {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::Serde(error.to_string().into()))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let refuse = |why: String| {
            Error::parameter(format!(
                "the catalog of the namespace cannot be read: {why}; open the store with the program that wrote it"
            ))
        };
        let catalog: Self =
            serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
        match catalog.version {
            VERSION => Ok(catalog),
            found => Err(refuse(format!(
                "it has version {found}, this build reads {VERSION}"
            ))),
        }
    }
}

impl Core {
    /// Changes the catalog. The caller holds the lock of declarations.
    pub(super) fn edit_catalog(&self, edit: impl FnOnce(&mut Catalog)) -> Result<()> {
        let mut catalog = Catalog::decode(&self.storage.catalog())?;
        edit(&mut catalog);
        Ok(self.storage.set_catalog(&catalog.encode()?)?)
    }

    /// The last record that an operation in the background has met, as far as it was saved.
    pub(in crate::engine) fn background_position(&self, name: &str) -> Result<Option<Digest>> {
        let catalog = Catalog::decode(&self.storage.catalog())?;
        let position = catalog.background.get(name);
        let bytes = position.and_then(|text| base64::decode(text.as_bytes()));
        Ok(bytes
            .and_then(|bytes| bytes.as_slice().try_into().ok())
            .map(Digest::new))
    }

    pub(in crate::engine) fn save_background(&self, name: &str, after: Digest) -> Result<()> {
        let _declaring = self.indexes.declaring.lock();
        let after = base64::encode(after.as_bytes());
        self.edit_catalog(|catalog| {
            catalog.background.insert(name.into(), after);
        })
    }

    pub(in crate::engine) fn forget_background(&self, name: &str) -> Result<()> {
        let _declaring = self.indexes.declaring.lock();
        self.edit_catalog(|catalog| {
            catalog.background.remove(name);
        })
    }
}
