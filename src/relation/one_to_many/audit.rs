//! The audit and repair of the children of all parents.

use std::ops::ControlFlow;

use super::OneToMany;
use super::place::ChildPlace;
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::within::within;
use crate::{IndexedRecordSet, Key, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Looks at the children of all parents: keys without a record are removed if asked to,
    /// children that name a parent which does not list them are listed, and children in both
    /// layouts are moved to the present one. `observe` is called after each record, and may stop
    /// it. Where children of a key list name their parents, one more scan, and memory for their
    /// keys.
    ///
    /// # Errors
    /// As for [`OneToMany::move_children`].
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        Auditor::run(repair, &mut observe, |auditor| {
            let place = &self.current;
            if self.places().any(|place| place.layout.has_child_records()) {
                let swept = auditor.sweep(&self.store, place.children());
                self.named(place, swept)?;
            }
            // What the former layout finds besides has not been moved yet.
            let is_former = |has_all: &ChildPlace| !std::ptr::eq(has_all, place);
            let first = usize::from(self.has_all().is_some_and(is_former));
            for place in self.places().skip(first) {
                let parents = || self.named(place, self.children(place).all_parents());
                auditor.each(parents, false, |auditor, parent| {
                    self.named(place, self.verify_parent(place, &parent, auditor))
                })?;
            }
            // Children that have not been moved are listed elsewhere, or not at all.
            let is_key_list = |place: &ChildPlace| place.layout.is_key_list();
            let is_moving = first > 0 || self.former.as_ref().is_some_and(is_key_list);
            let is_listed = is_key_list(place) && !is_moving;
            let named = || self.named(place, self.named_parents(is_listed));
            auditor.each(named, false, |auditor, (parent, child)| {
                let listed = within(&place.listed, &self.store);
                let checked = listed.verify_record(&parent, child, auditor);
                self.named(place, checked)
            })
        })
    }

    fn verify_parent(
        &self,
        place: &ChildPlace,
        parent: &Key<'static>,
        auditor: &mut Auditor<'_>,
    ) -> Result<()> {
        if place.layout.is_key_list() {
            within(&place.listed, &self.store).verify(parent, auditor)?;
        } else {
            auditor.note_record(parent, self.children(place).count(parent)?);
        }
        let is_former = self
            .former
            .as_ref()
            .is_some_and(|former| std::ptr::eq(former, place));
        if !is_former {
            return Ok(());
        }
        let looked_at = self.each_child(place, parent, |child| {
            if self
                .children(&self.current)
                .has_besides(place, parent, &child)?
            {
                let twice = RelationFault::Twice {
                    parent: parent.clone(),
                    key: child.clone(),
                };
                auditor.note_fault(twice, |_| self.move_child(place, parent, &child))?;
            }
            Ok(ControlFlow::Continue(()))
        });
        looked_at.map(drop)
    }

    /// The children that name a parent, if they are listed, and their parents.
    fn named_parents(&self, is_listed: bool) -> Result<Vec<(Key<'static>, Key<'static>)>> {
        let place = &self.current;
        let Some(bin) = place.parent_bin_of_child().filter(|_| is_listed) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        self.children(place).each_named(bin, |parent, child| {
            found.extend(child.key().map(|child| (parent, child.into_owned())));
        })?;
        Ok(found)
    }
}
