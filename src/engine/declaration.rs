//! Declared relations: what the store knows of them. Handles declare themselves; `relation` writes
//! declarations, the engine reads them (`relation_rules.rs`).

use serde::{Deserialize, Serialize};

use crate::record::{Key, RecordView};
use crate::{Error, Result, base64};

/// The set that holds the declarations of a store, a record each, with the relation's name as its
/// key.
pub const DECLARATION_SET: &str = "<relations";

/// Whether the records of a set are the store's own: declarations, tokens, modules, transactions.
pub(crate) fn is_own_set(name: &str) -> bool {
    name.starts_with('<')
}

/// The bin with the declaration, as JSON.
pub(crate) const DECLARATION_BIN: &str = "declaration";

/// The bin that says whether everything that is derived from other records has been built once.
pub(crate) const BUILT: &str = "built";

/// The handle that a relation was declared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RelationKind {
    /// [`Members`](crate::relation::Members).
    Members,
    /// [`OneToMany`](crate::relation::OneToMany).
    OneToMany,
    /// [`ManyToMany`](crate::relation::ManyToMany).
    ManyToMany,
    /// [`Links`](crate::relation::Links).
    Links,
    /// [`Graph`](crate::relation::Graph).
    Graph,
    /// [`Joined`](crate::relation::Joined).
    Joined,
    /// [`Propagate`](crate::relation::Propagate).
    Propagate,
}

impl RelationKind {
    /// Whether bins belong to it: [`RelationDeclaration::sides`] of the other kinds are users'
    /// bins.
    pub(crate) const fn owns_bins(self) -> bool {
        !matches!(self, Self::Joined | Self::Propagate)
    }
}

/// The treatment of a record's edges by every call that deletes the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnDelete {
    /// Refuses while there are any.
    #[default]
    Restrict,
    /// Removes the edges, and leaves the records at their other ends.
    Detach,
    /// Removes the edges and the records at their other ends: for children that belong to the
    /// record.
    Cascade,
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
    /// The set of the records that the references lead to; `None` if they lead to records of any
    /// set, or to none.
    pub to: Option<Box<str>>,
    /// The index that finds the records with a reference; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<Box<str>>,
}

impl DeclaredSide {
    pub(crate) fn new(role: &str, (set, bin): (&str, &str), form: SideForm, to: &str) -> Self {
        Self {
            role: role.into(),
            set: set.into(),
            bin: Some(bin.into()),
            form,
            to: Some(to.into()),
            index: None,
        }
    }

    /// Whether the references are a collection.
    pub(crate) const fn is_collection(&self) -> bool {
        matches!(self.form, SideForm::List | SideForm::Map)
    }
}

/// A relation that was declared, as [`declared_relations`](crate::relation::declared_relations)
/// returns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RelationDeclaration {
    /// The name of the relation.
    pub name: Box<str>,
    /// The handle that it was declared by.
    pub kind: RelationKind,
    /// Where references are kept.
    pub sides: Vec<DeclaredSide>,
    /// Where references are kept that are being moved to `sides`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<DeclaredSide>,
    /// What becomes of the edges of a record that is deleted.
    #[serde(default)]
    pub on_delete: OnDelete,
    /// The one record that has the list of a [`RelationKind::Members`]: its key in its stored form,
    /// in Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Box<str>>,
    /// The tags of [`RelationKind::Links`] that have a link back, with the tag of that link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reciprocal: Vec<(Box<str>, Box<str>)>,
    /// Other bins that belong to the relation, in the records of its last side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) beside: Vec<Box<str>>,
    /// The types of edges of a [`RelationKind::Graph`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edge_types: Vec<Box<str>>,
    /// The other declarations, in words: the layout, types of edges, fields that are joined.
    #[serde(default)]
    pub details: Vec<Box<str>>,
}

impl RelationDeclaration {
    pub(crate) fn new(name: &str, kind: RelationKind, sides: Vec<DeclaredSide>) -> Self {
        Self {
            name: name.into(),
            kind,
            sides,
            former: Vec::new(),
            on_delete: OnDelete::Restrict,
            owner: None,
            reciprocal: Vec::new(),
            beside: Vec::new(),
            edge_types: Vec::new(),
            details: Vec::new(),
        }
    }

    /// Notes the record that has the list of members.
    pub(crate) fn set_owner(&mut self, key: &Key<'_>) {
        let mut stored = Vec::new();
        key.write_stored(&mut stored);
        self.owner = Some(base64::encode(&stored).into());
    }

