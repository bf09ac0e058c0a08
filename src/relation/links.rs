//! `Links`: tagged references from record to record, and walks along them.

mod audit;
mod replace;
mod walk;

use super::address::{Address, TaggedLink, element, link_of};
use super::audit::RelationProgress;
use super::declared::Declared;
use super::edge_remover::Deletion;
use super::side::{RecentAttempts, Side, check_exists};
use crate::engine::declaration::{OnDelete, RelationDeclaration, RelationKind};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

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
/// | [`set`](Self::set) | 1 read, and as `link` and `unlink` for each link that is added or removed |
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
    rule: Option<OnDelete>,
    declared: Declared,
    /// The sets in which this handle has written links.
    sets: Arc<Mutex<Vec<Box<str>>>>,
}

/// The bin of links.
#[derive(Clone, Debug)]
struct LinkBin {
    name: Box<str>,
    shard_policy: ShardPolicy,
    attempts: RecentAttempts,
    ends_must_exist: bool,
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
            rule: self.rule,
            declared: self.declared.clone(),
            sets: Arc::clone(&self.sets),
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
                ends_must_exist: false,
            },
            reciprocal: Vec::new(),
            records_max: RECORDS_MAX,
            rule: None,
            declared: Declared::default(),
            sets: Arc::default(),
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

    /// Sets what becomes of the links of a record that is deleted, by whatever call: [`OnDelete::Restrict`], as long as no handle
    /// has declared another rule, or [`OnDelete::Detach`]. Links that lead to the record and have no reciprocal are not found by
    /// a delete: [`Links::verify`] removes them.
    #[must_use]
    pub fn on_delete(mut self, rule: OnDelete) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Refuses links from and to records that do not exist, with [`Error::NotFound`]. Without this call, `link` creates records.
    #[must_use]
    pub const fn ends_must_exist(mut self) -> Self {
        self.bin.ends_must_exist = true;
        self
    }

    /// Adds a link, and the link back where that is declared. Returns whether the link is new.
    ///
    /// # Errors
    /// [`Error::Relation`], which names set and bin, around the refusals of a write.
    pub fn link(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        let change = self.change(from, tag, to);
        self.ensure_declared(&change)?;
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
        self.ensure_declared(&change)?;
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

    /// Declares the links of these sets in the store, under this name: the store keeps their bin, and deletes records as
    /// [`Links::on_delete`] says. The first link of a handle from a set does so by itself, as `links in` the bin; this call also
    /// changes what was declared before under the name. One read, and one write if they are new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, and for [`OnDelete::Cascade`], since no record belongs to another; the
    /// errors of a write.
    pub fn declare<'n>(&self, name: &str, sets: impl IntoIterator<Item = &'n str>) -> Result<()> {
        let declaration = self.declaration(name, sets)?;
        declaration.declare(&self.store, self.rule).map(drop)
    }

    fn declaration<'n>(
        &self,
        name: &str,
        sets: impl IntoIterator<Item = &'n str>,
    ) -> Result<RelationDeclaration> {
        if self.rule == Some(OnDelete::Cascade) {
            return Err(Error::parameter(
                "no record of links belongs to another, so a delete does not cascade: use OnDelete::Detach",
            ));
        }
        let side = |set| {
            let mut side = Side::new(set, &self.bin.name).declared("links", "");
            side.to = None;
            side
        };
        let sides = sets.into_iter().map(side).collect();
        let mut declaration = RelationDeclaration::new(name, RelationKind::Links, sides);
        declaration.reciprocal = self.reciprocal.clone();
        declaration.details = self
            .reciprocal
            .iter()
            .map(|(tag, back)| format!("{tag}, back as {back}").into())
            .collect();
        Ok(declaration)
    }

    fn ensure_declared(&self, change: &LinkChange<'_>) -> Result<()> {
        self.ensure_sets([
            Some(&*change.from.set),
            change.back.map(|_| &*change.to.set),
        ])
    }

    fn ensure_sets(&self, written: [Option<&str>; 2]) -> Result<()> {
        let mut sets = self.sets.lock();
        for set in written.into_iter().flatten() {
            if !sets.iter().any(|known| **known == *set) {
                sets.push(set.into());
                self.declared.forget();
            }
        }
        self.declared.ensure(&self.store, |store| {
            let known = store.relation_guard().declarations();
            let missing = sets.iter().map(|set| &**set).filter(|set| {
                let declares = |known: &RelationDeclaration| self.is_declared_by(known, set);
                !known.iter().any(declares)
            });
            let missing: Vec<&str> = missing.collect();
            if missing.is_empty() {
                return Ok(None);
            }
            let name = format!("links in {}", self.bin.name);
            let declaration = self.declaration(&name, missing)?;
            declaration.declare_itself(store, self.rule)
        })
    }

    /// Whether a declaration has the links of a set, with their links back and the rule.
    fn is_declared_by(&self, known: &RelationDeclaration, set: &str) -> bool {
        known.kind == RelationKind::Links
            && self.rule.is_none_or(|rule| rule == known.on_delete)
            && self
                .reciprocal
                .iter()
                .all(|pair| known.reciprocal.contains(pair))
            && known
                .sides
                .iter()
                .any(|side| *side.set == *set && side.bin.as_deref() == Some(&*self.bin.name))
    }

    /// Deletes a record with its links and the links back, or refuses; other relations of the record have their own rules. Returns
    /// whether it was deleted; false: there was none, or `observe` has stopped it. The same call goes on with the rest.
    ///
    /// # Errors
    /// [`Error::HasEdges`] for [`OnDelete::Restrict`] while there are links, and where another relation restricts it;
    /// [`Error::Parameter`] for [`OnDelete::Cascade`], and in a store that does not guard relations; else as for [`Links::unlink`].
    pub fn delete_with_edges(
        &self,
        record: &Address,
        on_delete: OnDelete,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.ensure_sets([Some(&record.set), None])?;
        let Some(guard) = self.store.relation_guard()? else {
            return Err(Error::parameter(
                "the store does not guard relations: remove the links one by one",
            ));
        };
        let known = guard.declarations();
        let name = known
            .iter()
            .find(|known| self.is_declared_by(known, &record.set));
        let mut deletion = Deletion::new(&guard);
        if let Some(known) = name {
            deletion = deletion.by_rule(&known.name, on_delete);
        }
        deletion.run((&record.set, &record.key), &mut observe)
    }

    fn change<'a>(&'a self, from: &'a Address, tag: &'a str, to: &'a Address) -> LinkChange<'a> {
        self.bin.change(from, tag, to, self.back_of(tag))
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
    /// A change of a link. `back`: the tag of its link back.
    fn change<'a>(
        &'a self,
        from: &'a Address,
        tag: &'a str,
        to: &'a Address,
        back: Option<&'a str>,
    ) -> LinkChange<'a> {
        LinkChange {
            bin: self,
            from,
            tag,
            to,
            // A link from a record to itself may be its own link back.
            back: back.filter(|back| from != to || *back != tag),
        }
    }

    /// The links of one set as a side of a relation.
    fn side(&self, of: &Address) -> Side {
        let mut side = Side::new(&of.set, &self.name);
        side.shard_policy = self.shard_policy;
        side.attempts = self.attempts.clone();
        side.owner_must_exist = self.ends_must_exist;
        side
    }

    fn list<S: RecordStore>(&self, store: &S, of: &Address) -> Result<ShardedList<S::Records>> {
        self.side(of).list(store, &of.key)
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

/// What all links of a tag are greater than: a list is greater than its beginning.
fn first_of(tag: &str) -> Value {
    Value::from(vec![Value::String(tag.to_owned())])
}

/// The bound that all links of a tag are below, and links of the next tag are not.
fn behind(tag: &str) -> Value {
    Value::from(vec![Value::String(format!("{tag}\0"))])
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
        if bin.ends_must_exist {
            for end in [from, to] {
                let exists = check_exists(store, &end.set, &end.key);
                bin.named(end, exists)?;
            }
        }
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
