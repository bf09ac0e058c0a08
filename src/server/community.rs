//! A server that behaves as Aerospike's Community Edition where that differs from this one, for
//! tests of clients.
//!
//! * Requests of transactions, and durable deletes, are refused with code 25.
//! * Deleted records are back after a restart, unless they were written again: that edition takes a
//!   deleted record out of its index in memory, and leaves it on the device. Here a deleted version
//!   goes into a file beside the store, and the next start writes it back, unless a truncation
//!   behind the delete has removed it.
//! * Where the namespace is in memory, a list with a persisted index is refused with code 4: 8.1.2
//!   dies of it.
//!
//! Requests about single records and rows of batches behave so; operations on what a query finds do
//! not.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use spikelet_storage::Lsn;

use super::message::{Head, Info2, Message, Verb};
use super::ops::{WireOp, code};
use super::reply::AnswerHeader;
use super::result_code;
use super::transaction::part::TransactionPart;
use crate::call::{Payload, Trust};
use crate::cdt::code as cdt;
use crate::engine::{
    Acknowledge, DigestAddress, Existing, ReadTouch, SavedVersion, WriteSavedPolicy,
};
use crate::operation::{Checked, OperationResults};
use crate::record::RecordView;
use crate::value::FLAG_PERSIST_INDEX;
use crate::{Digest, Error, Namespace, Result};

/// A version of a record that was deleted, as the file has it behind its length in bytes: `u32`,
/// little-endian.
#[derive(Debug, Deserialize, Serialize)]
struct DeletedVersion {
    digest: [u8; 20],
    /// The last number of the log when the record was there: truncations count from it on.
    lsn: u64,
    last_update_ms: u64,
    set: String,
    key: Option<Vec<u8>>,
    generation: u16,
    void_time: u32,
    bins: Vec<u8>,
}

/// What a namespace that behaves as the Community Edition keeps.
pub(crate) struct CommunityEdition {
    /// The file of deleted versions; `None` where the namespace is in memory. Clients write under
    /// this lock, one after the other.
    deleted: Option<Mutex<File>>,
}

