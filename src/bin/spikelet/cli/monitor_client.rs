//! Asks the monitor of a running program what it sees.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use spikelet::monitor::{ChangesSnapshot, DEFAULT_PORT, StoreSnapshot};

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
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .map_err(|_| format!("{port:?} is no port: give HOST or HOST:PORT"))?,
        };
        if host.is_empty() {
            return Err(WRONG.to_owned());
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
        self.get("/hot.json")
    }

    /// Asks for the changes behind a position, of these sets; all if there are none.
    ///
    /// # Errors
    /// As for [`MonitorAddress::look`]; what the monitor refuses, in its words.
    pub(crate) fn changes(
        &self,
        namespace: Option<&str>,
        sets: &[String],
        after: Option<&str>,
    ) -> Result<ChangesSnapshot, String> {
        let sets = sets.iter().map(|set| ("set", set.as_str()));
        let namespace = namespace.map(|name| ("namespace", name));
        let after = after.map(|position| ("after", position));
        let query: Vec<String> = sets
            .chain(namespace)
            .chain(after)
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
            .collect();
        self.get(&format!("/changes.json?{}", query.join("&")))
    }

    fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, String> {
        let answer = self.ask(target).map_err(|error| {
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

    fn ask(&self, target: &str) -> io::Result<String> {
        let mut last = io::Error::other("the host has no address");
        for addr in self.to_string().to_socket_addrs()? {
            match TcpStream::connect_timeout(&addr, PATIENCE) {
                Ok(stream) => return self.ask_over(stream, target),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn ask_over(&self, mut stream: TcpStream, target: &str) -> io::Result<String> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nHost: {self}\r\nConnection: close\r\n\r\n"
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
