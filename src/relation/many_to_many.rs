//! `ManyToMany`: edges that both of their ends know.

mod audit;
mod bulk;
mod neighbors;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::audit::RelationProgress;
use super::declared::{Declared, ensured};
use super::ends::{EdgeEnd, EdgeEnds};
use super::keys::BATCH;
use super::record_delete::RecordDelete;
use super::side::{RelationSide, delete_emptied};
use super::side_reader::SideReader;
use super::together::Added;
use crate::engine::declaration::{OnDelete, RelationDeclaration, RelationKind};
use crate::record::converted;
use crate::shard::ShardPolicy;
use crate::{Error, Key, RecordStore, Result, Value, WritePolicy};
use RelationEnd::{Source, Target};
pub use neighbors::Neighbors;

/// A relation of records of one set to records of another or the same one, known at both ends: each
/// source has an ordered collection of its targets' keys, each target one of its sources' keys.
///
/// With [`ManyToMany::with_attributes`] the collections are maps from keys to the attributes of the
/// edge, which both ends have. Either side is sharded by itself when it grows too large
/// ([`ShardPolicy`]): calls stay the same.
///
/// Documents: Aerospike, *N:M relationships* (bidirectional key lists, pagination,
/// shard-on-demand); RavenDB, *array of references* and its dictionary of dates; Riak, *links on
/// both sides*.
///
/// | call | record operations, as long as a side is not sharded |
/// |---|---|
/// | [`link`](Self::link), [`unlink`](Self::unlink) | 2 writes |
/// | [`link_all`](Self::link_all), [`link_together`](Self::link_together) | 1 write for each record of a batch |
/// | [`contains`](Self::contains), [`attributes`](Self::attributes) | 1 read |
/// | [`Neighbors::page`], [`Neighbors::len`] | 1 read |
/// | [`Neighbors::fetch`] | 1 read and 1 batch |
/// | [`Neighbors::common`] | 1 read of each for 512 keys |
///
/// Choose another where the children belong to one parent ([`OneToMany`](super::OneToMany)), or
/// edges have conditions of their own to be queried by ([`Graph`](super::Graph)).
///
/// # When a process dies
///
/// On a [`Store`](crate::Store) and a [`Namespace`](crate::Namespace) both ends are written in one
/// transaction. Elsewhere `link` writes the source, then the target, and `unlink` the target, then
/// the source. So the source decides: a process that dies in between leaves an edge that the source
/// has and the target has not, never the other way round. Repeating the call completes it, and so
/// does [`ManyToMany::verify`]. Two callers who link and unlink the same edge at one time may leave
/// an edge at the target alone, which `verify` removes.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::ManyToMany;
///
/// let store = spikelet::Store::in_memory()?;
/// let follows = ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers"));
/// follows.link("bart", "lisa")?;
/// follows.link("homer", "lisa")?;
/// assert!(!follows.link("bart", "lisa")?);
/// assert!(follows.contains("homer", "lisa")?);
/// assert_eq!(follows.sources("lisa").page(0, 50)?, ["bart".into(), "homer".into()]);
/// # Ok(())
/// # }
/// ```
pub struct ManyToMany<S: RecordStore> {
    store: S,
    edges: EdgeSides,
    /// The sets of the sources and of the targets, opened at the first call and kept: opening one
    /// looks its name up and allocates.
    opened: [OnceLock<S::Records>; 2],
}

impl<S: RecordStore + Clone> Clone for ManyToMany<S> {
    fn clone(&self) -> Self {
        self.within(self.store.clone())
    }
}

/// Shows the store, the name and both sides.
impl<S: RecordStore + fmt::Debug> fmt::Debug for ManyToMany<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManyToMany")
            .field("store", &self.store)
            .field("edges", &self.edges)
            .finish_non_exhaustive()
    }
}

/// Where both ends of the edges are kept.
#[derive(Clone, Debug)]
struct EdgeSides {
    name: Box<str>,
    /// In the sources: keys of targets. In the targets: keys of sources.
    sides: [RelationSide; 2],
    declared: Declared,
}

/// An end of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RelationEnd {
    Source,
    Target,
}

impl RelationEnd {
    const BOTH: [Self; 2] = [Self::Source, Self::Target];

    const fn other(self) -> Self {
        match self {
            Self::Source => Self::Target,
            Self::Target => Self::Source,
        }
    }

