//! Which of the entries count that were not durable.
//!
//! Numbers are dense: each one above the durable number belongs to an entry, or a void entry covers
//! it. Where writes can have been lost, the entries below the first missing number count, and no
//! others: the store is as it was at one moment. A killed process loses nothing that was
//! acknowledged. Writes under way may be missing then, and do not matter; a group counts if all of
//! it is there.

use crate::entry::{EntryHeader, EntryKind, FLAG_COPIED, FLAG_HAS_NEXT, FLAG_HAS_PREVIOUS, Lsn};
use crate::location::{Location, UNIT_BYTES};
use crate::log::directory::DirectoryLine;

/// An entry that was not durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Young {
    pub(crate) lsn: Lsn,
    /// The last number that it covers.
    last: u64,
    pub(crate) location: Location,
    pub(crate) kind: EntryKind,
    units: u32,
    set_id: u16,
    /// `None`: the entry is damaged beyond its header, and its neighbours show its group.
    flags: Option<u8>,
    is_whole: bool,
}

impl Young {
    pub(crate) fn new(location: Location, header: &EntryHeader, is_whole: bool) -> Self {
        Self {
            lsn: header.lsn,
            last: header.last_number(),
            location,
            kind: header.kind,
            units: header.span_units,
            set_id: header.set_id,
            flags: Some(header.flags),
            is_whole,
        }
    }

    /// An entry of which the directory's line is left.
    pub(crate) fn lost(location: Location, line: &DirectoryLine, units: u32) -> Self {
        Self {
            lsn: line.lsn,
            last: line.lsn.0,
            location,
            kind: line.kind,
            units,
            set_id: 0,
            flags: None,
            is_whole: false,
        }
    }

    /// Where it begins, and how many bytes it spans.
    pub(crate) fn place(&self) -> (Location, u64) {
        (self.location, u64::from(self.units) * UNIT_BYTES)
    }

    /// Whether the entry is not the change itself: the original was durable.
    pub(crate) fn is_copy(&self) -> bool {
        self.must_have(FLAG_COPIED)
    }

    fn may_have(&self, flag: u8) -> bool {
        self.flags.is_none_or(|flags| flags & flag != 0)
    }

    fn must_have(&self, flag: u8) -> bool {
        self.flags.is_some_and(|flags| flags & flag != 0)
    }

    /// Whether `next` has the next number and belongs to the same group.
    fn goes_on_in(&self, next: &Self) -> bool {
        self.last + 1 == next.lsn.0
            && self.may_have(FLAG_HAS_NEXT)
            && next.may_have(FLAG_HAS_PREVIOUS)
            // Of two damaged entries nothing says that they belong together.
            && (self.flags.is_some() || next.flags.is_some())
    }
}

/// The entries that count.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Whole ones, in the order of their numbers.
    pub(crate) counted: Vec<Young>,
    /// Damaged ones. They stay where they are.
    pub(crate) damaged: Vec<Young>,
    /// No entry with this number or a higher one counts.
    pub(crate) cut: Lsn,
    /// Groups of which members are missing.
    pub(crate) cut_groups: u64,
}

impl Judged {
    /// The highest number of a set that an entry belongs to.
    pub(crate) fn last_set(&self) -> u16 {
        let sets = self.counted.iter().map(|young| young.set_id);
        sets.max().unwrap_or_default()
    }
}

