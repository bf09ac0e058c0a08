//! Deletes of records with their edges. Every declared relation of the record has its say, whatever call deletes it: `Restrict`
//! refuses, `Detach` removes the edges at their other ends, `Cascade` deletes the records there.
//!
//! A record with few edges is deleted in one transaction with all that goes with it. Where there are more, edges are removed step
//! by step before, each in a transaction with both of its ends: a process that dies in between leaves a record with fewer edges,
//! which the same delete finishes.

mod roles;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::address::{Address, element, link_of};
use super::audit::{Observer, RelationProgress};
use super::graph::{SOURCE, TARGET};
use super::keys::key_of;
use super::side::Side;
use crate::engine::declaration::{OnDelete, RelationDeclaration};
use crate::engine::{DeletesEdges, RelationGuard};
use crate::operations::delete_all_bins;
use crate::policy::GenerationPolicy;
use crate::{Error, Key, Namespace, RecordSet, Result, Transaction, ValueRef, WritePolicy};
use roles::{RemovedEdge, Role, RoleKind, roles_of};

/// The most edges that are removed in one transaction with a record: it holds all their other ends locked while it commits.
const EDGES_TOGETHER: usize = 256;

/// What the engine calls for the delete of a record with edges.
#[derive(Debug)]
pub(crate) struct EdgeRemover;

impl DeletesEdges for EdgeRemover {
    fn delete(
        &self,
        guard: &RelationGuard<'_>,
        set: &str,
        key: &Key<'_>,
        policy: &WritePolicy,
    ) -> Result<bool> {
        let mut deletion = Deletion::new(guard);
        deletion.policy = policy.clone();
        deletion.run((set, key), &mut |_| ControlFlow::Continue(()))
    }
}

/// The refusal of a delete.
pub(super) fn has_edges(relation: &str, set: &str, key: &Key<'_>, count: u64) -> Error {
    let relations = vec![(relation.into(), count)];
    let refused = Error::HasEdges {
        relations,
        record: None,
    };
    refused.about(set, key)
}

/// A delete of records with their edges.
pub(super) struct Deletion<'g> {
    guard: &'g RelationGuard<'g>,
    declarations: Arc<[RelationDeclaration]>,
    policy: WritePolicy,
    /// The rule of one relation, in place of the one that it has declared.
    rule: Option<(Box<str>, OnDelete)>,
}

impl<'g> Deletion<'g> {
    pub(super) fn new(guard: &'g RelationGuard<'g>) -> Self {
        Self {
            guard,
            declarations: guard.declarations(),
            policy: WritePolicy::default(),
            rule: None,
        }
    }

    /// Has this rule hold for a relation, whatever it has declared.
    pub(super) fn by_rule(mut self, relation: &str, rule: OnDelete) -> Self {
        self.rule = Some((relation.into(), rule));
        self
    }

    fn rule_of(&self, relation: &RelationDeclaration) -> OnDelete {
        match &self.rule {
            Some((name, rule)) if *name == relation.name => *rule,
            _ => relation.on_delete,
        }
    }

    fn roles<'d>(&'d self, record: &'d Address) -> Vec<Role<'d>> {
        roles_of(
            &self.declarations,
            |relation| self.rule_of(relation),
            record,
        )
    }

