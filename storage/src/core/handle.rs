//! The handle of a namespace.

use crate::core::Core;
use crate::core::background::Background;
use std::sync::Arc;

/// A store of bytes by digest. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub(crate) core: Arc<Core>,
    /// Ends the background threads when the last handle goes.
    pub(crate) background: Arc<Background>,
}
