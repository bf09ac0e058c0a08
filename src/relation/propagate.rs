//! `Propagate`: copies of fields of a record in the records that refer to it.

mod copied_fields;
mod field_path;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use super::declared::forget_relation;
use super::keys::{check_index, element_of, key_of, keys_in, pages_of_index};
use super::updater::{Derived, UpdateFailure, UpdateProgress, UpdateState, Updater, keep_failure};
use super::within::within;
#[cfg(doc)]
use crate::Error;
use crate::changes::{Change, ChangeKind};
use crate::engine::declaration::RelationDeclaration;
use crate::expressions::bin_exists;
use crate::{IndexedRecordSet, Key, Lsn, Namespace, RecordStore, Result};
use copied_fields::{CopiedFields, CopyOutcome};
use field_path::FieldPath;

/// How many records are looked at between two pages of a query.
const PAGE: usize = 512;

/// Fields of records that are copied into the records that refer to them, so that a list shows them
/// without a look elsewhere; and what carries a change of such a field to all copies.
///
/// Document: RavenDB, *Duplicating often used fields* (propagation by a set-based patch). The
/// document's warning is ruled out: a record is written only while its reference still is that one,
/// and only with the referenced record's fields at that moment, so a newer copy is never
/// overwritten by an older one. Errors are reported, record by record.
///
/// | call | record operations |
/// |---|---|
/// | [`assign`](Self::assign) | 1 read, 1 write; 3 reads where there are no transactions; 1 read more where a field is missing |
/// | [`propagate`](Self::propagate) | for each referring record: 2 reads, and 1 write if its copies differ (and 2 reads more where there are no transactions); 1 query for 512 of them |
/// | [`verify`](Self::verify) | a scan, and 2 reads a record |
///
/// Where the store is a [`Namespace`], [`Propagate::updater`] follows the changes of the referenced
/// set and propagates each of them, and goes on after a crash. Else call [`Propagate::propagate`]
/// after the write: it may be stopped, and called again.
///
/// On a [`Store`](crate::Store) and a [`Namespace`] reading the fields and writing the copies is
/// one transaction. Elsewhere the referenced record is read, the copies are written under the
/// filter that the reference still is that one, and the referenced record is read again, until both
/// agree. A process that dies between may leave older copies, which the next `propagate` or
/// [`Propagate::verify`] repairs.
///
/// On a cluster the referring records are found by the servers' own secondary indexes, one of
/// integers and one of text, so records that other programs write are found as well; references
/// that are bytes are refused. A cluster gives no changes to follow, so there is no updater: call
/// `propagate` after each write of a field that is copied, and `verify` now and then for the writes
/// of programs that do not.
///
/// Choose [`Joined`](super::Joined) where the fields change often, or the records are not to be
/// touched; [`Includes`](super::Includes) where reading one batch more is no matter.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::Propagate;
/// use spikelet::{Store, bins};
/// use std::ops::ControlFlow;
///
/// let store = Store::in_memory()?;
/// let (users, items) = (store.set("users")?, store.set("items")?);
/// users.put("users/1-A", bins! { "name" => "Homer Simpson" })?;
/// items.put(1, bins! { "title" => "Malfunction" })?;
/// let assignees = Propagate::new(&store, "assignees", ("users", "items"), "assignee")?.copy("name", "assignee_name");
/// assignees.assign(1, "users/1-A")?;
///
/// users.put("users/1-A", bins! { "name" => "H. Simpson" })?;
/// let report = assignees.propagate("users/1-A", |_| ControlFlow::Continue(()))?;
/// assert_eq!((report.written, report.failed), (1, 0));
/// assert_eq!(items.get(1)?.unwrap().get("assignee_name"), Some("H. Simpson".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Propagate<S> {
    store: S,
    copies: CopiedFields,
    state: Arc<UpdateState>,
}

/// The result of [`Propagate::propagate`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PropagateReport {
    /// Records with copies that were written.
    pub written: u64,
    /// Records with copies that were as they should be.
    pub unchanged: u64,
    /// Records that referred to something else, or were gone, when they were met.
    pub passed_over: u64,
    /// Records that could not be written.
    pub failed: u64,
    /// The first thousand of them.
    pub failures: Vec<UpdateFailure>,
    /// Whether all referring records were met; false: the observer has stopped it. The same call
    /// does the rest.
    pub complete: bool,
}

impl<S: RecordStore<Records: IndexedRecordSet>> Propagate<S> {
    /// Returns the copies of this name: `sets` are the set of the referenced records and the set of
    /// the records that refer to them, by a key at `reference`: a bin, or a path into nested maps
    /// such as `assignee.id`. Declares an index of the name `{name}_reference` over it.
    ///
    /// # Errors
    /// As for [`IndexedRecordSet::ensure_index`]; [`Error::Parameter`] for a set that is not
    /// allowed, and for a path that cannot be read or may lead to several references.
    pub fn new(store: S, name: &str, sets: (&str, &str), reference: &str) -> Result<Self> {
        let copies = CopiedFields {
            name: name.into(),
            from: sets.0.into(),
            to: sets.1.into(),
            reference: FieldPath::parse(reference)?,
            fields: Vec::new(),
            refused: None,
        };
        copies.ensure_index(&store)?;
        Ok(Self {
            store,
            copies,
            state: Arc::default(),
        })
    }

