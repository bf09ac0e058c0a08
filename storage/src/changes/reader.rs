//! Reading the changes of a namespace in order: the blocks that lanes have filled are merged by log sequence number.
//!
//! The numbers of one block rise, since they are drawn under the lock of its lane. A read first notes a number up to which it
//! will go, and then visits every lane: whoever has drawn a number below has left its lane, and its entry is there.

use crate::changes::feed::{Feed, TruncationEvent};
use crate::changes::guards::{Guard, keeps};
use crate::changes::stream::{BlockStream, ChangeKind, Item, RecordChange};
use crate::core::Core;
use crate::digest::Digest;
use crate::epoch;
use crate::error::{Error, Result};
use crate::location::UNIT_BYTES;
use crate::log::FilledBlock;
use crate::log::block::{BlockId, Format, Phase};
use crate::log::entry::Lsn;
use crate::maintenance::block_walk::BlockWalk;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::task::Waker;

/// Which changes a reader is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Delivery {
    /// Those that are on stable storage: a power failure takes no change back that was shown.
    #[default]
    Durable,
    /// Those that readers of records see. A killed process loses none of them; a power failure may.
    Published,
}

/// Where a reader stands: it has read all changes up to `position`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ChangeCursor {
    /// The number of the last change read.
    pub position: Lsn,
    /// Members of groups that end behind `position` have higher numbers than this one, which is not above `position`. The
    /// log is needed from here on.
    pub scan_after: Lsn,
}

impl ChangeCursor {
    /// A cursor behind the change with this number.
    #[must_use]
    pub const fn after(position: Lsn) -> Self {
        Self {
            position,
            scan_after: position,
        }
    }
}

/// The place of a change among all changes of its namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChangePosition {
    /// The log sequence number of the change, or of the group it is a member of: that of its commit.
    pub lsn: Lsn,
    /// Its number among the changes of its group, from 0 on.
    pub member: u32,
}

/// A change that was committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedChange {
    /// Where it stands.
    pub position: ChangePosition,
    /// The number of its group: what was committed together has the same one.
    pub group: Option<u64>,
    /// The digest of the record; all zero for a truncation.
    pub digest: Digest,
    /// The number of the set. `None`: a truncation of all sets.
    pub set_id: Option<u16>,
    /// What happened.
    pub kind: ChangeKind,
    /// The generation of the record after it; 0 for what removes records.
    pub generation: u16,
    /// When it happened, in milliseconds since 2010-01-01 UTC; 0 for a truncation.
    pub last_update_ms: u64,
    /// When the record expires, in seconds since 2010-01-01 UTC; 0 = never.
    pub void_time: u32,
    /// The stored user key, if the record keeps it and it is known.
    pub key: Option<Vec<u8>>,
}

/// What a read has found.
#[derive(Clone, Debug, Default)]
pub struct ReadChanges {
    /// The changes in order. Those of a group follow one another, and are not divided between two reads.
    pub changes: Vec<LoggedChange>,
    /// Where the next read goes on.
    pub cursor: ChangeCursor,
    /// Why there are no more.
    pub end: ReadEnd,
}

/// Why a read has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ReadEnd {
    /// It has found as many changes as it was to.
    #[default]
    Full,
    /// There are no more that could be shown now.
    Last,
    /// The next one is in the log, and its writer is about to make it visible to readers of records.
    Unpublished,
}

/// Reads the changes of a namespace. After an error a new one has to be made, from the cursor before.
#[derive(Debug)]
pub struct ChangeReader {
    core: Arc<Core>,
    delivery: Delivery,
    cursor: ChangeCursor,
    /// The log is read from behind this number.
    began_after: u64,
    /// The number of the last item that was taken from the log, whatever became of it.
    taken_to: u64,
    streams: Vec<BlockStream>,
    groups: BTreeMap<u64, Vec<RecordChange>>,
    walk: BlockWalk,
}

/// What a read goes by.
struct ReadFrame {
    to: u64,
    feed: Feed,
    /// Truncations that are not shown yet, oldest first.
    truncations: Vec<TruncationEvent>,
    /// Groups whose writer had left before the read began: what has no commit entry was given up.
    left: BTreeSet<u64>,
}

/// A group has members before where the reader began.
struct EarlierMembers {
    /// Its number, which is lower than those of its members.
    of: u64,
}

/// The next thing to be shown.
enum Next {
    Stream(usize),
    Truncation,
}

