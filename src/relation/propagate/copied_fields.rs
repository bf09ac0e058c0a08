//! The copies in one record, and how they are made what they should be.

use super::field_path::FieldPath;
use crate::Expiration;
use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use crate::record::Record;
use crate::relation::keys::element_of;
use crate::{AtomicWrites, Error, Key, Operation, RecordSet, RecordStore, Result, WritePolicy};

/// How many rounds more than it has copies a record that refers to itself may take, since others may write it meanwhile.
const ROUNDS_BESIDE_WRITERS: usize = 64;

/// The fields that are copied, and their places.
#[derive(Clone, Debug)]
pub(super) struct CopiedFields {
    pub(super) name: Box<str>,
    /// The set of the records that are referred to.
    pub(super) from: Box<str>,
    /// The set of the records that refer to them.
    pub(super) to: Box<str>,
    /// Where the reference is.
    pub(super) reference: FieldPath,
    /// Fields, and where their copies are.
    pub(super) fields: Vec<(FieldPath, FieldPath)>,
    /// Why a field cannot be copied as it was asked for.
    pub(super) refused: Option<Box<str>>,
}

/// The result for one referring record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyOutcome {
    Written,
    Unchanged,
    /// It refers to something else, or is gone.
    PassedOver,
}

impl CopiedFields {
    pub(super) fn index(&self) -> String {
        format!("{}_reference", self.name)
    }

    /// Refuses copies that would overwrite the reference or one another.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(refused) = &self.refused {
            return Err(Error::parameter(format!(
                "propagation {:?}: {refused}",
                self.name
            )));
        }
        let mut known = vec![&self.reference];
        for (field, copy) in &self.fields {
            if known.iter().any(|known| known.overlaps(copy)) {
                return Err(Error::parameter(format!(
                    "propagation {:?} copies \"{field}\" into \"{copy}\", which holds the reference or another copy: give the copy a place of its own",
                    self.name
                )));
            }
            known.push(copy);
        }
        Ok(())
    }

    /// Returns the fields to copy; `None`: there is no such record.
    pub(super) fn read_fields<S: RecordStore>(
        &self,
        store: &S,
        key: &Key<'_>,
    ) -> Result<Option<Record>> {
        let bins: Vec<&str> = self.fields.iter().map(|(field, _)| &*field.bin).collect();
        read_bins(&store.records(&self.from)?, key, &bins)
    }

    /// Returns the reference and the copies of a record; `None`: there is no such record.
    pub(super) fn read_copies<S: RecordStore>(
        &self,
        store: &S,
        key: &Key<'_>,
    ) -> Result<Option<Record>> {
        let copies = self.fields.iter().map(|(_, copy)| &*copy.bin);
        let bins: Vec<&str> = copies.chain([&*self.reference.bin]).collect();
        read_bins(&store.records(&self.to)?, key, &bins)
    }

    /// Returns the operations that make the copies equal to the fields; `None` where they are.
    pub(super) fn writes(
        &self,
        fields: Option<&Record>,
        copies: &Record,
    ) -> Option<Vec<Operation>> {
        let mut writes = Vec::new();
        for (field, copy) in &self.fields {
            let value = fields.and_then(|fields| field.value_in(fields));
            if value != copy.value_in(copies) {
                writes.push(copy.write(value));
            }
        }
        (!writes.is_empty()).then_some(writes)
    }

    pub(super) fn declaration(&self) -> RelationDeclaration {
        let reference = self.reference.to_string();
        let at = (&*self.to, &*reference);
        let copies = self.fields.iter().map(|(field, copy)| {
            format!("{field} of {} as {copy} of {}", self.from, self.to).into()
        });
        let side = DeclaredSide::new("references", at, SideForm::Reference, &self.from);
        let mut declaration =
            RelationDeclaration::new(&self.name, RelationKind::Propagate, vec![side]);
        declaration.details = copies.collect();
        declaration
    }

    pub(super) fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let side = format!("\"{}\" of set \"{}\"", self.reference, self.to);
            error.in_relation(&self.name, &side)
        })
    }
}

