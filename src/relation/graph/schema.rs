//! The types of a graph, and the keys and bins of its records.

use std::fmt;
use std::sync::Arc;

use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use crate::query::IndexDefinition;
use crate::relation::key_pattern::KeyPattern;
use crate::relation::side::RelationSide;
use crate::shard::ShardPolicy;
use crate::{Bins, Error, Key, Result, Value};

/// The bins of an edge: the node that it begins at, and its type with the node that it leads to.
pub(in crate::relation) const SOURCE: &str = "source";
pub(in crate::relation) const TARGET: &str = "target";
/// The bin of a node that holds its edge set.
pub(super) const EDGE_SET: &str = "edge_set";
/// The bins of the maps beside edge sets.
const OMITTED: &str = "omitted";
const INCOMING: &str = "incoming";

/// A node, by its type and id: `GOAL-G1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The type of the node.
    pub kind: Box<str>,
    /// Its id among the nodes of this type.
    pub id: Box<str>,
}

impl NodeId {
    /// Returns the id of a node of this type.
    #[must_use]
    pub fn new(kind: &str, id: &str) -> Self {
        Self {
            kind: kind.into(),
            id: id.into(),
        }
    }

    /// The node that a text such as `GOAL-G1` names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once('-')?;
        Some(Self::new(kind, id))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind, self.id)
    }
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

type EdgeSortKey = Arc<dyn Fn(&Bins) -> Option<String> + Send + Sync>;

/// A type of edges: their sort keys, and whether nodes have them in their edge sets.
#[derive(Clone)]
pub struct EdgeType {
    name: Box<str>,
    sort_keys: Vec<EdgeSortKey>,
    omitted: bool,
}

impl fmt::Debug for EdgeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeType")
            .field("name", &self.name)
            .field("sort_keys", &self.sort_keys.len())
            .field("omitted", &self.omitted)
            .finish()
    }
}

impl EdgeType {
    /// Returns a type of this name, without sort keys, that is in edge sets.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            sort_keys: Vec::new(),
            omitted: false,
        }
    }

    /// Adds a sort key, which is derived from the attributes of an edge. The first one is also in
    /// the edge set. An edge for which there is none sorts as the empty text. An edge has the sort
    /// keys that its type had when it was linked last.
    #[must_use]
    pub fn sort_key(
        mut self,
        derive: impl Fn(&Bins) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.sort_keys.push(Arc::new(derive));
        self
    }

    /// Adds a sort key by the rank of an attribute's value: `500-LEAD`, `400-CONTRIBUTOR`, so that
    /// a query for at least `400-` finds both. Each rank has as many digits as the greatest, and
    /// three at least.
    #[must_use]
    pub fn ranked_by<'r>(
        self,
        attribute: &str,
        ranks: impl IntoIterator<Item = (&'r str, u32)>,
    ) -> Self {
        let attribute = attribute.to_owned();
        let ranks: Vec<(String, u32)> = ranks
            .into_iter()
            .map(|(value, rank)| (value.to_owned(), rank))
            .collect();
        let greatest = ranks.iter().map(|(_, rank)| *rank).max();
        let width = greatest.map_or(0, |rank| rank.to_string().len()).max(3);
        self.sort_key(move |attributes| {
            let value = attributes.get(&attribute)?.as_str()?;
            let (_, rank) = ranks.iter().find(|(known, _)| known == value)?;
            Some(format!("{rank:0width$}-{value}"))
        })
    }

    /// Leaves edges of this type out of edge sets: for types of which a node may have thousands
    /// that are not shown with it.
    #[must_use]
    pub const fn omitted(mut self) -> Self {
        self.omitted = true;
        self
    }

    pub(super) const fn is_in_edge_set(&self) -> bool {
        !self.omitted
    }

    pub(super) const fn name(&self) -> &str {
        &self.name
    }

    /// How many sort keys an edge has: one at least, which may be empty.
    pub(super) fn sort_keys(&self) -> usize {
        self.sort_keys.len().max(1)
    }

    /// The sort keys of an edge with these attributes.
    pub(super) fn derive(&self, attributes: &Bins) -> Vec<String> {
        let derived = self.sort_keys.iter().map(|derive| derive(attributes));
        let mut sort_keys: Vec<String> = derived.map(Option::unwrap_or_default).collect();
        sort_keys.resize(self.sort_keys(), String::new());
        sort_keys
    }
}

/// The keys of the edges of a graph, by source and target.
pub(in crate::relation) fn edge_keys() -> Result<KeyPattern<(String, String)>> {
    KeyPattern::new("{source}|{target}")
}

/// The index of a graph's edges by the node that they begin at.
pub(in crate::relation) fn source_index(graph: &str) -> IndexDefinition {
    IndexDefinition::new(&format!("{graph}_source"), [SOURCE, TARGET])
}

