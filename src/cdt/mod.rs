//! Collections inside bins: operations on encoded lists, and later maps.
//!
//! Nothing here decodes a collection to edit one element. An operation on a list goes through these steps:
//!
//! 1. [`list::ListView`] reads the head: count, flags, index data, where the elements begin.
//! 2. Positions are selected: by index (`range`), by value (`list::search`), with the costs that the index allows.
//! 3. A read builds its result from the selected elements (`list::select`). A modification becomes a
//!    [`list::ListEdit`]: splices of the encoded elements, with the length of what it will write known beforehand.
//! 4. The executor of operations lets the edit write itself, once, straight into the new record.
//!
//! Data comes in as the bytes of a bin's value and of encoded arguments, and goes out as edits and results. This layer
//! knows values, but neither records nor bins: errors are [`CdtError`]s, to which the executor adds the bin's name.

mod cost;
mod error;
mod policy;
mod range;
mod returns;

pub(crate) mod list;

pub use policy::{ListPolicy, ListWriteFlags};
pub use returns::{ListReturn, ListReturnType};

pub(crate) use error::CdtError;

/// The most items in one list argument: Aerospike's limit.
pub(crate) const MAX_ARGUMENT_ITEMS: usize = 1 << 20;
