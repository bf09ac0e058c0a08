//! The endpoint: its start and its end.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::answers::json;
#[cfg(feature = "backup")]
use super::records;
use super::sampler::{ConnectionCount, Hidden, Sampler};
use super::snapshot::StoreSnapshot;
use super::{changes, metrics};
#[cfg(feature = "tls")]
use crate::TlsIdentity;
use crate::basic_login::BasicLogin;
use crate::http::{Endpoint, EndpointOptions, HttpRequest, Response, resolve};
use crate::prometheus::MetricsForm;
use crate::setters::setters;
use crate::{Error, Result, Store};

/// The port that is listened on by default.
pub const DEFAULT_PORT: u16 = 9146;

/// How often the store is looked at.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// How many hot records are listed by default.
const HOT_RECORDS: usize = 20;

const PAGE: &str = include_str!("page.html");

/// An endpoint for watching a store. It ends when it is dropped.
#[derive(Debug)]
pub struct Monitor {
    endpoint: Endpoint,
    shared: Arc<ListenerShared>,
    sampling: Option<JoinHandle<()>>,
}

/// How an endpoint is started. From [`Monitor::builder`].
#[derive(Clone, Debug)]
pub struct MonitorBuilder {
    store: Store,
    listen: SocketAddr,
    hot_records: usize,
    connections: Option<Hidden<ConnectionCount>>,
    serves_records: bool,
    logins: Option<Hidden<LoginCheck>>,
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
type LoginCheck = dyn Fn(&MonitorLogin<'_>) -> bool + Send + Sync;

/// What the threads share.
#[derive(Debug)]
struct ListenerShared {
    store: Store,
    serves_records: bool,
    logins: Option<Hidden<LoginCheck>>,
    state: Mutex<ListenerState>,
    /// Woken when the endpoint ends.
    ending: Condvar,
}

#[derive(Debug)]
struct ListenerState {
    latest: Arc<StoreSnapshot>,
    is_ending: bool,
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
        self.endpoint.addr()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.state.lock().is_ending = true;
        self.shared.ending.notify_all();
        if let Some(thread) = self.sampling.take() {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

impl MonitorBuilder {
    /// Listens on this address; port 0 takes a free one. All who reach it can read keys: take an
    /// address that others reach only where that may be.
    ///
    /// # Errors
    /// [`Error::Parameter`] if it names no address.
    pub fn listen(mut self, addr: impl ToSocketAddrs) -> Result<Self> {
        self.listen = resolve(addr)?;
        Ok(self)
    }

    /// Returns the address that it is going to listen on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.listen
    }

    setters! { in const
        /// Lists this many hot records of each namespace, 64 at most. Default: 20.
        hot_records(most: usize) => hot_records = most,
        /// Gives whole records to all clients, by `/records.asb`, and keeps changes for them by a
        /// subscription: needed by `spikelet move`, which copies a running store into a cluster.
        /// Default: keys and positions of changes only.
        #[cfg(feature = "backup")]
        serve_records(serves: bool) => serves_records = serves,
    }

    /// Shows how many connections of clients a server of this store has, as `count` says. Not shown
    /// otherwise.
    #[must_use]
    pub fn connections(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.connections = Some(Hidden(Arc::new(count)));
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
        self.logins = Some(Hidden(Arc::new(check)));
        self
    }

    setters! { in
        /// Encrypts all connections. Default: none.
        #[cfg(feature = "tls")]
        tls(identity: TlsIdentity) => tls = Some(identity),
    }

    /// Starts the endpoint on threads of its own. It answers when this returns.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the address cannot be listened on, or no thread can be started.
    pub fn start(self) -> Result<Monitor> {
        let options = EndpointOptions {
            name: "spikelet-monitor",
            checks_host: true,
            #[cfg(feature = "tls")]
            tls: self.tls,
        };
        let mut sampler = Sampler::new(self.store.clone(), self.hot_records, self.connections);
        let shared = Arc::new(ListenerShared {
            store: self.store,
            serves_records: self.serves_records,
            logins: self.logins,
            state: Mutex::new(ListenerState {
                latest: Arc::new(sampler.sample(Instant::now())),
                is_ending: false,
            }),
            ending: Condvar::new(),
        });
        let asked = Arc::clone(&shared);
        let endpoint = Endpoint::start(self.listen, &options, move |request, peer| {
            if may_ask(&asked, request, peer) {
                answer(&asked, request)
            } else {
                Response::unauthorized("log in as a user who may see this")
            }
        })?;
        let sampled = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name(options.name.to_owned());
        let sampling = builder.spawn(move || sample(&sampled, sampler));
        let sampling = sampling.map_err(|error| {
            Error::parameter(format!("cannot start a thread of the monitor: {error}"))
        })?;
        Ok(Monitor {
            endpoint,
            shared,
            sampling: Some(sampling),
        })
    }
}

/// Looks at the store until the endpoint ends.
fn sample(shared: &ListenerShared, mut sampler: Sampler) {
    loop {
        let mut state = shared.state.lock();
        let is_going_on = |state: &mut ListenerState| !state.is_ending;
        shared
            .ending
            .wait_while_for(&mut state, is_going_on, SAMPLE_PERIOD);
        if state.is_ending {
            return;
        }
        drop(state);
        let latest = Arc::new(sampler.sample(Instant::now()));
        shared.state.lock().latest = latest;
    }
}

fn may_ask(shared: &ListenerShared, request: &HttpRequest<'_>, peer: IpAddr) -> bool {
    let Some(Hidden(check)) = &shared.logins else {
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
    let latest = Arc::clone(&shared.state.lock().latest);
    match request.path {
        "/" => page(),
        "/hot.json" => json(&*latest),
        "/metrics" => {
            let form = MetricsForm::accepted(request.accept);
            let text = metrics::render(&shared.store, &latest, form);
            Response::ok(form.content_type(), text)
        }
        "/changes.json" => changes::answer(&shared.store, request, shared.serves_records),
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
