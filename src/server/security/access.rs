//! The rights of a connection.
//!
//! There is one check for each kind of message: [`Access::command`] for requests about a record,
//! alone or as a row of a batch, [`Access::query`], [`Access::info`]. Each begins with a look at
//! the version of all users and roles.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::account::{Account, Place};
use super::privilege::Permissions;
use super::usage::Rate;
use super::users::Security;
use crate::rate_limit::RateLimit;
use crate::server::command::RecordCommand;
use crate::server::counters::Counted;
use crate::server::fields::Field;
use crate::server::message::{Info1, Info2, Message, Verb};
use crate::server::ops::code;
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::server::transaction::part::TransactionPart;

/// The rights of a connection: those of its user, if it has one.
#[derive(Clone)]
pub(crate) struct Access {
    /// `None`: every client may do everything.
    pub(super) security: Option<Arc<Security>>,
    pub(super) peer: IpAddr,
    pub(super) account: Option<Arc<Account>>,
    /// Counts the connection for its user, once for all clones.
    connection: Option<Arc<Counted>>,
}

impl Access {
    /// The access of a client that has not logged in.
    pub(crate) const fn new(security: Option<Arc<Security>>, peer: IpAddr) -> Self {
        Self {
            security,
            peer,
            account: None,
            connection: None,
        }
    }

    /// The name of the user.
    pub(super) fn user(&self) -> Option<&str> {
        self.account.as_ref().map(|account| &*account.name)
    }

    /// Takes a user over, once it is known who it is. An error is the code of the answer.
    pub(super) fn log_in(&mut self, account: Account) -> Result<(), u8> {
        account.check_address(self.peer)?;
        self.connection = account.usage.connections.enter(u64::MAX).map(Arc::new);
        self.account = Some(Arc::new(account));
        Ok(())
    }

    /// Returns the user, with roles as they are now. An error is the code of the answer: the client
    /// has not logged in, the session has ended with the user or the password, or the address is
    /// not allowed any more.
    pub(super) fn current(&mut self) -> Result<Option<&Account>, u8> {
        let Some(security) = &self.security else {
            return Ok(None);
        };
        let account = self
            .account
            .as_ref()
            .ok_or(result_code::NOT_AUTHENTICATED)?;
        if account.version != security.users.version.load(Ordering::Acquire) {
            let renewed = security.users.account(&account.name);
            match renewed.ok().filter(|new| new.salt == account.salt) {
                Some(new) => self.account = Some(Arc::new(new)),
                None => (self.account, self.connection) = (None, None),
            }
        }
        let account = self
            .account
            .as_deref()
            .ok_or(result_code::NOT_AUTHENTICATED)?;
        account.check_address(self.peer)?;
        Ok(Some(account))
    }

    /// Checks a request about a record. An error is the code of the answer.
    pub(crate) fn command(&mut self, command: &RecordCommand<'_>) -> Result<(), u8> {
        if self.security.is_none() {
            return Ok(());
        }
        let served = command.served;
        let set = command.message.fields.get(Field::Set).unwrap_or_default();
        let place = (served.namespace.name().as_bytes(), set);
        let writes = command.verb() != Verb::Read;
        let check = |account: &Account| {
            // The writes of a transaction are checked one by one. The Community Edition's have
            // none.
            let is_monitor = served.community.is_none() && command.part == TransactionPart::Monitor;
            if writes && is_monitor {
                account.check_some_write_in(place.0)?;
            } else {
                account.check(needed_by(command), place)?;
            }
            let (rate, limit): (&Rate, _) = if writes {
                (&account.usage.writes, account.write_quota)
            } else {
                (&account.usage.reads, account.read_quota)
            };
            let taken = rate.take(limit, served.namespace.now_ms());
            taken.then_some(()).ok_or(result_code::QUOTA_EXCEEDED)
        };
        let action = || {
            let verb = match command.verb() {
                Verb::Read => "read",
                Verb::Function => "function",
                Verb::Write => "write",
                Verb::Delete => "delete",
            };
            format!("{verb} {} of {}", command.digest, shown(place))
        };
        let is_noted = |security: &Security| security.audit.has_data(place);
        self.check(is_noted, check, action).map(drop)
    }

