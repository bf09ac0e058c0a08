//! What a query asks an index for, and what an entry of the index is to the record that it names.

use std::collections::HashSet;

use parking_lot::Mutex;
use spikelet_storage::{Digest, EntryView};

use super::super::core::{NamespaceCore, expired};
use super::super::indexes::Index;
use crate::Result;
use crate::index::{EntryList, EntrySelection};
use crate::record::{RecordView, ShardRole, parse_with_role};

/// How an entry fits the record that it names.
#[derive(Clone, Copy, Debug)]
pub(super) enum EntryStanding<'a> {
    /// The record is shown at this entry.
    Shown(RecordView<'a>),
    /// It is shown at another one, which comes before, or does not match, has expired, or is not of
    /// the set.
    NotShown,
    /// The record has no such entry.
    Absent,
}

/// The roots that a query by a range has shown, or will not show: they have entries in many
/// companions.
#[derive(Debug)]
pub(super) struct MetRoots {
    pub(super) roots: Mutex<HashSet<Digest>>,
    /// Whether an earlier page may have shown the root at an entry before.
    pub(super) looks_back: bool,
}

/// A query's request to an index, and the roots that it has met.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySearch<'s> {
    pub(super) index: &'s Index,
    pub(super) asked: &'s EntrySelection,
    pub(super) met: &'s MetRoots,
    /// As in the query.
    pub(super) set_id: Option<u16>,
    pub(super) descending: bool,
    pub(super) at_each: bool,
}

impl MetRoots {
    pub(super) fn new(looks_back: bool) -> Self {
        Self {
            roots: Mutex::default(),
            looks_back,
        }
    }
}

impl NamespaceCore {
    /// How an entry fits a record; without an entry, whether the record has any that is wanted.
    /// `scratch` is empty.
    pub(super) fn standing<'a>(
        &self,
        search: EntrySearch<'_>,
        entry: Option<&[u8]>,
        (stored, now_ms): (&EntryView<'a>, u64),
        scratch: &mut EntryList,
    ) -> Result<EntryStanding<'a>> {
        let EntrySearch { index, asked, .. } = search;
        if expired(stored, now_ms) {
            return Ok(EntryStanding::NotShown);
        }
        if !index.is_of(stored.set_id()) {
            return Ok(EntryStanding::Absent);
        }
        if search.set_id.is_some_and(|id| id != stored.set_id()) {
            return Ok(EntryStanding::NotShown);
        }
        let (record, role) = parse_with_role(stored.payload());
        let record = record.ok_or_else(|| RecordView::malformed(stored.payload()))?;
        if index.reader.is_plain() && asked.geometry.is_none() {
            if role != ShardRole::Companion {
                index.plain_entry_of(record, &stored.digest(), scratch)?;
            }
            let own = scratch.last();
            let is_wanted = |own| asked.ranges.contains(own);
            return Ok(match entry {
                // It was taken from the ranges, and is the only one.
                Some(entry) if own == Some(entry) => EntryStanding::Shown(record),
                Some(_) => EntryStanding::Absent,
                None if own.is_some_and(is_wanted) => EntryStanding::Shown(record),
                None => EntryStanding::NotShown,
            });
        }
        let set_name = self.set_name_for(index, stored.set_id());
        let facts = self.facts(stored, &set_name, 0);
        if role != ShardRole::Companion {
            index.entries_of_user(record, &facts, scratch)?;
        }
        if entry.is_some_and(|entry| !scratch.contains(entry)) {
            return Ok(EntryStanding::Absent);
        }
        let mut asked_for = scratch.iter().filter(|entry| asked.ranges.contains(entry));
        let shown = if search.descending {
            asked_for.last()
        } else {
            asked_for.next()
        };
        let is_place = shown.is_some() && (entry.is_none() || search.at_each || shown == entry);
        let is_shown = is_place
            && asked.holds(
                &index.reader,
                record,
                &facts,
                entry.filter(|_| search.at_each),
            )?;
        Ok(if is_shown {
            EntryStanding::Shown(record)
        } else {
            EntryStanding::NotShown
        })
    }
}
