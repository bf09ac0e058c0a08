//! Declarations: which relations a store has, kept as records of a set of it.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::writes::delete;
use crate::operations;
use crate::record::{Record, SHARD_OF};
use crate::{Error, Expiration, Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// The set that holds the declarations of a store, a record each, with the relation's name as its key.
pub const DECLARATION_SET: &str = "<relations";

/// The bin with the declaration, as JSON.
const DECLARATION: &str = "declaration";
/// The bin that says whether everything that is derived from other records has been built once.
const BUILT: &str = "built";

/// The handle that a relation was declared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RelationKind {
    /// [`Members`](super::Members).
    Members,
    /// [`OneToMany`](super::OneToMany).
    OneToMany,
    /// [`ManyToMany`](super::ManyToMany).
    ManyToMany,
    /// [`Links`](super::Links).
    Links,
    /// [`Graph`](super::Graph).
    Graph,
    /// [`Joined`](super::Joined).
    Joined,
    /// [`Propagate`](super::Propagate).
    Propagate,
}

impl RelationKind {
    /// Returns the name of the handle, such as `ManyToMany`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Members => "Members",
            Self::OneToMany => "OneToMany",
            Self::ManyToMany => "ManyToMany",
            Self::Links => "Links",
            Self::Graph => "Graph",
            Self::Joined => "Joined",
            Self::Propagate => "Propagate",
        }
    }
}

/// How one side of a relation is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SideForm {
    /// An ordered list in the bin of a record; sharded where it has grown.
    List,
    /// A map in the bin of a record; sharded where it has grown.
    Map,
    /// A key, or several, in each record of the set that refers to another.
    Reference,
    /// Records that are derived from others.
    View,
}

/// One side of a declared relation: where its references are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeclaredSide {
    /// What the references lead to, such as `targets` or `children`.
    pub role: Box<str>,
    /// The set of the records that hold the references.
    pub set: Box<str>,
    /// The bin that holds them, or the path of a reference; `None` for a view.
    pub bin: Option<Box<str>>,
    /// How the references are kept.
    pub form: SideForm,
    /// The set of the records that the references lead to; `None` if they lead to records of any set, or to none.
    pub to: Option<Box<str>>,
}

impl DeclaredSide {
    pub(super) fn new(role: &str, (set, bin): (&str, &str), form: SideForm, to: &str) -> Self {
        Self {
            role: role.into(),
            set: set.into(),
            bin: Some(bin.into()),
            form,
            to: Some(to.into()),
        }
    }
}

/// A relation that was declared, as [`declared_relations`] returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RelationDeclaration {
    /// The name of the relation.
    pub name: Box<str>,
    /// The handle that it was declared by.
    pub kind: RelationKind,
    /// Where references are kept.
    pub sides: Vec<DeclaredSide>,
    /// The other declarations, in words: the layout, types of edges, fields that are joined.
    #[serde(default)]
    pub details: Vec<Box<str>>,
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
            operations::put(DECLARATION, json),
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

fn decode(record: &Record) -> Result<RelationDeclaration> {
    match record.get(DECLARATION) {
        Some(Value::String(json)) => serde_json::from_str(&json).map_err(refused),
        other => Err(Error::parameter(format!(
            "bin \"{DECLARATION}\" of {} in set \"{DECLARATION_SET}\" holds {}, which is no declaration: another program has written it",
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

/// Removes the declaration of a relation; its records stay. Returns whether there was one. One write.
///
/// # Errors
/// The errors of a write.
pub fn forget_relation<S: RecordStore>(store: &S, name: &str) -> Result<bool> {
    delete(&store.records(DECLARATION_SET)?, &name.into())
}
