//! Edge lists as text: `a,b` or `a b`, one edge a line.
//!
//! The whole text is read and judged before anything is made of it. Ids are integers if all of them
//! are, else text. Blank lines and lines that begin with `#` or `%` are passed over, further
//! columns (a time, a weight) are ignored, and the first line may be a header.

use std::collections::{HashMap, HashSet};

use super::graph::{Edge, Graph, NodeIds};

/// The longest id of a node, in bytes. Ids are the elements of the lists: longer ones are no ids
/// but a file of something else.
const ID_BYTES_MAX: usize = 255;

/// How much of a malformed line is shown, in characters.
const SHOWN_CHARS: usize = 60;

/// Words that head the columns of an edge list of text ids, where a header cannot be recognized by
/// not being a number.
const HEADER_WORDS: [[&str; 2]; 6] = [
    ["id_1", "id_2"],
    ["source", "target"],
    ["src", "dst"],
    ["from", "to"],
    ["follower", "followed"],
    ["node_1", "node_2"],
];

/// The edges of a list, and the names of their ends.
#[derive(Debug, PartialEq)]
pub(crate) struct EdgeList {
    pub(crate) graph: Graph,
    /// Lines that repeat an edge.
    pub(crate) repeated: u64,
    /// The first line is a header.
    pub(crate) header: bool,
    /// The line and the id because of which ids are text.
    pub(crate) first_text: Option<(u64, Box<str>)>,
}

/// Why a text is no edge list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// A line is neither an edge nor anything that is passed over.
    #[error("{line}: expected two node ids separated by a comma, tab or space, found {found:?}")]
    NotAnEdge {
        /// Its number, from 1.
        line: u64,
        /// Its beginning.
        found: String,
    },
    /// A line is not text.
    #[error("{line}: expected text in UTF-8, found the byte 0x{byte:02x} in column {column}")]
    NotUtf8 {
        /// Its number, from 1.
        line: u64,
        /// Where in the line, in bytes, from 1.
        column: usize,
        /// The byte found.
        byte: u8,
    },
    /// An id is too long.
    #[error(
        "{line}: a node id of {bytes} bytes, the limit is {ID_BYTES_MAX}: is this an edge list?"
    )]
    LongId {
        /// The number of the line, from 1.
        line: u64,
        /// The length of the id.
        bytes: usize,
    },
    /// More nodes than there are numbers for them.
    #[error("{line}: more than {} different nodes", u32::MAX)]
    TooManyNodes {
        /// The number of the line, from 1.
        line: u64,
    },
    /// There is nothing in it.
    #[error(" no edges in it")]
    Empty,
}

/// Reads an edge list.
///
/// # Errors
/// The first line that is malformed.
pub(crate) fn parse(text: &[u8]) -> Result<EdgeList, Malformed> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut first = None;
    let mut names = Names::default();
    let mut edges = Vec::new();
    for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let content = utf8(line, bytes)?.trim();
        if content.is_empty() || content.starts_with(['#', '%']) {
            continue;
        }
        let ids = two_ids(content).ok_or_else(|| Malformed::NotAnEdge {
            line,
            found: beginning(content),
        })?;
        if let Some(long) = ids.iter().find(|id| id.len() > ID_BYTES_MAX) {
            return Err(Malformed::LongId {
                line,
                bytes: long.len(),
            });
        }
        if first.is_none() {
            // Whether it is a header is seen when the others are known.
            first = Some((line, ids));
        } else {
            edges.push(names.edge(line, ids)?);
        }
    }
    let (first_line, first_ids) = first.ok_or(Malformed::Empty)?;
    let header = is_header(first_ids, &names, edges.is_empty());
    if !header {
        edges.insert(0, names.edge(first_line, first_ids)?);
    }
    if edges.is_empty() {
        return Err(Malformed::Empty);
    }
    Ok(names.into_edge_list(edges, header))
}

fn utf8(line: u64, bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Malformed::NotUtf8 {
            line,
            column: at + 1,
            byte: bytes.get(at).copied().unwrap_or_default(),
        }
    })
}

fn beginning(content: &str) -> String {
    match content.char_indices().nth(SHOWN_CHARS) {
        None => content.to_owned(),
        Some((end, _)) => format!("{}...", content.get(..end).unwrap_or_default()),
    }
}

/// Returns the first two columns. A line is split at its commas; if it has none, at its semicolons;
/// else at tabs; else at spaces.
fn two_ids(content: &str) -> Option<[&str; 2]> {
    let separator = [',', ';', '\t']
        .into_iter()
        .find(|separator| content.contains(*separator));
    let (first, rest) = one_id(content, separator)?;
    let (second, _) = one_id(rest?, separator)?;
    Some([first, second])
}

