//! Queries of a graph: edges, nodes, related nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};

use serde::de::DeserializeOwned;

use super::entries::{IncomingRange, behind};
use super::schema::{
    EDGE_SET, EdgeMap, EdgeType, NodeEdge, NodeId, Schema, sort_bin, source_index, target_index,
};
use crate::record::{Record, SUBKEYS};
use crate::relation::keys::{check_index, element_of};
use crate::setters::setters;
use crate::shard::{in_pages, value_of};
use crate::{IndexQuery, IndexRange, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value};

/// How many edges of a node with a sharded edge set are shown.
const SHARDED_EDGES_SHOWN: usize = 1_000;

/// A query for the edges of one type that lead to a node, in the order of a sort key. From
/// [`Graph::query`](super::Graph::query).
#[derive(Clone, Debug)]
#[must_use = "a query does nothing before it is asked for sources or nodes"]
pub struct EdgeQuery<'g, S> {
    store: &'g S,
    schema: &'g Schema,
    target: Key<'static>,
    sort: usize,
    /// The bounds of sort keys.
    range: (Bound<Value>, Bound<Value>),
    limit: usize,
    after: Option<Box<str>>,
}

/// A query for the edges that begin at a node, by type and then by the nodes that they lead to.
/// From [`Graph::edges`](super::Graph::edges).
#[derive(Clone, Debug)]
#[must_use = "a query does nothing before it is asked for a page"]
pub struct EdgesQuery<'g, S> {
    store: &'g S,
    schema: &'g Schema,
    source: Box<str>,
    edge_type: Option<Box<str>>,
    limit: usize,
    after: Option<Box<str>>,
}

/// A node with its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// Its type and id.
    pub id: NodeId,
    /// The record of the node.
    pub record: Record,
    /// The edges that begin at it, without omitted types; of an edge set that is sharded the first
    /// 1,000.
    pub edges: Vec<NodeEdge>,
    /// Whether it has more of them: [`Graph::edges`](super::Graph::edges) lists all, page by page.
    pub has_more_edges: bool,
}

impl GraphNode {
    /// Decodes the node as a struct with the bins as fields.
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
    /// The token that [`EdgeQuery::after`] takes for the next page; `None`: this is the last one.
    pub next: Option<String>,
}

impl<'g, S: RecordStore<Records: IndexedRecordSet>> EdgeQuery<'g, S> {
    pub(super) const fn new(store: &'g S, schema: &'g Schema, target: Key<'static>) -> Self {
        Self {
            store,
            schema,
            target,
            sort: 0,
            range: (Bound::Unbounded, Bound::Unbounded),
            limit: 100,
            after: None,
        }
    }

    setters! { in const
        /// Uses this sort key of the edge type, 0 for the first one, which is the default.
        sort(sort_key: usize) => sort = sort_key,
        /// At most this many. Default: 100.
        limit(edges: usize) => limit = edges,
    }

    setters! { in
        /// Goes on behind the page that gave this token.
        after(token: &str) => after = Some(token.into()),
    }

    /// Only edges with this sort key. Replaces an earlier range.
    pub fn equal(mut self, sort_key: &str) -> Self {
        let equal = Bound::Included(Value::from(sort_key));
        self.range = (equal.clone(), equal);
        self
    }

    /// Only edges whose sort key begins with this text: `2020-07` finds the edges of a month.
    /// Replaces an earlier range.
    pub fn begins_with(mut self, prefix: &str) -> Self {
        let end = match &*behind(prefix) {
            "" => Bound::Unbounded,
            end => Bound::Excluded(end.into()),
        };
        self.range = (Bound::Included(prefix.into()), end);
        self
    }

