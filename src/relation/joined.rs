//! `Joined`: records with fields of the records that they refer to, stored with them and kept
//! current.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::declared::forget_relation;
use super::reference_path::{ReferencePath, bin_in_record};
use super::updater::{Derived, UpdateProgress, UpdateState, Updater, is_of_record};
use super::writes::replacing;
use crate::changes::{Change, ChangeKind};
use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use crate::expressions::{bin_exists, not};
use crate::query::{IndexComponent, IndexDefinition, IndexType, Query};
use crate::record::{BinName, Record, SHARD_OF};
use crate::value::Map;
use crate::{
    Bins, Digest, Error, Expiration, Key, Lsn, MapOrder, Namespace, Result, Set, Transaction,
    TransactionSet, Value, WritePolicy,
};

/// The bin of a view record with the digests of all records that it is made of.
const SOURCES: &str = "sources";

/// A *view*: for each record of a set a record of another set, which has some of its bins and
/// fields of the records that it refers to. Lists with names of users in them, say, are read and
/// queried without a look at the users, and secondary indexes can be of these names.
///
/// Document: RavenDB, *Reference by ID* (`LoadDocument` in an index, stored fields). An [`Updater`]
/// follows the changes of all sets concerned and writes the view a moment later, as RavenDB does
/// its index; the records themselves are not touched, and writers of them pay for the kept change
/// alone. How late the view is can be seen ([`Joined::progress`]) and waited for
/// ([`Joined::wait_until`]).
///
/// | call | record operations |
/// |---|---|
/// | a write to a record | 1 write, and later: 1 query, 2 reads, 1 batch a join, 1 write of the view |
/// | a write to a record that `n` others refer to | 1 write, and later `n` times that, 1 query for 512 of them |
/// | reading the view, [`Joined::view`] | 1 operation, 1 batch or 1 query |
///
/// A view record is written in one transaction with the reads of its sources, so it never shows a
/// version that is older than what it showed before, and all that it shows was there at one moment.
/// A reference to a record that is not there gives no field. Records need stored keys.
///
/// Choose [`Includes`](super::Includes) where a page is read with its references at once and
/// nothing orders or filters by them; [`Propagate`](super::Propagate) where the record itself is to
/// have the fields.
///
/// It needs the changes and the transactions of an embedded [`Namespace`]: on a cluster use
/// [`Includes`](super::Includes).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::Joined;
/// use spikelet::{Store, bins};
///
/// let store = Store::in_memory()?;
/// let (users, items) = (store.set("users")?, store.set("items")?);
/// users.put("users/1-A", bins! { "name" => "H. Simpson" })?;
/// items.put(1, bins! { "title" => "Malfunction", "assignee" => "users/1-A" })?;
///
/// let list = Joined::new(&store.namespace("test")?, "item_list", "items")
///     .keep(["title"])
///     .join("assignee", ("users", "name"), "assignee_name")?;
/// let mut updater = list.updater()?;
/// updater.catch_up()?;
/// let name = || Ok::<_, spikelet::Error>(list.view()?.get(1)?.and_then(|record| record.get("assignee_name")));
/// assert_eq!(name()?, Some("H. Simpson".into()));
///
/// users.put("users/1-A", bins! { "name" => "Homer" })?;
/// updater.catch_up()?; // or updater.start()?, and list.wait_until(..)
/// assert_eq!(name()?, Some("Homer".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Joined {
    namespace: Namespace,
    view: Box<str>,
    set: Box<str>,
    keep: Vec<Box<str>>,
    joins: Vec<Join>,
    state: Arc<UpdateState>,
}

/// A field of the records that a path leads to.
#[derive(Clone, Debug)]
struct Join {
    text: Box<str>,
    path: ReferencePath,
    set: Box<str>,
    field: Box<str>,
    bin: Box<str>,
}

impl Joined {
    /// Returns the view of a set, kept in the set `view`, which is also its name and that of its
    /// subscription. Reads and writes nothing.
    #[must_use]
    pub fn new(namespace: &Namespace, view: &str, set: &str) -> Self {
        Self {
            namespace: namespace.clone(),
            view: view.into(),
            set: set.into(),
            keep: Vec::new(),
            joins: Vec::new(),
            state: Arc::default(),
        }
    }

