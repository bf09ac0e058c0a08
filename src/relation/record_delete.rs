//! Deletes of records with their edges by the handle of a relation.

use super::audit::{ProgressObserver, RelationProgress};
use super::edge_remover::{Deletion, has_edges};
use crate::engine::declaration::{OnDelete, RelationDeclaration};
use crate::{Key, RecordStore, Result};

/// A record that is deleted by the handle of a relation, and its rule for the delete.
pub(super) struct RecordDelete<'a> {
    pub(super) declaration: RelationDeclaration,
    pub(super) set: &'a str,
    pub(super) key: &'a Key<'a>,
    pub(super) rule: OnDelete,
}

impl RecordDelete<'_> {
    /// Deletes the record, with its edges of all relations, where `store` guards them; `declare`
    /// declares the handle's before. Elsewhere, such as on a cluster, edge by edge of this
    /// relation, and the record last: `some` returns some of its edges, `remove` removes one at
    /// both ends, and `delete` deletes the rest, or returns false where others have added edges
    /// since. Returns false if `observe`, which is called after each edge, has stopped it.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a rule that makes no sense for the
    /// relation; [`Error::HasEdges`](crate::Error::HasEdges) by [`OnDelete::Restrict`]; the errors
    /// of the calls.
    pub(super) fn run<S: RecordStore, E>(
        &self,
        store: &S,
        declare: impl FnOnce() -> Result<()>,
        some: impl Fn() -> Result<Vec<E>>,
        remove: impl Fn(E) -> Result<bool>,
        delete: impl Fn() -> Result<bool>,
        observe: ProgressObserver<'_>,
    ) -> Result<bool> {
        let relation = &self.declaration.name;
        self.declaration.check_rule(Some(self.rule))?;
        if let Some(guard) = store.relation_guard()? {
            declare()?;
            let deletion = Deletion::new(&guard).by_rule(relation, self.rule);
            return deletion.run((self.set, self.key), observe);
        }
        let mut progress = RelationProgress::default();
        loop {
            let edges = some()?;
            if edges.is_empty() {
                if delete()? { return Ok(true) } else { continue }
            }
            if self.rule == OnDelete::Restrict {
                let relations = vec![(relation.clone(), edges.len() as u64)];
                return Err(has_edges(relations, self.set, self.key));
            }
            for edge in edges {
                remove(edge)?;
                progress.edges += 1;
                if observe(progress).is_break() {
                    return Ok(false);
                }
            }
        }
    }
}
