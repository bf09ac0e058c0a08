//! Writes records of a backup to a cluster, and compares both: the steps of `spikelet move`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use aerospike::{self as theirs, PartitionFilter};
use spikelet_storage::{Clock, SystemClock};

use super::arguments::integer_above_max;
use super::batch::{self, BatchRow, Prepared};
use super::{Cluster, ClusterSet, link, value};
use crate::backup::{SavedIndex, SavedRecord};
use crate::error::if_there;
use crate::policy::RecordExistsAction;
use crate::value::ParticleType;
use crate::{
    Digest, Expiration, Key, OperateResult, Operation, Result, Value, WritePolicy, operations,
};

/// The address of a record: its set, and its digest by RIPEMD-160.
pub type RecordAddress = (String, Digest);

/// How a record of a cluster compares with a saved one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It has the same bins, and expires or not as the saved one does. Clients are not told the
    /// order of lists and maps.
    Same,
    /// It has the same bins, and its end is this many seconds later, or earlier: more than 2.
    OtherExpiry(i64),
    /// It has other bins, or only one of both expires.
    Different,
    /// The cluster has no such record.
    Missing,
}

/// How much later or earlier a record may expire than the saved one: times to live are whole
/// seconds, and calls take time.
const VOID_TIME_SLACK: u32 = 2;

/// The time limit of a batch: it may take megabytes.
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

fn patient() -> WritePolicy {
    WritePolicy::default().total_timeout(BATCH_TIMEOUT)
}

impl Cluster {
    /// Writes saved records in one batch, in place of records with their keys, or with their
    /// digests if no key was saved. Roots and companions of sharded collections, and declarations
    /// of relations, are records like others. Times to live go on; a generation begins anew at 1,
    /// or one above that of the record in the cluster. A record that has expired is deleted.
    ///
    /// # Errors
    /// Each record has its own error, as for a write; [`Error::Parameter`](crate::Error::Parameter)
    /// for a value that the client cannot carry.
    pub fn put_saved(&self, records: &[SavedRecord]) -> Vec<Result<()>> {
        let now_s = SystemClock.now_ms() / 1000;
        let rows = records.iter().map(|record| self.put_row(record, now_s));
        let results = self.send_rows(rows);
        let written = |result| if_there(result).map(drop);
        results.into_iter().map(written).collect()
    }

    /// Deletes records by their addresses, in one batch, and returns of each whether there was one.
    ///
    /// # Errors
    /// Each record has its own.
    pub fn delete_saved(&self, records: &[RecordAddress]) -> Vec<Result<bool>> {
        let policy = patient().record_exists_action(RecordExistsAction::UpdateOnly);
        let deletes = records.iter().map(|(set, digest)| {
            let delete = vec![operations::delete_all_bins()];
            self.row((set, *digest, None), policy.clone(), delete)
        });
        let results = self.send_rows(deletes);
        let deleted = |result| Ok(if_there(result)?.is_some());
        results.into_iter().map(deleted).collect()
    }

    /// Compares saved records with the records of the cluster, in one batch.
    ///
    /// # Errors
    /// Each record has its own error, as for a read; [`Error::Parameter`](crate::Error::Parameter)
    /// for a value of an unknown type.
    pub fn compare_saved(&self, records: &[SavedRecord]) -> Vec<Result<Comparison>> {
        let reads = records.iter().map(|record| {
            let address = (&*record.set, record.digest, None);
            self.row(address, patient(), vec![operations::get()])
        });
        let found = self.send_rows(reads);
        let compare = |(record, found): (&SavedRecord, Result<OperateResult>)| {
            if_there(found)?.map_or(Ok(Comparison::Missing), |found| compare(record, &found))
        };
        records.iter().zip(found).map(compare).collect()
    }

    /// Returns the digests of all records of a set: one scan without bins, and memory for the
    /// digests.
    ///
    /// # Errors
    /// The first error of the scan.
    pub fn digests(&self, set: &str) -> Result<HashSet<Digest>> {
        let records = self.set_of(set);
        let mut digests = HashSet::new();
        records.scanned(None).keys(PartitionFilter::all(), |key| {
            digests.insert(Digest::new(key.digest()));
            ControlFlow::Continue(())
        })?;
        Ok(digests)
    }

