//! The names in a companion: its key, and its bin `shard_of`. `docs/format.md` has the forms.

use super::route::RecordRef;
use super::scheme::{Companion, Epoch, SHARD_OF, key_value, list, shards_of};
use crate::expression::ExpType;
use crate::expressions::{and, eq, list_bin, lists, lt};
use crate::record::BinName;
use crate::record::companion_key::{companion_key, named_companion_key};
use crate::value::Value;
use crate::{Expression, Key, ListReturnType};

/// Where the key, the shards, the number, the epoch and the beginning are in a bin `shard_of`.
const KEY: i64 = 0;
const SHARDS: i64 = 1;
const NUMBER: i64 = 2;
const EPOCH: i64 = 3;
const BEGIN: i64 = 4;

/// A companion of the collection in a bin of a root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordName<'a> {
    pub(crate) root: &'a Key<'a>,
    pub(crate) bin: BinName,
    pub(crate) place: RecordRef,
}

impl RecordName<'_> {
    /// Returns the key of the record.
    pub(crate) fn key(&self) -> Key<'static> {
        match self.place {
            RecordRef::Root => Key::from(self.root).into_owned(),
            RecordRef::Companion(keys, shard) => {
                companion_key(self.root, self.bin.as_str(), keys, shard)
            }
            RecordRef::Timed(keys, layout, part) => {
                named_companion_key(self.root, self.bin.as_str(), keys, &layout.name(part))
            }
        }
    }

    const fn by_bin(&self) -> bool {
        match self.place {
            RecordRef::Root => false,
            RecordRef::Companion(keys, _) | RecordRef::Timed(keys, ..) => keys.by_bin(),
        }
    }

    /// Returns the number, and the beginning of the time that the companion is for.
    const fn numbers(&self) -> (i64, Option<i64>) {
        match self.place {
            RecordRef::Root => (0, None),
            RecordRef::Companion(_, shard) => (shard as i64, None),
            RecordRef::Timed(_, _, part) => {
                let (number, begin) = part.numbers();
                (number, Some(begin))
            }
        }
    }

    const fn is_page(&self) -> bool {
        matches!(self.place, RecordRef::Timed(_, _, part) if part.is_page())
    }

    /// Returns the value of the bin `shard_of`.
    pub(crate) fn value(&self, companion: Companion) -> Value {
        let (number, begin) = self.numbers();
        let mut items = vec![
            key_value(self.root),
            Value::Int(companion.shards as i64),
            Value::Int(number),
            companion.epoch.value(),
        ];
        items.extend(begin.map(Value::Int));
        if self.by_bin() {
            items.push(self.bin.as_str().into());
        }
        list(items)
    }

    /// Returns the content of a bin `shard_of`; `None` if it belongs to another companion.
    pub(crate) fn parse(&self, value: &Value) -> Option<Companion> {
        let Value::List(items) = value else {
            return None;
        };
        let companion = Companion {
            // A page has none. How many a bucket has, the root says.
            shards: if self.is_page() {
                0
            } else {
                shards_of(items.get(SHARDS as usize)?)?
            },
            epoch: Epoch::of(items.get(EPOCH as usize)?)?,
        };
        (*value == self.value(companion)).then_some(companion)
    }

    /// Returns the filter of this companion if it is of a transition before `epoch`: its `shard_of`
    /// has the same names and numbers, and nothing besides.
    pub(crate) fn is_older(&self, epoch: Epoch) -> Expression {
        let own = |index, kind| {
            let value = ListReturnType::Values;
            lists::get_by_index(value, kind, index, list_bin(SHARD_OF), &[])
        };
        let key_type = match self.root {
            Key::Integer(_) => ExpType::Int,
            Key::String(_) => ExpType::String,
            Key::Blob(_) => ExpType::Blob,
        };
        let (number, begin) = self.numbers();
        let items = if begin.is_some() {
            BEGIN + 1
        } else {
            EPOCH + 1
        };
        let bin = self.by_bin().then_some(self.bin);
        let is = |index, number: i64| eq(own(index, ExpType::Int), number);
        let mut conditions = vec![
            eq(
                lists::size(list_bin(SHARD_OF), &[]),
                items + i64::from(bin.is_some()),
            ),
            eq(own(KEY, key_type), key_value(self.root)),
            is(NUMBER, number),
        ];
        conditions.extend(begin.map(|begin| is(BEGIN, begin)));
        conditions.extend(self.is_page().then(|| is(SHARDS, 0)));
        conditions.push(lt(own(EPOCH, ExpType::Int), epoch.value()));
        conditions.extend(bin.map(|bin| eq(own(items, ExpType::String), bin.as_str())));
        and(conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::companion_key::KeyForm;

    #[test]
    fn a_companion_knows_its_own_description_from_anothers() {
        let companion = Companion {
            shards: 4,
            epoch: Epoch(7),
        };
        let (text, integer): (Key<'_>, Key<'_>) = ("5".into(), 5.into());
        let name = |root, bin, keys, shard| RecordName {
            root,
            bin: BinName::new(bin).unwrap(),
            place: RecordRef::Companion(keys, shard),
        };
        for keys in [KeyForm::Plain, KeyForm::ByBin] {
            let described = name(&text, "a", keys, 3).value(companion);
            assert_eq!(name(&text, "a", keys, 3).parse(&described), Some(companion));
            assert_eq!(name(&text, "a", keys, 2).parse(&described), None);
            assert_eq!(name(&integer, "a", keys, 3).parse(&described), None);
        }
        let by_bin = name(&text, "a", KeyForm::ByBin, 3);
        let plain = name(&text, "a", KeyForm::Plain, 3);
        assert_eq!(
            name(&text, "b", KeyForm::ByBin, 3).parse(&by_bin.value(companion)),
            None
        );
        assert_eq!(by_bin.parse(&plain.value(companion)), None);
        assert_eq!(plain.parse(&by_bin.value(companion)), None);
        assert_eq!(plain.parse(&7.into()), None);
    }
}
