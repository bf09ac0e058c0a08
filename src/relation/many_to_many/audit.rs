//! The audit of both sides of a relation.

use std::ops::ControlFlow;

use super::{EdgeSides, ManyToMany};
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::side::{RelationSide, SideEdge};
use crate::{Key, RecordStore, Result, Value};

impl<S: RecordStore> ManyToMany<S> {
    /// Looks at every edge from both sides, and repairs faults if asked to: the source decides, and keys of
    /// records that are not there are removed. `observe` is called after each record, and may stop it.
    ///
    /// Others may write meanwhile: an edge that is being written may be reported, and is looked at again before it is changed.
    /// One scan of each set, one batch for 512 edges, memory for the keys of one set.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation), around what a read or a repair may fail with.
    pub fn verify(
        &self,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        let EdgeSides {
            targets, sources, ..
        } = &self.edges;
        Auditor::run(repair, &mut observe, |auditor| {
            for (side, other) in [(targets, sources), (sources, targets)] {
                let checked = self.verify_side(auditor, (side, other));
                checked.map_err(|error| self.edges.failed(side, error))?;
            }
            Ok(())
        })
    }

    fn verify_side(
        &self,
        auditor: &mut Auditor<'_>,
        (side, other): (&RelationSide, &RelationSide),
    ) -> Result<()> {
        let owners = || side.owners(&self.store);
        auditor.each(owners, true, |auditor, owner| {
            let degree = side.at(&self.store, &owner).each_page(|page| {
                for fault in self.faults_of(&owner, &page, (side, other))? {
                    auditor.note_fault(fault, |fault| self.repair(fault))?;
                }
                Ok(())
            })?;
            auditor.note_record(&owner, degree);
            Ok(())
        })
    }

    /// Returns the faults of these edges of a record. Attributes are compared from the source's side alone.
    fn faults_of(
        &self,
        owner: &Key<'static>,
        page: &[SideEdge],
        (side, other): (&RelationSide, &RelationSide),
    ) -> Result<Vec<RelationFault>> {
        let is_source = self.edges.is_of_sources(side);
        let neighbors: Vec<Key<'_>> = page.iter().map(|(key, _)| key.into()).collect();
        let mutual = other.reader(&self.store)?.each_has(&neighbors, owner)?;
        let mut faults = Vec::new();
        for ((neighbor, attributes), has) in page.iter().zip(mutual) {
            let (source, target) = if is_source {
                (owner.clone(), neighbor.clone())
            } else {
                (neighbor.clone(), owner.clone())
            };
            match (has, is_source) {
                (None, _) => faults.push(RelationFault::Dangling {
                    from: owner.clone(),
                    to: neighbor.clone(),
                }),
                (Some(false), true) => {
                    faults.push(RelationFault::MissingAtTarget { source, target })
                }
                (Some(false), false) => {
                    faults.push(RelationFault::MissingAtSource { source, target });
                }
                (Some(true), true) if side.has_attributes => {
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
        for (end, other) in [
            (as_source, &self.edges.sources),
            (as_target, &self.edges.targets),
        ] {
            let to = (&*other.set, to);
            removed |= self.store.atomically(|store| end.prune(store, to))?;
        }
        Ok(removed)
    }
}
