//! What audits of relations report.

use std::fmt;
use std::ops::ControlFlow;

use super::address::{Address, TaggedLink};
use super::keys::sweep_each;
use crate::{Key, RecordSet, RecordStore, Result, WritePolicy};

/// The treatment of faults by an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Reports them.
    No,
    /// Reports and repairs them: each is looked at again first, since others may write meanwhile.
    /// On a cluster a set of records that relations delete is scanned once more, for
    /// [`sweep_removed`](super::sweep_removed).
    Yes,
}

/// A fault of a relation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelationFault {
    /// The source names the target, and the target does not name the source.
    MissingAtTarget {
        /// The source.
        source: Key<'static>,
        /// The target.
        target: Key<'static>,
    },
    /// The target names the source, and the source does not name the target.
    MissingAtSource {
        /// The source.
        source: Key<'static>,
        /// The target.
        target: Key<'static>,
    },
    /// Both sides name each other, with different attributes.
    AttributesDiffer {
        /// The source.
        source: Key<'static>,
        /// The target.
        target: Key<'static>,
    },
    /// A key leads to a record that is not there.
    Dangling {
        /// The record that holds the key.
        from: Key<'static>,
        /// The key.
        to: Key<'static>,
    },
    /// A link of a tag that has one back has none.
    MissingReciprocal {
        /// The record that has the link.
        from: Address,
        /// The link.
        link: TaggedLink,
    },
    /// A link leads to a record that is not there.
    DanglingLink {
        /// The record that has the link.
        from: Address,
        /// The link.
        link: TaggedLink,
    },
    /// A record has copies of fields of another one, and the fields are different.
    Stale {
        /// The record that has the copies.
        from: Key<'static>,
        /// The record that it refers to.
        to: Key<'static>,
    },
    /// A collection of keys should not list the record.
    Orphan {
        /// The record.
        key: Key<'static>,
    },
    /// A list has the key of a record that names another one as the one that lists it.
    OfAnother {
        /// The record that has the list.
        parent: Key<'static>,
        /// The key.
        key: Key<'static>,
    },
    /// A record is in two places, of which one should be.
    Twice {
        /// The record that it belongs to.
        parent: Key<'static>,
        /// The record.
        key: Key<'static>,
    },
}

impl fmt::Display for RelationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingAtTarget { source, target } => {
                write!(f, "{source} names {target}, which does not name it")
            }
            Self::MissingAtSource { source, target } => {
                write!(f, "{target} is said to be named by {source}, and is not")
            }
            Self::AttributesDiffer { source, target } => {
                write!(
                    f,
                    "{source} and {target} have different attributes for their edge"
                )
            }
            Self::Dangling { from, to } => write!(f, "{from} names {to}, which does not exist"),
            Self::MissingReciprocal { from, link } => {
                let TaggedLink { tag, to } = link;
                write!(f, "{from} has link {tag:?} to {to}, which has none back")
            }
            Self::DanglingLink { from, link } => {
                let TaggedLink { tag, to } = link;
                write!(f, "{from} has link {tag:?} to {to}, which does not exist")
            }
            Self::Stale { from, to } => {
                write!(f, "{from} has copies of {to} that are not what it has")
            }
            Self::Orphan { key } => write!(f, "{key} is not listed"),
            Self::OfAnother { parent, key } => {
                write!(f, "{parent} lists {key}, which names another parent")
            }
            Self::Twice { parent, key } => write!(f, "{key} of {parent} is there twice"),
        }
    }
}

/// How far an audit, or a delete with many edges, has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelationProgress {
    /// Records looked at.
    pub records: u64,
    /// How many there are to look at, where that is known.
    pub records_total: Option<u64>,
    /// Edges looked at.
    pub edges: u64,
    /// Faults found.
    pub faults: u64,
}

/// The findings of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelationAudit {
    /// Records looked at.
    pub records: u64,
    /// Edges looked at, from either side.
    pub edges: u64,
    /// The most edges that a record has on a side, and its key.
    pub largest: Option<(Key<'static>, u64)>,
    /// The fault, as it is or was before the repair.
    pub faults: Vec<RelationFault>,
    /// How many of the faults were repaired. Where it is less than that of the faults after a
    /// repair, others had repaired them.
    pub repaired: u64,
    /// Whether all was looked at; false: the observer has stopped the audit.
    pub complete: bool,
}