impl CommunityEdition {
    /// Brings back the records deleted before the restart, unless the namespace does not take them:
    /// another record may have the key of a unique index by now. `dir` is the directory of the
    /// store.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the file of deleted versions cannot be read or written;
    /// [`Error::Storage`] and [`Error::StopWrites`] of the writes.
    pub(crate) fn start(namespace: &Namespace, dir: Option<&Path>) -> Result<Self> {
        let Some(dir) = dir else {
            return Ok(Self { deleted: None });
        };
        let path = dir.join(format!("{}.deleted", namespace.name()));
        let cannot = |error| Error::parameter(format!("cannot use {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        let mut file = options.open(&path).map_err(cannot)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(cannot)?;
        for version in deleted_versions(&bytes).iter().rev() {
            match bring_back(namespace, version) {
                Err(error @ (Error::Storage(_) | Error::StopWrites { .. })) => return Err(error),
                Err(error) => tracing::error!(
                    "record {} of set {:?}, which was deleted, cannot come back: {error}",
                    Digest::new(version.digest),
                    version.set
                ),
                Ok(()) => {}
            }
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .map_err(cannot)?;
        Ok(Self {
            deleted: Some(Mutex::new(file)),
        })
    }

    /// Refuses by a code what the Community Edition refuses without a look at the record.
    pub(crate) fn check(
        &self,
        message: &Message<'_>,
        part: TransactionPart,
    ) -> std::result::Result<(), u8> {
        let head = &message.head;
        match part {
            // The monitor of a transaction is a record like others.
            TransactionPart::None | TransactionPart::Monitor => {}
            _ => return Err(result_code::ENTERPRISE_ONLY),
        }
        if head.verb() == Verb::Delete && head.info2.contains(Info2::DURABLE_DELETE) {
            return Err(result_code::ENTERPRISE_ONLY);
        }
        if self.deleted.is_none() && message.ops.iter().any(|op| persists_list_index(&op)) {
            tracing::error!(
                "a list with a persisted index in memory: the Community Edition dies of it"
            );
            return Err(result_code::PARAMETER);
        }
        Ok(())
    }

    /// Runs a write or delete, and keeps the version that there was if the record is gone
    /// afterwards: the generation of the answer is 0 then.
    pub(crate) fn keeping_deleted<E: From<Error>>(
        &self,
        namespace: &Namespace,
        digest: &Digest,
        write: impl FnOnce() -> std::result::Result<AnswerHeader, E>,
    ) -> std::result::Result<AnswerHeader, E> {
        let Some(deleted) = &self.deleted else {
            return write();
        };
        let mut file = deleted.lock();
        let before = namespace.read_scanned(digest, None, |record| {
            let metadata = record.metadata();
            let version = DeletedVersion {
                digest: *digest.as_bytes(),
                lsn: namespace.last_lsn().get(),
                last_update_ms: metadata.last_update_ms,
                set: namespace.set_name_of(record.set_id()).unwrap_or_default(),
                key: record.key().map(<[u8]>::to_vec),
                generation: metadata.generation,
                void_time: metadata.void_time,
                bins: record.view()?.as_bytes().to_vec(),
            };
            rmp_serde::to_vec(&version).map_err(|error| Error::parameter(error.to_string()))
        });
        let before = match before.and_then(Option::transpose) {
            // It may be deleted and replaced, and then there is nothing to come back.
            Err(error) if error.is_damage() => None,
            before => before?,
        };
        let answer = write()?;
        if let (Some(before), 0) = (before, answer.generation) {
            append(&mut file, &before).unwrap_or_else(|error| {
                tracing::error!("record {digest} was deleted and cannot come back: {error}");
            });
        }
        Ok(answer)
    }

    /// Refuses by a code a write with this header that asks for a durable delete and leaves a
    /// record without bins.
    pub(crate) fn check_write(
        &self,
        head: &Head,
        namespace: &Namespace,
        address: &DigestAddress<'_>,
        operations: &Checked<'_>,
    ) -> std::result::Result<(), u8> {
        if !head.info2.contains(Info2::DURABLE_DELETE) {
            return Ok(());
        }
        let read = namespace.read_at(address, ReadTouch::Never, |record| {
            let set_name = namespace.set_name_or(record.set_id(), address.set);
            let facts = namespace.facts(record, &set_name);
            let (mut body, mut results) = (Vec::new(), OperationResults::default());
            let operations = operations.seeing(&facts);
            operations.execute(Some(record.view()?), &mut body, &mut results)
        });
        match read {
            Ok(0) => Err(result_code::ENTERPRISE_ONLY),
            // The write itself is refused, or makes the record.
            _ => Ok(()),
        }
    }
}

/// Appends a version whole, or nothing of it: a part of one would hide later versions.
fn append(file: &mut File, version: &[u8]) -> std::io::Result<()> {
    let before = file.metadata()?.len();
    let len = u32::try_from(version.len()).unwrap_or(u32::MAX);
    let entry = [&len.to_le_bytes()[..], version].concat();
    file.write_all(&entry).or_else(|error| {
        file.set_len(before)?;
        Err(error)
    })
}

/// Returns the versions in the file, the last of which may be cut short by the end of the process.
fn deleted_versions(mut bytes: &[u8]) -> Vec<DeletedVersion> {
    let mut versions = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk()
        && let Some((version, rest)) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)
        && let Ok(version) = rmp_serde::from_slice(version)
    {
        versions.push(version);
        bytes = rest;
    }
    versions
}

fn bring_back(namespace: &Namespace, version: &DeletedVersion) -> Result<()> {
    let (lsn, last_update_ms) = (Lsn::new(version.lsn), version.last_update_ms);
    if namespace.is_past(version.void_time)
        || namespace.is_truncated(&version.set, lsn, last_update_ms)
    {
        return Ok(());
    }
    let saved = SavedVersion {
        digest: Digest::new(version.digest),
        key: version.key.as_deref(),
        generation: version.generation,
        void_time: version.void_time,
        bins: RecordView::parse(&version.bins)?,
    };
    let policy = WriteSavedPolicy {
        existing: Existing::Stays,
        override_shards: true,
        acknowledge: Acknowledge::Durable,
    };
    namespace
        .write_saved(&version.set, &saved, policy)
        .map(drop)
}

/// Whether an operation makes a list with a persisted index.
fn persists_list_index(op: &WireOp<'_>) -> bool {
    if op.code != code::CDT_MODIFY {
        return false;
    }
    let Ok(Payload::Call(mut call)) = Payload::parse(op.value, Trust::Foreign) else {
        return false;
    };
    let skipped = match u8::try_from(call.operation) {
        Ok(cdt::LIST_SET_TYPE) => 0,
        Ok(cdt::LIST_APPEND | cdt::LIST_APPEND_ITEMS) => 1,
        _ => return false,
    };
    let mut flags = || {
        for _ in 0..skipped {
            call.arguments.element()?;
        }
        call.arguments.int()
    };
    call.path.levels() == 0 && flags().is_ok_and(|flags| flags & i64::from(FLAG_PERSIST_INDEX) != 0)
}
