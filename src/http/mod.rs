//! One request and its answer, of HTTP/1.1 as much as a read-only endpoint needs. Every connection
//! serves one request, in bounded time and memory. `endpoint`: a listener and its threads.

mod endpoint;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

pub(crate) use endpoint::{Endpoint, EndpointOptions, resolve};

use crate::basic_login::BASIC_CHALLENGE;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(2);

/// How long a client may take for its answer, once that is ready.
const ACCEPTANCE: Duration = Duration::from_secs(5);

/// How much is read of what a client sends beyond its request, so that it gets the answer and not a
/// reset.
const DRAINED_BYTES_MAX: usize = 64 << 10;

/// How long it is read.
const DRAIN: Duration = Duration::from_millis(200);

/// A header that a browser does not send for a page of another site.
pub(crate) const PROGRAM_HEADER: &str = "X-Spikelet";

/// What a client asks for.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "monitor"),
    expect(dead_code, reason = "the monitor reads all")
)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) path: &'a str,
    /// Empty if there is none.
    pub(crate) query: &'a str,
    /// The header `Accept`, empty if there is none.
    pub(crate) accept: &'a str,
    /// The header `Authorization`, empty if there is none.
    pub(crate) authorization: &'a str,
    /// Whether there is a header [`PROGRAM_HEADER`].
    pub(crate) is_of_program: bool,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    /// Further headers, each ended by CR LF.
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn ok(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            content_type,
            headers: String::new(),
            body: body.into(),
        }
    }

    pub(crate) fn refused(status: &'static str, why: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: String::new(),
            body: format!("{why}\n").into(),
        }
    }

    /// Asks for a login.
    pub(crate) fn unauthorized(why: &str) -> Self {
        Self {
            headers: BASIC_CHALLENGE.to_owned(),
            ..Self::refused("401 Unauthorized", why)
        }
    }
}

/// Reads the request of a connection, asks `answer`, and sends its response. `local_only`: requests
/// must name this machine as their host.
///
/// # Errors
/// If the connection breaks, or the client does not take the answer in time.
fn serve(
    stream: &mut dyn Channel,
    socket: &TcpStream,
    local_only: bool,
    answer: impl FnOnce(&HttpRequest<'_>) -> Response,
) -> io::Result<()> {
    let mut received = Vec::new();
    stream.set_deadline(Instant::now() + ARRIVAL);
    let (response, is_read) = match read_head(stream, &mut received) {
        Ok(true) => match parse(&received, local_only) {
            Ok(request) => (answer(&request), true),
            Err(refused) => (refused, false),
        },
        // It has gone, or has said nothing.
        Ok(false) => return Ok(()),
        Err(refused) => (refused, false),
    };
    // It may have a password in it.
    #[cfg(feature = "server")]
    zeroize::Zeroize::zeroize(&mut received);
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        response.status,
        response.content_type,
        response.body.len(),
        response.headers,
    );
    let answer = [head.as_bytes(), &response.body].concat();
    stream.set_deadline(Instant::now() + ACCEPTANCE);
    stream.write_all(&answer)?;
    stream.end()?;
    socket.shutdown(std::net::Shutdown::Write)?;
    if !is_read {
        drain(socket);
    }
    Ok(())
}

/// The stream of a connection: plain, or encrypted.
trait Channel: Read + Write {
    /// Has all further calls end by this time, however many pieces they read or write.
    fn set_deadline(&mut self, deadline: Instant);

    /// Sends the end of an encrypted stream.
    fn end(&mut self) -> io::Result<()>;
}

/// A socket whose calls end at a deadline.
#[derive(Clone, Copy)]
struct TimedSocket<'s> {
    socket: &'s TcpStream,
    deadline: Instant,
}

impl<'s> TimedSocket<'s> {
    fn new(socket: &'s TcpStream) -> Self {
        Self {
            socket,
            deadline: Instant::now(),
        }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for TimedSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel for TimedSocket<'_> {
    fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "tls")]
impl Channel for rustls::StreamOwned<rustls::ServerConnection, TimedSocket<'_>> {
    fn set_deadline(&mut self, deadline: Instant) {
        self.sock.deadline = deadline;
    }

    fn end(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()
    }
}

/// Reads up to the end of the head. False: the client has closed the connection before, or has sent
/// nothing in time.
fn read_head(stream: &mut dyn Channel, head: &mut Vec<u8>) -> Result<bool, Response> {
    let mut chunk = [0; 1024];
    loop {
        let read = match stream.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Nothing can be sent before the end of a handshake.
            Err(error) if is_timeout(&error) && head.is_empty() => return Ok(false),
            Err(error) if is_timeout(&error) => {
                let why = "the request took too long";
                return Err(Response::refused("408 Request Timeout", why));
            }
            Err(_) => return Ok(false),
        };
        // The end may span two chunks.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(chunk.get(..read).unwrap_or_default());
        let new = head.get(from..).unwrap_or_default();
        if let Some(at) = new.windows(4).position(|end| end == b"\r\n\r\n") {
            head.truncate(from + at);
            return Ok(true);
        }
        if head.len() > HEAD_BYTES_MAX {
            let why = "the head of a request has at most 8 KiB";
            return Err(Response::refused(
                "431 Request Header Fields Too Large",
                why,
            ));
        }
    }
}

