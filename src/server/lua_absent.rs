//! The server without the feature `lua`: modules are kept and listed, and a call of a function is
//! refused.

use std::sync::Arc;
use std::time::Instant;

use super::function_call::{FunctionCall, FunctionResult, RecordInput, Stream};
use super::modules::Modules;

const ABSENT: &str =
    "this server runs no user-defined functions: it was built without the feature \"lua\"";

/// The registered modules.
pub(crate) struct Functions {
    pub(crate) modules: Arc<Modules>,
}

#[expect(clippy::unused_self, reason = "as with Lua")]
impl Functions {
    pub(crate) const fn new(modules: Arc<Modules>) -> Self {
        Self { modules }
    }

    pub(crate) fn call(&self, _: &FunctionCall, _: RecordInput, _: Instant) -> FunctionResult {
        Err(ABSENT.to_owned())
    }

    pub(crate) fn begin_stream(
        &self,
        _: &FunctionCall,
        _: u64,
        _: Instant,
    ) -> Result<Stream, String> {
        Err(ABSENT.to_owned())
    }
}

/// Modules are not compiled.
pub(crate) const fn check(_file: &str, _text: &[u8]) -> Result<(), (u32, String)> {
    Ok(())
}