    /// Returns the one of a pair that belongs to this end.
    const fn of<T>(self, [source, target]: &[T; 2]) -> &T {
        match self {
            Self::Source => source,
            Self::Target => target,
        }
    }
}

impl<S: RecordStore> ManyToMany<S> {
    /// Returns the relation of this name. `sources`: the set of the sources, and the bin in which
    /// they have the keys of their targets; `targets` likewise. Both may be the same set, with two
    /// bins. Reads and writes nothing.
    pub fn new(store: S, name: &str, sources: (&str, &str), targets: (&str, &str)) -> Self {
        Self {
            store,
            edges: EdgeSides {
                name: name.into(),
                sides: [sources, targets].map(|(set, bin)| RelationSide::new(set, bin)),
                declared: Declared::default(),
            },
            opened: Default::default(),
        }
    }

    /// Gives edges attributes: both sides are maps from keys to them. To be chosen before the first
    /// edge.
    #[must_use]
    pub fn with_attributes(self) -> Self {
        self.with_sides(|side| side.has_attributes = true)
    }

    /// Sets when either side is sharded. Without this call, [`ShardPolicy::default`] decides.
    #[must_use]
    pub fn shard_policy(self, policy: ShardPolicy) -> Self {
        self.with_sides(|side| side.shard_policy = policy)
    }

    /// Sets how both sides are written, as [`ShardedList::new_with`](crate::ShardedList::new_with)
    /// takes it. Default: [`WritePolicy::default`] with a time limit of 5 s,
    /// [`Expiration::DontUpdate`](crate::Expiration::DontUpdate). Where a side is sharded, the
    /// write of both is a transaction, of [`TransactionPolicy::default`](crate::TransactionPolicy).
    #[must_use]
    pub fn write_policy(self, policy: &WritePolicy) -> Self {
        self.with_sides(|side| side.write_policy = policy.clone())
    }

    /// Sets the fate of the edges of a record that is deleted, by any call: [`OnDelete::Restrict`],
    /// as long as no handle has declared another rule, or [`OnDelete::Detach`].
    #[must_use]
    pub fn on_delete(mut self, rule: OnDelete) -> Self {
        self.edges.declared.rule = Some(rule);
        self
    }

    /// Refuses to link records that do not exist, with [`Error::NotFound`]. Without this call,
    /// `link` creates them.
    #[must_use]
    pub fn ends_must_exist(self) -> Self {
        self.with_sides(|side| side.owner_must_exist = true)
    }

    fn with_sides(mut self, set: impl Fn(&mut RelationSide)) -> Self {
        self.edges.sides.iter_mut().for_each(set);
        self
    }

    /// Declares the relation in the store: the store keeps its bins, and deletes records as
    /// [`ManyToMany::on_delete`] says. The first write of a handle does so by itself; this call
    /// also changes an earlier declaration. One read, and one write if it is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, and for [`OnDelete::Cascade`], since
    /// no end belongs to the other; the errors of a write.
    pub fn declare(&self) -> Result<()> {
        let edges = &self.edges;
        edges.declared.declare(&self.store, &edges.declaration())
    }

    fn ensure_declared(&self) -> Result<()> {
        let edges = &self.edges;
        edges
            .declared
            .ensure_as(&self.store, || edges.declaration())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.edges.name
    }

