//! Index definitions in a backup: lines as Aerospike's tools write them, and a form of spikelet's
//! own for other definitions.
//!
//! ```text
//! * i NAMESPACE SET INDEX N|L|K|V 1 BIN S|N|G|B [CONTEXT]      a bin, or what a path of contexts leads to in it
//! * e NAMESPACE SET INDEX N|L|K|V 1 null S|N|G|B EXPRESSION    an expression: version 3.2, which is read only
//! * u L spikelet-indexes.lua LENGTH MODULE                     other definitions
//! ```
//!
//! The set is empty for an index of all sets, so that one of the records without a set gets no
//! line; contexts and expressions are Base64. A context of 1,000 characters or more gets no line,
//! since asrestore takes 999. The module consists of Lua comments, so other readers take it for a
//! module of functions: each line is `--`, a space, and a definition as JSON. A definition there
//! replaces one of the same name in a line, which holds only part of it.

use std::io::BufRead;

use serde::{Deserialize, Serialize};

use super::error::ReadError;
use super::scanner::{InputPlace, Scanner};
use crate::base64;
#[cfg(feature = "cluster")]
use crate::index::IndexPart;
#[cfg(feature = "cluster")]
use crate::index::VALUE_BYTES_MAX;
use crate::index::{CLIENT_PARTS, CLIENT_TYPES, IndexSource};
use crate::query::IndexDefinition;
use crate::record::check_set_name;

/// The module for definitions beyond the format of a line.
pub(super) const MODULE: &str = "spikelet-indexes.lua";

/// The first line of the module.
const MODULE_HEAD: &str = "-- Index definitions of spikelet, for its restore. No functions.";

/// The longest context path or expression read, in Base64.
const ENCODED_BYTES_MAX: usize = 64 << 10;

/// The longest one written: asrestore fails at a longer name, number or context, and restores
/// nothing after it.
const WRITTEN_BYTES_MAX: usize = 999;

/// A secondary index of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedIndex {
    /// The namespace that it was saved from.
    pub namespace: String,
    /// The indexed set: `None` means the records of all sets, empty those without a set.
    pub set: Option<String>,
    /// The index's name and indexed values.
    #[serde(flatten)]
    pub definition: IndexDefinition,
}

impl SavedIndex {
    /// Describes an index of one set, or of all sets of a namespace.
    #[must_use]
    pub fn new(namespace: &str, set: Option<&str>, definition: IndexDefinition) -> Self {
        Self {
            namespace: namespace.to_owned(),
            set: set.map(str::to_owned),
            definition,
        }
    }

    /// Returns whether a line of Aerospike's tools holds the whole definition. If not, only
    /// spikelet restores it completely.
    #[must_use]
    pub fn is_portable(&self) -> bool {
        self.line().is_some_and(|line| line.is_whole)
    }

    /// Returns the parameters of `sindex-create` that make it, the namespace aside; `None`: no
    /// index of Aerospike can stand for it. A limit of its own on the length of values is not kept:
    /// servers have theirs.
    #[cfg(feature = "cluster")]
    pub(crate) fn parameters(&self) -> Option<String> {
        // Servers leave out values above their own limit, in spite of the definition.
        let within_limit = Self {
            definition: self
                .definition
                .clone()
                .ignoring_longer_than(VALUE_BYTES_MAX),
            ..self.clone()
        };
        let line = within_limit.line().filter(|line| line.is_whole)?;
        let kind = CLIENT_TYPES.by_letter(line.kind);
        let kind = kind.and_then(|kind| CLIENT_TYPES.name(kind))?;
        let part = match CLIENT_PARTS.by_letter(line.part)? {
            IndexPart::Whole => String::new(),
            part => format!(";indextype={}", CLIENT_PARTS.name(part)?),
        };
        let set = self
            .set
            .as_ref()
            .map_or_else(String::new, |set| format!(";set={set}"));
        let context = if line.path.is_empty() {
            String::new()
        } else {
            format!(";context={}", base64::encode(line.path))
        };
        let (name, bin) = (self.definition.name(), line.bin);
        // These end a parameter and a command; nothing escapes them.
        let ends = |name: &str| name.contains([';', '\n']);
        if ends(name) || ends(bin) || self.set.as_deref().is_some_and(ends) {
            return None;
        }
        Some(format!(
            "indexname={name}{set};bin={bin};type={kind}{part}{context}"
        ))
    }

    /// Returns the part of the definition that fits a line; `None` if no index of Aerospike can
    /// stand in for it.
    fn line(&self) -> Option<IndexLine<'_>> {
        let [component] = self.definition.components() else {
            return None;
        };
        let IndexSource::Bin { name, path } = &component.source else {
            return None;
        };
        // A line with an empty set is of all sets.
        let has_no_set = self.set.as_deref() == Some("");
        if has_no_set || base64::encoded_len(path.len()) > WRITTEN_BYTES_MAX {
            return None;
        }
        let kind = component.kind?;
        let of_client = IndexDefinition::of_client(
            self.definition.name(),
            component.source.clone(),
            component.part,
            kind,
        );
        Some(IndexLine {
            part: CLIENT_PARTS.letter(component.part)?,
            bin: name,
            kind: CLIENT_TYPES.letter(kind)?,
            path,
            is_whole: of_client.is_ok_and(|known| known == self.definition),
        })
    }
}

/// The part of an index definition that fits a line.
struct IndexLine<'a> {
    part: u8,
    bin: &'a str,
    kind: u8,
    path: &'a [u8],
    is_whole: bool,
}

