//! Users and roles as they are kept with the store.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::network::Network;
use super::password::StoredPassword;
use super::privilege::{Permissions, Privilege, predefined, predefined_names};
use crate::server::result_code;

/// The first user, who may create others.
pub(super) const FIRST_USER: &str = "admin";

const FIRST_ROLE: &str = "user-admin";

/// The longest name of a user or role.
const NAME_BYTES_MAX: usize = 63;

/// An error is the code of the answer.
pub(super) type Changed<T = ()> = Result<T, u8>;

/// All users and roles.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct UserDirectory {
    pub(super) users: BTreeMap<Box<str>, User>,
    /// Roles that clients have created.
    roles: BTreeMap<Box<str>, UserRole>,
}

/// A user.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct User {
    pub(super) password: StoredPassword,
    pub(super) roles: BTreeSet<Box<str>>,
}

/// A role.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct UserRole {
    pub(super) privileges: BTreeSet<Privilege>,
    /// Networks between commas; empty: any address.
    pub(super) allowlist: Box<str>,
    /// Reads a second; 0: as many as come.
    pub(super) read_quota: u32,
    /// Writes a second; 0: as many as come.
    pub(super) write_quota: u32,
}

impl UserDirectory {
    /// The directory of a new server.
    pub(super) fn first(password: StoredPassword) -> Self {
        let first = User {
            password,
            roles: [FIRST_ROLE.into()].into(),
        };
        Self {
            users: [(FIRST_USER.into(), first)].into(),
            roles: BTreeMap::new(),
        }
    }

    pub(super) fn user(&self, name: &str) -> Changed<&User> {
        self.users.get(name).ok_or(result_code::INVALID_USER)
    }

    fn user_mut(&mut self, name: &str) -> Changed<&mut User> {
        self.users.get_mut(name).ok_or(result_code::INVALID_USER)
    }

    /// Returns a role, whether it was created or is there anyway.
    pub(super) fn role(&self, name: &str) -> Changed<UserRole> {
        let own = predefined(name).map(|privileges| UserRole {
            privileges,
            ..UserRole::default()
        });
        own.or_else(|| self.roles.get(name).cloned())
            .ok_or(result_code::INVALID_ROLE)
    }

    /// Returns a role that was created: others do not change.
    pub(super) fn role_mut(&mut self, name: &str) -> Changed<&mut UserRole> {
        self.roles.get_mut(name).ok_or(result_code::INVALID_ROLE)
    }

    pub(super) fn role_names(&self) -> Vec<Box<str>> {
        let created = self.roles.keys().cloned();
        created.chain(predefined_names().map(Into::into)).collect()
    }

    pub(super) fn create_user(
        &mut self,
        name: &str,
        password: StoredPassword,
        roles: &[&str],
    ) -> Changed {
        check_name(name, result_code::INVALID_USER)?;
        if self.users.contains_key(name) {
            return Err(result_code::USER_EXISTS);
        }
        let user = User {
            password,
            roles: BTreeSet::new(),
        };
        self.users.insert(name.into(), user);
        self.grant_roles(name, roles)
    }

    pub(super) fn drop_user(&mut self, name: &str) -> Changed {
        let gone = self.users.remove(name);
        gone.map(drop).ok_or(result_code::INVALID_USER)
    }

    pub(super) fn set_password(&mut self, name: &str, password: StoredPassword) -> Changed {
        self.user_mut(name)?.password = password;
        Ok(())
    }

    fn check_known(&self, user: &str, roles: &[&str]) -> Changed {
        self.user(user)?;
        let mut roles = roles.iter();
        roles.try_for_each(|role| self.role(role).map(drop))
    }

    pub(super) fn grant_roles(&mut self, name: &str, roles: &[&str]) -> Changed {
        self.check_known(name, roles)?;
        let granted = roles.iter().map(|role| Box::from(*role));
        self.user_mut(name)?.roles.extend(granted);
        Ok(())
    }

    pub(super) fn revoke_roles(&mut self, name: &str, roles: &[&str]) -> Changed {
        self.check_known(name, roles)?;
        let user = self.user_mut(name)?;
        user.roles.retain(|role| !roles.contains(&&**role));
        Ok(())
    }

    pub(super) fn create_role(&mut self, name: &str, role: UserRole) -> Changed {
        check_name(name, result_code::INVALID_ROLE)?;
        if self.role(name).is_ok() {
            return Err(result_code::ROLE_EXISTS);
        }
        self.roles.insert(name.into(), role);
        Ok(())
    }

    pub(super) fn drop_role(&mut self, name: &str) -> Changed {
        self.role_mut(name)?;
        self.roles.remove(name);
        for user in self.users.values_mut() {
            user.roles.remove(name);
        }
        Ok(())
    }

    /// The roles of a user.
    pub(super) fn roles_of(&self, user: &User) -> Vec<UserRole> {
        let roles = user.roles.iter();
        roles.filter_map(|role| self.role(role).ok()).collect()
    }

    /// Whether there is a user left who may change users: without one no one could log in to mend
    /// it.
    pub(super) fn has_administrator(&self) -> bool {
        self.users.values().any(|user| {
            let roles = self.roles_of(user);
            let mut privileges = roles.iter().flat_map(|role| &role.privileges);
            privileges.any(|privilege| privilege.permissions().contains(Permissions::USERS))
        })
    }
}

impl UserRole {
    /// Sets the networks from which users with this role may come; empty: any.
    pub(super) fn set_allowlist(&mut self, networks: &str) -> Changed {
        if !networks.is_empty() && Network::parse_list(networks).is_none() {
            return Err(result_code::INVALID_ALLOWLIST);
        }
        self.allowlist = networks.into();
        Ok(())
    }
}

fn check_name(name: &str, code: u8) -> Changed {
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
    if fits { Ok(()) } else { Err(code) }
}

#[cfg(test)]
mod tests {
    use super::super::password::FIRST_PASSWORD;
    use super::*;

    fn password() -> StoredPassword {
        StoredPassword::of(FIRST_PASSWORD.as_bytes())
            .unwrap()
            .unwrap()
    }

    #[test]
    fn users_and_roles_refer_to_each_other_while_both_are_there() {
        let mut directory = UserDirectory::first(password());
        let unknown = Err(result_code::INVALID_ROLE);
        assert_eq!(directory.create_user("ann", password(), &["own"]), unknown);
        directory.drop_user("ann").unwrap();
        directory.create_role("own", UserRole::default()).unwrap();
        assert_eq!(
            directory.create_role("own", UserRole::default()),
            Err(result_code::ROLE_EXISTS)
        );
        assert_eq!(
            directory.create_role("read", UserRole::default()),
            Err(result_code::ROLE_EXISTS)
        );
        directory
            .create_user("ann", password(), &["own", "read"])
            .unwrap();
        assert_eq!(
            directory.create_user("ann", password(), &[]),
            Err(result_code::USER_EXISTS)
        );
        directory.drop_role("own").unwrap();
        assert_eq!(directory.users["ann"].roles, [Box::from("read")].into());
        assert_eq!(directory.drop_role("read"), unknown);
        assert!(directory.has_administrator());
        directory.revoke_roles("admin", &["user-admin"]).unwrap();
        assert!(!directory.has_administrator());
    }

    #[test]
    fn names_have_a_length_and_no_zero_byte() {
        for name in ["", "a\0b", &"x".repeat(64)] {
            assert!(check_name(name, 60).is_err());
        }
        assert!(check_name(&"x".repeat(63), 60).is_ok());
    }
}
