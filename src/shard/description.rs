//! The description of sharded collections in their root: bins `subkeys`, `subkeys_epoch`,
//! `subkeys_bin` and `subkeys_epochs`.
//!
//! A record may hold any number of sharded collections. With one, the form is the documented one:
//! `subkeys` is a list. With more, `subkeys` maps the name of each collection's bin to its list. A
//! description is read as a whole, changed as plain data, and written back as a whole, under the
//! condition that the record still bears the one that was read: no transition can undo a change
//! that another collection's transition has written meanwhile.

use std::ops::Deref;
use std::sync::Arc;

use super::scheme::{
    DELETING, DESCRIPTION_BINS, Epoch, SUBKEYS, SUBKEYS_EPOCH, Scheme, TIME_SHARDS, not_understood,
};
use crate::expressions::{and, bin_exists, eq, int_bin, list_bin, map_bin, not, val};
use crate::operations::put;
use crate::record::companion_key::KeyForm;
use crate::record::{APART, BinName};
use crate::value::{EncodePurpose, Map, MapOrder, Value, encode};
use crate::{Error, Expression, Operation, Result};

/// How one collection is sharded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// By the hash of its elements.
    Hash(Scheme),
    /// By time, or in a form that is not understood here: the encoded value of its entry in
    /// `subkeys`.
    Other(Box<[u8]>),
}

/// One sharded collection of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DescribedCollection {
    pub(crate) bin: BinName,
    pub(crate) form: Form,
    /// The number of the collection's last transition.
    pub(crate) epoch: Epoch,
    /// From which shard on the keys of its companions stand apart.
    apart: Option<u64>,
}

impl DescribedCollection {
    /// Decodes the form of an entry, behind which it may say from which shard on keys stand apart.
    fn parse(bin: BinName, value: &Value, epoch: Epoch) -> Result<Self> {
        if let Value::List(items) = value
            && let [form @ .., Value::String(word), Value::Int(from)] = &items[..]
            && *word == *APART
            && let Ok(from) = u64::try_from(*from)
            && let Form::Hash(scheme) = Form::of(&Value::List(form.to_vec().into()))?
        {
            return Ok(Self {
                bin,
                form: Form::Hash(scheme),
                epoch,
                apart: Some(from),
            });
        }
        Ok(Self {
            bin,
            form: Form::of(value)?,
            epoch,
            apart: None,
        })
    }

    /// Returns where the collection is, in words, and whether it is in a transition.
    pub(crate) fn state_in_words(&self) -> (String, bool) {
        match &self.form {
            Form::Hash(scheme) => (scheme.to_string(), scheme.is_transition()),
            form => {
                let entry = form.value();
                let deleting = Some(Value::from(DELETING));
                let is_deleting =
                    matches!(&entry, Value::List(items) if items.last() == deleting.as_ref());
                (in_words(&entry), is_deleting)
            }
        }
    }

    /// Returns the value of the entry in `subkeys`.
    pub(crate) fn value(&self) -> Value {
        match (self.form.value(), self.apart) {
            (Value::List(items), Some(from)) => {
                let apart = [APART.into(), Value::Int(from as i64)];
                let items: Vec<Value> = items.iter().cloned().chain(apart).collect();
                Value::List(items.into())
            }
            (form, _) => form,
        }
    }
}

/// All sharded collections of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Description {
    /// The highest epoch that any collection of this record has had.
    latest: Epoch,
    /// The one bin with plain keys for its companions. It stays until no collection is sharded, so
    /// that no key gets another owner.
    plain: Option<BinName>,
    /// The entries, sorted by bin.
    entries: Vec<DescribedCollection>,
}

/// A description as it was read, shared by its readers. An empty one takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SharedDescription(Option<Arc<Description>>);

impl From<Description> for SharedDescription {
    fn from(description: Description) -> Self {
        Self((description != Description::default()).then(|| Arc::new(description)))
    }
}