    /// Only edges with a sort key of this range.
    pub fn between<'k>(mut self, sort_keys: impl RangeBounds<&'k str>) -> Self {
        let value = |bound: Bound<&&str>| bound.map(|sort_key| Value::from(*sort_key));
        self.range = (value(sort_keys.start_bound()), value(sort_keys.end_bound()));
        self
    }

    /// Only edges with this sort key or a greater one: `400-` finds `400-CONTRIBUTOR` and
    /// `500-LEAD`. Narrows the range of [`EdgeQuery::equal`], [`EdgeQuery::begins_with`],
    /// [`EdgeQuery::between`] and [`EdgeQuery::less_than`], if one is asked for.
    pub fn at_least(mut self, sort_key: &str) -> Self {
        if value_of(self.range.0.as_ref()).is_none_or(|first| first.as_str() < Some(sort_key)) {
            self.range.0 = Bound::Included(sort_key.into());
        }
        self
    }

    /// Only edges with a smaller sort key. Narrows the range as [`EdgeQuery::at_least`] does.
    pub fn less_than(mut self, sort_key: &str) -> Self {
        if value_of(self.range.1.as_ref()).is_none_or(|last| last.as_str() >= Some(sort_key)) {
            self.range.1 = Bound::Excluded(sort_key.into());
        }
        self
    }

    /// Returns the nodes that the edges begin at, by their ids, and the token of the next page. One
    /// query.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around the errors of a query.
    pub fn sources(&self) -> Result<(Vec<NodeId>, Option<String>)> {
        let schema = self.schema;
        if schema.keeps_edge_maps {
            return schema.named(self.sources_by_map());
        }
        let (from, to) = &self.range;
        let index = target_index(schema.name(), self.sort);
        schema.named(check_index(self.store, &schema.edges, &index))?;
        let page = self.store.records(&schema.edges)?.query_keys(&IndexQuery {
            index: index.name(),
            equal: &[element_of(&self.target)],
            range: IndexRange::Between(from.as_ref(), to.as_ref()),
            limit: self.limit,
            after: self.after.as_deref(),
        });
        let page = schema.named(page)?;
        let source = |key: &Key<'static>| Ok(schema.parse_edge_key(key)?.0);
        let sources = page.keys.iter().map(source).collect::<Result<_>>()?;
        Ok((sources, page.cursor))
    }

    /// The same by the map of the node that the edges lead to.
    fn sources_by_map(&self) -> Result<(Vec<NodeId>, Option<String>)> {
        let schema = self.schema;
        let target = element_of(&self.target);
        let (edge_type, node) = schema.parse_target(target.as_str().unwrap_or_default())?;
        let range = IncomingRange {
            edge_type: &edge_type,
            at: self.sort,
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let first = match &self.range.0 {
            Bound::Included(from) => range.first_of(&text(from)),
            Bound::Excluded(from) => range.behind_all_of(&text(from)),
            Bound::Unbounded => range.first_of(""),
        };
        let end = match &self.range.1 {
            Bound::Included(to) => range.behind_all_of(&text(to)),
            Bound::Excluded(to) => range.first_of(&text(to)),
            Bound::Unbounded => behind(&range.first_of("")),
        };
        let map = EdgeMap::Incoming;
        let after = self.after.as_deref();
        let mut entries =
            schema.entries_between(self.store, (map, &node), (&first, after, &end), self.limit)?;
        let next = cut_page(&mut entries, self.limit);
        let source =
            |(element, _): &(Value, Value)| schema.source_in(element.as_str().unwrap_or_default());
        let sources = entries.iter().map(source).collect::<Result<_>>()?;
        Ok((sources, next))
    }

    /// Returns the nodes that the edges begin at, with their edges. One query and one batch.
    ///
    /// # Errors
    /// As for [`EdgeQuery::sources`].
    pub fn nodes(&self) -> Result<GraphPage> {
        let (sources, next) = self.sources()?;
        let mut page = GraphPage {
            next,
            ..GraphPage::default()
        };
        for (id, record) in self.read_nodes(sources)? {
            let (edges, has_more_edges) = self.edges_of(&id, &record)?;
            page.nodes.push(GraphNode {
                id,
                record,
                edges,
                has_more_edges,
            });
        }
        Ok(page)
    }

    /// Reads the nodes of these ids that are there. One batch.
    fn read_nodes(&self, ids: Vec<NodeId>) -> Result<Vec<(NodeId, Record)>> {
        let keys: Vec<Key<'_>> = ids.iter().map(|id| id.to_string().into()).collect();
        let records = self.store.records(&self.schema.nodes)?;
        let found = ids.into_iter().zip(records.read_each(&keys, None));
        let there = found.filter_map(|(id, node)| {
            let node = self.schema.named(node).transpose()?;
            Some(node.map(|node| (id, node)))
        });
        there.collect()
    }

    /// Returns the nodes that the edges begin at, and the nodes of these types that their own edges
    /// lead to: a list of goals with their leads and teams. One query and two batches, for any
    /// number of nodes; of nodes with a sharded edge set a batch for each 512 of the edges that
    /// lead to these types.
    ///
    /// # Errors
    /// As for [`EdgeQuery::sources`].
    pub fn nodes_with(&self, related_types: &[&str]) -> Result<GraphPage> {
        let mut page = self.nodes()?;
        let mut wanted = BTreeSet::new();
        for node in &page.nodes {
            if node.has_more_edges {
                self.add_targets(&node.id, related_types, &mut wanted)?;
                continue;
            }
            let targets = node.edges.iter().map(|edge| &edge.target);
            wanted.extend(
                targets
                    .filter(|target| related_types.contains(&&*target.kind))
                    .cloned(),
            );
        }
        if wanted.is_empty() {
            return Ok(page);
        }
        let related = self.read_nodes(wanted.into_iter().collect())?;
        page.related = related.into_iter().collect();
        Ok(page)
    }

    /// Adds the nodes of these types that the edges of a sharded edge set lead to.
    fn add_targets(
        &self,
        id: &NodeId,
        types: &[&str],
        targets: &mut BTreeSet<NodeId>,
    ) -> Result<()> {
        let schema = self.schema;
        let map = schema
            .edge_set()
            .at(self.store, &schema.node_key(id)?)
            .map()?;
        for edge_type in schema.edge_types.iter().filter(|it| it.is_in_edge_set()) {
            for kind in types {
                let (first, behind) = schema.targets_of_type(edge_type, kind);
                let found = in_pages(|last: Option<&(Value, Value)>, limit| {
                    let from = last.map_or(Bound::Included(&first), |(target, _)| {
                        Bound::Excluded(target)
                    });
                    map.range(from, Bound::Excluded(&behind), limit)
                });
                for entry in found {
                    let (target, _) = schema.named(entry)?;
                    targets.insert(schema.parse_target(target.as_str().unwrap_or_default())?.1);
                }
            }
        }
        Ok(())
    }

    /// The edges of a node, and whether there are more.
    fn edges_of(&self, id: &NodeId, record: &Record) -> Result<(Vec<NodeEdge>, bool)> {
        let schema = self.schema;
        let mut entries = match record.get(EDGE_SET) {
            Some(Value::Map(map)) => return Ok((schema.edges_in(map.into_entries())?, false)),
            _ if record.view().bin(SUBKEYS).is_some() => {
                let map = schema
                    .edge_set()
                    .at(self.store, &schema.node_key(id)?)
                    .map()?;
                schema.named(map.page(0, SHARDED_EDGES_SHOWN as u64 + 1))?
            }
            _ => Vec::new(),
        };
        let has_more = entries.len() > SHARDED_EDGES_SHOWN;
        entries.truncate(SHARDED_EDGES_SHOWN);
        Ok((schema.edges_in(entries)?, has_more))
    }
}