    /// Deletes a record. Returns whether it was deleted; false: there was none, or `observe` has stopped it, which is asked after each
    /// edge that is removed in a step of its own.
    ///
    /// # Errors
    /// [`Error::HasEdges`]; the errors of transactions. Where the store is a transaction, [`Error::TransactionLimit`] for a record
    /// with more edges than one transaction takes.
    pub(super) fn run(&self, (set, key): (&str, &Key<'_>), observe: Observer<'_>) -> Result<bool> {
        let record = Address::new(set, key);
        if let Some(transaction) = self.guard.transaction() {
            return Together::new(self, &transaction).delete(&record, true);
        }
        let namespace = self.guard.namespace();
        let mut progress = RelationProgress::default();
        loop {
            // The first edges that go raise the generation: the policy is asked before them.
            let is_first = progress.edges == 0;
            let deleted = namespace.transaction(|transaction| {
                Together::new(self, transaction).delete(&record, is_first)
            });
            let Err(limit @ Error::TransactionLimit { .. }) = deleted else {
                return deleted;
            };
            let before = progress.edges;
            if self
                .remove_some(namespace, &record, &mut progress, observe)?
                .is_break()
            {
                return Ok(false);
            }
            if progress.edges == before {
                return Err(limit);
            }
        }
    }

    /// Deletes a record that goes with another one, in steps of its own.
    fn run_part(&self, record: &Address) -> Result<bool> {
        let part = Self {
            guard: self.guard,
            declarations: Arc::clone(&self.declarations),
            policy: WritePolicy::default(),
            rule: self.rule.clone(),
        };
        part.run((&record.set, &record.key), &mut |_| {
            ControlFlow::Continue(())
        })
    }

    /// Removes some edges of the first relation that has any, each in a transaction of its own.
    fn remove_some(
        &self,
        namespace: &Namespace,
        record: &Address,
        progress: &mut RelationProgress,
        observe: Observer<'_>,
    ) -> Result<ControlFlow<()>> {
        let key = &record.key;
        for role in self.roles(record) {
            let edges = role.some_edges(namespace, key, EDGES_TOGETHER)?;
            if role.rule == OnDelete::Restrict && !edges.is_empty() {
                // Added since the transaction looked.
                let count = role.count(namespace, key)?;
                return Err(has_edges(&role.relation.name, &record.set, key, count));
            }
            if let (true, Some(own)) = (edges.is_empty(), role.holds_alone()) {
                if own.len(namespace, key)? > 0 {
                    own.delete(namespace, key)?;
                    progress.edges += 1;
                }
                continue;
            }
            for edge in &edges {
                match edge {
                    RemovedEdge::Record(other) => {
                        self.run_part(other)?;
                        role.strike(namespace, key, &other.key)?;
                    }
                    edge => namespace.transaction(|transaction| {
                        let mut together = Together::new(self, transaction);
                        together.done.insert(record.clone());
                        together.remove_edge(&role, key, edge)?;
                        edge.remove_from_own(&role, transaction, key)
                    })?,
                }
                progress.edges += 1;
                if observe(*progress).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if !edges.is_empty() {
                break;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl RemovedEdge {
    fn remove_from_own(
        &self,
        role: &Role<'_>,
        transaction: &Transaction<'_>,
        key: &Key<'_>,
    ) -> Result<()> {
        match (self, &role.kind) {
            (Self::Key(other), RoleKind::Pair { own, .. }) => {
                own.remove(transaction, key, other)?;
            }
            (Self::Link(link), RoleKind::Linking { own }) => {
                own.list(transaction, key)?.remove(link)?;
            }
            (Self::Record(other), _) => role.strike(transaction, key, &other.key)?,
            _ => {}
        }
        Ok(())
    }
}

/// What one transaction deletes.
struct Together<'a, 't> {
    deletion: &'a Deletion<'a>,
    transaction: &'a Transaction<'t>,
    edges_left: usize,
    /// The records that are deleted, or being so.
    done: HashSet<Address>,
    /// Whether each edge goes at both ends, though the record goes with its own: the transaction is a caller's, who may commit it
    /// after a refusal.
    both_ends: bool,
}

impl<'a, 't> Together<'a, 't> {
    fn new(deletion: &'a Deletion<'a>, transaction: &'a Transaction<'t>) -> Self {
        Self {
            deletion,
            transaction,
            edges_left: EDGES_TOGETHER,
            done: HashSet::new(),
            both_ends: deletion.guard.transaction().is_some(),
        }
    }

    /// Deletes a record with its edges. `is_first`: the policy holds for it.
    fn delete(&mut self, record: &Address, is_first: bool) -> Result<bool> {
        let key = &record.key;
        let records = self.transaction.set(&record.set)?;
        if !self.done.insert(record.clone()) {
            return Ok(false);
        }
        let exists = records.exists(key)?;
        let given = &self.deletion.policy;
        if exists && is_first {
            let asked = WritePolicy::default()
                .generation(given.generation)
                .filter(given.filter.clone());
            records.check(&asked, key)?;
        }
        let deletion = self.deletion;
        let mut roles = deletion.roles(record);
        if !exists {
            // Others may refer to it all the same.
            roles.retain(Role::is_found_by_index);
        }
        let mut refused: Vec<(Box<str>, u64)> = Vec::new();
        for role in roles.iter().filter(|role| role.rule == OnDelete::Restrict) {
            let count = role.count(self.transaction, key)?;
            match refused
                .iter_mut()
                .find(|(name, _)| *name == role.relation.name)
            {
                Some((_, counted)) => *counted += count,
                None if count > 0 => refused.push((role.relation.name.clone(), count)),
                None => {}
            }
        }
        if !refused.is_empty() {
            let relations = refused;
            let record_id = None;
            let refused = Error::HasEdges {
                relations,
                record: record_id,
            };
            return Err(refused.about(&record.set, key));
        }
        let before = self.edges_left;
        for role in &roles {
            self.remove_edges(role, key)?;
        }
        if !exists {
            return Ok(self.edges_left < before);
        }
        let mut policy = given.clone().of_detached();
        (policy.filter, policy.generation) = (None, GenerationPolicy::None);
        match records.operate_with(&policy, key, &[delete_all_bins()]) {
            // It went with its last edge.
            Ok(_) | Err(Error::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn remove_edges(&mut self, role: &Role<'_>, key: &Key<'_>) -> Result<()> {
        let edges = role.some_edges(self.transaction, key, self.edges_left + 1)?;
        self.edges_left =
            self.edges_left
                .checked_sub(edges.len())
                .ok_or(Error::TransactionLimit {
                    what: "edges",
                    limit: EDGES_TOGETHER as u64,
                    option: "max_records",
                })?;
        for edge in &edges {
            self.remove_edge(role, key, edge)?;
            if self.both_ends {
                edge.remove_from_own(role, self.transaction, key)?;
            }
        }
        match role.own() {
            Some(own) if own.is_sharded(self.transaction, key)? => {
                own.delete(self.transaction, key)
            }
            _ => self.leave(role, key),
        }
    }

    /// Removes an edge at its other end.
    fn remove_edge(&mut self, role: &Role<'_>, key: &Key<'_>, edge: &RemovedEdge) -> Result<()> {
        match (edge, &role.kind) {
            (RemovedEdge::Key(other), RoleKind::Pair { back, .. }) => {
                back.remove(self.transaction, other, key)?;
                self.drop_if_empty(back, other)
            }
            (RemovedEdge::Link(stored), RoleKind::Linking { own }) => {
                let link = link_of(stored.clone())?;
                let mut tags = role.relation.reciprocal.iter();
                let Some((_, back)) = tags.find(|(tag, _)| *tag == link.tag) else {
                    return Ok(());
                };
                let at_other = Side::new(&link.to.set, &own.bin);
                let from = Address::new(&own.set, key);
                at_other
                    .list(self.transaction, &link.to.key)?
                    .remove(&element(back, &from))?;
                self.drop_if_empty(&at_other, &link.to.key)
            }
            (RemovedEdge::Record(other), _) => self.delete(other, false).map(drop),
            _ => Ok(()),
        }
    }

    /// Takes a record out of the collection that lists it.
    fn leave(&mut self, role: &Role<'_>, key: &Key<'_>) -> Result<()> {
        let named = |bin: &str| -> Result<Option<Key<'static>>> {
            let records = self.transaction.set(role.set)?;
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
        if !self.both_ends && self.done.contains(&Address::new(&list.set, &owner)) {
            return Ok(());
        }
        list.remove(self.transaction, &owner, &element)?;
        match role.kind {
            RoleKind::EdgeRecord { .. } => self.drop_if_empty(list, &owner),
            _ => Ok(()),
        }
    }

    /// Deletes the record at the other end of an edge, if it is there for its edges alone and has none left.
    fn drop_if_empty(&self, side: &Side, key: &Key<'_>) -> Result<()> {
        if self.done.contains(&Address::new(&side.set, key)) || side.len(self.transaction, key)? > 0
        {
            return Ok(());
        }
        let records = self.transaction.set(&side.set)?;
        let Some(record) = records.get(key)? else {
            return Ok(());
        };
        let owned = |bin: &str| {
            let mut sides = self
                .deletion
                .declarations
                .iter()
                .flat_map(|it| it.owned_sides());
            sides.any(|owned| *owned.set == *side.set && owned.bin.as_deref() == Some(bin))
        };
        let is_empty = |value: ValueRef<'_>| match value {
            ValueRef::List(list) => list.is_empty(),
            ValueRef::Map(map) => map.is_empty(),
            _ => false,
        };
        let is_for_edges = record
            .view()
            .iter()
            .all(|(bin, value)| owned(bin) && is_empty(value));
        if is_for_edges {
            let policy = WritePolicy::default().of_detached();
            records.operate_on(&policy, key, &[delete_all_bins()])?;
        }
        Ok(())
    }
}
