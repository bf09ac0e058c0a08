//! What a namespace declares, as it is kept in its metadata: docs/format.md, "Catalog".

use std::collections::BTreeMap;

#[cfg(feature = "server")]
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use spikelet_storage::CATALOG_BYTES_MAX;

use crate::index::IndexDefinition;
use crate::{Error, Result};

/// The version of the catalog; another one is refused.
const VERSION: u32 = 2;
/// Room that declarations leave for notes: names of sets with companions, and how far operations in
/// the background have come.
const NOTES_BYTES: usize = 8 << 10;

/// Everything that is declared.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Catalog {
    version: u32,
    pub(super) indexes: Vec<DeclaredIndex>,
    /// How far operations in the background have come: the digest of the last record, by their
    /// names.
    pub(super) background: BTreeMap<Box<str>, String>,
    /// The names of sets that have, or had, records which hold shards of collections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) companions: Vec<Box<str>>,
    /// The names of relations that are, or were, declared: the keys of the records with their
    /// declarations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) relations: Vec<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subscriptions: Vec<DeclaredSubscription>,
    /// The users and roles of a server, in a form of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access: Option<AccessText>,
}

/// JSON with hashes of passwords, which no output of `Debug` shows.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct AccessText(Box<RawValue>);

impl std::fmt::Debug for AccessText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessText")
    }
}

#[cfg(feature = "server")]
impl Catalog {
    /// Returns the users and roles; `None` if there are none.
    pub(super) fn access<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let text = self.access.as_ref().map(|text| text.0.get());
        let read = text.map(serde_json::from_str).transpose();
        read.map_err(|error| Error::Serde(format!("users and roles: {error}").into()))
    }

    pub(super) fn set_access(&mut self, access: &impl Serialize) -> Result<()> {
        let text = serde_json::value::to_raw_value(access);
        let text = text.map_err(Error::serde)?;
        self.access = Some(AccessText(text));
        Ok(())
    }
}

/// A declared index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DeclaredIndex {
    /// `None`: the records of all sets.
    pub(super) set: Option<Box<str>>,
    #[serde(flatten)]
    pub(super) definition: IndexDefinition,
    /// Whether its build has not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unbuilt: bool,
}

/// A subscription to changes, and how far it has come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct DeclaredSubscription {
    pub(super) name: Box<str>,
    /// The log sequence number before its declaration: distinguishes it from others that had its
    /// name.
    pub(super) made: u64,
    /// Empty: all sets with kept changes.
    pub(super) sets: Vec<Box<str>>,
    /// An expression in Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<Box<str>>,
    /// Whether changes are shown before they are durable.
    pub(super) published: bool,
    pub(super) records: bool,
    /// Of each share, the number up to which changes are acknowledged.
    pub(super) acknowledged: Vec<u64>,
}

impl Catalog {
    /// Changes the declarations, and leaves room for what is noted about them later.
    pub(super) fn declare<R>(&mut self, change: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let before = self.bytes_at_most()?;
        let result = change(self)?;
        let bytes = self.bytes_at_most()?;
        // One that is smaller than before is a way out.
        if bytes > before.max(CATALOG_BYTES_MAX - NOTES_BYTES) {
            let refused = spikelet_storage::Error::BadOption {
                option: "catalog",
                value: format!("{bytes} bytes"),
                rule: "at most 512 KiB, of which 8 KiB and 20 digits a share are for later notes",
            };
            return Err(refused.into());
        }
        Ok(result)
    }

    /// The length once the positions of subscriptions have all of their digits.
    fn bytes_at_most(&self) -> Result<usize> {
        let mut full = self.clone();
        for subscription in &mut full.subscriptions {
            subscription.acknowledged.fill(u64::MAX);
        }
        full.encode().map(|bytes| bytes.len())
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let current = Self {
            version: VERSION,
            ..self.clone()
        };
        serde_json::to_vec(&current).map_err(Error::serde)
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
        if catalog.version != VERSION {
            return Err(refuse(format!(
                "it has version {}, this build reads {VERSION}",
                catalog.version
            )));
        }
        Ok(catalog)
    }
}