/// Returns the first column, without quotes, and what follows its separator.
fn one_id(content: &str, separator: Option<char>) -> Option<(&str, Option<&str>)> {
    let content = content.trim_start_matches(|c: char| c.is_whitespace() && Some(c) != separator);
    let is_separator = |c: char| separator.map_or(c.is_whitespace(), |separator| c == separator);
    if let Some(quoted) = content.strip_prefix('"') {
        let (id, rest) = quoted.split_once('"')?;
        let rest = if separator.is_some() {
            rest.trim_start_matches(' ')
        } else {
            rest
        };
        let rest = match rest.chars().next() {
            None => None,
            Some(next) if is_separator(next) => rest.get(next.len_utf8()..),
            Some(_) => return None,
        };
        return (!id.is_empty()).then_some((id, rest));
    }
    let (id, rest) = match content.split_once(is_separator) {
        Some((id, rest)) => (id, Some(rest)),
        None => (content, None),
    };
    let id = id.trim();
    let plain = !id.is_empty() && !id.contains(|c: char| c.is_whitespace() || c == '"');
    plain.then_some((id, rest))
}

/// Returns whether a first line is a header: in an edge list of integers one without any, in one of
/// text a known pair of words.
fn is_header(ids: [&str; 2], names: &Names<'_>, is_alone: bool) -> bool {
    let no_integers = ids.iter().all(|id| id.parse::<i64>().is_err());
    let known = || {
        HEADER_WORDS.iter().any(|words| {
            words
                .iter()
                .zip(ids)
                .all(|(word, id)| word.eq_ignore_ascii_case(id))
        })
    };
    no_integers && ((names.first_text.is_none() && !is_alone) || known())
}

/// The ids, numbered in the order of their first use.
#[derive(Debug, Default)]
struct Names<'t> {
    numbers: HashMap<&'t str, u32>,
    texts: Vec<&'t str>,
    first_text: Option<(u64, &'t str)>,
}

