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

use super::result_code;
use super::security::{Access, Permissions};
use super::served::ServedNamespace;
use super::shared::ServerShared;

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
    pub(crate) access: Access,
    pub(crate) is_encrypted: bool,
}

/// A command, and who asks.
#[derive(Debug)]
struct Ask<'a> {
    shared: &'a ServerShared,
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

type InfoAnswer = Result<String, InfoError>;
type InfoCommand = fn(&mut Ask<'_>) -> InfoAnswer;

/// Who may give a command, where the server has users.
#[derive(Clone, Copy, Debug)]
enum Needs {
    /// Clients ask it before they log in.
    Nothing,
    /// Every user may ask it.
    Login,
    Permission(Permissions),
}

use Needs::{Login, Nothing};
const SYSTEM: Needs = Needs::Permission(Permissions::SYSTEM);
const JOBS: Needs = Needs::Permission(Permissions::JOBS);
const INDEXES: Needs = Needs::Permission(Permissions::INDEXES);
const TRUNCATE: Needs = Needs::Permission(Permissions::TRUNCATE);
const FUNCTIONS: Needs = Needs::Permission(Permissions::FUNCTIONS);

/// All commands, by name, and what they need.
const COMMANDS: &[(&str, Needs, InfoCommand)] = &[
    ("alumni-clear-std", Nothing, cluster::peers),
    ("alumni-tls-std", Nothing, cluster::peers),
    ("best-practices", Login, identity::best_practices),
    ("build", Nothing, identity::build),
    ("build_os", Login, identity::build_os),
    ("cluster-name", Nothing, cluster::name),
    ("cluster-stable", Login, cluster::stable),
    ("compatibility-id", Login, identity::compatibility_id),
    ("connection", Login, identity::connection),
    ("edition", Nothing, identity::edition),
    ("feature-key", SYSTEM, enterprise_only),
    ("features", Nothing, identity::features),
    ("get-config", Login, config::get),
    ("health-outliers", Login, empty),
    ("health-stats", Login, empty),
    ("help", Login, help),
    ("histogram", Login, latency::histogram),
    ("jobs", Login, admin::jobs),
    ("latencies", Login, latency::latencies),
    ("log", Login, identity::log),
    ("logs", Login, identity::logs),
    ("masking", SYSTEM, enterprise_only),
    ("mesh", Login, empty),
    ("namespace", Login, namespaces::namespace),
    ("namespaces", Login, namespaces::names),
    ("node", Nothing, identity::node),
    (
        "partition-generation",
        Nothing,
        cluster::partition_generation,
    ),
    ("partition-info", Login, cluster::partition_info),
    ("partitions", Nothing, cluster::partitions),
    ("peers-clear-alt", Nothing, cluster::peers),
    ("peers-clear-std", Nothing, cluster::peers),
    ("peers-generation", Nothing, cluster::generation),
    ("peers-tls-alt", Nothing, cluster::peers),
    ("peers-tls-std", Nothing, cluster::peers),
    ("query-abort", JOBS, admin::query_abort),
    ("query-abort-all", JOBS, admin::query_abort_all),
    ("query-show", Login, admin::jobs),
    ("quiesce", SYSTEM, enterprise_only),
    ("quiesce-undo", SYSTEM, enterprise_only),
    ("rack-ids", Login, cluster::rack_ids),
    ("racks", Login, enterprise_only),
    ("rebalance-generation", Nothing, cluster::generation),
    ("recluster", SYSTEM, ok),
    ("release", Nothing, identity::release),
    ("replicas", Login, cluster::replicas),
    ("replicas-all", Login, cluster::replicas_all),
    ("replicas-master", Login, cluster::replicas_master),
    ("revive", SYSTEM, enterprise_only),
    ("roster", Login, enterprise_only),
    ("roster-set", SYSTEM, enterprise_only),
    ("service", Nothing, cluster::service),
    ("service-clear-alt", Nothing, empty),
    ("service-clear-std", Nothing, cluster::service_plain),
    ("service-tls-alt", Nothing, empty),
    ("service-tls-std", Nothing, cluster::service_encrypted),
    ("services", Nothing, empty),
    ("services-alumni", Nothing, empty),
    ("set-config", SYSTEM, config::set),
    ("set-log", SYSTEM, ok),
    ("sets", Login, namespaces::sets),
    ("sindex", Login, sindex::list),
    ("sindex-create", INDEXES, sindex::create),
    ("sindex-delete", INDEXES, sindex::delete),
    ("sindex-exists", Login, sindex::exists),
    ("sindex-list", Login, sindex::list),
    ("sindex-stat", Login, sindex::stat),
    ("statistics", Login, namespaces::statistics),
    ("status", Nothing, ok),
    ("truncate", TRUNCATE, admin::truncate),
    ("truncate-namespace", TRUNCATE, admin::truncate_namespace),
    ("truncate-namespace-undo", TRUNCATE, ok),
    ("truncate-undo", TRUNCATE, ok),
    ("udf-get", Login, udf::get),
    ("udf-list", Login, udf::list),
    ("udf-put", FUNCTIONS, udf::put),
    ("udf-remove", FUNCTIONS, udf::remove),
    ("user-agent-set", Nothing, identity::user_agent_set),
    ("user-agents", Login, empty),
    ("version", Nothing, identity::version),
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
pub(crate) fn answer(
    shared: &ServerShared,
    session: &mut Session,
    request: &[u8],
    out: &mut Vec<u8>,
) {
    let text = String::from_utf8_lossy(request);
    let mut asked = text.lines().filter(|line| !line.is_empty()).peekable();
    if asked.peek().is_none() {
        SUMMARY
            .iter()
            .for_each(|command| answer_one(shared, session, command, out));
    }
    asked.for_each(|command| answer_one(shared, session, command, out));
}

fn answer_one(shared: &ServerShared, session: &mut Session, command: &str, out: &mut Vec<u8>) {
    let separator = command.find(['/', ':', ';']).unwrap_or(command.len());
    let (name, rest) = command.split_at(separator);
    let found = COMMANDS.binary_search_by_key(&name, |(name, ..)| name);
    let value = match found.ok().and_then(|at| COMMANDS.get(at)) {
        _ if out.len() > ANSWERS_BYTES_MAX => {
            Err(InfoError::parameter("too much is asked at once"))
        }
        Some((name, needs, run)) => {
            let parameters = rest.get(1..).unwrap_or_default();
            let mut ask = Ask {
                shared,
                session,
                parameters,
            };
            ask.check(name, *needs).and_then(|()| run(&mut ask))
        }
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
    /// Refuses a command that the user may not give.
    fn check(&mut self, name: &str, needs: Needs) -> Result<(), InfoError> {
        let needed = match needs {
            Nothing => return Ok(()),
            Login => Permissions::empty(),
            Needs::Permission(needed) => needed,
        };
        let set = self.parameter(&["set"]).unwrap_or_default();
        let place = (self.namespace_name().unwrap_or_default(), set);
        let may = self.session.access.info(name, needed, place);
        may.map_err(|code| match code {
            result_code::NOT_AUTHENTICATED => InfoError::new(code, "not authenticated"),
            result_code::NOT_ALLOWLISTED => InfoError::new(code, "not on the allowlist"),
            code => InfoError::new(code, "role violation"),
        })
    }

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

    /// The namespace that is asked for, which must be there.
    fn named(&self) -> Result<&'a ServedNamespace, InfoError> {
        let name = self.namespace_name();
        let name = name.ok_or_else(|| InfoError::parameter("missing namespace"))?;
        let served = self.served(name);
        served.ok_or_else(|| InfoError::parameter("unknown namespace"))
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
fn ok(_: &mut Ask<'_>) -> InfoAnswer {
    Ok("ok".to_owned())
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn empty(_: &mut Ask<'_>) -> InfoAnswer {
    Ok(String::new())
}

fn enterprise_only(_: &mut Ask<'_>) -> InfoAnswer {
    Err(InfoError::new(25, "enterprise only"))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn help(_: &mut Ask<'_>) -> InfoAnswer {
    let names: Vec<&str> = COMMANDS.iter().map(|(name, ..)| *name).collect();
    Ok(names.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order() {
        assert!(COMMANDS.is_sorted_by(|(one, ..), (other, ..)| one < other));
        for name in SUMMARY {
            assert!(COMMANDS.iter().any(|(known, ..)| known == name), "{name}");
        }
    }
}
