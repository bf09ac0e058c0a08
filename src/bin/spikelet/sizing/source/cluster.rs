//! Records of a cluster: some of its partitions, which are fair samples, since keys are spread over them by a hash.
//!
//! Small records are read; of large ones the server says the size, and what their lists and maps hold.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::expressions::{gt, le, record_size};
use spikelet::record::BinName;
use spikelet::{Digest, Record, RecordStore};

use super::cluster_indexes;
use super::resume::{Progresses, SetProgress};
use super::{Progress, SizingError};
use crate::random::Random;
use crate::sizing::Options;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::NamespaceSizing;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::Origin;

/// The partitions of a namespace.
const PARTITIONS: u16 = 4096;
/// Records up to this size are read whole.
const READ_BYTES_MAX: i64 = 64 * 1024;
/// So many bins of small records are learned; large ones are asked for them.
const BINS_MAX: usize = 32;
/// Who waits looks up after so long, whether the reading is to end.
const NAP: Duration = Duration::from_millis(50);
/// How often a partition is read again after a failure.
const ATTEMPTS: usize = 3;

/// How a cluster is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    /// Records of each set to read at least, if it has so many; `None`: all.
    pub(crate) records: Option<u64>,
    /// Seed of the order in which partitions are read.
    pub(crate) seed: u64,
    /// How many records a server reads a second.
    pub(crate) records_per_second: Option<u32>,
    /// The file of an earlier sizing to go on from, and to go on with.
    pub(crate) resume: Option<&'a Path>,
    /// Becomes true when the reading is to end; what was read by then is a sample, too.
    pub(crate) stop: &'a AtomicBool,
}

/// Reads some partitions of each set.
pub(super) fn read(
    cluster: &Cluster,
    options: &Options,
    reading: &Reading<'_>,
    stats: &mut StatsBySet<'_>,
    progress: &mut Progress<'_>,
) -> Result<Origin, SizingError> {
    let sets = match &options.set {
        Some(set) => vec![set.clone()],
        None => cluster.set_names()?,
    };
    let namespace = cluster.namespace();
    let mut progresses = Progresses::open(namespace, options, reading, stats)?;
    let mut read = Ok(());
    for name in &sets {
        read = read_set(cluster, name, reading, &mut progresses, stats, progress);
        if read.is_err() || reading.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    // What was read before a failure need not be read again.
    progresses.save(stats)?;
    read?;
    let mut secondary_indexes = cluster_indexes::told_by(cluster)?;
    secondary_indexes.retain(|index| index.is_of(options.set.as_deref()));
    let mut source = vec![format!("cluster, namespace {namespace}")];
    let mut all_records = 0;
    for name in sets {
        let read = progresses.of(&name).partitions;
        source.push(format!("{read} of {PARTITIONS} partitions of \"{name}\""));
        if let Some(set) = stats.set(namespace, &name) {
            // The others have as many, by and large.
            set.records = set.records * u64::from(PARTITIONS) / u64::from(read.max(1));
            all_records += set.records;
        }
    }
    Ok(Origin {
        source: source.join(", "),
        kind: "cluster",
        namespaces: vec![NamespaceSizing {
            namespace: namespace.to_owned(),
            records: all_records,
            damaged: 0,
            index_bytes: 0,
            index_bytes_per_record: 0.0,
            device_bytes: 0,
            log_write_amplification: None,
            secondary_indexes,
        }],
        contended: Vec::new(),
        knows_indexes: false,
    })
}

/// Reads partitions of a set in the order of the seed, from where it was left, until there are
/// records enough.
fn read_set(
    cluster: &Cluster,
    name: &str,
    reading: &Reading<'_>,
    progresses: &mut Progresses,
    stats: &mut StatsBySet<'_>,
    progress: &mut Progress<'_>,
) -> Result<(), SizingError> {
    let mut partitions = Partitions {
        set: cluster.records(name)?,
        tells_sizes: cluster.tells_record_sizes(),
        read: progresses.of(name),
        records: Vec::new(),
    };
    let namespace = cluster.namespace();
    let order = order(reading.seed);
    let mut pace = Pace::new(reading);
    for partition in order.into_iter().skip(partitions.read.partitions.into()) {
        let has = stats.set(namespace, name).map_or(0, |set| set.records);
        let enough = reading.records.is_some_and(|wanted| has >= wanted);
        if enough || !partitions.read(partition, reading)? {
            break;
        }
        let taken = partitions.records.len();
        if let Some(set) = stats.set(namespace, name) {
            for record in partitions.records.drain(..) {
                let Ok(()) = set.meet(|| Ok::<_, std::convert::Infallible>(record));
            }
        }
        partitions.read.partitions += 1;
        progresses.note(name, &partitions.read, stats)?;
        let has = stats.set(namespace, name).map_or(0, |set| set.records);
        match reading.records {
            Some(wanted) => progress(has.min(wanted), wanted),
            None => progress(partitions.read.partitions.into(), PARTITIONS.into()),
        }
        pace.wait(taken);
    }
    Ok(())
}

/// Keeps partitions to the rate: servers limit each scan, and of a small set each scan is of a few
/// records.
struct Pace<'a> {
    reading: &'a Reading<'a>,
    /// When the partition began.
    begun: Instant,
}

