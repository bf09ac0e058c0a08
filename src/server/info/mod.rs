//! Info: questions and commands as text.
//!
//! ```text
//! request = (command '\n') ..               command = name, or name (':' or '/') parameters
//! answer  = (command '\t' value '\n') ..    in the order of the commands, each as it was asked
//! ```
//!
//! Parameters are mostly `key=value` pairs between semicolons. [`COMMANDS`] is all there is.
//!
//! * `identity`: who this server is, and where. `cluster`: the cluster of one node that clients
//!   look for.
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
use crate::Error;

/// Further commands of a request are refused once its answers exceed this size.
const ANSWERS_BYTES_MAX: usize = 1 << 20;

/// A connection's addresses and its client's description.
#[derive(Clone)]
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
struct Ask<'a> {
    shared: &'a ServerShared,
    session: &'a mut Session,
    /// What follows the name and its separator.
    parameters: &'a str,
}

/// The answer to a command that failed.
#[derive(Debug, PartialEq, Eq)]
struct InfoError(String);

impl InfoError {
    /// With Aerospike's number.
    fn new(code: u8, text: impl fmt::Display) -> Self {
        Self(format!("ERROR:{code}:{text}"))
    }

    fn parameter(text: impl fmt::Display) -> Self {
        Self::new(result_code::PARAMETER, text)
    }
}

impl From<Error> for InfoError {
    fn from(error: Error) -> Self {
        Self::new(error.result_code(), error)
    }
}

type InfoAnswer = Result<String, InfoError>;

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

