//! The audit of links.

use std::ops::ControlFlow;

use super::{Links, ends};
use crate::relation::address::{Address, TaggedLink};
use crate::relation::audit::{Auditor, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::shard::pages;
use crate::{RecordStore, Result};

impl<S: RecordStore> Links<S> {
    /// Looks at the links of all records of these sets, and repairs faults if asked to: where a
    /// declared link back is missing it is added, and links to records that are not there are
    /// removed. `observe` is called after each record, and may stop it.
    ///
    /// Others may write meanwhile: a link that is being written may be reported, and is looked at
    /// again before it is changed. A scan of each set, one read and one batch a set for 512 links,
    /// and one read for each link that should have one back; memory for the keys of one set.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around what a read or a repair may fail with;
    /// [`Error::Parameter`](crate::Error::Parameter) for a record without a stored key.
    pub fn verify<'n>(
        &self,
        sets: impl IntoIterator<Item = &'n str>,
        repair: Repair,
        mut observe: impl FnMut(RelationProgress) -> ControlFlow<()>,
    ) -> Result<RelationAudit> {
        Auditor::run(repair, &mut observe, |auditor| {
            sets.into_iter()
                .try_for_each(|set| self.verify_set(set, auditor))
        })
    }

    fn verify_set(&self, set: &str, auditor: &mut Auditor<'_>) -> Result<()> {
        let owners = || self.bin.side(set).owners(&self.store);
        auditor.each(owners, true, |auditor, owner| {
            let from = Address::new(set, owner);
            let mut degree = 0;
            for page in pages(|after, limit| self.page(&from, None, after, limit)) {
                let page = page?;
                degree += page.len() as u64;
                for fault in self.faults_of(&from, page)? {
                    auditor.note_fault(fault, |fault| self.repair(fault))?;
                }
            }
            auditor.note_record(&from.key, degree);
            Ok(())
        })
    }

    fn faults_of(&self, from: &Address, links: Vec<TaggedLink>) -> Result<Vec<RelationFault>> {
        let targets: Vec<Address> = links.iter().map(|link| link.to.clone()).collect();
        let found = self.bin.named(from, self.read(&targets, Some(&[])))?;
        let mut faults = Vec::new();
        for (link, record) in links.into_iter().zip(found) {
            let from = from.clone();
            if record.is_none() {
                faults.push(RelationFault::DanglingLink { from, link });
            } else if let Some(back) = self.back_of(&link.tag)
                && !self.contains(&link.to, back, &from)?
            {
                faults.push(RelationFault::MissingReciprocal { from, link });
            }
        }
        Ok(faults)
    }

    /// Returns whether there was something to repair.
    fn repair(&self, fault: &RelationFault) -> Result<bool> {
        let (RelationFault::DanglingLink { from, link }
        | RelationFault::MissingReciprocal { from, link }) = fault
        else {
            return Ok(false);
        };
        let sides = [self.bin.side(&from.set), self.bin.side(&link.to.set)];
        let edge = ends(&sides, (from, &link.tag, &link.to), self.back_of(&link.tag));
        let [end, _] = edge.ends;
        let repaired = match fault {
            RelationFault::DanglingLink { .. } => {
                let to = (&*link.to.set, &link.to.key);
                self.store.atomically(|store| end.prune(store, to))
            }
            _ if !edge.is_mutual => return Ok(false),
            _ => (self.store).atomically(|store| edge.follow_first(store, false)),
        };
        self.bin.named(from, repaired)
    }
}
