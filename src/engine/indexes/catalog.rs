//! How declarations of indexes are kept in the namespace's metadata: docs/format.md, "Catalog".

use serde::{Deserialize, Serialize};

use super::index::Index;
use crate::index::IndexDefinition;
use crate::{Error, Result};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Catalog {
    version: u32,
    indexes: Vec<Declared>,
}

/// A declared index.
#[derive(Serialize, Deserialize)]
pub(super) struct Declared {
    /// `None`: the records of all sets.
    pub(super) set: Option<Box<str>>,
    #[serde(flatten)]
    pub(super) definition: IndexDefinition,
}

pub(super) fn encode(list: &[std::sync::Arc<Index>]) -> Result<Vec<u8>> {
    let indexes = list.iter().map(|index| Declared {
        set: index.set.clone(),
        definition: index.definition(),
    });
    let catalog = Catalog {
        version: VERSION,
        indexes: indexes.collect(),
    };
    serde_json::to_vec(&catalog).map_err(|error| Error::Serde(error.to_string().into()))
}

pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Declared>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let refuse = |why: String| {
        Error::parameter(format!(
            "the catalog of indexes cannot be read: {why}; open the store with the program that wrote it"
        ))
    };
    let catalog: Catalog =
        serde_json::from_slice(bytes).map_err(|error| refuse(error.to_string()))?;
    if catalog.version != VERSION {
        return Err(refuse(format!(
            "it has version {}, this build reads {VERSION}",
            catalog.version
        )));
    }
    Ok(catalog.indexes)
}
