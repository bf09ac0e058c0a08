//! Where writes meet the rules of declared relations (`relation_rules.rs`), and where the rules
//! come from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spikelet_storage::{Change, Digest, EntryView, NewVersion, RecordLock};

use super::catalog::Catalog;
use super::core::NamespaceCore;
use super::declaration::{DECLARATION_SET, RelationDeclaration};
use super::policy::{Expiration, ShardAccess, WritePolicy};
use super::relation_rules::{RuleTable, SetRules};
use super::set::Set;
use super::write::{EditOutcome, WriteRefusal, WriteTarget};
use crate::record::body::read_varint;
use crate::record::{Key, OwnedBins, RecordView, Replacer};
use crate::{Error, Result};

impl SetRules {
    /// Judges the new version of a record, which begins at `from` in `body`: a replaced record
    /// keeps its owned bins, and others may not lose them.
    ///
    /// # Errors
    /// [`Error::OwnedBin`]; [`Error::HasEdges`] where the write leaves no bin and so deletes the
    /// record.
    #[cold]
    pub(super) fn judge(
        &self,
        target: &WriteTarget<'_>,
        policy: &WritePolicy,
        live: Option<EntryView<'_>>,
        (body, from): (&mut Vec<u8>, usize),
        edited: EditOutcome,
    ) -> Result<EditOutcome> {
        let old = live.as_ref().map_or(&[0][..], EntryView::payload);
        let new = body.get(from..).unwrap_or_default();
        let is_of_collection = target.shards == ShardAccess::Own;
        let owned = if is_of_collection {
            self.collections()
        } else {
            self.protected_from(target.shards)
        };
        if let EditOutcome::Body(1..) = edited {
            owned.check_forms(old, new)?;
        }
        // A new record has no owned bins to lose, and the handle of a sharded collection moves them
        // between the records of the collection itself.
        if live.is_none() || is_of_collection {
            return Ok(edited);
        }
        if policy.replaces() {
            let by = match target.shards {
                ShardAccess::Related => Replacer::Relation,
                ShardAccess::Remote => Replacer::Client,
                _ => Replacer::User,
            };
            let Some(kept) = OwnedBins::new(&self.owned).keep(old, new, by)? else {
                if !matches!(edited, EditOutcome::Body(1..)) {
                    self.check_delete(target.shards, old)?;
                }
                return Ok(edited);
            };
            body.truncate(from);
            body.extend_from_slice(&kept);
            let count = read_varint(&mut &*kept)?;
            return Ok(EditOutcome::Body(count));
        }
        match edited {
            EditOutcome::Body(0) | EditOutcome::Emptied => {
                self.check_delete(target.shards, old)?;
            }
            EditOutcome::Body(_) => {
                owned.check_kept(old, new)?;
            }
        }
        Ok(edited)
    }
}

impl NamespaceCore {
    /// Has a deletion obey the relations of its record.
    pub(super) fn check_edges(&self, access: ShardAccess, live: &EntryView<'_>) -> Result<()> {
        self.rules_for(live.set_id(), access)
            .map_or(Ok(()), |rules| rules.check_delete(access, live.payload()))
    }

    /// The rules for a set, where a write with this access has to obey them. One look at a bit
    /// where the set has none.
    #[inline]
    pub(super) fn rules_for(&self, set_id: u16, access: ShardAccess) -> Option<Arc<SetRules>> {
        if self.relations.plain.contains(set_id) || !access.obeys_relations() {
            return None;
        }
        self.find_rules(set_id)
    }

    #[cold]
    fn find_rules(&self, set_id: u16) -> Option<Arc<SetRules>> {
        if let Some(rules) = self.relations.table.read().by_id.get(&set_id) {
            return Some(Arc::clone(rules));
        }
        let name = self.storage.set_name(set_id).unwrap_or_default();
        let mut table = self.relations.table.write();
        match table.by_name.get(&*name).map(Arc::clone) {
            Some(rules) => {
                table.by_id.insert(set_id, Arc::clone(&rules));
                Some(rules)
            }
            None => {
                // Under the table's lock, so that a declaration that comes now takes it back.
                self.relations.plain.add(set_id);
                None
            }
        }
    }

