//! What is looked at, and repaired, in the children of all parents.

use std::ops::ControlFlow;

use super::place::{ChildPlace, MoveChild};
use super::{CHILDREN_AT_ONCE, Layout, OneToMany};
use crate::relation::audit::{RelationAudit, RelationFault, RelationProgress, Repair};
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
        let mut audit = RelationAudit::default();
        // What the former layout finds besides has not been moved yet, and is not listed.
        let is_moving = self.former_has_all();
        for place in self.places().skip(usize::from(is_moving)) {
            for parent in self.named(place, place.all_parents(&self.store))? {
                let checked = self.verify_parent(place, &parent, repair, &mut audit);
                self.named(place, checked)?;
                if observe(audit.progress(None)).is_break() {
                    return Ok(audit);
                }
            }
        }
        let place = &self.current;
        let is_listed = matches!(place.layout, Layout::KeyList { .. }) && !is_moving;
        for (parent, child) in self.named(place, self.named_parents(is_listed))? {
            let (listed, parent) = (place.listed(), &parent);
            let checked = listed.verify_record(&self.store, parent, child, repair, &mut audit);
            self.named(place, checked)?;
            if observe(audit.progress(None)).is_break() {
                return Ok(audit);
            }
        }
        audit.complete = true;
        Ok(audit)
    }

    fn verify_parent(
        &self,
        place: &ChildPlace,
        parent: &Key<'static>,
        repair: Repair,
        audit: &mut RelationAudit,
    ) -> Result<()> {
        if matches!(place.layout, Layout::KeyList { .. }) {
            place.listed().verify(&self.store, parent, repair, audit)?;
        } else {
            let degree = place.count(&self.store, parent)?;
            audit.records += 1;
            audit.edges += degree;
            audit.note_degree(parent, degree);
        }
        let is_former = self
            .former
            .as_ref()
            .is_some_and(|former| std::ptr::eq(former, place));
        if !is_former {
            return Ok(());
        }
        let mut token: Option<String> = None;
        loop {
            let (children, next) =
                place.page(&self.store, parent, token.as_deref(), CHILDREN_AT_ONCE)?;
            for (child, _) in children {
                if self.current.get(&self.store, parent, &child)?.is_none() {
                    continue;
                }
                if repair == Repair::Yes {
                    let (from, to, child) = (place, &self.current, &child);
                    let moved = self.store.atomically(&MoveChild {
                        from,
                        to,
                        parent,
                        child,
                    })?;
                    audit.repaired += u64::from(moved);
                }
                audit.faults.push(RelationFault::Twice {
                    parent: parent.clone(),
                    key: child,
                });
            }
            match next {
                Some(next) => token = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// The children that name a parent, if they are listed, and their parents.
    fn named_parents(&self, is_listed: bool) -> Result<Vec<(Key<'static>, Key<'static>)>> {
        let place = &self.current;
        let Some(bin) = place.parent_bin_of_child().filter(|_| is_listed) else {
            return Ok(Vec::new());
        };
        let (mut found, mut failed) = (Vec::new(), None);
        let children = self.store.records(&place.children)?;
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