/// The index of a graph's edges by the node that they lead to, and the sort key of this number.
pub(in crate::relation) fn target_index(graph: &str, at: usize) -> IndexDefinition {
    IndexDefinition::new(&format!("{graph}_target{at}"), [TARGET, &*sort_bin(at)])
}

/// What an edge of this type to a node has in its bin [`TARGET`], and as its key in an edge set.
pub(in crate::relation) fn target_text(edge_type: &str, target: impl fmt::Display) -> String {
    format!("{edge_type}-{target}")
}

/// The bin of a sort key.
pub(super) fn sort_bin(at: usize) -> String {
    format!("sort{at}")
}

/// A map that has an entry for each of its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeMap {
    /// The edge set of the node where edges begin: all types but the omitted ones.
    EdgeSet,
    /// The omitted types, by the node where edges begin. Where the store has no ordered indexes.
    Omitted,
    /// All types, by the node that edges lead to, in the order of their sort keys. Where the store
    /// has no ordered indexes.
    Incoming,
}

/// The declared types of a graph.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    name: Box<str>,
    pub(super) nodes: Box<str>,
    pub(super) edges: Box<str>,
    node_types: Vec<Box<str>>,
    pub(super) edge_types: Vec<EdgeType>,
    edge_keys: KeyPattern<(String, String)>,
    pub(super) shard_policy: ShardPolicy,
    pub(super) ends_must_exist: bool,
    /// The set of the maps beside the edge sets.
    pub(super) ends: Box<str>,
    /// Whether edges are kept in maps at both ends: the store has no ordered indexes.
    pub(super) keeps_edge_maps: bool,
}

