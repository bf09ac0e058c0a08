//! The acknowledged writes, to be compared with the stored ones.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::case::{Case, Settings, Write};
use super::put_history::PutHistory;
use super::routing::{HotRoute, INITIAL_FROM};

/// The acknowledged writes of a row.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// How many, for each record.
    pub(super) acked: HashMap<HotRoute, u64>,
    /// Which elements; of added elements only.
    pub(super) elements: Vec<u32>,
    /// Added elements that were said to be there already.
    pub(super) repeated: u64,
    /// Elements that were taken out to keep the lists short, with their hot keys: each was found.
    pub(super) trimmed: Vec<(u32, u32)>,
    /// Writes of which it is not known whether they were applied.
    pub(super) in_doubt: Vec<u64>,
    /// The acknowledged puts to each record; of a row that is looked at again.
    pub(super) puts: HashMap<HotRoute, PutHistory>,
    /// How often a write was read back right after its acknowledgement.
    pub(super) read_back: u64,
    /// How often that did not show it.
    pub(super) unseen: u64,
    /// Elements that were not there when read back: gone, unless they were taken out meanwhile.
    pub(super) suspects: Vec<u32>,
}

impl Ledger {
    /// Adds an acknowledged write that has changed something.
    pub(super) fn acknowledge(&mut self, case: &Case, route: HotRoute, id: u64) {
        let counted = if case.is_of_counters() {
            // Which of its shards has a counter's amount is not known.
            route.whole()
        } else {
            route
        };
        *self.acked.entry(counted).or_default() += 1;
        if case.settings.write == Write::AddUnique {
            self.elements.push(id as u32);
        }
    }

    /// Adds another's.
    pub(super) fn add(&mut self, other: Self) {
        for (route, count) in other.acked {
            *self.acked.entry(route).or_default() += count;
        }
        self.elements.extend(other.elements);
        self.repeated += other.repeated;
        self.trimmed.extend(other.trimmed);
        self.in_doubt.extend(other.in_doubt);
        self.read_back += other.read_back;
        self.unseen += other.unseen;
        self.suspects.extend(other.suspects);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acked.values().sum()
    }
}

/// The elements in the lists before the row begins: the same for each hot key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InitialElements {
    hot_keys: u32,
    each: u32,
}

impl InitialElements {
    pub(super) fn of(settings: &Settings) -> Self {
        let is_filled = settings.write == Write::AddUnique;
        Self {
            hot_keys: settings.hot_keys,
            each: if is_filled { settings.elements } else { 0 },
        }
    }

    /// Returns the numbers of a hot key's initial elements.
    pub(super) fn numbers(self) -> std::ops::Range<u64> {
        INITIAL_FROM..INITIAL_FROM + u64::from(self.each)
    }

    fn count(self) -> u64 {
        u64::from(self.hot_keys) * u64::from(self.each)
    }

    /// Returns whether a hot key has an initial element of this number.
    fn has(self, (key, id): (u32, u32)) -> bool {
        key < self.hot_keys && self.numbers().contains(&u64::from(id))
    }
}

/// Acknowledged = found?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Correctness {
    /// Acknowledged writes, those while warming up among them.
    pub(crate) acknowledged: u64,
    /// How many of them were found.
    pub(crate) found: u64,
    /// Acknowledged writes that were not found, and elements that were in the lists before the row
    /// began and are no longer.
    pub(crate) lost: u64,
    /// Writes applied more often than acknowledged, or without an acknowledgement;
    /// and elements that were in the lists before the row began, each time that they are there
    /// again.
    pub(crate) duplicates: u64,
    /// Writes that were read back right after they were acknowledged.
    pub(crate) read_back: u64,
    /// Acknowledged writes that were not seen then.
    pub(crate) invisible: u64,
    /// Writes that failed without its being known whether they were applied.
    pub(crate) in_doubt: u64,
}

impl Correctness {
    /// Returns whether nothing was lost, nothing was applied twice, and nothing was invisible.
    pub(crate) const fn holds(&self) -> bool {
        self.lost == 0 && self.duplicates == 0 && self.invisible == 0
    }

