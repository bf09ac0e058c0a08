//! The kinds of collections: lists of unique elements, maps, counters; and the operations that move
//! their parts.

use std::fmt::Debug;
use std::sync::Arc;

use super::element_hash::{hash_of, shard};
use super::merge;
use super::policy::ShardPolicy;
use super::protocol::CollectionKind;
use crate::operations::{self, lists, maps};
use crate::value::{EncodePurpose, ListOrder, MapOrder, ParticleType, Value, encode};
use crate::{
    Error, ListPolicy, ListReturnType, ListWriteFlags, MapPolicy, MapReturnType, MapWriteFlags,
    Operation, Result,
};

/// The kind of collection that a bin holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// An ordered list of unique elements.
    List,
    /// A map ordered by key.
    Map,
    /// An integer to which amounts are added.
    Counter,
}

/// A kind of collection. It keeps what a handle of it remembers besides.
pub trait ShardedKind: Debug + Default {
    /// The kind, as the content of a bin.
    const COLLECTION: Collection;

    /// Returns when a collection of the kind is sharded of its own accord, unless a handle says
    /// otherwise.
    fn shard_policy() -> ShardPolicy {
        ShardPolicy::default()
    }
}

/// The content of a collection, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Counter(i64),
}

/// Collections in bins of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bin;

/// A caller's operation on the collection in one record.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) operations: Arc<[Operation]>,
    /// Whether it makes the collection where there is none.
    pub(crate) creates: bool,
}

impl Act {
    /// Adds something. On lists and maps, the last operation answers how many elements there are
    /// then.
    pub(crate) fn creating(operations: impl Into<Arc<[Operation]>>) -> Self {
        Self {
            operations: operations.into(),
            creates: true,
        }
    }

    /// Reads, and writes that change nothing where there is nothing.
    pub(crate) fn of_existing(operations: impl Into<Arc<[Operation]>>) -> Self {
        Self {
            operations: operations.into(),
            creates: false,
        }
    }
}

/// One value, or none, for each operation of an act.
pub(crate) type ActValues = Vec<Option<Value>>;

/// The result of an act on one record.
#[derive(Clone, Debug)]
pub(crate) struct ActReply {
    pub(crate) values: ActValues,
    /// The size of the record afterwards, in bytes.
    pub(crate) record_bytes: u64,
    /// Whether the record is to expire.
    pub(crate) expires: bool,
    /// How many writers held the record or waited for it when the call came; `None`: the store does
    /// not know.
    pub(crate) queued_behind: Option<usize>,
}

/// The answer of the first operation.
pub(crate) fn first(answer: Option<ActValues>) -> Option<Value> {
    answer.unwrap_or_default().into_iter().next().flatten()
}

/// A result that is a number, 0 if there is none.
pub(crate) const fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}

/// Whether the first operation has answered a smaller number than the second.
pub(crate) fn has_grown(answer: Option<ActValues>) -> bool {
    match answer.as_deref() {
        Some([before, after]) => number(before.as_ref()) < number(after.as_ref()),
        _ => false,
    }
}

impl CollectionKind for Bin {
    type Part = Content;
    type Act = Act;
    type Answer = ActReply;

    fn part(whole: &Content, shards: u64, number: u64) -> Content {
        // An element without a hash (NaN, put there by other programs since the check of the
        // content) goes to the first shard, and stays.
        let lives = |element: &Value| {
            hash_of(element).map_or(number == 0, |hash| shard(hash, shards) == number)
        };
        match whole {
            Content::List(items) => {
                Content::List(items.iter().filter(|item| lives(item)).cloned().collect())
            }
            Content::Map(entries) => {
                let entries = entries.iter().filter(|(key, _)| lives(key));
                Content::Map(entries.cloned().collect())
            }
            // The first shard has the former content.
            Content::Counter(amount) => Content::Counter(if number == 0 { *amount } else { 0 }),
        }
    }
}