    /// Returns the same copies in another store, such as a transaction. The index of the reference
    /// must be there.
    pub fn within<T: RecordStore<Records: IndexedRecordSet>>(&self, store: T) -> Propagate<T> {
        Propagate {
            store,
            copies: self.copies.clone(),
            state: Arc::default(),
        }
    }

    /// Copies this field, a bin of the referenced records, into a bin of the records that refer to
    /// them. Both may be paths into nested maps, such as `assignee.name`; maps on the way to a copy
    /// are created. Calls are refused ([`Error::Parameter`]) for a path that cannot be read, and
    /// where the copy would be in the reference, in another copy, or around one.
    #[must_use]
    pub fn copy(mut self, field: &str, to: &str) -> Self {
        match (FieldPath::parse(field), FieldPath::parse(to)) {
            (Ok(field), Ok(to)) => self.copies.fields.push((field, to)),
            (Err(error), _) | (_, Err(error)) => {
                self.copies.refused = Some(error.to_string().into());
            }
        }
        self
    }

    /// Declares the relation for [`declared_relations`](super::declared_relations).
    /// [`Propagate::updater`] does so, too. One read, and one write if it is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name; the errors of a write.
    pub fn declare(&self) -> Result<()> {
        self.copies.check()?;
        let declaration = self.copies.declaration();
        declaration.declare(&self.store, None, true).map(drop)
    }

    /// Makes a record refer to another one, with copies of its fields. Bins besides stay. One read
    /// and one write; two reads more where there are no transactions.
    ///
    /// # Errors
    /// [`Error::NotFound`], in [`Error::Relation`], if there is no record to refer to; the refusals
    /// of a write.
    pub fn assign<'r, 't>(&self, record: impl Into<Key<'r>>, to: impl Into<Key<'t>>) -> Result<()> {
        self.copies.check()?;
        let (record, to) = (&record.into(), &to.into());
        let copies = &self.copies;
        copies.named((self.store).atomically(|store| within(copies, store).assign(record, to)))
    }

    /// Writes the present fields of a record into all records that refer to it. `observe` is called
    /// after each of them, and may stop it; calling it again costs two reads for each that is done.
    /// Where the record is gone, the copies are removed.
    ///
    /// # Errors
    /// [`Error::Relation`] around an error that ends it as a whole: a failed query, a store that
    /// takes no writes, or one that may pass ([`Error::is_retryable`]). Errors of single records
    /// are in the report.
    pub fn propagate<'k>(
        &self,
        key: impl Into<Key<'k>>,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<PropagateReport> {
        self.copies.check()?;
        let mut report = PropagateReport::default();
        let to = &key.into();
        let records = self.store.records(&self.copies.to)?;
        let (index, equal) = (self.copies.index(), element_of(to));
        let checked = check_index(&self.store, &self.copies.to, &index);
        self.copies.named(checked)?;
        for page in pages_of_index(&records, index.name(), &equal, PAGE) {
            for record in &self.copies.named(page)? {
                match self.refresh(record, to) {
                    Ok(CopyOutcome::Written) => report.written += 1,
                    Ok(CopyOutcome::Unchanged) => report.unchanged += 1,
                    Ok(CopyOutcome::PassedOver) => report.passed_over += 1,
                    Err(error) => {
                        keep_failure(&mut report.failures, Some(record), error)?;
                        report.failed += 1;
                    }
                }
                if observe(report.progress()).is_break() {
                    return Ok(report);
                }
            }
        }
        report.complete = true;
        Ok(report)
    }

    fn refresh(&self, record: &Key<'_>, to: &Key<'_>) -> Result<CopyOutcome> {
        let copies = &self.copies;
        copies.named((self.store).atomically(|store| within(copies, store).refresh(record, to)))
    }

    /// Looks at the copies in all referring records, and repairs the ones that differ, if asked to.
    /// `observe` is called after each, and may stop it. A scan, two reads a record; memory for the
    /// keys of the referring records.
    ///
    /// # Errors
    /// [`Error::Relation`] around what a read or a repair may fail with; [`Error::Parameter`] for a
    /// referring record without a stored key.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        self.copies.check()?;
        Auditor::run(repair, &mut observe, |auditor| {
            let referring = || self.copies.named(self.referring());
            auditor.each(referring, true, |auditor, record| {
                self.copies.named(self.verify_record(&record, auditor))
            })
        })
    }

    fn verify_record(&self, record: &Key<'static>, auditor: &mut Auditor<'_>) -> Result<()> {
        let copies = within(&self.copies, &self.store);
        let known = copies.read_copies(record)?;
        auditor.note_degree(record, 0);
        let Some(known) = known else { return Ok(()) };
        let Some(reference) = copies.reference.value_in(&known)? else {
            return Ok(());
        };
        auditor.note_edge();
        let to = key_of(reference)?;
        let fields = copies.read_fields(&to)?;
        let is_stale = copies.writes(fields.as_ref(), &known)?.is_some();
        let (from, key) = (record.clone(), to.clone());
        let fault = match fields {
            None => RelationFault::Dangling { from, to: key },
            Some(_) if is_stale => RelationFault::Stale { from, to: key },
            Some(_) => return Ok(()),
        };
        auditor.note_fault(fault, |_| {
            Ok(is_stale && self.refresh(record, &to)?.is_written())
        })
    }

    /// The keys of all records that refer to another one.
    fn referring(&self) -> Result<Vec<Key<'static>>> {
        let bin = &self.copies.reference.bin;
        keys_in(&self.store, &self.copies.to, |record| {
            record.view().bin(bin).is_some()
        })
    }
}

