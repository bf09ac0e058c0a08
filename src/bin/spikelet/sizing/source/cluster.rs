//! Records of a cluster: some of its partitions, which are fair samples, since keys are spread over them by a hash.
//!
//! Small records are read; of large ones the server says the size, and what their lists and maps hold.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use spikelet::cluster::{Cluster, ClusterSet};
use spikelet::expressions::{gt, le, record_size};
use spikelet::record::BinName;
use spikelet::{Digest, Record, RecordStore};

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
/// So many bins of large records are asked for.
const BINS_MAX: usize = 32;
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
    let mut source = vec![format!("cluster, namespace {}", cluster.namespace())];
    let mut all_records = 0;
    for name in sets {
        let mut partitions = Partitions::of(cluster.records(&name)?, cluster.tells_record_sizes());
        let read = partitions.read_some(reading, progress)?;
        source.push(format!("{read} of {PARTITIONS} partitions of \"{name}\""));
        let Some(set) = stats.set(cluster.namespace(), &name) else {
            continue;
        };
        for record in partitions.records {
            let Ok(()) = set.meet(|| Ok::<_, std::convert::Infallible>(record));
        }
        // The others have as many, by and large.
        set.records = set.records * u64::from(PARTITIONS) / u64::from(read.max(1));
        all_records += set.records;
    }
    Ok(Origin {
        source: source.join(", "),
        kind: "cluster",
        namespaces: vec![NamespaceSizing {
            namespace: cluster.namespace().to_owned(),
            records: all_records,
            damaged: 0,
            index_bytes: 0,
            index_bytes_per_record: 0.0,
            device_bytes: 0,
            log_write_amplification: None,
        }],
        contended: Vec::new(),
        knows_indexes: false,
    })
}

/// The partitions of a set, and what was read of them.
struct Partitions {
    set: ClusterSet,
    tells_sizes: bool,
    bins: BTreeSet<String>,
    records: Vec<RecordMeasure>,
}

impl Partitions {
    const fn of(set: ClusterSet, tells_sizes: bool) -> Self {
        Self {
            set,
            tells_sizes,
            bins: BTreeSet::new(),
            records: Vec::new(),
        }
    }

    /// Reads partitions in an order that the seed gives, until there are records enough. Returns how many.
    fn read_some(
        &mut self,
        reading: &Reading<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<u16, SizingError> {
        let mut order: Vec<u16> = (0..PARTITIONS).collect();
        let mut random = Random::new(reading.seed);
        let mut read = 0;
        while let Some(last) = order.len().checked_sub(1) {
            let drawn = random.below(order.len() as u64) as usize;
            order.swap(drawn, last);
            let Some(partition) = order.pop() else { break };
            self.read(partition, reading)?;
            read += 1;
            let has = self.records.len() as u64;
            match reading.records {
                Some(wanted) => progress(has.min(wanted), wanted),
                None => progress(u64::from(read), u64::from(PARTITIONS)),
            }
            let enough = reading.records.is_some_and(|wanted| has >= wanted);
            if enough || reading.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(read)
    }

    /// Reads a partition whole; again from its beginning after a failure that may pass.
    fn read(&mut self, partition: u16, reading: &Reading<'_>) -> Result<(), SizingError> {
        let had = self.records.len();
        let mut attempt = 1;
        loop {
            match self.try_read(partition, reading) {
                Err(error) if error.is_retryable() && attempt < ATTEMPTS => {
                    self.records.truncate(had);
                    attempt += 1;
                }
                done => return Ok(done?),
            }
        }
    }

    fn try_read(&mut self, partition: u16, reading: &Reading<'_>) -> spikelet::Result<()> {
        let rate = reading.records_per_second;
        if !self.tells_sizes {
            let set = self.set.clone();
            return self.read_whole(&set, partition, rate);
        }
        let small = self.set.filtered(le(record_size(), READ_BYTES_MAX))?;
        self.read_whole(&small, partition, rate)?;
        let large = self.set.filtered(gt(record_size(), READ_BYTES_MAX))?;
        if self.bins.is_empty() {
            // Nothing has told the names of the bins yet.
            return self.read_whole(&large, partition, rate);
        }
        let bins: Vec<String> = self.bins.iter().cloned().collect();
        let mut failed = Ok(());
        large.measure_partition(partition, rate, &bins, &mut |measured| match measured {
            Ok(measured) => {
                self.records.push(RecordMeasure::told(&measured));
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        });
        failed
    }

    fn read_whole(
        &mut self,
        set: &ClusterSet,
        partition: u16,
        rate: Option<u32>,
    ) -> spikelet::Result<()> {
        let mut failed = Ok(());
        set.scan_partition(partition, rate, &mut |record| match record {
            Ok(record) => {
                self.take(&record);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        });
        failed
    }

    fn take(&mut self, record: &Record) {
        for (bin, _) in record.bins() {
            if self.bins.len() < BINS_MAX && BinName::new(bin).is_ok() && !self.bins.contains(bin) {
                self.bins.insert(bin.to_owned());
            }
        }
        let digest = Digest::new([0; Digest::LEN]);
        let mut measured = RecordMeasure::viewed(digest, record.key().as_ref(), record.view());
        // A scan of a cluster does not tell it.
        measured.digest = None;
        self.records.push(measured.with_metadata(record.metadata()));
    }
}
