//! What an answer of the monitor is made of, and a query.

use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::http::Response;
use crate::{Error, Result};

pub(super) fn json(body: &impl Serialize) -> Response {
    serde_json::to_string(body).map_or_else(
        |error| Response::refused("500 Internal Server Error", &error.to_string()),
        |json| Response::ok("application/json", json),
    )
}

impl From<&Error> for Response {
    fn from(error: &Error) -> Self {
        let status = match error {
            Error::Parameter(_) => "400 Bad Request",
            Error::Namespace(_) => "404 Not Found",
            Error::ChangesLost { .. } => "410 Gone",
            _ => "500 Internal Server Error",
        };
        Self::refused(status, &error.to_string())
    }
}

/// Returns the names and values of a query.
pub(super) fn query_pairs(query: &str) -> impl Iterator<Item = Result<(&str, String)>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = percent_decode_str(value).decode_utf8();
        let wrong = |_| Error::parameter(format!("{name}=\"{value}\" is no text in UTF-8"));
        Ok((name, text.map_err(wrong)?.into_owned()))
    })
}
