//! All users and roles, and the present activity of users.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use super::account::Account;
use super::audit::Audit;
use super::directory::{Changed, FIRST_USER, UserDirectory, UserRole};
use super::network::Network;
use super::options::SecurityOptions;
use super::password::{FIRST_PASSWORD, StoredPassword, TokenKey, client_hash};
use super::privilege::Permissions;
use super::usage::Usage;
use crate::server::result_code;
use crate::{Error, Namespace, Result, Store};

/// How many passwords are checked at once: each takes a processor for milliseconds.
const CHECKS_AT_ONCE: usize = 2;

/// The users of a store and their activity. All servers of the store share them.
pub(crate) struct Users {
    /// Keeps users and roles; its clock is that of sessions and quotas.
    namespace: Namespace,
    directory: RwLock<UserDirectory>,
    /// Held while the directory is changed and stored.
    changing: Mutex<()>,
    /// Counts the changes, so that connections look their rights up again.
    pub(super) version: AtomicU64,
    usage: Mutex<BTreeMap<Box<str>, Arc<Usage>>>,
}

/// How a server checks its users.
pub(crate) struct Security {
    pub(crate) users: Arc<Users>,
    pub(super) tokens: TokenKey,
    pub(super) session_time: Duration,
    pub(super) audit: Audit,
    /// Permits for work on passwords.
    pub(crate) checks: Semaphore,
}

impl Security {
    /// Reads users and roles from the store, or creates the first user, unless another server of
    /// the store has done so.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a store without a namespace, for one that is read only and has no
    /// users, and for an audit log that cannot be opened.
    pub(crate) fn open(store: &Store, options: &SecurityOptions) -> Result<Self> {
        Ok(Self {
            users: store.shared_by_servers(|| Users::open(store, options))?,
            tokens: TokenKey::new()?,
            session_time: options.session_time,
            audit: Audit::open(options.audit_file.as_deref(), &options.audit_data)?,
            checks: Semaphore::new(CHECKS_AT_ONCE),
        })
    }

    /// Whether a user with this password may do these things everywhere: for requests over HTTP.
    /// Takes some 100 ms.
    pub(crate) fn allows(
        &self,
        user: &str,
        password: &str,
        peer: IpAddr,
        needed: &[Permissions],
    ) -> bool {
        let check = || {
            let hash = client_hash(password).map_err(|_| result_code::INVALID_CREDENTIAL)?;
            self.users.check_password(user, hash.as_bytes())?;
            let account = self.users.account(user)?;
            account.check_address(peer)?;
            let any = needed.iter().any(|needed| account.has(*needed, (b"", b"")));
            any.then_some(()).ok_or(result_code::ROLE_VIOLATION)
        };
        let code = check().err().unwrap_or(result_code::OK);
        if code != result_code::OK {
            self.note(Some(user), peer, "HTTP request", code);
        }
        code == result_code::OK
    }

    pub(super) fn note(&self, user: Option<&str>, peer: IpAddr, action: &str, code: u8) {
        self.audit
            .note(self.users.now_ms(), (user, peer), action, code);
    }
}

impl Users {
    fn open(store: &Store, options: &SecurityOptions) -> Result<Self> {
        let namespaces = store.namespaces();
        let kept = namespaces.iter().find_map(|namespace| {
            let kept = namespace.kept_access::<UserDirectory>().transpose()?;
            Some(kept.map(|directory| (namespace.clone(), directory)))
        });
        let (namespace, directory) = match kept.transpose()? {
            Some(kept) => kept,
            None => {
                let namespace = namespaces.into_iter().next().ok_or_else(|| {
                    Error::parameter("users are kept in a namespace, and the store has none")
                })?;
                let first = options.first_password.as_ref();
                let hash = first.map(|password| client_hash(password)).transpose()?;
                let hash = hash.as_ref().map_or(FIRST_PASSWORD, |hash| hash.as_str());
                let password = StoredPassword::of(hash.as_bytes())?;
                let password =
                    password.ok_or_else(|| Error::parameter("the first password has no hash"))?;
                let directory = UserDirectory::first(password);
                namespace.keep_access(&directory)?;
                (namespace, directory)
            }
        };
        Ok(Self {
            namespace,
            directory: RwLock::new(directory),
            changing: Mutex::new(()),
            version: AtomicU64::new(0),
            usage: Mutex::default(),
        })
    }

    /// Whether the first user still has the first password, which is public.
    pub(crate) fn has_first_password(&self) -> bool {
        let first = |directory: &UserDirectory| {
            let user = directory.user(FIRST_USER);
            user.is_ok_and(|user| user.password.is(FIRST_PASSWORD.as_bytes()))
        };
        self.read(first)
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&UserDirectory) -> R) -> R {
        look(&self.directory.read())
    }

    /// Changes users and roles: all of it, stored, or nothing. An error is the code of the answer.
    pub(super) fn change(&self, change: impl FnOnce(&mut UserDirectory) -> Changed) -> Changed {
        let _changing = self.changing.lock();
        let mut changed = self.read(UserDirectory::clone);
        change(&mut changed)?;
        if !changed.has_administrator() {
            return Err(result_code::ILLEGAL_STATE);
        }
        self.namespace.keep_access(&changed).map_err(|error| {
            tracing::error!(%error, "users and roles cannot be stored");
            error.result_code()
        })?;
        let mut usage = self.usage.lock();
        usage.retain(|user, _| changed.users.contains_key(user));
        drop(usage);
        *self.directory.write() = changed;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The present rights of a user.
    pub(super) fn account(&self, name: &str) -> Changed<Account> {
        // Before the directory: a change meanwhile makes the account be looked up again.
        let version = self.version.load(Ordering::Acquire);
        let (user, roles) = self.read(|directory| {
            let user = directory.user(name)?;
            Ok::<_, u8>((user.clone(), directory.roles_of(user)))
        })?;
        let listed = roles.iter().map(|role| &role.allowlist);
        let mut allowed = Vec::new();
        for list in listed.filter(|list| !list.is_empty()) {
            // A list that cannot be read lets nobody in: taken for an empty one, it would let in
            // all.
            let networks = Network::parse_list(list).ok_or(result_code::INVALID_ALLOWLIST)?;
            allowed.extend(networks);
        }
        let most = |quota: fn(&UserRole) -> u32| roles.iter().map(quota).max().unwrap_or(0);
        let usage = Arc::clone(self.usage.lock().entry(name.into()).or_default());
        Ok(Account {
            name: name.into(),
            salt: *user.password.salt(),
            version,
            roles: user.roles,
            allowed,
            read_quota: most(|role| role.read_quota),
            write_quota: most(|role| role.write_quota),
            usage,
            privileges: roles.into_iter().flat_map(|role| role.privileges).collect(),
        })
    }

    /// Checks the client's hash of a password. An error is the code of the answer.
    pub(super) fn check_password(&self, user: &str, client_hash: &[u8]) -> Changed {
        // The hash is computed without the lock, and for unknown users, too: neither code nor time
        // says who has an account.
        let stored = self.read(|directory| directory.user(user).map(|user| user.password.clone()));
        if stored.unwrap_or(StoredPassword::NONE).is(client_hash) {
            Ok(())
        } else {
            Err(result_code::INVALID_CREDENTIAL)
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.namespace.now_ms()
    }
}
