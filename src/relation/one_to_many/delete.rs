//! The delete of a parent with its children, by its own handle.

use std::ops::ControlFlow;

use super::{CHILDREN_AT_ONCE, OneToMany};
#[cfg(doc)]
use crate::Error;
use crate::engine::declaration::OnDelete;
use crate::relation::audit::RelationProgress;
use crate::relation::one_to_many::place::ChildPlace;
use crate::relation::record_delete::RecordDelete;
use crate::relation::side::{RelationSide, delete_emptied};
use crate::{IndexedRecordSet, Key, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Deletes a parent and, as declared here, its children: [`OnDelete::Cascade`] removes them,
    /// [`OnDelete::Restrict`] refuses while there are any. Returns whether it was deleted; false:
    /// `observe` has stopped it between two children. The same call goes on with the rest.
    ///
    /// # Errors
    /// [`Error::HasEdges`] for children in the way; [`Error::Parameter`] for [`OnDelete::Detach`],
    /// after which nothing would lead to the children; else as for [`OneToMany::remove`].
    pub fn delete_with_edges<'p>(
        &self,
        parent: impl Into<Key<'p>>,
        on_delete: OnDelete,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<bool> {
        let parent = parent.into();
        let record = RecordDelete {
            declaration: self.declaration(None),
            set: &self.current.side().set,
            key: &parent,
            rule: on_delete,
        };
        record.run(
            &self.store,
            || self.ensure_declared(),
            || self.some_children(&parent),
            |child| self.remove(&parent, child),
            || {
                let listing = self
                    .places()
                    .filter(|place| place.layout.parent_bin().is_some());
                let sides: Vec<&RelationSide> = listing.map(ChildPlace::side).collect();
                let record = (&*self.current.listed.side.set, &parent);
                self.named(&self.current, delete_emptied(&self.store, record, &sides))
            },
            &mut observe,
        )
    }

    /// The keys of some children, listed ones without a record included.
    fn some_children(&self, parent: &Key<'_>) -> Result<Vec<Key<'static>>> {
        for place in self.places() {
            let found = match place.layout.parent_bin() {
                Some(_) => (self.children(place).edges(parent))
                    .page_after(None, CHILDREN_AT_ONCE as u64)
                    .map(|page| page.into_iter().map(|(key, _)| key).collect()),
                None => (self.children(place).page(parent, None, CHILDREN_AT_ONCE))
                    .map(|(page, _)| page.into_iter().map(|(key, _)| key).collect()),
            };
            let found: Vec<_> = self.named(place, found)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}