fn read_bins<R: RecordSet>(records: &R, key: &Key<'_>, bins: &[&str]) -> Result<Option<Record>> {
    let found = records.read_each(std::slice::from_ref(key), Some(bins));
    found.into_iter().next().unwrap_or(Ok(None))
}

/// Writes a reference with the copies of what it leads to.
pub(super) struct Assign<'a> {
    pub(super) copies: &'a CopiedFields,
    pub(super) record: &'a Key<'a>,
    pub(super) to: &'a Key<'a>,
}

impl AtomicWrites for Assign<'_> {
    type Output = ();

    fn make<S: RecordStore>(&self, store: &S) -> Result<()> {
        let copies = self.copies;
        let Some(fields) = copies.read_fields(store, self.to)? else {
            return Err(Error::not_found());
        };
        let mut writes = vec![copies.reference.write(Some(element_of(self.to)))];
        let is_missing = |(field, _): &(FieldPath, FieldPath)| field.value_in(&fields).is_none();
        let known = match copies.fields.iter().any(is_missing) {
            true => copies.read_copies(store, self.record)?,
            false => None,
        };
        for (field, copy) in &copies.fields {
            let value = field.value_in(&fields);
            let is_there = || {
                known
                    .as_ref()
                    .is_some_and(|known| copy.value_in(known).is_some())
            };
            // There may be no map to remove it from.
            if value.is_some() || is_there() {
                writes.push(copy.write(value));
            }
        }
        let records = store.records(&copies.to)?;
        let policy = WritePolicy::default().expiration(Expiration::DontUpdate);
        records.operate_on(&policy, self.record, &writes)?;
        let refresh = Refresh {
            copies,
            record: self.record,
            to: self.to,
        };
        match refresh.is_of_one_moment(store) {
            true => Ok(()),
            // The fields may have changed since they were read.
            false => refresh.make(store).map(drop),
        }
    }
}

/// Makes the copies in a record equal to the fields that it refers to, while it does.
pub(super) struct Refresh<'a> {
    pub(super) copies: &'a CopiedFields,
    pub(super) record: &'a Key<'a>,
    pub(super) to: &'a Key<'a>,
}

impl Refresh<'_> {
    /// Whether the fields that were read are still the record's when the copies are written: in a transaction, unless
    /// the record refers to itself, and a copy is a field, too.
    fn is_of_one_moment<S: RecordStore>(&self, store: &S) -> bool {
        store.is_transaction() && !self.refers_to_itself()
    }

    fn refers_to_itself(&self) -> bool {
        self.copies.from == self.copies.to && self.record == self.to
    }
}

impl AtomicWrites for Refresh<'_> {
    type Output = CopyOutcome;

    fn make<S: RecordStore>(&self, store: &S) -> Result<CopyOutcome> {
        let copies = self.copies;
        // A change of the referenced record is not the record's own: its time to live stays.
        let policy = WritePolicy::default()
            .expiration(Expiration::DontUpdate)
            .filter(copies.reference.is_reference_to(self.to));
        let mut outcome = CopyOutcome::Unchanged;
        let rounds_max = match self.refers_to_itself() {
            true => copies.fields.len() + ROUNDS_BESIDE_WRITERS,
            false => usize::MAX,
        };
        // Until both agree: elsewhere than in a transaction others may write in between.
        for _ in 0..rounds_max {
            let fields = copies.read_fields(store, self.to)?;
            let Some(known) = copies.read_copies(store, self.record)? else {
                return Ok(CopyOutcome::PassedOver);
            };
            if copies.reference.value_in(&known) != Some(element_of(self.to)) {
                return Ok(CopyOutcome::PassedOver);
            }
            let Some(writes) = copies.writes(fields.as_ref(), &known) else {
                return Ok(outcome);
            };
            let records = store.records(&copies.to)?;
            match records.operate_on(&policy, self.record, &writes) {
                Ok(_) if self.is_of_one_moment(store) => return Ok(CopyOutcome::Written),
                Ok(_) => outcome = CopyOutcome::Written,
                Err(Error::NotFound { .. } | Error::FilteredOut { .. }) => {
                    return Ok(CopyOutcome::PassedOver);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::parameter(format!(
            "record {} refers to itself, and each of its copies is a field of another: copy into bins that are not copied",
            self.record
        )))
    }
}
