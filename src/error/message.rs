//! Fragments of error messages.

use std::fmt::Display;

use super::record_id::{ErrorSubject, RecordId};

/// Names the first reason, for the message of [`super::Error::WritesRefused`].
pub(super) fn first_of(reasons: &[(usize, impl Display)]) -> String {
    let first = reasons.first();
    first.map_or_else(String::new, |(position, error)| {
        format!("write {position}: {error}")
    })
}

/// Names the largest bin, for the message of [`super::Error::RecordTooBig`].
pub(super) fn largest(bin: &Option<(Box<str>, u64)>) -> String {
    bin.as_ref()
        .map(|(name, size)| format!(" (largest bin: \"{name}\", {size} bytes)"))
        .unwrap_or_default()
}

/// Compares size and limit, for the message of [`super::Error::RecordTooBig`].
pub(super) fn too_many_bytes(size: u64, limit: u64) -> String {
    match size {
        0 => format!("more than {limit} bytes"),
        size => format!("{size} bytes, and the limit is {limit}"),
    }
}

/// The part of the message of [`super::Error::HasEdges`] that counts edges by relation.
pub(super) fn edges_of(relations: &[(Box<str>, u64)]) -> String {
    let part = |(relation, count): &(Box<str>, u64)| match count {
        0 => format!("edges of relation \"{relation}\""),
        1 => format!("1 edge of relation \"{relation}\""),
        count => format!("{count} edges of relation \"{relation}\""),
    };
    match relations
        .iter()
        .map(part)
        .reduce(|all, next| format!("{all} and {next}"))
    {
        Some(parts) => parts,
        None => "edges, or other records refer to it".to_owned(),
    }
}

/// Counts the waiting writers before the record, for the message of [`super::Error::KeyBusy`].
pub(super) fn waiting_writers(waiting: u32, limit: u32) -> String {
    match (waiting, limit) {
        (0, 0) => "as many writers as the server allows already wait for".into(),
        (0, _) => "another writer holds".into(),
        (1, _) => "1 writer already waits for".into(),
        (waiting, _) => format!("{waiting} writers already wait for"),
    }
}

/// States the limit if it was reached, for the message of [`super::Error::KeyBusy`].
pub(super) fn limit_of_waiters(waiting: u32, limit: u32) -> String {
    match waiting {
        0 => String::new(),
        _ => format!(", the limit is {limit}"),
    }
}

/// Names the remedy, for the message of [`super::Error::TransactionLimit`].
pub(super) fn room_for_more(option: &str) -> String {
    match option {
        "" => {
            "remove some of them before, or delete the record by itself, which goes in steps".into()
        }
        option => format!("split it, or raise TransactionPolicy::{option}"),
    }
}

/// Puts an article in front of a noun.
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

/// Names the generation found; 0 means that there is no record.
pub(super) fn found_generation(found: Option<u16>, record: &Option<Box<RecordId>>) -> String {
    let record = ErrorSubject(record);
    match found {
        None => format!("{record} has another one: read it again and repeat the edit"),
        Some(0) => format!("{record} does not exist: create it without an expected generation"),
        Some(found) => format!("{record} is at {found}: read it again and repeat the edit"),
    }
}