impl<'a> Pace<'a> {
    fn new(reading: &'a Reading<'a>) -> Self {
        Self {
            reading,
            begun: Instant::now(),
        }
    }

    /// Waits until so many records may have been read since the last call, or the reading is to end.
    fn wait(&mut self, records: usize) {
        let Some(rate) = self.reading.records_per_second else {
            return;
        };
        let time = Duration::from_secs_f64(records as f64 / f64::from(rate));
        let end = self.begun + time;
        while !self.reading.stop.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(NAP));
        }
        self.begun = Instant::now();
    }
}

/// Returns all partitions in the order of a seed.
fn order(seed: u64) -> Vec<u16> {
    let mut left: Vec<u16> = (0..PARTITIONS).collect();
    let mut random = Random::new(seed);
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let drawn = random.below(left.len() as u64) as usize;
        order.push(left.swap_remove(drawn));
    }
    order
}

/// The partitions of a set, and the records of the one that is being read.
struct Partitions {
    set: ClusterSet,
    tells_sizes: bool,
    read: SetProgress,
    records: Vec<RecordMeasure>,
}

impl Partitions {
    /// Reads a partition whole; again from its beginning after a failure that may pass. False: it was
    /// interrupted, and counts for nothing.
    fn read(&mut self, partition: u16, reading: &Reading<'_>) -> Result<bool, SizingError> {
        let mut attempt = 1;
        loop {
            self.records.clear();
            match self.try_read(partition, reading) {
                _ if reading.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => attempt += 1,
                done => return Ok(done.map(|()| true)?),
            }
        }
    }

    fn try_read(&mut self, partition: u16, reading: &Reading<'_>) -> spikelet::Result<()> {
        if !self.tells_sizes {
            let set = self.set.clone();
            return self.read_whole(&set, partition, reading);
        }
        // The small ones come first: they tell the names of bins.
        let small = self.set.filtered(le(record_size(), READ_BYTES_MAX))?;
        self.read_whole(&small, partition, reading)?;
        let large = self.set.filtered(gt(record_size(), READ_BYTES_MAX))?;
        let rate = reading.records_per_second;
        let (records, bins) = (&mut self.records, &mut self.read.bins);
        let mut taken = Taken::new(reading.stop);
        large.measure_partition(partition, rate, bins, &mut |measured| {
            taken.take(measured, |measured| {
                records.push(RecordMeasure::told(&measured));
            })
        });
        taken.failed
    }

    fn read_whole(
        &mut self,
        set: &ClusterSet,
        partition: u16,
        reading: &Reading<'_>,
    ) -> spikelet::Result<()> {
        let mut taken = Taken::new(reading.stop);
        set.scan_partition(partition, reading.records_per_second, &mut |record| {
            taken.take(record, |record| self.take(&record))
        });
        taken.failed
    }

    fn take(&mut self, record: &Record) {
        let bins = &mut self.read.bins;
        for (bin, _) in record.bins() {
            let is_known = bins.iter().any(|known| known == bin);
            if bins.len() < BINS_MAX && BinName::new(bin).is_ok() && !is_known {
                bins.push(bin.to_owned());
            }
        }
        let digest = Digest::new([0; Digest::LEN]);
        let mut measured = RecordMeasure::viewed(digest, record.key().as_ref(), record.view());
        // A scan of a cluster does not tell it.
        measured.digest = None;
        self.records.push(measured.with_metadata(record.metadata()));
    }
}

/// Takes what a scan shows, until it fails or is to end.
struct Taken<'a> {
    stop: &'a AtomicBool,
    failed: spikelet::Result<()>,
}

impl<'a> Taken<'a> {
    const fn new(stop: &'a AtomicBool) -> Self {
        Self {
            stop,
            failed: Ok(()),
        }
    }

    fn take<T>(&mut self, shown: spikelet::Result<T>, keep: impl FnOnce(T)) -> ControlFlow<()> {
        match shown {
            Ok(shown) => keep(shown),
            Err(error) => {
                self.failed = Err(error);
                return ControlFlow::Break(());
            }
        }
        match self.stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
