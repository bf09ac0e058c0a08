//! Values of this crate as the client's, and back.

use aerospike::{FloatValue, IndexMap, Value as Theirs};

use crate::value::{List, Map, MapOrder, ParticleType, write_stored};
use crate::{Error, ListOrder, Result, Value};

/// Why a value of an element cannot be sent.
fn not_carried(what: &str) -> Error {
    Error::parameter(format!(
        "{what} cannot be sent to a cluster: the client for it has no form for that"
    ))
}

pub(super) fn above_max() -> Error {
    not_carried("an integer above i64::MAX")
}

/// A value inside a call, or a whole bin other than a list or map.
pub(super) fn element(value: &Value) -> Result<Theirs> {
    Ok(match value {
        Value::Nil => Theirs::Nil,
        Value::Bool(value) => Theirs::Bool(*value),
        Value::Int(value) => Theirs::Int(*value),
        Value::BigInt(_) => return Err(above_max()),
        Value::Float(value) => Theirs::Float(FloatValue::F64(value.to_bits())),
        Value::String(text) => Theirs::String(text.clone()),
        Value::Blob(bytes) => Theirs::Blob(bytes.clone()),
        Value::GeoJson(text) => Theirs::GeoJson(text.clone()),
        Value::Hll(bytes) => Theirs::Hll(bytes.clone()),
        Value::Wildcard => Theirs::Wildcard,
        Value::Infinity => Theirs::Infinity,
        Value::List(list) if list.order() == ListOrder::Ordered => {
            return Err(not_carried("an ordered list inside a list or map"));
        }
        Value::List(list) => Theirs::List(elements(list)?),
        Value::Map(map) => nested_map(map)?,
    })
}

pub(super) fn elements(values: &[Value]) -> Result<Vec<Theirs>> {
    values.iter().map(element).collect()
}

fn nested_map(map: &Map) -> Result<Theirs> {
    let entries = entries(map)?;
    Ok(match map.order() {
        MapOrder::Unordered => Theirs::OrderedMap(entries),
        MapOrder::KeyOrdered => Theirs::SortedMap(entries.into_iter().collect()),
        MapOrder::KeyValueOrdered => {
            return Err(not_carried("a map that is ordered by value, as an element"));
        }
    })
}

/// The entries of a map. The client knows only keys that every server takes.
pub(super) fn entries(map: &[(Value, Value)]) -> Result<IndexMap<Theirs, Theirs>> {
    let mut entries = IndexMap::with_capacity(map.len());
    for (key, value) in map {
        if !matches!(key, Value::Int(_) | Value::String(_) | Value::Blob(_)) {
            return Err(Error::parameter(format!(
                "{key:?} cannot be the key of a map: keys are integers, text or bytes"
            )));
        }
        if entries.insert(element(key)?, element(value)?).is_some() {
            return Err(Error::parameter(format!("a map has the key {key:?} twice")));
        }
    }
    Ok(entries)
}

/// The value of a whole bin. Lists and maps go in the encoded form, which has their order, too.
pub(super) fn bin(value: &Value) -> Result<Theirs> {
    match value {
        Value::List(_) | Value::Map(_) => {
            let mut bytes = Vec::new();
            let kind = write_stored(value, &mut bytes).map_err(Error::not_storable)?;
            Ok(encoded(kind, bytes))
        }
        Value::Wildcard | Value::Infinity => {
            Err(Error::not_storable(crate::value::CodecError::NotStorable))
        }
        Value::BigInt(value) => Err(Error::not_storable(
            crate::value::CodecError::IntegerTooBig(*value),
        )),
        value => element(value),
    }
}

/// The value of a whole bin as it is on the wire.
pub(super) fn encoded(kind: ParticleType, bytes: impl Into<Vec<u8>>) -> Theirs {
    match kind {
        ParticleType::Null => Theirs::Nil,
        kind => Theirs::Unknown(kind as u8, bytes.into()),
    }
}

/// A value that the server has sent.
pub(super) fn received(value: Theirs) -> Result<Value> {
    Ok(match value {
        Theirs::Nil => Value::Nil,
        Theirs::Bool(value) => Value::Bool(value),
        Theirs::Int(value) => Value::Int(value),
        Theirs::Float(value) => Value::Float(value.into()),
        Theirs::String(text) => Value::String(text),
        Theirs::Blob(bytes) => Value::Blob(bytes),
        Theirs::GeoJson(text) => Value::GeoJson(text),
        Theirs::Hll(bytes) => Value::Hll(bytes),
        Theirs::Infinity => Value::Infinity,
        Theirs::Wildcard => Value::Wildcard,
        Theirs::List(items) => received_list(items)?,
        Theirs::OrderedMap(entries) => received_map(entries, MapOrder::Unordered)?,
        Theirs::SortedMap(entries) => received_map(entries, MapOrder::KeyOrdered)?,
        Theirs::HashMap(entries) => received_map(entries, MapOrder::Unordered)?,
        Theirs::KeyValueList(entries) => received_map(entries, MapOrder::Unordered)?,
        Theirs::Unknown(_, bytes) => Value::Blob(bytes),
        other => {
            return Err(Error::parameter(format!(
                "the server sent a value of a kind that is unknown here: {other:?}"
            )));
        }
    })
}

fn received_list(items: Vec<Theirs>) -> Result<Value> {
    let items: Result<Vec<Value>> = items.into_iter().map(received).collect();
    Ok(Value::List(List::new(items?, ListOrder::Unordered)))
}

fn received_map(
    entries: impl IntoIterator<Item = (Theirs, Theirs)>,
    order: MapOrder,
) -> Result<Value> {
    let entries: Result<Vec<(Value, Value)>> = entries
        .into_iter()
        .map(|(key, value)| Ok((received(key)?, received(value)?)))
        .collect();
    Ok(Value::Map(Map::new(entries?, order)))
}
