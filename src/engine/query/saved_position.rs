//! How far named operations in the background have come, in the catalog.

use spikelet_storage::Digest;

use crate::engine::core::NamespaceCore;
use crate::{Result, base64};

impl NamespaceCore {
    /// The last record that an operation in the background has met, as far as it was saved. `job`:
    /// its query and operations. `None`: nothing was saved, or by another one of this name.
    pub(super) fn background_position(&self, name: &str, job: &str) -> Option<Digest> {
        let catalog = self.catalog.lock();
        let saved = catalog.background.get(name)?.strip_suffix(job)?;
        let bytes = base64::decode(saved.as_bytes())?;
        bytes.as_slice().try_into().ok().map(Digest::new)
    }

    pub(super) fn save_background(&self, name: &str, job: &str, after: Digest) -> Result<()> {
        // An entry of the log, behind the writes up to this record: no crash keeps it without them.
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
