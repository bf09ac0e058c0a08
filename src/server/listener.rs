//! The server: its runtime, accepting connections, and stopping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::builder::ServerBuilder;
use super::connection;
use super::metrics;
#[cfg(feature = "monitor")]
use super::security::Permissions;
use super::security::Security;
use super::shared::ServerShared;
use super::stream::Acceptor;
use crate::http::{Endpoint, EndpointOptions};
#[cfg(feature = "monitor")]
use crate::monitor::MonitorLogin;
use crate::{Error, Result};

/// How long stopping waits for requests that are being executed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long ending waits, after that, for what blocks a thread.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// How often open transactions are checked for a deadline that has passed, and builds of indexes
/// for their end.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// How long accepting pauses when the process has no more files to open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A running server. It is stopped by [`ServerHandle::stop`], or when the handle is dropped.
pub struct ServerHandle {
    addr: SocketAddr,
    tls: Option<SocketAddr>,
    metrics: Option<Endpoint>,
    shared: Arc<ServerShared>,
    /// Ends when the last connection has.
    ended: Option<mpsc::Receiver<()>>,
    runtime: Option<Runtime>,
}

impl ServerBuilder {
    /// Starts the server on threads of its own. It answers when this returns.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the address cannot be listened on, or a namespace hashes keys
    /// differently from clients; if other machines reach an address and there is no
    /// [`ServerBuilder::security`], or the first user still has the first password.
    pub fn start(self) -> Result<ServerHandle> {
        let cannot = |what: &str, error: &io::Error| Error::parameter(format!("{what}: {error}"));
        let security = self.security.as_ref();
        let security = security.map(|options| Security::open(&self.store, options));
        let security = security.transpose()?;
        let listeners = self.listeners()?;
        let own = listeners.iter().map(|(addr, _)| *addr);
        let own: Vec<SocketAddr> = own.chain(self.metrics).collect();
        for addr in own.iter().chain(&self.beside) {
            check_reach(*addr, security.as_ref(), self.allows_remote)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("spikelet-server")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| cannot("cannot start the server's threads", &error))?;
        let bind = |(addr, acceptor)| {
            let bound = bind(addr, &runtime)
                .map_err(|error| cannot(&format!("cannot listen on {addr}"), &error));
            bound.map(|(addr, listener)| (addr, listener, acceptor))
        };
        let bound: Result<Vec<_>> = listeners.into_iter().map(bind).collect();
        let bound = bound?;
        let mut addrs = bound.iter().map(|(addr, ..)| *addr);
        let addr = addrs.next().unwrap_or(self.listen);
        let tls = addrs.next();
        let shared = Arc::new(ServerShared::new(&self, addr.port(), security)?);
        let (alive, ended) = mpsc::channel(1);
        let metrics_options = EndpointOptions {
            name: "spikelet-metrics",
            checks_host: false,
            #[cfg(feature = "tls")]
            tls: self.metrics_tls.clone(),
        };
        let serve_metrics = |addr| metrics::serve(&shared, addr, &metrics_options);
        let metrics = self.metrics.map(serve_metrics).transpose()?;
        runtime.spawn(watch(Arc::clone(&shared)));
        for (addr, listener, acceptor) in bound {
            tracing::info!(%addr, ?acceptor, node = %shared.node, "listening");
            let (shared, alive) = (Arc::clone(&shared), alive.clone());
            runtime.spawn(accept(shared, (listener, acceptor), alive));
        }
        Ok(ServerHandle {
            addr,
            tls,
            metrics,
            shared,
            ended: Some(ended),
            runtime: Some(runtime),
        })
    }

    /// Where to listen, and how connections begin there: plain ones, then encrypted ones.
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unnecessary_wraps, reason = "as with TLS")
    )]
    fn listeners(&self) -> Result<Vec<(SocketAddr, Acceptor)>> {
        let plain = (self.listen, Acceptor::default());
        #[cfg(feature = "tls")]
        if let Some((addr, identity)) = &self.listen_tls {
            return Ok(vec![plain, (*addr, Acceptor::tls(identity)?)]);
        }
        Ok(vec![plain])
    }
}