impl<'g, S: RecordStore<Records: IndexedRecordSet>> EdgesQuery<'g, S> {
    pub(super) fn new(store: &'g S, schema: &'g Schema, source: &NodeId) -> Self {
        Self {
            store,
            schema,
            source: source.to_string().into(),
            edge_type: None,
            limit: 100,
            after: None,
        }
    }

    /// Only edges of this type.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a type that is not declared.
    pub fn of_type(mut self, edge_type: &str) -> Result<Self> {
        self.schema.edge_type(edge_type)?;
        self.edge_type = Some(edge_type.into());
        Ok(self)
    }

    setters! { in const
        /// At most this many. Default: 100.
        limit(edges: usize) => limit = edges,
    }

    setters! { in
        /// Goes on behind the page that gave this token.
        after(token: &str) => after = Some(token.into()),
    }

    /// Returns the edges, omitted types included, and the token of the next page. One query and one
    /// batch.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around the errors of a query.
    pub fn page(&self) -> Result<(Vec<NodeEdge>, Option<String>)> {
        let schema = self.schema;
        if schema.keeps_edge_maps {
            return schema.named(self.page_of_maps());
        }
        let edges = self.store.records(&schema.edges)?;
        let prefix = self
            .edge_type
            .as_deref()
            .map(|name| Value::from(format!("{name}-")));
        let index = source_index(schema.name());
        schema.named(check_index(self.store, &schema.edges, &index))?;
        let page = edges.query_keys(&IndexQuery {
            index: index.name(),
            equal: &[Value::from(&*self.source)],
            range: prefix
                .as_ref()
                .map_or(IndexRange::Any, IndexRange::BeginsWith),
            limit: self.limit,
            after: self.after.as_deref(),
        });
        let page = schema.named(page)?;
        let sort = sort_bin(0);
        let found = edges.read_each(&page.keys, Some(&[&sort]));
        let mut listed = Vec::with_capacity(found.len());
        for (key, edge) in page.keys.iter().zip(found) {
            // One that is gone by now is passed over.
            if let Some(edge) = schema.named(edge)? {
                let (_, edge_type, target) = schema.parse_edge_key(key)?;
                let sort_key = edge.get(&sort);
                listed.push(NodeEdge {
                    edge_type: edge_type.into(),
                    target,
                    sort_key: sort_key
                        .as_ref()
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .into(),
                });
            }
        }
        Ok((listed, page.cursor))
    }

