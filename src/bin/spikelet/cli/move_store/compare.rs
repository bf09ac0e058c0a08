//! Whether both sides are the same: a look at all records of the source.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use spikelet::Digest;
use spikelet::backup::{PieceStart, SavedRecord};
use spikelet::cluster::{Comparison, RecordAddress};
use spikelet::storage::{Clock, SystemClock};

use super::report::ComparedSides;
use super::{BATCH, Move, batches, shown};
use crate::failure::Result;

/// For how long the cluster may keep a record that has expired at the source: times to live are
/// whole seconds.
const EXPIRY_SLACK: Duration = Duration::from_secs(2);

/// Whether a record has expired, or may have in one of the clusters' clocks.
fn expires_now(record: &SavedRecord) -> bool {
    let soon_s = SystemClock.now_ms() / 1000 + EXPIRY_SLACK.as_secs();
    record.void_time != 0 && u64::from(record.void_time) <= soon_s
}

impl Move<'_> {
    /// Compares both sides, writes differing records again, and deletes records that only the
    /// cluster has.
    pub(super) fn compare(&mut self) -> Result<ComparedSides> {
        let records = self.position.records;
        let every = self
            .arguments
            .sample
            .map_or(1, |sample| (records / sample).max(1));
        let mut compared = ComparedSides::default();
        let refused = self.report.refused_count;
        let whole_sets = &self.position.silent_sets | &self.position.refused_sets;
        let swept = self.sweep(|moving, records| {
            let sampled: Vec<SavedRecord> = records
                .iter()
                .filter(|record| {
                    compared.records += 1;
                    (compared.records - 1).is_multiple_of(every) || whole_sets.contains(&record.set)
                })
                .cloned()
                .collect();
            for batch in batches(&sampled) {
                let results = moving.patiently(|cluster| cluster.compare_saved(batch))?;
                for (record, result) in batch.iter().zip(results) {
                    compared.bins_compared += 1;
                    match result {
                        Ok(found) if moving.is_same(found) || expires_now(record) => {}
                        Ok(_) => {
                            compared.written_again += 1;
                            moving.write_again(record)?;
                        }
                        Err(error) => moving.refuse(&record.set, &shown(record), &error)?,
                    }
                }
            }
            Ok(())
        })?;
        compared.deleted = swept.deleted;
        compared.kept = swept.kept;
        compared.written_again += swept.written_again;
        compared.same = compared.written_again + compared.deleted + compared.kept == 0
            && self.report.refused_count == refused;
        Ok(compared)
    }

    /// Whether a record of the cluster is a copy of the source's, by the clocks as they are known.
    const fn is_same(&self, found: Comparison) -> bool {
        match found {
            Comparison::Same => true,
            Comparison::OtherExpiry(later) => {
                later.abs_diff(self.clock_ahead_s) <= EXPIRY_SLACK.as_secs()
            }
            Comparison::Different | Comparison::Missing => false,
        }
    }

    /// Writes a record again. If it has the same bins then and another end, the clocks differ, and
    /// by how much is kept.
    fn write_again(&mut self, record: &SavedRecord) -> Result<()> {
        let written = std::slice::from_ref(record);
        self.write(written)?;
        if record.void_time != 0 {
            let found = self.patiently(|cluster| cluster.compare_saved(written))?;
            if let Some(Ok(Comparison::OtherExpiry(later))) = found.first() {
                self.clock_ahead_s = *later;
            }
        }
        Ok(())
    }

    /// Shows all records of the source to `each`, writes the missing ones to the cluster, and
    /// deletes in the moved sets of the cluster all others, unless records of the source are
    /// damaged. Takes memory for the digests of the sets.
    pub(super) fn sweep(
        &mut self,
        mut each: impl FnMut(&mut Self, &[SavedRecord]) -> Result<()>,
    ) -> Result<ComparedSides> {
        // Read before the source: a record made there meanwhile stays, and one deleted there
        // meanwhile goes.
        let mut theirs = BTreeMap::new();
        self.add_digests(&mut theirs)?;
        let mut swept = ComparedSides::default();
        self.declarations.clear();
        self.report.modules_left_out.clear();
        self.report.damaged = 0;
        let mut passed_over = 0;
        let mut from = Some(PieceStart::default().to_string());
        while let Some(at) = from {
            let mut piece = self.source.piece(&at)?;
            self.create_indexes(&piece)?;
            self.report.damaged += piece.damaged;
            passed_over = piece.passed_over.max(passed_over);
            self.declarations.append(&mut piece.declarations);
            self.report.modules_left_out.append(&mut piece.modules);
            // A set may be newer than the copy.
            self.take_sets(&piece.records)?;
            self.add_digests(&mut theirs)?;
            let mut is_missing = |record: &&SavedRecord| {
                let digests = theirs.get_mut(&record.set);
                !digests.is_some_and(|digests| digests.remove(&record.digest))
            };
            let missing = piece.records.iter().filter(&mut is_missing);
            let missing: Vec<_> = missing.cloned().collect();
            let lasting = missing.iter().filter(|record| !expires_now(record));
            swept.written_again += lasting.count() as u64;
            self.write(&missing)?;
            each(self, &piece.records)?;
            from = piece.next;
        }
        let of_set = |(set, digests): (String, HashSet<Digest>)| {
            let address = move |digest| (set.clone(), digest);
            digests.into_iter().map(address)
        };
        let foreign: Vec<RecordAddress> = theirs.into_iter().flat_map(of_set).collect();
        self.report.damaged += passed_over;
        if self.report.damaged > 0 {
            swept.kept = foreign.len() as u64;
            return Ok(swept);
        }
        if !foreign.is_empty() {
            std::thread::sleep(EXPIRY_SLACK);
        }
        for batch in foreign.chunks(BATCH) {
            for deleted in self.patiently(|cluster| cluster.delete_saved(batch))? {
                swept.deleted += u64::from(deleted?);
            }
        }
        Ok(swept)
    }

    /// Adds the digests of the moved sets that are not in it yet.
    fn add_digests(&self, all: &mut BTreeMap<String, HashSet<Digest>>) -> Result<()> {
        for set in &self.position.sets {
            if !all.contains_key(set) {
                all.insert(set.clone(), self.digests(set)?);
            }
        }
        Ok(())
    }

    pub(super) fn digests(&self, set: &str) -> Result<HashSet<Digest>> {
        self.patiently_one(|cluster| cluster.digests(set))
    }
}
