//! A path to one value of a record: a bin, or a bin and keys of nested maps.

use crate::expression::ExpType;
use crate::expressions::{eq, map_bin, maps as map_values, val};
use crate::operations::{ctx, delete_bin, maps, put};
use crate::query::IndexComponent;
use crate::record::{BinName, Record};
use crate::relation::keys::element_of;
use crate::relation::reference_path::bin_in_record;
use crate::relation::writes::names;
use crate::{Error, Expression, Key, MapOrder, MapPolicy, MapReturnType, Operation, Result, Value};

/// A bin and the keys of maps behind it: `assignee`, `assignee.id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldPath {
    pub(super) bin: Box<str>,
    keys: Vec<Box<str>>,
}

impl FieldPath {
    /// # Errors
    /// [`Error::Parameter`] for a path that cannot be read, or may lead to several values;
    /// [`Error::BinName`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parts = text.split('.');
        let path = Self {
            bin: parts.next().unwrap_or_default().into(),
            keys: parts.map(Into::into).collect(),
        };
        if text.contains(['[', ']', '{', '}'])
            || path.bin.is_empty()
            || path.keys.iter().any(|key| key.is_empty())
        {
            return Err(Error::parameter(format!(
                "path {text:?}: a bin, and keys of maps behind it with dots between; a copy has one place, so lists and brackets cannot be in it"
            )));
        }
        BinName::new(&path.bin)?;
        Ok(path)
    }

    /// Whether one of the two contains the other, or both are the same.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let both = self.keys.len().min(other.keys.len());
        self.bin == other.bin && self.keys.iter().take(both).eq(other.keys.iter().take(both))
    }

    pub(super) fn component(&self) -> IndexComponent {
        let contexts = self.keys.iter().map(|key| ctx::map_key(&**key));
        IndexComponent::bin(&self.bin).at(contexts)
    }

    /// The value in a record.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a sharded collection.
    pub(super) fn value_in(&self, record: &Record) -> Result<Option<Value>> {
        let mut value = bin_in_record(record, &self.bin)?;
        for key in &self.keys {
            value = match value {
                Some(Value::Map(map)) => map.get(&Value::String(key.to_string())).cloned(),
                _ => None,
            };
        }
        Ok(value.filter(|value| !matches!(value, Value::Nil)))
    }

    /// Writes the value, and creates the maps on the way to it. `None` removes it.
    pub(super) fn write(&self, value: Option<Value>) -> Operation {
        let Some((last, way)) = self.keys.split_last() else {
            return match value {
                Some(value) => put(&self.bin, value),
                None => delete_bin(&self.bin),
            };
        };
        let is_written = value.is_some();
        let operation = match value {
            Some(value) => maps::put(&MapPolicy::default(), &self.bin, &**last, value),
            None => maps::remove_by_key(&self.bin, &**last, MapReturnType::None),
        };
        if way.is_empty() {
            return operation;
        }
        operation.in_context(way.iter().map(|key| {
            if is_written {
                ctx::map_key_create(&**key, MapOrder::KeyOrdered)
            } else {
                ctx::map_key(&**key)
            }
        }))
    }

    /// Holds while the value is the key of this record.
    pub(super) fn is_reference_to(&self, key: &Key<'_>) -> Expression {
        let Some((last, way)) = self.keys.split_last() else {
            return names(&self.bin, key);
        };
        let key_type = match key {
            Key::Integer(_) => ExpType::Int,
            Key::String(_) => ExpType::String,
            Key::Blob(_) => ExpType::Blob,
        };
        let way: Vec<_> = way.iter().map(|key| ctx::map_key(&**key)).collect();
        let (value, map) = (MapReturnType::Value, map_bin(&self.bin));
        let found = map_values::get_by_key(value, key_type, &**last, map, &way);
        eq(found, val(element_of(key)))
    }
}

/// Shows it as it was declared.
impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.bin)?;
        self.keys.iter().try_for_each(|key| write!(f, ".{key}"))
    }
}
