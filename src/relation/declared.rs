//! Declarations: which relations a store has, kept as records of a set of it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::writes::delete;
use crate::engine::declaration::{DECLARATION_BIN, DECLARATION_SET, OnDelete};
use crate::engine::declaration::{RelationDeclaration, RelationKind};
use crate::operations;
use crate::record::{Record, SHARD_OF};
use crate::{
    Error, Expiration, Key, Namespace, RecordSet, RecordStore, Result, Value, WritePolicy,
};

/// The bin that says whether everything that is derived from other records has been built once.
const BUILT: &str = "built";

/// Whether a handle has declared itself: the number of the store's declarations when it last looked.
#[derive(Debug, Default)]
pub(super) struct Declared(AtomicU64);

impl Clone for Declared {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Declared {
    /// Has the next call of [`Declared::ensure`] look again.
    pub(super) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Has the relation of this name declared by `declare`, unless nothing was declared since the last look. In a store that
    /// guards no relations: nothing. Outside of a transaction, so that its writes find the rules.
    ///
    /// # Errors
    /// Those of `declare`.
    pub(super) fn ensure<S: RecordStore>(
        &self,
        store: &S,
        name: &str,
        declare: impl FnOnce(&Namespace) -> Result<()>,
    ) -> Result<()> {
        let Some(guard) = store.relation_guard()? else {
            return Ok(());
        };
        let epoch = guard.epoch();
        if self.0.load(Ordering::Relaxed) == epoch {
            return Ok(());
        }
        declare(guard.namespace())?;
        // Another handle has stored it, and has not come to the rules yet.
        if !guard
            .declarations()
            .iter()
            .any(|known| *known.name == *name)
        {
            guard.read_declarations();
        }
        // After a change, the next call looks once more.
        self.0.store(epoch, Ordering::Relaxed);
        Ok(())
    }
}

impl RelationDeclaration {
    /// Stores it, in the place of an earlier one of this kind between the same sets.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name.
    pub(super) fn declare<S: RecordStore>(&self, store: &S) -> Result<()> {
        match self.stored(store)? {
            Some((known, _)) if known == *self => Ok(()),
            Some((known, _)) if known.kind != self.kind || known.sets() != self.sets() => {
                Err(self.refuse(&known))
            }
            _ => self.store(store, false),
        }
    }

    /// Stores it, if there is none of this name; `rule`: the rule that the handle was given. What the handle has beyond the stored
    /// declaration is added to it.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the stored declaration says otherwise.
    pub(super) fn declare_itself<S: RecordStore>(
        mut self,
        store: &S,
        rule: Option<OnDelete>,
    ) -> Result<()> {
        self.on_delete = rule.unwrap_or_default();
        let Some((known, _)) = self.stored(store)? else {
            return self.store(store, false);
        };
        let is_of_any_sets = self.kind == RelationKind::Links;
        if known.kind != self.kind || !is_of_any_sets && known.sets() != self.sets() {
            return Err(self.refuse(&known));
        }
        if let Some(rule) = rule.filter(|rule| *rule != known.on_delete) {
            return Err(Error::parameter(format!(
                "relation {:?} is declared with OnDelete::{:?}, and this handle says OnDelete::{rule:?}: leave that out, or call declare to change the rule",
                self.name, known.on_delete,
            )));
        }
        let mut wanted = known.clone();
        for side in &self.sides {
            match wanted
                .sides
                .iter()
                .find(|found| (&found.role, &found.set) == (&side.role, &side.set))
            {
                Some(found) if found == side => {}
                None if is_of_any_sets => wanted.sides.push(side.clone()),
                found => {
                    return Err(Error::parameter(format!(
                        "relation {:?} is declared with {found:?}, and this handle has {side:?}: it would not find the edges that are there; make it as declared, or call forget_relation and declare",
                        self.name
                    )));
                }
            }
        }
        add_missing(&mut wanted.reciprocal, &self.reciprocal);
        add_missing(&mut wanted.beside, &self.beside);
        add_missing(&mut wanted.edge_types, &self.edge_types);
        add_missing(&mut wanted.details, &self.details);
        match wanted == known {
            true => Ok(()),
            false => wanted.store(store, false),
        }
    }

    /// Stores it with the rule of the handle, or else the one that is stored.
    ///
    /// # Errors
    /// As for [`RelationDeclaration::declare`].
    pub(super) fn declare_with<S: RecordStore>(
        mut self,
        store: &S,
        rule: Option<OnDelete>,
    ) -> Result<()> {
        let known = match rule {
            Some(_) => None,
            None => self.stored(store)?.map(|(known, _)| known.on_delete),
        };
        self.on_delete = rule.or(known).unwrap_or_default();
        self.declare(store)
    }

