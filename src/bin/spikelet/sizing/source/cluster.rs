//! Records of a cluster: some of its partitions, which are fair samples, since keys are spread over
//! them by a hash.
//!
//! Small records are read; of large ones the server says the size, and what their lists and maps
//! hold.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spikelet::cluster::{Cluster, ClusterSet, MeasuredRecord};
use spikelet::expressions::{gt, le, record_size};
use spikelet::record::BinName;
use spikelet::{Digest, Record, RecordStore};

use super::ProgressSink;
use crate::failure::Result;
use crate::random::Random;
use crate::sizing::SizingOptions;
use crate::sizing::measure::{COMPANION_BIN, RecordMeasure};
use crate::sizing::model::NamespaceSizing;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::RecordOrigin;
use crate::threads::sleep_until;

/// The partitions of a namespace.
const PARTITIONS: u16 = 4096;
/// Records up to this size are read whole.
const READ_BYTES_MAX: i64 = 64 * 1024;
/// So many bins of small records are learned; large ones are asked for them.
const BINS_MAX: usize = 32;
/// How often partitions are read again after a failure.
const ATTEMPTS: usize = 3;
/// About this many records are read by one request to each node.
const RECORDS_AT_ONCE: u64 = 1_000;

/// How a cluster is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterReading<'a> {
    /// How many records a server reads a second.
    pub(crate) records_per_second: Option<u32>,
    /// Becomes true when the reading is to end; the records read by then are a sample, too.
    pub(crate) stop: &'a AtomicBool,
}

/// Reads some partitions of each set.
pub(super) fn read(
    cluster: &Cluster,
    options: &SizingOptions,
    reading: &ClusterReading<'_>,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<RecordOrigin> {
    let mut sets = cluster.set_sizes()?;
    match &options.set {
        Some(wanted) => sets.retain(|(name, _)| name == wanted),
        // Emptied sets stay in the list.
        None => sets.retain(|(_, records)| *records > 0),
    }
    let namespace = cluster.namespace();
    let mut source = vec![format!("cluster, namespace {namespace}")];
    let mut all_records = 0;
    for set in &sets {
        let read = read_set(cluster, set, options, reading, stats, progress)?;
        let (name, _) = set;
        source.push(format!("{read} of {PARTITIONS} partitions of \"{name}\""));
        if let Some(set) = stats.set(namespace, name) {
            // The others have as many, by and large.
            set.records = set.records * u64::from(PARTITIONS) / u64::from(read.max(1));
            all_records += set.records;
        }
    }
    Ok(RecordOrigin {
        source: source.join(", "),
        kind: "cluster",
        is_stopped: reading.stop.load(Ordering::Relaxed),
        namespaces: vec![NamespaceSizing {
            namespace: namespace.to_owned(),
            records: all_records,
            ..NamespaceSizing::default()
        }],
        ..RecordOrigin::default()
    })
}

/// Reads partitions of a set in the order of the seed, until there are records enough or it is to
/// end. So many partitions are read at once that few requests are made, for sets of any size: some
/// 20 for a sample of 10,000 records, and two for a set below 1,000. Returns how many were read.
fn read_set(
    cluster: &Cluster,
    (name, size): &(String, u64),
    options: &SizingOptions,
    reading: &ClusterReading<'_>,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<u16> {
    let sample = options.sample.map(u64::from);
    let mut partitions = Partitions {
        set: cluster.records(name)?,
        tells_sizes: cluster.tells_record_sizes(),
        shard_bytes_max: options.shard_bytes_max(),
        bins: vec![COMPANION_BIN.to_owned()],
        records: BTreeMap::new(),
    };
    let namespace = cluster.namespace();
    let at_once = partitions_at_once(*size, sample);
    let mut order: Vec<u16> = (0..PARTITIONS / at_once).collect();
    Random::new(options.seed).shuffle(&mut order);
    let (mut begun, mut read) = (Instant::now(), 0);
    for begin in order {
        let begin = begin * at_once;
        let has = stats.set(namespace, name).map_or(0, |set| set.records);
        let enough = sample.is_some_and(|wanted| has >= wanted);
        let is_stopped = reading.stop.load(Ordering::Relaxed);
        if enough || is_stopped || !partitions.read(begin..begin + at_once, reading)? {
            break;
        }
        let taken = partitions.records.len();
        if let Some(set) = stats.set(namespace, name) {
            for record in std::mem::take(&mut partitions.records).into_values() {
                let Ok(()) = set.meet(|_| Ok::<_, std::convert::Infallible>(record));
            }
        }
        read += at_once;
        let has = stats.set(namespace, name).map_or(0, |set| set.records);
        match sample {
            Some(wanted) => progress(has.min(wanted), wanted),
            None => progress(read.into(), PARTITIONS.into()),
        }
        // Servers limit each scan, and of a small set each scan is of a few records.
        if let Some(rate) = reading.records_per_second {
            let time = Duration::from_secs_f64(taken as f64 / f64::from(rate));
            sleep_until(begun + time, reading.stop);
        }
        begun = Instant::now();
    }
    Ok(read)
}

