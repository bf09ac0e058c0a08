//! Writes to single records that several handles make.

use super::keys::element_of;
use crate::engine::declaration::SideForm;
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, blob_bin, eq, int_bin, not, string_bin};
use crate::operations::{self, delete_all_bins};
use crate::policy::RecordExistsAction;
use crate::record::BinName;
use crate::{Bins, Error, Key, Operation, RecordSet, RecordStore, Result, Value, WritePolicy};

/// The only bin of a record that is about to be deleted, where a restart of the store may bring it back.
pub(super) const REMOVED: &str = "~removed";

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

/// The condition that a bin of a record has this key.
pub(super) fn names(bin: &str, key: &Key<'_>) -> Expression {
    let named = match key {
        Key::Integer(_) => int_bin(bin),
        Key::String(_) => string_bin(bin),
        Key::Blob(_) => blob_bin(bin),
    };
    eq(named, element_of(key))
}

/// Refuses bins in which another relation than this one has references: it would not hear of the change.
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

/// Deletes a record. Returns whether there was one.
pub(super) fn delete<R: RecordSet>(records: &R, key: &Key<'_>) -> Result<bool> {
    delete_with(records, &WritePolicy::default(), key)
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

/// Deletes a record that refers to another one by this bin, if the condition holds. Returns whether it did.
///
/// Where a restart may bring the record back, it loses the reference before it is deleted: what returns refers to nothing.
/// A record that an earlier call has left without its reference is deleted, too.
pub(super) fn delete_referring<R: RecordSet>(
    records: &R,
    key: &Key<'_>,
    bin: &str,
    condition: Expression,
) -> Result<bool> {
    let deleting = WritePolicy::default().filter(condition);
    if !records.may_bring_back(&deleting) {
        return delete_with(records, &deleting, key);
    }
    let emptying = deleting.record_exists_action(RecordExistsAction::ReplaceOnly);
    let is_emptied = match records.operate_on(&emptying, key, &[operations::put(REMOVED, 1)]) {
        Ok(_) => true,
        Err(Error::FilteredOut { .. }) => false,
        Err(Error::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let still = and([bin_exists(REMOVED), not(bin_exists(bin))]);
    delete_with(records, &WritePolicy::default().filter(still), key)?;
    Ok(is_emptied)
}
