//! Writes to single records that several handles make.

use crate::expressions::{and, bin_exists, not};
use crate::operations::{self, delete_all_bins};
use crate::policy::RecordExistsAction;
use crate::record::BinName;
use crate::{Bins, Error, Key, Operation, RecordSet, Result, Value, WritePolicy};

/// Returns the operations that write these bins.
pub(super) fn puts(bins: &Bins) -> Vec<Operation> {
    let put = |(name, value): (&BinName, &Value)| operations::put(name.as_str(), value.clone());
    bins.iter().map(put).collect()
}

/// Returns the policy by which a record is replaced.
pub(super) fn replacing() -> WritePolicy {
    WritePolicy::default()
        .record_exists_action(RecordExistsAction::Replace)
        .of_relation()
}

/// Deletes a record. Returns whether there was one.
pub(super) fn delete<R: RecordSet>(records: &R, key: &Key<'_>) -> Result<bool> {
    match records.operate_on(&WritePolicy::default(), key, &[delete_all_bins()]) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes a record, unless it has one of these bins: others have written it since it was emptied. Returns whether it is gone.
pub(super) fn delete_without<R: RecordSet>(
    records: &R,
    key: &Key<'_>,
    bins: &[&str],
) -> Result<bool> {
    let absent = bins.iter().map(|bin| not(bin_exists(bin)));
    let filter = absent.reduce(|all, absent| and([all, absent]));
    let policy = WritePolicy::default().filter(filter);
    match records.operate_on(&policy, key, &[delete_all_bins()]) {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(true),
        Err(Error::FilteredOut { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