impl Schema {
    pub(super) fn new<'n>(
        name: &str,
        node_types: impl IntoIterator<Item = &'n str>,
        edge_types: impl IntoIterator<Item = EdgeType>,
    ) -> Result<Self> {
        let schema = Self {
            name: name.into(),
            nodes: name.into(),
            edges: format!("{name}_edges").into(),
            node_types: node_types.into_iter().map(Into::into).collect(),
            edge_types: edge_types.into_iter().collect(),
            edge_keys: edge_keys()?,
            shard_policy: ShardPolicy::default(),
            ends_must_exist: false,
            ends: format!("{name}_ends").into(),
            keeps_edge_maps: false,
        };
        let edge_names = schema.edge_types.iter().map(|edge| &edge.name);
        let mut names: Vec<&Box<str>> = schema.node_types.iter().chain(edge_names).collect();
        names.sort();
        for (name, next) in names
            .iter()
            .zip(names.iter().skip(1).map(Some).chain([None]))
        {
            if name.is_empty() || name.contains('-') || Some(name) == next {
                return Err(Error::parameter(format!(
                    "type {name:?} of a graph: names of types differ, are not empty, and have no hyphen, which ends them in keys"
                )));
            }
        }
        Ok(schema)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How many indexes by target there are.
    pub(super) fn sort_keys(&self) -> usize {
        let most = self.edge_types.iter().map(EdgeType::sort_keys).max();
        most.unwrap_or(1)
    }

    pub(super) fn sort_bins(&self) -> Vec<String> {
        (0..self.sort_keys()).map(sort_bin).collect()
    }

    pub(super) fn edge_type(&self, name: &str) -> Result<&EdgeType> {
        let known = self.edge_types.iter().find(|edge| *edge.name == *name);
        known.ok_or_else(|| self.undeclared("edges", name))
    }

    fn undeclared(&self, of: &str, name: &str) -> Error {
        Error::parameter(format!(
            "graph {:?} has no type {name:?} of {of}: declare it in Graph::new",
            self.name
        ))
    }

    pub(super) fn node_key(&self, id: &NodeId) -> Result<Key<'static>> {
        if self.node_types.contains(&id.kind) {
            return Ok(id.to_string().into());
        }
        Err(self.undeclared("nodes", &id.kind))
    }

    pub(super) fn target_key(&self, edge_type: &EdgeType, target: &NodeId) -> Result<Key<'static>> {
        self.node_key(target)?;
        Ok(target_text(&edge_type.name, target).into())
    }

    pub(super) fn edge_key(
        &self,
        source: &NodeId,
        edge_type: &EdgeType,
        target: &NodeId,
    ) -> Result<Key<'static>> {
        self.node_key(source)?;
        self.node_key(target)?;
        let target = target_text(&edge_type.name, target);
        Ok(self.edge_keys.key((source.to_string(), target)))
    }

    /// The source, type and target of an edge.
    pub(super) fn parse_edge_key(&self, key: &Key<'_>) -> Result<(NodeId, String, NodeId)> {
        let (source, target) = self.edge_keys.parse(key)?;
        let (edge_type, target) = self.parse_target(&target)?;
        let source = NodeId::parse(&source).ok_or_else(|| self.foreign(key))?;
        Ok((source, edge_type, target))
    }

    /// The type and the target of an edge, of what an edge set or an index has.
    pub(super) fn parse_target(&self, text: &str) -> Result<(String, NodeId)> {
        let parsed = text
            .split_once('-')
            .and_then(|(edge_type, node)| Some((edge_type.to_owned(), NodeId::parse(node)?)));
        parsed.ok_or_else(|| self.foreign(&text.into()))
    }

    /// The keys in an edge set of edges of this type to nodes of a type: from the first one to the
    /// bound behind the last.
    pub(super) fn targets_of_type(&self, edge_type: &EdgeType, kind: &str) -> (Value, Value) {
        let from = format!("{}-{kind}", edge_type.name);
        // Types have no hyphen, and the sign behind it is a full stop.
        (format!("{from}-").into(), format!("{from}.").into())
    }

    /// The bins of an edge in which the graph keeps something of its own.
    pub(super) fn own_bins(&self) -> impl Iterator<Item = String> {
        let sort_bins = self.sort_bins().into_iter();
        sort_bins.chain([SOURCE, TARGET].map(str::to_owned))
    }

    pub(super) fn foreign(&self, key: &Key<'_>) -> Error {
        Error::parameter(format!(
            "{key} is no key of graph {:?}: look at who writes to its sets",
            self.name
        ))
    }

    /// All bins of an edge.
    pub(super) fn edge_bins(
        &self,
        edge_type: &EdgeType,
        source: &Key<'_>,
        target: &Key<'_>,
        attributes: &Bins,
    ) -> Result<Bins> {
        for bin in self.own_bins() {
            if attributes.get(&bin).is_some() {
                return Err(Error::parameter(format!(
                    "attribute {bin:?} of an edge: the graph keeps its own there, use another name"
                )));
            }
        }
        let mut bins = attributes.clone();
        for (at, sort_key) in edge_type.derive(attributes).into_iter().enumerate() {
            bins.set(&sort_bin(at), sort_key)?;
        }
        for (bin, key) in [(SOURCE, source), (TARGET, target)] {
            if let Key::String(text) = key {
                bins.set(bin, Value::String(text.to_string()))?;
            }
        }
        Ok(bins)
    }

    /// The maps that the store keeps of a node: that in its own record first.
    pub(super) fn edge_maps(&self) -> impl Iterator<Item = EdgeMap> {
        let beside = [EdgeMap::Omitted, EdgeMap::Incoming];
        let beside = beside.into_iter().filter(|_| self.keeps_edge_maps);
        [EdgeMap::EdgeSet].into_iter().chain(beside)
    }

    pub(super) fn side(&self, map: EdgeMap) -> RelationSide {
        match map {
            EdgeMap::EdgeSet => self.edge_set(),
            EdgeMap::Omitted => self.side_of(&self.ends, OMITTED),
            EdgeMap::Incoming => self.side_of(&self.ends, INCOMING),
        }
    }

    /// The edge sets of the nodes.
    pub(super) fn edge_set(&self) -> RelationSide {
        self.side_of(&self.nodes, EDGE_SET)
    }

    pub(super) fn side_of(&self, set: &str, bin: &str) -> RelationSide {
        let mut side = RelationSide::new(set, bin);
        side.has_attributes = true;
        side.shard_policy = self.shard_policy;
        side
    }

    pub(super) fn declaration(&self) -> RelationDeclaration {
        let (edges, nodes) = (&*self.edges, &*self.nodes);
        let edge_types = self.edge_types.iter().map(|edge| {
            let place = if edge.omitted {
                "left out of edge sets"
            } else {
                "in edge sets"
            };
            format!(
                "edges {}, {place}, {} sort keys",
                edge.name,
                edge.sort_keys.len()
            )
            .into()
        });
        let node_types = self.node_types.iter();
        let node_types = node_types.map(|kind| format!("nodes {kind}").into());
        let maps = self.edge_maps().map(|map| {
            let role = match map {
                EdgeMap::EdgeSet => "edge sets",
                EdgeMap::Omitted => "omitted edges",
                EdgeMap::Incoming => "edges to",
            };
            self.side(map).declared(role, nodes)
        });
        let from = DeclaredSide::new("edges from", (edges, SOURCE), SideForm::Reference, nodes);
        let sides = maps.chain([from]).collect();
        let mut declaration = RelationDeclaration::new(&self.name, RelationKind::Graph, sides);
        let own_bins = self.own_bins().filter(|bin| *bin != SOURCE);
        declaration.beside = own_bins.map(Into::into).collect();
        declaration.edge_types = self
            .edge_types
            .iter()
            .map(|edge| edge.name.clone())
            .collect();
        declaration.details = node_types.chain(edge_types).collect();
        declaration
    }

    pub(super) fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let side = format!("nodes \"{}\" and edges \"{}\"", self.nodes, self.edges);
            error.in_relation(&self.name, side)
        })
    }
}
