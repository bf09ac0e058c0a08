//! Entries for fuzz targets into what no public function reaches: calls on lists and maps as a client sends them, and what
//! the server does with a client's bytes.

pub use crate::server::fuzz::FuzzTarget;

use crate::Operation;
use crate::call::CallSystem;

/// An operation on a list or map in a client's encoding, whatever the bytes are.
#[must_use]
pub fn collection_call(bin: &str, writes: bool, call: &[u8]) -> Operation {
    Operation::encoded_call(bin, CallSystem::Collections, writes, call)
}