impl SharedDescription {
    /// Returns whether the record has never had a sharded collection.
    pub(crate) const fn is_new(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for SharedDescription {
    type Target = Description;

    fn deref(&self) -> &Description {
        static NOTHING: Description = Description {
            latest: Epoch(0),
            plain: None,
            entries: Vec::new(),
        };
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl Form {
    /// Decodes the form of an entry.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a value that cannot be stored.
    pub(crate) fn of(value: &Value) -> Result<Self> {
        if let Some(scheme) = Scheme::understood(value) {
            return Ok(Self::Hash(scheme));
        }
        let mut encoded = Vec::new();
        encode(value, EncodePurpose::Storage, &mut encoded)
            .map_err(|error| Error::malformed("bin subkeys", error))?;
        Ok(Self::Other(encoded.into()))
    }

    /// Returns the scheme of a collection that is sharded by hash.
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for any other form.
    pub(crate) fn scheme(&self) -> Result<Scheme> {
        match self {
            Self::Hash(scheme) => Ok(*scheme),
            Self::Other(_) => Scheme::parse(Some(&self.value())),
        }
    }

    /// Returns whether the form is neither by hash nor by time.
    pub(super) fn is_unknown(&self) -> bool {
        match (self, self.value()) {
            (Self::Hash(_), _) => false,
            (Self::Other(_), Value::List(items)) => items.first() != Some(&TIME_SHARDS.into()),
            _ => true,
        }
    }

    /// Returns the value of an entry in `subkeys`.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Hash(scheme) => scheme.value().unwrap_or(Value::Nil),
            // It was encoded from a value.
            Self::Other(encoded) => Value::decode_front(&mut &encoded[..]).unwrap_or(Value::Nil),
        }
    }
}

impl Description {
    /// Decodes the bins of [`DESCRIPTION_BINS`].
    ///
    /// # Errors
    /// [`Error::ShardScheme`] for a value that no known version writes.
    pub(crate) fn parse(values: &[Option<Value>; 4]) -> Result<Self> {
        let [subkeys, epoch, plain, epochs] = values;
        let latest = match epoch {
            None => Epoch::default(),
            Some(epoch) => epoch_of(epoch)?,
        };
        let Some(subkeys) = subkeys else {
            return Ok(Self {
                latest,
                ..Self::default()
            });
        };
        let named = match plain {
            Some(Value::String(name)) => BinName::new(name).ok(),
            _ => None,
        };
        let plain = named.ok_or_else(|| {
            not_understood(plain.as_ref(), "the bin subkeys_bin does not name a bin")
        })?;
        let own_epoch = |bin: BinName| match epochs {
            None => Ok(None),
            Some(Value::Map(epochs)) => epochs.get(&bin.as_str().into()).map(epoch_of).transpose(),
            Some(other) => Err(not_understood(
                Some(other),
                "the bin subkeys_epochs does not map bins to numbers of transitions",
            )),
        };
        let entries = match subkeys {
            Value::List(_) => {
                let epoch = own_epoch(plain)?.unwrap_or(latest);
                vec![DescribedCollection::parse(plain, subkeys, epoch)?]
            }
            Value::Map(collections) => {
                let mut entries = Vec::with_capacity(collections.len());
                for (bin, form) in collections.iter() {
                    let bin = match bin {
                        Value::String(name) => BinName::new(name).ok(),
                        _ => None,
                    };
                    let bin = bin.ok_or_else(|| {
                        not_understood(Some(subkeys), "one of its keys is no name of a bin")
                    })?;
                    let epoch = own_epoch(bin)?.ok_or_else(|| {
                        not_understood(epochs.as_ref(), "the bin subkeys_epochs lacks a collection")
                    })?;
                    entries.push(DescribedCollection::parse(bin, form, epoch)?);
                }
                entries.sort_by_key(|entry| entry.bin);
                entries
            }
            other => {
                return Err(not_understood(
                    Some(other),
                    "the bin subkeys holds neither a list nor a map",
                ));
            }
        };
        let description = Self {
            latest,
            plain: Some(plain),
            entries,
        };
        // A change has the bin compared with the map that was read, so each description must have
        // exactly one map.
        if matches!(subkeys, Value::Map(_)) && description.subkeys().as_ref() != Some(subkeys) {
            return Err(not_understood(
                Some(subkeys),
                "it is not in the form that docs/format.md gives for these collections",
            ));
        }
        Ok(description)
    }

    /// Returns whether no collection of the record is sharded.
    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the highest epoch that any collection of this record has had.
    pub(crate) const fn latest(&self) -> Epoch {
        self.latest
    }

    /// Returns the sharded collections, sorted by bin.
    pub(crate) fn entries(&self) -> &[DescribedCollection] {
        &self.entries
    }

    /// Returns the entry of the collection in this bin; `None` if that is unsharded.
    pub(crate) fn of(&self, bin: BinName) -> Option<&DescribedCollection> {
        self.entries.iter().find(|entry| entry.bin == bin)
    }

    /// Returns whether a collection is sharded in a form that is not understood here. Nothing is
    /// sharded beside it: who knows its form may expect to find it alone.
    pub(crate) fn has_unknown_forms(&self) -> bool {
        self.entries.iter().any(|entry| entry.form.is_unknown())
    }

    /// Returns the form of the keys of this collection's companions, present and future.
    pub(crate) fn keys(&self, bin: BinName) -> KeyForm {
        let keys = match self.plain {
            Some(plain) if plain != bin => KeyForm::ByBin,
            _ => KeyForm::Plain,
        };
        match self.of(bin).and_then(|entry| entry.apart) {
            Some(from) => keys.apart(from),
            None => keys,
        }
    }

    /// Returns the description in which keys of this collection's companions stand apart from a
    /// shard on, those included that did before.
    pub(crate) fn with_keys_apart(mut self, bin: BinName, from: Option<u64>) -> Self {
        if let (Some(from), Some(entry)) =
            (from, self.entries.iter_mut().find(|entry| entry.bin == bin))
        {
            entry.apart = Some(entry.apart.map_or(from, |first| first.min(from)));
        }
        self
    }

    /// Returns the description after the collection in this bin has begun a transition.
    pub(crate) fn marked(&self, bin: BinName, form: Form, epoch: Epoch) -> Self {
        let mut marked = self.without(bin);
        let at = marked.entries.partition_point(|entry| entry.bin < bin);
        let apart = self.of(bin).and_then(|entry| entry.apart);
        let entry = DescribedCollection {
            bin,
            form,
            epoch,
            apart,
        };
        marked.entries.insert(at, entry);
        marked.latest = self.latest.max(epoch);
        marked.plain = Some(self.plain.unwrap_or(bin));
        marked
    }

    /// Returns the description after its transition has ended in this form; `None`: the collection
    /// is unsharded again.
    pub(crate) fn settled(&self, bin: BinName, form: Option<Form>) -> Self {
        let epoch = self.of(bin).map_or(self.latest, |entry| entry.epoch);
        match form {
            Some(form) => self.marked(bin, form, epoch),
            None => self.without(bin),
        }
    }

    fn without(&self, bin: BinName) -> Self {
        let mut without = self.clone();
        without.entries.retain(|entry| entry.bin != bin);
        if without.entries.is_empty() {
            without.plain = None;
        }
        without
    }

    /// Returns the value of the bin `subkeys`: a list if there is one collection and its companions
    /// bear plain keys, else a map.
    fn subkeys(&self) -> Option<Value> {
        match &self.entries[..] {
            [] => None,
            [only] if self.plain == Some(only.bin) => Some(only.value()),
            entries => Some(by_bin(entries, DescribedCollection::value)),
        }
    }

    /// Returns the value of the bin `subkeys_epochs`; `None` where `subkeys_epoch` implies it.
    fn epochs(&self) -> Option<Value> {
        match &self.entries[..] {
            [] => None,
            [only] if self.plain == Some(only.bin) && only.epoch == self.latest => None,
            entries => Some(by_bin(entries, |entry| entry.epoch.value())),
        }
    }

    /// Returns the operations that replace the description of a root by this one.
    pub(crate) fn write(&self) -> Vec<Operation> {
        let bins = DESCRIPTION_BINS.iter().zip(self.values());
        bins.map(|(bin, value)| put(bin, value.unwrap_or(Value::Nil)))
            .collect()
    }

    /// Returns the values of [`DESCRIPTION_BINS`], in their order.
    fn values(&self) -> [Option<Value>; 4] {
        [
            self.subkeys(),
            (self.latest != Epoch::default()).then(|| self.latest.value()),
            self.plain.map(|bin| bin.as_str().into()),
            self.epochs(),
        ]
    }

    /// Returns the filter that holds while the record has this description. Every mark raises the
    /// latest epoch, and between two marks each end of a transition changes `subkeys`: the two
    /// together never come back.
    pub(crate) fn is_borne(&self) -> Expression {
        let subkeys = match self.subkeys() {
            None => not(bin_exists(SUBKEYS)),
            Some(map @ Value::Map(_)) => eq(map_bin(SUBKEYS), val(map)),
            Some(list) => eq(list_bin(SUBKEYS), val(list)),
        };
        let latest = match self.latest {
            Epoch(0) => not(bin_exists(SUBKEYS_EPOCH)),
            latest => eq(int_bin(SUBKEYS_EPOCH), latest.value()),
        };
        and([subkeys, latest])
    }
}

/// An entry of the bin `subkeys` as it is stored.
pub(super) fn in_words(subkeys: &Value) -> String {
    match subkeys {
        Value::List(items) => {
            let words: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Value::String(word) => word.clone(),
                    other => other.to_string(),
                })
                .collect();
            words.join(" ")
        }
        other => other.to_string(),
    }
}

