//! `ReferencePath`: where a record has the keys of other records.

use std::collections::BTreeSet;

use super::keys::key_of;
use crate::record::{Record, SUBKEYS, SUBKEYS_BIN, describes_collection};
use crate::{Error, Key, Result, Value};

/// A bin, then keys of maps; `[]` means all elements of a list, or all values of a map, and `{}`
/// all keys of a map.
#[derive(Clone, Debug)]
pub(super) struct ReferencePath {
    pub(super) bin: Box<str>,
    segments: Vec<PathSegment>,
}

#[derive(Clone, Debug)]
enum PathSegment {
    /// The value of this key of a map.
    Key(Box<str>),
    /// All elements of a list, all values of a map.
    Values,
    /// All keys of a map.
    Keys,
}

impl ReferencePath {
    /// # Errors
    /// [`Error::Parameter`] for a path that cannot be read.
    pub(super) fn parse(path: &str) -> Result<Self> {
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
            segments.push(PathSegment::Key(key.into()));
            segments.extend(behind);
        }
        let has_brackets = |name: &str| name.contains(['[', ']', '{', '}']);
        let mut names = segments.iter().filter_map(|segment| match segment {
            PathSegment::Key(key) => Some(&**key),
            _ => None,
        });
        if has_brackets(bin) || names.any(has_brackets) {
            return refuse("brackets are [] or {}, behind a name");
        }
        Ok(Self {
            bin: bin.into(),
            segments,
        })
    }

    /// Returns whether it leads to one key at most.
    pub(super) fn is_single(&self) -> bool {
        let is_key = |segment: &PathSegment| matches!(segment, PathSegment::Key(_));
        self.segments.iter().all(is_key)
    }

    /// Adds the keys that it leads to in a record.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value that is not a key.
    pub(super) fn collect(&self, record: &Record, keys: &mut BTreeSet<Key<'static>>) -> Result<()> {
        match bin_in_record(record, &self.bin)? {
            Some(value) => follow(&value, &self.segments, keys),
            None => Ok(()),
        }
    }
}

/// The bins that say which collections of a record are sharded.
pub(super) const COLLECTION_FORMS: [&str; 2] = [SUBKEYS, SUBKEYS_BIN];

/// Returns the value that a record has in a bin. The record was read with [`COLLECTION_FORMS`].
///
/// # Errors
/// [`Error::Parameter`] for a sharded collection, which is in other records.
pub(super) fn bin_in_record(record: &Record, bin: &str) -> Result<Option<Value>> {
    let value = record.get(bin);
    if value.is_none() && describes_collection(record.view(), bin) {
        return Err(Error::parameter(format!(
            "the collection in bin {bin:?} is sharded, so it cannot be read with its record: read it in pages by its handle, or bring it back into the record by Shards::deactivate"
        )));
    }
    Ok(value)
}

/// A name, and the brackets behind it.
fn split_brackets(part: &str) -> (&str, Vec<PathSegment>) {
    let mut name = part;
    let mut segments = Vec::new();
    loop {
        if let Some(before) = name.strip_suffix("[]") {
            segments.insert(0, PathSegment::Values);
            name = before;
        } else if let Some(before) = name.strip_suffix("{}") {
            segments.insert(0, PathSegment::Keys);
            name = before;
        } else {
            return (name, segments);
        }
    }
}

/// Collects the values that segments lead to. A missing value, or nil, is no reference.
fn follow(
    value: &Value,
    segments: &[PathSegment],
    keys: &mut BTreeSet<Key<'static>>,
) -> Result<()> {
    let Some((first, rest)) = segments.split_first() else {
        if !matches!(value, Value::Nil) {
            keys.insert(key_of(value.clone())?);
        }
        return Ok(());
    };
    match (first, value) {
        (PathSegment::Key(key), Value::Map(map)) => map
            .get(&Value::String(key.to_string()))
            .map_or(Ok(()), |value| follow(value, rest, keys)),
        (PathSegment::Values, Value::List(list)) => {
            list.iter().try_for_each(|value| follow(value, rest, keys))
        }
        (PathSegment::Values, Value::Map(map)) => map
            .iter()
            .try_for_each(|(_, value)| follow(value, rest, keys)),
        (PathSegment::Keys, Value::Map(map)) => {
            map.iter().try_for_each(|(key, _)| follow(key, rest, keys))
        }
        _ => Ok(()),
    }
}
