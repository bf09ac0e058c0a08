//! Users, their roles, and the check of each request.
//!
//! * `directory`: users and roles, kept in the catalog of a namespace. `privilege`: the rights of
//!   roles. `network`: addresses. `password`: hashes and tokens. `usage`: quotas and connections.
//! * `users`: all of it together, changed and stored. `account`: the rights of one user.
//! * `admin`: the messages that log in, and change users and roles. `access`: the rights of a
//!   connection.
//! * `audit`: the log. `options`: how it is switched on.
//!
//! Without it every client may do everything: [`Access`] is open then.

mod access;
mod account;
mod admin;
mod audit;
mod directory;
mod network;
mod options;
mod password;
mod privilege;
mod usage;
mod users;

pub(crate) use self::access::Access;
pub use self::options::SecurityOptions;
pub(crate) use self::privilege::Permissions;
pub(crate) use self::users::Security;