fn parse(head: &[u8], local_only: bool) -> Result<HttpRequest<'_>, Response> {
    let malformed = |why| Response::refused("400 Bad Request", why);
    let text = std::str::from_utf8(head).map_err(|_| malformed("the request is not text"))?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed("the first line is not a request"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        let why = "this is a server of HTTP/1.1";
        return Err(Response::refused("505 HTTP Version Not Supported", why));
    }
    if method != "GET" {
        let why = "only GET is answered: nothing can be changed here";
        let refused = Response::refused("405 Method Not Allowed", why);
        return Err(Response {
            headers: "Allow: GET\r\n".to_owned(),
            ..refused
        });
    }
    let (mut host, mut accept, mut authorization) = (None, "", "");
    let mut is_of_program = false;
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("a header has no colon"))?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(malformed("a header has no proper name"));
        }
        if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
            return Err(malformed("the host is named twice"));
        }
        if name.eq_ignore_ascii_case("accept") {
            accept = value.trim();
        }
        if name.eq_ignore_ascii_case("authorization") {
            authorization = value.trim();
        }
        is_of_program |= name.eq_ignore_ascii_case(PROGRAM_HEADER);
    }
    if version == "HTTP/1.1" && host.is_none() {
        return Err(malformed("no host is named"));
    }
    if local_only && host.is_some_and(|host| !is_this_machine(host)) {
        let why = "this endpoint is for this machine: ask for it as localhost or 127.0.0.1";
        return Err(Response::refused("403 Forbidden", why));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(HttpRequest {
        path,
        query,
        accept,
        authorization,
        is_of_program,
    })
}

/// Whether a host, perhaps with its port, is an address of this machine. Names that others can
/// define are not.
fn is_this_machine(host: &str) -> bool {
    let is_loopback = |text: &str| {
        let address = text.parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
    };
    // An address of version 6 without brackets has no port, even if its last part looks like one.
    if is_loopback(host) {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || is_loopback(bare)
}

/// Reads the rest from a refused client, for a moment.
fn drain(socket: &TcpStream) {
    let mut stream = TimedSocket::new(socket);
    stream.set_deadline(Instant::now() + DRAIN);
    let mut chunk = [0; 4096];
    let mut drained = 0;
    while drained < DRAINED_BYTES_MAX {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => drained += read,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> String {
        match parse(head.as_bytes(), true) {
            Ok(request) => request.path.to_owned(),
            Err(refused) => refused.status.split(' ').next().unwrap().to_owned(),
        }
    }

    #[test]
    fn requests_are_read_strictly() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9", "/metrics"),
            ("GET /hot.json?a=b HTTP/1.1\r\nhost: 127.0.0.1", "/hot.json"),
            ("GET / HTTP/1.0", "/"),
            ("GET / HTTP/1.1\r\nHost: [::1]:80", "/"),
            ("GET / HTTP/1.1\r\nHost: ::1", "/"),
            ("GET / HTTP/1.1", "400"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", "400"),
            ("GET / HTTP/1.1\r\nnonsense", "400"),
            ("GET / HTTP/1.1\r\nHost : localhost", "400"),
            ("GET /", "400"),
            ("", "400"),
            ("GET / a HTTP/1.1", "400"),
            ("POST / HTTP/1.1\r\nHost: localhost", "405"),
            ("HEAD / HTTP/1.1\r\nHost: localhost", "405"),
            ("GET / HTTP/2\r\nHost: localhost", "505"),
            ("GET / HTTP/1.1\r\nHost: evil.example", "403"),
            ("GET / HTTP/1.1\r\nHost: localhost.evil.example:80", "403"),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example", "403"),
            ("GET / HTTP/1.1\r\nHost: 10.0.0.1", "403"),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
        let bytes = parse(b"GET /\xff HTTP/1.1", false).unwrap_err();
        assert!(bytes.status.starts_with("400"));
        assert!(parse(b"GET / HTTP/1.1\r\nHost: store.example", false).is_ok());
    }

    /// A channel that has received a request, and notes its deadlines.
    struct Noted(io::Cursor<&'static [u8]>, Vec<Instant>);

    impl Read for Noted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Noted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Channel for Noted {
        fn set_deadline(&mut self, deadline: Instant) {
            self.1.push(deadline);
        }

        fn end(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_that_takes_long_to_make_has_all_the_time_to_be_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let request = io::Cursor::new(&b"GET / HTTP/1.0\r\n\r\n"[..]);
        let mut stream = Noted(request, Vec::new());
        let mut answered = None;
        serve(&mut stream, &socket, false, |_| {
            answered = Some(Instant::now());
            Response::ok("text/plain", "it")
        })
        .unwrap();
        let [_, until] = stream.1[..] else {
            panic!("{:?}", stream.1);
        };
        assert!(until >= answered.unwrap() + ACCEPTANCE);
    }
}