fn by_bin(entries: &[DescribedCollection], value: impl Fn(&DescribedCollection) -> Value) -> Value {
    let entries = entries
        .iter()
        .map(|entry| (entry.bin.as_str().into(), value(entry)));
    Value::Map(Map::new(entries.collect(), MapOrder::KeyOrdered))
}

fn epoch_of(value: &Value) -> Result<Epoch> {
    Epoch::of(value).ok_or_else(|| not_understood(Some(value), "it is no number of a transition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(name: &str) -> BinName {
        BinName::new(name).unwrap()
    }

    fn active(shards: u64) -> Form {
        Form::Hash(Scheme::Active { shards })
    }

    fn values(description: &Description) -> [Option<Value>; 4] {
        description.values()
    }

    fn list(items: Vec<Value>) -> Value {
        Value::List(items.into())
    }

    #[test]
    fn one_collection_is_described_as_documented() {
        let one = Description::default().marked(bin("followers"), active(8), Epoch(5));
        let documented = list(vec!["hash-shards".into(), 8.into()]);
        assert_eq!(
            values(&one),
            [
                Some(documented),
                Some(5.into()),
                Some("followers".into()),
                None
            ]
        );
        assert_eq!(Description::parse(&values(&one)).unwrap(), one);
        assert_eq!(one.keys(bin("followers")), KeyForm::Plain);
        assert_eq!(one.keys(bin("following")), KeyForm::ByBin);
    }

    #[test]
    fn a_second_collection_makes_it_a_map_and_its_end_a_list_again() {
        let (followers, following) = (bin("followers"), bin("following"));
        let one = Description::default().marked(followers, active(8), Epoch(5));
        let two = one.marked(following, active(2), Epoch(6));
        let map = |entries| Value::Map(Map::new(entries, MapOrder::KeyOrdered));
        let entry = |shards: i64| list(vec!["hash-shards".into(), shards.into()]);
        let expected = [
            Some(map(vec![
                ("followers".into(), entry(8)),
                ("following".into(), entry(2)),
            ])),
            Some(6.into()),
            Some("followers".into()),
            Some(map(vec![
                ("followers".into(), 5.into()),
                ("following".into(), 6.into()),
            ])),
        ];
        assert_eq!(values(&two), expected);
        assert_eq!(Description::parse(&expected).unwrap(), two);

        // The epoch of the one that is left is not the latest.
        let left = two.settled(following, None);
        let [subkeys, latest, plain, epochs] = values(&left);
        assert_eq!((subkeys, latest), (Some(entry(8)), Some(6.into())));
        assert_eq!(plain, Some("followers".into()));
        assert_eq!(epochs, Some(map(vec![("followers".into(), 5.into())])));
        let read = Description::parse(&values(&left)).unwrap();
        assert_eq!(read, left);
        assert_eq!(read.of(followers).unwrap().epoch, Epoch(5));
        // Its next transition needs no such bin any more.
        assert_eq!(
            values(&left.marked(followers, active(16), Epoch(7)))[3],
            None
        );
    }

    #[test]
    fn plain_keys_belong_to_one_collection_until_none_is_sharded() {
        let (followers, following) = (bin("followers"), bin("following"));
        let two = Description::default()
            .marked(followers, active(8), Epoch(5))
            .marked(following, active(2), Epoch(6));
        let other = two.settled(followers, None);
        assert!(matches!(values(&other)[0], Some(Value::Map(_))));
        assert_eq!(Description::parse(&values(&other)).unwrap(), other);
        assert_eq!(other.keys(following), KeyForm::ByBin);
        assert_eq!(other.keys(followers), KeyForm::Plain);
        assert_eq!(other.keys(bin("third")), KeyForm::ByBin);
        let none = other.settled(following, None);
        assert!(none.is_empty());
        assert_eq!(none.latest(), Epoch(6));
        assert_eq!(values(&none), [None, Some(6.into()), None, None]);
        assert_eq!(none.keys(bin("third")), KeyForm::Plain);
    }

    #[test]
    fn what_another_collection_says_stays_as_it_is() {
        let by_time = list(vec!["time-shards".into(), "daily".into()]);
        let feed =
            Description::default().marked(bin("feed"), Form::of(&by_time).unwrap(), Epoch(3));
        let both = feed.marked(bin("followers"), active(2), Epoch(4));
        let read = Description::parse(&values(&both)).unwrap();
        assert_eq!(read.of(bin("feed")).unwrap().form.value(), by_time);
        assert_eq!(
            values(&read.settled(bin("followers"), None))[0],
            Some(by_time)
        );
    }

    #[test]
    fn any_other_form_is_refused() {
        let entry = || list(vec!["hash-shards".into(), 8.into()]);
        let map = |order, bins: &[&str], value: &dyn Fn() -> Value| {
            let entries = bins.iter().map(|bin| ((*bin).into(), value()));
            Some(Value::Map(Map::new(entries.collect(), order)))
        };
        let ordered = MapOrder::KeyOrdered;
        let epochs = |bins: &[&str]| map(ordered, bins, &|| 5.into());
        for (subkeys, plain, epochs) in [
            // No name, another type, an epoch that is missing.
            (Some(entry()), None, None),
            (Some(5.into()), Some("a"), None),
            (map(ordered, &["a", "b"], &entry), Some("a"), epochs(&["a"])),
            // One collection of plain keys has a list, and none has no bin.
            (map(ordered, &["a"], &entry), Some("a"), epochs(&["a"])),
            (map(ordered, &[], &entry), Some("a"), epochs(&[])),
            (
                map(MapOrder::Unordered, &["a", "b"], &entry),
                Some("a"),
                epochs(&["a", "b"]),
            ),
        ] {
            let values = [subkeys, Some(5.into()), plain.map(Value::from), epochs];
            let refused = Description::parse(&values).unwrap_err();
            assert!(matches!(refused, Error::ShardScheme { .. }), "{values:?}");
        }
    }
}
