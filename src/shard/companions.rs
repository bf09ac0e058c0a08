//! What every call on a companion needs, kept from call to call: its key, and how it is written while it is open.

use std::sync::{OnceLock, PoisonError, RwLock};

use super::arithmetic::SHARDS_MAX;
use super::route::companion_key;
use crate::{Key, WritePolicy};

/// So many companions are kept side by side: a handle that meets one of 4,096 is to make room for few others.
const PAGE: usize = 16;
const PAGES: usize = SHARDS_MAX as usize / PAGE;

/// The companions that a handle has met, by their numbers; `C`: what tells one from those that had its number before.
#[derive(Debug)]
pub(crate) struct Companions<C> {
    pages: OnceLock<Box<[Page<C>]>>,
}

type Page<C> = OnceLock<Box<[Kept<C>]>>;

#[derive(Debug)]
struct Kept<C> {
    key: OnceLock<Key<'static>>,
    /// Which companion it was last, and how that is written.
    open: RwLock<Option<(C, WritePolicy)>>,
}

impl<C> Default for Companions<C> {
    fn default() -> Self {
        let pages = OnceLock::new();
        Self { pages }
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

impl<C: PartialEq> Companions<C> {
    fn kept(&self, shard: u64) -> Option<&Kept<C>> {
        let shard = usize::try_from(shard).ok()?;
        let pages = self
            .pages
            .get_or_init(|| (0..PAGES).map(|_| Page::new()).collect());
        let page = pages
            .get(shard / PAGE)?
            .get_or_init(|| (0..PAGE).map(|_| Kept::new()).collect());
        page.get(shard % PAGE)
    }

    /// The key of a companion of this root.
    pub(crate) fn key(&self, root: &Key<'static>, shard: u64) -> Key<'_> {
        match self.kept(shard) {
            Some(kept) => Key::from(kept.key.get_or_init(|| companion_key(root, shard))),
            None => companion_key(root, shard),
        }
    }

    /// How an open companion is written: `make` is asked when it has become another one.
    pub(crate) fn policy(
        &self,
        shard: u64,
        companion: C,
        make: impl FnOnce() -> WritePolicy,
    ) -> WritePolicy {
        let Some(kept) = self.kept(shard) else {
            return make();
        };
        // What is in the lock is whole, whoever has panicked.
        if let Some((open, policy)) = &*kept.open.read().unwrap_or_else(PoisonError::into_inner)
            && *open == companion
        {
            return policy.clone();
        }
        let policy = make();
        let mut open = kept.open.write().unwrap_or_else(PoisonError::into_inner);
        *open = Some((companion, policy.clone()));
        policy
    }
}
