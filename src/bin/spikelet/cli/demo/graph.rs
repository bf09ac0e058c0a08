//! A follow graph in memory: read from an edge list, or drawn from a seed.

use std::collections::{HashMap, HashSet};

use spikelet::Key;

use crate::random::Random;
use crate::report::shortened;

/// The longest id of a node, in bytes: longer ones are no ids but a file of something else.
const ID_BYTES_MAX: usize = 255;

/// How much of a malformed line is shown, in characters.
const SHOWN_CHARS: usize = 60;

/// Distinct edges, in the order in which they are loaded, and the nodes that they join.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Graph {
    /// By node number.
    ids: Vec<Key<'static>>,
    /// Who follows whom, by node number.
    pub(super) edges: Vec<(usize, usize)>,
    /// How many edges were left out because they came before.
    pub(super) repeated: u64,
}

/// A list of the store: the nodes that a node follows, or its followers.
#[derive(Debug, PartialEq)]
pub(super) struct NodeList {
    pub(super) node: usize,
    pub(super) is_followers: bool,
    /// In the order of their keys.
    pub(super) others: Vec<usize>,
}

impl Graph {
    /// Builds a graph; nodes are numbered in the order of their first edge.
    fn of(edges: impl IntoIterator<Item = (Key<'static>, Key<'static>)>) -> Self {
        let mut graph = Self::default();
        let (mut numbers, mut known) = (HashMap::new(), HashSet::new());
        for (from, to) in edges {
            let edge = [from, to].map(|id| {
                *numbers.entry(id).or_insert_with_key(|id| {
                    graph.ids.push(id.clone());
                    graph.ids.len() - 1
                })
            });
            if known.insert(edge) {
                graph.edges.push(edge.into());
            } else {
                graph.repeated += 1;
            }
        }
        graph
    }

    pub(super) fn nodes(&self) -> usize {
        self.ids.len()
    }

    /// Returns the key of a node's record; that of no record for a number that is not a node's.
    pub(super) fn id(&self, node: usize) -> Key<'_> {
        self.ids.get(node).map_or(Key::Integer(-1), Key::from)
    }

    /// Returns both lists of every node, as they should be.
    pub(super) fn lists(&self) -> Vec<NodeList> {
        let list = |at: usize| NodeList {
            node: at / 2,
            is_followers: at % 2 == 1,
            others: Vec::new(),
        };
        let mut lists: Vec<NodeList> = (0..self.ids.len() * 2).map(list).collect();
        for (from, to) in &self.edges {
            for (at, other) in [(from * 2, to), (to * 2 + 1, from)] {
                if let Some(list) = lists.get_mut(at) {
                    list.others.push(*other);
                }
            }
        }
        for list in &mut lists {
            list.others.sort_by_cached_key(|node| self.id(*node));
        }
        lists
    }
}

/// Returns the largest possible number of edges without self-loops.
pub(super) fn edges_max(nodes: u32) -> u64 {
    u64::from(nodes) * u64::from(nodes.saturating_sub(1))
}

/// Draws a graph of `nodes` nodes, numbered from 0, and `edges` distinct edges without self-loops,
/// at most [`edges_max`]. Nodes take their turns to follow; the n-th most followed node is followed
/// in proportion to about n^(-3/4), so of some ten thousand nodes a few have thousands of followers
/// and most have a handful. The powers are made of square roots, which are exact to the last bit:
/// a seed gives the same graph on every machine.
pub(super) fn generate(nodes: u32, edges: u64, seed: u64) -> Graph {
    let mut random = Random::new(seed);
    let mut ranked: Vec<u32> = (0..nodes).collect();
    random.shuffle(&mut ranked);
    let reach = (f64::from(nodes) + 1.0).sqrt().sqrt() - 1.0;
    let (mut drawn, mut known) = (Vec::new(), HashSet::new());
    let mut turns = (0..nodes).cycle();
    let mut follower = turns.next();
    while let Some(from) = follower
        && (drawn.len() as u64) < edges
    {
        // The integral of n^(-3/4) grows with the fourth root.
        let root = 1.0 + random.unit() * reach;
        let rank = (root * root * root * root - 1.0) as usize;
        let to = ranked.get(rank.min(ranked.len() - 1)).copied();
        if let Some(to) = to.filter(|to| *to != from && known.insert((from, *to))) {
            drawn.push((from, to));
            follower = turns.next();
        }
    }
    // Fights over one record are spread over the whole load.
    random.shuffle(&mut drawn);
    let id = |node: u32| Key::Integer(node.into());
    Graph::of(drawn.into_iter().map(|(from, to)| (id(from), id(to))))
}

/// Reads an edge list: `a,b`, `a;b` or `a b`, one edge a line. Ids are integers if all of them are,
/// else text. Blank lines and lines that begin with `#` or `%` are passed over, further columns (a
/// time, a weight) are ignored, and the first line may be a header of numbers.
///
/// # Errors
/// The first line that is malformed.
pub(super) fn parse(text: &[u8]) -> Result<Graph, String> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{line}: expected text in UTF-8")
    })?;
    let mut edges = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '%']) {
            continue;
        }
        edges.push(two_ids(line).ok_or_else(|| {
            let shown = shortened(line.to_owned(), SHOWN_CHARS);
            format!(
                "{number}: expected two node ids separated by a comma, tab or space, found {shown:?}"
            )
        })?);
    }
    let integers = |[from, to]: [&str; 2]| {
        let integer = |id: &str| Some(Key::Integer(id.parse().ok()?));
        Some((integer(from)?, integer(to)?))
    };
    let is_header = |ids: &[&str; 2]| ids.iter().all(|id| id.parse::<i64>().is_err());
    let rest = match edges.split_first() {
        None => return Err(" no edges in it".to_owned()),
        Some((first, rest)) if !rest.is_empty() && is_header(first) => rest,
        Some(_) => &edges,
    };
    let of_integers: Option<Vec<_>> = rest.iter().copied().map(integers).collect();
    Ok(match of_integers {
        Some(edges) => Graph::of(edges),
        None => {
            let text = |id: &str| Key::from(id.to_owned());
            Graph::of(edges.iter().map(|[from, to]| (text(from), text(to))))
        }
    })
}

