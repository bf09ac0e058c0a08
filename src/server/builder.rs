//! How a server is started.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::security::SecurityOptions;
use super::served::HoldConfig;
#[cfg(doc)]
use crate::Error;
#[cfg(feature = "tls")]
use crate::TlsIdentity;
use crate::http::resolve;
use crate::setters::setters;
use crate::{Result, Store};

/// Serves a store to Aerospike clients. Begin with [`Server::builder`].
#[derive(Debug)]
pub struct Server {
    _private: (),
}

/// How a server is started. From [`Server::builder`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    pub(super) store: Store,
    pub(super) listen: SocketAddr,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) cluster_name: Option<String>,
    pub(super) max_connections: usize,
    /// How long a connection may be silent between requests; `None`: as long as it likes.
    pub(super) idle_timeout: Option<Duration>,
    /// The most rows of a batch; 0: as many as fit.
    pub(super) max_batch_rows: u32,
    /// Nothing expires in these namespaces.
    pub(super) no_expiry: Vec<String>,
    /// Namespaces that clients see as strongly consistent.
    pub(super) strongly_consistent: Vec<String>,
    /// All namespaces behave as Aerospike's Community Edition.
    pub(super) like_ce: bool,
    /// Which writes keep their record for a while; `None`: none does.
    pub(super) hold: Option<HoldConfig>,
    pub(super) security: Option<SecurityOptions>,
    pub(super) allows_remote: bool,
    pub(super) beside: Vec<SocketAddr>,
    #[cfg(feature = "tls")]
    pub(super) listen_tls: Option<(SocketAddr, TlsIdentity)>,
    #[cfg(feature = "tls")]
    pub(super) metrics_tls: Option<TlsIdentity>,
}

impl Server {
    /// A server of a store, on a free port of 127.0.0.1 unless [`ServerBuilder::listen`] says
    /// otherwise.
    ///
    /// All namespaces that the store has when the server starts are served. They must hash keys as
    /// clients do, by [`KeyHash::Ripemd160`](crate::record::KeyHash::Ripemd160). Several servers of
    /// a store have the same users, roles, quotas and modules of functions; sessions are of one
    /// server.
    ///
    /// ```
    /// use spikelet::{NamespaceConfig, Store};
    /// use spikelet::record::KeyHash;
    /// use spikelet::server::Server;
    ///
    /// # fn main() -> spikelet::Result<()> {
    /// let mut config = NamespaceConfig::new("test");
    /// config.key_hash = KeyHash::Ripemd160;
    /// let store = Store::builder().namespace(config).open()?;
    /// let server = Server::builder(&store).start()?;
    /// println!("point a client at {}", server.addr());
    /// server.stop();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn builder(store: &Store) -> ServerBuilder {
        ServerBuilder {
            store: store.clone(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            metrics: None,
            cluster_name: None,
            max_connections: 15_000,
            idle_timeout: None,
            max_batch_rows: 0,
            no_expiry: Vec::new(),
            strongly_consistent: Vec::new(),
            like_ce: false,
            hold: None,
            security: None,
            allows_remote: false,
            beside: Vec::new(),
            #[cfg(feature = "tls")]
            listen_tls: None,
            #[cfg(feature = "tls")]
            metrics_tls: None,
        }
    }
}

impl ServerBuilder {
    /// Listens on this address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it names no address.
    pub fn listen(mut self, addr: impl ToSocketAddrs) -> Result<Self> {
        self.listen = resolve(addr)?;
        Ok(self)
    }

    /// Serves metrics as text in Prometheus' form over HTTP on this address. Default: none.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it names no address.
    pub fn metrics(mut self, addr: impl ToSocketAddrs) -> Result<Self> {
        self.metrics = Some(resolve(addr)?);
        Ok(self)
    }

    /// Listens on this address, too, for encrypted connections.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it names no address.
    #[cfg(feature = "tls")]
    pub fn listen_tls(mut self, addr: impl ToSocketAddrs, identity: TlsIdentity) -> Result<Self> {
        self.listen_tls = Some((resolve(addr)?, identity));
        Ok(self)
    }

    setters! {
        /// Encrypts the connections of [`ServerBuilder::metrics`]. Default: plain.
        #[cfg(feature = "tls")]
        metrics_tls: TlsIdentity,
    }

    setters! { const
        /// The most connections at once; more are closed as they come. Default: 15,000,
        /// Aerospike's.
        max_connections: usize,
        /// Closes connections that send no request for this long. Default: never, Aerospike's.
        idle_timeout: Option<Duration>,
        /// The most rows of one batch; 0, the default: as many as fit into a message.
        max_batch_rows: u32,
    }

    setters! { in
        /// The name of the cluster, for clients that ask for one. Default: none.
        cluster_name(name: impl Into<String>) => cluster_name = Some(name.into()),
        /// Behaves as Aerospike's Community Edition where that differs from this server, for tests
        /// of programs that are to run on it: transactions and durable deletes are refused with
        /// code 25, records that were deleted are back after a restart, and a list with a persisted
        /// index is refused in a namespace in memory, where version 8.1.2 dies of it. Operations on
        /// what a query finds behave as ever. Writes come one after the other. Default: it does
        /// not.
        like_ce() => like_ce = true,
        /// Lets a server without [`ServerBuilder::security`] listen on an address that other
        /// machines reach: each of them may read, change and delete all records. Default: refused.
        allow_remote_without_security() => allows_remote = true,
    }

    /// Refuses times to live in this namespace, as Aerospike does where `nsup-period` is 0.
    #[must_use]
    pub fn without_expiry(mut self, namespace: impl Into<String>) -> Self {
        self.no_expiry.push(namespace.into());
        self
    }

    /// Reports this namespace as strongly consistent, since some clients ask before they use
    /// transactions. Nothing else changes: transactions work in every namespace, and every read
    /// sees the latest write. Default: not reported.
    #[must_use]
    pub fn strong_consistency(mut self, namespace: impl Into<String>) -> Self {
        self.strongly_consistent.push(namespace.into());
        self
    }

    /// Has every write of a client to these sets, or to any if none is named, keep its record for
    /// this long before it is executed, so that clients meet `KEY_BUSY` (error 14) as on a busy
    /// cluster: a rehearsal. Writers of a record wait in order, as many as
    /// [`NamespaceConfig::max_waiters`](crate::NamespaceConfig::max_waiters) says, and for as long
    /// as their timeouts say. Reads and other records do not wait; writers inside this process and
    /// queries in the background wait for a held record as for any writer. Default: nothing is
    /// kept.
    #[must_use]
    pub fn hold_writes(mut self, time: Duration, sets: &[&str]) -> Self {
        self.hold = Some(HoldConfig {
            time,
            sets: sets.iter().map(|set| (*set).into()).collect(),
        });
        self
    }

    setters! {
        /// Asks clients who they are, and lets each user do what its roles allow:
        /// [`SecurityOptions`]. The first user is `admin`, who may create others. Users and roles
        /// are kept with the first namespace of the store, and count for all. Default: everybody
        /// may do everything, and the server listens on this machine only.
        security: SecurityOptions,
    }

    /// The program will show the store at this address, too, such as by a
    /// [`Monitor`](crate::monitor::Monitor): [`ServerBuilder::start`] refuses it as it refuses an
    /// address of the server. May be called several times.
    #[must_use]
    pub fn beside(mut self, addr: SocketAddr) -> Self {
        self.beside.push(addr);
        self
    }
}
