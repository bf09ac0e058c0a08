//! The endpoint: its threads, its start and its end.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::http::{self, Channel, HttpRequest, Response};
#[cfg(feature = "backup")]
use super::records;
use super::sampler::{ConnectionCount, Sampler};
use super::snapshot::StoreSnapshot;
use super::{changes, metrics};
#[cfg(feature = "tls")]
use crate::TlsIdentity;
use crate::basic_login::{BASIC_CHALLENGE, BasicLogin};
use crate::prometheus::MetricsForm;
use crate::{Error, Result, Store};

/// The port that is listened on by default.
pub const DEFAULT_PORT: u16 = 9146;

/// How many requests are answered at once.
const WORKERS: usize = 4;

/// How often the store is looked at.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// How many hot records are listed by default.
const HOT_RECORDS: usize = 20;

/// How long accepting pauses when the process has no more files to open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long ending waits for its own connection to wake a thread.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

const PAGE: &str = include_str!("page.html");

/// An endpoint for watching a store. It ends when it is dropped.
#[derive(Debug)]
pub struct Monitor {
    addr: SocketAddr,
    shared: Arc<ListenerShared>,
    threads: Vec<JoinHandle<()>>,
}

/// How an endpoint is started. From [`Monitor::builder`].
#[derive(Clone, Debug)]
pub struct MonitorBuilder {
    store: Store,
    listen: SocketAddr,
    hot_records: usize,
    connections: Option<ConnectionCount>,
    serves_records: bool,
    logins: Option<LoginCheck>,
    #[cfg(feature = "tls")]
    tls: Option<TlsIdentity>,
}

/// Who asks, for [`MonitorBuilder::logins`].
#[non_exhaustive]
pub struct MonitorLogin<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The password as it was typed.
    pub password: &'a str,
    /// The address of the client.
    pub peer: IpAddr,
    /// Whether whole records, or changes, are asked for.
    pub for_records: bool,
}

impl std::fmt::Debug for MonitorLogin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MonitorLogin")
            .field("user", &self.user)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Checks a login.
#[derive(Clone)]
struct LoginCheck(Arc<dyn Fn(&MonitorLogin<'_>) -> bool + Send + Sync>);

impl std::fmt::Debug for LoginCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoginCheck")
    }
}

/// What the threads share.
#[derive(Debug)]
struct ListenerShared {
    store: Store,
    /// Whether requests must name this machine.
    local_only: bool,
    serves_records: bool,
    logins: Option<LoginCheck>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ServerConfig>>,
    state: Mutex<ListenerState>,
    /// Woken when the endpoint ends.
    ending: Condvar,
}

#[derive(Debug)]
struct ListenerState {
    latest: Arc<StoreSnapshot>,
    is_ending: bool,
    /// The connections under way, by worker.
    under_way: [Option<TcpStream>; WORKERS],
}

