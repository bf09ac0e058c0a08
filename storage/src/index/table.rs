//! A table: records of one partition, sorted by tag, with holes between them.
//!
//! The home of a tag is the line (8 places) where it would be if the records were spread evenly:
//! `tag * lines / 2^24`. A record is in its home or, if that is full, behind it. Homes rise with
//! the tags, so Robin Hood order is order by tag: a probe walks up from the home and ends at the
//! first larger tag or hole, and a larger table is filled in one walk over the old one, without
//! looking into the log. There is no wrap-around; a few lines beyond the last home take what the
//! end displaces, and the last place of all is always a hole. A table of a few records has one home
//! for all.
//!
//! Heads and tails are two arrays in one block: the heads of a line are one cache line, and most
//! probes load no other.
//!
//! **Readers beside a writer.** `insert` moves records up one place, from the end: each is written
//! to its new place before its old one is overwritten, so who walks upwards may meet it twice, but
//! never misses it. `remove` moves records down, where a reader may just have been: the partition
//! counts removals, and a reader that found nothing looks again if there was one meanwhile.

use super::slot::{Candidate, EMPTY, IndexSlot, TAG_BITS, tag_of};
use crate::bytes::prefetch;
use crate::location::Location;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Places a line: a cache line of heads.
const LINE: usize = 8;

/// Places beyond the last home. Few tables have more to displace there, and those grow a little
/// early. Small tables have less to displace, and would pay for more.
const SPARE: usize = 16;
const SPARE_OF_SMALL: usize = 8;
/// Tables with fewer home lines are small.
const SMALL_LINES: usize = 16;

/// Up to this many places, all records have one home, the first line, and are side by side. A
/// look-up walks over half of them, three lines at most. No places are left free, since they would
/// cost most in a table this small.
const CROWD_MAX: usize = 24;
/// Number of places by which a crowd grows.
const CROWD_STEP: usize = 4;

/// How large a table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TableShape {
    /// Lines that are homes.
    pub(super) lines: u32,
    /// Places in all. Where there is one home line, these are few and a multiple of four;
    /// otherwise, one of a line.
    pub(super) places: u32,
}

impl TableShape {
    pub(super) const fn pack(self) -> u64 {
        ((self.lines as u64) << 32) | self.places as u64
    }

    pub(super) const fn unpack(packed: u64) -> Self {
        Self {
            lines: (packed >> 32) as u32,
            places: packed as u32,
        }
    }

    /// The words of a block for such a table.
    pub(super) const fn words(self) -> usize {
        2 * self.places as usize
    }

    /// The shape of a table that was never filled: one hole.
    pub(super) const NOTHING: Self = Self {
        lines: 1,
        places: 1,
    };

    /// Returns the shape with this number of home lines, and the usual room beyond them.
    const fn plain(lines: usize) -> Self {
        let spare = if lines < SMALL_LINES {
            SPARE_OF_SMALL
        } else {
            SPARE
        };
        Self {
            lines: lines as u32,
            places: (LINE * lines + spare) as u32,
        }
    }

    /// How many records a table of this shape takes: all places but the last of a crowd, 7/8 of the
    /// places in home lines.
    pub(super) const fn capacity(self) -> usize {
        if self.lines == 1 {
            self.places as usize - 1
        } else {
            let homes = self.lines as usize * LINE;
            homes - homes / 8
        }
    }

    /// Returns the smallest shape for this number of records.
    pub(super) const fn for_records(records: usize) -> Self {
        if records < CROWD_MAX {
            return Self {
                lines: 1,
                places: (records + 1).next_multiple_of(CROWD_STEP) as u32,
            };
        }
        Self::plain((records * 8).div_ceil(7 * LINE))
    }

    /// The first place of a tag's home.
    pub(super) const fn home(self, tag: u32) -> usize {
        home(tag, self.lines)
    }

    /// The next larger shape: four places, or a quarter more home lines.
    pub(super) const fn next(self) -> Self {
        let lines = self.lines as usize;
        if lines == 1 {
            return Self::for_records(self.capacity() + 1);
        }
        Self::plain(lines + lines.div_ceil(4))
    }

