//! Where a collection was at the last call, for all threads that share a handle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::protocol::{CompanionRoute, NeighborCollections, RouteHint};
use super::scheme::Epoch;
use crate::record::companion_key::KeyForm;

/// Holds the latest finding, and the count of lost roots at that time: after a further one it may
/// be wrong. Recalling takes no lock.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    packed: AtomicU64,
    lost_roots: AtomicU64,
    /// Held by the thread that stores.
    storing: Mutex<()>,
}

impl RouteCache {
    /// Returns the finding, if no root has been lost since; `lost_roots`: how many have been lost
    /// by now.
    pub(crate) fn recall(&self, lost_roots: u64) -> RouteHint {
        if self.lost_roots.load(Ordering::Acquire) == lost_roots {
            unpacked(self.packed.load(Ordering::Relaxed))
        } else {
            RouteHint::Unknown
        }
    }

    /// Takes the finding of a call that began when `lost_roots` roots had been lost. Returns
    /// whether it is new.
    pub(crate) fn learn(&self, learned: RouteHint, lost_roots: u64) -> bool {
        let packed = packed(learned);
        let is_known = || {
            self.lost_roots.load(Ordering::Acquire) == lost_roots
                && self.packed.load(Ordering::Relaxed) == packed
        };
        if is_known() {
            return false;
        }
        let _alone = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        // A call that began before a root was lost does not know the present state.
        if lost_roots < self.lost_roots.load(Ordering::Relaxed) || is_known() {
            return false;
        }
        self.packed.store(packed, Ordering::Relaxed);
        // A reader of this number sees all stores before it.
        self.lost_roots.store(lost_roots, Ordering::Release);
        true
    }
}

/// The finding in one word: two bits for its kind, for companions a bit for their keys, from which
/// power of two on these stand apart, the power of two of their number, and the epoch: of 54 bits,
/// enough for 500 years of microseconds.
const NOTHING: u64 = 0;
const WHOLE: u64 = 1;
const SHARDED: u64 = 2;
const SHARDED_BY_BIN: u64 = 3;
const KIND_BITS: u32 = 2;
const POWER_BITS: u32 = 4;

const fn packed(remembered: RouteHint) -> u64 {
    match remembered {
        RouteHint::Unknown => NOTHING,
        RouteHint::Unsharded(NeighborCollections::None) => WHOLE,
        RouteHint::Unsharded(NeighborCollections::Sharded) => WHOLE | 1 << KIND_BITS,
        RouteHint::Sharded(route) => {
            let kind = if route.keys.by_bin() {
                SHARDED_BY_BIN
            } else {
                SHARDED
            };
            let apart = match route.keys {
                KeyForm::Apart { from: 0, .. } => 1,
                KeyForm::Apart { from, .. } => 2 + from.trailing_zeros() as u64,
                KeyForm::Plain | KeyForm::ByBin => 0,
            };
            let power = route.shards.trailing_zeros() as u64;
            let epoch = route.epoch.0 << POWER_BITS | apart;
            (epoch << POWER_BITS | power) << KIND_BITS | kind
        }
    }
}

const fn unpacked(packed: u64) -> RouteHint {
    let (kind, rest) = (packed & 3, packed >> KIND_BITS);
    let keys = match kind {
        NOTHING => return RouteHint::Unknown,
        WHOLE if rest == 0 => return RouteHint::Unsharded(NeighborCollections::None),
        WHOLE => return RouteHint::Unsharded(NeighborCollections::Sharded),
        SHARDED => KeyForm::Plain,
        _ => KeyForm::ByBin,
    };
    let (power, rest) = (rest & ((1 << POWER_BITS) - 1), rest >> POWER_BITS);
    let keys = match rest & ((1 << POWER_BITS) - 1) {
        0 => keys,
        1 => keys.apart(0),
        power => keys.apart(1 << (power - 2)),
    };
    RouteHint::Sharded(CompanionRoute {
        shards: 1 << power,
        epoch: Epoch(rest >> POWER_BITS),
        keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(epoch: u64, shards: u64, keys: KeyForm) -> RouteHint {
        RouteHint::Sharded(CompanionRoute {
            shards,
            epoch: Epoch(epoch),
            keys,
        })
    }

    #[test]
    fn what_is_learned_is_recalled_as_it_was() {
        // Microseconds of the year 2100.
        let late = 90 * 366 * 86_400 * 1_000_000;
        for learned in [
            route(1, 1, KeyForm::Plain),
            route(late, 4_096, KeyForm::Plain),
            route(late, 4_096, KeyForm::ByBin),
            route(late, 4_096, KeyForm::Plain.apart(0)),
            route(late, 4_096, KeyForm::ByBin.apart(2_048)),
            route(1, 8, KeyForm::Plain.apart(1)),
            RouteHint::Unsharded(NeighborCollections::None),
            RouteHint::Unsharded(NeighborCollections::Sharded),
            RouteHint::Unknown,
        ] {
            let memory = RouteCache::default();
            memory.learn(learned, 0);
            assert_eq!(memory.recall(0), learned);
            assert!(!memory.learn(learned, 0));
        }
    }

    #[test]
    fn what_was_learned_before_a_root_was_lost_is_forgotten_and_stays_so() {
        let memory = RouteCache::default();
        let (old, new) = (
            route(5, 2, KeyForm::Plain),
            RouteHint::Unsharded(NeighborCollections::None),
        );
        assert!(memory.learn(old, 3));
        assert_eq!(memory.recall(3), old);
        assert_eq!(memory.recall(4), RouteHint::Unknown);
        assert!(memory.learn(new, 4));
        // A call that has been under way for long.
        assert!(!memory.learn(old, 3));
        assert_eq!(memory.recall(4), new);
    }
}
