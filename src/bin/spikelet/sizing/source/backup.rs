//! Records of a backup.

use std::convert::Infallible;
use std::path::Path;

use spikelet::Metadata;
use spikelet::backup::{ReadError, Reader, SavedRecord, files_of};

use super::{Progress, SizingError, open};
use crate::sizing::measure::RecordMeasure;
use crate::sizing::set_stats::StatsBySet;
use crate::sizing::summarize::Origin;

/// Records between reports of progress.
const TELL_EVERY: u64 = 1024;

/// Reads every record of a file, or of the files of a directory.
pub(super) fn read(
    path: &Path,
    stats: &mut StatsBySet<'_>,
    progress: &mut Progress<'_>,
) -> Result<Origin, SizingError> {
    let mut files = Vec::new();
    for file in files_of(path).map_err(SizingError::read(path))? {
        let (input, length) = open(&file)?;
        files.push((file, input, length));
    }
    let total = files.iter().map(|(_, _, length)| length).sum();
    let mut before = 0;
    for (file, input, length) in files {
        let failed = |source: ReadError| match source {
            ReadError::Io(source) => SizingError::read(&file)(source),
            source => SizingError::Backup {
                path: file.clone(),
                source,
            },
        };
        let mut reader = Reader::new(input).map_err(failed)?;
        let mut met = 0;
        while let Some(record) = reader.next_record().map_err(failed)? {
            if let Some(set) = stats.set(&record.namespace, &record.set) {
                let Ok(()) = set.meet(|| Ok::<_, Infallible>(measured(&record)));
            }
            met += 1;
            if met % TELL_EVERY == 0 {
                progress(before + reader.offset(), total);
            }
        }
        before += length;
    }
    Ok(Origin {
        source: path.display().to_string(),
        kind: "backup",
        namespaces: Vec::new(),
        contended: Vec::new(),
        // A backup leaves out the indexes of lists and maps.
        knows_indexes: false,
    })
}

fn measured(record: &SavedRecord) -> RecordMeasure {
    let metadata = Metadata {
        generation: record.generation,
        void_time: record.void_time,
        // A backup does not say when a record was written.
        last_update_ms: 0,
    };
    RecordMeasure::viewed(record.digest, record.key().as_ref(), record.view())
        .with_metadata(&metadata)
}