    /// The same by the maps of the node that the edges begin at.
    fn page_of_maps(&self) -> Result<(Vec<NodeEdge>, Option<String>)> {
        let schema = self.schema;
        let node =
            NodeId::parse(&self.source).ok_or_else(|| schema.foreign(&(&*self.source).into()))?;
        let types = schema.edge_types.iter();
        let wanted = |edge: &&EdgeType| {
            self.edge_type
                .as_deref()
                .is_none_or(|name| name == edge.name())
        };
        let types: Vec<&EdgeType> = types.filter(wanted).collect();
        let (first, end) = match self.edge_type.as_deref() {
            // Types have no hyphen, and the sign behind it is a full stop.
            Some(name) => (format!("{name}-"), format!("{name}.")),
            None => (String::new(), char::MAX.to_string()),
        };
        let mut entries = Vec::new();
        for (map, is_in_edge_set) in [(EdgeMap::EdgeSet, true), (EdgeMap::Omitted, false)] {
            if types
                .iter()
                .any(|edge| edge.is_in_edge_set() == is_in_edge_set)
            {
                let range = (&*first, self.after.as_deref(), &*end);
                entries.extend(schema.entries_between(
                    self.store,
                    (map, &node),
                    range,
                    self.limit,
                )?);
            }
        }
        entries.sort_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
        let next = cut_page(&mut entries, self.limit);
        Ok((schema.edges_in(entries)?, next))
    }
}

/// Cuts a page off entries of which there may be more, and returns the token of the next one;
/// `None`: there is no more.
fn cut_page(entries: &mut Vec<(Value, Value)>, limit: usize) -> Option<String> {
    let is_last = entries.len() <= limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| !is_last)?;
    last.0.as_str().map(str::to_owned)
}

impl Schema {
    /// Returns entries of a map of a node, from a key on, or behind the last one of the page
    /// before, up to an end: one more than `limit`, if there are more.
    fn entries_between<S: RecordStore>(
        &self,
        store: &S,
        (map, node): (EdgeMap, &NodeId),
        (first, after, end): (&str, Option<&str>, &str),
        limit: usize,
    ) -> Result<Vec<(Value, Value)>> {
        let map = self.side(map).at(store, &self.node_key(node)?).map()?;
        let (first, after, end) = (Value::from(first), after.map(Value::from), Value::from(end));
        let from = match &after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(&first),
        };
        map.range(
            from,
            Bound::Excluded(&end),
            (limit as u64).saturating_add(1),
        )
    }
}