    /// Returns the same relation in another store, such as a transaction: all that is done to it
    /// there is part of it.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// # use spikelet::relation::ManyToMany;
    /// # let store = spikelet::Store::in_memory()?;
    /// # let other = spikelet::Store::in_memory()?;
    /// let friends = ManyToMany::new(&store, "friends", ("users", "friends"), ("users", "friend_of"));
    /// friends.within(&other).link("lisa", "janey")?;
    /// assert!(!friends.contains("lisa", "janey")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn within<T: RecordStore>(&self, store: T) -> ManyToMany<T> {
        ManyToMany {
            store,
            edges: self.edges.clone(),
            opened: Default::default(),
        }
    }

    /// Adds an edge without attributes. Returns whether it is new. Two writes.
    ///
    /// # Errors
    /// [`Error::Relation`], which names the side, around what a write to one record may be refused
    /// for.
    pub fn link<'a, 'b>(
        &self,
        source: impl Into<Key<'a>>,
        target: impl Into<Key<'b>>,
    ) -> Result<bool> {
        self.link_value(&source.into(), &target.into(), Value::Nil)
    }

    /// Adds an edge with attributes, or changes an edge's. Returns whether it is new. Two writes.
    ///
    /// # Errors
    /// As for [`ManyToMany::link`]; [`Error::Parameter`] for a relation without attributes;
    /// [`Error::Serde`].
    pub fn link_with<'a, 'b, A: Serialize + ?Sized>(
        &self,
        source: impl Into<Key<'a>>,
        target: impl Into<Key<'b>>,
        attributes: &A,
    ) -> Result<bool> {
        self.check_attributes()?;
        self.link_value(&source.into(), &target.into(), converted(attributes)?)
    }

    /// Refuses attributes for a relation that has none.
    fn check_attributes(&self) -> Result<()> {
        if self.edges.side(Source).has_attributes {
            return Ok(());
        }
        Err(Error::parameter(format!(
            "relation {:?} has no attributes: declare it by ManyToMany::with_attributes, or use link",
            self.edges.name
        )))
    }

    fn link_value(&self, source: &Key<'_>, target: &Key<'_>, attributes: Value) -> Result<bool> {
        let ends = self.edges.ends(source, target, &attributes);
        ensured(
            || self.ensure_declared(),
            || ends.link(&self.store, self.both_records()?),
        )
    }

    /// Removes an edge. Returns whether it was there. Two writes.
    ///
    /// # Errors
    /// As for [`ManyToMany::link`].
    pub fn unlink<'a, 'b>(
        &self,
        source: impl Into<Key<'a>>,
        target: impl Into<Key<'b>>,
    ) -> Result<bool> {
        self.ensure_declared()?;
        let (source, target) = (&source.into(), &target.into());
        let ends = self.edges.ends(source, target, &Value::Nil);
        ends.unlink(&self.store, self.both_records()?)
    }

    /// Returns the sets of the sources and of the targets.
    fn both_records(&self) -> Result<[&S::Records; 2]> {
        Ok([self.records(Source)?, self.records(Target)?])
    }

    /// Returns whether there is an edge, as the source says. One read, O(log edges).
    ///
    /// # Errors
    /// As for [`ManyToMany::link`].
    pub fn contains<'a, 'b>(
        &self,
        source: impl Into<Key<'a>>,
        target: impl Into<Key<'b>>,
    ) -> Result<bool> {
        let (source, target) = (source.into(), target.into());
        Ok(self.edge(&source, &target)?.is_some())
    }

    /// Returns the attributes of an edge; `None` if there is no such edge. One read.
    ///
    /// # Errors
    /// As for [`ManyToMany::link`]; [`Error::Serde`] if they do not fit the type.
    pub fn attributes<'a, 'b, A: DeserializeOwned>(
        &self,
        source: impl Into<Key<'a>>,
        target: impl Into<Key<'b>>,
    ) -> Result<Option<A>> {
        let (source, target) = (source.into(), target.into());
        let attributes = self.edge(&source, &target)?;
        attributes.as_ref().map(converted).transpose()
    }

    fn edge(&self, source: &Key<'_>, target: &Key<'_>) -> Result<Option<Value>> {
        let found = self
            .reader(Source)
            .and_then(|side| side.get(source, target));
        self.edges.named(Source, found)
    }

    /// Returns a reader of one of the sides.
    fn reader(&self, end: RelationEnd) -> Result<SideReader<'_, S, &S::Records>> {
        Ok(SideReader {
            side: self.edges.side(end),
            store: &self.store,
            records: self.records(end)?,
        })
    }

    /// Returns the set of one of the sides.
    fn records(&self, end: RelationEnd) -> Result<&S::Records> {
        let opened = end.of(&self.opened);
        if let Some(records) = opened.get() {
            return Ok(records);
        }
        let records = self.store.records(&self.edges.side(end).set)?;
        Ok(opened.get_or_init(|| records))
    }

    /// Returns the targets of a record.
    pub fn targets<'k>(&self, source: impl Into<Key<'k>>) -> Neighbors<'_, S> {
        Neighbors::new(self, Source, source.into())
    }

    /// Returns the sources of a record.
    pub fn sources<'k>(&self, target: impl Into<Key<'k>>) -> Neighbors<'_, S> {
        Neighbors::new(self, Target, target.into())
    }

    /// Deletes a source with its edges, or refuses. Where sources and targets are one set, those
    /// edges that lead to it are meant, too. Returns whether it was deleted; false: `observe` has
    /// stopped it between two edges.
    ///
    /// Each edge is removed by itself, both ends together, and the record comes last: after a stop,
    /// an error or the end of the process the same call goes on with the rest. Two writes an edge,
    /// one read for 512 of them, and the delete. An edge that others add meanwhile is removed with
    /// the others, or makes the record anew.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for [`OnDelete::Restrict`] while there are edges; [`Error::Parameter`]
    /// for [`OnDelete::Cascade`]; [`Error::ShardRoot`], within [`Error::Relation`], for a record
    /// with other sharded collections; else as for [`ManyToMany::unlink`].
    pub fn delete_with_edges<'k>(
        &self,
        source: impl Into<Key<'k>>,
        on_delete: OnDelete,
        observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.delete_record((Source, &source.into()), on_delete, observe)
    }

    /// Deletes a target with its edges, or refuses, as [`ManyToMany::delete_with_edges`] does with
    /// a source.
    ///
    /// # Errors
    /// As for [`ManyToMany::delete_with_edges`].
    pub fn delete_target_with_edges<'k>(
        &self,
        target: impl Into<Key<'k>>,
        on_delete: OnDelete,
        observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.delete_record((Target, &target.into()), on_delete, observe)
    }

    fn delete_record(
        &self,
        (end, key): (RelationEnd, &Key<'_>),
        on_delete: OnDelete,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        let edges = &self.edges;
        let set = &*edges.side(end).set;
        let record = RecordDelete {
            declaration: edges.declaration(),
            set,
            key,
            rule: on_delete,
        };
        let mut ends = RelationEnd::BOTH.to_vec();
        ends.retain(|end| *edges.side(*end).set == *set);
        let sides: Vec<&RelationSide> = ends.iter().map(|end| edges.side(*end)).collect();
        record.run(
            &self.store,
            || self.ensure_declared(),
            || self.some_edges(key, &ends),
            |(end, other)| match end {
                Source => self.unlink(key, other),
                Target => self.unlink(other, key),
            },
            || edges.named(end, delete_emptied(&self.store, (set, key), &sides)),
            &mut observe,
        )
    }

    /// Some edges of a record, by the end that the record is and the key at the other one.
    fn some_edges(
        &self,
        key: &Key<'_>,
        ends: &[RelationEnd],
    ) -> Result<Vec<(RelationEnd, Key<'static>)>> {
        for end in ends.iter().copied() {
            let edges = self.edges.side(end).at(&self.store, key);
            let page = self.edges.named(end, edges.page_after(None, BATCH))?;
            if !page.is_empty() {
                return Ok(page.into_iter().map(|(key, _)| (end, key)).collect());
            }
        }
        Ok(Vec::new())
    }
}

