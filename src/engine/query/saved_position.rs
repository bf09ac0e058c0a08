//! How far named operations in the background have come, in the catalog.

use spikelet_storage::Digest;

use crate::engine::core::NamespaceCore;
use crate::{Result, base64};

impl NamespaceCore {
    /// The last record that an operation in the background has met, as far as it was saved.
    pub(super) fn background_position(&self, name: &str) -> Option<Digest> {
        let catalog = self.catalog.lock();
        let position = catalog.background.get(name);
        let bytes = position.and_then(|text| base64::decode(text.as_bytes()));
        bytes
            .and_then(|bytes| bytes.as_slice().try_into().ok())
            .map(Digest::new)
    }

    pub(super) fn save_background(&self, name: &str, after: Digest) -> Result<()> {
        let after = base64::encode(after.as_bytes());
        self.change_catalog(|catalog| {
            catalog.background.insert(name.into(), after);
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
