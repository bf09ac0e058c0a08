//! Logins over HTTP: the header `Authorization` with name and password.

use crate::base64;

/// The header of an answer that asks for a login.
pub(crate) const BASIC_CHALLENGE: &str =
    "WWW-Authenticate: Basic realm=\"spikelet\", charset=\"UTF-8\"\r\n";

/// A name and a password.
pub(crate) struct BasicLogin {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for BasicLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BasicLogin")
    }
}

impl BasicLogin {
    /// Parses the value of the header; `None` if it has no login of this kind.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let (scheme, encoded) = value.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = base64::decode(encoded.trim().as_bytes())?;
        let text = String::from_utf8(text).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }
}

/// Returns the value of the header `Authorization` for a user of an endpoint with
/// [`logins`](crate::monitor::MonitorBuilder::logins).
#[cfg(feature = "monitor")]
#[must_use]
pub fn basic_authorization(user: &str, password: &str) -> String {
    format!(
        "Basic {}",
        base64::encode(format!("{user}:{password}").as_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_from_its_header() {
        let login = BasicLogin::parse(" basic YW5uOmE6Yg== ").unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str()),
            ("ann", "a:b")
        );
        assert_eq!(format!("{login:?}"), "BasicLogin");
        for value in ["", "Basic", "Basic !", "Bearer YW5uOmE6Yg==", "Basic YW5u"] {
            assert!(BasicLogin::parse(value).is_none(), "{value}");
        }
    }
}
