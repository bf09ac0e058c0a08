//! The naive model: a map of records, each of which is a list of bins.

use std::collections::BTreeMap;

use spikelet::policy::{GenerationPolicy, RecordExistsAction};
use spikelet::{Expiration, ListOrder, ListPolicy, ListWriteFlags, Value, WritePolicy};

use crate::generate::{Content, Edit, GenerationOf, Policy};

#[derive(Clone, Debug, Default)]
pub struct ModelRecord {
    pub bins: Vec<(String, Value)>,
    pub generation: u32,
    pub void_time: u64,
    pub keyed: bool,
}

#[derive(Debug)]
pub struct Model {
    pub records: BTreeMap<u8, ModelRecord>,
    pub now_ms: u64,
    pub default_ttl: u64,
}

pub fn bin(name: u8) -> String {
    format!("bin{name}")
}

pub fn value(content: &Content) -> Value {
    match content {
        Content::Nil => Value::Nil,
        Content::Int(value) => Value::Int(*value),
        Content::Text(text) => Value::String(text.clone()),
    }
}

pub fn list_policy() -> ListPolicy {
    let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
    ListPolicy::new(ListOrder::Ordered, flags).persist_index(true)
}

impl ModelRecord {
    pub fn find(&self, name: &str) -> Option<usize> {
        self.bins.iter().position(|(bin, _)| bin == name)
    }

    pub fn set(&mut self, name: &str, value: Value) {
        match (self.find(name), value) {
            (Some(at), Value::Nil) => {
                self.bins.swap_remove(at);
            }
            (None, Value::Nil) => {}
            (Some(at), value) => self.bins[at].1 = value,
            (None, value) => self.bins.push((name.to_owned(), value)),
        }
    }

    /// Returns the result of a read.
    pub fn apply(&mut self, edit: &Edit) -> Result<Option<Value>, u8> {
        let mut combine = |name: u8, with: Value, how: &dyn Fn(&Value) -> Option<Value>| {
            let name = bin(name);
            let new = match self.find(&name) {
                None => with,
                Some(at) => how(&self.bins[at].1).ok_or(12)?,
            };
            self.set(&name, new);
            Ok(None)
        };
        match edit {
            Edit::Put(name, content) => {
                self.set(&bin(*name), value(content));
                Ok(None)
            }
            Edit::Add(name, delta) => combine(*name, Value::Int(*delta), &|old| match old {
                Value::Int(old) => Some(Value::Int(old.wrapping_add(*delta))),
                _ => None,
            }),
            Edit::Append(name, text) => combine(*name, text.as_str().into(), &|old| match old {
                Value::String(old) => Some(Value::String(format!("{old}{text}"))),
                _ => None,
            }),
            Edit::Prepend(name, text) => combine(*name, text.as_str().into(), &|old| match old {
                Value::String(old) => Some(Value::String(format!("{text}{old}"))),
                _ => None,
            }),
            Edit::Remove(name) => {
                self.set(&bin(*name), Value::Nil);
                Ok(None)
            }
            Edit::RemoveAll => {
                self.bins.clear();
                Ok(None)
            }
            Edit::Insert(name, element) => {
                let name = bin(*name);
                let mut items: Vec<i64> = match self.find(&name).map(|at| &self.bins[at].1) {
                    None => Vec::new(),
                    Some(Value::List(list)) => list.iter().map(int).collect(),
                    Some(_) => return Err(12),
                };
                if let Err(at) = items.binary_search(element) {
                    items.insert(at, *element);
                }
                let count = items.len() as i64;
                self.set(&name, ordered(&items));
                Ok(Some(Value::Int(count)))
            }
            Edit::Read(name) => Ok(self.find(&bin(*name)).map(|at| self.bins[at].1.clone())),
        }
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("not an integer: {other:?}"),
    }
}

fn ordered(items: &[i64]) -> Value {
    let items = items.iter().copied().map(Value::Int).collect();
    Value::List(spikelet::value::List::new(items, ListOrder::Ordered))
}

impl Model {
    pub fn live(&self, key: u8) -> Option<&ModelRecord> {
        let now = self.now_ms / 1000;
        self.records
            .get(&key)
            .filter(|record| record.void_time == 0 || record.void_time >= now)
    }

    pub fn generation(&self, key: u8, of: GenerationOf) -> GenerationPolicy {
        let now = self.live(key).map_or(0, |record| record.generation);
        let near = |offset: i8| now.saturating_add_signed(i32::from(offset));
        match of {
            GenerationOf::Any => GenerationPolicy::None,
            GenerationOf::Equal(offset) => GenerationPolicy::ExpectEqual(near(offset)),
            GenerationOf::Greater(offset) => GenerationPolicy::ExpectGreater(near(offset)),
        }
    }

    pub fn policy(&self, key: u8, policy: Policy) -> WritePolicy {
        WritePolicy::default()
            .record_exists_action(policy.action)
            .generation(self.generation(key, policy.generation))
            .expiration(policy.expiration)
            .send_key(policy.send_key)
    }

    pub fn check_generation(&self, key: u8, policy: GenerationPolicy) -> Result<(), u8> {
        let found = self.live(key).map_or(0, |record| record.generation);
        match policy {
            GenerationPolicy::ExpectEqual(expected) if found != expected => Err(3),
            GenerationPolicy::ExpectGreater(expected) if expected <= found => Err(3),
            _ => Ok(()),
        }
    }

    /// A write by the rules of semantics.md#order-of-checks, naively.
    pub fn write<R>(
        &mut self,
        key: u8,
        policy: &WritePolicy,
        touches: bool,
        edit: impl FnOnce(&mut ModelRecord) -> Result<R, u8>,
    ) -> Result<R, u8> {
        let old = self.live(key).cloned();
        if touches && old.is_none() {
            return Err(2);
        }
        match (policy.record_exists_action, &old) {
            (RecordExistsAction::UpdateOnly | RecordExistsAction::ReplaceOnly, None) => {
                return Err(2);
            }
            (RecordExistsAction::CreateOnly, Some(_)) => return Err(5),
            _ => {}
        }
        self.check_generation(key, policy.generation)?;
        let mut record = old.clone().unwrap_or_default();
        if matches!(
            policy.record_exists_action,
            RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
        ) {
            record.bins.clear();
        }
        let result = edit(&mut record)?;
        let now = self.now_ms / 1000;
        record.void_time = match policy.expiration {
            Expiration::Never => 0,
            Expiration::After(live) => now + live.as_secs(),
            Expiration::DontUpdate if old.is_some() => record.void_time,
            _ => {
                if self.default_ttl == 0 {
                    0
                } else {
                    now + self.default_ttl
                }
            }
        };
        if record.bins.is_empty() {
            return if old.is_some() {
                self.records.remove(&key);
                Ok(result)
            } else {
                Err(2)
            };
        }
        record.keyed |= policy.send_key;
        record.generation = if record.generation == 65_535 {
            1
        } else {
            record.generation + 1
        };
        self.records.insert(key, record);
        Ok(result)
    }
}
