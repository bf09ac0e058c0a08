//! Converts errors of the client to errors of this crate.

use std::time::Duration;

use aerospike::{Error as Theirs, ErrorKind, ResultCode};

use crate::error::ClusterFailure;
use crate::policy::GenerationPolicy;
use crate::{Error, Expiration, Operation, WritePolicy};

/// The facts of a failed call that its error needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedCall<'a> {
    pub(super) namespace: &'a str,
    pub(super) policy: &'a WritePolicy,
    pub(super) operations: &'a [Operation],
    pub(super) max_record_bytes: u64,
    pub(super) elapsed: Duration,
}

impl FailedCall<'_> {
    /// The error of a call on a record.
    pub(super) fn error(&self, theirs: &Theirs) -> Error {
        let code = theirs.server_result_code();
        // A server that gives up has perhaps written already: it waited for its replicas.
        let in_doubt = self.writes() && (in_doubt(theirs) || code == Some(ResultCode::Timeout));
        match code {
            Some(ResultCode::Timeout) => self.timed_out(in_doubt),
            Some(code) if in_doubt => refused(code, theirs, true),
            Some(code) => self.of_code(code, theirs),
            None if is_timeout(theirs) => self.timed_out(in_doubt),
            None => of_client(theirs, self.namespace, in_doubt),
        }
    }

    /// The error of a call that has no answer of its own: the client ended, or the server left it
    /// out.
    pub(super) fn unanswered(&self, why: impl Into<Box<str>>) -> Error {
        let failure = ClusterFailure::new(None, why).doubtful(self.writes());
        Error::Cluster(Box::new(failure))
    }

    /// The error of a call that [`Link::run`](super::link::Link::run) has given up: refused before
    /// it was sent, or in doubt.
    pub(super) fn given_up(&self, why: &Error) -> Error {
        match why {
            Error::Parameter(why) => Error::Parameter(why.clone()),
            ended => self.unanswered(ended.to_string()),
        }
    }

    fn writes(&self) -> bool {
        self.operations.iter().any(Operation::is_write)
    }

    const fn timed_out(&self, in_doubt: bool) -> Error {
        Error::Timeout {
            after: self.elapsed,
            in_doubt,
            record: None,
        }
    }

    fn of_code(&self, code: ResultCode, theirs: &Theirs) -> Error {
        // A server sends a code and no figures: generations, sizes and queues are unknown here.
        let record = None;
        let bin = || self.bins().into_boxed_str();
        match u8::from(code) {
            2 => Error::not_found(),
            3 => Error::Generation {
                expected: match self.policy.generation {
                    GenerationPolicy::None => 0,
                    GenerationPolicy::ExpectEqual(expected)
                    | GenerationPolicy::ExpectGreater(expected) => expected,
                },
                found: None,
                record,
            },
            4 => Error::parameter(format!("refused by the cluster: {}", text(theirs))),
            5 => Error::RecordExists { record },
            6 => Error::BinExists { bin: bin(), record },
            12 => Error::IncompatibleType {
                bin: bin(),
                found: "value of another type",
                operation: "an operation of the call",
                record,
            },
            13 => Error::RecordTooBig {
                size: 0,
                limit: self.max_record_bytes,
                largest_bin: None,
                record,
            },
            14 => Error::KeyBusy {
                waiting: 0,
                limit: 0,
                record,
            },
            17 => Error::BinNotFound { bin: bin(), record },
            19 => Error::key_mismatch(),
            20 => Error::Namespace(self.namespace.into()),
            22 if matches!(self.policy.expiration, Expiration::After(_)) => {
                let why = format!(
                    "{}: if the namespace expires no records (nsup-period is 0), no record of it may have a time to live",
                    text(theirs)
                );
                Error::Forbidden(why.into())
            }
            22 => Error::Forbidden(text(theirs).into()),
            25 if self.policy.durable_delete => {
                let why = "the server refuses durable deletes, which only the Enterprise Edition has: set WritePolicy::durable_delete to false, \
                           and read in docs/from-aerospike.md what a restart of the server brings back";
                Error::Cluster(Box::new(ClusterFailure::new(Some(25), why)))
            }
            23 => Error::ElementNotFound {
                bin: bin(),
                hint: "the write flags ask for elements that exist; add NO_FAIL to pass over missing ones",
                record,
            },
            24 => Error::ElementExists {
                bin: bin(),
                hint: "the write flags ask for elements that do not exist yet; add NO_FAIL to pass over those that do",
                record,
            },
            26 => Error::not_applicable(text(theirs).into()),
            27 => Error::FilteredOut { record },
            _ => refused(code, theirs, false),
        }
    }

    /// The bins of the call. A server does not say which one it has refused.
    fn bins(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in self.operations.iter().flat_map(Operation::bin) {
            let name = name.as_str();
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(" or ")
    }
}

/// An error of something else than a call on a record: connecting, scanning, asking for
/// information.
pub(super) fn of_cluster(theirs: &Theirs, namespace: &str) -> Error {
    match theirs.server_result_code() {
        Some(ResultCode::InvalidNamespace) => Error::Namespace(namespace.into()),
        Some(code) => refused(code, theirs, false),
        None => of_client(theirs, namespace, false),
    }
}

/// A refusal of the server that has no variant of its own. Some pass: the cluster is rebalancing or
/// overloaded, a transaction of a client has locked the record, an index is being built.
fn refused(code: ResultCode, theirs: &Theirs, in_doubt: bool) -> Error {
    let number = u8::from(code);
    let failure = ClusterFailure::new(Some(number), text(theirs))
        .transient(matches!(number, 7 | 11 | 18 | 120 | 203))
        .doubtful(in_doubt);
    Error::Cluster(Box::new(failure))
}

fn of_client(theirs: &Theirs, namespace: &str, in_doubt: bool) -> Error {
    match root(theirs).kind() {
        ErrorKind::InvalidNamespace => Error::Namespace(namespace.into()),
        ErrorKind::InvalidArgument => Error::parameter(text(theirs)),
        kind => {
            let transient = matches!(
                kind,
                ErrorKind::Connection
                    | ErrorKind::ConnectionPoolEmpty
                    | ErrorKind::NoMoreConnections
                    | ErrorKind::MaxErrorRate
                    | ErrorKind::InvalidNode
                    | ErrorKind::Timeout
                    | ErrorKind::Io(_)
            );
            let failure = ClusterFailure::new(None, text(theirs))
                .transient(transient)
                .doubtful(in_doubt);
            Error::Cluster(Box::new(failure))
        }
    }
}

/// Whether the write may have been applied. Of a refusal that it may retry, such as `KEY_BUSY`, the
/// client says that retries are used up, and calls that in doubt, although the one attempt was
/// refused.
fn in_doubt(theirs: &Theirs) -> bool {
    let root = root(theirs);
    match root.kind() {
        ErrorKind::Server { .. } => root.in_doubt(),
        _ => theirs.in_doubt(),
    }
}

/// The first of the errors that led to this one.
fn root(theirs: &Theirs) -> &Theirs {
    let mut root = theirs;
    while let Some(cause) = root.cause() {
        root = cause;
    }
    root
}

/// Whether it is time that ran out, and not a connection that was lost.
fn is_timeout(theirs: &Theirs) -> bool {
    theirs.is_client_timeout() && matches!(root(theirs).kind(), ErrorKind::Timeout)
}

/// What went wrong, in the server's words where it has sent some.
fn text(theirs: &Theirs) -> String {
    match theirs.server_message() {
        Some(message) => message.to_owned(),
        None => root(theirs).base_message(),
    }
}
