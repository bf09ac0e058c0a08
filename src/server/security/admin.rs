//! The messages that log in, and change users and roles.
//!
//! ```text
//! message = zero: u8, result code: u8, command: u8, number of fields: u8, zeros: 12 bytes, fields
//! ```
//!
//! Fields have the form of other messages' fields, and numbers of their own. [`COMMANDS`] lists all
//! commands.

use std::collections::BTreeSet;

use super::access::Access;
use super::account::Account;
use super::directory::{Changed, UserDirectory, UserRole};
use super::password::{BadToken, StoredPassword};
use super::privilege::{Permissions, Privilege, read_list, short_text};
use super::usage::Rate;
use super::users::Security;
use crate::server::bytes::UnreadBytes;
use crate::server::fields::{Fields, write_field};
use crate::server::result_code;

/// The length of the head of a message.
const HEAD_BYTES: usize = 16;

/// The numbers of fields.
mod field {
    pub(super) const USER: u8 = 0;
    pub(super) const PASSWORD: u8 = 1;
    pub(super) const OLD_PASSWORD: u8 = 2;
    pub(super) const CREDENTIAL: u8 = 3;
    pub(super) const CLEAR_PASSWORD: u8 = 4;
    pub(super) const SESSION_TOKEN: u8 = 5;
    pub(super) const SESSION_TTL: u8 = 6;
    pub(super) const ROLES: u8 = 10;
    pub(super) const ROLE: u8 = 11;
    pub(super) const PRIVILEGES: u8 = 12;
    pub(super) const ALLOWLIST: u8 = 13;
    pub(super) const READ_QUOTA: u8 = 14;
    pub(super) const WRITE_QUOTA: u8 = 15;
    pub(super) const READ_INFO: u8 = 16;
    pub(super) const WRITE_INFO: u8 = 17;
    pub(super) const CONNECTIONS: u8 = 18;
}

/// Who may give a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// Every client: it is a login.
    Anyone,
    /// Every user; the command itself restricts the rest.
    User,
    Administrator,
}

use Giver::{Administrator, Anyone, User};

type AdminRun = fn(&mut Asked<'_>) -> Changed;

/// All commands: number, name in the audit log, who may give it, and its function.
const COMMANDS: [(u8, &str, Giver, AdminRun); 16] = [
    (0, "authenticate", Anyone, authenticate),
    (1, "create user", Administrator, create_user),
    (2, "drop user", Administrator, drop_user),
    (3, "set password", Administrator, set_password),
    (4, "change password", User, change_password),
    (5, "grant roles", Administrator, grant_roles),
    (6, "revoke roles", Administrator, revoke_roles),
    (9, "query users", User, query_users),
    (10, "create role", Administrator, create_role),
    (11, "drop role", Administrator, drop_role),
    (12, "grant privileges", Administrator, grant_privileges),
    (13, "revoke privileges", Administrator, revoke_privileges),
    (14, "set allowlist", Administrator, set_allowlist),
    (15, "set quotas", Administrator, set_quotas),
    (16, "query roles", User, query_roles),
    (20, "login", Anyone, login),
];

/// A command, and who gives it.
struct Asked<'a> {
    access: &'a mut Access,
    security: &'a Security,
    fields: Fields<'a>,
    out: &'a mut Vec<u8>,
}

impl Access {
    /// Executes the body of a security message and appends the body of the answer. Blocks:
    /// passwords are hashed, and changes stored.
    pub(crate) fn administer(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let Some(security) = self.security.clone() else {
            return AdminRow::begin(out).end(result_code::SECURITY_NOT_SUPPORTED);
        };
        let mut cursor = UnreadBytes(body);
        let head = cursor.take(HEAD_BYTES).unwrap_or_default();
        let (number, count) = match head {
            [_, _, number, count, ..] => (*number, *count),
            _ => return AdminRow::begin(out).end(result_code::SECURITY_FIELD),
        };
        let found = COMMANDS.iter().find(|(known, ..)| *known == number);
        let Some((_, name, giver, run)) = found else {
            return AdminRow::begin(out).end(result_code::SECURITY_COMMAND);
        };
        let fields = Fields::parse(&mut cursor, count.into()).filter(|_| cursor.is_empty());
        let user = self.user().map(str::to_owned);
        let subject = fields.as_ref().map(subject).unwrap_or_default();
        let from = out.len();
        let done = self.may_give(*giver).and_then(|()| {
            run(&mut Asked {
                access: self,
                security: &security,
                fields: fields.ok_or(result_code::SECURITY_FIELD)?,
                out,
            })
        });
        let code = done.err().unwrap_or(result_code::OK);
        // Rows of a query and the fields of a login are there already.
        if out.len() == from || code != result_code::OK {
            AdminRow::begin(out).end(code);
        }
        let user = user.as_deref().or(self.user());
        let action = format!("{name}{subject}");
        security.note(user, self.peer, &action, code);
    }

