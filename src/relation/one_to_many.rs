//! `OneToMany`: children that belong to one parent, in one of three layouts.

mod audit;
mod bulk;
mod declare;
mod delete;
mod layout;
mod place;
mod set_parent;

use std::ops::ControlFlow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::audit::RelationProgress;
use super::declared::{Declared, ensured};
use super::keys::{key_of, read_one};
use super::listed::ListedRecords;
use super::side::{RelationSide, check_exists};
use super::within::{Within, within};
use super::writes::check_owned;
use crate::engine::declaration::OnDelete;
use crate::record::{from_bins, to_bins};
use crate::setters::setters;
use crate::shard::ShardPolicy;
use crate::{Bins, Error, IndexedRecordSet, Key, RecordStore, Result};
pub use layout::{
    CONSOLIDATED_BYTES_MAX, KEY_LIST_CHILDREN_MAX, Layout, LayoutAdvice, LayoutKind, suggest_layout,
};
use place::ChildPlace;

/// How many children are moved, removed or looked at before the next page is read.
const CHILDREN_AT_ONCE: usize = 512;

/// A relation of parents to children that belong to one parent each, in a [`Layout`] that can be
/// changed while it is used.
///
/// Documents: Aerospike, *1:N relationships* (patterns 1, 2 and 3, mixed access); Riak,
/// *De-normalization / Composition*; RavenDB, *Embedded collection* and *Reference by ID*.
///
/// | call | key list | consolidated | reference with an index |
/// |---|---|---|---|
/// | [`put`](Self::put) | 2 writes | 1 write | 1 write |
/// | [`get`](Self::get) | 1 read, 2 without the parent's bin | 1 read | 1 read |
/// | [`remove`](Self::remove) | 1 read, 2 writes | 1 write | 1 write |
/// | [`page`](Self::page) | 1 read, 1 batch | 1 read | 1 query, 1 batch |
/// | [`parent_of`](Self::parent_of) | 1 read, if declared | not there | 1 read |
///
/// [`suggest_layout`] says which suits. Choose [`ManyToMany`](super::ManyToMany) where a child has
/// several parents.
///
/// On a [`Store`](crate::Store) the writes of a call are one transaction, and two while children
/// are moved. Elsewhere a key list is written before the child, and after it when the child is
/// removed, so what dies in between leaves a key without a record: [`OneToMany::page`] passes over
/// it, and [`OneToMany::verify`] removes it. The other layouts write one record.
///
/// On a cluster a reference is found by the servers' own secondary indexes, one of integers and one
/// of texts up to 2,048 bytes: the page of a parent is refused there if its key is bytes, and empty
/// if it is a longer text.
///
/// Keys of children are unique in the set of children, except where children are consolidated:
/// there, in their parent.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use serde::{Deserialize, Serialize};
/// use spikelet::relation::{Layout, OneToMany};
///
/// #[derive(Serialize, Deserialize)]
/// struct Comment { user: String, message: String }
///
/// let store = spikelet::Store::in_memory()?;
/// let layout = Layout::consolidated("comments");
/// let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout)?;
/// comments.put("post 1", 1, &Comment { user: "homer".into(), message: "Doh!".into() })?;
/// let page = comments.page("post 1", None, 10)?;
/// assert_eq!(page.children[0].decode::<Comment>()?.user, "homer");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OneToMany<S> {
    store: S,
    name: Box<str>,
    current: ChildPlace,
    /// The layout that children are being moved from.
    former: Option<ChildPlace>,
    declared: Declared,
}

/// A child.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The key of the child.
    pub key: Key<'static>,
    /// The bins of the child.
    pub bins: Bins,
}

impl Child {
    /// Decodes it as a struct with the bins as fields.
    ///
    /// # Errors
    /// [`Error::Serde`] if the bins do not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        from_bins(&self.bins)
    }
}

