//! Aerospike's configuration file, as far as it applies.
//!
//! ```text
//! namespace test {            a context, by kind and perhaps name
//!     default-ttl 30d         a parameter: name and value; # begins a comment
//!     storage-engine device { a context whose name is a choice
//!         filesize 4G
//!     }
//! }
//! ```
//!
//! Parameters that [`ServerConfig::apply`] does not know have no effect. [`ServerConfig::ignored`]
//! lists the parameters of contexts in [`PASSED_OVER`], which have no meaning for a store of one
//! node; [`ServerConfig::unknown`] lists the rest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::record::KeyHash;
use crate::{Durability, Error, NamespaceConfig, Result};

/// Parts of the file that are about what one node in one process does not have, or does by itself:
/// contexts, with parameters or contexts of theirs.
const PASSED_OVER: &str = "\
network.: fabric heartbeat info admin
: logging mod-lua
service.: user group pidfile run-as-daemon work-directory service-threads migrate-threads
service.: info-threads node-id node-id-interface feature-key-file
namespace.: replication-factor memory-size stop-writes-pct index-stage-size sindex-stage-size
namespace.: partition-tree-sprigs high-water-memory-pct high-water-disk-pct
namespace.storage-engine.: data-in-memory read-page-cache flush-size write-block-size
namespace.storage-engine.: max-write-cache post-write-cache post-write-queue
namespace.storage-engine.: stop-writes-used-pct stop-writes-avail-pct";

/// Aerospike's default.
const TRANSACTION_PENDING_LIMIT: usize = 20;

/// `max_waiters` for a `transaction-pending-limit`. Aerospike refuses when more than its limit wait
/// already, so one more may wait than it says; 0 is no limit.
const fn max_waiters(pending_limit: usize) -> usize {
    match pending_limit {
        0 => usize::MAX,
        limit => limit.saturating_add(1),
    }
}

/// Returns the `transaction-pending-limit` for `max_waiters`. A queue of 0 or 1 has no such limit
/// and is reported as 1, the shortest.
pub(crate) fn pending_limit(max_waiters: usize) -> usize {
    match max_waiters {
        usize::MAX => 0,
        waiters => waiters.saturating_sub(1).max(1),
    }
}

/// What a configuration file of Aerospike says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The address to listen on. Default: all, as in Aerospike.
    pub host: IpAddr,
    /// The port to listen on. Default: 3000.
    pub port: u16,
    /// The name of the cluster.
    pub cluster_name: Option<String>,
    /// The most connections at once.
    pub max_connections: Option<usize>,
    /// How long a connection may be without a request.
    pub idle_timeout: Option<Duration>,
    /// The most rows of one batch; 0: no limit.
    pub max_batch_rows: u32,
    /// The namespaces, which hash keys as clients do. Files and devices that are named are counted,
    /// and are kept in the store's directory.
    pub namespaces: Vec<NamespaceConfig>,
    /// Namespaces in which nothing may expire.
    pub no_expiry: Vec<String>,
    /// Namespaces to report to clients as strongly consistent.
    pub strong_consistency: Vec<String>,
    /// Parameters that are known and have no meaning here, each with its line.
    pub ignored: Vec<String>,
    /// Parameters that are not known, each with its line.
    pub unknown: Vec<String>,
    /// The namespace of each file that is named.
    files: Vec<String>,
    /// Namespaces in which records may expire though nothing looks for them.
    allow_expiry: Vec<String>,
}

