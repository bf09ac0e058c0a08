//! `serde` for records and their keys; the bins of a record are a map from names to values.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use super::{Bins, Key, Record, RecordView};
use crate::value::Value;

impl Serialize for RecordView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

/// A struct of `key` (if it is stored), `generation`, `void_time` and `last_update_ms` (as in
/// [`Metadata`](super::Metadata)), and `bins`.
impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metadata = self.metadata();
        let mut record = serializer.serialize_struct("Record", 5)?;
        record.serialize_field("key", &self.key())?;
        record.serialize_field("generation", &metadata.generation)?;
        record.serialize_field("void_time", &metadata.void_time)?;
        record.serialize_field("last_update_ms", &metadata.last_update_ms)?;
        record.serialize_field("bins", &self.view())?;
        record.end()
    }
}

/// An integer, text or bytes.
impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::Blob(bytes) => serializer.serialize_bytes(bytes),
        }
    }
}

impl Serialize for Bins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name.as_str(), value)))
    }
}

impl<'de> Deserialize<'de> for Bins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BinsVisitor)
    }
}

struct BinsVisitor;

impl<'de> Visitor<'de> for BinsVisitor {
    type Value = Bins;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a struct, or a map with text keys: its fields become bins")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bins, A::Error> {
        let mut bins = Bins::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            bins.set(&name, value).map_err(de::Error::custom)?;
        }
        Ok(bins)
    }
}
