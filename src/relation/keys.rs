//! Keys as elements of collections, and the records that they lead to.

use std::ops::ControlFlow;

use serde::de::DeserializeOwned;

use crate::operations::delete_all_bins;
use crate::policy::GenerationPolicy;
use crate::query::IndexDefinition;
pub(super) use crate::record::REMOVED;
use crate::record::{Record, SHARD_OF, converted};
use crate::shard::key_in;
pub(super) use crate::shard::key_value as element_of;
use crate::{
    Error, IndexQuery, IndexRange, IndexedRecordSet, Key, RecordSet, RecordStore, Result, Value,
    ValueRef, WritePolicy,
};

/// How many keys are read in one batch where a whole relation is gone through.
pub(super) const BATCH: u64 = 512;

/// Returns the key that an element of a collection is.
///
/// # Errors
/// [`Error::Parameter`] for an element that another program has put there and that is not a key.
pub(super) fn key_of(element: Value) -> Result<Key<'static>> {
    key_in(element).map_err(|other| {
        Error::parameter(format!(
            "{other} stands where a key should: keys are integers, text and bytes; remove it by the bin's own operations"
        ))
    })
}

/// Returns the key that an element of a stored collection is, borrowed from it.
///
/// # Errors
/// As for [`key_of`].
#[inline]
pub(super) fn key_of_ref(element: ValueRef<'_>) -> Result<Key<'_>> {
    match element {
        ValueRef::Int(id) => Ok(Key::Integer(id)),
        ValueRef::String(text) => Ok(text.into()),
        ValueRef::Blob(bytes) => Ok(bytes.into()),
        other => key_of_other(other),
    }
}

/// The answer for an element that is likely no key: apart, so that the look at the others is small
/// enough to be inlined.
#[cold]
#[inline(never)]
fn key_of_other(element: ValueRef<'_>) -> Result<Key<'static>> {
    let element = element.to_value();
    key_of(element.map_err(|source| Error::malformed("element", source))?)
}

/// A record that a relation has led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// The key of the record.
    pub key: Key<'static>,
    /// The attributes of the edge that leads to it; [`Value::Nil`] where the relation has none.
    pub attributes: Value,
    /// The record; `None` if there is no record of this key: the reference dangles.
    pub record: Option<Record>,
}

impl Related {
    /// Decodes the record as a struct with the bins as fields; `None` if there is no record.
    ///
    /// # Errors
    /// [`Error::Serde`] if the bins do not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.record.as_ref().map(Record::decode).transpose()
    }

    /// Decodes the attributes of the edge.
    ///
    /// # Errors
    /// [`Error::Serde`] if they do not fit the type.
    pub fn attributes<T: DeserializeOwned>(&self) -> Result<T> {
        converted(&self.attributes)
    }
}

/// Reads a record with the wanted bins that it has (`None`: all).
pub(super) fn read_one<R: RecordSet>(
    records: &R,
    key: &Key<'_>,
    bins: Option<&[&str]>,
) -> Result<Option<Record>> {
    let found = records.read_each(std::slice::from_ref(key), bins);
    found.into_iter().next().unwrap_or(Ok(None))
}

/// Returns whether a record is about to be deleted, or was, and a restart has brought it back.
pub(super) fn is_removed(record: &Record) -> bool {
    record.view().bin(REMOVED).is_some()
}

/// Returns whether a record has been removed and no caller has written to it since.
pub(super) fn has_removed_alone(record: &Record) -> bool {
    let view = record.view();
    is_removed(record) && view.iter().all(|(bin, _)| bin == REMOVED)
}

/// Deletes the records of a set that belong to nothing: a relation has removed them, and the last
/// step of that failed, or a restart of a server without durable deletes has brought them back, as
/// records with one bin, `~removed`. Returns how many there were. One scan, and one write each.
/// `verify` with [`Repair::Yes`](super::Repair::Yes) does so by itself for `Members`, `OneToMany`
/// and `Graph` on a cluster.
///
/// # Errors
/// The errors of a scan and of a delete; [`Error::Parameter`], after the others are deleted, for
/// such a record without a stored key.
pub fn sweep_removed<S: RecordStore>(store: &S, set: &str) -> Result<u64> {
    let mut swept = 0;
    sweep_each(store, set, || {
        swept += 1;
        ControlFlow::Continue(())
    })?;
    Ok(swept)
}

