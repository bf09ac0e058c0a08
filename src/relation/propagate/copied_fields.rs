//! The copies in one record, and how they are made what they should be.

use super::field_path::FieldPath;
use crate::Expiration;
use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use crate::query::IndexDefinition;
use crate::record::Record;
use crate::relation::keys::{element_of, read_one};
use crate::relation::reference_path::COLLECTION_FORMS;
use crate::relation::within::Within;
use crate::{
    Error, IndexedRecordSet, Key, Operation, RecordSet, RecordStore, Result, Value, WritePolicy,
};

/// How many rounds more than it has copies a record that refers to itself may take, since others
/// may write it meanwhile.
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

impl CopyOutcome {
    pub(super) fn is_written(self) -> bool {
        self == Self::Written
    }
}

impl CopiedFields {
    pub(super) fn index(&self) -> IndexDefinition {
        let name = format!("{}_reference", self.name);
        IndexDefinition::new(&name, [self.reference.component()])
    }

    pub(super) fn ensure_index<S: RecordStore<Records: IndexedRecordSet>>(
        &self,
        store: &S,
    ) -> Result<()> {
        self.named(store.records(&self.to)?.ensure_index(self.index()))
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

    /// Returns the operations that make the copies equal to the fields; `None` where they are.
    pub(super) fn writes(
        &self,
        fields: Option<&Record>,
        copies: &Record,
    ) -> Result<Option<Vec<Operation>>> {
        let mut writes = Vec::new();
        for (field, copy) in &self.fields {
            let value = match fields {
                Some(fields) => field.value_in(fields)?,
                None => None,
            };
            if value != copy.value_in(copies)? {
                writes.push(copy.write(value));
            }
        }
        Ok((!writes.is_empty()).then_some(writes))
    }

    fn is_self_reference(&self, record: &Key<'_>, to: &Key<'_>) -> bool {
        self.from == self.to && record == to
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
            error.in_relation(&self.name, side)
        })
    }
}

impl<S: RecordStore> Within<'_, CopiedFields, S> {
    /// Returns the fields to copy; `None`: there is no such record.
    pub(super) fn read_fields(&self, key: &Key<'_>) -> Result<Option<Record>> {
        let bins = self.fields.iter().map(|(field, _)| &*field.bin);
        let bins: Vec<&str> = bins.chain(COLLECTION_FORMS).collect();
        read_one(&self.store.records(&self.from)?, key, Some(&bins))
    }

    /// Returns the reference and the copies of a record; `None`: there is no such record.
    pub(super) fn read_copies(&self, key: &Key<'_>) -> Result<Option<Record>> {
        let copies = self.fields.iter().map(|(_, copy)| &*copy.bin);
        let bins = copies.chain([&*self.reference.bin]);
        let bins: Vec<&str> = bins.chain(COLLECTION_FORMS).collect();
        read_one(&self.store.records(&self.to)?, key, Some(&bins))
    }

    /// Makes a record refer to another one, and writes the copies.
    pub(super) fn assign(&self, record: &Key<'_>, to: &Key<'_>) -> Result<()> {
        let Some(fields) = self.read_fields(to)? else {
            return Err(Error::not_found().about(&self.from, to));
        };
        let mut writes = vec![self.reference.write(Some(element_of(to)))];
        let values = self.fields.iter().map(|(field, _)| field.value_in(&fields));
        let values: Vec<Option<Value>> = values.collect::<Result<_>>()?;
        let known = if values.iter().any(Option::is_none) {
            self.read_copies(record)?
        } else {
            None
        };
        for ((_, copy), value) in self.fields.iter().zip(values) {
            // There may be no map to remove it from.
            let is_written = match (&value, &known) {
                (None, Some(known)) => copy.value_in(known)?.is_some(),
                (value, _) => value.is_some(),
            };
            if is_written {
                writes.push(copy.write(value));
            }
        }
        let records = self.store.records(&self.to)?;
        let policy = WritePolicy::default().expiration(Expiration::DontUpdate);
        records.operate_on(&policy, record, &writes)?;
        if self.is_of_one_moment(record, to) {
            return Ok(());
        }
        // The fields may have changed since they were read.
        self.refresh(record, to).map(drop)
    }

    /// Whether the fields that were read are still the record's when the copies are written: in a
    /// transaction, unless the record refers to itself, and a copy is a field, too.
    fn is_of_one_moment(&self, record: &Key<'_>, to: &Key<'_>) -> bool {
        self.store.is_transaction() && !self.is_self_reference(record, to)
    }

    /// Makes the copies in a record equal to the fields that it refers to, while it does.
    pub(super) fn refresh(&self, record: &Key<'_>, to: &Key<'_>) -> Result<CopyOutcome> {
        // A change of the referenced record is not the record's own: its time to live stays.
        let policy = WritePolicy::default()
            .expiration(Expiration::DontUpdate)
            .filter(self.reference.is_reference_to(to));
        let mut outcome = CopyOutcome::Unchanged;
        let rounds_max = if self.is_self_reference(record, to) {
            self.fields.len() + ROUNDS_BESIDE_WRITERS
        } else {
            usize::MAX
        };
        // Until both agree: elsewhere than in a transaction others may write in between.
        for _ in 0..rounds_max {
            let fields = self.read_fields(to)?;
            let Some(known) = self.read_copies(record)? else {
                return Ok(CopyOutcome::PassedOver);
            };
            if self.reference.value_in(&known)? != Some(element_of(to)) {
                return Ok(CopyOutcome::PassedOver);
            }
            let Some(writes) = self.writes(fields.as_ref(), &known)? else {
                return Ok(outcome);
            };
            let records = self.store.records(&self.to)?;
            match records.operate_on(&policy, record, &writes) {
                Ok(_) if self.is_of_one_moment(record, to) => {
                    return Ok(CopyOutcome::Written);
                }
                Ok(_) => outcome = CopyOutcome::Written,
                Err(Error::NotFound { .. } | Error::FilteredOut { .. }) => {
                    return Ok(CopyOutcome::PassedOver);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::parameter(format!(
            "record {record} refers to itself, and each of its copies is a field of another: copy into bins that are not copied",
        )))
    }
}
