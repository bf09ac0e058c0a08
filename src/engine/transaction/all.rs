//! Calls on several records that are all made or none: the declarative form of a transaction.

use super::TransactionPolicy;
use super::set::TransactionSet;
use crate::engine::namespace::Namespace;
use crate::engine::set::{OperateResult, RecordCall, Set};
use crate::{Error, Result};

/// A call of [`Namespace::operate_all`]: operations on one record, and the conditions of its policy.
#[derive(Clone, Debug)]
pub struct SetCall<'a> {
    /// The set of the record.
    pub set: &'a Set,
    /// What is done to it, and what must hold for it: existence, generation and filter of its policy. Without operations, those
    /// are only checked.
    pub call: RecordCall<'a>,
}

impl Namespace {
    /// Makes these calls as one transaction: all of them, in order, or none. Returns the results in the order of the calls; `None`
    /// for a call without operations. A later call on a record meets it as an earlier one has left it.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::operations::add;
    /// use spikelet::policy::RecordExistsAction;
    /// use spikelet::{Error, RecordCall, SetCall, TransactionPolicy, WritePolicy};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let (orders, stock) = (store.set("orders")?, store.set("stock")?);
    /// stock.put("pen", [("n", 1)])?;
    /// let new = WritePolicy::default().record_exists_action(RecordExistsAction::CreateOnly);
    /// let known = WritePolicy::default().record_exists_action(RecordExistsAction::UpdateOnly);
    /// let (order, take) = ([add("pens", 1)], [add("n", -1)]);
    /// let calls = [
    ///     SetCall { set: &orders, call: RecordCall { policy: &new, key: 1.into(), operations: &order } },
    ///     SetCall { set: &stock, call: RecordCall { policy: &known, key: "pen".into(), operations: &take } },
    /// ];
    /// let namespace = store.namespace("test")?;
    /// namespace.operate_all(&TransactionPolicy::default(), &calls)?;
    /// // The order is there already.
    /// let again = namespace.operate_all(&TransactionPolicy::default(), &calls).unwrap_err();
    /// let Error::CallsRefused { reasons } = again else { panic!("{again}") };
    /// assert!(matches!(reasons[..], [(0, Error::RecordExists { .. })]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::CallsRefused`] with the reason for each call that was refused; else those of [`Namespace::transaction`].
    pub fn operate_all(
        &self,
        policy: &TransactionPolicy,
        calls: &[SetCall<'_>],
    ) -> Result<Vec<Option<OperateResult>>> {
        self.transaction_with(policy, |tx| {
            let mut results = Vec::with_capacity(calls.len());
            let mut reasons = Vec::new();
            for (position, SetCall { set, call }) in calls.iter().enumerate() {
                match make(&tx.in_set(set)?, call) {
                    Ok(result) => results.push(result),
                    Err(conflict @ Error::Conflict { .. }) => return Err(conflict),
                    Err(error) => reasons.push((position, error)),
                }
            }
            match reasons.is_empty() {
                true => Ok(results),
                false => Err(Error::CallsRefused { reasons }),
            }
        })
    }
}

fn make(set: &TransactionSet<'_>, call: &RecordCall<'_>) -> Result<Option<OperateResult>> {
    if call.operations.is_empty() {
        return set.check(call.policy, &call.key).map(|()| None);
    }
    set.operate_with(call.policy, &call.key, call.operations)
        .map(Some)
}
