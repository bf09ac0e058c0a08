//! Where records come from: a store, JSON lines, a backup, a cluster.

mod backup;
#[cfg(feature = "cluster")]
mod cluster;
mod input;
mod json_lines;
mod store;

use std::io;
use std::path::Path;

use spikelet::Store;
use spikelet::backup::files_of;

#[cfg(feature = "cluster")]
pub(crate) use self::cluster::ClusterReading;
use self::input::{Input, STDIN};
use super::set_stats::StatsBySet;
use super::summarize::{RecordOrigin, summarize};
use super::{Sizing, SizingOptions};
use crate::failure::{CommandFailure, Result};

/// Receives the progress: the part done, and the total (records of a store, bytes of
/// files; 0: not known).
pub(crate) type ProgressSink<'p> = dyn FnMut(u64, u64) + 'p;

/// Returns the failure of a file that cannot be read.
fn unreadable(path: &Path) -> impl Fn(io::Error) -> CommandFailure {
    |error| CommandFailure::at(shown(path), error)
}

/// Returns the name of a path in messages and reports.
fn shown(path: &Path) -> String {
    match path.as_os_str() {
        name if name == STDIN => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Sizes the data at a path: the directory of a store (opened read-only), a backup (`.asb`, a file
/// or a directory of them), or JSON lines, from a file or from standard input (`-`), packed by gzip
/// or zstd or as they are. Every record is visited once. A record of a store that
/// is damaged on the device is counted, and in no other figure.
///
/// A JSON line is `{"set": .., "key": .., "bins": {..}}`, or any other object, which is then a
/// record without key, with its fields as bins. Both files are sized as this store would keep their
/// records. Lines with the set and key of an earlier one are records of their own, and counted as
/// repeated: keys are distinguished by 64 bits of a hash, so memory grows with their number.
///
/// # Errors
/// [`CommandFailure`]: the data cannot be opened, read or understood, or all of it was read and
/// does not hold the set that was asked for.
pub(crate) fn size(
    path: &Path,
    options: &SizingOptions,
    progress: &mut ProgressSink<'_>,
) -> Result<Sizing> {
    sized(options, |stats| read(path, options, stats, progress))
}

/// Sizes a namespace of a cluster by some of its partitions. Nothing is written.
///
/// # Errors
/// [`CommandFailure`]: the cluster refuses, or was read to the end and does not hold the set that
/// was asked for.
#[cfg(feature = "cluster")]
pub(crate) fn size_cluster(
    cluster: &spikelet::cluster::Cluster,
    options: &SizingOptions,
    reading: &ClusterReading<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<Sizing> {
    sized(options, |stats| {
        cluster::read(cluster, options, reading, stats, progress)
    })
}

fn sized(
    options: &SizingOptions,
    read: impl FnOnce(&mut StatsBySet<'_>) -> Result<RecordOrigin>,
) -> Result<Sizing> {
    options.check()?;
    let mut stats = StatsBySet::new(options);
    let origin = read(&mut stats)?;
    let is_stopped = origin.is_stopped;
    let sizing = summarize(options, origin, stats);
    // The set may be in what was not read.
    if is_stopped || sizing.damaged > 0 {
        return Ok(sizing);
    }
    let rated = options.writes_per_s.iter();
    let rated = rated.filter_map(|(set, _)| set.as_ref());
    let mut named = options.set.iter().chain(rated);
    match named.find(|set| !sizing.sets.iter().any(|found| found.set == **set)) {
        Some(set) => Err(CommandFailure::Input(format!(
            "no record that is sized is in set {set:?}; without --set and SET=, all sets are sized and named"
        ))),
        None => Ok(sizing),
    }
}

/// Reads the data at a path, by its kind.
fn read(
    path: &Path,
    options: &SizingOptions,
    stats: &mut StatsBySet<'_>,
    progress: &mut ProgressSink<'_>,
) -> Result<RecordOrigin> {
    let failed = unreadable(path);
    let is_dir = path.as_os_str() != STDIN && std::fs::metadata(path).map_err(&failed)?.is_dir();
    if !is_dir {
        let input = Input::open(path)?;
        return if input.is_backup || has_extension(path, "asb") {
            backup::read_all(path, vec![(path.to_owned(), input)], stats, progress)
        } else {
            json_lines::read(path, input, stats, progress)
        };
    }
    let mut files = std::fs::read_dir(path).map_err(&failed)?;
    let has_backups = files.any(|file| file.is_ok_and(|file| has_extension(&file.path(), "asb")));
    // A store with a backup in it is a store.
    if Store::exists(path) || !has_backups {
        return store::read(path, options, stats, progress);
    }
    let files = files_of(path).map_err(&failed)?.into_iter();
    let inputs = files.map(|file| Input::open(&file).map(|input| (file, input)));
    backup::read_all(path, inputs.collect::<Result<_>>()?, stats, progress)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::model::NamespaceSizing;

    #[test]
    fn a_set_is_missed_only_where_all_was_read() {
        for (is_stopped, damaged) in [(false, 0), (true, 0), (false, 1)] {
            let options = SizingOptions {
                writes_per_s: vec![(Some("feeds".to_owned()), 50.0)],
                ..SizingOptions::default()
            };
            let namespace = NamespaceSizing {
                damaged,
                ..NamespaceSizing::default()
            };
            let origin = RecordOrigin {
                is_stopped,
                namespaces: vec![namespace],
                ..RecordOrigin::default()
            };
            let is_refused = sized(&options, |_| Ok(origin)).is_err();
            assert_eq!(is_refused, !is_stopped && damaged == 0, "{damaged}");
        }
    }
}
