//! `Links`: tagged references from record to record, and walks along them.

mod audit;
mod walk;

use super::address::{Address, TaggedLink};
use super::declared::{RelationDeclaration, RelationKind};
use super::keys::{element_of, key_of};
use super::side::{RecentAttempts, Side};
use super::together::{OnExisting, make_together};
use crate::operations::lists;
use crate::record::Record;
use crate::shard::ShardPolicy;
use crate::{
    AtomicWrites, Error, Key, ListReturnType, Operation, RecordSet, RecordStore, Result,
    ShardedList, Value,
};
pub use walk::{Walk, WalkStep};

/// Tagged links between records of any sets: each record that has some holds them in one bin, ordered by tag, set and key.
///
/// Document: Riak, *Relationships* (links, link walking, reciprocal links). There is no limit of 995 links: a record with many
/// of them is sharded ([`ShardPolicy`]).
///
/// | call | record operations, as long as the links are not sharded |
/// |---|---|
/// | [`link`](Self::link), [`unlink`](Self::unlink) | 1 write, 2 with a reciprocal tag |
/// | [`contains`](Self::contains), [`page`](Self::page) | 1 read |
/// | [`walk`](Self::walk) | 1 batch a step for each set of its records |
/// | [`fetch`](Self::fetch) | 1 batch a set |
///
/// Choose [`ManyToMany`](super::ManyToMany) where both ends and their sets are fixed: it has pages, attributes and audits for
/// either end.
///
/// On a [`Store`](crate::Store) a link and its reciprocal are written in one transaction. Elsewhere the link is written before
/// its reciprocal, and removed after it: what dies in between leaves a link without its reciprocal, and repeating the call
/// completes it, or [`Links::verify`].
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::{Address, Links, WalkStep};
///
/// let store = spikelet::Store::in_memory()?;
/// let links = Links::new(&store, "links").reciprocal("parent", "child");
/// let person = |name: &str| Address::new("people", name);
/// links.link(&person("bart"), "parent", &person("homer"))?;
/// links.link(&person("homer"), "parent", &person("abe"))?;
/// let grandparents = [WalkStep::new().tag("parent"), WalkStep::new().tag("parent").keep()];
/// assert_eq!(links.walk([person("bart")], &grandparents)?.kept(), [person("abe")]);
/// assert!(links.contains(&person("homer"), "child", &person("bart"))?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Links<S> {
    store: S,
    bin: LinkBin,
    /// Tags, and the tags of the links back.
    reciprocal: Vec<(Box<str>, Box<str>)>,
    records_max: usize,
}

/// The bin of links.
#[derive(Clone, Debug)]
struct LinkBin {
    name: Box<str>,
    shard_policy: ShardPolicy,
    attempts: RecentAttempts,
}

/// How many records a walk may come to, unless [`Links::records_max`] says otherwise.
const RECORDS_MAX: usize = 100_000;

impl<S: RecordStore> Links<S> {
    /// Returns the same links in another store, such as a transaction.
    pub fn within<T: RecordStore>(&self, store: T) -> Links<T> {
        Links {
            store,
            bin: self.bin.clone(),
            reciprocal: self.reciprocal.clone(),
            records_max: self.records_max,
        }
    }

    /// Returns the links that records of a store have in this bin. Reads and writes nothing.
    pub fn new(store: S, bin: &str) -> Self {
        Self {
            store,
            bin: LinkBin {
                name: bin.into(),
                shard_policy: ShardPolicy::default(),
                attempts: RecentAttempts::default(),
            },
            reciprocal: Vec::new(),
            records_max: RECORDS_MAX,
        }
    }

    /// Declares that a link of this tag has a link back, with the other tag; and the other way round.
    #[must_use]
    pub fn reciprocal(mut self, tag: &str, back: &str) -> Self {
        self.reciprocal.push((tag.into(), back.into()));
        if tag != back {
            self.reciprocal.push((back.into(), tag.into()));
        }
        self
    }

    /// Sets when the links of a record are sharded. Without this call, [`ShardPolicy::default`] decides.
    #[must_use]
    pub fn shard_policy(mut self, policy: ShardPolicy) -> Self {
        self.bin.shard_policy = policy;
        self
    }

    /// Sets how many records a walk may come to in all its steps, which bounds its memory. Default: 100,000.
    #[must_use]
    pub fn records_max(mut self, records: usize) -> Self {
        self.records_max = records;
        self
    }

