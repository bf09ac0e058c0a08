//! Writes of handles to records that are known beforehand: one group, as long as no collection
//! among them is sharded.

use super::address::{Address, element};
use super::keys::element_of;
use super::side::{OwnedEdges, RelationSide};
use super::writes::{patient, puts, replacing};
use crate::engine::ShardAccess;
use crate::expression::Expression;
use crate::operations::{delete_all_bins, lists, maps};
use crate::policy::RecordExistsAction;
use crate::shard::{Collection, ShardTransition, check_bin, note_obstacle, number};
use crate::{
    Bins, Error, Key, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapReturnType,
    OperateResult, Operation, RecordCall, RecordSet, RecordStore, Result, Value, WritePolicy,
};

/// A change of one record. `R`: its set.
pub(super) struct KnownEdit<'a, R> {
    records: &'a R,
    key: &'a Key<'a>,
    policy: WritePolicy,
    operations: Vec<Operation>,
    reply: EditReply,
    /// The side with the changed collection.
    side: Option<&'a RelationSide>,
    /// The element that it adds there.
    added: Option<Added<'a>>,
}

/// An element that is added to a collection: the key of a record, or a link to one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Added<'a> {
    Key(&'a Key<'a>),
    Link { tag: &'a str, to: &'a Address },
}

impl Added<'_> {
    pub(super) fn element(self) -> Value {
        match self {
            Self::Key(key) => element_of(key),
            Self::Link { tag, to } => element(tag, to),
        }
    }
}

/// How the results of an edit say whether it has changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditReply {
    /// It is refused where it would change nothing.
    Changed,
    /// The counts before and after.
    Grown,
    /// How many elements were removed.
    Removed,
}

/// The treatment of an element that is in a list already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnExisting {
    /// Nothing is written at all, if all other elements of the group are there, too.
    WriteNothing,
    /// The other edits are made.
    MakeOthers,
}

impl<'a, R: RecordSet> KnownEdit<'a, R> {
    /// Replaces a record.
    pub(super) fn replace(records: &'a R, key: &'a Key<'a>, bins: &Bins) -> Self {
        Self::of_record(records, key, replacing(), puts(bins))
    }

    /// Refuses the edit where there is a record for which the condition does not hold.
    pub(super) fn if_there(mut self, condition: Option<Expression>) -> Self {
        self.policy = self.policy.filter(condition);
        self
    }

    /// Deletes a record; refused if there is none, or if other relations have edges there.
    /// `is_asked`: whether the caller's relation is one that the store would ask.
    pub(super) fn delete(records: &'a R, key: &'a Key<'a>, is_asked: bool) -> Self {
        let policy = if is_asked {
            patient().with_access(ShardAccess::Related)
        } else {
            patient()
        };
        Self::of_record(records, key, policy, vec![delete_all_bins()])
    }

    fn of_record(
        records: &'a R,
        key: &'a Key<'a>,
        policy: WritePolicy,
        operations: Vec<Operation>,
    ) -> Self {
        Self {
            records,
            key,
            policy,
            operations,
            reply: EditReply::Changed,
            side: None,
            added: None,
        }
    }

    /// The edit as a call of a group.
    pub(super) fn call(&self) -> (&'a R, RecordCall<'_>) {
        let call = RecordCall {
            policy: &self.policy,
            key: Key::from(self.key),
            operations: &self.operations,
        };
        (self.records, call)
    }

    /// Returns how many elements the edit has changed, by its result; 1 for a record. Shards a
    /// collection that has grown too large.
    pub(super) fn finish<S: RecordStore<Records = R>>(
        &self,
        store: &S,
        result: &OperateResult,
    ) -> u64 {
        if let (Some(side), Some(added)) = (self.side, self.added) {
            let elements = count(result, self.operations.len() - 1).unsigned_abs();
            side.shard_large(store, self.records, (self.key, added), (result, elements));
        }
        match self.reply {
            EditReply::Changed => 1,
            EditReply::Grown => {
                let (before, behind) = (count(result, 0), count(result, 1));
                behind.saturating_sub(before).max(0).unsigned_abs()
            }
            EditReply::Removed => count(result, 0).max(0).unsigned_abs(),
        }
    }
}

/// The result of an operation as a number; 0 if it has none.
pub(super) fn count(result: &OperateResult, operation: usize) -> i64 {
    number(result.value(operation))
}

