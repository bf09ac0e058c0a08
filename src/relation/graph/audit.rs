//! The audit of edge sets.

use std::ops::ControlFlow;

use super::{Graph, NodeId};
use crate::record::SHARD_OF;
use crate::relation::audit::{RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::keys::BATCH;
use crate::{AtomicWrites, Error, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value};

impl<S: RecordStore<Records: IndexedRecordSet>> Graph<S> {
    /// Looks at every edge and every edge set, and repairs faults if asked to: the edges decide the content of edge sets. Edges
    /// from or to a node that is not there are reported, and removed. `observe` is called after each edge and each node, and may stop
    /// it. Two scans; one read and one batch of two an edge; one batch for 512 edges of an edge set.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around what a read or a repair may fail with.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        let mut audit = RelationAudit::default();
        for key in self.schema.named(self.keys_of(&self.schema.edges))? {
            let fault = self.fault_of_edge(&key)?;
            audit.edges += 1;
            if let Some(fault) = fault {
                if repair == Repair::Yes {
                    audit.repaired += u64::from(self.repair(&fault)?);
                }
                audit.faults.push(fault);
            }
            if observe(audit.progress(None)).is_break() {
                return Ok(audit);
            }
        }
        let edge_set = self.schema.edge_set();
        for key in self.schema.named(edge_set.owners(&self.store))? {
            self.verify_edge_set(&key, repair, &mut audit)?;
            audit.records += 1;
            if observe(audit.progress(None)).is_break() {
                return Ok(audit);
            }
        }
        audit.complete = true;
        Ok(audit)
    }

    fn fault_of_edge(&self, key: &Key<'static>) -> Result<Option<RelationFault>> {
        let schema = &self.schema;
        let (source, edge_type, target) = schema.parse_edge_key(key)?;
        let nodes = [&source, &target].map(|id| Key::from(id.to_string()));
        let found = self
            .store
            .records(&schema.nodes)?
            .read_each(&nodes, Some(&[]));
        for (id, node) in nodes.iter().zip(found) {
            if schema.named(node)?.is_none() {
                return Ok(Some(RelationFault::Dangling {
                    from: key.clone(),
                    to: id.clone(),
                }));
            }
        }
        let edge_type = schema.edge_type(&edge_type)?;
        if !edge_type.is_in_edge_set() {
            return Ok(None);
        }
        let (source, target) = (
            schema.node_key(&source)?,
            schema.target_key(edge_type, &target)?,
        );
        let found = schema.edge_set().get(&self.store, &source, &target);
        let is_there = schema.named(found)?.is_some();
        Ok((!is_there).then_some(RelationFault::MissingAtSource { source, target }))
    }

    fn verify_edge_set(
        &self,
        node: &Key<'static>,
        repair: Repair,
        audit: &mut RelationAudit,
    ) -> Result<()> {
        let schema = &self.schema;
        let (edge_set, records) = (schema.edge_set(), self.store.records(&schema.edges)?);
        let (mut after, mut degree) = (None, 0);
        loop {
            let page = edge_set.page_after(&self.store, node, after.as_ref(), BATCH);
            let page = schema.named(page)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            degree += page.len() as u64;
            let keys = page
                .iter()
                .map(|(target, _)| self.edge_key_of(node, target));
            let keys: Vec<Key<'static>> = keys.collect::<Result<_>>()?;
            for ((target, _), edge) in page.into_iter().zip(records.read_each(&keys, Some(&[]))) {
                if schema.named(edge)?.is_some() {
                    continue;
                }
                let fault = RelationFault::MissingAtTarget {
                    source: node.clone(),
                    target,
                };
                if repair == Repair::Yes {
                    audit.repaired += u64::from(self.repair(&fault)?);
                }
                audit.faults.push(fault);
            }
        }
        audit.note_degree(node, degree);
        Ok(())
    }

    fn edge_key_of(&self, node: &Key<'_>, target: &Key<'_>) -> Result<Key<'static>> {
        let schema = &self.schema;
        let (Key::String(node), Key::String(target)) = (node, target) else {
            return Err(Error::parameter(format!("{node} is no node of the graph")));
        };
        let (edge_type, target) = schema.parse_target(target)?;
        let source = NodeId::parse(node)
            .ok_or_else(|| Error::parameter(format!("{node:?} is no node of the graph")))?;
        schema.edge_key(&source, schema.edge_type(&edge_type)?, &target)
    }

    fn repair(&self, fault: &RelationFault) -> Result<bool> {
        match fault {
            RelationFault::Dangling { from, .. } => {
                let (source, edge_type, target) = self.schema.parse_edge_key(from)?;
                self.unlink(&source, &edge_type, &target)
            }
            RelationFault::MissingAtSource { source, target }
            | RelationFault::MissingAtTarget { source, target } => {
                let edge = self.edge_key_of(source, target)?;
                let repaired = self.store.atomically(&FollowEdge {
                    graph: &self.schema,
                    source,
                    target,
                    edge: &edge,
                });
                self.schema.named(repaired)
            }
            _ => Ok(false),
        }
    }

    fn keys_of(&self, set: &str) -> Result<Vec<Key<'static>>> {
        let mut keys = Vec::new();
        self.store.records(set)?.scan_records(&mut |record| {
            if record.view().bin(SHARD_OF).is_none() {
                keys.extend(record.key().map(Key::into_owned));
            }
        })?;
        Ok(keys)
    }
}

/// Makes the edge set of a node agree with the record of an edge.
struct FollowEdge<'a> {
    graph: &'a super::Schema,
    source: &'a Key<'a>,
    target: &'a Key<'a>,
    edge: &'a Key<'a>,
}

impl AtomicWrites for FollowEdge<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let edge_set = self.graph.edge_set();
        let sort = super::sort_bin(0);
        let edges = store.records(&self.graph.edges)?;
        let mut changed = false;
        loop {
            let found = edges.read_each(std::slice::from_ref(self.edge), Some(&[&sort]));
            let edge = found.into_iter().next().unwrap_or(Ok(None))?;
            let wanted = edge.map(|edge| edge.get(&sort).unwrap_or(Value::String(String::new())));
            if edge_set.get(store, self.source, self.target)? == wanted {
                return Ok(changed);
            }
            changed = true;
            match &wanted {
                Some(sort) => edge_set.add(store, self.source, self.target, sort)?,
                None => edge_set.remove(store, self.source, self.target)?,
            };
        }
    }
}
