//! The results of operations, and the sinks that take them.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::call::CallReply;
use crate::record::BinName;
use crate::value::Value;
use crate::{Error, Result};

/// What one operation returned.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationResult {
    /// The position of the operation in its call.
    pub operation: usize,
    /// The bin that the operation was for.
    pub bin: BinName,
    /// The value read; [`Value::Nil`] if there is no value.
    pub value: Value,
}

/// What several operations on one record returned, in their order: a slice of [`OperationResult`],
/// which can be taken apart by value, too. A single result takes no allocation.
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
pub struct OperationResults(SmallVec<[OperationResult; 1]>);

impl OperationResults {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Deref for OperationResults {
    type Target = [OperationResult];

    fn deref(&self) -> &Self::Target {
        &self.0
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
        results.0.into_vec()
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

#[cfg(feature = "cluster")]
impl FromIterator<OperationResult> for OperationResults {
    fn from_iter<I: IntoIterator<Item = OperationResult>>(results: I) -> Self {
        Self(results.into_iter().collect())
    }
}

/// Where results go, in the order of the operations.
pub(crate) trait ResultSink {
    /// Takes the result of the operation at this position. An error ends the run.
    fn add(&mut self, operation: usize, bin: &BinName, reply: CallReply<'_>) -> Result<()>;
}

/// Results as users get them.
impl ResultSink for OperationResults {
    fn add(&mut self, operation: usize, bin: &BinName, reply: CallReply<'_>) -> Result<()> {
        let value = reply
            .to_value()
            .map_err(|source| Error::malformed("bin", source))?;
        self.0.push(OperationResult {
            operation,
            bin: *bin,
            value,
        });
        Ok(())
    }
}