impl Collection {
    /// The policy by which a list is made and written.
    pub(crate) const fn list_policy() -> ListPolicy {
        ListPolicy::new(
            ListOrder::Ordered,
            ListWriteFlags::ADD_UNIQUE
                .union(ListWriteFlags::NO_FAIL)
                .union(ListWriteFlags::DO_PARTIAL),
        )
        .persist_index(true)
    }

    /// The policy by which a map is made and written.
    pub(crate) const fn map_policy() -> MapPolicy {
        MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::empty()).persist_index(true)
    }

    /// The type of the value of such a bin.
    pub(crate) const fn particle_type(self) -> ParticleType {
        match self {
            Self::List => ParticleType::List,
            Self::Map => ParticleType::Map,
            Self::Counter => ParticleType::Integer,
        }
    }

    /// Reads something small that every such bin has.
    pub(crate) fn presence(self, bin: &str) -> Operation {
        match self {
            Self::List => lists::size(bin),
            Self::Map => maps::size(bin),
            Self::Counter => operations::get_bin(bin),
        }
    }

    /// Returns how many elements a bin has that answers this to [`Collection::presence`]; 0 for
    /// counters, which have none.
    pub(crate) const fn elements(self, presence: Option<&Value>) -> u64 {
        match (self, presence) {
            (Self::List | Self::Map, Some(Value::Int(count))) => count.unsigned_abs(),
            _ => 0,
        }
    }

    /// Checks that a bin of this kind can have answered [`Collection::presence`] so. Lists and maps
    /// were asked for their size, and no other bin answers that.
    ///
    /// # Errors
    /// [`Error::IncompatibleType`].
    pub(crate) fn check(self, bin: &str, presence: &Value) -> Result<()> {
        match self {
            Self::Counter => self.content(bin, Some(presence.clone())).map(|_| ()),
            Self::List | Self::Map => Ok(()),
        }
    }

    /// The content of a bin; none where there is no bin.
    ///
    /// # Errors
    /// [`Error::IncompatibleType`] for a bin that holds something else.
    pub(crate) fn content(self, bin: &str, value: Option<Value>) -> Result<Content> {
        Ok(match (self, value) {
            (Self::List, None) => Content::List(Vec::new()),
            (Self::Map, None) => Content::Map(Vec::new()),
            (Self::Counter, None) => Content::Counter(0),
            (Self::List, Some(Value::List(list))) => Content::List(list.into_items()),
            (Self::Map, Some(Value::Map(map))) => Content::Map(map.into_entries()),
            (Self::Counter, Some(Value::Int(amount))) => Content::Counter(amount),
            (_, Some(other)) => {
                return Err(Error::IncompatibleType {
                    bin: bin.into(),
                    found: other.type_name(),
                    operation: match self {
                        Self::List => "a sharded list",
                        Self::Map => "a sharded map",
                        Self::Counter => "a sharded counter",
                    },
                    record: None,
                });
            }
        })
    }
}

