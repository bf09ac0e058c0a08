//! Deletes of records with their edges. Every call that deletes a record obeys every declared
//! relation of it: `Restrict` refuses, `Detach` removes the edges at their other ends, `Cascade`
//! deletes the records there.
//!
//! A record with few edges is deleted in one transaction with all that goes with it. Where there
//! are more, edges are removed step by step before, each in a transaction with both of its ends: a
//! process that dies in between leaves a record with fewer edges, which the same delete finishes.

mod roles;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::address::{Address, element, link_of};
use super::audit::ProgressObserver;
use super::graph::{SOURCE, TARGET};
use super::keys::key_of;
use super::side::RelationSide;
use crate::engine::declaration::{OnDelete, RelationDeclaration};
use crate::engine::{RelationGuard, ShardAccess};
use crate::error::{ShardLoss, if_there};
use crate::operations::delete_all_bins;
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::{SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH, sharded_bins};
use crate::{
    Error, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Transaction, ValueRef,
    WritePolicy,
};
pub(super) use roles::edges_of_node;
use roles::{RelationRole, RemovedEdge, RoleKind, have_own, roles_of};
use steps::{DeleteSteps, DependentRecord};

/// The most edges that are removed in one transaction with a record: it holds all their other ends
/// locked while it commits.
const EDGES_TOGETHER: usize = 256;

/// The longest chain of records that one transaction deletes, if the delete can be made in steps:
/// each is a call on the stack.
const DEPTH_MAX: usize = 32;

/// Deletes a record with its edges, for a call of the engine: [`crate::engine::DeleteWithEdges`].
///
/// # Errors
/// As for [`Deletion::run`].
pub(crate) fn delete_with_edges(
    guard: &RelationGuard<'_>,
    set: &str,
    key: &Key<'_>,
    policy: &WritePolicy,
) -> Result<bool> {
    let mut deletion = Deletion::new(guard);
    deletion.policy = Some(policy.clone());
    deletion.run((set, key), &mut |_| ControlFlow::Continue(()))
}

/// The refusal of a delete.
pub(super) fn has_edges(relations: Vec<(Box<str>, u64)>, set: &str, key: &Key<'_>) -> Error {
    let refused = Error::HasEdges {
        relations,
        record: None,
    };
    refused.about(set, key)
}

/// Refuses to delete a record that has edges by these roles.
///
/// # Errors
/// [`Error::HasEdges`]; the errors of reads.
fn check_edges<'r, 'd: 'r, S: RecordStore<Records: IndexedRecordSet>>(
    store: &S,
    record: &Address,
    roles: impl IntoIterator<Item = &'r RelationRole<'d>>,
) -> Result<()> {
    let mut relations: Vec<(Box<str>, u64)> = Vec::new();
    for role in roles {
        let count = role.count(store)?;
        let name = &role.relation.name;
        match relations.iter_mut().find(|(known, _)| known == name) {
            Some((_, counted)) => *counted += count,
            None if count > 0 => relations.push((name.clone(), count)),
            None => {}
        }
    }
    if relations.is_empty() {
        return Ok(());
    }
    Err(has_edges(relations, &record.set, &record.key))
}

/// A delete of records with their edges.
pub(super) struct Deletion<'g> {
    guard: &'g RelationGuard<'g>,
    declarations: Arc<[RelationDeclaration]>,
    /// The policy of the call that deletes; `None` for a handle's own delete, which has none.
    policy: Option<WritePolicy>,
    /// Relations, and their rules for this delete in place of the declared ones.
    rules: Vec<(Box<str>, OnDelete)>,
}

/// The outcome of a step for an edge.
enum StepDone {
    /// Nothing: the record does not go any more.
    Nothing,
    /// Whether an edge to a record on its way was there to be removed.
    Struck(bool),
    /// The record on its way, at this position of the open ones, does not go from there any more.
    Left(usize),
    Removed,
}

impl<'g> Deletion<'g> {
    pub(super) fn new(guard: &'g RelationGuard<'g>) -> Self {
        Self {
            guard,
            declarations: guard.declarations(),
            policy: None,
            rules: Vec::new(),
        }
    }

    /// Replaces the declared rule of a relation.
    pub(super) fn by_rule(mut self, relation: &str, rule: OnDelete) -> Self {
        self.rules.push((relation.into(), rule));
        self
    }