    /// This shape, with as many places more as records with these heads need, which are sorted.
    pub(super) fn to_hold(self, heads: impl Iterator<Item = u64>) -> Self {
        let mut next = 0;
        for head in heads {
            next = home(tag_of(head), self.lines).max(next) + 1;
        }
        if next < self.places as usize {
            return self;
        }
        // Records with one tag pile up at the end, however many homes there are: let the room there
        // grow in steps, too.
        let beyond = next - LINE * self.lines as usize;
        Self {
            lines: self.lines,
            places: (next + beyond / 8).next_multiple_of(LINE) as u32 + LINE as u32,
        }
    }
}

/// The first place of a tag's home.
const fn home(tag: u32, lines: u32) -> usize {
    LINE * ((tag as u64 * lines as u64) >> TAG_BITS) as usize
}

/// A table, borrowed from the owner of its block.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    heads: &'a [AtomicU64],
    tails: &'a [AtomicU64],
    lines: u32,
}

#[expect(
    clippy::indexing_slicing,
    reason = "hot; places come from walks that end at the hole which every table ends with"
)]
impl<'a> Table<'a> {
    /// `words` has `shape.words()` words.
    #[inline]
    pub(super) fn new(words: &'a [AtomicU64], shape: TableShape) -> Self {
        debug_assert_eq!(words.len(), shape.words());
        let (heads, tails) = words.split_at(shape.places as usize);
        Self {
            heads,
            tails,
            lines: shape.lines,
        }
    }

    fn head(&self, at: usize) -> u64 {
        self.heads[at].load(Ordering::Acquire)
    }

    fn tail(&self, at: usize) -> u64 {
        self.tails[at].load(Ordering::Relaxed)
    }

    /// The tail first: only the lock's holder looks at it.
    fn write(&self, at: usize, head: u64, tail: u64) {
        self.tails[at].store(tail, Ordering::Relaxed);
        self.heads[at].store(head, Ordering::Release);
    }

    /// The first place at or after the tag's home with a tag not smaller. For writers.
    fn first_not_below(&self, tag: u32) -> usize {
        let mut at = home(tag, self.lines);
        while tag_of(self.head(at)) < tag {
            at += 1;
        }
        at
    }

    /// Offers places and heads of the records with this tag until one is taken. Needs no lock; the
    /// module says which records it may miss.
    #[inline]
    pub(super) fn lookup<R>(
        &self,
        tag: u32,
        matches: &mut impl FnMut(usize, u64) -> Option<R>,
    ) -> Option<R> {
        let mut at = home(tag, self.lines);
        loop {
            // Once only: a second load of the same place may show a smaller tag that was moved
            // there.
            let head = self.head(at);
            if tag_of(head) >= tag {
                if tag_of(head) > tag || head == EMPTY {
                    return None;
                }
                if let Some(found) = matches(at, head) {
                    return Some(found);
                }
            }
            at += 1;
        }
    }

    /// Whether a place, which may be beyond the table, has the record with this tag at this
    /// location.
    #[inline]
    pub(super) fn has(&self, at: usize, tag: u32, location: Location) -> bool {
        self.heads.get(at).is_some_and(|head| {
            let head = head.load(Ordering::Acquire);
            tag_of(head) == tag && Candidate::from_head(head).location == location
        })
    }

    /// Asks the processor to load what a lookup of this tag begins with.
    #[inline]
    pub(super) fn prefetch_head(&self, tag: u32) {
        prefetch(&self.heads[home(tag, self.lines)]);
    }

    /// The same for the tail, which a writer needs as soon as it knows the place.
    pub(super) fn prefetch_tail(&self, tag: u32) {
        prefetch(&self.tails[home(tag, self.lines)]);
    }

