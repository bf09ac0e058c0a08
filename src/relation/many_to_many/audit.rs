//! The audit of both sides of a relation.

use std::ops::ControlFlow;

use super::ManyToMany;
use super::RelationEnd::{self, Source, Target};
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::side::SideEdge;
use crate::{Key, RecordStore, Result, Value};

impl<S: RecordStore> ManyToMany<S> {
    /// Looks at every edge from both sides, and repairs faults if asked to: the source decides, and
    /// keys of records that are not there are removed. `observe` is called after each record, and
    /// may stop it.
    ///
    /// Others may write meanwhile: an edge that is being written may be reported, and is looked at
    /// again before it is changed. One scan of each set, one batch for 512 edges, memory for the
    /// keys of one set.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation), around what a read or a repair may fail with.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        Auditor::run(repair, &mut observe, |auditor| {
            let mut ends = RelationEnd::BOTH.into_iter();
            ends.try_for_each(|end| self.edges.named(end, self.verify_end(auditor, end)))
        })
    }

    fn verify_end(&self, auditor: &mut Auditor<'_>, end: RelationEnd) -> Result<()> {
        let side = self.edges.side(end);
        let owners = || side.owners(&self.store);
        auditor.each(owners, true, |auditor, owner| {
            let degree = side.at(&self.store, &owner).each_page(|page| {
                for fault in self.faults_of(&owner, &page, end)? {
                    auditor.note_fault(fault, |fault| self.repair(fault))?;
                }
                Ok(())
            })?;
            auditor.note_record(&owner, degree);
            Ok(())
        })
    }

    /// Returns the faults of these edges of a record. Attributes are compared from the source's
    /// side alone.
    fn faults_of(
        &self,
        owner: &Key<'static>,
        page: &[SideEdge],
        end: RelationEnd,
    ) -> Result<Vec<RelationFault>> {
        let other = self.edges.side(end.other());
        let neighbors: Vec<Key<'_>> = page.iter().map(|(key, _)| key.into()).collect();
        let mutual = other.reader(&self.store)?.each_has(&neighbors, owner)?;
        let mut faults = Vec::new();
        for ((neighbor, attributes), has) in page.iter().zip(mutual) {
            let (source, target) = match end {
                Source => (owner.clone(), neighbor.clone()),
                Target => (neighbor.clone(), owner.clone()),
            };
            match (has, end) {
                (None, _) => faults.push(RelationFault::Dangling {
                    from: owner.clone(),
                    to: neighbor.clone(),
                }),
                (Some(false), Source) => {
                    faults.push(RelationFault::MissingAtTarget { source, target })
                }
                (Some(false), Target) => {
                    faults.push(RelationFault::MissingAtSource { source, target });
                }
                (Some(true), Source) if other.has_attributes => {
                    let theirs = other.at(&self.store, neighbor).get(owner)?;
                    if theirs.is_some_and(|theirs| theirs != *attributes) {
                        faults.push(RelationFault::AttributesDiffer { source, target });
                    }
                }
                (Some(true), _) => {}
            }
        }
        Ok(faults)
    }

    /// Returns whether there was something to repair.
    fn repair(&self, fault: &RelationFault) -> Result<bool> {
        let (source, target) = match fault {
            RelationFault::MissingAtTarget { source, target }
            | RelationFault::MissingAtSource { source, target }
            | RelationFault::AttributesDiffer { source, target } => (source, target),
            RelationFault::Dangling { from, to } => return self.repair_dangling(from, to),
            _ => return Ok(false),
        };
        let edge = self.edges.ends(source, target, &Value::Nil);
        (self.store).atomically(|store| edge.follow_first(store, true))
    }

    /// Removes an edge to a record that is not there, from whichever side has it.
    fn repair_dangling(&self, from: &Key<'static>, to: &Key<'static>) -> Result<bool> {
        let mut removed = false;
        let [as_source, _] = self.edges.ends(from, to, &Value::Nil).ends;
        let [_, as_target] = self.edges.ends(to, from, &Value::Nil).ends;
        for (end, other) in [(as_source, Target), (as_target, Source)] {
            let to = (&*self.edges.side(other).set, to);
            removed |= self.store.atomically(|store| end.prune(store, to))?;
        }
        Ok(removed)
    }
}
