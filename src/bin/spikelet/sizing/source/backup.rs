//! Records of a backup.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use spikelet::Metadata;
use spikelet::backup::{ReadError, Reader, SavedRecord};

use super::input::Input;
use super::{ProgressSink, shown};
use crate::failure::{CommandFailure, Result};
use crate::sizing::measure::RecordMeasure;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::RecordOrigin;

/// Records between reports of progress.
const TELL_EVERY: u64 = 1024;

/// Reads every record of these files, or of standard input.
pub(super) fn read_all(
    path: &Path,
    inputs: Vec<(PathBuf, Input)>,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<RecordOrigin> {
    let total = inputs.iter().map(|(_, input)| input.length).sum();
    let mut before = 0;
    for (file, input) in inputs {
        let failed = |error: ReadError| CommandFailure::at(shown(&file), error);
        let mut reader = Reader::new(input.text).map_err(failed)?;
        let mut met = 0;
        while let Some(record) = reader.next_record().map_err(failed)? {
            if let Some(set) = stats.set(&record.namespace, &record.set) {
                let Ok(()) = set.meet(|most| Ok::<_, Infallible>(measured(&record, most)));
            }
            met += 1;
            if met % TELL_EVERY == 0 {
                progress(before + input.read.get(), total);
            }
        }
        before += input.length;
    }
    Ok(RecordOrigin {
        source: shown(path),
        kind: "backup",
        // A backup leaves out the indexes of lists and maps.
        ..RecordOrigin::default()
    })
}

fn measured(record: &SavedRecord, shard_bytes_max: u64) -> RecordMeasure {
    let metadata = Metadata {
        generation: record.generation,
        void_time: record.void_time,
        // A backup does not say when a record was written.
        last_update_ms: 0,
    };
    let (key, view) = (record.key(), record.view());
    RecordMeasure::viewed(record.digest, key.as_ref(), view, shard_bytes_max)
        .with_metadata(&metadata)
}
