//! Info: questions and commands as text.
//!
//! ```text
//! request = (command '\n') ..               command = name, or name (':' or '/') parameters
//! answer  = (command '\t' value '\n') ..    in the order of the commands, each as it was asked
//! ```
//!
//! Parameters are mostly `key=value` pairs between semicolons. [`COMMANDS`] is all there is.
//!
//! * `identity`: who this server is, and where. `cluster`: the cluster of one node that clients look for.
//! * `namespaces`: what they hold. `config`: how they are kept. `latency`: how long requests took.
//! * `admin`: truncation, jobs. `sindex`: secondary indexes. `udf`: texts of functions.

mod admin;
mod cluster;
mod config;
mod identity;
mod latency;
mod namespaces;
mod sindex;
mod udf;

pub(crate) use identity::BUILD;
pub(crate) use namespaces::{namespace_statistics, node_statistics};

use std::fmt;
use std::net::SocketAddr;

use super::served::ServedNamespace;
use super::shared::Shared;

/// Further commands of a request are refused once its answers exceed this size.
const ANSWERS_BYTES_MAX: usize = 1 << 20;

/// A connection's addresses and its client's description.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Where the client reached this server.
    pub(crate) local: SocketAddr,
    /// Where the client is.
    pub(crate) peer: String,
    /// The client's description of itself; set once.
    pub(crate) user_agent: Option<String>,
}

/// A command, and who asks.
#[derive(Debug)]
struct Ask<'a> {
    shared: &'a Shared,
    session: &'a mut Session,
    /// What follows the name and its separator.
    parameters: &'a str,
}

/// Why a command failed, with Aerospike's number.
#[derive(Debug, PartialEq, Eq)]
struct InfoError {
    code: u8,
    text: String,
}

impl InfoError {
    fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    fn parameter(text: impl Into<String>) -> Self {
        Self::new(4, text)
    }
}

impl fmt::Display for InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR:{}:{}", self.code, self.text)
    }
}