    /// Adds a link, and the link back where that is declared. Returns whether the link is new.
    ///
    /// # Errors
    /// [`Error::Relation`], which names set and bin, around the refusals of a write.
    pub fn link(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        let change = self.change(from, tag, to);
        let Some(back) = change.back else {
            return self.store.atomically(&AddLink(change));
        };
        let (at_from, at_to) = (self.store.records(&from.set)?, self.store.records(&to.set)?);
        let (side, back_side) = (self.bin.side(from), self.bin.side(to));
        let existing = OnExisting::WriteNothing;
        let (link, link_back) = (element(tag, to), element(back, from));
        let edits = [
            side.adding(&at_from, &from.key, link, &Value::Nil, existing),
            back_side.adding(&at_to, &to.key, link_back, &Value::Nil, existing),
        ];
        make_together(&self.store, edits, 0, &AddLink(change))
    }

    /// Removes a link, and the link back where that is declared. Returns whether the link was there.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn unlink(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        let change = self.change(from, tag, to);
        let Some(back) = change.back else {
            return self.store.atomically(&RemoveLink(change));
        };
        let (at_from, at_to) = (self.store.records(&from.set)?, self.store.records(&to.set)?);
        let (side, back_side) = (self.bin.side(from), self.bin.side(to));
        let edits = [
            back_side.removing(&at_to, &to.key, element(back, from)),
            side.removing(&at_from, &from.key, element(tag, to)),
        ];
        make_together(&self.store, edits, 1, &RemoveLink(change))
    }

    /// Declares the links of these sets in the store, under this name, for [`declared_relations`](super::declared_relations) and
    /// `spikelet relations`. One read, and one write if they are new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name; the errors of a write.
    pub fn declare<'n>(&self, name: &str, sets: impl IntoIterator<Item = &'n str>) -> Result<()> {
        let side = |set| {
            let mut side = Side::new(set, &self.bin.name).declared("links", "");
            side.to = None;
            side
        };
        let tags = self.reciprocal.iter();
        RelationDeclaration {
            name: name.into(),
            kind: RelationKind::Links,
            sides: sets.into_iter().map(side).collect(),
            details: tags
                .map(|(tag, back)| format!("{tag}, back as {back}").into())
                .collect(),
        }
        .declare(&self.store)
    }

    fn change<'a>(&'a self, from: &'a Address, tag: &'a str, to: &'a Address) -> LinkChange<'a> {
        // A link from a record to itself may be its own link back.
        let back = self.back_of(tag);
        LinkChange {
            bin: &self.bin,
            from,
            tag,
            to,
            back: back.filter(|back| from != to || *back != tag),
        }
    }

    /// The tag of the link back of one with this tag.
    fn back_of(&self, tag: &str) -> Option<&str> {
        let mut declared = self.reciprocal.iter();
        declared.find_map(|(known, back)| (**known == *tag).then_some(&**back))
    }

    /// Returns whether there is a link. One read.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn contains(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        let list = self.bin.list(&self.store, from)?;
        self.bin.named(from, list.contains(&element(tag, to)))
    }

    /// Returns at most `limit` links of a record, with this tag (`None`: any), behind the link `after`. One read.
    ///
    /// # Errors
    /// As for [`Links::link`]; [`Error::Parameter`] for an element that is no link.
    pub fn page(
        &self,
        from: &Address,
        tag: Option<&str>,
        after: Option<&TaggedLink>,
        limit: u64,
    ) -> Result<Vec<TaggedLink>> {
        let page = self.bin.page(&self.store, from, tag, after, limit);
        self.bin.named(from, page)
    }

    /// Returns the records of these addresses, in their order; `None` where there is none. One batch a set.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn fetch(&self, addresses: &[Address]) -> Result<Vec<Option<Record>>> {
        let mut found = vec![None; addresses.len()];
        for (set, at) in walk::by_set(addresses) {
            let keys: Vec<Key<'_>> = at
                .iter()
                .filter_map(|at| addresses.get(*at))
                .map(|address| (&address.key).into())
                .collect();
            let records = self.store.records(set)?.read_each(&keys, None);
            for (at, record) in at.into_iter().zip(records) {
                if let Some(slot) = found.get_mut(at) {
                    *slot = record?;
                }
            }
        }
        Ok(found)
    }
}

impl LinkBin {
    /// The links of one set as a side of a relation.
    fn side(&self, of: &Address) -> Side {
        let mut side = Side::new(&of.set, &self.name);
        side.shard_policy = self.shard_policy;
        side.attempts = self.attempts.clone();
        side
    }