impl Propagate<Namespace> {
    /// Returns the updater that propagates the changes of the records that are referred to, as they
    /// come. Declares the relation, its index and a durable subscription of its name. Where they
    /// are new, all copies are looked at first.
    ///
    /// # Errors
    /// [`Error::Forbidden`] while there is another updater of this name; [`Error::Parameter`] for a
    /// name that another relation has; the errors of a write.
    pub fn updater(&self) -> Result<Updater> {
        self.copies.check()?;
        self.copies.ensure_index(&self.store)?;
        Updater::new(&self.store, self.clone(), &self.state)
    }

    /// Returns how far the updater has come that this handle, or a clone of it, has returned.
    #[must_use]
    pub fn progress(&self) -> UpdateProgress {
        self.state.progress()
    }

    /// Waits until the copies show all that was written up to a log sequence number: as
    /// [`Joined::wait_until`](super::Joined::wait_until).
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Forbidden`] if the updater has ended before; the errors of a
    /// sync.
    pub fn wait_until(&self, lsn: Lsn, timeout: Duration) -> Result<()> {
        self.store.wait_durable(lsn)?;
        self.state.wait_until(lsn, timeout)
    }

    /// Removes index, subscription and declaration. The copies stay as they are.
    ///
    /// # Errors
    /// The errors of a write.
    pub fn remove(&self) -> Result<()> {
        self.store.changes().unsubscribe(&self.copies.name)?;
        forget_relation(&self.store, &self.copies.name)?;
        let index = self.copies.index();
        match self.store.check_index(&self.copies.to, &index) {
            Ok(()) => self.store.set(&self.copies.to)?.drop_index(index.name()),
            Err(_) => Ok(()),
        }
    }

    /// Makes the copies in a record equal to the fields of the record that it refers to now. `None`:
    /// it refers to none.
    fn refresh_alone(&self, record: &Key<'_>) -> Result<Option<bool>> {
        let known = within(&self.copies, &self.store).read_copies(record)?;
        let reference = known.map(|known| self.copies.reference.value_in(&known));
        let Some(reference) = reference.transpose()?.flatten() else {
            return Ok(None);
        };
        let refreshed = self.refresh(record, &key_of(reference)?)?;
        Ok(Some(refreshed.is_written()))
    }
}

impl Derived for Propagate<Namespace> {
    fn build(&self, state: &UpdateState) -> Result<()> {
        let records = self.store.set(&self.copies.to)?;
        let referring = records.filtered(bin_exists(&self.copies.reference.bin))?;
        let found = state.each_found(&referring.query_all(), |record| {
            match self.refresh_alone(record).transpose() {
                Some(refreshed) => state.note_record(record, refreshed),
                None => Ok(()),
            }
        });
        self.copies.named(found)
    }

    fn apply(&self, changes: &[Change], state: &UpdateState) -> Result<()> {
        let mut changed = BTreeSet::new();
        for change in changes {
            match (&change.key, change.kind) {
                (_, ChangeKind::Truncate { .. }) => self.build(state)?,
                (Some(key), _) => drop(changed.insert(key.clone())),
                (None, ChangeKind::Put) => state.note_keyless(),
                (None, _) => {}
            }
        }
        let (records, index) = (self.store.set(&self.copies.to)?, self.copies.index());
        let checked = self.store.check_index(&self.copies.to, &index);
        self.copies.named(checked)?;
        for to in &changed {
            let query = self
                .copies
                .named(records.query(index.name()))?
                .eq(element_of(to));
            let found = state.each_found(&query, |record| {
                let refreshed = self.refresh(record, to);
                state.note_record(record, refreshed.map(CopyOutcome::is_written))
            });
            self.copies.named(found)?;
        }
        Ok(())
    }

    fn declaration(&self) -> RelationDeclaration {
        self.copies.declaration()
    }

    fn sources(&self) -> Vec<Box<str>> {
        vec![self.copies.from.clone()]
    }
}

impl PropagateReport {
    fn progress(&self) -> RelationProgress {
        RelationProgress {
            records: self.written + self.unchanged + self.passed_over + self.failed,
            edges: self.written,
            faults: self.failed,
            ..RelationProgress::default()
        }
    }
}
