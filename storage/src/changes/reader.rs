//! Reading the changes of a namespace in order: the blocks that writers have filled are merged by
//! log sequence number.
//!
//! The numbers in a block rise, since they are drawn under the lock of its lane. A read first notes
//! a number up to which it will go, and then visits every lane: a writer with a lower number has
//! left its lane, and its entries are there. The numbers of a group are drawn at once, so the noted
//! number never falls into a group.

use crate::changes::logged_change::{ChangeGroup, ChangeKind, LoggedChange};
use crate::changes::stream::BlockStream;
use crate::core::Core;
use crate::digest::Digest;
use crate::entry::Lsn;
use crate::epoch;
use crate::error::{Error, Result};
use crate::log::FilledBlock;
use crate::log::block::BlockPhase;
use crate::log::block_walk::BlockWalk;
use crate::rules::{StorageRule, keeps};
use crate::sets::feed::{Feed, TruncationEvent};
use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;

/// How many changes a read looks at: one that wants few of them must come to its end.
const LOOKED_AT_MAX: usize = 1 << 14;

/// When a reader is shown a change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Delivery {
    /// Once it is on stable storage: a power failure takes no change back that was shown.
    #[default]
    Durable,
    /// Once readers of records see it. A killed process loses no such change; a power failure may.
    Published,
}

/// The changes of one read.
#[derive(Clone, Debug, Default)]
pub struct ReadChanges {
    /// The changes in order. A group is never divided between two reads.
    pub changes: Vec<LoggedChange>,
    /// The next read goes on behind this number.
    pub position: Lsn,
    /// Why there are no more.
    pub end: ReadEnd,
}

/// Why a read has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReadEnd {
    /// It has found as many changes as it was asked for, or has looked at many.
    #[default]
    Full,
    /// There are no more that could be shown now.
    Last,
    /// The next one is in the log, and its writer is about to make it visible to readers of
    /// records.
    Unpublished,
}

/// Reads the changes of a namespace. After an error a new one has to be made, from the position
/// before.
#[derive(Debug)]
pub struct ChangeReader {
    core: Arc<Core>,
    delivery: Delivery,
    position: Lsn,
    /// Blocks that are read, in the order of their first numbers.
    streams: Vec<BlockStream>,
    /// The next group, as far as it was taken from the streams.
    next: Option<ChangeGroup>,
    walk: BlockWalk,
}

/// The limits of one read.
struct ReadFrame {
    to: u64,
    feed: Feed,
    /// Truncations that are not shown yet, newest first.
    truncations: Vec<TruncationEvent>,
}

impl ChangeReader {
    pub(super) fn new(core: Arc<Core>, delivery: Delivery, after: Lsn) -> Self {
        Self {
            core,
            delivery,
            position: after,
            streams: Vec::new(),
            next: None,
            walk: BlockWalk::default(),
        }
    }

    /// Returns the number up to which the reader has read all changes.
    #[must_use]
    pub const fn position(&self) -> Lsn {
        self.position
    }

    /// Has the task woken when there may be more to read after a read that has ended so. Changes
    /// that have come since that read do not wake it: read once more before waiting.
    pub fn wake_later(&self, end: ReadEnd, waker: &Waker) {
        match (end, self.delivery) {
            (ReadEnd::Last, Delivery::Durable) => self.core.log.syncer().followers.add(waker),
            _ => self.core.followers.published.add(waker),
        }
    }

    /// Reads the next changes of followed sets: `most` wanted ones, and a few more where a group
    /// ends. `is_wanted` gets the number of the set (`None`: all) and the digest.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] if some are not kept any more; [`Error::Damaged`] where the log
    /// cannot be read; the errors of a write to the device.
    pub fn read(
        &mut self,
        most: usize,
        is_wanted: impl Fn(Option<u16>, &Digest) -> bool,
    ) -> Result<ReadChanges> {
        self.check_kept()?;
        let mut frame = self.begin()?;
        let read = self.merge(&mut frame, most, &is_wanted);
        // A block may have been emptied while it was read.
        self.check_kept()?;
        let read = read?;
        self.position = read.position;
        let position = read.position.0;
        self.streams.retain(|stream| !stream.is_done(position));
        Ok(read)
    }

