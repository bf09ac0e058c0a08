//! The folders of namespaces that this process has open, so that an opening which finds one locked
//! can say by whom.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::Error;
use crate::error::StoreHolder;

/// One entry for each open namespace: the process (a fork inherits the list, not the locks) and the
/// folder.
static OPEN: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());

/// A folder that is listed as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenDir {
    dir: PathBuf,
}

impl OpenDir {
    /// Lists a folder, which must exist.
    pub(super) fn new(dir: &Path) -> Self {
        let dir = canonical(dir);
        let mut open = OPEN.lock();
        open.push((std::process::id(), dir.clone()));
        Self { dir }
    }
}

impl Drop for OpenDir {
    fn drop(&mut self) {
        let mut open = OPEN.lock();
        if let Some(at) = open.iter().position(|(_, dir)| *dir == self.dir) {
            open.swap_remove(at);
        }
    }
}

/// The error of an opening, which says that this process has the folder open if it has.
pub(super) fn name_holder(error: Error, dir: &Path) -> Error {
    match error {
        Error::InUse { path, .. } if is_open_here(dir) => Error::InUse {
            path,
            holder: StoreHolder::ThisProcess,
        },
        other => other,
    }
}

fn is_open_here(dir: &Path) -> bool {
    let here = (std::process::id(), canonical(dir));
    let open = OPEN.lock();
    open.contains(&here)
}

fn canonical(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}
