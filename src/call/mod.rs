//! The encoded form of an operation on one bin: what builders write, what clients send, what executors read.
//!
//! Lists, maps, bits and sketches are all operated on by a *call*: a number that names the operation, and its arguments,
//! as one MessagePack list. Holding operations in this form means that there is one path, whoever asked: the functions of
//! `operations`, a client on the wire, or an expression.
//!
//! * `payload`: a call, taken apart: context, number, arguments.
//! * `context`: the way into nested lists and maps. `system`: who executes a call.
//! * `write`: a call, put together.
//! * `reply`: what a call returns. `error`: why it was refused.
//!
//! Knows values and their encoding; knows neither bins nor which calls there are.

pub(crate) mod context;
mod error;
mod payload;
mod reply;
mod system;
mod write;

pub(crate) use context::{Context, encode_path};
pub(crate) use error::CallError;
pub(crate) use payload::nest_deeper_than;
pub(crate) use payload::{Arguments, Call, Path, Payload, Trust, normal};
pub(crate) use reply::Reply;
pub(crate) use system::CallSystem;
pub(crate) use write::{CallWriter, EncodedCall, below};

/// The most items in one argument that is a list or map: Aerospike's limit.
pub(crate) const MAX_ARGUMENT_ITEMS: usize = 1 << 20;

/// The longest list or map that an operation makes: no record can hold a longer one, and a short call must not cost the
/// memory of one.
pub(crate) const MAX_COLLECTION_BYTES: usize = 8 << 20;