    /// Shows these bins of the records in the view, too.
    #[must_use]
    pub fn keep<'b>(mut self, bins: impl IntoIterator<Item = &'b str>) -> Self {
        self.keep.extend(bins.into_iter().map(Into::into));
        self
    }

    /// Shows a field of the records that a path leads to as a bin of the view. `path`: as for
    /// [`Includes::path`](super::Includes::path); `field`: a set, and a bin of its records. Where
    /// the path leads to several records, the bin has a map from their keys to the fields.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a path that cannot be read, or a bin that the view has already;
    /// [`Error::BinName`].
    pub fn join(mut self, path: &str, field: (&str, &str), bin: &str) -> Result<Self> {
        self.joins.push(Join {
            text: path.into(),
            path: ReferencePath::parse(path)?,
            set: field.0.into(),
            field: field.1.into(),
            bin: bin.into(),
        });
        self.check_bins()?;
        Ok(self)
    }

    /// Returns the set of the view, to be read and queried, and to have indexes: its records have
    /// the keys of the records that they are made from.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is not allowed.
    pub fn view(&self) -> Result<Set> {
        self.namespace.set(&self.view)
    }

    /// Returns the updater that keeps the view current. Declares the view, its index of sources,
    /// and a durable subscription. Where the view is new, or declared differently than before, all
    /// records are looked at first.
    ///
    /// # Errors
    /// [`Error::Forbidden`] while there is another updater of the view; [`Error::Parameter`] for a
    /// name that another relation has, for a subscription of this name that is not the view's, for
    /// a set of the view that holds other records, and for a bin that the view would have twice;
    /// the errors of [`Set::create_index`] and of a write.
    pub fn updater(&self) -> Result<Updater> {
        self.check_bins()?;
        self.check_view_is_own()?;
        self.view()?.create_index(self.index())?;
        Updater::new(&self.namespace, self.clone(), &self.state)
    }

    /// Returns how far the updater has come that this handle, or a clone of it, has returned.
    #[must_use]
    pub fn progress(&self) -> UpdateProgress {
        self.state.progress()
    }

    /// Waits until the view shows all that was written up to a log sequence number, as a write
    /// returns it and [`Namespace::last_lsn`]. A thread has to run the updater of this handle, or
    /// of a clone. One sync, if that write is not durable yet.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Forbidden`] if the updater has ended before; the errors of a
    /// sync.
    pub fn wait_until(&self, lsn: Lsn, timeout: Duration) -> Result<()> {
        self.namespace.wait_durable(lsn)?;
        self.state.wait_until(lsn, timeout)
    }

    /// Removes the view: its records, index, subscription and declaration. Returns how many records
    /// it had. The changes of the sets are still kept for others
    /// ([`Changes::disable`](crate::changes::Changes::disable)).
    ///
    /// Stop the updater first: it would write on.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the set of the view holds other records; the errors of a write.
    pub fn remove(&self) -> Result<u64> {
        self.check_view_is_own()?;
        self.namespace.changes().unsubscribe(&self.view)?;
        forget_relation(&self.namespace, &self.view)?;
        let view = self.view()?;
        let index = self.index();
        if self.namespace.check_index(&self.view, &index).is_ok() {
            view.drop_index(index.name())?;
        }
        view.truncate(None)
    }

    fn index(&self) -> IndexDefinition {
        let component = IndexComponent::bin(SOURCES).elements();
        let name = format!("{}_{SOURCES}", self.view);
        IndexDefinition::new(&name, [component.of_type(IndexType::Blob)])
    }

    fn check_bins(&self) -> Result<()> {
        let mut known = BTreeSet::from([SOURCES]);
        let bins = self
            .keep
            .iter()
            .chain(self.joins.iter().map(|join| &join.bin));
        for bin in bins {
            BinName::new(bin)?;
            if !known.insert(bin) {
                return Err(Error::parameter(format!(
                    "view {:?} would have two bins {bin:?}: give the joined field another name, and keep each bin once; \
                     {SOURCES:?} is the view's own",
                    self.view
                )));
            }
        }
        Ok(())
    }

    /// Refuses a set with records that no view has written: they would be deleted as records of
    /// items that are gone.
    fn check_view_is_own(&self) -> Result<()> {
        let mut foreign = self.sources().contains(&self.view);
        if !foreign && !self.declaration().is_declared(&self.namespace)? {
            let not_of_a_view = self.view()?.filtered(not(bin_exists(SOURCES)))?;
            foreign = !not_of_a_view.query_all().limit(1).keys()?.is_empty();
        }
        if foreign {
            Err(Error::parameter(format!(
                "set {:?} holds records that are not of view {:?}: give the view a set of its own",
                self.view, self.view
            )))
        } else {
            Ok(())
        }
    }

    /// Derives the view record of a key anew. Returns whether it was written.
    fn refresh(&self, key: &Key<'_>) -> Result<bool> {
        let namespace = &self.namespace;
        let derived = namespace.transaction(|transaction| self.derive(transaction, key));
        if derived.as_ref().is_err_and(is_of_record) {
            // In a transaction of its own: the other may have been refused at its commit.
            let followed = namespace.transaction(|transaction| self.follow(transaction, key));
            if let Err(error) = followed
                && !is_of_record(&error)
            {
                return Err(error);
            }
        }
        derived
    }

    fn derive(&self, transaction: &Transaction<'_>, key: &Key<'_>) -> Result<bool> {
        let view = transaction.set(&self.view)?;
        let shown = shown_in(&view, key)?;
        let Some(record) = self.item(transaction, key)? else {
            return view.delete(key);
        };
        let mut sources = self.sources_of_item(key);
        let bins = self.bins_of(transaction, &record, &mut sources)?;
        if let Some(shown) = &shown
            && shown.view().to_bins().is_ok_and(|shown| shown == bins)
        {
            return Ok(false);
        }
        view.put_with(&replacing().expiration(Expiration::Never), key, bins)?;
        Ok(true)
    }

    /// Has the view record of an item that cannot be shown stay as it is, until one of the sources
    /// changes that it refers to now; of a new item it has these sources alone.
    fn follow(&self, transaction: &Transaction<'_>, key: &Key<'_>) -> Result<()> {
        let view = transaction.set(&self.view)?;
        let Some(record) = self.item(transaction, key)? else {
            return Ok(());
        };
        let mut sources = self.sources_of_item(key);
        if let Err(error) = self.bins_of(transaction, &record, &mut sources)
            && !is_of_record(&error)
        {
            return Err(error);
        }
        let all = Value::List(sources.iter().map(blob_of).collect::<Vec<_>>().into());
        let (is_followed, policy) = match shown_in(&view, key)? {
            Some(shown) => {
                let is_followed = shown.get(SOURCES).as_ref() == Some(&all);
                (is_followed, WritePolicy::default())
            }
            // The item is a source by itself.
            None => (sources.len() <= 1, replacing()),
        };
        if !is_followed {
            view.put_with(&policy.expiration(Expiration::Never), key, [(SOURCES, all)])?;
        }
        Ok(())
    }

    /// The item of a view record. Companions of sharded collections are no items.
    fn item(&self, transaction: &Transaction<'_>, key: &Key<'_>) -> Result<Option<Record>> {
        let found = transaction.set(&self.set)?.get(key)?;
        Ok(found.filter(|record| record.get(SHARD_OF).is_none()))
    }

    fn sources_of_item(&self, key: &Key<'_>) -> BTreeSet<Digest> {
        BTreeSet::from([self.digest(&self.set, key)])
    }

    fn bins_of(
        &self,
        transaction: &Transaction<'_>,
        record: &Record,
        sources: &mut BTreeSet<Digest>,
    ) -> Result<Bins> {
        let mut bins = Bins::new();
        for bin in &self.keep {
            if let Some(value) = bin_in_record(record, bin)? {
                bins.set(bin, value)?;
            }
        }
        let mut read: BTreeMap<(&str, Key<'static>), Option<Record>> = BTreeMap::new();
        for join in &self.joins {
            let mut keys = BTreeSet::new();
            join.path.collect(record, &mut keys)?;
            let is_new = |key: &&Key<'static>| !read.contains_key(&(&*join.set, (*key).clone()));
            let new: Vec<Key<'static>> = keys.iter().filter(is_new).cloned().collect();
            let found = transaction.set(&join.set)?.get_batch(&new);
            for (key, found) in new.into_iter().zip(found) {
                // A missing record, too: once it is put, this view is derived again.
                sources.insert(self.digest(&join.set, &key));
                read.insert((&join.set, key), found?);
            }
            let mut fields = Vec::with_capacity(keys.len());
            for key in keys {
                let element = super::keys::element_of(&key);
                let found = read.get(&(&*join.set, key)).and_then(Option::as_ref);
                let Some(found) = found else { continue };
                if let Some(value) = bin_in_record(found, &join.field)? {
                    fields.push((element, value));
                }
            }
            if !join.path.is_single() {
                bins.set(
                    &join.bin,
                    Value::Map(Map::new(fields, MapOrder::KeyOrdered)),
                )?;
            } else if let Some((_, value)) = fields.pop() {
                bins.set(&join.bin, value)?;
            }
        }
        bins.set(SOURCES, sources.iter().map(blob_of).collect::<Vec<_>>())?;
        Ok(bins)
    }

    fn digest(&self, set: &str, key: &Key<'_>) -> Digest {
        self.namespace.key_hash().digest(set, key)
    }

    /// Derives the view records anew that a query finds, but for the ones that were derived since
    /// the changes in hand were made.
    fn refresh_found(
        &self,
        query: &Query,
        done: &BTreeSet<Key<'static>>,
        state: &UpdateState,
    ) -> Result<()> {
        state.each_found(query, |key| {
            if done.contains(key) {
                return Ok(());
            }
            state.note_record(key, self.refresh(key))
        })
    }
}

