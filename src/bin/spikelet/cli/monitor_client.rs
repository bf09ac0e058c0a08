//! Asks the monitor of a running program what it sees.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use spikelet::monitor::{DEFAULT_PORT, StoreSnapshot};

/// How long a program may take to be reached, and between two pieces of its answer.
const PATIENCE: Duration = Duration::from_secs(5);

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
        let (host, port) = match text.rsplit_once(':') {
            // An address of version 6 without a port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .map_err(|_| format!("{port:?} is no port: give HOST or HOST:PORT"))?,
        };
        if host.is_empty() || host.contains(['/', '@', ' ', '\r', '\n']) {
            return Err("give HOST or HOST:PORT, without http:// and without a path".to_owned());
        }
        let is_bare = host.contains(':') && !host.starts_with('[');
        let host = if is_bare {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        Ok(Self { host, port })
    }
}

impl MonitorAddress {
    /// Asks for a look at the store.
    ///
    /// # Errors
    /// In words: nobody listens there, or it is no monitor of this version.
    pub(crate) fn look(&self) -> Result<StoreSnapshot, String> {
        let answer = self.ask().map_err(|error| {
            format!("cannot ask {self}: {error}; does the program serve its monitor there?")
        })?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| format!("{self} does not speak HTTP: is it the port of a monitor?"))?;
        let status = head.lines().next().unwrap_or_default();
        if !status.starts_with("HTTP/1.1 200 ") {
            let why = body.lines().next().unwrap_or_default();
            return Err(format!("{self} answers {status:?}: {why}"));
        }
        serde_json::from_str(body)
            .map_err(|error| format!("{self} answers something else than a monitor: {error}"))
    }

    fn ask(&self) -> io::Result<String> {
        let mut last = io::Error::other("the host has no address");
        for addr in self.to_string().to_socket_addrs()? {
            match TcpStream::connect_timeout(&addr, PATIENCE) {
                Ok(stream) => return self.ask_over(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask_over(&self, mut stream: TcpStream) -> io::Result<String> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET /hot.json HTTP/1.1\r\nHost: {self}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, expected) in [
            ("localhost", "localhost:9146"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]:9146"),
            ("[::1]", "[::1]:9146"),
        ] {
            let address = text
                .parse::<MonitorAddress>()
                .map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(expected), "{text}");
        }
        for text in ["", ":80", "a:b", "http://a", "http://a:80/x", "a b"] {
            assert!(text.parse::<MonitorAddress>().is_err(), "{text}");
        }
    }
}