    fn may_give(&mut self, giver: Giver) -> Changed {
        if giver == Anyone {
            return Ok(());
        }
        let account = self.current()?;
        let may = giver == User || account.is_none_or(is_administrator);
        may.then_some(()).ok_or(result_code::ROLE_VIOLATION)
    }
}

fn is_administrator(account: &Account) -> bool {
    account.has(Permissions::USERS, (b"", b""))
}

/// The user or role that a command is about, for the audit log.
fn subject(fields: &Fields<'_>) -> String {
    let named = |number| {
        let name = fields.by_number(number)?;
        let name: String = String::from_utf8_lossy(name).chars().take(64).collect();
        Some(format!(" {name:?}"))
    };
    let both = [field::USER, field::ROLE];
    both.into_iter().filter_map(named).collect()
}

impl<'a> Asked<'a> {
    fn bytes(&self, number: u8) -> Changed<&'a [u8]> {
        let found = self.fields.by_number(number);
        found.ok_or(result_code::SECURITY_FIELD)
    }

    fn text(&self, number: u8) -> Changed<&'a str> {
        std::str::from_utf8(self.bytes(number)?).map_err(|_| result_code::SECURITY_FIELD)
    }

    fn has(&self, number: u8) -> bool {
        self.fields.by_number(number).is_some()
    }

    /// A number of requests a second; `None` if it is left out, or -1: some clients send that
    /// instead.
    fn quota(&self, number: u8) -> Changed<Option<u32>> {
        let Some(quota) = self.fields.by_number(number) else {
            return Ok(None);
        };
        let quota = quota.try_into().map(u32::from_be_bytes);
        let quota = quota.map_err(|_| result_code::INVALID_QUOTA)?;
        Ok((quota != u32::MAX).then_some(quota))
    }

    fn roles(&self) -> Changed<Vec<&'a str>> {
        read_list(self.bytes(field::ROLES)?, short_text)
    }

    fn privileges(&self) -> Changed<BTreeSet<Privilege>> {
        read_list(self.bytes(field::PRIVILEGES)?, Privilege::read)
    }

    fn password(&self) -> Changed<StoredPassword> {
        let stored = StoredPassword::of(self.bytes(field::PASSWORD)?);
        let stored = stored.map_err(|error| error.result_code())?;
        stored.ok_or(result_code::INVALID_PASSWORD)
    }

    fn optional_text(&self, number: u8) -> Changed<Option<&'a str>> {
        self.has(number).then(|| self.text(number)).transpose()
    }

    fn change(&self, change: impl FnOnce(&mut UserDirectory) -> Changed) -> Changed {
        self.security.users.change(change)
    }

    /// Changes a role that was created.
    fn change_role(&self, change: impl FnOnce(&mut UserRole) -> Changed) -> Changed {
        let name = self.text(field::ROLE)?;
        self.change(|directory| change(directory.role_mut(name)?))
    }
}

fn login(asked: &mut Asked<'_>) -> Changed {
    // Passwords for other directories, and certificates instead of users.
    if asked.has(field::CLEAR_PASSWORD) || !asked.has(field::USER) {
        return Err(result_code::SECURITY_SCHEME);
    }
    let (user, credential) = (asked.text(field::USER)?, asked.bytes(field::CREDENTIAL)?);
    asked.security.users.check_password(user, credential)?;
    let account = asked.security.users.account(user)?;
    let salt = account.salt;
    asked.access.log_in(account)?;
    let time = asked.security.session_time;
    let ends_ms = asked
        .security
        .users
        .now_ms()
        .saturating_add(time.as_millis() as u64);
    let token = asked.security.tokens.token(user, &salt, ends_ms);
    let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let mut row = AdminRow::begin(asked.out);
    row.field(field::SESSION_TOKEN, &token);
    row.field(field::SESSION_TTL, &seconds.to_be_bytes());
    row.end(result_code::OK);
    Ok(())
}

