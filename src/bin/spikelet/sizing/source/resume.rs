//! The file by which the sizing of a cluster goes on in another process.
//!
//! It holds the statistics, not the records: it grows with sets, bins and different sizes, as the
//! memory of the process does, and one file serves a sample and all partitions alike. Ranges of
//! partitions, given by hand, would leave it to their user to add up percentiles.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{ClusterReading, unreadable};
use crate::failure::{CommandFailure, Result};
use crate::files;
use crate::sizing::SizingOptions;
use crate::sizing::set_stats::{SetStats, StatsBySet};

/// The version of the form.
const VERSION: u32 = 3;
/// The time after which the file is written again.
const INTERVAL: Duration = Duration::from_secs(2);

/// The settings that two processes must have in common.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ResumeHeading {
    version: u32,
    namespace: String,
    set: Option<String>,
    /// Records of each set to read at least; `None`: all.
    sample: Option<u64>,
    seed: u64,
    top: usize,
}

/// How far a set has been read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SetProgress {
    /// How many partitions, in the order of the seed.
    pub(super) partitions: u16,
    /// How many are read at once; 0: none have been read yet.
    pub(super) at_once: u16,
    /// The bins that are known.
    pub(super) bins: Vec<String>,
}

/// How far each set has been read, and the file that says so, if there is one.
#[derive(Debug)]
pub(super) struct Progresses {
    file: Option<PathBuf>,
    heading: ResumeHeading,
    sets: BTreeMap<String, SetProgress>,
    saved: Instant,
}

impl Progresses {
    /// Goes on from the file that is asked for, if it is there.
    ///
    /// # Errors
    /// It cannot be read, or is of another sizing.
    pub(super) fn open(
        namespace: &str,
        options: &SizingOptions,
        reading: &ClusterReading<'_>,
        stats: &mut StatsBySet<'_>,
    ) -> Result<Self> {
        let heading = ResumeHeading {
            version: VERSION,
            namespace: namespace.to_owned(),
            set: options.set.clone(),
            sample: reading.records,
            seed: reading.seed,
            top: options.top,
        };
        let mut progresses = Self {
            file: reading.resume.map(Path::to_owned),
            heading,
            sets: BTreeMap::new(),
            saved: Instant::now(),
        };
        let Some(path) = reading.resume else {
            return Ok(progresses);
        };
        let Some(bytes) = files::read_if_any(path).map_err(unreadable(path))? else {
            return Ok(progresses);
        };
        let refused = |what| CommandFailure::at(format!("--resume {}", path.display()), what);
        let (found, sets): (ResumeHeading, Vec<(String, SetProgress, SetStats)>) =
            rmp_serde::from_slice(&bytes)
                .map_err(|error| refused(format!("no file of an earlier sizing: {error}")))?;
        if found != progresses.heading {
            return Err(refused(format!(
                "it is of another sizing: {found:?}, and this one is {:?}; name another file",
                progresses.heading
            )));
        }
        for (name, progress, found) in sets {
            if let Some(stats) = stats.set(namespace, &name) {
                *stats = found;
            }
            progresses.sets.insert(name, progress);
        }
        Ok(progresses)
    }

    /// Returns how far a set has been read.
    pub(super) fn of(&self, set: &str) -> SetProgress {
        self.sets.get(set).cloned().unwrap_or_default()
    }

    /// Notes how far a set has been read, and writes the file now and then.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note(
        &mut self,
        set: &str,
        progress: &SetProgress,
        stats: &StatsBySet<'_>,
    ) -> Result<()> {
        self.sets.insert(set.to_owned(), progress.clone());
        if self.saved.elapsed() < INTERVAL {
            return Ok(());
        }
        self.save(stats)
    }

    /// Writes the file anew, beside the one that is there, which it then replaces.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&mut self, stats: &StatsBySet<'_>) -> Result<()> {
        self.saved = Instant::now();
        let Some(path) = &self.file else {
            return Ok(());
        };
        let failed = |error: io::Error| {
            let place = format!("--resume {}", path.display());
            CommandFailure::at(place, format!("cannot be written: {error}"))
        };
        let mut bytes = Vec::new();
        let mut sets = Vec::with_capacity(self.sets.len());
        for (name, progress) in &self.sets {
            let found = stats.find(&self.heading.namespace, name);
            sets.extend(found.map(|found| (name, progress, found)));
        }
        rmp_serde::encode::write(&mut bytes, &(&self.heading, sets))
            .map_err(|error| failed(io::Error::other(error)))?;
        files::replace(path, &bytes).map_err(failed)
    }
}