    /// The place of the first record with this tag that is taken.
    pub(super) fn find(
        &self,
        tag: u32,
        mut matches: impl FnMut(&IndexSlot) -> bool,
    ) -> Option<usize> {
        self.prefetch_tail(tag);
        let mut at = self.first_not_below(tag);
        loop {
            let head = self.head(at);
            // The largest tag is that of a hole, too.
            if tag_of(head) != tag || head == EMPTY {
                return None;
            }
            if matches(&IndexSlot::from_words(head, self.tail(at))) {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The record at a place that `find` gave.
    pub(super) fn get(&self, at: usize) -> IndexSlot {
        IndexSlot::from_words(self.head(at), self.tail(at))
    }

    /// Overwrites the record at a place; its tag stays.
    pub(super) fn replace(&self, at: usize, slot: &IndexSlot) {
        self.write(at, slot.head(tag_of(self.head(at))), slot.tail());
    }

    /// Adds a record behind those with its tag. False if the places beyond the last home are used
    /// up; nothing is changed then.
    pub(super) fn insert(&self, head: u64, tail: u64) -> bool {
        let tag = tag_of(head);
        self.prefetch_tail(tag);
        let mut at = self.first_not_below(tag);
        while tag_of(self.head(at)) == tag && self.head(at) != EMPTY {
            at += 1;
        }
        let mut hole = at;
        while self.head(hole) != EMPTY {
            hole += 1;
        }
        // The last place stays a hole: walks end there.
        if hole + 1 == self.heads.len() {
            return false;
        }
        // From the end: a reader that walks up meets a record twice at most, and misses none.
        while hole > at {
            self.write(hole, self.head(hole - 1), self.tail(hole - 1));
            hole -= 1;
        }
        self.write(at, head, tail);
        true
    }

    /// Takes the record at a place out and moves those behind it towards their homes. The caller
    /// counts the removal.
    pub(super) fn remove(&self, mut at: usize) {
        loop {
            let next = self.head(at + 1);
            if next == EMPTY || home(tag_of(next), self.lines) > at {
                break;
            }
            self.write(at, next, self.tail(at + 1));
            at += 1;
        }
        // Last: until now the record above is here, too.
        self.heads[at].store(EMPTY, Ordering::Release);
    }

    /// Takes the records at these rising places out, in one walk. The caller counts the removal.
    pub(super) fn remove_all(&self, places: &[u32]) {
        let mut doomed = places.iter().map(|at| *at as usize).peekable();
        let Some(first) = doomed.peek().copied() else {
            return;
        };
        let mut free = first;
        for at in first..self.heads.len() {
            let (head, tail) = (self.head(at), self.tail(at));
            if head == EMPTY {
                continue;
            }
            // For a moment a record that moves is in no place: the counted removal makes readers
            // look again.
            self.heads[at].store(EMPTY, Ordering::Release);
            if doomed.next_if_eq(&at).is_some() {
                continue;
            }
            let target = home(tag_of(head), self.lines).max(free);
            self.write(target, head, tail);
            free = target + 1;
        }
    }

    /// All records in order of their tags: (place, head, tail).
    pub(super) fn records(self) -> impl Iterator<Item = (usize, u64, u64)> + 'a {
        self.heads
            .iter()
            .zip(self.tails)
            .enumerate()
            .filter_map(|(at, (head, tail))| {
                let head = head.load(Ordering::Acquire);
                (head != EMPTY).then(|| (at, head, tail.load(Ordering::Relaxed)))
            })
    }

    /// Fills an empty table with the records of another: what growth costs. False if they do not
    /// fit beyond the last home.
    pub(super) fn fill_from(&self, other: Table<'_>) -> bool {
        let last = self.heads.len() - 1;
        let mut next = 0;
        for (head, tail) in other.heads.iter().zip(other.tails) {
            let (head, tail) = (head.load(Ordering::Relaxed), tail.load(Ordering::Relaxed));
            // Holes come at random: copying them, too, to where the next record goes, spares the
            // branch.
            let (at, step) = if head == EMPTY {
                (next, 0)
            } else {
                (home(tag_of(head), self.lines).max(next), 1)
            };
            if at + step > last {
                return false;
            }
            self.write(at, head, tail);
            next = at + step;
        }
        true
    }

    /// Fills an empty table with sorted records. Its shape was made to hold them.
    pub(super) fn fill(&self, records: impl Iterator<Item = (u64, u64)>) {
        let mut next = 0;
        for (head, tail) in records {
            let at = home(tag_of(head), self.lines).max(next);
            self.write(at, head, tail);
            next = at + 1;
        }
    }
}
