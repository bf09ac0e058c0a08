//! The server without the feature `lua`: modules are kept and listed, and a call of a function is refused.

use std::sync::Arc;
use std::time::Instant;

use super::function_call::{FunctionCall, FunctionResult, RecordInput};
use super::modules::Modules;
use crate::Value;

const ABSENT: &str =
    "this server runs no user-defined functions: it was built without the feature \"lua\"";

/// The registered modules.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) modules: Arc<Modules>,
}

impl Functions {
    pub(crate) fn new(modules: Modules) -> Self {
        Self {
            modules: Arc::new(modules),
        }
    }

    #[expect(clippy::unused_self, reason = "as with Lua")]
    pub(crate) fn call(
        &self,
        _call: &FunctionCall,
        _record: RecordInput,
        _ends: Instant,
    ) -> Result<FunctionResult, String> {
        Err(ABSENT.to_owned())
    }

    #[expect(clippy::unused_self, reason = "as with Lua")]
    pub(crate) fn begin_stream(
        &self,
        _call: &FunctionCall,
        _ends: Instant,
    ) -> Result<Stream, String> {
        Err(ABSENT.to_owned())
    }
}

/// There are no streams.
#[derive(Debug)]
pub(crate) enum Stream {}

impl Stream {
    pub(crate) fn push(&self, _record: RecordInput, _ends: Instant) -> Result<Vec<Value>, String> {
        match *self {}
    }

    pub(crate) fn finish(&self, _ends: Instant) -> Result<Vec<Value>, String> {
        match *self {}
    }
}

/// Modules are not compiled.
pub(crate) const fn check(_file: &str, _text: &[u8]) -> Result<(), (u32, String)> {
    Ok(())
}
