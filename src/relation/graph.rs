//! `Graph`: nodes and edges of declared types, with derived sort keys and edge sets.

mod audit;
mod entries;
mod query;
mod schema;

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::audit::RelationProgress;
use super::declared::{Declared, ensured};
use super::edge_remover::edges_of_node;
use super::keys::{BATCH, element_of, is_removed, read_one};
use super::record_delete::RecordDelete;
use super::side::{RelationSide, delete_emptied};
use super::together::{Added, KnownEdit, OnExisting, make_together};
use super::writes::{check_owned, puts};
use crate::engine::declaration::OnDelete;
use crate::record::{Record, from_bins, to_bins};
use crate::setters::setters;
use crate::shard::ShardPolicy;
use crate::{
    Bins, Error, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value, WritePolicy,
};
use entries::{Edge, EdgeEntry};
pub use query::{EdgeQuery, EdgesQuery, GraphNode, GraphPage};
use schema::{EDGE_SET, Schema};
pub use schema::{EdgeType, NodeEdge, NodeId};
pub(super) use schema::{SOURCE, TARGET, edge_keys, source_index, target_index, target_text};

/// A graph of typed nodes and edges. Nodes are records of one set, edges of another; a node also
/// holds the keys of its edges, its *edge set*, so that the nodes next to a page of nodes are read
/// in one batch.
///
/// Document: DynamoDB, *Modeling Graph Relationships* (Koan's records table): node and edge types,
/// sort keys that are derived from an edge and ordered (`500-LEAD`, `400-CONTRIBUTOR`), several
/// indexes, edge sets, omission of large edge types from them, the fetch of edges, nodes and
/// related nodes. An edge set that outgrows its node is sharded.
///
/// | call | record operations |
/// |---|---|
/// | [`put_node`](Self::put_node), [`node`](Self::node), [`edge`](Self::edge) | 1 |
/// | [`link`](Self::link), [`unlink`](Self::unlink) | 2 writes; 1 where the edge type is not in edge sets |
/// | [`nodes`](Self::nodes) | 1 batch |
/// | [`EdgesQuery::page`] | 1 query and 1 batch |
/// | [`EdgeQuery::sources`] | 1 query |
/// | [`EdgeQuery::nodes`] | 1 query and 1 batch |
/// | [`EdgeQuery::nodes_with`] | 1 query and 2 batches |
///
/// Choose [`ManyToMany`](super::ManyToMany) where edges have no conditions: it needs no index.
///
/// On a [`Store`](crate::Store) an edge and the edge set change in one transaction. Elsewhere the
/// edge is written first, and removed last, so the edge decides: what dies in between leaves an
/// edge that the edge set has not, which [`Graph::verify`] adds, or repeating the call.
///
/// The indexes of a cluster have no order, so there edges are entries of key-ordered maps at both
/// ends as well: in records of the set `{name}_ends`, by the node that they lead to and their sort
/// keys, and omitted types by the node where they begin. The maps are sharded as edge sets are.
/// [`link`](Self::link) and [`unlink`](Self::unlink) then read the edge before and after they
/// write, for the sort keys that it had and the changes of others: [`Error::Conflict`] if others
/// were first time and again. All calls answer the same; a query reads a map. What differs:
///
/// - A process that dies between two steps may also leave an edge under its former sort key: it is
///   listed twice until `verify` removes that entry.
/// - Edges that are written without a handle, or were moved there from an embedded store, are in no
///   map. Calls on a graph that was declared in an embedded store are refused
///   ([`Error::Parameter`]), so the first one of a handle reads the declaration: call
///   [`forget_relation`](super::forget_relation), and then [`Graph::verify`] with
///   [`Repair::Yes`](super::Repair::Yes).
/// - Records of maps that were emptied stay until their node is deleted.
/// - Nothing guards nodes: a plain delete leaves their edges, which `verify` removes. So a handle
///   does not declare itself there, as no handle does: servers would not obey the rules.
///   [`declare`](Self::declare) has `spikelet relations --host` show the graph.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use serde_json::json;
/// use spikelet::relation::{EdgeType, Graph, NodeId};
///
/// let store = spikelet::Store::in_memory()?;
/// let member = EdgeType::new("GOALMEMBERSHIP").ranked_by("memberRole", [("LEAD", 500), ("CONTRIBUTOR", 400)]);
/// let graph = Graph::new(&store, "records", ["GOAL", "USER"], [member])?;
/// let (goal, user) = (NodeId::new("GOAL", "G1"), NodeId::new("USER", "U1"));
/// graph.put_node(&goal, &json!({ "title": "Next-generation platform" }))?;
/// graph.put_node(&user, &json!({ "name": "Dora Campos" }))?;
/// graph.link(&goal, "GOALMEMBERSHIP", &user, &json!({ "memberRole": "LEAD", "date": "2020-07-01" }))?;
/// let led = graph.query("GOALMEMBERSHIP", &user)?.equal("500-LEAD").nodes()?;
/// assert_eq!(led.nodes[0].id, goal);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Graph<S> {
    store: S,
    schema: Schema,
    declared: Declared,
    /// Set when no stored declaration is known to be without the maps of edges.
    has_maps: Arc<OnceLock<()>>,
}

