//! Questions to a loaded graph: does A follow B, a page of followers, a batch of records, the largest records.

use spikelet::operations::lists;
use spikelet::{Error, Key, ListReturnType, RecordView, Result, Set, Value};

use super::load::{FOLLOWERS, FOLLOWING};

/// A record, by its size and the length of its lists.
#[derive(Debug, PartialEq)]
pub(crate) struct Sized {
    pub(crate) key: Key<'static>,
    pub(crate) following: usize,
    pub(crate) followers: usize,
    /// What it takes on the device, or its bins alone: see who fills it.
    pub(crate) bytes: u64,
}

impl Sized {
    fn new(key: Key<'static>, view: RecordView<'_>, bytes: u64) -> Self {
        let length = |bin| {
            view.bin(bin)
                .and_then(|value| value.as_list())
                .map_or(0, |list| list.len())
        };
        Self {
            key,
            following: length(FOLLOWING),
            followers: length(FOLLOWERS),
            bytes,
        }
    }
}

/// Whether an element is in an ordered list: O(log N) comparisons. False if there is no such list.
///
/// # Errors
/// What the store refuses.
pub(crate) fn contains(users: &Set, key: Key<'_>, bin: &str, element: Value) -> Result<bool> {
    let question = lists::get_by_value(bin, element, ListReturnType::Exists);
    match users.operate(key, &[question]) {
        Ok(answer) => Ok(answer.value(0) == Some(&Value::Bool(true))),
        Err(Error::NotFound) => Ok(false),
        Err(other) => Err(other),
    }
}

/// At most `count` followers from a position of the list on.
///
/// # Errors
/// What the store refuses.
pub(crate) fn page_of_followers(
    users: &Set,
    key: Key<'_>,
    at: i64,
    count: u64,
) -> Result<Vec<Key<'static>>> {
    let question = lists::get_by_index_range_count(FOLLOWERS, at, count, ListReturnType::Values);
    let answer = users.operate(key, &[question])?;
    let Some(Value::List(page)) = answer.value(0) else {
        return Ok(Vec::new());
    };
    Ok(page.iter().filter_map(key_of).collect())
}

fn key_of(element: &Value) -> Option<Key<'static>> {
    match element {
        Value::Int(id) => Some((*id).into()),
        Value::String(id) => Some(id.clone().into()),
        _ => None,
    }
}

/// Reads records in one batch; those that are not there are left out. Their bytes are those of their bins.
///
/// # Errors
/// What the store refuses.
pub(crate) fn batch(users: &Set, keys: &[Key<'static>]) -> Result<Vec<Sized>> {
    let records = users.get_batch(keys);
    let mut batch = Vec::with_capacity(keys.len());
    for (key, record) in keys.iter().zip(records) {
        if let Some(record) = record? {
            let view = record.view();
            batch.push(Sized::new(key.clone(), view, view.as_bytes().len() as u64));
        }
    }
    Ok(batch)
}

/// The largest records, the largest first. Their bytes are what they take on the device. Visits every record.
pub(crate) fn largest(users: &Set, most: usize) -> Vec<Sized> {
    let mut largest: Vec<Sized> = Vec::with_capacity(most + 1);
    users.scan(|record| {
        let full = largest.len() == most;
        if full
            && largest
                .last()
                .is_some_and(|last| record.stored_bytes <= last.bytes)
        {
            return;
        }
        let Some(key) = record.key() else { return };
        let place = largest.partition_point(|larger| larger.bytes >= record.stored_bytes);
        largest.insert(
            place,
            Sized::new(key.into_owned(), record.view, record.stored_bytes),
        );
        largest.truncate(most);
    });
    largest
}