/// Does as [`sweep_removed`] does, and calls `observe` after each record, which may stop it.
pub(super) fn sweep_each<S: RecordStore>(
    store: &S,
    set: &str,
    mut observe: impl FnMut() -> ControlFlow<()>,
) -> Result<()> {
    let (records, mut removed, mut keyless) = (store.records(set)?, Vec::new(), false);
    records.scan_records(&mut |record| {
        if has_removed_alone(record) {
            match record.key() {
                Some(key) => removed.push((key.into_owned(), record.metadata().generation)),
                None => keyless = true,
            }
        }
    })?;
    for (key, generation) in removed {
        // Others may write over it meanwhile.
        let as_seen = GenerationPolicy::ExpectEqual(generation.into());
        let policy = WritePolicy::default().generation(as_seen);
        match records.operate_on(&policy, &key, &[delete_all_bins()]) {
            Ok(_) => {
                if observe().is_break() {
                    return Ok(());
                }
            }
            Err(Error::NotFound { .. } | Error::Generation { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if keyless {
        return Err(without_key(set, "it cannot be deleted by its key"));
    }
    Ok(())
}

fn without_key(set: &str, so: &str) -> Error {
    Error::parameter(format!(
        "a record of set {set:?} has no stored key, so {so}: write it with WritePolicy::send_key"
    ))
}

/// Returns the keys of the wanted records of a set, without companions of sharded collections and
/// removed records. Memory for these keys, one scan.
///
/// # Errors
/// [`Error::Parameter`] for a wanted record without a stored key; the first record that is damaged,
/// after the scan.
pub(super) fn keys_in<S: RecordStore>(
    store: &S,
    set: &str,
    is_wanted: impl Fn(&Record) -> bool,
) -> Result<Vec<Key<'static>>> {
    let (mut keys, mut keyless) = (Vec::new(), false);
    store.records(set)?.scan_records(&mut |record| {
        if record.view().bin(SHARD_OF).is_none() && !is_removed(record) && is_wanted(record) {
            match record.key() {
                Some(key) => keys.push(key.into_owned()),
                None => keyless = true,
            }
        }
    })?;
    if keyless {
        return Err(without_key(set, "its relation cannot be followed"));
    }
    Ok(keys)
}

/// Refuses another index that has the name of a relation's: it would miss records. A cluster is
/// asked for the bin's values, by whichever index.
///
/// # Errors
/// [`Error::IndexNotFound`].
pub(super) fn check_index<S: RecordStore>(
    store: &S,
    set: &str,
    index: &IndexDefinition,
) -> Result<()> {
    let guard = store.relation_guard()?;
    guard.map_or(Ok(()), |guard| guard.namespace().check_index(set, index))
}

/// Returns the keys of the records that an index has for a value, page by page, each of at most
/// `limit`. Ends after an error.
pub(super) fn pages_of_index<'q, R: IndexedRecordSet>(
    records: &'q R,
    index: &'q str,
    equal: &'q Value,
    limit: usize,
) -> impl Iterator<Item = Result<Vec<Key<'static>>>> + 'q {
    let mut next = Some(None);
    std::iter::from_fn(move || {
        let after: Option<String> = next.take()?;
        let page = records.query_keys(&IndexQuery {
            index,
            equal: std::slice::from_ref(equal),
            range: IndexRange::Any,
            limit,
            after: after.as_deref(),
        });
        Some(page.map(|page| {
            next = page.cursor.map(Some);
            page.keys
        }))
    })
}

/// Reads the records that edges lead to, in one batch.
pub(super) fn read_related<R: RecordSet>(
    records: &R,
    edges: Vec<(Key<'static>, Value)>,
    bins: Option<&[&str]>,
) -> Result<Vec<Related>> {
    let keys: Vec<Key<'_>> = edges.iter().map(|(key, _)| Key::from(key)).collect();
    let found = records.read_each(&keys, bins);
    drop(keys);
    edges
        .into_iter()
        .zip(found)
        .map(|((key, attributes), record)| {
            Ok(Related {
                key,
                attributes,
                record: record?,
            })
        })
        .collect()
}
