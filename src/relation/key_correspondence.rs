//! `KeyCorrespondence`: records of one key in several sets or namespaces.

use super::keys::{REMOVED, has_removed_alone, read_one};
use super::writes::{delete_with, puts};
use crate::error::if_there;
use crate::operations::{delete_all_bins, delete_bin, put};
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::Record;
use crate::{Bins, Error, Key, RecordSet, RecordStore, Result, WritePolicy};

/// Records that belong together by having the same key in several sets, or in sets of several
/// namespaces: a profile and its avatar, a user and whom the user follows. Each set has its own
/// policy, and so its own time to live.
///
/// Documents: Riak, *Relationships* (key correspondence) and *Key/Value Modeling* (bucket types as
/// additional namespaces); Aerospike, *1:1 relationships* (separate records, split namespaces).
/// Cost: one operation a set. Where both are always read together, live equally long and are small,
/// keep them in one record.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::KeyCorrespondence;
/// use spikelet::{Expiration, Store, WritePolicy, bins};
/// use std::time::Duration;
///
/// let store = Store::in_memory()?;
/// let month = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(30 * 86_400)));
/// let user = KeyCorrespondence::new()
///     .set(&store, "users", WritePolicy::default())?
///     .set(&store, "sessions", month)?;
/// user.put("users", "alice", bins! { "name" => "Alice" })?;
/// user.put("sessions", "alice", bins! { "token" => "x" })?;
/// let [profile, session] = &user.get("alice")?[..] else { panic!() };
/// assert!(profile.is_some() && session.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeyCorrespondence<R> {
    sets: Vec<CorrespondingSet<R>>,
}

#[derive(Clone, Debug)]
struct CorrespondingSet<R> {
    name: Box<str>,
    records: R,
    policy: WritePolicy,
}

impl<R: RecordSet> Default for KeyCorrespondence<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RecordSet> KeyCorrespondence<R> {
    /// Returns a correspondence of no sets yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { sets: Vec::new() }
    }

    /// Adds a set of a store, and the policy by which it is written. Sets of two namespaces need
    /// two names.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a set that is there already, or a name that is not allowed.
    pub fn set<S: RecordStore<Records = R>>(
        mut self,
        store: &S,
        name: &str,
        policy: WritePolicy,
    ) -> Result<Self> {
        self = self.set_as(name, store.records(name)?, policy)?;
        Ok(self)
    }

    /// Adds a set under a name of its own, such as the same set of another namespace.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is one of this name already.
    pub fn set_as(mut self, name: &str, records: R, policy: WritePolicy) -> Result<Self> {
        if self.sets.iter().any(|set| *set.name == *name) {
            return Err(Error::parameter(format!(
                "set {name:?} is in this correspondence already: give the second one another name"
            )));
        }
        self.sets.push(CorrespondingSet {
            name: name.into(),
            records,
            policy,
        });
        Ok(self)
    }

    /// Returns the records of this key, in the order of the sets. One operation a set.
    ///
    /// # Errors
    /// The first error of reading a record.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Vec<Option<Record>>> {
        let key = key.into();
        let read = |set: &CorrespondingSet<R>| -> Result<Option<Record>> {
            let found = read_one(&set.records, &key, None)?;
            Ok(found.filter(|record| !has_removed_alone(record)))
        };
        self.sets.iter().map(read).collect()
    }

    /// Writes bins of the record of this key in one of the sets, by the set's policy.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a set that is not in the correspondence; the refusals of a write.
    pub fn put<'k>(
        &self,
        set: &str,
        key: impl Into<Key<'k>>,
        bins: impl TryInto<Bins, Error = Error>,
    ) -> Result<()> {
        let Some(set) = self.sets.iter().find(|known| *known.name == *set) else {
            return Err(Error::parameter(format!(
                "set {set:?} is not in this correspondence: add it first"
            )));
        };
        let mut puts = puts(&bins.try_into()?);
        let replaces = matches!(
            set.policy.record_exists_action,
            RecordExistsAction::Replace | RecordExistsAction::ReplaceOnly
        );
        if !replaces && set.records.may_bring_back(&set.policy) {
            puts.push(delete_bin(REMOVED));
        }
        set.records.operate_on(&set.policy, &key.into(), &puts)?;
        Ok(())
    }

    /// Deletes the records of this key, from the last set to the first. Returns how many there
    /// were. Repeat it after an error: deleted records are passed over. Where a restart may bring
    /// deleted records back, as on a cluster without durable deletes, each loses its bins first:
    /// three operations a set.
    ///
    /// # Errors
    /// The refusals of a delete.
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<u64> {
        let key = key.into();
        let mut deleted = 0;
        for set in self.sets.iter().rev() {
            deleted += u64::from(set.delete(&key)?);
        }
        Ok(deleted)
    }
}

impl<R: RecordSet> CorrespondingSet<R> {
    /// Returns whether there was a record. A filter of the policy that does not hold is an error.
    fn delete(&self, key: &Key<'_>) -> Result<bool> {
        let Self {
            records, policy, ..
        } = self;
        // The existence action is for what a put meets.
        let deleting = policy
            .clone()
            .record_exists_action(RecordExistsAction::Update);
        if !records.may_bring_back(policy) {
            let deleted = if_there(records.operate_on(&deleting, key, &[delete_all_bins()]));
            return deleted.map(|deleted| deleted.is_some());
        }
        let Some(found) = read_one(records, key, None)? else {
            return Ok(false);
        };
        let was_there = !has_removed_alone(&found);
        let mut left = found.metadata().generation;
        if was_there {
            let emptying = deleting.record_exists_action(RecordExistsAction::ReplaceOnly);
            match if_there(records.operate_on(&emptying, key, &[put(REMOVED, 1)]))? {
                Some(emptied) => left = emptied.generation,
                None => return Ok(false),
            }
        }
        // As it was left: others may write over it meanwhile.
        let as_left = WritePolicy::default()
            .total_timeout(policy.total_timeout)
            .generation(GenerationPolicy::ExpectEqual(left.into()));
        match delete_with(records, &as_left, key) {
            Ok(_) | Err(Error::Generation { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(was_there)
    }
}
