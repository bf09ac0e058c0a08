//! Remedies for a large or hot record, where shards help and where they do not.

use serde::Serialize;
use spikelet::ValueRef;

use super::recommendation::shards_within;
use crate::verdict::sizing::watched_from;

/// The longest part of a map's key that is shown.
const KEY_CHARS: usize = 24;
/// The longest head before the bytes of a text, of bytes and of a nested list or map.
const HEAD_BYTES: u64 = 6;

/// What helps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SizeRemedy {
    /// Nothing is needed.
    #[default]
    Nothing,
    /// Shards of its list, map or counter.
    Shard,
    /// A record for each element, and their keys in the collection.
    RecordPerEntry,
    /// The nested list or map as a bin of its own, which can be sharded.
    NestedToOwnBin,
    /// Its bins in several records.
    SeveralRecords,
    /// The large text or bytes somewhere else, or in pieces.
    StoreElsewhere,
}

/// Returns whether shards do not help a collection: one element is beyond the bound of a shard, or
/// shards within it would be more than the elements. `element_bytes`: the mean element, weighed by
/// size.
pub(crate) fn is_blocked(
    shard_bytes_max: u64,
    total_bytes: u64,
    element_bytes: f64,
    elements: u64,
) -> bool {
    let bound = watched_from(shard_bytes_max);
    let shards = || shards_within(bound, total_bytes, element_bytes, 2);
    element_bytes > shard_bytes_max as f64 || (total_bytes > shard_bytes_max && shards() > elements)
}

/// Why shards do not make a collection small enough: its elements are too large.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// The element is no list or map, or one of too large elements.
    Element {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The element is a list or map.
    Nested {
        /// Where: the key of a map's entry, or the index in a list.
        at: String,
        /// `list` or `map`.
        kind: &'static str,
        /// How many elements it has.
        count: u64,
        /// What they take.
        bytes: u64,
    },
}

impl SizeRemedy {
    /// Returns its name in tables.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing needed",
            Self::Shard => "shards",
            Self::RecordPerEntry => "a record per entry",
            Self::NestedToOwnBin => "the nested collection in its own bin",
            Self::SeveralRecords => "several records",
            Self::StoreElsewhere => "the large value elsewhere",
        }
    }

    /// Says what to do, as an instruction about a bin.
    pub(crate) fn instruction(self, bin: Option<&str>) -> String {
        let bin = bin.map_or_else(|| "its largest bin".to_owned(), |bin| format!("bin {bin}"));
        match self {
            Self::Nothing => "Leave it as it is.".to_owned(),
            Self::Shard => format!("Shard {bin}."),
            Self::RecordPerEntry => {
                format!(
                    "Give each entry of {bin} a record of its own, and keep their keys in the bin."
                )
            }
            Self::NestedToOwnBin => {
                format!(
                    "Move the nested list or map of {bin} to a bin of its own; that one can be sharded."
                )
            }
            Self::SeveralRecords => {
                "Divide its bins over several records, by common reads and writes.".to_owned()
            }
            Self::StoreElsewhere => format!(
                "Keep the large value of {bin} elsewhere, in a record of its own or in pieces."
            ),
        }
    }
}

impl Obstacle {
    pub(crate) const fn remedy(&self) -> SizeRemedy {
        match self {
            Self::Element { .. } => SizeRemedy::RecordPerEntry,
            Self::Nested { .. } => SizeRemedy::NestedToOwnBin,
        }
    }

    /// Names the remedy, as a part of a sentence.
    pub(crate) fn words(&self) -> String {
        use crate::report::{bytes, count};
        match self {
            Self::Element { bytes: size } => format!("one element takes {}", bytes(*size)),
            Self::Nested {
                at,
                kind,
                count: elements,
                bytes: size,
            } => format!(
                "the {} at {at} alone takes {} in {} elements",
                kind,
                bytes(*size),
                count(*elements)
            ),
        }
    }

