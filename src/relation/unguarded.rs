//! Deletes of records with their edges in stores that guard no relations, such as a cluster: edge
//! by edge, and the record last.

use super::audit::{ProgressObserver, RelationProgress};
use super::edge_remover::has_edges;
use crate::engine::declaration::OnDelete;
use crate::{Key, Result};

/// A record of a relation that is being deleted.
pub(super) struct Unguarded<'a> {
    pub(super) relation: &'a str,
    pub(super) set: &'a str,
    pub(super) key: &'a Key<'a>,
    pub(super) rule: OnDelete,
}

impl Unguarded<'_> {
    /// Deletes the record: `some` returns some of its edges, `remove` removes one at both ends, and
    /// `delete` deletes the rest, or returns false where others have added edges since. Returns
    /// false if `observe`, which is called after each edge, has stopped it.
    ///
    /// # Errors
    /// [`Error::HasEdges`](crate::Error::HasEdges) by [`OnDelete::Restrict`]; the errors of the
    /// calls.
    pub(super) fn delete<E>(
        &self,
        some: impl Fn() -> Result<Vec<E>>,
        remove: impl Fn(E) -> Result<bool>,
        delete: impl Fn() -> Result<bool>,
        observe: ProgressObserver<'_>,
    ) -> Result<bool> {
        let mut progress = RelationProgress::default();
        loop {
            let edges = some()?;
            if edges.is_empty() {
                if delete()? { return Ok(true) } else { continue }
            }
            if self.rule == OnDelete::Restrict {
                let relations = vec![(self.relation.into(), edges.len() as u64)];
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
