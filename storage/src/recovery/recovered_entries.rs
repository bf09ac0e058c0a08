//! Entries of records that a scan has found, partition by partition, until the newest of each goes
//! into the index.

use crate::digest::{Digest, PARTITIONS};
use crate::entry::{Appended, EntryHeader, EntryKind, FLAG_COPIED, FLAG_REAPPENDED, Lsn};
use crate::epoch::{self, Guard};
use crate::index::{DigestIndex, IndexSlot};
use crate::location::Location;
use crate::log::Log;
use crate::log::directory::split_identity;
use crate::sync::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How many a bunch holds at first and at most. Bunches never move or grow, so each entry is
/// written once.
const BUNCH_MIN: usize = 4;
const BUNCH_MAX: usize = 32;

/// A record's entry, or the damaged remains of one. In words, each of them loaded and stored as a
/// whole: millions of these are made, and bytes that are loaded otherwise than they were stored
/// wait for each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundEntry {
    /// What the index will hold. The tag in the head is bytes 2 to 4 of the digest.
    head: u64,
    tail: u64,
    /// Log sequence number (48 bits, high) | bytes 0 and 1 of the digest.
    lsn_low: u64,
    /// Bytes 4 to 19 of the digest.
    rest: [u64; 2],
}

const _: () = assert!(size_of::<FoundEntry>() == 40);

impl FoundEntry {
    /// `digest` is the header's. It is taken from the log, if it is whole there.
    #[inline]
    pub(crate) fn new(
        location: Location,
        header: &EntryHeader,
        digest: &[u8; Digest::LEN],
        damaged: bool,
    ) -> Self {
        let [a, b, c, d, rest @ ..] = digest;
        let (words, _) = rest.as_chunks::<8>();
        let [first, second] = words else {
            unreachable!("16 bytes are two words")
        };
        let slot = IndexSlot {
            location,
            unverified: damaged,
            size_units: header.span_units,
            void_time: header.void_time,
            tombstone: header.kind == EntryKind::Tombstone,
            set_id: header.set_id,
        };
        let low = u32::from_le_bytes([*a, *b, *c, *d]);
        let rest = [u64::from_le_bytes(*first), u64::from_le_bytes(*second)];
        let tag = (low >> 16) | ((rest[0] as u32 & 0xff) << 16);
        Self {
            head: slot.head(tag),
            tail: slot.tail(),
            lsn_low: (header.lsn.0 << 16) | u64::from(low & 0xffff),
            rest,
        }
    }

    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.lsn_low >> 16)
    }

    fn tag(&self) -> u32 {
        let (tag, _) = IndexSlot::unpack(self.head, self.tail);
        tag
    }

    fn partition(&self) -> usize {
        self.lsn_low as usize % 0x1000 % PARTITIONS
    }

    pub(crate) fn digest(&self) -> Digest {
        let mut bytes = [0; Digest::LEN];
        let low = (self.lsn_low & 0xffff) as u32 | (self.tag() << 16);
        let words = [u64::from(low) << 32, self.rest[0], self.rest[1]];
        let words = words.iter().flat_map(|word| word.to_le_bytes()).skip(4);
        bytes
            .iter_mut()
            .zip(words)
            .for_each(|(to, from)| *to = from);
        Digest::new(bytes)
    }

    pub(crate) fn slot(&self) -> IndexSlot {
        let (_, slot) = IndexSlot::unpack(self.head, self.tail);
        slot
    }

    /// The digest, without the bits of the tag.
    fn identity(&self) -> ([u64; 2], u16) {
        (self.rest, self.lsn_low as u16)
    }

    /// Newer wins; of two copies of one version, the whole one.
    fn rank(&self) -> (Lsn, bool) {
        (self.lsn(), !self.slot().unverified)
    }
}

/// Number and digest of damaged entries: their bytes on the device cannot be trusted.
#[derive(Debug, Default)]
pub(crate) struct Damaged(Mutex<HashMap<Location, (Lsn, Digest)>>);

impl Damaged {
    pub(crate) fn note(&self, found: &FoundEntry) {
        let location = found.slot().location;
        self.0
            .lock()
            .insert(location, (found.lsn(), found.digest()));
    }

    fn at(&self, location: Location) -> Option<(Lsn, Digest)> {
        self.0.lock().get(&location).copied()
    }
}

/// The entries that one thread has found, by partition.
#[derive(Debug)]
pub(crate) struct Gleanings {
    partitions: Vec<Bunches>,
    found: usize,
}

#[derive(Debug, Default)]
struct Bunches {
    open: Vec<FoundEntry>,
    full: Vec<Vec<FoundEntry>>,
}

impl Bunches {
    #[cold]
    fn open_another(&mut self) {
        let room = (2 * self.open.capacity()).clamp(BUNCH_MIN, BUNCH_MAX);
        let filled = std::mem::replace(&mut self.open, Vec::with_capacity(room));
        if !filled.is_empty() {
            self.full.push(filled);
        }
    }
}

