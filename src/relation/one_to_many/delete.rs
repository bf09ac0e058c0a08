//! The delete of a parent with its children, by its own handle.

use std::ops::ControlFlow;

use super::{CHILDREN_AT_ONCE, OneToMany};
#[cfg(doc)]
use crate::Error;
use crate::engine::declaration::OnDelete;
use crate::relation::audit::RelationProgress;
use crate::relation::edge_remover::{Deletion, has_edges};
use crate::relation::side::DeleteEmpty;
use crate::relation::writes::delete_without;
use crate::{IndexedRecordSet, Key, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Deletes a parent and, as declared here, its children: [`OnDelete::Cascade`] removes them, [`OnDelete::Restrict`] refuses
    /// while there are any. Returns whether it was deleted; false: `observe` has stopped it between two children. The same call
    /// goes on with the rest.
    ///
    /// # Errors
    /// [`Error::HasEdges`] for children in the way; [`Error::Parameter`] for [`OnDelete::Detach`], after which nothing would
    /// lead to the children; else as for [`OneToMany::remove`].
    pub fn delete_with_edges<'p>(
        &self,
        parent: impl Into<Key<'p>>,
        on_delete: OnDelete,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        let parent = parent.into();
        if on_delete == OnDelete::Detach {
            return Err(self.detaches());
        }
        if let Some(guard) = self.store.relation_guard()? {
            self.ensure_declared()?;
            let deletion = Deletion::new(&guard).by_rule(&self.name, on_delete);
            return deletion.run((&self.current.parents, &parent), &mut observe);
        }
        let mut progress = RelationProgress::default();
        for place in self.places() {
            loop {
                let page = place.page(&self.store, &parent, None, CHILDREN_AT_ONCE);
                let (children, next) = self.named(place, page)?;
                if !children.is_empty() && on_delete == OnDelete::Restrict {
                    let side = place.side();
                    let count = children.len() as u64;
                    return Err(has_edges(&self.name, &side.set, &parent, count));
                }
                for (child, _) in children {
                    self.remove(&parent, &child)?;
                    progress.edges += 1;
                    if observe(progress).is_break() {
                        return Ok(false);
                    }
                }
                if next.is_none() {
                    break;
                }
            }
            if place.layout.parent_bin().is_some() {
                let side = &place.side();
                let key = &parent;
                self.named(place, self.store.atomically(&DeleteEmpty { side, key }))?;
            }
        }
        let bins: Vec<&str> = self
            .places()
            .filter_map(|place| place.layout.parent_bin())
            .collect();
        let records = self.store.records(&self.current.parents)?;
        let deleted = delete_without(&records, &parent, &bins);
        match self.named(&self.current, deleted)? {
            true => Ok(true),
            // Others have put children since.
            false => self.delete_with_edges(&parent, on_delete, observe),
        }
    }
}
