//! Values on their way into Lua and back.

use mlua::{Function, Lua, Result, Table};

use super::bytes::Bytes;
use super::limit::charge;
use crate::Value;
use crate::value::{List, ListOrder, MAX_NESTING, Map, MapOrder, ParticleType};

/// The memory of an element beside its text or bytes.
const ELEMENT_BYTES: usize = 64;

/// The functions of the prelude that make and open objects.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) new_list: Function,
    pub(super) new_map: Function,
    pub(super) geojson: Function,
    pub(super) open: Function,
}

impl Objects {
    pub(super) fn to_lua(&self, lua: &Lua, value: &Value) -> Result<mlua::Value> {
        let bytes = |data: &[u8], kind| {
            let bytes = lua.create_userdata(Bytes::new(lua, data, kind)?)?;
            Ok(mlua::Value::UserData(bytes))
        };
        let array = |values: &mut dyn Iterator<Item = &Value>| -> Result<Table> {
            let array = lua.create_table()?;
            for (at, value) in values.enumerate() {
                array.raw_set(at + 1, self.to_lua(lua, value)?)?;
            }
            Ok(array)
        };
        match value {
            Value::Nil | Value::Wildcard | Value::Infinity => Ok(mlua::Value::Nil),
            Value::Bool(value) => Ok(mlua::Value::Boolean(*value)),
            Value::Int(value) => Ok(mlua::Value::Integer(*value)),
            Value::BigInt(value) => Err(mlua::Error::runtime(format!(
                "{value} is greater than the integers of Lua"
            ))),
            Value::Float(value) => Ok(mlua::Value::Number(*value)),
            Value::String(text) => Ok(mlua::Value::String(lua.create_string(text)?)),
            Value::Blob(data) => bytes(data, ParticleType::Blob),
            Value::Hll(data) => bytes(data, ParticleType::Hll),
            Value::GeoJson(text) => self.geojson.call(text.as_str()),
            Value::List(list) => {
                let items = array(&mut list.iter())?;
                let is_ordered = list.order() == ListOrder::Ordered;
                self.new_list.call((items, list.len(), is_ordered))
            }
            Value::Map(map) => {
                let keys = array(&mut map.iter().map(|(key, _)| key))?;
                let values = array(&mut map.iter().map(|(_, value)| value))?;
                self.new_map
                    .call((keys, values, map.len(), map.order().flags()))
            }
        }
    }

    /// # Errors
    /// For functions, plain tables, text that is not UTF-8, and values nested too deep or too
    /// large.
    pub(super) fn to_value(&self, lua: &Lua, value: &mlua::Value) -> Result<Value> {
        self.take(lua, value, 0)
    }

    fn take(&self, lua: &Lua, value: &mlua::Value, depth: u32) -> Result<Value> {
        if depth > MAX_NESTING {
            let text = format!("a value of more than {MAX_NESTING} levels");
            return Err(mlua::Error::runtime(text));
        }
        let bytes = match value {
            mlua::Value::String(text) => text.as_bytes().len(),
            mlua::Value::UserData(data) => data.borrow::<Bytes>()?.data.len(),
            _ => 0,
        };
        // A list can hold itself, or a long text, many times.
        charge(lua, ELEMENT_BYTES + bytes)?;
        Ok(match value {
            mlua::Value::Nil => Value::Nil,
            mlua::Value::Boolean(value) => Value::Bool(*value),
            mlua::Value::Integer(value) => Value::Int(*value),
            mlua::Value::Number(value) => Value::Float(*value),
            mlua::Value::String(text) => Value::String(text.to_str()?.to_owned()),
            mlua::Value::UserData(data) => {
                let bytes = data.borrow::<Bytes>()?;
                if bytes.kind == ParticleType::Hll.number() {
                    Value::Hll(bytes.data.clone())
                } else {
                    Value::Blob(bytes.data.clone())
                }
            }
            mlua::Value::Table(_) => self.open(lua, value, depth)?,
            other => return Err(no_value(other.type_name())),
        })
    }

    fn open(&self, lua: &Lua, value: &mlua::Value, depth: u32) -> Result<Value> {
        type Opened = (
            Option<String>,
            mlua::Value,
            Option<usize>,
            mlua::Value,
            Option<Table>,
        );
        let (kind, first, len, order, second): Opened = self.open.call(value)?;
        let len = len.unwrap_or_default();
        let item = |table: &Table, at: usize| {
            let item: mlua::Value = table.raw_get(at)?;
            self.take(lua, &item, depth + 1)
        };
        match (kind.as_deref(), first, second) {
            (Some("geojson"), mlua::Value::String(text), _) => {
                Ok(Value::GeoJson(text.to_str()?.to_owned()))
            }
            (Some("list"), mlua::Value::Table(items), _) => {
                let items: Result<_> = (1..=len).map(|at| item(&items, at)).collect();
                let order = match order.as_boolean() {
                    Some(true) => ListOrder::Ordered,
                    _ => ListOrder::Unordered,
                };
                Ok(Value::List(List::new(items?, order)))
            }
            (Some("map"), mlua::Value::Table(keys), Some(values)) => {
                let entries: Result<_> = (1..=len)
                    .map(|at| Ok((item(&keys, at)?, item(&values, at)?)))
                    .collect();
                let flags = order
                    .as_integer()
                    .and_then(|flags| u8::try_from(flags).ok());
                let order = MapOrder::of_flags(flags.unwrap_or_default());
                Ok(Value::Map(Map::new(entries?, order)))
            }
            _ => Err(no_value(
                "a plain table: make a list{..} or a map{..} of it",
            )),
        }
    }
}

fn no_value(kind: &str) -> mlua::Error {
    mlua::Error::runtime(format!("unsupported type of a value: {kind}"))
}
