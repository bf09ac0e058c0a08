//! A call of a user-defined function, the record that it gets, and its result.
#![cfg_attr(not(feature = "lua"), allow(dead_code, reason = "for functions"))]

use std::time::Instant;

use super::fields::{Field, Fields};
use super::result_code;
use crate::engine::{DigestAddress, RemoteRecord, WriteRefusal};
use crate::record::{Bins, Metadata};
use crate::value::{EncodePurpose, List, ParticleType, normalize_element};
use crate::{Digest, Error, Key, Namespace, Value, shard};

/// A function that a client calls.
pub(crate) struct FunctionCall {
    /// The file of the module.
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) arguments: Vec<Value>,
}

/// A record as a function gets it.
pub(crate) struct RecordInput {
    pub(crate) bins: Bins,
    /// `None`: there is no record.
    pub(crate) metadata: Option<Metadata>,
    pub(crate) key: Option<Value>,
    pub(crate) set: String,
    pub(crate) digest: Digest,
    /// The size of the record.
    pub(crate) bytes: u64,
    /// Milliseconds since 2010.
    pub(crate) now_ms: u64,
}

/// The value that a function returned, and its change to the record; or the text for the client.
pub(crate) type FunctionResult = Result<(Value, FunctionChange), String>;

/// A stream under way: filters, maps, aggregation and reduction of one query. Takes a record, or
/// `None` at the end, and the time until which it may run; returns the values that come out, or the
/// text for the client.
pub(crate) type Stream =
    Box<dyn Fn(Option<RecordInput>, Instant) -> Result<Vec<Value>, String> + Send>;

/// The change to a record.
pub(crate) enum FunctionChange {
    None,
    Remove,
    Write {
        is_new: bool,
        /// Whether the bins that were there go.
        is_emptied: bool,
        /// Values by bin; `Nil` removes one.
        bins: Vec<(String, Value)>,
        /// As in a client's request; `None`: the request's own.
        time_to_live: Option<u32>,
    },
}

impl FunctionCall {
    /// The call that a message has. Otherwise the code of the answer.
    pub(crate) fn of(fields: &Fields<'_>) -> Result<Self, u8> {
        let text = |field| {
            let name = fields
                .get(field)
                .and_then(|name| std::str::from_utf8(name).ok());
            name.ok_or(result_code::PARAMETER)
        };
        let package = text(Field::UdfPackage)?;
        let encoded = fields
            .get(Field::UdfArguments)
            .ok_or(result_code::PARAMETER)?;
        let decode = || {
            let mut normal = Vec::with_capacity(encoded.len());
            normalize_element(encoded, EncodePurpose::Lookup, &mut normal)?;
            Value::decode_front(&mut normal.as_slice())
        };
        let arguments = match encoded {
            // Some clients send nothing instead of an empty list.
            [] => List::default(),
            _ => match decode() {
                Ok(Value::List(arguments)) => arguments,
                _ => return Err(result_code::PARAMETER),
            },
        };
        Ok(Self {
            file: format!("{package}.lua"),
            function: text(Field::UdfFunction)?.to_owned(),
            arguments: arguments.into_items(),
        })
    }
}

impl RecordInput {
    /// A record that is there. `set` is the name of its set.
    pub(crate) fn of(
        namespace: &Namespace,
        record: &RemoteRecord<'_>,
        digest: Digest,
        set: &str,
    ) -> crate::Result<Self> {
        Ok(Self {
            bins: record.view()?.to_bins()?,
            metadata: Some(record.metadata()),
            key: record.key().and_then(key_value),
            set: set.to_owned(),
            digest,
            bytes: namespace.facts(record, set).stored_bytes,
            now_ms: namespace.now_ms(),
        })
    }

    /// The record that was found at an address.
    pub(crate) fn of_address(
        namespace: &Namespace,
        record: &RemoteRecord<'_>,
        address: &DigestAddress<'_>,
    ) -> crate::Result<Self> {
        let set = namespace.set_name_or(record.set_id(), address.set);
        Self::of(namespace, record, address.digest, &set)
    }

    /// What was read at an address, or that there is no record.
    pub(crate) fn found_or_absent(
        namespace: &Namespace,
        address: &DigestAddress<'_>,
        read: Result<Self, WriteRefusal>,
    ) -> Result<Self, WriteRefusal> {
        match read {
            Err(refused) if matches!(refused.error, Error::NotFound { .. }) => Ok(Self {
                bins: Bins::new(),
                metadata: None,
                key: address.key.and_then(key_value),
                set: address.set.to_owned(),
                digest: address.digest,
                bytes: 0,
                now_ms: namespace.now_ms(),
            }),
            read => read,
        }
    }
}

/// A user key as a value. Text that is not UTF-8 becomes bytes.
fn key_value(stored: &[u8]) -> Option<Value> {
    match (Key::from_stored(stored), stored.split_first()?) {
        (Ok(key), _) => Some(shard::key_value(&key)),
        (Err(_), (kind, text)) if *kind == ParticleType::String.number() => Some(text.into()),
        (Err(_), _) => None,
    }
}
