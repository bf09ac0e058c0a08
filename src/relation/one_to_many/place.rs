//! Reads and writes of children in one layout.

use std::collections::BTreeSet;

use super::layout::Layout;
use crate::base64;
use crate::engine::declaration::{DeclaredSide, SideForm};
use crate::error::if_there;
use crate::record::{Record, converted};
use crate::relation::keys::{element_of, key_of, pages_of_index, read_one};
use crate::relation::listed::ListedRecords;
use crate::relation::side::{RelationSide, check_exists};
use crate::relation::writes::{delete_member, names, puts, replacing};
use crate::{
    Bins, Error, Expiration, IndexQuery, IndexRange, IndexedRecordSet, Key, RecordSet, RecordStore,
    Result, Value, WritePolicy, operations,
};

/// The children of a relation, where one layout has them.
#[derive(Clone, Debug)]
pub(super) struct ChildPlace {
    pub(super) layout: Layout,
    /// The children that are records, and the collection in their parent; that of a reference is never asked for.
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

    pub(super) fn put<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
        bins: &Bins,
    ) -> Result<()> {
        let stored = self.stored(parent, bins)?;
        match &self.layout {
            Layout::KeyList { .. } => {
                self.listed.put(store, parent, child, &stored)?;
            }
            Layout::Consolidated { .. } => {
                self.side().add(store, parent, child, &converted(bins)?)?;
            }
            Layout::Reference { .. } => {
                let records = store.records(self.children())?;
                records.operate_on(&replacing(), child, &puts(&stored))?;
            }
        }
        Ok(())
    }

    /// Puts a child to a parent that exists.
    pub(super) fn put_to_existing<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
        bins: &Bins,
    ) -> Result<()> {
        check_exists(store, &self.side().set, parent)?;
        self.put(store, parent, child, bins)
    }

    /// Moves a child from here to the place of another layout. It is there twice for a moment, never nowhere: what dies in
    /// between is repeated. Returns whether there was one.
    pub(super) fn move_to<S: RecordStore>(
        &self,
        to: &Self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
    ) -> Result<bool> {
        let Some(bins) = self.get(store, parent, child)? else {
            // A key without a record.
            if self.layout.is_key_list() {
                self.side().remove(store, parent, child)?;
            }
            return Ok(false);
        };
        let stays_record = self.layout.has_child_records() && to.layout.has_child_records();
        // A version that is there already was written since: it is newer.
        if stays_record || to.get(store, parent, child)?.is_none() {
            to.put(store, parent, child, &bins)?;
        }
        if !stays_record {
            self.remove(store, parent, child)?;
            return Ok(true);
        }
        self.leave(store, parent, child, to)?;
        Ok(true)
    }

    /// Takes a child that is kept as a record in `current` now off its parent's list, and the parent's key out of it where this
    /// layout has that in a bin of its own.
    pub(super) fn leave<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
        current: &Self,
    ) -> Result<()> {
        if self.layout.parent_bin().is_some() {
            self.side().remove(store, parent, child)?;
        }
        let other = current.parent_bin_of_child();
        let Some(bin) = self.parent_bin_of_child().filter(|bin| Some(*bin) != other) else {
            return Ok(());
        };
        let policy = WritePolicy::default()
            .expiration(Expiration::DontUpdate)
            .of_relation();
        let removal = [operations::put(bin, Value::Nil)];
        let records = store.records(self.children())?;
        if_there(records.operate_on(&policy, child, &removal)).map(drop)
    }

    pub(super) fn get<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
    ) -> Result<Option<Bins>> {
        if let Layout::Consolidated { .. } = self.layout {
            let found = self.side().get(store, parent, child)?;
            return found.as_ref().map(converted).transpose();
        }
        let records = store.records(self.children())?;
        let Some(record) = read_one(&records, child, None)? else {
            return Ok(None);
        };
        let is_child = match self.parent_bin_of_child() {
            Some(bin) => record.get(bin) == Some(element_of(parent)),
            None => {
                self.listed.is_listed_by(&record, parent)
                    && self.side().get(store, parent, child)?.is_some()
            }
        };
        is_child.then(|| self.own_bins(record)).transpose()
    }

    pub(super) fn remove<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        child: &Key<'_>,
    ) -> Result<bool> {
        match &self.layout {
            Layout::KeyList { .. } => match self.side().get(store, parent, child)? {
                Some(_) => self.listed.remove(store, parent, child),
                None => Ok(false),
            },
            Layout::Consolidated { .. } => self.side().remove(store, parent, child),
            Layout::Reference { bin, .. } => {
                let records = store.records(self.children())?;
                let policy = WritePolicy::default().filter(names(bin, parent));
                delete_member(&records, &policy, child, Some(bin))
            }
        }
    }

    /// Returns a page of the children of a parent. A token is the last key of the page before, or the cursor of an index.
    pub(super) fn page<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        parent: &Key<'_>,
        token: Option<&str>,
        limit: usize,
    ) -> Result<FoundChildren> {
        let Layout::Reference { index, .. } = &self.layout else {
            return self.page_of_collection(store, parent, token, limit);
        };
        let records = store.records(self.children())?;
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
            if let Some(record) = record? {
                children.push((key, self.own_bins(record)?));
            }
        }
        Ok((children, page.cursor))
    }

    fn page_of_collection<S: RecordStore>(
        &self,
        store: &S,
        parent: &Key<'_>,
        token: Option<&str>,
        limit: usize,
    ) -> Result<FoundChildren> {
        let after = token.map(key_of_token).transpose()?;
        let edges = self
            .side()
            .page_after(store, parent, after.as_ref(), limit as u64)?;
        let is_full = edges.len() >= limit;
        let last = edges.last().filter(|_| is_full);
        let token = last.map(|(key, _)| token_of(key));
        let children = if let Layout::Consolidated { .. } = self.layout {
            let child = |(key, bins): (Key<'static>, Value)| Ok((key, converted(&bins)?));
            edges.into_iter().map(child).collect::<Result<_>>()?
        } else {
            let records = self.listed.read(store, parent, edges)?;
            let child = |(key, record)| Ok((key, self.own_bins(record)?));
            records.into_iter().map(child).collect::<Result<_>>()?
        };
        Ok((children, token))
    }

    /// Returns how many children a parent has.
    pub(super) fn count<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
        parent: &Key<'_>,
    ) -> Result<u64> {
        let Layout::Reference { index, .. } = &self.layout else {
            return self.side().len(store, parent);
        };
        let (records, parent) = (store.records(self.children())?, element_of(parent));
        let pages = pages_of_index(&records, index, &parent, 1024);
        pages.map(|page| Ok(page?.len() as u64)).sum()
    }

    /// Returns the keys of all parents that have children here. Memory for their keys, one scan.
    pub(super) fn all_parents<S: RecordStore>(&self, store: &S) -> Result<Vec<Key<'static>>> {
        let Layout::Reference { bin, .. } = &self.layout else {
            return self.side().owners(store);
        };
        let mut parents = BTreeSet::new();
        self.each_named(store, bin, |parent, _| {
            parents.insert(parent);
        })?;
        Ok(parents.into_iter().collect())
    }

    /// Shows each child that names a parent in this bin to `each`, behind the parent's key. One scan.
    ///
    /// # Errors
    /// The errors of a scan; [`Error::Parameter`], after it, for a value that is no key.
    pub(super) fn each_named<S: RecordStore>(
        &self,
        store: &S,
        bin: &str,
        mut each: impl FnMut(Key<'static>, &Record),
    ) -> Result<()> {
        let mut failed = None;
        store.records(self.children())?.scan_records(
            &mut |child| match child.get(bin).map(key_of) {
                Some(Ok(parent)) => each(parent, child),
                Some(Err(error)) => failed = Some(error),
                None => {}
            },
        )?;
        failed.map_or(Ok(()), Err)
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