    /// Checks a query, or a background query. Returns the limit that all queries of the user share.
    /// An error is the code of the answer.
    pub(crate) fn query(
        &mut self,
        served: &ServedNamespace,
        message: &Message<'_>,
    ) -> Result<Option<RateLimit>, u8> {
        let fields = &message.fields;
        let set = fields.get(Field::Set).unwrap_or_default();
        let place = (served.namespace.name().as_bytes(), set);
        let calls = fields.has(Field::UdfPackage) || fields.has(Field::UdfKind);
        let writes =
            message.head.info2.contains(Info2::WRITE) || fields.get(Field::UdfKind) == Some(&[2]);
        let mut needed = if writes {
            Permissions::WRITE
        } else {
            Permissions::READ
        };
        needed.set(Permissions::CALL, calls);
        let check = |account: &Account| {
            account.check(needed, place)?;
            let [of_reads, of_writes] = &account.usage.queries;
            Ok(if writes {
                RateLimit::new(account.write_quota, Arc::clone(of_writes))
            } else {
                RateLimit::new(account.read_quota, Arc::clone(of_reads))
            })
        };
        let action = || {
            let kind = if writes { "background query" } else { "query" };
            format!("{kind} of {}", shown(place))
        };
        let is_noted = |security: &Security| security.audit.has_data(place);
        self.check(is_noted, check, action).map(Option::flatten)
    }

    /// Whether the client has logged in, or need not.
    pub(crate) const fn is_known(&self) -> bool {
        self.security.is_none() || self.account.is_some()
    }

    /// Checks that the client has logged in, before anything else of its message is looked at.
    pub(crate) fn logged_in(&mut self) -> Result<(), u8> {
        let action = || "request".to_owned();
        self.check(|_| false, |_| Ok(()), action).map(drop)
    }

    /// Checks an info command that needs one of these, in a namespace and set if it is about one.
    pub(crate) fn info(
        &mut self,
        name: &str,
        needed: Permissions,
        (namespace, set): (&str, &str),
    ) -> Result<(), u8> {
        let place = (namespace.as_bytes(), set.as_bytes());
        let action = || {
            format!("info {name} {}", shown(place))
                .trim_end()
                .to_owned()
        };
        let check = |account: &Account| account.check(needed, place);
        // Commands that change something need a permission.
        self.check(|_| !needed.is_empty(), check, action).map(drop)
    }

    /// Looks at the user, if there is one. Notes a refusal, and a request that is to be noted.
    fn check<T>(
        &mut self,
        is_noted: impl FnOnce(&Security) -> bool,
        look: impl FnOnce(&Account) -> Result<T, u8>,
        action: impl FnOnce() -> String,
    ) -> Result<Option<T>, u8> {
        let account = self.current();
        let seen = account.and_then(|account| account.map(look).transpose());
        if let Some(security) = &self.security
            && (seen.is_err() || is_noted(security))
        {
            let code = seen.as_ref().err().copied().unwrap_or(result_code::OK);
            security.note(self.user(), self.peer, &action(), code);
        }
        seen
    }
}

fn shown((namespace, set): Place<'_>) -> String {
    let text = |name| String::from_utf8_lossy(name).escape_debug().to_string();
    match (namespace, set) {
        ([], _) => String::new(),
        (namespace, []) => text(namespace),
        (namespace, set) => format!("{}.{}", text(namespace), text(set)),
    }
}

/// The permissions that a request about a record needs.
fn needed_by(command: &RecordCommand<'_>) -> Permissions {
    let mut ops = command.message.ops.iter();
    match command.verb() {
        Verb::Read => Permissions::READ,
        Verb::Delete => Permissions::WRITE,
        Verb::Function => Permissions::CALL,
        Verb::Write
            if command.message.head.info1.contains(Info1::READ)
                || ops.any(|op| code::reads(op.code)) =>
        {
            Permissions::READ | Permissions::WRITE
        }
        Verb::Write => Permissions::WRITE,
    }
}