impl ServerConfig {
    /// Reads the text of a configuration file.
    ///
    /// # Errors
    /// [`Error::Parameter`], with the line, for text that cannot be parsed or a value that its
    /// parameter cannot have.
    pub fn parse(text: &str) -> Result<Self> {
        let mut config = Self {
            host: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 3000,
            cluster_name: None,
            max_connections: None,
            idle_timeout: None,
            max_batch_rows: 0,
            namespaces: Vec::new(),
            no_expiry: Vec::new(),
            strong_consistency: Vec::new(),
            ignored: Vec::new(),
            unknown: Vec::new(),
            files: Vec::new(),
            allow_expiry: Vec::new(),
        };
        let mut contexts: Vec<String> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let at = |why: String| Error::parameter(format!("configuration, line {line}: {why}"));
            config.line(text, line, &mut contexts).map_err(at)?;
        }
        if let Some(open) = contexts.last() {
            return Err(Error::parameter(format!(
                "configuration: the braces of \"{open}\" are not closed"
            )));
        }
        for namespace in &mut config.namespaces {
            let files = config.files.iter().filter(|name| **name == namespace.name);
            namespace.devices = files.count().max(1);
        }
        let allowed = std::mem::take(&mut config.allow_expiry);
        config.no_expiry.retain(|name| !allowed.contains(name));
        Ok(config)
    }

    /// A namespace as clients expect it: with RIPEMD-160 for digests, which they compute, and
    /// Aerospike's limit of writers that wait for a record (its `transaction-pending-limit` of 20
    /// lets 21 wait). All else is as in [`NamespaceConfig::new`].
    #[must_use]
    pub fn namespace_of(name: &str) -> NamespaceConfig {
        let mut namespace = NamespaceConfig::new(name);
        namespace.key_hash = KeyHash::Ripemd160;
        namespace.max_waiters = max_waiters(TRANSACTION_PENDING_LIMIT);
        namespace
    }

    /// The address to listen on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }

    fn line(
        &mut self,
        text: &str,
        number: u32,
        contexts: &mut Vec<String>,
    ) -> std::result::Result<(), String> {
        let text = text.split('#').next().unwrap_or_default();
        let mut words: Vec<&str> = Vec::new();
        for word in text.split_whitespace() {
            match word {
                "{" => {
                    let (kind, name) = words.split_first().ok_or("a brace without a name")?;
                    self.open(kind, name, contexts)?;
                    words.clear();
                }
                "}" => {
                    self.parameter(contexts, &words, number)?;
                    words.clear();
                    contexts.pop().ok_or("a brace closes nothing")?;
                }
                _ => words.push(word),
            }
        }
        self.parameter(contexts, &words, number)
    }

    fn open(
        &mut self,
        kind: &str,
        name: &[&str],
        contexts: &mut Vec<String>,
    ) -> std::result::Result<(), String> {
        if kind == "namespace" && contexts.is_empty() {
            let [name] = name else {
                return Err("a namespace needs one name".to_owned());
            };
            self.namespaces.push(Self::namespace_of(name));
        }
        contexts.push(kind.to_owned());
        Ok(())
    }

    /// Takes a parameter over: its name and its value, or nothing.
    fn parameter(
        &mut self,
        contexts: &[String],
        words: &[&str],
        line: u32,
    ) -> std::result::Result<(), String> {
        let Some((name, value)) = words.split_first() else {
            return Ok(());
        };
        let context: String = contexts
            .iter()
            .map(|context| format!("{context}."))
            .collect();
        let (path, value) = (format!("{context}{name}"), value.join(" "));
        let wrong = |why| format!("{path} = \"{value}\": {why}");
        if self.apply(&path, &value).map_err(wrong)? {
            return Ok(());
        }
        let passed_over = PASSED_OVER.lines().any(|line| {
            let (context, names) = line.split_once(": ").unwrap_or_default();
            path.strip_prefix(context).is_some_and(|rest| {
                let name = rest.split_once('.').map_or(rest, |(name, _)| name);
                names.split(' ').any(|known| known == name)
            })
        });
        let text = format!("line {line}: {path} {value}");
        if passed_over {
            self.ignored.push(text)
        } else {
            self.unknown.push(text)
        }
        Ok(())
    }

    /// Applies a parameter that has an effect; false for another. A parameter of a namespace
    /// changes the last namespace that was begun.
    fn apply(&mut self, path: &str, value: &str) -> std::result::Result<bool, String> {
        match path {
            "network.service.address" => {
                self.host = match value {
                    "any" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    other => parsed(other)?,
                }
            }
            "network.service.port" => self.port = parsed(value)?,
            "service.cluster-name" => self.cluster_name = Some(value.to_owned()),
            "service.proto-fd-max" => self.max_connections = Some(parsed(value)?),
            "service.proto-fd-idle-ms" => {
                let ms: u64 = parsed(value)?;
                self.idle_timeout = (ms > 0).then(|| Duration::from_millis(ms));
            }
            "service.batch-max-requests" => self.max_batch_rows = parsed(value)?,
            _ => match path.strip_prefix("namespace.") {
                Some(name) => return self.apply_to_namespace(name, value),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn apply_to_namespace(&mut self, name: &str, value: &str) -> std::result::Result<bool, String> {
        let last = self.namespaces.last_mut();
        let namespace = last.ok_or("it belongs into a namespace");
        match name {
            "default-ttl" => {
                let seconds = seconds(value)?;
                let live = (seconds > 0).then(|| Duration::from_secs(seconds));
                namespace?.default_time_to_live = live;
            }
            "nsup-period" => match seconds(value)? {
                0 => self.no_expiry.push(namespace?.name.clone()),
                seconds => namespace?.expiry_period = Duration::from_secs(seconds),
            },
            "allow-ttl-without-nsup" => {
                let on = truth(value)?.then_some(namespace?.name.clone());
                self.allow_expiry.extend(on);
            }
            "strong-consistency" => {
                let on = truth(value)?.then_some(namespace?.name.clone());
                self.strong_consistency.extend(on);
            }
            "max-record-size" => namespace?.max_record_bytes = bytes(value)?,
            "transaction-pending-limit" => namespace?.max_waiters = max_waiters(parsed(value)?),
            "storage-engine.data-size" | "storage-engine.filesize" => {
                namespace?.max_device_bytes = bytes(value)?;
            }
            "storage-engine.defrag-lwm-pct" => {
                namespace?.defrag_threshold_percent = parsed(value)?;
            }
            "storage-engine.commit-to-device" => {
                if truth(value)? {
                    namespace?.durability = Durability::Commit;
                }
            }
            "storage-engine.file" | "storage-engine.device" => {
                self.files.push(namespace?.name.clone());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn parsed<T: std::str::FromStr>(value: &str) -> std::result::Result<T, String>
where
    T::Err: std::fmt::Display,
{
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn truth(value: &str) -> std::result::Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false is expected".to_owned()),
    }
}

/// A number that may have a unit behind it.
fn with_unit(value: &str, units: &[(char, u64)]) -> std::result::Result<u64, String> {
    let unit = value.chars().last().unwrap_or_default();
    let unit = units
        .iter()
        .find(|(letter, _)| letter.eq_ignore_ascii_case(&unit));
    let (digits, factor) = match unit {
        Some((_, factor)) => (value.get(..value.len() - 1).unwrap_or_default(), *factor),
        None => (value, 1),
    };
    let number: u64 = parsed(digits)?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "the number is too large".to_owned())
}

pub(crate) fn seconds(value: &str) -> std::result::Result<u64, String> {
    with_unit(value, &[('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)])
}

fn bytes(value: &str) -> std::result::Result<u64, String> {
    let bits = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];
    with_unit(value, &bits.map(|(unit, bits)| (unit, 1 << bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
# A file as they are.
service {
    cluster-name docker
    proto-fd-max 1000   # many
    proto-fd-idle-ms 60000
    user root
}
logging { console { context any info } }
network {
    service { address any
        port 4000
    }
    heartbeat {
        mode mesh
    }
}
namespace test {
    replication-factor 2
    default-ttl 30d
    nsup-period 2m
    max-record-size 8M
    transaction-pending-limit 64
    storage-engine device {
        file /opt/aerospike/data/a.dat
        file /opt/aerospike/data/b.dat
        filesize 4G
        commit-to-device true
    }
    wibble 7
}
namespace bar { nsup-period 0 }
";

    #[test]
    fn what_applies_is_taken_and_what_does_not_is_told() {
        let config = ServerConfig::parse(FILE).unwrap();
        assert_eq!(config.addr(), "0.0.0.0:4000".parse().unwrap());
        assert_eq!(config.cluster_name.as_deref(), Some("docker"));
        assert_eq!(config.max_connections, Some(1000));
        assert_eq!(config.idle_timeout, Some(Duration::from_secs(60)));
        let [test, bar] = &config.namespaces[..] else {
            panic!("{config:?}")
        };
        assert_eq!(test.name, "test");
        assert_eq!(
            test.default_time_to_live,
            Some(Duration::from_secs(2_592_000))
        );
        assert_eq!(test.expiry_period, Duration::from_secs(120));
        assert_eq!(test.max_record_bytes, 8 << 20);
        assert_eq!((test.devices, test.max_device_bytes), (2, 4 << 30));
        assert_eq!(test.durability, Durability::Commit);
        assert_eq!((test.max_waiters, bar.max_waiters), (65, 21));
        assert_eq!((bar.name.as_str(), bar.devices), ("bar", 1));
        assert_eq!(config.no_expiry, ["bar"]);
        assert_eq!(config.unknown.len(), 1);
        assert!(config.unknown[0].contains("namespace.wibble 7"));
        let ignored = config.ignored.join("\n");
        for name in [
            "service.user root",
            "network.heartbeat.mode",
            "logging.console.context any info",
        ] {
            assert!(ignored.contains(name), "{ignored}");
        }
    }

    #[test]
    fn a_pending_limit_lets_one_more_wait_than_it_says() {
        for (limit, waiters) in [
            (0, usize::MAX),
            (1, 2),
            (20, 21),
            (usize::MAX - 1, usize::MAX),
        ] {
            assert_eq!(max_waiters(limit), waiters);
        }
        for (waiters, limit) in [(usize::MAX, 0), (21, 20), (2, 1), (1, 1), (0, 1)] {
            assert_eq!(pending_limit(waiters), limit);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, why) in [
            ("service {\n", "not closed"),
            ("}\n", "line 1"),
            ("\nnamespace {\n}\n", "line 2: a namespace needs one name"),
            (
                "network {\nservice {\nport x\n}\n}\n",
                "line 3: network.service.port = \"x\"",
            ),
            ("namespace a {\nmax-record-size 9E\n}\n", "line 2"),
        ] {
            let error = ServerConfig::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