/// The view record of a key. A damaged one is made anew, as one that is missing.
fn shown_in(view: &TransactionSet<'_>, key: &Key<'_>) -> Result<Option<Record>> {
    match view.get(key) {
        Err(error) if error.is_damage() => Ok(None),
        shown => shown,
    }
}

/// A source, as view records have it.
fn blob_of(source: &Digest) -> Value {
    Value::Blob(source.as_bytes().to_vec())
}

impl Derived for Joined {
    fn build(&self, state: &UpdateState) -> Result<()> {
        let none = BTreeSet::new();
        self.refresh_found(&self.namespace.set(&self.set)?.query_all(), &none, state)?;
        // View records of sources that are gone.
        self.refresh_found(&self.view()?.query_all(), &none, state)
    }

    fn apply(&self, changes: &[Change], state: &UpdateState) -> Result<()> {
        let is_truncation = |change: &Change| matches!(change.kind, ChangeKind::Truncate { .. });
        let is_of_all = |change: &Change| is_truncation(change) && change.set.is_none();
        if changes.iter().any(is_of_all) {
            // The view may have lost records of items that stay.
            self.build(state)?;
        } else if changes.iter().any(is_truncation) {
            self.refresh_found(&self.view()?.query_all(), &BTreeSet::new(), state)?;
        }
        let mut written = BTreeSet::new();
        let mut sources = BTreeSet::new();
        for change in changes.iter().filter(|change| !is_truncation(change)) {
            sources.insert(change.digest);
            if change.set.as_deref() == Some(&*self.set) {
                match &change.key {
                    Some(key) => drop(written.insert(key.clone())),
                    None if change.kind == ChangeKind::Put => state.note_keyless(),
                    // The view record is found by the digest.
                    None => {}
                }
            }
        }
        for key in &written {
            state.note_record(key, self.refresh(key))?;
        }
        let (view, index) = (self.view()?, self.index());
        self.namespace.check_index(&self.view, &index)?;
        // Each item is a source of its own view record. Its sources were read after all of these
        // changes; a later change of a source comes by itself.
        for digest in sources {
            let of_digest = blob_of(&digest);
            self.refresh_found(&view.query(index.name())?.eq(of_digest), &written, state)?;
        }
        Ok(())
    }

    fn declaration(&self) -> RelationDeclaration {
        let mut view = DeclaredSide::new("view", (&self.view, ""), SideForm::View, &self.set);
        view.bin = None;
        let mut sides = vec![view];
        for join in &self.joins {
            let at = (&*self.set, &*join.text);
            sides.push(DeclaredSide::new(
                "references",
                at,
                SideForm::Reference,
                &join.set,
            ));
        }
        let joins = self.joins.iter().map(|join| {
            format!(
                "{} of {} through {} as {}",
                join.field, join.set, join.text, join.bin
            )
        });
        let kept = self.keep.iter().map(|bin| format!("{bin} of {}", self.set));
        let mut declaration = RelationDeclaration::new(&self.view, RelationKind::Joined, sides);
        declaration.details = kept.chain(joins).map(Into::into).collect();
        declaration
    }

    fn sources(&self) -> Vec<Box<str>> {
        let mut sets = vec![self.set.clone()];
        sets.extend(self.joins.iter().map(|join| join.set.clone()));
        sets.sort();
        sets.dedup();
        sets
    }
}