impl<'t> Names<'t> {
    fn edge(&mut self, line: u64, [from, to]: [&'t str; 2]) -> Result<Edge, Malformed> {
        let mut number = |id| {
            self.number(line, id)
                .ok_or(Malformed::TooManyNodes { line })
        };
        Ok(Edge {
            from: number(from)?,
            to: number(to)?,
        })
    }

    fn number(&mut self, line: u64, id: &'t str) -> Option<u32> {
        if let Some(number) = self.numbers.get(id) {
            return Some(*number);
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        self.numbers.insert(id, number);
        self.texts.push(id);
        if id.parse::<i64>().is_err() && self.first_text.is_none_or(|(first, _)| line < first) {
            self.first_text = Some((line, id));
        }
        Some(number)
    }

    fn into_edge_list(self, mut edges: Vec<Edge>, header: bool) -> EdgeList {
        let ids = if self.first_text.is_some() {
            NodeIds::Texts(self.texts.iter().map(|id| Box::from(*id)).collect())
        } else {
            NodeIds::Integers(self.merge_spellings(&mut edges))
        };
        let mut seen = HashSet::with_capacity(edges.len());
        let lines = edges.len();
        edges.retain(|edge| seen.insert(*edge));
        EdgeList {
            repeated: (lines - edges.len()) as u64,
            graph: Graph::new(ids, edges),
            header,
            first_text: self.first_text.map(|(line, id)| (line, id.into())),
        }
    }

    /// Returns the ids as integers. `7` and `007` are the same id; the edges are renumbered
    /// accordingly.
    fn merge_spellings(&self, edges: &mut [Edge]) -> Vec<i64> {
        let mut integers = Vec::with_capacity(self.texts.len());
        let mut numbers = HashMap::with_capacity(self.texts.len());
        let merged: Vec<u32> = self
            .texts
            .iter()
            .filter_map(|id| id.parse::<i64>().ok())
            .map(|id| {
                *numbers.entry(id).or_insert_with(|| {
                    integers.push(id);
                    (integers.len() - 1) as u32
                })
            })
            .collect();
        for node in edges
            .iter_mut()
            .flat_map(|edge| [&mut edge.from, &mut edge.to])
        {
            *node = merged.get(*node as usize).copied().unwrap_or(*node);
        }
        integers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the edges with their ids, as text.
    fn edges(text: &str) -> Vec<(String, String)> {
        let list = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let id = |node| match list.graph.ids.key(node) {
            spikelet::Key::Integer(id) => id.to_string(),
            spikelet::Key::String(id) => format!("'{id}'"),
            spikelet::Key::Blob(_) => panic!("no ids are blobs"),
        };
        list.graph
            .edges
            .iter()
            .map(|edge| (id(edge.from), id(edge.to)))
            .collect()
    }

    #[test]
    fn an_edge_is_read_however_its_columns_are_separated() {
        let table = [
            "1,2",
            "1, 2",
            " 1 , 2 ",
            "1 2",
            "1\t2",
            "1   2",
            "1;2",
            "1 2 1082040961",
            "1,2,0.5,x y",
            "1\t2\t\t",
            "\"1\",\"2\"",
            "\"1\" \"2\" 3",
            "1,2\n",
            "1,2\r\n",
            "\u{feff}1,2",
            "id_1,id_2\n1,2",
            "nd nw\r\n1 2 1082040961\r\n",
            "source;target\n1;2",
            "# by hand\n\n% more\n1 2",
            "#\nfrom to\n1 2",
            "1,2\n\n\n",
            "x y time\n001 +2",
        ];
        for text in table {
            assert_eq!(edges(text), [("1".into(), "2".into())], "{text:?}");
        }
    }

    #[test]
    fn ids_are_text_as_soon_as_one_of_them_is_no_integer() {
        let table = [
            ("1,2\nx,3", vec![("'1'", "'2'"), ("'x'", "'3'")]),
            ("ada bob", vec![("'ada'", "'bob'")]),
            (
                "ada bob\nbob ada",
                vec![("'ada'", "'bob'"), ("'bob'", "'ada'")],
            ),
            ("source,target\nada,bob", vec![("'ada'", "'bob'")]),
            ("From To\nada 7", vec![("'ada'", "'7'")]),
            ("\"Ada L\",\"Bob, jr\"", vec![("'Ada L'", "'Bob, jr'")]),
            (
                "1,9223372036854775808",
                vec![("'1'", "'9223372036854775808'")],
            ),
            ("a1,5\n6,7", vec![("'a1'", "'5'"), ("'6'", "'7'")]),
            ("ö,ü", vec![("'ö'", "'ü'")]),
        ];
        for (text, expected) in table {
            let expected: Vec<_> = expected
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect();
            assert_eq!(edges(text), expected, "{text:?}");
        }
        let mixed = parse(b"# x\n1,2\n3,4x\nb,5").unwrap();
        assert_eq!(mixed.first_text, Some((3, "4x".into())));
    }

    #[test]
    fn a_malformed_line_is_named_with_its_number() {
        let table = [
            ("1,2\n1;", 2, "1;"),
            ("1", 1, "1"),
            ("1,2\r\n\r\n3\r\n", 3, "3"),
            ("# c\n1,,2", 2, "1,,2"),
            (",1,2", 1, ",1,2"),
            ("1,2\n1,", 2, "1,"),
            ("header\n1,2", 1, "header"),
            ("1,2\n\"3,4", 2, "\"3,4"),
            ("\"1\"x,2", 1, "\"1\"x,2"),
            ("\"\",2", 1, "\"\",2"),
            ("Ada L,Bob", 1, "Ada L,Bob"),
            ("1 2,3", 1, "1 2,3"),
            ("1\t\t2", 1, "1\t\t2"),
        ];
        for (text, line, found) in table {
            let expected = Malformed::NotAnEdge {
                line,
                found: found.into(),
            };
            assert_eq!(parse(text.as_bytes()), Err(expected), "{text:?}");
        }
        assert_eq!(
            Malformed::NotAnEdge {
                line: 17,
                found: "1;".into()
            }
            .to_string(),
            "17: expected two node ids separated by a comma, tab or space, found \"1;\""
        );
    }

    #[test]
    fn a_long_malformed_line_is_shortened() {
        let Err(Malformed::NotAnEdge { found, .. }) = parse("ö".repeat(500).as_bytes()) else {
            panic!("one column")
        };
        assert_eq!(found, format!("{}...", "ö".repeat(SHOWN_CHARS)));
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_their_line() {
        let expected = Malformed::NotUtf8 {
            line: 2,
            column: 4,
            byte: 0xff,
        };
        assert_eq!(parse(b"1,2\n3,4\xff\n"), Err(expected));
    }

    #[test]
    fn an_id_that_is_too_long_is_refused() {
        let text = format!("1,2\n{},3", "x".repeat(ID_BYTES_MAX + 1));
        assert_eq!(
            parse(text.as_bytes()),
            Err(Malformed::LongId {
                line: 2,
                bytes: ID_BYTES_MAX + 1
            })
        );
        assert!(parse(text.replacen('x', "", 1).as_bytes()).is_ok());
    }

    #[test]
    fn a_text_without_edges_is_refused() {
        for text in ["", "\n\n", "# nothing", "id_1,id_2\n"] {
            assert_eq!(parse(text.as_bytes()), Err(Malformed::Empty), "{text:?}");
        }
    }

    #[test]
    fn repeated_edges_count_once_and_directions_and_loops_are_edges_of_their_own() {
        let list = parse(b"1,2\n2,1\n1,2\n3,3\n01,2\n1 2 99\n").unwrap();
        assert_eq!((list.graph.edges.len(), list.repeated), (3, 3));
        assert_eq!(list.graph.ids.len(), 3);
        assert_eq!(list.graph.following, [1, 1, 1]);
        assert_eq!(list.graph.followers, [1, 1, 1]);
    }

    #[test]
    fn degrees_are_those_of_the_distinct_edges() {
        let list = parse(b"1,9\n2,9\n3,9\n9,1\n1,9\n").unwrap();
        assert_eq!(list.graph.max_degree(), 3);
        assert_eq!(list.graph.ids.key(list.graph.most_followed()), 9.into());
    }
}