impl Content {
    /// Checks that every element has a shard, and is there once.
    ///
    /// # Errors
    /// [`Error::Parameter`] for NaN, and what else [`hash_of`] refuses; [`Error::OpNotApplicable`]
    /// for a list in which others have put an element more than once.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::List(items) => {
                items
                    .iter()
                    .try_for_each(|item| hash_of(item).map(|_| ()))?;
                match merge::repeated(items)? {
                    None => Ok(()),
                    Some(element) => Err(Error::not_applicable(
                        format!(
                            "{element} is in the list more than once, and a sharded list has each element once: \
                             remove the repeats first"
                        )
                        .into(),
                    )),
                }
            }
            Self::Map(entries) => entries
                .iter()
                .try_for_each(|(key, _)| hash_of(key).map(|_| ())),
            Self::Counter(_) => Ok(()),
        }
    }

    /// Returns reads of the elements in the bin that equal none of this content; none where each
    /// element is certain to equal the value as which it was read.
    pub(crate) fn reads_of_others(&self, bin: &str) -> Vec<Operation> {
        let is_certain = |values: &[Value]| !values.iter().any(merge::is_ambiguous);
        match self {
            Self::List(items) if !is_certain(items) => {
                let others = ListReturnType::Values.inverted();
                vec![lists::get_by_value_list(bin, items.clone(), others)]
            }
            Self::Map(entries) => {
                let (keys, values): (Vec<Value>, Vec<Value>) = entries.iter().cloned().unzip();
                let others = MapReturnType::KeyValue.inverted();
                let mut reads = Vec::new();
                if !is_certain(&keys) {
                    reads.push(maps::get_by_key_list(bin, keys, others));
                }
                if !is_certain(&values) {
                    reads.push(maps::get_by_value_list(bin, values, others));
                }
                reads
            }
            Self::List(_) | Self::Counter(_) => Vec::new(),
        }
    }

    /// Checks what [`Content::reads_of_others`] has answered: an element that was read as one of
    /// this content, and does not equal it, would be another one behind a move.
    ///
    /// # Errors
    /// [`Error::OpNotApplicable`].
    pub(crate) fn check_others(&self, answer: &Value) -> Result<()> {
        let read_as = match (self, answer) {
            (Self::List(items), Value::List(others)) => {
                others.iter().find(|other| items.contains(other))
            }
            (Self::Map(entries), Value::Map(others)) => {
                let other = others.iter().find(|other| entries.contains(other));
                other.map(|(key, value)| if merge::is_ambiguous(key) { key } else { value })
            }
            _ => None,
        };
        match read_as {
            None => Ok(()),
            Some(value) => Err(Error::not_applicable(merge::not_found_by(value).into())),
        }
    }

    /// Returns the bytes of each element in a record; a counter has none.
    ///
    /// # Errors
    /// None for content that was read from a record.
    pub(crate) fn element_bytes(&self) -> Result<Vec<u64>> {
        let mut encoded = Vec::new();
        let mut size = |values: &[&Value]| {
            encoded.clear();
            for value in values {
                encode(value, EncodePurpose::Storage, &mut encoded).map_err(Error::not_storable)?;
            }
            Ok(encoded.len() as u64)
        };
        match self {
            Self::List(items) => items.iter().map(|item| size(&[item])).collect(),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, value)| size(&[key, value]))
                .collect(),
            Self::Counter(_) => Ok(Vec::new()),
        }
    }

    /// Whether it adds nothing to a bin.
    const fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            Self::Counter(amount) => *amount == 0,
        }
    }

    /// Makes the bin, with this content, in the place of what it held.
    pub(crate) fn fill(self, bin: &str) -> Vec<Operation> {
        let create = match &self {
            Self::List(_) => lists::create_persistent(bin, ListOrder::Ordered),
            Self::Map(_) => maps::create_persistent(bin, MapOrder::KeyOrdered),
            Self::Counter(amount) => return vec![operations::put(bin, *amount)],
        };
        let mut operations = vec![operations::delete_bin(bin), create];
        operations.extend(self.absorb(bin));
        operations
    }

    /// Adds this content to the bin. Nothing takes no operation.
    pub(crate) fn absorb(self, bin: &str) -> Option<Operation> {
        (!self.is_empty()).then(|| match self {
            Self::List(items) => {
                // Repeated elements of other programs stay: moving loses nothing.
                let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty());
                lists::append_items(&policy.persist_index(true), bin, items)
            }
            Self::Map(entries) => maps::put_items(&Collection::map_policy(), bin, entries),
            Self::Counter(amount) => operations::add(bin, amount),
        })
    }

    /// Removes this content from the bin, which has all of it.
    pub(crate) fn remove_moved(self, bin: &str) -> Option<Operation> {
        (!self.is_empty()).then(|| match self {
            Self::List(items) => lists::remove_by_value_list(bin, items, ListReturnType::None),
            Self::Map(entries) => {
                let keys = entries.into_iter().map(|(key, _)| key).collect();
                maps::remove_by_key_list(bin, keys, MapReturnType::None)
            }
            Self::Counter(amount) => operations::add(bin, amount.wrapping_neg()),
        })
    }
}
