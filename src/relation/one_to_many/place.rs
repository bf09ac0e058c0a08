//! Reads and writes of children in one layout.

use std::collections::BTreeSet;

use super::layout::Layout;
use crate::base64;
use crate::engine::ShardAccess;
use crate::engine::declaration::{DeclaredSide, SideForm};
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, not};
use crate::policy::RecordExistsAction;
use crate::record::Record;
use crate::relation::edge_remover::Deletion;
use crate::relation::keys::{
    REMOVED, check_index, element_of, is_removed, key_of, pages_of_index, read_one,
};
use crate::relation::listed::ListedRecords;
use crate::relation::side::{OwnedEdges, RelationSide};
use crate::relation::within::{Within, within};
use crate::relation::writes::{delete_member, names, puts, replacing};
use crate::{
    Bins, Error, Expiration, IndexQuery, IndexRange, IndexedRecordSet, Key, Operation, RecordSet,
    RecordStore, Result, Value, WritePolicy, operations,
};

/// The children of a relation, where one layout has them.
#[derive(Clone, Debug)]
pub(super) struct ChildPlace {
    pub(super) layout: Layout,
    /// The children that are records, and the collection in their parent; that of a reference is
    /// never asked for.
    pub(super) listed: ListedRecords,
    /// The bin in which the other layout of a move names the parent.
    pub(super) hidden: Option<Box<str>>,
}

