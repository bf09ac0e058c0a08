//! The rules of declared relations, which every write obeys: bins that belong to a relation are
//! kept and not set as a whole, and a record with edges is deleted as the relations say.
//!
//! The declarations are the records of the set `<relations`. They are read when the namespace is
//! opened, and again when one of them was written, by any call (`guard.rs`). The catalog has the
//! names of these records, so that no scan is needed to find them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::companion_sets::SetBits;
use super::declaration::{RelationDeclaration, SideForm};
use super::policy::ShardAccess;
use crate::record::{BinName, OwnedBin, OwnedBins};
use crate::sync::{Mutex, RwLock};
use crate::value::ParticleType;
use crate::{Error, Result};

/// What a namespace knows of its relations.
#[derive(Debug, Default)]
pub(super) struct RelationRules {
    /// The sets that are known to have no rules.
    pub(super) plain: SetBits,
    /// The sets that are known not to hold declarations.
    pub(super) others: SetBits,
    /// Whether there are declarations, or were.
    pub(super) any: AtomicBool,
    /// Another number with each change of a declaration. 0, which no handle remembers, while a
    /// truncation may take declarations.
    pub(super) epoch: AtomicU64,
    pub(super) table: RwLock<RuleTable>,
    /// The number of truncations under way. Held while declarations are read and the table is
    /// exchanged, so that the last one to read is the last to exchange it.
    pub(super) truncations: Mutex<usize>,
    /// Held by a handle from its look at the declarations until its own is published.
    pub(super) declaring: Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct RuleTable {
    pub(super) declarations: Arc<[RelationDeclaration]>,
    pub(super) by_name: HashMap<Box<str>, Arc<SetRules>>,
    pub(super) by_id: HashMap<u16, Arc<SetRules>>,
}

/// The rules for the records of a set.
#[derive(Debug, Default)]
pub(super) struct SetRules {
    /// Collections come first.
    pub(super) owned: Vec<OwnedBin>,
    /// How many relations have to be asked before a record is deleted.
    pub(super) asked: usize,
}

/// The next number of declarations. No two namespaces have one number, since a handle may go from
/// one to the other.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

impl RelationRules {
    /// Gives the declarations another number. `truncations`: of the lock.
    pub(super) fn renumber(&self, truncations: usize) {
        let epoch = match truncations {
            0 => EPOCHS.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        // Behind the table: a handle that sees the number finds the declarations.
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Has every handle look at its declaration at each write, until the result is dropped.
    pub(super) fn begin_truncation(&self) -> TruncatedRules<'_> {
        let mut truncations = self.truncations.lock();
        *truncations += 1;
        self.renumber(*truncations);
        TruncatedRules(self)
    }
}

/// A truncation that may take declarations, while it runs.
pub(super) struct TruncatedRules<'a>(&'a RelationRules);

impl Drop for TruncatedRules<'_> {
    fn drop(&mut self) {
        let mut truncations = self.0.truncations.lock();
        *truncations -= 1;
        self.0.renumber(*truncations);
    }
}

impl RuleTable {
    pub(super) fn new(declarations: Vec<RelationDeclaration>) -> Self {
        let mut rules: HashMap<Box<str>, SetRules> = HashMap::new();
        for declaration in &declarations {
            for (set, bin, form) in declaration.owned_bins() {
                let collection = match form {
                    Some(SideForm::List) => Some(ParticleType::List),
                    Some(SideForm::Map) => Some(ParticleType::Map),
                    Some(SideForm::Reference | SideForm::View) | None => None,
                };
                let Ok(bin) = BinName::new(bin) else { continue };
                rules.entry(set.into()).or_default().owned.push(OwnedBin {
                    bin,
                    relation: declaration.name.clone(),
                    collection,
                });
            }
            for set in declaration.asked_sets() {
                rules.entry(set.into()).or_default().asked += 1;
            }
        }
        for rules in rules.values_mut() {
            rules.owned.sort_by_key(|owned| owned.collection.is_none());
        }
        let rules = rules.into_iter();
        Self {
            declarations: declarations.into(),
            by_name: rules.map(|(set, rules)| (set, Arc::new(rules))).collect(),
            by_id: HashMap::new(),
        }
    }
}

impl SetRules {
    /// The bins that a write with this access may not set.
    pub(super) fn protected_from(&self, access: ShardAccess) -> OwnedBins<'_> {
        match access {
            ShardAccess::Protected => OwnedBins::new(&self.owned),
            // A handle sets the references of its records, and a wire client may be one.
            // Collections are never set as a whole.
            ShardAccess::Related => self.collections(),
            ShardAccess::Remote => self.collections().for_handles(),
            _ => OwnedBins::NONE,
        }
    }

    pub(super) fn collections(&self) -> OwnedBins<'_> {
        let collections = self
            .owned
            .partition_point(|owned| owned.collection.is_some());
        OwnedBins::new(self.owned.get(..collections).unwrap_or_default())
    }

    /// Refuses to delete a record without a look at its edges.
    ///
    /// # Errors
    /// [`Error::HasEdges`].
    pub(super) fn check_delete(&self, access: ShardAccess, old: &[u8]) -> Result<()> {
        let asked_by_caller = match access {
            ShardAccess::Protected | ShardAccess::Remote => 0,
            // It is one relation's own handle.
            ShardAccess::Related => 1,
            _ => return Ok(()),
        };
        let relations = OwnedBins::new(&self.owned).edges(old);
        if relations.is_empty() && self.asked <= asked_by_caller {
            return Ok(());
        }
        Err(Error::HasEdges {
            relations,
            record: None,
        })
    }
}