impl RelationAudit {
    /// Returns whether everything was looked at, and nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.complete && self.faults.is_empty()
    }

    fn note_degree(&mut self, key: &Key<'static>, degree: u64) {
        let is_larger = self.largest.as_ref().is_none_or(|(_, most)| *most < degree);
        if is_larger && degree > 0 {
            self.largest = Some((key.clone(), degree));
        }
    }

    fn progress(&self, records_total: Option<u64>) -> RelationProgress {
        RelationProgress {
            records: self.records,
            records_total,
            edges: self.edges,
            faults: self.faults.len() as u64,
        }
    }
}

/// An audit under way.
pub(super) struct Auditor<'a> {
    audit: RelationAudit,
    repair: Repair,
    observe: ProgressObserver<'a>,
    /// Whether the observer has stopped it: it looks at nothing more.
    pub(super) is_stopped: bool,
}

impl<'a> Auditor<'a> {
    /// Runs an audit.
    pub(super) fn run(
        repair: Repair,
        observe: ProgressObserver<'a>,
        check: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<RelationAudit> {
        let mut auditor = Self {
            audit: RelationAudit::default(),
            repair,
            observe,
            is_stopped: false,
        };
        check(&mut auditor)?;
        auditor.audit.complete = !auditor.is_stopped;
        Ok(auditor.audit)
    }

    /// Deletes removed records of a set, where a restart may bring them back and repairs are asked
    /// for. They are no faults: no read of the relation has them. The observer may stop it.
    pub(super) fn sweep<S: RecordStore>(&mut self, store: &S, set: &str) -> Result<()> {
        let may_be_back = store.records(set)?.may_bring_back(&WritePolicy::default());
        if self.repair == Repair::Yes && may_be_back && !self.is_stopped {
            sweep_each(store, set, || self.note_progress(None))?;
        }
        Ok(())
    }

    /// Notes a fault, after it was repaired if that is asked for. `repair` returns whether there
    /// was something to repair.
    pub(super) fn note_fault(
        &mut self,
        fault: RelationFault,
        repair: impl FnOnce(&RelationFault) -> Result<bool>,
    ) -> Result<()> {
        if self.repair == Repair::Yes {
            self.audit.repaired += u64::from(repair(&fault)?);
        }
        self.audit.faults.push(fault);
        Ok(())
    }

    /// Notes a record with its number of edges, after a look at each of them.
    pub(super) fn note_record(&mut self, key: &Key<'static>, degree: u64) {
        self.audit.edges += degree;
        self.note_degree(key, degree);
    }

    /// Notes a record that was looked at, and the number of its edges, which are looked at by
    /// themselves.
    pub(super) fn note_degree(&mut self, key: &Key<'static>, degree: u64) {
        self.audit.records += 1;
        self.audit.note_degree(key, degree);
    }

    /// Notes an edge that was looked at by itself.
    pub(super) fn note_edge(&mut self) {
        self.audit.edges += 1;
    }

    /// Calls `check` with each of the items that `list` finds, and after it the observer, which may
    /// stop the audit. `are_all`: whether no others are looked at, so that it is known how many are
    /// left.
    pub(super) fn each<T>(
        &mut self,
        list: impl FnOnce() -> Result<Vec<T>>,
        are_all: bool,
        mut check: impl FnMut(&mut Self, T) -> Result<()>,
    ) -> Result<()> {
        if self.is_stopped {
            return Ok(());
        }
        let mut items = list()?.into_iter();
        while let Some(item) = items.next() {
            check(self, item)?;
            let left = are_all.then_some(items.len());
            if self.note_progress(left).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls the observer, which may stop the audit. `left`: how many records are still to be
    /// looked at, where that is known.
    fn note_progress(&mut self, left: Option<usize>) -> ControlFlow<()> {
        let total = left.map(|left| self.audit.records + left as u64);
        let goes_on = (self.observe)(self.audit.progress(total));
        self.is_stopped = goes_on.is_break();
        goes_on
    }
}

/// The observer of an audit's progress, called after each record, which may stop it.
pub(super) type ProgressObserver<'a> = &'a mut dyn FnMut(RelationProgress) -> ControlFlow<()>;