impl Gleanings {
    pub(crate) fn new() -> Self {
        Self {
            partitions: (0..PARTITIONS).map(|_| Bunches::default()).collect(),
            found: 0,
        }
    }

    /// How many were added.
    pub(crate) fn len(&self) -> usize {
        self.found
    }

    #[inline]
    pub(crate) fn add(&mut self, found: FoundEntry) {
        if let Some(bunches) = self.partitions.get_mut(found.partition()) {
            if bunches.open.len() == bunches.open.capacity() {
                bunches.open_another();
            }
            bunches.open.push(found);
            self.found += 1;
        }
    }

    fn of(&self, partition: usize) -> impl Iterator<Item = &Vec<FoundEntry>> {
        let bunches = self.partitions.get(partition);
        bunches
            .into_iter()
            .flat_map(|bunches| bunches.full.iter().chain([&bunches.open]))
    }
}

/// Of entries of one version, the one with the highest counts: the whole record that folding has
/// written, since the rest of the chain may be gone; then one that an opening has appended again,
/// since the original, or the version it builds on, may be gone.
fn precedence(log: &Log, location: Location, guard: &Guard) -> u8 {
    let entry = log.entry(location, guard);
    entry.map_or(0, |entry| {
        let view = entry.view();
        let is_whole = !view.kind_is(EntryKind::Delta);
        let is_new = view.flags() & (FLAG_COPIED | FLAG_REAPPENDED) != 0;
        2 * u8::from(is_whole) + u8::from(is_new)
    })
}

/// Keeps the newest entry of each digest among those with one tag.
fn newest_of(
    mut found: Vec<FoundEntry>,
    precedence: impl Fn(&FoundEntry) -> u8,
) -> Vec<FoundEntry> {
    found.sort_unstable_by_key(|found| (found.identity(), Reverse(found.rank())));
    found.dedup_by(|later, first| {
        if later.identity() != first.identity() {
            return false;
        }
        if later.rank() == first.rank() && precedence(later) > precedence(first) {
            *first = *later;
        }
        true
    });
    found
}

/// Enters entries into the index, a partition at a time.
#[derive(Debug)]
pub(crate) struct Enterer<'a> {
    index: &'a DigestIndex,
    log: &'a Log,
    damaged: &'a Damaged,
    found: Vec<FoundEntry>,
    /// Tag (32 bits, high) | place in `found`.
    order: Vec<u64>,
    fresh: Vec<(u64, u64)>,
}