/// A page of children, and where the next one begins.
pub(super) type FoundChildren = (Vec<(Key<'static>, Bins)>, Option<String>);

impl ChildPlace {
    /// Returns the place of children in a layout; `listed` has another one's, or none yet.
    pub(super) fn new(layout: Layout, mut listed: ListedRecords) -> Self {
        listed.side.bin = layout.parent_bin().unwrap_or_default().into();
        listed.side.has_attributes = matches!(layout, Layout::Consolidated { .. });
        Self {
            layout,
            listed,
            hidden: None,
        }
    }

    pub(super) const fn side(&self) -> &RelationSide {
        &self.listed.side
    }

    /// The set of the children.
    pub(super) const fn children(&self) -> &str {
        &self.listed.set
    }

    /// Whether a put asks for the parent, which it does not write itself, or not at once.
    pub(super) const fn checks_parent(&self) -> bool {
        self.side().owner_must_exist && !self.layout.is_key_list()
    }

    /// The declared places of references.
    pub(super) fn declared(&self) -> Vec<DeclaredSide> {
        let (parents, children) = (&*self.side().set, self.children());
        let named =
            |bin: &str| DeclaredSide::new("parents", (children, bin), SideForm::Reference, parents);
        match (&self.layout, &self.listed.owner_bin) {
            (Layout::Reference { bin, index }, _) => vec![DeclaredSide {
                index: Some(index.clone()),
                ..named(bin)
            }],
            (Layout::KeyList { .. }, Some(inverse)) => {
                vec![self.side().declared("children", children), named(inverse)]
            }
            _ => vec![self.side().declared("children", children)],
        }
    }

    /// The layout, as a declaration has it.
    pub(super) fn in_words(&self) -> Box<str> {
        format!("layout {}", self.layout.kind()).into()
    }

    /// The bin in which a child names its parent.
    pub(super) fn parent_bin_of_child(&self) -> Option<&str> {
        match &self.layout {
            Layout::Reference { bin, .. } => Some(bin),
            Layout::KeyList { .. } => self.listed.owner_bin.as_deref(),
            Layout::Consolidated { .. } => None,
        }
    }

    /// The bins of a child with its parent's key, as they are stored.
    pub(super) fn stored(&self, parent: &Key<'_>, bins: &Bins) -> Result<Bins> {
        let mut bins = bins.clone();
        if let Some(bin) = self.parent_bin_of_child() {
            if bins.get(bin).is_some() {
                return Err(Error::parameter(format!(
                    "field {bin:?} of a child: the relation keeps the key of its parent there, use another name"
                )));
            }
            bins.set(bin, element_of(parent))?;
        }
        Ok(bins)
    }

    /// The bins of a child as its writer gave them.
    fn own_bins(&self, record: Record) -> Result<Bins> {
        let mut bins = record.into_bins()?;
        for bin in [self.parent_bin_of_child(), self.hidden.as_deref()]
            .into_iter()
            .flatten()
        {
            bins.remove(bin);
        }
        Ok(bins)
    }
}

impl<S: RecordStore> Within<'_, ChildPlace, S> {
    pub(super) fn records(&self) -> Result<S::Records> {
        self.store.records(self.children())
    }

    /// The collection of a parent.
    pub(super) fn edges<'o>(&'o self, parent: &'o Key<'o>) -> OwnedEdges<'o, S> {
        self.side().at(self.store, parent)
    }

    pub(super) fn listed(&self) -> Within<'_, ListedRecords, S> {
        within(&self.part.listed, self.store)
    }

    pub(super) fn put(&self, parent: &Key<'_>, child: &Key<'_>, bins: &Bins) -> Result<()> {
        let stored = self.stored(parent, bins)?;
        match &self.layout {
            Layout::KeyList { .. } => {
                self.listed().put(parent, child, &stored)?;
            }
            Layout::Consolidated { .. } => {
                self.edges(parent).add(child, &bins.to_map())?;
            }
            Layout::Reference { .. } => {
                let records = self.records()?;
                records.operate_on(&replacing(), child, &puts(&stored))?;
            }
        }
        Ok(())
    }

    /// Refuses to move a child that has edges, which would go with its record, to the place of
    /// another layout where it has none.
    ///
    /// # Errors
    /// [`Error::HasEdges`]; the errors of reads.
    pub(super) fn check_alone(&self, to: &ChildPlace, child: &Key<'_>) -> Result<()> {
        if !self.layout.has_child_records() || to.layout.has_child_records() {
            return Ok(());
        }
        match self.store.relation_guard()? {
            Some(guard) => Deletion::new(&guard).check_alone((self.children(), child)),
            None => Ok(()),
        }
    }

    /// Moves a child from here to the place of another layout. It is there twice for a moment,
    /// never nowhere: what dies in between is repeated. Returns whether there was one.
    pub(super) fn move_to(
        &self,
        to: &ChildPlace,
        parent: &Key<'_>,
        child: &Key<'_>,
    ) -> Result<bool> {
        let new = within(to, self.store);
        let Some(bins) = self.get(parent, child)? else {
            // A key without a record.
            if self.layout.is_key_list() {
                self.edges(parent).remove(child)?;
            }
            return Ok(false);
        };
        let makes_record = to.layout.has_child_records();
        if makes_record && self.layout.has_child_records() {
            // Without the parent's key, its last bin, the record would be deleted.
            if bins.is_empty() && to.parent_bin_of_child().is_none() {
                return Err(Error::parameter(format!(
                    "child {child} of parent {parent}: it has no bins but the key of its parent, which {} drops: put it with a field, or remove it",
                    to.in_words()
                )));
            }
            if to.layout.is_key_list() {
                new.edges(parent).add(child, &Value::Nil)?;
            }
            if let Some(bin) = to.parent_bin_of_child() {
                // A child that names a parent there keeps the one that its last writer gave it.
                let only = Some(not(bin_exists(bin)));
                let is_named =
                    new.name_parent(child, operations::put(bin, element_of(parent)), only)?;
                if !is_named && to.layout.is_key_list() {
                    new.listed().follow_record(parent, child, true)?;
                }
            }
            return self.leave([Some(parent), None], child, to).map(|()| true);
        }
        self.check_alone(to, child)?;
        // A version that is there already was written since: it is newer.
        if new.get(parent, child)?.is_none() {
            let taken = |record: Record| !is_removed(&record);
            if makes_record
                && read_one(&new.records()?, child, Some(&[REMOVED]))?.is_some_and(taken)
            {
                return Err(Error::parameter(format!(
                    "child {child} of parent {parent}: set {:?} has a record of this key, which the child would take the place of: put it under another key, and remove this one",
                    to.children()
                )));
            }
            new.put(parent, child, &bins)?;
        }
        self.remove(parent, child)?;
        Ok(true)
    }

    /// Whether a child that another layout of a move has is in this one, too.
    pub(super) fn has_besides(
        &self,
        other: &ChildPlace,
        parent: &Key<'_>,
        child: &Key<'_>,
    ) -> Result<bool> {
        if self.layout.parent_bin().is_some() {
            return Ok(self.edges(parent).get(child)?.is_some());
        }
        let names_alike = self.parent_bin_of_child() == other.parent_bin_of_child();
        Ok(!names_alike && self.get(parent, child)?.is_some())
    }

    /// Takes a child that is kept as a record in `current` now off the lists of these parents, and
    /// the parent's key out of it where this layout has that in a bin of its own.
    pub(super) fn leave(
        &self,
        parents: [Option<&Key<'_>>; 2],
        child: &Key<'_>,
        current: &ChildPlace,
    ) -> Result<()> {
        if self.layout.is_key_list() {
            for parent in parents.into_iter().flatten() {
                self.edges(parent).remove(child)?;
            }
        }
        let now = current.parent_bin_of_child();
        if let Some(bin) = self.parent_bin_of_child().filter(|bin| Some(*bin) != now) {
            self.name_parent(child, operations::put(bin, Value::Nil), None)?;
        }
        Ok(())
    }

    /// Changes the bin in which a child names its parent; others, and its time to live, stay.
    /// Returns false if there is no child, or the condition does not hold.
    pub(super) fn name_parent(
        &self,
        child: &Key<'_>,
        name: Operation,
        mut only: Option<Expression>,
    ) -> Result<bool> {
        let records = self.records()?;
        let mut keep = WritePolicy::default()
            .record_exists_action(RecordExistsAction::UpdateOnly)
            .expiration(Expiration::DontUpdate)
            .with_access(ShardAccess::Related);
        if records.may_bring_back(&keep) {
            // A child that was closed to be deleted is still a record, and must not be written to
            // again.
            let is_there = not(bin_exists(REMOVED));
            only = Some(only.map_or(is_there.clone(), |only| and([only, is_there])));
        }
        keep = keep.filter(only);
        match records.operate_on(&keep, child, &[name]) {
            Err(Error::NotFound { .. } | Error::FilteredOut { .. }) => Ok(false),
            written => written.map(|_| true),
        }
    }

    pub(super) fn get(&self, parent: &Key<'_>, child: &Key<'_>) -> Result<Option<Bins>> {
        if let Layout::Consolidated { .. } = self.layout {
            let found = self.edges(parent).get(child)?;
            return found.map(Bins::of_map).transpose();
        }
        let records = self.records()?;
        let Some(record) = read_one(&records, child, None)? else {
            return Ok(None);
        };
        let named = self.parent_bin_of_child().and_then(|bin| record.get(bin));
        let is_child = match named {
            Some(named) => named == element_of(parent),
            // It names none, and is listed: it was put before children named their parents, or past
            // the relation.
            None => {
                self.layout.is_key_list()
                    && self.listed.is_listed_by(&record, parent)
                    && self.edges(parent).get(child)?.is_some()
            }
        };
        is_child.then(|| self.own_bins(record)).transpose()
    }

    pub(super) fn remove(&self, parent: &Key<'_>, child: &Key<'_>) -> Result<bool> {
        match &self.layout {
            Layout::KeyList { .. } => match self.edges(parent).get(child)? {
                Some(_) => self.listed().remove(parent, child),
                None => Ok(false),
            },
            Layout::Consolidated { .. } => self.edges(parent).remove(child),
            Layout::Reference { bin, .. } => {
                let records = self.records()?;
                let policy = WritePolicy::default().filter(names(bin, parent));
                delete_member(&records, &policy, child, Some(bin))
            }
        }
    }

    fn page_of_collection(
        &self,
        parent: &Key<'_>,
        token: Option<&str>,
        limit: usize,
    ) -> Result<FoundChildren> {
        let after = token.map(key_of_token).transpose()?;
        let edges = (self.edges(parent)).page_after(after.as_ref(), limit as u64)?;
        let is_full = edges.len() >= limit;
        let last = edges.last().filter(|_| is_full);
        let token = last.map(|(key, _)| token_of(key));
        let children = if let Layout::Consolidated { .. } = self.layout {
            let child = |(key, bins): (Key<'static>, Value)| Ok((key, Bins::of_map(bins)?));
            edges.into_iter().map(child).collect::<Result<_>>()?
        } else {
            let records = self.listed().read(parent, edges)?;
            let child = |(key, record)| Ok((key, self.own_bins(record)?));
            records.into_iter().map(child).collect::<Result<_>>()?
        };
        Ok((children, token))
    }

    /// Returns the keys of all parents that have children here. Memory for their keys, one scan.
    pub(super) fn all_parents(&self) -> Result<Vec<Key<'static>>> {
        let Layout::Reference { bin, .. } = &self.layout else {
            return self.side().owners(self.store);
        };
        let mut parents = BTreeSet::new();
        self.each_named(bin, |parent, _| {
            parents.insert(parent);
        })?;
        Ok(parents.into_iter().collect())
    }

    /// Shows each child that names a parent in this bin to `each`, behind the parent's key. One
    /// scan.
    ///
    /// # Errors
    /// The errors of a scan; [`Error::Parameter`], after it, for a value that is not a key.
    pub(super) fn each_named(
        &self,
        bin: &str,
        mut each: impl FnMut(Key<'static>, &Record),
    ) -> Result<()> {
        let mut failed = None;
        self.records()?
            .scan_records(&mut |child| match child.get(bin).map(key_of) {
                Some(Ok(parent)) => each(parent, child),
                Some(Err(error)) => failed = Some(error),
                None => {}
            })?;
        failed.map_or(Ok(()), Err)
    }
}

impl<S: RecordStore<Records: IndexedRecordSet>> Within<'_, ChildPlace, S> {
    /// Returns a page of the children of a parent. A token is the last key of the page before, or
    /// the cursor of an index.
    pub(super) fn page(
        &self,
        parent: &Key<'_>,
        token: Option<&str>,
        limit: usize,
    ) -> Result<FoundChildren> {
        let Layout::Reference { bin, index } = &self.layout else {
            return self.page_of_collection(parent, token, limit);
        };
        let (records, named) = (self.records()?, Some(element_of(parent)));
        self.check_index()?;
        let page = records.query_keys(&IndexQuery {
            index,
            equal: &[element_of(parent)],
            range: IndexRange::Any,
            limit,
            after: token,
        })?;
        let found = records.read_each(&page.keys, None);
        let mut children = Vec::with_capacity(found.len());
        for (key, record) in page.keys.into_iter().zip(found) {
            // It may have another parent by now, or by this transaction.
            if let Some(record) = record?.filter(|record| record.get(bin) == named) {
                children.push((key, self.own_bins(record)?));
            }
        }
        Ok((children, page.cursor))
    }

    /// Returns how many children a parent has.
    pub(super) fn count(&self, parent: &Key<'_>) -> Result<u64> {
        let Layout::Reference { index, .. } = &self.layout else {
            return self.edges(parent).len();
        };
        let (records, parent) = (self.records()?, element_of(parent));
        self.check_index()?;
        let pages = pages_of_index(&records, index, &parent, 1024);
        pages.map(|page| Ok(page?.len() as u64)).sum()
    }

    /// Refuses another index that has the name of the layout's.
    fn check_index(&self) -> Result<()> {
        let index = self.layout.index();
        index.map_or(Ok(()), |index| {
            check_index(self.store, self.children(), &index)
        })
    }
}

fn token_of(key: &Key<'_>) -> String {
    let mut stored = Vec::new();
    key.write_stored(&mut stored);
    base64::encode(&stored)
}

fn key_of_token(token: &str) -> Result<Key<'static>> {
    let bytes = base64::decode(token.as_bytes());
    let key = bytes.and_then(|bytes| Key::from_stored(&bytes).ok().map(Key::into_owned));
    key.ok_or_else(|| {
        Error::parameter(format!(
            "{token:?} is no token of a page: give back what the page before had"
        ))
    })
}
