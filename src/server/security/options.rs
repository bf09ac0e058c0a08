//! How a server is secured.

use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::setters::setters;

/// Aerospike's default.
const SESSION_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How a server knows its users, for
/// [`ServerBuilder::security`](crate::server::ServerBuilder::security).
///
/// ```
/// use spikelet::server::{SecurityOptions, Server, ServerConfig};
/// use spikelet::Store;
///
/// # fn main() -> spikelet::Result<()> {
/// let store = Store::builder().namespace(ServerConfig::namespace_of("test")).open()?;
/// let security = SecurityOptions::default().first_password("better than admin");
/// let server = Server::builder(&store).security(security).start()?;
/// println!("log in as admin at {}", server.addr());
/// # server.stop();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SecurityOptions {
    pub(super) session_time: Duration,
    pub(super) first_password: Option<Zeroizing<String>>,
    pub(super) audit_file: Option<PathBuf>,
    pub(super) audit_data: Vec<(String, String)>,
}

impl Default for SecurityOptions {
    fn default() -> Self {
        Self {
            session_time: SESSION_TIME,
            first_password: None,
            audit_file: None,
            audit_data: Vec::new(),
        }
    }
}

impl std::fmt::Debug for SecurityOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecurityOptions")
            .field("session_time", &self.session_time)
            .field("audit_file", &self.audit_file)
            .field("audit_data", &self.audit_data)
            .finish_non_exhaustive()
    }
}

impl SecurityOptions {
    setters! { const
        /// For how long a client may open connections after a login. Connections that are open stay
        /// so. Default: 24 hours, Aerospike's.
        session_time: Duration,
    }

    setters! { in
        /// The password of the first user, `admin`, where the store has no users yet. Default:
        /// `admin`, with which the server listens on this machine only.
        first_password(password: impl Into<String>) =>
            first_password = Some(Zeroizing::new(password.into())),
        /// Appends logins, refusals and changes of users and roles to this file, which only its
        /// owner may read if it is made here. Default: they go to the log of the process, with the
        /// target `spikelet::audit`.
        audit_file(file: impl Into<PathBuf>) => audit_file = Some(file.into()),
    }

    /// Notes every request about records of this set of a namespace, too; of all sets if `set` is
    /// empty. Default: none.
    #[must_use]
    pub fn audit_data(mut self, namespace: impl Into<String>, set: impl Into<String>) -> Self {
        self.audit_data.push((namespace.into(), set.into()));
        self
    }
}
