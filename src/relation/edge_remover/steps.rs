//! The records that a delete in steps deletes, and how far it has come.

use spikelet_storage::{Attempt, Digest};

use super::roles::{RelationRole, RoleKind};
#[cfg(feature = "server")]
use crate::WritePolicy;
#[cfg(feature = "server")]
use crate::engine::RelationGuard;
use crate::engine::declaration::OnDelete;
use crate::relation::address::Address;
use crate::relation::audit::RelationProgress;
use crate::{RecordStore, Result};

/// A record that goes with another one.
pub(super) struct DependentRecord {
    pub(super) record: Address,
    /// The part with which this one goes: an earlier one. `None` for the record that a caller
    /// deletes.
    pub(super) of: Option<usize>,
}

/// The state of a delete in steps. A list instead of recursion, since chains of records may be
/// long.
pub(super) struct DeleteSteps {
    /// The records of the steps, each behind the one that it goes with.
    pub(super) parts: Vec<DependentRecord>,
    /// The parts that are not deleted yet. The last one goes first.
    pub(super) open: Vec<usize>,
    /// The digest of the record that a caller deletes.
    digest: Option<Digest>,
    /// Whether a step has changed a record, in this run of the call or in an earlier one.
    pub(super) has_begun: bool,
    pub(super) progress: RelationProgress,
}

impl DeleteSteps {
    pub(super) fn new(given: Option<(Address, Digest)>) -> Self {
        let digest = given.as_ref().map(|(_, digest)| *digest);
        let given = given.map(|(record, _)| DependentRecord { record, of: None });
        Self {
            open: given.iter().map(|_| 0).collect(),
            parts: given.into_iter().collect(),
            has_begun: digest.is_some_and(|digest| Attempt::has_begun(&digest)),
            digest,
            progress: RelationProgress::default(),
        }
    }

    /// Notes that a step has changed a record.
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        if let Some(digest) = &self.digest {
            Attempt::begin_steps(digest);
        }
    }

    pub(super) fn push(&mut self, record: Address, of: usize) -> usize {
        let of = Some(of);
        self.parts.push(DependentRecord { record, of });
        self.parts.len() - 1
    }

    /// Where a record is among the open parts.
    pub(super) fn find(&self, record: &Address) -> Option<usize> {
        let is_it = |at: &usize| {
            self.parts
                .get(*at)
                .is_some_and(|part| part.record == *record)
        };
        self.open.iter().position(is_it)
    }

    /// Takes the last part off, and the parts that no open one goes with.
    pub(super) fn pop(&mut self) {
        self.open.pop();
        self.parts
            .truncate(self.open.last().map_or(0, |last| last + 1));
    }
}

impl RelationRole<'_> {
    /// Whether nothing at other records goes with the elements of the collection in the record.
    fn holds_alone(&self) -> bool {
        match &self.kind {
            RoleKind::Listing { .. } => self.rule != OnDelete::Cascade,
            RoleKind::Containing { .. } => true,
            _ => false,
        }
    }

    /// Whether a record without edges by this role has a collection that may be too large for one
    /// transaction: one that holds its elements alone, or shards in which nothing is left.
    pub(super) fn has_rest<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let Some(own) = self.own() else {
            return Ok(false);
        };
        let own = own.at(store, &self.record.key);
        let is_empty = own.len()? == 0;
        Ok(self.holds_alone() && !is_empty || is_empty && own.is_sharded()?)
    }

    /// Deletes the collection that [`RelationRole::has_rest`] has found, or moves it back into its
    /// record: others may add edges to its shards meanwhile.
    pub(super) fn drop_rest<S: RecordStore>(&self, store: &S) -> Result<()> {
        match self.own().map(|own| own.at(store, &self.record.key)) {
            Some(own) if self.holds_alone() => own.delete(),
            Some(own) => own.unshard_empty().map(drop),
            None => Ok(()),
        }
    }

    /// Refuses that, for a call with this policy, where it has to yield to a transaction.
    ///
    /// # Errors
    /// As for [`RelationGuard::check_yields`].
    #[cfg(feature = "server")]
    pub(super) fn check_yields(
        &self,
        guard: &RelationGuard<'_>,
        policy: Option<&WritePolicy>,
    ) -> Result<()> {
        match (policy, self.own()) {
            (Some(policy), Some(own)) => {
                guard.check_yields(policy, (&own.set, &self.record.key), &own.bin)
            }
            _ => Ok(()),
        }
    }
}