    fn rule_of(&self, relation: &RelationDeclaration) -> OnDelete {
        let mut given = self.rules.iter();
        let given = given.find(|(name, _)| *name == relation.name);
        given.map_or(relation.on_delete, |(_, rule)| *rule)
    }

    /// Refuses a record that has edges, whatever the rules of their relations.
    ///
    /// # Errors
    /// [`Error::HasEdges`]; the errors of reads.
    pub(super) fn check_alone(&self, (set, key): (&str, &Key<'_>)) -> Result<()> {
        let record = Address::new(set, key);
        let roles = self.roles(&record);
        match self.guard.transaction() {
            Some(transaction) => check_edges(&transaction, &record, &roles),
            None => check_edges(self.guard.namespace(), &record, &roles),
        }
    }

    fn roles<'d>(&'d self, record: &'d Address) -> Vec<RelationRole<'d>> {
        roles_of(
            &self.declarations,
            |relation| self.rule_of(relation),
            record,
        )
    }

    /// Runs a step as a transaction. A call that deletes a record has counted itself, and its
    /// policy holds for the step.
    fn transact<R>(&self, run: impl FnMut(&Transaction<'_>) -> Result<R>) -> Result<R> {
        match &self.policy {
            Some(policy) => self.guard.namespace().transaction_of_call(policy, run),
            None => self.guard.namespace().transaction(run),
        }
    }

    /// Deletes a record. Returns false if there was none, or if `observe` has stopped the delete:
    /// it is called after each edge that is removed in a step of its own.
    ///
    /// # Errors
    /// [`Error::HasEdges`]; the errors of transactions. Where the store is a transaction,
    /// [`Error::TransactionLimit`] for a record with more edges than one transaction takes.
    pub(super) fn run(
        &self,
        (set, key): (&str, &Key<'_>),
        observe: ProgressObserver<'_>,
    ) -> Result<bool> {
        let given = Address::new(set, key);
        if let Some(transaction) = self.guard.transaction() {
            // Its caller may commit it after a refusal.
            return transaction.all_or_none(|| {
                Together::new(self, &transaction, &DeleteSteps::new(None)).delete(&given, true)
            });
        }
        let digest = self.guard.namespace().key_hash().digest(set, key);
        let mut steps = DeleteSteps::new(Some((given, digest)));
        loop {
            let Some(at) = steps.open.last().copied() else {
                return Ok(true);
            };
            // A step may raise the generation, so the policy is checked before the first one.
            let is_first = at == 0 && !steps.has_begun;
            let mut chain = Vec::new();
            let deleted = self.transact(|transaction| {
                let mut together = Together::new(self, transaction, &steps);
                let deleted = together.delete_part(at, is_first);
                chain = if together.is_too_deep {
                    together.chain
                } else {
                    Vec::new()
                };
                deleted
            });
            match deleted {
                Err(Error::TransactionLimit { .. }) if !chain.is_empty() => {
                    let links = chain.into_iter().skip(1);
                    // The parts between are no steps of their own: they say by which way the last
                    // one goes with this one, which another writer may cut before its turn comes.
                    let last = links.fold(at, |of, record| steps.push(record, of));
                    steps.open.push(last);
                }
                Err(limit @ Error::TransactionLimit { .. }) => {
                    match self.remove_some(at, &mut steps, observe)? {
                        ControlFlow::Continue(true) => {}
                        ControlFlow::Continue(false) => return Err(limit),
                        ControlFlow::Break(()) => return Ok(false),
                    }
                }
                deleted => {
                    let deleted = deleted?;
                    steps.pop();
                    if at == 0 {
                        return Ok(deleted);
                    }
                    if deleted {
                        steps.begin();
                        steps.progress.edges += 1;
                        if observe(steps.progress).is_break() {
                            return Ok(false);
                        }
                    }
                }
            }
        }
    }

    /// Removes some edges of the first relation that has any, each in a transaction of its own, or
    /// adds records to the steps that have to go before. Returns whether there were any.
    fn remove_some(
        &self,
        at: usize,
        steps: &mut DeleteSteps,
        observe: ProgressObserver<'_>,
    ) -> Result<ControlFlow<(), bool>> {
        let Some(record) = steps.parts.get(at).map(|part| part.record.clone()) else {
            return Ok(ControlFlow::Continue(false));
        };
        let (namespace, key) = (self.guard.namespace(), &record.key);
        for role in self.roles(&record) {
            if role.rule == OnDelete::Restrict {
                let count = role.count(namespace)?;
                if count > 0 {
                    // Added since the transaction looked.
                    let relations = vec![(role.relation.name.clone(), count)];
                    return Err(has_edges(relations, &record.set, key));
                }
                continue;
            }
            let edges = role.some_edges(namespace, EDGES_TOGETHER)?;
            if edges.is_empty() && role.has_rest(namespace)? {
                // Too large for one transaction, which looks at the chain again.
                if self.transact(|tx| Together::new(self, tx, steps).still_goes(Some(at)))? {
                    #[cfg(feature = "server")]
                    role.check_yields(self.guard, self.policy.as_ref())?;
                    role.drop_rest(namespace)?;
                    steps.begin();
                }
                return Ok(ControlFlow::Continue(true));
            }
            let mut has_any = false;
            for edge in &edges {
                let known = match edge {
                    RemovedEdge::Record(other) => match steps.find(other) {
                        Some(known) => Some(known),
                        None => {
                            has_any = true;
                            let part = steps.push(other.clone(), at);
                            steps.open.push(part);
                            continue;
                        }
                    },
                    _ => None,
                };
                let done = self.transact(|transaction| {
                    let mut together = Together::new(self, transaction, steps);
                    if !together.still_goes(Some(at))? {
                        return Ok(StepDone::Nothing);
                    }
                    // A circle: the other record is on its way, and need not be listed any more.
                    // Where another writer has taken it away from the record with which it was to
                    // go, it goes with this one.
                    if let (RemovedEdge::Record(other), Some(known)) = (edge, known) {
                        return if together.still_goes(steps.open.get(known).copied())? {
                            Ok(StepDone::Struck(role.strike(transaction, other)?))
                        } else {
                            Ok(StepDone::Left(known))
                        };
                    }
                    // An edge back to the record itself must not delete it here, as an end without
                    // edges: its own step does.
                    together.done.insert(record.clone());
                    together.remove_edge(&role, edge)?;
                    edge.remove_from_own(&role, transaction)?;
                    Ok(StepDone::Removed)
                })?;
                match done {
                    StepDone::Nothing => return Ok(ControlFlow::Continue(true)),
                    StepDone::Struck(struck) => {
                        if struck {
                            steps.begin();
                        }
                        has_any |= struck;
                        continue;
                    }
                    StepDone::Left(known) => {
                        steps.open.remove(known);
                        has_any = true;
                        continue;
                    }
                    StepDone::Removed => {}
                }
                has_any = true;
                steps.begin();
                steps.progress.edges += 1;
                if observe(steps.progress).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if has_any {
                return Ok(ControlFlow::Continue(true));
            }
        }
        Ok(ControlFlow::Continue(false))
    }
}

/// What one transaction deletes.
struct Together<'a, 't> {
    deletion: &'a Deletion<'a>,
    transaction: &'a Transaction<'t>,
    edges_left: usize,
    /// The records that are deleted here, or being so.
    done: HashSet<Address>,
    /// This step, and the steps that delete other records.
    steps: &'a DeleteSteps,
    /// The records of which each goes with the one before, down to the one that is being deleted.
    chain: Vec<Address>,
    /// Whether the last one of the chain has to go in a step of its own.
    is_too_deep: bool,
}

impl<'a, 't> Together<'a, 't> {
    fn new(
        deletion: &'a Deletion<'a>,
        transaction: &'a Transaction<'t>,
        steps: &'a DeleteSteps,
    ) -> Self {
        Self {
            deletion,
            transaction,
            edges_left: EDGES_TOGETHER,
            done: HashSet::new(),
            steps,
            chain: Vec::new(),
            is_too_deep: false,
        }
    }

    /// Whether a part still goes with the record that a caller deletes: each record of the chain
    /// belongs to the one before.
    fn still_goes(&self, part: Option<usize>) -> Result<bool> {
        let parts = &self.steps.parts;
        let mut part = part.and_then(|at| parts.get(at));
        while let Some(DependentRecord { record, of }) = part {
            let Some(of) = of.and_then(|at| parts.get(at)) else {
                return Ok(true);
            };
            let mut belongs = false;
            for role in self.deletion.roles(&of.record) {
                belongs = belongs || role.goes_with(self.transaction, record)?;
            }
            if !belongs {
                return Ok(false);
            }
            part = Some(of);
        }
        Ok(false)
    }

    /// Deletes a part and takes it off the list of the record with which it goes, unless another
    /// writer has taken it away from there. Returns whether it was deleted, or taken off a list.
    fn delete_part(&mut self, at: usize, is_first: bool) -> Result<bool> {
        let Some(part) = self.steps.parts.get(at) else {
            return Ok(false);
        };
        if !self.still_goes(Some(at))? {
            return Ok(false);
        }
        let deleted = self.delete(&part.record, is_first)?;
        if let Some(of) = part.of.and_then(|of| self.steps.parts.get(of)) {
            for role in self.deletion.roles(&of.record) {
                role.strike(self.transaction, &part.record)?;
            }
        }
        Ok(deleted || part.of.is_some())
    }

    /// Deletes a record with its edges. `is_first`: the policy holds for it.
    fn delete(&mut self, record: &Address, is_first: bool) -> Result<bool> {
        let key = &record.key;
        let records = self.transaction.set(&record.set)?;
        // One that was taken away from the record with which it was to go is not deleted there.
        let open = &self.steps.open;
        let other = self.steps.find(record).and_then(|at| open.get(at));
        let is_on_its_way = other != open.last() && self.still_goes(other.copied())?;
        if is_on_its_way || !self.done.insert(record.clone()) {
            return Ok(false);
        }
        self.chain.push(record.clone());
        let found = records.get_bins(key, &[SUBKEYS, SUBKEYS_BIN])?;
        let exists = found.is_some();
        let given = self.deletion.policy.as_ref();
        if let Some(given) = given.filter(|_| exists && is_first) {
            let asked = WritePolicy::default()
                .generation(given.generation)
                .filter(given.filter.clone());
            records.check(&asked, key)?;
        }
        let deletion = self.deletion;
        let mut roles = deletion.roles(record);
        if !exists {
            // Others may refer to it all the same.
            roles.retain(RelationRole::is_found_by_index);
        }
        let restricting = roles.iter().filter(|role| role.rule == OnDelete::Restrict);
        check_edges(self.transaction, record, restricting)?;
        // Of these, nothing but their own handle deletes the shards.
        let sharded = found.as_ref().map(|found| sharded_bins(found.view()));
        if sharded.is_some_and(|bins| !bins.iter().all(|(bin, _)| have_own(&roles, bin))) {
            return Err(Error::ShardRoot {
                set: record.set.clone(),
                key: key.bare().into(),
                loses: ShardLoss::Now,
            });
        }
        let before = self.edges_left;
        for role in &roles {
            self.remove_edges(role)?;
        }
        self.chain.pop();
        if !exists {
            return Ok(self.edges_left < before);
        }
        let policy = given.cloned().unwrap_or_default();
        let mut policy = policy.with_access(ShardAccess::Detached);
        // Both were asked before the first edge went: since then the edges have changed the record.
        (policy.filter, policy.generation) = (None, GenerationPolicy::None);
        // A policy that replaces takes no operation on the old bins.
        policy.record_exists_action = RecordExistsAction::Update;
        // It may have gone with its last edge.
        if_there(records.operate_with(&policy, key, &[delete_all_bins()])).map(|_| true)
    }

    fn remove_edges(&mut self, role: &RelationRole<'_>) -> Result<()> {
        // One more than may go is the sign of too many: all of them need not be counted.
        let edges = role.some_edges(self.transaction, self.edges_left + 1)?;
        self.edges_left =
            self.edges_left
                .checked_sub(edges.len())
                .ok_or(Error::TransactionLimit {
                    what: "edges",
                    limit: EDGES_TOGETHER as u64,
                    option: "",
                })?;
        for edge in &edges {
            self.remove_edge(role, edge)?;
        }
        let own = role
            .own()
            .map(|own| own.at(self.transaction, &role.record.key));
        match own {
            // The delete of the record would leave its shards behind: they are records of their
            // own.
            Some(own) if own.is_sharded()? => own.delete(),
            _ => self.leave(role),
        }
    }

    /// Removes an edge at its other end.
    fn remove_edge(&mut self, role: &RelationRole<'_>, edge: &RemovedEdge) -> Result<()> {
        let key = &role.record.key;
        match (edge, &role.kind) {
            (RemovedEdge::Key(other), RoleKind::Pair { back, .. }) => {
                back.at(self.transaction, other).remove(key)?;
                self.drop_if_empty(back, other)
            }
            (RemovedEdge::Link(stored), RoleKind::Linking { own }) => {
                let link = link_of(stored.clone())?;
                // Links of one bin may be declared by several names, each with some of the tags.
                let declared = self.deletion.declarations.iter();
                let declared = declared.filter(|known| known.has_links(&own.set, &own.bin));
                let mut tags = declared.flat_map(|known| &known.reciprocal);
                let Some((_, back)) = tags.find(|(tag, _)| *tag == link.tag) else {
                    return Ok(());
                };
                let mut at_other = own.clone();
                at_other.set.clone_from(&link.to.set);
                (at_other.at(self.transaction, &link.to.key))
                    .remove_element(&element(back, role.record))?;
                self.drop_if_empty(&at_other, &link.to.key)
            }
            (RemovedEdge::Record(other), _) => {
                // One that goes elsewhere ends a circle, however long the way to it was.
                let is_known = self.done.contains(other) || self.steps.find(other).is_some();
                let is_step = self.deletion.guard.transaction().is_none();
                if self.chain.len() > DEPTH_MAX && is_step && !is_known {
                    self.chain.push(other.clone());
                    self.is_too_deep = true;
                    return Err(Error::TransactionLimit {
                        what: "records in a chain",
                        limit: DEPTH_MAX as u64,
                        option: "",
                    });
                }
                self.delete(other, false).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Takes a record out of the collection that lists it.
    fn leave(&mut self, role: &RelationRole<'_>) -> Result<()> {
        let Address { set, key } = role.record;
        let named = |bin: &str| -> Result<Option<Key<'static>>> {
            let records = self.transaction.set(set)?;
            let found = records.get_bins(key, &[bin])?;
            found
                .and_then(|found| found.get(bin))
                .map(key_of)
                .transpose()
        };
        let (list, owner, element) = match &role.kind {
            RoleKind::Listed { list, owner } => (list, owner.clone(), key.clone()),
            RoleKind::ChildOf { bin, list } => match named(bin)? {
                Some(parent) => (list, parent, key.clone()),
                None => return Ok(()),
            },
            RoleKind::EdgeRecord { edge_set } => match (named(SOURCE)?, named(TARGET)?) {
                (Some(source), Some(target)) => (edge_set, source, target),
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        // A list that goes as a whole need not be edited.
        if self.done.contains(&Address::new(&list.set, &owner)) {
            return Ok(());
        }
        list.at(self.transaction, &owner).remove(&element)?;
        match role.kind {
            RoleKind::EdgeRecord { .. } => self.drop_if_empty(list, &owner),
            _ => Ok(()),
        }
    }

    /// Deletes the record at the other end of an edge, if it is there for its edges alone and has
    /// none left.
    fn drop_if_empty(&self, side: &RelationSide, key: &Key<'_>) -> Result<()> {
        let address = Address::new(&side.set, key);
        if self.done.contains(&address) || side.at(self.transaction, key).len()? > 0 {
            return Ok(());
        }
        let records = self.transaction.set(&side.set)?;
        let Some(record) = records.get(key)? else {
            return Ok(());
        };
        let roles = self.deletion.roles(&address);
        let is_empty = |value: ValueRef<'_>| match value {
            ValueRef::List(list) => list.is_empty(),
            ValueRef::Map(map) => map.is_empty(),
            _ => false,
        };
        // Edges that were sharded once leave the number of their last transition.
        let mut bins = record
            .view()
            .iter()
            .filter(|(bin, _)| *bin != SUBKEYS_EPOCH);
        if !bins.all(|(bin, value)| have_own(&roles, bin) && is_empty(value)) {
            return Ok(());
        }
        for role in &roles {
            if role.is_referred_to(self.transaction, &self.done)? {
                return Ok(());
            }
        }
        let policy = WritePolicy::default().with_access(ShardAccess::Detached);
        records.operate_on(&policy, key, &[delete_all_bins()])?;
        Ok(())
    }
}