/// Judges the entries behind the durable number. `may_have_lost`: the devices can have lost some.
pub(crate) fn judge(mut young: Vec<Young>, durable_lsn: u64, may_have_lost: bool) -> Judged {
    young.sort_unstable_by_key(|entry| entry.lsn);
    let mut cut = u64::MAX;
    if may_have_lost {
        let mut next = durable_lsn + 1;
        for entry in &young {
            if entry.lsn.0 > next {
                break;
            }
            next = next.max(entry.last + 1);
        }
        cut = next;
        young.retain(|entry| entry.lsn.0 < cut);
    }
    let mut counted = Vec::with_capacity(young.len());
    let (mut damaged, mut cut_groups) = (Vec::new(), 0);
    for group in young.chunk_by(Young::goes_on_in) {
        let is_whole = group
            .first()
            .is_some_and(|first| !first.must_have(FLAG_HAS_PREVIOUS))
            && group
                .last()
                .is_some_and(|last| !last.must_have(FLAG_HAS_NEXT));
        if is_whole {
            // A void entry has done its part: its numbers are not missing.
            let changes = group.iter().filter(|entry| entry.kind != EntryKind::Void);
            for entry in changes {
                if entry.is_whole {
                    counted.push(*entry);
                } else {
                    damaged.push(*entry);
                }
            }
        } else {
            cut_groups += 1;
            // Nothing follows the group that a power failure has cut.
            if may_have_lost && let Some(first) = group.first() {
                cut = cut.min(first.lsn.0);
            }
        }
    }
    Judged {
        counted,
        damaged,
        cut: Lsn(cut),
        cut_groups,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::blank_header;

    fn entry(lsn: u64, flags: u8) -> Young {
        let header = EntryHeader {
            lsn: Lsn(lsn),
            flags,
            ..blank_header()
        };
        Young::new(Location::new(0, 16 * lsn), &header, true)
    }

    fn numbers(judged: &Judged) -> Vec<u64> {
        judged.counted.iter().map(|entry| entry.lsn.0).collect()
    }

    const FIRST: u8 = FLAG_HAS_NEXT;
    const MIDDLE: u8 = FLAG_HAS_NEXT | FLAG_HAS_PREVIOUS;
    const LAST: u8 = FLAG_HAS_PREVIOUS;

    #[test]
    fn after_a_power_failure_what_follows_a_missing_number_does_not_count() {
        let found = vec![entry(14, 0), entry(11, 0), entry(12, 0)];
        let judged = judge(found.clone(), 10, true);
        assert_eq!((numbers(&judged), judged.cut), (vec![11, 12], Lsn(13)));
        assert_eq!(numbers(&judge(found.clone(), 9, true)), []);
        assert_eq!(numbers(&judge(found, 10, false)), [11, 12, 14]);
    }

    #[test]
    fn a_group_counts_if_all_of_it_is_there() {
        let whole = vec![
            entry(11, FIRST),
            entry(12, MIDDLE),
            entry(13, LAST),
            entry(14, 0),
        ];
        for may_have_lost in [false, true] {
            let judged = judge(whole.clone(), 10, may_have_lost);
            assert_eq!(numbers(&judged), [11, 12, 13, 14]);
            assert_eq!(judged.cut_groups, 0);
        }
        for missing in 0..3 {
            let mut found = whole.clone();
            found.remove(missing);
            let judged = judge(found.clone(), 10, false);
            assert_eq!(numbers(&judged), [14], "without member {missing}");
            let judged = judge(found, 10, true);
            assert_eq!(
                (numbers(&judged), judged.cut),
                (vec![], Lsn(11)),
                "without member {missing}"
            );
        }
    }

    #[test]
    fn groups_side_by_side_are_judged_apart() {
        let found = vec![
            entry(11, FIRST),
            entry(12, LAST),
            entry(13, FIRST),
            entry(14, LAST),
            entry(15, FIRST),
        ];
        let judged = judge(found, 10, false);
        assert_eq!(
            (numbers(&judged), judged.cut_groups),
            (vec![11, 12, 13, 14], 1)
        );
    }

    #[test]
    fn a_void_entry_stands_for_its_numbers() {
        let mut void = entry(12, 0);
        void.kind = EntryKind::Void;
        void.last = 15;
        let found = vec![entry(11, 0), void, entry(16, 0)];
        assert_eq!(numbers(&judge(found, 10, true)), [11, 16]);
    }

    #[test]
    fn a_damaged_member_is_not_missing() {
        let line = DirectoryLine {
            lsn: Lsn(12),
            kind: EntryKind::Record,
            identity: 0,
        };
        let lost = Young::lost(Location::new(0, 16), &line, 4);
        let found = vec![entry(11, FIRST), lost, entry(13, LAST), entry(14, 0)];
        assert_eq!(numbers(&judge(found, 10, true)), [11, 13, 14]);
        let alone = vec![entry(11, 0), lost, entry(13, 0)];
        assert_eq!(numbers(&judge(alone, 10, true)), [11, 13]);
    }
}
