//! `Links`: tagged references from record to record, and walks along them.

mod audit;
mod replace;
mod walk;

use super::address::{Address, TaggedLink, element, link_of};
use super::audit::RelationProgress;
use super::declared::{Declared, ensured};
use super::edge_remover::Deletion;
use super::ends::{EdgeEnd, EdgeEnds};
use super::side::RelationSide;
use crate::engine::declaration::{OnDelete, RelationDeclaration, RelationKind};
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::together::Added;
use crate::operations::lists;
use crate::record::Record;
use crate::setters::setters;
use crate::shard::ShardPolicy;
use crate::{Error, Key, ListReturnType, Operation, RecordSet, RecordStore, Result, Value};
pub use walk::{LinkWalk, WalkStep};

/// Tagged links between records of any sets: each record that has some holds them in one bin,
/// ordered by tag, set and key.
///
/// Document: Riak, *Relationships* (links, link walking, reciprocal links). There is no limit of
/// 995 links: a record with many of them is sharded ([`ShardPolicy`]).
///
/// | call | record operations, as long as the links are not sharded |
/// |---|---|
/// | [`link`](Self::link), [`unlink`](Self::unlink) | 1 write, 2 with a reciprocal tag |
/// | [`set`](Self::set) | 1 read, and as `link` and `unlink` for each link that is added or removed |
/// | [`contains`](Self::contains), [`page`](Self::page) | 1 read |
/// | [`walk`](Self::walk) | 1 batch a step for each set of its records |
/// | [`fetch`](Self::fetch) | 1 batch a set |
///
/// Choose [`ManyToMany`](super::ManyToMany) where both ends and their sets are fixed: it has pages,
/// attributes and audits for either end.
///
/// On a [`Store`](crate::Store) a link and its reciprocal are written in one transaction. Elsewhere
/// the link is written before its reciprocal, and removed after it: what dies in between leaves a
/// link without its reciprocal, and repeating the call completes it, or [`Links::verify`].
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
    declared: Declared,
    written: Arc<Mutex<WrittenSets>>,
}

/// The sets in which a handle has written links.
#[derive(Clone, Debug, Default)]
struct WrittenSets {
    sets: Vec<Box<str>>,
    /// The declarations of links in these sets that have links back.
    reciprocal: Vec<RelationDeclaration>,
}

