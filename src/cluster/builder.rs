//! How a cluster is connected to.

use std::fmt;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aerospike::{AuthMode, Client, ClientPolicy};
use tokio::runtime::Handle;

use super::Cluster;
use super::failure::of_cluster;
use super::link::{Link, Threads, pinnable, run, runtime, wait};
use super::tls::{self, TlsFiles};
use crate::setters::setters;
use crate::{Error, Result};

/// Threads that serve the client's connections.
const THREADS: usize = 2;
/// How often a read is repeated after a failure of the network.
const READ_RETRIES: usize = 2;

/// How to connect to a cluster. See [`Cluster::builder`].
#[derive(Clone)]
pub struct ClusterBuilder {
    hosts: String,
    namespace: Option<Box<str>>,
    login: Option<(String, String)>,
    tls: Option<TlsFiles>,
    connect_timeout: Duration,
    read_retries: usize,
    alternate_addresses: bool,
    error_rate_max: Option<usize>,
}

/// Without the password.
impl fmt::Debug for ClusterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterBuilder")
            .field("hosts", &self.hosts)
            .field("namespace", &self.namespace)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl ClusterBuilder {
    pub(super) fn new(hosts: &str) -> Self {
        Self {
            hosts: hosts.to_owned(),
            namespace: None,
            login: None,
            tls: None,
            connect_timeout: Duration::from_secs(1),
            read_retries: READ_RETRIES,
            alternate_addresses: false,
            error_rate_max: None,
        }
    }

    setters! { in
        /// Chooses the namespace. Needed unless the cluster has only one.
        namespace(namespace: &str) => namespace = Some(namespace.into()),
        /// Logs in with a user name and a password. The password is sent as a hash.
        login(user: impl Into<String>, password: impl Into<String>) =>
            login = Some((user.into(), password.into())),
        /// Encrypts all connections.
        tls(files: TlsFiles) => tls = Some(files),
    }

    setters! { const
        /// Sets how long a connection may take to be made. Default: 1 s.
        connect_timeout: Duration,
        /// Sets how often a read is repeated after a failure of the network. Default: 2. Writes are
        /// never repeated.
        read_retries: usize,
        /// Uses the alternate addresses that nodes give: for clients outside of the servers'
        /// network.
        alternate_addresses: bool,
    }

    setters! { in const
        /// Sets after how many errors of a node in a second, `KEY_BUSY` among them, the client
        /// refuses calls to it for a while without sending them; 0: never. Default: the client's,
        /// 100.
        error_rate_max(errors: usize) => error_rate_max = Some(errors),
    }

    /// Connects to the cluster and learns its nodes. Blocks. The client has two threads of its own.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if no node can be reached, refuses the login, or
    /// has another certificate; [`Error::Namespace`](crate::Error::Namespace) and
    /// [`Error::Parameter`](crate::Error::Parameter) for a namespace that is not there, or was not
    /// chosen among several.
    pub fn connect(&self) -> Result<Cluster> {
        wait(self.connect_in(Threads::Own(Some(runtime(THREADS)?))))
    }

    /// [`ClusterBuilder::connect`] for a program of Tokio tasks: the client works in their runtime,
    /// so that the calls of an [`AsyncSet`](super::AsyncSet) wake no other thread. Outside of a
    /// Tokio runtime the client has threads of its own.
    ///
    /// Calls that block, on a [`ClusterSet`](super::ClusterSet) and on handles, are refused in
    /// tasks of this runtime with [`Error::Parameter`](crate::Error::Parameter), and also in
    /// Tokio's `spawn_blocking`, which looks the same: make them in [`Cluster::run_blocking`], or
    /// in a thread of your own. The runtime must enable I/O and time, and outlive the cluster's
    /// calls.
    ///
    /// # Errors
    /// As for [`ClusterBuilder::connect`].
    pub async fn connect_async(&self) -> Result<Cluster> {
        let threads = match Handle::try_current() {
            Ok(handle) => Threads::Callers(handle),
            Err(_) => Threads::Own(Some(runtime(THREADS)?)),
        };
        self.connect_in(threads).await
    }

    async fn connect_in(&self, mut threads: Threads) -> Result<Cluster> {
        self.check_hosts()?;
        let policy = self.client_policy()?;
        let connecting = pin!(pinnable(Client::new(&policy, &self.hosts)));
        let client = run(threads.handle()?, connecting).await;
        let named = self.namespace.as_deref().unwrap_or_default();
        let client = client.and_then(|client| client.map_err(|error| of_cluster(&error, named)));
        match client {
            Ok(client) => {
                let link = Link::new(client, threads, self.namespace.clone(), self.read_retries);
                let link = Arc::new(link.await?);
                Ok(Cluster { link })
            }
            Err(error) => {
                threads.end(ready(()));
                Err(error)
            }
        }
    }

    /// Refuses what the client would take for the name in a certificate, and connect to its default
    /// port.
    fn check_hosts(&self) -> Result<()> {
        for host in self.hosts.split(',') {
            // An address of version 6 has colons itself.
            let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
            let tail: Vec<&str> = after.split(':').skip(1).collect();
            let is_port = |port: &str| port.parse().is_ok_and(|port: u16| port > 0);
            let is_named = match *tail {
                [] => !host.is_empty(),
                [port] => is_port(port) || self.tls.is_some() && port.parse::<u64>().is_err(),
                [_, port] => self.tls.is_some() && is_port(port),
                _ => false,
            };
            if !is_named {
                return Err(Error::parameter(format!(
                    "\"{host}\" is no node: HOST[:PORT], with a port from 1 to 65535; with TLS also HOST:NAME[:PORT]"
                )));
            }
        }
        Ok(())
    }

    fn client_policy(&self) -> Result<ClientPolicy> {
        let mut policy = ClientPolicy {
            fail_if_not_connected: true,
            use_services_alternate: self.alternate_addresses,
            ..ClientPolicy::default()
        };
        policy.connect_timeout = u32::try_from(self.connect_timeout.as_millis())
            .unwrap_or(u32::MAX)
            .max(1);
        if let Some(errors) = self.error_rate_max {
            policy.max_error_rate = errors;
        }
        if let Some((user, password)) = &self.login {
            policy.auth_mode = AuthMode::Internal(user.clone(), password.clone());
        }
        if let Some(files) = &self.tls {
            policy.tls_policy = Some(tls::policy(files)?);
        }
        Ok(policy)
    }
}
