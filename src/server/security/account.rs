//! The rights of one user.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::network::Network;
use super::password::Salt;
use super::privilege::{Permissions, Privilege};
use super::usage::Usage;
use crate::server::result_code;

/// A namespace and a set of it; empty: none, or all.
pub(super) type Place<'a> = (&'a [u8], &'a [u8]);

/// The rights of a user, as of a version of all users and roles.
pub(super) struct Account {
    pub(super) name: Box<str>,
    /// Of the password: another one means that the password has been changed, or the user is
    /// another.
    pub(super) salt: Salt,
    pub(super) version: u64,
    /// Names of roles.
    pub(super) roles: BTreeSet<Box<str>>,
    pub(super) privileges: Vec<Privilege>,
    /// None: any address.
    pub(super) allowed: Vec<Network>,
    pub(super) read_quota: u32,
    pub(super) write_quota: u32,
    pub(super) usage: Arc<Usage>,
}

impl Account {
    /// Refuses what the user may not do.
    pub(super) fn check(&self, needed: Permissions, place: Place<'_>) -> Result<(), u8> {
        let may = self.has(needed, place);
        may.then_some(()).ok_or(result_code::ROLE_VIOLATION)
    }

    pub(super) fn has(&self, needed: Permissions, (namespace, set): Place<'_>) -> bool {
        let there = self.privileges.iter();
        let there = there.filter(|privilege| privilege.covers(namespace, set));
        there
            .map(Privilege::permissions)
            .fold(Permissions::empty(), Permissions::union)
            .contains(needed)
    }

    /// Refuses a user who may write records of no set of a namespace.
    pub(super) fn check_some_write_in(&self, namespace: &[u8]) -> Result<(), u8> {
        let may = self.privileges.iter().any(|privilege| {
            privilege.reaches(namespace) && privilege.permissions().contains(Permissions::WRITE)
        });
        may.then_some(()).ok_or(result_code::ROLE_VIOLATION)
    }

    pub(super) fn check_address(&self, peer: IpAddr) -> Result<(), u8> {
        let mut allowed = self.allowed.iter();
        let is_in = allowed.len() == 0 || allowed.any(|network| network.contains(peer));
        is_in.then_some(()).ok_or(result_code::NOT_ALLOWLISTED)
    }
}
