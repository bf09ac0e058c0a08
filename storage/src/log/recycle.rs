//! Slots of superseded entries that nobody was promised, ready for the next entry that fits.

use crate::location::Location;

/// Spans up to this many 16-byte units (1 KiB) are kept exactly.
const EXACT_UNITS: u32 = 64;
/// Larger spans are rounded up to one of 32 steps a doubling: at most 1/32 of an entry is lost to it.
const STEPS_LOG2: u32 = 5;
const CLASSES: usize = class_of(1 << 20) + 1;

/// The most free slots a lane keeps; beyond it, dead entries wait for defragmentation. 12 MiB of memory a lane at most.
const SLOTS_MAX: usize = 1 << 19;

/// The span that an entry of at least `units` is given.
pub(crate) const fn rounded(units: u32) -> u32 {
    if units <= EXACT_UNITS {
        return units;
    }
    let step = 1 << (units.ilog2() - STEPS_LOG2);
    units.div_ceil(step) * step
}

const fn class_of(rounded: u32) -> usize {
    if rounded <= EXACT_UNITS {
        return rounded as usize;
    }
    let doubling = rounded.ilog2();
    let step = (rounded >> (doubling - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
    (EXACT_UNITS + ((doubling - EXACT_UNITS.ilog2()) << STEPS_LOG2) + step) as usize
}

/// A place where an entry was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeSlot {
    pub(crate) location: Location,
    pub(crate) units: u32,
    /// The life of the block in which it was freed.
    pub(crate) incarnation: u64,
}

/// Free slots by size.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    classes: Box<[Vec<FreeSlot>]>,
    count: usize,
}

impl Default for FreeSlots {
    fn default() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Vec::new()).collect(),
            count: 0,
        }
    }
}

impl FreeSlots {
    pub(crate) fn put(&mut self, slot: FreeSlot) {
        if self.count >= SLOTS_MAX {
            return;
        }
        if let Some(class) = self.classes.get_mut(class_of(slot.units)) {
            class.push(slot);
            self.count += 1;
        }
    }

    /// The latest freed slot (its bytes are likely in the cache) of the same size, or up to 1/16 larger.
    pub(crate) fn take(&mut self, units: u32) -> Option<FreeSlot> {
        if self.count == 0 {
            return None;
        }
        let (first, last) = (
            class_of(rounded(units)),
            class_of(rounded(units + units / 16)),
        );
        let slot = self
            .classes
            .get_mut(first..=last)?
            .iter_mut()
            .find_map(Vec::pop)?;
        self.count -= 1;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_loses_at_most_a_thirty_second_and_classes_rise_with_the_span() {
        let mut last = 0;
        for units in 1..(1u32 << 19) {
            let given = rounded(units);
            assert!(
                given >= units && given - units <= units / 32,
                "{units} -> {given}"
            );
            assert_eq!(rounded(given), given);
            assert!(class_of(given) >= last && class_of(given) < CLASSES);
            last = class_of(given);
        }
    }

    #[test]
    fn a_slot_serves_spans_up_to_a_sixteenth_smaller_and_no_larger_one() {
        let slot = FreeSlot {
            location: Location::new(0, 1 << 20),
            units: 320,
            incarnation: 1,
        };
        for (wanted, fits) in [(321, false), (320, true), (304, true), (280, false)] {
            let mut slots = FreeSlots::default();
            slots.put(slot);
            assert_eq!(slots.take(wanted).is_some(), fits, "{wanted}");
            assert_eq!(slots.count, usize::from(!fits));
        }
    }
}