    fn check_kept(&self) -> Result<()> {
        let lost_to = self.core.sets.feed(|feed| feed.lost_to);
        if lost_to > self.position.0 {
            Err(self.lost(lost_to))
        } else {
            Ok(())
        }
    }

    #[cold]
    fn lost(&self, lost_to: u64) -> Error {
        Error::ChangesLost {
            namespace: self.core.name.clone(),
            position: self.position.0,
            lost_to,
        }
    }

    /// Notes how far to read, and finds the blocks to read.
    fn begin(&mut self) -> Result<ReadFrame> {
        let core = Arc::clone(&self.core);
        // Staged entries go to the devices before they are read, also while the namespace is
        // closed. A fork and an opening for reading write nothing.
        let may_flush = !core.opened_for_reading && !core.fork.is_child();
        let is_durable = self.delivery == Delivery::Durable || !may_flush;
        // No truncation is under way meanwhile.
        let (mut to, feed) = core.sets.feed(|feed| {
            let to = if is_durable {
                core.log.syncer().durable_lsn()
            } else {
                core.log.last_lsn()
            };
            (to, feed.clone())
        });
        let mut truncations = feed.truncations.clone();
        truncations.retain(|event| event.lsn > self.position.0 && feed.covers_truncation(event));
        if is_durable && let Some(event) = truncations.iter().find(|event| event.noted > to) {
            to = to.min(event.lsn - 1);
        }
        truncations.retain(|event| event.lsn <= to);
        truncations.reverse();
        // After the number was noted: a writer that drew a lower one has left its lane by now.
        let tails = if is_durable {
            core.log.filled_blocks()
        } else {
            core.log.flush_lanes()?
        };
        if !keeps(StorageRule::NumberBeforeLanes) {
            to = core.log.last_lsn();
        }
        self.reach(&tails, to);
        Ok(ReadFrame {
            to,
            feed,
            truncations,
        })
    }

    /// Finds how far blocks can be read. `tails`: the blocks that lanes are filling.
    fn reach(&mut self, tails: &[FilledBlock], to: u64) {
        let core = Arc::clone(&self.core);
        let known = std::mem::take(&mut self.streams).into_iter();
        let mut streams: HashMap<_, _> = known
            .map(|stream| ((stream.id, stream.incarnation), stream))
            .collect();
        for tail in tails {
            let block = core.log.block(tail.id);
            let Some(block) = block.filter(|block| !block.holds_copies()) else {
                continue;
            };
            let new = || BlockStream::new(tail.id, tail.incarnation, block.change_lsns().0);
            let stream = streams.entry((tail.id, tail.incarnation));
            stream.or_insert_with(new).reach(tail.end, None);
        }
        // Behind the lanes: a block that was closed in between is found here.
        for (id, block) in core.log.blocks() {
            let is_closed = matches!(block.phase(), BlockPhase::Closed | BlockPhase::Draining);
            let ((first, last), incarnation) = (block.change_lsns(), block.incarnation());
            let holds_any = first <= to && first <= last && last > self.position.0;
            let is_known = streams.contains_key(&(id, incarnation));
            if is_closed && incarnation != 0 && (holds_any || is_known) {
                let new = || BlockStream::new(id, incarnation, first);
                let stream = streams.entry((id, incarnation)).or_insert_with(new);
                stream.reach(block.entries_end(), Some(last));
            }
        }
        self.streams = streams.into_values().collect();
        self.streams.sort_by_key(|stream| stream.first_lsn);
    }

    fn merge(
        &mut self,
        frame: &mut ReadFrame,
        most: usize,
        is_wanted: &impl Fn(Option<u16>, &Digest) -> bool,
    ) -> Result<ReadChanges> {
        let mut read = ReadChanges {
            position: self.position,
            ..ReadChanges::default()
        };
        let mut looked_at = 0;
        while read.changes.len() < most && looked_at < LOOKED_AT_MAX {
            let is_found = match self.find_next(frame, read.position) {
                // The next read has it.
                Err(_) if read.position > self.position => break,
                found => found?,
            };
            if !is_found {
                read.end = ReadEnd::Last;
                read.position = read.position.max(Lsn(frame.to));
                break;
            }
            let core = &self.core;
            let Some(group) = self.next.take_if(|group| is_published(core, group)) else {
                read.end = ReadEnd::Unpublished;
                break;
            };
            read.position = Lsn(group.last);
            looked_at += group.changes.len();
            let changes = group.into_changes();
            let wanted = changes.filter(|change| is_wanted(change.set_id, &change.digest));
            read.changes.extend(wanted);
        }
        self.add_keys(&mut read.changes);
        Ok(read)
    }

