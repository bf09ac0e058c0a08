//! A gateway that ends TLS before a served store, and may ask for a login: what a cluster with both
//! looks like to a client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

/// The name in the gateway's certificate.
pub const NAME: &str = "spikelet.test";

const FRAME_HEADER_BYTES: usize = 8;
const SECURITY: u8 = 2;
const LOGIN: u8 = 20;
const AUTHENTICATE: u8 = 0;
const INVALID_CREDENTIAL: u8 = 65;
/// A field of a login's answer: the token by which further connections are known.
const SESSION_TOKEN: u8 = 5;
const TOKEN: &[u8] = b"\x07token of a test";

/// A file of `tests/cluster/tls`.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cluster/tls")
        .join(name)
}

/// What a gateway asks of its clients.
#[derive(Clone, Copy, Default)]
pub struct Demands {
    /// A certificate that `ca.pem` has signed.
    pub certificate: bool,
    /// A user, and the hash of the password that clients send.
    pub login: Option<(&'static str, &'static str)>,
}

/// A gateway. Its threads end with the connections of their clients.
pub struct Gateway {
    addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Gateway {
    pub fn new(served: &str, demands: Demands) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (config, count) = (config(demands.certificate), Arc::clone(&accepted));
        let served = served.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                let (served, count) = (served.clone(), Arc::clone(&count));
                // A client that goes away, or is refused, ends only its own connection.
                thread::spawn(move || pass(client, tls, &served, demands, &count));
            }
        });
        Self { addr, accepted }
    }

    /// The address as `--host` takes it, with a name that the certificate is to have.
    pub fn host(&self, name: &str) -> String {
        format!("{}:{name}:{}", self.addr.ip(), self.addr.port())
    }

    /// How many connections have sent a message that was passed on.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn config(asks_certificate: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.pem")).unwrap())
        .unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if asks_certificate {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

/// One side's TLS, and the socket to which it writes. A thread reads from the client, another one
/// from the server.
struct Encrypted {
    tls: Mutex<ServerConnection>,
    client: TcpStream,
}

impl Encrypted {
    fn send(&self, plain: &[u8]) -> io::Result<()> {
        let mut tls = self.tls.lock().unwrap();
        tls.writer().write_all(plain)?;
        flush(&mut tls, &self.client)
    }

    /// Waits for bytes of the client and returns what they say.
    fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; 16 << 10];
        let arrived = (&self.client).read(&mut bytes)?;
        if arrived == 0 {
            return Ok(None);
        }
        let (mut rest, mut plain) = (&bytes[..arrived], Vec::new());
        let mut tls = self.tls.lock().unwrap();
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            let state = tls.process_new_packets();
            // The client must see a refusal, too.
            flush(&mut tls, &self.client)?;
            let available = state.map_err(io::Error::other)?.plaintext_bytes_to_read();
            let at = plain.len();
            plain.resize(at + available, 0);
            tls.reader().read_exact(&mut plain[at..])?;
        }
        Ok(Some(plain))
    }
}

fn flush(tls: &mut ServerConnection, mut client: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut client)?;
    }
    Ok(())
}

fn pass(
    client: TcpStream,
    tls: ServerConnection,
    served: &str,
    demands: Demands,
    count: &AtomicUsize,
) -> io::Result<()> {
    let server = TcpStream::connect(served)?;
    let encrypted = Arc::new(Encrypted {
        tls: Mutex::new(tls),
        client,
    });
    let (answers, sender) = (server.try_clone()?, Arc::clone(&encrypted));
    thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(arrived @ 1..) = (&answers).read(&mut bytes) {
            if sender.send(&bytes[..arrived]).is_err() {
                break;
            }
        }
        let _ = sender.client.shutdown(Shutdown::Both);
    });
    let passed = pass_requests(&encrypted, &server, demands, count);
    let _ = server.shutdown(Shutdown::Both);
    let _ = encrypted.client.shutdown(Shutdown::Both);
    passed
}

fn pass_requests(
    encrypted: &Encrypted,
    mut server: &TcpStream,
    demands: Demands,
    count: &AtomicUsize,
) -> io::Result<()> {
    let mut is_known = demands.login.is_none();
    let mut passes = false;
    let mut pending = Vec::new();
    while let Some(plain) = encrypted.receive()? {
        pending.extend_from_slice(&plain);
        while let Some(frame) = first_frame(&mut pending) {
            match demands.login {
                Some((user, hash)) if frame[1] == SECURITY => {
                    is_known = knows(&frame, user, hash);
                    encrypted.send(&answer_login(is_known))?;
                }
                _ if is_known => {
                    server.write_all(&frame)?;
                    if !passes {
                        passes = true;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // No login, so no answer.
                _ => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Takes a whole frame off the front.
fn first_frame(pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    let header: [u8; FRAME_HEADER_BYTES] = *pending.first_chunk()?;
    let body = (u64::from_be_bytes(header) & 0xffff_ffff_ffff) as usize;
    let len = FRAME_HEADER_BYTES + body;
    (pending.len() >= len).then(|| pending.drain(..len).collect())
}

/// Whether a security message names the user with the hash of the password, or shows the token.
fn knows(frame: &[u8], user: &str, hash: &str) -> bool {
    // 16 bytes of which the third is the command; then fields of a length, a number and their
    // bytes.
    let (command, mut fields) = (
        frame[FRAME_HEADER_BYTES + 2],
        &frame[FRAME_HEADER_BYTES + 16..],
    );
    let mut found = Vec::new();
    while let Some((len, rest)) = fields.split_first_chunk::<4>() {
        let (field, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
        found.push((field[0], &field[1..]));
        fields = rest;
    }
    let has = |number: u8, bytes: &[u8]| found.contains(&(number, bytes));
    has(0, user.as_bytes())
        && match command {
            LOGIN => has(3, hash.as_bytes()),
            AUTHENTICATE => has(SESSION_TOKEN, TOKEN),
            _ => false,
        }
}

fn answer_login(is_known: bool) -> Vec<u8> {
    let mut body = vec![0; 16];
    if is_known {
        body[3] = 1;
        body.extend_from_slice(&(TOKEN.len() as u32 + 1).to_be_bytes());
        body.push(SESSION_TOKEN);
        body.extend_from_slice(TOKEN);
    } else {
        body[1] = INVALID_CREDENTIAL;
    }
    let header = 2 << 56 | u64::from(SECURITY) << 48 | body.len() as u64;
    [&header.to_be_bytes()[..], &body].concat()
}
