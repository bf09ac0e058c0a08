//! The audit of edge sets.

use std::ops::ControlFlow;

use super::Graph;
use super::entries::{Edge, EdgeEntry, FollowEdge, RemoveEdge};
use super::schema::EdgeMap;
use crate::record::SHARD_OF;
use crate::relation::audit::{RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::keys::BATCH;
use crate::{IndexedRecordSet, Key, RecordSet, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> Graph<S> {
    /// Looks at every edge and every edge set, and repairs faults if asked to: the edges decide the content of edge sets, and on
    /// a cluster that of the other maps at their ends. Edges from or to a node that is not there are reported, and removed.
    /// `observe` is called after each edge and each node, and may stop it. Two scans, four on a cluster; two reads, two or more
    /// on a cluster, and one batch of two an edge; one batch for 512 entries.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around what a read or a repair may fail with.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        let (schema, mut audit) = (&self.schema, RelationAudit::default());
        for key in schema.named(self.keys_of(&schema.edges))? {
            schema.named(self.verify_edge(&key, repair, &mut audit))?;
            audit.edges += 1;
            if observe(audit.progress(None)).is_break() {
                return Ok(audit);
            }
        }
        for map in schema.edge_maps() {
            for key in schema.named(schema.side(map).owners(&self.store))? {
                schema.named(self.verify_map(map, &key, repair, &mut audit))?;
                audit.records += 1;
                if observe(audit.progress(None)).is_break() {
                    return Ok(audit);
                }
            }
        }
        audit.complete = true;
        Ok(audit)
    }

    fn verify_edge(
        &self,
        key: &Key<'static>,
        repair: Repair,
        audit: &mut RelationAudit,
    ) -> Result<()> {
        let schema = &self.schema;
        let edge = schema.edge_at(key)?;
        let nodes = [edge.source.clone(), edge.target.clone()];
        let found = self
            .store
            .records(&schema.nodes)?
            .read_each(&nodes, Some(&[]));
        for (id, node) in nodes.into_iter().zip(found) {
            if node?.is_none() {
                let (from, to) = (key.clone(), id);
                audit.faults.push(RelationFault::Dangling { from, to });
                if repair == Repair::Yes {
                    let met = Vec::new();
                    let removed = self.remove_edge(&RemoveEdge { edge, met })?;
                    audit.repaired += u64::from(removed);
                }
                return Ok(());
            }
        }
        let mut is_sound = true;
        for entry in edge.present_entries(&self.store)? {
            if entry.is_there(schema, &self.store)? {
                continue;
            }
            is_sound = false;
            let (source, target) = (edge.source.clone(), edge.element.clone());
            audit.faults.push(match entry.map {
                EdgeMap::Incoming => RelationFault::MissingAtTarget { source, target },
                EdgeMap::EdgeSet | EdgeMap::Omitted => {
                    RelationFault::MissingAtSource { source, target }
                }
            });
        }
        if !is_sound && repair == Repair::Yes {
            audit.repaired += u64::from(self.follow(&edge, Vec::new())?);
        }
        Ok(())
    }

    /// Looks at the entries of a node in one map.
    fn verify_map(
        &self,
        map: EdgeMap,
        node: &Key<'static>,
        repair: Repair,
        audit: &mut RelationAudit,
    ) -> Result<()> {
        let schema = &self.schema;
        let (side, records) = (schema.side(map), self.store.records(&schema.edges)?);
        let bins = schema.sort_bins();
        let bins: Vec<&str> = bins.iter().map(String::as_str).collect();
        let (mut after, mut degree) = (None, 0);
        loop {
            let page = side.page_after(&self.store, node, after.as_ref(), BATCH)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            degree += page.len() as u64;
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
                if repair == Repair::Yes {
                    audit.repaired += u64::from(self.follow(edge, vec![entry])?);
                }
                let (source, target) = (edge.source.clone(), edge.element.clone());
                audit.faults.push(match map {
                    EdgeMap::Incoming => RelationFault::MissingAtSource { source, target },
                    EdgeMap::EdgeSet | EdgeMap::Omitted => {
                        RelationFault::MissingAtTarget { source, target }
                    }
                });
            }
        }
        audit.note_degree(node, degree);
        Ok(())
    }

    /// Makes the entries of an edge agree with its record.
    fn follow(&self, edge: &Edge<'_>, entries: Vec<EdgeEntry>) -> Result<bool> {
        self.store.atomically(&FollowEdge { edge, entries })
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
