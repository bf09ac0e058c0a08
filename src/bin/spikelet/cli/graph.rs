//! A follow graph in memory: who follows whom.

use std::borrow::Cow;

use spikelet::{Key, Value};

/// The ids of the nodes, by node number.
#[derive(Debug, PartialEq)]
pub(crate) enum NodeIds {
    /// All of them are integers.
    Integers(Vec<i64>),
    /// Not all of them are.
    Texts(Vec<Box<str>>),
}

impl NodeIds {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Integers(ids) => ids.len(),
            Self::Texts(ids) => ids.len(),
        }
    }

    /// Returns the key of a node's record.
    ///
    /// Numbers come from the graph itself; one that is not a node gives the key of no record.
    pub(crate) fn key(&self, node: u32) -> Key<'_> {
        match self {
            Self::Integers(ids) => Key::Integer(ids.get(node as usize).copied().unwrap_or(-1)),
            Self::Texts(ids) => {
                Key::String(Cow::Borrowed(ids.get(node as usize).map_or("", |id| id)))
            }
        }
    }

    /// Sorts nodes as a list sorts their ids: numbers by size, texts by their bytes.
    pub(crate) fn sort(&self, nodes: &mut [u32]) {
        nodes.sort_by(|a, b| self.key(*a).cmp(&self.key(*b)));
    }

    /// Returns a node as an element of a list.
    pub(crate) fn value(&self, node: u32) -> Value {
        match self.key(node) {
            Key::Integer(id) => id.into(),
            Key::String(id) => id.as_ref().into(),
            Key::Blob(id) => id.as_ref().into(),
        }
    }
}

/// `from` follows `to`, by node number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Distinct edges, in the order in which they are loaded, and the nodes that they join.
#[derive(Debug, PartialEq)]
pub(crate) struct Graph {
    pub(crate) ids: NodeIds,
    pub(crate) edges: Vec<Edge>,
    /// How many a node follows, by node number.
    pub(crate) following: Vec<u32>,
    /// How many follow a node, by node number.
    pub(crate) followers: Vec<u32>,
}

impl Graph {
    /// Builds a graph of distinct edges between nodes 0 to the number of ids.
    pub(crate) fn new(ids: NodeIds, edges: Vec<Edge>) -> Self {
        let mut following = vec![0; ids.len()];
        let mut followers = vec![0; ids.len()];
        for edge in &edges {
            for (degrees, node) in [(&mut following, edge.from), (&mut followers, edge.to)] {
                if let Some(degree) = degrees.get_mut(node as usize) {
                    *degree += 1;
                }
            }
        }
        Self {
            ids,
            edges,
            following,
            followers,
        }
    }

    /// Returns the length of the longest list.
    pub(crate) fn max_degree(&self) -> u32 {
        self.following
            .iter()
            .chain(&self.followers)
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// Returns the node with the most followers, the first of them if there are several.
    pub(crate) fn most_followed(&self) -> u32 {
        let by_followers = (0..).zip(&self.followers);
        by_followers
            .max_by_key(|(node, degree)| (**degree, u32::MAX - node))
            .map_or(0, |(node, _)| node)
    }
}
