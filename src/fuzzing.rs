//! Entries for fuzz targets into code that no public function reaches: calls on lists and maps as a
//! client sends them, and the server's handling of a client's bytes.

pub use crate::server::fuzz::FuzzTarget;

use crate::Operation;
use crate::call::CallSystem;

/// Returns an operation on a list or map in a client's encoding, valid or not.
#[must_use]
pub fn collection_call(bin: &str, writes: bool, call: &[u8]) -> Operation {
    Operation::encoded_call(bin, CallSystem::Collections, writes, call)
}
