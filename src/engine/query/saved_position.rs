//! How far named operations in the background have come, in the catalog.

use spikelet_storage::Digest;

use crate::engine::core::NamespaceCore;
use crate::{Error, Result, base64};

impl NamespaceCore {
    /// The last record that an operation in the background has met, as far as it was saved. `job`:
    /// its query and operations.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another one of this name was broken off.
    pub(super) fn background_position(&self, name: &str, job: &str) -> Result<Option<Digest>> {
        let catalog = self.catalog.lock();
        let Some(saved) = catalog.background.get(name) else {
            return Ok(None);
        };
        let position = saved
            .strip_suffix(job)
            .and_then(|text| base64::decode(text.as_bytes()));
        match position.and_then(|bytes| bytes.as_slice().try_into().ok()) {
            Some(digest) => Ok(Some(Digest::new(digest))),
            None => Err(Error::parameter(format!(
                "operation {name:?} in the background was broken off, and had another query or other operations: begin that one again to end or cancel it, or use another name"
            ))),
        }
    }

    pub(super) fn save_background(&self, name: &str, job: &str, after: Digest) -> Result<()> {
        let saved = base64::encode(after.as_bytes()) + job;
        self.change_catalog(|catalog| {
            catalog.background.insert(name.into(), saved);
            Ok(())
        })
    }

    pub(super) fn forget_background(&self, name: &str) -> Result<()> {
        self.change_catalog(|catalog| {
            catalog.background.remove(name);
            Ok(())
        })
    }
}
