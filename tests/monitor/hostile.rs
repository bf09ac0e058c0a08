//! Clients that mean no good, or do not know better.

#[cfg(feature = "tls")]
use std::io::ErrorKind;
use std::io::{Read, Write};
use std::net::TcpStream;
#[cfg(feature = "tls")]
use std::time::{Duration, Instant};

use super::{get, monitor, send, store};

/// The status of an answer; empty if the connection was just closed.
fn status(answer: &str) -> &str {
    let line = answer.lines().next().unwrap_or_default();
    line.strip_prefix("HTTP/1.1 ").unwrap_or_default()
}

#[test]
fn what_is_no_request_for_a_page_is_refused_and_the_next_one_is_answered() {
    let store = store();
    let monitor = monitor(&store);
    let addr = monitor.addr();
    let long = format!(
        "GET / HTTP/1.1\r\nHost: {addr}\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    for (request, expected) in [
        (
            format!("POST /metrics HTTP/1.1\r\nHost: {addr}\r\nContent-Length: 5\r\n\r\nhello"),
            "405 Method Not Allowed",
        ),
        (
            format!("HEAD / HTTP/1.1\r\nHost: {addr}\r\n\r\n"),
            "405 Method Not Allowed",
        ),
        (
            format!("GET /nothing HTTP/1.1\r\nHost: {addr}\r\n\r\n"),
            "404 Not Found",
        ),
        (
            format!("GET /../../etc/passwd HTTP/1.1\r\nHost: {addr}\r\n\r\n"),
            "404 Not Found",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request"),
        ("\0\0\0\0\r\n\r\n".to_owned(), "400 Bad Request"),
        (
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
            "403 Forbidden",
        ),
        (
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
            "505 HTTP Version Not Supported",
        ),
        (long, "431 Request Header Fields Too Large"),
        ("x".repeat(20_000), "431 Request Header Fields Too Large"),
    ] {
        let answer = send(addr, request.as_bytes());
        assert_eq!(status(&answer), expected, "{:?}: {answer}", &request[..20]);
        assert!(
            !answer.contains("evil"),
            "nothing of a request comes back: {answer}"
        );
    }
    assert!(get(addr, "/metrics").0.starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_request_in_single_bytes_is_answered() {
    let store = store();
    let monitor = monitor(&store);
    let mut stream = TcpStream::connect(monitor.addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /hot.json HTTP/1.0\r\nA: b\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), "200 OK");
}

#[test]
fn clients_that_hang_are_ended_and_others_are_answered() {
    let store = store();
    let monitor = monitor(&store);
    let addr = monitor.addr();
    // More than are answered at once: some say nothing, some half a request, and one takes no
    // answer.
    let mut hanging: Vec<TcpStream> = (0..12)
        .map(|number| {
            let mut stream = TcpStream::connect(addr).unwrap();
            if number % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
            }
            stream
        })
        .collect();
    assert!(get(addr, "/hot.json").0.starts_with("HTTP/1.1 200 OK"));
    let mut answer = String::new();
    hanging[0].read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), "408 Request Timeout");
}

#[test]
fn many_clients_at_once_are_all_answered() {
    let store = store();
    let monitor = monitor(&store);
    let addr = monitor.addr();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(move || {
                for _ in 0..20 {
                    assert!(get(addr, "/metrics").0.starts_with("HTTP/1.1 200 OK"));
                }
            });
        }
    });
}

#[cfg(feature = "backup")]
#[test]
fn a_page_of_another_site_neither_holds_nor_releases_changes() {
    let store = store();
    let changes = store.namespace("test").unwrap().changes();
    changes.enable("feed").unwrap();
    store.set("feed").unwrap().put(1, [("a", 1)]).unwrap();
    let builder = spikelet::monitor::Monitor::builder(&store).serve_records(true);
    let monitor = builder.listen("127.0.0.1:0").unwrap().start().unwrap();
    let addr = monitor.addr();
    let ask = |query: &str, header: &str| {
        let request =
            format!("GET /changes.json?{query}=mover HTTP/1.1\r\nHost: {addr}\r\n{header}\r\n");
        send(addr, request.as_bytes())
    };
    for (query, header, expected, held) in [
        ("hold", "", "400 Bad Request", 0),
        ("hold", "X-Spikelet: 1\r\n", "200 OK", 1),
        ("release", "", "400 Bad Request", 1),
        ("release", "X-Spikelet: 1\r\n", "200 OK", 0),
    ] {
        let answer = ask(query, header);
        assert_eq!(status(&answer), expected, "{query} {header}: {answer}");
        assert_eq!(changes.subscriptions().len(), held, "{query} {header}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn a_handshake_in_single_bytes_is_ended_in_time() {
    /// How long the server may take to end it. It promises 2 s.
    const PATIENCE: Duration = Duration::from_secs(20);
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/tls");
    let identity =
        spikelet::TlsIdentity::new(format!("{files}/server.pem"), format!("{files}/server.key"));
    let store = store();
    let builder = spikelet::monitor::Monitor::builder(&store).tls(identity);
    let monitor = builder.listen("127.0.0.1:0").unwrap().start().unwrap();
    let mut stream = TcpStream::connect(monitor.addr()).unwrap();
    let between = Duration::from_millis(200);
    stream.set_read_timeout(Some(between)).unwrap();
    // The head of a record with a greeting of 4 KiB, of which nothing but zeros comes.
    stream
        .write_all(&[0x16, 3, 1, 0x10, 0, 1, 0, 0x0f, 0xfc])
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while stream.write_all(&[0]).is_ok() {
        match stream.read(&mut [0; 64]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        assert!(Instant::now() < until, "it is still read");
    }
}