/// Returns how many partitions are read at once, a power of two: as many as have some 1,000 records
/// of a set of this size, or a quarter of the sample.
fn partitions_at_once(size: u64, sample: Option<u64>) -> u16 {
    let records = sample.map_or(RECORDS_AT_ONCE, |sample| RECORDS_AT_ONCE.min(sample / 4));
    let partitions = records * u64::from(PARTITIONS) / size.max(1);
    let most = partitions.clamp(1, PARTITIONS.into()) as u16;
    1 << most.ilog2()
}

/// The partitions of a set, and the records of the ones under way.
struct Partitions {
    set: ClusterSet,
    tells_sizes: bool,
    /// The most that a shard should hold, in bytes.
    shard_bytes_max: u64,
    /// The names of bins that are known.
    bins: Vec<String>,
    /// By digest: a record may come twice, where a node is lost meanwhile, or as a small and as a
    /// large one, where it has grown.
    records: BTreeMap<Digest, RecordMeasure>,
}

impl Partitions {
    /// Reads partitions whole; again from their beginning after a failure that may pass. False: it
    /// was interrupted, and counts for nothing.
    fn read(&mut self, range: Range<u16>, reading: &ClusterReading<'_>) -> Result<bool> {
        let mut attempt = 1;
        loop {
            self.records.clear();
            match self.try_read(range.clone(), reading) {
                _ if reading.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => attempt += 1,
                done => return Ok(done.map(|()| true)?),
            }
        }
    }

    fn try_read(
        &mut self,
        range: Range<u16>,
        reading: &ClusterReading<'_>,
    ) -> spikelet::Result<()> {
        if !self.tells_sizes {
            let set = self.set.clone();
            return self.read_whole(&set, range, reading);
        }
        // The small ones come first: the names of bins are taken from them.
        let small = self.set.filtered(le(record_size(), READ_BYTES_MAX))?;
        self.read_whole(&small, range.clone(), reading)?;
        let large = self.set.filtered(gt(record_size(), READ_BYTES_MAX))?;
        let (rate, bins) = (reading.records_per_second, &mut self.bins);
        let (records, most) = (&mut self.records, self.shard_bytes_max);
        let take = |record: MeasuredRecord| {
            let measured = RecordMeasure::told(&record, most)?;
            records.entry(record.digest).or_insert(measured);
            Ok(())
        };
        until_stopped(reading.stop, take, |each| {
            large.measure_partitions(range, rate, bins, each);
        })
    }

    fn read_whole(
        &mut self,
        set: &ClusterSet,
        range: Range<u16>,
        reading: &ClusterReading<'_>,
    ) -> spikelet::Result<()> {
        let take = |(digest, record): (Digest, Record)| {
            let bins = &mut self.bins;
            for (bin, _) in record.bins() {
                let is_known = bins.iter().any(|known| known == bin);
                if bins.len() < BINS_MAX && BinName::new(bin).is_ok() && !is_known {
                    bins.push(bin.to_owned());
                }
            }
            self.records.entry(digest).or_insert_with(|| {
                let (key, view) = (record.key(), record.view());
                let most = self.shard_bytes_max;
                let measured = RecordMeasure::viewed(digest, key.as_ref(), view, most);
                measured.with_metadata(record.metadata())
            });
            Ok(())
        };
        until_stopped(reading.stop, take, |each| {
            set.scan_partitions(range, reading.records_per_second, each);
        })
    }
}

/// Takes what a scan shows, until it fails or is to end.
fn until_stopped<T>(
    stop: &AtomicBool,
    mut take: impl FnMut(T) -> spikelet::Result<()>,
    scan: impl FnOnce(&mut dyn FnMut(spikelet::Result<T>) -> ControlFlow<()>),
) -> spikelet::Result<()> {
    let mut failed = Ok(());
    scan(&mut |shown| {
        failed = shown.and_then(&mut take);
        if failed.is_err() || stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    failed
}
