//! What is looked at, and repaired, in the children of all parents.

use std::ops::ControlFlow;

use super::place::ChildPlace;
use super::{Layout, OneToMany};
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::keys::key_of;
use crate::{IndexedRecordSet, Key, RecordSet, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Looks at the children of all parents: keys without a record are removed if asked to, children that name a parent which
    /// does not list them are listed, and children in both layouts are moved to the present one. `observe` is called after each
    /// record, and may stop it. Where children of a key list name their parents, one more scan, and memory for their keys.
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
            if self.places().any(|place| !is_consolidated(place)) {
                let swept = auditor.sweep(&self.store, place.children());
                if self.named(place, swept)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            // What the former layout finds besides has not been moved yet.
            let first = usize::from(self.former_has_all());
            for place in self.places().skip(first) {
                for parent in self.named(place, place.all_parents(&self.store))? {
                    self.named(place, self.verify_parent(place, &parent, auditor))?;
                    if auditor.note_progress(None).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            // Children that have not been moved are listed elsewhere, or not at all.
            let is_moving = first > 0 || self.former.as_ref().is_some_and(is_key_list);
            let is_listed = is_key_list(place) && !is_moving;
            for (parent, child) in self.named(place, self.named_parents(is_listed))? {
                let listed = &place.listed;
                let checked = listed.verify_record(&self.store, &parent, child, auditor);
                self.named(place, checked)?;
                if auditor.note_progress(None).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    fn verify_parent(
        &self,
        place: &ChildPlace,
        parent: &Key<'static>,
        auditor: &mut Auditor<'_>,
    ) -> Result<()> {
        if matches!(place.layout, Layout::KeyList { .. }) {
            place.listed.verify(&self.store, parent, auditor)?;
        } else {
            auditor.note_record(parent, place.count(&self.store, parent)?);
        }
        let is_former = self
            .former
            .as_ref()
            .is_some_and(|former| std::ptr::eq(former, place));
        if !is_former {
            return Ok(());
        }
        let looked_at = self.each_child(place, parent, |child| {
            if self.current.get(&self.store, parent, &child)?.is_some() {
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
        let (mut found, mut failed) = (Vec::new(), None);
        let children = self.store.records(place.children())?;
        children.scan_records(&mut |record| {
            let named = record.get(bin).map(key_of).transpose();
            match (named, record.key()) {
                (Ok(Some(parent)), Some(child)) => found.push((parent, child.into_owned())),
                (Ok(_), _) => {}
                (Err(error), _) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(found), Err)
    }
}

const fn is_consolidated(place: &ChildPlace) -> bool {
    matches!(place.layout, Layout::Consolidated { .. })
}

const fn is_key_list(place: &ChildPlace) -> bool {
    matches!(place.layout, Layout::KeyList { .. })
}
