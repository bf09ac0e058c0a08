//! Parts of the messages of errors.

use std::fmt::Display;

use super::record_id::{RecordId, Subject};

/// The part of the message of [`super::Error::WritesRefused`] that names a reason.
pub(super) fn first_of(reasons: &[(usize, impl Display)]) -> String {
    let first = reasons.first();
    first.map_or_else(String::new, |(position, error)| {
        format!("write {position}: {error}")
    })
}

/// The part of the message of [`super::Error::RecordTooBig`] that names the largest bin.
pub(super) fn largest(bin: &Option<(Box<str>, u64)>) -> String {
    bin.as_ref()
        .map(|(name, size)| format!(" (largest bin: \"{name}\", {size} bytes)"))
        .unwrap_or_default()
}

/// What the message of [`super::Error::RecordTooBig`] says of the sizes.
pub(super) fn too_many_bytes(size: u64, limit: u64) -> String {
    match size {
        0 => format!("more than {limit} bytes"),
        size => format!("{size} bytes, and the limit is {limit}"),
    }
}

/// What the message of [`super::Error::KeyBusy`] says of those who wait.
pub(super) fn waiting_writers(waiting: u32) -> String {
    match waiting {
        0 => "as many writers as the server allows already wait".into(),
        waiting => format!("{waiting} writers already wait"),
    }
}

/// What it says of the limit.
pub(super) fn limit_of_waiters(limit: u32) -> String {
    match limit {
        0 => String::new(),
        limit => format!(", the limit is {limit}"),
    }
}

/// A noun behind its article.
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

/// What a message says of the generation that was found; 0: there is no record.
pub(super) fn found_generation(found: Option<u16>, record: &Option<Box<RecordId>>) -> String {
    let record = Subject(record);
    match found {
        None => format!("{record} has another one: read it again and repeat the edit"),
        Some(0) => format!("{record} does not exist: create it without an expected generation"),
        Some(found) => format!("{record} is at {found}: read it again and repeat the edit"),
    }
}
