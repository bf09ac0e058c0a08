//! The edges of the graph phases: generated with heavy tails, or read from a file; each once, in
//! random order.

use crate::Result;
use crate::draw::Random;
use crate::stores::graph::{Edge, Node};
use std::path::Path;
use std::{fmt, fs};

/// Edges that a node has at either side on average: as many as in real graphs of followers.
const EDGES_A_NODE: u64 = 8;
/// Seeds of the drawing and of the order.
const DRAW: u64 = 0xed6e;
const ORDER: u64 = 0x0bde;

/// Edges without self-loops, each once.
#[derive(Debug)]
pub struct Edges {
    in_order: Vec<Edge>,
    sorted: Vec<Edge>,
    nodes: Node,
}

impl Edges {
    /// Draws `count` edges, of which some fall together. A node's rank decides how often it is
    /// drawn: as one who follows by the power -1/2 of the rank, as one who is followed by the power
    /// -2/3. Of 10,000,000 edges, one node follows 8,273, and one is followed by 85,610.
    pub fn generated(count: u64) -> Self {
        let nodes = (count / EDGES_A_NODE).max(2);
        let mut random = Random::new(DRAW, 0, 0);
        let mut ranked = |power: i32| {
            let uniform = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
            ((uniform.powi(power) * nodes as f64) as u64).min(nodes - 1)
        };
        let edges = (0..count).map(|_| (ranked(2) as Node, ranked(3) as Node));
        Self::new(edges.collect())
    }

    /// Reads two numbers a line, with anything but digits between them. Lines that do not begin
    /// with a number are skipped, and so is the rest of a line after the second number.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)?;
        let mut edges = Vec::new();
        for line in text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        {
            let mut numbers = line
                .split(|c: char| !c.is_ascii_digit())
                .filter(|n| !n.is_empty());
            let (source, target) = (numbers.next(), numbers.next());
            let (source, target) = source
                .zip(target)
                .ok_or_else(|| format!("{}: not an edge: {line:?}", file.display()))?;
            edges.push((source.parse()?, target.parse()?));
        }
        if edges.is_empty() {
            return Err(format!("{}: no edges", file.display()).into());
        }
        Ok(Self::new(edges))
    }

    fn new(mut edges: Vec<Edge>) -> Self {
        edges.retain(|(source, target)| source != target);
        edges.sort_unstable();
        edges.dedup();
        let sorted = edges.clone();
        let mut random = Random::new(ORDER, 0, 0);
        for last in (1..edges.len()).rev() {
            edges.swap(last, random.below(last as u64 + 1) as usize);
        }
        let ends = sorted.iter().map(|(source, target)| source.max(target) + 1);
        Self {
            nodes: ends.max().unwrap_or_default(),
            in_order: edges,
            sorted,
        }
    }

    /// All edges, in the order in which they are added.
    pub fn in_order(&self) -> &[Edge] {
        &self.in_order
    }

    /// All nodes, those without edges included.
    pub fn nodes(&self) -> std::ops::Range<Node> {
        0..self.nodes
    }

    /// Whether there is such an edge.
    pub fn contains(&self, edge: Edge) -> bool {
        self.sorted.binary_search(&edge).is_ok()
    }
}

/// How many edges and nodes there are, and the largest degrees.
impl fmt::Display for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = |end: fn(&Edge) -> Node| {
            let mut degrees = vec![0_u32; self.nodes().len()];
            for edge in &self.in_order {
                if let Some(degree) = degrees.get_mut(end(edge) as usize) {
                    *degree += 1;
                }
            }
            degrees.into_iter().max().unwrap_or_default()
        };
        let (edges, nodes) = (self.in_order.len(), self.nodes);
        let (follows, followed) = (largest(|edge| edge.0), largest(|edge| edge.1));
        write!(
            f,
            "{edges} edges between {nodes} nodes; at most {follows} and {followed} at one"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn generated_edges_are_each_there_once_in_random_order_with_heavy_tails() {
        let edges = Edges::generated(80_000);
        let all: HashSet<Edge> = edges.in_order().iter().copied().collect();
        assert_eq!(all.len(), edges.in_order().len());
        assert!(all.len() > 60_000, "{}", all.len());
        assert!(!edges.in_order().is_sorted());
        assert!(
            all.iter()
                .all(|edge| edge.0 != edge.1 && edges.contains(*edge))
        );
        assert!(!edges.contains((0, 0)));
        let mut degrees = vec![0; edges.nodes().len()];
        for (_, target) in all {
            degrees[target as usize] += 1;
        }
        degrees.sort_unstable();
        assert!(
            degrees[degrees.len() / 2] < 8,
            "half have less than the mean"
        );
        assert!(degrees.last().unwrap() > &800, "{:?}", degrees.last());
    }

    #[test]
    fn files_of_several_kinds_are_read_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edges");
        fs::write(&file, "id_1,id_2\n0,7\n0,7\n3,3\n# x\n2 1 1082040961\n").unwrap();
        let edges = Edges::read(&file).unwrap();
        assert_eq!(edges.sorted, [(0, 7), (2, 1)]);
        assert_eq!(edges.nodes(), 0..8);
        for (text, said) in [("source,target\n", "no edges"), ("1,2\n3\n", "not an edge")] {
            fs::write(&file, text).unwrap();
            let error = Edges::read(&file).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
