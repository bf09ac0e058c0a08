//! Operations on one record: what users and the wire protocol build, and their execution on a
//! record's bytes.
//!
//! Pure: the bytes of the old record and the operations go in, the bytes of the new record and the
//! results come out. Locks, generations, times, existence and size limits are the engine's.
//!
//! * [`operations`]: the constructors that users call.
//! * `action`: one operation and its action; `results`: the results of operations.
//! * `check`: the checks made before the record is looked up; the entry points of execution.
//! * `execute`: the run over a record that writes; `read`: the run that only reads.
//! * `scalar`, `call`: one operation on one bin.
//! * `change`: the new value of a bin, not yet written; `slots`: the bins of a record under way.
//! * `merge`: the common put and an edit of all bins, without operations. `bin_value`: checks of
//!   whole values.

mod action;
mod bin_value;
mod call;
mod change;
mod check;
mod execute;
mod merge;
pub mod operations;
mod read;
mod results;
mod scalar;
mod slots;
#[cfg(test)]
mod tests;

pub use action::Operation;
#[cfg(feature = "cluster")]
pub(crate) use action::OperationAction;
pub use check::MAX_OPERATIONS;
pub use results::{OperationResult, OperationResults};

pub(crate) use check::{Checked, Mode};
pub(crate) use merge::{merge, rewrite};
pub(crate) use read::SingleRead;
pub(crate) use results::ResultSink;
#[cfg(any(feature = "server", feature = "cluster"))]
pub(crate) use scalar::JoinEnd;