impl ChangeReader {
    pub(super) fn new(core: Arc<Core>, delivery: Delivery, cursor: ChangeCursor) -> Self {
        Self {
            core,
            delivery,
            began_after: cursor.scan_after.0,
            taken_to: cursor.scan_after.0,
            cursor,
            streams: Vec::new(),
            groups: BTreeMap::new(),
            walk: BlockWalk::default(),
        }
    }

    /// Returns where the reader stands.
    #[must_use]
    pub const fn cursor(&self) -> ChangeCursor {
        self.cursor
    }

    /// Has the task woken when there may be more to read after a read that has ended so. What has come since that read wakes
    /// nobody: read once more before waiting.
    pub fn wake_later(&self, end: ReadEnd, waker: &Waker) {
        match (end, self.delivery) {
            (ReadEnd::Last, Delivery::Durable) => self.core.log.syncer().followers.add(waker),
            _ => self.core.followers.published.add(waker),
        }
    }

    /// Reads the next changes of sets that are fed, at most `most` of those that are wanted, and a few more where a group ends.
    /// `is_wanted` is asked with the number of the set (`None`: all) and the digest.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] if some are not kept any more; [`Error::Damaged`] where the log cannot be read; those of a
    /// write to the device.
    pub fn read(
        &mut self,
        most: usize,
        is_wanted: impl Fn(Option<u16>, &Digest) -> bool,
    ) -> Result<ReadChanges> {
        loop {
            let frame = self.begin()?;
            let read = self.merge(frame, most, &is_wanted);
            // What was read of a block that has been emptied meanwhile may be anything.
            self.check_kept()?;
            match read? {
                Ok(read) => {
                    self.cursor = read.cursor;
                    return Ok(read);
                }
                Err(EarlierMembers { of }) => {
                    let cursor = ChangeCursor {
                        scan_after: Lsn(of - 1),
                        ..self.cursor
                    };
                    *self = Self::new(Arc::clone(&self.core), self.delivery, cursor);
                }
            }
        }
    }

    fn check_kept(&self) -> Result<()> {
        let lost_to = self.core.sets.feed(|feed| feed.lost_to);
        if lost_to > self.cursor.scan_after.0 {
            return Err(Error::ChangesLost {
                namespace: self.core.name.clone(),
                position: self.cursor.position.0,
                lost_to,
            });
        }
        Ok(())
    }

    /// Notes how far to read, and finds what there is to be read.
    fn begin(&mut self) -> Result<ReadFrame> {
        self.check_kept()?;
        let core = Arc::clone(&self.core);
        let left = self.groups_left();
        let is_durable = self.delivery == Delivery::Durable;
        let (mut to, feed) = core.sets.feed(|feed| {
            let to = match is_durable {
                true => core.log.syncer().durable_lsn(),
                false => core.log.last_lsn(),
            };
            (to, feed.clone())
        });
        let durable = core.log.syncer().durable_lsn();
        let position = self.cursor.position.0;
        let mut truncations = feed.truncations.clone();
        truncations.retain(|event| event.lsn > position && feed.covers_truncation(event));
        if is_durable && let Some(event) = truncations.iter().find(|event| event.noted > durable) {
            to = to.min(event.lsn - 1);
        }
        truncations.retain(|event| event.lsn <= to);
        let tails = match is_durable || core.is_read_only() {
            true => core.log.filled_blocks(),
            false => core.log.flush_lanes()?,
        };
        if !keeps(Guard::NumberBeforeLanes) {
            to = core.log.last_lsn();
        }
        self.reach_open_blocks(&tails);
        // Behind the lanes: a block that was closed in between is found here.
        self.reach_closed_blocks(to);
        Ok(ReadFrame {
            to,
            feed,
            truncations,
            left,
        })
    }

    fn reach_open_blocks(&mut self, tails: &[FilledBlock]) {
        let core = Arc::clone(&self.core);
        for tail in tails {
            let Some(block) = core.log.block(tail.id) else {
                continue;
            };
            let (first, last) = block.change_lsns();
            if first > last {
                continue;
            }
            self.stream_of(tail.id, tail.incarnation, first)
                .reach(tail.end, None);
        }
    }

