//! What was acknowledged, to be compared with what is found.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::case::{Case, Write};
use super::place::Place;

/// What the acknowledged writes of a row were.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// How many, for each record.
    pub(super) acked: HashMap<Place, u64>,
    /// Which elements; of added elements only.
    pub(super) elements: Vec<u32>,
    /// Added elements that were said to be there already.
    pub(super) repeated: u64,
    /// Elements that were taken out to keep the lists short: each was found.
    pub(super) trimmed: Vec<u32>,
    /// Writes of which it is not known whether they were applied.
    pub(super) in_doubt: u64,
    /// How often a write was read back right after its acknowledgement.
    pub(super) read_back: u64,
    /// How often that did not show it.
    pub(super) unseen: u64,
    /// Elements that were not there when read back: gone, unless they were taken out meanwhile.
    pub(super) suspects: Vec<u32>,
}

impl Ledger {
    /// A write of the case was acknowledged, and has changed something.
    pub(super) fn acknowledge(&mut self, case: &Case, place: Place, id: u64) {
        let counted = match case.is_of_counters() {
            // Which of its shards has a counter's amount is not known.
            true => place.whole(),
            false => place,
        };
        *self.acked.entry(counted).or_default() += 1;
        if case.settings.write == Write::AddUnique {
            self.elements.push(id as u32);
        }
    }

    /// Adds another's.
    pub(super) fn add(&mut self, other: Self) {
        for (place, count) in other.acked {
            *self.acked.entry(place).or_default() += count;
        }
        self.elements.extend(other.elements);
        self.repeated += other.repeated;
        self.trimmed.extend(other.trimmed);
        self.in_doubt += other.in_doubt;
        self.read_back += other.read_back;
        self.unseen += other.unseen;
        self.suspects.extend(other.suspects);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acked.values().sum()
    }
}

/// Acknowledged = found?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Correctness {
    /// Acknowledged writes, those while warming up among them.
    pub acknowledged: u64,
    /// How many of them were found.
    pub found: u64,
    /// Those that were not.
    pub lost: u64,
    /// What was applied more often than it was acknowledged, or without having been acknowledged.
    pub duplicates: u64,
    /// Writes that were read back right after they were acknowledged.
    pub read_back: u64,
    /// Those that were not seen then.
    pub invisible: u64,
    /// Writes that failed without its being known whether they were applied.
    pub in_doubt: u64,
}

impl Correctness {
    /// Whether nothing was lost, nothing was applied twice, and nothing was invisible.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.lost == 0 && self.duplicates == 0 && self.invisible == 0
    }

    /// Adds those of another row.
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.found += other.found;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.read_back += other.read_back;
        self.invisible += other.invisible;
        self.in_doubt += other.in_doubt;
    }

    /// By counts: what each record should hold, and what it holds.
    pub(super) fn of_counts(ledger: &Ledger, found: impl Fn(&Place) -> u64) -> Self {
        let mut sum = Self::begin(ledger);
        let mut surplus = 0;
        for (place, acked) in &ledger.acked {
            let found = found(place);
            sum.found += found.min(*acked);
            sum.lost += acked.saturating_sub(found);
            surplus += found.saturating_sub(*acked);
        }
        sum.duplicates = surplus.saturating_sub(ledger.in_doubt);
        sum.invisible = ledger.unseen;
        sum
    }

    /// By elements: those that are found in the lists, each as often as it is there.
    pub(super) fn of_elements(ledger: &Ledger, in_lists: Vec<u32>) -> Self {
        let mut sum = Self::begin(ledger);
        let mut found = in_lists;
        found.extend(&ledger.trimmed);
        let times = found.len() as u64;
        let found: BTreeSet<u32> = found.into_iter().collect();
        let acked: BTreeSet<u32> = ledger.elements.iter().copied().collect();
        sum.found = acked.intersection(&found).count() as u64;
        sum.lost = acked.len() as u64 - sum.found;
        let never_acked = found.difference(&acked).count() as u64;
        // One that was said to be there already had been added by a call that did not say so.
        let unsaid = ledger.in_doubt + ledger.repeated;
        sum.duplicates =
            times - found.len() as u64 + never_acked.saturating_sub(unsaid) + ledger.repeated;
        let trimmed: BTreeSet<u32> = ledger.trimmed.iter().copied().collect();
        let gone = |element: &&u32| !trimmed.contains(element);
        sum.invisible = ledger.unseen + ledger.suspects.iter().filter(gone).count() as u64;
        sum
    }

    fn begin(ledger: &Ledger) -> Self {
        Self {
            acknowledged: ledger.acknowledged(),
            read_back: ledger.read_back,
            in_doubt: ledger.in_doubt,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::layout::Layout;

    fn place(key: u32) -> Place {
        Place::of(Layout::Hashed(1), key, 0, 0)
    }

    #[test]
    fn a_record_that_holds_less_than_was_acknowledged_has_lost_writes_whatever_others_hold() {
        let ledger = Ledger {
            acked: HashMap::from([(place(0), 10), (place(1), 10), (place(2), 5)]),
            unseen: 1,
            ..Ledger::default()
        };
        let held = HashMap::from([(place(0), 7), (place(1), 12), (place(2), 5)]);
        let found = Correctness::of_counts(&ledger, |place| held[place]);
        let counts = (
            found.acknowledged,
            found.found,
            found.lost,
            found.duplicates,
        );
        assert_eq!(counts, (25, 22, 3, 2));
        assert_eq!(found.invisible, 1);
        assert!(!found.holds());
    }

    #[test]
    fn what_is_in_doubt_may_have_been_applied() {
        let ledger = Ledger {
            acked: HashMap::from([(place(0), 10)]),
            in_doubt: 2,
            ..Ledger::default()
        };
        assert!(Correctness::of_counts(&ledger, |_| 12).holds());
        assert!(!Correctness::of_counts(&ledger, |_| 13).holds());
    }

    #[test]
    fn elements_are_lost_doubled_or_there_without_having_been_acknowledged() {
        let ledger = || Ledger {
            acked: HashMap::from([(place(0), 4)]),
            elements: vec![1, 2, 3, 4],
            trimmed: vec![1],
            suspects: vec![1],
            ..Ledger::default()
        };
        assert!(Correctness::of_elements(&ledger(), vec![2, 3, 4]).holds());
        let of = |lists: &[u32]| {
            let found = Correctness::of_elements(&ledger(), lists.to_vec());
            (found.lost, found.duplicates, found.invisible)
        };
        assert_eq!(of(&[2, 3]), (1, 0, 0));
        assert_eq!(of(&[2, 3, 3, 4]), (0, 1, 0));
        assert_eq!(
            of(&[1, 2, 3, 4]),
            (0, 1, 0),
            "was taken out, and is there again"
        );
        assert_eq!(of(&[2, 3, 4, 9]), (0, 1, 0));
        let unseen = Ledger {
            suspects: vec![2],
            ..ledger()
        };
        assert_eq!(
            Correctness::of_elements(&unseen, vec![2, 3, 4]).invisible,
            1
        );
    }
}
