//! Passwords and session tokens.
//!
//! Clients send bcrypt hashes of passwords with a salt that is the same for all. Such a hash is as
//! good as the password, so it is hashed again, with a salt of the user's own. bcrypt with a low
//! cost is enough for that: whoever guesses passwords has to pay for the client's hash first.

use bcrypt::{HashParts, Version};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{Error, Result};

/// The client's hash of the first password of the first user.
pub(super) const FIRST_PASSWORD: &str =
    "$2a$10$7EqJtq98hPqEX7fNZaFWoO1mVO/4MLpGzsqojz6E9Gef6iXDjXdDa";

/// What all hashes of clients begin with: version, cost, and the salt.
const HASH_PREFIX: &str = "$2a$10$7EqJtq98hPqEX7fNZaFWoO";

/// The length of a client's hash.
const HASH_BYTES: usize = 60;

/// The cost of the clients' hashes.
const CLIENT_COST: u32 = 10;

/// The cost of the second hash: a few milliseconds.
const STORED_COST: u32 = 6;

/// Random bytes that no other password has, even one of the same text.
pub(super) type Salt = [u8; 16];

/// A password as it is stored. Nothing prints it.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct StoredPassword {
    salt: Salt,
    hash: [u8; 24],
}

impl StoredPassword {
    /// That of a user who is not there: no hash fits.
    pub(super) const NONE: Self = Self {
        salt: [0; 16],
        hash: [0; 24],
    };

    /// Stores a client's hash; `None` if it is not one.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the system has no random numbers.
    pub(super) fn of(client_hash: &[u8]) -> Result<Option<Self>> {
        if client_hash.len() != HASH_BYTES || !client_hash.starts_with(HASH_PREFIX.as_bytes()) {
            return Ok(None);
        }
        let salt = random()?;
        let hash = bcrypt::bcrypt(STORED_COST, salt, client_hash);
        Ok(Some(Self { salt, hash }))
    }

    /// Whether this is the password that a client has hashed. Takes the same time for any answer.
    pub(super) fn is(&self, client_hash: &[u8]) -> bool {
        if client_hash.len() != HASH_BYTES {
            return false;
        }
        let hash = Zeroizing::new(bcrypt::bcrypt(STORED_COST, self.salt, client_hash));
        hash.ct_eq(&self.hash).into()
    }

    pub(super) const fn salt(&self) -> &Salt {
        &self.salt
    }
}

/// Hashes a password as clients do.
///
/// # Errors
/// [`Error::Parameter`] for a password with a zero byte.
pub(super) fn client_hash(password: &str) -> Result<Zeroizing<String>> {
    let hash = || {
        let known: HashParts = FIRST_PASSWORD.parse()?;
        let salt = known.get_salt_raw();
        bcrypt::hash_with_salt(password, CLIENT_COST, salt)
    };
    let hash = hash().map_err(|error| Error::parameter(format!("a password: {error}")))?;
    Ok(Zeroizing::new(hash.format_for_version(Version::TwoA)))
}

/// Makes and checks tokens. A token is valid while the server runs, the user has the password of
/// the login, and its time has not passed; so none is kept.
///
/// ```text
/// token = end: u64 (milliseconds since 2010), HMAC-SHA-256 of the user's name, a zero byte, the
/// password's salt, and the end
/// ```
pub(super) struct TokenKey(Zeroizing<[u8; 32]>);

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadToken {
    Unknown,
    Expired,
}

impl TokenKey {
    /// # Errors
    /// [`Error::Parameter`] if the system has no random numbers.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Zeroizing::new(random()?)))
    }

    fn mac(&self, user: &str, salt: &Salt, ends: [u8; 8]) -> Option<Hmac<Sha256>> {
        // Keys of any length are fine for HMAC.
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).ok()?;
        mac.update(user.as_bytes());
        mac.update(&[0]);
        mac.update(salt);
        mac.update(&ends);
        Some(mac)
    }

    pub(super) fn token(&self, user: &str, salt: &Salt, ends_ms: u64) -> Vec<u8> {
        let ends = ends_ms.to_be_bytes();
        let mac = self.mac(user, salt, ends).map(Mac::finalize);
        let mac = mac.map(|mac| mac.into_bytes().to_vec());
        [&ends[..], &mac.unwrap_or_default()].concat()
    }

    pub(super) fn check(
        &self,
        token: &[u8],
        user: &str,
        salt: &Salt,
        now_ms: u64,
    ) -> std::result::Result<(), BadToken> {
        let (ends, tag) = token.split_first_chunk().ok_or(BadToken::Unknown)?;
        let mac = self.mac(user, salt, *ends).ok_or(BadToken::Unknown)?;
        mac.verify_slice(tag).map_err(|_| BadToken::Unknown)?;
        let counts = u64::from_be_bytes(*ends) > now_ms;
        counts.then_some(()).ok_or(BadToken::Expired)
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::parameter(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_stored_under_a_salt_of_its_own() {
        let sent = client_hash("admin").unwrap();
        assert_eq!(*sent, FIRST_PASSWORD);
        let stored = StoredPassword::of(sent.as_bytes()).unwrap().unwrap();
        let again = StoredPassword::of(sent.as_bytes()).unwrap().unwrap();
        assert_ne!((stored.salt, stored.hash), (again.salt, again.hash));
        assert!(stored.is(sent.as_bytes()) && again.is(sent.as_bytes()));
        assert!(!stored.is(client_hash("Admin").unwrap().as_bytes()));
        assert!(!stored.is(b"") && !stored.is(b"admin"));
        for other in ["admin", "$2a$10$abcdefghijklmnopqrstuv", ""] {
            assert!(StoredPassword::of(other.as_bytes()).unwrap().is_none());
        }
    }

    #[test]
    fn a_token_counts_for_its_user_password_server_and_time() {
        let (key, salt) = (TokenKey::new().unwrap(), [1; 16]);
        let token = key.token("ann", &salt, 1_000);
        assert_eq!(key.check(&token, "ann", &salt, 999), Ok(()));
        assert_eq!(
            key.check(&token, "ann", &salt, 1_000),
            Err(BadToken::Expired)
        );
        let unknown = Err(BadToken::Unknown);
        assert_eq!(key.check(&token, "bob", &salt, 1), unknown);
        assert_eq!(key.check(&token, "ann", &[2; 16], 1), unknown);
        let other = TokenKey::new().unwrap();
        assert_eq!(other.check(&token, "ann", &salt, 1), unknown);
        for len in 0..token.len() {
            assert_eq!(key.check(&token[..len], "ann", &salt, 1), unknown);
        }
        let mut later = token;
        later[7] ^= 0x80;
        assert_eq!(key.check(&later, "ann", &salt, 1), unknown);
    }
}
