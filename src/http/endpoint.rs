//! An endpoint: a listener, and the threads that answer its requests.

use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Channel, HttpRequest, Response, TimedSocket, serve};
#[cfg(feature = "tls")]
use crate::TlsIdentity;
use crate::{Error, Result};

/// The threads of an endpoint. Each answers one request at a time, so this many silent or slow
/// clients, each for a few seconds, hold up the others.
const THREADS: usize = 4;

/// How long accepting pauses when the process has no more files to open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long ending waits for its own connection to wake a thread.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// How an endpoint listens.
pub(crate) struct EndpointOptions {
    /// The name of its threads.
    pub(crate) name: &'static str,
    /// Requests must name this machine as their host where only this machine reaches the address.
    pub(crate) checks_host: bool,
    /// `None`: connections are not encrypted.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsIdentity>,
}

/// Answers requests until it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    addr: SocketAddr,
    shared: Arc<EndpointShared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
#[derive(Debug)]
struct EndpointShared {
    listener: TcpListener,
    local_only: bool,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ServerConfig>>,
    state: Mutex<EndpointState>,
}

#[derive(Debug)]
struct EndpointState {
    is_ending: bool,
    /// The connections under way, by thread.
    under_way: Vec<Option<TcpStream>>,
}

/// The address to listen on.
///
/// # Errors
/// [`Error::Parameter`] if it names no address.
pub(crate) fn resolve(addr: impl ToSocketAddrs) -> Result<SocketAddr> {
    let found = addr.to_socket_addrs().map_err(|error| {
        Error::parameter(format!(
            "not an address to listen on: {error}; give host:port"
        ))
    })?;
    found
        .into_iter()
        .next()
        .ok_or_else(|| Error::parameter("the host to listen on has no address"))
}

impl Endpoint {
    /// Binds the address. Requests are answered once this returns.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the address cannot be listened on, or no thread can be started.
    pub(crate) fn start(
        addr: SocketAddr,
        options: &EndpointOptions,
        answer: impl Fn(&HttpRequest<'_>, IpAddr) -> Response + Send + Sync + 'static,
    ) -> Result<Self> {
        let cannot_listen = |error| {
            Error::parameter(format!(
                "cannot listen on {addr}: {error}; choose another port, or 0 for a free one"
            ))
        };
        #[cfg(feature = "tls")]
        let tls = options.tls.as_ref().map(TlsIdentity::config).transpose()?;
        let listener = TcpListener::bind(addr).map_err(cannot_listen)?;
        let addr = listener.local_addr().map_err(cannot_listen)?;
        let shared = Arc::new(EndpointShared {
            listener,
            local_only: options.checks_host && addr.ip().is_loopback(),
            #[cfg(feature = "tls")]
            tls,
            state: Mutex::new(EndpointState {
                is_ending: false,
                under_way: (0..THREADS).map(|_| None).collect(),
            }),
        });
        // From here on dropping it ends the threads that run already.
        let mut endpoint = Self {
            addr,
            shared: Arc::clone(&shared),
            threads: Vec::with_capacity(THREADS),
        };
        let answer = Arc::new(answer);
        for number in 0..THREADS {
            let (shared, answer) = (Arc::clone(&shared), Arc::clone(&answer));
            let thread = std::thread::Builder::new()
                .name(options.name.to_owned())
                .spawn(move || shared.answer_all(number, &*answer))
                .map_err(|error| {
                    Error::parameter(format!("cannot start a thread of {addr}: {error}"))
                })?;
            endpoint.threads.push(thread);
        }
        Ok(endpoint)
    }

    /// Where it listens.
    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_ending = true;
        for stream in state.under_way.iter().flatten() {
            // Its client may have closed it already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        let mut wake = self.addr;
        match wake.ip() {
            IpAddr::V4(any) if any.is_unspecified() => wake.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(any) if any.is_unspecified() => wake.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        for _ in 0..self.threads.len() {
            // Where it fails, enough connections wait already to wake every thread.
            let _ = TcpStream::connect_timeout(&wake, WAKE_TIMEOUT);
        }
        for thread in self.threads.drain(..) {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

impl EndpointShared {
    /// Answers one request after the other until the endpoint ends.
    fn answer_all(&self, number: usize, answer: &impl Fn(&HttpRequest<'_>, IpAddr) -> Response) {
        loop {
            let accepted = self.listener.accept();
            let mut state = self.state.lock();
            if state.is_ending {
                return;
            }
            let Ok((stream, peer)) = accepted else {
                drop(state);
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if let Some(place) = state.under_way.get_mut(number) {
                // Without a second handle, ending waits for the limits of the request.
                *place = stream.try_clone().ok();
            }
            drop(state);
            let socket = TimedSocket::new(&stream);
            let mut channel: Box<dyn Channel + '_> = Box::new(socket);
            #[cfg(feature = "tls")]
            if let Some(tls) = self.tls.clone() {
                let Ok(tls) = rustls::ServerConnection::new(tls) else {
                    self.note_end(number);
                    continue;
                };
                channel = Box::new(rustls::StreamOwned::new(tls, socket));
            }
            let answer = |request: &HttpRequest<'_>| answer(request, peer.ip());
            // A client that hangs or goes away is not waited for.
            let _ = serve(&mut *channel, &stream, self.local_only, answer);
            self.note_end(number);
        }
    }

    fn note_end(&self, number: usize) {
        if let Some(place) = self.state.lock().under_way.get_mut(number) {
            *place = None;
        }
    }
}