impl<'a> Enterer<'a> {
    pub(crate) fn new(index: &'a DigestIndex, log: &'a Log, damaged: &'a Damaged) -> Self {
        Self {
            index,
            log,
            damaged,
            found: Vec::new(),
            order: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Enters the newest entry of each record of a partition that any of `gleanings` has.
    pub(crate) fn enter(&mut self, partition: usize, gleanings: &[Gleanings]) {
        self.found.clear();
        for bunch in gleanings.iter().flat_map(|from| from.of(partition)) {
            self.found.extend_from_slice(bunch);
        }
        self.enter_found(partition);
    }

    /// Enters one entry, unless a newer one of its record is there.
    pub(crate) fn enter_one(&mut self, found: FoundEntry) {
        self.found.clear();
        self.found.push(found);
        self.enter_found(found.partition());
    }

    fn enter_found(&mut self, partition: usize) {
        if self.found.is_empty() {
            return;
        }
        self.order.clear();
        let tags = self.found.iter().map(|found| u64::from(found.tag()) << 32);
        self.order
            .extend((0..).zip(tags).map(|(at, tag): (u64, u64)| tag | at));
        self.order.sort_unstable();
        self.fresh.clear();
        let guard = epoch::pin();
        let mut partition = self.index.lock_partition(partition);
        let is_empty = partition.len() == 0;
        for alike in self.order.chunk_by(|one, other| one >> 32 == other >> 32) {
            let found = |key: &u64| self.found.get(*key as u32 as usize).copied();
            let (alone, rivals);
            // One tag is nearly always one entry.
            let newest: &[FoundEntry] = if let [one] = alike {
                alone = found(one);
                alone.as_slice()
            } else {
                let precedence =
                    |found: &FoundEntry| precedence(self.log, found.slot().location, &guard);
                rivals = newest_of(alike.iter().filter_map(found).collect(), precedence);
                &rivals
            };
            for found in newest {
                let is_it = |slot: &IndexSlot| {
                    let known = self.known(slot, &guard);
                    known.is_some_and(|(_, digest)| digest == found.digest())
                };
                let present = if is_empty {
                    None
                } else {
                    partition.find(found.tag(), is_it)
                };
                let Some(at) = present else {
                    self.fresh.push((found.head, found.tail));
                    continue;
                };
                let present = partition.get(at);
                let is_newer = self.known(&present, &guard).is_none_or(|(lsn, _)| {
                    let rank = (lsn, !present.unverified);
                    let precedes = || {
                        let precedence = |at| precedence(self.log, at, &guard);
                        precedence(found.slot().location) > precedence(present.location)
                    };
                    found.rank() > rank || (found.rank() == rank && precedes())
                });
                if is_newer {
                    partition.replace(at, found.slot());
                }
            }
        }
        partition.insert_sorted(&self.fresh);
    }

    /// Number and digest of the entry that a slot names. `None`: it cannot be read.
    fn known(&self, slot: &IndexSlot, guard: &Guard) -> Option<(Lsn, Digest)> {
        if slot.unverified {
            return self.damaged.at(slot.location);
        }
        let entry = self.log.entry(slot.location, guard)?;
        let view = entry.view();
        Some((view.lsn(), view.digest()))
    }

    /// Enters an entry that was durable and is lost: its record answers with an error from now on,
    /// unless a newer version of it is there. The directory has partition and tag only, so a record
    /// that shares both would answer with an error, too.
    pub(crate) fn enter_lost(&self, at: Appended, identity: u64) {
        let (number, tag) = split_identity(identity);
        let guard = epoch::pin();
        let mut partition = self.index.lock_partition(number);
        let is_newer = |slot: &IndexSlot| {
            let known = self.known(slot, &guard);
            known.is_some_and(|(lsn, _)| lsn >= at.lsn)
        };
        if partition.find(tag, is_newer).is_some() {
            return;
        }
        let slot = IndexSlot {
            location: at.location,
            unverified: true,
            size_units: at.units,
            void_time: 0,
            tombstone: false,
            set_id: 0,
        };
        match partition.find(tag, |_| true) {
            Some(older) => partition.replace(older, slot),
            None => partition.insert(tag, slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(digest: Digest, lsn: u64) -> EntryHeader {
        EntryHeader {
            kind: EntryKind::Tombstone,
            flags: 0,
            span_units: 12,
            lsn: Lsn(lsn),
            generation: 1,
            last_update_ms: 5,
            void_time: u32::MAX - 1,
            set_id: 77,
            digest,
            body_bytes: 0,
        }
    }

    #[test]
    fn what_was_found_gives_back_digest_number_and_slot() {
        let mut bytes = [0; Digest::LEN];
        for round in 0..=255u8 {
            for (at, byte) in (0..).zip(&mut bytes) {
                *byte = round.wrapping_mul(31).wrapping_add(83u8.wrapping_mul(at)) ^ 0x5a;
            }
            let digest = Digest::new(bytes);
            let header = header(digest, (1 << 48) - 1 - u64::from(round));
            let location = Location::new(3, 64 << 10);
            let found = FoundEntry::new(location, &header, &bytes, round % 2 == 0);
            assert_eq!(found.digest(), digest);
            assert_eq!(found.lsn(), header.lsn);
            assert_eq!(found.partition(), digest.partition());
            assert_eq!(found.tag(), digest.tag());
            let slot = found.slot();
            assert_eq!((slot.location, slot.size_units), (location, 12));
            assert_eq!((slot.void_time, slot.set_id), (u32::MAX - 1, 77));
            assert!(slot.tombstone && slot.unverified == (round % 2 == 0));
        }
    }

    #[test]
    fn of_entries_with_one_tag_the_newest_of_each_digest_is_kept_and_whole_before_damaged() {
        let found = |last: u8, lsn: u64, offset: u64, damaged: bool| {
            let mut bytes = [9; Digest::LEN];
            bytes[Digest::LEN - 1] = last;
            let header = header(Digest::new(bytes), lsn);
            FoundEntry::new(Location::new(0, offset), &header, &bytes, damaged)
        };
        let all = vec![
            found(1, 5, 16, false),
            found(2, 4, 32, false),
            found(1, 7, 48, true),
            found(1, 7, 64, false),
            found(2, 9, 80, true),
            found(2, 8, 96, false),
        ];
        let offsets = |found: &FoundEntry| found.slot().location.offset_bytes();
        let mut kept: Vec<u64> = newest_of(all, |_| 0).iter().map(offsets).collect();
        kept.sort_unstable();
        assert_eq!(kept, [64, 80]);
    }

    #[test]
    fn gleanings_keep_what_was_added_to_each_partition() {
        let mut gleanings = Gleanings::new();
        let mut bytes = [0; Digest::LEN];
        for number in 0..1000u16 {
            bytes[..2].copy_from_slice(&(number % 7).to_le_bytes());
            bytes[10..12].copy_from_slice(&number.to_le_bytes());
            let header = header(Digest::new(bytes), 1);
            gleanings.add(FoundEntry::new(
                Location::new(0, 16),
                &header,
                &bytes,
                false,
            ));
        }
        assert_eq!(gleanings.len(), 1000);
        let of = |partition| gleanings.of(partition).map(Vec::len).sum::<usize>();
        let counts: Vec<usize> = (0..PARTITIONS).map(of).collect();
        assert_eq!(counts.iter().sum::<usize>(), 1000);
        assert!(PARTITIONS < 8 || counts.starts_with(&[143, 143, 143, 143, 143, 143, 142, 0]));
    }
}