fn authenticate(asked: &mut Asked<'_>) -> Changed {
    if !asked.has(field::USER) {
        return Err(result_code::SECURITY_SCHEME);
    }
    let (user, security) = (asked.text(field::USER)?, asked.security);
    if asked.has(field::SESSION_TOKEN) {
        let token = asked.bytes(field::SESSION_TOKEN)?;
        let account = security.users.account(user);
        let account = account.map_err(|_| result_code::INVALID_CREDENTIAL)?;
        let checked = security
            .tokens
            .check(token, user, &account.salt, security.users.now_ms());
        checked.map_err(|bad| match bad {
            BadToken::Unknown => result_code::INVALID_CREDENTIAL,
            BadToken::Expired => result_code::SESSION_EXPIRED,
        })?;
        return asked.access.log_in(account);
    }
    security
        .users
        .check_password(user, asked.bytes(field::CREDENTIAL)?)?;
    asked.access.log_in(security.users.account(user)?)
}

fn create_user(asked: &mut Asked<'_>) -> Changed {
    let (user, password, roles) = (asked.text(field::USER)?, asked.password()?, asked.roles()?);
    asked.change(|directory| directory.create_user(user, password, &roles))
}

fn drop_user(asked: &mut Asked<'_>) -> Changed {
    let user = asked.text(field::USER)?;
    asked.change(|directory| directory.drop_user(user))
}

fn set_password(asked: &mut Asked<'_>) -> Changed {
    let (user, password) = (asked.text(field::USER)?, asked.password()?);
    change_password_of(asked, user, password)
}

fn change_password(asked: &mut Asked<'_>) -> Changed {
    let (user, old) = (asked.text(field::USER)?, asked.bytes(field::OLD_PASSWORD)?);
    asked.security.users.account(user)?;
    if asked.access.user() != Some(user) {
        return Err(result_code::ROLE_VIOLATION);
    }
    let checked = asked.security.users.check_password(user, old);
    checked.map_err(|_| result_code::INVALID_PASSWORD)?;
    let password = asked.password()?;
    change_password_of(asked, user, password)
}

/// All sessions of the user end, but for the connection that asks.
fn change_password_of(asked: &mut Asked<'_>, user: &str, password: StoredPassword) -> Changed {
    asked.change(|directory| directory.set_password(user, password))?;
    if asked.access.user() == Some(user) {
        asked.access.log_in(asked.security.users.account(user)?)?;
    }
    Ok(())
}

fn grant_roles(asked: &mut Asked<'_>) -> Changed {
    let (user, roles) = (asked.text(field::USER)?, asked.roles()?);
    asked.change(|directory| directory.grant_roles(user, &roles))
}

fn revoke_roles(asked: &mut Asked<'_>) -> Changed {
    let (user, roles) = (asked.text(field::USER)?, asked.roles()?);
    asked.change(|directory| directory.revoke_roles(user, &roles))
}

fn create_role(asked: &mut Asked<'_>) -> Changed {
    let name = asked.text(field::ROLE)?;
    let mut role = UserRole::default();
    if asked.has(field::PRIVILEGES) {
        role.privileges = asked.privileges()?;
    }
    role.set_allowlist(asked.optional_text(field::ALLOWLIST)?.unwrap_or_default())?;
    role.read_quota = asked.quota(field::READ_QUOTA)?.unwrap_or(0);
    role.write_quota = asked.quota(field::WRITE_QUOTA)?.unwrap_or(0);
    asked.change(|directory| directory.create_role(name, role))
}

fn drop_role(asked: &mut Asked<'_>) -> Changed {
    let name = asked.text(field::ROLE)?;
    asked.change(|directory| directory.drop_role(name))
}

fn grant_privileges(asked: &mut Asked<'_>) -> Changed {
    let privileges = asked.privileges()?;
    asked.change_role(|role| {
        role.privileges.extend(privileges);
        Ok(())
    })
}

fn revoke_privileges(asked: &mut Asked<'_>) -> Changed {
    let privileges = asked.privileges()?;
    asked.change_role(|role| {
        role.privileges.retain(|held| !privileges.contains(held));
        Ok(())
    })
}

fn set_allowlist(asked: &mut Asked<'_>) -> Changed {
    let list = asked.optional_text(field::ALLOWLIST)?.unwrap_or_default();
    asked.change_role(|role| role.set_allowlist(list))
}

fn set_quotas(asked: &mut Asked<'_>) -> Changed {
    let read = asked.quota(field::READ_QUOTA)?;
    let write = asked.quota(field::WRITE_QUOTA)?;
    asked.change_role(|role| {
        role.read_quota = read.unwrap_or(role.read_quota);
        role.write_quota = write.unwrap_or(role.write_quota);
        Ok(())
    })
}