    fn list<S: RecordStore>(&self, store: &S, of: &Address) -> Result<ShardedList<S::Records>> {
        let list = ShardedList::new(store, &of.set, &of.key, &self.name)?;
        Ok(list.policy(self.shard_policy))
    }

    fn page<S: RecordStore>(
        &self,
        store: &S,
        from: &Address,
        tag: Option<&str>,
        after: Option<&TaggedLink>,
        limit: u64,
    ) -> Result<Vec<TaggedLink>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let list = self.list(store, from)?;
        let (begin, end) = tag.map_or((None, None), |tag| (Some(first_of(tag)), Some(behind(tag))));
        // A link of an earlier tag is before all links of this one.
        let after_link = after.filter(|link| tag.is_none_or(|tag| tag <= &*link.tag));
        let after_link = after_link.map(|link| element(&link.tag, &link.to));
        let from_bound = match (&after_link, &begin) {
            (Some(after), _) => Excluded(after),
            (None, Some(begin)) => Included(begin),
            (None, None) => Unbounded,
        };
        let to_bound = end.as_ref().map_or(Unbounded, Excluded);
        let elements = list.range(from_bound, to_bound, limit)?;
        elements.into_iter().map(link_of).collect()
    }

    /// The operation that reads the first links of a tag.
    fn read(&self, tag: Option<&str>, limit: u64) -> Operation {
        match tag {
            None => lists::get_by_index_range_count(&self.name, 0, limit, ListReturnType::Values),
            Some(tag) => {
                let (begin, end) = (Some(first_of(tag)), Some(behind(tag)));
                lists::get_by_value_range(&self.name, begin, end, ListReturnType::Values)
            }
        }
    }

    fn named<T>(&self, of: &Address, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let side = format!("bin \"{}\" of set \"{}\"", self.name, of.set);
            error.in_relation("links", &side)
        })
    }
}

/// The element of a link.
fn element(tag: &str, to: &Address) -> Value {
    let set = Value::String(to.set.to_string());
    Value::from(vec![
        Value::String(tag.to_owned()),
        set,
        element_of(&to.key),
    ])
}

/// What all links of a tag are greater than: a list is greater than its beginning.
fn first_of(tag: &str) -> Value {
    Value::from(vec![Value::String(tag.to_owned())])
}

/// The bound that all links of a tag are below, and links of the next tag are not.
fn behind(tag: &str) -> Value {
    Value::from(vec![Value::String(format!("{tag}\0"))])
}

fn link_of(element: Value) -> Result<TaggedLink> {
    let refuse = |found: &Value| {
        Error::parameter(format!(
            "{found} stands where a link should: links are lists of tag, set and key"
        ))
    };
    let Value::List(list) = element else {
        return Err(refuse(&element));
    };
    match <[Value; 3]>::try_from(list.into_items()) {
        Ok([Value::String(tag), Value::String(set), key]) => Ok(TaggedLink {
            tag: tag.into(),
            to: Address {
                set: set.into(),
                key: key_of(key)?,
            },
        }),
        Ok(other) => Err(refuse(&Value::from(other.to_vec()))),
        Err(other) => Err(refuse(&Value::from(other))),
    }
}

struct LinkChange<'a> {
    bin: &'a LinkBin,
    from: &'a Address,
    tag: &'a str,
    to: &'a Address,
    /// The tag of the link back.
    back: Option<&'a str>,
}

/// Adds a link, then its reciprocal.
struct AddLink<'a>(LinkChange<'a>);

impl AtomicWrites for AddLink<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let LinkChange {
            bin,
            from,
            tag,
            to,
            back,
        } = &self.0;
        let added = bin.list(store, from)?.add(element(tag, to));
        let is_new = bin.named(from, added)?;
        if let Some(back) = back {
            let added = bin.list(store, to)?.add(element(back, from));
            bin.named(to, added)?;
        }
        Ok(is_new)
    }
}

/// Removes the reciprocal of a link, then the link.
struct RemoveLink<'a>(LinkChange<'a>);

impl AtomicWrites for RemoveLink<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let LinkChange {
            bin,
            from,
            tag,
            to,
            back,
        } = &self.0;
        if let Some(back) = back {
            let removed = bin.list(store, to)?.remove(&element(back, from));
            bin.named(to, removed)?;
        }
        let removed = bin.list(store, from)?.remove(&element(tag, to));
        bin.named(from, removed)
    }
}
