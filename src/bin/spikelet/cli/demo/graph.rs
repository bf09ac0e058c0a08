//! A follow graph in memory: read from an edge list, or drawn.

use std::collections::HashSet;

use spikelet::Key;

use crate::random::Random;
use crate::report::shortened;

/// The longest id of a node, in bytes: longer ones are no ids but a file of something else.
const ID_BYTES_MAX: usize = 255;

/// How much of a malformed line is shown, in characters.
const SHOWN_CHARS: usize = 60;

/// Who follows whom.
pub(super) type Follow = [Key<'static>; 2];

/// Draws a graph of this many nodes, numbered from 0, with distinct edges and without self-loops:
/// as many for each node as the GitHub follow graph has, or half of those that are possible. Nodes
/// take their turns to follow; the n-th most followed node is followed in proportion to about
/// n^(-3/4), so of some ten thousand nodes a few have thousands of followers and most have a
/// handful. The powers are made of square roots, which are exact to the last bit: the graph is the
/// same on every machine.
pub(super) fn generate(nodes: u32) -> Vec<Follow> {
    let possible = u64::from(nodes) * u64::from(nodes.saturating_sub(1));
    let edges = (u64::from(nodes) * 289_003 / 37_700).min(possible / 2);
    let mut random = Random::new(1);
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
            drawn.push([from, to].map(|node| Key::Integer(node.into())));
            follower = turns.next();
        }
    }
    // Fights over one record are spread over the whole load.
    random.shuffle(&mut drawn);
    drawn
}

/// Reads an edge list: `a,b`, `a;b` or `a b`, one edge a line. Ids are integers if all of them are,
/// else text. Repeated edges count once. Blank lines and lines that begin with `#` or `%` are
/// passed over, further columns (a time, a weight) are ignored, and the first line may be a header
/// of numbers.
///
/// # Errors
/// The first line that is malformed.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Follow>, String> {
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
    let is_header = |ids: &[&str; 2]| ids.iter().all(|id| id.parse::<i64>().is_err());
    let rest = match edges.split_first() {
        None => return Err(" no edges in it".to_owned()),
        Some((first, rest)) if !rest.is_empty() && is_header(first) => rest,
        Some(_) => &edges,
    };
    let are_integers = rest.iter().flatten().all(|id| id.parse::<i64>().is_ok());
    // Among ids that are text, no first line can be told from a header.
    let listed = if are_integers { rest } else { &edges };
    let key = |id: &str| match id.parse() {
        Ok(id) if are_integers => Key::Integer(id),
        _ => Key::from(id.to_owned()),
    };
    let mut known = HashSet::new();
    let listed = listed.iter().map(|edge| edge.map(key));
    Ok(listed.filter(|edge| known.insert(edge.clone())).collect())
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
        let edges = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let id = |id: Key<'_>| match id {
            Key::Integer(id) => id.to_string(),
            Key::String(id) => format!("'{id}'"),
            Key::Blob(_) => panic!("no ids are blobs"),
        };
        edges.into_iter().map(|edge| edge.map(id).into()).collect()
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
    fn directions_and_loops_are_edges_and_repeated_ones_count_once() {
        let edges = parse(b"1,2\n2,1\n1,2\n3,3\n01,2\n").unwrap();
        assert_eq!(
            edges,
            [[1, 2], [2, 1], [3, 3]].map(|edge| edge.map(Key::from))
        );
    }

    #[test]
    fn a_graph_has_distinct_edges_and_every_node_follows() {
        for (nodes, edges) in [(2, 1), (3, 3), (10, 45), (100, 766), (1_000, 7_665)] {
            let graph = generate(nodes);
            assert_eq!(graph, generate(nodes));
            let distinct: HashSet<_> = graph.iter().collect();
            assert_eq!(
                (graph.len(), distinct.len()),
                (edges, edges),
                "{nodes} nodes"
            );
            assert!(graph.iter().all(|[from, to]| from != to));
            let followers: HashSet<_> = graph.iter().map(|[from, _]| from).collect();
            assert_eq!(followers.len(), edges.min(nodes as usize));
        }
    }

    #[test]
    fn a_few_nodes_have_thousands_of_followers_and_most_have_a_handful() {
        let mut degrees = vec![0; 37_700];
        for [_, to] in generate(37_700) {
            if let Key::Integer(to) = to {
                degrees[to as usize] += 1;
            }
        }
        degrees.sort_unstable_by(|one: &u32, other| other.cmp(one));
        assert!((3_000..8_000).contains(&degrees[0]), "{}", degrees[0]);
        assert!(degrees[200] > 50 && degrees[18_850] < 10, "{degrees:?}");
    }
}
