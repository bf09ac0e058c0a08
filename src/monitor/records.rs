//! Whole records, for a copy of the store: `/records.asb`.

use super::answers::query_pairs;
use super::changes::namespace_of;
use crate::backup::{BackupError, PieceStart, digest_of, piece, piece_of};
use crate::http::Response;
use crate::{Digest, Error, Store};

/// The most digests that are asked for at once: the head of a request has 8 KiB.
const DIGESTS_MAX: usize = 100;

/// Answers a request with this query: `namespace`, and `from` (the begin of a piece), or any number
/// of `digest`.
pub(super) fn answer(store: &Store, query: &str) -> Response {
    match read(store, query) {
        Ok(response) => response,
        Err(BackupError::Store(error)) => Response::from(&error),
        Err(error) => Response::refused("500 Internal Server Error", &error.to_string()),
    }
}

fn read(store: &Store, query: &str) -> Result<Response, BackupError> {
    let mut namespace = None;
    let mut start = PieceStart::default();
    let mut digests: Vec<Digest> = Vec::new();
    for pair in query_pairs(query) {
        let (name, value) = pair?;
        match name {
            "namespace" => namespace = Some(value),
            "from" => start = value.parse()?,
            "digest" if digests.len() < DIGESTS_MAX => {
                digests.extend(Some(digest_of(&value).ok_or_else(|| {
                    Error::parameter(format!("digest=\"{value}\": 40 hexadecimal digits are"))
                })?));
            }
            _ => {
                let why = format!(
                    "\"{name}\" is not asked for here: namespace, from, and up to {DIGESTS_MAX} digests are"
                );
                return Err(Error::parameter(why).into());
            }
        }
    }
    let namespace = namespace_of(store, namespace.as_deref())?;
    let found = if digests.is_empty() {
        piece(&namespace, start)?
    } else {
        piece_of(&namespace, &digests)?
    };
    let mut headers = String::new();
    if let Some(next) = found.next {
        headers += &format!("X-Next: {next}\r\n");
    }
    for (name, count) in [
        ("X-Damaged", found.damaged),
        ("X-Passed-Over", found.passed_over),
    ] {
        if count > 0 {
            headers += &format!("{name}: {count}\r\n");
        }
    }
    Ok(Response {
        headers,
        ..Response::ok("text/plain", found.text)
    })
}
