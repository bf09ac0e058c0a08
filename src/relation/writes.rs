//! Writes to single records that several handles make.

use super::keys::{REMOVED, element_of};
use crate::engine::ShardAccess;
use crate::engine::declaration::SideForm;
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, blob_bin, eq, int_bin, not, string_bin};
use crate::operations::{self, delete_all_bins};
use crate::policy::RecordExistsAction;
use crate::record::BinName;
use crate::{
    Bins, Error, Key, Operation, RecordSet, RecordStore, Result, TransactionPolicy, Value,
    WritePolicy,
};

/// Returns the operations that write these bins.
pub(super) fn puts(bins: &Bins) -> Vec<Operation> {
    let put = |(name, value): (&BinName, &Value)| operations::put(name.as_str(), value.clone());
    bins.iter().map(put).collect()
}

/// Returns the default policy, but for its time limit: writes to several records wait as long as
/// transactions do.
pub(super) fn patient() -> WritePolicy {
    WritePolicy::default().total_timeout(TransactionPolicy::default().total_timeout)
}

/// Returns the policy by which a record is replaced.
pub(super) fn replacing() -> WritePolicy {
    patient()
        .record_exists_action(RecordExistsAction::Replace)
        .with_access(ShardAccess::Related)
}

/// The condition that a bin of a record has this key.
pub(super) fn names(bin: &str, key: &Key<'_>) -> Expression {
    let named = match key {
        Key::Integer(_) => int_bin(bin),
        Key::String(_) => string_bin(bin),
        Key::Blob(_) => blob_bin(bin),
    };
    eq(named, element_of(key))
}

/// Refuses bins in which another relation than this one has references: it would not hear of the
/// change.
///
/// # Errors
/// [`Error::OwnedBin`].
pub(super) fn check_owned<S: RecordStore>(
    store: &S,
    (relation, set): (&str, &str),
    bins: &Bins,
) -> Result<()> {
    let Some(guard) = store.relation_guard()? else {
        return Ok(());
    };
    for other in guard.declarations().iter() {
        let mut taken = other.owned_bins().filter(|(of, bin, form)| {
            let is_collection = matches!(form, Some(SideForm::List | SideForm::Map));
            *of == set && !is_collection && bins.get(bin).is_some()
        });
        if *other.name != *relation
            && let Some((_, bin, _)) = taken.next()
        {
            return Err(Error::OwnedBin {
                bin: bin.into(),
                relation: other.name.clone(),
                record: None,
            });
        }
    }
    Ok(())
}

/// Deletes a record by a policy. Returns whether there was one, for which the policy's filter held.
pub(super) fn delete_with<R: RecordSet>(
    records: &R,
    policy: &WritePolicy,
    key: &Key<'_>,
) -> Result<bool> {
    match records.operate_on(policy, key, &[delete_all_bins()]) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. } | Error::FilteredOut { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes a record of a relation by a policy. Returns whether there was one, for which the
/// policy's filter held. `bin`: where the record refers to another one.
///
/// Where a restart may bring the record back, it loses its bins before it is deleted: what returns
/// belongs to nothing. A record that an earlier call has left without them is deleted, too.
pub(super) fn delete_member<R: RecordSet>(
    records: &R,
    deleting: &WritePolicy,
    key: &Key<'_>,
    bin: Option<&str>,
) -> Result<bool> {
    if !records.may_bring_back(deleting) {
        return delete_with(records, deleting, key);
    }
    let mut emptying = deleting
        .clone()
        .record_exists_action(RecordExistsAction::ReplaceOnly);
    if emptying.filter.is_none() {
        emptying = emptying.filter(not(bin_exists(REMOVED)));
    }
    let is_emptied = match records.operate_on(&emptying, key, &[operations::put(REMOVED, 1)]) {
        Ok(_) => true,
        Err(Error::FilteredOut { .. }) => false,
        Err(Error::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let still = match bin {
        Some(bin) => and([bin_exists(REMOVED), not(bin_exists(bin))]),
        None => bin_exists(REMOVED),
    };
    let emptied = WritePolicy::default().total_timeout(deleting.total_timeout);
    delete_with(records, &emptied.filter(still), key)?;
    Ok(is_emptied)
}