    /// The key of the record that has the list of members.
    pub(crate) fn owner(&self) -> Option<Key<'static>> {
        let stored = base64::decode(self.owner.as_ref()?.as_bytes())?;
        Key::from_stored(&stored).ok().map(Key::into_owned)
    }

    /// Whether records of a set have links in a bin by this declaration.
    pub(crate) fn has_links(&self, set: &str, bin: &str) -> bool {
        let mut sides = self.sides.iter();
        self.kind == RelationKind::Links
            && sides.any(|side| *side.set == *set && side.bin.as_deref() == Some(bin))
    }

    /// The sides with bins that belong to the relation.
    pub(crate) fn owned_sides(&self) -> impl Iterator<Item = &DeclaredSide> {
        let sides = self.sides.iter().chain(&self.former);
        sides.filter(|_| self.kind.owns_bins())
    }

    /// The bins that belong to the relation: the set, the bin, and the form of a side; `None` for a
    /// bin beside one.
    pub(crate) fn owned_bins(&self) -> impl Iterator<Item = (&str, &str, Option<SideForm>)> {
        let sides = self
            .owned_sides()
            .filter_map(|side| Some((&*side.set, side.bin.as_deref()?, Some(side.form))));
        let last = self.sides.last().map(|side| &*side.set);
        let beside = self.beside.iter();
        sides.chain(beside.filter_map(move |bin| Some((last?, &**bin, None))))
    }

    /// The sets with records of which none is deleted before the relation was asked: their bins do
    /// not say which records refer to them, or list them. A set comes once for each side that makes
    /// it so.
    pub(crate) fn asked_sets(&self) -> impl Iterator<Item = &str> {
        self.owned_sides()
            .filter_map(|side| match (self.kind, side.form) {
                (RelationKind::Members, _) => side.to.as_deref(),
                (RelationKind::OneToMany, SideForm::Reference) if side.index.is_some() => {
                    side.to.as_deref()
                }
                (RelationKind::OneToMany, SideForm::Reference) => Some(&side.set),
                (RelationKind::Graph, _) => Some(&side.set),
                _ => None,
            })
    }

    /// Refuses bins that one of these relations owns, unless it is this one. Links of one bin are
    /// one relation by several names, and a set may have several lists of members, each in a record
    /// of its own, and several graphs of one set of nodes.
    ///
    /// # Errors
    /// [`Error::Parameter`], which names the bin and both relations.
    pub(crate) fn check_beside(&self, known: &[Self]) -> Result<()> {
        for other in known {
            let shares = other.kind == self.kind
                && match self.kind {
                    RelationKind::Links | RelationKind::Graph => true,
                    RelationKind::Members => other.owner != self.owner,
                    _ => false,
                };
            if other.name == self.name || shares {
                continue;
            }
            let is_taken = |(set, bin): &(&str, &str)| {
                let mut owned = other.owned_bins();
                owned.any(|(known, owned, _)| (known, owned) == (*set, *bin))
            };
            let mut bins = self.owned_bins().map(|(set, bin, _)| (set, bin));
            if let Some((set, bin)) = bins.find(is_taken) {
                return Err(Error::parameter(format!(
                    "bin {bin:?} of set {set:?} belongs to relation {:?}, a {:?}: give relation {:?} another bin, or call forget_relation({:?}) first",
                    other.name, other.kind, self.name, other.name,
                )));
            }
        }
        Ok(())
    }

    /// Refuses a declaration that comes from another store where one of these relations has its
    /// name and keeps references elsewhere, or one of its bins. Links have a side for each set that
    /// they were used with.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    #[cfg(feature = "backup")]
    pub(crate) fn check_restored(&self, known: &[Self]) -> Result<()> {
        let is_as_known = |known: &&Self| {
            let is_side_known = |side| self.sides.contains(side);
            let has_same_sides =
                known.sides.len() == self.sides.len() && known.sides.iter().all(is_side_known);
            // A record of one tag has one kind of link back.
            let has_other_back = |(tag, back): &(Box<str>, Box<str>)| {
                let mut tags = known.reciprocal.iter();
                tags.any(|(other, theirs)| other == tag && theirs != back)
            };
            known.kind == self.kind
                && match self.kind {
                    RelationKind::Links => !self.reciprocal.iter().any(has_other_back),
                    // It may be declared anew with other fields.
                    RelationKind::Joined | RelationKind::Propagate => true,
                    _ => has_same_sides,
                }
        };
        match known.iter().find(|known| known.name == self.name) {
            Some(known) if !is_as_known(&known) => Err(Error::parameter(format!(
                "relation {:?} is declared as {:?} with {:?} here, and as {:?} with {:?} in the backup: call forget_relation({:?}) first, or restore other sets than {DECLARATION_SET:?}",
                self.name, known.kind, known.sides, self.kind, self.sides, self.name,
            ))),
            _ => self.check_beside(known),
        }
    }

    /// The declaration in a record's bins; `None`: it was removed, or cannot be read.
    pub(crate) fn of_bins(bins: RecordView<'_>) -> Option<Self> {
        Self::from_json(bins.bin(DECLARATION_BIN)?.as_str()?).ok()
    }

    pub(crate) fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(Error::serde)
    }
}
