//! A set of a cluster that belongs to a run: it is empty before the first row, and after each.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::operations::{delete_all_bins, get_bin, put};
use spikelet::policy::{GenerationPolicy, RecordExistsAction};
use spikelet::{Error, Key, RecordCall, RecordSet, RecordStore, WritePolicy};

use super::routing::KEY_PREFIX;
use crate::failure::{CommandFailure, Result};

/// The key of the record by which a run takes a set.
const CLAIM: &str = "claimed by spikelet contention";
/// How long a call on a record may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// So many records are deleted by one batch.
const BATCH: usize = 100;
/// How often a run writes its claim, and how long another one watches it.
const BEAT: Duration = Duration::from_secs(1);
const WATCH: Duration = Duration::from_secs(5);
/// How often the set is looked through again for records that came late.
const SWEEPS: usize = 3;

/// A set of a cluster that holds records of this run alone. It is cleared and given back when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct ScratchSet {
    pub(super) records: ClusterSet,
    /// Writes the claim again and again, until the sender is dropped.
    beats: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ScratchSet {
    /// Takes a set without records. Records of a dead run, and records that a restart of the server
    /// has brought back, are deleted. Watches the claim of another run for 5 s, to see whether it
    /// is alive.
    ///
    /// # Errors
    /// [`CommandFailure::Input`] if the set holds another record, or another run has taken it;
    /// errors of the cluster.
    pub(crate) fn claim(cluster: &Cluster, set: &str) -> Result<Arc<Self>> {
        let records = cluster.records(set)?;
        let refused = |reason: String| CommandFailure::at(format!("set {set:?}"), reason);
        let under_way = || refused("another run is under way in it".to_owned());
        let known = generation_of_claim(&records)?;
        if let Some(key) = foreign_key(&records, known.is_some())? {
            return Err(refused(format!(
                "it holds records already{key}, which are not touched: name another set by --set"
            )));
        }
        let taken = match known {
            None => policy().record_exists_action(RecordExistsAction::CreateOnly),
            Some(generation) => {
                eprintln!(
                    "note: the set {set:?} is claimed: watching for {} s whether that run is alive",
                    WATCH.as_secs()
                );
                std::thread::sleep(WATCH);
                policy().generation(GenerationPolicy::ExpectEqual(generation))
            }
        };
        match records.operate_on(&taken, &CLAIM.into(), &[put("claimed", 1)]) {
            Err(Error::RecordExists { .. } | Error::Generation { .. }) => return Err(under_way()),
            done => drop(done?),
        }
        let (alive, ends) = mpsc::channel();
        let beating = records.clone();
        let beats = std::thread::spawn(move || {
            while ends.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // A server that is away for a moment hears the next one.
                let _ = beating.operate_on(&policy(), &CLAIM.into(), &[put("claimed", 1)]);
            }
        });
        let claimed = Self {
            records,
            beats: Some((alive, beats)),
        };
        claimed.sweep()?;
        Ok(Arc::new(claimed))
    }

    /// Deletes all records of rows that are found in the set.
    ///
    /// # Errors
    /// If the cluster refuses.
    pub(super) fn sweep(&self) -> Result<()> {
        for _ in 0..SWEEPS {
            let mut found = Vec::new();
            self.records
                .scan_records(&mut |record| match record.key() {
                    Some(Key::String(key)) if key.starts_with(KEY_PREFIX) => {
                        found.push(key.into_owned());
                    }
                    _ => {}
                })?;
            if found.is_empty() {
                break;
            }
            self.delete(found)?;
        }
        Ok(())
    }

    /// Deletes the records of these keys.
    ///
    /// # Errors
    /// If the cluster refuses.
    pub(super) fn delete(&self, keys: impl IntoIterator<Item = String>) -> Result<()> {
        let (policy, delete) = (policy(), [delete_all_bins()]);
        let keys: Vec<String> = keys.into_iter().collect();
        for keys in keys.chunks(BATCH) {
            let call = |key: &String| RecordCall {
                policy: &policy,
                key: Key::from(key.clone()),
                operations: &delete,
            };
            let calls: Vec<RecordCall<'_>> = keys.iter().map(call).collect();
            for deleted in self.records.operate_on_each(&calls) {
                match deleted {
                    Err(Error::NotFound { .. }) => {}
                    done => drop(done?),
                }
            }
        }
        Ok(())
    }
}

impl Drop for ScratchSet {
    fn drop(&mut self) {
        if let Some((alive, beats)) = self.beats.take() {
            drop(alive);
            // A panic of it has been reported.
            let _ = beats.join();
        }
        let given_back = self.sweep().and_then(|()| self.delete([CLAIM.to_owned()]));
        if let Err(error) = given_back {
            let set = self.records.name();
            eprintln!(
                "note: the set {set:?} could not be cleared: {error}; the next run clears it"
            );
        }
    }
}

/// The policy of calls on records of the set.
pub(super) fn policy() -> WritePolicy {
    WritePolicy::default().total_timeout(CALL_TIMEOUT)
}

/// Returns the key of a record that no run has written, in words; `None` if the set has none. Where
/// there is no claim, no record is a run's.
fn foreign_key(records: &ClusterSet, is_claimed: bool) -> spikelet::Result<Option<String>> {
    let mut foreign = Ok(None);
    records.scan_each(&mut |record| {
        let key = match record {
            Ok(record) => record.key().map(Key::into_owned),
            Err(error) => {
                foreign = Err(error);
                return ControlFlow::Break(());
            }
        };
        match &key {
            Some(Key::String(key)) if key == CLAIM || is_claimed && key.starts_with(KEY_PREFIX) => {
                return ControlFlow::Continue(());
            }
            Some(key) => foreign = Ok(Some(format!(" ({})", crate::report::key(key)))),
            None => foreign = Ok(Some(String::new())),
        }
        ControlFlow::Break(())
    });
    foreign
}

/// Returns the generation of the claim, which rises while its run is alive; `None`: there is no
/// claim.
fn generation_of_claim(records: &ClusterSet) -> spikelet::Result<Option<u32>> {
    match records.operate_on(&policy(), &CLAIM.into(), &[get_bin("claimed")]) {
        Ok(claim) => Ok(Some(u32::from(claim.generation))),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
