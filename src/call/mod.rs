//! The encoded form of an operation on one bin: written by builders, sent by clients, read by
//! executors.
//!
//! An operation on lists, maps, bits or sketches is a *call*: its number and its arguments, as one
//! MessagePack list. This form gives all callers one path: the functions of `operations`, a client
//! on the wire, and an expression.
//!
//! * `payload`: parsing a call into context, number, arguments.
//! * `context`, `level`: the path into nested lists and maps. `system`: the executor of a call.
//! * `write`: encoding a call.
//! * `reply`: the results of calls. `error`: the reasons for refusing them.
//!
//! May import values and their encoding. Must know neither bins nor the list of calls.

pub(crate) mod context;
mod error;
pub(crate) mod level;
mod payload;
mod reply;
mod system;
mod write;

pub(crate) use context::{Context, encode_path};
pub(crate) use error::CallError;
pub(crate) use payload::{
    CALL_BELOW, CALL_SELECT, CallArguments, Path, PathCall, Payload, Trust, nest_deeper_than,
    normal,
};
pub(crate) use reply::CallReply;
pub(crate) use system::CallSystem;
pub(crate) use write::{CallWriter, EncodedCall, below};

/// The most items in one argument that is a list or map: Aerospike's limit.
pub(crate) const MAX_ARGUMENT_ITEMS: usize = 1 << 20;

/// The longest list or map that an operation makes, in bytes: no record can hold a longer one, and
/// a short call must not cost more memory.
pub(crate) const MAX_COLLECTION_BYTES: usize = 8 << 20;
