//! Encrypted connections: clients, their certificates, metrics and the monitor.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use spikelet::TlsIdentity;
use spikelet::monitor::{Monitor, basic_authorization};
use spikelet::server::{SecurityOptions, Server};

use crate::security::connected;
use crate::server_client::admin::*;
use crate::server_client::*;

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// A file of certificates or keys, made by `tests/cluster/tls/make`.
fn pem(name: &str) -> PathBuf {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/tls");
    PathBuf::from(dir).join(name)
}

fn identity() -> TlsIdentity {
    TlsIdentity::new(pem("server.pem"), pem("server.key"))
}

fn connect(addr: SocketAddr, with_certificate: bool) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(pem("ca.pem")).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if with_certificate {
        let chain = vec![CertificateDer::from_pem_file(pem("client.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(pem("client.key")).unwrap();
        config.with_client_auth_cert(chain, key).unwrap()
    } else {
        config.with_no_client_auth()
    };
    let name = ServerName::try_from("spikelet.test").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(client, TcpStream::connect(addr).unwrap())
}

/// Sends a frame. Returns the body of the answer; `None` if the connection is refused.
fn ask(stream: &mut Encrypted, kind: u8, body: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(&frame(kind, body)).ok()?;
    let mut header = [0; 8];
    stream.read_exact(&mut header).ok()?;
    header[..2].fill(0);
    let mut body = vec![0; u64::from_be_bytes(header) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

#[test]
fn records_are_written_and_read_over_an_encrypted_connection() {
    let running = serve_with(|server| {
        let server = server.listen_tls("127.0.0.1:0", identity()).unwrap();
        server.security(SecurityOptions::default())
    });
    let addr = running.handle.tls_addr().unwrap();
    let mut stream = connect(addr, false);
    let login = body(LOGIN, &[(USER, b"admin"), (CREDENTIAL, ADMIN.as_bytes())]);
    assert_eq!(rows(&ask(&mut stream, 2, &login).unwrap())[0].0, 0);
    let granted = names(&["read-write"]);
    let grant = body(GRANT_ROLES, &[(USER, b"admin"), (ROLES, &granted)]);
    assert_eq!(rows(&ask(&mut stream, 2, &grant).unwrap())[0].0, 0);
    // An answer of several mebibytes crosses the buffers of the stream.
    let large = vec![7; 900_000];
    for key in 0..4 {
        let put = Message::about(0, WRITE, 0, key).op(2, 4, "b", &large);
        assert_eq!(
            answers(&ask(&mut stream, 3, &put.body()).unwrap())[0].code,
            0
        );
    }
    let rows: Vec<_> = (0..4)
        .map(|key| (digest(key), row(READ | GET_ALL, 0)))
        .collect();
    let read = ask(&mut stream, 3, &batch(0, &rows).body()).unwrap();
    assert_eq!(answers(&read)[0].ops[0].value, large);

    let mut stream = connect(addr, false);
    let told = ask(&mut stream, 1, b"service-tls-std\nservice-clear-std\n").unwrap();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(
        told,
        format!("service-tls-std\t{addr}\nservice-clear-std\t\n")
    );
    // A client that does not encrypt gets nothing.
    let mut plain = Wire::to(addr);
    plain.send(&frame(1, b"node\n"));
    let mut answer = Vec::new();
    let _ = plain.stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(&[2, 1]), "{answer:?}");
    // The plain port goes on.
    let mut admin = connected(&running, "admin");
    assert_eq!(admin.ask(&Message::get(1)).code, 0);
}

#[test]
fn clients_need_a_certificate_where_one_is_asked_for() {
    let running = serve_with(|server| {
        let identity = identity().client_ca(pem("ca.pem"));
        server.listen_tls("127.0.0.1:0", identity).unwrap()
    });
    let addr = running.handle.tls_addr().unwrap();
    assert!(ask(&mut connect(addr, true), 1, b"node\n").is_some());
    assert!(ask(&mut connect(addr, false), 1, b"node\n").is_none());
    assert!(Wire::to(running.handle.addr()).is_alive());
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let store = namespaces().open().unwrap();
    for (certificate, key) in [("server.key", "server.key"), ("server.pem", "ca.pem")] {
        let identity = TlsIdentity::new(pem(certificate), pem(key));
        let server = Server::builder(&store)
            .listen_tls("127.0.0.1:0", identity)
            .unwrap();
        let error = server.start().unwrap_err().to_string();
        assert!(error.contains("TLS"), "{error}");
    }
}

/// Asks over HTTP. Returns the first line of the answer.
fn http(stream: &mut (impl Read + Write), path: &str, login: Option<(&str, &str)>) -> String {
    let login = login.map(|(user, password)| {
        let value = basic_authorization(user, password);
        format!("Authorization: {value}\r\n")
    });
    let login = login.unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{login}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn metrics_and_the_monitor_ask_for_a_login_of_the_server() {
    let options = SecurityOptions::default();
    let running = serve_with(|server| {
        let server = server.security(options).metrics("127.0.0.1:0").unwrap();
        server.metrics_tls(identity())
    });
    let monitor = Monitor::builder(&running.store)
        .listen("127.0.0.1:0")
        .unwrap()
        .serve_records(true)
        .logins(running.handle.login_check())
        .tls(identity())
        .start()
        .unwrap();
    let metrics = running.handle.metrics_addr().unwrap();
    let mut admin = connected(&running, "admin");
    for (command, fields) in [
        (
            CREATE_USER,
            vec![
                (USER, &b"sam"[..]),
                (PASSWORD, ADMIN.as_bytes()),
                (ROLES, b"\x01\x09sys-admin"),
            ],
        ),
        (
            CREATE_USER,
            vec![
                (USER, &b"ann"[..]),
                (PASSWORD, ADMIN.as_bytes()),
                (ROLES, b"\x01\x04read"),
            ],
        ),
    ] {
        assert_eq!(admin.administer(command, &fields), 0);
    }
    // Users have the password of admin here.
    for (user, password, codes) in [
        ("", "", [401, 401, 401]),
        ("admin", "wrong", [401, 401, 401]),
        ("nobody", "admin", [401, 401, 401]),
        ("admin", "admin", [200, 401, 401]),
        ("sam", "admin", [200, 200, 401]),
        ("ann", "admin", [200, 200, 200]),
    ] {
        let asked = [
            (metrics, "/metrics"),
            (monitor.addr(), "/hot.json"),
            (monitor.addr(), "/records.asb?namespace=test&from=0"),
        ];
        for ((addr, path), code) in asked.into_iter().zip(codes) {
            let login = (!user.is_empty()).then_some((user, password));
            let line = http(&mut connect(addr, false), path, login);
            let refused = line.contains(" 401 ");
            assert_eq!(refused, code == 401, "{user} {path}: {line:?}");
            assert!(line.starts_with("HTTP/1.1 "), "{user} {path}: {line:?}");
        }
    }
}
