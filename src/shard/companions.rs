//! What every call on a companion needs, kept from call to call: its key, and the filter that says
//! that it is still open.

use std::sync::{OnceLock, PoisonError, RwLock};

use super::arithmetic::SHARDS_MAX;
use crate::{Expression, Key};

/// So many companions are kept side by side: a handle that meets one of 4,096 is to make room for
/// few others.
const PAGE: usize = 8;

/// Each level has as many pages as all before it together, the first two have one: a handle makes
/// room by the numbers that it meets.
const LEVELS: usize = (SHARDS_MAX as usize / PAGE).ilog2() as usize + 1;

/// The companions that a handle has met, by their numbers; `C` identifies one among all that had
/// its number.
#[derive(Debug)]
pub(crate) struct Companions<C> {
    levels: [OnceLock<Box<[CompanionPage<C>]>>; LEVELS],
}

type CompanionPage<C> = OnceLock<Box<[Kept<C>]>>;

#[derive(Debug)]
struct Kept<C> {
    key: OnceLock<Key<'static>>,
    /// The last companion of this number, and the value for it while it is open.
    open: RwLock<Option<(C, Expression)>>,
}

impl<C> Default for Companions<C> {
    fn default() -> Self {
        let levels = [const { OnceLock::new() }; LEVELS];
        Self { levels }
    }
}

impl<C> Kept<C> {
    const fn new() -> Self {
        Self {
            key: OnceLock::new(),
            open: RwLock::new(None),
        }
    }
}

/// How many pages there are before a level.
const fn before(level: usize) -> usize {
    if level == 0 { 0 } else { 1 << (level - 1) }
}

impl<C: PartialEq> Companions<C> {
    fn kept(&self, shard: u64) -> Option<&Kept<C>> {
        let shard = usize::try_from(shard).ok()?;
        let page = shard / PAGE;
        let level = (usize::BITS - page.leading_zeros()) as usize;
        let pages = self.levels.get(level)?.get_or_init(|| {
            (0..before(level).max(1))
                .map(|_| CompanionPage::new())
                .collect()
        });
        let page = pages
            .get(page - before(level))?
            .get_or_init(|| (0..PAGE).map(|_| Kept::new()).collect());
        page.get(shard % PAGE)
    }

    /// The key of a companion: `make` is asked for it once.
    pub(crate) fn key(&self, shard: u64, make: impl FnOnce() -> Key<'static>) -> Key<'_> {
        match self.kept(shard) {
            Some(kept) => Key::from(kept.key.get_or_init(make)),
            None => make(),
        }
    }

    /// The value for an open companion; `make` makes it anew for another companion.
    pub(crate) fn filter(
        &self,
        shard: u64,
        companion: C,
        make: impl FnOnce() -> Expression,
    ) -> Expression {
        let Some(kept) = self.kept(shard) else {
            return make();
        };
        // The value in the lock is whole after a panic, too.
        if let Some((open, filter)) = &*kept.open.read().unwrap_or_else(PoisonError::into_inner)
            && *open == companion
        {
            return filter.clone();
        }
        let filter = make();
        let mut open = kept.open.write().unwrap_or_else(PoisonError::into_inner);
        *open = Some((companion, filter.clone()));
        filter
    }

    /// Lets go of the filters: there are other companions now. O(companions met).
    pub(crate) fn forget(&self) {
        let pages = self.levels.iter().filter_map(OnceLock::get).flatten();
        for kept in pages.filter_map(OnceLock::get).flatten() {
            *kept.open.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expressions::val;

    #[test]
    fn every_companion_has_its_own_place() {
        let companions = Companions::default();
        let numbers = [0, 1, 7, 8, 15, 16, 17, 31, 32, 2_047, 2_048, SHARDS_MAX - 1];
        let ask = |shard: u64, epoch: u64| {
            let mut asked = false;
            companions.filter(shard, epoch, || {
                asked = true;
                val(shard as i64)
            });
            asked
        };
        for shard in numbers {
            let made = || Key::Integer(shard as i64);
            assert_eq!(companions.key(shard, made), made());
            let never = || unreachable!("the key is kept");
            assert_eq!(companions.key(shard, never), made());
            assert!(ask(shard, 1));
        }
        assert!(numbers.iter().all(|shard| !ask(*shard, 1)));
        assert!(ask(16, 2) && !ask(16, 2) && !ask(17, 1));
        companions.forget();
        assert!(numbers.iter().all(|shard| ask(*shard, 1)));
        assert!(companions.kept(SHARDS_MAX).is_none());
    }
}
