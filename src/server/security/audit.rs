//! The audit log: logins, refusals, changes of users and roles, and on request requests about
//! records.
//!
//! A line is `TIME user "NAME" from ADDRESS: ACTION: RESULT`. Names are escaped, so that no client
//! can forge a line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use parking_lot::Mutex;
use spikelet_storage::EPOCH_UNIX_SECONDS;

use super::account::Place;
use crate::server::result_code;
use crate::{Error, Result};

/// The log's place and contents.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// `None`: the log of the process, with the target `spikelet::audit`.
    file: Option<Mutex<File>>,
    /// Namespaces, and sets of them (empty: all), to be noted.
    data: Vec<(String, String)>,
}

impl Audit {
    /// # Errors
    /// [`Error::Parameter`] if the file cannot be opened.
    pub(super) fn open(file: Option<&Path>, data: &[(String, String)]) -> Result<Self> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(path).map_err(|error| {
                Error::parameter(format!("the audit log {}: {error}", path.display()))
            })
        };
        Ok(Self {
            file: file.map(open).transpose()?.map(Mutex::new),
            data: data.to_vec(),
        })
    }

    /// Whether requests about records of this set are noted.
    pub(super) fn has_data(&self, (namespace, set): Place<'_>) -> bool {
        self.data.iter().any(|(noted, noted_set)| {
            noted.as_bytes() == namespace && (noted_set.is_empty() || noted_set.as_bytes() == set)
        })
    }

    /// Notes what was asked for, by whom (there is no user before a login), and the code of the
    /// answer. Nothing in `action` is a secret.
    pub(super) fn note(
        &self,
        now_ms: u64,
        (user, peer): (Option<&str>, IpAddr),
        action: &str,
        code: u8,
    ) {
        let user = user.unwrap_or("-");
        let result = match code {
            result_code::OK => "ok".to_owned(),
            code => format!("refused ({code})"),
        };
        let Some(file) = &self.file else {
            if code == result_code::OK {
                tracing::info!(target: "spikelet::audit", ?user, %peer, action, "{result}");
            } else {
                tracing::warn!(target: "spikelet::audit", ?user, %peer, action, "{result}");
            }
            return;
        };
        let unix_ms = now_ms + EPOCH_UNIX_SECONDS * 1000;
        let line = format!(
            "{}.{:03} user {user:?} from {peer}: {action}: {result}\n",
            unix_ms / 1000,
            unix_ms % 1000
        );
        let mut file = file.lock();
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}