type Answer = Result<String, InfoError>;
type Command = fn(&mut Ask<'_>) -> Answer;

/// All commands, by name.
const COMMANDS: &[(&str, Command)] = &[
    ("alumni-clear-std", cluster::peers),
    ("alumni-tls-std", cluster::peers),
    ("best-practices", identity::best_practices),
    ("build", identity::build),
    ("build_os", identity::build_os),
    ("cluster-name", cluster::name),
    ("cluster-stable", cluster::stable),
    ("compatibility-id", identity::compatibility_id),
    ("connection", identity::connection),
    ("edition", identity::edition),
    ("feature-key", enterprise_only),
    ("features", identity::features),
    ("get-config", config::get),
    ("health-outliers", empty),
    ("health-stats", empty),
    ("help", help),
    ("histogram", latency::histogram),
    ("jobs", admin::jobs),
    ("latencies", latency::latencies),
    ("log", identity::log),
    ("logs", identity::logs),
    ("masking", enterprise_only),
    ("mesh", empty),
    ("namespace", namespaces::namespace),
    ("namespaces", namespaces::names),
    ("node", identity::node),
    ("partition-generation", cluster::partition_generation),
    ("partition-info", cluster::partition_info),
    ("partitions", cluster::partitions),
    ("peers-clear-alt", cluster::peers),
    ("peers-clear-std", cluster::peers),
    ("peers-generation", cluster::generation),
    ("peers-tls-alt", cluster::peers),
    ("peers-tls-std", cluster::peers),
    ("query-abort", admin::query_abort),
    ("query-abort-all", admin::query_abort_all),
    ("query-show", admin::jobs),
    ("quiesce", enterprise_only),
    ("quiesce-undo", enterprise_only),
    ("rack-ids", cluster::rack_ids),
    ("racks", enterprise_only),
    ("rebalance-generation", cluster::generation),
    ("recluster", ok),
    ("release", identity::release),
    ("replicas", cluster::replicas),
    ("replicas-all", cluster::replicas_all),
    ("replicas-master", cluster::replicas_master),
    ("revive", enterprise_only),
    ("roster", enterprise_only),
    ("roster-set", enterprise_only),
    ("service", cluster::service),
    ("service-clear-alt", empty),
    ("service-clear-std", cluster::service),
    ("service-tls-alt", empty),
    ("service-tls-std", empty),
    ("services", empty),
    ("services-alumni", empty),
    ("set-config", config::set),
    ("set-log", ok),
    ("sets", namespaces::sets),
    ("sindex", sindex::list),
    ("sindex-create", sindex::create),
    ("sindex-delete", sindex::delete),
    ("sindex-exists", sindex::exists),
    ("sindex-list", sindex::list),
    ("sindex-stat", sindex::stat),
    ("statistics", namespaces::statistics),
    ("status", ok),
    ("truncate", admin::truncate),
    ("truncate-namespace", admin::truncate_namespace),
    ("truncate-namespace-undo", ok),
    ("truncate-undo", ok),
    ("udf-get", udf::get),
    ("udf-list", udf::list),
    ("udf-put", udf::put),
    ("udf-remove", udf::remove),
    ("user-agent-set", identity::user_agent_set),
    ("user-agents", empty),
    ("version", identity::version),
];

/// The names that an empty request asks for.
const SUMMARY: &[&str] = &[
    "node",
    "build",
    "edition",
    "version",
    "statistics",
    "services",
    "namespaces",
    "features",
    "cluster-name",
    "partition-generation",
];

/// Answers a request at the end of `out`.
pub(crate) fn answer(shared: &Shared, session: &mut Session, request: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(request);
    let mut asked = text.lines().filter(|line| !line.is_empty()).peekable();
    if asked.peek().is_none() {
        SUMMARY
            .iter()
            .for_each(|command| answer_one(shared, session, command, out));
    }
    asked.for_each(|command| answer_one(shared, session, command, out));
}

fn answer_one(shared: &Shared, session: &mut Session, command: &str, out: &mut Vec<u8>) {
    let separator = command.find(['/', ':', ';']).unwrap_or(command.len());
    let (name, rest) = command.split_at(separator);
    let found = COMMANDS.binary_search_by_key(&name, |(name, _)| name);
    let value = match found.ok().and_then(|at| COMMANDS.get(at)) {
        _ if out.len() > ANSWERS_BYTES_MAX => {
            Err(InfoError::parameter("too much is asked at once"))
        }
        Some((_, run)) => run(&mut Ask {
            shared,
            session,
            parameters: rest.get(1..).unwrap_or_default(),
        }),
        None => Err(InfoError::parameter("unrecognized command")),
    };
    out.extend_from_slice(command.as_bytes());
    out.push(b'\t');
    match value {
        Ok(value) => out.extend_from_slice(value.as_bytes()),
        Err(error) => out.extend_from_slice(error.to_string().as_bytes()),
    }
    out.push(b'\n');
}

impl<'a> Ask<'a> {
    /// The value of a parameter, by the first of these names that is there.
    fn parameter(&self, names: &[&str]) -> Option<&'a str> {
        let parameters = self.parameters;
        names.iter().find_map(|name| {
            parameters.split(';').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                (key == *name).then_some(value)
            })
        })
    }

    /// The name of the namespace that is asked for.
    fn namespace_name(&self) -> Option<&'a str> {
        self.parameter(&["namespace", "ns", "id"])
    }

    /// The namespace of a name.
    fn served(&self, name: &str) -> Option<&'a ServedNamespace> {
        self.shared.namespace(name.as_bytes())
    }
}

/// `key=value` pairs between semicolons.
#[derive(Debug, Default)]
struct Pairs(String);

impl Pairs {
    fn add(&mut self, key: impl fmt::Display, value: impl fmt::Display) {
        use fmt::Write;
        if !self.0.is_empty() {
            self.0.push(';');
        }
        // Writing to a string does not fail.
        let _ = write!(self.0, "{key}={value}");
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn ok(_: &mut Ask<'_>) -> Answer {
    Ok("ok".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn empty(_: &mut Ask<'_>) -> Answer {
    Ok(String::new())
}

fn enterprise_only(_: &mut Ask<'_>) -> Answer {
    Err(InfoError::new(25, "enterprise only"))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn help(_: &mut Ask<'_>) -> Answer {
    let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    Ok(names.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by(|(one, _), (other, _)| one < other));
        for name in SUMMARY {
            assert!(COMMANDS.iter().any(|(known, _)| known == name), "{name}");
        }
    }
}