/// Appends the text of indexes. `name` appends a name, escaped.
pub(super) fn append_indexes(
    out: &mut Vec<u8>,
    indexes: &[SavedIndex],
    name: impl Fn(&[u8], &mut Vec<u8>),
) {
    let mut module = String::new();
    for index in indexes {
        let line = index.line();
        if let Some(line) = &line {
            out.extend_from_slice(b"* i ");
            name(index.namespace.as_bytes(), out);
            out.push(b' ');
            name(index.set.as_deref().unwrap_or_default().as_bytes(), out);
            out.push(b' ');
            name(index.definition.name().as_bytes(), out);
            out.extend_from_slice(&[b' ', line.part, b' ', b'1', b' ']);
            name(line.bin.as_bytes(), out);
            out.extend_from_slice(&[b' ', line.kind]);
            if !line.path.is_empty() {
                out.push(b' ');
                base64::encode_into(line.path, out);
            }
            out.push(b'\n');
        }
        if line.is_none_or(|line| !line.is_whole)
            // Always succeeds: the definition holds only strings, numbers, and maps keyed by text.
            && let Ok(text) = serde_json::to_string(index)
        {
            module.push_str("-- ");
            module.push_str(&text);
            module.push('\n');
        }
    }
    if !module.is_empty() {
        let length = MODULE_HEAD.len() + 1 + module.len();
        let head = format!("* u L {MODULE} {length} {MODULE_HEAD}\n{module}\n");
        out.extend_from_slice(head.as_bytes());
    }
}

/// Reads an index line after its letter: `i`, or `e` for an index of an expression.
pub(super) fn read_line(
    scanner: &mut Scanner<impl BufRead>,
    is_expression: bool,
) -> Result<SavedIndex, ReadError> {
    const INDEX: &str = "an index";
    let place = scanner.place();
    let name = |scanner: &mut Scanner<_>, within| {
        scanner.literal(b" ", INDEX)?;
        name(scanner, within)
    };
    let namespace = name(scanner, "the namespace of an index")?;
    let set = name(scanner, "the set of an index")?;
    let index = name(scanner, "the name of an index")?;
    let refused = |why: String| place.malformed(format!("index {index:?}: {why}"));
    scanner.literal(b" ", INDEX)?;
    let letter = scanner.byte(INDEX)?;
    let part = CLIENT_PARTS
        .by_letter(letter)
        .ok_or_else(|| refused(format!("'{}' is none of N, L, K, V", letter.escape_ascii())))?;
    scanner.literal(b" ", INDEX)?;
    let paths = scanner.integer(0..=i64::from(u32::MAX), b' ', "number of paths")?;
    if paths != 1 {
        return Err(refused(format!("it has {paths} paths, and 1 is supported")));
    }
    let bin = self::name(scanner, "the bin of an index")?;
    scanner.literal(b" ", INDEX)?;
    let letter = scanner.byte(INDEX)?;
    let kind = CLIENT_TYPES
        .by_letter(letter)
        .ok_or_else(|| refused(format!("'{}' is none of S, N, G, B", letter.escape_ascii())))?;
    let mut encoded = Vec::new();
    if scanner.peek()? == Some(b' ') {
        scanner.literal(b" ", INDEX)?;
        let what = "the context or expression of an index";
        encoded = scanner.long_token(b" \n", what, ENCODED_BYTES_MAX)?;
    }
    if is_expression && scanner.peek()? == Some(b' ') {
        return Err(refused("it has a context and an expression".to_owned()));
    }
    scanner.literal(b"\n", INDEX)?;
    let decoded = base64::decode(&encoded).map(Vec::into_boxed_slice);
    let decoded =
        decoded.ok_or_else(|| refused("its context or expression is not Base64".into()))?;
    let source = if is_expression {
        if decoded.is_empty() {
            return Err(refused("it has no expression".to_owned()));
        }
        IndexSource::Expression(decoded)
    } else {
        if bin.is_empty() {
            return Err(refused("it has no bin".to_owned()));
        }
        IndexSource::Bin {
            name: bin.into(),
            path: decoded,
        }
    };
    let definition = IndexDefinition::of_client(&index, source, part, kind)
        .map_err(|error| refused(error.to_string()))?;
    check_set_name(&set).map_err(refused)?;
    let set = Some(set).filter(|set| !set.is_empty());
    Ok(SavedIndex::new(&namespace, set.as_deref(), definition))
}

fn name(scanner: &mut Scanner<impl BufRead>, within: &str) -> Result<String, ReadError> {
    let place = scanner.place();
    let token = scanner.token(b" \n", within)?;
    String::from_utf8(token).map_err(|_| place.malformed(format!("{within} is not UTF-8")))
}

/// Parses the definitions in a module's text, which begins at `place`. `None` for another module of
/// this name.
pub(super) fn definitions_of(
    text: &[u8],
    place: InputPlace,
) -> Result<Option<Vec<SavedIndex>>, ReadError> {
    let mut lines = text.split(|byte| *byte == b'\n');
    if lines.next() != Some(MODULE_HEAD.as_bytes()) {
        return Ok(None);
    }
    let mut indexes = Vec::new();
    for (line, number) in lines.zip(place.line + 1..) {
        if line.is_empty() {
            continue;
        }
        let place = InputPlace {
            line: number,
            ..place
        };
        let malformed = |why: String| place.malformed(format!("index definition: {why}"));
        let json = line.strip_prefix(b"-- ");
        let json = json.ok_or_else(|| malformed("the line is not a comment".to_owned()))?;
        let index: SavedIndex =
            serde_json::from_slice(json).map_err(|error| malformed(error.to_string()))?;
        index
            .definition
            .check_usable()
            .map_err(|error| malformed(error.to_string()))?;
        check_set_name(index.set.as_deref().unwrap_or_default()).map_err(malformed)?;
        indexes.push(index);
    }
    Ok(Some(indexes))
}