/// How a command is answered.
#[derive(Clone, Copy)]
enum InfoAction {
    /// Always by this text.
    Says(&'static str),
    Runs(fn(&mut Ask<'_>) -> InfoAnswer),
    EnterpriseOnly,
}

use InfoAction::{EnterpriseOnly, Runs, Says};

/// All commands: names between spaces, and what they need.
const COMMANDS: &[(&str, Needs, InfoAction)] = &[
    ("alumni-clear-std", Nothing, Runs(cluster::peers)),
    ("alumni-tls-std", Nothing, Runs(cluster::peers)),
    ("best-practices", Login, Says("failed_best_practices=none")),
    ("build", Nothing, Says(BUILD)),
    ("build_os", Login, Says(std::env::consts::OS)),
    ("cluster-name", Nothing, Runs(cluster::name)),
    ("cluster-stable", Login, Runs(cluster::stable)),
    ("compatibility-id", Login, Says("15")),
    ("connection", Login, Runs(identity::connection)),
    ("edition", Nothing, Says(identity::EDITION)),
    ("feature-key masking quiesce", SYSTEM, EnterpriseOnly),
    ("features", Nothing, Says(identity::FEATURES)),
    ("get-config", Login, Runs(config::get)),
    ("health-outliers health-stats", Login, Says("")),
    ("help", Login, Runs(help)),
    ("histogram", Login, Runs(latency::histogram)),
    ("jobs query-show", Login, Runs(admin::jobs)),
    ("latencies", Login, Runs(latency::latencies)),
    ("log", Login, Runs(identity::log)),
    ("logs", Login, Says("0:stderr")),
    ("mesh user-agents", Login, Says("")),
    ("namespace", Login, Runs(namespaces::namespace)),
    ("namespaces", Login, Runs(namespaces::names)),
    ("node", Nothing, Runs(|ask| Ok(ask.shared.node.clone()))),
    ("partition-generation", Nothing, Says("1")),
    ("partition-info", Login, Runs(cluster::partition_info)),
    ("partitions", Nothing, Says("4096")),
    ("peers-clear-alt", Nothing, Runs(cluster::peers)),
    ("peers-clear-std", Nothing, Runs(cluster::peers)),
    ("peers-generation rebalance-generation", Nothing, Says("0")),
    ("peers-tls-alt peers-tls-std", Nothing, Runs(cluster::peers)),
    ("query-abort", JOBS, Runs(admin::query_abort)),
    ("query-abort-all", JOBS, Runs(admin::query_abort_all)),
    ("rack-ids", Login, Runs(cluster::rack_ids)),
    ("racks roster", Login, EnterpriseOnly),
    ("recluster set-log", SYSTEM, Says("ok")),
    ("release", Nothing, Runs(identity::release)),
    ("replicas", Login, Runs(cluster::replicas)),
    ("replicas-all", Login, Runs(|ask| ask.maps(|_| "1,"))),
    ("replicas-master", Login, Runs(|ask| ask.maps(|_| ""))),
    ("quiesce-undo revive roster-set", SYSTEM, EnterpriseOnly),
    ("service", Nothing, Runs(cluster::service)),
    ("service-clear-alt service-tls-alt", Nothing, Says("")),
    ("service-clear-std", Nothing, Runs(|ask| ask.address(false))),
    ("service-tls-std", Nothing, Runs(|ask| ask.address(true))),
    ("services services-alumni", Nothing, Says("")),
    ("set-config", SYSTEM, Runs(config::set)),
    ("sets", Login, Runs(namespaces::sets)),
    ("sindex sindex-list", Login, Runs(sindex::list)),
    ("sindex-create", INDEXES, Runs(sindex::create)),
    ("sindex-delete", INDEXES, Runs(sindex::delete)),
    ("sindex-exists", Login, Runs(sindex::exists)),
    ("sindex-stat", Login, Runs(sindex::stat)),
    ("statistics", Login, Runs(namespaces::statistics)),
    ("status", Nothing, Says("ok")),
    ("truncate", TRUNCATE, Runs(admin::truncate)),
    ("truncate-namespace", TRUNCATE, Runs(admin::truncate_all)),
    ("truncate-namespace-undo", TRUNCATE, Says("ok")),
    ("truncate-undo", TRUNCATE, Says("ok")),
    ("udf-get", Login, Runs(udf::get)),
    ("udf-list", Login, Runs(udf::list)),
    ("udf-put", FUNCTIONS, Runs(udf::put)),
    ("udf-remove", FUNCTIONS, Runs(udf::remove)),
    ("user-agent-set", Nothing, Runs(identity::user_agent_set)),
    ("version", Nothing, Runs(identity::version)),
];

/// The commands of a row.
fn names_of((names, ..): &(&'static str, Needs, InfoAction)) -> std::str::Split<'static, char> {
    names.split(' ')
}

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
    let mut commands = COMMANDS.iter();
    let found = commands.find(|command| names_of(command).any(|known| known == name));
    let value = match found {
        _ if out.len() > ANSWERS_BYTES_MAX => {
            Err(InfoError::parameter("too much is asked at once"))
        }
        Some((_, needs, run)) => {
            let parameters = rest.get(1..).unwrap_or_default();
            let mut ask = Ask {
                shared,
                session,
                parameters,
            };
            ask.check(name, *needs).and_then(|()| match run {
                Says(text) => Ok((*text).to_owned()),
                Runs(run) => run(&mut ask),
                EnterpriseOnly => Err(InfoError::new(
                    result_code::ENTERPRISE_ONLY,
                    "enterprise only",
                )),
            })
        }
        None => Err(InfoError::parameter("unrecognized command")),
    };
    out.extend_from_slice(command.as_bytes());
    out.push(b'\t');
    let value = value.unwrap_or_else(|InfoError(text)| text);
    out.extend_from_slice(value.as_bytes());
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
        self.shared
            .namespace(name.as_bytes())
            .map(|served| &**served)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of all commands")]
fn help(_: &mut Ask<'_>) -> InfoAnswer {
    let mut names: Vec<&str> = COMMANDS.iter().flat_map(names_of).collect();
    names.sort_unstable();
    Ok(names.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_listed_once() {
        let mut names: Vec<_> = COMMANDS.iter().flat_map(names_of).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, other| one < other));
        for name in SUMMARY {
            assert!(names.contains(name), "{name}");
        }
    }
}
