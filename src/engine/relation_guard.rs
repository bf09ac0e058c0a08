//! The way of deletes with edges to the code that makes them, which is above the engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

#[cfg(feature = "server")]
use spikelet_storage::ConflictCause;
use spikelet_storage::Digest;

use super::core::key_of;
use super::declaration::RelationDeclaration;
use super::namespace::Namespace;
#[cfg(feature = "server")]
use super::policy::ShardAccess;
use super::policy::WritePolicy;
use super::set::Set;
use super::transaction::{Transaction, TransactionRun};
use crate::expression::Expression;
use crate::record::Key;
#[cfg(feature = "server")]
use crate::record::{RecordView, hash_shards};
use crate::{Error, Result};

/// Deletes a record with its edges, as declared, and returns whether there was one. Edges may be in
/// sharded collections, which are above the engine: the library is put together with this function
/// in `lib.rs`.
///
/// # Errors
/// [`Error::HasEdges`] where a relation refuses it; the errors of writes.
pub(crate) type DeleteWithEdges =
    fn(&RelationGuard<'_>, set: &str, key: &Key<'_>, policy: &WritePolicy) -> Result<bool>;

/// The relations that a store knows and guards, from
/// [`RecordStore::relation_guard`](crate::RecordStore::relation_guard).
#[derive(Clone, Debug)]
pub struct RelationGuard<'a> {
    namespace: Namespace,
    attempt: Option<&'a TransactionRun>,
}

impl<'a> RelationGuard<'a> {
    /// The namespace, outside a transaction.
    pub(crate) const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The transaction, if the store is one.
    pub(crate) fn transaction(&self) -> Option<Transaction<'a>> {
        self.attempt.map(Transaction::of)
    }

    /// Refuses a store that takes no writes, such as the transaction of a snapshot.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(crate) fn check_takes_writes(&self) -> Result<()> {
        self.attempt
            .map_or(Ok(()), TransactionRun::check_takes_writes)
    }

    /// The number of the present declarations: another one after each change. 0 while a truncation
    /// may take them.
    pub(crate) fn epoch(&self) -> u64 {
        self.namespace.core.relations.epoch.load(Ordering::Acquire)
    }

    /// The declarations that make the present rules.
    pub(crate) fn declarations(&self) -> Arc<[RelationDeclaration]> {
        Arc::clone(&self.namespace.core.relations.table.read().declarations)
    }

    /// Runs `declare` while no other handle declares itself.
    pub(crate) fn alone<R>(&self, declare: impl FnOnce() -> R) -> R {
        let _declaring = self.namespace.core.relations.declaring.lock();
        declare()
    }

    /// Refuses a write of a wire client to a record and the shards of its collection in this bin
    /// where a transaction of another client has one of them locked: for what is written step by
    /// step, and overrules such transactions.
    ///
    /// # Errors
    /// [`Error::Conflict`], by `ConflictCause::Locked`.
    #[cfg(feature = "server")]
    pub(crate) fn check_yields(
        &self,
        policy: &WritePolicy,
        (set, key): (&str, &Key<'_>),
        bin: &str,
    ) -> Result<()> {
        if policy.access != ShardAccess::Remote {
            return Ok(());
        }
        let core = &self.namespace.core;
        let root = core.key_hash.digest(set, key);
        let shards = core.read_live(&root, |root| {
            hash_shards(RecordView::parse(root.payload()).ok()?, bin)
        })?;
        let shards = shards.flatten().into_iter();
        let mut written = shards
            .flat_map(|shards| shards.digests(core.key_hash, (set, key), bin))
            .chain([root]);
        match written.find(|digest| core.provisional_locks.owner(digest).is_some()) {
            Some(_) => Err(super::refusals::conflict(ConflictCause::Locked).about(set, key)),
            None => Ok(()),
        }
    }

    /// Reads the declarations again.
    pub(crate) fn read_declarations(&self) {
        self.namespace.core.read_declarations();
    }
}

impl Namespace {
    pub(crate) fn relation_guard(&self) -> RelationGuard<'static> {
        RelationGuard {
            namespace: self.clone(),
            attempt: None,
        }
    }

    /// Deletes a record of which a deletion was refused for its edges, together with them, where
    /// its digest is known.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::HasEdges`] also where the record stores no key, by which its
    /// edges are found, or one that leads to another record.
    pub(super) fn delete_edges_of(
        &self,
        digest: &Digest,
        filter: Option<&Expression>,
        policy: &WritePolicy,
    ) -> Result<()> {
        let found = self
            .core
            .storage
            .get(digest, |entry| (entry.set_id(), key_of(&entry)))?;
        let (set_id, key) = found.ok_or_else(Error::not_found)?;
        let set = self.core.storage.set_name(set_id).unwrap_or_default();
        // Wire clients choose digest and key of a record.
        let key = key.filter(|key| self.core.key_hash.digest(&set, key) == *digest);
        let key = key.ok_or_else(|| Error::HasEdges {
            relations: Vec::new(),
            record: None,
        })?;
        let policy = policy.clone().filter(filter.cloned());
        if (crate::DELETE_WITH_EDGES)(&self.relation_guard(), &set, &key, &policy)? {
            Ok(())
        } else {
            Err(Error::not_found())
        }
    }
}

impl<'t> Transaction<'t> {
    pub(crate) fn relation_guard(&self) -> RelationGuard<'t> {
        RelationGuard {
            namespace: Namespace {
                core: Arc::clone(self.attempt().core()),
            },
            attempt: Some(self.attempt()),
        }
    }
}

impl Set {
    /// Deletes a record of which a deletion was refused for its edges, together with them. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// As for [`DeleteWithEdges`].
    pub(super) fn delete_edges_in(
        &self,
        attempt: Option<&TransactionRun>,
        key: &Key<'_>,
        policy: &WritePolicy,
    ) -> Result<bool> {
        let policy = policy.filtered_by(self.filter.as_ref());
        let namespace = Namespace {
            core: Arc::clone(&self.core.namespace),
        };
        let guard = RelationGuard { namespace, attempt };
        (crate::DELETE_WITH_EDGES)(&guard, self.name(), key, &policy)
    }
}
