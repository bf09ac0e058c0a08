//! Records of a store on disk.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;

use spikelet::storage::HotRecord;
use spikelet::{Namespace, Store};

use super::{Progress, SizingError};
use crate::report;
use crate::sizing::Options;
use crate::sizing::measure::RecordMeasure;
use crate::sizing::model::{ContendedRecord, NamespaceSizing};
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::Origin;

/// Records between reports of progress.
const TELL_EVERY: u64 = 4096;

/// Scans every namespace once.
pub(super) fn read(
    path: &Path,
    options: &Options,
    stats: &mut StatsBySet<'_>,
    progress: &mut Progress<'_>,
) -> Result<Origin, SizingError> {
    let store = Store::builder().path(path).read_only(true).open()?;
    let namespaces = store.namespaces();
    let total = namespaces
        .iter()
        .map(|namespace| namespace.stats().records)
        .sum();
    let mut done = 0;
    let mut measured = Vec::new();
    for namespace in &namespaces {
        // By the numbers of the sets.
        let places: Vec<Option<usize>> = namespace
            .sets()
            .iter()
            .map(|usage| stats.place(namespace.name(), &usage.name))
            .collect();
        let mut damaged = 0;
        let _: ControlFlow<()> = namespace.scan(|record| {
            match record {
                Ok(record) => {
                    let place = places.get(usize::from(record.set_id)).copied().flatten();
                    if let Some(set) = place.and_then(|place| stats.at(place)) {
                        let Ok(()) =
                            set.meet(|| Ok::<_, Infallible>(RecordMeasure::scanned(&record)));
                    }
                }
                Err(_) => damaged += 1,
            }
            done += 1;
            if done % TELL_EVERY == 0 {
                progress(done, total);
            }
            ControlFlow::Continue(())
        });
        measured.push(namespace_sizing(namespace, damaged));
    }
    let origin = Origin {
        source: path.display().to_string(),
        kind: "store",
        namespaces: measured,
        contended: namespaces
            .iter()
            .flat_map(|namespace| contended(namespace, options.top))
            .collect(),
        knows_indexes: true,
    };
    // It is read-only: closing it writes nothing.
    store.close()?;
    Ok(origin)
}

fn namespace_sizing(namespace: &Namespace, damaged: u64) -> NamespaceSizing {
    let stats = namespace.stats();
    let known = stats.traffic.requested_bytes > 0;
    NamespaceSizing {
        namespace: namespace.name().to_owned(),
        records: stats.records,
        damaged,
        index_bytes: stats.index_bytes,
        index_bytes_per_record: stats.index_bytes_per_record(),
        device_bytes: stats.device_bytes,
        log_write_amplification: known.then(|| stats.traffic.write_amplification()),
    }
}

fn contended(namespace: &Namespace, most: usize) -> Vec<ContendedRecord> {
    let contended = |hot: HotRecord| ContendedRecord {
        namespace: namespace.name().to_owned(),
        key: hot.key.as_ref().map(report::key),
        digest: hot.digest.to_string(),
        waits: hot.waits,
        key_busy: hot.busy,
    };
    namespace
        .hot_records(most)
        .into_iter()
        .map(contended)
        .collect()
}
