//! `Includes`: a read that returns the records that its records refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::keys::key_of;
use super::links::Address;
use crate::record::Record;
use crate::{Error, Key, RecordSet, RecordStore, Result, Value};

/// Paths of references, and the sets that they lead to: records are read with the records that they refer to.
///
/// A path is a bin, then keys of maps; `[]` stands for all elements of a list, or all values of a map, and `{}` for all keys of
/// a map: `assignee`, `author.id`, `comments[].user`, `modified_by{}`.
///
/// Documents: RavenDB, *Reference by ID* (includes); Aerospike, *parent-held list of child keys*. Cost: one batch for the records
/// asked for, and one for each set that they refer to. Choose a duplicated field where one or two fields are always shown and
/// seldom change.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::Includes;
/// use spikelet::{Store, bins};
///
/// let store = Store::in_memory()?;
/// store.set("users")?.put("users/1-A", bins! { "name" => "H. Simpson" })?;
/// store.set("items")?.put(1, bins! { "title" => "Malfunction", "assignee" => "users/1-A" })?;
/// let list = Includes::new().path("assignee", "users")?;
/// let read = list.read(&store, "items", [1.into()])?;
/// let assignee = read.get("users", "users/1-A").and_then(|user| user.get("name"));
/// assert_eq!(assignee, Some("H. Simpson".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Includes {
    paths: Vec<IncludePath>,
}

#[derive(Clone, Debug)]
struct IncludePath {
    bin: Box<str>,
    segments: Vec<Segment>,
    set: Box<str>,
}

#[derive(Clone, Debug)]
enum Segment {
    /// The value of this key of a map.
    Key(Box<str>),
    /// All elements of a list, all values of a map.
    Values,
    /// All keys of a map.
    Keys,
}

/// Records, and those that they refer to.
#[derive(Clone, Debug, Default)]
pub struct Included {
    /// The records that were asked for, in the order of their keys; `None` where there is none.
    pub records: Vec<Option<Record>>,
    /// The records that they refer to, each once.
    pub related: BTreeMap<Address, Record>,
    /// References to records that are not there.
    pub dangling: Vec<Address>,
}

impl Included {
    /// Returns a record that was referred to; `None` if no reference led to it, or it is not there.
    pub fn get<'k>(&self, set: &str, key: impl Into<Key<'k>>) -> Option<&Record> {
        self.related.get(&Address::new(set, key))
    }
}

impl Includes {
    /// Returns no paths yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a path, and the set of the records that it leads to.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a path that cannot be read.
    pub fn path(mut self, path: &str, set: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::parameter(format!("path {path:?}: {why}")));
        let mut parts = path.split('.');
        let (bin, mut segments) = split_brackets(parts.next().unwrap_or_default());
        if bin.is_empty() {
            return refuse("it begins with a bin");
        }
        for part in parts {
            let (key, behind) = split_brackets(part);
            if key.is_empty() {
                return refuse("a key between two dots is missing");
            }
            segments.push(Segment::Key(key.into()));
            segments.extend(behind);
        }
        let has_brackets = |name: &str| name.contains(['[', ']', '{', '}']);
        let mut names = segments.iter().filter_map(|segment| match segment {
            Segment::Key(key) => Some(&**key),
            _ => None,
        });
        if has_brackets(bin) || names.any(has_brackets) {
            return refuse("brackets are [] or {}, behind a name");
        }
        self.paths.push(IncludePath {
            bin: bin.into(),
            segments,
            set: set.into(),
        });
        Ok(self)
    }

    /// Reads the records of these keys, and those that they refer to. One batch, and one for each set that is referred to.
    ///
    /// # Errors
    /// The first of those that reading a record may have; [`Error::Parameter`] for a reference that is no key.
    pub fn read<'k, S: RecordStore>(
        &self,
        store: &S,
        set: &str,
        keys: impl IntoIterator<Item = Key<'k>>,
    ) -> Result<Included> {
        let keys: Vec<Key<'k>> = keys.into_iter().collect();
        let found = store.records(set)?.read_each(&keys, None);
        let mut included = Included {
            records: found.into_iter().collect::<Result<_>>()?,
            ..Included::default()
        };
        let mut wanted: BTreeMap<&str, BTreeSet<Key<'static>>> = BTreeMap::new();
        for record in included.records.iter().flatten() {
            for path in &self.paths {
                if let Some(value) = record.get(&path.bin) {
                    let keys = wanted.entry(&path.set).or_default();
                    follow(&value, &path.segments, keys)?;
                }
            }
        }
        for (set, keys) in wanted {
            let keys: Vec<Key<'static>> = keys.into_iter().collect();
            let related = store.records(set)?.read_each(&keys, None);
            for (key, record) in keys.into_iter().zip(related) {
                let address = Address::new(set, key);
                match record? {
                    Some(record) => {
                        included.related.insert(address, record);
                    }
                    None => included.dangling.push(address),
                }
            }
        }
        Ok(included)
    }
}

/// A name, and the brackets behind it.
fn split_brackets(part: &str) -> (&str, Vec<Segment>) {
    let mut name = part;
    let mut segments = Vec::new();
    loop {
        if let Some(before) = name.strip_suffix("[]") {
            segments.insert(0, Segment::Values);
            name = before;
        } else if let Some(before) = name.strip_suffix("{}") {
            segments.insert(0, Segment::Keys);
            name = before;
        } else {
            return (name, segments);
        }
    }
}

/// Collects what segments lead to in a value. What is not there, or nil, is no reference.
fn follow(value: &Value, segments: &[Segment], keys: &mut BTreeSet<Key<'static>>) -> Result<()> {
    let Some((first, rest)) = segments.split_first() else {
        if !matches!(value, Value::Nil) {
            keys.insert(key_of(value.clone())?);
        }
        return Ok(());
    };
    match (first, value) {
        (Segment::Key(key), Value::Map(map)) => map
            .get(&Value::String(key.to_string()))
            .map_or(Ok(()), |value| follow(value, rest, keys)),
        (Segment::Values, Value::List(list)) => {
            list.iter().try_for_each(|value| follow(value, rest, keys))
        }
        (Segment::Values, Value::Map(map)) => map
            .iter()
            .try_for_each(|(_, value)| follow(value, rest, keys)),
        (Segment::Keys, Value::Map(map)) => {
            map.iter().try_for_each(|(key, _)| follow(key, rest, keys))
        }
        _ => Ok(()),
    }
}