    /// Declares a saved index in the cluster. Returns false if no index of a cluster can stand for
    /// it: several components, an expression, values of any type. An index of this name that is
    /// there stays.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if no node answers, or the index is refused.
    pub fn create_saved_index(&self, index: &SavedIndex) -> Result<bool> {
        let Some(parameters) = index.parameters() else {
            return Ok(false);
        };
        let namespace = self.namespace();
        let answer = self.info(&format!("sindex-create:namespace={namespace};{parameters}"))?;
        // Older servers say `FAIL:200:..`, newer ones `ERROR:200:..`, where there is an index of
        // this name, or the same one.
        if answer.eq_ignore_ascii_case("ok") || answer.contains(":200:") {
            return Ok(true);
        }
        Err(link::failed(format!(
            "index {:?} was refused: {answer}",
            index.definition.name()
        )))
    }

    /// Makes calls as one batch.
    fn send_rows<'c>(
        &self,
        rows: impl Iterator<Item = Result<BatchRow<'c>>>,
    ) -> Vec<Result<OperateResult>> {
        link::wait(batch::send(&self.link, rows.collect()))
    }

    /// Returns a call on a record by its set and digest, with its key if that is to be stored.
    fn row(
        &self,
        (set, digest, key): (&str, Digest, Option<Key<'_>>),
        policy: WritePolicy,
        operations: Vec<Operation>,
    ) -> Result<BatchRow<'static>> {
        let user_key = key.as_ref().map(ClusterSet::user_key);
        let namespace = self.namespace();
        let key = theirs::Key::with_digest(namespace, set, user_key, *digest.as_bytes());
        Ok(BatchRow {
            sent: Prepared::new(key, &operations)?,
            policy: Cow::Owned(policy),
            operations: Cow::Owned(operations),
        })
    }

    /// Returns the call that writes a saved record, or deletes one that has expired.
    fn put_row(&self, record: &SavedRecord, now_s: u64) -> Result<BatchRow<'static>> {
        let left = match record.void_time {
            0 => None,
            time => Some(u64::from(time).saturating_sub(now_s)),
        };
        let policy = patient().send_key(record.key().is_some());
        let (policy, operations) = if left == Some(0) {
            let policy = policy.record_exists_action(RecordExistsAction::UpdateOnly);
            (policy, vec![operations::delete_all_bins()])
        } else {
            let expiration = left.map_or(Expiration::Never, |seconds| {
                Expiration::After(Duration::from_secs(seconds))
            });
            let policy = policy.record_exists_action(RecordExistsAction::Replace);
            if holds_integer_above_max(record)? {
                return Err(value::above_max());
            }
            let bins = record.view().to_bins()?;
            let puts = bins
                .iter()
                .map(|(name, value)| operations::put(name.as_str(), value.clone()));
            (policy.expiration(expiration), puts.collect())
        };
        let address = (&*record.set, record.digest, record.key());
        self.row(address, policy, operations)
    }
}

/// Whether a list or map of a record has an integer above `i64::MAX`, which would be read, and so
/// sent, as a negative one.
fn holds_integer_above_max(record: &SavedRecord) -> Result<bool> {
    for (_, kind, stored) in record.view().particles() {
        if matches!(kind, ParticleType::List | ParticleType::Map)
            && integer_above_max(stored)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compare(record: &SavedRecord, found: &OperateResult) -> Result<Comparison> {
    // The client would report a negative integer as equal.
    if holds_integer_above_max(record)? {
        return Ok(Comparison::Different);
    }
    let bins = record.view().to_bins()?;
    let has = |name: &str| {
        let mut results = found.results.iter();
        let result = results.find(|result| result.bin == name)?;
        Some(&result.value)
    };
    let same = bins.len() == found.results.len()
        && bins
            .iter()
            .all(|(name, value)| has(name.as_str()).is_some_and(|has| is_same(value, has)));
    let expires = [record.void_time, found.void_time].map(|time| time != 0);
    let later = i64::from(found.void_time) - i64::from(record.void_time);
    Ok(if !same || expires[0] != expires[1] {
        Comparison::Different
    } else if later.unsigned_abs() <= u64::from(VOID_TIME_SLACK) {
        Comparison::Same
    } else {
        Comparison::OtherExpiry(later)
    })
}

/// Whether two values are the same but for the order that their lists and maps keep.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other.iter()).all(|(a, b)| is_same(a, b))
        }
        (Value::Map(one), Value::Map(other)) => {
            // Servers keep and send entries in the order of their keys.
            let same = |(one, other): (&(Value, Value), &(Value, Value))| {
                one.0 == other.0 && is_same(&one.1, &other.1)
            };
            one.len() == other.len() && one.iter().zip(other.iter()).all(same)
        }
        // NaN equals itself here.
        (Value::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}