    /// Completes the next group in `self.next`. Returns false if there is no further one up to the
    /// end of the read.
    fn find_next(&mut self, frame: &mut ReadFrame, position: Lsn) -> Result<bool> {
        while self.next.as_ref().is_none_or(|group| group.has_next) {
            let piece = self.take_lowest(frame)?;
            let taken = self.next.as_ref().map_or(position.0, |group| group.last);
            // An opening has appended the neighbours of a damaged entry again.
            if piece.as_ref().is_some_and(|piece| piece.last <= taken) {
                continue;
            }
            match (&mut self.next, piece) {
                (None, None) => return Ok(false),
                (None, piece) => self.next = piece,
                (Some(group), Some(piece)) if group.goes_on_in(&piece) => group.join(piece),
                (Some(ChangeGroup { last, .. }), _) => {
                    let last = *last;
                    // A write that fails inside a group has the namespace refuse all further ones.
                    self.core.log.syncer().check(&self.core.name)?;
                    return Err(self.lost(last));
                }
            }
        }
        Ok(true)
    }

    /// Takes the group, piece of a group or truncation with the lowest number.
    fn take_lowest(&mut self, frame: &mut ReadFrame) -> Result<Option<ChangeGroup>> {
        loop {
            let truncation = frame.truncations.last();
            let mut lowest = (truncation.map_or(u64::MAX, |event| event.lsn), None);
            for stream in &mut self.streams {
                // A block that begins behind the lowest known number need not be read yet.
                if lowest.0 < stream.first_lsn {
                    break;
                }
                if let Some(lsn) = stream.next_lsn().filter(|lsn| *lsn < lowest.0) {
                    lowest = (lsn, Some(stream));
                }
            }
            let Some(stream) = lowest.1 else {
                let event = frame.truncations.pop();
                return Ok(event.as_ref().map(ChangeGroup::of_truncation));
            };
            if let Some(group) = stream.pop() {
                return Ok(Some(group));
            }
            let range = (self.position.0, frame.to);
            stream.fill(&self.core.log, &mut self.walk, &frame.feed, range)?;
        }
    }

    /// Looks up the keys that edits do not have with them.
    fn add_keys(&self, changes: &mut [LoggedChange]) {
        let puts = changes.iter_mut();
        for change in puts.filter(|change| change.kind == ChangeKind::Put && change.key.is_none()) {
            let guard = epoch::pin();
            if let Ok(Some(visible)) = self.core.visible(&change.digest, &guard) {
                change.key = visible.view().key().map(<[u8]>::to_vec);
            }
        }
    }
}

/// Whether readers of records see all changes of a group, or later ones of the same records.
fn is_published(core: &Core, group: &ChangeGroup) -> bool {
    let mut changes = group.changes.iter();
    if keeps(StorageRule::GroupsPublished) {
        changes.all(|change| is_visible(core, change))
    } else {
        changes.next().is_none_or(|change| is_visible(core, change))
    }
}

/// Whether the writer of a change has unlocked its record, or has put the change in place.
fn is_visible(core: &Core, change: &LoggedChange) -> bool {
    if !keeps(StorageRule::Published) {
        return true;
    }
    let guard = epoch::pin();
    let slot = {
        let mut partition = core.index.lock(&change.digest);
        // A writer publishes before it unlocks.
        if !partition.held().is_held(&change.digest) {
            return true;
        }
        core.slot_in(&partition, &change.digest, &guard)
    };
    let Some(slot) = slot else {
        // The record was truncated, or its tombstone forgotten, before the lock that is there now.
        let (lsn, last_update_ms) = (change.position.lsn, change.last_update_ms);
        let set = change.set_id.unwrap_or_default();
        return change.kind != ChangeKind::Put || core.sets.hides(set, lsn, last_update_ms);
    };
    let entry = core.log.entry(slot.location, &guard);
    entry.is_some_and(|entry| entry.view().lsn() >= change.position.lsn)
}