impl<S: RecordStore<Records: IndexedRecordSet>> Graph<S> {
    /// Returns the graph of this name, with these types of nodes and edges, and declares its
    /// indexes, where the store has ordered ones. Nodes are in the set of this name, edges in
    /// `{name}_edges`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name of a type with `-` or `|` in it, or one that is there twice;
    /// the errors of [`IndexedRecordSet::ensure_index`].
    pub fn new<'n>(
        store: S,
        name: &str,
        node_types: impl IntoIterator<Item = &'n str>,
        edge_types: impl IntoIterator<Item = EdgeType>,
    ) -> Result<Self> {
        let mut schema = Schema::new(name, node_types, edge_types)?;
        let edges = store.records(&schema.edges)?;
        schema.keeps_edge_maps = !edges.has_ordered_indexes();
        if !schema.keeps_edge_maps {
            edges.ensure_index(source_index(schema.name()))?;
            for at in 0..schema.sort_keys() {
                edges.ensure_index(target_index(schema.name(), at))?;
            }
        }
        Ok(Self {
            store,
            schema,
            declared: Declared::default(),
            has_maps: Arc::default(),
        })
    }

    /// Returns the same graph in another store, such as a transaction. Its indexes must be there.
    pub fn within<T: RecordStore<Records: IndexedRecordSet>>(&self, store: T) -> Graph<T> {
        Graph {
            store,
            schema: self.schema.clone(),
            declared: self.declared.clone(),
            has_maps: Arc::clone(&self.has_maps),
        }
    }

    setters! { in
        /// Sets when the edge set of a node is sharded. Without this call, [`ShardPolicy::default`]
        /// decides.
        shard_policy(policy: ShardPolicy) => schema.shard_policy = policy,
        /// Sets the fate of the edges from and to a node that is deleted, by any call:
        /// [`OnDelete::Restrict`], as long as no handle has declared another rule, or
        /// [`OnDelete::Detach`]. The record of an edge is deleted with its entry in the edge set
        /// under any rule.
        on_delete(rule: OnDelete) => declared.rule = Some(rule),
        /// Refuses edges from and to nodes that do not exist, with [`Error::NotFound`]. Without
        /// this call, `link` creates the record of an edge set.
        ends_must_exist() => schema.ends_must_exist = true,
    }

    /// Declares the graph in the store: the store keeps its bins, and deletes nodes as
    /// [`Graph::on_delete`] says. The first write of a handle does so by itself; this call also
    /// changes an earlier declaration. One read, and one write if it is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, and for [`OnDelete::Cascade`]; the
    /// errors of a write.
    pub fn declare(&self) -> Result<()> {
        self.declared
            .declare(&self.store, &self.schema.declaration())
    }

    /// Refuses to miss the edges of a graph that was declared where it has no maps of them. One
    /// read for a handle and its clones.
    fn check_maps(&self) -> Result<()> {
        let schema = &self.schema;
        if !schema.keeps_edge_maps || self.has_maps.get().is_some() {
            return Ok(());
        }
        let stored = schema.named(schema.declaration().stored(&self.store))?;
        let declared = stored.and_then(|stored| stored.declaration);
        if declared.is_some_and(|declared| !declared.sets().contains(&&*schema.ends)) {
            return Err(Error::parameter(format!(
                "graph {:?} was declared in a store with ordered indexes, so its edges are not in the maps of set {:?}: call forget_relation, and then Graph::verify with Repair::Yes, which enters them",
                schema.name(),
                schema.ends
            )));
        }
        self.has_maps.get_or_init(|| ());
        Ok(())
    }

    fn ensure_declared(&self) -> Result<()> {
        self.check_maps()?;
        (self.declared).ensure_as(&self.store, || self.schema.declaration())
    }

    /// Writes a node: its fields become bins, and bins that it has besides stay. One write.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a type of nodes that is not declared, and for a field of the name
    /// `edge_set`; [`Error::Serde`]; the refusals of a write.
    pub fn put_node<T: Serialize + ?Sized>(&self, id: &NodeId, node: &T) -> Result<()> {
        self.ensure_declared()?;
        let key = self.schema.node_key(id)?;
        let bins = to_bins(node)?;
        if bins.get(EDGE_SET).is_some() {
            return Err(Error::parameter(format!(
                "field {EDGE_SET:?} of a node: the graph keeps the node's edges there, use another name"
            )));
        }
        let records = self.store.records(&self.schema.nodes)?;
        let written = records.operate_on(&WritePolicy::default(), &key, &puts(&bins));
        self.schema.named(written.map(|_| ()))
    }

    /// Returns a node; `None` if there is none. One read.
    ///
    /// # Errors
    /// As for [`Graph::put_node`].
    pub fn node<T: DeserializeOwned>(&self, id: &NodeId) -> Result<Option<T>> {
        let key = self.schema.node_key(id)?;
        let records = self.store.records(&self.schema.nodes)?;
        let node = self.schema.named(read_one(&records, &key, None))?;
        node.map(|node| node.decode()).transpose()
    }

    /// Adds an edge, or changes its attributes. Two writes. Put both nodes, too: [`Graph::verify`]
    /// takes an edge of a missing node for one that a delete has left.
    ///
    /// # Errors
    /// [`Error::Parameter`] for types that are not declared, and for attributes of the names
    /// `source`, `target`, `sort0`, `sort1` and so on, which the graph uses; [`Error::Relation`]
    /// around the refusals of a write.
    pub fn link<T: Serialize + ?Sized>(
        &self,
        source: &NodeId,
        edge_type: &str,
        target: &NodeId,
        attributes: &T,
    ) -> Result<()> {
        let write = || {
            let edge = self.schema.edge(source, edge_type, target)?;
            let attributes = to_bins(attributes)?;
            let place = (self.schema.name(), &*self.schema.edges);
            self.schema
                .named(check_owned(&self.store, place, &attributes))?;
            self.schema.named(self.put_edge(&edge, &attributes))
        };
        ensured(|| self.ensure_declared(), write)
    }

    fn put_edge(&self, edge: &Edge<'_>, attributes: &Bins) -> Result<()> {
        let schema = &self.schema;
        let is_pair = edge.edge_type.is_in_edge_set() && !schema.keeps_edge_maps;
        if !is_pair || schema.ends_must_exist {
            let put = self.store.atomically(|store| edge.put(store, attributes));
            return put.map(drop);
        }
        let (edges, nodes) = self.records()?;
        let (set, existing) = (schema.edge_set(), OnExisting::MakeOthers);
        let sort = edge.edge_type.derive(attributes).into_iter().next();
        let sort = Value::String(sort.unwrap_or_default());
        let edits = [
            KnownEdit::replace(&edges, &edge.key, &edge.bins(attributes)?),
            set.adding(
                &nodes,
                &edge.source,
                Added::Key(&edge.element),
                &sort,
                existing,
            ),
        ];
        make_together(&self.store, edits, 0, |store| edge.put(store, attributes)).map(drop)
    }

    fn records(&self) -> Result<(S::Records, S::Records)> {
        let Schema { edges, nodes, .. } = &self.schema;
        Ok((self.store.records(edges)?, self.store.records(nodes)?))
    }

    /// Removes an edge. Returns whether it was there. Two writes.
    ///
    /// # Errors
    /// As for [`Graph::link`].
    pub fn unlink(&self, source: &NodeId, edge_type: &str, target: &NodeId) -> Result<bool> {
        self.ensure_declared()?;
        let edge = self.schema.edge(source, edge_type, target)?;
        self.schema.named(self.remove_edge(&edge, &[]))
    }

    /// Removes an edge, and entries of it that were met.
    fn remove_edge(&self, edge: &Edge<'_>, met: &[EdgeEntry]) -> Result<bool> {
        let schema = &self.schema;
        if !edge.edge_type.is_in_edge_set() || schema.keeps_edge_maps {
            return self.store.atomically(|store| edge.remove(store, met));
        }
        let (edges, nodes) = self.records()?;
        let set = schema.edge_set();
        let edits = [
            set.removing(&nodes, &edge.source, element_of(&edge.element)),
            KnownEdit::delete(&edges, &edge.key, true),
        ];
        make_together(&self.store, edits, 1, |store| edge.remove(store, met))
    }

    /// Returns the attributes of an edge, and nothing that the graph keeps beside them; `None` if
    /// there is none. One read.
    ///
    /// # Errors
    /// As for [`Graph::link`].
    pub fn edge<T: DeserializeOwned>(
        &self,
        source: &NodeId,
        edge_type: &str,
        target: &NodeId,
    ) -> Result<Option<T>> {
        let edge_type = self.schema.edge_type(edge_type)?;
        let key = self.schema.edge_key(source, edge_type, target)?;
        let records = self.store.records(&self.schema.edges)?;
        let found = self.schema.named(read_one(&records, &key, None))?;
        let Some(edge) = found.filter(|edge| !is_removed(edge)) else {
            return Ok(None);
        };
        let mut attributes = edge.into_bins()?;
        for bin in self.schema.own_bins() {
            attributes.remove(&bin);
        }
        from_bins(&attributes).map(Some)
    }

    /// Returns nodes in the order of their ids here; `None` for one that is not there. One batch.
    ///
    /// # Errors
    /// As for [`Graph::put_node`].
    pub fn nodes<T: DeserializeOwned>(&self, ids: &[NodeId]) -> Result<Vec<Option<T>>> {
        let keys = ids.iter().map(|id| self.schema.node_key(id));
        let keys: Vec<Key<'static>> = keys.collect::<Result<_>>()?;
        let found = self
            .store
            .records(&self.schema.nodes)?
            .read_each(&keys, None);
        let node = |found| match self.schema.named(found)? {
            Some(node) => Record::decode(&node).map(Some),
            None => Ok(None),
        };
        found.into_iter().map(node).collect()
    }

    /// Returns a query for the edges that begin at this node, of all types, the ones that edge sets
    /// omit included.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a type of nodes that is not declared.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// # use spikelet::relation::{EdgeType, Graph, NodeId};
    /// # let store = spikelet::Store::in_memory()?;
    /// let viewed = EdgeType::new("VIEWED").omitted();
    /// let graph = Graph::new(&store, "shop", ["USER", "ITEM"], [viewed])?;
    /// let (user, item) = (NodeId::new("USER", "U1"), NodeId::new("ITEM", "I1"));
    /// graph.link(&user, "VIEWED", &item, &serde_json::json!({}))?;
    /// let (edges, next) = graph.edges(&user)?.of_type("VIEWED")?.page()?;
    /// assert_eq!((edges[0].target.clone(), next), (item, None));
    /// # Ok(())
    /// # }
    /// ```
    pub fn edges<'g>(&'g self, source: &NodeId) -> Result<EdgesQuery<'g, S>> {
        self.check_maps()?;
        self.schema.node_key(source)?;
        Ok(EdgesQuery::new(&self.store, &self.schema, source))
    }

    /// Returns a query for the edges of a type that lead to this node.
    ///
    /// # Errors
    /// [`Error::Parameter`] for types that are not declared.
    pub fn query<'g>(&'g self, edge_type: &str, target: &NodeId) -> Result<EdgeQuery<'g, S>> {
        self.check_maps()?;
        let edge_type = self.schema.edge_type(edge_type)?;
        let target = self.schema.target_key(edge_type, target)?;
        Ok(EdgeQuery::new(&self.store, &self.schema, target))
    }

    /// Deletes a node with all edges from and to it, or refuses. Returns whether it was deleted;
    /// false: `observe` has stopped it between two edges. The same call goes on with the rest. Two
    /// writes an edge, a query for 512 of them.
    ///
    /// # Errors
    /// [`Error::HasEdges`] for [`OnDelete::Restrict`] while there are edges; [`Error::Parameter`]
    /// for [`OnDelete::Cascade`], since no node belongs to another; else as for [`Graph::unlink`].
    pub fn delete_node(
        &self,
        id: &NodeId,
        on_delete: OnDelete,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.check_maps()?;
        let (schema, key) = (&self.schema, self.schema.node_key(id)?);
        let node = RecordDelete {
            declaration: schema.declaration(),
            set: &schema.nodes,
            key: &key,
            rule: on_delete,
        };
        node.run(
            &self.store,
            || self.ensure_declared(),
            || schema.named(self.some_edges_of(&key)),
            |(edge, met)| schema.named(self.remove_edge(&edge, &met)),
            || schema.named(self.delete_emptied(&key)),
            &mut observe,
        )
    }

    /// Deletes the records of a node, its own one last, unless others have added edges since.
    fn delete_emptied(&self, key: &Key<'static>) -> Result<bool> {
        let maps = self.schema.edge_maps().map(|map| self.schema.side(map));
        let maps: Vec<RelationSide> = maps.collect();
        let maps: Vec<&RelationSide> = maps.iter().collect();
        let (own, ends) = maps.split_at(1);
        for (set, maps) in [(&self.schema.ends, ends), (&self.schema.nodes, own)] {
            if !maps.is_empty() && !delete_emptied(&self.store, (set, key), maps)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Some edges from or to a node; none: there are none.
    fn some_edges_of(&self, key: &Key<'static>) -> Result<Vec<(Edge<'_>, Vec<EdgeEntry>)>> {
        let schema = &self.schema;
        if schema.keeps_edge_maps {
            return self.some_entries_of(key);
        }
        let (set, limit) = (schema.edge_set(), BATCH as usize);
        let places = (&set, &*schema.edges);
        let found = edges_of_node(&self.store, &schema.declaration(), places, key, limit)?;
        let edge = |key| Ok((schema.edge_at(key)?, Vec::new()));
        found.iter().map(edge).collect()
    }

    /// The same by the maps of the node: an entry without an edge goes, too.
    fn some_entries_of(&self, node: &Key<'static>) -> Result<Vec<(Edge<'_>, Vec<EdgeEntry>)>> {
        for map in self.schema.edge_maps() {
            let side = self.schema.side(map);
            let page = side.at(&self.store, node).page_after(None, BATCH)?;
            if !page.is_empty() {
                let edge = |(element, _): (Key<'static>, Value)| {
                    let edge = self.schema.edge_of(map, node, &element)?;
                    Ok((edge, vec![EdgeEntry::at(map, node, element)]))
                };
                return page.into_iter().map(edge).collect();
            }
        }
        Ok(Vec::new())
    }
}