/// Returns the first two columns. A line is split at its commas; if it has none, at its semicolons;
/// else at spaces and tabs.
fn two_ids(line: &str) -> Option<[&str; 2]> {
    let separator = [',', ';'].into_iter().find(|one| line.contains(*one));
    let mut ids = match separator {
        Some(separator) => line.splitn(3, separator).map(str::trim).collect::<Vec<_>>(),
        None => line.split_whitespace().collect(),
    };
    ids.truncate(2);
    let ids: [&str; 2] = ids.try_into().ok()?;
    let ids = ids.map(|id| id.trim_matches('"'));
    let is_id = |id: &&str| (1..=ID_BYTES_MAX).contains(&id.len());
    ids.iter().all(is_id).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the edges with their ids, as text.
    fn edges(text: &str) -> Vec<(String, String)> {
        let graph = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let id = |node| match graph.id(node) {
            Key::Integer(id) => id.to_string(),
            Key::String(id) => format!("'{id}'"),
            Key::Blob(_) => panic!("no ids are blobs"),
        };
        let edges = graph.edges.iter();
        edges.map(|(from, to)| (id(*from), id(*to))).collect()
    }

    #[test]
    fn an_edge_is_read_however_its_columns_are_separated() {
        let table = [
            "1,2",
            " 1 , 2 ",
            "1 2",
            "1\t2",
            "1   2",
            "1;2",
            "1 2 1082040961",
            "1,2,0.5,x y",
            "1\t2\t\t",
            "\"1\",\"2\"",
            "1,2\r\n",
            "\u{feff}1,2",
            "id_1,id_2\n1,2",
            "nd nw\r\n1 2 1082040961\r\n",
            "# by hand\n\n% more\n1 2",
            "x y time\n001 +2",
            "1 2\n1,2\n01 2",
        ];
        for text in table {
            assert_eq!(edges(text), [("1".into(), "2".into())], "{text:?}");
        }
    }

    #[test]
    fn ids_are_text_as_soon_as_one_of_them_is_no_integer() {
        for (text, expected) in [
            ("ada bob", ("'ada'", "'bob'")),
            ("Ada L,Bob", ("'Ada L'", "'Bob'")),
            ("1,9223372036854775808", ("'1'", "'9223372036854775808'")),
            ("1 2\nx 3", ("'1'", "'2'")),
        ] {
            let first = edges(text).swap_remove(0);
            assert_eq!((&*first.0, &*first.1), expected, "{text:?}");
        }
    }

    #[test]
    fn a_malformed_line_is_named_with_its_number() {
        let long = format!("1,2\n{},3", "x".repeat(ID_BYTES_MAX + 1));
        for (text, expected) in [
            ("1,2\n1;", "2: expected two node ids"),
            ("# c\n1,,2", "2: expected two node ids"),
            ("1,2\r\n\r\n3\r\n", "3: expected two node ids"),
            (&*long, "2: expected two node ids"),
            ("", " no edges in it"),
            ("# nothing\n\n", " no edges in it"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
            assert!(error.len() < 200, "{error}");
        }
        let error = parse(b"1,2\n3,4\xff\n").unwrap_err();
        assert_eq!(error, "2: expected text in UTF-8");
    }

    #[test]
    fn directions_and_loops_are_edges_and_repeated_ones_are_counted() {
        let graph = parse(b"1,2\n2,1\n1,2\n3,3\n01,2\n").unwrap();
        assert_eq!(
            (graph.edges.len(), graph.repeated, graph.nodes()),
            (3, 2, 3)
        );
        let lists = graph.lists().into_iter().map(|list| list.others);
        let lists: Vec<_> = lists.collect();
        assert_eq!(lists, [[1], [1], [0], [0], [2], [2]]);
    }

    #[test]
    fn a_seed_gives_one_graph_of_distinct_edges_in_which_every_node_follows() {
        for (nodes, edges) in [
            (2, 1),
            (2, 2),
            (3, 6),
            (10, 90),
            (100, 700),
            (1_000, 20_000),
        ] {
            let graph = generate(nodes, edges, 3);
            assert_eq!(graph, generate(nodes, edges, 3));
            assert_ne!(
                (edges, &graph),
                (700, &generate(nodes, edges, 4)),
                "another seed"
            );
            assert_eq!(
                (graph.edges.len() as u64, graph.repeated),
                (edges, 0),
                "{nodes} nodes"
            );
            assert!(graph.edges.iter().all(|(from, to)| from != to));
            assert!(edges < nodes.into() || graph.nodes() == nodes as usize);
        }
    }

    #[test]
    fn a_few_nodes_have_thousands_of_followers_and_most_have_a_handful() {
        let graph = generate(37_700, 289_003, 1);
        let lists = graph.lists().into_iter().filter(|list| list.is_followers);
        let mut degrees: Vec<usize> = lists.map(|list| list.others.len()).collect();
        degrees.sort_unstable_by(|one, other| other.cmp(one));
        assert!((3_000..8_000).contains(&degrees[0]), "{}", degrees[0]);
        assert!(degrees[200] > 50 && degrees[18_850] < 10, "{degrees:?}");
    }
}
