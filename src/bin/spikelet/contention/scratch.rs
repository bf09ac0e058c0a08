//! A set of a cluster that belongs to a run: it is empty before the first row, and after each.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::operations::{delete_all_bins, put};
use spikelet::policy::RecordExistsAction;
use spikelet::{Error, Key, RecordCall, RecordSet, RecordStore, WritePolicy};

use super::error::{HarnessError, Result};
use super::routing::KEY_PREFIX;

/// The key of the record by which a run takes a set.
const CLAIM: &str = "claimed by spikelet contention";
/// How long a call on a record may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So many records are deleted by one batch.
const BATCH: usize = 100;
/// How often the set is looked through again for records that came late.
const SWEEPS: usize = 3;

/// A set of a cluster that holds records of this run alone. It is cleared and given back when the
/// last handle is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ScratchSet {
    claim: Arc<Claim>,
}

#[derive(Debug)]
struct Claim {
    records: ClusterSet,
}

impl ScratchSet {
    /// Takes a set without records.
    ///
    /// # Errors
    /// [`HarnessError::Scratch`] if the set holds a record, or another run has taken it; those of the
    /// cluster.
    pub(crate) fn claim(cluster: &Cluster, set: &str) -> Result<Self> {
        let records = cluster.records(set)?;
        let refused = |reason: String| HarnessError::Scratch {
            set: set.to_owned(),
            reason,
        };
        let truncate = format!(
            "asinfo -v \"truncate:namespace={};set={set}\"",
            cluster.namespace()
        );
        let left = format!(
            "another run is under way in it, or was killed: after a killed one, empty it ({truncate})"
        );
        match first_key(&records)? {
            None => {}
            Some(Some(Key::String(key))) if key == CLAIM => return Err(refused(left)),
            Some(key) => {
                let key = key.map_or_else(String::new, |key| {
                    format!(" ({})", crate::report::key(&key))
                });
                return Err(refused(format!(
                    "it holds records already{key}, which are not touched: name another set by --set"
                )));
            }
        }
        let create = policy().record_exists_action(RecordExistsAction::CreateOnly);
        match records.operate_on(&create, &CLAIM.into(), &[put("claimed", 1)]) {
            Err(Error::RecordExists { .. }) => Err(refused(left)),
            done => {
                done?;
                let claim = Arc::new(Claim { records });
                Ok(Self { claim })
            }
        }
    }

    /// Returns the records.
    pub(super) fn records(&self) -> &ClusterSet {
        &self.claim.records
    }

    /// Deletes the records of these keys.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(super) fn delete(&self, keys: impl IntoIterator<Item = String>) -> Result<()> {
        let keys: Vec<Key<'static>> = keys.into_iter().map(Key::from).collect();
        delete(&self.claim.records, &keys)
    }

    /// Deletes all records of rows that are found in the set.
    ///
    /// # Errors
    /// Those of the cluster.
    pub(super) fn sweep(&self) -> Result<()> {
        self.claim.sweep()
    }
}

impl Claim {
    fn sweep(&self) -> Result<()> {
        for _ in 0..SWEEPS {
            let mut found = Vec::new();
            self.records
                .scan_records(&mut |record| match record.key() {
                    Some(Key::String(key)) if key.starts_with(KEY_PREFIX) => {
                        found.push(Key::from(key.into_owned()));
                    }
                    _ => {}
                })?;
            if found.is_empty() {
                break;
            }
            delete(&self.records, &found)?;
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let given_back = self
            .sweep()
            .and_then(|()| delete(&self.records, &[CLAIM.into()]));
        if let Err(error) = given_back {
            let set = self.records.name();
            eprintln!("note: the set {set:?} could not be cleared: {error}");
        }
    }
}

/// The policy of calls on records of the set.
pub(super) fn policy() -> WritePolicy {
    WritePolicy::default().total_timeout(CALL_TIMEOUT)
}

/// Returns the key of any record of the set, if it is stored; `None` of a set without records.
fn first_key(records: &ClusterSet) -> spikelet::Result<Option<Option<Key<'static>>>> {
    let mut first = Ok(None);
    records.scan_each(&mut |record| {
        first = record.map(|record| Some(record.key().map(Key::into_owned)));
        ControlFlow::Break(())
    });
    first
}

fn delete(records: &ClusterSet, keys: &[Key<'static>]) -> Result<()> {
    let (policy, delete) = (policy(), [delete_all_bins()]);
    for keys in keys.chunks(BATCH) {
        let calls: Vec<RecordCall<'_>> = keys
            .iter()
            .map(|key| RecordCall {
                policy: &policy,
                key: key.clone(),
                operations: &delete,
            })
            .collect();
        for deleted in records.operate_on_each(&calls) {
            match deleted {
                Err(Error::NotFound { .. }) => {}
                done => drop(done?),
            }
        }
    }
    Ok(())
}