    fn reach_closed_blocks(&mut self, to: u64) {
        let core = Arc::clone(&self.core);
        let known = self.streams.iter();
        let known: HashSet<_> = known
            .map(|stream| (stream.id, stream.incarnation))
            .collect();
        let seen_to = self.taken_to.max(self.cursor.position.0);
        for volume in core.log.volumes() {
            for (index, block) in (0u32..).zip(volume.blocks()) {
                let is_closed = matches!(block.phase(), Phase::Closed | Phase::Draining);
                let (first, last) = block.change_lsns();
                let holds_any = first <= to && first <= last && last > seen_to;
                let (id, incarnation) = (volume.block_id(index), block.incarnation());
                let is_known = known.contains(&(id, incarnation));
                if !is_closed || incarnation == 0 || !(holds_any || is_known) {
                    continue;
                }
                let end = Format::Two.entries_at() + u64::from(block.filled_units()) * UNIT_BYTES;
                if is_known {
                    self.stream_of(id, incarnation, first)
                        .reach(end, Some(last));
                } else {
                    let mut stream = BlockStream::new(id, incarnation, first);
                    stream.reach(end, Some(last));
                    self.streams.push(stream);
                }
            }
        }
        self.streams.sort_by_key(|stream| stream.first_lsn);
    }

