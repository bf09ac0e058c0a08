//! Records of a store on disk.

use std::convert::Infallible;
use std::path::Path;

use super::{Progress, SizingError};
use crate::engine::{HotRecord, Namespace, Store};
use crate::sizing::Options;
use crate::sizing::conclude::Origin;
use crate::sizing::measure::{Measured, label};
use crate::sizing::model::{Contended, NamespaceSizing};
use crate::sizing::survey::Survey;

/// Progress is told every so many records.
const TELL_EVERY: u64 = 4096;

/// Scans every set.
pub(super) fn read(
    path: &Path,
    options: &Options,
    survey: &mut Survey<'_>,
    progress: &mut Progress<'_>,
) -> Result<Origin, SizingError> {
    let store = Store::builder().path(path).read_only().open()?;
    let namespaces = store.namespaces();
    let total = namespaces
        .iter()
        .map(|namespace| namespace.stats().records)
        .sum();
    let mut done = 0;
    for namespace in &namespaces {
        for usage in namespace
            .sets()
            .into_iter()
            .filter(|usage| usage.records > 0)
        {
            let Some(set) = survey.set(namespace.name(), &usage.name) else {
                continue;
            };
            namespace.set(&usage.name)?.scan(|record| {
                let Ok(()) = set.meet(|| Ok::<_, Infallible>(Measured::scanned(&record)));
                done += 1;
                if done % TELL_EVERY == 0 {
                    progress(done, total);
                }
            });
        }
    }
    let origin = Origin {
        source: path.display().to_string(),
        kind: "store",
        namespaces: namespaces.iter().map(namespace_sizing).collect(),
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

fn namespace_sizing(namespace: &Namespace) -> NamespaceSizing {
    let stats = namespace.stats();
    let known = stats.traffic.requested_bytes > 0;
    NamespaceSizing {
        namespace: namespace.name().to_owned(),
        records: stats.records,
        index_bytes: stats.index_bytes,
        index_bytes_per_record: stats.index_bytes_per_record(),
        device_bytes: stats.device_bytes,
        log_write_amplification: known.then(|| stats.traffic.write_amplification()),
    }
}

fn contended(namespace: &Namespace, most: usize) -> Vec<Contended> {
    let contended = |hot: HotRecord| Contended {
        namespace: namespace.name().to_owned(),
        key: hot.key.as_ref().map(label),
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
