//! The secondary indexes of a backup: which of them are missing, and building these.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::error::BackupError;
use super::super::index::SavedIndex;
use super::super::save::is_cancelled;
use super::options::{RestoreOptions, RestoreSummary};
use crate::{Error, Namespace};

/// Interval for polling a build.
const PAUSE: Duration = Duration::from_millis(10);

/// Selects the indexes that the targets lack: they are built after the records are restored. Counts
/// those that exist, and says which cannot be declared.
pub(super) fn missing_indexes(
    wanted: Vec<SavedIndex>,
    targets: &BTreeMap<&str, Namespace>,
    summary: &mut RestoreSummary,
) -> Vec<SavedIndex> {
    let mut missing: Vec<SavedIndex> = Vec::new();
    for index in wanted {
        let name = index.definition.name();
        let other = targets
            .get(index.namespace.as_str())
            .and_then(|target| target.index_definition(name))
            .map(|(set, definition)| SavedIndex::new(&index.namespace, set.as_deref(), definition));
        let in_backup = missing
            .iter()
            .find(|known| known.namespace == index.namespace && known.definition.name() == name);
        match other.as_ref().or(in_backup) {
            None => missing.push(index),
            Some(other) if *other == index => summary.indexes_existed += 1,
            Some(_) => summary.indexes_refused.push(format!(
                "index {name:?} of namespace {} exists with another definition: drop it, or restore without indexes",
                index.namespace
            )),
        }
    }
    missing
}

/// Declares and builds indexes, and counts what becomes of each. By `partial` a refused index does
/// not stop the others.
pub(super) fn build_all(
    missing: Vec<SavedIndex>,
    targets: &BTreeMap<&str, Namespace>,
    options: &RestoreOptions,
    summary: &mut RestoreSummary,
) -> Result<(), BackupError> {
    for index in missing {
        let Some(target) = targets.get(index.namespace.as_str()) else {
            continue;
        };
        let name = index.definition.name().to_owned();
        match build(index, target, options.cancel.as_ref()) {
            Ok(true) => summary.indexes += 1,
            Ok(false) => {
                summary.cancelled = true;
                break;
            }
            Err(source) if options.partial => {
                let refused = format!("index {name:?}: {source}");
                summary.indexes_refused.push(refused);
            }
            Err(source) => {
                return Err(BackupError::Index {
                    index: name,
                    source,
                });
            }
        }
    }
    Ok(())
}

/// Builds one index. Returns `false` if cancelled; the index is then not declared, unless another
/// call builds it.
fn build(
    index: SavedIndex,
    target: &Namespace,
    cancel: Option<&Arc<AtomicBool>>,
) -> Result<bool, Error> {
    if is_cancelled(cancel) {
        return Ok(false);
    }
    loop {
        let definition = index.definition.clone();
        let build = match &index.set {
            Some(set) => target.set(set)?.build_index(definition)?,
            None => target.build_index(definition)?,
        };
        while !build.is_finished() {
            if is_cancelled(cancel) {
                build.cancel()?;
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
        let is_of_another_call = build.is_of_another_call();
        match build.wait() {
            // It was given up, or has failed: then this call's own build says why.
            Err(Error::IndexNotFound(_)) if is_of_another_call => {}
            built => return built.map(|()| true),
        }
    }
}