/// The bin of links: a side of a relation without its set.
#[derive(Clone, Debug)]
struct LinkBin(RelationSide);

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
            declared: self.declared.clone(),
            written: Arc::new(Mutex::new(self.written.lock().clone())),
        }
    }

    /// Returns the links that records of a store have in this bin. Reads and writes nothing.
    pub fn new(store: S, bin: &str) -> Self {
        Self {
            store,
            bin: LinkBin(RelationSide::new("", bin)),
            reciprocal: Vec::new(),
            records_max: RECORDS_MAX,
            declared: Declared::default(),
            written: Arc::default(),
        }
    }

    /// Declares that a link of this tag has a link back, with the other tag; and the other way
    /// round. A handle with two tags for the links back of one writes nothing
    /// ([`Error::Parameter`]).
    #[must_use]
    pub fn reciprocal(mut self, tag: &str, back: &str) -> Self {
        self.reciprocal.push((tag.into(), back.into()));
        if tag != back {
            self.reciprocal.push((back.into(), tag.into()));
        }
        self
    }

    setters! { in
        /// Sets when the links of a record are sharded. Without this call, [`ShardPolicy::default`]
        /// decides.
        shard_policy(policy: ShardPolicy) => bin.0.shard_policy = policy,
        /// Sets how many records a walk may come to in all its steps, which bounds its memory.
        /// Default: 100,000.
        records_max(records: usize) => records_max = records,
        /// Sets the fate of the links of a record that is deleted, by any call:
        /// [`OnDelete::Restrict`], as long as no handle has declared another rule, or
        /// [`OnDelete::Detach`]. Links that lead to the record and have no reciprocal are not found
        /// by a delete: [`Links::verify`] removes them.
        on_delete(rule: OnDelete) => declared.rule = Some(rule),
        /// Refuses links from and to records that do not exist, with [`Error::NotFound`]. Without
        /// this call, `link` creates records.
        ends_must_exist() => bin.0.owner_must_exist = true,
    }

    /// Adds a link, and the link back where that is declared. Returns whether the link is new.
    ///
    /// # Errors
    /// [`Error::Relation`], which names set and bin, around the refusals of a write;
    /// [`Error::Parameter`] for a tag with a declared link back that this handle does not name by
    /// [`Links::reciprocal`].
    pub fn link(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        self.with_ends(from, tag, to, |ends, records| {
            ends.link(&self.store, records)
        })
    }

    /// Calls `write` with both ends of a link, and the sets of their records.
    fn with_ends(
        &self,
        from: &Address,
        tag: &str,
        to: &Address,
        write: impl FnOnce(EdgeEnds<'_>, [&S::Records; 2]) -> Result<bool>,
    ) -> Result<bool> {
        let (at_from, at_to) = (self.store.records(&from.set)?, self.store.records(&to.set)?);
        let sides = [self.bin.side(&from.set), self.bin.side(&to.set)];
        let write = || {
            let ends = ends(&sides, (from, tag, to), self.back_of(tag));
            write(ends, [&at_from, &at_to])
        };
        ensured(|| self.ensure_declared(from, tag, to), write)
    }

    /// Removes a link, and the link back where that is declared. Returns whether the link was
    /// there.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn unlink(&self, from: &Address, tag: &str, to: &Address) -> Result<bool> {
        self.with_ends(from, tag, to, |ends, records| {
            ends.unlink(&self.store, records)
        })
    }

    /// Declares the links of these sets in the store, under this name: the store keeps their bin,
    /// and deletes records as [`Links::on_delete`] says. The first link of a handle from a set does
    /// so by itself, as `links in` the bin; this call also changes the rule that was declared
    /// before under the name, and adds to its sets and tags. One read, and one write if they are
    /// new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name or this bin, for another bin or
    /// another link back of a tag than declared before, and for [`OnDelete::Cascade`], since no
    /// record belongs to another; the errors of a write.
    pub fn declare<'n>(&self, name: &str, sets: impl IntoIterator<Item = &'n str>) -> Result<()> {
        self.check_tags()?;
        self.declared
            .declare(&self.store, &self.declaration(name, sets))
    }

    /// Refuses two tags for the links back of one: a link of the other tag would lose its link back
    /// with the first.
    fn check_tags(&self) -> Result<()> {
        for (tag, back) in &self.reciprocal {
            if let Some(other) = self.back_of(tag).filter(|other| *other != &**back) {
                return Err(Error::parameter(format!(
                    "links {tag:?} would have links {other:?} and links {back:?} back: give each pair of reciprocal two tags of its own"
                )));
            }
        }
        Ok(())
    }

    fn declaration<'n>(
        &self,
        name: &str,
        sets: impl IntoIterator<Item = &'n str>,
    ) -> RelationDeclaration {
        let side = |set| {
            let mut side = self.bin.side(set).declared("links", "");
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
        declaration
    }

    fn ensure_declared(&self, from: &Address, tag: &str, to: &Address) -> Result<()> {
        self.ensure_sets([Some(&*from.set), self.back_of(tag).map(|_| &*to.set)])?;
        for known in &self.written.lock().reciprocal {
            let mut pairs = known.reciprocal.iter();
            if let Some((_, back)) = pairs.find(|(known, _)| **known == *tag)
                && self.back_of(tag) != Some(back)
            {
                // Without the link back, a delete of the record that the link leads to would not
                // find it.
                return Err(known.other_reciprocal(tag, back));
            }
        }
        Ok(())
    }

    fn ensure_sets(&self, written: [Option<&str>; 2]) -> Result<()> {
        self.check_tags()?;
        let mut written_sets = self.written.lock();
        let WrittenSets { sets, reciprocal } = &mut *written_sets;
        for set in written.into_iter().flatten() {
            if !sets.iter().any(|known| **known == *set) {
                sets.push(set.into());
                // A declaration that was found before is one without this set.
                self.declared.forget();
            }
        }
        self.declared.ensure(&self.store, |store| {
            let known = store.relation_guard().declarations();
            let of_sets = known.iter().filter(|known| {
                let is_here = sets.iter().any(|set| self.is_bin_of(known, set));
                is_here && !known.reciprocal.is_empty()
            });
            *reciprocal = of_sets.cloned().collect();
            let missing = sets.iter().map(|set| &**set).filter(|set| {
                let declares = |known: &RelationDeclaration| self.is_declared_by(known, set);
                !known.iter().any(declares)
            });
            let missing: Vec<&str> = missing.collect();
            if missing.is_empty() {
                return Ok(None);
            }
            let name = format!("links in {}", self.bin.0.bin);
            let declaration = self.declaration(&name, missing);
            let declared = declaration.declare(store, self.declared.rule, false);
            declared.map(Some)
        })
    }

    /// Whether a declaration has the links of a set, with their links back and the rule.
    fn is_declared_by(&self, known: &RelationDeclaration, set: &str) -> bool {
        self.declared
            .rule
            .is_none_or(|rule| rule == known.on_delete)
            && self
                .reciprocal
                .iter()
                .all(|pair| known.reciprocal.contains(pair))
            && self.is_bin_of(known, set)
    }

    /// Whether a declaration has the links of a set in this bin.
    fn is_bin_of(&self, known: &RelationDeclaration, set: &str) -> bool {
        known.has_links(set, &self.bin.0.bin)
    }

    /// Deletes a record with its links and the links back, or refuses. The rule replaces that of
    /// all declarations of these links; other relations of the record have their own rules. Returns
    /// whether it was deleted; false: there was none, or `observe` has stopped it. The same call
    /// goes on with the rest.
    ///
    /// # Errors
    /// [`Error::HasEdges`] for [`OnDelete::Restrict`] while there are links, and where another
    /// relation restricts it; [`Error::Parameter`] for [`OnDelete::Cascade`], and in a store that
    /// does not guard relations; else as for [`Links::unlink`].
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
        let mut deletion = Deletion::new(&guard);
        // These links may be declared by several names.
        for known in known
            .iter()
            .filter(|known| self.is_bin_of(known, &record.set))
        {
            known.check_rule(Some(on_delete))?;
            deletion = deletion.by_rule(&known.name, on_delete);
        }
        deletion.run((&record.set, &record.key), &mut observe)
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
        let side = self.bin.side(&from.set);
        let found = side
            .at(&self.store, &from.key)
            .get_element(&element(tag, to));
        Ok(self.bin.named(from, found)?.is_some())
    }

    /// Returns at most `limit` links of a record, with this tag (`None`: any), behind the link
    /// `after`. One read.
    ///
    /// # Errors
    /// As for [`Links::link`]; [`Error::Parameter`] for an element that is not a link.
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

    /// Returns the records of these addresses, in their order; `None` where there is none. One
    /// batch a set.
    ///
    /// # Errors
    /// As for [`Links::link`].
    pub fn fetch(&self, addresses: &[Address]) -> Result<Vec<Option<Record>>> {
        self.read(addresses, None)
    }

    /// Reads the wanted bins of records (`None`: all).
    fn read(&self, addresses: &[Address], bins: Option<&[&str]>) -> Result<Vec<Option<Record>>> {
        let mut found = vec![None; addresses.len()];
        for (set, at) in walk::by_set(addresses) {
            let keys: Vec<Key<'_>> = at
                .iter()
                .filter_map(|at| addresses.get(*at))
                .map(|address| (&address.key).into())
                .collect();
            let records = self.store.records(set)?.read_each(&keys, bins);
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
    fn side(&self, set: &str) -> RelationSide {
        RelationSide {
            set: set.into(),
            ..self.0.clone()
        }
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
        let list = self.side(&from.set).at(store, &from.key).list()?;
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
            None => lists::get_by_index_range_count(&self.0.bin, 0, limit, ListReturnType::Values),
            Some(tag) => {
                let (begin, end) = (Some(first_of(tag)), Some(behind(tag)));
                lists::get_by_value_range(&self.0.bin, begin, end, ListReturnType::Values)
            }
        }
    }

    fn named<T>(&self, of: &Address, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.in_relation("links", self.side(&of.set)))
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

/// Returns both ends of a link. `back`: the tag of its link back.
fn ends<'a>(
    [one, other]: &'a [RelationSide; 2],
    (from, tag, to): (&'a Address, &'a str, &'a Address),
    back: Option<&'a str>,
) -> EdgeEnds<'a> {
    let end = |side, at: &'a Address, tag, to| EdgeEnd {
        side,
        owner: &at.key,
        element: Added::Link { tag, to },
    };
    // A link from a record to itself may be its own link back.
    let back = back.filter(|back| from != to || *back != tag);
    EdgeEnds {
        relation: "links",
        ends: [
            end(one, from, tag, to),
            end(other, to, back.unwrap_or_default(), from),
        ],
        is_mutual: back.is_some(),
        attributes: &Value::Nil,
    }
}
