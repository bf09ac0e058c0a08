//! Keys of the two tables of edges in stores of bytes: the edge's own node, then the other one.

use super::{Edge, Node};
use crate::Result;
use std::collections::HashSet;

/// Size of a node in a key, in bytes.
const NODE_BYTES: usize = 4;
/// The key of an edge at one of its ends.
pub type EdgeKey = [u8; 2 * NODE_BYTES];

/// The key of a node's record.
pub fn node_key(node: Node) -> [u8; NODE_BYTES] {
    node.to_be_bytes()
}

/// The key of an edge at its first end; keys of one node are in the order of the others.
pub fn edge_key((owner, other): Edge) -> EdgeKey {
    (u64::from(owner) << 32 | u64::from(other)).to_be_bytes()
}

/// The first and the last key that a node's edges can have.
pub fn keys_of(owner: Node) -> [EdgeKey; 2] {
    [edge_key((owner, 0)), edge_key((owner, Node::MAX))]
}

/// The node at the other end.
pub fn other_end(key: &[u8]) -> Result<Node> {
    let bytes = key.last_chunk().ok_or("a key of an edge is too short")?;
    Ok(Node::from_be_bytes(*bytes))
}

/// How many nodes are one or two edges away, given what lists the nodes that one follows.
pub fn reached_by_two(
    node: Node,
    mut followed: impl FnMut(Node, &mut Vec<Node>) -> Result<()>,
) -> Result<u64> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    followed(node, &mut near)?;
    for node in &near {
        followed(*node, &mut far)?;
    }
    let mut reached: HashSet<Node> = near.into_iter().collect();
    reached.extend(far);
    reached.remove(&node);
    Ok(reached.len() as u64)
}
