//! The path of a write, in the order in which things happen: lock, read what is there, check the policy, edit, check the
//! size, put, unlock, durability. One record, one version: all of it or nothing.

use std::cell::RefCell;

use spikelet_storage::{EntryView, NewVersion};

use crate::record::{Key, RecordView};
use crate::{Error, Result};

use super::namespace::{Core, metadata_of};
use super::policy::WritePolicy;
use super::set::SetCore;

/// A scratch buffer that has grown beyond this is not kept.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends an empty buffer that keeps its memory from call to call. A call within a call gets a fresh one.
fn with_scratch<R>(run: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = SCRATCH
        .try_with(|scratch| scratch.take())
        .unwrap_or_default();
    buffer.clear();
    let result = run(&mut buffer);
    if buffer.capacity() <= SCRATCH_BYTES_KEPT {
        // A thread that is ending has no place for it any more.
        let _ = SCRATCH.try_with(|scratch| scratch.replace(buffer));
    }
    result
}

/// What an edit made of a record: the new body is in the buffer, or nothing is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The buffer holds the new body, of so many bins.
    Body(u32),
    /// No bins are left, and that there were none before is no error.
    Emptied,
}

impl SetCore {
    /// Writes one record and returns its generation, 0 if it is gone. `must_exist`: whatever the policy says. `edit` gets the live record (its bins, or none if they are to be replaced) and writes the new
    /// body to the buffer.
    pub(super) fn write<R>(
        &self,
        key: &Key<'_>,
        policy: &WritePolicy,
        must_exist: bool,
        edit: impl FnOnce(Option<RecordView<'_>>, &mut Vec<u8>) -> Result<(Edited, R)>,
    ) -> Result<(u16, R)> {
        with_scratch(|body| self.write_by(body, key, policy, must_exist, edit))
    }

    fn write_by<R>(
        &self,
        body: &mut Vec<u8>,
        key: &Key<'_>,
        policy: &WritePolicy,
        must_exist: bool,
        edit: impl FnOnce(Option<RecordView<'_>>, &mut Vec<u8>) -> Result<(Edited, R)>,
    ) -> Result<(u16, R)> {
        let core = &self.namespace;
        let digest = core.key_hash.digest(&self.name, key);
        let set_id = self.id_to_write()?;
        let lock = core
            .storage
            .lock(&digest, policy.total_timeout)
            .map_err(|error| core.refused(error, policy))?;
        let now_ms = core.clock.now_ms();

        let entry = match lock.entry() {
            // What is replaced unseen may be damaged.
            Err(spikelet_storage::Error::Damaged { .. }) if policy.replaces_unseen() => None,
            entry => entry?,
        };
        let live = entry.filter(|entry| !expired(entry, now_ms));
        let found = live.map(|entry| metadata_of(&entry));
        if must_exist && found.is_none() {
            return Err(Error::NotFound);
        }
        policy.check(found.map(|found| found.generation))?;
        let stored_key = live.and_then(|entry| entry.key());
        if stored_key.is_some_and(|stored| !key.is_stored_as(stored)) {
            return Err(Error::KeyMismatch);
        }
        let keeps_key = policy.send_key || stored_key.is_some();
        let old_void_time = found.map(|found| found.void_time);
        let void_time =
            policy
                .expiration
                .void_time(now_ms, core.default_time_to_live, old_void_time)?;

        let old = live
            .filter(|_| !policy.replaces())
            .map(|entry| RecordView::parse(entry.payload()))
            .transpose()?;
        let (edited, result) = edit(old, body)?;
        let generation = match edited {
            // Without bins there is no record.
            Edited::Body(0) if found.is_none() => return Err(Error::NotFound),
            Edited::Emptied if found.is_none() => return Ok((0, result)),
            Edited::Body(0) | Edited::Emptied => {
                lock.delete(now_ms)?;
                return Ok((0, result));
            }
            Edited::Body(_) => {
                found.map_or(1, |found| found.generation.checked_add(1).unwrap_or(1))
            }
        };
        // Never backwards on one record, and never before what a truncation has hidden.
        let last_update_ms = now_ms
            .max(found.map_or(0, |found| found.last_update_ms))
            .max(core.storage.truncated_before_ms(set_id));
        with_stored_key(keeps_key.then_some(key), |stored_key| {
            core.check_size(stored_key, body)?;
            let key = stored_key;
            let version = NewVersion {
                generation,
                void_time,
                last_update_ms,
                set_id,
                key,
                payload: body,
            };
            lock.put(&version).map_err(Error::from)
        })?;
        Ok((generation, result))
    }

    /// Deletes a record. Returns whether there was one.
    pub(super) fn delete(&self, key: &Key<'_>, policy: &WritePolicy) -> Result<bool> {
        let core = &self.namespace;
        let digest = core.key_hash.digest(&self.name, key);
        let lock = core
            .storage
            .lock(&digest, policy.total_timeout)
            .map_err(|error| core.refused(error, policy))?;
        let now_ms = core.clock.now_ms();
        // A record whose bytes are damaged can still be deleted, unless the policy depends on them.
        if let Ok(entry) = lock.entry() {
            let Some(live) = entry.filter(|entry| !expired(entry, now_ms)) else {
                return Ok(false);
            };
            policy.check_generation(live.generation())?;
            if live.key().is_some_and(|stored| !key.is_stored_as(stored)) {
                return Err(Error::KeyMismatch);
            }
        } else {
            policy.check_generation(0)?;
        }
        Ok(lock.delete(now_ms)?)
    }
}

/// Keys up to this many bytes are put into their stored form on the stack.
const STACK_KEY_BYTES: usize = 64;

/// Lends the stored form of a key.
fn with_stored_key<R>(key: Option<&Key<'_>>, run: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let Some(key) = key else { return run(None) };
    let mut stack = [0u8; STACK_KEY_BYTES];
    if let Some(length) = key.store_in(&mut stack) {
        return run(stack.get(..length));
    }
    let mut stored = Vec::new();
    key.write_stored(&mut stored);
    run(Some(&stored))
}

/// Expired records are invisible at once, whenever the expiry pass gets to them.
pub(super) fn expired(entry: &EntryView<'_>, now_ms: u64) -> bool {
    let void_time = entry.void_time();
    void_time != 0 && u64::from(void_time) < now_ms / 1000
}

impl Core {
    /// Refuses a record that is too big, and names the bin to blame.
    fn check_size(&self, key: Option<&[u8]>, body: &[u8]) -> Result<()> {
        let size = ENTRY_HEADER_BYTES + key.map_or(0, |key| key.len() as u64) + body.len() as u64;
        if size <= self.max_record_bytes {
            return Ok(());
        }
        let largest_bin = RecordView::parse(body)
            .ok()
            .and_then(|view| view.largest_bin());
        Err(Error::RecordTooBig {
            size,
            limit: self.max_record_bytes,
            largest_bin,
        })
    }
}

/// What storage puts in front of each record.
const ENTRY_HEADER_BYTES: u64 = 56;