    fn stream_of(&mut self, id: BlockId, incarnation: u64, first_lsn: u64) -> &mut BlockStream {
        let is_it = |stream: &BlockStream| stream.id == id && stream.incarnation == incarnation;
        let at = self.streams.iter().position(is_it).unwrap_or_else(|| {
            self.streams
                .push(BlockStream::new(id, incarnation, first_lsn));
            self.streams.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed just before")]
        &mut self.streams[at]
    }

    /// Groups without a commit entry whose first record nobody has locked: they were given up, or their commit entry is there.
    fn groups_left(&self) -> BTreeSet<u64> {
        let is_left = |members: &[RecordChange]| {
            members.first().is_none_or(|change| {
                let mut partition = self.core.index.lock(&change.digest);
                !partition.held().is_held(&change.digest)
            })
        };
        let groups = self.groups.iter();
        groups
            .filter(|(_, members)| is_left(members))
            .map(|(group, _)| *group)
            .collect()
    }

    fn merge(
        &mut self,
        mut frame: ReadFrame,
        most: usize,
        is_wanted: &impl Fn(Option<u16>, &Digest) -> bool,
    ) -> Result<std::result::Result<ReadChanges, EarlierMembers>> {
        let mut changes: Vec<LoggedChange> = Vec::new();
        let mut position = self.cursor.position.0;
        let mut end = ReadEnd::Full;
        while changes.len() < most {
            let lsn = match self.next(&frame)? {
                None => {
                    end = ReadEnd::Last;
                    position = position.max(frame.to);
                    if !keeps(Guard::LeftBeforeNumber) {
                        frame.left = self.groups_left();
                    }
                    let groups = &mut self.groups;
                    groups.retain(|group, _| !frame.left.contains(group));
                    break;
                }
                Some(Next::Truncation) => {
                    let event = frame.truncations.remove(0);
                    if is_wanted(event.set, &Digest::new([0; Digest::LEN])) {
                        changes.push(truncation(&event));
                    }
                    event.lsn
                }
                Some(Next::Stream(number)) => {
                    let Some(item) = self.ready(number) else {
                        end = ReadEnd::Unpublished;
                        break;
                    };
                    let lsn = item.lsn();
                    // Copies that defragmentation made have the number of what they are copies of.
                    if lsn > self.taken_to {
                        if let Item::Commit { lsn, group } = item
                            && lsn > self.cursor.position.0
                            && group <= self.began_after
                        {
                            return Ok(Err(EarlierMembers { of: group }));
                        }
                        self.taken_to = lsn;
                        self.show(item, &frame.feed, is_wanted, &mut changes);
                    }
                    lsn
                }
            };
            position = position.max(lsn);
        }
        // One that is read to its end stays as long as it would be found again.
        self.streams
            .retain(|stream| !stream.is_done() || stream.last_lsn > position);
        self.add_keys(&mut changes);
        let pending = self.groups.values().flatten().map(|change| change.lsn);
        let scan_after = pending
            .min()
            .map_or(position, |lsn| (lsn - 1).min(position));
        Ok(Ok(ReadChanges {
            changes,
            cursor: ChangeCursor {
                position: Lsn(position),
                scan_after: Lsn(scan_after),
            },
            end,
        }))
    }

    /// Finds what has the lowest number. The streams are in the order in which they begin.
    fn next(&mut self, frame: &ReadFrame) -> Result<Option<Next>> {
        loop {
            let mut best: Option<(u64, usize)> = None;
            let mut unread: Option<(u64, usize)> = None;
            for (number, stream) in self.streams.iter().enumerate() {
                if best.is_some_and(|(lsn, _)| lsn < stream.first_lsn) {
                    break;
                }
                if let Some(item) = stream.first() {
                    if best.is_none_or(|(lsn, _)| item.lsn() < lsn) {
                        best = Some((item.lsn(), number));
                    }
                } else if stream.wants_filling()
                    && unread.is_none_or(|(lsn, _)| stream.first_lsn < lsn)
                {
                    unread = Some((stream.first_lsn, number));
                }
            }
            let truncation = frame.truncations.first().map(|event| event.lsn);
            // A block that begins behind what is known need not be read yet.
            let known = best.map(|(lsn, _)| lsn).into_iter().chain(truncation).min();
            if let Some((_, number)) =
                unread.filter(|(first, _)| known.is_none_or(|lsn| *first <= lsn))
            {
                self.fill(number, frame)?;
                continue;
            }
            return Ok(match (best, truncation) {
                (Some((lsn, number)), truncation) if truncation.is_none_or(|at| lsn < at) => {
                    Some(Next::Stream(number))
                }
                (_, Some(_)) => Some(Next::Truncation),
                _ => None,
            });
        }
    }

    fn fill(&mut self, number: usize, frame: &ReadFrame) -> Result<()> {
        let Some(stream) = self.streams.get_mut(number) else {
            return Ok(());
        };
        let Some(volume) = self.core.log.volumes().get(stream.id.device) else {
            return Ok(());
        };
        let range = (self.cursor.scan_after.0, frame.to);
        stream.fill(volume, &mut self.walk, &frame.feed, range)
    }

    /// Takes the first item of a stream, if readers of records see what it shows.
    fn ready(&mut self, number: usize) -> Option<Item> {
        let stream = self.streams.get(number)?;
        let is_published = match stream.first()? {
            Item::Record(change) if change.group.is_none() => {
                self.is_published(change) || !keeps(Guard::Published)
            }
            Item::Record(_) => true,
            Item::Commit { group, .. } => {
                let members = self.groups.get(group).into_iter().flatten();
                members.into_iter().all(|change| self.is_published(change))
                    || !keeps(Guard::GroupsPublished)
            }
        };
        if !is_published {
            return None;
        }
        self.streams.get_mut(number)?.pop()
    }

    /// Whether readers of records see a change, or a later one: its writer has unlocked the record, or has put it in place.
    fn is_published(&self, change: &RecordChange) -> bool {
        let guard = epoch::pin();
        let slot = {
            let mut partition = self.core.index.lock(&change.digest);
            if !partition.held().is_held(&change.digest) {
                return true;
            }
            let is_it = |slot: &crate::index::Slot| self.core.is_of(slot, &change.digest, &guard);
            let at = partition.find(change.digest.tag(), is_it);
            at.map(|at| partition.get(at))
        };
        let entry = slot.and_then(|slot| self.core.log.entry(slot.location, &guard));
        entry.is_some_and(|entry| entry.view().lsn().0 >= change.lsn)
    }

    fn show(
        &mut self,
        item: Item,
        feed: &Feed,
        is_wanted: &impl Fn(Option<u16>, &Digest) -> bool,
        changes: &mut Vec<LoggedChange>,
    ) {
        let (lsn, members) = match item {
            Item::Commit { lsn, group } => (lsn, self.groups.remove(&group).unwrap_or_default()),
            Item::Record(change) => match change.group {
                Some(group) => {
                    self.groups.entry(group).or_default().push(change);
                    return;
                }
                None => (change.lsn, vec![change]),
            },
        };
        if lsn <= self.cursor.position.0 {
            return;
        }
        for (member, change) in (0..).zip(members) {
            // A truncation between a member and its commit takes the group as if that had come before.
            let is_truncated = feed.truncates((change.lsn, change.set, change.last_update_ms), lsn);
            if !is_truncated && is_wanted(Some(change.set), &change.digest) {
                let position = ChangePosition {
                    lsn: Lsn(lsn),
                    member,
                };
                changes.push(logged(change, position));
            }
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

fn truncation(event: &TruncationEvent) -> LoggedChange {
    LoggedChange {
        position: ChangePosition {
            lsn: Lsn(event.lsn),
            member: 0,
        },
        group: None,
        digest: Digest::new([0; Digest::LEN]),
        set_id: event.set,
        kind: ChangeKind::Truncate {
            before_ms: event.before_ms,
        },
        generation: 0,
        last_update_ms: 0,
        void_time: 0,
        key: None,
    }
}

fn logged(change: RecordChange, position: ChangePosition) -> LoggedChange {
    LoggedChange {
        position,
        group: change.group,
        digest: change.digest,
        set_id: Some(change.set),
        kind: change.kind,
        generation: change.generation,
        last_update_ms: change.last_update_ms,
        void_time: change.void_time,
        key: change.key,
    }
}