    /// Adds the figures of another row.
    pub(super) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.found += other.found;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.read_back += other.read_back;
        self.invisible += other.invisible;
        self.in_doubt += other.in_doubt;
    }

    /// Compares counts: the expected count of each record, and the stored one.
    pub(super) fn of_counts(ledger: &Ledger, found: impl Fn(&HotRoute) -> u64) -> Self {
        let mut sum = Self::begin(ledger);
        let mut surplus = 0;
        for (route, acked) in &ledger.acked {
            let found = found(route);
            sum.found += found.min(*acked);
            sum.lost += acked.saturating_sub(found);
            surplus += found.saturating_sub(*acked);
        }
        sum.duplicates = surplus.saturating_sub(ledger.in_doubt.len() as u64);
        sum.invisible = ledger.unseen;
        sum
    }

    /// Counts `records` more as lost: they show the value of a put that another had replaced.
    pub(super) const fn with_replaced(mut self, records: u64) -> Self {
        self.found = self.found.saturating_sub(records);
        self.lost += records;
        self
    }

    /// Compares elements: `in_lists` are those found in the lists of the hot keys, each as often as
    /// it is there.
    pub(super) fn of_elements(
        ledger: &Ledger,
        in_lists: Vec<(u32, u32)>,
        beforehand: InitialElements,
    ) -> Self {
        let mut sum = Self::begin(ledger);
        let mut all = in_lists;
        all.extend(&ledger.trimmed);
        let (of_before, of_writes): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| beforehand.has(*one));
        let times_before = of_before.len() as u64;
        let of_before: BTreeSet<(u32, u32)> = of_before.into_iter().collect();
        let still_there = of_before.len() as u64;
        let times = of_writes.len() as u64;
        // Each write has a number of its own, whichever its hot key is.
        let found: BTreeSet<u32> = of_writes.into_iter().map(|(_, id)| id).collect();
        let acked: BTreeSet<u32> = ledger.elements.iter().copied().collect();
        sum.found = acked.intersection(&found).count() as u64;
        sum.lost = acked.len() as u64 - sum.found + beforehand.count() - still_there;
        let never_acked = found.difference(&acked).count() as u64;
        // One that was said to be there already had been added by a call that did not say so.
        let unsaid = ledger.in_doubt.len() as u64 + ledger.repeated;
        sum.duplicates =
            times - found.len() as u64 + never_acked.saturating_sub(unsaid) + ledger.repeated;
        sum.duplicates += times_before - still_there;
        let trimmed: BTreeSet<u32> = ledger.trimmed.iter().map(|(_, id)| *id).collect();
        let gone = |element: &&u32| !trimmed.contains(element);
        sum.invisible = ledger.unseen + ledger.suspects.iter().filter(gone).count() as u64;
        sum
    }

    /// Counts everything as lost: nothing can be read.
    pub(super) fn of_nothing(ledger: &Ledger) -> Self {
        let begun = Self::begin(ledger);
        Self {
            lost: begun.acknowledged,
            ..begun
        }
    }

    fn begin(ledger: &Ledger) -> Self {
        Self {
            acknowledged: ledger.acknowledged(),
            read_back: ledger.read_back,
            in_doubt: ledger.in_doubt.len() as u64,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::layout::RowLayout;

    fn route(key: u32) -> HotRoute {
        HotRoute::of(RowLayout::Hashed(1), key, 0, 0)
    }

    #[test]
    fn a_record_that_holds_less_than_was_acknowledged_has_lost_writes_whatever_others_hold() {
        let ledger = Ledger {
            acked: HashMap::from([(route(0), 10), (route(1), 10), (route(2), 5)]),
            unseen: 1,
            ..Ledger::default()
        };
        let held = HashMap::from([(route(0), 7), (route(1), 12), (route(2), 5)]);
        let found = Correctness::of_counts(&ledger, |route| held[route]);
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
            acked: HashMap::from([(route(0), 10)]),
            in_doubt: vec![8, 9],
            ..Ledger::default()
        };
        assert!(Correctness::of_counts(&ledger, |_| 12).holds());
        assert!(!Correctness::of_counts(&ledger, |_| 13).holds());
    }

    #[test]
    fn elements_are_lost_doubled_or_there_without_having_been_acknowledged() {
        let ledger = || Ledger {
            acked: HashMap::from([(route(0), 4)]),
            elements: vec![1, 2, 3, 4],
            trimmed: vec![(0, 1)],
            suspects: vec![1],
            ..Ledger::default()
        };
        let check = |ledger: &Ledger, list: &[u32]| {
            let in_lists = list.iter().map(|id| (0, *id)).collect();
            Correctness::of_elements(ledger, in_lists, InitialElements::default())
        };
        assert!(check(&ledger(), &[2, 3, 4]).holds());
        let of = |list: &[u32]| {
            let found = check(&ledger(), list);
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
        assert_eq!(check(&unseen, &[2, 3, 4]).invisible, 1);
    }

    #[test]
    fn what_was_in_the_lists_beforehand_is_there_once_for_each_hot_key() {
        let before = INITIAL_FROM as u32;
        let ledger = Ledger {
            acked: HashMap::from([(route(0), 1)]),
            elements: vec![7],
            trimmed: vec![(0, before)],
            ..Ledger::default()
        };
        let beforehand = InitialElements {
            hot_keys: 2,
            each: 2,
        };
        let of = |lists: &[(u32, u32)]| {
            let found = Correctness::of_elements(&ledger, lists.to_vec(), beforehand);
            assert_eq!((found.acknowledged, found.found), (1, 1));
            (found.lost, found.duplicates)
        };
        let whole = [(0, 7), (0, before + 1), (1, before), (1, before + 1)];
        assert_eq!(of(&whole), (0, 0));
        assert_eq!(of(&whole[..3]), (1, 0));
        assert_eq!(of(&[&whole[..], &[(0, before)]].concat()), (0, 1));
        // In the place of that of another key.
        assert_eq!(of(&[&whole[..2], &[(0, before)]].concat()), (2, 1));
        let never_there = [&whole[..], &[(0, before + 2)]].concat();
        assert_eq!(of(&never_there), (0, 1));
    }
}
