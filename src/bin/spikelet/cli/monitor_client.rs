//! Asks the monitor of a running program what it sees.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use spikelet::monitor::{ChangesSnapshot, DEFAULT_PORT, StoreSnapshot, basic_authorization};

use crate::failure::{CommandFailure, Result};

/// How long a program may take to be reached, and between two pieces of its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The login for a monitor that asks for one: no list of processes shows it.
const USER_VARIABLE: &str = "SPIKELET_MONITOR_USER";
const PASSWORD_VARIABLE: &str = "SPIKELET_MONITOR_PASSWORD";

/// The longest answer that is read: 64 hot records of some hundred namespaces are less.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Where a monitor listens: `HOST` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MonitorAddress {
    host: String,
    port: u16,
}

impl std::fmt::Display for MonitorAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl std::str::FromStr for MonitorAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = host_and_port(text)?;
        let port = port.unwrap_or(DEFAULT_PORT);
        Ok(Self { host, port })
    }
}

/// Reads `HOST` or `HOST:PORT`. An address of version 6 gets brackets.
///
/// # Errors
/// Says what is wrong with the text.
pub(crate) fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    const WRONG: &str = "give HOST or HOST:PORT, without http:// and without a path";
    if text.contains(['/', '@', ' ', '\r', '\n']) {
        return Err(format!("{text:?} is no host: {WRONG}"));
    }
    let (host, port) = match text.rsplit_once(':') {
        // An address of version 6 without a port.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = port.map(|port| {
        let number = port.parse().ok().filter(|number: &u16| *number > 0);
        number.ok_or_else(|| format!("{port:?} is no port: give HOST or HOST:PORT"))
    });
    if host.is_empty() {
        return Err(WRONG.to_owned());
    }
    let is_bare = host.contains(':') && !host.starts_with('[');
    // The name of a network interface may follow.
    let address = host.split('%').next().unwrap_or_default();
    if is_bare && address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("{host:?} is no host: {WRONG}"));
    }
    let host = if is_bare {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    Ok((host, port.transpose()?))
}

impl MonitorAddress {
    /// Asks for a look at the store.
    ///
    /// # Errors
    /// A program that does not answer, or refuses.
    pub(crate) fn look(&self) -> Result<StoreSnapshot> {
        self.get("/hot.json", &[])
    }

    /// Asks for changes by this query.
    ///
    /// # Errors
    /// A program that does not answer, or refuses.
    pub(crate) fn changes(&self, query: &[(&str, &str)]) -> Result<ChangesSnapshot> {
        self.get("/changes.json", query)
    }

    fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<T> {
        let (_, body) = self.answer(path, query)?;
        serde_json::from_slice(&body).map_err(|error| {
            CommandFailure::Input(format!(
                "{self} answers something else than a monitor: {error}"
            ))
        })
    }

    /// Returns head and body of an answer, if it is a whole one with status 200.
    ///
    /// # Errors
    /// A program that does not answer, or refuses.
    pub(crate) fn answer(&self, path: &str, query: &[(&str, &str)]) -> Result<(String, Vec<u8>)> {
        let mut answer = self.ask(&target(path, query)).map_err(|error| {
            CommandFailure::Away(format!(
                "cannot ask {self}: {error}; does the program serve its monitor there?"
            ))
        })?;
        let end = answer.windows(4).position(|end| end == b"\r\n\r\n");
        let end = end.ok_or_else(|| {
            CommandFailure::Input(format!(
                "{self} does not speak HTTP: is it the port of a monitor?"
            ))
        })?;
        let body = answer.split_off(end + 4);
        let head = String::from_utf8_lossy(&answer).into_owned();
        let status = head.lines().next().unwrap_or_default();
        if !status.starts_with("HTTP/1.1 200 ") {
            let why = String::from_utf8_lossy(&body);
            let why = why.lines().next().unwrap_or_default();
            return Err(CommandFailure::Input(format!(
                "{self} answers {status:?}: {why}{}",
                if status.contains(" 401 ") {
                    format!(" (set {USER_VARIABLE} and {PASSWORD_VARIABLE})")
                } else {
                    String::new()
                }
            )));
        }
        let length = header(&head, "Content-Length").and_then(|length| length.parse().ok());
        if length != Some(body.len()) {
            return Err(CommandFailure::Away(format!(
                "{self} ended its answer after {} bytes",
                body.len()
            )));
        }
        Ok((head, body))
    }

    fn ask(&self, target: &str) -> io::Result<Vec<u8>> {
        let mut last = io::Error::other("the host has no address");
        // In brackets, an address with the name of its interface would be looked up as a name.
        let host = self.host.trim_matches(['[', ']']);
        for addr in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&addr, PATIENCE) {
                Ok(stream) => return self.ask_over(stream, target),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask_over(&self, mut stream: TcpStream, target: &str) -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: {self}\r\nX-Spikelet: 1\r\n{}Connection: close\r\n\r\n",
            login()
        )?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// The header with the login, if the environment has one.
fn login() -> String {
    let read = |name| std::env::var(name).ok();
    match (read(USER_VARIABLE), read(PASSWORD_VARIABLE)) {
        (Some(user), Some(password)) => {
            format!(
                "Authorization: {}\r\n",
                basic_authorization(&user, &password)
            )
        }
        _ => String::new(),
    }
}

fn target(path: &str, query: &[(&str, &str)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let pairs: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

/// Returns the value of a header.
pub(crate) fn header<'h>(head: &'h str, wanted: &str) -> Option<&'h str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, expected) in [
            ("localhost", "localhost:9146"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]:9146"),
            ("[::1]", "[::1]:9146"),
            ("fe80::1%eth0", "[fe80::1%eth0]:9146"),
        ] {
            let address = text
                .parse::<MonitorAddress>()
                .map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            ":80",
            "a:b",
            "a:0",
            "a:70000",
            "a:b:80",
            "http://a",
            "http://a:80/x",
            "a b",
        ] {
            assert!(text.parse::<MonitorAddress>().is_err(), "{text}");
        }
    }

    /// Returns an address of this machine that is valid on one of its links only, with the name of
    /// that interface.
    fn link_local() -> Option<String> {
        let known = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
        let mut known = known.lines().map(str::split_whitespace);
        known.find_map(|mut fields| {
            let address = fields.next().filter(|digits| digits.starts_with("fe80"))?;
            let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
            Some(format!("{address}%{}", fields.last()?))
        })
    }

    #[test]
    fn an_address_with_its_interface_is_asked() {
        // Not every machine has such an address, and not every sandbox lets it be bound.
        let bound = link_local().and_then(|address| {
            let listener = std::net::TcpListener::bind((address.as_str(), 0)).ok()?;
            Some((address, listener))
        });
        let Some((address, listener)) = bound else {
            return;
        };
        let port = listener.local_addr().unwrap().port();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // A request that is not read to its end would reset the connection.
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            assert!(lines.take_while(|line| !line.is_empty()).count() > 1);
            stream.write_all(b"HTTP/1.1 200 OK").unwrap();
        });
        let asked: MonitorAddress = format!("[{address}]:{port}").parse().unwrap();
        assert_eq!(asked.ask("/").unwrap(), b"HTTP/1.1 200 OK");
        answers.join().unwrap();
    }
}
