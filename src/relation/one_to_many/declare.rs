//! Declaring the relation, and the layout that its children are in.

use super::OneToMany;
use super::place::ChildPlace;
use crate::relation::declared::{RelationDeclaration, RelationKind};
use crate::{Error, IndexedRecordSet, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Declares the relation in the store, for [`declared_relations`](crate::relation::declared_relations) and `spikelet relations`. One read,
    /// and one write if it, or its layout, is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, and if it was declared in another layout from which this handle
    /// does not move the children ([`OneToMany::moving_from`]): it would not find them. After
    /// [`OneToMany::move_children`] has moved all of them, a handle without it is declared. Those of a write.
    pub fn declare(&self) -> Result<()> {
        let wanted = self.declaration(self.former.as_ref());
        if let Some((known, _)) = wanted.stored(&self.store)?
            && known.kind == wanted.kind
            && known.sets() == wanted.sets()
        {
            let is_in = |place: &ChildPlace| {
                known.sides == place.declared() && known.details.first() == Some(&place.in_words())
            };
            let moving = known.details.get(1);
            return match &self.former {
                // All children have been moved, or these are.
                _ if is_in(&self.current) && moving.is_none() => Ok(()),
                Some(_) if is_in(&self.current) && moving == wanted.details.get(1) => Ok(()),
                Some(former) if is_in(former) => wanted.store(&self.store, false),
                _ => Err(Error::parameter(format!(
                    "relation {:?} is declared as {:?} {:?}, and this handle would not find the children that are there: make it by {:?}, call moving_from with the layout that was declared, and move_children",
                    self.name,
                    known.details,
                    known.sides.first().and_then(|side| side.bin.as_deref()),
                    self.current.in_words(),
                ))),
            };
        }
        wanted.declare(&self.store)
    }

    pub(super) fn declaration(&self, moving_from: Option<&ChildPlace>) -> RelationDeclaration {
        let moving = moving_from
            .map(|former| format!("children are being moved from {}", former.in_words()).into());
        RelationDeclaration {
            name: self.name.clone(),
            kind: RelationKind::OneToMany,
            sides: self.current.declared().into(),
            details: [self.current.in_words()]
                .into_iter()
                .chain(moving)
                .collect(),
        }
    }
}