    /// Returns whether a relation of this name and kind is declared.
    pub(super) fn is_declared<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let stored = self.stored(store)?;
        Ok(stored.is_some_and(|(known, _)| known.kind == self.kind))
    }

    /// Stores a declaration of derived records, in the place of an earlier one of this kind and of the same set, and returns
    /// whether it has been built as declared.
    pub(super) fn declare_derived<S: RecordStore>(&self, store: &S) -> Result<bool> {
        match self.stored(store)? {
            Some((known, built)) if known == *self => Ok(built),
            Some((known, _))
                if known.kind != self.kind || known.first_set() != self.first_set() =>
            {
                Err(self.refuse(&known))
            }
            _ => self.store(store, false).map(|()| false),
        }
    }

    fn refuse(&self, known: &Self) -> Error {
        Error::parameter(format!(
            "relation {:?} is declared as {:?} of sets {:?}, and this is {:?} of sets {:?}: give it another name, or remove the declaration by forget_relation",
            self.name,
            known.kind,
            known.sets(),
            self.kind,
            self.sets()
        ))
    }

    /// Notes whether the derived records have been built.
    pub(super) fn store<S: RecordStore>(&self, store: &S, built: bool) -> Result<()> {
        let json = serde_json::to_string(self).map_err(refused)?;
        let puts = [
            operations::put(DECLARATION_BIN, json),
            operations::put(BUILT, built),
        ];
        let records = store.records(DECLARATION_SET)?;
        let policy = WritePolicy::default().expiration(Expiration::Never);
        records.operate_on(&policy, &(&*self.name).into(), &puts)?;
        Ok(())
    }

    pub(super) fn stored<S: RecordStore>(&self, store: &S) -> Result<Option<(Self, bool)>> {
        let key = Key::from(&*self.name);
        let found = store.records(DECLARATION_SET)?.read_each(&[key], None);
        let found = found.into_iter().next().transpose()?.flatten();
        found
            .map(|record| {
                Ok((
                    decode(&record)?,
                    record.get(BUILT) == Some(Value::Bool(true)),
                ))
            })
            .transpose()
    }

    fn first_set(&self) -> Option<&str> {
        self.sides.first().map(|side| &*side.set)
    }

    pub(super) fn sets(&self) -> Vec<&str> {
        let sides = self.sides.iter();
        let both = sides.flat_map(|side| [Some(&*side.set), side.to.as_deref()]);
        let mut sets: Vec<&str> = both.flatten().collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}

/// Adds to a list what it has not.
fn add_missing<T: Clone + PartialEq>(to: &mut Vec<T>, wanted: &[T]) {
    for item in wanted {
        if !to.contains(item) {
            to.push(item.clone());
        }
    }
}

fn decode(record: &Record) -> Result<RelationDeclaration> {
    match record.get(DECLARATION_BIN) {
        Some(Value::String(json)) => RelationDeclaration::from_json(&json),
        other => Err(Error::parameter(format!(
            "bin \"{DECLARATION_BIN}\" of {} in set \"{DECLARATION_SET}\" holds {}, which is no declaration: another program has written it",
            record
                .key()
                .map_or_else(|| "a record without a key".into(), |key| key.to_string()),
            other.unwrap_or(Value::Nil)
        ))),
    }
}

fn refused(error: impl ToString) -> Error {
    Error::Serde(error.to_string().into())
}

/// Returns the relations that were declared in a store, by their names. One scan of [`DECLARATION_SET`].
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::{ManyToMany, declared_relations};
///
/// let store = spikelet::Store::in_memory()?;
/// ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers")).declare()?;
/// let declared = declared_relations(&store)?;
/// assert_eq!(&*declared[0].name, "follows");
/// let stats = declared[0].stats(&store)?;
/// assert_eq!(stats.iter().map(|side| side.elements).sum::<u64>(), 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of a scan; [`Error::Parameter`] and [`Error::Serde`] for a record that is no declaration of this version.
pub fn declared_relations<S: RecordStore>(store: &S) -> Result<Vec<RelationDeclaration>> {
    let mut found = Vec::new();
    let mut failed = None;
    store.records(DECLARATION_SET)?.scan_each(&mut |record| {
        match record {
            Ok(record) if record.view().bin(SHARD_OF).is_some() => {}
            record => match record.and_then(|record| decode(&record)) {
                Ok(declaration) => found.push(declaration),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            },
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(()), Err)?;
    found.sort_by(|a: &RelationDeclaration, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Removes the declaration of a relation, and its rules with it; its records stay. Returns whether there was one. One write. A handle
/// of it that writes afterwards declares it again.
///
/// # Errors
/// The errors of a write.
pub fn forget_relation<S: RecordStore>(store: &S, name: &str) -> Result<bool> {
    delete(&store.records(DECLARATION_SET)?, &name.into())
}
