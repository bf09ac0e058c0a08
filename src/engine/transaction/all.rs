//! Calls on several records that are all made or none: the declarative form of a transaction.

use super::set::TransactionSet;
use super::{Transaction, TransactionPolicy};
use xxhash_rust::xxh3::xxh3_128;

use crate::engine::namespace::Namespace;
use crate::engine::policy::{Expiration, WritePolicy};
use crate::engine::set::{OperateResult, RecordCall, Set};
use crate::value::Value;
use crate::{Error, Result};

/// The set that holds the tokens of [`Namespace::operate_all_once`], a record each, which expires.
pub const TOKEN_SET: &str = "<tokens";

/// What was done under a token.
const CALLS_BIN: &str = "calls";

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
        self.transaction_with(policy, |tx| make_all(tx, calls))
    }

    /// Makes these calls as [`Namespace::operate_all`] does, but only once for a token: for callers who do not know whether an
    /// earlier attempt has arrived. `None`: these calls were made before under this token.
    ///
    /// The token is written with the records, in the same transaction, and forgotten after
    /// [`TransactionPolicy::token_time_to_live`]: a record of the set [`TOKEN_SET`], which counts as one of the transaction's.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::operations::add;
    /// use spikelet::{RecordCall, SetCall, TransactionPolicy, WritePolicy};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let stock = store.set("stock")?;
    /// let (policy, take) = (WritePolicy::default(), [add("n", -1)]);
    /// let call = RecordCall { policy: &policy, key: "pen".into(), operations: &take };
    /// let calls = [SetCall { set: &stock, call }];
    /// let namespace = store.namespace("test")?;
    /// let order = |calls| namespace.operate_all_once(&TransactionPolicy::default(), "order 17", calls);
    /// assert!(order(&calls)?.is_some());
    /// assert!(order(&calls)?.is_none()); // it has arrived before
    /// assert_eq!(stock.get("pen")?.and_then(|pen| pen.get("n")), Some((-1).into()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Namespace::operate_all`], and [`Error::Parameter`] for a token under which other calls were made. Calls are
    /// compared as this build of the library shows them, so a program that was built anew meanwhile may be refused.
    pub fn operate_all_once(
        &self,
        policy: &TransactionPolicy,
        token: &str,
        calls: &[SetCall<'_>],
    ) -> Result<Option<Vec<Option<OperateResult>>>> {
        let tokens = self.set(TOKEN_SET)?;
        let calls_hash = Value::Blob(hash_of(calls).to_vec());
        let kept = WritePolicy::default().expiration(Expiration::After(policy.token_time_to_live));
        self.transaction_with(policy, |tx| {
            let tokens = tx.in_set(&tokens)?;
            if let Some(known) = tokens.get(token)? {
                return match known.get(CALLS_BIN) == Some(calls_hash.clone()) {
                    true => Ok(None),
                    false => Err(Error::parameter(format!(
                        "token {token:?} stands for other calls: use a new token for each transaction"
                    ))),
                };
            }
            let results = make_all(tx, calls)?;
            tokens.put_with(&kept, token, [(CALLS_BIN, calls_hash.clone())])?;
            Ok(Some(results))
        })
    }
}

/// Makes the calls, or says why they are refused.
fn make_all(tx: &Transaction<'_>, calls: &[SetCall<'_>]) -> Result<Vec<Option<OperateResult>>> {
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
}

/// What tells calls apart.
fn hash_of(calls: &[SetCall<'_>]) -> [u8; 16] {
    let mut text = String::new();
    for SetCall { set, call } in calls {
        text.push_str(&format!("{set:?} {call:?}\n"));
    }
    xxh3_128(text.as_bytes()).to_le_bytes()
}

fn make(set: &TransactionSet<'_>, call: &RecordCall<'_>) -> Result<Option<OperateResult>> {
    if call.operations.is_empty() {
        return set.check(call.policy, &call.key).map(|()| None);
    }
    set.operate_with(call.policy, &call.key, call.operations)
        .map(Some)
}