impl RelationSide {
    /// Returns the edit that adds an edge to an unsharded collection, or changes its attributes.
    pub(super) fn adding<'a, R: RecordSet>(
        &'a self,
        records: &'a R,
        owner: &'a Key<'a>,
        added: Added<'a>,
        attributes: &Value,
        on_existing: OnExisting,
    ) -> KnownEdit<'a, R> {
        let (bin, element) = (&*self.bin, added.element());
        let (operations, reply) = if self.has_attributes {
            let put = maps::put(&Collection::map_policy(), bin, element, attributes.clone());
            (vec![maps::size(bin), put], EditReply::Grown)
        } else if on_existing == OnExisting::WriteNothing {
            let append = lists::append(&refusing_list_policy(), bin, element);
            (vec![append], EditReply::Changed)
        } else {
            let append = lists::append(&Collection::list_policy(), bin, element);
            (vec![lists::size(bin), append], EditReply::Grown)
        };
        let policy = self.unsharded_policy();
        let mut edit = self.edit((records, owner), policy, operations, reply);
        edit.added = Some(added);
        edit
    }

    /// Returns the edit that adds keys to an unsharded list, and passes over the keys that it has.
    pub(super) fn listing<'a, R: RecordSet>(
        &'a self,
        records: &'a R,
        owner: &'a Key<'a>,
        keys: &[&'a Key<'a>],
    ) -> KnownEdit<'a, R> {
        let added = keys.first().copied().map(Added::Key);
        let keys = keys.iter().copied().map(element_of).collect();
        let append = lists::append_items(&Collection::list_policy(), &self.bin, keys);
        let operations = vec![lists::size(&self.bin), append];
        let (at, policy) = ((records, owner), self.unsharded_policy());
        KnownEdit {
            added,
            ..self.edit(at, policy, operations, EditReply::Grown)
        }
    }

    /// Returns the edit that removes an edge from an unsharded collection; refused if there is no
    /// record.
    pub(super) fn removing<'a, R: RecordSet>(
        &'a self,
        records: &'a R,
        owner: &'a Key<'a>,
        element: Value,
    ) -> KnownEdit<'a, R> {
        let bin = &*self.bin;
        let remove = if self.has_attributes {
            maps::remove_by_key(bin, element, MapReturnType::Count)
        } else {
            lists::remove_by_value(bin, element, ListReturnType::Count)
        };
        let existing = RecordExistsAction::UpdateOnly;
        let policy = self.unsharded_policy().record_exists_action(existing);
        self.edit((records, owner), policy, vec![remove], EditReply::Removed)
    }

    fn edit<'a, R: RecordSet>(
        &'a self,
        (records, key): (&'a R, &'a Key<'a>),
        policy: WritePolicy,
        operations: Vec<Operation>,
        reply: EditReply,
    ) -> KnownEdit<'a, R> {
        KnownEdit {
            reply,
            side: Some(self),
            ..KnownEdit::of_record(records, key, policy, operations)
        }
    }

    /// Returns the policy by which edges are added to unsharded collections.
    pub(super) fn unsharded_policy(&self) -> WritePolicy {
        let given = &self.write_policy;
        let action = if self.owner_must_exist {
            RecordExistsAction::UpdateOnly
        } else {
            RecordExistsAction::Update
        };
        WritePolicy::default()
            .send_key(given.send_key)
            .durable_delete(given.durable_delete)
            .expiration(given.expiration)
            .total_timeout(given.total_timeout)
            .acknowledge(given.acknowledge)
            .record_exists_action(action)
            .with_access(ShardAccess::Unsharded)
    }

    /// Returns whether the collection of a record is so large now, by what a write of it returned
    /// and the number of its elements, that its shard policy shards it; not again at every write
    /// where that has just failed.
    fn is_to_shard<R: RecordSet>(
        &self,
        records: &R,
        owner: &Key<'_>,
        (result, elements): (&OperateResult, u64),
    ) -> bool {
        let policy = self.shard_policy.of_records(records);
        policy.is_too_large(result.record_bytes, elements)
            && self.may_shard(owner, records.now_ms())
    }

    /// Shards the collection of a record, if it is too large after a write of this element.
    pub(super) fn shard_large<S: RecordStore>(
        &self,
        store: &S,
        records: &S::Records,
        (owner, added): (&Key<'_>, Added<'_>),
        written: (&OperateResult, u64),
    ) {
        if !self.is_to_shard(records, owner, written) {
            return;
        }
        let element = added.element();
        // The edges themselves are done: an obstacle is noted as a transition that was refused, and
        // returned once a record is full.
        let added_again = store.atomically(|store| self.at(store, owner).add_again(&element));
        if let Err(obstacle) = added_again {
            let (key, transition) = (owner.clone().into_owned(), ShardTransition::Activating);
            note_obstacle(
                records,
                (&key, &self.bin),
                (transition, 0),
                &obstacle.to_string(),
            );
        }
    }
}

impl<S: RecordStore> OwnedEdges<'_, S> {
    /// Adds an element that a collection has again, if it still has it: others may have removed it.
    /// Added by the handle, it changes nothing but the shards.
    fn add_again(&self, element: &Value) -> Result<()> {
        if let Some(attributes) = self.get_element(element)? {
            self.put_element(element.clone(), &attributes)?;
        }
        Ok(())
    }
}

/// The policy by which lists are written, but for an element that is there already: it is refused.
pub(super) fn refusing_list_policy() -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index(true)
}

/// Makes edits as one group, and returns whether the edit `told` has changed something. `otherwise`
/// makes the same writes and returns the same: for stores without groups, sharded collections, and
/// records that are not as the edits need them.
///
/// # Errors
/// The errors of the group, and of `otherwise`.
pub(super) fn make_together<S: RecordStore, const N: usize>(
    store: &S,
    edits: [KnownEdit<'_, S::Records>; N],
    told: usize,
    otherwise: impl FnMut(&S::Atomic<'_>) -> Result<bool>,
) -> Result<bool> {
    let mut sides = edits.iter().filter_map(|edit| edit.side);
    if sides.any(|side| check_bin(&side.bin).is_err()) {
        return store.atomically(otherwise);
    }
    let calls = edits.each_ref().map(KnownEdit::call);
    match store.operate_together(&calls) {
        None => store.atomically(otherwise),
        Some(Ok(results)) => {
            let mut has_changed = false;
            for (at, (edit, result)) in edits.iter().zip(&results).enumerate() {
                let changed = edit.finish(store, result);
                has_changed |= at == told && changed > 0;
            }
            Ok(has_changed)
        }
        Some(Err(Error::WritesRefused { reasons })) => {
            let exists = |(_, error): &(usize, Error)| matches!(error, Error::ElementExists { .. });
            if reasons.len() == N && reasons.iter().all(exists) {
                return Ok(false);
            }
            store.atomically(otherwise)
        }
        Some(Err(error)) => Err(error),
    }
}
