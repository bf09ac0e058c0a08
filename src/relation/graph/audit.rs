//! The audit of edge sets.

use std::ops::ControlFlow;

use super::Graph;
use super::entries::{Edge, EdgeEntry};
use super::schema::EdgeMap;
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::keys::{REMOVED, keys_in};
use crate::{IndexedRecordSet, Key, RecordSet, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> Graph<S> {
    /// Looks at every edge and every edge set, and repairs faults if asked to: the edges decide the
    /// content of edge sets, and on a cluster that of the other maps at their ends. Edges from or
    /// to a node that is not there are reported, and removed. `observe` is called after each edge
    /// and each node, and may stop it. Two scans, four on a cluster; two reads, two or more on a
    /// cluster, and one batch of two an edge; one batch for 512 entries.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around what a read or a repair may fail with.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        let schema = &self.schema;
        Auditor::run(repair, &mut observe, |auditor| {
            schema.named(auditor.sweep(&self.store, &schema.edges))?;
            let edges = || schema.named(keys_in(&self.store, &schema.edges, |_| true));
            auditor.each(edges, false, |auditor, key| {
                schema.named(self.verify_edge(&key, auditor))
            })?;
            schema.edge_maps().try_for_each(|map| {
                let nodes = || schema.named(schema.side(map).owners(&self.store));
                auditor.each(nodes, false, |auditor, key| {
                    schema.named(self.verify_map(map, &key, auditor))
                })
            })
        })
    }

    fn verify_edge(&self, key: &Key<'static>, auditor: &mut Auditor<'_>) -> Result<()> {
        auditor.note_edge();
        let schema = &self.schema;
        let edge = schema.edge_at(key)?;
        if let Some(to) = edge.missing_end(&self.store)? {
            let from = key.clone();
            return auditor.note_fault(RelationFault::Dangling { from, to }, |_| {
                // Another writer may have put the node since.
                (self.store).atomically(|store| {
                    Ok(edge.missing_end(store)?.is_some() && edge.remove(store, &[])?)
                })
            });
        }
        let mut faults = Vec::new();
        for entry in edge.present_entries(&self.store)? {
            if entry.is_there(schema, &self.store)? {
                continue;
            }
            faults.push(missing(&edge, entry.map == EdgeMap::Incoming));
        }
        for fault in faults {
            auditor.note_fault(fault, |_| self.follow(&edge, &[]))?;
        }
        Ok(())
    }

    /// Looks at the entries of a node in one map.
    fn verify_map(
        &self,
        map: EdgeMap,
        node: &Key<'static>,
        auditor: &mut Auditor<'_>,
    ) -> Result<()> {
        let schema = &self.schema;
        let (side, records) = (schema.side(map), self.store.records(&schema.edges)?);
        let bins = schema.sort_bins();
        let bins: Vec<&str> = bins.iter().map(String::as_str).chain([REMOVED]).collect();
        let degree = side.at(&self.store, node).each_page(|page| {
            let edges = page
                .iter()
                .map(|(element, _)| schema.edge_of(map, node, element));
            let edges: Vec<Edge<'_>> = edges.collect::<Result<_>>()?;
            let keys: Vec<Key<'_>> = edges.iter().map(|edge| Key::from(&edge.key)).collect();
            let found = records.read_each(&keys, Some(&bins));
            for ((element, _), (edge, record)) in page.into_iter().zip(edges.iter().zip(found)) {
                let wanted = record?.map_or_else(Vec::new, |record| edge.entries_of(&record));
                let entry = EdgeEntry::at(map, node, element);
                if entry.is_among(&wanted) {
                    continue;
                }
                // One end has it without a record that says so.
                let fault = missing(edge, map != EdgeMap::Incoming);
                auditor.note_fault(fault, |_| self.follow(edge, &[entry]))?;
            }
            Ok(())
        })?;
        auditor.note_degree(node, degree);
        Ok(())
    }

    /// Makes the entries of an edge agree with its record.
    fn follow(&self, edge: &Edge<'_>, entries: &[EdgeEntry]) -> Result<bool> {
        (self.store).atomically(|store| edge.follow_record(store, entries.to_vec()))
    }
}

/// The fault of an edge that one end alone has; the other is its target, or its source.
fn missing(edge: &Edge<'_>, at_target: bool) -> RelationFault {
    let (source, target) = (edge.source.clone(), edge.element.clone());
    if at_target {
        RelationFault::MissingAtTarget { source, target }
    } else {
        RelationFault::MissingAtSource { source, target }
    }
}