impl EdgeSides {
    fn declaration(&self) -> RelationDeclaration {
        let [targets, sources] = &self.sides;
        let sides = [("targets", targets, sources), ("sources", sources, targets)];
        let sides = sides.map(|(role, side, to)| side.declared(role, &to.set));
        RelationDeclaration::new(&self.name, RelationKind::ManyToMany, sides.into())
    }

    /// The side that the records at an end have.
    const fn side(&self, end: RelationEnd) -> &RelationSide {
        end.of(&self.sides)
    }

    /// Both ends of an edge: the source decides whether there is one.
    fn ends<'a>(
        &'a self,
        source: &'a Key<'a>,
        target: &'a Key<'a>,
        attributes: &'a Value,
    ) -> EdgeEnds<'a> {
        let [one, other] = &self.sides;
        let end = |side, owner, to| EdgeEnd {
            side,
            owner,
            element: Added::Key(to),
        };
        EdgeEnds {
            relation: &self.name,
            ends: [end(one, source, target), end(other, target, source)],
            // In a symmetrical relation a record that leads to itself has one end.
            is_mutual: source != target || !one.is_same(other),
            attributes,
        }
    }

    /// A result of a side, with the names of the relation and of the side in an error.
    fn named<T>(&self, end: RelationEnd, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.in_relation(&self.name, self.side(end)))
    }
}