impl ListenerShared {
    fn state(&self) -> MutexGuard<'_, ListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitor {
    /// Returns a builder of an endpoint for this store, on port [`DEFAULT_PORT`] of 127.0.0.1
    /// unless [`MonitorBuilder::listen`] says otherwise. The store stays open while the endpoint
    /// lives, unless it is closed.
    #[must_use]
    pub fn builder(store: &Store) -> MonitorBuilder {
        MonitorBuilder {
            store: store.clone(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            hot_records: HOT_RECORDS,
            connections: None,
            serves_records: false,
            logins: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Returns where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn shut_down(&mut self) {
        let mut state = self.shared.state();
        state.is_ending = true;
        for stream in state.under_way.iter().flatten() {
            // Its client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.ending.notify_all();
        let mut wake = self.addr;
        match wake.ip() {
            IpAddr::V4(any) if any.is_unspecified() => wake.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(any) if any.is_unspecified() => wake.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        for _ in 0..WORKERS {
            // Where it fails, enough connections wait already to wake every thread.
            let _ = TcpStream::connect_timeout(&wake, WAKE_TIMEOUT);
        }
        for thread in self.threads.drain(..) {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl MonitorBuilder {
    /// Listens on this address; port 0 takes a free one. All who reach it can read keys: take an
    /// address that others reach only where that may be.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it names no address.
    pub fn listen(mut self, addr: impl ToSocketAddrs) -> Result<Self> {
        let found = addr.to_socket_addrs().map_err(|error| {
            Error::parameter(format!(
                "not an address to listen on: {error}; give host:port"
            ))
        })?;
        self.listen = found
            .into_iter()
            .next()
            .ok_or_else(|| Error::parameter("the host to listen on has no address"))?;
        Ok(self)
    }

    /// Returns the address that it is going to listen on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.listen
    }

    /// Lists this many hot records of each namespace, 64 at most. Default: 20.
    #[must_use]
    pub const fn hot_records(mut self, most: usize) -> Self {
        self.hot_records = most;
        self
    }

    /// Shows how many connections of clients a server of this store has, as `count` says. Not shown
    /// otherwise.
    #[must_use]
    pub fn connections(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.connections = Some(ConnectionCount(Arc::new(count)));
        self
    }

    /// Answers only requests with a login (`Authorization: Basic`) that `check` lets pass; others
    /// get 401. A server of the store checks its users:
    /// [`ServerHandle::login_check`](crate::server::ServerHandle::login_check). Default: no login
    /// is asked for.
    #[must_use]
    pub fn logins(
        mut self,
        check: impl Fn(&MonitorLogin<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.logins = Some(LoginCheck(Arc::new(check)));
        self
    }

    /// Encrypts all connections. Default: none.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, identity: TlsIdentity) -> Self {
        self.tls = Some(identity);
        self
    }

    /// Gives whole records to all clients, by `/records.asb`, and keeps changes for them by a
    /// subscription: needed by `spikelet move`, which copies a running store into a cluster.
    /// Default: keys and positions of changes only.
    #[cfg(feature = "backup")]
    #[must_use]
    pub const fn serve_records(mut self, serves: bool) -> Self {
        self.serves_records = serves;
        self
    }

    /// Starts the endpoint on threads of its own. It answers when this returns.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the address cannot be listened on, or no thread can be started.
    pub fn start(self) -> Result<Monitor> {
        let cannot_listen = |error| {
            Error::parameter(format!(
                "cannot listen on {}: {error}; choose another port, or 0 for a free one",
                self.listen
            ))
        };
        #[cfg(feature = "tls")]
        let tls = self.tls.as_ref().map(TlsIdentity::config).transpose()?;
        let listener = TcpListener::bind(self.listen).map_err(cannot_listen)?;
        let addr = listener.local_addr().map_err(cannot_listen)?;
        let mut sampler = Sampler::new(self.store.clone(), self.hot_records, self.connections);
        let shared = Arc::new(ListenerShared {
            store: self.store,
            local_only: addr.ip().is_loopback(),
            serves_records: self.serves_records,
            logins: self.logins,
            #[cfg(feature = "tls")]
            tls,
            state: Mutex::new(ListenerState {
                latest: Arc::new(sampler.sample(Instant::now())),
                is_ending: false,
                under_way: Default::default(),
            }),
            ending: Condvar::new(),
        });
        // From here on dropping it ends the threads that run already.
        let mut monitor = Monitor {
            addr,
            shared: Arc::clone(&shared),
            threads: Vec::with_capacity(WORKERS + 1),
        };
        let sampling = Arc::clone(&shared);
        monitor.spawn(move || sample(&sampling, sampler))?;
        let listener = Arc::new(listener);
        for worker in 0..WORKERS {
            let (shared, listener) = (Arc::clone(&shared), Arc::clone(&listener));
            monitor.spawn(move || answer_all(&shared, &listener, worker))?;
        }
        Ok(monitor)
    }
}

impl Monitor {
    fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let builder = std::thread::Builder::new().name("spikelet-monitor".to_owned());
        let thread = builder.spawn(run).map_err(|error| {
            Error::parameter(format!("cannot start a thread of the monitor: {error}"))
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

/// Looks at the store until the endpoint ends.
fn sample(shared: &ListenerShared, mut sampler: Sampler) {
    loop {
        let state = shared.state();
        let is_going_on = |state: &mut ListenerState| !state.is_ending;
        let waited = shared
            .ending
            .wait_timeout_while(state, SAMPLE_PERIOD, is_going_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_ending {
            return;
        }
        drop(state);
        let latest = Arc::new(sampler.sample(Instant::now()));
        shared.state().latest = latest;
    }
}

/// Answers one request after the other until the endpoint ends.
fn answer_all(shared: &ListenerShared, listener: &TcpListener, worker: usize) {
    loop {
        let accepted = listener.accept();
        let mut state = shared.state();
        if state.is_ending {
            return;
        }
        let Ok((stream, peer)) = accepted else {
            drop(state);
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        if let Some(place) = state.under_way.get_mut(worker) {
            // Without a second handle, ending waits for the limits of the request.
            *place = stream.try_clone().ok();
        }
        drop(state);
        #[cfg(feature = "tls")]
        let tls = match shared.tls.clone().map(rustls::ServerConnection::new) {
            None => None,
            Some(Ok(tls)) => Some(tls),
            Some(Err(_)) => continue,
        };
        let mut channel = Channel {
            socket: &stream,
            #[cfg(feature = "tls")]
            tls,
        };
        // A client that hangs or goes away is not waited for.
        let _ = http::serve(&mut channel, shared.local_only, |request| {
            if may_ask(shared, request, peer.ip()) {
                answer(shared, request)
            } else {
                Response {
                    headers: BASIC_CHALLENGE.to_owned(),
                    ..Response::refused("401 Unauthorized", "log in as a user who may see this")
                }
            }
        });
        if let Some(place) = shared.state().under_way.get_mut(worker) {
            *place = None;
        }
    }
}

fn may_ask(shared: &ListenerShared, request: &HttpRequest<'_>, peer: IpAddr) -> bool {
    let Some(LoginCheck(check)) = &shared.logins else {
        return true;
    };
    let login = BasicLogin::parse(request.authorization);
    login.is_some_and(|login| {
        check(&MonitorLogin {
            user: &login.user,
            password: &login.password,
            peer,
            for_records: matches!(request.path, "/records.asb" | "/changes.json"),
        })
    })
}

fn answer(shared: &ListenerShared, request: &HttpRequest<'_>) -> Response {
    let latest = Arc::clone(&shared.state().latest);
    match request.path {
        "/" => page(),
        "/hot.json" => Response::json(&*latest),
        "/metrics" => {
            let form = MetricsForm::accepted(request.accept);
            let text = metrics::render(&shared.store, &latest, form);
            Response::ok(form.content_type(), text)
        }
        "/changes.json" => changes::answer(&shared.store, request.query, shared.serves_records),
        #[cfg(feature = "backup")]
        "/records.asb" if shared.serves_records => records::answer(&shared.store, request.query),
        "/records.asb" => Response::refused(
            "403 Forbidden",
            "this monitor gives no records: MonitorBuilder::serve_records has it do so, or `spikelet serve --monitor-records`",
        ),
        _ => Response::refused(
            "404 Not Found",
            "there are /, /hot.json, /metrics, /changes.json and /records.asb",
        ),
    }
}

/// The page. Its script is run because it bears the number that the answer names, and no other is.
fn page() -> Response {
    let nonce = format!(
        "{:016x}{:016x}",
        RandomState::new().hash_one(1),
        RandomState::new().hash_one(2)
    );
    let headers = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'\r\n"
    );
    Response {
        headers,
        ..Response::ok("text/html; charset=utf-8", PAGE.replace("{nonce}", &nonce))
    }
}