/// Children of a parent, and where the next page begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildPage {
    /// The children: in the order of their keys; with an index in the order of digests, on a
    /// cluster in no particular order.
    pub children: Vec<Child>,
    /// The token that [`OneToMany::page`] takes for the next page; `None`: this is the last one.
    pub next: Option<String>,
}

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Returns a relation between the sets of parents and of children in this layout. Declares the
    /// index of a reference.
    ///
    /// # Errors
    /// As for [`IndexedRecordSet::ensure_index`]; [`Error::Parameter`] for a set that is not
    /// allowed.
    pub fn new(store: S, name: &str, sets: (&str, &str), layout: Layout) -> Result<Self> {
        let listed = ListedRecords {
            side: RelationSide::new(sets.0, ""),
            set: sets.1.into(),
            is_asked: false,
            owner_bin: None,
        };
        let current = ChildPlace::new(layout, listed);
        let relation = Self {
            store,
            name: name.into(),
            current,
            former: None,
            declared: Declared::default(),
        };
        relation.ensure_index(&relation.current)?;
        Ok(relation)
    }

    /// Returns the same relation in another store, such as a transaction. The index of a reference
    /// must be there.
    pub fn within<T: RecordStore<Records: IndexedRecordSet>>(&self, store: T) -> OneToMany<T> {
        OneToMany {
            store,
            name: self.name.clone(),
            current: self.current.clone(),
            former: self.former.clone(),
            declared: self.declared.clone(),
        }
    }

    /// Writes the parent's key into this bin of children that are records, so that
    /// [`OneToMany::parent_of`] finds it.
    #[must_use]
    pub fn with_parent_bin(self, bin: &str) -> Self {
        self.with_each(|listed| {
            listed.owner_bin = Some(bin.into());
            listed.is_asked = true;
        })
    }

    /// Refuses to put children to a parent that does not exist, with [`Error::NotFound`]. Without
    /// this call, a list of the parent is created with its record.
    #[must_use]
    pub fn ends_must_exist(self) -> Self {
        self.with_each(|listed| listed.side.owner_must_exist = true)
    }

    /// Sets when the lists of parents are sharded. Without this call, [`ShardPolicy::default`]
    /// decides.
    #[must_use]
    pub fn shard_policy(self, policy: ShardPolicy) -> Self {
        self.with_each(|listed| listed.side.shard_policy = policy)
    }

    setters! { in
        /// Sets the fate of the children when their parent is deleted, by any call:
        /// [`OnDelete::Restrict`], as long as no handle has declared another rule, or
        /// [`OnDelete::Cascade`]. A child that is deleted is taken off its parent's list under any
        /// rule, where it names its parent ([`OneToMany::with_parent_bin`]).
        on_delete(rule: OnDelete) => declared.rule = Some(rule),
    }

    /// Sets something of both layouts of a move.
    fn with_each(mut self, set: impl Fn(&mut ListedRecords)) -> Self {
        set(&mut self.current.listed);
        if let Some(former) = &mut self.former {
            set(&mut former.listed);
            former.hidden = self.current.parent_bin_of_child().map(Into::into);
            self.current.hidden = former.parent_bin_of_child().map(Into::into);
        }
        self
    }

    /// Says that some children may still be in this layout. All calls look in both, and writes go
    /// to the new one; every process has to say so before one of them calls
    /// [`OneToMany::move_children`].
    ///
    /// # Errors
    /// [`Error::Parameter`] if both have the same bin in the parent, or are the same; the errors of
    /// declaring the index of a reference.
    pub fn moving_from(mut self, layout: Layout) -> Result<Self> {
        let same_bin = layout.parent_bin().is_some()
            && layout.parent_bin() == self.current.layout.parent_bin();
        if same_bin || layout == self.current.layout {
            return Err(Error::parameter(format!(
                "relation {:?}: both layouts use the same bin; children move between two bins, or between the parent and their own records",
                self.name
            )));
        }
        let former = ChildPlace::new(layout, self.current.listed.clone());
        self.ensure_index(&former)?;
        self.former = Some(former);
        Ok(self.with_each(|_| {}))
    }

    /// The children that one of the layouts has.
    const fn children<'p>(&'p self, place: &'p ChildPlace) -> Within<'p, ChildPlace, S> {
        within(place, &self.store)
    }

    fn ensure_index(&self, place: &ChildPlace) -> Result<()> {
        let Some(index) = place.layout.index() else {
            return Ok(());
        };
        let records = self.store.records(place.children())?;
        self.named(place, records.ensure_index(index))
    }

    /// Returns the layout by reference if its index finds all children of a move, moved or not:
    /// both layouts name the parent in one bin.
    fn has_all(&self) -> Option<&ChildPlace> {
        let (former, current) = (self.former.as_ref()?, &self.current);
        let is_one_bin = former.parent_bin_of_child() == current.parent_bin_of_child();
        let is_reference = |place: &&ChildPlace| place.layout.parent_bin().is_none();
        [former, current]
            .into_iter()
            .find(is_reference)
            .filter(|_| is_one_bin)
    }

    /// The layouts in which each child is found once, but for one that moves meanwhile.
    fn places_read(&self) -> impl Iterator<Item = &ChildPlace> {
        let has_all = self.has_all();
        let others = self.places().filter(move |_| has_all.is_none());
        has_all.into_iter().chain(others)
    }

    /// The layouts in the order in which they are read: a child that moves meanwhile is seen in one
    /// of them at least.
    fn places(&self) -> impl Iterator<Item = &ChildPlace> {
        self.former.iter().chain([&self.current])
    }

    /// Writes a child of a parent in place of an earlier version. A child that names its parent
    /// leaves the one that it had; of a key list without [`OneToMany::with_parent_bin`], remove it
    /// from the first parent before.
    ///
    /// # Errors
    /// [`Error::Relation`] around the errors of a write, around [`Error::Parameter`] for a field of
    /// the name of the bin in which the child has its parent's key, and around
    /// [`Error::HasEdges`] for a child with edges that this moves into its parent; [`Error::Serde`]
    /// for a type other than a struct.
    pub fn put<'p, 'c, T: Serialize + ?Sized>(
        &self,
        parent: impl Into<Key<'p>>,
        child: impl Into<Key<'c>>,
        value: &T,
    ) -> Result<()> {
        self.put_bins(&parent.into(), &child.into(), &to_bins(value)?)
    }

    fn put_bins(&self, parent: &Key<'_>, child: &Key<'_>, bins: &Bins) -> Result<()> {
        ensured(
            || self.ensure_declared(),
            || self.put_declared(parent, child, bins),
        )
    }

    fn put_declared(&self, parent: &Key<'_>, child: &Key<'_>, bins: &Bins) -> Result<()> {
        let (place, former) = (&self.current, self.former.as_ref());
        self.check_bins(bins)?;
        // Before the put: where both layouts name the parent in one bin, the record names the new
        // one afterwards.
        let other = former.map(|former| {
            let other = self.children(former).listed().other_owner(parent, child);
            self.named(former, other)
        });
        let other = other.transpose()?.flatten();
        if let Some(former) = former {
            let (of, children) = (self.children(former), place.layout.has_child_records());
            // Another parent's child, or a record that is no child, is left alone.
            let is_moved = !children && self.named(former, of.get(parent, child))?.is_some();
            if is_moved {
                self.named(former, of.check_alone(place, child))?;
            }
        }
        let put = if place.checks_parent() {
            self.store.atomically(|store| {
                check_exists(store, &place.side().set, parent)?;
                within(place, store).put(parent, child, bins)
            })
        } else {
            self.children(place).put(parent, child, bins)
        };
        self.named(place, put)?;
        let Some(former) = former else {
            return Ok(());
        };
        let removed = if former.layout.has_child_records() && place.layout.has_child_records() {
            // The record was written anew: lists can still have its key, and the record the
            // parent's.
            (self.children(former)).leave([Some(parent), other.as_ref()], child, place)
        } else {
            self.children(former).remove(parent, child).map(drop)
        };
        self.named(former, removed)
    }

    /// Refuses bins of a child that belong to another relation.
    fn check_bins(&self, bins: &Bins) -> Result<()> {
        let place = &self.current;
        if !place.layout.has_child_records() {
            return Ok(());
        }
        let checked = check_owned(&self.store, (&self.name, place.children()), bins);
        self.named(place, checked)
    }

    /// Returns a child of a parent; `None` if there is no such child.
    ///
    /// # Errors
    /// [`Error::Relation`] around the errors of a read; [`Error::Serde`] if it does not fit the
    /// type.
    pub fn get<'p, 'c, T: DeserializeOwned>(
        &self,
        parent: impl Into<Key<'p>>,
        child: impl Into<Key<'c>>,
    ) -> Result<Option<T>> {
        let (parent, child) = (parent.into(), child.into());
        // The new place first: the version there is newer. The old one, and the new one again,
        // where a child moves meanwhile.
        let order = [Some(&self.current), self.former.as_ref()];
        let again = self.former.as_ref().map(|_| &self.current);
        for place in order.into_iter().chain([again]).flatten() {
            if let Some(bins) = self.named(place, self.children(place).get(&parent, &child))? {
                return from_bins(&bins).map(Some);
            }
        }
        Ok(None)
    }

    /// Removes a child. Returns whether it was there.
    ///
    /// # Errors
    /// As for [`OneToMany::put`].
    pub fn remove<'p, 'c>(
        &self,
        parent: impl Into<Key<'p>>,
        child: impl Into<Key<'c>>,
    ) -> Result<bool> {
        self.ensure_declared()?;
        let (parent, child) = (parent.into(), child.into());
        let mut removed = false;
        for place in self.places() {
            // The former place first: a move that comes in between has put the child where the next
            // look is.
            removed |= self.named(place, self.children(place).remove(&parent, &child))?;
        }
        Ok(removed)
    }

    /// Returns at most `limit` children of a parent, behind the page that gave `token` (`None`: the
    /// first ones). While children are moved, one may be there twice.
    ///
    /// # Errors
    /// As for [`OneToMany::get`]; [`Error::Parameter`] for a token of something else.
    pub fn page<'p>(
        &self,
        parent: impl Into<Key<'p>>,
        token: Option<&str>,
        limit: usize,
    ) -> Result<ChildPage> {
        let parent = parent.into();
        let former = self.former.as_ref();
        let mut places = self.places_read();
        let (place, token) = match token.map(|token| token.split_at_checked(1)) {
            None => (places.next(), None),
            Some(Some(("f", rest))) => (former, former.map(|_| rest)),
            Some(Some(("c", rest))) => (None, Some(rest).filter(|rest| !rest.is_empty())),
            Some(_) => {
                let token = token.unwrap_or_default();
                return Err(Error::parameter(format!("{token:?} is no token of a page")));
            }
        };
        let place = place.unwrap_or(&self.current);
        let is_former = former.is_some_and(|former| std::ptr::eq(former, place));
        let (mut children, next) =
            self.named(place, self.children(place).page(&parent, token, limit))?;
        let next = match next {
            Some(next) if is_former => Some(format!("f{next}")),
            Some(next) => Some(format!("c{next}")),
            // An index that finds all children of the move has shown the moved ones, too.
            None if is_former && self.has_all().is_none() => {
                match limit.saturating_sub(children.len()) {
                    0 => Some("c".to_owned()),
                    // An empty page would look like the last.
                    room => {
                        let moved = self.children(&self.current).page(&parent, None, room);
                        let (moved, next) = self.named(&self.current, moved)?;
                        children.extend(moved);
                        next.map(|next| format!("c{next}"))
                    }
                }
            }
            None => None,
        };
        let children = children.into_iter().map(|(key, bins)| Child { key, bins });
        Ok(ChildPage {
            children: children.collect(),
            next,
        })
    }

    /// Returns how many children a parent has: one read, or one query for 1,024 of them by an
    /// index. While children are moved, the costs of both layouts.
    ///
    /// # Errors
    /// As for [`OneToMany::get`].
    pub fn len<'p>(&self, parent: impl Into<Key<'p>>) -> Result<u64> {
        let parent = parent.into();
        let count = |place| self.named(place, self.children(place).count(&parent));
        self.places_read().map(count).sum()
    }

    /// Returns the parent of a child, from the child's own record; `None` if there is no such
    /// child, or it names none.
    ///
    /// # Errors
    /// [`Error::Parameter`] where children do not name their parents: declare it by
    /// [`OneToMany::with_parent_bin`].
    pub fn parent_of<'c>(&self, child: impl Into<Key<'c>>) -> Result<Option<Key<'static>>> {
        // A child that was moved, or put since, names it where the current layout does.
        let places = [Some(&self.current), self.former.as_ref()];
        let bins = places.into_iter().flatten();
        let bins: Vec<&str> = bins.filter_map(ChildPlace::parent_bin_of_child).collect();
        if bins.is_empty() {
            return Err(Error::parameter(format!(
                "children of relation {:?} do not name their parents: declare it by OneToMany::with_parent_bin, or keep them by reference",
                self.name
            )));
        }
        let records = self.store.records(self.current.children())?;
        let child = read_one(&records, &child.into(), Some(&bins))?;
        child
            .and_then(|child| bins.iter().find_map(|bin| child.get(bin)))
            .map(key_of)
            .transpose()
    }

    /// Moves the children that are in the former layout ([`OneToMany::moving_from`]) to the present
    /// one, each by itself, while others read and write. Returns whether all were moved; false:
    /// `observe` has stopped it. After a stop, an error or the end of the process the same call
    /// goes on.
    ///
    /// On a store without transactions, a write to a child in the moment of its move may be lost,
    /// and a child that is removed in that moment may stay: let writers pause there.
    ///
    /// # Errors
    /// [`Error::Relation`] around what a read or a write may fail with, and around
    /// [`Error::HasEdges`] for a child that is to move into its parent, and whose record has edges
    /// by which others would be deleted, or lose theirs. [`Error::Parameter`] in a transaction: that
    /// the children were moved is declared outside of it.
    pub fn move_children(
        &self,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        let Some(former) = &self.former else {
            return Ok(true);
        };
        if self.store.is_transaction() {
            return Err(Error::parameter(format!(
                "relation {:?}: children are not moved within a transaction, which may be rolled back: call move_children outside of it",
                self.name
            )));
        }
        self.ensure_declared()?;
        let parents = self.named(former, self.children(former).all_parents())?;
        let mut progress = RelationProgress {
            records_total: Some(parents.len() as u64),
            ..RelationProgress::default()
        };
        for parent in &parents {
            let moved = self.each_child(former, parent, |child| {
                progress.edges += u64::from(self.move_child(former, parent, &child)?);
                Ok(observe(progress))
            });
            if self.named(former, moved)?.is_break() {
                return Ok(false);
            }
            progress.records += 1;
        }
        // Only after the last one: this lets in handles that do not look in the former place.
        self.declare_moved(former).map(|()| true)
    }

    /// Calls `each` with the keys of the children that a parent has in a layout, until it breaks
    /// off.
    fn each_child(
        &self,
        place: &ChildPlace,
        parent: &Key<'_>,
        mut each: impl FnMut(Key<'static>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let mut token: Option<String> = None;
        loop {
            let page = self
                .children(place)
                .page(parent, token.as_deref(), CHILDREN_AT_ONCE);
            let (children, next) = page?;
            for (child, _) in children {
                if each(child)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if next.is_none() {
                return Ok(ControlFlow::Continue(()));
            }
            // A key, or a cursor of the index: children that `each` takes away do not shift it.
            token = next;
        }
    }

    fn move_child(&self, from: &ChildPlace, parent: &Key<'_>, child: &Key<'_>) -> Result<bool> {
        (self.store).atomically(|store| within(from, store).move_to(&self.current, parent, child))
    }

    /// Looks at how many children parents have and what they take, and returns the layout that
    /// suits them. One scan of the parents' set, and one of the children's, as far as these have
    /// records; memory for a count a parent.
    ///
    /// # Errors
    /// As for [`OneToMany::get`].
    pub fn suggest(&self) -> Result<LayoutAdvice> {
        let declaration = self.declaration(None);
        let children = declaration.sides.iter().take(1);
        let stats: Result<Vec<_>> = children.map(|side| side.stats(&self.store, None)).collect();
        let advice = stats.and_then(|stats| declaration.advice(&self.store, &stats));
        self.named(&self.current, advice)
    }

    fn named<T>(&self, place: &ChildPlace, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let side = format!("{} of set \"{}\"", place.layout.kind(), place.side().set);
            error.in_relation(&self.name, side)
        })
    }
}