impl ServerHandle {
    /// Where the server listens for encrypted connections, if it does.
    #[must_use]
    pub const fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls
    }

    /// Where the server listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where it serves metrics, if it does.
    #[must_use]
    pub const fn metrics_addr(&self) -> Option<SocketAddr> {
        match &self.metrics {
            Some(endpoint) => Some(endpoint.addr()),
            None => None,
        }
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.counters.open.get()
    }

    /// Returns a count of the open connections for
    /// [`MonitorBuilder::connections`](crate::monitor::MonitorBuilder::connections).
    #[cfg(feature = "monitor")]
    pub fn connection_count(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        // A monitor outlives the server, whose end rolls back the transactions of its clients.
        let shared = Arc::downgrade(&self.shared);
        move || {
            let shared = shared.upgrade();
            shared.map_or(0, |shared| shared.counters.open.get())
        }
    }

    /// Returns a check of logins for
    /// [`MonitorBuilder::logins`](crate::monitor::MonitorBuilder::logins): users of this server who
    /// may read all records, or have the role `sys-admin`, see hot records; only the former get
    /// records. Without [`ServerBuilder::security`] it refuses all.
    #[cfg(feature = "monitor")]
    pub fn login_check(&self) -> impl Fn(&MonitorLogin<'_>) -> bool + Send + Sync + use<> {
        let security = self.shared.security.clone();
        move |login| {
            let all = [Permissions::READ, Permissions::SYSTEM];
            let needed = if login.for_records {
                &[Permissions::READ][..]
            } else {
                &all
            };
            security.as_ref().is_some_and(|security| {
                security.allows(login.user, login.password, login.peer, needed)
            })
        }
    }

    /// Stops the server: no more connections, no more requests. Requests that are being executed
    /// are answered, if that takes no longer than 5 s. The store stays open.
    pub fn stop(self) {
        drop(self);
    }
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("ServerHandle");
        shown.field("addr", &self.addr).finish_non_exhaustive()
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        let (Some(runtime), Some(mut ended)) = (self.runtime.take(), self.ended.take()) else {
            return;
        };
        self.metrics = None;
        self.shared.close();
        // On a thread of its own, since the caller may be one of another runtime, which must not be
        // blocked by ours.
        let wait = move || {
            let all_ended = async { tokio::time::timeout(STOP_TIMEOUT, ended.recv()).await };
            if runtime.block_on(all_ended).is_err() {
                tracing::warn!("requests are still being executed after {STOP_TIMEOUT:?}");
            }
            runtime.shutdown_timeout(END_TIMEOUT);
        };
        // It has nothing to return, and a panic of it has been reported.
        let _ = std::thread::spawn(wait).join();
    }
}

/// Rolls back transactions that have passed their deadline (a request that meets one of their
/// records does so, too), and notes how builds of indexes end.
async fn watch(shared: Arc<ServerShared>) {
    let mut ticks = tokio::time::interval(WATCH_PERIOD);
    loop {
        ticks.tick().await;
        for served in &shared.namespaces {
            served.transactions.expire_due();
            served.builds.note_ended();
        }
    }
}

/// Accepts connections until the server stops. Each holds a clone of `alive`.
async fn accept(
    shared: Arc<ServerShared>,
    (listener, acceptor): (TcpListener, Acceptor),
    alive: mpsc::Sender<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.told_to_stop() => return,
        };
        match accepted {
            Ok((stream, _)) => open(&shared, (stream, &acceptor), &alive),
            // The client is gone already, or there are no more files to open: others must close
            // first.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn open(
    shared: &Arc<ServerShared>,
    (stream, acceptor): (TcpStream, &Acceptor),
    alive: &mpsc::Sender<()>,
) {
    let counters = &shared.counters;
    let most = shared.limits.max_connections.load(Ordering::Relaxed);
    let Some(open) = counters.open.enter(most) else {
        counters.refused.count();
        tracing::warn!("too many connections: one is refused");
        return;
    };
    counters.opened.count();
    let (shared, alive, acceptor) = (Arc::clone(shared), alive.clone(), acceptor.clone());
    tokio::spawn(async move {
        let begun = tokio::select! {
            begun = acceptor.begin(stream) => Some(begun),
            () = shared.told_to_stop() => None,
        };
        match begun {
            Some(Ok(stream)) => connection::serve(shared, stream).await,
            Some(Err(error)) => {
                tracing::warn!(%error, "a connection is not encrypted as it must be")
            }
            None => {}
        }
        drop((open, alive));
    });
}

/// Refuses an address that others reach while everybody may do everything, or knows the password.
fn check_reach(addr: SocketAddr, security: Option<&Security>, allows_remote: bool) -> Result<()> {
    match security {
        _ if addr.ip().is_loopback() => Ok(()),
        None if !allows_remote => Err(Error::parameter(format!(
            "other machines reach {addr}, and the server has no users: switch security on (ServerBuilder::security, `serve --security`), or let everybody do everything (ServerBuilder::allow_remote_without_security, `serve --allow-remote`)"
        ))),
        Some(security) if security.users.has_first_password() => Err(Error::parameter(format!(
            "other machines reach {addr}, and admin still has the first password: listen on 127.0.0.1 and change it, or give another one at the first start (SecurityOptions::first_password, `serve --first-password-file`)"
        ))),
        _ => Ok(()),
    }
}

/// A listener, known to the runtime.
fn bind(addr: SocketAddr, runtime: &Runtime) -> io::Result<(SocketAddr, TcpListener)> {
    let listener = std::net::TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let _entered = runtime.enter();
    Ok((addr, TcpListener::from_std(listener)?))
}
