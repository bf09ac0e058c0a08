//! Operations on one record: what users and the wire protocol build, and their execution on a record's bytes.
//!
//! Pure: the bytes of the old record and the operations go in, the bytes of the new record and the results come out.
//! Locks, generations, times, existence and size limits are the engine's.
//!
//! * [`operations`]: the constructors that users call.
//! * `check`: what can be refused before the record is looked up; the entry points of execution.
//! * `execute`: the run over a record that writes; `read`: the run that only reads.
//! * `scalar`, `call`, `evaluate`: what one operation does to one bin.
//! * `change`: the new value of a bin, not yet written; `slots`: the bins of a record under way.
//! * `merge`: the common put, without operations. `bin_value`: what may be written as a whole bin.

mod bin_value;
mod call;
mod change;
mod check;
mod evaluate;
mod execute;
mod merge;
pub mod operations;
mod read;
mod scalar;
mod slots;
#[cfg(test)]
mod tests;

pub(crate) use bin_value::check_bin_value;
pub(crate) use check::{Checked, Mode};
pub(crate) use merge::merge;
#[cfg(feature = "server")]
pub(crate) use read::ResultSink;
pub(crate) use read::SingleRead;
pub(crate) use scalar::End;

use std::fmt;
use std::ops::Deref;

use self::call::BinCall;
use self::scalar::Operand;
use crate::call::CallError;
use crate::cdt::PreparedCall;
use crate::expression::Evaluation;
use crate::record::BinName;
use crate::value::{ParticleType, Value};
use crate::{Error, Result};

/// The most operations in one transaction: Aerospike's limit.
pub const MAX_OPERATIONS: usize = 32_768;

/// One operation on one bin, or on the whole record. Built by the functions of [`operations`].
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::{add, get_bin, lists};
///
/// let pages = spikelet::Store::in_memory()?.set("pages")?;
/// // Prepared once, used often.
/// let visit = [add("visits", 1), lists::append(&Default::default(), "log", "seen"), get_bin("visits")];
/// pages.operate("home", &visit)?;
/// let second = pages.operate("home", &visit)?;
/// assert_eq!(second.bin("visits"), Some(&2.into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The bin; a name that is not allowed is kept for the message. Empty for operations on the whole record.
    bin: std::result::Result<BinName, Box<str>>,
    action: Action,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Read,
    ReadAll,
    Write(Value),
    /// A value in a client's encoding.
    WriteEncoded(ParticleType, Box<[u8]>),
    Add(Operand),
    Join(End, Operand),
    Touch,
    DeleteAll,
    /// An operation on a list or map, its arguments ready for use.
    Collection {
        call: PreparedCall,
        /// What the last context of a path gets, if contexts are added: bits that create what it names.
        creates: i64,
    },
    /// A call of the lists and maps, of the bits, or of the sketches, in its encoded form.
    Call(BinCall),
    /// The value of an expression, read or written to the bin.
    Evaluate {
        writes: bool,
        evaluation: std::result::Result<Evaluation, CallError>,
    },
}

impl Operation {
    fn on_bin(bin: &str, action: Action) -> Self {
        Self {
            bin: BinName::from_utf8(bin.as_bytes()).ok_or_else(|| bin.into()),
            action,
        }
    }

    const fn on_record(action: Action) -> Self {
        Self {
            bin: Ok(BinName::EMPTY),
            action,
        }
    }

    /// The bin's name.
    #[inline]
    fn bin(&self) -> Result<&BinName> {
        match &self.bin {
            Ok(bin) => Ok(bin),
            Err(name) => Err(Error::BinName(name.clone())),
        }
    }

    /// True if the operation changes the record; one such makes the transaction a write.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match &self.action {
            Action::Read | Action::ReadAll => false,
            Action::Collection { call, .. } => call.writes(),
            Action::Call(call) => call.is_write(),
            Action::Evaluate { writes, .. } => *writes,
            _ => true,
        }
    }

    /// True if the operation may not be combined with the replacement of a record
    /// (semantics.md#replacing-a-record).
    fn needs_old_bins(&self) -> bool {
        match &self.action {
            Action::Read | Action::ReadAll | Action::Evaluate { .. } => false,
            Action::WriteEncoded(kind, _) => *kind == ParticleType::Null,
            Action::Write(value) => *value == Value::Nil,
            Action::Collection { call, .. } => call.writes(),
            Action::Call(call) => call.is_write(),
            _ => true,
        }
    }

    /// True if the operation may return something.
    const fn has_result(&self) -> bool {
        match &self.action {
            Action::Read | Action::Collection { .. } => true,
            Action::Call(call) => call.has_result(),
            Action::Evaluate { writes, .. } => !*writes,
            _ => false,
        }
    }
}

/// What one operation returned.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationResult {
    /// The position of the operation among those that were executed together.
    pub operation: usize,
    /// The bin that the operation was for.
    pub bin: BinName,
    /// What was read; [`Value::Nil`] if there is no value.
    pub value: Value,
}

/// What several operations on one record returned, in their order: a slice of [`OperationResult`], which can be taken apart by
/// value, too. A single result takes no allocation.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::{add, get_bin};
/// let pages = spikelet::Store::in_memory()?.set("pages")?;
/// let visited = pages.operate("home", &[add("visits", 1), get_bin("visits")])?;
/// assert_eq!(visited.results.len(), 1);
/// for result in visited.results {
///     assert_eq!((result.bin.as_str(), result.value), ("visits", 1.into()));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct OperationResults {
    held: Held,
}

#[derive(Clone, PartialEq)]
enum Held {
    UpToOne(Option<OperationResult>),
    Several(Vec<OperationResult>),
}

impl Default for Held {
    fn default() -> Self {
        Self::UpToOne(None)
    }
}

impl OperationResults {
    #[inline]
    fn push(&mut self, result: OperationResult) {
        match &mut self.held {
            Held::UpToOne(slot @ None) => *slot = Some(result),
            Held::UpToOne(slot) => {
                self.held = Held::Several(slot.take().into_iter().chain([result]).collect());
            }
            Held::Several(results) => results.push(result),
        }
    }
}

impl Deref for OperationResults {
    type Target = [OperationResult];

    fn deref(&self) -> &Self::Target {
        match &self.held {
            Held::UpToOne(result) => result.as_slice(),
            Held::Several(results) => results,
        }
    }
}

impl<const N: usize> PartialEq<[OperationResult; N]> for OperationResults {
    fn eq(&self, other: &[OperationResult; N]) -> bool {
        **self == *other
    }
}

impl PartialEq<Vec<OperationResult>> for OperationResults {
    fn eq(&self, other: &Vec<OperationResult>) -> bool {
        **self == **other
    }
}

impl fmt::Debug for OperationResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

impl From<OperationResults> for Vec<OperationResult> {
    fn from(results: OperationResults) -> Self {
        match results.held {
            Held::UpToOne(result) => result.into_iter().collect(),
            Held::Several(results) => results,
        }
    }
}

impl IntoIterator for OperationResults {
    type Item = OperationResult;
    type IntoIter = std::vec::IntoIter<OperationResult>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self).into_iter()
    }
}

impl<'a> IntoIterator for &'a OperationResults {
    type Item = &'a OperationResult;
    type IntoIter = std::slice::Iter<'a, OperationResult>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
