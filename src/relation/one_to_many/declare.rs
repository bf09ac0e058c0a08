//! Declaring the relation, and the layout that its children are in.

use super::OneToMany;
use super::place::ChildPlace;
#[cfg(doc)]
use crate::engine::declaration::OnDelete;
use crate::engine::declaration::{DECLARATION_SET, RelationDeclaration, RelationKind};
use crate::relation::keys::read_one;
use crate::{Error, IndexedRecordSet, Key, Namespace, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Declares the relation in the store: the store keeps its bins, and deletes parents as
    /// [`OneToMany::on_delete`] says. The first write of a handle does so by itself; this call also
    /// changes the rule that was declared before. One read, and one write if the relation, its
    /// layout or its rule is new.
    ///
    /// # Errors
    /// [`Error::Parameter`] if another relation has this name, for [`OnDelete::Detach`], and if it
    /// was declared in another layout from which this handle does not move the children
    /// ([`OneToMany::moving_from`]): it would not find them. After [`OneToMany::move_children`] has
    /// moved all of them, a handle without it is declared. The errors of a write.
    pub fn declare(&self) -> Result<()> {
        self.declare_in(&self.store, true).map(drop)
    }

    pub(super) fn ensure_declared(&self) -> Result<()> {
        let declare = |store: &Namespace| self.declare_in(store, false).map(Some);
        self.declared.ensure(&self.store, declare)?;
        // A child by reference shares no record with a move that declares another layout before the
        // transaction commits, but for the declaration.
        if self.store.is_transaction() && self.current.layout.parent_bin().is_none() {
            let declarations = self.store.records(DECLARATION_SET)?;
            read_one(&declarations, &Key::from(&*self.name), Some(&[]))?;
        }
        Ok(())
    }

    /// `changes_rule`: whether a rule that was declared before gives way to the handle's.
    fn declare_in<T: RecordStore>(
        &self,
        store: &T,
        changes_rule: bool,
    ) -> Result<RelationDeclaration> {
        let rule = self.declared.rule;
        let handle = self.declaration(self.former.as_ref());
        handle.check_rule(rule)?;
        let change = |known: Option<&RelationDeclaration>| {
            let mut wanted = handle.clone();
            if let Some(known) =
                known.filter(|known| known.kind == wanted.kind && known.sets() == wanted.sets())
                && self.begins_to_move(known, &mut wanted)?
            {
                return Ok(wanted.with_rule(rule, Some(known)));
            }
            wanted.over(known, rule, changes_rule)
        };
        handle.revise_over(store, changes_rule, change)
    }

    /// Checks the layout that was declared. Returns whether this handle is the first that moves
    /// children out of it; otherwise takes over which layout children are moved from.
    fn begins_to_move(
        &self,
        known: &RelationDeclaration,
        wanted: &mut RelationDeclaration,
    ) -> Result<bool> {
        let is_in = |place: &ChildPlace| {
            known.sides.first() == place.declared().first()
                && known.details.first() == Some(&place.in_words())
        };
        let moving = known.details.get(1);
        match &self.former {
            // All children have been moved, or these are.
            _ if is_in(&self.current) && moving.is_none() => {
                (wanted.former, wanted.details) = (known.former.clone(), known.details.clone());
                Ok(false)
            }
            Some(_) if is_in(&self.current) && moving == wanted.details.get(1) => Ok(false),
            Some(former) if is_in(former) => Ok(true),
            _ => Err(Error::parameter(format!(
                "relation {:?} is declared as {:?} {:?}, and this handle would not find the children that are there: make it by {:?}, call moving_from with the layout that was declared, and move_children",
                self.name,
                known.details,
                known.sides.first().and_then(|side| side.bin.as_deref()),
                self.current.in_words(),
            ))),
        }
    }

    /// Declares that all children have been moved out of a layout.
    pub(super) fn declare_moved(&self, former: &ChildPlace) -> Result<()> {
        let (moving, moved) = (self.declaration(Some(former)), self.declaration(None));
        let revised = moving.revise(&self.store, |known| match known {
            Some(known) if *known == moving.with_rule(None, Some(known)) => {
                Ok(moved.with_rule(None, Some(known)))
            }
            Some(known) => Ok(known.clone()),
            None => Err(Error::not_found()),
        });
        match revised {
            Err(Error::NotFound { .. }) => Ok(()),
            revised => revised.map(drop),
        }
    }

    pub(super) fn declaration(&self, moving_from: Option<&ChildPlace>) -> RelationDeclaration {
        let moving = moving_from
            .map(|former| format!("children are being moved from {}", former.in_words()).into());
        let sides = self.current.declared();
        let mut declaration = RelationDeclaration::new(&self.name, RelationKind::OneToMany, sides);
        declaration.former = moving_from.map(ChildPlace::declared).unwrap_or_default();
        declaration.details = [self.current.in_words()]
            .into_iter()
            .chain(moving)
            .collect();
        declaration
    }
}