    /// Whether a change is one of a declaration, so that the rules are to be read again when it is
    /// published. Notes the name of a new one.
    ///
    /// # Errors
    /// [`Error::Parameter`] for one without a key that has another name than its record; the errors
    /// of the catalog.
    #[inline]
    pub(super) fn declares(&self, lock: &RecordLock<'_>, change: &Change<'_>) -> Result<bool> {
        match change {
            Change::Put(version) if self.relations.others.contains(version.set_id) => Ok(false),
            Change::Put(version) => self.note_declaration(lock.digest(), version),
            Change::Delete(_) if self.relations.any.load(Ordering::Acquire) => {
                // A damaged record does not name its set: it may be a declaration.
                let is_one = |entry: Option<EntryView<'_>>| {
                    entry.is_some_and(|entry| self.is_of_declarations(entry.set_id()))
                };
                Ok(lock.entry().map_or(true, is_one))
            }
            Change::Delete(_) => Ok(false),
        }
    }

    #[cold]
    fn is_of_declarations(&self, set_id: u16) -> bool {
        if self.relations.others.contains(set_id) {
            return false;
        }
        let is_it = self.storage.set_name(set_id).as_deref() == Some(DECLARATION_SET);
        if !is_it {
            self.relations.others.add(set_id);
        }
        is_it
    }

    #[cold]
    fn note_declaration(&self, digest: &Digest, version: &NewVersion<'_>) -> Result<bool> {
        if !self.is_of_declarations(version.set_id) {
            return Ok(false);
        }
        let name: Box<str> = match version.key.map(Key::from_stored) {
            Some(Ok(Key::String(name))) => name.into(),
            Some(_) => return Ok(false),
            // Its record does not say its name, and the declaration does.
            None => {
                let bins = RecordView::parse(version.payload).ok();
                let Some(declaration) = bins.and_then(RelationDeclaration::of_bins) else {
                    // It may have been one, and made rules.
                    return Ok(self.relations.any.load(Ordering::Acquire));
                };
                let name = declaration.name;
                if self.key_hash.digest(DECLARATION_SET, &Key::from(&*name)) != *digest {
                    return Err(Error::parameter(format!(
                        "the declaration of relation {name:?} belongs to another record: put it under the key {name:?} in set {DECLARATION_SET:?}"
                    )));
                }
                name
            }
        };
        let is_known = |names: &[Box<str>]| names.contains(&name);
        // Before the declaration can be seen, and so deleted.
        self.relations.any.store(true, Ordering::Release);
        // Before the record, too: an opening looks for declarations under these names alone.
        if !is_known(&self.catalog.lock().relations) {
            let declare = |catalog: &mut Catalog| {
                catalog.relations.push(name);
                Ok(())
            };
            self.change_catalog(|catalog| catalog.declare(declare))?;
        }
        Ok(true)
    }

    /// Gives the declarations the present update time: a rule lasts longer than what it is for.
    pub(super) fn renew_declarations(self: &Arc<Self>) -> Result<()> {
        let names = self.catalog.lock().relations.clone();
        let policy = WritePolicy::default().expiration(Expiration::DontUpdate);
        let set = Set::new(self, DECLARATION_SET)?;
        for name in &names {
            match set.touch_with(&policy, &**name) {
                Ok(_) | Err(Error::NotFound { .. } | Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the declarations. One that cannot be read makes no rules.
    pub(super) fn read_declarations(&self) {
        let rules = &self.relations;
        // One reading at a time: an older one must not replace the table of a newer one.
        let truncations = rules.truncations.lock();
        let names = self.catalog.lock().relations.clone();
        let read = |name: &str| {
            let digest = self.key_hash.digest(DECLARATION_SET, &Key::from(name));
            let found = self.read_live(&digest, |live| {
                RelationDeclaration::of_bins(RecordView::parse(live.payload()).ok()?)
            });
            found.ok().flatten().flatten()
        };
        let table = RuleTable::new(names.iter().filter_map(|name| read(name)).collect());
        if !table.declarations.is_empty() {
            rules.any.store(true, Ordering::Release);
        }
        {
            let mut current = rules.table.write();
            *current = table;
            // With the table locked, as where `find_rules` adds to it by the table before.
            rules.plain.clear();
        }
        rules.renumber(*truncations);
    }
}

impl WriteRefusal {
    /// Whether it is a deletion that was refused for the record's edges.
    pub(super) const fn has_edges(&self) -> bool {
        matches!(self.error, Error::HasEdges { .. })
    }
}
