//! Queries of a graph: edges, nodes, related nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::schema::{EDGE_SET, NodeId, Schema};
use crate::record::{Record, SUBKEYS};
use crate::{IndexQuery, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value};

/// How many edges of a node are shown whose edge set is sharded.
const SHARDED_EDGES_SHOWN: u64 = 1_000;

/// A query for the edges of one type that lead to a node, in the order of a sort key. From [`Graph::query`](super::Graph::query).
#[derive(Clone, Debug)]
#[must_use = "a query does nothing before it is asked for sources or nodes"]
pub struct EdgeQuery<'g, S> {
    store: &'g S,
    schema: &'g Schema,
    target: Key<'static>,
    sort: usize,
    equal: Option<Box<str>>,
    at_least: Option<Box<str>>,
    limit: usize,
    after: Option<Box<str>>,
}

/// An edge, as the edge set of the node that it begins at has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEdge {
    /// The type of the edge.
    pub edge_type: Box<str>,
    /// The node that it leads to.
    pub target: NodeId,
    /// The first sort key; empty if there is none.
    pub sort_key: Box<str>,
}

/// A node with its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// Its type and id.
    pub id: NodeId,
    /// The record of the node.
    pub record: Record,
    /// The edges that begin at it, without those of omitted types; of an edge set that is sharded the first 1,000.
    pub edges: Vec<NodeEdge>,
}

impl GraphNode {
    /// Decodes the node as a struct whose fields are the bins.
    ///
    /// # Errors
    /// [`Error::Serde`](crate::Error::Serde) if the bins do not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        self.record.decode()
    }
}

/// Nodes in the order of a query, and the nodes related to them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GraphPage {
    /// The nodes that the edges begin at.
    pub nodes: Vec<GraphNode>,
    /// The nodes that their edges lead to, of the types that were asked for.
    pub related: BTreeMap<NodeId, Record>,
    /// What [`EdgeQuery::after`] takes for the next page; `None`: this is the last one.
    pub next: Option<String>,
}

impl<'g, S: RecordStore<Records: IndexedRecordSet>> EdgeQuery<'g, S> {
    pub(super) const fn new(store: &'g S, schema: &'g Schema, target: Key<'static>) -> Self {
        Self {
            store,
            schema,
            target,
            sort: 0,
            equal: None,
            at_least: None,
            limit: 100,
            after: None,
        }
    }

    /// Uses this sort key of the edge type, 0 for the first one, which is the default.
    pub const fn sort(mut self, sort_key: usize) -> Self {
        self.sort = sort_key;
        self
    }

    /// Only edges with this sort key.
    pub fn equal(mut self, sort_key: &str) -> Self {
        self.equal = Some(sort_key.into());
        self
    }

    /// Only edges with this sort key or a greater one: `400-` finds `400-CONTRIBUTOR` and `500-LEAD`.
    pub fn at_least(mut self, sort_key: &str) -> Self {
        self.at_least = Some(sort_key.into());
        self
    }

    /// At most so many. Default: 100.
    pub const fn limit(mut self, edges: usize) -> Self {
        self.limit = edges;
        self
    }

    /// Goes on behind the page that gave this token.
    pub fn after(mut self, token: &str) -> Self {
        self.after = Some(token.into());
        self
    }

    /// Returns the nodes that the edges begin at, by their ids, and the token of the next page. One query.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around what a query may fail with.
    pub fn sources(&self) -> Result<(Vec<NodeId>, Option<String>)> {
        let schema = self.schema;
        let target = match &self.target {
            Key::String(text) => Value::String(text.to_string()),
            other => Value::String(other.to_string()),
        };
        let equal: Vec<Value> = [Some(target), self.equal.as_deref().map(Value::from)]
            .into_iter()
            .flatten()
            .collect();
        let at_least = self.at_least.as_deref().map(Value::from);
        let page = self.store.records(&schema.edges)?.query_keys(&IndexQuery {
            index: &schema.target_index(self.sort),
            equal: &equal,
            at_least: at_least.as_ref().filter(|_| self.equal.is_none()),
            limit: self.limit,
            after: self.after.as_deref(),
        });
        let page = schema.named(page)?;
        let source = |key: &Key<'static>| Ok(schema.parse_edge_key(key)?.0);
        let sources = page.keys.iter().map(source).collect::<Result<_>>()?;
        Ok((sources, page.cursor))
    }

    /// Returns the nodes that the edges begin at, with their edges. One query and one batch.
    ///
    /// # Errors
    /// As for [`EdgeQuery::sources`].
    pub fn nodes(&self) -> Result<GraphPage> {
        let (sources, next) = self.sources()?;
        let keys: Vec<Key<'_>> = sources.iter().map(|id| id.to_string().into()).collect();
        let found = self
            .store
            .records(&self.schema.nodes)?
            .read_each(&keys, None);
        let mut page = GraphPage {
            next,
            ..GraphPage::default()
        };
        for (id, record) in sources.into_iter().zip(found) {
            if let Some(record) = self.schema.named(record)? {
                let edges = self.edges_of(&id, &record)?;
                page.nodes.push(GraphNode { id, record, edges });
            }
        }
        Ok(page)
    }

    /// Returns the nodes that the edges begin at, and the nodes of these types that their own edges lead to: a list of goals with
    /// their leads and teams. One query and two batches, whatever the number of nodes.
    ///
    /// # Errors
    /// As for [`EdgeQuery::sources`].
    pub fn nodes_with(&self, related_types: &[&str]) -> Result<GraphPage> {
        let mut page = self.nodes()?;
        let wanted: BTreeSet<&NodeId> = page
            .nodes
            .iter()
            .flat_map(|node| &node.edges)
            .map(|edge| &edge.target)
            .filter(|target| related_types.contains(&&*target.kind))
            .collect();
        if wanted.is_empty() {
            return Ok(page);
        }
        let keys: Vec<Key<'_>> = wanted.iter().map(|id| id.to_string().into()).collect();
        let found = self
            .store
            .records(&self.schema.nodes)?
            .read_each(&keys, None);
        let mut related = BTreeMap::new();
        for (id, record) in wanted.into_iter().zip(found) {
            if let Some(record) = self.schema.named(record)? {
                related.insert(id.clone(), record);
            }
        }
        page.related = related;
        Ok(page)
    }

    fn edges_of(&self, id: &NodeId, record: &Record) -> Result<Vec<NodeEdge>> {
        let schema = self.schema;
        let entries = match record.get(EDGE_SET) {
            Some(Value::Map(map)) => map.into_entries(),
            _ if record.view().bin(SUBKEYS).is_some() => {
                let map = schema.edge_set().map(self.store, &schema.node_key(id)?)?;
                schema.named(map.page(0, SHARDED_EDGES_SHOWN))?
            }
            _ => Vec::new(),
        };
        let edge = |(target, sort_key): (Value, Value)| {
            let (edge_type, target) = schema.parse_target(target.as_str().unwrap_or_default())?;
            Ok(NodeEdge {
                edge_type: edge_type.into(),
                target,
                sort_key: sort_key.as_str().unwrap_or_default().into(),
            })
        };
        entries.into_iter().map(edge).collect()
    }
}