/// A row for one user or all. A user who may not change users sees itself only.
fn query_users(asked: &mut Asked<'_>) -> Changed {
    let named = asked.optional_text(field::USER)?;
    let may_see_all = asked.access.current()?.is_none_or(is_administrator);
    let own = asked.access.user().map(str::to_owned);
    if !may_see_all && named.is_some() && named != own.as_deref() {
        return Err(result_code::ROLE_VIOLATION);
    }
    let security = asked.security;
    let only = named.or(own.as_deref().filter(|_| !may_see_all));
    let names: Vec<Box<str>> = security.users.read(|directory| {
        let names = directory.users.keys();
        let listed = names.filter(|name| only.is_none_or(|only| only == &***name));
        listed.cloned().collect()
    });
    if named.is_some() && names.is_empty() {
        return Err(result_code::INVALID_USER);
    }
    // One may have been dropped since it was listed.
    for account in names.iter().flat_map(|name| security.users.account(name)) {
        user_row(&account, security.users.now_ms(), asked.out);
    }
    AdminRow::begin(asked.out).end(result_code::SECURITY_END);
    Ok(())
}

fn user_row(account: &Account, now_ms: u64, out: &mut Vec<u8>) {
    let mut list = vec![account.roles.len().min(255) as u8];
    for role in account.roles.iter().take(255) {
        list.push(role.len() as u8);
        list.extend_from_slice(role.as_bytes());
    }
    // The quota, single requests a second, records of queries a second, queries without a limit.
    let info = |quota: u32, rate: &Rate| {
        let numbers = [quota, rate.per_second(now_ms), 0, 0];
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        [4].into_iter().chain(numbers).collect::<Vec<u8>>()
    };
    let mut row = AdminRow::begin(out);
    row.field(field::USER, account.name.as_bytes());
    row.field(field::ROLES, &list);
    let usage = &account.usage;
    row.field(field::READ_INFO, &info(account.read_quota, &usage.reads));
    row.field(field::WRITE_INFO, &info(account.write_quota, &usage.writes));
    let connections = usage.connections.get() as u32;
    row.field(field::CONNECTIONS, &connections.to_be_bytes());
    row.end(result_code::OK);
}

/// A row for one role or all. A user who may not change users sees the own roles only.
fn query_roles(asked: &mut Asked<'_>) -> Changed {
    let named = asked.optional_text(field::ROLE)?;
    let account = asked.access.current()?;
    let sees =
        |name: &str| account.is_none_or(|user| is_administrator(user) || user.roles.contains(name));
    if named.is_some_and(|name| !sees(name)) {
        return Err(result_code::ROLE_VIOLATION);
    }
    let rows = asked.security.users.read(|directory| {
        let named = named.map(|name| vec![name.into()]);
        let names = named.unwrap_or_else(|| directory.role_names());
        let visible = names.into_iter().filter(|name| sees(name));
        visible
            .map(|name| Ok((directory.role(&name)?, name)))
            .collect::<Changed<Vec<_>>>()
    })?;
    for (role, name) in rows {
        role_row(&role, &name, asked.out);
    }
    AdminRow::begin(asked.out).end(result_code::SECURITY_END);
    Ok(())
}

fn role_row(role: &UserRole, name: &str, out: &mut Vec<u8>) {
    let mut privileges = vec![role.privileges.len().min(255) as u8];
    for privilege in role.privileges.iter().take(255) {
        privilege.write(&mut privileges);
    }
    let mut row = AdminRow::begin(out);
    row.field(field::ROLE, name.as_bytes());
    row.field(field::PRIVILEGES, &privileges);
    if !role.allowlist.is_empty() {
        row.field(field::ALLOWLIST, role.allowlist.as_bytes());
    }
    row.field(field::READ_QUOTA, &role.read_quota.to_be_bytes());
    row.field(field::WRITE_QUOTA, &role.write_quota.to_be_bytes());
    row.end(result_code::OK);
}

/// An answer, or one of its rows.
struct AdminRow<'o> {
    out: &'o mut Vec<u8>,
    at: usize,
    fields: u8,
}

impl<'o> AdminRow<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        let at = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        Self { out, at, fields: 0 }
    }

    fn field(&mut self, number: u8, data: &[u8]) {
        write_field(self.out, number, data);
        self.fields += 1;
    }

    fn end(self, code: u8) {
        if let Some([_, result, _, fields]) = self.out.get_mut(self.at..self.at + 4) {
            (*result, *fields) = (code, self.fields);
        }
    }
}
