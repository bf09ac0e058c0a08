//! The audit of links.

use std::ops::ControlFlow;

use super::{LinkBin, Links, walk};
use crate::relation::address::{Address, TaggedLink, element};
use crate::relation::audit::{Observer, RelationAudit, RelationFault, RelationProgress, Repair};
use crate::relation::keys::BATCH;
use crate::relation::side::Side;
use crate::{AtomicWrites, Key, RecordSet, RecordStore, Result};

impl<S: RecordStore> Links<S> {
    /// Looks at the links of all records of these sets, and repairs faults if asked to: where a declared link back is
    /// missing it is added, and links to records that are not there are removed. `observe` is called after each record, and may stop
    /// it.
    ///
    /// Others may write meanwhile: a link that is being written may be reported, and is looked at again before it is changed. A
    /// scan of each set, one read and one batch a set for 512 links, and one read for each link that should have one back; memory
    /// for the keys of one set.
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
        let mut audit = RelationAudit::default();
        for set in sets {
            if self
                .verify_set(set, repair, &mut audit, &mut observe)?
                .is_break()
            {
                return Ok(audit);
            }
        }
        audit.complete = true;
        Ok(audit)
    }

    fn verify_set(
        &self,
        set: &str,
        repair: Repair,
        audit: &mut RelationAudit,
        observe: Observer<'_>,
    ) -> Result<ControlFlow<()>> {
        let owners = Side::new(set, &self.bin.name).owners(&self.store)?;
        let total = audit.records + owners.len() as u64;
        for owner in owners {
            let from = Address::new(set, owner);
            let (mut after, mut degree): (Option<TaggedLink>, u64) = (None, 0);
            loop {
                let page = self.page(&from, None, after.as_ref(), BATCH)?;
                let Some(last) = page.last() else { break };
                after = Some(last.clone());
                degree += page.len() as u64;
                for fault in self.faults_of(&from, page)? {
                    if repair == Repair::Yes {
                        audit.repaired += u64::from(self.repair(&fault)?);
                    }
                    audit.faults.push(fault);
                }
            }
            audit.records += 1;
            audit.edges += degree;
            audit.note_degree(&from.key, degree);
            if observe(audit.progress(Some(total))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn faults_of(&self, from: &Address, links: Vec<TaggedLink>) -> Result<Vec<RelationFault>> {
        let targets: Vec<Address> = links.iter().map(|link| link.to.clone()).collect();
        let mut is_there = vec![false; targets.len()];
        for (set, at) in walk::by_set(&targets) {
            let keys = at.iter().filter_map(|at| targets.get(*at));
            let keys: Vec<Key<'_>> = keys.map(|address| (&address.key).into()).collect();
            let found = self.store.records(set)?.read_each(&keys, Some(&[]));
            for (at, record) in at.into_iter().zip(found) {
                if let Some(is_there) = is_there.get_mut(at) {
                    *is_there = self.bin.named(from, record)?.is_some();
                }
            }
        }
        let mut faults = Vec::new();
        for (link, is_there) in links.into_iter().zip(is_there) {
            let from = from.clone();
            if !is_there {
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
        let bin = &self.bin;
        match fault {
            RelationFault::DanglingLink { from, link } => {
                self.store.atomically(&RemoveDangling { bin, from, link })
            }
            RelationFault::MissingReciprocal { from, link } => match self.back_of(&link.tag) {
                Some(back) => {
                    let follow = FollowLink {
                        bin,
                        from,
                        link,
                        back,
                    };
                    self.store.atomically(&follow)
                }
                None => Ok(false),
            },
            _ => Ok(false),
        }
    }
}

/// Removes a link to a record that is not there.
struct RemoveDangling<'a> {
    bin: &'a LinkBin,
    from: &'a Address,
    link: &'a TaggedLink,
}

impl AtomicWrites for RemoveDangling<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let Self { bin, from, link } = self;
        let records = store.records(&link.to.set)?;
        let found = records.read_each(std::slice::from_ref(&link.to.key), Some(&[]));
        if found.into_iter().next().transpose()?.flatten().is_some() {
            return Ok(false);
        }
        let list = bin.list(store, from)?;
        bin.named(from, list.remove(&element(&link.tag, &link.to)))
    }
}

/// Makes the link back be there as long as the link is.
struct FollowLink<'a> {
    bin: &'a LinkBin,
    from: &'a Address,
    link: &'a TaggedLink,
    back: &'a str,
}

impl AtomicWrites for FollowLink<'_> {
    type Output = bool;

    fn make<S: RecordStore>(&self, store: &S) -> Result<bool> {
        let Self {
            bin,
            from,
            link,
            back,
        } = self;
        let there = element(&link.tag, &link.to);
        let (list, list_back) = (bin.list(store, from)?, bin.list(store, &link.to)?);
        let element_back = element(back, from);
        let mut changed = false;
        // Until both say the same: elsewhere than in a transaction others may have linked or unlinked.
        loop {
            let is_there = bin.named(from, list.contains(&there))?;
            let has_back = bin.named(&link.to, list_back.contains(&element_back))?;
            match (is_there, has_back) {
                (true, false) => bin.named(&link.to, list_back.add(element_back.clone()))?,
                // Only an addition of this call is taken back: else the link back may have been there by itself.
                (false, true) if changed => bin.named(&link.to, list_back.remove(&element_back))?,
                _ => return Ok(changed),
            };
            changed = true;
        }
    }
}