    /// Returns the obstacle to shards of at most this size of a list or map: its largest part.
    /// `None` for another value.
    pub(crate) fn of(value: &ValueRef<'_>, shard_bytes_max: u64) -> Option<Self> {
        let (index, largest) = parts(value)
            .enumerate()
            .max_by_key(|(_, part)| part.bytes)?;
        let bytes = largest.bytes;
        if bytes <= shard_bytes_max {
            return None;
        }
        let (kind, count) = match largest.value {
            ValueRef::List(list) => ("list", list.len()),
            ValueRef::Map(map) => ("map", map.len()),
            _ => return Some(Self::Element { bytes }),
        };
        Some(if Self::of(&largest.value, shard_bytes_max).is_some() {
            Self::Element { bytes }
        } else {
            Self::Nested {
                at: largest.key.map_or_else(|| format!("[{index}]"), key_name),
                kind,
                count: count as u64,
                bytes,
            }
        })
    }
}

/// An element of a list, or an entry of a map.
pub(crate) struct Part<'v> {
    pub(crate) bytes: u64,
    key: Option<ValueRef<'v>>,
    value: ValueRef<'v>,
}

/// Returns the parts of a list or map; of another value none.
pub(crate) fn parts<'v>(value: &ValueRef<'v>) -> Box<dyn Iterator<Item = Part<'v>> + 'v> {
    match value {
        ValueRef::List(list) => Box::new(list.iter().flatten().map(|value| Part {
            bytes: value_bytes(&value),
            key: None,
            value,
        })),
        ValueRef::Map(map) => Box::new(map.iter().flatten().map(|(key, value)| Part {
            bytes: value_bytes(&key) + value_bytes(&value),
            key: Some(key),
            value,
        })),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the size of a value as an element, to a few bytes.
fn value_bytes(value: &ValueRef<'_>) -> u64 {
    let content = match value {
        ValueRef::String(text) | ValueRef::GeoJson(text) => text.len(),
        ValueRef::Blob(bytes) | ValueRef::Hll(bytes) => bytes.len(),
        ValueRef::List(list) => list.content_bytes(),
        ValueRef::Map(map) => map.content_bytes(),
        _ => return HEAD_BYTES,
    };
    content as u64 + HEAD_BYTES
}

/// Returns a map's key as people write it, so that it cannot break a line.
fn key_name(key: ValueRef<'_>) -> String {
    let text = match key {
        ValueRef::String(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    };
    crate::report::shortened(text, KEY_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizing::measure::RecordMeasure;
    use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;
    use spikelet::value::Map;
    use spikelet::{MapOrder, Value};

    fn obstacle(value: Value) -> Option<Obstacle> {
        let bins = [("b".to_owned(), value)];
        let record = RecordMeasure::given(None, bins, SWEET_SPOT_BYTES).unwrap();
        record.bins[0].collection.clone().unwrap().obstacle
    }

    fn map(entries: Vec<(Value, Value)>) -> Value {
        Value::Map(Map::new(entries, MapOrder::KeyOrdered))
    }

    #[test]
    fn an_element_larger_than_a_shard_and_few_large_ones_are_in_the_way() {
        let text = |bytes: usize| Value::from("x".repeat(bytes));
        assert_eq!(obstacle(Value::List((0..300_000).collect())), None);
        assert_eq!(obstacle(Value::List(vec![text(10_000); 60].into())), None);
        let few = obstacle(Value::List(vec![text(100_000); 9].into())).unwrap();
        assert_eq!(few.remedy(), SizeRemedy::RecordPerEntry);
        assert_eq!(few.words(), "one element takes 97.7 KiB");
        let large = obstacle(Value::List(vec![text(1), text(700_000)].into())).unwrap();
        assert_eq!(large.remedy(), SizeRemedy::RecordPerEntry);
        assert_eq!(large.words(), "one element takes 683.6 KiB");
        let events = Value::List((0..100_000).collect());
        let nested = obstacle(map(vec![("events".into(), events)])).unwrap();
        assert_eq!(nested.remedy(), SizeRemedy::NestedToOwnBin);
        assert!(
            nested
                .words()
                .starts_with("the list at \"events\" alone takes")
                && nested.words().ends_with("in 100,000 elements"),
            "{}",
            nested.words()
        );
        let deep = Value::List(vec![Value::List(vec![text(200_000)].into())].into());
        assert_eq!(obstacle(deep).unwrap().remedy(), SizeRemedy::RecordPerEntry);
    }
}
